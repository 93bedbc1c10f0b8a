"""Decoders on the same sequences as one program: against each trained alone, stopped, diverged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import interp_compose as ic
from interp_compose.errors import NonFiniteError
from interp_compose.papers.complexity.grid import decoder_grid, together
from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import ContinuedBatch, TargetSequence
from interp_compose.papers.shared.training.side_by_side import SideBySide, SideBySideTrainer
from interp_compose.papers.works import WORKS
from interp_compose.settings import identity_of
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import Trainer, run_training
from tests.papers.complexity.studies.test_task_phases import DECAYS, RATES, TINY
from tests.papers.complexity.studies.test_text_phases import DOCUMENTS
from tests.papers.lrf.studies.test_generalise import toy

DATA = SequenceData.of(toy().splits, one_sequence=True)
CONFIG = TrainConfig(lr=1e-3, epochs=6, batch_tokens=20, seed=3, evaluate_every=4)
OBJECTIVE = TargetSequence(
    DATA.splits["train"][:], BOS, curve=DATA.sample(3), batches=ContinuedBatch, label_smoothing=0.1
)


def models(rates: Any = RATES) -> list[SmallDecoder]:
    made = []
    for rate in rates:
        shape = DecoderConfig(
            d_vocab=len(DATA.source), n_ctx=DATA.longest_pair + 1, n_layers=2, d_model=8, d_mlp=8
        )
        made.append(SmallDecoder(shape).double())
        init_weights(made[-1], rate, seed=3)
    return made


def together_of(made: list[SmallDecoder], config: TrainConfig = CONFIG) -> SideBySideTrainer:
    objective = SideBySide(OBJECTIVE, len(made), config.seed, torch.device("cpu"))
    return SideBySideTrainer(made, DECAYS[: len(made)], objective, config)


def test_losses_weights_and_curves_are_those_of_each_alone() -> None:
    """In float64, of unequal lengths; each step's loss is that of the model alone."""
    trainer = together_of(models())
    run_training(trainer, progress=False)
    for i, (model, decay) in enumerate(zip(models(), DECAYS, strict=True)):
        alone = Trainer(model, OBJECTIVE, replace(CONFIG, weight_decay=decay))
        run_training(alone, progress=False)
        tables: dict[str, list[Any]] = {}
        for row in alone.recorder.rows:
            tables.setdefault(row["table"], []).append(row)
        losses = [row["loss"] for row in tables["steps"]]
        assert [step[i] for step in trainer.losses] == pytest.approx(losses, rel=1e-9)
        curve = [
            {"table": "curve", "step": row["step"], **each}
            for row in trainer.rows[i]
            for each in row["curve"]
        ]
        assert curve == tables["curve"]
        ours = dict(trainer.models[i].named_parameters())
        for name, weight in model.named_parameters():
            torch.testing.assert_close(ours[name], weight, rtol=1e-7, atol=1e-9)
    assert not torch.allclose(trainer.models[0].W_Q, trainer.models[1].W_Q)


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_model_that_diverges_disturbs_none_beside_it(what: str) -> None:
    made = [model.float() for model in models()]
    with torch.no_grad():
        if what == "loss":
            made[1].unembed.W_U[0, 0] = float("nan")
        else:  # squares overflow, the loss does not
            made[1].ln_final.w.fill_(1e30)
            made[1].unembed.W_U.mul_(1e-31)
    trainer = together_of(made)
    run_training(trainer, progress=False)
    ((model, said),) = trainer.diverged.items()
    assert model == 1
    assert said.startswith(f"step 1: the {what} is {'nan' if what == 'loss' else 'inf'}")
    assert all(row[1] is None for row in trainer.losses)
    alone = Trainer(models()[0].float(), OBJECTIVE, replace(CONFIG, weight_decay=DECAYS[0]))
    run_training(alone, progress=False)
    losses = [row["loss"] for row in alone.recorder.rows if row["table"] == "steps"]
    assert [row[0] for row in trainer.losses] == pytest.approx(losses, rel=1e-4)


def test_only_the_run_that_diverges_fails(as_if_on_a_gpu: None, tmp_path: Path) -> None:
    given: dict[str, Any] = {"seeds": 1, "where": "here", "progress": False}
    fast = replace(TINY, lr=1.0, schedule="constant", warmup_steps=0)
    for _ in range(2):
        with pytest.raises(NonFiniteError, match="1 of 3 runs failed.*the (loss|gradient) is"):
            ic.complexity.task_phases(
                toy(), [0.3], [0.0, 0.1, 1e30], tmp_path / "out", run=fast, **given
            )
        states = ic.sweep_status(tmp_path / "out").set_index("weight_decay")["state"]
        assert states.to_dict() == {0.0: "done", 0.1: "done", 1e30: "failed"}


@pytest.fixture
def as_if_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are those of a GPU; what trains finds none."""

    def plan(work: str, runs: Any, execution: Any, bytes_of_each: Any) -> Any:
        assert bytes_of_each() > 1000
        number = together.fit(bytes_of_each(), 3, 2**40)
        configs = [identity_of(run) for run in runs]
        return together.SweepPlan(work, configs, number, f"{WORKS[work]}:train_many")

    monkeypatch.setattr(decoder_grid, "plan_of", plan)


def tasks(out: Path) -> Any:
    asked: dict[str, Any] = {"sizes": [3, 7], "seeds": 1, "where": "here", "progress": False}
    return ic.complexity.task_phases(toy(), RATES, DECAYS, out, run=TINY, **asked)


def texts(out: Path) -> Any:
    (out.parent / "people.txt").write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    corpus = ic.load_text(out.parent / "people.txt", held_out=0.2)
    run = ic.complexity.TextTraining(
        n_ctx=8, d_model=8, n_heads=2, d_mlp=8, max_steps=4, n_looks=2, n_curve=5, vocab_size=280
    )
    return ic.complexity.text_phases(
        corpus, RATES, DECAYS, out, seeds=1, where="here", progress=False, run=run
    )


@pytest.mark.parametrize(("study", "value"), [(tasks, "n_right"), (texts, "loss")])
def test_a_study_finds_the_same_side_by_side(
    study: Any, value: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Three runs at a time, of four or eight: groups of one seed and size are cut apart."""
    one_by_one = study(tmp_path / "alone")
    request.getfixturevalue("as_if_on_a_gpu")
    many = study(tmp_path / "together")
    assert many.config == one_by_one.config
    for name, columns in (
        ("runs", ["first_loss", "last_loss", "stable_rank", "steps", "n_parameters"]),
        ("curve", ["step", "split", "n"]),
        ("accuracy" if value == "n_right" else "held_out", [value]),
    ):
        ours, theirs = (found.frames[name][columns] for found in (many, one_by_one))
        pd.testing.assert_frame_equal(ours, theirs, rtol=1e-4)
    assert (many.frames["runs"]["step_seconds"] > 0).all()
    hashes = [
        sorted(p.name for p in (tmp_path / out / "runs").iterdir()) for out in ("alone", "together")
    ]
    assert hashes[0] == hashes[1]
    models = [ic.load_model(tmp_path / "together" / "runs" / name / "model") for name in hashes[0]]
    assert len({float(np.abs(model.lens.W_Q.detach().numpy()).sum()) for model in models}) > 2


def test_a_stopped_program_goes_on_to_the_same_result(
    as_if_on_a_gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tasks(tmp_path / "whole")
    real, calls = TargetSequence.evaluate, [0]

    def stops(self: Any, trainer: Any) -> Any:
        calls[0] += 1
        if calls[0] == 5:
            raise KeyboardInterrupt
        return real(self, trainer)

    with monkeypatch.context() as patch:
        patch.setattr(TargetSequence, "evaluate", stops)
        with pytest.raises(KeyboardInterrupt):
            tasks(tmp_path / "broken")
    broken = tasks(tmp_path / "broken")
    for name in ("accuracy", "curve", "epochs", "summary"):
        pd.testing.assert_frame_equal(whole.frames[name], broken.frames[name])


def test_how_many_fit() -> None:
    shape = DecoderConfig(d_vocab=100, n_ctx=20, d_model=16, d_mlp=32)
    small = together.step_bytes(shape, 100, 20, 10)
    assert together.step_bytes(shape, 200, 20, 10) > small
    assert together.step_bytes(shape, 100, 20, 100) == small + 4 * 3 * 90 * 100  # logits
    assert together.fit(small, 8, int(3.5 * small / together.SHARE)) == 3
    assert together.fit(small, 8, 1) == 1
    assert together.fit(small, 8, 2**50) == 8
