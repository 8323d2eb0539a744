"""Linear layers by the fastest product at hand; the function is one of the kernels."""

from regard.native.gemm import add_product, is_faster, linear, product

__all__ = ["add_product", "is_faster", "linear", "product"]
