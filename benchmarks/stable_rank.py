"""What a stable rank costs beside all singular values, and how near it comes.

Run with ``python -m benchmarks.stable_rank`` (``--device cuda`` on a GPU; ``--quick`` for a look).
Float32 matrices, the default tolerance. For each, in one run and turn about:

svdvals
    the stable rank from ``torch.linalg.svdvals``;
stable_rank
    the library's.

Gaussian matrices are several, since the distance between their first two singular values, and with
it the number of steps, differs from draw to draw. The *error* is relative to the singular values
that a matrix was made with, or else to those of svdvals, summed in float64. A *look* is one of
``StableRankTracker`` at a matrix that has moved by 10⁻³ of its norm, its checks included.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import machine, seconds, spread, write
from interp_compose.probes.lanczos import top_pair
from interp_compose.probes.matrices import row_major
from interp_compose.probes.rank import effective_rank, stable_rank
from interp_compose.probes.rank_tracker import StableRankTracker

SQUARE = 4096
OTHERS = ((4096, 16384), (50257, 768), (768, 3072), (768, 768))
LOOKS = 20


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write ``results/stable_rank_{device}.json``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--draws", type=int, default=5, help="Gaussian matrices")
    parser.add_argument("--threads", type=int, default=1, help="of torch, on the CPU")
    parser.add_argument("--quick", action="store_true", help="sides of 1024, nothing written")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    rows = []
    for name, A, exact in matrices(1024 if args.quick else SQUARE, args.draws, args.quick):
        rows.append({"matrix": name, **measure(A.to(device), exact, args.repeats)})
        print(line(rows[-1]), flush=True)
    if args.quick:
        return
    about = {"device": device.type, "threads": torch.get_num_threads(), "repeats": args.repeats}
    if device.type == "cuda":
        about["gpu"] = torch.cuda.get_device_name(device)
    write(f"stable_rank_{device.type}", {**about, "matrices": rows, **machine()})


def matrices(n: int, draws: int, quick: bool) -> Iterator[tuple[str, Tensor, float | None]]:
    """Name, matrix, and its stable rank where it was made with one."""
    for draw in range(draws):
        torch.manual_seed(draw)
        yield f"Gaussian {draw}", torch.randn(n, n), None
    torch.manual_seed(0)
    left, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64))
    gap = torch.linspace(0.99, 0, n, dtype=torch.float64)
    gap[0] = 1
    law = torch.arange(1, n + 1, dtype=torch.float64) ** -0.5
    for name, values in (("gap of 1 %", gap), ("power law -1/2", law)):
        exact = float(values.square().sum() / values.max().square())
        yield name, ((left * values) @ right).float(), exact
    yield "rank one", torch.outer(torch.randn(n), torch.randn(n)), 1.0
    for rows, cols in () if quick else OTHERS:
        yield f"Gaussian {rows} x {cols}", torch.randn(rows, cols), None


def measure(A: Tensor, exact: float | None, repeats: int) -> dict[str, Any]:
    """Medians and ranges of both, their ratio, the error and the steps."""
    found: dict[str, float] = {}

    def svdvals() -> None:
        values = torch.linalg.svdvals(A).double()
        found["svdvals"] = float(values.square().sum() / values.max().square())

    def krylov() -> None:
        found["stable_rank"] = float(stable_rank(A))

    times: dict[str, list[float]] = {"svdvals": [], "stable_rank": []}
    krylov()
    for _ in range(repeats):
        times["svdvals"].append(seconds(svdvals))
        times["stable_rank"].append(seconds(krylov))
    ratios = [a / b for a, b in zip(times["svdvals"], times["stable_rank"], strict=True)]
    truth = slow_stable_rank(A) if exact is None else exact
    row: dict[str, Any] = {
        "rows": A.shape[0],
        "cols": A.shape[1],
        "stable_rank": found["stable_rank"],
        "error": abs(found["stable_rank"] / truth - 1),
        "steps": top_pair(row_major(A), 1e-4).steps,
        "speedup": median(ratios),
        "speedup_range": spread(ratios),
    }
    for name, taken in times.items():
        row |= {f"{name}_s": median(taken), f"{name}_s_range": spread(taken)}
    entropy = seconds(lambda: float(effective_rank(A)))
    return row | {"effective_rank_s": entropy, "look_s": look(A)}


def slow_stable_rank(A: Tensor) -> float:
    """In float64: cuSOLVER's float32 singular values are off in the fourth digit."""
    squares = torch.linalg.svdvals(A.double()).square()
    return float(squares.sum() / squares.max())


def look(A: Tensor) -> float:
    """Mean time of a look over twenty, the first left out."""
    tracker = StableRankTracker()
    tracker.update(A)
    change = 1e-3 * float(A.std()) * torch.randn_like(A)
    taken = []
    for turn in range(1, LOOKS + 1):
        moved = A + turn * change
        taken.append(seconds(partial(tracker.update, moved)))
    return sum(taken) / len(taken)


def line(row: dict[str, Any]) -> str:
    """One matrix, for the terminal."""
    low, high = row["speedup_range"]
    return (
        f"{row['matrix']} ({row['rows']} x {row['cols']}): svdvals {row['svdvals_s']:.2f} s, "
        f"stable_rank {1e3 * row['stable_rank_s']:.0f} ms in {row['steps']} steps, "
        f"{row['speedup']:.0f} times faster [{low:.0f}, {high:.0f}], error {row['error']:.1e}; "
        f"effective_rank {row['effective_rank_s']:.2f} s; a look {1e3 * row['look_s']:.1f} ms"
    )


if __name__ == "__main__":
    main()
