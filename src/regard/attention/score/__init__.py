"""Scores: how well a key matches a query. One small class per score."""

from regard.attention.score.additive import Additive as Additive
from regard.attention.score.base import AdditiveForm as AdditiveForm
from regard.attention.score.base import AdditiveLike as AdditiveLike
from regard.attention.score.base import DotForm as DotForm
from regard.attention.score.base import DotLike as DotLike
from regard.attention.score.base import Score as Score
from regard.attention.score.base import StreamLike as StreamLike
from regard.attention.score.dot import Cosine as Cosine
from regard.attention.score.dot import Dot as Dot
from regard.attention.score.dot import General as General
from regard.attention.score.dot import ScaledDot as ScaledDot
from regard.attention.score.euclidean import InverseEuclidean as InverseEuclidean
from regard.attention.score.euclidean import (
    NegativeSquaredEuclidean as NegativeSquaredEuclidean,
)
from regard.attention.score.features import FeatureAdditive as FeatureAdditive
from regard.attention.score.features import FeaturePerceptron as FeaturePerceptron
from regard.attention.score.features import SourceToToken as SourceToToken
from regard.attention.score.leaky import LeakyAdditive as LeakyAdditive
from regard.attention.score.location import Location as Location
from regard.attention.score.location_aware import LocationAware as LocationAware
from regard.attention.score.pairwise import Biaffine as Biaffine
from regard.attention.score.pairwise import Trilinear as Trilinear
from regard.attention.score.relative import RelativeKeys as RelativeKeys
from regard.attention.score.sinusoid import RelativeSinusoid as RelativeSinusoid
from regard.attention.score.split import SplitLinear as SplitLinear
from regard.attention.score.uniform import Uniform as Uniform
