"""What one step of a decoder hands to the next: coverage, alignments, earlier weights."""

from regard.attention.carry.alignment import Alignment as Alignment
from regard.attention.carry.base import Carry as Carry
from regard.attention.carry.base import CarryState as CarryState
from regard.attention.carry.coverage import Coverage as Coverage
from regard.attention.carry.intra_temporal import IntraTemporal as IntraTemporal
from regard.attention.carry.previous_weights import PreviousWeights as PreviousWeights

__all__ = ["Alignment", "Carry", "CarryState", "Coverage", "IntraTemporal", "PreviousWeights"]
