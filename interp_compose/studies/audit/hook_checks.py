"""Hook points: whether they fire, whether edits act, and whether they show what they are named for.

What a name says is recomputed from other activations of the same call, and from what the wrapped
Hugging Face modules were given and returned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.models.attention import AttentionSite
from interp_compose.models.capabilities import prove_edits
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.audit.outcomes import Outcome, compared

Found = tuple[str, str, Outcome]
"""Hook point, check and outcome."""
FIELDS: Final = (
    *("hook_resid_pre", "hook_resid_mid", "hook_resid_post", "hook_attn_out", "hook_mlp_out"),
    *("hook_q", "hook_k", "hook_v", "hook_z", "hook_attn_scores", "hook_pattern", "hook_post"),
)
"""Names that tell best what a hook point shows, where it has several."""
DISCARDS: Final = "TransformerLens discards this edit"
"""In the refusal of an edit that TransformerLens announces to discard, by a warning."""


def hook_points(model: LensModel) -> dict[str, Any]:
    """Every hook point once, by the field's name where it has one (``hook_resid_pre``), else by its
    own."""
    names: dict[int, str] = {}
    for name, point in model.hook_dict.items():
        own = str(getattr(point, "name", ""))
        if id(point) not in names or name.rpartition(".")[2] in FIELDS:
            names[id(point)] = name if name.rpartition(".")[2] in FIELDS else own or name
    points = {id(point): point for point in model.hook_dict.values()}
    return {name: points[at] for at, name in names.items()}


class Recorded:
    """What passed through every hook point, and through the wrapped modules, in one call."""

    def __init__(self, model: LensModel, tokens: Int[Tensor, "batch pos"]) -> None:
        self.model = model
        self.points = hook_points(model)
        self.fired: dict[str, int] = defaultdict(int)
        self.values: dict[int, Any] = {}
        self.modules: dict[int, tuple[Any, Any]] = {}
        with ExitStack() as handles:
            for name, point in self.points.items():
                handles.callback(point.register_forward_hook(self._at(name, point)).remove)
            for module in self._wrapped():
                hook = module.register_forward_hook(self._through(module), with_kwargs=True)
                handles.callback(hook.remove)
            model.forward(tokens, read="hidden" if model.bidirectional else "logits")

    def _at(self, name: str, point: Any) -> Callable[..., None]:
        def record(module: Any, args: Any, value: Any) -> None:
            self.fired[name] += 1
            self.values[id(point)] = value

        return record

    def _through(self, module: Any) -> Callable[..., None]:
        def record(_: Any, args: Any, kwargs: Mapping[str, Any], value: Any) -> None:
            given = args[0] if args else kwargs.get("hidden_states")
            self.modules[id(module)] = (given, value[0] if isinstance(value, tuple) else value)

        return record

    def _wrapped(self) -> Iterator[Any]:
        for block in self.model.blocks:
            for part in (block, getattr(block, "attn", None), getattr(block, "mlp", None)):
                module = original(part)
                if module is not None:
                    yield module

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


def original(part: Any) -> Any:
    """The Hugging Face module that a part of a bridge wraps."""
    return None if part is None else getattr(part, "original_component", None)


def check_hooks(
    model: LensModel, tokens: Int[Tensor, "batch pos"], step: Callable[[], object]
) -> Iterator[Found]:
    """Every check of every hook point; ``step`` is called after each point's edit."""
    recorded = Recorded(model, tokens)
    names = [name for name in recorded.points if recorded.fired[name]]
    for name in recorded.points:
        times = recorded.fired[name]
        status = "holds" if times else "silent"
        yield name, "fires", Outcome(status, f"{times} in a call")  # type: ignore[arg-type]
    for name in names:
        (probe,) = prove_edits(model, [name]).values()
        if probe.detail.startswith("not tried"):
            outcome = Outcome("not tried", probe.detail.removeprefix("not tried: "))
        elif probe.refused and DISCARDS not in probe.detail:
            outcome = Outcome("refused", probe.detail)
        else:
            outcome = Outcome("holds" if probe.held else "discarded", probe.detail)
        yield name, "a random edit moves the output", outcome
        step()
    for layer in range(model.n_layers):
        yield from _residuals(recorded, layer)
        yield from _modules(recorded, layer)
        for site in model.attention_sites(layer):
            yield from _attention(recorded, site)


def _residuals(recorded: Recorded, layer: int) -> Iterator[Found]:
    """What enters a block, what it adds, and what leaves it."""
    model = recorded.model
    prefix = model.prefix(layer)
    before, after = (recorded.at(f"{prefix}.hook_resid_{at}") for at in ("pre", "post"))
    mid = recorded.at(f"{prefix}.hook_resid_mid")
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
        added[part] = one.reshape(before.shape)  # OPT shows all positions as one axis
    if not model.ends_in_norm:
        first = next(iter(added))
        if mid is not None:
            yield (
                f"{prefix}.hook_resid_mid",
                f"is hook_resid_pre + {first}",
                compared(model, mid, before + added[first]),
            )
        total = before + torch.stack(list(added.values())).sum(dim=0)
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


def _modules(recorded: Recorded, layer: int) -> Iterator[Found]:
    """Hook points against what the wrapped modules were given and returned."""
    model, block = recorded.model, recorded.model.blocks[layer]
    prefix = model.prefix(layer)
    given, returned = recorded.of(block)
    held = [
        ("hook_resid_pre", "the wrapped block was given", given),
        ("hook_resid_post", "the wrapped block returned", returned),
        ("attn.hook_out", "the wrapped attention returned", recorded.of(_part(block, "attn"))[1]),
        ("mlp.hook_out", "the wrapped MLP returned", recorded.of(_part(block, "mlp"))[1]),
    ]
    for name, what, expected in held:
        value = recorded.at(f"{prefix}.{name}")
        if value is not None and expected is not None:
            yield f"{prefix}.{name}", f"is what {what}", compared(model, value, expected)


def _part(block: Any, name: str) -> Any:
    return getattr(block, name, None)


def _attention(recorded: Recorded, site: AttentionSite) -> Iterator[Found]:
    """Scores, pattern, values and their mean, of one attention."""
    model = recorded.model
    place = f"{model.prefix(site.layer)}.{site.name}"
    names = ("attn_scores", "pattern", "v", "z")
    scores, pattern, v, z = (recorded.at(f"{place}.hook_{name}") for name in names)
    if pattern is not None:
        ones = torch.ones_like(pattern[..., 0])
        yield (
            f"{place}.hook_pattern",
            "is not negative, and sums to 1",
            compared(model, pattern.clamp(min=0).sum(dim=-1), ones, spread=1.0),
        )
        if not model.bidirectional and site.queries == site.keys != "source":
            later = torch.ones(pattern.shape[-2:], dtype=torch.bool, device=pattern.device).triu(1)
            above = float(pattern[..., later].abs().max()) if later.any() else 0.0
            outcome = Outcome("holds" if above == 0 else "wrong", f"largest weight {above:.1e}")
            yield f"{place}.hook_pattern", "gives later positions nothing", outcome
    if pattern is not None and scores is not None and scores.shape == pattern.shape:
        yield (
            f"{place}.hook_attn_scores",
            "hook_pattern is its softmax",
            compared(model, pattern, _softmax(scores, pattern > 0)),
        )
    if pattern is not None and v is not None and z is not None:
        heads = pattern.shape[1]
        by_head = z.reshape(*pattern.shape[::2], heads, -1)  # some show heads side by side
        own = v.reshape(v.shape[0], v.shape[1], -1, by_head.shape[3])
        if own.shape[1] == pattern.shape[3] and heads % own.shape[2] == 0:
            each = own.repeat_interleave(heads // own.shape[2], dim=2)
            mean = torch.einsum("bhqk,bkhd->bqhd", pattern.to(v.dtype), each)
            yield f"{place}.hook_z", "is hook_pattern · hook_v", compared(model, by_head, mean)


def _softmax(
    scores: Float[Tensor, "batch head query key"], allowed: Bool[Tensor, "batch head query key"]
) -> Float[Tensor, "batch head query key"]:
    """Over the keys that have any weight: scores may be shown before they are masked."""
    return scores.float().masked_fill(~allowed, -torch.inf).softmax(dim=-1).nan_to_num()
