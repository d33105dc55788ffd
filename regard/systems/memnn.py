"""MemNN: memory networks that fetch one fact at a time, trained with the supporting facts of each answer.

Weston, Chopra & Bordes 2014, *Memory Networks* (arXiv:1410.3916), sections 3.1 and 3.4; stopping as in Weston et al.
2015 (arXiv:1502.05698). In the paper's letters, with bags of words Φ:

    I, G   each sentence is stored as it is
    O      o₁ = argmaxᵢ s_O(x, mᵢ),  o₂ = argmaxᵢ s_O([x, m_o₁], mᵢ), …
    R      r = argmax_w s_R([x, m_o₁, m_o₂], w)
    s(x, y) = Φx(x)ᵀ Uᵀ U Φy(y)              query U Φx(x), key U Φy(m), value m, dot score, argmax
    s_Ot(x, y, y') = Φx(x)ᵀ Uᵀ U (Φy(y) − Φy(y') + Φt(x, y, y'))       with write times

Words have separate columns of U for each role: in the question, in the fact fetched at hop h, in a sentence that is
compared. Times compare two memories, so that the best one is determined by a tournament: from the oldest sentence on, a
newer one takes over where s_Ot > 0. Of the three bits of Φt two are left, because the score here is antisymmetric,
s_Ot(x, y, y') = −s_Ot(x, y', y): which of the two is newer, as ±1, and whether each is newer than the fact fetched
before. From the second hop on, an empty memory older than all others can be fetched, which ends the search, so that one
model serves questions with fewer facts.

Training feeds the true facts, with a hinge loss of margin γ over all other memories, and over all other answers, where
the paper samples them:

    Σ_{f ≠ m_oₕ} max(0, γ − s_Ot([x, m_o₁ …], m_oₕ, f)) + Σ_{w ≠ r} max(0, γ − s_R(…, r) + s_R(…, w))

Batch: as for MemN2N, and ``support`` (B, G, H), the place of each fact in ``story`` in the order of reasoning; −1 where
there are no more, −2 for one that the memory has lost. The G tasks have weights of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

import regard
from regard.layers.use import Use
from regard.parts import Normalizer


@dataclass(frozen=True)
class Config:
    """Sizes and choices."""

    words: tuple[int, ...]
    """Words of each task, the null word 0 included."""
    memory: tuple[int, ...]
    """Sentences that each task's memory holds."""
    hops: int = 2
    """Facts to fetch at most."""
    dim: int = 50
    margin: float = 0.1
    time: bool = True
    """Are write times compared too?"""

    def __post_init__(self) -> None:
        for name in ("words", "memory"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.words or len(self.words) != len(self.memory):
            raise ValueError(f"{len(self.words)} sizes of vocabularies for {len(self.memory)} sizes of memories")
        if min(self.hops, self.dim) < 1 or self.margin <= 0.0:
            raise ValueError(f"hops = {self.hops} and dim = {self.dim} are at least 1, margin = {self.margin} positive")


class Tournament(Normalizer):
    """One key per query: from the last key (the oldest) to the first, each takes over whose score, raised by ``newer``
    (…, T), is above that of the best so far. With ``newer`` = 0 this is the argmax. No gradient."""

    equation = "one-hot(i): eᵢ + n > eⱼ for the winner j before i"
    paper = "Weston 2014"
    needs = ("newer",)
    positional = True

    def forward(self, scores: Tensor, mask: Tensor | None, newer: Tensor) -> Tensor:  # type: ignore[override]
        allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
        best = torch.zeros_like(newer)
        winner = torch.full_like(newer, -1, dtype=torch.long)
        for place in reversed(range(scores.shape[-1])):
            score = scores[..., place].detach()
            wins = allowed[..., place] & ((winner < 0) | (score + newer.detach() > best))
            best = torch.where(wins, score, best)
            winner = torch.where(wins, place, winner)
        weights = one_hot(winner.clamp(min=0), max(scores.shape[-1], 1))[..., : scores.shape[-1]]
        return (weights * (winner >= 0)[..., None]).to(scores.dtype)


class _Hops(NamedTuple):
    """Of each hop: hinge loss (B, G); place (B, G) of the fact, S for the empty memory; its bag of words (B, G, V)."""

    losses: list[Tensor]
    places: list[Tensor]
    facts: list[Tensor]


class MemNN(nn.Module):
    """Hops that each fetch one fact; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "attention": Use(
            *("question and facts U Φx", "sentences U Φy", "sentences m", "dot", "tournament"),
            rows="hops",
            columns="sentences",
        ),
    }
    foreign: Tensor

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.words = max(config.words)
        tasks = len(config.words)

        def table(*leading: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*leading, tasks, self.words - 1, config.dim))

        self.asked, self.compared = table(), table()
        self.found = table(config.hops - 1) if config.hops > 1 else None
        self.empty = nn.Parameter(torch.empty(tasks, config.dim)) if config.hops > 1 else None
        self.times = nn.Parameter(torch.empty(tasks, 2, config.dim)) if config.time else None
        self.asked_answer, self.answers = table(), table()
        self.found_answer = table(config.hops)
        self.attention = regard.Attention("dot", Tournament())
        foreign = torch.arange(self.words) >= torch.tensor(config.words)[:, None]
        foreign[:, 0] = True
        self.register_buffer("foreign", foreign, persistent=False)  # (G, V)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """N(0, 0.1²)."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.1)

    def forward(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The loss of a batch, summed over the tasks. ``error`` and ``retrieval`` (share of facts fetched right) are
        measured with true facts in training, and with the model's own in evaluation."""
        self._check(batch)
        support, answer = batch["support"], batch["answer"]
        if not bool((support >= 0).any()) and bool((answer >= 0).any()):
            raise ValueError("MemNN learns from supporting facts, and no question of this batch names any")
        sentences = batch["story"].shape[2]
        facts = pad(support, (0, max(0, self.config.hops - support.shape[-1])), value=-1)[..., : self.config.hops]
        story, question = self._bags(batch["story"]), self._bags(batch["question"])
        exists = (batch["story"] > 0).any(-1)
        gold = torch.where(facts == -1, sentences, facts)  # no more facts: the empty memory
        taught = self._search(story, question, exists, gold)
        scores = self._respond(question, taught.facts)  # (B, G, V)
        answered = answer > 0
        right = scores.gather(-1, answer.clamp(min=0)[..., None])
        others = self.foreign | one_hot(answer.clamp(min=0), self.words).bool()
        hinge = (self.config.margin - right + scores).clamp(min=0).masked_fill(others, 0.0).sum(-1)
        losses = [torch.where(answered, hinge, 0.0), *(torch.where(answer >= 0, loss, 0.0) for loss in taught.losses)]
        total = torch.stack(losses).sum(0)

        shown = taught if self.training else self._search(story, question, exists)
        with torch.no_grad():
            answers = self._choose(scores if self.training else self._respond(question, shown.facts))
            wrong = (answers != answer) & (answer >= 0)
            fetched, real = torch.stack(shown.places, -1), (facts >= 0) & (answer >= 0)[..., None]
            share = ((fetched == gold) & real).sum(-1) / real.sum(-1).clamp(min=1)
            retrieved = torch.where(real.any(-1), share, (answer >= 0).to(share.dtype))
        count = (answer >= 0).sum()
        units = count.clamp(min=1)
        means = {"error": wrong.sum() / units, "retrieval": retrieved.sum() / units}
        return {"loss": total.sum() / units * answer.shape[1], "count": count, "hinge": total.sum() / units, **means}

    @torch.no_grad()
    def predict(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """``answer`` (B, G), and ``weights`` (B, G, hops, S), 1 for the sentence that a hop fetched."""
        self._check(batch)
        sentences = batch["story"].shape[2]
        story, question = self._bags(batch["story"]), self._bags(batch["question"])
        hops = self._search(story, question, (batch["story"] > 0).any(-1))
        places = torch.stack(hops.places, -1)  # (B, G, hops)
        weights = one_hot(places, sentences + 1)[..., :sentences].to(self.asked.dtype)
        return {"answer": self._choose(self._respond(question, hops.facts)), "weights": weights}

    @torch.no_grad()
    def pick(self, tasks: Sequence[int]) -> MemNN:
        """A smaller model, for these tasks."""
        words, memory = (tuple(sizes[task] for task in tasks) for sizes in (self.config.words, self.config.memory))
        small = MemNN(replace(self.config, words=words, memory=memory)).to(self.asked)
        state = self.state_dict()
        for name, tensor in small.state_dict().items():  # (…, G, rows, n) or (G, n)
            rows = state[name].index_select(max(tensor.ndim - 3, 0), torch.tensor(tasks, device=tensor.device))
            tensor.copy_(rows[tuple(map(slice, tensor.shape))])
        return small.train(self.training)

    def _check(self, batch: Mapping[str, Tensor]) -> None:
        story = batch["story"]
        if story.ndim != 4 or story.shape[1] != len(self.config.words):
            raise ValueError(
                f"story is (B, tasks, S, J) and this model has {len(self.config.words)} tasks, not {tuple(story.shape)}"
            )

    def _search(self, story: Tensor, question: Tensor, exists: Tensor, gold: Tensor | None = None) -> _Hops:
        """Fetch one fact after the other, or follow the true ones ``gold`` (B, G, hops) and measure the margins."""
        keys = _embed(story, self.compared)  # (B, G, S, n)
        story = pad(story, (0, 0, 0, 1))  # the empty memory has no words
        empty = keys.new_zeros(1, 1, 1, keys.shape[-1]) if self.empty is None else self.empty[None, :, None]
        keys = torch.cat([keys, empty.expand(*keys.shape[:2], 1, -1)], -2)
        place = torch.arange(story.shape[-2], device=story.device)
        query = _embed(question, self.asked)[..., None, :]  # (B, G, 1, n)
        last = torch.full(exists.shape[:2], -1, device=story.device)  # the question is newer than any sentence
        hops = _Hops([], [], [])
        for hop in range(self.config.hops):
            bits = query.new_zeros(*query.shape[:-1], 2) if self.times is None else query @ self.times.mT
            after = (place < last[..., None]).to(keys.dtype)[..., None]
            mask = pad(exists, (0, 1), value=hop > 0)[:, :, None]
            newer = bits[..., 1]
            out = self.attention(
                torch.cat([query, bits[..., :1]], -1), torch.cat([keys, after], -1), story, mask=mask, newer=newer
            )
            weights, scores = out.weights, out.scores
            assert weights is not None and scores is not None
            here = weights.argmax(-1)[..., 0]
            here = torch.where(weights.any(-1)[..., 0], here, len(place) - 1)
            hops.places.append(here)
            if gold is not None:
                here = gold[..., hop]
                hops.losses.append(self._hinge(scores[..., 0, :], newer, mask[..., 0, :], here))
            index = here.clamp(min=0)[..., None, None].expand(*here.shape, 1, story.shape[-1])
            fact = torch.where((here >= 0)[..., None], story.gather(-2, index)[..., 0, :], 0.0)
            if gold is None and hop:  # once stopped, a search stays so
                done = last == len(place) - 1
                hops.places[-1] = torch.where(done, last, here)
                fact = torch.where(done[..., None], 0.0, fact)
            hops.facts.append(fact)
            last = torch.where(here >= 0, hops.places[-1] if gold is None else here, last)
            if self.found is not None and hop < self.config.hops - 1:
                query = query + _embed(fact, self.found[hop])[..., None, :]
        return hops

    def _hinge(self, scores: Tensor, newer: Tensor, mask: Tensor, gold: Tensor) -> Tensor:
        """(B, G): how far the true fact is from beating every other memory by the margin."""
        right = gold.clamp(min=0)[..., None]
        place = torch.arange(scores.shape[-1], device=scores.device)
        ahead = scores.gather(-1, right) - scores + newer * (place - right).sign()  # a larger place is older
        loss = (self.config.margin - ahead).clamp(min=0)
        return loss.masked_fill(~mask | (place == right) | (gold < 0)[..., None], 0.0).sum(-1)

    def _respond(self, question: Tensor, facts: list[Tensor]) -> Tensor:
        """(B, G, V): the score of each word as an answer."""
        query = _embed(question, self.asked_answer)
        for fact, table in zip(facts, self.found_answer):
            query = query + _embed(fact, table)
        scores = query.transpose(0, 1) @ self.answers.mT  # (G, B, V − 1)
        return pad(scores.transpose(0, 1), (1, 0))

    def _choose(self, scores: Tensor) -> Tensor:
        return scores.masked_fill(self.foreign, -torch.inf).argmax(-1)

    def _bags(self, ids: Tensor) -> Tensor:
        """(…, J) → (…, V), how often each word occurs."""
        counts = self.asked.new_zeros(*ids.shape[:-1], self.words)
        return counts.scatter_add_(-1, ids, counts.new_ones(()).expand(ids.shape))


def _embed(bags: Tensor, table: Tensor) -> Tensor:
    """(B, G, …, V) by each task's (G, V − 1, n) → (B, G, …, n). Word 0, the padding, counts for nothing."""
    by_task = bags[..., 1:].transpose(0, 1)
    return (by_task.flatten(1, -2) @ table).unflatten(1, by_task.shape[1:-1]).transpose(0, 1)
