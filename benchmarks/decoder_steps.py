"""A training step of a GPT-2-shaped decoder over transformers' own GPT-2.

Turn about, on the same batch of one thread, with the same weights, the same loss (of the target's
tokens alone) and AdamW: a plain loop around ``GPT2LMHeadModel``, with -100 as the labels of the
source, and the library's loop around ``SmallDecoder``, which unembeds those positions alone that
the loss is of. Sequences are commands of SCAN of about one length with their actions.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, Final

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

import interp_compose as ic
from benchmarks.common import FASTER, Ratio, gpu, machine, quotients, spread, timed, turns
from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import ContinuedBatch, TargetSequence
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import Trainer, trains

SHAPES: Final = {
    "small": ({"n_layers": 2, "d_model": 64, "n_heads": 4, "d_mlp": 256}, 64),
    "gpt2": ({"n_layers": 12, "d_model": 768, "n_heads": 12, "d_mlp": 3072}, 8),
}
"""Shapes by name, each with its batch: the preset of ``phases --task …``, and GPT-2 small."""


def benchmark(device: str = "cpu", repeats: int = 15) -> dict[str, Any]:
    """``decoder_steps_{device}``."""
    data = SequenceData.of(ic.load_sequences("scan-turn-left").splits, one_sequence=True)
    content: dict[str, Any] = {"device": device, "threads": 1, "repeats": repeats}
    for name, (shape, batch) in SHAPES.items():
        row = measured(shape, batch, data, repeats, device)
        content[name] = {"shape": shape, "batch": batch, **row}
    content |= {**gpu(device), "machine": machine()}
    return {f"decoder_steps_{device}": content}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    rows = []
    for row in (content[name] for name in SHAPES):
        shape = f"{row['shape']['n_layers']} layers, {row['shape']['d_model']} wide"
        what = f"{shape}, {row['tokens']:,} tokens ({row['library_seconds']:.3g} s)"
        cost = row["gpt2_over_library"], row["range"]
        rows.append(Ratio(what, *cost, FASTER, "the plain loop"))
    return rows


@trains
def measured(
    shape: dict[str, int],
    n: int,
    data: SequenceData,
    repeats: int,
    device: str,
    least_s: float = 0.3,
) -> dict[str, Any]:
    """Medians of steps taken turn about, as many a turn as take ``least_s``, and of their
    ratios."""
    pairs = sorted(data.splits["train"], key=len)
    some = pairs[len(pairs) // 2 :][:n]
    config = DecoderConfig(**shape, d_vocab=len(data.source), n_ctx=data.longest_pair + 1)
    ours = SmallDecoder(config).to(device)
    init_weights(ours, 0.5, seed=0)
    theirs = like(ours).to(device)
    trainer = Trainer(
        ours,
        TargetSequence(some, BOS, batches=ContinuedBatch),
        TrainConfig(batch_size=n, epochs=10_000, lr=1e-4, warmup_steps=0, schedule="constant"),
    )
    step = plain_step(theirs, ContinuedBatch.of(some, BOS), device)
    losses = [abs(step() - trainer.train_step()["loss"]) for _ in range(2)]
    assert max(losses) < 1e-3, f"the losses of the two models differ by {losses}"
    each = max(1, round(least_s / timed(step, 1, device)))
    works = {"gpt2": step, "library": trainer.train_step}
    times = turns(works, repeats, device, times=each, warm=0)
    ratios = quotients(times["gpt2"], times["library"])
    return {
        "tokens": sum(len(pair) + 1 for pair in some),
        "predicted": sum(len(pair.target) for pair in some),
        "gpt2_seconds": median(times["gpt2"]),
        "library_seconds": median(times["library"]),
        "gpt2_over_library": median(ratios),
        "range": spread(ratios),
        "losses_differ_by": max(losses),
    }


def plain_step(model: GPT2LMHeadModel, batch: ContinuedBatch, device: str) -> Callable[[], float]:
    """What one writes around GPT-2: forward with labels, backward, clip, AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    # GPT-2 shifts labels itself: the label of a token is the token
    tokens = torch.cat([batch.tokens, batch.target[:, -1:]], dim=1).to(device)
    labels = torch.full_like(tokens, -100)
    labels[:, 1:] = torch.where(batch.valid, batch.target, -100)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss: Tensor = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss.detach())

    return step


@torch.no_grad()
def like(model: SmallDecoder) -> GPT2LMHeadModel:
    """GPT-2 with the weights of ``model``, and with its exact GELU, no dropout, and an unembedding
    of its own."""
    shape = model.cfg
    config = GPT2Config(
        vocab_size=shape.d_vocab,
        n_positions=shape.n_ctx,
        n_embd=shape.d_model,
        n_layer=shape.n_layers,
        n_head=shape.n_heads,
        n_inner=shape.d_mlp,
        activation_function="gelu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    plain: Any = GPT2LMHeadModel(config)
    body = plain.transformer
    body.wte.weight.copy_(model.W_E)
    body.wpe.weight.copy_(model.W_pos)
    plain.lm_head.weight.copy_(model.W_U.mT)  # b_U is 0 until the first step
    own: Any
    for block, own in zip(body.h, model.blocks, strict=True):
        columns = [getattr(own.attn, f"W_{c}").transpose(0, 1).flatten(1) for c in "QKV"]
        block.attn.c_attn.weight.copy_(torch.cat(columns, dim=1))
        block.attn.c_attn.bias.copy_(
            torch.cat([getattr(own.attn, f"b_{c}").flatten() for c in "QKV"])
        )
        block.attn.c_proj.weight.copy_(own.attn.W_O.flatten(0, 1))
        block.attn.c_proj.bias.copy_(own.attn.b_O)
        block.mlp.c_fc.weight.copy_(own.mlp.W_in)
        block.mlp.c_fc.bias.copy_(own.mlp.b_in)
        block.mlp.c_proj.weight.copy_(own.mlp.W_out)
        block.mlp.c_proj.bias.copy_(own.mlp.b_out)
        for theirs, norm in ((block.ln_1, own.ln1), (block.ln_2, own.ln2)):
            theirs.weight.copy_(norm.w)
            theirs.bias.copy_(norm.b)
    result: GPT2LMHeadModel = plain.train()
    return result
