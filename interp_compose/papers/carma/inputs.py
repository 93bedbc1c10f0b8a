"""What the runs of a comparison read, on disk, so that other processes can do them.

Below the comparison's folder, ``inputs/<hash of its settings>/``: ``inputs.json``, the encoded
examples and the model's configuration; ``weights.safetensors`` and the tokenizer's files;
``seed<n>.json``, the test prompts of a seed with their synonyms. Each is written once, and checked
where it is read: JSON by a digest of its own, weights and tokenizer by the SHA-256 of weights and
test prompts in the settings, and the model by what it computes. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from interp_compose.errors import CapabilityError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.weights import load_weights, save_weights
from interp_compose.papers.carma.plan import ComparePlan, Replacement, plan_of_test
from interp_compose.runs.checksums import read_signed, write_signed
from interp_compose.runs.files import differences, make_folder, plain_json
from interp_compose.tasks.task import Task
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig
from interp_compose.training.data import TrainingExample
from interp_compose.types import Example

INPUTS: Final = "inputs.json"
WEIGHTS: Final = "weights.safetensors"
TOKENIZER: Final = "tokenizer"
PROBED: Final = 8
"""Tokens on which the model that was read has to compute what the written one did."""


def write_inputs(plan: ComparePlan, folder: Path) -> None:
    """Write what is missing of them.

    Raises:
        CapabilityError: a model that cannot be built again from its configuration and weights.
        OutputError: the folder cannot be written to.
    """
    make_folder(folder)
    for seed in plan.config["seeds"]:
        replaced = [
            {"rate": one.rate, "items": _rows(one.items), "changed": one.changed.tolist()}
            for one in plan.replaced
            if one.seed == seed
        ]
        write_signed(folder / f"seed{seed}.json", replaced)
    if (folder / INPUTS).exists():
        return
    model = plan.model
    original: Any = getattr(model.lens, "original_model", None)
    if not hasattr(original, "config"):
        raise _cannot_be_built(model, "it holds no Hugging Face model")
    save_weights(model, folder / WEIGHTS)
    model.tokenizer.save_pretrained(folder / TOKENIZER)
    record = {
        "model": {
            "name": model.name,
            "config": plain_json(original.config.to_dict(), "the model's config"),
            "attention": getattr(original.config, "_attn_implementation", None),
            "logits": _probe(model),
        },
        "task": plan.task,
        "train": _rows(plan.train),
        "validation": _rows(plan.validation),
        "test": [asdict(one) for one in plan.test],
        "cap": plain_json(plan.cap.config, "config"),
    }
    write_signed(folder / INPUTS, record)


def read_inputs(folder: Path, config: Mapping[str, Any]) -> ComparePlan:
    """The plan of one run, whose ``config`` names version and seeds.

    Raises:
        CorruptFileError: a file is missing or was altered.
        CapabilityError: the model that was read computes something else than the one written.
    """
    record = read_signed(folder / INPUTS)
    model = _read_model(folder, record["model"], config)
    test = [Example(**{**row, "spans": _spans(row["spans"])}) for row in record["test"]]
    answers = config["answers"] if isinstance(config["answers"], str) else tuple(config["answers"])
    task = Task(record["task"], "", (), (), tuple(test), {})
    cap = plan_of_test(model, task, config["layers"], answers)
    size = {"batch_size": None}  # depends on the machine's memory, and decides nothing
    mismatch = differences({**record["cap"], **size}, {**plain_json(cap.config, "config"), **size})
    if mismatch:
        raise _cannot_be_built(model, mismatch)
    replaced = [
        Replacement(seed, one["rate"], _items(one["items"]), np.array(one["changed"], dtype=bool))
        for seed in config["seeds"]
        for one in read_signed(folder / f"seed{seed}.json")
    ]
    settings = config["carma"].items()  # JSON has no tuples
    carma: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in settings}
    return ComparePlan(
        model=model,
        task=record["task"],
        train=_items(record["train"]),
        validation=_items(record["validation"]),
        test=test,
        cap=cap,
        training=TrainConfig(**config["train"]),
        carma=CarmaConfig(**carma),
        replaced=replaced,
        config=config,
    )


def _read_model(folder: Path, record: Mapping[str, Any], config: Mapping[str, Any]) -> LensModel:
    """The model on the device and in the dtype that ``config`` names."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    settings = AutoConfig.for_model(**record["config"])
    built = AutoModelForCausalLM.from_config(settings, attn_implementation=record["attention"])
    built = built.to(config["device"], getattr(torch, config["dtype"])).eval()
    model = load_model(built, tokenizer=AutoTokenizer.from_pretrained(folder / TOKENIZER))
    model.name = record["name"]
    load_weights(model, folder / WEIGHTS)
    for name, weight in model.lens.named_parameters():
        weight.requires_grad_(name not in config["frozen"])
    if not np.allclose(_probe(model), record["logits"], rtol=1e-3, atol=1e-4):
        raise _cannot_be_built(model, "its logits differ")
    return model


@torch.no_grad()
def _probe(model: LensModel) -> list[float]:
    """Logits at the last of a few tokens."""
    n = min(PROBED, model.n_ctx)
    tokens = torch.arange(n, device=model.device)[None] % model.d_vocab
    logits: list[float] = model(tokens)[0, -1].double().tolist()
    return logits


def _cannot_be_built(model: LensModel, why: str) -> CapabilityError:
    return CapabilityError(
        f"{model.name!r} cannot be built again in another process, from its configuration and its "
        f"weights ({why}); choose where='here'"
    )


def _rows(items: Iterable[TrainingExample]) -> list[list[Any]]:
    return [
        [
            item.ids.tolist(),
            item.words.tolist(),
            item.answer,
            None if item.candidates is None else item.candidates.tolist(),
        ]
        for item in items
    ]


def _items(rows: Sequence[Sequence[Any]]) -> list[TrainingExample]:
    return [
        TrainingExample(
            np.array(ids), np.array(words), answer, None if choices is None else np.array(choices)
        )
        for ids, words, answer, choices in rows
    ]


def _spans(rows: Sequence[Sequence[int]] | None) -> tuple[tuple[int, int], ...] | None:
    return None if rows is None else tuple((start, stop) for start, stop in rows)
