"""A vector for each word of a text: what its tokens hold between two layers, pooled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import NonFiniteError, PositionError
from interp_compose.interventions.pooling import How, OwnPooling, check_own_pooling, pool_groups
from interp_compose.models.layers import resolve_layer
from interp_compose.models.lens_model import LensModel
from interp_compose.models.ready import (
    check_evaluating,
    check_ids,
    check_one_stack,
    check_prompts,
    check_tokenizer,
)
from interp_compose.models.texts import called_texts
from interp_compose.text.units import tokenize_prompts


class WordVectors(dict[str, Tensor]):
    """A vector ``[d_model]`` for each word of a text, in its order.

    A word that occurs again is kept apart: "dog (1)", "dog (2)", …
    """

    def __repr__(self) -> str:
        return f"<vectors of {', '.join(self)}>"

    def __missing__(self, word: str) -> Tensor:
        again = [key for key in self if key.startswith(f"{word} (")]
        raise PositionError(
            f"the text has no one word {word!r}: expected {' or '.join(again or self)[:300]}."
        )


@public
@torch.no_grad()
def word_vectors(
    model: LensModel, text: str, layer: int, how: How | OwnPooling = "mean"
) -> WordVectors:
    """The vector of each word of ``text`` as it enters block ``layer``: its tokens pooled.

    Words are those of ``unit="word"`` (:mod:`.text.units`); special tokens belong to none. Hooks,
    masks and ablations that are open act on what is read.

    Args:
        model: a decoder or an encoder from :func:`load_model`.
        text: not empty, and never cut.
        layer: 0 reads the embeddings; negative ones count from the end.
        how: ``"mean"``, ``"max"``, ``"sum"``, ``"last"`` or ``"first"`` of its tokens, or a
            function of your own, see :func:`pool_groups`.

    Returns:
        Word → ``[d_model]``, on the CPU, float32 (float64 where the model is). Words that occur
        again are "dog (1)", "dog (2)", ….

    Raises:
        InputError: an empty text, or one longer than the model reads; no tokenizer.
        LayerError: a layer outside the model.
        CapabilityError: an encoder–decoder.
        InterventionError: inside a block of :func:`.pool_at.pool_at`.
        NonFiniteError: a vector holds NaN or an infinity.
        TrainingModeError: dropout would make the numbers random.
    """
    check_one_stack(model, "word_vectors")
    check_tokenizer(model)
    check_evaluating(model)
    model.open_blocks.refuse_wrappers("word_vectors")
    check_own_pooling(how, model)
    layer = resolve_layer(layer, model.n_layers)
    with called_texts():
        prompts = tokenize_prompts(model.tokenizer, [text])
    check_prompts(model, prompts, lambda index: "the text", collapse=None)
    (prompt,) = prompts
    check_ids(model, int(prompt.ids.max()))
    tokens = torch.from_numpy(prompt.ids)[None].to(model.device)  # [1 pos]
    groups = torch.from_numpy(prompt.groups)[None].to(model.device)  # [1 pos]
    name = f"blocks.{layer}.hook_resid_pre"  # in a whole call, in which masks of all layers act
    _, store = model.capture(tokens, [name], read="hidden")
    pooled = pool_groups(store[name], groups, how, n_groups=prompt.n_groups)  # [1 word d_model]
    vectors = pooled[0].to("cpu", torch.promote_types(pooled.dtype, torch.float32))
    words = kept_apart([prompt.group_text(unit) for unit in range(prompt.n_groups)])
    _check_finite(words, vectors, layer)
    return WordVectors(zip(words, vectors, strict=True))


def kept_apart(words: Sequence[str]) -> list[str]:
    """Words that occur once as they are, others numbered."""
    total, seen, out = Counter(words), Counter[str](), []
    for word in words:
        seen[word] += 1
        out.append(word if total[word] == 1 else f"{word} ({seen[word]})")
    return out


def _check_finite(words: list[str], vectors: Float[Tensor, "word d_model"], layer: int) -> None:
    broken = (~vectors.isfinite().all(dim=1)).nonzero().flatten().tolist()
    if broken:
        raise NonFiniteError(
            f"the vector of {words[broken[0]]!r} at layer {layer} has NaN or infinite values "
            f"({len(broken)} of {len(words)} words). Load the model in float32, and check its "
            "weights."
        )
