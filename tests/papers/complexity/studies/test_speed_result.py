"""The study of fitting speed as a whole: its grid, its tables, what it ranks, what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from docs.tables import paper_setting
from interp_compose.errors import InputError, ModelError, OptionError
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun
from interp_compose.papers.complexity.studies.fitting_speed.measure import (
    base_of,
    fitting_speed,
    whole_numbers,
)
from interp_compose.papers.complexity.studies.fitting_speed.result import (
    PAIRS,
    RUNS,
    SAMPLES,
    FittingSpeed,
)

TINY = PhaseRun(d_model=8, d_mlp=12, samples=50, steps=8, batch_size=20)
CONFIG = {"norm": "pre", "d_model": 8, "samples": 4}
PLACES = [(0.4, 2, 0), (0.4, 2, 1), (0.8, 2, 0), (0.8, 2, 1)]


def tables(
    epochs: float = 4.0, loss: float = 0.01, finite: bool = True
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Two rates, one depth, no or one group, two seeds, four samples; seed 1 is slower."""
    runs, pairs, samples = [], [], []
    for rate, depth, groups in PLACES:
        for seed in range(2):
            place = {"init_rate": rate, "n_layers": depth, "violations": groups, "seed": seed}
            took = {"accuracy_epochs": epochs * (seed + 1), "loss_epochs": math.nan}
            end = {"finite": finite, "epochs": 9.0, "accuracy": 1.0, "loss": loss}
            runs.append({**place, **end, **took, "auc": 0.75 if groups and finite else math.nan})
            for i, pair in enumerate(("a b", "a c", "c d")):
                marks = {"violates": groups == 1 and i == 0, "touched": groups == 1 and i == 0}
                pairs.append({**place, "pair": pair, **marks, "epochs": epochs * (3 - i + seed)})
            for i, late in enumerate((0.5, 0.9, 0.5, 0.1) if groups else ()):
                own = {"sample": i, "pair": "a b" if i < 2 else "c d", "violates": i < 2}
                samples.append({**place, **own, "lateness": late})
    return (
        RUNS.of(runs),
        PAIRS.of(pairs),
        SAMPLES.of(samples),
    )


def result(**changed: Any) -> FittingSpeed:
    return of_tables(*tables(**changed))


def of_tables(*frames: pd.DataFrame) -> FittingSpeed:
    return FittingSpeed.from_runs(
        dict(zip(("runs", "pairs", "samples"), frames, strict=True)), CONFIG
    )


def test_data_are_of_all_pairs_and_evaluated_each_epoch() -> None:
    assert base_of(TINY, 2).evaluate_every == 2
    run = base_of(replace(TINY, evaluate_every=999), None)
    assert (run.evaluate_every, run.hold_out) == (3, False)


def test_every_run_of_a_grid_is_measured(tmp_path: Path) -> None:
    grid: Any = ([0.4, 0.8], [1, 2], [0, 2], tmp_path)
    found = fitting_speed(*grid, seeds=1, first_seed=3, run=TINY, where="here", progress=False)
    assert len(found.frame) == 8
    assert found.frame["epochs"].eq(8 / 3).all()  # three steps an epoch
    assert len(found.pairs) == 8 * 16
    assert len(found.samples) == 4 * 50
    assert found.pairs.groupby("violations")["violates"].sum().tolist() == [0, 4 * 4]
    assert found.config["seeds"] == [3]
    assert found.config["depths"] == [1, 2]
    assert (found.config["evaluate_every"], found.config["hold_out"]) == (3, False)
    assert "n_layers" not in found.config


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rates": [0.4, 0.4]}, "init_rates holds 0.4 twice"),
        ({"depths": [2, 2]}, "depths holds 2 twice"),
        ({"depths": [0]}, "depths holds 0: expected whole numbers from 1"),
        ({"violations": [-1]}, "violations holds -1: expected 0 or more"),
        ({"violations": [7]}, "violations holds 7"),
        ({"seeds": 0}, "seeds=0"),
        ({"evaluate_every": 0}, "evaluate_every=0"),
        ({"run": replace(TINY, samples=0)}, "samples=0"),
        ({"run": replace(TINY, n_layers=5)}, "run.n_layers=5 is not read here: give depths"),
        ({"run": replace(TINY, violations=1)}, "run.violations=1 is not read"),
        ({"run": replace(TINY, init_rate=0.5)}, "run.init_rate=0.5 is not read"),
        ({"run": replace(TINY, evaluate_every=7)}, "evaluate_every=7 is not read"),
        ({"run": replace(TINY, batch_size=0)}, "batch_size=0"),
    ],
)
def test_a_grid_that_cannot_be_is_refused_before_work(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    given = {"rates": [0.4], "depths": [1], "violations": [0], "seeds": 1, "first_seed": 0}
    given |= {"run": TINY, **changed}
    grid = [given.pop(name) for name in ("rates", "depths", "violations")]
    with pytest.raises(OptionError, match=message):
        fitting_speed(*grid, tmp_path / "out", where="here", **given)
    assert not (tmp_path / "out").exists()


def test_whole_numbers_as_they_are_written() -> None:
    assert whole_numbers("2:4:1,7", "depths") == [2, 3, 4, 7]
    for text in ("2.5", "inf", "x"):
        with pytest.raises(OptionError, match="depths="):
            whole_numbers(text, "depths")


def test_failed_runs_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(
        "interp_compose.papers.complexity.studies.fitting_speed.measure.train", broken
    )
    with pytest.raises(ModelError, match="1 of 1 runs failed.*out of luck"):
        fitting_speed(
            [0.4], [1], [0], tmp_path, seeds=1, run=TINY, where="here", progress=False
        )  # fmt: skip


def test_the_latest_come_first_and_ties_share_their_ranks() -> None:
    found = result().ranked(seed=1)
    assert found["init_rate"].eq(0.8).all()
    assert found["sample"].tolist() == [1, 0, 2, 3]
    assert found["rank"].tolist() == [1.0, 2.5, 2.5, 4.0]
    assert found["violates"].tolist() == [True, True, False, False]
    assert result().ranked(init_rate=0.4)["init_rate"].eq(0.4).all()


def test_runs_that_are_not_there_cannot_be_ranked() -> None:
    for name, value in (("init_rate", 0.5), ("n_layers", 3), ("violations", 0), ("seed", 9)):
        with pytest.raises(OptionError, match=f"{name}={value} is not there"):
            result().ranked(**{name: value})


def test_without_violations_there_is_no_curve_and_no_list() -> None:
    runs, pairs, samples = tables()
    speed = of_tables(runs[runs["violations"] == 0], pairs[pairs["violations"] == 0], samples[:0])
    assert set(speed.figures()) == {"fitting_epochs", "fitting_pairs"}
    for ask in (speed.plot_roc, speed.ranked):
        with pytest.raises(InputError, match="no sample violates the rule"):
            ask()


def test_figures_are_those_that_show_something() -> None:
    assert list(result().figures()) == ["fitting_epochs", "fitting_pairs", "violations_roc"]
    runs, *others = tables()
    low = of_tables(runs.assign(loss_epochs=5.0), *others)
    assert list(low.figures())[1] == "fitting_epochs_by_loss"
    assert list(result(epochs=math.nan).figures()) == ["violations_roc"]
    assert result(epochs=math.nan, loss=math.nan, finite=False).figures() == {}
    with pytest.raises(InputError, match="in no cell did every run fit its data"):
        result(epochs=math.nan).plot_epochs()
    with pytest.raises(InputError, match="no pair was learned by every run"):
        result(epochs=math.nan).plot_pairs()
    with pytest.raises(InputError, match="in no cell"):
        result().plot_epochs("loss")  # which no run reached


def test_what_is_not_there_cannot_be_drawn() -> None:
    with pytest.raises(OptionError, match=r"measure='id': expected one of accuracy, loss"):
        result().plot_epochs("id")
    for plot in (result().plot_pairs, result().plot_roc):
        with pytest.raises(OptionError, match="n_layers=3 is not there; expected one of 2"):
            plot(n_layers=3)
    with pytest.raises(OptionError, match="violations=2 is not there; expected one of 0, 1"):
        result().plot_pairs(violations=2)


def test_the_summary_has_a_row_for_each_cell() -> None:
    *lines, missing = result().summary().splitlines()
    assert missing.startswith("fitting_epochs_by_loss is not drawn: in no cell")
    assert lines[:3] == [*result().sentences()[:2], ""]
    assert len(lines) == 3 + 4 + len(PLACES)
    told = [" ".join(line.split()) for line in lines[-2:]]
    assert told[0] == "0.8 2 0 6.0 (4 to 8) 0 of 2 – 2"
    assert told[1] == "0.8 2 1 6.0 (4 to 8) 0 of 2 0.750 (0.750 to 0.750) 2"
    *_, last, _, missing = result(finite=False).summary().splitlines()
    assert last.endswith("2  2 diverged")
    assert missing.startswith("violations_roc is not drawn: no run has an ROC curve")


def test_a_run_that_diverged_is_not_ranked() -> None:
    with pytest.raises(OptionError, match="diverged: none of its samples was ever learned"):
        result(finite=False).ranked()


def test_the_papers_setting() -> None:
    run, axes = paper_setting("speed --paper fig8")
    assert (run.samples, run.batch_size, run.d_head, run.norm) == (100_000, 300, 200, "post")
    config = run.train_config()
    total = config.total_steps(run.samples)
    assert config.steps_per_epoch(run.samples) == 334
    assert total == 210 * 334
    assert config.warmup_of(total) == 10 * 334
    assert config.lr_at(10 * 334, total) == pytest.approx(1e-4)
    assert axes["violations"] == (0, 1, 5)
