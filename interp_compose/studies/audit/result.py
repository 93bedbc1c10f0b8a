"""What an audit found: a row for each check of the model and of each hook point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import shortened
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import Summary, counted, text_table

if TYPE_CHECKING:
    from interp_compose.models.outcomes import Status
    from interp_compose.plots.interactive import ChartFigure

STATUSES: Final[Mapping[Status, str]] = {
    "wrong": "numbers or a name that are not what they claim to be",
    "discarded": "an edit that runs, and changes nothing",
    "silent": "a hook point that never fires",
    "refused": "a request that ends in an error",
    "not tried": "what could not be tried",
    "holds": "as it should be",
}
"""From the worst to the best."""
TOLD: Final = {
    "silent": "are silent (hook points that never fire)",
    "holds": "hold",
}
NO_FINDING: Final = {
    "refused": "{} ended in an error, as such a request does, and gave no number",
    "not tried": "{} could not be tried, which says nothing",
}
"""What checks of these statuses mean for a number."""
FOUND: Final = ("wrong", "discarded")
"""Statuses of findings: what gives a wrong number without an error."""
OF_LAYER: Final = r"^(.*?blocks[.])(\d+)([.].*)$"
"""A hook point's name before, of and behind its layer."""
MOST_TOLD: Final = 5
"""Checks of a status that is no finding, in a summary."""
CHECKS: Final = Table(
    "checks",
    "part str, name str, check str, status str, detail str",
    key=("part", "name", "check"),
    known={"part": ("model", "hook"), "status": tuple(STATUSES)},
)


@public
@dataclass(frozen=True, eq=False, repr=False)
class Audit(StudyResult):
    """Whether a model behind TransformerLens is what it claims to be; made by :func:`audit`."""

    SCHEMA = (CHECKS,)
    TABLES = ("checks",)
    FIGURES = ()

    @classmethod
    def from_rows(cls, rows: pd.DataFrame, config: Mapping[str, Any]) -> Audit:
        """An audit of rows as :attr:`frame` describes them.

        Raises:
            InputError: a column is missing, foreign or of the wrong type; a status or part that
                does not exist; a check twice.
        """
        return cls._checked({"checks": rows}, config)

    @property
    def frame(self) -> pd.DataFrame:
        """One row per check.

        Columns: part ("model", "hook"), name (of the hook point; empty for the model), check,
        status (a key of :data:`STATUSES`) and detail (the figure that decided, or the error).
        """
        return self.frames["checks"]

    @property
    def findings(self) -> pd.DataFrame:
        """The rows that are wrong or discarded: what passes in silence, with another number."""
        return self.frame[self.frame["status"].isin(FOUND)].reset_index(drop=True)

    @property
    def exit_status(self) -> int:
        """1 where something was found, or the model was refused as a whole, else 0."""
        return int(len(self.findings) > 0 or len(self.frame) == 1)

    def _head(self) -> tuple[str, str]:
        counts = self.frame["status"].value_counts()
        texts = [f"{counts[one]} {TOLD.get(one, one)}" for one in STATUSES if counts.get(one, 0)]
        findings = counted(len(self.findings), "findings") if len(self.findings) else "no findings"
        model = f"model {self.config['model']} · {self.config['architecture']}"
        return model, f"{findings} in {len(self.frame):,} checks: {', '.join(texts)}"

    def _answers(self) -> list[str]:
        """What was checked, and what the findings mean for a number."""
        statuses, n = self.frame["status"].value_counts(), len(self.findings)
        if len(self.frame) == 1 and not n:
            return ["The model was refused as a whole: nothing of it was checked."]
        n_hooks = self.frame.loc[self.frame["part"] == "hook", "name"].nunique()
        rest = [
            text.format(counted(int(statuses[status]), "checks"))
            for status, text in NO_FINDING.items()
            if statuses.get(status, 0)
        ]
        text = (
            f"{counted(n, 'checks')} found a number that is not what its name says, or an edit "
            "that changes nothing: a number that rests on one is wrong, and no error says so"
            if n
            else "no check found a number that is not what its name says"
        )
        return [f"{'; '.join([f'Of the model and {n_hooks:,} hook points, {text}', *rest])}."]

    def sentences(self) -> list[str]:
        """What was checked and found, and how many checks have which status."""
        return [*self._answers(), *super().sentences()]

    def _summary(self) -> Summary:
        """How many checks have which status, every finding, and what was refused or not tried."""
        model, counts = self._head()
        lines: Summary = [model, *self._answers(), counts]
        for status in ("refused", "not tried"):
            rows = _placed(_joined(self.frame[self.frame["status"] == status]))
            texts = [
                f"{row['where']} ({shortened(row['detail'], 160)})"
                for row in rows.to_dict("records")
            ]
            more = [f"{len(texts) - MOST_TOLD} more, in the report"] if texts[MOST_TOLD:] else []
            if texts:
                lines.append(f"{status}: {'; '.join([*texts[:MOST_TOLD], *more])}")
        if len(self.findings):
            columns = (("status", "status", "<11"), ("", "where", "<44"), ("", "detail", "<0"))
            lines += ["", text_table(_placed(self.findings), columns)]
        return lines

    def figures(self) -> dict[str, ChartFigure]:
        """None: an audit is a table."""
        return {}

    def _sections(self) -> list[str]:
        from interp_compose.studies.core import report

        counts = self.frame["status"].value_counts()
        overview = [
            [status, str(counts.get(status, 0)), meaning] for status, meaning in STATUSES.items()
        ]
        table = report.table(["status", "checks", "meaning"], overview, numbers=0)
        sections = [report.section("Checks", table)]
        for status in STATUSES:
            checks = self.frame[self.frame["status"] == status]
            rows = _placed(checks if status in FOUND else _joined(checks))[["where", "detail"]]
            if len(rows):
                shown = report.table(["where", "detail"], rows.to_numpy().tolist(), numbers=0)
                sections.append(report.section(f"{status} ({len(checks)})", shown))
        return sections


def _joined(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that differ in the layer alone as one, such as that of "blocks.0 … 3.attn.hook_out"."""
    parts = rows["name"].str.extract(OF_LAYER)
    named = rows.assign(before=parts[0].fillna(rows["name"]), layer=parts[1], after=parts[2])
    alike = [*(name for name in rows if name != "name"), "before", "after"]
    joined = []
    for _, group in named.groupby(alike, sort=False, dropna=False):
        first = group.iloc[0].to_dict()
        layers = group["layer"].tolist()
        if len(layers) > 1:
            every = layers == [str(int(layers[0]) + k) for k in range(len(layers))]
            numbers = f"{layers[0]} … {layers[-1]}" if every else ", ".join(layers)
            first["name"] = f"{first['before']}{numbers}{first['after']}"
        joined.append({name: first[name] for name in rows})
    return pd.DataFrame(joined, columns=rows.columns)


def _placed(rows: pd.DataFrame) -> pd.DataFrame:
    """With the column ``where``: the hook point's name, where there is one, and the check."""
    where = [
        f"{name}: {check}" if name else check
        for name, check in zip(rows["name"], rows["check"], strict=True)
    ]
    return rows.assign(where=where)
