"""What is chosen on the page: texts, units, layer, pooling, knock-outs, a transplant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from interp_compose._public import public
from interp_compose.checks import is_whole
from interp_compose.errors import OptionError
from interp_compose.interventions.pooling import HOW

Range = tuple[int, int]
"""Words ``[first, stop)`` of a text."""
LISTS: Final = (
    *("units", "second_units", "heads", "transplant"),
    *("knocked_out", "second_knocked_out"),
)
"""What the page has as lists: of pairs, and of words."""


@public
@dataclass(frozen=True, kw_only=True)
class ExplorerState:
    """What is chosen; words are counted from 0.

    Attributes:
        text: the prompt; the source of an encoder–decoder; an encoder's first text.
        second: an encoder's second text; of a decoder, the one that a phrase is transplanted from.
        target: how the target of an encoder–decoder begins.
        answer: the exact text whose probability is shown, its leading blank included; None: what
            the clean model answers.
        units: ranges ``(first, stop)`` of words, each pooled into one vector; None: every word of
            several tokens.
        second_units: likewise of an encoder's second text.
        layer: whose incoming residual is pooled.
        how: the pooling.
        knocked_out: words that no query attends to, in no layer.
        second_knocked_out: likewise of an encoder's second text.
        heads: pairs (layer, head), ablated to zero.
        transplant: a phrase of the second text, and the phrase of the text whose place its vector
            takes; nothing else is pooled then.
    """

    text: str
    second: str = ""
    target: str = ""
    answer: str | None = None
    units: tuple[Range, ...] | None = None
    second_units: tuple[Range, ...] | None = None
    layer: int = 0
    how: str = "mean"
    knocked_out: tuple[int, ...] = ()
    second_knocked_out: tuple[int, ...] = ()
    heads: tuple[tuple[int, int], ...] = ()
    transplant: tuple[Range, Range] | None = None

    def as_json(self) -> dict[str, Any]:
        """As the page has it: lists in the place of tuples."""
        return {name: _listed(value) for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> ExplorerState:
        """What the page sent.

        Raises:
            OptionError: a name or a value that no page sends.
        """
        unknown = {*given} - {field.name for field in fields(cls)}
        if unknown or "text" not in given:
            raise OptionError(
                f"a state of the explorer with {', '.join(sorted(given)) or 'nothing'}: expected "
                f"text and some of {', '.join(field.name for field in fields(cls))}"
            )
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name in LISTS and value is not None:
                if not isinstance(value, Sequence):
                    raise OptionError(f"{name}={value!r}: expected a list")
                pairs = not name.endswith("knocked_out")
                value = tuple(_pair(name, each) if pairs else each for each in value)
            values[name] = value
        return cls(**values)


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


def _pair(name: str, value: Any) -> tuple[int, int]:
    if not (isinstance(value, Sequence) and len(value) == 2 and all(map(is_whole, value))):
        raise OptionError(f"{name} holds {value!r}: expected pairs of whole numbers")
    return int(value[0]), int(value[1])


def check_state(
    state: ExplorerState, n_words: int, n_second: int, n_layers: int, poolings: Sequence[str] = HOW
) -> None:
    """Refuse words and layers that are not there, and units that overlap.

    Raises:
        OptionError: names the value.
    """
    if not 0 <= state.layer < n_layers:
        raise OptionError(f"layer {state.layer}: expected 0 to {n_layers - 1}")
    if state.how not in poolings:
        raise OptionError(f"how={state.how!r}: expected one of {', '.join(poolings)}")
    _check_ranges("units", state.units or (), n_words)
    _check_ranges("second_units", state.second_units or (), n_second)
    if state.transplant is not None:
        if len(state.transplant) != 2:
            raise OptionError(
                f"transplant={state.transplant!r}: expected a phrase of the second text and one of "
                "the text"
            )
        _check_ranges("the transplant's phrase", state.transplant[:1], n_second)
        _check_ranges("the phrase that is replaced", state.transplant[1:], n_words)
        if state.knocked_out or state.heads:
            raise OptionError(
                "a transplant together with knocked-out words or heads: choose one of the two"
            )
    for name, n in (("knocked_out", n_words), ("second_knocked_out", n_second)):
        beyond = [word for word in getattr(state, name) if not 0 <= word < n]
        if beyond:
            raise OptionError(f"{name} holds {beyond[0]}, of a text of {n} words")


def _check_ranges(name: str, ranges: Sequence[Range], n_words: int) -> None:
    end = 0
    for first, stop in sorted(ranges):
        if not 0 <= first < stop <= n_words:
            raise OptionError(f"{name}: ({first}, {stop}), of a text of {n_words} words")
        if first < end:
            raise OptionError(f"{name} overlap at word {first}; a word is pooled once")
        end = stop
