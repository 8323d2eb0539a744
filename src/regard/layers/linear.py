"""Linear layers with the fastest available product; the functions are in `regard.native`."""

from regard.native.gemm import add_product, is_faster, linear, product

__all__ = ["add_product", "is_faster", "linear", "product"]
