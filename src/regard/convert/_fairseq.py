"""fairseq Transformer checkpoints, with `dict.*.txt` beside them or in `data-bin`.

Its outputs start with the end symbol, its positions with row 2 of tensor2tensor's sinusoid.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.convert._checkpoint import Found, checkpoint_in, plain, same_sides
from regard.convert._names import FAIRSEQ, assemble
from regard.convert._vocabulary import ConvertedVocabulary, special
from regard.data.files.packing import text_lines
from regard.errors import RequestError, nearest

__all__ = ["read"]

FILES = ("checkpoint_best.pt", "checkpoint_last.pt", "model.pt")
FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
ACTIVATIONS = {
    "relu": "relu",
    "swish": "swish",
    "gelu": "gelu",
    "gelu_fast": "gelu-tanh",
    "gelu_accurate": "gelu-tanh",
    "tanh": "tanh",
}
# Settings that must have these values: the others are other models.
ONLY: Mapping[str, Any] = {
    "encoder_learned_pos": False,
    "decoder_learned_pos": False,
    "no_token_positional_embeddings": False,
    "layernorm_embedding": False,
    "adaptive_input": False,
    "adaptive_softmax_cutoff": None,
    "no_cross_attention": False,
    "cross_self_attention": False,
    "no_decoder_final_norm": False,
    "base_layers": 0,
    "scale_attn": False,
    "scale_fc": False,
    "scale_heads": False,
    "scale_resids": False,
}
# Buffers, and copies that its encoder keeps for a fast path.
UNUSED = (
    ".version",
    "._float_tensor",
    "embed_positions.weights",
    *(
        f".{part}_{kind}"
        for part in ("in_proj", "out_proj", "fc1", "fc2")
        for kind in ("weight", "bias")
    ),
)
SAME = ("embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before")


def read(path: Path) -> Found:
    """Read a checkpoint and its dictionaries.

    Raises:
        RequestError: no checkpoint, no dictionaries, or another model than a plain Transformer.
    """
    file = checkpoint_in(path, FILES)
    content = plain(file)
    said = _settings(content, file)
    source, target = (
        ConvertedVocabulary.of(
            names, *(special(names, token, file) for token in ("<pad>", "</s>", "</s>", "<unk>"))
        )
        for names in _dictionaries(file.parent, said)
    )
    weights = {
        name: tensor for name, tensor in content["model"].items() if not name.endswith(UNUSED)
    }
    weights.setdefault(f"{FAIRSEQ.output}.weight", weights.get(f"{FAIRSEQ.target}.weight"))
    try:
        model, spec = assemble(FAIRSEQ, weights, source, target, _spec(said))
    except RequestError as error:
        raise RequestError(f"{file}: {error}") from error
    decode = {
        "name": "beam",
        "beam_size": 5,
        "length_penalty": 1.0,
        "patience": 1.0,
        "max_ratio": 0.0,
        "max_extra": 201,
    }
    return Found(model, spec, same_sides(source, target), decode, "a fairseq checkpoint")


def _settings(content: Mapping[str, Any], file: Path) -> dict[str, Any]:
    config = content.get("cfg")
    found = config.get("model") if isinstance(config, Mapping) else content.get("args")
    if found is None or "model" not in content:
        raise RequestError(f"{file} is no fairseq checkpoint: it has no settings of a model")
    said = dict(found) if isinstance(found, Mapping) else dict(vars(found))
    for key, value in ONLY.items():
        if said.get(key, value) not in (value, None):
            raise RequestError(f"{file}: {key} is {said[key]!r}; only {value!r} can be read")
    for key in SAME:
        one, other = said.get(f"encoder_{key}"), said.get(f"decoder_{key}")
        if one != other:
            raise RequestError(
                f"{file}: encoder_{key} is {one!r} and decoder_{key} {other!r}; regard has one for"
                " both"
            )
    activation = said.get("activation_fn") or "relu"
    if activation not in ACTIVATIONS:
        raise RequestError(
            f"{file}: activation_fn is {activation!r}; {nearest(activation, ACTIVATIONS)}"
        )
    return said


def _spec(said: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "dim": said["encoder_embed_dim"],
        "heads": said["encoder_attention_heads"],
        "layers": said["encoder_layers"],
        "decoder_layers": said["decoder_layers"],
        "ffn_dim": said["encoder_ffn_embed_dim"],
        "dropout": float(said.get("dropout", 0.1)),
        "attention_dropout": float(said.get("attention_dropout") or 0.0),
        "activation_dropout": float(said.get("activation_dropout") or 0.0),
        "norm": "pre" if said.get("encoder_normalize_before") else "post",
        "positions": "halves",
        "first": 2,
        "activation": ACTIVATIONS[said.get("activation_fn") or "relu"],
        "epsilon": 1e-5,
        "scaled": not said.get("no_scale_embedding", False),
    }


def _dictionaries(folder: Path, said: Mapping[str, Any]) -> list[list[str]]:
    """The tokens of both sides; which file is whose is said by the languages, or by the names."""
    places = [folder, folder / "data-bin", folder.parent, folder.parent / "data-bin"]
    for place in places:
        files = {p.name.split(".")[1]: p for p in sorted(place.glob("dict.*.txt"))}
        sides = [said.get("source_lang"), said.get("target_lang")]
        if all(side in files for side in sides):
            return [_tokens(files[str(side)]) for side in sides]
        if len(files) == 1:
            return [_tokens(next(iter(files.values())))] * 2
        if {"source", "target"} <= files.keys():
            return [_tokens(files["source"]), _tokens(files["target"])]
        if files:
            raise RequestError(
                f"{place} has {', '.join(p.name for p in files.values())}; rename the source's"
                " dict.source.txt and the target's dict.target.txt"
            )
    raise RequestError(f"{folder} has no dict.*.txt: put the dictionaries beside the checkpoint")


def _tokens(path: Path) -> list[str]:
    """A dictionary: a token and its count a line, behind the four special ones."""
    names = list(FIRST)
    for number, line in enumerate(text_lines(path.read_bytes().decode("utf-8")), 1):
        token, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not count.isdigit():
            raise RequestError(f"{path}:{number}: expected a token and its count, got {line!r}")
        names.append(token)
    return names
