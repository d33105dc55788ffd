"""A chain of tags that depend on each other: a conditional random field over emissions.

Lafferty, McCallum & Pereira 2001; as the last layer of a tagger, Lample et al. 2016 (arXiv:1603.01360), section 2.2.

score(y) = Σₜ emission[t, yₜ] + Σₜ transition[yₜ₋₁, yₜ] + begin[y₁] + end[y_T], and p(y) = exp score(y) / Z. Z is summed
over all sequences word by word, in logarithms; the best sequence is found the same way with a maximum.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Crf(nn.Module):
    """Scores of neighbouring tags. Shapes: emissions (B, T, K), tags (B, T), lengths (B,), all at least 1."""

    def __init__(self, tags: int):
        super().__init__()
        self.transition = nn.Parameter(torch.zeros(tags, tags))
        """[from, to]."""
        self.begin = nn.Parameter(torch.zeros(tags))
        self.end = nn.Parameter(torch.zeros(tags))

    def forward(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """(B,): −log p of the tags."""
        return self.partition(emissions, lengths) - self.score(emissions, tags, lengths)

    def score(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """(B,): the score of the tags."""
        real = _real(emissions, lengths)
        emitted = emissions.gather(-1, tags[..., None])[..., 0] * real
        steps = self.transition[tags[:, :-1], tags[:, 1:]] * real[:, 1:]
        last = tags.gather(1, lengths[:, None] - 1)[:, 0]
        return emitted.sum(1) + steps.sum(1) + self.begin[tags[:, 0]] + self.end[last]

    def partition(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """(B,): log Z."""
        alpha = self.begin + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            new = (alpha[:, :, None] + self.transition).logsumexp(1) + emissions[:, t]
            alpha = torch.where((t < lengths)[:, None], new, alpha)
        return (alpha + self.end).logsumexp(-1)

    def marginals(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, K): p(yₜ = k), summed over the tags of all other words (forward-backward); 0 behind the end."""
        alphas, last = [self.begin + emissions[:, 0]], lengths[:, None] - 1
        for t in range(1, emissions.shape[1]):
            alphas.append((alphas[-1][:, :, None] + self.transition).logsumexp(1) + emissions[:, t])
        beta = self.end.expand_as(alphas[0])
        betas = [beta]
        for t in range(emissions.shape[1] - 2, -1, -1):
            after = (self.transition + (emissions[:, t + 1] + beta)[:, None]).logsumexp(2)
            beta = torch.where(t < last, after, self.end)
            betas.append(beta)
        log_prob = torch.stack(alphas, 1) + torch.stack(betas[::-1], 1)
        return log_prob.softmax(-1) * _real(emissions, lengths)[..., None]

    def best(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """(B, T): the likeliest tags (Viterbi); 0 behind the end."""
        score, links = self.begin + emissions[:, 0], []
        for t in range(1, emissions.shape[1]):
            new, link = (score[:, :, None] + self.transition).max(1)
            going = (t < lengths)[:, None]
            score = torch.where(going, new + emissions[:, t], score)
            links.append(torch.where(going, link, torch.arange(link.shape[1], device=link.device)))
        tag = (score + self.end).argmax(-1)
        path = [tag]
        for link in reversed(links):
            tag = link.gather(1, tag[:, None])[:, 0]
            path.append(tag)
        return torch.stack(path[::-1], 1) * _real(emissions, lengths).long()


def _real(emissions: Tensor, lengths: Tensor) -> Tensor:
    """(B, T): 1 where there is a word."""
    real = torch.arange(emissions.shape[1], device=lengths.device) < lengths[:, None]
    return real.to(emissions.dtype)
