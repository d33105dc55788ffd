from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from regard._lazy import nearest
from regard.normalizers._masked import masked_softmax
from regard.parts import Normalizer

MODES = ("sample", "argmax", "straight_through")


class Hard(Normalizer):
    """One key per query: α = one-hot(i), i ~ softmax(e). Xu et al. 2015 (arXiv:1502.03044), section 4.1.

    Modes:
        ``sample``: i is drawn; no gradient reaches the scores through the weights, but ``Attended.log_prob`` (…, T)
        carries one for REINFORCE: ∇ E[R] = E[(R − b) ∇ log p(i)].
        ``argmax``: the best key; its gradient is zero.
        ``straight_through``: the best key going forward, the softmax going backward (Bengio et al. 2013,
        arXiv:1308.3432).

    Rows named in ``expected`` (…, T), booleans, keep their expectation, α = softmax(e), and have log-probability 0: for
    the start of training, and for half of the samples later on (section 4.2.1).
    """

    equation = "one-hot(i), i ~ softmax(e)"
    paper = "Xu 2015"
    needs = ("generator", "expected")
    stochastic = True

    def __init__(self, mode: str = "sample"):
        super().__init__()
        if mode not in MODES:
            raise ValueError(f"no mode of Hard is called {mode!r}: {nearest(mode, MODES)}")
        self.mode = mode

    def forward(
        self,
        scores: Tensor,
        mask: Tensor | None,
        generator: torch.Generator | None = None,
        expected: Tensor | None = None,
    ) -> Tensor:
        if scores.numel() == 0:
            return scores
        probabilities = masked_softmax(scores, mask)
        choice = _draw(probabilities, generator) if self.mode == "sample" else probabilities.argmax(-1)
        weights = one_hot(choice, scores.shape[-1]).to(scores.dtype)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        if self.mode == "straight_through":
            weights = weights + (probabilities - probabilities.detach())
        # Adding nothing keeps NaN, of which an argmax would quietly make a clean one-hot, and a gradient that is zero.
        weights = weights + probabilities * 0.0
        return weights if expected is None else torch.where(expected[..., None], probabilities, weights)

    def log_prob(self, scores: Tensor, mask: Tensor | None, weights: Tensor) -> Tensor:
        filled = scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        # A dead row has no weight, and an expectation none of exactly 1: log-probability 0 and no gradient.
        return (torch.log_softmax(filled, dim=-1) * (weights.detach() == 1)).sum(-1)


def _draw(probabilities: Tensor, generator: torch.Generator | None) -> Tensor:
    """An index from each row, by the exponential race: argmin of Exp(1)/p is distributed as p."""
    times = torch.empty_like(probabilities).exponential_(generator=generator)
    return (times / probabilities).argmin(-1)
