"""JoeyNMT 2 Transformers: a model directory with `config.yaml`, vocabularies and a checkpoint."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from regard.convert._checkpoint import Found, checkpoint_in, plain, same_sides
from regard.convert._names import JOEYNMT, assemble
from regard.convert._vocabulary import ConvertedVocabulary, special
from regard.data.files.packing import text_lines
from regard.errors import RequestError, nearest

__all__ = ["read"]

FILES = ("best.ckpt", "latest.ckpt")
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "tanh": "tanh"}
VOCABULARIES = {"encoder": ("src", "src_vocab.txt"), "decoder": ("trg", "trg_vocab.txt")}
SAME = ("hidden_size", "ff_size", "num_heads", "layer_norm", "activation", "alpha")
USUAL = {"hidden_size": 512, "ff_size": 2048, "activation": "relu", "alpha": 1.0, "dropout": 0.1}


def read(path: Path) -> Found:
    """Read a model directory, or one checkpoint of it.

    Raises:
        RequestError: a file is missing, or it is another model than a plain Transformer.
    """
    file = checkpoint_in(path, FILES)
    settings = file.parent / "config.yaml"
    if not settings.is_file():
        raise RequestError(f"{file.parent} has no config.yaml, which says what the model is")
    try:
        config = yaml.safe_load(settings.read_text("utf-8"))
        model, data = config["model"], config["data"]
        spec = _spec(model, settings)
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise RequestError(f"{settings} is no configuration of JoeyNMT: {error!r}") from error
    content = plain(file)
    if "model_state" not in content:
        raise RequestError(f"{file} is no checkpoint of JoeyNMT: it has no model_state")
    source, target = (_side(file.parent, data, *VOCABULARIES[side]) for side in VOCABULARIES)
    state: Mapping[str, Any] = content["model_state"]
    kept = {n: t for n, t in state.items() if not n.endswith(".pe") and not n.startswith("loss_")}
    try:
        built, spec = assemble(JOEYNMT, kept, source, target, spec)
    except RequestError as error:
        raise RequestError(f"{file}: {error}") from error
    testing = config.get("testing") or {}
    alpha = float(testing.get("beam_alpha", -1))
    decode = {
        "name": "beam",
        "beam_size": int(testing.get("beam_size", 5)),
        "penalty": "gnmt",
        "length_penalty": max(alpha, 0.0),
        "max_ratio": 1.5,
    }
    return Found(built, spec, same_sides(source, target), decode, "a JoeyNMT checkpoint")


def _spec(model: Mapping[str, Any], where: Path) -> dict[str, Any]:
    encoder, decoder = ({**USUAL, **model[side]} for side in VOCABULARIES)
    # Where the norm stands is "pre" in the encoder and "post" in the decoder if nobody says.
    encoder.setdefault("layer_norm", "pre (with no last norm)")
    decoder.setdefault("layer_norm", "post")
    for side, own in (("encoder", encoder), ("decoder", decoder)):
        if own.get("type") != "transformer":
            raise RequestError(f"{where}: the {side} is {own.get('type')!r}, not a transformer")
    for key in SAME:
        if encoder.get(key) != decoder.get(key):
            raise RequestError(
                f"{where}: {key} is {encoder.get(key)!r} in the encoder and {decoder.get(key)!r} in"
                " the decoder; regard has one for both"
            )
    if encoder["alpha"] != 1.0:
        raise RequestError(f"{where}: alpha is {encoder['alpha']}; only 1.0 can be read")
    if encoder["activation"] not in ACTIVATIONS:
        near = nearest(str(encoder["activation"]), ACTIVATIONS)
        raise RequestError(f"{where}: activation is {encoder['activation']!r}; {near}")
    scaled = [bool(own["embeddings"].get("scale", False)) for own in (encoder, decoder)]
    if model.get("tied_embeddings"):
        scaled[1] = scaled[0]
    if scaled[0] != scaled[1]:
        raise RequestError(f"{where}: embeddings.scale differs between the encoder and the decoder")
    return {
        "dim": encoder["hidden_size"],
        "heads": encoder["num_heads"],
        "layers": encoder["num_layers"],
        "decoder_layers": decoder["num_layers"],
        "ffn_dim": encoder["ff_size"],
        "dropout": float(encoder["dropout"]),
        "attention_dropout": float(encoder["dropout"]),
        "activation_dropout": float(encoder["dropout"]),
        "norm": encoder["layer_norm"],
        "positions": "sinusoid",
        "activation": ACTIVATIONS[encoder["activation"]],
        "epsilon": 1e-6,
        "scaled": scaled[0],
    }


def _side(folder: Path, data: Mapping[str, Any], key: str, name: str) -> ConvertedVocabulary:
    """A vocabulary, a token a line, special ones among them."""
    written = (data.get(key) or {}).get("voc_file")
    file = folder / name if (folder / name).is_file() or not written else Path(written)
    if not file.is_file():
        raise RequestError(f"{folder} has no {name}, the vocabulary")
    names = text_lines(file.read_bytes().decode("utf-8"))
    said = data.get("special_symbols") or {}
    tokens = (
        ("pad", "<pad>"),
        ("bos", "<s>"),
        ("eos", "</s>"),
        ("unk", "<unk>"),
    )
    return ConvertedVocabulary.of(
        names, *(special(names, said.get(f"{k}_token", t), file) for k, t in tokens)
    )
