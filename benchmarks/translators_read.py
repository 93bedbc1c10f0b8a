"""Is a pooled word read through its own position? Runs ``translators_read_*``.

Cross-attention of all decoder layers to the pooled position of a noun is knocked out (before the
softmax), and what is lost of the model's own translation tells what other positions of the encoder
hold of the word. One noun a sentence (``texts/nouns.jsonl``); the control is a random run of as
many pieces elsewhere in the same sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

import interp_compose as ic
from benchmarks.common import plain_rows
from benchmarks.translators import by_layer, translated
from benchmarks.translators_words import (
    check_pieces,
    flags,
    logprobs,
    nouns_of,
    pieces_of,
    prepared,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.stats.seeds import mean_interval
from interp_compose.studies.core.inputs import AnswerTargets, PreparedExample, PromptBatch

BATCH: Final = 24
"""Sentences that run together."""
CLEAN: Final = -1
"""The layer of what is not pooled."""
Run = Literal["clean", "read", "unread", "hidden"]
RUNS: Final[tuple[Run, ...]] = ("clean", "unread", "hidden")
"""Of pieces that are not pooled: as they are; without cross-attention to them; without any
attention to them, in all layers of both stacks."""
POOLED_RUNS: Final[tuple[Run, ...]] = ("read", "unread")
"""Of pooled pieces: as they are; without cross-attention to their position."""
SPANS: Final = ("word", "control")
Values = dict[tuple[int, str, Run], Float[np.ndarray, "sentence"]]
"""By layer (:data:`CLEAN` for none), span and run: the translation's log-probability (nats)."""


def measured(*, model: str, language: str, layers: Sequence[int], seed: int) -> dict[str, Any]:
    """The log-probability of each sentence's own translation in every run, and differences of
    these."""
    lens = ic.load_model(model)
    nouns = nouns_of(language)
    check_pieces(lens, nouns)
    translations = translated(lens, [noun.text for noun in nouns])
    items = prepared(lens, nouns, translations)
    spans = {"word": [pieces_of(item) for item in items], "control": elsewhere(items, seed)}
    values = knocked_out(lens, items, spans, layers)
    return {
        "config": {
            "model": lens.name,
            "language": language,
            "layers": list(layers),
            "seed": seed,
            "n_sentences": len(items),
        },
        "sentences": [
            {
                "text": noun.text,
                "word": noun.word,
                "kind": noun.kind,
                "translation": translation,
                "control": span_text(item, control),
            }
            for noun, translation, item, control in zip(
                nouns, translations, items, spans["control"], strict=True
            )
        ],
        "outcomes": [
            {"layer": layer, "span": span, "run": run, "target_logprob": nats.round(4).tolist()}
            for (layer, span, run), nats in values.items()
        ],
        **compared(values, [layer for layer in layers if layer in lens.stacks[0]], layers),
    }


# ---- runs --------------------------------------------------------------------------------


def elsewhere(items: Sequence[PreparedExample], seed: int) -> list[Bool[np.ndarray, "pos"]]:
    """As many pieces as the noun's, in a row, none of them the noun's or the end of the source;
    drawn at random.

    Raises:
        ValueError: a sentence has no room for them.
    """
    rng = np.random.default_rng(seed)
    out = []
    for item in items:
        noun = pieces_of(item)
        n_pieces, end = int(noun.sum()), int(item.prompt.n_source or 0) - 1  # the end is </s>
        starts = [at for at in range(end - n_pieces + 1) if not noun[at : at + n_pieces].any()]
        if not starts:
            raise ValueError(f"{item.example.prompt!r} has no {n_pieces} pieces beside its noun")
        at = int(rng.choice(starts))
        control = np.zeros_like(noun)
        control[at : at + n_pieces] = True
        out.append(control)
    return out


def span_text(item: PreparedExample, span: Bool[np.ndarray, "pos"]) -> str:
    """The text of a run of pieces."""
    offsets = item.prompt.offsets[span]
    return item.prompt.text[int(offsets[0, 0]) : int(offsets[-1, 1])]


@torch.no_grad()
def knocked_out(
    lens: LensModel,
    items: Sequence[PreparedExample],
    spans: Mapping[str, Sequence[Bool[np.ndarray, "pos"]]],
    layers: Sequence[int],
) -> Values:
    """Every run of every sentence."""
    values: Values = {}
    # Sentences of like length together: shorter ones are padded.
    order = sorted(range(len(items)), key=lambda i: len(items[i].answer_ids))
    for start in range(0, len(items), BATCH):
        chosen = order[start : start + BATCH]
        rows = [items[i] for i in chosen]
        batch = PromptBatch.of([item.prompt for item in rows], lens.device)
        answers = AnswerTargets.of(rows, lens.device)
        for span, of_items in spans.items():
            in_span = flags([of_items[i] for i in chosen], batch)  # [row pos]
            for layer in (CLEAN, *layers):
                for run in RUNS if layer == CLEAN else POOLED_RUNS:
                    with opened(lens, in_span, layer, run):
                        logits = lens.forward(
                            batch.tokens, attention_mask=batch.mask, read=answers.read
                        )
                    cell = values.setdefault((layer, span, run), np.empty(len(items)))
                    cell[chosen] = logprobs(logits, answers.answers)
    return values


@contextmanager
def opened(
    lens: LensModel, in_span: Bool[Tensor, "row pos"], layer: int, run: Run
) -> Iterator[None]:
    """The span is pooled at a layer, and attention to it is knocked out as the run says."""
    with ExitStack() as blocks:
        if layer != CLEAN:  # the span is unit 0, and all else stays alone
            blocks.enter_context(ic.pool_at(lens, layer, in_span.long() - 1, "mean"))
        if run == "unread":  # the decoder is recurrent: all its attention is cross-attention
            _, decoder = lens.stacks
            blocks.enter_context(ic.mask_attention(lens, keys=in_span, layers=[*decoder]))
        elif run == "hidden":
            blocks.enter_context(ic.mask_attention(lens, keys=in_span))
        yield


# ---- what they come to -------------------------------------------------------------------


def compared(values: Values, below: Sequence[int], layers: Sequence[int]) -> dict[str, Any]:
    """Paired differences (nats), Student's t intervals of 95 %, p by Holm over layers.

    ``differences``, by layer and ``what``:

    ``pooled``: the pooled word, minus clean;
    ``read``: the pooled word, minus without cross-attention to its position;
    ``read, control``: the same of the control's pooled pieces, and ``read, word − control``;
    ``elsewhere``: the pooled word without cross-attention to it, minus the word hidden from all
    attention: what other positions hold of it;
    ``pooling elsewhere``: the pooled word without cross-attention to it, minus the word's pieces
    without: what pooling changes in other positions. In the encoder's blocks alone (``below``),
    since of its output both are the same.

    ``whole``: without pooling, ``read`` and ``elsewhere`` of the word's pieces, ``read`` of the
    control's and its difference; ``hidden`` is clean minus hidden.
    """

    def of_layers(span: str, run: Run) -> dict[int, Any]:
        return {layer: values[layer, span, run] for layer in layers}

    def lost(span: str) -> dict[int, Any]:
        return {
            layer: values[layer, span, "read"] - values[layer, span, "unread"] for layer in layers
        }

    def always(nats: Float[np.ndarray, "sentence"]) -> dict[int, Any]:
        return dict.fromkeys(layers, nats)

    clean, unread, hidden = (values[CLEAN, "word", run] for run in RUNS)
    of_control = values[CLEAN, "control", "unread"]
    minus = {
        "pooled": (of_layers("word", "read"), always(clean)),
        "read": (of_layers("word", "read"), of_layers("word", "unread")),
        "read, control": (of_layers("control", "read"), of_layers("control", "unread")),
        "read, word − control": (lost("word"), lost("control")),
        "elsewhere": (of_layers("word", "unread"), always(hidden)),
        "pooling elsewhere": (of_layers("word", "unread"), always(unread)),
    }
    differences = []
    for what, (first, second) in minus.items():
        chosen = below if what == "pooling elsewhere" else layers
        pairs = {layer: (first[layer], second[layer]) for layer in chosen}
        differences += by_layer(pairs, what=what)
    whole = {
        "read": clean - unread,
        "read, control": clean - of_control,
        "read, word − control": of_control - unread,
        "elsewhere": unread - hidden,
        "hidden": clean - hidden,
    }
    rows = [
        {"what": what, "mean": float(nats.mean()), "low": low, "high": high}
        for what, nats in whole.items()
        for low, high in [mean_interval(nats)]
    ]
    return {
        "differences": plain_rows(pd.DataFrame(differences)),
        "whole": plain_rows(pd.DataFrame(rows)),
    }
