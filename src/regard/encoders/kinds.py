"""What kinds of encoders a folder may hold: how `config.json` and the weights name their parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.encoders.stack import Shape

__all__ = ["KINDS", "Kind"]

_BERT = {
    "read.0": "attention.self.query",
    "read.1": "attention.self.key",
    "read.2": "attention.self.value",
    "out": "attention.output.dense",
    "attended": "attention.output.LayerNorm",
    "wide": "intermediate.dense",
    "narrow": "output.dense",
    "done": "output.LayerNorm",
}
_DISTIL = {
    "read.0": "attention.q_lin",
    "read.1": "attention.k_lin",
    "read.2": "attention.v_lin",
    "out": "attention.out_lin",
    "attended": "sa_layer_norm",
    "wide": "ffn.lin1",
    "narrow": "ffn.lin2",
    "done": "output_layer_norm",
}
_SIZES = {
    "dim": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "ffn": "intermediate_size",
    "activation": "hidden_act",
}
_DISTIL_SIZES = {
    "dim": "dim",
    "layers": "n_layers",
    "heads": "n_heads",
    "ffn": "hidden_dim",
    "activation": "activation",
}


@dataclass(frozen=True)
class Kind:
    """One `model_type` of transformers.

    Args:
        prefix: before the names of the weights where the encoder is a part of a larger model.
        layer: before the number of a layer.
        parts: of a layer, ours and theirs.
        sizes: keys of `config.json` for arguments of `Shape`.
        behind_padding: the first position is behind the padding's, as in RoBERTa.
        typed: there are vectors of the first and the second text.
    """

    prefix: str
    layer: str = "encoder.layer"
    parts: Mapping[str, str] = field(default_factory=lambda: _BERT)
    sizes: Mapping[str, str] = field(default_factory=lambda: _SIZES)
    behind_padding: bool = False
    typed: bool = True

    def shape(self, config: Mapping[str, Any]) -> Shape:
        """The sizes that a `config.json` says.

        Raises:
            KeyError: it lacks one.
        """
        found = {ours: config[theirs] for ours, theirs in self.sizes.items()}
        return Shape(
            **found,
            vocabulary=config["vocab_size"],
            positions=config["max_position_embeddings"],
            first=config["pad_token_id"] + 1 if self.behind_padding else 0,
            embed=config.get("embedding_size", found["dim"]),
            epsilon=config.get("layer_norm_eps", 1e-12),
        )

    def names(self, layers: int) -> dict[str, str]:
        """Of each module of a `Stack` that has a weight what the file calls it."""
        found = {
            "pieces": "embeddings.word_embeddings",
            "places": "embeddings.position_embeddings",
            "norm": "embeddings.LayerNorm",
            "widen": "embeddings_project",
        }
        for number in range(layers):
            for ours, theirs in self.parts.items():
                found[f"layers.{number}.{ours}"] = f"{self.layer}.{number}.{theirs}"
        return found


KINDS: Mapping[str, Kind] = {
    "bert": Kind("bert."),
    "electra": Kind("electra."),
    "roberta": Kind("roberta.", behind_padding=True),
    "xlm-roberta": Kind("roberta.", behind_padding=True),
    "camembert": Kind("roberta.", behind_padding=True),
    "distilbert": Kind("distilbert.", "transformer.layer", _DISTIL, _DISTIL_SIZES, typed=False),
}
"""By `model_type`."""
