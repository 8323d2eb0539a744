"""Tasks: from data through a loss to predictions and official scores, one task per file."""

from importlib import import_module

from regard.datasets.data import Data
from regard.errors import RequestError, nearest
from regard.tasks.base import Task
from regard.tasks.generation.pairs import PairDataset
from regard.tasks.phases import Phase
from regard.tasks.prediction import Prediction

__all__ = ["TASKS", "Data", "PairDataset", "Phase", "Prediction", "Task", "load"]

TASKS = {
    "classification": "regard.tasks.labels.classification:Classification",
    "entailment": "regard.tasks.labels.entailment:Entailment",
    "similarity": "regard.tasks.labels.similarity:Similarity",
    "summarization": "regard.tasks.generation.summarization:Summarization",
    "translation": "regard.tasks.generation.translation:Translation",
    "language": "regard.tasks.language.language:Language",
    "memory": "regard.tasks.memory.memory:MemoryQA",
    "graphs": "regard.tasks.graphs.graphs:Graphs",
    "parsing": "regard.tasks.generation.parsing:Parsing",
    "pronunciation": "regard.tasks.generation.pronunciation:Pronunciation",
    "tagging": "regard.tasks.tags.tagging:Tagging",
    "reading": "regard.tasks.reading.reading:Reading",
    "images": "regard.tasks.labels.images:Images",
    "relations": "regard.tasks.relations.relations:Relations",
    "relation-classification": "regard.tasks.labels.relation_classification:RelationClassification",
    "captioning": "regard.tasks.generation.captioning:Captioning",
    "video": "regard.tasks.generation.video:Video",
    "speech": "regard.tasks.generation.speech:Speech",
    "speech-ctc": "regard.tasks.generation.speech_ctc:SpeechCTC",
}
"""What a recipe may name as `task.name`."""


def load(name: str) -> type[Task]:
    """The class of a task.

    Raises:
        RequestError: there is no task of that name.
    """
    if name not in TASKS:
        raise RequestError(f"there is no task {name!r}: {nearest(name, TASKS)}")
    module, _, attribute = TASKS[name].partition(":")
    found: type[Task] = getattr(import_module(module), attribute)
    return found
