"""Random-weight models of many architectures, small enough for a test; every axis its own prime."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
_BLOOM = {
    **{"vocab_size": D_VOCAB, "hidden_size": 40, "n_layer": N_LAYERS, "n_head": 4},
    "initializer_range": 0.2,
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
    "BLOOM": lambda: hf.BloomForCausalLM(hf.BloomConfig(**_BLOOM)),
    "BERT": lambda: hf.BertForMaskedLM(hf.BertConfig(**_SHAPE)),
    "RoBERTa": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**_SHAPE)),
    "MPNet": lambda: hf.MPNetForMaskedLM(hf.MPNetConfig(**_SHAPE)),
    "DistilBERT": lambda: hf.DistilBertForMaskedLM(
        hf.DistilBertConfig(vocab_size=D_VOCAB, dim=40, hidden_dim=53, n_layers=N_LAYERS, n_heads=4)
    ),
}

_MOE = {**_GQA, "hidden_size": 48, "intermediate_size": 64}
_FALCON = {**_without(_SHAPE, "intermediate_size"), "ffn_hidden_size": 53}
_EXPERTS = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LATENT = {
    **{"num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 16, "n_group": 1},
    **{"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 12, "topk_group": 1},
    **{"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    "first_k_dense_replace": 1,
}

_T5 = {
    **{"vocab_size": D_VOCAB, "d_model": 40, "d_kv": 10, "d_ff": 53, "num_heads": 4},
    **{"num_layers": 2, "num_decoder_layers": 3, "decoder_start_token_id": 0, "pad_token_id": 0},
}
_BART = {
    **{"vocab_size": D_VOCAB, "d_model": 40, "encoder_layers": 2, "decoder_layers": 2},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "init_std": 0.2},
    **{"encoder_ffn_dim": 53, "decoder_ffn_dim": 53, "max_position_embeddings": N_CTX},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2},
}
_GEMMA = {**_GQA, "head_dim": 10}
TWO_STACKS = {
    "T5": (hf.T5ForConditionalGeneration, hf.T5Config, _T5),
    "BART": (hf.BartForConditionalGeneration, hf.BartConfig, _BART),
    "Marian": (
        hf.MarianMTModel,
        hf.MarianConfig,
        {
            **_BART,
            **{"vocab_size": 89, "decoder_vocab_size": D_VOCAB, "forced_eos_token_id": 2},
            "share_encoder_decoder_embeddings": False,
        },
    ),
    "mBART": (hf.MBartForConditionalGeneration, hf.MBartConfig, _BART),
    "mT5": (hf.MT5ForConditionalGeneration, hf.MT5Config, {**_T5, "tie_word_embeddings": False}),
    "Pegasus": (hf.PegasusForConditionalGeneration, hf.PegasusConfig, _BART),
    "M2M100": (hf.M2M100ForConditionalGeneration, hf.M2M100Config, _BART),
    "Blenderbot": (hf.BlenderbotForConditionalGeneration, hf.BlenderbotConfig, _BART),
    "T5Gemma": (
        hf.T5GemmaForConditionalGeneration,
        hf.T5GemmaConfig,
        {
            "encoder": {**_GEMMA, "num_hidden_layers": 2},
            "decoder": {**_GEMMA, "num_hidden_layers": 3},
            "vocab_size": D_VOCAB,
        },
    ),
    "BART, asymmetric": (
        hf.BartForConditionalGeneration,
        hf.BartConfig,
        {**_BART, "decoder_layers": 3},
    ),
    "Long T5": (hf.LongT5ForConditionalGeneration, hf.LongT5Config, _T5),
    "Switch": (
        hf.SwitchTransformersForConditionalGeneration,
        hf.SwitchTransformersConfig,
        {**_without(_T5, "num_decoder_layers"), "num_experts": 2},
    ),
}
"""Encoder–decoders: class, class of the config, and its settings."""


def _two_stacks(kind: Any, config: Any, settings: dict[str, Any]) -> Any:
    return kind(config(**settings))


LISTED: dict[str, Callable[[], Any]] = {
    "GPT-Neo": lambda: hf.GPTNeoForCausalLM(
        hf.GPTNeoConfig(
            **_without(_SHAPE, "num_hidden_layers", "num_attention_heads"),
            num_layers=4,
            num_heads=4,
            attention_types=[[["global", "local"], 2]],
            window_size=23,
        )
    ),
    "GPT-BigCode": lambda: hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(**_GPT2)),
    "CodeGen": lambda: hf.CodeGenForCausalLM(hf.CodeGenConfig(**_GPT2, rotary_dim=4)),
    "Starcoder2": lambda: hf.Starcoder2ForCausalLM(hf.Starcoder2Config(**_GQA)),
    "Falcon": lambda: hf.FalconForCausalLM(hf.FalconConfig(**_FALCON, bias=False)),
    "MPT": lambda: hf.MptForCausalLM(
        hf.MptConfig(
            vocab_size=D_VOCAB, d_model=40, n_heads=4, n_layers=N_LAYERS, initializer_range=0.2
        )
    ),
    "StableLM": lambda: hf.StableLmForCausalLM(hf.StableLmConfig(**_GQA)),
    "Granite": lambda: hf.GraniteForCausalLM(hf.GraniteConfig(**_GQA)),
    "Cohere": lambda: hf.CohereForCausalLM(hf.CohereConfig(**_GQA)),
    "Cohere 2": lambda: hf.Cohere2ForCausalLM(hf.Cohere2Config(**_GQA, sliding_window=23)),
    "OLMo": lambda: hf.OlmoForCausalLM(hf.OlmoConfig(**_GQA)),
    "OLMo 3": lambda: hf.Olmo3ForCausalLM(hf.Olmo3Config(**_GQA, sliding_window=23)),
    "SmolLM3": lambda: hf.SmolLM3ForCausalLM(hf.SmolLM3Config(**_GQA)),
    "Nemotron": lambda: hf.NemotronForCausalLM(hf.NemotronConfig(**_GQA)),
    "GLM-4": lambda: hf.Glm4ForCausalLM(hf.Glm4Config(**_GQA, head_dim=10)),
    "Exaone 4": lambda: hf.Exaone4ForCausalLM(hf.Exaone4Config(**_GQA, sliding_window=23)),
    "Seed-OSS": lambda: hf.SeedOssForCausalLM(hf.SeedOssConfig(**_GQA)),
    "Apertus": lambda: hf.ApertusForCausalLM(hf.ApertusConfig(**_GQA)),
    "Arcee": lambda: hf.ArceeForCausalLM(hf.ArceeConfig(**_GQA)),
    "Ernie 4.5": lambda: hf.Ernie4_5ForCausalLM(hf.Ernie4_5Config(**_GQA)),
    "ModernBERT decoder": lambda: hf.ModernBertDecoderForCausalLM(
        hf.ModernBertDecoderConfig(
            **_SHAPE,
            local_attention=46,
            layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        )
    ),
    "Mixtral": lambda: hf.MixtralForCausalLM(
        hf.MixtralConfig(**_MOE, num_local_experts=3, num_experts_per_tok=2)
    ),
    "Qwen2-MoE": lambda: hf.Qwen2MoeForCausalLM(
        hf.Qwen2MoeConfig(**_MOE, **_EXPERTS, shared_expert_intermediate_size=32)
    ),
    "Qwen3-MoE": lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**_MOE, **_EXPERTS, head_dim=16)),
    "OLMoE": lambda: hf.OlmoeForCausalLM(
        hf.OlmoeConfig(**_MOE, num_experts=3, num_experts_per_tok=2)
    ),
    "GPT-OSS": lambda: hf.GptOssForCausalLM(
        hf.GptOssConfig(
            **_MOE, head_dim=16, num_local_experts=3, num_experts_per_tok=2, sliding_window=23
        )
    ),
    "DeepSeek-V2": lambda: hf.DeepseekV2ForCausalLM(
        hf.DeepseekV2Config(**{**_MOE, **_LATENT}, q_lora_rank=None)
    ),
    "DeepSeek-V3": lambda: hf.DeepseekV3ForCausalLM(
        hf.DeepseekV3Config(**{**_MOE, **_LATENT}, q_lora_rank=24)
    ),
    "XGLM": lambda: hf.XGLMForCausalLM(
        hf.XGLMConfig(
            **{"vocab_size": D_VOCAB, "max_position_embeddings": N_CTX, "d_model": 40},
            **{"ffn_dim": 53, "num_layers": N_LAYERS, "attention_heads": 4, "init_std": 0.2},
            pad_token_id=0,
        )
    ),
    "Falcon with ALiBi": lambda: hf.FalconForCausalLM(
        hf.FalconConfig(**_FALCON, alibi=True, multi_query=False, bias=True)
    ),
    "GPT (the first)": lambda: hf.OpenAIGPTLMHeadModel(
        hf.OpenAIGPTConfig(**_without(_GPT2, "n_inner"))
    ),
    "BioGPT": lambda: hf.BioGptForCausalLM(hf.BioGptConfig(**_SHAPE)),
    "Helium": lambda: hf.HeliumForCausalLM(hf.HeliumConfig(**_GQA, head_dim=10)),
    "Mamba": lambda: hf.MambaForCausalLM(
        hf.MambaConfig(vocab_size=D_VOCAB, hidden_size=40, num_hidden_layers=2, state_size=8)
    ),
    "RWKV": lambda: hf.RwkvForCausalLM(
        hf.RwkvConfig(vocab_size=D_VOCAB, hidden_size=40, num_hidden_layers=2)
    ),
    **{name: partial(_two_stacks, *of) for name, of in TWO_STACKS.items()},
}
"""Architectures that the documentation lists as well, loaded and probed by no other test."""

_RECURRENT = {"vocab_size": D_VOCAB, "hidden_size": 40, "num_hidden_layers": 2, "state_size": 8}
_OF_EXPERTS = {**_MOE, "num_local_experts": 3, "num_experts_per_tok": 2}
_HYBRID = {
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "head_dim": 12},
    **{"linear_key_head_dim": 8, "linear_value_head_dim": 8},
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}
_SEEN = {
    **{"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2},
    **{"num_attention_heads": 2, "image_size": 8, "patch_size": 4},
}
_HEARD = {
    **_without(_SEEN, "image_size", "patch_size"),
    **{"conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3]},
}
_ABSORBED = {**_MOE, **_LATENT, "q_lora_rank": 24}

AUDITED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Afmoe": (
        "AfmoeForCausalLM",
        "AfmoeConfig",
        {**_MOE, **_EXPERTS, "num_dense_layers": 1, "head_dim": 12},
    ),
    "BitNet": ("BitNetForCausalLM", "BitNetConfig", _GQA),
    "Jais 2": ("Jais2ForCausalLM", "Jais2Config", _GQA),
    "JetMoE": ("JetMoeForCausalLM", "JetMoeConfig", {**_OF_EXPERTS, "kv_channels": 12}),
    "Ministral 3": ("Ministral3ForCausalLM", "Ministral3Config", _GQA),
    "VaultGemma": (
        "VaultGemmaForCausalLM",
        "VaultGemmaConfig",
        {**_GQA, "head_dim": 14, "query_pre_attn_scalar": 14, "sliding_window": 23},
    ),
    "Youtu": (
        "YoutuForCausalLM",
        "YoutuConfig",
        {
            **{**_SHAPE, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 24},
            **{"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 12},
        },
    ),
    "NanoChat": ("NanoChatForCausalLM", "NanoChatConfig", _GQA),
    "Ernie 4.5 MoE": (
        "Ernie4_5_MoeForCausalLM",
        "Ernie4_5_MoeConfig",
        {**_MOE, "moe_num_experts": 3, "moe_k": 2, "moe_intermediate_size": 32},
    ),
    "FlexOlmo": (
        "FlexOlmoForCausalLM",
        "FlexOlmoConfig",
        {**_MOE, "num_experts": 3, "num_experts_per_tok": 2},
    ),
    "DeepSeek-V4": (
        "DeepseekV4ForCausalLM",
        "DeepseekV4Config",
        {
            **{**_ABSORBED, "hidden_size": 40, "head_dim": 16},
            **{"o_lora_rank": 8, "index_n_heads": 2, "index_head_dim": 8},
        },
    ),
    "Gemma 4": (
        "Gemma4ForCausalLM",
        "Gemma4TextConfig",
        {
            **{**_GQA, "head_dim": 14, "global_head_dim": 14, "sliding_window": 23},
            **{"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": D_VOCAB},
            "num_kv_shared_layers": 0,
        },
    ),
    "GraniteMoE": ("GraniteMoeForCausalLM", "GraniteMoeConfig", _OF_EXPERTS),
    "GLM": ("GlmForCausalLM", "GlmConfig", {**_GQA, "head_dim": 10}),
    "GLM-4-MoE": (
        "Glm4MoeForCausalLM",
        "Glm4MoeConfig",
        {
            **{**_MOE, "head_dim": 12, "n_routed_experts": 3, "num_experts_per_tok": 2},
            **{"moe_intermediate_size": 32, "n_group": 1, "topk_group": 1},
            "first_k_dense_replace": 1,
        },
    ),
    "GLM-4-MoE Lite": ("Glm4MoeLiteForCausalLM", "Glm4MoeLiteConfig", _ABSORBED),
    "GLM-MoE-DSA": ("GlmMoeDsaForCausalLM", "GlmMoeDsaConfig", _ABSORBED),
    "HunYuan": ("HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Config", {**_GQA, "head_dim": 10}),
    "Llama 4": (
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        {**_OF_EXPERTS, "num_experts_per_tok": 1, "head_dim": 12, "intermediate_size_mlp": 53},
    ),
    "MiniMax-M2": ("MiniMaxM2ForCausalLM", "MiniMaxM2Config", {**_OF_EXPERTS, "head_dim": 12}),
    "Laguna": ("LagunaForCausalLM", "LagunaConfig", {**_MOE, **_EXPERTS}),
    "Falcon-H1": (
        "FalconH1ForCausalLM",
        "FalconH1Config",
        {
            **{**_GQA, "mamba_d_ssm": 32, "mamba_n_heads": 4},
            **{"mamba_d_head": 8, "mamba_d_state": 8},
        },
    ),
    "LED": (
        "LEDForConditionalGeneration",
        "LEDConfig",
        {
            **{**_BART, "attention_window": 4},
            **{"max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
        },
    ),
    "PhiMoE": ("PhimoeForCausalLM", "PhimoeConfig", _OF_EXPERTS),
    "BLOOM without its head": ("BloomModel", "BloomConfig", _BLOOM),
    "HRM": ("HrmTextForCausalLM", "HrmTextConfig", _GQA),
    "BERT as a decoder": ("BertLMHeadModel", "BertConfig", {**_SHAPE, "is_decoder": True}),
    "FalconMamba": ("FalconMambaForCausalLM", "FalconMambaConfig", _RECURRENT),
    "Mamba 2": (
        "Mamba2ForCausalLM",
        "Mamba2Config",
        {**_RECURRENT, "num_heads": 4, "head_dim": 20, "n_groups": 1},
    ),
    "Jamba": (
        "JambaForCausalLM",
        "JambaConfig",
        {
            **{**_MOE, "num_experts": 3, "num_experts_per_tok": 2},
            **{"use_mamba_kernels": False, "attn_layer_period": 2, "attn_layer_offset": 1},
        },
    ),
    "Bamba": (
        "BambaForCausalLM",
        "BambaConfig",
        {
            **{**_GQA, "attn_layer_indices": [1], "mamba_n_heads": 4},
            **{"mamba_d_head": 20, "mamba_d_state": 8},
        },
    ),
    "LFM2": (
        "Lfm2ForCausalLM",
        "Lfm2Config",
        {**_GQA, "layer_types": ["conv", "full_attention", "conv"]},
    ),
    "LFM2-MoE": (
        "Lfm2MoeForCausalLM",
        "Lfm2MoeConfig",
        {
            **{**_MOE, **_EXPERTS, "num_dense_layers": 1},
            "layer_types": ["conv", "full_attention", "conv"],
        },
    ),
    "Nemotron-H": (
        "NemotronHForCausalLM",
        "NemotronHConfig",
        {
            **{**_GQA, "head_dim": 10, "mamba_num_heads": 4, "mamba_head_dim": 10},
            **{"ssm_state_size": 8, "n_groups": 1},
            "layers_block_type": ["mamba", "attention", "mlp"],
        },
    ),
    "OLMo Hybrid": ("OlmoHybridForCausalLM", "OlmoHybridConfig", _GQA),
    "Qwen3-Next": (
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        {**_MOE, **_EXPERTS, **_HYBRID},
    ),
    "Qwen3.5": ("Qwen3_5ForCausalLM", "Qwen3_5TextConfig", {**_GQA, **_HYBRID, "head_dim": 16}),
    "Qwen3.5-MoE": (
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeTextConfig",
        {**_MOE, **_EXPERTS, **_HYBRID},
    ),
    "RecurrentGemma": (
        "RecurrentGemmaForCausalLM",
        "RecurrentGemmaConfig",
        {**_GQA, "attention_window_size": 23},
    ),
    "GraniteMoE Hybrid": (
        "GraniteMoeHybridForCausalLM",
        "GraniteMoeHybridConfig",
        {
            **{**_OF_EXPERTS, "mamba_n_heads": 4, "mamba_d_head": 24},
            "layer_types": ["mamba", "attention", "mamba"],
        },
    ),
    "Zamba 2": (
        "Zamba2ForCausalLM",
        "Zamba2Config",
        {
            **{**_GQA, "mamba_headdim": 20, "n_mamba_heads": 4, "mamba_d_state": 8},
            "layer_types": ["mamba", "hybrid", "mamba"],
        },
    ),
    "ViT": ("ViTModel", "ViTConfig", _SEEN),
    "ViT, classifier": ("ViTForImageClassification", "ViTConfig", _SEEN),
    "DeiT": ("DeiTModel", "DeiTConfig", _SEEN),
    "DeiT, classifier": ("DeiTForImageClassification", "DeiTConfig", _SEEN),
    "AST": (
        "ASTForAudioClassification",
        "ASTConfig",
        {
            **_without(_SEEN, "image_size"),
            **{"max_length": 24, "num_mel_bins": 16, "patch_size": 8},
        },
    ),
    "HuBERT": ("HubertModel", "HubertConfig", _HEARD),
    "Wav2Vec 2": ("Wav2Vec2Model", "Wav2Vec2Config", _HEARD),
}
"""Architectures that only audits are of: class, class of the config (names in transformers) and its
settings."""

needs_tl4 = pytest.mark.skipif(
    version("transformer-lens") < "4", reason="transformer-lens 3.9 does not know RoBERTa"
)
ENCODERS = ("BERT", "RoBERTa")
ENCODER_DECODERS = ("T5", "BART", "Marian", "mBART")
DECODERS = ("GPT-2", "Llama", "Qwen2", "Gemma", "Gemma 2", "native")
"""The architectures on which every intervention is held to an independent reference."""
SMALL = ("small, pre", "small, post", "small, query")
"""Small decoders, by the place of their norm."""


def build(name: str, *, seed: int = 0) -> Any:
    """A Hugging Face model with random weights, in evaluation mode."""
    torch.manual_seed(seed)
    if name in AUDITED:
        kind, config, settings = AUDITED[name]
        return getattr(hf, kind)(getattr(hf, config)(**settings)).eval()
    return (BUILDERS | LISTED)[name]().eval()


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


def load(name: str, *, seed: int = 0) -> Any:
    """The model as ``load_model`` gives it; ``"native, positions"`` has no rotary embedding."""
    from interp_compose.models.load import load_model
    from interp_compose.papers.complexity.models.small_decoder import small_decoder
    from interp_compose.papers.shared.models.decoder import DecoderConfig

    if name in SMALL:
        sizes: dict[str, Any] = {"d_vocab": D_VOCAB, "n_ctx": N_CTX, "n_layers": N_LAYERS}
        sizes |= {"d_model": 40, "n_heads": 2, "d_mlp": 53, "norm": name.removeprefix("small, ")}
        return small_decoder(DecoderConfig(**sizes), init_rate=0.4, seed=seed)
    if name.startswith("native"):
        return load_model(build_native(seed=seed, rotary=name == "native"))
    return load_model(build(name, seed=seed))
