"""Checkpoints: whole or absent, the last two, refused where they belong to something else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from interp_compose.errors import CorruptFileError, InputError
from interp_compose.runs.checkpoint import CheckpointFolder
from interp_compose.runs.checksums import read_signed
from interp_compose.training import loop, objectives
from interp_compose.training.finetune import finetune_on
from interp_compose.training.history import read_history
from tests.training.runs import BASE, CARMA, made_up, same_weights, shared, tiny, train, undisturbed

OFTEN = replace(BASE, checkpoint_every=3)  # of 8 steps: after 3, 6 and the last


def steps_kept(folder: Path) -> list[int]:
    return sorted(int(path.name[5:13]) for path in (folder / "checkpoints").glob("step_*"))


def newest(folder: Path) -> Path:
    return max((folder / "checkpoints").glob("step_*"))


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch, after: int, **options: Any) -> None:
    """A run that is stopped by Ctrl-C in the middle of the step after so many."""
    loss = objectives.AnswerToken._task_loss
    steps = [0]

    def stop(*args: Any) -> Any:
        steps[0] += 1
        if steps[0] > after:
            raise KeyboardInterrupt
        return loss(*args)

    with monkeypatch.context() as patch:
        patch.setattr(objectives.AnswerToken, "_task_loss", stop)
        with pytest.raises(KeyboardInterrupt):
            train(shared(), folder=folder, **{"config": OFTEN, **options})


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    train(shared(), OFTEN, folder=tmp_path)
    assert steps_kept(tmp_path) == [6, 8]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "history.jsonl"]


def test_by_default_there_is_one_with_each_evaluation(tmp_path: Path) -> None:
    train(shared(), replace(BASE, evaluate_every=5), folder=tmp_path)
    assert steps_kept(tmp_path) == [5, 8]


@pytest.mark.parametrize(("after", "patience"), [(2, None), (4, 9), (7, None), (7, 9)])
def test_an_interrupted_run_ends_as_if_it_had_not_been(
    after: int, patience: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(OFTEN, patience=patience, evaluate_every=2)
    whole, history = undisturbed(config, CARMA)
    interrupted(tmp_path, monkeypatch, after, config=config, carma=CARMA)
    torn = tmp_path / "history.jsonl"
    with open(torn, "a") as file:
        file.write('{"table": "steps", "st')
    assert len(read_history(torn)["steps"]) == after
    resumed, again = train(shared(), config, carma=CARMA, folder=tmp_path)
    assert same_weights(whole, resumed)
    for name, frame in history.frames.items():
        other = again.frames[name]
        pd.testing.assert_frame_equal(
            frame.drop(columns="seconds", errors="ignore"),
            other.drop(columns="seconds", errors="ignore"),
        )
        pd.testing.assert_frame_equal(read_history(torn)[name], other)


def test_a_finished_run_returns_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(OFTEN, patience=9)
    first, history = train(shared(), config, carma=CARMA, folder=tmp_path)
    text = (tmp_path / "history.jsonl").read_text()
    monkeypatch.setattr(loop.Trainer, "train_step", lambda *args: pytest.fail("it trained again"))
    monkeypatch.setattr(loop.Trainer, "evaluate", lambda *args: pytest.fail("it evaluated again"))
    again, same = train(shared(), config, carma=CARMA, folder=tmp_path)
    assert same_weights(first, again)
    assert not again.training
    assert (tmp_path / "history.jsonl").read_text() == text
    pd.testing.assert_frame_equal(history.frame, same.frame)


# ---- damage --------------------------------------------------------------------------------


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, empty])
def test_a_damaged_one_is_passed_over_for_the_one_before(
    damage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = undisturbed(OFTEN, None)
    interrupted(tmp_path, monkeypatch, after=7)
    assert steps_kept(tmp_path) == [3, 6]
    damaged = newest(tmp_path)
    damage(damaged)
    with pytest.warns(
        UserWarning, match="step_00000006.*truncated, altered or renamed.*checkpoint before it"
    ):
        resumed, _ = train(shared(), OFTEN, folder=tmp_path)
    assert same_weights(whole, resumed)
    assert steps_kept(tmp_path) == [6, 8]
    fingerprint = read_signed(tmp_path / "checkpoints" / "fingerprint.json")
    folder = CheckpointFolder(tmp_path / "checkpoints", fingerprint)
    assert all(folder.is_whole(*one) for one in folder.files())  # both are intact again


def test_a_passed_over_checkpoint_makes_way(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, {"run": 1})
    for step in (2, 4):
        folder.save(step, {"x": torch.tensor([float(step)])}, {})
    flip_a_bit(max(tmp_path.glob("step_*")))
    with pytest.warns(UserWarning, match="truncated, altered or renamed"):
        assert folder.latest().step == 2  # type: ignore[union-attr]
    folder.save(3, {"x": torch.tensor([3.0])}, {})
    assert [step for step, _ in folder.files()] == [2, 3]
    assert folder.latest().step == 3  # type: ignore[union-attr]


def test_what_a_save_killed_before_its_end_left_goes(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, {"run": 1})
    for step in (2, 4):
        folder.save(step, {"x": torch.tensor([float(step)])}, {})
    older = {path: path.read_bytes() for path in tmp_path.glob("step_*")}
    folder.save(6, {"x": torch.tensor([6.0])}, {})
    for path, content in older.items():
        path.write_bytes(content)
    assert folder.latest().step == 6  # type: ignore[union-attr]
    assert [step for step, _ in folder.files()] == [4, 6]


def test_all_damaged(tmp_path: Path) -> None:
    train(shared(), OFTEN, folder=tmp_path)
    for path in (tmp_path / "checkpoints").glob("step_*"):
        flip_a_bit(path)
    with pytest.warns(UserWarning, match="altered"), pytest.raises(CorruptFileError) as refusal:
        train(shared(), OFTEN, folder=tmp_path)
    assert "all 2 checkpoints in" in str(refusal.value)
    assert "delete the folder to train from the start" in str(refusal.value)


def test_a_checkpoint_renamed_to_another_step_is_passed_over(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, {"run": 1})
    folder.save(5, {"x": torch.zeros(2)}, {})
    path = folder.save(10, {"x": torch.ones(2)}, {})
    renamed = path.with_name(path.name.replace("00000010", "00000500"))
    path.rename(renamed)
    with pytest.warns(UserWarning, match=r"step_00000500.* or renamed after it was written"):
        found = folder.latest()
    assert found is not None
    assert found.step == 5
    folder.save(6, {"x": torch.ones(2)}, {})
    assert not renamed.exists()
    path = next(tmp_path.glob("step_00000006*"))
    path.rename(path.with_name(path.name.replace("00000006", "00000500")))
    next(tmp_path.glob("step_00000005*")).unlink()
    with (
        pytest.warns(UserWarning, match="or renamed"),
        pytest.raises(CorruptFileError, match="all 1 checkpoints .* or renamed; delete the folder"),
    ):
        folder.latest()


def test_a_foreign_file_with_a_right_checksum(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, {})
    folder.claim()
    for data in (b"nothing of ours", (8).to_bytes(8, "little") + b'{"a":{}}'):
        path = tmp_path / folder.name_of(1, hashlib.sha256(folder.salt(1) + data).hexdigest())
        path.write_bytes(data)
        with pytest.raises(CorruptFileError, match="no checkpoint of interp_compose"):
            folder.latest()
        path.unlink()


def test_checkpoints_of_older_releases_are_refused(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, {"run": 1})
    folder.save(1, {"x": torch.ones(2)}, {})
    (tmp_path / "fingerprint.json").unlink()
    with pytest.raises(CorruptFileError, match=r"releases before 0\.1\.0 wrote none.*delete the"):
        folder.latest()


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    left = [folder / f".interp_compose.{'0' * 16}.tmp" for folder in tmp_path.glob("**/")]
    for path in left:
        path.write_bytes(b"half")
    path.with_name(f"{path.name}.d").mkdir()
    (path.with_name(f"{path.name}.d") / ".tmpEIgr1p").write_bytes(b"safetensors' own")
    left.append(path.with_name(f"{path.name}.d"))
    mine = tmp_path / "notes.tmp"
    mine.write_text("the user's")
    train(shared(), OFTEN, folder=tmp_path)
    assert not any(path.exists() for path in left)
    assert mine.exists()


# ---- another run's -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model": tiny(seed=1)}, "weights_sha256 was"),
        ({"config": replace(OFTEN, lr=1.0)}, r"train.lr was 0.003, is now 1.0"),
        ({"config": replace(OFTEN, seed=4)}, "train.seed was 0, is now 4"),
        ({"carma": None}, "carma was .*, is now null"),
        ({"carma": replace(CARMA, weight=0.5)}, "carma.weight was 0.4, is now 0.5"),
        ({"carma": replace(CARMA, layers=(1, 1))}, "carma.layers was"),
        ({"n": 19}, "n_train was 20, is now 19.*examples_sha256 was"),
        ({"validation": 8}, "n_validation was 7, is now 8"),
    ],
    ids=["model", "lr", "seed", "no carma", "weight", "layers", "data", "validation"],
)
def test_the_checkpoints_of_another_run_are_refused_by_what_differs(
    change: dict[str, Any], named: str, another: Path
) -> None:
    options = {"model": shared(), "config": OFTEN, "carma": CARMA, **change}
    before = {path: path.read_bytes() for path in another.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=f"checkpoints of a different run: .*{named}") as refusal:
        train(options.pop("model"), folder=another, **options)
    assert "choose another folder, or delete this one" in str(refusal.value)
    assert before == {path: path.read_bytes() for path in another.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("another")
    train(shared(), OFTEN, carma=CARMA, folder=folder)
    return folder


def test_frozen_weights_belong_to_the_run(another: Path) -> None:
    model = tiny()
    next(model.parameters()).requires_grad_(False)
    with pytest.raises(InputError, match="frozen was .*is now .*wte"):
        train(model, OFTEN, carma=CARMA, folder=another)


# ---- the folder and the file ----------------------------------------------------------------


def test_a_folder_may_be_a_text_and_must_not_be_a_file(tmp_path: Path) -> None:
    options: dict[str, Any] = {"carma": None, "config": replace(BASE, max_steps=1)}
    finetune_on(
        shared(), made_up(4), [], "x", folder=str(tmp_path / "a/b"), progress=False, **options
    )
    assert steps_kept(tmp_path / "a/b") == [1]
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(InputError, match="is no folder and cannot be made one"):
        train(shared(), folder=taken)
    assert taken.read_text() == "mine"


def test_a_note_longer_than_a_safetensors_header_may_be(tmp_path: Path) -> None:
    rows = [{"table": "steps", "text": "x" * 1_000_000}] * 101
    folder = CheckpointFolder(tmp_path, {})
    folder.save(1, {"x": torch.ones(2)}, {"history": rows})
    found = folder.latest()
    assert found is not None
    assert len(found.note["history"]) == 101
    assert set(found.tensors) == {"x"}


def test_a_save_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CheckpointFolder(tmp_path, {})
    first = folder.save(1, {"x": torch.ones(2)}, {})

    def full(*args: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("interp_compose.runs.files.file_sha256", full)
        with pytest.raises(OSError, match="no space"):
            folder.save(2, {"x": torch.ones(2)}, {})
    assert {path.name for path in tmp_path.iterdir()} == {first.name, "fingerprint.json"}


def test_clear(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "c", {})
    folder.clear()
    folder.save(1, {"x": torch.ones(2)}, {})
    (tmp_path / f"c/.interp_compose.{'0' * 16}.tmp").touch()
    folder.clear()
    assert not (tmp_path / "c").exists()
    assert folder.latest() is None


def test_the_history_file_is_json_line_by_line(tmp_path: Path) -> None:
    train(shared(), OFTEN, carma=CARMA, folder=tmp_path)
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["table"] for line in lines]
    assert kinds.count("steps") == 8
    assert kinds.count("evaluations") == 3
    assert kinds.count("representations") == 9
