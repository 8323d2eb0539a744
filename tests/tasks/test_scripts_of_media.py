"""Twenty scripts as captions, transcripts, names of classes and nodes, in both normal forms."""

import shutil
import unicodedata

import numpy as np
import pytest

from regard import tasks
from regard.data.images.images import png
from regard.tasks.graphs.graphs import Graphs
from tests.tasks.normal_forms import FORMS, plain, same_examples
from tests.tasks.pictured import drawn
from tests.tasks.scripts import SCRIPTS, sentences
from tests.tasks.sounding import RATE
from tests.tasks.test_graph_own import write_tables

SIZES = {"train": 20, "dev": 4, "test": 20}
CLASSES = ("été", "한국", "पढ़ो", "Ž")


def captions(folder, form):
    """Pictures whose names and captions are in one normal form."""
    for seed, (split, size) in enumerate(SIZES.items(), 1):
        lines = ["file\tcaption"]
        for (n, words), picture in zip(sentences(size, seed), drawn(size, seed)[0], strict=True):
            name = unicodedata.normalize(form, f"{words[0]}-{split}{n}.png")
            (folder / name).write_bytes(png(picture))
            lines.append(f"{name}\t{unicodedata.normalize(form, ' '.join(words))}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"path": str(folder)}


def transcripts(folder, form):
    soundfile = pytest.importorskip("soundfile")
    for seed, (split, size) in enumerate(SIZES.items(), 1):
        lines = ["file\ttext"]
        random = np.random.default_rng(seed)
        for n, words in sentences(size, seed):
            sound = random.normal(0, 0.1, 1600)
            soundfile.write(folder / f"{split}{n}.flac", sound.astype(np.float32), RATE)
            said = unicodedata.normalize(form, " ".join(words))
            lines.append(f"{split}{n}.flac\t{said}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"path": str(folder)}


def classes(folder, form):
    """A folder for each class, as a macOS archive has it in NFD."""
    for seed, (split, size) in enumerate(SIZES.items(), 1):
        for n, picture in enumerate(drawn(size, seed)[0]):
            place = folder / split / unicodedata.normalize(form, CLASSES[n % 4])
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{n}.png").write_bytes(png(picture))
    return {"path": str(folder)}


WRITTEN = {
    "captioning": (captions, {"size": 8, "channels": 1}),
    "speech": (transcripts, {"rate": RATE, "filters": 8}),
    "images": (classes, {"size": 8, "channels": 1}),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_captions_transcripts_and_classes_are_the_same_examples(name, tmp_path):
    write, settings = WRITTEN[name]
    task, told = tasks.load(name)(**settings), {}
    for form in FORMS:
        (tmp_path / form).mkdir()
        told[form] = write(tmp_path / form, form)
    own = {form: task.data(told[form]) for form in FORMS}
    same_examples(own["NFD"], own["NFC"])
    for one, other in (FORMS, FORMS[::-1]):
        same_examples(task.data(told[one], own[other].fields), own["NFC"])


def test_nodes_and_their_classes_have_names_of_any_script(tmp_path):
    words = [word for line in SCRIPTS.values() for word in line.split()][:40]
    assert len({unicodedata.normalize("NFC", word) for word in words}) == 40
    found = {}
    for form in FORMS:
        folder = tmp_path / form / "graph"
        folder.parent.mkdir()
        write_tables(folder)
        for file, own in (("nodes.csv", form), ("edges.csv", FORMS[form == "NFC"])):
            text = (folder / file).read_text("utf-8").replace("class1", "été")
            for i, word in enumerate(words):
                text = text.replace(f"paper-{i:02}", word)
            (folder / file).write_text(unicodedata.normalize(own, text), encoding="utf-8")
        task = Graphs(graph=str(folder))
        data = task.data({})
        found[form] = plain(data.test.references), plain(data.train.collate([0]))
        shutil.rmtree(folder)
    assert found["NFC"] == found["NFD"]
    assert "été" in str(found["NFC"][0])
