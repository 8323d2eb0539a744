"""A page within a notebook's cell."""

import html

__all__ = ["framed"]


def framed(page: str) -> str:
    """A page in a frame of its own: scripts run in it, and it sees and asks for nothing outside."""
    inside = html.escape(page, quote=True)
    style = "width:100%;height:640px;border:1px solid #8884;border-radius:6px"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{inside}"></iframe>'
