"""Saved results come back whole or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from interp_compose._versions import environment_versions
from interp_compose.errors import CorruptFileError, InputError, MissingDataError
from interp_compose.runs.batches import BatchStore
from interp_compose.runs.files import atomic_write, file_sha256
from interp_compose.runs.result import Result, store

HARD_TEXT = ["plain", 'comma, "quote"\nnew line', "naïve 한국어 🙂", "", "</script>"]


@dataclass(frozen=True, eq=False, repr=False)
class Study(Result):
    pass


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "example": np.arange(5),
            "text": HARD_TEXT,
            "right": [True, False, True, True, False],
            "logprob": [-0.1, -1 / 3, math.nan, -1e-300, -12345.678901234567],
        }
    )


def result(seed: int = 42, **frames: pd.DataFrame) -> Study:
    config = {"model": "m", "layers": (0, 1), "nested": {"seed": seed}}
    return Study(config, frames or {"outcomes": table()}, {"python": "3"})


def test_round_trip_keeps_values_types_and_order(tmp_path: Path) -> None:
    empty = table().iloc[:0]
    saved = result(outcomes=table(), empty=empty)
    assert saved.save(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    loaded = Study.load(tmp_path / "a" / "b")
    assert loaded.config == saved.config == {"model": "m", "layers": [0, 1], "nested": {"seed": 42}}
    assert loaded.versions == {"python": "3"}
    assert list(loaded.frames) == ["outcomes", "empty"]
    pd.testing.assert_frame_equal(loaded.frames["outcomes"], table(), check_exact=True)
    pd.testing.assert_frame_equal(loaded.frames["empty"], empty.reset_index(drop=True))


def test_the_folder_holds_what_it_says(tmp_path: Path) -> None:
    result().save(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"result.json", "outcomes.parquet", "outcomes.csv", "manifest.json"}
    hashes = json.loads((tmp_path / "manifest.json").read_text())["files"]
    for name in names - {"manifest.json"}:
        data = (tmp_path / name).read_bytes()
        assert hashes[name] == hashlib.sha256(data).hexdigest() == file_sha256(tmp_path / name)
    csv = pd.read_csv(tmp_path / "outcomes.csv", keep_default_na=False, na_values={"logprob": [""]})
    pd.testing.assert_frame_equal(csv, table(), check_exact=True, check_dtype=False)


@pytest.mark.parametrize(
    "name", ["result.json", "outcomes.parquet", "outcomes.csv", "manifest.json"]
)
def test_any_flipped_bit_or_truncation_is_noticed(tmp_path: Path, name: str) -> None:
    result().save(tmp_path)
    path = tmp_path / name
    whole = path.read_bytes()
    rng = np.random.default_rng(5)
    places = range(len(whole)) if len(whole) < 700 else rng.choice(len(whole), 300, replace=False)
    for place in map(int, places):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError):
            Study.load(tmp_path)
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptFileError, match=name):
            Study.load(tmp_path)
    path.write_bytes(whole)
    assert Study.load(tmp_path).config == result().config


def test_the_damaged_file_is_named_with_a_remedy(tmp_path: Path) -> None:
    result().save(tmp_path)
    (tmp_path / "outcomes.csv").write_bytes(b"")
    with pytest.raises(CorruptFileError, match=r"outcomes\.csv \(0 bytes\) .* run again, or rest"):
        Study.load(tmp_path)
    (tmp_path / "outcomes.csv").unlink()
    with pytest.raises(CorruptFileError, match=r"outcomes\.csv is missing; run again"):
        Study.load(tmp_path)


def test_a_damaged_manifest_costs_nothing_else(tmp_path: Path) -> None:
    result().save(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(CorruptFileError, match=r"manifest\.json is .* run again with overwrite"):
        Study.load(tmp_path)
    result().save(tmp_path, overwrite=True)
    assert Study.load(tmp_path).config == result().config
    assert (tmp_path / "notes.txt").read_text() == "mine"
    (tmp_path / "manifest.json").unlink()
    result().save(tmp_path)  # every file would stay as it is
    assert Study.load(tmp_path).config == result().config


def test_a_manifest_cannot_reach_outside_its_folder(tmp_path: Path) -> None:
    """The name alone is refused: whether the file is there is not even looked at."""
    result().save(tmp_path / "r")
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    manifest["files"]["../secret.csv"] = hashlib.sha256(b"x").hexdigest()
    (tmp_path / "r" / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    with pytest.raises(CorruptFileError, match="is not a manifest in the format"):
        Study.load(tmp_path / "r")


def test_no_result_is_not_a_damaged_result(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="nothing holds no result: there is no such folder"):
        Study.load(tmp_path / "nothing")
    result(seed=1).save(tmp_path / "one")
    told = r"no result: manifest\.json is not there .*; folders in it that do: one$"
    with pytest.raises(MissingDataError, match=told):
        Study.load(tmp_path)


def test_an_interrupted_save_leaves_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result(seed=1).save(tmp_path)
    real, calls = os.replace, []

    def dies_at_the_second(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", dies_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        result(seed=2).save(tmp_path, overwrite=True)
    monkeypatch.undo()
    with pytest.raises(MissingDataError, match="the writing was interrupted"):
        Study.load(tmp_path)
    assert not list(tmp_path.glob(".*"))
    result(seed=2).save(tmp_path)
    assert Study.load(tmp_path).config["nested"] == {"seed": 2}


def test_the_same_result_saves_again_and_another_is_refused(tmp_path: Path) -> None:
    result().save(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    newer = Study(result().config, result().frames, {"python": "4"})
    newer.save(tmp_path)
    assert Study.load(tmp_path).versions == {"python": "4"}
    with pytest.raises(
        InputError,
        match=r"different result: config\.nested\.seed was 42, is now 7; choose another folder, or "
        r"pass overwrite=True",
    ):
        result(seed=7).save(tmp_path)
    assert Study.load(tmp_path).config["nested"] == {"seed": 42}
    other_numbers = table().assign(logprob=-1.0)
    with pytest.raises(InputError, match="the same config gave other numbers"):
        result(outcomes=other_numbers).save(tmp_path)
    result(seed=7).save(tmp_path, overwrite=True)
    assert Study.load(tmp_path).config["nested"] == {"seed": 7}
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_damaged_result_is_not_overwritten_unasked(tmp_path: Path) -> None:
    result().save(tmp_path)
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(InputError, match=r"holds a damaged result .*result\.json.*overwrite=True"):
        result().save(tmp_path)
    result().save(tmp_path, overwrite=True)
    assert Study.load(tmp_path).config == result().config


def test_another_studys_result_is_refused_by_name(tmp_path: Path) -> None:
    plain = Result({}, {}, {})
    plain.save(tmp_path)
    with pytest.raises(InputError, match=r"class Result, not Study; load it with ic\.load_result"):
        Study.load(tmp_path)
    result().save(tmp_path, overwrite=True)
    assert type(Result.load(tmp_path)) is Result


def test_the_callers_objects_are_not_shared() -> None:
    config, frame = {"layers": [0]}, table()
    made = Study(config, {"outcomes": frame}, {})
    config["layers"].append(1)
    frame.loc[0, "logprob"] = 5.0
    assert made.config == {"layers": [0]}
    assert made.frames["outcomes"]["logprob"][0] == -0.1


@pytest.mark.parametrize(
    "config", [{"path": Path("x")}, {"x": math.nan}, {"x": {1, 2}}, {"x": math.inf}]
)
def test_a_config_that_is_not_json_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"cannot be kept as JSON .* e\.g\. str\(path\)"):
        Study(config, {}, {})


@pytest.mark.parametrize("name", ["", "Upper", "../up", "a b", "a.b", "1a"])
def test_a_frames_name_must_fit_a_file(name: str) -> None:
    with pytest.raises(InputError, match="lower-case letters, digits and underscores"):
        Study({}, {name: table()}, {})


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (table().set_index("example"), r"index named \['example'\].*reset_index"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "name .* of its own"),
        (pd.DataFrame([[1, 2]]), "name .* of its own"),
    ],
)
def test_untidy_frames_are_refused(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Study({}, {"outcomes": frame}, {})


def test_repr_is_one_short_line() -> None:
    assert repr(Study({"seed": 1}, {"outcomes": table()}, {})) == ("<Study outcomes: 5 rows>")


def test_a_filtered_frame_is_renumbered() -> None:
    kept = Study({}, {"outcomes": table()[table()["right"]]}, {}).frames["outcomes"]
    assert list(kept.index) == [0, 1, 2]


def test_mixed_columns_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    mixed = pd.DataFrame({"x": pd.Series([1, "a"], dtype=object)})
    with pytest.raises(InputError, match=r"cannot be kept as Parquet .* values of one type"):
        Study({}, {"outcomes": mixed}, {}).save(tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_versions_name_what_decides_the_numbers() -> None:
    versions = environment_versions()
    names = {"interp_compose", "torch", "transformers", "transformer_lens", "python", "platform"}
    assert set(versions) == names
    assert all(versions.values())
    assert versions["torch"][0].isdigit()


def test_atomic_write_takes_bytes_or_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    atomic_write(path, b"one")
    assert path.read_bytes() == b"one"
    atomic_write(path, lambda file: file.write(b"two"))
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_failing_writer_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old")

    def fails(file: object) -> None:
        file.write(b"half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        atomic_write(path, fails)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_file_sha256_of_the_empty_and_the_long_file(tmp_path: Path) -> None:
    for data in (b"", bytes(range(256)) * 9001):
        (tmp_path / "f").write_bytes(data)
        assert file_sha256(tmp_path / "f") == hashlib.sha256(data).hexdigest()


# --- files that are not this library's ------------------------------------------------------------


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["result.json", "outcomes.csv", "outcomes.parquet"])
def test_a_users_file_is_not_replaced_unasked(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(InputError, match=rf"has {name}, which no run of interp_compose wrote"):
        result().save(tmp_path)
    assert contents_of(tmp_path) == {name: b"mine", "report.html": b"mine"}
    result().save(tmp_path, overwrite=True)
    assert Study.load(tmp_path).config == result().config
    assert (tmp_path / "report.html").read_text() == "mine"


def test_a_table_that_the_user_changed_is_not_replaced_unasked(tmp_path: Path) -> None:
    store(result(), tmp_path, {"figure.html": b"drawn"})
    (tmp_path / "figure.html").write_text("with my notes")
    result().save(tmp_path)  # writes no figure
    with pytest.raises(InputError, match=r"has figure\.html, which .* or which changed since"):
        store(result(), tmp_path, {"figure.html": b"drawn again"}, replaces=True)
    assert (tmp_path / "figure.html").read_text() == "with my notes"
    store(result(seed=7), tmp_path, {}, replaces=True)
    assert (tmp_path / "figure.html").read_text() == "with my notes"


def test_what_the_manifest_names_of_an_earlier_result_goes_with_it(tmp_path: Path) -> None:
    store(result(more=table(), outcomes=table()), tmp_path, {"figure.html": b"drawn"})
    for name in ("figure.png", "other.csv"):
        (tmp_path / name).write_text("mine")
    result(seed=7).save(tmp_path, overwrite=True)
    names = {"result.json", "outcomes.parquet", "outcomes.csv", "manifest.json"}
    assert set(contents_of(tmp_path)) == names | {"figure.png", "other.csv"}


def test_the_same_result_keeps_its_figures(tmp_path: Path) -> None:
    store(result(), tmp_path, {"figure.html": b"drawn"})
    result().save(tmp_path)
    assert (tmp_path / "figure.html").read_bytes() == b"drawn"
    result(seed=7).save(tmp_path, overwrite=True)  # the manifest still names it
    assert not (tmp_path / "figure.html").exists()


@pytest.mark.parametrize("stop", range(1, 8))
def test_an_interrupted_write_is_gone_on_from(
    tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whichever rename: what is half done is this library's, and known to be."""
    store(result(seed=1, old=table()), tmp_path, {"old.html": b"drawn"})
    (tmp_path / "notes.html").write_text("mine")
    real, calls = os.replace, []

    def dies(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) == stop:
            raise KeyboardInterrupt
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dies)
        if stop < 7:
            with pytest.raises(KeyboardInterrupt):
                store(result(seed=2), tmp_path, {"new.html": b"new"}, replaces=True)
        else:
            store(result(seed=2), tmp_path, {"new.html": b"new"}, replaces=True)
    store(result(seed=2), tmp_path, {"new.html": b"other"}, replaces=True)
    names = {"result.json", "outcomes.parquet", "outcomes.csv", "manifest.json", "new.html"}
    assert set(contents_of(tmp_path)) == names | {"notes.html"}
    assert Study.load(tmp_path).config["nested"] == {"seed": 2}


def test_an_empty_folder_name_is_refused() -> None:
    with pytest.raises(InputError, match="the folder is an empty text"):
        result().save("")


# --- what a spreadsheet would run -----------------------------------------------------------------

FORMULAS = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "'=1", "''-1", "plain", "'tis", "", None]


def test_no_cell_of_a_csv_is_a_formula(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": FORMULAS, "=head": -np.arange(12.0), "kind": ["-"] * 12})
    frame["kind"] = frame["kind"].astype("category")
    result(outcomes=frame).save(tmp_path)
    read = pd.read_csv(tmp_path / "outcomes.csv", keep_default_na=False)
    assert list(read.columns) == ["text", "'=head", "kind"]
    told = [f"'{text}" for text in FORMULAS[:8]] + ["plain", "'tis", "", ""]
    assert read["text"].tolist() == told
    assert set(read["kind"]) == {"'-"}
    assert read["'=head"].tolist() == frame["=head"].tolist()  # numbers are numbers
    loaded = Study.load(tmp_path).frames["outcomes"]
    pd.testing.assert_frame_equal(loaded, frame)
    result(outcomes=frame).save(tmp_path)  # the same result


def test_texts_that_differ_in_an_apostrophe_are_different_results(tmp_path: Path) -> None:
    result(outcomes=pd.DataFrame({"text": ["=1"]})).save(tmp_path)
    with pytest.raises(InputError, match="the same config gave other numbers"):
        result(outcomes=pd.DataFrame({"text": ["'=1"]})).save(tmp_path)


# --- batches -------------------------------------------------------------------------------------

FINGERPRINT = {"model": "m", "data": {"sha256": "aa", "n": 7}, "layers": [0, 1]}


def readable(store: BatchStore) -> set[int]:
    return {number for number, _ in store.files() if store.get(number) is not None}


def test_batches_resume(tmp_path: Path) -> None:
    store = BatchStore(tmp_path / "parts", FINGERPRINT)
    assert readable(store) == set()
    store.put(0, table())
    store.put(12, table().iloc[:0])
    again = BatchStore(tmp_path / "parts", dict(reversed(FINGERPRINT.items())))
    assert readable(again) == {0, 12}
    first, empty = again.get(0), again.get(12)
    assert first is not None
    assert empty is not None
    pd.testing.assert_frame_equal(first, table(), check_exact=True)
    assert list(empty.columns) == list(table().columns)
    assert again.get(3) is None


def test_a_different_run_is_refused_with_what_differs(tmp_path: Path) -> None:
    BatchStore(tmp_path, FINGERPRINT).put(0, pd.DataFrame({"a": [1]}))
    other = {"model": "m", "data": {"sha256": "bb", "n": 7}, "seed": 3}
    with pytest.raises(
        InputError,
        match=r'data\.sha256 was "aa", is now "bb"; layers was \[0, 1\], is now absent; '
        r"seed was absent, is now 3\. Run with the earlier settings .* delete this one",
    ):
        BatchStore(tmp_path, other)
    long = dict(FINGERPRINT, model="x" * 500)
    with pytest.raises(InputError, match=r"… \(502 characters\)"):
        BatchStore(tmp_path, long)


def test_a_damaged_batch_is_not_done_and_can_be_put_again(tmp_path: Path) -> None:
    store = BatchStore(tmp_path, FINGERPRINT)
    store.put(0, table())
    store.put(1, table())
    (shard,) = tmp_path.glob("00000001.*.parquet")
    whole = shard.read_bytes()
    for damaged in (whole[:-1], b"", whole[:50] + bytes([whole[50] ^ 4]) + whole[51:]):
        shard.write_bytes(damaged)
        assert readable(store) == {0}
    store.put(1, table().assign(logprob=-2.0))
    assert readable(store) == {0, 1}
    again = store.get(1)
    assert again is not None
    assert again["logprob"].tolist() == [-2.0] * 5
    assert len(list(tmp_path.glob("00000001.*"))) == 1


def test_an_intact_batch_wins_over_a_damaged_one_of_its_index(tmp_path: Path) -> None:
    store = BatchStore(tmp_path, FINGERPRINT)
    store.put(1, table())
    (tmp_path / f"00000001.{'0' * 64}.parquet").write_bytes(b"left behind")
    assert readable(store) == {1}
    pd.testing.assert_frame_equal(store.get(1), table())


def test_half_written_batches_are_invisible(tmp_path: Path) -> None:
    store = BatchStore(tmp_path, FINGERPRINT)
    (tmp_path / f".00000004.{'a' * 64}.parquet.1234.tmp").write_bytes(b"half")
    (tmp_path / "notes.parquet").write_bytes(b"not ours")
    assert readable(store) == set()


def test_a_damaged_or_missing_fingerprint_is_refused(tmp_path: Path) -> None:
    store = BatchStore(tmp_path, FINGERPRINT)
    store.put(0, table())
    path = tmp_path / "fingerprint.json"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 2]) + whole[place + 1 :])
        with pytest.raises(CorruptFileError, match=r"fingerprint\.json .* delete its folder"):
            BatchStore(tmp_path, FINGERPRINT)
    path.unlink()
    with pytest.raises(CorruptFileError, match=r"fingerprint\.json is missing"):
        BatchStore(tmp_path, FINGERPRINT)


def test_clear_takes_only_what_is_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    store = BatchStore(folder, FINGERPRINT)
    store.put(0, table())
    (folder / "notes.txt").write_text("mine")
    store.clear()
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    (folder / f".interp_compose.{'a' * 16}.tmp").write_bytes(b"half")
    store = BatchStore(folder, {"another": "run"})
    store.put(0, table())
    store.clear()
    store.clear()
    assert not folder.exists()


def test_a_batch_renamed_to_another_index_is_not_done(tmp_path: Path) -> None:
    store = BatchStore(tmp_path, FINGERPRINT)
    store.put(0, table())
    (path,) = tmp_path.glob("00000000.*")
    path.with_name(path.name.replace("00000000.", "00000003.")).write_bytes(path.read_bytes())
    assert readable(store) == {0}


def test_batches_count_from_zero(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="index is -1; it counts from 0"):
        BatchStore(tmp_path, FINGERPRINT).put(-1, table())
