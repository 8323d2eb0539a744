"""What every classifier of documents keeps to: padding, empty sentences and neighbors.

Documents are ids (B, S, W) with the number of sentences of each, and in `extras["words"]` the
number of words of each sentence.
"""

import pytest
import torch
from torch.nn import functional as F

from regard import watch
from regard.errors import RequestError
from regard.protocols import PAD, Inputs
from tests.contract.battery import SIZE, attentions
from tests.contract.test_classifier import CLASSES, build
from tests.contract.test_watch import check_sums, select_of

CASES = {
    "han": ("han", {}),
    "han, mean": ("han", {"read": "mean"}),
    "han, max": ("han", {"read": "max"}),
}
every = pytest.mark.parametrize(("classifier", "settings"), CASES.values(), ids=CASES.keys())
WORDS = ((5, 2, 3, 0), (4, 0, 0, 0), (1, 6, 1, 2))
"""Of the sentences of three documents, of 3, 1 and 4 sentences."""


def documents(words=WORDS, width=6, seed=3):
    generator = torch.Generator().manual_seed(seed)
    words = torch.tensor(words)
    ids = torch.randint(4, SIZE, (*words.shape, width), generator=generator)
    ids = ids.masked_fill(torch.arange(width) >= words[..., None], PAD)
    return Inputs(ids, (words > 0).sum(1), {"words": words})


def same(one, other):
    assert torch.allclose(one, other, atol=1e-12, rtol=0)


@every
def test_padding_of_words_and_of_sentences_changes_nothing(classifier, settings):
    model, given = build(classifier, settings), documents()
    expected = model(given).logits
    assert expected.shape == (3, CLASSES)
    words = F.pad(given.extras["words"], (0, 2))
    wide = F.pad(given.values, (0, 3, 0, 2))
    rubbish = wide.masked_fill(torch.arange(9) >= words[..., None], 7)
    for inputs in (
        Inputs(given.values),
        Inputs(given.values, given.lengths),
        Inputs(wide),
        Inputs(wide, given.lengths, {"words": words}),
        Inputs(rubbish, given.lengths, {"words": words}),
    ):
        same(model(inputs).logits, expected)


@every
def test_sentences_after_the_end_are_not_read(classifier, settings):
    model, given = build(classifier, settings), documents()
    shorter = Inputs(given.values[2:, :2], torch.tensor([2]))
    same(model(Inputs(given.values[2:], torch.tensor([2]))).logits, model(shorter).logits)
    assert not torch.equal(model(given).logits[2:], model(shorter).logits)


@every
def test_an_empty_sentence_anywhere_is_no_sentence(classifier, settings):
    model, given = build(classifier, settings), documents()
    expected = model(given).logits
    places = torch.tensor([1, 3, 4, 6])  # empty ones at 0, 2, 5 and 7
    ids = given.values.new_zeros(3, 8, 6).index_copy(1, places, given.values)
    words = given.extras["words"].new_zeros(3, 8).index_copy(1, places, given.extras["words"])
    same(model(Inputs(ids, torch.full((3,), 8), {"words": words})).logits, expected)
    same(model(Inputs(ids)).logits, expected)


@every
def test_neighbors_change_nothing(classifier, settings):
    model, given = build(classifier, settings), documents()
    expected = model(given).logits
    for row in range(3):
        same(model(given.rows(torch.tensor([row]))).logits[0], expected[row])
    same(model(given.rows(torch.tensor([2, 0, 1]))).logits, expected[[2, 0, 1]])


@every
def test_a_sentence_of_plain_ids_is_a_document_of_one_sentence(classifier, settings):
    model, given = build(classifier, settings), documents()
    same(model(given.values[:, 0]).logits, model(Inputs(given.values[:, :1])).logits)


@every
def test_every_word_matters_and_so_does_the_order(classifier, settings):
    model, given = build(classifier, settings), documents()
    logits = model(given).logits
    for document, sentences in enumerate(WORDS):
        for sentence, count in enumerate(sentences):
            for word in range(count):
                ids = given.values.clone()
                ids[document, sentence, word] = 4 + (ids[document, sentence, word] - 3) % (SIZE - 4)
                changed = (model(Inputs(ids, given.lengths, given.extras)).logits != logits).any(1)
                assert changed.tolist() == [row == document for row in range(3)]
    turned = given.values[2:].flip(1)
    assert not torch.allclose(model(Inputs(turned)).logits, logits[2:], atol=1e-6)


@every
@pytest.mark.parametrize("words", [((3, 0), (0, 0)), ((0, 0), (0, 0)), ((0,),)])
def test_documents_without_words_are_finite(classifier, settings, words):
    model = build(classifier, settings).train()
    given = documents(words)
    empty = torch.tensor(words).sum(1) == 0
    widths = {(1, 1), (0, 0), (len(words[0]), 6)} if empty.all() else {(len(words[0]), 6)}
    for sentences, width in widths:
        model.zero_grad()
        ids = given.values[:, :sentences, :width]
        extras = {"words": given.extras["words"][:, :sentences]}
        logits = model(Inputs(ids, given.lengths, extras)).logits
        F.cross_entropy(logits, torch.zeros(len(words), dtype=torch.int64)).backward()
        assert all(p.grad.isfinite().all() for p in model.parameters())
        assert logits.isfinite().all()
        same(logits[empty], logits[empty][:1].expand(int(empty.sum()), -1))
    filled = documents(((2, 1), (0, 0), (1, 0)))
    assert not torch.allclose(*model(filled).logits[[0, 1]], atol=1e-6)


@every
def test_both_levels_are_seen_with_what_they_look_at(classifier, settings):
    model = build(classifier, settings)
    ids = documents().values.clone()
    ids[2, 1] = PAD  # an empty sentence in the middle
    layers = attentions(model)
    with watch(model) as seen:
        model(Inputs(ids, torch.tensor([3, 1, 4])))
    assert set(seen) == set(layers)
    for path, record in seen.items():
        check_sums(record.weights, select_of(layers[path]).sums)
        if record.role == "word":
            count = (ids != PAD).sum(-1)
            looked = count[record.rows[0]["example"], record.rows[0]["sentence"]]
            assert len(record.weights) == (count > 0).sum()
            places = torch.arange(record.weights.shape[-1])
            assert torch.equal(record.weights[:, 0] > 0, places < looked[:, None])
        else:
            assert record.role == "sentence"
            assert torch.equal(record.weights[:, 0] > 0, (ids != PAD).any(-1))


@every
def test_words_counts_of_another_shape_are_refused(classifier, settings):
    given = documents()
    with pytest.raises(RequestError, match=r"extras\['words'\] of shape \(3, 4\)"):
        build(classifier, settings)(Inputs(given.values, None, {"words": given.lengths}))
