"""How much memory a run needs, against what autograd keeps of a step."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from docs.tables import paper_setting
from interp_compose.papers.complexity.grid.together import SHARE
from interp_compose.papers.complexity.studies.anchors.grid import at_a_time, run_bytes
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun
from interp_compose.papers.shared.training.parallel import NextOfSequence, ParallelTrainer

FIG3, FIG4 = (paper_setting(f"phases --paper {name}")[0] for name in ("fig3", "fig4"))
TINY = PhaseRun(samples=60, n_test=30, batch_size=20)
SHAPES = [
    TINY,
    replace(TINY, norm="post", batch_size=100),
    replace(TINY, n_layers=4, n_heads=4, d_head=8),
    replace(FIG4, samples=60, batch_size=20),
    replace(FIG3, n_layers=2, samples=60, batch_size=20),
]


def kept(run: PhaseRun, n: int) -> float:
    """Bytes of a run among ``n``: weights, gradients, moments, and what autograd keeps."""
    task = run.task
    data = task.sample("train", run.batch_size, seed=0)
    tokens, targets = data.tokens.expand(n, -1, -1), data.targets.expand(n, -1)
    objective = NextOfSequence(tokens, targets, (0,) * n)
    models = [run.model(task) for _ in range(n)]
    trainer = ParallelTrainer(models, [0.1] * n, objective, run.train_config())
    held: dict[int, int] = {}

    def look(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        held[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(look, lambda tensor: tensor):
        trainer.logits(tokens)
    weights = sum(weight.nbytes for weight in trainer.parameters)
    return (4 * weights + sum(held.values())) / n


@pytest.mark.parametrize("run", SHAPES)
@pytest.mark.parametrize("n", [1, 2])
def test_what_is_needed_covers_what_is_kept(run: PhaseRun, n: int) -> None:
    assert kept(run, n) < run_bytes(run) < 6 * kept(run, n)


def test_as_many_as_the_memory_holds() -> None:
    small, large = TINY, replace(TINY, n_layers=8)
    need = run_bytes(large)
    assert run_bytes(small) < need
    assert at_a_time([small, large, large], int(2.5 * need / SHARE)) == 2
    assert at_a_time([small, large, large], int(100 * need / SHARE)) == 3
    assert at_a_time([small, large], 1000) == 1  # one is tried in any case
    assert at_a_time([PhaseRun()] * 108, 24 * 2**30) == 108
    assert 1 < at_a_time([FIG3] * 108, 139 * 2**30) < 20
