"""A pre-training step of a BERT here over transformers' own, and of CAT over the BERT's.

Turn about, on the same masked batch of one thread, with AdamW: a plain loop around
``BertForPreTraining`` (the same weights and losses; it unembeds every position), the library's loop
around the BERT, which unembeds masked positions alone, and around CAT with several sizes of its
codebooks: *cat* composes in every block, *cat-last* in one. ``drawing`` is the share of the BERT's
step that drawing and masking a batch takes. The *floor* is a step's matrix products (floating-point
operations) over the BERT's; the goal was for 1,000 codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from statistics import median
from typing import Any, Final

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForPreTraining

import interp_compose as ic
from benchmarks.common import (
    Ratio,
    gpu,
    kept_for_backward,
    load_texts,
    machine,
    median_and_range,
    peak_bytes,
    quotients,
    seconds,
    timed,
    turns,
)
from interp_compose.papers.cat.models.bert import EncoderConfig, SmallEncoder
from interp_compose.papers.cat.models.from_bert import encoder_from_bert
from interp_compose.papers.cat.models.init import init_bert
from interp_compose.papers.cat.text.wordpiece import WordPieces, WordPieceTokenizer
from interp_compose.papers.cat.training.pretraining import CatWeights, Pretraining
from interp_compose.papers.cat.training.sentences import Lexicon, MaskedBatch, Passages, Sentences
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import Trainer, trains

SHAPES: Final = {
    "small": ({"n_layers": 4, "d_model": 128, "n_heads": 4, "d_mlp": 512}, 64, 32, 8192),
    "paper": ({"n_layers": 4, "d_model": 768, "n_heads": 12, "d_mlp": 3072}, 128, 8, 8192),
}
"""Shapes by name, each with its context, its batch and its vocabulary: the preset of ``pretrain``,
and CAT's own."""
SIZES: Final = (1000, 3152, 8192)
"""Codes of a codebook: the paper's, and those of its last block, of two sets of sememes."""
LARGE: Final = 4096
"""Tokens, or some more, of the batch whose memory is measured."""
PARTS: Final = (1, 4)
"""In so many is it run, one after another."""
DOCUMENT: Final = 8
"""Definitions that stand as one document."""
STEPS: Final = TrainConfig(epochs=10_000, lr=1e-4, warmup_steps=0, schedule="constant")


def benchmark(
    device: str = "cpu",
    repeats: int = 5,
    shapes: tuple[str, ...] = tuple(SHAPES),
    sizes: tuple[int, ...] = SIZES,
    texts: int = 20_000,
) -> dict[str, Any]:
    """``encoder_steps_{device}``; ``sizes`` are numbers of codes."""
    content: dict[str, Any] = {"device": device, "threads": 1, "repeats": repeats}
    source, definitions = some_texts(texts)
    for name in shapes:
        config, tokenizer = shaped(name, definitions)
        content[name] = measured(
            config, tokenizer, definitions, SHAPES[name][2], sizes, repeats, device
        )
    content |= {"text": source, **gpu(device), "machine": machine()}
    return {f"encoder_steps_{device}": content}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    return [
        Ratio(
            f"{work}, {row['shape']['n_layers']} × {row['shape']['d_model']}",
            *each.values(),
            peer=f"bert ({row['bert_seconds']:.3g} s)",
            floor=row["products"][work],
            goal=1.5 if work.endswith(" 1000") else None,
        )
        for row in (content[name] for name in SHAPES if name in content)
        for work, each in row["over_bert"].items()
        if work != "bert"
    ]


def memory_benchmark(
    device: str = "cpu",
    shapes: tuple[str, ...] = ("small",),
    sizes: tuple[int, ...] = SIZES,
    texts: int = 20_000,
) -> dict[str, Any]:
    """``encoder_memory_{device}``."""
    content: dict[str, Any] = {"device": device, "threads": 1}
    source, definitions = some_texts(texts)
    for name in shapes:
        content[name] = memory(*shaped(name, definitions), definitions, sizes, device)
    content |= {"text": source, **gpu(device), "machine": machine()}
    return {f"encoder_memory_{device}": content}


def memory_ratios(content: dict[str, Any]) -> list[Ratio]:
    """What a step of a larger batch holds, in bytes: ``codes``, the weights over codes of all
    blocks; ``kept``, what forward keeps for backward, weights of the model among it; and ``peak``,
    the most that a step holds beyond model and optimiser, by the parts that a batch is run in."""
    return [
        Ratio(
            f"peak of {model}, {row['shape']['n_layers']} × {row['shape']['d_model']}, "
            f"{row['tokens']:,} tokens in {parts} part{'s' * (parts != '1')}",
            peak / 2**20,
            None,
            "MiB",
        )
        for row in (content[name] for name in SHAPES if name in content)
        for model, each in row["models"].items()
        for parts, peak in each["peak"].items()
    ]


def some_texts(n: int) -> tuple[str, list[str]]:
    """Where they are from, and definitions."""
    source, prompts = load_texts(n)
    return source, [prompt.removesuffix(' is called a "') for prompt in prompts]


def shaped(name: str, texts: list[str]) -> tuple[EncoderConfig, WordPieceTokenizer]:
    """A shape's config, and a tokenizer trained on the texts."""
    shape, n_ctx, _, d_vocab = SHAPES[name]
    config = EncoderConfig(**shape, d_vocab=d_vocab, n_ctx=n_ctx)
    return config, WordPieceTokenizer.trained(texts, d_vocab)


@trains
def measured(
    config: EncoderConfig,
    tokenizer: WordPieceTokenizer,
    texts: Sequence[str],
    n: int,
    sizes: Sequence[int],
    repeats: int,
    device: str,
    least_s: float = 0.3,
) -> dict[str, Any]:
    """Medians of steps taken turn about, as many a turn as take ``least_s``, and of their
    ratios."""
    passages = some_passages(tokenizer, texts, config.n_ctx, n)
    theirs = bert_of(config).to(device)
    ours = with_heads(theirs, tokenizer)
    batches: list[MaskedBatch] = []
    trainer = trainer_of(ours.to(device), tokenizer, passages, batches)
    first = trainer.train_step()["loss"]
    step = plain_step(theirs, batches[-1], device)
    apart = abs(step() - first)
    assert apart < 1e-3, f"the losses of the two BERTs differ by {apart}"
    works: dict[str, Callable[[], object]] = {"transformers": step, "bert": trainer.train_step}
    for size in sizes:
        for composition in ("every", "last"):
            shape = replace(config, composition=composition, n_codes=size)
            model = SmallEncoder(shape)
            init_bert(model, seed=0)
            name = f"{'cat' if composition == 'every' else 'cat-last'} {size}"
            works[name] = trainer_of(model.to(device), tokenizer, passages, []).train_step
    each = max(1, round(least_s / timed(trainer.train_step, 1, device)))
    times = turns(works, repeats, device, times=each, warm=0)
    objective: Any = trainer.objective
    drawing = [
        seconds(lambda: objective.drawn(passages, np.arange(len(passages)), 0))
        for _ in range(repeats)
    ]
    products = {name: products_of(work) for name, work in works.items()}
    bert = times["bert"]
    return {
        "shape": {name: getattr(config, name) for name in ("n_layers", "d_model", "n_ctx")},
        "passages": len(passages),
        "tokens": int(batches[-1].mask.sum()),
        "masked": len(batches[-1].at),
        "losses_differ_by": apart,
        "bert_seconds": float(median(bert)),
        "over_bert": {
            name: median_and_range(quotients(taken, bert)) for name, taken in times.items()
        },
        "drawing": float(median(drawing) / median(bert)),
        "products": {name: n / products["bert"] for name, n in products.items()},
    }


def products_of(step: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products of a call, backward included."""
    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_total_flops())


@trains
def memory(
    config: EncoderConfig,
    tokenizer: WordPieceTokenizer,
    texts: Sequence[str],
    sizes: Sequence[int],
    device: str,
    tokens: int = LARGE,
) -> dict[str, Any]:
    """What a step holds, of a BERT and of CAT with each number of codes in every block."""
    n = tokens // config.n_ctx + 2  # few are full
    passages = some_passages(tokenizer, texts, config.n_ctx, n)
    models: dict[str, Any] = {}
    for size in (0, *sizes):
        shape = replace(config, composition="every" if size else "none", n_codes=size or 1)
        model = SmallEncoder(shape)
        init_bert(model, seed=0)
        row: dict[str, Any] = {"peak": {}}
        for parts in PARTS:
            batches: list[MaskedBatch] = []
            trainer = trainer_of(model.to(device), tokenizer, passages, batches, parts)
            trainer.train_step()  # the optimiser's state is there from now on
            row["peak"][parts] = peak_bytes(trainer.train_step, device)
            if parts == 1:
                batch = batches[-1].to(device)
                found = model(batch.tokens, batch.mask, batch.segments, batch.words)
                row["codes"] = sum(one.weights.nbytes for one in found if one.weights is not None)
                del found
                whole = np.arange(len(passages))
                shares = [1.0] * len(trainer.objective.terms)
                row["kept"] = kept_for_backward(
                    partial(loss_of, trainer.objective, model, whole, shares)
                )
            del trainer
        row["parameters"] = sum(weight.nbytes for weight in model.parameters())
        models[f"cat {size}" if size else "bert"] = row
    shape = {name: getattr(config, name) for name in ("n_layers", "d_model", "n_ctx")}
    filled = int(batch.mask.sum())
    return {"shape": shape, "tokens": filled, "positions": batch.tokens.numel(), "models": models}


def loss_of(objective: Pretraining, *given: Any) -> torch.Tensor:
    """The loss of a batch."""
    return objective.loss(*given, seed=0)[0]


def some_passages(
    tokenizer: WordPieceTokenizer, texts: Sequence[str], n_ctx: int, n: int
) -> Passages:
    """So many of about one length, the longest there are."""
    pieces = tokenizer.pieces(list(texts))
    starts = np.cumsum([0, *map(len, pieces)])
    documents = [*range(0, len(pieces), DOCUMENT), len(pieces)]
    tokens = np.fromiter(chain.from_iterable(pieces), dtype=np.int64)
    passages = Passages.of(Sentences(tokens, starts, np.array(documents)), n_ctx)
    longest = np.argsort(passages.counts, kind="stable")[-n:]
    return replace(passages, bounds=passages.bounds[longest])


def trainer_of(
    model: SmallEncoder,
    tokenizer: WordPieceTokenizer,
    passages: Passages,
    batches: list[MaskedBatch],
    accumulate: int = 1,
) -> Any:
    """The library's loop; each batch is also put into ``batches``."""

    class Watched(Pretraining):
        def drawn(self, *args: Any) -> MaskedBatch:
            batches.append(super().drawn(*args))
            return batches[-1]

    words = sorted({tokenizer.pieces([word])[0][0] for word in ("water", "body", "person", "act")})
    lexicon = Lexicon.of({(word,): (i,) for i, word in enumerate(words)}, 100)
    composes = model.cfg.composition != "none"
    objective = Watched(passages, WordPieces.of(tokenizer), lexicon, CatWeights(), composes)
    config = replace(STEPS, batch_size=len(passages), accumulate=accumulate)
    return Trainer(model, objective, config)


def bert_of(config: EncoderConfig) -> Any:
    """transformers' BERT of the same shape, with random weights and no dropout."""
    torch.manual_seed(0)
    return BertForPreTraining(
        BertConfig(
            vocab_size=config.d_vocab,
            hidden_size=config.d_model,
            num_hidden_layers=config.n_layers,
            num_attention_heads=config.n_heads,
            intermediate_size=config.d_mlp,
            max_position_embeddings=config.n_ctx,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    ).train()


@torch.no_grad()
def with_heads(theirs: Any, tokenizer: WordPieceTokenizer) -> SmallEncoder:
    """The library's BERT with the same weights."""
    loaded = ic.load_model(theirs.bert.eval(), tokenizer=tokenizer)
    model = encoder_from_bert(loaded).lens
    heads = theirs.cls.predictions.transform
    model.mlm_head.W.copy_(heads.dense.weight.mT)
    model.mlm_head.b.copy_(heads.dense.bias)
    model.b_U.copy_(theirs.cls.predictions.bias)
    model.pair_head.W_pool.copy_(theirs.bert.pooler.dense.weight.mT)
    model.pair_head.b_pool.copy_(theirs.bert.pooler.dense.bias)
    model.pair_head.W.copy_(theirs.cls.seq_relationship.weight.mT)
    model.pair_head.b.copy_(theirs.cls.seq_relationship.bias)
    theirs.train()
    model.train()
    assert isinstance(model, SmallEncoder)
    return model


def plain_step(model: Any, batch: MaskedBatch, device: str) -> Callable[[], float]:
    """What one writes around BERT: forward with labels, backward, clip, AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    labels = torch.full_like(batch.tokens, -100).flatten()
    labels[batch.at] = batch.target
    given = {
        "input_ids": batch.tokens.to(device),
        "attention_mask": batch.mask.to(device),
        "token_type_ids": batch.segments.to(device),
        "labels": labels.view_as(batch.tokens).to(device),
        "next_sentence_label": batch.follows.masked_fill(batch.follows < 0, -100).to(device),
    }

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = model(**given).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss.detach())

    return step
