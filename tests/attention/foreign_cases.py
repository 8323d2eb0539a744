"""Models of transformers, built tiny from their configurations, and what to run them with.

`python -m tests.attention.foreign_cases` writes the table of docs/howto/watch-anything.md.
"""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import regard

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "watch-anything.md"

SMALL: dict[str, Any] = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 37, "max_position_embeddings": 64,
    "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "head_dim": 8,
    "attention_dropout": 0.1, "hidden_dropout_prob": 0.1,
}  # fmt: skip
_SIDES: dict[str, Any] = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37, "max_position_embeddings": 64, "pad_token_id": 1, "bos_token_id": 2,
    "eos_token_id": 3, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
_T5: dict[str, Any] = {
    "vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4,
    "num_decoder_layers": 2, "pad_token_id": 1, "eos_token_id": 3, "decoder_start_token_id": 1,
}  # fmt: skip
_PICTURE: dict[str, Any] = {**SMALL, "image_size": 16, "patch_size": 8, "num_channels": 3}
_EXPERTS: dict[str, Any] = {
    **SMALL, "intermediate_size": 32, "num_local_experts": 4, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 16,
}  # fmt: skip
_SOUND: dict[str, Any] = {
    **SMALL, "conv_dim": (16, 16), "conv_kernel": (4, 4), "conv_stride": (4, 4),
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0,
}  # fmt: skip


class Case(NamedTuple):
    """A model type of transformers, its configuration, and what it reads."""

    kind: str
    config: Mapping[str, Any] = SMALL
    reads: str = "text"


CASES: dict[str, Case] = {
    case.kind: case
    for case in [
        *(Case(kind) for kind in (
            "bert", "roberta", "xlm-roberta", "camembert", "electra", "ernie", "megatron-bert",
            "data2vec-text", "roberta-prelayernorm", "deberta", "deberta-v2", "rembert",
            "albert", "layoutlm", "mpnet", "mobilebert", "ibert", "nystromformer", "splinter",
            "modernbert", "roformer", "esm", "convbert", "bert-generation", "canine",
            "visual_bert", "tapas",
            "gpt2", "openai-gpt", "gpt_neox", "gpt_bigcode", "bloom", "opt",
            "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi", "phi3",
            "starcoder2", "stablelm", "olmo", "olmo2", "cohere", "cohere2", "granite",
            "mpt", "biogpt", "xglm", "persimmon", "glm", "glm4", "nemotron", "helium",
            "smollm3", "exaone4", "ernie4_5", "arcee", "seed_oss", "gpt_neox_japanese", "ctrl",
            "ministral", "hunyuan_v1_dense",
        )),
        *(Case(kind, _EXPERTS) for kind in (
            "mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "phimoe", "gpt_oss", "granitemoe",
        )),
        Case("distilbert", {**SMALL, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37}),
        *(Case(kind, {**_SIDES}, "both") for kind in (
            "bart", "mbart", "marian", "pegasus", "blenderbot", "blenderbot-small", "m2m_100",
            "plbart",
        )),
        *(Case(kind, _T5, "both") for kind in ("t5", "mt5", "umt5", "switch_transformers")),
        Case("whisper", {**_SIDES, "num_mel_bins": 8, "max_source_positions": 10,
                         "max_target_positions": 20, "suppress_tokens": None,
                         "begin_suppress_tokens": None}, "mel"),
        *(Case(kind, _PICTURE, "picture") for kind in (
            "vit", "deit", "beit", "dinov2", "vit_mae", "vit_msn", "data2vec-vision",
            "ijepa", "siglip_vision_model", "clip_vision_model",
        )),
        *(Case(kind, _SOUND, "sound") for kind in (
            "wav2vec2", "hubert", "wavlm", "unispeech", "unispeech-sat", "data2vec-audio", "sew",
        )),
        Case("clip_text_model"),
        *(Case(kind, {**SMALL, "rotary_dim": 4, "head_dim": None}) for kind in ("gptj", "codegen")),
        Case("falcon", {k: v for k, v in SMALL.items() if k != "head_dim"}),
        Case("gpt_neo", {**SMALL, "num_layers": 2, "attention_types": [[["global", "local"], 1]]}),
    ]
}  # fmt: skip


def built(case: Case, kernel: str) -> nn.Module:
    """The model with seeded weights, ready to be used."""
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    config = AutoConfig.for_model(case.kind, **case.config)
    model = AutoModel.from_config(config, attn_implementation=kernel)
    assert isinstance(model, nn.Module)
    return model.eval()


def inputs(case: Case, model: Any) -> dict[str, Any]:
    """Two examples, the second with padding where there is such a thing."""
    rand = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 99, (2, 7), generator=rand)
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, 5:] = 0
    text: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
    if case.reads == "both":
        return {**text, "decoder_input_ids": ids[:, :5]}
    if case.reads == "mel":
        return {"input_features": torch.randn(2, 8, 20, generator=rand),
                "decoder_input_ids": ids[:, :5]}  # fmt: skip
    if case.reads == "picture":
        return {"pixel_values": torch.randn(2, 3, 16, 16, generator=rand)}
    if case.reads == "sound":
        return {"input_values": torch.randn(2, 320, generator=rand)}
    return text


_OUTPUTS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions",
            "cross": "cross_attentions", "self": "attentions"}  # fmt: skip


def expected(output: Any) -> dict[str, list[Tensor]]:
    """The model's own weights, layer by layer, by role."""
    found = {}
    for role, name in _OUTPUTS.items():
        weights = output.get(name)
        if weights:
            found[role] = [w for w in weights if w is not None]
    return found


def watched(seen: Mapping[str, Any]) -> dict[str, list[Tensor]]:
    """What was seen, in the same form; a layer that was called often is several."""
    found: dict[str, list[Tensor]] = {}
    for record in seen.values():
        found.setdefault(record.role, []).extend(record.steps)
    return found


def compare(case: Case, kernel: str) -> str:
    """Watch under a kernel, and compare with the model's own weights under eager; says how it ran.

    Raises:
        AssertionError: the output changed, or weights differ by more than 1e-5.
    """
    own, model = built(case, "eager"), built(case, kernel)
    model.load_state_dict(own.state_dict())
    given = inputs(case, model)
    with torch.no_grad():
        torch.manual_seed(2)
        truth = expected(own(**given, output_attentions=True))
        torch.manual_seed(2)
        without = model(**given)
        state = torch.get_rng_state()
        torch.manual_seed(2)
        with regard.watch(model) as seen:
            within = model(**given)
        assert torch.equal(state, torch.get_rng_state()), "watching drew random numbers"
    for a, b in zip(_tensors(without), _tensors(within), strict=True):
        assert torch.equal(a, b), "watching changed the output"
    found = watched(seen)
    assert truth, "gives no weights of its own"
    assert set(found) >= set(truth), f"roles: {set(found)} seen, {set(truth)} given"
    for role, layers in truth.items():
        assert len(found[role]) == len(layers), f"{role}: {len(found[role])} of {len(layers)}"
        for mine, theirs in zip(found[role], layers, strict=True):
            assert mine.shape == theirs.shape, f"{role}: {mine.shape} for {theirs.shape}"
            if case.kind == "wavlm":  # gives the mean of its heads in place of each
                mine = mine.mean(1, keepdim=True).expand_as(mine)
            rows = mine.sum(-1) > 0  # a row that may look at nothing is zeros here
            torch.testing.assert_close(mine[rows], theirs[rows].to(mine.dtype), rtol=0, atol=1e-5)
    kinds = {("pattern" if f.by_pattern else "fused") for r in seen.values() for f in r.facts}
    return " and ".join(sorted(kinds))


def _tensors(output: Any) -> list[Tensor]:
    return [v for v in output.values() if isinstance(v, Tensor)]


NOT_OFFERED = "not offered"


def outcome(case: Case, kernel: str) -> str:
    """As `compare`; "not offered" where transformers has no such kernel for the model."""
    try:
        return compare(case, kernel)
    except ValueError as error:
        if "does not support an attention implementation" not in str(error):
            raise
        return NOT_OFFERED


def release() -> str:
    """Which transformers this is: its models change from release to release."""
    return f"transformers {version('transformers')}"


def table() -> str:
    """The table of the page: model types, and how each was seen."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for kind, case in CASES.items():
        seen = tuple(outcome(case, kernel) for kernel in ("eager", "sdpa"))
        rows.setdefault(seen, []).append(f"`{kind}`")
    lines = [f"| eager | SDPA | model types of {release()} |", "|---|---|---|"]
    lines += [f"| {' | '.join(seen)} | {', '.join(kinds)} |" for seen, kinds in rows.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split("<!-- table -->")[0], text.split("<!-- end -->")[1]
    marked = f"<!-- table -->\n{table()}\n<!-- end -->"
    PAGE.write_text(f"{before}{marked}{after}", encoding="utf-8")
