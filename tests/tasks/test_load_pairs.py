"""``load_pairs``: names and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from interp_compose.errors import OptionError
from interp_compose.tasks.load import PAIR_TASK_NAMES, load_pairs
from interp_compose.tasks.pairs import Pair
from tests.tasks import test_bird, test_paws


def test_names(tmp_path: Path) -> None:
    test_bird.folder(tmp_path, test_bird.row("water body", "body water"))
    test_paws.folder(tmp_path, "1\ta\tb\t1\n")
    assert PAIR_TASK_NAMES == ("bird", "paws-qqp")
    tasks = {name: load_pairs(name, data_dir=tmp_path) for name in PAIR_TASK_NAMES}
    assert [task.name for task in tasks.values()] == list(PAIR_TASK_NAMES)
    assert tasks["bird"].test == (Pair("water body", "body water", 0.5),)
    assert tasks["paws-qqp"].test == (Pair("a", "b", label=1),)


def test_a_file_is_all_test(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("text1\ttext2\tscore\nwater body\tbody water\t2\nwater\tlake\t4.5\n")
    task = load_pairs(path)
    assert task == load_pairs(str(path))
    assert (task.name, task.train) == (str(path), ())
    assert task.test == (Pair("water body", "body water", 2.0), Pair("water", "lake", 4.5))
    assert task.report == {"source": str(path), "test_all": 2, "test_mirror": 1}


@pytest.mark.parametrize("name", ["birds", "BIRD", "own.csv", ""])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(
        OptionError,
        match=rf"pair task '{name}' is unknown; .* bird, paws-qqp, .* ends in .tsv or .jsonl",
    ):
        load_pairs(name)


def test_a_file_takes_no_data_dir(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="file 'own.tsv' needs no data_dir; leave .* out"):
        load_pairs("own.tsv", data_dir=tmp_path)
