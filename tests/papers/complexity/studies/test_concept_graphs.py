"""Diffusion models on a concept graph: shares and verdicts by hand, resume, refusals."""

from __future__ import annotations

import sys
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import interp_compose as ic
from interp_compose import cli
from interp_compose.errors import MissingPackageError, OptionError
from interp_compose.papers.complexity.models.concept_unet import ConceptUNet
from interp_compose.papers.complexity.models.init import init_module
from interp_compose.papers.complexity.studies.concept_graphs import measure
from interp_compose.papers.complexity.studies.concept_graphs.measure import (
    ConceptRun,
    counted,
    examples,
    inside,
)
from interp_compose.papers.complexity.studies.concept_graphs.result import KINDS
from interp_compose.papers.complexity.tasks.concept_images import NODES, TRAINED, concept_images
from interp_compose.papers.complexity.training.images import Denoising
from interp_compose.plots.images import image_of, png_of

TINY = ic.complexity.ImageTraining(
    samples=16, channels=(2,), epochs=2, batch_size=4, n_steps=4, sample_steps=2, n_images=3,
    n_looks=2, n_curve=1,
)  # fmt: skip
RATES = (0.3, 0.5, 0.7)
CONFIG = {
    "train_nodes": list(TRAINED["paper"]), "init_rates": list(RATES), "seeds": [0, 1, 2],
    "n_looks": 1,
}  # fmt: skip
CIRCLES = {0.3: (1, 2, 0), 0.5: (4, 6, 5), 0.7: (10, 9, 9)}
"""How many of 10 images of a small circle show a circle, seed by seed."""


def frames(learned: int = 10) -> dict[str, pd.DataFrame]:
    """Of 10 images of each node; those of training nodes are right ``learned`` times."""
    png = b64encode(png_of(np.full((2, 2, 3), 7, dtype=np.uint8))).decode()
    runs, accuracy, curve, examples = [], [], [], []
    for seed in (0, 1, 2):
        for rate in RATES:
            place = {"init_rate": rate, "seed": seed}
            about = {"n_parameters": 9, "steps": 4, "step_seconds": 0.5, "first_loss": 1.0}
            inside = {"stable_rank": 2 + rate + seed, "mean_abs_cosine": 0.3}
            runs.append({**place, **about, "last_loss": 0.1, **inside})
            for node in NODES:
                trained = node in TRAINED["paper"]
                right = learned if trained else CIRCLES[rate][seed]
                at = {**place, "node": node, "trained": trained, "n": 10}
                accuracy += [{**at, "kind": kind, "n_right": right} for kind in KINDS]
                curve += [
                    {**at, "step": step, "kind": kind, "n_right": right * (step > 0)}
                    for step in (0, 4)
                    for kind in ("all", "shape")
                ]
                examples += [{**place, "node": node, "image": i, "png": png} for i in (0, 1)]
    judge = [
        {"node": node, "kind": kind, "n_right": 499, "n": 500} for node in NODES for kind in KINDS
    ]
    made = {
        "runs": runs, "accuracy": accuracy, "curve": curve, "examples": examples, "judge": judge
    }  # fmt: skip
    return {name: pd.DataFrame(rows) for name, rows in made.items()}


def result(**asked: Any) -> ic.complexity.ConceptGraphs:
    return ic.complexity.ConceptGraphs.from_runs(frames(**asked), CONFIG)


def test_shares_verdicts_and_differences_by_hand() -> None:
    """Circles in 10 %, 50 % and 93 % of images: the interval of the first lies below a half, that
    of the last above. Its half width of 3 seeds is 4.303 s / √3, wider than that of images; a share
    is at most 1."""
    found = result()
    row = found.frame.query("init_rate == 0.7 and node == '010' and kind == 'shape'").iloc[0]
    assert (row["mean"], row["smallest"], row["largest"]) == (pytest.approx(28 / 30), 0.9, 1.0)
    failure = found.failure.set_index(["init_rate", "node"])
    assert failure["verdict"].to_dict() == {
        (0.3, "010"): "shown", (0.5, "010"): "undecided", (0.7, "010"): "absent",
        (0.3, "011"): "shown", (0.5, "011"): "undecided", (0.7, "011"): "absent",
    }  # fmt: skip
    first = failure.loc[(0.3, "010")]
    half = 4.302653 * 0.1 / 3**0.5
    assert first["wrong"] == pytest.approx(0.9)
    assert (first["low"], first["high"]) == (pytest.approx(0.9 - half), 1.0)
    differences = found.differences.set_index(["setting", "node", "kind"])
    assert set(found.differences["other"]) == {"γ 0.5"}
    assert differences["difference"]["γ 0.3", "010", "all"] == pytest.approx(-0.4)
    assert differences["difference"]["γ 0.7", "011", "shape"] == pytest.approx(28 / 30 - 0.5)
    text = found.summary()
    assert "γ 0.3   010  shown" in text
    assert "triangles in 90.0 % of images (95 % 65.2 to 100.0), clear 10.0 %, right 10.0 %" in text
    assert "γ 0.7   011  absent" in text
    assert "small red circle" in text
    assert "all 99.80 %" in text
    assert "first convolution: γ 0.3 3.30, γ 0.5 3.50, γ 0.7 3.70" in text


def test_images_over_training_by_hand() -> None:
    """At the last step: all trained nodes are right, and as many of the others as there are
    circles; the smallest and the largest seed are the band's ends."""
    chart = result().figures()["concept_graphs_curve"].chart
    assert chart is not None
    found = {panel.title: {line.label: line for line in panel.lines} for panel in chart.panels}
    assert list(found) == ["trained nodes", "other nodes", "shape of small circles"]
    line = found["trained nodes"]["γ 0.3"]
    assert (line.x, line.y) == ([0.0, 4.0], [0.0, 1.0])
    for title in ("other nodes", "shape of small circles"):
        for rate, rights in CIRCLES.items():
            line = found[title][f"γ {rate:g}"]
            assert line.y == pytest.approx([0, sum(rights) / 30])
            assert (line.low[1], line.high[1]) == (min(rights) / 10, max(rights) / 10)
            assert line.n == [3, 3]
    assert "measured on 20 to 40 images" in chart.subtitle
    seen = frames()
    for name in ("accuracy", "curve"):
        seen[name]["trained"] |= seen[name]["node"].isin(["010", "011"])
    figures = ic.complexity.ConceptGraphs.from_runs(seen, CONFIG).figures()
    chart = figures["concept_graphs_curve"].chart
    assert chart is not None
    assert [panel.title for panel in chart.panels] == ["trained nodes", "other nodes"]


def test_inside_by_its_formulas() -> None:
    """‖W‖²_F / ‖W‖²₂ and the mean of |cos| over pairs of rows, a row for each output channel."""
    model = ConceptUNet((6, 4))
    init_module(model, 0.5, seed=3)
    weight = model.unet.down_blocks[0].resnets[0].conv1.weight.detach().double().numpy()
    rows = weight.reshape(6, 6 * 9)
    values = np.linalg.svd(rows, compute_uv=False)
    found = inside(model)
    assert found["stable_rank"] == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-4)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = np.abs(unit @ unit.T)[np.triu_indices(6, 1)]
    assert found["mean_abs_cosine"] == pytest.approx(cosines.mean(), rel=1e-4)


def test_a_model_that_did_not_learn_its_training_nodes_shows_nothing() -> None:
    found = result(learned=8)
    assert set(found.failure["verdict"]) == {"not learned"}
    assert found.failure["learned"].tolist() == pytest.approx([0.8] * 6)


def test_without_the_small_circles_unseen_there_is_no_failure_mode() -> None:
    tables = frames()
    tables["accuracy"]["trained"] |= tables["accuracy"]["node"].isin(["010", "011"])
    found = ic.complexity.ConceptGraphs.from_runs(tables, CONFIG)
    assert found.failure.empty
    assert "failure mode" not in found.summary()
    assert "both small circles were trained on" in found.summary()


@pytest.mark.parametrize(("n", "verdict"), [(10, "shown"), (1, "undecided")])
def test_seeds_that_agree_are_as_sure_as_their_images_are_many(n: int, verdict: str) -> None:
    """Three seeds without one circle: Wilson's interval of 3 n images, by its formula."""
    tables = frames()
    accuracy = tables["accuracy"]
    accuracy["n"] = n
    accuracy["n_right"] = np.where(accuracy["trained"], n, 0)
    found = ic.complexity.ConceptGraphs.from_runs(tables, CONFIG).failure
    z, images = 1.959964, 3 * n
    assert set(found["verdict"]) == {verdict}
    assert found["low"].tolist() == pytest.approx([1 / (1 + z**2 / images)] * 6)
    assert found["high"].tolist() == pytest.approx([1.0] * 6)


def test_one_seed_decides_nothing() -> None:
    tables = {
        name: table[table["seed"] == 0] if "seed" in table else table
        for name, table in frames().items()
    }
    found = ic.complexity.ConceptGraphs.from_runs(tables, {**CONFIG, "seeds": [0]})
    assert set(found.failure["verdict"]) == {"undecided"}
    assert "triangles in 60.0 % of images, clear 40.0 %, right 40.0 %\n" in found.summary()


def test_what_images_show_is_counted_by_attribute() -> None:
    """Small blue triangles where small red circles are asked for."""
    images, _ = concept_images(["111"], 5, 28, 0)
    whole = (255 * images).round().astype(np.uint8).transpose(0, 2, 3, 1)
    found = counted({"010": whole}, ["111"])
    counts = {row["kind"]: row["n_right"] for row in found}
    assert counts == {"all": 0, "shape": 0, "size": 5, "color": 0, "clear": 5}
    assert {row["trained"] for row in found} == {False}
    assert len(examples({"010": whole})) == 3


@pytest.mark.parametrize("side", [28, 64])
def test_the_judges_own_accuracy_is_reported(side: int) -> None:
    found = measure.judged(side)
    whole = found[found["kind"] == "all"]
    assert whole["n_right"].sum() / whole["n"].sum() >= 0.995
    assert set(found["node"]) == set(NODES)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is tested on few images."""
    monkeypatch.setattr(measure, "N_JUDGED", 4)


def study(out: Path, rates: Any = (0.4, 0.5), **asked: Any) -> ic.complexity.ConceptGraphs:
    given = {"seeds": 1, "run": TINY, "where": "here", "progress": False, **asked}
    return ic.complexity.concept_graphs(rates, out, **given)


@pytest.mark.usefixtures("quick")
def test_a_grid_is_trained_and_its_images_are_kept(tmp_path: Path) -> None:
    whole = study(tmp_path / "whole")
    assert whole.config["train_nodes"] == ["000", "100", "001", "111"]
    assert set(whole.frames["runs"]["steps"]) == {8}
    assert (whole.frames["accuracy"]["n"] == 3).all()
    curve = whole.frames["curve"]
    assert curve.groupby(["init_rate", "step"]).size().eq(8 * 2).all()
    assert sorted(set(curve["step"])) == [0, 4, 8]
    (folder, _) = (tmp_path / "whole" / "runs").iterdir()
    with np.load(folder / "images.npz", allow_pickle=False) as kept:
        assert kept["images"].shape == (8, 3, 28, 28, 3)
        assert kept["nodes"].tolist() == list(NODES)
    rows = whole.frames["examples"].query("node == '111' and image == 2")
    pictures = [image_of_text(png) for png in rows["png"]]
    assert any(np.array_equal(one, kept_image(folder, "111", 2)) for one in pictures)


def image_of_text(png: str) -> np.ndarray:
    from base64 import b64decode

    return image_of(b64decode(png))


def kept_image(folder: Path, node: str, i: int) -> np.ndarray:
    with np.load(folder / "images.npz", allow_pickle=False) as kept:
        return kept["images"][NODES.index(node), i]  # type: ignore[no-any-return]


@pytest.mark.usefixtures("quick")
def test_the_codes_setting_starts_steps_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its widths a step takes minutes of a CPU; the shape is the paper's, the widths are not."""
    run = cli._parsed(["concept-graphs", "--paper"]).run
    assert (run.pixels, run.samples, run.epochs, run.batch_size) == (64, 5000, 300, 64)
    assert (run.lr, run.n_steps, max(run.channels[:2])) == (1e-4, 500, 256)
    config = ConceptRun(**vars(run), train_nodes=["000"], init_rate=0.5).train_config
    assert config.total_steps(run.samples) == 300 * 79
    assert config.lr_at(0, 100) == 1e-4
    assert config.lr_at(99, 100) == pytest.approx(1e-6)
    assert (config.weight_decay, config.clip) == (0.0, None)
    few = replace(run, channels=(4, 4, 8), samples=8, batch_size=4, max_steps=2, sample_steps=1)
    asked: dict[str, Any] = {"rates": [0.5], "run": replace(few, n_images=1, n_curve=1)}
    whole = study(tmp_path / "whole", **asked)
    assert whole.frames["runs"]["steps"].tolist() == [2]
    real, calls = Denoising.loss, [0]

    def stops(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(Denoising, "loss", stops)
    with pytest.raises(KeyboardInterrupt):
        study(tmp_path / "broken", **asked)
    again = study(tmp_path / "broken", **asked)
    assert calls == [3]  # the second step alone
    for name in ("accuracy", "examples"):
        pd.testing.assert_frame_equal(again.frames[name], whole.frames[name])


def test_phases_with_this_task_is_this_command() -> None:
    for options in (
        ["--task", "concept-graphs", "--gammas", "0.5"],
        ["--gammas", "0.5", "--task=concept-graphs"],
    ):
        assert cli._of_a_task(options) == ["concept-graphs", "--gammas", "0.5"]
    assert cli._of_a_task(["--task", "cogs"]) == ["task-phases", "--task", "cogs"]
    assert cli._of_a_task(["--task"]) == ["task-phases", "--task"]
    assert cli._of_a_task(["--gammas", "1"]) == ["phases", "--gammas", "1"]


def test_what_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    for asked, message in (
        ({"train_nodes": "000,200"}, "train_nodes name '200'"),
        ({"train_nodes": ()}, "name no node"),
        ({"train_nodes": NODES}, "all 8 nodes"),
        ({"run": replace(TINY, channels=(4,) * 4)}, "cannot be halved 3 times"),
        ({"run": replace(TINY, sample_steps=5)}, "sample_steps=5: expected at most n_steps=4"),
        ({"run": replace(TINY, n_images=0)}, "n_images=0: expected 1 or more"),
        ({"run": replace(TINY, n_looks=0)}, "n_looks=0: expected 1 or more"),
        ({"run": replace(TINY, n_curve=0)}, "n_curve=0: expected 1 or more"),
        ({"run": replace(TINY, samples=3)}, "samples=3: expected at least one of each"),
        ({"run": replace(TINY, lr=-1.0)}, "lr=-1.0"),
        ({"rates": (0.5, 0.5)}, "init_rates holds 0.5 twice"),
        ({"rates": ()}, "init_rates=.*expected numbers"),
        ({"rates": (90.0,)}, "an init rate of 90"),
        ({"workers": 2}, "workers=2 with where='here'"),
    ):
        with pytest.raises(OptionError, match=message):
            study(out, **asked)
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(MissingPackageError, match=r"interp-compose\[images\]"):
        study(out)
    assert not out.exists()
