"""What the recurrent papers' slow reference implementations share: NumPy, float64, one row."""

import numpy as np
import torch
from torch import nn


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def numbers(model: nn.Module) -> dict[str, np.ndarray]:
    """Every parameter by its path."""
    return {name: p.detach().double().numpy() for name, p in model.named_parameters()}


def thirds(matrix: np.ndarray) -> list[np.ndarray]:
    """The rows of r, of z and of the candidate."""
    return np.split(matrix, 3)


def lstm(p: dict, path: str, value, h, c):
    """One step of a stack; h and c (L, H) are changed in place; the top layer's h."""
    for k in range(len(h)):
        gates = p[f"{path}.stack.weight_ih_l{k}"] @ value
        gates = gates + p[f"{path}.stack.weight_hh_l{k}"] @ h[k]
        i, f, g, o = np.split(gates, 4)
        c[k] = sigmoid(f) * c[k] + sigmoid(i) * np.tanh(g)
        h[k] = sigmoid(o) * np.tanh(c[k])
        value = h[k].copy()
    return value


def shaken(model: nn.Module, amount: float = 0.3) -> nn.Module:
    """The model in float64 with every parameter moved off its start, so that nothing is zero."""
    model = model.double().eval()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(amount * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    for module in model.modules():
        if hasattr(module, "silence"):
            module.silence()
    return model


def ragged(vocabulary: int = 12, target: int = 13):
    """Sources of 6, 3 and 1 words with EOS, right-padded; targets of 5 words from BOS."""
    generator = torch.Generator().manual_seed(12)
    lengths = torch.tensor([6, 3, 1])
    source = torch.randint(4, vocabulary, (3, 6), generator=generator)
    for row, length in enumerate(lengths.tolist()):
        source[row, length - 1] = 3
        source[row, length:] = 0
    target_in = torch.randint(4, target, (3, 5), generator=generator)
    target_in[:, 0] = 1
    return source, lengths, target_in


def sentences(source, lengths):
    """The rows without their padding."""
    return [row[:n].tolist() for row, n in zip(source, lengths.tolist(), strict=True)]


def count(made, *args, **kwargs) -> int:
    """How many parameters, at any size: nothing is allocated."""
    with torch.device("meta"):
        return sum(p.numel() for p in made(*args, **kwargs).parameters())
