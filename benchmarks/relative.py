"""Training with relative positions (Shaw et al. 2018): in C, against tiles of PyTorch's operators.

    python benchmarks/relative.py [--threads 1] [--window 5]

First attention alone, forward and backward, in a padded batch; then a training step of a whole
Transformer, whose layers need no padding where attention is in C. Ratios are of CPU times, the
sides taking turns. Errors are of outputs and gradients against the reference in float64.

Attention alone is measured with relative keys and values, with learned biases of the offset and
with ALiBi. With a window queries see so many keys on either side, and attention is also measured
without positions.
"""

import argparse
import copy
from contextlib import nullcontext
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import torch
from paired import machine, paired, row

from regard.attention import (
    ALiBi,
    Lengths,
    RelativeBias,
    RelativeKeys,
    RelativeValues,
    Window,
    attend,
    kernels,
)
from regard.attention._kernels import dots
from regard.layers.deferred_logits import deferring
from regard.losses.smoothed_cross_entropy import smoothed_cross_entropy
from regard.models.transformer import Transformer
from regard.protocols import BOS

CLIP = 16
SHAPES = ((270, 4, 15, 32), (76, 4, 27, 64), (20, 4, 100, 64), (8, 8, 200, 64))
"""Of batch, heads, length and size."""
MODELS = {
    "captions": {"dim": 128, "layers": 4, "ffn_dim": 256, "length": 15, "words": 10_000},
    "pronunciations": {"dim": 192, "layers": 3, "ffn_dim": 512, "length": 8, "words": 70},
    "sentences": {"dim": 256, "layers": 3, "ffn_dim": 1024, "length": 27, "words": 8000},
}
TOKENS = 4096


def refused(window: int | None) -> Any:
    """C as it was before it had positions, or windows with a limit on the left."""
    if window is None:
        return patch.object(dots, "_relative_reason", lambda call: "by tiles")
    known = dots._mask

    def without_windows(mask: Any) -> Any:
        found = known(mask)
        return None if found is None or found.left < dots._ALL else found

    return patch.object(dots, "_mask", without_windows)


def parts_of(kind: str, heads: int, size: int) -> dict[str, Any]:
    if kind == "attention":
        return {
            "score": RelativeKeys(size, CLIP, heads=heads),
            "read": RelativeValues(size, CLIP, heads=heads),
        }
    if kind == "window":
        return {}
    return {"position": RelativeBias(CLIP, heads) if kind == "bias" else ALiBi(heads)}


def learned(parts: dict[str, Any]) -> list[torch.Tensor]:
    return [x for part in parts.values() for x in part.parameters()]


def attention(threads: int, repeats: int, window: int | None) -> None:
    """One call and its gradients."""
    before = refused(window)
    for dtype, shape in product((torch.float32, torch.bfloat16), SHAPES):
        batch, heads, length, size = shape
        made = [torch.randn(batch, length, heads, size, dtype=dtype) for _ in range(3)]
        given = [x.transpose(1, 2).requires_grad_() for x in made]
        grad = torch.randn(batch, heads, length, size, dtype=dtype)
        mask: Any = Lengths(torch.randint(length * 3 // 4, length + 1, (batch, 1)))
        if window is not None:
            mask = mask & Window(window, window)
        for kind in ("attention", "bias", "alibi", *(() if window is None else ("window",))):
            parts = parts_of(kind, heads, size)

            def once(how: Any, given=given, mask=mask, parts=parts, grad=grad) -> Any:
                with how:
                    out = attend(*given, mask=mask, **parts).context
                return out, *torch.autograd.grad(out, (*given, *learned(parts)), grad)

            wide = {name: copy.deepcopy(part).double() for name, part in parts.items()}
            exact = [x.detach().double().requires_grad_() for x in given]
            with kernels("reference"):
                out = attend(*exact, mask=mask, **wide).context
            right = out, *torch.autograd.grad(out, (*exact, *learned(wide)), grad.double())
            error = max(
                float((a.detach() - b.detach()).abs().max() / b.detach().abs().max())
                for a, b in zip(once(kernels("dots")), right, strict=True)
            )
            row(
                id=f"relative/{kind}", window=window, shape=list(shape), threads=threads,
                dtype=str(dtype).removeprefix("torch."), error=error,
                ratio=paired(partial(once, nullcontext()), partial(once, before), repeats),
                baseline="as it was before, by PyTorch",
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


def models(threads: int, repeats: int, window: int | None) -> None:
    """A step of a Transformer."""
    before = refused(window)
    for low in (False, True):
        for name, told in MODELS.items():
            sizes = {key: told[key] for key in ("dim", "layers", "ffn_dim")}
            model = Transformer(
                told["words"], told["words"], heads=4, dropout=0.1, norm="pre",
                attention={"window": window}, position={"kind": "shaw", "clip": CLIP}, **sizes,
            )  # fmt: skip
            plain = Transformer(
                told["words"], told["words"], heads=4, dropout=0.1, norm="pre",
                attention={"window": window}, **sizes,
            )  # fmt: skip
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
            sinusoids = partial(step, plain.train(), nullcontext())
            pairs = [
                ("shaw", usual, "as it was before, with padding", partial(step, model, before)),
                ("shaw", usual, "the same model with sinusoids", sinusoids),
            ]
            if window is not None:
                other = partial(step, plain, before)
                pairs.append(("sinusoid", sinusoids, "as it was before, with padding", other))
            for positions, ours, baseline, other in pairs:
                row(
                    id="relative/model", model=name, positions=positions, window=window,
                    dtype="bfloat16" if low else "float32", threads=threads,
                    ratio=paired(ours, other, repeats), baseline=baseline,
                )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--window", type=int)
    parser.add_argument("--attention", action="store_true", help="without the models")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    torch.manual_seed(0)
    row(**machine())
    attention(asked.threads, asked.repeats, asked.window)
    if not asked.attention:
        models(asked.threads, asked.repeats, asked.window)


if __name__ == "__main__":
    main()
