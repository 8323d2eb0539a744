"""Hugging Face folders of Marian models, and of Pegasus ones, which are Marian's with pre-norm.

Read into `models.marian`; written from any Transformer. What their generation settings say becomes
the decoder; what they start outputs with becomes our start symbol.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard.convert._checkpoint import Found, plain
from regard.convert._names import FAIRSEQ, assemble
from regard.convert._sentencepiece import read as sentencepiece_read
from regard.convert._vocabulary import ConvertedVocabulary, numbers, words
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError, nearest
from regard.layers.positional_encoding import sinusoid
from regard.models.marian import POSITIONS

__all__ = ["KINDS", "read"]

KINDS = {"marian": "post", "pegasus": "pre"}
"""`model_type`, and where the norm stands."""

ACTIVATIONS = {
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "tanh": "tanh",
}
LARGEST = 1 << 24
"""Tokens of a vocabulary."""
WEIGHTS, INDEX, PICKLE = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
SHARED, BIAS, PLACES = "shared", "final_logits_bias", ("encoder", "decoder")


def read(folder: Path, unpickle: bool = True) -> Found:
    """Read a folder with `config.json`, weights, and `vocab.json` and `*.spm` where it has them.

    Args:
        unpickle: whether `pytorch_model.bin` may be read, as tensors and plain values only.

    Raises:
        RequestError: another model, an option that ours has not, or no weights.
    """
    config = _json(folder / "config.json")
    generation = {**config, **_json(folder / "generation_config.json", {})}
    kind = config.get("model_type")
    if kind not in KINDS:
        raise RequestError(
            f"{folder / 'config.json'} is of model_type {kind!r}, not one of regard's and not one"
            f" that it reads; {nearest(str(kind), KINDS)}"
        )
    source, target, tokenizers = _vocabularies(folder, config)
    given, tables = _named(_weights(folder, unpickle))
    try:
        places, table = _positions(tables, config["d_model"])
        spec = {**_spec(config, KINDS[kind], folder), **places}
        model, spec = assemble(FAIRSEQ, given, source, target, spec, table)
    except RequestError as error:
        raise RequestError(f"{folder}: {error}") from error
    return Found(
        model=model,
        spec=spec,
        tokenizers=tokenizers,
        decode=_decode(generation, int(config.get("max_position_embeddings", 512))),
        origin=f"a Hugging Face {kind} folder",
    )


class _Ids(NamedTuple):
    """The ids that are special in a Hugging Face configuration."""

    pad: int
    start: int
    end: int
    unknown: int


def _spec(config: Mapping[str, Any], norm: str, folder: Path) -> dict[str, Any]:
    for key in ("attention_heads", "ffn_dim"):
        one, other = (config.get(f"{side}_{key}") for side in PLACES)
        if one != other:
            raise RequestError(
                f"{folder / 'config.json'}: encoder_{key} is {one} and decoder_{key} {other};"
                " regard has one for both"
            )
    activation = str(config.get("activation_function", "gelu"))
    if activation not in ACTIVATIONS:
        raise RequestError(
            f"{folder / 'config.json'}: activation_function is {activation!r};"
            f" {nearest(activation, ACTIVATIONS)}"
        )
    return {
        "dim": config["d_model"],
        "heads": config["encoder_attention_heads"],
        "layers": config["encoder_layers"],
        "decoder_layers": config["decoder_layers"],
        "ffn_dim": config["encoder_ffn_dim"],
        "dropout": float(config.get("dropout", 0.1)),
        "attention_dropout": float(config.get("attention_dropout", 0.0)),
        "activation_dropout": float(config.get("activation_dropout", 0.0)),
        "norm": norm,
        "activation": ACTIVATIONS[activation],
        "epsilon": 1e-5,
        "scaled": bool(config.get("scale_embedding", False)),
    }


def _ids(config: Mapping[str, Any], size: int, vocabulary: Mapping[str, int]) -> _Ids:
    """The special ids; unknown is what the vocabulary says, else the lowest that is not special."""
    end = config["eos_token_id"]
    end = end[0] if isinstance(end, list) else end
    pad, start = config["pad_token_id"], config["decoder_start_token_id"]
    taken = {pad, start, end}
    free = next(i for i in range(size) if i not in taken)
    return _Ids(pad, start, end, vocabulary.get("<unk>", free))


def _vocabularies(
    folder: Path, config: Mapping[str, Any]
) -> tuple[ConvertedVocabulary, ConvertedVocabulary, dict[str, Any]]:
    """Both vocabularies in our order, and what reads texts with them.

    Marian's are `vocab.json` with `source.spm` and `target.spm`; what regard exported has its own
    tokenizers; where there is nothing, texts are ids with spaces between.
    """
    sizes = config["vocab_size"], config.get("decoder_vocab_size") or config["vocab_size"]
    if not all(1 <= size <= LARGEST for size in sizes):
        raise RequestError(f"{folder / 'config.json'}: vocab_size is {max(sizes)}, no size of one")
    apart = (folder / "target_vocab.json").is_file()
    files = {"source": "vocab.json", "target": "target_vocab.json" if apart else "vocab.json"}
    sides: list[ConvertedVocabulary] = []
    found: dict[str, Tokenizer] = {}
    for (name, file), size in zip(files.items(), sizes, strict=True):
        listed = _json(folder / file, {})
        names = numbers(size)
        for token, i in listed.items():
            if i < size:
                names[i] = token
        side = ConvertedVocabulary.of(names, *_ids(config, size, listed))
        pieces, own = folder / f"{name}.spm", None
        if listed and pieces.is_file():
            own = sentencepiece_read(pieces, side)
        elif not listed and side.order == list(range(size)):
            own = _exported(folder, name)
        found[name] = own or words(side)
        sides.append(side)
    if found["source"].to_json() == found["target"].to_json():
        found["target"] = found["source"]
    return sides[0], sides[1], found


def _exported(folder: Path, side: str) -> Tokenizer | None:
    """The tokenizer that `regard export` wrote, as it was before."""
    places = {"source": folder, "target": folder / "target"}
    file = places[side] / "tokenizer.json"
    file = file if file.is_file() else folder / "tokenizer.json"
    layout = _json(file, {})
    try:
        return Tokenizer.from_json(
            json.dumps({**layout, "added_tokens": [], "post_processor": None}, ensure_ascii=False)
        )
    except Exception:  # none there, or of another program: the Rust library raises bare Exception
        return None


def _weights(folder: Path, unpickle: bool) -> dict[str, Tensor]:
    if (folder / WEIGHTS).is_file():
        return _safe(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        shards = sorted(set(_json(folder / INDEX)["weight_map"].values()))
        return {k: v for shard in shards for k, v in _safe(folder / shard).items()}
    if (folder / PICKLE).is_file():
        if unpickle:
            return dict(plain(folder / PICKLE))
        raise RequestError(
            f"{folder} has no {WEIGHTS}; {PICKLE} is a pickle, which is never loaded: `regard"
            f" convert {folder} --from huggingface -o FOLDER` reads its tensors and nothing else"
        )
    raise RequestError(f"{folder} has no {WEIGHTS}")


def _safe(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise RequestError(f"{path} is not a whole safetensors file: {error}") from error


def _named(given: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Their weights under fairseq's names, each shared matrix under all of its own; and positions.

    Marian's positions are not in its file, if nobody put them there.
    """
    found = {name.removeprefix("model."): tensor for name, tensor in given.items()}
    shared = found.pop(f"{SHARED}.weight", None)
    bias = found.pop(BIAS, None)
    tables = [found.pop(f"{side}.embed_positions.weight", None) for side in PLACES]
    for side in PLACES:
        if shared is not None:
            found.setdefault(f"{side}.embed_tokens.weight", shared)
    output = found.pop("lm_head.weight", found.get(f"{FAIRSEQ.target}.weight"))
    if output is not None:
        found[f"{FAIRSEQ.output}.weight"] = output
    if bias is not None:
        found[f"{FAIRSEQ.output}.bias"] = bias
    return found, [table for table in tables if table is not None]


def _positions(tables: Sequence[Tensor], dim: int) -> tuple[dict[str, Any], Tensor | None]:
    """The arguments that say where tokens stand: the sinusoid that a table is, or a learned one."""
    if not tables:
        return {"positions": "grouped"}, None
    table = tables[0].float()
    if not all(torch.equal(table, other) for other in tables[1:]):
        raise RequestError("encoder and decoder have positions of their own; regard has one table")
    if table.dim() != 2 or table.shape[1] != dim:
        raise RequestError(f"d_model is {dim}, and a table of positions {tuple(table.shape)}")
    for name, layout in POSITIONS.items():
        for first in (0, 2):  # fairseq's models begin at 2
            known = sinusoid(first + len(table), dim, layout)[first:]
            if torch.allclose(table, known, atol=1e-4):
                return {"positions": name, "first": first}, None
    return {"positions": "learned", "max_length": len(table)}, table


def _decode(generation: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Their generation settings as a decoder of ours; lengths there count the start symbol."""
    longest = generation.get("max_new_tokens") or (generation.get("max_length") or most) - 1
    limits = {"max_ratio": 0.0, "max_extra": int(longest)}
    size, penalty = int(generation.get("num_beams") or 1), generation.get("length_penalty")
    if size == 1:
        return {"name": "greedy", **limits}
    stops: dict[Any, dict[str, Any]] = {
        True: {"patience": 1.0},
        False: {"bound": "now"},
        "never": {},
    }
    return {
        "name": "beam",
        "beam_size": size,
        "length_penalty": 1.0 if penalty is None else float(penalty),
        **limits,
        **stops[generation.get("early_stopping") or False],
    }


def _json(path: Path, otherwise: Any = None) -> Any:
    if not path.is_file() and otherwise is not None:
        return otherwise
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise RequestError(f"{path} is not there") from None
    except ValueError as error:
        raise RequestError(f"{path} is not JSON: {error}") from error
