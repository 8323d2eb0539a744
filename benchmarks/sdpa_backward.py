"""bf16 training through the fused CPU attention: as it comes, against `attend`.

python benchmarks/sdpa_backward.py
"""

import torch
from paired import machine, paired, row
from torch.nn import functional as F

from regard.attention import Lengths, attend

torch.set_num_threads(1)
torch.manual_seed(0)
row(**machine())
for batch, heads, length, dim in (
    (64, 4, 15, 32),
    (80, 4, 25, 64),
    (20, 4, 100, 64),
    (5, 8, 400, 64),
):
    shape = (batch, heads, length, dim)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    lengths = torch.randint(length // 2, length + 1, (batch,))
    mask = (torch.arange(length) < lengths[:, None])[:, None, None]

    def ours(q=q, k=k, v=v, lengths=lengths):
        out = attend(q, k, v, mask=Lengths(lengths[:, None])).context
        out.backward(out.detach())
        return out

    def theirs(q=q, k=k, v=v, mask=mask):
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out.backward(out.detach())
        return out

    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), attn_mask=mask)
    row(
        id="sdpa-bf16-train",
        shape=list(shape),
        dtype="bfloat16",
        ratio=paired(ours, theirs),
        error=float((ours().double() - exact).abs().max()),
        baseline_error=float((theirs().double() - exact).abs().max()),
        baseline="torch.nn.functional.scaled_dot_product_attention",
    )
