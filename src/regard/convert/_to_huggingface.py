"""Hugging Face folders out: Marian with post-norm, Pegasus (the same with pre-norm) with pre-norm.

Ids stay as they are here: padding 0, start 1, end 2, unknown 3. Positions are written as a table,
whatever their layout. Their norms have the epsilon 1e-5; a model with another is written with what
flows between the layers c times as large, c^2 = 1e-5 / epsilon, which is the same model:

    (c x - mean) / sqrt(c^2 var + 1e-5)  =  (x - mean) / sqrt(var + epsilon)
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save
from torch import Tensor

from regard.convert._anatomy import Anatomy, anatomy
from regard.convert._huggingface import ACTIVATIONS, BIAS, KINDS, PLACES
from regard.convert._names import FAIRSEQ
from regard.convert._readme import longest, manual, output_limit
from regard.data.text.tokenizer import SPECIALS, Tokenizer
from regard.errors import RequestError
from regard.protocols import BOS, EOS, PAD

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["write"]

CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}

EPSILON = 1e-5
"""Of every norm there."""


def write(loaded: "Loaded", out: Path) -> None:
    """Write `config.json`, `generation_config.json`, weights and tokenizers.

    Raises:
        RequestError: the model is not a plain Transformer, or theirs cannot have its parts.
    """
    made, positions = anatomy(loaded.model), longest(loaded)
    kind = {norm: kind for kind, norm in KINDS.items()}["pre" if made.pre_norm else "post"]
    if kind == "pegasus" and made.tied != "all":
        raise RequestError(
            "transformers has pre-norm models with one embedding for everything alone (Pegasus);"
            f" this one has tied={made.tied!r}"
        )
    _dump(out / "config.json", _config(made, kind, positions))
    _dump(out / "generation_config.json", _generation(loaded))
    weights = save(_weights(made, positions), {"format": "pt"})
    (out / "model.safetensors").write_bytes(weights)
    sides = loaded.tokenizers
    apart = sides["source"] is not sides["target"]
    target = f'PreTrainedTokenizerFast.from_pretrained("{out.name}/target")' if apart else "source"
    manual(
        loaded, out, "huggingface", kind=CLASSES[kind], positions=positions, target_tokenizer=target
    )
    for file in out.glob("tokenizer*.json"):
        file.unlink()  # theirs have their own names
    _tokenizer(sides["source"], out, positions, made.reads_end)
    if apart:
        (out / "target").mkdir()
        _tokenizer(sides["target"], out / "target", positions, True)


def _config(made: Anatomy, kind: str, positions: int) -> dict[str, Any]:
    theirs = {own: name for name, own in reversed(ACTIVATIONS.items())}
    each = {
        "layers": (made.layers, made.decoder_layers),
        "attention_heads": (made.heads, made.heads),
        "ffn_dim": (made.ffn_dim, made.ffn_dim),
        "layerdrop": (0.0, 0.0),
    }
    return {
        "model_type": kind,
        "architectures": [CLASSES[kind]],
        "is_encoder_decoder": True,
        "vocab_size": made.model.source_vocab_size,
        "decoder_vocab_size": made.model.target_vocab_size,
        "d_model": made.dim,
        **{f"{s}_{k}": v for k, both in each.items() for s, v in zip(PLACES, both, strict=True)},
        "activation_function": theirs[made.activation],
        "dropout": made.model.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "max_position_embeddings": positions,
        "scale_embedding": made.scale != 1.0,
        "static_position_embeddings": True,
        "share_encoder_decoder_embeddings": made.tied == "all",
        "tie_word_embeddings": made.tied != "none",
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
        "torch_dtype": "float32",
    }


def _generation(loaded: "Loaded") -> dict[str, Any]:
    decoder = loaded.decoder
    return {
        "num_beams": getattr(decoder, "beam_size", 1),
        "length_penalty": decoder.length_penalty,
        "early_stopping": getattr(decoder, "patience", None) is not None,
        "max_length": output_limit(loaded) + 1,  # with the start
        "bad_words_ids": [[PAD], [BOS]],
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
    }


def _weights(made: Anatomy, positions: int) -> dict[str, Tensor]:
    state, table = _swollen(made), made.positions(positions) * _swelling(made)
    found: dict[str, Tensor] = {}
    for own, path in FAIRSEQ.pairs(made.layers, made.decoder_layers, made.pre_norm):
        found[f"model.{path}.weight"] = weight = state[f"{own}.weight"]
        bias = state.get(f"{own}.bias")
        found[f"model.{path}.bias"] = torch.zeros(len(weight)) if bias is None else bias
    embeddings = {
        "all": {"model.shared": "embed_target"},
        "output": {
            f"model.{FAIRSEQ.source}": "embed_source",
            f"model.{FAIRSEQ.target}": "embed_target",
        },
    }
    embeddings["none"] = {**embeddings["output"], "lm_head": "output"}
    found |= {
        f"{path}.weight": state[f"{own}.weight"] for path, own in embeddings[made.tied].items()
    }
    bias = state.get("output.bias")
    found[BIAS] = (torch.zeros(made.model.target_vocab_size) if bias is None else bias)[None]
    found |= {f"model.{side}.embed_positions.weight": table for side in PLACES}
    return {name: tensor.detach().float().contiguous().clone() for name, tensor in found.items()}


def _swelling(made: Anatomy) -> float:
    """The factor c of what flows between the layers."""
    return float((EPSILON / made.epsilon) ** 0.5)


def _swollen(made: Anatomy) -> dict[str, Tensor]:
    """The weights with c times as much between the layers, and the same logits."""
    c = _swelling(made)
    state = {name: tensor.detach().float() for name, tensor in made.model.state_dict().items()}
    if c == 1.0:
        return state
    ends = (
        {"encoder": "", "decoder": ""}
        if made.pre_norm
        else {
            side: f"{list(made.layers_of(side))[-1][0]}.feedforward_residual.norm."
            for side in PLACES
        }
    )
    last = "decoder_norm." if made.pre_norm else ends["decoder"]
    for name in state:
        if name.startswith("embed_") or (name == "output.weight" and made.tied != "none"):
            state[name] = state[name] * c
        elif name.startswith(last):
            state[name] = state[name] / (1.0 if made.tied == "none" else c)
        elif name.startswith(("encoder.", "decoder.")):
            state[name] = state[name] * _factor(name, made.pre_norm, ends["encoder"], c)
    return state


def _factor(name: str, pre_norm: bool, end: str, c: float) -> float:
    """What a weight inside a layer is multiplied by."""
    if ".out." in name:  # what is added
        return c
    if pre_norm or (end and name.startswith(end)):  # behind a norm nothing is larger
        return 1.0
    if ".norm." in name:
        return c
    reads_memory = "cross_attention.key" in name or "cross_attention.value" in name
    return 1.0 if reads_memory or name.endswith(".bias") else 1 / c


def _tokenizer(own: Tokenizer, out: Path, positions: int, ends: bool) -> None:
    layout = json.loads(own.to_json())
    specials = [
        {
            "id": i,
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, name in enumerate(SPECIALS)
    ]
    layout["added_tokens"] = [*specials, *(t for t in layout["added_tokens"] if t["id"] > 3)]
    if ends:
        end = {"SpecialToken": {"id": SPECIALS[EOS], "type_id": 0}}
        text = {"Sequence": {"id": "A", "type_id": 0}}
        layout["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [text, end],
            "pair": [text, end],
            "special_tokens": {
                SPECIALS[EOS]: {"id": SPECIALS[EOS], "ids": [EOS], "tokens": [SPECIALS[EOS]]}
            },
        }
    _dump(out / "tokenizer.json", layout)
    names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), SPECIALS, strict=True))
    _dump(
        out / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": positions, **names},
    )


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")
