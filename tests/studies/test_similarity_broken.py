"""Numbers that are not finite, and models that cannot be shortened, are refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
import torch

import interp_compose as ic
from interp_compose.errors import (
    CapabilityError,
    NonFiniteError,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.similarity.measure import similarity_curve
from tests import architectures
from tests.studies import similarity_reference as slow


@lru_cache
def model_of(name: str) -> LensModel:
    return slow.wrapped(name)


@pytest.fixture(autouse=True, scope="module")
def short_intervals() -> Iterator[None]:
    """Intervals are tested with the result; here a curve is summarised a hundred times."""
    with slow.few_samples():
        yield


def quiet(model: LensModel, rows: Any = slow.ROWS, **options: Any) -> ic.SimilarityCurve:
    return similarity_curve(model, rows, progress=False, **options)


@pytest.fixture(scope="module")
def bert() -> LensModel:
    return model_of("BERT")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["BERT", "Llama"])
def test_weights_that_are_not_finite_are_refused(name: str, bad: float) -> None:
    broken = architectures.build(name)
    block = broken.base_model.encoder.layer[1] if name == "BERT" else broken.model.layers[1]
    with torch.no_grad():
        next(p for p in block.parameters() if p.ndim == 2)[3] = bad
    model = load_model(broken, tokenizer=slow.tokenizer_for(name))
    with pytest.raises(NonFiniteError, match="gives NaN or infinite numbers on plain tokens"):
        quiet(model)
    model._capabilities = model_of(name).capabilities
    with pytest.raises(
        NonFiniteError,
        match=r"row \d has no cosine at layer 2 without any intervention \(\d+ of",
    ):
        quiet(model)


def test_an_embedding_of_zero_has_no_cosine() -> None:
    zero = architectures.build("GPT-2")
    with torch.no_grad():
        zero.transformer.ln_f.weight.zero_()
    model = load_model(zero, tokenizer=slow.tokenizer_for("GPT-2"))
    model._capabilities = model_of("GPT-2").capabilities
    with pytest.raises(NonFiniteError, match="at layer 3 without .*an embedding is zero, NaN or"):
        quiet(model)


def test_numbers_that_only_pooling_breaks_are_laid_to_it(bert: LensModel) -> None:
    bert.require("resume", "positions")  # proven before it breaks
    real = bert.resume

    def broken(*args: Any, **options: Any) -> torch.Tensor:
        return real(*args, **options) * float("nan")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bert, "resume", broken)
        with pytest.raises(NonFiniteError, match=r"pair of row \d .* layer 0 after mean pooling"):
            quiet(bert)


def test_alibi_cannot_be_shortened() -> None:
    model = load_model(architectures.build("BLOOM"), tokenizer=slow.tokenizer_for("GPT-2"))
    with pytest.raises(CapabilityError, match="BloomForCausalLM cannot do 'positions'.*ALiBi"):
        quiet(model)
