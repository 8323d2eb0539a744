"""`regard predict`: any task's model on lines of text, as a filter or on the words given."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._common import Json, emit, print_result, say
from regard.cli._folder import (
    Changes,
    Columns,
    Device,
    Folder,
    OfGraph,
    Others,
    Threads,
    named_columns,
    open_folder,
)
from regard.cli._inputs import inputs_of, joined, lines_in, plain_lines
from regard.cli._light import LightAnswers, has_torch, program_for
from regard.cli._progress import counted
from regard.cli._shards import (
    Engine,
    Fresh,
    Output,
    OutputColumn,
    Workers,
    predict_files,
    refuse_with_into,
    refuse_without_output,
)
from regard.data.files.lines import CHUNK, Line
from regard.errors import RequestError
from regard.settings.old_names import ASKED

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded
    from regard.runtime.answer import PlainPrediction

    Answering = Callable[[Sequence[str]], Sequence[PlainPrediction]]

__all__ = ["predict"]


def predict(
    folder: Folder,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="Inputs; none: read stdin.")
    ] = None,
    input: Annotated[
        str | None, typer.Option("--input", "-i", metavar="FILE", help="A file, or - for stdin.")
    ] = None,
    as_json: Json = False,
    n_best: Annotated[
        int, typer.Option("--n-best", metavar="N", help="Alternatives to give with --json.")
    ] = 1,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What every output must begin with.")
    ] = None,
    force_words: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="What every output must have.")
    ] = None,
    bad_words: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="What no output must have.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="What stays as it is: urls, placeholders, tags, all, or a regular expression.",
        ),
    ] = None,
    align: Annotated[
        bool, typer.Option("--align", help="Which input word each output word comes from.")
    ] = False,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="Put input words for unknown output words.")
    ] = False,
    lexicon: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="What they become: lines of a word, a tab, a word."),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read --input as data, and write it again with what is predicted in place of its "
            "own outputs.",
        ),
    ] = None,
    output: Output = None,
    output_column: OutputColumn = None,
    engine: Engine = None,
    workers: Workers = None,
    fresh: Fresh = False,
    named: Columns = None,
    attention: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The attention that aligns; default: the mean of all."),
    ] = None,
    head: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Its head that aligns; default: mean.")
    ] = None,
    changes: Changes = None,
    others: Others = None,
    threads: Threads = None,
    device: Device = "cpu",
    graph: OfGraph = None,
    must: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    never: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
) -> None:
    """Use a model: one output line for each input line.

    An empty line stays empty; a line that is refused (too long, not UTF-8) gives an empty line and
    is counted on stderr; where all are refused, the exit code is 1. With --json each output is one
    object: input, output, score, log_prob (the sum of its tokens' scores), tokens, alternatives.
    With --align a line is followed by ||| and links i-j of input and output words, counted from 0;
    JSON has them as `alignment`.

    A file of rows (.csv, .tsv, .jsonl, .json, .conll …) is read as in training, each row's inputs
    from their columns; .txt and files without a known ending are lines of text.

    With -o every file of --input becomes one of the same name in a folder: lines of text, JSON, TSV
    or CSV, also .gz or .zst, each written whole or not at all. Run again, it goes on with what is
    missing. Bad lines are told of in NAME.bad.jsonl.

    Examples:
        regard predict de-en-small "Das Fenster wird geschlossen."
        regard predict de-en-small -i sentences.txt > translations.txt
        cat sentences.txt | regard predict de-en-small --json --n-best 3
        regard predict de-en-small "Datei speichern" --force-words folder --bad-words file
        regard predict de-en-small -i sentences.txt --align
        regard predict de-en-small "Die Datei <b>{name}</b> fehlt." --keep all
        regard predict runs/pronunciation/rnnsearch-cmudict photograph --set beam_size=1
        regard predict runs/tagging/bilstm-crf-aspects -i new.jsonl --into tagged.jsonl
        regard predict pronunciation-small thoroughbred
        regard predict relations-small "The <e1>fire</e1> was caused by <e2>lightning</e2>."
        regard predict digits-small recording.wav
        regard predict emoji-small emoji.png
        cat photo.png | regard predict runs/images/ram-digits -
        regard predict de-en-small -i 'corpus/*.jsonl.gz' -o translated --workers 2
        regard predict runs/large -i train.tsv.gz -o distilled --output-column en
    """
    if keep and (align or replace_unknown or into is not None or output is not None):
        raise RequestError("--keep: expected without --align, --replace-unknown, --into and -o")
    if output is not None:
        if into is not None:
            raise RequestError("give --into or -o, not both")
        if n_best != 1 and not as_json:
            raise RequestError(f"--n-best {n_best}: alternatives are in JSON alone; add --json")
        predict_files(
            input,
            output,
            texts=texts,
            engine=engine,
            workers=workers,
            fresh=fresh,
            folder=folder,
            others=tuple(others or ()),
            changes=tuple(changes or ()),
            graph=graph,
            n_best=n_best,
            prefix=prefix,
            force_words=tuple(_under_old_name("must", must, force_words) or ()),
            bad_words=tuple(_under_old_name("never", never, bad_words) or ()),
            align=align,
            replace_unknown=replace_unknown,
            lexicon=lexicon,
            attention=attention,
            head=head,
            as_json=as_json,
            columns=tuple(named_columns(named).items()),
            threads=threads or 1,
            device=device,
            output_column=output_column,
        )
        return
    refuse_without_output(
        engine=engine, workers=workers, fresh=fresh, **{"output-column": output_column}
    )
    if texts and input:
        raise RequestError("give texts or --input, not both")
    if into is not None:
        refuse_with_into(
            TEXT=texts,
            json=as_json,
            n_best=n_best != 1,
            prefix=prefix,
            force_words=force_words,
            bad_words=bad_words,
            must=must,
            never=never,
            align=align,
            lexicon=lexicon,
            replace_unknown=replace_unknown,
            attention=attention,
            head=head,
        )
    if n_best > 1 and not as_json:
        say(f"--n-best {n_best}: alternatives are only shown with --json")

    def opened() -> "Loaded":
        return open_folder(folder, changes, n_best, threads, others, graph, device)

    if into is not None:
        _put_back(opened(), input, into, named)
        return
    asked = (prefix, keep, force_words, bad_words, must, never)
    changed = (align, replace_unknown, lexicon, attention, head is not None)
    alone = not has_torch()
    lines = lines_in(input) if alone and input is not None else None
    elsewhere = (input and lines is None, named, others, graph, device != "cpu")
    light = None
    if not any((*asked, *changed, *elsewhere)):
        light = program_for(folder, changes, n_best, threads)
    with ExitStack() as stack:
        if light is not None:

            def model() -> "Loaded":
                return stack.enter_context(counted(opened(), "lines", quiet=sys.stdout.isatty()))

            given = joined(plain_lines(texts) if lines is None else lines, light.join)
            waits = not texts and sys.stdin.isatty()
            answer: Answering = LightAnswers(light, model, any_number=waits or alone)
        else:
            from regard.decode.request import DecodingRequest
            from regard.inference.unknown_words import changing

            loaded = opened()
            words = changing(
                loaded, replace_unknown or lexicon is not None, lexicon, attention, head, align
            )
            request = DecodingRequest.of(
                {
                    "prefix": prefix,
                    "keep": keep,
                    "force_words": _under_old_name("must", must, force_words),
                    "bad_words": _under_old_name("never", never, bad_words),
                }
            )
            given = inputs_of(loaded, texts, input, named_columns(named))
            watched = stack.enter_context(counted(loaded, "lines", quiet=sys.stdout.isatty()))

            def answer(good: Sequence[str]) -> Sequence["PlainPrediction"]:
                return words(watched.predict(good, requests=request))

        total, refused = _predict(answer, given, as_json=as_json, align=align)
    if refused:
        say(f"{refused} of {total} lines were refused and gave an empty line")
        if refused == total:
            raise typer.Exit(1)


def _put_back(loaded: "Loaded", source: str | None, target: str, named: str | None) -> None:
    """Predict a data file into another one of its form."""
    from regard.evaluation.scoring import scored
    from regard.tasks.abilities import writing_back

    if source is None or source == "-":
        raise RequestError("--into: expected --input with the data file that is written again")
    task = writing_back(loaded.task)
    found = scored(loaded, source, named_columns(named))
    new, old = task.put_back(source, target, found.predictions, found.examples, found.config)
    say(f"{target}: {new} rows have predictions, {old} keep what they had")


def _predict(
    answer: "Answering",
    given: Iterator[Line],
    *,
    as_json: bool,
    align: bool,
) -> tuple[int, int]:
    """Write what each line gives; count the lines, and those that were refused."""
    refused = total = 0
    for lines in _chunks(given):
        good = [line.text for line in lines if not line.refused]
        found = iter(answer(good))
        for line in lines:
            prediction = None if line.refused else next(found)
            reason = line.refused or (prediction.refused if prediction else "")
            total += 1
            if reason:
                refused += 1
                say(f"line {total} is refused: {reason}")
            _write(line, prediction, reason, as_json, align)
        sys.stdout.flush()
    return total, refused


def _under_old_name(old: str, given: list[str] | None, today: list[str] | None) -> list[str] | None:
    """The values of an option, those under its old name too."""
    if given:
        say(f"--{old} is now called --{ASKED[old].replace('_', '-')}")
    return [*(today or ()), *(given or ())] or None


def _write(
    line: Line, prediction: "PlainPrediction | None", refused: str, as_json: bool, align: bool
) -> None:
    if not as_json:
        text = prediction.line if prediction else ""
        links = (prediction.alignment or ()) if prediction else ()
        pharaoh = " ".join(f"{i}-{j}" for i, j in links)
        print_result(f"{text} ||| {pharaoh}" if align and text else text)
        return
    empty: dict[str, Any] = {
        "input": line.text,
        "output": "",
        "score": None,
        "log_prob": None,
        "tokens": [],
        "alternatives": [],
    }
    found = prediction.as_json() if prediction else empty
    emit({**found, "refused": refused} if refused else found)


def _chunks(lines: Iterator[Line]) -> Iterator[list[Line]]:
    size = 1 if sys.stdin.isatty() else CHUNK
    while chunk := list(islice(lines, size)):
        yield chunk
