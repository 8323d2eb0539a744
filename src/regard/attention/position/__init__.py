"""Positions inside the operation: the effect of distance or direction.

Sinusoidal and learned *absolute* positions are layers (`regard.layers.positional_encoding`), not
parts.
"""

from regard.attention.position.alibi import ALiBi as ALiBi
from regard.attention.position.base import Position as Position
from regard.attention.position.bias import RelativeBias as RelativeBias
from regard.attention.position.buckets import BucketBias as BucketBias
from regard.attention.position.distance import DistanceMask as DistanceMask
from regard.attention.position.rotary import Rotary as Rotary
