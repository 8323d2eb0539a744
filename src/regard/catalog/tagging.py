"""Models that tag each word of a sentence."""

from regard.catalog.row import NO_ATTENTION, SOFT, Entry

__all__ = ["TAGGING"]

TASKS = ("tagging",)

TAGGING: tuple[Entry, ...] = (
    Entry(
        name="bilstm-crf",
        target="regard.models.bilstm_crf:BiLSTMCRF",
        title="Bidirectional LSTM-CRF Models for Sequence Tagging",
        authors="Huang, Xu and Yu; Lample et al. (2016)",
        year=2015,
        url="https://arxiv.org/abs/1508.01991",
        tasks=TASKS,
        axes={
            **NO_ATTENTION,
            "body": "bidirectional LSTM over words and characters, a chain over tags",
            "parallel": "no",
        },
        tiny={
            "embed": 8,
            "character": 4,
            "character_hidden": 3,
            "feature": 4,
            "mark": 4,
            "hidden": 6,
            "ffn_dim": 8,
            "dropout": 0.0,
        },
    ),
    Entry(
        name="deep-bilstm-crf",
        target="regard.models.deep_bilstm_crf:DeepBiLSTMCRF",
        title="End-to-end Learning of Semantic Role Labeling Using Recurrent Neural Networks",
        authors="Zhou and Xu",
        year=2015,
        url="https://aclanthology.org/P15-1109/",
        tasks=TASKS,
        axes={
            **NO_ATTENTION,
            "body": "LSTM layers, forward and backward in turns, a chain over tags",
            "parallel": "no",
        },
        tiny={"embed": 8, "mark": 4, "hidden": 8, "layers": 3},
    ),
    Entry(
        name="highway-bilstm",
        target="regard.models.highway_bilstm:HighwayBiLSTM",
        title="Deep Semantic Role Labeling: What Works and What's Next",
        authors="He, Lee, Lewis and Zettlemoyer",
        year=2017,
        url="https://aclanthology.org/P17-1044/",
        tasks=TASKS,
        axes={
            **NO_ATTENTION,
            "body": "highway LSTM layers, forward and backward in turns",
            "parallel": "no",
        },
        tiny={"embed": 8, "mark": 4, "hidden": 8, "layers": 3, "dropout": 0.0},
    ),
    Entry(
        name="cmla",
        target="regard.models.cmla:CMLA",
        title="Coupled Multi-Layer Attentions for Co-Extraction of Aspect and Opinion Terms",
        authors="Wang, Pan, Dahlmeier and Xiao",
        year=2017,
        url="https://ojs.aaai.org/index.php/AAAI/article/view/10974",
        tasks=TASKS,
        axes={
            "score": "linear in the state of a gated unit over tensor products with two prototypes",
            "select": "softmax",
            "query": "learned; prototypes are made again in each layer",
            "body": "GRU (reset before)",
            "parallel": "no",
            "sequences": "self",
            **SOFT,
            "levels": "several: layers of prototypes",
        },
        tiny={"embed": 8, "hidden": 6, "slices": 4, "dropout": 0.0},
    ),
    Entry(
        name="deepatt",
        target="regard.models.srl_attention:DeepAttTagger",
        title="Deep Semantic Role Labeling with Self-Attention",
        authors="Tan, Wang, Xie, Chen and Shi",
        year=2018,
        url="https://arxiv.org/abs/1712.01586",
        tasks=TASKS,
        axes={
            "score": "scaled dot",
            "select": "softmax",
            "query": "every layer's, several heads",
            "body": "attention and feed-forward, LSTM or convolutions",
            "parallel": "yes",
            "sequences": "self",
            **SOFT,
        },
        tiny={
            "embed": 8,
            "mark": 8,
            "layers": 2,
            "heads": 2,
            "ffn_dim": 12,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
        },
    ),
)
