"""Pages for the tests of the viewer."""

from tests.viewer.browser import page, tab

__all__ = ["page", "tab"]
