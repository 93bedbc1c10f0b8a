"""CFQ: questions and their SPARQL queries, in the splits of maximum compound divergence.

Keysers et al. 2020, "Measuring Compositional Generalization: A Comprehensive Method on Realistic
Data" (ICLR). Entities are the variables M0, M1, …: ``questionPatternModEntities`` becomes
``sparqlPatternModEntities``. Tokens are cut as the authors do for their own models: every
punctuation mark of a question is a token; of a query the prefix ``ns:`` is dropped, an identifier
``m.05zppz`` is written ``m_05zppz``, and ``count(*)`` is four tokens.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from interp_compose.errors import DataFormatError
from interp_compose.runs.files import reading
from interp_compose.tasks.rows import data_files, shown
from interp_compose.tasks.sequences import (
    SequencePair,
    SequenceTask,
    check_counts,
    report_of,
)

EXAMPLES: Final = {"dataset.json": 239357}
COUNTS: Final = {"train": 95743, "dev": 11968, "test": 11968}
QUESTION: Final = "questionPatternModEntities"
QUERY: Final = "sparqlPatternModEntities"
MARK: Final = re.compile(f"([{re.escape(string.punctuation)}])")


def cfq(name: str, data_dir: str | Path | None) -> SequenceTask:
    """One of the three splits; raises as :func:`.sequences.load_sequences` says."""
    files = ["dataset.json", f"splits/{name.removeprefix('cfq-')}.json"]
    hint = (
        "unpack https://storage.cloud.google.com/cfq_dataset/cfq1.1.tar.gz and pass the folder "
        f"with {' and '.join(files)} as data_dir (--data-dir)"
    )
    dataset, split_file = data_files(name, data_dir, files, needs="the data set CFQ", hint=hint)
    split = _json(split_file)
    keys = {part: f"{part}Idxs" for part in COUNTS}
    if not isinstance(split, Mapping) or not set(keys.values()) <= set(split):
        raise DataFormatError(
            f"{split_file} is not a split of CFQ; expected an object with "
            f"{', '.join(keys.values())}"
        )
    for key in keys.values():
        if not isinstance(split[key], list):
            raise DataFormatError(f"{split_file} has {shown(split[key])} as {key}; expected a list")
    check_counts("CFQ", split_file, {part: split[key] for part, key in keys.items()}, COUNTS)
    examples = _json(dataset)
    if not isinstance(examples, list):
        raise DataFormatError(f"{dataset} is not CFQ's; expected a list of examples")
    check_counts("CFQ", data_dir, {"dataset.json": examples}, EXAMPLES)
    used_indices: set[int] = set()
    for i in (i for key in keys.values() for i in split[key]):
        if type(i) is not int or not 0 <= i < len(examples) or i in used_indices:
            raise DataFormatError(
                f"{split_file} has the index {shown(i)}"
                + (" twice" if type(i) is int and i in used_indices else "")
                + f"; expected each of 0 … {len(examples) - 1} at most once. Get the file again"
            )
        used_indices.add(i)
    splits = {
        part: tuple(_pair(examples[i], f"{dataset}, example {i}") for i in split[key])
        for part, key in keys.items()
    }
    return SequenceTask(name, splits, report_of(f"CFQ in {data_dir}", splits, overlap=True))


def _json(path: Path) -> Any:
    """A file's value; of objects only what is read, since the data set fills gigabytes."""
    names = {QUESTION, QUERY, *(f"{part}Idxs" for part in COUNTS)}
    try:
        with reading(path), path.open(encoding="utf-8") as file:
            return json.load(file, object_hook=lambda o: {key: o[key] for key in o if key in names})
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"{path} is not JSON ({error}); get the file again") from error


def _pair(example: Any, where: str) -> SequencePair:
    fields = example if isinstance(example, Mapping) else {}
    question, query = fields.get(QUESTION), fields.get(QUERY)
    if not isinstance(question, str) or not isinstance(query, str):
        raise DataFormatError(
            f"{where} is {shown(example)}; expected texts as {QUESTION} and {QUERY}"
        )
    words = query.replace("count(*)", "count ( * )").split()
    words = [re.sub(r"^m\.", "m_", word.removeprefix("ns:")) for word in words]
    return SequencePair(" ".join(MARK.sub(r" \1 ", question).split()), " ".join(words))
