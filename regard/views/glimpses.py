"""Where a network looked: the path of its glimpses over an image, what it saw there, and how it classified it.

The picture of Mnih et al. 2014, figure 4. ``figure`` draws a row for each image, ``frames`` one image as an animation,
``game`` a game of Catch, ``costs`` error against computation, and ``terminal`` writes an image as text. ``view`` and
``played`` prepare one image, or one game, for the interactive page.

Images are (N, C, height, width) from 0 to 1; locations (N, T, 2), x and y from −1 to 1 between the edges; patches
(N, T, C, scales, size, size); probabilities of the classes after each glimpse (N, T, classes); ``sides`` of the squares
that are seen, in pixels, one for each scale. Where several objects are read one after the other, ``objects`` (T,) says
for which one each glimpse was, from 0, and ``lengths`` (N,) after how many glimpses the last one was read.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._pixels import COLOURS, beside, packed, paint, pictures, save_animation, shaded
from regard.views._shared import INK, MUTED, as_array
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["costs", "figure", "frames", "game", "played", "save_animation", "terminal", "view"]
PATH, NOW, RIGHT, WRONG = COLOURS[2], COLOURS[0], "#0072b2", "#d55e00"
_EACH = ("#009e73", "#0072b2", "#d55e00", "#cc79a7", "#8a6d00", "#5b4db0")
_LARGE, _SMALL, _GAP, _PAD = 2.3, 0.72, 0.07, 0.15  # inches


def figure(
    image: Any,
    location: Any,
    patch: Any,
    probability: Any,
    sides: Any,
    *,
    classes: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    title: str | None = None,
    objects: Any = None,
    lengths: Any = None,
) -> Figure:
    """Each image with the path over it, and beside it the glimpses in their order, the sharpest scale on top.

    Args:
        classes: what the classes are called.
        labels: what to write below each image.
        title: a heading.
    """
    image, location, patch, probability, sides = _checked(image, location, patch, probability, sides)
    ends = _lengths(lengths, location)
    count, steps, scales = len(image), max(ends), patch.shape[3]
    numbers = _objects(objects, location.shape[1])
    if labels is not None and len(labels) != count:
        raise ValueError(f"{count} images are drawn, but {len(labels)} labels came")
    names = _names(classes, probability)
    head, below = (0.42 if title else 0.0), (0.26 if labels else 0.0)
    between = "  " if max(map(len, names)) < 4 else "\n"  # what is wider than a patch runs into the next
    side = 1.0 if scales == 1 else _SMALL  # of a patch
    stack = 0.2 + scales * (side + _GAP) - _GAP + (0.38 if between == "\n" else 0.22)
    tall = max(_LARGE, stack) + below + 0.2
    width = max(_PAD + _LARGE + 0.35 + steps * (side + _GAP) + _PAD, 0.1 * len(title or "") + 2 * _PAD)
    height = head + count * tall + _PAD
    drawing = _drawing(width, height, title)
    for row in range(count):
        top = height - head - _PAD - row * tall
        axes = _axes(drawing, _PAD, top - _LARGE, _LARGE, _LARGE)
        paint(axes, image[row])
        _path(axes, image.shape[-2:], location[row, : ends[row]], numbers)
        _square(axes, image.shape[-2:], location[row, ends[row] - 1], sides, NOW)
        if labels:
            axes.set_xlabel(labels[row], fontsize=10, color=INK, labelpad=5)
        upper = top - max(_LARGE - stack, 0) / 2 - 0.2
        for t in range(ends[row]):
            left = _PAD + _LARGE + 0.35 + t * (side + _GAP)
            for scale in range(scales):
                small = _axes(drawing, left, upper - (scale + 1) * (side + _GAP) + _GAP, side, side)
                paint(small, patch[row, t, :, scale])
                if scale == 0:
                    colour = MUTED if numbers is None else _colour(numbers[t])
                    small.set_title(str(t + 1), fontsize=9, color=colour, pad=3)
            best = int(probability[row, t].argmax())
            name, share = shorten(names[best], 12 if scales > 1 else 16), f"{100 * probability[row, t, best]:.0f} %"
            label = f"{name}{between}{share}"
            small.set_xlabel(label, fontsize=8.5, color=INK, linespacing=1.1, parse_math=False)
    return drawing


def frames(
    image: Any,
    location: Any,
    patch: Any,
    probability: Any,
    sides: Any,
    *,
    classes: Sequence[str] | None = None,
    title: str | None = None,
    objects: Any = None,
) -> list[Figure]:
    """Glimpse after glimpse over one image: where it looks, what it sees, and how likely it finds each class.

    All without the first dimension of :func:`figure`.
    """
    image, location, patch, probability = (as_array(array)[None] for array in (image, location, patch, probability))
    image, location, patch, probability, sides = _checked(image, location, patch, probability, sides)
    scales, count = patch.shape[3], probability.shape[-1]
    names, numbers = _names(classes, probability), _objects(objects, patch.shape[1])
    order = np.argsort(-probability[0].max(0), kind="stable")[: min(count, 10)]
    order.sort()
    head, bars = (0.42 if title else 0.1), 2.0
    width = _PAD + 3.2 + 0.25 + 1.0 + 0.45 + bars + _PAD
    height = head + max(3.2, scales * 1.07) + 0.45
    drawings = []
    for t in range(patch.shape[1]):
        drawing = _drawing(width, height, title)
        axes = _axes(drawing, _PAD, height - head - 3.2, 3.2, 3.2)
        paint(axes, image[0])
        _path(axes, image.shape[-2:], location[0, : t + 1], numbers)
        _square(axes, image.shape[-2:], location[0, t], sides, NOW)
        label = f"glimpse {t + 1} of {patch.shape[1]}" + ("" if numbers is None else f", object {numbers[t] + 1}")
        axes.set_xlabel(label, fontsize=10, color=INK, labelpad=5)
        for scale in range(scales):
            small = _axes(drawing, _PAD + 3.45, height - head - (scale + 1) * 1.07 + 0.07, 1.0, 1.0)
            paint(small, patch[0, t, :, scale])
        _bars(drawing, probability[0, t, order], [names[i] for i in order], width - bars - _PAD, height - head)
        drawings.append(drawing)
    return drawings


def game(
    screen: Any, location: Any, patch: Any, sides: Any, *, caught: bool, actions: Sequence[str] | None = None
) -> list[Figure]:
    """A game of Catch: screens (T + 1, C, height, width), of which the last is the end, where it looked (T, 2) and what
    it saw (T, C, scales, size, size); ``actions``, T of them, are written below."""
    screen, location, patch, sides = _game(screen, location, patch, sides)
    steps, scales = len(patch), patch.shape[2]
    width, height = _PAD + 3.2 + 0.25 + 1.0 + _PAD, 0.1 + max(3.2, scales * 1.07) + 0.45
    drawings = []
    for t in range(steps + 1):
        drawing = _drawing(width, height, None)
        axes = _axes(drawing, _PAD, height - 3.3, 3.2, 3.2)
        paint(axes, screen[t])
        label = f"step {t + 1} of {steps}" + (f": {actions[t]}" if actions and t < steps else "")
        if t < steps:
            _square(axes, screen.shape[-2:], location[t], sides, NOW)
            for scale in range(scales):
                small = _axes(drawing, _PAD + 3.45, height - 0.1 - (scale + 1) * 1.07 + 0.07, 1.0, 1.0)
                paint(small, patch[t, :, scale])
        else:
            label = "caught" if caught else "missed"
            axes.spines[:].set(color=RIGHT if caught else WRONG, linewidth=3)
        axes.set_xlabel(label, fontsize=10, color=INK, labelpad=5)
        drawings.append(drawing)
    return drawings


def _game(screen: Any, location: Any, patch: Any, sides: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    screen, patch = pictures("screen", screen, 4), pictures("patch", patch, 5)
    location, sides = pictures("location", location, 2), [int(side) for side in as_array(sides)]
    if len(screen) != len(patch) + 1 or len(location) != len(patch):
        shapes = f"{len(location)}, {len(screen)}"
        raise ValueError(f"{len(patch)} glimpses need as many locations and one screen more: {shapes}")
    return screen, location, patch, sides


def costs(points: Mapping[str, Sequence[tuple[int, float, float]]], *, title: str | None = None) -> Figure:
    """Error against computation: for each system, by name, the side of its images in pixels, the multiplications for
    one image, and its error in percent."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    if not points or not all(points.values()):
        raise ValueError("costs needs at least one system with at least one point")
    drawing = Figure(figsize=(5.6, 3.9), dpi=100, layout="constrained")
    FigureCanvasAgg(drawing)
    axes = drawing.add_subplot()
    for (name, line), colour, marker in zip(points.items(), (RIGHT, WRONG, PATH, NOW), "osD^", strict=False):
        pixels, work, error = zip(*line)
        axes.plot(work, error, color=colour, marker=marker, markersize=7, linewidth=1.2, label=name)
        for side, x, y in zip(pixels, work, error):
            axes.annotate(f"{side}²", (x, y), (7, -12), textcoords="offset points", fontsize=8.5, color=MUTED)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.margins(0.12)
    axes.set_xlabel("multiplications for one image", fontsize=9.5, color=MUTED)
    axes.set_ylabel("error (%)", fontsize=9.5, color=MUTED)
    axes.tick_params(labelsize=8.5, colors=MUTED)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    if title:
        axes.set_title(title, fontsize=12, fontweight="bold", color=INK, loc="left")
    return drawing


def terminal(
    image: Any,
    location: Any,
    patch: Any,
    probability: Any,
    *,
    classes: Sequence[str] | None = None,
    width: int | None = None,
    blocks: bool | None = None,
) -> str:
    """One image (C, height, width) as text, with the numbers of the glimpses where they were, and each glimpse at the
    sharpest scale with what it was taken for."""
    image, location, patch, probability = (as_array(array)[None] for array in (image, location, patch, probability))
    image, location, patch, probability, _ = _checked(image, location, patch, probability, [1] * patch.shape[3])
    names, (height, wide) = _names(classes, probability), image.shape[-2:]
    lines = [list(line) for line in shaded(image[0].mean(0), blocks)]
    for t, (x, y) in enumerate(location[0]):
        row, column = int((y + 1) / 2 * height) // 2, int((x + 1) / 2 * wide)
        lines[min(max(row, 0), len(lines) - 1)][min(max(column, 0), wide - 1)] = _numeral(t)
    panels = [("image", ["".join(line) for line in lines])]
    for t, scales in enumerate(patch[0]):
        best = int(probability[0, t].argmax())
        label = f"{_numeral(t)}: {names[best]} {100 * probability[0, t, best]:.0f}%"
        panels.append((label, shaded(scales[:, 0].mean(0), blocks)))
    return beside(panels, shutil.get_terminal_size().columns if width is None else width)


def view(
    image: Any,
    location: Any,
    patch: Any,
    probability: Any,
    sides: Any,
    *,
    classes: Sequence[str] | None = None,
    title: str = "",
    objects: Any = None,
) -> View:
    """One image and the path over it for the interactive page; all without the first dimension of :func:`figure`."""
    image, location, patch, probability = (as_array(array)[None] for array in (image, location, patch, probability))
    image, location, patch, probability, sides = _checked(image, location, patch, probability, sides)
    answers: dict[str, Any] = {"probability": Quantized(probability[0]), "classes": _names(classes, probability)}
    answers["objects"] = _objects(objects, patch.shape[1])
    return _view(image, location[0], patch[0], sides, title, **answers)


def played(
    screen: Any,
    location: Any,
    patch: Any,
    sides: Any,
    *,
    caught: bool,
    actions: Sequence[str] | None = None,
    title: str = "",
) -> View:
    """A game of Catch, as :func:`game` takes it, for the interactive page."""
    screen, location, patch, sides = _game(screen, location, patch, sides)
    if actions is not None and len(actions) != len(patch):
        raise ValueError(f"{len(patch)} steps were played, but {len(actions)} actions came")
    action_names = None if actions is None else [str(action) for action in actions]
    return _view(screen, location, patch, sides, title, actions=action_names, end="caught" if caught else "missed")


def _view(image: np.ndarray, location: Any, patch: Any, sides: list[int], title: str, **optional: Any) -> View:
    defaults = {"probability": None, "classes": None, "actions": None, "objects": None, "end": "", **optional}
    data = {"image": packed(image), "location": location, "patch": packed(patch), "sides": sides, **defaults}
    return View("glimpses", title or "glimpses", data)


def _objects(objects: Any, steps: int) -> list[int] | None:
    if objects is None:
        return None
    numbers = [int(number) for number in as_array(objects)]
    if len(numbers) < steps:
        raise ValueError(f"{steps} glimpses, but for {len(numbers)} of them it is said which object they are for")
    return numbers[:steps]


def _lengths(lengths: Any, location: np.ndarray) -> list[int]:
    count, steps = location.shape[:2]
    ends = [steps] * count if lengths is None else [int(length) for length in as_array(lengths)]
    if len(ends) != count or not all(1 <= length <= steps for length in ends):
        raise ValueError(f"{count} images have {steps} glimpses at most, but lengths are {ends}")
    return ends


def _colour(number: int) -> str:
    """Of an object."""
    return _EACH[number % len(_EACH)]


def _numeral(t: int) -> str:
    """1 to 9, then letters: one cell each."""
    return "123456789abcdefghijklmnopqrstuvwxyz"[t] if t < 35 else "*"


def _names(classes: Sequence[str] | None, probability: np.ndarray) -> list[str]:
    count = probability.shape[-1]
    if classes is not None and len(classes) != count:
        raise ValueError(f"{len(classes)} names for {count} classes")
    return [str(number) for number in range(count)] if classes is None else [str(name) for name in classes]


def _checked(image: Any, location: Any, patch: Any, probability: Any, sides: Any) -> tuple[Any, ...]:
    image, location = pictures("image", image, 4), pictures("location", location, 3)
    patch, probability = pictures("patch", patch, 6), pictures("probability", probability, 3)
    sides = [int(side) for side in as_array(sides)]
    count, times = len(image), location.shape[1]
    fits = all(array.shape[:2] == (count, times) for array in (location, patch, probability))
    if not fits or patch.shape[3] != len(sides):
        shapes = ", ".join(str(array.shape) for array in (image, location, patch, probability))
        raise ValueError(f"images, locations, patches and probabilities do not belong together: {shapes}")
    return image, location, patch, probability, sides


def _drawing(width: float, height: float, title: str | None) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    drawing = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(drawing)
    if title:
        style: dict[str, Any] = {"fontsize": 12, "fontweight": "bold", "color": INK, "va": "top", "parse_math": False}
        drawing.text(_PAD / width, 1 - _PAD / height, title, **style)
    return drawing


def _axes(drawing: Figure, left: float, bottom: float, wide: float, tall: float) -> Axes:
    """Axes at a place in inches."""
    width, height = drawing.get_size_inches()
    return drawing.add_axes((left / width, bottom / height, wide / width, tall / height))


def _path(axes: Axes, size: tuple[int, ...], location: np.ndarray, objects: Sequence[int] | None = None) -> None:
    x, y = ((location[:, axis] + 1) / 2 * size[1 - axis] - 0.5 for axis in (0, 1))
    axes.plot(x, y, color=PATH, linewidth=1.8, zorder=3)
    colours = PATH if objects is None else [_colour(number) for number in objects[: len(x)]]
    axes.scatter(x, y, s=72, color=colours, edgecolors="white", linewidths=0.7, zorder=4)
    for t, place in enumerate(zip(x, y)):
        axes.annotate(str(t + 1), place, ha="center", va="center", fontsize=6.5, color="white", zorder=5 + t)
    axes.set(xlim=(-0.5, size[1] - 0.5), ylim=(size[0] - 0.5, -0.5))


def _square(axes: Axes, size: tuple[int, ...], place: np.ndarray, sides: Sequence[int], colour: str) -> None:
    """What is seen from a place, the squares of all scales."""
    from matplotlib.patches import Rectangle

    for side in sides:
        left, top = (np.floor((place[axis] + 1) / 2 * size[1 - axis] - side / 2 + 0.5) - 0.5 for axis in (0, 1))
        axes.add_patch(Rectangle((left, top), side, side, fill=False, edgecolor=colour, linewidth=1.4, zorder=2))


def _bars(drawing: Figure, probability: np.ndarray, names: list[str], left: float, top: float) -> None:
    tall = min(3.2, 0.3 * len(names))
    axes = _axes(drawing, left + 0.3, top - tall, 1.5, tall)
    best = int(probability.argmax())
    colours = [RIGHT if row == best else "#b8c4d0" for row in range(len(names))]
    axes.barh(np.arange(len(names)), probability, color=colours, height=0.72)
    axes.set(xlim=(0, 1), xticks=[0, 0.5, 1])
    axes.set_xticklabels(["0", "50 %", "100 %"], fontsize=8, color=MUTED)
    axes.set_yticks(np.arange(len(names)), names, fontsize=9, color=INK, parse_math=False)
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color("#c9ced6")


def played_picture(
    screen: Any, location: Any, patch: Any, sides: Any, *, caught: bool, actions: Sequence[str], title: str = ""
) -> Picture:
    """A game in all its forms; it moves, so there is no still figure."""
    parts, options = (screen, location, patch, sides), dict[str, Any](caught=caught, actions=actions)
    return Picture(
        title,
        lambda: "\n".join(shaded(as_array(screen).max((0, 1)))),
        partial(played, *parts, **options, title=title),
        frames=partial(game, *parts, **options),
        seconds=0.25,
    )


def shown(seen: Mapping[str, Any], classes: Sequence[str], titles: Sequence[str]) -> list[Picture]:
    """A picture for each image of ``seen``, which holds ``image``, ``location``, ``patch``, ``probability`` and
    ``sides``, and where several objects are read ``object`` and ``length``; they share one figure."""
    arrays = {name: seen[name] for name in ("image", "location", "patch", "probability")}
    objects, ends = seen.get("object"), _lengths(seen.get("length"), as_array(seen["location"]))
    options: dict[str, Any] = {"sides": seen["sides"], "classes": classes, "objects": objects}
    shared_figure = partial(figure, **arrays, **options, labels=titles, lengths=ends)
    drawings = []
    for row, title in enumerate(titles):
        sample = {name: tensor[row] if name == "image" else tensor[row][: ends[row]] for name, tensor in arrays.items()}
        drawings.append(
            Picture(
                title,
                partial(terminal, **sample, classes=classes),
                partial(view, **sample, **options, title=title),
                shared_figure,
                partial(frames, **sample, **options, title=title),
            )
        )
    return drawings
