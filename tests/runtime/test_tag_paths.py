"""The best tags in NumPy are those that counting all paths finds, and those of PyTorch."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from regard.data.annotations.tag_schemes import allowed
from regard.layers.crf import Chain
from regard.runtime.role_search import RoleSearch
from regard.runtime.tag_paths import FORBIDDEN, TagChain, best_tags
from regard.tasks.tags.decoding import decode_tags

NAMES = ["B-A", "B-C", "I-A", "I-C", "O"]
ROLES = ["B-A0", "B-C-A0", "I-A0", "B-R-A0", "O"]
RULES = TagChain(*allowed(NAMES, "bio"))


def drawn(seed, steps=4, tags=5):
    random = np.random.default_rng(seed)
    sizes = ((steps, tags), (tags, tags), (tags,), (tags,))
    emissions, *chain = (2 * random.standard_normal(size) for size in sizes)
    return emissions, TagChain(*chain)


def scored(path, emissions, chain):
    own = sum(emissions[t, tag] for t, tag in enumerate(path))
    own += sum(chain.transitions[a, b] for a, b in pairwise(path))
    return own + chain.start[path[0]] + chain.end[path[-1]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ruled", [False, True])
def test_a_chain_s_best_path_and_its_probabilities_by_counting(seed, ruled):
    emissions, chain = drawn(seed)
    paths = list(product(range(5), repeat=4))
    scores = np.array([scored(path, emissions, chain) for path in paths])
    shares = np.exp(scores) / np.exp(scores).sum()
    kept = [
        i
        for i, path in enumerate(paths)
        if not ruled
        or (
            RULES.start[path[0]]
            and RULES.end[path[-1]]
            and all(RULES.transitions[a, b] for a, b in pairwise(path))
        )
    ]
    best = max(kept, key=lambda i: scores[i])
    found = best_tags(emissions, chain, RULES if ruled else None)
    assert tuple(found.tags) == paths[best]
    assert found.score == pytest.approx(np.log(shares[best]))
    expected = [sum(s for s, p in zip(shares, paths, strict=True) if p[t] == tag)
                for t, tag in enumerate(found.tags)]  # fmt: skip
    assert found.confidences == pytest.approx(expected)


@pytest.mark.parametrize("steps", [1, 2, 9])
@pytest.mark.parametrize("constraints", ["", "scheme", "roles"])
@pytest.mark.parametrize("chained", [False, True])
def test_tags_are_those_of_pytorch(steps, constraints, chained):
    names = ROLES if constraints == "roles" else NAMES
    rules = TagChain(*allowed(names, "bio")) if constraints == "scheme" else None
    search = RoleSearch(names) if constraints == "roles" else None
    for seed in range(6):
        emissions, chain = drawn(seed, steps)
        found = best_tags(emissions, chain if chained else None, rules, search)
        expected = decode_tags(
            torch.from_numpy(emissions)[None],
            Chain(*map(torch.from_numpy, chain)) if chained else None,
            torch.tensor([steps]),
            names,
            "bio",
            constraints,
        )[0]
        assert found.tags == expected.tags
        assert found.score == pytest.approx(expected.score, abs=1e-5)
        assert found.confidences == pytest.approx(expected.confidences, abs=1e-6)


def test_what_is_forbidden_scores_as_in_pytorch():
    from regard.layers import crf

    assert FORBIDDEN == crf.FORBIDDEN
