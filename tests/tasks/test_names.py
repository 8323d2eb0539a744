"""Names in PubTator documents: trained on, predicted, and written into the documents again."""

from pathlib import Path

import regard
from regard.data.formats import documents as annotated
from regard.evaluation.scoring import scored
from tests.tasks.labeled import fitted

MODEL = {
    "name": "bilstm-crf", "embed": 12, "hidden": 12, "ffn_dim": None, "dropout": 0.0,
}  # fmt: skip
DOCUMENT = """\
{n}|t|Zorin-induced pain.
{n}|a|{rats} had much pain. It came from Zorin. No rash then.
{n}\t0\t5\tZorin\tChemical\tD1
{n}\t14\t18\tpain\tDisease\tD2
{n}\t{p}\t{q}\tpain\tDisease\tD2
{n}\t{s}\t{t}\tZorin\tChemical\tD1
{n}\t{u}\t{v}\trash\tDisease\tD3
{n}\tCID\tD1\tD2

"""


def documents(count):
    made = []
    for n in range(count):
        rats = ["Rats", "Two rats", "All"][n % 3]
        p = 20 + len(rats) + len(" had much ")
        s = p + 4 + len(". It came from ")
        u = s + 5 + len(". No ")
        made.append(DOCUMENT.format(n=n, rats=rats, p=p, q=p + 4, s=s, t=s + 5, u=u, v=u + 4))
    return made


def test_names_are_learned_and_written_back(tmp_path):
    for split, count in (("train", 24), ("dev", 3), ("test", 3)):
        (tmp_path / f"{split}.pubtator").write_text("".join(documents(count)))
    task = {"name": "tagging", "learned_as": "iobes", "constraints": "scheme"}
    metrics = fitted(tmp_path, tmp_path, MODEL, task, epochs=15)
    assert metrics["metrics"]["f1"] == 100
    loaded = regard.load(tmp_path / "run")
    plain = [line for line in "".join(documents(3)).split("\n") if line.count("\t") != 5]
    bare, told, right = (str(tmp_path / f"{name}.pubtator") for name in ("in", "out", "right"))
    Path(bare).write_text("\n".join(plain))  # without a single name
    found = scored(loaded, bare)
    put = loaded.task.put_back(bare, told, found.predictions, found.examples, found.config)
    assert put == (6, 0)  # titles and abstracts, of four sentences each
    Path(right).write_text("".join(documents(3)))
    said, gold = (
        [[(m.spans, m.type) for m in one.mentions] for _, one in annotated.read(path, "pubtator")]
        for path in (told, right)
    )
    assert said == gold
