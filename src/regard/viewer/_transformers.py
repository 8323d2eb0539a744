"""A folder of Hugging Face: its model read without pickles, code or a network, and looked at."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError
from regard.viewer._drawable import DrawableView
from regard.views import Axis, ViewOptions, axis_of

if TYPE_CHECKING:
    from regard.attention import Seen

__all__ = ["PREFIX", "TransformersFolder", "open_transformers"]

PREFIX = "hf:"
"""Before a folder's path: it is one of Hugging Face."""
LONGEST = 64
"""Tokens that an encoder-decoder model writes at most, where nothing else is asked for."""
READING = (
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
    "MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
)
"""Tables of transformers whose models read a text: what is below their heads is looked at."""


@dataclass(frozen=True)
class TransformersFolder:
    """A model, its tokenizer, and how its kind is looked at."""

    folder: str
    name: str
    model: Any
    tokenizer: Any
    look: Callable[["TransformersFolder", str, str | None, int | None], DrawableView]

    def view(
        self, texts: Sequence[str], options: ViewOptions, longest: int | None = None
    ) -> DrawableView:
        """Several texts, each with every attention of the model.

        Args:
            longest: how many tokens are written at most.

        Raises:
            RequestError: an option that this kind of model cannot use, or a text that is empty.
        """
        known = ("target",) if self.look is _translated else ()
        options.only(*known, task=self.name)
        views = [self._one(text, options.target, longest) for text in texts]
        whole = views[0]
        for view in views[1:]:
            whole = whole + view
        return replace(whole, title=f"{self.folder} · {texts[0]}")

    def _one(self, text: str, target: str | None, longest: int | None) -> DrawableView:
        if not text.strip():
            raise RequestError("the input is empty: there is nothing to look at")
        with _told(self.folder):
            made = self.look(self, text, target, longest)
        runs = [replace(run, input=text, model=self.name, folder=self.folder) for run in made.runs]
        return replace(made, runs=runs)

    def ids(self, text: str) -> Any:
        """Ids of a text, (1, T).

        Raises:
            RequestError: it has more tokens than the model has places.
        """
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
        self.check(ids.shape[1])
        return ids

    def check(self, count: int) -> None:
        """Refuse more tokens than the model has places."""
        places = getattr(self.model.config, "max_position_embeddings", None)
        if isinstance(places, int) and count > places > 0:
            raise RequestError(f"{self.name} has {places} places, the text has {count} tokens")


def open_transformers(path: str) -> TransformersFolder:
    """Read a local folder: `config.json`, a tokenizer, and weights as safetensors.

    Raises:
        RequestError: no such folder, weights that are pickles, code of its own, or another kind of
            model than one that reads or writes text.
    """
    folder = Path(path.removeprefix(PREFIX))
    config = _config(folder)
    try:
        import transformers
    except ImportError:
        raise RequestError(
            f"{path}: reading a Hugging Face folder needs transformers; pip install transformers"
        ) from None
    loader, look = _kind(folder, config)
    local = {"local_files_only": True, "trust_remote_code": False}
    with _told(path), _quiet():
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **local)
        model, report = getattr(transformers, loader).from_pretrained(
            str(folder), use_safetensors=True, output_loading_info=True, **local
        )
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if missing:
        raise RequestError(f"{path}: {len(missing)} weights are not in it, {missing[0]} the first")
    return TransformersFolder(path, type(model).__name__, model.eval(), tokenizer, look)


def _config(folder: Path) -> dict[str, Any]:
    """What the folder says of itself, before anything of it is loaded."""
    file = folder / "config.json"
    if not file.is_file():
        raise RequestError(f"expected a Hugging Face folder with a config.json, got {folder}")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RequestError(f"{file}: expected JSON: {error}") from None
    if not isinstance(config, dict):
        raise RequestError(f"{file}: expected an object, got {type(config).__name__}")
    if not any((folder / name).is_file() for name in _SAFE):
        pickles = sorted(p.name for p in folder.iterdir() if p.suffix in (".bin", ".pt", ".pth"))
        said = f"{pickles[0]}, a pickle, which could run code" if pickles else "no weights"
        raise RequestError(f"{folder}: expected weights in model.safetensors, got {said}")
    if "auto_map" in config:
        raise RequestError(f"{folder}: its model is code of its own, which is never run")
    if (folder / "adapter_config.json").exists():
        raise RequestError(
            f"{folder}: expected a whole model, got an adapter; merge it into its model first"
        )
    return config


_SAFE = ("model.safetensors", "model.safetensors.index.json")


def _kind(folder: Path, config: Mapping[str, Any]) -> tuple[str, Callable[..., DrawableView]]:
    """Which class of transformers loads it, and how it is looked at, by its architecture."""
    from transformers.models.auto import modeling_auto, tokenization_auto

    kind = str(config.get("model_type"))
    name = next(iter(config.get("architectures") or ["none"]))
    for table, loader, look in (
        ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "AutoModelForSeq2SeqLM", _translated),
        ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "AutoModelForCausalLM", _written),
        ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "AutoModelForMaskedLM", _filled),
        *((table, "AutoModel", _read) for table in READING),
    ):
        known = getattr(modeling_auto, table, {}).get(kind, ())
        if name not in ((known,) if isinstance(known, str) else known):
            continue
        text = tokenization_auto.TOKENIZER_MAPPING_NAMES.get(kind)
        if loader == "AutoModel" and (config.get("is_encoder_decoder") or not text):
            break
        return loader, look
    raise RequestError(
        f"{folder}: expected a causal, masked or encoder-decoder model of texts, got {name} "
        f"({kind}); regard.watch looks at any model from Python"
    )


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What transformers cannot read or run, in one sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError, IndexError, RuntimeError) as error:
        if isinstance(error, RequestError):
            raise
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RequestError(f"{path}: transformers could not read it: {said}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """No bars and reports while something is loaded."""
    from transformers import utils

    logging: Any = utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _seen(one: TransformersFolder, **inputs: Any) -> "tuple[Seen, Any]":
    import torch

    from regard.viewer.watching import watch

    with torch.no_grad(), watch(one.model) as seen:
        output = one.model(**inputs)
    return seen, output


def _view(seen: "Seen", axes: Mapping[str, tuple[Axis, Axis]], output: str) -> DrawableView:
    from regard.viewer.watching import of_seen

    usual = next(iter(axes.values()))
    for name, record in seen.items():
        rows, columns = axes.get(record.role, usual)
        seen.label(name, rows=rows, columns=columns)
    view = of_seen(seen)
    return replace(view, runs=[replace(run, output=output) for run in view.runs])


def _read(
    one: TransformersFolder, text: str, target: str | None, longest: int | None
) -> DrawableView:
    """A text that is read as it is."""
    _no_writing(one, longest)
    seen, _ = _seen(one, input_ids=one.ids(text))
    axis = axis_of((one.tokenizer, text))
    return _view(seen, {"self": (axis, axis)}, "")


def _filled(
    one: TransformersFolder, text: str, target: str | None, longest: int | None
) -> DrawableView:
    """A text with masks, and what the model would put there."""
    _no_writing(one, longest)
    ids = one.ids(text)
    seen, output = _seen(one, input_ids=ids)
    axis = axis_of((one.tokenizer, text))
    masked = ids[0] == one.tokenizer.mask_token_id
    best = ids[0].where(~masked, output.logits[0].argmax(-1))
    said = one.tokenizer.decode(best, skip_special_tokens=True) if masked.any() else ""
    return _view(seen, {"self": (axis, axis)}, said)


def _written(
    one: TransformersFolder, text: str, target: str | None, longest: int | None
) -> DrawableView:
    """A text, and as many tokens as are asked for written on."""
    ids, said = one.ids(text), ""
    axis = axis_of((one.tokenizer, text))
    if longest:
        one.check(ids.shape[1] + longest)
        start = ids.shape[1]
        ids = _generate(one, ids, longest)
        said = one.tokenizer.decode(ids[0, start:], skip_special_tokens=True)
        axis = axis_of((one.tokenizer, ids[0].tolist()))
    seen, _ = _seen(one, input_ids=ids)
    return _view(seen, {"self": (axis, axis)}, said)


def _translated(
    one: TransformersFolder, text: str, target: str | None, longest: int | None
) -> DrawableView:
    """What is written looks at what was read; rows of the cross-attention are what they write."""
    import torch

    ids = one.ids(text)
    start = one.model.generation_config.decoder_start_token_id
    if target is None:
        out = _generate(one, ids, LONGEST if longest is None else longest)
    else:
        if start is None:
            start = one.model.config.decoder_start_token_id
        written = one.tokenizer(text_target=target, return_tensors="pt")["input_ids"]
        one.check(written.shape[1])
        out = torch.cat([torch.tensor([[start]]), written], 1)
    if out.shape[1] < 2:
        raise RequestError("the output is empty: there is nothing to look at")
    seen, _ = _seen(one, input_ids=ids, decoder_input_ids=out[:, :-1])
    source = axis_of((one.tokenizer, text))
    before, after = (axis_of((one.tokenizer, part.tolist())) for part in (out[0, :-1], out[0, 1:]))
    axes = {"cross": (after, source), "encoder": (source, source), "decoder": (before, before)}
    return _view(seen, axes, one.tokenizer.decode(out[0], skip_special_tokens=True))


def _generate(one: TransformersFolder, ids: Any, longest: int) -> Any:
    """Greedily, with nothing else that a folder may ask for."""
    import torch

    with torch.no_grad():
        return one.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=longest, do_sample=False,
            num_beams=1, num_return_sequences=1, return_dict_in_generate=False,
        )  # fmt: skip


def _no_writing(one: TransformersFolder, longest: int | None) -> None:
    if longest is not None:
        raise RequestError(f"--max: {one.name} writes nothing; leave it out")
