"""What regard stands on: pinned versions, licences, a bill of materials, from what is installed.

    .venv/bin/python tools/supply.py            write requirements/: lock, licences, SBOM
    .venv/bin/python tools/supply.py --check    say what of pyproject.toml they lack

The packages are those that regard and its extras ask for, and those that these ask for, as far as
they are installed here; what is not is named in a comment of `lock.txt`. Nothing is fetched.
"""

import argparse
import importlib.metadata as metadata
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).resolve().parent.parent
FOLDER = TOP / "requirements"
LOCK, LICENCES, SBOM = FOLDER / "lock.txt", FOLDER / "licences.tsv", FOLDER / "sbom.cdx.json"
RUNTIME = "runtime"
HEAD = """\
# Versions that were tested together: `make test LOCK=1` installs these (pip's -c).
# Written by tools/supply.py. A constraint installs nothing by itself.
"""


class Package:
    """An installed distribution, and which parts of regard want it."""

    def __init__(self, name: str, found: metadata.Distribution) -> None:
        self.name, self.found = name, found
        self.wanted: set[str] = set()
        self.needs: set[str] = set()

    @property
    def version(self) -> str:
        return self.found.version.partition("+")[0]  # a build's own mark is of no other machine

    @property
    def licence(self) -> str:
        about = self.found.metadata
        if told := about.get("License-Expression"):
            return str(told)
        kinds = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier") or ()
                 if c.startswith("License ::") and not c.endswith("OSI Approved")]  # fmt: skip
        if kinds:
            return "; ".join(sorted({*kinds}))
        lines = [line.strip() for line in (about.get("License") or "").splitlines()]
        return next(filter(None, [*lines, self._file()]), "not said")[:80]

    def _file(self) -> str:
        """The first line of its licence's file."""
        for one in self.found.files or ():
            if re.match(r"licen[cs]e|copying", one.name, re.IGNORECASE):
                text = one.read_text(encoding="utf-8") if one.locate().is_file() else ""
                return next((line.strip() for line in text.splitlines() if line.strip()), "")
        return ""


def declared() -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for: "runtime", and the extras."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    groups = {RUNTIME: project["dependencies"], **project["optional-dependencies"]}
    return {name: [Requirement(one) for one in some] for name, some in groups.items()}


def packages() -> tuple[dict[str, Package], dict[str, set[str]]]:
    """All by name, and what is wanted and not installed, with who wants it."""
    found: dict[str, Package] = {}
    missing: dict[str, set[str]] = {}
    for group, wanted in declared().items():
        waiting = [(one, "regard") for one in wanted]
        met: set[tuple[str, str]] = set()
        while waiting:
            one, by = waiting.pop()
            name = canonicalize_name(one.name)
            if by in found:
                found[by].needs.add(name)
            new = {(name, extra) for extra in (*one.extras, "")} - met
            met |= new
            if not new or (one.marker and by == "regard" and not one.marker.evaluate()):
                continue
            try:
                there = metadata.distribution(one.name)
            except metadata.PackageNotFoundError:
                missing.setdefault(name, set()).add(group)
                continue
            own = found.setdefault(name, Package(name, there))
            own.wanted.add(group)
            if by in found:
                found[by].needs.add(name)
            waiting += [(more, name) for more in asked(there, {extra for _, extra in new})]
    return found, missing


def asked(one: metadata.Distribution, extras: set[str]) -> Iterator[Requirement]:
    """What a distribution asks for, here and with these extras."""
    for line in one.requires or ():
        need = Requirement(line)
        if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in extras | {""}):
            yield need


def lock(found: dict[str, Package], missing: dict[str, set[str]]) -> str:
    lines = [f"{name}=={one.version}" for name, one in sorted(found.items())]
    left = [f"# not pinned, not installed where this was written: {name} "
            f"({', '.join(sorted(by))})" for name, by in sorted(missing.items())]  # fmt: skip
    return HEAD + "\n".join([*lines, *left]) + "\n"


def licences(found: dict[str, Package]) -> str:
    rows = ["package\tversion\tlicence\twanted by"]
    for name, one in sorted(found.items()):
        rows.append("\t".join([name, one.version, one.licence, ", ".join(sorted(one.wanted))]))
    return "\n".join(rows) + "\n"


def sbom(found: dict[str, Package], version: str) -> str:
    """CycloneDX 1.6, the same bytes for the same packages: no time, and a name by content."""
    components = [
        {
            "type": "library", "bom-ref": f"pkg:pypi/{name}@{one.version}", "name": name,
            "version": one.version, "purl": f"pkg:pypi/{name}@{one.version}",
            "scope": "required" if RUNTIME in one.wanted else "optional",
            "licenses": [{"license": {"name": one.licence}}],
            "properties": [{"name": "regard:wanted-by", "value": w} for w in sorted(one.wanted)],
        }
        for name, one in sorted(found.items())
    ]  # fmt: skip
    refs = {name: f"pkg:pypi/{name}@{one.version}" for name, one in found.items()}
    direct = {canonicalize_name(one.name) for some in declared().values() for one in some}
    depends = [{"ref": "regard", "dependsOn": sorted(refs[n] for n in direct if n in refs)}]
    depends += [{"ref": refs[name], "dependsOn": sorted(refs[n] for n in one.needs if n in refs)}
                for name, one in sorted(found.items())]  # fmt: skip
    made = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([version, components]))
    told = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{made}",
        "version": 1,
        "metadata": {"component": {
            "type": "library", "bom-ref": "regard", "name": "regard", "version": version,
            "licenses": [{"license": {"id": "Apache-2.0"}}],
        }},
        "components": components, "dependencies": depends,
    }  # fmt: skip
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def problems() -> Iterator[str]:
    """What pyproject.toml asks for and the files lack, or have in another version."""
    text = LOCK.read_text("utf-8")
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)$", text, re.MULTILINE))
    absent = set(re.findall(r"^# not pinned.*: ([a-z0-9-]+) \(", text, re.MULTILINE))
    for group, wanted in declared().items():
        for one in wanted:
            name = canonicalize_name(one.name)
            if name in pinned and not one.specifier.contains(pinned[name], prereleases=True):
                yield f"{LOCK.name} has {name} {pinned[name]}, and {group} asks for {one}"
            elif name not in pinned and name not in absent:
                yield f"{LOCK.name} lacks {name}, which {group} asks for"
    rows = [line.split("\t") for line in LICENCES.read_text("utf-8").splitlines()[1:]]
    if {row[0]: row[1] for row in rows} != pinned:
        yield f"{LICENCES.name} is of other packages than {LOCK.name}"
    yield from (f"the licence of {row[0]} is not said" for row in rows if row[2] == "not said")
    told = json.loads(SBOM.read_text("utf-8"))
    if {one["name"]: one["version"] for one in told["components"]} != pinned:
        yield f"{SBOM.name} is of other packages than {LOCK.name}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        wrong = list(problems())
        print("\n".join(wrong) or "requirements/ fits pyproject.toml")
        return 1 if wrong else 0
    found, missing = packages()
    text = (TOP / "src/regard/_version.py").read_text("utf-8") + (
        TOP / "src/regard/__init__.py"
    ).read_text("utf-8")
    told = re.search(r'__version__ = "([^"]+)"', text)
    FOLDER.mkdir(exist_ok=True)
    LOCK.write_text(lock(found, missing), "utf-8")
    LICENCES.write_text(licences(found), "utf-8")
    SBOM.write_text(sbom(found, told[1] if told else "0"), "utf-8")
    print(f"{len(found)} packages; not installed here: {', '.join(sorted(missing)) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
