"""How scores become weights."""

from regard.attention.select.base import Select as Select
from regard.attention.select.features import FeatureSoftmax as FeatureSoftmax
from regard.attention.select.softmax import Softmax as Softmax
from regard.attention.select.softmax import masked_softmax as masked_softmax
