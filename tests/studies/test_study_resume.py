"""A study that is interrupted goes on where it stopped, if it is the same study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from interp_compose.errors import InputError, InterventionError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.ablation import measure as ablation_measure
from interp_compose.studies.cap import measure as cap_measure
from interp_compose.studies.similarity import measure as similarity_measure
from interp_compose.types import Example
from tests import architectures
from tests.studies import similarity_reference as slow
from tests.studies.test_study_refusals import measured

MODULES: dict[str, Any] = {
    "cap": cap_measure.PreparedCap,
    "ablation": ablation_measure.PreparedAblation,
    "similarity": similarity_measure.PreparedSimilarity,
}


def interrupted(study: str, model: LensModel, examples: list[Example], **options: Any) -> None:
    """Two of its batches are finished."""
    real, calls = MODULES[study].rows, [0]

    def dies_at_the_third(*args: Any, **options: Any) -> pd.DataFrame:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        return real(*args, **options)  # type: ignore[no-any-return]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULES[study], "rows", dies_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            measured(study, model, examples, **options)


@pytest.mark.parametrize(
    ("study", "options"),
    [
        ("cap", {}),
        ("ablation", {"tagger": "kind"}),
        ("ablation", {"what": "heads", "how": "resample"}),
        ("similarity", {}),
    ],
)
def test_an_interrupted_run_resumes_to_the_same_result(
    model: LensModel,
    examples: list[Example],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    study: str,
    options: dict[str, Any],
) -> None:
    folder = tmp_path / "batches"
    options = {"batch_size": 2, **options}
    with slow.few_samples():
        whole = measured(study, model, examples, **options)
        interrupted(study, model, examples, resume=folder, **options)
        assert len(list(folder.glob("*.parquet"))) == 2
        calls, real = [0], MODULES[study].rows

        def counted(*args: Any, **options: Any) -> pd.DataFrame:
            calls[0] += 1
            return real(*args, **options)  # type: ignore[no-any-return]

        monkeypatch.setattr(MODULES[study], "rows", counted)
        resumed = measured(study, model, examples, resume=folder, **options)
    assert calls[0] == (5 if study == "similarity" else 4) - 2
    assert resumed.config == whole.config
    for name, frame in whole.frames.items():
        pd.testing.assert_frame_equal(resumed.frames[name], frame, check_exact=True)
    assert not folder.exists()
    assert not model.active_hooks


OTHER: dict[str, list[tuple[dict[str, Any], str]]] = {
    "cap": [({"seed": 1}, "seed"), ({"answers": list("abcdefg")}, "answers")],
    "ablation": [
        ({"mode": "zero"}, "mode"),
        ({"reach": "at"}, "reach"),
        ({"what": "mlp"}, "what"),
        ({"unit": "pretoken"}, "unit"),
    ],
    "similarity": [({"embedding": "last"}, "embedding"), ({"seed": 1}, "seed")],
}


@pytest.mark.parametrize("study", OTHER)
def test_a_run_of_other_options_weights_or_data_is_refused(
    model: LensModel, examples: list[Example], tmp_path: Path, study: str
) -> None:
    given: dict[str, Any] = {"batch_size": 2, "resume": tmp_path}
    interrupted(study, model, examples, **given)
    for options, named in (*OTHER[study], ({"layers": [1]}, "layers")):
        with pytest.raises(InputError, match=f"different run: .*{named}"):
            measured(study, model, examples, **given, **options)
    swapped = architectures.build("Llama")
    with torch.no_grad():  # the same numbers in other places
        swapped.model.embed_tokens.weight[:2] = swapped.model.embed_tokens.weight[:2].flip(0)
    other = load_model(swapped, tokenizer=model.tokenizer)
    with pytest.raises(InputError, match="weights_sha256"):
        measured(study, other, examples, **given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow, "ROWS", [{**slow.ROWS[0], "score": 0.8}, *slow.ROWS[1:]])
        with pytest.raises(InputError, match="(examples|pairs)_sha256"):
            measured(study, model, [Example(examples[0].prompt, "g"), *examples[1:]], **given)


def test_under_a_hook_a_run_goes_on_under_its_like_alone(
    model: LensModel, examples: list[Example], tmp_path: Path
) -> None:
    options: dict[str, Any] = {"layers": [0], "batch_size": 2, "resume": tmp_path / "batches"}
    hook = [("blocks.1.hook_resid_pre", lambda resid, hook: 2 * resid)]
    with model.hooks(hook, version="twice"):
        interrupted("cap", model, examples, **options)
    with pytest.raises(InputError, match="different run: .*active_hooks"):
        measured("cap", model, examples, **options)
    with model.hooks(hook):
        model(torch.tensor([[5, 17]]))
        with pytest.raises(InterventionError, match="the name of a hook or function does not tell"):
            measured("cap", model, examples, **options)
    with model.hooks(hook, version="twice"):
        resumed = measured("cap", model, examples, **options)
    assert resumed.config["active_hooks"] == ["blocks.1.hook_resid_pre (twice)"]
    for shown in (resumed.head(), *(one.chart.subtitle for one in resumed.figures().values())):
        assert "under blocks.1.hook_resid_pre (twice)" in shown


def test_the_bar_is_shown_unless_told_otherwise(
    model: LensModel, examples: list[Example], capfd: pytest.CaptureFixture[str]
) -> None:
    measured("cap", model, examples[:1], layers=[0])
    assert capfd.readouterr() == ("", "")
    cap_measure.cap_curve(model, examples[:1], layers=[0])
    assert "cap " in capfd.readouterr().err


@pytest.mark.parametrize("study", MODULES)
def test_resume_is_a_folder_and_no_file(
    model: LensModel, examples: list[Example], tmp_path: Path, study: str
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    with pytest.raises(OptionError, match=r"resume=.*notes\.txt'?\)?: expected a folder"):
        measured(study, model, examples, layers=[0], resume=notes)
    assert notes.read_text(encoding="utf-8") == "mine"
