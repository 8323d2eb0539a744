"""`regard models FOLDER --explain`: what runs the steps of a folder's decoder, and why."""

import tempfile
import wave
from pathlib import Path
from typing import Any

from regard.cli._common import columns, emit, print_result
from regard.cli._light import FEW
from regard.folder.loaded import Loaded
from regard.folder.programs import open_program

__all__ = ["explain_steps"]

SECONDS, RATE, SIDE = 0.5, 8000, 48
"""Of a sound and a picture that are tried where a task reads files."""


def explain_steps(folder: str, *, json: bool) -> None:
    """Decode an input of a folder's kind, and print what has taken the steps.

    Raises:
        RequestError: no such folder.
    """
    from regard import loading

    loaded = loading.load(folder)
    found = _found(loaded)
    if json:
        emit({"folder": folder, **found})
        return
    rows = [("MODEL", found["model"]), ("STEPS", found["said"])]
    if "encoder_said" in found:
        rows.append(("ENCODER", found["encoder_said"]))
    if found["program"]:
        rows.append(("FEW TEXTS", f"regard predict answers up to {FEW} by NumPy, without PyTorch"))
    print_result(columns(rows))
    if found["by_torch"]:
        head = ("PYTORCH COMPUTES", "C HAS NO INSTRUCTION FOR")
        print_result("\n" + columns([head, *found["by_torch"]]))


def _found(loaded: Loaded) -> dict[str, Any]:
    model = loaded.model
    count = sum(p.numel() for p in model.parameters())
    named: dict[str, Any] = {
        "model": f"{type(model).__name__}, {count / 1e6:.1f} million parameters",
        "program": open_program(loaded.folder) is not None,
    }
    if not hasattr(model, "step"):
        said = "none: it answers in one pass, and decodes nothing step by step"
        nothing = {"backend": "none", "reasons": (), "by_torch": ()}
        return {**named, **nothing, "said": said}
    from regard.decode.program.explained import explanation

    with tempfile.TemporaryDirectory() as place:
        loaded.predict([_input(loaded, Path(place))])
    return {**named, **explanation(model).as_dict()}


def _input(loaded: Loaded, place: Path) -> str:
    """An input of the kind that a model reads."""
    from regard.serve._sample_inputs import as_input, examples_of

    task = loaded.task
    if task.name == "speech":
        with wave.open(str(place / "silence.wav"), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes(bytes(2 * int(SECONDS * RATE)))
        return str(place / "silence.wav")
    if task.reads_files:
        from PIL import Image

        Image.new("RGB", (SIDE, SIDE), "white").save(place / "white.png")
        return str(place / "white.png")
    examples = examples_of(loaded, len)
    return as_input(task.name, examples[0]) if examples else "a b c"
