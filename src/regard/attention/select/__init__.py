"""Selects: how scores become weights."""

from regard.attention._ops.softmax import masked_log_softmax as masked_log_softmax
from regard.attention._ops.softmax import masked_softmax as masked_softmax
from regard.attention.select.base import LogSelect as LogSelect
from regard.attention.select.base import Select as Select
from regard.attention.select.chain import ChainMarginals as ChainMarginals
from regard.attention.select.features import FeatureSoftmax as FeatureSoftmax
from regard.attention.select.hard import Hard as Hard
from regard.attention.select.local import LocalMonotonic as LocalMonotonic
from regard.attention.select.local import LocalPredictive as LocalPredictive
from regard.attention.select.monotonic import Monotonic as Monotonic
from regard.attention.select.monotonic import MonotonicChunkwise as MonotonicChunkwise
from regard.attention.select.simple import Identity as Identity
from regard.attention.select.simple import OverQueries as OverQueries
from regard.attention.select.simple import Sharpen as Sharpen
from regard.attention.select.simple import Smooth as Smooth
from regard.attention.select.softmax import Softmax as Softmax
from regard.attention.select.sparse import Entmax15 as Entmax15
from regard.attention.select.sparse import Sparsemax as Sparsemax
from regard.attention.select.sparse import TopK as TopK
from regard.attention.select.straight_through import StraightThrough as StraightThrough
from regard.attention.select.talking import TalkingHeads as TalkingHeads
from regard.attention.select.temporal import TemporalSoftmax as TemporalSoftmax
