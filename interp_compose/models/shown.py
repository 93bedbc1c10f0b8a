"""What hook points show, and whether it is what they are named for.

What a name says is recomputed from other activations of the same call, and from what the wrapped
Hugging Face modules were given and returned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.errors import InterpComposeError
from interp_compose.models.activations import read_at
from interp_compose.models.attention import AttentionSite
from interp_compose.models.base import BaseModel
from interp_compose.models.outcomes import Outcome, compared
from interp_compose.types import Read

Found = tuple[str, str, Outcome]
"""Hook point, check and outcome."""
FIELDS: Final = (
    *("hook_resid_pre", "hook_resid_mid", "hook_resid_post", "hook_attn_out", "hook_mlp_out"),
    *("hook_q", "hook_k", "hook_v", "hook_z", "hook_attn_scores", "hook_pattern", "hook_post"),
)
"""Names that tell best what a hook point shows, where it has several."""

READ_INSTEAD: Final[Mapping[str, str]] = {
    "hook_attn_scores": "an edit in model.editing_attention is given what enters the softmax",
    "hook_pattern": "an edit in model.editing_attention is given what leaves the softmax",
    "hook_z": "o.hook_in, the same tensor by another name: what enters the output projection",
    **dict.fromkeys(
        ("hook_q", "hook_k", "hook_rot_q", "hook_rot_k"),
        "hook_out of the projections (q.hook_out), whose names say no more than that",
    ),
    **dict.fromkeys(
        ("hook_normalized", "hook_scale"),
        "hook_in and hook_out of the norm: what enters and what leaves it",
    ),
}
"""Names of fields that some architectures do not keep to, and what shows as much."""


def hook_points(model: BaseModel) -> dict[str, Any]:
    """Every hook point once, by the field's name where it has one (``hook_resid_pre``), else by its
    own."""
    names: dict[int, str] = {}
    for name, point in model.hook_dict.items():
        point_name = str(getattr(point, "name", ""))
        if id(point) not in names or name.rpartition(".")[2] in FIELDS:
            names[id(point)] = name if name.rpartition(".")[2] in FIELDS else point_name or name
    points = {id(point): point for point in model.hook_dict.values()}
    return {name: points[identity] for identity, name in names.items()}


class Recorded:
    """What passed through every hook point, as its hooks see it, and through the wrapped modules,
    in one call."""

    def __init__(self, model: BaseModel, tokens: Int[Tensor, "batch pos"]) -> None:
        self.model = model
        self.points = hook_points(model)
        self.fired: dict[str, int] = defaultdict(int)
        self.modules: dict[int, tuple[Any, Any]] = {}
        read: Read = "hidden" if model.bidirectional else "logits"
        with ExitStack() as handles:
            for name, point in self.points.items():
                handles.callback(point.register_forward_hook(self._counting(name)).remove)
            for module in map(original, self.parts()):
                hook = module.register_forward_hook(self._through(module), with_kwargs=True)
                handles.callback(hook.remove)
            model.forward(tokens, read=read)
        fired = [name for name in self.points if self.fired[name]]
        _, shown = read_at(model, tokens, fired, read=read)
        self.values: dict[int, Any] = {id(self.points[name]): one for name, one in shown.items()}

    def _counting(self, name: str) -> Callable[..., None]:
        def count(module: Any, args: Any, value: Any) -> None:
            self.fired[name] += 1

        return count

    def _through(self, module: Any) -> Callable[..., None]:
        def record(_: Any, args: Any, kwargs: Mapping[str, Any], value: Any) -> None:
            given = args[0] if args else kwargs.get("hidden_states")
            self.modules[id(module)] = (given, value[0] if isinstance(value, tuple) else value)

        return record

    def parts(self) -> Iterator[Any]:
        """Every part of a bridge that wraps a Hugging Face module."""
        return (part for part in self.model.lens.modules() if original(part) is not None)

    def at(self, name: str) -> Tensor | None:
        """What passed through the hook point of this name or alias; None: nothing did."""
        point = self.model.hook_dict.get(name)
        value = None if point is None else self.values.get(id(point))
        return value if isinstance(value, Tensor) else None

    def of(self, part: Any) -> tuple[Tensor | None, Tensor | None]:
        """What the wrapped module of a part was given and returned; None: it was not called."""
        given, returned = self.modules.get(id(original(part)), (None, None))
        return tuple(  # type: ignore[return-value]
            one if isinstance(one, Tensor) else None for one in (given, returned)
        )


class Softmax:
    """An edit of attention that edits nothing: keeps what enters and what leaves the softmax."""

    given: Tensor
    returned: Tensor

    def scores(self, scores: Tensor) -> Tensor:
        self.given = scores
        return scores

    def pattern(self, pattern: Tensor) -> Tensor:
        self.returned = pattern
        return pattern


def seen_by_softmax(
    model: BaseModel, tokens: Int[Tensor, "batch pos"]
) -> Mapping[AttentionSite, Softmax]:
    """What enters and leaves the softmax of every attention, whatever the hook points show; empty
    where the model's attention is not computed around one softmax."""
    sites = [site for layer in range(model.n_layers) for site in model.attention_sites(layer)]
    seen = {site: Softmax() for site in sites}
    try:
        with model.editing_attention(seen):
            model.forward(tokens, read="hidden" if model.bidirectional else "logits")
    except InterpComposeError:
        return {}
    return seen


def original(part: Any) -> Any:
    """The Hugging Face module that a part of a bridge wraps."""
    return None if part is None else getattr(part, "original_component", None)


def residuals(recorded: Recorded, layer: int) -> Iterator[Found]:
    """What enters a block, what it adds, and what leaves it."""
    model = recorded.model
    prefix = model.prefix(layer)
    before, after = (recorded.at(f"{prefix}.hook_resid_{end}") for end in ("pre", "post"))
    names = model.sublayers(layer)
    shown = {part: recorded.at(name) for part, name in names.items()}
    added = {part: one for part, one in shown.items() if one is not None}
    if before is None or after is None or len(added) < len(names):
        return
    for part, one in added.items():
        if one.numel() != before.numel():
            shapes = f"{list(one.shape)}, and the residual is {list(before.shape)}"
            yield names[part], "is added to the residual", Outcome("wrong", shapes)
            return
        # OPT shows all positions as one axis; a block may lie elsewhere than what enters it.
        added[part] = one.to(before.device).reshape(before.shape)
    if not model.ends_in_norm:
        total = before
        for number, one in enumerate(added.values(), 1):
            total = total + one
            name = f"{prefix}.hook_resid_mid{number if number > 1 else ''}"
            mid = recorded.at(name)  # after the cross-attention: hook_resid_mid2
            if mid is not None and number < len(added):
                parts = " + ".join(list(added)[:number])
                yield name, f"is hook_resid_pre + {parts}", compared(model, mid, total)
        yield (
            f"{prefix}.hook_resid_post",
            f"is hook_resid_pre + {' + '.join(added)}",
            compared(model, after, total),
        )
    same_stack = any(layer in stack and layer + 1 in stack for stack in model.stacks)
    following = recorded.at(f"{model.prefix(layer + 1)}.hook_resid_pre") if same_stack else None
    if following is not None:
        yield (
            f"{prefix}.hook_resid_post",
            "is the next block's hook_resid_pre",
            compared(model, following, after),
        )


def parts(recorded: Recorded) -> Iterator[Found]:
    """Hook points of every part that wraps a Hugging Face module (blocks, attentions, projections,
    embeddings), against what that was given and returned; and what norms, which TransformerLens
    computes itself, show between."""
    model, names = recorded.model, {id(point): name for name, point in recorded.points.items()}

    def shown(part: Any, field: str) -> tuple[str, Any]:
        point = id(getattr(part, field, None))
        once = recorded.fired.get(names.get(point, "")) == 1
        return names.get(point, ""), recorded.values.get(point) if once else None

    for part in recorded.parts():
        fields = ("hook_in", "hook_normalized", "hook_scale", "hook_out")
        (entry, into), (middle, normed), (_, scale), (end, out) = (shown(part, f) for f in fields)
        given, returned = recorded.of(part)
        ends = (entry, into, "was given", given), (end, out, "returned", returned)
        for name, value, what, held in ends:
            if isinstance(value, Tensor) and not isinstance(normed, Tensor):
                outcome = Outcome("not tried", "no wrapped module was called there")
                if held is not None and held.numel() == value.numel():  # else one of several
                    outcome = compared(model, value, held)
                yield name, f"is what the wrapped module {what}", outcome
        if isinstance(normed, Tensor) and isinstance(into, Tensor) and isinstance(out, Tensor):
            weight, bias = (getattr(original(part), one, None) for one in ("weight", "bias"))
            scaled = [normed] if weight is None else [normed * weight, normed * (1 + weight)]
            outcome = _nearest(model, out, [one if bias is None else one + bias for one in scaled])
            yield middle, "with weight and bias gives hook_out", outcome
            if isinstance(scale, Tensor):
                # LayerNorm takes off the mean, RMSNorm does not.
                centred = into - into.mean(dim=-1, keepdim=True)
                outcome = _nearest(model, normed * scale, [into, centred])
                yield middle, "times hook_scale is hook_in", outcome


def _nearest(model: BaseModel, value: Tensor, candidates: Sequence[Tensor]) -> Outcome:
    """Whether a tensor is one of several, in whichever of them it is nearest to."""
    outcomes = [compared(model, value, one) for one in candidates]
    return next((one for one in outcomes if one.status == "holds"), outcomes[0])


def attention(recorded: Recorded, site: AttentionSite, softmax: Softmax | None) -> Iterator[Found]:
    """Scores, pattern, values and their mean, of one attention."""
    model = recorded.model
    place = f"{model.prefix(site.layer)}.{site.name}"
    names = ("attn_scores", "pattern", "v", "z")
    scores, pattern, v, z = (recorded.at(f"{place}.hook_{name}") for name in names)
    if pattern is None:
        return
    n_keys = pattern.shape[-1]
    # Columns of the softmax that are no keys, as GPT-OSS's sinks.
    # [batch head query 0]: none, unless the softmax had more columns than there are keys
    sinks = torch.zeros_like(pattern[..., :0])
    sunk = sinks
    if softmax is not None and softmax.returned.shape[:-1] == pattern.shape[:-1]:
        sinks, sunk = softmax.given[..., n_keys:], softmax.returned[..., n_keys:]
        expected = softmax.returned[..., :n_keys]
        yield (
            f"{place}.hook_pattern",
            "is what the softmax gave",
            compared(model, pattern, expected),
        )
    # [batch head query key+sink]
    whole = torch.cat([pattern, sunk.to(pattern)], dim=-1)
    ones = torch.ones_like(pattern[..., 0])
    sums = compared(model, whole.sum(dim=-1), ones, spread=1.0)
    if float(pattern.min()) < 0:
        sums = Outcome("wrong", f"smallest weight {float(pattern.min()):.1e}")
    yield f"{place}.hook_pattern", "is not negative, and sums to 1", sums
    if not model.bidirectional and site.queries == site.keys != "source":
        # [query key]: keys after their query
        later = torch.ones(pattern.shape[-2:], dtype=torch.bool, device=pattern.device).triu(1)
        largest = float(pattern[..., later].abs().max()) if later.any() else 0.0
        outcome = Outcome("holds" if largest == 0 else "wrong", f"largest weight {largest:.1e}")
        yield f"{place}.hook_pattern", "gives later positions nothing", outcome
    if scores is not None and scores.shape == pattern.shape:
        if softmax is not None and sinks.shape[-1]:  # the same may be taken off a row's scores
            most = pattern.argmax(dim=-1, keepdim=True)
            taken = scores.gather(-1, most) - softmax.given.gather(-1, most).to(scores)
            sinks = sinks + taken
        of_scores = _softmax(torch.cat([scores, sinks.to(scores)], dim=-1), whole > 0)
        yield (
            f"{place}.hook_attn_scores",
            "hook_pattern is its softmax",
            compared(model, pattern, of_scores[..., :n_keys]),
        )
    yield from _queries_and_keys(recorded, place, pattern)
    if v is not None and z is not None:
        yield f"{place}.hook_z", "is hook_pattern · hook_v", _mean(model, pattern, v, z)


def _mean(model: BaseModel, pattern: Tensor, v: Tensor, z: Tensor) -> Outcome:
    """Whether each head's output is the mean of its values under its pattern."""
    heads = pattern.shape[1]
    if z.numel() % (pattern.shape[0] * pattern.shape[2] * heads) == 0:
        # [batch query head d_head]
        by_head = z.reshape(*pattern.shape[::2], heads, -1)  # some show heads side by side
        each = _by_head(v, pattern.shape[3], heads, by_head.shape[3])
        if each is not None:
            # [batch query head d_head]
            mean = torch.einsum("bhqk,bkhd->bqhd", pattern.to(v.dtype), each)
            return compared(model, by_head, mean)
    return Outcome("not tried", f"hook_v is {list(v.shape)}, hook_z {list(z.shape)}")


def _by_head(
    value: Tensor, n_positions: int, heads: int, d_head: int
) -> Float[Tensor, "batch pos head d_head"] | None:
    """Queries, keys or values with an axis of heads, those that several heads share repeated; None
    where the shape does not say how."""
    if value.shape[1] != n_positions or value.numel() % (value.shape[0] * n_positions * d_head):
        return None
    # [batch pos head_kv d_head]
    by_head = value.reshape(value.shape[0], n_positions, -1, d_head)
    if heads % by_head.shape[2]:
        return None
    return by_head.repeat_interleave(heads // by_head.shape[2], dim=2)


def _queries_and_keys(
    recorded: Recorded, place: str, pattern: Float[Tensor, "batch head query key"]
) -> Iterator[Found]:
    """Whether queries and keys give the pattern: wrong where they do so exchanged. Where they do
    not either way (a bias, a cap, norms or rotations that follow) nothing is found."""
    model, row = recorded.model, None
    for names in (("hook_rot_q", "hook_rot_k"), ("hook_q", "hook_k")):
        q, k = (recorded.at(f"{place}.{name}") for name in names)
        if q is None or k is None:
            continue
        name, check = f"{place}.{names[0]}", f"with {names[1]} gives hook_pattern"
        given = _give(model, q, k, pattern)
        if given is not None:
            row = name, check, given
        elif _give(model, k, q, pattern) is not None:
            row = name, check, Outcome("wrong", f"it shows what {names[1]} should, and that this")
        else:
            row = row or (name, check, Outcome("not tried", "not by their products alone"))
        if row[2].status != "not tried":
            break
    if row is not None:
        yield row


def _give(
    model: BaseModel,
    q: Tensor,
    k: Tensor,
    pattern: Float[Tensor, "batch head query key"],
) -> Outcome | None:
    """How nearly the pattern is the softmax of the products of ``q`` and ``k``, scaled or not; None
    where it is not."""
    heads, d_head = pattern.shape[1], q.shape[-1]
    queries = _by_head(q, pattern.shape[2], heads, d_head) if q.ndim == 4 else None
    keys = _by_head(k, pattern.shape[3], heads, d_head) if k.ndim == 4 else None
    if queries is None or keys is None:
        return None
    # [batch head query key]
    products = torch.einsum("bqhd,bkhd->bhqk", queries.float(), keys.float())
    scales = (d_head**-0.5, 1.0)
    tried = (compared(model, _softmax(products * s, pattern > 0), pattern) for s in scales)
    return next((outcome for outcome in tried if outcome.status == "holds"), None)


def _softmax(
    scores: Float[Tensor, "batch head query key"], allowed: Bool[Tensor, "batch head query key"]
) -> Float[Tensor, "batch head query key"]:
    """The softmax over keys that have any weight: scores may be shown before they are masked."""
    return scores.float().masked_fill(~allowed, -torch.inf).softmax(dim=-1).nan_to_num()


@torch.no_grad()
def shown_otherwise(
    model: BaseModel, tokens: Int[Tensor, "batch pos"]
) -> dict[tuple[int, str], str]:
    """Hook points of attentions that show something else than they are named for, by their identity
    and the field of their name: what is not true of them, and the figure that decided."""
    recorded, seen = Recorded(model, tokens), seen_by_softmax(model, tokens)
    wrong: dict[tuple[int, str], str] = {}
    for layer in range(model.n_layers):
        for site in model.attention_sites(layer):
            for name, check, outcome in attention(recorded, site, seen.get(site)):
                if outcome.status == "wrong":
                    point, field = model.hook_dict[name], name.rpartition(".")[2]
                    wrong.setdefault((id(point), field), f"{check}: {outcome.detail}")
    return wrong
