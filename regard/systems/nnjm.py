"""Neural network joint model: a feed-forward language model that also sees the source around the aligned word.

Devlin, Zbib, Huang, Lamar, Schwartz & Makhoul 2014, *Fast and Robust Neural Network Joint Models for Statistical
Machine Translation* (ACL 2014).

A target word is predicted from the words before it and from the source words around the one that it is *affiliated*
with, aᵢ, which an aligner outside of the model has chosen:

    P(tᵢ | tᵢ₋₁ … tᵢ₋₃, s_{aᵢ−5} … s_{aᵢ+5})
    h = tanh(W₂ tanh(W₁ [windows; history])),   u = W₃ h + b,   log P = u_t − log Z,   Z = Σ exp u

An affiliation is attention with all weight on one key, and is written so here: the query is the one-hot position aᵢ, a
key the one-hot position of a source word, its value the embeddings of the window around it; dot product, the largest
score takes all. ``record`` sees the hard alignment like any other.

Self-normalization: with the loss −log P + α (log Z)² and b = −log V at first, u itself is nearly a log-probability, and
scoring a word needs no sum over the vocabulary. :meth:`NNJM.log_probs` gives both, for rescoring n-best lists
(:mod:`regard.decode.rescoring`).

Deviations: the paper's model only scores what a phrase-based decoder proposes. So that it can write alone, a second
attention, ``aligner``, learns the affiliations (its loss is added): an additive score with the place before, softmax,
whose largest weight is the next affiliation. The first layer is not computed in advance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

import regard
from regard import masks
from regard._settings import at_least
from regard.layers import text
from regard.layers.dropout import Dropout
from regard.layers.use import Use
from regard.normalizers import Hard
from regard.scores import Dot, LocationAware


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's.

    Attributes:
        history: target words before the predicted one.
        radius: source words on either side of the affiliated one.
        normalize: α, the weight of (log Z)²; 0 does not self-normalize.
        attention: width of the aligner's tanh.
        spread: standard deviation of the initial embeddings.
    """

    source_vocab: int
    target_vocab: int
    embedding: int = 192
    hidden: int = 512
    history: int = 3
    radius: int = 5
    normalize: float = 0.1
    attention: int = 128
    dropout: float = 0.0
    spread: float = 0.1

    def __post_init__(self) -> None:
        at_least(self, "embedding", "hidden", "history", "attention", radius=0)
        if not self.normalize >= 0:
            raise ValueError(f"normalize, the weight of (log Z)², is at least 0, not {self.normalize}")


class NNJM(nn.Module):
    """Windows, history, two hidden layers; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "affiliation": Use(
            *("position aᵢ", "source positions", "windows around them", "dot"),
            normalizer="hard",
            rows="written",
            columns="words",
        ),
        "aligner": Use(
            *("words before", "windows", "windows", "additive with location"), rows="written", columns="words"
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        before, around = config.history * config.embedding, (2 * config.radius + 1) * config.embedding
        self.source = nn.Embedding(config.source_vocab, config.embedding, padding_idx=text.PAD)
        self.target = nn.Embedding(config.target_vocab, config.embedding, padding_idx=text.PAD)
        self.affiliation = regard.Attention(Dot(), Hard("argmax"))
        self.aligner = regard.Attention(LocationAware(before, around, config.attention, filters=8, kernel=7))
        self.lower = nn.Linear(around + before, config.hidden)
        self.upper = nn.Linear(config.hidden, config.hidden)
        self.output = nn.Linear(config.hidden, config.target_vocab)
        self.dropout = Dropout(config.dropout)
        for words in (self.source, self.target):
            text.initialize(words, config.spread)
        nn.init.constant_(self.output.bias, -math.log(config.target_vocab))

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of pairs with ``affiliation`` (B, T). ``log_z`` is the mean of abs(log Z), ``placed``
        the share of affiliations that the aligner predicts right."""
        target = batch["target"][:, 1:]
        real = torch.arange(target.shape[1], device=target.device) < batch["target_lengths"][:, None]
        count = real.sum()
        scores, labels = self._scores(batch)[real], target[real]
        log_z = scores.logsumexp(-1)
        log_prob = scores.gather(1, labels[:, None])[:, 0] - log_z
        placed, right = self._placed(batch, real)
        share = 1 / count.clamp_min(1)
        loss = self.config.normalize * log_z.square().sum() - log_prob.sum() - placed
        return {
            "loss": loss * share,
            "nll": -log_prob.detach().sum() * share,
            "accuracy": (scores.argmax(-1) == labels).sum() * share,
            "log_z": log_z.detach().abs().sum() * share,
            "placed": right * share,
            "count": count,
        }

    def log_probs(self, batch: text.Batch, *, normalized: bool = True) -> Tensor:
        """(B, T): the log-probability of each of the target's tokens, 0 where there is none. With ``normalized=False``
        the scores themselves, which approximate it in a self-normalized model."""
        target = batch["target"][:, 1:]
        real = torch.arange(target.shape[1], device=target.device) < batch["target_lengths"][:, None]
        scores = self._scores(batch)
        target_scores = scores.gather(-1, target[..., None])[..., 0]
        return (target_scores - scores.logsumexp(-1) if normalized else target_scores).masked_fill(~real, 0.0)

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """The windows as keys and values, and an empty history. Affiliations of the batch are used if there are some;
        without them, or after their end, those of the aligner."""
        windows, places = self._windows(batch), masks.lengths(batch["source_lengths"])
        zeros = windows.new_zeros(windows.shape[:2])
        return {
            "windows": self.affiliation.remember(self._positions(windows), windows, mask=places),
            "keys": self.aligner.remember(windows, mask=places),
            "history": batch["source"].new_full((len(zeros), self.config.history), text.BOS),
            "place": zeros,
            "given": batch["affiliation"] if "affiliation" in batch else batch["source"][:, :0],
        }

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Scores (B, V) of the token after ``token`` (B,)."""
        history = torch.cat([state["history"][:, 1:], token[:, None]], 1)
        before = self.target(history).flatten(1)[:, None]
        likely = self.aligner(before, state["keys"], state=state["place"], weights=True).weights[:, 0]
        affiliations = state["given"]
        source_index = affiliations[:, 0] if affiliations.shape[1] else likely.argmax(-1)
        place = one_hot(source_index, likely.shape[1]).to(likely.dtype)
        window = self.affiliation(place[:, None], state["windows"])
        scores = self._read(window.context, before)[:, 0]
        return scores, {**state, "history": history, "place": window.weights[:, 0], "given": affiliations[:, 1:]}

    def alignment(self, state: dict[str, Any]) -> Tensor:
        """(B, S): the affiliation of the last word."""
        return state["place"]

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest answer, in tokens."""
        return text.limit(batch)

    def _scores(self, batch: text.Batch) -> Tensor:
        """(B, T, V), not normalized."""
        windows, places = self._windows(batch), masks.lengths(batch["source_lengths"])
        query = one_hot(_affiliation(batch), windows.shape[1]).to(windows.dtype)
        out = self.affiliation(query, self._positions(windows), windows, mask=places)
        return self._read(out.context, self._before(batch))

    def _placed(self, batch: text.Batch, real: Tensor) -> tuple[Tensor, Tensor]:
        """The aligner's log-probability of the right affiliations, and how often they are its first choice; both are
        sums."""
        windows, affiliations = self._windows(batch), _affiliation(batch)
        keys = self.aligner.remember(windows, mask=masks.lengths(batch["source_lengths"]))
        place, steps = windows.new_zeros(windows.shape[:2]), []
        for query, right in zip(self._before(batch).unbind(1), affiliations.unbind(1), strict=True):
            steps.append(self.aligner(query[:, None], keys, state=place, weights=True).weights[:, 0])
            place = one_hot(right, windows.shape[1]).to(windows.dtype)
        weights = torch.stack(steps, 1)[real]  # (N, S)
        probability = weights.gather(1, affiliations[real][:, None])[:, 0]
        log_prob = probability.clamp_min(torch.finfo(probability.dtype).tiny).log().sum()
        return log_prob, (weights.argmax(-1) == affiliations[real]).sum()

    def _windows(self, batch: text.Batch) -> Tensor:
        """(B, S, (2 radius + 1) embedding): the source words around each; bos before the first, eos behind the last."""
        source, radius = batch["source"], self.config.radius
        inside = torch.arange(source.shape[1], device=source.device) < batch["source_lengths"][:, None]
        tokens = pad(source.masked_fill(~inside, text.EOS), (radius, 0), value=text.BOS)
        tokens = pad(tokens, (0, radius), value=text.EOS)
        return self.dropout(self.source(tokens.unfold(1, 2 * radius + 1, 1)).flatten(2))

    def _before(self, batch: text.Batch) -> Tensor:
        """(B, T, history · embedding): the target words before each."""
        tokens = pad(text.inputs(batch), (self.config.history - 1, 0), value=text.BOS)
        return self.dropout(self.target(tokens.unfold(1, self.config.history, 1)).flatten(2))

    def _positions(self, windows: Tensor) -> Tensor:
        size = windows.shape[1]
        return torch.eye(size, dtype=windows.dtype, device=windows.device).expand(len(windows), size, size)

    def _read(self, window: Tensor, before: Tensor) -> Tensor:
        hidden = self.lower(torch.cat([window, before], -1)).tanh()
        return self.output(self.dropout(self.upper(self.dropout(hidden)).tanh()))


def _affiliation(batch: text.Batch) -> Tensor:
    if "affiliation" not in batch:
        raise ValueError(
            "nnjm learns from alignments: the task must give them, such as toy_grammar with alignments=true"
        )
    return batch["affiliation"]
