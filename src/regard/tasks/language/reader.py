"""From running text to stretches of words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from regard.data.dataset import Dataset
from regard.data.passages import running_text
from regard.data.problems import Problems, Silent
from regard.data.text.tokenizer import Tokenizer
from regard.datasets import section, streamed
from regard.datasets.split_reader import SplitReader
from regard.datasets.table_reader import StreamedFiles, files_or_stream
from regard.errors import RequestError
from regard.fields import Field, TextField
from regard.fields.sets import tokenizers_of
from regard.protocols import UNK
from regard.tasks.language.text_blocks import TextBlocks

__all__ = ["RunningTextReader"]

_KEYS = (
    "path",
    "format",
    "columns",
    "header",
    "limit",
    "tokenizer",
    "train",
    "dev",
    "test",
    "stream",
    "sample",
)

Lines = Callable[[Problems], Iterator[Any]]


class RunningTextReader(SplitReader[Any, Any]):
    """Reads texts: every line ends in EOS, and lines follow each other as they stand.

    `data:` has `path`, or `train`, `dev`, `test`: plain text, JSONL, CSV or TSV (`columns: {text:
    NAME}`), or trees; `format` where the name does not tell it; `limit`: the first lines
    (rows) of the training text, or of each split; `tokenizer`: `kind` (words), `vocab_size`
    (10,000), `lowercase`, `min_count`; `stream`: the training text is read from many files, a
    buffer of lines at a time (see `streamed`), and no stretch goes over the end of a buffer;
    `sample`: lines that the vocabulary is then learned from.
    """

    learned = "the vocabulary"

    def __init__(self, task: Any, config: Mapping[str, Any]) -> None:
        super().__init__(task, config)
        section.refuse_unknown("data", config, _KEYS)
        self.section = section.Config.of(config, self.declared)
        self._lines = partial(
            running_text.lines,
            format=self.section.format,
            column=(config.get("columns") or {}).get("text"),
            header=self.section.header,
        )

    def files(self, splits: Sequence[str]) -> Mapping[str, Any]:
        """See `section.Config.files` and `files_or_stream`."""
        return files_or_stream(self.section, splits)

    def read(self, split: str, source: Any, problems: Problems) -> Any:
        """The lines of a file, when they are asked for: a text may be larger than memory."""
        if isinstance(source, StreamedFiles):
            return source
        return partial(self._lines, source, limit=self.section.limit.get(split))

    def learn(self, train: Any) -> dict[str, Field]:
        """The words of the training text; of files that are read in parts, of their first lines."""
        text = self.section.fields["text"]
        assert isinstance(text, TextField)
        if isinstance(train, StreamedFiles):
            some = streamed.sampled(self.section, train.files, self._lines)
            words = running_text.vocabulary(lambda: some, text.settings, text.min_count)
            return self.known({"text": words})
        (file,) = train.args
        if str(file) == "-":
            raise RequestError("a training text is read twice: give a file, not '-'")
        words = running_text.vocabulary(lambda: train(Silent()), text.settings, text.min_count)
        if text.min_count > 1 and len(words) == UNK + 1:
            raise RequestError(f"{file}: no word of it occurs {text.min_count} times (min_count)")
        return self.known({"text": words})

    def dataset(
        self, split: str, read: Any, fields: Mapping[str, Field], problems: Problems
    ) -> Dataset:
        """Text blocks of the training text; the lines of dev and test."""
        words, block, context = tokenizers_of(fields)["text"], self.task.block, self.task.context
        if isinstance(read, StreamedFiles):
            make = partial(self._stretches, words)
            stream: Any = streamed.source(self.section, read.files, self._lines, make)
            return stream  # type: ignore[no-any-return]
        encoded = running_text.encode(read(problems), words, keep=split != "train")
        (file,) = read.args
        problems.report(str(file))
        if not len(encoded.words):
            told = f": {dict(problems.counts)}" if len(problems) else ""
            raise RequestError(f"{file} has no line of text{told}")
        if split == "train":
            return TextBlocks.blocks(encoded, block, context)
        return TextBlocks.of_lines(encoded, context)

    def _stretches(self, words: Tokenizer, lines: list[Any], problems: Problems) -> TextBlocks:
        """Lines of files that are read in parts, as stretches."""
        encoded = running_text.encode(lines, words, keep=False)
        return TextBlocks.blocks(encoded, self.task.block, self.task.context)
