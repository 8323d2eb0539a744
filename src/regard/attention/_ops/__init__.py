"""Functions of tensors that kernels are made of; they know no `Call`."""
