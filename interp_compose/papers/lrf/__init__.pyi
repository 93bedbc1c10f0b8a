"""The public names of this paper, each with the module that defines it."""

from .models.decode import beam_search as beam_search, greedy_search as greedy_search
from .models.seq2seq import Seq2SeqConfig as Seq2SeqConfig
from .models.small_seq2seq import small_seq2seq as small_seq2seq
from .stats.bleu import bleu as bleu
from .studies.fusion.measure import fusion as fusion
from .studies.fusion.result import Fusion as Fusion
from .studies.generalise.measure import generalise as generalise
from .studies.generalise.options import SequenceTraining as SequenceTraining
from .studies.generalise.result import Generalisation as Generalisation
from .tasks.cognition import (
    CompoundTest as CompoundTest,
    load_compounds as load_compounds,
)
