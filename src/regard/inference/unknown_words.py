"""Unknown words of an output, replaced by words of its source."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from regard.data.files.lines import lines as read_lines
from regard.data.problems import Problems
from regard.data.text.normal_form import composed
from regard.data.text.segmenters import has_no_blanks
from regard.data.text.tokenizer import Tokenizer, word_groups
from regard.errors import RequestError
from regard.inference.alignment import _open
from regard.inference.alignment import align as align_words
from regard.protocols import UNK
from regard.tasks.loaded_model import LoadedModel
from regard.tasks.prediction import Prediction

__all__ = ["changing", "read_lexicon", "replace_unknown"]


def changing(
    loaded: LoadedModel,
    unknown: bool,
    lexicon: str | None,
    attention: str | None,
    head: int | None,
    align: bool,
) -> Callable[[list[Prediction]], list[Prediction]]:
    """What is done to predictions for the sake of their words.

    Raises:
        RequestError: settings of an alignment that nobody wants, or that the task cannot have.
    """
    if not (align or unknown):
        if attention is not None or head is not None:
            raise RequestError("--attention and --head say what aligns: expected with --align")
        return lambda found: found
    if not loaded.task.options:
        raise RequestError(f"--align: the task {loaded.task.name} writes no text to align")
    known = read_lexicon(lexicon) if lexicon is not None else {}

    def change(found: list[Prediction]) -> list[Prediction]:
        found = align_words(loaded.model, found, loaded.tokenizers, attention=attention, head=head)
        if unknown:
            found = replace_unknown(found, loaded.tokenizers, known)
        return found

    return change


def replace_unknown(
    predictions: Sequence[Prediction],
    tokenizers: Mapping[str, Tokenizer],
    lexicon: Mapping[str, str] | None = None,
) -> list[Prediction]:
    """Put what each unknown output word is aligned to in its place, as the lexicon has it or as is.

    Args:
        predictions: aligned ones (`align`).
        tokenizers: for `source` and `target`.
        lexicon: what source words become; others are copied.

    Source: Luong et al. (2015), "Addressing the rare word problem"; Jean et al. (2015).
    """
    spelled = tokenizers["target"].spelled()

    def spoken(one: Prediction) -> Prediction:
        if UNK not in one.ids or one.alignment is None:
            return one
        units = tokenizers["source"].units(one.input)
        links: defaultdict[int, list[int]] = defaultdict(list)
        for i, j in one.alignment:
            links[j].append(i)
        text, ids = "", _open(one.ids)
        words = tokenizers["target"].words(ids)
        for group in word_groups(words):
            own = [ids[place] for place in group]
            if UNK in own and (there := links.get(words[group[0]])):
                word = one.input[units[min(there)][0] : units[max(there)][1]]
                word = (lexicon or {}).get(composed(word), word)
                text += _joint(text, word, tokenizers["target"].kind) + word
            else:
                text += "".join(spelled[i] for i in own)
        return replace(one, output=text.strip(" "))

    return [
        replace(spoken(p), alternatives=[spoken(other) for other in p.alternatives])
        for p in predictions
    ]


def _joint(text: str, word: str, kind: str) -> str:
    """A blank before a word, but next to letters of scripts that have none."""
    none = kind == "characters" or has_no_blanks(word[:1]) or has_no_blanks(text[-1:])
    return "" if none else " "


def read_lexicon(path: str | Path) -> dict[str, str]:
    """Read `source<TAB>target` lines, source words in NFC; the first line of a word holds.

    Raises:
        RequestError: a line without a tab, with its number.
    """
    found: dict[str, str] = {}
    problems = Problems()
    for number, line in read_lines(path, problems):
        word, tab, other = (line or "").partition("\t")
        if not tab and word.strip():
            raise RequestError(
                f"{path}:{number}: expected a word, a tab and what it becomes, got {word[:40]!r}"
            )
        if word.strip():
            found.setdefault(composed(word.strip()), other.strip())
    problems.report(str(path))
    return found
