"""For tasks whose examples are no rows: all files of a split are read, then divided and limited."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from regard.data import sources
from regard.datasets.dividing import Divided, Member, deal, shares_of
from regard.datasets.split_files import named, split_files, warn_alone
from regard.datasets.split_reader import SplitReader

__all__ = ["PooledReader"]

Read = TypeVar("Read")


class PooledReader(SplitReader[list[Any], Read]):
    """Reads every example of a split's files into memory.

    `data.split` divides the training files. Examples of one group (a document, a story, or what
    has one value of `data.split.by`) are in one split.

    Raises:
        RequestError: an unknown key, or `data.split` beside a split that it makes.
    """

    groups: ClassVar[str]
    """What stays together where `data.split` names no column, in words."""

    def __init__(self, task: Any, config: Mapping[str, Any]) -> None:
        super().__init__(task, config)
        self.shares = shares_of(config)
        self._dealt: Divided | None = None

    # -- what a format says

    @abstractmethod
    def members(self, read: Read) -> Iterator[Member]:
        """Each example with its group and what the digest is of; places are numbers from 0."""

    @abstractmethod
    def pick(self, read: Read, places: Sequence[int]) -> Read:
        """Some of the examples."""

    @abstractmethod
    def limited(self, split: str, read: Read) -> Read:
        """What `data.limit` and its like leave of a split."""

    def held_out(self, read: dict[str, Read], splits: Sequence[str]) -> dict[str, Read]:
        """The splits, where dev is a part of the training files without `data.split`."""
        return read

    def folder(self, place: Path) -> Mapping[str, Any]:
        """The files of each split in a folder."""
        return sources.splits(place, moses=False)

    def source(self, told: Any) -> list[Any]:
        """The files of a split, of what the section names or of a file that was found."""
        return [*told] if isinstance(told, list | tuple) else [told]

    @property
    def named(self) -> Mapping[str, Any]:
        """The section, where it names files."""
        return self.config

    # -- what follows from it

    def files(self, splits: Sequence[str]) -> Mapping[str, list[Any]]:
        """See `split_files`; of all splits that `data.split` makes, the training files."""
        made = self.shares.names if self.shares else []
        wanted = {"train" if split in made else split for split in splits}
        asked = [split for split in sources.SPLITS if split in wanted]
        return split_files(
            self.named, asked, source=self.source, folder=self.folder, shares=self.shares
        )

    def divided(self, read: dict[str, Read], splits: Sequence[str]) -> dict[str, Read]:
        """The splits that the training files make, each with what its limit leaves."""
        found = dict(read)
        if self.shares and "train" in read:
            name, by = named(self.config.get("train") or self.config.get("path")), self.shares.by
            how = f"groups of {by!r}" if by else f"{self.groups} whole"
            self._dealt = deal(self.members(read["train"]), self.shares, name, how)
            self.shares.check(self._dealt, name)
            del found["train"]
            for split, places in self._dealt.lines.items():
                if split in splits:
                    found[split] = self.pick(read["train"], sorted(places))
        else:
            found = self.held_out(found, splits)
        warn_alone(found, splits, self.config)
        return {split: self.limited(split, own) for split, own in found.items()}

    def noted(self, files: Mapping[str, list[Any]], splits: Sequence[str]) -> Mapping[str, Any]:
        """How the training files were divided."""
        return {"split": self.shares.noted(self._dealt)} if self.shares and self._dealt else {}
