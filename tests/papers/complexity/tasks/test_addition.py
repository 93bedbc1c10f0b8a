"""Addition: every pair once, the square held out, sums by hand, refusals."""

from __future__ import annotations

import gc

import pytest

import interp_compose as ic
from interp_compose.errors import OptionError
from interp_compose.papers.complexity.tasks.addition import block_of, square_of


def number(digits: str) -> int:
    return int(digits.replace(" ", ""))


@pytest.mark.parametrize("reverse", [False, True])
def test_every_pair_is_in_one_split_and_its_sum_is_right(reverse: bool) -> None:
    task = ic.complexity.addition(largest=24, square=(8, 12), reverse=reverse)
    seen = []
    for split, pairs in task.splits.items():
        for pair in pairs:
            a, plus, b = (part.strip() for part in pair.source.removesuffix("=").partition("+"))
            assert plus == "+"
            x, y = number(a), number(b)
            assert number(pair.target[::-1] if reverse else pair.target) == x + y
            assert (split == "inside") == (8 <= x <= 12 and 8 <= y <= 12)
            seen.append((x, y))
    assert sorted(seen) == [(x, y) for x in range(25) for y in range(25)]
    assert task.report["inside_all"] == 25
    assert task.report["outside_all"] == 6  # a hundredth of 600
    assert task.report["train_all"] == 594


def test_the_square_is_ten_by_ten_blocks() -> None:
    """21 numbers: a block of three, and nine of two; 4 numbers are 4 blocks."""
    pairs = ic.complexity.addition(largest=60, square=(30, 50)).splits["inside"]
    kinds = {number(pair.source.partition("+")[0]): block_of(pair.kind) for pair in pairs}
    first = [block[0] for block in kinds.values() if block is not None]
    assert first[:5] == ["30-32", "30-32", "30-32", "33-34", "33-34"]
    assert first[-1] == "49-50"
    assert len({pair.kind for pair in pairs}) == 100
    few = {
        pair.kind for pair in ic.complexity.addition(largest=24, square=(9, 12)).splits["inside"]
    }
    assert len(few) == 16
    assert block_of("9-9 + 12-12") == ("9-9", "12-12")
    assert block_of("all") is block_of("") is None


def test_digits_are_tokens() -> None:
    for reverse, expected in ((False, "2 1"), (True, "1 2")):
        inside = ic.complexity.addition(largest=24, square=(8, 12), reverse=reverse).splits[
            "inside"
        ]
        assert {pair.source: pair.target for pair in inside}["9 + 1 2 ="] == expected


def test_the_seed_draws_what_is_outside_alone() -> None:
    one, same, other = (
        ic.complexity.addition(largest=40, square=(0, 3), seed=seed) for seed in (0, 0, 1)
    )
    assert one.splits == same.splits
    assert one.splits["inside"] == other.splits["inside"]
    assert set(one.splits["outside"]) != set(other.splits["outside"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"square": (400, 1000)},
            r"square=\(400, 1000\): expected two numbers from 0 to largest=999",
        ),
        ({"square": (600, 400)}, r"square=\(600, 400\): expected"),
        ({"square": (0, 999)}, "not the whole range"),
        ({"square": (-1, 3)}, r"square=\(-1, 3\)"),
        ({"largest": 0}, "largest=0: expected a whole number from 1 to"),
        ({"largest": 10**6}, "largest=1000000"),
    ],
)
def test_ranges_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ic.complexity.addition(**options)  # type: ignore[arg-type]


def test_by_name_it_is_generated() -> None:
    with pytest.raises(OptionError, match="'addition' is generated; leave data_dir='x' out"):
        ic.load_sequences("addition", data_dir="x")
    with pytest.raises(OptionError, match="seed=1 has no use"):
        ic.load_sequences("addition", seed=1)
    found = ic.load_sequences("addition-reversed-24")
    assert found.name == "addition-reversed-24"
    assert found == ic.complexity.addition(largest=24, square=(10, 15), reverse=True)
    assert square_of(999) == (400, 600)  # the paper's
    for name in ("addition-x", "addition-1", "addition-9999", "addition-\u0663", "addition-09"):
        with pytest.raises(OptionError, match=rf"'{name}' is unknown; .* addition-99"):
            ic.load_sequences(name)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_of_cycles_is_as_it_was(
    monkeypatch: pytest.MonkeyPatch, enabled: bool
) -> None:
    during = []

    def noted(splits: object) -> dict[str, list[ic.SequencePair]]:
        during.append(gc.isenabled())
        return {}

    monkeypatch.setattr("interp_compose.tasks.sequences.also_in_train", noted)
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        ic.complexity.addition(largest=9, square=(4, 6))
        with pytest.raises(OptionError):
            ic.complexity.addition(largest=9, square=(6, 4))
        assert (gc.isenabled(), during) == (enabled, [False])
    finally:
        (gc.enable if before else gc.disable)()
