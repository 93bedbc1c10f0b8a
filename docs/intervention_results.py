"""Tables of single interventions: of CAP's controls, of attention masks and of transplants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import Final

import pandas as pd

from docs import measured
from docs.measured import (
    Cell,
    Columns,
    Row,
    Table,
    beside,
    cell,
    frame,
    over,
    pivot,
    ranged,
    table,
    written,
)
from docs.verdicts import BREAK
from interp_compose.stats.intervals import wilson_interval
from interp_compose.studies.audit.result import STATUSES
from interp_compose.studies.core.text import probability


def shuffled_draws() -> Table:
    """``mean`` minus each control, in points of accuracy, by layer."""

    def apart(control: str) -> str:
        difference, low, high = (
            f"{{{control}_{end}:+.1points}}" for end in ("difference", "ci_low", "ci_high")
        )
        return f"{difference} [{low}, {high}]"

    columns: Columns = {
        "layer": "{layer}",
        "− `last`": apart("last"),
        "− `first`": apart("first"),
        "− `straddling`": apart("straddling"),
        "p of it (Holm)": "{straddling_p_holm:.2f}",
        f"− `shuffled`, seed {measured.read('shuffled_draws')['seeds'][0]}": apart("shuffled"),
        "p of it": "{shuffled_p_holm:.2f}",
        "− `shuffled`, five draws": apart("draws"),
    }
    return table(frame("shuffled_draws", "table"), columns)


def at(rows: pd.DataFrame, layers: Sequence[int] | None) -> pd.DataFrame:
    """Of some layers, or all."""
    return rows if layers is None else rows[rows["layer"].isin(layers)]


def cap(name: str, layers: Sequence[int] | None = None) -> Table:
    """Accuracy by layer and pooling, and ``mean`` minus each control, paired by example; at some
    ``layers`` of those measured, p corrected over all."""
    layer = {"layer": "{layer}"}
    curve, controls = (at(frame(name, rows), layers) for rows in ("curve", "controls"))
    shares = pivot(curve, layer, ["pooling"], {"`{pooling}`": "{accuracy:.3f}"})
    change = "{difference:+.3f} [{ci_low:+.3f}, {ci_high:+.3f}], p "
    less: Columns = {
        "`mean` − `{against}`": lambda row: cell(change, row) + probability(row["p_holm"])
    }
    return beside(shares, pivot(controls, layer, ["against"], less))


def translators(name: str) -> Table:
    """Whole translations kept, and ``mean`` minus each control in nats a sentence, by layer."""
    layer = {"layer": "{layer}"}
    kept = pivot(frame(name, "curve"), layer, ["pooling"], {"`{pooling}`": "{accuracy:.3f}"})
    return beside(kept, _nats_apart(frame(name, "differences")))


def translators_by_kind(kinds: Mapping[str, str]) -> Table:
    """``mean`` minus ``straddling`` by kind of word, and with our translation as the answer."""
    results = measured.read("translators_en_pt")
    rows = [
        {**row, "kind": kinds[kind].format(**results[kind])}
        for kind in kinds
        for row in results[kind]["differences"]
        if row["against"] == "straddling"
    ]
    columns: Columns = {"{kind}": _apart}
    return pivot(pd.DataFrame(rows), {"layer": "{layer}"}, ["kind"], columns)


CHANGE: Final = "{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
TRANSPLANTED: Final = {
    "transplant": "transplant",
    "random phrase": "another word",
    "random direction": "random direction",
    "own": "own word",
}


def translators_words(name: str) -> Table:
    """How often the composed sentence's translation is likelier, by vector and by pooling, and
    nats, by layer."""
    layer = {"layer": "{layer}"}

    def share(row: Row) -> str:
        with_ends = row["pooling"] == "mean" and row["vector"] in ("transplant", "random phrase")
        return cell(ranged("share", ".2f") if with_ends else "{share:.2f}", row)

    rows = frame(name, "table").query("pooling == 'mean' or vector == 'transplant'")
    heads = [
        TRANSPLANTED[vector] if how == "mean" else f"transplant, `{how}`"
        for how, vector in zip(rows["pooling"], rows["vector"], strict=True)
    ]
    shares = pivot(rows.assign(head=heads), layer, ["head"], {"{head}": share})
    against = {"random phrase": "transplant − another word"}
    odds = frame(name, "differences").query("pooling == 'mean'")
    odds = odds.assign(head=odds["against"].map(against)).dropna(subset="head")
    lost = {"composed": "transplant − composed text", "own": "own word − target"}
    nats = frame(name, "nats").query("pooling == 'mean'")
    rows = pd.concat([odds, nats.assign(head=nats["answer"].map(lost))])
    return beside(shares, pivot(rows, layer, ["head"], {"{head}": CHANGE}))


READ: Final = {
    "read": "read at its position",
    "read, control": "the same, control",
    "read, word − control": "word − control",
    "elsewhere": "held elsewhere",
    "pooling elsewhere": "held elsewhere, pooled − pieces",
}


def translators_read(name: str) -> Table:
    """What is lost without cross-attention to a word, and what is left, in nats a sentence: by the
    layer at which it is pooled, and of its pieces."""
    whole = frame(name, "whole").assign(layer="not pooled")
    rows = pd.concat([frame(name, "differences"), whole])
    rows = rows[rows["what"].isin(READ)]

    rows = rows.assign(head=rows["what"].map(READ))
    return pivot(rows, {"layer": "{layer}"}, ["head"], {"{head}": CHANGE})


def _nats_apart(differences: pd.DataFrame) -> Table:
    columns: Columns = {"`mean` − `{against}`": _apart}
    return pivot(differences, {"layer": "{layer}"}, ["against"], columns)


def _apart(row: Row) -> str:
    return cell(f"{CHANGE}, p ", row) + probability(row["p_holm"])


def knocked_out(name: str, layers: Sequence[int]) -> Table:
    """Accuracy by layer where attention to a word is knocked out, and its difference to the clean
    model's, paired by example; p corrected over all layers."""
    layer = {"layer": "{layer}"}
    rows = frame(name, "curve").merge(
        frame(name, "against_clean"), on=["layer", "group"], suffixes=("", "_paired")
    )
    rows = at(rows, layers)
    change = "{accuracy:.3f}; {difference:+.3f} [{ci_low_paired:+.3f}, {ci_high_paired:+.3f}], p "
    cells: Columns = {"{group}": lambda row: cell(change, row) + probability(row["p_holm"])}
    return pivot(rows, layer, ["group"], cells)


def heads(name: str, least: float) -> Table:
    """The heads whose ablation changes the answer's log-probability by ``least`` nats or more, by
    Holm over all that were ablated, largest loss first."""
    rows = frame(name, "heads").query("p_holm < 0.05 and abs(difference) >= @least")
    rows = rows.sort_values("difference")
    columns: Columns = {
        "layer.head": "{layer}.{head}",
        "change of the log-probability (nats)": "{difference:+.3f} [{ci_low:+.3f}, {ci_high:+.3f}]",
        "p (Holm)": lambda row: probability(row["p_holm"]),
        "accuracy": "{accuracy:.3f}",
    }
    return table(rows, columns)


def transplants_by_type(name: str, layers: Sequence[int]) -> Table:
    """The expected answer by layer, vector and type of the phrase, with Wilson's intervals."""
    shown = {"transplant": "transplant", "random phrase": "random phrase"}
    rows = at(frame(name, "table"), layers)
    kept = rows[rows["vector"].isin(shown)]
    share = "{expected:.3f} ({expected_low:.3f}–{expected_high:.3f})"
    layer = {"layer": "{layer}"}
    expected = pivot(kept, layer, ["vector", "type"], {"{vector}, {type}": share})
    own = rows[rows["vector"] == "own"]
    pooled = "{answer:.3f} ({answer_low:.3f}–{answer_high:.3f})"
    untouched = pivot(own[own["type"] == own["type"].iloc[0]], layer, ["vector"], {"own": pooled})
    change = "{difference:+.3f} [{ci_low:+.3f}, {ci_high:+.3f}], p "
    less: Columns = {
        "layer": "{layer}",
        "inside − alone": lambda row: cell(change, row) + probability(row["p_holm"]),
    }
    apart = table(at(frame(name, "inside_less_alone"), layers), less)
    return beside(beside(expected, apart), untouched)


def leaks_by_text(name: str) -> Table:
    """The largest move of a logit and the share of predictions that changed: medians over texts,
    and the smallest and largest."""
    rows = over(frame(name, "rows"), ["mode"])
    columns: Columns = {
        "mask": '`mode="{mode}"`',
        "largest move of a logit": lambda row: _middle(row["largest"], ".2f"),
        "predictions that changed, %": lambda row: _middle(row["changed"], ".1points"),
        "without a mask: largest move": lambda row: _middle(row["unmasked"], ".2f"),
        "predictions that changed, % ": lambda row: _middle(row["unmasked_changed"], ".1points"),
    }
    return table(rows, columns)


def _middle(values: Sequence[float], style: str) -> str:
    if not any(values):
        return "exactly 0"
    middle, low, high = (written(of(values), style) for of in (median, min, max))
    return f"{middle} ({low}–{high})"


def weights(name: str) -> Table:
    """Stable rank and mean |cos| of each matrix over the layers: median, smallest and largest, with
    those of random weights."""
    columns: dict[str, Cell] = {"matrix": "{matrix}", "shape": "{rows[0]} × {cols[0]}"}
    for measure, style, head in (
        ("stable_rank", ".1f", "stable rank"),
        ("mean_abs_cosine", ".3f", "mean \\|cos\\|"),
    ):
        columns[head] = partial(_layers, column=measure, style=style)
        columns[f"{head}, random weights"] = partial(
            _layers, column=f"{measure}_random", style=style
        )
    key = ["layer", "matrix"]
    rows = frame(name, "trained").merge(frame(name, "random"), on=key, suffixes=("", "_random"))
    return table(over(rows[rows["tied_to"] == ""], ["matrix"]), columns)


def _layers(row: Row, column: str, style: str) -> str:
    values = row[column]
    if len(values) == 1:
        return written(values[0], style)
    return _middle(values, style)


def leaks() -> Table:
    """The largest move of a logit, and the share of predictions that changed, by model and mode of
    the mask."""

    def move(mode: str) -> Cell:
        template = f"{{{mode}_largest:.2f}} ({{{mode}_changed:.1%}})"
        return lambda row: cell(template, row) if row[f"{mode}_largest"] else "exactly 0"

    rows = pd.DataFrame(measured.read("circuits_cpu")["leaks"]).T.reset_index(names="model")
    columns: Columns = {
        "largest move of a logit (predictions that changed)": (
            lambda row: f"`{row['model']}`" if row["model"] == "mini-idm" else row["model"]
        ),
        "without a mask": move("unmasked"),
        '`mode="zero"` (complexity control)': move("zero"),
        '`mode="exclude"`': move("exclude"),
    }
    return table(rows, columns)


ANSWERS: Final = {
    "expected": "expected_accuracy",
    "untouched": "answer_accuracy",
    "source's own": "remembered",
}
"""Which answer is counted, and its column: what the transplant would have the model say, what the
clean model says, and what the source says."""
SHOWN: Final = (
    ("expected: transplant", "transplant", "expected"),
    ("own", "own", "expected"),
    ("random phrase", "random phrase", "expected"),
    ("random direction", "random direction", "expected"),
    ("untouched: transplant", "transplant", "untouched"),
    ("own", "own", "untouched"),
    ("random phrase", "random phrase", "untouched"),
)
"""Heading, vector and answer of the columns of :func:`transplants`."""
ANCHOR_MODELS: Final = {
    "anchors_0.5": "0.5 (2c: pairs, in either order)",
    "anchors_0.8": "0.8 (3: reasons)",
}
SCAN_MODELS: Final = {"scan_0.5": "0.5, weight decay 0.01", "scan_0.7": "0.7, weight decay 0.1"}


def transplants(name: str) -> Table:
    """Accuracies of both answers, with their intervals, by pooling and layer."""
    shown = pd.DataFrame(SHOWN, columns=["head", "vector", "answer"])
    rows = shown.merge(frame(f"transplants_{name}", "table"), on="vector")
    by = {"pooling": "{pooling}", "layer": "{layer}"}
    columns = {"{head}": lambda row: _with_interval(row, row["answer"])}
    return pivot(rows, by, ["answer", "vector"], columns)


def transplants_anchors() -> Table:
    """What transplanted chains carry in models of two phases."""
    return _by_model(ANCHOR_MODELS, "γ (phase)")


def transplants_scan() -> Table:
    """What transplanted phrases carry in decoders of SCAN."""
    return _by_model(SCAN_MODELS, "γ")


def _by_model(models: Mapping[str, str], head: str) -> Table:
    """What models answer under the transplant with its interval and, below, under the controls."""
    rows = pd.concat(
        frame(f"transplants_{name}", "table").assign(label=label) for name, label in models.items()
    )
    place = ["label", "pooling", "layer"]
    controls = over(rows.query("vector != 'transplant'"), place)
    rows = rows.query("vector == 'transplant'").merge(
        controls, on=place, suffixes=("", "_of_controls")
    )
    columns = {head: "{label}", "pooling": "{pooling}", "layer": "{layer}"}
    answers = {answer: partial(_with_controls, answer=answer) for answer in ANSWERS}
    return table(rows, {**columns, **answers})


def _with_interval(row: Row, answer: str) -> str:
    column = ANSWERS[answer]
    ends = column.removesuffix("_accuracy")
    return cell(f"{{{column}:.3f}} ({{{ends}_low:.3f}}–{{{ends}_high:.3f}})", row)


def _with_controls(row: Row, answer: str) -> str:
    values = zip(row["vector_of_controls"], row[f"{ANSWERS[answer]}_of_controls"], strict=True)
    controls = ", ".join(f"{vector} {value:.3f}" for vector, value in values)
    return f"{_with_interval(row, answer)}{BREAK}{controls}"


FOIL_TASKS: Final = ("hypernyms", "opposites", "compounds", "definitions")


def foils() -> Table:
    """What the clean model gets right over the vocabulary and between answer and foil, with 95 %
    intervals."""

    def share(frame_name: str) -> Cell:
        def of_task(row: Row) -> str:
            correct = frame(f"cap_{row['task']}", frame_name)["correct"]
            low, high = wilson_interval(int(correct.sum()), len(correct))
            return f"{correct.mean():.3f} [{low:.3f}, {high:.3f}]"

        return of_task

    columns: Columns = {
        "task": "`{task}`",
        "items": lambda row: str(len(frame(f"cap_{row['task']}", "clean"))),
        "right, of the whole vocabulary": share("vocabulary_clean"),
        "right, between answer and foil (chance .5)": share("clean"),
    }
    return table(pd.DataFrame({"task": FOIL_TASKS}), columns)


def compounds_by_answer(poolings: Sequence[str], layers: Sequence[int]) -> Table:
    """Right between answer and foil, by which of them is the compound's last word."""
    clean = frame("cap_compounds", "clean").sort_values("example")
    compound = clean["prompt"].str.removesuffix(" is a kind of").str.lower()
    ends = [
        text.endswith(answer.strip())
        for text, answer in zip(compound, clean["answer"], strict=True)
    ]
    groups = {
        f"{name} is the last word ({sum(chosen)} items)": chosen
        for name, chosen in (("the answer", ends), ("the foil", [not end for end in ends]))
    }
    return _of_groups("cap_compounds", groups, poolings, layers)


def words_by_task(poolings: Sequence[str], layers: Sequence[int], least: int) -> Table:
    """Right between answer and foil where words are pooled, by task; of ``least`` items or more."""
    tasks = measured.read("cap_words")["tasks"]
    groups = {
        f"`{name}` ({tasks.count(name)})": [task == name for task in tasks]
        for name in dict.fromkeys(tasks)
        if tasks.count(name) >= least
    }
    return _of_groups("cap_words", groups, poolings, layers)


def _of_groups(
    name: str,
    groups: Mapping[str, Sequence[bool]],
    poolings: Sequence[str],
    layers: Sequence[int],
) -> Table:
    """Shares of the items of each group, with Wilson's intervals, by layer and pooling."""

    def of_group(chosen: Sequence[bool]) -> Cell:
        def share(row: Row) -> str:
            digits = [int(digit) for digit, of in zip(row["correct"], chosen, strict=True) if of]
            low, high = wilson_interval(sum(digits), len(digits))
            return f"{sum(digits) / len(digits):.3f} [{low:.3f}, {high:.3f}]"

        return share

    clean = frame(name, "clean").sort_values("example")
    right = "".join(str(int(one)) for one in clean["correct"])
    outcomes = frame(name, "outcomes").query("layer in @layers and pooling in @poolings")
    rows = pd.concat(
        [
            pd.DataFrame([{"layer": "", "pooling": "clean", "correct": right}]),
            outcomes.sort_values("layer", kind="stable"),
        ]
    )
    columns: Columns = {head: of_group(chosen) for head, chosen in groups.items()}
    return table(rows, {"layer": "{layer}", "pooling": "{pooling}", **columns})


def bird(layers: Sequence[int]) -> Table:
    """Agreement of a language model's residual with BiRD's judgements, by layer; GloVe's sums and
    MiniLM below."""
    correlation = "{pearson:.2f} [{pearson_low:.2f}, {pearson_high:.2f}]"
    found = measured.read("bird_smollm2")
    rows = [
        {**row, "embedding": embedding, "place": f"layer {row['layer']}"}
        for embedding in ("mean", "last")
        for row in found[embedding]["by_layer"]
        if row["layer"] in layers
    ]
    minilm = frame("similarity_bird", "table").query("layer == 0 and pooling == 'mean'")
    others = [
        {
            **{f"pearson{end}": row[f"clean_pearson{end}"] for end in ("", "_low", "_high")},
            **{"subset": row["subset"], "embedding": "mean", "place": "all-MiniLM-L6-v2"},
        }
        for row in minilm.to_dict("records")
    ]
    others.append(
        {**found["glove"], "embedding": "mean", "place": "GloVe, summed", "subset": "all"}
    )
    columns = {"{embedding} of the tokens, {subset}": correlation}
    return pivot(pd.DataFrame([*rows, *others]), {"": "{place}"}, ["embedding", "subset"], columns)


def real_audits(models: Mapping[str, str]) -> Table:
    """How many checks of each model, by its name in the file, have which status."""
    rows = []
    for name, shown in models.items():
        counts = measured.read("audits_real")[name]["counts"]
        rows.append({"model": shown, **{status: counts.get(status, 0) for status in STATUSES}})
    return table(pd.DataFrame(rows), {"model": "{model}", **{s: f"{{{s}:,}}" for s in STATUSES}})
