"""Constituency parsing: the words of a sentence to its tree, written as a sequence of brackets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import nn

from regard.data.annotations.linearized_trees import as_tree, rebuilt
from regard.data.annotations.predicate_texts import apart
from regard.data.annotations.trees import Tree, escaped_words
from regard.data.ragged import RaggedIds
from regard.data.text.tokenizer import Tokenizer
from regard.datasets.data import Data
from regard.decode.rules.forbidden_words import Rule
from regard.decode.rules.trees import Trees
from regard.errors import RequestError
from regard.fields import Field, TreeField
from regard.metrics import Score, evalb
from regard.protocols import UNK
from regard.tasks.generation.base import Generation
from regard.tasks.generation.options import Spelling
from regard.tasks.inputs import Asked
from regard.tasks.prediction import Prediction

__all__ = ["Parsing"]


class Parsing(Generation):
    """Sentences to trees, scored by EVALB's labelled F1.

    A file has bracketed trees (`data.formats.trees`); the model reads the words and writes
    `(S (NP XX )NP (VP XX )VP . )S` (`linearized_trees.linearized`). A prediction's `output` is a
    tree with the words in it, whatever the model wrote (`linearized_trees.rebuilt`); its `tokens`
    are what the model wrote.

    Args:
        smoothing: label smoothing ε of the training loss.
        max_source: inputs of more tokens than this, EOS counted, are refused.
        tags: write the tag of every word, not XX; EVALB's tagging accuracy is of use only then.
        numbers: where not 0, XX is XX0, XX1, … by the place of its word, modulo this.
        constrained: write nothing that is not a tree of the sentence (`decode.rules.trees`).

    Source: Vinyals et al. (2015), "Grammar as a Foreign Language", arXiv 1412.7449.
    """

    name: ClassVar[str] = "parsing"
    metric: ClassVar[str] = "f1"
    viewed: ClassVar[str] = "generation.parsing_view"
    columns: ClassVar[Mapping[str, str | int]] = {"source": "words", "target": "tree"}
    tokenizer: ClassVar[dict[str, Any]] = {
        "source": {"kind": "bpe", "vocab_size": 4000},
        "target": {"kind": "words"},
    }
    lower_is_better: ClassVar[frozenset[str]] = Generation.lower_is_better | {"crossing"}

    def __init__(
        self,
        smoothing: float = 0.0,
        max_source: int = 512,
        tags: bool = False,
        numbers: int = 0,
        constrained: bool = True,
    ) -> None:
        super().__init__(smoothing, max_source)
        if numbers < 0:
            raise RequestError(f"task.numbers is {numbers}; it must be 0 (none) or more")
        self.tags, self.numbers, self.constrained = tags, numbers, constrained

    def fields(self) -> dict[str, Field]:
        """Words, and the tree of them."""
        tree = TreeField(tags=self.tags, numbers=self.numbers, target=True, **self._cut("target"))
        return {"source": super().fields()["source"], "target": tree}

    def pairs(
        self, source: str, target: Tree, *, training: bool
    ) -> tuple[list[tuple[str, Tree]], list[str]]:
        """The words and brackets of a tree; its own words count, whatever `source` is."""
        return [(" ".join(target.words()), target)], [str(target)]

    def rules(
        self, source: RaggedIds, tokenizers: Mapping[str, Tokenizer], decoder: Any
    ) -> Sequence[Rule]:
        """Only trees with as many tags as the sentence has words."""
        if not self.constrained:
            return ()
        words = [tokenizers["source"].words(ids.tolist())[-1] + 1 for ids in source]
        limits = [decoder.limit(len(ids) + 1) for ids in source]
        return [Trees(tokenizers["target"].vocabulary, words, limits)]

    def prepare(self, model: nn.Module, data: Data) -> None:
        """Tell a model that follows the words which symbols stand for one (`models.lstm_a`).

        Raises:
            RequestError: its source is in pieces, not in words.
        """
        if not getattr(model, "follow", False):
            return
        kind = data.tokenizers["source"].kind
        if kind not in ("shapes", "words"):
            raise RequestError(
                f"model.follow: expected a token a word, got data.tokenizer.source.kind={kind}; "
                "say shapes or words, or model.follow=false"
            )
        symbols = data.tokenizers["target"].vocabulary
        reads = [i > UNK and symbol[0] not in "()" for i, symbol in enumerate(symbols)]
        model.get_buffer("reads").copy_(torch.tensor(reads))

    def asked(self, texts: Sequence[str], fields: Mapping[str, Field]) -> Asked:
        """Sentences with punctuation apart, as the `input` of a prediction has them too."""
        return super().asked([apart(text) for text in texts], fields)

    def as_read(self, text: str) -> str:
        """Words divided by blanks, written as treebanks write them."""
        return escaped_words(text)

    def prediction(self, text: str, hypotheses: list[Any], target: Spelling) -> Prediction:
        """The best tree, with the others as its alternatives; what is still open is closed."""
        made = as_tree(super().prediction(text, hypotheses, target))
        assert isinstance(made, Prediction)
        return made

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """EVALB by COLLINS.prm: of all sentences, and F1 of those of at most 40 words.

        A sentence that was refused counts as one without a bracket.
        """
        gold = [Tree.parse(several[0]) for several in examples.references]
        made = [
            Tree.parse(p.output) if p.output else rebuilt((), tree.words())[0]
            for p, tree in zip(predictions, gold, strict=True)
        ]
        scores = evalb(made, gold)
        if short := [i for i, tree in enumerate(gold) if len(tree.leaves()) <= 40]:
            own = evalb([made[i] for i in short], [gold[i] for i in short])["f1"]
            scores["f1_40"] = replace(own, name="f1_40")
        return scores
