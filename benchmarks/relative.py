"""Training with relative positions (Shaw et al. 2018): in C, against tiles of PyTorch's operators.

    python benchmarks/relative.py [--threads 1]

First attention alone, forward and backward, in a padded batch; then a training step of a whole
Transformer, whose layers need no padding where attention is in C. Ratios are of CPU times, the
sides taking turns. Errors are of outputs and gradients against the reference in float64.
"""

import argparse
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from paired import machine, paired, row

from regard.attention import Lengths, RelativeKeys, RelativeValues, attend, kernels
from regard.layers.project import deferring
from regard.models.transformer import Transformer
from regard.protocols import BOS
from regard.tasks.loss import smoothed_cross_entropy

CLIP = 16
SHAPES = ((270, 4, 15, 32), (76, 4, 27, 64), (20, 4, 100, 64), (8, 8, 200, 64))
"""Of batch, heads, length and size."""
MODELS = {
    "captions": {"dim": 128, "layers": 4, "ffn_dim": 256, "length": 15, "words": 10_000},
    "pronunciations": {"dim": 192, "layers": 3, "ffn_dim": 512, "length": 8, "words": 70},
    "sentences": {"dim": 256, "layers": 3, "ffn_dim": 1024, "length": 27, "words": 8000},
}
TOKENS = 4096


def tables(heads: int, size: int) -> dict[str, Any]:
    return {
        "score": RelativeKeys(size, CLIP, heads=heads),
        "read": RelativeValues(size, CLIP, heads=heads),
    }


def attention(threads: int, repeats: int) -> None:
    """One call and its gradients."""
    for dtype in (torch.float32, torch.bfloat16):
        for batch, heads, length, size in SHAPES:
            made = [torch.randn(batch, length, heads, size, dtype=dtype) for _ in range(3)]
            given = [x.transpose(1, 2).requires_grad_() for x in made]
            grad = torch.randn(batch, heads, length, size, dtype=dtype)
            mask = Lengths(torch.randint(length * 3 // 4, length + 1, (batch, 1)))
            parts = tables(heads, size)

            def once(kernel: str, given=given, mask=mask, parts=parts, grad=grad) -> Any:
                leaves = (*given, parts["score"].table, parts["read"].table)
                with kernels(kernel):
                    out = attend(*given, mask=mask, **parts).context
                return out, *torch.autograd.grad(out, leaves, grad)

            wide = tables(heads, size)
            for name, part in wide.items():
                part.double().table.data.copy_(parts[name].table)
            exact = [x.detach().double().requires_grad_() for x in given]
            with kernels("reference"):
                out = attend(*exact, mask=mask, **wide).context
            leaves = (*exact, wide["score"].table, wide["read"].table)
            right = out, *torch.autograd.grad(out, leaves, grad.double())
            error = max(
                float((a.detach() - b.detach()).abs().max() / b.detach().abs().max())
                for a, b in zip(once("dots"), right, strict=True)
            )
            row(
                id="relative/attention", shape=[batch, heads, length, size],
                dtype=str(dtype).removeprefix("torch."), threads=threads,
                ratio=paired(partial(once, "dots"), partial(once, "relative"), repeats),
                error=error, baseline="tiles of PyTorch's operators",
            )  # fmt: skip


def batch_of(length: int, words: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sentences of about one length, as batches by length have them."""
    count = TOKENS // (length * 5 // 4)
    sizes = torch.normal(float(length), 0.2 * length, (2, count)).round().long()
    sizes = sizes.clamp(min=2, max=2 * length)
    sides = []
    for own in sizes:
        ids = torch.randint(4, words, (count, int(own.max())))
        sides.append(ids.masked_fill(torch.arange(ids.shape[1]) >= own[:, None], 0))
    return sides[0], sizes[0], sides[1]


def models(threads: int, repeats: int) -> None:
    """A step of a Transformer."""
    refuse = patch("regard.attention._kernels.dots._relative_reason", lambda call: "by tiles")
    for low in (False, True):
        for name, told in MODELS.items():
            sizes = {key: told[key] for key in ("dim", "layers", "ffn_dim")}
            model = Transformer(
                told["words"], told["words"], heads=4, dropout=0.1, norm="pre",
                positions="shaw", clip=CLIP, **sizes,
            )  # fmt: skip
            plain = Transformer(
                told["words"], told["words"], heads=4, dropout=0.1, norm="pre", **sizes
            )
            source, lengths, target = batch_of(told["length"], told["words"])
            start = torch.full((len(target), 1), BOS)
            read = torch.cat([start, target[:, :-1]], 1)

            def step(model: Any, how: Any, source=source, read=read, lengths=lengths,
                     target=target, low=low) -> None:  # fmt: skip
                model.zero_grad()
                with how, torch.autocast("cpu", torch.bfloat16, enabled=low), deferring(True):
                    logits = model(source, read, lengths).logits
                    smoothed_cross_entropy(logits, target, 0.1).backward()

            usual = partial(step, model.train(), nullcontext())
            for baseline, other in (
                ("by tiles, with padding", partial(step, model, refuse)),
                ("the same model with sinusoids", partial(step, plain.train(), nullcontext())),
            ):
                row(
                    id="relative/model", model=name, dtype="bfloat16" if low else "float32",
                    threads=threads, ratio=paired(usual, other, repeats), baseline=baseline,
                )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    torch.manual_seed(0)
    row(**machine())
    attention(asked.threads, asked.repeats)
    models(asked.threads, asked.repeats)


if __name__ == "__main__":
    main()
