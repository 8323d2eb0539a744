"""From a loaded model and an input to the weights of one hypothesis, every layer and every head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import watch
from regard.data.packed import Packed
from regard.data.tokenize import Tokenizer
from regard.decode.rules import Rule
from regard.errors import RequestError, nearest
from regard.protocols import BOS, EOS
from regard.store import Loaded
from regard.tasks.generation import Generation
from regard.viewer.measures import measured
from regard.viewer.picture import Picture, Words, picture

__all__ = ["KINDS", "Look", "look", "look_all", "token_scores"]

KINDS = {
    "cross": "what the output looks at in the input",
    "decoder": "what the output looks at in itself",
    "encoder": "what the input looks at in itself",
}

SHOWN = {
    "norms": "weight × norm, of the largest",
    "gradient": "size of gradient × weight, of the largest",
    "rollout": "rollout",
}
"""Titles of pictures of other measures than weights; a page has their signs and scales too."""


@dataclass(frozen=True)
class Look:
    """What one hypothesis looked at.

    Args:
        score: as the decoder ranks it; of a forced output by the same penalty.
        number, of: which hypothesis this is, counted from 1, and how many there were; 0 if forced.
        source, target: the pieces of input and output with the end token, and the word of each.
        weights: for each kind (`KINDS`), by the path of the attention module: (head, rows, columns)
            over pieces.
        what: what these are, a key of `_view.WHATS`.
    """

    model: str
    input: str
    output: str
    score: float
    number: int
    of: int
    source: Words
    target: Words
    weights: Mapping[str, Mapping[str, Tensor]]
    what: str = "weights"

    def layers(self, kind: str = "cross") -> list[str]:
        """The attentions of a kind from the input side up, by module path.

        Raises:
            RequestError: the model has none.
        """
        found = list(self.weights.get(kind, {}))
        if not found:
            there = [k for k in KINDS if self.weights.get(k)]
            if kind not in KINDS:
                raise RequestError(f"no kind of attention {kind!r}; {nearest(kind, there)}")
            also = f"; it has: {', '.join(there)}" if there else ": it has no attention at all"
            raise RequestError(f"{self.model} has no {kind} attention ({KINDS[kind]}){also}")
        return found

    def heads(self, layer: int = -1, kind: str = "cross") -> int:
        """How many heads a layer has."""
        return len(self.weights[kind][self._name(layer, kind)])

    def picture(
        self, layer: int = -1, head: int | None = None, *, kind: str = "cross", words: bool = True
    ) -> Picture:
        """The picture of a layer and a head.

        Args:
            layer: counted from 1; -1 is the last.
            head: counted from 1; None is the mean over heads.
            kind: one of `KINDS`.
            words: pieces put together to words; a word gets the sum of what its pieces get, and
                looks where its pieces look on average.

        Raises:
            RequestError: no such layer or head.
        """
        weights = self.weights[kind][self._name(layer, kind)]
        if head is not None and not 1 <= head <= len(weights):
            raise RequestError(f"there is no head {head}: this layer has 1 to {len(weights)}")
        chosen = weights.mean(0) if head is None else weights[head - 1]
        rows = self.source if kind == "encoder" else self.target
        columns = rows if kind == "decoder" else self.source
        found = picture(chosen, rows, columns, whole=words)
        if self.what in ("norms", "gradient"):  # not from 0 to 1, as cells are drawn
            size = found.weights.abs()
            found = replace(found, weights=size / size.max().clamp_min(1e-12))
        return found

    def title(self, layer: int = -1, head: int | str | None = None, *, kind: str = "cross") -> str:
        """Model, attention, layer, head, hypothesis and score in one line."""
        names = self.layers(kind)
        number = names.index(self._name(layer, kind)) + 1
        heads = self.heads(layer, kind)
        parts = [self.model]
        parts += [] if self.what == "weights" else [SHOWN[self.what]]
        parts += [] if kind == "cross" else [f"{kind} self-attention"]
        parts += [f"layer {number} of {len(names)}"] if len(names) > 1 else []
        if heads > 1 and head != "all":
            parts.append(f"mean of {heads} heads" if head is None else f"head {head} of {heads}")
        parts.append(f"hypothesis {self.number} of {self.of}" if self.number else "forced output")
        return " · ".join([*parts, f"score {self.score:.2f}".replace("-", "−")])

    def _name(self, layer: int, kind: str) -> str:
        names = self.layers(kind)
        if layer == -1:
            return names[-1]
        if not 1 <= layer <= len(names):
            raise RequestError(f"there is no layer {layer}: {self.model} has 1 to {len(names)}")
        return names[layer - 1]


def look(
    loaded: Loaded,
    text: str,
    *,
    hypothesis: int = 1,
    target: str | None = None,
    prefix: str | None = None,
    measure: str = "weights",
    **overrides: Any,
) -> Look:
    """Decode one input, watched, and follow one hypothesis of the beam through it.

    Args:
        loaded: of `regard.load`.
        text: one input.
        hypothesis: which one, best first, counted from 1.
        target: look at this output instead of one of the model's own.
        prefix: what the output must begin with.
        measure: "weights", or a key of `measures.MEASURES`.
        overrides: keys of the decoder, as `beam_size=10`.

    Raises:
        RequestError: an empty input, no such hypothesis, or a model without attention.
    """
    if hypothesis < 1:
        raise RequestError(f"hypotheses are counted from 1, the best; got {hypothesis}")
    if target is not None:
        return _look_forced(loaded, text, target, measure)
    found = _decoded(loaded, text, hypothesis, prefix, measure, overrides)
    if hypothesis > len(found):
        raise RequestError(f"there is no hypothesis {hypothesis}: the decoder gave {len(found)}")
    return found[hypothesis - 1]


def look_all(
    loaded: Loaded,
    text: str,
    *,
    prefix: str | None = None,
    measure: str = "weights",
    **overrides: Any,
) -> list[Look]:
    """Decode one input, watched, and follow every hypothesis of the beam, best first."""
    size: int = overrides.get("beam_size", getattr(loaded.decoder, "beam_size", 1))
    return _decoded(loaded, text, size, prefix, measure, overrides)


def _decoded(
    loaded: Loaded,
    text: str,
    n_best: int,
    prefix: str | None,
    measure: str,
    overrides: Mapping[str, Any],
) -> list[Look]:
    model, goal = loaded.model, loaded.tokenizers["target"]
    source, words = _side(loaded.tokenizers["source"], text, "input")
    ids = torch.tensor([source], device=next(model.parameters()).device)
    kinds = _kinds(model, ids)
    start = [goal.encode(prefix).ids] if prefix else None
    decoder = loaded.with_decoder(n_best, **overrides).decoder
    task = loaded.task
    rules: Sequence[Rule] = ()
    if isinstance(task, Generation):  # what `predict` keeps to
        rules = task.rules(Packed.rows([source[:-1]]), loaded.tokenizers, decoder)
    with watch(model) as records:
        found = decoder(model, ids, None, start, rules=rules)[0]
    shared = {name: records[name].of(0) for name, kind in kinds.items() if kind == "encoder"}
    looks = []
    for number, best in enumerate(found, 1):
        if measure == "weights":
            own = {n: records[n].along(best.trail) for n, k in kinds.items() if k != "encoder"}
            own = {**shared, **own}
        else:
            own = measured(measure, model, ids, best.tokens, kinds)
        looks.append(Look(
            model=loaded.config["model"]["name"], input=text, output=goal.decode(best.tokens),
            score=best.score, number=number, of=getattr(decoder, "beam_size", len(found)),
            source=words, target=Words.of(goal, best.tokens), weights=_sorted_out(own, kinds),
            what=measure,
        ))  # fmt: skip
    return looks


def _look_forced(loaded: Loaded, text: str, target: str, measure: str) -> Look:
    source, words = _side(loaded.tokenizers["source"], text, "input")
    ids = torch.tensor([source], device=next(loaded.model.parameters()).device)
    kinds, goal = _kinds(loaded.model, ids), loaded.tokenizers["target"]
    wanted, _ = _side(goal, target, "target")
    tokens, score, seen = _forced(loaded, ids, wanted, kinds)
    if measure != "weights":
        seen = measured(measure, loaded.model, ids, tokens, kinds)
    return Look(
        model=loaded.config["model"]["name"], input=text, output=goal.decode(tokens), score=score,
        number=0, of=0, source=words, target=Words.of(goal, tokens),
        weights=_sorted_out(seen, kinds), what=measure,
    )  # fmt: skip


def _sorted_out(
    seen: Mapping[str, Tensor], kinds: Mapping[str, str]
) -> dict[str, dict[str, Tensor]]:
    return {
        kind: {n: seen[n].float().cpu() for n, own in kinds.items() if own == kind and n in seen}
        for kind in KINDS
    }


def _side(tokenizer: Tokenizer, text: str, what: str) -> tuple[list[int], Words]:
    encoding = tokenizer.encode(text)
    if not encoding.ids:
        raise RequestError(f"the {what} is empty: there is nothing to look at")
    ids = [*encoding.ids, EOS]
    return ids, Words.of_text(tokenizer, encoding)


def _forced(
    loaded: Loaded, source: Tensor, target: Sequence[int], kinds: Mapping[str, str]
) -> tuple[list[int], float, dict[str, Tensor]]:
    """Teacher-forced: the output's tokens, its score, and what each attention saw."""
    with watch(loaded.model) as records:
        total = float(token_scores(loaded.model, source, target).sum())
    score = total / loaded.decoder.normalizer(len(target))
    return list(target), score, {name: records[name].of(0) for name in kinds}


def token_scores(model: Any, source: Tensor, target: Sequence[int]) -> Tensor:
    """Teacher-forced log-probabilities of an output's tokens, its end included: (T,)."""
    with torch.inference_mode():
        logits = model(source, source.new_tensor([[BOS, *target[:-1]]])).logits[0].float()  # (T, V)
    if not getattr(model, "normalized", False):
        logits = logits.log_softmax(-1)
    scores: Tensor = logits.gather(1, source.new_tensor(target)[:, None])[:, 0]
    return scores


def _kinds(model: nn.Module, source: Tensor) -> dict[str, str]:
    """Which attention is of which kind, told from reading the source and taking one step."""
    generator: Any = model
    with torch.inference_mode():
        with watch(model) as reading:
            encoded = generator.encode(source)
        with watch(model) as writing:
            generator.step(source.new_full((1, 1), BOS), generator.start(encoded))
    kinds = dict.fromkeys(reading, "encoder")
    for name, record in writing.items():
        own = record.steps[0].dim() - 2 - record.heads == 2  # (B, beam, ...): each has its own past
        kinds.setdefault(name, "decoder" if own else "cross")
    if not kinds:
        raise RequestError("this model has no attention to look at")
    return kinds
