"""Folders of one recipe trained with several seeds."""

from pathlib import Path

__all__ = ["model_folders", "seed_folders"]


def model_folders(target: str) -> list[Path]:
    """The model folders that a target names; none if it is a recipe.

    It is one itself (or the name of a shipped one), or has those of several seeds: `seed-1`, ...
    """
    from regard.folder import places

    if target in places.shipped() or (Path(target) / "config.json").is_file():
        return [Path(target)]
    return seed_folders(Path(target), "config.json")


def seed_folders(folder: Path, file: str) -> list[Path]:
    """The folders of seeds in it that have this file, in the seeds' order."""
    seeds = [one for one in folder.glob("seed-*") if (one / file).is_file()]
    return sorted(seeds, key=lambda one: (len(one.name), one.name))
