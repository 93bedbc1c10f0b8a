"""What an ablation study refuses before any work, with the value and the remedy."""

from __future__ import annotations

from typing import Any

import pytest
import spacy
import torch

from interp_compose.errors import (
    CapabilityError,
    InputError,
    InterventionError,
    MissingDataError,
    OptionError,
    PromptError,
)
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.ablation import measure as ablation_measure
from interp_compose.studies.ablation.measure import ablation_curve
from interp_compose.studies.ablation.options import AblationOptions
from interp_compose.types import Example
from tests import architectures


@pytest.fixture(autouse=True)
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def worked(*args: Any, **options: Any) -> Any:
        raise AssertionError("work was started")

    monkeypatch.setattr(ablation_measure.PreparedAblation, "rows", worked)


def quiet(model: LensModel, examples: Any, **options: Any) -> Any:
    return ablation_curve(model, examples, progress=False, **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"how": "mean"}, OptionError, "how='mean' has no meaning for what='words', only for 'he"),
        ({"what": "heads", "mode": "zero"}, OptionError, "mode='zero' has no meaning for what='he"),
        ({"what": "mlp", "tagger": "kind"}, OptionError, "tagger='kind' has no meaning for what='"),
        ({"what": "attn", "unit": "span"}, OptionError, "unit='span' has no meaning for what='at"),
        ({"what": "heads", "reach": "from"}, OptionError, "reach='from' has no meaning for what="),
        ({"what": "layers", "how": "mean"}, OptionError, "how='mean' has no meaning for what='la"),
        ({"what": "mlp", "height": 3}, OptionError, "height"),
        ({"tagger": "xx_no"}, MissingDataError, "tagger='xx_no' is no spaCy pipeline"),
        ({"tagger": spacy.blank("en")}, OptionError, "gives no part of speech"),
        ({"tagger": lambda text: [(0, 99, "N")]}, OptionError, r"gave \(0, 99, 'N'\)"),
        ({"tagger": lambda text: [(0, 1, "any word")]}, OptionError, "the tag 'any word', whic"),
    ],
)
def test_bad_options_are_refused(
    model: LensModel,
    examples: list[Example],
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        quiet(model, examples, **options)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (["the sea", Example("x", "a")], InputError, "example 1 is of another kind than example 0"),
        ([Example("x", "a"), "x", "y"], InputError, "example 1 is of another kind than example 0"),
        ([""], PromptError, "example 0"),
    ],
)
def test_bad_examples_are_refused(
    model: LensModel, rows: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        quiet(model, rows)


def test_labels_mean_nothing_to_bare_texts(model: LensModel) -> None:
    with pytest.raises(InputError, match="bare texts have no answers of their own, so labels"):
        quiet(model, ["a small house"], answers=list("abcdefg"))


def test_examples_without_a_word_before_the_last_token_are_refused(model: LensModel) -> None:
    with pytest.raises(
        InterventionError, match="none of the 2 examples has a word before its last token"
    ):
        quiet(model, ["x", "a"])


def test_a_model_inside_an_intervention_with_positions_is_refused(
    model: LensModel, examples: list[Example]
) -> None:
    """Its positions are those of the user's own tokens, and not of the study's."""
    with (
        pytest.raises(InterventionError, match="is inside a block of .*mask_attention.*end the"),
        mask_attention(model, keys=0),
    ):
        quiet(model, examples)
    with (
        pytest.raises(InterventionError, match="is inside a block of"),
        ablate(model, heads=[(0, 1)]),
    ):
        quiet(model, examples, what="heads")
    assert not model.open_blocks.wraps_calls


@pytest.mark.parametrize(
    ("what", "capability"),
    [("words", "mask_attention"), ("heads", "edit_z"), ("mlp", "drop_parts")],
)
def test_what_a_probe_denies_is_refused_by_name(
    tokenizer: Any, examples: list[Example], what: str, capability: str
) -> None:
    model = load_model(architectures.build("Llama"), tokenizer=tokenizer)
    probes = model.capabilities.probes
    probes[capability] = type(probes[capability])(held=False, detail="0.5")
    with pytest.raises(CapabilityError, match=capability):
        quiet(model, examples, what=what)


def planned(model: LensModel, examples: Any, **options: Any) -> Any:
    return ablation_measure.prepare_ablation(model, examples, AblationOptions(**options))


def test_a_plan_says_what_will_be_run(model: LensModel, examples: list[Example]) -> None:
    plan = planned(model, examples, tagger="kind", batch_size=3, task="toy")
    assert [len(part) for part in plan.batches] == [3, 3, 1]
    lengths = [item.n_tokens for part in plan.batches for item in part]
    assert lengths == sorted(lengths)
    about = {key: plan.config[key] for key in ("study", "what", "reach", "mode", "how", "unit")}
    assert about == {
        "study": "ablation", "what": "words", "reach": "from", "mode": "exclude", "how": None,
        "unit": "word",
    }  # fmt: skip
    assert plan.config["tagger"] == "kind"
    assert (plan.config["task"], plan.config["layers"]) == ("toy", [0, 1, 2])
    heads = planned(model, examples, what="heads", how="mean").config
    about = {key: heads[key] for key in ("reach", "mode", "how", "unit", "tagger")}
    assert about == {"reach": "at", "mode": None, "how": "mean", "unit": None, "tagger": None}


def test_more_cells_make_smaller_batches(
    model: LensModel, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fitting(model: Any, streams: int, longest: int) -> int:
        return 1000 // streams

    monkeypatch.setattr("interp_compose.studies.core.inputs.fitting_batch", fitting)
    sizes = [planned(model, examples, what=what).config["batch_size"] for what in ("mlp", "words")]
    assert sizes == [1000 // 4, 1000 // (4 * 8)]  # the longest example has eight words


def test_a_tagger_is_named_in_the_config(model: LensModel, examples: list[Example]) -> None:
    def nouns(text: str) -> list[tuple[int, int, str]]:
        return [(0, len(text), "N")]

    class Tagger:
        def __call__(self, text: str) -> list[tuple[int, int, str]]:
            return nouns(text)

    assert planned(model, examples, tagger=nouns).config["tagger"].endswith("nouns()")
    assert planned(model, examples, tagger=Tagger()).config["tagger"].endswith("Tagger()")


@torch.no_grad()
def test_answers_of_bare_texts_are_part_of_the_digest(model: LensModel) -> None:
    texts = ["the sea", "a small house", "not alive"]
    plan = planned(model, texts, batch_size=2)
    items = [item for batch in plan.batches for item in batch]
    assert sorted(item.index for item in items) == [0, 1, 2]
    for item in items:
        logits = model(torch.from_numpy(item.prompt.ids)[None])[0, -1]
        assert item.answer_ids == (int(logits.argmax()),)
        assert item.example.answer == model.tokenizer.decode(item.answer_ids)
    answered = [Example(text, "a") for text in texts]
    same = planned(model, answered, batch_size=2)
    assert same.config["examples_sha256"] != plan.config["examples_sha256"]
