"""What masking attention costs and leaks, and what a sweep of knockouts saves.

GPT-2 small's shape, random weights, eager attention. In one run and turn about:

masking
    a forward pass under ``mask_attention`` (one key knocked out for every query in all layers and
    heads), over a plain one with the same eager attention, by batch and length;
words × layers
    one sentence of 20 words, a token each, after a BOS: every word knocked out from every layer on
    by ``ablation_sweep``, over one hooked forward pass per cell (a hook on
    ``attn.hook_attn_scores`` of each layer); ``--cells`` of the 240 are run and their time is
    scaled up;
heads × layers
    the same for every head at every layer, zero-ablated at ``attn.hook_z``;
leaks
    ``attention_leak`` with a key knocked out everywhere, on small random-weight models of four
    architectures and on the shipped ``mini-idm``, one content word of each of 64 test prompts:
    before the softmax ("exclude") and after it ("zero", as complexity control does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import Any

import torch
import transformers
from torch import Tensor

from benchmarks.common import Ratio, gpu, machine, median_and_range, quotients, timed, turns
from interp_compose.interventions.ablation_sweep import (
    Ablation,
    AttentionKnockout,
    HeadAblation,
    ablation_sweep,
)
from interp_compose.interventions.leak import Leak, attention_leak
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.memory import chunk_tokens
from interp_compose.studies.core.inputs import prepare_all
from interp_compose.studies.core.options import PromptOptions
from interp_compose.tasks.load import load_task
from interp_compose.text.tagging import tagger_of, unit_tags

SHAPES = ((8, 20), (1, 20), (4, 64), (1, 256))
WORDS = 20
SMALL = {
    "vocab_size": 97,
    "hidden_size": 40,
    "intermediate_size": 53,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
}


def benchmark(
    device: str = "cpu", repeats: int = 9, cells: int = 24, quick: bool = False
) -> dict[str, Any]:
    """``circuits_{device}``; ``cells`` are hooked passes of a turn."""
    repeats = 3 if quick else repeats
    model = small_gpt2(device)
    masks = [masking(model, batch, length, repeats) for batch, length in SHAPES]
    sweeps = {
        "words": sweep(model, words_out(model), repeats, cells),
        "heads": sweep(model, heads_out(model), repeats, cells),
    }
    leaks = measured_leaks()
    for name, row in leaks.items():
        print(f"leak, {name}: {row}")
    content = {
        "shape": "gpt2-small",
        "repeats": repeats,
        "cells_run": cells,
        "masking": masks,
        **{f"{name}_by_layers": row for name, row in sweeps.items()},
        "leaks": leaks,
        "device": device,
        "threads": torch.get_num_threads(),
        **gpu(device),
        **machine(),
    }
    return {f"circuits_{device}": content}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    rows = [
        Ratio(
            f"masking (`{mode}`), {row['batch']} × {row['tokens']} tokens",
            *each.values(),
            peer="a plain pass",
        )
        for row in content["masking"]
        for mode, each in row["ratio"].items()
    ]
    for what in ("words", "heads"):
        row = content[f"{what}_by_layers"]
        peer = f"{row['cells'] * row['layers']} hooked passes"
        rows.append(Ratio(f"{what} × layers", *row["ratio"].values(), peer=peer))
    return rows


def small_gpt2(device: str) -> LensModel:
    """GPT-2 small's shape with random weights."""
    torch.manual_seed(0)
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    model = load_model(gpt2.to(device))
    model.require("mask_attention", "resume")
    return model


@torch.no_grad()
def masking(model: LensModel, batch: int, length: int, repeats: int) -> dict[str, Any]:
    """A masked forward pass over a plain one."""
    tokens = torch.randint(0, model.d_vocab, (batch, length), device=model.device)
    row: dict[str, Any] = {"batch": batch, "tokens": length, "ratio": {}}
    for mode in ("exclude", "zero"):
        plain, masked = [], []
        for turn in range(repeats + 1):
            one = timed(lambda: model(tokens), 1, model.device.type)
            with mask_attention(model, keys=2, mode=mode):
                two = timed(lambda: model(tokens), 1, model.device.type)
            if turn:  # the first warms up
                plain.append(one)
                masked.append(two)
        row |= {f"plain_s_{mode}": median(plain), f"masked_s_{mode}": median(masked)}
        row["ratio"][mode] = median_and_range(quotients(masked, plain))
    return row


Cells = tuple[Ablation, Callable[[int, int], list[tuple[str, Any]]]]
"""A sweep's knockouts, and the hooks that do the same for one cell at one layer."""


def words_out(model: LensModel) -> Cells:
    """Each of 20 words hidden from later positions, in a layer and all above."""
    keys = torch.zeros(WORDS, WORDS + 1, dtype=torch.bool, device=model.device)
    queries = torch.zeros_like(keys)
    for word in range(WORDS):
        keys[word, word] = True
        queries[word, word + 1 :] = True

    def hooks(word: int, layer: int) -> list[tuple[str, Any]]:
        def cut(scores: Tensor, hook: Any) -> Tensor:
            scores = scores.clone()
            scores[:, :, word + 1 :, word] = torch.finfo(scores.dtype).min
            return scores

        return [(f"blocks.{k}.attn.hook_attn_scores", cut) for k in range(layer, model.n_layers)]

    row = torch.zeros(WORDS, dtype=torch.long, device=model.device)
    return AttentionKnockout(row, keys, queries, True), hooks


def heads_out(model: LensModel) -> Cells:
    """Each head of a layer set to zero."""
    heads = torch.arange(model.n_heads, device=model.device)

    def hooks(head: int, layer: int) -> list[tuple[str, Any]]:
        def silence(z: Tensor, hook: Any) -> Tensor:
            z = z.clone()
            z[:, :, head] = 0.0
            return z

        return [(f"blocks.{layer}.attn.hook_z", silence)]

    return HeadAblation(torch.zeros_like(heads), heads, {}), hooks


@torch.no_grad()
def sweep(model: LensModel, cells: Cells, repeats: int, n_run: int) -> dict[str, Any]:
    """All cells at all layers by one sweep, over one hooked forward pass each."""
    knockout, hooks = cells
    n_cells, n_layers = len(knockout.row), model.n_layers
    tokens = torch.randint(0, model.d_vocab, (1, WORDS + 1), device=model.device)
    mask = torch.ones_like(tokens)
    names = [f"blocks.{layer}.hook_resid_pre" for layer in range(n_layers)]
    reach = "from" if isinstance(knockout, AttentionKnockout) else "at"

    def swept() -> Tensor:
        _, resid = model.capture(tokens, names, read="last")
        return ablation_sweep(
            model,
            lambda layer: resid[names[layer]],
            mask,
            model.positions(tokens, mask),
            knockout,
            range(n_layers),
            lambda logits, row: logits[:, -1],
            reach=reach,
            max_tokens=chunk_tokens(model, WORDS + 1, logits=1),
        )

    # Every (cell, layer) has the same chance; a fixed step visits cells and layers evenly.
    chosen = [(i * 7 % n_cells, i * 5 % n_layers) for i in range(n_run)]

    def hooked(cell: int, layer: int) -> Tensor:
        return model.run_with_hooks(tokens, hooks(cell, layer))[:, -1]

    after = swept()
    for cell, layer in chosen[:6]:
        torch.testing.assert_close(after[layer, cell], hooked(cell, layer)[0], atol=1e-4, rtol=1e-4)
    works = {"sweep": swept, "hooked": lambda: [hooked(*place) for place in chosen]}
    times = turns(works, repeats, model.device.type, warm=0)
    all_hooked = [taken / n_run * n_cells * n_layers for taken in times["hooked"]]
    return {
        "cells": n_cells,
        "layers": n_layers,
        "sweep_s": median(times["sweep"]),
        "hooked_s": median(all_hooked),
        "ratio": median_and_range(quotients(times["sweep"], all_hooked)),
    }


def measured_leaks() -> dict[str, dict[str, Any]]:
    """By model: the largest move of a logit under each mode, and without a mask."""
    configs = {
        "GPT-2": transformers.GPT2Config(
            vocab_size=97, n_embd=40, n_layer=3, n_head=4, initializer_range=0.2
        ),
        "Llama": transformers.LlamaConfig(**SMALL),
        "Qwen2": transformers.Qwen2Config(**SMALL),
        "Gemma": transformers.GemmaConfig(**SMALL, head_dim=14),
        "OPT": transformers.OPTConfig(
            vocab_size=97,
            hidden_size=40,
            ffn_dim=53,
            num_hidden_layers=3,
            num_attention_heads=4,
            init_std=0.2,
            word_embed_proj_dim=40,
        ),
    }
    leaks = {}
    for name, config in configs.items():
        torch.manual_seed(0)
        model = load_model(transformers.AutoModelForCausalLM.from_config(config).eval())
        tokens = torch.randint(3, 97, (4, 9), generator=torch.Generator().manual_seed(1))
        leaks[f"random {name}"] = leaks_of(model, [(tokens, torch.arange(9).eq(3).expand(4, -1))])
    return leaks | {"mini-idm": trained_leak()}


def trained_leak() -> dict[str, Any]:
    """The shipped model, a content word of each of 64 test prompts hidden."""
    model = load_model("mini-idm", device="cpu")
    task = load_task("mini-idm", model)
    items = prepare_all(model, task.test[:64], PromptOptions())
    kinds = tagger_of("kind")
    rows = []
    for item in items:
        content = [
            unit for unit, kind in enumerate(unit_tags(item.prompt, kinds)) if kind == "content"
        ]
        hidden = torch.from_numpy(item.prompt.groups == content[0])[None]
        rows.append((torch.from_numpy(item.prompt.ids)[None], hidden))
    return leaks_of(model, rows)


def leaks_of(model: LensModel, rows: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    """Over texts, each with the positions to hide."""
    leaks: dict[str, list[Leak]] = {
        mode: [attention_leak(model, tokens, keys=keys, mode=mode) for tokens, keys in rows]
        for mode in ("exclude", "zero")
    }
    return {
        "texts": sum(len(tokens) for tokens, _ in rows),
        **{f"{mode}_largest": max(leak.largest for leak in each) for mode, each in leaks.items()},
        **{f"{mode}_changed": mean(leak.changed for leak in each) for mode, each in leaks.items()},
        "unmasked_largest": max(leak.unmasked for leak in leaks["zero"]),
        "unmasked_changed": mean(leak.unmasked_changed for leak in leaks["zero"]),
    }
