"""Does a translation follow a transplanted word? Runs ``translators_words_*``.

The pieces of a noun are pooled in the residual that enters encoder block ℓ of its sentence's clean
run, and the vector takes the place of a noun of another sentence, whose pieces become one position
(:mod:`interp_compose.interventions.transplants`). Measured are two translations, each as the model
gives it without an intervention: that of the *composed* sentence, in which the nouns are exchanged
as text, and the target's *own*.

``texts/nouns.jsonl`` has a noun of several pieces of most sentences of ``texts/translation.jsonl``,
and what it has to agree with. Nouns are exchanged within one ``agreement``, so that each sentence
gives its noun once and receives one once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import spearmanr
from torch import Tensor

import interp_compose as ic
from benchmarks.common import plain_rows
from benchmarks.translators import TEXTS, by_layer, translated
from interp_compose.errors import NonFiniteError
from interp_compose.interventions.pool_at import needs
from interp_compose.interventions.transplants import VECTORS, Places, Vector, entering
from interp_compose.models.lens_model import LensModel
from interp_compose.stats.intervals import wilson_interval
from interp_compose.stats.seeds import holm, mean_interval
from interp_compose.studies.cap.options import CapOptions
from interp_compose.studies.core.inputs import AnswerTargets, PreparedExample, PromptBatch, prepare
from interp_compose.types import Span

NOUNS: Final = Path(__file__).parent / "texts" / "nouns.jsonl"
OPTIONS: Final = CapOptions(unit="span", multi_token_answers=True)
BATCH: Final = 12
"""Pairs whose streams run together."""
NEAR: Final = 1
"""Words by which a noun moved that counts as near."""
ANSWERS: Final = ("composed", "own")
Values = dict[tuple[int, str, Vector], Float[np.ndarray, "pair 2"]]
"""By layer, pooling and vector: the log-probabilities (nats) of both translations."""


@dataclass(frozen=True)
class Noun:
    """A noun in its sentence; ``kind`` is "" in Portuguese, whose words the texts do not mark."""

    text: str
    word: str
    agreement: str
    kind: str

    @property
    def span(self) -> Span:
        """Where it is in the text."""
        (place,) = re.finditer(rf"\b{re.escape(self.word)}\b", self.text)
        return place.span()

    @property
    def n_before(self) -> int:
        """Words before it."""
        return len(self.text[: self.span[0]].split())

    def replaced_by(self, word: str) -> str:
        """The text with another word in its place."""
        low, high = self.span
        return self.text[:low] + word + self.text[high:]


@dataclass(frozen=True)
class Pair:
    """The sentence that receives a noun, the one that gives it, and one of the control."""

    target: Noun
    source: Noun
    other: Noun

    @property
    def composed(self) -> str:
        """The target with the source's noun."""
        return self.target.replaced_by(self.source.word)

    @property
    def moved(self) -> int:
        """By how many words the noun that is given stood elsewhere in its own sentence."""
        return abs(self.source.n_before - self.target.n_before)


def nouns_of(language: str) -> list[Noun]:
    """In the order of the file."""
    rows = [json.loads(line) for line in TEXTS.read_text(encoding="utf-8").splitlines()]
    lines = NOUNS.read_text(encoding="utf-8").splitlines()
    marked = [noun for line in lines if (noun := json.loads(line))["language"] == language]
    return [
        Noun(
            rows[noun["sentence"]][language],
            noun["word"],
            noun["agreement"],
            rows[noun["sentence"]]["words"][noun["word"]] if language == "en" else "",
        )
        for noun in marked
    ]


def drawn_pairs(nouns: Sequence[Noun], language: str, seed: int) -> list[Pair]:
    """Each noun once as the target's, once as the source's, and once as the control's.

    Raises:
        ValueError: an agreement with fewer than three nouns.
    """
    rng = np.random.default_rng(seed)
    pairs: list[Pair] = []
    for agreement in dict.fromkeys(noun.agreement for noun in nouns):
        of_class = [noun for noun in nouns if noun.agreement == agreement]
        if len(of_class) < 3:
            raise ValueError(f"{len(of_class)} {agreement} nouns: expected 3 or more to exchange")
        fits = False
        while not fits:
            order = [of_class[i] for i in rng.permutation(len(of_class))]
            # A cycle: each gives its noun to the one before it, and the control's to the second.
            drawn = [Pair(order[i - 2], order[i - 1], order[i]) for i in range(len(order))]
            fits = language != "en" or all(
                follows_article(pair.target, noun.word)
                for pair in drawn
                for noun in (pair.source, pair.other)
            )
        pairs += drawn
    return pairs


def follows_article(target: Noun, word: str) -> bool:
    """Whether an English word can take the noun's place: after *a* no vowel, after *an* one."""
    article = re.search(r"\b(an?) $", target.text[: target.span[0]], re.IGNORECASE)
    return article is None or (word[0] in "aeiou") == (article[1].lower() == "an")


def measured(
    *, model: str, language: str, layers: Sequence[int], poolings: Sequence[str], seed: int
) -> dict[str, Any]:
    """The log-probabilities of both translations under every vector, and what they come to.

    Pairs whose translations are the same are left out.
    """
    lens = ic.load_model(model)
    nouns = nouns_of(language)
    check_pieces(lens, nouns)
    every = drawn_pairs(nouns, language, seed)
    translations = translated(lens, [*(pair.composed for pair in every), *texts_of(every)])
    both = list(zip(translations[: len(every)], translations[len(every) :], strict=True))
    chosen = [i for i, (composed, own) in enumerate(both) if composed != own]
    pairs, answers = [every[i] for i in chosen], [both[i] for i in chosen]
    clean = {
        "own": clean_logprobs(lens, texts_of(pairs), answers),
        "composed": clean_logprobs(lens, [pair.composed for pair in pairs], answers),
    }
    values = transplanted(lens, pairs, answers, layers, poolings, seed)
    kinds = [pair.source.kind for pair in pairs]
    return {
        "config": {
            "model": lens.name,
            "language": language,
            "layers": list(layers),
            "poolings": list(poolings),
            "seed": seed,
            "n_nouns": len(every),
            "n_same_translation": len(every) - len(pairs),
            "n_pairs": len(pairs),
        },
        "pairs": [
            {
                "target": pair.target.text,
                "word": pair.target.word,
                "given": pair.source.word,
                "given_kind": pair.source.kind,
                "given_from": pair.source.text,
                "control": pair.other.word,
                "moved": pair.moved,
                **dict(zip(ANSWERS, translated_as, strict=True)),
            }
            for pair, translated_as in zip(pairs, answers, strict=True)
        ],
        "clean": {text: by_answer(of_text) for text, of_text in clean.items()},
        "outcomes": [
            {"layer": layer, "pooling": how, "vector": vector, **by_answer(of_pairs)}
            for (layer, how, vector), of_pairs in values.items()
        ],
        **compared(values, clean, layers, poolings),
        "kinds": of_kinds(values, clean, kinds, layers, poolings[0]),
        "moved": by_distance(values, [pair.moved for pair in pairs], layers, poolings[0]),
    }


def texts_of(pairs: Sequence[Pair]) -> list[str]:
    return [pair.target.text for pair in pairs]


def by_answer(logprobs: Float[np.ndarray, "pair 2"]) -> dict[str, list[float]]:
    """Nats by pair."""
    return {name: logprobs[:, i].round(4).tolist() for i, name in enumerate(ANSWERS)}


# ---- runs --------------------------------------------------------------------------------


def check_pieces(lens: LensModel, nouns: Sequence[Noun]) -> None:
    """Refuse a noun of one piece, which pooling does not change.

    Raises:
        ValueError: names it.
    """
    examples = [ic.Example(noun.text, "", spans=(noun.span,)) for noun in nouns]
    items, _ = prepare(lens, examples, OPTIONS, answered=False)
    for noun, item in zip(nouns, items, strict=True):
        if not item.affected:
            raise ValueError(f"{noun.word!r} is one piece in {noun.text!r}: mark a longer noun")


def prepared(
    lens: LensModel, nouns: Sequence[Noun], answers: Sequence[str]
) -> list[PreparedExample]:
    """Sentences with their nouns as units, and an answer each."""
    examples = [
        ic.Example(noun.text, answer, spans=(noun.span,))
        for noun, answer in zip(nouns, answers, strict=True)
    ]
    items, _ = prepare(lens, examples, OPTIONS)
    return items


@torch.no_grad()
def clean_logprobs(
    lens: LensModel, texts: Sequence[str], answers: Sequence[tuple[str, str]]
) -> Float[np.ndarray, "pair 2"]:
    """Of both translations, without an intervention."""
    examples = [
        ic.Example(text, answer, spans=())
        for text, both in zip(texts, answers, strict=True)
        for answer in both
    ]
    items, _ = prepare(lens, examples, OPTIONS)
    parts = []
    for start in range(0, len(items), 2 * BATCH):
        chunk = items[start : start + 2 * BATCH]
        batch = PromptBatch.of([item.prompt for item in chunk], lens.device)
        of_answers = AnswerTargets.of(chunk, lens.device)
        logits = lens.forward(batch.tokens, attention_mask=batch.mask, read=of_answers.read)
        parts.append(logprobs(logits, of_answers.answers))
    return np.concatenate(parts).reshape(-1, len(ANSWERS))


@torch.no_grad()
def transplanted(
    lens: LensModel,
    pairs: Sequence[Pair],
    answers: Sequence[tuple[str, str]],
    layers: Sequence[int],
    poolings: Sequence[str],
    seed: int,
) -> Values:
    """Under every vector; under the controls of another word and of a random direction by the
    first pooling alone."""
    lens.require("resume", *needs("collapse", False))
    drawn = torch.Generator().manual_seed(seed)
    directions = torch.randn(len(pairs), lens.d_model, generator=drawn)
    cells: list[tuple[int, str, Vector]] = [
        (layer, how, vector)
        for layer in layers
        for how in poolings
        for vector in (VECTORS if how == poolings[0] else VECTORS[:2])
    ]
    values = {cell: np.empty((len(pairs), len(ANSWERS))) for cell in cells}
    # Translations of like length together: shorter ones are padded.
    order = sorted(range(len(pairs)), key=lambda i: max(map(len, answers[i])))
    for start in range(0, len(pairs), BATCH):
        chosen = order[start : start + BATCH]
        batch = [pairs[i] for i in chosen], [answers[i] for i in chosen], directions[chosen]
        for cell, of_pairs in of_batch(lens, *batch, cells).items():
            values[cell][chosen] = of_pairs
    return values


def of_batch(
    lens: LensModel,
    pairs: Sequence[Pair],
    answers: Sequence[tuple[str, str]],
    directions: Float[Tensor, "pair d_model"],
    cells: Sequence[tuple[int, Any, Vector]],
) -> Values:
    """Of each cell. A row is a pair and one of its two translations, which the decoder reads."""
    # 1. Clean runs of the targets with each translation, and of the nouns that are given.
    twice = [pair for pair in pairs for _ in ANSWERS]
    flat = [answer for both in answers for answer in both]
    rows = prepared(lens, [pair.target for pair in twice], flat)
    givers = [*(pair.source for pair in twice), *(pair.other for pair in twice)]
    given = prepared(lens, givers, flat * 2)  # the encoder reads no translation
    targets = PromptBatch.of([item.prompt for item in rows], lens.device)
    sources = PromptBatch.of([item.prompt for item in given], lens.device)
    of_answers = AnswerTargets.of(rows, lens.device)
    hooks = [f"blocks.{layer}.hook_resid_pre" for layer in dict.fromkeys(cell[0] for cell in cells)]
    resid, given_resid = (
        lens.capture(batch.tokens, hooks, attention_mask=batch.mask, read="last")[1]
        for batch in (targets, sources)
    )
    # 2. The noun of each target is one position.
    places = places_of(rows, given, targets, sources)
    layout = places.layout
    positions = layout.positions(lens.positions(targets.tokens, targets.mask))
    direction = directions.to(lens.device).repeat_interleave(len(ANSWERS), dim=0)
    values = {}
    for layer, how, vector in cells:
        # 3. That position holds the vector: [row group d_model].
        hook = f"blocks.{layer}.hook_resid_pre"
        entry = entering(
            *(resid[hook], given_resid[hook], places, {how: how}, (vector,), direction, layer)
        )
        # 4. On from the layer, and what is read of the decoder.
        logits = lens.resume(
            entry,
            layer,
            attention_mask=layout.mask,
            position_ids=positions,
            read=of_answers.read,
        )
        values[layer, how, vector] = logprobs(logits, of_answers.answers).reshape(len(pairs), -1)
    return values


def places_of(
    rows: Sequence[PreparedExample],
    given: Sequence[PreparedExample],
    targets: PromptBatch,
    sources: PromptBatch,
) -> Places:
    """Where the nouns are."""
    layout = targets.layout([item.prompt.groups for item in rows])
    nouns, of_given = ([pieces_of(item) for item in items] for items in (rows, given))
    first = flags(nouns, targets).int().argmax(dim=1, keepdim=True)  # [row 1]
    differs = [
        row.prompt.ids[noun].tolist() != giver.prompt.ids[other].tolist()
        for row, noun, giver, other in zip(rows, nouns, given, of_given, strict=False)
    ]
    return Places(
        layout,
        phrase=layout.of_token.gather(1, first)[:, 0],
        source=flags(of_given, sources).long() - 1,
        differs=torch.tensor(differs).to(first.device),
    )


def pieces_of(item: PreparedExample) -> Bool[np.ndarray, "pos"]:
    """The pieces of the one noun of a sentence."""
    assert item.example.spans is not None
    ((low, high),) = item.example.spans
    starts, ends = item.prompt.offsets[: item.prompt.n_source].T
    (first, *_) = ((starts < high) & (ends > low)).nonzero()[0]
    noun: Bool[np.ndarray, "pos"] = item.prompt.groups == item.prompt.groups[first]
    return noun


def flags(of_rows: Sequence[Bool[np.ndarray, "_"]], batch: PromptBatch) -> Bool[Tensor, "row pos"]:
    """Rows of flags, False at the padding on the left."""
    padded = torch.zeros_like(batch.mask, dtype=torch.bool)
    for row, of_row in enumerate(of_rows):
        padded[row, -len(of_row) :] = torch.from_numpy(of_row)
    return padded


def logprobs(
    logits: Float[Tensor, "row pos d_vocab"], answers: Int[Tensor, "row token"]
) -> Float[np.ndarray, "row"]:
    """Of whole answers, -1 before shorter ones, at the last positions: the sum over their tokens.

    Raises:
        NonFiniteError: a log-probability is not finite.
    """
    logits = logits[:, -answers.shape[1] :]
    of_token = logits.gather(2, answers.clamp(min=0)[:, :, None])[:, :, 0]  # [row token]
    of_token = (of_token - logits.logsumexp(dim=2)).masked_fill(answers < 0, 0.0)
    if not bool(of_token.isfinite().all()):
        raise NonFiniteError("log-probabilities are NaN or infinite; load the model in float32")
    summed: Float[np.ndarray, "row"] = of_token.double().sum(dim=1).cpu().numpy()
    return summed


# ---- what they come to -------------------------------------------------------------------


def odds(logprobs: Float[np.ndarray, "*other 2"]) -> Float[np.ndarray, "*other"]:
    """Nats by which the composed sentence's translation is likelier than the target's own."""
    nats: Float[np.ndarray, "*other"] = logprobs[..., 0] - logprobs[..., 1]
    return nats


def summarised(nats: Float[np.ndarray, "pair"]) -> dict[str, float]:
    """How often the composed one is likelier, with Wilson's interval, and by how many nats, with
    Student's t interval, both of 95 %."""
    n_composed = int((nats > 0).sum())
    (share_low, share_high), (low, high) = (
        wilson_interval(n_composed, len(nats)),
        mean_interval(nats),
    )
    return {
        "share": n_composed / len(nats),
        "share_low": share_low,
        "share_high": share_high,
        "odds": float(nats.mean()),
        "odds_low": low,
        "odds_high": high,
    }


def compared(
    values: Values,
    clean: Mapping[str, Float[np.ndarray, "pair 2"]],
    layers: Sequence[int],
    poolings: Sequence[str],
) -> dict[str, Any]:
    """Shares and odds of every vector, and paired differences.

    ``differences`` are of the odds: the transplant's by a pooling minus those of ``against``, a
    vector of the same pooling, the composed text, or the transplant by another pooling. ``nats``
    are of the log-probability of one translation: of the composed one, transplant minus composed
    text, and of the own one, own noun pooled minus target.
    """

    def of_layers(how: str, vector: Vector, column: int | None = None) -> dict[int, Any]:
        every = {layer: values[layer, how, vector] for layer in layers}
        if column is None:
            return {layer: odds(each) for layer, each in every.items()}
        return {layer: each[:, column] for layer, each in every.items()}

    differences, nats = [], []
    for how in poolings:
        transplants = of_layers(how, "transplant")
        others: dict[str, dict[int, Any]] = {
            vector: of_layers(how, vector)
            for vector in VECTORS[1:]
            if (layers[0], how, vector) in values
        }
        others["composed text"] = dict.fromkeys(layers, odds(clean["composed"]))
        if how == poolings[0]:
            others |= {other: of_layers(other, "transplant") for other in poolings[1:]}
        for against, other in others.items():
            both = {layer: (transplants[layer], other[layer]) for layer in layers}
            differences += by_layer(both, pooling=how, against=against)
        lost: tuple[tuple[str, Vector], ...] = (("composed", "transplant"), ("own", "own"))
        for answer, vector in lost:
            column = ANSWERS.index(answer)
            changed = of_layers(how, vector, column)
            both = {layer: (changed[layer], clean[answer][:, column]) for layer in layers}
            nats += by_layer(both, pooling=how, answer=answer)
    frames = {
        "table": [
            {"layer": layer, "pooling": how, "vector": vector, **summarised(odds(of_pairs))}
            for (layer, how, vector), of_pairs in values.items()
        ],
        "clean_table": [
            {"text": text, **summarised(odds(of_text))} for text, of_text in clean.items()
        ],
        "differences": differences,
        "nats": nats,
    }
    return {name: plain_rows(pd.DataFrame(rows)) for name, rows in frames.items()}


def of_kinds(
    values: Values,
    clean: Mapping[str, Float[np.ndarray, "pair 2"]],
    kinds: Sequence[str],
    layers: Sequence[int],
    pooling: str,
) -> dict[str, Any]:
    """As :func:`compared`, of the pairs whose given noun is of one kind, by one pooling."""
    every = np.array(kinds)
    return {
        kind: {
            "n": int((every == kind).sum()),
            **compared(
                {cell: each[every == kind] for cell, each in values.items() if cell[1] == pooling},
                {text: each[every == kind] for text, each in clean.items()},
                layers,
                [pooling],
            ),
        }
        for kind in dict.fromkeys(kinds)
        if kind
    }


def by_distance(
    values: Values, moved: Sequence[int], layers: Sequence[int], pooling: str
) -> list[dict[str, Any]]:
    """Spearman's correlation of the transplant's odds with how far the noun moved, p by Holm over
    layers; and what pairs come to whose noun moved by one word at most, and the others."""
    near = np.array(moved) <= NEAR
    nats = [odds(values[layer, pooling, "transplant"]) for layer in layers]
    correlations = [spearmanr(moved, of_pairs) for of_pairs in nats]
    corrected = holm([float(each.pvalue) for each in correlations])
    rows = [
        {
            "layer": layer,
            "near": bool(is_near),
            "n": int((near == is_near).sum()),
            "rho": float(correlation.statistic),
            "p_holm": float(p),
            **summarised(of_pairs[near == is_near]),
        }
        for layer, of_pairs, correlation, p in zip(
            layers, nats, correlations, corrected, strict=True
        )
        for is_near in (True, False)
    ]
    return plain_rows(pd.DataFrame(rows))
