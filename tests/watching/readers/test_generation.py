"""Watched `generate` equals one eager pass over what it returned, however it was written."""

import numpy as np
import pytest
import torch

import regard
from regard.errors import RequestError
from regard.watching.readers.generation import GenerationRun, ModelCall

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

IDS = {"vocab_size": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TEXTS = torch.tensor([[5, 6, 7, 8, 5, 6, 7], [9, 10, 11, 9, 10, 11, 9]])
FRAMES = torch.randn(2, 8, 40, generator=torch.Generator().manual_seed(3))
LLAMA = {
    **IDS, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip
BOTH = {
    **IDS, "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 16,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 16,
    "decoder_start_token_id": 1,
}  # fmt: skip
MODELS = {
    "GPT2LMHeadModel": {**IDS, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64},
    "LlamaForCausalLM": LLAMA,
    "MistralForCausalLM": {**LLAMA, "sliding_window": 3},
    "BartForConditionalGeneration": {**BOTH, "forced_eos_token_id": None},
    "T5ForConditionalGeneration": {
        "vocab_size": 40, "pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0,
        "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2,
    },
    "WhisperForConditionalGeneration": {
        **BOTH, "max_source_positions": 20, "num_mel_bins": 8, "suppress_tokens": None,
        "begin_suppress_tokens": None,
    },
}  # fmt: skip
FORMS = {
    "greedy": {},
    "beams": {"num_beams": 4, "num_return_sequences": 2},
    "beams that end": {
        "num_beams": 3, "num_return_sequences": 3, "min_new_tokens": 0, "length_penalty": -1.0
    },
    "samples": {"do_sample": True, "num_return_sequences": 3},
    "sampled beams": {"do_sample": True, "num_beams": 2},
    "static cache": {"cache_implementation": "static", "num_beams": 2},
    "no cache": {"use_cache": False},
    "no cache, beams": {"use_cache": False, "num_beams": 3},
    "prompt lookup": {"prompt_lookup_num_tokens": 3},
    "assisted": {"assistant_model": True},
    "prompt in pieces": {"prefill_chunk_size": 3},
}  # fmt: skip
FAST = {
    ("GPT2LMHeadModel", "beams"), ("GPT2LMHeadModel", "prompt lookup"),
    ("GPT2LMHeadModel", "no cache, beams"), ("GPT2LMHeadModel", "prompt in pieces"),
    ("LlamaForCausalLM", "samples"), ("LlamaForCausalLM", "static cache"),
    ("MistralForCausalLM", "greedy"), ("MistralForCausalLM", "static cache"),
    ("MistralForCausalLM", "assisted"), ("BartForConditionalGeneration", "beams that end"),
    ("T5ForConditionalGeneration", "sampled beams"),
    ("WhisperForConditionalGeneration", "beams"),
}  # fmt: skip


def model_of(kind, seed=0):
    torch.manual_seed(seed)
    model = getattr(transformers, kind)
    model = model(model.config_class(**MODELS[kind])).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)  # or its weights would all be alike
    return model


def written(model, kind, form):
    """Arguments of `generate`, the examples that it is given, and what it makes of them."""
    options = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, **FORMS[form]}
    one = "prompt_lookup_num_tokens" in options or "assistant_model" in options
    if "assistant_model" in options:
        options["assistant_model"] = model_of(kind, seed=1)
    name = "input_features" if "Whisper" in kind else "inputs"
    given = (FRAMES if "Whisper" in kind else TEXTS)[: 1 if one else 2]
    torch.manual_seed(5)
    return given, model.generate(**{name: given}, **options)


def eager(model, kind, given, sequence):
    """Weights of one pass over one sequence, by kind."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        if "ForCausalLM" in kind or "GPT2" in kind:
            return {"self": model(sequence, output_attentions=True).attentions}
        name = "input_features" if "Whisper" in kind else "input_ids"
        made = model(**{name: given}, decoder_input_ids=sequence, output_attentions=True)
    return {
        "encoder": made.encoder_attentions, "decoder": made.decoder_attentions,
        "cross": made.cross_attentions,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        pytest.param(k, f, marks=[] if (k, f) in FAST else pytest.mark.slow)
        for k in MODELS for f in FORMS
        if (k, f) != ("WhisperForConditionalGeneration", "prompt in pieces")  # which it refuses
    ],
)  # fmt: skip
def test_it_is_what_one_pass_over_each_sequence_gives(kind, form):
    model = model_of(kind)
    with torch.no_grad(), regard.watch(model) as seen:
        given, sequences = written(model, kind, form)
    assert "generate" not in model.__dict__
    assert "prepare_inputs_for_generation" not in model.__dict__
    assert torch.equal(written(model, kind, form)[1], sequences)
    start = torch.ones(1, 1, dtype=torch.long) if "Whisper" in kind else sequences[:1, :0]
    for row in range(len(sequences)):
        view = seen.view(row=row)
        sequence = torch.cat([start, sequences[row : row + 1]], 1)
        read = max(m.shape[1] for m in view.maps if m.kind in ("self", "decoder"))
        if form != "beams that end":
            assert read == sequence.shape[1] - 1
        example = given[row * len(given) // len(sequences)][None]
        whole = eager(model, kind, example, sequence[:, :read])
        for name, layers in whole.items():
            maps = [m for m in view.maps if m.kind == name]
            assert len(maps) == len(layers)
            for one, layer in zip(maps, layers, strict=True):
                assert one.shape == layer.shape[1:]
                # T5 does not scale its scores: rounding in them (5e-5 on a Zen 4) is larger.
                limit = 1e-4 if kind.startswith("T5") else 1e-5
                assert abs(one.weights - layer[0].numpy()).max() < limit
    with pytest.raises(RequestError, match=f"no row {len(sequences)}"):
        seen.view(row=len(sequences))


def test_labels_several_runs_and_what_is_not_known():
    model = model_of("GPT2LMHeadModel")
    short = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False}
    with torch.no_grad(), regard.watch(model) as seen:
        first = model.generate(TEXTS[:1], **short)
        model.generate(TEXTS[1:], **short)
        model(TEXTS)
    record = seen["transformer.h.0.attn"]
    names = [f"t{i}" for i in range(first.shape[1])]  # the last was never read
    view = seen.label(rows=names).view()
    assert [m.scope for m in view.maps[:3]] == [{"generate": 1}, {"generate": 2}, {"beside": 1}]
    assert view.axes[view.maps[0].rows].pieces == names[:-1]
    with pytest.raises(RequestError, match="several runs of generate"):
        record.of(0)
    whole = eager(model, "GPT2", None, first[:, :-1])["self"][0][0]
    torch.testing.assert_close(record.within({"generate": 1}).of(0), whole, rtol=0, atol=1e-6)
    with pytest.raises(RequestError, match="make no one tensor"):
        _ = record.weights

    with torch.no_grad():
        cache = model(TEXTS[:1], use_cache=True)
        cache = cache.get("cache", cache.get("past_key_values"))
    name = "cache" if "cache" in model.forward.__code__.co_varnames else "past_key_values"
    with torch.no_grad(), regard.watch(model) as seen:
        model.generate(torch.cat([TEXTS[:1], TEXTS[:1, :1]], 1), **{name: cache}, **short)
    with pytest.raises(RequestError, match="came with a cache"):
        seen.view()

    class Again(transformers.LogitsProcessor):
        def __call__(self, ids, scores):
            bart.get_encoder()(TEXTS)
            return scores

    bart = model_of("BartForConditionalGeneration")
    with torch.no_grad(), regard.watch(bart) as seen:
        bart.generate(TEXTS, logits_processor=[Again()], **short)
    with pytest.raises(RequestError, match="several passages or attempts"):
        seen.view()

    class Stopped(transformers.StoppingCriteria):
        def __call__(self, ids, scores, **options):
            raise ZeroDivisionError

    seen = None
    with pytest.raises(ZeroDivisionError), torch.no_grad(), regard.watch(model) as seen:
        model.generate(TEXTS, stopping_criteria=[Stopped()], **short)
    with pytest.raises(RequestError, match="generate returned no sequences"):
        seen.view()


@pytest.mark.parametrize("form", ["greedy", "beams", "no cache", "no cache, beams", "samples"])
def test_an_output_of_generate_is_read_the_same_way(form):
    """`regard.view(output)` and `regard.watch` put the same steps together."""
    model = model_of("MistralForCausalLM")
    model.set_attn_implementation("eager")
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, **FORMS[form]}
    torch.manual_seed(5)
    with torch.no_grad(), regard.watch(model) as seen:
        output = model.generate(
            TEXTS, return_dict_in_generate=True, output_attentions=True, **options
        )
    for row in range(len(output.sequences)):
        views = regard.view(output, row=row), seen.view(row=row)
        for one, other in zip(views[0].maps, views[1].maps, strict=True):
            assert one.shape == other.shape
            assert abs(one.weights - other.weights).max() < 1e-6


class Writer(torch.nn.Module):
    """Has the model inside, and writes when it is called."""

    def __init__(self, model, **options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, given):
        return self.model.generate(**given, **self.options)


@pytest.mark.parametrize("form", ["vectors", "padding on the left", "drafts of its own layers"])
def test_other_ways_to_be_given_a_prompt_and_to_write(form):
    """From vectors and with beams, inside of another module; padded; drafted by its own layers."""
    model = model_of("LlamaForCausalLM" if "drafts" in form else "GPT2LMHeadModel")
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    ids, mask = TEXTS, torch.ones_like(TEXTS)
    if form == "vectors":
        given = {"inputs_embeds": model.get_input_embeddings()(TEXTS).detach()}
        options["num_beams"] = 3
    elif form == "padding on the left":
        mask[1, :3] = 0
        given, ids = {"input_ids": TEXTS, "attention_mask": mask}, ids[:, :0]
        options["num_beams"] = 2
    else:
        given, mask, ids = {"input_ids": TEXTS[:1]}, mask[:1], ids[:1, :0]
        options["assistant_early_exit"] = 1
    writer = Writer(model, **options)
    with torch.no_grad(), regard.watch(writer) as seen:
        written = writer(given)
    sequences = torch.cat([ids, written], 1)[:, :-1]
    mask = torch.cat([mask, torch.ones(len(mask), 4, dtype=torch.long)], 1)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        whole = model(
            sequences, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0),
            output_attentions=True,
        ).attentions  # fmt: skip
    for row in range(len(sequences)):
        real = mask[row].bool().numpy()  # rows of padding look at anything
        maps = [m for m in seen.view(row=row).maps if "beside" not in m.scope]  # drafts are
        assert len(maps) == 2
        for n, one in enumerate(maps):
            assert one.shape == whole[n].shape[1:]
            off = abs(one.weights - whole[n][row].numpy())[:, real]
            assert off.max() < 1e-5


@pytest.mark.parametrize(
    "options", [{"tiles": True}, {"top_k": 12}, {"to": "weights.bin"}], ids=str
)
def test_however_weights_are_kept(options, tmp_path):
    if "to" in options:
        options = {"to": tmp_path / options["to"]}
    model = model_of("GPT2LMHeadModel")
    more = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "num_beams": 2}
    with torch.no_grad(), regard.watch(model) as plain, regard.watch(model, **options) as seen:
        model.generate(TEXTS, **more)
    one, other = seen.view(row=1).maps[1], plain.view(row=1).maps[1]
    assert one.shape == other.shape
    assert abs(one.weights - other.weights).max() < 1e-5


@pytest.mark.parametrize(
    ("tail", "whole"), [([9, 2, 0, 0], True), ([9, 2], True), ([9, 8, 7], False)]
)
def test_a_run_whose_tokens_were_read_in_part_is_refused(tail, whole):
    """What ends a sequence or fills it up need not be read; all else was read by somebody."""
    run = GenerationRun(1, ends=(2, 0))
    run.readings += [ModelCall(np.array([[5, 6, 7]]), 0), ModelCall(np.array([[5, 6, 7, 9]]), 3)]
    run.end(np.array([[5, 6, 7, *tail]]))
    if whole:
        assert run.path(0) == [(0, 0)] * 3 + [(1, 0)]
    else:
        with pytest.raises(RequestError, match="no call that it prepared read token 5 of 6"):
            run.path(0)
