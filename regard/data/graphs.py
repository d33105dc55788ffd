"""One graph: the features of its nodes, their edges, labels and splits.

Letters: N nodes, E edges, F features, C classes. An edge goes from a source to a target; the target attends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard._lazy import nearest
from regard.data import SPLITS
from regard.data.sparse import is_sparse, starts_of, sums
from regard.edges import Edges

NOWHERE = -1
"""The split of a node that is in none, and the class of a node without a label."""

_SPELLINGS = {"train": 0, "valid": 1, "val": 1, "validation": 1, "dev": 1, "test": 2, "": NOWHERE}


def split_number(text: str) -> int:
    """``train``, ``valid`` (or ``val``, ``dev``) and ``test`` as 0, 1, 2; nothing as −1."""
    if text.strip().lower() not in _SPELLINGS:
        raise ValueError(f"no split is called {text!r}: {nearest(text, SPLITS)}")
    return _SPELLINGS[text.strip().lower()]


@dataclass(eq=False)
class Graph:
    """N nodes and the edges between them.

    Attributes:
        features: (N, F) float32, strided or sparse CSR.
        index: (2, E) int64, sources and targets.
        labels: (N,) int64 with −1 where the class is unknown, or (N, C) float32 of zeros and ones where a node may
            have several.
        split: (N,) int64: 0 train, 1 valid, 2 test, −1 none.
        names: of the nodes; their numbers if None.
        classes: what the classes are called; their numbers if None.
        self_loops: whether every node attends to itself too, in :attr:`edges`.
    """

    features: Tensor
    index: Tensor
    labels: Tensor
    split: Tensor
    names: list[str] | None = None
    classes: list[str] | None = None
    self_loops: bool = True

    def __len__(self) -> int:
        return self.features.shape[0]

    @property
    def several(self) -> bool:
        """May a node have several labels?"""
        return self.labels.ndim == 2

    @cached_property
    def edges(self) -> Edges:
        """The edges by target and by source, sorted once."""
        return Edges(self.index, len(self), self_loops=self.self_loops)

    @cached_property
    def turned(self) -> Tensor:
        """(F, N) sparse CSR: the transpose of sparse features, with the place of each value instead of the value."""
        counts, columns = self.features.crow_indices().diff(), self.features.col_indices()
        order = columns.argsort(stable=True)
        rows = torch.repeat_interleave(torch.arange(len(self)), counts)[order]
        starts = starts_of(torch.bincount(columns, minlength=self.features.shape[1]))
        shape = (self.features.shape[1], len(self))
        return torch.sparse_csr_tensor(starts, rows, order, shape, check_invariants=True)

    def name(self, node: int) -> str:
        """What a node is called."""
        return str(node) if self.names is None else self.names[node]

    def number(self, name: str) -> int:
        """The node of a name or, where nodes have none, of a number."""
        if self.names is not None:
            if name not in self._numbers:
                candidates = self.names if len(self.names) <= 50 else [*self.names[:10], "…"]
                raise ValueError(f"no node is called {name!r}: {nearest(name, candidates)}")
            return self._numbers[name]
        if not name.strip().isdigit() or int(name) >= len(self):
            raise ValueError(f"there is no node {name!r}: nodes are 0 to {len(self) - 1}")
        return int(name)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names or ())}

    def of_split(self, split: str) -> Tensor:
        """The nodes of a split whose labels are known, (M,)."""
        chosen = self.split == SPLITS.index(split)
        return (chosen if self.several else chosen & (self.labels >= 0)).nonzero()[:, 0]

    def checked(self, where: str) -> Graph:
        """This graph, if its parts fit each other; ``where`` it is from goes into the error."""
        count = len(self)
        if self.features.ndim != 2 or not count or not self.features.shape[1]:
            raise ValueError(f"{where}: features are (nodes, features), not {tuple(self.features.shape)}")
        values = self.features.values() if is_sparse(self.features) else self.features
        if not bool(torch.isfinite(values).all()):
            node = int((~torch.isfinite(sums(self.features))).nonzero()[0])
            raise ValueError(f"{where}: the features of node {self.name(node)} are not all finite numbers")
        if self.index.ndim != 2 or self.index.shape[0] != 2 or self.index.is_floating_point():
            raise ValueError(
                f"{where}: edges are (2, E) whole numbers, not {tuple(self.index.shape)} of {self.index.dtype}"
            )
        outside = ((self.index < 0) | (self.index >= count)).any(0)
        if bool(outside.any()):
            column = int(outside.nonzero()[0])
            source, target = self.index[:, column].tolist()
            raise ValueError(f"{where}: edge {column} joins {source} and {target}, but nodes are 0 to {count - 1}")
        for what, tensor in (("labels", self.labels), ("split", self.split)):
            if tensor.shape[0] != count:
                raise ValueError(f"{where}: {tensor.shape[0]} {what} for {count} nodes")
        if self.several and not bool(((self.labels == 0) | (self.labels == 1)).all()):
            raise ValueError(f"{where}: labels (nodes, classes) are 0 or 1 each")
        if self.several and self.classes is not None and len(self.classes) != self.labels.shape[1]:
            raise ValueError(f"{where}: {self.labels.shape[1]} labels a node, but {len(self.classes)} names of them")
        if self.names is not None and len(self.names) != count:
            raise ValueError(f"{where}: {len(self.names)} names for {count} nodes")
        return self


def encode(labels: Sequence[Any], classes: Sequence[str] | None = None) -> tuple[Tensor, list[str] | None]:
    """Labels as a tensor, and what the classes are called. A label is None, a whole number, a text, or a sequence of
    zeros and ones where a node may have several."""
    rows = [
        label for label in labels if isinstance(label, Sequence | np.ndarray | Tensor) and not isinstance(label, str)
    ]
    if rows:
        width = len(rows[0])
        whole = [label if label is not None else [0] * width for label in labels]
        if any(len(label) != width for label in whole):
            raise ValueError(f"labels are {width} zeros and ones for one node, but not for another")
        return torch.tensor(np.array([np.asarray(label) for label in whole], dtype=np.float32)), None
    texts = ["" if label is None else str(label).strip() for label in labels]
    names = list(classes) if classes is not None else ordered(text for text in texts if text)
    number_of = {name: number for number, name in enumerate(names)}
    for text in texts:
        if text and text not in number_of:
            raise ValueError(f"no class is called {text!r}: {nearest(text, names)}")
    return torch.tensor([number_of.get(text, NOWHERE) for text in texts], dtype=torch.long), names


def ordered(names: Iterable[str]) -> list[str]:
    """The different names, by number if they are numbers."""
    distinct = set(names)
    numbers = all(name.lstrip("-").isdigit() for name in distinct)
    return sorted(distinct, key=lambda name: (int(name), name) if numbers else (0, name))


def with_split(graph: Graph, seed: int) -> Graph:
    """The graph with its labelled nodes drawn into 60, 20 and 20 % of train, valid and test, unless it has splits."""
    if bool((graph.split >= 0).any()):
        return graph
    labelled = np.arange(len(graph)) if graph.several else np.flatnonzero(graph.labels.numpy() >= 0)
    order = np.random.default_rng([seed, 60]).permutation(labelled)
    split = torch.full((len(graph),), NOWHERE)
    held_out = max(round(0.2 * len(order)), 1)
    for number, rows in enumerate((order[2 * held_out :], order[:held_out], order[held_out : 2 * held_out])):
        split[torch.from_numpy(rows)] = number
    return replace(graph, split=split)


def both_ways(pairs: np.ndarray) -> np.ndarray:
    """(2, E): each of the given pairs once in either direction, none twice, no loops."""
    pairs = pairs[:, pairs[0] != pairs[1]]
    base = int(pairs.max(initial=0)) + 1
    keys = np.unique(np.concatenate([pairs[0] * base + pairs[1], pairs[1] * base + pairs[0]]))
    return np.stack([keys // base, keys % base])
