"""From a loaded model and an input to the weights of one hypothesis, every layer and every head."""

from collections.abc import Sequence

from regard.tasks.generation.look import Look, _decoded, look, look_all, looks_view
from regard.tasks.loaded_model import LoadedModel
from regard.views import View, ViewOptions

__all__ = ["view"]


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Every hypothesis that is asked for of every input, each a run.

    Raises:
        RequestError: as `look`.
    """
    from regard.tasks.generation.why import why_view

    if options.why:
        return why_view(loaded, inputs, options)
    looks: list[Look] = []
    for text in inputs:
        if options.target is not None:
            looks.append(look(loaded, text, target=options.target, measure=options.measure))
        elif options.hypotheses is None:
            looks += look_all(loaded, text, measure=options.measure)
        elif options.hypotheses < 1:
            look(loaded, text, hypothesis=options.hypotheses)  # says what is wrong
        else:
            looks += _decoded(loaded, text, options.hypotheses, None, options.measure, {})
    return looks_view(looks, folder=options.folder)
