"""What a summary looked at, what of it was copied, and from where."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.text.tokenizer import SPACE
from regard.errors import RequestError
from regard.protocols import BOS, EOS
from regard.system.devices import device_of
from regard.tasks.generation import view as generation
from regard.tasks.loaded_model import LoadedModel, name_of
from regard.views import (
    Axis,
    LabeledSpan,
    Map,
    MapPanel,
    Panel,
    Run,
    SpansPanel,
    ValuesPanel,
    View,
    ViewOptions,
)
from regard.watching.watcher import watch

__all__ = ["SummaryLook", "look", "view"]

MOST = 24
"""Words of the text that a matrix has room for."""
COPIED = 0.5
"""From this share on a word counts as copied."""


@dataclass(frozen=True)
class SummaryLook:
    """One summary, written or given, and what its model looked at.

    Args:
        source, target: the words of both, the end among them.
        weights: by the path of the attention: (head, target, source).
        copied: of each word of the target the share of its probability that came from copying.
        number, of: which hypothesis this is, and how many there were; 0 if it was given.

    Shapes:
        copied (target,)
    """

    model: str
    input: str
    output: str
    score: float
    number: int
    of: int
    source: list[str]
    target: list[str]
    weights: dict[str, Tensor]
    copied: Tensor
    places: list[int | None]
    """Where each copied word stands in the source; None for words that were not copied."""
    unread: int = 0
    """Words behind those that are read (`task.read_source`)."""

    def result(self) -> dict[str, Any]:
        """Plain values: the words, how much of each was copied, and from where."""
        shares = [round(float(share), 5) for share in self.copied]
        return {
            "input": self.input,
            "output": self.output,
            "words": [
                {"word": word, "copied": share, "from": place}
                for word, share, place in zip(self.target, shares, self.places, strict=True)
            ],
            "source": self.source,
        }


def look(
    loaded: LoadedModel, text: str, *, hypotheses: int = 1, target: str | None = None
) -> list[SummaryLook]:
    """Summarize one text and read the best summaries again, watched.

    Args:
        loaded: a model that copies.
        hypotheses: how many of the best.
        target: look at this summary instead.

    Raises:
        RequestError: an empty text, one that is too long, or a target that cannot be written.
    """
    task, fields, model = loaded.task, loaded.fields, loaded.model
    asked = task.asked([text], fields)
    if asked.dataset is None or not task.batches(asked.dataset, task.max_source):
        told = asked.refused[0].refused or "the input is empty: there is nothing to look at"
        raise RequestError(told)
    source, lengths = asked.dataset.sources([0])
    source, lengths = source.to(device_of(model)), lengths.to(device_of(model))
    spelling = task.spelling(text, fields)
    if target is not None:
        ids = spelling.encode(target).ids
        if not ids:
            raise RequestError("the target is empty: there is nothing to look at")
        found, of = [(0, [*ids, EOS])], 0
    else:
        decoder = loaded.with_decoder(hypotheses).decoder
        told = task.rules(asked.dataset.source, loaded.tokenizers, decoder)
        hypotheses_found = decoder(model, source, lengths, rules=told)[0]
        found = [(n, h.tokens) for n, h in enumerate(hypotheses_found, 1)]
        of = len(found)
    # As they are written, whatever the vocabulary makes of them.
    offsets = loaded.tokenizers["target"].encode(text).offsets
    places_of = offsets[: int(lengths[0]) - 1]
    words = [*(text[start:end].strip() for start, end in places_of), "</s>"]
    looks = []
    for number, tokens in found:
        read = torch.tensor([[BOS, *tokens[:-1]]], device=device_of(model))
        with watch(model) as seen, torch.inference_mode():
            output = model(source, read, lengths)
        weights = {
            name: one.of(0).float().cpu() for name, one in seen.items() if one.role == "cross"
        }
        scores = output.logits[0].float().gather(1, read.new_tensor(tokens)[:, None])[:, 0].cpu()
        copies = source.extras["copies"][0].cpu()
        same = copies == torch.tensor(tokens)[:, None]  # (T, S)
        points = torch.stack([one.mean(0) for one in weights.values()]).mean(0) * same
        mass = points.sum(-1) * output.extra["copying"][0].float().cpu().sigmoid()
        share = (mass / scores.exp().clamp_min(1e-30)).clamp(0.0, 1.0)
        places = [
            int(row.argmax()) if part >= COPIED and token != EOS else None
            for row, part, token in zip(points, share.tolist(), tokens, strict=True)
        ]
        looks.append(
            SummaryLook(
                name_of(loaded),
                text,
                spelling.decode(tokens),
                float(scores.sum()) / loaded.decoder.normalizer(len(tokens)),
                number,
                of,
                words,
                [_word(name) for name in spelling.tokens(tokens)],
                weights,
                share,
                places,
                len(offsets) - len(places_of),
            )
        )
    return looks


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Where every word of a summary comes from; of models that copy nothing, what they looked at.

    Raises:
        RequestError: as `look`, or an option that is of models without copying alone.
    """
    if not loaded.task.copying:
        return generation.view(loaded, inputs, options)
    options.only("target", "hypotheses", task=loaded.task.name)
    count = 1 if options.hypotheses is None else options.hypotheses
    if count < 1:
        raise RequestError(f"hypotheses are counted from 1, the best; got {count}")
    axes: list[Axis] = []
    maps: list[Map] = []
    runs: list[Run] = []
    for text in inputs:
        looks = look(loaded, text, hypotheses=count, target=options.target)
        if not looks:
            raise RequestError("no output within the length limit fits what is asked")
        source = len(axes)
        axes.append(_axis(looks[0].source))
        for one in looks:
            target = len(axes)
            axes.append(_axis(one.target))
            kept = []
            for layer, (name, weights) in enumerate(one.weights.items(), 1):
                kept.append(len(maps))
                generated = [round(1.0 - float(share), 5) for share in one.copied]
                found = Map.of(name, target, source, weights.numpy(), kind="cross", layer=layer)
                found.extra["generate"] = generated
                maps.append(found)
            runs.append(
                Run(
                    kept,
                    input=one.input,
                    output=one.output,
                    model=one.model,
                    folder=options.folder,
                    score=one.score,
                    number=one.number,
                    of=one.of,
                    panels=_panels(one, kept),
                    result=one.result(),
                    target="" if one.number else one.output,
                )
            )
    first = runs[0]
    return View(axes, maps, runs, f"{options.folder or first.model} · {first.output}")


def _panels(one: SummaryLook, kept: Sequence[int]) -> list[Panel]:
    """The matrix, the text with what was copied, the shares, and where each word comes from."""
    weights = torch.stack([own.mean(0) for own in one.weights.values()]).mean(0)
    top = weights.amax(0).topk(min(MOST, weights.shape[1])).indices.sort().values
    spans: dict[int, list[str]] = {}
    for word, place in zip(one.target, one.places, strict=True):
        if place is not None:
            spans.setdefault(place, []).append(word)
    marked = tuple(
        LabeledSpan(at, at + 1, " ".join(dict.fromkeys(own))) for at, own in sorted(spans.items())
    )
    notes = [] if marked else ["nothing was copied"]
    if one.unread:
        notes.append(f"the first {len(one.source) - 1:,} words were read, {one.unread:,} were not")
    note = "; ".join(notes)
    found: list[Panel] = [
        MapPanel("matrix", "what each word looked at", map=kept[0], columns=tuple(top.tolist())),
        SpansPanel(
            title="copied words in the text", words=tuple(one.source[:-1]), spans=marked, note=note
        ),
        ValuesPanel(
            "bars",
            "share of each word that was copied",
            labels=tuple(one.target),
            values=tuple(float(share) for share in one.copied),
        ),
        MapPanel("pointer", "where each word comes from", map=kept[0]),
    ]
    return found


def _axis(words: list[str]) -> Axis:
    """Words that are whole; the end of a text is no word."""
    special = [i for i, word in enumerate(words) if word == "</s>"]
    groups = [[i] for i in range(len(words))]
    return Axis(words, groups=groups, texts=words, special=special)


def _word(name: str) -> str:
    return name.removeprefix(SPACE) or name
