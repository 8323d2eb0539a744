"""Which version of the package this is, for those who write it into files."""

from regard import __version__

__all__ = ["version"]


def version() -> str:
    """The version, as in `regard --version`."""
    return __version__
