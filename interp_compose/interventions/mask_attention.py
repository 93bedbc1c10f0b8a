"""Attention knockout: queries that cannot attend to keys (complexity control, section V, Fig. 4).

Two ways to knock out an edge, and the difference matters. The paper sets entries of the pattern to
zero, after the softmax. The key's score is then still in the softmax's denominator, so that its
information goes on scaling what all other keys get. With the score at its lowest before the softmax
the key is gone: nothing of it reaches the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import InterventionError
from interp_compose.interventions.call_positions import CallPositions
from interp_compose.interventions.select import (
    Heads,
    Positions,
    check_to_edit,
    resolve_heads,
)
from interp_compose.models.attention import AttentionSite
from interp_compose.models.block import Record, intervention
from interp_compose.models.layers import Layers, resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.models.recompute import recalled

MASKED_SCORE = torch.finfo(torch.float16).min / 2
"""Scores below this are masked by the model. Its masks are minus infinity or the lowest number of
a dtype, which may be narrower than the scores' own: a GPT-J in float16 has scores in float32 and
-65504 for its padding."""

Pairs = Callable[[Float[Tensor, "batch head query key"]], Bool[Tensor, "batch query key"]]


class EdgeKnockout:
    """One layer's :class:`~interp_compose.types.AttentionEdit`.

    Args:
        pairs: given the scores, which pairs to knock out.
        heads: in which heads; None for all.
        before_softmax: scores to the lowest number before the softmax, or the pattern to zero
            after it.

    Attributes:
        n_cut, n_emptied: of all calls, entries knocked out that the model would have used, and
            queries (per head) that lost their last key; tensors, so that nothing waits for a GPU.
    """

    def __init__(self, pairs: Pairs, *, heads: Sequence[int] | None, before_softmax: bool) -> None:
        self._pairs = pairs
        self._heads = heads
        self._before_softmax = before_softmax
        self._to_zero: Tensor | None = None
        self.n_cut: Tensor | int = 0
        self.n_emptied: Tensor | int = 0

    def scores(
        self, scores: Float[Tensor, "batch head query key"]
    ) -> Float[Tensor, "batch head query key"]:
        """The scores, so low at knocked-out pairs that the softmax gives exactly 0 there."""
        unmasked = scores > MASKED_SCORE  # [batch head query key]
        # [batch #head query key]
        knocked_out = self._in_heads(self._pairs(scores)[:, None], scores.shape[1])
        removed = unmasked & knocked_out  # [batch head query key]
        # [batch head query 1]: it had a key, and none is left
        emptied = removed.any(-1, keepdim=True) & ~(unmasked & ~knocked_out).any(-1, keepdim=True)
        self.n_cut = self.n_cut + removed.sum()
        self.n_emptied = self.n_emptied + emptied.sum()
        if not self._before_softmax:
            self._to_zero = knocked_out
            return scores
        # A row of lowest numbers alone would come out of the softmax as an even spread, over the
        # future and the padding as well.
        self._to_zero = emptied
        return scores.masked_fill(knocked_out, torch.finfo(scores.dtype).min)

    def pattern(
        self, pattern: Float[Tensor, "batch head query key"]
    ) -> Float[Tensor, "batch head query key"]:
        """The pattern, zero at edges knocked out after the softmax and where no key is left."""
        to_zero, self._to_zero = self._to_zero, None
        assert to_zero is not None, "a pattern belongs to the scores before it"
        return pattern.masked_fill(to_zero, 0.0)

    def _in_heads(
        self, pairs: Bool[Tensor, "batch one query key"], n_heads: int
    ) -> Bool[Tensor, "batch _ query key"]:
        if self._heads is None:
            return pairs
        chosen = torch.zeros(n_heads, dtype=torch.bool, device=pairs.device)
        chosen[list(self._heads)] = True
        return pairs & chosen[None, :, None, None]  # [batch head query key]


Mode = Literal["exclude", "zero"]


class KnockoutRecord(Record):
    """What a :func:`mask_attention` block did so far.

    Counts are of entries of attention patterns (one per layer, head, example, query and key).

    Attributes:
        calls: calls of the model, through its own surface.
    """

    def __init__(self, edits: dict[AttentionSite, EdgeKnockout]) -> None:
        self.calls = 0
        self._edits = edits

    def _counts(self) -> tuple[str, dict[str, object]]:
        emptied = "queries left without a key"
        return "mask_attention", {
            "calls": self.calls,
            "entries cut": self.n_cut,
            emptied: self.n_emptied,
        }

    @property
    def n_cut(self) -> int:
        """Entries knocked out that the causal mask or padding had not masked already."""
        return sum(int(edit.n_cut) for edit in self._edits.values())

    @property
    def n_emptied(self) -> int:
        """Queries (per layer and head) that lost their last key: they attend to nothing."""
        return sum(int(edit.n_emptied) for edit in self._edits.values())


@public
@intervention
def mask_attention(
    model: LensModel,
    *,
    keys: Positions = None,
    queries: Positions = None,
    layers: Layers = None,
    heads: Heads = None,
    mode: Mode = "exclude",
) -> Iterator[KnockoutRecord]:
    """Knock out the attention from ``queries`` to ``keys``, in every call of ``model``.

    ``mode="exclude"`` takes the scores out *before* the softmax: the other keys share the whole
    weight, and with every path from a token knocked out, replacing it changes nothing, exactly. A
    query
    left without any key attends to nothing, never to the future: its pattern is zero and its head
    adds nothing (of the attention's output only the bias ``b_O`` remains). ``mode="zero"`` is the
    paper's: entries are set to zero *after* the softmax and the rest is not scaled up; the key's
    score still shapes what the others get, see :func:`.leak.attention_leak`.

    Blocks nest, and combine with :func:`.ablate.ablate`, :func:`.mask_residual.mask_residual`,
    :func:`.pool_at.pool_at` and your own hooks; above a collapse, positions mean the units that
    hold them. In ``model.generate`` numbers, tensors and words are those of the prompt, and tokens
    that are generated are queries where ``queries`` is None, keys where ``keys`` is None. So they
    are in ``model.lens.generate`` with a key–value cache, but for words. Without one
    (TransformerLens' own small decoder never has one) every token is a call on all tokens so far,
    of which ``model.lens`` does not know the prompt: numbers count from the start, and negative
    ones and tensors are refused.

    In an encoder–decoder, positions are those of the joint sequence, and so edges say which
    attention they belong to: from source to source, self-attention of the encoder's layers; in the
    decoder's layers from target to target self-attention, from target to source cross-attention.
    Where the decoder is recurrent, target tokens are refused as keys.

    Args:
        model: from :func:`load_model`.
        keys, queries: numbers (negative ones count from the end, and padding counts), a boolean
            tensor ``[batch pos]``, words of the text ("cat": every occurrence), or None for all.
        layers: numbers or depths; None for all.
        heads: numbers that hold in each layer, or (layer, head) pairs; None for all.
        mode: ``"exclude"`` or ``"zero"``.

    Yields:
        A record: ``calls``, ``n_cut`` entries of patterns, and ``n_emptied`` queries.

    Raises:
        OptionError, LayerError, HeadError: on entering.
        PositionError, AlignmentError, InputError: at a call, positions that it does not have.
        CapabilityError: a probe shows that the model's attention cannot be reached.
        InterventionError: on leaving, the model was never called, or queries and keys were chosen
            and every pair of them was masked already; at a call past the model's own surface,
            positions that cannot be counted.
    """
    check_to_edit(model)
    pairs = _Pairs(model, keys, queries)
    by_layer = resolve_heads(
        heads, resolve_layers(layers, model.n_layers), model.n_layers, model.n_heads
    )
    model.require("mask_attention")
    edits = {
        site: EdgeKnockout(
            partial(pairs.of_site, site),
            heads=None if len(chosen) == model.n_heads else chosen,
            before_softmax=mode == "exclude",
        )
        for layer, chosen in by_layer.items()
        for site in model.attention_sites(layer)
    }
    record = KnockoutRecord(edits)

    @contextmanager
    def prepare(tokens: Tensor, mask: Tensor) -> Iterator[None]:
        record.calls += 1
        with pairs.of_call(tokens, mask):
            yield

    with (
        pairs.counting(),
        model.open_blocks.preparing(prepare, "mask_attention"),
        model.editing_attention(edits),
    ):
        yield record
    if pairs.chosen and record.n_cut == 0:
        raise InterventionError(
            f"mask_attention(keys={_short(keys)}, queries={_short(queries)}) knocked out "
            "nothing: none of these queries attends to any of these keys. A causal model's queries "
            "attend to keys at their own position and before, and another block may have knocked "
            "them out already."
        )


class _Pairs:
    """Which edges, from queries to keys, are knocked out in the call that is running."""

    def __init__(self, model: LensModel, keys: Positions, queries: Positions) -> None:
        self._model = model
        self._keys = CallPositions(model, keys, "keys")
        self._queries = CallPositions(model, queries, "queries")
        self._cached: dict[AttentionSite, int] = {}  # positions in a cache after its last call
        self.chosen = False
        """Whether any call so far had both queries and keys."""

    @contextmanager
    def counting(self) -> Iterator[None]:
        """See :meth:`.CallPositions.counting`."""
        with self._keys.counting(), self._queries.counting():
            yield

    @contextmanager
    def of_call(self, tokens: Tensor, mask: Tensor) -> Iterator[None]:
        """Both sides' positions are found in the tokens of a call, for as long as it runs."""
        with (
            self._keys.of_call(tokens, mask) as keys,
            self._queries.of_call(tokens, mask) as queries,
        ):
            if self._model.recurrent_target and self._keys.positions is not None:
                _refuse_targets(self._model, tokens, keys)
            self.chosen |= bool((keys.any(dim=1) & queries.any(dim=1)).any())
            yield

    def of_site(
        self, site: AttentionSite, scores: Float[Tensor, "batch head query key"]
    ) -> Bool[Tensor, "batch query key"]:
        """True where the edge from a query to a key is knocked out in one attention."""
        return recalled((self, site, scores.shape), lambda: self._looked_up(site, scores))

    def _looked_up(self, site: AttentionSite, scores: Tensor) -> Bool[Tensor, "batch query key"]:
        batch, _, n_queries, n_keys = scores.shape
        n_extra, device = n_keys - n_queries, scores.device
        if self._keys.in_call:  # extra: a sink, a column of the softmax that is no position
            n_pos = n_queries if site.keys == site.queries else n_keys
            keys = self._keys.flags(batch, n_pos, device, side=site.keys)  # [batch pos]
            keys = torch.nn.functional.pad(keys, (0, n_keys - n_pos), value=False)  # [batch key]
            # [batch query]
            queries = self._queries.flags(batch, n_queries, device, side=site.queries)
        else:  # extra: positions in a cache
            if site.queries is not None:
                raise InterventionError(
                    "mask_attention acts on calls of the model, and the wrapped encoder–decoder "
                    "was called directly; call the model that load_model returned: model(…) or "
                    "model.generate(…)."
                )
            n_before = self._cached.get(site, n_extra)
            if n_extra and n_extra != n_before:
                raise InterventionError(
                    f"the cache of layer {site} held {n_before} positions and now holds {n_extra}, "
                    "as local attention drops old ones, so that they cannot be counted; call "
                    "model.generate(…)."
                )
            for one in (self._keys, self._queries):
                if n_extra and n_queries > 1 and one.from_the_end:
                    raise InterventionError(
                        f"{one.name}={one.positions!r} count from the end, and the wrapped model "
                        "goes on by several tokens at once from a cache: a prompt in chunks, or "
                        "drafts of assisted generation. Count from the start, or call "
                        "model.generate(…)."
                    )
            self._cached[site] = n_keys
            fresh = n_extra == 0  # nothing cached: this call is the prompt
            keys = self._keys.flags(batch, n_keys, device, fresh=fresh)  # [batch key]
            queries = self._queries.flags(batch, n_queries, device, start=n_extra, fresh=fresh)
            self.chosen |= bool((keys.any(dim=1) & queries.any(dim=1)).any())
        return queries[:, :, None] & keys[:, None, :]  # [batch query key]


def _refuse_targets(
    model: LensModel, tokens: Int[Tensor, "batch pos"], keys: Bool[Tensor, "batch pos"]
) -> None:
    """Target tokens that later ones read without attention."""
    chosen = keys & (tokens >= model.d_vocab_source)
    if bool(chosen.any()):
        position = int(chosen.any(dim=0).nonzero()[0])
        raise InterventionError(
            f"keys hold position {position}, a target token: the decoder of {model.name!r} reads "
            "earlier target tokens in a recurrent unit and not by attention, so that knocking "
            "attention out would not keep it from later ones. Name source tokens as keys."
        )


def _short(positions: Positions) -> str:
    if isinstance(positions, Tensor):
        return f"a tensor {list(positions.shape)}"
    return repr(positions)[:60]
