"""A tiny encoder in a folder of Hugging Face: random weights, no download."""

import json
from pathlib import Path

import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import models, normalizers, pre_tokenizers, processors

from regard.encoders.kinds import KINDS

LETTERS = [*"abcdefghijklmnopqrstuvwxyzéß0123456789.,?!'"]
WORDS = ["the", "cat", "dog", "sat", "on", "a", "mat", "who", "where", "is", "##s", "##ing"]
DIM, FFN, LAYERS, HEADS, TYPES = 8, 12, 3, 2, 2


def tiny_encoder(
    folder: Path, kind: str = "bert", *, positions: int = 40, embed: int = DIM, seed: int = 0
) -> Path:
    """Write one of `KINDS` with a tokenizer as BERT's."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, *LETTERS, *(f"##{c}" for c in LETTERS)]
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    made = KINDS[kind]
    sizes = {"dim": DIM, "layers": LAYERS, "heads": HEADS, "ffn": FFN, "activation": "gelu"}
    first = 1 if made.behind_padding else 0
    config = {
        "model_type": kind,
        "vocab_size": len(names),
        "max_position_embeddings": positions + first,
        "pad_token_id": 0,
        "type_vocab_size": TYPES,
        "layer_norm_eps": 1e-12,
        **{theirs: sizes[ours] for ours, theirs in made.sizes.items()},
    }
    if kind == "electra":
        config["embedding_size"] = embed
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "README.md").write_text("---\nlicense: mit\n---\nTiny.\n")
    torch.manual_seed(seed)
    save_file(_weights(kind, len(names), positions + first, embed), folder / "model.safetensors")
    return folder


def _weights(kind: str, count: int, positions: int, embed: int) -> dict[str, torch.Tensor]:
    made, found = KINDS[kind], {}
    shapes = {
        "pieces": (count, embed),
        "places": (positions, embed),
        "norm": (embed,),
        "widen": (DIM, embed),
        "attended": (DIM,),
        "done": (DIM,),
        "wide": (FFN, DIM),
        "narrow": (DIM, FFN),
    }
    for ours, theirs in made.names(LAYERS).items():
        part = ours.split(".")[2] if ours.startswith("layers") else ours
        size = shapes.get(part, (DIM, DIM))
        if part == "widen" and embed == DIM:
            continue
        found[f"{theirs}.weight"] = torch.randn(size) + float(len(size) == 1)
        if part not in ("pieces", "places"):
            found[f"{theirs}.bias"] = torch.randn(size[0])
    if made.typed:
        found["embeddings.token_type_embeddings.weight"] = torch.randn(TYPES, embed)
    return found
