"""Models whose blocks lie on several devices, as ``device_map`` places them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

import interp_compose as ic
from interp_compose.errors import CapabilityError, OptionError
from interp_compose.interventions.streams import JoinedStreams
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.model_files import check_places
from interp_compose.types import Example
from tests import architectures
from tests.several_devices import dispatched, several_devices
from tests.studies.conftest import TEXTS, splitting_tokenizer
from tests.studies.similarity_reference import ROWS
from tests.studies.test_transplant import PAIRS

TOKENS = torch.tensor([[5, 17, 3, 41, 29, 11, 7], [13, 2, 89, 23, 31, 3, 19]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1]])
UNITS = torch.tensor([[0, 0, 1, 1, 2, 2, 3], [-1, -1, 0, 0, 1, 1, 2]])
EXAMPLES = [Example(f'{text} "', answer) for text, answer in zip(TEXTS[:3], "abc", strict=True)]
RESID = [f"blocks.{layer}.hook_resid_pre" for layer in range(architectures.N_LAYERS)]
LAST = architectures.N_LAYERS - 1

BEFORE = {
    "GPT-2": ("transformer.wte", "transformer.wpe", "lm_head"),  # tied: on one device
    "Llama": ("model.embed_tokens", "model.rotary_emb"),
}
BEHIND = {
    "GPT-2": ("transformer.h.{}", "transformer.ln_f"),
    "Llama": ("model.layers.{}", "model.norm", "lm_head"),
}


def split(name: str) -> dict[str, str]:
    """A ``device_map``: embeddings and the first block on one device, all others on another."""
    block, *rest = BEHIND[name]
    blocks = {block.format(k): f"cpu:{min(k, 1)}" for k in range(architectures.N_LAYERS)}
    return dict.fromkeys(BEFORE[name], "cpu:0") | blocks | dict.fromkeys(rest, "cpu:1")


@pytest.fixture(autouse=True)
def _devices() -> Iterator[None]:
    with several_devices():
        yield


def on_two(name: str) -> LensModel:
    module = dispatched(architectures.build(name).eval(), split(name))
    return load_model(module, tokenizer=splitting_tokenizer())


@pytest.fixture(scope="module", params=BEFORE)
def models(request: pytest.FixtureRequest) -> tuple[LensModel, LensModel]:
    """The same weights on one device, and on two."""
    with several_devices():
        one = load_model(architectures.build(request.param).eval(), tokenizer=splitting_tokenizer())
        return one, on_two(request.param)


def alike(models: tuple[LensModel, LensModel], measure: Callable[[LensModel], Any]) -> None:
    """Both models give the same, bit for bit."""
    one, two = (measure(model) for model in models)
    for first, second in zip(one, two, strict=True):
        if isinstance(first, Tensor):
            assert torch.equal(first.cpu(), second.cpu())
        elif isinstance(first, pd.DataFrame):
            pd.testing.assert_frame_equal(first, second, check_exact=True)
        else:
            assert first == second


def test_tensors_of_two_devices_do_not_mix() -> None:
    zero, one = (torch.arange(3.0, device=f"cpu:{i}") for i in range(2))
    for mixed in (
        lambda: zero + one,
        lambda: zero + torch.ones(3),
        lambda: zero.gather(0, torch.tensor([0])),
        lambda: zero[torch.tensor([0], device="cpu:1")],
        lambda: torch.cat([zero, one]),
    ):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            mixed()
    assert (zero[torch.tensor([2])] + torch.tensor(1.0)).tolist() == [3.0]  # as on a GPU
    zero[:2] = one[:2] + 1
    assert (zero.tolist(), str(zero.device)) == ([1.0, 2.0, 2.0], "cpu:0")
    assert str(zero.to(one).device) == str(torch.tensor([1], device="cpu:1").device) == "cpu:1"


def test_a_block_that_is_given_what_lies_elsewhere_fails() -> None:
    from accelerate.hooks import remove_hook_from_submodules

    module = dispatched(architectures.build("GPT-2").eval(), split("GPT-2"))
    tokens = TOKENS.to("cpu:0")
    assert str(module(tokens).logits.device) == "cpu:0"
    remove_hook_from_submodules(module.transformer.h[1])
    with pytest.raises(RuntimeError, match="cpu:0 and cpu:1"):
        module(tokens)


def test_every_capability_is_proven_on_two_devices(models: tuple[LensModel, LensModel]) -> None:
    one, two = ({n: p.held for n, p in m.capabilities.probes.items()} for m in models)
    assert one == two
    assert all(two.values())


STUDIES: dict[str, Callable[[LensModel], Any]] = {
    "collapse": partial(ic.cap_curve, examples=EXAMPLES, progress=False),
    "broadcast": partial(ic.cap_curve, examples=EXAMPLES, mode="broadcast", progress=False),
    "transplant": partial(ic.transplant, pairs=PAIRS, progress=False),
    "similarity": partial(ic.similarity_curve, pairs=ROWS, progress=False),
} | {
    f"ablation of {' '.join(options.values())}": partial(
        ic.ablation_curve, examples=EXAMPLES, progress=False, **options
    )
    for options in (
        {"what": "words"},
        {"what": "words", "mode": "zero", "reach": "until"},
        {"what": "heads", "how": "resample"},
        {"what": "heads", "how": "mean", "reach": "at"},
        {"what": "layers"},
    )
}


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_gives_what_it_gives_on_one_device(
    models: tuple[LensModel, LensModel], study: str
) -> None:
    alike(models, lambda model: [STUDIES[study](model).outcomes])


def test_streams_and_keys_lie_where_their_block_does(
    models: tuple[LensModel, LensModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    places, run = {}, JoinedStreams.run

    def noted(streams: JoinedStreams, start: int, stop: int, edit: Any = None) -> None:
        run(streams, start, stop, edit)
        places[stop] = str(streams.resid.device)

    monkeypatch.setattr(JoinedStreams, "run", noted)
    two = models[1]
    STUDIES["collapse"](two)
    assert places == {1: "cpu:0", 2: "cpu:1"}
    with two.keeping() as kept:
        two(TOKENS.to(two.device))
    assert [str(keys.device) for keys in kept().keys] == ["cpu:0", "cpu:1", "cpu:1"]


REFERENCE: dict[str, Any] = {"reference": TOKENS, "reference_mask": MASK}
BLOCKS: dict[str, Callable[[LensModel], AbstractContextManager[Any]]] = {
    "collapse": lambda m: ic.pool_at(m, LAST, UNITS),
    "broadcast": lambda m: ic.pool_at(m, LAST, UNITS, "max", mode="broadcast"),
    "knockout": lambda m: ic.mask_attention(m, keys=3, queries=[4, 5, 6]),
    "knockout after the softmax": lambda m: ic.mask_attention(m, keys=3, heads=[1], mode="zero"),
    "mlp": lambda m: ic.mask_residual(m, positions=3, part="mlp"),
    "block": lambda m: ic.mask_residual(m, positions=UNITS == 1),
    "zero": lambda m: ic.ablate(m, heads=[0, 2], neurons=[1, 5], positions=[2, 3]),
    "mean": lambda m: ic.ablate(m, heads=[0], how="mean", **REFERENCE),
    "resample": lambda m: ic.ablate(m, neurons=[1, 5], how="resample", **REFERENCE),
    "hooks": lambda m: m.hooks([(name, lambda resid, hook: resid * 1.1) for name in RESID]),
}


@pytest.mark.parametrize("block", BLOCKS)
@torch.no_grad()
def test_an_intervention_acts_as_on_one_device(
    models: tuple[LensModel, LensModel], block: str
) -> None:
    def logits(model: LensModel) -> list[Any]:
        tokens, mask = TOKENS.to(model.device), MASK.to(model.device)
        with BLOCKS[block](model) as record:
            out = model(tokens, attention_mask=mask)
        assert out.device == model.device
        return [out, getattr(record, "n_changed", 0)]

    alike(models, logits)


def test_what_is_read_is_what_is_read_on_one_device(models: tuple[LensModel, LensModel]) -> None:
    def everything(model: LensModel) -> list[Any]:
        tokens = TOKENS.to(model.device)
        _, cache = model.run_with_cache(tokens)
        logits, resid = model.capture(tokens, RESID, grad=True)
        words = ic.word_vectors(model, TEXTS[0], LAST)
        with ic.mask_attention(model, keys=2):
            generated = [model.generate(tokens[:1], 3), model.generate(TEXTS[0], 3)]
        return [
            *(cache[name] for name in sorted(cache)),
            *torch.autograd.grad(logits[:, -1].logsumexp(-1).sum(), list(resid.values())),
            model.unembed(model.resid_pre(tokens, 1)),
            *(model.weight("W_E"), model.weight("W_U")),
            *(generated + [words[word] for word in words]),
            ic.embed_texts(model, TEXTS[:2], embedding="mean"),
            str(ic.attention_leak(model, tokens, keys=[2])),
        ]

    alike(models, everything)


def test_an_audit_finds_what_it_finds_on_one_device(models: tuple[LensModel, LensModel]) -> None:
    alike(models, lambda model: ic.audit(model, progress=False).frame["status"].tolist())


def test_weights_of_several_devices_are_not_stacked(models: tuple[LensModel, LensModel]) -> None:
    models[0].weight("W_Q")
    with pytest.raises(CapabilityError, match="lie on cpu:0, cpu:1, and a stack .*'W_Q'.*blocks"):
        models[1].weight("W_Q")


def test_an_encoder_is_proven_on_two_devices() -> None:
    split = {"bert.embeddings": "cpu:0", "bert.encoder.layer.0": "cpu:0", "cls": "cpu:0"}
    rest = {f"bert.encoder.layer.{k}": "cpu:1" for k in range(1, architectures.N_LAYERS)}
    model = load_model(dispatched(architectures.build("BERT").eval(), split | rest))
    model.require("resume", "hidden", "mask_attention")
    assert model.encode(TOKENS.to(model.device)).device == model.device


def test_a_final_norm_may_lie_elsewhere_than_the_last_block() -> None:
    """GPT-J's TransformerLens computes itself."""
    block, norm = "transformer.h.{}", {"transformer.ln_f": "cpu:0"}
    blocks = {block.format(k): "cpu:1" for k in range(architectures.N_LAYERS)}
    split = dict.fromkeys(("transformer.wte", "lm_head"), "cpu:0") | blocks | norm
    module = architectures.build("GPT-J").eval()
    clean = module(TOKENS).logits
    model = load_model(dispatched(module, split))
    torch.testing.assert_close(model(TOKENS.to("cpu:0")).cpu(), clean, atol=1e-5, rtol=0)


def test_an_encoder_decoder_on_two_devices_is_refused() -> None:
    module = architectures.build("T5").eval()
    parts = {"shared": "cpu:0", "encoder": "cpu:0", "decoder": "cpu:1", "lm_head": "cpu:0"}
    with pytest.raises(CapabilityError, match="T5ForCond.* lies on cpu:0, cpu:1, .*one device"):
        load_model(dispatched(module, parts))


@pytest.mark.parametrize("name", BEFORE)
def test_a_folder_loads_onto_two_devices(name: str, tmp_path: Path) -> None:
    module = architectures.build(name).eval()
    module.save_pretrained(tmp_path)
    splitting_tokenizer().save_pretrained(tmp_path)
    two = load_model(tmp_path, device_map=split(name))
    assert {str(weight.device) for weight in two.parameters()} == {"cpu:0", "cpu:1"}
    out = two(TOKENS.to(two.device))
    torch.testing.assert_close(out.cpu(), module(TOKENS).logits, atol=1e-5, rtol=0)


WRONG_PLACES = {
    "a block left out": (
        lambda places: places.pop("transformer.h.1"),
        "12 weights .*transformer.h.1",
    ),
    "an unknown block": (
        lambda places: places.update({"transformer.h.9": "cpu:1"}),
        r"places 'transformer.h.9', .*does not have; did you mean 'transformer.h.\d'",
    ),
    "another model's": (
        lambda places: places.update({"model.embed_tokens": "cpu:0"}),
        "places 'model.embed_tokens', .*does not have; it has transformer, transformer.wte",
    ),
    "nothing": (dict.clear, "without a device, transformer.wte.weight the first"),
}


@pytest.mark.parametrize("case", WRONG_PLACES)
def test_a_map_that_does_not_fit_the_model_is_refused(case: str, tmp_path: Path) -> None:
    change, message = WRONG_PLACES[case]
    architectures.build("GPT-2").save_pretrained(tmp_path)
    places = split("GPT-2")
    change(places)
    with pytest.raises(OptionError, match=message):
        load_model(tmp_path, device_map=places)


@pytest.mark.parametrize("name", BEFORE)
def test_a_map_may_name_any_weight_or_buffer(name: str) -> None:
    """Tied weights under each of their names, parts of what is placed already."""
    module = architectures.build(name)
    parts = {one: "cpu" for one, _ in module.named_buffers()} | dict.fromkeys(
        module.state_dict(), "cpu"
    )
    check_places(module.config, name, parts)
    check_places(module.config, name, {"": "cpu", **parts})


def test_training_is_refused_by_name(models: tuple[LensModel, LensModel]) -> None:
    examples = [("abc bcd ab", "a")] * 4
    with (
        several_devices(),
        pytest.raises(CapabilityError, match="lie on cpu:0, cpu:1, and training is proven on one"),
    ):
        ic.finetune(models[1], ic.Task("own", train=examples, validation=[], test=examples))
