r"""MemN2N. Sukhbaatar et al., "End-To-End Memory Networks", NIPS 2015, arXiv 1503.08895.

    m_i     = Σ_j l_j ∘ A x_ij + T_A(i)                   facts as keys            (section 4.1)
    c_i     = Σ_j l_j ∘ C x_ij + T_C(i)                   facts as values
    u^1     = Σ_j l_j ∘ B q_j                             the question
    p^k     = softmax_i(u^k · m^k_i)                      hop k                    (1)
    u^{k+1} = f(u^k + Σ_i p^k_i c^k_i)                    f = identity             (2, 4)
    â       = softmax(W u^{K+1})                                                   (3)

    adjacent:   A^{k+1} = C^k, B = A^1, W^T = C^K         K + 1 tables of words, K + 1 of times
    layer-wise: A^k = A, C^k = C, u^{k+1} = f(H u^k + o^k)

The time i of a fact is counted backwards from the question: the latest fact is the first. Random
noise shifts the times of the facts, in training alone. Linear start trains without the softmaxes of
the hops at first (`linear_start`; in a recipe `train.linear_start`, in epochs).

Shapes: facts (B, S) of words (B, S, W), question (B, Q); logits (B, answers).

**Departs from the paper**: the null word's vector, and with it those of the other special tokens,
is zero throughout, as in the authors' code; a word never seen in training thus says nothing. Times
have tables of their own (in the code they are words, and rows of W that are never the answer).
Facts older than the oldest time share its vector. In the layer-wise form B and W stand alone. The
nonlinearity f (the paper's RN* runs) and the bits of `match` (Bordes and Weston 2017, section 4.2,
without their types of entities) are off unless asked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, Dot, Identity, Lengths, Softmax
from regard.errors import RequestError, nearest
from regard.layers.pool import real
from regard.layers.sentence_bags import ENCODINGS, Sentences
from regard.protocols import PAD, UNK, Output

__all__ = ["Match", "MemN2N", "shifted_times"]


@dataclass(frozen=True)
class Wiring:
    """Which table of words each hop's keys and values are made with.

    Args:
        keys, values: the table of each hop.
        question: that of the question (B).
        tied: the last one, transposed, is W, and hops follow each other without H.
    """

    keys: list[int]
    values: list[int]
    question: int
    tied: bool


def adjacent(hops: int) -> Wiring:
    """The values of a hop are the keys of the next."""
    return Wiring(list(range(hops)), list(range(1, hops + 1)), 0, True)


def layer_wise(hops: int) -> Wiring:
    """All hops are alike, as the steps of a recurrent network are."""
    return Wiring([0] * hops, [1] * hops, 2, False)


TYINGS: Mapping[str, Callable[[int], Wiring]] = {"adjacent": adjacent, "layer-wise": layer_wise}
"""What a model may name as `tying`."""

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {"linear": nn.Identity(), "relu": F.relu}
"""What a hop's sum may go through: f."""


class Match(nn.Module):
    r"""Match features: what an answer gains for being named in the facts, or in the question.

    .. math:: s_a = u^\top (W_a + m^{facts}_a\, \phi_1 + m^{question}_a\, \phi_2),\quad m = 0, 1

    Args:
        dim: d.
        scale: standard deviation of the first weights.

    Shapes:
        state (B, d), facts and question (B, n) ids to (B, answers)

    Source: Bordes, Boureau and Weston (2017), "Learning End-to-End Goal-Oriented Dialog".
    """

    def __init__(self, dim: int, scale: float = 0.1) -> None:
        super().__init__()
        self.features = nn.Parameter(torch.randn(2, dim) * scale)

    def forward(
        self,
        state: Float[Tensor, "batch dim"],
        facts: Int[Tensor, "batch f"],
        question: Int[Tensor, "batch q"],
        answers: int,
    ) -> Float[Tensor, "batch answers"]:
        """What to add to the scores."""
        gains = F.linear(state, self.features)  # (B, 2)
        total = state.new_zeros(len(state), answers)
        for gain, ids in zip(gains.unbind(1), (facts, question), strict=True):
            named = state.new_zeros(len(state), answers).scatter_(1, ids, 1.0)
            named[:, : UNK + 1] = 0.0
            total = total + named * gain[:, None]
        return total


class MemN2N(nn.Module):
    """Answers a question by looking at the facts of a story, several times over.

    Args:
        vocab_size: words.
        num_answers: words that may be answers; `vocab_size` where tables are tied.
        dim: d.
        hops: K, how often the facts are looked at.
        tying: which tables are one: `adjacent` or `layer-wise`.
        encoding: how words make a sentence: `bag-of-words`, `position` (as printed) or
            `position-released` (as in the authors' code).
        longest: J of `position-released`.
        memory: how many times are told apart.
        noise: random noise: up to this many blanks a fact are strewn among the times in training.
        activation: f after each hop: `linear`, or `relu` (RN*).
        match: give answers that are named in the facts or the question vectors of their own.
        scale: standard deviation of the first weights.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_answers: int,
        *,
        dim: int = 50,
        hops: int = 3,
        tying: str = "adjacent",
        encoding: str = "position",
        longest: int = 11,
        memory: int = 50,
        noise: float = 0.1,
        activation: str = "linear",
        match: bool = False,
        scale: float = 0.1,
    ) -> None:
        super().__init__()
        for what, name, table in (
            ("encoding", encoding, ENCODINGS),
            ("activation", activation, ACTIVATIONS),
            ("tying", tying, TYINGS),
        ):
            if name not in table:
                raise RequestError(f"MemN2N has no {what} {name!r}: {nearest(name, table)}")
        if hops < 1 or memory < 1:
            raise RequestError(f"MemN2N needs a hop and a memory, got {hops} and {memory}")
        if tying == "adjacent" and vocab_size != num_answers:
            raise RequestError(
                f"MemN2N ties words and answers (tying: adjacent), so both need one vocabulary, "
                f"got {vocab_size} words and {num_answers} answers; "
                "data.tokenizer.shared, or layer-wise"
            )
        if match and vocab_size != num_answers:
            raise RequestError(
                f"MemN2N with match needs one vocabulary of words and answers, got {vocab_size} "
                f"and {num_answers}"
            )
        self.vocab_size, self.num_answers, self.dim = vocab_size, num_answers, dim
        self.encoding, self.longest, self.noise, self.activation = (
            encoding,
            longest,
            noise,
            activation,
        )
        self.wiring = TYINGS[tying](hops)
        times = 1 + max(self.wiring.values)
        tables = max(times, 1 + self.wiring.question)
        self.words = nn.Parameter(torch.randn(vocab_size, tables * dim) * scale)
        self.times = nn.Parameter(torch.randn(memory, times * dim) * scale)
        self.hops = nn.ModuleList(Attention(score=Dot(), role="hop") for _ in range(hops))
        own = not self.wiring.tied
        self.between = nn.Linear(dim, dim, bias=False) if own else None
        self.out = nn.Linear(dim, num_answers, bias=False) if own else None
        for layer in (self.between, self.out):
            if layer is not None:
                nn.init.normal_(layer.weight, std=scale)
        self.match = Match(dim, scale) if match else None

    def linear_start(self, on: bool) -> None:
        """Take the softmaxes out of the hops, or put them back; the final one stays."""
        for hop in self.hops:
            cast(Attention, hop).select = Identity() if on else Softmax()

    def forward(
        self,
        document: Sentences | Int[Tensor, "batch fact word"],
        query: Int[Tensor, "batch q"],
        lengths: Int[Tensor, " batch"] | None = None,
        query_lengths: Int[Tensor, " batch"] | None = None,
    ) -> Output:
        """Score every answer.

        Args:
            document: the facts of each story from the first to the last, right-padded.
            query: the questions.
            lengths: facts of each story; those up to the last that has words where not given.
            query_lengths: words of each question.

        Shapes:
            logits (B, answers)
        """
        story = document if isinstance(document, Sentences) else Sentences.of(document)
        if lengths is None:
            lengths = _ends(story.places != 0)
        if query_lengths is not None:
            query = _cut(query, query_lengths)
        # The special tokens are zero, and get no gradient.
        words = torch.cat(
            [self.words.new_zeros(UNK + 1, self.words.shape[1]), self.words[UNK + 1 :]]
        )
        facts = F.embedding(story.places, self._encode(story.words, words))  # (B, S, tables * d)
        of_times = self.times[self._times(lengths, story.places.shape[1])]  # (B, S, times * d)
        n = of_times.shape[-1]
        memories = (facts[..., :n] + of_times).split(self.dim, -1)
        at = slice(self.wiring.question * self.dim, (self.wiring.question + 1) * self.dim)
        state = self._encode(query, words[:, at])
        mask, activate = Lengths(lengths), ACTIVATIONS[self.activation]
        for hop, k, v in zip(self.hops, self.wiring.keys, self.wiring.values, strict=True):
            read = hop(state[:, None], memories[k], memories[v], mask=mask).context[:, 0]
            state = activate((state if self.between is None else self.between(state)) + read)
        logits = F.linear(state, words[:, -self.dim :]) if self.out is None else self.out(state)
        if self.match is not None:
            named = story.words[story.places].flatten(1)
            logits = logits + self.match(state, named, query, self.num_answers)
        return Output(logits, {})

    def _encode(self, sentences: Tensor, table: Tensor) -> Tensor:
        """Σ_j l_j ∘ A x_j for all tables at once: (n, W) to (n, tables * d)."""
        vectors = F.embedding(sentences, table)
        vectors = vectors.view(*sentences.shape, -1, self.dim)  # (n, W, tables, d)
        weights = ENCODINGS[self.encoding](sentences, self.dim, self.longest, table.dtype)
        return (vectors * weights.unsqueeze(-2)).sum(-3).flatten(-2)

    def _times(self, lengths: Tensor, count: int) -> Tensor:
        """The time of each fact, the last one's 0: (B, S)."""
        if self.training and self.noise:
            times = shifted_times(lengths, count, self.noise)
        else:
            times = lengths[:, None] - 1 - torch.arange(count, device=lengths.device)
        return times.clamp(0, len(self.times) - 1)

    def extra_repr(self) -> str:
        """Say what has no parameters."""
        return f"encoding={self.encoding}, activation={self.activation}, noise={self.noise}"


def shifted_times(
    lengths: Int[Tensor, " batch"], count: int, noise: float
) -> Int[Tensor, "batch count"]:
    """Random noise: times of n facts, backwards from the question, with blanks strewn among them.

    Each story gets 0 to ⌈noise n⌉ blanks, as likely as each other, at random places.

    Shapes:
        lengths (B,) to times (B, count); those behind a story's end mean nothing

    Source: section 4.1; how many and where as in the authors' code.
    """
    n = lengths[:, None]
    most = torch.ceil(noise * n)
    blanks = (torch.rand(n.shape, device=n.device) * (most + 1)).long()
    wide = count + int(most.max()) if len(n) else count
    place = torch.arange(wide, device=n.device)
    order = torch.rand(len(n), wide, device=n.device).masked_fill_(place >= n + blanks, 2.0)
    taken = order.argsort(1).argsort(1) < n  # n of the n + blanks times, all sets as likely
    times = torch.where(taken, place, wide).sort(1).values[:, :count]  # from the latest back
    back = (n - 1 - torch.arange(count, device=n.device)).clamp(min=0)
    return times.gather(1, back)


def _ends(there: Tensor) -> Tensor:
    """How many places there are up to the last that is true: (B, S) to (B,)."""
    places = torch.arange(1, there.shape[1] + 1, device=there.device)
    return (
        (places * there).amax(1)
        if there.shape[1]
        else there.new_zeros(len(there), dtype=torch.long)
    )


def _cut(rows: Tensor, lengths: Tensor) -> Tensor:
    """Rows with padding behind their lengths."""
    return rows.masked_fill(~real(lengths, rows), PAD)
