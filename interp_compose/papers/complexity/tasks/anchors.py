"""Anchor functions composed (complexity control, section III): to memorise, or to reason with.

A sequence holds one key token followed by a chain of anchors, among noise. Each anchor means
an operation, and the target is what the operations make of the key, one after another (eq. 1)::

    23 a b 43 46 74 54 44 72   ->   (23 + 5) + 1 = 29

Numbers are their own token ids; anchors have the ids 1 … J. Training keys and test keys are told
apart by key and position together (appendix B): a key is a test key at the one position that it
leaves as a remainder. Appendix B's text binds every token so, the caption of its Fig. 9 the key;
noise is free here. Chains that are ``unseen`` are never trained on.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Final, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from interp_compose._public import public, short
from interp_compose.checks import is_whole
from interp_compose.errors import InputError, OptionError, PositionError
from interp_compose.tensors import check_device

Operation = int | Callable[[int], int]
"""A number to add, or any function of a whole number."""
Chain = tuple[str, ...]
Split = Literal["train", "id", "ood"]
Modulus = Literal["paper", "code"]

ANCHORS: Final[Mapping[str, Operation]] = {"a": 5, "b": 1, "c": -2, "d": -8}
"""Complexity control, eq. 2."""
UNSEEN: Final[tuple[Chain, ...]] = (("c", "d"), ("d", "c"))
LONGEST: Final = 4096
"""Tokens of the longest sequence."""
MOST_SAMPLES: Final = 10_000_000
"""Samples of one call; they are all held in memory."""
LARGEST: Final = 2**31 - 1
"""The largest token id."""
MOST_TARGETS: Final = 2_000_000
"""A task keeps a table of them, one for each chain and key."""
VIOLATIONS: Final[tuple[tuple[Chain, int], ...]] = (
    (("a", "b"), 4),
    (("a", "c"), 1),
    (("a", "d"), -5),
    (("b", "c"), 5),
    (("b", "d"), -9),
    (("c", "d"), -6),
)
"""What the authors' code adds to the key instead of the sum, for both orders of a pair, in the
order in which appendix A counts the groups."""


def violations(groups: int) -> dict[Chain, Operation]:
    """The first ``groups`` of six pairs of anchors, in both orders, with a consistent wrong target.

    Their number is the *reasoning complexity* of the data (complexity control, section VIII). The
    sixth is (c, d), which counts in training only where it is not held out: ``unseen=()``.

    Raises:
        OptionError: not a number from 0 to 6.
    """
    if not is_whole(groups) or not 0 <= groups <= len(VIOLATIONS):
        raise OptionError(f"groups={groups!r}: expected a number from 0 to {len(VIOLATIONS)}")
    chosen = VIOLATIONS[: int(groups)]
    return {order: shift for pair, shift in chosen for order in (pair, pair[::-1])}


@public
@dataclass(frozen=True, eq=False)
class AnchorData:
    """Sequences of one split, and what each was made of."""

    tokens: Int[Tensor, "sample pos"]
    targets: Int[Tensor, "sample"]
    """The token that the last position should predict."""
    chains: Int[Tensor, "sample"]
    """Index into :attr:`AnchorTask.chains`."""
    keys: Int[Tensor, "sample"]
    positions: Int[Tensor, "sample"]
    """Position of the key; its anchors follow."""

    def __len__(self) -> int:
        return len(self.targets)

    def to(self, device: torch.device | str) -> AnchorData:
        """The same on another device.

        Raises:
            DeviceError: torch cannot put it there.
        """
        check_device(device)
        return AnchorData(*(getattr(self, one.name).to(device) for one in fields(self)))

    def __getitem__(
        self, which: Int[Tensor, "some"] | Bool[Tensor, "sample"] | slice
    ) -> AnchorData:
        """Some of the samples.

        Raises:
            InputError: numbers beyond them, or flags of another number of samples.
        """
        try:
            return AnchorData(*(getattr(self, one.name)[which] for one in fields(self)))
        except IndexError as error:
            raise InputError(f"samples {short(which)} of {len(self)}: {error}") from error


@public
@dataclass(frozen=True)
class AnchorTask:
    """Which sequences there are and what their targets are. The default is the paper's.

    Raises:
        OptionError: anchors, chains or sizes that do not fit together; names what does not.
        InputError: a target outside the vocabulary; a position without a key for training or test.
    """

    anchors: Mapping[str, Operation] = field(default_factory=lambda: dict(ANCHORS))
    """The operation of each anchor. Its token id is its place here, from 1."""
    unseen: tuple[Chain, ...] = UNSEEN
    """Chains that are never trained on: the OOD split."""
    n_anchors: int = 2
    """Anchors that follow one another."""
    length: int = 9
    """Tokens of a sequence."""
    numbers: tuple[int, int] = (20, 99)
    """Smallest and largest key."""
    noise: tuple[int, int] | None = None
    """Smallest and largest token at the other positions; None: as the keys."""
    modulus: Modulus = "paper"
    """A key x at position p is a test key if x mod n = p, where n is ``"paper"``: the number of
    positions a key can have (the text's n - 2), or ``"code"``: the sequence's length, as in the
    released code."""
    violations: Mapping[Chain, Operation] = field(default_factory=dict)
    """Chains whose target breaks the rule, with the operation that they have instead."""
    d_vocab: int | None = None
    """Size of the vocabulary; None: as few as hold every token and target."""

    def __post_init__(self) -> None:
        take = partial(object.__setattr__, self)
        take("anchors", dict(self.anchors))
        take("violations", dict(self.violations))
        if not self.anchors or not all(self.anchors):
            raise OptionError(f"anchors={self.anchors!r}: expected names and their operations")
        at_least(1, "n_anchors", self.n_anchors)
        at_least(self.n_anchors + 1, "length", self.length, "room for a key and its anchors")
        check_bounds("numbers", self.numbers, len(self.anchors))
        if self.noise is not None:
            check_bounds("noise", self.noise, len(self.anchors))
        if self.d_vocab is not None:
            at_least(self._largest_token + 1, "d_vocab", self.d_vocab, "room for keys and noise")
        check_size(len(self.anchors), self.n_anchors, self.numbers)
        if self.length > LONGEST:
            raise OptionError(f"length={self.length}: expected at most {LONGEST}")
        check_chains("unseen", self.unseen, self.anchors, self.n_anchors)
        for chain in self.violations:
            check_chain("violations", chain, self.anchors, self.n_anchors)
        check_split(self.numbers, self._remainders, self.n_positions)
        _ = self._outcomes  # refuses targets outside the vocabulary

    # ---- what there is -------------------------------------------------------------------

    @cached_property
    def chains(self) -> tuple[Chain, ...]:
        """Every chain of anchors; the unseen ones last."""
        every, unseen = itertools.product(self.anchors, repeat=self.n_anchors), set(self.unseen)
        seen = [chain for chain in every if chain not in unseen]
        return (*seen, *self.unseen)

    @property
    def n_seen(self) -> int:
        """Chains that are trained on."""
        return len(self.chains) - len(self.unseen)

    @property
    def vocabulary(self) -> int:
        """How many token ids there are; each is below: anchors, numbers and targets."""
        if self.d_vocab is not None:
            return self.d_vocab
        return 1 + max(self._largest_token, int(self._outcomes.max()))

    @property
    def n_positions(self) -> int:
        """Positions that a key can have: 0 … this - 1."""
        return self.length - self.n_anchors

    def apply(self, key: int, chain: Chain) -> int:
        """The target of a key and its anchors: the rule, or what breaks it.

        Raises:
            OptionError: no whole number; no chain of this task.
            InputError: an operation that gives no whole number.
        """
        check_chain("apply", chain, self.anchors, self.n_anchors)
        return self._target(key, chain)

    def is_test_key(self, key: int, position: int) -> bool:
        """Whether a key at a position is held out (appendix B).

        Raises:
            OptionError: no whole number.
            PositionError: where no key can be.
        """
        if not 0 <= position < self.n_positions:
            raise PositionError(
                f"position={position}: a key can be at 0 … {self.n_positions - 1}, its "
                f"{self.n_anchors} anchors behind it"
            )
        return key % self._remainders == position

    # ---- sampling ------------------------------------------------------------------------

    def sample(self, split: Split, n: int, *, seed: int) -> AnchorData:
        """``n`` random sequences of a split, every chain equally often (± 1), in random order.

        ``"train"``: seen chains with training keys. ``"id"``: seen chains with test keys.
        ``"ood"``: unseen chains with any key. Positions are uniform, and keys uniform among those
        that a position allows.

        Raises:
            OptionError: an unknown split; a number below 1; OOD data without unseen chains; a seed
                that is none.
        """
        if not 1 <= n <= MOST_SAMPLES:
            raise OptionError(f"n={n}: expected a whole number, 1 to {MOST_SAMPLES}")
        if not 0 <= seed < 2**32:  # what torch's generator on a CPU tells apart
            raise OptionError(f"seed={seed!r}: expected an integer from 0 to 2³² - 1")
        first, last = (self.n_seen, len(self.chains)) if split == "ood" else (0, self.n_seen)
        if first == last:
            raise OptionError('there are no chains for split "ood": name some in unseen=')
        random = torch.Generator().manual_seed(seed)
        # Whole rounds of the chains, and for the rest as many different ones, drawn.
        chains = torch.arange(n) % (last - first)
        chains = torch.randperm(last - first, generator=random)[chains] + first
        chains = chains[torch.randperm(n, generator=random)]
        positions = torch.randint(self.n_positions, (n,), generator=random)
        keys = self._keys_of(split, positions, random)
        return self.build(keys, chains, positions, random)

    def build(
        self,
        keys: Int[Tensor, "sample"],
        chains: Int[Tensor, "sample"],
        positions: Int[Tensor, "sample"],
        random: torch.Generator,
    ) -> AnchorData:
        """Sequences with these keys, chains and positions, the rest filled with noise.

        Whether a key is one for training is not checked. The result is on the CPU.

        Raises:
            OptionError: unequal lengths.
            InputError: a key, a chain or a position that the task does not have.
        """
        (low, high), last = self.numbers, self.n_positions - 1
        keys = whole_tensor("keys", keys, low, high)
        chains = whole_tensor("chains", chains, 0, len(self.chains) - 1)
        positions = whole_tensor("positions", positions, 0, last)
        low, high = self.noise or self.numbers
        tokens = torch.randint(low, high + 1, (len(keys), self.length), generator=random)
        tokens.scatter_(1, positions[:, None], keys[:, None])
        for i in range(self.n_anchors):
            ids = self._chain_ids[chains, i]
            tokens.scatter_(1, positions[:, None] + 1 + i, ids[:, None])
        targets = self._outcomes[chains, keys - self.numbers[0]]
        return AnchorData(tokens, targets, chains, keys, positions)

    def swapped(self, data: AnchorData) -> AnchorData:
        """The same sequences with the anchors of each chain in reverse; key and noise stay.

        Raises:
            InputError: sequences of another task: another length, other keys or chains.
        """
        check_width(data.tokens, self.length)
        whole_tensor("keys", data.keys, *self.numbers)
        whole_tensor("chains", data.chains, 0, len(self.chains) - 1)
        whole_tensor("positions", data.positions, 0, self.n_positions - 1)
        device = data.tokens.device
        places = data.positions[:, None] + 1 + torch.arange(self.n_anchors, device=device)
        tokens = data.tokens.scatter(1, places, data.tokens.gather(1, places.flip(1)))
        chains = self._mirror.to(device)[data.chains]
        targets = self._outcomes.to(device)[chains, data.keys - self.numbers[0]]
        return AnchorData(tokens, targets, chains, data.keys, data.positions)

    # ---- details -------------------------------------------------------------------------

    @property
    def _remainders(self) -> int:
        return self.n_positions if self.modulus == "paper" else self.length

    @property
    def _largest_token(self) -> int:
        return max(self.numbers[1], (self.noise or self.numbers)[1])

    @cached_property
    def _chain_ids(self) -> Int[Tensor, "chain anchor"]:
        ids = {name: i for i, name in enumerate(self.anchors, start=1)}
        return torch.tensor([[ids[anchor] for anchor in chain] for chain in self.chains])

    @cached_property
    def _mirror(self) -> Int[Tensor, "chain"]:
        place = {chain: i for i, chain in enumerate(self.chains)}
        return torch.tensor([place[chain[::-1]] for chain in self.chains])

    @cached_property
    def _outcomes(self) -> Int[Tensor, "chain key"]:
        low, high = self.numbers
        top = LARGEST if self.d_vocab is None else self.d_vocab - 1
        keys = range(low, high + 1)
        table = [[self._target(key, chain) for key in keys] for chain in self.chains]
        for chain, row in zip(self.chains, table, strict=True):
            if min(row) < 0 or max(row) > top:
                key, target = next((k, t) for k, t in enumerate(row, low) if not 0 <= t <= top)
                remedy = "smallest number" if target < 0 else "vocabulary (d_vocab)"
                raise InputError(
                    f"the target of {key} {' '.join(chain)} is {short(target)}, outside the "
                    f"vocabulary 0 … {top}: raise the {remedy}, or change the operations"
                )
        return torch.tensor(table)

    def _target(self, key: int, chain: Chain) -> int:
        if chain in self.violations:
            return applied(self.violations[chain], key, chain)
        value = key
        for anchor in chain:
            value = applied(self.anchors[anchor], value, anchor)
        return value

    def _keys_of(
        self, split: Split, positions: Int[Tensor, "sample"], random: torch.Generator
    ) -> Int[Tensor, "sample"]:
        low, high = self.numbers
        keys = torch.arange(low, high + 1)
        if split == "ood":
            return keys[torch.randint(len(keys), (len(positions),), generator=random)]
        held_out = keys[None, :] % self._remainders == torch.arange(self.n_positions)[:, None]
        allowed = held_out if split == "id" else ~held_out
        counts = allowed.sum(1)
        listed = allowed.int().argsort(dim=1, descending=True, stable=True)  # allowed ones first
        drawn = (torch.rand(len(positions), generator=random) * counts[positions]).long()
        drawn = torch.minimum(drawn, counts[positions] - 1)  # float32 may round 0.99999999 up
        return keys[listed[positions, drawn]]


# ---- what is refused -----------------------------------------------------------------------


def at_least(least: int, name: str, value: int, why: str = "") -> None:
    """``OptionError`` unless ``least`` or more (``why``)."""
    if value < least:
        bound = f"{least} or more" + (f" ({why})" if why else "")
        raise OptionError(f"{name}={value!r}: expected a whole number, {bound}")


def whole_tensor(
    name: str, values: Int[Tensor, "sample"], low: int, high: int
) -> Int[Tensor, "sample"]:
    """``InputError`` unless all are from ``low`` to ``high``."""
    taken = values.to(device="cpu", dtype=torch.int64)
    wrong = taken[(taken < low) | (taken > high)]
    if len(wrong):
        raise InputError(f"{name} hold {int(wrong[0])}: expected numbers from {low} to {high}")
    return taken


def applied(operation: Operation, value: int, name: str | Chain) -> int:
    """What an operation makes of a value; ``InputError`` unless that is a whole number."""
    if not callable(operation):
        return value + operation
    try:
        result = operation(value)
    except Exception as error:
        raise InputError(
            f"the operation of {name!r} raises {type(error).__name__} for {value} ({error}): "
            "expected a function of a whole number"
        ) from error
    if not is_whole(result):
        raise InputError(
            f"the operation of {name!r} makes {result!r} of {value}: expected a whole number"
        )
    return int(result)


def check_bounds(name: str, given: tuple[int, int], above: int) -> None:
    """``OptionError`` unless the tokens of a range are above the anchors'."""
    if not above < given[0] <= given[1] <= LARGEST:
        raise OptionError(
            f"{name}={given!r}: expected the smallest and the largest, the smallest above {above}, "
            "the last anchor's token id, the largest below 2³¹"
        )


def check_chain(what: str, chain: Chain, anchors: Mapping[str, Operation], n_anchors: int) -> None:
    """``OptionError`` unless ``chain`` has as many known anchors."""
    if len(chain) != n_anchors or not all(one in anchors for one in chain):
        raise OptionError(
            f"{what} names {chain!r}: expected a tuple of {n_anchors} of the anchors "
            f"{', '.join(anchors)}"
        )


def check_chains(
    what: str, given: tuple[Chain, ...], anchors: Mapping[str, Operation], n_anchors: int
) -> None:
    """Known chains, each named once, and not all there are; else ``OptionError``."""
    for chain in given:
        check_chain(what, chain, anchors, n_anchors)
    if len(set(given)) < len(given):
        raise OptionError(f"{what}={given!r} names a chain twice: name it once")
    if len(given) == len(anchors) ** n_anchors:
        raise OptionError(f"{what}={given!r} leaves no chain to train on: take one out")


def check_size(n_names: int, n_anchors: int, numbers: tuple[int, int]) -> None:
    """``OptionError`` for more targets than a task keeps a table of."""
    n_keys = numbers[1] + 1 - numbers[0]
    if n_names ** min(n_anchors, 64) * n_keys > MOST_TARGETS:
        raise OptionError(
            f"n_anchors={n_anchors} of {n_names} anchors, with {n_keys} keys, have more than "
            f"{MOST_TARGETS} targets: chain fewer, or take fewer anchors or numbers"
        )


def check_split(numbers: tuple[int, int], remainders: int, n_positions: int) -> None:
    """``InputError`` unless every position has keys for training and for test."""
    n_keys = numbers[1] + 1 - numbers[0]
    leaving = Counter(key % remainders for key in range(numbers[0], numbers[1] + 1))
    for position in range(n_positions):
        if leaving[position] in (0, n_keys):
            missing = "test" if leaving[position] == 0 else "training"
            raise InputError(
                f"numbers={numbers!r} leave no {missing} key for position {position} (a key x is a "
                f"test key there if x mod {remainders} = {position}, else a training key): take "
                "more numbers, or another length"
            )


def check_width(tokens: Int[Tensor, "sample pos"], length: int) -> None:
    """``InputError`` for another length's tokens."""
    width = tokens.shape[1]
    if width != length:
        raise InputError(
            f"sequences have {width} tokens: expected the task's {length}; pass the task that they "
            "were sampled from"
        )
