"""Where model folders are: a path, or the name of a model that comes with the package."""

from pathlib import Path

from regard.errors import RequestError, nearest
from regard.folder.config import CONFIG

__all__ = ["SHIPPED", "find", "shipped"]

SHIPPED = Path(__file__).parent.parent / "shipped" / "models"


def find(folder_or_name: str | Path) -> Path:
    """The folder meant: a folder's path, else the name of a shipped model.

    Raises:
        RequestError: there is no such folder or name.
    """
    path = Path(folder_or_name)
    if path.is_dir():
        return path
    if (SHIPPED / str(folder_or_name) / CONFIG).is_file() and str(folder_or_name) in shipped():
        return SHIPPED / str(folder_or_name)
    if path.is_file():
        raise RequestError(f"{path} is a file; expected the folder that holds {CONFIG}")
    raise RequestError(
        f"no model folder {str(folder_or_name)!r} and none of that name comes with regard; "
        + (f"{nearest(str(folder_or_name), shipped())}" if shipped() else "none is shipped")
        + "; `regard train RECIPE -o FOLDER` makes one"
    )


def shipped() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{CONFIG}"))
