"""What a training step of an encoder–decoder costs: the library, plain torch, fuse-attention.

Turn about, on the same batches, with AdamW:

library
    ``small_seq2seq``'s module, the Transformer;
plain
    ``torch.nn.Transformer`` (post-LN, ReLU, sinusoidal positions, tied target embedding) with the
    same weights, which gives the same loss, on one batch without padding; in an epoch of SCAN a
    plain loop takes 64 sequences at random and pads them, the library puts those of one length
    together (as many tokens a batch) and predicts nothing at padding;
LRF
    a Transformer with fuse-attention, of the same layers and width;
parameters
    the Transformer with as many parameters as LRF: a second self-attention in every block.

The four matrices of LRF's eqs 9 and 10 alone exclude its goal.

*Memory* is what forward keeps for backward, in bytes; on a GPU also the peak.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from statistics import median
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import interp_compose as ic
from benchmarks.common import (
    FASTER,
    Ratio,
    gpu,
    kept_for_backward,
    machine,
    middle_and_range,
    quotients,
    ranged,
    turns,
)
from interp_compose.papers.lrf.models.init import init_xavier
from interp_compose.papers.lrf.models.seq2seq import Fuse, Seq2SeqConfig, SmallSeq2Seq, sinusoids
from interp_compose.papers.lrf.studies.generalise.measure import SequenceRun
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import SequenceBatch, TargetSequence
from interp_compose.training.loop import Trainer

SHAPES: Final[dict[str, tuple[dict[str, int], tuple[int, int, int]]]] = {
    "small": (
        {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 64, "d_mlp": 256, "n_heads": 4}
        | {"d_vocab": 900, "d_vocab_out": 900},
        (64, 12, 40),
    ),
    "iwslt": (
        {"n_encoder_layers": 6, "n_decoder_layers": 6, "d_model": 512, "d_mlp": 1024, "n_heads": 4}
        | {"d_vocab": 2000, "d_vocab_out": 6000},
        (24, 14, 16),
    ),
}
"""Shapes by name, each with batch size and lengths of source and target: COGS at the preset of
``generalise``, and LRF's on CoGnition."""
SEQUENCES: Final = 1280
FUSES: Final[tuple[Fuse, ...]] = ("none", "both", "parameters", "previous")
RATIOS: Final = {
    "plain_over_library": ("plain", "none"),
    "lrf_over_transformer": ("both", "none"),
    "lrf_over_parameters": ("both", "parameters"),
}
"""Whose steps are compared."""


class Plain(nn.Module):
    """What one writes on ``torch.nn.Transformer``."""

    def __init__(self, cfg: Seq2SeqConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(cfg.d_model)
        self.source = nn.Embedding(cfg.d_vocab, cfg.d_model)
        self.target = nn.Embedding(cfg.d_vocab_out, cfg.d_model)
        self.register_buffer("places", sinusoids(torch.arange(cfg.n_ctx), cfg.d_model))
        self.stacks = nn.Transformer(
            *(cfg.d_model, cfg.n_heads, cfg.n_encoder_layers, cfg.n_decoder_layers, cfg.d_mlp),
            dropout=0.0,
            batch_first=True,
        )
        self.stacks.encoder.norm = self.stacks.decoder.norm = None  # post-LN ends in one
        self.unembed = nn.Linear(cfg.d_model, cfg.d_vocab_out)
        self.unembed.weight = self.target.weight

    def forward(self, source: Tensor, target: Tensor, padding: Tensor | None = None) -> Tensor:
        """``padding`` is True where a source token is none."""
        places: Any = self.places
        x = self.source(source) * self.scale + places[: source.shape[1]]
        y = self.target(target) * self.scale + places[: target.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=y.device)
        masks = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
        out: Tensor = self.unembed(self.stacks(x, y, tgt_mask=mask, tgt_is_causal=True, **masks))
        return out


@torch.no_grad()
def like(plain: Plain, model: SmallSeq2Seq) -> Plain:
    """``plain`` with the weights of ``model``."""
    plain.source.weight.copy_(model.embed.W_E)
    plain.target.weight.copy_(model.decoder_embed.W_E)
    plain.unembed.bias.copy_(model.b_U)

    def attention(theirs: Any, ours: Any) -> None:
        flat = [getattr(ours, f"W_{letter}").transpose(0, 1).flatten(1).mT for letter in "QKV"]
        theirs.in_proj_weight.copy_(torch.cat(flat))
        theirs.in_proj_bias.copy_(torch.cat([getattr(ours, f"b_{c}").flatten() for c in "QKV"]))
        theirs.out_proj.weight.copy_(ours.W_O.flatten(0, 1).mT)
        theirs.out_proj.bias.copy_(ours.b_O)

    def rest(theirs: Any, ours: Any) -> None:
        for linear, weight, bias in (
            (theirs.linear1, "W_in", "b_in"),
            (theirs.linear2, "W_out", "b_out"),
        ):
            linear.weight.copy_(getattr(ours.mlp, weight).mT)
            linear.bias.copy_(getattr(ours.mlp, bias))
        for number in (1, 2, 3):
            if hasattr(theirs, f"norm{number}"):
                norm = getattr(theirs, f"norm{number}")
                norm.weight.copy_(getattr(ours, f"ln{number}").w)
                norm.bias.copy_(getattr(ours, f"ln{number}").b)

    for theirs, ours in zip(plain.stacks.encoder.layers, model.encoder_blocks, strict=True):
        attention(theirs.self_attn, ours.attn)
        rest(theirs, ours)
    for theirs, ours in zip(plain.stacks.decoder.layers, model.decoder_blocks, strict=True):
        attention(theirs.self_attn, ours.self_attn)
        attention(theirs.multihead_attn, ours.cross_attn)
        rest(theirs, ours)
    return plain


def benchmark(device: str = "cpu", repeats: int = 7) -> dict[str, Any]:
    """``seq2seq_{device}``."""
    content: dict[str, Any] = {"device": device, "threads": 1, "repeats": repeats}
    for name, (shape, batch) in SHAPES.items():
        row = measured(shape, batch, device, repeats)
        content[name] = {"shape": shape, "batch": batch, **row}
    content["scan"] = scan(device, repeats)
    return {f"seq2seq_{device}": {**content, **gpu(device), **machine()}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    rows = []
    for name in SHAPES:
        row, goal = content[name], 1.15 if name == "iwslt" else None
        of = "{n_encoder_layers} + {n_decoder_layers} layers, {d_model} wide".format(**row["shape"])
        rows += [
            Ratio(f"library, {of}", *ranged(row, "plain_over_library"), FASTER, "plain", goal=1.2),
            Ratio(f"LRF, {of}", *ranged(row, "lrf_over_transformer"), peer="library", goal=goal),
            Ratio(f"LRF, {of}", *ranged(row, "lrf_over_parameters"), peer="parameters"),
        ]
    epoch = ranged(content["scan"], "plain_epoch_over_library")
    return [*rows, Ratio("library, an epoch of SCAN", *epoch, FASTER, "plain")]


def measured(
    shape: dict[str, int], batch: tuple[int, int, int], device: str, repeats: int
) -> dict[str, Any]:
    """Steps of all models on one batch, turn about; the first turn is not counted."""
    n, n_source, n_target = batch
    torch.manual_seed(0)
    source = torch.randint(3, shape["d_vocab"], (n, n_source), device=device)
    target = torch.randint(3, shape["d_vocab_out"], (n, n_target), device=device)
    models: dict[str, nn.Module] = {}
    for fuse in FUSES:
        model = SmallSeq2Seq(Seq2SeqConfig(**shape, n_ctx=max(n_source, n_target), fuse=fuse))
        init_xavier(model, seed=0)
        models[fuse] = model.to(device)
    library = models["none"]
    assert isinstance(library, SmallSeq2Seq)
    models["plain"] = like(Plain(library.cfg).to(device), library)

    def loss(model: nn.Module) -> Tensor:
        return cross_entropy(model(source, target).flatten(0, 1), target.flatten())

    with torch.no_grad():
        assert abs(float(loss(library) - loss(models["plain"]))) < 1e-4
    kept = {
        name: kept_for_backward(lambda model=model: loss(model)) for name, model in models.items()
    }

    def stepper(model: nn.Module) -> Callable[[], None]:
        optimizer = torch.optim.AdamW(model.parameters())

        def step() -> None:
            optimizer.zero_grad()
            loss(model).backward()
            optimizer.step()

        return step

    steps = {name: stepper(model) for name, model in models.items()}
    times = turns(steps, repeats, device)
    out: dict[str, Any] = {
        "step_s": {name: median(each) for name, each in times.items()},
        "kept_bytes": kept,
        "parameters": {
            name: sum(weight.numel() for weight in model.parameters())
            for name, model in models.items()
        },
    }
    for ratio, (over, under) in RATIOS.items():
        out |= middle_and_range(ratio, quotients(times[over], times[under]))
    return out


def scan(device: str, repeats: int, sequences: int = SEQUENCES) -> dict[str, Any]:
    """Sequences of SCAN, each trained on once: by hand, and by the library's loop; turn about."""
    data = SequenceData.of(ic.load_sequences("scan-length").splits)
    order = np.random.default_rng(0).permutation(len(data.splits["train"]))[:sequences]
    pairs = [data.splits["train"][i] for i in order]
    settings = ic.lrf.SequenceTraining(dropout=0.0, epochs=10**6)
    run = SequenceRun(**asdict(settings), data="", model="transformer")
    model = SmallSeq2Seq(run.model_config(data)).to(device)
    init_xavier(model, seed=0)
    objective = TargetSequence(pairs, BOS)
    trainer = Trainer(model, objective, run.train_config(objective.lengths))
    plain = like(Plain(model.cfg).to(device), model)
    optimizer = torch.optim.AdamW(plain.parameters())
    starts = range(0, sequences, 64)
    batches = [SequenceBatch.of(pairs[at : at + 64], BOS).to(device) for at in starts]

    def loss(batch: SequenceBatch) -> Tensor:
        logits = plain(batch.source, batch.given, batch.source_mask == 0)
        answers = batch.target.masked_fill(~batch.valid, -100)
        return cross_entropy(logits.flatten(0, 1), answers.flatten())

    with torch.no_grad():  # equal weights, equal loss
        ours, _ = objective.loss(model, batches[0], [1.0], 0)
        assert abs(float(ours - loss(batches[0]))) < 1e-4

    def by_hand() -> None:
        for batch in batches:
            optimizer.zero_grad()
            loss(batch).backward()
            optimizer.step()

    def library() -> None:
        for _ in range(trainer.steps_per_epoch):
            trainer.train_step()

    times = turns({"plain": by_hand, "library": library}, repeats, device)
    return {
        "sequences": sequences,
        "steps": {"plain": len(batches), "library": trainer.steps_per_epoch},
        "epoch_s": {name: median(each) for name, each in times.items()},
        **middle_and_range("plain_epoch_over_library", quotients(times["plain"], times["library"])),
    }
