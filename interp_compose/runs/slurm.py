"""Workers of a sweep as jobs of a cluster, through submitit.

submitit (the extra ``sweeps``) writes the batch script, submits it and asks for the job's state.
What the job runs is :mod:`interp_compose.runs.workers` and not submitit's own runner: so
nothing is pickled, and jobs start where ``setuptools`` 82 and later is installed, without the
``pkg_resources`` that submitit 1.5.3's runner imports.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from interp_compose.errors import MissingPackageError, OptionError
from interp_compose.runs.files import make_folder
from interp_compose.runs.workers import STOP_SECONDS, Files, search_path, worker_command


class Cluster:
    """Where jobs are submitted, and with which options.

    ``options`` are those of submitit's ``SlurmExecutor`` (``time`` in minutes, ``partition``,
    ``mem``, ``gpus_per_node``, ``cpus_per_task``, ``setup``, …), and ``cluster``: "slurm", or
    "local" to try a sweep through submitit's ``LocalExecutor`` on this machine. A job is one task;
    each is a worker.

    Raises:
        MissingPackageError: submitit is not installed.
        OptionError: this is no SLURM cluster, or an option is not known to it.
    """

    def __init__(self, out: Path, plan: Path, options: Mapping[str, Any]) -> None:
        try:
            submitit = import_module("submitit")
        except ImportError as error:
            raise MissingPackageError(
                "submitit is not installed; get it with: pip install 'interp-compose[sweeps]', or "
                "choose where='workers'"
            ) from error
        settings = dict(options)
        name = settings.pop("cluster", "slurm")
        executors = {"slurm": submitit.SlurmExecutor, "local": submitit.LocalExecutor}
        if name not in executors:
            raise OptionError(f"slurm['cluster']={name!r}: expected one of {', '.join(executors)}")
        self._out, self._plan, self._late = out, plan, name == "slurm"
        folder = make_folder(out / "jobs")
        try:
            self._executor: Any = executors[name](folder)
            self._executor.update_parameters(**settings)
        except (RuntimeError, TypeError, ValueError) as error:
            raise OptionError(
                f"slurm={dict(options)!r} was refused by submitit's {name} executor: {error}"
            ) from error

    def start(self) -> Job:
        """Submit one more worker."""
        files = Files.of_new_worker(self._out)
        command = [
            "env",
            f"PYTHONPATH={search_path()}",
            *worker_command(self._plan, files.state, 0),
        ]
        # The one protected name of submitit: its public `submit` would start its own runner.
        job = self._executor._submit_command(shlex.join(command))
        return Job(files, job, late=self._late)


class Job:
    """A worker that submitit submitted; it lives on when this process dies."""

    def __init__(self, files: Files, job: Any, *, late: bool) -> None:
        self._job, self._late = job, late
        self.files = replace(files, log=Path(job.paths.stderr))

    def alive(self) -> bool:
        """Whether it is in the queue or running; a cluster may know of the end minutes late."""
        if self._late and not self.files.state.exists():
            return False
        return not self._job.done()

    def how(self) -> str:
        return f"job {self._job.job_id}, {self._job.state}"

    def stop(self) -> None:
        """Cancel it, and wait a little for it to end."""
        if self.alive():
            self._job.cancel(check=False)
        until = time.monotonic() + STOP_SECONDS
        while self.alive() and time.monotonic() < until:
            time.sleep(0.05)
