"""Settings: refused by name and value; the schedule against a table by hand."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, get_type_hints

import pytest

from interp_compose.errors import OptionError
from interp_compose.studies.core.keywords import descriptions
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import Optimisation, TrainConfig


@pytest.mark.parametrize(
    ("schedule", "table"),
    [
        # 20 steps, of which at most 2 are warm-up
        ("linear", {0: 0.5, 1: 1.0, 2: 1.0, 3: 17 / 18, 11: 0.5, 19: 1 / 18}),
        ("cosine", {0: 0.5, 1: 1.0, 2: 1.0, 5: 0.9330127, 11: 0.5, 14: 0.25, 17: 0.0669873}),
        ("inverse_sqrt", {0: 0.5, 1: 1.0, 2: (2 / 3) ** 0.5, 7: 0.5, 19: 0.1**0.5}),
        ("constant", {0: 0.5, 1: 1.0, 2: 1.0, 19: 1.0}),
    ],
)
def test_the_schedule(schedule: Any, table: dict[int, float]) -> None:
    config = TrainConfig(lr=0.1, schedule=schedule)
    for step, share in table.items():
        assert config.lr_at(step, 20) == pytest.approx(0.1 * share, rel=1e-6), step
    rates = [config.lr_at(step, 20) for step in range(20)]
    assert all(rate > 0 for rate in rates)
    assert rates[2:] == sorted(rates[2:], reverse=True)


def test_warm_up() -> None:
    config = TrainConfig(lr=1.0, warmup_steps=4, schedule="constant")
    assert [config.lr_at(step, 100) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert TrainConfig(lr=1.0, warmup_steps=0).lr_at(0, 100) == 1.0
    assert TrainConfig(lr=1.0).lr_at(0, 1) == 1.0  # a run of one step is not warmed up to nothing
    assert TrainConfig(lr=1.0).lr_at(0, 9000) == 1 / 500


@pytest.mark.parametrize(
    ("n", "options", "per_epoch", "total"),
    [(20, {}, 2, 6), (16, {}, 1, 3), (1, {"epochs": 2}, 1, 2), (33, {"max_steps": 4}, 3, 4)],
)
def test_steps(n: int, options: dict[str, Any], per_epoch: int, total: int) -> None:
    config = TrainConfig(**options)
    assert config.steps_per_epoch(n) == per_epoch
    assert config.total_steps(n) == total


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *[(name, 0, "an integer, 1 or more") for name in ("epochs", "batch_size", "accumulate")],
        *[
            (name, 0, "an integer, 1 or more")
            for name in (
                "batch_tokens",
                "max_steps",
                "evaluate_every",
                "checkpoint_every",
                "patience",
            )
        ],
        ("epochs", -1, "an integer, 1 or more"),
        ("warmup_steps", -1, "an integer, 0 or more"),
        ("seed", -1, "an integer, 0 or more"),
        ("lr", 0.0, "a finite number above 0"),
        ("lr", 1e300, "at most 1e+30"),
        ("lr", float("nan"), "a finite number above 0"),
        ("lr", float("inf"), "a finite number above 0"),
        ("clip", 0.0, "a finite number above 0"),
        ("weight_decay", -0.1, "a finite number 0 or more"),
        ("label_smoothing", 1.0, "0 or more and below 1"),
        ("beta1", -0.1, "0 or more and below 1"),
        ("beta2", float("nan"), "0 or more and below 1"),
        ("accumulate", 17, "at most one part per example"),
    ],
)
def test_values_are_refused(name: str, value: Any, expected: str) -> None:
    with pytest.raises(OptionError) as refusal:
        TrainConfig(**{name: value})
    assert str(refusal.value).startswith(f"{name}={value!r}")
    assert expected in str(refusal.value)


def test_a_budget_of_tokens_needs_the_lengths() -> None:
    config = TrainConfig(batch_tokens=9, epochs=2)
    assert config.steps_per_epoch(4, [5, 4, 5, 2]) == 3
    assert config.total_steps(4, [5, 4, 5, 2]) == 6
    for lengths, got in ((None, "none"), ([5], "1")):
        with pytest.raises(OptionError, match=rf"batch_tokens=9: .* lengths of 4, got {got}"):
            config.total_steps(4, lengths)


def test_suggested() -> None:
    assert TrainConfig.suggested(124_000_000) == TrainConfig()
    small = TrainConfig.suggested(1_000_000)
    assert (small.lr, small.epochs, small.batch_size) == (1e-3, 8, 32)


def test_without_warm_up_the_inverse_root_falls_from_the_first_step() -> None:
    config = TrainConfig(lr=1.0, warmup_steps=0, schedule="inverse_sqrt")
    assert [config.lr_at(step, 100) for step in (0, 3, 99)] == [1.0, 0.5, 0.1]


def test_it_is_json_and_can_be_replaced() -> None:
    config = replace(TrainConfig(), seed=3)
    assert TrainConfig(**json.loads(json.dumps(asdict(config)))) == config


@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt"])
def test_a_final_rate_of_a_schedule_that_has_no_end_is_refused(schedule: Any) -> None:
    with pytest.raises(OptionError, match="final_lr=0.001 has no meaning for schedule="):
        TrainConfig(schedule=schedule, final_lr=1e-3)
    for ends in ("linear", "cosine"):
        assert TrainConfig(schedule=ends, final_lr=1e-3).lr_at(99, 100) > 0


@pytest.mark.parametrize("given", [{"temperature": 0.9}, {"negatives": 1}])
def test_settings_of_a_loss_that_is_left_out_are_refused(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(OptionError, match=f"{name}=.* has no meaning for mi_weight=0"):
        CarmaConfig(mi_weight=0.0, **given)
    assert CarmaConfig(**given).mi_weight > 0


@dataclass(frozen=True, kw_only=True)
class Long(Optimisation, epochs=24):
    pass


def test_a_subclass_of_settings_changes_defaults_and_declares_nothing() -> None:
    assert (Long().epochs, Long().lr, Optimisation().epochs) == (24, Optimisation().lr, 3)
    assert descriptions(Long)["epochs"] == descriptions(Optimisation)["epochs"] != ""
    assert get_type_hints(Long)["epochs"] is int
    with pytest.raises(TypeError, match="no base of it declares 'epoch'"):

        class Misspelt(Optimisation, epoch=2):
            pass
