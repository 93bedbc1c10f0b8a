"""Shapes and types are checked in every test: jaxtyping's axis names through beartype."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from jaxtyping import install_import_hook

install_import_hook("interp_compose", "beartype.beartype")

import torch

torch.set_num_threads(1)
