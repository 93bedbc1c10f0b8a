"""What CARMA's appendix B.3 states for its seven models and two tasks, as printed."""

from __future__ import annotations

from typing import Literal, NamedTuple

from interp_compose.errors import OptionError

PaperTask = Literal["idm", "sst"]


class PaperSettings(NamedTuple):
    """λ, the layers at which both terms end, and how the training was run."""

    weight: float
    mi_end: int
    stability_end: int
    batch_size: int
    epochs: int


def paper_settings(model: str, task: str) -> PaperSettings:
    """The settings for one of the paper's models, by hub name or label; "sst" is its SC.

    Raises:
        OptionError: a model or a task that the paper does not have.
    """
    row = _BY_NAME.get(model)
    if row is None:
        known = ", ".join(f"{hub} ({label})" for label, hub, _ in _PAPER)
        raise OptionError(f"CARMA has no model {model!r}; expected one of {known}")
    if task not in row:
        raise OptionError(f"CARMA has no task {task!r}; expected one of {', '.join(row)}")
    return row[task]


_S = PaperSettings
# λ: for SC appendix B.3 says "0.3 for the rest", which are Gemma-2B and Llama-1B. Batch sizes: IDM
# "16 for the Gemma-2B and GPT models, 32 for the Qwen-3B and Llama models, and 64 for the
# Qwen-0.5B", SC "16 for the GPT models, Gemma-2B and Llama-3B; 32 for Llama-1B and Qwen-3B; and 64
# for Qwen-0.5B". Epochs: IDM two for Gemma and GPT, else three; SC two, but for Gemma-2B and
# Llama-1B three.
_PAPER = (
    ("GPT2-S", "gpt2", {"idm": _S(0.2, 3, 3, 16, 2), "sst": _S(0.4, 4, 4, 16, 2)}),
    ("GPT2-L", "gpt2-large", {"idm": _S(0.3, 8, 8, 16, 2), "sst": _S(0.4, 12, 12, 16, 2)}),
    (
        "Gemma-2B",
        "google/gemma-2b",
        {"idm": _S(0.3, 10, 10, 16, 2), "sst": _S(0.3, 10, 10, 16, 3)},
    ),
    (
        "Llama-1B",
        "meta-llama/Llama-3.2-1B",
        {"idm": _S(0.4, 7, 7, 32, 3), "sst": _S(0.3, 7, 7, 32, 3)},
    ),
    (
        "Llama-3B",
        "meta-llama/Llama-3.2-3B",
        {"idm": _S(0.5, 12, 8, 32, 3), "sst": _S(0.5, 8, 8, 16, 2)},
    ),
    ("Qwen-0.5B", "Qwen/Qwen2.5-0.5B", {"idm": _S(0.5, 5, 5, 64, 3), "sst": _S(0.4, 5, 5, 64, 2)}),
    ("Qwen-3B", "Qwen/Qwen2.5-3B", {"idm": _S(0.4, 10, 10, 32, 3), "sst": _S(0.5, 7, 7, 32, 2)}),
)
_BY_NAME = {name: rows for label, hub, rows in _PAPER for name in (label, hub)}
