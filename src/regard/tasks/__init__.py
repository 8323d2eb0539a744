"""Tasks: from data through a loss to predictions and official scores, one task per file."""

from importlib import import_module

from regard.errors import RequestError, nearest
from regard.tasks.base import Task
from regard.tasks.given import Data
from regard.tasks.pairs import PairDataset
from regard.tasks.phases import Phase
from regard.tasks.prediction import Prediction

__all__ = ["TASKS", "Data", "PairDataset", "Phase", "Prediction", "Task", "load"]

TASKS = {
    "classification": "regard.tasks.classification:Classification",
    "entailment": "regard.tasks.entailment:Entailment",
    "similarity": "regard.tasks.similarity:Similarity",
    "summarization": "regard.tasks.summarization:Summarization",
    "translation": "regard.tasks.translation:Translation",
    "language": "regard.tasks.language:Language",
    "memory": "regard.tasks.memory:MemoryQA",
    "graphs": "regard.tasks.graphs:Graphs",
    "parsing": "regard.tasks.parsing:Parsing",
    "pronunciation": "regard.tasks.pronunciation:Pronunciation",
    "tagging": "regard.tasks.tagging:Tagging",
    "reading": "regard.tasks.reading:Reading",
    "images": "regard.tasks.images:Images",
    "relations": "regard.tasks.relations:Relations",
    "relation-classification": "regard.tasks.relation_classification:RelationClassification",
    "captioning": "regard.tasks.captioning:Captioning",
    "video": "regard.tasks.video:Video",
    "speech": "regard.tasks.speech:Speech",
    "speech-ctc": "regard.tasks.speech_ctc:SpeechCTC",
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
