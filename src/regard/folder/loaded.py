"""A model with all it needs to be used: what `regard.load` gives."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import torch
from torch import nn

from regard import decode
from regard.data.text.tokenizer import Tokenizer
from regard.decode.request import DecodingRequest, by_name, each_of
from regard.errors import RequestError
from regard.fields import Field, TextField
from regard.fields.sets import tokenizers_of
from regard.settings import old_names
from regard.settings.old_names import renaming
from regard.tasks import Prediction, Task
from regard.tasks.abilities import ReadsOtherFields, combining, streaming

__all__ = ["Loaded"]


@dataclass(frozen=True)
class Loaded:
    """A model with all it needs to be used, as it came out of a folder.

    Args:
        model: in evaluation mode, float32, on the CPU until `to` is called.
        fields: the columns of its data with what they learned in training, by name.
        config: what `config.json` says.
    """

    model: nn.Module
    task: Task
    fields: dict[str, Field]
    decoder: Any
    config: dict[str, Any]
    folder: Path

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """Those of the texts among the fields; the same object where they are shared."""
        return tokenizers_of(self.fields)

    def __repr__(self) -> str:
        name = self.config.get("model", {}).get("name", type(self.model).__name__)
        count = sum(p.numel() for p in self.model.parameters())
        return f"Loaded({name}, {count:,} parameters, {self.task.name}, {str(self.folder)!r})"

    @renaming(old_names.ASKED)
    def predict(
        self,
        texts: Sequence[str],
        n_best: int = 1,
        prefix: str | Sequence[str] | None = None,
        force_words: Sequence[Sequence[str]] | None = None,
        bad_words: Sequence[Sequence[str]] | None = None,
        keep: Sequence[str] = (),
        requests: DecodingRequest | Sequence[DecodingRequest] | None = None,
        **overrides: Any,
    ) -> list[Prediction]:
        """Predict each text, in input order; an empty text gives an empty output.

        Args:
            texts: one input each.
            n_best: how many hypotheses come back, best first, in `alternatives`.
            prefix: what outputs must begin with: one text for all, or one for each.
            force_words, bad_words: for each text, words or phrases that its output must and must
                not have.
            keep: what stays as it is, each once: "urls", "placeholders", "tags", "all", or regular
                expressions; see `inference.placeholders`.
            requests: all of these in one, for all texts or one for each.
            overrides: keys of the decoder for this call, as `beam_size=1` or `length_penalty=0.6`.

        Raises:
            RequestError: a task that writes no text is asked for anything of this.
        """
        if isinstance(texts, str):
            raise RequestError("predict expects a list of texts, got one string: write [text]")
        wishes = {"prefix": prefix, "force_words": force_words, "bad_words": bad_words}
        asked: dict[str, Any] = {name: own for name, own in wishes.items() if own is not None}
        if requests is not None:
            if asked or keep:
                name = next(iter(asked), "keep")
                raise RequestError(f"{name}: expected in requests, or without them")
            each = each_of(requests, len(texts))
            asked, keep = by_name(each), each[0].keep if each else ()
            if any(one.keep != keep for one in each):
                raise RequestError("keep: expected the same for all inputs of a call")
        if isinstance(prefix, str):
            asked["prefix"] = [prefix] * len(texts)
        used = self.with_decoder(n_best, **overrides)
        if not keep:
            return self.task.predict(self.model, list(texts), used.decoder, self.fields, **asked)
        from regard.inference.placeholders import keeping

        self.task.check_options(["keep"], decoding=True)
        predict = partial(self.task.predict, self.model, decoder=used.decoder, fields=self.fields)
        return keeping(self, list(texts), keep, predict, **asked)

    def stream(
        self, text: str, *, deadline: float | None = None, **asked: Any
    ) -> Iterator[Prediction]:
        """Predict one text step by step: the best so far after each step of the decoder.

        The last one is what `predict` gives. A beam may change its mind; with `name="greedy"` the
        output grows. Closing the generator ends the work.

        Args:
            text: the input.
            deadline: seconds after which no further step begins; what is there is the last.
            asked: `prefix`, `force_words`, `bad_words` of this text, and keys of the decoder.

        Raises:
            RequestError: the task writes no text.
        """
        own = {key: asked.pop(key) for key in self.task.options & asked.keys()}
        decoder = self.with_decoder(**asked).decoder
        task = streaming(self.task)
        return task.stream(self.model, text, decoder, self.fields, deadline=deadline, **own)

    @overload
    def translate(self, text: str, **overrides: Any) -> str: ...
    @overload
    def translate(self, text: Sequence[str], **overrides: Any) -> list[str]: ...

    def translate(self, text: str | Sequence[str], **overrides: Any) -> str | list[str]:
        """The best output for a text, or a list of them for a list."""
        if isinstance(text, str):
            return self.predict([text], **overrides)[0].output
        return [prediction.output for prediction in self.predict(text, **overrides)]

    def __call__(self, text: str | Sequence[str], **overrides: Any) -> str | list[str]:
        """Short for `translate`, for tasks where that is not the word."""
        return self.translate(text, **overrides)

    def with_decoder(self, n_best: int = 1, **overrides: Any) -> "Loaded":
        """The same model with another decoder: this one's, with `overrides` applied."""
        if n_best < 1:
            raise RequestError(f"n_best: expected 1 or more, got {n_best}")
        if n_best == 1 and not overrides:
            return self
        self.task.check_options(overrides or ["n_best"], decoding=True)
        settings = {**self.config["decode"], **overrides}
        if "name" in overrides and overrides["name"] != self.config["decode"].get("name"):
            settings = dict(overrides)  # another decoder: the old one's keys are not its keys
        config = {**self.config, "decode": settings}  # kept where a decoder is asked for again
        if n_best > 1:
            settings = {**settings, "n_best": n_best}
        return replace(self, decoder=decode.build(settings), config=config)

    def together(self, *others: "Loaded") -> "Loaded":
        """This model and others as one that gives the mean of their probabilities.

        Models of tasks that label texts may read them by fields of their own (other tokenizers,
        characters, features); the labels are the same.

        Raises:
            RequestError: another task, other labels, or a tokenizer that is not this one's where
                the task needs one for all.
        """
        if not others:
            return self
        models = [self.model, *map(self._joining, others)]
        tasks = [self.task, *(one.task for one in others)]
        return replace(self, model=combining(self.task).together(models, tasks))

    def _joining(self, other: "Loaded") -> nn.Module:
        """The model of another, to be put beside this one's."""
        if other.task.name != self.task.name:
            raise RequestError(
                f"{other.folder} is of the task {other.task.name}, and {self.folder} of"
                f" {self.task.name}: only models of one task go together"
            )
        model: nn.Module | None = other.model
        for name in [*self.fields, *(other.fields.keys() - self.fields.keys())]:
            if _alike(self.fields.get(name), other.fields.get(name)):
                continue
            told = other.fields.get(name) or self.fields[name]
            model = None
            if isinstance(other.task, ReadsOtherFields) and not told.target:
                model = other.task.of_texts(other.model, other.fields)
            if model is None:
                what = f"{name} tokenizer" if name in self.tokenizers else f"field {name!r}"
                if _states_of(self.fields.get(name)) != _states_of(other.fields.get(name)):
                    what = "encoder (data.vectors)"
                raise RequestError(
                    f"{other.folder} has another {what} than {self.folder}: models that go"
                    " together are trained on the same data"
                )
        assert model is not None
        return model

    def to(self, device: str | torch.device) -> "Loaded":
        """Move the model, and predict there from now on."""
        self.model.to(device)
        return self


def _alike(one: Field | None, other: Field | None) -> bool:
    """Whether two models read a column in the same way."""
    told = one or other
    if told is None or not told.saved or told.optional:  # what is optional changes no probabilities
        return True
    if one is None or other is None:
        return False
    if _states_of(one) != _states_of(other):
        return False
    same: bool = json.loads(one.dump()) == json.loads(other.dump())
    return same


def _states_of(field: Field | None) -> Any:
    """Which states of an encoder a column is read with; None: it has none."""
    encoder = field.contextual if isinstance(field, TextField) else None
    return None if encoder is None else encoder.read
