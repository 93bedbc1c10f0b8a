"""Workers on this machine and as submitit's jobs: they agree with one process, and may die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interp_compose.errors import InterpComposeError, MissingPackageError, OptionError
from interp_compose.runs.sweep import Sweep, run_sweep, sweep_status
from tests.training.sweep_jobs import events, sweep

PLACES = [
    pytest.param({"where": "workers", "workers": 2}, id="workers"),
    pytest.param(
        {"where": "slurm", "workers": 2, "slurm": {"cluster": "local"}},
        id="submitit",
    ),
]


def vouched(run: Sweep) -> list[dict[str, str]]:
    return [json.loads((folder / "DONE").read_text())["files"] for folder in run.folders]


@pytest.mark.parametrize("place", PLACES)
def test_workers_agree_with_one_process(
    tmp_path: Path, ledger: Path, place: dict[str, Any]
) -> None:
    configs = [{"n": n, "seconds": 0.03} for n in range(6)]
    here = sweep(tmp_path / "here", configs)
    there = sweep(tmp_path / "there", configs, **place)
    assert vouched(there) == vouched(here)
    assert [folder.name for folder in there.folders] == [folder.name for folder in here.folders]
    began = events(ledger, "begin")
    assert all(len(pids) == 2 and pids[0] == os.getpid() != pids[1] for pids in began.values())
    assert (there.folders[4] / "log.txt").read_text() == "squaring 4\n"
    assert not list(tmp_path.glob("there/workers/*"))
    sweep(tmp_path / "there", configs, **place)  # nothing is missing, and nobody starts
    assert events(ledger, "begin") == began


def test_batches_of_workers(tmp_path: Path, ledger: Path) -> None:
    configs = [{"n": n} for n in range(5)]
    run = sweep(tmp_path / "out", configs, "squares", where="workers", workers=1, together=4)
    assert run.failed == {}
    assert json.loads((ledger / "batch0").read_text()) == [0, 1, 2, 3]
    assert "squaring 3" in (run.folders[0] / "log.txt").read_text()
    told = (run.folders[3] / "log.txt").read_text()
    assert told == f"done together with {run.folders[0].name}: see {run.folders[0] / 'log.txt'}\n"


def test_a_worker_has_one_thread_and_this_process_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_jobs.py").write_text(
        "import os\n"
        "def see(config, folder):\n"
        "    seen = [os.environ[name] for name in ('OMP_NUM_THREADS', 'MINE')]\n"
        "    (folder / 'seen').write_text(' '.join(seen))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MINE", "kept")
    run = run_sweep("my_jobs:see", [{}], tmp_path / "out", where="workers", progress=False)
    assert (run.folders[0] / "seen").read_text() == "1 kept"


@pytest.mark.parametrize("place", PLACES)
def test_a_worker_that_dies_is_reported_and_replaced(
    tmp_path: Path, ledger: Path, place: dict[str, Any]
) -> None:
    configs = [{"n": 0, "mood": "die once"}, {"n": 1}, {"n": 2}]
    how = "exit status 7" if place["where"] == "workers" else "job [0-9]+, FINISHED"
    with pytest.warns(UserWarning, match=rf"(?s)a worker died \({how}\) during .*about to die"):
        run = sweep(tmp_path / "out", configs, "moody", **place)
    assert run.failed == {}
    assert [len(pids) for _, pids in sorted(events(ledger, "begin").items())] == [2, 1, 1]
    assert not list(tmp_path.glob("out/workers/*.state"))


def test_a_run_that_two_workers_died_of_is_given_up(tmp_path: Path, ledger: Path) -> None:
    configs = [{"n": 0, "mood": "die"}, {"n": 1}, {"n": 2, "mood": "raise"}]
    with pytest.warns(UserWarning, match="a worker died|2 of 3 runs failed") as warned:
        run = sweep(tmp_path / "out", configs, "moody", where="workers", workers=1)
    died = [str(one.message) for one in warned if "a worker died" in str(one.message)[:13]]
    assert len(died) == 2
    assert run.failed[0].startswith("2 workers died during this run. The last: a worker died (exit")
    assert run.failed[2] == "ValueError: a bad day"
    assert sweep_status(tmp_path / "out")["state"].tolist() == ["failed", "done", "failed"]
    (ledger / "mended").touch()
    assert sweep(tmp_path / "out", configs, "moody").failed == {}


def test_processes_that_a_dead_worker_left_behind_end(tmp_path: Path, ledger: Path) -> None:
    """They would go on writing into a folder that is now another worker's."""
    with pytest.warns(UserWarning, match="a worker died"):
        sweep(tmp_path / "out", [{}], "abandon", where="workers", workers=1)
    left = int((ledger / "child").read_text())
    status = Path(f"/proc/{left}/status")
    assert not status.exists() or "State:\tZ" in status.read_text()


def test_a_worker_starts_light() -> None:
    heavy = {"torch", "transformers", "scipy", "plotly", "matplotlib", "tqdm", "pandas"}
    module = "interp_compose.runs.workers"
    check = f"import {module}, sys; print({heavy!r} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"


def test_workers_that_never_take_up_a_run_end_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shy_jobs.py").write_text(
        "import sys\n"
        "if 'interp_compose.runs.sweep' not in sys.modules:\n"
        "    raise RuntimeError('not in a worker')\n"
        "def work(config, folder): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("interp_compose.runs.workers.MAX_FAILED_STARTS", 2)
    with (
        pytest.warns(UserWarning, match="a worker died .exit status 1. between runs"),
        pytest.raises(InterpComposeError, match="(?s)2 workers in a row died before.*not in a wor"),
    ):
        run_sweep(
            "shy_jobs:work", [{}], tmp_path / "out", where="workers", workers=1, progress=False
        )
    assert not list(tmp_path.glob("out/workers/*.state"))


def test_slurm_needs_submitit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingPackageError, match="pip install 'interp-compose.sweeps.', or"):
        sweep(tmp_path / "out", [{"n": 1}], where="slurm", workers=1)


BAD = {
    "cluster": ({"cluster": "cloud"}, "slurm['cluster']='cloud': expected one of slurm, local"),
    "no cluster": ({"time": 5}, "slurm={'time': 5} was refused by submitit's slurm executor: Cou"),
    "nodes": ({"cluster": "local", "nodes": 2}, "refused by submitit's local executor: LocalExec"),
}


@pytest.mark.parametrize("case", BAD)
def test_options_of_a_cluster_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without srun
    options, message = BAD[case]
    with pytest.raises(OptionError) as refused:
        sweep(tmp_path / "out", [{"n": 1}], where="slurm", workers=1, slurm=options)
    assert message in str(refused.value)


def test_a_batch_script_for_slurm(
    tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for SLURM runs the script at once; its options and its command are ours."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    stand_ins = {
        "srun": 'while [ "$1" != env ]; do shift; done; exec "$@"',
        "sbatch": f'cp "$1" {tmp_path}/script; bash "$1" &> {tmp_path}/printed & echo job 17',
        "sacct": "echo 'JobID|State|NodeList'; echo '17|RUNNING|here'",
        "scancel": f"echo $1 >> {tmp_path}/cancelled",
    }
    for name, line in stand_ins.items():
        path = bin_folder / name
        path.write_text(f"#!/bin/bash\n{line}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
    options = {"time": 90, "partition": "long", "gpus_per_node": 1}
    run = sweep(tmp_path / "out", [{"n": 6}], where="slurm", workers=1, slurm=options)
    assert json.loads((run.folders[0] / "result.json").read_text()) == {"square": 36}
    script = (tmp_path / "script").read_text()
    assert "#SBATCH --time=90\n" in script
    assert "#SBATCH --partition=long\n" in script
    assert "#SBATCH --gpus-per-node=1\n" in script
    assert "-m interp_compose.runs.workers" in script
    assert not (tmp_path / "cancelled").exists()  # it ended by itself, though sacct lags behind
    assert not list(tmp_path.rglob("*.pkl"))
