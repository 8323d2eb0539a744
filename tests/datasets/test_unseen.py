"""What is said of words that training never saw, and the kind that `auto` chooses."""

import logging

import pytest

from regard import tasks
from regard.data.text.tokenizer import Tokenizer
from regard.datasets.inspection import inspect
from regard.errors import RequestError
from regard.fields import TextField
from regard.tasks.inputs import asked_of

SAID = {
    "blanks": (
        "我们今天去，公园看看。\n工具很好，也好看。", "他们明天，去看书？\n书里，工具好。", {},
        "texts without blanks? try data.tokenizer.kind=segmented",
    ),
    "segmented": (
        "我们今天去，公园看看。\n工具很好，也好看。", "我们看看，公园工具好。", {
            "kind": "segmented", "segmenter": "letters"}, "",
    ),
    "capitals": (
        "Ein Haus Steht Da\nDer Hund Ist Da", "ein haus steht da\nder hund", {"lowercase": False},
        "they are known in other capitals; try data.tokenizer.lowercase=true",
    ),
    "language": (
        "ein haus steht da\nder hund ist da", "a house stands there\nthe dog is here", {},
        "another language or domain than train, or a small vocabulary (11)?",
    ),
    "known": ("ein haus steht da\nder hund ist da", "der hund steht da heute", {}, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
def test_many_unseen_tokens_are_said_with_what_to_try(case, tmp_path, caplog):
    train, dev, tokenizer, said = SAID[case]
    for name, text in (("train", train), ("dev", dev)):
        rows = "".join(f"{n % 2}\t{line}\n" for n, line in enumerate(text.split("\n")))
        (tmp_path / f"{name}.tsv").write_text("label\ttext\n" + rows, encoding="utf-8")
    caplog.set_level(logging.WARNING)
    tasks.load("classification")().data({"path": str(tmp_path), "tokenizer": tokenizer})
    lines = [record.message for record in caplog.records if "never seen" in record.message]
    assert len(lines) == bool(said)
    assert all("tokens of dev (text) were never seen: " + said in line for line in lines)
    unseen = inspect(str(tmp_path))["unseen"]
    assert [row["column"] for row in unseen] == ["text"] * (case not in ("known", "capitals"))
    for row in unseen:
        assert row["split"] == "dev"
        assert 0.3 <= row["share"] <= 1
        assert ("without blanks" in row["why"]) == (case in ("blanks", "segmented"))


def test_kind_auto_is_the_tasks_own_or_segmented(tmp_path):
    chinese = [("我们今天去公园", 0), ("工具很好", 1)] * 3
    english = [("we go to the park", 0), ("it's a good tool", 1)] * 3
    for rows, kind in ((chinese, "segmented"), (english, "wordpunct")):
        text = "label\ttext\n" + "".join(f"{label}\t{one}\n" for one, label in rows)
        (tmp_path / "train.tsv").write_text(text, encoding="utf-8")
        asked = {"kind": "auto"} | ({"segmenter": "letters"} if kind == "segmented" else {})
        data = tasks.load("classification")().data(
            {"path": str(tmp_path), "tokenizer": asked}, splits=["train"]
        )
        assert data.tokenizers["text"].kind == kind
    with pytest.raises(RequestError, match="segmenter: expected with a kind"):
        tasks.load("classification")().data(
            {"path": str(tmp_path), "tokenizer": {"segmenter": "letters"}}, splits=["train"]
        )


@pytest.mark.parametrize("name", ["translation", "classification"])
def test_inputs_of_unknown_letters_are_told(name, caplog):
    caplog.set_level(logging.WARNING)
    kind = "bpe" if name == "translation" else "wordpunct"
    own = TextField.with_tokenizer(Tokenizer.train(["ein haus steht da"] * 3, kind, 60))
    texts = ["ein haus", "ein 好 haus", "我" * 3000 + " da", "steht da"]
    if name == "translation":
        tasks.load(name)().asked(texts, {"source": own, "target": own})
    else:
        asked_of(texts, {"text": own}, ("text",))
    (said,) = [one.message for one in caplog.records]
    assert said.startswith("1 of 4 inputs: half of the letters or more are unknown to the model")
