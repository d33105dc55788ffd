"""What a model carries from step to step: one row for each hypothesis that is still growing."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from regard.memory import Memory

_PLAIN = (bool, int, float, str, type(None))


class Writer(Protocol):
    """A system that writes a sequence, whatever it reads.

    A state is a pytree whose leaves are tensors with the batch first, :class:`regard.Memory`, or plain numbers and
    None, which hold for every row. ``step`` returns a new state and does not write into the old one. A writer may
    also have

    * ``alignment(state) -> (B, S) | None``, the weights of the last step over what it read, its source axis; of a
      writer that reads several things a dict of them, by the names of their axes;
    * ``limit(batch) -> (B,)``, the tokens of the longest answer;
    * ``first(batch) -> (B,)``, the tokens that are fed first, where that is not ``bos``. A language model reads a
      prompt but for its last token in ``start``, and gives that one here.
    """

    def start(self, batch: Any) -> Any: ...

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]: ...


def select(state: Any, index: Tensor) -> Any:
    """The rows ``index`` (N,) of a decoding state, in that order: how hypotheses are copied, reordered and dropped."""
    return tree_map(lambda leaf: _select(leaf, index), state)


def _select(leaf: Any, index: Tensor) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.index_select(0, index)
    if isinstance(leaf, _PLAIN):
        return leaf
    if hasattr(leaf, "select"):  # Memory, and masks
        return leaf.select(index)
    raise TypeError(
        f"a decoding state holds tensors, Memory, numbers and None in dicts, lists, tuples and registered dataclasses, "
        f"not {type(leaf).__name__}; torch.utils._pytree.register_dataclass registers one"
    )


class Rows:
    """A writer with the state of the rows that are being decoded.

    What ``step`` hands back as it got it, such as the keys of the source, is the same for all hypotheses of a sentence
    and need not be moved when they change places among themselves. For a beam this is most of the bytes.
    """

    def __init__(self, model: Writer, batch: Any):
        if getattr(model, "training", False):
            raise ValueError("the model is in training mode, where dropout changes every step: call model.eval() first")
        self.model = model
        self.state = model.start(batch)
        leaves = tree_leaves(self.state)
        self.count, self.device = _batch(leaves)
        self._untouched = [(leaf, _version(leaf)) for leaf in leaves]

    def step(self, token: Tensor) -> Tensor:
        """Feed one token to each row; the logits (N, V) of the next."""
        logits, self.state = self.model.step(token, self.state)
        if logits.ndim != 2 or logits.shape[0] != token.shape[0]:
            raise ValueError(f"step gave logits {tuple(logits.shape)} for {token.shape[0]} tokens; they are (B, V)")
        return logits

    def alignment(self) -> Any:
        """The weights of the last step over the source, (N, S), or over several by name; None if the model has none."""
        alignment = getattr(self.model, "alignment", None)
        return None if alignment is None else alignment(self.state)

    def select(self, index: Tensor, *, same_sentences: bool) -> None:
        """Go on with the rows ``index``; ``same_sentences`` if every row stays with its sentence."""
        fixed = {id(leaf) for leaf, version in self._untouched if version is not None and version == _version(leaf)}
        moved: list[Any] = []

        def move(leaf: Any) -> Any:
            if id(leaf) not in fixed:
                return _select(leaf, index)
            if not same_sentences:
                leaf = _select(leaf, index)
            moved.append(leaf)
            return leaf

        self.state = tree_map(move, self.state)
        self._untouched = [(leaf, _version(leaf)) for leaf in moved]


def _batch(leaves: list[Any]) -> tuple[int, torch.device]:
    """The number of rows and the device of a state."""
    tensors = [leaf.key if isinstance(leaf, Memory) else leaf for leaf in leaves]
    tensors = [leaf for leaf in tensors if isinstance(leaf, Tensor)]
    if not tensors:
        raise ValueError("start gave a state without a tensor, which does not say how many rows it has")
    if any(leaf.ndim == 0 for leaf in tensors) or len({leaf.shape[0] for leaf in tensors}) > 1:
        shapes = ", ".join(str(tuple(leaf.shape)) for leaf in tensors)
        raise ValueError(f"every tensor of a decoding state has the batch first, but start gave {shapes}")
    return tensors[0].shape[0], tensors[0].device


def _version(leaf: Any) -> int | None:
    """A number that grows when a tensor is written to; None if torch does not count. A Memory never changes."""
    if not isinstance(leaf, Tensor):
        return 0
    return None if leaf.is_inference() else leaf._version
