"""What the contract tests share: small models of every catalogue entry, and batches for them."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import catalog
from regard.attention import Attention, MultiHead
from regard.protocols import BOS, EOS, PAD, UNK, Inputs

SIZE = 13
"""Of both vocabularies."""
OPTIONAL = {"num_characters", "num_cues", "num_features", "feature_columns", "num_auxiliary"}
"""What data may say beside the sizes that a model cannot do without."""


def build(
    name: str, *, seed: int = 1, dtype: torch.dtype = torch.float64, **changes: Any
) -> nn.Module:
    """The catalogue's tiny model called `name`, in eval mode."""
    torch.manual_seed(seed)
    model = catalog.load(name)(SIZE, SIZE, **{**catalog.entry(name).tiny, **changes})
    return model.to(dtype).eval()


def without_dropout(name: str) -> dict[str, float]:
    """The settings with which the model called `name` drops nothing."""
    return {
        key: 0.0 for key in inspect.signature(catalog.load(name)).parameters if "dropout" in key
    }


def check_constructor(name: str, sizes: Sequence[str]) -> None:
    """The constructor is the configuration: what the data say, then keywords with defaults."""
    made = catalog.load(name)
    assert made.__doc__
    assert "Departs from the paper" in inspect.getmodule(made).__doc__
    parameters = inspect.signature(made).parameters
    assert list(parameters)[: len(sizes)] == list(sizes)
    rest = list(parameters.values())[len(sizes) :]
    more = [p for p in rest if p.name not in OPTIONAL]
    for given in more:
        assert given.kind == given.KEYWORD_ONLY
        assert given.default is not given.empty, f"{given.name} has no default"
        assert given.annotation is not given.empty, f"{given.name} says no type"
    for key, value in catalog.entry(name).tiny.items():
        assert key in parameters
        assert not isinstance(value, int) or value <= 16


@dataclass(frozen=True)
class Pairs:
    """A batch: sources ending in EOS, targets shifted by one, and how long both are."""

    source: Tensor
    lengths: Tensor
    target_in: Tensor
    target_out: Tensor
    target_lengths: Tensor


def pairs(lengths: list[int], target_lengths: list[int], seed: int = 5) -> Pairs:
    """Random sentences; lengths count EOS."""
    generator = torch.Generator().manual_seed(seed)

    def rows(sizes: list[int]) -> Tensor:
        out = torch.full((len(sizes), max(sizes)), PAD)
        for row, size in enumerate(sizes):
            out[row, : size - 1] = torch.randint(UNK, SIZE, (size - 1,), generator=generator)
            out[row, size - 1] = EOS
        return out

    source, target_out = rows(lengths), rows(target_lengths)
    first = torch.full((len(lengths), 1), BOS)
    target_in = torch.cat([first, target_out[:, :-1]], 1)
    target_in = target_in.masked_fill(target_in == EOS, PAD)
    return Pairs(source, torch.tensor(lengths), target_in, target_out, torch.tensor(target_lengths))


def mixed() -> Pairs:
    """Five sentences, the shortest of EOS alone."""
    return pairs([6, 3, 1, 5, 6], [4, 5, 1, 3, 5])


COPYING = {"Paulus", "PointerGenerator"}
"""Classes that copy, where they are told what: only then does every parameter matter."""


def source_of(model: nn.Module, batch: Pairs) -> Tensor | Inputs:
    """The sources, with what may be copied; the vocabularies are of one size, ids the same."""
    if type(model).__name__ not in COPYING:
        return batch.source
    return Inputs(batch.source, batch.lengths, {"copies": batch.source})


def loss_of(model: nn.Module, batch: Pairs) -> Tensor:
    """Cross-entropy summed over the real target tokens."""
    source = source_of(model, batch)
    logits = model(source, batch.target_in, batch.lengths).logits.flatten(0, 1)
    gold = batch.target_out.flatten()
    if model.normalized:
        return F.nll_loss(logits, gold, ignore_index=PAD, reduction="sum")
    return F.cross_entropy(logits, gold, ignore_index=PAD, reduction="sum")


def real(batch: Pairs) -> Tensor:
    """Where targets are not padding: (B, T)."""
    return batch.target_out != PAD


def attentions(model: nn.Module) -> dict[str, nn.Module]:
    """Every attention layer by its path; those inside a MultiHead belong to it."""
    inner = {id(m.attention) for m in model.modules() if isinstance(m, MultiHead)}
    return {
        path: m
        for path, m in model.named_modules()
        if isinstance(m, (Attention, MultiHead)) and id(m) not in inner
    }
