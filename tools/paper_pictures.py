"""Draw the pictures of docs/papers/ with `regard look`, on models that recipes train.

    OMP_NUM_THREADS=1 REGARD_DATA=… python tools/paper_pictures.py RUNS [PAGE...]

RUNS is where trained folders are kept: a recipe is trained where it has none yet (one to fifteen
minutes of a core each). Without names of pages all are drawn. Needs the extras `plot` and `speech`.
"""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from regard.data.sources import find

PAPERS = Path(__file__).parents[1] / "docs" / "images" / "papers"
SICK = "A brown dog is running in the grass ||| An animal is playing outside in a field"
FIRST = ("--show", "matrix", "--layer", "1")
QUESTION = "What is the name of the city where the first Olympic games were held ?"
HEADLINE = (
    "pgcli is a command line interface for PostgreSQL with auto-completion and syntax highlighting"
)
TALE = (
    "The old fox sat by the river . A duck swam past the fox . ' Good morning , ' said the duck . "
    "The fox looked at the duck and smiled , for the fox was hungry . But the duck knew the fox "
    "well , and stayed in the water . ||| ' Come nearer , my dear , ' said the XXXXX to the duck . "
    "||| fox|river|duck|water"
)
LADDER = "a man in a blue shirt is standing on a ladder cleaning a window ."
STORY = (
    "Clara moved to the garden. Emil went to the library. Emil grabbed the key there. "
    "Clara walked to the cellar. Emil moved to the hall. Where is the key?"
)


class Picture(NamedTuple):
    """What is drawn.

    Args:
        model: a recipe, or a shipped model.
        inputs: what it looks at; `TAR:MEMBER` is a file of an archive of REGARD_DATA, `NPZ:NUMBER`
            a picture of an array.
        options: of `regard look`.
        settings: of the recipe.
    """

    model: str
    inputs: tuple[str, ...]
    options: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


PICTURES = {
    "transformer": Picture(
        "de-en-small",
        ("Klicken Sie auf die Schaltfläche, um die Datei zu speichern.",),
        ("--kind", "cross"),
    ),
    "deepatt": Picture(
        "tagging/deepatt-ffn-srl",
        ("The committee gave the prize to a young writer from Ohio .",),
        settings=(
            "model.layers=3",
            "model.mark=20",
            "model.ffn_dim=480",
            "data.vectors.most=8000",
            "data.tokenizer.min_count=2",
            "train.epochs=10",
            "train.dtype=int7",
        ),
    ),
    "highway-bilstm": Picture(
        "roles-small", ("He said that the company will open two new offices in May .",)
    ),
    "abs": Picture("summarization/abs-headlines", (HEADLINE,)),
    "pointer-generator": Picture("summarization/pointer-generator-headlines", (HEADLINE,)),
    "paulus": Picture("summarization/paulus-rl-headlines", (HEADLINE,)),
    "rnnsearch": Picture("pronunciation/rnnsearch-cmudict-demo", ("photograph",)),
    "conditional-gru": Picture("pronunciation-small", ("thoroughbred",)),
    "gnmt": Picture("pronunciation/gnmt-cmudict", ("thoroughbred",)),
    "lstm-a": Picture("parser-small", ("I saw the man with the telescope.",)),
    "att-blstm": Picture(
        "relations-small",
        ("The <e1>fire</e1> that destroyed the old town was caused by <e2>lightning</e2>.",),
    ),
    "self-attentive": Picture("classification/structured-questions", (QUESTION,)),
    "disan": Picture("classification/disan-questions", (QUESTION,)),
    "abcnn": Picture("entailment/abcnn3-sick", (SICK,), FIRST),
    "mpcnn": Picture("similarity/mpcnn-attention-sick", (SICK,)),
    "distance": Picture("entailment/distance-sick", (SICK,), FIRST),
    "word-by-word": Picture("entailment/word-by-word-sick", (SICK,)),
    "lstmn": Picture("classification/lstmn-questions", (QUESTION,)),
    "dme": Picture("classification/dme-questions", (QUESTION,)),
    "attention-via-attention": Picture(
        "classification/attention-via-attention-questions", ("Who invented the telescope ?",)
    ),
    "moe-attention": Picture("translation/moe-multi30k", (LADDER,)),
    "aoa": Picture("reading/aoa-cloze", (TALE,)),
    "deep-att": Picture(
        "translation/deep-att-multi30k", (LADDER,), settings=("train.optimizer.lr=0.004",)
    ),
    "luong": Picture("translation/luong-general-multi30k", (LADDER,)),
    "memn2n": Picture(
        "memory/memn2n-babi-task", (STORY,), settings=("data.tasks=[2]", "train.validate.every=0")
    ),
    "ma-cnn": Picture("images/ma-cnn-fashion", ("digits/fashion-test.npz:0",)),
    "cmla": Picture(
        "tagging/cmla-aspects", ("The screen is bright but the battery life is short .",)
    ),
    "gat": Picture("graphs/gat-cora", ("33",)),
    "arsg": Picture("speech/hybrid-espeak", ("speech/espeak-test.tar:test-0000.ogg",)),
    "show-attend-tell": Picture("emoji-small", ("captions/train.tar:emoji/2614.png",)),
    "convs2s": Picture(
        "translation/rnnsearch-dates",
        ("3. Mai 1984",),
        ("--layer", "all"),
        (
            "model={name: convs2s, embed: 64, encoder: [[3, 64, 3]], decoder: [[2, 64, 3]], "
            "dropout: 0.1}",
            "train.steps=800",
            "train.optimizer.lr=0.003",
        ),
    ),
    "ram": Picture("handwriting-small", ("digits/mnist-test.npz:7",)),
    "bag-of-ngrams": Picture(
        "classification/bilstm-pros-cons",
        ("easy to use but poor battery life",),
        settings=(
            "model={name: bag-of-ngrams, buckets: 16384, dropout: 0.3}",
            "train.optimizer={name: sgd, lr: 20, momentum: 0.9}",
            "train.epochs=15",
        ),
    ),
    "bran": Picture(
        "relations/bran-cues-cdr",
        (
            "Tremor induced by lithium . Two patients who took lithium developed a tremor . The "
            "tremor disappeared when lithium was stopped . Aspirin had no such effect .",
        ),
    ),
    "ctc": Picture("speech/ctc-digits", ("speech/digits-test.tar:6_george_3.flac",)),
    "bilstm-crf": Picture(
        "aspects-small", ("The screen is bright but the battery life is short .",)
    ),
}


def main() -> None:
    runs, *wanted = sys.argv[1:] or sys.exit(__doc__)
    PAPERS.mkdir(exist_ok=True)
    for page in wanted or PICTURES:
        one, target = PICTURES[page], PAPERS / f"{page}.png"
        folder = one.model
        if "/" in one.model:
            folder = str(Path(runs) / page)
            if not Path(folder, "model.safetensors").is_file():
                regard("train", one.model, *one.settings, "-o", folder)
        with tempfile.TemporaryDirectory() as place:
            inputs = [given(text, place) for text in one.inputs]
            regard("look", folder, *inputs, *one.options, "-o", str(target))
        smaller(target)


def given(text: str, place: str) -> str:
    """The input, or the path to what an archive has of it."""
    arrays, _, number = text.partition(".npz:")
    if number:
        return of_array(f"{arrays}.npz", int(number), Path(place) / "picture.png")
    archive, _, member = text.partition(".tar:")
    if not member:
        return text
    with tarfile.open(find(f"{archive}.tar")) as files:
        files.extract(member, place, filter="data")
    return str(Path(place) / member)


def of_array(name: str, number: int, path: Path) -> str:
    """A picture of an array, as a file."""
    import numpy as np
    from PIL import Image

    with np.load(find(name)) as file:
        Image.fromarray(file["images"][number]).save(path)
    return str(path)


def regard(*words: str) -> None:
    print("regard", *words, flush=True)
    subprocess.run([sys.executable, "-m", "regard", *words], check=True)


def smaller(path: Path) -> None:
    """The same picture in at most 128 colors."""
    from PIL import Image

    with Image.open(path) as image:
        few = image.convert("RGB").quantize(128, Image.Quantize.FASTOCTREE)
    few.save(path, optimize=True)


if __name__ == "__main__":
    main()
