"""A folder of Hugging Face: its model read without pickles, code or a network, and looked at."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import RequestError
from regard.system.plain_json import read_object
from regard.viewer._drawable import DrawableView
from regard.viewer._transformers_looked import Reader, looked, quiet
from regard.viewer._transformers_senses import (
    classified_picture,
    classified_sound,
    read_picture,
    read_sound,
    spelled,
    transcribed,
)
from regard.viewer._transformers_texts import classified, filled, read, translated, written
from regard.views import ViewOptions

__all__ = ["PREFIX", "TransformersFolder", "open_transformers"]

PREFIX = "hf:"
"""Before a folder's path: it is one of Hugging Face."""
TABLES: Sequence[tuple[str, str, Reader]] = (
    ("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", "AutoModelForSpeechSeq2Seq", transcribed),
    ("MODEL_FOR_CTC_MAPPING_NAMES", "AutoModelForCTC", spelled),
    ("MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES", "AutoModelForAudioClassification",
     classified_sound),
    ("MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES", "AutoModelForImageClassification",
     classified_picture),
    ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "AutoModelForSeq2SeqLM", translated),
    ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "AutoModelForCausalLM", written),
    ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "AutoModelForMaskedLM", filled),
    ("MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES", "AutoModelForSequenceClassification",
     classified),
    ("MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES", "AutoModel", read),
    ("MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES", "AutoModel", read),
    ("MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES", "AutoModel", read),
    ("MODEL_MAPPING_NAMES", "AutoModel", read),
)  # fmt: skip
"""Tables of transformers, the class that loads their models, and how these are looked at."""
PICTURES, SOUNDS = (read_picture, classified_picture), (read_sound, classified_sound, spelled)


@dataclass(frozen=True)
class TransformersFolder:
    """A model, what makes its inputs, and how its kind is looked at.

    Args:
        tokenizer: of texts that it reads or writes, or None.
        features: its image processor or feature extractor, or None.
    """

    folder: str
    name: str
    model: Any
    tokenizer: Any
    look: Reader
    features: Any = None

    def view(
        self, texts: Sequence[str], options: ViewOptions, longest: int | None = None
    ) -> DrawableView:
        """Several inputs, each with every attention of the model.

        Args:
            longest: how many tokens are written at most.

        Raises:
            RequestError: an option that this kind of model cannot use, or a text that is empty.
        """
        known = ("target",) if self.look in (translated, transcribed) else ()
        options.only("measure", "why", *known, task=self.name)
        views = [self._one(text, options, longest) for text in texts]
        whole = views[0]
        for view in views[1:]:
            whole = whole + view
        return replace(whole, title=f"{self.folder} · {texts[0]}")

    def _one(self, text: str, options: ViewOptions, longest: int | None) -> DrawableView:
        if not text.strip():
            raise RequestError("the input is empty: there is nothing to look at")
        with _told(self.folder):
            reading = self.look(self, text, options.target, longest)
            made = looked(self, reading, options)
        runs = [replace(run, input=text, model=self.name, folder=self.folder) for run in made.runs]
        return replace(made, runs=runs)


def open_transformers(path: str) -> TransformersFolder:
    """Read a local folder: `config.json`, its tokenizer or processor, weights as safetensors.

    Raises:
        RequestError: no such folder, weights that are pickles, code of its own, or a kind of model
            that is not known.
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
    with _told(path), quiet():
        tokenizer = features = None
        if look not in (*PICTURES, read_sound, classified_sound):
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **local)
        makers: Any = transformers
        if look in PICTURES:
            features = makers.AutoImageProcessor.from_pretrained(str(folder), **local)
        elif look in (*SOUNDS, transcribed):
            features = makers.AutoFeatureExtractor.from_pretrained(str(folder), **local)
        model, report = getattr(transformers, loader).from_pretrained(
            str(folder), use_safetensors=True, output_loading_info=True, **local
        )
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if missing:
        raise RequestError(f"{path}: {len(missing)} weights are not in it, {missing[0]} the first")
    name = type(model).__name__
    return TransformersFolder(path, name, model.eval(), tokenizer, look, features)


def _config(folder: Path) -> dict[str, Any]:
    """What the folder says of itself, before anything of it is loaded."""
    file = folder / "config.json"
    if not file.is_file():
        raise RequestError(f"expected a Hugging Face folder with a config.json, got {folder}")
    config = read_object(file)
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


def _kind(folder: Path, config: Mapping[str, Any]) -> tuple[str, Reader]:
    """Which class of transformers loads it, and how it is looked at, by its architecture."""
    from transformers.models import auto

    tables: Any = auto
    kind = str(config.get("model_type"))
    name = next(iter(config.get("architectures") or ["none"]))
    for table, loader, look in TABLES:
        known = getattr(tables.modeling_auto, table, {}).get(kind, ())
        if name not in ((known,) if isinstance(known, str) else known):
            continue
        if look is not read:
            return loader, look
        if kind in tables.image_processing_auto.IMAGE_PROCESSOR_MAPPING_NAMES:
            return loader, read_picture
        if config.get("is_encoder_decoder"):
            break
        if kind in tables.feature_extraction_auto.FEATURE_EXTRACTOR_MAPPING_NAMES:
            return loader, read_sound
        if tables.tokenization_auto.TOKENIZER_MAPPING_NAMES.get(kind):
            return loader, look
        break
    raise RequestError(
        f"{folder}: expected a model of texts, pictures or sounds that regard knows, got {name} "
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
