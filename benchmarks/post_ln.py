"""What a post-LN model of one head needs to reason when it starts small: run ``post_ln``.

``attention_share`` is how large what attention adds is at the start, beside the stream that it is
added to: the mean over layers of the ratio of their root mean squares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch

import interp_compose as ic
from benchmarks.anchor_runs import SHARES, finished, keep, last_look
from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.anchors.phase import phase_of

LARGE: Final = 0.5
"""The init rate of a part that starts large."""


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
    _, residuals = model.capture(tokens, names)
    rms = [residuals[name].square().mean().sqrt() for name in names]
    return float(torch.stack([a / b for a, b in zip(rms[::2], rms[1::2], strict=True)]).mean())


def measured(
    folder: Path,
    base: Mapping[str, Any],
    variants: Mapping[str, Mapping[str, Any]],
    seeds: Sequence[int],
) -> dict[str, Any]:
    """What each variant of the ``base`` run comes to; TOML has no None, and a norm to which
    gradients are clipped may be inf."""
    places = [(name, seed) for name in variants for seed in seeds]
    configs = [{**base, **variants[name], "seed": seed} for name, seed in places]
    for config in configs:
        if config.get("clip") == math.inf:
            config["clip"] = None
    rows = []
    for (name, seed), last in zip(
        places, finished("benchmarks.post_ln:train", configs, folder), strict=True
    ):
        shares = {key: last[key] for key in SHARES}
        kept = {key: last[key] for key in ("stable_rank", "attention_share")}
        rows.append({"variant": name, "seed": seed, "phase": phase_of(**shares), **shares, **kept})
    means = ("id", "ood", "commutativity", "stable_rank", "attention_share")
    by_variant = pd.DataFrame(rows).groupby("variant", sort=False)
    print(by_variant.agg({"phase": " ".join, **dict.fromkeys(means, "mean")}).round(3).to_string())
    return {"runs": rows}
