"""What CARMA's losses cost beside their similarity matrix, by length and number of layers.

Run with ``python -m benchmarks.losses`` (``--device cuda`` on a GPU; ``--quick`` for a look).
Random residuals of width 768, batches of 16, words of one to three tokens after a BOS. For every
size, in one run and turn about, forward and backward down to the residuals:

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

import argparse
import random
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.common import machine, seconds, spread, write
from interp_compose.training.losses import count_anchors, mutual_information_loss, stability_loss

BATCH, D_MODEL = 16, 768
TOKENS = (20, 128, 512)
LAYERS = (1, 2, 4, 11)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write ``results/losses_{device}.json``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="of torch, on the CPU")
    parser.add_argument("--quick", action="store_true", help="up to 128 tokens, nothing written")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    rows = []
    for tokens in TOKENS[:2] if args.quick else TOKENS:
        for layers in LAYERS:
            rows.append(measure(tokens, layers, device, args.repeats))
            print(line(rows[-1]), flush=True)
    if args.quick:
        return
    about = {"device": device.type, "threads": torch.get_num_threads(), "batch": BATCH}
    if device.type == "cuda":
        about["gpu"] = torch.cuda.get_device_name(device)
    write(
        f"losses_{device.type}",
        {"d_model": D_MODEL, "repeats": args.repeats, "sizes": rows, **about, **machine()},
    )


def measure(tokens: int, layers: int, device: torch.device, repeats: int) -> dict[str, Any]:
    """Medians and ranges of the three works at one size, and the kernels of the losses."""
    torch.manual_seed(0)
    word_ids = words(tokens).to(device)
    resid = torch.randn(layers + 1, BATCH, tokens, D_MODEL, device=device)
    own = resid[:-1].clone().requires_grad_()
    resid.requires_grad_()
    ones = torch.ones(layers, BATCH, tokens, tokens, device=device)

    def matrix() -> None:
        torch.autograd.grad(torch.matmul(own, own.mT), own, ones)

    def mi() -> None:
        torch.autograd.grad(mutual_information_loss(own, word_ids), own)

    def both() -> None:
        stability = stability_loss(resid, word_ids >= 0)
        total = mutual_information_loss(resid[:-1], word_ids) + stability
        torch.autograd.grad(total, resid)

    works = {"matrix": matrix, "mi": mi, "both": both}
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            taken = seconds(lambda work=work: finished(work, device))
            if turn:  # the first warms up
                times[name].append(taken)
    row: dict[str, Any] = {
        "tokens": tokens,
        "layers": layers,
        "anchors": int(count_anchors(word_ids)),
    }
    for name, taken_each in times.items():
        row |= {f"{name}_s": median(taken_each), f"{name}_s_range": spread(taken_each)}
    for name in ("mi", "both"):
        ratios = [one / bare for one, bare in zip(times[name], times["matrix"], strict=True)]
        row |= {f"{name}_over_matrix": median(ratios), f"{name}_over_matrix_range": spread(ratios)}
    return row | kernels(both)


def words(tokens: int) -> Tensor:
    """``[batch tokens]``: BOS, then words of one to three tokens."""
    rng = random.Random(0)
    rows = []
    for _ in range(BATCH):
        ids = [word for word in range(tokens) for _ in range(rng.randint(1, 3))]
        rows.append([-1, *ids[: tokens - 1]])
    return torch.tensor(rows)


def finished(work: Callable[[], None], device: torch.device) -> None:
    """The work, until the device is done with it."""
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


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


def line(row: dict[str, Any]) -> str:
    """One size, for the terminal."""
    times = ", ".join(
        f"{name} {1e3 * row[f'{name}_s']:.1f} ms" for name in ("matrix", "mi", "both")
    )
    ratios = ", ".join(
        f"{name} {row[f'{name}_over_matrix']:.2f} "
        f"[{row[f'{name}_over_matrix_range'][0]:.2f}, {row[f'{name}_over_matrix_range'][1]:.2f}]"
        for name in ("mi", "both")
    )
    counts = f"{row['kernels']} kernels of {row['dispatched']} dispatched"
    return (
        f"{row['tokens']} tokens, {row['layers']} layers: {times}; over matrix {ratios}; {counts}"
    )


if __name__ == "__main__":
    main()
