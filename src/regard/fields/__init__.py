"""Fields: one kind of column of the data per file, from the cells of a file to a batch.

A task declares its fields (`Task.fields`); what a field is told of the data it learns from the
training split, and keeps in one file of the model folder.
"""

from regard.fields.base import Bad, Field, Report
from regard.fields.clip import ClipField
from regard.fields.copied import CopiedField, CopyingField
from regard.fields.features import FeaturesField
from regard.fields.graph import GraphField
from regard.fields.image import ImageField
from regard.fields.key import KeyField
from regard.fields.label import LabelField, LabelsField, OrdinalField
from regard.fields.marked_text import MarkedTextField
from regard.fields.number import GradeField, NumberField
from regard.fields.opinions import OpinionTagsField
from regard.fields.predicates import PredicatesField
from regard.fields.regions import RegionField
from regard.fields.sound import SoundField
from regard.fields.spans import SpansField
from regard.fields.story import StoryField
from regard.fields.tags import TagsField
from regard.fields.text import TextField
from regard.fields.tree import TreeField
from regard.fields.word_features import MarksField, WordFeatureField

__all__ = [
    "Bad",
    "ClipField",
    "CopiedField",
    "CopyingField",
    "FeaturesField",
    "Field",
    "GradeField",
    "GraphField",
    "ImageField",
    "KeyField",
    "LabelField",
    "LabelsField",
    "MarkedTextField",
    "MarksField",
    "NumberField",
    "OpinionTagsField",
    "OrdinalField",
    "PredicatesField",
    "RegionField",
    "Report",
    "SoundField",
    "SpansField",
    "StoryField",
    "TagsField",
    "TextField",
    "TreeField",
    "WordFeatureField",
]
