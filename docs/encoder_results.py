"""Tables of encoders that compose, from ``benchmarks/results/``."""

from __future__ import annotations

from typing import Any, Final

from docs.measured import Table, read

Row = dict[str, Any]
SHOWN: Final = (
    ("pearson", "all", "cls"),
    ("pearson", "all", "mean"),
    ("pearson", "mirror", "cls"),
    ("pearson", "mirror", "mean"),
)
CLASSIFIED: Final = {
    "paws-qqp": (("accuracy", "all", "cls"), ("accuracy", "label 0", "cls")),
    "sst": (("accuracy", "all", "cls"), ("accuracy", "all", "mean")),
}


def decimals(row: Row) -> str:
    """Like "0.653 (0.651–0.656)": the mean, the smallest and the largest seed."""
    text = f"{row['mean']:.3f} ({row['smallest']:.3f}–{row['largest']:.3f})"
    return text.replace("-", "−")


def scores(name: str) -> Table:
    """A row per model and output: Pearson's r with people's ratings, nothing tuned."""
    return _table(name, "bird", SHOWN, "no")


def classified(name: str, task: str = "paws-qqp") -> Table:
    """A row per model and output: how often a classifier of the frozen vector is right."""
    return _table(name, task, CLASSIFIED[task], "frozen")


def tuned(name: str) -> Table:
    """A row per model and output, by ``[CLS]``: Pearson's r with people's ratings before the
    encoder was trained end to end on PAWS-QQP and after it, and how often the classifier is right.
    """
    columns = {
        f"{metric}: {subset}{told}": (task, metric, subset, way)
        for task, metric, subset, ways in (
            ("bird", "pearson", "all", {", before": "no", ", after": "end-to-end"}),
            ("bird", "pearson", "mirror", {", before": "no", ", after": "end-to-end"}),
            *(("paws-qqp", m, s, {"": "end-to-end"}) for m, s, _ in CLASSIFIED["paws-qqp"]),
        )
        for told, way in ways.items()
    }
    found: dict[tuple[str, str], dict[tuple[str, ...], Row]] = {}
    for row in read(name)["summary"]:
        if row["embedding"] == "cls":
            cells = found.setdefault((row["model"], row["output"]), {})
            cells[row["task"], row["metric"], row["subset"], row["tuned"]] = row
    table = [
        [*place, *(decimals(own[cell]) for cell in columns.values())]
        for place, own in found.items()
    ]
    return ["model", "output", *columns], table


def _table(name: str, task: str, shown: tuple[tuple[str, str, str], ...], tuned: str) -> Table:
    every = [row for row in read(name)["summary"] if row["task"] == task]
    rows = [r for r in every if r.get("tuned", tuned) == tuned and r.get("share", 1) in (0, 1)]
    found = {
        (row["model"], row["output"], row["metric"], row["subset"], row["embedding"]): row
        for row in rows
    }
    table = []
    for model, output in dict.fromkeys((row["model"], row["output"]) for row in rows):
        cells = [found.get((model, output, *cell)) for cell in shown]
        table.append([model, output, *("–" if row is None else decimals(row) for row in cells)])
    return ["model", "output", *(f"{metric}: {a}, {b}" for metric, a, b in shown)], table


def by_share(name: str, task: str, embedding: str = "mean") -> Table:
    """A row per model and output: accuracy of a classifier of the frozen vector, by the share of
    the training texts that it is trained on."""
    cells: dict[tuple[str, str], dict[float, Row]] = {}
    for row in read(name)["summary"]:
        place = (row["task"], row["metric"], row["subset"], row["embedding"])
        if place == (task, "accuracy", "all", embedding) and row["tuned"] == "frozen":
            cells.setdefault((row["model"], row["output"]), {})[row["share"]] = row
    shares = sorted(next(iter(cells.values())))
    table = [[*place, *(decimals(own[one]) for one in shares)] for place, own in cells.items()]
    return ["model", "output", *(f"{100 * one:g} %" for one in shares)], table


def learned(name: str) -> Table:
    """A row per model and output: masked words of held-out text, and codes of a word."""
    result = read(name)
    codes: dict[str, list[Row]] = {}
    for row in result["codes"]:
        codes.setdefault(row["model"], []).append(row)
    table = []
    for row in result["held_out"]:
        if row["measure"] != "masked_accuracy":
            continue
        own = codes.get(row["model"], []) if row["output"] == "comp" else []
        used = "–"
        if own:
            each = [one["codes_per_word"] for one in own]
            used = f"{min(each):.0f}–{max(each):.0f} of {own[0]['n_codes']:,}"
        share = 100 * row["mean"]
        ends = f"{100 * row['smallest']:.1f}–{100 * row['largest']:.1f}"
        table.append([row["model"], row["output"], f"{share:.1f} ({ends})", used])
    return ["model", "output", "masked tokens that are right, % (seeds)", "codes a word"], table


def steps(name: str = "encoder_steps_cpu") -> Table:
    """A row per model: its step over the BERT's, at each shape, and its matrix products over the
    BERT's."""
    result = read(name)
    shapes = [one for one in ("small", "paper") if one in result]
    models = result[shapes[0]]["over_bert"]
    table = []
    for model in models:
        row = [model]
        for shape in shapes:
            cell = result[shape]["over_bert"][model]
            low, high = cell["range"]
            row += [
                f"{cell['median']:.2f} ({low:.2f}–{high:.2f})",
                f"{result[shape]['products'][model]:.2f}",
            ]
        table.append(row)
    heads = ["step, over the BERT's"]
    for one in shapes:
        shape = result[one]["shape"]
        heads += [f"{one}: {shape['n_layers']} × {shape['d_model']}", "products"]
    return heads, table


def memory(name: str = "encoder_memory_cpu") -> Table:
    """A row per model: MiB that a step of the small shape holds."""
    models = read(name)["small"]["models"]
    parts = list(next(iter(models.values()))["peak"])
    table = []
    for model, row in models.items():
        sizes = [row["parameters"], row["codes"], row["kept"], *(row["peak"][n] for n in parts)]
        table.append([model, *(f"{size / 2**20:,.0f}" for size in sizes)])
    heads = ["MiB", "weights of the model", "weights over codes", "kept by the forward pass"]
    peaks = [f"peak, {n} parts" if int(n) > 1 else "peak, the batch at once" for n in parts]
    return [*heads, *peaks], table


def named_sememes(name: str) -> Table:
    """A row per model, side of the annotated words and source: sememes that are named right."""
    table = []
    for row in read(name)["summary"]:
        if row["measure"] == "r_precision":
            ends = f"{row['words_low']:.3f}–{row['words_high']:.3f}"
            side = row["side"].replace("_", " ")
            cells = [row["model"], side, row["source"], decimals(row), ends, f"{row['n']:,}"]
            table.append(cells)
    heads = ["model", "words", "named by", "R-precision (seeds)", "95 % over words", "words read"]
    return heads, table


def words_again(name: str, question: str) -> Table:
    """A row per model and block: areas under the ROC curve of a word's cosines, over seeds."""
    by_place: dict[tuple[str, int], dict[str, list[Row]]] = {}
    for row in read(name)["consistency"]:
        if row["question"] == question:
            of_vector = by_place.setdefault((row["model"], row["layer"]), {})
            of_vector.setdefault(row["vector"], []).append(row)
    table = []
    for (model, layer), of_vector in by_place.items():
        cells = [model, str(layer)]
        for vector in ("codes", "cont"):
            each = [row["auc"] for row in of_vector[vector]]
            cells.append(f"{sum(each) / len(each):.3f} ({min(each):.3f}–{max(each):.3f})")
        apart = [row["over_cont"] for row in of_vector["codes"]]
        told = f"{sum(apart) / len(apart):+.3f} ({min(apart):+.3f} to {max(apart):+.3f})"
        cells.append(told.replace("-", "−"))
        table.append([*cells, f"{of_vector['codes'][0]['n']:,}"])
    return ["model", "block", "codes (seeds)", "contextual", "codes − contextual", "words"], table


def words_of_phrases(name: str) -> Table:
    """A row per model and block: what a word in a phrase has of itself, and of the other, alone."""
    cells: dict[tuple[str, int], dict[tuple[str, str], str]] = {}
    for row in read(name)["inside_phrases"]:
        own = cells.setdefault((row["model"], row["layer"]), {})
        own[row["measure"], row["alone"]] = decimals(row)
    shown = [(one, alone) for one in ("cosine", "jaccard", "cont") for alone in ("itself", "other")]
    heads = [f"{one}: {alone}" for one, alone in shown]
    rows = [[m, str(layer), *(own[one] for one in shown)] for (m, layer), own in cells.items()]
    return ["model", "block", *heads], rows


def shared_codes(name: str) -> Table:
    """A row per model and code: its sememe, and the heaviest words."""
    words: dict[tuple[str, str], list[str]] = {}
    for row in read(name)["words"]:
        place = (row["model"], row["sememe"] or str(row["code"]))
        words.setdefault(place, []).append(row["word"])
    return ["model", "code", "heaviest words"], [
        [*place, ", ".join(words[place])] for place in words
    ]


def words_pooled(name: str, embedding: str) -> Table:
    """A row per model, output and subset of pairs: Pearson's r with people's ratings, clean
    and with words pooled by their mean at each layer, over seeds."""
    cells: dict[tuple[str, str, str], dict[int, Row]] = {}
    clean: dict[tuple[str, str, str], Row] = {}
    for row in read(name)["means"]:
        place = (row["model"], row["output"], row["subset"])
        if (row["embedding"], row["pooling"]) == (embedding, "mean"):
            if row["measure"] == "pearson":
                cells.setdefault(place, {})[row["layer"]] = row
            elif row["measure"] == "clean_pearson":
                clean[place] = row
    layers = sorted({layer for own in cells.values() for layer in own})
    table = [
        [*place, *(_exists(row) for row in (clean[place], *(own[layer] for layer in layers)))]
        for place, own in cells.items()
    ]
    return ["model", "output", "pairs", "clean", *map(str, layers)], table


def _exists(row: Row) -> str:
    return decimals(row) if row["n_seeds"] else "–"


def complexity(name: str) -> Table:
    """A row per matrix: over layers, the mean stable rank over a random matrix's of the shape, and
    the mean absolute cosine of two rows, by model."""
    found: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for row in read(name)["weights"]:
        own = found.setdefault(row["matrix"], {})
        own.setdefault((row["measure"], row["model"]), []).append(row)
    models = list(dict.fromkeys(model for own in found.values() for _, model in own))
    table = []
    for matrix, own in found.items():
        ranks = [_mean(own.get(("stable_rank", model)), "random_stable_rank") for model in models]
        cosines = [_mean(own.get(("mean_abs_cosine", model))) for model in models]
        table.append([f"`{matrix}`", *ranks, *cosines])
    heads = [f"stable rank over random: {model}" for model in models]
    return ["matrix", *heads, *(f"condensation: {model}" for model in models)], table


def _mean(rows: list[Row] | None, over: str = "") -> str:
    """Over layers, of means over seeds."""
    if not rows:
        return "–"
    values = [row["mean"] / row[over] if over else row["mean"] for row in rows]
    return f"{sum(values) / len(values):.3f}"


CAT_LOSSES = ("guided", "sparsity", "reconstruction", "sufficiency", "nuance")


def every_block(name: str = "every_block") -> Table:
    """A row per setting, at an early look and after the last step: masked words that are right, and
    of each block how alike composed vectors are and how many codes a word has."""
    table = []
    for run in read(name)["runs"]:
        weights = {loss: run[loss] for loss in CAT_LOSSES}
        others = [f"{loss} {weight:g}" for loss, weight in weights.items() if weight != 1]
        told = "BERT's two" if not any(weights.values()) else ", ".join(["all", *others])
        steps = [row["step"] for row in run["curve"]]
        for step in (steps[1], steps[-1]):
            (right,) = (row["masked_accuracy"] for row in run["curve"] if row["step"] == step)
            blocks = [row for row in run["codes"] if row["step"] == step]
            cells = [f"{row['alike']:.3f}, {row['codes_per_word']:.0f}" for row in blocks]
            table.append([told, run["code_norm"], str(step), f"{100 * right:.1f}", *cells])
    heads = ["losses", "`--code-norm`", "step", "masked tokens that are right, %"]
    return [*heads, *(f"block {i}" for i in range(len(blocks)))], table
