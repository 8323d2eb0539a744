"""One file as several splits: `data.split`."""

import hashlib
import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from regard.data import sources
from regard.data.files import registry
from regard.data.files.row import Row, column_of
from regard.data.problems import Silent
from regard.data.text.normal_form import composed
from regard.errors import RequestError, nearest

__all__ = [
    "Divided",
    "Member",
    "Shares",
    "cut_in_order",
    "deal",
    "divided",
    "shared_out",
    "shares_of",
]

log = logging.getLogger(__name__)

KEYS = ("shares", "by", "seed", "rows", "digest")


@dataclass(frozen=True)
class Shares:
    """How a file is divided.

    Args:
        shares: of train, dev and test; of train and dev where there are two.
        by: a column; rows with the same value stay together. "": rows with the same inputs do.
        seed: of the order in which rows are dealt out.
        rows, digest: how many rows the file had in the training, and of what; "" before.
    """

    shares: tuple[float, ...]
    by: str = ""
    seed: int = 1
    rows: int = 0
    digest: str = ""

    @classmethod
    def of(cls, told: Sequence[float] | Mapping[str, Any]) -> "Shares":
        """`data.split`, checked: shares, or a section with them.

        Raises:
            RequestError: shares that do not add up to 1, or an unknown key.
        """
        section = dict(told) if isinstance(told, Mapping) else {"shares": told}
        for key in section:
            if key not in KEYS:
                raise RequestError(f"data.split has no key {key!r}: {nearest(str(key), KEYS)}")
        shares = section.get("shares", ())
        numbers = isinstance(shares, (list, tuple)) and all(
            isinstance(one, (int, float)) and 0 < one < 1 for one in shares
        )
        if not numbers or len(shares) not in (2, 3) or abs(sum(shares) - 1) > 1e-6:
            raise RequestError(
                f"data.split: expected the shares of train, dev and test, which add up to 1, as "
                f"[0.8, 0.1, 0.1]; got {shares!r}"
            )
        by = composed(str(section.get("by") or ""))
        return cls(**{**section, "by": by, "shares": tuple(map(float, shares))})

    @property
    def names(self) -> list[str]:
        """The splits that it makes."""
        return list(sources.SPLITS)[: len(self.shares)]

    def noted(self, found: "Divided") -> dict[str, Any]:
        """`data.split` as a model folder keeps it."""
        told = asdict(self) | {"rows": found.rows, "digest": found.digest}
        return {key: [*value] if key == "shares" else value for key, value in told.items()}

    def check(self, found: "Divided", name: str) -> None:
        """Refuse other data than those of the training.

        Args:
            name: of the files.

        Raises:
            RequestError: their digest is another one.
        """
        if self.digest and self.digest != found.digest:
            raise RequestError(
                f"{name} has other rows than in the training ({found.rows:,} now, "
                f"{self.rows:,} then), so that its splits are others: `regard evaluate --data "
                "FILE` scores a whole file; to train again, take data.split.digest out of the "
                "recipe"
            )


def shares_of(config: Mapping[str, Any]) -> Shares | None:
    """The shares of a `data:` section; None: it names its splits.

    Raises:
        RequestError: the section also names a split that `data.split` makes.
    """
    if config.get("split") is None:
        return None
    found = Shares.of(config["split"])
    for key in ("store", "stream", *found.names[1:]):
        if config.get(key):
            raise RequestError(
                f"data.split divides one file into {', '.join(found.names)}: leave data.{key} or "
                "data.split out"
            )
    return found


class Member(NamedTuple):
    """An example that is dealt out.

    Args:
        place: its line, or its number among all.
        group: examples of one group stay together.
        stratum: each is divided as the whole is.
        content: what tells it from another one, for the digest.
    """

    place: int
    group: str
    stratum: str
    content: str


@dataclass(frozen=True)
class Divided:
    """The rows of a file in splits.

    Args:
        lines: of each split the lines of its rows.
        digest: of all rows.
    """

    lines: Mapping[str, frozenset[int]]
    digest: str

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(map(len, self.lines.values()))


def shared_out(units: Sequence[tuple[str, int]], shares: Sequence[float], seed: int) -> list[int]:
    """The split of each unit of rows, so that every stratum is divided as the whole is.

    Units are dealt out in random order, each to the split that lacks most, of its stratum and in
    all; the first of a stratum goes to the first split.

    Args:
        units: stratum and number of rows of each.

    Example:
        >>> found = shared_out([("a", 1)] * 10 + [("b", 1)] * 10, [0.8, 0.1, 0.1], 1)
        >>> [[found[:10].count(i), found[10:].count(i)] for i in range(3)]
        [[8, 8], [1, 1], [1, 1]]
    """
    draw, found = random.Random(seed), [0] * len(units)
    strata: dict[str, list[int]] = {}
    for place, (stratum, _) in enumerate(units):
        strata.setdefault(stratum, []).append(place)
    over = [0.0] * len(shares)  # rows that each split lacks of the strata before
    for stratum in sorted(strata):
        places = strata[stratum]
        draw.shuffle(places)
        places.sort(key=lambda place: -units[place][1])  # large groups first: small ones even out
        size = sum(units[place][1] for place in places)
        own = [share * size for share in shares]
        for number, place in enumerate(places):
            lacks = [a + b for a, b in zip(own, over, strict=True)]
            best = max(range(len(shares)), key=lambda i: (round(lacks[i], 6), -i))
            found[place] = 0 if number == 0 else best
            own[found[place]] -= units[place][1]
        over = [a + b for a, b in zip(own, over, strict=True)]
    return found


def cut_in_order(sizes: Sequence[int], shares: Sequence[float]) -> list[int]:
    """The split of each unit where units stay in their order: cuts are as near as they can be.

    Args:
        sizes: how many examples each unit has.

    Example:
        >>> cut_in_order([1] * 10, [0.8, 0.1, 0.1]), cut_in_order([5, 5, 2], [0.5, 0.4, 0.1])
        ([0, 0, 0, 0, 0, 0, 0, 0, 1, 2], [0, 1, 2])
    """
    ends, units = [0, *accumulate(sizes)], len(sizes)
    cuts = [0]
    for number, share in enumerate(accumulate(shares[:-1]), 1):
        # Every split has a unit, as long as there are enough.
        places = range(cuts[-1] + 1, max(units - len(shares) + number, cuts[-1] + 1) + 1)
        wanted = share * ends[-1]
        cuts.append(min(places, key=lambda at: (abs(ends[min(at, units)] - wanted), at)))
    return [sum(at >= cut for cut in cuts[1:]) for at in range(units)]


def deal(
    members: Iterable[Member],
    shares: Shares,
    name: str,
    how: str = "at random",
    *,
    in_order: bool = False,
) -> Divided:
    """Divide examples; groups stay together.

    Args:
        members: in their order; of several with one place the first counts.
        name: of the files, for messages.
        how: they are dealt out, for the log.
        in_order: the first are train and the last test, so that what follows each other stays so.

    Raises:
        RequestError: too few groups.
    """
    digest, places, units = hashlib.sha256(), set[int](), list[tuple[str, list[int]]]()
    known: dict[str, int] = {}
    for one in members:
        digest.update(composed(one.content).encode("utf-8", "replace"))
        if one.place in places:  # several rows of one line stay together
            continue
        places.add(one.place)
        group = composed(one.group)
        if group not in known:
            known[group] = len(units)
            units.append((composed(one.stratum), []))
        units[known[group]][1].append(one.place)
    if in_order:
        of = cut_in_order([len(own) for _, own in units], shares.shares)
    else:
        sizes = [(stratum, len(own)) for stratum, own in units]
        of = shared_out(sizes, shares.shares, shares.seed)
    lines = {
        split: frozenset(n for unit, i in zip(units, of, strict=True) if i == at for n in unit[1])
        for at, split in enumerate(shares.names)
    }
    counts = ", ".join(f"{len(own):,} {split}" for split, own in lines.items())
    if not all(lines.values()):
        raise RequestError(
            f"data.split: {name} has too few rows or groups for its shares: {counts}"
        )
    seed = "" if in_order else f", seed {shares.seed}"
    log.info("%s is split: %s rows (%s%s)", name, counts, how, seed)
    return Divided(lines, digest.hexdigest()[:16])


def divided(path: Any, config: Any) -> Divided:
    """The rows of a file by the shares of a `data:` section.

    Args:
        path: the file, or one for each field.
        config: a `section.Config` with `split`.

    Raises:
        RequestError: too few rows, or other rows than in the training.
    """
    several = path if isinstance(path, Mapping) else {"": path}
    if any(str(one) == "-" for one in several.values()):
        raise RequestError("data.split: standard input is read once; expected a file")
    stamps = tuple((name, str(one), _stamp(Path(one))) for name, one in several.items())
    fields = config.fields
    inputs = tuple(n for n, one in fields.items() if not one.target and not one.derived)
    keys = [n for n, one in fields.items() if one.kind == "key"]
    label = next((n for n, one in fields.items() if one.target and one.kind in LABELS), "")
    by = config.split.by or (str(config.columns[keys[0]]) if keys else "")
    wanted = {name: config.columns[name] for name in (*inputs, *([label] if label else []))}
    wanted |= {_BY: column_of(by)} if by else {}
    told = (config.format, config.header, tuple(sorted(config.csv.items())))
    found = _divided(
        stamps, tuple(wanted.items()), label, config.split.shares, config.split.seed, told
    )
    config.split.check(found, _name(stamps))
    return found


LABELS = ("label", "ordinal")
_BY = "split by"


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes with a file, or with those that have a common part of their names (Moses)."""
    files = [path] if path.is_file() else sorted(path.parent.glob(f"{path.name}.*"))
    return tuple(n for one in files for n in (one.stat().st_mtime_ns, one.stat().st_size))


def _name(stamps: Any) -> str:
    return " and ".join(file for _, file, _ in stamps)


@lru_cache(maxsize=16)
def _divided(
    stamps: tuple[tuple[str, str, Any], ...],
    wanted: tuple[tuple[str, str | int], ...],
    label: str,
    shares: tuple[float, ...],
    seed: int,
    told: tuple[Any, ...],
) -> Divided:
    format, header, csv = told
    path = {n: p for n, p, _ in stamps} if stamps[0][0] else stamps[0][1]
    lists = [name for name, _ in wanted]
    rows = registry.read(path, dict(wanted), format, header, Silent(), lists, dict(csv))

    def member(row: Row) -> Member:
        grouped = row.fields.get(_BY)
        key = str([v for n, v in row.fields.items() if n != label] if grouped is None else grouped)
        stratum = row.fields[label].strip() if label and grouped is None else ""
        return Member(row.line, key, stratum, repr((row.line, sorted(row.fields.items()))))

    by = dict(wanted).get(_BY)
    how = f"groups of {by!r}" if by else f"every {label} in its share" if label else "at random"
    return deal(map(member, rows), Shares(shares, seed=seed), _name(stamps), how)
