"""What the results of all studies have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from interp_compose.runs.result import RESULT, Result

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure


class StudyResult(Result):
    """A result with the names of everything that its command writes, and with what it shows."""

    TABLES: ClassVar[tuple[str, ...]]
    FIGURES: ClassVar[tuple[str, ...]]
    PAGES: ClassVar[tuple[str, ...]] = ()
    RUNS: ClassVar[tuple[str, ...]] = ()
    """What is in its folder besides, in words."""

    def summary(self) -> str:
        """What came out, as text for a terminal."""
        raise NotImplementedError

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure that there is, by the name its files get: some of :attr:`FIGURES`."""
        raise NotImplementedError

    def pages(self) -> dict[str, bytes]:
        """Other files, by name: :attr:`PAGES`."""
        return {}

    @classmethod
    def files(cls) -> tuple[str, ...]:
        """Every file that the study's command may write into its folder itself."""
        tables = [f"{name}.{kind}" for name in cls.TABLES for kind in ("parquet", "csv")]
        figures = [f"{name}.{kind}" for name in cls.FIGURES for kind in ("html", "png")]
        return (RESULT, *tables, *figures, *cls.PAGES)
