"""SentencePiece files read without the package: the pieces, ids and texts that Marian's gives."""

import io
import json

import pytest

import regard
from regard.errors import RequestError
from tests.convert.test_huggingface import theirs
from tests.folder.toy import ENGLISH, GERMAN

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")

TEXTS = [
    "das Fenster wird geschlossen .",
    "Die  Straße läuft\u00a0über ﬁne Hunde!",
    "  saved   the file",
    "☃ snow ☃☃ 雪",
    ">>eng<< das Fenster",
    "e\u0301 ½ ＡＢＣ",
]


def trained(texts, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 5), model_writer=model, vocab_size=60,
        hard_vocab_limit=False, minloglevel=2, **options,
    )  # fmt: skip
    return model.getvalue()


def marian(folder, **options):
    """A folder of theirs with both SentencePiece files and one vocabulary."""
    names = ["</s>", "<unk>", ">>eng<<"]
    for side, texts in (("source", GERMAN), ("target", ENGLISH)):
        content = trained(texts, **options)
        (folder / f"{side}.spm").write_bytes(content)
        pieces = sentencepiece.SentencePieceProcessor(model_proto=content)
        names += [pieces.id_to_piece(i) for i in range(3, len(pieces))]
    names = [*dict.fromkeys(names), "<pad>"]
    size = len(names)
    pad = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1}
    theirs(folder, vocab_size=size, decoder_vocab_size=size, **pad)
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text("{}")
    return transformers.MarianTokenizer.from_pretrained(folder)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_pieces_and_ids_are_theirs(tmp_path):
    own, loaded = marian(tmp_path), regard.load(tmp_path)
    source, target = loaded.tokenizers["source"], loaded.tokenizers["target"]
    names = {i: name for name, i in own.get_vocab().items()}
    for text in TEXTS:
        ids = own(text)["input_ids"]
        assert ids[-1] == 0
        assert source.tokens(source.encode(text).ids) == [names[i] for i in ids[:-1]], text
    for text in ENGLISH[:3]:
        ids = own(text_target=text)["input_ids"]
        assert target.tokens(target.encode(text).ids) == [names[i] for i in ids[:-1]]
        assert target.decode(target.encode(text).ids) == text
    assert source.encode_all(TEXTS)[0].tolist() == source.encode(TEXTS[0]).ids
    assert isinstance(loaded.translate(TEXTS[0]), str)


def test_what_is_no_such_model_is_refused(tmp_path):
    marian(tmp_path, model_type="bpe")
    with pytest.raises(RequestError, match=r"source.spm: expected a unigram model"):
        regard.load(tmp_path)
    (tmp_path / "source.spm").write_bytes(b"not a model at all")
    with pytest.raises(RequestError, match=r"source.spm is not a SentencePiece model"):
        regard.load(tmp_path)
