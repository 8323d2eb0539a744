"""Every attention mechanism as one operation of six parts, on the fastest possible kernel."""

from regard.attention._explain import explain as explain
from regard.attention._kernels.dispatch import Explanation as Explanation
from regard.attention._kernels.dispatch import kernels as kernels
from regard.attention.carry import Alignment as Alignment
from regard.attention.carry import Carry as Carry
from regard.attention.carry import CarryState as CarryState
from regard.attention.carry import Coverage as Coverage
from regard.attention.carry import IntraTemporal as IntraTemporal
from regard.attention.carry import PreviousWeights as PreviousWeights
from regard.attention.declaring import ROLES as ROLES
from regard.attention.declaring import roles as roles
from regard.attention.mask import Block as Block
from regard.attention.mask import Causal as Causal
from regard.attention.mask import Dense as Dense
from regard.attention.mask import Directional as Directional
from regard.attention.mask import Documents as Documents
from regard.attention.mask import Edges as Edges
from regard.attention.mask import Lengths as Lengths
from regard.attention.mask import Mask as Mask
from regard.attention.mask import Window as Window
from regard.attention.memory import Memory as Memory
from regard.attention.module import Attention as Attention
from regard.attention.module import MultiHead as MultiHead
from regard.attention.op import Attended as Attended
from regard.attention.op import attend as attend
from regard.attention.position import ALiBi as ALiBi
from regard.attention.position import BucketBias as BucketBias
from regard.attention.position import DistanceMask as DistanceMask
from regard.attention.position import Position as Position
from regard.attention.position import RelativeBias as RelativeBias
from regard.attention.position import Rotary as Rotary
from regard.attention.ragged import Ragged as Ragged
from regard.attention.ragged import attend_ragged as attend_ragged
from regard.attention.read import FeatureSum as FeatureSum
from regard.attention.read import Gather as Gather
from regard.attention.read import Pointer as Pointer
from regard.attention.read import Read as Read
from regard.attention.read import RelativeValues as RelativeValues
from regard.attention.read import WeightedSum as WeightedSum
from regard.attention.record import Record as Record
from regard.attention.recording import Seen as Seen
from regard.attention.recording import rows_of as rows_of
from regard.attention.recording import scope as scope
from regard.attention.score import Additive as Additive
from regard.attention.score import Biaffine as Biaffine
from regard.attention.score import Cosine as Cosine
from regard.attention.score import Dot as Dot
from regard.attention.score import FeatureAdditive as FeatureAdditive
from regard.attention.score import FeaturePerceptron as FeaturePerceptron
from regard.attention.score import General as General
from regard.attention.score import InverseEuclidean as InverseEuclidean
from regard.attention.score import LeakyAdditive as LeakyAdditive
from regard.attention.score import Location as Location
from regard.attention.score import LocationAware as LocationAware
from regard.attention.score import NegativeSquaredEuclidean as NegativeSquaredEuclidean
from regard.attention.score import RelativeKeys as RelativeKeys
from regard.attention.score import RelativeSinusoid as RelativeSinusoid
from regard.attention.score import ScaledDot as ScaledDot
from regard.attention.score import Score as Score
from regard.attention.score import SourceToToken as SourceToToken
from regard.attention.score import SplitLinear as SplitLinear
from regard.attention.score import Trilinear as Trilinear
from regard.attention.score import Uniform as Uniform
from regard.attention.select import ChainMarginals as ChainMarginals
from regard.attention.select import Entmax15 as Entmax15
from regard.attention.select import FeatureSoftmax as FeatureSoftmax
from regard.attention.select import Hard as Hard
from regard.attention.select import Identity as Identity
from regard.attention.select import LocalMonotonic as LocalMonotonic
from regard.attention.select import LocalPredictive as LocalPredictive
from regard.attention.select import Monotonic as Monotonic
from regard.attention.select import MonotonicChunkwise as MonotonicChunkwise
from regard.attention.select import OverQueries as OverQueries
from regard.attention.select import Select as Select
from regard.attention.select import Sharpen as Sharpen
from regard.attention.select import Smooth as Smooth
from regard.attention.select import Softmax as Softmax
from regard.attention.select import Sparsemax as Sparsemax
from regard.attention.select import StraightThrough as StraightThrough
from regard.attention.select import TalkingHeads as TalkingHeads
from regard.attention.select import TemporalSoftmax as TemporalSoftmax
from regard.attention.select import TopK as TopK
from regard.attention.select import masked_softmax as masked_softmax

__all__ = [
    "ROLES",
    "ALiBi",
    "Additive",
    "Alignment",
    "Attended",
    "Attention",
    "Biaffine",
    "Block",
    "BucketBias",
    "Carry",
    "CarryState",
    "Causal",
    "ChainMarginals",
    "Cosine",
    "Coverage",
    "Dense",
    "Directional",
    "DistanceMask",
    "Documents",
    "Dot",
    "Edges",
    "Entmax15",
    "Explanation",
    "FeatureAdditive",
    "FeaturePerceptron",
    "FeatureSoftmax",
    "FeatureSum",
    "Gather",
    "General",
    "Hard",
    "Identity",
    "IntraTemporal",
    "InverseEuclidean",
    "LeakyAdditive",
    "Lengths",
    "LocalMonotonic",
    "LocalPredictive",
    "Location",
    "LocationAware",
    "Mask",
    "Memory",
    "Monotonic",
    "MonotonicChunkwise",
    "MultiHead",
    "NegativeSquaredEuclidean",
    "OverQueries",
    "Pointer",
    "Position",
    "PreviousWeights",
    "Ragged",
    "Read",
    "Record",
    "RelativeBias",
    "RelativeKeys",
    "RelativeSinusoid",
    "RelativeValues",
    "Rotary",
    "ScaledDot",
    "Score",
    "Seen",
    "Select",
    "Sharpen",
    "Smooth",
    "Softmax",
    "SourceToToken",
    "Sparsemax",
    "SplitLinear",
    "StraightThrough",
    "TalkingHeads",
    "TemporalSoftmax",
    "TopK",
    "Trilinear",
    "Uniform",
    "WeightedSum",
    "Window",
    "attend",
    "attend_ragged",
    "explain",
    "kernels",
    "masked_softmax",
    "roles",
    "rows_of",
    "scope",
]


def __getattr__(name: str) -> object:
    """Name the new place of what was here; an ImportError, for `from … import` hides others."""
    if name == "watch":
        raise ImportError("regard.attention.watch is now regard.watch: `from regard import watch`")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
