"""What stands along the two sides of attention weights: words, places of an image, sentences, steps …

Every answer is weights between two axes; only what stands along them differs. A system declares the axes of each of
its attentions by name (:class:`regard.layers.use.Use`), a task makes them of an item (``task.axes(item)``), and the
picture between them is drawn by the view that the columns name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard._lazy import snake

TABLE = "tsv"
"""The suffix of an answer that is lines with tabs."""


@dataclass(frozen=True, eq=False)
class Axis:
    """One side of a matrix of weights.

    Attributes:
        labels: what stands at each place.
        groups: for each place that the system sees, the number of the label that it belongs to, as a subword belongs to
            a word; −1 for none. If None, every place has its own label.
        view: the file of :mod:`regard.views` whose ``between`` draws weights over this axis.
    """

    labels: Sequence[str]
    groups: Sequence[int] | None = None

    view: ClassVar[str] = "alignment"

    @classmethod
    def name(cls) -> str:
        """As ``Use.rows`` and ``Use.columns`` write it."""
        return snake(cls.__name__)

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Words(Axis):
    """Words or other tokens.

    Attributes:
        text: how they are written together, the labels with blanks between if empty.
        document: the suffix of a file that the text is by itself, such as subtitles; empty for a text in one line.
    """

    text: str = ""
    document: str = ""

    def __str__(self) -> str:
        return self.text or " ".join(self.labels)


@dataclass(frozen=True, eq=False)
class Tags(Axis):
    """Tags, of which each word has one."""


@dataclass(frozen=True, eq=False)
class Sentences(Axis):
    """Sentences of a story, the oldest first."""

    view: ClassVar[str] = "hops"


@dataclass(frozen=True, eq=False)
class Places(Axis):
    """Cells of a grid over an image, row by row.

    Attributes:
        image: (C, height, width) from 0 to 1, or a function that gives it when it is drawn.
        grid: rows and columns of cells; a square if None.
    """

    labels: Sequence[str] = ()
    image: Any = None
    grid: tuple[int, int] | None = None

    view: ClassVar[str] = "overlay"


@dataclass(frozen=True, eq=False)
class Frames(Axis):
    """Frames of a clip, in their order.

    Attributes:
        images: (F, C, height, width) from 0 to 1, a function that gives them when they are drawn, or None where there
            are none to show.
    """

    images: Any = None

    view: ClassVar[str] = "film"

    @classmethod
    def numbered(cls, count: int, images: Any = None) -> Frames:
        """1, 2 … ``count``."""
        return cls([str(number) for number in range(1, count + 1)], images=images)


@dataclass(frozen=True, eq=False)
class Strokes(Axis):
    """Points of a pen, in their order.

    Attributes:
        points: (N, 3): x, y downwards, and 1 if the pen is lifted after it.
        begins: how many of them were given and not written.
    """

    points: Any = None
    begins: int = 0

    view: ClassVar[str] = "strokes"

    @classmethod
    def of(cls, points: Any, begins: int = 0) -> Strokes:
        """Named by their numbers."""
        return cls([str(number) for number in range(1, len(points) + 1)], points=points, begins=begins)


@dataclass(frozen=True, eq=False)
class Spectrogram(Axis):
    """Frames of sound, in their order.

    Attributes:
        image: (bands, frames), what is drawn of each, low bands first.
        hop: seconds from one frame to the next.
        wave: the sound itself, (N,) between −1 and 1; None where there is none to hear.
        rate: its samples a second.
    """

    image: Any = None
    hop: float = 0.01
    wave: Any = None
    rate: int = 0

    view: ClassVar[str] = "spectrogram"

    @classmethod
    def timed(cls, image: Any, hop: float, wave: Any = None, rate: int = 0) -> Spectrogram:
        """Each frame labelled with its second."""
        return cls([f"{hop * number:.2f}" for number in range(image.shape[1])], None, image, hop, wave, rate)


@dataclass(frozen=True, eq=False)
class Steps(Axis):
    """Steps in time that have no names of their own, such as hops or glimpses.

    Attributes:
        noun: what one of them is called.
    """

    noun: str = "step"

    @classmethod
    def numbered(cls, count: int, word: str = "step") -> Steps:
        """``step 1``, ``step 2`` …"""
        return cls([f"{word} {number}" for number in range(1, count + 1)], noun=word)


def merge(weights: Tensor, rows: Axis, columns: Axis) -> Tensor:
    """Weights (…, T, S) between what the system sees as weights between labels: added up along the columns, averaged
    along the rows. What belongs to no label, and padding beyond the axes, is left out; columns that no row has seen
    yet, as in a memory that grows, are 0."""
    weights = weights.float().cpu()
    if (missing := (len(columns) if columns.groups is None else len(columns.groups)) - weights.shape[-1]) > 0:
        weights = torch.nn.functional.pad(weights, (0, missing))
    if columns.groups is not None:
        weights = _gather(weights, columns.groups, len(columns), -1)
    elif len(columns):
        weights = weights[..., : len(columns)]
    if rows.groups is None:
        return weights[..., : len(rows), :]
    total = _gather(weights, rows.groups, len(rows), -2)
    count = _gather(torch.ones(len(rows.groups)), rows.groups, len(rows), -1)
    return total / count.clamp_min(1)[:, None]


def _gather(values: Tensor, groups: Sequence[int], size: int, dim: int) -> Tensor:
    """Sums of the values of each group."""
    places = [place for place, group in enumerate(groups) if group >= 0 and place < values.shape[dim]]
    index = torch.tensor([groups[place] for place in places], dtype=torch.long)
    shape = list(values.shape)
    shape[dim] = size
    return values.new_zeros(shape).index_add_(dim, index, values.index_select(dim, torch.tensor(places).long()))
