"""Every attention mechanism as one operation of six parts, on the fastest kernel that can do it."""

from regard.attention._explain import explain as explain
from regard.attention._kernels.table import Explanation as Explanation
from regard.attention._kernels.table import kernels as kernels
from regard.attention._recorder import Record as Record
from regard.attention._recorder import Seen as Seen
from regard.attention._recorder import scope as scope
from regard.attention._recorder import watch as watch
from regard.attention.carry import Carry as Carry
from regard.attention.carry import CarryState as CarryState
from regard.attention.carry import Coverage as Coverage
from regard.attention.carry import PreviousWeights as PreviousWeights
from regard.attention.mask import Causal as Causal
from regard.attention.mask import Dense as Dense
from regard.attention.mask import Directional as Directional
from regard.attention.mask import Lengths as Lengths
from regard.attention.mask import Mask as Mask
from regard.attention.mask import Window as Window
from regard.attention.memory import Memory as Memory
from regard.attention.module import Attention as Attention
from regard.attention.module import MultiHead as MultiHead
from regard.attention.op import Attended as Attended
from regard.attention.op import attend as attend
from regard.attention.position import ALiBi as ALiBi
from regard.attention.position import DistanceMask as DistanceMask
from regard.attention.position import Position as Position
from regard.attention.position import RelativeBias as RelativeBias
from regard.attention.read import FeatureSum as FeatureSum
from regard.attention.read import Read as Read
from regard.attention.read import RelativeValues as RelativeValues
from regard.attention.read import WeightedSum as WeightedSum
from regard.attention.score import Additive as Additive
from regard.attention.score import Cosine as Cosine
from regard.attention.score import Dot as Dot
from regard.attention.score import FeatureAdditive as FeatureAdditive
from regard.attention.score import FeaturePerceptron as FeaturePerceptron
from regard.attention.score import General as General
from regard.attention.score import Location as Location
from regard.attention.score import RelativeKeys as RelativeKeys
from regard.attention.score import ScaledDot as ScaledDot
from regard.attention.score import Score as Score
from regard.attention.score import SourceToToken as SourceToToken
from regard.attention.select import FeatureSoftmax as FeatureSoftmax
from regard.attention.select import Select as Select
from regard.attention.select import Softmax as Softmax
from regard.attention.select import masked_softmax as masked_softmax

__all__ = [
    "ALiBi",
    "Additive",
    "Attended",
    "Attention",
    "Carry",
    "CarryState",
    "Causal",
    "Cosine",
    "Coverage",
    "Dense",
    "Directional",
    "DistanceMask",
    "Dot",
    "Explanation",
    "FeatureAdditive",
    "FeaturePerceptron",
    "FeatureSoftmax",
    "FeatureSum",
    "General",
    "Lengths",
    "Location",
    "Mask",
    "Memory",
    "MultiHead",
    "Position",
    "PreviousWeights",
    "Read",
    "Record",
    "RelativeBias",
    "RelativeKeys",
    "RelativeValues",
    "ScaledDot",
    "Score",
    "Seen",
    "Select",
    "Softmax",
    "SourceToToken",
    "WeightedSum",
    "Window",
    "attend",
    "explain",
    "kernels",
    "masked_softmax",
    "scope",
    "watch",
]
