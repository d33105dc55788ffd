"""A tracker's particles, its gaze, and the reward its policy expects of each gaze, frame after frame: Denil et al. 2011
(arXiv:1109.3737).

``figure`` shows some frames in a row, ``frames`` the film, ``terminal`` the last frame, and ``view`` the gazes over the
film for the page of :mod:`regard.views.page`. All take what ``track`` of the system gives of one film, with ``frames``
(T, C, height, width) and ``boxes`` (T, 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._pixels import COLOURS, packed, paint, pictures, shaded, sheet
from regard.views._shared import as_array
from regard.views.page import View
from regard.views.picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST, SEEN = 40, 16


def _times(length: int, most: int) -> list[int]:
    return [int(t) for t in np.unique(np.linspace(1, length - 1, min(most, length - 1)).round())]


def _gazes(film: Mapping[str, Any]) -> np.ndarray:
    """(T − 1, 2): in pixels."""
    box = as_array(film["box"])[1:]
    return box[:, :2] + (1 + as_array(film["gaze"])) / 2 * box[:, 2:]


def _draw(film: Mapping[str, Any], t: int, above: Axes, below: Axes) -> None:
    from matplotlib.patches import Rectangle

    paint(above, pictures("frames", film["frames"][t : t + 1], 4)[0])
    particles, weights = as_array(film["particles"])[t - 1], as_array(film["weights"])[t - 1]
    size = 3 + 40 * weights / max(float(weights.max()), 1e-9)
    above.scatter(particles[:, 0] - 0.5, particles[:, 1] - 0.5, s=size, color=COLOURS[1], alpha=0.5, linewidths=0)
    for name, colour in (("boxes", COLOURS[2]), ("box", COLOURS[0])):
        left, top, wide, high = as_array(film[name])[t]
        above.add_patch(Rectangle((left - 0.5, top - 0.5), wide, high, fill=False, edgecolor=colour, linewidth=1.6))
    x, y = _gazes(film)[t - 1]
    above.plot([x - 0.5], [y - 0.5], marker="x", color=COLOURS[3], markersize=8, markeredgewidth=2)
    high, wide = film["frames"].shape[-2:]
    above.set(xlim=(-0.5, wide - 0.5), ylim=(high - 0.5, -0.5))
    below.imshow(as_array(film["surface"])[t - 1], cmap="viridis", extent=(-1, 1, 1, -1), interpolation="nearest")
    below.plot(*as_array(film["gaze"])[t - 1], marker="x", color=COLOURS[3], markersize=8, markeredgewidth=2)
    below.set(xticks=[], yticks=[])


def figure(film: Mapping[str, Any], *, title: str = "") -> Figure:
    """Five frames with particles, boxes (found and true) and the gaze; below each the reward expected of every gaze."""
    times = _times(len(film["frames"]), 5)
    drawing, panels = sheet(2, [f"frame {t + 1}" for t in times], side=1.7, title=title, labels=["film", "expected"])
    for column, t in enumerate(times):
        _draw(film, t, panels[0][column], panels[1][column])
    return drawing


def frames(film: Mapping[str, Any], *, title: str = "") -> list[Figure]:
    """The film, at most some of its frames."""
    drawings = []
    for t in _times(len(film["frames"]), MOST):
        drawing, panels = sheet(1, [f"frame {t + 1}", "expected of each gaze"], side=3.0, title=title or None)
        _draw(film, t, panels[0][0], panels[0][1])
        drawings.append(drawing)
    return drawings


def terminal(film: Mapping[str, Any]) -> str:
    """The last frame: x is the gaze, o the corners of the box that was found."""
    image = as_array(film["frames"])[-1].mean(0)
    lines = [list(line) for line in shaded(image)]
    left, top, wide, high = as_array(film["box"])[-1]
    marks = [(x, y, "o") for x in (left, left + wide - 1) for y in (top, top + high - 1)]
    for x, y, mark in [*marks, (*_gazes(film)[-1], "x")]:
        row, column = int(y) // 2, int(x)
        lines[min(max(row, 0), len(lines) - 1)][min(max(column, 0), len(lines[0]) - 1)] = mark
    return "\n".join("".join(line) for line in lines)


def view(film: Mapping[str, Any], *, title: str = "") -> View:
    """The gazes over the film for the interactive page."""
    images, times = as_array(film["frames"]), _times(len(film["frames"]), MOST)
    high, wide = images.shape[-2:]
    gazes = _gazes(film)[[t - 1 for t in times]]
    side = min(SEEN, high, wide)
    patches = []
    for t, (x, y) in zip(times, gazes):
        top, left = (int(np.clip(v - side / 2, 0, most - side)) for v, most in ((y, high), (x, wide)))
        patches.append(images[t][:, None, top : top + side, left : left + side])
    data = {
        "image": packed(images[[*times, times[-1]]]),
        "location": np.clip(2 * gazes / np.array([wide, high]) - 1, -1, 1).astype(np.float32),
        "patch": packed(np.stack(patches)),
        "sides": [side],
        **{"probability": None, "classes": None, "actions": [f"frame {t + 1}" for t in times], "objects": None},
        "end": "the end",
    }
    return View("glimpses", title or "tracked", data)


def picture(film: Mapping[str, Any], *, title: str = "") -> Picture:
    """A film in all its forms."""
    options: dict[str, Any] = {"title": title}
    return Picture(
        title,
        partial(terminal, film),
        partial(view, film, **options),
        partial(figure, film, **options),
        partial(frames, film, **options),
        seconds=0.2,
    )
