"""Targets that are model folders: one file of an untrained but whole folder is broken."""

import hashlib
import json
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import changed_bytes, changed_json, changed_value
from tests.fuzz.targets import Target

__all__ = ["folder"]


def folder(folder: Path, part: str) -> Target:
    """`part`: config, tokenizer, weights, metrics (of a training that goes on) or labels."""
    return {
        "config": _config, "tokenizer": _tokenizer, "weights": _weights, "metrics": _metrics,
        "labels": _labels,
    }[part](folder)  # fmt: skip


def _config(folder: Path) -> Target:
    from regard import loading
    from tests.folder import toy

    made = [toy.make(folder / name, name) for name in ("rnnsearch", "transformer")]
    seeds = [(one / "config.json").read_bytes() for one in made]

    def use(content: bytes) -> Any:
        # Broken bytes have no name of a model: either folder then says so.
        one = made[1] if b'"transformer"' in content else made[0]
        (one / "config.json").write_bytes(content)
        return repr(loading.load(one))

    return Target(seeds, use, changed_json)


def _tokenizer(folder: Path) -> Target:
    from regard import loading
    from tests.folder import toy

    kinds = ("bpe", "words", "characters")
    made = [toy.make(folder / kind, "rnnsearch", kind=kind) for kind in kinds]
    seeds = [(one / "tokenizer.source.json").read_bytes() for one in made]
    assert (made[0] / "tokenizer.target.json").is_file()

    def use(content: bytes) -> Any:
        (made[0] / "tokenizer.source.json").write_bytes(content)
        loaded = loading.load(made[0])
        ids = loaded.tokenizers["source"].encode("das Fenster, ä \U0001f600").ids
        return loaded.tokenizers["source"].decode(ids)

    return Target(seeds, use, changed_json)


def changed_weights(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A safetensors file whose header was changed; at times its bytes."""
    seed = rng.choice(seeds)
    if rng.random() < 0.4:
        return changed_bytes(rng, [seed])
    size = struct.unpack_from("<Q", seed)[0]
    head, body = seed[8 : 8 + size], seed[8 + size :]
    if rng.random() < 0.7:
        head = json.dumps(changed_value(rng, json.loads(head))).encode()
    else:
        head = changed_bytes(rng, [head])
    told = rng.choice((len(head), len(head), len(head), 2**63, 2**40, 10**9, 0))
    return struct.pack("<Q", told) + head + body


def _weights(folder: Path) -> Target:
    from regard import loading
    from tests.folder import toy

    one = toy.make(folder / "toy", "rnnsearch")
    config = json.loads((one / "config.json").read_text())

    def use(content: bytes) -> Any:
        (one / "model.safetensors").write_bytes(content)
        config["weights"]["sha256"] = hashlib.sha256(content).hexdigest()
        (one / "config.json").write_text(json.dumps(config))
        return repr(loading.load(one))

    return Target([(one / "model.safetensors").read_bytes()], use, changed_weights)


def _metrics(folder: Path) -> Target:
    """What a training finds in its folder when it is started again."""
    from regard import recipe
    from regard.train.run import _finished
    from tests.fuzz.seeds import TEXTS

    (folder / "in.yaml").write_bytes(TEXTS["recipe"][0])
    mine = recipe.load(folder / "in.yaml").check()
    (folder / "recipe.yaml").write_text(mine.dump())
    (folder / "config.json").write_text("{}")

    def use(content: bytes) -> Any:
        (folder / "metrics.json").write_bytes(content)
        return _finished(mine, folder)

    return Target([b'{"metrics": {"bleu": 1.5}, "dev": {}}'], use, changed_json)


def _labels(folder: Path) -> Target:
    """The files of other fields: labels, tags, predicates, words and what belongs to them."""
    from regard import loading
    from regard.fields import saved

    tasks, seeds, texts = {}, [], {}
    for name in (
        "aspects-small",
        "movie-reviews-small",
        "roles-small",
        "digits-small",
        "emoji-small",
        "relations-small",
    ):
        loaded = loading.load(name)
        (folder / name).mkdir(exist_ok=True)
        tasks[name], texts[name] = loaded.task, saved.files_of(loaded.fields)
        for file, text in texts[name].items():
            content = _few(json.loads(text))
            (folder / name / file).write_text(json.dumps(content))
            texts[name][file] = json.dumps(content)
            seeds.append(json.dumps({"of": name, "file": file, "content": content}).encode())

    def use(content: bytes) -> Any:
        asked = json.loads(content)
        here, task = folder / asked["of"], tasks[asked["of"]]
        (here / asked["file"]).write_text(json.dumps(asked["content"]))
        try:
            return task.model_arguments(saved.read_fields(task.fields(), here))
        finally:
            (here / asked["file"]).write_text(texts[asked["of"]][asked["file"]])

    def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
        seed = json.loads(rng.choice(seeds))
        seed["content"] = changed_value(rng, seed["content"])
        return json.dumps(seed).encode()

    return Target(seeds, use, mutate)


def _few(value: Any) -> Any:
    """The same with short lists, so that thousands are read a second."""
    if isinstance(value, dict):
        return dict([(k, _few(v)) for k, v in value.items()][:40])
    return [_few(one) for one in value[:8]] if isinstance(value, list) else value
