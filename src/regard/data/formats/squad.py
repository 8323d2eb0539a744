"""SQuAD's JSON (version 1.1 or 2.0): paragraphs with questions whose answers are pieces of them.

Columns: `id`, `title`, `document`, `query`, `answer` (the first), `answers` (all, a JSON list of
texts) and `starts` (where each begins in the document, a JSON list; -1 for one that is no piece of
it). Source: Rajpurkar et al. (2016).
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.data.files.records import whole_json
from regard.data.files.row import Column, Row
from regard.data.formats.base import check_columns, one_file
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["COLUMNS", "answer_start", "read"]

COLUMNS = ("id", "title", "document", "query", "answer", "answers", "starts")


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read questions; `header` has no meaning here. A row's line is the question's number.

    A broken question is reported by its number and left out; so is one without an answer.

    Raises:
        RequestError: not JSON (with the line), not SQuAD, or an unknown column.
    """
    path = one_file(path, "a SQuAD file is one file")
    check_columns("SQuAD files", columns, COLUMNS)
    file, number = str(path), 0
    for title, context, asked in _questions(file, whole_json(path)):
        number += 1
        fields, why = _fields(title, context, asked)
        if why:
            problems.add(f"{file}:question", number, "broken question", why)
            continue
        yield Row({field: fields[str(column)] for field, column in columns.items()}, file, number)
    problems.report(f"{file}:question")


def _questions(file: str, found: Any) -> Iterator[tuple[str, Any, Any]]:
    """Title, paragraph's text and question of each."""
    try:
        for article in found["data"]:
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    yield str(article.get("title", "")), paragraph["context"], asked
    except (KeyError, TypeError, AttributeError) as error:
        raise RequestError(
            f"{file} is not SQuAD: expected data[].paragraphs[] with context and qas[]; "
            f"what is missing or of another kind: {error}"
        ) from None


def _fields(title: str, context: Any, asked: Any) -> tuple[dict[str, str], str]:
    """(The fields, what is wrong with them)."""
    if not isinstance(asked, dict) or not isinstance(asked.get("question"), str):
        return {}, "no text at 'question'"
    name = str(asked.get("id", ""))
    answers = asked.get("answers")
    given = [a for a in answers if isinstance(a, dict)] if isinstance(answers, list) else []
    own = [a for a in given if isinstance(a.get("text"), str) and a["text"].strip()]
    texts = [a["text"].strip() for a in own]
    if not isinstance(context, str) or not context.strip():
        return {}, f"{name}: an empty context"
    if not texts:
        return {}, f"{name}: no answer"
    places = [answer_start(context, a["text"], a.get("answer_start")) for a in own]
    return {
        "id": name,
        "title": title,
        "document": context,
        "query": asked["question"],
        "answer": texts[0],
        "answers": json.dumps(texts, ensure_ascii=False),
        "starts": json.dumps(places),
    }, ""


def answer_start(text: str, answer: str, told: object = None) -> int:
    """Where an answer, without blanks at its ends, begins in a text; -1 where it is no piece of it.

    Args:
        told: where a file says that it begins. Tools that count in UTF-16 count two for an emoji.
            Where neither is right, the whole word or words nearest to it are taken; where no whole
            word is, the nearest piece.

    Example:
        >>> answer_start("concatenate a cat", "cat"), answer_start("a cat, a cat", " cat", 9)
        (14, 9)
    """
    body, near = answer.strip(), told if isinstance(told, int) and told >= 0 else -1
    behind = len(answer) - len(answer.lstrip())
    for at in (near, _from_utf16(text, near)):
        if at >= 0 and text.startswith(answer, at):
            return at + behind
        if at >= 0 and text.startswith(body, at):
            return at
    places = [found.start() for found in re.finditer(f"(?={re.escape(body)})", text)]
    whole = [p for p in places if _is_whole(text, p, p + len(body))]
    return min(whole or places, key=lambda place: abs(place - max(near, 0)), default=-1)


def _from_utf16(text: str, place: int) -> int:
    """The place in characters of one that was counted in units of UTF-16; -1: it is the same."""
    if place < 0 or not any(letter > "\uffff" for letter in text[:place]):
        return -1
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * place].decode("utf-16-le", "ignore"))


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no letter or digit stands before or behind a piece that begins and ends with one."""
    left = start > 0 and text[start].isalnum() and text[start - 1].isalnum()
    right = end < len(text) and text[end - 1].isalnum() and text[end].isalnum()
    return not (left or right)
