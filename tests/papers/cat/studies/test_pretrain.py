"""Encoders pre-trained on a text: numbers by hand, the same batches, resume, data, refusals."""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from scipy import stats

import interp_compose as ic
from interp_compose import cli
from interp_compose.errors import (
    CapabilityError,
    CorruptFileError,
    DataFormatError,
    InputError,
    MissingDataError,
    ModelError,
    OptionError,
)
from interp_compose.papers.cat.models.bert import SmallEncoder
from interp_compose.papers.cat.models.init import init_bert
from interp_compose.papers.cat.studies.pretrain import data as data_file, measure as run_file
from interp_compose.papers.cat.studies.pretrain.data import (
    DataOptions,
    PretrainingData,
    kept,
    prepared,
)
from interp_compose.papers.cat.studies.pretrain.measure import VARIANTS, PretrainingRun
from interp_compose.papers.cat.text.wordpiece import WordPieces
from interp_compose.papers.cat.training.pretraining import TERMS, Pretraining, measured
from interp_compose.papers.cat.training.sentences import Lexicon, MaskedBatch, Passages, Sentences
from interp_compose.training.loop import Trainer
from tests import architectures
from tests.forking import can_fork, outcome_of

NAMES = ("ann", "bob", "eve", "joe", "kim")
DOCUMENTS = [
    f"{a} {verb} {b}.\n{b} {verb} {c}; so {a} {verb} {c}.\nthen {c} smiled at {a}."
    for a, b, c in product(NAMES, repeat=3)
    for verb in ("knows", "hears")
    if len({a, b, c}) == 3
]
DOCUMENTS[7] += "\n\u200b"  # a line that has no token
SEMEMES = ic.cat.Sememes(
    ("human", "perceive", "happy", "unused"),
    {**dict.fromkeys(NAMES, (0,)), "knows": (1,), "hears": (1, 2), "smiled": (2,), "§": (3,)},
)
"""The last word is none of this vocabulary."""
SHAPE = {"n_ctx": 18, "n_layers": 2, "d_model": 8, "n_heads": 2, "d_mlp": 12, "n_codes": 5}
TINY = ic.cat.EncoderTraining(
    **SHAPE, max_steps=6, batch_tokens=150, lr=0.01, n_looks=2, n_curve=6, warmup_steps=0
)  # type: ignore[arg-type]
VOCAB, HELD_OUT, HELD_OUT_WORDS = 60, 0.15, 0.3
MODELS, SEEDS = ("bert", "cat"), (0, 1)
PAPER = cli._parsed(["pretrain", "--paper"])


# ---- a result of frames ---------------------------------------------------------------------

CONFIG = {
    "task": "people", "models": list(MODELS), "seeds": [0, 1, 2], "n_layers": 2, "d_model": 8,
    "n_looks": 1,
}  # fmt: skip
LOSSES = {("bert", "cont"): 2.0, ("cat", "cont"): 1.9, ("cat", "comp"): 2.4, ("cat", "mix"): 1.8}
APART = {"bert": (0.0, 0.1, 0.3), "cat": (0.0, 0.2, 0.25)}
"""What is added to them, by seed."""


def frames() -> dict[str, pd.DataFrame]:
    made = defaultdict(list)
    for seed, model in product(range(3), MODELS):
        place = {"model": model, "seed": seed}
        size = {"n_parameters": 1000 * len(model), "steps": 4, "step_seconds": 0.25 * (1 + seed)}
        made["runs"].append({**place, **size, "first_loss": 5.0, "last_loss": 2.5})
        for (name, output), loss in LOSSES.items():
            if name != model:
                continue
            shares = {"masked_accuracy": 0.25 + seed / 100, "next_accuracy": 0.5 + seed / 50}
            counts = {"n_masked": 40, "n_pairs": 30}
            row = {**place, "output": output, **shares, **counts}
            made["held_out"].append({**row, "masked_loss": loss + APART[model][seed]})
            for step in (0, 4):
                at = {**row, "step": step, "n_masked": 10}
                made["curve"].append({**at, "masked_loss": loss + 4 - step + seed})
        for term, step in product(("masked", "next"), (2, 4)):
            made["terms"].append({**place, "step": step, "term": term, "value": 6.5 - step})
        for layer in (0, 1) if model == "cat" else ():
            used = {"codes_per_word": 1.5 + seed + layer, "without_codes": 0.125}
            row = {**place, "layer": layer, "n_codes": 7 - layer, **used}
            row |= {"dead_codes": 1 + layer, "perplexity": 9.5, "alike": 0.25 + seed / 8}
            row["revived"] = layer * (5 + seed)
            made["codes"].append(row)
            made["codes_curve"] += [{**row, "step": step} for step in (0, 4)]
    return {name: pd.DataFrame(rows) for name, rows in made.items()}


def result() -> ic.cat.Pretrained:
    return ic.cat.Pretrained.from_runs(frames(), CONFIG)


def test_means_intervals_and_differences_by_hand() -> None:
    found = result().frame.set_index(["model", "output", "measure"])
    losses = 1.9 + np.array(APART["cat"])
    row = found.loc[("cat", "cont", "masked_loss")]
    half = stats.t.ppf(0.975, 2) * losses.std(ddof=1) / math.sqrt(3)
    assert row["mean"] == pytest.approx(losses.mean())
    assert row[["low", "high"]].tolist() == pytest.approx(
        [losses.mean() - half, losses.mean() + half]
    )
    assert row[["smallest", "largest"]].tolist() == pytest.approx([1.9, 2.15])
    assert row[["n", "n_seeds"]].tolist() == [40, 3]
    following = found.loc[("bert", "cont", "next_accuracy")]
    assert following["mean"] == pytest.approx((0.5 + 0.52 + 0.54) / 3)
    assert following["n"] == 30
    assert found.loc[("cat", "comp", "masked_loss"), "high"] > 1  # losses are no shares
    found = result().differences
    differences = found.query("compared == 'first'").set_index("reading")
    assert list(differences.index) == ["cat cont", "cat comp", "cat mix"]
    assert set(differences["other"]) == {"bert cont"}
    assert set(differences["measure"]) == {"masked_loss"}
    by_hand = {}
    for output in ("cont", "comp", "mix"):
        ours = LOSSES["cat", output] + np.array(APART["cat"])
        theirs = LOSSES["bert", "cont"] + np.array(APART["bert"])
        row = differences.loc[f"cat {output}"]
        assert row["difference"] == pytest.approx((ours - theirs).mean())
        by_hand[f"cat {output}"] = float(stats.ttest_rel(ours, theirs).pvalue)
        assert row["p"] == pytest.approx(by_hand[f"cat {output}"])
    order = sorted(by_hand, key=lambda name: by_hand[name])
    adjusted = np.maximum.accumulate([min(1.0, (3 - i) * by_hand[n]) for i, n in enumerate(order)])
    assert differences.loc[order, "p_holm"].tolist() == pytest.approx(adjusted.tolist())
    within = found.query("compared == 'output'")
    assert list(zip(within["reading"], within["other"], strict=True)) == [
        ("cat comp", "cat cont"),
        ("cat mix", "cat cont"),
    ]
    assert within["difference"].tolist() == pytest.approx([0.5, -0.1])
    assert len(found) == 5  # no control is there


def test_the_summary_has_a_row_for_each_output_and_block() -> None:
    answer, blank, *lines = [" ".join(line.split()) for line in result().summary().splitlines()]
    assert [answer, blank] == [result().sentences()[0], ""]
    # Further apart, by 0.50 in every seed, are the outputs of cat: three alike decide nothing.
    assert answer.startswith("cat comp is above bert cont, paired by seed, by 0.42 nats a token")
    assert lines == [
        "40 masked tokens of held-out documents: means, smallest to largest seed",
        "",
        "model output masked loss seeds masked right, % next right, % parameters ms a step",
        "bert cont 2.1333 2.000 to 2.300 26.00 52.00 4,000 500.0",
        "cat cont 2.0500 1.900 to 2.150 26.00 52.00 3,000 500.0",
        "cat comp 2.5500 2.400 to 2.650 26.00 52.00 3,000 500.0",
        "cat mix 1.9500 1.800 to 2.050 26.00 52.00 3,000 500.0",
        "",
        "codes, after the last step, means over seeds:",
        "",
        "cat layer 0 2.5 a word of 7, 1 used by none, perplexity 9.5, 12.50 % of words without, "
        "composed vectors alike 0.375",
        "cat layer 1 3.5 a word of 6, 2 used by none, perplexity 9.5, 12.50 % of words without, "
        "composed vectors alike 0.375, 6 times moved to a word",
        "",
        "codes were guided by CAT's eq. 4 (guided 1, sparsity 1), which is smallest without any "
        "code",
    ]
    other = replace(result(), config={**CONFIG, "guided": 0.5, "guided_positive": 2.0})
    assert (
        "codes were guided by CAT's eq. 4 (guided 0.5, sparsity 1) and a term for right sememes, "
        "which CAT lacks (guided_positive 2)"
    ) in other.summary()


def test_words_that_are_composed_into_one_vector_are_told() -> None:
    assert result().notes == []
    alike = frames()
    alike["codes"].loc[alike["codes"]["seed"] == 1, "alike"] = 0.99
    found = ic.cat.Pretrained.from_runs(alike, CONFIG)
    (note,) = found.notes
    told = "cat, seed 1: nearly all words are composed into one vector in layers 0, 1 (alike"
    assert note.startswith(told)
    assert found.summary().endswith(f"\n! {note}")


def test_figures_have_a_panel_for_each_output_and_block() -> None:
    figures = result().figures()
    assert set(figures) == set(ic.cat.Pretrained.FIGURES)
    losses: Any = figures["pretrain_curve"].chart
    assert losses.title == "people: nats a masked token over training"
    assert losses.subtitle.startswith(
        "2 layers, width 8 · 3 seeds · measured on 10 held-out masked"
    )
    lines = {(panel.title, line.label): line for panel in losses.panels for line in panel.lines}
    # the last panel has every model, whose lines are named there
    assert set(lines) == {("comp", "cat"), ("mix", "cat"), ("cont", "bert"), ("cont", "cat")}
    assert losses.panels[-1].title == "cont"
    styles = {
        model: {line.style for (_, own), line in lines.items() if own == model}
        for model in ("bert", "cat")
    }
    assert [len(each) for each in styles.values()] == [1, 1]  # one of each, in all panels
    assert styles["bert"] != styles["cat"]
    for (output, model), line in lines.items():
        loss = LOSSES[model, output]
        assert line.x == [0.0, 4.0]
        assert line.y == pytest.approx([loss + 4 + 1, loss + 1])
        assert line.low == pytest.approx([loss + 4, loss])
        assert line.high == pytest.approx([loss + 4 + 2, loss + 2])
    codes: Any = figures["pretrain_codes"].chart
    assert [panel.title for panel in codes.panels] == ["layer 0", "layer 1"]
    assert [panel.lines[0].y for panel in codes.panels] == [[2.5, 2.5], [3.5, 3.5]]
    assert [line.label for panel in codes.panels for line in panel.lines] == ["cat", "cat"]


def test_without_codes_there_is_one_figure() -> None:
    made = frames()
    plain = {name: frame.query("model == 'bert'") for name, frame in made.items()}
    found = ic.cat.Pretrained.from_runs(plain, {**CONFIG, "models": ["bert"]})
    assert set(found.figures()) == {"pretrain_curve"}
    assert "codes" not in found.summary()
    assert found.differences.empty
    one = {name: frame.query("seed == 0") for name, frame in made.items()}
    single = ic.cat.Pretrained.from_runs(one, CONFIG)
    assert single.frame["low"].isna().all()
    assert single.differences["difference"].notna().all()
    assert single.differences["p"].isna().all()


# ---- a small sweep --------------------------------------------------------------------------


@dataclass
class Watch:
    """Which runs were trained, with what weights each began, and what it drew: in training, and to
    measure."""

    trained: list[tuple[str, int]] = field(default_factory=list)
    begun: dict[tuple[str, int], dict[str, torch.Tensor]] = field(default_factory=dict)
    steps: dict[tuple[str, int], list[MaskedBatch]] = field(
        default_factory=lambda: defaultdict(list)
    )
    measured: dict[tuple[str, int], list[MaskedBatch]] = field(
        default_factory=lambda: defaultdict(list)
    )


@contextmanager
def watched(stop_at: int | None = None) -> Iterator[Watch]:
    """Trainings in this process; Ctrl-C before the step ``stop_at`` of all that they do."""
    watch, train, drawn = Watch(), run_file.train, Pretraining.drawn
    trained = run_file.trained

    def starts(config: Any, folder: Path) -> None:
        watch.trained.append((config["model"], config["seed"]))
        train(config, folder)

    def begins(model: SmallEncoder, *args: Any) -> dict[str, Any]:
        weights = {name: one.detach().clone() for name, one in model.named_parameters()}
        watch.begun[watch.trained[-1]] = weights
        return trained(model, *args)

    def keeps(self: Pretraining, passages: Passages, *args: Any) -> MaskedBatch:
        batch = drawn(self, passages, *args)
        of = watch.steps if passages is self.passages else watch.measured
        of[watch.trained[-1]].append(batch)
        if sum(map(len, watch.steps.values())) == stop_at:
            raise KeyboardInterrupt
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_file, "train", starts)
        patch.setattr(run_file, "trained", begins)
        patch.setattr(Pretraining, "drawn", keeps)
        yield watch


def study(source: Path, out: Path, models: Any = MODELS, **asked: Any) -> ic.cat.Pretrained:
    given: dict[str, Any] = {
        "seeds": len(SEEDS), "where": "here", "progress": False, "run": TINY, "sememes": SEMEMES,
        "vocab_size": VOCAB, "held_out": HELD_OUT, "held_out_words": HELD_OUT_WORDS,
    }  # fmt: skip
    return ic.cat.pretrain(source, list(models), out, **{**given, **asked})


@dataclass(frozen=True)
class Swept:
    """A sweep that was done without interruption."""

    text: Path
    out: Path
    found: ic.cat.Pretrained
    watch: Watch

    @property
    def data(self) -> PretrainingData:
        return kept(self.out, self.found.config["data"])

    def beside(self, out: Path) -> Path:
        """Another folder with the same data."""
        shutil.copytree(self.out / "data", out / "data")
        return out

    def run(self, model: str, seed: int, out: Path | None = None) -> Path:
        """The folder of a run, here or in another sweep."""
        for path in ((out or self.out) / "runs").glob("*/run.json"):
            about = json.loads(path.read_text(encoding="utf-8"))["run"]
            if (about["model"], about["seed"]) == (model, seed):
                return path.parent
        raise AssertionError((model, seed))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A document is there twice, in other lines."""
    path = tmp_path_factory.mktemp("text") / "people.txt"
    again = DOCUMENTS[3].replace("; so", ";\nso")
    path.write_text("\n\n".join([*DOCUMENTS, again]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def whole(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    out = tmp_path_factory.mktemp("whole")
    with watched() as watch:
        found = study(text, out)
    return Swept(text, out, found, watch)


def timeless(found: ic.cat.Pretrained, name: str, query: str = "seed >= 0") -> pd.DataFrame:
    frame = found.frames[name].query(query).reset_index(drop=True)
    return frame.drop(columns="step_seconds", errors="ignore")


def test_models_of_a_seed_see_the_same_batches_masked_alike(whole: Swept) -> None:
    steps = whole.watch.steps
    assert set(steps) == set(product(MODELS, SEEDS))
    for seed in SEEDS:
        for one, other in zip(steps["bert", seed], steps["cat", seed], strict=True):
            for name in ("tokens", "mask", "segments", "words", "at", "target", "follows"):
                assert torch.equal(getattr(one, name), getattr(other, name)), name
        assert len(steps["bert", seed]) == 6
    first, other = (steps["cat", seed][0].tokens for seed in SEEDS)
    assert not torch.equal(first, other)
    follows = torch.cat([batch.follows for batch in steps["cat", 0]])
    assert set(follows.tolist()) >= {0, 1}
    scored = [[batch.tokens for batch in one] for one in whole.watch.measured.values()]
    for drawn in scored[1:]:  # all runs are measured on the same
        assert all(torch.equal(a, b) for a, b in zip(scored[0], drawn, strict=True))


def test_terms_of_the_loss_are_means_since_the_look_before_and_add_up(whole: Swept) -> None:
    terms = whole.found.terms
    assert set(terms.query("model == 'bert'")["term"]) == {"masked", "next"}
    assert set(terms.query("model == 'cat'")["term"]) == {*TERMS} - {"guided_positive"}
    for (model, seed), own in terms.groupby(["model", "seed"]):
        kept_losses = json.loads((whole.run(model, seed) / "run.json").read_text())["losses"]
        weights = own["term"].map(lambda term: getattr(TINY, term))
        totals = (own["value"] * weights).groupby(own["step"]).sum()
        looks = [0, *totals.index]
        assert looks == sorted({0, *whole.found.frames["curve"]["step"]})
        for before, step in pairwise(looks):
            expected = np.mean(kept_losses[before:step])
            assert totals[step] == pytest.approx(expected, rel=1e-5), (model, seed, step)


def test_a_term_for_right_sememes_is_recorded_and_trained(text: Path, tmp_path: Path) -> None:
    """Also without RMSNorm; a saved model is without it, too."""
    run = replace(TINY, max_steps=2, n_looks=1, code_norm="none")
    both = {
        weight: study(
            text,
            tmp_path / str(weight),
            ("bert", "cat"),
            seeds=1,
            run=replace(run, guided_positive=weight),
        )
        for weight in (0.0, 0.5)
    }
    without, found = both.values()
    assert set(found.terms.query("model == 'cat'")["term"]) == {*TERMS}
    assert set(found.terms.query("model == 'bert'")["term"]) == {"masked", "next"}
    assert "guided_positive" not in set(without.terms["term"])
    assert "right sememes, which CAT lacks (guided_positive 0.5)" in found.summary()
    # Without it, runs are named as they were before there was the term.
    named = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in (tmp_path / "0.0" / "runs").glob("*/config.json")
    ]
    assert len(named) == 2
    assert not any("guided_positive" in json.dumps(one) for one in named)
    place = "model == {!r} and output == 'cont'"
    losses = [
        [
            one.frames["held_out"].query(place.format(model))["masked_loss"].item()
            for one in both.values()
        ]
        for model in ("bert", "cat")
    ]
    assert losses[0][0] == losses[0][1]  # a model without codes does not see it
    assert losses[1][0] != losses[1][1]
    for folder in (tmp_path / "0.5" / "runs").iterdir():
        lens: Any = ic.load_model(folder / "model", device="cpu")
        assert lens.lens.cfg.code_norm == "none"


def test_models_of_a_seed_begin_with_the_same_weights(whole: Swept) -> None:
    begun = whole.watch.begun
    for model, seed in product(MODELS, SEEDS):
        run = PretrainingRun(data="", model=model, seed=seed, **vars(TINY))
        encoder = SmallEncoder(run.model_config(len(whole.data.tokenizer), whole.data.guiding))
        init_bert(encoder, seed=seed)
        expected, found = dict(encoder.named_parameters()), begun[model, seed]
        assert set(found) == set(expected)
        assert set(found) >= set(begun["bert", seed])
        for name, weight in found.items():
            assert torch.equal(weight, expected[name]), name
            shared = begun["bert", seed].get(name, weight)
            assert torch.equal(weight, shared), name
    one, other = (begun["cat", seed]["embed.W_E"] for seed in SEEDS)
    assert not torch.equal(one, other)


def test_words_that_guide_are_those_that_are_not_held_out(whole: Swept) -> None:
    """Each of their occurrences, and no other, whatever of them is masked."""
    data = whole.data
    assert data.guiding is not None
    assert data.held_out_words is not None
    guiding, held_out = set(data.guiding.words), set(data.held_out_words.words)
    assert guiding | held_out == set(SEMEMES.words)
    assert held_out == {word for word in SEMEMES.words if share_of(word) < HELD_OUT_WORDS}
    assert not sum(len(batch.guided) for batch in whole.watch.steps["bert", 0])
    found: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for batch in whole.watch.steps["cat", 0]:
        tokens = batch.tokens.clone()
        tokens.view(-1)[batch.at] = batch.target
        marks = dict(zip(batch.guided.tolist(), batch.sememes, strict=True))
        for row, words in enumerate(batch.words.tolist()):
            for number in range(max(words) + 1):
                places = [i for i, word in enumerate(words) if word == number]
                word = data.tokenizer.decode(tokens[row, places]).strip()
                own = marks.pop(row * len(words) + places[0], None)
                assert (own is not None) == (word in guiding), word
                if own is not None:
                    found[word].add(tuple(own.nonzero().flatten().tolist()))
        assert not marks
    assert found == {word: {SEMEMES.words[word]} for word in guiding - {"§"}}


# ---- a given model --------------------------------------------------------------------------


def given_bert(**changes: Any) -> Any:
    """A random BERT, with the tokenizer of its own that it came with: other ids of special tokens,
    texts cut and padded."""
    pieces = sorted({one for text in DOCUMENTS for one in text.lower() if one.isalpha()})
    words = {word for text in DOCUMENTS for word in re.findall("[a-z]+", text.lower())}
    vocabulary = [
        *pieces,
        *sorted(words - {*pieces}),
        *(f"##{one}" for one in pieces),
        ".",
        ";",
        ",",
        "[MASK]",
        "[SEP]",
    ]
    names = [*vocabulary, "[CLS]", "[UNK]", "[PAD]"]
    tokenizer = transformers.BertTokenizerFast(vocab={one: i for i, one in enumerate(names)})
    tokenizer.backend_tokenizer.enable_truncation(7)
    tokenizer.backend_tokenizer.enable_padding(length=7)
    config = architectures.build("BERT").config
    config.update({"vocab_size": len(names), "attn_implementation": "eager", **changes})
    torch.manual_seed(0)
    model = transformers.BertModel(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return ic.load_model(model, tokenizer=tokenizer)


SHORT: Any = {"n_ctx": 32, "max_steps": 3, "batch_tokens": 200, "n_looks": 1, "n_curve": 4}
ON_BERT = ic.cat.EncoderTraining(**SHORT, n_codes=5, lr=0.01, warmup_steps=0, frozen=True)
DEFAULT_VOCAB = 8192


def test_a_given_bert_is_left_as_it_is_and_its_codes_are_trained(
    text: Path, tmp_path: Path
) -> None:
    bert = given_bert()
    asked: Any = {"model": bert, "vocab_size": DEFAULT_VOCAB, "run": ON_BERT}
    found = study(text, tmp_path, ("cat-last", "cat-last-fixed"), **asked)
    assert "\ncat-last-fixed  layer 2  " in found.summary()
    assert found.config["d_model"] == bert.d_model
    assert found.config["vocab_size"] == len(bert.tokenizer)
    data = kept(tmp_path, found.config["data"])
    first = next(one for one in DOCUMENTS if share_of(" ".join(one.split())) >= HELD_OUT)
    line = first.split("\n")[0]
    expected = bert.tokenizer(line, add_special_tokens=False, truncation=False, padding=False)
    ids = data.train.tokens[: data.train.starts[1]].tolist()
    assert ids == expected["input_ids"]
    swept = Swept(text, tmp_path, found, Watch())
    one, two = (ic.load_model(swept.run("cat-last", seed) / "model") for seed in SEEDS)
    words = "the body of ann"
    theirs = ic.embed_texts(bert, [words], embedding="mean")
    torch.testing.assert_close(
        ic.embed_texts(one, [words], embedding="mean"), theirs, rtol=1e-4, atol=1e-5
    )
    comp = [
        ic.embed_texts(each.with_output("comp"), [words], embedding="mean") for each in (one, two)
    ]
    assert not torch.allclose(comp[0], comp[1], atol=1e-3)
    start, moved = moved_from(bert, one)
    assert {kind_of(name) for name in moved} == ADDED
    fixed: Any = ic.load_model(swept.run("cat-last-fixed", 0) / "model")
    book = f"blocks.{bert.n_layers - 1}.composition.codebook"
    assert torch.equal(fixed.lens.state_dict()[book], start.lens.state_dict()[book])
    assert book in moved


ADDED = {"composition", "mix_attn", "ln_mix", "mlm_head", "pair_head", "b_U"}
GIVEN = {"embed", "pos_embed", "token_type_embed", "embed_ln", "attn", "ln1", "mlp", "ln2"}


def moved_from(bert: Any, trained: Any) -> tuple[Any, set[str]]:
    """What a run of seed 0 began with, and which weights training moved."""
    start: Any = ic.cat.composed_encoder(bert, seed=0, n_codes=5, n_last_codes=len(SEMEMES.names))
    weights = trained.lens.state_dict()
    named = start.lens.named_parameters()
    return start, {name for name, one in named if not torch.equal(one, weights[name])}


def kind_of(name: str) -> str:
    return name.split(".")[2 if name.startswith("blocks") else 0]


def test_a_given_bert_is_trained_with_its_codes_unless_it_is_frozen(
    text: Path, tmp_path: Path
) -> None:
    bert = given_bert()
    asked: Any = {"model": bert, "vocab_size": DEFAULT_VOCAB, "seeds": 1}
    found = study(text, tmp_path, ["cat-last"], run=replace(ON_BERT, frozen=False), **asked)
    trained = ic.load_model(Swept(text, tmp_path, found, Watch()).run("cat-last", 0) / "model")
    _, moved = moved_from(bert, trained)
    assert {kind_of(name) for name in moved} == ADDED | GIVEN
    for layer, letter in product(range(bert.n_layers), "QKVO"):
        assert f"blocks.{layer}.attn.W_{letter}" in moved


def test_a_batch_has_the_given_tokenizers_special_tokens(text: Path, tmp_path: Path) -> None:
    bert = given_bert()
    asked: Any = {"model": bert, "vocab_size": DEFAULT_VOCAB, "run": ON_BERT, "seeds": 1}
    with watched() as watch:
        study(text, tmp_path, ("bert",), **asked)
    tokenizer = bert.tokenizer
    for batch in watch.steps["bert", 0]:
        assert (batch.tokens[:, 0] == tokenizer.cls_token_id).all()
        assert (batch.tokens[batch.mask == 0] == tokenizer.pad_token_id).all()
        ends = batch.tokens[torch.arange(len(batch.mask)), batch.mask.sum(dim=1) - 1]
        assert (ends == tokenizer.sep_token_id).all()
        assert not torch.isin(batch.target, torch.tensor(tokenizer.all_special_ids)).any()


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"run": replace(ON_BERT, d_model=12)}, OptionError, "d_model=12 with the model"),
        ({"vocab_size": 100}, OptionError, "vocab_size=100 with the model"),
        ({"run": replace(ON_BERT, n_ctx=999)}, OptionError, "n_ctx=999: expected at most"),
        ({"model": None}, OptionError, "frozen=True without a model"),
        ({"model": 1}, CapabilityError, "states type_vocab_size = 1"),
        ({"model": "mini-base"}, CapabilityError, "expected a BERT"),
    ],
)
def test_what_does_not_fit_the_given_model_is_refused(
    changes: dict[str, Any], error: type[Exception], said: str, text: Path, tmp_path: Path
) -> None:
    if "model" not in changes:
        changes["model"] = given_bert()
    elif changes["model"] == 1:
        changes["model"] = given_bert(type_vocab_size=1)
    elif changes["model"]:
        changes["model"] = ic.load_model(changes["model"])
    asked: Any = {"vocab_size": DEFAULT_VOCAB, "run": ON_BERT, **changes}
    with pytest.raises(error, match=said):
        study(text, tmp_path, ("cat-last",), **asked)
    assert not list(tmp_path.iterdir())


def share_of(text: str) -> float:
    """A text's place between 0 and 1, by its SHA-256."""
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") / 2**64


def test_what_is_kept_of_a_run_is_what_was_measured(whole: Swept) -> None:
    """The model of a run, loaded, has the loss of the table; its history has as many steps."""
    data, row = whole.data, whole.found.frames["held_out"].query("model == 'cat' and seed == 1")
    model = ic.load_model(whole.run("cat", 1) / "model")
    assert model.tokenizer.saved() == data.tokenizer.saved()
    run = PretrainingRun(data="", model="cat", seed=1, **vars(TINY))
    objective = Pretraining(
        Passages.of(data.train, run.n_ctx), WordPieces.of(data.tokenizer), None, run.weights(), True
    )
    again = measured(objective, model.lens, Passages.of(data.held_out, run.n_ctx))
    found = pd.DataFrame(again["curve"]).set_index("output")
    assert list(row["output"]) == ["cont", "comp", "mix"]
    for output, each in row.set_index("output").iterrows():
        assert each["masked_loss"] == pytest.approx(found.loc[output, "masked_loss"], rel=1e-6)
        assert each["n_pairs"] == found.loc[output, "n_pairs"] > 0
    curve = whole.found.frames["curve"]
    assert set(curve["step"]) == {0, 3, 6}
    assert set(curve.query("model == 'bert'")["output"]) == {"cont"}
    assert (curve["n_masked"] < row["n_masked"].iloc[0]).all()
    codes = whole.found.codes
    assert codes[["model", "layer"]].drop_duplicates().to_numpy().tolist() == [
        ["cat", 0],
        ["cat", 1],
    ]
    assert codes.groupby("layer")["n_codes"].first().tolist() == [5, 4]  # the last: sememes
    runs = whole.found.frames["runs"]
    assert runs["steps"].tolist() == [6] * 4
    assert (runs["last_loss"] < runs["first_loss"]).all()
    asked = {"vocab_size": VOCAB, "held_out": HELD_OUT, "held_out_words": HELD_OUT_WORDS}
    asked |= {"documents": "blank-line", "task": "people", "models": ["bert", "cat"]}
    assert {name: whole.found.config[name] for name in asked} == asked


def test_a_sweep_that_was_stopped_goes_on_to_the_same_weights(whole: Swept, tmp_path: Path) -> None:
    """It is stopped in the middle of the second run and of its first epoch."""
    passages = Passages.of(whole.data.train, TINY.n_ctx)
    config = PretrainingRun(data="", model="cat", **vars(TINY)).train_config(passages.lengths)
    assert config.evaluate_every == 3  # and a checkpoint with each
    assert config.steps_per_epoch(len(passages), passages.lengths) > 6
    out = whole.beside(tmp_path / "broken")
    with watched(stop_at=6 + 5) as watch, pytest.raises(KeyboardInterrupt):
        study(whole.text, out, seeds=1)
    assert watch.trained == [("bert", 0), ("cat", 0)]
    assert len(list(out.glob("runs/*/model"))) == 1
    with watched() as watch:
        broken = study(whole.text, out, seeds=1)
    assert watch.trained == [("cat", 0)]
    drawn = [batch.tokens for batch in watch.steps["cat", 0]]
    expected = [batch.tokens for batch in whole.watch.steps["cat", 0][3:]]
    assert all(torch.equal(a, b) for a, b in zip(drawn, expected, strict=True))
    for model in MODELS:
        weights = [
            ic.load_model(whole.run(model, 0, folder) / "model").lens.state_dict()
            for folder in (whole.out, out)
        ]
        assert weights[0].keys() == weights[1].keys()
        for name, one in weights[0].items():
            assert torch.equal(one, weights[1][name]), (model, name)
    for name in ic.cat.Pretrained.SCHEMA:
        expected_rows = timeless(whole.found, name.name, "seed == 0")
        pd.testing.assert_frame_equal(timeless(broken, name.name), expected_rows, check_exact=True)


def test_codes_that_no_word_has_are_moved_and_a_stopped_run_goes_on_alike(
    whole: Swept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two codes begin as 0, and so are like no word."""

    def dying(model: Any, *, seed: int) -> None:
        init_bert(model, seed=seed)
        model.blocks[0].composition.codebook.data[[1, 3]] = 0

    monkeypatch.setattr(run_file, "init_bert", dying)
    asked: Any = {"run": replace(TINY, revive_after=2), "seeds": 1}
    there, broken = (whole.beside(tmp_path / name) for name in ("there", "broken"))
    found = study(whole.text, there, ["cat"], **asked)
    with watched(stop_at=5), pytest.raises(KeyboardInterrupt):
        study(whole.text, broken, ["cat"], **asked)
    with watched() as watch:
        again = study(whole.text, broken, ["cat"], **asked)
    assert len(watch.steps["cat", 0]) == 3
    for name in ic.cat.Pretrained.SCHEMA:
        pd.testing.assert_frame_equal(
            timeless(again, name.name), timeless(found, name.name), check_exact=True
        )
    one, other = (
        ic.load_model(whole.run("cat", 0, out) / "model").lens.state_dict()
        for out in (there, broken)
    )
    assert all(torch.equal(weight, other[name]) for name, weight in one.items())
    assert one["blocks.0.composition.codebook"][[1, 3]].any(dim=1).all()
    moved = found.frames["codes_curve"].query("layer == 0").set_index("step")["revived"]
    assert list(moved.index) == [0, 3, 6]
    assert moved[0] == 0
    assert moved[3] >= 2
    assert found.codes.query("layer == 0")["revived"].tolist() == [moved[6]]
    still = study(whole.text, tmp_path / "off", ["cat"], seeds=1)
    assert not still.frames["codes_curve"]["revived"].any()
    codes = ic.load_model(whole.run("cat", 0, tmp_path / "off") / "model").lens.state_dict()
    assert not codes["blocks.0.composition.codebook"][[1, 3]].any()


RUN_FILES = "runs/*/run.json"


@can_fork
def test_two_processes_share_each_run_out(tmp_path: Path) -> None:
    """As one process with two parts of each batch, up to the order in which numbers are added; the
    first alone writes, and all return the result, or an error."""
    out = outcome_of("tests.papers.cat.studies.pretrain_in_two", tmp_path)
    assert out["codes"] == [0, 0]
    one, (first, second) = out["one"], out["two"]
    for name, columns in (
        ("runs", ["first_loss", "last_loss"]),
        ("held_out", ["masked_loss", "masked_accuracy", "next_accuracy"]),
        ("codes_curve", ["codes_per_word", "dead_codes", "revived"]),
    ):
        assert first[name] == second[name]
        ours, theirs = (pd.DataFrame(each[name])[columns] for each in (first, one))
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, err_msg=name)
    moved = pd.DataFrame(first["codes_curve"]).query("layer == 0 and step == 6")["revived"]
    assert moved.tolist()[0] >= 2
    losses, whole = (
        sorted(json.loads(path.read_text())["losses"] for path in (tmp_path / name).glob(RUN_FILES))
        for name in ("two", "one")
    )
    np.testing.assert_allclose(losses, whole, rtol=1e-4)
    for said in (first, second):
        assert "where='workers' in one of 2 processes" in said["refused"]
    assert first["broken"].startswith("NonFiniteError: 1 of 1 runs failed")
    assert second["broken"].startswith("ModelError: the first process stopped: NonFiniteError: 1")


def test_a_later_call_trains_what_it_adds(whole: Swept, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)
    with watched() as watch:
        again = study(whole.text, out, ("cat", "bert"))
    assert watch.trained == []
    assert again.config["models"] == ["cat", "bert"]
    assert set(again.differences["other"]) == {"cat cont"}
    with watched() as watch:
        study(whole.text, out, ["bert"], seeds=3)
        larger = study(whole.text, out, ["bert", "cat-fixed"], seeds=1, first_seed=1)
    assert watch.trained == [("bert", 2), ("cat-fixed", 1)]
    for name in ("runs", "held_out", "curve"):
        pd.testing.assert_frame_equal(
            timeless(larger, name, "model == 'bert'"),
            timeless(whole.found, name, "model == 'bert' and seed == 1"),
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_file, "train", lambda config, folder: 1 / 0)
        with pytest.raises(ModelError, match="1 of 3 runs failed"):
            study(whole.text, out, ["bert", "cat", "cat-last"], seeds=1)


# ---- the data -------------------------------------------------------------------------------


def options(**changes: Any) -> DataOptions:
    given = {"documents": "blank-line", "held_out": HELD_OUT, "vocab_size": VOCAB}
    return DataOptions(**{**given, "held_out_words": HELD_OUT_WORDS, **changes})


def sentences_of(data: PretrainingData, part: str) -> list[list[list[int]]]:
    """Documents of sentences of tokens."""
    text = getattr(data, part)
    each = [text.tokens[low:high].tolist() for low, high in pairwise(text.starts.tolist())]
    ends = text.documents.tolist()
    return [each[low:high] for low, high in pairwise(ends)]


def test_data_are_the_tokens_of_the_sentences_by_document(whole: Swept) -> None:
    """Each sentence alone; documents by the SHA-256 of their words, a repeated one once."""
    data = whole.data
    report, counts = data.report, {}
    assert whole.found.config["data_report"] == report
    for part in ("train", "held_out"):
        own = [
            document
            for document in DOCUMENTS
            if (share_of(" ".join(document.split())) < HELD_OUT) == (part == "held_out")
        ]
        expected = [
            [data.tokenizer.encode(line, add_special_tokens=False) for line in one.split("\n")[:3]]
            for one in own
        ]
        assert sentences_of(data, part) == expected
        counts[f"{part}_documents"] = len(own)
        counts[f"{part}_sentences"] = 3 * len(own)
        counts[f"{part}_tokens"] = sum(len(ids) for one in expected for ids in one)
    counts |= {"left_out_as_repeated": 1, "sememes": 4, "guiding_words": 5, "held_out_words": 3}
    assert report == counts
    assert len(data.tokenizer) == VOCAB
    assert min(counts["train_documents"], counts["held_out_documents"]) > 5


def test_folders_compressed_files_and_windows_lines_are_the_same_data(
    whole: Swept, tmp_path: Path
) -> None:
    """Files of a folder one after another; lines of white space are blank."""
    folder = tmp_path / "folder"
    (folder / "more").mkdir(parents=True)
    first = "\n \t\n\n".join(DOCUMENTS[:50])
    (folder / "a.txt").write_bytes(first.replace("\n", "\r\n").encode("utf-8-sig"))
    rest = "\n\n".join([*DOCUMENTS[50:], DOCUMENTS[3]])
    (folder / "more" / "b.txt.gz").write_bytes(gzip.compress(rest.encode()))
    out = tmp_path / "out"
    digest, report = prepared(folder, SEMEMES, options(), out, n_ctx=TINY.n_ctx)
    found = kept(out, digest)
    assert report == whole.data.report
    assert digest != whole.found.config["data"]
    for part in ("train", "held_out"):
        assert [
            [found.tokenizer.decode(ids) for ids in one] for one in sentences_of(found, part)
        ] == [
            [whole.data.tokenizer.decode(ids) for ids in one]
            for one in sentences_of(whole.data, part)
        ]


def test_a_text_gives_the_same_data_wherever_they_are_made(text: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        prepared(text, SEMEMES, options(), tmp_path / name, n_ctx=TINY.n_ctx)
    one, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name).glob("data/*/*")}
        for name in ("one", "other")
    )
    assert len(one) == 8
    assert one == other


def test_data_of_other_options_are_others_and_are_made_once(
    whole: Swept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = whole.beside(tmp_path / "out")
    made, real = [], data_file._make

    def counted(*args: Any) -> None:
        made.append(args)
        real(*args)

    monkeypatch.setattr(data_file, "_make", counted)
    same, _ = prepared(whole.text, SEMEMES, options(), out, n_ctx=TINY.n_ctx)
    assert same == whole.found.config["data"]
    assert not made
    others = {
        prepared(whole.text, sememes, options(**changes), out, n_ctx=TINY.n_ctx)[0]
        for sememes, changes in (
            (None, {}),
            (SEMEMES, {"held_out": 0.3}),
            (SEMEMES, {"vocab_size": 59}),
            (SEMEMES, {"held_out_words": 0.5}),
            (replace(SEMEMES, words={**SEMEMES.words, "so": (3,)}), {}),
        )
    }
    assert len(others - {same}) == len(made) == 5


def test_two_calls_that_make_the_same_data_both_go_on(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = data_file._make, []

    def beaten(*args: Any) -> None:
        """Another call is done first."""
        real(*args)
        monkeypatch.setattr(data_file, "_make", real)
        seen.append(prepared(text, None, options(), tmp_path, n_ctx=TINY.n_ctx)[0])

    monkeypatch.setattr(data_file, "_make", beaten)
    digest, report = prepared(text, None, options(), tmp_path, n_ctx=TINY.n_ctx)
    assert seen == [digest]
    assert report["train_documents"] > 0
    assert [path.name for path in (tmp_path / "data").iterdir()] == [digest]


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("about.json", "altered", "about.json was truncated or altered"),
        ("train.tokens", "altered", "train.tokens was truncated or altered"),
        ("held_out.starts", "truncated", "held_out.starts was truncated or altered"),
        ("train.documents", "deleted", "train.documents is missing"),
        ("SHA256SUMS", "truncated", "SHA256SUMS is truncated or altered"),
        ("SHA256SUMS", "deleted", "SHA256SUMS is missing"),
    ],
)
def test_data_that_were_damaged_are_refused(
    name: str, damage: str, message: str, whole: Swept, tmp_path: Path
) -> None:
    """By the call, and by a run of it; what is said to do helps."""
    out, digest = whole.beside(tmp_path / "out"), whole.found.config["data"]
    path = out / "data" / digest / name
    content = path.read_bytes()
    if damage == "deleted":
        path.unlink()
    else:
        path.write_bytes(content[:-1] + (bytes([content[-1] ^ 1]) if damage == "altered" else b""))
    for call in (lambda: study(whole.text, out), lambda: kept(out, digest)):
        with pytest.raises(CorruptFileError, match=re.escape(message)) as refusal:
            call()
        assert f"Or delete {path.parent}, and call the study again." in str(refusal.value)
    assert not (out / "runs").exists()
    shutil.rmtree(path.parent)
    with pytest.raises(CorruptFileError, match="is missing, which has the data; call the study"):
        kept(out, digest)
    assert prepared(whole.text, SEMEMES, options(), out, n_ctx=TINY.n_ctx)[0] == digest
    assert kept(out, digest).report == whole.data.report


# ---- refusals -------------------------------------------------------------------------------

PAIR = b"a b\nb a\n\n"
TEXTS: dict[str, tuple[bytes, type[Exception], str]] = {
    "empty": (b" \n\t\n", DataFormatError, "text.txt is empty; leave it out"),
    "binary": (PAIR + b"c\0d", DataFormatError, r"has a NUL byte \(at character 10\)"),
    "binary late": ("\n\n".join(DOCUMENTS).encode() + b"\n\0", DataFormatError, "has a NUL byte"),
    "latin-1": (PAIR + "été".encode("latin-1"), DataFormatError, "text.txt is no UTF-8 text"),
    "one line": (b"one line alone", InputError, r"of .*text.txt has no document, of 1; give more"),
    "one document": (PAIR, InputError, r"has no document, of 1; give more text, or another share"),
    "no pairs": (
        "\n\n".join(  # but held out, where nothing is learned
            one if share_of(" ".join(one.split())) < HELD_OUT else one.replace("\n", " ")
            for one in DOCUMENTS
        ).encode(),
        InputError,
        "no document of .*text.txt has two sentences that fit into n_ctx=18 tokens together",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    content, error, message = TEXTS[name]
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(error, match=message):
        study(tmp_path / "text.txt", tmp_path / "out", ["bert"], sememes=None)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


OTHERS = ic.cat.Sememes(("a",), {"§": (0,), "é": (0,), "¶": (0,), "ß": (0,)})
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"models": ["bert", "cta"]}, OptionError, "model 'cta': expected one of bert, cat, cat-last"),
    ({"models": []}, OptionError, "models is empty"),
    ({"models": ["cat", "cat"]}, OptionError, "models name 'cat' more than once"),
    (
        {"models": ["cat", "cat-last"], "run": replace(TINY, n_layers=1)},
        OptionError,
        "'cat' and 'cat-last', which are the same model",
    ),
    ({"sememes": None}, InputError, "the model 'cat' needs sememes, which guide the codes"),
    ({"sememes": OTHERS, "held_out_words": 0.5}, InputError, "no annotated word has tokens of"),
    ({"held_out": 0.0}, OptionError, "held_out=0.0: expected a share between 0 and 1"),
    ({"held_out": 1.0}, OptionError, "held_out=1.0: expected a share between 0 and 1"),
    ({"held_out": math.nan}, OptionError, "held_out=nan: expected a share between 0 and 1"),
    ({"held_out": 1e-9}, InputError, "with held_out=1e-09 the part 'held_out' of .* no document"),
    ({"held_out": 0.99999}, InputError, "the part 'train' of .* has no document, of 121"),
    ({"held_out_words": 0.0}, OptionError, "held_out_words=0.0: expected a share between 0 and 1"),
    ({"held_out_words": 1e-9}, OptionError, "holds out none of the 9 .* a larger share, such as"),
    ({"held_out_words": 1 - 1e-9}, OptionError, "holds out all of the 9 .* a smaller share, such"),
    ({"vocab_size": 8192}, OptionError, "vocab_size=8192: the text supports [0-9]+ entries"),
    ({"vocab_size": 5}, OptionError, "vocab_size=5: expected 6 to"),
    ({"vocab_size": 0}, OptionError, "vocab_size=0: expected 6 to"),
    ({"run": replace(TINY, n_ctx=4)}, OptionError, "n_ctx=4: expected 5 or more"),
    ({"run": replace(TINY, n_ctx=8)}, InputError, "two sentences that fit into n_ctx=8 tokens"),
    ({"run": replace(TINY, d_model=9)}, OptionError, "n_heads=2: expected a divisor of d_model=9"),
    ({"run": replace(TINY, dropout=1.0)}, OptionError, "dropout=1.0"),
    ({"run": replace(TINY, n_looks=0)}, OptionError, "n_looks=0: expected 1 or more"),
    ({"run": replace(TINY, n_curve=0)}, OptionError, "n_curve=0: expected 1 or more"),
    ({"run": replace(TINY, revive_after=0)}, OptionError, "revive_after=0: expected 1 or more"),
    ({"run": replace(TINY, lr=0.0)}, OptionError, "lr=0.0"),
    ({"run": replace(TINY, batch_tokens=0)}, OptionError, "batch_tokens=0"),
    ({"run": replace(TINY, guided=-1.0)}, OptionError, "guided=-1.0: expected a finite number"),
    (
        {"run": replace(TINY, guided_positive=math.nan)},
        OptionError,
        "guided_positive=nan: expected a finite number",
    ),
    (
        {"run": replace(TINY, guided_positive=0.5), "models": ["bert", "cat-mlp"]},
        OptionError,
        "guided_positive=0.5 acts on none of the models bert, cat-mlp, which have no codes",
    ),
    ({"seeds": 0}, OptionError, "seeds=0: expected a whole number"),
    ({"first_seed": 2**63}, OptionError, "first_seed=9223372036854775808"),
    ({"workers": 2}, OptionError, "workers=2 with where='here'"),
]


@pytest.mark.parametrize(("asked", "error", "message"), REFUSED)
def test_what_cannot_be_is_refused_before_anything_is_written(
    asked: dict[str, Any], error: type[Exception], message: str, text: Path, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        study(text, tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()


def test_a_context_has_to_hold_two_neighbouring_sentences(
    whole: Swept, text: Path, tmp_path: Path
) -> None:
    """With three special tokens; whether the data are there already, or not."""
    of_training = sentences_of(whole.data, "train")
    pairs = [len(a) + len(b) for one in of_training for a, b in pairwise(one)]
    least = min(pairs) + 3
    there = whole.beside(tmp_path / "there")
    for out in (tmp_path / "new", there):
        with pytest.raises(InputError, match=f"fit into n_ctx={least - 1} tokens together"):
            prepared(text, SEMEMES, options(), out, n_ctx=least - 1)
    assert not (tmp_path / "new").exists()
    for out in (tmp_path / "new", there):
        digest, _ = prepared(text, SEMEMES, options(), out, n_ctx=least)
        passages = Passages.of(kept(out, digest).train, least)
        assert int((passages.bounds[:, 1] - passages.bounds[:, 0]).max()) == 2


def test_a_text_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no .*nosuch"):
        study(tmp_path / "nosuch", tmp_path / "out")
    (tmp_path / "folder").mkdir()
    with pytest.raises(MissingDataError, match="holds no text file"):
        study(tmp_path / "folder", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_disk_that_fills_up_leaves_no_data(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written until then goes; the next call makes them."""
    out = tmp_path / "out"

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(data_file, "write_sums", full)
        with pytest.raises(ic.errors.OutputError, match="No space left on device"):
            prepared(text, None, options(), out, n_ctx=TINY.n_ctx)
    assert list((out / "data").iterdir()) == []
    digest, _ = prepared(text, None, options(), out, n_ctx=TINY.n_ctx)
    assert [path.name for path in (out / "data").iterdir()] == [digest]


# ---- the paper's setting, and the command ---------------------------------------------------


@pytest.mark.parametrize("model", [name for name in VARIANTS if name != "bert"])
def test_the_last_block_has_one_code_for_each_sememe(model: str) -> None:
    """However many the others have, and whatever a given model had."""
    own = {name: SHAPE[name] for name in SHAPE if name != "n_codes"}
    start = ic.cat.EncoderConfig(d_vocab=VOCAB, n_codes=99, n_last_codes=2, **own)  # type: ignore[arg-type]
    for n_codes, given in product((1, 3, 50), (None, start)):
        run = PretrainingRun(**{**vars(TINY), "n_codes": n_codes}, data="", model=model)
        config = run.model_config(VOCAB, SEMEMES, given)
        assert (config.n_codes, config.last_codes) == (n_codes, len(SEMEMES.names))
        unit = replace(run, code_norm="unit").model_config(VOCAB, SEMEMES, given)
        assert unit == replace(config, code_norm="unit") != config


def test_the_papers_shape_and_tokens() -> None:
    """Four blocks of BERT's width; a million batches of 256 passages of 128 tokens."""
    run = PAPER.run
    config = PretrainingRun(data="", model="bert", **vars(run)).check(PAPER.source.vocab_size, None)
    with torch.device("meta"):
        blocks = SmallEncoder(config).blocks
    assert sum(weight.numel() for weight in blocks.parameters()) == 4 * (12 * 768**2 + 13 * 768)
    assert config.d_vocab == 30522
    assert (run.max_steps, run.batch_tokens, run.n_ctx) == (10**6, 256 * 128, 128)
    parsed = cli._parsed(["pretrain", "--paper", "--lr", "1e-3"])
    assert parsed.run == replace(run, lr=1e-3)
    assert parsed.source.vocab_size == 30522
    assert cli._parsed(["pretrain"]).run == ic.cat.EncoderTraining()


def test_a_step_of_the_papers_model() -> None:
    """All of its size but the vocabulary, at its peak learning rate; in float32, since matrices of
    this size take most CPUs a minute in bfloat16."""
    run = PretrainingRun(data="", model="cat", **vars(PAPER.run))
    size, random = 997, np.random.default_rng(0)
    model = SmallEncoder(run.check(size, SEMEMES)).train()
    generator = torch.Generator().manual_seed(0)
    for name, weight in model.named_parameters():
        if name.rpartition(".")[2].startswith(("W", "codebook")):
            torch.nn.init.normal_(weight, std=0.02, generator=generator)  # as at this width
    starts = np.arange(0, 24 * 5, 5)
    text = Sentences(random.integers(5, size, starts[-1]), starts, np.array([0, 8, 16, 23]))
    vocabulary = WordPieces(np.zeros(size, bool), np.arange(5, size), pad=0, cls=2, sep=3, mask=4)
    lexicon = Lexicon.of({(int(one),): (0,) for one in text.tokens[:50]}, len(SEMEMES.names))
    passages = Passages.of(text, run.n_ctx)
    objective = Pretraining(passages, vocabulary, lexicon, run.weights(), composes=True)
    training = run.train_config(objective.lengths)
    assert training.evaluate_every == 10**6 // run.n_looks == 10_000
    assert training.warmup_of(10**6) == 10_000
    trainer = Trainer(model, objective, replace(training, accumulate=1, precision="float32"))
    trainer.step = 10_000  # where the warm-up ends
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    first = trainer.train_step()
    assert first["lr"] == pytest.approx(1e-4)
    assert first["masked"] == pytest.approx(math.log(size), rel=0.05)  # it knows nothing yet
    assert first["next"] == pytest.approx(math.log(2), abs=0.3)
    for name, weight in model.named_parameters():
        assert torch.isfinite(weight).all(), name
        unread = name.endswith("attn.b_K")  # softmax takes no notice of it
        assert unread or not torch.equal(weight, before[name]), name


def test_a_run_of_the_papers_setting_goes_on_to_the_same_weights(
    whole: Swept, tmp_path: Path
) -> None:
    """Everything but the size is the paper's: dropout, precision, parts of a batch, schedule."""
    small: Any = {**SHAPE, "max_steps": 6, "batch_tokens": 150, "n_looks": 3, "n_curve": 6}
    run = replace(PAPER.run, **small)
    assert (run.dropout, run.precision, run.accumulate) == (0.1, "bfloat16", 4)
    there, broken = (whole.beside(tmp_path / name) for name in ("there", "broken"))
    found = study(whole.text, there, ["cat"], run=run, seeds=1)
    with watched(stop_at=4 * 3 + 2), pytest.raises(KeyboardInterrupt):  # in the fourth step
        study(whole.text, broken, ["cat"], run=run, seeds=1)
    with watched() as watch:
        again = study(whole.text, broken, ["cat"], run=run, seeds=1)
    assert len(watch.steps["cat", 0]) == 4 * 4
    one, other = (
        ic.load_model(whole.run("cat", 0, out) / "model").lens.state_dict()
        for out in (there, broken)
    )
    assert all(torch.equal(weight, other[name]) for name, weight in one.items())
    for name in ic.cat.Pretrained.SCHEMA:
        pd.testing.assert_frame_equal(
            timeless(again, name.name), timeless(found, name.name), check_exact=True
        )


def test_the_command_needs_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["pretrain", "--models", "bert", "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert "OptionError: --data-dir is missing: expected a text file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command_refuses_another_runs_folder_before_it_reads_the_text(
    whole: Swept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    whole.found.save(out)
    with pytest.raises(SystemExit) as stopped:
        cli.main(
            [
                "pretrain",
                "--models",
                "bert",
                "--data-dir",
                str(tmp_path / "nosuch"),
                "--out",
                str(out),
            ]
        )
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert "holds the result of another run: " in error
    assert "vocab_size was 60, is now 8192" in error
    assert not (out / "data").exists()
