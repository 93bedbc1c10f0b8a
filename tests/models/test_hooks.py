"""Hooks act, are proven to have acted, and are gone afterwards."""

from __future__ import annotations

import re
import warnings
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from interp_compose.errors import CapabilityError, InterventionError, OptionError
from interp_compose.interventions.ablate import ablate
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests import architectures

pytestmark = pytest.mark.tl3
TOKENS = torch.tensor([[5, 17, 3, 41, 29]])
RESID = "blocks.1.hook_resid_pre"


@pytest.fixture(scope="module")
def model() -> LensModel:
    return load_model(architectures.build("GPT-2"))


def n_hooks(model: LensModel) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks)
        for module in model.lens.modules()
    )


def zero(activation: Tensor, hook: Any) -> Tensor:
    return torch.zeros_like(activation)


def same(activation: Tensor, hook: Any) -> Tensor:
    return activation


@torch.no_grad()
def test_an_edit_acts_and_the_identity_is_bit_equal(model: LensModel) -> None:
    clean = model(TOKENS)
    assert torch.equal(model.run_with_hooks(TOKENS, [(RESID, same)]), clean)
    assert not torch.allclose(model.run_with_hooks(TOKENS, [(RESID, zero)]), clean)
    assert torch.equal(model(TOKENS), clean)


@torch.no_grad()
def test_a_predicate_on_names_matches_many(model: LensModel) -> None:
    seen: list[str] = []
    model.run_with_hooks(
        TOKENS,
        [(lambda name: name.endswith("hook_resid_post"), lambda act, hook: seen.append(hook.name))],
    )
    assert len(seen) == model.n_layers


@torch.no_grad()
def test_hooks_are_gone_after_success_exception_and_nesting(model: LensModel) -> None:
    model(TOKENS)  # the bridge wires its own on the first call
    before = n_hooks(model)
    with model.hooks([(RESID, zero)]):
        with model.hooks([(RESID, same), ("blocks.2.hook_resid_pre", same)]):
            model(TOKENS)
            assert n_hooks(model) == before + 3
        assert n_hooks(model) == before + 1
        model(TOKENS)
    assert n_hooks(model) == before
    with pytest.raises(ZeroDivisionError), model.hooks([(RESID, zero)]):
        raise ZeroDivisionError
    assert n_hooks(model) == before

    def fails(activation: Tensor, hook: Any) -> Tensor:
        raise KeyError("inside the hook")

    with pytest.raises(KeyError), model.hooks([(RESID, fails)]):
        model(TOKENS)
    assert n_hooks(model) == before


def test_a_hook_that_never_fires_is_an_error(model: LensModel) -> None:
    with (
        pytest.raises(InterventionError, match=r"blocks\.1\.hook_resid_pre.*never fired"),
        model.hooks([(RESID, zero)]),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("blocks.1.attn.hook_zz", "blocks.1.attn.hook_z"),
        ("block.1.hook_resid_pre", "blocks.1.hook_resid_pre"),
        ("blocks.2.hook_resid_per", "blocks.2.hook_resid_pre"),
        ("blocks.0.mlp.hook_pots", "blocks.0.mlp.hook_post"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(
    model: LensModel, name: str, near: str
) -> None:
    told = rf"no hook point matches '{re.escape(name)}'.*did you mean .*'{re.escape(near)}'"
    with pytest.raises(OptionError, match=told), model.hooks([(name, zero)]):
        pass
    for names in (name, [name]):
        with pytest.raises(OptionError, match=told):
            model.run_with_cache(TOKENS, names)
        with pytest.raises(OptionError, match=told):
            model.capture(TOKENS, names)
    _, cache = model.run_with_cache(TOKENS, near)
    with pytest.raises(OptionError, match=f"did you mean '{re.escape(near)}'"):
        cache[name]


class Halving:
    def __call__(self, activation: Tensor, hook: Any) -> Tensor:
        return activation / 2

    def method(self, value: Tensor, point: Any = None) -> Tensor:
        return value / 2


def halved(value: Tensor, factor: float, hook: Any) -> Tensor:
    return value * factor


def by_keyword(value: Tensor, *, hook: Any) -> Tensor:
    return value / 2


HALVING: dict[str, Any] = {
    "of two": lambda activation, hook: activation / 2,
    "other names": lambda x, h: x / 2,
    "any": lambda *given: given[0] / 2,
    "by position": lambda value, hook, /: value / 2,
    "keyword": by_keyword,
    "partial by name": partial(halved, factor=0.5),
    "object": Halving(),
    "method": Halving().method,
}


@torch.no_grad()
@pytest.mark.parametrize("fn", HALVING.values(), ids=HALVING)
def test_functions_that_take_an_activation_and_its_hook_point(model: LensModel, fn: Any) -> None:
    expected = model.run_with_hooks(TOKENS, [(RESID, HALVING["of two"])])
    assert torch.equal(model.run_with_hooks(TOKENS, [(RESID, fn)]), expected)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x,
        lambda: None,
        lambda x, y, z: x,
        partial(halved, factor=0.5, hook=None, value=3),
        Halving,
    ],
)
def test_functions_that_take_something_else_are_refused_before_a_call(
    model: LensModel, fn: Any
) -> None:
    before = n_hooks(model)
    with (
        pytest.raises(OptionError, match=r"blocks\.1\.hook_resid_pre takes \(.*lambda activation,"),
        model.hooks([(RESID, fn)]),
    ):
        raise AssertionError("the block was entered")
    assert n_hooks(model) == before


def test_a_name_that_does_not_exist_is_refused(model: LensModel) -> None:
    for where in ("blocks.99.hook_resid_pre", lambda name: False):
        with (
            pytest.raises(OptionError, match="no hook point matches"),
            model.hooks([(where, zero)]),
        ):
            pass


@torch.no_grad()
def test_an_edit_that_transformer_lens_discards_is_an_error() -> None:
    opt = load_model(architectures.build("OPT"))
    with pytest.raises((InterventionError, CapabilityError), match="OPTForCausalLM"):
        opt.run_with_hooks(TOKENS, [("blocks.0.attn.hook_pattern", zero)])
    with pytest.raises((InterventionError, CapabilityError), match="OPTForCausalLM"):
        opt.run_with_hooks(TOKENS, [("blocks.0.attn.hook_attn_scores", zero)])
    opt.run_with_hooks(TOKENS, [("blocks.0.attn.hook_pattern", same)])  # nothing to discard

    def in_place(pattern: Tensor, hook: Any) -> Tensor:
        pattern[:] = 0
        return pattern

    for name in ("blocks.0.attn.hook_pattern", "blocks.0.attn.hook_attn_scores"):
        with pytest.raises((InterventionError, CapabilityError), match="OPTForCausalLM"):
            opt.run_with_hooks(TOKENS, [(name, in_place)])


@architectures.needs_tl4
@pytest.mark.filterwarnings("ignore:A forward hook edited hook_scale")
@pytest.mark.parametrize(
    ("architecture", "name", "instead"),
    [
        ("OPT", "blocks.2.attn.hook_attn_scores", "editing_attention"),
        ("BitNet", "blocks.1.attn.hook_z", "o.hook_in"),
        ("T5", "encoder_blocks.0.ln1.hook_normalized", "hook_in and hook_out"),
    ],
)
def test_hook_points_that_show_something_else_are_not_read(
    architecture: str, name: str, instead: str
) -> None:
    """As the published matrix has them; what was put back where it was read may be read."""
    model = load_model(architectures.build(architecture))
    tokens = model.random_tokens(2, 7, torch.Generator().manual_seed(1))
    seen: list[Tensor] = []
    with pytest.raises(CapabilityError, match=f"{name}.*Read instead: .*{instead}"):
        model.capture(tokens, [name])
    with pytest.raises(CapabilityError, match=name):
        model.run_with_hooks(tokens, [(name, lambda value, hook: seen.append(value))])
    _, kept = model.capture_as_shown(tokens, [name])
    assert torch.equal(kept[name], seen[0])
    place = name.rpartition(".")[0]
    others = {"OPT": ["hook_pattern", "hook_z"], "BitNet": ["o.hook_in", "hook_pattern"]}
    fine = [f"{place}.{other}" for other in others.get(architecture, ["hook_in", "hook_out"])]
    _, kept = model.capture(tokens, fine)
    assert set(kept) == set(fine)
    if architecture == "BitNet":
        clean = model(tokens)
        with ablate(model, heads=[1], layers=[1], how="mean", reference=tokens):
            assert not torch.equal(model(tokens), clean)


@pytest.mark.filterwarnings("ignore:A forward hook edited hook_scale")
@torch.no_grad()
@pytest.mark.parametrize("again", [True, False])
def test_an_edit_in_place_acts_as_one_that_is_returned(again: bool) -> None:
    """Norms of TransformerLens look at the tensor that a hook returns, and at nothing else."""
    model = load_model(architectures.build("Llama"))
    name = "blocks.0.ln1.hook_normalized"
    clean = model(TOKENS)
    expected = model.run_with_hooks(TOKENS, [(name, lambda value, hook: value * 1.5)])

    def in_place(value: Tensor, hook: Any) -> Tensor | None:
        value.mul_(1.5)
        return value if again else None

    edited = model.run_with_hooks(TOKENS, [(name, in_place)])
    assert torch.equal(edited, expected)
    assert not torch.allclose(edited, clean)


@architectures.needs_tl4
@pytest.mark.filterwarnings("ignore:A forward hook edited hook_scale")
@torch.no_grad()
def test_an_edit_of_what_is_not_computed_with_is_an_error() -> None:
    """TransformerLens shows LayerNorm's numbers at the norms of T5, which do not centre, and
    computes with them once a hook returns a tensor."""
    model = load_model(architectures.build("T5"))
    tokens = model.random_tokens(1, 5, torch.Generator().manual_seed(0))
    name = "encoder_blocks.0.ln1.hook_normalized"
    with pytest.raises(CapabilityError, match="does not compute with what it shows"):
        model.run_with_hooks(tokens, [(name, lambda value, hook: value * 1.5)])
    model.capture(tokens, ["encoder_blocks.0.hook_resid_pre"])


@torch.no_grad()
def test_probes_see_the_bare_model() -> None:
    """Neither hooks, wrappers nor dropout of the user's reach the proof, or hear of it."""
    model = load_model(architectures.build("GPT-2").train())
    shapes: list[Any] = []

    def note(activation: Tensor, hook: Any) -> Tensor:
        shapes.append(tuple(activation.shape))
        return activation * 0.5

    def wrap(inner: Any, tokens: Tensor, mask: Tensor, read: str) -> Tensor:
        return inner(tokens, mask, read) * 0

    with model.hooks([(RESID, note)]), model.open_blocks.around(wrap):
        model.require("resume", "positions", "unembed", "edit_resid", "edit_pattern")
        assert shapes == []
        model(TOKENS)
        assert {shape[:2] for shape in shapes} == {(1, 5)}
    assert model.training


@torch.no_grad()
def test_warnings_of_the_users_own_stay_warnings(model: LensModel) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with model.hooks([(RESID, same)]):
            warnings.warn("mine", stacklevel=1)
            model(TOKENS)


@torch.no_grad()
def test_wrappers_nest_and_go(model: LensModel) -> None:
    clean = model(TOKENS)
    order: list[str] = []

    def wrapper(name: str) -> Any:
        def wrap(inner: Any, tokens: Tensor, mask: Tensor, read: str) -> Tensor:
            order.append(name)
            return inner(tokens, mask, read) + 1.0

        return wrap

    with model.open_blocks.around(wrapper("outer")), model.open_blocks.around(wrapper("inner")):
        torch.testing.assert_close(model(TOKENS), clean + 2.0)
    assert order == ["inner", "outer"]
    assert torch.equal(model(TOKENS), clean)
    with pytest.raises(ZeroDivisionError), model.open_blocks.around(wrapper("x")):
        raise ZeroDivisionError
    assert torch.equal(model(TOKENS), clean)


@torch.no_grad()
@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ("text", "a str"),
        (True, "a bool"),
        (torch.zeros(2, 3), "a tensor [2, 3] of torch.float32"),
        (torch.zeros(TOKENS.shape, dtype=torch.float64), "of torch.float64"),
    ],
)
def test_what_cannot_stand_in_for_an_activation_is_refused_by_the_hooks_name(
    model: LensModel, returned: object, reason: str
) -> None:
    def hook(activation: Tensor, hook: Any) -> Any:
        return activation.double() if reason == "of torch.float64" else returned

    with pytest.raises(InterventionError) as refusal:
        model.run_with_hooks(TOKENS, [(RESID, hook)])
    message = str(refusal.value)
    assert message.startswith(f"the hook at {RESID} returned ")
    assert reason in message
    assert "of torch.float32 on cpu like the activation" in message


def test_a_version_of_hooks_that_edit_nothing_is_questioned(model: LensModel) -> None:
    """Advanced indexing makes a copy: what is written there is not in the activation."""

    def into_a_copy(activation: Tensor, hook: Any) -> None:
        activation[:, [1, 2]].mul_(0)

    def into_it(activation: Tensor, hook: Any) -> None:
        activation[:, [1, 2]] = 0

    clean = model(TOKENS)

    def returned(activation: Tensor, hook: Any) -> Tensor:
        into_a_copy(activation, hook)
        return activation

    def past_the_counter(activation: Tensor, hook: Any) -> None:
        activation.data.mul_(0.5)

    questioned = r"version 'zeros', edited nothing: .* writes into a copy"
    for hook in (into_a_copy, returned, lambda activation, hook: activation * 1.0):
        with (
            pytest.warns(UserWarning, match=questioned),
            model.hooks([(RESID, hook)], version="zeros"),
        ):
            assert torch.equal(model(TOKENS), clean)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with model.hooks([(RESID, into_it)], version="zeros"):
            assert not torch.equal(model(TOKENS), clean)
        with model.hooks([(RESID, past_the_counter)], version="halves"):
            assert not torch.equal(model(TOKENS), clean)
        with model.hooks([(RESID, into_a_copy)]):  # hooks that read have no version
            model(TOKENS)
        with torch.inference_mode(), model.hooks([(RESID, into_it)], version="zeros"):
            model(TOKENS)


def test_an_edit_past_the_counter_is_discarded_by_name() -> None:
    """OPT's patterns are shown, and what a hook writes there is not used."""

    def knocked_out(pattern: Tensor, hook: Any) -> Tensor:
        pattern.data[..., 0] = 0
        return pattern

    model = load_model(architectures.build("OPT"))
    with (
        pytest.raises(CapabilityError, match="discards edits at 'blocks.1.attn.hook_pattern'"),
        model.hooks([("blocks.1.attn.hook_pattern", knocked_out)]),
    ):
        model(TOKENS)


@torch.no_grad()
@pytest.mark.parametrize("name", ["GPT-2", "Gemma 2", "BERT"])
def test_a_function_is_told_the_name_that_was_asked_for(name: str) -> None:
    model = architectures.load(name)
    asked = [one for one in model.hook_names if model.open_blocks.takes_hooks(one)]
    told: dict[str, set[tuple[str, int | None]]] = {}

    def named(place: str) -> Any:
        def note(activation: torch.Tensor, hook: Any) -> None:
            layer = hook.layer() if ".hook_resid_pre" in place else None
            told.setdefault(place, set()).add((hook.name, layer))

        return note

    with model.open_blocks.hooked([(one, named(one)) for one in asked], all_fire=False):
        model(TOKENS)
    assert len(told) > 10 * model.n_layers
    for place, names in told.items():
        layer = int(place.split(".")[1]) if ".hook_resid_pre" in place else None
        assert names == {(place, layer)}
