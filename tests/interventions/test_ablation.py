"""Heads and neurons replaced, against hooks and means written out here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from interp_compose.errors import (
    CapabilityError,
    HeadError,
    InputError,
    InterventionError,
    LayerError,
    OptionError,
)
from interp_compose.interventions.ablate import _draws, ablate
from interp_compose.models.capabilities import Probe
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests import architectures
from tests.interventions.shared import (
    MASK,
    TOKENS,
    assert_clean,
    run,
    shared,
)
from tests.models.test_bridge import make

pytestmark = pytest.mark.tl3

REFERENCE = torch.tensor([[71, 71, 4, 8, 15, 16], [23, 42, 33, 34, 71, 71], [9, 18, 7, 6, 5, 24]])
REFERENCE_MASK = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])


def activations(model: LensModel, name: str, tokens: Tensor, mask: Tensor) -> Tensor:
    return model.capture(tokens, [name], attention_mask=mask, read="hidden")[1][name]


@torch.no_grad()
def test_zero_equals_hooks_written_out(model: LensModel) -> None:
    heads, neurons = [(0, 1), (2, 0)], [(1, 7), (1, 50)]
    alive: list[bool] = []

    def on_heads(z: Tensor, hook: Any) -> Tensor:
        z = z.clone()
        for layer, head in heads:
            if hook.name.startswith(f"blocks.{layer}."):
                for row, position in ((0, 2), (0, 5), (1, 2), (1, 5)):
                    for i in range(z.shape[3]):
                        z[row, position, head, i] = 0
        return z

    def on_neurons(post: Tensor, hook: Any) -> Tensor:
        post = post.clone()
        for row, position in ((0, 2), (0, 5), (1, 2), (1, 5)):
            for neuron in (7, 50):
                alive.append(bool(post[row, position, neuron] != 0))  # OPT's are ReLUs
                post[row, position, neuron] = 0
        return post

    hooks = [("blocks.1.mlp.hook_post", on_neurons)]
    hooks += [(f"blocks.{layer}.attn.hook_z", on_heads) for layer, _ in heads]
    read: Any = "hidden" if model.bidirectional else "logits"
    expected = model.run_with_hooks(TOKENS, hooks, attention_mask=MASK, read=read)
    with ablate(model, heads=heads, neurons=neurons, positions=[2, -2]) as record:
        found = run(model, TOKENS, MASK)
    assert torch.equal(found, expected)
    assert not torch.equal(found, run(model, TOKENS, MASK))
    assert record.calls == 1
    assert record.n_changed == 2 * 4 + sum(alive)
    assert_clean(model)


@torch.no_grad()
def test_a_head_without_output_leaves_attention_without_it(each: LensModel) -> None:
    """What hook_attn_out loses is the head's own summand, z W_O, computed here in float64."""
    model = each
    if model.bidirectional:
        pytest.skip("an encoder's hook_attn_out comes after its norm")
    if model.name == "OLMo 2" or model.architecture.startswith(("Gemma2", "Gemma3", "Olmo2")):
        pytest.skip("a norm follows the attention's output projection")
    head = 1
    name, out = "blocks.1.attn.hook_z", "blocks.1.hook_attn_out"
    names = [name, out]
    _, usual = model.capture(TOKENS, names)
    with ablate(model, heads=head, layers=1):
        _, found = model.capture(TOKENS, names)
    w_o = model.weight("W_O")[1, head].double()
    z = usual[name][:, :, head].double()
    lost = torch.zeros_like(usual[out], dtype=torch.float64)
    for i in range(z.shape[-1]):
        lost += z[:, :, i, None] * w_o[i]
    torch.testing.assert_close(
        (usual[out].double() - found[out].double()), lost, atol=1e-5, rtol=1e-5
    )


@torch.no_grad()
def test_mean_of_a_padded_reference(model: LensModel) -> None:
    z_name, post_name = "blocks.1.attn.hook_z", "blocks.1.mlp.hook_post"
    means = {}
    for name in (z_name, post_name):
        of_all = activations(model, name, REFERENCE, REFERENCE_MASK).double()
        total, count = torch.zeros_like(of_all[0, 0]), 0
        for row in range(3):
            for position in range(6):
                if REFERENCE_MASK[row, position]:
                    total, count = total + of_all[row, position], count + 1
        means[name] = total / count
    kept: dict[str, Tensor] = {}

    def keep(activation: Tensor, hook: Any) -> None:
        kept[str(activation.ndim)] = activation

    clean_z = activations(model, z_name, TOKENS, MASK)
    block = ablate(
        model,
        heads=[1],
        neurons=[3, 11],
        layers=1,
        positions=[4],
        how="mean",
        reference=REFERENCE,
        reference_mask=REFERENCE_MASK,
    )
    with block, model.hooks([(z_name, keep), (post_name, keep)]):
        run(model, TOKENS, MASK)
    z, post = kept["4"], kept["3"]
    expected = means[z_name][1].float().expand(2, -1)
    torch.testing.assert_close(z[:, 4, 1], expected, atol=1e-6, rtol=1e-5)
    for neuron in (3, 11):
        expected = means[post_name][neuron].float().expand(2)
        torch.testing.assert_close(post[:, 4, neuron], expected, atol=1e-6, rtol=1e-5)
    assert torch.equal(z[:, [2, 3, 5, 6]], clean_z[:, [2, 3, 5, 6]])
    assert torch.equal(z[:, 4, 0], clean_z[:, 4, 0])


BEHIND_HOOK_Z = ("BitNet", "Afmoe", "Laguna", "Gemma 4")
"""Their ``hook_z`` is not the mean of ``hook_v``: a norm or a gate comes between, or ``hook_v`` is
shown before a norm."""


@architectures.needs_tl4
@torch.no_grad()
@pytest.mark.parametrize("name", BEHIND_HOOK_Z)
def test_a_head_is_what_the_output_projection_reads_of_it(name: str) -> None:
    """The same in transformers alone: columns of what enters ``o_proj`` replaced."""
    module: Any = architectures.build(name)
    module.set_attn_implementation("eager")  # as load_model sets it
    projection = module.model.layers[1].self_attn.o_proj
    model, head, stored = load_model(architectures.build(name)), 1, list[Tensor]()
    d_head = projection.in_features // model.n_heads
    of_head = slice(head * d_head, (head + 1) * d_head)
    with projection.register_forward_pre_hook(lambda _, args: stored.append(args[0].clone())):
        module(REFERENCE, attention_mask=REFERENCE_MASK)
    real = stored[0][REFERENCE_MASK.bool()][:, of_head]
    drawn = _draws(TOKENS[:1], len(real), seed=3)
    for how, new in (("zero", 0 * real[0]), ("mean", real.mean(dim=0)), ("resample", real[drawn])):

        def replaces(_: Any, args: tuple[Tensor], new: Tensor = new) -> tuple[Tensor]:
            z = args[0].clone()
            z[:, :, of_head] = new
            return (z,)

        with projection.register_forward_pre_hook(replaces):
            expected = module(TOKENS[:1]).logits
        options: Any = {} if how == "zero" else {"reference": REFERENCE}
        options |= {} if how == "zero" else {"reference_mask": REFERENCE_MASK, "seed": 3}
        with ablate(model, heads=[(1, head)], how=how, **options):  # type: ignore[arg-type]
            found = model(TOKENS[:1])
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
        assert (found - model(TOKENS[:1])).abs().max() > 0.01 * expected.std()


@torch.no_grad()
def test_resampled_tokens_are_whole_and_seeded(model: LensModel) -> None:
    names = ["blocks.0.attn.hook_z", "blocks.0.mlp.hook_post"]
    kept: list[dict[str, Tensor]] = []
    pools = {name: activations(model, name, REFERENCE, REFERENCE_MASK) for name in names}
    outs = []
    for seed in (0, 0, 1):
        store: dict[str, Tensor] = {}

        def keep(activation: Tensor, hook: Any, store: dict[str, Tensor] = store) -> None:
            store[names[activation.ndim == 3]] = activation

        block = ablate(
            model,
            heads=None if model.bidirectional else range(model.n_heads),
            neurons=range(model.proofs.n_neurons()),
            layers=0,
            how="resample",
            reference=REFERENCE,
            reference_mask=REFERENCE_MASK,
            seed=seed,
        )
        with block, model.hooks([(name, keep) for name in names]):
            outs.append(run(model, TOKENS, MASK))
            assert torch.equal(run(model, TOKENS, MASK), outs[-1])  # the same in every call
        kept.append(store)
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
    drawn: list[dict[str, list[int]]] = []
    for store in kept:
        of_names: dict[str, list[int]] = {}
        for name in names[int(model.bidirectional) :]:
            of_names[name] = []
            for row, position in MASK.nonzero().tolist():
                same = (pools[name] == store[name][row, position]).flatten(2).all(-1)
                assert bool((same & REFERENCE_MASK.bool()).any())  # a real token's, as a whole
                of_names[name].append(int(same.flatten().nonzero()[0]))
        drawn.append(of_names)
    for of_names in drawn:  # heads and neurons are of one token
        assert len(set(map(tuple, of_names.values()))) == 1
    assert len({token for tokens in drawn[0].values() for token in tokens}) > 3


@torch.no_grad()
def test_its_own_values_change_nothing() -> None:
    """Resampled from a single token, which is the token at that position."""
    model = shared("GPT-2")
    one = torch.tensor([[5]])
    clean = run(model, one)
    with (
        pytest.raises(InterventionError, match=r"ablate\(how='resample'\) changed nothing"),
        ablate(model, heads=[0, 1, 2, 3], how="resample", reference=one),
    ):
        assert torch.equal(run(model, one), clean)
    assert_clean(model)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:.*name no position, so that nothing is edited")
def test_nothing_chosen_is_bit_equal(model: LensModel) -> None:
    clean = run(model, TOKENS, MASK)
    nobody = torch.zeros_like(TOKENS, dtype=torch.bool)
    for positions in ([], nobody):
        with ablate(model, heads=[0], neurons=[1], positions=positions) as record:
            assert torch.equal(run(model, TOKENS, MASK), clean)
        assert record.calls == 1
        assert record.n_changed == 0


@torch.no_grad()
def test_dead_neurons_are_said() -> None:
    """OPT has ReLUs; this one has a bias below all inputs."""
    model = make("OPT")
    name = "blocks.1.mlp.hook_post"
    bias = model.lens.original_model.model.decoder.layers[1].fc1.bias
    bias[5] = -100.0
    assert bool((activations(model, name, TOKENS, MASK)[:, :, 5] == 0).all())
    with (
        pytest.raises(InterventionError, match=r"changed nothing: .*\(a dead neuron"),
        ablate(model, neurons=[(1, 5)]),
    ):
        run(model, TOKENS)
    with (
        pytest.raises(InterventionError, match="changed nothing"),
        ablate(model, neurons=[(1, 5)]),
    ):
        model.lens(TOKENS)  # past the model's own surface as well
    assert_clean(model)


@torch.no_grad()
@pytest.mark.parametrize("how", ["zero", "mean", "resample"])
def test_bfloat16(how: str) -> None:
    model = load_model(architectures.build("Llama").to(torch.bfloat16))
    reference = None if how == "zero" else REFERENCE
    z = "blocks.1.attn.hook_z"
    with ablate(model, heads=[(1, 2)], how=how, reference=reference):
        logits, found = model.capture(TOKENS, [z])
    assert logits.dtype == found[z].dtype == torch.bfloat16
    if how == "mean":
        pool = activations(model, z, REFERENCE, torch.ones_like(REFERENCE))[:, :, 2].double()
        expected = pool.flatten(0, 1).mean(0).to(torch.bfloat16)
        assert torch.equal(found[z][0, 0, 2], expected)


def test_gradients_flow() -> None:
    model = make("GPT-2")
    with ablate(model, heads=[0], neurons=[3], layers=1, how="mean", reference=REFERENCE):
        run(model, TOKENS).square().sum().backward()
    for weight in model.parameters():
        assert weight.grad is None or bool(weight.grad.isfinite().all())
    mlp = model.lens.original_model.transformer.h[1].mlp
    assert bool((mlp.c_fc.weight.grad[:, 3] == 0).all())  # nothing reaches what was replaced
    assert bool((mlp.c_fc.weight.grad[:, 4] != 0).any())


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({}, OptionError, "nothing to ablate: name heads or neurons"),
    ({"heads": [0], "how": "median"}, OptionError, "how='median'; expected one of 'zero', 'mean'"),
    ({"heads": [0], "how": "mean"}, OptionError, "how='mean' needs token ids"),
    ({"heads": [0], "reference": REFERENCE}, OptionError, "how='zero' needs no reference"),
    ({"heads": [0], "reference_mask": REFERENCE}, OptionError, "how='zero' needs no reference"),
    ({"heads": [4]}, HeadError, "head 4 is outside its layer: expected numbers from 0 to 3"),
    ({"heads": [4], "how": "mean"}, HeadError, "head 4 is outside its layer"),
    ({"neurons": [53]}, HeadError, "neuron 53 is outside its layer: expected .* from 0 to 52"),
    ({"neurons": []}, HeadError, "no neurons"),
    ({"heads": [(0, 1)], "layers": [1]}, LayerError, r"head \(0, 1\) is of layer 0"),
    ({"heads": [0], "layers": 3}, LayerError, "layer 3 is outside"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED)
def test_refusals(options: dict[str, Any], error: type[Exception], message: str) -> None:
    model = shared("GPT-2")
    with pytest.raises(error, match=message), ablate(model, **options):
        pytest.fail("it was let in")
    assert_clean(model)


BAD_REFERENCES: list[tuple[Any, Any, Any, type[Exception], str]] = [
    (torch.ones(0, 3).long(), None, 0, InputError, r"reference is \[0, 3\]"),
    (torch.tensor([[5, 97]]), None, 0, InputError, "reference holds 5 … 97"),
    (torch.tensor([[-1, 9]]), None, 0, InputError, "reference holds -1 … 9"),
    (torch.ones(1, 62).long(), None, 0, InputError, "has 62 positions and .* reads 61; shorten"),
    (REFERENCE, MASK, 0, OptionError, r"reference_mask is a Tensor \[2, 7\].*of the sizes of"),
    (REFERENCE, REFERENCE_MASK * 0, 0, InputError, "reference_mask has no token in row 0"),
]


@pytest.mark.parametrize(("reference", "mask", "seed", "error", "message"), BAD_REFERENCES)
def test_bad_references(
    reference: Any, mask: Any, seed: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ablate(
            shared("GPT-2"),
            heads=[0],
            how="mean",
            reference=reference,
            reference_mask=mask,
            seed=seed,
        ).__enter__()


def test_an_activation_whose_edits_reach_nothing_is_refused() -> None:
    model = make("GPT-2")
    probes = dict(model.capabilities.probes)
    assert probes["edit_z"].held
    assert probes["edit_post"].held
    for name, options in (("edit_z", {"heads": [0]}), ("edit_post", {"neurons": [0]})):
        model.capabilities.probes[name] = Probe(False, "the output moved by 0.0e+00")
        with pytest.raises(CapabilityError, match=f"'{name}'"), ablate(model, **options):
            pass
        model.capabilities.probes.update(probes)


def test_never_called() -> None:
    model = shared("GPT-2")
    with pytest.raises(InterventionError, match="never fired"), ablate(model, heads=[0]):
        pass
    assert_clean(model)


def test_a_mixture_of_experts_has_no_neurons_to_name() -> None:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=97,
        hidden_size=64,
        intermediate_size=56,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
    )
    model = load_model(MixtralForCausalLM(config).eval())
    refused = pytest.raises(CapabilityError, match="MixtralForCausalLM shows its MLP's output")
    with refused, ablate(model, neurons=[(1, 5)]):
        model(TOKENS)
    with ablate(model, heads=[(1, 0)]) as record:
        model(TOKENS)
    assert record.n_changed > 0
