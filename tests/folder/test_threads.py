"""One loaded model used by many threads at once."""

import threading

import pytest

from regard import loading, native
from regard.decode.program.recordings import unrecorded_reason
from regard.folder import writing
from tests.folder import toy

THREADS = 8
MODELS = {
    "transformer": {"dim": 32, "heads": 2, "ffn_dim": 32},
    "rnnsearch": {},
    "luong": {},
    "convs2s": {},
}
TEXTS = [*toy.GERMAN[:3], "ein Fenster wird gespeichert .", "", "das ist nicht da ."]
WAYS = [
    {"name": "greedy", "max_length": 8},
    {"beam_size": 3, "n_best": 3, "max_length": 8},
    {"beam_size": 3, "no_repeat_ngram": 2, "prefix": "the", "max_length": 8},
    {"beam_size": 2, "precision": "int8", "max_length": 8},
    *({"name": "sample", "seed": seed, "n_best": 2, "max_length": 8} for seed in (1, 2)),
]


def answers(loaded, order):
    """What each way of decoding gives, alone and by the stream."""
    found = {}
    for at in order:
        way = WAYS[at]
        if "precision" in way and native.level() in ("none", "portable"):
            continue
        found[at] = [p.as_json() for p in loaded.predict(TEXTS, **way)]
        if "n_best" not in way:
            *_, last = loaded.stream(TEXTS[0], **way)
            found[at].append(last.as_json())
    return found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_eight_threads_get_the_answers_of_one(name, tmp_path):
    words, plan = toy.tokenizers(shared=True), toy.recipe(name, **MODELS[name])
    model = toy.model_of(name, words, **MODELS[name])
    if native.library() is not None:
        assert unrecorded_reason(model.eval()) is None
    folder = writing.save_pretrained(
        tmp_path / name, model, task=plan["task"], fields=words, recipe=plan
    )
    expected = answers(loading.load(folder), range(len(WAYS)))
    loaded = loading.load(folder)  # nothing is recorded yet: the threads meet there too
    found, ready = {}, threading.Barrier(THREADS)

    def work(number):
        ready.wait()
        order = [*range(number % len(WAYS), len(WAYS)), *range(number % len(WAYS))]
        try:
            found[number] = [answers(loaded, order) for _ in range(3)]
        except BaseException as error:
            found[number] = error
            raise

    workers = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for number in range(THREADS):
        assert found[number] == [expected] * 3
