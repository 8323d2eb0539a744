"""Products of a training step in float32: the house's against PyTorch's, in turns.

python benchmarks/gemm.py [--threads 1]
"""

import argparse

import torch
from paired import machine, paired, row

from regard.native.gemm import product

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, default=1)
asked = parser.parse_args()
torch.set_num_threads(asked.threads)
torch.manual_seed(0)


row(**machine())
for rows, into, out in ((1873, 256, 256), (1873, 256, 1024), (1873, 1024, 256), (1000, 256, 8000)):
    x, weight, grad = torch.randn(rows, into), torch.randn(out, into), torch.randn(rows, out)
    for name, a, b in (
        ("forward", x, weight.t()),
        ("gradient of x", grad, weight),
        ("gradient of W", grad.t(), x),
    ):
        exact = a.double() @ b.double()
        row(
            id="gemm",
            product=name,
            shape=[rows, into, out],
            dtype="float32",
            threads=asked.threads,
            ratio=paired(lambda a=a, b=b: product(a, b), lambda a=a, b=b: a @ b),
            error=float((product(a, b) - exact).abs().max() / exact.abs().max()),
            baseline_error=float((a @ b - exact).abs().max() / exact.abs().max()),
            baseline="torch.matmul",
        )
