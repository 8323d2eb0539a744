"""Decoding with `regard.decode` against a plain loop over the same model, and against no cache.

    python benchmarks/decode.py            # 3+3 layers, d 256, 8,000 words, one thread
    python benchmarks/decode.py --positions shaw    # the same with relative positions
    python benchmarks/decode.py --follow    # the same told the next word of its source, as a parser

The plain loop is what one writes in an afternoon: log-probabilities of everything, `topk` over
beam x vocabulary, histories copied and all caches re-ordered at every step. "no cache" runs the
decoder over the whole prefix for every new token. "PyTorch" is `regard.decode` with PyTorch's
steps in place of one call of C. Every search gives exactly 30 tokens.
"""

import argparse
import os
import time
from functools import partial
from unittest.mock import patch

import torch
from paired import machine, paired, row

from regard.decode import Beam, Greedy
from regard.models.following_transformer import FollowingTransformer
from regard.models.transformer import Transformer
from regard.protocols import BOS, EOS

LENGTH = 30


@torch.inference_mode()
def plain(model: Transformer, source: torch.Tensor, beam: int) -> torch.Tensor:
    """Beam search by the book, EOS forbidden."""
    rows, width = len(source), model.target_vocab_size
    decoding = model.start(model.encode(source))
    read = torch.full((rows, 1, 1), BOS)
    total = torch.zeros(rows, 1)
    for _ in range(LENGTH):
        logits, decoding = model.step(read[..., -1], decoding)
        scores = logits.log_softmax(-1)
        scores[..., : EOS + 1] = -torch.inf
        total, place = (total[..., None] + scores).flatten(1).topk(beam)
        parent = place // width
        decoding = decoding.select(parent)
        read = read.gather(1, parent[..., None].expand(-1, -1, read.shape[-1]))
        read = torch.cat([read, (place % width)[..., None]], -1)
    return read[:, 0, 1:]


@torch.inference_mode()
def uncached(model: Transformer, source: torch.Tensor, beam: int) -> torch.Tensor:
    """The same, with the whole prefix through the decoder at every step."""
    rows, width = len(source), model.target_vocab_size
    read = torch.full((rows, 1, 1), BOS)
    total = torch.zeros(rows, 1)
    for step in range(LENGTH):
        many = source.repeat_interleave(read.shape[1], 0)
        logits = model(many, read.flatten(0, 1)).logits[:, -1]
        scores = logits.log_softmax(-1).view(rows, -1, width)
        scores[..., : EOS + 1] = -torch.inf
        total, place = (total[..., None] + scores).flatten(1).topk(beam)
        parent = place // width
        read = read.gather(1, parent[..., None].expand(-1, -1, step + 1))
        read = torch.cat([read, (place % width)[..., None]], -1)
    return read[:, 0, 1:]


def by_torch(decoder: Beam, model: Transformer, source: torch.Tensor) -> object:
    """The same search, every step by PyTorch."""
    with patch.dict(os.environ, {"REGARD_PROGRAM": "0"}):
        return decoder(model, source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no-cache", action="store_true", help="measure that baseline too")
    parser.add_argument("--positions", default="sinusoid", help="as `model.position.kind`")
    parser.add_argument("--follow", action="store_true", help="as `following-transformer`")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    kind = FollowingTransformer if given.follow else Transformer
    sizes = {
        "dim": 256,
        "heads": 4,
        "layers": 3,
        "ffn_dim": 1024,
        "position": {"kind": given.positions},
    }
    model = kind(8000, 8000, **sizes).eval()
    if given.follow:
        model.reads[::3] = 1  # every third symbol stands for a word
    for batch in (1, 32):
        source = torch.randint(4, 8000, (batch, 20))
        source[:, -1] = EOS
        for beam in (1, 5):
            fixed = {"min_length": LENGTH, "max_length": LENGTH, "length_penalty": 0.0}
            # EOS may be the last token here, as it may not in the loops: the first 29 agree
            decoder = Greedy(**fixed) if beam == 1 else Beam(beam, **fixed)
            ours = partial(decoder, model, source)
            start = time.process_time()
            first = [h[0].tokens for h in ours()]
            rate = batch * LENGTH / (time.process_time() - start)
            assert [len(tokens) for tokens in first] == [LENGTH] * batch
            baselines = {
                "plain": partial(plain, model, source, beam),
                "PyTorch": partial(by_torch, decoder, model, source),
            }
            if given.no_cache:
                baselines["no cache"] = partial(uncached, model, source, beam)
            for name, theirs in baselines.items():
                row(
                    id=f"decode/beam{beam}x{batch}", positions=given.positions,
                    follow=given.follow, baseline=name,
                    ratio=paired(ours, theirs, given.repeats), tokens_per_second=round(rate),
                    dtype="float32", **machine(),
                )  # fmt: skip


if __name__ == "__main__":
    main()
