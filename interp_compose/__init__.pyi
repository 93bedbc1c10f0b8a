"""The library's public names, each with the module that defines it; papers have their own."""

from ._versions import __version__ as __version__
from .interventions.ablate import ablate as ablate
from .interventions.leak import attention_leak as attention_leak
from .interventions.mask_attention import mask_attention as mask_attention
from .interventions.mask_residual import mask_residual as mask_residual
from .interventions.pool_at import pool_at as pool_at
from .interventions.pooling import pool_groups as pool_groups
from .interventions.word_vectors import word_vectors as word_vectors
from .models.embed import embed_texts as embed_texts
from .models.load import load_model as load_model
from .models.own_folder import save_model as save_model
from .models.save_pretrained import save_pretrained as save_pretrained
from .models.weights import load_weights as load_weights, save_weights as save_weights
from .papers import carma as carma, cat as cat, complexity as complexity, lrf as lrf
from .probes.condensation import condensation as condensation
from .probes.rank import (
    effective_rank as effective_rank,
    spectral_entropy as spectral_entropy,
    stable_rank as stable_rank,
)
from .runs.sweep import run_sweep as run_sweep, sweep_status as sweep_status
from .studies.ablation.measure import ablation_curve as ablation_curve
from .studies.ablation.result import AblationCurve as AblationCurve
from .studies.audit.measure import audit as audit
from .studies.audit.result import Audit as Audit
from .studies.cap.measure import cap_curve as cap_curve
from .studies.cap.result import CapCurve as CapCurve, compare_curves as compare_curves
from .studies.explore.measure import explore as explore
from .studies.saved.read import load_result as load_result
from .studies.similarity.measure import similarity_curve as similarity_curve
from .studies.similarity.result import (
    SimilarityCurve as SimilarityCurve,
    compare_similarities as compare_similarities,
)
from .studies.transplant.measure import transplant as transplant
from .studies.transplant.result import Transplants as Transplants
from .studies.watch.measure import watch as watch
from .studies.watch.result import Watched as Watched
from .studies.watch.watcher import Watcher as Watcher
from .studies.weights.measure import complexity_report as complexity_report
from .studies.weights.result import ComplexityReport as ComplexityReport
from .tasks.corpus import TextCorpus as TextCorpus, load_text as load_text
from .tasks.examples import read_examples as read_examples
from .tasks.load import load_pairs as load_pairs, load_task as load_task
from .tasks.pairs import Pair as Pair, PairTask as PairTask, read_pairs as read_pairs
from .tasks.sequences import (
    SequencePair as SequencePair,
    SequenceTask as SequenceTask,
    load_sequences as load_sequences,
)
from .tasks.task import Task as Task
from .tasks.transplants import (
    TransplantPair as TransplantPair,
    load_transplants as load_transplants,
)
from .text.units import tokenize_prompts as tokenize_prompts
from .training.carma import CarmaConfig as CarmaConfig
from .training.config import TrainConfig as TrainConfig
from .training.finetune import finetune as finetune
from .training.history import TrainingHistory as TrainingHistory
from .training.losses import (
    mutual_information_loss as mutual_information_loss,
    stability_loss as stability_loss,
)
from .types import Example as Example
