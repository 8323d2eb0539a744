"""`regard export`: a model for another program, in a folder of its own."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli._common import Json, emit, say
from regard.cli._folder import Folder
from regard.errors import RequestError

__all__ = ["export"]


def export(
    folder: Folder,
    to: Annotated[str, typer.Option(help="huggingface, ctranslate2, onnx, program or regard.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT", help="Folder to make; program: default FOLDER itself."
        ),
    ] = None,
    quantization: Annotated[
        str | None,
        typer.Option(metavar="int8", help="Of the weights, for ctranslate2 and regard."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it is there.")] = False,
    as_json: Json = False,
) -> None:
    """Write a model for another program: it computes there what it does here.

    ctranslate2 and huggingface take plain Transformers; onnx takes every model that writes, tags
    or labels texts. The folder has a README.md with the lines of code that use it. Weights and
    tokenizers come along; it is written whole or not at all. `--to regard` writes any model again
    with smaller weights: int8, a quarter of float32; float16; or int7 and int6, as large as int8
    and an eighth or a quarter smaller in a wheel or an archive.

    `--to program` adds what the model computes as a graph (program.json): with it `regard predict`
    answers texts without PyTorch, in a fifth of the time. It takes models that write texts, and
    classifiers of texts and pairs with one label.

    Examples:
        regard export de-en-small --to ctranslate2 -o de-en-ct2
        regard export de-en-small --to ctranslate2 --quantization int8 -o de-en-int8
        regard export de-en-small --to onnx -o de-en-onnx
        regard export pronunciation-small --to onnx -o pronunciation-onnx
        regard export runs/mine --to regard --quantization int8 -o mine-int8
        regard export runs/mine --to program
        regard export runs/mine --to huggingface -o mine-hf
        regard export runs/tagging/bilstm-crf-aspects --to onnx -o aspects-onnx
    """
    from regard.convert import WRITERS, add_program
    from regard.convert import export as write
    from regard.folder.places import find
    from regard.runtime.weights import FILE

    options = {} if quantization is None else {"quantization": quantization}
    if output is None:
        if to == "program" and not options:
            path = add_program(folder)
            if as_json:
                emit({"folder": str(path.parent), "to": to, "files": [path.name]})
            else:
                say(f"{path}: regard predict answers texts by it, without PyTorch")
            return
        if to in WRITERS and to != "program":
            raise RequestError(f"--to {to}: expected -o with the folder to make")
        output = Path(to)  # an unknown name, or option, is told of by `write`
    before = (find(folder) / FILE).stat().st_size if to == "regard" else 0
    files = write(folder, to, output, force=force, **options)
    size = sum((output / file).stat().st_size for file in files)
    if as_json:
        emit({"folder": str(output), "to": to, "files": files, "bytes": size})
        return
    say(f"{output}: {len(files)} files, {size / 1e6:.1f} MB; {output / 'README.md'} says how")
    if to == "regard":
        now = (output / FILE).stat().st_size
        say(f"{FILE}: {now / 1e6:.2f} MB, {before / 1e6:.2f} before; score it: regard evaluate")
