"""Constituent-aware pooling: the tokens of a unit become one vector (CARMA, appendix C.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import OptionError, SpanError, first_line
from interp_compose.models.lens_model import LensModel

NONE = -1


@dataclass(frozen=True)
class PooledLayout:
    """The pooled layout of a batch.

    Attributes:
        of_token: position of each token in the pooled sequence, -1 for padding; right-aligned.
        n_positions: width of the pooled batch.
        mask: 1 where a pooled position holds something.
        last_token: index in the full sequence of each pooled position's last token (0 where there
            is none).
    """

    of_token: Int[Tensor, "batch pos"]
    n_positions: int
    mask: Int[Tensor, "batch group"]
    last_token: Int[Tensor, "batch group"]

    @classmethod
    def from_groups(
        cls, groups: Int[Tensor, "batch pos"], attention_mask: Int[Tensor, "batch pos"]
    ) -> PooledLayout:
        """The layout of unit indices: -1 marks tokens that stay alone (specials), and padding.

        Reads the groups row by row: make the layout on the CPU and move it with :meth:`to`.

        Raises:
            SpanError: the tokens of a unit are not next to one another, or a group is below -1.
        """
        if bool((groups < NONE).any()):
            raise SpanError(f"group {int(groups.min())}: expected 0 or more, or -1 for no group")
        valid = attention_mask.bool()
        groups = groups.masked_fill(~valid, NONE)
        # 1. A unit begins where a token's group is not that of the token before.
        previous = torch.full_like(groups, NONE - 1)
        previous[:, 1:] = groups[:, :-1]
        starts = valid & ((groups == NONE) | (groups != previous))  # [batch pos]
        ordinal = starts.long().cumsum(dim=1)  # 1-based, constant inside a unit
        counts = ordinal.amax(dim=1, keepdim=True)  # [batch 1]: units of each row
        _refuse_scattered(groups, starts)
        n_positions = int(counts.max())
        # 2. Right-aligned: the last unit of each row is at n_positions - 1.
        of_token = (ordinal - 1 + n_positions - counts).masked_fill(~valid, NONE)
        # 3. The largest index among a unit's tokens; padding offers 0, which raises no maximum.
        index = torch.arange(groups.shape[1], device=groups.device).expand_as(groups)
        last_token = torch.zeros(
            (groups.shape[0], n_positions), dtype=torch.long, device=groups.device
        ).scatter_reduce_(
            1, of_token.clamp(min=0), index.masked_fill(~valid, 0), reduce="amax", include_self=True
        )
        position = torch.arange(n_positions, device=groups.device)
        mask = (position[None, :] >= n_positions - counts).long()
        return cls(of_token, n_positions, mask, last_token.masked_fill(mask == 0, 0))

    def to(self, device: torch.device) -> PooledLayout:
        return PooledLayout(
            self.of_token.to(device),
            self.n_positions,
            self.mask.to(device),
            self.last_token.to(device),
        )

    def rows(self, chosen: Int[Tensor, "row"]) -> PooledLayout:
        """``chosen`` are indices of rows; the layout stays as wide as before."""
        return PooledLayout(
            self.of_token[chosen], self.n_positions, self.mask[chosen], self.last_token[chosen]
        )

    @property
    def sizes(self) -> Int[Tensor, "batch group"]:
        """Tokens in each pooled position."""
        ones = (self.of_token >= 0).long()
        # Padding adds 0, to position 0.
        return torch.zeros_like(self.mask).scatter_add_(1, self.of_token.clamp(min=0), ones)

    @property
    def affected(self) -> Int[Tensor, "batch"]:
        """1 for the rows that pooling changes: those with a unit of several tokens."""
        return (self.sizes > 1).any(dim=1).long()

    def positions(self, token_positions: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch group"]:
        """What rotary embeddings read: the position of each unit's last token."""
        return token_positions.gather(1, self.last_token).masked_fill(self.mask == 0, 0)


def _refuse_scattered(groups: Int[Tensor, "batch pos"], starts: Tensor) -> None:
    for row in range(groups.shape[0]):
        # A group that begins twice has another one in between.
        units = groups[row][starts[row] & (groups[row] != NONE)]
        if units.numel() != units.unique().numel():
            raise SpanError(
                f"groups of row {row} are scattered: {groups[row].tolist()}; the tokens of a unit "
                "must be next to one another."
            )


MOST_GROUPS = 1_000_000
How = Literal["mean", "max", "sum", "last", "first"]
HOW = get_args(How)
OwnPooling = Callable[[Tensor], Tensor]
"""A function of one unit: of its tokens' vectors ``[token d_model]``, one vector ``[d_model]``."""
TAKEN: Final = (*HOW, "straddling", "shuffled", "average", "none", "clean")
"""Names that mean something else in results."""


def poolings_of(
    pooling: str | OwnPooling | Sequence[str | OwnPooling], model: LensModel
) -> dict[str, How | OwnPooling]:
    """One pooling or several, by the names that results give them; a function by its own.

    Raises:
        OptionError: none at all, two of one name, a function without a name of its own, or one
            that :func:`check_own_pooling` refuses.
    """
    several = [pooling] if isinstance(pooling, str) or callable(pooling) else list(pooling)
    if not several:
        raise OptionError(f"pooling={pooling!r}: expected a sequence such as ('mean', 'max')")
    names = [how if isinstance(how, str) else _function_name(how) for how in several]
    if len(set(names)) != len(names):
        raise OptionError(f"pooling={names} names a pooling twice; name each once")
    for how in several:
        check_own_pooling(how, model)
    return dict(zip(names, cast("list[How | OwnPooling]", several), strict=True))


def own_poolings(poolings: Mapping[str, How | OwnPooling]) -> list[str]:
    """The names of those that are functions of the user's."""
    return [name for name, how in poolings.items() if not isinstance(how, str)]


def _function_name(function: OwnPooling) -> str:
    name = getattr(function, "__name__", "")
    if not name.isidentifier() or name in TAKEN:
        why = f"the name {name!r}" if name else "no name"
        raise OptionError(
            f"pooling has a function with {why}, by which results could not tell it from others; "
            "define one with def and a name of its own: def root_mean_square(vectors): …"
        )
    return str(name)


def check_own_pooling(how: How | str | OwnPooling, model: LensModel) -> None:
    """Try a function of the user's on units of two and three tokens.

    Raises:
        OptionError: it fails, does not give one finite vector ``[d_model]``, or gives another one
            for the same unit.
    """
    if isinstance(how, str):
        return
    precise = torch.float64 if model.dtype == torch.float64 else torch.float32
    drawn = torch.Generator().manual_seed(0)
    for n_tokens in (2, 3):
        unit = torch.randn(n_tokens, model.d_model, generator=drawn, dtype=precise)
        # Twice: one that draws at random, or keeps a state, gives another vector.
        vectors = [_vector(how, unit.to(model.device)) for _ in range(2)]
        if not bool(vectors[0].isfinite().all()):
            raise _gives(how, n_tokens, "NaN or infinite values")
        if not torch.equal(*vectors):
            raise _gives(how, n_tokens, "another vector each time it is called")


def _vector(function: OwnPooling, unit: Float[Tensor, "token d_model"]) -> Tensor:
    """What a function makes of one unit, which it may edit; refused if it is no vector."""
    try:
        vector: Any = function(unit.clone())
    except Exception as error:
        raise _gives(function, len(unit), f"{type(error).__name__}: {first_line(error)}") from error
    if not isinstance(vector, Tensor):
        raise _gives(function, len(unit), f"a {type(vector).__name__}")
    if vector.shape != unit.shape[1:] or not vector.is_floating_point():
        raise _gives(function, len(unit), f"a tensor {list(vector.shape)} of {vector.dtype}")
    return vector.to(unit)


def _gives(function: OwnPooling, n_tokens: int, what: str) -> OptionError:
    name = getattr(function, "__name__", type(function).__name__)
    return OptionError(
        f"the pooling function {name!r}, given the vectors of {n_tokens} tokens [{n_tokens} "
        f"d_model], gives {what}; expected one finite vector [d_model], the same for the same unit"
    )


@public
def pool_groups(
    activations: Float[Tensor, "batch pos d_model"],
    groups: Int[Tensor, "batch pos"],
    how: How | OwnPooling,
    *,
    n_groups: int | None = None,
) -> Float[Tensor, "batch group d_model"]:
    """Pool the tokens of each group into one vector.

    ``r_i = α({h_j : x_j ∈ c_i})`` with α the elementwise mean, maximum or sum (CARMA,
    appendix C.1), or the group's last or first token alone (``"last"``, ``"first"``: deletion
    without pooling).

    Args:
        activations: any residual stream.
        groups: index of each token's group, -1 for tokens that belong to none (padding); their
            activations are never read, so that they may hold anything.
        how: one of :data:`HOW`, or a function of your own: it is called for each unit of several
            tokens with their vectors ``[token d_model]``, in float32 or float64, and returns one
            vector ``[d_model]``.
        n_groups: width of the result; by default the largest index + 1.

    Returns:
        One vector per group; zeros where a group has no token. ``"last"`` and ``"first"`` return
        that token bit for bit, and so does every pooling of a group of one token. Sums run in
        float32, or in float64 where the activations are, and are rounded once. A NaN or an
        infinity stays in its own group.

    Raises:
        OptionError: an unknown ``how``; an index beyond ``n_groups``; a function that fails, or
            whose vector is of another shape or not finite where all that it was given is.
    """
    groups = groups.to(activations.device)
    largest = int(groups.max()) if groups.numel() else -1
    width = largest + 1 if n_groups is None else n_groups
    if not largest < width <= MOST_GROUPS:
        raise OptionError(
            f"groups up to {largest} in n_groups={n_groups}: expected a width above the largest "
            f"index and at most {MOST_GROUPS}"
        )
    if how in ("last", "first"):
        return _one_token(activations, groups, width, how)
    if how == "max":
        highest = _extreme(activations, groups, width, "amax", outside=-torch.inf)
        # -inf where a group has no token; the mask is [batch group 1]
        return highest.masked_fill(~_members(groups, width).any(2)[:, :, None], 0.0)
    precise = torch.float64 if activations.dtype == torch.float64 else torch.float32
    if not isinstance(how, str):
        return _by_function(activations, groups, width, how, precise)
    weights = _members(groups, width).to(precise)  # [batch group pos]
    # [batch pos d_model]
    masked = activations.to(precise).masked_fill((groups < 0)[:, :, None], 0.0)
    finite = masked.isfinite()
    # A matrix product sums in a fixed order; scattered additions on a GPU would not.
    # [batch group d_model]
    pooled = torch.einsum("bgp,bpd->bgd", weights, masked.masked_fill(~finite, 0.0))
    if how == "mean":
        pooled = pooled / weights.sum(dim=2, keepdim=True).clamp(min=1.0)
    if not bool(finite.all()):  # 0 · inf would make NaN of every other group
        # NaN and infinities alone, each added to its own group below
        rest = masked.masked_fill(finite, 0.0)
        for reduce in ("amax", "amin"):
            pooled = pooled + _extreme(rest, groups, width, reduce, outside=0.0)
    return pooled.to(activations.dtype)


def _by_function(
    activations: Float[Tensor, "batch pos d_model"],
    groups: Int[Tensor, "batch pos"],
    width: int,
    function: OwnPooling,
    precise: torch.dtype,
) -> Float[Tensor, "batch group d_model"]:
    """Each unit of several tokens by a function; a token that is alone as it is."""
    pooled = _one_token(activations, groups, width, "last")
    members = _members(groups, width).cpu()
    several = (members.sum(dim=2) > 1).nonzero()  # [unit 2]: row and group
    if not len(several):
        return pooled
    units = [activations[row, members[row, unit]].to(precise) for row, unit in several.tolist()]
    vectors = torch.stack([_vector(function, unit) for unit in units])  # [unit d_model]
    broken = ~vectors.isfinite().all(dim=1)
    for index in broken.nonzero().flatten().tolist():
        if bool(units[index].isfinite().all()):
            raise _gives(function, len(units[index]), "NaN or infinite values")
    row, unit = several.to(groups.device).unbind(dim=1)
    return pooled.index_put((row, unit), vectors.to(pooled.dtype))


def _members(groups: Int[Tensor, "batch pos"], width: int) -> Bool[Tensor, "batch group pos"]:
    return groups[:, None, :] == torch.arange(width, device=groups.device)[None, :, None]


def spread_groups(
    pooled: Float[Tensor, "batch group d_model"],
    groups: Int[Tensor, "batch pos"],
    activations: Float[Tensor, "batch pos d_model"],
) -> Float[Tensor, "batch pos d_model"]:
    """Give every token its group's vector; tokens without a group keep their activation."""
    groups = groups.to(pooled.device)
    index = groups.clamp(min=0)[:, :, None].expand(-1, -1, pooled.shape[2])  # [batch pos d_model]
    return torch.where((groups >= 0)[:, :, None], pooled.gather(1, index), activations)


def _one_token(
    activations: Float[Tensor, "batch pos d_model"],
    groups: Int[Tensor, "batch pos"],
    width: int,
    how: str,
) -> Float[Tensor, "batch group d_model"]:
    """Each group's last or first token."""
    batch, length = groups.shape
    outside = -1 if how == "last" else length
    index = torch.full((batch, width), outside, device=groups.device, dtype=torch.long)
    position = torch.arange(length, device=groups.device).expand(batch, length)
    position = position.masked_fill(groups < 0, outside)
    reduce = "amax" if how == "last" else "amin"
    # [batch group]: in each group the last (first) position, or `outside` where it has none
    index = index.scatter_reduce(1, groups.clamp(min=0).long(), position, reduce=reduce)
    empty = (index < 0) | (index >= length)
    rows = torch.arange(batch, device=groups.device)[:, None]
    return activations[rows, index.clamp(0, length - 1)].masked_fill(empty[:, :, None], 0.0)


def _extreme(
    activations: Float[Tensor, "batch pos d_model"],
    groups: Int[Tensor, "batch pos"],
    width: int,
    reduce: str,
    *,
    outside: float,
) -> Float[Tensor, "batch group d_model"]:
    """Elementwise maximum (``"amax"``) or minimum (``"amin"``) of a group and ``outside``."""
    batch, _, d_model = activations.shape
    start = activations.new_full((batch, width, d_model), outside)
    index = groups.clamp(min=0)[:, :, None].expand(-1, -1, d_model).long()  # [batch pos d_model]
    masked = activations.masked_fill((groups < 0)[:, :, None], outside)
    return start.scatter_reduce(1, index, masked, reduce=reduce, include_self=True)
