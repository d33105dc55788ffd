"""Attention along edges: where one node looks, and how far from uniform a whole graph's weights are.

``ego`` draws a node among the nodes it attends to, a panel for each head, the thicker the line the larger the weight
(Veličković et al. 2018, figure 2, of one node). ``histogram`` draws the entropy of every node's weights beside that of
equal weights for the same neighbours: on some graphs, Cora among them, the two are nearly the same, and a picture of
weights shows nothing. That is no fault of the picture. ``terminal`` and ``summary`` say both in characters; ``view``
prepares a graph for the interactive page, where one goes from node to node.

Weights are (E, H) and ``index`` (2, E), as a tape's ``calls[0]`` of such an attention has them: ``weights``, ``edges``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._fonts import drawable
from regard.views._shared import BLOCKS, INK, LARGEST, MUTED, printable
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import cells, pad, shorten, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Of classes, told apart by colour-blind readers (Okabe & Ito); the ninth class begins again, in the next shape."""
SHAPES = "osD^vP"
MOST = 16
"""Neighbours in a picture."""
NEAR = 0.95
"""Weights with this share of the entropy of equal ones, or more, are called near uniform."""


def _arrays(weights: Any, index: Any) -> tuple[np.ndarray, np.ndarray]:
    """Weights (E, H) and index (2, E), checked."""
    weights, index = (np.asarray(x.detach().cpu() if hasattr(x, "detach") else x) for x in (weights, index))
    if weights.ndim != 2 or index.ndim != 2 or index.shape != (2, len(weights)):
        raise ValueError(f"weights are (E, H) and edges (2, E), not {weights.shape} and {index.shape}")
    if not np.isfinite(weights).all():
        edge = int(np.flatnonzero(~np.isfinite(weights).all(1))[0])
        raise ValueError(f"the weights of edge {edge} are not finite")
    return weights.astype(np.float64), index


@dataclass(frozen=True, eq=False)
class Ego:
    """A node and those it attends to, the strongest first.

    Attributes:
        node: its number.
        others: (K,) sources of its edges, perhaps itself.
        weights: (K, H).
    """

    node: int
    others: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, weights: Any, index: Any, node: int) -> Ego:
        """From the weights of all edges."""
        weights, index = _arrays(weights, index)
        edges = np.flatnonzero(index[1] == node)
        if not len(edges):
            raise ValueError(f"no edge leads to node {node}: it attends to nothing")
        order = edges[np.argsort(-weights[edges].mean(1), kind="stable")]
        return cls(node, index[0, order], weights[order])

    def strongest(self, most: int) -> tuple[Ego, str]:
        """At most ``most`` of the others, and a remark on the rest."""
        if len(self.others) <= most:
            return self, ""
        share = self.weights[most:].sum(0).mean()
        note = f"{len(self.others) - most} more have {100 * share:.0f} % together"
        return Ego(self.node, self.others[:most], self.weights[:most]), note


def _names(names: Sequence[str] | None, nodes: Sequence[int], ego: int) -> list[str]:
    """Of the others; the node itself is called so."""
    plain_names = [str(node) if names is None else visible(names[node]) for node in nodes]
    return ["itself" if node == ego else name for node, name in zip(nodes, plain_names)]


# ---------------------------------------------------------------------------------------------------------------------
# Terminal


def terminal(
    weights: Any,
    index: Any,
    node: int,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    most: int = MOST,
    blocks: bool | None = None,
) -> str:
    """A line for each node that ``node`` attends to: name, kind, the mean weight as a bar, and the weight of each head.

    Args:
        names: of all nodes.
        kinds: of all nodes, such as their classes.
        most: how many lines.
        blocks: draw bars with █ instead of #; if None, when stdout can print it.
    """
    ego, note = Ego.of(weights, index, node).strongest(most)
    full = "█" if (printable(BLOCKS) if blocks is None else blocks) else "#"
    node_names = [shorten(name, 20) for name in _names(names, ego.others.tolist(), node)]
    sorts = ["" if kinds is None else shorten(visible(kinds[neighbour]), 24) for neighbour in ego.others]
    wide, broad = max(map(cells, node_names)), max(map(cells, sorts))
    top = float(ego.weights.mean(1).max()) or 1.0
    heads, digits = ego.weights.shape[1], 0 if top >= 0.1 else 1
    lines = []
    for name, sort, row in zip(node_names, sorts, ego.weights):
        mean = row.mean()
        bar = pad(full * round(20 * mean / top), 20)
        percents = " ".join(f"{100 * weight:3.{digits}f}" for weight in row[:12]) if heads > 1 else ""
        line = f"{pad(name, wide)}  {pad(sort, broad)}  {bar} {100 * mean:5.1f} %  {percents}"
        lines.append(line.rstrip())
    if heads > 1:
        shown = "each head" if heads <= 12 else "the first 12 heads"
        lines.append(f"the bar is the mean of {heads} heads; behind it {shown}, in %")
    return "\n".join([*lines, *([note] if note else [])])


# ---------------------------------------------------------------------------------------------------------------------
# Ego graph


def ego(
    weights: Any,
    index: Any,
    node: int,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[int] | None = None,
    classes: Sequence[str] | None = None,
    head: int | None = None,
    title: str | None = None,
    most: int = MOST,
) -> Figure:
    """The node amid those it attends to, the same places in each panel.

    Args:
        names: of all nodes; their numbers if None.
        kinds: the class of each node, by number; decides the colour.
        classes: the names of the classes.
        head: only this one, counted from 1; all heads if None.
        title: a heading.
        most: draw only the N strongest neighbours.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.lines import Line2D

    from regard.views._notebook import Figure

    strongest, note = Ego.of(weights, index, node).strongest(most)
    heads = list(range(strongest.weights.shape[1]))
    if head is not None:
        if not 1 <= head <= len(heads):
            raise ValueError(f"there is no head {head}: heads are 1 to {len(heads)}")
        heads = [head - 1]
    node_names = [shorten(name, 14) for name in _names(names, strongest.others.tolist(), node)]
    centre = shorten(str(node) if names is None else visible(names[node]), 14)
    sorts = [] if kinds is None else sorted({int(kinds[neighbour]) for neighbour in (*strongest.others, node)})
    groups = [shorten(visible(classes[sort]), 28) if classes is not None else f"class {sort}" for sort in sorts]
    heading = "\n".join(filter(None, (visible(title) if title else "", note)))
    fonts, (node_names, (centre, heading), groups) = drawable(node_names, [centre, heading], groups)
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}

    columns = min(len(heads), 4)
    rows = -(-len(heads) // columns)
    size, spot, small = {1: (4.6, 260, 9.5), 2: (3.4, 150, 8.5)}.get(columns, (2.9, 90, 7.5))
    beside = max(6, *map(cells, node_names)) * 0.6 * small / 72  # inches of the longest label
    size += max(0.0, 2 * beside - 0.75)
    reach = max(1.55, 1.16 / (1 - 2 * beside / size))  # from the centre to the edge of a panel; neighbours are at 1
    tall = size * 1.5 / reach
    head_room = 0.24 * (heading.count("\n") + 1) + 0.2 if heading else 0.1
    legend_rows = -(-len(groups) // max(1, round(columns * size / 2.4)))
    foot = 0.5 + 0.22 * legend_rows
    width, height = columns * size, rows * (tall + 0.1) + head_room + foot
    drawing = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(drawing)

    top = float(strongest.weights[:, heads].max()) or 1.0
    thick = 9.0 if columns == 1 else 6.5  # points of the strongest line
    angles = math.pi / 2 - 2 * math.pi * np.arange(len(node_names)) / len(node_names)
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    digits = 0 if top >= 0.1 else 1
    styles = [(INK, "o") if kinds is None else _look(int(kinds[neighbour])) for neighbour in (*strongest.others, node)]
    for panel, number in enumerate(heads):
        row, column = divmod(panel, columns)
        bottom = foot + (rows - 1 - row) * (tall + 0.1)
        axes = drawing.add_axes((column * size / width, bottom / height, size / width, tall / height))
        axes.set(xlim=(-reach, reach), ylim=(-1.5, 1.5), aspect="equal")
        axes.axis("off")
        for (x, y), name, weight, (colour, shape) in zip(places, node_names, strongest.weights[:, number], styles):
            axes.plot((0, x), (0, y), color=MUTED, linewidth=max(thick * weight / top, 0.25), zorder=1)
            axes.scatter(x, y, s=spot, c=colour, marker=shape, edgecolors="white", linewidths=1.2, zorder=2)
            text = f"{name}\n{100 * weight:.{digits}f} %"
            if abs(x) < 0.55:
                across, up = "center", "bottom" if y > 0 else "top"
            else:
                across, up = "left" if x > 0 else "right", "center"
            style: dict[str, Any] = {"ha": across, "va": up, "fontsize": small, "color": INK, "linespacing": 1.05}
            axes.text(1.15 * x, 1.15 * y, text, **style, **plain)
        colour, shape = styles[-1]
        axes.scatter(0, 0, s=1.7 * spot, c=colour, marker=shape, edgecolors=INK, linewidths=1.6, zorder=3)
        if len(heads) > 1:
            axes.text(-0.95 * reach, 1.46, f"head {number + 1}", ha="left", va="top", fontsize=9, color=MUTED)
    if heading:
        drawing.text(0.12 / width, 1 - 0.1 / height, heading, ha="left", va="top", fontsize=11.5, color=INK, **plain)

    # What thickness means, and colours.
    uniform = 1 / len(Ego.of(weights, index, node).others)
    marks = [(top, f"{100 * top:.{digits}f} %"), (uniform, f"{100 * uniform:.{digits}f} % (equal weights)")]
    lines = [Line2D([], [], color=MUTED, linewidth=max(thick * weight / top, 0.25)) for weight, _ in marks]
    under = drawing.legend(
        lines, [text for _, text in marks], loc="lower left", bbox_to_anchor=(0.08 / width, (foot - 0.42) / height),
        ncols=2, frameon=False, fontsize=8.5, labelcolor=MUTED, handlelength=2.4, borderaxespad=0.3,
    )  # fmt: skip
    drawing.add_artist(under)
    if groups:
        dots = [Line2D([], [], linestyle="", color=_look(sort)[0], marker=_look(sort)[1]) for sort in sorts]
        drawing.legend(
            dots, groups, loc="lower left", bbox_to_anchor=(0.08 / width, 0), ncols=max(1, round(columns * size / 2.4)),
            frameon=False, fontsize=8.5, labelcolor=INK, handletextpad=0.2, columnspacing=1.2, borderaxespad=0.3,
            prop={"family": fonts, "size": 8.5},
        )  # fmt: skip
    return drawing


def _look(kind: int) -> tuple[str, str]:
    """Colour and shape of a class."""
    return COLOURS[kind % len(COLOURS)], SHAPES[kind // len(COLOURS) % len(SHAPES)]


# ---------------------------------------------------------------------------------------------------------------------
# Page


def view(
    weights: Any,
    index: Any,
    node: int,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[int] | None = None,
    classes: Sequence[str] | None = None,
    title: str = "",
) -> View:
    """The whole graph for the interactive page, beginning at ``node``; the rest as in :func:`ego`."""
    weights, index = _arrays(weights, index)
    count = int(index.max(initial=-1)) + 1
    if not 0 <= node < max(count, len(names or ())):
        raise ValueError(f"there is no node {node}: nodes are 0 to {max(count, len(names or ())) - 1}")
    if weights.size > LARGEST:
        raise ValueError(f"a page takes {LARGEST:,} weights, and these are {weights.size:,}")
    for name, values in (("names", names), ("kinds", kinds)):
        if values is not None and len(values) < count:
            raise ValueError(f"the graph has {count} nodes, but {len(values)} {name} came")
    data = {
        "index": index.astype(np.int32),
        "weights": Quantized(weights),
        "node": int(node),
        "names": None if names is None else [str(name) for name in names],
        "kinds": None if kinds is None else [int(kind) for kind in kinds],
        "classes": None if classes is None else [str(name) for name in classes],
    }
    return View("graph", title or f"node {node if names is None else names[node]}", data)


# ---------------------------------------------------------------------------------------------------------------------
# Entropy


def entropies(weights: Any, index: Any) -> tuple[np.ndarray, np.ndarray]:
    """(N, H) and (N,): the entropy of the weights of each node that attends to two nodes or more, and that of equal
    weights for as many, in bits."""
    weights, index = _arrays(weights, index)
    count = int(index.max(initial=-1)) + 1
    share = np.where(weights > 0, weights, 1.0)
    total = np.zeros((count, weights.shape[1]))
    np.add.at(total, index[1], -weights * np.log2(share))
    degree = np.bincount(index[1], minlength=count)
    chosen = degree >= 2
    return total[chosen], np.log2(degree[chosen])


def evenness(weights: Any, index: Any) -> float:
    """The mean of the entropy's share of the largest possible: 1 if all weights of a node are equal."""
    entropy, equal = entropies(weights, index)
    return float((entropy / equal[:, None]).mean()) if len(equal) else 1.0


def summary(weights: Any, index: Any, name: str = "attention") -> str:
    """A sentence on how far the weights are from uniform."""
    share = evenness(weights, index)
    verdict = "near uniform: nodes weigh their neighbours almost equally" if share >= NEAR else "not uniform"
    return f"{name}: the entropy of the weights is {100 * share:.1f} % of that of equal weights; they are {verdict}"


def histogram(layers: Sequence[tuple[str, Any, Any]], *, title: str | None = None) -> Figure:
    """How the entropy of the weights is spread over nodes and heads, beside that of equal weights; a panel a layer.

    Args:
        layers: name, weights (E, H) and edges (2, E) of each.
        title: a heading.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    if not layers:
        raise ValueError("there is no attention to draw")
    fonts, ((heading, *layer_names),) = drawable([visible(title) if title else "", *(name for name, _, _ in layers)])
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}
    drawing = Figure(figsize=(4.4 * len(layers) + 0.3, 3.7 + 0.3 * bool(heading)), dpi=100, layout="constrained")
    FigureCanvasAgg(drawing)
    panels = drawing.subplots(1, len(layers), squeeze=False)[0]
    for axes, name, (_, weights, index) in zip(panels, layer_names, layers):
        entropy, equal = entropies(weights, index)
        if not len(equal):
            axes.text(0.5, 0.5, "no node has two neighbours", ha="center", va="center", color=MUTED)
            axes.axis("off")
            continue
        bins = np.linspace(0, max(float(equal.max()), 1.0) * 1.02, 41)
        even = np.ones_like(equal) / len(equal)
        axes.hist(equal, bins, weights=100 * even, color="#B8BEC6", label="equal weights")
        portion = np.ones(entropy.size) / entropy.size
        axes.hist(
            entropy.ravel(),
            bins,
            weights=100 * portion,
            histtype="step",
            color=COLOURS[0],
            linewidth=1.8,
            label="attention",
        )
        axes.set_title(name, fontsize=10.5, color=INK, loc="left", **plain)
        axes.set_xlabel("entropy of a node's weights, bits", fontsize=9.5, color=MUTED)
        axes.set_ylabel("nodes, %", fontsize=9.5, color=MUTED)
        axes.tick_params(colors=MUTED, labelsize=8.5, length=3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color("#C5CAD1")
        axes.margins(y=0.16)
        label = f"{100 * float((entropy / equal[:, None]).mean()):.1f} % of the entropy of equal weights"
        axes.text(0.01, 0.99, label, transform=axes.transAxes, ha="left", va="top", fontsize=8.5, color=INK)
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        drawing.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9, labelcolor=INK)
    if heading:
        drawing.suptitle(heading, fontsize=11.5, color=INK, x=0.01, ha="left", **plain)
    return drawing


def picture(
    weights: Any,
    index: Any,
    node: int,
    *,
    names: Sequence[str] | None = None,
    told: Sequence[str] | None = None,
    kinds: Sequence[int] | None = None,
    classes: Sequence[str] | None = None,
    head: int | None = None,
    title: str = "",
) -> Picture:
    """The neighbourhood of a node in all its forms; ``told`` is what is said of each node as text, ``kinds`` its class
    as a number. A figure shows one ``head`` or the mean of all."""
    options: dict[str, Any] = {"names": names, "kinds": kinds, "classes": classes, "title": title}
    return Picture(
        title,
        partial(terminal, weights, index, node, names=names, kinds=told),
        partial(view, weights, index, node, **options),
        partial(ego, weights, index, node, head=head, **options),
    )
