"""Which version of the package this is."""

from importlib import metadata

__all__ = ["version"]


def version() -> str:
    """The installed version, or "source" where the package runs without installation."""
    try:
        return metadata.version("regard")
    except metadata.PackageNotFoundError:
        return "source"
