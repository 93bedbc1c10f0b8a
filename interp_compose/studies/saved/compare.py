"""Several saved results of one study: a figure for each of its line charts, one table, a page."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pandas as pd

from interp_compose._versions import environment_versions
from interp_compose.errors import InputError, OptionError, shortened
from interp_compose.plots.chart import Chart, Level, Line, Panel, model_name, subtitle_of
from interp_compose.plots.export import page_files, picture_bytes
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import dotted, styles_of
from interp_compose.runs.result import Result, store
from interp_compose.studies.cap.result import CapCurve
from interp_compose.studies.core import report
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.text import Summary, differences_told, differing, floors_of, unlike
from interp_compose.studies.saved.options import CompareCommand
from interp_compose.studies.saved.read import load_result
from interp_compose.studies.saved.reading import answers

PAGE: Final = "compare.html"
TABLE: Final = "compared"
PAIRED: Final = "differences"
MOST_ROWS: Final = 400
"""Of the table, for the page to have them all; the files have."""
MOST_PANELS: Final = 12
WHAT: Final = "{first} minus {second}, paired by example"


def run(command: CompareCommand) -> str:
    """Read, draw, write, and say what was written.

    Raises:
        OptionError: fewer than two folders, or one of them twice; or labels that are not one for
            each, each its own.
        InputError: results of several studies; ``out`` holds another result.
        MissingDataError, CorruptFileError: a folder holds no result, or one that was altered.
    """
    results = labelled(command.folders, command.labels)
    table = joined(results)
    figures = compared_figures(results)
    study = next(iter(results.values())).study()
    folders = dict(zip(results, map(str, command.folders), strict=True))
    config = {"study": study, "results": folders, "settings": differing(results)}
    pairs, unpaired = paired(results)
    frames = {TABLE: table} | ({PAIRED: pairs} if len(pairs) else {})
    comparison = Result(config=config, frames=frames, versions=environment_versions())
    pictures = {name: picture_bytes(figure) for name, figure in figures.items()}
    said = [*answers(results, pairs), *unpaired]
    html = page(results, figures, pictures, frames, said)
    others: dict[str, bytes | str] = {PAGE: html.encode(), **page_files(figures)}
    others |= {f"{name}.png": png for name, png in pictures.items()}
    store(comparison, command.out, others, overwrite=command.overwrite)
    files = [PAGE, *(f"{name}.html, {name}.png" for name in figures)]
    files += [f"{name} (.parquet, .csv)" for name in frames]
    lines: Summary = [*said, ""]
    lines += [f"{label}\n{result.summary()}\n" for label, result in results.items()]
    for _, rows in pairs.groupby("second", sort=False) if len(pairs) else ():
        places = zip(rows["layer"], rows["pooling"], strict=True)
        place_texts = ["clean" if i < 0 else f"layer {i}, {pooling}" for i, pooling in places]
        placed = rows.assign(place=place_texts)
        lines += [*differences_told(placed, [("", "place", "<30")], what=WHAT), ""]
    return "\n".join(map(str, [*lines, f"written to {command.out}/: {', '.join(files)}"]))


def labelled(folders: Sequence[Path], labels: Sequence[str]) -> dict[str, StudyResult]:
    """The results by label: those given, else models' names, else folders' names."""
    if len(folders) < 2:
        raise OptionError(f"{len(folders)} folder to compare; name two or more")
    if labels and (len(labels) != len(folders) or len({*labels}) < len(labels)):
        raise OptionError(
            f"--labels {' '.join(labels)}: expected {len(folders)} labels, one for each folder, no "
            "two alike"
        )
    if len({*folders}) < len(folders):
        raise OptionError(f"{' '.join(map(str, folders))}: expected each folder once")
    results = [load_result(folder) for folder in folders]
    studies = [result.study() for result in results]
    if len({*studies}) > 1:
        texts = (f"{folder} is of {study}" for folder, study in zip(folders, studies, strict=True))
        raise InputError(f"{', '.join(texts)}: only results of one study can be compared")
    models = [model_name(one.config) if "model" in one.config else "" for one in results]
    for names in (labels, models, [folder.name for folder in folders]):
        if names and all(names) and len({*names}) == len(results):
            return dict(zip(names, results, strict=True))
    return dict(zip(map(str, folders), results, strict=True))


def joined(results: Mapping[str, StudyResult]) -> pd.DataFrame:
    """The study's summary, or else its first table, of all results; ``result`` is the label."""
    frames = []
    for label, result in results.items():
        name = "summary" if "summary" in result.frames else result.TABLES[0]
        frames.append(result.frames[name].assign(result=label))
    table = pd.concat(frames, ignore_index=True)
    return table[["result", *(column for column in table if column != "result")]]


def paired(results: Mapping[str, StudyResult]) -> tuple[pd.DataFrame, list[str]]:
    """CAP curves: the first one's accuracies minus each other's, paired by example; and notes of
    those that are of other examples or settings."""
    (first, one), *others = results.items()
    frames, notes = [pd.DataFrame()], []
    for second, other in others:
        if isinstance(one, CapCurve) and isinstance(other, CapCurve):
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "settings differ")  # which is a note here
                    table = one.differences_from(other)
            except InputError as other_examples:
                notes.append(f"! {first} and {second} are not paired: {other_examples}")
                continue
            note = unlike({first: one, second: other}, ["pooling"])
            notes += [f"! {note}"] if note else []
            frames.append(table.assign(first=first, second=second))
    table = pd.concat(frames, ignore_index=True)
    named = ["first", "second"] if len(table) else []
    return table[[*named, *(column for column in table if column not in named)]], notes


def compared_figures(results: Mapping[str, StudyResult]) -> dict[str, ChartFigure]:
    """A figure for each line chart that all results have, by its name."""
    drawn = {label: result.figures() for label, result in results.items()}
    compared, notes = {}, [unlike(results), *floors_of(results)]
    for name in next(iter(drawn.values())):
        charts = {label: figures[name].chart for label, figures in drawn.items() if name in figures}
        chart = facets({k: one for k, one in charts.items() if isinstance(one, Chart)}, notes)
        if chart is not None and len(charts) == len(results):
            compared[name] = draw(chart)
    return compared


def facets(charts: Mapping[str, Chart], notes: Sequence[str] = ()) -> Chart | None:
    """A panel for each line that the charts share, and in it a line for each chart; ``notes`` are
    what the subtitle says of them beside what all say.

    None where they share fewer than two axes or no line, or where panels would be too many.
    """
    if len(charts) < 2 or len({_axes(chart) for chart in charts.values()}) > 1:
        return None
    first = next(iter(charts.values()))
    if len({len(chart.panels) for chart in charts.values()}) > 1:
        return None
    panels = [
        panel
        for i in range(len(first.panels))
        for panel in _facets_of({label: chart.panels[i] for label, chart in charts.items()})
    ]
    if not 0 < len(panels) <= MOST_PANELS:
        return None
    first_parts, *others = (chart.subtitle.split(" · ") for chart in charts.values())
    shared = [part for part in first_parts if all(part in other for other in others)]
    counts = {
        label: max((line.n[0] for line in chart.panels[0].lines), default=0)
        for label, chart in charts.items()
    }
    if len({*counts.values()}) > 1:
        shared.append("n: " + ", ".join(f"{n:,} of {label}" for label, n in counts.items()))
    says_dotted = any(part.startswith("dotted") for part in shared)
    explains_dots = any(panel.levels for panel in panels) and not says_dotted
    levels = [one.label for chart in charts.values() for p in chart.panels for one in p.levels]
    are_clean = all(label.startswith("clean") for label in filter(None, levels))
    subject = "the clean model" if are_clean else "the level"
    shared += [f"dotted: {subject} of each result, in its colour"] if explains_dots else []
    return replace(
        first,
        title=_title([chart.title for chart in charts.values()]),
        subtitle=subtitle_of(*dict.fromkeys([*notes, *shared])),
        panels=panels,
        x_ticks=first.x_ticks
        if first.x_notes
        else sorted({tick for chart in charts.values() for tick in chart.x_ticks}),
    )


def _axes(chart: Chart) -> tuple[Any, ...]:
    named = (*chart.ticks,) if chart.categories or chart.x_notes else ()
    return chart.x_title, chart.y_title, chart.x_is_share, chart.y_is_share, named


def _facets_of(panels: Mapping[str, Panel]) -> list[Panel]:
    by_name: dict[str, dict[str, Line]] = {}
    for label, panel in panels.items():
        for line in panel.lines:
            by_name.setdefault(line.label, {})[label] = line
    styles = styles_of(panels)
    levels = [
        Level("", level.y, dotted(styles[label].colour))
        for label, panel in panels.items()
        for level in panel.levels
        if level.label
    ]
    titles = {panel.title for panel in panels.values()}
    title = titles.pop() if len(titles) == 1 else next(iter(titles)).split(" · ")[0]
    return [
        Panel(
            [replace(line, label=label, style=styles[label]) for label, line in lines.items()],
            levels,
            subtitle_of(title, name if len(by_name) > 1 else ""),
        )
        for name, lines in by_name.items()
        if len(lines) == len(panels)
    ]


def _title(titles: Sequence[str]) -> str:
    """Without the models' names, where they are what differs."""
    rests = {title.partition(": ")[2] for title in titles}
    if len({*titles}) == 1 or len(rests) > 1 or not (name := rests.pop()):
        return titles[0]
    return name[0].upper() + name[1:]


def page(
    results: Mapping[str, StudyResult],
    figures: Mapping[str, ChartFigure],
    pictures: Mapping[str, bytes],
    frames: Mapping[str, pd.DataFrame],
    sentences: Sequence[str],
) -> str:
    """What came out, the figures and the tables, as one page that needs no network."""
    settings = [
        [name, *(shortened(str(values[label]), 40) for label in results)]
        for name, values in differing(results).items()
    ]
    first = next(iter(results.values()))
    html = report.HTML.comparison(
        title=f"{report.study_name(first)} compared: {', '.join(results)}",
        study=report.said_of(type(first)),
        head=f"{len(results)} results compared: {', '.join(results)}",
        notes=[f"{label}: {note}" for label, one in results.items() for note in one.notes],
        figures=[
            report.picture(
                figure.chart.subheading,
                pictures[name],
                figure.chart.subheading,
                report.narrow_picture(figure),
            )
            for name, figure in figures.items()
            if isinstance(figure.chart, Chart)
        ],
        labels=[*results],
        settings=settings,
        sentences=sentences,
        tables=[report.frame_table(name, frame, MOST_ROWS) for name, frame in frames.items()],
    )
    return report.page(html)
