"""An edit acts in its block, wherever the model is called from, and nowhere else."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import interp_compose as ic
from interp_compose.errors import CapabilityError, InterventionError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests import architectures
from tests.interventions.shared import make

TOKENS = torch.arange(3, 12)[None]
GROUPS = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 3]])
RESID = "blocks.1.hook_resid_pre"
Block = Callable[[LensModel], AbstractContextManager[Any]]


def scaled(resid: Tensor, hook: Any) -> Tensor:
    return resid * torch.linspace(0.5, 2, resid.shape[-1])


BLOCKS: dict[str, Block] = {
    "hooks": lambda model: model.hooks([(RESID, scaled)]),
    "ablate": lambda model: ic.ablate(model, heads=[(1, 1)], positions=[3]),
    "mask_residual": lambda model: ic.mask_residual(model, positions=[-2], layers=[1]),
    "broadcast": lambda model: ic.pool_at(model, 1, GROUPS, mode="broadcast"),
    "mask_attention": lambda model: ic.mask_attention(model, keys=[2]),
    "collapse": lambda model: ic.pool_at(model, 1, GROUPS),
}
WITH_HOOKS = ("hooks", "ablate", "mask_residual", "broadcast")
"""Those that hooks at hook points carry out."""


def run(model: LensModel, tokens: Tensor = TOKENS) -> Tensor:
    return model(tokens) if getattr(model, "has_head", True) else model.encode(tokens)


# ---- what clears hooks -----------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.tl3
@pytest.mark.parametrize("clear", ["reset_hooks", "remove_all_hook_fns"])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", ["GPT-2", "small, post"])
def test_transformer_lens_clears_no_edit(name: str, block: str, clear: str) -> None:
    model = make(name)
    clean = model(TOKENS)
    if not hasattr(model.lens, clear):
        pytest.skip("this lens has no such method")
    with BLOCKS[block](model):
        edited, acting = model(TOKENS), model.active_hooks
        getattr(model.lens, clear)()
        assert torch.equal(model(TOKENS), edited)
        assert model.active_hooks == acting
    assert model.active_hooks == []
    assert torch.equal(model(TOKENS), clean)


def _clear_dictionaries(model: LensModel) -> None:
    for part in model.lens.modules():
        part._forward_hooks.clear()
        part._forward_pre_hooks.clear()


def _remove_at_points(model: LensModel) -> None:
    for point in model.hook_dict.values():
        point.remove_hooks("both", including_permanent=True)


CLEARERS: dict[str, Callable[[LensModel], Any]] = {
    "permanent ones too": lambda model: model.lens.reset_hooks(including_permanent=True),
    "at each point": _remove_at_points,
    "PyTorch's dictionaries": _clear_dictionaries,
}


@torch.no_grad()
@pytest.mark.tl3
@pytest.mark.parametrize("clear", CLEARERS)
@pytest.mark.parametrize("block", WITH_HOOKS)
def test_an_edit_that_was_cleared_all_the_same_ends_in_an_error(block: str, clear: str) -> None:
    model = make("GPT-2")
    clean = model(TOKENS)

    def cleared() -> None:
        with BLOCKS[block](model):
            model(TOKENS)
            CLEARERS[clear](model)
            assert model.active_hooks == []
            with pytest.raises(InterventionError, match="was removed"):
                model(TOKENS)

    with pytest.raises(InterventionError, match="was removed inside its `with` block"):
        cleared()
    assert model.active_hooks == []
    assert torch.equal(model(TOKENS), clean)


@torch.no_grad()
def test_guards_and_edited_attentions_that_were_replaced_end_in_an_error() -> None:
    model = make("GPT-2")

    def without(block: str, remove: Callable[[], Any]) -> None:
        with BLOCKS[block](model):
            model(TOKENS)
            remove()

    with pytest.raises(InterventionError, match="a guard of pool_at.* was removed"):
        without("collapse", lambda: _clear_dictionaries(model))
    with pytest.raises(InterventionError, match="edited attention of layer 1 was replaced"):
        without("mask_attention", lambda: object.__delattr__(model.blocks[1].attn, "forward"))
    with pytest.raises(ZeroDivisionError):  # an error of the body's own comes first
        without("hooks", lambda: (_remove_at_points(model), 1 / 0))
    assert model.active_hooks == []


# ---- what acts is named ----------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.tl3
def test_active_hooks_name_what_acts_and_nothing_else() -> None:
    model = make("GPT-2")
    point = model.hook_dict[RESID]
    point.add_hook(torch.nn.functional.layer_norm, dir="fwd")  # a framework's function, of the user
    assert model.active_hooks == [RESID]
    point.fwd_hooks[-1].hook.remove()  # past TransformerLens, which lists it still
    assert model.active_hooks == []
    point.remove_hooks("both")
    with BLOCKS["hooks"](model):
        point.fwd_hooks.clear()  # TransformerLens lists it no more, and it acts
        assert model.active_hooks == [RESID]
        model(TOKENS)
    assert model.active_hooks == []
    point.add_hook(lambda grad, hook: None, dir="bwd")
    assert model.active_hooks == [f"{RESID}: backward hook"]
    point.remove_hooks("both")
    handle = torch.nn.modules.module.register_module_full_backward_hook(lambda *args: None)
    assert ["every module: backward hook" in one for one in model.active_hooks] == [True]
    handle.remove()
    assert model.active_hooks == []


# ---- ways past the model ---------------------------------------------------------------------


def _logits(out: Any) -> Tensor:
    for name in ("logits", "last_hidden_state"):
        if hasattr(out, name):
            return getattr(out, name)
    return out[0] if isinstance(out, tuple) else out


def _ways(model: LensModel, module: Any) -> Mapping[str, Callable[[], Tensor]]:
    """Calls of what lies under the wrapper, each with what ``run`` gives."""
    lens = model.lens
    greedy: Any = {"do_sample": False, "max_new_tokens": 1, "return_dict_in_generate": True}
    ways: dict[str, Callable[[], Tensor]] = {
        "lens": lambda: lens(TOKENS),
        "lens.forward": lambda: lens.forward(TOKENS),
        "run_with_cache": lambda: lens.run_with_cache(TOKENS)[0],
        "run_with_hooks": lambda: lens.run_with_hooks(
            TOKENS, fwd_hooks=[(RESID, lambda resid, hook: None)]
        ),
        "module": lambda: module(TOKENS).logits,
        "module.forward": lambda: module.forward(TOKENS).logits,
        "embeddings": lambda: module(inputs_embeds=module.get_input_embeddings()(TOKENS)).logits,
    }
    if not model.bidirectional:
        ways["generate"] = lambda: torch.stack(
            module.generate(TOKENS, output_logits=True, **greedy).logits, 1
        )
    return ways


@torch.no_grad()
@pytest.mark.parametrize("block", [one for one in BLOCKS if one != "hooks"])
@pytest.mark.parametrize("name", ["GPT-2", "BERT"])
def test_what_lies_under_the_wrapper_is_edited_or_refused(name: str, block: str) -> None:
    module = architectures.build(name)
    model = load_model(module)
    refused = block in ("broadcast", "collapse")
    for way, call in _ways(model, module).items():
        clean = call()
        with BLOCKS[block](model):
            edited = run(model)
            if refused:
                with pytest.raises(InterventionError, match="inside a block of pool_at"):
                    call()
                continue
            expected = edited[:, -1:] if way == "generate" else edited
            torch.testing.assert_close(call(), expected, atol=1e-5, rtol=1e-5)
            assert not torch.allclose(expected, clean, atol=1e-5), way


@torch.no_grad()
def test_an_adapter_around_the_module_runs_under_the_edit_too() -> None:
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(target_modules=["q_proj"], init_lora_weights=False)
    base = architectures.build("Llama")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft's own
        around = peft.get_peft_model(base, lora).eval()
    model = load_model(around.base_model.model)
    with BLOCKS["ablate"](model):
        torch.testing.assert_close(around(TOKENS).logits, model(TOKENS), atol=1e-5, rtol=1e-5)
    with BLOCKS["collapse"](model):
        model(TOKENS)
        with pytest.raises(InterventionError, match="inside a block of pool_at"):
            around(TOKENS)


@torch.no_grad()
@pytest.mark.parametrize("name", ["GPT-2", "small, post"])
def test_a_run_of_some_blocks_is_no_way_past_a_pooling(name: str) -> None:
    model = make(name)
    ones = torch.ones_like(TOKENS)
    places: Any = {"attention_mask": ones, "position_ids": ones.cumsum(1) - 1}
    resid = model.resid_pre(TOKENS, 0)
    ways = (
        lambda: model.resid_pre(TOKENS, 2),
        lambda: model.run_blocks(resid, 0, 2, **places),
        lambda: model.resume(resid, 0, **places),
    )
    with BLOCKS["collapse"](model):
        model(TOKENS)
        for way in ways:
            with pytest.raises(InterventionError, match="a run of some of its blocks was called"):
                way()
    assert all(bool(way().isfinite().all()) for way in ways)


@torch.no_grad()
def test_another_wrapper_of_the_module_is_no_way_past_a_pooling() -> None:
    module = architectures.build("Llama")
    model, other = load_model(module), load_model(module)
    with BLOCKS["collapse"](model):
        model(TOKENS)
        with pytest.raises(InterventionError, match="inside a block of pool_at"):
            other(TOKENS)


# ---- copies ----------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", ["GPT-2", "small, post", "T5"])
def test_a_copy_inside_a_block_is_refused(name: str, block: str) -> None:
    model = load_model(architectures.build(name)) if name == "T5" else make(name)
    tokens, opened = TOKENS, BLOCKS[block]
    if name == "T5":
        if block not in ("hooks", "mask_attention"):
            return
        tokens = model.random_tokens(1, 9, torch.Generator().manual_seed(0))
        opened = {
            "hooks": lambda one: one.hooks([("encoder_blocks.1.hook_in", scaled)]),
            "mask_attention": lambda one: ic.mask_attention(one, keys=[2]),
        }[block]
    parts = {"model": model, "lens": model.lens}
    if hasattr(model.lens, "original_model"):
        parts["module"] = model.lens.original_model
    ways: Mapping[str, Callable[[Any], Any]] = {
        "deepcopy": copy.deepcopy,
        "in a list": lambda part: copy.deepcopy([part]),
        "average": torch.optim.swa_utils.AveragedModel,
    }
    with opened(model):
        model(tokens)
        for part in parts.values():
            for way, make_copy in ways.items():
                if part is model and way == "average":
                    continue
                with pytest.raises(InterventionError, match=r"a copy|a block of"):
                    make_copy(part)
        shallow, edited = copy.copy(model), model(tokens)
        assert shallow.active_hooks == model.active_hooks
        with contextlib.suppress(InterventionError):
            torch.testing.assert_close(shallow(tokens), edited, rtol=0, atol=0, equal_nan=True)
    assert shallow.active_hooks == []
    torch.testing.assert_close(shallow(tokens), model(tokens), rtol=0, atol=0, equal_nan=True)


@torch.no_grad()
def test_an_edit_is_not_pickled() -> None:
    model = make("small, post")
    pickle.dumps(model.lens)
    with BLOCKS["hooks"](model):
        model(TOKENS)
        with pytest.raises(InterventionError, match="or a pickle, would keep its edit"):
            pickle.dumps(model.lens)


@pytest.mark.parametrize("name", ["GPT-2", "small, post", "BERT"])
def test_a_model_is_not_pickled_but_saved(name: str) -> None:
    model = load_model(architectures.build(name)) if name == "BERT" else make(name)
    for way in (pickle.dumps, partial(torch.save, f=io.BytesIO())):
        with pytest.raises(CapabilityError, match=r"save_pretrained\(model, folder\)"):
            way(model)


@pytest.mark.tl3
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BLOOM", "native", "small, post", "BERT"])
def test_deepcopy_gives_a_model_of_its_own(name: str) -> None:
    """After a call with autograd on, and when the original is gone; alone and inside others."""
    model = load_model(architectures.build(name)) if name == "BERT" else make(name)
    expected = run(model)
    copied = copy.deepcopy({"model": model, "again": model})
    assert copied["model"] is copied["again"]
    twin = copied["model"]
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    del model, copied
    gc.collect()
    assert torch.equal(run(twin), expected)
    run(twin).logsumexp(-1).sum().backward()
    assert any(weight.grad is not None for weight in twin.parameters())


@torch.no_grad()
def test_a_bridge_that_was_copied_is_loaded_as_one_of_its_own() -> None:
    model = load_model(architectures.build("GPT-2"))
    expected = model(TOKENS)
    twin = load_model(copy.deepcopy(model.lens))
    del model
    gc.collect()
    assert torch.equal(twin(TOKENS), expected)


# ---- what a call leaves ----------------------------------------------------------------------


@contextmanager
def _nothing_stays() -> Iterator[None]:
    """No tensor that the block makes can be reached after it. What was there before is set aside,
    so that the collector does not go through it."""
    gc.collect()
    gc.freeze()
    try:
        yield
        gc.collect()
        assert not [one for one in gc.get_objects() if issubclass(type(one), Tensor)]
    finally:
        gc.unfreeze()


@pytest.mark.tl3
@pytest.mark.parametrize("name", ["GPT-2", "GPT-NeoX", "BLOOM", "small, post"])
def test_nothing_of_a_call_stays_when_its_outputs_are_gone(name: str) -> None:
    model = make(name)
    calls: list[Callable[[], Any]] = [
        lambda: model(TOKENS),
        lambda: model.capture(TOKENS, [RESID], grad=True),
        lambda: model.run_with_cache(TOKENS),
        lambda: model.lens(TOKENS),
    ]
    for call in calls:
        call()  # what is made once: proofs, buffers
        with _nothing_stays():
            call()


def test_what_a_call_leaves_is_seen() -> None:
    kept = []
    with pytest.raises(AssertionError), _nothing_stays():
        kept.append(torch.ones(1))


# ---- edits that reach less than they seem to --------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("name", ["GPT-2", "Gemma 2"])
def test_an_edit_that_passes_the_residual_by_is_refused(name: str) -> None:
    """TransformerLens' hook_resid_mid is what the MLP's norm reads; the residual goes around it."""
    model = load_model(architectures.build(name))
    where = "blocks.1.hook_resid_mid"
    with pytest.raises(CapabilityError, match="passes the residual itself by"):
        model.run_with_hooks(TOKENS, [(where, scaled)])
    model.run_with_hooks(TOKENS, [(where, lambda resid, hook: None)])  # it shows what it says
    small = make("small, post")
    assert not torch.equal(small.run_with_hooks(TOKENS, [(where, scaled)]), small(TOKENS))


@torch.no_grad()
def test_a_parameter_takes_the_place_of_an_activation() -> None:
    model = load_model(architectures.build("GPT-2"))
    clean = model(TOKENS)
    learned = torch.nn.Parameter(model.resid_pre(TOKENS, 1) * 0.5)
    edited = model.run_with_hooks(TOKENS, [(RESID, lambda resid, hook: learned)])
    half = model.run_with_hooks(TOKENS, [(RESID, lambda resid, hook: resid * 0.5)])
    torch.testing.assert_close(edited, half)
    assert torch.equal(model(TOKENS), clean)


@torch.no_grad()
@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (lambda resid, hook: resid.to("meta"), r"float32 on meta; expected .* on cpu"),
        (lambda resid, hook: resid.to_sparse(), "torch.sparse_coo; expected"),
    ],
)
def test_a_tensor_that_is_elsewhere_is_refused(hook: Any, message: str) -> None:
    model = load_model(architectures.build("GPT-2"))
    with pytest.raises(InterventionError, match=message):
        model.run_with_hooks(TOKENS, [(RESID, hook)])


@torch.no_grad()
@pytest.mark.parametrize("hook", [torch.nn.ReLU(), torch.relu, str])
def test_a_callable_that_takes_no_hook_point_is_refused(hook: Any) -> None:
    model = load_model(architectures.build("GPT-2"))
    with pytest.raises(
        OptionError, match="expected a function of an activation and its hook point"
    ):
        model.run_with_hooks(TOKENS, [(RESID, hook)])


@torch.no_grad()
def test_another_wrapper_names_the_hooks_that_act_on_it() -> None:
    module = architectures.build("GPT-2")
    model, other = load_model(module), load_model(module)
    with BLOCKS["hooks"](model):
        model(TOKENS)
        assert len(other.active_hooks) == 1
    assert other.active_hooks == []


@torch.no_grad()
def test_layers_that_were_replaced_inside_a_block_end_in_an_error() -> None:
    module = architectures.build("Llama")
    model = load_model(module)

    def replaced() -> None:
        with BLOCKS["mask_attention"](model):
            model(TOKENS)
            module.model.layers = torch.nn.ModuleList(architectures.build("Llama").model.layers)

    with pytest.raises(InterventionError, match="under an edit was replaced or removed inside"):
        replaced()
