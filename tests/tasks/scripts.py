"""Data in twenty scripts, in NFC or NFD, for every task that reads texts alone."""

import json
import random
import unicodedata
from functools import partial

from regard.data.annotations.documents import Mention, Relation, RelationDocument
from regard.data.formats.documents import write as write_documents

SCRIPTS = {
    "Latin": "café naïve e\u0323\u0302te Zoë",
    "Vietnamese": "Tiếng Việt được người",
    "Greek": "καλημέρα κόσμε ᾧ ἄνθρωπος",
    "Cyrillic": "мой йод ёж їжак",
    "Armenian": "բարեւ աշխարհ և մարդ",
    "Georgian": "გამარჯობა ქართული ენა წყალი",
    "Hebrew": "שָׁלוֹם עוֹלָם בַּיִת סֵפֶר",
    "Arabic": "مَرْحَبًا آدم كِتَابٌ مُؤَلِّف",
    "Devanagari": "की हिन्दी क़लम फ़िल्म",
    "Bengali": "বাংলা ভাষা ঢাকো পড়া",
    "Tamil": "தமிழ் மொழி கொடு போ",
    "Thai": "กิน น้ำ ข้าว ที่",
    "Lao": "ກິນ ນ້ຳ ເຂົ້າ ຢູ່",
    "Burmese": "မြန်မာ စာ ဦး ကို",
    "Khmer": "ភាសា ខ្មែរ ទឹក បាយ",
    "Ethiopic": "ሰላም ዓለም ውሃ ቤት",
    "Hangul": "안녕 세계 물 한국",
    "Japanese": "ガギグ パン ばら ヴァイオリン",
    "Han": "我们 爱 你们 水",
    "Tibetan": "བོད སྐད གྷཱ ཆུ",
}
"""Of each script four words; those of most are written otherwise in NFD."""

SETTINGS = {"tagging": {"features": ["pos"], "characters": True}, "reading": {"answer": "span"}}
SIZES = {"train": 40, "dev": 8, "test": 20}
ENDINGS = {
    "pronunciation": "tsv", "tagging": "conll", "parsing": "trees", "memory": "txt",
    "language": "txt", "reading": "json", "relations": "txt", "relation-classification": "txt",
}  # fmt: skip
MODELS = {
    "classification": "self-attentive", "entailment": "decomposable", "similarity": "mpcnn",
    "summarization": "pointer-generator", "translation": "rnnsearch", "language": "memn2n-lm",
    "memory": "memn2n", "parsing": "rnnsearch", "pronunciation": "conditional-gru",
    "tagging": "bilstm-crf", "reading": "aoa", "relations": "bran",
    "relation-classification": "att-blstm",
}  # fmt: skip
DATA = {
    "summarization": {"tokenizer": {"kind": "spaced", "vocab_size": 40, "shared": True}},
    "translation": {"tokenizer": {"kind": "bpe", "vocab_size": 150}},
    "relations": {"tokenizer": {"vocab_size": 150}},
    "relation-classification": {"format": "semeval"},
    "memory": {"format": "babi"},
    "tagging": {"columns": {"text": 1, "tags": 2, "pos": 3}},
}


def sentences(count, seed):
    """Four words each of one script, mixed; a script has the turn that its number says."""
    draw, names = random.Random(seed), list(SCRIPTS)
    for n in range(count):
        words = SCRIPTS[names[(n + seed) % len(names)]].split()
        yield n, [draw.choice(words) for _ in range(4)]


def row(task, n, words):
    """A row of a table."""
    text = " ".join(words)
    if task in ("summarization", "translation"):
        return {"source": text, "target": " ".join(words[:2])}
    label = ("पढ़ो", "été")[n % 2]
    if task == "classification":
        return {"text": text, "label": label}
    names = ("premise", "hypothesis") if task == "entailment" else ("a", "b")
    sides = dict(zip(names, (text, " ".join(words[::-1])), strict=True))
    return sides | {"score": n % 5, "label": label}


def write(task, folder, form):
    """Train, dev and test of a task, every text in one normal form."""
    normal = partial(unicodedata.normalize, form)
    folder.mkdir(parents=True)
    for seed, (split, size) in enumerate(SIZES.items(), 1):
        found = [(n, [normal(word) for word in words]) for n, words in sentences(size, seed)]
        file = folder / f"{split}.{ENDINGS.get(task, 'jsonl')}"
        if task == "relations":
            write_documents([document(n, words, normal) for n, words in found], file, "pubtator")
            continue
        if task == "reading":
            file.write_text(json.dumps({"data": [article(words) for _, words in found]}))
            continue
        lines = [unicodedata.normalize(form, line(task, n, words)) for n, words in found]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def line(task, n, words):
    text = " ".join(words)
    if task == "language":
        return text
    if task == "memory":
        return f"1 {text}.\n2 {words[1]} {words[0]}.\n3 {text}?\t{words[0]}\t1"
    if task == "parsing":
        return "(S " + " ".join(f"(NN {word})" for word in words) + ")"
    if task == "pronunciation":
        return f"{words[0]}\t{words[1]} {words[2]}"
    if task == "tagging":
        rows = zip(words, ("B-ŽENA", "I-ŽENA", "O", "B-மொ"), ("é", "ガ", "é", "한"), strict=True)
        return "\n".join(map(" ".join, rows)) + "\n"
    if task == "relation-classification":
        marked = f"<e1>{words[0]}</e1> {words[1]} <e2>{words[2]}</e2> {words[3]}"
        label = "AB"[n % 2]
        return f'{n}\t"{marked}"\n{label}(e1,e2)\nComment:\n'
    return json.dumps(row(task, n, words), ensure_ascii=False)


def article(words):
    """One paragraph with a question about its second word."""
    text = " ".join([*words, *words[::-1]])
    start = len(words[0]) + 1
    answers = [{"text": words[1], "answer_start": start}]
    asked = {"id": "1", "question": f"{words[0]} {words[2]}?", "answers": answers}
    return {"title": words[0], "paragraphs": [{"context": text, "qas": [asked]}]}


def document(n, words, normal):
    """A title and an abstract with a drug, a harm and their relation."""
    text = " ".join([*words, *words])
    first, third = len(words[0]), len(" ".join(words[:2])) + 1
    spans = ((0, first), "Žena", "A"), ((third, third + len(words[2])), "パン", "B")
    mentions = tuple(Mention((span,), normal(kind), (name,)) for span, kind, name in spans)
    title = len(" ".join(words)) + 1
    return RelationDocument(
        str(n), text, mentions, (Relation(normal("été"), "A", "B"),), (0, title)
    )
