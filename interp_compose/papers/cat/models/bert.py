"""Small encoders to pre-train from scratch: BERT (Devlin et al. 2019), and CAT (Huang et al. 2024).

CAT puts a :class:`~.composition.Composition` and a :class:`~.composition.MixAttention` behind each
block of BERT, or behind the last. Written out on TransformerLens' ``HookedRootModule``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding, gelu, linear
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from interp_compose._public import public
from interp_compose.errors import OptionError, PromptError
from interp_compose.models.model_files import MAX_LAYERS
from interp_compose.models.parts import MLP, Act, Attention, Biases, LayerNorm
from interp_compose.papers.cat.models.composition import (
    Composition,
    DenseComposition,
    MixAttention,
    same_word,
    word_means,
)
from interp_compose.papers.cat.models.shape import EncoderShape
from interp_compose.papers.shared.models.decoder import check_shape
from interp_compose.tensors import positions_from_mask

ComposedBlocks = Literal["none", "every", "last"]
Composer = Literal["codes", "fixed", "mlp"]
Output = Literal["cont", "comp", "mix"]
"""CAT's three representations of a token: contextual, composed, mixed."""


@public
@dataclass(frozen=True, kw_only=True)
class EncoderConfig(EncoderShape):
    """The shape of a small encoder.

    Raises:
        OptionError: a size below 1, heads that do not divide ``d_model``, dropout outside [0, 1),
            more layers or parameters than a small model may have.
    """

    d_vocab: int = field(kw_only=False)
    n_segments: int = 2
    """Token types: the two sentences of a pair."""
    composition: ComposedBlocks = "none"
    """Which blocks compose (CAT: ``"every"``)."""
    n_last_codes: int | None = None
    """Codes of the last block's; the first are the sememes, in their order, where there are any.
    None: as many as the others have."""
    composer: Composer = "codes"
    """``"fixed"`` and ``"mlp"`` are controls: a random codebook that is not trained, and an MLP of
    about as many parameters."""
    mix: Literal["layer", "bare"] = "layer"
    """Whether the attention of representation enhancement (CAT, eq. 3) has the residual and the
    LayerNorm of other attentions, or neither, as it is printed."""
    act: Act = "gelu"
    eps: float = 1e-12
    """ε of LayerNorm."""

    biases: ClassVar[Biases] = "all"
    positional_embedding_type: ClassVar[str] = "standard"

    def __post_init__(self) -> None:
        if self.n_layers > MAX_LAYERS:
            raise OptionError(f"n_layers={self.n_layers}: expected at most {MAX_LAYERS}")
        sizes = ("d_vocab", "n_ctx", "n_layers", "n_segments", "n_codes", "n_last_codes")
        inside = self.n_layers * (11 * self.d_model + 2 * self.d_mlp + self.n_codes)
        outside = self.d_vocab + self.n_ctx + self.n_segments + self.last_codes
        check_shape(self, sizes, self.d_model * (inside + outside))

    @property
    def head_width(self) -> int:
        """``d_head``: the width of a head."""
        return self.d_model // self.n_heads

    @property
    def last_codes(self) -> int:
        """``n_last_codes``, given or not."""
        return self.n_codes if self.n_last_codes is None else self.n_last_codes

    def composes(self, layer: int) -> bool:
        """Whether a block composes."""
        last = layer == self.n_layers - 1
        return self.composition == "every" or (self.composition == "last" and last)


@dataclass(frozen=True)
class BlockOutput:
    """What a block gives, as far as it composes: h_cont, h_comp, h_mix, and the weights O of its
    codes. ``mix`` is what the next block reads, and is h_cont where nothing is composed."""

    cont: Float[Tensor, "batch pos d_model"]
    mix: Float[Tensor, "batch pos d_model"]
    comp: Float[Tensor, "batch pos d_model"] | None = None
    weights: Float[Tensor, "batch pos code"] | None = None

    def of(self, output: Output) -> Float[Tensor, "batch pos d_model"]:
        """h_cont, h_comp or h_mix."""
        hidden = {"cont": self.cont, "comp": self.comp, "mix": self.mix}[output]
        assert hidden is not None, "the model says which outputs it has"
        return hidden


class BertBlock(nn.Module):
    """Attention and MLP, each added to the residual and followed by LayerNorm; where the block
    composes, composition (CAT, eq. 2) and representation enhancement (eq. 3) after them.

    The words of a sentence are decomposed, each the mean of its tokens, and h_comp is at every
    token of its word. Enhancement runs over tokens, as the next block does: with words in their
    place, the tokens of a word could no longer be told apart, as masked-language modelling must.
    Where a word is one token, that is the paper's.

    Eq. 3 has no residual: H = self-attention([h_comp, h_cont]). Where each block composes, all of a
    token would then pass through attention alone, which at the start weighs all tokens alike, so
    that blocks above see one vector for all. So the attention has the residual and the LayerNorm of
    its siblings, h_mix = LN(½ (h_comp + h_cont) + ½ (both halves of attention)); ``mix="bare"`` is
    the equation as printed.
    """

    composition: Composition | DenseComposition
    mix_attn: MixAttention

    def __init__(self, cfg: EncoderConfig, layer: int) -> None:
        super().__init__()
        self.dropout = cfg.dropout
        self.ln1, self.attn = LayerNorm(cfg.d_model, cfg.eps), Attention(cfg)
        self.ln2, self.mlp = LayerNorm(cfg.d_model, cfg.eps), MLP(cfg)
        self.hook_resid_pre, self.hook_attn_out = HookPoint(), HookPoint()
        self.hook_resid_mid, self.hook_mlp_out = HookPoint(), HookPoint()
        self.hook_resid_post = HookPoint()
        self.composes = cfg.composes(layer)
        if self.composes:
            n_codes = cfg.last_codes if layer == cfg.n_layers - 1 else cfg.n_codes
            if cfg.composer == "mlp":
                self.composition = DenseComposition(cfg.d_model, n_codes)
            else:
                self.composition = Composition(cfg.d_model, n_codes, cfg.code_norm)
            self.mix_attn = MixAttention(cfg)
            if cfg.composer == "fixed" and isinstance(self.composition, Composition):
                self.composition.codebook.requires_grad_(False)
            self.hook_cont, self.hook_comp, self.hook_mix = HookPoint(), HookPoint(), HookPoint()
            self.hook_mix_attn_out, self.in_layer = HookPoint(), cfg.mix == "layer"
            if self.in_layer:
                self.ln_mix = LayerNorm(cfg.d_model, cfg.eps)

    def forward(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        masked: Bool[Tensor, "#batch 1 1 pos"] | None,
        same: Float[Tensor, "batch pos pos"] | None,
    ) -> BlockOutput:
        """``masked`` are keys that no query reads; ``same`` takes the mean over each word
        (:func:`.composition.same_word`)."""
        # 1. BERT's block: h_cont.
        resid = self.hook_resid_pre(resid)
        out = self.attn(self.attn.hook_in(resid), None, masked)
        mid = self.hook_resid_mid(self.ln1(resid + self.hook_attn_out(self._dropped(out))))
        cont = self.ln2(mid + self.hook_mlp_out(self._dropped(self.mlp(mid))))
        if not self.composes:
            cont = self.hook_resid_post(cont)
            return BlockOutput(cont, cont)
        # 2. Each word decomposed and composed (eq. 2), the result at every token of it: h_comp.
        cont = self.hook_cont(cont)
        inputs = cont if same is None else word_means(cont, same)
        weights, comp = self.composition(inputs)
        comp = self.hook_comp(comp)
        # 3. Enhancement (eq. 3): h_mix, which the next block reads.
        mix = self.hook_mix_attn_out(self._dropped(self.mix_attn.mixed(comp, cont, masked)))
        if self.in_layer:
            mix = self.ln_mix((comp + cont) / 2 + mix)
        mix = self.hook_resid_post(self.hook_mix(mix))
        return BlockOutput(cont, mix, comp, weights)

    def _dropped(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


class MaskedHead(nn.Module):
    """The layer between a hidden state and the unembedding (Devlin et al. 2019)."""

    def __init__(self, cfg: EncoderConfig) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(cfg.d_model, cfg.d_model))
        self.b = nn.Parameter(torch.zeros(cfg.d_model))
        self.ln = LayerNorm(cfg.d_model, cfg.eps)

    def forward(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        out: Tensor = self.ln(gelu(linear(hidden, self.W.mT, self.b)))
        return out


class PairHead(nn.Module):
    """Whether the second sentence follows the first, from [CLS]: pooler and classifier."""

    def __init__(self, cfg: EncoderConfig) -> None:
        super().__init__()
        self.W_pool = nn.Parameter(torch.zeros(cfg.d_model, cfg.d_model))
        self.b_pool = nn.Parameter(torch.zeros(cfg.d_model))
        self.W = nn.Parameter(torch.zeros(cfg.d_model, 2))
        self.b = nn.Parameter(torch.zeros(2))

    def forward(self, cls: Float[Tensor, "batch d_model"]) -> Float[Tensor, "batch 2"]:
        return linear(linear(cls, self.W_pool.mT, self.b_pool).tanh(), self.W.mT, self.b)


class EmbeddingTable(nn.Module):
    """A vector for each number."""

    def __init__(self, weight: str, n: int, d_model: int) -> None:
        super().__init__()
        self.weight_name = weight
        setattr(self, weight, nn.Parameter(torch.zeros(n, d_model)))

    def forward(self, ids: Int[Tensor, "*batch pos"]) -> Float[Tensor, "*batch pos d_model"]:
        return embedding(ids, getattr(self, self.weight_name))


class SmallEncoder(HookedRootModule):  # type: ignore[misc]
    """The module behind :func:`.small_encoder.small_encoder`; its weights are zero until
    :func:`.init.init_bert`."""

    continues: Tensor

    def __init__(self, cfg: EncoderConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.embed, self.hook_embed = EmbeddingTable("W_E", cfg.d_vocab, cfg.d_model), HookPoint()
        self.pos_embed = EmbeddingTable("W_pos", cfg.n_ctx, cfg.d_model)
        self.token_type_embed = EmbeddingTable("W_token_type", cfg.n_segments, cfg.d_model)
        self.embed_ln = LayerNorm(cfg.d_model, cfg.eps)
        self.blocks = nn.ModuleList(BertBlock(cfg, layer) for layer in range(cfg.n_layers))
        self.mlm_head, self.pair_head = MaskedHead(cfg), PairHead(cfg)
        self.b_U = nn.Parameter(torch.zeros(cfg.d_vocab))
        # Which tokens go on with the word before them, as WordPiece's ## says.
        self.register_buffer("continues", torch.zeros(cfg.d_vocab, dtype=torch.bool))
        self.setup()

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Representations that the last block gives."""
        return ("cont",) if self.cfg.composition == "none" else ("cont", "comp", "mix")

    def forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        mask: Int[Tensor, "batch pos"] | None = None,
        segments: Int[Tensor, "batch pos"] | None = None,
        words: Int[Tensor, "batch pos"] | None = None,
    ) -> list[BlockOutput]:
        """What each block gives; padding is what ``mask`` marks with 0, segments are 0 by default,
        and words those of :meth:`words_of`.

        Raises:
            PromptError: a sequence has more than ``n_ctx`` tokens.
        """
        if words is None:
            words = self.words_of(tokens, mask)
        resid = self.embedded(tokens, mask, segments)
        return self.run(resid, 0, self.cfg.n_layers, mask, words)

    def words_of(
        self, tokens: Int[Tensor, "batch pos"], mask: Int[Tensor, "batch pos"] | None = None
    ) -> Int[Tensor, "batch pos"]:
        """The number of each token's word in its row; special tokens are words of their own, and
        padding -1."""
        real = torch.ones_like(tokens) if mask is None else mask
        starts = real * (~self.continues[tokens]).long()  # [batch pos]
        starts = starts | (real * (real.cumsum(dim=1) == 1))  # a row's first token begins a word
        numbers = starts.cumsum(dim=1) - 1
        return numbers.masked_fill(real == 0, -1)

    def embedded(
        self,
        tokens: Int[Tensor, "batch pos"],
        mask: Int[Tensor, "batch pos"] | None = None,
        segments: Int[Tensor, "batch pos"] | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The residual that enters block 0."""
        real = torch.ones_like(tokens) if mask is None else mask
        longest = tokens.shape[1]
        if longest > self.cfg.n_ctx and mask is not None:
            longest = int(mask.sum(dim=1).max())
        if longest > self.cfg.n_ctx:
            raise PromptError(
                f"a sequence has {longest} tokens, and the model n_ctx={self.cfg.n_ctx} positions; "
                "shorten it, or make the model with a larger n_ctx."
            )
        types = torch.zeros_like(tokens) if segments is None else segments
        places = self.pos_embed(positions_from_mask(real))
        total = self.embed(tokens) + places + self.token_type_embed(types)
        resid: Tensor = self.hook_embed(self.embed_ln(total))
        return dropout(resid, self.cfg.dropout, self.training)

    def run(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        start: int,
        stop: int,
        mask: Int[Tensor, "batch pos"] | None = None,
        words: Int[Tensor, "batch pos"] | None = None,
    ) -> list[BlockOutput]:
        """What each of the blocks ``start … stop-1`` gives."""
        masked = None if mask is None else (mask == 0)[:, None, None, :]  # [batch 1 1 pos]
        composes = any(map(self.cfg.composes, range(start, stop)))
        same = None
        if composes and self.cfg.level == "word" and words is not None:
            same = same_word(words, resid.dtype)  # [batch pos pos], once for all blocks
        outputs: list[BlockOutput] = []
        block: Any
        for block in self.blocks[start:stop]:
            outputs.append(block(resid, masked, same))
            resid = outputs[-1].mix
        return outputs

    def logits(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_vocab"]:
        """Logits of the masked token, from one of the last block's outputs."""
        words: Any = self.embed
        return linear(self.mlm_head(hidden), words.W_E, self.b_U)
