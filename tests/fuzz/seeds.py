"""Small whole inputs of every text format that is read; what is broken is made of them."""

import json

__all__ = ["COLUMNS", "TEXTS"]

PUBTATOR = (
    "227508|t|Naloxone reverses the effect of clonidine.\n"
    "227508|a|In rats nalozone did it. No fever.\n"
    "227508\t0\t8\tNaloxone\tChemical\tD009270\n"
    "227508\t32\t41\tclonidine\tChemical\tD003000|D1\tnote\n"
    "227508\t46\t50\trats\tSpecies\t-1\n"
    "227508\tCID\tD009270\tD003000\n\n"
    "7|t|A title\n7|a|\n7\t2\t7\ttitle\tX\t-\n"
)
BIOC = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>a</source><document><id>1</id>
<passage><offset>0</offset><text>Naloxone reverses it.</text>
<annotation id="a"><infon key="type">Chemical</infon><infon key="MESH">D1</infon>
<location offset="0" length="8"/><text>Naloxone</text></annotation></passage>
<passage><offset>22</offset><text>Rats &amp; mice.</text>
<annotation id="b"><infon key="type">Species</infon><infon key="identifier">D2</infon>
<location offset="22" length="4"/><text>Rats</text></annotation></passage>
<relation id="r"><infon key="type">CID</infon><node refid="a" role="x"/><node refid="b" role="y"/>
</relation></document></collection>
"""
DOCUMENT = {
    "id": "1", "text": "Naloxone reverses it. Rats.",
    "mentions": [
        {"start": 0, "end": 8, "type": "Chemical", "concepts": ["D1"]},
        {"spans": [[22, 26]], "type": "Species", "concepts": []},
    ],
    "relations": [{"type": "CID", "head": "D1", "tail": "D1"}],
}  # fmt: skip
SQUAD = {"version": "1.1", "data": [{"title": "t", "paragraphs": [{
    "context": "The cat sat on a mat.",
    "qas": [
        {"id": "1", "question": "Who sat?", "answers": [{"text": "cat", "answer_start": 4}]},
        {"id": "2", "question": "Where?", "answers": [], "is_impossible": True},
    ],
}]}]}  # fmt: skip
CONLLU = (
    "# text = He's here\n"
    "1-2\tHe's\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tHe\the\tPRON\tPRP\t_\t3\tnsubj\t_\t_\n"
    "2\t's\tbe\tAUX\tVBZ\t_\t3\tcop\t_\t_\n"
    "3\there\there\tADV\tRB\t_\t0\troot\t_\tx=1\n"
    "3.1\t_\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    "1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n"
)
ROLES = (
    "He     PRP  -    -   (A0*)  (A0*)\n"
    "tried  VBD  try  01  (V*)   *\n"
    "to     TO   -    -   (A1*   *\n"
    "leave  VB   go   01  *)     (V*)\n\n"
    "No     DT   -    -\n"
)
SICK = (
    "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    "1\tA boy runs\tA child runs\t4.5\tENTAILMENT\n"
    "2\tA dog sits\tNo dog sits\t3.1\tCONTRADICTION\n"
)

TEXTS: dict[str, list[bytes]] = {
    "tsv": [
        b"source\ttarget\ndas Haus\tthe house\nein Hund\ta dog\n",
        SICK.replace("sentence_A", "source").replace("sentence_B", "target").encode(),
        "source\ttarget\r\nä\tö\r\n".encode("utf-8-sig"),
    ],
    "csv": [
        b'source;target\n"das; Haus";the house\n"ein\n""Hund""";a dog\n',
        "source,target\r\n\"a\",b\r\n".encode("utf-16"),
    ],
    "json": [b'[{"source": "das Haus", "target": "the house"}, {"source": ["a"], "target": 1}]'],
    "jsonl": [
        b'{"source": "das Haus", "target": "the house"}\n{"source": ["a", "b"], "target": "x"}\n',
        b'{"source": "x", "target": 3, "more": {"a": [1, 2.5, null]}}\n',
    ],
    "moses": [b"das Haus\nein Hund\n", b"the house\na dog\n"],
    "cbt": [
        b"1 The cat sat .\n2 The dog ran .\n3 The XXXXX ran .\tdog\t\tdog|cat|mat\n\n"
        b"1 One .\n2 XXXXX .\tOne\t\tOne|Two\n"
    ],
    "squad": [json.dumps(SQUAD).encode()],
    "babi": [
        b"1 Mary went home.\n2 Bob slept.\n3 Where is Mary?\thome\t1\n1 A b.\n2 C?\tno\t1 2\n"
    ],
    "semeval": [
        b'7\t"The <e1>fire</e1> came from <e2>a spark</e2>."\nCause-Effect(e2,e1)\nComment: x\n\n'
        b"8\tOne <e1>a</e1> <e2>b</e2>\r\nOther\r\n"
    ],
    "trees": [
        b"(TOP (S (NP (PRP I)) (VP (VBP see))))\n",
        b"( (S (NP-SBJ-1 (PRP I)) (-NONE- *T*)\n     (VP (VBP see))) )\n# c\n(S (X a) (. .))\n",
    ],
    "conll": [
        b"-DOCSTART- -X- -X- O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nGo VB B-VP O\n",
        b"# global.columns = FORM POS X NER\na\tb\tc\tB-X\nd\te\tf\tI-X\n",
    ],
    "conllu": [CONLLU.encode()],
    "conll2005": [ROLES.encode()],
    "pubtator-tags": [PUBTATOR.encode()],
    "pubtator": [PUBTATOR.encode()],
    "bioc": [BIOC.encode()],
    "documents": [(json.dumps(DOCUMENT) + "\n").encode() * 2],
    "vectors": [b"3 4\na 1 2 3 4\nb 0.5 -1 1e-3 7\nc 0 0 0 1\n", b"the 0.1 0.2\ncat 1 2\n"],
    "lexicon": [b"Haus\thouse\nHund\tdog\n\n"],
    "edges": [b"source,target\na,b\na,b\nc,c\n"],
    "nodes": [
        b"id,label,split,w,v\na,dog,train,1,0\nb,cat,val,0,2.5\nc,,,,\nd,cat,test,1,1\n"
    ],
    "recipe": [
        b"model: {name: rnnsearch, embed: 8, hidden: 8}\ntask: {name: pronunciation}\n"
        b"data:\n  path: pronunciation\n  limit: {train: 5}\n"
        b"train:\n  steps: 3\n  batch: {tokens: 64}\n  optimizer: {name: adam, lr: 1e-3}\n"
        b"  schedule: {name: inverse-sqrt, warmup: 20}\n  seed: 1\n"
        b"decode: {name: beam, beam_size: 2}\nexpect:\n  per: [0, 10.5]\ntiny:\n  train.steps: 2\n",
        b"model:\n  name: transformer\n  dim: 16\n  heads: 2\n  layers: 1\n  ffn_dim: 32\n"
        b"task: {name: translation, smoothing: 0.1}\n"
        b"data:\n  path: 'mt-bible-de'  # a comment\n  columns: {source: de, target: en}\n"
        b"  tokenizer: {kind: bpe, vocab_size: 200, shared: true}\ntrain: {epochs: 1, clip: 1.0}\n",
    ],
}  # fmt: skip

COLUMNS: dict[str, dict[str, str | int]] = {
    "tsv": {"source": "source", "target": "target"},
    "csv": {"source": "source", "target": "target"},
    "json": {"source": "source", "target": "target"},
    "jsonl": {"source": "source", "target": "target"},
    "moses": {"source": "de", "target": "en"},
    "cbt": {n: n for n in ("document", "query", "answer", "candidates")},
    "squad": {n: n for n in ("id", "document", "query", "answer", "answers", "starts")},
    "semeval": {n: n for n in ("text", "relation", "number", "comment")},
    "babi": {n: n for n in ("story", "question", "answer", "support", "number")},
    "trees": {"words": "words", "tree": "tree"},
    "conll": {"text": 1, "tags": 4},
    "conllu": {"text": "FORM", "tags": "UPOS"},
    "conll2005": {n: n for n in ("text", "tags", "predicate", "lemma", "pos", "sense")},
    "pubtator-tags": {"text": "text", "tags": "tags", "id": "id"},
    "text-pairs": {"text": "text", "summary": "summary", "name": "name"},
}
