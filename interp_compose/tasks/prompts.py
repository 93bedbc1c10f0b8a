"""Prompt templates per model family, and the papers' models.

The templates are those of the code that the authors of CARMA released; where that code has
none for a family, the one of GPT-2 is used, and a task's report says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from interp_compose.errors import OptionError

_CALLED = '{} is called a "'
_SENTIMENT = 'The sentiment of {} is "'
_LABEL = "Label the sentiment of the headline in brackets: positive, neutral, or negative. [{}] ="
_LABEL_LONG = (  # the authors' Gemma prompt is a longer variant; this wording is ours
    "Read the headline in brackets and label its sentiment with one word: "
    "positive, neutral, or negative. [{}] ="
)

TEMPLATES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "GPT2LMHeadModel": {"idm": _CALLED, "sst": _SENTIMENT},
        "Qwen2ForCausalLM": {"idm": '{} is commonly known as "', "sst": _SENTIMENT},
        "LlamaForCausalLM": {"idm": _CALLED, "sst": _LABEL},
        "GemmaForCausalLM": {"idm": _CALLED, "sst": _LABEL_LONG},
    }
)
"""Architecture → kind of task → the prompt around a text."""

DEFAULT_FAMILY = "GPT2LMHeadModel"


@dataclass(frozen=True)
class PaperModel:
    """A model of CARMA (appendix B.3) and where its authors began to pool."""

    label: str
    hub_name: str
    architecture: str
    n_layers: int
    start_layers: tuple[int, ...]


PAPER_MODELS = (
    PaperModel("GPT2-S", "gpt2", "GPT2LMHeadModel", 12, (1, 4, 5, 8, 11)),
    PaperModel("GPT2-L", "gpt2-large", "GPT2LMHeadModel", 36, (1, 8, 17, 26, 35)),
    PaperModel("Gemma-2B", "google/gemma-2b", "GemmaForCausalLM", 18, (1, 4, 8, 13, 17)),
    PaperModel("Llama-1B", "meta-llama/Llama-3.2-1B", "LlamaForCausalLM", 16, (1, 3, 7, 11, 15)),
    PaperModel("Llama-3B", "meta-llama/Llama-3.2-3B", "LlamaForCausalLM", 28, ()),
    PaperModel("Qwen-0.5B", "Qwen/Qwen2.5-0.5B", "Qwen2ForCausalLM", 24, ()),
    PaperModel("Qwen-3B", "Qwen/Qwen2.5-3B", "Qwen2ForCausalLM", 36, (1, 8, 17, 26, 35)),
)
"""Layers as the models have them (the paper's table gives Gemma-2B 32); no start layers where the
released code has none."""


@dataclass(frozen=True)
class Prompt:
    """A template, and whether it is the model family's own."""

    template: str
    family: str
    two_texts: bool = False
    """Whether the prompt is an encoder–decoder's source, and the answer begins its target."""

    @property
    def lead(self) -> str:
        """What is before an answer: a blank, or nothing at the beginning of a target or after
        an opened quotation."""
        return "" if self.two_texts or self.template.endswith('"') else " "

    def __call__(self, text: str) -> str:
        return self.template.replace("{}", text, 1)

    def before(self, text: str) -> str:
        """What the answer follows."""
        return "" if self.two_texts else self(text)


ALONE = Prompt("{}", "encoder–decoder (the text alone)", two_texts=True)
"""What an encoder–decoder reads; the authors of CARMA had none."""


def prompt_for(architecture: str, kind: str) -> Prompt:
    """The prompt of a task of this kind (``idm`` or ``sst``) for a model's architecture."""
    if kind not in TEMPLATES[DEFAULT_FAMILY]:
        raise OptionError(
            f"no prompt for tasks of the kind {kind!r}: expected one of "
            f"{', '.join(TEMPLATES[DEFAULT_FAMILY])}; give it one for each family in TEMPLATES"
        )
    if architecture in TEMPLATES:
        return Prompt(TEMPLATES[architecture][kind], architecture)
    return Prompt(
        TEMPLATES[DEFAULT_FAMILY][kind],
        f"{DEFAULT_FAMILY} (default: no template for {architecture})",
    )
