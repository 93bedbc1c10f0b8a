"""How fast the training data were fitted: every run, every pair, every sample that counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp_compose._public import public
from interp_compose.errors import InputError, OptionError
from interp_compose.papers.complexity.studies.anchors.titles import diverged_runs
from interp_compose.studies.core.grid import GridResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import LIMITS, Summary, counted, over_seeds, text_table

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure


CELL: Final = ("init_rate", "n_layers", "violations")
MEASURES: Final = ("accuracy", "loss")
SHARES: Final = np.array([0, 0.005, 0.01, 0.02, 0.05, *np.linspace(0.1, 1, 10)])
"""False-positive rates at which ROC curves of several seeds are averaged."""


def spread(values: Float[np.ndarray, "run"]) -> tuple[int, float, float, float]:
    """How many got there, and mean, smallest and largest number of epochs.

    NaN stands for a run that never got there, so that its number is above all that were counted:
    with any such run there is no mean and no largest, and the smallest is that of the others.
    """
    reached = values[~np.isnan(values)]
    low = float(reached.min()) if len(reached) else math.nan
    if not len(reached) or len(reached) < len(values):
        return len(reached), math.nan, low, math.nan
    return len(reached), float(reached.mean()), low, float(reached.max())


def cells_of(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per init rate, depth and number of violating groups; see
    :attr:`.result.FittingSpeed.cells`."""
    rows = []
    for place, group in runs.groupby(list(CELL), sort=True):
        row: dict[str, object] = dict(zip(CELL, place, strict=True))
        row |= {"n": len(group), "diverged": int((~group["finite"]).sum())}
        for name in MEASURES:
            epochs = spread(group[f"{name}_epochs"].to_numpy(float))
            columns = [f"{name}_{what}" for what in ("fitted", "epochs", "low", "high")]
            row |= dict(zip(columns, epochs, strict=True))
        areas = group["auc"].dropna().to_numpy(float)
        ends = (areas.mean(), areas.min(), areas.max()) if len(areas) else [math.nan] * 3
        row |= dict(zip(("auc", "auc_low", "auc_high"), map(float, ends), strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def pair_cells_of(pairs: pd.DataFrame) -> pd.DataFrame:
    """The same of each pair of anchors; see :attr:`.result.FittingSpeed.pair_cells`."""
    rows = []
    for place, group in pairs.groupby([*CELL, "pair"], sort=True):
        epochs = spread(group["epochs"].to_numpy(float))
        rows.append(
            {
                **dict(zip((*CELL, "pair"), place, strict=True)),
                "violates": bool(group["violates"].iloc[0]),
                "touched": bool(group["touched"].iloc[0]),
                "n": len(group),
                **dict(zip(("fitted", "epochs", "low", "high"), epochs, strict=True)),
            }
        )
    return pd.DataFrame(rows)


def roc_of(samples: pd.DataFrame) -> pd.DataFrame:
    """The ROC curves of a study's samples, averaged over seeds at equal false-positive rates
    (Fawcett 2006, vertical averaging); see :attr:`.result.FittingSpeed.roc`.

    A run whose samples all violate the rule, or none of them, has no curve.
    """
    columns = [*CELL, "false_positive_rate", "true_positive_rate", "low", "high", "n"]
    parts = []
    for place, group in samples.groupby(list(CELL), sort=True):
        curves = [
            true_positive_rates(run["lateness"].to_numpy(float), run["violates"].to_numpy(bool))
            for _, run in group.groupby("seed", sort=True)
            if run["violates"].nunique() == 2
        ]
        if not curves:
            continue
        rates = np.stack(curves)
        numbers: Sequence[object] = (
            SHARES, rates.mean(axis=0), rates.min(axis=0), rates.max(axis=0), len(curves)
        )  # fmt: skip
        parts.append(pd.DataFrame(dict(zip(columns, (*place, *numbers), strict=True))))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def true_positive_rates(
    late: Float[np.ndarray, "sample"], violating: np.ndarray
) -> Float[np.ndarray, "share"]:
    """The ROC curve at :data:`SHARES`: its highest point there, straight between its corners."""
    from sklearn.metrics import roc_curve

    false, true, _ = roc_curve(violating, late, drop_intermediate=False)
    corner = np.searchsorted(false, SHARES + 1e-12, side="right") - 1  # 0.3 is not 3/10 in floats
    next_corner = np.minimum(corner + 1, len(false) - 1)
    width = np.where(false[next_corner] > false[corner], false[next_corner] - false[corner], 1.0)
    rates: Float[np.ndarray, "share"] = true[corner] + (true[next_corner] - true[corner]) * (
        (SHARES - false[corner]) / width
    )
    return rates


PLACE: Final = (*CELL, "seed")
COLUMNS: Final = "init_rate float, n_layers int, violations int, seed int"
RUNS: Final = Table(
    "runs",
    f"{COLUMNS}, finite bool, epochs float, accuracy float, loss float null, "
    "accuracy_epochs float null, loss_epochs float null, auc float null",
    key=PLACE,
)
PAIRS: Final = Table(
    "pairs",
    f"{COLUMNS}, pair str, violates bool, touched bool, epochs float null",
    key=(*PLACE, "pair"),
)
SAMPLES: Final = Table(
    "samples",
    f"{COLUMNS}, sample int, pair str, violates bool, lateness float",
    key=(*PLACE, "sample"),
    may_be_empty=True,
)


@public
@dataclass(frozen=True, eq=False, repr=False)
class FittingSpeed(GridResult):
    """How fast models fit data that break the rule; made by :func:`fitting_speed`."""

    SCHEMA = (RUNS, PAIRS, SAMPLES)
    TABLES = ("runs", "pairs", "samples")
    RUNS = ("runs/ (history of each)",)
    FIGURES = ("fitting_epochs", "fitting_epochs_by_loss", "fitting_pairs", "violations_roc")

    @property
    def frame(self) -> pd.DataFrame:
        """One row per run.

        ================= =====================================================================
        init_rate         γ: the deviation of a weight at the start is fan_in^-γ
        n_layers          the depth
        violations        groups of anchor pairs with a consistent wrong target: the reasoning
                          complexity
        seed              of data, initialisation and order
        finite            whether every weight is a number at the end; else the run has diverged
        epochs            that were trained: until both numbers below were there, or to the end
        accuracy, loss    of all training samples, at the last evaluation (loss in nats)
        accuracy_epochs   until every training sample was predicted right, for the first time
                          (Fig. 8A); NaN where that never came
        loss_epochs       until the mean training loss was 0.05 or less (section VIII's text)
        auc               area under the ROC curve by which lateness tells the samples that
                          violate the rule from the others; NaN where none does, or where the
                          run has diverged
        ================= =====================================================================

        Numbers of epochs are those of evaluations: rounded up to the next one, by default a whole
        epoch.
        """
        return self.frames["runs"]

    @property
    def pairs(self) -> pd.DataFrame:
        """A row per run and pair of anchors: ``epochs`` until 0.6 of the pair's own training
        samples were predicted right, for the first time (Fig. 8B), NaN where that never came;
        ``violates`` where the pair's target breaks the rule, ``touched`` where both of its anchors
        are those of one such pair."""
        return self.frames["pairs"]

    @property
    def samples(self) -> pd.DataFrame:
        """A row per training sample of each run in which something violates the rule.

        ``sample`` is its place in the run's training data, which
        ``run.task.sample("train", run.samples, seed=run.stream("train"))`` gives again.
        ``lateness`` is when it had converged: the share of evaluations, the one before the first
        step among them, before that from which it was predicted right to the end; 1 where it was
        wrong at the last.
        """
        return self.frames["samples"]

    @property
    def cells(self) -> pd.DataFrame:
        """One row per init rate, depth and number of violating groups.

        ``n`` counts the runs, ``diverged`` those whose weights became NaN or infinite. For
        ``accuracy`` and ``loss`` each, ``<measure>_fitted`` counts the runs that got there,
        ``<measure>_epochs``, ``_low`` and ``_high`` are their mean, smallest and largest number of
        epochs. Where some run never got there, mean and largest are NaN: they are above what was
        counted, by an amount that is not known. ``auc``, ``auc_low`` and ``auc_high`` are over the
        runs that have one.
        """
        return cells_of(self.frame)

    @property
    def pair_cells(self) -> pd.DataFrame:
        """One row per cell and pair of anchors: ``n`` runs of which ``fitted`` got there, and their
        ``epochs``, ``low`` and ``high`` as in :attr:`cells`."""
        return pair_cells_of(self.pairs)

    @property
    def roc(self) -> pd.DataFrame:
        """Mean ROC curves of each cell: ``true_positive_rate`` with its smallest (``low``) and
        largest (``high``) over ``n`` seeds, by ``false_positive_rate``. A violating sample that is
        later than a threshold is a true positive, another one a false positive."""
        sound = self.frame.loc[self.frame["finite"], [*PLACE]]
        return roc_of(self.samples.merge(sound, on=[*PLACE]))

    def ranked(
        self,
        *,
        init_rate: float | None = None,
        n_layers: int | None = None,
        violations: int | None = None,
        seed: int | None = None,
    ) -> pd.DataFrame:
        """The training samples of one run, the latest first: where data that break a rule are to
        be looked for. ``rank`` counts from 1; samples that are as late share the mean of theirs,
        and stay in the order of the data.

        Args:
            init_rate: by default the largest, which is the smallest initialisation.
            n_layers: by default the smallest depth.
            violations: by default the fewest that there are.
            seed: by default the first.

        Raises:
            InputError: nothing violates the rule in any run.
            OptionError: no such run, one that diverged, or nothing violates the rule in it.
        """
        samples = self.samples
        self._check_violations()
        for name, value in (
            ("init_rate", init_rate), ("n_layers", n_layers),
            ("violations", violations), ("seed", seed),
        ):  # fmt: skip
            known = sorted(samples[name].unique().tolist())
            chosen = (known[-1] if name == "init_rate" else known[0]) if value is None else value
            samples = samples[samples[name] == self._known(name, chosen, known)]
        run = dict(samples.iloc[0][[*PLACE]])
        if not self.frame.set_index([*PLACE]).loc[tuple(run.values()), "finite"]:
            raise OptionError(
                f"the run of {', '.join(f'{key} {value:g}' for key, value in run.items())} "
                "diverged: none of its samples was ever learned; choose another"
            )
        late = samples.sort_values("lateness", ascending=False, kind="stable")
        ranks = late["lateness"].rank(ascending=False, method="average")
        return late.assign(rank=ranks).reset_index(drop=True)

    def plot_epochs(self, measure: str = "accuracy") -> ChartFigure:
        """Epochs until the data were fitted against the depth, a panel per init rate (Fig. 8A).

        Args:
            measure: "accuracy", every training sample right; or "loss", 0.05 or less.

        Raises:
            OptionError: an unknown measure.
            InputError: in no cell did every run get there.
        """
        from interp_compose.papers.complexity.studies.fitting_speed.figures import (
            fitting_epochs_figure,
        )

        if measure not in MEASURES:
            raise OptionError(f"measure={measure!r}: expected one of {', '.join(MEASURES)}")
        return fitting_epochs_figure(self.cells, measure=measure, config=self.config)

    def plot_pairs(
        self, *, n_layers: int | None = None, violations: int | None = None
    ) -> ChartFigure:
        """Epochs until each pair of anchors was learned, from the fastest to the slowest at the
        largest init rate; those that violations touch in another colour (Fig. 8B).

        Args:
            n_layers: by default the smallest depth.
            violations: by default 1, or the fewest from 1 on, or 0 where there are no others.

        Raises:
            OptionError: a depth or number that is not in the study.
            InputError: no pair was learned by every run.
        """
        from interp_compose.papers.complexity.studies.fitting_speed.figures import (
            fitting_pairs_figure,
        )

        cells = self.pair_cells
        groups = sorted(cells["violations"].unique().tolist())
        fewest = next((number for number in groups if number), 0)
        depth, chosen = self._depth(n_layers), fewest if violations is None else violations
        self._known("violations", chosen, groups)
        rows = cells[(cells["n_layers"] == depth) & (cells["violations"] == chosen)]
        return fitting_pairs_figure(rows, config=self.config)

    def plot_roc(self, *, n_layers: int | None = None) -> ChartFigure:
        """ROC curves of finding samples that violate the rule by their lateness, a panel per init
        rate, averaged over seeds.

        Args:
            n_layers: by default the smallest depth.

        Raises:
            OptionError: a depth that is not in the study.
            InputError: nothing violates the rule, or every run of this depth diverged.
        """
        from interp_compose.papers.complexity.studies.fitting_speed.figures import (
            violations_roc_figure,
        )

        depth = self._depth(n_layers)
        self._check_violations()
        roc, cells = self.roc, self.cells
        return violations_roc_figure(
            roc[roc["n_layers"] == depth], cells[cells["n_layers"] == depth], config=self.config
        )

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure that there is something for, by the name its files get; the summary says
        why one is missing."""
        return self._drawn()[0]

    def _answers(self) -> list[str]:
        from interp_compose.papers.complexity.studies.fitting_speed.reading import answers

        return answers(self.frame)

    def sentences(self) -> list[str]:
        """Whether data that break the rule take more epochs, where training data are fitted first
        and last, and how well lateness tells samples that violate the rule."""
        cells = self.cells
        fitted = cells[cells["accuracy_epochs"].notna()]
        extremes = []
        for name, most in (("Fewest", fitted.nsmallest), ("Most", fitted.nlargest)):
            ends = most(1, "accuracy_epochs", keep="all").to_dict("records")
            spans = [_span(row, "accuracy", "accuracy_epochs", 1) for row in ends]
            extremes.append(f"{name}: {'; '.join(spans)}.")
        answer = " ".join(extremes) if len(fitted) else "In no cell did every run fit its data."
        sentences = [
            *self._answers(),
            "Asked: how many epochs it takes until all training data are predicted right, where "
            "targets of some groups of anchor pairs break the rule of the others (violating "
            f"groups). {answer}",
        ]
        for row in cells[cells["auc"].notna()].nlargest(1, "auc").to_dict("records"):
            area = _span(row, "auc", "auc")
            sentences.append(
                "How well samples that break the rule are told by their lateness, as an area under "
                f"the ROC curve (chance is 0.5), is highest with {area}."
            )
        return [*sentences, f"Late samples may be late for another reason. {LIMITS}"]

    def _summary(self) -> Summary:
        """Numbers of epochs, and areas under the ROC curve, as aligned text: a row per cell."""
        cells = self.cells
        rows = cells.to_dict("records")
        lines: Summary = [
            "epochs until the training data were fitted: mean (smallest to largest seed)",
            "where some run never got there: how many did",
            "",
            text_table(
                diverged_runs(cells).assign(
                    **{name: [_epochs(row, name) for row in rows] for name in MEASURES},
                    area=[_area(row) for row in rows],
                ),
                (
                    ("γ", "init_rate", ">6g"),
                    ("layers", "n_layers", ">8"),
                    ("violating groups", "violations", ">18"),
                    ("accuracy 100 %", "accuracy", ">22"),
                    ("loss ≤ 0.05", "loss", ">22"),
                    ("ROC AUC", "area", ">20"),
                    ("n", "n", ">4"),
                    ("", "diverged", ""),
                ),
            ),
        ]
        lines += [f"{name} is not drawn: {why}" for name, why in self._drawn()[1].items()]
        return self._told(lines)

    # ---- details -------------------------------------------------------------------------

    def _drawn(self) -> tuple[dict[str, ChartFigure], dict[str, str]]:
        """The figures, and why others are missing."""
        plots: dict[str, Callable[[], ChartFigure]] = {
            "fitting_epochs": self.plot_epochs,
            "fitting_epochs_by_loss": partial(self.plot_epochs, "loss"),
            "fitting_pairs": self.plot_pairs,
            "violations_roc": self.plot_roc,
        }
        figures: dict[str, ChartFigure] = {}
        missing: dict[str, str] = {}
        for name, plot in plots.items():
            try:
                figures[name] = plot()
            except InputError as error:
                missing[name] = str(error)
        return figures, missing

    def _depth(self, n_layers: int | None) -> int:
        depths = sorted(self.frame["n_layers"].unique().tolist())
        return int(self._known("n_layers", depths[0] if n_layers is None else n_layers, depths))

    def _known(self, name: str, value: Any, known: list[Any]) -> Any:
        if value not in known:
            raise OptionError(
                f"{name}={value!r} is not there; expected one of "
                f"{', '.join(f'{one:g}' for one in known)}"
            )
        return known[known.index(value)]

    def _check_violations(self) -> None:
        if self.samples.empty:
            raise InputError(
                "no sample violates the rule, so that there is none to find; train runs with "
                "violations from 1 to 6"
            )


def _span(cell: Mapping[Hashable, Any], measure: str, mean: str, digits: int = 3) -> str:
    """Like "21.3 (19 to 24 over 3 seeds) at γ 0.8, 3 layers, 1 violating group"."""
    ends = {"mean": cell[mean], "smallest": cell[f"{measure}_low"]}
    ends |= {"largest": cell[f"{measure}_high"], "n_seeds": cell["n"] - cell["diverged"]}
    return (
        f"{over_seeds(ends, digits=digits)} at γ {cell['init_rate']:g}, "
        f"{counted(cell['n_layers'], 'layers')}, "
        f"{counted(cell['violations'], 'violating groups')}"
    )


def _epochs(cell: Mapping[Hashable, Any], measure: str) -> str:
    """Like "21.3 (19 to 24)", or "2 of 3"."""
    if cell[f"{measure}_fitted"] < cell["n"]:
        return f"{cell[f'{measure}_fitted']} of {cell['n']}"
    low, high = (round(cell[f"{measure}_{end}"], 1) for end in ("low", "high"))
    return f"{cell[f'{measure}_epochs']:.1f} ({low:g} to {high:g})"


def _area(cell: Mapping[Hashable, Any]) -> str:
    """Like "0.750 (0.700 to 0.800)", or a dash of no curve."""
    if math.isnan(cell["auc"]):
        return "–"
    return f"{cell['auc']:.3f} ({cell['auc_low']:.3f} to {cell['auc_high']:.3f})"
