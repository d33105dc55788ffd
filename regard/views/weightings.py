"""A machine with a memory at work: what came in, what went out, and where its heads were, step by step.

The picture of Graves, Wayne & Danihelka 2014, figure 6: time runs to the right, in all panels the same; the rows of the
memory run downwards. ``figure`` draws it with matplotlib, ``terminal`` with characters, and ``view`` prepares it for
the interactive page.

Bits are (T, width) tensors or arrays of numbers from 0 to 1, weightings (T, N), vectors (T, width) of any numbers; each
has a name.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._shared import BLOCKS, INK, MUTED, PLAIN, as_array, printable
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import shorten, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEN = 0.05
"""A row of the memory that no head ever gives this weight is left out."""
_STEPS = (0.05, 0.25, 0.5, 0.75)


def used(weightings: Mapping[str, Any], *, spare: int = 1) -> list[int]:
    """The rows of the memory that some head looked at and those between them, with ``spare`` more at either end.

    A memory is a ring, since heads shift from its last row to its first: [126, 127, 0, 1, 2] may be in use.
    """
    arrays = [_checked(name, array) for name, array in weightings.items()]
    if not arrays:
        raise ValueError("there is no weighting to show")
    if len({array.shape for array in arrays}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(weightings, arrays))
        raise ValueError(f"weightings of one memory have one shape (T, N): {shapes}")
    rows = arrays[0].shape[1]
    strongest = np.max([array.max(0, initial=0.0) for array in arrays], axis=0)
    busy = np.flatnonzero(strongest >= SEEN)
    if not len(busy):
        return list(range(rows))
    straight = range(max(0, int(busy[0]) - spare), min(rows, int(busy[-1]) + 1 + spare))
    after = int(np.diff(busy, append=busy[0] + rows).argmax())  # the last row before the largest gap of the ring
    if after == len(busy) - 1:
        return list(straight)
    round_it = range(int(busy[after + 1]) - spare, int(busy[after]) + rows + spare + 1)
    return [row % rows for row in round_it] if 2 * len(round_it) <= len(straight) else list(straight)


def _checked(name: str, values: Any) -> np.ndarray:
    array = as_array(values)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name!r} is a picture of time and place, (T, …), not {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name!r} holds numbers that are not finite; there is no colour for them")
    return array


def _panels(
    bits: Mapping[str, Any], weightings: Mapping[str, Any], vectors: Mapping[str, Any] | None = None
) -> tuple[dict[str, np.ndarray], list[int]]:
    """All panels (rows, T), and which rows of the memory they show."""
    rows = used(weightings)
    panels = {name: _checked(name, values).T for name, values in {**bits, **(vectors or {})}.items()}
    panels |= {name: _checked(name, values).T[rows] for name, values in weightings.items()}
    times = {name: panel.shape[1] for name, panel in panels.items()}
    if len(set(times.values())) > 1:
        raise ValueError(
            f"all panels share their time, but {', '.join(f'{k} has {v}' for k, v in times.items())} steps"
        )
    return panels, rows


def terminal(
    bits: Mapping[str, Any], weightings: Mapping[str, Any], *, width: int | None = None, blocks: bool | None = None
) -> str:
    """The panels as text, a character a step.

    Args:
        bits: name → (T, width): what came in and went out.
        weightings: name → (T, N): where each head was.
        width: cells in a line; the terminal's if None. What is longer continues below.
        blocks: shade with ``░▒▓█`` instead of ``.:+#``; if None, when stdout can print them.
    """
    panels, shown = _panels(bits, weightings)
    shades = BLOCKS if (printable(BLOCKS) if blocks is None else blocks) else PLAIN
    margin = max(5, *(len(name) + 1 for name in panels))
    width = max(margin + 10, shutil.get_terminal_size().columns if width is None else width)
    time = next(iter(panels.values())).shape[1]
    room = width - margin - 1
    lines: list[str] = []
    for start in range(0, time, room):
        band = slice(start, start + room)
        lines += [""] if lines else []
        if time > room:
            lines.append(f"steps {start + 1} to {min(start + room, time)} of {time}")
        for name, panel in panels.items():
            places = name in weightings
            drawn = ["".join(shades[sum(x >= s for s in _STEPS)] for x in row) for row in panel[:, band]]
            for blank, group in groupby(enumerate(drawn), lambda numbered: numbered[0] > 0 and not numbered[1].strip()):
                rows = list(group)
                if places and blank and len(rows) > 2:  # a memory has many rows that no head visits
                    lines.append(f"{'⋮' if shades is BLOCKS else ':':>{margin}}")
                    continue
                for number, row in rows:
                    label = name if number == 0 else str(shown[number]) if places else ""
                    lines.append(f"{label:>{margin}} {row}")
            lines.append("")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


def view(
    bits: Mapping[str, Any],
    weightings: Mapping[str, Any],
    vectors: Mapping[str, Any] | None = None,
    *,
    title: str = "",
) -> View:
    """The panels for the interactive page, where time can be stepped."""
    panels, rows = _panels(bits, weightings, vectors)
    shown = {
        name: {"name": name, "values": Quantized(panel.T.clip(0, 1)) if name not in (vectors or {}) else panel.T.copy()}
        for name, panel in panels.items()
    }
    data = {
        "bits": [shown[name] for name in bits],
        "vectors": [shown[name] for name in vectors or {}],
        "weightings": [shown[name] for name in weightings],
        "rows": rows,
    }
    return View("weightings", title or "weightings", data)


def figure(
    bits: Mapping[str, Any],
    weightings: Mapping[str, Any],
    vectors: Mapping[str, Any] | None = None,
    *,
    title: str | None = None,
    cmap: str = "regard",
) -> Figure:
    """The panels below each other as a matplotlib figure; no display is needed.

    Args:
        bits: name → (T, width): what came in and went out; drawn from 0, white, to 1, dark.
        weightings: name → (T, N): where each head was. Rows that no head uses are left out.
        vectors: name → (T, width): what the heads wrote and read; blue above 0, orange below.
        title: a heading.
        cmap: a sequential colour map for the weightings; the default serves colour-blind readers.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.ticker import MaxNLocator

    from regard.views._notebook import Figure

    panels, rows = _panels(bits, weightings, vectors)
    time = next(iter(panels.values())).shape[1]
    cell = min(max(5.0 / time, 0.04), 0.15)  # inches
    wide = time * cell
    tall = {name: max(panel.shape[0] * cell, 0.2) for name, panel in panels.items()}  # square cells
    left, right, gap, head, foot = 0.95, 0.95, 0.34, 0.45 if title else 0.15, 0.55
    width = max(left + wide + right, 4.5)
    height = head + sum(tall.values()) + gap * len(panels) + foot
    drawing = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(drawing)
    if title:
        title = shorten(visible(title), int((width - 0.24) * 72 / (0.68 * 12)))  # the width of bold letters
        drawing.text(0.12 / width, 1 - 0.12 / height, title, fontsize=12, fontweight="bold", color=INK, va="top")
    top, image, lowest = height - head, None, height
    for number, (name, panel) in enumerate(panels.items()):
        top -= gap
        box = (left / width, (top - tall[name]) / height, wide / width, tall[name] / height)
        axes = drawing.add_axes(box)
        places = name in weightings
        signed = name in (vectors or {})
        most = float(np.abs(panel).max(initial=0.0)) or 1.0 if signed else 1.0
        shown = axes.imshow(
            panel,
            extent=(0.5, time + 0.5, panel.shape[0] - 0.5, -0.5),
            aspect="auto",
            interpolation="nearest",
            vmin=-most if signed else 0,
            vmax=most,
            cmap="regard_signed" if signed else cmap if places else "Greys",
        )
        axes.set_title(name, fontsize=10, color=INK, loc="left", pad=4)
        axes.set_ylabel("row" if places else "", fontsize=9, color=MUTED)
        axes.tick_params(length=2, labelsize=8, colors=MUTED, labelbottom=number == len(panels) - 1)
        axes.spines[:].set_color("#c9ced6")
        if places:
            axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
            axes.yaxis.set_major_formatter(lambda y, _: str(rows[int(y)]) if 0 <= y < len(rows) else "")
            if image is None:
                image, upper = shown, top
            lowest = top - tall[name]
        else:
            axes.set_yticks([])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        top -= tall[name]
    axes.set_xlabel("step", fontsize=9, color=MUTED)
    if image is not None:
        high = min(upper - lowest, 2.4)
        beside = drawing.add_axes(((left + wide + 0.2) / width, (upper - high) / height, 0.13 / width, high / height))
        legend = drawing.colorbar(image, cax=beside, ticks=[0, 0.25, 0.5, 0.75, 1])
        legend.outline.set_visible(False)
        beside.tick_params(length=0, labelsize=8.5, colors=MUTED)
        beside.yaxis.set_major_formatter(lambda weight, _: f"{100 * weight:.0f} %")
    return drawing


def picture(
    bits: Mapping[str, Any],
    weightings: Mapping[str, Any],
    vectors: Mapping[str, Any] | None = None,
    *,
    title: str = "",
) -> Picture:
    """The tape in all its forms; arguments as for :func:`figure`."""
    return Picture(
        title,
        partial(terminal, bits, weightings),
        partial(view, bits, weightings, vectors, title=title),
        partial(figure, bits, weightings, vectors, title=title),
    )
