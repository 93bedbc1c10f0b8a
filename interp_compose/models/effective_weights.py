"""The weights that act, whatever holds them: an adapter, a wrapper, a reparametrisation.

What a module does is its weight. A projection or table that is no plain layer is run in float64: a
plain layer inside it that computes the same has the weight that acts. Else the weight is measured,
W = f(I) - f(0) and b = f(0), and f has to be that map on random input.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import CellType, FunctionType, MethodType
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformer_lens.model_bridge import generalized_components as parts_of_lens
from transformers.pytorch_utils import Conv1D

from interp_compose.errors import CapabilityError, warn
from interp_compose.models.found_hooks import of_a_framework

HOLDERS: Final = (
    *(parts_of_lens.EmbeddingBridge, parts_of_lens.PosEmbedBridge),
    *(parts_of_lens.LinearBridge, parts_of_lens.UnembeddingBridge),
)
"""TransformerLens' parts that hold one table or projection, as :data:`INSERTED`."""
INSERTED: Final = "_original_component"
PLAIN: Final = (
    *("torch.nn.modules.", "transformers.models.", "transformers.pytorch_utils"),
    *("transformer_lens.", "accelerate."),
)
"""Where forward passes are written that multiply by ``weight`` as it is."""


def holders(*parts: Any, name: str) -> list[nn.Module]:
    """Where in ``parts`` the weight or bias ``name`` is held: ``W_Q`` in ``q``."""
    kind = name.rpartition("_")[2].lower()
    key = {"e": "embed", "pos": "pos_embed", "u": "unembed"}.get(kind, kind)
    inside = [one for part in parts if isinstance(part, nn.Module) for one in part.modules()]
    held = [one._modules.get(child) for one in inside for child in (key, f"dense_{key}")]
    return [one for one in (*held, *parts) if isinstance(one, HOLDERS)]


@contextmanager
def acting(lens: nn.Module, *parts: Any, name: str = "") -> Iterator[bool]:
    """For a ``with`` block, plain layers with the weights that act in the place of whatever wraps
    layers in ``parts`` of ``lens``; with ``name``, where that is held. Gives whether any does.

    Raises:
        CapabilityError: what a module computes is no affine map; it is named.
    """
    roots = holders(*parts, name=name) if name else parts
    run: nn.Module | None = getattr(lens, "original_model", None)
    live = {id(one) for one in run.modules()} if run is not None and name else set()
    if live and any(id(root) not in live for root in roots):
        raise CapabilityError(
            f"the module that held {name} when the model was loaded is no part of it now: "
            "something replaced or removed it, and TransformerLens shows what was there. Change "
            "the module first, and load it again with load_model."
        )
    places = list(dict.fromkeys(place for root in roots for place in wrapped(root)))
    layers: dict[nn.Module, nn.Module | None] = {}
    for *_, module in places:
        with suppress(Exception):  # each wrapper raises its own
            layers[module] = layers.get(module) or _plain(module)
        if layers.get(module) is None:
            kind = f"{type(module).__module__}.{type(module).__qualname__}"
            raise CapabilityError(
                f"{path_of(lens, module)}, a {kind}, has no weight that could be read: what it "
                "computes is no affine map of its input alone. Merge it into a plain layer first "
                "(of peft: model.merge_and_unload() before load_model), or read its parts from "
                "model.state_dict()."
            )
    try:
        for holder, child, module in places:
            holder._modules[child] = layers[module]
        inside = (one for part in parts if isinstance(part, nn.Module) for one in part.modules())
        for one in inside:  # TransformerLens keeps the biases that an MLP had when it was wrapped
            if name in vars(one) and (current := holders(one, name=name)):
                vars(one)[name] = getattr(current[0], "bias", None)
        yield bool(places)
    finally:
        for holder, child, module in places:
            holder._modules[child] = module


def tell_of_hooks(lens: nn.Module, *names: str) -> None:
    """Warn, once, of the user's hooks where the weights ``names`` are held."""
    roots = (root for name in names for root in holders(lens, name=name))
    hooked = (one for root in roots for one in root.modules())
    paths = [path_of(lens, one) for one in hooked if not all(map(of_a_framework, _hooks(one)))]
    for path in paths[:1]:
        more = f" (and {len(paths) - 1} more)" if paths[1:] else ""
        warn(f"{path}{more} has forward hooks, and its weight is read without them")


def wrapped(root: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    """Outermost modules in ``root`` that are adapters, or no plain layer where one is held: what
    holds each, and by which name."""
    within: set[int] = set()
    for holder in root.modules():
        for child, module in holder._modules.items() if id(holder) not in within else ():
            if module is None:
                continue
            changed = "parametrizations" in module._modules or not _multiplies(module)
            held = isinstance(holder, HOLDERS) and child == INSERTED
            if type(module).__module__.startswith("peft.") or (held and changed):
                within |= {id(one) for one in module.modules()}
                yield holder, child, module


def places(
    lens: nn.Module, parts: Sequence[nn.Module]
) -> Iterator[tuple[nn.Module, list[str], nn.Module | None]]:
    """Where in ``lens`` and the model that it wraps are ``parts``, what they lie in, and what is
    wrapped in them: what holds each, and its path from there. Behind a list of ``parts`` is none.
    """
    run: nn.Module | None = getattr(lens, "original_model", None)
    inside = {one for part in parts for one in part.modules() if INSERTED in one._modules}
    for holder in () if run is None else (*run.modules(), lens):
        # A list is no part by itself: its entries are by number, and one more says that it ends.
        held: dict[str, nn.Module | None] = {}
        for child, part in holder._modules.items() if not isinstance(holder, nn.ModuleList) else ():
            if isinstance(part, nn.ModuleList):
                held |= {f"{child}.{number}": one for number, one in part._modules.items()}
                held |= {} if set(parts).isdisjoint(part) else {f"{child}.{len(part)}": None}
            elif child != INSERTED and part is not None:
                held[child] = part
        for path, one in held.items():
            if one is None or not inside.isdisjoint(one.modules()):
                yield holder, path.split("."), one


def is_at(holder: nn.Module, path: Sequence[str], part: nn.Module | None) -> bool:
    """Whether a part is at its one of :func:`places`, maybe inside of other wrappers."""
    current: nn.Module | None = holder
    for name in path:
        current = None if current is None else current._modules.get(name)
    while part is not None and current is not part and current is not None:
        current = current._modules.get(INSERTED)
    return current is part


def path_of(lens: nn.Module, module: nn.Module) -> str:
    model: nn.Module = getattr(lens, "original_model", lens)
    names: dict[nn.Module, str] = {lens: "lens"}
    names |= {one: name for name, one in model.named_modules()}
    return names.get(module, "a layer").replace(f".{INSERTED}", "")


def deep_copied(value: Any, memo: dict[int, Any]) -> Any:
    """A deep copy in which forward passes that were written into a module read the copy:
    :func:`copy.deepcopy` shares functions, and those of TransformerLens in Falcon hold modules of
    the original."""
    copied = copy.deepcopy(value, memo)

    def here(one: Any) -> Any:
        owner = getattr(one, "__self__", one)
        if not isinstance(owner, nn.Module) or id(owner) not in memo:
            return one
        copied_owner = memo[id(owner)]
        return (
            MethodType(one.__func__, copied_owner) if isinstance(one, MethodType) else copied_owner
        )

    for part in [one for one in memo.values() if isinstance(one, nn.Module)]:
        forward = vars(part).get("forward")
        function = getattr(forward, "__func__", forward)
        if isinstance(function, FunctionType):
            # The same code on new cells: each module that it holds is replaced by its copy.
            cells = tuple(CellType(here(cell.cell_contents)) for cell in function.__closure__ or ())
            defaults = tuple(map(here, function.__defaults__ or ()))
            twin = FunctionType(
                function.__code__, function.__globals__, function.__name__, defaults, cells
            )
            twin.__kwdefaults__ = function.__kwdefaults__
            part.forward = MethodType(twin, part) if isinstance(forward, MethodType) else twin
    return copied


def _hooks(module: nn.Module) -> tuple[Any, ...]:
    return (*module._forward_pre_hooks.values(), *module._forward_hooks.values())


def _multiplies(module: nn.Module) -> bool:
    """Whether it multiplies by its ``weight`` as that is now, which no hook of torch sets first."""
    forward = vars(module).get("forward", type(module).forward)
    written = str(getattr(forward, "func", forward).__module__)  # accelerate's is a partial
    setting = (type(one).__module__.startswith("torch.nn.utils") for one in _hooks(module))
    return written.startswith(PLAIN) and hasattr(module, "weight") and not any(setting)


def _plain(module: nn.Module) -> nn.Module | None:
    """A plain layer that computes what ``module`` does in evaluation mode; None where none does."""
    # 1. A plain layer by its class: the weight is an attribute, maybe one that torch computes.
    kinds = [kind for kind in (nn.Embedding, nn.Linear, Conv1D) if isinstance(module, kind)]
    # A bias that is a buffer is of zeros, added by TransformerLens.
    bias = None if "bias" in module._buffers else getattr(module, "bias", None)
    candidates = [_with(kind, module.weight, bias) for kind in kinds]
    if candidates and _multiplies(module):  # by a weight that torch's parametrizations compute
        return candidates[0]
    # 2. The input: random vectors as wide as some axis of a weight, the first width that f takes.
    # f reads [2 3 width] or, where no width fits, the ids 0 … rows-1 of a table.
    tensors = [one for one in (*module.parameters(), *module.buffers()) if one.is_floating_point()]
    sizes = sorted({size for one in tensors for size in one.shape if size > 1}, reverse=True)
    generator, f = torch.Generator().manual_seed(0), _function(module)
    vectors = (torch.randn(2, 3, n, generator=generator, dtype=torch.float64) for n in sizes)
    for given in (*vectors, *map(torch.arange, sizes)):  # a table takes no vectors
        x = given.to(tensors[0].device)
        with suppress(Exception):
            y = f(x)
            break
    is_table = not x.is_floating_point()
    # [out], relative to the largest value of each output; of a table to each entry.
    bound = 1e-6 * (y.abs() if is_table else y.abs().amax(dim=(0, 1))) + 1e-12
    # 3. A plain layer inside that computes the same: its weight is the one that acts.
    inner = [one for one in module.modules() if _multiplies(one) and one._parameters]
    for one in (*inner, *candidates):
        with suppress(Exception):
            if (_function(one)(x) - y).abs().le(bound).all():
                return one
    # 4. Else measured, and compared with f on input from which it was not measured.
    kind: Any
    bias = None
    if is_table:
        # Rows of the table are f of each id, less the scale that a forward pass multiplies with.
        # Reversed ids show whether a row depends on the id alone, not on its place.
        scales = (getattr(one, "embed_scale", None) for one in module.modules())
        weight = y / next((scale for scale in scales if scale is not None), 1.0)
        kind, computed = nn.Embedding, f(x.flip(0)[None])[0].flip(0)
    else:
        # b = f(0) [out] and W = f(I) - b, [in out] as in a Conv1D
        shift = f(torch.zeros_like(x[:1, :1]))[0, 0]
        weight = f(torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)[None])[0] - shift
        kind, computed = Conv1D, x @ weight + shift
        if getattr(module, "bias", None) is not None or shift.any():
            bias = shift.to(tensors[0].dtype)
        if not any(isinstance(one, Conv1D) for one in inner):
            kind, weight = nn.Linear, weight.mT
    if not (computed - y).abs().le(bound).all():
        return None
    return _with(kind, weight.to(tensors[0].dtype), bias)


def _with(kind: Any, weight: Any, bias: Any) -> nn.Module:
    layer: Any = kind(1, 1)
    layer._parameters.update(weight=weight, bias=bias)
    layer.nf = weight.shape[-1]  # of a Conv1D
    return layer  # type: ignore[no-any-return]


def _function(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """``module`` in float64 and evaluation mode, without hooks of the user's, with gradients."""
    values = [one for part in module.modules() for one in vars(part).values()]
    values += [one for held in values if isinstance(held, dict) for one in held.values()]
    twin = deep_copied(module, {id(one): one for one in values if isinstance(one, Tensor)})
    for part in twin.modules():
        part.training = False  # train(False) of some wrappers writes into their weights
        for hooks in (part._forward_pre_hooks, part._forward_hooks):
            for key in [key for key, hook in hooks.items() if not of_a_framework(hook)]:
                del hooks[key]
    # In float64 by functional_call alone: the module's own tensors, and their graph, are kept.
    tensors = (*module.named_parameters(), *module.named_buffers())
    state = {name: one.double() if one.is_floating_point() else one for name, one in tensors}
    return lambda x: functional_call(twin, state, (x,))


def check_looked_up(lens: Any, name: str, table: Tensor) -> None:
    """Refuse the ``W_E`` of an encoder–decoder whose stacks look tokens up in another table.

    T5's each have an embedding of their own, whose weight is tied to that of ``shared``, the one
    that TransformerLens shows, until one of them is replaced or adapted.

    Raises:
        CapabilityError: names the stack.
    """
    whole: Any = getattr(lens, "original_model", None)
    if name != "W_E" or not getattr(getattr(whole, "config", None), "is_encoder_decoder", False):
        return
    shown = lens.embed
    stacks = {"encoder": whole.get_encoder(), "decoder": whole.get_decoder()}
    if hasattr(lens, "decoder_embed"):  # W_E_target is shown by itself
        del stacks["decoder"]
    for side, stack in stacks.items():
        module = stack.get_input_embeddings()
        weight: Any = getattr(module, "weight", None)
        is_tied = type(module) is nn.Embedding and weight.data_ptr() == table.data_ptr()
        if module is not shown and not is_tied:
            raise CapabilityError(
                f"the {side} looks tokens up in a table of its own (replaced, or "
                "with an adapter), and TransformerLens shows the one that both shared. Read it "
                "from model.state_dict(), or merge the adapter before loading."
            )
