"""Greedy, beam and random search: one loop, in which only the choice of the next tokens differs.

B sentences have up to K hypotheses each. The model sees only those that are still growing, as N ≤ B·K rows: one per
sentence at first, fewer as hypotheses end. What is known of all B·K places is small and stays in (B, K) tensors on the
device; one copy a step tells the loop how to go on.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from regard.decode.states import Rows, Writer
from regard.decode.tree import Choice, Hypothesis, Tree
from regard.kernels import vocabulary

_NEVER = float("-inf")


@torch.no_grad()
def greedy(
    model: Writer, batch: Any, *, max_length: int | Tensor, bos: int = 1, eos: int = 2, alignments: bool = True
) -> list[list[Hypothesis]]:
    """The likeliest next token at every step: for each sentence a list of one hypothesis.

    Arguments as for :func:`beam`; this gives what a beam of one gives.
    """
    if _is_empty(batch):
        return []
    search = _Search(model, batch, 1, max_length, bos, eos, alignments)
    return search.run(_Likeliest(search))


@torch.no_grad()
def beam(
    model: Writer,
    batch: Any,
    *,
    size: int = 5,
    length_penalty: float = 0.6,
    nbest: int = 1,
    max_length: int | Tensor,
    bos: int = 1,
    eos: int = 2,
    alignments: bool = True,
) -> list[list[Hypothesis]]:
    """The best hypotheses that a beam finds: for each sentence at most ``nbest``, best first.

    At every step the likeliest continuations are kept; one that ends leaves the beam and makes it narrower (Sutskever
    et al. 2014, arXiv:1409.3215, section 3.2). Hypotheses Y, the end counted, are ranked by log p(Y) / lp(Y) with
    lp(Y) = ((5 + |Y|) / 6)^α (Wu et al. 2016, arXiv:1609.08144, equation 14). A sentence is done when none of its
    hypotheses could still come among the ``nbest``, however long it grew: stopping early never changes the result.

    Args:
        model: see :class:`Writer`; in evaluation mode.
        batch: what ``model.start`` takes.
        size: hypotheses per sentence.
        length_penalty: α; 0 ranks by the log-probability, which favours short ones.
        nbest: hypotheses returned per sentence, at most ``size``.
        max_length: the most tokens that are predicted, the end among them; one number or one per sentence, (B,). A
            hypothesis that has not ended by then is returned only if none of its sentence has.
        bos: the token fed first, unless the model has a ``first``.
        eos: the token that ends a hypothesis.
        alignments: keep the weights over the source; if False, the model's ``alignment`` is not called.
    """
    _check(size >= 1, f"size, the number of hypotheses per sentence, is at least 1, not {size}")
    _check(1 <= nbest <= size, f"nbest lies between 1 and the size of the beam, {size}, not {nbest}")
    if _is_empty(batch):
        return []
    search = _Search(model, batch, size, max_length, bos, eos, alignments)
    return search.run(_Best(search, length_penalty, nbest))


@torch.no_grad()
def sample(
    model: Writer,
    batch: Any,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    samples: int = 1,
    max_length: int | Tensor,
    bos: int = 1,
    eos: int = 2,
    alignments: bool = True,
    generator: torch.Generator | None = None,
) -> list[list[Hypothesis]]:
    """Random hypotheses: for each sentence ``samples`` independent ones, in the order drawn.

    ``log_prob`` and ``score`` are those of the model itself, whatever the temperature and the cuts.

    Args:
        model: see :class:`Writer`; in evaluation mode.
        batch: what ``model.start`` takes.
        temperature: logits are divided by it; less than 1 is more careful.
        top_k: draw only among the k likeliest tokens.
        top_p: draw only among the fewest likeliest tokens that have this probability together (Holtzman et al. 2019,
            arXiv:1904.09751), counted after temperature and ``top_k``. Faster with ``top_k``.
        samples: hypotheses per sentence.
        max_length: as for :func:`beam`, but what is cut off is always returned.
        bos: the token fed first, unless the model has a ``first``.
        eos: the token that ends a hypothesis.
        alignments: keep the weights over the source.
        generator: of the model's device; torch's own if None.
    """
    _check(temperature > 0, f"temperature is more than 0, not {temperature}; at 0 it would be decode.greedy")
    _check(top_k is None or top_k >= 1, f"top_k is at least 1, or None for all tokens, not {top_k}")
    _check(top_p is None or 0 < top_p <= 1, f"top_p is a probability above 0, or None, not {top_p}")
    _check(samples >= 1, f"samples per sentence are at least 1, not {samples}")
    if _is_empty(batch):
        return []
    search = _Search(model, batch, samples, max_length, bos, eos, alignments)
    return search.run(_Drawn(search, temperature, top_k, top_p, generator))


class _Search:
    """The loop, and what every choice needs to know: which hypothesis stands in which row."""

    def __init__(
        self, model: Writer, batch: Any, width: int, max_length: int | Tensor, bos: int, eos: int, alignments: bool
    ):
        self.rows = Rows(model, batch)
        self.token = model.first(batch) if hasattr(model, "first") else None  # (B,), fed first
        self.count, self.device, self.width = self.rows.count, self.rows.device, width
        self.limit = _limits(max_length, self.count, self.device)  # (B, 1)
        self.shortest = int(self.limit.min())
        self.bos, self.eos, self.alignments = bos, eos, alignments
        self.tree = Tree()
        self.first = width * torch.arange(self.count, device=self.device)[:, None]  # (B, 1), a sentence's first place
        self.place = self.first.flatten()  # (N,), of the hypothesis in each row
        self.places = self.first + torch.arange(width, device=self.device)  # (B, K)
        self.nowhere = torch.zeros_like(self.places, dtype=torch.bool)
        self.total = torch.zeros(self.count * width, device=self.device)  # (B·K,), log-probabilities

    @property
    def full(self) -> bool:
        """Do all B·K hypotheses still grow?"""
        return len(self.place) == self.places.numel()

    def run(self, strategy: _Best | _OneEach) -> list[list[Hypothesis]]:
        """Step until nothing grows any more."""
        token = torch.full((self.count,), self.bos, device=self.device) if self.token is None else self.token
        for length in range(1, int(self.limit.max()) + 1):
            logits = self.rows.step(token)
            alignment = self.rows.alignment() if self.alignments else None
            choice = strategy.choose(logits)
            if self._stays(choice, length):
                self.tree.grow(choice, self.places, self.nowhere, alignment)
                self.total, token = choice.log_prob.flatten(), choice.token.flatten()
                continue
            alive = choice.log_prob > _NEVER
            ended = alive & (choice.token == self.eos)
            cut = alive & ~ended & (self.limit <= length)
            growing = alive & ~(ended | cut | strategy.done(length, choice, ended))

            place, count = self.place, len(self.place)
            number = torch.arange(count, device=self.device)
            row = place.new_zeros(self.count * self.width).index_copy_(0, place, number)[choice.parent]
            self.tree.grow(choice, row, ended | cut, alignment)

            # In the order of their parents, hypotheses that all go on stay where they are. Those that do not come last.
            index, order = torch.where(growing, row, count).flatten().sort(stable=True)
            moved = (index[:count] != number).any()
            mixed = (order[:count] // self.width != place // self.width).any()
            has_nan = choice.log_prob.isnan().any()
            remaining, moved, mixed, has_nan = torch.stack([growing.sum(), moved, mixed, has_nan]).tolist()
            if has_nan:
                raise ValueError(_complaint(logits, place // self.width, length))
            if not remaining:
                break
            self.place, self.total = order[:remaining], choice.log_prob.flatten()
            token = choice.token.flatten()[self.place]
            if moved or remaining != count:
                self.rows.select(index[:remaining], same_sentences=remaining == count and not mixed)
        return strategy.pick()

    def _stays(self, choice: Choice, length: int) -> bool:
        """Do all hypotheses go on in their places, as at most steps of a search that does not compare them?"""
        if choice.parent is not self.places or length >= self.shortest:
            return False
        return not ((choice.token == self.eos) | choice.log_prob.isnan()).any()


class _Best:
    """Of all continuations of a sentence, the likeliest: as many as the beam has room for."""

    def __init__(self, search: _Search, penalty: float, nbest: int):
        self.search, self.penalty = search, penalty
        self.room = torch.full_like(search.first, search.width)  # (B, 1)
        self.record = torch.full((search.count, nbest), _NEVER, device=search.device)  # the best finished scores

    def choose(self, logits: Tensor) -> Choice:
        """The hypotheses of the next step, from the logits (N, V) of the rows."""
        search = self.search
        log_prob, token = _likeliest(logits, min(search.width, logits.shape[-1]))  # (N, k)
        log_prob = log_prob + search.total[search.place, None]
        best, which = self._by_sentence(log_prob, _NEVER).topk(search.width)  # (B, K) of (B, K·k)
        best = best.masked_fill(torch.arange(search.width, device=best.device) >= self.room, _NEVER)
        return Choice(best, self._by_sentence(token, 0).gather(1, which), search.first + which // token.shape[1])

    def done(self, length: int, choice: Choice, ended: Tensor) -> Tensor:
        """(B, 1): sentences of which no growing hypothesis can come among the best any more."""
        score = choice.log_prob / self._divisor(length)
        self.room = self.room - ended.sum(dim=1, keepdim=True)
        self.record = torch.cat([self.record, score.where(ended, _NEVER)], dim=1).topk(self.record.shape[1]).values
        # A log-probability is negative and only falls, so that the greatest divisor is the best that can happen.
        limit = self.search.limit.to(score.dtype)
        divisor = self._divisor(limit).clamp_min(self._divisor(length + 1))
        bound = choice.log_prob.masked_fill(ended, _NEVER).amax(dim=1, keepdim=True) / divisor
        return bound <= self.record[:, -1:]

    def pick(self) -> list[list[Hypothesis]]:
        """The best that have ended; those cut off only where there is no other."""
        tree, width = self.search.tree, self.search.width
        end, finished = tree.end, tree.token == self.search.eos
        any_finished = (end & finished).any(dim=2, keepdim=True).any(dim=0, keepdim=True)
        length = torch.arange(1, len(end) + 1, device=end.device, dtype=tree.log_prob.dtype)
        score = tree.log_prob / self._divisor(length)[:, None, None]
        score = score.where(end & (finished | ~any_finished), _NEVER)  # (T, B, K)
        score = score.transpose(0, 1).flatten(1)
        best, which = score.topk(min(self.record.shape[1], score.shape[1]))
        return tree.hypotheses(which // width, which % width, best, self.search.eos)

    def _by_sentence(self, values: Tensor, fill: float) -> Tensor:
        """(N, k), a row for each growing hypothesis → (B, K·k)."""
        search = self.search
        spread = values.new_full((search.count * search.width, values.shape[1]), fill)
        return spread.index_copy_(0, search.place, values).view(search.count, -1)

    def _divisor(self, length: Any) -> Any:
        return ((5 + length) / 6) ** self.penalty


class _OneEach:
    """For every hypothesis one continuation, which stays in its place."""

    def __init__(self, search: _Search):
        self.search = search

    def next(self, logits: Tensor, draws: int) -> tuple[Tensor, Tensor]:
        """Log-probabilities and tokens (N, draws) that follow each row."""
        raise NotImplementedError

    def choose(self, logits: Tensor) -> Choice:
        """The hypotheses of the next step, from the logits (N, V) of the rows."""
        search = self.search
        shape = (search.count, search.width)
        draws = 1 if search.tree.choices else search.width  # at first one row serves all samples of its sentence
        log_prob, token = self.next(logits, draws)
        if search.full:
            return Choice(log_prob.reshape(shape) + search.total.view(shape), token.reshape(shape), search.places)
        value = log_prob + search.total[search.place, None]
        parent = search.place[:, None].expand(-1, draws)
        place = (parent + torch.arange(draws, device=parent.device)).flatten()
        return Choice(
            value.new_full(shape, _NEVER).flatten().index_copy_(0, place, value.flatten()).view(shape),
            token.new_zeros(shape).flatten().index_copy_(0, place, token.flatten()).view(shape),
            token.new_zeros(shape).flatten().index_copy_(0, place, parent.flatten()).view(shape),
        )

    def done(self, length: int, choice: Choice, ended: Tensor) -> Tensor:
        """(B, 1): no sentence; every hypothesis goes on to its own end."""
        return torch.zeros_like(self.search.first, dtype=torch.bool)

    def pick(self) -> list[list[Hypothesis]]:
        """All of them; in each slot one hypothesis has ended."""
        tree = self.search.tree
        last = tree.end.int().argmax(dim=0)  # (B, K)
        slot = torch.arange(self.search.width, device=last.device).expand_as(last)
        return tree.hypotheses(last, slot, tree.log_prob.gather(0, last[None])[0], self.search.eos)


class _Likeliest(_OneEach):
    """The likeliest one."""

    def next(self, logits: Tensor, draws: int) -> tuple[Tensor, Tensor]:
        return _likeliest(logits, 1)


class _Drawn(_OneEach):
    """A random one."""

    def __init__(
        self,
        search: _Search,
        temperature: float,
        top_k: int | None,
        top_p: float | None,
        generator: torch.Generator | None,
    ):
        super().__init__(search)
        self.temperature, self.top_k, self.generator = temperature, top_k, generator
        self.top_p = None if top_p == 1 else top_p

    def next(self, logits: Tensor, draws: int) -> tuple[Tensor, Tensor]:
        log_prob = _log_softmax(logits)
        token = self._draw(log_prob, draws)
        return log_prob.gather(1, token), token

    def _draw(self, log_prob: Tensor, draws: int) -> Tensor:
        """Tokens (N, draws)."""
        scores, token = log_prob, None
        if self.top_k is not None:
            scores, token = _top(scores, min(self.top_k, scores.shape[-1]))
        elif self.top_p is not None:
            scores, token = scores.sort(dim=-1, descending=True)
        # The greatest becomes 0, which no temperature makes infinite.
        probabilities = (scores - scores.amax(dim=-1, keepdim=True)).div_(self.temperature).softmax(dim=-1)
        if self.top_p is not None:
            probabilities = probabilities.masked_fill(probabilities.cumsum(dim=-1) - probabilities >= self.top_p, 0.0)
        cumulative = probabilities.cumsum(dim=-1)
        threshold = torch.rand(
            len(cumulative), draws, generator=self.generator, device=cumulative.device, dtype=cumulative.dtype
        )
        # The first above the threshold has a probability. (Only NaN leads beyond the last.)
        index = torch.searchsorted(cumulative, threshold * cumulative[:, -1:], right=True).clamp_max(
            cumulative.shape[1] - 1
        )
        return index if token is None else token.gather(1, index)


def _log_softmax(logits: Tensor) -> Tensor:
    """In single precision at least, because a hypothesis adds up many."""
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def _likeliest(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k greatest log-probabilities of each row (N, V), greatest first, and their tokens."""
    return vocabulary.likeliest(logits, k) if vocabulary.fits(logits) else _top(_log_softmax(logits), k)


def _top(values: Tensor, k: int, group: int = 64) -> tuple[Tensor, Tensor]:
    """The k greatest of each row (N, V), greatest first, and where they are.

    They lie in the k groups with the greatest maxima. Looking for those first reads the vocabulary once, at the speed
    of a maximum, and is several times as fast as a top-k over all of it.
    """
    groups = values.shape[1] // group
    if groups < 4 * k:
        return values.topk(k)
    grouped = values[:, : groups * group].unflatten(1, (groups, group))
    group_numbers = grouped.amax(dim=-1).topk(k, sorted=False).indices  # (N, k)
    rows = torch.arange(len(values), device=values.device)[:, None]
    rest = values[:, groups * group :]
    # The columns that fill no group count as one group more, though a smaller one.
    greatest, index = torch.cat([grouped[rows, group_numbers].flatten(1), rest], dim=1).topk(k)
    group_numbers = torch.cat([group_numbers, group_numbers.new_full((len(group_numbers), 1), groups)], dim=1)
    return greatest, group_numbers.gather(1, index // group) * group + index % group


def _limits(max_length: int | Tensor, count: int, device: torch.device) -> Tensor:
    """(B, 1)."""
    if not isinstance(max_length, Tensor):
        max_length = torch.full((count,), max_length, device=device)
    _check(
        max_length.shape == (count,) and not max_length.dtype.is_floating_point and max_length.dtype != torch.bool,
        f"max_length is a whole number or a tensor of {count}, one for each sentence, not "
        f"{tuple(max_length.shape)} of {max_length.dtype}",
    )
    _check(int(max_length.min()) >= 1, f"max_length is at least 1, not {int(max_length.min())}")
    return max_length.to(device)[:, None]


def _is_empty(batch: Any) -> bool:
    """Has the batch no sentence? A model might not know how to start with none."""
    tensors = [leaf for leaf in tree_leaves(batch) if isinstance(leaf, Tensor)]
    return bool(tensors) and all(leaf.shape[:1] == (0,) for leaf in tensors)


def _complaint(logits: Tensor, sentence: Tensor, length: int) -> str:
    """What is wrong with logits whose softmax is NaN."""
    bad = ~logits.logsumexp(dim=-1).isfinite()
    row = logits[bad][0]
    what = "NaN" if row.isnan().any() else "+inf" if row.isposinf().any() else "only −inf"
    where = ", ".join(map(str, sentence[bad].unique().tolist()[:8]))
    return f"the model gave {what} among its logits at step {length}, for sentence {where} of the batch"


def _check(right: bool, message: str) -> None:
    if not right:
        raise ValueError(message)
