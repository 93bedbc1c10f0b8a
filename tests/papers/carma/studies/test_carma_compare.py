"""A whole comparison against a reference that does each prompt on its own, in the open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import interp_compose as ic
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import weights_digest
from interp_compose.papers.carma import run as carma_run
from interp_compose.papers.carma.result import Comparison
from interp_compose.papers.carma.synonyms.load import synonym_source
from interp_compose.tasks.task import Task
from interp_compose.training import loop
from interp_compose.training.history import read_history
from interp_compose.types import Example
from tests.papers.carma.studies.carma_runs import run_folder, tiny
from tests.papers.carma.studies.carma_tables import pick

SEEDS = (1, 4)
RATES = (0.25, 1.0)
CONFIG = ic.TrainConfig(lr=1e-3, batch_size=8, epochs=1, warmup_steps=1)


@dataclass(frozen=True)
class Ran:
    """A comparison on mini-base, what it was given, and what it wrote."""

    model: LensModel
    task: Task
    comparison: Comparison
    folder: Path
    digest: str
    seen: list[tuple[str, list[int]]]

    def version(self, version: str, seed: int) -> LensModel:
        """The model of a run, from its saved weights."""
        if version == "original":
            return self.model
        twin = ic.load_model("mini-base", device="cpu")
        path = run_folder(self.folder, version, seed) / "weights.safetensors"
        ic.load_weights(twin, path)
        return twin

    @property
    def runs(self) -> list[tuple[str, int]]:
        return [(version, seed) for version in ("original", "ft", "carma") for seed in SEEDS]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    model = ic.load_model("mini-base", device="cpu")
    whole = ic.load_task("mini-sst", model)
    task = replace(
        whole, train=whole.train[:24], validation=whole.validation[:6], test=whole.test[:12]
    )
    folder, digest = tmp_path_factory.mktemp("comparison"), weights_digest(model)
    seen: list[tuple[str, list[int]]] = []
    real = loop.BatchOrder.at
    titles: list[str] = []
    train = carma_run.finetune_on

    def at(order: loop.BatchOrder, step: int) -> Any:
        indices = real(order, step)
        seen.append((titles[-1], indices.tolist()))
        return indices

    def finetune_on(*args: Any, **options: Any) -> Any:
        titles.append(options["title"].partition(" ")[2])  # after "2/5 "
        return train(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.BatchOrder, "at", at)
        patch.setattr(carma_run, "finetune_on", finetune_on)
        comparison = ic.carma.compare(
            model,
            task,
            seeds=list(SEEDS),
            config=CONFIG,
            rates=RATES,
            layers=[0, 2],
            folder=folder,
            progress=False,
        )
        yield Ran(model, task, comparison, folder, digest, seen)


def token_of(model: LensModel, text: str) -> int:
    (token,) = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    return int(token)


@torch.no_grad()
def right(model: LensModel, examples: Sequence[Example], labels: Sequence[str] = ()) -> list[bool]:
    """Each prompt on its own, no batch, no padding: the most likely of all tokens, or of labels."""
    found = []
    for one in examples:
        logits = model(torch.tensor([model.tokenizer(one.prompt)["input_ids"]]))[0, -1]
        if labels:
            most_likely = max(labels, key=lambda label: logits[token_of(model, label)])
            found.append(most_likely == one.answer)
        else:
            found.append(int(logits.argmax()) == token_of(model, one.answer))
    return found


def test_accuracy_and_consistency_are_what_single_passes_give(ran: Ran) -> None:
    tables = ran.comparison.frames
    source = synonym_source("auto", "mini-sst")
    for version, seed in ran.runs:
        model = ran.version(version, seed)
        before = right(model, ran.task.test)
        row = pick(tables["accuracy"], version=version, seed=seed)
        assert (row["n_correct"], row["n"]) == (sum(before), 12)
        for rate in RATES:
            replaced = ic.carma.replace_synonyms(
                ran.task.test, source, rate=rate, seed=seed, template=ran.task.template
            )
            pairs = [
                (b, a)
                for b, a, old, new in zip(
                    before,
                    right(model, replaced.examples),
                    ran.task.test,
                    replaced.examples,
                    strict=True,
                )
                if old.prompt != new.prompt  # a prompt that was not changed cannot fail
            ]
            row = pick(tables["synonyms"], version=version, seed=seed, rate=rate)
            counts = [row[name] for name in ("n_test", "n", "n_before", "n_after", "n_both")]
            was, still = sum(b for b, _ in pairs), sum(a for _, a in pairs)
            assert counts == [12, len(pairs), was, still, sum(b and a for b, a in pairs)]


def test_replaced_words_are_listed_and_shared_by_all_versions(ran: Ran) -> None:
    table = ran.comparison.frames["replacements"]
    source = synonym_source("auto", "mini-sst")
    texts = []
    for seed in SEEDS:
        expected = ic.carma.replace_synonyms(
            ran.task.test, source, rate=1.0, seed=seed, template=ran.task.template
        )
        rows = table.query("rate == 1.0 and seed == @seed").reset_index(drop=True)
        assert list(rows["replacement"]) == list(expected.frame["replacement"])
        assert list(rows["position"]) == list(expected.frame["start"])
        sentences = dict(zip(rows["example"], rows["replaced"], strict=True))
        for index, text in sentences.items():
            assert text == expected.examples[index].prompt
        for row in rows.to_dict("records"):
            end = row["position"] + len(row["original"])
            assert row["prompt"][row["position"] : end] == row["original"]
        texts.append(sentences)
    assert texts[0] != texts[1]  # drawn anew for each seed


def test_doses_are_those_of_the_replacement(ran: Ran) -> None:
    """Per prompt, seed and rate; the means, from the prompts' own numbers."""
    table, means = ran.comparison.frames["doses"], ran.comparison.dose
    source = synonym_source("auto", "mini-sst")
    for rate in RATES:
        shares = []
        for seed in SEEDS:
            expected = ic.carma.replace_synonyms(
                ran.task.test, source, rate=rate, seed=seed, template=ran.task.template
            ).sentences()
            rows = table.query("rate == @rate and seed == @seed").reset_index(drop=True)
            columns = ["example", "n_words", "n_eligible", "n_wanted", "n_replaced"]
            pd.testing.assert_frame_equal(rows[columns], expected[columns])
            swaps = ran.comparison.frames["replacements"].query("rate == @rate and seed == @seed")
            found = swaps["example"].value_counts()
            assert list(rows["n_replaced"]) == [found.get(n, 0) for n in rows["example"]]
            shares += [row.n_replaced / row.n_words for row in rows.itertuples()]
        row = pick(means, rate=rate)
        assert row["n_prompts"] == len(shares) == 24
        assert row["dose"] == pytest.approx(sum(shares) / 24, abs=1e-12)
        assert f"a mean dose of {100 * sum(shares) / 24:.1f} %" in ran.comparison.summary()
    assert "prompts with all wanted replaced" in ran.comparison.report()


def test_accuracy_among_labels(ran: Ran, tmp_path: Path) -> None:
    """Eq. 10 wherever accuracy is read, of a model that says something else than a label; training
    is the same, since the loss is."""
    model, n_seen = ic.load_model("mini-base", device="cpu"), len(ran.seen)
    with torch.no_grad():  # the last norm's shift makes the full stop the likeliest of all
        model.lens.ln_final.bias += 20 * model.lens.unembed.W_U[:, token_of(model, ".")]
    options: dict[str, Any] = {"seeds": [1], "config": CONFIG, "rates": (1.0,), "layers": [0]}
    plain, found = (
        ic.carma.compare(
            model,
            ran.task,
            ("original", "ft"),
            answers=answers,
            folder=tmp_path / answers,
            progress=False,
            **options,
        )
        for answers in ("vocabulary", "labels")
    )
    assert found.config["answers"] == list(ran.task.labels)
    assert "answers among 3 labels" in found.summary()
    new = ic.carma.replace_synonyms(
        ran.task.test,
        synonym_source("auto", "mini-sst"),
        rate=1.0,
        seed=1,
        template=ran.task.template,
    ).examples
    for version in ("original", "ft"):
        if version == "ft":
            ic.load_weights(model, run_folder(tmp_path / "labels", "ft", 1) / carma_run.WEIGHTS)
        before, after = (right(model, rows, ran.task.labels) for rows in (ran.task.test, new))
        assert pick(found.frames["accuracy"], version=version)["n_correct"] == sum(before) > 0
        assert pick(plain.frames["accuracy"], version=version)["n_correct"] == 0
        row = pick(found.frames["synonyms"], version=version)
        assert (row["n_before"], row["n_after"]) == (sum(before), sum(after))
        curve = ic.cap_curve(
            model, ran.task.test, layers=[0], answers=ran.task.labels, progress=False
        ).frame
        for place in curve.query("pooling in ('mean', 'max', 'sum')").to_dict("records"):
            where = {"version": version, "pooling": place["pooling"]}
            assert pick(found.frames["cap"], **where)["n_correct"] == round(12 * place["accuracy"])
    losses = [one.frames["history"]["loss"].tolist() for one in (plain, found)]
    assert losses[0] == losses[1]
    accuracies = [one.frames["training"]["validation_accuracy"].item() for one in (plain, found)]
    assert accuracies[0] == 0 < accuracies[1]
    del ran.seen[n_seen:]  # other tests look at what this fixture's runs saw


def test_cap_is_that_of_the_saved_weights(ran: Ran) -> None:
    for version, seed in ran.runs:
        if version == "original" and seed != SEEDS[0]:
            continue
        curve = ic.cap_curve(
            ran.version(version, seed), ran.task.test, layers=[0, 2], progress=False
        ).frame
        for place in curve.query("pooling in ('mean', 'max', 'sum')").to_dict("records"):
            where = {name: place[name] for name in ("layer", "pooling")}
            row = pick(ran.comparison.frames["cap"], version=version, seed=seed, **where)
            assert row["n_correct"] / row["n"] == pytest.approx(place["accuracy"])
            assert (row["n"], row["depth"]) == (place["n"], place["depth"])


def test_times_and_losses_are_those_of_the_history(ran: Ran) -> None:
    for version, seed in ran.runs:
        if version == "original":
            continue
        path = run_folder(ran.folder, version, seed) / "history.jsonl"
        history = read_history(path)
        steps, evaluations = history["steps"], history["evaluations"]
        row = pick(ran.comparison.frames["training"], version=version, seed=seed)
        assert row["steps"] == len(steps) == 3
        assert row["seconds"] == pytest.approx(sum(steps["seconds"]))
        assert row["step_seconds"] == sorted(steps["seconds"])[1]
        assert row["first_loss"] == steps["task_loss"].iloc[0]
        assert row["last_loss"] == steps["task_loss"].iloc[-1]
        assert row["validation_accuracy"] == evaluations["accuracy"].iloc[-1]
        assert not row["converged"]
        assert row["why"] == "3 steps are too few to come to rest"
        assert not row["stopped_early"]
        last = history["representations"].query("step == 3").reset_index(drop=True)
        rows = ran.comparison.frames["representations"].query("version == @version")
        rows = rows.query("seed == @seed").reset_index(drop=True)
        pd.testing.assert_frame_equal(rows[list(last.columns)[1:]], last.drop(columns="step"))


def test_both_versions_of_a_seed_start_alike_and_see_the_same_batches(ran: Ran) -> None:
    batches = {
        title: [batch for name, batch in ran.seen if name == title] for title in dict(ran.seen)
    }
    assert list(batches) == ["ft, seed 1", "carma, seed 1", "ft, seed 4", "carma, seed 4"]
    for seed in SEEDS:
        assert batches[f"ft, seed {seed}"] == batches[f"carma, seed {seed}"]
        assert sorted(chain(*batches[f"ft, seed {seed}"])) == list(range(24))
        folders = [run_folder(ran.folder, version, seed) for version in ("ft", "carma")]
        ft, carma = (read_history(folder / "history.jsonl") for folder in folders)
        for table, column in (("steps", "task_loss"), ("evaluations", "loss")):
            assert ft[table][column].iloc[0] == carma[table][column].iloc[0]
            assert ft[table][column].iloc[-1] != carma[table][column].iloc[-1]
    assert batches["ft, seed 1"] != batches["ft, seed 4"]
    curves = ran.comparison.frames["history"].groupby(["version", "seed"])["task_loss"]
    assert len({tuple(losses) for _, losses in curves}) == 4
    terms = ran.comparison.frames["history"].set_index("version")[["mi", "stability"]]
    assert terms.loc["ft"].isna().all(axis=None)
    assert terms.loc["carma"].notna().all(axis=None)


def test_the_given_model_stays_as_it_is(ran: Ran) -> None:
    assert weights_digest(ran.model) == ran.digest
    assert not ran.model.training
    assert not ran.model.active_hooks
    assert all(weight.grad is None for weight in ran.model.parameters())


def test_drawn_negatives_change_no_plain_run() -> None:
    """What is CARMA's own must not reach plain fine-tuning."""
    one, other = tiny(), tiny(carma=ic.CarmaConfig(weight=0.5, negatives=2))
    plain = [c.frames["history"].query("version == 'ft'") for c in (one, other)]
    pd.testing.assert_frame_equal(*plain)
    carma = [c.frames["history"].query("version == 'carma'")["loss"] for c in (one, other)]
    assert not np.allclose(*carma)
