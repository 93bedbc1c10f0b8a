"""The paper's settings: models that learn at full size, runs that are whole at a small one."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from docs.tables import PAPER_COMMANDS, help_of, paper_setting
from interp_compose.papers.complexity.studies.anchors import run as complexity_run
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun
from interp_compose.papers.complexity.studies.fitting_speed import measure as speed_run
from interp_compose.papers.shared.training.parallel import NextOfSequence, ParallelTrainer
from interp_compose.runs.files import read_json

SETTINGS = {command.split()[-1]: paper_setting(command) for command in PAPER_COMMANDS}
RUNS = {name: run for name, (run, _) in SETTINGS.items()}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_few_steps_of_the_papers_model(run: PhaseRun) -> None:
    run = replace(run, init_rate=0.8, weight_decay=0.01)
    task = run.task
    model = run.model(task)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    config = run.train_config()
    data = task.sample("train", 4, seed=run.stream("train"))
    tokens, targets = data.tokens[None], data.targets[None]
    objective = NextOfSequence(tokens, targets, (0,))
    trainer = ParallelTrainer([model], [run.weight_decay], objective, config)
    total = config.total_steps(run.samples)
    losses = [
        float(trainer.update(tokens, targets, lr=config.lr_at(step, total)))
        for step in range(config.warmup_of(total), config.warmup_of(total) + 3)
    ]
    assert losses[0] == pytest.approx(math.log(task.vocabulary), rel=0.02)  # it knows nothing yet
    assert losses[-1] < losses[0]
    trainer.copy_to_models()
    for name, weight in model.named_parameters():
        assert torch.isfinite(weight).all(), name
        assert not torch.equal(weight, before[name]), name


@pytest.mark.parametrize("name", RUNS)
def test_a_run_from_data_to_files(name: str, tmp_path: Path) -> None:
    """Everything but the size is the paper's: kind of model, schedule, evaluations, checkpoints."""
    epochs = RUNS[name].steps / -(-RUNS[name].samples // RUNS[name].batch_size)
    assert epochs == {"fig3": 210, "fig3-code": 1050, "fig4": 210, "fig8": 210}[name]
    run = replace(
        RUNS[name], samples=40, n_test=20, batch_size=20, steps=6, evaluate_every=2, n_layers=1,
        checkpoint_every=RUNS[name].checkpoint_every and 2, d_model=20, d_head=4, d_mlp=16,
    )  # fmt: skip
    RUNS[name].check()
    run.check()
    work = speed_run if name == "fig8" else complexity_run
    work.train([asdict(run)], [tmp_path])
    rows = read_json(tmp_path / "history.json")["rows"]
    assert [row["step"] for row in rows] == [0, 2, 4, 6]
    assert all(row["finite"] for row in rows)
    assert rows[-1]["train_loss"] == pytest.approx(math.log(run.task.vocabulary), rel=0.05)
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("run", [PhaseRun(), *RUNS.values()], ids=["default", *RUNS])
def test_the_estimate_of_operations_is_near_what_torch_counts(run: PhaseRun) -> None:
    run = replace(run, batch_size=4, steps=3)
    model, data = run.model(run.task), run.task.sample("train", 4, seed=0)
    with FlopCounterMode(display=False) as counter:
        cross_entropy(model.last_logits(data.tokens), data.targets).backward()
    assert run.flops == pytest.approx(3 * counter.get_total_flops(), rel=0.03)


def test_the_help_says_what_the_papers_settings_would_take() -> None:
    def hours(run: PhaseRun, runs: int) -> float:
        return runs * run.flops / 25e12 / 3600

    took = {
        name: hours(run, math.prod(map(len, axes.values())))
        for name, (run, axes) in SETTINGS.items()
    }
    told = " ".join(help_of("phases").replace("│", " ").split())
    assert f"fig3 {took['fig3'] / 24:.0f} days of a GPU" in told
    assert f"fig3-code {took['fig3-code'] / 24:.0f} days" in told
    assert f"fig4 {took['fig4']:.0f} hours" in told
    axes = SETTINGS["fig8"][1]
    runs, depths = len(axes["seeds"]) * 2 * 3, axes["depths"]
    speed = sum(hours(replace(RUNS["fig8"], n_layers=int(depth)), runs) for depth in depths)
    told = " ".join(help_of("speed").replace("│", " ").split())
    assert f"{speed:.0f} hours of a GPU" in told
