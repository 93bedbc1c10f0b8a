"""Sweeps in this process: what is kept, done again, refused and reported."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from interp_compose._versions import environment_versions
from interp_compose.errors import (
    CorruptFileError,
    InputError,
    MissingDataError,
    OptionError,
    OutputError,
)
from interp_compose.runs import folder as sweep_folder
from interp_compose.runs.folder import FORMAT, SweepPlan, hashed, register, versions_of
from interp_compose.runs.sweep import _why, run_sweep, sweep_status
from interp_compose.runs.workers import PROGRESS, Progress
from tests.training.sweep_jobs import JOBS, events, sweep

CONFIGS = [{"n": n, "kind": {"depth": [n, None]}} for n in (3, 5, 2)]


def begun(ledger: Path) -> dict[int, int]:
    return {n: len(pids) for n, pids in events(ledger, "begin").items()}


def states(out: Path) -> list[str]:
    return sweep_status(out)["state"].tolist()


def test_each_configuration_is_done_and_not_again(tmp_path: Path, ledger: Path) -> None:
    out = tmp_path / "out"
    first = sweep(out, CONFIGS)
    results = [json.loads((folder / "result.json").read_text()) for folder in first.folders]
    assert results == [{"square": 9}, {"square": 25}, {"square": 4}]
    assert first.failed == {}
    about = json.loads((first.folders[0] / "config.json").read_text())
    asked = {"format": FORMAT, "work": f"{JOBS}:square", "config": CONFIGS[0]}
    assert about == {**asked, "versions": environment_versions()}
    assert sweep(out, CONFIGS) == first
    assert begun(ledger) == {3: 1, 5: 1, 2: 1}


def test_a_folder_is_named_by_what_is_run(tmp_path: Path, ledger: Path) -> None:
    """16 digits of the SHA-256 of the canonical JSON, worked out here by other means."""
    run = sweep(tmp_path / "out", [{"b": 1.5, "n": 2}])
    text = f'{{"config": {{"b": 1.5, "n": 2}}, "format": "{FORMAT}", "work": "{JOBS}:square"}}'
    digest = subprocess.run(["sha256sum"], input=text.encode(), capture_output=True, check=True)
    assert run.folders[0].name == digest.stdout[:16].decode()


LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUE = st.recursive(
    LEAF | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def turned(value: Any) -> Any:
    """The same, every dictionary from back to front."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=50)
@given(st.dictionaries(st.text(max_size=5), VALUE, max_size=4), st.text(max_size=5))
def test_a_hash_sees_values_but_no_order(config: dict[str, Any], key: str) -> None:
    assert hashed(turned(config)) == hashed(config) == hashed(json.loads(json.dumps(config)))
    assert hashed({**config, key: "one"}) != hashed({**config, key: "two"})


def test_order_is_no_matter_and_more_can_be_asked_for(tmp_path: Path, ledger: Path) -> None:
    out = tmp_path / "out"
    first = sweep(out, CONFIGS[:2])
    second = sweep(out, [turned(config) for config in reversed(CONFIGS)])
    assert second.folders[:0:-1] == first.folders
    assert begun(ledger) == {3: 1, 5: 1, 2: 1}
    status = sweep_status(out)
    assert status["n"].tolist() == [3, 5, 2]  # in the order in which they were first asked for
    assert [out / "runs" / name for name in status["hash"]] == [*first.folders, second.folders[0]]


def test_runs_are_found_under_their_name_when_the_function_has_moved(
    tmp_path: Path, ledger: Path
) -> None:
    first = sweep(tmp_path, CONFIGS, name="squares")
    assert sweep(tmp_path, CONFIGS, "moody", name="squares") == first
    assert begun(ledger) == {3: 1, 5: 1, 2: 1}
    assert json.loads((tmp_path / "sweep.json").read_text())["work"] == "squares"
    with pytest.raises(InputError, match="holds a sweep of 'squares', not of '.*:square'"):
        sweep(tmp_path, CONFIGS)


def test_a_table_of_the_sweep(tmp_path: Path, ledger: Path) -> None:
    out = tmp_path / "out"
    configs = [{"n": 1, "seconds": 0.02}, {"n": 4, "mood": "raise"}, {"n": 7, "state": "odd"}]
    with pytest.warns(UserWarning, match="1 of 2 runs failed, the first of them 1: ValueError: a"):
        sweep(out, configs[:2], "moody")
    register(out, SweepPlan(f"{JOBS}:moody", configs, None))
    status = sweep_status(out)
    own = ["index", "hash", "state", "seconds"]
    assert status.columns.tolist() == [*own, "n", "config.seconds", "mood", "config.state"]
    assert status["state"].tolist() == ["done", "failed", "missing"]
    assert status["seconds"][0] >= 0.02
    assert status["seconds"].isna().tolist() == [False, True, True]
    runs = SweepPlan(f"{JOBS}:moody", configs, None).runs(out)
    claim = runs[2].take()
    assert claim is not None
    assert states(out) == ["done", "failed", "running"]
    assert runs[2].take() is None
    claim.release()
    assert states(out) == ["done", "failed", "missing"]


def test_a_run_that_raises_is_recorded_and_tried_again(tmp_path: Path, ledger: Path) -> None:
    out = tmp_path / "out"
    configs = [{"n": 1, "mood": "raise"}, {"n": 2, "mood": "exit"}, {"n": 3}]
    for times in (1, 2):
        with pytest.warns(UserWarning, match="2 of 3 runs failed.*FAILED.*call again"):
            bad = sweep(out, configs, "moody")
        assert bad.failed == {0: "ValueError: a bad day", 1: "SystemExit: enough"}
        assert "Traceback" in (bad.folders[0] / "FAILED").read_text()
        assert states(out) == ["failed", "failed", "done"]
        assert begun(ledger) == {1: times, 2: times, 3: 1}
    (ledger / "mended").touch()
    assert sweep(out, configs, "moody").failed == {}
    assert states(out) == ["done"] * 3
    assert begun(ledger)[3] == 1
    assert not list(out.rglob("FAILED"))


def test_ctrl_c_ends_the_call_and_leaves_the_rest_to_the_next(tmp_path: Path, ledger: Path) -> None:
    out = tmp_path / "out"
    configs = [{"n": 1}, {"n": 2, "mood": "interrupt"}, {"n": 3}]
    with pytest.raises(KeyboardInterrupt):
        sweep(out, configs, "moody")
    assert states(out) == ["done", "missing", "missing"]
    (ledger / "mended").touch()
    sweep(out, configs, "moody")
    assert states(out) == ["done"] * 3
    assert begun(ledger) == {1: 1, 2: 2, 3: 1}


def test_what_a_killed_attempt_left_is_gone_on_from(tmp_path: Path, ledger: Path) -> None:
    """Its files stay, for the run to resume from; what atomic_write had not yet renamed goes."""
    out = tmp_path / "out"
    folder = SweepPlan(f"{JOBS}:square", CONFIGS, None).runs(out)[1].folder
    (folder / "checkpoints").mkdir(parents=True)
    torn = f".interp_compose.{'0' * 16}.tmp"
    (folder / "checkpoints" / torn).write_text("half")
    (folder / "checkpoints/step").write_text("whole")
    (folder / "result.json").write_text('{"squ')
    (folder / torn).write_text('{"for')
    (folder / f"{torn}.d").mkdir()
    (folder / f"{torn}.d/weights").write_text("half")
    (out / torn).write_text('{"for')
    done = sweep(out, CONFIGS)
    assert json.loads((folder / "result.json").read_text()) == {"square": 25}
    assert done.folders[1] == folder
    vouched = json.loads((folder / "DONE").read_text())["files"]
    assert set(vouched) == {"config.json", "result.json", "checkpoints/step"}
    assert not list(out.rglob("*.tmp*"))


def test_exchanged_run_folders_are_noticed(tmp_path: Path, ledger: Path) -> None:
    """Every file has its checksum, and yet each folder holds the other run."""
    out = tmp_path / "out"
    done = sweep(out, CONFIGS)
    before = [(folder / "result.json").read_bytes() for folder in done.folders]
    one, other = done.folders[0], done.folders[2]
    one.rename(out / "aside")
    other.rename(one)
    (out / "aside").rename(other)
    assert states(out) == ["damaged", "done", "damaged"]
    with pytest.warns(UserWarning, match="holds another run, put there after its run was done"):
        sweep(out, CONFIGS)
    assert [(folder / "result.json").read_bytes() for folder in done.folders] == before
    assert begun(ledger) == {3: 2, 5: 1, 2: 2}


@pytest.mark.parametrize("name", ["sweep.json", "DONE"])
@pytest.mark.parametrize("text", ["[]\n", '{\n  "a": 1\n}\n'])
def test_json_of_another_kind_in_its_place(
    tmp_path: Path, ledger: Path, name: str, text: str
) -> None:
    out = tmp_path / "out"
    folder = sweep(out, CONFIGS).folders[0]
    path = out / name if name == "sweep.json" else folder / name
    path.write_text(text)
    if name == "sweep.json":
        with pytest.raises(CorruptFileError, match=r"sweep.json is truncated or was altered"):
            sweep(out, CONFIGS)
    else:
        with pytest.warns(UserWarning, match="DONE was truncated or altered after its run"):
            sweep(out, CONFIGS)
    assert (folder / "result.json").exists()


def test_a_run_says_with_which_versions_it_was_done(
    tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = sweep(tmp_path, CONFIGS)
    versions = [versions_of(folder) for folder in done.folders]
    assert versions == [environment_versions()] * 3
    other = {**environment_versions(), "torch": "1.0"}
    monkeypatch.setattr(sweep_folder, "environment_versions", lambda: other)
    (done.folders[1] / "DONE").unlink()
    sweep(tmp_path, CONFIGS)
    versions[1] = other
    assert [versions_of(folder) for folder in done.folders] == versions


@pytest.mark.parametrize("damage", ["edited", "lost", "config edited", "DONE cut", "DONE edited"])
def test_a_damaged_run_is_reported_and_done_again(
    tmp_path: Path, ledger: Path, damage: str
) -> None:
    out = tmp_path / "out"
    folder = sweep(out, CONFIGS).folders[0]
    (folder / "my notes").write_text("keep this")
    name = {"config edited": "config.json", "lost": "result.json", "edited": "result.json"}.get(
        damage, "DONE"
    )
    path = folder / name
    if damage == "lost":
        path.unlink()
    elif damage == "DONE cut":
        path.write_bytes(path.read_bytes()[:-3])
    else:
        path.write_text(path.read_text().replace("9", "8").replace("3", "4").replace(" ", "  "))
    assert states(out) == ["damaged", "done", "done"]
    what = "missing" if damage == "lost" else "truncated or altered"
    with pytest.warns(UserWarning, match=rf"{re.escape(str(path))} (was|is) {what} after its run"):
        sweep(out, CONFIGS)
    assert json.loads((folder / "result.json").read_text()) == {"square": 9}
    assert (folder / "my notes").read_text() == "keep this"
    assert states(out) == ["done"] * 3
    assert begun(ledger) == {3: 2, 5: 1, 2: 1}


def test_files_that_nobody_vouched_for_may_come_and_go(tmp_path: Path, ledger: Path) -> None:
    folder = sweep(tmp_path / "out", CONFIGS).folders[0]
    (folder / "notes").write_text("a note")
    (folder / "log.txt").write_text("")
    sweep(tmp_path / "out", CONFIGS)
    assert begun(ledger)[3] == 1


def test_a_run_that_is_held_elsewhere_is_waited_for(tmp_path: Path, ledger: Path) -> None:
    """The holder finishes it while this call sleeps, and this call does not do it."""
    out = tmp_path / "out"
    run = SweepPlan(f"{JOBS}:square", CONFIGS, None).runs(out)[0]
    claim = run.take()
    assert claim is not None

    def end() -> None:
        claim.finish(1.25)
        claim.release()

    timer = Timer(0.3, end)
    timer.start()
    sweep(out, CONFIGS)
    timer.join()
    assert begun(ledger) == {5: 1, 2: 1}
    assert sweep_status(out)["seconds"][0] == 1.25


def test_a_work_cannot_change_its_configuration(tmp_path: Path, ledger: Path) -> None:
    done = sweep(tmp_path / "out", CONFIGS, "meddling")
    assert done.configs == CONFIGS
    about = json.loads((done.folders[0] / "config.json").read_text())
    assert about["config"] == CONFIGS[0]


def test_many_at_once(tmp_path: Path, ledger: Path) -> None:
    """Batches of what is missing: 7 runs of which one is done are 3 + 3, not 3 + 3 + 1."""
    out = tmp_path / "out"
    configs = [{"n": n} for n in range(7)]
    sweep(out, configs[1:2], "squares", together=3)
    sweep(out, configs, "squares", together=3)
    batches = sorted(json.loads(path.read_text()) for path in ledger.glob("batch*"))
    assert batches == [[0, 2, 3], [1], [4, 5, 6]]
    assert states(out) == ["done"] * 7
    bad = [{"n": 7}, {"n": 8, "raise": True}, {"n": 9}]
    with pytest.warns(UserWarning, match="2 of 3 runs failed"):
        run = sweep(out, bad, "squares", together=2)
    assert run.failed == dict.fromkeys((0, 1), "ValueError: one of them is bad")


def test_a_bar_counts_done_running_and_failed(
    tmp_path: Path,
    ledger: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("interp_compose.runs.workers.COUNTING", 0)
    configs = [{"n": 1}, {"n": 2, "mood": "raise"}]
    with pytest.warns(UserWarning, match="1 of 2 runs failed"):
        run_sweep(f"{JOBS}:moody", configs, tmp_path / "out")
    shown = capsys.readouterr().err
    assert "0/2" in shown
    assert "done=1, running=1, failed=0" in shown
    assert "2/2" in shown
    assert "done=1, running=0, failed=1" in shown
    sweep(tmp_path / "other", CONFIGS)
    assert "done=" not in capsys.readouterr().err


def test_a_run_that_another_call_begins_again_is_waited_for(tmp_path: Path, ledger: Path) -> None:
    configs = [{"n": 1}, {"n": 2, "mood": "raise"}]
    with pytest.warns(UserWarning, match="1 of 2 runs failed"):
        sweep(tmp_path / "out", configs, "moody")
    runs = SweepPlan(f"{JOBS}:moody", configs).runs(tmp_path / "out")
    bar = Progress(runs, progress=False)
    assert bar.left == []
    (runs[1].folder / "FAILED").unlink()
    bar.count()
    assert bar.left == [runs[1]]
    assert _why(runs[1]) == "another call has begun it again"


def test_the_bar_moves_with_the_work_of_the_runs_at_hand(
    tmp_path: Path,
    ledger: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("interp_compose.runs.workers.REDRAW", 0.0)
    run_sweep(f"{JOBS}:reporting", [{"n": n} for n in range(3)], tmp_path / "out", together=3)
    shown = capsys.readouterr().err
    places = [shown.index(place) for place in ("0/3", "0.75/3", "2.25/3", "3/3 [")]
    assert places == sorted(places)
    assert PROGRESS.get()(0.5) is None  # outside of a sweep nobody listens


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "none": ({"configs": []}, InputError, "configs is empty; expected at least one"),
    "equal": (
        {"configs": [{"a": 1, "b": 2}, {"a": 2}, {"b": 2, "a": 1}]},
        InputError,
        "configs[0] and configs[2] are equal: {'b': 2, 'a': 1}; leave one out",
    ),
    "NaN": ({"configs": [{"n": 1}, {"n": float("nan")}]}, InputError, "configs[1] {'n': nan} can"),
    "path": ({"configs": [{"n": Path("x")}]}, InputError, "cannot be kept as JSON"),
    "where": ({"where": "there"}, OptionError, "where='there'; expected one of 'here', 'wor"),
    "workers": ({"where": "workers", "workers": 0}, OptionError, "workers=0: expected an integer"),
    "together": ({"together": 0}, OptionError, "together=0: expected an integer, 1 or more"),
    "workers here": ({"workers": 2}, OptionError, "workers=2 with where='here'; choose where="),
    "jobs": ({"where": "slurm"}, OptionError, "say how many jobs may run at a time"),
    "slurm": ({"slurm": {"time": 5}}, OptionError, "with where='here'; choose where='slurm'"),
    "no colon": ({"work": "math"}, InputError, "work='math': expected 'module:function'"),
    "script": ({"work": "__main__:f"}, InputError, "that other processes can import"),
    "module": ({"work": "no_such:f"}, InputError, "cannot be imported (No module named 'no_such"),
    "name": ({"work": "math:squirt"}, InputError, "work='math:squirt' cannot be imported"),
    "no function": ({"work": f"{JOBS}:not_a_function"}, InputError, "is 3; expected a function"),
}


@pytest.mark.parametrize("case", BAD)
def test_refused_before_anything_is_written(tmp_path: Path, case: str) -> None:
    options, error, message = BAD[case]
    given = {"work": f"{JOBS}:square", "configs": [{"n": 1}], **options}
    with pytest.raises(error, match=re.escape(message)):
        run_sweep(given.pop("work"), given.pop("configs"), tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_sweep_is_refused(tmp_path: Path, ledger: Path) -> None:
    out = tmp_path / "out"
    sweep(out, CONFIGS)
    with pytest.raises(InputError, match="holds a sweep of '.*:square', not of '.*:moody'; choose"):
        sweep(out, CONFIGS, "moody")
    file = out / "sweep.json"
    text = file.read_text()
    file.write_text(text.replace(FORMAT, "interp_compose.sweep/0"))
    for call in (lambda out: sweep(out, CONFIGS), sweep_status):
        with pytest.raises(InputError, match="in the format 'interp_compose.sweep/0', not 'int"):
            call(out)
    file.write_text(text[:-9])
    for call in (lambda out: sweep(out, CONFIGS), sweep_status):
        with pytest.raises(CorruptFileError, match="delete this one file and run the sweep again"):
            call(out)
    file.unlink()
    sweep(out, CONFIGS)
    assert begun(ledger) == {3: 1, 5: 1, 2: 1}


def test_a_table_of_no_sweep(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="sweep.json is missing; expected the folder of a s"):
        sweep_status(tmp_path)


def test_a_file_in_a_runs_place_is_named(tmp_path: Path, ledger: Path) -> None:
    folder = sweep(tmp_path / "there", CONFIGS[:1]).folders[0]
    in_its_place = tmp_path / "out" / "runs" / folder.name
    in_its_place.parent.mkdir(parents=True)
    in_its_place.write_text("a file")
    with pytest.raises(
        OutputError, match=f"{folder.name} cannot be written .File exists.*Remove that file"
    ):
        sweep(tmp_path / "out", CONFIGS[:1])
