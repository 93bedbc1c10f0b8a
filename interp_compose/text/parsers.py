"""Constituents of raw text by a parser: benepar, stanza, or spaCy's noun chunks.

benepar and stanza come with ``pip install 'interp-compose[parse]'``; all three need a model that
is downloaded once, by the command that the error names.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from interp_compose.errors import MissingDataError, MissingPackageError, OptionError
from interp_compose.text.constituents import check_choice, choose, leaf_spans, leaves, read_tree
from interp_compose.text.spacy_words import english
from interp_compose.types import Span

if TYPE_CHECKING:
    from nltk import Tree

MODELS = {"benepar": "benepar_en3", "stanza": "en", "spacy": "en_core_web_sm"}
"""The parsers, and the default model of each."""


def parse_spans(
    texts: Sequence[str],
    parser: str = "benepar",
    *,
    model: str | None = None,
    labels: frozenset[str] | None = None,
    height: int | None = None,
) -> list[tuple[Span, ...]]:
    """Character spans of the constituents of each text; see :mod:`.constituents` for the choice.

    ``parser="benepar"`` takes each text as one sentence, in spaCy's words; ``"stanza"`` splits
    sentences and words itself; ``"spacy"`` gives noun chunks, for which ``labels`` and ``height``
    mean nothing. ``model`` is another name, or the folder of a model.

    Raises ``OptionError``, ``MissingPackageError`` or ``MissingDataError`` (with the command that
    gets the package or the model).
    """
    if parser not in MODELS:
        raise OptionError(f"parser {parser!r} is unknown; choose one of {', '.join(MODELS)}")
    check_choice(labels, height)
    model = model or MODELS[parser]
    if parser == "spacy":
        if labels is not None or height is not None:
            raise OptionError(
                "labels and height choose constituents of a tree, and spaCy gives noun chunks "
                'without one; leave them out, or pass parser="benepar" or "stanza"'
            )
        return [
            tuple((chunk.start_char, chunk.end_char) for chunk in doc.noun_chunks if len(chunk) > 1)
            for doc in load_spacy(model).pipe(texts)
        ]
    if parser == "benepar":
        return _by_benepar(texts, load_benepar(model), labels, height)
    return _by_stanza(texts, load_stanza(model), labels, height)


def load_benepar(model: str) -> Any:
    """A benepar parser that runs on transformers 5."""
    benepar = _package("benepar")
    restore_tokenizer_method()
    try:
        return benepar.Parser(model)
    except LookupError as error:
        raise MissingDataError(
            f"benepar has no model {model!r}; get it once with: "
            f"python -c \"import benepar; benepar.download('{model}')\""
        ) from error


def load_stanza(model: str) -> Any:
    """A stanza pipeline with a constituency parser; never downloads by itself."""
    stanza = _package("stanza")
    try:
        return stanza.Pipeline(
            model, processors="tokenize,pos,constituency", download_method=None, verbose=False
        )
    except (FileNotFoundError, ValueError) as error:
        raise MissingDataError(
            f"stanza has no model {model!r}; get it once with: "
            f"python -c \"import stanza; stanza.download('{model}')\""
        ) from error


def load_spacy(model: str, exclude: Sequence[str] = ()) -> Any:
    """A spaCy pipeline, without the components to ``exclude``."""
    import spacy

    try:
        return spacy.load(model, exclude=list(exclude))
    except OSError as error:
        raise MissingDataError(
            f"spaCy has no model {model!r}; get it once with: python -m spacy download {model}"
        ) from error


def restore_tokenizer_method() -> None:
    """Restore, on transformers 5's tokenizers, the one method that benepar 0.2 calls.

    ``build_inputs_with_special_tokens(ids)`` put BOS, CLS, SEP, EOS around ids. Here they are
    taken from an encoded word. Does nothing where the method still exists.
    """
    from transformers import PreTrainedTokenizerBase

    if not hasattr(PreTrainedTokenizerBase, "build_inputs_with_special_tokens"):
        PreTrainedTokenizerBase.build_inputs_with_special_tokens = _with_special_tokens


def _with_special_tokens(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    out = tokenizer("a", return_special_tokens_mask=True)
    marks = out["special_tokens_mask"]
    inner = [i for i, mark in enumerate(marks) if not mark]
    around: list[int] = out["input_ids"]
    return [*around[: inner[0]], *ids, *around[inner[-1] + 1 :]]


def _by_benepar(
    texts: Sequence[str],
    parser: Any,
    labels: frozenset[str] | None,
    height: int | None,
) -> list[tuple[Span, ...]]:
    import benepar

    docs = [[word for word in english()(text) if not word.is_space] for text in texts]
    sentences = [
        benepar.InputSentence(
            words=[word.text for word in doc],
            space_after=[
                text[word.idx + len(word) : word.idx + len(word) + 1].isspace() for word in doc
            ],
        )
        for text, doc in zip(texts, docs, strict=True)
    ]
    with warnings.catch_warnings():  # harmless, from benepar's torch_struct
        warnings.filterwarnings("ignore", message=".*TreeCRF.* does not define `arg_constraints`")
        trees = list(parser.parse_sents(sentences))
    out = []
    for doc, tree in zip(docs, trees, strict=True):
        word_spans = [(word.idx, word.idx + len(word)) for word in doc]
        out.append(_spans(tree, word_spans, labels, height))
    return out


def _by_stanza(
    texts: Sequence[str],
    pipeline: Any,
    labels: frozenset[str] | None,
    height: int | None,
) -> list[tuple[Span, ...]]:
    out = []
    for text in texts:
        spans: list[Span] = []
        for sentence in pipeline(text).sentences:
            low, high = sentence.tokens[0].start_char, sentence.tokens[-1].end_char
            tree = read_tree(str(sentence.constituency))
            word_spans = [(low + a, low + b) for a, b in leaf_spans(leaves(tree), text[low:high])]
            spans.extend(_spans(tree, word_spans, labels, height))
        out.append(tuple(spans))
    return out


def _spans(
    tree: Tree,
    word_spans: Sequence[Span],
    labels: frozenset[str] | None,
    height: int | None,
) -> tuple[Span, ...]:
    chosen = choose(tree, labels=labels, height=height)
    return tuple((word_spans[first][0], word_spans[last - 1][1]) for first, last in chosen)


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            f"{name} is not installed; get it with: pip install 'interp-compose[parse]'"
        ) from error
