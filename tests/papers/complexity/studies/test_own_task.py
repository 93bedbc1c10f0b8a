"""Anchor functions of one's own in the studies of complexity control: what a run is made of and
named by, and what is refused before anything is trained."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

import interp_compose as ic
from interp_compose.errors import InputError, InterpComposeError, OptionError
from interp_compose.papers.complexity.studies.anchors.grid import with_task
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun
from interp_compose.papers.complexity.tasks.anchor_record import (
    looked_up,
    record_of,
    task_of,
    violating_groups,
)
from interp_compose.runs.files import json_bytes, read_json
from interp_compose.runs.folder import FORMAT, hashed
from interp_compose.settings import identity_of
from tests.studies.conftest import few_outputs

AnchorTask = ic.complexity.AnchorTask
ANCHORS: dict[str, Any] = {"up": 3, "double": lambda x: 2 * x, "half": lambda x: x // 2, "less": -2}
UNSEEN = (("up", "double"), ("double", "up"))
OWN = AnchorTask(anchors=ANCHORS, unseen=UNSEEN)
TINY = PhaseRun(
    d_model=16, d_mlp=20, samples=150, n_test=60, steps=12, batch_size=32, evaluate_every=5
)
HERE: dict[str, Any] = {"run": TINY, "where": "here", "progress": False, "seeds": 1}
SPEED = HERE | {"run": replace(TINY, evaluate_every=PhaseRun().evaluate_every)}


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    with few_outputs():
        yield


def folder_names(out: Path) -> set[str]:
    return {path.name for path in (out / "runs").iterdir()}


def test_runs_of_the_papers_task_keep_their_names() -> None:
    """The names they had before there were tasks of one's own."""
    fits = PhaseRun(hold_out=False, evaluate_every=20, n_layers=3, violations=2)
    for work, run, name in (
        ("anchors", PhaseRun(), "edf94df624c50ba6"),
        ("fitting_speed", fits, "f44d198897292db9"),
    ):
        assert hashed({"format": FORMAT, "work": work, "config": identity_of(run)}) == name


@pytest.mark.parametrize(
    "task",
    [
        OWN,
        AnchorTask(noise=(40, 60), modulus="code", d_vocab=300),
        AnchorTask(anchors=ANCHORS, unseen=UNSEEN, violations={("up", "half"): lambda x: x + 9}),
        AnchorTask(anchors={"a": 1, "b": lambda x: x + 2}, n_anchors=3, unseen=(("a", "b", "a"),)),
    ],
)
def test_a_record_is_the_task(task: AnchorTask) -> None:
    """Target by target, and sequence by sequence, after a way through JSON."""
    again = task_of(json.loads(json_bytes(record_of(task))))
    assert again.chains == task.chains
    assert again.vocabulary == task.vocabulary
    low, high = task.numbers
    for chain in task.chains:
        for key in range(low, high + 1):
            value = key
            for anchor in chain:
                operation = task.anchors[anchor]
                value = operation(value) if callable(operation) else value + operation
            broken = task.violations.get(chain)
            if callable(broken):
                value = broken(key)
            elif broken is not None:
                value = key + broken
            assert again.apply(key, chain) == value
    for split in ("train", "id", "ood"):
        assert torch.equal(
            again.sample(split, 50, seed=3).tokens, task.sample(split, 50, seed=3).tokens
        )


def test_functions_of_equal_values_are_one_task() -> None:
    same = {**ANCHORS, "double": lambda x: x + x}
    other = {**ANCHORS, "double": lambda x: x + x + (x == 25)}
    assert record_of(AnchorTask(anchors=same, unseen=UNSEEN)) == record_of(OWN)
    assert record_of(AnchorTask(anchors=other, unseen=UNSEEN)) != record_of(OWN)


def test_anchors_in_another_order_are_another_task(tmp_path: Path) -> None:
    """Their token ids go by the order."""
    backwards = dict(reversed(ANCHORS.items()))
    for task in (OWN, AnchorTask(anchors=backwards, unseen=UNSEEN)):
        ic.complexity.phase_diagram([0.5], [0.01], tmp_path, task=task, **HERE)
    assert len(folder_names(tmp_path)) == 2
    papers = AnchorTask(anchors=dict(reversed(AnchorTask().anchors.items())))
    assert with_task(TINY, papers).task.chains == papers.chains != AnchorTask().chains


def test_a_function_that_changes_between_calls_is_refused(tmp_path: Path) -> None:
    """A run keeps what a function gives: it would train on other targets than the task has."""
    shift, calls = [1], itertools.count()
    closure = AnchorTask(anchors={**ANCHORS, "half": lambda x: x // 2 + shift[0]}, unseen=UNSEEN)
    shift[0] = 2
    counting = AnchorTask(anchors={**ANCHORS, "half": lambda x: x + next(calls) % 3}, unseen=UNSEEN)
    random = Random(0)
    drawn = AnchorTask(
        anchors={**ANCHORS, "half": lambda x: x + random.randrange(40)}, unseen=UNSEEN
    )
    refused(tmp_path / "a", "target of 20 up half was 12, and is now 13", InputError, task=closure)
    for task in (counting, drawn):
        refused(tmp_path / "b", "the same number of a value each time", InputError, task=task)
    breaking = AnchorTask(violations={("a", "b"): lambda x: x + random.randrange(40)}, unseen=())
    with pytest.raises(InputError, match="the target of .* a b was"):
        ic.complexity.fitting_speed([0.5], [1], [1], tmp_path, task=breaking, **SPEED)


def test_a_target_of_thousands_of_digits_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="target of 20 a b is an? int, outside the vocabulary"):
        AnchorTask(anchors={"a": 1, "b": lambda x: 10**5000, "c": 2}, unseen=())


def test_a_diagram_of_functions_of_ones_own(tmp_path: Path) -> None:
    """Its runs are trained on them, are found again, and are opened by ``mechanism``."""
    diagram = ic.complexity.phase_diagram([0.3, 0.8], [0.01], tmp_path, task=OWN, **HERE)
    record = record_of(OWN)
    assert diagram.config["own_task"] == record
    assert not {"modulus", "hold_out", "d_vocab"} & diagram.config.keys()
    names = folder_names(tmp_path)
    for name in names:
        config = read_json(tmp_path / "runs" / name / "config.json")["config"]
        assert config["own_task"] == record
    again = ic.complexity.phase_diagram([0.3, 0.8], [0.01], tmp_path, task=task_of(record), **HERE)
    assert folder_names(tmp_path) == names
    assert again.frame.equals(diagram.frame)
    inside = ic.complexity.mechanism(tmp_path, [0.3, 0.8], progress=False)
    assert inside.config["own_task"] == record
    anchors = "own anchors up +3, double f(x), half f(x), less −2"
    for figure in (inside.plot_training(), diagram.plot_map()):
        assert anchors in figure.layout.title.subtitle.text
    saved = ic.complexity.PhaseDiagram.load(diagram.save(tmp_path / "saved"))
    assert saved.config["own_task"] == record


def test_the_papers_task_by_name_is_the_default(tmp_path: Path) -> None:
    one = ic.complexity.phase_diagram([0.5], [0.01], tmp_path, **HERE)
    names = folder_names(tmp_path)
    two = ic.complexity.phase_diagram([0.5], [0.01], tmp_path, task=AnchorTask(), **HERE)
    assert folder_names(tmp_path) == names
    assert one.config == two.config
    assert "own_task" not in one.config
    assert "own anchors" not in one.plot_map().layout.title.subtitle.text


def test_fitting_speed_counts_the_tasks_own_groups(tmp_path: Path) -> None:
    """A run with one group trains on the first group's targets, and all runs have one shape."""
    broken = {("up", "half"): 1, ("half", "up"): 1, ("up", "up"): 300}
    task = AnchorTask(anchors=ANCHORS, unseen=(), violations=broken)
    assert violating_groups(task) == [[("up", "half"), ("half", "up")], [("up", "up")]]
    speed = ic.complexity.fitting_speed([0.5], [1], [0, 1, 2], tmp_path, task=task, **SPEED)
    violating = speed.pairs[speed.pairs["violates"]].groupby("violations")["pair"].apply(set)
    assert violating.to_dict() == {1: {"up half", "half up"}, 2: {"up half", "half up", "up up"}}
    run = replace(TINY, own_task=record_of(task), violations=1)
    assert run.task.apply(30, ("up", "half")) == 31
    assert run.task.apply(30, ("up", "up")) == 36
    assert {replace(run, violations=n).task.vocabulary for n in (0, 1, 2)} == {task.vocabulary}
    with pytest.raises(OptionError, match="violations holds 3: expected whole numbers from 0 to 2"):
        ic.complexity.fitting_speed([0.5], [1], [3], tmp_path, task=task, **SPEED)


def refused(out: Path, match: str, error: type[InterpComposeError], **options: Any) -> None:
    with pytest.raises(error, match=match):
        ic.complexity.phase_diagram([0.5], [0.01], out, **{**HERE, **options})
    assert not out.exists()


@pytest.mark.parametrize(
    ("match", "changes"),
    [
        ("unseen is empty", {"unseen": ()}),
        ("training shows", {"unseen": UNSEEN[:1]}),
        ("whatever the model does", {"unseen": (*UNSEEN, ("half", "half"))}),
        ("which is unseen", {"violations": {UNSEEN[0]: 4}}),
        ("of pairs of anchors", {"n_anchors": 3, "unseen": (("up",) * 3,)}),
        ("at least 6 tokens", {"length": 5}),
        ("expected three or more", {"anchors": {"up": 3, "double": 4}}),
        ("common values", {"anchors": {**ANCHORS, "half": lambda x: 7}}),
    ],
)
def test_a_task_without_phases_is_refused_first(
    tmp_path: Path, match: str, changes: dict[str, Any]
) -> None:
    refused(tmp_path / "out", match, InputError, task=replace(OWN, **changes))


def test_what_the_task_says_is_not_said_twice(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for field, value in (("modulus", "code"), ("hold_out", False), ("d_vocab", 500)):
        run = replace(TINY, **{field: value})
        for task in (OWN, AnchorTask()):
            refused(out, rf"run\.{field}=.*task=AnchorTask\(", OptionError, task=task, run=run)
    own = replace(TINY, own_task=record_of(OWN))
    refused(out, "give task instead", OptionError, run=own)
    with pytest.raises(OptionError, match=r"unseen=.*all chains are trained on"):
        ic.complexity.fitting_speed([0.5], [1], [0], out, task=OWN, **SPEED)


def test_unseen_pairs_that_can_be_looked_up_are_named(tmp_path: Path) -> None:
    """One whose function is that of a seen pair, and none of the paper's."""
    add = AnchorTask(
        anchors={"one": 1, "two": 2, "three": 3}, unseen=(("one", "three"), ("three", "one"))
    )
    assert [note.split(",")[0] for note in looked_up(add)] == [
        "the targets of the unseen one three are those of two two",
        "the targets of the unseen three one are those of two two",
    ]
    assert looked_up(AnchorTask()) == looked_up(OWN) == []
    diagram = ic.complexity.phase_diagram([0.5], [0.01], tmp_path, task=add, **HERE)
    assert "! the targets of the unseen one three are those of two two" in diagram.summary()
