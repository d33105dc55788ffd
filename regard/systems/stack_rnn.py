"""Stack RNN: a recurrent network whose memory is a few stacks.

Joulin & Mikolov 2015, *Inferring Algorithmic Patterns with Stack-Augmented Recurrent Nets* (arXiv:1503.01007).

A stack is a column of numbers, −1 where it is empty. What happens to it in a step is a soft choice between actions, and
that is attention: the actions are the keys, and the value of each is the stack as the action would leave it.

    hₜ = σ(U xₜ + R hₜ₋₁ + P sₜ₋₁[0:k])               the k topmost elements of every stack
    aₜ = softmax(A hₜ)                                 query A hₜ, keys the actions
    sₜ = aₜ[PUSH] [σ(D hₜ); sₜ₋₁] + aₜ[POP] sₜ₋₁[1:] + aₜ[NO-OP] sₜ₋₁      value: the stack after each action
    p(xₜ₊₁) = softmax(V hₜ)

``structure = "list"`` is the paper's List RNN: a head on a list of numbers, INSERT before it, or move LEFT or RIGHT
(section 3.3). With ``rounding`` the best action is taken alone when the model is not in training, as the paper does in
its tests, so that a count of sixty is as exact as one of six. ``recurrent`` is R; the paper leaves it out for counting,
so that all memory is in the stacks.

Whether a network learns to count depends on its initialization, and the paper tries many. Here ``restarts`` networks
learn side by side from the same strings. The one that answers has the lowest recent loss on the determined symbols of
its training, measured with rounding: many networks count right only without it.

Deviations: A, D and V have biases. Several examples are trained together, with another optimizer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

import regard
from regard._lazy import nearest
from regard._settings import at_least
from regard.layers.restarts import Linears
from regard.layers.use import Use
from regard.normalizers import Hard, Softmax
from regard.scores import Dot

Batch = dict[str, Tensor]
ACTIONS = {"stack": ("push", "no-op", "pop"), "list": ("left", "insert", "right", "no-op")}
EMPTY = -1.0
EVERY, LATELY = 10, 0.1  # every Nth batch compares the restarts; the share of the new loss in the moving mean


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's for counting.

    Attributes:
        symbols: size of the alphabet.
        hidden: units of the network.
        stacks: how many stacks, or lists.
        tops: k, the topmost elements of each that the network sees.
        depth: the most elements of a stack; a deeper one loses its bottom.
        structure: ``stack`` or ``list``.
        no_op: is doing nothing an action?
        recurrent: does the network have a memory of its own, R?
        rounding: take the best action alone when not in training?
        restarts: how many networks learn side by side.
    """

    symbols: int
    hidden: int = 40
    stacks: int = 10
    tops: int = 2
    depth: int = 200
    structure: str = "stack"
    no_op: bool = False
    recurrent: bool = False
    rounding: bool = True
    restarts: int = 1

    def __post_init__(self) -> None:
        if self.structure not in ACTIONS:
            raise ValueError(f"no structure is called {self.structure!r}: {nearest(self.structure, ACTIONS)}")
        at_least(self, "symbols", "hidden", "stacks", "tops", "depth", "restarts")


VARIANTS: dict[str, dict[str, Any]] = {"list": {"structure": "list", "stacks": 5}}


class StackRNN(nn.Module):
    """The network, its stacks and its actions; see the module's docstring.

    A batch has ``symbols`` (B, T + 1) and ``known`` (B, T), 1 where symbol t + 1 is determined by those before it.
    """

    uses: ClassVar[dict[str, Use]] = {
        "actions": Use("choice A hₜ", "actions", "the stack after each action", "dot", rows="steps", columns="actions"),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.names = tuple(name for name in ACTIONS[config.structure] if config.no_op or name != "no-op")
        """The actions in the order of the keys."""
        hidden, stacks, restarts = config.hidden, config.stacks, config.restarts
        self.input = nn.Parameter(torch.randn(restarts, config.symbols, hidden))
        self.tops = Linears(restarts, stacks * config.tops, hidden)
        self.recurrent = Linears(restarts, hidden, hidden, bias=False) if config.recurrent else None
        self.choice = Linears(restarts, hidden, stacks * len(self.names))
        self.element = Linears(restarts, hidden, stacks)
        self.output = Linears(restarts, hidden, config.symbols)
        self.actions = regard.Attention(Dot())
        self.cost: Tensor
        self.register_buffer("cost", torch.full((restarts,), 10.0))
        """Moving mean of the loss of each restart on determined symbols, with rounding."""
        self.batches: Tensor
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))
        self.train()

    def train(self, mode: bool = True) -> Self:
        """Actions are rounded in evaluation only."""
        super().train(mode)
        self._round(self.config.rounding and not mode)
        return self

    def _round(self, rounding: bool) -> None:
        self.actions.normalizer = Hard("argmax") if rounding else Softmax()

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Per symbol: the loss, in training the sum over restarts; and ``errors``, the share of symbols that were
        determined but not predicted by the chosen restart."""
        symbols, determined = batch["symbols"], batch["known"]
        if self.training:
            self._compare(symbols, determined)
        restarts = range(self.config.restarts) if self.training else [self.chosen()]
        logits, target = self._run(symbols[:, :-1], slice(restarts[0], restarts[-1] + 1))[0], symbols[:, 1:]
        count = torch.tensor(target.numel(), device=target.device)
        nll = _nll(logits, target)
        best = logits[restarts.index(self.chosen())].argmax(-1)
        errors = ((best != target) * determined).sum()
        return {
            "loss": nll.sum() / count.clamp(min=1),
            "count": count,
            "errors": errors / count.clamp(min=1),
        }

    @torch.no_grad()
    def _compare(self, symbols: Tensor, determined: Tensor) -> None:
        """Every ``EVERY`` batches, update the moving mean of each restart's loss."""
        if self.config.restarts > 1 and int(self.batches) % EVERY == 0:
            self._round(self.config.rounding)
            nll = _nll(self._run(symbols[:, :-1], slice(None))[0], symbols[:, 1:])
            self.cost.lerp_((nll * determined).sum((1, 2)) / determined.sum().clamp(min=1), LATELY)
            self._round(False)
        self.batches += 1

    def chosen(self) -> int:
        """The restart that answers."""
        return int(self.cost.argmin())

    @torch.no_grad()
    def predict(self, batch: Batch) -> Tensor:
        """(B, T): the likeliest symbol after each of the first T."""
        return self.run(batch["symbols"][:, :-1])[0].argmax(-1)

    def run(self, symbols: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T) → logits of the next symbol, (B, T, symbols), and the tops of all stacks, (B, T, stacks, tops)."""
        logits, tops = self._run(symbols, slice(self.chosen(), self.chosen() + 1))
        return logits[0], tops[0]

    def _run(self, symbols: Tensor, which: slice) -> tuple[Tensor, Tensor]:
        """As :meth:`run`, of several restarts: (R, …)."""
        config, (batch, time) = self.config, symbols.shape
        words = self.input[which][:, symbols]  # (R, B, T, hidden)
        restarts = len(words)
        depth = min(config.depth, time + 1)  # a stack that grows by one a step needs no more
        depth = 2 * depth + 1 if config.structure == "list" else depth + config.tops
        stack = words.new_full((restarts, batch, config.stacks, depth), EMPTY)
        hidden = stack.new_zeros(restarts, batch, config.hidden)
        keys = torch.eye(len(self.names), dtype=stack.dtype, device=stack.device).expand(*stack.shape[:3], -1, -1)
        states, tops = [], []
        for word in words.unbind(2):
            inputs = self.tops(self._tops(stack).flatten(2), which) + word
            hidden = torch.sigmoid(inputs if self.recurrent is None else inputs + self.recurrent(hidden, which))
            choice = self.choice(hidden, which).unflatten(-1, (config.stacks, 1, -1))
            after = self._after(stack, torch.sigmoid(self.element(hidden, which)).unsqueeze(-1))
            stack = self.actions(choice, keys, after).context.squeeze(3)
            states.append(hidden)
            tops.append(self._tops(stack))
        if not states:
            return words.new_zeros(restarts, batch, 0, config.symbols), words.new_zeros(
                *stack.shape[:2], 0, *stack.shape[2:3], config.tops
            )
        together = torch.stack(states, 2)
        return self.output(together.flatten(1, 2), which).unflatten(1, (batch, time)), torch.stack(tops, 2)

    def _tops(self, stack: Tensor) -> Tensor:
        """(R, B, stacks, tops): the topmost elements, or those at the head of a list and left of it."""
        if self.config.structure == "stack":
            return stack[..., : self.config.tops]
        head = stack.shape[-1] // 2
        return stack[..., head - self.config.tops + 1 : head + 1].flip(-1)

    def _after(self, stack: Tensor, element: Tensor) -> Tensor:
        """(R, B, stacks, actions, depth): the stacks after each action, in the order of ``names``."""
        edge, depth = torch.full_like(element, EMPTY), stack.shape[-1]
        if self.config.structure == "stack":
            # element, stack, edge: the result of each action is a window on these.
            return torch.cat([element, stack, edge], -1).unfold(-1, depth, 1 if self.config.no_op else 2)
        head = depth // 2
        left, right = torch.cat([edge, stack[..., :-1]], -1), torch.cat([stack[..., 1:], edge], -1)
        insert = torch.cat([stack[..., 1 : head + 1], element, stack[..., head + 1 :]], -1)
        return torch.stack([left, insert, right, stack][: len(self.names)], 3)


def _nll(logits: Tensor, target: Tensor) -> Tensor:
    """−log p of each symbol: (R, B, T, symbols) and (B, T) → (R, B, T)."""
    labels = target.expand(len(logits), -1, -1)
    return functional.cross_entropy(logits.flatten(0, 2), labels.flatten(), reduction="none").view(labels.shape)
