"""Tiny folders of Hugging Face with random weights, built without a network."""

from pathlib import Path
from typing import Any

import torch

WORDS = ("[PAD] [UNK] [CLS] [SEP] [MASK] the cat ##s sat on mat . dog ' Die Katze über").split()
SMALL: dict[str, Any] = {
    "vocab_size": len(WORDS), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
}  # fmt: skip
SIDES: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16,
    "max_position_embeddings": 32, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
WIDTHS: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16,
    "max_position_embeddings": 32,
}  # fmt: skip
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "causal": ("GPT2Config", "GPT2LMHeadModel",
               {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}),
    "masked": ("BertConfig", "BertForMaskedLM", WIDTHS),
    "classes": ("BertConfig", "BertForSequenceClassification", WIDTHS),
    "both": ("BartConfig", "BartForConditionalGeneration", SIDES),
}  # fmt: skip


def tokenizer() -> Any:
    """Word pieces, as BERT's."""
    import tokenizers
    import transformers
    from tokenizers import models, pre_tokenizers, processors

    vocabulary = {word: i for i, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )  # fmt: skip
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", bos_token="[CLS]", eos_token="[SEP]",
    )  # fmt: skip


def write(kind: str, folder: Path) -> Any:
    """Write a folder; gives its model."""
    import transformers

    config, model, own = KINDS[kind]
    torch.manual_seed(0)
    made = getattr(transformers, model)(getattr(transformers, config)(**SMALL, **own)).eval()
    made.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return made
