"""Operators of PyTorch over the C functions of `regard.native`, for mechanisms that have them."""
