"""What encoders learn in pre-training, and how they differ."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.papers.shared.grid.shares import differences_of_readings, summary_of, with_costs
from interp_compose.studies.core.decided import Measure
from interp_compose.studies.core.grid import GridResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import LIMITS, Column, Summary, decimal, text_table
from interp_compose.studies.core.view import StudyQuestion, View

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

EACH: Final = (("model",), ("seed",))
RUNS: Final = Table(
    "runs",
    "model str, seed int, n_parameters int, steps int, step_seconds float, first_loss float, "
    "last_loss float",
    key=("model", "seed"),
    complete=EACH,
    rules=("n_parameters > 0", "steps > 0", "step_seconds > 0"),
)
MEASURES: Final = (
    "masked_loss float, masked_accuracy float, n_masked int, next_accuracy float, n_pairs int"
)
RULES: Final = (
    "masked_loss >= 0",
    "0 <= masked_accuracy <= 1",
    "n_masked > 0",
    "0 <= next_accuracy <= 1",
    "n_pairs >= 0",
)
OUTPUTS: Final = ("cont", "comp", "mix")
ALIKE: Final = 0.98
"""Where composed vectors of a block are alike by more, they hardly tell words apart."""
HELD_OUT: Final = Table(
    "held_out",
    f"model str, seed int, output str, {MEASURES}",
    key=("model", "seed", "output"),
    complete=(("model", "output"), ("seed",)),
    known={"output": OUTPUTS},
    rules=RULES,
)
CURVE: Final = Table(
    "curve",
    f"model str, seed int, step int, output str, {MEASURES}",
    key=("model", "seed", "step", "output"),
    complete=(("model", "output"), ("seed",), ("step",)),
    known={"output": OUTPUTS},
    rules=RULES,
)
CODES_USED: Final = (
    "n_codes int, codes_per_word float, without_codes float, dead_codes int, perplexity float, "
    "alike float, revived int"
)
CODES_RULES: Final = (
    "0 <= codes_per_word <= n_codes",
    "0 <= without_codes <= 1",
    "0 <= dead_codes <= n_codes",
    "0 <= alike <= 1",
    "revived >= 0",
)
CODES: Final = Table(
    "codes",
    f"model str, seed int, layer int, {CODES_USED}",
    key=("model", "seed", "layer"),
    complete=(("model", "layer"), ("seed",)),
    rules=CODES_RULES,
    may_be_empty=True,
)
CODES_CURVE: Final = Table(
    "codes_curve",
    f"model str, seed int, step int, layer int, {CODES_USED}",
    key=("model", "seed", "step", "layer"),
    complete=(("model", "layer"), ("seed",), ("step",)),
    rules=CODES_RULES,
    may_be_empty=True,
)
LOSSES: Final = Table(
    "terms",
    "model str, seed int, step int, term str, value float",
    key=("model", "seed", "step", "term"),
    complete=(("model", "term"), ("seed",), ("step",)),
    rules=("value >= 0",),
)
COMPOSED: Final = {
    "cat": "cat: every block composes",
    "cat-last": "cat-last: the last block composes",
    "fixed": "-fixed: random codes (control)",
    "mlp": "-mlp: no codes (control)",
}
"""What a subtitle says of models, by name or by its end."""


@public
@dataclass(frozen=True, eq=False, repr=False)
class Pretrained(GridResult):
    """Encoders pre-trained on one text, seed by seed; made by :func:`pretrain`."""

    SCHEMA = (RUNS, HELD_OUT, CURVE, LOSSES, CODES, CODES_CURVE)
    TABLES = (
        *("runs", "held_out", "curve", "terms", "codes", "codes_curve"),
        *("summary", "differences"),
    )
    FIGURES = ("pretrain_curve", "pretrain_codes")
    VIEW = View(
        "{n:,} masked tokens of held-out documents: means, smallest to largest seed",
        place=(Column("model", "model", "<11"), Column("output", "output", "<8")),
        values=(
            Column("masked loss", "masked_loss", ">12.4f"),
            Column("seeds", ("smallest", "largest"), ">14.3"),
            Column("masked right, %", "masked_accuracy", ">17.2f", 100.0),
            Column("next right, %", "next_accuracy", ">15.2f", 100.0),
            Column("parameters", "n_parameters", ">13,"),
            Column("ms a step", "step_seconds", ">11.1f", 1e3),
        ),
    )
    QUESTION = StudyQuestion(
        "how well encoders predict {n:,} masked tokens of held-out documents (nats a token)",
        by="reading",
        at={"measure": "masked_loss"},
        measure=Measure("nats a token", 0.05),
        limits=f"Whether their vectors follow meaning is not asked here, but by encoders. {LIMITS}",
    )

    def computed(self) -> dict[str, pd.DataFrame]:
        """The means over seeds, and how models and outputs differ."""
        values = _long(self.frames["held_out"])
        losses = values[values["measure"] == "masked_loss"]
        first = " ".join(values[["model", "output"]].iloc[0])
        return {
            "summary": summary_of(values, ("model", "output", "measure"), most=math.inf),
            "differences": differences_of_readings(losses, first, ["measure"]),
        }

    @property
    def frame(self) -> pd.DataFrame:
        """One row per model, output and measure of the held-out documents, over seeds.

        Columns: model, output ("cont", "comp" or "mix": the representation that is read), measure
        ("masked_loss": nats a masked token; "masked_accuracy"; "next_accuracy": whether the second
        part follows, a half by chance), mean, low and high (the ends of Student's t interval at
        95 %; NaN of one seed), smallest and largest seed, n (masked tokens, or pairs), n_seeds.
        """
        return self.frames["summary"]

    @property
    def differences(self) -> pd.DataFrame:
        """Of two models and outputs (``reading`` and ``other``), paired by seed, in the loss of
        masked tokens (nats).

        Columns: reading, other, compared ("first": with the first reading; "output": comp and mix
        with cont of the same model; "control": with the same output of a control, that is cat with
        cat-fixed and cat-mlp, cat-last with cat-last-fixed and cat-last-mlp), measure, difference
        (reading − other), ci_low and ci_high (95 %), p (paired t test, two-sided), p_holm (over all
        rows that have the same ``compared``), n_seeds.
        """
        return self.frames["differences"]

    @property
    def terms(self) -> pd.DataFrame:
        """Each term of the loss on the training batches, without its weight.

        Columns: model, seed, step, term ("masked", "next", "guided", …; CAT, eqs 4–7), value (the
        mean over the steps since the evaluation before).
        """
        return self.frames["terms"]

    @property
    def codes(self) -> pd.DataFrame:
        """What each block's codes are used for, a row per run and block that composes.

        Columns: model, seed, layer, n_codes, codes_per_word (with a weight that is not 0),
        without_codes (the share of words that have none), dead_codes (that no word of the held-out
        documents has), perplexity (exp of the entropy of the codes' frequencies: how many are used
        evenly), alike (‖mean h_comp‖² / mean ‖h_comp‖²: 1 where all words are composed into one
        vector), revived (how many times a code was moved to a word in training).
        """
        return self.frames["codes"]

    def _rows(self) -> pd.DataFrame:
        place = ["model", "output"]
        wide = self.frame.pivot_table(index=place, columns="measure", values="mean", sort=False)
        losses = self.frame[self.frame["measure"] == "masked_loss"]
        ends = losses[[*place, "smallest", "largest", "n"]]
        return with_costs(wide.reset_index().merge(ends), self.frames["runs"])

    def _summary(self) -> Summary:
        """A row per model and output, and one for each block's codes."""
        return self._told([*self.VIEW.lines(self._rows()), *self._codes()])

    def _codes(self) -> Summary:
        if self.codes.empty:
            return []
        place = self.codes.groupby(["model", "layer"], sort=False, as_index=False)
        rows, uses = place.mean(numeric_only=True), []
        for row in rows.to_dict("records"):
            moved = f", {row['revived']:.0f} times moved to a word" if row["revived"] else ""
            uses.append(
                f"{decimal(row['codes_per_word'], 1):>8} a word of {row['n_codes']:.0f}, "
                f"{row['dead_codes']:.0f} used by none, perplexity "
                f"{decimal(row['perplexity'], 1)}, {100 * row['without_codes']:.2f} % of words "
                f"without, composed vectors alike {decimal(row['alike'], 3)}{moved}"
            )
        rows = rows.assign(layer=[f"layer {layer}" for layer in rows["layer"]], uses=uses)
        table = text_table(rows, (("", "model", "<11"), ("", "layer", "<9"), ("", "uses", "")))
        title = "codes, after the last step, means over seeds:"
        return ["", title, "", table, "", self._loss_of_codes()]

    def _loss_of_codes(self) -> str:
        """Which terms codes were trained by, with their weights."""
        names = ("guided", "sparsity", "guided_positive")
        of_wrong, of_all, of_right = (float(self.config.get(n, n != names[2])) for n in names)
        loss = f"codes were guided by CAT's eq. 4 (guided {of_wrong:g}, sparsity {of_all:g})"
        if not of_right:
            return f"{loss}, which is smallest without any code"
        ours = f"a term for right sememes, which CAT lacks (guided_positive {of_right:g})"
        return f"{loss} and {ours}"

    @property
    def notes(self) -> list[str]:
        """Runs in which nearly all words are composed into one vector."""
        alike = self.codes[self.codes["alike"] > ALIKE]
        runs: dict[tuple[str, int], list[int]] = {}
        for row in alike.to_dict("records"):
            runs.setdefault((row["model"], row["seed"]), []).append(row["layer"])
        return super().notes + [
            f"{model}, seed {seed}: nearly all words are composed into one vector in layer"
            f"{'s' * (len(layers) > 1)} {', '.join(map(str, layers))} (alike by more than "
            f"{ALIKE}), so that composed vectors hardly tell words apart"
            for (model, seed), layers in runs.items()
        ]

    def figures(self) -> dict[str, ChartFigure]:
        """The loss of masked tokens over training, and the codes of a word."""
        from interp_compose.papers.shared.grid.figures import curve_figure, n_seeds

        about = (
            f"{self.config['n_layers']} layers, width {self.config['d_model']}",
            n_seeds(self.config),
        )
        curve, codes = self.frames["curve"], self.frames["codes_curve"]
        last = curve["output"] == "cont"  # which every model has: the last panel's lines are named
        rows = pd.concat([curve[~last], curve[last]])
        charts = {
            "pretrain_curve": curve_figure(
                rows.assign(split=rows["output"], n=rows["n_masked"]),
                "model",
                self.config,
                about,
                value="masked_loss",
                name="nats a masked token",
                of="measured on {} held-out masked tokens",
            )
        }
        if len(codes):
            blocks = [f"layer {layer}" for layer in codes["layer"]]
            charts["pretrain_codes"] = curve_figure(
                codes.assign(split=blocks, n=codes["n_codes"]),
                "model",
                self.config,
                about,
                value="codes_per_word",
                name="codes a word",
                of="of the {} codes of a block",
            )
        return charts


def _long(held_out: pd.DataFrame) -> pd.DataFrame:
    """A row of each run, output and measure."""
    counts = {"masked_loss": "n_masked", "masked_accuracy": "n_masked", "next_accuracy": "n_pairs"}
    return pd.concat(
        [
            held_out.assign(measure=name, value=held_out[name], n=held_out[of])
            for name, of in counts.items()
        ],
        ignore_index=True,
    )


def told_of_models(models: Iterable[str]) -> list[str]:
    """What composes in each, and each control, once."""
    parts = []
    for model in models:
        name, _, end = model.rpartition("-")
        parts += [name, end] if end in COMPOSED and name else [model]
    return [COMPOSED[one] for one in dict.fromkeys(parts) if one in COMPOSED]
