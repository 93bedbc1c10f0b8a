"""Builds ``HookedTransformer`` of transformer-lens 3.9 from random weights, offline.

``HookedTransformer.from_pretrained`` asks the hub for a config by a published name. Its parts do
without one: the config is converted from a folder, the weights from a module of transformers, and
the model is loaded without folding or centring, so that its numbers can be held against the
module's own.
"""

from __future__ import annotations

import tempfile
from typing import Any, Final

import torch

from tests import architectures

CONVERTED: Final = (
    *("GPT-2", "Llama", "Mistral", "Qwen2", "Qwen3", "GPT-NeoX", "Phi-3", "OPT", "GPT-J", "BLOOM"),
    *("GPT-Neo", "OLMo 3", "Apertus", "Mixtral", "OLMoE", "GPT-OSS"),
)
"""Architectures whose configs 3.9 converts at any size."""
BY_NAME: Final = "not built: converted by the names of published models alone"
OTHER_CLASS: Final = "not built: {} is not a HookedTransformer"
NOT_BUILT: Final = {
    **dict.fromkeys(("Gemma", "Gemma 2", "Gemma 3", "OLMo", "OLMo 2"), BY_NAME),
    "Phi": "not built: 3.9 reads partial_rotary_factor, which transformers 5 keeps elsewhere",
    "BERT": OTHER_CLASS.format("HookedEncoder"),
    "T5": OTHER_CLASS.format("HookedEncoderDecoder"),
    "HuBERT": OTHER_CLASS.format("HookedAudioEncoder"),
    "Wav2Vec 2": OTHER_CLASS.format("HookedAudioEncoder"),
}
"""Architectures that 3.9 knows and that could not be tried here, and why."""
FOUR_TIMES: Final = {"GPT-2": "n_inner", "GPT-J": "n_inner", "GPT-Neo": "intermediate_size"}
"""The setting of the MLP's width where 3.9 takes it for four times the residual's."""


def build(name: str) -> tuple[Any, Any]:
    """A module of transformers with random weights, and the HookedTransformer of its weights."""
    from transformer_lens import HookedTransformer, loading_from_pretrained as loading

    module = architectures.build(name)
    config = module.config
    if name in FOUR_TIMES:
        setattr(config, FOUR_TIMES[name], None)
        torch.manual_seed(0)
        module = type(module)(config).eval()
    config.architectures = [type(module).__name__]
    if name == "GPT-2":
        config.n_ctx = config.n_positions  # as in published configs
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        cfg = loading.get_pretrained_model_config(folder, hf_cfg=config.to_dict(), device="cpu")
        state = loading.get_pretrained_state_dict(folder, cfg, module)
    cfg.tokenizer_name = None
    hooked = HookedTransformer(cfg)
    unfolded = ("fold_ln", "center_writing_weights", "center_unembed", "fold_value_biases")
    hooked.load_and_process_state_dict(state, **dict.fromkeys(unfolded, False))
    return module, hooked.eval()
