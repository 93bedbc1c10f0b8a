"""Audits: models that are what they claim to be, models that are not, and each kind of finding."""

from __future__ import annotations

import copy
import io
import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformer_lens.model_bridge.generalized_components.attention import AttentionBridge

import interp_compose as ic
from interp_compose import cli
from interp_compose.errors import CapabilityError, InputError, OptionError
from interp_compose.models import generate, proofs
from interp_compose.models.capabilities import (
    COPY_ACTS,
    DISCARDS,
    MEANING,
    Capabilities,
    Probe,
    prove_capabilities,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import weights_digest
from interp_compose.models.outcomes import Outcome, compared
from interp_compose.models.shown import (
    Recorded,
    attention,
    hook_points,
    parts,
    residuals,
    seen_by_softmax,
)
from interp_compose.studies.audit import hook_checks, measure, model_checks
from interp_compose.studies.audit.hook_checks import check_hooks
from interp_compose.studies.audit.measure import AGAIN, LOADS
from interp_compose.studies.audit.model_checks import (
    _after_an_error,
    _causal,
    _gradients,
    _loss,
    _neighbours,
    _resumed,
    _strings,
    _weights,
    called_again,
)
from tests import architectures
from tests.untyped import outcomes_of


def small() -> LensModel:
    config = ic.complexity.DecoderConfig(
        d_vocab=19, n_ctx=11, n_layers=2, d_model=8, n_heads=2, d_mlp=12
    )
    return ic.complexity.small_decoder(config, init_rate=0.4, seed=0)


def tokens(model: LensModel) -> Tensor:
    return model.random_tokens(2, 7, torch.Generator().manual_seed(0))


def found(audit: ic.Audit) -> dict[tuple[str, str], str]:
    """Status by hook point and check."""
    rows = audit.frame
    return dict(zip(zip(rows["name"], rows["check"], strict=True), rows["status"], strict=True))


ACTS = "each weight, applied by hand, gives what its module returned"
EDIT = "a random edit moves the output, a copy does not"
EITHER_SIDE = "a text's output does not depend on its neighbours, padded on either side"


SIZES: Any = {"vocab_size": 19, "n_positions": 11, "n_embd": 8, "n_layer": 2, "n_head": 2}
SIZES |= {"initializer_range": 0.3}


def gpt2() -> hf.GPT2LMHeadModel:
    torch.manual_seed(0)
    return hf.GPT2LMHeadModel(hf.GPT2Config(**SIZES)).eval()


def llama(**settings: Any) -> Any:
    torch.manual_seed(0)
    return hf.LlamaForCausalLM(hf.LlamaConfig(**{**architectures._GQA, **settings})).eval()


@pytest.fixture(autouse=True)
def not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracing takes seconds: once is enough."""
    passed = Outcome("not tried", "")
    monkeypatch.setattr(model_checks, "_compiled", lambda model, tokens: passed)


@pytest.fixture(scope="module")
def of_opt() -> ic.Audit:
    torch.manual_seed(0)
    sizes = {"vocab_size": 19, "hidden_size": 8, "ffn_dim": 12, "num_hidden_layers": 1}
    config = hf.OPTConfig(
        **sizes, num_attention_heads=2, max_position_embeddings=11, word_embed_proj_dim=8,
        init_std=0.3, pad_token_id=0,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_checks, "_compiled", lambda model, tokens: Outcome("not tried", ""))
        return ic.audit(hf.OPTForCausalLM(config).eval(), progress=False)


def test_a_model_that_is_what_it_claims_to_be() -> None:
    audit = ic.audit(gpt2(), progress=False)
    assert audit.findings.empty
    assert audit.exit_status == 0
    status = found(audit)
    assert status["blocks.0.hook_resid_post", "is the next block's hook_resid_pre"] == "holds"
    for layer in range(2):
        place = f"blocks.{layer}"
        for check in (
            (f"{place}.attn.hook_pattern", "is not negative, and sums to 1"),
            (f"{place}.attn.hook_pattern", "gives later positions nothing"),
            (f"{place}.attn.hook_attn_scores", "hook_pattern is its softmax"),
            (f"{place}.attn.hook_z", "is hook_pattern · hook_v"),
            (f"{place}.hook_resid_post", "is hook_resid_pre + attn + mlp"),
            (f"{place}.hook_resid_pre", "is what the wrapped module was given"),
            (f"{place}.hook_resid_post", "is what the wrapped module returned"),
        ):
            assert status[check] == "holds", check
        where = (f"{place}.hook_attn_out", "is what the wrapped module returned")
        assert status[where] == "not tried"  # which TransformerLens computes itself
    assert (audit.frame["status"] == "silent").any()
    assert audit.frame[audit.frame["part"] == "hook"]["detail"].str.len().min() > 0
    products = audit.frame[audit.frame["check"] == "with hook_k gives hook_pattern"]
    assert products["detail"].str.startswith("relative error ").sum() == 2
    model = ic.load_model(gpt2())
    assert {name for name, check in status if check == "fires"} == set(hook_points(model))


def test_edits_that_are_discarded_and_a_hook_with_another_name(of_opt: ic.Audit) -> None:
    status = found(of_opt)
    for hook in ("hook_pattern", "hook_attn_scores"):
        assert status[f"blocks.0.attn.{hook}", EDIT] == "discarded"
    assert status["blocks.0.attn.hook_attn_scores", "hook_pattern is its softmax"] == "wrong"
    assert status["blocks.0.hook_resid_post", "is hook_resid_pre + attn + mlp"] == "holds"
    assert of_opt.exit_status == 1
    assert set(of_opt.findings["status"]) == {"wrong", "discarded"}
    assert "attn.hook_pattern" in of_opt.summary()


@pytest.mark.parametrize("quick", [True, False])
def test_the_bar_counts_what_is_done(quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[tqdm[Any]] = []

    class Kept(tqdm):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs, file=io.StringIO())
            bars.append(self)

    monkeypatch.setattr(measure, "progress_bar", Kept)
    audit = ic.audit(gpt2(), quick=quick)
    (bar,) = bars
    of_model = int((audit.frame["part"] == "model").sum())
    hook_rows = audit.frame[audit.frame["check"] == "fires"]
    assert bar.n == bar.total == of_model - 1 + len(hook_rows)  # loading is not counted
    assert quick or (hook_rows["status"] == "silent").any()


def test_the_page_names_every_finding_and_is_text(of_opt: ic.Audit) -> None:
    page = of_opt.report()
    for name in of_opt.findings["name"]:
        assert name in page
    changed = of_opt.frame.assign(detail="<script>alert(1)</script>")
    page = ic.Audit.from_rows(changed, of_opt.config).report()
    assert "<script>alert(1)" not in page
    with pytest.raises(InputError, match="status"):
        ic.Audit.from_rows(of_opt.frame.assign(status="fine"), of_opt.config)


def test_the_summary_names_what_was_refused_or_not_tried(of_opt: ic.Audit) -> None:
    rows = of_opt.frame.assign(status="holds", detail="why")
    rows.loc[0, "status"] = "not tried"
    rows.loc[1:7, "status"] = "refused"
    lines = ic.Audit.from_rows(rows, of_opt.config).summary().splitlines()
    assert lines[-1] == f"not tried: {rows['check'][0]} (why)"
    assert lines[-2].startswith(f"refused: {rows['check'][1]} (why); {rows['check'][2]} (why); ")
    assert lines[-2].endswith("; 2 more, in the report")


@pytest.mark.parametrize(
    ("statuses", "sentence"),
    [
        (["holds"] * 4, "no check found a number that is not what its name says."),
        (
            ["holds", "wrong", "discarded", "silent"],
            "2 checks found a number that is not what its name says, or an edit that changes "
            "nothing: a number that rests on one is wrong, and no error says so.",
        ),
        (
            ["holds", "refused", "not tried", "not tried"],
            "no check found a number that is not what its name says; 1 check ended in an error, "
            "as such a request does, and gave no number; 2 checks could not be tried, which "
            "says nothing.",
        ),
    ],
)
def test_a_sentence_says_what_was_checked_and_what_a_finding_means(
    of_opt: ic.Audit, statuses: list[str], sentence: str
) -> None:
    rows = of_opt.frame.iloc[:4].assign(status=statuses, detail="why", part="hook")
    rows["name"] = ["a", "a", "b", "c"]
    audit = ic.Audit.from_rows(rows, of_opt.config)
    assert audit.sentences()[0] == f"Of the model and 3 hook points, {sentence}"
    assert audit.summary().splitlines()[1] == audit.sentences()[0]
    refused = ic.Audit.from_rows(rows.iloc[:1].assign(status="refused"), of_opt.config)
    assert refused.sentences()[0] == "The model was refused as a whole: nothing of it was checked."


def test_rows_that_differ_in_the_layer_alone_are_one(of_opt: ic.Audit) -> None:
    names = [f"blocks.{layer}.attn.hook_q" for layer in (0, 1, 2)]
    names += [
        "blocks.0.hook_in",
        "blocks.2.hook_in",
        "decoder_blocks.1.hook_in",
        "embed",
        "unembed",
    ]
    rows = of_opt.frame.iloc[: len(names)].assign(
        part="hook", name=names, check="fires", status="silent", detail="never"
    )
    page = ic.Audit.from_rows(rows, of_opt.config).report()
    told = ("blocks.0 … 2.attn.hook_q", "blocks.0, 2.hook_in", "decoder_blocks.1.hook_in", "embed")
    told += ("unembed",)
    for name in told:
        assert page.count(f">{name}: fires<") == 1
    assert "silent (8)" in page
    numbers = rows.assign(detail=[str(k) for k in range(len(names))])
    page = ic.Audit.from_rows(numbers, of_opt.config).report()
    assert page.count(": fires<") == len(names)


def test_a_model_that_is_refused_is_a_finding() -> None:
    audit = ic.audit(architectures.build("Mamba"), progress=False)
    assert audit.frame["status"].tolist() == ["refused"]
    assert "State-space" in audit.frame["detail"].item()
    assert audit.exit_status == 1


@pytest.mark.parametrize("named", ["same dtype", "recursion", "KeyError: 'a state'"])
def test_a_model_that_no_longer_runs_is_refused(named: str) -> None:
    model = ic.load_model(llama())
    mlp: Any = model.lens.original_model.model.layers[0].mlp.original_component
    if named == "same dtype":
        mlp.to(torch.bfloat16)
    else:
        state: dict[str, Any] = (
            {} if named.startswith("Key") else {"a state": lambda: model(tokens(model))}
        )
        mlp.forward = lambda x: state["a state"]()
    audit = ic.audit(model, quick=True, progress=False)
    assert audit.frame["status"].tolist() == ["refused"]
    assert named in audit.frame["detail"].item()
    assert audit.exit_status == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (nn.Linear(2, 2), "cannot load a Linear: expected a hub name"),
        (3, "source=3 is an int; expected a string"),
        (None, "source=None; expected a string"),
        ("nowhere", "no model 'nowhere': it is not a folder here"),
        (Path("no") / "such" / "folder", "no model 'no/such/folder': it is not a folder here"),
    ],
)
def test_what_is_no_model(source: Any, message: str) -> None:
    """Refused, and no finding: exit status 1 says that there is a model."""
    with pytest.raises(OptionError, match=message):
        ic.audit(source, quick=True, progress=False)


def seq2seq() -> LensModel:
    stacks = {"n_encoder_layers": 1, "n_decoder_layers": 1}
    shape = ic.lrf.Seq2SeqConfig(19, 17, 11, **stacks, d_model=8, n_heads=2, d_mlp=12, fuse="both")
    return ic.lrf.small_seq2seq(shape, seed=0)


def encoder(composition: Any) -> LensModel:
    sizes: dict[str, Any] = {"d_model": 8, "n_heads": 2, "d_mlp": 12, "n_codes": 7}
    shape = ic.cat.EncoderConfig(19, n_ctx=11, n_layers=2, **sizes, composition=composition)
    return ic.cat.small_encoder(shape, seed=0)


@pytest.mark.parametrize(
    ("build", "refused"),
    [
        (seq2seq, {"prefix"}),
        (partial(encoder, "none"), set()),
        # its output is what the last block composes from, its last residual what it composed
        (partial(encoder, "every"), set()),
    ],
    ids=["two stacks, fused", "encoder", "CAT"],
)
def test_own_encoders_and_two_stacks(build: Callable[[], LensModel], refused: set[str]) -> None:
    """Every edit acts, also of attention patterns; blocks that end in a norm are no sums."""
    audit = ic.audit(build(), quick=True, progress=False)
    assert audit.findings.empty
    rows = audit.frame[audit.frame["status"] == "refused"]
    assert set(rows["check"]) == {MEANING[name] for name in refused}
    tried = found(audit)
    assert tried["", MEANING["drop_parts"]] == "not tried"
    for check in (EITHER_SIDE, "resuming at any layer gives the output of the whole"):
        assert tried["", check] == "holds"


@pytest.mark.parametrize("name", ["BERT", "T5"])
def test_encoders_and_two_stacks(name: str) -> None:
    audit = ic.audit(architectures.build(name), quick=True, progress=False)
    assert set(audit.frame["part"]) == {"model"}
    assert "wrong" not in set(audit.frame["status"])
    status = found(audit)
    assert status["", "an edit of attn.hook_pattern changes the output"] == "discarded"
    assert status["", "an edit of blocks.0.hook_resid_pre changes the output"] == "holds"
    assert status["", "gradients at hook points are those of finite differences"] == "holds"
    for check in (
        EITHER_SIDE,
        "resuming at any layer gives the output of the whole",
    ):
        assert status["", check] == "holds"


@torch.no_grad()
def test_what_a_decoder_of_two_stacks_shows() -> None:
    model = ic.load_model(architectures.build("T5"))
    batch = tokens(model)
    recorded, seen = Recorded(model, batch), seen_by_softmax(model, batch)
    layer = model.n_layers - 1
    rows = [*residuals(recorded, layer), *parts(recorded)]
    for site in model.attention_sites(layer):
        rows += attention(recorded, site, seen[site])
    status = {
        (name.removeprefix("decoder_blocks.2."), check): one.status for name, check, one in rows
    }
    wrong = {name for (name, _), one in status.items() if one == "wrong"}
    assert {name.rpartition(".")[2] for name in wrong} == {"hook_normalized"}  # T5's are centred
    status = {row: one for row, one in status.items() if row[0] not in wrong}
    assert set(status.values()) == {"holds", "not tried"}  # T5 adds a bias to its products
    for row in (
        ("hook_resid_mid", "is hook_resid_pre + attn"),
        ("hook_resid_mid2", "is hook_resid_pre + attn + cross_attn"),
        ("hook_attn_out", "is what the wrapped module returned"),
        ("cross_attn.hook_out", "is what the wrapped module returned"),
        ("cross_attn.hook_pattern", "is what the softmax gave"),
    ):
        assert status[row] == "holds", row


@torch.no_grad()
def test_a_pattern_and_scores_beside_a_learned_sink() -> None:
    """GPT-OSS's pattern leaves out what the sink gets, and its scores are what the softmax got."""
    model = ic.load_model(architectures.build("GPT-OSS"))
    batch = tokens(model)
    recorded, (site,) = Recorded(model, batch), model.attention_sites(0)
    pattern = recorded.at("blocks.0.attn.hook_pattern")
    assert pattern is not None
    assert float(pattern.sum(dim=-1).min()) < 0.5
    rows = list(attention(recorded, site, seen_by_softmax(model, batch)[site]))
    assert len(rows) == 6
    assert {outcome.status for _, _, outcome in rows} <= {"holds", "not tried"}
    alone = list(attention(recorded, site, None))  # without it, the sum says what is missing
    assert "wrong" in {outcome.status for _, _, outcome in alone}


def test_hooks_that_are_open_take_no_part() -> None:
    model = small()
    clean = ic.audit(model, progress=False).frame
    with model.hooks([("blocks.1.hook_resid_pre", lambda value, hook: value + 1.0)]):
        under = ic.audit(model, progress=False).frame
        model(tokens(model))
    pd.testing.assert_frame_equal(clean, under)


TRACED = """
import torch
import torch._dynamo
import interp_compose as ic
from interp_compose.errors import InterpComposeError
from interp_compose.studies.audit.model_checks import _compiled

shape = dict(d_vocab=19, n_ctx=11, n_layers=2, d_model=8, n_heads=2, d_mlp=12)
config = ic.complexity.DecoderConfig(**shape)
model = ic.complexity.small_decoder(config, init_rate=0.4, seed=0)
tokens = torch.arange(14).view(2, 7)

def found(passed_by):
    with torch.no_grad(), torch._dynamo.config.patch(skip_nnmodule_hook_guards=passed_by):
        clean = model.lens(tokens)
        status = _compiled(model, tokens).status
        gone = torch.equal(model.lens(tokens), clean)
    raise InterpComposeError(f"{status}, the hook {'has gone' if gone else 'stays'}")

calls = {"by default": lambda: found(True), "with guards of hooks": lambda: found(False)}
"""


def test_hooks_that_a_compiled_call_passes_by() -> None:
    """In a process without beartype, whose checks cannot be traced. torch looks at hooks that come
    later only where it is told to."""
    assert outcomes_of(TRACED) == {
        "by default": "InterpComposeError: discarded, the hook has gone",
        "with guards of hooks": "InterpComposeError: holds, the hook has gone",
    }


# ---- adapters --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of peft
@torch.no_grad()
def test_adapters_of_peft() -> None:
    """LoRA that acts is part of the model; what wrapping would leave out is refused."""
    peft: Any = pytest.importorskip("peft")
    batch = torch.arange(10).view(2, 5)
    plain = gpt2()(batch).logits

    def lora(*parts: str) -> Any:
        torch.manual_seed(1)
        options = {"r": 2, "init_lora_weights": False, "fan_in_fan_out": True}
        return peft.LoraConfig(target_modules=[*parts], **options)

    module = peft.inject_adapter_in_model(lora("c_fc"), gpt2())
    own = module(batch).logits
    assert float((own - plain).abs().max()) > 0.1
    assert ic.audit(module, quick=True, progress=False).findings.empty  # the hooks act as before
    loaded = ic.load_model(module)
    torch.testing.assert_close(loaded(batch), own)
    digest = weights_digest(loaded)
    for part in module.modules():
        if isinstance(part, peft.tuners.lora.LoraLayer):
            part.set_scale("default", 0.0)
    torch.testing.assert_close(loaded(batch), plain)
    assert weights_digest(loaded) != digest

    fused = peft.inject_adapter_in_model(lora("c_attn"), gpt2())
    (row,) = ic.audit(fused, quick=True, progress=False).frame.to_dict("records")
    assert row["status"] == "refused"
    assert "holds adapters (peft.tuners.lora" in row["detail"]

    around = peft.get_peft_model(gpt2(), lora("c_attn", "c_fc"))
    own = around(batch).logits
    assert float((own - plain).abs().max()) > 0.1
    (row,) = ic.audit(around, quick=True, progress=False).frame.to_dict("records")
    assert (row["status"], "merge_and_unload()" in row["detail"]) == ("refused", True)
    merged = ic.load_model(around.merge_and_unload())
    torch.testing.assert_close(merged(batch), own, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BERT", "T5", "Phi-3", "small, post"])
@torch.no_grad()
def test_weights_that_act_are_those_that_are_read(name: str) -> None:
    model = architectures.load(name)
    batch = tokens(model)
    assert _weights(model, batch).status == "holds"
    model.lens.unembed.register_forward_hook(lambda part, given, out: out * given[0][..., :1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the hook
        outcome = _weights(model, batch)
    assert outcome.status == "wrong"
    assert f"of W_U, layer {model.n_layers}" in outcome.detail


def test_a_projection_that_reads_another_weight() -> None:
    """A part of TransformerLens that shows what it does not multiply by."""
    model = ic.load_model(architectures.build("Llama"))
    holder = model.lens.blocks[1].mlp.out
    other = copy.deepcopy(holder.original_component)
    torch.nn.init.normal_(other.weight, std=0.2)
    object.__setattr__(holder, "forward", lambda hidden: other(hidden))
    audit = ic.audit(model, quick=True, progress=False)
    (row,) = audit.findings.query(f"check == {ACTS!r}").to_dict("records")
    assert row["status"] == "wrong"
    assert "of W_out, layer 1" in row["detail"]


# ---- what other versions of TransformerLens and transformers change ---------------------------


@pytest.fixture
def cache_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with transformers 5.24, whose cache reaches TransformerLens 4.3 by another name: each new
    token attends to itself alone."""
    monkeypatch.setattr(generate, "_WARNED", set())
    monkeypatch.setattr(proofs, "prove_capabilities", prove_capabilities)  # of each model anew
    monkeypatch.setattr(AttentionBridge, "_update_kv_cache", lambda self, k, v, **_: (k, v))


GENERATION = "generation that keeps keys and values gives the logits of whole calls"


@pytest.mark.usefixtures("cache_is_lost")
def test_a_cache_that_is_lost_is_a_finding_and_said_once_on_loading() -> None:
    with pytest.warns(UserWarning, match="model.lens.generate of GPT2LMHeadModel is wrong") as said:
        model = ic.load_model(gpt2())
    assert len(said) == 1
    assert said[0].filename == __file__
    text = str(said[0].message)
    assert len(text) <= 500
    for part in ("transformers 5.", "transformer-lens ", "model.generate(…)", "use_past_kv_cache"):
        assert part in text
    again = ic.load_model(gpt2())  # a warning would be an error here
    options: Any = {"do_sample": False, "stop_at_eos": False, "verbose": False}
    batch = tokens(model)[:1, :4]
    right = model.generate(batch, 6, eos_token_id=None)
    wrong = model.lens.generate(batch, 6, **options)
    assert not torch.equal(wrong, right)
    assert torch.equal(model.lens.generate(batch, 6, use_past_kv_cache=False, **options), right)
    audit = ic.audit(again, quick=True, progress=False)
    assert audit.findings["check"].tolist() == [MEANING["prefix"], GENERATION]
    assert set(audit.findings["status"]) == {"wrong"}
    assert audit.exit_status == 1
    with pytest.raises(CapabilityError, match="cannot do 'prefix'"), model.keeping():
        raise AssertionError


def test_two_stacks_whose_cache_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their keys and values are kept by Hugging Face's generate alone."""
    monkeypatch.setattr(generate, "_WARNED", set())
    model = ic.load_model(architectures.build("BART"))
    assert generate.keeps_and_goes_on(model).status == "holds"
    update = hf.DynamicCache.update

    def doubled(cache: Any, keys: Tensor, *args: Any, **options: Any) -> tuple[Tensor, Tensor]:
        """What was kept before is wrong; a first call is right."""
        kept, values = update(cache, keys, *args, **options)
        return kept, values * (2 if kept.shape[2] > keys.shape[2] else 1)

    monkeypatch.setattr(hf.DynamicCache, "update", doubled)
    monkeypatch.setattr(generate, "_WARNED", set())
    with pytest.warns(UserWarning, match="generate of the wrapped module of BartFor"):
        ic.load_model(architectures.build("BART"))


def test_the_status_of_a_probe_is_what_its_numbers_say() -> None:
    """Whatever ran and gave other numbers is a finding; a refusal, or what is not claimed, none."""
    for probe, status, edited in (
        (Probe(True, "relative error 1e-6"), "holds", "holds"),
        (Probe(False, "relative error 2.7"), "wrong", "discarded"),
        (Probe(False, "RuntimeError: no", refused=True), "refused", "refused"),
        (Probe(False, f"{DISCARDS} (…)", refused=True), "discarded", "discarded"),
        (Probe(False, "ALiBi", applies=False), "not tried", "not tried"),
        (Probe(True, "no such edit", applies=False), "not tried", "not tried"),
        (Probe(False, f"{COPY_ACTS} by 0.1"), "wrong", "wrong"),
    ):
        assert probe.outcome(of_edit=True).status == edited
        if DISCARDS not in probe.detail:
            assert probe.outcome(of_edit=False).status == status


def test_every_capability_that_numbers_refute_is_a_finding() -> None:
    model = small()
    for name, meaning in MEANING.items():
        probes = {**model.capabilities.probes, name: Probe(False, "off by 2.7")}
        model.proofs.take_over(Capabilities(probes))
        (row,) = ic.audit(model, quick=True, progress=False).findings.to_dict("records")
        assert row["check"] == meaning
        model.proofs.take_over(None)


@pytest.mark.parametrize("name", ["MPT", "BLOOM", "BERT", "BART"])
def test_what_a_model_of_a_kind_does_not_claim_is_no_finding(name: str) -> None:
    audit = ic.audit(architectures.build(name), quick=True, progress=False)
    assert "wrong" not in set(audit.frame["status"])


def test_the_cache_is_handed_on_by_the_name_of_the_installed_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """transformers 5.24 calls it ``cache``, and warns of the older name."""
    original = hf.GPT2LMHeadModel.forward

    def forward(
        self: Any, input_ids: Any = None, cache: Any = None, position_ids: Any = None,
        inputs_embeds: Any = None, use_cache: Any = None, attention_mask: Any = None,
        **options: Any,
    ) -> Any:  # fmt: skip
        if "past_key_values" in options:  # by TransformerLens' own generation
            warnings.warn("`past_key_values` is deprecated", FutureWarning, stacklevel=2)
            cache = options.pop("past_key_values")
        options |= {"position_ids": position_ids, "inputs_embeds": inputs_embeds}
        options |= {"use_cache": use_cache, "attention_mask": attention_mask}
        return original(self, input_ids, past_key_values=cache, **options)

    monkeypatch.setattr(hf.GPT2LMHeadModel, "forward", forward)
    model = ic.load_model(gpt2())  # warnings are errors here
    assert model.capabilities["prefix"].held
    assert model.continues


@torch.no_grad()
def test_a_norm_that_runs_twice_is_read_where_it_runs_last() -> None:
    """NanoChat norms its embeddings by its final norm."""
    module: Any = architectures.build("NanoChat")
    batch = torch.randint(1, 97, (2, 7), generator=torch.Generator().manual_seed(0))
    expected = module.model(batch).last_hidden_state
    model = ic.load_model(module)
    torch.testing.assert_close(model.encode(batch), expected, rtol=1e-4, atol=1e-4)
    assert model.capabilities["hidden"].held


# ---- models that lie -------------------------------------------------------------------------


def test_a_hook_point_that_shows_another_number() -> None:
    model = small()
    point = model.hook_dict["blocks.0.hook_mlp_out"]

    class Double(type(point)):  # type: ignore[misc]
        """Acts as before, and shows twice the number."""

        def __call__(self, value: Tensor) -> Any:
            return super().__call__(2 * value) / 2

    point.__class__ = Double
    status = found(ic.audit(model, progress=False))
    assert status["blocks.0.hook_resid_post", "is hook_resid_pre + attn + mlp"] == "wrong"
    assert status["blocks.1.hook_resid_post", "is hook_resid_pre + attn + mlp"] == "holds"
    assert status["blocks.0.hook_mlp_out", EDIT] == "holds"


def showing(model: LensModel, name: str, change: Callable[[Tensor], Tensor]) -> None:
    """Makes a hook point show something else than the model computes with."""
    point = model.hook_dict[name]

    class ShowsAnother(type(point)):  # type: ignore[misc]
        def __call__(self, value: Tensor) -> Tensor:
            super().__call__(change(value))
            return value

    point.__class__ = ShowsAnother


POINTS = (
    *("hook_embed", "ln_final.hook_normalized", "ln_final.hook_scale", "unembed.hook_in"),
    *("blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"),
    *("blocks.0.ln1.hook_normalized", "blocks.0.ln2.hook_scale", "blocks.0.ln1.hook_out"),
    *(f"blocks.0.attn.hook_{one}" for one in ("q", "k", "v", "z", "pattern", "attn_scores")),
    *("blocks.0.hook_attn_out", "blocks.0.attn.o.hook_out", "blocks.0.mlp.hook_pre"),
    *("blocks.0.mlp.hook_post", "blocks.0.hook_mlp_out", "blocks.1.mlp.hook_post"),
)


@torch.no_grad()
@pytest.mark.parametrize(
    ("build", "points"),
    [(gpt2, POINTS), (llama, ("blocks.0.attn.hook_q", "blocks.1.ln2.hook_normalized"))],
    ids=["GPT-2", "Llama"],
)
def test_every_hook_point_that_shows_another_number_is_found(
    build: Any, points: Sequence[str]
) -> None:
    module = build()
    wrong = lambda model: {  # noqa: E731
        name for name, _, one in check_hooks(model, tokens(model), int) if one.status == "wrong"
    }
    with pytest.MonkeyPatch.context() as patch:  # their edits are other tests'
        patch.setattr(hook_checks, "prove_edits", lambda *_, **options: {})
        model = ic.load_model(module)
        assert not wrong(model)
        for name in points:
            point = model.hook_dict[name]
            kind = type(point)
            showing(model, name, lambda one: 1.05 * one)
            assert wrong(model), name
            point.__class__ = kind
        assert not wrong(model)


# ---- texts and losses through TransformerLens ---------------------------------------------------


def test_strings_give_what_their_tokens_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """BOS included, padded on either side; TransformerLens' own calls are compared as well."""
    model = ic.load_model("mini-idm")
    batch = tokens(model)

    def strings() -> Outcome:
        with torch.no_grad(), model.bare():
            return _strings(model, batch)

    assert strings().status == "holds"
    lens: Any = model.lens
    forward, to_tokens = type(lens).forward, type(lens).to_tokens
    with monkeypatch.context() as patch:  # a side that is passed over, without a mask
        patch.setattr(
            type(lens),
            "forward",
            lambda self, given, *args, padding_side=None, **options: forward(
                self,
                to_tokens(self, given, padding_side=padding_side)
                if isinstance(given, list)
                else given,
                *args,
                **{**options, **({"attention_mask": None} if isinstance(given, list) else {})},
            ),
        )
        assert strings().status == "wrong"
        assert "padded on the left" in strings().detail
    with monkeypatch.context() as patch:
        patch.setattr(
            type(lens),
            "to_tokens",
            lambda self, given, **options: to_tokens(self, given, **options)[:, 1:],
        )
        assert strings().status == "wrong"
        assert "other ids (BOS?)" in strings().detail
    with monkeypatch.context() as patch:  # a neighbour of another length
        whole = model.forward
        shifted = lambda one, **options: whole(one, **options) + (not isinstance(one, Tensor))  # noqa: E731
        patch.setattr(model, "forward", shifted)
        assert strings().status == "wrong"
    model.tokenizer = None
    assert strings().status == "not tried"


@torch.no_grad()
def test_the_loss_of_labels_is_hugging_face_s(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ic.load_model(architectures.build("T5"))
    batch = tokens(model)
    assert _loss(model, batch).status == "holds"
    lens: Any = model.lens
    forward = type(lens).forward
    monkeypatch.setattr(  # the ignored label counts
        type(lens),
        "forward",
        lambda self, *args, labels=None, **options: forward(
            self, *args, labels=None if labels is None else labels.clamp(min=0), **options
        ),
    )
    assert _loss(model, batch).status == "wrong"
    assert _loss(small(), batch).status == "not tried"


def of_attention(model: LensModel) -> dict[tuple[str, str], str]:
    """Status by hook point and check, in the first layer's attention."""
    batch = tokens(model)
    site = model.attention_sites(0)[0]
    rows = attention(Recorded(model, batch), site, seen_by_softmax(model, batch)[site])
    return {(name.rpartition(".")[2], check): one.status for name, check, one in rows}


@torch.no_grad()
def test_patterns_that_are_no_patterns() -> None:
    assert set(of_attention(small()).values()) == {"holds"}
    negative = small()
    showing(negative, "blocks.0.attn.hook_pattern", lambda one: one - 0.5 * (one == 0))
    assert of_attention(negative)["hook_pattern", "is not negative, and sums to 1"] == "wrong"
    other = small()  # sums to 1, and is not what the model computes with
    showing(other, "blocks.0.attn.hook_pattern", lambda one: one.flip(0))
    status = of_attention(other)
    assert status["hook_pattern", "is not negative, and sums to 1"] == "holds"
    assert status["hook_pattern", "is what the softmax gave"] == "wrong"


@torch.no_grad()
def test_queries_and_keys_that_are_exchanged() -> None:
    model = small()
    check = "hook_q", "with hook_k gives hook_pattern"
    part: Any = model.blocks[0].attn
    assert of_attention(model)[check] == "holds"
    part.hook_q, part.hook_k = part.hook_k, part.hook_q
    assert of_attention(model)[check] == "wrong"


def test_what_was_compared_at_loading() -> None:
    def loads(source: Any) -> str:
        rows = ic.audit(source, quick=True, progress=False).frame
        return str(rows.loc[rows["check"] == LOADS, "status"].item())

    assert loads(small()) == "not tried"
    assert loads(small().lens) == "not tried"
    assert loads(gpt2()) == "holds"
    assert loads("mini-base") == "holds"


def test_an_object_that_was_altered_before_it_was_wrapped() -> None:
    for alter in (
        each("variance_epsilon", lambda _: 0.3),
        each("inv_freq", lambda one: one**0.5),
        each("scaling", lambda one: 1.5 * one),
        lambda one: setattr(one.model.layers[0].mlp, "act_fn", nn.ReLU()),
    ):
        module = llama()
        alter(module)
        (row,) = ic.audit(module, quick=True, progress=False).findings.to_dict("records")
        assert row["check"] == LOADS
        assert "from a new module of its config" in row["detail"]


def each(attribute: str, change: Callable[[Any], Any]) -> Callable[[nn.Module], int]:
    """Changes an attribute wherever a part of a module has it; how often."""

    def alter(module: nn.Module) -> int:
        parts = [p for p in module.modules() if attribute in {**vars(p), **p._buffers}]
        for part in parts:
            setattr(part, attribute, change(getattr(part, attribute)))
        return len(parts)

    return alter


@pytest.mark.parametrize("as_loaded", [False, True])
@pytest.mark.parametrize(
    ("build", "alter", "named"),
    [
        (llama, each("inv_freq", lambda one: one**0.5), "model.rotary_emb.inv_freq"),
        (partial(llama, initializer_range=0.02), each("inv_freq", lambda one: one * 1.01), "freq"),
        (llama, each("variance_epsilon", lambda _: 0.3), "variance_epsilon"),
        (llama, each("scaling", lambda one: 1.5 * one), "model.layers.0.self_attn.scaling"),
        (llama, each("attention_scaling", lambda one: 1.1 * one), "attention_scaling"),
        (gpt2, each("scale_attn_weights", lambda _: False), "scale_attn_weights"),
        (gpt2, each("scaling", lambda one: 1.5 * one), "scaling"),
        (gpt2, each("eps", lambda _: 0.3), "transformer.h.0.ln_1.eps"),
        (llama, lambda one: one.model.layers[0].mlp.register_forward_hook(
            lambda module, args, out: 1.5 * out), "off by"),
    ],
)  # fmt: skip
def test_a_bridge_that_was_altered_since_it_was_wrapped(
    build: Any, alter: Any, named: str, as_loaded: bool
) -> None:
    """No weight, so that only a new module of the same config and weights tells."""
    model = ic.load_model(build())
    clean = measure._compared(model.lens, model)
    assert clean.status == "holds", clean
    assert "from a new module" in clean.detail
    assert alter(model.lens.original_model)
    altered = measure._compared(model if as_loaded else model.lens, model)
    assert altered.status == "wrong"
    assert named in altered.detail


def test_weights_of_a_bridge_may_change() -> None:
    """Also those of which TransformerLens reads a part of its own, as of GPT-2's projection."""
    model = ic.load_model(gpt2())
    before = torch.get_rng_state()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.2)
    assert measure._compared(model.lens, model).status == "holds"
    assert torch.equal(torch.get_rng_state(), before)


def test_adapters_are_merged_in_the_module_that_is_compared() -> None:
    peft: Any = pytest.importorskip("peft")
    lora = peft.LoraConfig(target_modules=["q_proj"], init_lora_weights=False)
    model = ic.load_model(peft.inject_adapter_in_model(lora, llama()))
    assert measure._compared(model.lens, model).status == "holds"


def test_a_bridge_that_cannot_be_built_again_is_not_tried() -> None:
    model = ic.load_model(llama())
    model.lens.original_model.config.hidden_act = "none of them"
    assert measure._compared(model.lens, model).status == "not tried"


@pytest.mark.parametrize(("name", "value"), [("gradient_checkpointing", True), ("p", 0.3)])
def test_what_changes_no_output_is_no_finding(name: str, value: Any) -> None:
    model = ic.load_model(gpt2())
    each(name, lambda _: value)(model.lens.original_model)
    assert measure._compared(model.lens, model).status == "holds"


@pytest.mark.parametrize("loaded", [False, True])
def test_dropout_in_training_mode_is_a_finding(loaded: bool) -> None:
    """The mode is the model's own, and stays; random states are what they were."""
    module = gpt2().train()
    model: Any = ic.load_model(module) if loaded else module
    before = torch.get_rng_state()
    audit = ic.audit(model, quick=True, progress=False)
    assert not loaded or torch.equal(torch.get_rng_state(), before)  # loading draws
    assert module.training
    assert module.transformer.drop.training
    (row,) = audit.findings.to_dict("records")
    assert (row["check"], row["status"]) == (AGAIN, "wrong")
    assert "in training mode: model.eval() turns dropout off" in row["detail"]
    module.eval()
    assert ic.audit(model, quick=True, progress=False).findings.empty
    none = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    without = hf.GPT2LMHeadModel(hf.GPT2Config(**SIZES, **none)).train()
    assert ic.audit(without, quick=True, progress=False).findings.empty


def test_an_edit_that_is_lost() -> None:
    model = small()
    point = model.hook_dict["blocks.1.attn.hook_z"]

    class ShowsACopy(type(point)):  # type: ignore[misc]
        """Shows a copy, and passes on what it was given."""

        def __call__(self, value: Tensor) -> Tensor:
            super().__call__(value.clone())
            return value

    point.__class__ = ShowsACopy
    status = found(ic.audit(model, progress=False))
    assert status["blocks.1.attn.hook_z", EDIT] == "discarded"
    assert status["blocks.0.attn.hook_z", EDIT] == "holds"


@torch.no_grad()
def test_each_check_of_the_model_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    batch, forward, calls = tokens(model), model.forward, itertools.count()
    for check, change in (
        (called_again, lambda out: out + next(calls)),
        (_neighbours, lambda out: out + out.mean(dim=0, keepdim=True) * (len(out) > 1)),
        (_causal, lambda out: torch.cat([out[:, 3:4], out[:, 1:]], dim=1)),  # of another position
    ):
        assert check(model, batch).status == "holds"
        with monkeypatch.context() as patch:
            changed = lambda *args, change=change, **options: change(forward(*args, **options))  # noqa: E731
            patch.setattr(model, "forward", changed)
            assert check(model, batch).status == "wrong"


@torch.no_grad()
def test_a_layer_at_which_resuming_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    assert _resumed(model, tokens(model)).status == "holds"
    resume = model.resume
    changed = lambda resid, layer, **options: resume(resid * (1 + layer), layer, **options)  # noqa: E731
    monkeypatch.setattr(model, "resume", changed)
    outcome = _resumed(model, tokens(model))
    assert outcome.status == "wrong"
    assert "from layer 1" in outcome.detail


@pytest.mark.parametrize("frozen", [False, True])
@torch.no_grad()
def test_gradients_are_those_of_finite_differences(frozen: bool) -> None:
    model = small()
    model.lens.requires_grad_(not frozen)
    assert _gradients(model, tokens(model)).status == "holds"
    mlp: Any = model.blocks[0].mlp
    forward = mlp.forward
    mlp.forward = lambda x: forward(x.detach())
    assert _gradients(model, tokens(model)).status == "wrong"
    block: Any = model.blocks[1]
    through = block.forward
    block.forward = lambda resid, *args, **kwargs: through(resid.detach(), *args, **kwargs)
    outcome = _gradients(model, tokens(model))
    assert (outcome.status, outcome.detail) == (
        "wrong",
        "no gradient reaches blocks.0.hook_resid_pre",
    )
    outputs = model.blocks[-1].hook_resid_post
    outputs.register_forward_hook(lambda module, args, out: out.detach())
    assert _gradients(model, tokens(model)).status == "wrong"


def test_gradients_where_the_embeddings_are_read_twice() -> None:
    """Gemma 4 computes its per-layer inputs from what enters layer 0: the gradient there is that of
    an edit, and those of the weights are the wrapped module's own, to the bit."""
    module: Any = architectures.build("Gemma 4")
    module.set_attn_implementation("eager")  # as load_model sets it
    batch = torch.randint(1, 97, (2, 7), generator=torch.Generator().manual_seed(0))

    def gradients(logits: Tensor) -> dict[str, Tensor]:
        module.zero_grad()
        logits.square().sum().backward()
        named = module.named_parameters()
        return {name.replace("._original_component", ""): one.grad.clone() for name, one in named}

    own = gradients(module(batch).logits)
    model = ic.load_model(module)
    wrapped = gradients(model(batch))
    assert own.keys() == wrapped.keys()
    assert all(torch.equal(one, wrapped[name]) for name, one in own.items())
    assert all(bool(one.abs().max() > 0) for one in own.values())
    with torch.no_grad():
        assert _gradients(model, batch).status == "holds"


@torch.no_grad()
def test_an_error_that_is_swallowed() -> None:
    model = small()
    assert _after_an_error(model, tokens(model)).status == "holds"
    block: Any = model.blocks[1]
    forward = block.forward

    def swallows(resid: Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return forward(resid, *args, **kwargs)
        except Exception:  # noqa: BLE001 - as such a model would
            return resid

    block.forward = swallows
    assert _after_an_error(model, tokens(model)).status == "wrong"


def test_numbers_are_compared_in_units_of_their_spread() -> None:
    model = small()
    ones = torch.ones(3)
    assert compared(model, ones, ones).status == "holds"
    assert compared(model, ones + 2e-3, ones, spread=1.0).status == "wrong"
    assert compared(model, torch.tensor([torch.nan]), torch.tensor([0.0])).status == "wrong"
    assert compared(model, torch.zeros(2), torch.zeros(3)).status == "wrong"


def test_the_exit_status_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cli.main(["audit", "--model", "mini-base", "--quick", "--device", "cpu", "--out", "mini"])
    assert (tmp_path / "mini" / "report.html").exists()
    ic.save_model(small(), tmp_path / "small")
    monkeypatch.setattr(model_checks, "_compiled", lambda *_: Outcome("discarded", "passed by"))
    with pytest.raises(SystemExit) as status:
        cli.main(["audit", "--model", "small", "--device", "cpu", "--out", "out", "--quiet"])
    assert status.value.code == ic.Audit.load(tmp_path / "out").exit_status == 1
    assert "mini-base" in capsys.readouterr().out
