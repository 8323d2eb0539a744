"""Pages of attention weights by other programs, beside `regard.watch`: size, time, what breaks.

    python benchmarks/watching_peers.py [--tokens 64 256] [--only NAME ...]

Each runs in a process of its own, on a decoder of GPT-2's size (12 layers of 12 heads) with random
weights, and writes all heads of a text; memory is what that took beyond the model. "flag" is
`output_attentions=True` of transformers alone: weights, and no page. The programs are not needed by
anything else: install them into an environment of their own (bertviz circuitsvis inseq). `breaks`
asks each for what the issue names: weights under SDPA, of beams, of an encoder-decoder's three
attentions, and whether the page asks for other addresses.
"""

import argparse
import sys
import time
from typing import Any

import paired
import torch

from watching import decoder, forget, peak, taken

NAMES = ("regard", "flag", "bertviz", "circuitsvis", "inseq")
BREAKS = ("sdpa", "beams", "encoder-decoder", "offline")


def words(count: int) -> list[str]:
    """As many, each other than all before."""
    return [f"w{i}" for i in range(count)]


def attentions(model: Any, ids: torch.Tensor, **more: Any) -> Any:
    """What the flag gives."""
    with torch.no_grad():
        return model(ids, output_attentions=True, **more)


def page(name: str, model: Any, ids: torch.Tensor) -> str:
    """All heads, as text."""
    tokens = words(ids.shape[1])
    if name == "regard":
        import regard

        with torch.no_grad(), regard.watch(model) as seen:
            model(ids)
        return seen.label(rows=tokens).view().html()
    if name == "inseq":
        return by_inseq(model, ids)
    found = attentions(model, ids).attentions
    if name == "flag":
        assert len(found) == 12, f"{len(found)} layers"
        assert found[0] is not None, "None"
        return ""
    if name == "bertviz":
        from bertviz import model_view

        return str(model_view(found, tokens, html_action="return").data)
    from circuitsvis.attention import attention_patterns

    return "".join(str(attention_patterns(tokens=tokens, attention=layer[0])) for layer in found)


def by_inseq(model: Any, ids: torch.Tensor) -> str:
    """Its method "attention": what each token that is written looks at, all layers and heads."""
    import inseq
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = [*words(ids.shape[1]), "<e>"]
    pieces = Tokenizer(models.WordLevel({w: i for i, w in enumerate(names)}, unk_token="<e>"))
    pieces.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=pieces, eos_token="<e>", pad_token="<e>", bos_token="<e>"
    )
    ready = inseq.load_model(model, "attention", tokenizer=tokenizer)
    text = " ".join(names[: ids.shape[1]])
    found = ready.attribute(
        names[0], generated_texts=text, show_progress=False, attribute_target=False
    )
    return str(found.show_granular(display=False, return_html=True))


def one(name: str, tokens: int) -> None:
    """A page in this process."""
    torch.set_num_threads(1)
    model = decoder("sdpa" if name == "regard" else "eager")
    ids = torch.randint(5, 30000, (1, tokens))
    with torch.no_grad():
        model(ids[:, :8])
    page(name, model, ids[:, :8])  # what is imported and built at the first call
    before, start = forget(), time.process_time()
    text = page(name, model, ids)
    spent = time.process_time() - start
    paired.row(
        page_mb=round(len(text.encode()) / 1e6, 2), cpu_s=round(spent, 2),
        more_mb=round(peak() - before),
    )  # fmt: skip


def breaks(name: str, what: str) -> None:
    """One thing that is asked for; what goes wrong is the last line of the error."""
    ids = torch.randint(5, 90, (1, 6))
    if what == "offline":
        text = page(name, decoder("sdpa" if name == "regard" else "eager"), ids)
        addresses = text.count("https://") + text.count("http://") - text.count("http://www.w3.org")
        paired.row(page="no addresses" if not addresses else f"{addresses} addresses in the page")
    elif what == "sdpa":
        paired.row(page_mb=round(len(page(name, decoder("sdpa"), ids)) / 1e6, 2))
    elif what == "beams":
        paired.row(said=_beams(name, ids))
    else:
        paired.row(said=_three(name, ids))


def _beams(name: str, ids: torch.Tensor) -> str:
    model: Any = decoder("sdpa" if name == "regard" else "eager")
    asked = {"max_new_tokens": 4, "num_beams": 3, "pad_token_id": 1}
    if name == "regard":
        import regard

        with regard.watch(model) as seen:
            model.generate(ids, **asked)
        return f"{len(seen)} attentions, {len(next(iter(seen.values())).steps)} steps"
    found = model.generate(
        ids, return_dict_in_generate=True, output_attentions=True, **asked
    ).attentions
    shapes = [tuple(step[0].shape) for step in found]
    if name == "flag":
        return f"steps {shapes}, rows of all beams, not put together"
    if name == "bertviz":
        from bertviz import model_view

        model_view([step[0] for step in found], words(10), html_action="return")
    elif name == "circuitsvis":
        from circuitsvis.attention import attention_patterns

        attention_patterns(tokens=words(10), attention=found[1][0][0])
    else:
        return "not asked"
    return "drawn"


def _three(name: str, ids: torch.Tensor) -> str:
    from transformers import BartConfig, BartModel

    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=99, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16,
        attn_implementation="sdpa" if name == "regard" else "eager",
    )  # fmt: skip
    model, written = BartModel(config).eval(), ids[:, :4]
    if name == "regard":
        import regard

        with torch.no_grad(), regard.watch(model) as seen:
            model(ids, decoder_input_ids=written)
        return ", ".join(sorted({record.role for record in seen.values()}))
    found = attentions(model, ids, decoder_input_ids=written)
    if name == "flag":
        return ", ".join(k for k in found if "attentions" in k)
    if name == "bertviz":
        from bertviz import model_view

        model_view(
            encoder_attention=found.encoder_attentions, decoder_attention=found.decoder_attentions,
            cross_attention=found.cross_attentions, encoder_tokens=words(6),
            decoder_tokens=words(4), html_action="return",
        )  # fmt: skip
        return "drawn"
    if name == "circuitsvis":
        from circuitsvis.attention import attention_patterns

        attention_patterns(tokens=words(6), attention=found.cross_attentions[0][0])
        return "drawn, with one list of tokens for both sides"
    return "not asked"


def main() -> None:
    """Read the command line."""
    if sys.argv[1:2] == ["one"]:
        one(sys.argv[2], int(sys.argv[3]))
        return
    if sys.argv[1:2] == ["break"]:
        breaks(sys.argv[2], sys.argv[3])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--only", nargs="*", default=NAMES)
    given = parser.parse_args()
    for name in given.only:
        for what in BREAKS:
            paired.row(peer=name, asked=what, **taken("break", name, what, file=__file__))
        for tokens in given.tokens:
            paired.row(peer=name, tokens=tokens, **taken("one", name, str(tokens), file=__file__))


if __name__ == "__main__":
    main()
