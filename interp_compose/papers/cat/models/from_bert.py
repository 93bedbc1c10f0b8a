"""BERT's weights as a small encoder that composes: CAT's modules on a pretrained encoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast, get_args

import torch
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import CapabilityError
from interp_compose.models.encoder import EncoderModel
from interp_compose.models.lens_model import LensModel
from interp_compose.models.parts import Act
from interp_compose.models.ready import check_unedited
from interp_compose.papers.cat.models.bert import (
    ComposedBlocks,
    Composer,
    EncoderConfig,
    SmallEncoder,
)
from interp_compose.papers.cat.models.init import init_bert
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel

KIND: Final = "bert"
BACKBONE: Final = ("embed", "pos_embed", "token_type_embed", "blocks")
"""Beginnings of the names of its weights."""
NORMS: Final = {"attention.output.LayerNorm": "ln1", "output.LayerNorm": "ln2"}


@public
@torch.no_grad()
def composed_encoder(
    model: LensModel,
    *,
    seed: int,
    composition: ComposedBlocks = "last",
    n_codes: int = 1000,
    n_last_codes: int | None = None,
    composer: Composer = "codes",
    frozen: bool = True,
) -> LensModel:
    """A pretrained BERT with CAT's modules behind its blocks, to be trained further.

    Embeddings and blocks are the model's, proven to compute the same; codes, enhancement and the
    heads of BERT's tasks are drawn by the seed, the unembedding is tied to the word embeddings.

    Args:
        model: a BERT from :func:`load_model`, with its tokenizer; it stays as it is.
        seed: of what is drawn.
        composition, n_codes, n_last_codes, composer: as in :class:`EncoderConfig`.
        frozen: whether the pretrained weights are left out of the training.

    Raises:
        CapabilityError: another architecture, or a BERT that a small encoder cannot be.
        OptionError: a shape, or a seed, that cannot be; a tokenizer that is not of WordPiece.
        InterventionError: interventions are open.
    """
    plain = encoder_from_bert(model)
    config = replace(
        plain.lens.cfg,
        composition=composition,
        n_codes=n_codes,
        n_last_codes=n_last_codes,
        composer=composer,
    )
    return composed(plain, config, seed=seed, frozen=frozen)


@torch.no_grad()
def composed(
    plain: SmallEncoderModel, config: EncoderConfig, *, seed: int, frozen: bool
) -> SmallEncoderModel:
    """An encoder with the embeddings and blocks of one that composes nothing, and a config that
    differs in how it composes; codes, enhancement and heads are drawn by the seed.

    Raises:
        OptionError: a seed below 0.
    """
    lens = SmallEncoder(config)
    init_bert(lens, seed=seed)
    backbone = {
        name: weight
        for name, weight in plain.lens.state_dict().items()
        if name.startswith(BACKBONE) or name == "continues"
    }
    lens.load_state_dict(lens.state_dict() | backbone)
    for name, weight in lens.named_parameters():
        if frozen and name in backbone:
            weight.requires_grad_(False)
    return SmallEncoderModel(lens.eval(), name=plain.name, tokenizer=plain.tokenizer)


@torch.no_grad()
def encoder_from_bert(model: LensModel) -> SmallEncoderModel:
    """A pretrained BERT's embeddings and blocks as a small encoder that composes nothing, proven to
    give the same; its heads are random.

    Raises:
        CapabilityError: another architecture, or a BERT that a small encoder cannot be.
        OptionError: a tokenizer that is not of WordPiece.
        InterventionError: interventions are open.
    """
    if not isinstance(model, EncoderModel) or model._core.config.model_type != KIND:
        raise CapabilityError(
            f"{model.name!r} is a {model.architecture}; expected a BERT as Hugging Face has it: of "
            "others a small encoder cannot be made"
        )
    check_unedited(model, "would be left out")
    theirs: Any = model._core.config
    if theirs.hidden_act not in get_args(Act):
        raise CapabilityError(
            f"the config of {model.name!r} states hidden_act = {theirs.hidden_act!r}; expected "
            f"{' or '.join(get_args(Act))}"
        )
    config = EncoderConfig(
        d_vocab=theirs.vocab_size,
        n_ctx=theirs.max_position_embeddings,
        n_layers=theirs.num_hidden_layers,
        d_model=theirs.hidden_size,
        n_heads=theirs.num_attention_heads,
        d_mlp=theirs.intermediate_size,
        n_segments=theirs.type_vocab_size,
        act=cast(Act, theirs.hidden_act),
        eps=theirs.layer_norm_eps,
    )
    lens = SmallEncoder(config)
    init_bert(lens, seed=0)
    weights = _weights(model, config)
    lens.load_state_dict(
        lens.state_dict() | {name: one.detach().float().cpu() for name, one in weights.items()}
    )
    encoder = SmallEncoderModel.with_tokenizer(lens.eval(), model.tokenizer, name=model.name)
    _check(encoder, model)
    return encoder


def _weights(model: EncoderModel, config: EncoderConfig) -> dict[str, Tensor]:
    """Weights by the small encoder's names, in its shapes: ``[in out]``, of attention by head."""
    state: dict[str, Tensor] = dict(model._core.state_dict())
    theirs = {name.replace("_original_component.", ""): one for name, one in state.items()}
    weights: dict[str, Tensor] = {}
    tables = {"embed.W_E": "word", "pos_embed.W_pos": "position"}
    for ours, kind in (tables | {"token_type_embed.W_token_type": "token_type"}).items():
        weights[ours] = theirs[f"embeddings.{kind}_embeddings.weight"]
    norms = {"embeddings.LayerNorm": "embed_ln"}
    heads = (config.n_heads, config.head_width)
    for i in range(config.n_layers):
        prefix, block = f"encoder.layer.{i}", f"blocks.{i}"
        for letter, name in zip("QKV", ("query", "key", "value"), strict=True):
            weight = theirs[f"{prefix}.attention.self.{name}.weight"].unflatten(0, heads)
            # [head d_head d_model] -> [head d_model d_head]
            weights[f"{block}.attn.W_{letter}"] = weight.mT
            bias = theirs[f"{prefix}.attention.self.{name}.bias"]
            weights[f"{block}.attn.b_{letter}"] = bias.unflatten(0, heads)
        written = theirs[f"{prefix}.attention.output.dense.weight"].mT  # [head·d_head d_model]
        weights[f"{block}.attn.W_O"] = written.unflatten(0, heads)
        weights[f"{block}.attn.b_O"] = theirs[f"{prefix}.attention.output.dense.bias"]
        for part, name in (("in", "intermediate"), ("out", "output")):
            weights[f"{block}.mlp.W_{part}"] = theirs[f"{prefix}.{name}.dense.weight"].mT
            weights[f"{block}.mlp.b_{part}"] = theirs[f"{prefix}.{name}.dense.bias"]
        norms |= {f"{prefix}.{name}": f"{block}.{ours}" for name, ours in NORMS.items()}
    for name, ours in norms.items():
        weights |= {f"{ours}.w": theirs[f"{name}.weight"], f"{ours}.b": theirs[f"{name}.bias"]}
    return weights


def _check(encoder: SmallEncoderModel, model: LensModel) -> None:
    """Prove that the last block gives what the BERT gives.

    Raises:
        CapabilityError: it is not.
    """
    tokens = encoder.random_tokens(2, min(7, encoder.n_ctx), torch.Generator().manual_seed(0))
    cont = encoder.lens(tokens)[-1].cont
    hidden = model.plain_hidden(tokens.to(model.device)).float().cpu()
    exact = model.dtype in (torch.float32, torch.float64)
    difference = float((cont - hidden).abs().max())
    if not difference <= (1e-3 if exact else 0.1) * max(1.0, float(hidden.abs().max())):
        raise CapabilityError(
            f"a small encoder with the weights of {model.name!r} computes something else (hidden "
            f"states differ by {difference:.3g})"
        )
