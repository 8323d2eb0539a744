"""Pages for the tests of the viewer."""

from tests.viewer.browser import page

__all__ = ["page"]
