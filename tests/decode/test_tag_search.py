"""A* over tags against every sequence there is, with constraints from their definition."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode.tag_search import TagSearch
from regard.errors import RequestError

SETS = (
    ["O", "B-A0", "I-A0", "B-V"],
    ["O", "B-A0", "B-C-A0", "I-C-A0", "B-A1"],
    ["O", "B-ARG1", "I-ARG1", "B-R-ARG1", "I-R-ARG1"],
    ["B-A0", "B-R-A0", "B-C-A0", "B-R-A2", "O"],
    ["B-AA", "B-AM-TMP", "B-R-AM-TMP", "I-AM-TMP"],
    ["B-A5", "I-A5"],
)
CORE = {f"{a}{n}" for a in ("A", "ARG") for n in "012345A"}


def spans_of(names):
    """The labels of the spans in their order, or None where the tags are no BIO."""
    labels, before = [], "O"
    for name in names:
        if name[0] == "B":
            labels.append(name[2:])
        elif name[0] == "I" and (before == "O" or before[2:] != name[2:]):
            return None
        before = name
    return labels


def cost_of(labels, unique, continuation, reference):
    """Counts of violations times their penalties; 0 times infinity is 0."""
    further = sum(max(0, labels.count(x) - 1) for x in CORE)
    lonely = sum(x[:2] == "C-" and x[2:] not in labels[:i] for i, x in enumerate(labels))
    dangling = sum(x[:2] == "R-" and x[2:] not in labels for x in labels)
    pairs = ((unique, further), (continuation, lonely), (reference, dangling))
    return sum(rho * n for rho, n in pairs if n)


def best_of_all(log_probs, tags, penalties):
    best, path = -math.inf, None
    for y in itertools.product(range(len(tags)), repeat=len(log_probs)):
        labels = spans_of([tags[i] for i in y])
        if labels is None:
            continue
        score = sum(log_probs[t, i] for t, i in enumerate(y)) - cost_of(labels, *penalties)
        if score > best:
            best, path = score, list(y)
    return best, path


@settings(max_examples=80, deadline=None)
@given(
    tags=st.sampled_from(SETS),
    steps=st.integers(0, 5),
    penalties=st.tuples(*[st.sampled_from([0.0, 0.5, 2.0, math.inf])] * 3),
    seed=st.integers(0, 10**6),
)
def test_it_finds_the_best_of_all_sequences(tags, steps, penalties, seed):
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(steps, len(tags), generator=draw, dtype=torch.float64)
    log_probs = (2 * scores).log_softmax(1)
    names = dict(zip(("unique", "continuation", "reference"), penalties, strict=True))
    found = TagSearch(tags, **names)(log_probs)
    score, path = best_of_all(log_probs.numpy(), tags, penalties)
    assert found.is_best
    if path is None:  # all break a hard rule: the best of BIO alone
        assert found.score == -math.inf
        _, path = best_of_all(log_probs.numpy(), tags, (0.0, 0.0, 0.0))
        assert found.tags == path
        return
    np.testing.assert_allclose(found.score, score, atol=1e-10)
    assert found.tags == path


def test_without_a_violation_nothing_is_searched():
    tags = SETS[0]
    log_probs = torch.full((4, 4), -9.0)
    log_probs[range(4), [1, 2, 3, 0]] = -0.1
    found = TagSearch(tags)(log_probs)
    assert found == ([1, 2, 3, 0], pytest.approx(-0.4), True, 0)


def test_many_roles_and_violations_take_few_steps():
    torch.manual_seed(1)
    roles = [f"A{n}" for n in range(6)] + [f"{k}-A{n}" for n in range(3) for k in "CR"]
    tags = ["O", *(f"{b}-{role}" for role in roles for b in "BI")]
    log_probs = (4 * torch.randn(20, len(tags))).log_softmax(1)
    found = TagSearch(tags, unique=1.0, continuation=1.0, reference=1.0)(log_probs)
    assert found.is_best
    assert 20 <= found.pops < 5_000
    free = TagSearch(tags, unique=0.0, continuation=0.0, reference=0.0)(log_probs)
    labels = spans_of([tags[i] for i in found.tags])
    gained = free.score - cost_of(spans_of([tags[i] for i in free.tags]), 1.0, 1.0, 1.0)
    assert gained < found.score < free.score
    total = float(log_probs.double()[range(20), found.tags].sum())
    np.testing.assert_allclose(found.score, total - cost_of(labels, 1.0, 1.0, 1.0))


def test_at_the_limit_it_is_the_best_legal_path_and_says_so():
    torch.manual_seed(2)
    tags = ["O", *(f"{b}-A{n}" for n in range(4) for b in "BI")]
    log_probs = torch.randn(30, 9).log_softmax(1)
    found = TagSearch(tags, unique=0.3, limit=5)(log_probs)
    legal = TagSearch(tags, unique=0.0)(log_probs)
    assert found.tags == legal.tags
    assert (found.is_best, found.pops) == (False, 5)
    labels = spans_of([tags[i] for i in found.tags])
    np.testing.assert_allclose(found.score, legal.score - cost_of(labels, 0.3, 0.0, 0.0))


def test_no_probability_is_no_way():
    log_probs = torch.tensor([[-torch.inf, 0.0, -torch.inf], [-3.0, -0.1, -torch.inf]])
    found = TagSearch(["O", "B-A1", "I-A1"])(log_probs)
    assert found.tags == [1, 0]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: TagSearch(["O", "S-A0"]), r'"B-X" and "I-X", got \'S-A0\''),
        (lambda: TagSearch(["I-A0"]), "a tag to begin with"),
        (lambda: TagSearch([]), "a tag to begin with"),
        (lambda: TagSearch(["O"], unique=-1.0), "unique of 0 or more, got -1.0"),
        (lambda: TagSearch(["O"], reference=math.nan), "reference of 0 or more, got nan"),
        (lambda: TagSearch(["O"], limit=0), "limit of 1 or more, got 0"),
        (lambda: TagSearch(["O"])(torch.zeros(3, 2)), r"scores of 1 tags, got \(3, 2\)"),
    ],
)
def test_what_makes_no_sense_is_refused(call, said):
    with pytest.raises(RequestError, match=said):
        call()
