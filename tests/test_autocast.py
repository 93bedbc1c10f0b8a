"""Inside ``torch.autocast`` a float32 model computes in half precision, and no config says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pandas.testing import assert_frame_equal

import interp_compose as ic
from interp_compose.errors import CapabilityError, InterpComposeError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.tasks.task import Task
from tests import architectures
from tests.studies.conftest import splitting_tokenizer

EXAMPLES = [ic.Example('not alive "', "a"), ic.Example('the mother of a father "', "b")]
PAIRS = [{"text1": "a sea", "text2": "the shore", "score": float(n)} for n in range(3)]
TASK = Task("mine", "{}", tuple(EXAMPLES), tuple(EXAMPLES), tuple(EXAMPLES), {})
CALLS: dict[str, Callable[[LensModel], Any]] = {
    "cap": lambda model: ic.cap_curve(model, EXAMPLES, progress=False),
    "ablation": lambda model: ic.ablation_curve(model, EXAMPLES, progress=False),
    "similarity": lambda model: ic.similarity_curve(model, PAIRS, unit="word", progress=False),
    "embeddings": lambda model: ic.embed_texts(model, ["a sea"]),
    "finetune": lambda model: ic.finetune(model, TASK, progress=False),
    "compare": lambda model: ic.carma.compare(model, TASK, progress=False),
    "loading": lambda model: fresh(),
}


def fresh() -> LensModel:
    return ic.load_model(architectures.build("Llama").eval(), tokenizer=splitting_tokenizer())


@pytest.mark.parametrize("name", CALLS)
def test_what_is_measured_is_refused_there(name: str) -> None:
    model = fresh()
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(OptionError) as refusal:
        CALLS[name](model)
    assert "inside torch.autocast would be computed in bfloat16" in str(refusal.value)


def test_what_weights_look_like_is_the_same_there() -> None:
    model = fresh()
    expected = ic.complexity_report(model).frame
    with torch.autocast("cpu", torch.bfloat16):
        assert_frame_equal(ic.complexity_report(model).frame, expected, check_exact=True)


def test_on_the_meta_device_too() -> None:
    model = fresh()
    with torch.device("meta"), pytest.raises(InterpComposeError, match="default device is meta"):
        ic.cap_curve(model, EXAMPLES, progress=False)


def test_capabilities_are_proven_outside() -> None:
    expected, model = fresh().capabilities, fresh()
    with torch.autocast("cpu", torch.bfloat16):
        assert model.capabilities == expected


@torch.no_grad()
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "OPT", "BERT"])
def test_padding_there_is_finite_or_refused(name: str) -> None:
    model = architectures.load(name)
    tokens = torch.arange(5, 21).reshape(2, 8)
    left, right = torch.ones_like(tokens), torch.ones_like(tokens)
    left[0, :3] = right[0, -3:] = 0
    with torch.autocast("cpu", torch.bfloat16):
        assert model(tokens, attention_mask=right)[right.bool()].isfinite().all()
        for call in (model, model.encode, lambda *a, **o: model.capture(*a, [], **o)[0]):
            if name in ("OPT", "BERT"):
                assert call(tokens, attention_mask=left)[left.bool()].isfinite().all()
                continue
            with pytest.raises(CapabilityError, match="by torch.autocast makes NaN of batches pad"):
                call(tokens, attention_mask=left)
    assert model(tokens, attention_mask=left)[left.bool()].isfinite().all()
