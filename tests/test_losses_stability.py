"""CARMA's stability loss against its reference; what both losses cost, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from interp_compose.errors import LayerError, OptionError
from interp_compose.training.losses import mutual_information_loss, stability_loss
from tests.slow_losses import POS, WIDTH, batch, slow_stability
from tests.untyped import outcomes_of

NAN = math.nan


@pytest.mark.parametrize("as_mask", [torch.Tensor.bool, torch.Tensor.long])
def test_stability_is_equation_6(as_mask: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    resid = torch.randn(4, 3, POS, WIDTH)
    mask = as_mask(torch.rand(3, POS) > 0.3)
    expected = slow_stability(resid, mask)
    assert expected > 0.5
    for given_as in (resid, list(resid)):
        assert stability_loss(given_as, mask).item() == pytest.approx(expected, rel=1e-5)
    double = stability_loss(resid.double(), mask, eps=0.5)
    assert double.item() == pytest.approx(slow_stability(resid, mask, 0.5), rel=1e-12)


def test_stability_by_hand() -> None:
    """From v to 2v: 1 / (1 + 4) for each pair; no move is 0, a reversal 4 / 2."""
    v = torch.randn(1, 1, POS, WIDTH)
    mask = torch.ones(1, POS, dtype=torch.bool)
    assert stability_loss(torch.cat([v, 2 * v, 4 * v]), mask).item() == pytest.approx(0.4)
    assert stability_loss(torch.cat([v, v]), mask).item() == 0
    assert stability_loss(torch.cat([v, -v]), mask).item() == pytest.approx(2)


def test_a_tiny_move_of_a_large_residual_is_not_cancelled() -> None:
    low = torch.randn(1, 2, POS, WIDTH) * 1e3
    resid = torch.cat([low, low + 0.01])
    mask = torch.ones(2, POS, dtype=torch.long)
    assert stability_loss(resid, mask).item() == pytest.approx(
        slow_stability(resid, mask), rel=1e-4
    )


@pytest.mark.parametrize("fill", ["masked", "zeros"])
def test_stability_of_nothing_is_a_zero_with_a_gradient(fill: str) -> None:
    resid = torch.randn(3, 2, POS, WIDTH) if fill == "masked" else torch.zeros(3, 2, POS, WIDTH)
    mask = torch.full((2, POS), int(fill == "zeros"))
    resid.requires_grad_()
    value = stability_loss(resid, mask)
    value.backward()
    assert value.item() == 0
    assert resid.grad is not None
    assert (resid.grad == 0).all()


# Cost


class Kernels(TorchDispatchMode):
    """Names of dispatched operations; a view launches no kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[str] = []
        self.launched: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.all.append(str(func))
        aliases = [value.alias_info for value in func._schema.returns]
        if not any(alias is not None and not alias.is_write for alias in aliases):
            self.launched.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("negatives", ["all", 5])
def test_kernels_are_few_and_independent_of_every_size(negatives: Any) -> None:
    counted = []
    for layers, rows, pos in [(2, 2, 5), (11, 3, 13), (5, 1, 61)]:
        resid = torch.randn(layers, rows, pos, WIDTH, requires_grad=True)
        ids = torch.arange(pos).div(2, rounding_mode="floor").repeat(rows, 1) - 1
        with Kernels() as kernels:
            mi = mutual_information_loss(resid, ids, negatives=negatives)
            (mi + stability_loss(resid, ids >= 0)).backward()
        counted.append(kernels)
    assert counted[0].all == counted[1].all == counted[2].all
    assert len(counted[0].launched) <= 100
    assert len(counted[0].all) <= 150


# Bad input


@pytest.mark.parametrize("temperature", [0.0, -0.1, NAN, math.inf])
def test_a_temperature_without_meaning_is_refused(temperature: float) -> None:
    with pytest.raises(OptionError, match="expected a finite number above 0") as caught:
        mutual_information_loss(*batch(0), temperature=temperature)
    assert f"temperature={temperature!r}" in str(caught.value)


@pytest.mark.parametrize("negatives", [0, -5])
def test_fewer_than_one_negative_is_refused(negatives: int) -> None:
    with pytest.raises(OptionError, match=f"negatives={negatives}: expected 'all', or how many"):
        mutual_information_loss(*batch(0), negatives=negatives)


def test_too_few_layers_are_refused() -> None:
    resid, ids = batch(0)
    with pytest.raises(LayerError, match="resid has 0 layers; expected 1 or more"):
        mutual_information_loss([], ids)
    with pytest.raises(LayerError, match="resid has 0 layers"):
        mutual_information_loss(resid[:0], ids)
    with pytest.raises(LayerError, match="resid has 1 layers; expected 2 or more"):
        stability_loss(resid[:1], ids >= 0)


UNTYPED = """
import torch
from interp_compose.training.losses import mutual_information_loss as mi
from interp_compose.training.losses import stability_loss as stability
from interp_compose.probes.rank import stable_rank
from interp_compose.probes.word_cosines import word_cosines
x, ids, out = torch.randn(2, 3, 5, 7), torch.zeros(3, 5, dtype=torch.long), {}
calls = {
    "other batch": lambda: mi(x, ids[:2]),
    "other length": lambda: stability(x, ids[:, 1:]),
    "one layer as it is": lambda: mi(x[0], ids),
    "ragged": lambda: stability([x[0], x[1], x[0, :, 1:]], ids),
    "temperature a text": lambda: mi(x, ids, temperature="0.1"),
    "a switch": lambda: mi(x, ids, temperature=True),
    "negatives a word": lambda: mi(x, ids, negatives="some"),
    "half a negative": lambda: mi(x, ids, negatives=2.5),
    "cosines": lambda: word_cosines(x, ids[:2]),
    "a vector": lambda: stable_rank(x[0, 0, 0]),
}
"""
REFUSED = {
    "other batch": "OptionError: mutual_information_loss: word_ids is a Tensor [2, 5] of torch.int",
    "other length": "OptionError: stability_loss: mask is a Tensor [3, 4] of torch.int64; expected",
    "one layer as it is": "OptionError: mutual_information_loss: resid is a Tensor [3, 5, 7] of to",
    "ragged": "OptionError: stability_loss: resid[2] is a Tensor [3, 4, 7] of torch.float32; expec",
    "temperature a text": "OptionError: mutual_information_loss: temperature='0.1' is a str; expec",
    "a switch": "OptionError: mutual_information_loss: temperature=True is a bool; expected a numb",
    "negatives a word": "OptionError: mutual_information_loss: negatives='some' is a str; expected",
    "half a negative": "OptionError: mutual_information_loss: negatives=2.5 is a float; expected '",
    "cosines": "InputError: resid has the shape (2, 3, 5, 7) for a batch of (2, 5) tokens",
    "a vector": "OptionError: stable_rank: A is a Tensor [7] of torch.float32; expected a tensor [",
}


def test_untyped_misuse_is_refused_by_name() -> None:
    """In a process of its own: here beartype would be there first."""
    outcomes = outcomes_of(UNTYPED)
    assert set(outcomes) == set(REFUSED)
    for name, start in REFUSED.items():
        assert outcomes[name].startswith(start), outcomes[name]
