"""From running text to stretches of words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from regard.data.dataset import Dataset
from regard.data.passages import running_text
from regard.data.problems import Problems, Silent
from regard.data.text.tokenizer import Tokenizer
from regard.datasets import section, streamed
from regard.datasets.dividing import Divided, Member, deal
from regard.datasets.split_files import warn_alone
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
    "split",
)

Lines = Callable[[Problems], Iterator[Any]]


class RunningTextReader(SplitReader[Any, Any]):
    """Reads texts: every line ends in EOS, and lines follow each other as they stand.

    `data:` has `path`, or `train`, `dev`, `test`: plain text, JSONL, CSV or TSV (`columns: {text:
    NAME}`), or trees; `format` where the name does not tell it; `limit`: the first lines
    (rows) of the training text, or of each split; `tokenizer`: `kind` (words), `vocab_size`
    (10,000), `lowercase`, `min_count`; `stream`: the training text is read from many files, a
    buffer of lines at a time (see `streamed`), and no stretch goes over the end of a buffer;
    `sample`: lines that the vocabulary is then learned from; `split`: shares of one file. Rows are
    dealt out at random, or by the groups of a column; plain text and trees are cut in their order,
    plain text at blank lines where it has some.
    """

    learned = "the vocabulary"

    def __init__(self, task: Any, config: Mapping[str, Any]) -> None:
        super().__init__(task, config)
        section.refuse_unknown("data", config, _KEYS)
        self.section = section.Config.of(config, self.declared)
        self._known: dict[str, Divided] = {}
        self._lines = partial(
            running_text.lines,
            format=self.section.format,
            column=(config.get("columns") or {}).get("text"),
            header=self.section.header,
        )

    def files(self, splits: Sequence[str]) -> Mapping[str, Any]:
        """See `section.Config.files` and `files_or_stream`."""
        found = files_or_stream(self.section, splits)
        warn_alone(found, splits, self.config)
        return found

    def read(self, split: str, source: Any, problems: Problems) -> Any:
        """The lines of a file, when they are asked for: a text may be larger than memory."""
        if isinstance(source, StreamedFiles):
            return source
        shares = self.section.split
        only = self._divided(source).lines.get(split) if shares else None
        return partial(self._lines, source, limit=self.section.limit.get(split), only=only)

    def _divided(self, file: Any) -> Divided:
        """The lines of each split of a file that `data.split` divides."""
        shares = self.section.split
        assert shares is not None
        if str(file) == "-":
            raise RequestError("data.split: standard input is read once; expected a file")
        if str(file) not in self._known:
            form = self.section.format or running_text.format_of(file)
            in_order = form in running_text.IN_ORDER
            if in_order and shares.seed != 1:
                raise RequestError(
                    f"data.split.seed: the lines of {file} are divided in their order; leave it out"
                )
            lines = running_text.documents(file, by=shares.by, **self._lines.keywords)
            members = (Member(n, own, "", repr((n, text))) for n, own, text in lines)
            how = "in their order" if in_order else "at random"
            how = f"groups of {shares.by!r}" if shares.by else how
            found = deal(members, shares, str(file), how, in_order=in_order)
            shares.check(found, str(file))
            self._known[str(file)] = found
        return self._known[str(file)]

    def noted(self, files: Mapping[str, Any], splits: Sequence[str]) -> Mapping[str, Any]:
        """How one file was divided."""
        file, shares = files.get("train"), self.section.split
        return {"split": shares.noted(self._divided(file))} if file and shares else {}

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
        # A file that is divided is read for each split, and told of once.
        telling = Silent() if self.section.split and split != "train" else problems
        encoded = running_text.encode(read(telling), words, keep=split != "train")
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
