"""The Transformer against the paper: counts, equations in NumPy, masks, norms, cached decoding."""

import inspect
import math

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.layers.feedforward import FeedForward
from regard.layers.layout import BatchLayout
from regard.models.following_transformer import FollowingTransformer
from regard.models.transformer import AttentionSettings, PositionSettings, Transformer
from regard.protocols import BOS, EOS, PAD


def tiny(kind=Transformer, **changes):
    torch.manual_seed(0)
    kwargs = {"dim": 8, "heads": 2, "layers": 2, "ffn_dim": 16, "dropout": 0.0} | changes
    return kind(20, 20, **kwargs).double().eval()


def following(**changes):
    """It follows the words of its source: every second symbol of the target stands for one."""
    model = tiny(FollowingTransformer, **changes)
    model.reads.copy_(torch.arange(20) % 2 == 0)
    return model


def default(name):
    return inspect.signature(Transformer).parameters[name].default


def core(**kwargs):
    with torch.device("meta"):
        model = Transformer(11, 11, **kwargs)
    return sum(p.numel() for p in model.parameters()) - 11 * model.dim


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 44_101_632),
        ({"heads": 1}, 44_101_632),
        ({"heads": 32}, 44_101_632),
        ({"attention": {"head_dim": 16, "value_head_dim": 64}}, 37_023_744),
        ({"attention": {"head_dim": 32, "value_head_dim": 64}}, 39_383_040),
        ({"layers": 2}, 14_700_544),
        ({"layers": 4}, 29_401_088),
        ({"layers": 8}, 58_802_176),
        ({"dim": 256, "attention": {"head_dim": 32}}, 17_344_512),
        ({"dim": 1024, "attention": {"head_dim": 128}}, 125_927_424),
        ({"ffn_dim": 1024}, 31_506_432),
        ({"ffn_dim": 4096}, 69_292_032),
        ({"norm": "pre"}, 44_103_680),
    ],
)
def test_thing_1_core_counts_of_table_3(change, count):
    assert core(**change) == count


def test_thing_1_presets_and_totals():
    with torch.device("meta"):
        base, big = Transformer.base(), Transformer.big()
    for model, count, total in ((base, 44_101_632, 63_045_632), (big, 176_283_648, 214_171_648)):
        assert sum(p.numel() for p in model.parameters()) == total
        assert total - model.embed_target.weight.numel() == count
    assert default("dropout") == 0.1


def numpy_forward(model, source, target, window=None, positions=True):
    """The paper's equations for one sentence, in NumPy."""
    p = {k: v.detach().numpy() for k, v in model.state_dict().items()}
    heads = model.encoder[0].self_attention.heads

    def norm(name, x):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(var + 1e-6) * p[f"{name}.weight"] + p[f"{name}.bias"]

    def relative(name, queries, keys):
        """Shaw's vectors of each head and pair: (H, Q, K, D); zeros where the model has none.

        Biases are vectors of one number.
        """
        if name not in p:
            return np.zeros((heads, queries, keys, model.dim // heads))
        each = p[name][..., None] if "position" in name else p[name]
        table = np.broadcast_to(each, (heads, *each.shape[-2:]))  # of each head, or shared
        clip = table.shape[1] // 2
        offset = [[max(-clip, min(clip, j - i)) for j in range(keys)] for i in range(queries)]
        return table[:, np.array(offset) + clip]

    def attend(name, x, y, causal=False):
        out = []
        a_k, a_v, bias = (
            relative(f"{name}.attention.{part}.table", len(x), len(y))
            for part in ("score", "read", "position")
        )
        q, k, v = (
            z @ p[f"{name}.{part}.weight"].T for z, part in ((x, "query"), (y, "key"), (y, "value"))
        )
        for h, (q_h, k_h, v_h) in enumerate(
            zip(*(np.split(z, heads, axis=1) for z in (q, k, v)), strict=True)
        ):
            for i in range(len(x)):
                seen = [j for j in range(len(y)) if not (causal and j > i)]
                if window is not None and "cross" not in name:  # `window` of them about i
                    first = i - window // 2
                    seen = [j for j in seen if first <= j < first + window]
                e = np.array([q_h[i] @ (k_h[j] + a_k[h, i, j]) for j in seen])
                w = np.exp(e / np.sqrt(q_h.shape[1]) + bias[h, i, seen, 0])
                w /= w.sum()
                out.append(
                    sum(w_j * (v_h[j] + a_v[h, i, j]) for w_j, j in zip(w, seen, strict=True))
                )
        out = [np.stack(out[h * len(x) : (h + 1) * len(x)]) for h in range(heads)]
        return np.concatenate(out, 1) @ p[f"{name}.out.weight"].T

    def feed(name, x):
        hidden = np.maximum(0, x @ p[f"{name}.into.weight"].T + p[f"{name}.into.bias"])
        return hidden @ p[f"{name}.out.weight"].T + p[f"{name}.out.bias"]

    def embed(ids):
        d = model.dim
        table = np.zeros((len(ids), d))
        for pos in range(len(ids) if positions else 0):
            for i in range(d // 2):
                angle = pos / 10000 ** (2 * i / d)
                table[pos, 2 * i], table[pos, 2 * i + 1] = math.sin(angle), math.cos(angle)
        return p["embed_target.weight"][ids] * math.sqrt(d) + table.astype(np.float32)

    x = embed(source)
    for i in range(len(model.encoder)):
        a = f"encoder.{i}"
        x = norm(f"{a}.self_residual.norm", x + attend(f"{a}.self_attention", x, x))
        x = norm(f"{a}.feedforward_residual.norm", x + feed(f"{a}.feedforward", x))
    y = embed(target)
    if model.follow:
        places = np.minimum(p["reads"][target].cumsum(), len(x) - 1)
        y = y + x[places] @ p["follower.weight"].T
    for i in range(len(model.decoder)):
        a = f"decoder.{i}"
        y = norm(f"{a}.self_residual.norm", y + attend(f"{a}.self_attention", y, y, causal=True))
        y = norm(f"{a}.cross_residual.norm", y + attend(f"{a}.cross_attention", y, x))
        y = norm(f"{a}.feedforward_residual.norm", y + feed(f"{a}.feedforward", y))
    return y @ p["embed_target.weight"].T


def test_forward_is_the_papers_equations():
    model = tiny()
    source, target = [5, 9, 4, 7, EOS], [BOS, 6, 3, 8]
    got = model(torch.tensor([source]), torch.tensor([target])).logits[0]
    np.testing.assert_allclose(
        got.detach().numpy(), numpy_forward(model, source, target), rtol=1e-6
    )


@pytest.mark.parametrize("window", [None, 1, 3, 4])
@pytest.mark.parametrize("positions", ["sinusoid", "shaw", "bias"])
def test_variants_are_their_equations(positions, window):
    model = tiny(attention={"window": window}, position={"kind": positions, "clip": 2})
    biases = [p for name, p in model.named_parameters() if name.endswith("position.table")]
    assert len(biases) == (4 if positions == "bias" else 0)
    for table in biases:
        torch.nn.init.normal_(table)
    source, target = [5, 9, 4, 7, 6, 11, EOS], [BOS, 6, 3, 8, 12]
    got = model(torch.tensor([source]), torch.tensor([target])).logits[0]
    expected = numpy_forward(model, source, target, window, positions == "sinusoid")
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-6, atol=1e-9)


def test_following_is_its_equations():
    model = following()
    source, target = [5, 9, 4, EOS], [BOS, 6, 3, 8, 12, 11, 7, 10]
    places = model.reads[target].cumsum(0)
    assert places.unique().numel() > 3  # of four, and they would run past the end
    got = model(torch.tensor([source]), torch.tensor([target])).logits[0]
    expected = numpy_forward(model, source, target)
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("relative", ["both", "keys", "values"])
@pytest.mark.parametrize("tables", ["head", "shared"])
def test_shaws_ablations_are_their_equations(relative, tables):
    placed = PositionSettings(kind="shaw", clip=2, relative=relative, tables=tables)
    model = tiny(position=placed)
    names = {name for name, _ in model.named_parameters() if name.endswith("table")}
    assert any("score" in name for name in names) == (relative != "values")
    assert any("read" in name for name in names) == (relative != "keys")
    source, target = [5, 9, 4, 7, 6, 11, EOS], [BOS, 6, 3, 8, 12]
    got = model(torch.tensor([source]), torch.tensor([target])).logits[0]
    expected = numpy_forward(model, source, target, positions=False)
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("r", [1, 2, 3, 4, 5, 6])
def test_a_window_of_r_is_r_positions(r):
    model = tiny(attention=AttentionSettings(window=r))
    ids = torch.arange(4, 16)[None]
    with watch(model) as seen:
        model(ids, ids)
    looked = seen["encoder.0.self_attention"].weights[0, 0, 6].nonzero().flatten().tolist()
    assert looked == list(range(6 - r // 2, 6 - r // 2 + r))
    looked = seen["decoder.0.self_attention"].weights[0, 0, 6].nonzero().flatten().tolist()
    assert looked == list(range(6 - r // 2, 7))  # of these the ones that are not behind it


@pytest.mark.parametrize("tied", ["all", "output", "none"])
def test_the_vector_of_padding_is_learnt_as_an_output_alone_and_read_by_none(tied):
    model = tiny(tied=tied).train()
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    source, target = torch.tensor([[5, 6, EOS, PAD]]), torch.tensor([[BOS, 7, 8, PAD]])
    logits = model(source, target).logits[0, :3]
    torch.nn.functional.cross_entropy(logits, torch.tensor([7, 8, EOS])).backward()
    optimizer.step()
    assert model.embed_target.weight[PAD].any() == (tied != "none")
    assert model.embed_source.weight[PAD].any() == (tied == "all")
    model.eval()
    before = model(source, target).logits[:, :3, 1:]
    with torch.no_grad():
        model.embed_target.weight[PAD] += 1.0
        model.embed_source.weight[PAD] += 1.0
    assert torch.equal(model(source, target).logits[:, :3, 1:], before)


def test_check_d_windows_reach_as_far_as_they_are_stacked():
    model, full = tiny(layers=3, attention={"window": 3}), tiny(layers=3)
    x = torch.randn(1, 12, 8).double().requires_grad_()
    for count in (1, 2, 3):
        y = x
        for layer in model.encoder[:count]:
            y = layer(y, BatchLayout(torch.tensor([y.shape[1]]), y.shape[1]))
        (grad,) = torch.autograd.grad(y[0, 6, 0], x)
        reached = grad[0].any(-1).nonzero().flatten().tolist()
        assert reached == list(range(6 - count, 7 + count))
    full.load_state_dict(model.state_dict())
    ids, target = torch.tensor([[5, 6, 7, 8, EOS]]), torch.tensor([[BOS, 4, 5]])
    wide = tiny(layers=3, attention={"window": 10})  # r >= 2 n
    wide.load_state_dict(model.state_dict())
    assert torch.equal(wide(ids, target).logits, full(ids, target).logits)


@pytest.mark.parametrize(("change", "same"), [({"clip": 0}, True), ({"clip": 1}, False)])
def test_relative_positions_that_tell_no_distance_apart_know_no_order(change, same):
    model = tiny(position=PositionSettings(kind="shaw", **change))
    ids, order = torch.tensor([[5, 6, 7, 8, EOS]]), torch.tensor([3, 0, 4, 1, 2])
    states, turned = model.encode(ids).states, model.encode(ids[:, order]).states
    assert torch.allclose(turned, states[:, order]) == same


def test_parameters_of_relative_positions():
    plain, own = core(), core(position={"kind": "shaw"})
    assert own - plain == 405_504  # 12 layers, keys and values, a table for each of 8 heads
    assert core(position={"kind": "shaw", "tables": "shared"}) - plain == 50_688
    assert core(position={"kind": "shaw", "relative": "keys"}) - plain == 405_504 // 2
    assert core(position={"kind": "bias"}) - plain == 12 * 8 * 33


def test_thing_8_the_default_is_post_norm_without_attention_or_activation_dropout():
    kinds = {type(m).__name__ for m in tiny().modules()}
    assert "PostNorm" in kinds
    assert "PreNorm" not in kinds
    assert AttentionSettings().dropout == default("activation_dropout") == 0.0
    # The output of a post-norm stack is normalized; that of a pre-norm one through its last norm.
    for norm in ("post", "pre"):
        states = tiny(norm=norm).encode(torch.tensor([[5, 6, 7, EOS]])).states
        torch.testing.assert_close(states.mean(-1), torch.zeros(1, 4).double(), atol=1e-9, rtol=0)


def test_pre_norm_leaves_an_identity_path():
    model = tiny(norm="pre")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("attention.out.weight", "feedforward.out.weight")):
                p.zero_()
    source = torch.tensor([[5, 6, EOS]])
    x = model._embed(model.embed_source, source, 0)
    torch.testing.assert_close(model.encode(source).states, model.encoder_norm(x))


def test_no_position_of_the_target_sees_a_later_one():
    model = tiny()
    source, target = torch.tensor([[5, 6, EOS]]), torch.tensor([[BOS, 4, 5, 6, 7]])
    base = model(source, target).logits
    for t in range(5):
        changed = target.clone()
        changed[0, t] = 19
        difference = (model(source, changed).logits - base).abs().amax(-1)[0]
        assert (difference[:t] == 0).all()
        assert (difference[t:] > 0).all()


def test_one_matrix_is_shared_and_scaled_on_input_only():
    model = tiny()
    assert model.embed_source is model.embed_target
    assert model.output.weight is model.embed_target.weight
    assert (model.embed_target.weight[PAD] == 0).all()
    ids = torch.tensor([[4]])
    x = model._embed(model.embed_target, ids, 0)
    first = torch.tensor([0.0, 1.0] * 4).double()  # sin 0, cos 0
    torch.testing.assert_close(x[0, 0], model.embed_target.weight[4] * math.sqrt(8) + first)
    untied = tiny(tied="none")
    assert untied.output.weight is not untied.embed_target.weight
    assert tiny(tied="output").embed_source is not tiny(tied="output").embed_target


@pytest.mark.parametrize("positions", ["sinusoid", "halves", "learned", "none"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("make", [tiny, following])
def test_cached_steps_equal_teacher_forcing_and_follow_beams(make, positions, norm):
    model = make(position={"kind": positions, "max_length": 16}, norm=norm, decoder_layers=1)
    source = torch.tensor([[5, 6, 7, 8, EOS], [9, 4, EOS, PAD, PAD]])
    target = torch.randint(4, 20, (2, 3, 6))  # (B, beam, T)
    target[..., 0] = BOS
    decoding = model.start(model.encode(source))
    with watch(model) as seen:
        for t in range(6):
            tokens = target[:, :1, t] if t == 0 else target[:, :, t]
            logits, decoding = model.step(tokens, decoding)
            if t == 0:
                decoding = decoding.select(torch.zeros(2, 3, dtype=torch.long))
    for beam in range(3):
        full = model(source, target[:, beam]).logits
        torch.testing.assert_close(logits[:, beam], full[:, -1])
    assert set(seen) == {"decoder.0.self_attention", "decoder.0.cross_attention"}
    cross = seen["decoder.0.cross_attention"]
    trail = torch.tensor([[1, 0]] + [[1, 2]] * 5)
    assert (cross.along(trail)[..., 2:] > 0).sum() > 0  # keys of row 1 end at its length 3
    assert (cross.along(trail)[..., 3:] == 0).all()


def test_what_cannot_be_is_refused_with_a_sentence():
    with pytest.raises(RequestError, match="shares one embedding"):
        Transformer(10, 12)
    with pytest.raises(RequestError, match="no norm is called 'pos'; did you mean 'post'"):
        Transformer(10, 10, norm="pos")
    with pytest.raises(
        RequestError, match=r"position\.kind: there is no 'shaws'; did you mean 'shaw'"
    ):
        tiny(position={"kind": "shaws"})
    with pytest.raises(
        RequestError, match=r"model\.attention\.window: expected 1 position or more"
    ):
        tiny(attention=AttentionSettings(window=0))
    with pytest.raises(RequestError, match=r"model\.position: expected keys with values"):
        tiny(position="shaw")
    with pytest.raises(RequestError, match="learned positions end at 4"):
        tiny(position={"kind": "learned", "max_length": 4}).encode(torch.full((1, 5), 7))


@pytest.mark.slow
def test_deep_pre_norm_trains_without_warm_up_and_post_norm_does_not():
    """The fact sheet's E6: a 12-layer encoder that reverses strings of 16 over 20 symbols."""

    def final_loss(norm):
        torch.manual_seed(0)
        model = Transformer(
            24,
            24,
            dim=64,
            heads=4,
            layers=12,
            decoder_layers=1,
            ffn_dim=256,
            dropout=0.0,
            norm=norm,
        )
        encoder = torch.nn.ModuleList([model.embed_source, model.encoder, model.encoder_norm])
        optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3, betas=(0.9, 0.98))
        for _ in range(400):
            x = torch.randint(4, 24, (64, 16))
            logits = model.output(model.encode(x).states)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), x.flip(1).flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    assert final_loss("pre") < 0.2
    assert final_loss("post") > 2.0


@pytest.mark.slow
def test_relative_positions_hold_at_lengths_never_seen_and_sinusoids_do_not():
    """The fact sheet's E4: y_i = (x_i + x_{i-1}) mod 10, learned on lengths of 5 to 20."""

    def accuracy(positions):
        torch.manual_seed(0)
        model = Transformer(
            14, 14, dim=64, heads=4, layers=2, decoder_layers=1, ffn_dim=128, dropout=0.0,
            position={"kind": positions, "clip": 4},
        )  # fmt: skip
        read = torch.nn.Linear(64, 10)
        optimizer = torch.optim.Adam([*model.parameters(), *read.parameters()], lr=1e-3)

        def batch(length, rows=64):
            x = torch.randint(10, (rows, length))
            before = torch.cat([torch.zeros(rows, 1, dtype=torch.long), x[:, :-1]], 1)
            return x + 4, (x + before) % 10

        for step in range(1000):
            x, y = batch((5, 10, 15, 20)[step % 4])
            loss = torch.nn.functional.cross_entropy(
                read(model.encode(x).states).flatten(0, 1), y.flatten()
            )
            optimizer.param_groups[0]["lr"] = 1e-3 * min(1.0, (step + 1) / 200)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = []
        for length in (20, 40, 80):
            x, y = batch(length)
            with torch.no_grad():
                found.append((read(model.encode(x).states).argmax(-1) == y).float().mean().item())
        return found

    relative, sinusoid = accuracy("shaw"), accuracy("sinusoid")
    assert relative[2] > 0.95  # four times the training length
    assert sinusoid[1] < 0.7  # twice
    assert min(relative[0], sinusoid[0]) > 0.95


WINDOW = {"attention": {"window": 4}}


def ragged():
    """Sources and targets with a third of padding."""
    torch.manual_seed(3)
    source, target = torch.randint(4, 20, (6, 12)), torch.randint(4, 20, (6, 9))
    for row, (s, t) in enumerate(zip((12, 3, 7, 5, 9, 1), (9, 2, 5, 9, 1, 4), strict=True)):
        source[row, s:], target[row, t:] = PAD, PAD
    return source, target


@pytest.mark.parametrize(
    "changes", [{}, {"norm": "pre"}, WINDOW, {"position": {"kind": "learned"}}]
)
@pytest.mark.parametrize("make", [tiny, following])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_training_without_padding_is_training_with_it(dtype, make, changes, monkeypatch):
    model = make(**changes).to(dtype).train()
    source, target = ragged()
    real = (target != PAD)[..., None]
    found = []
    for without in (True, False):
        model.zero_grad()
        monkeypatch.setattr(model, "_trains_ragged", lambda *_, chosen=without: chosen)
        logits = model(source, target).logits
        (logits.square() * real).sum().backward()
        found.append((logits * real, *(p.grad for p in model.parameters())))
    for one, two in zip(*found, strict=True):
        if dtype == torch.float64:
            torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)
        else:  # gradients are sums of large terms of both signs: rounded by the size of those
            atol = 1e-5 * max(1.0, two.abs().max().item())
            torch.testing.assert_close(one, two, rtol=1e-4, atol=atol)


def test_padding_is_left_out_where_it_pays(monkeypatch):
    seen = []
    real = FeedForward.forward
    monkeypatch.setattr(
        FeedForward, "forward", lambda self, x: seen.append(x.shape[:-1]) or real(self, x)
    )
    source, target = ragged()

    def shapes(model, ids=(source, target)):
        seen.clear()
        model(*ids)
        return {tuple(x) for x in seen}

    model = tiny().float()
    assert shapes(model.train()) == {(37,), (30,)}
    assert shapes(model.eval()) == {(6, 12), (6, 9)}
    assert shapes(model.train(), (source[:1], target[:1])) == {(1, 12), (1, 9)}  # none to leave out
    assert shapes(tiny(position={"kind": "shaw"}).float().train()) == {(37,), (30,)}
    assert shapes(tiny(**WINDOW).float().train()) == {(37,), (30,)}
    with torch.no_grad():
        assert shapes(model) == {(6, 12), (6, 9)}


def test_buckets_of_a_decoder_lie_behind_alone():
    tiny = {"dim": 8, "heads": 2, "ffn_dim": 8, "layers": 1}
    model = Transformer(20, 20, **tiny, position={"kind": "buckets", "clip": 9, "buckets": 4})
    encoder, decoder = (
        side[0].self_attention.attention.position for side in (model.encoder, model.decoder)
    )
    assert (encoder.both, decoder.both, encoder.clip, decoder.heads) == (True, False, 9, 2)
    assert model.decoder[0].cross_attention.attention.position is None


@pytest.mark.parametrize("buckets", [2, 7, 18])
def test_buckets_that_a_decoder_cannot_have_are_refused(buckets):
    with pytest.raises(
        RequestError, match=rf"position\.buckets: .* below 2 clip \(18\), got {buckets}"
    ):
        Transformer(9, 9, position={"kind": "buckets", "clip": 9, "buckets": buckets})
