"""A folder of Hugging Face: its model read without pickles, code or a network, and looked at."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import RequestError
from regard.system.plain_json import read_object
from regard.watching.huggingface.folder import Reader, TransformersFolder
from regard.watching.huggingface.images_and_audio import (
    classified_picture,
    classified_sound,
    read_picture,
    read_sound,
    spelled,
    transcribed,
)
from regard.watching.huggingface.inputs import quiet, telling
from regard.watching.huggingface.texts import classified, filled, read, translated, written

__all__ = ["PREFIX", "open_transformers"]

PREFIX = "hf:"
"""Before a folder's path: it is one of Hugging Face."""
TABLES: Sequence[tuple[str, str, Reader]] = (
    ("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", "AutoModelForSpeechSeq2Seq", transcribed),
    ("MODEL_FOR_CTC_MAPPING_NAMES", "AutoModelForCTC", spelled),
    (
        "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForAudioClassification",
        classified_sound,
    ),
    (
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForImageClassification",
        classified_picture,
    ),
    ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "AutoModelForSeq2SeqLM", translated),
    ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "AutoModelForCausalLM", written),
    ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "AutoModelForMaskedLM", filled),
    (
        "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForSequenceClassification",
        classified,
    ),
    ("MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES", "AutoModel", read),
    ("MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES", "AutoModel", read),
    ("MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES", "AutoModel", read),
    ("MODEL_MAPPING_NAMES", "AutoModel", read),
)
"""Tables of transformers, the class that loads their models, and how these are looked at."""
PICTURES, SOUNDS = (read_picture, classified_picture), (read_sound, classified_sound, spelled)


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
    with telling(path), quiet():
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
