"""Two marked places of a sentence: "The <e1>fire</e1> came from <e2>a spark</e2>"."""

import re

from regard.data.text.cells import Bad

__all__ = ["MARK", "check_marks"]

_MARKS = ("<e1>", "</e1>", "<e2>", "</e2>")
"""What stands before and behind each place; the tokenizer `wordpunct` keeps each as one token."""
MARK = re.compile(r"</?e[12]>")
_ORDERS = (_MARKS, (*_MARKS[2:], *_MARKS[:2]))


def check_marks(text: str) -> None:
    """Check that a text marks two places, one after the other, with something in each.

    Raises:
        Bad: it does not.
    """
    marks = tuple(MARK.findall(text))
    if marks not in _ORDERS:
        raise Bad(
            "not two marked places",
            "expected <e1>one</e1> and <e2>another</e2>, got "
            + (" ".join(marks) if marks else "no mark"),
        )
    for left, right in (_MARKS[:2], _MARKS[2:]):
        if not text[text.index(left) + len(left) : text.index(right)].strip():
            raise Bad("a marked place is empty", f"{left}{right}")
