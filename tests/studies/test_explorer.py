"""What the page of ``ic.explore`` shows is what the library computes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
import torch

import interp_compose as ic
from interp_compose.errors import (
    CapabilityError,
    InputError,
    InterpComposeError,
    MissingPackageError,
    OptionError,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.explore import answer as answers, measure
from interp_compose.studies.explore.answer import about, answer, curve, respond
from interp_compose.studies.explore.state import ExplorerState
from interp_compose.studies.explore.words import ClickedText
from tests import architectures
from tests.studies.conftest import splitting_tokenizer
from tests.studies.similarity_reference import bert_tokenizer

TEXT = 'a young feline is called a "'
DOG = 'a young dog is called a "'
STATE = ExplorerState(text=TEXT)
STATES = {
    "words": STATE,
    "another layer and way": replace(STATE, layer=1, how="last"),
    "a phrase": replace(STATE, layer=2, units=((1, 3),)),
    "a phrase to the last word": replace(STATE, layer=1, units=((4, 7),)),
    "nothing": replace(STATE, units=()),
    "a word knocked out": replace(STATE, units=(), knocked_out=(2,)),
    "a pooled word knocked out": replace(STATE, layer=1, knocked_out=(2,)),
    "one of two alike": replace(STATE, layer=1, knocked_out=(0,), answer="puppy"),
    "heads": replace(STATE, layer=2, heads=((1, 2), (0, 0))),
    "all": replace(STATE, layer=3, how="sum", heads=((3, 1),), knocked_out=(1,), answer="kid"),
    "an answer of several tokens": replace(STATE, layer=1, answer="young feline"),
    "a transplant": replace(
        STATE, layer=1, second=DOG, transplant=((2, 3), (2, 3)), answer="puppy"
    ),
}


@pytest.fixture(scope="module")
def mini() -> LensModel:
    return ic.load_model("mini-idm", device="cpu")


@pytest.fixture(scope="module")
def encoder() -> LensModel:
    return ic.load_model(architectures.build("BERT"), tokenizer=bert_tokenizer())


@pytest.fixture(scope="module")
def translator() -> LensModel:
    return ic.load_model(architectures.build("T5"), tokenizer=splitting_tokenizer())


def now(values: dict[str, Any]) -> float:
    return float(values["numbers"][0][2])


@torch.no_grad()
def test_numbers_are_those_of_calls_that_are_written_out(mini: LensModel) -> None:
    kitten = mini.tokenizer.convert_tokens_to_ids("kitten")

    def logprobs() -> torch.Tensor:
        return mini(TEXT)[0, -1].double().log_softmax(dim=0)

    clean = logprobs()
    values = answer(mini, replace(STATE, layer=1, how="max", knocked_out=(2,), heads=((0, 3),)))
    with (
        ic.mask_attention(mini, keys="feline"),
        ic.ablate(mini, heads=[(0, 3)]),
    ):
        apart = logprobs()
        with ic.pool_at(mini, 1, ["young", "feline"], "max"):
            pooled = logprobs()
    assert values["asked"] == "kitten"
    (_, first, second, _), (_, first_rank, second_rank, _) = values["numbers"]
    assert first == pytest.approx(float(clean[kitten]), abs=1e-5)
    assert second == pytest.approx(float(pooled[kitten]), abs=1e-5)
    assert values["flat"] == pytest.approx(float(apart[kitten]), abs=1e-5)
    assert abs(second - first) > 1e-2
    assert abs(values["flat"] - second) > 1e-2
    assert first_rank == 1
    assert second_rank == 1 + int((pooled > pooled[kitten]).sum())
    order = pooled.argsort(descending=True)[:5]
    assert [text for text, _, _ in values["top"]] == [mini.tokenizer.decode([t]) for t in order]
    shown = [probability for _, probability, _ in values["top"]]
    assert shown == pytest.approx(pooled[order].exp().tolist(), abs=1e-6)


@pytest.mark.parametrize("name", STATES)
def test_the_code_and_the_curve_have_the_number_that_is_shown(mini: LensModel, name: str) -> None:
    state = STATES[name]
    values = answer(mini, state)
    names: dict[str, Any] = {"model": mini}
    exec(values["python"], names)
    assert float(torch.as_tensor(names["now"]).detach()) == pytest.approx(now(values), abs=1e-4)
    frame = curve(mini, state)
    pools = name not in ("nothing", "a word knocked out")
    assert len(frame) == (0 if not pools else 4 * frame["pooling"].nunique())
    if pools:
        pooling = "transplant" if state.transplant else state.how
        at = frame[(frame["layer"] == state.layer) & (frame["pooling"] == pooling)]
        assert at["value"].item() == pytest.approx(now(values), abs=1e-4)
    if "curve" in names:
        check_same(frame, names["curve"].outcomes, "target_logprob")


def check_same(frame: pd.DataFrame, outcomes: pd.DataFrame, column: str) -> None:
    """Every line of a curve has the values of a study's outcomes."""
    both = frame.merge(outcomes, on=["layer", "pooling"], how="left")
    assert len(both) == len(frame)
    assert not both[column].isna().any()
    assert both["value"].to_numpy() == pytest.approx(both[column].to_numpy(), abs=1e-5)


def test_the_curve_is_cap_curves_with_its_controls(mini: LensModel) -> None:
    frame = curve(mini, STATE)
    assert set(frame["pooling"]) == {"mean", "max", "sum", "last", "first", "shuffled"}
    whole = ic.cap_curve(mini, [ic.Example(TEXT, "kitten")], unit="word", progress=False)
    # Of the same units; random spans depend on the tokens outside units alone, which are the same.
    check_same(frame, whole.outcomes, "target_logprob")
    some = curve(mini, STATE, [3, 1])
    expected = frame[frame["layer"].isin([1, 3])].reset_index(drop=True)
    pd.testing.assert_frame_equal(some, expected, check_exact=False, atol=1e-5)


@torch.no_grad()
def test_the_curve_under_knock_outs_is_pooled_call_by_call(mini: LensModel) -> None:
    kitten = mini.tokenizer.convert_tokens_to_ids("kitten")
    frame = curve(mini, replace(STATE, knocked_out=(1,), heads=((2, 1),)))
    assert set(frame["pooling"]) == {"mean", "max", "sum", "last", "first"}
    for row in frame.itertuples():
        how: Any = row.pooling
        with (
            ic.mask_attention(mini, keys="young"),
            ic.ablate(mini, heads=[(2, 1)]),
            ic.pool_at(mini, int(row.layer), ["young", "feline"], how),
        ):
            logits = mini(TEXT)[0, -1].double()
        assert row.value == pytest.approx(float(logits.log_softmax(dim=0)[kitten]), abs=1e-5)
    heads = curve(mini, replace(STATE, heads=((2, 1),)))
    assert "shuffled" in set(heads["pooling"])


def test_a_transplant_is_the_studys_at_every_layer(mini: LensModel) -> None:
    state = STATES["a transplant"]
    frame = curve(mini, state)
    pair = ic.TransplantPair(
        source=DOG,
        source_span=(8, 11),
        target=TEXT,
        target_span=(8, 14),
        expected="puppy",
        answer="kitten",
    )
    others = [replace(pair, source='a young pig is called a "', expected="piglet")]
    moved = ic.transplant(mini, [pair, *others], pooling="mean", progress=False)
    first = moved.outcomes[moved.outcomes["pair"] == 0]
    first = first.drop(columns="pooling").rename(columns={"vector": "pooling"})
    assert set(frame["pooling"]) == {"transplant", "own", "random direction"}
    check_same(frame, first, "expected_logprob")
    assert frame.groupby("pooling")["value"].first().nunique() == 3


def test_words_are_the_units_of_the_text(mini: LensModel) -> None:
    text = ClickedText.of(mini, TEXT)
    assert text.pieces[2] == ["f", "el", "ine"]
    assert text.units(mini) == ((1, 2), (2, 3))
    assert [one["text"] for one in text.as_json()] == TEXT.split()
    values = answer(mini, STATE)
    assert values["state"]["units"] == [[1, 2], [2, 3]]
    assert text.phrase((1, 3)) == "young feline"
    assert ClickedText.of(mini, "a\n\nfeline").pieces[1] == ["\n", "\n", "f", "el", "ine"]


@torch.no_grad()
def test_an_encoder_compares_two_texts(encoder: LensModel) -> None:
    text, second = "the house of wood is small", "small houses"
    state = ExplorerState(text=text, second=second, layer=1)
    values = answer(encoder, state)
    one, two = (encoder.encode(each)[0].mean(dim=0).double() for each in (text, second))
    clean = float(torch.cosine_similarity(one, two, dim=0))
    assert values["numbers"][0][1] == pytest.approx(clean, abs=1e-6)
    assert abs(now(values) - clean) > 1e-4
    pairs = [(text, second, 1.0), (text, "the sea", 2.0), (second, "the sea", 3.0)]
    study = ic.similarity_curve(encoder, pairs, unit="word", progress=False)
    first = study.outcomes[study.outcomes["pair"] == 0]
    frame = curve(encoder, state)
    assert set(frame["pooling"]) == {"mean", "max", "sum", "last", "first", "shuffled"}
    check_same(frame, first, "cosine")
    at = frame[(frame["layer"] == 1) & (frame["pooling"] == "mean")]["value"].item()
    assert at == pytest.approx(now(values), abs=1e-5)
    for changed in (state, replace(state, knocked_out=(1,), second_knocked_out=(0,))):
        values = answer(encoder, replace(changed, heads=((1, 2),)))
        names: dict[str, Any] = {"model": encoder}
        exec(values["python"], names)
        assert float(torch.as_tensor(names["now"]).detach()) == pytest.approx(now(values), abs=1e-5)
        assert values["top"] == []
        assert values["asked"] is None


def test_a_translator_answers_by_its_target(translator: LensModel) -> None:
    text = "someone who bakes bread"
    state = ExplorerState(text=text, layer=1, answer="the sea")
    values = answer(translator, state)
    names: dict[str, Any] = {"model": translator}
    exec(values["python"], names)
    assert float(torch.as_tensor(names["now"]).detach()) == pytest.approx(now(values), abs=1e-4)
    examples = [ic.Example(text, "the sea")]
    whole = ic.cap_curve(translator, examples, multi_token_answers=True, progress=False)
    check_same(curve(translator, state), whole.outcomes, "target_logprob")
    assert now(values) != pytest.approx(values["numbers"][0][1], abs=1e-4)
    shown = about(translator)
    assert shown["kind"] == "encoder-decoder"
    assert not shown["can"]["transplant"]
    assert (shown["n_layers"], shown["n_encoder_layers"]) == (5, 2)
    generated = answer(translator, replace(state, answer=None))
    assert generated["asked"]


def test_what_a_model_cannot_do_is_absent() -> None:
    bloom = ic.load_model(architectures.build("BLOOM"), tokenizer=splitting_tokenizer())
    can = about(bloom)["can"]
    assert not can["pool"]
    assert not can["transplant"]
    assert can["words"]
    state = ExplorerState(text="someone who bakes bread")
    values = answer(bloom, state)
    assert values["state"]["units"] == []
    assert not values["pools"]
    assert len(curve(bloom, state)) == 0
    with pytest.raises(CapabilityError):
        answer(bloom, replace(state, units=((0, 1),)))


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"text": "  "}, "there is no text"),
        ({"layer": 4}, "layer 4: expected 0 to 3"),
        ({"how": "median"}, "how='median'"),
        ({"units": ((1, 3), (2, 4))}, "overlap"),
        ({"units": ((5, 9),)}, "of a text of 7 words"),
        ({"knocked_out": (7,)}, "knocked_out holds 7"),
        ({"knocked_out": (1,), "units": ((1, 3),)}, "which a collapse has pooled"),
        ({"heads": ((0, 4),)}, "head 4 is outside its layer"),
        ({"answer": "zebra\ud800"}, "surrogate"),
        ({"transplant": ((0, 1), (0, 1))}, "of a text of 0 words"),
        ({"second": DOG, "transplant": ((2, 3), (6, 7))}, "holds the last token"),
        (
            {"second": DOG, "transplant": ((2, 3), (2, 3)), "heads": ((0, 0),)},
            "a transplant together with",
        ),
    ],
)
def test_what_cannot_be_is_refused(mini: LensModel, chosen: Any, message: str) -> None:
    state = replace(STATE, **chosen)
    with pytest.raises(InterpComposeError, match=message):
        answer(mini, state)
    reply = respond(mini, {"part": "values", "state": state.as_json()})
    assert message in reply["refused"]
    assert "example 0" not in reply["refused"]
    assert ("words" in reply) == bool(state.text.strip())


def test_a_call_that_fails_or_is_interrupted_is_answered(
    mini: LensModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"part": "values", "state": STATE.as_json()}

    def fails(error: BaseException) -> dict[str, Any]:
        def failing(model: Any, state: Any) -> Any:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(answers, "answer", failing)
            return respond(mini, asked)

    assert fails(RuntimeError("out of memory\nat")) == {
        "failed": "The model failed, RuntimeError: out of memory"
    }
    assert "Interrupted" in fails(KeyboardInterrupt())["failed"]
    assert mini.active_hooks == []
    assert respond(mini, asked)["values"]["asked"] == "kitten"
    of_curve = respond(mini, {**asked, "part": "curve", "layers": [2]})["curve"]
    assert {layer for layer, _, _ in of_curve} == {2}
    assert len(of_curve) == 6


def test_a_state_is_what_the_page_sends() -> None:
    for state in STATES.values():
        assert ExplorerState.from_json(state.as_json()) == state
    for wrong in ({}, {"text": "a", "colour": 1}):
        with pytest.raises(OptionError, match="a state of the explorer"):
            ExplorerState.from_json(wrong)
    with pytest.raises(OptionError, match="heads holds"):
        ExplorerState.from_json({"text": "a", "heads": [[1, 2, 3]]})
    for name in ("units", "knocked_out"):
        with pytest.raises(OptionError, match=f"{name}=5: expected a list"):
            ExplorerState.from_json({"text": "a", name: 5})


def test_the_widget_has_the_state_and_the_curve(mini: LensModel) -> None:
    explorer = ic.explore(mini, [(TEXT, "kitten"), "a young dog is"], second=DOG)
    assert explorer.state == replace(STATE, answer="kitten", second=DOG)
    pd.testing.assert_frame_equal(explorer.curve, curve(mini, explorer.state))
    sent: list[Any] = []
    explorer.send = sent.append
    explorer._asked(
        explorer, {"id": "1 1", "part": "values", "state": explorer.state.as_json()}, []
    )
    assert sent[0]["id"] == "1 1"
    assert sent[0]["values"]["asked"] == "kitten"
    explorer.state = replace(explorer.state, layer=3)
    assert explorer._state["layer"] == 3
    assert explorer.state.layer == 3
    assert "mini-idm" in repr(explorer)
    assert explorer._about["examples"] == [[TEXT, "kitten"], ["a young dog is", ""]]
    with pytest.raises(OptionError, match="expected an ExplorerState"):
        explorer.state = {"text": TEXT}


def test_two_explorers_of_one_model_wait_for_one_another(mini: LensModel) -> None:
    expected = curve(mini, STATE)
    explorers = [measure.explore(mini, TEXT) for _ in range(2)]
    for explorer in explorers:
        explorer.state = STATE
    with ThreadPoolExecutor(2) as threads:
        curves = [threads.submit(lambda one: one.curve, explorers[i % 2]) for i in range(4)]
    for one in curves:
        pd.testing.assert_frame_equal(one.result(), expected)


def test_a_blank_answer_is_shown(mini: LensModel) -> None:
    shown = answer(mini, replace(STATE, answer=" "))
    assert shown["measure"] == "log P(' ')"


def test_the_curve_is_of_the_model_as_it_is_now(mini: LensModel) -> None:
    explorer = ic.explore(mini, TEXT)
    before = explorer.curve

    def nothing(value: torch.Tensor, hook: Any) -> torch.Tensor:
        return value * 0

    with mini.hooks([("blocks.0.hook_mlp_out", nothing)]):
        inside = explorer.curve
    assert (inside["value"] - before["value"]).abs().max() > 1e-2
    pd.testing.assert_frame_equal(explorer.curve, before)
    mini.train()
    try:
        with pytest.raises(InterpComposeError, match="training mode"):
            explorer.curve  # noqa: B018
    finally:
        mini.eval()


@pytest.mark.parametrize("request_", [None, {}, {"state": "abc"}, {"state": [1]}, {"state": None}])
def test_a_message_that_is_none_is_answered(mini: LensModel, request_: Any) -> None:
    assert "expected a state by the name state" in respond(mini, request_)["refused"]
    explorer, sent = ic.explore(mini, TEXT), []
    explorer.send = sent.append
    explorer._asked(explorer, request_, [])
    assert "refused" in sent[0]


def test_an_example_with_another_target_is_refused(translator: LensModel) -> None:
    example = ic.Example("the shore", "sea", target="the")
    with pytest.raises(OptionError, match="example 0 has the target 'the'"):
        ic.explore(translator, [example])
    assert ic.explore(translator, [example], target="the").state.target == "the"


def test_it_says_what_is_missing(mini: LensModel, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = ic.load_model(architectures.build("Llama"))
    with pytest.raises(InputError, match="tokenizer"):
        ic.explore(bare)
    monkeypatch.setitem(__import__("sys").modules, f"{measure.__package__}.widget", None)
    with pytest.raises(MissingPackageError, match="pip install"):
        ic.explore(mini)
