from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from regard.normalizers._masked import masked_softmax
from regard.parts import Normalizer


class Smoothed(Normalizer):
    """α = σ(e) / Σ σ(e): softmax with its exponential bounded, so that several keys can share the focus.

    Chorowski et al. 2015 (arXiv:1506.07503), section 2.3, "smoothing".
    """

    equation = "σ(e) / Σ σ(e)"
    paper = "Chorowski 2015"
    shift_invariant = False

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        # exp(log σ(e)) = σ(e), and a softmax cannot divide by a sum that underflowed.
        return masked_softmax(logsigmoid(scores if mask is None else torch.where(mask, scores, 0.0)), mask)
