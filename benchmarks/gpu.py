"""All that is measured of one GPU, within eight minutes: ``python -m benchmarks.gpu --out DIR``.

Sections in order of value (:data:`SECTIONS`): does the library compute on the GPU what it computes
on the CPU; what do sweeps, a phase diagram, training steps, stable ranks, watching and an audit
cost there, and what memory do they take; do the tests marked gpu pass. Each has a limit of its own,
and each row of ``DIR/gpu.json`` is written as it is measured. The same call again goes on with the
sections that have not finished: one that failed or ran over its limit starts anew. It ends with 1
if a check failed or a section did not finish. ``--dry`` runs all of it on the CPU in small.

On a machine with Python 3.12, torch and the usual packages, but without a network, the rest travels
as wheels (33 MB in a folder that git ignores). Here::

    python -m pip download --no-deps --only-binary=:all: --implementation cp --python-version 3.12 \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
        --platform manylinux2014_x86_64 -d out/wheels $(grep -E \
        '^(WHEELS)==' constraints.txt)

There, in the repository's folder::

    python3 -m pip install -q --no-index --no-deps --target /tmp/site out/wheels/*.whl
    HF_HUB_OFFLINE=1 PYTHONPATH=/tmp/site timeout -k 10 500 python3 -m benchmarks.gpu --out out/gpu
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
from pathlib import Path
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
    peak_bytes,
    seconds,
    wait,
)
from benchmarks.sections import Row, Section, run
from interp_compose.models.bert import EncoderConfig
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.core.sequence_data import SequenceData
from interp_compose.studies.transplant.options import TransplantOptions
from interp_compose.text.wordpiece import WordPieceTokenizer
from interp_compose.types import Example

WHOLE_S: Final = 480.0
FLOAT32: Final = 1e-4
"""Largest difference of a logit, a log-probability or a cosine in float32 on the GPU from float64
on the CPU. With values around 1, six layers of width 512 and products summed in another order it
is 2e-6 to 1e-5 on a CPU; with TF32, which keeps 10 bits of a factor, it would be above 1e-3."""
BFLOAT16: Final = 3.0
"""As often as what bfloat16 costs on the CPU, for the same model and measure, may it cost on the
GPU: it rounds as often, at other places, and the largest of many rounding errors hardly varies
(by 1.5 at most between seeds on a CPU). An edit at a wrong place costs ten times as much."""
GOAL_S: Final = 60.0
"""Of the default phase diagram, 132 runs side by side."""
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
    for name, build in _models(len(tokenizer), *((2, 32) if on.dry else (6, 512))).items():
        torch.manual_seed(0)
        weights = build().eval()
        found: dict[tuple[str, str], dict[str, Tensor]] = {}
        for dtype in ("float64", "float32", "bfloat16"):
            for device in {"cpu", "cpu" if dtype == "float64" else on.device}:
                own = copy.deepcopy(weights).to(device, getattr(torch, dtype))
                model = ic.load_model(own, tokenizer=tokenizer)
                found[device, dtype] = _outcomes(model, texts, 3 if on.dry else 8)
        exact = found.pop(("cpu", "float64"))
        for what, expected in exact.items():
            apart = {key: float((own[what] - expected).abs().max()) for key, own in found.items()}
            half = apart[on.device, "bfloat16"]
            yield {
                "model": name,
                "what": what,
                "values": expected.numel(),
                "spread": float(expected.std()),
                "apart": {" ".join(key): value for key, value in apart.items()},
                "ok": apart[on.device, "float32"] <= FLOAT32
                and half <= BFLOAT16 * apart["cpu", "bfloat16"],
            }


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
        num_layers=n_layers,
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
def _outcomes(model: LensModel, texts: Sequence[str], n: int) -> dict[str, Tensor]:
    """Logits as they are and under each intervention, and what each study measures on ``n``
    texts."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, model.d_vocab_source, (4, 17), generator=generator)
    mask = torch.ones_like(tokens)
    mask[0, :5] = 0  # a shorter text, padded on the left
    if len(model.stacks) > 1:
        target = torch.randint(1, model.d_vocab, (4, 3), generator=generator)
        tokens, mask = model.join(tokens.to(model.device), target.to(model.device), mask)
    units = torch.where(mask.cpu() > 0, torch.arange(tokens.shape[1]) // 3, -1)
    units[:, -4:] = -1  # of one stack, and of which one is read
    tokens, mask, units = (of.to(model.device) for of in (tokens, mask, units))
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
    logits = model(tokens, attention_mask=mask)
    found = {"logits": logits if len(model.stacks) == 1 else logits[:, -3:]}
    for what, edit in edits.items():
        with edit():
            found[what] = model(tokens, attention_mask=mask)[:, -1]
    found["logits"] = found["logits"][mask[:, -found["logits"].shape[1] :] > 0]
    frames = {what: study() for what, study in _studies(model, texts, n).items()}
    measured = {what: torch.tensor(frame.to_numpy()) for what, frame in frames.items()}
    return {what: one.cpu().double() for what, one in (found | measured).items()}


def _studies(
    model: LensModel, texts: Sequence[str], n: int
) -> dict[str, Callable[[], "pd.Series[float]"]]:
    """The studies that a model of its kind can be measured by."""
    if model.bidirectional:
        pairs = [{"text1": texts[i], "text2": texts[i + 1], "score": float(i)} for i in range(n)]
        words = partial(ic.similarity_curve, model, pairs, unit="word", progress=False)
        return {"similarity_curve": lambda: words().outcomes["cosine"]}
    examples = [Example(text, "a") for text in texts[:n]]

    def answers(study: Any, **options: Any) -> Callable[[], "pd.Series[float]"]:
        return lambda: study(model, examples, progress=False, **options).outcomes["target_logprob"]

    studies = {
        "cap_curve, collapse": answers(ic.cap_curve),
        "cap_curve, broadcast": answers(ic.cap_curve, mode="broadcast"),
        "ablation_curve, words": answers(ic.ablation_curve),
        "ablation_curve, words, zero": answers(ic.ablation_curve, mode="zero"),
        "ablation_curve, heads": answers(ic.ablation_curve, what="heads"),
        "ablation_curve, mlp": answers(ic.ablation_curve, what="mlp"),
    }
    if len(model.stacks) == 1:
        pairs = transplant_sweep.pairs_of(cap_sweep.prepared(model, texts[:60]))[:n]
        moved = partial(ic.transplant, model, pairs, progress=False)
        studies["transplant"] = lambda: moved().outcomes["expected_logprob"]
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
        plan = ic.transplant.plan(model, pairs, TransplantOptions(batch_size=len(pairs)))
        row = transplant_sweep.compare(model, plan, 1 if on.dry else 5)
        yield {"what": "transplant", "dtype": dtype, **row}


def _gpt2(on: Setting, dtype: str = "float32") -> tuple[LensModel, list[str]]:
    """GPT-2 small's shape, and texts for it."""
    texts = load_texts(200 if on.dry else 4000)[1]
    tokenizer = byte_level(texts, 300 if on.dry else 4000, bos=True)
    small = {"n_embd": 32, "n_head": 2, "vocab_size": len(tokenizer)} if on.dry else {}
    return cap_sweep.gpt2(2 if on.dry else 12, tokenizer, on.device, dtype, **small), texts


# 3. Many small models as one program


def diagram(on: Setting) -> Iterator[Row]:
    """A whole phase diagram, and its verdicts beside the CPU's; steps of models side by side."""
    small = {"d_model": 16, "d_mlp": 20, "samples": 150, "n_test": 60, "steps": 12}
    run = ic.PhaseRun(**small, batch_size=32) if on.dry else ic.PhaseRun()
    rates, decays, seeds = (
        ((0.4, 0.8), (0.01,), 1) if on.dry else (phase_diagram.RATES, phase_diagram.DECAYS, 3)
    )
    with TemporaryDirectory() as folder:  # kept runs would make a second time meaningless
        options = {"seeds": seeds, "first_seed": 200, "run": run, "where": "here"}
        diagrams: list[ic.PhaseDiagram] = []
        taken = seconds(
            lambda: diagrams.append(
                ic.phase_diagram(rates, decays, folder, **options, progress=False)
            )
        )
    (found,) = diagrams
    row = {"what": "phase_diagram", "runs": len(found.frame), "seconds": taken}
    row |= {"goal_s": GOAL_S, "goal_met": taken <= GOAL_S, "ok": bool(found.frame["finite"].all())}
    if not on.dry:
        kept = json.loads((RESULTS / "phase_diagram_pre.json").read_text(encoding="utf-8"))
        row |= phase_diagram.agreement(pd.DataFrame(kept["cells"]), found.cells)
        same, of = row["same_off_boundaries"]
        # runs part in rounding and end elsewhere; on the CPU other seeds agreed in 38 of 38 cells
        row["ok"] &= same >= 0.95 * of
    yield row
    row = phases.together(on.device, 1 if on.dry else 3, 2 if on.dry else phases.GRID, run)
    yield {"what": "steps of phase_diagram", **row}
    data = SequenceData.of(ic.load_sequences("scan-turn-left").splits, one_sequence=True)
    for n in (2,) if on.dry else side_by_side.NUMBERS:
        row = side_by_side.measured(n, data, 1 if on.dry else 5, on.device, 1 if on.dry else 10)
        yield {"what": "decoders on SCAN", "n": n, **row}


# 4 and 5. Training steps


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
        shape, n, d_vocab = {"n_layers": 2, "d_model": 16, "n_heads": 2, "d_mlp": 32}, 2, 300
    texts = [text.removesuffix(' is called a "') for text in load_texts(200 if on.dry else 8000)[1]]
    config = EncoderConfig(**shape, d_vocab=d_vocab, n_ctx=n_ctx)
    return config, WordPieceTokenizer.trained(texts, d_vocab), texts, n


# 6 to 9. Ranks, memory, what looking costs, tests


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


def looking(on: Setting) -> Iterator[Row]:
    """What watching takes of a training, and how long an audit takes, which finds nothing."""
    sets = dict(watch_cost.SETS)
    if on.dry:
        del sets["200 prompts"]
    repeats, steps = (1, 11) if on.dry else (len(sets), 100)
    yield {"what": "watch", **watch_cost.cost(repeats, steps, on.device, sets)}
    small = {"n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 64} if on.dry else {}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    row = audit_cost.cost(1, on.device, **small, **ends)
    yield {"what": "audit", **row, "ok": row["findings"] == 0}


def marked_tests(on: Setting) -> Iterator[Row]:
    """Tests marked gpu, file by file; a dry run collects them."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "pytest.mark.gpu" not in path.read_text(encoding="utf-8"):
            continue
        command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
        command += ["--collect-only"] if on.dry else []
        env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        started = perf_counter()
        done = subprocess.run(
            [*command, str(path)], cwd=ROOT, env=env, capture_output=True, text=True
        )
        lines = done.stdout.splitlines() or [done.stderr]
        counts = {
            word: int(n)
            for n, word in re.findall(r"(\d+) (passed|failed|skip\w+|error|tests)", lines[-1])
        }
        yield {
            "file": str(path.relative_to(ROOT)),
            "counts": counts,
            "seconds": perf_counter() - started,
            "failures": [line for line in lines if line.startswith(("FAILED", "ERROR"))],
            "ok": done.returncode == 0 and counts.get("tests" if on.dry else "passed", 0) > 0,
        }


SECTIONS: Final[dict[str, Section]] = {
    "agreement": Section(agreement, 90),
    "sweeps": Section(sweeps, 60),
    "diagram": Section(diagram, 120),
    "carma": Section(carma_steps, 40),
    "lrf": Section(lrf_steps, 40),
    "decoders": Section(decoder_rows, 30),
    "cat": Section(cat_steps, 60),
    "ranks": Section(ranks, 60),
    "memory": Section(memory, 40),
    "looking": Section(looking, 60),
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
    chosen = {name: section for name, section in SECTIONS.items() if name in options.only}
    return run(chosen, on, options.out / "gpu.json", about, WHOLE_S)


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
