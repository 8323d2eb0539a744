"""Folders of small untrained taggers, with fields learned from a few sentences."""

import gzip
from pathlib import Path

import torch

import regard
from regard import catalog, tasks
from regard.folder import reading, writing

ROLES = """Ann   NNP -    -   (A0*) *
gave  VBD give 01  (V*)  *
Bo    NNP -    -   (A2*) (A0*)
a     DT  -    -   (A1*  *
book  NN  -    -   *     *
to    TO  -    -   *     *
read  VB  read 01  *)    (V*)
.     .   -    -   *     *

Bo    NNP -    -   (A0*)
saw   VBD see  01  (V*)
Ann   NNP -    -   (A1*)
.     .   -    -   *

Di    NNP -    -   (A0*)
left  VBD leave 01 (V*)
.     .   -    -   *

"""


def data(folder: Path, text: str = ROLES, times: int = 20) -> Path:
    """The same sentences in three splits, of roles as in CoNLL-2005."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        with gzip.open(folder / f"{split}.conll.gz", "wt") as file:
            file.write(text * times)
    return folder


def make(folder: Path, model: str, source: dict[str, object], **task: object) -> reading.Loaded:
    """An untrained model folder; weights are spread enough to prefer something."""
    made = tasks.load("tagging")(**task)
    fields = made.data(source).fields
    spec = {**catalog.entry(model).tiny, **made.model_arguments(fields)}
    spec["marks"] = bool(task.get("marks"))
    torch.manual_seed(3)
    built = catalog.load(model)(**spec)
    with torch.no_grad():
        for name in ("embed", "output"):
            weight = built.get_parameter(f"{name}.weight")
            weight.add_(torch.randn_like(weight))
        built.embed.silence()
    section = {"name": "tagging", **task}
    writing.save_pretrained(
        folder, built, task=section, fields=fields,
        recipe={"model": {"name": model, **spec}, "task": section, "data": source},
    )  # fmt: skip
    return regard.load(folder)
