r"""A bag of words and n-grams with one linear layer: what a model with attention has to be above.

Wang and Manning, "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification", ACL
2012; Joulin, Grave, Bojanowski and Mikolov, "Bag of Tricks for Efficient Text Classification", EACL
2017, arXiv 1607.01759 (n-grams in hash buckets).

    G(x) = the distinct n-grams of x, n = 1 ... N
    one:   y = b + |G|^(-1/2) Σ_{g in G(x)} w_g
    pair:  y = b + U f + |G|^(-1/2) (Σ_{both} w^b_g + Σ_{first} w^1_g + Σ_{second} w^2_g)
           with G(x) ∪ G(x') divided into what both have and what one of them alone has, and f the
           features of the pair
    weighting "idf":  w_g is idf_g w_g, and |G|^(1/2) the length of the vector of idf_g, g in G
           idf_g = 1 + ln((1 + N) / (1 + N_g)),  N_g of the N training texts have g
    weighting "nb":   of each class c likewise r_gc for idf_g, the log-count ratio
           r_gc = ln((1 + N_gc) / Σ_h (1 + N_hc)) - ln((1 + N_g - N_gc) / Σ_h (1 + N_h - N_hc)),
           N_gc of the N_g texts that have g are of class c; h are the n-grams of the training texts

A word has a row of its own in W; longer n-grams share `buckets` rows by a hash.

Shapes: source (B, T) ids; W (V + buckets, C); logits (B, C).

**Departs from the papers**: trained by gradients of the cross-entropy, from small random numbers,
where Wang and Manning have a support vector machine; with "nb" on features scaled by log-count
ratios, as theirs, each class against all others, without their interpolation with naive Bayes. The
rows are logits themselves, without the hidden layer of Joulin et al. N-grams count once in a text,
as in Wang and Manning. The pair is ours: shared and unshared words are the usual features of
paraphrases.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.models._sentence import features_of, words_of
from regard.protocols import Inputs, Output

__all__ = ["BagOfNgrams", "BagOfNgramsPair"]

WEIGHTINGS = ("none", "idf", "nb")
LEAST = 1e-6
"""The least length of a text: one without n-grams, or with such as say nothing."""
_MIX = 0x9E3779B97F4A7C1  # odd, and so no two words meet before they are divided into buckets


class _Bags(nn.Module):
    """Rows of n-grams, and the sums of rows.

    Args:
        vocab_size: V; a word's row is its id.
        num_classes: C.
        ngrams: N, the longest n-gram.
        buckets: rows of all n-grams of two words and more.
        places: tables beside each other.
        dropout: of n-grams.
        weighting: one of `WEIGHTINGS`.
    """

    idf: Tensor | None
    ratios: Tensor | None

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        ngrams: int,
        buckets: int,
        places: int,
        dropout: float,
        weighting: str,
    ) -> None:
        super().__init__()
        if weighting not in WEIGHTINGS:
            raise RequestError(f"weighting: {weighting!r}: {nearest(weighting, WEIGHTINGS)}")
        if num_classes < 1:
            raise RequestError(f"expected a class or more, got num_classes={num_classes}")
        if ngrams < 1:
            raise RequestError(f"ngrams: expected 1 or more, got {ngrams}")
        if ngrams > 1 and buckets < 1:
            raise RequestError(f"buckets: expected 1 or more, got {buckets}")
        self.vocab_size, self.ngrams, self.buckets = vocab_size, ngrams, buckets
        self.rows = vocab_size + (buckets if ngrams > 1 else 0)
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(places, self.rows, num_classes))
        nn.init.normal_(self.weight, std=0.01)
        self.register_buffer("idf", torch.ones(self.rows) if weighting == "idf" else None)
        ratios = torch.ones_like(self.weight.detach()) if weighting == "nb" else None
        self.register_buffer("ratios", ratios)

    @property
    def counts(self) -> bool:
        """Whether training texts are counted before it learns."""
        return self.idf is not None or self.ratios is not None

    def count(self, texts: Iterable[tuple[list[Int[Tensor, " _"]], Tensor]]) -> None:
        """Take from the training texts what n-grams are worth: `idf`, or log-count ratios.

        Args:
            texts: of batches the n-grams for each of the tables, as `distinct` gives them, and the
                targets.

        Raises:
            RequestError: log-count ratios of targets that are no classes.
        """
        if not self.counts:
            return
        places, rows, classes = self.weight.shape
        every = 0
        having = torch.zeros(places, rows, dtype=torch.float64)
        of_class = torch.zeros(self.weight.shape if self.ratios is not None else 0).double()
        for keys, target in texts:
            every += len(target)
            each = None if self.ratios is None else _members(target.cpu(), classes)
            for table, key in enumerate(keys):
                text, row = key.cpu() // rows, key.cpu() % rows
                having[table] += row.bincount(minlength=rows)
                if each is not None:
                    of_class[table].index_add_(0, row, each[text])
        if self.idf is not None:
            # of a pair, what both have counts for each of the two texts
            texts_with = having[0] * 2 + having[1:].sum(0) if places > 1 else having[0]
            of = every * 2 if places > 1 else every
            self.idf.copy_(1 + ((1 + of) / (1 + texts_with)).log())
        if self.ratios is not None:
            self.ratios.copy_(_log_count_ratios(having, of_class))

    def distinct(
        self,
        ids: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"],
        sentences: int = 1,
    ) -> Int[Tensor, " kept"]:
        """The n-grams of each text, each once and in order: text * rows + row.

        Args:
            sentences: the number of rows of ids that make up one text; n-grams stay within rows.
        """
        batch, time = ids.shape
        starts = torch.arange(batch, device=ids.device)[:, None] // sentences * self.rows
        places = torch.arange(time, device=ids.device)
        found = []
        for more, row in enumerate(self.rows_of(ids)):
            inside = places[: time - more] < lengths[:, None] - more
            found.append((starts + row)[inside])
        keys: Tensor = torch.cat(found).unique()
        return keys

    def rows_of(self, ids: Int[Tensor, "batch time"]) -> Iterator[Int[Tensor, "batch places"]]:
        """The row of the n-gram that begins at each place, for n = 1, 2, …."""
        yield ids
        mixed = ids
        for n in range(2, min(self.ngrams, ids.shape[1]) + 1):
            mixed = mixed[:, :-1] * _MIX + ids[:, n - 1 :]  # wraps around
            yield self.vocab_size + (mixed ^ (mixed >> 31)).remainder(self.buckets)

    def forward(self, batch: int, *keys: Int[Tensor, " _"]) -> Float[Tensor, "batch classes"]:
        """Sum the rows of each text; `keys` are n-grams for each of the tables."""
        wide = torch.promote_types(self.weight.dtype, torch.float32)  # of thousands of rows
        total = self.weight.new_zeros(batch, self.weight.shape[-1], dtype=wide)
        squares = total.new_zeros(batch, 1 if self.ratios is None else total.shape[1])
        for at, (table, key) in enumerate(zip(self.weight, keys, strict=True)):
            text, row = key // self.rows, key % self.rows
            each = self.worth(row, at).to(wide)
            squares = squares.index_add(0, text, each * each)
            kept = dropout(each.new_ones(len(key), 1), self.dropout, self.training)
            total = total.index_add(0, text, table[row].to(wide) * (each * kept))
        if self.ratios is None:
            squares = squares.clamp_min(1)
        mean: Tensor = total / squares.sqrt().clamp_min(LEAST)
        return mean.to(self.weight.dtype)

    def worth(
        self, row: Int[Tensor, " kept"], table: int = 0
    ) -> Float[Tensor, "kept 1"] | Float[Tensor, "kept classes"]:
        """What multiplies the weights of n-grams: 1, their idf, or a ratio for each class."""
        if self.ratios is not None:
            return self.ratios[table, row]
        each = self.weight.new_ones(len(row)) if self.idf is None else self.idf[row]
        return each[:, None]

    def extra_repr(self) -> str:
        """Say the sizes."""
        weighting = "none" if self.idf is None else "idf"
        weighting = weighting if self.ratios is None else "nb"
        return f"ngrams={self.ngrams}, rows={self.rows}, weighting={weighting!r}"


def _members(target: Tensor, classes: int) -> Tensor:
    """Which classes each text is of (texts, classes), from labels or from sets of labels."""
    if target.dim() == 2 and target.shape[1] == classes:
        return target.double()
    if target.dim() != 1 or target.is_floating_point() or bool((target >= classes).any()):
        raise RequestError(
            "weighting: 'nb' compares classes, and this task has none: leave it out, or take 'idf'"
        )
    found = torch.zeros(len(target), classes, dtype=torch.float64)
    known = target >= 0
    found[known] = nn.functional.one_hot(target[known], classes).double()
    return found


def _log_count_ratios(having: Tensor, of_class: Tensor) -> Tensor:
    """Ratios (tables, rows, classes) of texts with each row, and those of them of each class.

    A row that no training text has counts 0.
    """
    seen = (having > 0)[..., None]
    inside, outside = (1 + of_class) * seen, (1 + having[..., None] - of_class) * seen
    shares = [side / side.sum(1, keepdim=True).clamp_min(1) for side in (inside, outside)]
    ratios: Tensor = (shares[0] / shares[1]).log()
    return ratios.masked_fill(~seen, 0.0)


class BagOfNgrams(nn.Module):
    """A linear classifier of the words and n-grams of a text.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        ngrams: N, the longest n-gram; 1: words alone.
        buckets: rows that all n-grams of two words and more share.
        dropout: of n-grams in training.
        weighting: "none"; "idf": n-grams of few training texts count more; "nb": those count more
            that texts of a class have more, or less, often than others.
        bias_rate: b learns at this multiple of the learning rate. N-grams of a text share a vector
            of length 1 and take large steps of SGD, which b does not.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        ngrams: int = 2,
        buckets: int = 1 << 18,
        dropout: float = 0.0,
        weighting: str = "none",
        bias_rate: float = 1.0,
    ) -> None:
        super().__init__()
        self.vocab_size, self.num_classes = vocab_size, num_classes
        self.rates = {} if bias_rate == 1.0 else {"bias": bias_rate}
        self.bags = _Bags(
            vocab_size,
            num_classes,
            ngrams=ngrams,
            buckets=buckets,
            places=1,
            dropout=dropout,
            weighting=weighting,
        )
        self.bias = nn.Parameter(torch.zeros(num_classes))

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Logits (B, num_classes) of texts (B, T), or of `Inputs` with those.

        Documents, ids (B, S, W) with the words of each sentence in `extras["words"]`, are texts
        whose n-grams stay within sentences.
        """
        return Output(self.bias + self.bags(*self._grams(source, lengths)), {})

    def _grams(
        self, source: Tensor | Inputs, lengths: Tensor | None = None
    ) -> tuple[int, Int[Tensor, " kept"]]:
        """(how many texts, their distinct n-grams)."""
        if isinstance(source, Inputs) and source.values.dim() == 3:
            batch, each, _ = source.values.shape
            ids, lengths = source.values.flatten(0, 1), source.extras["words"].flatten()
        else:
            ids, lengths = words_of(source, lengths)
            batch, each = len(ids), 1
        return batch, self.bags.distinct(ids, lengths, each)

    def count(self, batches: Iterable[tuple[Sequence[Inputs], Tensor]]) -> None:
        """See `protocols.Counting`."""
        self.bags.count(([self._grams(source)[1]], target) for (source,), target in batches)

    def parts(
        self, ids: Int[Tensor, "sentences time"], lengths: Int[Tensor, " sentences"]
    ) -> list[tuple[int, int, int, Float[Tensor, " classes"]]]:
        """What each n-gram adds to the logits of one text, the bias apart.

        Returns:
            (sentence, place, n, |G|^(-1/2) w_g, with its weighting) of each distinct n-gram, where
            it is first. Those that share a row count once, with the first of them.
        """
        found: dict[int, tuple[int, int, int]] = {}
        for more, rows in enumerate(self.bags.rows_of(ids)):
            for sentence, (own, size) in enumerate(
                zip(rows.tolist(), lengths.tolist(), strict=True)
            ):
                for place, row in enumerate(own[: max(size - more, 0)]):
                    found.setdefault(row, (sentence, place, more + 1))
        rows = torch.tensor(list(found), dtype=torch.int64, device=ids.device)
        each = self.bags.worth(rows)
        size = (each * each).sum(0).sqrt().clamp_min(LEAST)
        parts = self.bags.weight[0, rows].detach() * each / size
        return [(*at, part) for at, part in zip(found.values(), parts, strict=True)]


class BagOfNgramsPair(nn.Module):
    """A linear classifier of what two texts share and do not share.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair (`extras["features"]` of the first text).
        ngrams, buckets, dropout, weighting, bias_rate: as in `BagOfNgrams`.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        ngrams: int = 1,
        buckets: int = 1 << 16,
        dropout: float = 0.0,
        weighting: str = "none",
        bias_rate: float = 1.0,
    ) -> None:
        super().__init__()
        self.vocab_size, self.num_classes = vocab_size, num_classes
        self.rates = {} if bias_rate == 1.0 else {"bias": bias_rate}
        self.num_features = num_features
        self.bags = _Bags(
            vocab_size,
            num_classes,
            ngrams=ngrams,
            buckets=buckets,
            places=3,
            dropout=dropout,
            weighting=weighting,
        )
        self.bias = nn.Parameter(torch.zeros(num_classes))
        self.features = None
        if num_features:
            self.features = nn.Linear(num_features, num_classes, bias=False)

    def forward(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Output:
        """Logits (B, num_classes) of pairs of texts (B, T) and (B, U)."""
        found = self.bias + self.bags(*self._grams(first, second, lengths, second_lengths))
        for given in features_of(first, self.num_features, found):
            assert self.features is not None
            found = found + self.features(given)
        return Output(found, {})

    def _grams(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> tuple[int, Int[Tensor, " both"], Int[Tensor, " first"], Int[Tensor, " second"]]:
        """(how many pairs, n-grams that both texts have, those of one alone, of the other)."""
        ids, lengths = words_of(first, lengths)
        one = self.bags.distinct(ids, lengths)
        two = self.bags.distinct(*words_of(second, second_lengths))
        both = torch.isin(one, two)
        return len(ids), one[both], one[~both], two[~torch.isin(two, one)]

    def count(self, batches: Iterable[tuple[Sequence[Inputs], Tensor]]) -> None:
        """See `protocols.Counting`: both texts of a pair are counted."""
        self.bags.count((list(self._grams(one, two)[1:]), target) for (one, two), target in batches)
