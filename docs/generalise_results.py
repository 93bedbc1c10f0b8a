"""Tables of the comparisons of encoder–decoders, from ``benchmarks/results/``."""

from __future__ import annotations

from docs.measured import Table, read


def accuracy(name: str) -> Table:
    """A row per model and split: the share that is right, and the difference to the first model."""
    found = read(name)
    sizes = {run["model"]: run["n_parameters"] for run in found["runs"]}
    differences = {
        (row["model"], row["split"]): row for row in found["differences"] if row["kind"] == "all"
    }
    fits = {
        model: [
            row["accuracy"]
            for row in found["curve_ends"]
            if row["model"] == model and row["split"] == "train"
        ]
        for model in sizes
    }
    rows = []
    for row in found["summary"]:
        if row["kind"] != "all":
            continue
        model, split = row["model"], row["split"]
        other = differences.get((model, split))
        rows.append(
            [
                f"`{model}`",
                split,
                f"{_points(row['mean'])} ({_points(row['smallest'])}–{_points(row['largest'])})",
                "–" if other is None else _difference(other),
                "–" if other is None else f"{other['p_holm']:.2f}",
                f"{_points(sum(fits[model]) / len(fits[model]))}",
                f"{sizes[model]:,}",
                str(row["n_seeds"]),
            ]
        )
    heads = ["model", "split", "right, % (seeds)", "difference, 95 %", "p (Holm)"]
    return [*heads, "of training, %", "parameters", "seeds"], rows


def _points(share: float) -> str:
    return f"{100 * share:.1f}"


def _difference(row: dict[str, float]) -> str:
    ends = (_signed(row[name]) for name in ("difference", "ci_low", "ci_high"))
    return "{} ({} to {})".format(*ends)


def _signed(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")
