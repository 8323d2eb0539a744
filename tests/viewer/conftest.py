"""One browser for all tests of the viewer."""

from tests.viewer.browser import chromium, page

__all__ = ["chromium", "page"]
