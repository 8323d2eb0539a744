"""A loaded model that answers as an order wants it."""

from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError

from regard.bulk.order import Order
from regard.errors import RegardError
from regard.inference.unknown_words import changing
from regard.loading import opened
from regard.system.devices import device_of
from regard.system.files import said_of
from regard.system.sharing import shared
from regard.tasks import Prediction

__all__ = ["Answering"]


class Answering:
    """A model, loaded once.

    Args:
        weights: a folder where processes find their weights in one file; None: they share none.
        digest: of the models' folders.

    Raises:
        RequestError: no such folder, or settings that it does not have.
    """

    def __init__(self, order: Order, weights: Path | None = None, digest: str = "") -> None:
        own = order
        self.order = own
        self.loaded = opened(own.folder, own.changes, own.n_best, own.others, own.graph, own.device)
        on_cpu = device_of(self.loaded.model).type == "cpu"
        if weights is not None and on_cpu:
            try:
                weights.mkdir(parents=True, exist_ok=True)
                shared(self.loaded.model, weights, digest)
            except OSError as error:
                raise RegardError(f"{weights}: could not be written: {said_of(error)}") from error
            except SafetensorError as error:
                said = " ".join(str(error).lower().split())
                raise RegardError(f"{weights}: could not be written: {said}") from error
        unknown = own.replace_unknown or own.lexicon is not None
        self._change = changing(
            self.loaded, unknown, own.lexicon, own.attention, own.head, own.align
        )
        self._request = own.request
        self.loaded.task.check_options(sorted(self._request.names))

    def __call__(self, texts: Sequence[str]) -> list[Prediction]:
        """A prediction for each text."""
        return self._change(self.loaded.predict([*texts], requests=self._request))
