"""SCAN: the grammar against an interpreter of commands and the public files; its splits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from interp_compose.errors import DataFormatError, MissingDataError, OptionError
from interp_compose.papers.lrf.tasks.scan import commands
from interp_compose.tasks.sequences import load_sequences

FILES = {
    "scan-simple": "simple",
    "scan-length": "length",
    "scan-jump": "addprim_jump",
    "scan-turn-left": "addprim_turn_left",
}


def meaning(command: str) -> list[str]:
    """The actions of a command, read word by word as the paper's interpretation function says."""
    for joint, first_last in (("and", False), ("after", True)):
        if f" {joint} " in command:
            parts = [meaning(part) for part in command.split(f" {joint} ")]
            return parts[1] + parts[0] if first_last else parts[0] + parts[1]
    words = command.split()
    times = {"twice": 2, "thrice": 3}.get(words[-1], 1)
    words = words[: len(words) - (times > 1)]
    act = {"turn": [], "walk": ["I_WALK"], "look": ["I_LOOK"], "run": ["I_RUN"], "jump": ["I_JUMP"]}
    if len(words) == 1:
        return act[words[0]] * times
    turn = ["I_TURN_LEFT" if words[-1] == "left" else "I_TURN_RIGHT"]
    if "around" in words:
        return (turn + act[words[0]]) * 4 * times
    return (turn * (2 if "opposite" in words else 1) + act[words[0]]) * times


def test_every_command_means_what_the_interpretation_function_says() -> None:
    made = list(commands())
    assert len({command for command, _ in made}) == len(made) == 20910
    assert all(actions.split() == meaning(command) for command, actions in made)
    assert {word for command, _ in made for word in command.split()} == {
        *("walk", "look", "run", "jump", "turn", "left", "right", "opposite", "around"),
        *("twice", "thrice", "and", "after"),
    }
    examples = dict(made)
    assert examples["jump after walk twice"] == "I_WALK I_WALK I_JUMP"
    assert examples["turn opposite left"] == "I_TURN_LEFT I_TURN_LEFT"


@pytest.mark.parametrize(
    ("name", "cutoff", "train", "test"),
    [
        ("scan-length", 22, 16990, 3920),
        ("scan-length-24", 24, 17326, 3584),
        ("scan-length-26", 26, 18286, 2624),
    ],
)
def test_the_split_by_length(name: str, cutoff: int, train: int, test: int) -> None:
    task = load_sequences(name)
    assert task.name == name
    assert task.report == {
        "source": "generated",
        "commands": 20910,
        "cutoff": cutoff,
        "train_all": train,
        "test_all": test,
        "test_with_unseen_tokens": 0,
    }
    lengths = {s: [len(pair.target.split()) for pair in task.split(s)] for s in ("train", "test")}
    assert (len(lengths["train"]), len(lengths["test"])) == (train, test)
    assert max(lengths["train"]) == cutoff < min(lengths["test"])
    assert max(lengths["test"]) == 48


@pytest.mark.parametrize(("name", "primitive"), [("scan-jump", "jump"), ("scan-turn-left", "turn")])
def test_a_primitive_is_trained_alone_and_is_a_tenth(name: str, primitive: str) -> None:
    train, test = (load_sequences(name).split(split) for split in ("train", "test"))
    alone = {"jump": "jump", "turn": "turn left"}[primitive]
    counts = Counter(pair.source for pair in train)
    assert counts.pop(alone) * 10 == len(train)
    assert set(counts.values()) == {1}
    assert not any(alone in source for source in counts)
    assert all(alone in pair.source and pair.source != alone for pair in test)
    assert len(counts) + 1 + len(test) == 20910


def test_a_seed_draws_a_split_of_the_same_sizes() -> None:
    first, same, other = (load_sequences("scan-simple", seed=seed) for seed in (0, 0, 1))
    assert first.splits == same.splits
    assert first.splits["test"] != other.splits["test"]
    assert {name: len(pairs) for name, pairs in first.splits.items()} == {
        "train": 16728,
        "test": 4182,
    }
    assert first.report["source"] == "generated; split drawn with seed 0"


def folder(tmp_path: Path, name: str, **lines: list[str]) -> Path:
    for split, pairs in load_sequences(name).splits.items():
        rows = lines.get(split) or [f"IN: {pair.source} OUT: {pair.target}" for pair in pairs]
        path = tmp_path / f"tasks_{split}_{FILES[name]}.txt"
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def test_public_files_have_to_agree_with_the_grammar(tmp_path: Path) -> None:
    here = folder(tmp_path, "scan-length")
    assert load_sequences("scan-length", data_dir=here).report["source"] == f"SCAN in {here}"
    folder(tmp_path, "scan-length", test=["IN: jump OUT: I_JUMP"])
    with pytest.raises(DataFormatError, match="test_length.txt has 1 pairs against .*'jump' → 'I_"):
        load_sequences("scan-length", data_dir=here)
    rows = [
        f"IN: {pair.source} OUT: {pair.target}"
        for pair in load_sequences("scan-jump").split("test")
    ]
    folder(tmp_path, "scan-jump", test=rows[1:])
    with pytest.raises(DataFormatError, match=r"lacks 1 pairs .*\(7705 pairs where 7706 are"):
        load_sequences("scan-jump", data_dir=here)
    folder(tmp_path, "scan-length", train=["walk\tI_WALK"])
    with pytest.raises(DataFormatError, match="train_length.txt, line 1 is not a command with its"):
        load_sequences("scan-length", data_dir=here)


def test_the_random_split_has_the_published_sizes(tmp_path: Path) -> None:
    pairs = [f"IN: {command} OUT: {actions}" for command, actions in commands()]
    for n_test, accepted in ((4182, True), (4183, False)):
        for split, rows in (("train", pairs[n_test:]), ("test", pairs[:n_test])):
            path = tmp_path / f"tasks_{split}_simple.txt"
            path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        if accepted:
            task = load_sequences("scan-simple", data_dir=tmp_path)
            assert task.name == "scan-simple (altered)"
            assert "altered: the rows of test" in str(task.report["source"])
            assert len(task.split("test")) == n_test
        else:
            with pytest.raises(DataFormatError, match="has 16727 examples, and SCAN's has 16728"):
                load_sequences("scan-simple", data_dir=tmp_path)


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="seed=-1: expected a whole number, 0 or more"):
        load_sequences("scan-simple", seed=-1)
    with pytest.raises(MissingDataError, match="'scan-simple' needs .*brendenlake/SCAN.*data-dir"):
        load_sequences("scan-simple")
    with pytest.raises(MissingDataError, match="there is no .*tasks_train_length.txt: get the"):
        load_sequences("scan-length", data_dir=tmp_path)
    for wrong in ("48", "0", "026", "-3", "x"):
        with pytest.raises(OptionError, match=f"'scan-length-{wrong}': expected scan-length-1 …"):
            load_sequences(f"scan-length-{wrong}")
    with pytest.raises(OptionError, match="'scan-length-26' is generated and has no public files"):
        load_sequences("scan-length-26", data_dir=tmp_path)
    for name, data_dir in (("scan-length", None), ("scan-simple", tmp_path)):
        with pytest.raises(OptionError, match=f"seed=3 has no use for '{name}'"):
            load_sequences(name, data_dir=data_dir, seed=3)


@pytest.mark.data
def test_the_commands_are_those_of_the_public_file(data_dir: Path) -> None:
    lines = (data_dir / "scan" / "tasks.txt").read_text(encoding="utf-8").splitlines()
    made = [f"IN: {command} OUT: {actions}" for command, actions in commands()]
    assert len(lines) == len(made)
    assert set(lines) == set(made)


@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_the_splits_are_the_published_ones(name: str, data_dir: Path) -> None:
    here = data_dir / "scan"
    drawn = name == "scan-simple"  # no one can generate it: its files are read
    task = load_sequences(name, data_dir=here if drawn else None)
    for split, pairs in task.splits.items():
        text = (here / f"tasks_{split}_{FILES[name]}.txt").read_text(encoding="utf-8")
        made = [f"IN: {pair.source} OUT: {pair.target}" for pair in pairs]
        if drawn:
            assert made == text.splitlines()
        assert Counter(made) == Counter(text.splitlines())
