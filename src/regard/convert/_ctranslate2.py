"""CTranslate2 folders: its C++ engine then translates as the model does here.

The sinusoid, whatever its layout, goes along as a table; biases that ours has not are left out. The
folder knows where outputs start and that sources end in `</s>`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from regard.convert._anatomy import Anatomy, anatomy
from regard.convert._readme import longest, manual, needs
from regard.data.text.tokenizer import SPECIALS
from regard.errors import RequestError, nearest
from regard.protocols import BOS, EOS, UNK

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["write"]

ACTIVATIONS = {
    "relu": "RELU",
    "swish": "SWISH",
    "gelu": "GELU",
    "gelu-tanh": "GELUTanh",
    "tanh": "Tanh",
}
QUANTIZATIONS = ("int8", "int16", "float16", "bfloat16", "int8_float16", "int8_bfloat16")


def write(loaded: "Loaded", out: Path, quantization: str | None = None) -> None:
    """Write `model.bin`, `config.json`, vocabularies, tokenizers and a manual.

    Args:
        quantization: of the weights, one of `QUANTIZATIONS`; none keeps float32.

    Raises:
        RequestError: CTranslate2 is not installed, or has no word for a part of the model.
    """
    needs("ctranslate2")
    from ctranslate2.specs import TransformerSpec, common_spec

    if quantization is not None and quantization not in QUANTIZATIONS:
        near = nearest(quantization, QUANTIZATIONS)
        raise RequestError(f"there is no quantization {quantization!r}: {near}")
    made, positions = anatomy(loaded.model), longest(loaded)
    spec = TransformerSpec.from_config(
        (made.layers, made.decoder_layers),
        made.heads,
        pre_norm=made.pre_norm,
        activation=common_spec.Activation[ACTIVATIONS[made.activation]],
    )
    _fill(spec, made, positions)
    spec.config.unk_token, spec.config.bos_token = SPECIALS[UNK], SPECIALS[BOS]
    spec.config.eos_token, spec.config.decoder_start_token = SPECIALS[EOS], SPECIALS[BOS]
    spec.config.add_source_eos = False
    spec.config.layer_norm_epsilon = made.epsilon
    spec.register_source_vocabulary(loaded.tokenizers["source"].vocabulary)
    spec.register_target_vocabulary(loaded.tokenizers["target"].vocabulary)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(out))
    size = getattr(loaded.decoder, "beam_size", 1)
    manual(
        loaded,
        out,
        "ctranslate2",
        size=size,
        length=loaded.decoder.length_penalty,
        positions=positions,
        limit=_limit(loaded, positions),
    )


def _limit(loaded: "Loaded", positions: int) -> str:
    """How long an output may be, as Python counts it from `pieces`, which have no EOS."""
    decoder = loaded.decoder
    source = "len(pieces)" if getattr(loaded.model, "reads_end", True) else "(len(pieces) + 1)"
    grown = f"math.ceil({decoder.max_ratio} * {source}) + {decoder.max_extra - 1}"
    most = positions if decoder.max_length is None else min(positions, decoder.max_length)
    return f"min({most - 1}, {grown})"


def _fill(spec: Any, made: Anatomy, positions: int) -> None:
    model, table = made.model, _array(made.positions(positions))
    spec.encoder.embeddings[0].weight = _array(model.embed_source.weight)
    spec.decoder.embeddings.weight = _array(model.embed_target.weight)
    _linear(spec.decoder.projection, model.output)
    for name, side in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        side.scale_embeddings = made.scale != 1.0
        side.position_encodings.encodings = table
        if made.pre_norm:
            _norm(side.layer_norm, getattr(model, f"{name}_norm"))
        for part, (_, layer) in zip(side.layer, made.layers_of(name), strict=True):
            own = layer.self_attention
            _linear(part.self_attention.linear[0], own.query, own.key, own.value)
            _linear(part.self_attention.linear[1], own.out)
            _norm(part.self_attention.layer_norm, layer.self_residual.norm)
            if name == "decoder":
                cross = layer.cross_attention
                _linear(part.attention.linear[0], cross.query)
                _linear(part.attention.linear[1], cross.key, cross.value)
                _linear(part.attention.linear[2], cross.out)
                _norm(part.attention.layer_norm, layer.cross_residual.norm)
            _linear(part.ffn.linear_0, layer.feedforward.into)
            _linear(part.ffn.linear_1, layer.feedforward.out)
            _norm(part.ffn.layer_norm, layer.feedforward_residual.norm)


def _linear(spec: Any, *layers: nn.Linear) -> None:
    """One layer, or several as one."""
    spec.weight = np.concatenate([_array(layer.weight) for layer in layers])
    biases = [_array(layer.bias) for layer in layers if layer.bias is not None]
    if biases:
        spec.bias = np.concatenate(biases)


def _norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> np.ndarray:
    found: np.ndarray = tensor.detach().float().numpy()
    return found
