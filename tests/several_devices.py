"""Devices ``cpu:0``, ``cpu:1``, …, which refuse to mix as GPUs do.

:func:`several_devices` opens them. A tensor that is moved or made there computes on the CPU and
carries its device: an operation on tensors of two of them fails, as on two GPUs; so does one with a
tensor of the plain ``cpu``, unless this is a single number, or an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

aten = torch.ops.aten
HOST = torch.device("cpu")
INDEXING = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)


class PlacedTensor(Tensor):
    """A tensor of the CPU that says it is on another device."""

    @staticmethod
    def __new__(cls, inner: Tensor, device: torch.device) -> PlacedTensor:
        placed: PlacedTensor = Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=device,
        )
        return placed

    def __init__(self, inner: Tensor, device: torch.device) -> None:
        self.inner = inner

    def __repr__(self, **_: Any) -> str:
        return f"{self.inner!r} on {self.device}"

    def tolist(self) -> Any:
        return self.inner.tolist()

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:  # module.to() exchanges it
        Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self.inner = _inner(value)

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = PlacedTensor(self.inner.clone(), self.device)
        out = nn.Parameter(copied, self.requires_grad) if isinstance(self, nn.Parameter) else copied
        memo[id(self)] = out
        return out

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _placed(func, args, kwargs or {})


class _Placing(TorchDispatchMode):
    """Tensors that are made on, or moved to, one of the devices."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _placed(func, args, kwargs or {})


def _placed(func: Any, args: Any, kwargs: Any) -> Any:
    """One operation: on the numbers, with the device that its result has."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    device = kwargs.get("device")
    if device is None and tensors:
        device = _common(func, args, tensors)
    inner_of = {id(one.inner): one for one in tensors if isinstance(one, PlacedTensor)}
    if "device" in kwargs:
        kwargs = {**kwargs, "device": HOST}
    args, kwargs = tree_map(_inner, (args, kwargs))
    out = func(*args, **kwargs)

    def place(value: Any) -> Any:
        if not isinstance(value, Tensor) or device is None or device.index is None:
            return value
        written = inner_of.get(id(value))  # an operation in place returns what it was given
        return PlacedTensor(value, device) if written is None else written

    return tree_map(place, out)


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, PlacedTensor) else value


def _common(func: Any, args: Any, tensors: list[Tensor]) -> torch.device:
    """The one device of an operation."""
    if func is aten.copy_.default:
        return args[0].device
    needed = tensors
    if func in INDEXING:
        needed = [args[0], *(one for one in args[2:] if isinstance(one, Tensor))]
        needed += [one for one in args[1] if one is not None and one.device != HOST]
    devices = {one.device for one in needed if one.device != HOST or one.ndim}
    if len(devices) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{' and '.join(sorted(map(str, devices)))}! (in {func})"
        )
    return devices.pop() if devices else HOST


@contextmanager
def several_devices() -> Iterator[None]:
    def moved(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """``torch.tensor(numbers, device=…)`` copies past every dispatch."""

        def make_there(*args: Any, device: Any = None, **kwargs: Any) -> Tensor:
            if device is None or torch.device(device).index is None:
                return make(*args, **kwargs, device=device)
            return make(*args, **kwargs).to(device)

        return make_there

    future = torch.__future__
    overwrites = future.get_overwrite_module_params_on_conversion()
    future.set_overwrite_module_params_on_conversion(True)  # module.to() makes placed parameters
    _device_constructors()  # "with torch.device(...)" knows functions by what they are at first
    with (
        patch.object(torch, "tensor", moved(torch.tensor)),
        patch.object(torch, "as_tensor", moved(torch.as_tensor)),
        _Placing(),
    ):
        try:
            yield
        finally:
            future.set_overwrite_module_params_on_conversion(overwrites)


def dispatched(module: nn.Module, split: dict[str, str]) -> nn.Module:
    """The module, as ``from_pretrained(device_map=split)`` leaves it."""
    from accelerate import dispatch_model

    return dispatch_model(
        module, split, main_device="cpu:0", skip_keys=module._skip_keys_device_placement
    )
