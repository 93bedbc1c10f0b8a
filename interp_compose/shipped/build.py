"""Makes the shipped models again: ``python -m interp_compose.shipped.build --out FOLDER``.

One tokenizer, a language model of the miniature world (``mini-base``), and the same model tuned
on the training split of ``mini-idm`` (``mini-idm``); the figures are in the README beside this
file. Everything follows from the seed; another machine or another number of threads adds up in
another order and so ends elsewhere, within the spread that the README states.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from interp_compose.runs.checksums import SUMS, digests_of, write_sums
from interp_compose.runs.files import temporary_folder
from interp_compose.shipped.corpus import base_corpus, idm_lines, words_and_grammar
from interp_compose.shipped.tokenizer import train_tokenizer
from interp_compose.shipped.training import Row, accuracy, train
from interp_compose.tasks.mini.idm import definitions
from interp_compose.tasks.sst import LABELS

N_CTX = 64


@dataclass(frozen=True)
class BuildConfig:
    """What the shipped models were made with."""

    seed: int = 0
    n_layers: int = 4
    d_model: int = 128
    n_heads: int = 4
    batch_size: int = 64
    base_steps: int = 1200
    base_lr: float = 2e-3
    idm_steps: int = 800
    idm_lr: float = 1e-3
    called_share: float = 0.35
    """Of the training definitions, how many ``mini-base`` reads in the phrasing of the task."""


def build(out: Path, config: BuildConfig, *, quiet: bool = False) -> dict[str, float]:
    """Write the folders ``mini-base`` and ``mini-idm`` into ``out``; returns their accuracies.

    Exact match of the answer over the whole vocabulary, on the test split of ``mini-idm``. A
    folder appears whole, with the checksums of its files, or not at all.
    """
    torch.manual_seed(config.seed)
    answers = [*(one.answer for one in definitions()), *LABELS]
    tokenizer = train_tokenizer(*words_and_grammar(), answers, N_CTX)
    model = GPT2LMHeadModel(_architecture(config, len(tokenizer)))
    test = _encoded(tokenizer, idm_lines("test"))
    figures: dict[str, float] = {}
    for name, lines, steps, lr in (
        (
            "mini-base",
            base_corpus(config.seed, config.called_share),
            config.base_steps,
            config.base_lr,
        ),
        ("mini-idm", idm_lines("train"), config.idm_steps, config.idm_lr),
    ):
        train(
            model,
            _encoded(tokenizer, lines),
            steps=steps,
            batch_size=config.batch_size,
            lr=lr,
            seed=config.seed,
            label=name,
            quiet=quiet,
        )
        figures[name] = accuracy(model, test)
        save_folder(model, tokenizer, out / name)
    return figures


def save_folder(model: Any, tokenizer: Any, folder: Path) -> None:
    """Model, tokenizer and ``SHA256SUMS`` under a temporary name, which then becomes ``folder``."""
    with temporary_folder(folder.parent) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        (temporary / "generation_config.json").unlink(missing_ok=True)
        files = sorted(temporary.iterdir())
        for file in files:
            file.chmod(0o644)
        write_sums(temporary / SUMS, digests_of(temporary, [file.name for file in files]))
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(temporary, folder)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line: prints the figures as JSON."""
    parser = argparse.ArgumentParser(description="Make the shipped models again.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the two model folders")
    parser.add_argument("--seed", type=int, default=0, help="of weights and order (default 0)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # so that sums are added in one order
    logging.disable_progress_bar()
    print(json.dumps(build(options.out, BuildConfig(seed=options.seed))))


def _architecture(config: BuildConfig, vocabulary: int) -> GPT2Config:
    return GPT2Config(
        vocab_size=vocabulary,
        n_positions=N_CTX,
        n_embd=config.d_model,
        n_layer=config.n_layers,
        n_head=config.n_heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )


def _encoded(tokenizer: Any, lines: Sequence[str]) -> list[Row]:
    rows: list[Row] = tokenizer(list(lines))["input_ids"]
    return rows


if __name__ == "__main__":
    main()
