"""What the benchmarks share: a text, a clock, the machine's name, and where results go."""

from __future__ import annotations

import json
import os
import platform
import random
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

RESULTS = Path(__file__).parent / "results"


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = perf_counter()
    work()
    return perf_counter() - start


def load_texts(prompts: int) -> tuple[str, list[str]]:
    """WordNet's definitions in the inverse dictionary's prompt, or made-up ones."""
    import nltk

    data = os.environ.get("INTERP_COMPOSE_TEST_DATA")
    if data:
        nltk.data.path.insert(0, str(Path(data) / "nltk_data"))
    try:
        from nltk.corpus import wordnet

        synsets = list(wordnet.all_synsets())
    except LookupError:
        rng = random.Random(0)
        stems = ["".join(rng.choices("aeioulnrstdm", k=rng.randint(2, 9))) for _ in range(9000)]
        made = [" ".join(rng.choices(stems, k=rng.randint(3, 18))) for _ in range(prompts)]
        return "generated", [f'{text} is called a "' for text in made]
    rng = random.Random(0)
    chosen = rng.sample(synsets, prompts)
    return "WordNet definitions", [f'{s.definition()} is called a "' for s in chosen]


def machine() -> dict[str, Any]:
    """What it ran on: processor, cores, versions."""
    cpu = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), cpu)
    packages = ("torch", "transformer-lens", "transformers", "tokenizers", "spacy", "numpy")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def write(name: str, result: dict[str, Any]) -> None:
    """Write ``results/{name}.json`` under a temporary name, then rename it."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, path)
