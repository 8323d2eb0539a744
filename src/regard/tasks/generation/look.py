"""What a generator attended to while it wrote its output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import roles
from regard.data.ragged import RaggedIds
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError, nearest
from regard.protocols import BOS, EOS
from regard.tasks.generation.options import token_ids
from regard.tasks.loaded_model import LoadedModel, name_of, view_of
from regard.views import Axis, Map, MapPanel, Run, View, axis_of
from regard.views.numbers import decimal
from regard.views.picture import Picture, picture
from regard.views.word_pieces import WordPieces
from regard.watching.measures import measured
from regard.watching.watcher import watch

__all__ = [
    "KINDS",
    "SHOWN",
    "Look",
    "forced",
    "forced_look",
    "kinds_of",
    "look",
    "look_all",
    "looks_view",
    "side",
    "token_scores",
    "view_of",
]


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
    source: WordPieces
    target: WordPieces
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
        return " · ".join([*parts, f"score {decimal(self.score)}"])

    def _name(self, layer: int, kind: str) -> str:
        names = self.layers(kind)
        if layer == -1:
            return names[-1]
        if not 1 <= layer <= len(names):
            raise RequestError(f"there is no layer {layer}: {self.model} has 1 to {len(names)}")
        return names[layer - 1]


def look(
    loaded: LoadedModel,
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
    loaded: LoadedModel,
    text: str,
    *,
    prefix: str | None = None,
    measure: str = "weights",
    **overrides: Any,
) -> list[Look]:
    """Decode one input, watched, and follow every hypothesis of the beam, best first."""
    every = loaded.with_decoder(**overrides).decoder if overrides else loaded.decoder
    return _decoded(loaded, text, _width(every), prefix, measure, overrides)


def _width(decoder: Any) -> int:
    """How many hypotheses a decoder follows at once."""
    found: int = getattr(decoder, "beam_size", 1)
    return found


def _decoded(
    loaded: LoadedModel,
    text: str,
    n_best: int,
    prefix: str | None,
    measure: str,
    overrides: Mapping[str, Any],
) -> list[Look]:
    model, goal = loaded.model, loaded.tokenizers["target"]
    source, words = side(loaded.tokenizers["source"], text, "input")
    ids = torch.tensor([source], device=next(model.parameters()).device)
    kinds = kinds_of(model)
    start = [token_ids(goal, "prefix", prefix)] if prefix else None
    decoder = loaded.with_decoder(n_best, **overrides).decoder
    # What `predict` keeps to.
    rules = loaded.task.rules(RaggedIds.rows([source[:-1]]), loaded.tokenizers, decoder)
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
        looks.append(
            Look(
                model=name_of(loaded),
                input=text,
                output=goal.decode(best.tokens),
                score=best.score,
                number=number,
                of=max(_width(decoder), len(found)),
                source=words,
                target=WordPieces.of(goal, best.tokens),
                weights=_sorted_out(own, kinds),
                what=measure,
            )
        )
    return looks


def _look_forced(loaded: LoadedModel, text: str, target: str, measure: str) -> Look:
    wanted, _ = side(loaded.tokenizers["target"], target, "target")
    return forced_look(loaded, text, wanted, measure)


def forced_look(
    loaded: LoadedModel, text: str, tokens: Sequence[int], measure: str = "weights"
) -> Look:
    """What an output looked at that is given as ids, its end included."""
    source, words = side(loaded.tokenizers["source"], text, "input")
    ids = torch.tensor([source], device=next(loaded.model.parameters()).device)
    kinds, goal = kinds_of(loaded.model), loaded.tokenizers["target"]
    tokens, score, seen = forced(loaded, ids, tokens, kinds)
    if measure != "weights":
        seen = measured(measure, loaded.model, ids, tokens, kinds)
    return Look(
        model=name_of(loaded),
        input=text,
        output=goal.decode(tokens),
        score=score,
        number=0,
        of=0,
        source=words,
        target=WordPieces.of(goal, tokens),
        weights=_sorted_out(seen, kinds),
        what=measure,
    )


def _sorted_out(
    seen: Mapping[str, Tensor], kinds: Mapping[str, str]
) -> dict[str, dict[str, Tensor]]:
    return {
        kind: {n: seen[n].float().cpu() for n, own in kinds.items() if own == kind and n in seen}
        for kind in KINDS
    }


def side(tokenizer: Tokenizer, text: str, what: str) -> tuple[list[int], WordPieces]:
    """Ids and pieces of one side, with its end."""
    encoding = tokenizer.encode(text)
    if not encoding.ids:
        raise RequestError(f"the {what} is empty: there is nothing to look at")
    ids = [*encoding.ids, EOS]
    return ids, WordPieces.of_text(tokenizer, encoding)


def forced(
    loaded: LoadedModel, source: Tensor, target: Sequence[int], kinds: Mapping[str, str]
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


def kinds_of(model: nn.Module) -> dict[str, str]:
    """Which attention is of which kind (`KINDS`), as the model's attentions declare it.

    Raises:
        RequestError: the model has none, or none that declares one of these roles.
    """
    declared = roles(model)
    if not declared:
        raise RequestError("this model has no attention to look at")
    kinds = {name: role for name, role in declared.items() if role in KINDS}
    if not kinds:
        raise RequestError(
            f"no attention of this model declares a role among {', '.join(KINDS)}: give it, as "
            'Attention(role="cross"); there is: ' + ", ".join(declared)
        )
    return dict(sorted(kinds.items(), key=lambda own: own[1] != "encoder"))  # as they are called


def looks_view(looks: Sequence[Look], *, folder: str = "", title: str = "") -> View:
    """Hypotheses, inputs or models, each a run of one view; what they share is kept once."""
    axes: list[Axis] = []
    maps: list[Map] = []
    runs: list[Run] = []
    known: dict[Any, int] = {}

    def once(key: Any, made: list[Any], thing: Any) -> int:
        if key not in known:
            made.append(thing)
            known[key] = len(made) - 1
        return known[key]

    for one in looks:
        source = once(("source", one.model, one.input), axes, axis_of(one.source))
        target = once(("target", id(one)), axes, axis_of(one.target))
        kept: list[int] = []
        for kind in ("cross", "decoder", "encoder"):
            for layer, (name, weights) in enumerate(one.weights.get(kind, {}).items(), 1):
                rows = source if kind == "encoder" else target
                columns = target if kind == "decoder" else source
                # A beam's longest past is as wide as its longest hypothesis; nothing is there.
                wide = weights[:, :, : len(axes[columns])].numpy()
                found = Map.of(name, rows, columns, wide, kind=kind, layer=layer, what=one.what)
                shared = kind == "encoder" and one.what != "gradient"
                own = (name, one.what, one.model, one.input) if shared else (name, id(one))
                kept.append(once(own, maps, found))
        first = [m for m in kept if maps[m].kind == maps[kept[0]].kind][-1:]
        runs.append(
            Run(
                kept,
                input=one.input,
                output=one.output,
                model=one.model,
                folder=folder,
                score=one.score,
                number=one.number,
                of=one.of,
                target="" if one.number else one.output,
                panels=[MapPanel("matrix", map=m) for m in first],
            )
        )
    first_look = looks[0]
    called = title or f"{folder or first_look.model} · {first_look.input}"
    return View(axes, maps, runs, called)
