"""The script of pages, as written and minified; pages in Chromium: tests/viewer/test_page.py."""

import pytest

from regard.viewer.page import scripts
from regard.viewer.page.scripts import SCRIPTS, SOUND, STEPS, minifier, packed, script, source

minified = pytest.mark.skipif(minifier() is None, reason="needs esbuild: npm install")


@pytest.fixture
def fresh(monkeypatch):
    """Scripts are put together anew, and not kept."""
    script.cache_clear()
    yield monkeypatch
    script.cache_clear()


@minified
def test_the_script_of_a_page_is_short():
    assert len(script().encode()) <= 60 * 1024
    assert len(script().encode()) < 0.6 * len(source().encode())
    assert len(script(SOUND, STEPS)) > len(script(SOUND)) > len(script())


def test_every_file_is_in_it_once_and_the_last_one_starts_the_page():
    folder = scripts._HERE
    assert {*SCRIPTS, SOUND, STEPS} == {path.name for path in folder.glob("*.js")}
    whole = source(SOUND, STEPS)
    for path in folder.glob("*.js"):
        assert whole.count(path.read_text(encoding="utf-8")) == 1
    assert whole.rstrip().endswith("})();")
    assert "currentTime" in whole
    assert "currentTime" not in source(STEPS)


@minified
def test_a_wheel_holds_the_script_of_every_kind_of_page(tmp_path, fresh):
    files = packed()
    assert len(files) == 4
    assert script(SOUND, STEPS) in files.values()
    fresh.setattr(scripts, "_HERE", tmp_path)
    (tmp_path / scripts.PACKED).mkdir()
    for name in files:
        (tmp_path / scripts.PACKED / name).write_text(name, encoding="utf-8")
    script.cache_clear()
    told = {script(), script(SOUND), script(STEPS), script(SOUND, STEPS)}
    assert told == set(files)


def test_without_the_minifier_the_source_is_taken(tmp_path, fresh):
    fresh.setattr(scripts, "_TOOLS", tmp_path)
    assert minifier() is None
    assert script(STEPS) == source(STEPS)
    with pytest.raises(RuntimeError, match="no esbuild"):
        packed()
