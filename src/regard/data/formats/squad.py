"""SQuAD's JSON (version 1.1 or 2.0): paragraphs with questions whose answers are pieces of them.

Columns: `id`, `title`, `document`, `query`, `answer` (the first), `answers` (all, a JSON list of
texts) and `starts` (where each begins in the document, a JSON list; -1 for one that is no piece of
it). Source: Rajpurkar et al. (2016).
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.data.files.records import whole_json
from regard.data.files.row import Column, Row
from regard.data.formats.base import check_columns
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["COLUMNS", "read"]

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
    if isinstance(path, Mapping):
        raise RequestError("a SQuAD file is one file; two files are format: moses")
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
    texts = [a["text"] for a in given if isinstance(a.get("text"), str) and a["text"].strip()]
    starts = [a.get("answer_start") for a in given if str(a.get("text") or "").strip()]
    if not isinstance(context, str) or not context.strip():
        return {}, f"{name}: an empty context"
    if not texts:
        return {}, f"{name}: no answer"
    places = [
        s if isinstance(s, int) and s >= 0 and context.startswith(t, s) else -1
        for t, s in zip(texts, starts, strict=True)
    ]
    return {
        "id": name, "title": title, "document": context, "query": asked["question"],
        "answer": texts[0], "answers": json.dumps(texts, ensure_ascii=False),
        "starts": json.dumps(places),
    }, ""  # fmt: skip
