"""Hugging Face models of texts: what each kind is called with, and what it says."""

import logging
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError
from regard.views import axis_of
from regard.watching.huggingface.inputs import FolderInput, best_class, quiet

if TYPE_CHECKING:
    from torch import Tensor

    from regard.watching.huggingface.folder import TransformersFolder

__all__ = [
    "LONGEST",
    "check_places",
    "classified",
    "filled",
    "forced",
    "greedy",
    "no_writing",
    "read",
    "start_of",
    "translated",
    "written",
]

log = logging.getLogger(__name__)

LONGEST = 64
"""Tokens that an encoder-decoder model writes at most, where nothing else is asked for."""


def read(
    one: "TransformersFolder", text: str, target: str | None, longest: int | None
) -> FolderInput:
    """A text that is read as it is."""
    no_writing(one, longest)
    axis = axis_of((one.tokenizer, text))
    return FolderInput({"input_ids": _ids(one, text)}, {"self": (axis, axis)})


def classified(
    one: "TransformersFolder", text: str, target: str | None, longest: int | None
) -> FolderInput:
    """A text, and its class."""
    no_writing(one, longest)
    axis = axis_of((one.tokenizer, text))
    said, score = best_class(one)
    inputs = one.tokenizer(text, return_tensors="pt")
    check_places(one, inputs["input_ids"].shape[1])
    return FolderInput(dict(inputs), {"self": (axis, axis)}, said, score)


def filled(
    one: "TransformersFolder", text: str, target: str | None, longest: int | None
) -> FolderInput:
    """A text with masks, and what the model would put there; its score is that of these tokens.

    Of a text without masks, the score is that of its own tokens.
    """
    import torch

    no_writing(one, longest)
    ids = _ids(one, text)
    axis = axis_of((one.tokenizer, text))
    mask = one.tokenizer.mask_token_id
    if mask is None:
        log.warning(
            "%s: its tokenizer has no mask token, so nothing is filled in: the text is read as it "
            "is; a mask token is named in tokenizer_config.json (mask_token)",
            one.folder,
        )
    masked = torch.zeros_like(ids[0], dtype=torch.bool) if mask is None else ids[0] == mask

    def said(output: Any) -> str:
        best = ids[0].where(~masked, output.logits[0].argmax(-1))
        skipped = one.tokenizer.decode(best, skip_special_tokens=True)
        return str(skipped) if masked.any() else ""

    def score(output: Any) -> "Tensor":
        found = output.logits[0].log_softmax(-1)
        if masked.any():
            best: Tensor = found[masked].max(-1).values.sum()
            return best
        own: Tensor = found.gather(1, ids[0][:, None]).sum()
        return own

    return FolderInput({"input_ids": ids}, {"self": (axis, axis)}, said, score)


def written(
    one: "TransformersFolder", text: str, target: str | None, longest: int | None
) -> FolderInput:
    """A text, and as many tokens as are asked for written on; the score is that of these.

    Where nothing is written on, it is that of the text's own tokens behind the first.
    """
    ids, said = _ids(one, text), ""
    axis, start = axis_of((one.tokenizer, text)), 1
    if longest:
        start = ids.shape[1]
        check_places(one, start + longest)
        ids = greedy(one, longest, input_ids=ids)
        said = one.tokenizer.decode(ids[0, start:], skip_special_tokens=True)
        axis = axis_of((one.tokenizer, ids[0].tolist()))

    def score(output: Any) -> "Tensor":
        return forced(output.logits[0, start - 1 : -1], ids[0, start:])

    usable = score if ids.shape[1] > start else None
    return FolderInput({"input_ids": ids}, {"self": (axis, axis)}, lambda output: said, usable)


def translated(
    one: "TransformersFolder", text: str, target: str | None, longest: int | None
) -> FolderInput:
    """What is written looks at what was read; rows of the cross-attention are what they write."""
    import torch

    ids = _ids(one, text)
    if target is None:
        out = greedy(one, LONGEST if longest is None else longest, input_ids=ids)
    else:
        words = one.tokenizer(text_target=target, return_tensors="pt")["input_ids"]
        check_places(one, words.shape[1])
        out = torch.cat([torch.tensor([[start_of(one)]]), words], 1)
    if out.shape[1] < 2:
        raise RequestError("the output is empty: there is nothing to look at")
    source = axis_of((one.tokenizer, text))
    before, after = (axis_of((one.tokenizer, part.tolist())) for part in (out[0, :-1], out[0, 1:]))
    return FolderInput(
        {"input_ids": ids, "decoder_input_ids": out[:, :-1]},
        {"cross": (after, source), "encoder": (source, source), "decoder": (before, before)},
        lambda output: str(one.tokenizer.decode(out[0], skip_special_tokens=True)),
        lambda output: forced(output.logits[0], out[0, 1:]),
    )


def _ids(one: "TransformersFolder", text: str) -> Any:
    """Ids of a text, (1, T).

    Raises:
        RequestError: it has more tokens than the model has places.
    """
    ids = one.tokenizer(text, return_tensors="pt")["input_ids"]
    check_places(one, ids.shape[1])
    return ids


def check_places(one: "TransformersFolder", count: int) -> None:
    """Refuse more tokens than the model has places."""
    places = getattr(one.model.config, "max_position_embeddings", None)
    if isinstance(places, int) and count > places > 0:
        raise RequestError(f"{one.name} has {places} places, the text has {count} tokens")


def start_of(one: "TransformersFolder") -> Any:
    """The token that its outputs begin with."""
    start = one.model.generation_config.decoder_start_token_id
    return one.model.config.decoder_start_token_id if start is None else start


def forced(logits: "Tensor", tokens: "Tensor") -> "Tensor":
    """The log-probability of tokens that are given.

    Shapes:
        logits (T, V), tokens (T)
    """
    return logits.log_softmax(-1).gather(1, tokens[:, None]).sum()


def greedy(one: "TransformersFolder", longest: int, **inputs: Any) -> Any:
    """Greedily, with nothing else that a folder may ask for."""
    import torch

    if "input_ids" in inputs:
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    with torch.no_grad(), quiet():
        return one.model.generate(
            **inputs,
            max_new_tokens=longest,
            do_sample=False,
            num_beams=1,
            num_return_sequences=1,
            return_dict_in_generate=False,
        )


def no_writing(one: "TransformersFolder", longest: int | None) -> None:
    """Refuse `--max` where nothing is written."""
    if longest is not None:
        raise RequestError(f"--max: {one.name} writes nothing; leave it out")
