"""Reads: what is done with the weights."""

from regard.attention.read.base import Read as Read
from regard.attention.read.features import FeatureSum as FeatureSum
from regard.attention.read.gather import Gather as Gather
from regard.attention.read.pointer import Pointer as Pointer
from regard.attention.read.relative import RelativeValues as RelativeValues
from regard.attention.read.sum import WeightedSum as WeightedSum
