"""In a notebook: attention followed while a model runs, by a display that is written again."""

import html
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.attention import Record
    from regard.watching.seen_views import Watched

__all__ = ["Following"]

LAYERS, PLACES = 24, 48
"""Rows and columns of the display at most: the last ones."""


class Following:
    """A display of what the newest row of every attention looks at, and of how far the run is.

    It is a streamer of transformers too: `model.generate(ids, streamer=following)` gives it the
    tokens as they are written, and the rows and columns of `seen` their names.

    Args:
        seen: what is being watched.
        tokenizer: of the tokens that a streamer is given; numbers stand for them without one.
        every: seconds between two displays.

    Raises:
        RequestError: IPython is not installed.
    """

    def __init__(self, seen: "Watched", tokenizer: Any = None, every: float = 0.5) -> None:
        try:
            from IPython.display import display
        except ImportError:
            raise RequestError(
                "following needs a notebook, and IPython is not installed; "
                "behind the block seen.page(path) writes a page"
            ) from None
        self._seen, self._tokenizer, self._every = seen, tokenizer, every
        self._ids: list[int] = []
        self._shown, self._calls = 0.0, 0
        show: Any = display
        self._handle: Any = show(_Html(self.html()), display_id=True)

    def met(self, record: "Record") -> None:
        """Shown each step as it is written down."""
        self._calls += 1
        now = time.monotonic()
        if now - self._shown >= self._every:
            self._shown = now
            self.show()

    def show(self) -> None:
        """Write the display again."""
        if self._handle is not None:  # outside of a notebook there is none
            self._handle.update(_Html(self.html()))

    def put(self, value: Any) -> None:
        """Tokens, as `generate` gives them to a streamer: the prompt first, then one by one."""
        if getattr(value, "ndim", 1) > 1:
            if len(value) > 1:
                raise RequestError(f"a streamer follows one sequence, got {len(value)}")
            value = value[0]
        self._ids.extend(int(one) for one in value)

    def end(self) -> None:
        """`generate` has written its last token, which nothing has looked from."""
        if self._tokenizer is not None and len(self._ids) > 1:
            self._seen.label(rows=(self._tokenizer, self._ids[:-1]))
        self.show()

    def names(self, count: int) -> list[str]:
        """Labels of this many places."""
        if self._tokenizer is None or len(self._ids) < count:
            return [str(i + 1) for i in range(count)]
        return [str(one) for one in self._tokenizer.convert_ids_to_tokens(self._ids[:count])]

    def html(self) -> str:
        """What is shown: a line of progress, and a row for each attention of its newest row."""
        records = [r for r in self._seen.values() if r.kept and "edge" not in r.axes]
        steps = max((len(r.kept) for r in records), default=0)
        said = f"{self._calls} calls of {len(records)} attentions, step {steps}"
        if self._ids and self._tokenizer is not None:
            said += f": {self._tokenizer.decode(self._ids)[-160:]}"
        last = records[-1] if records else None
        rows = []
        for record in records[-LAYERS:]:
            step = record.kept[-1]
            if record is last or len(record.kept) == steps:
                rows.append(self._row(record, step))
        return (
            '<div style="font:12px system-ui,sans-serif;overflow-x:auto">'
            f"<p>{html.escape(said)}</p><table>{''.join(rows)}</table></div>"
        )

    def _row(self, record: "Record", step: Any) -> str:
        """The newest row of the first example, the mean of its heads."""
        shape = step.shape
        if hasattr(step, "rows"):
            whole = step.rows(shape[-2] - 1, shape[-2])
        else:
            whole = step if hasattr(step, "dim") else step.dense()
        while whole.dim() > 3:
            whole = whole[0]
        weights = whole[..., -1, :].float().mean(0) if whole.dim() == 3 else whole[-1].float()
        values: Sequence[float] = weights.tolist()
        names = self.names(len(values)) if record.role != "cross" else [""] * len(values)
        top = max((abs(v) for v in values), default=1.0) or 1.0
        cells = "".join(
            f'<td title="{html.escape(name)}: {100 * v:.1f} %" style="padding:1px 3px;'
            f'background:rgba(29,91,168,{0.6 * abs(v) / top:.2f})">{html.escape(name[:10])}</td>'
            for name, v in list(zip(names, values, strict=True))[-PLACES:]
        )
        return f'<tr><th style="text-align:left">{html.escape(record.name)}</th>{cells}</tr>'


class _Html:
    """A piece of HTML, for `display`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "attention, followed"
