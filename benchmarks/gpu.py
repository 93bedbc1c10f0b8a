r"""All that is measured of one GPU, within eight minutes: ``python -m benchmarks.gpu --out DIR``.

Sections in order of value (:data:`SECTIONS`): does the library compute on the GPU what it computes
on the CPU; what do sweeps (of real models' shapes too), a phase diagram, training steps, stable
ranks, watching and an audit cost there, and what memory do they take; do the tests marked gpu pass.
Each has a limit of its own, and each row of ``DIR/gpu.json`` is written as it is measured. The same
call again goes on with the sections that have not finished: one that failed or ran over its limit
starts anew. It ends with 1 if a check failed or a section did not finish. ``--dry`` runs all of it
on the CPU in small.

A machine without a network, on which Python 3.12, torch and the usual packages are installed, gets
the rest in one file, ``out/packages.tar.xz`` of ``make gpu-packages``. There, in a copy of the
repository with that file::

    mkdir -p /tmp/carried && tar xJf out/packages.tar.xz -C /tmp/carried
    HF_HUB_OFFLINE=1 PYTHONPATH=/tmp/carried/packages \
        timeout -k 10 500 python3 -m benchmarks.gpu --out out/gpu

To go on after a machine was given back, put ``gpu.json`` into the folder that is named.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final, NamedTuple

import pandas as pd
import torch
import transformers as hf
from torch import Tensor

import interp_compose as ic
import interp_compose.models.bridge
from benchmarks import (
    audit_cost,
    cap_sweep,
    carma,
    decoder_steps,
    encoder_steps,
    phase_diagram,
    phases,
    seq2seq,
    side_by_side,
    stable_rank,
    transplant_sweep,
    watch_cost,
)
from benchmarks.common import (
    RESULTS,
    byte_level,
    load_texts,
    machine,
    middle_and_range,
    peak_bytes,
    quotients,
    seconds,
    turns,
    wait,
)
from benchmarks.sections import Row, Section, run
from interp_compose.errors import CapabilityError
from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.models.lens_model import LensModel
from interp_compose.models.marian_student import MarianStudent, MarianStudentModel, StudentConfig
from interp_compose.papers.cat.models.bert import EncoderConfig
from interp_compose.papers.cat.text.wordpiece import WordPieceTokenizer
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.studies.transplant.measure import prepare_transplant
from interp_compose.studies.transplant.options import TransplantOptions
from interp_compose.types import Example

WHOLE_S: Final = 480.0
FLOAT32: Final = 1e-4
"""Largest difference of a logit, a log-probability or a cosine in float32 on the GPU from float64
on the CPU; logits spread by 1. On a CPU, which sums in another order than a GPU, it was at most
5.3e-6 over all measures and models here, and 2.1e-3 to 3.6e-3 in logits once weights alone were
rounded to the 10 bits of TF32: the bound is 20 times the one, and a twentieth of the other."""
BFLOAT16: Final = 4.0
"""As often as what bfloat16 costs on the CPU, for the same model and measure, may it cost on the
GPU, which rounds as often at other places: the largest of many rounding errors. Between three
draws of the weights it varied up to 1.8 times in logits and 2.8 times in what studies read. It
shows what goes wrong in bfloat16 alone; whether an edit is right is for float32 to show."""
GOAL_S: Final = 60.0
"""Of the default phase diagram, 132 runs side by side."""
PHASE_RUN: Final = ic.complexity.PhaseRun(
    d_model=16, d_mlp=20, samples=150, n_test=60, steps=12, batch_size=32
)
"""In small."""
ROOT: Final = Path(__file__).parents[1]


class Setting(NamedTuple):
    """Where a section runs: on ``cuda``, or in small on the ``cpu``."""

    device: str
    dry: bool


# 1. The same numbers as on the CPU


def agreement(on: Setting) -> Iterator[Row]:
    """Largest differences from the CPU in float64, by model, measure, device and precision."""
    texts = load_texts(200 if on.dry else 400)[1]
    tokenizer = byte_level(texts, 300 if on.dry else 2000, bos=True)
    for name, build in _models(len(tokenizer), *((2, 32) if on.dry else (4, 256))).items():
        torch.manual_seed(0)
        weights = build().eval()
        found: dict[str, dict[str, Tensor | str]] = {}
        for dtype in ("float64", "float32", "bfloat16"):
            for device in {"cpu", "cpu" if dtype == "float64" else on.device}:
                own = copy.deepcopy(weights).to(device, getattr(torch, dtype))
                found[f"{device} {dtype}"] = _outcomes(own, tokenizer, texts, 1 if on.dry else 4)
        exact = found.pop("cpu float64")
        for what, expected in exact.items():
            row: Row = {"model": name, "what": what}
            if isinstance(expected, str):
                yield row | {"error": expected, "ok": False}
                continue
            apart = {
                key: _apart(own.get(what, own.get("load", "")), expected)
                for key, own in found.items()
            }
            single, half = (apart[f"{on.device} {dtype}"] for dtype in ("float32", "bfloat16"))
            cpu_half = apart["cpu bfloat16"]
            ok = isinstance(single, float) and single <= FLOAT32
            ok &= isinstance(half, float) and isinstance(cpu_half, float)
            ok = ok and half <= BFLOAT16 * cpu_half
            row |= {"values": expected.numel(), "spread": float(expected.std()), "apart": apart}
            yield row | {"ok": ok}


def _apart(found: Tensor | str, expected: Tensor) -> float | str:
    """The largest difference, or the error that came in its place."""
    return found if isinstance(found, str) else float((found - expected).abs().max())


def _models(d_vocab: int, n_layers: int, d_model: int) -> dict[str, Callable[[], Any]]:
    """A decoder, an encoder and an encoder–decoder; random weights that give logits around 1."""
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, "vocab_size": d_vocab}
    gpt2 = hf.GPT2Config(
        n_embd=d_model, n_layer=n_layers, n_head=4, initializer_range=d_model**-0.5, **ends
    )
    bert = hf.BertConfig(
        hidden_size=d_model,
        intermediate_size=4 * d_model,
        num_hidden_layers=n_layers,
        num_attention_heads=4,
        initializer_range=d_model**-0.5,
        **ends,
    )
    t5 = hf.T5Config(
        d_model=d_model,
        d_kv=d_model // 4,
        d_ff=4 * d_model,
        num_layers=n_layers // 2,  # and as many of the decoder
        num_heads=4,
        decoder_start_token_id=0,
        **ends,
    )
    return {
        "GPT-2": lambda: hf.GPT2LMHeadModel(gpt2),
        "BERT": lambda: hf.BertForMaskedLM(bert),
        "T5": lambda: hf.T5ForConditionalGeneration(t5),
    }


@torch.no_grad()
def _outcomes(
    weights: torch.nn.Module, tokenizer: Any, texts: Sequence[str], n: int
) -> dict[str, Tensor | str]:
    """Logits as they are and under each intervention, and what each study measures on ``n`` texts,
    as float64 on the CPU; an error in the place of what raised one, which ``load`` may be."""
    try:
        model = ic.load_model(weights, tokenizer=tokenizer)
    except CapabilityError as error:
        return {"load": f"{type(error).__name__}: {error}"}
    found: dict[str, Tensor | str] = {}
    for what, measure in (_edited(model) | _studies(model, texts, n)).items():
        try:
            found[what] = measure().cpu().double()
        except Exception as error:  # noqa: BLE001  what else fails on a GPU is of interest too
            found[what] = f"{type(error).__name__}: {error}"
    return found


def _edited(model: LensModel) -> dict[str, Callable[[], Tensor]]:
    """Logits of random tokens: all of them from the clean model, the last ones under an edit."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, model.d_vocab_source, (4, 17), generator=generator)
    mask = torch.ones_like(tokens)
    mask[0, :5] = 0  # a shorter text, padded on the left
    tokens, mask, read = tokens.to(model.device), mask.to(model.device), slice(None)
    if isinstance(model, EncoderDecoderModel):
        target = torch.randint(1, model.d_vocab, (4, 3), generator=generator)
        tokens, mask = model.join(tokens, target.to(model.device), mask)
        read = slice(-3, None)  # the source predicts nothing
    places = torch.arange(tokens.shape[1], device=model.device)
    units = torch.where(mask > 0, places // 3, -1)
    units[:, -4:] = -1  # no unit is of two stacks, or the one that is read
    layer = model.n_layers // 2
    edits: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "pool_at, collapse": lambda: ic.pool_at(model, layer - 1, units),
        "pool_at, broadcast": lambda: ic.pool_at(model, 0, units, "max", mode="broadcast"),
        "mask_attention": lambda: ic.mask_attention(model, keys=[-5]),
        "mask_attention, zero": lambda: ic.mask_attention(model, keys=[-5], mode="zero"),
        "mask_residual": lambda: ic.mask_residual(model, positions=[-1], layers=[layer]),
        "ablate heads": lambda: ic.ablate(model, heads=[0, 2]),
        "ablate neurons": lambda: ic.ablate(model, neurons=range(20)),
    }

    def clean() -> Tensor:
        return model(tokens, attention_mask=mask)[:, read][mask[:, read] > 0]

    def last(edit: Callable[[], AbstractContextManager[Any]]) -> Tensor:
        with edit():
            return model(tokens, attention_mask=mask)[:, -1]

    return {"logits": clean, **{what: partial(last, edit) for what, edit in edits.items()}}


def _studies(model: LensModel, texts: Sequence[str], n: int) -> dict[str, Callable[[], Tensor]]:
    """The studies that a model of its kind can be measured by."""
    examples = [Example(text, "a") for text in texts[:n]]

    def answers(study: Any, column: str = "target_logprob", **options: Any) -> Tensor:
        given = options.pop("given", examples)
        outcomes = study(model, given, progress=False, **options).outcomes
        return torch.tensor(outcomes[column].to_numpy())

    if model.bidirectional:
        texts = texts[: n + 3]
        pairs = [
            {"text1": one, "text2": two, "score": float(i)}
            for i, (one, two) in enumerate(pairwise(texts))
        ]
        words = partial(answers, ic.similarity_curve, "cosine", given=pairs, unit="word")
        return {"similarity_curve": words}
    studies: dict[str, Callable[[], Tensor]] = {
        "cap_curve, collapse": partial(answers, ic.cap_curve),
        "cap_curve, broadcast": partial(answers, ic.cap_curve, mode="broadcast"),
        "ablation_curve, words": partial(answers, ic.ablation_curve),
        "ablation_curve, words, zero": partial(answers, ic.ablation_curve, mode="zero"),
        "ablation_curve, heads": partial(answers, ic.ablation_curve, what="heads"),
        "ablation_curve, mlp": partial(answers, ic.ablation_curve, what="mlp"),
    }
    if len(model.stacks) == 1:
        moved = transplant_sweep.pairs_of(cap_sweep.prepared(model, texts[:60]))[: n + 2]
        studies["transplant"] = partial(answers, ic.transplant, "expected_logprob", given=moved)
    return studies


# 2. Sweeps in passes


def sweeps(on: Setting) -> Iterator[Row]:
    """CAP in clean passes, a transplant in hooked ones; GPT-2 small's shape."""
    for dtype in ("float32", "bfloat16"):
        model, texts = _gpt2(on, dtype)
        items = cap_sweep.prepared(model, texts[: 60 if on.dry else 400])
        middle = cap_sweep.middle(items, 4 if on.dry else 16)
        row = cap_sweep.compare(model, middle, 1 if on.dry else 7, hooked=True)
        yield {"what": "cap_curve", "dtype": dtype, **row}
        pairs = transplant_sweep.pairs_of(items)
        work = prepare_transplant(model, pairs, TransplantOptions(batch_size=len(pairs)))
        row = transplant_sweep.compare(model, work, 1 if on.dry else 5)
        yield {"what": "transplant", "dtype": dtype, **row}


def _gpt2(on: Setting, dtype: str = "float32") -> tuple[LensModel, list[str]]:
    """GPT-2 small's shape, and texts for it."""
    texts = load_texts(200 if on.dry else 4000)[1]
    tokenizer = byte_level(texts, 300 if on.dry else 4000, bos=True)
    small = {"n_embd": 32, "n_head": 2, "vocab_size": len(tokenizer)} if on.dry else {}
    return cap_sweep.gpt2(2 if on.dry else 12, tokenizer, on.device, dtype, **small), texts


# 3. Real models' shapes, with random weights: nothing is read that has to be carried


def smollm2(on: Setting) -> Iterator[Row]:
    """CAP, transplants, their memory, and CARMA's step: 30 layers, 49,152 tokens."""
    texts = load_texts(200 if on.dry else 4000)[1]
    tokenizer = byte_level(texts, 300 if on.dry else 4000, bos=True)
    small = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 5,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 400,
    }
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    shape = partial(
        carma.random_model, "smollm2-135m", on.device, **ends, **(small if on.dry else {})
    )
    for dtype in ("float32", "bfloat16"):
        model = shape(dtype, tokenizer)
        items = cap_sweep.prepared(model, texts[: 60 if on.dry else 400])
        middle = cap_sweep.middle(items, 4 if on.dry else 16)
        row = cap_sweep.compare(model, middle, 1 if on.dry else 5, hooked=True)
        peaks = {
            f"{what}_mib": cap_sweep.peak_mib(model, middle, what) for what in ("clean", "sweep")
        }
        yield {"what": "cap_curve", "dtype": dtype, **row, **peaks}
        pairs = transplant_sweep.pairs_of(items)
        work = prepare_transplant(model, pairs, TransplantOptions(batch_size=len(pairs)))
        yield {"what": "transplant", "dtype": dtype, **transplant_sweep.compare(model, work, 1)}
    del model
    row = carma.overheads(shape(), 1 if on.dry else 5, "float32")
    yield {"what": "CARMA's step", **row}


def translator(on: Setting) -> Iterator[Row]:
    """A CAP curve of a Marian student's shape, whole calls, in clean passes over its texts."""
    texts = load_texts(200 if on.dry else 4000)[1]
    tokenizer = byte_level(texts, 300 if on.dry else 4000, bos=True)
    tokenizer.eos_token = tokenizer.pad_token = tokenizer.bos_token
    shape = (32, 3, 2, 4, 64) if on.dry else (256, 6, 2, 8, 1536)
    lens = MarianStudent(StudentConfig(len(tokenizer) if on.dry else 32000, *shape))
    torch.manual_seed(0)
    for weight in lens.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=shape[0] ** -0.5)
    model = MarianStudentModel(lens.to(on.device).eval(), name="student", tokenizer=tokenizer)
    examples = [Example(text, "a") for text in texts[: 8 if on.dry else 250]]
    batch = tokenizer(texts[: len(examples)], padding=True, return_tensors="pt").to(on.device)
    target = torch.zeros(len(examples), 1, dtype=torch.long, device=on.device)
    tokens, mask = model.join(batch.input_ids, target, batch.attention_mask)

    def clean() -> None:
        model(tokens, attention_mask=mask)

    def curve() -> None:
        ic.cap_curve(model, examples, progress=False)

    ic.cap_curve(model, examples[:2], progress=False)  # proofs
    with torch.no_grad():
        times = turns({"clean": clean, "curve": curve}, 1 if on.dry else 3, on.device)
    over = quotients(times["curve"], times["clean"])
    row = {name: median(taken) for name, taken in times.items()}
    yield {"what": "cap_curve", "texts": len(examples), **row, **middle_and_range("ratio", over)}


# 4. Many small models as one program


def diagram(on: Setting) -> Iterator[Row]:
    """A whole phase diagram, its runs side by side, and its verdicts beside the CPU's."""
    run = PHASE_RUN if on.dry else ic.complexity.PhaseRun()
    rates, decays, seeds = (
        ((0.4, 0.8), (0.01,), 1) if on.dry else (phase_diagram.RATES, phase_diagram.DECAYS, 3)
    )
    with TemporaryDirectory() as folder:  # kept runs would make a second time meaningless
        options = {"seeds": seeds, "first_seed": 200, "run": run, "where": "here"}
        diagrams: list[ic.complexity.PhaseDiagram] = []
        taken = seconds(
            lambda: diagrams.append(
                ic.complexity.phase_diagram(rates, decays, folder, **options, progress=False)
            )
        )
    (found,) = diagrams
    row: Row = {"what": "phase_diagram", "runs": len(found.frame), "seconds": taken}
    row |= {"goal_s": GOAL_S, "goal_met": taken <= GOAL_S, "ok": bool(found.frame["finite"].all())}
    if not on.dry:
        kept = json.loads((RESULTS / "phase_diagram_pre.json").read_text(encoding="utf-8"))
        row |= phase_diagram.agreement(pd.DataFrame(kept["cells"]), found.cells)
        same, cells = row["same_off_boundaries"]
        # runs part in rounding and end elsewhere; on the CPU other seeds agreed in 38 of 38 cells
        row["ok"] &= same >= 0.95 * cells
    yield row


def side_by_side_steps(on: Setting) -> Iterator[Row]:
    """Steps of many models as one program, over as many of one."""
    run = PHASE_RUN if on.dry else ic.complexity.PhaseRun()
    row = phases.together(on.device, 1 if on.dry else 3, 2 if on.dry else phases.GRID, run)
    yield {"what": "anchors", **row}
    data = SequenceData.of(ic.load_sequences("scan-turn-left").splits, one_sequence=True)
    for n in (2,) if on.dry else side_by_side.NUMBERS:
        row = side_by_side.measured(n, data, 1 if on.dry else 5, on.device, 1 if on.dry else 10)
        yield {"what": "SCAN", "n": n, **row}


# 5 and 6. Training steps


def carma_steps(on: Setting) -> Iterator[Row]:
    """CARMA's step over plain fine-tuning's."""
    for dtype in ("float32", "bfloat16"):
        model = _trainable(on)
        yield {"dtype": dtype, **carma.overheads(model, 1 if on.dry else 15, dtype)}


def _trainable(on: Setting) -> LensModel:
    small = {"n_embd": 32, "n_layer": 5, "n_head": 2, "vocab_size": 300} if on.dry else {}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return carma.random_model("gpt2-small", on.device, **small, **ends)


def lrf_steps(on: Setting) -> Iterator[Row]:
    """LRF's step over the Transformer's, and the Transformer's here over torch's."""
    repeats = 1 if on.dry else 9
    for name, (shape, (n, *lengths)) in seq2seq.SHAPES.items():
        if not on.dry or name == "small":
            batch = (4 if on.dry else n, *lengths)
            row = seq2seq.measured(shape, batch, on.device, repeats)
            yield {"shape": name, "batch": batch, **row}
    if not on.dry:
        yield {"shape": "scan", **seq2seq.scan(on.device, 3)}


def decoder_rows(on: Setting) -> Iterator[Row]:
    """The decoder's step here beside transformers' GPT-2's, of which the loss is the same."""
    data = SequenceData.of(ic.load_sequences("scan-turn-left").splits, one_sequence=True)
    repeats, least_s = (1, 0.0) if on.dry else (5, 0.2)
    for name, (shape, n) in decoder_steps.SHAPES.items():
        if not on.dry or name == "small":
            n = 4 if on.dry else n
            row = decoder_steps.measured(shape, n, data, repeats, on.device, least_s)
            yield {"shape": name, "batch": n, **row}


def cat_steps(on: Setting) -> Iterator[Row]:
    """CAT's step over BERT's, and BERT's here over transformers', of which the loss is the same."""
    repeats, least_s = (1, 0.0) if on.dry else (5, 0.1)
    for name in ("small",) if on.dry else encoder_steps.SHAPES:
        config, tokenizer, texts, n = _encoder(on, name)
        sizes = (100,) if on.dry else encoder_steps.SIZES
        row = encoder_steps.measured(
            config, tokenizer, texts, n, sizes, repeats, on.device, least_s
        )
        yield {"name": name, **row}


def _encoder(on: Setting, name: str) -> tuple[EncoderConfig, WordPieceTokenizer, list[str], int]:
    shape, n_ctx, n, d_vocab = encoder_steps.SHAPES[name]
    if on.dry:
        shape, n, d_vocab = {"n_layers": 2, "d_model": 16, "n_heads": 2, "d_mlp": 32}, 8, 300
    texts = [text.removesuffix(' is called a "') for text in load_texts(200 if on.dry else 8000)[1]]
    config = EncoderConfig(**shape, d_vocab=d_vocab, n_ctx=n_ctx)
    return config, WordPieceTokenizer.trained(texts, d_vocab), texts, n


# 7 to 10. Ranks, memory, what looking costs, tests


def ranks(on: Setting) -> Iterator[Row]:
    """Stable rank over all singular values, 4096 × 4096; its error is below its tolerance."""
    torch.linalg.svdvals(torch.randn(64, 64, device=on.device))  # what the first call alone does
    side, draws, repeats = (96, 1, 1) if on.dry else (stable_rank.SQUARE, 2, 3)
    for name, A, exact in stable_rank.matrices(side, draws, quick=True):
        row = stable_rank.measure(A.to(on.device), exact, repeats)
        yield {"matrix": name, **row, "ok": row["error"] <= 1e-4}


def memory(on: Setting) -> Iterator[Row]:
    """The most that is held beyond models and optimisers: allocated on the GPU, or resident."""
    of = "allocated on the GPU" if on.device == "cuda" else "resident set"
    model, texts = _gpt2(on)
    items = cap_sweep.middle(cap_sweep.prepared(model, texts[: 60 if on.dry else 400]), 16)
    for what in ("clean", "sweep"):
        yield {"what": f"{what} pass", "of": of, "mib": cap_sweep.peak_mib(model, items, what)}
    del model
    for name, trainer in carma.trainers(_trainable(on), 2, "float32").items():
        trainer.train_step()  # the optimiser's state is there from now on
        peak = peak_bytes(trainer.train_step, on.device)
        yield {"what": f"step: {name}", "of": of, "mib": round(peak / 2**20, 1)}
    config, tokenizer, texts, _ = _encoder(on, "small")
    sizes, tokens = ((100,), 200) if on.dry else (encoder_steps.SIZES, encoder_steps.LARGE)
    row = encoder_steps.memory(config, tokenizer, texts, sizes, on.device, tokens)
    yield {"what": "step of CAT", "of": of, **row}


def watching(on: Setting) -> Iterator[Row]:
    """What watching takes of a training."""
    sets = watch_cost.SETS
    if on.dry:
        sets = {name: sets[name] for name in ("not watched", "16 prompts")}
    repeats, steps, examples = (1, 11, 100) if on.dry else (len(sets), 100, None)
    yield watch_cost.cost(repeats, steps, on.device, sets, examples)


def auditing(on: Setting) -> Iterator[Row]:
    """How long an audit takes, which finds nothing."""
    small = {"n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 64} if on.dry else {}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    kinds = ("quick",) if on.dry else audit_cost.KINDS
    row = audit_cost.cost(1, on.device, kinds, **small, **ends)
    yield {**row, "ok": row["findings"] == 0}


def marked_files() -> list[str]:
    """Files of tests that hold any marked gpu."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    marked = (path for path in paths if "pytest.mark.gpu" in path.read_text(encoding="utf-8"))
    return [str(path.relative_to(ROOT)) for path in marked]


def marked_tests(on: Setting) -> Iterator[Row]:
    """Tests marked gpu, file by file; a dry run collects them, all at once."""
    files = marked_files()
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    command += ["--collect-only"] if on.dry else []
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # of the machine's, none is needed
    for some in [files] if on.dry else [[name] for name in files]:
        started = perf_counter()
        done = subprocess.run([*command, *some], cwd=ROOT, env=env, capture_output=True, text=True)
        lines = done.stdout.splitlines() or [done.stderr]
        ends = re.findall(r"(\d+) (passed|failed|skipped|errors?|tests)", lines[-1])
        counts = {word: int(n) for n, word in ends}
        yield {
            "files": some,
            **counts,
            "seconds": perf_counter() - started,
            "failures": [line for line in lines if line.startswith(("FAILED", "ERROR"))],
            "ok": done.returncode == 0 and counts.get("tests" if on.dry else "passed", 0) > 0,
        }


SECTIONS: Final[dict[str, Section]] = {
    "agreement": Section(agreement, 90),
    "sweeps": Section(sweeps, 60),
    "smollm2": Section(smollm2, 60),
    "translator": Section(translator, 30),
    "diagram": Section(diagram, 100),
    "side_by_side": Section(side_by_side_steps, 40),
    "carma": Section(carma_steps, 40),
    "lrf": Section(lrf_steps, 40),
    "decoders": Section(decoder_rows, 30),
    "cat": Section(cat_steps, 60),
    "ranks": Section(ranks, 60),
    "memory": Section(memory, 40),
    "watch": Section(watching, 40),
    "audit": Section(auditing, 40),
    "tests": Section(marked_tests, 120),
}
"""In order of value. Limits add up to more than the whole: few sections should need theirs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what ``DIR/gpu.json`` lacks; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dry", action="store_true", help="all of it on the CPU, in small")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    options = parser.parse_args(arguments)
    if options.dry:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the library takes a GPU where there is one
    on = Setting("cpu" if options.dry else "cuda", options.dry)
    slack = 4.0 if options.dry else 1.0  # a CPU may be shared
    chosen = {
        name: Section(work, slack * limit_s)
        for name, (work, limit_s) in SECTIONS.items()
        if name in options.only
    }
    return run(chosen, on, options.out / "gpu.json", about, slack * WHOLE_S)


def about(on: Setting) -> Row:
    """Set what every section needs, and say on what it runs.

    Raises:
        SystemExit: there is no GPU.
    """
    if on.dry:
        torch.set_num_threads(1)
    elif not torch.cuda.is_available():
        sys.exit("no CUDA device: --dry runs all of it on the CPU, in small")
    torch.set_float32_matmul_precision("highest")  # no TF32
    gpu = None if on.dry else torch.cuda.get_device_name()
    wait(on.device)
    return {"gpu": gpu, "dry": on.dry, "cuda": torch.version.cuda, **machine()}


if __name__ == "__main__":
    sys.exit(main())
