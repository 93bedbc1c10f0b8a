"""CFQ: examples and splits in the published format, on files made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interp_compose.errors import DataFormatError, MissingDataError
from interp_compose.papers.lrf.tasks import cfq as module
from interp_compose.tasks.sequences import SequencePair, SequenceTask, load_sequences


def example(question: str, body: str) -> dict[str, Any]:
    return {
        "question": "Was Jane Doe's film made",
        "questionPatternModEntities": question,
        "sparqlPatternModEntities": body,
        "complexityMeasures": {"parseTreeLeafCount": 3},
        "ruleIds": [f"rule{i}" for i in range(3)],
    }


COUNTED = "SELECT count(*) WHERE {\nM0 ns:film.film.writer ns:m.05zppz .\nM0 ns:a.b|ns:c.d ?x0\n}"
EXAMPLES = [
    example("Did M0 's writer edit M1 , and M2", COUNTED),
    example("Did M0 edit M1", "SELECT count(*) WHERE {\nM0 ns:film.editor.film M1\n}"),
    example("Who edit M1", "SELECT DISTINCT ?x0 WHERE {\n?x0 ns:film.editor.film M1\n}"),
    example("Who edit M1", "SELECT DISTINCT ?x0 WHERE {\n?x0 ns:film.editor.film M1 .\n}"),
    example("What was M0", "SELECT DISTINCT ?x0 WHERE {\nM0 a ?x0\n}"),
]
SPLIT = {"trainIdxs": [0, 2], "devIdxs": [1], "testIdxs": [3]}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COUNTS", {"train": 2, "dev": 1, "test": 1})
    monkeypatch.setattr(module, "EXAMPLES", {"dataset.json": 5})


def load(folder: Path, examples: Any = EXAMPLES, split: Any = SPLIT) -> SequenceTask:
    (folder / "splits").mkdir(exist_ok=True)
    (folder / "dataset.json").write_text(json.dumps(examples, indent=2), encoding="utf-8")
    (folder / "splits" / "mcd2.json").write_text(json.dumps(split), encoding="utf-8")
    return load_sequences("cfq-mcd2", data_dir=folder)


def test_tokens_and_splits(tmp_path: Path) -> None:
    task = load(tmp_path)
    assert task.split("train")[0] == SequencePair(
        "Did M0 ' s writer edit M1 , and M2",
        "SELECT count ( * ) WHERE { M0 film.film.writer m_05zppz . M0 a.b|ns:c.d ?x0 }",
    )
    assert task.split("dev")[0].source == "Did M0 edit M1"
    assert task.report == {
        "source": f"CFQ in {tmp_path}",
        "train_all": 2,
        "dev_all": 1,
        "test_all": 1,
        "dev_with_unseen_tokens": 0,
        "dev_also_in_train": 0,
        "test_with_unseen_tokens": 0,
        "test_also_in_train": 1,
    }


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"split": [0]}, "mcd2.json is not a split of CFQ; expected an object with trainIdxs, devI"),
    ({"split": {"trainIdxs": [0]}}, "mcd2.json is not a split of CFQ"),
    ({"split": {**SPLIT, "devIdxs": 1}}, "mcd2.json has 1 as devIdxs; expected a list"),
    ({"split": {**SPLIT, "devIdxs": [1, 4]}}, "dev has 2 examples, and CFQ's has 1"),
    ({"split": {**SPLIT, "devIdxs": [5]}}, "has the index 5; expected each of 0 … 4 at most once"),
    ({"split": {**SPLIT, "devIdxs": [True]}}, "has the index True; expected"),
    ({"split": {**SPLIT, "devIdxs": [2]}}, "has the index 2 twice; expected each of 0 … 4"),
    ({"examples": {"questions": 1}}, "dataset.json is not CFQ's; expected a list of examples"),
    ({"examples": EXAMPLES[1:]}, "dataset.json has 4 examples, and CFQ's has 5"),
    ({"examples": [{"question": "a"}, *EXAMPLES[1:]]}, "dataset.json, example 0 is {}; expected"),
    ({"examples": [7, *EXAMPLES[1:]]}, "dataset.json, example 0 is 7; expected texts as questionP"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_other_files_are_refused(wrong: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match=message):
        load(tmp_path, **wrong)


def test_what_is_no_json_or_missing_is_named(tmp_path: Path) -> None:
    load(tmp_path)
    (tmp_path / "dataset.json").write_text("[{", encoding="utf-8")
    with pytest.raises(DataFormatError, match="dataset.json is not JSON .*; get the file again"):
        load_sequences("cfq-mcd2", data_dir=tmp_path)
    with pytest.raises(MissingDataError, match="there is no .*mcd1.json: unpack .*cfq1.1.tar.gz"):
        load_sequences("cfq-mcd1", data_dir=tmp_path)
    with pytest.raises(MissingDataError, match="task 'cfq-mcd3' needs the data set CFQ"):
        load_sequences("cfq-mcd3")
