"""CAP as a context manager: one intervention, on any call of the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import InterventionError, OptionError, PromptError, warn
from interp_compose.interventions.call_positions import collapsed
from interp_compose.interventions.pooling import (
    How,
    OwnPooling,
    PooledLayout,
    check_own_pooling,
    pool_groups,
    spread_groups,
)
from interp_compose.interventions.pooling_sweep import Mode
from interp_compose.interventions.select import (
    Groups,
    WordUnit,
    check_groups,
    check_to_edit,
    resolve_groups,
)
from interp_compose.models.block import Record, intervention
from interp_compose.models.layers import resolve_layer
from interp_compose.models.lens_model import LensModel
from interp_compose.models.recompute import recalled
from interp_compose.types import ForwardFn, Read

_ACTIVE: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()
"""By ``lens``, which several objects may wrap."""


@dataclass(repr=False)
class Pooled(Record):
    """What the intervention did so far.

    Attributes:
        calls: forward passes it acted in.
        n_affected: rows of the last call that hold a unit of several tokens; the others are
            unchanged by right.
        layout: the last call's layout: which position of the pooled sequence each token went to.
    """

    calls: int = 0
    n_affected: int = 0
    layout: PooledLayout | None = None

    def _counts(self) -> tuple[str, dict[str, object]]:
        return "pool_at", {"calls": self.calls, "rows of the last one changed": self.n_affected}


@public
@intervention
def pool_at(
    model: LensModel,
    layer: int,
    groups: Groups = None,
    how: How | OwnPooling = "mean",
    *,
    unit: WordUnit | None = None,
    mode: Mode = "collapse",
    renumber: bool = False,
) -> Iterator[Pooled]:
    """Pool each unit of the residual that enters block ``layer``, in every call of ``model``.

    ``pool_at(model, 2, "swine")`` pools the tokens of a word, ``pool_at(model, 2, unit="word")``
    those of each word.

    With ``mode="collapse"`` the call runs to ``layer``, pools, and runs on with one position per
    unit (CARMA, appendix C.1); it returns logits ``[batch unit d_vocab]`` (or hidden states
    ``[batch unit d_model]``, from ``model.encode``), right-aligned, so that ``logits[:, -1]`` is
    the prediction whatever side was padded. With ``"broadcast"`` every
    token gets its unit's vector and nothing is shortened. Your own hooks act in the same call,
    once each; in a collapse, those up to ``blocks.{layer}.hook_resid_pre`` see tokens, before
    they are pooled, and those above see units.

    In ``model.generate`` units are those of the prompt, and new tokens stay alone.

    Args:
        model: from :func:`load_model`.
        layer: 0 pools the embeddings; negative ones count from the end.
        groups: words of the texts that will be run ("swine", ["swine", "water body"]: each
            occurrence is a unit, and all other tokens stay alone), or the unit of each token of the
            calls to come, -1 for tokens that stay alone (BOS).
        how: ``"mean"``, ``"max"``, ``"sum"``, ``"last"`` or ``"first"``; or a function of your own,
            see :func:`pool_groups`.
        unit: in the place of groups, every word of the text is a unit, or every token with those
            that go on with it (:mod:`.text.units`). The last word is one as well: ``cap_curve``
            leaves the token of the last position apart.
        mode: ``"collapse"`` or ``"broadcast"``.
        renumber: rotary positions 0, 1, 2, … after a collapse, instead of each unit's last token's.

    Yields:
        A record: ``calls``, ``n_affected`` (rows of the last call that pooling can change), and the
        last call's ``layout``.

    Raises:
        LayerError, OptionError, InputError: on entering.
        PositionError, AlignmentError, SpanError: at a call, words that a text does not have, that
            cannot be found with certainty, or that overlap.
        CapabilityError: the model does not honour what this needs.
        PromptError: at a call, a collapse of a text longer than the window of local attention,
            which a shorter sequence would stretch.
        UserWarning: at the end, no call had a unit of several tokens, so that nothing was pooled.
        InterventionError: ``groups`` do not fit a call's tokens, ``"broadcast"`` changed nothing
            where it should have, or the ``with`` block ended without a call.
    """
    check_to_edit(model)
    layer = resolve_layer(layer, model.n_layers)
    check_groups(model, groups, unit)
    check_own_pooling(how, model)
    check_renumbered(model, mode, renumber)
    model.require(*needs(mode, renumber))
    record = Pooled()
    affected: list[int] = []

    def lay_out(tokens: Tensor, mask: Tensor) -> PooledLayout:
        units = resolve_groups(model, groups, unit, tokens, mask)
        longest = int(mask.sum(dim=1).max())
        if mode == "collapse" and model.window is not None and longest > model.window:
            raise PromptError(
                f"a text of {longest} tokens in a collapse, and {model.name!r} has layers that "
                f"look back {model.window} tokens, which the shorter sequence would stretch. Use "
                "mode='broadcast', or shorter texts."
            )
        on_cpu = PooledLayout.from_groups(units.cpu(), mask.cpu())
        layout = on_cpu.to(tokens.device)
        _refuse_mixed(layout, model.predicts(tokens))
        record.calls += 1
        record.layout, record.n_affected = layout, int(on_cpu.affected.sum())
        affected.append(record.n_affected)
        return layout

    def collapse(
        inner: ForwardFn,
        tokens: Int[Tensor, "batch pos"],
        mask: Int[Tensor, "batch pos"],
        read: Read,
    ) -> Float[Tensor, "batch _ width"]:
        # 1. All tokens up to the layer, under whatever hooks and masks act there.
        layout = lay_out(tokens, mask)
        resid = model.resid_pre(tokens, layer, attention_mask=mask)
        # 2. One position per unit, [batch group width], at the position of its last token.
        pooled = pool_groups(resid, layout.of_token, how, n_groups=layout.n_positions)
        positions = layout.positions(model.positions(tokens, mask))
        if renumber:
            positions = model.renumbered(positions, layout.mask)
        # 3. On from the layer; inside, positions that other interventions name mean units.
        with collapsed(model, layout):
            return model.resume(
                pooled,
                layer,
                attention_mask=layout.mask,
                position_ids=positions,
                read=read,
            )

    def note(
        inner: ForwardFn,
        tokens: Int[Tensor, "batch pos"],
        mask: Int[Tensor, "batch pos"],
        read: Read,
    ) -> Float[Tensor, "batch _ width"]:
        lay_out(tokens, mask)
        return inner(tokens, mask, read)

    def spread(resid: Float[Tensor, "batch pos width"], hook: Any) -> Tensor:
        # Under activation checkpointing a block runs again in the backward pass, when the record
        # may be of a later call: then the layout is that of the first computation.
        layout = recalled(lay_out, lambda: record.layout)
        assert layout is not None, "a call past the wrapper is refused"
        pooled = pool_groups(resid, layout.of_token, how, n_groups=layout.n_positions)
        out = spread_groups(pooled, layout.of_token, resid)
        check_changed(resid, out, layout, layer)
        return out

    name = f"pool_at(layer={layer}, mode={mode!r})"
    with _alone(model, mode):
        if mode == "collapse":
            with model.open_blocks.around(collapse, name):
                yield record
        else:
            with (
                model.hooks([(f"blocks.{layer}.hook_resid_pre", spread)]),
                # With the hook just installed, without which the wrapper alone pools nothing.
                model.open_blocks.around(note, name, model.open_blocks.installed[-1:]),
            ):
                yield record
    if record.calls == 0:
        raise InterventionError(
            f"pooling at layer {layer} did nothing: the model was never called inside the `with` "
            "block."
        )
    if not any(affected):
        warn(
            f"pooling at layer {layer} changed nothing: in all {record.calls} calls every unit was "
            "a single token. Make units of several tokens.",
        )


def check_renumbered(model: LensModel, mode: str, renumber: bool) -> None:
    """Refuse to renumber positions that stay, or that are part of the residual.

    Raises:
        OptionError: they are.
    """
    added = model.position_kind in ("standard", "sinusoidal")
    if renumber and (added or mode == "broadcast"):
        where = f"{model.name!r}, whose positions are part of the residual"
        subject = "mode='broadcast'" if mode == "broadcast" else where
        raise OptionError(f"renumber=True has no meaning for {subject}: leave it out")


def needs(mode: str, renumber: bool) -> tuple[str, ...]:
    """The capabilities that a way of pooling relies on."""
    if mode == "broadcast":
        return ("edit_resid",)
    return ("resume",) if renumber else ("resume", "positions")


@contextmanager
def _alone(model: LensModel, mode: str) -> Iterator[None]:
    """Broadcasts nest; a collapse changes the positions that another pooling's groups count."""
    active = _ACTIVE.setdefault(model.lens, [])
    if "collapse" in active or (mode == "collapse" and active):
        raise InterventionError(
            f"pool_at(mode={mode!r}) inside pool_at(mode={active[-1]!r}): a collapse changes the "
            "positions that the other's groups count. Nest broadcasts only."
        )
    active.append(mode)
    try:
        yield
    finally:
        active.remove(mode)


def _refuse_mixed(layout: PooledLayout, of_target: Bool[Tensor, "batch pos"]) -> None:
    """Refuse units of tokens that two stacks of an encoder–decoder read."""
    index, valid = layout.of_token.clamp(min=0), layout.of_token >= 0
    # [batch group]: tokens of the target in each unit
    count = torch.zeros_like(layout.mask).scatter_add_(1, index, (of_target & valid).long())
    mixed = ((count > 0) & (count < layout.sizes)).any(dim=1)
    if bool(mixed.any()):
        raise InterventionError(
            f"row {int(mixed.nonzero()[0])} has a unit of source and target tokens, which no stack "
            "reads together; end units where the source ends."
        )


def check_changed(
    before: Float[Tensor, "batch pos d_model"],
    after: Float[Tensor, "batch pos d_model"],
    layout: PooledLayout,
    layer: int,
) -> None:
    """Refuse a pooling that left every affected row as it was.

    Raises:
        InterventionError: there are rows with units of several tokens, and not one changed.
    """
    if bool(layout.affected.any()) and torch.equal(before, after):
        raise InterventionError(
            f"pooling at layer {layer} changed nothing, although {int(layout.affected.sum())} "
            "examples have units of several tokens: the residual is the same vector at every "
            "token of a unit. Check that the layer's input depends on the tokens."
        )
