"""Numbers as a comparison's words and tables write them, and tables of text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pandas as pd

from interp_compose.errors import shortened
from interp_compose.interventions.pooling import TAKEN
from interp_compose.plots.chart import answers_note, short, subtitle_of
from interp_compose.runs.result import Result
from interp_compose.stats.intervals import wilson_interval

NOTHING: Final = 1e-9  # smaller numbers are 0 to rounding
SMALL: Final = 0.005  # smaller numbers show two significant digits
FEW: Final = 30  # of fewer examples, numbers say little
FLOOR: Final = "the clean model gets nothing right"
OF_MODELS: Final = (
    *("study", "model", "architecture", "n_layers", "n_heads", "device", "batch_size", "layers"),
    *("controls", "straddling", "n_examples", "n_pairs", "answer_tokens"),
)
"""Settings that are models' or machines', or that figures show."""
MOST_TOLD: Final = 4
"""Settings in which results differ, of a figure's subtitle."""
INTERVALS: Final = "intervals are 95 %, not corrected for the choice of a layer"
"""Of sentences that name the layer where most is lost, or kept."""
UNCORRECTED: Final = "95 % interval, not corrected for the number of comparisons"
"""Of an interval that is next to a corrected p."""
LIMITS: Final = (
    "Seeds vary the start and the order of training: other tasks, sizes of model and lengths of "
    "training are not shown."
)
"""Of sentences on models that were trained here."""


class Column(NamedTuple):
    """A column of a frame as text.

    Attributes:
        title: its heading.
        name: in the frame; or two names, the ends of a span like "0.123 to 0.456".
        how: the format of its values, such as ">8.3f", whose alignment and width are the heading's
            too; of a span its width and decimals, such as ">14.1".
        scale: what its numbers are multiplied by.
    """

    title: str
    name: str | tuple[str, str]
    how: str
    scale: float = 1.0

    def cells(self, frame: pd.DataFrame) -> list[str]:
        """The text of each row."""
        if isinstance(self.name, tuple):
            width, _, digits = self.how.partition(".")
            low, high = (frame[end] for end in self.name)
            return [format(one, width) for one in spans(low, high, int(digits), scale=self.scale)]
        values = frame[self.name]
        values = values if self.scale == 1.0 else self.scale * values
        return [format(value, self.how) for value in values.tolist()]


@dataclass(frozen=True)
class TextTable:
    """A table of texts: lines in a terminal, and the same cells on a page.

    Attributes:
        columns: the heading and the cells of each, padded to one width.
        left: of each column whether its cells begin under each other; else they end so.
    """

    columns: Sequence[Sequence[str]]
    left: Sequence[bool]

    def __str__(self) -> str:
        """A heading line, if some column has a heading, and a line per row; a column is set apart
        from the one before it."""
        lines = [""] * len(self.columns[0])
        for cells in self.columns:
            pairs = [*zip(lines, cells, strict=True)]
            touch = any(line[-1:].strip() and cell[:1].strip() for line, cell in pairs)
            lines = [line + "  " * touch + cell for line, cell in pairs]
        return "\n".join(line.rstrip() for line in lines[not lines[0].strip() :])

    def html(self, most: int | None = None) -> str:
        """Its columns that are not blank; of more than ``most`` rows the first. Cells are at the
        right, as notebooks have them, where no style of their own says more."""
        pairs = zip(self.columns, self.left, strict=True)
        columns, left = zip(*(one for one in pairs if "".join(one[0]).strip()), strict=True)
        head, *rows = zip(*columns, strict=True)

        def line(cells: Sequence[str], tag: str) -> str:
            styled = zip(cells, (' style="text-align: left"' * one for one in left), strict=True)
            texts = (f"<{tag}{style}>{escape(cell.strip())}</{tag}>" for cell, style in styled)
            return f"<tr>{''.join(texts)}</tr>"

        names = f"<thead>{line(head, 'th')}</thead>" if "".join(head).strip() else ""
        body = "".join(line(cells, "td") for cells in rows[:most])
        more = len(rows) - len(rows[:most])
        note = f"<p>… and {more} more rows</p>" if more else ""
        style = 'class="aligned" style="text-align: right"'
        return f"<table {style}>{names}<tbody>{body}</tbody></table>{note}"


Summary: TypeAlias = list[str | TextTable]
"""What a result says of itself: lines and tables."""
LAYER: Final = (Column("layer", "layer", ">5"), Column("depth", "depth", ">7.2f"))
"""The columns that tell the rows of a layer-wise curve apart."""


def decimal(value: float | None, digits: int, *, sign: bool = False) -> str:
    """With ``digits`` decimals; a dash for None and NaN, and never a negative zero.

    What is below 0.005, or would be printed as 0, gets as many more as show two significant digits.
    """
    if value is None or math.isnan(value):
        return "–"
    if abs(value) < NOTHING:
        value = 0.0
    elif abs(value) < max(SMALL, 0.5 * 10.0**-digits):
        digits = max(digits, 1 - math.floor(math.log10(abs(value))))
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def interval(value: float, low: float, high: float, *, sign: bool = False) -> str:
    """Like "0.947 [0.915, 0.967]"; without ends that are NaN."""
    middle, *ends = (decimal(number, 3, sign=sign) for number in (value, low, high))
    return middle if math.isnan(low) else f"{middle} [{', '.join(ends)}]"


def spans(
    lows: Iterable[float],
    highs: Iterable[float],
    digits: int = 3,
    *,
    scale: float = 1.0,
    sign: bool = False,
) -> list[str]:
    """Like "0.123 to 0.456" of each row's two ends; a dash where they are NaN."""
    return [
        "–"
        if math.isnan(low)
        else " to ".join(decimal(scale * end, digits, sign=sign) for end in (low, high))
        for low, high in zip(lows, highs, strict=True)
    ]


def probability(p: float | None, digits: int = 4) -> str:
    """With so many decimals; never 0."""
    return decimal(p, digits) if p is None or not p < 0.0001 else "<0.0001"


def about(config: Mapping[str, Any], keys: Iterable[str], *more: str) -> str:
    """Like "task bird · unit text · 20 examples": what of ``keys`` is in the config, the hooks
    under which it was measured, and more."""
    named = [f"{key} {_without_folders(config[key])}" for key in keys if config.get(key)]
    hooks = ", ".join(config.get("active_hooks") or ())
    named += [f"under {shortened(hooks, 60)}"] if hooks else []
    return subtitle_of(*named, *answers_note(config), *more)


def _without_folders(value: Any) -> Any:
    """A file's name alone of an absolute path; anything else as it is."""
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def filtered_of(config: Mapping[str, Any]) -> str:
    """How much filters left of the data, in few words; an empty text where that is not on record.
    What they asked for is in the notes."""
    return str(config.get("filtered") or "").partition(":")[0]


def floor_of(clean: pd.DataFrame) -> str:
    """That the clean model gets nothing right, or that the interval of its accuracy does not lie
    above what a guess gets that does not read the prompt; else an empty text.

    That guess is the most common answer, and answers that are all the same have no other to choose.
    Between an answer and its foil it takes one word wherever it is one of the two, and tosses a
    coin elsewhere: right is 1/2 + (share of answers that are the word - share of foils that are)/2,
    here of the best word. It is 1/2 where every word is a foil as often as an answer.
    """
    n, right = len(clean), int(clean["correct"].sum())
    if not right:
        return FLOOR
    low, _ = wilson_interval(right, n)
    shares = clean["answer"].value_counts(normalize=True)
    if "foil" in clean:
        foils = clean["foil"].value_counts(normalize=True)
        guess = 0.5 + shares.sub(foils, fill_value=0.0).max() / 2
        if low > guess:
            return ""
        return (
            f"the 95 % interval of the clean accuracy does not lie above {decimal(guess, 3)}, the "
            "share of a guess between answer and foil that does not read the prompt"
        )
    if len(shares) == 1 or low > shares.iloc[0]:
        return ""
    most = decimal(shares.iloc[0], 3)
    return (
        f"the 95 % interval of the clean accuracy does not lie above {most}, the share of the most "
        "common answer"
    )


def differing(results: Mapping[str, Result]) -> dict[str, dict[str, Any]]:
    """Settings, and parts of them, that are not the same in all: name -> label -> value."""
    flat = {
        label: {
            f"{name} {part}".strip(): value
            for name, whole in result.config.items()
            for part, value in (whole.items() if isinstance(whole, Mapping) else [("", whole)])
        }
        for label, result in results.items()
    }
    names = dict.fromkeys(name for settings in flat.values() for name in settings)
    values = {name: {label: one.get(name) for label, one in flat.items()} for name in names}
    return {name: each for name, each in values.items() if len({*map(str, each.values())}) > 1}


def examples_unlike(results: Iterable[Result]) -> str:
    """What differs of the examples or pairs; an empty text where neither their texts, answers and
    scores do nor their order."""
    contents = [_contents(result) for result in results]
    if any(rows is None for rows in contents):
        return "the examples, or their order"
    first, *others = (rows or [] for rows in contents)
    if any(Counter(other) != Counter(first) for other in others):
        return "the examples"
    return "" if all(other == first for other in others) else "the order of the examples"


CONTENTS: Final = (
    ("clean", ("prompt", "answer")),
    ("clean", ("text1", "text2", "target")),
    ("pairs", ("source", "source_phrase", "target", "target_phrase", "expected", "answer")),
)
"""Tables of examples, and those of their columns that no model decides."""


def _contents(result: Result) -> list[tuple[Any, ...]] | None:
    for name, columns in CONTENTS:
        frame = result.frames.get(name, pd.DataFrame())
        if {*columns} <= {*frame}:
            return [*frame[list(columns)].itertuples(index=False, name=None)]
    return None


def units_unlike(results: Iterable[Result]) -> bool:
    """Whether an example that all have with the same tokens' text has other units in one."""
    spans = [_unit_spans(result.frames.get("tokens", pd.DataFrame())) for result in results]
    for example in set.intersection(*({*of_example} for of_example in spans)):
        texts, units = zip(*(of_example[example] for of_example in spans), strict=True)
        if len({*texts}) == 1 < len({*units}):
            return True
    return False


def _unit_spans(tokens: pd.DataFrame) -> dict[Any, tuple[str, frozenset[tuple[int, int]]]]:
    """The text of each example's tokens, blanks apart, and the first and last character of each
    unit in it, so that two tokenizers can be compared."""
    spans = {}
    for example, rows in tokens.groupby("example") if len(tokens) else ():
        text, ends = "", dict[int, tuple[int, int]]()
        for token, unit in zip(rows["text"], rows["unit"], strict=True):
            if unit < 0:
                continue
            start, text = len(text), text + "".join(token.split())
            ends[unit] = (ends.get(unit, (start, 0))[0], len(text))
        spans[example] = (text, frozenset(ends.values()))
    return spans


def unlike(results: Mapping[str, Result], without: Collection[str] = ()) -> str:
    """Like "settings differ: unit word (a), constituent (b)", all but :data:`OF_MODELS` and those
    ``without``; an empty text where none does."""
    settings = differing(results)
    texts = []
    if {"examples_sha256", "pairs_sha256"} & {*settings}:
        # Of all that is read, tokens, units and candidates as well, which two models may not share.
        foils = [result.config.get("answers") == "foil" for result in results.values()]
        read = f"the examples' tokens{', units or foils' if all(foils) else ' or units'}"
        read = "" if {"model", "unit", "answers"} & {*settings} else read
        if "unit" not in settings and units_unlike(results.values()):
            read = "the examples' units"
        texts = [text for text in [examples_unlike(results.values()) or read] if text]
    for name, values in settings.items():
        if name.split()[0] in {*OF_MODELS, *without} or name.endswith("sha256"):
            continue
        labels: dict[str, list[str]] = {}
        for label, value in values.items():
            shown = " + ".join(map(str, value)) if isinstance(value, list) else str(value)
            shown = "none" if value in (None, []) else shortened(shown, 40)
            labels.setdefault(shown, []).append(short(label, 14))
        each = (f"{shown} ({', '.join(of)})" for shown, of in labels.items())
        texts.append(f"{name} {', '.join(each)}")
    poolings = [{*result.config.get("pooling", ())} - {*TAKEN} for result in results.values()]
    if own := sorted(set.intersection(*poolings)) if poolings else []:
        texts.append(f"maybe {own[0]!r} is another function in each: the code is not compared")
    taggers = {str(result.config.get("tagger")) for result in results.values()}
    if len(taggers) == 1 and (name := taggers.pop()).endswith("()"):
        texts.append(f"maybe {name!r} is another function in each: the code is not compared")
    more = f"; and {len(texts) - MOST_TOLD} more" if len(texts) > MOST_TOLD else ""
    return f"settings differ: {'; '.join(texts[:MOST_TOLD])}{more}" if texts else ""


def floors_of(results: Mapping[str, Result]) -> list[str]:
    """Like "a: the clean model gets nothing right", of those that have clean outcomes; without
    labels where it is true of all."""
    floors = {
        label: floor_of(result.frames["clean"])
        for label, result in results.items()
        if {"correct", "answer"} <= {*result.frames.get("clean", ())}
    }
    if len(floors) == len(results) and len({*floors.values()}) == 1:
        return list(floors.values())[:1]
    return [f"{short(label, 14)}: {floor}" for label, floor in floors.items() if floor]


def cautions(n: int, floor: str = "", *, of: str = "examples") -> list[str]:
    """What to know before numbers over ``n`` examples; ``floor`` as :func:`floor_of` says."""
    notes = []
    if floor:
        notes.append(f"{floor}: accuracies say little here; compare log-probabilities")
    if n < FEW:
        low, high = wilson_interval(n / 2, n)
        notes.append(
            f"{counted(n, of)}, fewer than {FEW}: the 95 % interval of an accuracy of 0.5 is "
            f"[{low:.2f}, {high:.2f}]"
        )
    return notes


def counted(n: int, plural: str) -> str:
    """Like "1 pair" and "2 pairs"."""
    return f"{n} {plural if n != 1 else plural.removesuffix('s')}"


def with_controls_named(what: str, names: Iterable[str], controls: Collection[str]) -> str:
    """``what`` a table's columns hold, with those of them that are controls."""
    present = [name for name in names if name in controls]
    return f"{what} (controls: {', '.join(present)}):" if present else f"{what}:"


def over_seeds(row: Mapping[Any, Any], *, percent: bool = False, digits: int = 3) -> str:
    """Like "0.913 (0.901 to 0.927 over 3 seeds)", of a row's mean, smallest, largest, n_seeds."""
    ends = (row[name] for name in ("mean", "smallest", "largest"))
    mean, low, high = (f"{decimal(100 * x, 1)} %" if percent else decimal(x, digits) for x in ends)
    n = row["n_seeds"]
    return f"{mean} ({low} to {high} over {n} seeds)" if n > 1 else f"{mean} (one seed)"


def listed(rows: pd.DataFrame, by: str, *, percent: bool = False) -> str:
    """:func:`over_seeds` of each row, behind its name."""
    records = rows.to_dict("records")
    return "; ".join(f"{row[by]}: {over_seeds(row, percent=percent)}" for row in records)


def differences_told(
    differences: pd.DataFrame,
    place: Sequence[tuple[Any, ...]],
    unit: str = "points",
    scale: float = 100.0,
    digits: int = 1,
    what: str = "differences to {other}, paired by seed",
) -> Summary:
    """A blank line, a heading, and a table of the differences that were tested.

    Args:
        differences: paired differences, with columns difference, ci_low, ci_high, p and p_holm.
        place: columns that a row begins with, as :func:`text_table` takes them.
        unit: of the differences, once multiplied by ``scale``.
        digits: of the intervals' ends; differences have one more.
        what: what the heading says of them, as a format of the first row's columns.
    """
    tested = differences[differences["p"].notna()]
    if tested.empty:
        return []
    rows = tested.to_dict("records")
    table = tested.assign(
        change=[decimal(scale * row["difference"], digits + 1, sign=True) for row in rows],
        ends=spans(tested["ci_low"], tested["ci_high"], digits, scale=scale, sign=True),
        tested=[probability(row["p_holm"], 3) for row in rows],
    )
    heading = what.format_map(rows[0])
    columns = (
        ("difference", "change", ">12"),
        ("95 %", "ends", ">18"),
        ("p (Holm)", "tested", ">10"),
    )
    return [
        "",
        f"{heading}, in {unit} ({UNCORRECTED}, p is by Holm):",
        "",
        text_table(table, [*place, *columns]),
    ]


def text_table(frame: pd.DataFrame, columns: Iterable[tuple[Any, ...]]) -> TextTable:
    """A row for each of a frame's.

    Args:
        frame: whose columns are shown.
        columns: :class:`Column` each, as wide as its widest cell. NaN of a number is printed as
            "nan"; text may be shown instead.
    """
    padded, left = [], []
    for column in (Column(*each) for each in columns):
        fit = re.match(r"[<>]?\d*", column.how)
        cells = [f"{column.title:{fit[0] if fit else ''}}", *column.cells(frame)]
        width = max(map(len, cells))
        left.append(not column.how.startswith(">"))
        padded.append([cell.ljust(width) if left[-1] else cell.rjust(width) for cell in cells])
    return TextTable(padded, left)


def crossed_table(
    frame: pd.DataFrame, by: str, value: str, how: str, place: Sequence[tuple[Any, ...]] = LAYER
) -> TextTable:
    """:func:`text_table` with a row for each ``place`` and a column for each value of ``by``, in
    the order that both have in the frame."""
    index = [Column(*column).name for column in place]
    wide = frame.set_index([*index, by])[value].unstack(sort=False)
    titles = frame[by].unique().tolist()
    wide = wide[titles].set_axis([f"{value} {title}" for title in titles], axis="columns")
    columns = ((str(title), name, how) for title, name in zip(titles, wide, strict=True))
    return text_table(wide.reset_index(), [*place, *columns])
