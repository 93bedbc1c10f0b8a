"""The names a user imports, and that importing them is light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import interp_compose

NAMES = {
    "AblationCurve",
    "AnchorTask",
    "CapCurve",
    "CarmaConfig",
    "Comparison",
    "CompoundTest",
    "ComplexityReport",
    "DecoderConfig",
    "EncoderConfig",
    "EncoderTraining",
    "Example",
    "FittingSpeed",
    "InitRates",
    "Pair",
    "PairTask",
    "PhaseDiagram",
    "PhaseRun",
    "Pretrained",
    "mechanism",
    "Mechanism",
    "Sememes",
    "Seq2SeqConfig",
    "SequencePair",
    "SequenceTask",
    "SequenceTraining",
    "Generalisation",
    "SimilarityCurve",
    "TaskPhases",
    "ConceptGraphs",
    "ImageTraining",
    "composed_encoder",
    "concept_graphs",
    "TaskTraining",
    "TextCorpus",
    "TextPhases",
    "TextTraining",
    "load_text",
    "text_phases",
    "task_phases",
    "Task",
    "ThesaurusSource",
    "TransplantPair",
    "Transplants",
    "Watched",
    "Watcher",
    "TrainConfig",
    "TrainingHistory",
    "__version__",
    "ablate",
    "ablation_curve",
    "addition",
    "anchor_examples",
    "anchor_tokenizer",
    "anchor_transplants",
    "attention_leak",
    "beam_search",
    "bleu",
    "cap_curve",
    "compare",
    "compare_curves",
    "compare_similarities",
    "complexity_report",
    "condensation",
    "effective_rank",
    "embed_texts",
    "embedding_geometry",
    "Audit",
    "audit",
    "codes",
    "encoders",
    "finetune",
    "fitting_speed",
    "fusion",
    "Codes",
    "EncoderScores",
    "Fusion",
    "generalise",
    "greedy_search",
    "load_compounds",
    "load_model",
    "load_result",
    "LabelledTask",
    "LabelledText",
    "labelled_from_hub",
    "load_labelled",
    "load_pairs",
    "load_sememes",
    "load_squad",
    "Question",
    "SpanTask",
    "shifted_from_hub",
    "squad_from_hub",
    "load_sequences",
    "load_task",
    "load_transplants",
    "load_weights",
    "mask_attention",
    "mask_residual",
    "mutual_information_loss",
    "phase_diagram",
    "pool_at",
    "pool_groups",
    "word_vectors",
    "pretrain",
    "prontoqa",
    "read_examples",
    "read_pairs",
    "replace_synonyms",
    "run_sweep",
    "save_decoder",
    "save_model",
    "save_pretrained",
    "save_weights",
    "similarity_curve",
    "small_decoder",
    "small_encoder",
    "small_seq2seq",
    "spectral_entropy",
    "stability_loss",
    "stable_rank",
    "sweep_status",
    "synonym_source",
    "tokenize_prompts",
    "transplant",
    "watch",
}
HEAVY = ("torch", "transformers", "transformer_lens", "spacy", "nltk", "plotly", "pandas")


def test_the_surface_is_what_it_was() -> None:
    assert set(interp_compose.__all__) == NAMES
    assert {name for name in dir(interp_compose) if name in NAMES} == NAMES
    for name in NAMES:
        assert getattr(interp_compose, name) is not None


def test_a_misspelt_name_is_asked_back_once(capsys: pytest.CaptureFixture[str]) -> None:
    """By the message, which is all that notebooks show, and not again by Python's traceback."""
    name = "SmallSeq2Seq"
    with pytest.raises(AttributeError) as caught:
        getattr(interp_compose, name)
    sys.__excepthook__(caught.type, caught.value, None)
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"AttributeError: No interp_compose attribute {name}; did you mean 'small_seq2seq'?"
    )


def test_importing_and_help_load_nothing_heavy() -> None:
    for code in ("import interp_compose", "import interp_compose.cli"):
        check = f"{code}; import sys; print([m for m in {HEAVY!r} if m in sys.modules])"
        done = subprocess.run(
            [sys.executable, "-c", check], check=True, capture_output=True, text=True
        )
        assert done.stdout.strip() == "[]"
