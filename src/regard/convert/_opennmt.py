"""OpenNMT-py 3 Transformer checkpoints: one file with weights, settings and vocabularies.

Always pre-norm; its encoder does not see the end of a source.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.convert._checkpoint import Found, checkpoint_in, plain, same_sides
from regard.convert._names import OPENNMT, assemble
from regard.convert._vocabulary import ConvertedVocabulary, special
from regard.errors import RequestError, nearest

__all__ = ["read"]

ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}
LAYOUTS = {"SinusoidalInterleaved": "sinusoid", "SinusoidalConcat": "halves"}
# Settings that must have these values: the others are other models.
ONLY: Mapping[str, Any] = {
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "max_relative_positions": 0,
    "relative_positions_buckets": 0,
    "position_encoding": True,
    "parallel_residual": False,
    "layer_norm": "standard",
    "num_kv": 0,
    "num_experts": 0,
    "copy_attn": False,
    "sliding_window": 0,
}
PLAIN = ("scaled-dot", "scaled-dot-flash")
SUFFIX = ".pt"


def read(path: Path) -> Found:
    """Read a checkpoint.

    Raises:
        RequestError: no checkpoint of OpenNMT-py 3, or another model than a plain Transformer.
    """
    file = checkpoint_in(path, sorted((p.name for p in path.glob(f"*{SUFFIX}")), key=_step)[::-1])
    content = plain(file)
    if not {"model", "generator", "opt", "vocab"} <= content.keys():
        raise RequestError(f"{file} is no checkpoint of OpenNMT-py: it lacks model, opt or vocab")
    opt = content["opt"]
    said = dict(opt) if isinstance(opt, Mapping) else dict(vars(opt))
    for key, value in ONLY.items():
        if said.get(key, value) not in (value, None):
            raise RequestError(f"{file}: {key} is {said[key]!r}; only {value!r} can be read")
    if said.get("self_attn_type", PLAIN[0]) not in PLAIN:
        near = nearest(said["self_attn_type"], PLAIN)
        raise RequestError(f"{file}: self_attn_type is {said['self_attn_type']!r}; {near}")
    vocabulary = content["vocab"]
    start = vocabulary.get("decoder_start_token", "<s>")
    source, target = (
        ConvertedVocabulary.of(
            names, *(special(names, token, file) for token in ("<blank>", own, "</s>", "<unk>"))
        )
        for names, own in ((vocabulary["src"], "<s>"), (vocabulary["tgt"], start))
    )
    weights = {n: t for n, t in content["model"].items() if not n.endswith(".pe.pe")}
    weights |= {f"{OPENNMT.output}.{name}": t for name, t in content["generator"].items()}
    try:
        model, spec = assemble(OPENNMT, weights, source, target, _spec(said, file))
    except RequestError as error:
        raise RequestError(f"{file}: {error}") from error
    decode = {
        "name": "beam",
        "beam_size": 5,
        "length_penalty": 1.0,
        "max_ratio": 0.0,
        "max_extra": 250,
    }
    return Found(model, spec, same_sides(source, target), decode, "an OpenNMT-py checkpoint")


def _spec(said: Mapping[str, Any], file: Path) -> dict[str, Any]:
    activation = said.get("pos_ffn_activation_fn") or "relu"
    if activation not in ACTIVATIONS:
        near = nearest(activation, ACTIVATIONS)
        raise RequestError(f"{file}: pos_ffn_activation_fn is {activation!r}; {near}")
    return {
        "dim": said["enc_hid_size"],
        "heads": said["heads"],
        "layers": said["enc_layers"],
        "decoder_layers": said["dec_layers"],
        "ffn_dim": said["transformer_ff"],
        "dropout": _last(said.get("dropout", 0.1)),
        "attention_dropout": _last(said.get("attention_dropout", 0.1)),
        "activation_dropout": _last(said.get("dropout", 0.1)),
        "norm": "pre",
        "positions": LAYOUTS[said.get("position_encoding_type") or "SinusoidalInterleaved"],
        "activation": ACTIVATIONS[activation],
        "epsilon": float(said.get("norm_eps", 1e-6)),
        "scaled": True,  # its position encoding does it
        "reads_end": False,
    }


def _last(dropout: Any) -> float:
    """A dropout, or the last of those that follow one another in training."""
    return float(dropout[-1] if isinstance(dropout, list) else dropout)


def _step(name: str) -> int:
    digits = name.removesuffix(SUFFIX).rpartition("_")[2]
    return int(digits) if digits.isdigit() else -1
