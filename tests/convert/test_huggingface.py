"""Hugging Face's Marian and Pegasus, made from configurations: logits, beams, pieces, both ways."""

import json

import pytest
import torch

import regard
from regard.protocols import BOS, EOS, PAD

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

KINDS = {
    "marian": (transformers.MarianConfig, transformers.MarianMTModel),
    "pegasus": (transformers.PegasusConfig, transformers.PegasusForConditionalGeneration),
}
SIZE, LAST = 40, 39
OPUS = {"pad_token_id": LAST, "decoder_start_token_id": LAST, "eos_token_id": 0}
OURS = {"pad_token_id": PAD, "decoder_start_token_id": BOS, "eos_token_id": EOS}


def theirs(folder, kind="marian", *, generation=None, **changes):
    """A model of theirs with weights that prefer something, saved in `folder`."""
    made, model = KINDS[kind]
    settings = {
        "vocab_size": SIZE, "d_model": 16, "encoder_layers": 2, "decoder_layers": 1,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24, "max_position_embeddings": 64, "scale_embedding": True,
        "activation_function": "swish", "forced_eos_token_id": None, **OPUS, **changes,
    }  # fmt: skip
    torch.manual_seed(3)
    made_model = model(made(**settings)).eval()
    with torch.no_grad():
        for name, parameter in made_model.named_parameters():
            if "positions" not in name and parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
            elif "positions" not in name:
                parameter.copy_(torch.randn_like(parameter) * 0.35)
        made_model.final_logits_bias.normal_()
        made_model.final_logits_bias[0, settings["eos_token_id"]] = 4.0
    for key, value in (generation or {}).items():
        setattr(made_model.generation_config, key, value)
    made_model.save_pretrained(folder)
    return made_model


def writer(folder, **generation):
    """One whose outputs differ and end: nothing tied, wide word vectors, narrow output vectors."""
    apart = {"tie_word_embeddings": False, "share_encoder_decoder_embeddings": False}
    peer = theirs(folder, generation=generation, scale_embedding=False, **apart)
    torch.manual_seed(8)
    with torch.no_grad():
        for name, parameter in peer.named_parameters():
            if "positions" not in name and parameter.dim() > 1:
                spread = 1.0 if "embed" in name else 0.3 if "lm_head" in name else 0.5
                parameter.copy_(torch.randn_like(parameter) * spread)
        peer.final_logits_bias.normal_().mul_(0.3)[0, :2] = torch.tensor(
            [3.0, -30.0]
        )  # </s>, <unk>
    peer.save_pretrained(folder)
    return peer


def sentences(lengths, low, end, pad, seed=1):
    """Random sources in their ids, ending in `end`: (B, S)."""
    generator = torch.Generator().manual_seed(seed)
    out = torch.full((len(lengths), max(lengths)), pad)
    for row, length in enumerate(lengths):
        out[row, : length - 1] = torch.randint(low, LAST, (length - 1,), generator=generator)
        out[row, length - 1] = end
    return out


def orders(loaded):
    """For each id of theirs, ours: by what the tokenizers of numbers say."""
    found = {}
    for i, name in enumerate(loaded.tokenizers["target"].vocabulary):
        if name.isdigit():
            found[int(name)] = i
    config = json.loads((loaded.folder / "config.json").read_text())
    found[config["pad_token_id"]] = PAD
    found[config["eos_token_id"]] = EOS
    if config["decoder_start_token_id"] != config["pad_token_id"]:
        found[config["decoder_start_token_id"]] = BOS
    missing = set(range(SIZE)) - set(found)
    found.update(dict.fromkeys(missing, 3))
    assert len(missing) == 1
    return torch.tensor([found[i] for i in range(SIZE)])


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("marian", {}),
        ("marian", {"scale_embedding": False, "activation_function": "gelu", "d_model": 10}),
        ("marian", {"share_encoder_decoder_embeddings": False, "activation_function": "relu"}),
        ("marian", {"tie_word_embeddings": False}),
        ("marian", {**OURS}),
        ("pegasus", {}),
    ],
)
def test_logits_are_theirs(tmp_path, kind, changes):
    peer = theirs(tmp_path / "hf", kind, **changes)
    loaded = regard.load(tmp_path / "hf")
    config, order = peer.config, orders(loaded)
    source = sentences([7, 4, 1], 4, config.eos_token_id, config.pad_token_id)
    target = sentences([6, 6, 6], 4, 7, config.pad_token_id, seed=2)
    target[:, 0] = config.decoder_start_token_id
    mask = torch.arange(7) < torch.tensor([7, 4, 1])[:, None]
    with torch.no_grad():
        expected = peer(
            input_ids=source, attention_mask=mask.long(), decoder_input_ids=target
        ).logits
        own_source = order[source].masked_fill(~mask, PAD)
        own_target = torch.cat([torch.full((3, 1), BOS), order[target[:, 1:]]], 1)
        logits = loaded.model(own_source, own_target).logits
    torch.testing.assert_close(logits[..., order], expected, atol=1e-5, rtol=1e-5)
    if changes == OURS:
        assert order.tolist() == list(range(SIZE))  # nothing moves where nothing has to
        assert loaded.model.target_vocab_size == SIZE


STOPS = [{"early_stopping": False}, {"early_stopping": True}, {"early_stopping": "never"}]


@pytest.mark.parametrize(
    ("penalty", "stop"),
    [
        *((1.0, stop) for stop in STOPS),
        (0.6, STOPS[2]),
        *(pytest.param(0.6, stop, marks=pytest.mark.slow) for stop in STOPS[:2]),
    ],
    ids=str,
)
def test_beams_are_theirs(tmp_path, stop, penalty):
    settings = {"num_beams": 4, "length_penalty": penalty, "max_length": 40, **stop}
    peer = writer(tmp_path, **settings, bad_words_ids=[[LAST]])
    loaded, source = regard.load(tmp_path), sentences([9, 5, 7, 3, 8, 2, 6, 4] * 5, 4, 0, LAST)
    expected = peer.generate(
        source, attention_mask=(source != LAST).long(), return_dict_in_generate=True,
        output_scores=True,
    )  # fmt: skip
    ended = []
    for ids, score, own in zip(
        expected.sequences.tolist(), expected.sequences_scores.tolist(),
        loaded.predict(texts(source)), strict=True,
    ):  # fmt: skip
        row = [i for i in ids if i != LAST]
        if row[-1] == 0:  # at the limit they mix what ended with what did not, and ours do not
            assert own.output.split() == [str(i) for i in row[:-1]]
            assert own.score == pytest.approx(score, abs=1e-5)
            ended.append(row)
    assert len(ended) > 20
    assert len({len(row) for row in ended}) > 3


def test_greedy_is_theirs(tmp_path):
    peer = writer(tmp_path, num_beams=1, max_length=20)
    loaded = regard.load(tmp_path)
    assert loaded.config["decode"] == {"name": "greedy", "max_ratio": 0.0, "max_extra": 19}
    source = sentences([6, 4, 9], 4, 0, LAST)
    expected = peer.generate(source, attention_mask=(source != LAST).long())
    for row, own in zip(expected.tolist(), loaded.translate(texts(source)), strict=True):
        assert own.split() == [str(i) for i in row if i not in (0, LAST)]


def texts(source):
    """Sources as the tokenizers of numbers read them."""
    return [" ".join(str(i) for i in row if i not in (0, LAST)) for row in source.tolist()]
