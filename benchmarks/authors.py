"""The released code of CARMA and of complexity control beside this library, on the same inputs.

Run with ``python -m benchmarks.authors --carma FOLDER --complexity FOLDER`` on checkouts of
https://github.com/nura-j/CARMA (commit e0725e2) and https://github.com/sjtuzzw/complexity_control
(commit 805c293); either can be left out, and its part of the result file then stays as it was.
CARMA's needs transformer-lens 3.9, whose ``HookedTransformer`` it runs (``make test-tl3`` makes
such an environment: ``.venv-tl3/bin/python``). Neither repository starts as it is, since both
import modules that they do not hold: their functions are called, in a copy of the folder, and what
they import beside them is left empty.

Everything runs in one process on one thread, turn about. Times are of the processor, since wall
time says more about what else the machine does; a ratio is theirs over ours, the median of the
turns, with the smallest and largest.

cap
    64 definitions of WordNet, six layers of width 128 with random weights, the same in both; each
    layer by mean, max and sum. Theirs begins at the saved predictions that their code reads; its
    sentence model, which it loads twice for every batch, is replaced by a constant. Ours begins at
    the texts, and ends with the tables; once on the model as ``load_model`` wraps it, once
    (*hooked*) on a ``HookedTransformer`` as theirs is.
losses
    both losses, forward and backward, over the same residuals: 20 tokens, eleven layers, width 768,
    words of one to three tokens. Theirs draws five negatives, ours takes all. *own spans*: their
    code text by text; as it is, it applies the words of every text of a batch to every text.
data
    the 200,000 sequences of their Fig. 3: both orders of six pairs and four pairs of one anchor,
    9 to 1 in training and test keys.
steps
    a training step: model, loss, clipped gradients, AdamW, without their schedule, whose package
    they do not name the version of. Logits are compared first, on copied weights.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import io
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

import interp_compose as ic
from benchmarks.common import (
    RESULTS,
    byte_level,
    load_texts,
    machine,
    middle_and_range,
    quotients,
    turns as turns_of,
    write,
)
from interp_compose import cli
from interp_compose.papers.complexity.studies.anchors.grid import run_of
from interp_compose.papers.complexity.tasks.anchors import AnchorData
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.papers.shared.training.parallel import NextOfSequence, ParallelTrainer
from interp_compose.training.losses import mutual_information_loss, stability_loss

TEMPLATE: Final = ' is called a "'
POOLINGS: Final = ("mean", "max", "sum")
MAX_LENGTH: Final = 58
CAP_SHAPE: Final = {"n_layer": 6, "n_embd": 128, "n_head": 4}
PROMPTS: Final = 64
LAYERS, TOKENS, WIDTH = 11, 20, 768
SIZES: Final = {"xel": 11_250, "xm0": 1_250}
"""Sequences of a pair with training keys, and with test keys."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write ``results/authors.json``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--carma", type=Path, help="a checkout of nura-j/CARMA")
    parser.add_argument("--complexity", type=Path, help="of sjtuzzw/complexity_control")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args(arguments)
    if not (options.carma or options.complexity):
        parser.error("expected --carma, --complexity, or both")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    path = RESULTS / "authors.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if options.carma:
        with copied(options.carma) as folder, carma_modules(folder):
            found["losses"] = noted(losses(options.turns))
            found["cap"] = noted(cap(folder, options.turns))
    if options.complexity:
        with copied(options.complexity / "code_for_anchor_func") as folder:
            found["data"] = noted(data(folder, options.turns))
            found["steps"] = noted(steps(folder, options.turns))
    write("authors", found)


def noted(part: dict[str, Any]) -> dict[str, Any]:
    """Printed, with the machine and how busy it was."""
    print(json.dumps(part, indent=2), flush=True)
    return {**part, "load": round(os.getloadavg()[2], 1), **machine()}


def turns(works: Mapping[str, Callable[[], object]], n: int, warm: int = 1) -> dict[str, Any]:
    """Processor seconds of each work, turn about, and of each over the last one's."""
    taken = turns_of(works, n, warm=warm, core=True)
    *theirs, ours = works
    row: dict[str, Any] = {"turns": n}
    for name, each in taken.items():
        row |= middle_and_range(f"{name}_s", each)
    for name in theirs:
        row |= middle_and_range(f"{name}_ratio", quotients(taken[name], taken[ours]))
    return row


@contextlib.contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """Their files elsewhere, since their code writes beside itself."""
    with tempfile.TemporaryDirectory() as own:
        copy = Path(own) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("results", ".git", "*.pyc"))
        yield copy


class Constant:
    """In the place of their sentence model."""

    def __init__(self, name: str) -> None:
        self.name = name

    def encode(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        return np.ones((len(texts), 2))


def stub(name: str, **contents: Any) -> ModuleType:
    """An empty module with a few names."""
    module = ModuleType(name)
    module.__dict__.update(contents)
    return module


@contextlib.contextmanager
def carma_modules(folder: Path) -> Iterator[None]:
    """Their package ``src`` can be imported, without data sets, stop words and a sentence model."""
    import nltk.corpus

    nothing = dict.fromkeys(("load_dataset", "DatasetDict", "concatenate_datasets"))
    stubs = {
        "datasets": stub("datasets", **nothing),
        "sentence_transformers": stub("sentence_transformers", SentenceTransformer=Constant),
    }
    words = SimpleNamespace(words=lambda language: [])
    with (
        patch.dict(sys.modules, stubs),
        patch.object(nltk.corpus, "stopwords", words),
        patch.object(sys, "path", [str(folder), *sys.path]),
    ):
        yield


# ---- CAP ---------------------------------------------------------------------------------------


def cap(folder: Path, n: int) -> dict[str, Any]:
    """Their ``cap`` and ``cap_curve``: predictions compared, times at batches of 8 and 1."""
    with contextlib.redirect_stdout(io.StringIO()):
        their_cap = importlib.import_module("src.CAP").cap
        loader = importlib.import_module("src.dataset").DatasetLoader
    source, texts = load_texts(4000)
    tokenizer = byte_level(texts, 3000)
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    prompts = [text for text in texts if len(tokenizer(text).input_ids) <= MAX_LENGTH][:PROMPTS]
    config = GPT2Config(
        **CAP_SHAPE, vocab_size=len(tokenizer), n_positions=MAX_LENGTH + 6, initializer_range=0.2
    )
    model = GPT2LMHeadModel(config).eval()
    theirs = hooked(model)
    wrapped = ic.load_model(hooked(model), tokenizer=tokenizer)
    ours = ic.load_model(model, tokenizer=tokenizer)
    answer = next(
        word
        for word, token in sorted(tokenizer.get_vocab().items())
        if word.isalpha() and word.isascii() and tokenizer(word).input_ids == [token]
    )
    items = tokenized(loader, tokenizer, prompts, answer)
    saved = folder / "saved.json"
    saved.write_text(json.dumps(items), encoding="utf-8")
    cells = [*itertools.product(range(config.n_layer), POOLINGS)]

    def by_them(batch_size: int) -> None:
        for layer, pooling in cells:
            with contextlib.redirect_stdout(io.StringIO()):
                their_cap(
                    theirs,
                    tokenizer,
                    correct_predictions_path=str(saved),
                    task_type="idm",
                    start_layer=layer,
                    grouping_protocol=pooling,
                    batch_size=batch_size,
                )

    def by_us(model: Any) -> ic.CapCurve:
        examples = [ic.Example(prompt, answer) for prompt in prompts]
        return ic.cap_curve(
            model, examples, unit="pretoken", pooling=POOLINGS, controls=False, progress=False
        )

    with torch.no_grad():
        by_them(8)
        predicted = their_predictions(folder, items, cells)
        outcomes = by_us(ours).outcomes.set_index(["layer", "pooling", "example"])["prediction"]
        same = [
            tokenizer.decode(int(outcomes[layer, pooling, i]), skip_special_tokens=True) == text
            for (layer, pooling), row in predicted.items()
            for i, text in enumerate(row)
        ]
        rows = {}
        for batch_size in (8, 1):
            works = {
                "theirs": partial(by_them, batch_size),
                "hooked": partial(by_us, wrapped),
                "ours": partial(by_us, ours),
            }
            rows[f"batch_{batch_size}"] = turns(works, n)
    kinds = len({text for row in predicted.values() for text in row})
    about = {"texts": source, "prompts": len(prompts), **CAP_SHAPE, "distinct": kinds}
    return {**about, "compared": len(same), "equal": sum(same), **rows}


def hooked(model: GPT2LMHeadModel) -> Any:
    """The same weights as their code would hold them, unprocessed."""
    try:
        from transformer_lens import HookedTransformer, HookedTransformerConfig
    except ImportError as error:
        raise SystemExit("CAP side by side needs transformer-lens 3.9: .venv-tl3") from error
    from transformer_lens.pretrained.weight_conversions import convert_gpt2_weights

    config = model.config
    cfg = HookedTransformerConfig(
        n_layers=config.n_layer,
        d_model=config.n_embd,
        n_heads=config.n_head,
        d_head=config.n_embd // config.n_head,
        d_mlp=4 * config.n_embd,
        n_ctx=config.n_positions,
        d_vocab=config.vocab_size,
        act_fn="gelu_new",
        normalization_type="LN",
        eps=config.layer_norm_epsilon,
        original_architecture="GPT2LMHeadModel",
        device="cpu",
    )
    theirs = HookedTransformer(cfg)
    state = convert_gpt2_weights(model, cfg)
    missing, unexpected = theirs.load_state_dict(state, strict=False)
    assert not unexpected
    assert all(name.endswith(("mask", "IGNORE", "b_U")) for name in missing), missing
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        assert torch.allclose(theirs(tokens), model(tokens).logits, atol=1e-3)
    return theirs.eval()


def tokenized(loader: Any, tokenizer: Any, prompts: Sequence[str], answer: str) -> list[Any]:
    """The prompts as their code reads them back from its file of right predictions."""
    own = loader.__new__(loader)
    own.tokenizer, own.max_length = tokenizer, MAX_LENGTH
    own.dataset_name, own.model_name = "idm", "GPT2"
    rows = [{"definition": text.removesuffix(TEMPLATE), "word": answer} for text in prompts]
    names = ("start_idx", "end_idx", "token_ids", "token_texts", "original_word")
    items = []
    for item in own.tokenize_data(rows):
        spans = item["annotations"]["token_spans"]
        items.append(
            {
                "input_ids": item["input_ids"].tolist(),
                "label": item["labels"].tolist(),
                "attention_mask": item["attention_mask"].tolist(),
                "annotations": {
                    "token_spans": [{name: getattr(one, name) for name in names} for one in spans],
                    "reduction_percentage": item["annotations"]["reduction_percentage"],
                },
            }
        )
    assert len(items) == len(prompts)
    return items


def their_predictions(
    folder: Path, items: Sequence[Any], cells: Sequence[tuple[int, str]]
) -> dict[tuple[int, str], list[str]]:
    """Read from the files that ``cap`` wrote, which hold texts grouped by their words."""
    groups: dict[int, list[int]] = {}
    for i, item in enumerate(items):
        groups.setdefault(len(item["annotations"]["token_spans"]), []).append(i)
    order = [i for group in groups.values() for i in group]
    found = {}
    for layer, pooling in cells:
        (path,) = folder.glob(f"results/**/*_{pooling}_*_starting_{layer}.json")
        batches = json.loads(path.read_text(encoding="utf-8"))[:-1]  # without the summary
        texts = [text for batch in batches for (text,) in batch["grouped_predictions"]]
        by_prompt = dict(zip(order, texts, strict=True))
        found[layer, pooling] = [by_prompt[i] for i in range(len(items))]
    return found


# ---- the losses --------------------------------------------------------------------------------


def losses(n: int) -> dict[str, Any]:
    """Both losses, forward and backward, at batches of 8 and 1."""
    module = importlib.import_module("src.optm_losses")
    return {
        "layers": LAYERS,
        "tokens": TOKENS,
        "d_model": WIDTH,
        **{f"batch_{size}": losses_at(module, size, n) for size in (8, 1)},
    }


def losses_at(module: ModuleType, batch: int, n: int) -> dict[str, Any]:
    """One batch size."""
    rng = random.Random(0)
    word_ids = torch.full((batch, TOKENS), -1)
    spans: list[list[Any]] = []
    for row in range(batch):
        ends = [0, *itertools.accumulate(rng.randint(1, 3) for _ in range(TOKENS))]
        ends = [end for end in ends if end < TOKENS] + [TOKENS]
        spans.append([SimpleNamespace(start_idx=a, end_idx=b) for a, b in itertools.pairwise(ends)])
        for word, span in enumerate(spans[-1]):
            word_ids[row, span.start_idx : span.end_idx] = word
    resid = torch.randn(LAYERS, batch, TOKENS, WIDTH, requires_grad=True)
    mi = module.MILoss(0, LAYERS - 1, max_length=TOKENS)
    stability = module.StabilityLoss(0, LAYERS - 1)

    def cache(rows: slice) -> dict[str, Tensor]:
        return {f"transformer.h.{layer}": resid[layer, rows] for layer in range(LAYERS)}

    def as_it_is() -> None:
        own = cache(slice(None))
        total = mi.calculate_mi_loss(own, spans) + stability.calculate_loss(own)
        torch.autograd.grad(total, resid)

    def own_spans() -> None:
        rows = range(batch)
        each = [mi.calculate_mi_loss(cache(slice(r, r + 1)), spans[r : r + 1]) for r in rows]
        total = torch.stack(each).mean() + stability.calculate_loss(cache(slice(None)))
        torch.autograd.grad(total, resid)

    def ours() -> None:
        total = mutual_information_loss(resid, word_ids) + stability_loss(resid, word_ids >= 0)
        torch.autograd.grad(total, resid)

    exact = resid.detach().double()
    streams = {f"transformer.h.{layer}": exact[layer] for layer in range(LAYERS)}
    everywhere = torch.ones(batch, TOKENS, dtype=torch.bool)
    both = float(stability.calculate_loss(streams)), float(stability_loss(exact, everywhere))
    works = {"as_it_is": as_it_is, "own_spans": own_spans, "ours": ours}
    if batch == 1:
        del works["own_spans"]
    return {"stability_theirs": both[0], "stability_ours": both[1], **turns(works, n)}


# ---- anchor functions --------------------------------------------------------------------------


def loaded(folder: Path, name: str, **stubs: ModuleType) -> ModuleType:
    """One of their files, with empty modules in the place of what is missing beside it."""
    spec = importlib.util.spec_from_file_location(f"theirs.{name}", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.dict(sys.modules, stubs):
        spec.loader.exec_module(module)
    return module


def data(folder: Path, n: int) -> dict[str, Any]:
    """Their generator and ``AnchorTask``: the same numbers of sequences of each kind."""
    package = stub("data_generator", __path__=[str(folder / "data_generator")])
    with patch.dict(sys.modules, {"data_generator": package}):
        generate = importlib.import_module("data_generator.composition").task_composition
    args = SimpleNamespace(data_min=20, data_max=100, seq_len=9)
    task = ic.complexity.AnchorTask(modulus="code")
    pairs = [*itertools.product((1, 2, 3, 4), repeat=2)]
    seen = len(pairs) - len(task.unseen)
    sizes = {
        "train": seen * SIZES["xel"],
        "id": seen * SIZES["xm0"],
        "ood": len(task.unseen) * sum(SIZES.values()),
    }

    def theirs() -> list[Tensor]:
        groups = [
            generate(args, f"{a}{b}_{kind}", size)
            for (a, b), (kind, size) in itertools.product(pairs, SIZES.items())
        ]
        return [torch.from_numpy(np.array(group, dtype=np.int64)) for group in groups]

    def ours() -> list[AnchorData]:
        return [task.sample(split, size, seed=0) for split, size in sizes.items()]

    both = sum(map(len, theirs())), sum(map(len, ours()))
    assert both[0] == both[1], both
    right = 0
    for (a, b), group in zip(pairs, theirs()[::2], strict=True):
        chain = "abcd"[a - 1], "abcd"[b - 1]
        for row in group[:200].tolist():
            key = row[next(i for i, token in enumerate(row) if token < 20) - 1]
            right += row[-1] == task.apply(key, chain)
    about = {"sequences": both[0], "targets_compared": 200 * len(pairs), "targets_equal": right}
    return {**about, **turns({"theirs": theirs, "ours": ours}, n)}


def steps(folder: Path, n: int) -> dict[str, Any]:
    """Training steps of their Fig. 3 model and of one of this library's default size."""
    empty = ("model", "utils", "data")
    stubs = {name: stub(name) for name in empty}
    stubs["warmup_scheduler"] = stub("warmup_scheduler", GradualWarmupScheduler=None)
    train_step = loaded(folder, "train", **stubs).train_step
    build = loaded(folder / "model", "GPT2_init_for_diff_part_prenorm")
    theirs = cli._parsed(["phases", "--paper", "fig3-code"])
    small = ic.complexity.PhaseRun(
        norm="query", fan_in="d_model", scale_writers=True, modulus="code"
    )
    return {
        "fig3": step_of(train_step, build, run_of(theirs.run, theirs.preset()), 256, 1, n),
        "default": step_of(train_step, build, small, 256, 20, n),
    }


def step_of(
    train_step: Callable[..., float],
    build: ModuleType,
    run: ic.complexity.PhaseRun,
    batch: int,
    repeats: int,
    n: int,
) -> dict[str, Any]:
    """A step of one shape: theirs and ours from the same weights, on the same sequences."""
    model, theirs = pair_of(build, run)
    samples = run.task.sample("train", batch, seed=0)
    outputs = torch.cat([samples.tokens[:, 1:], samples.targets[:, None]], dim=1)
    loader = [(samples.tokens, outputs)] * repeats
    with torch.no_grad():
        logits = theirs(samples.tokens)[0].unflatten(0, (batch, -1))[:, -1]
        apart = float((logits - model.last_logits(samples.tokens)).abs().max())
    args = SimpleNamespace(model="GPT", seq_len=run.task.length, vocab_size=logits.shape[-1])
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-5, eps=1e-8, weight_decay=0.01)
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    objective = NextOfSequence(samples.tokens[None], samples.targets[None], (0,))
    trainer = ParallelTrainer([model], [0.01], objective, run.train_config())

    def by_them() -> None:
        train_step(args, theirs, loader, optimizer, criterion, "cpu")

    def by_us() -> None:
        for _ in range(repeats):
            trainer.update(samples.tokens[None], samples.targets[None], lr=1e-5)

    weights = sum(weight.numel() for weight in model.parameters())
    about = {"batch": batch, "steps": repeats, "weights": weights, "logits_apart": apart}
    return {**about, **turns({"theirs": by_them, "ours": by_us}, n)}


def pair_of(build: ModuleType, run: ic.complexity.PhaseRun) -> tuple[SmallDecoder, Any]:
    """This library's model as it starts, and theirs with its weights."""
    model = run.model(run.task)
    cfg = model.cfg
    d_head = cfg.d_head or cfg.d_model // cfg.n_heads
    rates = dict.fromkeys(("embedding_std", "qk_std", "vo_std", "mlp_std"), run.init_rate)
    args = SimpleNamespace(
        n_heads=cfg.n_heads,
        d_k=d_head,
        d_v=d_head,
        d_model=cfg.d_model,
        n_layers=cfg.n_layers,
        d_feedforward=cfg.d_mlp,
        vocab_size=cfg.d_vocab,
        max_pos=cfg.n_ctx,
        **rates,
    )
    theirs = build.myGPT2_init_for_diff_part_prenorm(args, "cpu")
    taken = {
        "embedding.tgt_emb.weight": model.embed.W_E,
        "embedding.pos_emb.weight": model.pos_embed.W_pos,
        "projection.weight": model.unembed.W_U.mT,
        "projection.bias": model.unembed.b_U,
        "layernorm.weight": model.ln_final.w,
        "layernorm.bias": model.ln_final.b,
    }
    for i, block in enumerate(model.blocks):
        attn, mlp = f"decoder.layers.{i}.dec_self_attn", f"decoder.layers.{i}.pos_ffn"
        for name in "QKV":
            weight, bias = getattr(block.attn, f"W_{name}"), getattr(block.attn, f"b_{name}")
            taken[f"{attn}.W_{name}.weight"] = weight.transpose(1, 2).flatten(0, 1)
            taken[f"{attn}.W_{name}.bias"] = bias.flatten()
        taken[f"{attn}.fc.weight"] = block.attn.W_O.flatten(0, 1).mT
        taken[f"{attn}.fc.bias"] = block.attn.b_O
        taken |= {f"{mlp}.fc.0.weight": block.mlp.W_in.mT, f"{mlp}.fc.0.bias": block.mlp.b_in}
        taken |= {f"{mlp}.fc.2.weight": block.mlp.W_out.mT, f"{mlp}.fc.2.bias": block.mlp.b_out}
        for at, norm in ((attn, block.ln1), (mlp, block.ln2)):
            taken |= {f"{at}.layernorm.weight": norm.w, f"{at}.layernorm.bias": norm.b}
    theirs.load_state_dict({name: weight.detach().clone() for name, weight in taken.items()})
    return model, theirs


if __name__ == "__main__":
    main()
