"""Encoders judged on pairs of texts: vectors one text at a time, correlations and classifiers by
other routines, what collapses, refusals."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

import interp_compose as ic
from interp_compose.errors import InputError, MissingDataError, ModelError, OptionError
from interp_compose.papers.cat.studies.encoders import measure as run_file
from interp_compose.papers.cat.studies.encoders.cosines import have_same_words
from interp_compose.papers.cat.studies.encoders.result import METRICS
from interp_compose.papers.cat.studies.encoders.tuned import nested, same_words_values
from interp_compose.papers.cat.studies.encoders.vectors import vectors
from interp_compose.papers.cat.training.classifier import ClassifierHead
from interp_compose.tasks.pairs import Pair, PairTask
from interp_compose.training.loop import Trainer
from tests.papers.cat.studies.test_pretrain import DOCUMENTS, MODELS, TINY, study

# ---- a result of frames ---------------------------------------------------------------------

CONFIG = {"models": ["bert", "cat"], "seeds": [0, 1], "task": "people"}
READINGS = {("bert", "cont"): 0.3, ("cat", "cont"): 0.2, ("cat", "comp"): 0.4, ("cat", "mix"): 0.1}
NO = ("no", "nothing", 0.0)
CELLS = [
    ("bird", *NO, "all", "pearson"),
    ("bird", *NO, "mirror", "pearson"),
    ("bird", "end-to-end", "paws", 1.0, "mirror", "pearson"),
    ("bird", *NO, "all", "spearman"),
    ("paws", *NO, "all", "auc"),
    ("paws", "frozen", "paws", 0.5, "label 0", "accuracy"),
    ("paws", "frozen", "paws", 0.5, "same words", "specificity"),
    ("paws", "frozen", "paws", 0.5, "same words", "balanced_accuracy"),
    ("cola", "frozen", "cola", 1.0, "all", "matthews"),
    ("mrpc", "frozen", "mrpc", 1.0, "ood", "f1"),
    ("squad", "frozen", "squad", 1.0, "addsent", "exact_match"),
    ("squad", "frozen", "squad", 1.0, "addsent", "token_f1"),
]


def frames() -> dict[str, pd.DataFrame]:
    names = ("task", "tuned", "trained_on", "share", "subset", "metric")
    rows = [
        {
            **{"model": model, "seed": seed, "output": output, "embedding": embedding},
            **dict(zip(names, cell, strict=True)),
            "value": value + 0.05 * seed + 0.1 * (embedding == "mean"),
            "n": 40,
            "n_cut": 2 * (cell[-1] == "accuracy"),
        }
        for ((model, output), value), seed, embedding, cell in product(
            READINGS.items(), (0, 1), ("cls", "mean"), CELLS
        )
    ]
    return {"scores": pd.DataFrame(rows)}


def result() -> ic.cat.EncoderScores:
    return ic.cat.EncoderScores.from_rows(frames(), CONFIG)


def test_means_and_differences_by_hand() -> None:
    place = {"embedding": "cls", "task": "bird", "subset": "mirror", "metric": "pearson"}
    place |= {"tuned": "no"}
    chosen = " and ".join(f"{name} == '{value}'" for name, value in place.items())
    rows = result().frame.query(chosen).set_index(["model", "output"])
    assert list(rows.index) == list(READINGS)
    assert rows.loc[("cat", "comp"), "mean"] == pytest.approx(0.425)
    assert rows.loc[("cat", "comp"), ["smallest", "largest"]].tolist() == pytest.approx([0.4, 0.45])
    assert rows.loc[("cat", "mix"), "low"] < 0  # a correlation can be
    apart = result().differences.query(f"{chosen} and compared == 'first'").set_index("reading")
    assert set(apart["other"]) == {"bert cont"}
    assert apart["difference"].to_dict() == pytest.approx(
        {"cat cont": -0.1, "cat comp": 0.1, "cat mix": -0.2}
    )
    within = result().differences.query(f"{chosen} and compared == 'output'").set_index("reading")
    assert within["difference"].to_dict() == pytest.approx({"cat comp": 0.2, "cat mix": -0.1})


def test_readings_are_corrected_by_what_is_compared_and_by_task() -> None:
    random = np.random.default_rng(0)
    given = frames()["scores"].query("embedding == 'cls' and task in ('bird', 'paws')")
    controls = ["cat-fixed", "cat-mlp", "cat-last"]  # of which the last is none
    one = given[given["seed"] == 0]
    one = pd.concat([one, *(one[one["model"] == "cat"].assign(model=name) for name in controls)])
    three = pd.concat([one.assign(seed=seed) for seed in range(3)])
    scores = three.assign(value=random.uniform(-0.5, 0.5, len(three)))
    config = {**CONFIG, "models": ["bert", "cat", *controls], "seeds": [0, 1, 2]}
    found = ic.cat.EncoderScores.from_rows({"scores": scores}, config).differences
    readings = [(m, o) for m in ("cat", *controls) for o in ("cont", "comp", "mix")]
    asked = {
        "first": {(f"{m} {o}", "bert cont") for m, o in readings},
        "output": {(f"{m} {o}", f"{m} cont") for m, o in readings if o != "cont"},
        "control": {
            (f"cat {o}", f"cat-{one} {o}")
            for o in ("cont", "comp", "mix")
            for one in ("fixed", "mlp")
        },
    }
    key = ["tuned", "share", "subset", "metric", "task"]
    place = scores.groupby([*key, "model", "output"])["value"].apply(lambda v: v.tolist())
    for (compared, task), rows in found.groupby(["compared", "task"]):
        assert {*zip(rows["reading"], rows["other"], strict=True)} == asked[compared]
        assert len(rows) == len(asked[compared]) * sum(cell[0] == task for cell in CELLS)
        p = []
        for row in rows.to_dict("records"):
            ours, theirs = (
                place[(*(row[one] for one in key), *row[name].split())]
                for name in ("reading", "other")
            )
            assert row["difference"] == pytest.approx(np.mean(ours) - np.mean(theirs))
            p.append(stats.ttest_rel(ours, theirs).pvalue)
        assert rows["p"].tolist() == pytest.approx(p)
        ranks = np.argsort(p)
        holm = np.maximum.accumulate([(len(p) - i) * p[j] for i, j in enumerate(ranks)]).clip(max=1)
        assert rows["p_holm"].to_numpy()[ranks] == pytest.approx(holm)


def test_a_value_that_does_not_exist_is_left_out_and_counted() -> None:
    given = frames()["scores"]
    gone = (given["model"] == "cat") & (given["output"] == "comp") & (given["seed"] == 1)
    gone &= (given["metric"] == "auc") & (given["embedding"] == "cls")
    given.loc[gone, "value"] = math.nan
    found = ic.cat.EncoderScores.from_rows({"scores": given}, CONFIG)
    cells = found.frame.query("metric == 'auc' and embedding == 'cls'")
    assert ["cat", "comp"] not in cells[["model", "output"]].to_numpy().tolist()
    assert len(cells) == 3
    assert "1 values do not exist" in found.summary()
    assert found.differences["difference"].notna().all()
    nothing = ic.cat.EncoderScores.from_rows({"scores": given.assign(value=math.nan)}, CONFIG)
    assert nothing.frame.empty
    assert nothing.figures() == {}
    assert "do not exist" in nothing.summary()


def test_a_figure_for_each_metric() -> None:
    found = result().figures()
    assert list(found) == [f"encoders_{one}" for one in METRICS]
    assert "2 texts or pairs are longer" in result().summary()


# ---- on trained encoders --------------------------------------------------------------------

WORDS = sorted({word for text in DOCUMENTS for word in text.split() if word.isalpha()})


def phrase(number: int, n: int) -> str:
    return " ".join(WORDS[(7 * number + 3 * i) % len(WORDS)] for i in range(n))


def pair(number: int, **judged: Any) -> Pair:
    """The first and the last are mirrors of each other: the same words in both orders."""
    text = phrase(number, 2 + number % 3)
    other = " ".join(reversed(text.split())) if not 6 <= number < 24 else phrase(number + 5, 3)
    return Pair(text, other, **judged)


SCORED = tuple(pair(i, score=(5 * i % 13) / 13, subset="ab"[i % 2]) for i in range(16))
LABELLED = tuple(pair(i, label=int(i % 3 == 0)) for i in range(30))
TASKS = {
    "mine": PairTask("mine", (), SCORED, {}),
    "same": PairTask("same", LABELLED[:18], LABELLED[18:], {}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    text = folder / "people.txt"
    text.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    study(text, folder / "out", run=replace(TINY, max_steps=1, n_looks=1))
    return folder / "out"


@pytest.fixture(scope="module")
def one_seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    text = folder / "people.txt"
    text.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    study(text, folder / "out", ("cat",), seeds=1, run=replace(TINY, max_steps=1, n_looks=1))
    return folder / "out"


@pytest.fixture(scope="module")
def judged(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> ic.cat.EncoderScores:
    return encoders(runs, TASKS, tmp_path_factory.mktemp("judged"))


def encoders(runs: Path, tasks: Any, out: Path, **asked: Any) -> ic.cat.EncoderScores:
    return ic.cat.encoders(runs, tasks, out, **{"where": "here", "progress": False, **asked})


def models_of(runs: Path) -> Iterator[tuple[str, int, Any]]:
    for folder in sorted((runs / "runs").iterdir()):
        about = pd.read_json(folder / "run.json", typ="series")["run"]
        yield about["model"], about["seed"], ic.load_model(folder / "model", device="cpu")


def test_correlations_are_those_of_vectors_read_one_by_one(
    runs: Path, judged: ic.cat.EncoderScores
) -> None:
    found = judged.frames["scores"].query("tuned == 'no'")
    found = found.set_index(["model", "seed", "output", "embedding", "task", "subset", "metric"])[
        "value"
    ]
    counts: dict[str, int] = defaultdict(int)
    for model, seed, encoder in models_of(runs):
        if seed:
            continue  # by the same code as seed 0
        for output, embedding in product(encoder.lens.outputs, ("cls", "mean")):
            read = encoder.with_output(output)
            place = (model, seed, output, embedding)
            texts = {text for one in (*SCORED, *LABELLED[18:]) for text in (one.text1, one.text2)}
            alone = {
                text: ic.embed_texts(read, [text], embedding=embedding)[0].double()
                for text in texts
            }
            for task, pairs in (("mine", SCORED), ("same", LABELLED[18:])):
                cosines = []
                for one in pairs:
                    x, y = alone[one.text1], alone[one.text2]
                    cosines.append(float(x @ y / x.norm() / y.norm()))
                if task == "same":
                    labels = [one.label for one in pairs]
                    expected = roc_auc_score(labels, cosines)
                    assert found[(*place, task, "all", "auc")] == pytest.approx(expected)
                    # the last six have the same words
                    expected = slow_auc(cosines[6:], labels[6:])
                    assert found[(*place, task, "same words", "auc")] == pytest.approx(expected)
                    counts[task] += 1
                    continue
                for subset in ("all", "a", "b", "mirror"):
                    kept = [
                        i
                        for i, one in enumerate(pairs)
                        if subset in ("all", one.subset) or (subset == "mirror" and one.is_mirror)
                    ]
                    scores = [pairs[i].score for i in kept]
                    own = [cosines[i] for i in kept]
                    r = stats.pearsonr(own, scores).statistic
                    assert found[(*place, task, subset, "pearson")] == pytest.approx(r, abs=1e-4)
                    rho = stats.spearmanr(np.round(own, 6), scores).statistic
                    assert found[(*place, task, subset, "spearman")] == pytest.approx(rho, abs=0.05)
                    counts[subset] += 1
    assert counts == dict.fromkeys(("all", "a", "b", "mirror", "same"), 2 * (1 + 3))


def slow_auc(scores: Any, labels: Any) -> float:
    """Over all pairs of one of class 1 and one of class 0, ties ½."""
    wins = [
        1.0 if one > other else 0.5 if one == other else 0.0
        for one, label in zip(scores, labels, strict=True)
        for other, other_label in zip(scores, labels, strict=True)
        if label == 1 and other_label == 0
    ]
    return sum(wins) / len(wins)


def slow_same_words(logits: Any, labels: Any) -> dict[str, float]:
    """Counted one by one; of two equal logits class 0 is predicted."""
    right: dict[int, list[bool]] = {0: [], 1: []}
    for (of_0, of_1), label in zip(logits, labels, strict=True):
        right[int(label)].append((of_1 > of_0) == (label == 1))
    shares = [sum(own) / len(own) for own in (right[0], right[1])]
    return {
        "specificity": shares[0],
        "balanced_accuracy": (shares[0] + shares[1]) / 2,
        "auc": slow_auc([of_1 - of_0 for of_0, of_1 in logits], labels),
    }


def pairs_of(texts: list[tuple[str, str]], labels: list[int]) -> tuple[ic.cat.LabelledText, ...]:
    return tuple(
        ic.cat.LabelledText(*own, float(label)) for own, label in zip(texts, labels, strict=True)
    )


def swap_task(test: Any, **named: Any) -> ic.cat.LabelledTask:
    train = pairs_of([("a b", "c d"), ("a b", "a b c")], [0, 1])
    return ic.cat.LabelledTask("swap", {"train": train, "test": test, **named}, ("0", "1"))


def test_texts_with_the_same_words_in_another_order() -> None:
    assert have_same_words("Can a dog see a cat ?", "can a cat see a dog ?")
    assert have_same_words("a a b", "a b a")
    assert have_same_words("STRASSE der", "der Straße")  # case as str.casefold has it
    assert not have_same_words("a b", "A  b")  # the same order
    assert not have_same_words("a a b", "a b b")  # not as often
    assert not have_same_words("a b", "b a .")
    assert not have_same_words("ab c", "a bc")


LOGITS_AND_LABEL = st.tuples(st.integers(-4, 4), st.integers(-4, 4), st.booleans())


@given(st.lists(LOGITS_AND_LABEL, min_size=1, max_size=9))
def test_values_of_same_words_are_those_counted_one_by_one(
    drawn: list[tuple[int, int, bool]],
) -> None:
    logits = np.array([[a, b] for a, b, _ in drawn], dtype=float)
    labels = [int(label) for _, _, label in drawn]
    n = len(labels)
    # every second has the same words
    texts = [("x y z", "z y x" if i % 2 == 0 else "z y") for i in range(n)]
    task = swap_task(pairs_of(texts, labels))
    is_same, values = same_words_values(task, "test", logits)
    assert is_same.tolist() == [i % 2 == 0 for i in range(n)]
    own = labels[::2]
    if len(own) < 3 or len(set(own)) < 2:
        assert values == {}
        return
    assert values == pytest.approx(slow_same_words(logits[::2].tolist(), own))


def test_same_words_need_two_classes_and_pairs() -> None:
    same = [("x y", "y x")] * 4
    logits = np.arange(8.0).reshape(4, 2)
    assert same_words_values(swap_task(pairs_of(same, [1] * 4)), "test", logits)[1] == {}
    assert same_words_values(swap_task(pairs_of(same[:2], [0, 1])), "test", logits[:2])[1] == {}
    texts = tuple(ic.cat.LabelledText("x y", None, float(i % 2)) for i in range(4))
    single = ic.cat.LabelledTask("one", {"train": texts, "test": texts}, ("0", "1"))
    is_same, values = same_words_values(single, "test", logits)
    assert (is_same.tolist(), values) == ([False] * 4, {})
    pairs = pairs_of(same, [0, 1, 2, 1])
    three = ic.cat.LabelledTask("three", {"train": pairs, "test": pairs}, ("0", "1", "2"))
    assert same_words_values(three, "test", np.zeros((4, 3)))[1] == {}
    # all alike: who says "no paraphrase" always is specific, and tells nothing apart
    tied = np.tile([1.0, 0.0], (4, 1))
    found = same_words_values(swap_task(pairs_of(same, [0, 1, 0, 0])), "test", tied)[1]
    assert found == {"specificity": 1.0, "balanced_accuracy": 0.5, "auc": 0.5}


def test_same_words_of_another_distribution_have_their_name(one_seed: Path, tmp_path: Path) -> None:
    given_pairs = pairs_of([(one.text1, one.text2) for one in LABELLED], [i % 2 for i in range(30)])
    splits = {"train": given_pairs[6:24], "test": given_pairs[6:24], "ood": given_pairs[24:]}
    task = ic.cat.LabelledTask("swap", splits, ("0", "1"))
    asked: dict[str, Any] = {"outputs": ["comp"], "embeddings": ["cls"], "epochs": 2}
    rows = encoders(one_seed, {"swap": task}, tmp_path, **asked).frames["scores"]
    named = rows[rows["subset"].str.contains("same words")]
    assert named[["subset", "metric", "n"]].values.tolist() == [
        ["ood, same words", metric, 6] for metric in ("specificity", "balanced_accuracy", "auc")
    ]


def read_alone(encoder: Any, output: str, texts: tuple[str, ...]) -> torch.Tensor:
    """The first token's vector of a text, or of two, tokenized by Hugging Face."""
    cut = {"truncation": "longest_first", "max_length": 18}
    ids = encoder.tokenizer(*texts, return_token_type_ids=True, **cut)
    tokens, types = (torch.tensor([ids[name]]) for name in ("input_ids", "token_type_ids"))
    assert bool(types.sum()) is (len(texts) == 2)
    last = encoder.lens(tokens, torch.ones_like(tokens), types)[-1]
    vector: torch.Tensor = getattr(last, output)[0, 0]
    return vector


def plainly(modules: list[torch.nn.Module], loss: Any, n: int, config: ic.TrainConfig) -> None:
    """AdamW on shuffled batches, one example at a time, as the paper's sentence has it."""
    named = [one for module in modules for one in module.parameters() if one.requires_grad]
    groups = [
        {"params": [one for one in named if one.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [one for one in named if one.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=config.lr)
    step = 0
    total = config.epochs * math.ceil(n / config.batch_size)
    for epoch in range(config.epochs):
        order = np.random.default_rng([config.seed, epoch]).permutation(n)
        for start in range(0, n, config.batch_size):
            rows = order[start : start + config.batch_size]
            optimizer.zero_grad()
            torch.stack([loss(int(i)) for i in rows]).mean().backward()
            torch.nn.utils.clip_grad_norm_([w for w in named if w.grad is not None], 1.0)
            warmup = total // 10
            share = (step + 1) / warmup if step < warmup else 1 - (step - warmup) / (total - warmup)
            for group in optimizer.param_groups:
                group["lr"] = config.lr * share
            optimizer.step()
            step += 1


def of_class(outputs: Any, classes: list[int]) -> Any:
    """The loss of an example whose outputs are these."""
    return lambda i: -outputs(i).log_softmax(dim=0)[classes[i]]


def shares(found: ic.cat.EncoderScores, **place: Any) -> dict[str, float]:
    """Accuracy by subset."""
    rows = found.frames["scores"]
    for name, value in {"metric": "accuracy", "embedding": "cls", **place}.items():
        rows = rows[rows[name] == value]
    values: dict[str, float] = rows.set_index("subset")["value"].to_dict()
    return values


def expected_shares(right: list[bool], wanted: list[int]) -> dict[str, float]:
    of = {"all": right} | {
        f"label {label}": [r for r, w in zip(right, wanted, strict=True) if w == label]
        for label in sorted(set(wanted))
    }
    return {name: sum(own) / len(own) for name, own in of.items()}


def test_a_classifier_reads_the_vector_of_both_texts(
    runs: Path, judged: ic.cat.EncoderScores
) -> None:
    model, seed, encoder = next(one for one in models_of(runs) if one[:2] == ("cat", 1))
    with torch.no_grad():
        train, test = (
            torch.stack([read_alone(encoder, "comp", (p.text1, p.text2)) for p in pairs]).double()
            for pairs in (LABELLED[:18], LABELLED[18:])
        )
    mean, scale = train.mean(dim=0), train.std(dim=0, correction=0)
    scaled = ((train - mean) / scale).float()
    head = ClassifierHead(train.shape[1], 2, seed=seed)
    classes = [one.label or 0 for one in LABELLED[:18]]
    config = ic.TrainConfig(epochs=20, lr=1e-3, batch_size=32, seed=seed)
    loss = of_class(lambda i: head(scaled[i : i + 1])[0], classes)
    plainly([head], loss, 18, config)
    logits = head(((test - mean) / scale).float()).detach()
    found = logits.argmax(dim=1).tolist()
    wanted = [one.label or 0 for one in LABELLED[18:]]
    right = [a == b for a, b in zip(found, wanted, strict=True)]
    place = {"model": model, "seed": seed, "output": "comp", "tuned": "frozen", "share": 1.0}
    assert shares(judged, **place) == pytest.approx(expected_shares(right, wanted))
    # the last six have the same words in another order
    own = {
        metric: shares(judged, **place, metric=metric)["same words"]
        for metric in ("specificity", "balanced_accuracy", "auc")
    }
    assert own == pytest.approx(slow_same_words(logits[6:].tolist(), wanted[6:]))


END = {"models": ["cat"], "tuned": ["end-to-end"], "outputs": ["mix"], "embeddings": ["cls"]}
TUNING = {"epochs": 3, "lr": 0.05, "batch_size": 5}


def test_tuned_end_to_end_is_a_plain_loop_and_cosines_are_measured_again(
    runs: Path, tmp_path: Path
) -> None:
    found = encoders(runs, TASKS, tmp_path, shares=[0.5], **END, **TUNING)
    model, seed, encoder = next(one for one in models_of(runs) if one[:2] == ("cat", 1))
    head = ClassifierHead(encoder.d_model, 2, seed=seed)
    chosen = np.random.default_rng([seed, 18]).permutation(18)[:9]
    some = [LABELLED[i] for i in chosen]

    def outputs(one: Pair) -> torch.Tensor:
        logits: torch.Tensor = head(read_alone(encoder, "mix", (one.text1, one.text2))[None])
        return logits[0]

    config = ic.TrainConfig(epochs=3, lr=0.05, batch_size=5, seed=seed)
    classes = [one.label or 0 for one in some]
    loss = of_class(lambda i: outputs(some[i]), classes)
    plainly([encoder.lens, head], loss, 9, config)
    with torch.no_grad():
        guessed = [int(outputs(one).argmax()) for one in LABELLED[18:]]
        cosines = []
        for one in SCORED:
            x, y = (read_alone(encoder, "mix", (text,)).double() for text in (one.text1, one.text2))
            cosines.append(float(x @ y / x.norm() / y.norm()))
    wanted = [one.label or 0 for one in LABELLED[18:]]
    right = [a == b for a, b in zip(guessed, wanted, strict=True)]
    place = {"model": model, "seed": seed, "tuned": "end-to-end", "share": 0.5}
    assert shares(found, **place) == pytest.approx(expected_shares(right, wanted))
    rows = found.frames["scores"].query(
        f"seed == {seed} and task == 'mine' and subset == 'all' and metric == 'pearson'"
    )
    values = rows.set_index(["tuned", "trained_on", "share"])["value"].to_dict()
    r = stats.pearsonr(cosines, [one.score for one in SCORED]).statistic
    assert values[("end-to-end", "same", 0.5)] == pytest.approx(r, abs=2e-3)
    before = values[("no", "nothing", 0.0)]
    assert abs(before - r) > 0.01
    assert len(values) == 2


def labelled(n: int, **named: Any) -> ic.cat.LabelledTask:
    """Texts that are class 1 where they have an even number of words."""
    texts = [phrase(i, 2 + i % 4) for i in range(3 * n)]
    items = tuple(
        ic.cat.LabelledText(text, None, float(len(text.split()) % 2 == 0)) for text in texts
    )
    splits = {"train": items[:n], "validation": items[n : 2 * n], "test": items[2 * n :]}
    return ic.cat.LabelledTask(
        "names", splits | named, ("no", "yes"), ("matthews", "accuracy", "f1")
    )


def test_labelled_texts_with_another_distribution(runs: Path, tmp_path: Path) -> None:
    task = labelled(20, ood=labelled(9).split("test"))
    asked: dict[str, Any] = {"models": ["bert"], "embeddings": ["mean"], "shares": [0.25, 1.0]}
    found = encoders(runs, {"names": task}, tmp_path, tuned=["frozen", "end-to-end"], **asked)
    rows = found.frames["scores"]
    assert set(rows["task"]) == {"names"}
    counts = rows.groupby(["tuned", "share", "seed", "subset", "metric"]).size()
    subsets = {"all": 3, "ood": 3, "label no": 1, "label yes": 1}
    subsets |= {"ood, label no": 1, "ood, label yes": 1}
    assert len(counts) == 2 * 2 * 2 * sum(subsets.values())
    assert rows.query("subset == 'all'")["n"].eq(20).all()
    assert rows.query("subset == 'ood'")["n"].eq(9).all()
    assert set(rows["trained_on"]) == {"names"}
    again = ic.cat.EncoderScores.from_rows({"scores": rows}, found.config)
    assert again.frame.query("metric == 'f1' and subset == 'ood'")["n_seeds"].eq(2).all()


def test_scores_are_learned_as_scores(runs: Path, tmp_path: Path) -> None:
    items = labelled(20).splits
    splits = {
        name: tuple(replace(one, target=0.5 * len(one.text1.split()), text2="a b") for one in own)
        for name, own in items.items()
    }
    task = ic.cat.LabelledTask("lengths", splits, (), ("pearson", "spearman"))
    asked: dict[str, Any] = {"models": ["bert"], "embeddings": ["mean"], "epochs": 60, "lr": 0.05}
    found = encoders(runs, {"lengths": task}, tmp_path, **asked).frame
    assert set(found["metric"]) == {"pearson", "spearman"}
    assert set(found["subset"]) == {"all"}
    assert (found["mean"] > 0.5).all()


def test_a_smaller_share_is_part_of_a_larger() -> None:
    for n, seed in ((50, 0), (50, 1), (3, 0)):
        parts = [nested(n, share, seed).tolist() for share in (0.01, 0.1, 0.5, 0.9, 1.0)]
        sizes = [1, 5, 25, 45, 50] if n == 50 else [1, 1, 2, 3, 3]
        assert [len(part) for part in parts] == sizes
        assert all(set(one) < set(other) or one == other for one, other in pairwise(parts))
        assert sorted(parts[-1]) == list(range(n))
    assert nested(50, 0.5, 0).tolist() != nested(50, 0.5, 1).tolist()


def test_what_is_done_is_not_done_again_and_more_is_added(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {**END, **TUNING}
    small = {"same": TASKS["same"]}
    first = encoders(runs, small, tmp_path, **asked)
    did: list[Any] = []
    whole = run_file.JudgedRun.rows

    def counted(self: Any, *given: Any) -> Any:
        did.append((self.task, self.tuned, self.outputs, self.share))
        return whole(self, *given)

    monkeypatch.setattr(run_file.JudgedRun, "rows", counted)
    again = encoders(runs, small, tmp_path, **asked)
    assert not did
    pd.testing.assert_frame_equal(again.frames["scores"], first.frames["scores"])
    more = {**asked, "outputs": ["mix", "comp"], "shares": [0.5, 1.0]}
    encoders(runs, small, tmp_path, **more)
    assert sorted(map(str, did)) == sorted(
        str(one)
        for one in 2
        * [
            ("same", "no", ["mix", "comp"], 0.0),
            ("same", "end-to-end", ["mix"], 0.5),
            ("same", "end-to-end", ["comp"], 0.5),
            ("same", "end-to-end", ["comp"], 1.0),
        ]
    )


def test_a_tuning_that_was_stopped_goes_on(
    one_seed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, asked = one_seed, {**END, **TUNING}
    expected = encoders(runs, {"same": TASKS["same"]}, tmp_path / "whole", **asked)
    steps: list[int] = []
    step = Trainer.train_step

    def stopping(self: Any) -> Any:
        if self.step == 6 and len(steps) == 6:
            raise RuntimeError("stopped")
        steps.append(self.step)
        return step(self)

    monkeypatch.setattr(Trainer, "train_step", stopping)
    with pytest.raises(ModelError, match="1 of 2 runs failed.*stopped"):
        encoders(runs, {"same": TASKS["same"]}, tmp_path / "cut", **asked)
    assert steps == [0, 1, 2, 3, 4, 5]
    found = encoders(runs, {"same": TASKS["same"]}, tmp_path / "cut", **asked)
    assert steps[6:] == [4, 5, 6, 7, 8, 9, 10, 11]  # from the end of the first epoch
    pd.testing.assert_frame_equal(found.frames["scores"], expected.frames["scores"])
    assert not list((tmp_path / "cut").rglob("step_*"))


def test_tasks_that_were_altered_are_written_again(runs: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"models": ["bert"], "embeddings": ["mean"]}
    encoders(runs, {"mine": TASKS["mine"]}, tmp_path, **asked)
    (path,) = set((tmp_path / "data").iterdir()) - {tmp_path / run_file.SOURCE}
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    encoders(runs, {"mine": TASKS["mine"]}, tmp_path, **asked)
    assert path.read_bytes() == whole


def test_texts_that_are_too_long_are_cut_and_counted_where_they_are(
    runs: Path, tmp_path: Path
) -> None:
    encoder = next(iter(models_of(runs)))[2]
    long = phrase(1, encoder.n_ctx)
    read, cut = vectors(encoder, [(long, "a"), ("a", "a"), (long,)], ["cont"], ["mean"])
    assert cut.tolist() == [True, False, True]
    ids = encoder.tokenizer.pieces([long])[0][: encoder.n_ctx - 2]
    row = torch.tensor([[encoder.tokenizer.cls_token_id, *ids, encoder.tokenizer.sep_token_id]])
    expected = encoder.lens(row)[-1].cont[0].mean(dim=0).detach().double().numpy()
    np.testing.assert_allclose(read["cont", "mean"][2], expected, rtol=1e-4, atol=1e-6)
    pairs = tuple(Pair(long, f"{long} {i}", label=int(i < 4)) for i in range(12))
    task = PairTask("long", pairs, pairs, {})
    found = encoders(runs, {"long": task}, tmp_path, models=["bert"])
    again = ic.cat.EncoderScores.from_rows(found.frames, found.config)
    rows = again.frames["scores"].query("metric == 'accuracy'")
    assert (rows["n_cut"] == rows["n"]).all()
    assert set(rows["n"]) == {12, 8, 4}


def test_names_of_special_tokens_in_a_text_are_text(runs: Path) -> None:
    encoder = next(iter(models_of(runs)))[2]
    read, _ = vectors(encoder, [("a [SEP] b",), ("a b",)], ["cont"], ["mean"])
    ids = encoder.tokenizer.pieces(["a [SEP] b"])[0]
    assert encoder.tokenizer.sep_token_id not in ids
    row = torch.tensor([[encoder.tokenizer.cls_token_id, *ids, encoder.tokenizer.sep_token_id]])
    expected = encoder.lens(row)[-1].cont[0].mean(dim=0).detach().double().numpy()
    np.testing.assert_allclose(read["cont", "mean"][0], expected, rtol=1e-4, atol=1e-6)


def test_vectors_that_are_one_have_no_correlation(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collapsed = torch.nn.Module.__call__

    def constant(module: Any, *args: Any, **named: Any) -> Any:
        found = collapsed(module, *args, **named)
        if type(module).__name__ == "SmallEncoder":
            found = [*found[:-1], replace(found[-1], cont=torch.ones_like(found[-1].cont))]
        return found

    monkeypatch.setattr(torch.nn.Module, "__call__", constant)
    found = encoders(runs, {"mine": TASKS["mine"]}, tmp_path, models=["bert"])
    assert found.frames["scores"]["value"].isna().all()
    assert found.frame.empty


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"tasks": {}}, OptionError, "tasks is empty"),
        ({"models": ["cat", "lrf"]}, OptionError, "expected one or more of bert, cat, each once"),
        ({"models": []}, OptionError, r"models=\[\]"),
        ({"outputs": ["comp", "comp"]}, OptionError, r"outputs=\['comp', 'comp'\]"),
        ({"embeddings": ["last"]}, OptionError, "expected one or more of cls, mean, each once"),
        ({"limit": 0}, OptionError, "limit=0"),
        ({"outputs": ["comp"]}, OptionError, "the model 'bert' composes nothing"),
        ({"limit": 2}, InputError, "has 2 test pairs whose scores or labels are not several"),
        ({"tasks": {"no": PairTask("no", (), (), {})}}, InputError, "'no' has 0 test pairs"),
        (
            {"tasks": {"one": PairTask("one", LABELLED[1:3], LABELLED[18:], {})}},
            InputError,
            "all 2 training texts of 'one' have the class or score 0",
        ),
        ({"tuned": ["thawed"]}, OptionError, "expected one or more of frozen, end-to-end, each"),
        ({"shares": []}, OptionError, r"shares=\[\]: expected one or more numbers above 0"),
        ({"shares": [0.5, 0.5]}, OptionError, r"shares=\[0.5, 0.5\]"),
        ({"shares": [0.0]}, OptionError, r"shares=\[0.0\]"),
        ({"shares": [1.1]}, OptionError, r"shares=\[1.1\]"),
        ({"shares": [0.05]}, InputError, r"'same \(share 0.05, seed 0\)' have the class"),
        ({"epochs": 0}, OptionError, "epochs=0: expected a whole number, 1 or more"),
        ({"batch_size": 0}, OptionError, "batch_size=0: expected a whole number, 1 or more"),
        ({"lr": 0.0}, OptionError, "lr=0.0: expected a finite number above 0"),
        ({"workers": 2}, OptionError, "workers=2 with where='here'"),
    ],
)
def test_what_cannot_be_is_refused(
    runs: Path, tmp_path: Path, asked: dict[str, Any], error: type[Exception], said: str
) -> None:
    given = {"tasks": {"same": TASKS["same"]}, "out": tmp_path / "out", **asked}
    with pytest.raises(error, match=said):
        encoders(runs, **given)
    assert not (tmp_path / "out").exists()


def test_seeds_that_a_model_lacks_are_named(tmp_path: Path) -> None:
    text = tmp_path / "people.txt"
    text.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    short = replace(TINY, max_steps=1)
    study(text, tmp_path / "out", MODELS, seeds=1, run=short)
    study(text, tmp_path / "out", ("bert",), seeds=2, run=short)
    with pytest.raises(MissingDataError, match="no finished run of 'cat' of the seeds 1"):
        encoders(tmp_path / "out", TASKS, tmp_path / "judged")
    found = encoders(tmp_path / "out", TASKS, tmp_path / "judged", models=["bert"])
    assert found.config["seeds"] == [0, 1]
