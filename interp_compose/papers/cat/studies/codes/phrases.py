"""What the words of a phrase have of the codes that they have alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Int

from interp_compose._public import short
from interp_compose.errors import InputError
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.studies.codes.words import WordPlaces, directions, vectors_of
from interp_compose.papers.cat.text.wordpiece import WordPieceTokenizer
from interp_compose.tasks.load import load_pairs
from interp_compose.tasks.rows import numbered_lines

PART: Final = 1000
"""Words of phrases whose vectors are in memory at one time."""


@dataclass(frozen=True, eq=False)
class Phrases:
    """Words in phrases, a row each: its phrase, its place there, itself; and the occurrences that
    are compared, among those of ``words``: in the phrase, alone, and the phrase's other word
    alone."""

    words: WordPlaces
    labels: Sequence[dict[str, Any]]
    inside: Int[np.ndarray, "row"]
    alone: Int[np.ndarray, "row"]
    other: Int[np.ndarray, "row"]

    @classmethod
    def of(cls, phrases: Sequence[str], tokenizer: WordPieceTokenizer, n_ctx: int) -> Phrases:
        """A phrase that comes again is left out, and so is one whose words are not one word each of
        the vocabulary: they have a hyphen, for example.

        Raises:
            InputError: a phrase that is not two words, or none that is left.
        """
        split = {" ".join(phrase.lower().split()): phrase.lower().split() for phrase in phrases}
        for phrase, parts in split.items():
            if len(parts) != 2:
                raise InputError(
                    f"the phrase {short(phrase)} has {len(parts)} words: expected two, with a "
                    "blank between them"
                )
        alone = list(dict.fromkeys(part for parts in split.values() for part in parts))
        texts = [*split, *alone]
        words = WordPlaces.of(tokenizer.pieces(texts), tokenizer, n_ctx)
        of_row: list[list[int]] = [[] for _ in texts]
        for index, row in enumerate(words.row.tolist()):
            of_row[row].append(index)
        spelling, rows = words.spelling, dict(zip(texts, of_row, strict=True))
        labels, places = [], []
        for phrase, parts in split.items():
            inside, single = rows[phrase], [rows[part] for part in parts]
            if [spelling[one].tolist() for one in single] != [[spelling[i]] for i in inside]:
                continue
            for i, part in enumerate(parts):
                labels.append({"phrase": phrase, "position": i + 1, "word": part})
                places.append((inside[i], single[i][0], single[1 - i][0]))
        if not labels:
            raise InputError(
                f"none of {len(phrases)} phrases has two words of the models' vocabulary; give "
                "others (phrases)"
            )
        at = np.array(places)
        return cls(words, labels, at[:, 0], at[:, 1], at[:, 2])


def phrase_rows(model: SmallEncoderModel, phrases: Phrases) -> Iterator[dict[str, Any]]:
    """Of each block with codes and each word of a phrase: the cosine of its O there with its O
    alone (``cosine``), the Jaccard index of the codes that have a weight (``jaccard``), and the
    cosine of h_cont (``cont``); and the same with the phrase's other word alone (``other_…``). The
    index of words without codes is 0.
    """
    rows_by_layer: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for first in range(0, len(phrases.labels), PART):
        part = slice(first, first + PART)
        places = np.stack([phrases.inside[part], phrases.alone[part], phrases.other[part]])
        chosen, at = np.unique(places, return_inverse=True)
        inside, alone, other = at.reshape(places.shape)
        for layer, (codes, cont) in vectors_of(model, phrases.words, chosen).items():
            values, units = {}, (directions(codes), directions(cont))
            for prefix, place in (("", alone), ("other_", other)):
                alike = [(unit[inside] * unit[place]).sum(dim=1) for unit in units]
                values[f"{prefix}cosine"], values[f"{prefix}cont"] = alike
                used, used_alone = codes[inside] > 0, codes[place] > 0  # [row code]
                either = (used | used_alone).sum(dim=1).clamp(min=1)
                values[f"{prefix}jaccard"] = (used & used_alone).sum(dim=1).double() / either
            rows = zip(*(one.tolist() for one in values.values()), strict=True)
            rows_by_layer[layer] += [
                {"layer": layer, **label, **dict(zip(values, row, strict=True))}
                for label, row in zip(phrases.labels[part], rows, strict=True)
            ]
    for rows_of_layer in rows_by_layer.values():
        yield from rows_of_layer


def phrases_of(place: Path) -> list[str]:
    """The phrases of BiRD, whose folder is given, or a file's lines.

    Raises:
        MissingDataError: there is no such file, or no BiRD.txt in the folder.
        DataFormatError: a garbled one, or one without a line.
    """
    if not place.is_dir():
        return [line for _, line in numbered_lines(place)]
    pairs = load_pairs("bird", data_dir=place).test
    return list(dict.fromkeys(text for pair in pairs for text in (pair.text1, pair.text2)))
