"""What a block or a sublayer adds to the residual, ablated at chosen positions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from interp_compose._public import public
from interp_compose.errors import LayerError
from interp_compose.interventions.call_positions import CallPositions
from interp_compose.interventions.record import AblationRecord
from interp_compose.interventions.select import Positions, check_to_edit
from interp_compose.models.block import intervention
from interp_compose.models.layers import Layers, resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.types import HookFn, Side

Part = Literal["block", "attn", "cross_attn", "mlp"]


@public
@intervention
def mask_residual(
    model: LensModel,
    *,
    positions: Positions = None,
    layers: Layers = None,
    part: Part = "block",
) -> Iterator[AblationRecord]:
    """At ``positions``, blocks add nothing to the residual, in every call of ``model``.

    The tokens chosen pass the layers unchanged (``part="block"``: what leaves a block is what
    entered it, bit for bit), or without what the attention or the MLP adds. Other tokens still read
    from them; :func:`.mask_attention.mask_attention` is for that.

    Args:
        model: from :func:`load_model`.
        positions, layers: see :func:`.mask_attention.mask_attention`; None for all.
        part: ``"block"``, ``"attn"``, ``"mlp"`` or, in the decoder of an encoder–decoder, whose
            ``"attn"`` is its self-attention, ``"cross_attn"``.

    Yields:
        A record: ``calls``, and ``n_changed`` vectors.

    Raises:
        OptionError, LayerError: on entering; a part that none of the layers has, too.
        PositionError, AlignmentError, InputError: at a call, positions that it does not have.
        CapabilityError: the part is not a summand of the residual here. Blocks of BERT, RoBERTa
            and post-LN decoders normalise the sum: only ``part="block"`` can be ablated there.
        InterventionError: on leaving, the model was never called, or no number changed.
    """
    check_to_edit(model)
    call_positions = CallPositions(model, positions, "positions")
    chosen = resolve_layers(layers, model.n_layers)
    record = AblationRecord(f"mask_residual(part={part!r})")
    normalised = model.ends_in_norm and part == "block"
    model.require(*(() if normalised else ("drop_parts",)))

    def ablating(side: Side) -> HookFn:
        def ablate(out: Float[Tensor, "batch pos d_model"], hook: Any) -> Tensor:
            here = call_positions.flags_like(out, side)[:, :, None]  # [batch pos 1]
            return record.replaced(out, torch.zeros_like(out), here)

        return ablate

    # norm(x + 0) is not x: where blocks end in a norm, what entered is put back after it.
    with ExitStack() as keeping:
        hooks: list[tuple[str, HookFn]] = []
        for layer in chosen:
            if normalised:
                entered: list[Tensor] = []
                keeping.callback(_kept_at(model.hook_dict[model.entered(layer)], entered).remove)
                hooks.append(_restored(model, layer, entered, call_positions, record))
                continue
            ablate, names = ablating(model.side_of(layer)), model.sublayers(layer)
            hooks += [(names[name], ablate) for name in names if part in ("block", name)]
        if not hooks:
            raise LayerError(
                f"part={part!r}: none of the layers {chosen} of {model.name!r} has it."
            )
        keeping.enter_context(record.editing(model, hooks, call_positions))
        yield record


def _kept_at(point: nn.Module, entered: list[Tensor]) -> RemovableHandle:
    """What enters a block into ``entered``, at the hook point of its first sublayer's input: before
    that point's own hooks, which edit what the sublayer reads and not what the block passes on; and
    after all at hook_resid_pre, and after a collapse."""

    def keep(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        entered[:] = args  # by reference; what restores it drops it

    return point.register_forward_pre_hook(keep)


def _restored(
    model: LensModel,
    layer: int,
    entered: list[Tensor],
    call_positions: CallPositions,
    record: AblationRecord,
) -> tuple[str, HookFn]:
    """What entered the block leaves it; for blocks that end in a norm, and begin with none."""
    side = model.side_of(layer)

    def restore(resid: Float[Tensor, "batch pos d_model"], hook: Any) -> Tensor:
        here = call_positions.flags_like(resid, side)[:, :, None]  # [batch pos 1]
        return record.replaced(resid, entered.pop(), here)

    return f"{model.prefix(layer)}.hook_resid_post", restore
