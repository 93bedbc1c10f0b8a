"""Tables of the comparison with CARMA: ``carma_*``."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Final

import pandas as pd

from docs import measured
from docs.measured import Columns, Row, Table, cell, chosen, frame, pivot, table
from docs.watch_results import OF_WEIGHTS
from interp_compose.stats.seeds import holm, paired_difference

TASKS: Final = ("mini-idm", "mini-sst")
CLAIMS: Final = {
    "accuracy": "accuracy",
    "cap": "CAP, all layers and poolings",
    "consist_syn": "ConsistSyn, 25 %",
}
GAIN: Final = "{difference:+.2f} ± {standard_error:.2f}"
BY_LAYER: Final = {"layer": "{layer:.0f}"}
VERSIONS: Final = {"original": "original", "ft": "FT", "carma": "CARMA"}


COMPARED: Final = {
    "idm": "carma_smollm2_idm",
    "sst": "carma_smollm2_sst",
    "mini-idm": "carma_mini_base_mini_idm",
    "mini-sst": "carma_mini_base_mini_sst",
}
"""The file of the comparison on each task."""


def _carma_over_ft(task: str, family: str) -> pd.DataFrame:
    rows = frame(COMPARED[task], "differences")
    return rows.query("first == 'carma' and second == 'ft' and family == @family")


def outcomes(task: str) -> Table:
    """Each headline measure, by version, and CARMA minus plain fine-tuning."""
    place = ["metric", "rate", "layer", "pooling"]
    original = frame(COMPARED[task], "summary").query("version == 'original'")
    rows = _carma_over_ft(task, "headline").merge(original[[*place, "mean"]], on=place)
    columns: Columns = {
        "%": _measure,
        "original": "{mean:.2f}",
        "FT": "{mean_second:.2f}",
        "CARMA": "{mean_first:.2f}",
        "CARMA − FT, ± SE": GAIN,
        "p": "{p:p}",
        "p (Holm)": "{p_holm:p}",
        "verdict": lambda row: re.split(":| by |,", row["verdict"])[0],
    }
    return table(rows, columns)


def _measure(row: Row) -> str:
    names = {"accuracy": "accuracy", "cap": "CAP at layer {layer:.0f}"}
    return cell(names.get(row["metric"], "ConsistSyn, {rate:percent}"), row)


def controls(task: str) -> Table:
    """CARMA minus plain fine-tuning under CAP and two controls."""
    rows = frame(f"carma_controls_{task.replace('-', '_')}", "differences")
    return pivot(rows, BY_LAYER, ["pooling"], {"{pooling}": GAIN})


def words_apart(task: str) -> Table:
    """CARMA's gain with words pooled less that under each control, paired by seed; p by Holm over
    controls and layers."""
    gain = frame(f"carma_controls_{task.replace('-', '_')}", "gain")
    by_seed = gain.pivot(index=["pooling", "layer"], columns="seed", values="gain")
    places = [place for place in by_seed.index if place[0] != "mean"]
    tests = [
        paired_difference(*(by_seed.loc[(name, layer)].to_numpy() for name in ("mean", control)))
        for control, layer in places
    ]
    corrected = holm([test.p for test in tests])
    rows = [
        {"layer": layer, "control": control, **asdict(test), "p_holm": p}
        for (control, layer), test, p in zip(places, tests, corrected, strict=True)
    ]
    shown = "{difference:+.2f} [{ci_low:+.2f}, {ci_high:+.2f}], p {p_holm:p}"
    return pivot(pd.DataFrame(rows), BY_LAYER, ["control"], {"words − {control}": shown})


def watched(task: str) -> Table:
    """What a watcher measured before training and after it, by version."""
    rows = frame(f"carma_watched_{task.replace('-', '_')}", "differences")
    columns: Columns = {
        "": _watched_measure,
        "before": "{start:{style}}",
        "FT": "{ft:{style}}",
        "CARMA": "{carma:{style}}",
        "CARMA − FT": "{difference:+{style}} ({ci_low:+{style}} to {ci_high:+{style}})",
    }
    styles = [
        ".1points" if measure == "cap" else ".4f" if start < 1 else ".2f"
        for measure, start in zip(rows["measure"], rows["start"], strict=True)
    ]
    return table(rows.assign(style=styles), columns)


def _watched_measure(row: Row) -> str:
    if row["measure"] != "cap":
        return OF_WEIGHTS[row["measure"]]
    return f"CAP, {'clean' if row['layer'] < 0 else 'layer {layer}'.format(**row)}, %"


def search(task: str) -> Table:
    """Every setting tried, and what it gained on the search seeds."""
    rows = frame(_search(task), "search").replace({"claim": CLAIMS})
    return pivot(rows, {"setting": "{setting}"}, ["claim"], {"{claim}": GAIN})


def held_out(task: str) -> Table:
    """The chosen settings on seeds that nothing was chosen on."""
    columns: Columns = {
        "setting": "{setting}",
        "measure": lambda row: CLAIMS[row["claim"]],
        "CARMA − FT, ± SE": GAIN,
        "p": "{p:p}",
        "p (Holm)": "{p_holm:p}",
    }
    return table(frame(_search(task), "held_out"), columns)


def _search(task: str) -> str:
    return f"carma_search_{task.replace('-', '_')}"


STABILITY: Final = {
    "consist_syn_cv": "CV of ConsistSyn",
    "improvement_over_original": "NI over the original, %",
    "improvement_over_ft": "NI over plain fine-tuning, %",
}


def stability(task: str) -> Table:
    """How measures vary over seeds, and improvements."""
    rows = chosen(frame(COMPARED[task], "summary"), ["metric"], STABILITY)
    styles = {"consist_syn_cv": ".3f"}
    rows["style"] = [styles.get(metric, ".1f") for metric in rows["metric"]]
    rows = rows.replace({"metric": STABILITY, "version": VERSIONS})
    by = {"95 % intervals over seeds": "{metric}, {rate:percent}"}
    interval = "{mean:{style}} [{ci_low:{style}}, {ci_high:{style}}]"
    return pivot(rows, by, ["version"], {"{version}": interval})


def poolings(task: str) -> Table:
    """CARMA minus plain fine-tuning at each layer, by pooling."""
    rows = chosen(_carma_over_ft(task, "protocols"), ["pooling"], ("mean", "max", "sum"))
    return pivot(_marked(rows), BY_LAYER, ["pooling"], {"{pooling}": f"{GAIN}{{mark}}"})


STREAMS: Final = {
    "same_word_cosine": "cosine within words",
    "different_word_cosine": "between words",
    "stable_rank": "stable rank",
}


def representations(task: str) -> Table:
    """How CARMA changes the residual streams, compared with plain fine-tuning."""
    rows = chosen(_carma_over_ft(task, "representations"), ["metric"], STREAMS)
    gain = "{difference:+.3f} ± {standard_error:.3f}{mark}"
    return pivot(
        _marked(rows.replace({"metric": STREAMS})), BY_LAYER, ["metric"], {"{metric}": gain}
    )


def _marked(rows: pd.DataFrame) -> pd.DataFrame:
    """By layer, with a star where a difference is beyond chance after the correction."""
    marks = (rows["p_holm"] < 0.05).map({True: " *", False: ""})
    return rows.assign(mark=marks).sort_values("layer", kind="stable")


def dose() -> Table:
    """How many words the synonym replacement asked for and reached, by task."""
    columns: Columns = {
        "task": "`{task}`",
        "asked for": "{rate:percent}",
        "words a prompt": "{words:.2f}",
        "eligible": "{eligible:.2f}",
        "wanted": "{wanted:.2f}",
        "replaced": "{replaced:.2f}",
        "mean dose": "{dose:.0points} %",
        "prompts with all wanted replaced": "{reached:.0points} %",
    }
    rows = pd.concat(frame(COMPARED[task], "dose").assign(task=task) for task in TASKS)
    return table(rows, columns)


def gains() -> Table:
    """How CARMA's gain under CAP depends on layer and task."""
    names = {
        "mean": "mean of all layers",
        "early_minus_late": "first layer − last",
        "slope": "slope, per layer",
    }
    rows = [
        {**measured.read(COMPARED[task])["gain_by_layer"][metric], "task": task, "name": name}
        for metric, name in names.items()
        for task in TASKS
    ]
    columns: Columns = {
        "CARMA − FT, points": "{name}",
        "task": "`{task}`",
        "± SE": GAIN,
        "95 %": "[{ci_low:.2f}, {ci_high:.2f}]",
        "p": "{p:p}",
    }
    return table(pd.DataFrame(rows), columns)


LABELLED: Final = (
    ("accuracy", "vocabulary", "accuracy, vocabulary"),
    ("accuracy", "labels", "labels"),
    ("cap", "vocabulary", "CAP at layer 0, vocabulary"),
    ("cap", "labels", "labels"),
)
"""Metric, answers and heading of the columns of :func:`labels`."""


def labels() -> Table:
    """Accuracy on mini-sst over the vocabulary and among the labels, by version."""
    names = {
        "original": "original",
        "mini-idm": "`mini-idm`, tuned on another task",
        "ft": "FT",
        "carma": "CARMA",
    }
    rows = frame("carma_labels_mini_sst", "means").query("metric == 'accuracy' or layer == 0")
    rows = chosen(rows, ["version"], names)
    rows = pd.DataFrame(LABELLED, columns=["metric", "answers", "head"]).merge(rows)

    def share(row: Row) -> str:
        ends = " ({low:.1f}–{high:.1f})" if row["n_seeds"] > 1 else ""
        return cell("{mean:.1f}" + ends, row)

    by = {"%": lambda row: names[row["version"]]}
    return pivot(rows, by, ["metric", "answers"], {"{head}": share})


def search_choice(task: str) -> str:
    """What the settings were chosen on, and what else a reader of the search must know."""
    result = measured.read(_search(task))
    seeds = ", ".join(map(str, result["search_seeds"]))
    text = f"Settings were chosen by their gains on the {result['chosen_on']} split (seeds {seeds})"
    if result["chosen_on"] == "test":
        text += (
            ", on whose prompts the held-out runs are scored too: their *seeds* are held out, the "
            "prompts are not, so that the gains below may be too large by what fits these prompts. "
            "`benchmarks.carma_search` chooses on the validation split now; it was not run again"
        )
    if result["rates_of"] == "eligible words":
        text += (
            ". ConsistSyn is of 25 % of the *eligible* words, which on this task replaces as many "
            "words as 25 % of all in 1133 of 1140 prompts"
        )
    return text + "."
