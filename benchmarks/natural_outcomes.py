"""What is measured on a real model with the sentences of ``agreement``: runs ``*_agreement``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import torch

import interp_compose as ic
from benchmarks.cap_outcomes import by_example
from benchmarks.common import IMAGES, plain_rows
from interp_compose.checks import drawn
from interp_compose.stats.intervals import wilson_interval
from interp_compose.stats.paired_shares import paired_shares
from interp_compose.stats.seeds import holm, paired_difference
from interp_compose.tasks.natural import Item, read
from interp_compose.types import Span

SUBJECT: Final = re.compile(r"The baker.*?here\. The (\w+) \w+ the \w+ (\w+), of course,$")
"""The last sentence of a prompt: the head of its subject, and the noun nearer to the verb."""
WORDS: Final = ("head", "nearer noun")
DEMONSTRATED: Final = "noun of a demonstration"


def words_of(prompt: str) -> list[tuple[int, int, str]]:
    """Character ranges of the words that are knocked out, and what each is.

    Raises:
        ValueError: the prompt has another form.
    """
    match = SUBJECT.search(prompt)
    if match is None:
        raise ValueError(f"{prompt!r} does not end in a subject of 'agreement'")
    start = prompt.index("baker")
    words = [(*match.span(number + 1), word) for number, word in enumerate(WORDS)]
    return [(start, start + len("baker"), DEMONSTRATED), *words]


def knocked_out(out: Path, *, model: str, layers: Sequence[int]) -> dict[str, Any]:
    """Later positions cannot attend to a word in layer ℓ and all above: the head of the subject,
    and two controls."""
    if not (out / "result.json").exists():
        lens = ic.load_model(model)
        examples = [
            replace(each, spans=tuple((low, high) for low, high, _ in words_of(each.prompt)))
            for each in ic.load_task("agreement", lens).test
        ]
        measured = ic.ablation_curve(
            lens, examples, what="words", unit="span", tagger=words_of, layers=layers, resume=out
        )
        measured.save(out, overwrite=True)
    curve = ic.AblationCurve.load(out)
    print(curve.summary())
    curve.plot().save(IMAGES / "ablation_agreement.png")
    return {
        "config": curve.config,
        "curve": plain_rows(curve.frame),
        "against_clean": against_clean(curve),
        "by_answer": by_answer(curve),
        "clean": plain_rows(curve.clean),
        "outcomes": by_example(
            curve.outcomes.merge(curve.cells, on=["example", "unit"]), ("layer", "group")
        ),
    }


@torch.no_grad()
def read_by_answer(*, model: str, layers: Sequence[int]) -> dict[str, Any]:
    """The last position alone, where the answer is predicted, cannot attend to the head of the
    subject in layer ℓ and all above; layer -1 is the clean model."""
    lens = ic.load_model(model)
    rows: list[dict[str, Any]] = []
    for number, each in enumerate(ic.load_task("agreement", lens).test):
        encoded = lens.tokenizer(each.prompt, return_offsets_mapping=True)
        low, high = next((low, high) for low, high, word in words_of(each.prompt) if word == "head")
        keys = [at for at, (a, b) in enumerate(encoded["offset_mapping"]) if a < high and b > low]
        (answer,) = lens.tokenizer(each.answer, add_special_tokens=False).input_ids
        tokens = torch.tensor([encoded["input_ids"]])
        for layer in (-1, *layers):
            with ExitStack() as masks:
                if layer >= 0:
                    above = list(range(layer, lens.n_layers))
                    masks.enter_context(
                        ic.mask_attention(lens, keys=keys, queries=-1, layers=above)
                    )
                logprobs = lens.forward(tokens, read="last")[0, -1].double().log_softmax(0)
            prediction = int(logprobs.argmax())
            rows.append(
                {
                    "example": number,
                    "layer": layer,
                    "answer": each.answer,
                    "correct": prediction == answer,
                    "prediction": prediction,
                    "target_logprob": round(float(logprobs[answer]), 4),
                }
            )
    frame = pd.DataFrame(rows)
    right = frame.pivot(index="example", columns="layer", values="correct")
    shares = []
    for layer in layers:
        low, high = wilson_interval(int(right[layer].sum()), len(right))
        paired = paired_shares(right[layer].to_numpy(bool), right[-1].to_numpy(bool))
        accuracy = {"accuracy": float(right[layer].mean()), "low": float(low), "high": float(high)}
        shares.append({"layer": layer, **accuracy, **vars(paired)})
    corrected = holm([row["p"] for row in shares])
    print(pd.DataFrame(shares).to_string())
    return {
        "table": [{**row, "p_holm": p} for row, p in zip(shares, corrected, strict=True)],
        "outcomes": [
            {"layer": layer, **part.drop(columns=["layer", "example"]).to_dict("list")}
            for layer, part in frame.groupby("layer")
        ],
    }


def _right(curve: ic.AblationCurve) -> pd.DataFrame:
    """Whether each example is right, by layer and kind of word."""
    rows = curve.outcomes.merge(curve.cells, on=["example", "unit"])
    return rows.pivot(index="example", columns=["layer", "group"], values="correct")


def against_clean(curve: ic.AblationCurve) -> list[dict[str, Any]]:
    """Each knock-out's accuracy minus the clean model's, paired by example; Holm over all rows."""
    right = _right(curve)
    clean = curve.clean.set_index("example")["correct"]
    rows: list[dict[str, Any]] = []
    for place, each in right.items():
        shares = paired_shares(each.to_numpy(bool), clean[right.index].to_numpy(bool))
        rows.append({**dict(zip(("layer", "group"), place, strict=True)), **vars(shares)})
    corrected = holm([row["p"] for row in rows])
    return [{**row, "p_holm": p} for row, p in zip(rows, corrected, strict=True)]


def by_answer(curve: ic.AblationCurve) -> list[dict[str, Any]]:
    """Accuracy by layer, kind of word and right answer."""
    rows = curve.outcomes.merge(curve.cells, on=["example", "unit"])
    rows = rows.merge(curve.clean[["example", "answer"]], on="example")
    shares = rows.groupby(["layer", "group", "answer"], sort=False)["correct"].agg(["mean", "size"])
    return plain_rows(shares.reset_index().rename(columns={"mean": "accuracy", "size": "n"}))


def heads(curve: ic.AblationCurve) -> list[dict[str, Any]]:
    """What ablating each head changes of the right answer's log-probability (nats)."""
    return of_each_head(curve.outcomes, curve.clean, "target_logprob")


def of_each_head(outcomes: pd.DataFrame, clean: pd.DataFrame, value: str) -> list[dict[str, Any]]:
    """What ablating each head changes of a value: paired by example, Student's t, Holm over all
    heads; and of each example in their order."""
    values = clean.set_index("example")[value]
    of_heads: list[dict[str, Any]] = []
    for place, each in outcomes.sort_values("example").groupby(["layer", "unit"]):
        before, after = values[each["example"]].to_numpy(), each[value].to_numpy()
        paired = paired_difference(after, before)
        of_heads.append(
            {
                **dict(zip(("layer", "head"), place, strict=True)),
                **{name: getattr(paired, name) for name in ("difference", "ci_low", "ci_high")},
                "p": paired.p,
                "accuracy": float(each["correct"].mean()),
                "changes": (after - before).round(4).tolist(),
            }
        )
    corrected = holm([row["p"] for row in of_heads])
    return [{**row, "p_holm": p} for row, p in zip(of_heads, corrected, strict=True)]


INSIDE: Final = "inside another subject"
ALONE: Final = "the subject itself"


def transplant_pairs(seed: int) -> list[ic.TransplantPair]:
    """A noun phrase of two words takes the place of one of the other number, which is the subject.

    It is read where it is part of a subject of the other number (:data:`INSIDE`; the source's own
    answer is then the wrong one), and where it is the subject itself (:data:`ALONE`); the same
    phrase and target both times.
    """
    template, items, _ = read("agreement")
    order = np.random.default_rng(seed).permutation(len(items)).tolist()
    pairs: dict[str, list[ic.TransplantPair]] = {INSIDE: [], ALONE: []}
    for item in items:
        # The next item, in a random order, whose nearer noun has the other number than this one's.
        order = [*order[1:], order[0]]
        other = next(items[at] for at in order if items[at].foil == item.answer)
        phrase, (target, target_span) = _nearer(item), _alone(template, _nearer(other))
        inside = item.example(template).prompt
        start = inside.rindex(phrase)
        for kind, (source, span), own in (
            (INSIDE, (inside, (start, start + len(phrase))), item.answer),
            (ALONE, _alone(template, phrase), ""),
        ):
            pair = ic.TransplantPair(
                source=source,
                source_span=span,
                target=target,
                target_span=target_span,
                expected=item.foil,
                answer=other.foil,
                composed=_alone(template, phrase)[0],
                source_type=kind,
                target_type=kind,
                source_answer=own,
            )
            pairs[kind].append(pair)
    return [*pairs[INSIDE], *pairs[ALONE]]


def _nearer(item: Item) -> str:
    """The noun next to the verb, and the word before it."""
    return " ".join(item.text.strip("[]").split()[-2:])


def _alone(template: str, phrase: str) -> tuple[str, Span]:
    """The prompt whose subject is the phrase, and the phrase's place."""
    start = template.index("{}") + len("The ")
    return template.replace("{}", f"The {phrase}"), (start, start + len(phrase))


def transplanted(out: Path, *, model: str, layers: Sequence[int], seed: int) -> dict[str, Any]:
    """The mean of a phrase's tokens in the place of another subject, by where it was read."""
    if not (out / "result.json").exists():
        lens = ic.load_model(model)
        measured = ic.transplant(
            lens, transplant_pairs(seed), layers=layers, pooling="mean", seed=seed, resume=out
        )
        measured.save(out, overwrite=True)
    result = ic.Transplants.load(out)
    print(result.summary())
    rows = result.outcomes.merge(result.pairs[["pair", "type"]], on="pair").sort_values("pair")
    clean = result.clean.merge(result.pairs[["pair", "type"]], on="pair").sort_values("pair")
    return {
        "config": result.config,
        "table": [
            {"layer": layer, "vector": vector, "type": kind, **shares_of(each, RIGHT)}
            for (layer, vector, kind), each in rows.groupby(["layer", "vector", "type"], sort=False)
        ],
        "clean": [
            {"run": run, "type": kind, **shares_of(each, RIGHT)}
            for (run, kind), each in clean.groupby(["run", "type"], sort=False)
        ],
        "inside_less_alone": _inside_less_alone(rows),
        "pairs": plain_rows(result.pairs.drop(columns=["source", "target", "composed"])),
        "outcomes": [
            {
                "layer": layer,
                "vector": vector,
                "expected_right": "".join(map(str, each["expected_right"].astype(int))),
                "answer_right": "".join(map(str, each["answer_right"].astype(int))),
                "expected_logprob": each["expected_logprob"].round(4).tolist(),
                "answer_logprob": each["answer_logprob"].round(4).tolist(),
            }
            for (layer, vector), each in rows.groupby(["layer", "vector"], sort=False)
        ],
    }


RIGHT: Final = {"expected": "expected_right", "answer": "answer_right"}
"""The columns of which :func:`transplanted` gives shares."""


def shares_of(rows: pd.DataFrame, columns: Mapping[str, str]) -> dict[str, Any]:
    """Of columns that are true or false, each by its name here, with Wilson's intervals."""
    found: dict[str, Any] = {"n": len(rows)}
    for name, column in columns.items():
        right = int(rows[column].sum())
        low, high = wilson_interval(right, len(rows))
        found |= {name: right / len(rows), f"{name}_low": float(low), f"{name}_high": float(high)}
    return found


def _inside_less_alone(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The expected answer's share where the phrase was part of another subject, less where it was
    the subject; paired by phrase and target, Holm over layers."""
    moved = rows[rows["vector"] == "transplant"]
    differences = []
    for layer, each in moved.groupby("layer"):
        right = {kind: part["expected_right"] for kind, part in each.groupby("type")}
        shares = paired_shares(right[INSIDE].to_numpy(bool), right[ALONE].to_numpy(bool))
        differences.append({"layer": layer, **vars(shares)})
    corrected = holm([row["p"] for row in differences])
    return [{**row, "p_holm": p} for row, p in zip(differences, corrected, strict=True)]


def leaks(*, model: str, texts: int, seed: int) -> dict[str, Any]:
    """What other tokens in the place of a subject's head change at the positions after it, under
    both modes of the mask; text by text."""
    lens = ic.load_model(model)
    rows = []
    for each in drawn(ic.load_task("agreement", lens).test, texts, seed):
        low, high = next((low, high) for low, high, word in words_of(each.prompt) if word == "head")
        for mode in ("exclude", "zero"):
            leak = ic.attention_leak(lens, each.prompt, keys=each.prompt[low:high], mode=mode)
            rows.append({"prompt": each.prompt, "mode": mode, **vars(leak)})
    return {"model": lens.name, "seed": seed, "rows": rows}
