"""Everything runs on CUDA as on the CPU."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from interp_compose.interventions.pooling import HOW, pool_groups
from interp_compose.models.load import load_model
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun
from interp_compose.papers.complexity.studies.phases.measure import phase_diagram
from interp_compose.studies.cap.measure import cap_curve, prepare_cap
from interp_compose.studies.cap.options import CapOptions
from interp_compose.studies.similarity.measure import similarity_curve
from interp_compose.training.finetune import Finetuned, finetune_on
from interp_compose.training.losses import mutual_information_loss, stability_loss
from interp_compose.types import Example
from tests import architectures
from tests.architectures import DECODERS, ENCODERS
from tests.papers.shared.training import test_parallel as decoders
from tests.studies import similarity_reference
from tests.studies.conftest import TEXTS, splitting_tokenizer
from tests.training import runs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
EXAMPLES = [Example(f'{text} "', "a") for text in TEXTS]


def curve(name: str, device: str, dtype: torch.dtype = torch.float32) -> pd.DataFrame:
    source: Any = architectures.build_native() if name == "native" else architectures.build(name)
    source = source.to(device, dtype)
    model = load_model(source, tokenizer=splitting_tokenizer())
    assert model.device.type == device
    return cap_curve(model, EXAMPLES, progress=False).outcomes


@pytest.mark.parametrize("name", DECODERS)
def test_cpu_and_gpu_agree_in_float32(name: str) -> None:
    cpu, gpu = curve(name, "cpu"), curve(name, "cuda")
    assert (cpu["target_logprob"] - gpu["target_logprob"]).abs().max() <= 1e-4


@pytest.mark.parametrize("name", DECODERS)
def test_bf16_stays_within_its_tolerance(name: str) -> None:
    exact, half = curve(name, "cpu"), curve(name, "cuda", torch.bfloat16)
    # Eight bits of mantissa through three layers; log-probabilities are around -4.
    assert (exact["target_logprob"] - half["target_logprob"]).abs().max() <= 0.35


def cosines(name: str, device: str, dtype: torch.dtype = torch.float32) -> pd.DataFrame:
    tokenizer = similarity_reference.tokenizer_for(name)
    model = load_model(architectures.build(name).to(device, dtype), tokenizer=tokenizer)
    pairs = [
        {"text1": one, "text2": two, "score": float(i)}
        for i, (one, two) in enumerate(pairwise(TEXTS))
    ]
    return similarity_curve(model, pairs, unit="word", progress=False).outcomes


@pytest.mark.parametrize("name", [*ENCODERS, "GPT-2"])
def test_similarities_agree(name: str) -> None:
    cpu, gpu = cosines(name, "cpu"), cosines(name, "cuda")
    assert (cpu["cosine"] - gpu["cosine"]).abs().max() <= 1e-4
    half = cosines(name, "cuda", torch.bfloat16)
    assert (cpu["cosine"] - half["cosine"]).abs().max() <= 0.1


@pytest.mark.parametrize("how", HOW)
def test_pooling_is_deterministic_and_agrees(how: str) -> None:
    generator = torch.Generator().manual_seed(0)
    activations = torch.randn(7, 31, 13, generator=generator)
    groups = (torch.arange(31) // 3).expand(7, -1)
    expected = pool_groups(activations, groups, how)
    found = [pool_groups(activations.cuda(), groups.cuda(), how).cpu() for _ in range(3)]
    torch.testing.assert_close(found[0], expected, atol=1e-6, rtol=1e-6)
    assert all(torch.equal(found[0], again) for again in found[1:])


def test_synchronisations_do_not_grow_with_the_examples() -> None:
    model = load_model(architectures.build("GPT-2").cuda(), tokenizer=splitting_tokenizer())
    model.require("resume", "positions")

    def syncs(n: int) -> int:
        asked = CapOptions(pooling=("mean", "max"), controls=False)
        plan = prepare_cap(model, EXAMPLES[:1] * n, asked)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                with torch.no_grad():
                    plan.rows(plan.batches[0])
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return sum("synchroniz" in str(warning.message) for warning in seen)

    assert syncs(16) <= syncs(2)


@pytest.mark.parametrize("negatives", ["all", 5])
def test_losses_and_their_gradients_agree(negatives: Any) -> None:
    words = torch.tensor([[-1, 0, 0, 1, 2, 2, 2], [-1, -1, 0, 1, 1, 2, 3]])
    resid = torch.randn(3, 2, 7, 11, generator=torch.Generator().manual_seed(0))
    found = []
    for device in ("cpu", "cuda"):
        layers = resid.to(device, copy=True).requires_grad_()
        ids = words.to(device)
        loss = mutual_information_loss(layers, ids, negatives=negatives, seed=3)
        (loss + stability_loss(layers, ids >= 0)).backward()
        assert layers.grad is not None
        found.append((loss.detach().cpu(), layers.grad.cpu()))
    for cpu, gpu in zip(*found, strict=True):
        torch.testing.assert_close(cpu, gpu, atol=1e-5, rtol=1e-5)


def trained(device: str, precision: Any) -> Finetuned:
    model = load_model(runs.hugging_face(dropout=0.0).to(device))
    config = replace(runs.BASE, precision=precision)
    return finetune_on(
        model,
        runs.made_up(24),
        runs.made_up(8, seed=1),
        "made up",
        carma=runs.CARMA,
        config=config,
        folder=None,
        progress=False,
    )


def test_training_agrees_with_the_cpu() -> None:
    cpu, gpu = trained("cpu", "float32"), trained("cuda", "float32")
    assert gpu.model.device.type == "cuda"
    columns = ["task_loss", "mi", "stability"]
    apart = (cpu.history.frame[columns] - gpu.history.frame[columns]).abs()
    assert apart.to_numpy().max() <= 1e-3
    half = trained("cuda", "bfloat16").history.frame[columns]
    assert (cpu.history.frame[columns] - half).abs().to_numpy().max() <= 0.2


def learned(device: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Losses of ten steps of three models at once, and their weights."""
    trainer = decoders.trainer([model.to(device) for model in decoders.models()])
    tokens, targets = (of.to(device) for of in decoders.batches())
    losses = [trainer.update(tokens[step], targets[step], lr=1e-3) for step in range(10)]
    return torch.stack(losses).cpu(), [weight.detach().cpu() for weight in trainer.parameters]


def test_many_decoders_at_once_learn_as_on_the_cpu() -> None:
    (cpu, weights), (gpu, others) = learned("cpu"), learned("cuda")
    torch.testing.assert_close(cpu, gpu, atol=1e-3, rtol=1e-3)
    for one, other in zip(weights, others, strict=True):
        assert (one - other).norm() <= 1e-2 * (1 + one.norm())


def test_a_phase_diagram_is_that_of_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = PhaseRun(d_model=16, d_mlp=20, samples=150, n_test=60, steps=12, batch_size=32)
    grid: dict[str, Any] = {"run": small, "seeds": 2, "where": "here", "progress": False}
    gpu = phase_diagram([0.4, 0.8], [0.01, 1.0], tmp_path / "gpu", **grid)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    cpu = phase_diagram([0.4, 0.8], [0.01, 1.0], tmp_path / "cpu", **grid)
    assert gpu.frame["finite"].all()
    shares = ["train", "id", "ood"]
    assert (gpu.frame[shares] - cpu.frame[shares]).abs().to_numpy().max() <= 0.1
    apart = (gpu.history["train_loss"] - cpu.history["train_loss"]).abs()
    assert apart.max() <= 1e-2
