"""What is proven of a model: which capabilities it has, which hook points keep to their names, at
which an edit acts, and whether padding leaves real tokens alone. Each is found once, on a few
tokens, when it is first needed."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose.errors import CapabilityError
from interp_compose.models.activations import read_at
from interp_compose.models.base import BaseModel
from interp_compose.models.capabilities import (
    COPY_ACTS,
    Capabilities,
    Probe,
    prove_capabilities,
    prove_edits,
)
from interp_compose.models.shown import READ_INSTEAD, shown_otherwise


class Proofs:
    """What was found of a model so far.

    Attributes:
        edits: by hook point, what a random edit there does, and a copy.
    """

    def __init__(self, model: BaseModel) -> None:
        self._model = model
        self.edits: dict[str, Probe] = {}
        self._capabilities = Capabilities(prove=self._prove)
        self._shown: dict[str, str] | None = None
        self._padding_holds: dict[tuple[torch.dtype, bool], bool] = {}  # and whether by autocast
        self.scores_are_finite = False  # a block of finite_scores is open
        self._d_mlp: int | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What probes of a few tokens find, each when it is first asked for."""
        return self._capabilities

    def _prove(self, names: Collection[str]) -> Mapping[str, Probe]:
        with self._model.bare():
            return prove_capabilities(self._model, names)

    def take_over(self, capabilities: Capabilities | None) -> None:
        """What was and will be found on models of the same class and config, whose weights alone
        differ; None to find it again."""
        found = None if capabilities is None else capabilities.found
        self._capabilities = Capabilities(found, self._prove)

    def prove_edits(self, names: Sequence[str]) -> None:
        """Refuse edits at hook points that show a copy, or that nothing reads afterwards.

        Raises:
            CapabilityError: a random edit there moves no output, or one that changes nothing does.
        """
        architecture = self._model.architecture
        self._try(names)
        for name in names:
            if field(name).startswith("hook_resid_mid") and not self._reaches_residual(name):
                raise CapabilityError(
                    f"{architecture}: an edit at {name!r} reaches what the next sublayer reads "
                    "alone, and passes the residual itself by, on a few tokens. Edit "
                    "hook_attn_out, or hook_resid_pre of the next layer."
                )
            if COPY_ACTS in self.edits[name].detail:
                raise CapabilityError(
                    f"{architecture} does not compute with what it shows at {name!r}: "
                    f"{self.edits[name].detail}, on a few tokens. Edit what enters or leaves the "
                    "module instead."
                )
            if not self.edits[name].held:
                raise CapabilityError(
                    f"{architecture} discards edits at {name!r}: a random edit there, on a "
                    f"few tokens, left the output as it was ({self.edits[name].detail}): nothing "
                    "reads what the hook returns, or the weights behind it are zero. Edit "
                    "hook_attn_out or hook_mlp_out, or use mask_attention for attention patterns."
                )

    def prove_shown(self, names: Iterable[str]) -> None:
        """Refuse to read hook points that show something else than they are named for.

        Raises:
            CapabilityError: what is not true of a hook point, and what shows as much.
        """
        for name, wrong in self.shown_otherwise(names).items():
            raise CapabilityError(
                f"{self._model.architecture} shows at {name!r} something else than the name says, "
                f"on a few tokens ({wrong}). Read instead: {instead_of(name)}."
            )

    def shown_otherwise(self, names: Iterable[str]) -> dict[str, str]:
        """Those of ``names`` that show something else than they say: what is not true of them."""
        model = self._model
        named = [name for name in names if name in model.hook_dict and field(name) in READ_INSTEAD]
        if model.is_proving or model.keeps_to_names or not named:
            return {}
        # 1. All hook points in one call, once; by point, since a point may have several names.
        if self._shown is None:
            generator = torch.Generator().manual_seed(0)
            tokens = model.random_tokens(2, min(7, model.n_ctx), generator).to(model.device)
            with model.bare():
                by_point = shown_otherwise(model, tokens)
            keys = {name: (id(point), field(name)) for name, point in model.hook_dict.items()}
            self._shown = {name: by_point[key] for name, key in keys.items() if key in by_point}
        # 2. Norms compute otherwise as soon as a hook returns a tensor: there a copy tells.
        of_norms = [name for name in named if field(name) in ("hook_normalized", "hook_scale")]
        self._try(of_norms)
        copied = {name: self.edits[name].detail for name in of_norms}
        wrong = self._shown | {name: one for name, one in copied.items() if COPY_ACTS in one}
        return {name: wrong[name] for name in named if name in wrong}

    def _reaches_residual(self, name: str) -> bool:
        """Whether nothing but the MLP's output leaves a block whose residual is set to 0 there."""
        model, prefix = self._model, name.rpartition(".")[0]
        if model.keeps_to_names or model.ends_in_norm or name not in model.hook_names:
            return True
        generator = torch.Generator().manual_seed(0)
        tokens = model.random_tokens(1, min(4, model.n_ctx), generator).to(model.device)
        shown = [f"{prefix}.hook_resid_post", f"{prefix}.hook_mlp_out"]
        # With the residual 0 in the middle, hook_resid_post = 0 + hook_mlp_out, but for rounding;
        # where only the next sublayer reads what the hook returns, the residual is still in it.
        zeros = [(name, lambda resid, hook: torch.zeros_like(resid))]
        with model.bare(), model.open_blocks.hooked(zeros):
            post, mlp_out = read_at(model, tokens, shown, read="hidden")[1].values()
        remainder = (post - mlp_out).float().abs().max()
        return float(remainder) <= 0.05 * float(post.float().std() + mlp_out.float().std())

    def _try(self, names: Sequence[str]) -> None:
        """Prove edits at each of ``names`` that was not tried before."""
        new = [name for name in names if name not in self.edits]
        if new:
            with self._model.bare(), warnings.catch_warnings():
                # TransformerLens warns whoever edits a norm's scale; the probe is not the user.
                warnings.filterwarnings("ignore", message="A forward hook edited hook_scale")
                self.edits |= prove_edits(self._model, new)

    def check_padding(self, mask: Int[Tensor, "batch pos"]) -> None:
        """Refuse padding where it makes NaN of real tokens: in float64, and under autocast.

        transformers' eager attention takes its softmax in float32 on many architectures, where the
        lowest float64, which it puts at masked keys, is minus infinity; as is the lowest float32
        where autocast makes bfloat16 of scores. Padding on the left then attends to nothing but
        minus infinity.

        Raises:
            CapabilityError: it does.
        """
        model, kind = self._model, self._model.device.type
        cast = torch.is_autocast_enabled(kind) and not self.scores_are_finite
        dtype = torch.get_autocast_dtype(kind) if cast else model.dtype
        if (not cast and dtype != torch.float64) or model.is_proving:
            return
        if bool((mask if len(model.stacks) > 1 else mask[:, 0]).all()):
            return  # nothing is padded on the left
        if (dtype, cast) not in self._padding_holds:
            length = min(3, model.n_ctx)
            tokens = model.random_tokens(1, length, torch.Generator().manual_seed(0))
            # One token of padding on the left is enough for a query that sees no real key.
            padded = torch.ones_like(tokens)
            padded[0, 0] = 0
            with torch.no_grad(), model.bare(), torch.autocast(kind, dtype, enabled=cast):
                at = model.device
                hidden = model.forward(tokens.to(at), attention_mask=padded.to(at), read="hidden")
            self._padding_holds[dtype, cast] = bool(hidden[:, 1:].isfinite().all())
        if self._padding_holds[dtype, cast]:
            return
        name = str(dtype).removeprefix("torch.")
        remedy = "leave that block, load the model with dtype=…" if cast else "load it in float32"
        raise CapabilityError(
            f"{model.architecture} in {name}{' by torch.autocast' * cast} makes NaN of batches "
            "padded on the left: its mask's lowest number is minus infinity where the softmax is "
            f"taken. Run texts of one length at a time, or {remedy}."
        )

    def n_neurons(self) -> int:
        """Neurons of the first layer's MLP; measured once on two tokens, at ``mlp.hook_post``.

        Raises:
            CapabilityError: there is no layer of neurons: in a mixture of experts ``hook_post`` is
                the MLP's output.
        """
        if self._d_mlp is None:
            model = self._model
            name, out = f"{model.prefix(0)}.mlp.hook_post", model.sublayers(0)["mlp"]
            generator = torch.Generator().manual_seed(0)
            tokens = model.random_tokens(1, min(2, model.n_ctx), generator).to(model.device)
            with model.bare():
                _, store = read_at(model, tokens, [name, out], read="hidden")
            if store[name].shape == store[out].shape and torch.equal(store[name], store[out]):
                raise CapabilityError(
                    f"{model.architecture} shows its MLP's output at mlp.hook_post, as mixtures of "
                    "experts do, so that it has no neurons to name; ablate the MLP at chosen "
                    "positions with mask_residual(part='mlp')."
                )
            self._d_mlp = int(store[name].shape[-1])
        return self._d_mlp


def field(name: str) -> str:
    """What a hook point is named for, without its place."""
    return name.rpartition(".")[2]


def instead_of(name: str) -> str:
    """What shows what a hook point does not."""
    return READ_INSTEAD[field(name)]
