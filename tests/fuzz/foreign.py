"""Targets of `regard convert` and of `regard.load` on folders of other programs."""

import io
import json
import random
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import changed_bytes, changed_json
from tests.fuzz.targets import Target

__all__ = ["foreign"]


def foreign(folder: Path, part: str) -> Target:
    """`part`: a program, of whose model all but the weights is broken; bytes of one; or spm."""
    makers = {"huggingface": _huggingface, "bytes": _bytes, "spm": _spm}
    return makers[part](folder) if part in makers else _program(folder, part)


def _program(folder: Path, origin: str) -> Target:
    """What a checkpoint says beside its weights, and the text files beside it, as one JSON."""
    import torch

    from regard.convert._checkpoint import plain, readable
    from tests.convert.test_checkpoints import MAKERS

    MAKERS[origin](folder)
    (file,) = [*folder.glob("*.pt"), *folder.glob("*.ckpt")]
    content = dict(plain(file))
    heavy = {key: content.pop(key) for key in ("model", "generator", "model_state")
             if key in content}  # fmt: skip
    texts = {one.name: one.read_text() for one in folder.iterdir() if one != file}
    seed = {"content": json.loads(json.dumps(content, default=vars)), "texts": texts}

    def use(given: bytes) -> Any:
        asked = json.loads(given)
        inside = asked.get("content") if isinstance(asked, dict) else None
        torch.save({**heavy, **inside} if isinstance(inside, dict) else inside, file)
        for name in texts:
            written = asked["texts"].get(name) if isinstance(inside, dict) else ""
            said = written if isinstance(written, str) else json.dumps(written)
            (folder / name).write_text(said, "utf-8", "replace")
        with readable(folder, origin):
            return _read(origin, folder)

    def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
        asked = json.loads(seeds[0])
        if not asked["texts"] or rng.random() < 0.5:
            asked["content"] = json.loads(_changed(rng, asked["content"]))
        else:
            name = rng.choice(sorted(asked["texts"]))
            own = asked["texts"][name].encode()
            asked["texts"][name] = changed_bytes(rng, [own]).decode("utf-8", "replace")
        return json.dumps(asked).encode()

    return Target([json.dumps(seed).encode()], use, mutate)


def _changed(rng: random.Random, value: Any) -> bytes:
    """JSON of a changed value."""
    from tests.fuzz.mutate import changed_value

    return json.dumps(changed_value(rng, value)).encode()


def _read(origin: str, folder: Path) -> str:
    from importlib import import_module

    from regard.convert import READERS

    return repr(import_module(READERS[origin]).read(folder).model)


def _huggingface(folder: Path) -> Target:
    """The settings of a folder that `regard.load` reads; at times its list of tokens."""
    from regard import loading
    from regard.convert import export
    from tests.folder import toy

    out = folder / "out"
    export(toy.make(folder / "toy", "transformer"), "huggingface", out)
    tokens = json.dumps({"</s>": 2, "das": 5, "<unk>": 3}).encode()
    seeds = [(out / "config.json").read_bytes(), tokens]

    def use(content: bytes) -> Any:
        listed = content[:1] == b"{" and b"model_type" not in content
        (out / "config.json").write_bytes(seeds[0] if listed else content)
        (out / "vocab.json").unlink(missing_ok=True)
        if listed:
            (out / "vocab.json").write_bytes(content)
        return repr(loading.load(out))

    return Target(seeds, use, changed_json)


def _bytes(folder: Path) -> Target:
    """A checkpoint of fairseq whose bytes, or a member of its archive, are broken."""
    from regard.convert._checkpoint import readable
    from tests.convert.test_checkpoints import fairseq

    fairseq(folder)
    file = folder / "checkpoint_best.pt"

    def use(content: bytes) -> Any:
        file.write_bytes(content)
        with readable(folder, "fairseq"):
            return _read("fairseq", folder)

    def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
        return changed_bytes(rng, seeds) if rng.random() < 0.3 else _changed_member(rng, seeds[0])

    return Target([file.read_bytes()], use, mutate)


def _changed_member(rng: random.Random, seed: bytes) -> bytes:
    """An archive of which one member is broken, its sums right: most often the pickle."""
    with zipfile.ZipFile(io.BytesIO(seed)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (inside,) = [name for name in members if name.endswith("data.pkl")]
    name = inside if rng.random() < 0.7 else rng.choice(sorted(members))
    members[name] = changed_bytes(rng, [members[name]])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for key, content in members.items():
            archive.writestr(key, content)
    return buffer.getvalue()


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def _field(number: int, value: bytes | int | float) -> bytes:
    """A field of a protocol buffer."""
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    return _varint(number << 3) + _varint(value)


def _spm(folder: Path) -> Target:
    """A SentencePiece model."""
    from regard.convert import _sentencepiece
    from regard.convert._vocabulary import ConvertedVocabulary

    pieces = ["▁das", "▁Haus", "▁", "a", "s", "H"]
    whole = b"".join(
        _field(1, _field(1, piece.encode()) + _field(2, -float(i)) + _field(3, 1))
        for i, piece in enumerate(pieces)
    )
    whole += _field(2, _field(3, 1)) + _field(3, _field(3, 1) + _field(4, 1))
    side = ConvertedVocabulary.of(["<pad>", "<s>", "</s>", "<unk>", *pieces], 0, 1, 2, 3)
    path = folder / "source.spm"

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        return _sentencepiece.read(path, side).encode("das Haus, ä").ids

    charsmap = whole + _field(3, _field(2, b"\x08\0\0\0" + bytes(16)))
    return Target([whole, charsmap], use)
