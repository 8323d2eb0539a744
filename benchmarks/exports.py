"""An exported model against the model here: outputs, scores, BLEU and CPU time in CTranslate2.

    python benchmarks/exports.py de-en-small mt/de-en/test.tsv.gz other en [SENTENCES]

One thread for both. Searches are asked for alike: `patience=1` and a fixed limit here,
`return_end_token=True` there (docs/howto/other-formats.md). A JSON line for each search and
precision.
"""

import csv
import gzip
import json
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import torch

import regard
from regard.convert import export
from regard.data.sources import find
from regard.metrics import bleu

LIMIT = {"max_ratio": 0.0, "max_extra": 200}
SEARCHES = {
    "greedy": ({"name": "greedy", **LIMIT}, {"beam_size": 1}),
    "beam 5": ({"patience": 1.0, **LIMIT}, {"beam_size": 5, "length_penalty": 1.0}),
}


def main(name: str, data: str, source: str, target: str, most: str = "1000000") -> None:
    import ctranslate2

    torch.set_num_threads(1)
    loaded = regard.load(name)
    with gzip.open(find(data), "rt", encoding="utf-8") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = list(islice(reader, int(most)))
    texts, references = ([row[side] for row in rows] for side in (source, target))
    pieces = [[*loaded.tokenizers["source"].encode(text).tokens, "</s>"] for text in texts]
    words = loaded.tokenizers["target"]
    numbers = {token: i for i, token in enumerate(words.vocabulary)}
    with tempfile.TemporaryDirectory() as folder:
        for precision in (None, "int8"):
            out = Path(folder, str(precision))
            export(name, "ctranslate2", out, quantization=precision)
        for search, (own, theirs) in SEARCHES.items():
            began = time.process_time()
            ours = loaded.predict(texts, **own)
            seconds = time.process_time() - began
            score = bleu([p.output for p in ours], [[r] for r in references]).value
            for precision in (None, "int8"):
                engine = ctranslate2.Translator(
                    str(Path(folder, str(precision))), intra_threads=1, inter_threads=1
                )
                began = time.process_time()
                found = engine.translate_batch(
                    pieces,
                    max_batch_size=32,
                    max_decoding_length=LIMIT["max_extra"],
                    return_scores=True,
                    return_end_token=True,
                    **theirs,
                )
                took = time.process_time() - began
                outputs = [words.decode(map(numbers.__getitem__, f.hypotheses[0])) for f in found]
                equal = [p.tokens == f.hypotheses[0] for p, f in zip(ours, found, strict=True)]
                gaps = [
                    abs(p.score - f.scores[0])
                    for p, f, same in zip(ours, found, equal, strict=True)
                    if same
                ]
                line = {
                    "search": search, "precision": precision or "float32",
                    "sentences": len(texts), "equal": sum(equal), "score_gap": max(gaps),
                    "bleu": round(score, 2),
                    "bleu_exported": round(bleu(outputs, [[r] for r in references]).value, 2),
                    "cpu_seconds": round(seconds, 1), "cpu_seconds_exported": round(took, 1),
                }  # fmt: skip
                sys.stdout.write(json.dumps(line) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
