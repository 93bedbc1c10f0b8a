"""What a post-LN model of one head needs to reason when it starts small.

At γ = 0.8, where the pre-LN model reasons and the paper's post-LN model does too (Figs 4, 5A and
5B, d_model 400), the small post-LN model mostly stops in phase 2 with commutativity. Each variant
changes one thing, over seeds from 400 on, which are the same for all::

    python -m benchmarks.post_ln --out out/post_ln

``attention_share`` is how large what attention adds is at the start, beside the stream that it is
added to: the mean over layers of the ratio of their root mean squares.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch

import interp_compose as ic
from benchmarks.anchor_runs import finished, keep, last_look
from benchmarks.common import machine, write
from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.anchors.phase import phase_of

SMALL: Final = 0.8
LARGE: Final = 0.5
BASE: Final = {"norm": "post", "init_rate": SMALL, "weight_decay": 0.01}
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "pre-LN": {"norm": "pre"},
    "post-LN": {},
    "not clipped": {"clip": None},
    "ReLU, biases of the unembedding alone": {"act": "relu", "biases": "unembed"},
    "d_model 128": {"d_model": 128},
    "peak learning rate 1e-3": {"lr": 1e-3},
    "4 layers": {"n_layers": 4},
    "3000 steps": {"steps": 3000},
    "20,000 samples, 3000 steps": {"samples": 20_000, "steps": 3000},
    "embeddings at γ 0.5": {"large": "embed"},
    "QK at γ 0.5": {"large": "qk"},
    "VO at γ 0.5": {"large": "vo"},
    "MLP at γ 0.5": {"large": "mlp"},
    "everything at γ 0.5": {"init_rate": LARGE},
    "VO at γ 0.5, not clipped": {"large": "vo", "clip": None},
    "everything at γ 0.5, not clipped": {"init_rate": LARGE, "clip": None},
}


def train(config: Mapping[str, Any], folder: Path) -> None:
    """One run; the last look into ``folder``."""
    options = {**config}
    large = options.pop("large", None)
    run = ic.complexity.PhaseRun(**options)
    task = run.task
    model = run.model(task)
    if large is not None:
        rates = dict.fromkeys(("embed", "qk", "vo", "mlp"), run.init_rate)
        rates[large] = LARGE
        init_weights(model, ic.complexity.InitRates(**rates), seed=run.stream("init"))
    share = attention_share(SmallDecoderModel(model, name="start"), task)
    keep(folder, {**last_look(run, task, model), "attention_share": share})


@torch.no_grad()
def attention_share(model: SmallDecoderModel, task: ic.complexity.AnchorTask) -> float:
    """What attention adds, over what it is added to."""
    tokens = task.sample("train", 64, seed=0).tokens
    names = [
        f"blocks.{k}.hook_{what}"
        for k in range(model.n_layers)
        for what in ("attn_out", "resid_pre")
    ]
    _, found = model.capture(tokens, names)
    rms = [found[name].square().mean().sqrt() for name in names]
    return float(torch.stack([a / b for a, b in zip(rms[::2], rms[1::2], strict=True)]).mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print, and write ``results/post_ln.json``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=400)
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    asked = [(name, seed) for name in VARIANTS for seed in seeds]
    configs = [{**BASE, **VARIANTS[name], "seed": seed} for name, seed in asked]
    looks = finished("benchmarks.post_ln:train", configs, options.out)
    rows = []
    for (name, seed), last in zip(asked, looks, strict=True):
        shares = {key: last[key] for key in ("train", "id", "ood", "commutativity")}
        kept = {key: last[key] for key in ("stable_rank", "attention_share")}
        rows.append({"variant": name, "seed": seed, "phase": phase_of(**shares), **shares, **kept})
    print(
        pd.DataFrame(rows)
        .drop(columns="seed")
        .groupby("variant", sort=False)
        .agg(
            {
                "phase": " ".join,
                **dict.fromkeys(
                    ("id", "ood", "commutativity", "stable_rank", "attention_share"), "mean"
                ),
            }
        )
        .round(3)
        .to_string()
    )
    write("post_ln", {"runs": rows, **machine()})


if __name__ == "__main__":
    main()
