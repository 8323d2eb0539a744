"""The pages' scripts fit their JSDoc types: fields of `.seen` files, of requests, of browsers."""

import json
import shutil
import subprocess

import pytest

from tests.repo.tree import SOURCE, TOP

TSC = shutil.which("tsc", path=TOP / "node_modules" / ".bin")
PAGES = ("viewer", "serve")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nohook,
    pytest.mark.skipif(TSC is None, reason="needs TypeScript: npm install"),
]


def checked(project):
    done = subprocess.run([TSC, "-p", project], capture_output=True, text=True, check=False)
    return done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_scripts_fit_their_types(page):
    assert checked(TOP / "tools" / "pages" / f"{page}.json") == ""


def test_a_misspelled_field_is_found(tmp_path):
    """Of a map, whose fields are those of docs/seen.md."""
    for path in (SOURCE / "viewer" / "page").glob("*.js"):
        text = path.read_text(encoding="utf-8")
        (tmp_path / path.name).write_text(text.replace("mapNow().shape[0]", "mapNow().shapes[0]"))
    project = tmp_path / "tsconfig.json"
    base = TOP / "tools" / "pages" / "base.json"
    project.write_text(json.dumps({"extends": str(base), "include": ["*.js"]}), encoding="utf-8")
    assert "Property 'shapes' does not exist on type 'SeenMap'" in checked(project)
