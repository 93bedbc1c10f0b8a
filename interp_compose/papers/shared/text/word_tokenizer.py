"""Vocabularies of whole words as a tokenizer of Hugging Face's, with one of its own for targets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from interp_compose.papers.shared.text.vocabulary import EOS, SPECIALS, Vocabulary


class WordTokenizer(PreTrainedTokenizerFast):  # type: ignore[misc]
    """White space separates words, and ``<eos>`` follows the last one.

    Without ``ends`` nothing follows, so that a decoder can go on: its prompts end in ``<bos>``.

    Attributes:
        words: the vocabulary.
        target_tokenizer: of an encoder–decoder's targets, which have other words.
    """

    def __init__(
        self, words: Vocabulary, target_words: Vocabulary | None = None, *, ends: bool = True
    ) -> None:
        ids = {word: i for i, word in enumerate((*SPECIALS, *words.words))}
        backend = Tokenizer(models.WordLevel(vocab=ids, unk_token=SPECIALS[0]))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if ends:
            end = SPECIALS[EOS]
            backend.post_processor = processors.TemplateProcessing(
                single=f"$A {end}", special_tokens=[(end, EOS)]
            )
        pad, bos, eos = SPECIALS
        super().__init__(
            tokenizer_object=backend,
            pad_token=pad,
            bos_token=bos,
            eos_token=eos,
            clean_up_tokenization_spaces=False,
        )
        self.words = words
        self.target_tokenizer = None if target_words is None else WordTokenizer(target_words)

    def __call__(self, text: str | Iterable[str], **options: Any) -> Any:
        """Token ids.

        Raises:
            InputError: a word that the vocabulary does not have.
        """
        texts = [text] if isinstance(text, str) else list(text)
        for one in texts:
            known = " ".join(word for word in one.split() if word not in SPECIALS)
            if known:
                self.words.ids(known)
        return super().__call__(text if isinstance(text, str) else texts, **options)
