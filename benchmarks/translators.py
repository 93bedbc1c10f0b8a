"""Where do small translators put words together? Runs ``translators_*``.

240 sentences of our own with a translation of ours (``texts/translation.jsonl``), words of several
pieces marked by kind: ``rare`` (one stem), ``affix`` (a stem with a prefix or suffix) and
``compound`` (two stems). The answer is the whole translation that the model itself gives, and with
``reference`` ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

import interp_compose as ic
from benchmarks.cap_outcomes import by_example
from benchmarks.common import IMAGES, plain_rows
from interp_compose.stats.seeds import Values, holm, paired_difference

TEXTS: Final = Path(__file__).parent / "texts" / "translation.jsonl"
AGAINST: Final = ("shuffled", "straddling", "last", "first")
Row = Mapping[str, Any]


def measured(
    folder: Path, model: str, source: str, target: str, layers: Sequence[int], kinds: Sequence[str]
) -> dict[str, Any]:
    """CAP of the encoder: of all words, of those of each kind, and with our translations as the
    answers.

    Intervals and p are Student's t over sentences, paired; p by Holm over layers.
    """
    lens = ic.load_model(model)
    rows = [json.loads(line) for line in TEXTS.read_text(encoding="utf-8").splitlines()]
    texts = [row[source] for row in rows]
    translations = translated(lens, texts)
    own = examples(texts, translations)
    options: dict[str, Any] = {"multi_token_answers": True, "layers": layers}
    curve = ic.cap_curve(lens, own, pooling=["mean"], **options, resume=folder / "words")
    print(curve.summary())
    curve.save(folder / "cap", overwrite=True)
    curve.plot(value="target_logprob").save(IMAGES / f"translators_{source}_{target}.png")
    kept: dict[str, Any] = {
        "config": {key: v for key, v in curve.config.items() if "sha256" not in key},
        "translations": translations,
        "curve": plain_rows(curve.frame),
        "clean": plain_rows(curve.clean[["example", "correct", "target_logprob"]]),
        **compared(curve),
    }
    for kind in kinds:
        of_kind = [
            ic.Example(text, translation, spans=spans)
            for row, text, translation in zip(rows, texts, translations, strict=True)
            if (spans := spans_of(text, words_of(lens, row["words"], kind)))
        ]
        part = ic.cap_curve(
            lens, of_kind, unit="span", pooling=["mean"], **options, resume=folder / kind
        )
        print(kind, part.summary())
        n_words = sum(len(example.spans or ()) for example in of_kind)
        kept[kind] = {"n_words": n_words, "n": len(of_kind), **compared(part)}
    ours = examples(texts, [row[target] for row in rows])
    reference = ic.cap_curve(lens, ours, pooling=["mean"], **options, resume=folder / "reference")
    kept["reference"] = compared(reference)
    return kept


def compared(curve: ic.CapCurve) -> dict[str, Any]:
    """What is kept of a curve's sentences, and what of them the tables print."""
    return {"outcomes": by_example(curve.outcomes), "differences": differences(curve)}


def translated(lens: Any, texts: Sequence[str]) -> list[str]:
    """Greedily, as the model gives it."""
    batches = [texts[i : i + 40] for i in range(0, len(texts), 40)]
    return [text for batch in batches for text in lens.generate(batch, max_new_tokens=60)]


def examples(texts: Iterable[str], answers: Iterable[str]) -> list[ic.Example]:
    return [ic.Example(text, answer) for text, answer in zip(texts, answers, strict=True)]


def words_of(lens: Any, marked: Mapping[str, str], kind: str) -> list[str]:
    """The words of a kind that have several pieces."""
    tokenizer = lens.tokenizer
    of_kind = [word for word, its_kind in marked.items() if its_kind == kind]
    return [word for word in of_kind if len(tokenizer.tokenize(f" {word}")) > 1]


def spans_of(text: str, words: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Where the words are, in the order of the text."""
    places = [re.search(rf"\b{re.escape(word)}\b", text) for word in words]
    return tuple(sorted(place.span() for place in places if place is not None))


def differences(curve: ic.CapCurve) -> list[dict[str, Any]]:
    """``mean`` minus each control, by layer, in nats a sentence."""
    names = {"difference": "mean", "ci_low": "low", "ci_high": "high"}
    columns = ["against", "layer", *names.values(), "p", "p_holm"]
    tables = [
        curve.differences("mean", control, value="target_logprob").assign(against=control)
        for control in AGAINST
    ]
    return plain_rows(pd.concat(tables).rename(columns=names)[columns])


def by_layer(pairs: Mapping[int, tuple[Values, Values]], **place: str) -> list[dict[str, Any]]:
    """The first values minus the second, paired, by layer; p by Holm over layers."""
    paired = {layer: paired_difference(*values) for layer, values in pairs.items()}
    corrected = holm([one.p for one in paired.values()])
    return [
        {
            **place,
            "layer": layer,
            "mean": one.difference,
            "low": one.ci_low,
            "high": one.ci_high,
            "p": one.p,
            "p_holm": float(p),
        }
        for (layer, one), p in zip(paired.items(), corrected, strict=True)
    ]
