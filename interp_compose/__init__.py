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
    from interp_compose.interventions.ablate import ablate as ablate
    from interp_compose.interventions.leak import attention_leak as attention_leak
    from interp_compose.interventions.mask_attention import mask_attention as mask_attention
    from interp_compose.interventions.mask_residual import mask_residual as mask_residual
    from interp_compose.interventions.pool_at import pool_at as pool_at
    from interp_compose.interventions.pooling import pool_groups as pool_groups
    from interp_compose.models.decoder import DecoderConfig as DecoderConfig
    from interp_compose.models.embed import embed_texts as embed_texts
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
    from interp_compose.runs.sweep import run_sweep as run_sweep
    from interp_compose.runs.sweep import sweep_status as sweep_status
    from interp_compose.studies.ablation.measure import ablation_curve as ablation_curve
    from interp_compose.studies.ablation.result import AblationCurve as AblationCurve
    from interp_compose.studies.anchors.run import PhaseRun as PhaseRun
    from interp_compose.studies.cap.measure import cap_curve as cap_curve
    from interp_compose.studies.cap.result import CapCurve as CapCurve
    from interp_compose.studies.cap.result import compare_curves as compare_curves
    from interp_compose.studies.carma.measure import compare as compare
    from interp_compose.studies.carma.result import Comparison as Comparison
    from interp_compose.studies.fitting_speed.measure import fitting_speed as fitting_speed
    from interp_compose.studies.fitting_speed.result import FittingSpeed as FittingSpeed
    from interp_compose.studies.mechanism.measure import mechanism as mechanism
    from interp_compose.studies.mechanism.result import Mechanism as Mechanism
    from interp_compose.studies.phases.measure import phase_diagram as phase_diagram
    from interp_compose.studies.phases.result import PhaseDiagram as PhaseDiagram
    from interp_compose.studies.similarity.measure import similarity_curve as similarity_curve
    from interp_compose.studies.similarity.result import SimilarityCurve as SimilarityCurve
    from interp_compose.studies.similarity.result import (
        compare_similarities as compare_similarities,
    )
    from interp_compose.studies.weights.measure import complexity_report as complexity_report
    from interp_compose.studies.weights.result import ComplexityReport as ComplexityReport
    from interp_compose.studies.weights.tracker import ComplexityTracker as ComplexityTracker
    from interp_compose.tasks.anchor_text import anchor_examples as anchor_examples
    from interp_compose.tasks.anchor_text import anchor_tokenizer as anchor_tokenizer
    from interp_compose.tasks.anchors import AnchorTask as AnchorTask
    from interp_compose.tasks.examples import read_examples as read_examples
    from interp_compose.tasks.load import load_pairs as load_pairs
    from interp_compose.tasks.load import load_task as load_task
    from interp_compose.tasks.pairs import Pair as Pair
    from interp_compose.tasks.pairs import PairTask as PairTask
    from interp_compose.tasks.pairs import read_pairs as read_pairs
    from interp_compose.tasks.synonyms import synonym_source as synonym_source
    from interp_compose.tasks.task import Task as Task
    from interp_compose.text.synonyms.replace import replace_synonyms as replace_synonyms
    from interp_compose.text.synonyms.sources import ThesaurusSource as ThesaurusSource
    from interp_compose.text.units import tokenize_prompts as tokenize_prompts
    from interp_compose.training.carma import CarmaConfig as CarmaConfig
    from interp_compose.training.config import TrainConfig as TrainConfig
    from interp_compose.training.finetune import finetune as finetune
    from interp_compose.training.history import TrainingHistory as TrainingHistory
    from interp_compose.training.losses import mutual_information_loss as mutual_information_loss
    from interp_compose.training.losses import stability_loss as stability_loss
    from interp_compose.types import Example as Example

__version__ = "0.1.0"

_HOME = {
    "AblationCurve": "studies.ablation.result",
    "AnchorTask": "tasks.anchors",
    "CapCurve": "studies.cap.result",
    "CarmaConfig": "training.carma",
    "Comparison": "studies.carma.result",
    "ComplexityReport": "studies.weights.result",
    "ComplexityTracker": "studies.weights.tracker",
    "DecoderConfig": "models.decoder",
    "Example": "types",
    "FittingSpeed": "studies.fitting_speed.result",
    "InitRates": "models.init",
    "Mechanism": "studies.mechanism.result",
    "Pair": "tasks.pairs",
    "PairTask": "tasks.pairs",
    "PhaseDiagram": "studies.phases.result",
    "PhaseRun": "studies.anchors.run",
    "SimilarityCurve": "studies.similarity.result",
    "Task": "tasks.task",
    "ThesaurusSource": "text.synonyms.sources",
    "TrainConfig": "training.config",
    "TrainingHistory": "training.history",
    "ablate": "interventions.ablate",
    "ablation_curve": "studies.ablation.measure",
    "anchor_examples": "tasks.anchor_text",
    "anchor_tokenizer": "tasks.anchor_text",
    "attention_leak": "interventions.leak",
    "cap_curve": "studies.cap.measure",
    "compare": "studies.carma.measure",
    "compare_curves": "studies.cap.result",
    "compare_similarities": "studies.similarity.result",
    "complexity_report": "studies.weights.measure",
    "condensation": "probes.condensation",
    "effective_rank": "probes.rank",
    "embed_texts": "models.embed",
    "embedding_geometry": "probes.geometry",
    "finetune": "training.finetune",
    "fitting_speed": "studies.fitting_speed.measure",
    "load_model": "models.load",
    "load_pairs": "tasks.load",
    "load_task": "tasks.load",
    "load_weights": "models.weights",
    "mask_attention": "interventions.mask_attention",
    "mask_residual": "interventions.mask_residual",
    "mechanism": "studies.mechanism.measure",
    "mutual_information_loss": "training.losses",
    "phase_diagram": "studies.phases.measure",
    "pool_at": "interventions.pool_at",
    "pool_groups": "interventions.pooling",
    "read_examples": "tasks.examples",
    "read_pairs": "tasks.pairs",
    "replace_synonyms": "text.synonyms.replace",
    "run_sweep": "runs.sweep",
    "save_decoder": "models.small_decoder",
    "save_weights": "models.weights",
    "similarity_curve": "studies.similarity.measure",
    "small_decoder": "models.small_decoder",
    "spectral_entropy": "probes.rank",
    "stability_loss": "training.losses",
    "stable_rank": "probes.rank",
    "sweep_status": "runs.sweep",
    "synonym_source": "tasks.synonyms",
    "tokenize_prompts": "text.units",
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
