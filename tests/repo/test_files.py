"""What may be in the repository, and how long a file may be."""

import re

import pytest

from tests.repo.tree import SOURCE, TOP, modules, tracked

LONGEST = 400
BINARY = {".gz", ".safetensors", ".png", ".pdf", ".npz"}
PICKLES = {".bin", ".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pth"}
# Put together from pieces, so that this file does not name what it forbids.
HOSTS = re.compile(
    "|".join(
        [
            r"pypi" + r"\.org",
            r"pythonhosted" + r"\.org",
            r"download\.pytorch" + r"\.org",
            r"registry\.npm" + r"js\.org",
            r"deb\.debian" + r"\.org",
            r"anaconda" + r"\.org",
            r"--(extra-)?index" + r"-url",
        ]
    )
)
PLACES = re.compile(r"(?<![\w.:/~$}])/(?:work|root|home|farm|opt|Users)/\w")
UNFINISHED = re.compile(r"\b(TODO" + r"|FIXME" + r"|XXX)\b|raise NotImplemented" + r"Error")


def test_there_is_something_to_look_at():
    assert TOP / "pyproject.toml" in tracked()
    assert len(modules()) > 30


def named_in_makefile():
    """Paths below tests, tools and benchmarks that targets of the Makefile name."""
    text = (TOP / "Makefile").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"(?<![\w/.])(?:tests|tools|benchmarks)/[\w/]+(?:\.py)?", text)))


@pytest.mark.parametrize("path", named_in_makefile())
def test_what_the_makefile_names_exists(path):
    assert (TOP / path).exists()


def test_no_module_is_long():
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    long = {str(path.relative_to(TOP)): size for path, size in sizes.items() if size > LONGEST}
    assert long == {}, "they want splitting"


def test_scripts_of_pages_are_laid_out_as_prettier_does():
    """`npx prettier --check src/regard/*/page/*.js` where there is one; here what it leaves: only
    a line with a long text or a comment is longer than the others.
    """
    scripts = [path for path in tracked() if path.suffix == ".js" and SOURCE in path.parents]
    assert len(scripts) > 15
    long = [
        f"{path.name}:{number}"
        for path in scripts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(re.sub(r"`.*`|\".*\"|//.*", "", line)) > 100
    ]
    assert long == []


def test_the_median_module_is_short():
    sizes = sorted(path.stat().st_size for path in modules() if path.name != "__init__.py")
    assert sizes[len(sizes) // 2] <= 6_000


def test_no_pickles_are_tracked():
    assert [str(p.relative_to(TOP)) for p in tracked() if p.suffix in PICKLES] == []


def test_nothing_tracked_is_larger_than_the_shipped_model():
    assert [str(p.relative_to(TOP)) for p in tracked() if p.stat().st_size > 16 * 2**20] == []


def test_no_places_of_one_machine_and_no_registries():
    wrong = []
    for path in tracked():
        if path.suffix in BINARY:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if HOSTS.search(line) or PLACES.search(line):
                wrong.append(f"{path.relative_to(TOP)}:{number}: {line.strip()[:100]}")
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("data = '/wo" + "rk/shared/data'", True),
        ("cd /ho" + "me/me/regard", True),
        ("see https://example.com/home/page", False),
        ("docs/home/index.md and ./opt/x", False),
        ("$HOME/work/x", False),
    ],
)
def test_what_counts_as_a_place(line, found):
    assert bool(PLACES.search(line)) == found


def test_nothing_is_left_unfinished():
    wrong = [
        f"{path.relative_to(TOP)}:{number}"
        for path in modules()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert wrong == []


def test_the_library_does_not_print():
    wrong = [
        str(path.relative_to(SOURCE))
        for path in modules()
        if re.search(r"^\s*print\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert wrong == []


def test_postponed_annotations_are_not_used():
    """They would be strings, which the shape checks of the tests cannot look up."""
    line = "from __future__ import annotations"
    assert [p.name for p in modules() if line in p.read_text(encoding="utf-8")] == []
