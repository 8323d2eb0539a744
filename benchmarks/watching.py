"""What it costs to watch models that are not ours, and how large their pages are.

    python benchmarks/watching.py cost [--minilm FOLDER] [--repeats 9] [--tokens 256]
    python benchmarks/watching.py long [--tokens 16000]
    python benchmarks/watching.py page [--minilm FOLDER] [--tokens 512]

`cost` runs a model of MiniLM's size (6 layers of 12 heads, 384 wide) and a decoder of 125 M
parameters (12 layers of 12 heads, 768 wide) under SDPA with and without `regard.watch`, in turn,
the order flipped each time: watched over plain CPU time, and the most memory that each took in a
process of its own. Without --minilm weights are random. `long` watches one layer of attention over
16,000 tokens. `page` writes all heads, and says by how much what it shows is off. Outputs
are checked to be the same to the last bit. Other programs: `watching_peers.py`.
"""

import argparse
import gc
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import paired
import torch
from torch import nn
from torch.nn import functional as F

import regard

WAYS: dict[str, dict[str, Any]] = {
    "all weights": {}, "float16": {"dtype": torch.float16}, "top 16": {"top_k": 16},
    "tiles": {"tiles": True},
}  # fmt: skip
TEXTS = [
    (Path(__file__).parents[1] / "docs" / name).read_text(encoding="utf-8")
    for name in ("house.md", "look.md")
]


def bert(folder: str | None, kernel: str = "sdpa") -> nn.Module:
    """MiniLM, or a model of its size."""
    from transformers import AutoModel, BertConfig, BertModel

    torch.manual_seed(0)
    if folder:
        return AutoModel.from_pretrained(folder, attn_implementation=kernel).eval()
    config = BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
        intermediate_size=1536, attn_implementation=kernel,
    )  # fmt: skip
    return BertModel(config).eval()


def decoder(kernel: str = "sdpa") -> nn.Module:
    """GPT-2's smallest, with random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(attn_implementation=kernel)).eval()


def made(name: str, folder: str | None, kernel: str = "sdpa") -> nn.Module:
    """A model by its name."""
    return bert(folder, kernel) if name == "minilm" else decoder(kernel)


def peak() -> float:
    """MB that this process has taken at most, since `forget`."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def forget() -> float:
    """Count the most memory anew; gives what is taken now."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return peak()


def taken(*words: str, file: str = __file__) -> dict[str, Any]:
    """What a run in a process of its own says of itself."""
    ran = subprocess.run(
        [sys.executable, file, *words], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        lines = ran.stderr.strip().splitlines() or ["it was killed"]
        return {"error": lines[-1][:200]}
    return json.loads(ran.stdout.splitlines()[-1])


def one(name: str, way: str, tokens: int, folder: str | None) -> None:
    """A run in this process: its memory over that of the model alone."""
    torch.set_num_threads(1)
    eager = way == "output_attentions"
    model = made(name, folder, "eager" if eager else "sdpa")
    ids = torch.randint(5, 30000, (1, tokens))
    with torch.no_grad():
        model(ids[:, :8])
        before = forget()
        if way in WAYS:
            with regard.watch(model, **WAYS[way]) as seen:
                model(ids)
            assert len(seen)
        elif eager:
            kept = model(ids, output_attentions=True).attentions
            assert len(kept)
        else:
            model(ids)
    paired.row(before=round(before), most=round(peak()), more=round(peak() - before))


def cost(given: argparse.Namespace) -> None:
    """Time, paired; memory, each in a process of its own."""
    torch.set_num_threads(1)
    tokens = given.tokens[0] if given.tokens else 256
    for name in ("minilm", "decoder 125M"):
        model, eager = made(name, given.minilm), made(name, given.minilm, "eager")
        eager.load_state_dict(model.state_dict())
        ids = torch.randint(5, 30000, (1, tokens))
        real = name == "minilm" and given.minilm is not None

        @torch.no_grad()
        def plain(model: Any = model, ids: torch.Tensor = ids) -> torch.Tensor:
            return model(ids)[0]

        @torch.no_grad()
        def asked(model: Any = eager, ids: torch.Tensor = ids) -> Any:
            return model(ids, output_attentions=True)

        for way, options in WAYS.items():

            def watched(plain: Any = plain, model: Any = model, options: Any = options) -> Any:
                with regard.watch(model, **options):
                    return plain()

            assert torch.equal(watched(), plain())
            said = paired.paired(watched, plain, given.repeats)
            time_ratio = {k: round(1 / v, 3) for k, v in said.items()}
            time_ratio = {"min": time_ratio["max"], "median": time_ratio["median"],
                          "max": time_ratio["min"]}  # fmt: skip
            _cost_row(name, way, tokens, real, time_ratio, given)
        said = paired.paired(asked, plain, given.repeats)
        ratio = {k: round(1 / said[o], 3)
                 for k, o in (("min", "max"), ("median", "median"), ("max", "min"))}  # fmt: skip
        _cost_row(name, "output_attentions", tokens, real, ratio, given)


def _cost_row(
    name: str, way: str, tokens: int, real: bool, ratio: dict[str, float], given: Any
) -> None:
    folder = [given.minilm] if real else []
    plain = taken("one", name, "plain", str(tokens), *folder)
    mine = taken("one", name, way, str(tokens), *folder)
    paired.row(
        model=name, weights="its own" if real else "random", tokens=tokens, watching=way,
        time=ratio, memory_mb={"plain": plain["most"], "watched": mine["most"]},
        memory=round(mine["most"] / plain["most"], 3), **paired.machine(),
    )  # fmt: skip


class Layer(nn.Module):
    """One layer of attention, as a model has it."""

    def __init__(self, dim: int = 64, heads: int = 1) -> None:
        super().__init__()
        self.heads, self.into, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, D) to the same."""
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for p in self.into(x).chunk(3, -1))  # fmt: skip
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def long(given: argparse.Namespace) -> None:
    """One layer of 12 heads, 768 wide, over many tokens."""
    torch.set_num_threads(1)
    tokens = given.tokens[0] if given.tokens else 16_000
    model, x = Layer(768, 12).eval(), torch.randn(1, tokens, 768)
    with torch.no_grad():
        model(x[:, :64])
        before, start = forget(), time.process_time()
        model(x)
        plain, spent = peak() - before, time.process_time() - start
        before, start = forget(), time.process_time()
        with regard.watch(model, tiles=True) as seen:
            model(x)
        watched, spent_watched = peak() - before, time.process_time() - start
    tile = seen[""].kept[0].tile((0, 3), slice(100, 356), slice(0, 256))
    assert tile.shape == (256, 256)
    paired.row(
        tokens=tokens, heads=12, plain_mb=round(plain), watched_mb=round(watched),
        all_weights_mb=round(12 * tokens**2 * 4 / 2**20),
        time=round(spent_watched / spent, 3), error=seen[""].facts[0].error, **paired.machine(),
    )  # fmt: skip


def page(given: argparse.Namespace) -> None:
    """All heads of texts of so many tokens: MiniLM reads two, whose heads together are 144."""
    tokens = given.tokens[0] if given.tokens else 512
    for name in ("minilm", "decoder 125M"):
        real = name == "minilm" and given.minilm is not None
        model, found = made(name, given.minilm), []
        for text in TEXTS if real else TEXTS[:1]:
            ids, labels = torch.randint(5, 30000, (1, tokens)), None
            if real:
                from transformers import AutoTokenizer

                tokenizer = AutoTokenizer.from_pretrained(given.minilm)
                labels = tokenizer(text, truncation=True, max_length=tokens, return_tensors="pt")
                ids = labels["input_ids"]
            with torch.no_grad(), regard.watch(model) as seen:
                model(ids)
            found.append((seen if labels is None else seen.label(rows=labels)).view())
        view = sum(found[1:], found[0])
        for precision in (25, 200):
            start = time.perf_counter()
            text = view.html(precision=precision)
            spent = time.perf_counter() - start
            paired.row(
                model=name, weights="its own" if real else "random", texts=len(found),
                tokens=ids.shape[1], heads=sum(one.shape[0] for one in view.maps),
                precision=precision, page_mb=round(len(text.encode()) / 1e6, 2),
                written_in_s=round(spent, 2), **lost(view, precision), **paired.machine(),
            )  # fmt: skip


def lost(view: Any, precision: int) -> dict[str, float]:
    """What a page of this precision shows beside what there was."""
    from regard.viewer.seen_file.file import dump, parse

    kept = parse(dump(view, precision=precision))
    pairs = [(one.weights, other.weights) for one, other in zip(view.maps, kept.maps, strict=True)]
    off = [np.abs(a - b) for a, b in pairs]
    part = max(
        float((o / a.max(-1, keepdims=True)).max()) for o, (a, _) in zip(off, pairs, strict=True)
    )
    sums = np.concatenate([b.sum(-1).ravel() for _, b in pairs])
    return {
        "off_most": round(max(float(o.max()) for o in off), 4),
        "off_mean": round(float(np.mean([o.mean() for o in off])), 6),
        "off_of_row_largest": round(part, 4),
        "row_sums": [round(float(sums.min()), 3), round(float(sums.max()), 3)],
    }


def main() -> None:
    """Read the command line."""
    if len(sys.argv) > 1 and sys.argv[1] == "one":
        name, way, tokens, *folder = sys.argv[2:]
        one(name, way, int(tokens), folder[0] if folder else None)
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("cost", "long", "page"))
    parser.add_argument("--minilm", help="a folder with its model and tokenizer")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--tokens", type=int, nargs="*")
    given = parser.parse_args()
    {"cost": cost, "long": long, "page": page}[given.what](given)


if __name__ == "__main__":
    main()
