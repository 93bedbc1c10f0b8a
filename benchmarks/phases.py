"""What a run of the phase diagram costs, compared with a plain training loop; many models at once.

On a GPU also the batched program. Turn about:

library
    a step of a default run, as a sweep does it (one thread);
plain
    a step of a model of the same size from ``nn.TransformerEncoderLayer`` (pre-LN, GELU, causal
    mask) with the same batches, AdamW and loss at the last position: what one would write
    by hand;
batched
    on a GPU, a step of all 108 runs of a diagram as one program, over 108 single steps.

*Default run* is the processor time of a whole run (two layers, width 64, 1500 steps of 256), data,
looks and files included; *data* are the 900,000 sequences of appendix A.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.common import (
    FASTER,
    Ratio,
    gpu,
    machine,
    middle_and_range,
    quotients,
    ranged,
    seconds,
    turns,
)
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun, train
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.papers.shared.training.parallel import NextOfSequence, ParallelTrainer

STEPS = 40
GRID = 108
SEQUENCES = 900_000


class Plain(nn.Module):
    """The model one would write in ten minutes."""

    def __init__(self, run: PhaseRun, d_vocab: int, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(d_vocab, run.d_model)
        self.places = nn.Embedding(length, run.d_model)
        layer = nn.TransformerEncoderLayer(
            run.d_model,
            run.n_heads,
            run.d_mlp,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.blocks = nn.TransformerEncoder(
            layer, run.n_layers, norm=nn.LayerNorm(run.d_model), enable_nested_tensor=False
        )
        self.unembed = nn.Linear(run.d_model, d_vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        n = tokens.shape[1]
        hidden = self.embed(tokens) + self.places(torch.arange(n, device=tokens.device))
        mask = nn.Transformer.generate_square_subsequent_mask(n, device=tokens.device)
        out: Tensor = self.unembed(self.blocks(hidden, mask=mask, is_causal=True))
        return out


def benchmark(device: str = "cpu", repeats: int = 7, runs: int = 3) -> dict[str, Any]:
    """``phases_{device}``; ``runs`` are whole default runs."""
    content: dict[str, Any] = {"device": device, "threads": 1, "repeats": repeats}
    content |= {**steps(device, repeats), **data(repeats), **whole(runs)}
    if device == "cuda":
        content |= {**together(device, repeats), **gpu(device)}
    return {f"phases_{device}": {**content, **machine()}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    ms = {name: f"{1000 * content[f'{name}_s']:.3g} ms" for name in ("library", "plain")}
    over = *ranged(content, "plain_over_library"), FASTER, f"plain ({ms['plain']})"
    rows = [Ratio(f"library: a step ({ms['library']})", *over)]
    if "batched_speedup" in content:
        what = f"batched: a step of {content['runs']} runs ({1000 * content['batched_s']:.3g} ms)"
        over = *ranged(content, "batched_speedup"), FASTER, f"{content['runs']} single steps"
        rows.append(Ratio(what, *over))
    goal = 20 if content["device"] == "cpu" else None
    rows.append(Ratio("default run", *ranged(content, "run_cpu_s"), "s", goal=goal))
    return [*rows, Ratio("data", *ranged(content, "data_s"), "s")]


def steps(device: str, repeats: int) -> dict[str, Any]:
    """A step of the library and one by hand, turn about."""
    run = PhaseRun()
    tokens, targets = _batches(run, device)
    trainer = _trainer(run, [run.model(run.task).to(device)], tokens, targets)
    plain = Plain(run, run.task.vocabulary, run.task.length).to(device)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=run.lr, weight_decay=run.weight_decay)

    def library() -> None:
        for batch, answers in zip(tokens, targets, strict=True):
            trainer.update(batch[None], answers[None], lr=1e-4)

    def by_hand() -> None:
        for batch, answers in zip(tokens, targets, strict=True):
            optimizer.zero_grad()
            cross_entropy(plain(batch)[:, -1], answers).backward()
            optimizer.step()

    times = turns({"library": library, "plain": by_hand}, repeats, device)
    return {
        **{f"{name}_s": median(taken) / STEPS for name, taken in times.items()},
        **middle_and_range("plain_over_library", quotients(times["plain"], times["library"])),
    }


def _trainer(
    run: PhaseRun, models: list[SmallDecoder], tokens: Tensor, targets: Tensor
) -> ParallelTrainer:
    """Of models that are stepped by hand."""
    objective = NextOfSequence(tokens[:1], targets[:1], (0,) * len(models))
    decays = [run.weight_decay] * len(models)
    return ParallelTrainer(models, decays, objective, run.train_config())


def together(
    device: str, repeats: int, runs: int = GRID, run: PhaseRun | None = None
) -> dict[str, Any]:
    """All runs of a diagram in one program, over as many single steps; of the default run where
    none is given."""
    run = run or PhaseRun()
    tokens, targets = _batches(run, device)
    models = [run.model(run.task).to(device) for _ in range(runs)]
    many = _trainer(run, models, tokens, targets)
    one = _trainer(run, [run.model(run.task).to(device)], tokens, targets)

    def batched() -> None:
        for batch, answers in zip(tokens, targets, strict=True):
            many.update(batch.expand(runs, -1, -1), answers.expand(runs, -1), lr=1e-4)

    def single() -> None:
        for batch, answers in zip(tokens, targets, strict=True):
            one.update(batch[None], answers[None], lr=1e-4)

    times = turns({"batched": batched, "single": single}, repeats, device)
    ratios = [runs * each for each in quotients(times["single"], times["batched"])]
    return {
        "runs": runs,
        "batched_s": median(times["batched"]) / STEPS,
        **middle_and_range("batched_speedup", ratios),
    }


def data(repeats: int) -> dict[str, Any]:
    """The training data of the paper's figure 3."""
    task = PhaseRun().task
    taken = [
        seconds(lambda seed=seed: task.sample("train", SEQUENCES, seed=seed))
        for seed in range(repeats)
    ]
    return {"sequences": SEQUENCES, **middle_and_range("data_s", taken)}


def whole(runs: int) -> dict[str, Any]:
    """Default runs, from nothing to files: wall time, and time of the processor."""
    wall, used = [], []
    for seed in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            config = asdict(PhaseRun(seed=seed))
            wall.append(seconds(lambda config=config, at=folder: train([config], [Path(at)])))
            used.append(time.process_time() - started)
    return {**middle_and_range("run_s", wall), **middle_and_range("run_cpu_s", used)}


def _batches(run: PhaseRun, device: str) -> tuple[Tensor, Tensor]:
    data = run.task.sample("train", STEPS * run.batch_size, seed=0).to(device)
    tokens = data.tokens.unflatten(0, (STEPS, run.batch_size))
    return tokens, data.targets.unflatten(0, (STEPS, run.batch_size))
