"""Targets whose inputs are no text: archives, arrays, pictures, sounds, `.seen` files, stores."""

import gzip as zipped
import io
import json
import random
import shutil
import struct
import tarfile as tars
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.mutate import changed_bytes, changed_json, changed_value
from tests.fuzz.seeds import COLUMNS, TEXTS
from tests.fuzz.targets import Target

IMAGES = {"image": "images", "label": "labels"}


def _npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _packed(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def changed_zip(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A zip archive of which one member was changed, its sums right; at times its bytes."""
    seed = rng.choice(seeds)
    if rng.random() < 0.4:
        return changed_bytes(rng, [seed])
    with zipfile.ZipFile(io.BytesIO(seed)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    own = members[name]
    if rng.random() < 0.6:  # the header of an array, of the same length
        begin = 10
        head = own[begin : begin + struct.unpack_from("<H", own, 8)[0]]
        told = rng.choice((b"9" * 3, b"9" * 12, b"9" * 25, b"0", b"-1", b"1,", b"(", b"'|O'", b"a"))
        at = rng.randrange(len(head))
        head = (head[:at] + told + head[at + rng.randrange(4) :])[:400]
        own = own[:8] + struct.pack("<H", len(head)) + head + own[begin + len(head) :]
    else:
        own = changed_bytes(rng, [own])
    members[rng.choice((name, name, name, "x.npy", "a"))] = own
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", rng.choice((0, zipfile.ZIP_DEFLATED))) as archive:
        for key, content in members.items():
            archive.writestr(key, content)
    return buffer.getvalue()


def gzip(folder: Path) -> Target:
    from regard.data import formats
    from regard.data.formats import documents
    from regard.data.problems import Problems

    seeds = [zipped.compress(TEXTS[n][0], mtime=0) for n in ("tsv", "jsonl", "squad", "bioc")]

    def use(content: bytes) -> Any:
        made: list[Any] = []
        for name, ending in (("tsv", "tsv"), ("squad", "json")):
            path = folder / f"in.{ending}.gz"
            path.write_bytes(content)
            made += refused_or(
                lambda n=name, p=path: list(  # type: ignore[misc]
                    formats.read(p, COLUMNS[n], n, problems=Problems(shown=0))
                )
            )
        return made, list(documents.read(path, "bioc", Problems(shown=0)))

    return Target(seeds, use)


def refused_or(work: Callable[[], Any]) -> list[Any]:
    """What is done, or nothing where it is refused in regard's words."""
    from regard.errors import RegardError

    try:
        return [work()]
    except RegardError:
        return []


def npz(folder: Path) -> Target:
    from regard.data import formats
    from regard.data.files import npz
    from regard.data.images.images import located, pixels
    from regard.data.problems import Problems

    path = folder / "in.npz"
    images = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4)
    seeds = [
        _npz(images=images, labels=np.array([1, 2])),
        _packed(images=images[..., None].repeat(3, -1), labels=np.array(["a", "b"])),
    ]

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        npz._arrays.cache_clear()
        rows = refused_or(lambda: list(formats.read(path, IMAGES, problems=Problems(shown=0))))
        return rows, pixels(located(f"{path}#1"), 1)

    return Target(seeds, use, changed_zip)


def _graph() -> dict[str, Any]:
    return {
        "edge_index": np.array([[0, 1, 2], [1, 2, 0]]), "y": np.array([0, 1, 1]),
        "x": np.eye(3, dtype=np.float32), "train_idx": np.array([0]), "val_idx": np.array([1]),
        "test_mask": np.array([False, False, True]), "names": np.array(["a", "b"]),
    }  # fmt: skip


def graph_npz(folder: Path) -> Target:
    from regard.data.graphs.files import read

    path = folder / "in.npz"
    sparse = _graph()
    del sparse["x"]
    sparse |= {
        "x_row": np.array([0, 1]), "x_col": np.array([1, 0]), "x_val": np.ones(2, np.float32),
        "x_shape": np.array([3, 2]),
    }  # fmt: skip

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        return read(path)

    return Target([_npz(**_graph()), _packed(**sparse)], use, changed_zip)


def changed_folder(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A zip archive stands for a folder: one of its files changed."""
    return changed_zip(rng, seeds) if rng.random() < 0.7 else _json_in(rng, rng.choice(seeds))


def _json_in(rng: random.Random, seed: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(seed)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names = sorted(name for name in members if name.endswith(".json"))
    if names:
        name = rng.choice(names)
        members[name] = changed_json(rng, [members[name]])
    return _zip_of(members)


def _zip_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _zip_folder(folder: Path) -> bytes:
    return _zip_of({f.name: f.read_bytes() for f in sorted(folder.iterdir()) if f.is_file()})


def unpacked(content: bytes, folder: Path) -> bool:
    """Make the folder that a zip archive stands for; False where it was broken itself."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                plain = Path(name).name
                if plain and "\0" not in plain and len(plain) < 100:
                    (folder / plain).write_bytes(archive.read(name)[: 1 << 20])
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError,
            RuntimeError, UnicodeError):  # fmt: skip
        return False
    return True


def graph_mapped(folder: Path) -> Target:
    from regard.data.graphs.files import read, write_folder
    from regard.data.graphs.graph import graph_of_arrays

    write_folder(graph_of_arrays(_graph()), folder / "whole")

    def use(content: bytes) -> Any:
        if not unpacked(content, folder / "in"):
            return None
        graph = read(folder / "in")
        return graph.rows.pairs(), [graph.told(i) for i in range(min(len(graph), 9))]

    return Target([_zip_folder(folder / "whole")], use, changed_folder)


def graph_ppi(folder: Path) -> Target:
    from regard.data.graphs.files import read

    whole = folder / "whole"
    whole.mkdir(exist_ok=True)
    links = {"directed": False, "links": [{"source": 0, "target": 1}, {"source": 1, "target": 2}]}
    for name in ("train", "valid", "test"):
        (whole / f"{name}_graph.json").write_text(json.dumps(links))
        np.save(whole / f"{name}_feats.npy", np.eye(3, dtype=np.float32))
        np.save(whole / f"{name}_labels.npy", np.array([[0, 1], [1, 1], [0, 0]]))
        np.save(whole / f"{name}_graph_id.npy", np.array([1, 1, 1]))

    def use(content: bytes) -> Any:
        return read(folder / "in") if unpacked(content, folder / "in") else None

    return Target([_zip_folder(whole)], use, changed_folder)


def _pictures() -> list[bytes]:
    from PIL import Image

    made = []
    drawn = np.random.default_rng(0).integers(0, 255, (9, 11, 3), dtype=np.uint8)
    image = Image.fromarray(drawn)
    exif = Image.Exif()
    exif[0x0112] = 6
    for form, one, more in (
        ("PNG", image, {"exif": exif}), ("PNG", image.convert("P"), {}),
        ("PNG", Image.fromarray(drawn[..., 0].astype(np.uint16) * 257), {}),
        ("PNG", image.convert("LA"), {}),
        ("JPEG", image, {"exif": exif}), ("JPEG", image.convert("CMYK"), {"progressive": True}),
        ("WEBP", image, {"exif": exif}), ("WEBP", image.convert("RGBA"), {"lossless": True}),
    ):  # fmt: skip
        buffer = io.BytesIO()
        one.save(buffer, form, **more)
        made.append(buffer.getvalue())
    return made


def changed_picture(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Changed bytes; the sums of a PNG's chunks made right at times, so that more is read."""
    data = changed_bytes(rng, seeds)
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or rng.random() < 0.3:
        return data
    out, at = bytearray(data[:8]), 8
    while at + 12 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        chunk = data[at + 4 : at + 8 + size]
        out += data[at : at + 4] + chunk + zlib.crc32(chunk).to_bytes(4, "big")
        at += 12 + size
    return bytes(out) + data[at:]


def picture(folder: Path) -> Target:
    from regard.data.images.images import located, pixels

    path = folder / "in.png"

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        return pixels(located(str(path)), 3)

    return Target(_pictures(), use, changed_picture)


def picture_addressed(folder: Path) -> Target:
    """What a cell of a data file may name."""
    from regard.data.audio import audio
    from regard.data.images import video
    from regard.data.images.images import located, pixels

    path = folder / "digits.npz"
    path.write_bytes(_npz(images=np.zeros((2, 4, 4), np.uint8), clips=np.zeros((1, 2, 4, 4), "u1")))
    with tars.open(folder / "in.tar", "w") as archive:
        info = tars.TarInfo("cat/1.png")
        info.size = len(_pictures()[0])
        archive.addfile(info, io.BytesIO(_pictures()[0]))
    seeds = [b"digits.npz#1", b"digits.npz#images/0", b"in.tar#cat/1.png", b"cat/1.png",
             b"data:image/png;base64,aaaa", b"digits.npz#clips/0"]  # fmt: skip

    def use(content: bytes) -> Any:
        name, file = content.decode("utf-8", "replace"), str(folder / "in.tsv")
        refused_or(lambda: video.frames(video.located(name, file), 1))
        refused_or(lambda: audio.samples(audio.located(name, file)))
        return pixels(located(name, file), 1)

    return Target(seeds, use)


def clip(folder: Path) -> Target:
    from PIL import Image

    from regard.data.images.video import frames, gif, located

    path = folder / "in.gif"
    drawn = np.random.default_rng(0).integers(0, 255, (3, 6, 5, 3), dtype=np.uint8)
    seeds = [gif(drawn)]
    for form in ("WEBP", "PNG"):
        buffer = io.BytesIO()
        images = [Image.fromarray(one) for one in drawn]
        images[0].save(buffer, form, save_all=True, append_images=images[1:], duration=40)
        seeds.append(buffer.getvalue())

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        return frames(located(str(path)), 1)

    return Target(seeds, use, changed_picture)


def sound(folder: Path) -> Target:
    import soundfile

    from regard.data.audio.audio import located, samples

    values = np.sin(np.arange(400) / 5).astype(np.float32)
    seeds = []
    for form, kind in (("WAV", "PCM_16"), ("WAV", "FLOAT"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"),
                       ("AIFF", "PCM_16"), ("MP3", "MPEG_LAYER_III")):  # fmt: skip
        buffer = io.BytesIO()
        soundfile.write(buffer, values, 8000, kind, format=form)
        seeds.append(buffer.getvalue())
    path = folder / "in.wav"

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        return samples(located(str(path)))

    return Target(seeds, use)


def tar(folder: Path) -> Target:
    from regard.data import addresses, formats
    from regard.data.files.npz import stamp
    from regard.data.problems import Problems

    path = folder / "in.tar"
    seeds = []
    for form in (tars.USTAR_FORMAT, tars.GNU_FORMAT, tars.PAX_FORMAT):
        buffer = io.BytesIO()
        with tars.open(fileobj=buffer, mode="w", format=form) as archive:
            for name in ("cat/1.png", "dog/" + "x" * 90 + ".png", "dog/é.png"):
                info = tars.TarInfo(name)
                info.size = 20
                archive.addfile(info, io.BytesIO(b"x" * 20))
        seeds.append(buffer.getvalue())

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        addresses._members.cache_clear()
        columns = {"image": "image", "label": "label"}
        refused_or(lambda: list(formats.read(path, columns, problems=Problems(shown=0))))
        members = addresses._members(str(path), stamp(str(path)))
        return [refused_or(lambda m=m: addresses.content(str(path), m)) for m in [*members][:5]]  # type: ignore[misc]

    return Target(seeds, use, changed_tar)


def changed_tar(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Changed bytes, the sums of its headers made right at times."""
    data = bytearray(changed_bytes(rng, seeds))
    if rng.random() < 0.3:
        return bytes(data)
    for at in range(0, len(data) - 511, 512):
        if data[at + 257 : at + 262] == b"ustar":
            head = data[at : at + 148] + b" " * 8 + data[at + 156 : at + 512]
            data[at + 148 : at + 156] = b"%06o\0 " % sum(head)
    return bytes(data)


def _seen_seeds() -> list[bytes]:
    from regard.viewer.seen_file import file as _seen

    draw = np.random.default_rng(0)
    import regard

    weights = draw.random((2, 2, 4, 5)).astype(np.float32)
    weights /= weights.sum(-1, keepdims=True)
    view = regard.view(weights, rows="a b c d", columns="v w x y z", kind="cross", title="ä")
    return [_seen.dump(view), _seen.dump(view, code="f16"), _seen.dump(view, top_k=2)]


def _use_seen(content: bytes) -> Any:
    from regard.viewer.seen_file.file import parse

    view = parse(content)
    for one in view.maps[:4]:
        for head in range(min(one.shape[0], 3)):
            one.load(head)
    return view.html()


def seen(folder: Path) -> Target:
    return Target(_seen_seeds(), _use_seen)


def seen_header(folder: Path) -> Target:
    from regard.viewer.seen_file.file import MAGIC, START

    def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
        content = rng.choice(seeds)
        packed = struct.unpack_from("<I", content, 8)[0]
        head = json.loads(zlib.decompress(content[START : START + packed]))
        raw = json.dumps(changed_value(rng, head)).encode()
        small, body = zlib.compress(raw), content[START + packed :]
        check = zlib.crc32(body, zlib.crc32(small))
        return MAGIC + struct.pack("<III", len(small), len(raw), check) + small + body

    return Target(_seen_seeds(), _use_seen, mutate)


def given_weights(folder: Path) -> Target:
    """Weights of others as plain lists, as a program or a notebook hands them over."""
    from regard import view

    seeds = [
        b'{"weights": [[[0.1, 0.9], [0.5, 0.5]]], "rows": ["a", "b"], "columns": "x y"}',
        b'{"weights": {"cross": [[[0.2, 0.8]]], "self": [[[1]]]}, "rows": "a", "links": []}',
    ]

    def use(content: bytes) -> Any:
        try:
            asked = json.loads(content)
        except (ValueError, RecursionError):
            return None
        if not isinstance(asked, dict):
            return None
        known = {k: v for k, v in asked.items() if k in ("weights", "rows", "columns")}
        return view(known.pop("weights", None), **known).html()

    return Target(seeds, use, changed_json)


def token_store(folder: Path) -> Target:
    from regard.data.storage.building import build
    from regard.data.storage.store import opened
    from tests.folder import toy

    words = toy.tokenizers(False)
    pairs = zip(toy.GERMAN, toy.ENGLISH, strict=True)
    rows = [(i, {"source": one, "target": other}) for i, (one, other) in enumerate(pairs)]
    whole = folder / "whole"
    build(whole, rows, words, 50, lambda *_: None)

    def use(content: bytes) -> Any:
        if not unpacked(content, folder / "in"):
            return None
        store = opened(folder / "in")
        if store is None:
            return None
        texts = [store.texts[n][i] for n in store.texts for i in range(min(len(store), 3))]
        return texts, [ids.take(np.array([0, 1])).flat for ids in store.ids.values()]

    return Target([_zip_folder(whole)], use, changed_folder)


def checkpoint(folder: Path) -> Target:
    import torch

    from regard.train.checkpoints import load_checkpoint, save_checkpoint
    from regard.train.random_state import random_state

    path = folder / "last.ckpt"
    save_checkpoint(path, {"step": 1, "random": random_state(), "weights": torch.zeros(3)})

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        return load_checkpoint(path)

    return Target([path.read_bytes()], use)
