"""Kernels: implementations of the one operation, in one table."""
