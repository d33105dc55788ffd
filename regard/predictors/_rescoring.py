"""A second trained system that reranks the hypotheses of a beam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from regard.decode import Hypothesis
from regard.decode.rescoring import rescore, rescore_texts


class Rescorer(Protocol):
    """Ranks the hypotheses of one source."""

    def __call__(
        self, source: Mapping[str, Tensor], hypotheses: Sequence[Hypothesis], texts: Sequence[str]
    ) -> list[Hypothesis]:
        """Best first. ``source`` has a row of each tensor of the batch, ``texts`` what each hypothesis reads."""
        ...


@dataclass(frozen=True)
class ByLanguageModel:
    """By how likely the text is, whatever was read: log P(y|x) / |y| + weight · log P_LM(y)."""

    language_model: Any
    weight: float = 0.008

    def __call__(
        self, source: Mapping[str, Tensor], hypotheses: Sequence[Hypothesis], texts: Sequence[str]
    ) -> list[Hypothesis]:
        return rescore_texts(hypotheses, texts, self.language_model.log_probs(texts), self.weight)


@dataclass(frozen=True)
class ByJointModel:
    """By a system that scores given tokens with their source, such as ``nnjm``."""

    model: Any
    weight: float = 0.5

    def __call__(
        self, source: Mapping[str, Tensor], hypotheses: Sequence[Hypothesis], texts: Sequence[str]
    ) -> list[Hypothesis]:
        words = source["source"][: int(source["source_lengths"])]
        return rescore(self.model, words, hypotheses, self.weight)


def rescorer(writer: Any, other: Any, weight: float | None) -> Rescorer:
    """By the kind of the ``other`` system; a ValueError if it cannot rank what the ``writer`` writes."""
    options = {} if weight is None else {"weight": weight}
    if hasattr(other, "log_probs"):
        return ByLanguageModel(other, **options)
    if not hasattr(other.model, "log_probs"):
        name = other.recipe.sections["system"]["name"]
        raise ValueError(
            f"{other.name}: {name} cannot rank what another system writes; language models (gpt, lstmn) and nnjm can"
        )
    vocabularies, other_vocabularies = writer.task.tokens(), other.task.tokens()
    if different := [side for side, vocabulary in vocabularies.items() if vocabulary != other_vocabularies.get(side)]:
        raise ValueError(f"{writer.name} and {other.name} have different {' and '.join(different)} vocabularies")
    return ByJointModel(other.model, **options)
