"""Small models of Hugging Face with random weights, and something to feed them."""

from __future__ import annotations

import pytest
import torch

hugging = pytest.importorskip("transformers", reason="transformers is not installed")
hugging.utils.logging.set_verbosity_error()

WORDS, IMAGE = 50, 40
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
STACK = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = {"vocab_size": WORDS, **STACK, "max_position_embeddings": 64, **SPECIAL}
GROUPED = {**TEXT, "num_key_value_heads": 2}
WINDOWS = {"head_dim": 8, "sliding_window": 4, "query_pre_attn_scalar": 8}
PAIR = {
    "vocab_size": WORDS,
    "d_model": 32,
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 48),
    "decoder_start_token_id": 1,
    **SPECIAL,
}
PATCHES = {**STACK, "image_size": 16, "patch_size": 4}
T5 = {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}


def build(name, implementation="eager"):
    """The named model with the same weights each time, ready to answer. As initialized, attention is close to even."""
    torch.manual_seed(0)
    model = _BUILDERS[name]().eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    model.set_attn_implementation(implementation)
    return model


def _llava():
    vision = hugging.CLIPVisionConfig(**PATCHES, projection_dim=32)
    text = hugging.LlamaConfig(**GROUPED)
    return hugging.LlavaForConditionalGeneration(
        hugging.LlavaConfig(vision_config=vision, text_config=text, image_token_index=IMAGE, vision_feature_layer=-1)
    )


def _whisper():
    sizes = {"max_source_positions": 10, "max_target_positions": 32, "num_mel_bins": 8}
    silent = {"suppress_tokens": [], "begin_suppress_tokens": []}
    return hugging.WhisperForConditionalGeneration(hugging.WhisperConfig(**PAIR, **sizes, **silent))


_BUILDERS = {
    "llama": lambda: hugging.LlamaForCausalLM(hugging.LlamaConfig(**GROUPED)),
    "mistral": lambda: hugging.MistralForCausalLM(hugging.MistralConfig(**GROUPED, sliding_window=4)),
    "qwen": lambda: hugging.Qwen3ForCausalLM(hugging.Qwen3Config(**GROUPED, head_dim=8)),
    "gemma": lambda: hugging.Gemma3ForCausalLM(
        hugging.Gemma3TextConfig(**GROUPED, **WINDOWS, layer_types=["sliding_attention", "full_attention"])
    ),
    "gemma2": lambda: hugging.Gemma2ForCausalLM(hugging.Gemma2Config(**GROUPED, **WINDOWS, attn_logit_softcapping=1.0)),
    "gpt2": lambda: hugging.GPT2LMHeadModel(
        hugging.GPT2Config(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64, **SPECIAL)
    ),
    "bert": lambda: hugging.BertForMaskedLM(hugging.BertConfig(**TEXT)),
    "t5": lambda: hugging.T5ForConditionalGeneration(hugging.T5Config(**T5, decoder_start_token_id=1, **SPECIAL)),
    "bart": lambda: hugging.BartForConditionalGeneration(
        hugging.BartConfig(**PAIR, max_position_embeddings=64, forced_eos_token_id=None)
    ),
    "whisper": _whisper,
    "vit": lambda: hugging.ViTForImageClassification(hugging.ViTConfig(**PATCHES)),
    "llava": _llava,
}
NAMES = list(_BUILDERS)
WRITERS = [name for name in NAMES if name not in ("bert", "vit")]
SIDES = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")


def batch(name, generate=False):
    """Two items of unequal length: padded at the end where a model reads, and at the beginning where it goes on."""
    noise = torch.Generator().manual_seed(1)
    ids = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 0, 0]])
    if name in ("t5", "bart", "bert"):
        given = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    elif name == "whisper":
        given = {"input_features": torch.randn(2, 8, 20, generator=noise)}
    elif name == "vit":
        given = {"pixel_values": torch.randn(2, 3, 16, 16, generator=noise)}
    else:
        ids = torch.stack([ids[0], ids[1].roll(2)])
        given = {}
        if name == "llava":
            ids = torch.cat([ids[:, :2], torch.full((2, 16), IMAGE), ids[:, 2:]], dim=1)
            given = {"pixel_values": torch.randn(2, 3, 16, 16, generator=noise)}
        given |= {"input_ids": ids, "attention_mask": (ids != 0).long()}
    if name in ("t5", "bart", "whisper") and not generate:
        given["decoder_input_ids"] = ids[:, :4]
    return given


def queries(weights, name):
    """Weights (B, H, T, S) of the queries that are no padding; what padding looks at is nobody's business."""
    mask = batch(name).get("attention_mask")
    if mask is None or weights.shape[-2] != mask.shape[1]:
        return weights
    return weights * mask[:, None, :, None]
