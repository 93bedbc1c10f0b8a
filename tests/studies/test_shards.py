"""A result that several processes measure is that of one, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose.cli import main
from interp_compose.errors import InputError, OptionError
from interp_compose.runs.files import LOCK
from interp_compose.studies.cap.measure import PreparedCap, prepare_cap
from interp_compose.studies.cap.options import CapOptions
from interp_compose.studies.core import study
from interp_compose.studies.core.command import carried_out
from interp_compose.studies.core.options import SharedOutput
from interp_compose.studies.core.shards import Shard

OPTIONS = CapOptions(layers=(0, 2), pooling="mean", batch_size=5)


@pytest.fixture(scope="module")
def prepared() -> PreparedCap:
    model = ic.load_model("mini-idm", device="cpu")
    return prepare_cap(model, ic.load_task("mini-idm", model).test[:24], OPTIONS)


def shard(out: Path, text: str, **more: Any) -> SharedOutput:
    return SharedOutput(out=out, shard=text, quiet=True, **more)


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Tables and record of a result; not what is drawn."""
    for path in sorted(folder.iterdir()):
        if path.suffix in (".parquet", ".csv") or path.name == "result.json":
            yield path.name, path.read_bytes()


def test_shards_give_the_bytes_of_one_process(prepared: PreparedCap, tmp_path: Path) -> None:
    assert len(prepared.batches) >= 5
    whole = carried_out(prepared, SharedOutput(out=tmp_path / "whole", quiet=True))
    out = tmp_path / "out"
    said = [carried_out(prepared, shard(out, f"{number}/3")) for number in (3, 1)]
    assert [isinstance(one, str) for one in said] == [True, True]
    assert "1/3, 2/3; the last" in str(said[0])
    assert "Not yet whole" in str(said[1])
    assert ": 2/3;" in str(said[1])
    assert not (out / "result.json").exists()
    result = carried_out(prepared, shard(out, "2/3"))
    assert dict(files(out)) == dict(files(tmp_path / "whole"))
    assert isinstance(result, ic.CapCurve)
    assert isinstance(whole, ic.CapCurve)
    pd.testing.assert_frame_equal(result.frame, whole.frame, check_exact=True)
    assert not (out / "shards").exists()
    again = carried_out(prepared, shard(out, "1/3"))  # read, not measured again
    assert isinstance(again, ic.CapCurve)
    assert not (out / "shards").exists()


def test_a_run_without_shards_says_that_it_does_not_use_them(
    prepared: PreparedCap, tmp_path: Path
) -> None:
    carried_out(prepared, shard(tmp_path, "1/3"))
    with pytest.warns(UserWarning, match="shards: a run without --shard does not use"):
        carried_out(prepared, SharedOutput(out=tmp_path, quiet=True))


def test_a_damaged_batch_is_measured_again_by_its_shard(
    prepared: PreparedCap, tmp_path: Path
) -> None:
    for number in (1, 2):
        carried_out(prepared, shard(tmp_path, f"{number}/3"))
    (damaged, *_) = (tmp_path / "shards" / "2-of-3").glob("*.parquet")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    left = carried_out(prepared, shard(tmp_path, "3/3"))
    assert isinstance(left, str)
    assert ": 2/3;" in left
    assert isinstance(carried_out(prepared, shard(tmp_path, "2/3")), ic.CapCurve)


def test_who_waited_while_another_made_the_result_reads_it(
    prepared: PreparedCap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    of_all = study._of_all_shards

    def after_the_other(*arguments: Any) -> Any:
        monkeypatch.setattr(study, "_of_all_shards", of_all)
        made.append(carried_out(prepared, shard(tmp_path, "1/2")))
        return of_all(*arguments)

    carried_out(prepared, shard(tmp_path, "1/2"))
    monkeypatch.setattr(study, "_of_all_shards", after_the_other)
    result = carried_out(prepared, shard(tmp_path, "2/2"))
    assert isinstance(made[0], ic.CapCurve)
    assert isinstance(result, ic.CapCurve)
    pd.testing.assert_frame_equal(result.frame, made[0].frame, check_exact=True)
    assert not (tmp_path / "shards").exists()


def test_shards_of_other_settings_are_refused_before_work(
    prepared: PreparedCap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out(prepared, shard(tmp_path, "1/2"))
    other = replace(prepared, config={**prepared.config, "seed": 7})
    monkeypatch.setattr(type(prepared), "rows", lambda *_: pytest.fail("work has begun"))
    with pytest.raises(InputError, match=r"1-of-2 holds batches of a different run: .*seed"):
        carried_out(other, shard(tmp_path, "2/2"))


def test_the_lock_of_a_killed_shard_does_not_stay(prepared: PreparedCap, tmp_path: Path) -> None:
    carried_out(prepared, shard(tmp_path, "1/2"))
    (tmp_path / "shards" / "1-of-2" / LOCK).touch()
    assert isinstance(carried_out(prepared, shard(tmp_path, "2/2")), ic.CapCurve)
    assert not (tmp_path / "shards").exists()


def test_overwrite_deletes_what_shards_of_another_run_have_kept(
    prepared: PreparedCap, tmp_path: Path
) -> None:
    other = replace(prepared, config={**prepared.config, "seed": 7})
    for text in ("1/2", "2/3", "3/3"):
        assert isinstance(carried_out(other, shard(tmp_path / "out", text)), str)
    for text in ("1/3", "2/3"):
        left = carried_out(prepared, shard(tmp_path / "out", text, overwrite=True))
        assert isinstance(left, str)
    result = carried_out(prepared, shard(tmp_path / "out", "3/3", overwrite=True))
    assert isinstance(result, ic.CapCurve)
    carried_out(prepared, SharedOutput(out=tmp_path / "whole", quiet=True))
    assert dict(files(tmp_path / "out")) == dict(files(tmp_path / "whole"))
    assert not (tmp_path / "out" / "shards").exists()


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "1/0", "-1/3", "a/b", "1/3/5", "", "1.5/3"])
def test_a_number_outside_its_range_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="1/8 to 8/8 of eight"):
        Shard.of(text)


@pytest.mark.parametrize("name", ["cap", "ablate", "transplant", "similarity"])
def test_a_number_outside_its_range_is_refused_before_a_model_is_loaded(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--model", str(tmp_path / "none"), "--out", str(tmp_path), "--shard", "0/3"]
    with pytest.raises(SystemExit, match="2"):
        main([name, *given])
    assert "shard='0/3'" in capsys.readouterr().err


def test_more_shards_than_batches_are_refused() -> None:
    Shard(1, 4).check(4)
    with pytest.raises(OptionError, match="shard='1/5': there are 4 batches"):
        Shard(1, 5).check(4)


def test_every_batch_has_one_shard() -> None:
    for total in range(1, 12):
        for count in range(1, total + 1):
            numbers = [n for i in range(count) for n in Shard(i + 1, count).batches(total)]
            assert sorted(numbers) == [*range(total)]


def test_the_command_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--limit", "8", "--layers", "0", "--pooling", "mean", "--batch-size", "4", "-q"]
    command = ["cap", "--out", str(tmp_path), *options]
    main([*command[:-1], "--shard", "2/2"])
    assert "Not yet whole in" in capsys.readouterr().out
    main([*command, "--shard", "2/2"])  # with -q
    assert "Not yet whole in" in capsys.readouterr().err
    main([*command, "--shard", "1/2"])
    assert ic.load_result(tmp_path).config["n_examples"] == 8
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--shard", "3/2"])
    assert "shard='3/2'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--shard", "1/2", "--batch-size", "auto"])
    assert "machines with other memory would choose other batches" in capsys.readouterr().err
