"""Training through dot-product attention of short sequences: in C, against PyTorch's, in turns.

python benchmarks/dots.py [--threads 1]
"""

import argparse

import torch
from paired import machine, paired, row
from torch.nn import functional as F

from regard.attention import Causal, Lengths, WeightedSum, attend, kernels

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, default=1)
asked = parser.parse_args()
torch.set_num_threads(asked.threads)
torch.manual_seed(0)


row(**machine())
for dtype in (torch.float32, torch.bfloat16):
    for batch, heads, length, dim in ((76, 4, 27, 64), (20, 4, 100, 64), (8, 8, 256, 64)):
        # With more in bfloat16, PyTorch is the faster one where weights are dropped: not taken.
        rates = (0.0,) if dtype == torch.bfloat16 and length > 128 else (0.1, 0.0)
        for rate in rates:
            for name in ("lengths", "causal"):
                q, k, v = (
                    torch.randn(batch, length, heads, dim, dtype=dtype)
                    .transpose(1, 2)
                    .requires_grad_()
                    for _ in range(3)
                )
                grad = torch.randn(batch, length, heads, dim, dtype=dtype).transpose(1, 2)
                lengths = torch.randint(length * 3 // 4, length + 1, (batch, 1))
                mask = Causal() if name == "causal" else Lengths(lengths)
                hides = (torch.arange(length) < lengths[..., None])[:, None]
                read = WeightedSum(rate)

                def ours(q=q, k=k, v=v, mask=mask, read=read, grad=grad):
                    with kernels("dots"):
                        out = attend(q, k, v, mask=mask, read=read).context
                    return torch.autograd.grad(out, (q, k, v), grad)

                def theirs(q=q, k=k, v=v, name=name, rate=rate, grad=grad, hides=hides):
                    out = F.scaled_dot_product_attention(
                        q, k, v, dropout_p=rate, is_causal=name == "causal",
                        attn_mask=None if name == "causal" else hides,
                    )  # fmt: skip
                    return torch.autograd.grad(out, (q, k, v), grad)

                error = None
                if not rate:
                    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
                    with kernels("reference"):
                        out = attend(*exact, mask=mask).context
                    right = torch.autograd.grad(out, exact, grad.double())
                    error = max(
                        float((a - b).abs().max() / b.abs().max())
                        for a, b in zip(ours(), right, strict=True)
                    )
                row(
                    id="dots",
                    shape=[batch, heads, length, dim],
                    dtype=str(dtype).removeprefix("torch."),
                    mask=name,
                    dropout=rate,
                    threads=asked.threads,
                    ratio=paired(ours, theirs),
                    error=error,
                    baseline="torch.nn.functional.scaled_dot_product_attention",
                )
