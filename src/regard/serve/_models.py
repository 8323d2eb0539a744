"""The models that are served, each by its name, and loaded again when its folder changes."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from regard import decode, loading
from regard.fields.sets import sides
from regard.folder.loaded import Loaded
from regard.serve._sample_inputs import examples_of, labels_of
from regard.serve._served_models import ServedModel, ServedModels, stamp_of
from regard.settings.overlay import override
from regard.system.sharing import shared

__all__ = ["Models", "Served"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Served(ServedModel):
    """A model that PyTorch computes."""

    loaded: Loaded

    @cached_property
    def inputs(self) -> list[str]:
        """The names of the inputs of an example."""
        return sides(self.loaded.task.fields())[0]

    @cached_property
    def writes(self) -> bool:
        """Whether its task writes text."""
        return bool(self.loaded.task.options)

    @cached_property
    def parameters(self) -> int:
        """How many there are."""
        return sum(p.numel() for p in self.loaded.model.parameters())

    @cached_property
    def examples(self) -> list[list[str]]:
        """Inputs to try it on, each the texts of an example's inputs."""
        return examples_of(self.loaded, self.size)

    def size(self, text: str) -> int:
        """About how many tokens an input has; a file counts by its bytes."""
        if self.loaded.task.reads_files:
            return max(1, len(text) >> 10)
        known = self.loaded.tokenizers
        first = next((known[name] for name in self.inputs if name in known), None)
        return 1 + (len(text) // 4 if first is None else len(first.encode(text).ids))

    def as_json(self) -> dict[str, Any]:
        """What `/models` says."""
        config, task = self.loaded.config, self.loaded.task
        return {
            "name": self.name,
            "task": task.name,
            "architecture": config.get("model", {}).get("name", type(self.loaded.model).__name__),
            "parameters": self.parameters,
            "inputs": self.inputs,
            "labels": labels_of(config, self.name),
            "reads_files": task.reads_files,
            "writes": self.writes,
            "options": sorted(task.options),
            "decode": config.get("decode") if self.writes else None,
            "examples": self.examples,
            "revision": self.revision,
            "error": self.error or None,
        }


class Models(ServedModels[Served]):
    """Models of folders, computed by PyTorch."""

    def load(self, name: str, folder: str, revision: int, stamp: Any = None) -> Served:
        """Load a folder."""
        stamp = stamp_of(folder) if stamp is None else stamp
        loaded = loading.load(folder)
        for change in self.settings.changes:
            loaded = _changed(loaded, change)
        loaded.to(self.settings.device)
        if self.settings.shared is not None:
            shared(loaded.model, self.settings.shared, _digest(loaded))
        return Served(name=name, loaded=loaded, revision=revision, stamp=stamp)


def _digest(loaded: Loaded) -> str:
    """What weights are called that are the same for all processes."""
    noted = loaded.config.get("weights") or {}
    return str(noted.get("sha256") or "")


def _changed(loaded: Loaded, change: str) -> Loaded:
    """With another setting of the decoder, where there is one."""
    if not loaded.task.options:
        return loaded
    key, value = override(change)
    settings = {**loaded.config["decode"], key.removeprefix("decode."): value}
    config = {**loaded.config, "decode": settings}
    return replace(loaded, config=config, decoder=decode.build(settings))
