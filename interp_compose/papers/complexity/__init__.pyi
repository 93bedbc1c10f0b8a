"""The public names of this paper, each with the module that defines it."""

from .models.init import InitRates as InitRates
from .models.small_decoder import (
    DecoderConfig as DecoderConfig,
    save_decoder as save_decoder,
    small_decoder as small_decoder,
)
from .probes.geometry import embedding_geometry as embedding_geometry
from .studies.anchors.run import PhaseRun as PhaseRun
from .studies.concept_graphs.measure import concept_graphs as concept_graphs
from .studies.concept_graphs.options import ImageTraining as ImageTraining
from .studies.concept_graphs.result import ConceptGraphs as ConceptGraphs
from .studies.fitting_speed.measure import fitting_speed as fitting_speed
from .studies.fitting_speed.result import FittingSpeed as FittingSpeed
from .studies.mechanism.measure import mechanism as mechanism
from .studies.mechanism.result import Mechanism as Mechanism
from .studies.phases.measure import phase_diagram as phase_diagram
from .studies.phases.result import PhaseDiagram as PhaseDiagram
from .studies.task_phases.measure import task_phases as task_phases
from .studies.task_phases.options import TaskTraining as TaskTraining
from .studies.task_phases.result import TaskPhases as TaskPhases
from .studies.text_phases.measure import text_phases as text_phases
from .studies.text_phases.options import TextTraining as TextTraining
from .studies.text_phases.result import TextPhases as TextPhases
from .tasks.addition import addition as addition
from .tasks.anchor_text import (
    anchor_examples as anchor_examples,
    anchor_tokenizer as anchor_tokenizer,
)
from .tasks.anchor_transplants import anchor_transplants as anchor_transplants
from .tasks.anchors import AnchorTask as AnchorTask
from .tasks.prontoqa import prontoqa as prontoqa
