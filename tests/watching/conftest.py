"""Pages for the tests of watching."""

from tests.viewer.browser import page

__all__ = ["page"]
