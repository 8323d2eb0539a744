"""From a checked `data:` section to the splits of a task: the same steps for every format."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar, final

from regard.data.dataset import Dataset
from regard.data.problems import Problems
from regard.datasets.data import Data
from regard.errors import RequestError
from regard.fields import Field
from regard.fields.sets import as_fields, noted_encoder

__all__ = ["SplitReader"]

Source = TypeVar("Source")
"""What names the files of one split."""
Read = TypeVar("Read")
"""What was read of one split, before it is encoded."""


class SplitReader(ABC, Generic[Source, Read]):
    """Reads the splits of one task; `Task.reader` names the class.

    `data` is the same for all: find the files, read them, divide what is one file, learn the fields
    from the training split, encode every split that is asked for.

    Args:
        task: whose data they are.
        config: its `data:` section; the types of its values are checked.

    Raises:
        RequestError: an unknown key.
    """

    learned: ClassVar[str] = "the fields"
    """What is learned from the training split, in words."""

    def __init__(self, task: Any, config: Mapping[str, Any]) -> None:
        self.task, self.config = task, config
        self.declared: dict[str, Field] = task.fields()

    @final
    def data(self, fields: Mapping[str, Any] | None, splits: Sequence[str]) -> Data:
        """The splits that are asked for.

        Args:
            fields: those of a trained model; learned from the training split where not given.
            splits: which of train, dev and test.

        Raises:
            RequestError: nothing is there, or a split without an example.
        """
        problems, files = Problems(), self.files(splits)
        known = None if fields is None else self.known(fields)
        read: dict[str, Read] = {}
        for split, source in files.items():
            known, read[split] = self.read_knowing(split, source, known, problems)
        read = self.divided(read, splits)
        if known is None:
            if "train" not in read:
                raise RequestError(f"there is no training file to learn {self.said} from")
            known = self.learn(read["train"])
        known = self.completed(known, read)
        wanted = {split: own for split, own in read.items() if split in splits}
        made = self.datasets(wanted, known, problems)
        train, dev, test = (made.get(split) for split in ("train", "dev", "test"))
        self.task.check_fields(known)
        noted = dict(self.noted(files, splits))
        if encoder := noted_encoder(known):
            noted["vectors"] = {**(self.config.get("vectors") or {}), **encoder}
        return Data(train, dev, test, known, problems, self.sizes(known), noted=noted)

    # -- what a format says

    @abstractmethod
    def files(self, splits: Sequence[str]) -> Mapping[str, Source]:
        """The files of each split that is asked for and there is, and of those they come from.

        Raises:
            RequestError: there is none.
        """

    @abstractmethod
    def read(self, split: str, source: Source, problems: Problems) -> Read:
        """The examples of a split, as its files have them.

        Raises:
            RequestError: there is none.
        """

    @abstractmethod
    def learn(self, train: Read) -> dict[str, Field]:
        """The fields, with what the training split says."""

    @abstractmethod
    def dataset(
        self, split: str, read: Read, fields: Mapping[str, Field], problems: Problems
    ) -> Dataset:
        """A split, encoded."""

    # -- what most leave as it is

    @property
    def said(self) -> str:
        """What is learned from the training split, in words."""
        return self.learned

    def known(self, fields: Mapping[str, Any]) -> dict[str, Field]:
        """The fields of a trained model."""
        return as_fields(fields, self.declared)

    def read_knowing(
        self, split: str, source: Source, known: dict[str, Field] | None, problems: Problems
    ) -> tuple[dict[str, Field] | None, Read]:
        """`read`, for a reader whose files are encoded, or learned from, as they are read."""
        return known, self.read(split, source, problems)

    def divided(self, read: dict[str, Read], splits: Sequence[str]) -> dict[str, Read]:
        """The splits, where one is a part of another's files."""
        return read

    def completed(self, fields: dict[str, Field], read: Mapping[str, Read]) -> dict[str, Field]:
        """The fields, with what the section gives them beside the training split."""
        return fields

    def datasets(
        self, read: Mapping[str, Read], fields: Mapping[str, Field], problems: Problems
    ) -> dict[str, Dataset]:
        """Every split, encoded."""
        return {split: self.dataset(split, own, fields, problems) for split, own in read.items()}

    def sizes(self, fields: Mapping[str, Field]) -> Mapping[str, int] | None:
        """What the model's constructor must know where fields do not say it."""
        return None

    def noted(self, files: Mapping[str, Source], splits: Sequence[str]) -> Mapping[str, Any]:
        """What the files told beside the section, for the model folder."""
        return {}
