"""Which synonyms a comparison uses, found before any work starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interp_compose._public import public
from interp_compose.errors import (
    DataFormatError,
    MissingDataError,
    MissingPackageError,
    OptionError,
)
from interp_compose.papers.carma.synonyms.frequency import read_frequency, spacy_frequency
from interp_compose.papers.carma.synonyms.sources import SynonymSource, ThesaurusSource
from interp_compose.papers.carma.synonyms.vectors import VectorSource, load_vectors
from interp_compose.papers.carma.synonyms.wordnet import WordNetSource, wordnet_frequency
from interp_compose.runs.files import json_value, read_bytes
from interp_compose.tasks.mini.sst import ADJECTIVES, NOUN_SYNONYMS
from interp_compose.tasks.mini.world import reserve_words
from interp_compose.tasks.wordnet import wordnet_reader

SOURCES = ("auto", "shipped", "wordnet", "vectors")


@public
def synonym_source(
    name: str | Path,
    task: str,
    *,
    data_dir: str | Path | None = None,
    frequency: str | Path | None = None,
) -> SynonymSource:
    """A source by name, or the thesaurus in a ``.json`` file (word → list of synonyms).

    ``"auto"`` takes what comes with a shipped task; elsewhere spaCy's vectors where they are
    installed with their frequencies, and else WordNet.

    Args:
        name: one of :data:`SOURCES`, or a file.
        task: the task's name; ``mini-idm`` has synonyms never seen in its training, ``mini-sst``
            other adjectives of the same label and nouns never seen in training.
        data_dir: where WordNet lies, as for ``load_task("idm")``.
        frequency: a table word → count or log probability, instead of the source's own.

    Raises:
        OptionError: an unknown name, no shipped synonyms for the task, or frequencies for synonyms
            that are taken as they are.
        MissingDataError, MissingPackageError: WordNet, vectors or frequencies are not there.
        DataFormatError: the file is no such thesaurus.
    """
    name = str(name)
    if name.endswith(".json"):
        _check_unread(frequency, name)
        return _from_file(Path(name))
    if name not in SOURCES:
        raise OptionError(
            f"synonyms {name!r} are unknown; choose one of {', '.join(SOURCES)}, or give a .json "
            "file that maps words to lists of synonyms"
        )
    shipped = _shipped(task)
    if name == "shipped" or (name == "auto" and shipped is not None):
        if shipped is None:
            raise OptionError(
                f"no synonyms are shipped for the task {task!r}; choose wordnet, vectors, or a file"
            )
        _check_unread(frequency, f"the task {task!r}")
        return shipped
    if name in ("auto", "vectors"):
        try:
            nlp: Any = load_vectors()
            frequencies = spacy_frequency(nlp) if frequency is None else read_frequency(frequency)
            return VectorSource(nlp, frequencies)
        except (MissingDataError, MissingPackageError):
            if name == "vectors":
                raise
    reader = wordnet_reader(data_dir)
    frequencies = wordnet_frequency(reader) if frequency is None else read_frequency(frequency)
    return WordNetSource(reader, frequencies)


def _check_unread(frequency: str | Path | None, whose: str) -> None:
    if frequency is not None:
        raise OptionError(
            f"the synonyms of {whose} are taken as they are, rare or not; leave the frequencies "
            f"{str(frequency)!r} out, or choose wordnet or vectors"
        )


def _shipped(task: str) -> SynonymSource | None:
    if task == "mini-idm":
        return ThesaurusSource(reserve_words(), name="mini-idm's reserve words")
    if task == "mini-sst":
        peers: dict[str, Sequence[str]] = {
            word: [other for other in words if other != word]
            for words in ADJECTIVES.values()
            for word in words
        }
        name = "mini-sst's adjectives of the same label and its nouns' synonyms"
        return ThesaurusSource(peers | NOUN_SYNONYMS, name=name)
    return None


def _from_file(path: Path) -> SynonymSource:
    if not path.is_file():
        raise MissingDataError(f"there is no thesaurus {path}; give a .json file of words")
    try:
        mapping = json_value(read_bytes(path))
    except ValueError as error:
        raise DataFormatError(f"{path} is no JSON ({error})") from error
    if not isinstance(mapping, dict):
        raise DataFormatError(f"{path} holds a {type(mapping).__name__}; expected word → synonyms")
    for word, synonyms in mapping.items():
        is_list = isinstance(synonyms, list) and synonyms
        if not is_list or not all(isinstance(one, str) and one for one in synonyms):
            raise DataFormatError(
                f"{path} gives {word!r} the synonyms {synonyms!r}; expected a list with at least "
                "one word, such as ['mama']"
            )
    return ThesaurusSource(mapping, name=path.name)
