"""Models of sounds."""

from regard.catalog.row import NO_ATTENTION, SOFT, Entry

__all__ = ["SOUNDS"]

SOUNDS: tuple[Entry, ...] = (
    Entry(
        name="arsg",
        target="regard.models.arsg:ARSG",
        title="Attention-Based Models for Speech Recognition",
        authors="Chorowski, Bahdanau, Serdyuk, Cho and Bengio",
        year=2015,
        url="https://arxiv.org/abs/1506.07503",
        tasks=("speech",),
        axes={
            "score": "location-aware (hybrid); content or location alone",
            "select": "softmax or smooth; sharper, or in a window, where it is used",
            "query": "before: the previous decoder state",
            "body": "bidirectional GRU (reset before)",
            "parallel": "no",
            "sequences": "distinctive",
            **SOFT,
        },
        tiny={
            "hidden": 8,
            "layers": 2,
            "state": 12,
            "align": 8,
            "maxout": 6,
            "filters": 3,
            "width": 5,
            "scale": None,
        },
    ),
    Entry(
        name="ctc",
        target="regard.models.ctc:CTC",
        title="Connectionist Temporal Classification: Labelling Unsegmented Sequence Data with"
        " Recurrent Neural Networks",
        authors="Graves, Fernández, Gomez and Schmidhuber",
        year=2006,
        url="https://www.cs.toronto.edu/~graves/icml_2006.pdf",
        tasks=("speech-ctc",),
        axes={**NO_ATTENTION, "body": "bidirectional GRU (reset before)", "parallel": "yes"},
        tiny={"hidden": 8, "layers": 2},
    ),
)
