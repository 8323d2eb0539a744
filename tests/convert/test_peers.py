"""Checkpoints of fairseq, OpenNMT-py and JoeyNMT against those programs' own classes.

They run where $REGARD_PEERS says where the programs are; `test_checkpoints` runs everywhere.
"""

import pytest
import torch

import regard
from regard.convert import convert
from regard.protocols import BOS, EOS, PAD, UNK
from tests.convert import peers

CASES = [
    ("fairseq", peers.fairseq, {}),
    ("fairseq", peers.fairseq, {"share_all_embeddings": True, "encoder_normalize_before": True,
                                "decoder_normalize_before": True, "activation_fn": "gelu"}),
    ("fairseq", peers.fairseq, {"share_decoder_input_output_embed": True,
                                "no_scale_embedding": True}),
    ("joeynmt", peers.joeynmt, {}),
    ("joeynmt", peers.joeynmt, {"tied": True, "layer_norm": "post"}),
    ("joeynmt", peers.joeynmt, {"scale": False}),
    ("opennmt-py", peers.opennmt, {}),
    ("opennmt-py", peers.opennmt, {"tied": True, "add_qkvbias": True}),
    ("opennmt-py", peers.opennmt, {"pos_ffn_activation_fn": "gelu", "add_ffnbias": False,
                                   "position_encoding_type": "SinusoidalConcat"}),
]  # fmt: skip
NAMES = {"<pad>": PAD, "<blank>": PAD, "</s>": EOS, "<unk>": UNK}


@pytest.mark.parametrize(("origin", "make", "changes"), CASES)
def test_logits_are_theirs(tmp_path, origin, make, changes):
    (tmp_path / "peer").mkdir()
    peer = make(tmp_path / "peer", **changes)
    convert(peer.path, origin, tmp_path / "own")
    loaded = regard.load(tmp_path / "own")
    sides = {"source": peer.source, "target": peer.target}
    order = {side: ids(loaded, side, names) for side, names in sides.items()}
    lengths = torch.tensor([7, 4, 2])
    end, pad = (
        peer.source.index("</s>"),
        max(map(peer.source.index, {"<pad>", "<blank>"} & set(peer.source))),
    )
    torch.manual_seed(2)
    source = torch.randint(4, len(peer.source), (3, 7))
    for row, length in enumerate(lengths.tolist()):
        source[row, length - 1] = end
        source[row, length:] = pad
    target = torch.randint(4, len(peer.target), (3, 5))
    with torch.no_grad():
        theirs = peer.logits(source, lengths, target)
        words = torch.cat([torch.full((3, 1), BOS), order["target"][target]], 1)
        ours = loaded.model(order["source"][source], words, lengths).logits
    known = [i for i, name in enumerate(peer.target) if not name.startswith("<") or name in NAMES]
    torch.testing.assert_close(
        ours[..., order["target"][known]], theirs[..., known], atol=2e-5, rtol=1e-5
    )


def ids(loaded, side, names):
    """For each id of theirs, ours, by the tokens."""
    own = {name: i for i, name in enumerate(loaded.tokenizers[side].vocabulary)}
    return torch.tensor([NAMES.get(name, own.get(name, UNK)) for name in names])
