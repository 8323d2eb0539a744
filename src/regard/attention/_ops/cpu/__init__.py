"""PyTorch operators that call the C functions of `regard.native`."""
