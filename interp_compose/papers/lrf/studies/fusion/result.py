"""Trained encoder–decoders opened up: what fuse-attention reads, and what layers keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.papers.lrf.studies.fusion.pooling import SPANS
from interp_compose.papers.lrf.studies.fusion.reading import ALL
from interp_compose.papers.lrf.studies.generalise.result import (
    ENTROPY_COLUMNS,
    OF_HEAD,
    READ_COLUMNS,
    STACKS,
)
from interp_compose.stats.intervals import wilson_interval
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import about, decimal, interval, text_table

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

READS: Final = Table(
    "reads",
    f"model str, {READ_COLUMNS}",
    key=("model", *OF_HEAD, "earlier"),
    known=STACKS,
    rules=("0 <= earlier <= layer", "n > 0"),
    may_be_empty=True,
)
ENTROPIES: Final = Table(
    "entropies",
    f"model str, {ENTROPY_COLUMNS}",
    key=("model", *OF_HEAD),
    known=STACKS,
    rules=("n > 0",),
    may_be_empty=True,
)
CUTS: Final = Table(
    "cuts",
    "model str, split str, stack str, layers str, earlier int, n_right int, n_clean int, n int",
    key=("model", "split", "stack", "layers", "earlier"),
    known=STACKS,
    rules=("0 <= n_right <= n", "0 <= n_clean <= n", "n > 0", "earlier >= 0"),
    may_be_empty=True,
)
PROBES: Final = Table(
    "probes",
    "model str, layer int, probe str, accuracy float null, control float null, "
    "majority float null, n_labels int, n_types int, n_train int, n int",
    key=("model", "layer", "probe"),  # NaN where no test token has a label of the training tokens
    known={"probe": ("word", "role")},
    rules=("layer >= 0", "n_labels > 0", "n_train > 0", "n >= 0"),
)
READ_BACK: Final = Table(
    "read_back",
    "model str, layer int, r2 float, n_train int, n int",
    key=("model", "layer"),
    rules=("layer >= 0", "r2 <= 1", "n_train > 0", "n > 0"),
)
CAP: Final = Table(
    "cap",
    "model str, split str, unit str, spans str, layer int, n_right int, n_clean int, n int",
    key=("model", "split", "unit", "spans", "layer"),
    known={"spans": SPANS},
    rules=("0 <= n_right <= n", "0 <= n_clean <= n", "n > 0", "layer >= 0"),
    may_be_empty=True,
)
TOKENS: Final = Table(
    "tokens",
    "model str, split str, type str, kind str, n_right int, n int, n_whole int, n_pairs int",
    key=("model", "split", "type", "kind"),
    rules=("0 <= n_right <= n", "0 <= n_whole <= n_pairs", "n_pairs <= n", "n_pairs > 0"),
)
SCHEMA: Final = (READS, ENTROPIES, CUTS, PROBES, READ_BACK, CAP, TOKENS)


@public
@dataclass(frozen=True, eq=False, repr=False)
class Fusion(StudyResult):
    """Encoder–decoders from the inside; made by :func:`fusion`.

    ``layer`` of ``probes`` and ``read_back`` counts the residuals of the encoder: 0 is the
    embeddings, l what leaves layer l - 1. ``earlier`` counts what fuse-attention reads in the same
    way.
    """

    SCHEMA = SCHEMA
    TABLES = tuple(table.name for table in SCHEMA)
    FIGURES = (
        "fusion_heads",
        "fusion_kinds",
        "fusion_cuts",
        "fusion_probes",
        "fusion_forgetting",
        "fusion_cap",
        "fusion_tokens",
    )

    @classmethod
    def from_rows(cls, frames: Mapping[str, pd.DataFrame], config: Mapping[str, Any]) -> Fusion:
        """A result of tables as ``Fusion.SCHEMA`` states them.

        Raises:
            InputError: a table or column is missing, foreign or of the wrong type; rows are
                missing or doubled; counts do not fit.
        """
        return cls._checked(frames, config)

    @property
    def frame(self) -> pd.DataFrame:
        """One row per model, residual of the encoder and probe.

        Columns: model, layer, probe ("word", "role"), accuracy, control (of the same probe on
        random labels), majority (of the commonest label), n_labels (whose reciprocal is chance),
        n_types (words), n_train and n (tokens).
        """
        return self.frames["probes"]

    @property
    def reads(self) -> pd.DataFrame:
        """The mean weight that fuse-attention gives an earlier layer's output, by model, split,
        stack, layer, head and kind of token; empty without fuse-attention."""
        return self.frames["reads"]

    @property
    def cuts(self) -> pd.DataFrame:
        """How many sequences are right with an earlier layer cut out of the fuse-attention of one
        layer, or of "all" layers of a stack; empty without fuse-attention."""
        return self.frames["cuts"]

    @property
    def cap(self) -> pd.DataFrame:
        """How many sequences are right with phrases of the source pooled before a layer; empty
        where the task has no grammar here."""
        return self.frames["cap"]

    @property
    def tokens(self) -> pd.DataFrame:
        """How many target tokens are predicted right, given those before them.

        One row per model, split, type of pairs and kind of token ("structure": all that name no
        word of the source). Columns: n_right of n tokens, and n_whole, pairs of which all such
        tokens are right, of n_pairs that have some.
        """
        return self.frames["tokens"]

    def summary(self) -> str:
        """What probes read from each layer; what is left on the last split without an earlier
        layer, and with phrases pooled."""
        probes = self.frame.assign(selectivity=self.frame["accuracy"] - self.frame["control"])
        r2 = self.frames["read_back"].set_index(["model", "layer"])["r2"]
        words = probes[probes["probe"] == "word"].set_index(["model", "layer"])
        roles = probes[probes["probe"] == "role"].set_index(["model", "layer"])
        table = pd.DataFrame(
            {
                "r2": r2,
                "word": words["accuracy"],
                "role": roles["accuracy"],
                "control": roles["control"],
                "majority": roles["majority"],
                "selectivity": roles["selectivity"],
                "n": words["n"],
            }
        ).loc[r2.index]
        columns = [
            ("model", "model", "<24"),
            ("layer", "layer", ">5"),
            ("embeddings R²", "r2", ">15.3f"),
            ("word", "word", ">8.3f"),
        ]
        if len(roles):
            columns += [
                ("role", "role", ">8.3f"),
                ("control", "control", ">9.3f"),
                ("majority", "majority", ">10.3f"),
                ("selectivity", "selectivity", ">13.3f"),
            ]
        columns.append(("n", "n", ">7"))
        lines = ["what a linear probe reads from each residual of the encoder (0: embeddings)", ""]
        lines += text_table(table.reset_index(), columns)
        split = self.config["splits"][-1]
        for title, name, place in (
            ("with an earlier layer cut out of all fuse-attention", "cuts", ("stack", "earlier")),
            ("with phrases pooled before a layer", "cap", ("unit", "spans", "layer")),
        ):
            rows = self.frames[name].query("split == @split")
            if name == "cuts":
                rows = rows[rows["layers"] == ALL]
            if rows.empty:
                continue
            shares = rows.assign(
                left=100 * rows["n_right"] / rows["n"], clean=100 * rows["n_clean"] / rows["n"]
            )
            lines += ["", f"{split}: sequences that are right, in per cent, {title}", ""]
            numbers = (("left", "left", ">8.1f"), ("clean", "clean", ">8.1f"), ("n", "n", ">8"))
            named = (("model", "model", "<24"), *((one, one, "<13") for one in place))
            lines += text_table(shares, (*named, *numbers))
        return self._told(lines)

    def _head(self) -> tuple[str, str]:
        models = ", ".join(dict.fromkeys(self.frames["read_back"]["model"]))
        seed = [f"seed {self.config['seed']}"] if "seed" in self.config else []
        return models, about(self.config, ("grammar",), *seed)

    def sentences(self) -> list[str]:
        """What is left of embeddings, and what probes read, in the encoder's last residual."""
        clauses = []
        for model, rows in self.frames["read_back"].groupby("model", sort=False):
            last = int(rows["layer"].max())
            r2 = rows.loc[rows["layer"] == last, "r2"].item()
            parts = [f"{model} (residual {last}) R² {decimal(r2, 3)} of embeddings"]
            probes = self.frame.query("model == @model and layer == @last").dropna(
                subset=["accuracy", "control"]
            )
            for row in probes.to_dict("records"):
                n_right = round(row["accuracy"] * row["n"])
                ends = map(float, wilson_interval(n_right, row["n"]))
                parts.append(
                    f"{row['probe']} {interval(row['accuracy'], *ends)} against "
                    f"{decimal(row['control'], 3)} on random labels, and "
                    f"{decimal(row['majority'], 3)} by always naming the commonest"
                )
            clauses.append(", ".join(parts))
        return [
            "Asked: what linear probes read from the encoder's last residual, as accuracies with "
            f"95 % intervals over tokens, as if each were drawn by itself: {'; '.join(clauses)}.",
            "Random labels are drawn once for each word: where a task has few words, as SCAN has, "
            "any probe learns them by heart. A probe shows what can be read, not what the model "
            "uses; of each model one run was opened, so that no spread over seeds is shown.",
        ]

    def figures(self) -> dict[str, ChartFigure]:
        """Those of fuse-attention where a model has some, that of pooling where there are phrases,
        that of kinds of tokens where the task has a grammar here, and those of probes."""
        from interp_compose.papers.lrf.studies.fusion import figures
        from interp_compose.papers.shared.grid.figures import spelt

        config = self.config
        frames = {
            name: rows.assign(model=rows["model"].map(spelt)) for name, rows in self.frames.items()
        }
        charts: dict[str, ChartFigure] = {}
        if (frames["reads"]["earlier"] < frames["reads"]["layer"]).any():
            charts["fusion_heads"] = figures.heads_figure(frames["reads"], config)
            charts["fusion_kinds"] = figures.kinds_figure(frames["reads"], config)
        if len(frames["cuts"]):
            charts["fusion_cuts"] = figures.cuts_figure(frames["cuts"], config)
        if (frames["probes"]["accuracy"] - frames["probes"]["control"]).notna().any():
            charts["fusion_probes"] = figures.probes_figure(frames["probes"], config)
        charts["fusion_forgetting"] = figures.forgetting_figure(
            frames["read_back"], frames["probes"], config
        )
        if len(frames["cap"]):
            charts["fusion_cap"] = figures.cap_figure(frames["cap"], config)
        if config["grammar"] != "none":
            charts["fusion_tokens"] = figures.tokens_figure(frames["tokens"], config)
        return charts
