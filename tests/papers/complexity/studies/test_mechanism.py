"""Finished runs opened up: the tables, against models asked one by one; what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import interp_compose as ic
from interp_compose.errors import CorruptFileError, InputError, MissingDataError, OptionError
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.anchors.grid import (
    FinishedPhaseRun,
    finished_runs,
)
from interp_compose.papers.complexity.studies.anchors.masked_outputs import (
    MODES,
    second_anchor_masked,
)
from interp_compose.papers.complexity.studies.mechanism.figures import (
    _two_digits,
    embedding_figure,
    matrix_of,
)
from interp_compose.papers.complexity.studies.mechanism.views import pairs_of
from interp_compose.plots.scatter import Scatter

RATES = (0.4, 0.8)
TINY = ic.complexity.PhaseRun(
    d_model=16, d_mlp=20, samples=150, steps=6, evaluate_every=2, n_test=40
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    ic.complexity.phase_diagram(
        RATES, [0.01, 0.1], out, seeds=2, first_seed=3, run=TINY, where="here", progress=False
    )
    return out


@pytest.fixture(scope="module", autouse=True)
def quick_tsne() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("interp_compose.papers.complexity.studies.mechanism.views.TSNE_STEPS", 250)
        yield


@pytest.fixture(scope="module")
def opened(runs: Path) -> ic.complexity.Mechanism:
    return ic.complexity.mechanism(runs, [0.8, 0.4], progress=False)


def test_every_table_has_its_rows(opened: ic.complexity.Mechanism) -> None:
    assert "γ mode     pair_silhouette" in opened.summary()
    counts = {name: len(frame) for name, frame in opened.frames.items()}
    assert counts == {
        "models": 2,
        "circuits": 2 * 2,
        "pairs": 2 * 2 * 2 * 600,
        "samples": 2 * 2 * 160,
        "cosines": 2 * 2 * 160 * 159 // 2,
        "neurons": 4 * 16 * 15 // 2,  # of every run of the seed
        "embedding": 2 * 80,
        "orders": 2 * 5,
        "history": 2 * 4,
    }
    assert opened.frame["init_rate"].tolist() == [0.8, 0.4]  # as asked for
    assert opened.config["seed"] == 3  # the smallest
    assert set(opened.frames["neurons"]["weight_decay"]) == {0.01, 0.1}


def test_the_last_look_is_the_diagrams(opened: ic.complexity.Mechanism, runs: Path) -> None:
    diagram = ic.complexity.phase_diagram(
        RATES, [0.01], runs, seeds=1, first_seed=3, run=TINY, where="here", progress=False
    )
    frame = diagram.frame.set_index("init_rate").loc[[0.8, 0.4]]
    for name in ("phase", "id", "ood", "stable_rank", "mean_abs_cosine"):
        assert opened.frame[name].tolist() == frame[name].tolist()
    circuits = diagram.circuits.set_index(["init_rate", "mode"])
    for row in opened.circuits.to_dict("records"):
        kept = circuits.loc[(row["init_rate"], row["mode"])]
        for name in ("pair_silhouette", "twin_distance", "anchor_contrast"):
            assert row[name] == pytest.approx(kept[name], abs=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_cosines_are_those_of_the_outputs(
    opened: ic.complexity.Mechanism, runs: Path, mode: str
) -> None:
    """In float64, by a loop over pairs of sequences."""
    found = next(each for each in finished_runs(runs) if each.place == (0.8, 0.01))
    masked = second_anchor_masked(found.model(), found.run.task, mode=mode)  # type: ignore[arg-type]
    own = opened.frames["cosines"].query("init_rate == 0.8 and mode == @mode")
    outputs = masked.outputs.double().numpy()
    for row in own.sample(40, random_state=0).to_dict("records"):
        x, y = outputs[row["row"]], outputs[row["column"]]
        assert row["cosine"] == pytest.approx(x @ y / np.sqrt((x @ x) * (y @ y)), abs=1e-9)
    samples = opened.frames["samples"].query("init_rate == 0.8 and mode == @mode")
    assert samples["value"].tolist() == sorted(samples["value"])
    shift = {"a": 5, "b": 1, "c": -2, "d": -8}
    assert (samples["key"] + samples["anchor"].map(shift) == samples["value"]).all()


def test_pair_points_are_principal_components(opened: ic.complexity.Mechanism, runs: Path) -> None:
    from interp_compose.papers.complexity.studies.anchors.masked_outputs import key_masked

    found = next(each for each in finished_runs(runs) if each.place == (0.4, 0.01))
    X = key_masked(found.model(), found.run.task, mode="zero").outputs.double().numpy()
    X = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(X.T @ X)
    pairs = opened.frames["pairs"]
    own = pairs.query("init_rate == 0.4 and mode == 'zero' and method == 'pca'")
    for k, name in enumerate(("x", "y")):
        slow = X @ vectors[:, -1 - k]
        slow *= np.sign(slow @ own[name].to_numpy())
        np.testing.assert_allclose(own[name], slow, atol=1e-8)
    share = values[-2:].sum() / values.sum()
    assert own["explained"].tolist() == pytest.approx([share] * 600)
    tsne = pairs.query("init_rate == 0.4 and mode == 'zero' and method == 'tsne'")
    assert tsne["explained"].isna().all()
    assert tsne[["x", "y"]].notna().all().all()


def test_neurons_are_the_rows_of_W_Q(opened: ic.complexity.Mechanism, runs: Path) -> None:
    found = next(each for each in finished_runs(runs) if each.place == (0.8, 0.1))
    W_Q = found.model().lens.blocks[0].attn.W_Q.detach().double()  # head d_model d_head
    neurons = W_Q.permute(0, 2, 1).flatten(0, 1)
    slow = torch.nn.functional.cosine_similarity(neurons[:, None], neurons[None], dim=-1)
    own = opened.frames["neurons"].query("init_rate == 0.8 and weight_decay == 0.1")
    upper = slow[torch.triu(torch.ones_like(slow), diagonal=1) == 1]
    np.testing.assert_allclose(np.sort(own["cosine"]), upper.sort().values, atol=1e-6)


def test_a_matrix_is_taken_apart_and_put_together() -> None:
    matrix = np.array([[1, 0.5, -0.25], [0.5, 1, 0.125], [-0.25, 0.125, 1]])
    pairs = pairs_of(matrix)
    assert pairs.to_dict("list") == {
        "row": [0, 0, 1],
        "column": [1, 2, 2],
        "cosine": [0.5, -0.25, 0.125],
    }
    np.testing.assert_array_equal(matrix_of(pairs), matrix)


def test_a_collapsed_model_has_no_circuits(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says no longer depends on its attention: no mask would change it."""
    load = FinishedPhaseRun.model

    def collapsed(opened: FinishedPhaseRun) -> SmallDecoderModel:
        model = load(opened)
        with torch.no_grad():
            for block in model.lens.blocks:
                block.attn.W_O.zero_()
                block.attn.b_O.zero_()
        return model

    monkeypatch.setattr(FinishedPhaseRun, "model", collapsed)
    found = ic.complexity.mechanism(runs, [0.8], progress=False)
    for name in ("circuits", "pairs", "samples", "cosines"):
        assert not len(found.frames[name])
    assert len(found.frames["embedding"]) == 80
    assert len(found.figures()) == 9


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        (
            {"init_rates": [0.5]},
            MissingDataError,
            "init rate γ 0.5 and weight decay 0.01; finished",
        ),
        (
            {"weight_decay": 1.0},
            MissingDataError,
            "weight decay 1; finished are γ 0.4, 0.8 and weight decays 0.01",
        ),
        ({"seed": 9}, MissingDataError, "no finished run of seed 9; of 3, 4"),
        ({"init_rates": []}, OptionError, "expected numbers, at least one"),
        ({"init_rates": [0.8, 0.8]}, OptionError, "holds 0.8 twice"),
        ({"draw": -1}, OptionError, "draw=-1"),
        ({"draw": 2**32}, OptionError, "from 0 to 2³² − 1"),
        ({"seed": -1}, OptionError, "seed=-1"),
    ],
)
def test_what_is_not_there_is_named(
    runs: Path, changes: dict[str, object], error: type[Exception], words: str
) -> None:
    arguments = {"init_rates": [0.8], "progress": False, **changes}
    with pytest.raises(error, match=words):
        ic.complexity.mechanism(runs, **arguments)  # type: ignore[arg-type]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="train them first: interp-compose phases"):
        ic.complexity.mechanism(tmp_path, [0.8])


def test_runs_of_two_settings_are_refused(runs: Path, tmp_path: Path) -> None:
    for d_mlp in (20, 24):
        run = ic.complexity.PhaseRun(d_model=16, d_mlp=d_mlp, samples=150, steps=2, n_test=20)
        ic.complexity.phase_diagram(
            [0.8], [0.01], tmp_path, seeds=1, run=run, where="here", progress=False
        )
    with pytest.raises(InputError, match=r"runs/\w+ and \S+ differ in d_mlp; train each"):
        ic.complexity.mechanism(tmp_path, [0.8], progress=False)


def test_runs_that_were_altered_or_are_foreign(tmp_path: Path) -> None:
    run = ic.complexity.PhaseRun(d_model=16, d_mlp=20, samples=150, steps=2, n_test=20)
    ic.complexity.phase_diagram(
        [0.8], [0.01], tmp_path, seeds=1, run=run, where="here", progress=False
    )
    history = next(tmp_path.glob("runs/*/history.json"))
    kept = history.read_bytes()
    history.write_bytes(kept.replace(b'"ood": 0', b'"ood": 1', 1) + b" ")
    with pytest.raises(CorruptFileError, match=r"history.json was truncated or altered"):
        ic.complexity.mechanism(tmp_path, [0.8], progress=False)
    history.write_bytes(kept)
    sweep = tmp_path / "sweep.json"
    about = json.loads(sweep.read_text())
    sweep.write_text(json.dumps({**about, "work": "builtins:print"}))
    with pytest.raises((InputError, CorruptFileError)):
        ic.complexity.mechanism(tmp_path, [0.8], progress=False)


@pytest.mark.parametrize(
    ("value", "text"), [(0.334, "0.33"), (-0.05, "−0.05"), (-0.004, "0.00"), (0.0, "0.00")]
)
def test_numbers_in_titles_have_a_minus_where_one_belongs(value: float, text: str) -> None:
    assert _two_digits(value) == text


def test_an_embedding_s_numbers_stand_in_its_title(opened: ic.complexity.Mechanism) -> None:
    frames = dict(opened.frames)
    frames["orders"] = frames["orders"].assign(distance=1.0)
    for phase, told in (("2c", "phase 2c"), ("0", "not fitted")):
        frames["models"] = frames["models"].assign(phase=phase)
        figure = embedding_figure(frames, config=opened.config)
        assert isinstance(figure.chart, Scatter)
        for panel in figure.chart.panels:
            assert panel.heading.endswith("% of variance")
            assert f" ({told}) · " in panel.heading
        rate = figure.chart.panels[0].heading.split()[1]
        assert f"random orders: 100, 100, 100 % (γ {rate})" in figure.chart.subtitle
