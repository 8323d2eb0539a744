"""Linear-chain conditional random fields beside pytorch-crf, in turns: training and best paths.

pip install pytorch-crf; python benchmarks/crf.py [--threads 1]
"""

import argparse
import copy

import torch
from paired import machine, paired, row

from regard.layers.crf import Chain, log_partition, path_score, viterbi

try:
    from torchcrf import CRF
except ImportError:
    raise SystemExit("crf.py needs pytorch-crf: pip install pytorch-crf") from None

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--repeats", type=int, default=9)
asked = parser.parse_args()
torch.set_num_threads(asked.threads)
torch.manual_seed(0)

row(**machine())
for batch, steps, tags in ((32, 30, 3), (32, 30, 9), (32, 30, 70), (32, 30, 130), (1, 2000, 9)):
    crf = CRF(tags, batch_first=True)
    emissions = torch.randn(batch, steps, tags, requires_grad=True)
    lengths = torch.randint(steps // 2, steps + 1, (batch,))
    lengths[0] = steps
    mask = torch.arange(steps) < lengths[:, None]
    gold = torch.randint(tags, (batch, steps))
    leaves = (emissions, crf.transitions, crf.start_transitions, crf.end_transitions)
    chain = Chain(*leaves[1:])

    def ours(e=emissions, chain=chain, gold=gold, lengths=lengths, leaves=leaves):
        loss = log_partition(e, chain, lengths) - path_score(e, chain, gold, lengths)
        return torch.autograd.grad(loss.sum(), leaves)

    def theirs(e=emissions, crf=crf, gold=gold, mask=mask, leaves=leaves):
        return torch.autograd.grad(-crf(e, gold, mask=mask), leaves)

    def our_paths(e=emissions, chain=chain, lengths=lengths):
        return viterbi(e, chain, lengths)[0]

    def their_paths(e=emissions, crf=crf, mask=mask):
        with torch.no_grad():
            return crf.decode(e, mask=mask)

    exact = copy.deepcopy(crf).double()
    wide = emissions.detach().double().requires_grad_()
    right = torch.autograd.grad(-exact(wide, gold, mask=mask), (wide, *exact.parameters()))
    order = {id(x): i for i, x in enumerate(exact.parameters(), 1)}
    named = (exact.transitions, exact.start_transitions, exact.end_transitions)
    right = (right[0], *(right[order[id(x)]] for x in named))
    error = max(
        float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours(), right, strict=True)
    )
    same = all(
        a[: len(b)].tolist() == b for a, b in zip(our_paths(), their_paths(), strict=True)
    )  # fmt: skip
    many = max(1, 50_000 // emissions.numel())  # calls a turn: one of few words is too short

    def turns(call, many=many):
        return lambda: [call() for _ in range(many)]

    for what, (a, b) in (("training", (ours, theirs)), ("viterbi", (our_paths, their_paths))):
        row(
            id="crf",
            what=what,
            shape=[batch, steps, tags],
            dtype="float32",
            threads=asked.threads,
            ratio=paired(turns(a), turns(b), asked.repeats),
            error=error if what == "training" else None,
            same=same if what == "viterbi" else None,
            baseline="pytorch-crf",
        )
