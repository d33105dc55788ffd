"""Small models with start and step, and slow searches that share nothing with the ones under test."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

import regard

BOS, EOS = 1, 2


class Prefixes(nn.Module):
    """Any distribution over short sequences: for each sentence and prefix, logits of their own.

    A prefix is numbered in base V. The alignment says for which prefix and which sentence it was made.
    """

    def __init__(self, table: Tensor):
        super().__init__()
        self.table, self.vocab = table, table.shape[-1]  # (sentences, prefixes, V)
        self.rows: list[int] = []
        self.eval()

    @classmethod
    def random(cls, seed: int, sentences: int = 1, vocab: int = 4, length: int = 4, scale: float = 2.0) -> Prefixes:
        generator = torch.Generator().manual_seed(seed)
        shape = (sentences, vocab**length, vocab)
        return cls(scale * torch.randn(shape, generator=generator, dtype=torch.float64))

    def batch(self, *sentences: int) -> dict[str, Tensor]:
        return {"sentence": torch.tensor(sentences or range(len(self.table)))}

    def start(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        sentence = batch["sentence"]
        return {"sentence": sentence, "prefix": torch.full_like(sentence, -1)}

    def step(self, token: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        self.rows.append(len(token))
        # Every prefix begins with a digit 1, so that 0 and 00 differ; the begin mark itself is that digit.
        prefix = torch.where(state["prefix"] < 0, 1, state["prefix"] * self.vocab + token)
        return self.table[state["sentence"], prefix % self.table.shape[1]], {**state, "prefix": prefix}

    def alignment(self, state: dict[str, Tensor]) -> Tensor:
        return torch.stack([state["sentence"], state["prefix"]], dim=1).double()

    def number(self, prefix: list[int]) -> int:
        code = 1
        for token in prefix:
            code = code * self.vocab + token
        return code

    def log_probs(self, sentence: int, prefix: list[int]) -> list[float]:
        return self.table[sentence, self.number(prefix) % self.table.shape[1]].log_softmax(-1).tolist()

    def log_prob(self, sentence: int, tokens: list[int], finished: bool = True) -> float:
        whole = [*tokens, EOS] if finished else tokens
        return sum(self.log_probs(sentence, whole[:t])[token] for t, token in enumerate(whole))


class Looking(nn.Module):
    """A decoder layer: self-attention over a cache that grows, attention to a source that does not."""

    def __init__(self, vocab: int = 11, dim: int = 8, positions: int = 32, ending: float = 0.0):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.place = nn.Parameter(torch.randn(positions, dim))
        self.source = nn.Embedding(vocab, dim)
        self.self_attention = regard.MultiHead(dim, 2)
        self.cross_attention = regard.MultiHead(dim, 2)
        self.out = nn.Linear(dim, vocab)
        nn.init.normal_(self.out.weight, std=1.0)
        nn.init.constant_(self.out.bias[EOS : EOS + 1], ending)
        self.double().eval()

    def start(self, batch):
        mask = regard.masks.lengths(batch["source_lengths"])
        return {"source": self.cross_attention.remember(self.source(batch["source"]), mask=mask), "cache": None, "t": 0}

    def step(self, token, state):
        x = (self.embed(token) + self.place[state["t"]])[:, None]
        old = state["cache"]
        cache = self.self_attention.remember(x) if old is None else old.append(x)
        x = x + self.self_attention(x, cache).context
        looked = self.cross_attention(x, state["source"])
        state = {**state, "cache": cache, "t": state["t"] + 1, "weights": looked.weights.mean(1)[:, 0]}
        return self.out(x + looked.context)[:, 0], state

    def alignment(self, state):
        return state["weights"]

    @torch.no_grad()
    def forced(self, batch: dict[str, Tensor], sentence: int, prefix: list[int]) -> tuple[Tensor, Tensor]:
        """Log-probabilities (T, V) and weights (T, S) of a prefix, without any cache."""
        tokens = torch.tensor([[BOS, *prefix]])
        x = self.embed(tokens) + self.place[: tokens.shape[1]]
        x = x + self.self_attention(x, mask=regard.masks.causal()).context
        key = self.source(batch["source"][sentence : sentence + 1])
        mask = regard.masks.lengths(batch["source_lengths"][sentence : sentence + 1])
        looked = self.cross_attention(x, key, mask=mask)
        return self.out(x + looked.context)[0].log_softmax(-1), looked.weights[0].mean(0)

    def log_probs(self, batch: dict[str, Tensor], sentence: int, prefix: list[int]) -> list[float]:
        return self.forced(batch, sentence, prefix)[0][-1].tolist()


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def every_sequence(model: Prefixes, sentence: int, length: int, alpha: float) -> list[tuple[float, list[int]]]:
    """All that end within ``length`` tokens, best first."""
    found, growing = [], [(0.0, list[int]())]
    for size in range(1, length + 1):
        grown = [
            (total + log_prob, [*tokens, token])
            for total, tokens in growing
            for token, log_prob in enumerate(model.log_probs(sentence, tokens))
        ]
        found += [(total / penalty(size, alpha), tokens[:-1]) for total, tokens in grown if tokens[-1] == EOS]
        growing = [(total, tokens) for total, tokens in grown if tokens[-1] != EOS]
    return sorted(found, key=lambda pair: -pair[0])


def slow_beam(log_probs, size: int, alpha: float, length: int) -> list[tuple[float, list[int], bool]]:
    """The beam of the definition, hypothesis by hypothesis and without an early stop: the finished, best first, or what
    was cut off if there are none."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    finished = []
    for t in range(1, length + 1):
        grown = [(total + p, [*tokens, y]) for total, tokens in live for y, p in enumerate(log_probs(tokens))]
        grown = sorted((pair for pair in grown if pair[0] > -math.inf), key=lambda pair: -pair[0])
        kept = grown[: size - len(finished)]
        finished += [(total / penalty(t, alpha), tokens[:-1], True) for total, tokens in kept if tokens[-1] == EOS]
        live = [(total, tokens) for total, tokens in kept if tokens[-1] != EOS]
    cut = [(total / penalty(length, alpha), tokens, False) for total, tokens in live]
    return sorted(finished or cut, key=lambda found: -found[0])
