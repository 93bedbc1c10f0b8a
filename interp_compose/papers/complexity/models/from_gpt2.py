"""GPT-2's weights as a small decoder of the words of a task, to be trained further."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose.errors import CapabilityError, OptionError, warn
from interp_compose.models.lens_model import LensModel
from interp_compose.models.parts import Act
from interp_compose.models.ready import check_unedited
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.papers.shared.text.vocabulary import SPECIALS, Vocabulary

ARCHITECTURE: Final = "GPT2LMHeadModel"
PLAIN: Final = {
    "activation_function": get_args(Act),
    "layer_norm_epsilon": (1e-5,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
}
"""What a small decoder can be, of what GPT-2's config can say."""

PARTS: Final = {
    "attn": ("W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O"),
    "mlp": ("W_in", "b_in", "W_out", "b_out"),
}


@torch.no_grad()
def decoder_from_gpt2(model: LensModel, words: Vocabulary, n_ctx: int) -> SmallDecoder:
    """A decoder with the blocks, positions and final norm of a GPT-2, on the words of a task.

    A word's embedding, and its column of the unembedding, is the mean over the tokens that the
    model's tokenizer makes of it (one, for a digit); ``<pad>``, ``<bos>`` and ``<eos>`` have those
    of GPT-2's end of text. The two are tied in GPT-2, and are trained apart here.

    Args:
        model: from :func:`.load.load_model`, with its tokenizer.
        words: of the task.
        n_ctx: positions to keep, the first ones.

    Raises:
        CapabilityError: another architecture, or a GPT-2 that a small decoder cannot be.
        OptionError: no tokenizer, or one that makes no token of a word; fewer positions than
            ``n_ctx``.
        InterventionError: interventions are open.
    """
    original: Any = getattr(model.lens, "original_model", None)
    if model.architecture != ARCHITECTURE or original is None:
        raise CapabilityError(
            f"{model.name!r} is a {model.architecture}; expected a GPT-2 as Hugging Face has it: "
            "of others a small decoder cannot be made"
        )
    for name, values in PLAIN.items():
        value = getattr(original.config, name)
        if value not in values:
            raise CapabilityError(
                f"the config of {model.name!r} states {name} = {value!r}; expected "
                f"{' or '.join(map(repr, values))}"
            )
    tokenizer: Any = model.tokenizer
    if tokenizer is None or (tokenizer.eos_token_id, tokenizer.bos_token_id) == (None, None):
        raise OptionError(
            f"{model.name!r} has no tokenizer with an end of text (eos_token, or bos_token): load "
            "it with load_model(tokenizer=…)"
        )
    check_unedited(model, "would be left out of the training")
    if n_ctx > model.n_ctx:
        raise OptionError(
            f"the task's longest sequence has {n_ctx} tokens, and {model.name!r} "
            f"{model.n_ctx} positions; take shorter sequences or another model"
        )
    lens: Any = model.lens
    n_layers, n_heads, d_model, d_head = lens.W_Q.shape
    config = DecoderConfig(
        d_vocab=len(words),
        n_ctx=n_ctx,
        n_layers=n_layers,
        d_model=d_model,
        n_heads=n_heads,
        d_mlp=lens.W_in.shape[-1],
        d_head=None if d_head * n_heads == d_model else d_head,
        act=cast(Act, original.config.activation_function),
    )
    decoder = SmallDecoder(config)
    pieces = _tokens_of(tokenizer, words, len(lens.W_E))
    weights = {
        "embed.W_E": _means(lens.W_E, pieces),  # [word d_model]
        "pos_embed.W_pos": lens.W_pos[:n_ctx],
        "unembed.W_U": _means(lens.W_U.mT, pieces).mT,  # [d_model word]
        "unembed.b_U": torch.zeros(len(words)),
        "ln_final.w": lens.ln_final.w,
        "ln_final.b": lens.ln_final.b,
    }
    for part, names in PARTS.items():
        for name in names:
            weights |= {f"blocks.{i}.{part}.{name}": w for i, w in enumerate(getattr(lens, name))}
    for i, block in enumerate(lens.blocks):
        for norm in ("ln1", "ln2"):
            for name in "wb":
                weights[f"blocks.{i}.{norm}.{name}"] = getattr(getattr(block, norm), name)
    decoder.load_state_dict({name: w.detach().float().cpu() for name, w in weights.items()})
    _check(decoder, model, pieces)
    return decoder


def _check(decoder: SmallDecoder, model: LensModel, pieces: Sequence[Sequence[int]]) -> None:
    """Prove that both say the same of a text whose words are tokens: of words that are one token,
    and of the end of text, which always is.

    Raises:
        CapabilityError: they do not, as where TransformerLens has folded the weights.
    """
    single = [i for i, ids in enumerate(pieces) if len(ids) == 1]
    text, tokens = single[: decoder.cfg.n_ctx], [pieces[i][0] for i in single]
    # [pos word]: both at the columns of the words that are one token
    logits = model.plain(torch.tensor([tokens[: len(text)]], device=model.device))[0, :, tokens]
    decoder_logits = decoder(torch.tensor([text]))[0, :, single]
    is_exact = model.dtype in (torch.float32, torch.float64)
    error = float((decoder_logits - logits.float().cpu()).abs().max())
    if not error <= (1e-3 if is_exact else 0.1) * max(1.0, float(logits.abs().max())):
        raise CapabilityError(
            f"a small decoder with the weights of {model.name!r} computes something else (logits "
            f"differ by {error:.3g}): expected weights as Hugging Face has them, not folded by "
            "TransformerLens (enable_compatibility_mode)"
        )


def _tokens_of(tokenizer: Any, words: Vocabulary, d_vocab: int) -> list[list[int]]:
    """For each id of the vocabulary, the tokens that the model's tokenizer makes of its word."""
    ends = (tokenizer.eos_token_id, tokenizer.bos_token_id)
    end = next(token for token in ends if token is not None)
    pieces = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words.words]
    first: dict[tuple[int, ...], str] = {}
    pairs = []
    for word, ids in zip(words.words, pieces, strict=True):
        if not ids or max(ids) >= d_vocab:
            raise OptionError(
                f"the model's tokenizer makes {ids} of {word!r}: expected tokens, of the "
                f"{d_vocab} that the model has"
            )
        if first.setdefault(tuple(sorted(ids)), word) != word:
            pairs.append((first[tuple(sorted(ids))], word))
    if pairs:
        warn(
            f"{len(pairs)} of {len(pieces)} words of the task begin with the embedding of another: "
            f"the model's tokenizer makes the same tokens of {pairs[0][0]!r} and {pairs[0][1]!r}",
        )
    return [[end]] * len(SPECIALS) + pieces


def _means(
    vectors: Float[Tensor, "token d_model"], pieces: Sequence[Sequence[int]]
) -> Float[Tensor, "word d_model"]:
    return torch.stack([vectors[list(ids)].float().mean(dim=0) for ids in pieces])
