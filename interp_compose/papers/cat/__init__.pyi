"""The public names of this paper, each with the module that defines it."""

from .models.bert import EncoderConfig as EncoderConfig
from .models.from_bert import composed_encoder as composed_encoder
from .models.small_encoder import small_encoder as small_encoder
from .studies.codes.measure import codes as codes
from .studies.codes.result import Codes as Codes
from .studies.encoders.measure import encoders as encoders
from .studies.encoders.result import EncoderScores as EncoderScores
from .studies.pretrain.measure import pretrain as pretrain
from .studies.pretrain.options import EncoderTraining as EncoderTraining
from .studies.pretrain.result import Pretrained as Pretrained
from .tasks.hub import labelled_from_hub as labelled_from_hub
from .tasks.labelled import LabelledTask as LabelledTask, LabelledText as LabelledText
from .tasks.load_labelled import load_labelled as load_labelled
from .tasks.sememes import Sememes as Sememes, load_sememes as load_sememes
from .tasks.shifted import shifted_from_hub as shifted_from_hub
from .tasks.squad import (
    Question as Question,
    SpanTask as SpanTask,
    load_squad as load_squad,
    squad_from_hub as squad_from_hub,
)
