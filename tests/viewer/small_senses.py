"""Tiny Hugging Face folders of pictures and sounds."""

from pathlib import Path
from typing import Any

import torch

from tests.viewer.small_transformers import WORDS, tokenizer

WIDTHS: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16,
}  # fmt: skip
LABELS: dict[str, Any] = {"id2label": {0: "cat", 1: "dog"}, "label2id": {"cat": 0, "dog": 1}}
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "picture": ("ViTConfig", "ViTForImageClassification",
                {**WIDTHS, **LABELS, "image_size": 32, "patch_size": 8}),
    "plain": ("Dinov2Config", "Dinov2Model", {**WIDTHS, "image_size": 32, "patch_size": 8}),
    "speech": ("WhisperConfig", "WhisperForConditionalGeneration", {
        "vocab_size": len(WORDS), "d_model": 16, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16, "num_mel_bins": 8, "max_source_positions": 50,
        "max_target_positions": 20, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
        "decoder_start_token_id": 2, "suppress_tokens": None, "begin_suppress_tokens": None,
    }),
    "letters": ("Wav2Vec2Config", "Wav2Vec2ForCTC", {
        **WIDTHS, "vocab_size": len(WORDS), "conv_dim": (8, 8), "conv_kernel": (8, 4),
        "conv_stride": (8, 40), "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
        "num_conv_pos_embedding_groups": 2, "pad_token_id": 0,
    }),
}  # fmt: skip


def write(kind: str, folder: Path) -> Any:
    """Write a folder; gives its model."""
    import transformers

    config, model, own = KINDS[kind]
    torch.manual_seed(0)
    made = getattr(transformers, model)(getattr(transformers, config)(**own)).eval()
    made.save_pretrained(folder)
    if kind in ("picture", "plain"):
        transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    elif kind == "speech":
        transformers.WhisperFeatureExtractor(
            feature_size=8, chunk_length=1
        ).save_pretrained(folder)  # fmt: skip
    else:
        transformers.Wav2Vec2FeatureExtractor().save_pretrained(folder)
    if kind in ("speech", "letters"):
        tokenizer().save_pretrained(folder)
    return made


def sound(path: Path) -> Path:
    """A second of a tone that rises."""
    import numpy as np
    import soundfile

    times = np.arange(16_000) / 16_000
    soundfile.write(path, 0.3 * np.sin(2 * np.pi * (200 + 300 * times) * times), 16_000)
    return path


def picture(path: Path) -> Path:
    """A bright square in the upper left corner."""
    import numpy as np
    from PIL import Image

    values = np.full((48, 64, 3), 40, np.uint8)
    values[:20, :24] = (230, 200, 90)
    Image.fromarray(values).save(path)
    return path
