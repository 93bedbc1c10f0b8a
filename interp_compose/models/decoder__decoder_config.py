"""The shape of a small decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from interp_compose._public import public
from interp_compose.errors import OptionError

Norm = Literal["pre", "post", "query"]
Act = Literal["gelu", "relu"]
Biases = Literal["all", "unembed"]

MOST_PARAMETERS: Final = 2**31


@public
@dataclass(frozen=True)
class DecoderConfig:
    """The shape of a small decoder; the default is the one of the phase diagram.

    Raises:
        OptionError: a size below 1, heads that do not divide ``d_model``, an unknown word.
    """

    d_vocab: int = 110
    n_ctx: int = 9
    n_layers: int = 2
    d_model: int = 64
    n_heads: int = 1
    d_mlp: int = 128
    d_head: int | None = None
    """None: ``d_model / n_heads``."""
    norm: Norm = "pre"
    """``"pre"``: LayerNorm before attention and MLP, and at the end (GPT-2). ``"post"``: after each
    sum, and none at the end (complexity control, eq. 6). ``"query"``: as ``"pre"``, but keys and
    values read the residual itself, as in that paper's released code."""
    act: Act = "gelu"
    biases: Biases = "all"
    """``"unembed"``: of the unembedding alone (LayerNorm keeps its own)."""

    positional_embedding_type: ClassVar[str] = "standard"

    def __post_init__(self) -> None:
        for name in ("d_vocab", "n_ctx", "n_layers", "d_model", "n_heads", "d_mlp", "d_head"):
            value = getattr(self, name)
            if name == "d_head" and value is None:
                continue
            if value < 1:
                raise OptionError(f"{name}={value!r}: expected a whole number, 1 or more")
        inside = self.n_layers * (4 * self.n_heads * (self.d_head or 1) + 2 * self.d_mlp)
        if self.d_model * (2 * self.d_vocab + self.n_ctx + inside) > MOST_PARAMETERS:
            raise OptionError(
                f"{self} would have more than {MOST_PARAMETERS} parameters: make it smaller"
            )
        if self.d_head is None and self.d_model % self.n_heads:
            raise OptionError(
                f"n_heads={self.n_heads} do not divide d_model={self.d_model}: give d_head"
            )

    @property
    def head_width(self) -> int:
        """``d_head``, given or not."""
        return self.d_model // self.n_heads if self.d_head is None else self.d_head
