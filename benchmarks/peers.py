"""Attention of other toolkits beside ours, with the same weights on the same inputs.

    python benchmarks/peers.py                       # those that are installed
    python benchmarks/peers.py joeynmt-step opennmt-32x50

    pip install --no-deps joeynmt==2.3.0 OpenNMT-py==3.5.1
    pip install "regard[bench]"                      # x-transformers

Each module is the peer's own, as its models call it; outputs are compared before anything is
timed, and all ways take turns in one process. Of OpenNMT-py and x-transformers the one file with
the attention is imported, not the package around it, which wants tokenizers and data pipelines.
Its ALiBi, and PyTorch Geometric's GATConv, are ways of rows of `regard bench kernels`.
"""

import argparse
import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from measure import BACKWARD, FORWARD, Problem, load, machine, time_ways
from paired import row
from problems import leaf, qkv
from torch import Tensor, nn

from regard.attention import Additive, Attention, attend

PACKAGES = {"joeynmt": "joeynmt", "onmt": "OpenNMT-py", "x_transformers": "x-transformers"}


def peer(name: str, within: tuple[str, ...] = ()) -> Any:
    """A module of a peer; the packages `within` which it lies are entered without being run."""
    for package in within:
        if package not in sys.modules:
            spec = importlib.util.find_spec(package)
            if spec is None:
                raise ImportError(f"{package} is not installed")
            bare = ModuleType(package)
            bare.__path__ = list(spec.submodule_search_locations or ())
            sys.modules[package] = bare
    return importlib.import_module(name)


def _joey(dim: int) -> tuple[Any, Attention]:
    """JoeyNMT's Bahdanau attention, and ours with its weights."""
    theirs = peer("joeynmt.attention").BahdanauAttention(dim, dim, dim)
    score = Additive(dim, dim, hidden=dim)
    score.query, score.key = theirs.query_layer, theirs.key_layer
    with torch.no_grad():
        score.v.copy_(theirs.energy_layer.weight[0])
    return theirs, Attention(score=score)


def _sentences(batch: int, keys: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Encoder states, their lengths, and the mask that JoeyNMT takes."""
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(keys // 2, keys + 1, (batch,), generator=generator)
    mask = torch.arange(keys) < lengths[:, None]
    return leaf(batch, keys, dim, seed=2), lengths, mask[:, None]


def joey_step(batch: int, keys: int = 50, dim: int = 256) -> Problem:
    """One step of a decoder; the keys were projected before."""
    theirs, ours = _joey(dim)
    states, lengths, mask = _sentences(batch, keys, dim)
    with torch.no_grad():
        theirs.compute_proj_keys(states)
        memory = ours.remember(states, mask=lengths)
    return Problem(
        {"query": leaf(batch, 1, dim, seed=1), "states": states},
        {
            "ours": lambda x: ours(x["query"], memory).context,
            "naive": lambda x: theirs(x["query"], mask, x["states"])[0],
        },
    )


def joey_steps(batch: int = 32, keys: int = 50, dim: int = 256, steps: int = 50) -> Problem:
    """All steps of a decoder in training, the projection of the keys included."""
    theirs, ours = _joey(dim)
    states, lengths, mask = _sentences(batch, keys, dim)

    def new(x: dict[str, Tensor]) -> Tensor:
        memory = ours.remember(x["states"], mask=lengths)
        return torch.cat([ours(q, memory).context for q in x["query"].split(1, 1)], 1)

    def old(x: dict[str, Tensor]) -> Tensor:
        theirs.compute_proj_keys(x["states"])
        return torch.cat([theirs(q, mask, x["states"])[0] for q in x["query"].split(1, 1)], 1)

    leaves = {"query": leaf(batch, steps, dim, seed=1), "states": states}
    return Problem(leaves, {"ours": new, "naive": old})


def opennmt(batch: int = 32, queries: int = 50, keys: int = 50, dim: int = 256) -> Problem:
    """OpenNMT-py's `mlp` attention over a whole target sentence, with its output layer."""
    module = peer("onmt.modules.global_attention", ("onmt", "onmt.modules", "onmt.utils"))
    theirs = module.GlobalAttention(dim, attn_type="mlp")
    score = Additive(dim, dim, hidden=dim, bias=True)
    score.query = nn.Linear(dim, dim, bias=False)
    with torch.no_grad():
        score.query.weight.copy_(theirs.linear_query.weight)
        score.key.weight.copy_(theirs.linear_context.weight)
        score.key.bias.copy_(theirs.linear_query.bias)
        score.v.copy_(theirs.v.weight[0])
    ours, out = Attention(score=score), theirs.linear_out
    leaves = {"query": leaf(batch, queries, dim, seed=1), "states": leaf(batch, keys, dim, seed=2)}
    return Problem(
        leaves,
        {
            "ours": lambda x: out(
                torch.cat([ours(x["query"], x["states"]).context, x["query"]], 2)
            ),
            "naive": lambda x: theirs(x["query"], x["states"])[0],
        },
    )


def x_transformers(flash: bool, length: int = 512) -> Problem:
    """The dot-product core of x-transformers, by its einsum or by PyTorch's fused kernel."""
    theirs = peer("x_transformers.attend", ("x_transformers",)).Attend(flash=flash)
    return Problem(
        qkv(1, 8, length, 64),
        {
            "ours": lambda x: attend(x["query"], x["key"], x["value"]).context,
            "naive": lambda x: theirs(x["query"], x["key"], x["value"])[0],
        },
    )


PEERS: dict[str, tuple[str, str, tuple[str, ...], Callable[[], Problem]]] = {
    "joeynmt-step-1": (
        "joeynmt", "BahdanauAttention, one step, B=1, Tk=50, d=256", (FORWARD,),
        lambda: joey_step(1),
    ),
    "joeynmt-step-32": (
        "joeynmt", "BahdanauAttention, one step, B=32, Tk=50, d=256", (FORWARD,),
        lambda: joey_step(32),
    ),
    "joeynmt-steps-50": (
        "joeynmt", "BahdanauAttention, 50 steps, B=32, Tk=50, d=256", (BACKWARD,), joey_steps,
    ),
    "opennmt-32x50": (
        "onmt", 'GlobalAttention("mlp"), B=32, 50 x 50, d=256', (FORWARD, BACKWARD), opennmt,
    ),
    "opennmt-8x200": (
        "onmt", 'GlobalAttention("mlp"), B=8, 200 x 200, d=256', (FORWARD, BACKWARD),
        lambda: opennmt(8, 200, 200),
    ),
    "x-transformers-512": (
        "x_transformers", "Attend(flash=False), T=512, 8 heads x 64", (FORWARD, BACKWARD),
        lambda: x_transformers(False),
    ),
    "x-transformers-flash-512": (
        "x_transformers", "Attend(flash=True), T=512, 8 heads x 64", (FORWARD, BACKWARD),
        lambda: x_transformers(True),
    ),
}  # fmt: skip


def measure(name: str, budget: float) -> None:
    """Print a row for each pass, or one that says why there is none."""
    package, what, passes, make = PEERS[name]
    try:
        version = importlib.metadata.version(PACKAGES[package])
        torch.manual_seed(0)
        problem = make()
    except ImportError as error:
        row(id=name, skipped=f"{PACKAGES[package]}: {error}")
        return
    with torch.no_grad():
        outputs = [way(problem.leaves) for way in problem.ways.values()]
    largest = float(outputs[1].abs().max())
    difference = float((outputs[0] - outputs[1]).abs().max()) / largest
    if not difference < 1e-4:
        row(id=name, failed=f"the outputs differ by {difference:.1e}")
        return
    for which in passes:
        found = time_ways(problem, which, budget)
        ms: Any = found["ms"]
        row(
            id=name,
            peer=PACKAGES[package],
            version=version,
            what=what,
            **{"pass": which},
            ms={"ours": ms["ours"], "peer": ms["naive"]},
            ratio=found["ratio"],
            wall_ratio=found["wall_ratio"],
            rounds=found["rounds"],
            difference=float(f"{difference:.1g}"),
            **{k: v for k, v in machine(1).items() if k != "load"},
            load=load(),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*PEERS, []], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each pass")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.names or PEERS:
        measure(name, given.seconds)


if __name__ == "__main__":
    main()
