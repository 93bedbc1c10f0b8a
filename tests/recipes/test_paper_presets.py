"""The models of the paper's settings, at full size: they start, and a few steps train them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from interp_compose.recipes.complexity_presets import PRESETS
from interp_compose.recipes.complexity_run import PhaseRun
from interp_compose.recipes.speed_presets import PRESETS as SPEED
from interp_compose.training.learners import Learners

RUNS = {**{name: preset.run for name, preset in PRESETS.items()}, "fig8": SPEED["fig8"].run}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_few_steps_of_the_papers_model(run: PhaseRun) -> None:
    run = replace(run, init_rate=0.8, weight_decay=0.01)
    task = run.task
    model = run.model(task)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    config = run.train_config()
    learners = Learners([model], [run.weight_decay], config)
    data = task.sample("train", 4, seed=run.stream("train"))
    tokens, targets = data.tokens[None], data.targets[None]
    total = config.total_steps(run.samples)
    losses = [
        float(learners.step(tokens, targets, config.lr_at(step, total)))
        for step in range(config.warmup_of(total), config.warmup_of(total) + 3)
    ]
    assert losses[0] == pytest.approx(math.log(task.vocabulary), rel=0.02)  # it knows nothing yet
    assert losses[-1] < losses[0]
    learners.write_back()
    for name, weight in model.named_parameters():
        assert torch.isfinite(weight).all(), name
        assert not torch.equal(weight, before[name]), name
