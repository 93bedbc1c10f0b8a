"""The names a user imports, and that importing them is light."""

from __future__ import annotations

import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

import interp_compose

NAMES = {
    "AblationCurve",
    "Audit",
    "CapCurve",
    "CarmaConfig",
    "ComplexityReport",
    "Example",
    "Pair",
    "PairTask",
    "SequencePair",
    "SequenceTask",
    "SimilarityCurve",
    "Task",
    "TextCorpus",
    "TrainConfig",
    "TrainingHistory",
    "TransplantPair",
    "Transplants",
    "Watched",
    "Watcher",
    "__version__",
    "ablate",
    "ablation_curve",
    "attention_leak",
    "audit",
    "cap_curve",
    "carma",
    "cat",
    "compare_curves",
    "compare_similarities",
    "complexity",
    "complexity_report",
    "condensation",
    "effective_rank",
    "embed_texts",
    "explore",
    "finetune",
    "load_model",
    "load_pairs",
    "load_result",
    "load_sequences",
    "load_task",
    "load_text",
    "load_transplants",
    "load_weights",
    "lrf",
    "mask_attention",
    "mask_residual",
    "mutual_information_loss",
    "pool_at",
    "pool_groups",
    "read_examples",
    "read_pairs",
    "run_sweep",
    "save_model",
    "save_pretrained",
    "save_weights",
    "similarity_curve",
    "spectral_entropy",
    "stability_loss",
    "stable_rank",
    "sweep_status",
    "tokenize_prompts",
    "transplant",
    "watch",
    "word_vectors",
}
OF_PAPERS = {
    "carma": {
        "Comparison",
        "ThesaurusSource",
        "compare",
        "replace_synonyms",
        "synonym_source",
    },
    "complexity": {
        "AnchorTask",
        "ConceptGraphs",
        "DecoderConfig",
        "FittingSpeed",
        "ImageTraining",
        "InitRates",
        "Mechanism",
        "PhaseDiagram",
        "PhaseRun",
        "TaskPhases",
        "TaskTraining",
        "TextPhases",
        "TextTraining",
        "addition",
        "anchor_examples",
        "anchor_tokenizer",
        "anchor_transplants",
        "concept_graphs",
        "embedding_geometry",
        "fitting_speed",
        "mechanism",
        "phase_diagram",
        "prontoqa",
        "save_decoder",
        "small_decoder",
        "task_phases",
        "text_phases",
    },
    "lrf": {
        "CompoundTest",
        "Fusion",
        "Generalisation",
        "Seq2SeqConfig",
        "SequenceTraining",
        "beam_search",
        "bleu",
        "fusion",
        "generalise",
        "greedy_search",
        "load_compounds",
        "small_seq2seq",
    },
    "cat": {
        "Codes",
        "EncoderConfig",
        "EncoderScores",
        "EncoderTraining",
        "LabelledTask",
        "LabelledText",
        "Pretrained",
        "Question",
        "Sememes",
        "SpanTask",
        "codes",
        "composed_encoder",
        "encoders",
        "labelled_from_hub",
        "load_labelled",
        "load_sememes",
        "load_squad",
        "pretrain",
        "shifted_from_hub",
        "small_encoder",
        "squad_from_hub",
    },
}
HEAVY = ("torch", "transformers", "transformer_lens", "spacy", "nltk", "plotly", "pandas")


def test_the_surface_is_what_it_was() -> None:
    assert set(interp_compose.__all__) == NAMES
    assert {name for name in dir(interp_compose) if name in NAMES} == NAMES
    for name in NAMES:
        assert getattr(interp_compose, name) is not None
    for paper, names in OF_PAPERS.items():
        of = getattr(interp_compose, paper)
        assert set(of.__all__) == names
        assert all(getattr(of, name).__name__ == name for name in names)
    every = [name for names in (NAMES, *OF_PAPERS.values()) for name in names]
    assert len({*every}) == len(every)


def test_a_name_of_a_paper_is_answered_with_where_it_is() -> None:
    hint = "phase_diagram; it is ic.complexity.phase_diagram"
    with pytest.raises(AttributeError, match=f"{re.escape(hint)}$"):
        attrgetter("phase_diagram")(interp_compose)


def test_a_model_shows_what_the_reference_describes() -> None:
    """Attributes that are set when it is made are described in words there."""
    page = (Path(interp_compose.__file__).parents[1] / "docs" / "objects.md").read_text("utf-8")
    listed = {name for line in re.findall(r":members: (.+)", page) for name in line.split(", ")}
    model = interp_compose.load_model("mini-idm", device="cpu")
    plain = {name for name in dir(model) if name in vars(model)} - listed
    assert plain == {
        *("lens", "name", "architecture", "tokenizer"),
        *("n_layers", "n_heads", "d_model", "d_vocab", "n_ctx"),
    }
    assert {*model.USED} - plain == listed & {*model.USED}
    assert all(f"`{name}`" in page for name in plain)


def test_a_misspelt_name_is_asked_back_once(capsys: pytest.CaptureFixture[str]) -> None:
    """By the message, which is all that notebooks show, and not again by Python's traceback."""
    name = "attention_leek"
    with pytest.raises(AttributeError) as caught:
        getattr(interp_compose, name)
    sys.__excepthook__(caught.type, caught.value, None)
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"AttributeError: No interp_compose attribute {name}; did you mean 'attention_leak'?"
    )


def test_importing_and_help_load_nothing_heavy() -> None:
    for code in ("import interp_compose", "import interp_compose.cli"):
        check = f"{code}; import sys; print([m for m in {HEAVY!r} if m in sys.modules])"
        done = subprocess.run(
            [sys.executable, "-c", check], check=True, capture_output=True, text=True
        )
        assert done.stdout.strip() == "[]"
