"""What the fingerprint of a model in C costs, beside the decoding that it stands before.

    python benchmarks/fingerprint.py [--rounds 9]

CPU time of one thread, in turns: greedy decoding of one sentence of 32 tokens with the model (whose
weights are fingerprinted at each call) and with its decoder in C in its place (which is not).
"""

import argparse
import json
import statistics
import time

import torch

from regard.decode import Greedy
from regard.decode.program.recordings import decoder_in_c
from regard.models.transformer import Transformer
from regard.native.fingerprint import fingerprint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Transformer(8000, 8000, dim=256, heads=4, layers=3, ffn_dim=1024).eval()
    source = torch.cat([torch.randint(4, 8000, (1, 31)), torch.tensor([[2]])], 1)
    size = sum(p.numel() for p in model.parameters())
    for precision in ("float32", "int8"):
        decode = Greedy(min_length=32, max_ratio=0.0, max_extra=32, precision=precision)
        engine = decoder_in_c(model, source, precision=precision)
        roads = {
            "fingerprint": lambda: fingerprint(model.parameters()),
            "model": lambda decode=decode: decode(model, source),
            "decoder in C": lambda decode=decode, engine=engine: decode(engine, source),
        }
        took: dict[str, list[float]] = {name: [] for name in roads}
        for _ in range(rounds):
            for name, road in roads.items():
                road()
                began = time.process_time()
                for _ in range(5):
                    road()
                took[name].append((time.process_time() - began) / 5 * 1e3)
        ratios = [a / b for a, b in zip(took["model"], took["decoder in C"], strict=True)]
        row = {
            "parameters": size, "precision": precision, "threads": 1,
            **{f"{name} ms": round(statistics.median(t), 2) for name, t in took.items()},
            "ratio": {"min": round(min(ratios), 3), "median": round(statistics.median(ratios), 3),
                      "max": round(max(ratios), 3)},
        }  # fmt: skip
        print(json.dumps(row))


if __name__ == "__main__":
    main()
