"""`regard demo`: what shipped models do, each with its picture, then a model trained live."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._common import Json, columns, emit, print_result, say
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["demo"]

RECIPE = "translation/rnnsearch-dates"
UPDATES = 400
MORE = " With --updates 600 all of them are."
TRANSLATOR = "de-en-small"
SENTENCES = (
    "Klicken Sie auf die Schaltfläche, um die Datei zu speichern.",
    "Das Fenster wird geschlossen.",
)
"""Written for this demo; the first is drawn."""
READERS = {
    "movie-reviews-small": (
        "What a review of a film says",
        "The first half hour is slow, and the jokes are old. Then the plot finds its feet. The last"
        " act is a lovely surprise, and the cast is superb throughout. I left with a smile.",
    ),
    "roles-small": (
        "Who did what to whom",
        "The gardener gave a basket of apples to the children.",
    ),
    "parser-small": (
        "The tree of a sentence",
        "The old farmer sold his horses because he needed money.",
    ),
    "relations-small": (
        "What two marked words are to each other",
        "The <e1>flood</e1> in the valley was caused by heavy <e2>rain</e2>.",
    ),
    "stories-small": (
        "The answer to a question on a story",
        "Clara moved to the garden. Emil grabbed the key. Emil went to the hall. Where is the key?",
    ),
}
"""By the name of a shipped model: what it finds, and a text that was written for this demo."""
DATES = (
    "Thursday, May 3, 1984",
    "the 21st of October 2015",
    "3. Mai 1984",
    "dimanche 14 juillet 1935",
    "1984年5月3日",
    "9 Nov 1989",
)
"""The first is drawn. Forms of the training data; days that it may or may not have."""
DRAWN = "1984-05-03"


@dataclass
class Tour:
    """What the demo has found and drawn so far.

    Args:
        folder: of the pictures.
        show: takes a line for people.
    """

    folder: Path
    show: Callable[[str], None] = field(repr=False)
    pictures: list[str] = field(default_factory=list)

    def picture(self, name: str, draw: Callable[[Path], Any]) -> None:
        """Draw one and say where it is; without matplotlib the demo goes on."""
        path = self.folder / f"{name}.png"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draw(path)
        except RequestError as error:
            say(str(error))
            return
        self.pictures.append(str(path))
        self.show(f"  picture: {path}\n")


def demo(
    updates: Annotated[
        int, typer.Option(min=1, metavar="N", help="Updates of the live training.")
    ] = UPDATES,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="For model and pictures.")
    ] = Path("runs/demo"),
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Use the model of an earlier demo; do not train.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what shipped models do, then train one live; a picture of the attention of each.

    A translator, a classifier of reviews, semantic roles, a parser, relations and answers come with
    the package. Then an RNNsearch (Bahdanau et al. 2015) learns to read dates as people write
    them, letter by letter: its attention is drawn before and after. About a minute on two cores,
    and no network.

    Examples:
        regard demo
        regard demo --updates 150 -o quick
        regard demo --reuse --json
    """
    started = time.monotonic()
    write = say if as_json else print_result
    with _heartbeat() as heard:

        def show(text: str) -> None:
            write(text)
            heard()

        tour = Tour(output / "pictures", show)
        translated = _translate(tour)
        read = _read(tour)
        dates = _learn(output / "dates", updates, tour, reuse=reuse)
    took = round(time.monotonic() - started, 1)
    tour.show(f"done in {took:.0f} s. Next:\n")
    commands = [(f"  {command}", f"# {what}") for command, what in _next(output)]
    tour.show(columns(commands) + "\n")
    if as_json:
        found = {"translation": translated, "found": read, "dates": dates}
        emit({**found, "pictures": tour.pictures, "seconds": took})


def _next(output: Path) -> list[tuple[str, str]]:
    """What people want next."""
    return [
        (f'regard look {output / "dates"} "May 9, 2031"', "your own date"),
        ("regard serve de-en-small", "a translator in the browser"),
        ("regard train classification/self-attentive-pros-cons", "your data: docs/howto/data.md"),
    ]


def _translate(tour: Tour) -> dict[str, str]:
    """Translate with the shipped model, and draw what it attended to."""
    from regard import loading
    from regard.folder import places

    if TRANSLATOR not in places.shipped():
        tour.show(f"The translator {TRANSLATOR} does not come with this build.\n")
        return {}
    loaded = loading.load(TRANSLATOR)
    outputs = loaded.translate(SENTENCES)
    tour.show(f"German to English, by {TRANSLATOR}:\n")
    for german, english in zip(SENTENCES, outputs, strict=True):
        tour.show(f"  {german}\n  {english}\n")

    def draw(path: Path) -> None:
        from regard.tasks.generation.look import look
        from regard.viewer.figure.matrix import alignment

        seen = look(loaded, SENTENCES[0])
        alignment(seen.picture(), path, title=seen.title())

    tour.picture("translation", draw)
    return dict(zip(SENTENCES, outputs, strict=True))


def _read(tour: Tour) -> dict[str, str]:
    """What other shipped models find in a text each, and pictures of it."""
    from regard import loading
    from regard.folder import places

    found: dict[str, str] = {}
    for name, (what, text) in READERS.items():
        if name not in places.shipped():
            continue
        loaded = loading.load(name)
        best = loaded.predict([text])[0]
        sure = f" ({best.probability:.2f})" if best.probability and name.startswith("movie") else ""
        found[name] = best.line
        tour.show(f"{what}, by {name}:\n\n  {text}\n  {best.line}{sure}\n")

        def draw(path: Path, loaded: "Loaded" = loaded, text: str = text, name: str = name) -> None:
            from regard.viewer.drawing import draw as drawn
            from regard.views import ViewOptions

            view = loaded.task.view(loaded, [text], ViewOptions(folder=name))
            run = view.runs[0]
            panels = [p for p in run.panels if p.kind in ("spans", "tree", "text")] or run.panels
            drawn(view, run, panels, path, width="page")

        tour.picture(name, draw)
    return found


def _learn(folder: Path, updates: int, tour: Tour, *, reuse: bool) -> dict[str, Any]:
    """Train (or reuse) the reader of dates; how many of the test dates it reads, and some more."""
    from regard import loading
    from regard.folder import reading

    if reuse and (folder / reading.CONFIG).is_file():
        say(f"using {folder}, trained before: --updates has no use")
    else:
        _train(folder, updates, tour)
    loaded = loading.load(folder)
    found = dict(zip(DATES, loaded.translate(DATES), strict=True))
    exact, count = _exact(loaded)
    rows = [("written", "read"), *found.items()]
    tour.show(columns(rows))
    tour.show(
        f"\n{exact} of {count} held-out dates are read right; no form of them is in the training "
        f"data.{MORE}\n"
    )
    tour.picture("dates", lambda path: _before_and_after(loaded, path))
    return {"exact": exact, "examples": count, "read": found}


def _train(folder: Path, updates: int, tour: Tour) -> None:
    import torch

    from regard import recipe
    from regard.train import fit

    tour.show(f"Now a model learns to read dates ({RECIPE}, {updates} updates):\n")
    told = [f"train.steps={updates}", f"train.schedule.warmup={min(30, updates // 2)}"]
    threads = torch.get_num_threads()
    try:
        fit(recipe.load(RECIPE, told), folder, fresh=True)
    except KeyboardInterrupt as error:  # what `fit` says of continuing is true of `train` only
        raise KeyboardInterrupt("interrupted; the demo starts afresh") from error
    finally:
        torch.set_num_threads(threads)  # the recipe trains on one


def _exact(loaded: "Loaded") -> tuple[int, int]:
    """How many dates of the test split are read right, and how many there are."""
    test = loaded.task.data(loaded.config["data"], loaded.fields, splits=("test",)).test
    outputs = loaded.translate(list(test.texts))
    right = [output in own for output, own in zip(outputs, test.references, strict=True)]
    return sum(right), len(right)


def _before_and_after(loaded: "Loaded", path: Path) -> None:
    """Draw where the first date is looked at, by a model of no training and by the trained one."""
    import torch

    from regard import catalog
    from regard.settings.check import arguments_of
    from regard.tasks.generation.look import look
    from regard.viewer.figure.matrix import Subplot, grid

    told = loaded.config["model"]
    torch.manual_seed(1)
    untrained = catalog.load(told["name"])(**arguments_of(told)).eval()
    panels = [
        Subplot(name, look(one, DATES[0], target=DRAWN).picture())
        for name, one in (("before", replace(loaded, model=untrained)), ("after", loaded))
    ]
    grid(panels, path, across=2, title=f"{DATES[0]}  →  {DRAWN}", width="page")


class _Last(logging.Handler):
    """Knows when something was said last."""

    def __init__(self) -> None:
        super().__init__()
        self.time = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        self.now()

    def now(self) -> None:
        """Note that something was said."""
        self.time = time.monotonic()


@contextmanager
def _heartbeat(every: float = 4.5) -> Iterator[Callable[[], None]]:
    """Say something at least every 5 seconds, unless a terminal shows a progress bar anyway.

    Gives what notes that something was said.
    """
    last, done, begun = _Last(), threading.Event(), time.monotonic()

    def beat() -> None:
        while not done.wait(0.25):
            if time.monotonic() - last.time > every:
                say(f"… working, {time.monotonic() - begun:.0f} s")
                last.now()

    logger = logging.getLogger("regard")
    logger.addHandler(last)
    thread = threading.Thread(target=beat, daemon=True)
    if not sys.stderr.isatty():
        thread.start()
    try:
        yield last.now
    finally:
        done.set()
        logger.removeHandler(last)
        if thread.is_alive():
            thread.join()
