"""Perplexity of n-gram counts on the data of a recipe of the task language: what a network has to
beat.

    python benchmarks/ngrams.py memory/memn2n-lm --order 3

Same texts, same vocabulary, same counting of words as `regard evaluate`; lines are counted and
judged one by one, with Witten-Bell smoothing (`regard.data.text.ngrams`). One line of JSON.
"""

import argparse
import json
import math
import time

from regard import recipe, tasks
from regard.data.text.ngrams import NGrams
from regard.metrics import bootstrap, perplexity
from regard.protocols import EOS


def main() -> None:
    """Count on train, judge test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("changes", nargs="*")
    parser.add_argument("--order", type=int, default=3)
    asked = parser.parse_args()
    found = recipe.load(asked.recipe, asked.changes)
    settings = {key: value for key, value in found.task.items() if key != "name"}
    data = tasks.load("language")(**settings).data(found.data)
    started = time.process_time()
    model = NGrams(lines(data.train.ids), asked.order)
    judged = [log_prob(model, line) for line in lines(data.test.ids)]
    score = perplexity(judged, data.test.words.tolist())
    low, high, *_ = bootstrap(score.sums)
    told = {"recipe": found.name, "order": asked.order, "perplexity": round(score.value, 2)}
    told |= {"interval": [round(low, 2), round(high, 2)], "words": score.parts["words"]}
    print(json.dumps({**told, "cpu": round(time.process_time() - started, 1)}))


def lines(ids):
    """The lines of a text in ids, without their ends."""
    line = []
    for word in ids[1:].tolist():
        if word == EOS:
            yield line
            line = []
        else:
            line.append(word)


def log_prob(model: NGrams, line) -> float:
    """Of a line and its end."""
    words = [*["\n"] * (model.order - 1), *line, "\n"]
    places = range(model.order - 1, len(words))
    return math.fsum(
        math.log(model.probability(words[at], words[max(at - model.order + 1, 0) : at]))
        for at in places
    )


if __name__ == "__main__":
    main()
