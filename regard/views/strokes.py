"""Lines written with a pen, and which letter it was at: the pictures of Graves 2013 (arXiv:1308.0850).

``figure`` draws the line and above it the window on the text, which moves forward like a staircase, or below the ink a
map of what was expected of each next point (``density_map``). ``svg`` is the line alone as a small drawing, which
can write itself: the pen moves and the letter lights up. ``terminal`` draws with dots, each letter below its ink.

Points are (N, 3): x, y downwards, and 1 where the pen is lifted after the point; weights (U, N), characters × points.
"""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._fonts import drawable
from regard.views._pixels import shaded
from regard.views._shared import INK, MUTED, as_array, names_of, printable
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.axes import Strokes
    from regard.views.between import Side

HUE, GIVEN = "#0b62b0", "#9aa3ad"
_SPEED = 60.0
"""Points a second when a line is written again."""
_CELLS = 520
"""Of the longer side of a map of densities."""


class Ink:
    """A line, checked.

    Args:
        points: (N, 3).
        characters: of the text, if there was one.
        weights: (U, N).
        begins: how many points at the start were primed, not written.
    """

    def __init__(self, points: Any, characters: Sequence[str] | None = None, weights: Any = None, begins: int = 0):
        self.points = np.asarray(as_array(points), np.float32)
        if self.points.ndim != 2 or self.points.shape[1] != 3:
            raise ValueError(f"points are (N, 3): x, y and whether the pen is lifted, not {self.points.shape}")
        if not np.isfinite(self.points).all():
            raise ValueError(f"point {int(np.flatnonzero(~np.isfinite(self.points).all(1))[0])} is not finite")
        if not 0 <= begins <= len(self.points):
            raise ValueError(f"{begins} of {len(self.points)} points cannot have been given")
        self.begins, self.weights, self.characters = begins, None, list(characters or [])
        if weights is not None:
            matrix = as_array(weights)
            if matrix.ndim != 2 or matrix.shape[1] != len(self.points):
                raise ValueError(f"weights {matrix.shape} for {len(self.points)} points: not (characters, points)")
            if not np.isfinite(matrix).all() or matrix.min(initial=0.0) < 0:
                raise ValueError("weights are finite and not negative")
            self.weights = matrix
            self.characters = names_of(characters, len(matrix), "rows", matrix.shape)

    @property
    def letters(self) -> np.ndarray:
        """(N,): the number of the character that the window was at most, −1 where there is none."""
        if self.weights is None or not len(self.weights):
            return np.full(len(self.points), -1)
        return np.where(self.weights.max(0) > 0, self.weights.argmax(0), -1)

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, width and height, with a margin."""
        if not len(self.points):
            return 0.0, 0.0, 1.0, 1.0
        low, high = self.points[:, :2].min(0), self.points[:, :2].max(0)
        margin = 0.04 * max(float((high - low).max()), 1.0)
        width, height = high - low + 2 * margin
        return float(low[0] - margin), float(low[1] - margin), float(width), float(height)

    def strokes(self) -> list[tuple[int, int]]:
        """The first and last point, and one more, of each."""
        ends = [*(np.flatnonzero(self.points[:, 2] > 0.5) + 1).tolist(), len(self.points)]
        return [(first, last) for first, last in zip([0, *ends], ends) if last > first]


# ---------------------------------------------------------------------------------------------------------------------
# Figures


def figure(
    points: Any,
    characters: Sequence[str] | None = None,
    weights: Any = None,
    *,
    begins: int = 0,
    density: Any = None,
    title: str = "",
) -> Figure:
    """The line and, if there are weights, the window above it; over a map of densities if there is one.

    Args:
        points: (N, 3).
        characters: U tokens.
        weights: (U, N).
        begins: how many points at the start were primed, not written; drawn grey.
        density: a map; see :func:`density_map`.
        title: a heading.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    ink = Ink(points, characters, weights, begins)
    left, top, width, height = ink.box
    names = [visible(name) or "␣" for name in ink.characters]
    fonts, (names, (heading,)) = drawable(names, [visible(title)])
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}
    wide = 9.0
    tall = float(np.clip(wide * height / max(width, 1e-6), 0.8, 6.0))
    stairs = 0.0 if ink.weights is None else float(np.clip(0.16 * len(names), 0.8, 4.5))
    head, pad = 0.36 if heading else 0.1, 0.12
    full_height = head + stairs + (0.35 if stairs else 0.0) + tall + pad
    drawing = Figure(figsize=(wide + 2 * pad + 0.3, full_height), dpi=100)
    FigureCanvasAgg(drawing)
    full_width = wide + 2 * pad + 0.3
    if heading:
        style = {**plain, "fontsize": 12, "fontweight": "bold", "color": INK, "va": "top"}
        drawing.text(pad / full_width, 1 - 0.08 / full_height, heading, **style)
    if ink.weights is not None:
        box = (
            (pad + 0.3) / full_width,
            (full_height - head - stairs) / full_height,
            wide / full_width,
            stairs / full_height,
        )
        axes = drawing.add_axes(box)
        axes.imshow(ink.weights, cmap="regard", aspect="auto", interpolation="nearest", vmin=0)
        step = max(1, -(-len(names) // max(1, int(stairs / 0.13))))
        axes.set_yticks(range(0, len(names), step), names[::step], fontsize=8.5, fontfamily=fonts, parse_math=False)
        axes.tick_params(length=0, labelsize=8.5, colors=INK)
        axes.tick_params(axis="x", labelcolor=MUTED)
        axes.spines[:].set(color="#c9ced6", linewidth=0.8)
        axes.set_xlabel("points", fontsize=8.5, color=MUTED, labelpad=1)
    axes = drawing.add_axes(((pad + 0.3) / full_width, pad / full_height, wide / full_width, tall / full_height))
    if density is not None:
        shown = as_array(density)
        axes.imshow(shown, cmap="regard", extent=(left, left + width, top + height, top), vmin=0, aspect="auto")
    _draw(axes, ink, 0.7 if density is not None else 1.5)
    axes.set(xlim=(left, left + width), ylim=(top + height, top), aspect="equal")
    axes.axis("off")
    return drawing


def _draw(axes: Axes, ink: Ink, line: float) -> None:
    for first, last in ink.strokes():
        x, y = ink.points[first:last, :2].T
        style: dict[str, Any] = {"color": GIVEN if last <= ink.begins else INK, "linewidth": line}
        if len(x) == 1:
            axes.plot(x, y, marker=".", markersize=2 * line, **style)
        axes.plot(x, y, solid_capstyle="round", solid_joinstyle="round", **style)


def density_map(points: Any, mixture: Mapping[str, Any]) -> np.ndarray:
    """How likely each place was when the pen was about to go on, added up over the points: (height, width) from 0 to 1,
    over the box of the line, brightened so that the wide expectations after a lift are seen too.

    Args:
        points: (N, 3).
        mixture: of each point from the one before: ``weights`` (N, M), ``mean`` and ``deviation`` (N, M, 2), and
            ``correlation`` (N, M).
    """
    ink = Ink(points)
    left, top, width, height = ink.box
    scale = _CELLS / max(width, height)
    rows, columns = max(1, round(height * scale)), max(1, round(width * scale))
    field = np.zeros((rows, columns))
    xs, ys = (np.arange(columns) + 0.5) / scale + left, (np.arange(rows) + 0.5) / scale + top
    before = np.concatenate([np.zeros((1, 2)), ink.points[:-1, :2]])
    parts = {name: as_array(values).astype(np.float64) for name, values in mixture.items()}
    for t, m in np.argwhere(parts["weights"] > 0.01):
        (cx, cy), rho = before[t] + parts["mean"][t, m], parts["correlation"][t, m]
        sx, sy = np.maximum(parts["deviation"][t, m], 0.6 / scale)
        a, b = np.searchsorted(xs, [cx - 5 * sx, cx + 5 * sx])
        c, d = np.searchsorted(ys, [cy - 5 * sy, cy + 5 * sy])
        if a == b or c == d:
            continue
        x, y, unexplained = (xs[a:b] - cx) / sx, (ys[c:d, None] - cy) / sy, 1 - rho**2
        square = (x**2 + y**2 - 2 * rho * x * y) / unexplained
        field[c:d, a:b] += parts["weights"][t, m] / (sx * sy * np.sqrt(unexplained)) * np.exp(-0.5 * square)
    return (field / max(float(field.max()), 1e-12)) ** 0.3


# ---------------------------------------------------------------------------------------------------------------------
# A drawing of its own


def svg(
    points: Any,
    characters: Sequence[str] | None = None,
    weights: Any = None,
    *,
    begins: int = 0,
    animate: bool = False,
    title: str = "",
) -> str:
    """The line as an SVG file without anything else; with ``animate`` it writes itself, again and again, and the
    letters of the text below it light up as the window passes."""
    ink = Ink(points, characters, weights, begins)
    left, top, width, height = ink.box
    size = max(width / 900, 1e-6)  # of a pixel
    below = 34 * size if animate and ink.weights is not None else 0.0
    seconds = max(len(ink.points) / _SPEED, 0.5)
    duration = seconds + 1.5  # it rests before it begins anew
    paths = []
    for first, last in ink.strokes():
        x, y = ink.points[first:last, :2].T
        places = [f"{_short(a)},{_short(b)}" for a, b in zip(x, y)]
        places += places if len(places) == 1 else []
        colour = f' stroke="{GIVEN}"' if last <= ink.begins else ""
        moved = ""
        if animate:
            start, end = first / _SPEED / duration, max(last / _SPEED / duration, first / _SPEED / duration + 1e-4)
            times = f"0;{start:.4f};{min(end, 0.9999):.4f};1"
            moved = (
                f'<animate attributeName="stroke-dashoffset" values="1;1;0;0" keyTimes="{times}" dur="{duration:.2f}s" '
                'repeatCount="indefinite"/>'
            )
            colour += ' pathLength="1" stroke-dasharray="1 1"'
        paths.append(f'<path d="M{" L".join(places)}"{colour}>{moved}</path>')
    if animate and len(ink.points):
        times = ";".join(f"{t / _SPEED / duration:.4f}" for t in range(len(ink.points)))
        moves = ""
        for name, side in zip(("cx", "cy"), ink.points.T):
            values = ";".join(_short(value) for value in [*side, side[-1]])
            moves += (
                f'<animate attributeName="{name}" values="{values}" keyTimes="{times};1" dur="{duration:.2f}s" '
                'repeatCount="indefinite"/>'
            )
        paths.append(f'<circle r="{_short(5 * size)}" fill="{HUE}" stroke="none">{moves}</circle>')
    words = _words(ink, left, top + height + 0.7 * below, width, size, duration) if below else ""
    view = " ".join(map(_short, (left, top, width, height + below)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" width="900" '
        f'height="{(height + below) / size:.0f}" role="img">\n<title>{html.escape(_clean(title))}</title>\n'
        f'<g fill="none" stroke="{INK}" stroke-width="{_short(2.2 * size)}" stroke-linecap="round" '
        f'stroke-linejoin="round">\n' + "\n".join(paths) + f"\n</g>\n{words}</svg>\n"
    )


def _words(ink: Ink, left: float, baseline: float, width: float, size: float, duration: float) -> str:
    letters, parts = ink.letters, []
    for number, name in enumerate(ink.characters):
        drawn_at = np.flatnonzero(letters == number)
        lit = ""
        if len(drawn_at):
            start, end = drawn_at[0] / _SPEED / duration, min((drawn_at[-1] + 1) / _SPEED / duration, 0.9999)
            times = f"0;{start:.4f};{max(end, start + 1e-4):.4f};1"
            lit = (
                f'<animate attributeName="fill" values="{MUTED};{HUE};{MUTED};{MUTED}" keyTimes="{times}" '
                f'calcMode="discrete" dur="{duration:.2f}s" repeatCount="indefinite"/>'
            )
        parts.append(f'<tspan fill="{MUTED}">{html.escape(_clean(name)) or " "}{lit}</tspan>')
    style = f'font-family="sans-serif" font-size="{_short(20 * size)}" font-weight="600" text-anchor="middle"'
    place = f'x="{_short(left + width / 2)}" y="{_short(baseline)}"'
    return f'<text {place} {style} xml:space="preserve">{"".join(parts)}</text>\n'


def _clean(text: str) -> str:
    """Without what XML cannot hold."""
    return re.sub("[\x00-\x1f\ud800-\udfff\ufffe\uffff]", "", text)


def _short(value: float) -> str:
    return f"{float(value):.4g}" if abs(value) < 1000 else f"{float(value):.1f}"


# ---------------------------------------------------------------------------------------------------------------------
# Terminal, page


def terminal(
    points: Any,
    characters: Sequence[str] | None = None,
    weights: Any = None,
    *,
    begins: int = 0,
    density: Any = None,
    width: int | None = None,
    blocks: bool | None = None,
) -> str:
    """The line in dots, and below it each letter where the window was at it most; or a map of densities in shades.

    Args:
        width: cells in a line; the terminal's if None.
        blocks: draw with Braille dots instead of ``#``; if None, when stdout can print them.
    """
    ink = Ink(points, characters, weights, begins)
    if not len(ink.points):
        return "nothing was written"
    width = max(24, min(shutil.get_terminal_size().columns if width is None else width, 160))
    if density is not None:
        step = max(1, -(-as_array(density).shape[1] // width))
        field = as_array(density)
        for axis in (0, 1):
            field = np.maximum.reduceat(field, np.arange(0, field.shape[axis], step), axis=axis)
        return "\n".join(line.rstrip() for line in shaded(field, blocks))
    fine = printable("\u28ff") if blocks is None else blocks
    left, top, wide, high = ink.box
    across, down = (2, 4) if fine else (1, 1)
    scale = min(across * width / wide, down * 24 / high)
    shape = 1.0 if fine else 0.5  # a letter is twice as high as wide
    rows, columns = max(1, round(high * scale * shape)), max(1, round(wide * scale))
    dots = np.zeros((rows + down, columns + across), bool)
    for first, last in ink.strokes():
        x, y = (ink.points[first:last, 0] - left) * scale, (ink.points[first:last, 1] - top) * scale * shape
        for i in range(len(x)):
            j = min(i + 1, len(x) - 1)
            count = int(max(abs(x[j] - x[i]), abs(y[j] - y[i]))) + 2
            along = np.linspace(0, 1, count)
            dots[(y[i] + (y[j] - y[i]) * along).astype(int), (x[i] + (x[j] - x[i]) * along).astype(int)] = True
    lines = []
    for row in range(0, rows, down):
        cells = [dots[row : row + down, column : column + across] for column in range(0, columns, across)]
        lines.append("".join(_braille(cell) if fine else "#" if cell.any() else " " for cell in cells).rstrip())
    while lines and not lines[-1]:
        lines.pop()
    if ink.weights is not None:
        letters, below = ink.letters, [" "] * width
        for number, name in enumerate(ink.characters):
            drawn_at = ink.points[letters == number, 0]
            if len(drawn_at) and name.strip():
                place = int((float(drawn_at.mean()) - left) * scale / across)
                below[min(max(place, 0), width - 1)] = visible(name)[:1]
        lines.append("".join(below).rstrip())
    return "\n".join(lines)


_BRAILLE = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def _braille(cell: np.ndarray) -> str:
    full = np.zeros((4, 2), bool)
    full[: cell.shape[0], : cell.shape[1]] = cell
    code = int(_BRAILLE[full].sum())
    return chr(0x2800 + code) if code else " "


def view(
    points: Any,
    characters: Sequence[str] | None = None,
    weights: Any = None,
    *,
    begins: int = 0,
    density: Any = None,
    title: str = "",
) -> View:
    """For the interactive page."""
    ink = Ink(points, characters, weights, begins)
    data = {
        "points": ink.points,
        "begins": begins,
        "box": [round(edge, 3) for edge in ink.box],
        "characters": ink.characters,
        "weights": None if ink.weights is None else Quantized(ink.weights),
        "density": None if density is None else Quantized(as_array(density)),
    }
    return View("strokes", title or "".join(ink.characters) or "strokes", data)


def picture(
    points: Any,
    characters: Sequence[str] | None = None,
    weights: Any = None,
    *,
    begins: int = 0,
    density: Any = None,
    title: str = "",
) -> Picture:
    """The line in all forms; arguments as for :func:`figure`."""
    options: dict[str, Any] = {"begins": begins}
    drawn: dict[str, Any] = {**options, "title": title}
    line = points, characters, weights

    def field() -> Any:
        return density() if callable(density) else density

    return Picture(
        title,
        lambda: terminal(*line, **options, density=field()),
        lambda: view(*line, **drawn, density=field()),
        lambda: figure(*line, **drawn, density=field()),
    )


def between(sides: Sequence[Side], columns: Strokes, *, title: str = "") -> Picture:
    """Weights of characters over the points of a pen; see :mod:`regard.views.between`."""
    side = sides[0]
    return picture(columns.points, side.rows.labels, side.weights, begins=columns.begins, title=title)
