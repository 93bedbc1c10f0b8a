"""Tokens per second of greedy decoding and beam search, compared with Hugging Face's ``generate``.

``--quick`` leaves out the largest. The same model on both sides: a
Transformer (post-LN, sinusoidal positions) and a ``MarianMTModel`` with its weights, whose tokens
are compared first. Its bias makes EOS impossible, so that both write the same number of tokens.
Both keep keys and values; one thread; turn about, after a turn that warms up. The goal was to be
faster without beams.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from benchmarks.common import FASTER, Ratio, machine, middle_and_range, quotients, spread, turns
from interp_compose.papers.lrf.models.decode import beam_search, greedy_search
from interp_compose.papers.lrf.models.init import init_xavier
from interp_compose.papers.lrf.models.seq2seq import Seq2SeqConfig, SmallSeq2Seq
from interp_compose.papers.shared.text.vocabulary import BOS, EOS, PAD

SIZES = {
    "2+2 layers, 64 wide": Seq2SeqConfig(d_vocab=200, d_vocab_out=200, n_ctx=64),
    "3+3 layers, 128 wide": Seq2SeqConfig(
        **{"d_vocab": 800, "d_vocab_out": 800, "n_ctx": 64, "n_encoder_layers": 3},
        **{"n_decoder_layers": 3, "d_model": 128, "n_heads": 8, "d_mlp": 256},
    ),
    "6+6 layers, 512 wide": Seq2SeqConfig(
        **{"d_vocab": 5000, "d_vocab_out": 5000, "n_ctx": 64, "n_encoder_layers": 6},
        **{"n_decoder_layers": 6, "d_model": 512, "n_heads": 4, "d_mlp": 1024},
    ),
}
"""Ontañón et al. (2022); the same for SCAN's length split; iwslt's, as on CoGnition."""
BATCH, SOURCE, NEW, BEAMS = 32, 12, 40, 5
NEVER = -1e4
"""Logit of EOS."""


def benchmark(repeats: int = 7, quick: bool = False) -> dict[str, Any]:
    """``decoding``."""
    sizes = list(SIZES.items())[: 2 if quick else None]
    rows = [
        {"size": name, **measure(cfg, n_beams, repeats)}
        for name, cfg in sizes
        for n_beams in (1, BEAMS)
    ]
    about = {"batch": BATCH, "source": SOURCE, "new": NEW, "repeats": repeats}
    return {"decoding": {**about, "sizes": rows, **machine()}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    rows = []
    for row in content["sizes"]:
        greedy = row["n_beams"] == 1
        what = f"{row['size']}, {'greedy' if greedy else '{n_beams} beams'.format(**row)}"
        what += f": {row['ours_tokens_s']:,.0f} tokens/s"
        peer = f"`generate` ({row['hugging_face_tokens_s']:,.0f} tokens/s)"
        goal = 1 if greedy else None
        rows.append(Ratio(what, row["ratio"], row["range"], FASTER, peer, goal=goal))
    return rows


def measure(cfg: Seq2SeqConfig, n_beams: int, repeats: int) -> dict[str, Any]:
    """Tokens per second of both, and the ratio, by turns."""
    ours = SmallSeq2Seq(cfg).eval()
    init_xavier(ours, seed=0)
    ours.b_U.data[EOS] = NEVER
    theirs = marian(ours)
    source = torch.randint(3, cfg.d_vocab, (BATCH, SOURCE), generator=torch.Generator())
    check(ours, theirs, source, n_beams)
    works: dict[str, Callable[[], object]] = {
        "ours": lambda: decoded(ours, source, n_beams, NEW),
        "hugging_face": lambda: generated(theirs, source, n_beams),
    }
    times = turns(works, repeats)
    ratios = quotients(times["hugging_face"], times["ours"])
    row: dict[str, Any] = {"n_beams": n_beams, "ratio": median(ratios), "range": spread(ratios)}
    for name, taken in times.items():
        row |= middle_and_range(f"{name}_tokens_s", [BATCH * NEW / each for each in taken])
    return row


def decoded(model: SmallSeq2Seq, source: Tensor, n_beams: int, length: int) -> list[set[Any]]:
    """The tokens of each row's hypotheses."""
    if n_beams == 1:
        return [{tuple(row)} for row in greedy_search(model, source, max_length=length)]
    rows = beam_search(model, source, n_beams=n_beams, max_length=length)
    return [{one.tokens for one in row} for row in rows]


@torch.no_grad()
def generated(model: MarianMTModel, source: Tensor, n_beams: int) -> list[set[Any]]:
    """The same, by Hugging Face."""
    out = model.generate(
        input_ids=source,
        attention_mask=torch.ones_like(source),
        num_beams=n_beams,
        num_return_sequences=n_beams,
        max_new_tokens=NEW,
        do_sample=False,
        use_cache=True,
    )
    rows = out[:, 1:].unflatten(0, (len(source), n_beams)).tolist()
    return [{tuple(tokens) for tokens in row} for row in rows]


def check(ours: SmallSeq2Seq, theirs: MarianMTModel, source: Tensor, n_beams: int) -> None:
    """Both write the same tokens; beams before the EOS that ends them at the last step."""
    found = decoded(ours, source, n_beams, NEW if n_beams == 1 else NEW + 1)
    if n_beams > 1:
        found = [{tokens[:-1] for tokens in row} for row in found]
    expected = generated(theirs, source, n_beams)
    same = sum(one == other for one, other in zip(found, expected, strict=True))
    print(f"{same} of {len(found)} rows have the same tokens")
    assert same >= 0.8 * len(found), "rounding alone cannot make so many differ"


@torch.no_grad()
def marian(model: SmallSeq2Seq) -> MarianMTModel:
    """Hugging Face's class with the same weights."""
    cfg = model.cfg
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=cfg.d_vocab,
            decoder_vocab_size=cfg.d_vocab_out,
            share_encoder_decoder_embeddings=False,
            d_model=cfg.d_model,
            encoder_layers=cfg.n_encoder_layers,
            decoder_layers=cfg.n_decoder_layers,
            encoder_attention_heads=cfg.n_heads,
            decoder_attention_heads=cfg.n_heads,
            encoder_ffn_dim=cfg.d_mlp,
            decoder_ffn_dim=cfg.d_mlp,
            max_position_embeddings=cfg.n_ctx,
            activation_function=cfg.act,
            scale_embedding=True,
            dropout=0.0,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
    ).eval()
    core = theirs.model
    core.encoder.embed_tokens.weight.copy_(model.embed.W_E)
    core.decoder.embed_tokens.weight.copy_(model.decoder_embed.W_E)
    theirs.lm_head.weight.copy_(model.decoder_embed.W_E)
    theirs.final_logits_bias.copy_(model.b_U[None])
    for stack, positions in ((core.encoder, model.pos_embed), (core.decoder, model.pos_embed)):
        stack.embed_positions.weight.copy_(positions.W_pos)
    for one, other in zip(model.encoder_blocks, core.encoder.layers, strict=True):
        copy_attention(one.attn, other.self_attn)
        copy_norms([one.ln1, one.ln2], [other.self_attn_layer_norm, other.final_layer_norm])
        copy_mlp(one.mlp, other)
    for one, other in zip(model.decoder_blocks, core.decoder.layers, strict=True):
        copy_attention(one.self_attn, other.self_attn)
        copy_attention(one.cross_attn, other.encoder_attn)
        norms = [other.self_attn_layer_norm, other.encoder_attn_layer_norm, other.final_layer_norm]
        copy_norms([one.ln1, one.ln2, one.ln3], norms)
        copy_mlp(one.mlp, other)
    return theirs


def copy_attention(one: Any, other: Any) -> None:
    """Heads side by side."""
    for letter, linear in zip("QKV", (other.q_proj, other.k_proj, other.v_proj), strict=True):
        linear.weight.copy_(getattr(one, f"W_{letter}").transpose(0, 1).flatten(1).mT)
        linear.bias.copy_(getattr(one, f"b_{letter}").flatten())
    other.out_proj.weight.copy_(one.W_O.flatten(0, 1).mT)
    other.out_proj.bias.copy_(one.b_O)


def copy_norms(ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Weights and biases of LayerNorms."""
    for one, other in zip(ours, theirs, strict=True):
        other.weight.copy_(one.w)
        other.bias.copy_(one.b)


def copy_mlp(one: Any, other: Any) -> None:
    """Both layers."""
    other.fc1.weight.copy_(one.W_in.mT)
    other.fc1.bias.copy_(one.b_in)
    other.fc2.weight.copy_(one.W_out.mT)
    other.fc2.bias.copy_(one.b_out)
