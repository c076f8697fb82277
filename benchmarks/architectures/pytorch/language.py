"""Networks of transformers with random weights: each class as it is, with few and narrow layers.

make("bert")        BertModel with two layers of width 64
"""

from __future__ import annotations

import torch
from plain import Made
from torch import Tensor, nn
from vision import declare_suppression

TOKENS = 12
VOCABULARY = 300
_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED = {**_COMMON, "num_key_value_heads": 2, "head_dim": 16}
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 40}
_PAIR = {
    "vocab_size": VOCABULARY,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "decoder_start_token_id": 2,
}
_T5 = {
    "vocab_size": VOCABULARY, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2,
    "num_heads": 4, "pad_token_id": 0, "decoder_start_token_id": 0,
}  # fmt: skip
_IMAGE = {**_COMMON, "image_size": 64, "patch_size": 16, "num_channels": 3}
_STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 24, 32, 48]}
_SPEECH = {
    **_COMMON,
    "conv_dim": (32, 32, 32), "conv_kernel": (10, 3, 3), "conv_stride": (5, 2, 2),
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
    "num_feat_extract_layers": 3,
}  # fmt: skip

TEXT, PAIRS, IMAGES, SOUND = "text", "pairs", "images", "sound"
NETWORKS: dict[str, tuple[str, str, dict]] = {
    # Encoders of text.
    "bert": (TEXT, "bert", _COMMON),
    "roberta": (TEXT, "roberta", _COMMON),
    "camembert": (TEXT, "camembert", _COMMON),
    "xlm_roberta": (TEXT, "xlm-roberta", _COMMON),
    "distilbert": (
        TEXT, "distilbert",
        {"vocab_size": VOCABULARY, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 96},
    ),
    "albert": (TEXT, "albert", {**_COMMON, "embedding_size": 32}),
    "electra": (TEXT, "electra", {**_COMMON, "embedding_size": 32}),
    "mobilebert": (
        TEXT, "mobilebert",
        {**_COMMON, "embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    ),
    "squeezebert": (TEXT, "squeezebert", {**_COMMON, "embedding_size": 64}),
    "deberta_v2": (TEXT, "deberta-v2", _COMMON),
    "mpnet": (TEXT, "mpnet", _COMMON),
    "layoutlm": (TEXT, "layoutlm", _COMMON),
    "convbert": (TEXT, "convbert", {**_COMMON, "embedding_size": 64}),
    "roformer": (TEXT, "roformer", {**_COMMON, "embedding_size": 64}),
    "modernbert": (TEXT, "modernbert", {**_COMMON, "cls_token_id": 1, "sep_token_id": 2}),
    "fnet": (TEXT, "fnet", _COMMON),
    # Decoders of text.
    "gpt2": (TEXT, "gpt2", _GPT2),
    "gptj": (TEXT, "gptj", {**_GPT2, "rotary_dim": 8}),
    "gpt_neo": (
        TEXT, "gpt_neo",
        {"vocab_size": VOCABULARY, "hidden_size": 64, "num_layers": 2, "num_heads": 4,
         "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 40},
    ),
    "gpt_neox": (TEXT, "gpt_neox", _COMMON),
    "codegen": (TEXT, "codegen", {**_GPT2, "rotary_dim": 8}),
    "opt": (TEXT, "opt", {**_COMMON, "ffn_dim": 96, "word_embed_proj_dim": 64}),
    "bloom": (
        TEXT, "bloom",
        {"vocab_size": VOCABULARY, "hidden_size": 64, "n_layer": 2, "n_head": 4},
    ),
    "falcon": (TEXT, "falcon", _COMMON),
    "mpt": (TEXT, "mpt", {"vocab_size": VOCABULARY, "d_model": 64, "n_layers": 2, "n_heads": 4}),
    "llama": (TEXT, "llama", _GROUPED),
    "mistral": (TEXT, "mistral", _GROUPED),
    "mixtral": (TEXT, "mixtral", {**_GROUPED, "num_local_experts": 4}),
    "qwen2": (TEXT, "qwen2", _GROUPED),
    "qwen3": (TEXT, "qwen3", _GROUPED),
    "gemma": (TEXT, "gemma", _GROUPED),
    "gemma2": (TEXT, "gemma2", _GROUPED),
    "phi": (TEXT, "phi", _COMMON),
    "phi3": (TEXT, "phi3", _COMMON),
    "olmo": (TEXT, "olmo", _COMMON),
    "stablelm": (TEXT, "stablelm", {**_COMMON, "num_key_value_heads": 4}),
    "starcoder2": (TEXT, "starcoder2", _GROUPED),
    "granite": (TEXT, "granite", _GROUPED),
    "cohere": (TEXT, "cohere", _GROUPED),
    "smollm3": (TEXT, "smollm3", _GROUPED),
    "mamba": (
        TEXT, "mamba",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2},
    ),
    # Encoders with decoders.
    "t5": (PAIRS, "t5", _T5),
    "mt5": (PAIRS, "mt5", _T5),
    "bart": (PAIRS, "bart", _PAIR),
    "mbart": (PAIRS, "mbart", _PAIR),
    "pegasus": (PAIRS, "pegasus", _PAIR),
    "marian": (PAIRS, "marian", _PAIR),
    "m2m_100": (PAIRS, "m2m_100", _PAIR),
    # Images.
    "vit": (IMAGES, "vit", _IMAGE),
    "deit": (IMAGES, "deit", _IMAGE),
    "beit": (IMAGES, "beit", _IMAGE),
    "dinov2": (IMAGES, "dinov2", _IMAGE),
    "yolos": (IMAGES, "yolos", {**_IMAGE, "image_size": [64, 64]}),
    "swin": (
        IMAGES, "swin",
        {"image_size": 64, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4],
         "window_size": 4},
    ),
    "convnext": (IMAGES, "convnext", _STAGES),
    "resnet": (IMAGES, "resnet", {**_STAGES, "embedding_size": 16}),
    "regnet": (IMAGES, "regnet", {**_STAGES, "embedding_size": 16, "groups_width": 8}),
    "segformer": (
        IMAGES, "segformer",
        {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 16, 32, 32],
         "num_attention_heads": [1, 1, 2, 2]},
    ),
    "mobilevit": (IMAGES, "mobilevit", {"image_size": 64}),
    "siglip_images": (IMAGES, "siglip_vision_model", _IMAGE),
    "clip_images": (IMAGES, "clip_vision_model", _IMAGE),
    "clip_text": (TEXT, "clip_text_model", _COMMON),
    # Sound.
    "wav2vec2": (SOUND, "wav2vec2", _SPEECH),
    "hubert": (SOUND, "hubert", _SPEECH),
}  # fmt: skip
"""What it takes, its name there, and the fields of its configuration."""


class Flat(nn.Module):
    """A network whose results are its tensors, in their order; nothing is kept for a next token."""

    def __init__(self, inside: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.inside, self.names = inside, names

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        found = self.inside(**dict(zip(self.names, values, strict=True)), return_dict=True)
        return tuple(value for value in found.values() if isinstance(value, Tensor))


def names() -> list[str]:
    return list(NETWORKS)


def make(name: str) -> Made:
    declare_suppression()
    import transformers

    kind, model_type, fields = NETWORKS[name]
    classes = transformers.models.auto.configuration_auto.CONFIG_MAPPING
    config = classes[model_type](**fields)
    config.use_cache = False
    module = transformers.AutoModel.from_config(config)
    words = torch.randint(3, VOCABULARY, (1, TOKENS))
    given = {
        TEXT: {"input_ids": words},
        PAIRS: {"input_ids": words, "decoder_input_ids": words[:, : TOKENS // 2].clone()},
        IMAGES: {"pixel_values": torch.randn(1, 3, 64, 64)},
        SOUND: {"input_values": torch.randn(1, 1600)},
    }[kind]
    return Flat(module, tuple(given)), tuple(given.values()), {}
