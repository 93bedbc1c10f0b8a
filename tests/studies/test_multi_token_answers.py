"""Answers of several tokens: whole log-probabilities and exact match, against the blocks of a GPT-2
run one after another by hand, in float64."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

import interp_compose as ic
from interp_compose.errors import AnswerError, InputError, OptionError, PromptError
from interp_compose.interventions.control_spans import shuffled_groups, straddled_groups
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example
from tests import architectures
from tests.interventions.reference import pool
from tests.studies.test_transplant import PAIRS

UNITS = (
    [0, 0, 1, 2, 2, 2, 3],
    [0, 1, 1, 1, 2, 3, 3, 4, 5],
    [0, 1, 1, 2],
    [0, 0, 0, 0, 1, 2, 3, 3, 4],
    [0, 1, 2, 3, 4, 5, 5, 6],
    [0, 1, 2, 3],  # pooling cannot change it
)
"""Of each token of a prompt."""
ANSWERED = (("clean", 0, 4), ("mean", 1, 3), ("last", 2, 1), ("shuffled", 0, 2), ("max", 2, 4))
"""By which protocol at which layer the model gives the answer, and its length."""
SEED = 5


class Hand(NamedTuple):
    """A GPT-2 of float64, in which a token is a number."""

    module: Any

    def logits(
        self, ids: list[int], units: list[int], layer: int, how: str, vector: Any = None
    ) -> Tensor:
        """``[position d_vocab]``; from ``layer`` on each unit is one position, -1 stays alone; the
        first unit is ``vector``, if there is one."""
        body = self.module.transformer
        resid = body.wte(torch.tensor([ids])) + body.wpe(torch.arange(len(ids)))
        for number, block in enumerate(body.h):
            if number == layer and how != "clean":
                places: dict[Any, list[int]] = {}
                for place, unit in enumerate(units):
                    places.setdefault(unit if unit >= 0 else ("alone", place), []).append(place)
                resid = torch.stack([pool(resid[0, at], how) for at in places.values()])[None]
                if vector is not None:
                    resid[0, units.index(0)] = vector
            out = block(resid)
            resid = out[0] if isinstance(out, tuple) else out
        logits: Tensor = self.module.lm_head(body.ln_f(resid))[0]
        return logits

    def pooled(self, ids: list[int], at: slice, layer: int, how: str) -> Tensor:
        """The vector of some tokens as they enter a layer."""
        body = self.module.transformer
        resid = body.wte(torch.tensor([ids])) + body.wpe(torch.arange(len(ids)))
        for block in body.h[:layer]:
            out = block(resid)
            resid = out[0] if isinstance(out, tuple) else out
        return pool(resid[0, at], how)

    def greedy(
        self, ids: list[int], units: list[int], layer: int, how: str, n: int, like: Any = None
    ) -> list[int]:
        """The ``n`` tokens that follow, each of them run before the next; no more once they are not
        ``like`` others."""
        found: list[int] = []
        while len(found) < n and found == (like or found)[: len(found)]:
            alone = [-1] * len(found)
            logits = self.logits([*ids, *found], [*units, *alone], layer, how)
            found.append(int(logits[-1].argmax()))
        return found


def numbers() -> Any:
    """A tokenizer whose tokens are numbers between blanks."""
    vocabulary = {str(number or "<unk>"): number for number in range(architectures.D_VOCAB)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def text(ids: list[int]) -> str:
    return "".join(f" {number}" for number in ids)


def example(ids: list[int], units: list[int], answer: list[int]) -> Example:
    """The units are spans of its prompt, all but the last token's."""
    ends = np.cumsum([len(f" {number}") for number in ids])
    starts = ends - [len(str(number)) for number in ids]
    places = [np.flatnonzero(np.array(units) == unit) for unit in range(max(units))]
    spans = tuple((int(starts[at[0]]), int(ends[at[-1]])) for at in places)
    return Example(text(ids), text(answer), spans=spans)


def how_of(protocol: str, ids: list[int], units: list[int], index: int) -> tuple[list[int], str]:
    if protocol == "straddling":
        left_first = crc32(text(ids).encode()) % 2 == 0
        return straddled_groups(units, left_first=left_first), "mean"
    if protocol == "shuffled":
        return shuffled_groups(units, seed=SEED, example=index), "mean"
    return units, protocol


@pytest.fixture(scope="module")
def hand() -> Hand:
    return Hand(architectures.build("GPT-2").double().eval())


@pytest.fixture(scope="module")
def gpt2(hand: Hand) -> LensModel:
    module = copy.deepcopy(hand.module).float()
    module.set_attn_implementation("eager")
    return load_model(module, tokenizer=numbers())


@pytest.fixture(scope="module")
def cases(hand: Hand) -> list[tuple[list[int], list[int], list[int]]]:
    """Tokens, units and answer. Some protocol gives each answer, but for the last token of one."""
    drawn = np.random.default_rng(3)
    found = []
    with torch.no_grad():
        for index, units in enumerate(UNITS):
            ids = drawn.integers(1, architectures.D_VOCAB, len(units)).tolist()
            protocol, layer, n = ANSWERED[index % len(ANSWERED)]
            how = how_of(protocol, ids, units, index)
            answer = hand.greedy(ids, how[0], layer, how[1], n)
            found.append((ids, units, answer))
    ids, units, answer = found[-1]
    found[-1] = (ids, units, [*answer[:-1], (answer[-1] + 1) % architectures.D_VOCAB])
    assert all(0 not in answer for _, _, answer in found)  # the unknown token
    return found


@torch.no_grad()
def test_whole_answers_equal_a_run_by_hand_and_exact_match_greedy_decoding(
    hand: Hand, gpt2: LensModel, cases: list[tuple[list[int], list[int], list[int]]]
) -> None:
    examples = [example(*case) for case in cases]
    curve = ic.cap_curve(
        gpt2,
        examples,
        unit="span",
        multi_token_answers=True,
        seed=SEED,
        batch_size=4,
        progress=False,
    )
    clean = curve.clean.assign(layer=0, pooling="clean")
    rows = pd.concat([clean, curve.outcomes]).to_dict("records")
    assert len(rows) == len(cases) * (1 + 7 * gpt2.n_layers)
    half_right = 0
    for row in rows:
        ids, units, answer = cases[row["example"]]
        units, how = how_of(row["pooling"], ids, units, row["example"])
        alone = [-1] * (len(answer) - 1)
        every = hand.logits([*ids, *answer[:-1]], [*units, *alone], row["layer"], how)
        every = every[-len(answer) :]
        wanted = every[range(len(answer)), answer]
        expected = float((wanted - every.logsumexp(1)).sum())
        assert abs(row["target_logprob"] - expected) <= 1e-4
        assert row["target_rank"] == 1 + int((every > wanted[:, None]).sum(1).max())
        assert row["prediction"] == int(every[0].argmax())
        greedy = hand.greedy(ids, units, row["layer"], how, len(answer), answer)
        assert row["correct"] == (greedy == answer)
        half_right += row["prediction"] == answer[0] and not row["correct"]
    assert half_right  # else exact match was not told from the first token
    right = curve.outcomes[curve.outcomes["correct"]]
    for index, (protocol, layer, _) in enumerate(ANSWERED[1:], 1):
        assert len(right.query(f"example == {index} & pooling == '{protocol}' & layer == {layer}"))
    assert curve.clean["correct"].tolist()[0]
    assert curve.clean["n_tokens"].tolist() == [len(units) for units in UNITS]
    assert curve.config["answer_tokens"] == {"1": 1, "2": 1, "3": 1, "4": 3}
    for figure in (curve.plot(), ic.compare_curves({"one": curve, "two": curve})):
        assert "answers of 1 to 4 tokens" in figure.chart.subtitle
    assert "! answers of 1 to 4 tokens (1 of 1, 1 of 2, 1 of 3, 3 of 4): right" in curve.summary()


def test_one_by_one_equals_a_batch_of_several_lengths(
    gpt2: LensModel, cases: list[tuple[list[int], list[int], list[int]]]
) -> None:
    examples = [example(*case) for case in cases]
    for study, more in (
        (ic.cap_curve, {"mode": "broadcast", "layers": [1]}),
        (ic.ablation_curve, {"layers": [1]}),
    ):
        options: dict[str, Any] = {"unit": "span", "multi_token_answers": True, **more}
        one = study(gpt2, examples, batch_size=1, progress=False, **options)
        many = study(gpt2, examples, batch_size=4, progress=False, **options)
        for name in ("outcomes", "clean"):
            pd.testing.assert_frame_equal(one.frames[name], many.frames[name], atol=1e-5, rtol=0)


LONG = (
    ([5, 6, 7, 8], slice(1, 3), [9, 10, 11, 12, 13], slice(1, 4), 3, [21], 2),
    ([14, 15, 16, 17, 18], slice(0, 2), [19, 20, 22, 23], slice(2, 3), 1, [24], 0),
    ([25, 26, 27], slice(1, 2), [28, 29, 30, 33, 34, 35], slice(0, 2), 2, [36, 37, 38, 39], 0),
    ([40, 41, 42, 43], slice(2, 4), [44, 45, 46], slice(0, 2), 2, None, 1),
)
"""Of each pair: source and target with their phrases, how many tokens the expected answer has, the
untouched one (None: like the expected one but for its last token), and how many the source's own
has."""


@torch.no_grad()
def test_transplants_with_whole_answers_equal_a_run_by_hand(hand: Hand, gpt2: LensModel) -> None:
    def span(ids: list[int], at: slice) -> tuple[int, int]:
        return len(text(ids[: at.start])) + 1, len(text(ids[: at.stop]))

    def units(ids: list[int], at: slice, after: int) -> list[int]:
        return [0 if at.start <= i < at.stop else -1 for i in range(len(ids) + after)]

    def moved(index: int, layer: int) -> Tensor:
        return hand.pooled(LONG[index][0], LONG[index][1], layer, "mean")

    pairs, answers = [], []
    for index, (source, of, target, at, n, answer, n_own) in enumerate(LONG):
        expected: list[int] = []  # what the transplant at layer 1 answers
        while len(expected) < n:
            at_once = units(target, at, len(expected))
            logits = hand.logits([*target, *expected], at_once, 1, "mean", moved(index, 1))
            expected.append(int(logits[-1].argmax()))
        own = hand.greedy(target, units(target, at, 0), 2, "mean", n_own)
        untouched = answer or [*expected[:-1], (expected[-1] + 1) % architectures.D_VOCAB]
        answers.append({"expected": expected, "answer": untouched, "source_answer": own})
        composed = [*target[: at.start], *source[of], *target[at.stop :]]
        texts = {name: text(ids) for name, ids in answers[-1].items()}
        given = {"source": text(source), "target": text(target), "composed": text(composed)}
        pairs.append(
            {**given, **texts, "source_span": span(source, of), "target_span": span(target, at)}
        )
    asked: dict[str, Any] = {"pooling": "mean", "multi_token_answers": True, "progress": False}
    found = ic.transplant(gpt2, pairs, seed=SEED, batch_size=3, **asked)
    donors = found.pairs["donor"].tolist()
    assert len(found.outcomes) == len(LONG) * gpt2.n_layers * 4
    rows = pd.concat([found.outcomes, found.clean.assign(layer=0, vector=found.clean["run"])])
    for row in rows.to_dict("records"):
        index, layer, vector = row["pair"], row["layer"], row["vector"]
        source, of, target, at, *_ = LONG[index]
        own, length = moved(index, layer), moved(index, layer).norm()
        vectors = {"transplant": own, "own": hand.pooled(target, at, layer, "mean")}
        others = {
            "random phrase": moved(donors[index], layer),
            "random direction": torch.from_numpy(
                np.random.default_rng([SEED, index]).standard_normal(gpt2.d_model)
            ),
        }
        vectors |= {name: one * length / one.norm() for name, one in others.items()}
        if vector == "composed":
            target = [*target[: at.start], *source[of], *target[at.stop :]]
        right = {}
        for name, answer in answers[index].items():
            grouped = units(target, at, max(len(answer) - 1, 0))
            how = "mean" if vector in vectors else "clean"
            every = hand.logits([*target, *answer[:-1]], grouped, layer, how, vectors.get(vector))
            every = every[-max(len(answer), 1) :]
            assert row["prediction"] == int(every[0].argmax())
            right[name] = bool(answer) and every.argmax(1).tolist() == answer
            if name != "source_answer":
                wanted = every[range(len(answer)), answer]
                logprob = float((wanted - every.logsumexp(1)).sum())
                assert abs(row[f"{name}_logprob"] - logprob) <= 1e-4
                assert row[f"{name}_rank"] == 1 + int((every > wanted[:, None]).sum(1).max())
                assert row[f"{name}_right"] == right[name]
        assert row["remembered"] == right["source_answer"]
    landed = found.outcomes.query("layer == 1 and vector == 'transplant'")
    assert landed["expected_right"].all()
    pooled = found.outcomes.query("layer == 2 and vector == 'own'")
    assert pooled["remembered"].tolist() == [True, False, False, True]
    assert found.config["answer_tokens"] == {"1": 3, "2": 3, "3": 1, "4": 1}
    assert "answers of 1 to 4 tokens" in found.plot().chart.subtitle
    assert "! answers of 1 to 4 tokens (3 of 1," in found.summary()
    for answer in ([*answers[0]["expected"], 3], answers[0]["expected"][:1]):
        with pytest.raises(AnswerError, match="pair 0: .* is the beginning of, its answer"):
            ic.transplant(gpt2, [{**pairs[0], "answer": text(answer)}, *pairs[1:]], **asked)


SEVERAL = (
    Example('someone who bakes bread "', "breads"),
    Example('not alive "', "a"),
    Example('a small wooden house in the mountains "', "zzqx"),
)


def teacher_forced(model: LensModel, one: Example) -> Iterator[Any]:
    """Tokens of prompt and answer but for the last, units, and the answer's tokens."""
    prompt = tokenize_prompts(model.tokenizer, [one])[0].with_last_apart()
    answer = model.tokenizer(one.answer, add_special_tokens=False)["input_ids"]
    yield torch.tensor([[*prompt.ids.tolist(), *answer[:-1]]])
    yield [*prompt.groups.tolist(), *[-1] * (len(answer) - 1)]
    yield answer


def agree(row: Any, logits: Tensor, answer: list[int]) -> None:
    every = logits[-len(answer) :].double()
    wanted = every[range(len(answer)), answer]
    assert abs(row["target_logprob"] - float((wanted - every.logsumexp(1)).sum())) <= 1e-5
    assert row["target_rank"] == 1 + int((every > wanted[:, None]).sum(1).max())


@torch.no_grad()
def test_rotary_positions_and_knockouts_equal_one_intervention_at_a_time(model: LensModel) -> None:
    options: dict[str, Any] = {"multi_token_answers": True, "layers": [1], "progress": False}
    for mode, hows in (("collapse", ("mean", "last")), ("broadcast", ("mean",))):
        controls = "last" in hows
        curve = ic.cap_curve(
            model, SEVERAL, pooling="mean", mode=mode, controls=controls, **options
        )
        rows = curve.outcomes.set_index(["example", "pooling"])
        for index, one in enumerate(SEVERAL):
            tokens, units, answer = teacher_forced(model, one)
            for how in hows:
                with pool_at(model, 1, torch.tensor([units]), how, mode=mode):
                    agree(rows.loc[(index, how)], model(tokens)[0], answer)
    assert list(curve.config["answer_tokens"]) == ["1", "3", "4"]
    some = SEVERAL[:2]
    words = ic.ablation_curve(model, some, **options)
    mlps = ic.ablation_curve(model, some, what="mlp", reach="until", **options)
    assert "answers of 1 to 3 tokens" in words.summary()
    tokens, units, answer = teacher_forced(model, some[0])
    last = units[-len(answer)]  # of the prompt, whose last token is not knocked out
    rows = words.outcomes.set_index(["example", "unit"])
    assert list(rows.loc[0].index) == list(range(last))
    for unit in range(last):
        keys = [at for at, other in enumerate(units) if other == unit]
        queries = list(range(keys[-1] + 1, len(units)))
        with mask_attention(model, keys=keys, queries=queries, layers=[1, 2]):
            agree(rows.loc[(0, unit)], model(tokens)[0], answer)
    with mask_residual(model, layers=[0, 1], part="mlp"):
        agree(mlps.outcomes.iloc[0], model(tokens)[0], answer)


def test_of_answers_of_one_token_the_option_changes_no_bit(
    model: LensModel, examples: list[Example]
) -> None:
    examples = examples[3:]
    for study in (ic.cap_curve, ic.ablation_curve):
        plain = study(model, examples, layers=[1], progress=False)
        asked = study(model, examples, layers=[1], multi_token_answers=True, progress=False)
        for name, frame in plain.frames.items():
            pd.testing.assert_frame_equal(frame, asked.frames[name], check_exact=True)
        assert asked.config["answer_tokens"] == {"1": len(examples)}
        assert asked.config["examples_sha256"] == plain.config["examples_sha256"]
        assert "answer_tokens" not in plain.config
        assert not [note for note in asked.notes if "tokens" in note]


def test_what_cannot_be_is_refused_before_any_work(model: LensModel) -> None:
    quiet: dict[str, Any] = {"progress": False}
    for study in (ic.cap_curve, ic.ablation_curve):
        with pytest.raises(
            AnswerError, match=r"and has to be one; .*multi_token_answers=True \(--m"
        ):
            study(model, SEVERAL, **quiet)
    quiet["multi_token_answers"] = True
    with pytest.raises(OptionError, match=r"answers=\['a', 'b'\]: labels have to be one token"):
        ic.cap_curve(model, SEVERAL, answers=["a", "b"], **quiet)
    with pytest.raises(InputError, match="bare texts .*so multi_token_answers=True has no meaning"):
        ic.ablation_curve(model, ["not alive"], **quiet)
    long = Example("a" + " a" * 58 + ' "', "house")
    with pytest.raises(PromptError, match="its prompt with its answer but for the last token has"):
        ic.cap_curve(model, [*SEVERAL, long], **quiet)
    kept = ic.cap_curve(model, [*SEVERAL, long], on_bad="skip", layers=[0], **quiet)
    assert kept.config["skipped"] == {"prompt": 1}
    with pytest.raises(AnswerError, match=r"'zzqx'.*or pass multi_token_answers=True \(--m"):
        ic.transplant(model, [replace(PAIRS[0], expected="zzqx")], progress=False)
    longer = replace(long, prompt=2 * long.prompt)
    for measure, rows in (("cap", SEVERAL), ("attention_leak", [longer, *SEVERAL, longer])):
        with pytest.raises(InputError, match="^2 of . examples cannot be used; correct") as told:
            ic.watch(model, measures=(measure,), examples=rows)
        assert "multi_token_answers" not in str(told.value)
        assert "on_bad" not in str(told.value)
