"""Marian's students behind the one surface: translators with a recurrent decoder.

Encoder and cross-attention are the Transformer's (Vaswani et al. 2017), with LayerNorm after each
sum. In the place of the decoder's self-attention is a simple recurrent unit, the SSRU (Kim et al.
2019, "From Research to Production and Back"), which makes decoding fast.

Weights are dequantised to float32, and activations are never quantised; no shortlist of words is
used. The engines that these models are made for do both, and so may choose another word now and
then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, linear
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from interp_compose.errors import CapabilityError, CorruptFileError, PromptError
from interp_compose.models.attention import AttentionSite
from interp_compose.models.base import Streams
from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.models.marian_file import marian_tokenizer, read_marian
from interp_compose.models.parts import MLP, Act, Attention, Biases, LayerNorm, zeros
from interp_compose.tensors import positions_from_mask
from interp_compose.types import Side

EPS: Final = 1e-6
"""LayerNorm's, in Marian."""
N_CTX: Final = 1024
"""Tokens of a source or a target at most; the sinusoids have no end, but memory has."""
END: Final = 0
"""``</s>``, which ends a source and a target. What a target begins with has this id too, and as an
embedding the zero vector, as Marian has it."""
EXPECTED: Final[Mapping[str, Any]] = {
    "type": "transformer",
    "transformer-decoder-autoreg": "rnn",
    "dec-cell": "ssru",
    "tied-embeddings-all": True,
    "transformer-ffn-activation": "relu",
    "transformer-ffn-depth": 2,
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-top": "",
    "transformer-train-position-embeddings": False,
    "transformer-tied-layers": [],
    "transformer-no-projection": False,
    "layer-normalization": False,
    "lemma-dim-emb": 0,
    "right-left": False,
    "skip": False,
}
"""What is built here, by Marian's options."""


@dataclass(frozen=True)
class StudentConfig:
    """The shape of a student."""

    d_vocab: int
    """Size of the vocabulary that source and target share."""
    d_model: int
    n_encoder_layers: int
    n_decoder_layers: int
    n_heads: int
    d_mlp: int
    act: ClassVar[Act] = "relu"
    biases: ClassVar[Biases] = "all"
    n_ctx: ClassVar[int] = N_CTX
    positional_embedding_type: ClassVar[str] = "sinusoidal"

    @property
    def n_layers(self) -> int:
        """Blocks of both stacks."""
        return self.n_encoder_layers + self.n_decoder_layers

    @property
    def head_width(self) -> int:
        """``d_head``: the width of a head."""
        return self.d_model // self.n_heads


class RecurrentUnit(nn.Module):
    """SSRU: f_t = σ(W_f x_t + b_f), c_t = f_t ⊙ c_{t−1} + (1 − f_t) ⊙ W x_t, out_t = ReLU(c_t),
    with c_{−1} = 0."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.W, self.W_f, self.b_f = (
            zeros(d_model, d_model),
            zeros(d_model, d_model),
            zeros(d_model),
        )
        self.hook_in, self.hook_forget, self.hook_cell = HookPoint(), HookPoint(), HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        x = self.hook_in(x)
        forget = self.hook_forget(linear(x, self.W_f.mT, self.b_f).sigmoid())
        enters = (1 - forget) * linear(x, self.W.mT)
        cell, cells = torch.zeros_like(x[:, 0]), []  # [batch d_model]
        for at in range(x.shape[1]):
            cell = forget[:, at] * cell + enters[:, at]
            cells.append(cell)
        out: Tensor = self.hook_cell(torch.stack(cells, dim=1)).relu()
        return out


class StudentBlock(nn.Module):
    """Sub-layers, each added to the residual and normalised with it: y = LN(x + f(x))."""

    def __init__(self, cfg: StudentConfig) -> None:
        super().__init__()
        self.mlp = MLP(cfg)
        self.hook_resid_pre, self.hook_resid_mid = HookPoint(), HookPoint()
        self.hook_mlp_out, self.hook_resid_post = HookPoint(), HookPoint()

    def with_mlp(
        self, mid: Float[Tensor, "batch pos d_model"], norm: LayerNorm
    ) -> Float[Tensor, "batch pos d_model"]:
        out: Tensor = self.hook_resid_post(norm(mid + self.hook_mlp_out(self.mlp(mid))))
        return out


class StudentEncoderBlock(StudentBlock):
    """Self-attention and feed-forward."""

    def __init__(self, cfg: StudentConfig) -> None:
        super().__init__(cfg)
        self.attn, self.hook_attn_out = Attention(cfg), HookPoint()
        self.ln1, self.ln2 = LayerNorm(cfg.d_model, EPS), LayerNorm(cfg.d_model, EPS)

    def forward(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        masked: Bool[Tensor, "#batch 1 1 pos"] | None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """``masked`` are keys that no query reads."""
        attn_out = self.hook_attn_out(self.attn(self.attn.hook_in(resid), None, masked))
        return self.with_mlp(self.hook_resid_mid(self.ln1(resid + attn_out)), self.ln2)


class StudentDecoderBlock(StudentBlock):
    """The recurrent unit, cross-attention, and feed-forward."""

    def __init__(self, cfg: StudentConfig) -> None:
        super().__init__(cfg)
        self.rnn, self.hook_rnn_out = RecurrentUnit(cfg.d_model), HookPoint()
        self.cross_attn, self.hook_cross_attn_out = Attention(cfg), HookPoint()
        self.ln1, self.ln2, self.ln3 = (LayerNorm(cfg.d_model, EPS) for _ in range(3))
        self.hook_resid_mid2 = HookPoint()

    def forward(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        memory: Float[Tensor, "batch source d_model"],
        masked: Bool[Tensor, "#batch 1 1 source"] | None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """``memory`` is what the encoder gives, ``masked`` are positions of it that none reads."""
        mid = self.hook_resid_mid(self.ln1(resid + self.hook_rnn_out(self.rnn(resid))))
        keys = self.cross_attn.hook_in(memory)
        cross_out = self.hook_cross_attn_out(self.cross_attn(keys, mid, masked))
        return self.with_mlp(self.hook_resid_mid2(self.ln2(mid + cross_out)), self.ln3)


class SharedEmbed(nn.Module):
    """``W_E`` of source, target and output; embeddings are √d_model times its rows."""

    def __init__(self, cfg: StudentConfig) -> None:
        super().__init__()
        self.W_E = zeros(cfg.d_vocab, cfg.d_model)
        self.hook_out = HookPoint()

    def forward(
        self, tokens: Int[Tensor, "batch pos"], begins: Bool[Tensor, "batch pos"] | None = None
    ) -> Float[Tensor, "batch pos d_model"]:
        """``begins`` marks what a target begins with, which is the zero vector."""
        rows = embedding(tokens, self.W_E) * math.sqrt(self.W_E.shape[1])
        if begins is not None:
            rows = rows.masked_fill(begins[:, :, None], 0.0)
        out: Tensor = self.hook_out(rows)
        return out


class MarianStudent(HookedRootModule):  # type: ignore[misc]
    """The module behind a student; its weights are zero until they are read from a file."""

    def __init__(self, cfg: StudentConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.embed = SharedEmbed(cfg)
        self.encoder_blocks = nn.ModuleList(
            StudentEncoderBlock(cfg) for _ in range(cfg.n_encoder_layers)
        )
        self.decoder_blocks = nn.ModuleList(
            StudentDecoderBlock(cfg) for _ in range(cfg.n_decoder_layers)
        )
        self.b_U = zeros(cfg.d_vocab)
        self.setup()

    def forward(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch pos"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits of the token that follows each of ``target``; neither has padding."""
        memory = self.run_encoder(self.embedded(source, None, "source"), 0, None, None)
        resid = self.embedded(target, None, "target")
        return self.logits(self.run_decoder(resid, 0, None, memory, None))

    def embedded(
        self,
        tokens: Int[Tensor, "batch pos"],
        mask: Int[Tensor, "batch pos"] | None,
        side: Side,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The residual that enters the first block of a side.

        Raises:
            PromptError: more than 1024 tokens.
        """
        if tokens.shape[1] > N_CTX:
            raise PromptError(
                f"a {side} has {tokens.shape[1]} tokens, and {N_CTX} are read at most"
            )
        mask = torch.ones_like(tokens) if mask is None else mask
        rows = self.embed(tokens, tokens == END if side == "target" else None)
        waves = sinusoids(positions_from_mask(mask), self.cfg.d_model)
        resid: Tensor = rows + waves.to(rows.dtype)
        return resid

    def run_encoder(
        self,
        resid: Float[Tensor, "batch source d_model"],
        start: int,
        stop: int | None,
        mask: Int[Tensor, "batch source"] | None,
    ) -> Float[Tensor, "batch source d_model"]:
        """Blocks ``start … stop-1``, or up to the last."""
        masked = None if mask is None else (mask == 0)[:, None, None, :]  # [batch 1 1 source]
        block: Any
        for block in self.encoder_blocks[start:stop]:
            resid = block(block.hook_resid_pre(resid), masked)
        return resid

    def run_decoder(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        start: int,
        stop: int | None,
        memory: Float[Tensor, "batch source d_model"],
        source_mask: Int[Tensor, "batch source"] | None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """As :meth:`run_encoder`, of the decoder. Padding of a target follows it, where the
        recurrent unit never looks; ``memory`` is what cross-attention reads."""
        # [batch 1 1 source]
        masked = None if source_mask is None else (source_mask == 0)[:, None, None, :]
        block: Any
        for block in self.decoder_blocks[start:stop]:
            resid = block(block.hook_resid_pre(resid), memory, masked)
        return resid

    def logits(self, resid: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_vocab"]:
        return linear(resid, self.embed.W_E, self.b_U)


def sinusoids(
    positions: Int[Tensor, "batch pos"], d_model: int
) -> Float[Tensor, "batch pos d_model"]:
    """As Marian has them: all sines, then all cosines, of wavelengths from 2π to 10000 · 2π."""
    half = d_model // 2
    # 10000^(−i / (d_model/2 − 1)): the last wavelength is 10000 · 2π itself.
    powers = torch.arange(half, dtype=torch.float64, device=positions.device) / max(half - 1, 1)
    angles = positions[:, :, None] * 10000.0**-powers  # [batch pos d_model/2]
    return torch.cat([angles.sin(), angles.cos()], dim=2)


class MarianStudentModel(EncoderDecoderModel):
    """An :class:`.encoder_decoder.EncoderDecoderModel` on a :class:`MarianStudent`."""

    lens: MarianStudent
    keeps_to_names = True
    ends_in_norm = True
    recurrent_target = True

    def __init__(self, lens: MarianStudent, *, name: str, tokenizer: Any = None) -> None:
        size = lens.cfg.d_vocab
        super().__init__(
            lens,
            name=name,
            architecture="Marian student (SSRU)",
            tokenizer=tokenizer,
            d_vocab_source=size,
            d_vocab=size,
        )
        self.start_ids = (END,)

    def attention_sites(self, layer: int) -> Sequence[AttentionSite]:
        """Self-attention in the encoder; in the decoder cross-attention alone."""
        sites = super().attention_sites(layer)
        return tuple(site for site in sites if site.name != "self_attn")

    def sublayers(self, layer: int) -> Mapping[str, str]:
        """An encoder layer's; in the decoder's ``"rnn"``, ``"cross_attn"`` and ``"mlp"``."""
        if self.side_of(layer) == "source":
            return super().sublayers(layer)
        prefix = self.prefix(layer)
        return {part: f"{prefix}.hook_{part}_out" for part in ("rnn", "cross_attn", "mlp")}

    def entered(self, layer: int) -> str:
        """The recurrent unit comes first in the decoder."""
        if self.side_of(layer) == "source":
            return super().entered(layer)
        return f"{self.prefix(layer)}.rnn.hook_in"

    def random_tokens(
        self, batch: int, length: int, generator: torch.Generator
    ) -> Int[Tensor, "batch pos"]:
        """An encoder–decoder's, without the token that begins a target."""
        tokens = super().random_tokens(batch, length, generator)
        begins = tokens == END + self.d_vocab_source
        return torch.where(begins, self.shifted(tokens, 1), tokens)

    def _embed(
        self, ids: Int[Tensor, "batch own"], mask: Int[Tensor, "batch own"], side: Side
    ) -> Float[Tensor, "batch own d_model"]:
        return self.lens.embedded(ids, mask, side)

    def _encode(
        self, source: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream own d_model"]:
        return self.lens.run_encoder(source.resid, start, stop, source.mask)

    def _decode(
        self, target: Streams, source: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream own d_model"]:
        return self.lens.run_decoder(target.resid, start, stop, source.resid, source.mask)

    def _unembed(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        return self.lens.logits(resid)

    def _final(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_model"]:
        return resid

    def _plain_sides(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        lens = self.lens
        memory = lens.run_encoder(lens.embedded(source, None, "source"), 0, None, None)
        resid = lens.embedded(target, None, "target")
        hidden = lens.run_decoder(resid, 0, None, memory, None)
        return memory, hidden, lens(source, target)


# ---- from a file -------------------------------------------------------------------------


def load_marian(
    file: Path, *, name: str, tokenizer: Any, device: str, dtype: torch.dtype
) -> MarianStudentModel:
    """The student in a Marian file, in evaluation mode, with the pieces that lie beside it.

    Raises:
        CorruptFileError: a file that is not whole, weights that are missing, of another shape, or
            not read by this model.
        CapabilityError: another kind of Marian model; names the option and its value.
    """
    stored, settings = read_marian(file)
    lens = MarianStudent(_config(settings, stored, file))
    parameters = dict(lens.named_parameters())
    for weight, value in _weights(stored, lens.cfg, file):
        parameter = parameters.pop(weight)
        if parameter.shape != value.shape:
            raise CorruptFileError(
                f"{weight} of {str(file)!r} has the shape {list(value.shape)}: expected "
                f"{list(parameter.shape)}; get the file again"
            )
        parameter.data = value.contiguous()
    assert not parameters, f"no weight of the file is {[*parameters]}"
    if tokenizer is None:
        tokenizer = marian_tokenizer(file.parent)
        if len(tokenizer) != lens.cfg.d_vocab:
            raise CorruptFileError(
                f"{str(file.parent)!r} has {len(tokenizer)} pieces, and its model a vocabulary of "
                f"{lens.cfg.d_vocab}; get the folder again"
            )
    lens.to(device, dtype).eval()
    model = MarianStudentModel(lens, name=name, tokenizer=tokenizer)
    model.dequantised_from = "int8"
    return model


def _config(settings: Mapping[str, Any], stored: Mapping[str, Tensor], file: Path) -> StudentConfig:
    for option, value in EXPECTED.items():
        if settings.get(option, value) != value:
            raise CapabilityError(
                f"{str(file)!r} is a Marian model with {option}: {settings[option]!r}, and those "
                f"with {value!r} are read: translators with a recurrent decoder (SSRU), as "
                "Firefox has them; of Marian's Transformers load the Hugging Face conversion"
            )
    try:
        (d_vocab, d_target), d_model = settings["dim-vocabs"], settings["dim-emb"]
        config = StudentConfig(
            d_vocab,
            d_model,
            settings["enc-depth"],
            settings["dec-depth"],
            settings["transformer-heads"],
            settings["transformer-dim-ffn"],
        )
        fits = d_vocab == d_target and d_model % config.n_heads == 0 == d_model % 2
        fits &= stored["Wemb"].shape == (d_vocab, d_model)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as broken:
        raise CorruptFileError(
            f"the settings in {str(file)!r} do not describe its model ({type(broken).__name__}: "
            f"{broken}); get the file again"
        ) from broken
    if not fits:
        raise CorruptFileError(
            f"the settings in {str(file)!r} say {config}, and its embedding is "
            f"{list(stored['Wemb'].shape)}; get the file again"
        )
    return config


ATTENTION: Final = {"self": "attn", "context": "cross_attn"}
"""Marian's names of attentions, and TransformerLens'."""


def _weights(
    stored: Mapping[str, Tensor], cfg: StudentConfig, file: Path
) -> list[tuple[str, Tensor]]:
    """Every weight by the name it has here, in its shape.

    Raises:
        CorruptFileError: one is missing, or is not read.
    """
    left = dict(stored)

    def take(name: str) -> Tensor:
        if name not in left:
            raise CorruptFileError(f"{str(file)!r} lacks {name!r}; get the file again")
        return left.pop(name)

    read = [("embed.W_E", take("Wemb")), ("b_U", take("decoder_ff_logit_out_b").flatten())]
    stacks = {"encoder": cfg.n_encoder_layers, "decoder": cfg.n_decoder_layers}
    for stack, depth in stacks.items():
        kinds = ["self"] if stack == "encoder" else ["context"]
        for layer in range(depth):
            marian, here = f"{stack}_l{layer + 1}", f"{stack}_blocks.{layer}"
            norms = []
            if stack == "decoder":
                for name, stored_name in (("W", "W"), ("W_f", "Wf"), ("b_f", "bf")):
                    weight = take(f"{marian}_rnn_{stored_name}")
                    read.append((f"{here}.rnn.{name}", weight.flatten() if "b" in name else weight))
                norms.append(f"{marian}_rnn_ffn_ln")
            for kind in kinds:
                attention = f"{here}.{ATTENTION[kind]}"
                for letter in "qkvo":
                    weight, bias = (take(f"{marian}_{kind}_{w}{letter}") for w in "Wb")
                    read += _of_heads(attention, letter.upper(), weight, bias, cfg.n_heads)
                norms.append(f"{marian}_{kind}_Wo_ln")
            for number, place in enumerate(("in", "out"), start=1):
                read.append((f"{here}.mlp.W_{place}", take(f"{marian}_ffn_W{number}")))
                read.append((f"{here}.mlp.b_{place}", take(f"{marian}_ffn_b{number}").flatten()))
            norms.append(f"{marian}_ffn_ffn_ln")
            for number, norm in enumerate(norms, start=1):
                read.append((f"{here}.ln{number}.w", take(f"{norm}_scale").flatten()))
                read.append((f"{here}.ln{number}.b", take(f"{norm}_bias").flatten()))
    if left:
        raise CorruptFileError(
            f"{str(file)!r} holds {min(left)!r} ({len(left)} such), which no layer of a student "
            "reads; get the file again"
        )
    return read


def _of_heads(
    attention: str, letter: str, weight: Tensor, bias: Tensor, n_heads: int
) -> list[tuple[str, Tensor]]:
    """A projection as TransformerLens has it, with an axis for heads."""
    if letter == "O":  # [head·d_head d_model] -> [head d_head d_model]
        parts = weight.unflatten(0, (n_heads, -1)), bias.flatten()
    else:  # [d_model head·d_head] -> [head d_model d_head], [1 head·d_head] -> [head d_head]
        parts = (
            weight.unflatten(1, (n_heads, -1)).transpose(0, 1),
            bias.flatten().unflatten(0, (n_heads, -1)),
        )
    return [(f"{attention}.{kind}_{letter}", part) for kind, part in zip("Wb", parts, strict=True)]
