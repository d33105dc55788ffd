"""Connectionist temporal classification beside attention, so that the states of sound tell where its tokens are.

Graves, Fernández, Gomez & Schmidhuber 2006; as a second loss of a recognizer with attention Kim, Hori & Watanabe 2017
(arXiv:1609.06773): L = λ L_ctc + (1 − λ) L_attention. Each state says a token or a blank; a path of S states says what
is left once equal neighbours are joined and blanks are taken out, and p(y) is the sum over all paths that say y. Since
paths never go back, states learn to stand for the sound near them, which attention alone may not learn from an hour of
speech.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.layers.text import PAD, Batch


class CTC(nn.Module):
    """−log p of transcripts, a mean over their tokens with eos. Shapes: states (B, S, width), lengths (B,)."""

    def __init__(self, width: int, vocab: int):
        super().__init__()
        self.output = nn.Linear(width, vocab)
        """Padding stands for the blank."""

    def forward(self, states: Tensor, lengths: Tensor, batch: Batch) -> Tensor:
        scores = self.output(states)
        scores = functional.log_softmax(scores, -1, dtype=torch.promote_types(scores.dtype, torch.float32))
        tokens = batch["target_lengths"] - 1  # without eos
        # A transcript that is too long for its states has no path, and no say.
        arguments = scores.transpose(0, 1), batch["target"][:, 1:], lengths, tokens
        total = functional.ctc_loss(*arguments, blank=PAD, reduction="sum", zero_infinity=True)
        return total / batch["target_lengths"].sum().clamp_min(1)


def joint(losses: dict[str, Tensor], ctc: Tensor, share: float) -> dict[str, Tensor]:
    """The losses of attention with a ``share`` of the loss from CTC."""
    return {**losses, "loss": (1 - share) * losses["loss"] + share * ctc, "ctc": ctc.detach()}
