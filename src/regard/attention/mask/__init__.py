"""Masks: what may be looked at."""

from regard.attention.mask.base import Dense as Dense
from regard.attention.mask.base import Lengths as Lengths
from regard.attention.mask.base import Mask as Mask
from regard.attention.mask.base import as_mask as as_mask
from regard.attention.mask.base import offsets as offsets
from regard.attention.mask.base import take as take
from regard.attention.mask.causal import Causal as Causal
from regard.attention.mask.causal import Window as Window
from regard.attention.mask.direction import Directional as Directional
from regard.attention.mask.edges import Edges as Edges
from regard.attention.mask.structure import Block as Block
from regard.attention.mask.structure import Documents as Documents
