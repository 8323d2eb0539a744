"""Inputs to try a model on: those of its task that it can read."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regard.data.text.cells import BETWEEN
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["as_input", "examples_of", "labels_of"]

SENTENCES = {
    "de": (
        "Das Fenster wird geschlossen.",
        "Klicken Sie auf die Schaltfläche, um die Datei zu speichern.",
        "Am Anfang schuf Gott Himmel und Erde.",
    ),
    "en": ("The window is closed.", "Click the button to save the file.", "Two dogs run outside."),
    "fr": ("La fenêtre est fermée.", "Cliquez sur le bouton pour enregistrer le fichier."),
    "zh": ("请检查文件名。", "无法打开文件。", "我爱你。"),
}
"""Sources of translators by language, as columns of data are named."""

STORM = (
    "A heavy storm hit the north coast on Monday. Thousands of homes lost power and two roads were"
    " closed. The mayor said that schools would stay shut until Wednesday."
)
EXAMPLES: dict[str, Sequence[tuple[str, ...]]] = {
    "classification": (
        ("A wonderful film.\nThe actors are great and the story is moving.",),
        ("The plot makes no sense, and it is far too long.\nThe music is nice, though.",),
    ),
    "entailment": (
        ("A dog runs on the beach.", "An animal is outside."),
        ("A man plays the guitar.", "The man is asleep."),
    ),
    "similarity": (
        ("A man is playing a guitar.", "Somebody plays an instrument."),
        ("A dog runs on the beach.", "The market closed higher today."),
    ),
    "tagging": (
        ("She gave him a book because he asked .",),
        ("The screen is bright but the battery life is short .",),
        ("Ann Lee left Rome on Monday .",),
        ("She gave him a book because he asked .", "1"),
    ),
    "parsing": (("She gave him a book because he asked .",), ("The cat sat on the mat.",)),
    "summarization": ((STORM,),),
    "pronunciation": (("attention",), ("window",)),
    "memory": (
        (
            "Clara moved to the garden. Emil grabbed the key. Emil went to the hall.",
            "Where is the key?",
        ),
        ("Emil is a wolf. Anna is a cat. Cats are afraid of wolves.", "What is Anna afraid of?"),
    ),
    "reading": (
        ("Ann gave Bob her book .", "Bob thanked XXXXX .", "Ann|Bob"),
        ("One day the king lost his crown .", "The XXXXX wept for his crown .", "king|day|crown"),
    ),
    "relations": (("Naloxone reversed the high blood pressure that clonidine had lowered.",),),
    "relation-classification": (
        ("The <e1>fire</e1> was caused by a <e2>lightning strike</e2>.",),
        ("She put the <e1>letter</e1> into the <e2>box</e2>.",),
    ),
    "graphs": (("0",), ("1",)),
}
BETWEEN_OF = {"memory": " "}
"""What stands between the inputs of an example where that is not `|||`."""
LANGUAGES = {
    "ar": "Arabic", "de": "German", "en": "English", "es": "Spanish", "fr": "French",
    "ja": "Japanese", "ru": "Russian", "zh": "Chinese",
}  # fmt: skip
"""By the names that columns of data, and translators, have."""


def as_input(task: str, cells: Sequence[str]) -> str:
    """The inputs of an example as one text, as requests have it."""
    return BETWEEN_OF.get(task, f" {BETWEEN} ").join(cells)


def labels_of(config: Mapping[str, Any], name: str) -> list[str]:
    """What the boxes of a page's inputs are called; none where the names of the inputs do.

    A translator's has its language, where a column of its data names that, or the translator's name
    begins with it, as `de-en-small` does.

    Args:
        config: of its folder.
        name: under which it is served.
    """
    columns = config.get("data", {}).get("columns") or {}
    named = re.match(r"([a-z]{2})-[a-z]{2}\b", name)
    codes = [str(columns.get("source", "")), named[1] if named else ""]
    language = next((LANGUAGES[code] for code in codes if code in LANGUAGES), "")
    return [f"{language} text"] if config["task"]["name"] == "translation" and language else []


def examples_of(loaded: "Loaded", size: Callable[[str], int]) -> list[list[str]]:
    """A few examples that this model can read, each the texts of its inputs.

    Args:
        size: how many tokens a text has.
    """
    task = loaded.task
    if task.reads_files:
        return []
    if task.name == "translation":
        given: Sequence[tuple[str, ...]] = [(text,) for text in _sentences(loaded, size)]
    else:
        given = EXAMPLES.get(task.name, ())
    texts = [as_input(task.name, cells) for cells in given]
    try:
        asked = task.asked(texts, loaded.fields) if texts else None
    except RequestError:  # its data are of another kind
        return []
    answers = [] if asked is None else asked.answers(asked.refused)
    return [[*cells] for cells, one in zip(given, answers, strict=True) if not one.refused]


def _sentences(loaded: "Loaded", size: Callable[[str], int]) -> Sequence[str]:
    """Sentences of the language that a translator reads.

    Where its data do not name that one, it is another than what it writes: Chinese for a tokenizer
    with words of Chinese, else the one whose sentences are cut into the fewest pieces, which is the
    one it has learned.
    """
    columns = loaded.config.get("data", {}).get("columns") or {}
    reads, writes = (str(columns.get(side, "")) for side in ("source", "target"))
    if reads in SENTENCES:
        return SENTENCES[reads]
    segmenter = loaded.tokenizers["source"].segmenter
    if segmenter is not None and "rjieba" in segmenter.libraries:
        return SENTENCES["zh"]

    def pieces(language: str) -> float:
        texts = SENTENCES[language]
        return sum(map(size, texts)) / sum(map(len, texts))

    return SENTENCES[min((one for one in SENTENCES if one not in (writes, "zh")), key=pieces)]
