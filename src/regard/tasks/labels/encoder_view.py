"""Labels through an encoder: what its layers look at, and which words matter in each of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.attention import Record
from regard.data.text.cells import cells_of
from regard.encoders.encoder import EncoderTrace, PieceStates, windows
from regard.encoders.stack import LAYER
from regard.encoders.words import pieces_of, words_from
from regard.errors import RequestError
from regard.fields import TextField
from regard.fields.contextual import EncoderStates, opened
from regard.system.devices import device_of
from regard.tasks.loaded_model import LoadedModel
from regard.views import Axis

__all__ = ["EncoderLayers", "WordRelevance", "layers_of", "relevance", "within"]


@dataclass(frozen=True)
class EncoderLayers:
    """What the layers of an encoder look at in one text.

    Args:
        axis: the encoder's pieces, joined to the task's words.
        weights: of each layer (heads, pieces, pieces); none of a text that was read in windows.
        windows: how many windows it was read in.
    """

    axis: Axis
    weights: list[NDArray[np.float32]]
    windows: int = 1


@dataclass(frozen=True)
class WordRelevance:
    """How much the words of one text moved the score of its label, by the layer of the encoder.

    Args:
        words: of the task.
        values: gradient times state, summed over the pieces of a word; the pieces of no word, as
            special ones, are left out.

    Shapes:
        values (layers + 1, words)
    """

    words: list[str]
    values: NDArray[np.float32]


def within(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """(those of the layers of an encoder, those of the model on top of it)."""
    inside = [one for one in records if one.name.startswith(LAYER)]
    return inside, [one for one in records if not one.name.startswith(LAYER)]


def layers_of(
    records: Sequence[Record], fields: Sequence[TextField], cells: Sequence[str]
) -> list[EncoderLayers]:
    """What was seen of an encoder, for each text; of texts that it read in windows no weights.

    Args:
        records: of its layers, lowest first.
        fields, cells: of the texts that the task reads.
    """
    found: list[EncoderLayers] = []
    steps = [one.steps for one in records]
    at = 0
    for field, cell in zip(fields, cells, strict=True):
        if field.contextual is None:
            continue
        axis, calls = _axis(field, field.contextual, cell)
        seen = [each[at][0].float().numpy() for each in steps] if calls == 1 else []
        found.append(EncoderLayers(axis, seen, calls))
        at += calls
    return found


def relevance(loaded: LoadedModel, text: str, label: str) -> list[WordRelevance]:
    r"""Of each text, for each layer and word the gradient of the label's score times the state.

    .. math::
        r_{lw} = \sum_{i \in w} h_{li} \cdot \partial s / \partial h_{li}, \quad
        s = z_{label} - \mathrm{mean}(z)

    It says how the score changes, to first order, as the states of a word in that layer grow.

    Raises:
        RequestError: the model reads no encoder, its task has no label of several classes, or a
            text is longer than the encoder reads at once.

    Source: gradient times input, Shrikumar et al. (2016), arXiv 1605.01713.
    """
    task, model = loaded.task, loaded.model
    fields = [loaded.fields[name] for name in task.texts]
    known = [one for one in fields if isinstance(one, TextField) and one.contextual is not None]
    if len(known) < len(fields):
        raise RequestError(
            "why: of a model that labels it is told by the layers of an encoder "
            "(data.vectors.encoder), and this model reads none; leave it out"
        )
    if not task.objective.calibrated:
        raise RequestError("why: expected a task with one label of several; leave it out")
    batch = task.asked([text], loaded.fields).dataset.collate([0]).to(device_of(model))
    traces, inputs = [], dict(batch)
    cells = cells_of(text, task.texts)
    with torch.inference_mode(False), torch.enable_grad():
        for name, field, cell in zip(task.texts, known, cells, strict=True):
            assert field.contextual is not None
            states, trace, words = _states(field, field.contextual, cell)
            traces.append((trace, words, field.tokenizer.words_of(field.written(cell))))
            own = inputs[name]
            extras = {**own.extras, "states": states[None].to(own.extras["states"])}
            inputs[name] = replace(own, extras=extras)
        logits = model(*task.inputs(inputs)).logits[0].float()
        names = list(loaded.fields[task.target].rows()["num_classes"])
        score = logits[names.index(label)] - logits.mean()  # it does not saturate, as log p does
        every = [state for trace, *_ in traces for state in trace.states]
        gradients = iter(torch.autograd.grad(score, every))
    found = []
    for trace, words, texts in traces:
        of_pieces = [(state * next(gradients)).sum(-1).detach() for state in trace.states]
        values = torch.stack([words @ one[trace.inner] for one in of_pieces])
        found.append(WordRelevance(texts, values.cpu().numpy()))
    return found


def _states(
    field: TextField, encoder: EncoderStates, cell: str
) -> tuple[Tensor, EncoderTrace, Tensor]:
    """(states of the words (words, layers, size), the trace, which pieces are in which word)."""
    text, places = field.to_encoder(cell)
    reader = opened(encoder)
    wanted = reader.numbered(encoder.layers)
    trace = reader.traced(text, max(wanted))
    count = len(trace.offsets)
    each = PieceStates(np.eye(count, dtype=np.float32).reshape(count, 1, count), trace.offsets)
    shares = torch.from_numpy(words_from(each, places, encoder.pool)[:, 0])
    layers = torch.stack([trace.states[number][trace.inner] for number in wanted], 1)
    inside = torch.zeros(len(places), count)
    for row, first, last in zip(inside, *pieces_of(trace.offsets, places), strict=True):
        row[first:last] = 1
    return torch.einsum("wp,pls->wls", shares, layers), trace, inside


def _axis(field: TextField, encoder: EncoderStates, cell: str) -> tuple[Axis, int]:
    """(the pieces of a text, joined to the task's words; in how many windows they were read)."""
    text, places = field.to_encoder(cell)
    reader = opened(encoder)
    read = reader.tokenizer.encode(text, add_special_tokens=False)
    before = [reader.tokenizer.id_to_token(i) for i in reader.before]
    behind = [reader.tokenizer.id_to_token(i) for i in reader.behind]
    pieces = [*before, *read.tokens, *behind]
    groups: list[list[int]] = [[i] for i in range(len(before))]
    texts = list(before)
    offsets = np.array(read.offsets, np.int64).reshape(-1, 2)
    owner: dict[int, int] = {}
    for number, (low, high) in enumerate(zip(*pieces_of(offsets, places), strict=True)):
        owner.update(dict.fromkeys(range(low, high), number))
    last = None
    for piece, (start, end) in enumerate(read.offsets):
        word = owner.get(piece)
        if word is not None and word == last:
            groups[-1].append(len(before) + piece)
        else:
            low, high = places[word].tolist() if word is not None else (start, end)
            groups.append([len(before) + piece])
            texts.append(text[low:high] or read.tokens[piece])
        last = word
    first = len(before) + len(read.ids)
    groups += [[first + i] for i in range(len(behind))]
    special = [*range(len(before)), *range(first, len(pieces))]
    axis = Axis(pieces, groups=groups, texts=[*texts, *behind], special=special)
    return axis, len(windows(len(read.ids), reader.room))
