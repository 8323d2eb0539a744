"""Word alignments of a model whose attention is known, and what becomes of unknown words."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import decode, tasks, watch
from regard.attention import Attention, Dot, Lengths
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.inference import alignment, unknown_words
from regard.losses import guided_alignment
from regard.protocols import BOS, EOS, UNK, Decoding, Encoded, Output, lengths_of
from regard.tasks.prediction import Prediction
from regard.views.word_pieces import WordPieces
from tests.cli.run import run
from tests.cli.toy import _loads, folder, layered, load_once
from tests.folder import toy

__all__ = ["_loads", "folder", "layered", "load_once"]
pytestmark = pytest.mark.usefixtures("load_once")

TASK = tasks.load("translation")()
GREEDY = decode.build({"name": "greedy"})


class Mirror(nn.Module):
    """Writes the source backwards and looks at the very place it copies; unknown words stay so."""

    normalized = False

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.sharp = size, nn.Parameter(torch.tensor(50.0))
        self.attention = Attention(score=Dot())

    def encode(self, source, lengths=None):
        lengths = lengths_of(source, lengths)
        return Encoded(source, lengths, lengths)

    def start(self, encoded):
        ids, lengths = encoded.states, encoded.lengths
        places = torch.eye(ids.shape[1]).expand(len(ids), -1, -1)
        memory = self.attention.remember(
            places, F.one_hot(ids, self.size).float(), mask=Lengths(lengths)
        )
        return Decoding({"source": memory, "lengths": lengths}, {"count": lengths[:, None] * 0})

    def _look(self, count, lengths, memory):
        at = lengths[:, None] - 2 - count  # EOS stands at lengths - 1
        at = torch.where(at < 0, lengths[:, None] - 1, at)
        query = self.sharp * F.one_hot(at, memory.key.shape[-2]).float()
        return self.sharp * self.attention(query, memory).context

    def step(self, tokens, decoding):
        count = decoding.carried["count"]
        logits = self._look(count, decoding.memories["lengths"], decoding.memories["source"])
        return logits, decoding.advance(count=count + 1)

    def forward(self, source, target_in, lengths=None):
        decoding = self.start(self.encode(source, lengths))
        count = torch.arange(target_in.shape[1]).expand(len(source), -1)
        return Output(self._look(count, decoding.memories["lengths"], decoding.memories["source"]))


def mirrored(kind, *texts, size=60, **options):
    tokenizer = Tokenizer.train(["la casa verde", "un gato negro"] * 3, kind=kind, vocab_size=size)
    both = {"source": tokenizer, "target": tokenizer}
    model = Mirror(len(tokenizer))
    found = TASK.predict(model, list(texts), GREEDY, both)
    return model, both, alignment.align(model, found, both, **options)


def test_words_are_linked_to_where_they_were_copied_from():
    _, _, found = mirrored("words", "la casa verde", "", "gato", "un gato negro verde")
    assert [p.output for p in found] == ["verde casa la", "", "gato", "verde negro gato un"]
    assert found[0].alignment == ((2, 0), (1, 1), (0, 2))
    assert found[1].alignment == ()
    assert found[2].alignment == ((0, 0),)
    assert found[3].alignment == ((3, 0), (2, 1), (1, 2), (0, 3))


def test_the_row_after_may_be_the_words_own():
    _, _, found = mirrored("words", "la casa verde", row="input")
    assert found[0].alignment == ((1, 0), (0, 1))  # nothing is written behind the last word


def test_pieces_are_joined_by_sums_over_the_source_and_means_over_the_target():
    generator = torch.Generator().manual_seed(3)
    weights = torch.rand(5, 6, generator=generator).softmax(-1)
    target, source = [[0], [1, 2, 3]], [[0, 1], [2], [3, 4]]  # row 4 and column 5 are the ends
    found = alignment.word_weights(weights, target, source)
    for j, rows in enumerate(target):
        for i, columns in enumerate(source):
            total = 0.0
            for row in rows:
                for column in columns:
                    total += float(weights[row, column])
            assert float(found[j, i]) == pytest.approx(total / len(rows), abs=1e-6)


def test_an_unknown_word_becomes_what_it_was_copied_from_or_what_the_lexicon_says():
    model, both, found = mirrored("words", "la Zebra verde", "un gato")
    assert UNK in found[0].ids
    assert found[0].output == "verde la"  # what is unknown is left out of a text
    copied = unknown_words.replace_unknown(found, both)
    assert [p.output for p in copied] == ["verde Zebra la", "gato un"]
    named = unknown_words.replace_unknown(found, both, {"Zebra": "zebra", "gato": "cat"})
    assert [p.output for p in named] == ["verde zebra la", "gato un"]  # known words are left alone
    assert (
        unknown_words.replace_unknown(TASK.predict(model, ["la Zebra"], GREEDY, both), both)[0]
        is not None
    )


def test_letters_are_their_own_words():
    _, both, found = mirrored("characters", "gaXto")
    assert found[0].output == "otag"
    assert found[0].alignment == ((4, 0), (3, 1), (2, 2), (1, 3), (0, 4))
    assert unknown_words.replace_unknown(found, both)[0].output == "otXag"


def test_a_word_of_pieces_with_an_unknown_one_is_replaced_whole():
    _, both, found = mirrored("bpe", "la ☃ verde", size=50)
    sides = {j: i for i, j in found[0].alignment}
    assert sides  # the pieces of a mirrored word are in no order; its links are words all the same
    assert "☃" in unknown_words.replace_unknown(found, both)[0].output


def test_alternatives_are_aligned_too_and_nothing_else_changes():
    made = toy.tokenizers(shared=False)
    model = toy.model_of("rnnsearch", made)
    beam = decode.build({"beam_size": 3, "n_best": 3, "max_length": 8})
    plain = TASK.predict(model, toy.GERMAN[:2], beam, made)
    found = alignment.align(model, plain, made)
    for before, after in zip(plain, found, strict=True):
        assert (before.output, before.ids, before.score) == (after.output, after.ids, after.score)
        assert len(after.alternatives) == 2
        for one in (after, *after.alternatives):
            written = [i for i in one.ids if i != EOS]
            count = 1 + max(made["target"].words(written), default=-1)
            assert [j for _, j in one.alignment] == list(range(count))
            assert all(0 <= i < len(one.input.split()) for i, _ in one.alignment)
    assert all(p.alignment is None for p in plain)
    assert "alignment" not in plain[0].as_json()


def test_one_attention_or_one_head_may_be_named():
    made = toy.tokenizers(shared=True)
    model = toy.model_of("transformer", made, layers=2)
    found = TASK.predict(model, toy.GERMAN[:3], GREEDY, made)
    ids = torch.tensor([[*made["source"].encode(toy.GERMAN[0]).ids, EOS]])
    with watch(model) as seen, torch.inference_mode():
        model(ids, torch.tensor([[BOS, *found[0].ids]]))
    for head in (1, 2):
        name = "decoder.1.cross_attention"
        one = alignment.align(model, found, made, attention="*.1.cross*", head=head)[0]
        weights = seen[name].weights[0, head - 1].numpy()
        heard = made["source"].encode(toy.GERMAN[0]).words
        said = made["target"].words([i for i in found[0].ids if i != EOS])
        for i, j in one.alignment:
            sums = [
                np.mean([
                    sum(weights[t, s] for s in range(len(heard)) if heard[s] == word)
                    for t in range(len(said)) if said[t] == j
                ])
                for word in range(max(heard) + 1)
            ]  # fmt: skip
            assert i == int(np.argmax(sums))
    with pytest.raises(RequestError, match="no attention to the source is called 'encoder"):
        alignment.align(model, found, made, attention="encoder.0.self_attention")
    with pytest.raises(RequestError, match="heads 1 to 2; there is no head 3"):
        alignment.align(model, found, made, head=3)


def test_a_model_that_looks_at_nothing_says_so():
    made = toy.tokenizers(shared=True)
    model = toy.model_of("seq2seq", made)
    with pytest.raises(RequestError, match="looks at no source"):
        alignment.align(model, TASK.predict(model, toy.GERMAN[:1], GREEDY, made), made)


def test_token_scores_add_up_to_the_log_probability():
    _, _, (found,) = mirrored("words", "la casa verde")
    json_ = found.as_json()
    assert sum(t["score"] for t in json_["tokens"]) == pytest.approx(json_["log_prob"])
    assert json_["score"] == pytest.approx(json_["log_prob"] / len(found.tokens))  # power 1


def test_lexicons(tmp_path):
    path = tmp_path / "words.tsv"
    path.write_text("Haus\thouse\n\nHund\tdog\nHaus\thome\n")
    assert unknown_words.read_lexicon(path) == {"Haus": "house", "Hund": "dog"}
    path.write_text("Haus\thouse\nHund dog\n")
    with pytest.raises(RequestError, match=r"words.tsv:2: expected a word, a tab"):
        unknown_words.read_lexicon(path)


def test_the_command_writes_links_behind_each_line_and_into_json(capsys, layered, tmp_path):
    texts = ["die Datei wird", "", "ein Hund"]
    ran = run(capsys, "predict", layered, *texts, "--align")
    lines = ran.out.splitlines()
    assert len(lines) == 3
    assert lines[1] == ""
    ran = run(capsys, "predict", layered, *texts, "--align", "--json")
    found = [json.loads(line) for line in ran.out.splitlines()]
    for line, one in zip(lines, found, strict=True):
        links = " ".join(f"{i}-{j}" for i, j in one.get("alignment", []))
        assert line == (f"{one['output']} ||| {links}" if one["output"] else "")
    named = run(
        capsys, "predict", layered, *texts, "--align", "--head", "2", "--attention", "*.0.*"
    )
    assert named.code == 0
    for wrong in (["--head", "2"], ["--align", "--attention", "foo"]):
        ran = run(capsys, "predict", layered, *texts, *wrong)
        assert ran.code == 2
        assert len(ran.err.splitlines()) == 1
    (tmp_path / "lexicon.tsv").write_text("a b\n")
    ran = run(capsys, "predict", layered, *texts, "--lexicon", str(tmp_path / "lexicon.tsv"))
    assert (ran.code, "lexicon.tsv:1" in ran.err) == (2, True)


CHINESE = ["我爱你", "他说我爱你", "你们说工具", "工具好"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters", "segmented"])
@pytest.mark.parametrize("segmenter", [None, "letters"])
def test_text_without_blanks_is_linked_letter_by_letter(kind, segmenter):
    segmenter = "letters" if kind == "segmented" else None if kind == "characters" else segmenter
    tokenizer = Tokenizer.train(CHINESE * 5, kind, 60, segmenter=segmenter)
    both = {"source": tokenizer, "target": tokenizer}
    model = Mirror(len(tokenizer))
    (found,) = alignment.align(model, TASK.predict(model, ["他说我爱你"], GREEDY, both), both)
    words = [alignment.split_words(tokenizer, text) for text in (found.input, found.output)]
    assert words[0] == [*"他说我爱你"]
    assert sorted(words[1]) == sorted(words[0])
    assert {i for i, _ in found.alignment} == {j for _, j in found.alignment} == {*range(5)}
    pieces = WordPieces.of_text(tokenizer, tokenizer.encode("他说我爱你"))
    assert "".join(pieces.texts[:-1]) == "他说我爱你"
    own = [name for name in tokenizer.encode("他说我爱你").tokens if name != "▁"]
    assert len(pieces.texts) - 1 == len(own)
    for i, j in found.alignment:  # each is looked at by itself, in whatever piece it is
        assert any(words[0][i] in piece and words[1][j] in piece for piece in pieces.texts)
    gold = guided_alignment.piece_links([(1, 0)], tokenizer.encode("他说").words, [0])
    assert len(gold) == 1


def test_unknown_letters_are_replaced_without_a_blank():
    both = {"source": Tokenizer.train(CHINESE * 5, "segmented", 60, segmenter="letters")}
    both["target"] = Tokenizer.train(["我你"] * 5, "segmented", 60, segmenter="letters")
    ids = both["target"].encode("我爱你").ids
    one = Prediction("我爱你", "我你", ids=ids, alignment=((0, 0), (1, 1), (2, 2)))
    assert unknown_words.replace_unknown([one], both)[0].output == "我爱你"
    assert unknown_words.replace_unknown([one], both, {"爱": "ai"})[0].output == "我ai你"
