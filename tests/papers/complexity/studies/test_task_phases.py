"""Decoders on tasks of sequences: the data they see, the numbers by hand, resume, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import interp_compose as ic
from interp_compose import cli
from interp_compose.errors import OptionError
from interp_compose.papers.complexity.grid.decoder_run import inside
from interp_compose.papers.complexity.studies.task_phases.measure import (
    TaskRun,
    _start_of as start_of,
    by_epoch,
    by_window,
    prepared,
)
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.papers.shared.text.vocabulary import BOS, EOS
from interp_compose.papers.shared.training.sequence_objective import TargetSequence
from interp_compose.plots.chart import Chart
from interp_compose.plots.heatmap import HeatMap
from interp_compose.runs.files import read_json
from tests import architectures
from tests.papers.lrf.studies.test_generalise import toy
from tests.studies.conftest import splitting_tokenizer

TINY = ic.complexity.TaskTraining(
    n_layers=1, d_model=8, n_heads=2, d_mlp=8, epochs=2, batch_tokens=40, n_looks=2, n_curve=3
)
RATES, DECAYS, SIZES = (0.3, 0.5), (0.0, 0.1), (3, 7)
CONFIG = {
    "task": "toy", "init_rates": [0.3, 0.5], "weight_decays": [0.0, 0.1], "sizes": [3, 7],
    "seeds": [0, 1], "n_layers": 1, "d_model": 8, "n_curve": 3, "n_looks": 2,
}  # fmt: skip


def frames(right: Any = lambda rate, decay, size, seed: int(10 * rate) + seed) -> dict[str, Any]:
    """Of 10 sequences, how many are right in each run."""
    runs, accuracy, curve, epochs = [], [], [], []
    for size, decay, rate, seed in [
        (size, decay, rate, seed)
        for seed in (0, 1)
        for size in SIZES
        for decay in DECAYS
        for rate in RATES
    ]:
        place = {"init_rate": rate, "weight_decay": decay, "size": size, "seed": seed}
        about = {"n_parameters": 9, "steps": 4, "step_seconds": 0.5, "first_loss": 2.0}
        found = {"last_loss": 0.5, "stable_rank": 2.0 + rate, "mean_abs_cosine": 0.5}
        runs.append({**place, **about, **found})
        n_right = right(rate, decay, size, seed)
        accuracy.append({**place, "split": "gen", "kind": "", "n_right": n_right, "n": 10})
        for epoch, loss in enumerate((1.0, 0.3 * rate, 0.05), start=1):
            epochs.append({**place, "epoch": epoch, "step": 2 * epoch, "loss": loss + 0.1 * seed})
        for step in (0, size):
            curve.append({**place, "step": step, "split": "gen", "accuracy": 0.5, "n": 3})
    made = {"runs": runs, "accuracy": accuracy, "curve": curve, "epochs": epochs}
    return {name: pd.DataFrame(rows) for name, rows in made.items()}


def whole_frames() -> dict[str, Any]:
    """With the tables that earlier releases lack."""
    tables = frames()
    places = tables["runs"][["init_rate", "weight_decay", "size", "seed"]].to_dict("records")
    losses = [{**place, "step": step, "loss": 1 / step} for place in places for step in (10, 20)]
    ceiling = {"split": "gen", "kind": "", "n_known": 9, "n": 10}
    ceilings = [{"size": size, **ceiling} for size in SIZES]
    return {**tables, "losses": pd.DataFrame(losses), "ceilings": pd.DataFrame(ceilings)}


def result(**asked: Any) -> ic.complexity.TaskPhases:
    return ic.complexity.TaskPhases.from_runs(frames(**asked), CONFIG)


def test_shares_and_differences_by_hand() -> None:
    found = result()
    assert list(dict.fromkeys(found.frame["setting"])) == [
        "γ 0.3, wd 0", "γ 0.5, wd 0", "γ 0.3, wd 0.1", "γ 0.5, wd 0.1",
    ]  # fmt: skip
    row = found.frame.query("init_rate == 0.5 and weight_decay == 0.1 and size == 7").iloc[0]
    assert (row["mean"], row["smallest"], row["largest"]) == (0.55, 0.5, 0.6)
    differences = found.differences.set_index(["setting", "size"])["difference"]
    assert differences["γ 0.5, wd 0.1", 3] == pytest.approx(0.2)
    assert differences["γ 0.3, wd 0.1", 7] == 0
    assert set(found.differences["other"]) == {"γ 0.3, wd 0"}
    text = found.summary()
    assert "γ 0.5, wd 0.1" in text
    assert "55.00" in text
    assert "(95 % interval, not corrected for the number of comparisons, p is by Holm)" in text
    assert "2.50" in text  # the stable rank


def test_epochs_to_fit_by_hand() -> None:
    """Losses of seed 0: 1, .09 (γ .3) or .15 (γ .5), .05; those of seed 1 are .1 higher."""
    found = result().epochs_to_fit()
    assert len(found) == 16
    of_run = found.set_index(["init_rate", "weight_decay", "size", "seed"])
    assert of_run.loc[(0.3, 0.1, 7, 0), ["epochs", "steps"]].tolist() == [2, 4]
    assert of_run.loc[(0.5, 0.1, 7, 0), ["epochs", "steps"]].tolist() == [3, 6]
    assert of_run.loc[(0.3, 0.0, 3, 1), ["epochs", "steps"]].isna().all()
    assert (result().epochs_to_fit(loss=1.1)["epochs"] == 1).all()
    for loss in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(OptionError, match="expected a positive number of nats"):
            result().epochs_to_fit(loss=loss)


def test_losses_are_averaged_over_epochs() -> None:
    found = by_epoch([4.0, 2.0, 1.0, 0.0, 7.0], 2)
    assert found == [
        {"epoch": 1, "step": 2, "loss": 3.0},
        {"epoch": 2, "step": 4, "loss": 0.5},
        {"epoch": 3, "step": 5, "loss": 7.0},
    ]


def test_a_result_of_an_earlier_release_is_read_without_what_it_lacks() -> None:
    now = result()
    frames = {name: own for name, own in now.frames.items() if name not in ("losses", "ceilings")}
    frames["summary"] = frames["summary"].drop(columns=["ceiling", "n_fitted"])
    then = replace(now, frames=frames)
    assert then.frame["ceiling"].isna().all()
    assert then.summary() == now.summary()
    assert then.epochs_to_fit()["by_step"].isna().all()


def test_losses_are_averaged_over_ten_steps() -> None:
    """The first steps are told apart where an epoch's end does not tell them."""
    losses = [float(step) for step in range(23)]
    expected = [{"step": 10, "loss": 4.5}, {"step": 20, "loss": 14.5}, {"step": 23, "loss": 21.0}]
    assert by_window(losses) == expected
    assert by_window(losses[:1]) == [{"step": 1, "loss": 0.0}]


def test_steps_to_fit_by_hand() -> None:
    """Windows of one run: .5, .1, .05, .2; the second is the first at .1. Another never is."""
    tables = frames()
    tables["losses"] = pd.DataFrame(
        {**place, "step": step, "loss": loss + 0.2 * place["seed"]}
        for place in tables["runs"][["init_rate", "weight_decay", "size", "seed"]].to_dict(
            "records"
        )
        for step, loss in ((10, 0.5), (20, 0.1), (30, 0.05), (33, 0.2))
    )
    found = ic.complexity.TaskPhases.from_runs(tables, CONFIG)
    fits = found.epochs_to_fit().set_index("seed")["by_step"]
    assert set(fits.loc[0]) == {20.0}
    assert fits.loc[1].isna().all()
    assert set(found.epochs_to_fit(loss=0.07).query("seed == 0")["by_step"]) == {30.0}
    assert found.epochs_to_fit()["epochs"].equals(result().epochs_to_fit()["epochs"])
    assert result().epochs_to_fit()["by_step"].isna().all()  # of tables without losses


def test_runs_that_did_not_fit_are_named_and_counted() -> None:
    """Of the training sample, .95 is right at the end, and of one run .6, after 1 at first; at .9
    a run is fitted."""
    tables = frames()
    rows = []
    for place in tables["curve"].to_dict("records"):
        is_bad = (place["init_rate"], place["weight_decay"], place["size"]) == (0.5, 0.1, 7)
        is_bad = is_bad and place["seed"] == 1
        share = 1.0 if place["step"] == 0 else 0.6 if is_bad else 0.9
        rows.append({**place, "split": "train", "accuracy": share})
    tables["curve"] = pd.concat([tables["curve"], pd.DataFrame(rows)], ignore_index=True)
    found = ic.complexity.TaskPhases.from_runs(tables, CONFIG)
    counts = found.frame.set_index(["setting", "size"])["n_fitted"]
    assert counts["γ 0.5, wd 0.1", 7] == 1
    assert (counts.drop(("γ 0.5, wd 0.1", 7)) == 2).all()
    assert found.fitted.query("fitted == 0")["train"].tolist() == [0.6]
    note = "at the end, and yet in all means and differences: γ 0.5, wd 0.1, 7 sequences, seed 1"
    assert f"! not fitted, less than 0.9 of the training sample right {note} (0.60)" in (
        found.summary()
    )
    assert not any(each.startswith("not fitted") for each in result().notes)
    assert result().frame["n_fitted"].isna().all()  # of tables without that sample


def rare() -> ic.SequenceTask:
    """The toy task with two lines of a word of their own, of which one is tested."""
    splits = dict(toy().splits)
    splits["train"] += (ic.SequencePair("c", "C"), ic.SequencePair("d a", "D A"))
    splits["gen"] += (ic.SequencePair("c b", "C B", "short"), ic.SequencePair("e", "A", "short"))
    return ic.SequenceTask("toy", splits, {})


def test_a_subset_holds_what_is_shown_once_and_is_another_run(tmp_path: Path) -> None:
    """Of all data, and where nothing is shown once, data, order and name of a run are what they
    were."""
    asked: dict[str, Any] = {"seeds": 1, "run": TINY, "where": "here", "progress": False}
    found = ic.complexity.task_phases(rare(), [0.5], [0.1], tmp_path / "out", sizes=[3, 9], **asked)
    assert found.config["kept_lines"] == 2
    configs = {
        config["size"]: config
        for config in map(read_json, (tmp_path / "out" / "runs").glob("*/config.json"))
        for config in [config["config"]]
    }
    assert configs[3]["kept_lines"] == 2
    assert "kept_lines" not in configs[9]
    data = SequenceData.of(rare().splits, one_sequence=True)
    train = data.splits["train"]
    order = np.random.default_rng(0).permutation(9).tolist()
    some, every = (TaskRun(**configs[size]).training(data) for size in (3, 9))
    assert every == [train[i] for i in order]
    assert {id(train[7]), id(train[8])} < {*map(id, some)}
    assert len(some) == 3
    run = TaskRun(**{**configs[3], "n_curve": 2})
    curve = prepared(run, tmp_path / "out").objective.curve["train"]
    looked_at, of_all, rarest = (
        {tuple(one.source.tolist()) for one in pairs}
        for pairs in (curve, some, (train[7], train[8]))
    )
    assert looked_at < of_all
    assert looked_at != rarest  # a sample of all that is trained on
    small = {train.pairs[i].source for i in range(9) if any(train[i] is one for one in some)}
    words = {word for source in small for word in source.split()}
    ceilings = found.frames["ceilings"].query("split == 'gen'")
    known = [each.source for each in rare().splits["gen"] if {*each.source.split()} <= words]
    assert ceilings.query("size == 3")["n_known"].sum() == len(known)
    short = ceilings.query("size == 9 and kind == 'short'")[["n_known", "n"]]
    assert short.to_numpy().tolist() == [[2, 3]]  # e is never shown
    summary = found.frame.set_index(["size", "split", "kind"])["ceiling"]
    assert summary[9, "gen", "all"] == pytest.approx(4 / 5)
    assert summary[9, "gen", "short"] == pytest.approx(2 / 3)
    assert "80.0" in found.summary()

    with pytest.raises(OptionError, match="size=1: expected at least 2, the training sequences wi"):
        ic.complexity.task_phases(rare(), [0.5], [0.1], tmp_path / "no", sizes=[1], **asked)
    assert not (tmp_path / "no").exists()
    plain = study(tmp_path / "plain", sizes=[3])
    assert "kept_lines" not in plain.config
    (path, *_) = (tmp_path / "plain" / "runs").glob("*/config.json")
    assert "kept_lines" not in read_json(path)["config"]


def test_steps_to_fit_are_drawn_where_all_seeds_fit() -> None:
    """Losses of γ 0.3, times 0.6, reach 0.1 at step 4 (seed 0: .6 × .09) and at step 6 (seed 1: .6
    × .15); those of γ 0.5 and seed 1 are made not to."""
    tables = frames()
    epochs = tables["epochs"]
    never = (epochs["init_rate"] == 0.5) & (epochs["seed"] == 1)
    tables["epochs"] = epochs.assign(loss=epochs["loss"].mask(never, 1.0))
    found = ic.complexity.TaskPhases.from_runs(tables, CONFIG)
    assert "task_phases_steps" not in found.figures()  # seed 1 is above 0.1 throughout
    tables["epochs"] = tables["epochs"].assign(loss=0.6 * tables["epochs"]["loss"])
    chart = ic.complexity.TaskPhases.from_runs(tables, CONFIG).figures()["task_phases_steps"].chart
    assert isinstance(chart, Chart)
    (panel,) = chart.panels
    assert [line.label for line in panel.lines] == ["γ 0.3, wd 0", "γ 0.3, wd 0.1"]
    assert (panel.lines[0].y, panel.lines[0].low) == ([5.0, 5.0], [4.0, 4.0])


def test_the_square_is_drawn_block_by_block() -> None:
    blocks = {"8-9 + 8-9": 1.0, "8-9 + 10-10": 0.5, "10-10 + 8-9": 0.0, "10-10 + 10-10": 0.2}
    tables = frames()
    rows = [
        row | {"split": "inside", "kind": kind, "n_right": int(10 * share)}
        for row in tables["accuracy"].to_dict("records")
        for kind, share in blocks.items()
    ]
    tables["accuracy"] = pd.DataFrame(rows)
    found = ic.complexity.TaskPhases.from_runs(tables, CONFIG).figures()["task_phases_square"].chart
    assert isinstance(found, HeatMap)
    assert found.columns == ["8-9", "10-10"]
    assert found.rows[:3] == ["γ 0.3, wd 0: 8-9", "γ 0.3, wd 0: 10-10", "γ 0.5, wd 0: 8-9"]
    assert found.values[0:2] == [[1.0, 0.5], [0.0, 0.2]]
    assert "7 training sequences" in found.subtitle


def test_the_grid_is_drawn_where_both_axes_vary() -> None:
    """Of 10 sequences, 10 γ + seed are right: .35 and .55 are the means."""
    chart = result().figures()["task_phases_map"].chart
    assert isinstance(chart, HeatMap)
    assert (chart.rows, chart.columns) == (["gen, γ 0.3", "gen, γ 0.5"], ["0", "0.1"])
    assert np.allclose(np.array(chart.values, dtype=float), [[0.35, 0.35], [0.55, 0.55]])
    assert "7 training sequences" in chart.subtitle
    tables = {name: frame[frame["weight_decay"] == 0] for name, frame in frames().items()}
    one = ic.complexity.TaskPhases.from_runs(tables, {**CONFIG, "weight_decays": [0.0]})
    assert "task_phases_map" not in one.figures()


def test_types_are_drawn_with_the_largest_training_set() -> None:
    tables = frames()
    rows = tables["accuracy"].to_dict("records")
    typed = [
        row | {"kind": kind, "n_right": right}
        for row in rows
        for kind, right in (("subj_to_obj_common", row["n_right"]), ("1 hop", 9))
    ]
    found = ic.complexity.TaskPhases.from_runs({**tables, "accuracy": pd.DataFrame(typed)}, CONFIG)
    chart = found.figures()["task_phases_types"].chart
    assert isinstance(chart, HeatMap)
    assert chart.rows == ["subj → obj common", "1 hop"]
    assert chart.columns == ["γ 0.3, wd 0", "γ 0.5, wd 0", "γ 0.3, wd 0.1", "γ 0.5, wd 0.1"]
    assert np.allclose(np.array(chart.values, dtype=float)[:, 1], [0.55, 0.9])
    assert "7 training sequences" in chart.subtitle
    assert "task_phases_types" not in result().figures()


def run_of(**changes: Any) -> TaskRun:
    given = {"data": "", "init_rate": 0.4, "weight_decay": 0.1, "size": 7, **vars(TINY), **changes}
    return TaskRun(**given)


def test_source_and_target_are_one_sequence_with_one_vocabulary() -> None:
    data = SequenceData.of(toy().splits, one_sequence=True)
    assert data.source == data.target
    assert data.source.words == ("A", "B", "a", "b")
    gen = data.splits["gen"][0]
    assert gen.source.tolist() == [5, 6, 6]
    assert gen.target.tolist() == [3, 4, 4, EOS]
    assert run_of().model_config(data).n_ctx == 3 + 1 + 4


def test_a_larger_size_holds_a_smaller_one() -> None:
    data = SequenceData.of(toy().splits, one_sequence=True)
    some, all_of_them = (run_of(size=size).training(data) for size in SIZES)
    assert some == all_of_them[:3]
    assert sorted(map(id, all_of_them)) == sorted(map(id, data.splits["train"]))
    assert run_of(size=3, seed=5).training(data) == some
    with pytest.raises(OptionError, match="size=8: expected at most 7"):
        run_of(size=8).training(data)


def test_inside_by_its_formulas() -> None:
    """‖W‖²_F / ‖W‖²₂, and the mean of |cos| over pairs of rows, each neuron's input weights."""
    model = SmallDecoder(
        ic.complexity.DecoderConfig(d_vocab=5, n_ctx=4, n_layers=1, d_model=8, n_heads=2)
    )
    torch.manual_seed(0)
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    rows = np.concatenate(model.W_Q[0].detach().double().numpy().transpose(0, 2, 1))
    values = np.linalg.svd(rows, compute_uv=False)
    found = inside(model)
    assert found["stable_rank"] == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-4)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = np.abs(unit @ unit.T)[np.triu_indices(len(rows), 1)]
    assert found["mean_abs_cosine"] == pytest.approx(cosines.mean(), rel=1e-4)


def test_a_single_neuron_has_no_condensation(tmp_path: Path) -> None:
    run = replace(TINY, d_model=1, n_heads=1)
    found = ic.complexity.task_phases(
        toy(), [0.3], [0.1], tmp_path / "out", seeds=1, run=run, where="here", progress=False
    )
    assert found.frames["runs"]["mean_abs_cosine"].isna().all()
    assert found.frames["runs"]["stable_rank"].iloc[0] == pytest.approx(1)
    found.save(tmp_path / "saved")
    assert (
        ic.complexity.TaskPhases.load(tmp_path / "saved")
        .frames["runs"]["mean_abs_cosine"]
        .isna()
        .all()
    )


def study(out: Path, **asked: Any) -> ic.complexity.TaskPhases:
    given: dict[str, Any] = {"seeds": 1, "run": TINY, "where": "here", "progress": False}
    return ic.complexity.task_phases(toy(), RATES, [0.1], out, **given, **asked)


def test_a_grid_is_trained_and_its_models_are_measured(tmp_path: Path) -> None:
    whole = study(tmp_path / "whole", sizes=[3, 7])
    assert whole.config["sizes"] == [3, 7]
    counts = whole.frames["accuracy"].groupby("split")["n"].sum() / 4
    assert counts.to_dict() == {"gen": 3, "test": 1}
    assert whole.frames["epochs"].groupby(["size", "init_rate"]).size().eq(TINY.epochs).all()

    folder = next((tmp_path / "whole" / "runs").glob("*/model"))
    model = ic.load_model(folder)
    data = SequenceData.of(toy().splits, one_sequence=True)
    prompt, target = data.splits["gen"][0].source, data.splits["gen"][0].target
    assert model.tokenizer("a b b <bos>")["input_ids"] == [*prompt, BOS]
    examples = [{"prompt": "a b b <bos>", "answer": " A", "spans": [(0, 3)]}]
    curve = ic.cap_curve(model, examples, unit="span", progress=False)
    with torch.no_grad():
        logits = model.plain(torch.tensor([[*prompt, BOS]]))[0, -1].log_softmax(-1)
    expected = float(logits[int(target[0])])
    assert curve.clean["target_logprob"].iloc[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.filterwarnings("ignore:.* words of the task begin with the embedding of another")
def test_a_given_model_is_fine_tuned(tmp_path: Path) -> None:
    """From its weights: the first loss is that of the model as it is, on the task's words."""
    architectures.build("GPT-2").save_pretrained(tmp_path / "gpt2")
    splitting_tokenizer().save_pretrained(tmp_path / "gpt2")
    model = ic.load_model(tmp_path / "gpt2", device="cpu")
    shape = {
        name: getattr(ic.complexity.TaskTraining(), name)
        for name in ("n_layers", "d_model", "n_heads")
    }
    at_once = replace(TINY, max_steps=1, batch_tokens=1000, d_mlp=256, **shape)
    asked: dict[str, Any] = {"seeds": 2, "where": "here", "progress": False, "model": model}
    found = ic.complexity.task_phases(toy(), (), [0.0, 0.1], tmp_path / "out", run=at_once, **asked)
    assert (found.config["init_rates"], found.config["n_layers"]) == ([], 3)
    assert found.config["d_model"] == model.d_model
    runs = found.frames["runs"]
    assert len(runs) == 4
    assert runs["init_rate"].isna().all()
    assert list(dict.fromkeys(found.frame["setting"])) == ["fine-tuned, wd 0", "fine-tuned, wd 0.1"]
    assert set(found.differences["other"]) == {"fine-tuned, wd 0"}
    assert len(found.epochs_to_fit()) == 4
    assert "fine-tuned, wd 0.1" in found.summary()
    figures = found.figures()
    assert figures["task_phases_accuracy"].chart.subtitle.startswith("gpt2, 3 layers")
    assert "task_phases_map" not in figures  # there are no init rates
    found.save(tmp_path / "saved")
    assert (
        ic.complexity.TaskPhases.load(tmp_path / "saved").frames["runs"]["init_rate"].isna().all()
    )

    data = SequenceData.of(toy().splits, one_sequence=True)
    started = start_of(model, data).lens.double()
    losses = []
    for pair in data.splits["train"]:
        tokens = [*pair.source.tolist(), BOS, *pair.target.tolist()]
        with torch.no_grad():
            logprobs = started(torch.tensor([tokens]))[0].log_softmax(-1)
        at = range(len(pair.source), len(tokens) - 1)
        losses += [-float(logprobs[i, tokens[i + 1]]) for i in at]
    assert runs["first_loss"].tolist() == pytest.approx([np.mean(losses)] * 4, rel=1e-5)

    trained = ic.load_model(next((tmp_path / "out" / "runs").glob("*/model"))).lens
    change = (trained.W_Q - started.W_Q).abs().max()
    assert 0 < change < 0.01  # one step of AdamW at a rate of 1e-3
    with pytest.raises(OptionError, match=r"init_rates=\[0.5\] with the model .* leave them out"):
        ic.complexity.task_phases(toy(), [0.5], [0.1], tmp_path / "out", run=at_once, **asked)
    flat = replace(at_once, n_layers=1)
    with pytest.raises(OptionError, match=r"n_layers=1 with the model .*, whose own is 3"):
        ic.complexity.task_phases(toy(), (), [0.1], tmp_path / "out", run=flat, **asked)
    (kept,) = (tmp_path / "out" / "start").iterdir()
    (kept / "weights.safetensors").write_bytes(b"damaged")
    asked_more = {**asked, "seeds": 3}
    again = ic.complexity.task_phases(
        toy(), (), [0.0, 0.1], tmp_path / "out", run=at_once, **asked_more
    )
    assert again.frames["runs"]["first_loss"].tolist() == pytest.approx([np.mean(losses)] * 6)
    command = "task-phases --task addition-9 --sizes 20 --weight-decays 0.1 --seeds 1 --quiet"
    given = f"--model {tmp_path / 'gpt2'} --max-steps 1 --n-looks 1 --n-curve 3 --where here"
    cli.main([*command.split(), *given.split(), "--out", str(tmp_path / "command")])
    read = ic.complexity.TaskPhases.load(tmp_path / "command")
    assert set(read.frame["setting"]) == {"fine-tuned, wd 0.1"}


def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for asked, message in (
        ({"sizes": [8]}, "size=8: expected at most 7"),
        ({"sizes": [0]}, "size=0: expected 1 or more"),
        ({"sizes": [3, 3]}, "sizes holds 3 twice"),
        ({"workers": 2}, "workers=2 with where='here'"),
    ):
        with pytest.raises(OptionError, match=message):
            study(tmp_path / "out", **asked)
    for rates, decays, message in (
        ([], [0.1], "init_rates=.*expected numbers"),
        ([0.5], [-0.1], "weight_decays holds -0.1"),
        ([300.0], [0.1], "300"),
    ):
        with pytest.raises(OptionError, match=message):
            ic.complexity.task_phases(
                toy(), rates, decays, tmp_path / "out", where="here", run=TINY
            )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["gpt2", "two-layers"])
def test_the_papers_models_start_step_and_resume(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their depth and training, narrower, on the toy task; stopped at its second look, a run goes
    on to the same result."""
    command = cli._parsed(["task-phases", "--paper", name, "--max-steps", "2"])
    assert (command.run.epochs, command.run.lr, command.run.schedule) == (5000, 5e-5, "constant")
    assert command.run.n_heads == {"gpt2": 12, "two-layers": 1}[name]
    assert command.run.batch_tokens == 26_600
    small = replace(command.run, d_model=12, d_mlp=12, n_looks=2, n_curve=3)
    asked: dict[str, Any] = {"seeds": 1, "run": small, "where": "here", "progress": False}
    whole = ic.complexity.task_phases(toy(), [0.5], [0.01], tmp_path / "whole", **asked)
    assert whole.frames["runs"]["steps"].tolist() == [2]
    looks, trained = [0], [0]
    look, loss = TargetSequence.evaluate, TargetSequence.loss

    def stops(self: Any, trainer: Any) -> Any:
        looks[0] += 1
        if looks[0] == 3:  # before training, after one step, and after two
            raise KeyboardInterrupt
        return look(self, trainer)

    def counts(self: Any, *args: Any) -> Any:
        trained[0] += 1
        return loss(self, *args)

    monkeypatch.setattr(TargetSequence, "evaluate", stops)
    monkeypatch.setattr(TargetSequence, "loss", counts)
    with pytest.raises(KeyboardInterrupt):
        ic.complexity.task_phases(toy(), [0.5], [0.01], tmp_path / "broken", **asked)
    assert trained == [2]
    broken = ic.complexity.task_phases(toy(), [0.5], [0.01], tmp_path / "broken", **asked)
    assert trained == [3]  # the second step again, not the first
    for table in ("accuracy", "curve", "epochs"):
        pd.testing.assert_frame_equal(whole.frames[table], broken.frames[table])
