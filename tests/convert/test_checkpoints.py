"""Checkpoints written by hand in the layouts of fairseq, JoeyNMT and OpenNMT-py.

What the converted model must compute is written out here in plain torch, from each program's source
and without its classes or ours; `test_peers` compares with the classes where they are installed.
"""

import argparse
import math
import pickle

import pytest
import torch
import yaml
from torch.nn import functional as F

import regard
from regard.convert import convert
from regard.errors import RequestError
from regard.protocols import BOS, EOS, PAD, UNK

DIM, HEADS, HIDDEN = 8, 2, 12
ROOT = math.sqrt(DIM)
WORDS = [f"w{i}" for i in range(9)]
OTHER = [f"v{i}" for i in range(7)]

# The names in a layer: norm and attention before it, norm and cross-attention, norm and the rest.
FAIRSEQ = {
    "layers": ("encoder.layers.{}.", "decoder.layers.{}."),
    "self": ("self_attn_layer_norm", "self_attn"),
    "cross": ("encoder_attn_layer_norm", "encoder_attn"),
    "feed": ("final_layer_norm", "fc1", "fc2"),
    "parts": ("q_proj", "k_proj", "v_proj", "out_proj"),
    "words": ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    "output": "decoder.output_projection",
}
JOEY = {
    "layers": ("encoder.layers.{}.", "decoder.layers.{}."),
    "self": ("layer_norm", "src_src_att"),
    "self in decoder": ("x_layer_norm", "trg_trg_att"),
    "cross": ("dec_layer_norm", "src_trg_att"),
    "feed": ("feed_forward.layer_norm", "feed_forward.pwff_layer.0", "feed_forward.pwff_layer.3"),
    "parts": ("q_layer", "k_layer", "v_layer", "output_layer"),
    "words": ("src_embed.lut.weight", "trg_embed.lut.weight"),
    "output": "decoder.output_layer",
}
ONMT = {
    "layers": ("encoder.transformer.{}.", "decoder.transformer_layers.{}."),
    "self": ("layer_norm", "self_attn"),
    "self in decoder": ("layer_norm_1", "self_attn"),
    "cross": ("layer_norm_2", "context_attn"),
    "feed": ("feed_forward.layer_norm", "feed_forward.w_1", "feed_forward.w_2"),
    "parts": ("linear_query", "linear_keys", "linear_values", "final_linear"),
    "words": (
        "encoder.embeddings.make_embedding.emb_luts.0.weight",
        "decoder.embeddings.make_embedding.emb_luts.0.weight",
    ),
    "output": "generator",
}  # fmt: skip


def weights(names, sizes, *, biases=True, output_bias=False, last=False):
    """A random state: one layer each."""
    torch.manual_seed(0)
    state = {}

    def linear(path, out, into, bias=True):
        state[f"{path}.weight"] = torch.randn(out, into) * 0.4
        if bias:
            state[f"{path}.bias"] = torch.randn(out) * 0.3

    def norm(path):
        state[f"{path}.weight"] = 1 + 0.2 * torch.randn(DIM)
        state[f"{path}.bias"] = 0.2 * torch.randn(DIM)

    for side, above in enumerate(names["layers"]):
        above = above.format(0)
        own = names["self"] if side == 0 else names.get("self in decoder", names["self"])
        for place, attention in [own, *([names["cross"]] if side else [])]:
            norm(above + place)
            for part in names["parts"]:
                linear(f"{above}{attention}.{part}", DIM, DIM, biases)
        place, into, out = names["feed"]
        norm(above + place)
        linear(above + into, HIDDEN, DIM)
        linear(above + out, DIM, HIDDEN)
        state[names["words"][side]] = torch.randn(sizes[side], DIM) * 0.5
        if last:
            norm(("encoder", "decoder")[side] + ".layer_norm")
    linear(names["output"], sizes[1], DIM, output_bias)
    return state


def logits(state, names, source, target, *, pre, epsilon, positions, scale=ROOT):
    """One sentence: source and target ids to scores of every next token, (T, V)."""

    def linear(path, x):
        return F.linear(x, state[f"{path}.weight"], state.get(f"{path}.bias"))

    def norm(path, x):
        centered = x - x.mean(-1, keepdim=True)
        variance = centered.square().mean(-1, keepdim=True)
        scaled = centered / (variance + epsilon).sqrt()
        return scaled * state[f"{path}.weight"] + state[f"{path}.bias"]

    def look(path, x, y, causal):
        q, k, v, o = (f"{path}.{part}" for part in names["parts"])
        heads = []
        size = DIM // HEADS
        queries, keys, values = linear(q, x), linear(k, y), linear(v, y)
        for h in range(HEADS):
            at = slice(h * size, (h + 1) * size)
            scores = queries[:, at] @ keys[:, at].T / math.sqrt(size)
            if causal:
                later = torch.ones_like(scores).triu(1).bool()
                scores = scores.masked_fill(later, -math.inf)
            heads.append(scores.softmax(-1) @ values[:, at])
        return linear(o, torch.cat(heads, -1))

    def around(path, x, sublayer):
        return x + sublayer(norm(path, x)) if pre else norm(path, x + sublayer(x))

    def stack(side, x, memory=None):
        above = names["layers"][side].format(0)
        own = names["self"] if side == 0 else names.get("self in decoder", names["self"])
        x = around(above + own[0], x, lambda y: look(above + own[1], y, y, side == 1))
        if side:
            place, attention = names["cross"]
            x = around(above + place, x, lambda y: look(above + attention, y, memory, False))
        place, into, out = names["feed"]
        x = around(above + place, x, lambda y: linear(above + out, linear(above + into, y).relu()))
        return norm(("encoder", "decoder")[side] + ".layer_norm", x) if pre else x

    read, write = (
        F.embedding(ids, state[table]) * scale + positions(len(ids))
        for ids, table in zip((source, target), names["words"], strict=True)
    )
    return linear(names["output"], stack(1, write, stack(0, read)))


def interleaved(length):
    table = torch.zeros(length, DIM)
    for p in range(length):
        for i in range(0, DIM, 2):
            table[p, i] = math.sin(p / 10000 ** (i / DIM))
            table[p, i + 1] = math.cos(p / 10000 ** (i / DIM))
    return table


def from_two(length):
    """fairseq: rows 2, 3, ... of tensor2tensor's table."""
    half = DIM // 2
    table = torch.zeros(length, DIM)
    for p in range(length):
        for i in range(half):
            angle = (p + 2) * math.exp(-i * math.log(10000) / (half - 1))
            table[p, i], table[p, half + i] = math.sin(angle), math.cos(angle)
    return table


def fairseq(folder, **changes):
    settings = {
        "encoder_layers": 1, "decoder_layers": 1, "encoder_embed_dim": DIM,
        "decoder_embed_dim": DIM, "encoder_ffn_embed_dim": HIDDEN, "decoder_ffn_embed_dim": HIDDEN,
        "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "source_lang": "de",
        "target_lang": "en", "activation_fn": "relu", "encoder_normalize_before": False,
        "decoder_normalize_before": False, **changes,
    }  # fmt: skip
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    for language, names in (("de", WORDS), ("en", OTHER)):
        lines = "".join(f"{name} {100 - i}\n" for i, name in enumerate(names))
        (folder / f"dict.{language}.txt").write_text(lines)
    state = weights(FAIRSEQ, (13, 11))
    content = {
        "cfg": {"model": argparse.Namespace(**settings)},
        "model": {**state, "encoder.version": torch.tensor([3.0])},
        "extra_state": {"best": 1.0}, "optimizer_history": [{"num_updates": 3}],
    }  # fmt: skip
    torch.save(content, folder / "checkpoint_best.pt")
    options = {"pre": False, "epsilon": 1e-5, "positions": from_two}
    return state, FAIRSEQ, (special + WORDS, special + OTHER), "</s>", True, options


def joeynmt(folder, **changes):
    half = {
        "type": "transformer", "num_layers": 1, "num_heads": HEADS, "hidden_size": DIM,
        "ff_size": HIDDEN, "layer_norm": "post", "dropout": 0.1,
        "embeddings": {"embedding_dim": DIM, "scale": False}, **changes,
    }  # fmt: skip
    config = {"model": {"encoder": half, "decoder": half}, "data": {}, "testing": {"beam_size": 3}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    special = ["<unk>", "<pad>", "<s>", "</s>"]
    for side, names in (("src", WORDS), ("trg", OTHER)):
        (folder / f"{side}_vocab.txt").write_text("\n".join(special + names) + "\n")
    state = weights(JOEY, (13, 11))
    torch.save({"model_state": state, "stats_state": {"steps": 1}}, folder / "best.ckpt")
    options = {"pre": False, "epsilon": 1e-6, "positions": interleaved, "scale": 1.0}
    return state, JOEY, (special + WORDS, special + OTHER), "<s>", True, options


def opennmt(folder, **changes):
    opt = argparse.Namespace(**{
        "encoder_type": "transformer", "decoder_type": "transformer", "enc_layers": 1,
        "dec_layers": 1, "enc_hid_size": DIM, "heads": HEADS, "transformer_ff": HIDDEN,
        "position_encoding": True, "max_relative_positions": 0, "dropout": [0.1, 0.2], **changes,
    })  # fmt: skip
    special = ["<unk>", "<blank>", "<s>", "</s>"]
    sides = special + WORDS, special + OTHER
    state = weights(ONMT, (13, 11), biases=False, output_bias=True, last=True)
    model = {name: tensor for name, tensor in state.items() if not name.startswith("generator")}
    generator = {kind: state[f"generator.{kind}"] for kind in ("weight", "bias")}
    vocabulary = {"src": sides[0], "tgt": sides[1], "decoder_start_token": "<s>"}
    content = {"model": model, "generator": generator, "opt": opt, "vocab": vocabulary}
    torch.save(content, folder / "model_step_20.pt")
    options = {"pre": True, "epsilon": 1e-6, "positions": interleaved}
    return state, ONMT, sides, "<s>", False, options


MAKERS = {"fairseq": fairseq, "joeynmt": joeynmt, "opennmt-py": opennmt}


@pytest.mark.parametrize("origin", MAKERS)
def test_logits_are_those_written_out(tmp_path, origin):
    (tmp_path / "peer").mkdir()
    state, names, (source, target), start, ends, options = MAKERS[origin](tmp_path / "peer")
    convert(tmp_path / "peer", origin, tmp_path / "own")
    loaded = regard.load(tmp_path / "own")
    texts = ["w3 w0 w7 w7 w1", "w8 w2"]
    outputs = ["v1 v6 v0", "v2 v2 v5"]
    tokens = loaded.tokenizers
    for text, output in zip(texts, outputs, strict=True):
        read = [source.index(w) for w in text.split()] + ([source.index("</s>")] if ends else [])
        write = [target.index(start), *(target.index(w) for w in output.split())]
        theirs = logits(state, names, torch.tensor(read), torch.tensor(write), **options)
        given = torch.tensor([[*tokens["source"].encode(text).ids, EOS]])
        words = torch.tensor([[BOS, *tokens["target"].encode(output).ids]])
        with torch.no_grad():
            ours = loaded.model(given, words).logits[0]
        for i, name in enumerate(target):
            known = {"</s>": EOS, "<unk>": UNK, "<pad>": PAD, "<blank>": PAD}
            own = known.get(
                name, tokens["target"].vocabulary.index(name) if "<" not in name else -1
            )
            if own >= 0:
                torch.testing.assert_close(ours[:, own], theirs[:, i], atol=1e-5, rtol=1e-5)
    assert set(loaded.translate(texts[0]).split()) <= set(OTHER) | {"<s>#4"}


def test_a_start_that_is_a_copy_is_never_written(tmp_path):
    fairseq(tmp_path)
    convert(tmp_path, "fairseq", tmp_path / "own")
    model = regard.load(tmp_path / "own").model
    with torch.no_grad():
        out = model(torch.tensor([[5, 6, EOS]]), torch.tensor([[BOS, 7]])).logits.softmax(-1)
    assert (out[..., BOS] == 0).all()
    assert torch.equal(model.embed_target.weight[BOS], model.embed_target.weight[EOS])


WRONG = [
    ("fairseq", {"encoder_learned_pos": True}, "encoder_learned_pos is True; only False"),
    ("fairseq", {"decoder_ffn_embed_dim": 20}, "encoder_ffn_embed_dim is 12 and decoder_.* 20"),
    ("fairseq", {"activation_fn": "gelo"}, "did you mean 'gelu'"),
    ("fairseq", {"encoder_layers": 2}, "no encoder.layers.1.self_attn.q_proj.weight"),
    ("fairseq", {"encoder_embed_dim": 10, "decoder_embed_dim": 10}, "do not fit"),
    ("joeynmt", {"type": "recurrent"}, "the encoder is 'recurrent', not a transformer"),
    ("joeynmt", {"alpha": 0.8}, "alpha is 0.8; only 1.0"),
    ("opennmt-py", {"max_relative_positions": 20}, "max_relative_positions is 20; only 0"),
    ("opennmt-py", {"pos_ffn_activation_fn": "silu"}, "pos_ffn_activation_fn is 'silu'"),
]


@pytest.mark.parametrize(("origin", "changes", "said"), WRONG)
def test_other_models_are_refused(tmp_path, origin, changes, said):
    MAKERS[origin](tmp_path, **changes)
    with pytest.raises(RequestError, match=said) as caught:
        convert(tmp_path, origin, tmp_path / "own")
    assert str(tmp_path) in str(caught.value)
    assert not (tmp_path / "own").exists()


class Bomb:
    """What runs a command when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return (open, (self.place, "w"))


def test_no_pickle_is_run(tmp_path):
    torch.save({"model": {}, "cfg": Bomb(str(tmp_path / "ran"))}, tmp_path / "bad.pt")
    with pytest.raises(RequestError, match=r"bad.pt cannot be read .* holds .*open"):
        convert(tmp_path / "bad.pt", "fairseq", tmp_path / "own")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Bomb(str(tmp_path / "ran"))))
    with pytest.raises(RequestError, match=r"plain.pt cannot be read .* no file of torch.save"):
        convert(tmp_path / "plain.pt", "opennmt-py", tmp_path / "own")
    assert not (tmp_path / "ran").exists()


def test_what_is_missing_is_said(tmp_path):
    fairseq(tmp_path)
    (tmp_path / "dict.en.txt").write_text("v0 12\nv1 many\n")
    with pytest.raises(RequestError, match=r"dict.en.txt:2: expected a token and its count"):
        convert(tmp_path, "fairseq", tmp_path / "own")
    (tmp_path / "dict.en.txt").write_text("v0 12\n")
    with pytest.raises(RequestError, match="the vocabulary has 5 tokens, and the embedding 11"):
        convert(tmp_path, "fairseq", tmp_path / "own")
    for file in tmp_path.glob("dict.*"):
        file.unlink()
    with pytest.raises(RequestError, match=r"has no dict.\*.txt: put the dictionaries beside"):
        convert(tmp_path, "fairseq", tmp_path / "own")
    with pytest.raises(RequestError, match="there is no checkpoint"):
        convert(tmp_path / "none", "fairseq", tmp_path / "own")
    with pytest.raises(RequestError, match="no format 'farseq': did you mean 'fairseq'"):
        convert(tmp_path, "farseq", tmp_path / "own")
