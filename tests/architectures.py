"""Random-weight models of many architectures, small enough for a test; every axis its own prime."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest
import torch
import transformers as hf

D_VOCAB = 97
N_CTX = 61
N_LAYERS = 3

_SHAPE = {
    "vocab_size": D_VOCAB,
    "hidden_size": 40,
    "intermediate_size": 53,
    "num_hidden_layers": N_LAYERS,
    "num_attention_heads": 4,
    "max_position_embeddings": N_CTX,
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GQA = {**_SHAPE, "num_key_value_heads": 2}
_GPT2 = {
    "vocab_size": D_VOCAB,
    "n_positions": N_CTX,
    "n_embd": 40,
    "n_layer": N_LAYERS,
    "n_head": 4,
    "n_inner": 53,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _without(shape: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in shape.items() if name not in names}


BUILDERS: dict[str, Callable[[], Any]] = {
    "GPT-2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**_GPT2)),
    "Llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_GQA)),
    "Mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**_GQA)),
    "Qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**_GQA)),
    "Qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(head_dim=14, **_GQA)),
    "Gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(head_dim=14, **_GQA)),
    "Gemma 2": lambda: hf.Gemma2ForCausalLM(
        hf.Gemma2Config(head_dim=14, query_pre_attn_scalar=14, sliding_window=23, **_GQA)
    ),
    "Gemma 3": lambda: hf.Gemma3ForCausalLM(
        hf.Gemma3TextConfig(head_dim=14, query_pre_attn_scalar=14, sliding_window=23, **_GQA)
    ),
    "GPT-NeoX": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**_SHAPE)),
    "Phi": lambda: hf.PhiForCausalLM(hf.PhiConfig(**_SHAPE, partial_rotary_factor=0.4)),
    "Phi-3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**_GQA)),
    "OLMo 2": lambda: hf.Olmo2ForCausalLM(hf.Olmo2Config(**_GQA)),
    "OPT": lambda: hf.OPTForCausalLM(
        hf.OPTConfig(
            **_without(_SHAPE, "intermediate_size", "initializer_range"),
            ffn_dim=53,
            word_embed_proj_dim=40,
            init_std=0.2,
        )
    ),
    "GPT-J": lambda: hf.GPTJForCausalLM(hf.GPTJConfig(**_GPT2, rotary_dim=4)),
    "BLOOM": lambda: hf.BloomForCausalLM(
        hf.BloomConfig(
            vocab_size=D_VOCAB, hidden_size=40, n_layer=N_LAYERS, n_head=4, initializer_range=0.2
        )
    ),
    "BERT": lambda: hf.BertForMaskedLM(hf.BertConfig(**_SHAPE)),
    "RoBERTa": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**_SHAPE)),
    "MPNet": lambda: hf.MPNetForMaskedLM(hf.MPNetConfig(**_SHAPE)),
    "DistilBERT": lambda: hf.DistilBertForMaskedLM(
        hf.DistilBertConfig(vocab_size=D_VOCAB, dim=40, hidden_dim=53, n_layers=N_LAYERS, n_heads=4)
    ),
}

needs_tl4 = pytest.mark.skipif(
    version("transformer-lens") < "4", reason="transformer-lens 3.9 does not know RoBERTa"
)
ENCODERS = ("BERT", "RoBERTa")
DECODERS = ("GPT-2", "Llama", "Qwen2", "Gemma", "Gemma 2", "native")
"""The architectures on which every intervention is held to an independent reference."""


def build(name: str, *, seed: int = 0) -> Any:
    """A Hugging Face model with random weights, in evaluation mode."""
    torch.manual_seed(seed)
    return BUILDERS[name]().eval()


def build_native(*, seed: int = 0, rotary: bool = True) -> Any:
    """A TransformerBridge around TransformerLens' own small decoder."""
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    config = TransformerBridgeConfig(
        d_model=40,
        d_head=20,
        n_heads=2,
        n_layers=N_LAYERS,
        n_ctx=N_CTX,
        d_vocab=D_VOCAB,
        d_mlp=53,
        act_fn="gelu_new",
        normalization_type="LN",
        positional_embedding_type="rotary" if rotary else "standard",
        architecture="TransformerLensNative",
        seed=seed,
        init_mode="gpt2",
        initializer_range=0.2,
    )
    return TransformerBridge.boot_native(config).eval()
