"""The shapes that models can have: generator, classifier, tagger, reader …, as protocols."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from regard.protocols.inputs import (
    Inputs,
)
from regard.protocols.values import Decoding, Encoded, Output

__all__ = [
    "Branched",
    "Classifier",
    "Constrained",
    "Counting",
    "Covering",
    "DeclaresTexts",
    "FrameClassifier",
    "Generator",
    "LanguageModel",
    "MaxPooled",
    "NodeClassifier",
    "PairClassifier",
    "QueryKeyTexts",
    "Rated",
    "Reader",
    "RelationClassifier",
    "StartsLinear",
    "Tagger",
]

QueryKeyTexts = Mapping[str, tuple[int | None, int | None]]
"""Of attentions, by path: the text of the queries and that of the keys, see `DeclaresTexts`."""


@runtime_checkable
class Generator(Protocol):
    """A conditional generator: source in, target out, token by token.

    `forward` is teacher forced (all positions at once where the paper's model allows it); `start`
    calls every attention's `remember` once; `step` reads one token per hypothesis. Beams are the
    query axis.

    A generator that copies reads `Inputs.extras["copies"]` (B, S) int64: of each source token the
    id in the target vocabulary, PAD at padding. A word that the vocabulary (V ids) lacks has an id
    of the example's own, V, V + 1, … in the order of first occurrence. The generator reads and
    scores these ids too: its scores are log-probabilities (`normalized`) over V + W ids, W being
    the most own words of an example of the batch. `Output.extra["copying"]` (B, T) has the log-odds
    of copying at each place, for a loss that teaches when to copy. Without `copies` it scores V
    ids and copies nothing.
    """

    normalized: bool

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Read sources: ids (B, S) ending in EOS, right-padded, or any `Inputs`."""
        ...

    def __call__(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Score every next token of target_in (B, T), which starts with BOS: logits (B, T, V)."""
        ...

    def start(self, encoded: Encoded) -> Decoding:
        """The decoding before the first token, one hypothesis a sentence."""
        ...

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """Read tokens (B, beam); give logits (B, beam, V) of the next ones."""
        ...


@runtime_checkable
class Classifier(Protocol):
    """Gives scores of classes for each input: logits (B, num_classes), before the softmax.

    For several labels at once each logit is a class's own, before the sigmoid. What a loss adds
    (a penalty) is in `Output.extra`.
    """

    normalized: bool

    def __call__(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Read sources: ids (B, T), or `Inputs`; logits (B, num_classes)."""
        ...


@runtime_checkable
class PairClassifier(Protocol):
    """Gives scores of classes for each pair of sentences, before the softmax.

    What is known of a pair beside its words is in `extras["features"]` of the first, (B, F).
    """

    normalized: bool

    def __call__(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Output:
        """Read pairs of ids (B, T) and (B, U), or `Inputs`; logits (B, num_classes)."""
        ...


@runtime_checkable
class DeclaresTexts(Protocol):
    """Says of attentions between texts which text looks at which: a model of pairs, or a part.

    `query_key_texts` has, by the path of each attention below this module, the number of the text
    whose words are the queries and of the one whose words are the keys, counted from 0; None where
    they are no words of a text, as a learned query or the columns of a convolution. An attention
    that no module above it declares is called once for each text, in their order, and looks at that
    text; if it looks across texts, its axes are numbered.
    """

    query_key_texts: QueryKeyTexts


@runtime_checkable
class Tagger(Protocol):
    """Gives scores of tags for each word: logits (B, T, num_tags), before the softmax.

    A model whose tags depend on each other (a linear-chain CRF) has `transitions` (num_tags,
    num_tags), from row to column, `start` (num_tags,) and `end` (num_tags,) in `Output.extra`; the
    logits are then its emissions. A model that tags twice (aspects and opinions) has the logits of
    its second tags in `extra["auxiliary"]`.

    What is known of each word beside its form comes in `Inputs.extras`: `marks` (B, T) int64, 1 at
    the predicate that is asked about; `features` (B, T, F) int64, ids of further columns in one
    common table; `characters` of each word.
    """

    normalized: bool

    def __call__(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Read sources: words (B, T), or `Inputs`; logits (B, T, num_tags)."""
        ...


@runtime_checkable
class FrameClassifier(Protocol):
    """Gives scores of symbols for each frame, before the softmax; id PAD is the blank of CTC.

    Frames may be joined: `Output.extra["lengths"]` (B,) says how many each sound has then.
    """

    normalized: bool

    def __call__(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Read frames (B, T, D), or `Inputs`: logits (B, T', V)."""
        ...


@runtime_checkable
class RelationClassifier(Protocol):
    """Gives scores of relations for pairs of concepts of a document, before the softmax.

    The logits (P, num_relations) have a row for each pair of the batch, those of the first document
    first. In `Output.extra["names"]` (B, T, num_names) are the scores of tags that name mentions.

    What is asked is in `Inputs.extras`, padded with -1: `places` (B, N) int64, the pieces of all
    mentions; `entities` (B, N) int64, which concept of its document each place belongs to, counted
    from 0 (a piece of several concepts has several places); `pairs` (B, P, 2) int64, the concepts
    of head and tail. A document may have no pair. Where they are wanted, `features` (B, P, F) are
    numbers about each pair, `cues` (B, P, C) int64 what is written of it, padded with -1.
    """

    normalized: bool

    def __call__(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Read sources: pieces (B, T), or `Inputs`; logits (P, num_relations)."""
        ...


@runtime_checkable
class Reader(Protocol):
    """Reads a document with a question in mind, and says where or what the answer is.

    Its logits are a distribution over what can be answered: (B, T) over the places of the document,
    (B, 2, T) over its first and its last place, or (B, answers) over fixed answers; scores before
    the softmax, or log-probabilities where the model says `normalized` (minus infinity at padding).
    """

    normalized: bool

    def __call__(
        self,
        document: Tensor,
        query: Tensor,
        lengths: Tensor | None = None,
        query_lengths: Tensor | None = None,
    ) -> Output:
        """Read documents of words (B, T), or of sentences (B, S, W), and queries (B, Q).

        Lengths (B,) count words (sentences) of each; where not given, what is not padding.
        """
        ...


@runtime_checkable
class LanguageModel(Protocol):
    """Predicts each token of a text from those before it; `step` reads one token a hypothesis."""

    normalized: bool

    def __call__(self, tokens: Tensor, last: int | None = None) -> Output:
        """Score the token behind each of (B, T), or of the `last` ones: logits (B, last, V).

        Padding on the left is never looked at.
        """
        ...

    def start(self, batch: int) -> Decoding:
        """The decoding before the first token of this many texts, one hypothesis each."""
        ...

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """Read tokens (B, beam); give logits (B, beam, V) of the next ones."""
        ...


@runtime_checkable
class NodeClassifier(Protocol):
    """Gives scores of classes for the nodes of a graph, before the softmax or the sigmoids.

    `depth` says how many edges away it reads: a node's scores depend on nothing farther.
    """

    depth: int

    def __call__(self, features: Any, edges: Any) -> Output:
        """Read the features (N, in_features) of nodes and their edges: logits (N, num_classes).

        Of a sampled subgraph the logits are of its seeds alone.
        """
        ...


@runtime_checkable
class StartsLinear(Protocol):
    """A model that can be trained without its inner softmaxes at first (Sukhbaatar et al. 2015)."""

    def linear_start(self, on: bool) -> None:
        """Take the softmaxes out, or put them back; parameters stay as they are."""
        ...


@runtime_checkable
class Covering(Protocol):
    """A model with coverage that can be trained without it at first (See et al. 2017)."""

    def cover(self, on: bool) -> None:
        """Look at coverage and charge for it, or leave both out; parameters stay as they are."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A model that counts in its training texts before it learns."""

    def count(self, batches: Iterable[tuple[Sequence[Inputs], Tensor]]) -> None:
        """Read batches of all training texts, or of both texts of all pairs, and their targets."""
        ...


@runtime_checkable
class Rated(Protocol):
    """A model some of whose parameters learn at another rate."""

    @property
    def rates(self) -> Mapping[str, float]:
        """Of parameters, by the beginning of their names, multiples of the learning rate.

        The first that fits is taken.
        """
        ...


@runtime_checkable
class Branched(Protocol):
    """A model that adds the scores of several models of the same task."""

    @property
    def branches(self) -> Mapping[str, nn.Module]:
        """Each by its name."""
        ...


@runtime_checkable
class MaxPooled(Protocol):
    """An encoder of texts each of whose features is the largest over the words."""

    def shares(self, source: Inputs) -> Tensor | None:
        """The share (B, T) of the features that each word gave; None: all words count alike."""
        ...


@runtime_checkable
class Constrained(Protocol):
    """A model some of whose weights are kept within limits (norm constraints)."""

    def constrain(self) -> None:
        """Bring the weights back within their limits; called after each update."""
        ...
