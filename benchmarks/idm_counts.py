"""How many examples the WordNet inverse dictionary has: run ``idm_counts``.

A definiendum has to be one token, so the counts depend on the tokenizer. This one is byte-level BPE
with GPT-2's 50,257 entries, trained on the spot on WordNet's definitions and words; GPT-2's own has
seen the web instead.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from benchmarks.common import byte_level
from interp_compose.tasks.idm import PAPER_SIZES
from interp_compose.tasks.load import load_task
from interp_compose.tasks.wordnet import wordnet_senses


def measured() -> dict[str, Any]:
    """Ours, the paper's, and what each step leaves."""
    senses = wordnet_senses(None)
    texts = [sense.definition for sense in senses] + [f'"{sense.word}' for sense in senses]
    model: Any = SimpleNamespace(
        name="counting",
        architecture="GPT2LMHeadModel",
        tokenizer=byte_level(texts, 50257, bos=True),
    )
    task = load_task("idm", model)
    ours = {name: len(task.split(name)) for name in PAPER_SIZES}
    print("ours", ours, "paper", PAPER_SIZES)
    for step, left in task.report.items():
        print(f"  {step}: {left}")
    return {"ours": ours, "paper": PAPER_SIZES, "report": dict(task.report)}
