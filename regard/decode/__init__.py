"""From a model that predicts one token at a time to whole sequences.

A :class:`Writer` is anything with ``start(batch) -> state``, ``step(token (B,), state) -> (logits (B, V), state)`` and,
if it can say where it looked, ``alignment(state) -> (B, S) | None``. Nothing here asks what it reads::

    best = decode.beam(model, batch, size=5, max_length=80)[0][0]      # first sentence, best hypothesis
    best.tokens, best.score, best.alignment

:func:`greedy`, :func:`beam` and :func:`sample` all return a list per sentence of :class:`Hypothesis`, so that one can
stand where another stood. An :class:`Ensemble` is a model too.
"""

import warnings

from regard.decode.ensemble import Ensemble
from regard.decode.search import beam, greedy, sample
from regard.decode.states import Writer, select
from regard.decode.tree import Hypothesis
from regard.decode.words import pharaoh, replace_unknown

__all__ = [
    "greedy",
    "beam",
    "sample",
    "Hypothesis",
    "Ensemble",
    "Writer",
    "select",
    "replace_unknown",
    "pharaoh",
]


def __getattr__(name: str) -> object:
    if name == "Model":
        warnings.warn("regard.decode.Model is called Writer now", DeprecationWarning, stacklevel=2)
        return Writer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
