"""Calls of the public names that are right but for one value, to see what comes of it.

    python -m tests.fuzz --calls 100000 --seed 0

What may come of it: an answer, or an error of the library's own whose message has at most 500
characters, or as many a line; of a study also before any work, which is to say before the model ran
and before a file was written. A caller's own function that raises is the caller's.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property, partial
from pathlib import Path
from types import FunctionType
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from hypothesis import HealthCheck, Phase, seed, settings

import interp_compose as ic
from interp_compose import cli
from interp_compose.errors import InputError, InterpComposeError
from interp_compose.papers.carma.result import Comparison
from interp_compose.papers.shared.models.decoder import SmallDecoder
from tests import architectures
from tests.papers.carma.studies.carma_tables import CONFIG, make_tables
from tests.papers.cat.studies.test_pretrain import result as pretrained_result
from tests.papers.complexity.studies.test_speed_result import result as speed_result
from tests.studies.conftest import TEXTS, splitting_tokenizer
from tests.studies.similarity_reference import ROWS, bert_tokenizer

TIME = 60  # seconds after which a call counts as endless
MEMORY = 8 << 30  # bytes of address space


@dataclass
class Call:
    """A call that is accepted as it stands.

    Attributes:
        make: its arguments, anew each time.
        fixed: arguments that are not varied.
        enter: it is a ``with`` block, in which the model runs.
        study: refused before any work, if at all.
        weight: how often it is drawn.
    """

    name: str
    function: Callable[..., Any]
    make: Callable[[], dict[str, Any]]
    fixed: Sequence[str] = ()
    enter: Callable[[], Any] | None = None
    study: bool = False
    weight: int = 8


class World:
    """Small things that calls need, made when they are first asked for."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.n = 0

    @property
    def out(self) -> Path:
        """A folder that is not there."""
        self.n += 1
        return self.root / "out" / str(self.n)

    @cached_property
    def tokenizer(self) -> Any:
        return splitting_tokenizer()

    @cached_property
    def model(self) -> Any:
        shape = ic.complexity.DecoderConfig(d_vocab=97, n_ctx=61, d_model=8, d_mlp=8)
        model = ic.complexity.small_decoder(shape, init_rate=0.3, seed=0, tokenizer=self.tokenizer)
        model.require("resume", "mask_attention")  # probes run once, and are no work of a call's
        model.proofs.n_neurons()
        return model

    @cached_property
    def bridge(self) -> Any:
        torch.manual_seed(0)
        model = ic.load_model(architectures.build("GPT-2"), tokenizer=self.tokenizer)
        model.require("resume", "mask_attention")
        model.proofs.n_neurons()
        return model

    @cached_property
    def examples(self) -> list[Any]:
        return [
            ic.Example(f'{text} "', answer) for text, answer in zip(TEXTS, "abcde", strict=True)
        ]

    @cached_property
    def task(self) -> Any:
        split = tuple(self.examples[:3])
        return ic.Task("tiny", "{}", split, split, split, {})

    @cached_property
    def tokens(self) -> torch.Tensor:
        return torch.tensor([[0, 5, 9, 44, 60, 7], [0, 8, 30, 31, 32, 33]])

    @cached_property
    def groups(self) -> torch.Tensor:
        return torch.tensor([[-1, 0, 0, 1, 1, 2], [-1, 0, 0, 0, 1, 2]])

    @cached_property
    def cap(self) -> Any:
        return ic.cap_curve(self.model, self.examples, progress=False)

    @cached_property
    def transplants(self) -> list[Any]:
        rows = [
            ("the shore is", (4, 9), "not alive", (0, 3)),
            ("a small sea", (2, 7), "x y z", (2, 3)),
        ]
        return [
            ic.TransplantPair(*row, *answers)
            for row, answers in zip(rows, ("ab", "cd"), strict=True)
        ]

    @cached_property
    def transplanted(self) -> Any:
        return ic.transplant(self.model, self.transplants, controls=False, progress=False)

    @cached_property
    def ablation(self) -> Any:
        return ic.ablation_curve(self.model, self.examples, progress=False)

    @cached_property
    def pairs(self) -> list[dict[str, Any]]:
        return [{key: row[key] for key in ("text1", "text2", "score")} for row in ROWS[:4]]

    @cached_property
    def similarity(self) -> Any:
        rows = self.pairs
        return ic.similarity_curve(self.model, rows, unit="word", layers=[0], progress=False)

    @cached_property
    def report(self) -> Any:
        return ic.complexity_report(self.model, progress=False)

    @cached_property
    def comparison(self) -> Any:
        return Comparison.from_runs(make_tables(seeds=range(2)), {**CONFIG, "seeds": [0, 1]})

    @cached_property
    def run(self) -> Any:
        return ic.complexity.PhaseRun(
            d_model=8, d_mlp=8, n_layers=1, samples=150, steps=2, n_test=20
        )

    @cached_property
    def phases(self) -> Path:
        out = self.root / "phases"
        self.diagram_in(out)
        return out

    def diagram_in(self, out: Path) -> Any:
        options: Any = {"seeds": 1, "run": self.run, "where": "here", "progress": False}
        return ic.complexity.phase_diagram([0.4, 0.8], [0.01], out, **options)

    @cached_property
    def diagram(self) -> Any:
        return self.diagram_in(self.phases)

    @cached_property
    def speed(self) -> Any:
        return speed_result()

    @cached_property
    def seq2seq(self) -> Any:
        shape = ic.lrf.Seq2SeqConfig(
            9, 8, 5, n_encoder_layers=1, n_decoder_layers=1, d_model=8, n_heads=2, d_mlp=8
        )
        return ic.lrf.small_seq2seq(shape, seed=0)

    @cached_property
    def sequences(self) -> Any:
        some = tuple(ic.SequencePair(f"a {word}", f"x {word}") for word in "bcdefghi")
        return ic.SequenceTask("tiny", {"train": some[3:], "test": some[:3]}, {})

    @cached_property
    def sequence_run(self) -> Any:
        shape = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 8, "n_heads": 2}
        return ic.lrf.SequenceTraining(**shape, d_mlp=8, max_steps=2, n_looks=1, n_curve=2)

    @cached_property
    def image_run(self) -> Any:
        few = {"samples": 8, "max_steps": 2, "n_steps": 4, "sample_steps": 1, "n_images": 1}
        return ic.complexity.ImageTraining(**few, channels=(2,), n_looks=1, n_curve=1)

    @cached_property
    def compared(self) -> Any:
        options: Any = {"seeds": 1, "run": self.sequence_run, "where": "here", "progress": False}
        return ic.lrf.generalise(self.sequences, ["lrf"], self.root / "compared", **options)

    @cached_property
    def fusion(self) -> Any:
        assert self.compared
        return ic.lrf.fusion(self.root / "compared", n_pairs=2, n_probe=8, progress=False)

    @cached_property
    def mechanism(self) -> Any:
        return ic.complexity.mechanism(self.phases, [0.4, 0.8], progress=False)

    @cached_property
    def history(self) -> Any:
        config = ic.TrainConfig(max_steps=1)
        return ic.finetune(self.model, self.task, config=config, progress=False).history

    @cached_property
    def anchors(self) -> Any:
        return ic.complexity.AnchorTask()

    @cached_property
    def data(self) -> Any:
        return self.anchors.sample("train", 5, seed=0)

    @cached_property
    def saved(self) -> Path:
        return Path(self.cap.save(self.root / "saved"))

    @cached_property
    def weights(self) -> Path:
        return ic.save_weights(self.model, self.root / "weights.safetensors")

    @cached_property
    def jsonl(self) -> Path:
        path = self.root / "rows.jsonl"
        path.write_text('{"prompt": "not alive \\"", "answer": "a"}\n' * 2, encoding="utf-8")
        return path

    @cached_property
    def tsv(self) -> Path:
        path = self.root / "pairs.tsv"
        path.write_text("text1\ttext2\tscore\na b\tb a\t0.5\nnot\talive\t1\n", encoding="utf-8")
        return path

    @cached_property
    def text(self) -> Path:
        path = self.root / "text.txt"
        path.write_text("a b a b\n\nb c b c\n\nc a c a", encoding="utf-8")
        return path

    @cached_property
    def sentences(self) -> Path:
        path = self.root / "sentences.txt"
        lines = [f"{one} sees {other}.\nso {other} runs." for one in "abcd" for other in "abcd"]
        path.write_text("\n\n".join(lines), encoding="utf-8")
        return path

    @cached_property
    def sememes(self) -> Any:
        return ic.cat.Sememes(("animal", "act"), {"a": (0,), "b": (0,), "sees": (1,), "runs": (1,)})

    @cached_property
    def annotations(self) -> Path:
        path = self.root / "annotations"
        path.mkdir()
        for name, text in (
            ("sememe_1400_EnZh.txt", "animal|动物\n"),
            ("hownet.txt", "狗\t动物\n"),
            ("en2zh_dict.txt", "dog\t狗\n"),
        ):
            (path / name).write_text(text, encoding="utf-8")
        return path

    @cached_property
    def encoder_run(self) -> Any:
        shape = {"n_ctx": 16, "n_layers": 1, "d_model": 8, "n_heads": 2, "d_mlp": 8, "n_codes": 3}
        return ic.cat.EncoderTraining(**shape, max_steps=2, batch_tokens=99, n_looks=1, n_curve=2)

    @cached_property
    def pretrained(self) -> Any:
        return pretrained_result()

    @cached_property
    def trained_encoders(self) -> Any:
        options: Any = {"seeds": 1, "run": self.encoder_run, "where": "here", "progress": False}
        ic.cat.pretrain(
            self.sentences, ["bert"], self.root / "bert", held_out=0.3, vocab_size=30, **options
        )
        return self.root / "bert"

    @cached_property
    def trained_codes(self) -> Any:
        options: Any = {"seeds": 1, "run": self.encoder_run, "where": "here", "progress": False}
        options |= {"sememes": self.sememes, "held_out_words": 0.5}
        ic.cat.pretrain(
            self.sentences, ["cat"], self.root / "cat", held_out=0.3, vocab_size=30, **options
        )
        return self.root / "cat"

    @cached_property
    def csv(self) -> str:
        path = self.root / "csv"
        path.mkdir()
        (path / "train.csv").write_text("text,label\na,0\nb,1\n")
        return str(path)

    @cached_property
    def trees(self) -> Path:
        path = self.root / "trees"
        path.mkdir()
        for name in ("train.txt", "dev.txt", "test.txt"):
            (path / name).write_text("(1 (2 So) (0 dull))\n(4 (2 So) (4 lively))\n")
        return path

    @cached_property
    def labelled(self) -> Any:
        items = tuple(ic.cat.LabelledText(f"the dog {i}", None, float(i % 2)) for i in range(6))
        return ic.cat.LabelledTask("names", {"train": items, "test": items}, ("no", "yes"))

    @cached_property
    def squad(self) -> Any:
        """A folder of SQuAD's files, and what is in them."""
        path = self.root / "squad"
        path.mkdir()
        answers = [{"answer_start": 4, "text": "dog"}]
        asked = {"id": "q", "question": "who barks?", "answers": answers}
        paragraph = {"context": "the dog barks at the cat", "qas": [asked]}
        article = {"title": "t", "paragraphs": [paragraph]}
        for name in ("train-v1.1", "dev-v1.1", "sample1k-HCVerifyAll", "sample1k-HCVerifySample"):
            (path / f"{name}.json").write_text(json.dumps({"data": [article]}))
        return path

    @cached_property
    def squad_rows(self) -> str:
        """The same as data sets on the hub have it."""
        path = self.root / "squad_rows"
        path.mkdir()
        answers = {"text": ["dog"], "answer_start": [4]}
        row = {"id": "q", "question": "who barks?", "context": "the dog barks", "answers": answers}
        for name in ("train", "validation"):
            (path / f"{name}.jsonl").write_text(json.dumps(row))
        return str(path)

    @cached_property
    def bert(self) -> Any:
        torch.manual_seed(0)
        return ic.load_model(architectures.build("BERT"), tokenizer=bert_tokenizer())

    @cached_property
    def folder(self) -> Path:
        path = self.root / "gpt2"
        architectures.build("GPT-2").save_pretrained(path)
        self.tokenizer.save_pretrained(path)
        return path

    @cached_property
    def thesaurus(self) -> Any:
        return ic.carma.ThesaurusSource(
            {"shore": ["coast"], "wooden": ["timber"], "house": ["home"]}
        )


W = World()


POINT = "blocks.1.hook_resid_pre"


def hook(activation: torch.Tensor, hook: Any) -> None:
    """Sees, and leaves what it sees."""


class Pass:
    """An edit of attention that changes nothing."""

    def scores(self, scores: torch.Tensor) -> torch.Tensor:
        return scores

    def pattern(self, pattern: torch.Tensor) -> torch.Tensor:
        return pattern


def work(config: Mapping[str, Any], folder: Path) -> None:
    """What a sweep does."""
    (folder / "done.txt").write_text("done")


def called(
    function: Any, often: int = 8, /, _study: bool = False, _fixed: Sequence[str] = (), **make: Any
) -> Call:
    """Arguments as they stand, or functions that make them."""

    def made() -> dict[str, Any]:
        return {k: one() if isinstance(one, FunctionType) else one for k, one in make.items()}

    name = getattr(function, "__qualname__", str(function))
    return Call(name, function, made, _fixed, study=_study, weight=often)


LEXICON = {"the": (), "dog": ("c", "d")}
STUDY: dict[str, Any] = {"_study": True, "progress": False, "_fixed": ("progress",)}


def calls_of_a_model(kind: str) -> Iterator[Call]:
    def model() -> Any:
        return getattr(W, kind)

    def method(name: str, /, **make: Callable[[], Any]) -> Call:
        def of(**given: Any) -> Any:
            return getattr(model(), name)(**given)

        return Call(f"{kind}.{name}", of, lambda: {key: one() for key, one in make.items()})

    def block(name: str, /, **make: Callable[[], Any]) -> Call:
        return replace(method(name, **make), enter=run)

    def run() -> Any:
        return model()(W.tokens)

    def mask() -> torch.Tensor:
        return torch.ones_like(W.tokens)

    def at() -> torch.Tensor:
        return torch.arange(6).expand(2, 6)

    def resid() -> torch.Tensor:
        return torch.ones(2, 6, {"model": 8, "bridge": 40}[kind])

    def hooks() -> list[Any]:
        return [(POINT, hook)]

    given: dict[str, Any] = {"tokens": lambda: W.tokens, "attention_mask": mask}
    streams: dict[str, Any] = {"attention_mask": mask, "position_ids": at}
    yield method("__call__", **given)
    yield method("forward", **given, read=lambda: "logits")
    yield method("encode", **given)
    yield method("capture", **given, names_filter=lambda: [POINT], grad=lambda: False)
    yield method("run_with_hooks", **given, fwd_hooks=hooks)
    yield block("hooks", fwd_hooks=hooks)
    yield block("editing_attention", edits=lambda: {0: Pass()})
    yield method("resid_pre", **given, layer=lambda: 1)
    yield method("run_blocks", resid=resid, start=lambda: 0, stop=lambda: 1, **streams)
    yield method("resume", resid=resid, start=lambda: 1, **streams, read=lambda: "last")
    yield method("unembed", resid=resid)
    yield method("plain", tokens=lambda: W.tokens)
    yield method("plain_hidden", tokens=lambda: W.tokens)
    yield method("weight", name=lambda: "W_Q")
    yield method("load_state_dict", state=lambda: dict(model().state_dict()))
    yield Call(f"{kind}.require", lambda one: model().require(one), lambda: {"one": "resume"})
    common: dict[str, Any] = {"layers": lambda: [0, 1]}
    for function, more in (
        (ic.mask_attention, {"keys": lambda: [1], "queries": lambda: None, "heads": lambda: [0]}),
        (ic.mask_residual, {"positions": lambda: [2], "part": lambda: "block"}),
        (ic.ablate, {"heads": lambda: [(1, 0)], "positions": lambda: [2], "seed": lambda: 0}),
        (ic.ablate, {"neurons": lambda: [1], "how": lambda: "mean", "reference": given["tokens"]}),
    ):
        options = {**common, **more}
        if "mode" not in options and function is ic.mask_attention:
            options["mode"] = lambda: "exclude"

        def make(options: Any = options) -> dict[str, Any]:
            return {"model": model(), **{k: v() for k, v in options.items()}}

        yield Call(f"{function.__name__}({kind})", function, make, enter=run)  # type: ignore[attr-defined]
    yield Call(
        f"pool_at({kind})",
        ic.pool_at,
        lambda: {
            "model": model(),
            "layer": 1,
            "groups": W.groups,
            "how": "mean",
            "mode": "collapse",
            "renumber": False,
        },
        enter=run,
    )
    yield Call(
        f"attention_leak({kind})",
        ic.attention_leak,
        lambda: {
            "model": model(),
            "tokens": W.tokens,
            "keys": [2],
            "attention_mask": mask(),
            "queries": None,
            "layers": None,
            "heads": None,
            "mode": "exclude",
            "draws": 1,
            "seed": 0,
        },
        weight=3,
    )


def calls_of_numbers() -> Iterator[Call]:
    def x() -> torch.Tensor:
        return torch.randn(3, 2, 6, 4)

    def ids() -> torch.Tensor:
        return torch.tensor([[-1, 0, 0, 1, 1, 2]] * 2)

    def matrix() -> torch.Tensor:
        return torch.randn(6, 5)

    yield called(
        ic.mutual_information_loss, resid=x, word_ids=ids, temperature=0.1, negatives="all"
    )
    yield called(ic.mutual_information_loss, resid=x, word_ids=ids, negatives=2, seed=0)
    yield called(ic.stability_loss, resid=x, mask=ids, eps=1e-8)
    yield called(ic.stable_rank, A=matrix, tolerance=1e-4)
    yield called(ic.effective_rank, A=matrix)
    yield called(ic.spectral_entropy, A=matrix)
    yield called(ic.condensation, W=matrix, threshold=0.4)
    yield called(
        ic.complexity.embedding_geometry,
        W_E=lambda: torch.randn(9, 5),
        tokens=lambda: [0, 1, 2, 3, 5],
        components=2,
        steps=lambda: [1, 2],
        permutations=3,
        seed=0,
    )
    yield called(
        ic.pool_groups,
        activations=lambda: torch.randn(2, 6, 4),
        groups=lambda: W.groups,
        how="mean",
        n_groups=lambda: 3,
    )
    train = {
        "lr": 1e-3,
        "epochs": 1,
        "max_steps": 5,
        "batch_size": 4,
        "accumulate": 1,
        "warmup_steps": 0,
        "schedule": "linear",
        "final_lr": 0.0,
        "weight_decay": 0.1,
        "clip": 1.0,
        "evaluate_every": 2,
        "checkpoint_every": 2,
        "patience": 2,
        "precision": "float32",
        "activation_checkpointing": False,
        "seed": 0,
    }
    yield called(ic.TrainConfig, **train)
    config = ic.TrainConfig(**train)  # type: ignore[arg-type]
    yield called(config.lr_at, step=1, total=5)
    yield called(config.total_steps, n_examples=5)
    yield called(config.steps_per_epoch, n_examples=5)
    yield called(config.warmup_of, total=5)
    yield called(ic.TrainConfig.suggested, n_parameters=10)
    yield called(
        ic.CarmaConfig,
        weight=0.2,
        mi_weight=0.2,
        stability_weight=0.3,
        layers=(1, 2),
        stability_layers=(1, 2),
        temperature=0.1,
        negatives=5,
        unit="word",
    )
    for name in ("resolved", "captured_layers", "hook_names"):
        yield called(getattr(ic.CarmaConfig(), name), n_layers=4)
    yield called(ic.CarmaConfig.from_paper, model="gpt2", task="idm")
    yield called(ic.complexity.InitRates, embed=0.5, qk=0.5, vo=0.5, mlp=0.5)
    yield called(
        ic.complexity.DecoderConfig,
        d_vocab=20,
        n_ctx=9,
        n_layers=1,
        d_model=8,
        n_heads=2,
        d_mlp=8,
        d_head=4,
        norm="pre",
        act="gelu",
        biases="all",
    )
    yield called(
        ic.lrf.Seq2SeqConfig,
        d_vocab=9,
        d_vocab_out=8,
        n_ctx=5,
        n_encoder_layers=1,
        n_decoder_layers=1,
        d_model=8,
        n_heads=2,
        d_mlp=8,
        fuse="both",
        positions="relative",
        norm="pre",
        act="relu",
        tied=False,
        dropout=0.1,
    )
    encoder: dict[str, Any] = {
        "d_vocab": 20,
        "n_ctx": 9,
        "n_layers": 1,
        "d_model": 8,
        "n_heads": 2,
        "d_mlp": 8,
        "n_segments": 2,
        "composition": "every",
        "n_codes": 5,
        "n_last_codes": None,
        "composer": "codes",
        "level": "word",
        "mix": "layer",
        "act": "gelu",
        "eps": 1e-12,
        "dropout": 0.1,
    }
    yield called(ic.cat.EncoderConfig, **encoder)
    shape = ic.cat.EncoderConfig(**encoder)
    yield called(ic.cat.small_encoder, config=lambda: shape, seed=0, tokenizer=None)
    modules: dict[str, Any] = {name: encoder[name] for name in ("n_codes", "composer")}
    yield called(
        ic.cat.composed_encoder,
        2,
        model=lambda: W.bert,
        seed=0,
        composition="last",
        **modules,
        n_last_codes=3,
        frozen=True,
    )
    yield called(
        ic.lrf.small_seq2seq,
        config=lambda: ic.lrf.Seq2SeqConfig(
            9, 8, 5, n_encoder_layers=1, n_decoder_layers=1, d_model=8, n_heads=2, d_mlp=8
        ),
        seed=0,
        source_words=None,
        target_words=None,
    )
    asked: dict[str, Any] = {
        "model": lambda: W.seq2seq,
        "source": lambda: torch.tensor([[3, 4], [5, 2]]),
        "source_mask": lambda: torch.ones((2, 2), dtype=torch.long),
        "max_length": 4,
        "start": lambda: [1],
        "eos": 2,
        "cached": True,
    }
    yield called(ic.lrf.greedy_search, **asked)
    yield called(ic.lrf.beam_search, n_beams=2, length_penalty=1.0, **asked)
    yield called(
        ic.complexity.small_decoder,
        config=lambda: ic.complexity.DecoderConfig(d_model=8, d_mlp=8),
        init_rate=0.5,
        seed=0,
        distribution="normal",
        fan_in="own",
        scale_writers=False,
    )

    def checked_run(**options: Any) -> None:
        ic.complexity.PhaseRun(**options).check()

    training = {one.name: getattr(W.encoder_run, one.name) for one in fields(W.encoder_run)}
    yield called(ic.cat.EncoderTraining, **training)
    run = {one.name: getattr(W.run, one.name) for one in fields(W.run)}
    yield called(checked_run, **run)
    yield called(W.run.stream, name="init")


def tables(kind: str) -> Iterator[Callable[[], Any]]:
    """Rows of a kind in several forms."""

    def rows() -> list[dict[str, Any]]:
        if kind == "examples":
            spans = [np.array([0, 1]), np.array([2, 3])]
            return [
                {"prompt": f"{one.prompt} x", "answer": one.answer, "spans": spans}
                for one in W.examples
            ]
        if kind == "transplants":
            found = [{**vars(one)} for one in W.transplants]
            return [{key: one for key, one in row.items() if one} for row in found]
        return [dict(row) for row in W.pairs]

    yield lambda: [tuple(row.values()) for row in rows()]
    yield lambda: pd.DataFrame(rows())
    yield lambda: pd.DataFrame(rows()).convert_dtypes()
    yield lambda: pa.Table.from_pandas(pd.DataFrame(rows()))
    yield lambda: {key: [row[key] for row in rows()] for key in rows()[0]}


def calls_of_data() -> Iterator[Call]:
    yield called(
        ic.complexity.AnchorTask,
        anchors=lambda: {"a": 5, "b": 1, "c": -2, "d": -8},
        unseen=(("c", "d"), ("d", "c")),
        n_anchors=2,
        length=9,
        numbers=(20, 99),
        noise=(20, 99),
        modulus="paper",
        violations=lambda: {("a", "b"): 4},
        d_vocab=120,
    )
    task, data = W.anchors, W.data
    yield called(task.sample, split="train", n=5, seed=0)
    yield called(task.apply, key=23, chain=("a", "b"))
    yield called(task.is_test_key, key=23, position=1)
    yield called(task.swapped, data=lambda: W.data)
    yield called(
        task.build,
        keys=lambda: data.keys,
        chains=lambda: data.chains,
        positions=lambda: data.positions,
        random=lambda: torch.Generator().manual_seed(0),
    )
    yield called(data.__getitem__, which=lambda: torch.tensor([0, 1]))
    yield called(data.to, device="cpu")
    yield called(ic.complexity.anchor_tokenizer, task=lambda: W.anchors)
    yield called(ic.complexity.anchor_examples, task=lambda: W.anchors, data=lambda: W.data)
    yield called(
        ic.complexity.anchor_transplants, task=lambda: W.anchors, data=lambda: W.data, seed=1
    )
    yield called(ic.Example, prompt="a b", answer=" c", spans=((0, 1),), tree="(S (A a) (B b))")
    yield called(ic.Pair, text1="a b", text2="b a", score=0.5, subset="x", tree1="(S (A a) (B b))")
    split = (ic.Example("a", "b"),)
    splits = {"train": split, "validation": split, "test": split}
    yield called(ic.Task, name="t", template="{}", **splits, report=lambda: {"n": 1})
    yield called(W.task.split, name="train")
    two = (ic.Pair("a", "b", 0.5),)
    yield called(ic.PairTask, name="t", train=two, test=two, report=lambda: {"n": 1})
    yield called(ic.PairTask("t", two, two, {}).split, name="train")
    yield called(ic.read_examples, source=lambda: W.jsonl)
    yield called(ic.read_examples, source=lambda: [{"prompt": "a b", "answer": "c"}])
    for form in tables("examples"):
        yield called(ic.read_examples, source=form)
        yield called(ic.Task, name="t", train=form, test=form)
    for form in tables("pairs"):
        yield called(ic.read_pairs, source=form)
    yield called(ic.read_pairs, source=lambda: W.tsv)
    yield called(ic.read_pairs, source=lambda: [dict(row) for row in W.pairs])
    yield called(ic.load_pairs, name=lambda: W.tsv, data_dir=None)
    given = {"labels": ("no", "yes"), "metrics": ("accuracy",), "report": lambda: {"n": 1}}
    yield called(ic.cat.LabelledTask, name="t", splits=lambda: dict(W.labelled.splits), **given)
    yield called(ic.cat.LabelledText, text1="a", text2="b", target=1.0)
    yield called(W.labelled.split, name="train")
    yield called(W.labelled.limited, limit=3)
    yield called(
        ic.cat.labelled_from_hub,
        source=lambda: W.csv,
        texts=lambda: ["text"],
        target="label",
        config=None,
        splits=lambda: {"train": "train", "test": "train"},
        labels=lambda: ["no", "yes"],
        metrics=lambda: ["accuracy"],
    )
    yield called(ic.cat.load_squad, data_dir=lambda: W.squad)
    yield called(ic.cat.squad_from_hub, source=lambda: W.squad_rows, adversarial=None)
    asked = ic.cat.Question("q", "who barks?", "the dog barks", ((4, "dog"),))
    given = {"id": "q", "question": "a?", "context": "the dog", "answers": ((4, "dog"),)}
    yield called(ic.cat.Question, **given)
    splits = {"train": (asked,), "test": (asked,)}
    yield called(ic.cat.SpanTask, name="t", splits=lambda: dict(splits), report=lambda: {"n": 1})
    yield called(ic.cat.SpanTask("t", splits).split, name="train")
    yield called(ic.cat.SpanTask("t", splits).limited, limit=3)
    yield called(ic.cat.load_labelled, name="sst", data_dir=lambda: W.trees)
    yield called(ic.load_sequences, name="scan-length-5", data_dir=None, seed=None)

    def watched() -> Path:
        path: Path = W.out / "w.jsonl"
        ic.watch(W.model, measures=("stable_rank",), path=path)(0)
        return path

    yield called(ic.Watched.read, path=watched)
    yield called(ic.read_pairs, source=lambda: W.tsv)
    yield called(
        ic.complexity.prontoqa,
        hops=1,
        longer=0,
        n_train=20,
        n_test=10,
        n_concepts=4,
        n_properties=2,
        seed=0,
    )
    yield called(ic.load_text, source=lambda: W.text, documents="blank-line", held_out=0.3)
    parts = {"train": ("a b", "c"), "held_out": ("d",)}
    yield called(ic.TextCorpus, name="t", **parts, report=lambda: {"n": 1})
    words = {"dog": (0,), "cat": (0, 1), "runs": (1,), "sees": (1,)}
    yield called(ic.cat.Sememes, names=("animal", "act"), words=lambda: words)
    yield called(ic.cat.Sememes(("animal", "act"), words).split, share=0.5)
    yield called(ic.cat.load_sememes, folder=lambda: W.annotations)
    yield called(ic.SequencePair, source="a b", target="c", kind="x")
    sides = {"train": (ic.SequencePair("a", "b"),), "gen": (ic.SequencePair("c", "b"),)}
    yield called(ic.SequenceTask, name="t", splits=lambda: sides, report=lambda: {"n": 1})
    yield called(ic.SequenceTask("t", sides, {}).split, name="gen")
    red = ic.lrf.CompoundTest(
        (ic.SequencePair("the dog", "c", "NP"),) * 5, ("the dog",) * 5, LEXICON
    )
    yield called(
        ic.lrf.CompoundTest,
        pairs=lambda: red.pairs,
        compounds=lambda: red.compounds,
        lexicon=lambda: dict(LEXICON),
    )
    yield called(red.translated, translations=lambda: ["c"] * 5)
    yield called(red.error_rates, translations=lambda: ["c"] * 5)
    yield called(
        ic.lrf.bleu, translations=lambda: ["a b"], references=lambda: ["a b"], tokenize="zh"
    )
    row = {"source": "a b", "source_span": (0, 1), "target": "c d", "target_span": (0, 1)}
    yield called(ic.TransplantPair, **row, expected="e", answer="f", composed="a d")
    given = {"model": lambda: W.model, "seed": 0}
    yield called(ic.load_transplants, name=lambda: "anchors", **given)
    yield called(ic.load_task, name=lambda: W.jsonl, model=lambda: W.model, data_dir=None, seed=0)
    yield called(ic.carma.ThesaurusSource, mapping=lambda: {"shore": ["coast"]}, name="mine")
    yield called(ic.carma.ThesaurusSource({"a": ["b"]}).candidates, word="a", pos="NOUN")
    yield called(
        ic.carma.synonym_source, name="shipped", task="mini-idm", data_dir=None, frequency=None
    )
    yield called(
        ic.carma.replace_synonyms,
        examples=lambda: list(W.examples),
        source=lambda: W.thesaurus,
        rate=0.5,
        seed=0,
        template="{}",
        top_n=5,
        tagger=None,
    )
    yield called(
        ic.tokenize_prompts,
        tokenizer=lambda: W.tokenizer,
        examples=lambda: list(W.examples),
        unit="word",
        labels=None,
        height=None,
        parser=None,
    )
    phrase = {"unit": "constituent", "labels": frozenset({"S"}), "height": 2}
    yield called(
        ic.tokenize_prompts,
        tokenizer=lambda: W.tokenizer,
        examples=lambda: [ic.Example("a b", " c", tree="(S (A a) (B b))")],
        **phrase,
    )
    yield called(
        ic.tokenize_prompts,
        tokenizer=lambda: W.tokenizer,
        examples=lambda: [ic.Example("a b", " c", spans=((0, 1), (1, 3)))],
        unit="span",
    )
    yield called(
        ic.watch,
        model=lambda: W.model,
        measures=("stable_rank",),
        every=5,
        budget=0.02,
        matrices=("W_Q",),
        path=lambda: W.out / "t.jsonl",
        also=None,
    )
    yield called(
        ic.attention_leak, model=lambda: W.model, tokens=lambda: TEXTS[:1], keys=[1], draws=1
    )
    yield called(ic.save_weights, model=lambda: W.model, path=lambda: W.out / "w.safetensors")
    yield called(ic.load_weights, model=lambda: W.model, path=lambda: W.weights)
    yield called(ic.complexity.save_decoder, model=lambda: W.model, folder=lambda: W.out)
    yield called(ic.save_model, model=lambda: W.model, folder=lambda: W.out)
    loaded = called(
        ic.load_model,
        source=lambda: W.folder,
        name="own",
        tokenizer=None,
        device="cpu",
        dtype=None,
        revision=None,
        device_map=None,
        trust_remote_code=False,
    )
    yield replace(loaded, weight=1)


def calls_of_studies() -> Iterator[Call]:
    units = {"unit": "word", "labels": None, "height": None, "parser": None}
    run = {
        "layers": lambda: [0, 1],
        "batch_size": 4,
        "seed": 0,
        "task": "t",
        "resume": lambda: W.out,
    }
    examples = {"model": lambda: W.model, "examples": lambda: list(W.examples)}
    yield called(
        ic.cap_curve,
        12,
        **examples,
        **units,
        pooling=("mean", "max"),
        mode="collapse",
        controls=True,
        renumber=False,
        multi_token_answers=False,
        **run,
        **STUDY,
    )
    yield called(
        ic.transplant,
        8,
        model=lambda: W.model,
        pairs=lambda: list(W.transplants),
        pooling=("mean", "max"),
        controls=False,
        **run,
        **STUDY,
    )
    alone = {"model": lambda: W.model, **STUDY}
    for form in tables("examples"):
        yield called(ic.cap_curve, 2, examples=form, **alone)
        yield called(ic.ablation_curve, 1, examples=form, what="mlp", layers=[0], **alone)
        yield called(ic.finetune, 1, task=form, config=lambda: ic.TrainConfig(max_steps=1), **alone)
        yield called(ic.watch, 2, measures=("cap",), examples=form, model=lambda: W.model)
    for form in tables("pairs"):
        yield called(ic.similarity_curve, 2, pairs=form, controls=False, **alone)
    for form in tables("transplants"):
        yield called(ic.transplant, 2, pairs=form, controls=False, **alone)
    yield called(
        ic.ablation_curve,
        12,
        **examples,
        **units,
        what="words",
        tagger=None,
        reach="from",
        mode="exclude",
        how="zero",
        multi_token_answers=False,
        **run,
        **STUDY,
    )
    yield called(
        ic.similarity_curve,
        6,
        model=lambda: W.model,
        pairs=lambda: [dict(row) for row in W.pairs],
        **units,
        pooling=("mean",),
        controls=False,
        embedding="mean",
        **run,
        **STUDY,
    )
    yield called(
        ic.embed_texts,
        8,
        model=lambda: W.model,
        texts=lambda: list(TEXTS),
        embedding="mean",
        batch_size=2,
        **STUDY,
    )
    yield called(ic.complexity_report, 2, model=lambda: W.model, heads=True, **STUDY)
    yield called(ic.audit, source=lambda: W.model, quick=True, progress=False)
    yield called(
        ic.finetune,
        4,
        model=lambda: W.model,
        task=lambda: W.task,
        carma=None,
        config=lambda: ic.TrainConfig(max_steps=1),
        folder=lambda: W.out,
        track=None,
        **STUDY,
    )
    yield called(
        ic.carma.compare,
        1,
        model=lambda: W.model,
        task=lambda: W.task,
        versions=("original", "ft"),
        seeds=1,
        carma=lambda: ic.CarmaConfig(layers=(1, 1)),
        config=lambda: ic.TrainConfig(max_steps=1),
        synonyms=lambda: W.thesaurus,
        rates=(0.5,),
        layers=lambda: [0],
        folder=lambda: W.out,
        **STUDY,
    )
    grid = {
        "out": lambda: W.out,
        "seeds": 1,
        "first_seed": 0,
        "run": lambda: W.run,
        "where": "here",
        "workers": None,
        "slurm": None,
    }
    yield called(
        ic.complexity.phase_diagram,
        1,
        init_rates=lambda: [0.5],
        weight_decays=lambda: [0.01],
        **grid,
        **STUDY,
    )
    yield called(
        ic.complexity.fitting_speed,
        1,
        init_rates=lambda: [0.5],
        depths=lambda: [1],
        violations=lambda: [1],
        **grid,
        evaluate_every=2,
        **STUDY,
    )
    yield called(
        ic.complexity.mechanism,
        1,
        runs=lambda: W.phases,
        init_rates=lambda: [0.4],
        weight_decay=0.01,
        seed=0,
        draw=0,
        **STUDY,
    )
    yield called(
        ic.lrf.generalise,
        1,
        task=lambda: W.sequences,
        models=lambda: ["transformer", "lrf-relative"],
        **{**grid, "run": lambda: W.sequence_run},
        **STUDY,
    )
    few = ic.complexity.TextTraining(
        vocab_size=258, n_ctx=4, n_layers=1, d_model=8, n_heads=2, max_steps=2
    )
    yield called(
        ic.complexity.text_phases,
        1,
        corpus=lambda: ic.TextCorpus("t", ("a b a b a b a b",), ("b a",), {}),
        init_rates=lambda: [0.4],
        weight_decays=lambda: [0.1],
        sizes=lambda: [5],
        **{**grid, "run": lambda: few},
        **STUDY,
    )
    yield called(
        ic.cat.pretrain,
        1,
        source=lambda: W.sentences,
        models=lambda: ["bert", "cat"],
        **{**grid, "run": lambda: W.encoder_run},
        sememes=lambda: W.sememes,
        documents="blank-line",
        held_out=0.3,
        held_out_words=0.5,
        vocab_size=30,
        **STUDY,
    )
    yield called(
        ic.complexity.concept_graphs,
        1,
        init_rates=lambda: [0.4, 0.5],
        train_nodes=lambda: ["000", "111"],
        **{**grid, "run": lambda: W.image_run},
        **STUDY,
    )
    yield called(
        ic.lrf.fusion,
        1,
        runs=lambda: W.compared and W.root / "compared",
        models=lambda: ["lrf"],
        seed=0,
        n_pairs=2,
        n_probe=8,
        **STUDY,
    )
    yield called(
        ic.cat.encoders,
        2,
        runs=lambda: W.trained_encoders,
        tasks=lambda: {
            "pairs": ic.load_pairs(W.tsv),
            "names": W.labelled,
            "squad": ic.cat.load_squad(W.squad),
        },
        out=lambda: W.out,
        where="here",
        workers=None,
        slurm=None,
        models=lambda: ["bert"],
        outputs=lambda: ["cont"],
        embeddings=lambda: ["mean"],
        tuned=lambda: ["frozen"],
        shares=lambda: [1.0],
        epochs=1,
        lr=1e-3,
        batch_size=4,
        limit=3,
        **STUDY,
    )
    yield called(
        ic.cat.codes,
        2,
        runs=lambda: W.trained_codes,
        models=lambda: ["cat"],
        phrases=None,
        wordnet=None,
        n_passages=9,
        least=1,
        n_words=2,
        k=2,
        **STUDY,
    )
    yield called(
        ic.run_sweep,
        3,
        work="tests.fuzz:work",
        configs=lambda: [{"n": 1}],
        out=lambda: W.out,
        where="here",
        workers=None,
        slurm=None,
        together=None,
        **STUDY,
    )
    yield Call("sweep_status", ic.sweep_status, lambda: {"out": W.phases}, weight=3)

    def command(**options: Any) -> None:
        given = [text for key, value in options.items() for text in (f"--{key}", str(value))]
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            try:
                cli.main(["cap", *given, "-q"])
            except SystemExit as stopped:
                if stopped.code != 2:
                    raise
                raise InputError("exit status 2") from None

    options = {"task": W.jsonl, "layers": 0, "unit": "word", "device": "cpu", "seed": 0}
    yield called(command, 1, model=lambda: W.folder, **options, out=lambda: W.out)


def calls_of_results() -> Iterator[Call]:
    results = ("cap", "ablation", "similarity", "report", "comparison", "diagram", "speed")
    for name in (*results, "mechanism", "history", "compared", "fusion", "pretrained"):
        result = getattr(W, name)
        kept = {k: getattr(result, k) for k in ("config", "frames", "versions")}
        yield called(type(result), **kept)
        yield called(result.save, folder=lambda: W.out, overwrite=False)
        load = partial(type(result).load)
        load.__qualname__ = f"{type(result).__name__}.load"  # type: ignore[attr-defined]
        yield called(load, folder=lambda result=result: result.save(W.out))
    cap, ablation, similarity = W.cap, W.ablation, W.similarity
    yield called(cap.plot, normalised_depth=False, average=False)
    yield called(
        ic.CapCurve.from_outcomes,
        outcomes=lambda: cap.outcomes.copy(),
        clean=lambda: cap.clean.copy(),
        config=lambda: dict(cap.config),
        n_layers=2,
    )
    compared = {"pooling": "mean", "normalised_depth": True}
    yield called(ic.compare_curves, curves=lambda: {"a": cap, "b": cap}, **compared)
    yield called(ic.compare_similarities, curves=lambda: {"a": similarity}, **compared)
    yield called(ablation.heatmap, example=0)
    yield called(ablation.changes, example=0)
    yield called(
        ic.Transplants.from_outcomes,
        outcomes=lambda: W.transplanted.outcomes,
        clean=lambda: W.transplanted.clean,
        pairs=lambda: W.transplanted.pairs,
        config=lambda: dict(W.transplanted.config),
        n_layers=2,
    )
    yield called(W.transplanted.plot, answer="expected")
    yield called(
        ic.AblationCurve.from_outcomes,
        outcomes=lambda: ablation.frames["outcomes"].copy(),
        clean=lambda: ablation.frames["clean"].copy(),
        cells=lambda: ablation.frames["cells"].copy(),
        config=lambda: dict(ablation.config),
        n_layers=2,
    )
    yield called(similarity.plot, metric="pearson", normalised_depth=False)
    yield called(similarity.plot_layers, metric="pearson")
    yield called(
        ic.SimilarityCurve.from_outcomes,
        cosines=lambda: pd.concat(
            [similarity.outcomes, similarity.layer_cosines.assign(pooling="none")]
        ),
        pairs=lambda: similarity.clean.drop(columns="cosine"),
        config=lambda: dict(similarity.config),
        n_layers=2,
    )
    yield called(W.report.plot, measure="stable_rank")
    yield called(
        ic.ComplexityReport.from_rows,
        rows=lambda: W.report.frame.copy(),
        config=lambda: dict(W.report.config),
    )
    yield called(W.comparison.plot_cap, pooling="mean")
    yield called(
        Comparison.from_runs,
        tables=lambda: make_tables(seeds=range(2)),
        config=lambda: dict(CONFIG),
    )
    yield called(W.diagram.plot_curve, weight_decay=0.01)
    yield called(
        ic.complexity.PhaseDiagram.from_runs,
        tables=lambda: dict(W.diagram.frames),
        config=lambda: dict(W.diagram.config),
    )
    yield called(W.mechanism.plot_masked_key, method="pca", mode="exclude")
    yield called(
        ic.complexity.Mechanism.from_rows,
        frames=lambda: dict(W.mechanism.frames),
        config=lambda: dict(W.mechanism.config),
    )
    yield called(W.speed.plot_epochs, measure="accuracy")
    yield called(W.speed.plot_pairs, n_layers=2, violations=1)
    yield called(W.speed.plot_roc, n_layers=2)
    yield called(W.speed.ranked, init_rate=0.4, n_layers=2, violations=1, seed=0)
    yield called(
        ic.complexity.FittingSpeed.from_runs,
        tables=lambda: dict(W.speed.frames),
        config=lambda: dict(W.speed.config),
    )


GROUPS: Mapping[str, Callable[[], Iterator[Call]]] = {
    "model": lambda: calls_of_a_model("model"),
    "bridge": lambda: calls_of_a_model("bridge"),
    "numbers": calls_of_numbers,
    "data": calls_of_data,
    "studies": calls_of_studies,
    "results": calls_of_results,
}


@cache
def calls_of(group: str) -> tuple[Call, ...]:
    few = {"weight": 2} if group == "results" else {}
    return tuple(replace(call, **few) for call in GROUPS[group]())


# ---- wrong values --------------------------------------------------------------------------


class Unshowable:
    """Its repr fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def own_function(*given: Any, **named: Any) -> None:
    """Takes anything, gives nothing."""


MADE: tuple[Callable[[], Any], ...] = (
    *(lambda value=value: value for value in (None, True, False, 0, 1, -1, 2, 7, 10**9, -(10**9))),
    *(lambda value=value: value for value in (2**31, 2**63, 10**30, 0.0, 0.5, -0.5, 1.0, 1e300)),
    *(lambda value=value: float(value) for value in ("nan", "inf", "-inf", "1e-320")),
    *(lambda value=value: value for value in ("", "x", "mean", "0", "[]", "\0", "\ud800", "é漢🙂")),
    *(lambda value=value: value for value in ("x" * 20_000, " ", "../x", "/", ".", "a.json")),
    *(lambda value=value: value for value in (b"", b"mean", 1j, Decimal("0.5"), Fraction(1, 2))),
    *(lambda value=value: value for value in ((), (0,), (0, 1), (1, 2, 3), ("mean",), ("a", "a"))),
    *(lambda value=value: value for value in (range(3), range(10**9), slice(0, 2), datetime.now())),
    *(
        lambda value=value: value
        for value in (object, int, object(), Unshowable(), ..., own_function)
    ),
    lambda: [],
    lambda: [None],
    lambda: [0],
    lambda: [0, 0],
    lambda: [0.5],
    lambda: ["x"],
    lambda: [True],
    lambda: [[0]],
    lambda: [[]],
    lambda: [10**9],
    lambda: ["mean", "mean"],
    lambda: [(0, 0)],
    lambda: list(range(3000)),
    lambda: {},
    lambda: {"a": 1},
    lambda: {"a": None},
    lambda: {0: 0},
    lambda: {"x" * 3000: ["y" * 3000]},
    lambda: set(),
    lambda: {"mean"},
    lambda: frozenset({0}),
    lambda: (item for item in (0, 1)),
    lambda: iter([{}]),
    lambda: Path("x"),
    lambda: W.root / "no" / "such" / "folder",
    lambda: W.root,
    lambda: W.jsonl,
    lambda: str(W.jsonl),
    lambda: W.jsonl / "inside",
    lambda: W.saved,
    lambda: Path("x" * 400),
    lambda: Path("a\0b"),
    lambda: np.int64(1),
    lambda: np.int64(-1),
    lambda: np.float32(0.4),
    lambda: np.float64("nan"),
    lambda: np.bool_(True),
    lambda: np.str_("mean"),
    lambda: np.array([1, 2]),
    lambda: np.array(["mean", "max"]),
    lambda: np.zeros((2, 2)),
    lambda: np.array(3),
    lambda: np.array([]),
    lambda: np.array([None, {}], dtype=object),
    lambda: pd.NA,
    lambda: pd.NaT,
    lambda: pd.Series([1, 2]),
    lambda: pd.Series(["mean"]),
    lambda: pd.DataFrame({"a": [1]}),
    lambda: pd.DataFrame(),
    lambda: torch.zeros(()),
    lambda: torch.zeros(0),
    lambda: torch.zeros(2, 3),
    lambda: torch.ones(2, 6).long(),
    lambda: torch.zeros(0, 6).long(),
    lambda: torch.zeros(2, 0).long(),
    lambda: torch.full((2, 6), -1),
    lambda: torch.full((2, 6), 10**9),
    lambda: torch.ones(1, 4000).long(),
    lambda: torch.ones(2, 6).bool(),
    lambda: torch.ones(2, 6).int(),
    lambda: torch.ones(2, 6, dtype=torch.int8),
    lambda: torch.full((2, 6, 8), float("nan")),
    lambda: torch.full((3, 2, 6, 4), float("inf")),
    lambda: torch.ones(2, 6, 8, dtype=torch.float64),
    lambda: torch.ones(2, 6, 8, dtype=torch.float16),
    lambda: torch.ones(2, 6, 3),
    lambda: torch.ones(0, 6, 8),
    lambda: torch.ones(2, 2, dtype=torch.complex64),
    lambda: torch.ones(4, 4).to_sparse(),
    lambda: torch.ones(2, 6).long().to_sparse(),
    lambda: torch.ones(2, 6, device="meta").long(),
    lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged),
    lambda: Path("/proc/self/mem"),
    lambda: torch.ones(2, 6, device="meta"),
    lambda: torch.eye(3),
    lambda: [torch.ones(2, 6, 4), torch.ones(2, 5, 4)],
    lambda: ic.Example("a b", "c"),
    lambda: [ic.Example("", "")],
    lambda: [ic.Example("a b", "c", spans=((0, 99),))],
    lambda: [ic.Example("a b", "c", tree="((")],
    lambda: ["a b", "not alive"],
    lambda: ["a " * 500],
    lambda: [{"prompt": "a b", "answer": "zzz"}],
    lambda: [{"text1": "a", "text2": "b", "label": 2}],
    lambda: [("a b", pd.NA), ("a b", np.array(["c", "d"]))],
    lambda: [{"prompt": "a b", "answer": "c", "spans": torch.eye(2).to_sparse()}],
    lambda: pa.Table.from_arrays([pa.array(["x"])] * 2, names=["prompt", "prompt"]),
    lambda: pa.chunked_array([["a b", None]]),
    lambda: ic.Pair("a", "b", 0.5),
    lambda: ic.TrainConfig(),
    lambda: ic.CarmaConfig(layers=(7, 9)),
    lambda: ic.complexity.DecoderConfig(d_model=8, n_layers=1),
    lambda: ic.complexity.InitRates(0.5, 0.5, 0.5, 0.5),
    lambda: W.run,
    lambda: W.task,
    lambda: W.model,
    lambda: W.model.lens,
    lambda: W.tokenizer,
    lambda: W.cap,
    lambda: [W.cap, W.cap],
    lambda: {"a": W.cap, "b": None},
    lambda: W.anchors,
    lambda: W.data,
    lambda: W.thesaurus,
    lambda: "blocks.1.hook_resid_pre",
    lambda: ["blocks.0.nothing"],
    lambda: [("blocks.1.hook_resid_pre", None)],
    lambda: [(own_function, own_function)],
    lambda: [("blocks.1.hook_resid_pre",)],
    lambda: {0: Pass()},
    lambda: {99: Pass()},
    lambda: Pass(),
    lambda: torch.float16,
    lambda: "float32",
    lambda: torch.device("cpu"),
    lambda: "cuda:99",
)
DRAWN = st.one_of(
    st.integers(),
    st.integers(-3, 12),
    st.floats(),
    st.text(max_size=6),
    st.binary(max_size=4),
    st.lists(
        st.one_of(st.integers(-3, 9), st.floats(), st.text(max_size=3), st.none()), max_size=4
    ),
    st.dictionaries(st.text(max_size=3), st.one_of(st.none(), st.integers(), st.text(max_size=3))),
    st.tuples(st.integers(-3, 9), st.integers(-3, 9)),
)


def altered(value: Any, how: int) -> Any:
    """Nearly what is right."""
    ways: list[Callable[[], Any]] = [lambda: [value], lambda: (value,), lambda: {"a": value}]
    ways += [lambda: str(value)]
    if isinstance(value, bool):
        ways += [lambda: int(value), lambda: str(value), lambda: not value]
    elif isinstance(value, int | float):
        ways += [lambda: value + 1, lambda: value - 1, lambda: -value, lambda: value * 10**6]
        ways += [lambda: float(value), lambda: np.float32(value), lambda: value * 0]
    elif isinstance(value, str):
        ways += [value.upper, lambda: value + " ", lambda: value * 2, lambda: value[:-1]]
        ways += [value.encode]
    elif isinstance(value, torch.Tensor):
        ways += [value.float, lambda: value[:1], lambda: value[:, :0], lambda: value[..., :-1]]
        ways += [lambda: value + 10**6, lambda: value - 50, value.bool, value.tolist, value.numpy]
        ways += [lambda: value.unsqueeze(0), lambda: value.mT, lambda: value.repeat(1, 30)]
        ways += [lambda: value * 0, lambda: value.to(torch.int32), lambda: value.double()]
        ways += [lambda: value.flatten(), lambda: value.half(), lambda: value[:0]]
    elif isinstance(value, pd.DataFrame):
        ways += [lambda: value.iloc[:0], lambda: value.iloc[:1], lambda: value.iloc[:, 1:]]
        ways += [lambda: pd.concat([value, value]), lambda: value.astype(str), value.to_dict]
        ways += [
            lambda: value.iloc[:, ::-1],
            lambda: value.iloc[::-1],
            lambda: value.assign(extra=1),
        ]
        column = value.columns[how % len(value.columns)] if len(value.columns) else None
        ways += [
            lambda: value.assign(**{str(column): None}),
            lambda: value.rename(columns={column: 0}),
        ]
        ways += [lambda: value.assign(**{str(column): float("nan")})]
        ways += [lambda: value.assign(**{str(column): 10**9})]
        ways += [
            lambda: value.assign(**{str(column): -1}),
            lambda: value.assign(**{str(column): ""}),
        ]
        ways += [
            lambda: value.assign(**{str(column): pd.NA}),
            lambda: pd.concat([value, value], axis=1),
            lambda: value.set_axis(pd.MultiIndex.from_product([["x"], value.columns]), axis=1),
        ]
    elif isinstance(value, pa.Table):
        ways += [value.to_batches, value.to_reader, value.to_pydict, value.to_pandas]
        ways += [lambda: value.slice(0, 0), lambda: value.select(value.column_names[1:])]
        ways += [lambda: value.append_column(value.column_names[0], value.column(1))]
    elif isinstance(value, Mapping):
        first = next(iter(value), None)
        ways += [lambda: dict(list(value.items())[1:]), lambda: {**value, "more": 1}]
        ways += [lambda: {**value, 3: None}, lambda: {**value, first: None}, lambda: list(value)]
        ways += [lambda: {**value, first: altered(value[first], how)} if value else {}]
    elif isinstance(value, list | tuple):
        kind: Any = type(value)
        ways += [lambda: kind(value[:0]), lambda: kind(value[:1]), lambda: kind([*value, *value])]
        ways += [lambda: kind([*value, None]), lambda: kind(value[::-1]), lambda: set(value)]
        ways += [lambda: kind([*value[:-1], altered(value[-1], how)]) if value else kind()]
        ways += [lambda: dict(enumerate(value)), lambda: iter(value)]
    elif isinstance(value, Path):
        ways += [lambda: str(value), lambda: value / "x", lambda: str(value).encode()]
    elif is_dataclass(value) and not isinstance(value, type):
        one = fields(value)[how % len(fields(value))].name
        ways += [lambda: replace(value, **{one: altered(getattr(value, one), how // 7)})]
    elif callable(value):
        ways += [lambda: own_function, lambda: value.__name__]
    return ways[how % len(ways)]()


# ---- what comes of it ----------------------------------------------------------------------


class Endless(BaseException):
    """A call that takes too long."""


def _stop(number: int, frame: Any) -> None:
    raise Endless


@dataclass
class Tally:
    """What came of calls so far."""

    outcomes: Counter[str] = field(default_factory=Counter)
    longest: int = 0
    bad: dict[str, str] = field(default_factory=dict)
    """One account of each kind of failure."""

    @property
    def calls(self) -> int:
        return sum(self.outcomes.values())

    def told(self) -> str:
        lines = [f"{self.calls} calls: " + ", ".join(f"{n} {k}" for k, n in self.outcomes.items())]
        lines += [f"longest message: {self.longest} characters"]
        return "\n".join([*lines, *self.bad.values()])


@contextlib.contextmanager
def _work() -> Iterator[list[int]]:
    """How often a small decoder ran. (A hook would be noticed, and change what is refused.)"""
    seen, embedded = [0], SmallDecoder.embedded

    def counted(*given: Any) -> Any:
        seen[0] += 1
        return embedded(*given)

    SmallDecoder.embedded = counted  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        SmallDecoder.embedded = embedded  # type: ignore[method-assign]


def _files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")} if folder.exists() else set()


def is_callers(name: str, right: Any, value: Any) -> bool:
    """Whether a function was given where one belongs, which was then called, and raised."""
    return callable(value) and (callable(right) or name in ("tagger", "track"))


def attempt(call: Call, name: str, value: Any, tally: Tally) -> None:
    """One call with one value in the place of another."""
    given = call.make()
    right, given[name] = given[name], value
    before = _files(W.root / "out") if call.study else set()
    seen: list[int] = [0]

    def worked() -> bool:
        return bool(seen[0] or _files(W.root / "out") - before)

    signal.setitimer(signal.ITIMER_REAL, TIME)
    try:
        with warnings.catch_warnings(), contextlib.ExitStack() as stack:
            warnings.simplefilter("ignore")
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            if call.study:
                seen = stack.enter_context(_work())
            done = call.function(**given)
            if call.enter is not None:
                with done:
                    call.enter()
        outcome, error = "accepted", None
    except InterpComposeError as refusal:
        outcome, error = "refused", refusal
        tally.longest = max(tally.longest, len(str(refusal)))
        if max(map(len, str(refusal).splitlines() or [""])) > 500:
            outcome = "LONG"
        elif call.study and isinstance(refusal, InputError) and worked():
            outcome = "LATE"
    except Endless as stopped:
        outcome, error = "ENDLESS", stopped
    except BaseException as raw:  # noqa: BLE001  this is what is looked for
        outcome, error = ("the caller's" if is_callers(name, right, value) else "RAW"), raw
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for model in ("model", "bridge"):
            if model in vars(W):
                getattr(W, model).eval()
        if (W.root / "out").exists():
            shutil.rmtree(W.root / "out", ignore_errors=True)
    tally.outcomes[outcome] += 1
    if outcome.isupper():
        place = traceback.extract_tb(error.__traceback__)[-1] if error else None
        key = f"{outcome} {call.name}({name}) {type(error).__name__} {place and place.lineno}"
        try:
            shown = repr(value)[:100]
        except Exception:  # noqa: BLE001
            shown = type(value).__name__
        own = [
            f for f in traceback.extract_tb(error.__traceback__) if "interp_compose" in f.filename
        ]  # type: ignore[union-attr]
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
        if key not in tally.bad:
            print(key, flush=True)
        tally.bad.setdefault(key, f"{key} at {where}: {name}={shown}: {str(error)[:150]}")


def start() -> None:
    """One thread; long calls and large arrays end in errors."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    signal.signal(signal.SIGALRM, _stop)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def campaign(
    calls: int, number: int, groups: Sequence[str] = tuple(GROUPS), only: str = ""
) -> Tally:
    """So many calls, drawn by hypothesis from ``number``."""
    start()
    tally = Tally()
    table = [call for group in groups for call in calls_of(group) if only in call.name]
    weighted = [call for call in table for _ in range(call.weight)]
    for call in table:  # as they stand, they are accepted
        given = call.make()
        name = next(iter(given))
        attempt(call, name, given[name], own := Tally())
        assert own.outcomes["accepted"] == 1, (call.name, own.told())

    @seed(number)
    @settings(
        max_examples=calls,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @hypothesis.given(st.sampled_from(weighted), st.data())
    def draw(call: Call, data: Any) -> None:
        given = call.make()
        names = [name for name in given if name not in call.fixed]
        name = data.draw(st.sampled_from(names))
        way = data.draw(st.sampled_from(("made", "made", "altered", "drawn")))
        if way == "made":
            value = data.draw(st.sampled_from(MADE))()
        elif way == "drawn":
            value = data.draw(DRAWN)
        else:
            try:
                value = altered(given[name], data.draw(st.integers(0, 999)))
            except Exception:  # noqa: BLE001  not all can be altered so
                value = None
        attempt(call, name, value, tally)
        if tally.calls % 1000 == 0:
            print(f"{tally.calls} …", dict(tally.outcomes), flush=True)

    draw()
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--only", default="", help="calls whose name holds this")
    options = parser.parse_args()
    os.chdir(W.root)  # relative paths are among the values
    try:
        tally = campaign(options.calls, options.seed, options.groups, options.only)
        print(tally.told())
        sys.exit(bool(tally.bad))
    finally:
        os.chdir(tempfile.gettempdir())
        shutil.rmtree(W.root, ignore_errors=True)


if __name__ == "__main__":
    main()
