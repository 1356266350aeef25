"""Tiny random models of the other families that the driver serves, built by transformers' own configuration classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from support.reference_transformer import VOCABULARY

TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "initializer_range": 0.35,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 5,
}
HEAD = {"head_dim": 8}
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}
AXES = {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [1, 1, 2]}}
VIT = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def _qwen2_5_vl() -> Any:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32}
    return Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(text_config=TEXT | AXES, vision_config=vision))


def _paddleocr_vl() -> Any:
    from transformers import PaddleOCRVLConfig, PaddleOCRVLForConditionalGeneration

    return PaddleOCRVLForConditionalGeneration(PaddleOCRVLConfig(text_config=TEXT | HEAD | AXES, vision_config=VIT))


def _got_ocr2() -> Any:
    from transformers import GotOcr2Config, GotOcr2ForConditionalGeneration

    vision = {"hidden_size": 16, "output_channels": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "mlp_dim": 32}
    text = TEXT | ROPE | {"model_type": "qwen2"}
    return GotOcr2ForConditionalGeneration(GotOcr2Config(text_config=text, vision_config=vision | {"image_size": 64}))


def _smolvlm() -> Any:
    from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration

    text = TEXT | ROPE | {"model_type": "llama"}
    return SmolVLMForConditionalGeneration(SmolVLMConfig(text_config=text, vision_config=VIT | {"image_size": 64}))


def _idefics3() -> Any:
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration

    text = TEXT | ROPE | {"model_type": "llama"}
    return Idefics3ForConditionalGeneration(Idefics3Config(text_config=text, vision_config=VIT | {"image_size": 64}))


def _deepseek_ocr2() -> Any:
    from transformers import DeepseekOcr2Config, DeepseekOcr2ForConditionalGeneration

    experts = {
        "mlp_layer_types": ["dense", "sparse"],
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    }
    sam = {"hidden_size": 16, "output_channels": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "mlp_dim": 32}
    sam |= {"image_size": 64, "downsample_channels": [8, 16], "global_attn_indexes": [0]}
    encoder = VIT | {"num_key_value_heads": 2}
    vision = {"sam_config": sam, "encoder_config": encoder}
    return DeepseekOcr2ForConditionalGeneration(
        DeepseekOcr2Config(text_config=TEXT | ROPE | experts, vision_config=vision, image_token_id=6)
    )


def _glm_ocr() -> Any:
    from transformers import GlmOcrConfig, GlmOcrForConditionalGeneration

    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32}
    rope = {"rope_parameters": AXES["rope_parameters"] | {"partial_rotary_factor": 1.0}}
    return GlmOcrForConditionalGeneration(GlmOcrConfig(text_config=TEXT | HEAD | rope, vision_config=vision))


FAMILIES: dict[str, Callable[[], Any]] = {
    "qwen2_5_vl": _qwen2_5_vl,
    "paddleocr_vl": _paddleocr_vl,
    "got_ocr2": _got_ocr2,
    "smolvlm": _smolvlm,
    "idefics3": _idefics3,
    "deepseek_ocr2": _deepseek_ocr2,
    "glm_ocr": _glm_ocr,
}


def tiny_family(name: str) -> Any:
    """Return a tiny random model of a family."""
    torch.manual_seed(1)
    return FAMILIES[name]().eval()
