"""Notebooks: what is watched shows itself, and is followed while it is written."""

import subprocess
import sys

import pytest
import torch

import regard
from regard.errors import RequestError

CELLS = [
    """import torch
import regard
from transformers import GPT2Config, GPT2LMHeadModel
from tests.viewer.small_transformers import WORDS, tokenizer
torch.manual_seed(0)
words = tokenizer()
config = GPT2Config(vocab_size=len(WORDS), n_embd=16, n_layer=2, n_head=2, bos_token_id=2,
                    eos_token_id=3, pad_token_id=0)
model = GPT2LMHeadModel(config).eval()""",
    """ids = words("the cats sat", return_tensors="pt")["input_ids"][:, :-1]
with regard.watch(model) as seen, seen.follow(words, every=0) as live:
    model.generate(ids, max_new_tokens=4, min_new_tokens=4, streamer=live)""",
    "seen",
    "seen.view()",
]


@pytest.mark.slow
def test_a_notebook_has_the_page_in_its_output(tmp_path, page):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("transformers")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    live = [o for o in book.cells[1].outputs if o.output_type == "display_data"]
    assert len(live) == 1  # one display, written anew
    text = live[0].data["text/html"]
    assert "8 calls of 2 attentions, step 4" in text
    assert "transformer.h.1.attn" in text
    assert "##s" in text
    for cell in book.cells[2:]:
        shown = cell.outputs[0].data["text/html"]
        assert shown.startswith('<iframe sandbox="allow-scripts"')
        assert 'src="http' not in shown
    file = tmp_path / "exported.html"
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{text}{shown}", encoding="utf-8")
    page.page.goto(file.as_uri())
    frame = page.page.frames[1]
    frame.wait_for_selector("html[data-drawn]", timeout=60_000)
    assert frame.evaluate("() => viewNow().id") == "matrix"
    rows = frame.evaluate("async () => (await picture(0, 0, 0)).rows.labels")
    assert rows[:4] == ["[CLS]", "the", "cat", "##s"]
    assert len(rows) == 8  # the last token that was written was never read
    assert page.wrong == []
    assert page.asked == []


def followed(monkeypatch):
    """Without a notebook IPython shows nothing; what it would show is asked for."""
    pytest.importorskip("IPython")
    layer = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()
    x = torch.randn(1, 3, 4)
    with torch.no_grad(), regard.watch(layer) as seen, seen.follow() as live:
        layer(x, x, x)
    return seen, live


def test_following_says_how_far_it_is(monkeypatch, capsys):
    seen, live = followed(monkeypatch)
    assert "1 calls of 1 attentions, step 1" in live.html()
    newest = seen[""].weights[0, :, -1].mean(0)
    for weight in newest.tolist():
        assert f"{100 * weight:.1f} %" in live.html()
    with pytest.raises(RequestError, match="one sequence"):
        live.put(torch.zeros(2, 3, dtype=torch.long))


def test_nothing_seen_is_a_sentence():
    with regard.watch() as seen:
        pass
    assert (
        seen._repr_html_() == "<p>nothing was seen: no watched attention ran inside the block</p>"
    )


@pytest.mark.slow
def test_without_ipython_following_says_so():
    program = (
        "import sys; sys.modules['IPython'] = None; sys.modules['IPython.display'] = None\n"
        "import regard\nwith regard.watch() as seen, seen.follow(): pass"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "IPython is not installed" in ran.stderr
