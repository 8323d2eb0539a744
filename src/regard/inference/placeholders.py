"""Outputs in which placeholders and tags of the inputs are as they were, each once.

Placeholders become stand-ins, short words as `%1`. The model is asked three times at most: as it
is; where a stand-in is not there once, with what is missing as words that the output must have
(`decode.rules.forced_words`); and where that fails, what is missing is put where attention says
that the word behind it is. Tags are cut out, and put around the words that attention says come
from theirs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regard.data.text.markup import Kept, Stand, cut_out, finder, gap, put_in, rendered
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.inference.alignment import align
from regard.protocols import UNK
from regard.tasks.prediction import Prediction

__all__ = ["keeping", "signs"]

SIGNS = ("%{}", "#{}", "X{}", "{}")
"""Stand-ins with a number, the best first: of those that a model can write the first is taken."""
NUMBERS = 97
"""What the first stand-in of the last kind is: a bare number should be rare in texts."""

Predict = Callable[..., list[Prediction]]


def signs(tokenizers: Mapping[str, Tokenizer]) -> Callable[[int], str]:
    """What makes stand-ins that both vocabularies can write: of a number, from 1.

    Raises:
        RequestError: the task reads or writes no text in words, or none can be written.
    """
    both = [tokenizers.get(side) for side in ("source", "target")]
    if None in both or any(one.kind == "characters" for one in both if one):
        raise RequestError("keep: it is for models that read and write texts in words")
    for pattern in SIGNS:
        first = 1 if pattern != "{}" else NUMBERS

        def sign(number: int, pattern: str = pattern, first: int = first) -> str:
            return pattern.format(number + first - 1)

        if all(_writes(one, sign(n)) for one in both if one for n in range(1, 4)):
            return sign
    raise RequestError(
        f"keep: the model's vocabulary has none of the stand-ins {', '.join(SIGNS)}; expected "
        "one that can write numbers"
    )


def _writes(tokenizer: Tokenizer, word: str) -> bool:
    ids = tokenizer.encode(word).ids
    return UNK not in ids and tokenizer.decode(ids) == word


def keeping(
    loaded: Any, texts: Sequence[str], keep: Sequence[str], predict: Predict, **asked: Any
) -> list[Prediction]:
    """Predict texts in which some things stay as they are.

    Tokens and scores of the predictions are those of the model, with stand-ins.

    Args:
        loaded: the model.
        keep: what stays: see `kept.finder`.
        predict: gives the predictions of texts; takes `force_words` and what is in `asked`.
        asked: `prefix`, `force_words`, `bad_words`, one for each text.

    Raises:
        RequestError: the model reads or writes no text in words.
    """
    find, sign = finder(keep), signs(loaded.tokenizers)
    every = [cut_out(text, find, sign) for text in texts]
    found = predict([one.text for one in every], **asked)
    wrong = [i for i, one in enumerate(every) if not _good(found[i], one.stands)]
    if wrong:
        forced = asked.get("force_words") or [()] * len(texts)
        words = [[*forced[i], *(one.sign for one in every[i].stands)] for i in wrong]
        own = {name: [value[i] for i in wrong] for name, value in asked.items()}
        again = _forced(predict, [every[i].text for i in wrong], own | {"force_words": words})
        for i, better in zip(wrong, again, strict=True):
            if not better.refused:
                found[i] = better
    lost = [
        i
        for i, one in enumerate(every)
        if one.spans or any(not stand.times(found[i].output) for stand in one.stands)
    ]
    tags = any(one.spans for one in every)
    links_of = _linked(loaded, [found[i] for i in lost], tags=tags)
    linked = dict(zip(lost, links_of, strict=True))
    made = []
    for i, (text, kept, best) in enumerate(zip(texts, every, found, strict=True)):
        hypotheses = [best, *best.alternatives]
        links = linked.get(i, [[]] * len(hypotheses))
        whole = [
            replace(one, input=text, output=_put_back(one, kept, own), alternatives=[])
            for one, own in zip(hypotheses, links, strict=True)
        ]
        whole[0].alternatives.extend(whole[1:])
        made.append(whole[0])
    return made


def _good(found: Prediction, stands: Sequence[Stand]) -> bool:
    return all(one.times(found.output) == 1 for one in stands)


def _forced(predict: Predict, texts: Sequence[str], asked: Mapping[str, Any]) -> list[Prediction]:
    """With words that outputs must have; refused where the decoder knows none, as greedy search."""
    try:
        return predict(texts, **asked)
    except RequestError as error:
        return [Prediction(text, "", refused=str(error)) for text in texts]


def _linked(
    loaded: Any, found: Sequence[Prediction], *, tags: bool
) -> Iterator[list[Sequence[Any]]]:
    """The links of each prediction and of its alternatives; none where nothing is attended to."""
    if not found:
        return
    try:
        aligned = align(loaded.model, found, loaded.tokenizers)
    except RequestError as error:
        if tags:
            raise RequestError(f"keep: tags are placed by attention: {error}") from None
        aligned = list(found)
    for one in aligned:
        yield [other.alignment or () for other in (one, *one.alternatives)]


def _put_back(found: Prediction, kept: Kept, links: Sequence[tuple[int, int]]) -> str:
    """An output with placeholders and tags."""
    if found.refused or not (kept.stands or kept.spans):
        return found.output
    words = found.output.split()
    of: list[int | None] = [None] * len(words)
    for i, j in links:
        if j < len(words):
            of[j] = i
    places, text = kept.words, kept.text
    for stand in kept.stands:
        at = stand.pattern.search(text)
        assert at is not None
        source = next(i for i, (_, end) in enumerate(places) if end > at.start())
        there = [j for j, word in enumerate(words) if stand.times(word)]
        for j in there[:1]:
            of[j] = source
        if not there:
            j = gap(places[source][1], places, of)
            words.insert(j, stand.sign)
            of.insert(j, source)
        for j in reversed(there[1:]):  # it is there again
            rest = stand.pattern.sub("", words[j])
            if rest:
                words[j] = rest
            else:
                del words[j], of[j]
    output = rendered(" ".join(words), kept, of) if kept.spans else " ".join(words)
    return put_in(output, kept.stands)
