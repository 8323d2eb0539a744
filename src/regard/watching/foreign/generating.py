"""`generate` of Hugging Face, followed: what each of its calls reads, and what it returns.

While a block is watched, `generate` and `prepare_inputs_for_generation` of the instance note what
passes through them. The arguments, what is returned and the model's class stay as they are.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.watching.readers.generation import GenerationRun, ModelCall

__all__ = ["Generating"]

_IDS = ("input_ids", "decoder_input_ids", "inputs_embeds", "decoder_inputs_embeds")
_CACHES = ("cache", "past_key_values")


class Generating:
    """Follows `generate` of a model and of the modules inside of it.

    Args:
        failed: told of what went wrong beside the model.
    """

    def __init__(self, model: nn.Module, failed: Callable[[Exception], None]) -> None:
        self._model, self._failed = model, failed
        self._runs: list[tuple[nn.Module, GenerationRun | None]] = []
        self._prepared: tuple[nn.Module, int] | None = None
        self._inside: list[tuple[nn.Module, int]] = []
        self.met: list[GenerationRun] = []

    @property
    def run(self) -> GenerationRun | None:
        """The run that goes on."""
        return self._runs[-1][1] if self._runs else None

    @property
    def reading(self) -> int:
        """The number of the model's call that goes on; -1 outside of one."""
        return self._inside[-1][1] if self._inside else -1

    @contextmanager
    def following(self) -> Iterator[None]:
        """Note what passes while the block runs."""
        with ExitStack() as stack:
            for module in self._model.modules():
                if all(
                    callable(getattr(module, name, None))
                    for name in ("generate", "prepare_inputs_for_generation")
                ):
                    stack.enter_context(self._hooked(module))
            yield

    @contextmanager
    def _hooked(self, module: nn.Module) -> Iterator[None]:
        names = ("generate", "prepare_inputs_for_generation")
        before = {name: module.__dict__[name] for name in names if name in module.__dict__}
        given, prepare = (getattr(module, name) for name in names)

        @functools.wraps(given)
        def generate(*args: Any, **kwargs: Any) -> Any:
            self._begin(module, args, kwargs)
            result = None
            try:
                result = given(*args, **kwargs)
                return result
            finally:
                self._end(result)

        @functools.wraps(prepare)
        def prepared(*args: Any, **kwargs: Any) -> Any:
            inputs = prepare(*args, **kwargs)
            self._read(module, args, kwargs, inputs)
            return inputs

        def enter(own: nn.Module, args: Any) -> None:
            if self._prepared is not None and self._prepared[0] is own:
                self._inside.append(self._prepared)
                self._prepared = None

        def leave(own: nn.Module, args: Any, output: Any) -> None:
            if self._inside and self._inside[-1][0] is own:
                self._inside.pop()

        def encode(own: nn.Module, args: Any) -> None:
            if self.run is not None:
                self.run.encoded += 1

        handles = [
            module.register_forward_pre_hook(enter),
            module.register_forward_hook(leave, always_call=True),
        ]
        encoder = _encoder(module)
        if encoder is not None:
            handles.append(encoder.register_forward_pre_hook(encode))
        object.__setattr__(module, "generate", generate)
        object.__setattr__(module, "prepare_inputs_for_generation", prepared)
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            for name in names:
                module.__dict__.pop(name, None)
            module.__dict__.update(before)

    def _begin(self, module: nn.Module, args: Any, kwargs: Mapping[str, Any]) -> None:
        try:
            nested = any(own is module for own, _ in self._runs)  # it drafts for itself
            run = None if nested else GenerationRun(_batch(args, kwargs), _ends(module, kwargs))
        except Exception as error:
            self._failed(error)
            run = None
        self._runs.append((module, run))

    def _end(self, result: Any) -> None:
        _, run = self._runs.pop()
        self._prepared = None
        if run is None:
            return
        try:
            if run.readings:
                self.met.append(run)
            if isinstance(result, Mapping):
                result = result.get("sequences")
            result = getattr(result, "sequences", result)
            known = isinstance(result, Tensor) and result.dim() == 2
            run.end(result.detach().cpu().numpy().astype(np.int64) if known else None)
        except Exception as error:
            run.refuse(f"reading what it returned failed: {error!r}")
            self._failed(error)

    def _read(self, module: nn.Module, args: Any, kwargs: Mapping[str, Any], inputs: Any) -> None:
        """The model is about to be called with these inputs."""
        self._prepared = None
        run = self.run
        if run is None or self._runs[-1][0] is not module:
            return
        try:
            reading = _reading(run, args[0] if args else kwargs.get("input_ids"), inputs)
        except Exception as error:
            run.refuse(f"reading what it was given failed: {error!r}")
            self._failed(error)
            return
        if reading is not None:
            self._prepared = (module, len(run.readings))
            run.readings.append(reading)


def _encoder(module: nn.Module) -> nn.Module | None:
    if getattr(getattr(module, "config", None), "is_encoder_decoder", False) is not True:
        return None
    get = getattr(module, "get_encoder", None)
    found = get() if callable(get) else None
    return found if isinstance(found, nn.Module) and found is not module else None


def _batch(args: Any, kwargs: Mapping[str, Any]) -> int:
    """How many examples `generate` was given."""
    for one in (*args[:1], *kwargs.values()):
        if isinstance(one, Tensor) and one.dim() > 1:
            return max(len(one), 1)
    return 1


def _ends(module: nn.Module, kwargs: Mapping[str, Any]) -> set[int]:
    """Tokens that end or fill up what `generate` returns."""
    found: set[int] = set()
    settings = (kwargs.get("generation_config"), getattr(module, "generation_config", None))
    for name in ("eos_token_id", "pad_token_id"):
        for one in (kwargs.get(name), *(getattr(own, name, None) for own in settings)):
            found.update(torch.as_tensor(one).flatten().tolist() if one is not None else ())
    return found


def _reading(run: GenerationRun, ids: Any, inputs: Mapping[str, Any]) -> ModelCall | None:
    """What the prepared call reads; None, and the reason noted, where this is not known."""
    given: Any = next((inputs[n] for n in _IDS if inputs.get(n) is not None), None)
    if not isinstance(given, Tensor) or not isinstance(ids, Tensor) or ids.dim() != 2:
        run.refuse("its tokens are not (batch, length)")
        return None
    count = int(given.shape[1])
    cache: Any = next((inputs[n] for n in _CACHES if inputs.get(n) is not None), None)
    past = 0
    if cache is not None:
        past = cache.get_seq_length() if hasattr(cache, "get_seq_length") else cache[0][0].shape[2]
    whole = ids.detach().cpu().numpy().astype(np.int64)
    total, last = int(past) + count, run.readings[-1].ids if run.readings else None
    missing = total - whole.shape[1]
    vectors = given.is_floating_point() or (last is not None and bool((last[:, :1] == -1).any()))
    if missing > 0 and vectors:  # vectors stand where there are no tokens
        whole = np.concatenate([np.full((len(given), missing), -1), whole[: len(given)]], 1)
    elif missing > 0 and last is not None and last.shape == (len(whole), missing):
        whole = np.concatenate([last, whole], 1)  # a long prompt, read in pieces
    elif missing:
        run.refuse("it goes on from a cache whose tokens are not known")
        return None
    return ModelCall(whole, int(past), _sizes(cache, count, int(past)))


@torch.no_grad()
def _sizes(cache: Any, count: int, past: int) -> tuple[tuple[int, int], ...]:
    """Of every layer of a cache, how many keys it will hand over, and the place of the first."""
    own = getattr(cache, "self_attention_cache", cache)
    layers = getattr(own, "layers", None)
    if not layers or not hasattr(own, "get_mask_sizes"):
        return ()
    made = []
    for n in range(len(layers)):
        try:
            length, start = own.get_mask_sizes(count, n)
        except (TypeError, AttributeError):  # releases before 5.3 ask for positions
            try:
                length, start = own.get_mask_sizes(torch.arange(past, past + count), n)
            except Exception:
                length, start = -1, 0
        except Exception:  # a layer without attention
            length, start = -1, 0
        made.append((int(length), int(start)))
    return tuple(made)
