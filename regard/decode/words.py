"""From weights to words: what an unknown token stands for, and which word translates which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from regard.decode.tree import Hypothesis


def replace_unknown(
    hypothesis: Hypothesis,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    dictionary: Mapping[str, str] | None = None,
    *,
    unk: int = 3,
) -> list[str]:
    """The target tokens, each unknown one replaced by the translation of the source token that was looked at most, or
    by that token itself if ``dictionary`` does not have it. Jean et al. 2014 (arXiv:1412.2007).

    Args:
        hypothesis: with an alignment.
        source_tokens: the source as it was before unknown words were replaced. Columns of the alignment beyond it, such
            as an end mark or padding, are not looked at.
        target_tokens: the words of ``hypothesis.tokens``.
        dictionary: source word → target word.
        unk: the id of the unknown token.
    """
    if len(target_tokens) != len(hypothesis.tokens):
        raise ValueError(f"{len(target_tokens)} target tokens for a hypothesis of {len(hypothesis.tokens)}")
    unknown = [t for t, token in enumerate(hypothesis.tokens) if token == unk]
    if not unknown or not source_tokens:
        return list(target_tokens)
    if hypothesis.alignment is None:
        raise ValueError("unknown tokens are replaced by what was looked at, but this hypothesis has no alignment")
    if len(source_tokens) > hypothesis.alignment.shape[1]:
        raise ValueError(
            f"{len(source_tokens)} source tokens for an alignment over {hypothesis.alignment.shape[1]}; give the "
            "tokens that the model saw"
        )
    words = list(target_tokens)
    source_places = hypothesis.alignment[unknown, : len(source_tokens)].argmax(dim=-1).tolist()
    for t, s in zip(unknown, source_places):
        words[t] = (dictionary or {}).get(source_tokens[s], source_tokens[s])
    return words


def pharaoh(
    alignment: Tensor, *, source: Sequence[int | None] | None = None, target: Sequence[int | None] | None = None
) -> str:
    """A word alignment in Pharaoh's format, ``"0-0 1-2"``: pairs source-target, counted from 0. Each target word is
    aligned to the source word that was looked at most; one that looked at nothing is left out.

    Args:
        alignment: (T, S).
        source: the number of the word that each source token belongs to, None for marks that belong to no word; weights
            of one word's tokens are added. Without it every column is a word.
        target: the same for the target tokens, whose weights are averaged.

    Columns and rows beyond ``source`` and ``target`` are padding.
    """
    weights = alignment.detach().cpu()
    weights = _join(weights.T, source, "source").T
    weights = _join(weights, target, "target")
    if not weights.numel():
        return ""
    strongest, source_places = weights.max(dim=-1)
    pairs = [(s, t) for t, (s, weight) in enumerate(zip(source_places.tolist(), strongest.tolist())) if weight > 0]
    return " ".join(f"{s}-{t}" for s, t in sorted(pairs))


def _join(weights: Tensor, words: Sequence[int | None] | None, name: str) -> Tensor:
    """Add up the rows of one word. Which of its rows' sums is greatest is also which of their means is."""
    if words is None:
        return weights
    if len(words) > len(weights):
        raise ValueError(f"{name} names words for {len(words)} tokens, but the alignment has {len(weights)}")
    rows = [row for row, word in enumerate(words) if word is not None]
    numbers = torch.tensor([word for word in words if word is not None], dtype=torch.long)
    count = int(numbers.max()) + 1 if rows else 0
    return weights.new_zeros(count, weights.shape[1]).index_add_(0, numbers, weights[rows])
