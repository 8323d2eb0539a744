"""Pages for the tests of watching."""

from tests.viewer.browser import page, tab

__all__ = ["page", "tab"]
