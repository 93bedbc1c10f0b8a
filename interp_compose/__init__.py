"""interp_compose: how, and where, does a transformer compose meaning?

>>> import interp_compose as ic
>>> model = ic.load_model("mini-idm")
>>> task = ic.load_task("mini-idm", model)
>>> curve = ic.cap_curve(model, task.test)
>>> curve.frame, curve.plot()

Names are imported when they are first used, so that ``import interp_compose`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interp_compose._types import Example as Example
    from interp_compose.interventions.ablation import ablate as ablate
    from interp_compose.interventions.leak import attention_leak as attention_leak
    from interp_compose.interventions.masking import mask_attention as mask_attention
    from interp_compose.interventions.pool_at import pool_at as pool_at
    from interp_compose.interventions.pooling import pool_groups as pool_groups
    from interp_compose.interventions.residual import mask_residual as mask_residual
    from interp_compose.losses import mutual_information_loss as mutual_information_loss
    from interp_compose.losses import stability_loss as stability_loss
    from interp_compose.models.decoder_config import DecoderConfig as DecoderConfig
    from interp_compose.models.init import InitRates as InitRates
    from interp_compose.models.load import load_model as load_model
    from interp_compose.models.small_decoder import save_decoder as save_decoder
    from interp_compose.models.small_decoder import small_decoder as small_decoder
    from interp_compose.models.weights import load_weights as load_weights
    from interp_compose.models.weights import save_weights as save_weights
    from interp_compose.probes.condensation import condensation as condensation
    from interp_compose.probes.geometry import embedding_geometry as embedding_geometry
    from interp_compose.probes.rank import effective_rank as effective_rank
    from interp_compose.probes.rank import spectral_entropy as spectral_entropy
    from interp_compose.probes.rank import stable_rank as stable_rank
    from interp_compose.recipes.ablation_curve import AblationCurve as AblationCurve
    from interp_compose.recipes.ablation_measure import ablation_curve as ablation_curve
    from interp_compose.recipes.cap_curve import CapCurve as CapCurve
    from interp_compose.recipes.cap_curve import compare_curves as compare_curves
    from interp_compose.recipes.cap_measure import cap_curve as cap_curve
    from interp_compose.recipes.carma_compare import compare as compare
    from interp_compose.recipes.carma_comparison import Comparison as Comparison
    from interp_compose.recipes.carma_synonyms import synonym_source as synonym_source
    from interp_compose.recipes.complexity_diagram import PhaseDiagram as PhaseDiagram
    from interp_compose.recipes.complexity_measure import phase_diagram as phase_diagram
    from interp_compose.recipes.complexity_run import PhaseRun as PhaseRun
    from interp_compose.recipes.embedding import embed_texts as embed_texts
    from interp_compose.recipes.finetune import finetune as finetune
    from interp_compose.recipes.mechanism_measure import mechanism as mechanism
    from interp_compose.recipes.mechanism_result import Mechanism as Mechanism
    from interp_compose.recipes.probe_measure import complexity_report as complexity_report
    from interp_compose.recipes.probe_report import ComplexityReport as ComplexityReport
    from interp_compose.recipes.probe_tracker import ComplexityTracker as ComplexityTracker
    from interp_compose.recipes.similarity_curve import SimilarityCurve as SimilarityCurve
    from interp_compose.recipes.similarity_curve import compare_similarities as compare_similarities
    from interp_compose.recipes.similarity_measure import similarity_curve as similarity_curve
    from interp_compose.recipes.speed_measure import fitting_speed as fitting_speed
    from interp_compose.recipes.speed_result import FittingSpeed as FittingSpeed
    from interp_compose.tasks.anchor_text import anchor_examples as anchor_examples
    from interp_compose.tasks.anchor_text import anchor_tokenizer as anchor_tokenizer
    from interp_compose.tasks.anchors import AnchorTask as AnchorTask
    from interp_compose.tasks.load import load_task as load_task
    from interp_compose.tasks.load_pairs import load_pairs as load_pairs
    from interp_compose.tasks.pairs import Pair as Pair
    from interp_compose.tasks.pairs import PairTask as PairTask
    from interp_compose.tasks.pairs import read_pairs as read_pairs
    from interp_compose.tasks.task import Task as Task
    from interp_compose.tasks.user_data import read_examples as read_examples
    from interp_compose.text.synonym_sources import ThesaurusSource as ThesaurusSource
    from interp_compose.text.synonyms import replace_synonyms as replace_synonyms
    from interp_compose.text.words import tokenize_prompts as tokenize_prompts
    from interp_compose.training.carma import CarmaConfig as CarmaConfig
    from interp_compose.training.config import TrainConfig as TrainConfig
    from interp_compose.training.history import TrainingHistory as TrainingHistory
    from interp_compose.training.sweep import run_sweep as run_sweep
    from interp_compose.training.sweep_status import sweep_status as sweep_status

__version__ = "0.1.0"

_HOME = {
    "AblationCurve": "recipes.ablation_curve",
    "AnchorTask": "tasks.anchors",
    "CapCurve": "recipes.cap_curve",
    "CarmaConfig": "training.carma",
    "Comparison": "recipes.carma_comparison",
    "ComplexityReport": "recipes.probe_report",
    "ComplexityTracker": "recipes.probe_tracker",
    "DecoderConfig": "models.decoder_config",
    "Example": "_types",
    "FittingSpeed": "recipes.speed_result",
    "InitRates": "models.init",
    "Mechanism": "recipes.mechanism_result",
    "Pair": "tasks.pairs",
    "PairTask": "tasks.pairs",
    "PhaseDiagram": "recipes.complexity_diagram",
    "PhaseRun": "recipes.complexity_run",
    "SimilarityCurve": "recipes.similarity_curve",
    "Task": "tasks.task",
    "ThesaurusSource": "text.synonym_sources",
    "TrainConfig": "training.config",
    "TrainingHistory": "training.history",
    "ablate": "interventions.ablation",
    "ablation_curve": "recipes.ablation_measure",
    "anchor_examples": "tasks.anchor_text",
    "anchor_tokenizer": "tasks.anchor_text",
    "attention_leak": "interventions.leak",
    "cap_curve": "recipes.cap_measure",
    "compare": "recipes.carma_compare",
    "compare_curves": "recipes.cap_curve",
    "compare_similarities": "recipes.similarity_curve",
    "complexity_report": "recipes.probe_measure",
    "condensation": "probes.condensation",
    "effective_rank": "probes.rank",
    "embed_texts": "recipes.embedding",
    "embedding_geometry": "probes.geometry",
    "finetune": "recipes.finetune",
    "fitting_speed": "recipes.speed_measure",
    "load_model": "models.load",
    "load_pairs": "tasks.load_pairs",
    "load_task": "tasks.load",
    "load_weights": "models.weights",
    "mask_attention": "interventions.masking",
    "mask_residual": "interventions.residual",
    "mechanism": "recipes.mechanism_measure",
    "mutual_information_loss": "losses",
    "phase_diagram": "recipes.complexity_measure",
    "pool_at": "interventions.pool_at",
    "pool_groups": "interventions.pooling",
    "read_examples": "tasks.user_data",
    "read_pairs": "tasks.pairs",
    "replace_synonyms": "text.synonyms",
    "run_sweep": "training.sweep",
    "save_decoder": "models.small_decoder",
    "save_weights": "models.weights",
    "similarity_curve": "recipes.similarity_measure",
    "small_decoder": "models.small_decoder",
    "spectral_entropy": "probes.rank",
    "stability_loss": "losses",
    "stable_rank": "probes.rank",
    "sweep_status": "training.sweep_status",
    "synonym_source": "recipes.carma_synonyms",
    "tokenize_prompts": "text.words",
}

__all__ = [  # noqa: RUF022  the main path first
    "load_model",
    "load_task",
    "cap_curve",
    "CapCurve",
    "compare_curves",
    "ablation_curve",
    "AblationCurve",
    "load_pairs",
    "similarity_curve",
    "SimilarityCurve",
    "compare_similarities",
    "embed_texts",
    "finetune",
    "TrainConfig",
    "CarmaConfig",
    "TrainingHistory",
    "compare",
    "Comparison",
    "replace_synonyms",
    "synonym_source",
    "ThesaurusSource",
    "mutual_information_loss",
    "stability_loss",
    "pool_at",
    "mask_attention",
    "mask_residual",
    "ablate",
    "attention_leak",
    "complexity_report",
    "ComplexityReport",
    "ComplexityTracker",
    "stable_rank",
    "effective_rank",
    "spectral_entropy",
    "condensation",
    "embedding_geometry",
    "phase_diagram",
    "PhaseDiagram",
    "PhaseRun",
    "mechanism",
    "Mechanism",
    "fitting_speed",
    "FittingSpeed",
    "AnchorTask",
    "anchor_tokenizer",
    "anchor_examples",
    "small_decoder",
    "DecoderConfig",
    "InitRates",
    "run_sweep",
    "sweep_status",
    "pool_groups",
    "tokenize_prompts",
    "read_examples",
    "read_pairs",
    "Example",
    "Pair",
    "PairTask",
    "Task",
    "save_weights",
    "load_weights",
    "save_decoder",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'interp_compose' has no attribute {name!r}")
    value = getattr(import_module(f"interp_compose.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
