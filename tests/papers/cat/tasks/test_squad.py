"""SQuAD's questions: its format in JSON, and through datasets, from files that the tests make."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest

import interp_compose as ic
from interp_compose.errors import DataFormatError, InputError, MissingDataError, OptionError
from interp_compose.papers.cat.tasks.squad import FILES

CONTEXT = "Denver won the game. Carolina lost it in Santa Clara."
ADDED = f"{CONTEXT} Boston won the prize."


def asked(own: str, answers: list[tuple[int, str]]) -> dict[str, Any]:
    given = [{"answer_start": start, "text": text} for start, text in answers]
    return {"id": own, "question": f"Who won {own}?", "answers": given}


def article(context: str, *qas: dict[str, Any]) -> dict[str, Any]:
    return {"title": "Bowl", "paragraphs": [{"context": context, "qas": list(qas)}]}


WON = [(0, "Denver")]
DATA = {
    "train": [
        article(CONTEXT, asked("t0", WON), asked("t1", [(21, "Carolina")])),
        article("A dog barks.", asked("t2", [(2, "dog")])),
    ],
    "test": [article(CONTEXT, asked("q0", [*WON, (0, "Denver won")]))],
    "addsent": [
        article(CONTEXT, asked("q0", WON)),
        article(ADDED, asked("q0-high-conf-turk0", WON), asked("q0-high-conf-turk1", WON)),
        article(CONTEXT, asked("q1", WON)),
    ],
    "addonesent": [article(ADDED, asked("q0-high-conf-turk1", WON))],
}


def folder(path: Path, **changed: Any) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for split, name in FILES.items():
        value = {"data": DATA[split], "version": "1.1", **changed.get(split, {})}
        (path / name).write_text(json.dumps(value), encoding="utf-8")
    return path


def test_the_files_of_squad(tmp_path: Path) -> None:
    task = ic.cat.load_squad(folder(tmp_path))
    assert [one.id for one in task.split("train")] == ["t0", "t1", "t2"]
    answers = ((0, "Denver"), (0, "Denver won"))
    assert task.split("test") == (ic.cat.Question("q0", "Who won q0?", CONTEXT, answers),)
    originals = [one.original for one in task.split("addsent")]
    assert originals == ["q0", "q0", "q0", "q1"]
    assert task.split("addsent")[1].context == ADDED
    counts = {name: value for name, value in task.report.items() if name != "source"}
    assert counts == {
        "train_all": 3, "test_all": 1, "addsent_all": 4, "addsent_originals": 2,
        "addonesent_all": 1, "addonesent_originals": 1,
    }  # fmt: skip
    few = task.limited(1)  # drawn at random: q1, and not q0 with its variants
    assert [len(few.split(name)) for name in FILES] == [1, 1, 1, 1]
    assert [one.original for one in few.split("addsent")] == ["q1"]
    assert few == task.limited(1)
    assert task.limited(None) == task


Change = Callable[[dict[str, Any]], object]
"""What is done to the second article of the training file."""


def paragraph(value: dict[str, Any]) -> Any:
    return value["paragraphs"][0]


def answer(value: dict[str, Any]) -> Any:
    return paragraph(value)["qas"][0]["answers"][0]


WHERE = r"train-v1.1.json, article 1 \('Bowl'\)"
QUESTION = rf"{WHERE}, paragraph 0, question 0 \('t2'\)"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: a.pop("paragraphs"), f"{WHERE} has no paragraphs; expected a list"),
        (lambda a: a.update(title=3, paragraphs=0), "article 1 has 0 as its paragraphs"),
        (lambda a: paragraph(a).pop("qas"), f"{WHERE}, paragraph 0 has no qas; expected a list"),
        (lambda a: paragraph(a).pop("context"), f"{QUESTION} has no context; expected a text"),
        (lambda a: a.update(paragraphs=[3]), f"{WHERE}, paragraph 0 is 3; expected an object"),
        (
            lambda a: paragraph(a)["qas"][0].pop("id"),
            "paragraph 0, question 0 has no id; expected a text",
        ),
        (
            lambda a: paragraph(a)["qas"][0].update(question=" "),
            f"{QUESTION} has ' ' as its question; expected a text that is not blank",
        ),
        (lambda a: paragraph(a)["qas"][0].pop("answers"), f"{QUESTION} has no answers; expected a"),
        (
            lambda a: paragraph(a)["qas"][0].update(answers=[]),
            rf"{QUESTION} has no answers; expected one or more, as SQuAD 1.1 has \(not 2.0\)",
        ),
        (lambda a: answer(a).pop("text"), f"{QUESTION} has an answer with no text"),
        (lambda a: answer(a).pop("answer_start"), f"{QUESTION} has the answer 'dog' with no answ"),
        (lambda a: answer(a).update(answer_start="2"), "'2' as its answer_start; expected a whole"),
        (
            lambda a: answer(a).update(answer_start=3),
            f"{QUESTION} has the answer 'dog' with answer_start=3, where the context has 'og '",
        ),
        (
            lambda a: answer(a).update(answer_start=-10),
            "answer_start=-10, where the context has ''",
        ),
    ],
)
def test_garbled_files_are_named(tmp_path: Path, change: Change, said: str) -> None:
    articles = json.loads(json.dumps(DATA["train"]))
    articles[1]["title"] = "Bowl"
    change(articles[1])
    with pytest.raises(DataFormatError, match=said):
        ic.cat.load_squad(folder(tmp_path, train={"data": articles}))


def test_files_that_are_not_there_or_something_else(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="train-v1.1.json: get train-v1.1.json and dev"):
        ic.cat.load_squad(tmp_path)
    path = folder(tmp_path, test={"data": []})
    with pytest.raises(InputError, match="the test split of 'squad' is empty"):
        ic.cat.load_squad(path)
    (path / FILES["test"]).write_text('{"data": [', encoding="utf-8")
    with pytest.raises(DataFormatError, match="dev-v1.1.json is not JSON"):
        ic.cat.load_squad(path)
    (path / FILES["test"]).write_text("[]", encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"dev-v1.1.json is \[\]; expected an object with da"):
        ic.cat.load_squad(path)


GOOD = ic.cat.Question("q", "Who?", CONTEXT, ((0, "Denver"),))


@pytest.mark.parametrize(
    ("splits", "error", "said"),
    [
        ({"dev": (GOOD,)}, OptionError, "splits of 'own' name 'dev': expected some of train, test"),
        ({"train": ()}, InputError, "the train split of 'own' is empty"),
        ({"test": (GOOD, GOOD)}, InputError, "question 'q' of the test split of 'own' is there tw"),
        ({"test": (replace(GOOD, answers=()),)}, InputError, "'q' of the test split .* no answers"),
        ({"test": (replace(GOOD, context=""),)}, InputError, "has '' as its context"),
        ({"test": (replace(GOOD, answers=((1, "Denver"),)),)}, InputError, "answer_start=1"),
    ],
)
def test_what_no_task_can_be(splits: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        ic.cat.SpanTask("own", {"train": (GOOD,), "test": (GOOD,)} | splits)
    with pytest.raises(OptionError, match="split 'ood' is unknown"):
        ic.cat.SpanTask("own", {"train": (GOOD,), "test": (GOOD,)}).split("ood")


# ---- through datasets ---------------------------------------------------------------------------


def rows(split: str) -> list[dict[str, Any]]:
    found = []
    for one in DATA[split]:
        for own in one["paragraphs"][0]["qas"]:
            given = {name: [a[name] for a in own["answers"]] for name in ("text", "answer_start")}
            found.append({**own, "context": one["paragraphs"][0]["context"], "answers": given})
    return found


CONFIGS = """---
configs:
- config_name: AddSent
  data_files: [{split: validation, path: addsent.jsonl}]
- config_name: AddOneSent
  data_files: [{split: validation, path: addonesent.jsonl}]
---
"""


def jsonl(path: Path, items: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(one) for one in items), encoding="utf-8")


def through_datasets(own: Path, adversarial: Path) -> None:
    """The same questions, as folders that ``datasets`` loads."""
    jsonl(own / "train.jsonl", rows("train"))
    jsonl(own / "validation.jsonl", rows("test"))
    for split in ("addsent", "addonesent"):
        jsonl(adversarial / f"{split}.jsonl", rows(split))
    (adversarial / "README.md").write_text(CONFIGS, encoding="utf-8")


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


@pytest.mark.usefixtures("offline")
def test_the_same_through_datasets(tmp_path: Path) -> None:
    through_datasets(tmp_path / "squad", tmp_path / "adversarial")
    here = str(tmp_path / "squad")
    found = ic.cat.squad_from_hub(here, adversarial=str(tmp_path / "adversarial"))
    assert found.splits == ic.cat.load_squad(folder(tmp_path / "files")).splits
    assert set(ic.cat.squad_from_hub(here, adversarial=None).splits) == {"train", "test"}
    with pytest.raises(MissingDataError, match="'validation' of .*none' cannot be loaded"):
        ic.cat.squad_from_hub(here, adversarial=str(tmp_path / "none"))
    broken = [{**one, "answers": {"text": ["Denver"], "answer_start": [1]}} for one in rows("test")]
    jsonl(tmp_path / "squad" / "validation.jsonl", broken)
    said = r"row 0 of split 'validation' of .*squad \('q0'\) has the answer 'Denver' with answer_st"
    with pytest.raises(DataFormatError, match=said):
        ic.cat.squad_from_hub(here, adversarial=None)
    fewer = [{name: one[name] for name in ("id", "question", "context")} for one in rows("test")]
    jsonl(tmp_path / "squad" / "train.jsonl", fewer)
    jsonl(tmp_path / "squad" / "validation.jsonl", fewer)
    with pytest.raises(DataFormatError, match="of .*squad has no column 'answers'; it has id, que"):
        ic.cat.squad_from_hub(here, adversarial=None)
