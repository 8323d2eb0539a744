"""Attention that is not this package's, seen while a model runs and with no effect on it.

Three things work together. Hooks say which module is running. A `TorchDispatchMode` sees what
reaches a device: PyTorch's fused operations, and softmaxes whose result multiplies values. Weights
that a fused operation never made are computed again from its inputs.

A `TorchFunctionMode` would be simpler, but while one is active PyTorch takes its fused encoder
layer out of use (`torch.overrides.has_torch_function`), and the model would compute other bits.
"""

from regard.watching.foreign.changed import changing
from regard.watching.foreign.interceptor import intercepting, is_foreign
from regard.watching.foreign.norms_and_gradients import GradientAsked, NormsAsked, gradients

__all__ = ["GradientAsked", "NormsAsked", "changing", "gradients", "intercepting", "is_foreign"]
