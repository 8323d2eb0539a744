"""A training step of a small Transformer with and without `keep_freed_memory`, in fresh processes.

python benchmarks/malloc.py
"""

import statistics
import subprocess
import sys
import time

from paired import machine, row


def work(keep: bool, precision: str) -> float:
    """CPU seconds of a step: 3+3 layers, d 256, 8,000 words, 2,000 target tokens."""
    import torch

    from regard.models.transformer import Transformer
    from regard.system.heap import keep_freed_memory

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if keep:
        keep_freed_memory()
    model = Transformer(8000, 8000, dim=256, heads=4, layers=3, ffn_dim=1024)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    source, target = (torch.randint(4, 8000, (80, 25)) for _ in range(2))
    spent = []
    for _ in range(5):
        start = time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            logits = model(source, target).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), target.flatten(), label_smoothing=0.1
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        spent.append(time.process_time() - start)
    return statistics.median(spent)


if len(sys.argv) > 1:
    print(work(sys.argv[1] == "keep", sys.argv[2]))
else:
    row(**machine())
    for precision in ("fp32", "bf16"):
        ratios = []
        for turn in range(5):
            order = ("keep", "return") if turn % 2 else ("return", "keep")
            spent = {
                how: float(subprocess.check_output([sys.executable, __file__, how, precision]))
                for how in order
            }
            ratios.append(spent["return"] / spent["keep"])
        row(
            id="malloc-train-step",
            dtype=precision,
            threads=1,
            ratio={"min": min(ratios), "median": statistics.median(ratios), "max": max(ratios)},
            baseline="the same step with glibc's default thresholds",
        )
