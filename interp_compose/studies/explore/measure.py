"""``explore``: constituent-aware pooling on a page that the running kernel answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from interp_compose._public import public
from interp_compose.errors import MissingPackageError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.ready import check_tokenizer
from interp_compose.studies.explore.answer import kind_of
from interp_compose.studies.explore.state import ExplorerState
from interp_compose.tasks.examples import ExampleRow, read_example

MOST: Final = 200
"""Examples that the page offers."""
DEFAULTS: Final = {
    "decoder": ('a young feline is called a "', ""),
    "encoder": ("a young feline", "a small cat"),
    "encoder-decoder": ("a young cat is called a kitten", ""),
}
"""A text, and a second one, where none is given."""


@public
def explore(
    model: LensModel,
    examples: str | Iterable[ExampleRow | str] = (),
    *,
    second: str = "",
    target: str = "",
) -> Any:
    """A page in the notebook: pool words and phrases, knock them out, transplant them, and see what
    becomes of the answer.

    It is built on anywidget, which runs in JupyterLab, VS Code, Colab and marimo. Every number is
    computed by this kernel when something is clicked, by :func:`pool_at`, :func:`mask_attention`,
    :func:`ablate`, and what :func:`cap_curve`, :func:`similarity_curve` and :func:`transplant`
    sweep; the code that repeats it is below them. Of a decoder it is the probability of the next
    token, of an encoder–decoder that of the target, of an encoder the cosine of two texts.

    Args:
        model: from :func:`load_model`, in evaluation mode.
        examples: a text, or several to pick from: texts, :class:`Example`, dictionaries or tuples
            (prompt, answer); the first 200 are offered. What the clean model answers is shown where
            no answer is given.
        second: an encoder's second text, or the one that phrases are transplanted from.
        target: how the target of an encoder–decoder begins.

    Returns:
        A widget with ``.state`` (an ``ExplorerState``, which may be set) and ``.curve`` (a frame
        with layer, pooling and value).

    Raises:
        MissingPackageError: anywidget is not installed.
        InputError: a model without a tokenizer, or an example that is none.
        OptionError: an example whose target is another than ``target``.
    """
    try:
        from interp_compose.studies.explore.widget import Explorer
    except ImportError as missing:
        raise MissingPackageError(
            'ic.explore needs the package anywidget: pip install "interp-compose[notebook]"'
        ) from missing
    check_tokenizer(model)
    rows: list[tuple[str, str]] = []
    for i, one in enumerate([examples] if isinstance(examples, str) else examples):
        if isinstance(one, str):
            rows.append((one, ""))
        else:
            example = read_example(one, f"example {i}")
            if example.target not in ("", target):
                raise OptionError(
                    f"example {i} has the target {example.target!r}, and the page has one for all, "
                    f"{target!r}: pass target={example.target!r}, with examples that begin so"
                )
            rows.append((example.prompt, example.answer))
    default, other = DEFAULTS[kind_of(model)]
    text, answer = rows[0] if rows else (default, "")
    state = ExplorerState(text=text, second=second or other, target=target, answer=answer or None)
    return Explorer(model, state, rows[:MOST])
