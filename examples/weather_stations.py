"""What is the weather here? Ask the stations around, and trust the near ones most.

Attention in one picture. The place you ask about is the query, the places of the stations are the keys, what they
measured are the values, and the three steps of every attention are

    1  score      e = 1 / distance      how well does this station fit?
    2  normalize  α = softmax(e)        scores become weights that sum to 1
    3  sum        o = Σ α v             the answer, a weighted mean of the values

The lecture prints six stations and the answer (31.0, 48.0). Of one station it prints the weight, 0.068, but not
the score; 4.5 is what belongs there. "e as a probability" means the softmax: e/Σe would give (32.5, 47.1).

A softmax of 1/distance depends on the unit of distance, so the score has a scale, and a scale can be learned.
Thirty stations measure a smooth field; each in turn is hidden and guessed from the others, and gradient descent
moves the one parameter. With another score the same recipe is kernel regression (Nadaraya and Watson, 1964).

    python examples/weather_stations.py                  the lecture's stations, and thirty on a field
    python examples/weather_stations.py stations.csv     your own: a line x,y,v1,v2,… for each
"""

from __future__ import annotations

import csv
import math
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from _common import BLUE, GREY, INK, RED, canvas, save, start, table
from torch import Tensor

import regard
from regard.parts import Normalizer, Score
from regard.scores import Gaussian, InverseDistance

SCORES = (6.5, 6.1, 4.5, 3.5, 2.8, 1.9)
VALUES = ((30, 48), (31, 49), (37, 44), (33, 45), (34, 50), (32, 45))
BEARINGS = (58, 318, 200, 250, 112, 14)
"""Degrees. The slide says how far the stations are, not where; the directions are ours."""


class Stations(NamedTuple):
    """Where they are (J, 2), what they measured (J, E), and what these 2 + E columns are called."""

    places: Tensor
    values: Tensor
    names: list[str]


class Proportional(Normalizer):
    """α = e / Σe, the tempting mistake. A normalizer of one's own is this short."""

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores / scores.sum(-1, keepdim=True)


def lecture() -> tuple[Tensor, Stations]:
    """The query (1, 2) in the middle, and the slide's six stations at distance 1/e around it."""
    angle = torch.tensor(BEARINGS).float().deg2rad()
    places = torch.stack([angle.cos(), angle.sin()], dim=-1) / torch.tensor(SCORES)[:, None]
    return torch.zeros(1, 2), Stations(places, torch.tensor(VALUES).float(), ["x", "y", "v1", "v2"])


def ask(query: Tensor, stations: Stations, normalizer: str | Normalizer = "softmax") -> regard.Attended:
    """The whole example: score by 1/distance, normalize, sum."""
    places, values, _ = stations
    return regard.attend(query, places, values, score="inverse_distance", normalizer=normalizer)


def random_field(seed: int = 0, count: int = 30) -> tuple[Stations, Callable[[Tensor], Tensor]]:
    """Stations in the unit square, and the five hills (N, 2) → (N, 1) that they measured."""
    generator = torch.Generator().manual_seed(seed)
    tops = torch.rand(5, 2, generator=generator)
    widths = 0.15 + 0.15 * torch.rand(5, generator=generator)
    heights = 10 * torch.randn(5, generator=generator)

    def truth(places: Tensor) -> Tensor:
        return (torch.exp(-0.5 * (torch.cdist(places, tops) / widths) ** 2) @ heights).unsqueeze(-1)

    places = torch.rand(count, 2, generator=generator)
    return Stations(places, truth(places), ["x", "y", "v1"]), truth


def fit(score: Score, stations: Stations, steps: int = 200) -> tuple[regard.Attention, Tensor]:
    """Learn the one parameter of a score; also each station as guessed from the others, (J, E)."""
    places, values, _ = stations
    attention = regard.Attention(score)
    not_itself = ~torch.eye(len(places), dtype=torch.bool)
    unit = values.std(0) + 1e-4 * values.abs().mean(0) + 1e-12  # so that every column counts alike
    (parameter,) = score.parameters()
    optimizer = torch.optim.Adam([parameter], lr=0.05 * parameter.item())
    for _ in range(steps):
        guess = attention(places, places, values, mask=not_itself).context
        optimizer.zero_grad()
        ((guess - values) / unit).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        return attention, attention(places, places, values, mask=not_itself).context


def fit_all(stations: Stations) -> dict[str, tuple[regard.Attention, Tensor]]:
    """Both scores, fitted; they start from the distance between neighbours."""
    distances = torch.cdist(stations.places, stations.places).fill_diagonal_(math.inf)
    spacing = distances.amin(-1).median().clamp_min(1e-6).item()
    return {
        "1/distance": fit(InverseDistance(scale=4 * spacing, learn_scale=True), stations),
        "Gaussian": fit(Gaussian(width=spacing, learn_width=True), stations),
    }


def guess_field(seed: int = 0) -> tuple[dict[str, float], dict[str, tuple[regard.Attention, Tensor]]]:
    """Error on 2000 places without a station, for the stations' mean and for both scores; and the scores."""
    stations, truth = random_field(seed)
    places = torch.rand(2000, 2, generator=torch.Generator().manual_seed(1000 + seed))
    fitted = fit_all(stations)
    errors = {"mean of all": rmse(stations.values.mean(0), truth(places))}
    for name, (attention, _) in fitted.items():
        with torch.no_grad():
            errors[name] = rmse(attention(places, stations.places, stations.values).context, truth(places))
    return errors, fitted


def rmse(guess: Tensor, truth: Tensor) -> float:
    """Root mean square error."""
    return (guess - truth).square().mean().sqrt().item()


def read(path: Path) -> Stations:
    """Stations from a CSV file; ``ValueError`` names the file and the line of what is wrong with it."""
    try:
        lines = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not a text file in UTF-8") from None
    cells = {n: [cell.strip() for cell in line] for n, line in enumerate(lines, 1) if "".join(line).strip()}
    if not cells:
        raise ValueError(f"{path}: empty; a station is a line x,y,v1,v2,…")
    first = min(cells)
    width = len(cells[first])
    if width < 3:
        raise ValueError(f"{path}, line {first}: a station is x,y,v1,v2,… but here is {','.join(cells[first])!r}")
    has_names = not any(map(_is_number, cells[first]))
    names = cells.pop(first) if has_names else ["x", "y", *(f"v{i}" for i in range(1, width - 1))]
    for n, row in cells.items():
        if len(row) != width:
            raise ValueError(f"{path}, line {n}: {len(row)} columns, but line {first} has {width}")
        for name, cell in zip(names, row, strict=True):
            if not _is_number(cell):
                raise ValueError(f"{path}, line {n}: {name} is {cell!r}, not a number")
    if len(cells) < 3:
        raise ValueError(f"{path}: {len(cells)} station(s); guessing one from the others takes at least 3")
    numbers = torch.tensor([[float(cell) for cell in row] for row in cells.values()], dtype=torch.float64)
    return Stations(numbers[:, :2], numbers[:, 2:], names)


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def grid(stations: Stations, size: int = 150) -> tuple[Tensor, tuple[float, float, float, float]]:
    """Places that cover the stations, (size², 2) row by row from the south, and their extent."""
    low, high = stations.places.amin(0), stations.places.amax(0)
    margin = 0.06 * (high - low).clamp_min(1e-6)
    (left, bottom), (right, top) = (low - margin).tolist(), (high + margin).tolist()
    places = torch.cartesian_prod(torch.linspace(bottom, top, size), torch.linspace(left, right, size))
    return places.flip(-1).to(low), (left, right, bottom, top)


def draw_lecture(axis: Any, stations: Stations, out: regard.Attended) -> None:
    """The slide's map, with α as the size of the discs."""
    axis.set_title("Six stations: the disc is the weight α")
    for place, value, weight in zip(stations.places.tolist(), VALUES, out.weights[0].tolist(), strict=True):
        area = 3200 * weight  # in square points, as matplotlib wants it
        axis.plot([0, place[0]], [0, place[1]], color=GREY, linewidth=0.8, zorder=1)
        axis.scatter(*place, s=area, color=BLUE, alpha=0.75, linewidth=0, zorder=2)
        axis.scatter(*place, s=6, color=INK, zorder=3)
        side = 1 if place[1] > 0 else -1
        beside = (0, side * (math.sqrt(area / math.pi) + 5))
        text = f"{value}\nα = {weight:.2g}"
        align = dict(ha="center", va="bottom" if side > 0 else "top", fontsize=9)
        axis.annotate(text, place, xytext=beside, textcoords="offset points", **align)
    axis.scatter(0, 0, marker="X", s=110, color=RED, edgecolor="white", zorder=4)
    text = "here:\n({:.1f}, {:.1f})".format(*out.context[0].tolist())
    align = dict(ha="right", va="bottom", color=RED, fontweight="bold")
    axis.annotate(text, (0, 0), xytext=(-14, 4), textcoords="offset points", **align)
    axis.set(xlim=(-0.40, 0.68), ylim=(-0.48, 0.52), xlabel="distance east", ylabel="distance north")
    axis.set_aspect("equal")


def draw_map(axis: Any, values: Tensor, extent: Any, stations: Stations, title: str, low: float, high: float) -> Any:
    """A map of the first value, with the stations on it."""
    colours = dict(cmap="regard", vmin=low, vmax=high)
    side = math.isqrt(values.numel())
    image = axis.imshow(values.view(side, side), origin="lower", extent=extent, aspect="auto", **colours)
    axis.scatter(*stations.places.T, c=stations.values[:, 0], s=34, edgecolor="white", linewidth=1, **colours)
    axis.set(title=title, xlabel=stations.names[0], ylabel=stations.names[1])
    return image


def show_lecture(folder: Path) -> None:
    """The slide, then the field: two tables and one figure."""
    query, stations = lecture()
    out, proportional = ask(query, stations), ask(query, stations, Proportional())
    print("Six weather stations. Score by 1/distance, softmax, weighted sum:\n")
    columns = zip(
        VALUES, out.scores[0].tolist(), out.weights[0].tolist(), proportional.weights[0].tolist(), strict=True
    )
    rows = [(value, f"{e:.1f}", f"{alpha:.4f}", f"{share:.4f}") for value, e, alpha, share in columns]
    table(["station", "score e", "α = softmax(e)", "e/Σe"], rows)
    print("\n  here, Σ α v:  ({:.1f}, {:.1f})".format(*out.context[0].tolist()), end="")
    print("     by e/Σe, which is not a softmax:  ({:.1f}, {:.1f})\n".format(*proportional.context[0].tolist()))

    errors, fitted = guess_field()
    print("Thirty stations on a smooth field; the score has one learned parameter. Error between the stations:\n")
    rows = [(name, f"{error:.2f}", f"{error / errors['mean of all']:.0%}") for name, error in errors.items()]
    table(["guess by", "RMSE", "relative"], rows)

    measured, truth = random_field()
    places, extent = grid(measured)
    with torch.no_grad():
        guess = fitted["1/distance"][0](places, measured.places, measured.values).context
    field = truth(places)
    limits = field.min().item(), field.max().item()
    figure, axes = canvas(3, 13.5, 4.3, width_ratios=(1.1, 1, 1))
    draw_lecture(axes[0], stations, out)
    draw_map(axes[1], field, extent, measured, "A field, measured at 30 stations", *limits)
    image = draw_map(axes[2], guess, extent, measured, "The field as attention guesses it", *limits)
    figure.colorbar(image, ax=axes[2], label="value")
    save(figure, folder / "weather_stations.png")


def show_file(path: Path, folder: Path) -> None:
    """Somebody's own stations: how well each is guessed from the others, and a map of the first value."""
    stations = read(path)
    fitted = fit_all(stations)
    guesses = {name: guess for name, (_, guess) in fitted.items()}
    mean_of_others = (stations.values.sum(0) - stations.values) / (len(stations.values) - 1)
    print(f"{len(stations.values)} stations, each guessed from the others. Root mean square error:\n")
    rows = [
        (name, *(f"{rmse(a, b):.4g}" for a, b in zip(guess.T, stations.values.T, strict=True)))
        for name, guess in {"mean of the others": mean_of_others, **guesses}.items()
    ]
    table(["guess by", *stations.names[2:]], rows)

    places, extent = grid(stations)
    with torch.no_grad():
        guess = fitted["1/distance"][0](places, stations.places, stations.values).context[:, 0]
    limits = stations.values[:, 0].min().item(), stations.values[:, 0].max().item()
    figure, axis = canvas(1, 6.5, 5)
    image = draw_map(axis, guess, extent, stations, f"{stations.names[2]}, as attention guesses it", *limits)
    figure.colorbar(image, ax=axis, label=stations.names[2])
    save(figure, folder / f"{path.stem}_map.png")


def main() -> None:
    """Run the example."""
    options = start(__doc__, "stations", "a CSV file of your own")
    if options.stations:
        try:
            show_file(options.stations, options.out)
        except ValueError as error:
            sys.exit(f"weather_stations: {error}")
        return
    show_lecture(options.out)
    print("\nTry next:")
    print(f"  {_typed(sys.executable)} {_typed(sys.argv[0])} stations.csv     your own stations, x,y,v1,v2,…")
    print(f"  {_typed(Path(sys.executable).with_name('regard'))} list scores     every score with its equation")


def _typed(path: str | Path) -> str:
    """A path as one would type it here."""
    path, here = Path(path), Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


if __name__ == "__main__":
    main()
