"""Small decoders to train from scratch: GPT-2-like pre-LN, and complexity control's post-LN one.

Written out plainly on TransformerLens' ``HookedRootModule`` with its hook and weight names, since
its own small decoder is pre-LN alone and shows attention where an edit comes too late. What a
training step does not need is not computed: :meth:`SmallDecoder.last_logits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, linear
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from interp_compose._public import public
from interp_compose.errors import OptionError, PromptError
from interp_compose.models.model_files import MAX_LAYERS
from interp_compose.models.parts import MLP, Act, Attention, Biases, LayerNorm, zeros
from interp_compose.papers.shared.models.shape import DecoderShape
from interp_compose.tensors import positions_from_mask

Norm = Literal["pre", "post", "query"]

MAX_PARAMETERS: Final = 2**31


@public
@dataclass(frozen=True, kw_only=True)
class DecoderConfig(DecoderShape):
    """The shape of a small decoder; the default is the one of the phase diagram.

    Raises:
        OptionError: a size below 1, heads that do not divide ``d_model``, an unknown word, more
            layers or parameters than a small model may have.
    """

    d_vocab: int = 110
    n_ctx: int = 9
    d_head: int | None = None
    """None: ``d_model / n_heads``."""
    norm: Norm = "pre"
    """``"pre"``: LayerNorm before attention and MLP, and at the end (GPT-2). ``"post"``: after each
    sum, and none at the end (complexity control, eq. 6). ``"query"``: as ``"pre"``, but keys and
    values read the residual itself, as in that paper's released code."""
    act: Act = "gelu"
    """``"gelu_new"`` is GPT-2's, with tanh."""
    biases: Biases = "all"
    """Which layers have biases; ``"unembed"``: the unembedding alone (LayerNorm keeps its own)."""

    positional_embedding_type: ClassVar[str] = "standard"

    def __post_init__(self) -> None:
        for name in ("d_vocab", "n_ctx", "n_layers", "d_model", "n_heads", "d_mlp", "d_head"):
            value = getattr(self, name)
            if name == "d_head" and value is None:
                continue
            if value < 1:
                raise OptionError(f"{name}={value!r}: expected a whole number, 1 or more")
        if self.n_layers > MAX_LAYERS:
            raise OptionError(f"n_layers={self.n_layers}: expected at most {MAX_LAYERS}")
        inside = self.n_layers * (4 * self.n_heads * (self.d_head or 1) + 2 * self.d_mlp)
        if self.d_model * (2 * self.d_vocab + self.n_ctx + inside) > MAX_PARAMETERS:
            raise OptionError(
                f"{self} would have more than {MAX_PARAMETERS} parameters: make it smaller"
            )
        if self.d_head is None and self.d_model % self.n_heads:
            raise OptionError(
                f"n_heads={self.n_heads} do not divide d_model={self.d_model}: give d_head"
            )

    @property
    def head_width(self) -> int:
        """``d_head``, given or not."""
        return self.d_model // self.n_heads if self.d_head is None else self.d_head


def check_shape(config: Any, sizes: Sequence[str], n_parameters: int) -> None:
    """What encoders and encoder–decoders check of their shape: ``sizes`` are names of further
    fields that count something, or are None; ``n_parameters`` is about how many there would be.

    Raises:
        OptionError: a size below 1, heads that do not divide ``d_model``, dropout outside [0, 1),
            more parameters than :data:`MAX_PARAMETERS`.
    """
    for name in (*sizes, "d_model", "n_heads", "d_mlp"):
        value = getattr(config, name)
        if value is not None and value < 1:
            raise OptionError(f"{name}={value!r}: expected a whole number, 1 or more")
    if n_parameters > MAX_PARAMETERS:
        raise OptionError(
            f"{config} would have more than {MAX_PARAMETERS} parameters: make it smaller"
        )
    if config.d_model % config.n_heads:
        raise OptionError(
            f"n_heads={config.n_heads}: expected a divisor of d_model={config.d_model}"
        )
    if not 0 <= config.dropout < 1:
        raise OptionError(f"dropout={config.dropout!r}: expected a number, 0 or more and below 1")


MODULE_OF: Final = {
    **{"W_E": "embed", "W_pos": "pos_embed", "W_U": "unembed", "b_U": "unembed"},
    **dict.fromkeys(("W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O"), "attn"),
    **dict.fromkeys(("W_in", "b_in", "W_out", "b_out"), "mlp"),
}
"""The module that has a weight; ``attn`` and ``mlp`` are parts of each block."""


class Block(nn.Module):
    """Attention and MLP, each added to the residual; LayerNorm before, or after (eq. 6)."""

    def __init__(self, cfg: DecoderConfig) -> None:
        super().__init__()
        self.norm = cfg.norm
        self.ln1, self.attn = LayerNorm(cfg.d_model), Attention(cfg)
        self.ln2, self.mlp = LayerNorm(cfg.d_model), MLP(cfg)
        self.hook_resid_pre, self.hook_attn_out = HookPoint(), HookPoint()
        self.hook_resid_mid, self.hook_mlp_out = HookPoint(), HookPoint()
        self.hook_resid_post = HookPoint()

    def forward(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        masked: Bool[Tensor, "#batch 1 pos pos"] | None,
        last: bool = False,
        at: Int[Tensor, "token"] | None = None,
    ) -> Float[Tensor, "_ _ d_model"]:
        """What leaves the block, at every position, at the ``last`` one alone, or as
        [1, token, d_model] ``at`` some, counted row by row: attention is computed at all of them,
        the MLP at those alone.

        ``attn.hook_in`` is the input of keys and values, and of queries unless they alone have
        the norm (``norm="query"``).
        """
        keys = self.hook_resid_pre(resid)
        # 1. What attention reads: keys at all positions, queries at the last one or at all.
        resid = keys[:, -1:] if last else keys
        if self.norm == "pre":
            keys = self.ln1(keys)
        keys = self.attn.hook_in(keys)
        queries = keys[:, -1:] if last else None
        if self.norm == "query":
            queries = self.ln1(resid)
        # 2. Attention, added; then 3. the MLP, from here on at the positions `at` alone.
        mid = resid + self.hook_attn_out(self.attn(keys, queries, masked))
        if at is not None:
            mid = mid.flatten(0, 1)[at][None]  # [batch pos d_model] -> [1 token d_model]
        if self.norm == "post":
            mid = self.hook_resid_mid(self.ln1(mid))  # eq. 6: LayerNorm of each sum
            out = self.ln2(mid + self.hook_mlp_out(self.mlp(mid)))
        else:
            mid = self.hook_resid_mid(mid)
            out = mid + self.hook_mlp_out(self.mlp(self.ln2(mid)))
        resid_post: Tensor = self.hook_resid_post(out)
        return resid_post


class Embed(nn.Module):
    """``W_E``: a vector for each token."""

    def __init__(self, cfg: DecoderConfig) -> None:
        super().__init__()
        self.W_E = zeros(cfg.d_vocab, cfg.d_model)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return embedding(tokens, self.W_E)


class PosEmbed(nn.Module):
    """``W_pos``: a vector for each position."""

    def __init__(self, cfg: DecoderConfig) -> None:
        super().__init__()
        self.W_pos = zeros(cfg.n_ctx, cfg.d_model)

    def forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Int[Tensor, "batch pos"] | None,
    ) -> Float[Tensor, "batch pos d_model"]:
        if attention_mask is None:
            return self.W_pos[: tokens.shape[1]].expand(len(tokens), -1, -1)
        return embedding(positions_from_mask(attention_mask), self.W_pos)


class Unembed(nn.Module):
    """Logits from the last hidden state."""

    def __init__(self, cfg: DecoderConfig) -> None:
        super().__init__()
        self.W_U = zeros(cfg.d_model, cfg.d_vocab)
        self.b_U = zeros(cfg.d_vocab)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_vocab"]:
        return linear(x, self.W_U.mT, self.b_U)


class SmallDecoder(HookedRootModule):  # type: ignore[misc]
    """The module behind :func:`.small_decoder.small_decoder`; its weights are zero until
    :func:`.init.init_weights`. ``W_Q`` and its like are the weights of all blocks, stacked."""

    def __init__(self, cfg: DecoderConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.embed, self.hook_embed = Embed(cfg), HookPoint()
        self.pos_embed, self.hook_pos_embed = PosEmbed(cfg), HookPoint()
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layers))
        if cfg.norm != "post":
            self.ln_final = LayerNorm(cfg.d_model)
        self.unembed = Unembed(cfg)
        self.setup()

    def __getattr__(self, name: str) -> Any:
        module = MODULE_OF.get(name)
        if module is None:
            return super().__getattr__(name)
        if module not in ("attn", "mlp"):
            return getattr(getattr(self, module), name)
        weights = [getattr(getattr(block, module), name) for block in self.blocks]
        if weights[0] is None:
            raise AttributeError(f"no {name}, since biases={self.cfg.biases!r}")
        return torch.stack(weights)  # [layer ...]

    def forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Int[Tensor, "batch pos"] | None = None,
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits at every position; padding, on either side, is what the mask marks with 0.

        Raises:
            PromptError: a sequence has more than ``n_ctx`` tokens.
        """
        return self.logits(self.all_blocks(tokens, attention_mask))

    def last_logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch d_vocab"]:
        """Logits at the last position of sequences without padding, and no more than they need: in
        the last block one query and one position of the MLP. Hooks there see that position alone.

        Raises:
            PromptError: a sequence has more than ``n_ctx`` tokens.
        """
        resid = self.run(self.embedded(tokens), 0, len(self.blocks) - 1)
        # one query may see all keys
        return self.logits(self.blocks[-1](resid, None, last=True))[:, 0]

    def logits_at(
        self, tokens: Int[Tensor, "batch pos"], at: Int[Tensor, "token"]
    ) -> Float[Tensor, "token d_vocab"]:
        """Logits at the positions ``at``, counted row by row (position p of row b is b · pos + p),
        of sequences whose padding, if any, follows them. The last block's MLP sees these alone, and
        so do hooks there: as [1, token, …].

        Raises:
            PromptError: a sequence has more than ``n_ctx`` tokens.
        """
        resid = self.run(self.embedded(tokens), 0, len(self.blocks) - 1)
        masked = after(resid.shape[1], resid.device)
        # [1 token d_vocab] without the 1
        return self.logits(self.blocks[-1](resid, masked, at=at))[0]

    def all_blocks(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Int[Tensor, "batch pos"] | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The residual that leaves the last block."""
        resid = self.embedded(tokens, attention_mask)
        return self.run(resid, 0, len(self.blocks), attention_mask)

    def embedded(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Int[Tensor, "batch pos"] | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The residual that enters block 0 (complexity control, eq. 3)."""
        longest = tokens.shape[1]
        if longest > self.cfg.n_ctx and attention_mask is not None:
            longest = int(attention_mask.sum(dim=1).max())
        if longest > self.cfg.n_ctx:
            raise PromptError(
                f"a sequence has {longest} tokens, and the model n_ctx={self.cfg.n_ctx} positions; "
                "shorten it, or make the model with a larger n_ctx."
            )
        pos_embed = self.hook_pos_embed(self.pos_embed(tokens, attention_mask))
        resid: Tensor = self.hook_embed(self.embed(tokens)) + pos_embed
        return resid

    def run(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        start: int,
        stop: int,
        attention_mask: Int[Tensor, "batch pos"] | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The residual that leaves block ``stop-1``, from the one that enters block ``start``."""
        masked = after(resid.shape[1], resid.device)
        if attention_mask is not None:
            masked = masked | (attention_mask == 0)[:, None, None, :]  # [batch 1 pos pos]
        for block in self.blocks[start:stop]:
            resid = block(resid, masked)
        return resid

    def final(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_model"]:
        """The last hidden state: after the final norm, where there is one."""
        hidden: Tensor = resid if self.cfg.norm == "post" else self.ln_final(resid)
        return hidden

    def logits(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits from the residual that leaves the last block."""
        logits: Tensor = self.unembed(self.final(resid))
        return logits


def after(length: int, device: torch.device) -> Bool[Tensor, "1 1 pos pos"]:
    """Pairs of a query and a key that follows it: what a causal model masks."""
    pairs = torch.ones((length, length), dtype=torch.bool, device=device)
    return pairs.triu(1)[None, None]  # key > query
