"""A second trained system that reranks the hypotheses of a beam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from regard.decode import Hypothesis
from regard.decode.rescoring import rescore, rescore_texts

Rescorer = Callable[[Mapping[str, Tensor], Sequence[Hypothesis], Sequence[str]], list[Hypothesis]]
"""Ranks the hypotheses of one source, best first, from its row of each tensor of the batch, the hypotheses, and what
each of them reads."""


def rescorer(writer: Any, other: Any, weight: float | None) -> Rescorer:
    """By the kind of the ``other`` system; a ValueError if it cannot rank what the ``writer`` writes."""
    options = {} if weight is None else {"weight": weight}
    if hasattr(other, "log_probs"):
        return lambda source, hypotheses, texts: rescore_texts(hypotheses, texts, other.log_probs(texts), **options)
    if not hasattr(other.model, "log_probs"):
        name = other.recipe.sections["system"]["name"]
        raise ValueError(
            f"{other.name}: {name} cannot rank what another system writes; language models (gpt, lstmn) and nnjm can"
        )
    vocabularies, others = writer.task.tokens(), other.task.tokens()
    if different := [side for side, vocabulary in vocabularies.items() if vocabulary != others.get(side)]:
        raise ValueError(f"{writer.name} and {other.name} have different {' and '.join(different)} vocabularies")
    return lambda source, hypotheses, texts: rescore(
        other.model, source["source"][: int(source["source_lengths"])], hypotheses, **options
    )
