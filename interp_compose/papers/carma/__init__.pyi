"""The public names of this paper, each with the module that defines it."""

from .measure import compare as compare
from .result import Comparison as Comparison
from .synonyms.load import synonym_source as synonym_source
from .synonyms.replace import replace_synonyms as replace_synonyms
from .synonyms.sources import ThesaurusSource as ThesaurusSource
