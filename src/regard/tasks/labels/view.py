"""What a labeler looked at: words of a text, sentences of a document, or two texts each other."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import Record
from regard.data.text.cells import cells_of
from regard.data.text.sentence_splitters import sentences_of
from regard.errors import RequestError
from regard.system.devices import device_of
from regard.tasks.answer_panels import bars, ranked
from regard.tasks.labels.counts_panel import counts_panel
from regard.tasks.labels.encoder_view import layers_of, relevance, within
from regard.tasks.labels.pooled_words import pooled_words
from regard.tasks.labels.query_key_texts import ITSELF, query_key_texts
from regard.tasks.loaded_model import LoadedModel, name_of
from regard.tasks.prediction import Prediction
from regard.views import (
    Axis,
    Map,
    MapPanel,
    Panel,
    Run,
    TablePanel,
    ValuesPanel,
    View,
    ViewOptions,
    axis_of,
)
from regard.watching.watcher import watch

__all__ = ["view"]

NULL = "∅"
"""The token that some models put before a sentence, to be looked at where nothing fits."""
WHY = "how much a word moved the score, in each layer of the encoder (no sign)"
POOLED = "words by their share of the largest features"
STRIPS = 24
"""Features that are shown of feature-wise weights: those that look most at single words."""
SENTENCES = 12
"""Sentences of a document that are named, those of the greatest weight."""


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Predict each input, watched: every attention over its texts, and the answers.

    Raises:
        RequestError: an input is empty or refused, or an option is unknown.
    """
    options.only("why", task=loaded.task.name)
    made = _Made(loaded, options)
    for text in inputs:
        if not text.strip():
            raise RequestError("the input is empty: there is nothing to look at")
        _whole(loaded, text)
        with torch.inference_mode(), watch(loaded.model) as seen:
            (found,) = loaded.predict([text])
        if found.refused:
            raise RequestError(found.refused)
        made.add(text, list(seen.values()), found)
        if options.why:
            made.explain(text, found)
    return View(
        made.axes, made.maps, made.runs, f"{options.folder or name_of(loaded)} · {inputs[0]}"
    )


def _whole(loaded: LoadedModel, text: str) -> None:
    """Refuse a text that is read in windows: its words look at those of their window only."""
    window, field = loaded.task.window, loaded.task.texts[0]
    if window and (count := len(loaded.tokenizers[field].encode(text))) > window:
        raise RequestError(
            f"the text has {count:,} words, and is read in windows of {window:,}: look at a part "
            "of it"
        )


@dataclass
class _Made:
    loaded: LoadedModel
    options: ViewOptions
    axes: list[Axis] = field(default_factory=list)
    maps: list[Map] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    def add(self, text: str, records: Sequence[Record], found: Prediction) -> None:
        """One input, answered and watched."""
        task = self.loaded.task
        cells = cells_of(text, task.texts)
        first, panels = len(self.maps), list[Panel]()
        inside, records = within(records)
        if task.sentences and any("sentence" in rows for r in records for rows in r.rows):
            panels = self._document(cells[0], records)
        else:
            tokens = [
                self.loaded.tokenizers[n].words_of(c)
                for n, c in zip(task.texts, cells, strict=True)
            ]
            panels = [*self._texts(tokens, records), *self._encoder(inside, cells)]
        answers = ranked(found)
        panels += self._pooled(text)
        if (counted := self._counts(cells, found)) is not None:
            panels.append(counted)
        if task.objective.calibrated:
            panels.append(bars(answers, "probabilities"))
        self.runs.append(
            Run(
                list(range(first, len(self.maps))),
                input=text,
                output=found.output,
                model=name_of(self.loaded),
                folder=self.options.folder,
                score=found.score,
                title=f"{name_of(self.loaded)} · {found.output}",
                panels=panels,
                result=found.as_json(),
            )
        )

    def explain(self, text: str, found: Prediction) -> None:
        """Which word, in which layer of the encoder, moved the score of the answer."""
        run, panels, more = self.runs[-1], list[Panel](), list[dict[str, Any]]()
        first = len(self.maps)
        for one in relevance(self.loaded, text, found.output):
            layers = [str(i) for i in range(len(one.values))]
            rows, columns = self._axis(Axis(layers, "steps")), self._axis(_words(one.words))
            moved = np.abs(one.values)[None]
            self.maps.append(Map.of("why", rows, columns, moved, kind="why", what="relevance"))
            panels.append(MapPanel("matrix", WHY, map=len(self.maps) - 1))
            cells = zip(one.words, *(map("{:+.3f}".format, own) for own in one.values), strict=True)
            panels.append(
                TablePanel(
                    title="gradient times state, by the layer of the encoder",
                    columns=("word", *layers),
                    cells=tuple(cells),
                )
            )
            more.append({"words": one.words, "layers": one.values.tolist()})
        self.runs[-1] = replace(
            run,
            maps=[*range(first, len(self.maps)), *run.maps],
            panels=[*panels, *run.panels],
            result={**(run.result or {}), "why": more},
        )

    def _encoder(self, records: Sequence[Record], cells: Sequence[str]) -> list[Panel]:
        """Every layer of the encoder below the model, with all its heads."""
        fields: Any = [self.loaded.fields[name] for name in self.loaded.task.texts]
        panels: list[Panel] = []
        for own in layers_of(records, fields, cells) if records else []:
            if own.windows > 1:
                told = f"{len(own.axis):,} pieces, read in {own.windows} windows"
                panels.append(
                    TablePanel(
                        title="the encoder below",
                        columns=("text", "its layers"),
                        cells=((told, "not drawn: they attend within a window; look at a part"),),
                    )
                )
                continue
            axis = self._axis(own.axis)
            for record, weights in zip(records, own.weights, strict=True):
                layer = int(record.name.rpartition(".")[2])
                made = Map.of(record.name, axis, axis, weights, kind="pretrained", layer=layer)
                self.maps.append(made)
                at, name = len(self.maps) - 1, f"encoder below, layer {layer}"
                panels.append(MapPanel("matrix", name, map=at))
        return panels

    def _pooled(self, text: str) -> list[Panel]:
        """Words shaded by the share of the features whose maximum stands there."""
        task = self.loaded.task
        if task.sentences:
            return []
        batch = task.asked([text], self.loaded.fields).dataset.collate([0])
        batch = batch.to(device_of(self.loaded.model))
        tokens = [
            self.loaded.tokenizers[name].words_of(cell)
            for name, cell in zip(task.texts, cells_of(text, task.texts), strict=True)
        ]
        panels: list[Panel] = []
        shares = pooled_words(self.loaded.model, task.inputs(batch), [len(own) for own in tokens])
        for own, share in zip(tokens, shares, strict=False):
            rows, columns = self._axis(Axis([task.target], "steps")), self._axis(_words(own))
            self.maps.append(
                Map.of("pooled", rows, columns, share[None, None], kind="pooled", what="pooled")
            )
            panels.append(MapPanel("text", POOLED, map=len(self.maps) - 1))
        return panels

    def _counts(self, cells: Sequence[str], found: Prediction) -> Panel | None:
        """What the n-grams of one text with one label add to its score."""
        task, name = self.loaded.task, self.loaded.task.texts[0]
        if len(cells) > 1 or not task.objective.calibrated:
            return None
        texts = sentences_of(cells[0], task.sentences) if task.sentences else [cells[0]]
        tokenizer = self.loaded.tokenizers[name]
        labels = self.loaded.fields[task.target].rows()["num_classes"]
        tokens = [tokenizer.words_of(one) for one in texts]
        ids = [tokenizer.encode(one).ids for one in texts]
        return counts_panel(self.loaded.model, tokens, ids, list(labels).index(found.output))

    # -- one text, or two

    def _texts(self, tokens: list[list[str]], records: Sequence[Record]) -> list[Panel]:
        places = [self._axis(_words(own)) for own in tokens]
        nulls: dict[int, int] = {}
        panels: list[Panel] = []

        def words(text: int | None, count: int) -> int:
            if text is not None and text < len(tokens):
                if len(tokens[text]) == count:
                    return places[text]
                if len(tokens[text]) + 1 == count:
                    if text not in nulls:
                        nulls[text] = self._axis(_words([NULL, *tokens[text]], special=[0]))
                    return nulls[text]
            return self._axis(axis_of(None, count))

        for record in records:
            if not {"query", "key"} <= set(record.axes):
                continue
            itself, looks = record.role in ITSELF, _looks(record)
            sides = query_key_texts(self.loaded.model, record, len(tokens))
            for call, (heads, scope) in enumerate(looks):
                # A module that reads several texts reads each as often as the others.
                query, key = sides[call * len(sides) // max(len(looks), len(sides))]
                _, queries, keys = heads.shape
                if query is None and queries == 1 and itself:
                    rows = self._axis(Axis([self.loaded.task.target], "steps"))  # learned
                else:
                    rows = words(query, queries)
                # A word looks at what is its own.
                columns = words(None if "word" in record.axes else key, keys)
                layer = sum(own.kind == (record.role or record.name) for own in self.maps) + 1
                self.maps.append(
                    Map.of(
                        record.name,
                        rows,
                        columns,
                        heads,
                        kind=record.role or record.name,
                        layer=layer,
                        scope=scope,
                    )
                )
                at = len(self.maps) - 1
                if record.features:
                    panels.append(MapPanel("features", record.name, map=at))
                elif queries == 1 and len(heads) == 1:
                    panels.append(MapPanel("text", record.name, map=at))
                else:
                    panels.append(MapPanel("matrix", record.name, map=at))
        return panels

    # -- a document

    def _document(self, text: str, records: Sequence[Record]) -> list[Panel]:
        """Words shaded by what they count in the whole, and a bar for each sentence."""
        task, tokenizer = self.loaded.task, self.loaded.tokenizers[self.loaded.task.texts[0]]
        every = [(s, tokenizer.words_of(s)) for s in sentences_of(text, task.sentences)]
        written, tokens = [s for s, own in every if own], [own for _, own in every if own]
        starts = np.cumsum([0, *map(len, tokens)])
        words = self._axis(_words([w for s in tokens for w in s], sections=starts[:-1].tolist()))
        sentences = self._axis(_words([_shortened(s) for s in written]))
        shares = np.full(len(tokens), 1 / max(len(tokens), 1))
        inside = np.zeros(int(starts[-1]), np.float32)
        for record in records:
            for weights, rows in zip(record.steps, record.rows, strict=True):
                if "sentence" in rows:
                    for one, number in zip(weights, rows["sentence"].tolist(), strict=True):
                        own = slice(int(starts[number]), int(starts[number + 1]))
                        inside[own] = one.reshape(-1)[: own.stop - own.start].float().numpy()
                elif weights.numel() == len(tokens):
                    shares = weights.reshape(-1).float().numpy()
        whole = self._axis(Axis([task.target], "steps"))
        product = inside * np.repeat(shares, np.diff(starts))
        given = (
            ("document", words, product),
            ("word", words, inside),
            ("sentence", sentences, shares),
        )
        first = len(self.maps)
        for name, columns, values in given:
            self.maps.append(
                Map.of(name, whole, columns, np.asarray(values, np.float32)[None, None], kind=name)
            )
        most = np.sort(np.argsort(-shares, kind="stable")[:SENTENCES])
        strongest = tuple(
            (
                f"{i + 1}",
                f"{shares[i]:.3f}",
                _strongest(tokens[i], inside[starts[i] : starts[i + 1]]),
            )
            for i in most.tolist()
        )
        return [
            MapPanel("text", "words by their weight in the document", map=first),
            ValuesPanel(
                "bars",
                "sentences",
                labels=tuple(_shortened(written[i]) for i in most),
                values=tuple(float(shares[i]) for i in most),
            ),
            TablePanel(
                title="what a sentence was read for",
                columns=("sentence", "weight", "words"),
                cells=strongest,
            ),
        ]

    def _axis(self, axis: Axis) -> int:
        self.axes.append(axis)
        return len(self.axes) - 1


def _words(words: Sequence[str], special: Sequence[int] = (), sections: Sequence[int] = ()) -> Axis:
    """Words that are whole, whatever they look like."""
    own = list(words)
    return Axis(
        own,
        groups=[[i] for i in range(len(own))],
        texts=own,
        special=list(special),
        sections=list(sections),
    )


def _looks(record: Record) -> list[tuple[np.ndarray, dict[str, int]]]:
    """The weights of each map to draw, (heads, query, key), and in which loop they were.

    Calls of one word each that follow each other are one map: of a text that is looked at word by
    word ("cross"), or of a tape that has a slot more at each step ("self"). A tape begins with a
    slot that is of no word, and that of its last word is never looked at.
    """
    grows = {"cross": 0, "self": 1}.get(record.role)
    runs: list[list[np.ndarray]] = []
    scopes = []
    for weights, scope in zip(record.steps, record.scopes, strict=True):
        heads = _heads(record, weights)
        last = runs[-1][-1] if runs else None
        if (
            grows is not None
            and last is not None
            and last.shape[1] == heads.shape[1] == 1
            and last.shape[2] + grows == heads.shape[2]
        ):
            runs[-1].append(heads)
        else:
            runs.append([heads])
            scopes.append(scope)
    return [(_joined(run, grows or 0), scope) for run, scope in zip(runs, scopes, strict=True)]


def _joined(run: list[np.ndarray], more: int) -> np.ndarray:
    if len(run) == 1:
        return run[0]
    width = run[-1].shape[2] + more
    even = [np.pad(one, ((0, 0), (0, 0), (0, width - one.shape[2]))) for one in run]
    return np.concatenate(even, 1)


def _heads(record: Record, weights: Tensor) -> np.ndarray:
    """One call's weights of the one example as (heads, query, key)."""
    own: Tensor = weights.float().cpu()
    if "word" in record.axes:  # (1, T, [head,] 1, K), of each word its own
        own = own[0].movedim(0, -2).squeeze(-3)
    while own.dim() > 2 + record.heads + record.features:
        own = own[0]
    if record.features:  # (Q, K, F)
        strips = own.movedim(-1, 0)
        peaks = strips.amax(-1).mean(-1)
        kept = peaks.argsort(descending=True, stable=True)[:STRIPS].sort().values
        return strips[kept].numpy()
    return (own if record.heads else own[None]).numpy()


def _shortened(text: str, most: int = 60) -> str:
    one = " ".join(text.split())
    return one if len(one) <= most else one[: most - 1].rstrip() + "…"


def _strongest(words: Sequence[str], weights: Any, most: int = 4) -> str:
    order = sorted(range(len(words)), key=lambda i: -weights[i])[:most]
    return "  ".join(f"{words[i]} {weights[i]:.2f}" for i in order)
