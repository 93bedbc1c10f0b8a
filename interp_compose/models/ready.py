"""Checks before any work: whether a model can read the given texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from interp_compose.errors import (
    CapabilityError,
    InputError,
    InterventionError,
    PromptError,
    TrainingModeError,
)
from interp_compose.models.base import BaseModel
from interp_compose.tensors import check_autocast


@runtime_checkable
class TextAndIds(Protocol):
    """A text and its token ids ``[pos]``."""

    @property
    def text(self) -> str: ...

    @property
    def ids(self) -> Any: ...


def check_model(model: BaseModel) -> None:
    """Refuse a model in training mode, one without a tokenizer, and one inside an intervention
    that is prepared for each call."""
    if model.open_blocks.wraps_calls:
        raise InterventionError(
            f"{model.name!r} is inside a block of pool_at, mask_attention, ablate or another "
            "intervention that is made for calls of its own; end the block first."
        )
    check_autocast(model.device, f"what {model.name!r} gives")
    check_evaluating(model)
    check_tokenizer(model)


def check_unedited(model: BaseModel, why: str) -> None:
    """Refuse a model inside any intervention, or whose layers were moved; ``why`` goes on after
    "which"."""
    model.check_in_place()
    if model.open_blocks.active:
        acting = ", ".join(model.open_blocks.active)
        plain = ["hook " in one for one in model.open_blocks.active]  # named by module and kind
        ends = ["end their `with` blocks"] * (not all(plain))
        ends += ["remove plain hooks (handle.remove())"] * any(plain)
        raise InterventionError(
            f"{model.name!r} has open interventions ({acting}), which {why}; "
            f"{' and '.join(ends)} first."
        )


def check_evaluating(model: BaseModel) -> None:
    """Refuse a model in training mode. That nothing in it is random then cannot be told from its
    modules: Llama, for one, has its dropout inside of a function, at a rate that its config says.
    """
    if model.training:
        raise TrainingModeError(
            f"{model.name!r} is in training mode, in which dropout, where it has any, makes the "
            "numbers random; call model.eval() first."
        )


def check_tokenizer(model: BaseModel, passed_to: str = "load_model") -> None:
    """Refuse a model without a tokenizer; ``passed_to`` is the function that takes one for it."""
    if model.tokenizer is None:
        raise InputError(
            f"{model.name!r} came without a tokenizer; pass one to {passed_to}(…, tokenizer=…)."
        )


def check_prompts(
    model: BaseModel,
    prompts: Sequence[TextAndIds],
    which: Callable[[int], str],
    *,
    collapse: str | None,
) -> None:
    """Refuse texts longer than the context or, for a collapse, than the window of local attention.

    ``which`` names a text by its index; ``collapse`` is the remedy where a collapse would stretch
    the window, or None where nothing is shortened.
    """
    for index, prompt in enumerate(prompts):
        what = f"{which(index)} has {len(prompt.ids)} tokens and {model.name!r}"
        if len(prompt.ids) > model.n_ctx:
            raise PromptError(
                f"{what} reads {model.n_ctx}: {prompt.text[:60]!r}… Shorten it or leave it out."
            )
        if model.pad_id is not None and model.pad_id in prompt.ids:
            raise PromptError(
                f"{which(index)} holds the token {model.pad_id}, which {model.name!r} takes for "
                f"padding: {prompt.text[:60]!r}. Take it out of the text."
            )
        if collapse is not None and model.window is not None and len(prompt.ids) > model.window:
            raise PromptError(
                f"{what} has layers that look back {model.window} tokens, which a collapsed "
                f"sequence would stretch. {collapse}"
            )


def check_ids(model: BaseModel, highest: int, highest_answer: int = 0) -> None:
    """Refuse the largest token ids of a run, of texts and of answers, if the model does not have
    them."""
    for token, size in ((highest, model.d_vocab_source), (highest_answer, model.d_vocab)):
        if token >= size:
            raise InputError(
                f"the tokenizer gives token {token} and {model.name!r} knows {size}; "
                "pass the tokenizer that belongs to the model."
            )


def check_one_stack(model: BaseModel, what: str) -> None:
    """Refuse an encoder–decoder; ``what`` is what reads one text.

    Raises:
        CapabilityError: it is one.
    """
    if len(model.stacks) > 1:
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) is an encoder–decoder, and {what} reads one "
            "text; cap_curve, ablation_curve, complexity_report and all interventions take it."
        )
