"""What models that write about a source that is no text must do: the checks that they share."""

import pytest
import torch

from regard import decode, watch
from regard.decode.coverage import LEAST
from regard.errors import RequestError
from regard.protocols import BOS, Inputs
from tests.contract.battery import SIZE, attentions


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def check_steps(model, given, target_in):
    """Step by step is teacher forcing, and later targets change nothing."""
    expected = model(given, target_in).logits
    decoding = model.start(model.encode(given))
    for t in range(target_in.shape[1]):
        later = target_in.clone()
        later[:, t + 1 :] = (later[:, t + 1 :] + 5) % SIZE
        same(model(given, later).logits[:, : t + 1], expected[:, : t + 1])
        step, decoding = model.step(target_in[:, t : t + 1], decoding)
        same(step[:, 0], expected[:, t])


def check_beams(model, given):
    """Beams are rearranged, and rows dropped, with all that they carry."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        decoding = model.start(model.encode(given))
        left, tokens = torch.arange(4), torch.full((4, 1, 1), BOS)
        for width in (3, 4, 2, 1, 2):
            scores, decoding = model.step(tokens[..., -1], decoding)
            for slot in range(tokens.shape[1]):
                same(scores[:, slot], model(given.rows(left), tokens[:, slot]).logits[:, -1])
            if len(left) > 2:
                keep = torch.randperm(len(left), generator=generator)[1:]
                decoding, tokens, left = decoding.rows(keep), tokens[keep], left[keep]
            index = torch.randint(tokens.shape[1], (len(left), width), generator=generator)
            decoding = decoding.select(index)
            tokens = tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[-1]))
            new = torch.randint(3, SIZE, (len(left), width, 1), generator=generator)
            tokens = torch.cat([tokens, new], -1)


def check_decoders(model, given):
    """A beam's scores are those of teacher forcing."""
    decoder = decode.build({"beam_size": 3, "n_best": 3, "max_extra": 1, "max_length": 5})
    for row, hypotheses in enumerate(decoder(model, given)):
        one = given.rows(torch.tensor([row]))
        for h in hypotheses:
            target = torch.tensor([[BOS, *h.tokens[:-1]]])
            logs = model(one, target).logits.detach()[0].log_softmax(-1)
            true = [float(logs[t, token]) for t, token in enumerate(h.tokens)]
            assert h.token_scores == pytest.approx(true, abs=1e-8)


def check_coverage(model, given):
    """A coverage penalty counts the states that are looked at: joined frames, and regions."""
    settings = {"beam_size": 3, "n_best": 2, "max_length": 4, "coverage_penalty": 1.5}
    decoder = decode.build(settings)
    if not attentions(model):
        with pytest.raises(RequestError, match="looks at no source"):
            decoder(model, given)
        return
    for row, hypotheses in enumerate(decoder(model, given)):
        own = None if given.lengths is None else given.lengths[row : row + 1]
        until = None if own is None else int(own)
        alone = Inputs(given.values[row : row + 1, :until], own)
        for h in hypotheses:
            spent, decoding = 0, model.start(model.encode(alone))
            for token in [BOS, *h.tokens[:-1]]:
                with watch(model) as seen:
                    _, decoding = model.step(torch.tensor([[token]]), decoding)
                spent += list(seen.values())[-1].steps[-1][0].mean(0)
            penalty = 1.5 * float(spent.clamp(LEAST, 1).log().sum())
            assert h.score == pytest.approx(h.log_prob / len(h.tokens) + penalty, abs=1e-4)


def check_limits(model, given, states):
    """So many tokens for each row as its states allow, and one more."""
    decoder = decode.build({"name": "greedy", "max_ratio": 1.0, "max_extra": 1})
    asked = decode.search_batch.Sources.of(given, None, None, None, ())
    assert decoder._request(model, asked).limits == [n + 1 for n in states]
