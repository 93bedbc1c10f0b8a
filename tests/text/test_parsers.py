"""Parsers: benepar with random weights on this transformers, stanza's trees, spaCy's chunks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import spacy
import torch
from nltk import Tree
from spacy.language import Language
from spacy.tokens import Doc

from interp_compose.errors import MissingDataError, MissingPackageError, OptionError
from interp_compose.text import parsers
from interp_compose.text.constituents import tree_spans
from interp_compose.text.parsers import parse_spans, restore_tokenizer_method
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example

TEXTS = ["the young dog isn't  (unhappy).", " a dog barks", "stop"]


@pytest.fixture(scope="module")
def benepar_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A benepar release of random weights over a tiny T5, as ``benepar_en3`` is laid out."""
    from benepar import nkutil
    from benepar.parse_chart import ChartParser
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import T5Config, T5Tokenizer

    folder = str(tmp_path_factory.mktemp("benepar"))
    seed = Tokenizer(models.Unigram())
    seed.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=60,
        show_progress=False,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
    )
    seed.train_from_iterator(TEXTS, trainer)
    vocab = [(piece, score) for piece, score in json.loads(seed.to_str())["model"]["vocab"]]
    T5Tokenizer(vocab=vocab, extra_ids=0).save_pretrained(folder)
    sizes = {"d_model": 16, "d_label_hidden": 8, "d_tag_hidden": 8, "d_kv": 4, "d_ff": 16}
    drops = ("morpho_emb", "relu", "residual", "attention")
    hparams = {
        **sizes,
        **{f"{name}_dropout": 0.0 for name in drops},
        "use_chars_lstm": False,
        "use_pretrained": True,
        "pretrained_model": folder,
        "use_encoder": True,
        "predict_tags": True,
        "tag_loss_scale": 1.0,
        "force_root_constituent": True,
        "encoder_max_len": 64,
        "num_heads": 2,
        "num_layers": 1,
    }
    names = {
        "tag_vocab": {"UNK": 0, "NN": 1, "DT": 2},
        "label_vocab": {"": 0, "S": 1, "NP": 2, "VP": 3},
        "char_vocab": {},
    }
    config = T5Config(vocab_size=80, d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    config.benepar = {**names, "hparams": hparams}
    config.save_pretrained(folder)
    restore_tokenizer_method()
    torch.manual_seed(0)
    parser = ChartParser(**names, hparams=nkutil.HParams(**hparams), pretrained_model_path=folder)
    torch.save(parser.state_dict(), Path(folder) / "benepar_model.bin")
    return folder


def test_benepar_parses_with_this_transformers(benepar_folder: str) -> None:
    """Random weights give a random tree, but one over the right words: everything at height 99."""
    whole = parse_spans(TEXTS, "benepar", model=benepar_folder, height=99)
    assert whole == [((0, 31),), ((1, 12),), ()]
    for text, spans in zip(TEXTS, parse_spans(TEXTS, "benepar", model=benepar_folder), strict=True):
        assert all(text[a:b] == text[a:b].strip() for a, b in spans)


def test_benepars_words_and_spans_are_those_of_its_tree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = Tree.fromstring(
        "(TOP (S (NP (DT the) (JJ young) (NN dog)) (VP (VBZ is) (RB n't)"
        " (PRN (-LRB- -LRB-) (ADJP (JJ unhappy)) (-RRB- -RRB-))) (. .)))"
    )
    asked: list[Any] = []

    def parse_sents(sentences: list[Any]) -> list[Tree]:
        asked.extend(sentences)
        return [tree]

    fake = SimpleNamespace(parse_sents=parse_sents)
    monkeypatch.setattr(parsers, "load_benepar", lambda model: fake)
    chosen = parse_spans(TEXTS[:1], "benepar", labels=frozenset({"NP", "VP"}))
    assert chosen == [((0, 13), (14, 30))]
    assert parse_spans(TEXTS[:1], "benepar", height=3) == [((0, 13), (21, 30))]
    assert asked[0].words == ["the", "young", "dog", "is", "n't", "(", "unhappy", ")", "."]
    assert asked[0].space_after == [True, True, True, False, True, False, False, False, False]


def test_the_shim_puts_specials_around_ids(
    tokenizers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import PreTrainedTokenizerBase

    name = "build_inputs_with_special_tokens"
    monkeypatch.delattr(PreTrainedTokenizerBase, name, raising=False)
    assert not hasattr(tokenizers["wordpiece"], name)
    restore_tokenizer_method()
    cls, sep = 1, 2
    assert tokenizers["wordpiece"].build_inputs_with_special_tokens([-100]) == [cls, -100, sep]
    assert tokenizers["bpe"].build_inputs_with_special_tokens([7, 8]) == [0, 7, 8]
    assert tokenizers["bpe-trimmed"].build_inputs_with_special_tokens([7]) == [7]
    mine = PreTrainedTokenizerBase.build_inputs_with_special_tokens
    restore_tokenizer_method()
    assert PreTrainedTokenizerBase.build_inputs_with_special_tokens is mine


def test_stanzas_sentences_keep_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real stanza trees; sentences, contractions and brackets land in the text."""
    from stanza.models.constituency.tree_reader import read_trees

    text = "A dog isn't (unhappy).  The young cat slept."
    read = read_trees(
        "(ROOT (S (NP (DT A) (NN dog)) (VP (VBZ is) (RB n't)"
        " (PRN (-LRB- -LRB-) (ADJP (JJ unhappy)) (-RRB- -RRB-))) (. .)))"
        " (ROOT (S (NP (DT The) (JJ young) (NN cat)) (VP (VBD slept)) (. .)))"
    )
    ends = [(0, 22), (24, 44)]
    sentences = [
        SimpleNamespace(
            constituency=tree,
            tokens=[
                SimpleNamespace(start_char=low, end_char=low + 1),
                SimpleNamespace(start_char=high - 1, end_char=high),
            ],
        )
        for tree, (low, high) in zip(read, ends, strict=True)
    ]
    monkeypatch.setattr(
        parsers, "load_stanza", lambda model: lambda text: SimpleNamespace(sentences=sentences)
    )
    spans = parse_spans([text], "stanza", height=2)[0]
    assert [text[a:b] for a, b in spans] == ["A dog", "The young cat"]
    spans = parse_spans([text], "stanza", labels=frozenset({"PRN", "S"}), height=4)[0]
    assert [text[a:b] for a, b in spans] == ["(unhappy)", "The young cat slept."]


@Language.component("heads_by_hand")
def heads_by_hand(doc: Doc) -> Doc:
    """The one sentence this pipeline can parse."""
    assert [word.text for word in doc] == ["the", "young", "dog", "chased", "cats"]
    for word, head, dep, pos in zip(
        doc,
        [2, 2, 3, 3, 3],
        ["det", "amod", "nsubj", "ROOT", "dobj"],
        ["DET", "ADJ", "NOUN", "VERB", "NOUN"],
        strict=True,
    ):
        word.head, word.dep_, word.pos_ = doc[head], dep, pos
    return doc


@pytest.fixture
def spacy_folder(tmp_path: Path) -> str:
    nlp = spacy.blank("en")
    nlp.add_pipe("heads_by_hand")
    nlp.to_disk(tmp_path / "model")
    return str(tmp_path / "model")


def test_spacys_noun_chunks(spacy_folder: str) -> None:
    assert parse_spans(["the young dog chased cats"], "spacy", model=spacy_folder) == [((0, 13),)]


def test_a_parser_serves_the_phrase_unit(
    bpe: Any, spacy_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(parsers.MODELS, "spacy", spacy_folder)
    examples = [Example("the young dog chased cats", "x")]
    prompt = tokenize_prompts(bpe, examples, unit="constituent", parser="spacy")[0]
    texts = [prompt.group_text(i) for i in range(prompt.n_groups)]
    assert texts == ["the young dog", "chased", "cats"]


def test_a_tree_and_its_parser_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = "(S (NP (DT a) (NN dog)) (VP (VBZ barks)))"
    fake = SimpleNamespace(parse_sents=lambda sentences: [Tree.fromstring(tree)])
    monkeypatch.setattr(parsers, "load_benepar", lambda model: fake)
    for height in (2, 3):
        found = parse_spans(["a  dog barks"], "benepar", height=height)[0]
        assert found == tree_spans(tree, "a  dog barks", height=height)


@pytest.mark.parametrize("name", ["benepar", "stanza"])
def test_a_missing_package_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackageError) as got:
        parse_spans(["a dog"], name)
    assert str(got.value) == (
        f"{name} is not installed; get it with: pip install 'interp-compose[parse]'"
    )


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("benepar", "python -c \"import benepar; benepar.download('no_such')\""),
        ("stanza", "python -c \"import stanza; stanza.download('no_such')\""),
        ("spacy", "python -m spacy download no_such"),
    ],
)
def test_a_missing_model_is_named_with_its_command(name: str, command: str) -> None:
    with pytest.raises(MissingDataError) as got:
        parse_spans(["a dog"], name, model="no_such")
    assert str(got.value).endswith(f"has no model 'no_such'; get it once with: {command}")


def test_unknown_parsers_and_choices_are_refused() -> None:
    with pytest.raises(OptionError, match="parser 'corenlp' is unknown; choose one of benepar"):
        parse_spans(["a"], "corenlp")
    with pytest.raises(OptionError, match="height 0 chooses nothing"):
        parse_spans(["a"], "benepar", height=0)
    with pytest.raises(OptionError, match="spaCy gives noun chunks without one"):
        parse_spans(["a"], "spacy", labels=frozenset({"NP"}))
