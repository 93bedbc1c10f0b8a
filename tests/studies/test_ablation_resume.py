"""An ablation that is interrupted goes on, and ends in the same result; so does one on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose.errors import InputError
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.ablation import measure as ablation_measure
from interp_compose.studies.ablation.measure import ablation_curve
from interp_compose.types import Example


def quiet(model: LensModel, examples: Any, **options: Any) -> ic.AblationCurve:
    return ablation_curve(model, examples, progress=False, **options)


def interrupted_at(call: int, patch: pytest.MonkeyPatch) -> list[int]:
    real, calls = ablation_measure._measure, [0]

    def dies(*args: Any, **options: Any) -> pd.DataFrame:
        calls[0] += 1
        if calls[0] == call:
            raise KeyboardInterrupt
        return real(*args, **options)

    patch.setattr(ablation_measure, "_measure", dies)
    return calls


@pytest.mark.parametrize("options", [{"tagger": "kind"}, {"what": "heads", "how": "resample"}])
def test_an_interrupted_run_resumes_to_the_same_result(
    model: LensModel,
    examples: list[Example],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
) -> None:
    whole = quiet(model, examples, batch_size=2, **options)
    calls = interrupted_at(3, monkeypatch)
    folder = tmp_path / "batches"
    with pytest.raises(KeyboardInterrupt):
        quiet(model, examples, batch_size=2, resume=folder, **options)
    assert len(list(folder.glob("*.parquet"))) == 2
    resumed = quiet(model, examples, batch_size=2, resume=folder, **options)
    assert calls[0] == 3 + 2  # two of four batches were done before
    for name, frame in whole.frames.items():
        pd.testing.assert_frame_equal(resumed.frames[name], frame, check_exact=True)
    assert not folder.exists()
    assert not model.active_hooks


def test_a_resumed_run_of_other_options_is_refused(
    model: LensModel, examples: list[Example], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"batch_size": 2, "resume": tmp_path}
    with monkeypatch.context() as patch:
        interrupted_at(2, patch)
        with pytest.raises(KeyboardInterrupt):
            quiet(model, examples, **given)
    for options, named in (
        ({"mode": "zero"}, "mode"),
        ({"reach": "at"}, "reach"),
        ({"what": "mlp"}, "what"),
        ({"layers": [1]}, "layers"),
        ({"unit": "pretoken"}, "unit"),
    ):
        with pytest.raises(InputError, match=f"different run: .*{named}"):
            quiet(model, examples, **given, **options)
    with pytest.raises(InputError, match="examples_sha256"):
        quiet(model, [example.prompt for example in examples], **given)


def test_the_result_survives_a_round_trip(
    model: LensModel, examples: list[Example], tmp_path: Path
) -> None:
    curve = quiet(model, examples, task="toy", tagger="kind", layers=[1])
    loaded = ic.AblationCurve.load(curve.save(tmp_path / "run"))
    assert type(loaded) is ic.AblationCurve
    for name, frame in curve.frames.items():
        pd.testing.assert_frame_equal(loaded.frames[name], frame, check_exact=True)
    assert loaded.config == curve.config
    assert loaded.summary() == curve.summary()
    for name, figure in curve.figures().items():
        assert loaded.figures()[name].to_json() == figure.to_json()


def test_the_bar_is_shown_unless_told_otherwise(
    model: LensModel, examples: list[Example], capfd: pytest.CaptureFixture[str]
) -> None:
    quiet(model, examples[:1], what="mlp", layers=[0])
    assert capfd.readouterr() == ("", "")
    ablation_curve(model, examples[:1], what="mlp", layers=[0])
    assert "ablation " in capfd.readouterr().err
