"""The folder of a sweep: a folder per configuration, locked while it is worked on, DONE last.

::

    out/
      sweep.json           the work, and every configuration given so far
      plans/<hash>.json    what one call hands to its workers
      workers/<name>.log   what a worker printed outside of its runs
      runs/<hash>/
        config.json        the configuration, the work it belongs to, and versions of packages
        lock               locked by the process that is at this run, and by no other
        log.txt            what a worker printed during this run
        …                  the run's own files
        DONE               seconds, and the SHA-256 of every file it vouches for; written last
        FAILED             the traceback of a run that raised

The lock is the kernel's: it goes with the process that holds it, however that process ends, so that
no lock is ever stale. On a cluster the file system has to honour ``flock`` between machines: NFS 4
does, Lustre where it is mounted with ``-o flock``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interp_compose._versions import environment_versions
from interp_compose.errors import CorruptFileError, InputError
from interp_compose.runs.checksums import damage_of, digest_of, digests_of
from interp_compose.runs.files import (
    atomic_write,
    disk,
    json_bytes,
    lock_file,
    locked,
    make_folder,
    plain_json,
    read_json,
    remove,
    remove_stale,
)

if TYPE_CHECKING:
    from filelock import BaseFileLock

FORMAT = "interp_compose.sweep/2"
REGISTERING = 20.0
"""Seconds to wait for another call that adds its runs to the same sweep."""
SWEEP = "sweep.json"
CONFIG, LOCK, LOG, DONE, FAILED = "config.json", "lock", "log.txt", "DONE", "FAILED"
DONE_KEYS = ("files", "seconds")
NOT_VOUCHED = {LOCK, LOG, DONE, FAILED}
RESUMABLE = (DONE, "*.parquet", "step_*.safetensors")
"""Of a study's folder, what an interrupted command goes on from: runs, batches, checkpoints."""


def resolve(work: str) -> Callable[..., object]:
    """The function that ``"module:function"`` names.

    Raises:
        InputError: there is none, or it lives in a script, which no other process can import.
    """
    module, _, name = work.partition(":")
    if not module or not name or module == "__main__":
        raise InputError(
            f"work={work!r}: expected 'module:function', of a module that other processes can "
            "import, such as 'my_package.my_module:my_function'"
        )
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"work={work!r} cannot be imported ({error}); expected 'module:function'"
        ) from error
    if not callable(function):
        raise InputError(f"work={work!r} is {function!r}; expected a function")
    return function  # type: ignore[no-any-return]


def hashed(value: Any) -> str:
    """16 hexadecimal digits of the SHA-256 of a value's canonical JSON; order of keys is no
    matter."""
    return digest_of(value)[:16]


@dataclass(frozen=True)
class Run:
    """One configuration of a sweep and its folder."""

    work: str
    config: Mapping[str, Any]
    folder: Path

    @property
    def name(self) -> str:
        """The hash that names the folder."""
        return self.folder.name

    @property
    def is_done(self) -> bool:
        return (self.folder / DONE).exists()

    @property
    def has_failed(self) -> bool:
        return (self.folder / FAILED).exists()

    @property
    def is_finished(self) -> bool:
        """Nothing is left to do in this call: it is done, or it raised."""
        return self.is_done or self.has_failed

    @property
    def is_held(self) -> bool:
        """Whether a process is at it. Asking takes the lock for an instant."""
        if not (self.folder / LOCK).exists():
            return False
        lock = lock_file(self.folder / LOCK)
        if lock is not None:
            lock.release()
        return lock is None

    @property
    def seconds(self) -> float | None:
        """How long the run took, of one that is done."""
        try:
            return float(read_json(self.folder / DONE, DONE_KEYS)["seconds"])
        except (FileNotFoundError, CorruptFileError):
            return None

    def claim(self) -> Claim | None:
        """This run's lock, or None where another process (or another claim of this one) has it.

        Raises:
            OutputError: the folder cannot be made or written to (a file is in its place), or the
                file system cannot lock files.
        """
        make_folder(self.folder)
        lock = lock_file(self.folder / LOCK)
        return None if lock is None else Claim(self, lock)

    def take(self) -> Claim | None:
        """A claim to do this run, or None where it is finished or another process is at it.

        What a killed attempt left stays there for the run to go on from, but for files that were
        only half written.
        """
        claim = self.claim()
        if claim is None:
            return None
        try:
            with disk(self.folder):
                os.utime(self.folder)  # a network file system then shows what others wrote in it
            if self.is_finished:
                claim.release()
                return None
            for inside in [self.folder, *filter(Path.is_dir, self.folder.rglob("*"))]:
                remove_stale(inside)
            metadata = {**self.metadata, "versions": environment_versions()}
            atomic_write(self.folder / CONFIG, json_bytes(metadata))
        except BaseException:
            claim.release()
            raise
        return claim

    @property
    def metadata(self) -> dict[str, Any]:
        """What its folder says of it, besides the versions."""
        return {"format": FORMAT, "work": self.work, "config": self.config}

    def damage(self) -> str:
        """What is wrong with a run that is done; an empty string where every file is as it was."""
        try:
            vouched: dict[str, str] = read_json(self.folder / DONE, DONE_KEYS)["files"]
        except CorruptFileError:
            return f"{self.folder / DONE} was truncated or altered"
        damage = damage_of(self.folder, vouched)
        if damage:
            return damage
        try:
            metadata = read_json(self.folder / CONFIG, ("config",)) if CONFIG in vouched else {}
        except CorruptFileError:
            metadata = {}
        if {key: metadata.get(key) for key in self.metadata} != plain_json(self.metadata, "config"):
            return f"{self.folder} holds another run, put there"
        return ""

    def files(self) -> dict[str, Path]:
        """The files that DONE vouches for, by their names within the folder."""
        paths = {path.relative_to(self.folder).as_posix(): path for path in self.folder.rglob("*")}
        return {
            name: path
            for name, path in sorted(paths.items())
            if path.is_file() and name not in NOT_VOUCHED
        }


def versions_of(folder: Path) -> dict[str, str]:
    """Versions of the packages that a run was done with; empty where its folder does not say."""
    try:
        versions: dict[str, str] = read_json(folder / CONFIG, ("config",)).get("versions", {})
    except (FileNotFoundError, CorruptFileError):
        return {}
    return versions


@dataclass
class Claim:
    """The exclusive right to work in a run's folder, until it is released or the process ends."""

    run: Run
    lock: BaseFileLock

    def finish(self, seconds: float) -> None:
        """Write DONE: from here on the run is never done again."""
        files = digests_of(self.run.folder, self.run.files())
        summary = {"format": FORMAT, "seconds": seconds, "files": files}
        atomic_write(self.run.folder / DONE, json_bytes(summary))

    def fail(self, why: str) -> None:
        """Write FAILED, with the traceback or whatever else there is to say."""
        atomic_write(self.run.folder / FAILED, why.encode())

    def reset(self) -> None:
        """Undo a run that is damaged: the files it vouched for go, DONE last; others stay."""
        try:
            vouched = read_json(self.run.folder / DONE, DONE_KEYS)["files"]
        except CorruptFileError:
            vouched = {}
        for name, path in self.run.files().items():
            if name in vouched:
                remove(path)
        remove(self.run.folder / DONE)

    def release(self) -> None:
        """Release the lock. Safe to call twice."""
        self.lock.release()


@dataclass(frozen=True)
class SweepPlan:
    """What one call of a sweep is to do, as its workers read it."""

    work: str
    """What the runs are called by: the function's own name, or one that stays when it moves."""
    configs: Sequence[Mapping[str, Any]]
    together: int | None = None
    """Configurations handed to one call of the work; None: one, and not in a list."""
    function: str = ""
    """Where the work is imported from."""

    def runs(self, out: Path) -> list[Run]:
        """A run per configuration, in order."""
        of = {"format": FORMAT, "work": self.work}
        return [
            Run(self.work, config, out / "runs" / hashed({**of, "config": config}))
            for config in self.configs
        ]

    def file(self, out: Path) -> Path:
        """Where it is kept: under a hash of its own, so that two calls do not share a file."""
        return out / "plans" / f"{hashed(asdict(self))}.json"


def read_plan(path: Path) -> SweepPlan:
    """A plan as :func:`register` left it."""
    return SweepPlan(**read_json(path, ("work", "configs", "together", "function")))


def read_sweep(out: Path) -> dict[str, Any] | None:
    """``sweep.json``, or None where the folder holds no sweep yet.

    Raises:
        CorruptFileError: it was damaged.
        InputError: it was written by another version of this library.
    """
    path = out / SWEEP
    if not path.exists():
        return None
    try:
        sweep: dict[str, Any] = read_json(path, ("format", "work", "configs"))
    except CorruptFileError as broken:
        raise CorruptFileError(
            f"{path} is truncated or was altered after it was written; delete this one file and "
            "run the sweep again: finished runs stay"
        ) from broken
    if sweep["format"] != FORMAT:
        raise InputError(
            f"{out} holds a sweep in the format {sweep['format']!r}, not {FORMAT!r}: it is read by "
            "the releases of interp_compose before 0.1.0 alone. Go on with one of them, or choose "
            "another folder"
        )
    return sweep


def register(out: Path, plan: SweepPlan) -> None:
    """Keep the plan, and note in ``sweep.json`` its configurations, behind those from before.

    Raises:
        OutputError: the folder cannot be written to.
        InputError: the folder holds a sweep of another work or format.
    """
    make_folder(out)
    with locked(out, wait=REGISTERING):
        remove_stale(out)
        remove_stale(out / "plans")
        sweep = read_sweep(out)
        if sweep is not None and sweep["work"] != plan.work:
            raise InputError(
                f"{out} holds a sweep of {sweep['work']!r}, not of {plan.work!r}; choose another "
                "folder"
            )
        known: list[Mapping[str, Any]] = [] if sweep is None else sweep["configs"]
        seen = {hashed(config) for config in known}
        new = [config for config in plan.configs if hashed(config) not in seen]
        if new or sweep is None:
            value = {"format": FORMAT, "work": plan.work, "configs": [*known, *new]}
            atomic_write(out / SWEEP, json_bytes(value))
        atomic_write(plan.file(out), json_bytes(asdict(plan)))
