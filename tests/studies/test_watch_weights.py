"""A watcher of weights: when they are measured, what they are, and what a resume makes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch

from interp_compose.errors import CapabilityError, NonFiniteError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.weight_matrices import weight_matrices
from interp_compose.studies.watch import watcher as watcher_module
from interp_compose.studies.watch.measure import watch
from interp_compose.studies.watch.result import NAMES as MEASURES, Watched
from interp_compose.studies.watch.watcher import Watcher
from interp_compose.training.finetune import finetune_on
from interp_compose.training.history import Recorder, WeightTracker
from interp_compose.training.loop import Trainer, run_training
from interp_compose.training.objectives import AnswerToken
from tests.training.runs import BASE, hugging_face, made_up, shared, tiny

NAMES = ("W_Q", "W_in")


def watched(every: int = 3, **options: Any) -> tuple[Watcher, LensModel]:
    model = tiny()
    return watching(model, every=every, **options), model


def watching(model: LensModel, **options: Any) -> Watcher:
    """Of two matrices of each block, whatever it takes; no time passes."""
    return watch(model, **{"matrices": NAMES, "budget": None, "clock": lambda: 0.0, **options})


def by_measure(watcher: Watcher) -> pd.DataFrame:
    """A row for each step, layer and matrix, a column for each measure."""
    place = ["step", "layer", "of"]
    wide = watcher.frame.pivot(index=place, columns="measure", values="value")
    return wide.reset_index()


def train(tracker: Watcher, model: LensModel) -> None:
    """Eight steps; what finetune does around a tracker."""
    recorder = Recorder(track=tracker)
    objective = AnswerToken(made_up(20), made_up(7, seed=1))
    run_training(Trainer(model, objective, BASE, recorder=recorder), progress=False)


def slow_rank(weight: torch.Tensor) -> float:
    values = np.linalg.svd(weight.detach().double().numpy(), compute_uv=False)
    return float((values**2).sum() / values[0] ** 2)


def test_it_measures_the_model_at_its_steps() -> None:
    tracker, model = watched()
    before = {(m.layer, m.name): slow_rank(m.weight) for m in weight_matrices(model, NAMES)}
    train(tracker, model)
    frame = by_measure(tracker)
    assert sorted(set(frame["step"])) == [0, 3, 6]
    assert len(frame) == 3 * 3 * 2
    for row in frame[frame["step"] == 0].to_dict("records"):
        assert row["stable_rank"] == pytest.approx(before[row["layer"], row["of"]], rel=1e-5)
    tracker.look(8)
    last = by_measure(tracker)
    last = last[last["step"] == 8].set_index(["layer", "of"])
    assert len(last) == 3 * 2
    for matrix in weight_matrices(model, NAMES):
        row = last.loc[(matrix.layer, matrix.name)]
        assert row["stable_rank"] == pytest.approx(slow_rank(matrix.weight), rel=1e-5)
        assert row["frobenius_norm"] == pytest.approx(float(matrix.weight.norm()), rel=1e-5)
    moved = frame.pivot(index=["layer", "of"], columns="step", values="stable_rank")
    assert (moved[0] != moved[3]).all()


def test_training_is_the_same_with_it_to_the_bit() -> None:
    tracker, model = watched(every=1)
    train(tracker, model)
    alone = tiny()
    objective = AnswerToken(made_up(20), made_up(7, seed=1))
    run_training(Trainer(alone, objective, BASE), progress=False)
    for a, b in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_step_is_measured_once_however_often_it_is_told() -> None:
    tracker, _ = watched(every=2)
    for row in ({"step": 0, "validation/loss": 1.0}, {"step": 0}, {"step": 1}, {"step": 2}):
        tracker(row)
    tracker({"step": 2, "layer 1/stable_rank": 3.0})
    assert tracker.frame["step"].tolist() == [0] * 12 + [2] * 12
    assert tracker.looks["step"].tolist() == [0, 2]


def test_a_step_at_which_no_look_is_due_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker, _ = watched(every=3)
    tracker(0)
    monkeypatch.setattr(watcher_module, "random_states_kept", Mock(side_effect=ZeroDivisionError))
    tracker(1)
    tracker({"step": 2})
    with pytest.raises(ZeroDivisionError):
        tracker(3)


def test_another_tracker_is_told_everything() -> None:
    told: list[dict[str, Any]] = []
    tracker, _ = watched(every=2, also=told.append)
    tracker({"step": 1, "loss": 0.5})
    assert told == [{"step": 1, "loss": 0.5}]
    tracker({"step": 2, "loss": 0.25})
    assert told[1] == {"step": 2, "loss": 0.25}
    first = by_measure(tracker).iloc[0]
    assert (first["layer"], first["of"]) == (0, "W_Q")
    assert told[2]["step"] == 2
    assert told[2]["layer 0/W_Q/stable_rank"] == first["stable_rank"]
    assert told[2]["layer 0/W_Q/frobenius_norm"] == first["frobenius_norm"]
    assert len(told[2]) == 1 + 2 * 6


# ---- larger matrices: iterated from where the last look ended -----------------------------------


def wide() -> LensModel:
    """A model whose matrices are too large to be measured exactly at every look."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from interp_compose.models.load import load_model

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=23, n_positions=17, n_embd=134, n_layer=1, n_head=2, n_inner=149,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return load_model(GPT2LMHeadModel(config).eval())


@torch.no_grad()
def drift(model: LensModel, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for weight in model.parameters():
        weight += 0.002 * torch.randn(weight.shape, generator=generator)


@pytest.mark.parametrize(("spike", "tolerance"), [(0.5, 2e-4), (0.0, 1e-2)])
def test_iterated_ranks_hold_their_tolerance_while_weights_move(
    spike: float, tolerance: float
) -> None:
    """Random weights have several singular values within a few parts in a thousand."""
    model = wide()
    with torch.no_grad():
        for matrix in weight_matrices(model, NAMES):
            matrix.weight.add_(0.1 * spike)
    tracker = watching(model, every=1, measures=("stable_rank",))
    for step in range(12):
        tracker.look(step)
        now = tracker.frame[tracker.frame["step"] == step]
        for matrix, found in zip(weight_matrices(model, NAMES), now["value"], strict=True):
            assert found == pytest.approx(slow_rank(matrix.weight), rel=tolerance)
        drift(model, step)


# ---- resume ------------------------------------------------------------------------------------


def test_a_resumed_run_ends_in_the_same_rows(tmp_path: Path) -> None:
    """Killed after step 11, its last checkpoint being of step 7."""
    whole, model = watched(path=tmp_path / "whole.jsonl")
    steps(whole, model, range(16))
    path = tmp_path / "new folder" / "ranks.jsonl"
    killed, model = watched(path=path)
    steps(killed, model, range(12))
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"table": "measured", "step": 12, "lay')  # torn by the kill
    resumed, model = watched(path=path)
    for step in range(8):
        drift(model, step)
    steps(resumed, model, range(8, 16))
    pd.testing.assert_frame_equal(resumed.frame, whole.frame)
    assert path.read_text(encoding="utf-8") == (tmp_path / "whole.jsonl").read_text(
        encoding="utf-8"
    )
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    measured = [row["step"] for row in rows if row["table"] == "measured"]
    assert measured == resumed.frame["step"].tolist()
    assert [row["step"] for row in rows if row["table"] == "looks"] == [0, 3, 6, 9, 12, 15]
    assert rows[0]["table"] == "config"
    pd.testing.assert_frame_equal(Watched.read(path).frame, whole.frame)


def test_a_resumed_run_of_larger_matrices_agrees_within_the_tolerance(tmp_path: Path) -> None:
    def tracker(name: str, model: LensModel) -> Watcher:
        return watching(model, every=3, path=tmp_path / name)

    model = wide()
    whole = tracker("whole", model)
    steps(whole, model, range(16))
    model = wide()
    steps(tracker("broken", model), model, range(8))
    resumed = tracker("broken", model)
    steps(resumed, model, range(8, 16))
    pd.testing.assert_frame_equal(resumed.frame, whole.frame, rtol=1e-4)


def steps(tracker: Watcher, model: LensModel, numbers: range) -> None:
    """The calls of a run: the model moves, then the step is told. Step 0 is before any."""
    for step in numbers:
        tracker({"step": step})
        drift(model, step)


def test_a_run_from_the_start_begins_its_file_anew(tmp_path: Path) -> None:
    path = tmp_path / "ranks.jsonl"
    for _ in range(2):
        tracker, model = watched(path=path)
        steps(tracker, model, range(4))
    assert len(tracker.frame) == 2 * 12
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1 + 2 * (12 + 1)


# ---- refused -----------------------------------------------------------------------------------


def test_a_matrix_that_the_model_has_not() -> None:
    with pytest.raises(CapabilityError, match="offers none of W_gate"):
        watch(tiny(), matrices=("W_gate",))


def test_weights_that_are_not_finite() -> None:
    tracker, model = watched()
    with torch.no_grad():
        next(weight_matrices(model, ("W_in",))).weight[1, 2] = math.inf
    with pytest.raises(NonFiniteError, match="at step 3: layer 0, W_in: "):
        tracker({"step": 3})


def test_finetune_shows_the_tracker_the_copy_that_it_trains() -> None:
    import interp_compose as ic

    model = ic.load_model("mini-base")
    task = ic.load_task("mini-idm", model)
    tracker = watch(model, every=2, matrices=("W_Q",), measures=("stable_rank",), budget=None)
    assert isinstance(tracker, WeightTracker)
    config = ic.TrainConfig(lr=1e-2, epochs=1, batch_size=8, max_steps=4, schedule="cosine")
    some = replace(task, train=task.train[:40], validation=task.validation[:8])
    tuned, _ = ic.finetune(model, some, config=config, track=tracker, progress=False)
    before = {m.layer: slow_rank(m.weight) for m in weight_matrices(model, ("W_Q",))}
    after = {m.layer: slow_rank(m.weight) for m in weight_matrices(tuned, ("W_Q",))}
    frame = tracker.frame.set_index(["step", "layer"])["value"]
    assert sorted(set(tracker.frame["step"])) == [0, 2, 4]
    for layer in before:
        assert frame[0, layer] == pytest.approx(before[layer], rel=1e-5)
        assert frame[4, layer] == pytest.approx(after[layer], rel=1e-5)
        assert after[layer] != pytest.approx(before[layer], rel=1e-5)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of peft
def test_an_adapter_is_trained_and_followed_as_it_acts() -> None:
    peft: Any = pytest.importorskip("peft")
    module = hugging_face(dropout=0.0)
    module.add_adapter(peft.LoraConfig(target_modules=["c_fc"], r=2, fan_in_fan_out=True))
    model = load_model(module)
    tracker = watching(model, every=4)
    trained, _ = finetune_on(
        model, made_up(20), made_up(7, seed=1), "made up",
        carma=None, config=BASE, folder=None, progress=False, track=tracker,
    )  # fmt: skip
    for layer in range(3):
        part = getattr(trained.lens.blocks[layer].mlp, "in").original_component
        delta = part.get_delta_weight("default").detach()
        assert torch.equal(part.base_layer.weight, module.transformer.h[layer].mlp.c_fc.weight)
        assert float(delta.abs().max()) > 1e-3
        own = tracker.frame.query(f"layer == {layer} and of == 'W_in' and measure == 'stable_rank'")
        assert own["value"].iloc[-1] == pytest.approx(
            slow_rank(part.base_layer.weight + delta), rel=1e-4
        )
        assert own["value"].iloc[-1] != pytest.approx(own["value"].iloc[0], rel=1e-4)


def test_every_measure_is_the_one_of_a_report() -> None:
    from interp_compose.studies.weights.measure import complexity_report

    tracker, model = watched(measures=MEASURES[:5])
    tracker.look(0)
    report = complexity_report(model, heads=False, progress=False).frame
    report = report[report["matrix"].isin(NAMES)].set_index(["layer", "matrix"])
    frame = tracker.frame
    assert len(frame) == 5 * 3 * 2
    for row in frame.to_dict("records"):
        expected = report.loc[(row["layer"], row["of"]), row["measure"]]
        assert row["value"] == pytest.approx(expected, rel=1e-4), row["measure"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every=0: expected an integer, 1 or more"),
        ({"matrices": ("W_Q", "W_X")}, "expected one or more of W_E, W_pos, W_Q"),
        ({"matrices": ()}, "expected one or more of W_E, W_pos, W_Q"),
        ({"measures": ("rank",)}, "measures"),
        ({"measures": ()}, "measures"),
        ({"budget": 0.0}, "budget=0.0: expected a share of the training time above 0"),
        ({"budget": 1.5}, "budget=1.5: expected"),
        ({"budget": math.nan}, "budget=nan: expected"),
        ({"measures": ("cap",)}, "'cap' is measured on examples=…, which is missing"),
        ({"measures": ("agreement",)}, "'agreement' is measured on pairs=…, which is missing"),
        ({"examples": []}, "examples are read by cap, attention_leak alone"),
        ({"pairs": []}, "pairs are read by agreement alone"),
        ({"unit": "pretoken"}, "unit is read by cap, attention_leak alone"),
        ({"pooling": "max"}, "pooling is read by cap, agreement alone"),
        ({"layers": [0]}, "layers are read by cap, attention_leak, agreement alone"),
        ({"path": "."}, "path='.' is a folder; expected a file"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        watch(shared(), **options)


def test_steps_are_counted_from_0() -> None:
    watcher = watch(shared(), every=1)
    for told in (lambda: watcher(-1), lambda: watcher({"step": -2}), lambda: watcher.look(-1)):
        with pytest.raises(OptionError, match=r"step=-\d: expected the number of steps done"):
            told()
    with pytest.raises(OptionError, match="step=-1"):
        watcher.begin(-1)
