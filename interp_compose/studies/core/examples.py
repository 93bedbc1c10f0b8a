"""Examples to look through on a page: their words, what was done to them, the answers by layer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from jaxtyping import Float
from markupsafe import Markup

from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import SMALL, decimal

PREDICTIONS: Final = Table(
    "predictions", "prediction int, text str", key=("prediction",), may_be_empty=True
)
"""The texts of the tokens that were predicted."""
TOKENS: Final = Table(
    "tokens",
    "example int, position int, text str, unit int",
    key=("example", "position"),
    may_be_empty=True,
)
"""The tokens of each prompt as pieces of its text, and the unit of each; -1 of special tokens."""
SCRIPT: Final = Path(__file__).with_suffix(".js")
Row = Mapping[str, Any]
Part = str | list[str]
"""A piece of a prompt; a list of tokens is framed."""


@dataclass(frozen=True)
class Examples:
    """What a page's browser shows.

    Attributes:
        measured: what the values are, like "log-probability of the answer (nats)".
        marks: what frames and bold print mean.
        layers: of the values.
        rows: one mapping per example, those first that lost most at some layer: its number, parts,
            facts, answers, clean value, names of its lines, and values (line × layer). If known,
            predictions (line × layer) as well: places in :attr:`texts`, and -1 minus that where
            they are right.
        texts: of predictions.
    """

    measured: str
    marks: str
    layers: Sequence[int]
    rows: Sequence[Mapping[str, Any]]
    texts: Sequence[str] = ()


def examples_of(
    outcomes: pd.DataFrame,
    *,
    key: str,
    line: pd.Series,
    value: str,
    clean: pd.DataFrame,
    parts: Callable[[Row], Sequence[Part]],
    facts: Callable[[Row], str],
    answers: Callable[[Row], str] = lambda row: "",
    measured: str,
    marks: str,
    right: str = "",
    predictions: pd.DataFrame | None = None,
) -> Examples:
    """Of outcomes by example, line and layer, in this order.

    Args:
        outcomes: a row per example, line and layer.
        key: the column that names the example.
        line: each row's line, such as a pooling or a word.
        value: the column of what is measured.
        clean: a row per example, with its value in the clean model.
        parts: of such a row.
        facts: what else is to be told of it.
        answers: that it may have, to be shown next to its parts.
        measured: see :class:`Examples`.
        marks: see :class:`Examples`.
        right: the column that says which predictions are right.
        predictions: of :data:`PREDICTIONS`; what it lacks is shown by its number. None: nothing
            was predicted.
    """
    layers = sorted(outcomes["layer"].unique().tolist())
    values = outcomes[value].to_numpy(float).reshape(-1, len(layers))
    owners = outcomes[key].to_numpy()[:: len(layers)]
    names = line.tolist()[:: len(layers)]
    places, texts = np.zeros(values.shape, dtype=int), []
    if predictions is not None:
        ids, place = np.unique(outcomes["prediction"], return_inverse=True)
        known = dict(zip(predictions["prediction"], predictions["text"], strict=True))
        texts = [known.get(token, f"token {token}") for token in ids.tolist()]
        places = np.where(outcomes[right], ~place, place).reshape(values.shape)
    clean_of: dict[int, Any] = {row[key]: row for row in clean.to_dict("records")}
    clean_values = np.array([clean_of[owner][value] for owner in owners.tolist()])
    rounded_clean, rounded = _rounded(clean_values).tolist(), _rounded(values).tolist()
    firsts = [*np.flatnonzero(np.append(True, owners[1:] != owners[:-1])).tolist(), len(owners)]
    losses = np.maximum.reduceat((clean_values[:, None] - values).max(axis=1), firsts[:-1])
    rows = []
    for i in np.argsort(-losses, kind="stable").tolist():
        lines = slice(firsts[i], firsts[i + 1])
        example = clean_of[int(owners[firsts[i]])]
        row = {"number": example[key], "parts": parts(example), "facts": facts(example)}
        row["answers"] = answers(example)
        row |= {"clean": rounded_clean[firsts[i]], "lines": names[lines], "values": rounded[lines]}
        rows.append(row | ({"predictions": places[lines].tolist()} if texts else {}))
    return Examples(measured, marks, layers, rows, texts)


def with_texts(frame: pd.DataFrame, predictions: pd.DataFrame | None) -> pd.DataFrame:
    """The rows with what was predicted in words, as far as it is known, and not by its number.

    Args:
        frame: with a column ``prediction``, or any other table, which stays as it is.
        predictions: of :data:`PREDICTIONS`.
    """
    if "prediction_text" in frame:
        return frame.drop(columns="prediction", errors="ignore")
    if predictions is None or "prediction" not in frame or "text" in frame:
        return frame
    known = dict(zip(predictions["prediction"], predictions["text"], strict=True))
    texts = [f"“{known[one]}”" if one in known else f"token {one}" for one in frame["prediction"]]
    return frame.assign(prediction=texts)


def given(frame: pd.DataFrame | None) -> pd.DataFrame:
    """A table that may be left out; without rows then."""
    return pd.DataFrame() if frame is None else frame


def the_answer(clean: Row) -> str:
    """Like "answer “sty”"."""
    return f"answer “{clean['answer'].strip()}”"


def answered(clean: Row) -> str:
    """What the clean model answers, of a row of examples."""
    prediction = f"the clean model predicts “{clean['prediction_text']}”, "
    prediction += f"which is {'right' if clean['correct'] else 'wrong'}"
    value = decimal(clean["target_logprob"], 3)
    foil = f", foil “{clean['foil']}”" if "foil" in clean else ""
    return f"answer “{clean['answer']}”{foil}, log-probability {value}; {prediction}"


def _rounded(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """To what :func:`.decimal` shows of them with three decimals."""
    with np.errstate(divide="ignore"):
        digits = np.where(np.abs(values) < SMALL, 1 - np.floor(np.log10(np.abs(values))), 3)
    scale = 10.0 ** np.minimum(digits, 300)
    return np.round(values * scale) / scale


def marked(text: str, words: Iterable[str]) -> list[Part]:
    """A text with its words framed, which are given in reading order."""
    parts: list[Part] = []
    end = 0
    for word in words:
        start = text.find(word, end)
        if start >= 0 and word:
            parts += [text[end:start], [word]]
            end = start + len(word)
    return [part for part in (*parts, text[end:]) if part]


def framed(texts: Iterable[str], units: Iterable[int]) -> list[Part]:
    """Tokens, those of one unit of several framed."""
    parts: list[Part] = []
    last_unit = -1
    for text, unit in zip(texts, units, strict=True):
        if unit >= 0 and unit == last_unit:
            last = parts[-1]
            parts[-1] = [*([last] if isinstance(last, str) else last), text]
        else:
            parts.append(text)
        last_unit = unit
    return parts


def listed(examples: Examples, room: int) -> dict[str, str]:
    """What the page's browser shows: a note, and as JSON the first examples that fit into ``room``
    bytes."""
    cells = f"each cell has what is predicted there, and in brackets the {examples.measured}"
    cells = cells if examples.texts else f"each cell has the {examples.measured}"
    head = _json({"layers": examples.layers, "texts": examples.texts, "cells": cells})
    room -= SCRIPT.stat().st_size + len(head.encode()) + 2_000  # and the controls'
    kept: list[str] = []
    for row in examples.rows:
        text = _json(row)
        room -= len(text.encode()) + 1
        if room < 0:
            break
        kept.append(text)
    n = len(examples.rows)
    note = f"Lost: {examples.measured} of the clean model, minus that after the intervention."
    if len(kept) < n:
        note += f" The {len(kept)} of {n} examples that lost most at some layer: more have no room."
    json_text = Markup(f'{head[:-1]}, "rows": [{",".join(kept)}]}}')
    return {"note": f"{note} {examples.marks}", "json": json_text}


def _json(value: object) -> str:
    """In which no text can end the script that it is in."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
