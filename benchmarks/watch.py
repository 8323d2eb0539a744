"""What it costs to watch every head of every layer while translating.

    python benchmarks/watch.py [FOLDER] [--repeats 9] [--batch 8]

Beam search of the same sentences with and without `regard.watch`, in turn, the order flipped each
time; the figure is watched over plain CPU time. Outputs are checked to be the same.
"""

import argparse

import paired
import torch

import regard

SENTENCES = [
    "Das Fenster wird geschlossen.",
    "Klicken Sie auf die Schaltfläche, um die Datei zu speichern.",
    "Wählen Sie im Menü den Eintrag aus, der Ihrer Sprache entspricht.",
    "Die Verbindung zum Server wurde unterbrochen.",
    "Bitte geben Sie Ihr Passwort ein und drücken Sie die Eingabetaste.",
    "Das Programm konnte nicht gestartet werden, weil eine Bibliothek fehlt.",
    "Guten Morgen.",
    "Diese Option legt fest, ob beim Start nach neuen Versionen gesucht wird.",
]


def main() -> None:
    """Print a JSON line for each way of watching."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="de-en-small")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--batch", type=int, default=len(SENTENCES))
    given = parser.parse_args()
    torch.set_num_threads(1)
    loaded = regard.load(given.folder)
    texts = (SENTENCES * given.batch)[: given.batch]

    def plain() -> list[str]:
        return [found.output for found in loaded.predict(texts)]

    ways = {
        "every head": {},
        "float16": {"dtype": torch.float16},
        "cross only": {"only": "decoder.*cross*"},
    }
    for name, options in ways.items():

        def watched(options: dict[str, object] = options) -> list[str]:
            with regard.watch(loaded.model, **options):
                return plain()

        assert watched() == plain()
        ratio = paired.paired(plain, watched, given.repeats)
        cost = {key: round(100 * (value - 1), 1) for key, value in ratio.items()}
        paired.row(watching=name, batch=given.batch, percent_more=cost, **paired.machine())


if __name__ == "__main__":
    main()
