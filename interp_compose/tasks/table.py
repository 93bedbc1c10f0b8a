"""Every task by its name: of which kind it is, what loads it, and what it is in a sentence.

A task of a known kind is a file and a row here. Loaders are imported when they are first called.
"""

from __future__ import annotations

import pkgutil
import re
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["prompts", "pairs", "transplants", "labelled", "sequences", "spans"]


@dataclass(frozen=True)
class TaskRow:
    """A task, or tasks that a number in the name tells apart.

    Attributes:
        name: by which it is loaded.
        kind: which function loads it, and which studies take it.
        loader: ``"module:function"``, below the package.
        takes: what the loader is given, in this order.
        description: a sentence for help texts.
        others: a regular expression of its other names.
        tokenizer: ``"module:function"`` that gives the tokenizer of models that were trained on it.
    """

    name: str
    kind: Kind
    loader: str
    takes: tuple[str, ...]
    description: str
    others: str = ""
    tokenizer: str = ""

    def load(self, **given: Any) -> Any:
        """What the loader makes of those arguments that it takes."""
        several = {name: given[name] for name in self.takes if name == "several"}
        positional = (given[name] for name in self.takes if name not in several)
        return function_of(self.loader)(*positional, **several)


PROMPT: Final = ("tokenizer", "prompt")
DATA: Final = ("data_dir",)
NAMED: Final = ("name", "data_dir")
LRF: Final = "papers.lrf.tasks"
COMPLEXITY: Final = "papers.complexity.tasks"
CAT: Final = "papers.cat.tasks"
MOST_DESCRIBED: Final = 12
"""Tasks of a kind that helps describe; of more they list the names."""
NATURAL: Final = {
    "agreement": "does a subject of several words take is or are",
    "materials": "of what a thing with an adjective is made",
    "continents": "on which continent a place is",
    "hypernyms": "what a thing is a type of; made for --answers foil",
    "opposites": "one word of the opposite of a phrase; made for --answers foil",
    "compounds": "what a compound is a kind of; made for --answers foil",
    "definitions": "which of two words a definition is of; made for --answers foil",
}
GLUE: Final = {
    "cola": "is a sentence acceptable",
    "sst-2": "is a sentence of a review negative or positive",
    "mrpc": "do two sentences mean the same",
    "sts-b": "how alike are two sentences",
    "qqp": "do two questions ask the same",
    "mnli": "does a sentence follow from another",
    "qnli": "does a sentence answer a question",
    "rte": "does a sentence follow from another",
    "wnli": "to what does a pronoun refer",
}
SHIFTED: Final = {
    "paws-swap": ("paws_swap", "paraphrases, also with exchanged words"),
    "imdb-sst2": ("imdb_sst2", "reviews of films, also single sentences"),
    "stsb-images-msrvid": ("stsb_images", "captions of images, also of videos"),
    "mnli-telephone-letters": ("mnli_telephone", "telephone calls, also letters"),
    "amazon-music-video": ("amazon_music", "reviews of music, also of videos"),
}
TASKS: Final[tuple[TaskRow, ...]] = (
    TaskRow("idm", "prompts", "tasks.idm:wordnet_idm", (*PROMPT, "data_dir", "seed", "several"),
            "WordNet's definitions, answered by the word"),
    TaskRow("sst", "prompts", "tasks.sst:sst", (*PROMPT, "data_dir", "several"),
            "Stanford Sentiment Treebank, answered by a sentiment"),
    TaskRow("sst-few-shot", "prompts", "tasks.sst:sst_few_shot",
            ("tokenizer", "data_dir", "several"), "SST's, after a demonstration of each sentiment"),
    TaskRow("mini-idm", "prompts", "tasks.mini.idm:mini_idm", (*PROMPT, "seed", "several"),
            "shipped definitions, answered by the word"),
    TaskRow("mini-sst", "prompts", "tasks.mini.sst:mini_sst", (*PROMPT, "seed", "several"),
            "shipped reviews, answered by a sentiment"),
    *(TaskRow(name, "prompts", "tasks.natural:natural", ("name", "tokenizer", "several"), text)
      for name, text in NATURAL.items()),
    TaskRow("bird", "pairs", "tasks.bird:bird", DATA, "bigrams, with human judgements"),
    TaskRow("paws-qqp", "pairs", "tasks.paws:paws_qqp", DATA, "questions: do they ask the same"),
    TaskRow("mini-idm", "transplants", "tasks.mini.transplants:mini_idm_transplants",
            (*PROMPT, "seed", "several"), "phrases of the shipped definitions"),
    TaskRow("anchors", "transplants", f"{COMPLEXITY}.anchor_transplants:default_pairs", ("seed",),
            "keys of anchor functions, for models that phases trained",
            tokenizer=f"{COMPLEXITY}.anchor_text:default_tokenizer"),
    TaskRow("scan", "transplants", f"{LRF}.scan_transplants:default_pairs", ("seed",),
            "phrases of commands, for models that phases or generalise trained"),
    TaskRow("sst", "labelled", f"{CAT}.sst_labelled:sst_labelled", DATA,
            "sentences of the Stanford Sentiment Treebank, negative or positive"),
    *(TaskRow(name, "labelled", f"{CAT}.glue:glue", NAMED, f"GLUE: {description}")
      for name, description in GLUE.items()),
    *(TaskRow(name, "labelled", f"{CAT}.shifted:{loader}", DATA, description)
      for name, (loader, description) in SHIFTED.items()),
    TaskRow("squad", "spans", f"{CAT}.squad:load_squad", DATA, "questions, answered by a span"),
    TaskRow("scan-simple", "sequences", f"{LRF}.scan:scan", (*NAMED, "seed"),
            "SCAN's commands, split at random"),
    TaskRow("scan-length", "sequences", f"{LRF}.scan:scan", (*NAMED, "seed"),
            "SCAN: longer targets are held out", others="scan-length-.*"),
    TaskRow("scan-jump", "sequences", f"{LRF}.scan:scan", (*NAMED, "seed"),
            "SCAN: jump is seen alone"),
    TaskRow("scan-turn-left", "sequences", f"{LRF}.scan:scan", (*NAMED, "seed"),
            "SCAN: turn left is seen alone"),
    TaskRow("cogs", "sequences", f"{LRF}.cogs:cogs", DATA, "sentences and their logical forms"),
    *(TaskRow(f"cfq-mcd{n}", "sequences", f"{LRF}.cfq:cfq", NAMED, "questions and their queries")
      for n in (1, 2, 3)),
    TaskRow("cognition", "sequences", f"{LRF}.cognition:cognition", DATA,
            "translation of sentences with new compounds"),
    TaskRow("addition", "sequences", f"{COMPLEXITY}.addition:named_addition", ("name",),
            "sums of whole numbers", others="addition-([2-9]|[1-9][0-9]{1,2})"),
    TaskRow("addition-reversed", "sequences", f"{COMPLEXITY}.addition:named_addition", ("name",),
            "sums, lowest digit first", others="addition-reversed-([2-9]|[1-9][0-9]{1,2})"),
    TaskRow("prontoqa", "sequences", f"{COMPLEXITY}.prontoqa:named_prontoqa", ("name",),
            "proofs of several steps", others="prontoqa-[1-7]"),
    TaskRow("prontoqa-answers", "sequences", f"{COMPLEXITY}.prontoqa:named_prontoqa", ("name",),
            "the answers of these proofs"),
)  # fmt: skip


def names_of(kind: Kind) -> tuple[str, ...]:
    return tuple(row.name for row in TASKS if row.kind == kind)


def row_of(kind: Kind, name: str) -> TaskRow | None:
    rows = [row for row in TASKS if row.kind == kind]
    named = [row for row in rows if row.name == name]
    numbered = [row for row in rows if row.others and re.fullmatch(row.others, name)]
    return next(iter((*named, *numbered)), None)


def function_of(place: str) -> Any:
    """The function of ``"module:function"`` below the package."""
    return pkgutil.resolve_name(f"interp_compose.{place}")


def listed(kind: str) -> str:
    """Names of a kind, for help texts; of a few with what they are."""
    rows = [row for row in TASKS if row.kind == kind]
    if len(rows) > MOST_DESCRIBED:
        return ", ".join(row.name for row in rows)
    return ", ".join(f"{row.name} ({row.description})" for row in rows)
