"""The public names, each with the module that defines it."""

from ._versions import __version__ as __version__
from .interventions.ablate import ablate as ablate
from .interventions.leak import attention_leak as attention_leak
from .interventions.mask_attention import mask_attention as mask_attention
from .interventions.mask_residual import mask_residual as mask_residual
from .interventions.pool_at import pool_at as pool_at
from .interventions.pooling import pool_groups as pool_groups
from .interventions.word_vectors import word_vectors as word_vectors
from .models.bert import EncoderConfig as EncoderConfig
from .models.decode import beam_search as beam_search, greedy_search as greedy_search
from .models.decoder import DecoderConfig as DecoderConfig
from .models.embed import embed_texts as embed_texts
from .models.from_bert import composed_encoder as composed_encoder
from .models.init import InitRates as InitRates
from .models.load import load_model as load_model
from .models.own_folder import save_model as save_model
from .models.save_pretrained import save_pretrained as save_pretrained
from .models.seq2seq import Seq2SeqConfig as Seq2SeqConfig
from .models.small_decoder import save_decoder as save_decoder, small_decoder as small_decoder
from .models.small_encoder import small_encoder as small_encoder
from .models.small_seq2seq import small_seq2seq as small_seq2seq
from .models.weights import load_weights as load_weights, save_weights as save_weights
from .probes.condensation import condensation as condensation
from .probes.geometry import embedding_geometry as embedding_geometry
from .probes.rank import (
    effective_rank as effective_rank,
    spectral_entropy as spectral_entropy,
    stable_rank as stable_rank,
)
from .runs.sweep import run_sweep as run_sweep, sweep_status as sweep_status
from .stats.bleu import bleu as bleu
from .studies.ablation.measure import ablation_curve as ablation_curve
from .studies.ablation.result import AblationCurve as AblationCurve
from .studies.anchors.run import PhaseRun as PhaseRun
from .studies.audit.measure import audit as audit
from .studies.audit.result import Audit as Audit
from .studies.cap.measure import cap_curve as cap_curve
from .studies.cap.result import CapCurve as CapCurve, compare_curves as compare_curves
from .studies.carma.measure import compare as compare
from .studies.carma.result import Comparison as Comparison
from .studies.codes.measure import codes as codes
from .studies.codes.result import Codes as Codes
from .studies.concept_graphs.measure import concept_graphs as concept_graphs
from .studies.concept_graphs.options import ImageTraining as ImageTraining
from .studies.concept_graphs.result import ConceptGraphs as ConceptGraphs
from .studies.encoders.measure import encoders as encoders
from .studies.encoders.result import EncoderScores as EncoderScores
from .studies.fitting_speed.measure import fitting_speed as fitting_speed
from .studies.fitting_speed.result import FittingSpeed as FittingSpeed
from .studies.fusion.measure import fusion as fusion
from .studies.fusion.result import Fusion as Fusion
from .studies.generalise.measure import generalise as generalise
from .studies.generalise.options import SequenceTraining as SequenceTraining
from .studies.generalise.result import Generalisation as Generalisation
from .studies.mechanism.measure import mechanism as mechanism
from .studies.mechanism.result import Mechanism as Mechanism
from .studies.phases.measure import phase_diagram as phase_diagram
from .studies.phases.result import PhaseDiagram as PhaseDiagram
from .studies.pretrain.measure import pretrain as pretrain
from .studies.pretrain.options import EncoderTraining as EncoderTraining
from .studies.pretrain.result import Pretrained as Pretrained
from .studies.saved.read import load_result as load_result
from .studies.similarity.measure import similarity_curve as similarity_curve
from .studies.similarity.result import (
    SimilarityCurve as SimilarityCurve,
    compare_similarities as compare_similarities,
)
from .studies.task_phases.measure import task_phases as task_phases
from .studies.task_phases.options import TaskTraining as TaskTraining
from .studies.task_phases.result import TaskPhases as TaskPhases
from .studies.text_phases.measure import text_phases as text_phases
from .studies.text_phases.options import TextTraining as TextTraining
from .studies.text_phases.result import TextPhases as TextPhases
from .studies.transplant.measure import transplant as transplant
from .studies.transplant.result import Transplants as Transplants
from .studies.watch.measure import watch as watch
from .studies.watch.result import Watched as Watched
from .studies.watch.watcher import Watcher as Watcher
from .studies.weights.measure import complexity_report as complexity_report
from .studies.weights.result import ComplexityReport as ComplexityReport
from .tasks.addition import addition as addition
from .tasks.anchor_text import (
    anchor_examples as anchor_examples,
    anchor_tokenizer as anchor_tokenizer,
)
from .tasks.anchor_transplants import anchor_transplants as anchor_transplants
from .tasks.anchors import AnchorTask as AnchorTask
from .tasks.cognition import CompoundTest as CompoundTest, load_compounds as load_compounds
from .tasks.corpus import TextCorpus as TextCorpus, load_text as load_text
from .tasks.examples import read_examples as read_examples
from .tasks.hub import labelled_from_hub as labelled_from_hub
from .tasks.labelled import LabelledTask as LabelledTask, LabelledText as LabelledText
from .tasks.load import (
    load_labelled as load_labelled,
    load_pairs as load_pairs,
    load_task as load_task,
)
from .tasks.pairs import Pair as Pair, PairTask as PairTask, read_pairs as read_pairs
from .tasks.prontoqa import prontoqa as prontoqa
from .tasks.sememes import Sememes as Sememes, load_sememes as load_sememes
from .tasks.sequences import (
    SequencePair as SequencePair,
    SequenceTask as SequenceTask,
    load_sequences as load_sequences,
)
from .tasks.shifted import shifted_from_hub as shifted_from_hub
from .tasks.squad import (
    Question as Question,
    SpanTask as SpanTask,
    load_squad as load_squad,
    squad_from_hub as squad_from_hub,
)
from .tasks.synonyms import synonym_source as synonym_source
from .tasks.task import Task as Task
from .tasks.transplants import (
    TransplantPair as TransplantPair,
    load_transplants as load_transplants,
)
from .text.synonyms.replace import replace_synonyms as replace_synonyms
from .text.synonyms.sources import ThesaurusSource as ThesaurusSource
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
