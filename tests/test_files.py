"""One writer, one lock, one reader of JSON: what the disk refuses, what a killed process leaves."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from interp_compose import cli
from interp_compose._versions import environment_versions, gathered_versions, mixed_versions
from interp_compose.errors import (
    CorruptFileError,
    DataFormatError,
    InputError,
    InterpComposeError,
    MissingDataError,
    OutputError,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.models.weights import load_weights, save_weights
from interp_compose.papers.complexity.models.small_decoder import save_decoder, small_decoder
from interp_compose.papers.shared.models.decoder import DecoderConfig
from interp_compose.runs import files as _files
from interp_compose.runs.batches import BatchStore
from interp_compose.runs.checkpoint import CheckpointFolder
from interp_compose.runs.checksums import check_sums
from interp_compose.runs.files import (
    atomic_write,
    check_writable,
    file_sha256,
    json_value,
    locked,
    make_folder,
    read_json,
    remove_stale,
    temporary_folder,
    write_safetensors,
)
from interp_compose.runs.growing import GrowingFile, read_growing
from interp_compose.runs.result import Result, store
from interp_compose.runs.sweep import run_sweep
from interp_compose.studies.cap.result import CapCurve
from interp_compose.studies.core.output import check_folder
from interp_compose.studies.watch.result import Watched
from interp_compose.tasks.examples import read_examples
from interp_compose.tasks.pairs import read_pairs
from interp_compose.tasks.rows import jsonl_rows
from interp_compose.training.history import Recorder, check_history, read_history
from tests.training.sweep_jobs import JOBS

STALE = f".interp_compose.{'0' * 16}.tmp"
ROW = {"table": "evaluations", "step": 1, "accuracy": 0.5, "loss": 1.0, "n": 2}


# ---- what the disk refuses -----------------------------------------------------------------------


def tiny(seed: int = 0) -> LensModel:
    shape = DecoderConfig(d_vocab=5, n_ctx=4, n_layers=1, d_model=4, d_mlp=4)
    return small_decoder(shape, init_rate=0.5, seed=seed)


WRITERS: dict[str, Callable[[Path], object]] = {
    "file": lambda folder: atomic_write(folder / "file", b"data"),
    "result": lambda folder: Result({}, {}, {}).save(folder),
    "batch": lambda folder: BatchStore(folder, {}),
    "weights": lambda folder: save_weights(tiny(), folder / "w.safetensors"),
    "decoder": lambda folder: save_decoder(tiny(), folder / "model"),
    "checkpoint": lambda folder: CheckpointFolder(folder, {}).save(1, {"x": torch.ones(2)}, {}),
    "history": lambda folder: Recorder(folder / "history.jsonl").restart([]),
    "sweep": lambda folder: run_sweep(f"{JOBS}:square", [{"n": 1}], folder, progress=False),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_disk_that_refuses_is_a_typed_error(
    writer: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ledger").mkdir()
    monkeypatch.setenv("SWEEP_LEDGER", str(tmp_path / "ledger"))
    (tmp_path / "mine.txt").write_text("mine")

    def refuse(*args: Any, **options: Any) -> Any:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises((OutputError, InputError), match=os.strerror(number)) as refusal:
            WRITERS[writer](tmp_path)
    assert isinstance(refusal.value, InterpComposeError)
    assert not [path for path in tmp_path.rglob("*") if ".tmp" in path.name]
    WRITERS[writer](tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    ("name", "why"), [("x" * 300, "too long"), ("a\0b", "null"), ("mine.txt/sub", "Not a dir")]
)
def test_a_folder_that_cannot_be(writer: str, name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises((OutputError, InputError), match=why) as refusal:
        WRITERS[writer](tmp_path / name)
    assert len(str(refusal.value)) <= 500
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("name", "why"), [("mine.txt/sub", "Not a directory"), ("a\0b", "embedded null [a-z ]+")]
)
def test_why_a_commands_folder_cannot_be_made(name: str, why: str, tmp_path: Path) -> None:
    """In the system's words, without its error number and the path once more."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=rf"cannot be made \({why}\); choose another --out"):
        check_folder(tmp_path / name, CapCurve, {}, overwrite=True)


@pytest.mark.parametrize("writer", ["file", "weights"])
def test_a_file_is_synced_before_it_is_renamed_and_its_folder_after(
    writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut may leave the name of a file without its bytes."""
    rename, done = os.replace, []

    def renamed(source: Any, target: Any) -> None:
        done.append(("renamed", os.stat(source).st_ino))
        rename(source, target)

    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(os, "fsync", lambda file: done.append(("synced", os.fstat(file).st_ino)))
    WRITERS[writer](tmp_path)
    folder = tmp_path.stat().st_ino
    files = list(dict.fromkeys(what for _, what in done if what != folder))
    assert sorted(files) == sorted(path.stat().st_ino for path in tmp_path.iterdir())
    assert done == [
        step for file in files for step in (("synced", file), ("renamed", file), ("synced", folder))
    ]


def test_a_full_disk_while_tensors_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """safetensors has an error of its own for it."""
    import safetensors.torch

    def full(*args: Any, **options: Any) -> None:
        raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr(safetensors.torch, "save_file", full)
        with pytest.raises(OutputError, match="No space left on device"):
            write_safetensors({"x": torch.ones(1)}, tmp_path, lambda sha: "x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("", "--out is empty"),
        ("x" * 300, "File name too long"),
        ("a\0b", "null"),
        ("mine.txt", "is a file"),
        ("mine.txt/sub", "Not a directory"),
    ],
)
@pytest.mark.parametrize("joined", [True, False])
def test_out_on_the_command_line(
    out: str,
    message: str,
    joined: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    given = [f"--out={out}"] if joined else ["--out", out]
    with pytest.raises(SystemExit) as stopped:
        cli.main(["weights", "--no-heads", "-q", *given])
    assert stopped.value.code == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert len(printed) < 600
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_without_permission_is_refused_before_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from interp_compose.studies.weights import measure as probe_measure

    def refuse(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if "x" in mode:
            raise PermissionError(errno.EACCES, "Permission denied")
        return open(path, mode, *args, **options)

    monkeypatch.setattr(_files, "open", refuse, raising=False)
    monkeypatch.setattr(probe_measure, "measure", None)  # would fail
    with pytest.raises(SystemExit):
        cli.main(["weights", "--no-heads", "-q", "--out", str(tmp_path)])
    assert "cannot be written (Permission denied)" in capsys.readouterr().err


# ---- what a killed process leaves ----------------------------------------------------------------


def test_stale_temporary_files_go_and_those_in_use_stay(tmp_path: Path) -> None:
    (tmp_path / STALE).write_bytes(b"half")
    (tmp_path / f"{STALE}.d").mkdir()
    (tmp_path / f"{STALE}.d" / ".tmpEIgr1p").write_bytes(b"safetensors' own")
    (tmp_path / ".notes.tmp").write_bytes(b"mine")
    with temporary_folder(tmp_path) as inside:
        (inside / "weights").write_bytes(b"half")
        remove_stale(tmp_path)
        assert (inside / "weights").exists()
        assert not (tmp_path / STALE).exists()
        assert not (tmp_path / f"{STALE}.d").exists()
        atomic_write(tmp_path / "file", b"data")
        assert (inside / "weights").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".notes.tmp", "file"]


def test_weights_can_be_read_by_others(tmp_path: Path) -> None:
    path = save_weights(tiny(), tmp_path / "w.safetensors")
    assert path.stat().st_mode == path.with_name("w.safetensors.sha256").stat().st_mode


# ---- one process at a time -----------------------------------------------------------------------

HOLDS = """
import sys
from pathlib import Path
from interp_compose.runs.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_is_refused_at_once_and_a_killed_one_is_not_waited_for(
    tmp_path: Path,
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    for seconds in (0.0, 0.01):
        with pytest.raises(OutputError, match="another process is writing to .*; wait until"):
            locked(tmp_path, wait=seconds).__enter__()
    holder.kill()
    holder.communicate()
    with locked(tmp_path), locked(tmp_path):  # again inside is no matter
        pass
    assert not list(tmp_path.iterdir())


def test_a_save_waits_for_another_one(tmp_path: Path) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with locked(tmp_path):
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(30)
    threading.Timer(0.2, leave.set).start()
    Result({"a": 1}, {}, {}).save(tmp_path)
    thread.join()
    assert Result.load(tmp_path).config == {"a": 1}


# ---- files that belong to a run ------------------------------------------------------------------


def test_weights_and_histories_of_another_run_are_refused(tmp_path: Path) -> None:
    names = ("weights.safetensors", "weights.safetensors.sha256", "history.jsonl")
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        save_weights(tiny(seed), folder / names[0])
        GrowingFile(folder / names[2], [ROW | {"loss": seed + 0.5}])
        others: dict[str, bytes | str] = {n: _files.file_sha256(folder / n) for n in names}
        store(Result({"seed": seed}, {}, {}), folder, others)
        load_weights(tiny(9), folder / names[0])
        assert read_history(folder / names[2])["evaluations"]["loss"].tolist() == [seed + 0.5]
    for name in names:
        one, other = (tmp_path / seed / name for seed in "01")
        one.rename(tmp_path / "aside")
        other.rename(one)
        (tmp_path / "aside").rename(other)
    for seed in "01":
        with pytest.raises(CorruptFileError, match="or belongs to another run"):
            load_weights(tiny(9), tmp_path / seed / names[0])
        with pytest.raises(CorruptFileError, match="or belongs to another run"):
            read_history(tmp_path / seed / names[2])


# ---- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 200_000, "nested too deeply"),
        ('{"prompt": "a", "prompt": "b", "answer": "c"}', "'prompt' is there more than once"),
    ],
)
def test_json_that_no_reader_takes(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=why):
        json_value(text)
    with pytest.raises(CorruptFileError):
        read_json(path)
    for reader in (read_examples, lambda path: list(jsonl_rows(path))):
        with pytest.raises(DataFormatError, match=f"line 1 is not JSON .*{why}"):
            reader(path)


def test_checksums_that_are_not_utf_8(tmp_path: Path) -> None:
    model = tiny()
    path = save_weights(model, tmp_path / "w.safetensors")
    for data, why in ((b"\xff\xfe", "is not UTF-8"), (b"", "is truncated or altered")):
        path.with_name("w.safetensors.sha256").write_bytes(data)
        with pytest.raises(CorruptFileError, match=why):
            load_weights(model, path)
    (tmp_path / "SHA256SUMS").write_bytes(b"\xff\xfe")
    with pytest.raises(CorruptFileError, match="SHA256SUMS is not UTF-8"):
        check_sums(tmp_path / "SHA256SUMS")
    with pytest.raises(CorruptFileError, match="which has the checksums"):
        check_sums(tmp_path / "none.sha256")
    listing, sha256 = tmp_path / "SHA256SUMS", file_sha256(path)
    others = f"# somebody's list\n\n{sha256.upper()} *./{path.name}\n"
    listing.write_text(others)
    check_sums(listing)
    with pytest.raises(CorruptFileError, match="SHA256SUMS is truncated or altered"):
        check_sums(listing, [path.name])  # of one that this library writes, nothing else will do
    for text in (others.replace(sha256.upper(), "0" * 64), others + f"SHA256 (x) = {sha256}\n"):
        listing.write_text(text)
        with pytest.raises(CorruptFileError, match="truncated or altered"):
            check_sums(listing)


def test_a_new_file_that_is_taken_for_a_stale_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process locks it before its own does, and deletes it: another name is tried."""
    real, held = _files.lock_file, []

    def slow(path: Path) -> Any:
        if not held:
            held.append((real(path), path))
        return real(path)

    monkeypatch.setattr(_files, "lock_file", slow)

    def write(file: Any) -> None:
        lock, path = held[0]
        path.unlink()
        lock.release()
        file.write(b"whole")

    atomic_write(tmp_path / "f", write)
    assert (tmp_path / "f").read_bytes() == b"whole"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


# ---- files that grow ----------------------------------------------------------------------------

OWN = {"own": None}
ROWS: list[dict[str, Any]] = [
    {"table": "own", "a": i, "of": "W_Q", "x": i / 7, "none": None} for i in range(6)
]


def grown(path: Path, rows: Any = ROWS) -> list[bytes]:
    """Its lines."""
    file = GrowingFile(path, rows[:2])
    file.add(rows[2:4])
    for row in rows[4:]:
        file.add([row])
    return path.read_bytes().splitlines(keepends=True)


def test_rows_come_back_and_other_software_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert len(grown(path)) == 6
    assert read_growing(path, "it", OWN) == (ROWS, "")
    frame = pd.read_json(path, lines=True)
    assert frame["a"].tolist() == list(range(6))
    assert frame["line"].tolist() == [1, 2, 3, 4, 5, 6]
    assert frame["sha256"].nunique() == 6
    again = tmp_path / "again.jsonl"
    GrowingFile(again, read_growing(path, "it", OWN)[0])
    assert again.read_bytes() == path.read_bytes()  # however often it was appended to


def test_every_flipped_bit_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = grown(path, ROWS[:5])
    data, first = b"".join(lines), len(lines[0])
    for bit in range(first * 8, (first + len(lines[1])) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        with pytest.raises(CorruptFileError, match=r"rows.jsonl, line [23] is not a row of it as"):
            read_growing(path, "it", OWN)


ALTERED: dict[str, Callable[[list[bytes], list[bytes]], list[bytes]]] = {
    "deleted": lambda own, other: own[:2] + own[3:],
    "first deleted": lambda own, other: own[1:],
    "swapped": lambda own, other: [*own[:2], own[3], own[2], *own[4:]],
    "last two swapped": lambda own, other: [*own[:4], own[5], own[4]],
    "doubled": lambda own, other: [*own[:3], *own[2:]],
    "last doubled": lambda own, other: [*own, own[-1]],
    "another's line": lambda own, other: [*own[:2], other[2], *own[3:]],
    "another's end": lambda own, other: own[:3] + other[3:],
    "another's last": lambda own, other: own[:5] + other[5:],
    "another's after it": lambda own, other: own + other,
    "blank line": lambda own, other: [*own[:2], b"\n", *own[2:]],
    "other ends of lines": lambda own, other: [line.replace(b"\n", b"\r\n") for line in own],
    "zeros": lambda own, other: [*own, bytes(40) + b"\n"],
    "number edited": lambda own, other: [*own[:3], own[3].replace(b'"a": 3', b'"a": 4'), *own[4:]],
    "without checksums": lambda own, other: [b'{"a": 0}\n', *own[1:]],
    "not UTF-8": lambda own, other: [*own[:1], b"\xff\xfe\n", *own[1:]],
}


@pytest.mark.parametrize("name", ALTERED)
def test_altered_lines_are_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    other = grown(tmp_path / "other.jsonl", [*ROWS[:1], *({**row, "x": 0} for row in ROWS[1:])])
    path.write_bytes(b"".join(ALTERED[name](grown(path), other)))
    with pytest.raises(CorruptFileError, match=r"rows.jsonl, line \d is not a row of it as it was"):
        read_growing(path, "it", OWN)


def test_a_cut_file_is_what_was_written_before(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    data = b"".join(grown(path))
    for size in range(len(data)):
        path.write_bytes(data[:size])
        rows, note = read_growing(path, "it", OWN)
        whole = data[:size].count(b"\n")
        assert rows == ROWS[:whole]
        is_cut = size and data[size - 1 : size] != b"\n"
        assert note == (f"line {whole + 1}, which is cut, is left out" if is_cut else "")


def test_what_somebody_else_has_written_to_is_not_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    one = GrowingFile(path, ROWS[:1])
    other = GrowingFile(path, ROWS[:2])
    with pytest.raises(OutputError, match=r"rows.jsonl was moved, cut or written to since its"):
        one.add(ROWS[2:])
    other.add(ROWS[2:])
    assert read_growing(path, "it", OWN) == (ROWS, "")


def test_a_file_that_the_system_does_not_read(tmp_path: Path) -> None:
    link = tmp_path / "rows.jsonl"
    link.symlink_to("/proc/self/mem")
    for read in (Watched.read, read_history, read_examples, read_pairs, _files.read_json):
        with pytest.raises(InterpComposeError, match=r"rows.jsonl.* cannot be read \(Input/output"):
            read(link)


@pytest.mark.parametrize("text", ["notes\n", '{"a": 1}\n', "3\n", '{"table": "x"}\n', "[[\n"])
def test_a_file_that_is_no_history(text: str, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with pytest.raises(MissingDataError, match=r"no file .*history\.jsonl"):
        read_history(path)
    check_history(path)
    GrowingFile(path, [{"table": "steps"}])
    with pytest.raises(CorruptFileError, match="line 1 is not a row of a history as it was"):
        read_history(path)
    GrowingFile(path, [ROW])
    whole = path.read_text()
    path.write_text(whole + text)
    with pytest.raises(CorruptFileError, match="line 2 is not a row of a history"):
        read_history(path)
    with pytest.raises(InputError, match="what is there is none"):
        check_history(path)
    path.write_text(whole + text.strip())  # not whole yet
    assert len(read_history(path)["evaluations"]) == 1


# ---- provenance ----------------------------------------------------------------------------------


def test_versions_of_runs_that_agree_and_that_do_not() -> None:
    one = {"torch": "2.12", "python": "3.11", "platform": "a"}
    assert gathered_versions({"x": one, "y": one}) == one
    assert mixed_versions(one) == mixed_versions({}) == ""
    assert gathered_versions({"x": {}}) == {}
    other = {**one, "torch": "2.13"}
    found = gathered_versions({"x": one, "y": other, "z": {}})
    assert found["torch"] == "mixed: 2.12, 2.13, unknown"
    assert found["runs"] == {"x": one, "y": other, "z": {}}
    assert mixed_versions(found).startswith(
        "runs were made with several versions: torch 2.12, 2.13, unknown; python 3.11, unknown"
    )
    moved = gathered_versions({"x": one, "y": {**one, "platform": "b"}})
    assert moved["platform"] == "mixed: a, b"
    assert mixed_versions(moved) == ""  # another machine alone is no warning
    assert set(environment_versions()) >= {"torch", "python", "platform"}


def test_folders_are_made_and_probed(tmp_path: Path) -> None:
    check_writable(make_folder(tmp_path / "a" / "b"))
    assert not list((tmp_path / "a" / "b").iterdir())
