"""`regard models`: every row of the catalogue is shown as its source has it."""

import inspect

import pytest

from regard import catalog, native
from regard.cli._model_source import read_class
from regard.errors import RequestError
from regard.folder import places
from regard.settings.check import given_by_data, optional_of_data
from tests.cli.run import run


def test_the_catalogue_has_the_papers_and_their_axes():
    years = [catalog.entry(name).year for name in catalog.names()]
    assert years == sorted(years)
    assert set(catalog.names()) >= {
        "seq2seq", "rnnsearch", "luong", "transformer", "memn2n", "aoa", "gat", "han", "disan", 
        "lstmn",
        "word-by-word", "decomposable", "abcnn", "mpcnn", "co-attention", "distance", "dme", "cnn",
    }  # fmt: skip
    for name in catalog.names():
        entry = catalog.entry(name)
        assert set(entry.axes) <= set(catalog.AXES)
        assert {"score", "select", "query", "body", "parallel"} <= set(entry.axes)
        assert entry.url.startswith(
            (
                "https://arxiv.org/abs/",
                "https://aclanthology.org/",
                "https://ojs.aaai.org/",
                "https://paperexplained.cn/",
                "https://www.cs.toronto.edu/",
                "https://openaccess.thecvf.com/",
            )
        )
        widths = [v for k, v in entry.tiny.items() if isinstance(v, int) and k != "layers"]
        assert max(widths, default=0) <= 16
    apart = {
        "memory", "language", "reading", "graphs", "classification", "entailment", "tagging",
        "images",
    }  # fmt: skip
    generators = [name for name in catalog.names() if not apart & {*catalog.entry(name).tasks}]
    writes = [name for name in generators if "translation" in catalog.entry(name).tasks]
    assert catalog.names("translation") == catalog.names("pronunciation") == writes
    assert len(writes) >= 11
    years = [catalog.entry(name).year for name in catalog.names()]
    assert years == sorted(years)
    assert catalog.names("memory") == ["memn2n"]
    assert catalog.names("reading") == ["as-reader", "aoa"]
    assert catalog.names("graphs") == ["gcn", "gat"]
    assert {"cnn", "han", "self-attentive", "bilstm", "disan"} <= {*catalog.names("classification")}
    assert {*catalog.names("entailment")} == {*catalog.names("similarity")}
    assert catalog.names("images") == ["ram", "vgg", "resnet", "ma-cnn"]
    assert catalog.names("captions") == []


VOCABULARIES = ("source_vocab_size", "target_vocab_size")
GIVEN = {
    "classification": ("vocab_size", "num_classes"),
    "entailment": ("vocab_size", "num_classes"),
    "graphs": ("in_features", "num_classes"),
    "images": ("in_channels", "num_classes"),
    "language": ("vocab_size",),
    "memory": ("vocab_size", "num_answers"),
    "parsing": VOCABULARIES,
    "reading": ("vocab_size", "num_pointers"),
    "tagging": ("vocab_size", "num_tags"),
    "relations": ("vocab_size", "num_relations", "num_names"),
    "relation-classification": ("vocab_size", "num_classes"),
    "summarization": VOCABULARIES,
    "captioning": ("in_channels", "target_vocab_size"),
    "video": ("in_channels", "target_vocab_size"),
    "speech": ("source_dim", "target_vocab_size"),
    "speech-ctc": ("source_dim", "target_vocab_size"),
    "translation": VOCABULARIES,
}
"""What the data of a task say to a model, under PyTorch's and Hugging Face's names."""


@pytest.mark.parametrize("name", catalog.names())
def test_each_class_takes_its_tiny_arguments(name):
    kind = catalog.load(name)
    names = inspect.signature(kind).parameters
    assert set(catalog.entry(name).tiny) <= set(names)
    own = {
        "num_features", "num_characters", "num_auxiliary", "num_cues", "feature_columns",
    } & optional_of_data(kind)  # fmt: skip
    needed = tuple(given for given in given_by_data(kind) if given not in own)
    task = catalog.entry(name).tasks[0]
    assert needed == GIVEN[{"similarity": "entailment"}.get(task, task)]


def test_a_model_for_another_task_is_refused_by_what_its_data_give():
    gives = {"vocab_size": 9, "num_pointers": 1}
    assert catalog.build("aoa", gives, {"embed": 4, "hidden": 3}).vocab_size == 9
    said = (
        "model.name: gcn is a model for graphs, built from in_features and num_classes; this "
        "task's data give vocab_size and num_pointers"
    )
    with pytest.raises(RequestError) as caught:
        catalog.build("gcn", gives, {})
    assert str(caught.value) == said


@pytest.mark.parametrize("name", catalog.names())
def test_the_source_is_read_as_python_reads_it(name):
    """What `models NAME` shows without importing is what importing shows."""
    kind = catalog.load(name)
    source = read_class(catalog.entry(name).target)
    assert source.file.samefile(inspect.getfile(kind))
    parameters = inspect.signature(kind).parameters
    assert [p.name for p in source.parameters] == list(parameters)
    for p in source.parameters:
        default = parameters[p.name].default
        if default is inspect.Parameter.empty:
            assert p.default is None
        else:
            assert p.default is not None
            assert eval(p.default, vars(inspect.getmodule(kind))) == default
    assert source.arguments == inspect.getdoc(kind)
    assert source.paper == inspect.getdoc(inspect.getmodule(kind))


def test_the_table_has_a_line_for_each(capsys):
    ran = run(capsys, "models")
    assert ran.code == 0
    rows = ran.out.splitlines()[1 : 1 + len(catalog.names())]
    assert [line.split()[0] for line in rows] == catalog.names()
    assert ran.out.splitlines()[-1].endswith(": " + ", ".join(places.shipped()))


def test_one_model_shows_equations_defaults_and_place(capsys):
    ran = run(capsys, "models", "transformer")
    assert ran.code == 0
    for text in ("softmax(Q K^T", "dim: int = 512", "transformer.py:", "arxiv.org/abs/1706.03762"):
        assert text in ran.out


def test_json(capsys):
    rows = run(capsys, "models", "--task", "translation", "--json").result["models"]
    assert [r["name"] for r in rows] == catalog.names("translation")
    one = run(capsys, "models", "transformer", "--json").result
    assert {"name": "dim", "type": "int", "default": "512"}.items() <= one["constructor"][2].items()
    assert one["axes"]["score"] == "scaled dot"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["transfomer"], "no model is called 'transfomer': did you mean 'transformer'?"),
        (["--task", "trans"], "no model is for the task 'trans'"),
    ],
)
def test_unknown_names_get_the_nearest(capsys, words, said):
    ran = run(capsys, "models", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_load_refuses_unknown_names():
    with pytest.raises(RequestError, match="did you mean 'luong'"):
        catalog.load("luon")


def test_what_runs_the_decoder_of_a_folder_is_explained(capsys):
    if native.level() in ("none", "portable"):
        pytest.skip("there is no C with vector instructions")
    ran = run(capsys, "models", "parser-small", "--explain")
    assert "a recorded program" in ran.out
    assert "its own encoder; no program: it cannot be recorded" in ran.out
    assert "by NumPy, without PyTorch" in ran.out
    for name, backend in (
        ("de-en-small", "program"),
        ("digits-small", "program"),
        ("emoji-small", "program"),
        ("relations-small", "none"),
    ):
        found = run(capsys, "models", name, "--explain", "--json").result
        assert found["backend"] == backend
        assert bool(found.get("encoder")) is (name == "de-en-small")
        assert found["program"] == (name in ("de-en-small", "relations-small"))
    assert "--explain: expected a trained folder" in run(capsys, "models", "--explain").err
    ran = run(capsys, "models", "rnnsearch", "--explain")
    assert ran.code
    assert "no model folder 'rnnsearch'" in ran.err
