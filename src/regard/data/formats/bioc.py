"""BioC XML: collections of documents with passages, annotations and relations.

Entities and document types are refused, so no file can make the reader expand or fetch anything.
Source: Comeau et al. (2013), "BioC: a minimalist approach to interoperability for biomedical text
processing".
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from regard.data.annotations.documents import Mention, Relation, RelationDocument, checked_spans
from regard.data.files.packing import whole_bytes
from regard.data.formats.base import whole_number
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["documents", "parse", "written"]

CONCEPTS = ("identifier", "MESH", "MeSH", "mesh", "concept")
"""Names of the `infon` that holds the concepts of a mention, the first that is there."""
TYPES = ("type", "relation")
GAP = 1 << 12
"""Characters that may be missing between two passages or sentences; more are no text left out, and
would take memory that the file has not."""
UNKNOWN = ("", "-", "-1")


def documents(path: str | Path, problems: Problems) -> Iterator[tuple[int, RelationDocument]]:
    """The documents of a file, each with its number.

    A broken annotation or relation is reported by the number of its document and left out.

    Raises:
        RequestError: not XML, or XML with a document type.
    """
    try:
        raw = whole_bytes(path)
    except OSError as error:
        raise RequestError(f"{path}: damaged: {error}") from error
    yield from parse(raw, str(path), problems)


def parse(raw: bytes, file: str, problems: Problems) -> Iterator[tuple[int, RelationDocument]]:
    """The documents of a collection.

    Raises:
        RequestError: not XML, or XML with a document type.
    """
    place = f"{file}:document"
    for number, one in enumerate(_root(raw, file).iter("document"), 1):
        found = _document(one, place, number, problems)
        if found is not None:
            yield number, found
    problems.report(place)


def _root(raw: bytes, file: str) -> ElementTree.Element:
    """The tree of a file without a document type: no entity can be declared then."""
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate()

    def refuse(name: str, *_: Any) -> None:
        at = parser.CurrentLineNumber
        raise RequestError(
            f"{file}:{at}: BioC with a document type that declares entities is not read; "
            f"expected XML without the lines of <!DOCTYPE {name} […]>"
        )

    def doctype(name: str, system: str | None, public: str | None, internal: int) -> None:
        if internal:  # <!DOCTYPE collection SYSTEM "BioC.dtd"> alone names a file that is not read
            refuse(name)

    parser.StartDoctypeDeclHandler = doctype
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.buffer_text = True
    try:
        parser.Parse(raw, True)
        return builder.close()
    except expat.ExpatError as error:
        raise RequestError(
            f"{file}:{error.lineno}: not XML: {expat.ErrorString(error.code)}"
        ) from None
    except AssertionError:
        raise RequestError(f"{file}: not XML: elements are not closed") from None
    except (LookupError, ValueError) as error:  # an unknown encoding
        if isinstance(error, RequestError):
            raise
        raise RequestError(f"{file}: not XML: {error}") from None


def _document(
    one: ElementTree.Element, place: str, number: int, problems: Problems
) -> RelationDocument | None:
    text, passages = "", list[int]()
    base: int | None = None
    try:
        for passage in one.iter("passage"):
            own = _text(passage)
            start = _number(passage.findtext("offset"), "offset")
            base = start if base is None else base
            start -= base
            if passages and start <= len(text):  # overlapping ones are put behind each other
                raise ValueError(f"a passage begins at {start + base}, inside the one before")
            text = _filled(text, start) + own
            passages.append(start)
    except ValueError as error:
        problems.add(place, number, "broken document", str(error))
        return None
    if not text.strip():
        problems.add(place, number, "no text")
        return None
    mentions: list[Mention] = []
    names: dict[str, Mention] = {}
    for annotation in one.iter("annotation"):
        try:
            mention = _mention(annotation, text, base or 0)
        except ValueError as error:
            problems.add(place, number, "broken annotation", str(error))
            continue
        mentions.append(mention)
        names[annotation.get("id", "")] = mention
    known = {concept for m in mentions for concept in m.concepts}
    relations: list[Relation] = []
    for told in one.iter("relation"):
        try:
            relations += [r for r in _relations(told, names, known) if r not in relations]
        except ValueError as error:
            problems.add(place, number, "broken relation", str(error))
    return RelationDocument(
        one.findtext("id") or "", text, tuple(mentions), tuple(relations), tuple(passages)
    )


def _text(passage: ElementTree.Element) -> str:
    """Of a passage, or of its sentences."""
    own = passage.findtext("text")
    if own is not None:
        return own
    start, found = _number(passage.findtext("offset"), "offset"), ""
    for sentence in passage.iter("sentence"):
        at = _number(sentence.findtext("offset"), "offset") - start
        found = _filled(found, at) + (sentence.findtext("text") or "")
    return found


def _number(text: str | None, what: str) -> int:
    found = None if text is None else whole_number(text.strip())
    if found is None:
        raise ValueError(f"expected a number as {what}, got {text!r}")
    return found


def _filled(text: str, start: int) -> str:
    """The text with blanks up to a place, where what comes next begins."""
    if start - len(text) > GAP:
        raise ValueError(f"an offset that leaves a gap of {start - len(text):,} characters")
    return text.ljust(start)


def _infons(element: ElementTree.Element) -> dict[str, str]:
    return {one.get("key", ""): (one.text or "").strip() for one in element.findall("infon")}


def _mention(annotation: ElementTree.Element, text: str, base: int) -> Mention:
    name, infons = annotation.get("id", ""), _infons(annotation)
    spans = []
    for at in annotation.findall("location"):
        start = _number(at.get("offset"), f"offset of {name!r}") - base
        spans.append((start, start + _number(at.get("length"), f"length of {name!r}")))
    if not spans:
        raise ValueError(f"{name!r} has no location")
    told = next((infons[key] for key in CONCEPTS if key in infons), "")
    parts = told.replace(";", "|").replace(",", "|").split("|")
    concepts = tuple(dict.fromkeys(c.strip() for c in parts if c.strip() not in UNKNOWN))
    if not infons.get("type"):
        raise ValueError(f"{name!r} has no infon 'type'")
    return Mention(
        checked_spans(spans, text, repr(name)), infons["type"], concepts, infons.get("note", "")
    )


def _relations(
    told: ElementTree.Element, names: dict[str, Mention], known: set[str]
) -> list[Relation]:
    """Of concepts, or of mentions: then between every two of their concepts."""
    infons = _infons(told)
    kind = next((infons[key] for key in TYPES if infons.get(key)), "")
    if not kind:
        raise ValueError(f"{told.get('id', '')!r} has no infon 'type'")
    nodes = [names.get(node.get("refid", "")) for node in told.findall("node")]
    if nodes:
        if len(nodes) != 2 or None in nodes:
            raise ValueError(f"{told.get('id', '')!r}: expected two nodes that are annotations")
        first, second = (node.concepts for node in nodes if node is not None)
        return [Relation(kind, a, b) for a in first for b in second]
    ends = [value for key, value in infons.items() if key not in TYPES]
    if len(ends) != 2 or not set(ends) <= known:
        raise ValueError(f"{told.get('id', '')!r}: expected two concepts that have mentions")
    return [Relation(kind, ends[0], ends[1])]


def written(found: Sequence[RelationDocument]) -> str:
    """A collection of some documents."""
    root = ElementTree.Element("collection")
    for key in ("source", "date", "key"):
        ElementTree.SubElement(root, key)
    for one in found:
        _element(root, one)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _element(root: ElementTree.Element, one: RelationDocument) -> None:
    document = ElementTree.SubElement(root, "document")
    _leaf(document, "id", one.id)
    bounds = [*one.passages[1:], len(one.text) + 1]
    number = 0
    for start, end, text in zip(one.passages, bounds, one.parts, strict=True):
        passage = ElementTree.SubElement(document, "passage")
        _leaf(passage, "offset", str(start))
        _leaf(passage, "text", text)
        for mention in one.mentions:
            if start <= mention.start < end:
                made = ElementTree.SubElement(passage, "annotation", id=str(number))
                _leaf(made, "infon", mention.type, key="type")
                _leaf(made, "infon", "|".join(mention.concepts) or "-1", key="identifier")
                if mention.note:
                    _leaf(made, "infon", mention.note, key="note")
                for a, b in mention.spans:
                    ElementTree.SubElement(made, "location", offset=str(a), length=str(b - a))
                _leaf(made, "text", mention.of(one.text))
                number += 1
    for place, relation in enumerate(one.relations):
        made = ElementTree.SubElement(document, "relation", id=f"R{place}")
        _leaf(made, "infon", relation.type, key="type")
        _leaf(made, "infon", relation.head, key="head")
        _leaf(made, "infon", relation.tail, key="tail")


def _leaf(parent: ElementTree.Element, tag: str, text: str, **attributes: str) -> None:
    ElementTree.SubElement(parent, tag, attributes).text = text
