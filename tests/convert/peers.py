"""Tiny random models of fairseq, OpenNMT-py and JoeyNMT, saved as those programs save them.

The programs are looked for in folders `fair`, `onmt` and `joey` below $REGARD_PEERS, each filled by
`pip install --no-deps --target` (docs/howto/other-formats.md has the lines). Each function saves a
model and gives `Peer`: its path, its tokens, and its logits for sources and targets in its own ids.
"""

import argparse
import dataclasses
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

WORDS = [f"w{i}" for i in range(30)]
OTHER = [f"v{i}" for i in range(26)]
DIM, HEADS, HIDDEN = 16, 2, 24


class Peer(NamedTuple):
    """A model of another program."""

    path: Path
    source: list[str]
    target: list[str]
    logits: Callable[[Tensor, Tensor, Tensor], Tensor]
    """(source (B, S), lengths (B,), words of the target (B, T) without a start) -> (B, T + 1, V)"""


def found(folder: str) -> None:
    """Make a peer importable, or skip."""
    root = os.environ.get("REGARD_PEERS")
    place = Path(root or "", folder)
    if not root or not place.is_dir():
        pytest.skip(f"{folder} is not below $REGARD_PEERS")
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))


def spread(model: Any) -> None:
    """Weights that prefer something, biases that are not zero."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 0.2))
    model.eval()


def fairseq(folder: Path, **changes: Any) -> Peer:
    found("fair")
    plain = dataclasses.dataclass

    def relaxed(cls: Any = None, /, **options: Any) -> Any:  # its defaults are refused since 3.11
        options.setdefault("unsafe_hash", True)
        return plain(cls, **options) if cls is not None else lambda c: plain(c, **options)

    dataclasses.dataclass = relaxed
    try:
        from fairseq.data import Dictionary
        from fairseq.models.transformer import TransformerModel, base_architecture
    finally:
        dataclasses.dataclass = plain
    args = argparse.Namespace(
        encoder_layers=2, decoder_layers=1, encoder_embed_dim=DIM, decoder_embed_dim=DIM,
        encoder_ffn_embed_dim=HIDDEN, decoder_ffn_embed_dim=HIDDEN,
        encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, max_source_positions=64,
        max_target_positions=64, source_lang="de", target_lang="en", **changes,
    )  # fmt: skip
    base_architecture(args)
    shared = changes.get("share_all_embeddings", False)
    sides = []
    for language, names in (("de", WORDS), ("en", WORDS if shared else OTHER)):
        dictionary = Dictionary()
        for name in names:
            dictionary.add_symbol(name)
        dictionary.save(str(folder / f"dict.{language}.txt"))
        sides.append(dictionary)
    task = types.SimpleNamespace(source_dictionary=sides[0], target_dictionary=sides[1])
    model = TransformerModel.build_model(args, task)
    spread(model)
    state = {
        "args": None, "cfg": {"model": args, "task": {"_name": "translation"}},
        "model": model.state_dict(), "criterion": None, "task_state": {},
        "optimizer_history": [{"num_updates": 7, "lr_scheduler_state": {"best": None}}],
        "extra_state": {"train_iterator": {"epoch": 1}, "best": 3.5},
    }  # fmt: skip
    torch.save(state, folder / "checkpoint_best.pt")

    def logits(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        start = torch.full((len(target), 1), sides[1].eos())
        return model(source, lengths, torch.cat([start, target], 1))[0]

    return Peer(folder, sides[0].symbols, sides[1].symbols, logits)


def joeynmt(folder: Path, **changes: Any) -> Peer:
    found("joey")
    import yaml
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = types.SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None,
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None, lang_tags=[],
    )  # fmt: skip
    norm, tied = changes.get("layer_norm", "pre"), changes.get("tied", False)
    half = {
        "type": "transformer", "num_layers": 2, "num_heads": HEADS, "hidden_size": DIM,
        "ff_size": HIDDEN, "dropout": 0.1, "layer_norm": norm,
        "embeddings": {"embedding_dim": DIM, "scale": changes.get("scale", True), "dropout": 0.1},
    }  # fmt: skip
    config = {
        "model": {"encoder": half, "decoder": {**half, "num_layers": 1},
                  "tied_embeddings": tied, "tied_softmax": tied},
        "data": {"src": {"lang": "de"}, "trg": {"lang": "en"}},
        "testing": {"beam_size": 4, "beam_alpha": 1.0},
    }  # fmt: skip
    sides = [Vocabulary(WORDS, special), Vocabulary(WORDS if tied else OTHER, special)]
    model = build_model(config["model"], *sides)
    spread(model)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    for side, name in zip(sides, ("src", "trg"), strict=True):
        side.to_file(folder / f"{name}_vocab.txt")
    torch.save({"model_state": model.state_dict(), "optimizer_state": {}}, folder / "best.ckpt")

    def logits(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        start = torch.full((len(target), 1), 2)
        mask = (source != 1).unsqueeze(1)
        words = torch.cat([start, target], 1)
        out, *_ = model._encode_decode(
            src=source, src_length=lengths, src_mask=mask, trg_input=words,
            trg_mask=(words != 1).unsqueeze(1),
        )  # fmt: skip
        return out

    return Peer(folder, sides[0]._itos, sides[1]._itos, logits)


def opennmt(folder: Path, **changes: Any) -> Peer:
    found("onmt")
    for absent in ("fasttext", "spacy", "ahocorasick"):  # optional transforms of theirs
        sys.modules.setdefault(absent, types.ModuleType(absent))
    import pyonmttok
    from onmt.inputters.inputter import vocabs_to_dict
    from onmt.model_builder import build_base_model
    from onmt.opts import train_opts
    from onmt.utils.parse import ArgumentParser

    parser = ArgumentParser(conflict_handler="resolve")
    train_opts(parser)
    tied = changes.pop("tied", False)
    shared = ["-share_vocab", "-share_embeddings", "-share_decoder_embeddings"] if tied else []
    opt = parser.parse_args([
        "-data", "{}", "-src_vocab", "x", "-save_model", "x", "-encoder_type", "transformer",
        "-decoder_type", "transformer", "-heads", str(HEADS), "-transformer_ff", str(HIDDEN),
        "-position_encoding", "-max_relative_positions", "0", *shared,
    ])  # fmt: skip
    opt.enc_layers, opt.dec_layers = 2, 1
    opt.enc_hid_size = opt.dec_hid_size = opt.src_word_vec_size = opt.tgt_word_vec_size = DIM
    opt.hidden_size = opt.word_vec_size = DIM
    opt.model_type, opt.model_task, opt.gpu_ranks, opt.world_size = "text", "seq2seq", [], 0
    opt.gpu = -1
    for key, value in changes.items():
        setattr(opt, key, value)
    special = ["<unk>", "<blank>", "<s>", "</s>"]
    sides = [
        pyonmttok.build_vocab_from_tokens(
            names, maximum_size=0, minimum_frequency=1, special_tokens=special
        )
        for names in (WORDS, WORDS if tied else OTHER)
    ]
    vocabs = {"src": sides[0], "tgt": sides[0] if tied else sides[1],
              "decoder_start_token": "<s>", "data_task": "seq2seq"}  # fmt: skip
    model = build_base_model(opt, vocabs)
    with torch.no_grad():
        for parameter in model.parameters():  # theirs are not initialized where they are skipped
            parameter.normal_().mul_(0.3)
        for name, parameter in model.named_parameters():
            if "layer_norm" in name and name.endswith("weight"):
                parameter.add_(1.0)
    model.eval()
    for module in model.modules():
        if hasattr(module, "dropout_p"):
            module.dropout_p = 0.0
    state = model.state_dict()
    torch.save(
        {
            "model": {n: t for n, t in state.items() if not n.startswith("generator")},
            "generator": model.generator.state_dict(),
            "vocab": vocabs_to_dict(vocabs), "opt": opt,
            "optim": {"training_step": 5, "decay_step": 5, "optimizer": {}},
        },
        folder / "model_step_5.pt",
    )  # fmt: skip

    def logits(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        tokens = vocabs["tgt"]
        start = torch.full((len(target), 1), tokens["<s>"])
        # Theirs reads all but the last of the target, and no end of a source.
        words = torch.cat([start, target, start], 1)[..., None]
        ends = lengths - 1
        blank = vocabs["src"]["<blank>"]
        read = source.masked_fill(torch.arange(source.shape[1]) >= ends[:, None], blank)
        out, _ = model(read[:, : int(ends.max()), None], words, ends)
        return model.generator(out)

    return Peer(
        folder / "model_step_5.pt", sides[0].ids_to_tokens, vocabs["tgt"].ids_to_tokens, logits
    )
