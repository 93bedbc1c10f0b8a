"""A batch of texts through a tokenizer: ids, character offsets and specials, as flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from interp_compose.errors import AlignmentError, PromptError


@dataclass(frozen=True, eq=False)
class Encoded:
    """Every token of a batch, text after text.

    ``special`` marks the tokens that the tokenizer adds (BOS, CLS, SEP, ...), ``written`` special
    tokens of the text itself, such as those of a chat template.
    """

    ids: Int[np.ndarray, "token"]
    offsets: Int[np.ndarray, "token 2"]
    special: Bool[np.ndarray, "token"]
    written: Bool[np.ndarray, "token"]
    text_of: Int[np.ndarray, "token"]
    counts: Int[np.ndarray, "text"]


def encode(
    tokenizer: Any, texts: Sequence[str], *, offsets: bool = True, first: int = 0
) -> Encoded:
    """Encode ``texts`` with the tokenizer's special tokens, never truncated or padded; messages
    count them from ``first``.

    Offsets come from a fast tokenizer; from a slow one by decoding prefixes (:func:`_by_prefix`).
    With ``offsets=False`` they are not computed and all zero.

    Raises:
        PromptError: a text begins, or ends, with the very token that the tokenizer adds there.
        AlignmentError: ids without offsets, or without marks of the special ones.
    """
    fast = bool(getattr(tokenizer, "is_fast", False))
    out = tokenizer(
        list(texts),
        padding=False,
        truncation=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        return_special_tokens_mask=True,
        return_offsets_mapping=fast and offsets,
        verbose=False,
    )
    ids, masks = out["input_ids"], out["special_tokens_mask"]
    counts = np.fromiter(map(len, ids), np.int64, len(ids))
    for text, row, mask in zip(texts, ids, masks, strict=True):
        if len(row) != len(mask):
            raise AlignmentError(
                f"{type(tokenizer).__name__} gives {len(row)} tokens for {text!r} and marks "
                f"{len(mask)} as special or not; use the fast version of this tokenizer"
            )
    for number, (row, mask) in enumerate(zip(ids, masks, strict=True), start=first):
        for added, beside in ((0, 1), (-1, -2)):
            if len(row) > 1 and row[added] == row[beside] and mask[added] > mask[beside]:
                token = tokenizer.convert_ids_to_tokens([row[added]])[0]
                raise PromptError(
                    f"example {number}: its text {'begins' if beside == 1 else 'ends'} with the "
                    f"special token {token!r}, which the tokenizer adds itself, so that the model "
                    "would read it twice; leave it out of the text"
                )
    total = int(counts.sum())
    special = np.fromiter(chain.from_iterable(masks), bool, total)
    pairs: Iterable[tuple[int, int]]
    if not offsets:
        pairs = repeat((0, 0), total)
    elif fast:
        pairs = chain.from_iterable(out["offset_mapping"])
    else:
        pairs = chain.from_iterable(
            _by_prefix(tokenizer, text, row, mask)
            for text, row, mask in zip(texts, ids, masks, strict=True)
        )
    ranges = np.fromiter(chain.from_iterable(pairs), np.int64, 2 * total).reshape(total, 2)
    ranges[special] = 0
    flat = np.fromiter(chain.from_iterable(ids), np.int64, total)
    # An unknown word's token is no special one, though tokenizers list it among them.
    unknown = getattr(tokenizer, "unk_token_id", None)
    names = [one for one in getattr(tokenizer, "all_special_ids", ()) if one != unknown]
    return Encoded(
        ids=flat,
        offsets=ranges,
        special=special,
        written=np.isin(flat, names) & ~special,
        text_of=np.repeat(np.arange(len(ids)), counts),
        counts=counts,
    )


def _by_prefix(
    tokenizer: Any, text: str, ids: Sequence[int], special: Sequence[int]
) -> list[tuple[int, int]]:
    """Offsets from the lengths of the decoded prefixes of ``ids``.

    A token that ends inside a character (a byte of an emoji) includes that character.
    Refused unless the whole decodes to ``text`` exactly, but for blanks in front.
    """
    plain = [token for token, mark in zip(ids, special, strict=True) if not mark]
    decoded = [
        tokenizer.decode(
            plain[: n + 1], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        for n in range(len(plain))
    ]
    whole = decoded[-1] if decoded else ""
    if whole.lstrip() != text.lstrip() or "\ufffd" in text:  # (which half a character decodes to)
        raise AlignmentError(
            f"{type(tokenizer).__name__} gives no character offsets, and its tokens decode to "
            f"{whole!r} instead of {text!r}, so tokens cannot be matched to words; "
            "use the fast version of this tokenizer"
        )
    shift = len(text) - len(whole)  # blanks in front that decoding dropped (+) or added (-)
    spans, start = [], 0
    for prefix in decoded:
        agreed = _common(prefix, whole)
        end = min(agreed + 1, len(whole)) if len(prefix) > agreed or agreed == start else agreed
        spans.append((max(start + shift, 0), max(end + shift, 0)))
        start = max(start, agreed)
    rest = iter(spans)
    return [(0, 0) if mark else next(rest) for mark in special]


def _common(a: str, b: str) -> int:
    """Length of the longest common prefix."""
    n = min(len(a), len(b))
    return next((i for i in range(n) if a[i] != b[i]), n)
