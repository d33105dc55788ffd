"""How each registered part is built for the contract tests, and which of its numbers the oracle needs.

A new part needs two things here and in the oracle, and is then tested by every file of this folder:

1. ``tests/oracle.py``: a function of the part's snake_case name, the paper's equation as a loop;
2. below: an entry of that name in ``SCORES``, ``NORMALIZERS``, ``WINDOWS``, ``REFINERS``, ``POSITIONS``, ``GLIMPSES``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import oracle
from regard import glimpses, normalizers, parts, positions, refiners, scores, windows

Rng = np.random.Generator
Numbers = dict[str, Any]


@dataclass(frozen=True)
class Dims:
    """The widths that a part is built for."""

    query: int
    key: int
    keys: int
    hidden: int = 3


def nothing(*_: Any) -> Numbers:
    return {}


@dataclass(frozen=True)
class Entry:
    """``build`` makes the part (its options may be drawn), ``numbers`` gives the oracle's keywords from it, ``extras``
    draws what the caller passes: arrays (..., T) or (..., T, K), ``rounding`` the least error to be granted."""

    build: Callable[[Dims, Rng], nn.Module]
    numbers: Callable[[Any], Numbers] = nothing
    extras: Callable[[Rng, tuple[int, ...]], Numbers] = nothing
    rounding: Callable[[float], float] = lambda eps: 0.0


def array(x: Tensor | float) -> np.ndarray:
    """A tensor as float64 numpy."""
    return x.detach().double().numpy() if isinstance(x, Tensor) else np.float64(x)


def layers(mlp: nn.Sequential) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(array(x.weight), array(x.bias)) for x in mlp if isinstance(x, nn.Linear)]


def coin(rng: Rng) -> bool:
    return bool(rng.random() < 0.5)


def simplex(rng: Rng, *shape: int) -> np.ndarray:
    return rng.dirichlet(np.ones(shape[-1]), shape[:-1])


SCORES = {
    "dot": Entry(lambda d, rng: scores.Dot()),
    "scaled_dot": Entry(lambda d, rng: scores.ScaledDot()),
    "general": Entry(lambda d, rng: scores.General(d.query, d.key), lambda p: {"w": array(p.key.weight)}),
    "additive": Entry(
        lambda d, rng: scores.Additive(d.query, d.key, d.hidden),
        lambda p: {"w": array(p.joint.weight), "v": array(p.v)},
    ),
    "perceptron": Entry(
        lambda d, rng: scores.Perceptron(d.query, d.key, d.hidden),
        lambda p: {"w": array(p.query.weight), "u": array(p.key.weight), "v": array(p.v)},
    ),
    "concat": Entry(lambda d, rng: scores.Concat(d.query, d.key), lambda p: {"w": array(p.joint.weight)[0]}),
    "cosine": Entry(
        lambda d, rng: scores.Cosine(gain=float(rng.uniform(0.5, 5)), learn_gain=coin(rng)),
        lambda p: {"gain": float(array(p.gain))},
        lambda rng, lead: {"gain": rng.uniform(0.1, 5, lead)} if coin(rng) else {},
    ),
    "location": Entry(
        lambda d, rng: scores.Location(d.query, d.keys + int(rng.integers(0, 3))),
        lambda p: {"w": array(p.query.weight)},
    ),
    "inverse_distance": Entry(
        lambda d, rng: scores.InverseDistance(scale=float(rng.uniform(0.2, 3)), learn_scale=coin(rng)),
        lambda p: {"scale": float(array(p.scale))},
    ),
    "gaussian": Entry(
        lambda d, rng: scores.Gaussian(width=float(rng.uniform(0.7, 3)), learn_width=coin(rng)),
        lambda p: {"width": float(array(p.width))},
    ),
    "mlp_dot": Entry(
        lambda d, rng: scores.MLPDot(d.query, d.key, d.hidden),
        lambda p: {"phi": layers(p.query), "psi": layers(p.key)},
    ),
    "leaky_concat": Entry(
        lambda d, rng: scores.LeakyConcat(d.query, d.key, slope=float(rng.choice([0.2, 0.01, 0.0]))),
        lambda p: {"query": array(p.query), "key": array(p.key), "slope": p.slope},
    ),
    "leaky_additive": Entry(
        lambda d, rng: scores.LeakyAdditive(d.key, slope=float(rng.choice([0.2, 0.01, 0.0]))),
        lambda p: {"v": array(p.v), "slope": p.slope},
    ),
    "location_aware": Entry(
        lambda d, rng: scores.LocationAware(d.query, d.key, d.hidden, filters=2, kernel=int(rng.choice([1, 3, 5]))),
        lambda p: {
            "w": array(p.query.weight),
            "v": array(p.key.weight),
            "u": array(p.location.weight),
            "f": array(p.convolution.weight)[:, 0],
            "out": array(p.v),
        },
    ),
}

NORMALIZERS = {
    "softmax": Entry(
        lambda d, rng: normalizers.Softmax(temperature=float(rng.choice([1.0, 0.5, 3.0]))),
        lambda p: {"temperature": p.temperature},
    ),
    "sparsemax": Entry(lambda d, rng: normalizers.Sparsemax()),
    # Its threshold is the root of a small difference: half of the digits are lost where scores coincide.
    "entmax15": Entry(lambda d, rng: normalizers.Entmax15(), rounding=lambda eps: 4 * eps**0.5),
    "sigmoid": Entry(lambda d, rng: normalizers.Sigmoid()),
    "smoothed": Entry(lambda d, rng: normalizers.Smoothed()),
    "hard": Entry(lambda d, rng: normalizers.Hard(mode=str(rng.choice(["sample", "argmax", "straight_through"])))),
    "gumbel": Entry(
        lambda d, rng: normalizers.Gumbel(temperature=float(rng.choice([1.0, 0.5, 2.0]))),
        lambda p: {"temperature": p.temperature},
    ),
}

WINDOWS = {
    "local_monotonic": Entry(lambda d, rng: windows.LocalMonotonic(radius=int(rng.integers(0, 4)))),
    "local_predictive": Entry(
        lambda d, rng: windows.LocalPredictive(d.query, radius=int(rng.integers(1, 4))),
        lambda p: {"w": array(p.query.weight), "v": array(p.v.weight)[0]},
    ),
}

REFINERS = {
    "shift_sharpen": Entry(
        lambda d, rng: refiners.ShiftSharpen(),
        extras=lambda rng, lead: {
            "gate": rng.uniform(0, 1, lead),
            "shift": simplex(rng, *lead, int(rng.choice([1, 3, 5]))),
            "sharpen": rng.uniform(1, 4, lead),
        },
    ),
}


POSITIONS = {
    "rotary": Entry(
        lambda d, rng: positions.Rotary(base=float(rng.choice([10000.0, 50.0])), halves=coin(rng)),
        lambda p: {"base": p.base, "halves": p.halves},
    ),
}


@dataclass
class Glance:
    """A glimpse at work: ``run`` calls it on tensors (in the order of ``inputs``) and returns tensors by name, and
    ``expected`` is what the oracle says of each."""

    part: nn.Module
    inputs: dict[str, np.ndarray]
    run: Callable[..., dict[str, Tensor]]
    expected: dict[str, np.ndarray]


def mixture_window(batch: tuple[int, ...], rng: Rng) -> Glance:
    width, queries, places = (int(rng.integers(1, n)) for n in (4, 5, 7))
    part = glimpses.MixtureWindow(width, mixtures=int(rng.integers(1, 4))).double()
    fill(part, rng, 0.5)
    inputs = {
        "query": rng.normal(size=(*batch, queries, width)),
        "value": rng.normal(size=(*batch, places, 2)),
        "state": rng.uniform(0, 3, (*batch, part.mixtures)),
    }
    mask = rng.random((*batch[:1], queries, places)) < 0.7
    weights, state = np.zeros((*batch, queries, places)), np.zeros((*batch, part.mixtures))
    rows = oracle.mask_rows(mask, batch, queries, places)
    for i in np.ndindex(*batch):
        phi, state[i] = oracle.mixture_window(
            inputs["query"][i],
            places,
            w=array(part.query.weight),
            b=array(part.query.bias),
            start=inputs["state"][i],
        )
        weights[i] = phi * rows[i]

    def run(query: Tensor, value: Tensor, state: Tensor) -> dict[str, Tensor]:
        out = part(query, value, state=state, mask=torch.from_numpy(mask))
        return {"context": out.context, "weights": out.weights, "state": out.state}

    return Glance(part, inputs, run, {"context": weights @ inputs["value"], "weights": weights, "state": state})


def filter_bank(batch: tuple[int, ...], rng: Rng) -> Glance:
    size, height, width, channels = (int(rng.integers(1, n)) for n in (4, 6, 6, 3))
    part = glimpses.FilterBank(size)
    inputs = {
        "parameters": rng.normal(0, 0.5, (*batch, 5)),
        "image": rng.normal(size=(*batch, channels, height, width)),
        "patch": rng.normal(size=(*batch, channels, size, size)),
    }
    read, write = np.zeros_like(inputs["patch"]), np.zeros_like(inputs["image"])
    weights = np.zeros((*batch, size * size, height * width))
    for i in np.ndindex(*batch):
        numbers = inputs["parameters"][i]
        fy, fx, _ = oracle.filter_bank(numbers, size, height, width)
        weights[i] = np.kron(fy, fx)
        for c in range(channels):
            read[i][c] = oracle.filter_bank_read(inputs["image"][i][c], numbers, size)
            write[i][c] = oracle.filter_bank_write(inputs["patch"][i][c], numbers, height, width)

    def run(parameters: Tensor, image: Tensor, patch: Tensor) -> dict[str, Tensor]:
        out = part(parameters, image)
        painted = part.write(parameters, patch, height, width)
        return {"context": out.context, "weights": out.weights, "write": painted}

    return Glance(part, inputs, run, {"context": read, "weights": weights, "write": write})


def bilinear(batch: tuple[int, ...], rng: Rng) -> Glance:
    rows, columns, height, width, channels = (int(rng.integers(1, n)) for n in (4, 4, 5, 5, 3))
    part = glimpses.Bilinear(align_corners=coin(rng))
    inputs = {
        "grid": rng.uniform(-1.5, 1.5, (*batch, rows, columns, 2)),
        "image": rng.normal(size=(*batch, channels, height, width)),
    }
    context = np.zeros((*batch, channels, rows, columns))
    weights = np.zeros((*batch, rows * columns, height * width))
    for i in np.ndindex(*batch):
        grid, corners = inputs["grid"][i], {"align_corners": part.align_corners}
        for c in range(channels):
            context[i][c] = oracle.bilinear_read(inputs["image"][i][c], grid, **corners)
        for at, (x, y) in enumerate(grid.reshape(-1, 2)):
            place = oracle.to_pixels(x, width, **corners), oracle.to_pixels(y, height, **corners)
            weights[i][at] = oracle.bilinear(*place, height, width).reshape(-1)

    def run(grid: Tensor, image: Tensor) -> dict[str, Tensor]:
        out = part(grid, image)
        return {"context": out.context, "weights": out.weights}

    return Glance(part, inputs, run, {"context": context, "weights": weights})


def spatial_transformer(batch: tuple[int, ...], rng: Rng) -> Glance:
    kind = str(rng.choice(["affine", "attention", "projective", "thin_plate"]))
    rows, columns, height, width, channels = (int(rng.integers(1, n)) for n in (4, 4, 5, 5, 3))
    points = int(rng.integers(2, 5))
    numbers = {"affine": 6, "attention": 3, "projective": 8, "thin_plate": 2 * points**2}[kind]
    localizer = nn.Sequential(nn.Flatten(-3), nn.Linear(channels * height * width, numbers))
    corners = coin(rng)
    part = glimpses.SpatialTransformer(localizer, kind, (rows, columns), points=points, align_corners=corners).double()
    fill(part, rng, 0.3)
    inputs = {"image": rng.normal(size=(*batch, channels, height, width))}
    w, b = array(localizer[1].weight), array(localizer[1].bias)
    target = oracle.affine_grid(np.eye(2, 3), rows, columns, align_corners=corners)
    context = np.zeros((*batch, channels, rows, columns))
    weights = np.zeros((*batch, rows * columns, height * width))
    for i in np.ndindex(*batch):
        theta = w @ inputs["image"][i].reshape(-1) + b
        for at, place in enumerate(target.reshape(-1, 2)):
            x, y = oracle.spatial_transformer(theta, kind, *place, points)
            x, y = (oracle.to_pixels(z, size, align_corners=corners) for z, size in ((x, width), (y, height)))
            weights[i][at] = oracle.bilinear(x, y, height, width).reshape(-1)
        context[i] = (inputs["image"][i].reshape(channels, -1) @ weights[i].T).reshape(channels, rows, columns)

    def run(image: Tensor) -> dict[str, Tensor]:
        out = part.look(image)
        return {"context": out.context, "weights": out.weights}

    return Glance(part, inputs, run, {"context": context, "weights": weights})


def retina(batch: tuple[int, ...], rng: Rng) -> Glance:
    size, scales, channels = (int(rng.integers(1, n)) for n in (4, 4, 3))
    height, width = (size + int(rng.integers(0, 6)) for _ in range(2))
    part = glimpses.Retina(size, scales)
    inputs = {
        # Halves are exact in any precision, and no place is near the border of two pixels.
        "location": rng.integers(-6, 7, (*batch, 2)) / 4 + 1 / 64,
        "image": rng.normal(size=(*batch, channels, height, width)),
    }
    context = np.zeros((*batch, channels, scales, size, size))
    weights = np.zeros((*batch, scales * size * size, height * width))
    for i in np.ndindex(*batch):
        cells = oracle.retina(inputs["location"][i], size, scales, height, width)
        weights[i] = cells.reshape(weights[i].shape)
        for c in range(channels):
            context[i][c] = (cells * inputs["image"][i][c]).sum((-1, -2))

    def run(location: Tensor, image: Tensor) -> dict[str, Tensor]:
        out = part(location, image)
        return {"context": out.context, "weights": out.weights}

    return Glance(part, inputs, run, {"context": context, "weights": weights})


GLIMPSES = {
    "mixture_window": mixture_window,
    "filter_bank": filter_bank,
    "bilinear": bilinear,
    "retina": retina,
    "spatial_transformer": spatial_transformer,
}

TABLES: dict[str, dict[str, Any]] = {
    "scores": SCORES,
    "normalizers": NORMALIZERS,
    "windows": WINDOWS,
    "refiners": REFINERS,
    "positions": POSITIONS,
    "glimpses": GLIMPSES,
}
ORACLE_SIGNATURES = {
    "scores": "(q, keys, **parameters) -> [S scores]",
    "normalizers": "(scores, allowed, **parameters) -> [S weights]",
    "windows": "(q, t, length, **parameters) -> position",
    "refiners": "(weights, allowed, previous, **extras) -> [S weights]",
    "positions": "(row, place, **parameters) -> row",
    "glimpses": "(parameters) -> weights",
}


def entry(kind: str, name: str) -> Any:
    """The recipe for a registered part; the test fails with what to add if there is none."""
    needed_oracle(kind, name)
    if name not in TABLES[kind]:
        pytest.fail(
            f"{kind[:-1]} {name!r} has no recipe: add an entry {name!r} to {kind.upper()} in "
            f"tests/contracts/builders.py, saying how it is built and which numbers the oracle needs",
            pytrace=False,
        )
    return TABLES[kind][name]


def needed_oracle(kind: str, name: str) -> None:
    """The test fails with what to write if the oracle does not know a part."""
    wanted = {name: ORACLE_SIGNATURES[kind]}
    if kind == "windows":
        wanted[name + "_factor"] = "(s, p, radius) -> factor on the weight of key s"
    for function, signature in wanted.items():
        if not hasattr(oracle, function):
            pytest.fail(
                f"{kind[:-1]} {name!r} has no oracle: write its equation as a float64 loop in tests/oracle.py, "
                f"def {function}{signature}",
                pytrace=False,
            )


def fill(part: nn.Module, rng: Rng, scale: float = 0.8) -> None:
    """Random parameters: what a part is initialized with may be zero, or small enough to hide a fault."""
    with torch.no_grad():
        for parameter in part.parameters():
            if parameter.ndim:
                parameter.copy_(torch.from_numpy(rng.normal(0, scale, tuple(parameter.shape))))


def build(kind: str, name: str, dims: Dims, rng: Rng) -> Any:
    part = entry(kind, name).build(dims, rng)
    fill(part, rng)
    return part


def deterministic() -> list[str]:
    return [n for n in parts.names("normalizers") if not parts.find("normalizers", n).stochastic]


def heads_of(module: Any, name: str) -> list[Callable[..., list[float]]]:
    """The oracle's score of each head of a MultiHead that was given the score's name."""
    score = module.attention.score
    each = getattr(score, "scores", [score] * module.key_heads)
    rules = [partial(getattr(oracle, name), **entry("scores", name).numbers(part)) for part in each]
    return [rules[h * module.key_heads // module.heads] for h in range(module.heads)]
