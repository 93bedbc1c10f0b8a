"""An independent similarity study: one text at a time, one intervention at a time, in float64.

No code is shared with the library but the permutation of the shuffled control. A Hugging Face
model that nobody has wrapped runs up to a layer on one text without padding, the tokens of every
unit are pooled in plain loops, and Hugging Face's own blocks take the shorter sequence from there:
with a causal mask and the last tokens' rotary positions for decoders, with neither for encoders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from interp_compose.interventions.control_spans import shuffled_groups
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.similarity import result as similarity_agreement
from tests import architectures
from tests.studies.conftest import splitting_tokenizer

ENCODERS, DECODERS = ("BERT", "RoBERTa"), ("GPT-2", "Llama")

ROWS: list[dict[str, Any]] = [
    {"text1": "wooden house", "text2": "house wooden", "score": 0.7},
    {"text1": "small sea", "text2": "sea small", "score": 0.4},
    {"text1": "not alive", "text2": "alive not", "score": 0.9, "subset": "short"},
    {"text1": "the mother of a father", "text2": "someone who bakes bread", "score": 0.1},
    {"text1": "wooden house", "text2": "small sea", "score": 0.35, "subset": "short"},
    {"text1": "a small wooden house", "text2": "the shore of a sea", "score": 0.45},
    {"text1": "a", "text2": "x", "score": 0.2},
    {"text1": "x", "text2": "b", "score": 0.6, "subset": "short"},
    {"text1": "not alive", "text2": "a", "score": 0.5},
]
"""Three mirror pairs, texts that recur, and two pairs of single tokens (pairs 6 and 7)."""

TREES = {
    "the mother of a father": "(S (NP (DT the) (NN mother)) (PP (IN of) (NP (DT a) (NN father))))",
    "someone who bakes bread": "(S (NP (NN someone)) (SB (WP who) (VP (V bakes) (N bread))))",
    "a small wooden house": "(S (DT a) (X (Y (Z (NP (JJ small) (JJ wooden))) (NN house))))",
    "wooden house": "(NP (JJ wooden) (NN house))",
    "not alive": "(S (A (B (C not))) (D (E (F (G alive)))))",
}
CHUNKS = {
    "the mother of a father": ("the mother", "of a father"),
    "someone who bakes bread": ("someone", "who bakes bread"),
    "a small wooden house": ("a", "small wooden", "house"),
    "wooden house": ("wooden house",),
    "not alive": ("not", "alive"),
}
"""What is pooled of each tree by default: the largest constituents at most 3 high, and words."""


def trees() -> list[dict[str, Any]]:
    names = list(TREES)
    return [
        {
            "text1": one,
            "text2": two,
            "tree1": TREES[one],
            "tree2": TREES[two],
            "score": 0.1 * n + 0.07 * (n % 3),
        }
        for n, (one, two) in enumerate(zip(names, names[1:] + names[:1], strict=True))
    ]


def bert_tokenizer(vocab_size: int = architectures.D_VOCAB) -> Any:
    """BERT's kind, lower-casing, with [CLS] and [SEP]; written out, so that it never changes."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    pieces += [
        "the",
        "of",
        "is",
        "called",
        "who",
        "not",
        "in",
        "wood",
        "##en",
        "house",
        "sea",
        "ho",
        "##use",
        "small",
        "fa",
        "mo",
        "##ther",
    ]
    pieces += [f"[unused{n}]" for n in range(vocab_size - len(pieces))]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )


@cache
def tokenizer_for(name: str) -> Any:
    """One for the model and its reference: training one anew may break ties otherwise."""
    return bert_tokenizer() if name in ENCODERS else splitting_tokenizer()


def wrapped(name: str) -> LensModel:
    """The model under test, from the same seed as the reference's own."""
    return load_model(architectures.build(name), tokenizer=tokenizer_for(name))


def pool(vectors: Tensor, how: str) -> Tensor:
    if how == "last":
        return vectors[-1]
    if how == "first":
        return vectors[0]
    if how == "max":
        return torch.stack([max(column) for column in vectors.T])
    total = torch.zeros(vectors.shape[1], dtype=torch.float64)
    for vector in vectors:
        total = total + vector
    return total if how == "sum" else total / len(vectors)


def cosine(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum() / ((a * a).sum().sqrt() * (b * b).sum().sqrt()))


@dataclass
class Reference:
    """One architecture, never wrapped, in float64."""

    name: str
    model: Any = None
    tokenizer: Any = None
    _seen: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.model = architectures.build(self.name).double()
        self.tokenizer = tokenizer_for(self.name)

    @property
    def core(self) -> Any:
        return self.model.base_model

    @property
    def blocks(self) -> Any:
        if self.name in ENCODERS:
            return self.core.encoder.layer
        return self.core.h if self.name == "GPT-2" else self.core.layers

    def tokens(self, text: str) -> tuple[list[int], list[bool], list[int]]:
        """Token ids, which of them are special, and where each begins (blanks aside)."""
        out = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        begins = []
        for start, end in out["offset_mapping"]:
            shown = text[start:end]
            begins.append(start + len(shown) - len(shown.lstrip()))
        return out["input_ids"], [bool(x) for x in out["special_tokens_mask"]], begins

    def units(self, text: str, unit: str) -> list[int]:
        """The unit of each token, -1 for special ones."""
        pieces: Sequence[str] = {"text": [text], "word": text.split()}.get(unit, ())
        if unit == "constituent":
            pieces = CHUNKS[text]
        owner, at = [-1] * len(text), 0
        for number, piece in enumerate(pieces):
            at = text.index(piece, at)
            owner[at : at + len(piece)] = [number] * len(piece)
            at += len(piece)
        _, special, begins = self.tokens(text)
        return [-1 if s else owner[b] for s, b in zip(special, begins, strict=True)]

    @torch.no_grad()
    def untouched(self, text: str) -> tuple[list[Tensor], list[bool]]:
        """What enters each layer, then the last hidden state; and the special positions."""
        if text not in self._seen:
            ids, special, _ = self.tokens(text)
            out = self.core(input_ids=torch.tensor([ids]), output_hidden_states=True)
            states = [state[0] for state in out.hidden_states]
            self._seen[text] = [*states[:-1], out.last_hidden_state[0]], special
        seen: tuple[list[Tensor], list[bool]] = self._seen[text]
        return seen

    @torch.no_grad()
    def pooled(
        self, text: str, units: Sequence[int], layer: int, how: str
    ) -> tuple[Tensor, list[bool]]:
        """The last hidden state ``[slot d_model]`` after pooling; and the special slots."""
        states, special = self.untouched(text)
        slots: list[list[int]] = []
        for position, unit in enumerate(units):
            if slots and unit >= 0 and units[slots[-1][-1]] == unit:
                slots[-1].append(position)
            else:
                slots.append([position])
        stream = torch.stack([pool(states[layer][slot], how) for slot in slots])[None]
        mask = None
        if self.name in DECODERS:
            n = len(slots)
            mask = torch.zeros(1, 1, n, n, dtype=torch.float64)
            mask = mask.masked_fill(torch.ones(n, n).triu(1).bool(), -1e30)
        options: dict[str, Any] = {"attention_mask": mask}
        if self.name == "Llama":
            positions = torch.tensor([[slot[-1] for slot in slots]])
            options["position_embeddings"] = self.core.rotary_emb(stream, positions)
        for block in self.blocks[layer:]:
            out = block(stream, **options)
            stream = out[0] if isinstance(out, tuple) else out
        if self.name in DECODERS:
            stream = (self.core.ln_f if self.name == "GPT-2" else self.core.norm)(stream)
        return stream[0], [special[slot[0]] for slot in slots]

    def embed(self, hidden: Tensor, special: Sequence[bool], embedding: str) -> Tensor:
        """Mean over all slots of an encoder, over the text's own of a decoder; or one slot."""
        own = [n for n, mark in enumerate(special) if not mark]
        if embedding == "cls":
            return hidden[0]
        if embedding == "last":
            return hidden[own[-1]]
        rows = range(len(special)) if self.name in ENCODERS else own
        return pool(torch.stack([hidden[n] for n in rows]), "mean")

    def untouched_cosine(self, row: dict[str, Any], layer: int, embedding: str) -> float:
        vectors = []
        for text in (row["text1"], row["text2"]):
            states, special = self.untouched(text)
            vectors.append(self.embed(states[layer], special, embedding))
        return cosine(*vectors)

    def pooled_cosine(
        self,
        row: dict[str, Any],
        unit: str,
        layer: int,
        protocol: str,
        embedding: str,
        *,
        seed: int,
    ) -> float:
        vectors = []
        for text in (row["text1"], row["text2"]):
            units, how = self.units(text, unit), protocol
            if protocol == "shuffled":
                place = crc32(text.encode())
                units = shuffled_groups(units, seed=seed, example=place, keep_last=False)
                how = "mean"
            key = (text, tuple(units), layer, how)
            if key not in self._seen:
                self._seen[key] = self.pooled(text, units, layer, how)
            vectors.append(self.embed(*self._seen[key], embedding))
        return cosine(*vectors)


@contextmanager
def few_samples() -> Iterator[None]:
    """Bootstraps of 40 samples where intervals are not what is tested."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("agreement", "bootstrap_interval"):
            short = partial(getattr(similarity_agreement, name), samples=40)
            patch.setattr(similarity_agreement, name, short)
        yield


def bare_words() -> Any:
    """Every word one token, with or without a blank in front, and a BOS."""
    words = [f"w{n}" for n in range(20)]
    tokenizer = Tokenizer(
        models.WordLevel({"<pad>": 0, "<s>": 1, **{w: n + 2 for n, w in enumerate(words)}}, "<s>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


def tsv(path: Path, *, mirrors: bool = True) -> Path:
    """The rows as a file of pairs."""
    lines = ["text1\ttext2\tscore\tsubset"]
    for row in ROWS if mirrors else ROWS[2:]:
        cells = [row["text1"], row["text2"], str(row["score"]), row.get("subset") or ""]
        lines.append("\t".join(cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
