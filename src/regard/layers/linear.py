"""Linear layers by the fastest product at hand; the function is one of the kernels."""

from regard.native.gemm import add_product, linear, pays, product

__all__ = ["add_product", "linear", "pays", "product"]
