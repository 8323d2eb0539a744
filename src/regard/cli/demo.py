"""`regard demo`: a small model trained live, the shipped translator used, both scored and drawn."""

import logging
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._common import Json, columns, emit, print_result, say
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["demo"]

RECIPE, TRANSLATOR = "pronunciation/rnnsearch-cmudict-demo", "de-en-small"
REVIEWER = "movie-reviews-small"
READERS = {
    "roles-small": ("Who did what to whom", "The gardener gave the children a basket of apples."),
    "aspects-small": (
        "What a review speaks of",
        "The battery life is short , but I love the screen .",
    ),
    "relations-small": (
        "What two marked words are to each other",
        "The <e1>flood</e1> in the valley was caused by heavy <e2>rain</e2>.",
    ),
    "parser-small": (
        "The tree of a sentence",
        "The old farmer sold his horses because he needed money.",
    ),
    "stories-small": (
        "The answer to a question on a story",
        "Clara moved to the garden. Emil grabbed the key. Emil went to the hall. Where is the key?",
    ),
}
"""By the name of a shipped model: what it finds, and a text that was written for this demo."""
SAMPLES = ("mt-gnome-de", "mt-bible-de")
WORDS = (
    "archipelago",
    "chinchilla",
    "encyclopaedia",
    "honeysuckles",
    "lemonade",
    "metallurgy",
    "philosophy",
    "pyramids",
    "quixotic",
    "tapestry",
)
"""Of the test split; no form of them is in the training split."""
SENTENCES = (
    "Das Fenster wird geschlossen.",
    "Klicken Sie auf die Schaltfläche, um die Datei zu speichern.",
    "Die Datei konnte nicht geöffnet werden.",
    "Wählen Sie eine Sprache aus der Liste.",
    "Und er ging hinaus und sah den König.",
)
"""Written for this demo."""
REVIEW = (
    "The first half hour is slow, and the jokes are old. Then the plot finds its feet. The last act"
    " is a lovely surprise, and the cast is superb throughout. I left the cinema with a smile."
)
"""Written for this demo."""


def demo(
    seconds: Annotated[float, typer.Option(metavar="N", help="CPU time of the training.")] = 200.0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="For model and pictures.")
    ] = Path("runs/demo"),
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Use the model of an earlier demo; do not train.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a small model live, use the shipped one, score and draw both.

    An RNNsearch (Bahdanau et al. 2015) learns to pronounce English words from 104,846 entries of
    the CMU dictionary; then the shipped German-English translator translates, the shipped
    classifier reads a review of a film, and other shipped models a sentence or a story each. Takes
    less than five minutes on two cores, and no network.

    Examples:
        regard demo
        regard demo --seconds 60 -o quick
        regard demo --reuse --json
    """
    started = time.monotonic()
    show = _silent if as_json else print_result
    with _heartbeat():
        pronouncer, spoken = _pronounce(output / "pronunciation", seconds, reuse, show)
        translator, translated = _translate(show)
        review, drawn = _review(output / "pictures", show)
        found, more = _read(output / "pictures", show)
        pictures = _draw(output / "pictures", pronouncer, _clearest(spoken["words"]), translator)
        pictures += drawn + more
    for picture in pictures:
        show(f"picture: {picture}")
    took = round(time.monotonic() - started, 1)
    show(f"done in {took:.0f} s; next: regard look {pronouncer.folder} attention")
    result = {
        "pronunciation": spoken,
        "translation": translated,
        "review": review,
        "found": found,
        "pictures": pictures,
    }
    if as_json:
        emit({**result, "seconds": took})


def _silent(text: str) -> None:
    """With --json only the last line goes to stdout."""
    say(text)


def _pronounce(
    folder: Path, seconds: float | None, reuse: bool, show: Any
) -> tuple["Loaded", dict[str, Any]]:
    """Train (or reuse) the pronouncer; its scores on held-out words, and some of those words."""
    import json

    import torch

    from regard import loading, recipe
    from regard.folder import reading
    from regard.train import fit

    done = (folder / reading.CONFIG).is_file()
    if reuse and done:
        metrics = json.loads((folder / reading.METRICS).read_text("utf-8"))
        say(f"using {folder}, trained before: --seconds has no use")
    else:
        changes = [] if seconds is None else [f"train.cpu_seconds={seconds}"]
        chosen = recipe.load(RECIPE, changes)
        show(f"Training {RECIPE} for {chosen.train['cpu_seconds']:g} s of CPU time")
        threads = torch.get_num_threads()
        try:
            metrics = fit(chosen, folder, fresh=True)
        except KeyboardInterrupt as error:  # what `fit` says of continuing is true of `train` only
            raise KeyboardInterrupt("interrupted; the demo starts afresh") from error
        finally:
            torch.set_num_threads(threads)  # the recipe trains on one
    loaded = loading.load(folder)
    words = _unseen(loaded)
    scores = metrics["metrics"]
    rows = [(w["word"], w["output"], w["gold"], "" if w["right"] else "differs") for w in words]
    show("\nWords it has never seen:\n")
    show(columns([("word", "its phonemes", "dictionary", ""), *rows]))
    show(
        f"\nOn {metrics['examples']:,} held-out words: PER {scores['per']:.2f}, "
        f"WER {scores['wer']:.2f} (lower is better)\n"
    )
    named = {key: metrics[key] for key in ("signature", "examples") if key in metrics}
    return loaded, {"per": scores["per"], "wer": scores["wer"], **named, "words": words}


def _unseen(loaded: "Loaded") -> list[dict[str, Any]]:
    """`WORDS` with what the dictionary says of them."""
    data = loaded.task.data(loaded.config["data"], loaded.fields, splits=("test",))
    assert data.test is not None  # the recipe's data has a test split
    places = {word: place for place, word in enumerate(data.test.texts)}
    there = [places[word] for word in WORDS if word in places]
    chosen = data.test.subset(there or list(places.values())[: len(WORDS)])
    found = loaded.predict(list(chosen.texts))
    return [
        {
            "word": p.input,
            "output": p.output,
            "gold": " | ".join(right),
            "right": p.output in right,
        }
        for p, right in zip(found, chosen.references, strict=True)
    ]


def _clearest(words: Sequence[dict[str, Any]]) -> str:
    """The word to draw: the first that came out right."""
    return str(next((w for w in words if w["right"]), words[0])["word"])


def _translate(show: Any) -> tuple["Loaded | None", dict[str, Any]]:
    """Translate with the shipped model, and score it on the bundled sentences."""
    from regard import loading
    from regard.folder import reading

    if TRANSLATOR not in reading.shipped():
        show(
            f"The translator {TRANSLATOR} does not come with this build, so nothing is translated."
        )
        return None, {"bleu": None, "files": {}}
    loaded = loading.load(TRANSLATOR)
    show("German to English, by the shipped model:\n")
    outputs = loaded.translate(SENTENCES)
    for german, english in zip(SENTENCES, outputs, strict=True):
        show(f"  {german}\n  {english}\n")
    files = {name: _sample(loaded, name) for name in SAMPLES}
    score = _bleu([pair for pairs in files.values() for pair in pairs])
    result: dict[str, Any] = {"bleu": score.value, "signature": score.signature, "files": {}}
    for name, pairs in files.items():
        own = _bleu(pairs)
        result["files"][name] = {"bleu": own.value, "examples": len(pairs)}
        show(f"BLEU {own.value:.1f} on {len(pairs)} sentences of {name}")
    show(f"BLEU {score.value:.1f} on all ({score.signature})\n")
    result["examples"] = sum(map(len, files.values()))
    return loaded, result


def _review(folder: Path, show: Any) -> tuple[dict[str, Any], list[str]]:
    """What the shipped classifier says of a review, and a picture of the words it looked at."""
    from regard import loading
    from regard.folder import reading
    from regard.viewer.drawing import draw
    from regard.views import ViewOptions

    if REVIEWER not in reading.shipped():
        return {"output": None}, []
    loaded = loading.load(REVIEWER)
    (found,) = loaded.predict([REVIEW])
    show(f"A review of a film, by the shipped classifier:\n\n  {REVIEW}\n")
    show(f"  {found.output} ({found.probability:.2f})\n")
    result = {"output": found.output, "probability": found.probability}
    try:
        view = loaded.task.view(loaded, [REVIEW], ViewOptions(folder=REVIEWER))
        words = [panel for panel in view.runs[0].panels if panel.kind == "text"]
        folder.mkdir(parents=True, exist_ok=True)
        draw(view, view.runs[0], words, folder / "review.png", width="page")
        return result, [str(folder / "review.png")]
    except RequestError as error:  # without matplotlib the demo goes on
        say(str(error))
        return result, []


def _read(folder: Path, show: Any) -> tuple[dict[str, str], list[str]]:
    """What other shipped models find in a text each, and pictures of it."""
    from regard import loading
    from regard.folder import reading
    from regard.viewer.drawing import draw
    from regard.views import ViewOptions

    found: dict[str, str] = {}
    drawn: list[str] = []
    for name, (what, text) in READERS.items():
        if name not in reading.shipped():
            continue
        loaded = loading.load(name)
        found[name] = loaded.predict([text])[0].line
        show(f"{what}, by {name}:\n\n  {text}\n  {found[name]}\n")
        try:
            run = (view := loaded.task.view(loaded, [text], ViewOptions(folder=name))).runs[0]
            path = folder / f"{name}.png"
            folder.mkdir(parents=True, exist_ok=True)
            panels = [p for p in run.panels if p.kind in ("spans", "tree")] or run.panels
            draw(view, run, panels, path, width="page")
            drawn.append(str(path))
        except RequestError as error:  # without matplotlib the demo goes on
            say(str(error))
    return found, drawn


def _sample(loaded: "Loaded", name: str) -> list[tuple[str, list[str]]]:
    """Outputs and references of a bundled file's dev and test sentences."""
    config = {"path": name, "columns": {"source": "de", "target": "en"}, "header": True}
    data = loaded.task.data(config, loaded.fields, splits=("dev", "test"))
    pairs: list[tuple[str, list[str]]] = []
    for split in (data.dev, data.test):
        if split is not None:
            outputs = loaded.translate(list(split.texts))
            pairs += zip(outputs, split.references, strict=True)
    return pairs


def _bleu(pairs: Sequence[tuple[str, list[str]]]) -> Any:
    from regard.metrics import bleu

    return bleu([output for output, _ in pairs], [references for _, references in pairs])


def _draw(folder: Path, pronouncer: "Loaded", word: str, translator: "Loaded | None") -> list[str]:
    """Write attention pictures of a word and of a sentence; where they are."""
    from regard.tasks.generation.look import look
    from regard.viewer.figure.subplots import Subplot, alignment, grid

    try:
        seen = look(pronouncer, word)
        paths = [folder / "pronunciation.png"]
        alignment(seen.picture(), paths[0], title=seen.title())
        if translator is not None:
            seen = look(translator, SENTENCES[1])
            paths += [folder / "translation.png", folder / "heads.png"]
            alignment(seen.picture(), paths[1], title=seen.title())
            heads = range(1, seen.heads() + 1)
            panels = [Subplot(f"head {head}", seen.picture(head=head)) for head in heads]
            grid(panels, paths[2], title=seen.title(head="all"))
    except RequestError as error:  # without matplotlib the demo goes on
        say(str(error))
        return []
    return [str(path) for path in paths]


class _Last(logging.Handler):
    """Knows when something was said last."""

    def __init__(self) -> None:
        super().__init__()
        self.time = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        self.time = time.monotonic()


@contextmanager
def _heartbeat(every: float = 4.5) -> Iterator[None]:
    """Say something at least every 5 seconds, unless a terminal shows a progress bar anyway."""
    last, done, begun = _Last(), threading.Event(), time.monotonic()

    def beat() -> None:
        while not done.wait(0.25):
            if time.monotonic() - last.time > every:
                say(f"… working, {time.monotonic() - begun:.0f} s")

    logger = logging.getLogger("regard")
    logger.addHandler(last)
    thread = threading.Thread(target=beat, daemon=True)
    if not sys.stderr.isatty():
        thread.start()
    try:
        yield
    finally:
        done.set()
        logger.removeHandler(last)
        if thread.is_alive():
            thread.join()
