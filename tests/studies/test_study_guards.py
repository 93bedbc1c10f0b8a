"""Runs that go wrong late, folders that hold something else, options of the wrong kind."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from interp_compose import cli
from interp_compose.errors import InputError, OutputError
from interp_compose.runs.batches import BatchStore
from interp_compose.runs.numbered import FINGERPRINT
from interp_compose.runs.result import Result
from interp_compose.studies.cap import measure as cap_measure
from interp_compose.studies.cap.options import CapCommand, CapOptions
from interp_compose.studies.core import output as run_folder
from interp_compose.studies.core.options import ModelSource, Output, TaskSource
from interp_compose.studies.core.output import write_result
from interp_compose.studies.similarity.measure import similarity_curve
from tests import architectures
from tests.studies import similarity_reference as slow
from tests.studies.conftest import TEXTS, splitting_tokenizer
from tests.test_results import readable

FRAME = pd.DataFrame({"pair": [0, 1], "cosine": [0.5, 0.25]})


@pytest.fixture(autouse=True, scope="module")
def short_intervals() -> Iterator[None]:
    with slow.few_samples():
        yield


def of_figure(figure: Any) -> bytes:
    return str(figure.to_json()).encode()


@pytest.fixture(autouse=True)
def small_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a figure looks like is tested with figures; here a few bytes of it are enough."""

    monkeypatch.setattr(run_folder, "picture_bytes", of_figure)
    monkeypatch.setattr(
        run_folder,
        "page_files",
        lambda figures: {f"{n}.html": of_figure(figures[n]) for n in figures},
    )
    monkeypatch.setattr(run_folder, "report_page", lambda result, *drawn: result.summary())


@dataclass(frozen=True)
class Study:
    """A study in batches, as its command runs it: what is around it is the same for all."""

    options: CapCommand

    def into(self, out: Path, *, overwrite: bool = False, layers: Sequence[int] = (0,)) -> Any:
        output = Output(out=out, overwrite=overwrite, quiet=True)
        asked = replace(self.options.study, layers=layers)
        return cap_measure.run(replace(self.options, study=asked, output=output))

    @property
    def command(self) -> list[str]:
        source = ["--model", self.options.model.model, "--task", self.options.task.task]
        return ["cap", *source, "--device", "cpu", "-q", "--layers", "0"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A tiny model and data, one layer, batches of two."""
    folder = tmp_path_factory.mktemp("gpt2")
    architectures.build("GPT-2").save_pretrained(folder)
    splitting_tokenizer().save_pretrained(folder)
    rows = folder.parent / "rows.jsonl"
    lines = [
        json.dumps({"prompt": f'{text} "', "answer": "a", "tree": f'(S (X {text}) (Y "))'})
        for text in TEXTS
    ]
    rows.write_text("\n".join(lines), encoding="utf-8")
    return Study(
        CapCommand(
            model=ModelSource(model=str(folder), device="cpu"),
            task=TaskSource(task=str(rows)),
            study=CapOptions(pooling=("mean",), controls=False, batch_size=2),
        )
    )


def counted(patch: pytest.MonkeyPatch, before: Callable[[], None]) -> list[int]:
    """How often a batch is computed; ``before`` is called first each time."""
    real, calls = cap_measure.PreparedCap.rows, [0]

    def count(*args: Any, **options: Any) -> pd.DataFrame:
        calls[0] += 1
        before()
        return real(*args, **options)

    patch.setattr(cap_measure.PreparedCap, "rows", count)
    return calls


# ---- batches carry their run --------------------------------------------------------------


def test_a_batch_of_another_run_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    """As when two runs share a folder, and the slower one writes into what the other has made."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    own, other = BatchStore(mine, {"seed": 1}), BatchStore(theirs, {"seed": 2})
    own.put(0, FRAME)
    other.put(1, FRAME)
    foreign = next(theirs.glob("*.parquet"))
    (mine / foreign.name).write_bytes(foreign.read_bytes())
    assert readable(own) == {0}
    pd.testing.assert_frame_equal(own.get(0), FRAME)
    assert own.get(1) is None
    own.put(1, FRAME * 2)
    assert readable(own) == {0, 1}
    pd.testing.assert_frame_equal(own.get(1), FRAME * 2)
    assert not (mine / foreign.name).exists()


def test_a_store_that_was_opened_earlier_leaves_nothing_that_counts(tmp_path: Path) -> None:
    earlier = BatchStore(tmp_path, {"seed": 1})
    later = BatchStore(tmp_path, {"seed": 2}, replace=True)
    later.put(0, FRAME)
    earlier.put(1, FRAME)
    assert readable(later) == {0}
    assert readable(earlier) == {1}
    assert readable(BatchStore(tmp_path, {"seed": 2})) == {0}


def test_the_same_frame_has_another_name_in_another_run(tmp_path: Path) -> None:
    names = []
    for seed in (1, 1, 2):
        store = BatchStore(tmp_path / str(len(names)), {"seed": seed})
        store.put(0, FRAME)
        names.append(next(store.folder.glob("*.parquet")).name)
    assert names[0] == names[1] != names[2]


# ---- the result is saved before the batches go --------------------------------------------


def test_batches_outlive_a_result_that_cannot_be_saved(study: Study, tmp_path: Path) -> None:
    whole = study.into(tmp_path / "whole")
    out = tmp_path / "out"

    def full(*args: Any, **options: Any) -> Path:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        first = counted(patch, lambda: None)
        patch.setattr(run_folder, "store", full)
        with pytest.raises(OSError, match="No space left"):
            study.into(out)
    assert first[0] > 1
    assert len(list((out / "batches").glob("*.parquet"))) == first[0]
    assert (out / "batches" / FINGERPRINT).exists()
    assert not (out / "manifest.json").exists()
    with pytest.MonkeyPatch.context() as patch:
        again = counted(patch, lambda: None)
        curve = study.into(out)
    assert again == [0]
    pd.testing.assert_frame_equal(curve.frame, whole.frame)
    pd.testing.assert_frame_equal(Result.load(out).frames["curve"], whole.frames["curve"])
    assert not (out / "batches").exists()


def test_a_figure_that_fails_costs_no_batch(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fails(*args: Any) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "picture_bytes", fails)
        with pytest.raises(OSError, match="No space left"):
            study.into(tmp_path)
    calls = counted(monkeypatch, lambda: None)
    curve = study.into(tmp_path)
    assert calls == [0]
    assert {path.stem for path in tmp_path.glob("*.png")} == set(curve.figures())


# ---- figures and tables of one run --------------------------------------------------------


def test_nothing_of_another_study_stays_but_the_users_files(study: Study, tmp_path: Path) -> None:
    """A figure's name alone makes no file this library's."""
    earlier = study.into(tmp_path)
    assert (tmp_path / "cap_curve.png").exists()
    for name in ("notes.html", "training.png", "stable_rank.html", "matrices.csv"):
        (tmp_path / name).write_text("earlier", encoding="utf-8")
    rows = [row for row in slow.ROWS if row.get("subset") is None][3:]  # no mirrors
    rows += [{"text1": "x", "text2": "small sea", "score": 0.3}]
    curve = similarity_curve(slow.wrapped("BERT"), rows, layers=[0], controls=False, progress=False)
    drawn = set(curve.figures())
    assert drawn == {"similarity_curve", "similarity_by_layer"}
    write_result(tmp_path, curve, overwrite=True)
    assert {path.stem for path in tmp_path.glob("*.png")} == drawn | {"training"}
    assert {path.stem for path in tmp_path.glob("*.html")} == (
        drawn | {"report", "notes", "stable_rank"}
    )
    tables = {"curve", "by_layer", "outcomes", "layer_cosines", "clean"}
    assert {path.stem for path in tmp_path.glob("*.csv")} == tables | {"matrices"}
    assert Result.load(tmp_path).config["study"] == "similarity"
    study.into(tmp_path, overwrite=True)
    assert {path.stem for path in tmp_path.glob("*.png")} == set(earlier.figures()) | {"training"}
    for name in ("notes.html", "training.png", "stable_rank.html", "matrices.csv"):
        assert (tmp_path / name).read_text(encoding="utf-8") == "earlier"


@pytest.mark.parametrize("name", ["clean.csv", "result.json", "report.html", "FIGURE.png"])
def test_a_users_file_is_refused_before_work_starts(
    study: Study, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = name.replace("FIGURE", "cap_curve")
    mine = {name: b"mine", "notes.html": b"mine", "training.png": b"mine"}
    for each, data in mine.items():
        (tmp_path / each).write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        calls = counted(patch, lambda: None)
        printed = refused([*study.command, "--out", str(tmp_path)], capsys)
    assert calls == [0]
    assert f"has {name}, which no run of interp_compose wrote there" in printed
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == mine
    study.into(tmp_path, overwrite=True)
    assert Result.load(tmp_path).config["study"] == study.command[0]
    assert (tmp_path / name).read_bytes() != b"mine"
    del mine[name]
    assert {each: (tmp_path / each).read_bytes() for each in mine} == mine


def test_a_figure_with_the_users_notes_is_not_drawn_over(study: Study, tmp_path: Path) -> None:
    figure = f"{next(iter(study.into(tmp_path).figures()))}.html"
    study.into(tmp_path)
    (tmp_path / figure).write_text("with notes", encoding="utf-8")
    with pytest.raises(InputError, match=rf"has {figure}, which .* changed since"):
        study.into(tmp_path)
    assert (tmp_path / figure).read_text(encoding="utf-8") == "with notes"


def test_one_process_at_a_time(study: Study, tmp_path: Path) -> None:
    """Here a thread."""
    refusals = []

    def other() -> None:
        try:
            study.into(tmp_path)
        except OutputError as refusal:
            refusals.append(str(refusal))

    def meanwhile() -> None:
        if not refusals:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    with pytest.MonkeyPatch.context() as patch:
        counted(patch, meanwhile)
        study.into(tmp_path)
    assert len(refusals) == 1
    assert refusals[0].startswith(f"another process is writing to {tmp_path}; wait until")
    assert not list(tmp_path.glob(".*"))


def test_a_result_that_appears_during_the_run_is_not_replaced(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = study.into(tmp_path / "other", layers=(1,))
    figure = next(iter(other.figures()))

    def meanwhile() -> None:
        if not (out / "manifest.json").exists():
            other.save(out)
            (out / f"{figure}.png").write_bytes(b"theirs")

    with pytest.MonkeyPatch.context() as patch:
        calls = counted(patch, meanwhile)
        with pytest.raises(InputError, match=r"result of another run: layers was \[1\], is now"):
            study.into(out)
    assert calls[0] > 1
    assert Result.load(out).config["layers"] == [1]
    assert (out / f"{figure}.png").read_bytes() == b"theirs"
    assert len(list((out / "batches").glob("*.parquet"))) == calls[0]
    assert study.into(out, overwrite=True).config["layers"] == [0]
    assert Result.load(out).config["layers"] == [0]


# ---- options of the wrong kind ------------------------------------------------------------


# ---- the command line ---------------------------------------------------------------------


def refused(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main(command)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_labels_with_nothing_after_them_are_refused(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    given = [*study.command, "--unit", "constituent", "--out", str(out), "--labels"]
    assert "labels" in refused(given, capsys)
    assert not out.exists()
