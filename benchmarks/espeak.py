"""More synthetic speech: sentences of public-domain books, spoken by espeak-ng with eight voices.

    REGARD_DATA=… python benchmarks/espeak.py runs/spoken --sentences 4500
    regard train speech/hybrid-espeak data.train=runs/spoken/espeak-train.tsv train.epochs=12

The set `speech/espeak` has 28 minutes to learn from; this makes as many hours as are asked for, of
the same kind: 16 kHz, phonemes as espeak-ng 1.51 names them. Sentences are those of
`cloze/CN_train.txt.gz` with 4 to 13 words, in an order that a hash decides; the ones that dev and
test hold are left out. Voice, speed and pitch are drawn from the sentence, so that the set is
always the same. Dev and test stay as they are. `espeak-ng` (1.51) must be on the PATH. Printed:
sentences and hours.
"""

import argparse
import csv
import gzip
import hashlib
import io
import random
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import soundfile  # type: ignore[import-untyped,unused-ignore]

from regard.data.audio import audio
from regard.data.sources import find
from regard.system.files import replace_files

VOICES = (
    *("en-us", "en-gb", "en-us+f3", "en-us+m3"),
    *("en-gb+f2", "en-gb-scotland", "en-us+f5", "en-gb+m7"),
)
RATE = 16_000
CONTRACTIONS = ("n't", "'s", "'ll", "'ve")


def number(text: str) -> int:
    """A number that is the text's own."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


def sentences(path: Path) -> list[str]:
    """Different sentences of a file of cloze questions, without the questions, by their numbers."""
    found = set()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            place, _, text = line.rstrip("\n").partition(" ")
            words = text.split(" ")
            plain = re.fullmatch(r"[A-Za-z ,.?!;'-]+", text)
            if place == "21" or not place.isdigit() or not plain or not 4 <= len(words) <= 13:
                continue
            said = re.sub(r" ([,.?!;])", r"\1", text)
            for end in CONTRACTIONS:
                said = said.replace(f" {end}", end)
            rest = said
            for end in CONTRACTIONS:
                rest = rest.replace(end, "")
            if "'" not in rest and " -" not in said and "- " not in said:
                found.add(said)
    return sorted(found, key=number)


def trimmed(sound: np.ndarray, rate: int) -> np.ndarray:
    """The sound without silence before and after, but for a tenth of a second."""
    step = rate // 50
    frames = sound[: len(sound) // step * step].reshape(-1, step)
    loud = np.sqrt((frames**2).mean(1))
    on = np.flatnonzero(loud > max(0.02 * loud.max(), 1e-4))
    if not len(on):
        return sound
    return sound[max(0, on[0] * step - rate // 10) : (on[-1] + 1) * step + rate // 10]


def spoken(text: str) -> tuple[bytes, str, float, str]:
    """Ogg Vorbis, the voice, seconds and phonemes of a sentence."""
    draw = random.Random(number(text))
    voice = draw.choice(VOICES)
    how = ["-v", voice, "-s", str(draw.randint(140, 190)), "-p", str(draw.randint(35, 65))]

    def say(*arguments: str) -> bytes:
        command = ["espeak-ng", *arguments, text]
        return subprocess.run(command, capture_output=True, check=True).stdout

    sound, rate = soundfile.read(io.BytesIO(say(*how, "--stdout")))
    sound = trimmed(audio.resampled(sound, rate, RATE), RATE)
    sound *= 0.7 / np.abs(sound).max()
    names = " ".join(say("-v", voice, "-q", "-x", "--sep=_").decode().split()).replace(" ", "|")
    buffer = io.BytesIO()
    soundfile.write(buffer, sound.astype(np.float32), RATE, format="OGG", subtype="VORBIS")
    return buffer.getvalue(), voice, len(sound) / RATE, names


def write(texts: Sequence[str], folder: Path, workers: int) -> float:
    """`espeak-train.tar` and `espeak-train.tsv` of a folder; returns the seconds of speech."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, ...]] = [("file", "speaker", "seconds", "text", "phonemes")]
    seconds, buffer = 0.0, io.BytesIO()
    with (
        tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as together,
        ThreadPoolExecutor(workers) as pool,
    ):
        for i, (sound, voice, length, names) in enumerate(pool.map(spoken, texts)):
            entry = tarfile.TarInfo(f"train-{i:05d}.ogg")
            entry.size = len(sound)
            together.addfile(entry, io.BytesIO(sound))
            rows.append((entry.name, voice, f"{length:.2f}", texts[i], names))
            seconds += length
    table = "".join("\t".join(row) + "\n" for row in rows)
    files = {"espeak-train.tar": buffer.getvalue(), "espeak-train.tsv": table.encode()}
    replace_files(folder, files)
    return seconds


def held_out() -> Iterator[str]:
    """The sentences of dev and test."""
    for split in ("dev", "test"):
        with find(f"speech/espeak-{split}.tsv").open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                yield row["text"].lower()


def main() -> None:
    """Make the set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path, help="the folder to write to")
    parser.add_argument("--sentences", type=int, default=4500)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if shutil.which("espeak-ng") is None:
        sys.exit("espeak-ng is not on the PATH; Debian and Ubuntu have it as a package: espeak-ng")
    seen = set(held_out())
    texts = []
    for text in sentences(find("cloze/CN_train.txt.gz")):
        if text.lower() not in seen and len(texts) < options.sentences:
            seen.add(text.lower())
            texts.append(text)
    seconds = write(texts, options.output, options.workers)
    print(f"{len(texts)} sentences, {seconds / 3600:.2f} hours, in {options.output}")


if __name__ == "__main__":
    main()
