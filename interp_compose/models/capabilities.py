"""Proof, on a few random tokens, of what a model honours.

A wrapper can ignore a request silently: on BERT, TransformerLens' bridge drops
``start_at_layer`` and returns the logits of another computation. So nothing is assumed: before
an intervention relies on a capability, these probes compare it with the plain forward pass.
On a few tokens a pass of a real model costs nearly what it costs on a batch, so that a probe runs
when its capability is first needed, and calls that two probes compare with are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.errors import (
    CapabilityError,
    InterpComposeError,
    InterventionError,
    NonFiniteError,
    OptionError,
    first_line,
)
from interp_compose.models.activations import read_at
from interp_compose.models.attention import AttentionSite
from interp_compose.models.base import BaseModel
from interp_compose.models.outcomes import Outcome, Status
from interp_compose.models.prefix import Prefix
from interp_compose.types import HookFn, Read

MEANING = {
    "forward": "a call with mask and positions, padded or not, equals the model's plain call",
    "causal": "a token changes no logits at positions before it",
    "resume": "resuming from a captured residual reproduces the full forward pass",
    "positions": "a shortened sequence with explicit positions equals the masked full one",
    "prefix": "a sequence that goes on from the clean run's keys and values equals the whole one",
    "hidden": "the last hidden state, resumed or not, equals the model's own",
    "unembed": "logits from the last residual equal the model's own",
    "edit_resid": "an edit of blocks.0.hook_resid_pre changes the output",
    "edit_pattern": "an edit of attn.hook_pattern changes the output",
    "edit_scores": "an edit of attn.hook_attn_scores changes the output",
    "edit_z": "an edit of attn.hook_z changes the output",
    "edit_post": "an edit of mlp.hook_post changes the output",
    "drop_parts": "a block whose attention and MLP are ablated returns what entered it",
    "mask_attention": "a token to which attention is knocked out in every layer has no effect on "
    "the other tokens, and has one where a layer is left out",
}
INSTEAD = {
    "forward": "nothing that relies on these calls; use model.lens directly",
    "causal": "encode(), or your own hooks: tokens attend to later ones",
    "resume": "pool one layer at a time by hooks: pool_at(..., mode='broadcast')",
    "positions": "cap_curve or pool_at with mode='broadcast', which keeps the length, or "
    "with renumber=True",
    "prefix": "the same calls, on whole sequences",
    "hidden": "capture blocks.<k>.hook_resid_post, or read logits",
    "unembed": "read logits from a full forward pass",
    "edit_resid": "load the model as a Hugging Face decoder that TransformerLens supports",
    "edit_pattern": "edit the residual or the attention output (attn.hook_out) instead",
    "edit_scores": "edit attn.hook_pattern where that holds, or the attention output",
    "edit_z": "mask_attention, or an edit of the attention output (hook_attn_out)",
    "edit_post": "an edit of the MLP's output (hook_mlp_out)",
    "drop_parts": "mask_residual(part='block'), or ablate heads and neurons",
    "mask_attention": "load the model with eager attention, or ablate heads at attn.hook_z",
}
COPY_ACTS: Final = "a copy of the activation moves the output"
"""The detail of a probe says so of edits that do not act on what the hook point shows."""
DISCARDS: Final = "TransformerLens discards this edit"
"""The refusal of an edit says so where TransformerLens announces, by a warning, to discard it."""


@dataclass(frozen=True)
class Probe:
    """One probe's outcome: ``held``, and the figure that decided it; ``refused`` where the model
    raised an error, ``applies`` off where a model of its kind does not claim it. Of ``prefix``,
    ``short_end``: the last block may be run to its end at the positions that are read alone."""

    held: bool
    detail: str
    refused: bool = False
    applies: bool = True
    short_end: bool = False

    def outcome(self, *, of_edit: bool) -> Outcome:
        """The status that an audit gives it: numbers that ran and are others are wrong, though the
        library refuses by name what relies on them."""
        status: Status = "discarded" if of_edit else "wrong"
        if self.held or not self.applies:
            status = "holds" if self.applies else "not tried"
        elif COPY_ACTS in self.detail:
            status = "wrong"
        elif self.refused and DISCARDS not in self.detail:
            status = "refused"
        return Outcome(status, self.detail)


LATER_TOKENS: Final = Probe(False, "tokens attend to later ones", applies=False)
ALIBI: Final = Probe(
    False, "ALiBi measures distances in the sequence that it is given", applies=False
)


STREAMS: Final = frozenset({"resume", "positions", "prefix"})
"""What streams that leave the clean run rely on; proven together, since each of these probes
compares with what another has run."""


class Capabilities:
    """Outcomes by name, each proven when it is first asked for (:data:`MEANING`: what each means).

    Args:
        found: what was proven before; outcomes that follow are added to it.
        prove: proves what is missing.
    """

    def __init__(
        self,
        found: dict[str, Probe] | None = None,
        prove: Callable[[Collection[str]], Mapping[str, Probe]] = lambda names: {},
    ) -> None:
        self.found = {} if found is None else found
        self._prove = prove

    def __getitem__(self, name: str) -> Probe:
        return self.proven([name])[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Capabilities) and self.probes == other.probes

    __hash__ = None  # type: ignore[assignment]

    @property
    def probes(self) -> dict[str, Probe]:
        """The outcomes of all probes."""
        return self.proven(MEANING)

    def proven(self, names: Collection[str]) -> dict[str, Probe]:
        """Outcomes, those of ``names`` among them.

        Raises:
            OptionError: an unknown name.
        """
        missing = set(names) - self.found.keys()
        for name in missing - MEANING.keys():
            raise OptionError(f"unknown capability {name!r}: expected one of {', '.join(MEANING)}")
        if missing:
            if missing & STREAMS:
                missing |= STREAMS - self.found.keys()
            self.found.update(self._prove([name for name in MEANING if name in missing]))
        return self.found

    def check(self, names: Sequence[str], architecture: str) -> None:
        """Raise CapabilityError on the first of ``names`` that did not hold."""
        needed = ("forward", *names)
        probes = self.proven(needed)
        for name in needed:
            if not probes[name].held:
                raise CapabilityError(
                    f"{architecture} cannot do {name!r}: a probe of a few tokens found that it "
                    f"is not true that {MEANING[name]} ({probes[name].detail}). "
                    f"What works instead: {INSTEAD[name]}."
                )


def prove_capabilities(
    model: BaseModel, names: Collection[str] = tuple(MEANING)
) -> dict[str, Probe]:
    """Run the probes of ``names``. Two rows of seven random tokens, the second left-padded by two.

    Raises:
        NonFiniteError: NaN or infinite numbers on these tokens.
    """
    with torch.no_grad():
        probes = _outcome(lambda: _Probes(model))
        if isinstance(probes, Probe):
            _check_finite(model)
            return dict.fromkeys(names, probes)
        if not bool(probes.clean[probes.has_output].isfinite().all()):
            _check_finite(model)  # or the call with mask and positions alone is broken
        return {name: _outcome(getattr(probes, name)) for name in names}


def _check_finite(model: BaseModel) -> None:
    tokens = _some_tokens(model)
    plain = (
        model.plain_hidden(tokens)
        if model.bidirectional
        else model.plain(tokens)[model.predicts(tokens)]
    )
    if not bool(plain.isfinite().all()):
        raise NonFiniteError(
            f"{model.name!r} gives NaN or infinite numbers on plain tokens: its weights are "
            "broken, or too large for its dtype. Load it in float32, and check its weights."
        )


@torch.no_grad()
def prove_edits(
    model: BaseModel, names: Sequence[str], *, step: Callable[[], object] = lambda: None
) -> dict[str, Probe]:
    """By hook point, whether a random edit there changes what the model returns; ``step`` is
    called after each.

    An edit that cannot be tried on the probe's tokens (an expert that none of them is sent to)
    counts as held.
    """
    probes, outcomes = _Probes(model), {}
    for name in names:
        outcomes[name] = _outcome(partial(probes.edit_anywhere, name))
        step()
    return outcomes


def _some_tokens(model: BaseModel) -> Int[Tensor, "batch pos"]:
    return model.random_tokens(2, 7, torch.Generator().manual_seed(0)).to(model.device)


def _outcome(probe: Callable[[], Any]) -> Any:
    """What ``probe`` returns, or a Probe that did not hold where the model refuses the request."""
    try:
        return probe()
    except (
        InterpComposeError,
        RuntimeError,
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
        IndexError,
    ) as refusal:  # whatever a wrapper throws at a request it does not know
        return Probe(False, f"{type(refusal).__name__}: {first_line(refusal)}", refused=True)


class _Probes:
    """Tokens, their clean residuals, and what the model returns for them (logits, or an encoder's
    last hidden state); one method per capability."""

    def __init__(self, model: BaseModel) -> None:
        self.model = model
        self.tokens = _some_tokens(model)
        self.mask = torch.ones_like(self.tokens)
        self.mask[1, :2] = 0
        self.position_ids = model.positions(self.tokens, self.mask)
        self.two_stacks = len(model.stacks) > 1  # four source tokens, three target tokens
        self.names = [f"blocks.{k}.hook_resid_pre" for k in range(model.n_layers)]
        self.read: Read = "hidden" if model.bidirectional else "logits"
        self.clean, self.resid = read_at(
            model, self.tokens, self.names, attention_mask=self.mask, read=self.read
        )
        self.has_output = self._real(self.read)  # [batch pos]
        # What rounding may change, in standard deviations of the logits.
        self.tolerance = 1e-3 if model.dtype == torch.float32 else 0.1

    @cached_property
    def noise(self) -> float:
        """How far the output moves when nothing is changed: the same call twice."""
        again = self.model.forward(self.tokens, attention_mask=self.mask, read=self.read)
        return _distance(again, self.clean, self.has_output)

    def forward(self) -> Probe:
        return self._unpadded(self.clean, self.read)

    def causal(self) -> Probe:
        if self.model.bidirectional:
            return LATER_TOKENS
        other = torch.cat([self.tokens[:, :-1], self.model.shifted(self.tokens, 1)[:, -1:]], dim=1)
        outputs = self.model.forward(other, attention_mask=self.mask, read=self.read)
        # [batch pos]: every position that has an output, but for the last
        before = self.has_output.clone()
        before[:, -1] = False
        change = _distance(outputs, self.clean, before)
        return Probe(
            self._is_rounding(change), f"the last token moves those before by {change:.1e}"
        )

    def hidden(self) -> Probe:
        hidden = self.model.forward(self.tokens, attention_mask=self.mask, read="hidden")
        middle = self.model.n_layers // 2
        valid = self.mask.bool()
        resumed = self._resumed(middle, "hidden")
        error = _spread_distance(resumed[valid], hidden[valid])
        if error > self.tolerance:
            return Probe(False, f"relative error {error:.1e} when resumed at layer {middle}")
        return self._unpadded(hidden, "hidden")

    def _real(self, read: Read) -> Bool[Tensor, "batch pos"]:
        """True at real tokens that ``read`` gives a number for."""
        real = self.mask.bool()
        return real if read == "hidden" else real & self.model.predicts(self.tokens)

    def _unpadded(self, outputs: Float[Tensor, "batch pos width"], read: Read) -> Probe:
        """``outputs``, computed with mask and positions, against plain calls on single rows."""
        plain = self.model.plain_hidden if read == "hidden" else self.model.plain
        real, errors = self._real(read), []
        # Row 0 has no padding, row 1 begins at its third token.
        for row, first in enumerate((0, 2)):
            alone = plain(self.tokens[row : row + 1, first:])[0, real[row, first:]]
            errors.append(_spread_distance(outputs[row, real[row]], alone))
        return Probe(max(errors) <= self.tolerance, f"relative error {max(errors):.1e}")

    def _is_rounding(self, change: float) -> bool:
        """Whether what should not have changed did not: exactly 0 but for mixtures of experts,
        where which tokens an expert gets changes its rounding."""
        rounding = 1e-4 if self.model.dtype == torch.float32 else 1e-2
        return change <= rounding * float(self.clean[self.has_output].float().std())

    def _resumed(
        self,
        layer: int,
        read: Read,
        *,
        mask: Int[Tensor, "batch pos"] | None = None,
        keep: slice | list[int] = slice(None),
    ) -> Float[Tensor, "batch _ width"]:
        """Run from the clean residual that enters ``layer``, at the positions to ``keep``."""
        mask = self.mask if mask is None else mask
        return self.model.resume(
            self.resid[self.names[layer]][:, keep].contiguous(),
            layer,
            attention_mask=mask[:, keep],
            position_ids=self.position_ids[:, keep],
            read=read,
        )

    @property
    def _read_last(self) -> Read:
        return "hidden" if self.model.bidirectional else "last"

    def resume(self) -> Probe:
        return self._resumes

    @cached_property  # two probes ask for it
    def _resumes(self) -> Probe:
        # 1. Each stack's first and last layer, and the middle: the last position, run from there.
        ends = {end for stack in self.model.stacks for end in (stack[0], stack[-1])}
        middle, last_layer = self.model.n_layers // 2, self.model.n_layers - 1
        layers = sorted(ends | {middle})
        valid = self.mask.bool()
        worst = 0.0
        for layer in layers:
            last = self._resumed(layer, self._read_last)
            worst = max(worst, _spread_distance(last[:, -1], self.clean[:, -1]))
        # 2. What enters a layer, run without anything above it.
        for layer in layers if self.two_stacks else sorted({0, middle}):
            entering = self.model.resid_pre(self.tokens, layer, attention_mask=self.mask)
            captured = self.resid[self.names[layer]]
            worst = max(worst, _spread_distance(_at(entering, valid), _at(captured, valid)))
        stop = last_layer if self.two_stacks else middle
        if stop > 0:
            # 3. From the first layer on, without reading the output: to the last, through both
            # stacks, or to the middle of one, which 1. has run from its first layer to its end.
            stepped = self.model.run_blocks(
                self.resid[self.names[0]],
                0,
                stop,
                attention_mask=self.mask,
                position_ids=self.position_ids,
            )
            resid = self.resid[self.names[stop]]
            worst = max(worst, _spread_distance(_at(stepped, valid), _at(resid, valid)))
        return Probe(worst <= self.tolerance, f"relative error {worst:.1e} at layers {layers}")

    @cached_property  # two probes of a decoder compare with it
    def _short(self) -> Float[Tensor, "batch _ width"]:
        """Run from layer 0 without one position (of two stacks, without one of each); those that
        stay keep the numbers that they had."""
        keep = [position for position in range(7) if position not in self._gone]
        return self._resumed(0, self._read_last, keep=keep)

    @property
    def _gone(self) -> list[int]:
        """Positions that leave the sequence."""
        if self.model.recurrent_target:
            return [2]  # every target token is read, and no mask keeps it from later ones
        return [2, 5] if self.two_stacks else [3]

    def positions(self) -> Probe:
        if self.model.position_kind == "alibi":
            # Both sides of the comparison below would compute distances anew, and agree.
            return ALIBI
        # The whole sequence, in which nothing attends to the positions that are gone.
        if self.two_stacks:  # a mask would take them out of its stacks' own sequences as well
            with self._masked(self._gone, range(self.model.n_layers)):
                full = self._resumed(0, self._read_last)
        else:
            hole = self.mask.clone()
            hole[:, self._gone] = 0
            full = self._resumed(0, self._read_last, mask=hole)
        short = self._short
        if not self._resumes.held:
            return self._resumes  # two wrong results may well agree
        error = _spread_distance(short[:, -1], full[:, -1])
        return Probe(error <= self.tolerance, f"relative error {error:.1e}")

    def prefix(self) -> Probe:
        """Streams from the third token on, one token missing before them, against whole ones."""
        if self.model.bidirectional:
            return LATER_TOKENS
        if not self._resumes.held:
            return self._resumes
        # 1. Keys and values of the clean run, of which a stream reads positions 0 … 2.
        with self.model.keeping() as kept:
            self.model.forward(self.tokens, attention_mask=self.mask, read="last")
        prefix_mask = self.mask[:, :4].clone()
        prefix_mask[:, 3] = 0  # as if it belonged to the streams' first position
        # Each stream continues its own row.
        rows = torch.arange(len(self.tokens), device=self.tokens.device)
        prefix, errors = Prefix(kept(), rows, 0, prefix_mask), []
        # 2. The streams' three positions after the prefix, against all six at once: through all
        # blocks, and from the last one on, whose keys and values are not the first of those kept.
        for layer in sorted({0, self.model.n_layers - 1}):
            streams = self.resid[self.names[layer]]
            keep = [0, 1, 2, 4, 5, 6]
            whole = self._short if layer == 0 else self._resumed(layer, "last", keep=keep)
            ids: Any = {
                "attention_mask": self.mask[:, 4:],
                "position_ids": self.position_ids[:, 4:],
            }
            resumed = self.model.resume(streams[:, 4:], layer, **ids, prefix=prefix)
            errors.append(_spread_distance(resumed[:, -1], whole[:, -1]))
        if max(errors) > self.tolerance and self.model.position_kind == "alibi":
            return ALIBI  # MPT's: the missing token counts
        held = max(errors) <= self.tolerance
        # 3. The last block once more, to its end at the last position alone, and at two.
        ends = held and all(
            self._ends_short(streams[:, 4:], layer, read, whole[:, -1], prefix=prefix, **ids)
            for read in ("last", 2)
        )
        return Probe(held, f"relative error {max(errors):.1e}", short_end=ends)

    def _ends_short(
        self, streams: Tensor, layer: int, read: Read, last: Tensor, **options: Any
    ) -> bool:
        """Whether streams end as ``last`` where the last block's end is run at what is read."""
        with self.model.short_end():
            try:
                end = self.model.resume(streams, layer, read=read, **options)
            except Exception:  # noqa: BLE001  it is run whole instead
                return False
        return _spread_distance(end[:, -1], last) <= self.tolerance

    def unembed(self) -> Probe:
        if self.model.ends_in_composition:
            return Probe(False, "its output is composed from, and is no residual", applies=False)
        name = f"blocks.{self.model.n_layers - 1}.hook_resid_post"
        logits, store = read_at(self.model, self.tokens, [name], attention_mask=self.mask)
        error = _spread_distance(self.model.unembed(store[name])[:, -1], logits[:, -1])
        return Probe(error <= self.tolerance, f"relative error {error:.1e}")

    def edit_resid(self) -> Probe:
        return self._edit(["blocks.0.hook_resid_pre"], _random_like)

    def edit_pattern(self) -> Probe:
        return self._edit(self._each_attention("hook_pattern"), _random_pattern)

    def edit_scores(self) -> Probe:
        return self._edit(self._each_attention("hook_attn_scores"), _random_like)

    def edit_z(self) -> Probe:
        return self._edit(self._each_attention("hook_z"), _random_like)

    def edit_post(self) -> Probe:
        layers = range(self.model.n_layers)
        return self._edit(
            [f"{self.model.prefix(layer)}.mlp.hook_post" for layer in layers], _random_like
        )

    def drop_parts(self) -> Probe:
        if self.model.ends_in_norm:
            return Probe(False, "its blocks end in a norm", applies=False)
        summands = [
            name
            for layer in range(self.model.n_layers)
            for name in self.model.sublayers(layer).values()
        ]
        prefixes = [
            (self.model.prefix(stack[0]), self.model.prefix(stack[-1]))
            for stack in self.model.stacks
        ]
        ends = [(f"{a}.hook_resid_pre", f"{b}.hook_resid_post") for a, b in prefixes]
        # Every summand is 0, so that each stack has to be the identity, bit for bit.
        with self.model.open_blocks.hooked([(name, _zero) for name in summands]):
            _, store = read_at(
                self.model,
                self.tokens,
                [name for pair in ends for name in pair],
                attention_mask=self.mask,
                read=self.read,
            )
        error = max(
            _distance(
                store[last],
                store[first],
                torch.ones_like(store[last][..., 0]) if self.two_stacks else self.mask,
            )
            for first, last in ends
        )
        return Probe(error == 0.0, f"what leaves the last block differs by {error:.1e}")

    def mask_attention(self) -> Probe:
        # The first token of the padded row, the third of the other; and the first target token.
        masked = [2, 4] if self.two_stacks and not self.model.recurrent_target else [2]
        read: Read = "hidden" if self.two_stacks else self.read
        others = self._real(read)
        others[:, [0, 1, *masked]] = False

        def effect(layers: Sequence[int]) -> float:
            """What replacing the token changes later, its keys masked in ``layers`` for all."""
            other = self.tokens.clone()
            other[:, masked] = self.model.shifted(self.tokens, 1)[:, masked]
            # The model's own padding would be masked, whatever the edit does.
            if self.model.pad_id is not None:
                other = other.masked_fill(other == self.model.pad_id, 0 if self.model.pad_id else 1)
            outs = []
            for tokens in (self.tokens, other):
                with self._masked(masked, layers):
                    outs.append(self.model.forward(tokens, attention_mask=self.mask, read=read))
            return _distance(outs[0], outs[1], others)

        layers = range(self.model.n_layers)
        # 1. Knocked out in all layers, the token has no way to the others.
        leak = effect(layers)
        if not self._is_rounding(leak):
            return Probe(False, f"the token still moves the others by {leak:.1e}")
        # 2. A control: through the first layer of each stack alone it has one, or 1 proves nothing.
        if self.model.n_layers > 1:
            starts = [stack[0] for stack in self.model.stacks]
            control = min(effect([layer for layer in layers if layer != one]) for one in starts)
            return Probe(
                control > 0.0, f"through an open layer it moves the others by {control:.1e}"
            )
        return Probe(True, f"the token moves the others by {leak:.1e}")

    def edit_anywhere(self, name: str) -> Probe:
        """One hook point, of whatever kind."""
        # 1. What the hook shows has to be what the model goes on with: a copy changes nothing.
        copied = self._copied(name)
        if copied is not None:
            return copied
        # 2. And the model has to read what the hook returns: random numbers change the output.
        edit = _RecordedEdit(_random_pattern if name.endswith("hook_pattern") else _random_like)
        probe = self._edit([name], edit)
        if not edit.changed:  # whole numbers that are all alike
            return Probe(True, "a random edit is no edit of this activation", applies=False)
        if probe.held or not getattr(self.model, "has_head", False):
            return probe
        # 3. Once more by the logits: the head of an encoder comes after its last hidden state.
        self.read = "logits"
        self.clean = self.model.forward(self.tokens, attention_mask=self.mask)
        try:
            return self._copied(name) or self._edit([name], edit)
        finally:
            self.read = "hidden"
            self.clean = self.model.forward(self.tokens, attention_mask=self.mask, read="hidden")

    def _copied(self, name: str) -> Probe | None:
        """A hook that returns a copy of what it was shown: None where the output stays, as it
        should. T5's norms compute another formula as soon as a hook returns a tensor."""
        try:
            output = self._under([(name, _copy)])
        except InterventionError as refusal:
            if "never fired" not in str(refusal):
                raise
            return Probe(True, str(refusal), applies=False)
        error = _spread_distance(output[self.has_output], self.clean[self.has_output])
        if error <= self.tolerance:
            return None
        return Probe(False, f"{COPY_ACTS} by {error:.1e} of its spread")

    def _each_attention(self, hook: str) -> list[str]:
        return [
            f"{self.model.prefix(layer)}.{site.name}.{hook}"
            for layer in range(self.model.n_layers)
            for site in self.model.attention_sites(layer)
        ]

    def _masked(self, positions: list[int], layers: Sequence[int]) -> AbstractContextManager[Any]:
        """No query attends to ``positions`` in ``layers``."""
        keys = torch.zeros_like(self.mask, dtype=torch.bool)
        keys[:, positions] = True
        sites = [site for layer in layers for site in self.model.attention_sites(layer)]
        return self.model.editing_attention(
            {site: _MaskedKeys(self.model, site, keys) for site in sites}
        )

    def _under(self, hooks: list[tuple[str, HookFn]]) -> Float[Tensor, "batch _ width"]:
        """The output of the probe's own call, under hooks."""
        with self.model.open_blocks.hooked(hooks):
            return self.model.forward(self.tokens, attention_mask=self.mask, read=self.read)

    def _edit(self, names: list[str], edit: Any) -> Probe:
        edited = self._under([(name, edit) for name in names])
        change = _distance(edited, self.clean, self.has_output)
        return Probe(change > 4 * self.noise, f"the output moved by {change:.1e}")


class _MaskedKeys:
    """Keys that no query attends to; a query that has no other attends to nothing."""

    def __init__(
        self, model: BaseModel, site: AttentionSite, keys: Bool[Tensor, "batch pos"]
    ) -> None:
        self.model, self.site, self.keys = model, site, keys

    def scores(self, scores: Tensor) -> Tensor:
        keys = self.model.at_side(self.keys, self.site.keys).to(scores.device)
        sinks = scores.shape[-1] - keys.shape[1]  # columns of the softmax that are no positions
        # [batch 1 1 key]
        keys = torch.nn.functional.pad(keys, (0, sinks), value=False)[:, None, None, :]
        # A model in float16 may mask scores in float32 by float16's lowest number.
        unmasked = scores > torch.finfo(torch.float16).min / 2
        # [batch head query 1]: no key is left, and the pattern below becomes 0
        self.emptied = ~(unmasked & ~keys).any(-1, keepdim=True)
        return scores.masked_fill(keys, torch.finfo(scores.dtype).min)

    def pattern(self, pattern: Tensor) -> Tensor:
        return pattern.masked_fill(self.emptied, 0.0)


class _RecordedEdit:
    """An edit, and whether it changed any activation so far."""

    def __init__(self, edit: HookFn) -> None:
        self.edit, self.changed = edit, False

    def __call__(self, activation: Tensor, hook: Any) -> Tensor:
        edited = self.edit(activation, hook)
        assert edited is not None, "the edits of the probes return their result"
        self.changed |= not torch.equal(edited, activation)
        return edited


def _distance(
    a: Float[Tensor, "batch pos d"], b: Float[Tensor, "batch pos d"], mask: Tensor
) -> float:
    """The largest difference where ``mask`` is not 0."""
    a, b = _at(a, mask).float(), _at(b, mask).float()
    return float((a - b.to(a.device)).abs().max())


def _at(values: Float[Tensor, "batch pos d"], mask: Tensor) -> Float[Tensor, "real d"]:
    """Those where ``mask`` is not 0, on the device where they are: it depends on their layer."""
    return values[mask.to(values.device).bool()]


def _spread_distance(a: Float[Tensor, "*axes d"], b: Float[Tensor, "*axes d"]) -> float:
    """Largest difference as a share of the standard deviation of ``b``."""
    b = b.to(a.device).float()
    return float((a.float() - b).abs().max() / b.std().clamp(min=1e-12))


def _copy(activation: Tensor, hook: Any) -> Tensor:
    return activation.clone()


def _zero(activation: Tensor, hook: Any) -> Tensor:
    return torch.zeros_like(activation)


def _random_like(activation: Tensor, hook: Any) -> Tensor:
    # Random, since LayerNorm removes a constant, and such an edit would seem to do nothing.
    generator = torch.Generator().manual_seed(1)
    if not activation.is_floating_point():  # numbers of experts, flags: others of the same
        order = torch.randperm(activation.numel(), generator=generator).to(activation.device)
        return activation.flatten()[order].view_as(activation)
    noise = torch.randn(activation.shape, generator=generator).to(activation)
    real = activation.masked_fill(activation < -1e4, 0.0)  # scores: masked keys are not spread
    spread = real.std() if real.numel() > 1 else real.abs().max()
    return activation + noise * torch.where(spread > 0, spread, 1.0)


def _random_pattern(activation: Tensor, hook: Any) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.rand(activation.shape, generator=generator).to(activation)
