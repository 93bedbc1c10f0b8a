"""What CARMA's losses cost over their similarity matrix, by length and number of layers.

``--quick`` measures up to 128 tokens. Random residuals of width 768, batches of 16, words of one to
three tokens after a BOS. For every size, in one run and turn about, forward and backward down to
the residuals:

matrix
    the bare similarity matrix: the product of the residuals with themselves, all pairs of a text's
    tokens at every layer; no norms, no masks, no loss;
mi
    ``mutual_information_loss`` over these layers;
both
    that and ``stability_loss`` over these layers and one more, which it compares the last with.

*Kernels* are the dispatched operations of ``both`` that are no views, ``dispatched`` all of them.
The ratio of a loss to the matrix is what should not grow with the size.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.common import Ratio, gpu, machine, middle_and_range, quotients, ranged, turns
from interp_compose.training.losses import count_anchors, mutual_information_loss, stability_loss

BATCH, D_MODEL = 16, 768
TOKENS = (20, 128, 512)
LAYERS = (1, 2, 4, 11)


def benchmark(device: str = "cpu", repeats: int = 7, quick: bool = False) -> dict[str, Any]:
    """``losses_{device}``."""
    rows = [
        measure(tokens, layers, device, repeats)
        for tokens in (TOKENS[:2] if quick else TOKENS)
        for layers in LAYERS
    ]
    threads = {"threads": torch.get_num_threads()}
    about = {"device": device, **threads, "batch": BATCH, **gpu(device)}
    content = {"d_model": D_MODEL, "repeats": repeats, "sizes": rows, **about, **machine()}
    return {f"losses_{device}": content}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    return [
        Ratio(
            f"{name}, {row['tokens']} tokens, {row['layers']} layer{'s' * (row['layers'] > 1)}"
            + (f": {row['kernels']} kernels of {row['dispatched']}" if name == "both" else ""),
            *ranged(row, f"{name}_over_matrix"),
            peer="matrix",
        )
        for row in content["sizes"]
        for name in ("mi", "both")
    ]


def measure(tokens: int, layers: int, device: str, repeats: int) -> dict[str, Any]:
    """Medians and ranges of the three works at one size, and the kernels of the losses."""
    torch.manual_seed(0)
    word_ids = words(tokens).to(device)
    resid = torch.randn(layers + 1, BATCH, tokens, D_MODEL, device=device)
    inner = resid[:-1].clone().requires_grad_()
    resid.requires_grad_()
    ones = torch.ones(layers, BATCH, tokens, tokens, device=device)

    def matrix() -> None:
        torch.autograd.grad(torch.matmul(inner, inner.mT), inner, ones)

    def mi() -> None:
        torch.autograd.grad(mutual_information_loss(inner, word_ids), inner)

    def both() -> None:
        stability = stability_loss(resid, word_ids >= 0)
        total = mutual_information_loss(resid[:-1], word_ids) + stability
        torch.autograd.grad(total, resid)

    times = turns({"matrix": matrix, "mi": mi, "both": both}, repeats, device)
    row: dict[str, Any] = {
        "tokens": tokens,
        "layers": layers,
        "anchors": int(count_anchors(word_ids)),
    }
    for name, taken in times.items():
        row |= middle_and_range(f"{name}_s", taken)
    for name in ("mi", "both"):
        row |= middle_and_range(f"{name}_over_matrix", quotients(times[name], times["matrix"]))
    return row | kernels(both)


def words(tokens: int) -> Tensor:
    """``[batch tokens]``: BOS, then words of one to three tokens."""
    rng = random.Random(0)
    rows = []
    for _ in range(BATCH):
        ids = [word for word in range(tokens) for _ in range(rng.randint(1, 3))]
        rows.append([-1, *ids[: tokens - 1]])
    return torch.tensor(rows)


def kernels(work: Callable[[], None]) -> dict[str, int]:
    """Dispatched operations of a work: all, and those that launch a kernel."""
    with _Dispatched() as dispatched:
        work()
    return {"kernels": dispatched.kernels, "dispatched": dispatched.all}


class _Dispatched(TorchDispatchMode):
    """Counts operations; a view returns an alias that it has not written to."""

    def __init__(self) -> None:
        super().__init__()
        self.all = self.kernels = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aliases = [value.alias_info for value in func._schema.returns]
        self.all += 1
        self.kernels += not any(alias is not None and not alias.is_write for alias in aliases)
        return func(*args, **(kwargs or {}))
