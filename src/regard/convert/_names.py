"""Where a Transformer's weights are called what: tables, and the two ways through them.

A table maps the paths of linear layers and norms of ours to those of another program, layer by
layer; each stands for its weight and its bias.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.convert._vocabulary import ConvertedVocabulary
from regard.errors import RequestError
from regard.models.marian import Marian

__all__ = ["FAIRSEQ", "JOEYNMT", "OPENNMT", "Names", "assemble"]

ATTENTION = ("query", "key", "value", "out")


@dataclass(frozen=True)
class Names:
    """The paths of one program.

    Args:
        layers: of an encoder's and of a decoder's layer.
        encoder, decoder: of the parts of such a layer.
        norms: the last norms of encoder and decoder.
        source, target, output: the embeddings and the output layer.
    """

    layers: tuple[str, str]
    encoder: Mapping[str, str]
    decoder: Mapping[str, str]
    norms: tuple[str, str]
    source: str
    target: str
    output: str

    def pairs(self, layers: int, decoder_layers: int, pre_norm: bool) -> Iterator[tuple[str, str]]:
        """Our path and theirs, of every linear layer and norm between embedding and output."""
        for side, count, above, parts in (
            ("encoder", layers, self.layers[0], self.encoder),
            ("decoder", decoder_layers, self.layers[1], self.decoder),
        ):
            for i in range(count):
                for own, path in parts.items():
                    yield f"{side}.{i}.{own}", f"{above.format(i)}.{path}"
        if pre_norm:
            yield from zip(("encoder_norm", "decoder_norm"), self.norms, strict=True)


def _attention(own: str, path: str, names: tuple[str, ...]) -> dict[str, str]:
    return {f"{own}.{a}": f"{path}.{b}" for a, b in zip(ATTENTION, names, strict=True)}


def _projections(own: str, path: str) -> dict[str, str]:
    return _attention(own, path, ("q_proj", "k_proj", "v_proj", "out_proj"))


_FAIRSEQ = {
    **_projections("self_attention", "self_attn"),
    "self_residual.norm": "self_attn_layer_norm",
    "feedforward.into": "fc1",
    "feedforward.out": "fc2",
    "feedforward_residual.norm": "final_layer_norm",
}
FAIRSEQ = Names(
    layers=("encoder.layers.{}", "decoder.layers.{}"),
    encoder=_FAIRSEQ,
    decoder={
        **_FAIRSEQ,
        **_projections("cross_attention", "encoder_attn"),
        "cross_residual.norm": "encoder_attn_layer_norm",
    },
    norms=("encoder.layer_norm", "decoder.layer_norm"),
    source="encoder.embed_tokens",
    target="decoder.embed_tokens",
    output="decoder.output_projection",
)
"""fairseq, and Hugging Face behind the prefix `model.`."""

_LINEAR = ("linear_query", "linear_keys", "linear_values", "final_linear")
_ONMT_FFN = {
    "feedforward.into": "feed_forward.w_1",
    "feedforward.out": "feed_forward.w_2",
    "feedforward_residual.norm": "feed_forward.layer_norm",
}
OPENNMT = Names(
    layers=("encoder.transformer.{}", "decoder.transformer_layers.{}"),
    encoder={
        **_attention("self_attention", "self_attn", _LINEAR),
        "self_residual.norm": "layer_norm",
        **_ONMT_FFN,
    },
    decoder={
        **_attention("self_attention", "self_attn", _LINEAR),
        "self_residual.norm": "layer_norm_1",
        **_attention("cross_attention", "context_attn", _LINEAR),
        "cross_residual.norm": "layer_norm_2",
        **_ONMT_FFN,
    },
    norms=("encoder.layer_norm", "decoder.layer_norm"),
    source="encoder.embeddings.make_embedding.emb_luts.0",
    target="decoder.embeddings.make_embedding.emb_luts.0",
    output="generator",
)
"""OpenNMT-py 2 and 3."""

_JOEY = ("q_layer", "k_layer", "v_layer", "output_layer")
_JOEY_FFN = {
    "feedforward.into": "feed_forward.pwff_layer.0",
    "feedforward.out": "feed_forward.pwff_layer.3",
    "feedforward_residual.norm": "feed_forward.layer_norm",
}
JOEYNMT = Names(
    layers=("encoder.layers.{}", "decoder.layers.{}"),
    encoder={
        **_attention("self_attention", "src_src_att", _JOEY),
        "self_residual.norm": "layer_norm",
        **_JOEY_FFN,
    },
    decoder={
        **_attention("self_attention", "trg_trg_att", _JOEY),
        "self_residual.norm": "x_layer_norm",
        **_attention("cross_attention", "src_trg_att", _JOEY),
        "cross_residual.norm": "dec_layer_norm",
        **_JOEY_FFN,
    },
    norms=("encoder.layer_norm", "decoder.layer_norm"),
    source="src_embed.lut",
    target="trg_embed.lut",
    output="decoder.output_layer",
)
"""JoeyNMT 2."""


def assemble(
    names: Names,
    given: Mapping[str, Tensor],
    source: ConvertedVocabulary,
    target: ConvertedVocabulary,
    spec: Mapping[str, Any],
    table: Tensor | None = None,
) -> tuple[Marian, dict[str, Any]]:
    """Another program's Transformer as a `Marian`, with the arguments that it was made with.

    Args:
        given: their tensors by name; what ours has a bias for and theirs has not is zero.
        source, target: the vocabularies.
        spec: the arguments of `Marian` but the vocabularies' sizes and `tied`.
        table: learned positions.

    Raises:
        RequestError: a weight is missing, or there is one that `names` has no place for.
    """
    left = {name: tensor for name, tensor in given.items() if tensor.dim()}

    def take(name: str) -> Tensor:
        if name not in left:
            raise RequestError(f"the checkpoint has no {name}: it is not the model it says it is")
        return left.pop(name).detach().float()

    found: dict[str, Tensor] = {}
    for own, path in names.pairs(spec["layers"], spec["decoder_layers"], spec["norm"] == "pre"):
        found[f"{own}.weight"] = weight = take(f"{path}.weight")
        bias = left.pop(f"{path}.bias", None)
        found[f"{own}.bias"] = torch.zeros(len(weight)) if bias is None else bias.float()
    one, other = take(f"{names.source}.weight"), take(f"{names.target}.weight")
    output = take(f"{names.output}.weight")
    found["output.bias"] = target.bias(left.pop(f"{names.output}.bias", None))
    if left:
        raise RequestError(f"{min(left)}: a plain Transformer has no place for these weights")
    tied = "none"
    if torch.equal(other, output):
        tied = "all" if torch.equal(one, other) and source.order == target.order else "output"
    if table is not None:
        found["position.table"] = table.float()
    found["embed_source.weight"] = source.rows(one)
    found["embed_target.weight"] = target.rows(other)
    found["output.weight"] = target.rows(output)
    whole = {**spec, "tied": tied}
    sizes = len(source.order), len(target.order)
    try:
        with torch.device("meta"):  # sizes that are said may be those of no machine
            Marian(*sizes, **whole).load_state_dict(found, assign=True)
        with torch.random.fork_rng(devices=[]):  # reading must not move the caller's random numbers
            model = Marian(*sizes, **whole)
            model.load_state_dict(found)
    except RuntimeError as error:
        shapes = str(error).splitlines()[-1].strip()
        raise RequestError(f"the weights do not fit what the checkpoint says: {shapes}") from error
    return model.eval(), whole
