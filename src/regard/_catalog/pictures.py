"""Models of pictures."""

from regard._catalog.entry import NO_ATTENTION, Entry

__all__ = ["PICTURES"]

PICTURES: tuple[Entry, ...] = (
    Entry(
        name="ram",
        target="regard.models.ram:RAM",
        title="Recurrent Models of Visual Attention",
        authors="Mnih, Heess, Graves and Kavukcuoglu",
        year=2014,
        url="https://arxiv.org/abs/1406.6247",
        tasks=("images",),
        axes={
            "score": "a Gaussian about a place that the state names",
            "select": "hard: a sample",
            "query": "the core's state after the last glimpse",
            "body": "recurrent, over glimpses",
            "parallel": "no",
            "sequences": "distinctive",
            "levels": "single",
            "positions": "hard",
            "representations": "several: patches of each scale",
        },
        tiny={"side": 4, "scales": 2, "glimpses": 3, "hidden": 8, "glimpse": 12, "core": 16},
    ),
    Entry(
        name="show-attend-tell",
        target="regard.models.show_attend_tell:ShowAttendTell",
        title="Show, Attend and Tell: Neural Image Caption Generation with Visual Attention",
        authors="Xu, Ba, Kiros, Cho, Courville, Salakhutdinov, Zemel and Bengio",
        year=2015,
        url="https://arxiv.org/abs/1502.03044",
        tasks=("captioning",),
        axes={
            "score": "additive",
            "select": "softmax; or a sample, learned by REINFORCE",
            "query": "before: the previous decoder state",
            "body": "convolutions, then an LSTM",
            "parallel": "no",
            "sequences": "distinctive",
            "levels": "single",
            "positions": "soft, or hard in training",
            "representations": "one",
        },
        tiny={
            "widths": [4, 6],
            "convolutions": [1, 1],
            "embed": 8,
            "hidden": 12,
            "align": 8,
            "dropout": 0.0,
            "scale": None,
        },
    ),
    Entry(
        name="vgg",
        target="regard.models.vgg:VGG",
        title="Very Deep Convolutional Networks for Large-Scale Image Recognition",
        authors="Simonyan and Zisserman",
        year=2014,
        url="https://arxiv.org/abs/1409.1556",
        tasks=("images",),
        axes={**NO_ATTENTION, "body": "convolutions of 3 x 3", "parallel": "yes"},
        tiny={"widths": [4, 6], "convolutions": [1, 2], "ffn_dim": 12, "dropout": 0.0},
    ),
)
