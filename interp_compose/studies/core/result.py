"""What the results of all studies have in common."""

from __future__ import annotations

import html
import os
import tempfile
import webbrowser
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import pandas as pd

from interp_compose._public import public
from interp_compose._versions import environment_versions
from interp_compose.notebook import LINES, block, in_notebook, picture
from interp_compose.plots.chart import answer_lengths
from interp_compose.runs.result import HEAD, RESULT, Result, store
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import Summary, TextTable, about

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure
    from interp_compose.studies.core.examples import Examples

StudyResultT = TypeVar("StudyResultT", bound="StudyResult")
REPORT: Final = "report.html"


class StudyResult(Result):
    """A result with the names of everything that its command writes, and with what it shows."""

    SCHEMA: ClassVar[tuple[Table, ...]]
    """The tables of what was measured."""
    TABLES: ClassVar[tuple[str, ...]]
    """These, and those that are computed from them."""
    FIGURES: ClassVar[tuple[str, ...]]
    CAPTIONS: ClassVar[Mapping[str, str]] = {}
    """What figures show, on the page."""
    SYMBOLS: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """What settings are called there, by the setting that they are inside of."""
    RUNS: ClassVar[tuple[str, ...]] = ()
    """What else its command writes, in words."""

    def __dir__(self) -> list[str]:
        """What a user calls, for tab completion; the rest is for commands and pages."""
        names = {name for name in super().__dir__() if not name.isupper()}
        return sorted(names - {"computed", "exit_status", "files", "study"})

    @classmethod
    def study(cls) -> str:
        """The study's name: that of its folder."""
        return cls.__module__.split(".")[-2].replace("_", " ")

    @classmethod
    def _tables(cls, config: Mapping[str, Any]) -> tuple[Table, ...]:
        """:attr:`SCHEMA`, with the rules that hold under this config."""
        return cls.SCHEMA

    @property
    def notes(self) -> list[str]:
        """What a reader has to know before the numbers, such as too few examples, one seed alone,
        answers of several tokens, or what filters left of the data; printed, and kept in
        ``result.json``."""
        seeds, filtered = self.config.get("seeds"), self.config.get("filtered")
        notes = [*([filtered] if filtered else []), *self.config.get("left_out", ())]
        if repeated := self.config.get("repeated"):
            notes.append(
                f"{repeated} of them repeat an earlier one: intervals and tests count each as one "
                "of its own, and so are too narrow"
            )
        lengths = answer_lengths(self.config)
        if lengths:
            each = ", ".join(f"{n} of {k}" for k, n in self.config["answer_tokens"].items())
            notes.append(
                f"{lengths} ({each}): right where every token is, log-probabilities are sums over "
                "tokens, and so lower for longer answers: read differences from the clean model"
            )
        if isinstance(seeds, list) and len(seeds) == 1:
            notes.append("one seed: by how much another would differ is not known")
        return notes

    def _record(self) -> dict[str, Any]:
        return super()._record() | ({"notes": self.notes} if self.notes else {})

    @property
    def exit_status(self) -> int:
        """What the study's command ends with: 0, or 1 where an audit has findings."""
        return 0

    @classmethod
    def load(cls: type[StudyResultT], folder: str | os.PathLike[str]) -> StudyResultT:
        """As :meth:`.Result.load`; tables that are not :attr:`SCHEMA`'s raise InputError."""
        result = super().load(folder)
        for table in cls._tables(result.config):
            frame = result.frames.get(table.name, pd.DataFrame())
            table.check(frame, None, **table.named_in(result.config))
        return result

    @public
    def save(
        self, folder: str | os.PathLike[str], *, overwrite: bool = False, figures: bool = False
    ) -> Path:
        """As :meth:`.Result.save`; with ``figures`` also what the study's command writes beside the
        tables: each figure as ``.html`` and ``.png``, the script that the former share, and
        :meth:`report` as ``report.html``."""
        if not figures:
            return super().save(folder, overwrite=overwrite)
        from interp_compose.studies.core.output import drawn_files

        return store(self, folder, drawn_files(self), overwrite=overwrite)

    @classmethod
    def _checked(
        cls: type[StudyResultT], frames: Mapping[str, pd.DataFrame], config: Mapping[str, Any]
    ) -> StudyResultT:
        """A result of a user's tables; one that is absent is empty."""
        checked = {t.name: t.check(frames.get(t.name, pd.DataFrame())) for t in cls.SCHEMA}
        return cls(config=config, frames=checked, versions=environment_versions())

    def head(self) -> str:
        """One line: what was run, and what came out or how much."""
        return " · ".join(self._head())

    def _head(self) -> tuple[str, ...]:
        """Its parts: what was run, and what came out or how much."""
        runs = f"{len(self.frames['runs'])} runs" if "runs" in self.frames else ""
        shown = about(self.config, HEAD, runs)
        return (shown or f"{len(next(iter(self.frames.values())))} rows",)

    def _answers(self) -> list[str]:
        """One or two sentences that answer the study's question, at the head of what it tells."""
        return []

    def _told(self, parts: Iterable[str | TextTable]) -> Summary:
        """The answer, these parts and :attr:`notes`."""
        answers = self._answers()
        head = [*answers, ""] if answers else []
        return [*head, *parts, *(f"! {note}" for note in self.notes)]

    def _repr_html_(self) -> str:
        from interp_compose.plots.describe import scene_of
        from interp_compose.plots.static import small_png_bytes

        # 1. The summary: lines uncut, the first rows of each table. 2. The first figure.
        head = self.head()
        parts = [
            part.html(LINES) if isinstance(part, TextTable) else f"<p>{html.escape(part)}</p>"
            for part in self._summary()
            if str(part) not in head
        ]
        figure = next(iter(self.figures().values()), None)
        if figure is not None and figure.chart is not None:
            png = small_png_bytes(scene_of(figure.chart, None))
            parts.append(picture(png, figure.chart.title))
        return block(type(self).__name__, head, *parts)

    def summary(self) -> str:
        """What came out, as text for a terminal."""
        return "\n".join(map(str, self._summary()))

    def _summary(self) -> Summary:
        """Its lines and tables."""
        raise NotImplementedError

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure that there is, by the name its files get: some of :attr:`FIGURES`."""
        raise NotImplementedError

    def sentences(self) -> list[str]:
        """What came out, in a few sentences with their 95 % intervals; that is what :meth:`head`
        ends with, where a study says no more."""
        return list(self._head()[1:])

    @public
    def report(self) -> str:
        """One HTML page with everything in it: what was asked and what came out, notes, figures,
        examples to look through, the first rows of each table, settings and versions.

        At most 6 MB; nothing is fetched from anywhere when it is opened.
        """
        from interp_compose.plots.export import picture_bytes
        from interp_compose.studies.core.report import report_page

        figures = self.figures()
        pictures = {name: picture_bytes(figure) for name, figure in figures.items()}
        return report_page(self, figures, pictures)

    @public
    def show(self) -> None:
        """Show :meth:`report`: in a notebook below the cell; elsewhere in the browser, from a
        temporary file whose path is printed."""
        if in_notebook():
            from IPython.display import display

            page = (
                f'<iframe srcdoc="{html.escape(self.report())}" width="100%" height="640"></iframe>'
            )
            display({"text/html": page, "text/plain": self.head()}, raw=True)
            return
        path = Path(tempfile.mkdtemp(prefix="interp_compose-")) / REPORT
        path.write_text(self.report(), encoding="utf-8")
        print(path)
        webbrowser.open(path.as_uri())

    def _sections(self) -> list[str]:
        """What the page has between examples and settings: the tables."""
        from interp_compose.studies.core.examples import with_texts
        from interp_compose.studies.core.report import frame_table, section

        predictions = self.frames.get("predictions")
        frames = {name: with_texts(frame, predictions) for name, frame in self.frames.items()}
        return [section("Tables", *(frame_table(*one) for one in frames.items()))]

    def _examples(self) -> Examples | None:
        """What the page lets a reader look through."""
        return None

    @classmethod
    def files(cls) -> tuple[str, ...]:
        """Every file that the study's command may write into its folder itself."""
        from interp_compose.plots.export import SCRIPT

        tables = [f"{name}.{kind}" for name in cls.TABLES for kind in ("parquet", "csv")]
        figures = [f"{name}.{kind}" for name in cls.FIGURES for kind in ("html", "png")]
        return (RESULT, *tables, *figures, *([SCRIPT] if figures else []), REPORT)
