"""What a stable rank costs, compared with all singular values, and how near it comes.

``--quick`` takes sides of 1024. Float32 matrices, the default tolerance. For each, in one run and
turn about:

svdvals
    the stable rank from ``torch.linalg.svdvals``;
stable_rank
    the library's.

Gaussian matrices are several, since the distance between their first two singular values, and with
it the number of steps, differs from draw to draw. The *error* is relative to the singular values
that a matrix was made with, or else to those of svdvals, summed in float64. A *look* is one of
``StableRankTracker`` at a matrix that has moved by 10⁻³ of its norm, its checks included. How much
faster the library's is depends on the processor, since each step reads the matrix; the goal was for
sides of 4096 on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import (
    FASTER,
    Ratio,
    gpu,
    machine,
    middle_and_range,
    quotients,
    ranged,
    seconds,
    turns,
)
from interp_compose.probes.lanczos import top_pair
from interp_compose.probes.matrices import row_major
from interp_compose.probes.rank import effective_rank, stable_rank
from interp_compose.probes.rank_tracker import StableRankTracker

SQUARE = 4096
OTHERS = ((4096, 16384), (50257, 768), (768, 3072), (768, 768))
LOOKS = 20


def benchmark(
    device: str = "cpu", repeats: int = 3, draws: int = 5, quick: bool = False
) -> dict[str, Any]:
    """``stable_rank_{device}``; ``draws`` are Gaussian matrices."""
    rows = [
        {"matrix": name, **measure(A.to(device), exact, repeats)}
        for name, A, exact in matrices(1024 if quick else SQUARE, draws, quick)
    ]
    about = {"device": device, "threads": torch.get_num_threads(), "repeats": repeats}
    about |= {"draws": draws, **gpu(device)}
    return {f"stable_rank_{device}": {**about, "matrices": rows, **machine()}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    rows = []
    for row in content["matrices"]:
        size, name = f"{row['rows']} x {row['cols']}", row["matrix"]
        what = name if size in name else f"{name}, {size}"
        what += f": {row['stable_rank_s']:.3g} s, {row['steps']} steps, error {row['error']:.1g}"
        goal = 50 if content["device"] == "cpu" and size == f"{SQUARE} x {SQUARE}" else None
        rows.append(Ratio(what, *ranged(row, "speedup"), FASTER, "svdvals", goal=goal))
    return rows


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
    ranks: dict[str, float] = {}

    def svdvals() -> None:
        values = torch.linalg.svdvals(A).double()
        ranks["svdvals"] = float(values.square().sum() / values.max().square())

    def krylov() -> None:
        ranks["stable_rank"] = float(stable_rank(A))

    krylov()
    times = turns({"svdvals": svdvals, "stable_rank": krylov}, repeats, A.device.type, warm=0)
    truth = slow_stable_rank(A) if exact is None else exact
    row: dict[str, Any] = {
        "rows": A.shape[0],
        "cols": A.shape[1],
        "stable_rank": ranks["stable_rank"],
        "error": abs(ranks["stable_rank"] / truth - 1),
        "steps": top_pair(row_major(A), 1e-4).steps,
        **middle_and_range("speedup", quotients(times["svdvals"], times["stable_rank"])),
    }
    for name, taken in times.items():
        row |= middle_and_range(f"{name}_s", taken)
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
