"""RNNsearch beside the Bahdanau models of JoeyNMT and OpenNMT-py, for `shared/peers/pair.py`.

Copied there as `adapters/rnn.py`, next to `adapters/regard_own.py` (pair_adapter.py); see
`benchmarks/README.md`. All have one bidirectional GRU of 256 a side, a GRU decoder of 256 that
reads additive attention over 512 and word vectors of 256. Ours has the paper's maxout readout, of
208 units so that it has JoeyNMT's number of parameters (8.03 and 8.05 million); theirs Luong's
tanh.
"""

import torch
from adapters.joey import Joey
from adapters.onmt_py import Onmt
from adapters.regard_own import Regard, RegardBf16, RegardInt8

from regard.models.rnnsearch import RNNsearch


class RegardRNN(Regard):
    """RNNsearch, float32."""

    name = "regard-rnn"

    def make(self, s):
        """One layer, whatever the size of the Transformers."""
        return RNNsearch(
            s.vocab, s.vocab, embed=s.d, hidden=s.d, align=s.d, maxout=13 * s.d // 16,
            dropout=s.dropout, scale=None,
        )  # fmt: skip


class RegardRNNBf16(RegardBf16, RegardRNN):
    """Weights in bfloat16."""

    name = "regard-rnn-bf16"


class RegardRNNInt8(RegardInt8, RegardRNN):
    """Weights, and rows on their way, in bytes."""

    name = "regard-rnn-int8"


class JoeyRNN(Joey):
    """JoeyNMT's recurrent encoder and decoder with `attention: bahdanau`."""

    name = "joeynmt-rnn"

    def build(self):
        """As its configuration files for recurrent models say."""
        from types import SimpleNamespace

        from common import BOS, EOS, PAD, UNK
        from joeynmt.model import build_model
        from joeynmt.vocabulary import Vocabulary

        s = self.size
        names = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>", "sep": None}
        special = SimpleNamespace(
            **{f"{k}_token": v for k, v in names.items()},
            unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None, lang_tags=[],
        )  # fmt: skip
        self.ids = {PAD: 1, BOS: 2, EOS: 3, UNK: 0}

        class Fast(Vocabulary):  # the stock add_tokens is quadratic in the vocabulary
            def add_tokens(self, tokens):
                for token in tokens:
                    if token not in self._stoi:
                        self._stoi[token] = len(self._itos)
                        self._itos.append(token)

        words = Fast([f"w{i}" for i in range(s.vocab - 4)], special)
        both = {
            "type": "recurrent", "rnn_type": "gru", "num_layers": 1, "hidden_size": s.d,
            "dropout": s.dropout, "embeddings": {"embedding_dim": s.d, "dropout": s.dropout},
        }  # fmt: skip
        decoder = {
            "attention": "bahdanau", "input_feeding": True, "init_hidden": "bridge",
            "hidden_dropout": s.dropout,
        }  # fmt: skip
        torch.manual_seed(0)
        self.model = build_model(
            {"encoder": both | {"bidirectional": True}, "decoder": both | decoder},
            src_vocab=words, trg_vocab=words,
        )  # fmt: skip
        self.model.loss_function = ("crossentropy", s.smoothing)

    def batch(self, b, train):
        """Longest source first, as its prediction and training loops sort them."""
        made = super().batch(b, train)
        if train:
            made.sort_by_src_length()
        return made


class OnmtRNN(Onmt):
    """OpenNMT-py's `brnn` encoder and `rnn` decoder with `global_attention mlp`."""

    name = "opennmt-py-rnn"

    def build(self):
        """Its own defaults for recurrent models, one layer of GRU."""
        import sys
        import types

        for absent in ("fasttext", "spacy"):  # optional transforms, not installed here
            sys.modules.setdefault(absent, types.ModuleType(absent))
        from onmt.utils.parse import ArgumentParser

        parse = ArgumentParser.parse_args

        def recurrent(parser, given, *rest, **named):
            """The options of the Transformer's adapter, with the model's own replaced."""
            size, drop = str(self.size.d), str(self.size.dropout)
            own = [
                "-data", "{}", "-src_vocab", "x", "-save_model", "x",
                "-share_vocab", "-encoder_type", "brnn", "-decoder_type", "rnn", "-rnn_type", "GRU",
                "-layers", "1", "-hidden_size", size, "-word_vec_size", size, "-dropout", drop,
                "-global_attention", "mlp", "-input_feed", "1",
                "-label_smoothing", str(self.size.smoothing), "-param_init_glorot",
            ]  # fmt: skip
            found = parse(parser, own, *rest, **named)
            found.bridge, found.brnn = False, True  # what its own parser makes of brnn
            return found

        ArgumentParser.parse_args = recurrent
        layers = self.size.layers
        object.__setattr__(self.size, "layers", 1)
        try:
            super().build()
        finally:
            ArgumentParser.parse_args = parse
            object.__setattr__(self.size, "layers", layers)
