"""The page of the taxonomy is what the catalogue says."""

from regard import catalog
from tests.docs import taxonomy


def test_the_page_is_up_to_date():
    written = taxonomy.PAGE.read_text(encoding="utf-8")
    assert written == taxonomy.text(), "run: python -m tests.docs.taxonomy"


def test_the_architecture_follows_from_body_and_tasks():
    found = {e.name: taxonomy.architecture(e) for e in catalog.ENTRIES}
    assert found["rnnsearch"] == found["show-attend-tell"] == "encoder-decoder, recurrent"
    assert found["transformer"] == found["convs2s"] == "encoder-decoder, without recurrence"
    assert found["memn2n"] == found["memn2n-lm"] == "memory network"
    assert found["han"] == found["ram"] == "encoder, recurrent"
    assert found["gat"] == found["deepatt"] == "encoder, without recurrence"


def test_every_model_has_a_page():
    assert set(taxonomy.pages()) >= set(catalog.names())
    for page in taxonomy.pages().values():
        assert (taxonomy.ROOT / "docs" / page).is_file(), page
