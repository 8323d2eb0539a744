"""What requests look like; their examples are those of the OpenAPI page."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AlignBody",
    "AskedBody",
    "LineBody",
    "LookBody",
    "PairBody",
    "PredictBody",
    "ScoreBody",
    "StreamBody",
    "request_body",
]

Kind = Literal["urls", "placeholders", "tags", "all"]
"""What `keep` names: no regular expressions, which could take for ever."""
KEEP = "What stays as it is in outputs, each once."
SENTENCE = "Das Fenster wird geschlossen."


class AskedBody(BaseModel):
    """What requests have in common."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    model: str | None = Field(None, description="A name of /models; the only one may be left out.")


class _Wishes(AskedBody):
    n_best: int = Field(1, ge=1, description="How many hypotheses; the others are alternatives.")
    prefix: str | list[str] | None = Field(
        None, description="What outputs must begin with: for all, or one for each."
    )
    force_words: list[str] | None = Field(None, description="What outputs must have.")
    bad_words: list[str] | None = Field(None, description="What outputs must not have.")
    decode: dict[str, bool | int | float | str | None] = Field(
        {}, description="Keys of the decoder, as beam_size or name."
    )


class PredictBody(_Wishes):
    """Inputs to answer."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "de-en-small", "inputs": [SENTENCE]}]}
    )
    inputs: str | list[str] = Field(description="A text or texts; a file is a data: URL.")
    align: bool = Field(False, description="Also which input word each output word comes from.")
    keep: list[Kind] = Field([], description=KEEP)


class StreamBody(_Wishes):
    """One input whose output is given step by step."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "de-en-small", "input": SENTENCE, "decode": {"name": "greedy"}}]
        }
    )
    input: str = Field(description="A text; a file is a data: URL.")


class LineBody(_Wishes):
    """A line of JSON lines."""

    input: str
    align: bool = False
    keep: list[Kind] = []


class PairBody(BaseModel):
    """An input and an output of it."""

    model_config = ConfigDict(extra="forbid")
    input: str
    output: str


class ScoreBody(AskedBody):
    """Outputs to judge."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "de-en-small",
                    "pairs": [{"input": SENTENCE, "output": "The window is closed."}],
                }
            ]
        }
    )
    pairs: list[PairBody]


class AlignBody(_Wishes):
    """Inputs, or inputs and outputs, whose words are aligned."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "de-en-small", "inputs": [SENTENCE]}]}
    )
    inputs: str | list[str] | None = None
    pairs: list[PairBody] | None = Field(
        None, description="In place of inputs: outputs that are given."
    )
    attention: str | None = Field(None, description="Which attention aligns; all where not given.")
    head: int | None = Field(None, ge=1, description="This head of it; the mean where not given.")


class LookBody(AskedBody):
    """An input to look at."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "de-en-small", "input": SENTENCE, "format": "json"}]
        }
    )
    input: str
    format: Literal["json", "svg", "html"] = "json"
    hypothesis: int = Field(1, ge=1)
    show: str = ""
    kind: str = ""
    layer: str = ""
    head: str = "mean"
    step: int | None = Field(None, ge=1)
    target: str | None = None
    measure: str = "weights"
    words: bool = True


def request_body(
    shape: type[BaseModel], *more: str, inputs: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """The part of OpenAPI that describes a body.

    Args:
        more: content types beside JSON.
        inputs: of each model; its examples are the shape's own with these.
    """
    schema = shape.model_json_schema()
    schema = _inlined(schema, schema.pop("$defs", {}))
    examples = schema.pop("examples", [])
    first = {"example": examples[0]} if examples else {}
    if first and inputs:
        first = {
            "examples": {name: {"value": value} for name, value in _asking(examples[0], inputs)}
        }
    content: dict[str, Any] = {"application/json": {"schema": schema, **first}}
    for kind in more:
        binary = {"type": "string", "format": "binary"}
        content[kind] = {"schema": binary}
        if kind == "multipart/form-data":
            content[kind] = {"schema": {"type": "object", "properties": {"file": binary}}}
    return {"required": True, "content": content}


def _asking(
    example: Mapping[str, Any], inputs: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The example of a shape, of each model that it can be asked of."""
    for name, given in inputs.items():
        own = {"inputs": [*given], "input": given[0]}
        yield name, {**example, "model": name, **{k: own[k] for k in own.keys() & example.keys()}}


def _inlined(value: Any, parts: dict[str, Any]) -> Any:
    """The same with what it refers to in its place."""
    if isinstance(value, dict):
        if "$ref" in value:
            return _inlined(parts[value["$ref"].rpartition("/")[2]], parts)
        return {key: _inlined(own, parts) for key, own in value.items()}
    return [_inlined(own, parts) for own in value] if isinstance(value, list) else value
