"""Encoders judged on pairs of texts: vectors one text at a time, correlations and classifiers by
other routines, what collapses, refusals."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import interp_compose as ic
from interp_compose.errors import InputError, MissingDataError, OptionError
from interp_compose.studies.encoders.vectors import vectors
from interp_compose.tasks.pairs import Pair, PairTask
from tests.studies.test_pretrain import DOCUMENTS, MODELS, TINY, study

# ---- a result of frames ---------------------------------------------------------------------

CONFIG = {"models": ["bert", "cat"], "seeds": [0, 1], "task": "people"}
READINGS = {("bert", "cont"): 0.3, ("cat", "cont"): 0.2, ("cat", "comp"): 0.4, ("cat", "mix"): 0.1}
CELLS = [
    ("bird", "all", "pearson"),
    ("bird", "mirror", "pearson"),
    ("bird", "all", "spearman"),
    ("paws", "all", "auc"),
    ("paws", "label 0", "accuracy"),
]


def frames() -> dict[str, pd.DataFrame]:
    names = ("task", "subset", "metric")
    rows = [
        {
            **{"model": model, "seed": seed, "output": output, "embedding": embedding},
            **dict(zip(names, cell, strict=True)),
            "value": value + 0.05 * seed + 0.1 * (embedding == "mean"),
            "n": 40,
            "n_cut": 2 * (cell[2] == "accuracy"),
        }
        for ((model, output), value), seed, embedding, cell in product(
            READINGS.items(), (0, 1), ("cls", "mean"), CELLS
        )
    ]
    return {"scores": pd.DataFrame(rows)}


def result() -> ic.EncoderScores:
    return ic.EncoderScores.from_rows(frames(), CONFIG)


def test_means_and_differences_by_hand() -> None:
    place = {"embedding": "cls", "task": "bird", "subset": "mirror", "metric": "pearson"}
    chosen = " and ".join(f"{name} == '{value}'" for name, value in place.items())
    rows = result().frame.query(chosen).set_index(["model", "output"])
    assert list(rows.index) == list(READINGS)
    assert rows.loc[("cat", "comp"), "mean"] == pytest.approx(0.425)
    assert rows.loc[("cat", "comp"), ["smallest", "largest"]].tolist() == pytest.approx([0.4, 0.45])
    assert rows.loc[("cat", "mix"), "low"] < 0  # a correlation can be
    apart = result().differences.query(chosen).set_index("reading")
    assert set(apart["other"]) == {"bert cont"}
    assert apart["difference"].to_dict() == pytest.approx(
        {"cat cont": -0.1, "cat comp": 0.1, "cat mix": -0.2}
    )


def test_a_value_that_does_not_exist_is_left_out_and_counted() -> None:
    given = frames()["scores"]
    gone = (given["model"] == "cat") & (given["output"] == "comp") & (given["seed"] == 1)
    gone &= (given["metric"] == "auc") & (given["embedding"] == "cls")
    given.loc[gone, "value"] = math.nan
    found = ic.EncoderScores.from_rows({"scores": given}, CONFIG)
    cells = found.frame.query("metric == 'auc' and embedding == 'cls'")
    assert ["cat", "comp"] not in cells[["model", "output"]].to_numpy().tolist()
    assert len(cells) == 3
    assert "1 values do not exist" in found.summary()
    assert found.differences["difference"].notna().all()
    nothing = ic.EncoderScores.from_rows({"scores": given.assign(value=math.nan)}, CONFIG)
    assert nothing.frame.empty
    assert nothing.figures() == {}
    assert "do not exist" in nothing.summary()


def test_a_figure_for_each_metric() -> None:
    found = result().figures()
    assert list(found) == [f"encoders_{one}" for one in ("pearson", "spearman", "auc", "accuracy")]
    assert "2 pairs have texts that are longer" in result().summary()


# ---- on trained encoders --------------------------------------------------------------------

WORDS = sorted({word for text in DOCUMENTS for word in text.split() if word.isalpha()})


def phrase(number: int, n: int) -> str:
    return " ".join(WORDS[(7 * number + 3 * i) % len(WORDS)] for i in range(n))


def pair(number: int, **judged: Any) -> Pair:
    """The first are mirrors of each other: two words in both orders."""
    text = phrase(number, 2 + number % 3)
    other = " ".join(reversed(text.split())) if number < 6 else phrase(number + 5, 3)
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
def judged(runs: Path) -> ic.EncoderScores:
    return ic.encoders(runs, TASKS, progress=False)


def models_of(runs: Path) -> Iterator[tuple[str, int, Any]]:
    for folder in sorted((runs / "runs").iterdir()):
        about = pd.read_json(folder / "run.json", typ="series")["run"]
        yield about["model"], about["seed"], ic.load_model(folder / "model", device="cpu")


def test_correlations_are_those_of_vectors_read_one_by_one(
    runs: Path, judged: ic.EncoderScores
) -> None:
    found = judged.frames["scores"].set_index(
        ["model", "seed", "output", "embedding", "task", "subset", "metric"]
    )["value"]
    counts: dict[str, int] = defaultdict(int)
    for model, seed, encoder in models_of(runs):
        for output, embedding in product(encoder.lens.outputs, ("cls", "mean")):
            read = encoder.with_output(output)
            place = (model, seed, output, embedding)
            for task, pairs in (("mine", SCORED), ("same", LABELLED[18:])):
                cosines = []
                for one in pairs:
                    x, y = (
                        ic.embed_texts(read, [text], embedding=embedding)[0].double()
                        for text in (one.text1, one.text2)
                    )
                    cosines.append(float(x @ y / x.norm() / y.norm()))
                if task == "same":
                    expected = roc_auc_score([one.label for one in pairs], cosines)
                    assert found[(*place, task, "all", "auc")] == pytest.approx(expected)
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
    assert counts == dict.fromkeys(("all", "a", "b", "mirror", "same"), 2 * 2 * (1 + 3))


@torch.no_grad()
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_classifier_reads_the_vector_of_both_texts(runs: Path, judged: ic.EncoderScores) -> None:
    model, seed, encoder = next(one for one in models_of(runs) if one[:2] == ("cat", 1))

    def of(one: Pair) -> torch.Tensor:
        cut = {"truncation": "longest_first", "max_length": 18}
        ids = encoder.tokenizer(one.text1, one.text2, return_token_type_ids=True, **cut)
        tokens, types = (torch.tensor([ids[name]]) for name in ("input_ids", "token_type_ids"))
        assert types.sum() > 0
        return encoder.lens(tokens, torch.ones_like(tokens), types)[-1].comp[0, 0].double()

    train, test = (
        torch.stack([of(one) for one in pairs]).numpy() for pairs in (LABELLED[:18], LABELLED[18:])
    )
    scale = StandardScaler().fit(train)
    mlp = MLPClassifier((train.shape[1],), max_iter=50, random_state=seed)
    mlp.fit(scale.transform(train), [one.label for one in LABELLED[:18]])
    right = mlp.predict(scale.transform(test)) == [one.label for one in LABELLED[18:]]
    rows = judged.frames["scores"].query(
        f"model == '{model}' and seed == {seed} and output == 'comp' and embedding == 'cls' "
        "and metric == 'accuracy'"
    )
    wanted = np.array([one.label for one in LABELLED[18:]])
    shares = {
        "all": right.mean(),
        "label 0": right[wanted == 0].mean(),
        "label 1": right[wanted == 1].mean(),
    }
    assert rows.set_index("subset")["value"].to_dict() == pytest.approx(shares)
    assert rows["n"].tolist() == [12, 8, 4]


def test_texts_that_are_too_long_are_cut_and_counted_where_they_are(runs: Path) -> None:
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
    found = ic.encoders(runs, {"long": task}, models=["bert"], progress=False)
    again = ic.EncoderScores.from_rows(found.frames, found.config)
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
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collapsed = torch.nn.Module.__call__

    def constant(module: Any, *args: Any, **named: Any) -> Any:
        found = collapsed(module, *args, **named)
        if type(module).__name__ == "SmallEncoder":
            found = [*found[:-1], replace(found[-1], cont=torch.ones_like(found[-1].cont))]
        return found

    monkeypatch.setattr(torch.nn.Module, "__call__", constant)
    found = ic.encoders(runs, {"mine": TASKS["mine"]}, models=["bert"], progress=False)
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
            "all 2 training pairs of 'one' have the label 0",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    runs: Path, asked: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        ic.encoders(runs, **{"tasks": {"same": TASKS["same"]}, "progress": False, **asked})


def test_seeds_that_a_model_lacks_are_named(tmp_path: Path) -> None:
    text = tmp_path / "people.txt"
    text.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    short = replace(TINY, max_steps=1)
    study(text, tmp_path / "out", MODELS, seeds=1, run=short)
    study(text, tmp_path / "out", ("bert",), seeds=2, run=short)
    with pytest.raises(MissingDataError, match="no finished run of 'cat' of the seeds 1"):
        ic.encoders(tmp_path / "out", TASKS, progress=False)
    found = ic.encoders(tmp_path / "out", TASKS, models=["bert"], progress=False)
    assert found.config["seeds"] == [0, 1]
