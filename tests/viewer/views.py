"""Views of every kind of data, for the tests of the page."""

import io

import numpy as np

from regard import view
from regard.viewer import Axis, DrawableView, Map, Run, View

DRAW = np.random.default_rng(0)
GERMAN = ["▁Das", "▁Fen", "ster", "▁wird", "▁ge", "schlossen", ".", "</s>"]
ENGLISH = ["▁The", "▁win", "dow", "▁is", "▁closed", ".", "</s>"]
ARABIC = ["القط", "جلس", "على", "السجادة", "الحمراء", "</s>"]
CHINESE = ["猫", "坐", "在", "红", "地毯", "上", "。", "</s>"]


def soft(*shape, sharp=2.0):
    """Weights that add up to 1 over the last axis."""
    scores = sharp * DRAW.standard_normal(shape)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def translation() -> View:
    """Two hypotheses with cross, decoder and encoder attention of two layers."""
    outputs = [ENGLISH, [*ENGLISH[:4], "▁shut", ".", "</s>"]]
    made = None
    for number, words in enumerate(outputs, 1):
        one = view(
            {"cross": list(soft(2, 4, len(words), len(GERMAN))),
             "decoder": list(soft(2, 4, len(words), len(words))),
             "encoder": list(soft(2, 4, len(GERMAN), len(GERMAN)))},
            rows=words, columns=GERMAN, title="a translation",
        )  # fmt: skip
        text = "".join(words).replace("▁", " ").replace("</s>", "").strip()
        run = Run(one.runs[0].maps, input="Das Fenster wird geschlossen.", output=text, model="toy",
                  folder="de-en-small", score=-0.2 * number, number=number, of=2)  # fmt: skip
        one = DrawableView(one.axes, one.maps, [run], "a translation")
        made = one if made is None else made + one
    return made


def picture_bytes() -> bytes:
    """A small PNG."""
    from matplotlib.image import imsave

    file = io.BytesIO()
    imsave(file, DRAW.random((28, 28, 3)))
    return file.getvalue()


def kinds() -> dict[str, View]:
    """For each view of the page that wants its own kind of data, such data."""
    image = Axis([f"region {i}" for i in range(49)], "image", grid=(7, 7), image=picture_bytes())
    sound = Axis([str(i) for i in range(80)], "audio", seconds=0.01, image=picture_bytes())
    edges = [(i, i // 2) for i in range(1, 20)]
    nodes = Axis([f"n{i}" for i in range(20)], "nodes", edges=edges)
    joined = np.zeros((2, 20, 20), np.float32)
    for i, j in edges:
        joined[:, i, j] = joined[:, j, i] = 0.2 + DRAW.random(2)
    memory = [Axis(["where is Mary ?"]), Axis(["Mary left", "John came", "it rained"], "memory")]
    hops = [
        Map.of("memory", 0, 1, soft(1, 1, 3), kind="memory", layer=k + 1, scope={"hop": k})
        for k in range(3)
    ]
    words = ["a", "red", "bird", "in", "a", "tree"]
    document = Axis(["it", "was", "good", ".", "but", "then", "it", "rained", "."], sections=[0, 4])
    trail = {"x": [0.1, 0.4, 0.5, 0.6, 0.7, 0.9], "y": [0.2, 0.2, 0.6, 0.4, 0.5, 0.8]}
    return {
        "image": view(soft(6, 49), rows=words, columns=image, extra=trail),
        "sound": view(soft(6, 80), rows=["a", "b", "c", "d", "e", "f"], columns=sound),
        "graph": view(joined, rows=nodes, kind="edges"),
        "hops": DrawableView(memory, hops, [Run([0, 1, 2], input="where is Mary ?")]),
        "features": view(soft(24, 6, 6), rows=words, kind="features"),
        "pointer": view(soft(6, 8), rows=words, columns=[*"xyzabcde"], kind="pointer",
                        extra={"generate": [0.1, 0.9, 0.5, 0.0, 1.0, 0.2]}),
        "text": view(soft(1, 9), rows=["stars"], columns=document),
        "arcs": view(soft(2, 6, 6), rows=words, kind="self"),
    }  # fmt: skip
