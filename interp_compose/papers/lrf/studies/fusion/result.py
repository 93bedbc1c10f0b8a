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
from interp_compose.studies.core.text import Summary, about, decimal, interval, text_table

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
    "model str, stack str, layer int, probe str, accuracy float null, control float null, "
    "majority float null, n_labels int, n_types int, n_train int, n int",
    # NaN where no test token has a label of the training tokens
    key=("model", "stack", "layer", "probe"),
    known={**STACKS, "probe": ("word", "role")},
    rules=("layer >= 0", "n_labels > 0", "n_train > 0", "n >= 0"),
)
READ_BACK: Final = Table(
    "read_back",
    "model str, stack str, layer int, r2 float, n_train int, n int",
    key=("model", "stack", "layer"),
    known=STACKS,
    rules=("layer >= 0", "r2 <= 1", "n_train > 0", "n > 0"),
)
ENTANGLEMENT: Final = Table(
    "entanglement",
    "model str, stack str, layer int, probe str, given str, kind str, within float, across float, "
    "majority float, n_train int, n int",
    key=("model", "stack", "layer", "probe"),
    known={**STACKS, "probe": ("role", "word"), "given": ("role", "word")},
    rules=("layer >= 0", "n_train > 0", "n > 0", "0 <= within <= 1", "0 <= across <= 1"),
    may_be_empty=True,
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
SCHEMA: Final = (READS, ENTROPIES, CUTS, PROBES, READ_BACK, ENTANGLEMENT, CAP, TOKENS)


@public
@dataclass(frozen=True, eq=False, repr=False)
class Fusion(StudyResult):
    """Encoder–decoders from the inside; made by :func:`fusion`.

    ``layer`` of ``probes``, ``read_back`` and ``entanglement`` counts the residuals of a stack: 0
    is the embeddings, l what leaves layer l - 1. ``earlier`` counts what fuse-attention reads in
    the same way.
    """

    SCHEMA = SCHEMA
    TABLES = tuple(table.name for table in SCHEMA)
    FIGURES = (
        "fusion_heads",
        "fusion_kinds",
        "fusion_cuts",
        "fusion_probes",
        "fusion_entanglement",
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
        """One row per model, stack, residual and probe.

        Columns: model, stack, layer, probe ("word", "role"), accuracy, control (of the same probe
        on random labels), majority (of the commonest label), n_labels (whose reciprocal is chance),
        n_types (words), n_train and n (tokens).
        """
        return self.frames["probes"]

    @property
    def entanglement(self) -> pd.DataFrame:
        """One row per model, stack, residual and probe ("role", "word"); empty where the task has
        no grammar here.

        Columns: model, stack, layer, probe, given (the other label), kind (of the tokens, all of
        one), within and across (accuracies of probes fitted with and without the values of the
        other label that they are tested on; their difference is the entanglement), majority (of
        the commonest label), n_train and n (tokens).
        """
        return self.frames["entanglement"]

    @property
    def reads(self) -> pd.DataFrame:
        """The mean weight that fuse-attention gives an earlier layer's output, by model, split,
        stack, layer, head and kind of token; empty without fuse-attention."""
        return self.frames["reads"]

    @property
    def cuts(self) -> pd.DataFrame:
        """How many sequences are right with an earlier layer knocked out of the fuse-attention of
        one layer, or of "all" layers of a stack; empty without fuse-attention."""
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

    def _summary(self) -> Summary:
        """What probes read from each layer; what is left on the last split without an earlier
        layer, and with phrases pooled."""
        probes = self.frame.assign(selectivity=self.frame["accuracy"] - self.frame["control"])
        residual = ["model", "stack", "layer"]
        r2 = self.frames["read_back"].set_index(residual)["r2"]
        words = probes[probes["probe"] == "word"].set_index(residual)
        roles = probes[probes["probe"] == "role"].set_index(residual)
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
            ("stack", "stack", "<8"),
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
        title = "what a linear probe reads from each residual of a stack (0: embeddings)"
        lines: Summary = [title, "", text_table(table.reset_index(), columns)]
        if len(self.entanglement):
            lines += ["", *self._entanglement_lines()]
        split = self.config["splits"][-1]
        for title, name, place in (
            (
                "with an earlier layer knocked out of all fuse-attention",
                "cuts",
                ("stack", "earlier"),
            ),
            ("phrases pooled before a layer", "cap", ("unit", "spans", "layer")),
        ):
            rows = self.frames[name].query("split == @split")
            if name == "cuts":
                rows = rows[rows["layers"] == ALL]
            if rows.empty:
                continue
            shares = rows.assign(
                left=100 * rows["n_right"] / rows["n"], clean=100 * rows["n_clean"] / rows["n"]
            )
            lines += ["", f"{split}: sequences that are right, in per cent, with {title}", ""]
            numbers = (("left", "left", ">8.1f"), ("clean", "clean", ">8.1f"), ("n", "n", ">8"))
            named = (("model", "model", "<24"), *((one, one, "<13") for one in place))
            lines += [text_table(shares, (*named, *numbers))]
        return self._told(lines)

    def _entanglement_lines(self) -> Summary:
        rows = self.entanglement
        rows = rows.assign(entangled=rows["within"] - rows["across"])
        kinds = ", ".join(
            f"{stack}: {own}" for stack, own in rows.groupby("stack")["kind"].first().items()
        )
        heading = (
            "probes of one label, fitted with (within) and without (across) the values of the "
            f"other that they are tested on; tokens of one kind ({kinds})"
        )
        columns = [
            *(("model", "model", "<24"), ("stack", "stack", "<8"), ("layer", "layer", ">5")),
            *(
                ("probe", "probe", ">7"),
                ("within", "within", ">9.3f"),
                ("across", "across", ">9.3f"),
            ),
            ("entanglement", "entangled", ">14.3f"),
            *(("majority", "majority", ">10.3f"), ("n", "n", ">7")),
        ]
        return [heading, "", text_table(rows, columns)]

    def _head(self) -> tuple[str, str]:
        models = ", ".join(dict.fromkeys(self.frames["read_back"]["model"]))
        seed = [f"seed {self.config['seed']}"] if "seed" in self.config else []
        return models, about(self.config, ("grammar",), *seed)

    def _answers(self) -> list[str]:
        from interp_compose.papers.lrf.studies.fusion.answers import answers

        return answers(self.frames, self.config["splits"][-1])

    def sentences(self) -> list[str]:
        """What knockouts or pooling leave of models; what is left of embeddings, and what probes
        read, in the encoder's last residual."""
        clauses = []
        encoders = self.frames["read_back"].query("stack == 'encoder'")
        for model, rows in encoders.groupby("model", sort=False):
            last = int(rows["layer"].max())
            r2 = rows.loc[rows["layer"] == last, "r2"].item()
            parts = [f"{model} (residual {last}) R² {decimal(r2, 3)} of embeddings"]
            probes = self.frame.query(
                "model == @model and layer == @last and stack == 'encoder'"
            ).dropna(subset=["accuracy", "control"])
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
            *self._answers(),
            "Asked: what linear probes read from the encoder's last residual, as accuracies with "
            f"95 % intervals over tokens, as if each were drawn by itself: {'; '.join(clauses)}.",
            "Random labels are drawn once for each word: where a task has few words, as SCAN has, "
            "any probe learns them by heart. A probe shows what can be read, not what the model "
            "uses; of each model one run was opened, so that no spread over seeds is shown.",
        ]

    def figures(self) -> dict[str, ChartFigure]:
        """Those of fuse-attention where a model has some, that of pooling where there are phrases,
        those of kinds of tokens and of entanglement where the task has a grammar here, and those of
        probes."""
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
        if len(frames["entanglement"]):
            charts["fusion_entanglement"] = figures.entanglement_figure(
                frames["entanglement"], config
            )
        charts["fusion_forgetting"] = figures.forgetting_figure(
            frames["read_back"], frames["probes"], config
        )
        if len(frames["cap"]):
            charts["fusion_cap"] = figures.cap_figure(frames["cap"], config)
        if config["grammar"] != "none":
            charts["fusion_tokens"] = figures.tokens_figure(frames["tokens"], config)
        return charts
