"""What a task is: every hook that training, predicting and scoring call, each with its default."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from regard.data.batch import plan
from regard.data.dataset import Column, Dataset, Table
from regard.datasets import section
from regard.datasets.data import Data
from regard.datasets.rows import Rows
from regard.datasets.split_reader import SplitReader
from regard.datasets.table_reader import TableReader
from regard.errors import RequestError
from regard.fields import Field, KeyField
from regard.fields.sets import as_fields, sides
from regard.metrics import Score
from regard.protocols import Constrained
from regard.settings.check import check_keys
from regard.tasks import judging, predicting
from regard.tasks.inputs import Asked, asked_of, texts_of
from regard.tasks.phases import Phase
from regard.tasks.prediction import Prediction
from regard.views import View, ViewOptions

__all__ = ["Task"]


class Task(ABC):
    """A kind of work: from files to examples, from a model to a loss, predictions and scores.

    A task holds settings only; it belongs to no model and keeps nothing between calls. A new task
    names its `fields`, its `loss`, its `outputs` and its `score`; everything else has a default.
    """

    name: ClassVar[str]
    metric: ClassVar[str]
    """The score that early stopping goes by unless the recipe says otherwise."""
    viewed: ClassVar[str] = "usual_view"
    """The module of `regard.tasks` that makes its view."""
    lower_is_better: ClassVar[frozenset[str]] = frozenset({"loss", "perplexity", "per", "wer"})
    reader: ClassVar[type[SplitReader[Any, Any]]] = TableReader
    """What reads the splits of its data."""
    columns: ClassVar[Mapping[str, str | int]] = {}
    """The column of a field that is not called as the field is, where a recipe names none."""
    max_length: ClassVar[int] = 256
    """The most tokens of a training example where a recipe does not say."""
    header: ClassVar[bool] = True
    """Whether TSV files have a heading line where a recipe does not say."""
    options: ClassVar[frozenset[str]] = frozenset()
    """What `predict` can be asked for each input beside the input itself, as `prefix`."""
    reads_files: ClassVar[bool] = False
    """Whether an input is the path of a file, and one from a pipe the file itself."""
    storable: ClassVar[bool] = False
    """Whether a training split may stay on disk (`data.store`): its texts are all that there is."""
    together_why: str = ""
    """Why all training examples must be known at once; "": they may come in parts."""
    most: ClassVar[int | None] = 256
    """The most inputs that are answered at once; None: as many as the budget of tokens allows."""

    # -- data

    @abstractmethod
    def fields(self) -> dict[str, Field]:
        """The columns of its data by name, inputs first."""

    @property
    def data_types(self) -> Mapping[str, Any]:
        """Of each key of `data:` its type; a mapping is that of a section inside."""
        return section.types(self.fields())

    def check_data(
        self, config: Mapping[str, Any], where: Callable[[str], str] = lambda key: ""
    ) -> None:
        """Refuse a `data:` section with a value of another type than its key has, or out of range.

        Args:
            where: gives `file:line` of a dotted key, or "".

        Raises:
            RequestError: with the place, what was expected, and what was given.
        """
        check_keys(config, self.data_types, section="data", where=where)

    @final
    def data(
        self,
        config: Mapping[str, Any],
        fields: Mapping[str, Any] | None = None,
        splits: Sequence[str] = ("train", "dev", "test"),
    ) -> Data:
        """Read the splits, leaving out (and reporting) lines that are empty, too long or broken.

        Every task takes this way; `reader` names what is particular to its files.

        Args:
            config: the `data:` section of a recipe.
            fields: those of a trained model; learned from the training split where not given.
            splits: which of train, dev and test to read.

        Raises:
            RequestError: an unknown key, no such file, or a split without an example.
        """
        self.check_data(config)
        return self.reader(self, config).data(fields, splits)

    def check_fields(self, fields: Mapping[str, Field]) -> None:  # noqa: B027
        """Refuse fields that the task cannot use, as learned from the data; by default none.

        Raises:
            RequestError: what is missing.
        """

    def examples(
        self, values: Mapping[str, Any], *, training: bool
    ) -> Iterable[tuple[Mapping[str, Any], list[str]]]:
        """The examples of one row: values of each field, and every right output.

        By default the row is one example, and its target is right.
        """
        fields = self.fields()
        right = [fields[n].written(values[n]) for n in fields if fields[n].target and n in values]
        return [(values, right[:1])]

    def extend(  # noqa: B027  (a hook: by default nothing)
        self, rows: Mapping[str, Rows], config: section.Config, fields: Mapping[str, Field]
    ) -> None:
        """Read what belongs to the rows and is in other files, into `rows[split].extras`."""

    def dataset(self, columns: Mapping[str, Column], rows: Rows) -> Dataset:
        """The examples of a split from the encoded columns of its fields."""
        fields = self.fields()
        inputs, targets = sides(fields)
        texts = texts_of(fields, inputs, rows.values)
        first = targets[0] if targets else None
        keys = {n: rows.values[n] for n, own in fields.items() if isinstance(own, KeyField)}
        return Table(columns, inputs, texts, rows.references, first, {**rows.extras, **keys})

    def model_arguments(self, fields: Mapping[str, Any]) -> dict[str, int]:
        """What a model's constructor must know of the data."""
        known = as_fields(fields, self.fields())
        return {k: v for one in known.values() for k, v in one.arguments().items()}

    def rows(self, fields: Mapping[str, Field]) -> dict[str, tuple[str, Sequence[str]]]:
        """What the rows of a model's weights stand for, where data say how many there are.

        Returns:
            for an argument of the model's constructor the field it comes from, and the name of each
            row; an argument whose rows have no names is left out.
        """
        found: dict[str, tuple[str, Sequence[str]]] = {}
        for name, own in fields.items():
            for argument, names in own.rows().items():
                found.setdefault(argument, (name, names))
        return found

    # -- learning

    def prepare(self, model: nn.Module, data: Data) -> None:  # noqa: B027
        """Give a model what it starts from beside its own random numbers; by default nothing."""

    def phases(self, model: nn.Module) -> Sequence[Phase]:
        """What training goes through before its main phase; by default nothing.

        Raises:
            RequestError: a phase was asked for that the model cannot be in.
        """
        return ()

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any, step: int | None = None) -> tuple[Tensor, int]:
        """(the sum of the losses, what it is a sum over).

        Args:
            step: how many updates were made before; None: the model is judged, not trained, and
                the loss has nothing in it that only training wants.
        """

    def measured(self) -> Mapping[str, float]:
        """What losses took note of since they were last asked, for the log; by default nothing."""
        return {}

    def after_update(self, model: nn.Module) -> None:
        """Change weights after an update: what the model itself keeps within limits."""
        return model.constrain() if isinstance(model, Constrained) else None

    @final
    def judge(
        self,
        model: nn.Module,
        dev: Any,
        sample: Any,
        decoder: Any,
        fields: Mapping[str, Any],
        *,
        tokens: int,
        device: torch.device,
    ) -> tuple[float, int, dict[str, float]]:
        """(the sum of the losses on dev, what it is a sum over, the scores of `sample`).

        Args:
            sample: examples of dev that are predicted; None: no scores.
        """
        return judging.judge(self, model, dev, sample, decoder, fields, tokens, device)

    def tally(self, dev: Any, sample: Any) -> judging.Tally | None:
        """What counts the scores of `sample` while the loss on dev is computed.

        None: they need predictions, which is the default.
        """
        return None

    def as_judged(self, model: nn.Module, sample: Any, tokens: int) -> "Task":
        """This task with the settings that are best on what it is judged by; by default itself."""
        return self

    def settled(
        self, model: Any, dev: Any, decoder: Any, fields: Mapping[str, Field], tokens: int
    ) -> dict[str, Any]:
        """Settings found on dev when weights are final, as a temperature; the folder has them."""
        return {}

    # -- predicting

    def join(self, lines: Iterator[str]) -> Iterator[str]:
        """Single inputs of the lines of a file; by default each line is one."""
        return lines

    def asked(self, texts: Sequence[str], fields: Mapping[str, Field]) -> Asked:
        """Inputs that a user gave, read and encoded as the fields say.

        Several inputs of one example stand in one text, divided by `|||` or by tabs.
        """
        return asked_of(texts, fields, sides(self.fields())[0])

    def whole(self, dataset: Any) -> Asked:
        """All examples of a data set, as what is asked."""
        return Asked(dataset, range(len(dataset)), [Prediction("", "")] * len(dataset))

    @final
    def predict(
        self,
        model: nn.Module,
        texts: Sequence[str] | Dataset,
        decoder: Any,
        fields: Mapping[str, Any],
        *,
        tokens: int = 4096,
        **asked: Any,
    ) -> list[Prediction]:
        """Predict each input, in input order; inputs of like length are answered together.

        An empty text gives an empty output; one that cannot be read says why in `refused`.

        Args:
            model: it stays where it is and in the mode it is in.
            texts: one input each, or a data set.
            decoder: for tasks that write.
            tokens: the most padded tokens answered at once.
            asked: for each text what is wanted of its output; see `options`.

        Raises:
            RequestError: something is asked that this task cannot do.
        """
        return predicting.predict(self, model, texts, decoder, fields, tokens, asked)

    def checked(
        self, asked: dict[str, Any], texts: Sequence[str], fields: Mapping[str, Field]
    ) -> dict[str, Any]:
        """The options of a call, checked, without those that are None.

        Raises:
            RequestError: the task cannot do it.
        """
        wanted = {name: value for name, value in asked.items() if value is not None}
        self.check_options(wanted)
        return wanted

    def check_options(self, names: Iterable[str], *, decoding: bool = False) -> None:
        """Refuse options that this task cannot use.

        Args:
            names: of the options.
            decoding: they are a decoder's, for tasks that write text.

        Raises:
            RequestError: the first that it cannot use.
        """
        for name in names:
            if not (self.options if decoding else name in self.options):
                raise RequestError(f"{name}: the task {self.name} cannot use it: it writes no text")

    def batches(self, dataset: Any, tokens: int) -> list[list[int]]:
        """Which examples are answered together."""
        return plan(dataset.sizes, tokens=tokens, shuffle=False, rows=self.most)

    @abstractmethod
    def outputs(
        self,
        model: nn.Module,
        dataset: Any,
        indices: Sequence[int],
        decoder: Any,
        fields: Mapping[str, Field],
        **asked: Any,
    ) -> list[Prediction]:
        """What a model gives for some examples of a data set, in their order."""

    def view(self, loaded: Any, inputs: Sequence[str], options: ViewOptions | None = None) -> View:
        """What the model looked at for these inputs, for terminal, figure and page to draw.

        `viewed` says which module of `regard.tasks` makes it; a task with a view of its own may
        also override this.

        Args:
            loaded: a model with all it needs, as `regard.load` gives it.
            options: what is asked for.

        Raises:
            RequestError: an input that cannot be predicted, or an option that the task cannot use.
        """
        maker = import_module(f"regard.tasks.{self.viewed}")
        made: View = maker.view(loaded, inputs, options or ViewOptions())
        return made

    @abstractmethod
    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """The official scores of predictions for these examples."""

    def scores(self, examples: Any) -> list[str]:
        """The names of its scores; found by scoring a reference."""
        one = examples.subset([0])
        return list(self.score([Prediction(one.texts[0], one.references[0][0])], one))

    # -- model folders

    def noted(self, section: Mapping[str, Any]) -> dict[str, Any]:
        """The task's section of a recipe as a model folder keeps it."""
        return dict(section)

    @classmethod
    def of_folder(cls, spec: Mapping[str, Any]) -> "Task":
        """The task from its section in a model folder, without `name`."""
        return cls(**spec)

    def reread(self, fields: dict[str, Field]) -> dict[str, Field]:
        """Fields of a folder whose task this one stands for (`--set`); by default as they are."""
        return fields
