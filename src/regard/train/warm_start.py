"""Training from the weights of a model folder (fine-tuning)."""

import logging
from collections.abc import Mapping
from typing import Any

from torch import nn

from regard import loading
from regard.errors import RequestError
from regard.fields import Field
from regard.train import engine, row_transfer

__all__ = ["Beginning", "begin_from"]

_talk = logging.getLogger("regard.train")


def begin_from(folder: str) -> Any:
    """The model in a folder, or a shipped one, with its tokenizers.

    Raises:
        RequestError: there is no such model.
    """
    try:
        return loading.load(folder)
    except RequestError as error:
        raise RequestError(f"train.start: {error}") from None


class Beginning:
    """What a training takes from another model: fields, and weights.

    Args:
        start: the loaded model.
        task: of the training.
        asked: `train.row_transfer`.
        where: the place in the recipe.
    """

    def __init__(self, start: Any, task: Any, asked: str | Mapping[str, str], where: str) -> None:
        self.start, self.task, self.where = start, task, where
        with _placed(where):
            self.chosen = row_transfer.choices(asked, task.fields())

    def data(self, config: Mapping[str, Any], fields: Mapping[str, Field] | None) -> Any:
        """The data of the training.

        Args:
            config: the `data:` section.
            fields: those of an earlier run of the same training.
        """
        how = set(self.chosen.values())
        if how == {"keep"} and not self.start.fields.keys() <= self.task.fields().keys():
            self._comparable()
        if fields is not None or how == {"keep"}:
            return self.task.data(config, fields or self.start.fields)
        task = self.task
        if how != {"replace"}:
            with _placed(self.where):
                self._comparable()
                shared = bool((config.get("tokenizer") or {}).get("shared"))
                task = row_transfer.beginning(task, self.start.fields, self.chosen, shared=shared)
        return task.data(config, None)

    def fill(
        self,
        model: nn.Module,
        sizes: Mapping[str, int],
        settings: Mapping[str, Any],
        fields: Mapping[str, Field],
    ) -> None:
        """Give the new model its weights, and say what became of the vocabularies.

        Args:
            sizes, settings: what the model was made of.
            fields: of the training's data.

        Raises:
            RequestError: another class, other sizes, or rows that cannot be found by name.
        """
        found: dict[str, row_transfer.Change] = {}
        if set(self.chosen.values()) != {"keep"}:
            self._comparable()
            with _placed(self.where):
                found = row_transfer.changes(self.task, self.start.fields, fields, self.chosen)
            for said in dict.fromkeys(map(str, found.values())) if engine.rank() == 0 else ():
                _talk.info("train.start: %s", said)
        row_transfer.taken_over(model, self.start, sizes, settings, found, self.where)

    def _comparable(self) -> None:
        if self.start.task.name != self.task.name:
            raise RequestError(
                f"{self.where}: train.start: {self.start.folder} is a model for "
                f"{self.start.task.name}, and the recipe's task is {self.task.name}"
            )


class _placed:
    """Puts the place in the recipe before what is wrong."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, RequestError):
            raise RequestError(f"{self.where}: train.vocabulary: {error}") from None
