"""Every model can learn, and a folder brings it back."""

import copy

import torch

from regard import decode
from tests.contract.battery import SIZE, build, loss_of, pairs
