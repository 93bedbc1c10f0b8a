"""Small encoder–decoders to train from scratch: the Transformer (Vaswani et al. 2017), and LRF.

LRF (Zheng et al. 2024) puts a *fuse-attention* before each feed-forward part: every position reads
the outputs of all earlier layers of its stack at that position. Written out on TransformerLens'
``HookedRootModule`` with the names that its bridge has for encoder–decoders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding, layer_norm, linear
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from interp_compose._public import public
from interp_compose.errors import OptionError, PromptError
from interp_compose.models.model_files import MAX_LAYERS
from interp_compose.models.parts import (
    MLP,
    Act,
    Attention,
    Biases,
    LayerNorm,
    ShortAttention,
    zeros,
)
from interp_compose.papers.lrf.models.shape import Seq2SeqShape
from interp_compose.papers.shared.models.decoder import check_shape
from interp_compose.tensors import positions_from_mask, softmax_over_keys

Fuse = Literal["none", "encoder", "decoder", "both", "parameters", "previous"]
Third = Literal["fuse", "previous", "second"]
"""What a block has before its feed-forward part, in addition to the Transformer's sub-layers."""

THIRD: Final[Mapping[Fuse, tuple[Third | None, Third | None]]] = {
    "none": (None, None),
    "encoder": ("fuse", None),
    "decoder": (None, "fuse"),
    "both": ("fuse", "fuse"),
    "parameters": ("second", "second"),
    "previous": ("previous", "previous"),
}
"""The third sub-layer of the encoder's blocks, and of the decoder's."""


@public
@dataclass(frozen=True)
class Seq2SeqConfig(Seq2SeqShape):
    """The shape of a small encoder–decoder.

    Raises:
        OptionError: a size below 1, heads that do not divide ``d_model``, dropout outside [0, 1);
            one vocabulary of two sizes; more layers or parameters than a small model may have.
    """

    d_vocab: int
    """Size of the source's vocabulary."""
    d_vocab_out: int
    """Size of the target's vocabulary."""
    n_ctx: int
    """Positions of the source, and of the target."""
    fuse: Fuse = "none"
    """Where fuse-attention is (LRF: ``"both"``), or a control for it: ``"parameters"`` spends the
    same parameters on a second self-attention; ``"previous"`` is a fuse-attention that sees the
    output of the layer before alone, H^{l-1}."""
    act: Act = "relu"
    tied: bool = True
    """Whether the target's embedding is the unembedding as well."""

    def __post_init__(self) -> None:
        if self.n_layers > MAX_LAYERS:
            raise OptionError(
                f"n_encoder_layers={self.n_encoder_layers} and n_decoder_layers="
                f"{self.n_decoder_layers}: expected at most {MAX_LAYERS} together"
            )
        sizes = ("d_vocab", "d_vocab_out", "n_ctx", "n_encoder_layers", "n_decoder_layers")
        inside = self.n_layers * (12 * self.d_model + 2 * self.d_mlp)
        outside = self.d_vocab + 2 * self.d_vocab_out + 2 * self.n_ctx
        check_shape(self, sizes, self.d_model * (inside + outside))
        if self.one_vocabulary and self.d_vocab != self.d_vocab_out:
            raise OptionError(
                f"one_vocabulary=True, and d_vocab={self.d_vocab} is not d_vocab_out="
                f"{self.d_vocab_out}: source and target that share tokens have as many"
            )

    biases: ClassVar[Biases] = "all"

    @property
    def n_layers(self) -> int:
        """Blocks of both stacks."""
        return self.n_encoder_layers + self.n_decoder_layers

    @property
    def head_width(self) -> int:
        """``d_head``: the width of a head."""
        return self.d_model // self.n_heads

    @property
    def positional_embedding_type(self) -> str:
        """What TransformerLens calls it."""
        return "relative_positional_bias" if self.positions == "relative" else "standard"


class RelativeAttention(ShortAttention):
    """Self-attention with the relative positions of Transformer-XL (Dai et al. 2019, section 3.3).

    The score of query i and key j is ((q_i + u) · k_j + (q_i + v) · W_R r_{i-j}) / √d_head, with
    r the sinusoids of a distance, and u and v of each head. Distances are those of the tensor's
    columns: padding between two tokens counts, padding around them does not; or, where it is set,
    those of :attr:`positions`.
    """

    positions: Int[Tensor, "batch pos"] | None = None

    def __init__(self, cfg: Seq2SeqConfig) -> None:
        super().__init__(cfg)
        self.W_R = zeros(cfg.n_heads, cfg.d_model, cfg.head_width)
        self.b_u = zeros(cfg.n_heads, cfg.head_width)
        self.b_v = zeros(cfg.n_heads, cfg.head_width)

    def scores(
        self, q: Float[Tensor, "batch head query d_head"], k: Float[Tensor, "batch head d_head pos"]
    ) -> Float[Tensor, "batch head query pos"]:
        n_queries, n_keys = q.shape[2], k.shape[3]  # the queries are the last positions
        # 1. All distances i − j that occur, from the furthest back to the furthest ahead.
        furthest = n_keys - 1
        nearest = -n_queries
        if self.positions is not None:
            furthest = int(self.positions.max())
            nearest = -furthest - 1
        distances = torch.arange(furthest, nearest, -1, device=q.device)
        r = sinusoids(distances, self.W_R.shape[1]).to(q.dtype)  # [distance d_model]
        # 2. (q_i + v) · W_R r of each distance, of which there are fewer than pairs.
        r = torch.einsum("rd,hde->her", r, self.W_R)  # [head d_head distance]
        of_distance = (q + self.b_v[:, None]) @ r  # [batch head query distance]
        # 3. Of each pair its distance's column.
        places = torch.arange(n_keys, device=q.device)[None]  # [#batch pos]
        if self.positions is not None:
            places = self.positions
        queries = places[:, n_keys - n_queries :, None]  # [#batch query 1]
        column = furthest - queries + places[:, None]  # [#batch query key], of distance i - j
        # [batch head query pos]
        of_pair = of_distance.gather(3, column[:, None].expand(*q.shape[:2], -1, -1))
        return ((q + self.b_u[:, None]) @ k + of_pair) * self.scale  # 4. with (q_i + u) · k_j


class FuseAttention(nn.Module):
    """Multi-head attention from each position to earlier layers' outputs there (LRF, eqs 9, 10).

    The paper stacks the states of all positions and masks those of other positions; here they are
    left out, which is equal. K and V of every state are not computed either, unless a hook reads
    them: q · (W_K h) = (W_Kᵀ q) · h, and the mean of values is the value of the mean. So the cost
    is O(n · l · d_model) and four d_model × d_model products, whatever l is.
    """

    def __init__(self, cfg: Seq2SeqConfig) -> None:
        super().__init__()
        heads, d_model, d_head = cfg.n_heads, cfg.d_model, cfg.head_width
        self.scale = 1 / math.sqrt(d_head)
        self.W_Q, self.b_Q = zeros(heads, d_model, d_head), zeros(heads, d_head)
        self.W_K, self.b_K = zeros(heads, d_model, d_head), zeros(heads, d_head)
        self.W_V, self.b_V = zeros(heads, d_model, d_head), zeros(heads, d_head)
        self.W_O, self.b_O = zeros(heads, d_head, d_model), zeros(d_model)
        self.hook_q, self.hook_k, self.hook_v = HookPoint(), HookPoint(), HookPoint()
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()
        self.hook_z = HookPoint()

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        states: Float[Tensor, "batch pos layer d_model"],
    ) -> Float[Tensor, "batch pos d_model"]:
        """``states`` are the earlier layers' outputs, that of the embeddings first."""
        heads, _, d_head = self.W_Q.shape
        # 1. Queries of all heads in one product: W_Q as [head·d_head d_model].
        q = linear(x, self.W_Q.transpose(0, 1).flatten(1).mT, self.b_Q.flatten())
        q = self.hook_q(q.unflatten(-1, (heads, d_head)))  # [batch pos head d_head]
        # 2. Scores of the states at the query's own position.
        if has_hooks(self.hook_k):
            # [batch pos layer head d_head]
            k = torch.einsum("bpld,hde->bplhe", states, self.W_K) + self.b_K
            scores = torch.einsum("bphe,bplhe->bhpl", q, self.hook_k(k))
        else:
            toward = torch.einsum("bphe,hde->bphd", q, self.W_K)  # W_Kᵀ q: [batch pos head d_model]
            scores = (toward @ states.mT).transpose(1, 2)  # [batch head pos layer]
            # q · b_K, the same for all layers: the softmax cancels it, hooks on the scores see it
            scores = scores + (q * self.b_K).sum(-1).transpose(1, 2)[..., None]
        pattern = self.hook_pattern(softmax_over_keys(self.hook_attn_scores(scores * self.scale)))
        # 3. The mean of the values, or the value of the mean.
        if has_hooks(self.hook_v):
            # [batch pos layer head d_head]
            v = torch.einsum("bpld,hde->bplhe", states, self.W_V) + self.b_V
            z = torch.einsum("bhpl,bplhe->bphe", pattern, self.hook_v(v))
        else:
            weights = pattern.transpose(1, 2)  # [batch pos head layer]
            # [batch pos head d_head]
            z = torch.einsum("bphd,hde->bphe", weights @ states, self.W_V)
            # Summed, since an edited pattern need not add up to 1.
            z = z + weights.sum(-1, keepdim=True) * self.b_V
        z = self.hook_z(z)  # [batch pos head d_head]
        return linear(z.flatten(2), self.W_O.flatten(0, 1).mT, self.b_O)


class Seq2SeqBlock(nn.Module):
    """Sub-layers, each added to the residual; LayerNorm before or after.

    The paper leaves out residual and LayerNorm "for brevity" (LRF, after eq. 8); around the
    fuse-attention they are as around its siblings.
    """

    fuse_attn: FuseAttention
    second_attn: Attention

    def __init__(self, cfg: Seq2SeqConfig, third: Third | None) -> None:
        super().__init__()
        self.norm, self.dropout, self.third = cfg.norm, cfg.dropout, third
        if third == "second":
            self.second_attn, self.hook_second_attn_out = ShortAttention(cfg), HookPoint()
        elif third is not None:
            self.fuse_attn, self.hook_fuse_out = FuseAttention(cfg), HookPoint()
        if third is not None:
            self.ln_third, self.hook_resid_third = LayerNorm(cfg.d_model), HookPoint()
        self.mlp = MLP(cfg)
        self.hook_resid_pre, self.hook_resid_post = HookPoint(), HookPoint()
        self.hook_attn_out, self.hook_resid_mid = HookPoint(), HookPoint()
        self.hook_mlp_out = HookPoint()

    def added(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        norm: LayerNorm,
        sublayer: Callable[[Tensor], Tensor],
        hook_out: HookPoint,
        hook_sum: HookPoint,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The residual after a sub-layer."""
        out = sublayer(norm(resid) if self.norm == "pre" else resid)
        total = resid + hook_out(dropout(out, self.dropout, self.training))
        resid_out: Tensor = hook_sum(total if self.norm == "pre" else norm(total))
        return resid_out

    def fused(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        states: Sequence[Float[Tensor, "batch pos d_model"]],
        second: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "batch pos d_model"]:
        """The residual after fuse-attention (LRF, eqs. 9 and 10), or after what is in its
        place: ``second`` is the second self-attention."""
        if self.third is None:
            return resid
        if self.third == "second":
            return self.added(
                resid, self.ln_third, second, self.hook_second_attn_out, self.hook_resid_third
            )
        # [batch pos layer d_model]
        read = torch.stack(list(states[-1:] if self.third == "previous" else states), dim=2)
        return self.added(
            resid,
            self.ln_third,
            lambda x: self.fuse_attn(x, read),
            self.hook_fuse_out,
            self.hook_resid_third,
        )

    def attends(
        self, attention: str, masked: Bool[Tensor, "#batch 1 #pos key"] | None
    ) -> Callable[[Tensor], Tensor]:
        """A self-attention of all positions, by its name."""

        def attend(x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
            module: Attention = getattr(self, attention)
            out: Tensor = module(module.hook_in(x), None, masked)
            return out

        return attend


class EncoderBlock(Seq2SeqBlock):
    """Self-attention, fuse-attention where there is one, feed-forward (LRF, eqs 4, 9, 7)."""

    def __init__(self, cfg: Seq2SeqConfig, third: Third | None) -> None:
        super().__init__(cfg, third)
        self.attn = RelativeAttention(cfg) if cfg.positions == "relative" else ShortAttention(cfg)
        self.ln1, self.ln2 = LayerNorm(cfg.d_model), LayerNorm(cfg.d_model)

    def forward(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        masked: Bool[Tensor, "#batch 1 1 pos"] | None,
        states: Sequence[Float[Tensor, "batch pos d_model"]],
    ) -> Float[Tensor, "batch pos d_model"]:
        """``masked`` are keys that no query reads; ``states`` the outputs of earlier layers."""
        attend = self.attends("attn", masked)
        # eq. 4, eq. 9, eq. 7
        mid = self.added(resid, self.ln1, attend, self.hook_attn_out, self.hook_resid_mid)
        mid = self.fused(mid, states, self.attends("second_attn", masked))
        return self.added(mid, self.ln2, self.mlp, self.hook_mlp_out, self.hook_resid_post)


class DecoderBlock(Seq2SeqBlock):
    """Masked self-attention, cross-attention, fuse-attention where there is one, feed-forward (LRF,
    eqs 5, 6, 10, 8)."""

    def __init__(self, cfg: Seq2SeqConfig, third: Third | None) -> None:
        super().__init__(cfg, third)
        self.self_attn = (
            RelativeAttention(cfg) if cfg.positions == "relative" else ShortAttention(cfg)
        )
        self.cross_attn = ShortAttention(cfg)
        self.ln1, self.ln2, self.ln3 = (LayerNorm(cfg.d_model) for _ in range(3))
        self.hook_cross_attn_out, self.hook_resid_mid2 = HookPoint(), HookPoint()

    def forward(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        memory: Float[Tensor, "batch source d_model"],
        masked: Bool[Tensor, "#batch 1 pos pos"] | None,
        source_masked: Bool[Tensor, "#batch 1 1 source"] | None,
        states: Sequence[Float[Tensor, "batch pos d_model"]],
    ) -> Float[Tensor, "batch pos d_model"]:
        """``memory`` is what the encoder gives."""
        cross = self.cross_attn
        return self.through(
            resid,
            self.attends("self_attn", masked),
            lambda x: cross(cross.hook_in(memory), x, source_masked),
            self.attends("second_attn", masked),
            states,
        )

    def through(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        self_attention: Callable[[Tensor], Tensor],
        cross: Callable[[Tensor], Tensor],
        second: Callable[[Tensor], Tensor],
        states: Sequence[Float[Tensor, "batch pos d_model"]],
    ) -> Float[Tensor, "batch pos d_model"]:
        """The block, with its attentions as they are given."""
        # eq. 5, eq. 6, eq. 10, eq. 8
        mid = self.added(resid, self.ln1, self_attention, self.hook_attn_out, self.hook_resid_mid)
        mid = self.added(mid, self.ln2, cross, self.hook_cross_attn_out, self.hook_resid_mid2)
        mid = self.fused(mid, states, second)
        return self.added(mid, self.ln3, self.mlp, self.hook_mlp_out, self.hook_resid_post)


class TokenEmbed(nn.Module):
    """``W_E``, times √d_model (Vaswani et al. 2017, section 3.4)."""

    def __init__(self, d_vocab: int, d_model: int) -> None:
        super().__init__()
        self.W_E = zeros(d_vocab, d_model)
        self.hook_out = HookPoint()

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        out: Tensor = self.hook_out(embedding(tokens, self.W_E) * math.sqrt(self.W_E.shape[1]))
        return out


class PositionEmbed(nn.Module):
    """A vector for each absolute position, learned or sinusoidal."""

    def __init__(self, cfg: Seq2SeqConfig) -> None:
        super().__init__()
        if cfg.positions == "learned":
            self.W_pos = zeros(cfg.n_ctx, cfg.d_model)
        else:
            table = sinusoids(torch.arange(cfg.n_ctx), cfg.d_model)
            self.register_buffer("W_pos", table, persistent=False)
        self.hook_out = HookPoint()

    def forward(self, positions: Int[Tensor, "#batch pos"]) -> Float[Tensor, "#batch pos d_model"]:
        out: Tensor = self.hook_out(embedding(positions, self.W_pos))
        return out


class SmallSeq2Seq(HookedRootModule):  # type: ignore[misc]
    """The module behind :func:`.small_seq2seq.small_seq2seq`; its weights are zero until
    :func:`.init.init_xavier`."""

    def __init__(self, cfg: Seq2SeqConfig) -> None:
        super().__init__()
        self.cfg = cfg
        in_encoder, in_decoder = THIRD[cfg.fuse]
        self.embed = TokenEmbed(cfg.d_vocab, cfg.d_model)
        self.decoder_embed = TokenEmbed(cfg.d_vocab_out, cfg.d_model)
        if cfg.one_vocabulary:
            self.decoder_embed.W_E = self.embed.W_E
        self.pos_embed: PositionEmbed
        if cfg.positions != "relative":
            self.pos_embed, self.decoder_pos_embed = PositionEmbed(cfg), PositionEmbed(cfg)
        self.encoder_blocks = nn.ModuleList(
            EncoderBlock(cfg, in_encoder) for _ in range(cfg.n_encoder_layers)
        )
        self.decoder_blocks = nn.ModuleList(
            DecoderBlock(cfg, in_decoder) for _ in range(cfg.n_decoder_layers)
        )
        if cfg.norm == "pre":
            self.encoder_ln_final = LayerNorm(cfg.d_model)
            self.decoder_ln_final = LayerNorm(cfg.d_model)
        if not cfg.tied:
            self.W_U = zeros(cfg.d_model, cfg.d_vocab_out)
        self.b_U = zeros(cfg.d_vocab_out)
        self.setup()

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch pos"],
        source_mask: Int[Tensor, "batch source"] | None = None,
        target_mask: Int[Tensor, "batch pos"] | None = None,
    ) -> Float[Tensor, "batch pos d_vocab_out"]:
        """Logits of the token that follows each of ``target``; padding is what a mask marks with 0.
        After a target's end no mask is needed.

        Raises:
            PromptError: a sequence has more than ``n_ctx`` tokens.
        """
        memory = self.encoded(source, source_mask)
        return self.logits(self.decoded(target, memory, source_mask, target_mask))

    def encoded(
        self, source: Int[Tensor, "batch source"], mask: Int[Tensor, "batch source"] | None = None
    ) -> Float[Tensor, "batch source d_model"]:
        """What cross-attention reads."""
        resids = [self.source_embedded(source, mask)]
        resids = self.run_encoder(resids, 0, self.cfg.n_encoder_layers, mask)
        return self.encoder_final(resids[-1])

    def decoded(
        self,
        target: Int[Tensor, "batch pos"],
        memory: Float[Tensor, "batch source d_model"],
        source_mask: Int[Tensor, "batch source"] | None = None,
        target_mask: Int[Tensor, "batch pos"] | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The last hidden state, which is unembedded."""
        resids = [self.target_embedded(target, target_mask)]
        stop = self.cfg.n_decoder_layers
        resids = self.run_decoder(resids, 0, stop, memory, source_mask, target_mask)
        return self.decoder_final(resids[-1])

    def run_encoder(
        self,
        resids: Sequence[Float[Tensor, "batch source d_model"]],
        start: int,
        stop: int,
        mask: Int[Tensor, "batch source"] | None = None,
    ) -> list[Float[Tensor, "batch source d_model"]]:
        """Blocks ``start … stop-1``. Given are the residuals that enter blocks 0 … ``start``, which
        fuse-attention reads; returned are those that enter blocks 0 … ``stop``."""
        masked = None if mask is None else (mask == 0)[:, None, None, :]  # [batch 1 1 source]
        *earlier, resid = resids
        states = [self.as_state(one) for one in earlier]
        block: Any
        for block in self.encoder_blocks[start:stop]:
            resid = block.hook_resid_pre(resid)
            earlier.append(resid)
            states.append(self.as_state(resid))
            resid = block(resid, masked, states)
        return [*earlier, resid]

    def run_decoder(
        self,
        resids: Sequence[Float[Tensor, "batch pos d_model"]],
        start: int,
        stop: int,
        memory: Float[Tensor, "batch source d_model"],
        source_mask: Int[Tensor, "batch source"] | None = None,
        target_mask: Int[Tensor, "batch pos"] | None = None,
    ) -> list[Float[Tensor, "batch pos d_model"]]:
        """As :meth:`run_encoder`, of the decoder; ``memory`` is what cross-attention reads."""
        *earlier, resid = resids
        masked = causally_masked(resid.shape[1], target_mask, resid.device)
        # [batch 1 1 source]
        source_masked = None if source_mask is None else (source_mask == 0)[:, None, None, :]
        states = [self.as_state(one) for one in earlier]
        block: Any
        for block in self.decoder_blocks[start:stop]:
            resid = block.hook_resid_pre(resid)
            earlier.append(resid)
            states.append(self.as_state(resid))
            resid = block(resid, memory, masked, source_masked, states)
        return [*earlier, resid]

    def as_state(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_model"]:
        """A layer's output as fuse-attention reads it.

        With pre-LN each layer's LayerNorm would be between it and what is read; its weight and
        bias are left out, which the key's and value's matrices absorb, so that it is computed once.
        """
        if self.cfg.norm == "post" or self.cfg.fuse == "none":
            return resid
        return layer_norm(resid, (self.cfg.d_model,))

    def source_embedded(
        self, source: Int[Tensor, "batch source"], mask: Int[Tensor, "batch source"] | None = None
    ) -> Float[Tensor, "batch source d_model"]:
        """The residual that enters encoder block 0."""
        resid = self.embed(source)
        if self.cfg.positions != "relative":
            resid = resid + self.pos_embed(self._positions(source, mask, "source"))
        return dropout(resid, self.cfg.dropout, self.training)

    def target_embedded(
        self,
        target: Int[Tensor, "batch pos"],
        mask: Int[Tensor, "batch pos"] | None = None,
        first: int = 0,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The residual that enters decoder block 0; ``first`` is the first token's position."""
        resid = self.decoder_embed(target)
        if self.cfg.positions != "relative":
            positions = self._positions(target, mask, "target") + first
            resid = resid + self.decoder_pos_embed(positions)
        return dropout(resid, self.cfg.dropout, self.training)

    def encoder_final(
        self, resid: Float[Tensor, "batch source d_model"]
    ) -> Float[Tensor, "batch source d_model"]:
        """The encoder's output: ``resid`` after the final norm, where there is one."""
        hidden: Tensor = self.encoder_ln_final(resid) if self.cfg.norm == "pre" else resid
        return hidden

    def decoder_final(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_model"]:
        """The decoder's last hidden state: ``resid`` after the final norm, where there is one."""
        hidden: Tensor = self.decoder_ln_final(resid) if self.cfg.norm == "pre" else resid
        return hidden

    def logits(
        self, hidden: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_vocab_out"]:
        weight = self.decoder_embed.W_E if self.cfg.tied else self.W_U.mT
        return linear(hidden, weight, self.b_U)

    def _positions(
        self, tokens: Tensor, mask: Tensor | None, which: str
    ) -> Int[Tensor, "#batch pos"]:
        longest = tokens.shape[1]
        if longest > self.cfg.n_ctx and mask is not None:
            longest = int(mask.sum(dim=1).max())
        if longest > self.cfg.n_ctx:
            raise PromptError(
                f"a {which} has {longest} tokens, and the model n_ctx={self.cfg.n_ctx} positions; "
                "shorten it, or make the model with a larger n_ctx."
            )
        if mask is None:
            return torch.arange(tokens.shape[1], device=tokens.device)[None]
        return positions_from_mask(mask)


def causally_masked(
    length: int, mask: Int[Tensor, "batch pos"] | None, device: torch.device
) -> Bool[Tensor, "#batch 1 pos pos"]:
    """Pairs of a query and a key that may not meet: later keys, and padding."""
    # [1 1 pos pos], key > query
    masked = torch.ones((length, length), dtype=torch.bool, device=device).triu(1)[None, None]
    return masked if mask is None else masked | (mask == 0)[:, None, None, :]


def has_hooks(point: HookPoint) -> bool:
    """Whether a hook would see what passes there, in either direction."""
    return bool(point._forward_hooks or point._backward_hooks)


def sinusoids(positions: Int[Tensor, "pos"], d_model: int) -> Float[Tensor, "pos d_model"]:
    """Sine and cosine of each position at wavelengths of 2π to 10000 · 2π (Vaswani et al. 2017,
    section 3.5), by turns along ``d_model``."""
    # [⌈d_model / 2⌉]
    rates = 10000.0 ** (-torch.arange(0, d_model, 2, device=positions.device) / d_model)
    angles = positions[:, None] * rates  # [pos ⌈d_model / 2⌉]
    # sin, cos, sin, …: [pos 2·⌈d_model / 2⌉]
    waves: Any = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    table: Tensor = waves[:, :d_model]  # one too many where d_model is odd
    return table
