"""`regard convert`: another program's model as a folder of ours."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli._common import Json, emit, say, terse
from regard.errors import RequestError

__all__ = ["convert"]


def convert(
    path: Annotated[Path, typer.Argument(help="Their checkpoint, or the folder it is in.")],
    origin: Annotated[
        str, typer.Option("--from", help="huggingface, fairseq, opennmt-py or joeynmt.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to make.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Write into one that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Make a model folder of a Transformer that another program trained.

    Checkpoints are read as tensors and plain values: no pickle is run. Vocabularies lie where that
    program keeps them: beside the checkpoint (fairseq's dict.*.txt, JoeyNMT's *_vocab.txt) or in
    it. Texts are then in pieces, with spaces between, as that program reads them; Marian models
    with their .spm files read plain text.

    Examples:
        regard convert checkpoint_best.pt --from fairseq -o wmt-en-de
        regard convert model_step_100000.pt --from opennmt-py -o mine
        regard convert models/transformer_iwslt --from joeynmt -o iwslt
        regard convert opus-mt-de-en --from huggingface -o opus
    """
    from regard import loading
    from regard.convert import convert as read

    if output.exists() and not force:
        raise RequestError(f"{output} exists; --force writes into it")
    loaded = loading.load(read(path, origin, output))
    count = sum(p.numel() for p in loaded.model.parameters())
    if as_json:
        sizes = {side: len(own) for side, own in loaded.tokenizers.items()}
        emit({"folder": str(output), "from": origin, "parameters": count, "vocabulary": sizes})
    else:
        say(f"{output}: {terse(count)} parameters. Next: regard predict {output} …")
