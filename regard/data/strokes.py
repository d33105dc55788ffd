"""Lines of handwriting and drawings as strokes of a pen, as they lie on disk.

==============  =======================================================================================================
``.jsonl``      a JSON object a line, ``{"text": "…", "strokes": [[[x, y], …], …]}``, y downwards; ``text`` may be left
                out, and ``id`` says which lines belong together, ``id`` up to the last hyphen
``lines.npz``   IAM-OnDB: ``points`` (N, 3) dx, dy and pen-up, ``offsets`` (lines + 1), ``ids`` and ``text``; an id is
                form and line, ``a01-000u-01``
other ``.npz``  drawings without text: for each split ``train`` (N, 3) dx, dy and pen-up, and ``train_offsets``
==============  =======================================================================================================

:func:`read` takes a file, or a folder with ``lines.npz``, with ``train.jsonl`` (``valid.jsonl``, ``test.jsonl``) or
with one ``.jsonl`` file. Where there are no splits, lines are divided 8 : 1 : 1 by their form: all sheets with the same
text, ``a01-000u`` and ``a01-000x``, stay together.

Points are offsets from the point before: (dx, dy, 1 if the pen is lifted after it). A line begins with (0, 0, …).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard._lazy import nearest
from regard.data import SPLITS, untrusted
from regard.data.lines import BadLines, clean, numbered_lines

LONGEST, CHARACTERS = 100_000, 1_000
"""Points and characters that a line of a file may have."""
FURTHEST = 1e6
"""The largest coordinate."""
_FORM = re.compile(r"(?P<form>.+-\d+)[a-z]?-\d+")


class Line(NamedTuple):
    """A line of handwriting.

    Attributes:
        name: where it comes from.
        text: what is written; empty for a drawing.
        points: (N, 3), dx, dy and whether the pen is lifted after this point, 0 or 1.
        letters: (N,), the number of the character that each point belongs to, where it is known.
    """

    name: str
    text: str
    points: np.ndarray
    letters: np.ndarray | None = None


Splits = dict[str, list[Line]]


def read(place: Path, bad: BadLines | None = None, file: str = "") -> Splits:
    """The lines by split.

    Args:
        place: a file or folder.
        file: of a folder, which of its files.
    """
    bad = bad or BadLines()
    if not place.exists():
        raise ValueError(f"{place}: no such file or folder")
    if place.is_dir():
        splits = _folder(place, file, bad)
    else:
        splits = _file(place, bad)
    for split, lines in splits.items():
        if not lines:
            raise ValueError(f"{place}: no line is in the split {split!r}")
    return splits


def _folder(folder: Path, file: str, bad: BadLines) -> Splits:
    if file:
        if not (folder / file).is_file():
            raise ValueError(f"{folder / file}: no such file: {nearest(file, [p.name for p in folder.iterdir()])}")
        return _file(folder / file, bad)
    if (folder / "train.jsonl").exists():
        paths = {split: folder / f"{split}.jsonl" for split in SPLITS}
        return {split: objects(path, bad) for split, path in paths.items() if path.exists()}
    if (folder / "lines.npz").exists():
        return _file(folder / "lines.npz", bad)
    files = sorted([*folder.glob("*.jsonl"), *folder.glob("*.npz")])
    if len(files) == 1:
        return _file(files[0], bad)
    if files:
        raise ValueError(f"{folder}: say which of its files with file=: {', '.join(path.name for path in files)}")
    raise ValueError(f"{folder}: no strokes are in it; train.jsonl, one .jsonl file or lines.npz was expected")


def _file(path: Path, bad: BadLines) -> Splits:
    if path.suffix == ".jsonl":
        return _divided(objects(path, bad), path)
    if path.suffix != ".npz":
        raise ValueError(f"{path}: strokes are read from a .jsonl or .npz file")
    data = untrusted.unzip(path, lambda name: name.endswith(".npy"))
    if "points.npy" in data:
        return _divided(_lines(path, data), path)
    splits = {split: _drawings(path, data, split) for split in SPLITS if f"{split}.npy" in data}
    if "train" not in splits:
        raise ValueError(f"{path}: it has neither an array 'points' nor one called 'train'")
    return splits


# ---------------------------------------------------------------------------------------------------------------------
# Arrays


def _array(path: Path, data: dict[str, bytes], name: str) -> np.ndarray:
    if f"{name}.npy" not in data:
        raise ValueError(f"{path}: there is no array called {name!r} in it")
    return untrusted.npy(data[f"{name}.npy"], f"{path}, {name}")


def _cut(path: Path, data: dict[str, bytes], points: str, offsets: str) -> list[np.ndarray]:
    """The points of each line."""
    rows, ends = _array(path, data, points), _array(path, data, offsets)
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise ValueError(f"{path}: {points} {rows.shape}; (N, 3) was expected: dx, dy and pen-up")
    if ends.ndim != 1 or not len(ends) or ends[0] != 0 or ends[-1] != len(rows) or (ends[1:] < ends[:-1]).any():
        raise ValueError(f"{path}: {offsets} do not part {len(rows)} points into lines")
    if ends.dtype.kind not in "iu":
        raise ValueError(f"{path}: {offsets} are {ends.dtype}; whole numbers were expected")
    far = np.flatnonzero(~(np.abs(rows[:, :2]) <= FURTHEST).all(1))  # or NaN
    if len(far):
        point = f"point {far[0]} of {points}, {rows[far[0]].tolist()}"
        raise ValueError(f"{path}: {point}, is not finite or too far away")
    if not np.isin(rows[:, 2], (0, 1)).all():
        row = int(np.flatnonzero(~np.isin(rows[:, 2], (0, 1)))[0])
        raise ValueError(f"{path}: pen-up of point {row} of {points} is {rows[row, 2]}, neither 0 nor 1")
    return [_begun(rows[first:last].astype(np.float32)) for first, last in pairwise(ends)]


def _begun(points: np.ndarray) -> np.ndarray:
    """The first point is where the line begins."""
    points[:1, :2] = 0
    return points


def _lines(path: Path, data: dict[str, bytes]) -> list[Line]:
    per_line = _cut(path, data, "points", "offsets")
    names = {}
    for name in ("ids", "text"):
        if f"{name}.npy" not in data:
            raise ValueError(f"{path}: there is no array called {name!r} in it")
        names[name] = untrusted.texts(data[f"{name}.npy"], f"{path}, {name}")
        if len(names[name]) != len(per_line):
            raise ValueError(f"{path}: {len(names[name])} {name} for {len(per_line)} lines")
    return [Line(id, clean(text), points) for id, text, points in zip(names["ids"], names["text"], per_line)]


def _drawings(path: Path, data: dict[str, bytes], split: str) -> list[Line]:
    per_drawing = _cut(path, data, split, f"{split}_offsets")
    return [Line(f"{split} {number}", "", points) for number, points in enumerate(per_drawing)]


# ---------------------------------------------------------------------------------------------------------------------
# JSON lines


def objects(path: Path, bad: BadLines | None = None) -> list[Line]:
    """The lines of a ``.jsonl`` file."""
    bad, lines = bad or BadLines(), []
    for number, text in numbered_lines(untrusted.regular(path)):
        if not text.strip():
            continue
        try:
            # A hyphen in the name of the file would make one sheet of all its lines.
            name = f"{path.stem.replace('-', ' ')} {number}"
            lines.append(_object(untrusted.parse_json(text, f"{path}:{number}"), name))
        except ValueError as error:
            bad.add("unreadable", path, number, str(error).removeprefix(f"{path}:{number}: "))
    return lines


def _object(entry: Any, name: str) -> Line:
    for key in entry if isinstance(entry, dict) else ():
        if key not in ("text", "strokes", "id"):
            raise ValueError(f"unknown key {key!r}: {nearest(key.lower(), ('text', 'strokes', 'id'))}")
    if not isinstance(entry, dict) or "strokes" not in entry:
        raise ValueError('not {"text": "…", "strokes": [[[x, y], …], …]}')
    text, name = entry.get("text", ""), entry.get("id", name)
    if not isinstance(text, str) or not isinstance(name, str):
        raise ValueError("text and id are strings")
    if len(text) > CHARACTERS:
        raise ValueError(f"a text of {len(text):,} characters is too long, more than {CHARACTERS:,}")
    return Line(name, clean(text), of(entry["strokes"]))


def of(strokes: Any) -> np.ndarray:
    """The offsets (N, 3) of strokes, each a list of points (x, y)."""
    if not isinstance(strokes, list) or not strokes:
        raise ValueError("strokes are a list of at least one stroke")
    pieces = []
    for number, stroke in enumerate(strokes, 1):
        try:
            points = np.array(stroke, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            points = np.zeros(0)
        if points.ndim != 2 or points.shape[1] != 2 or not len(points):
            raise ValueError(f"stroke {number} is not a list of points [x, y]")
        if not (np.abs(points) <= FURTHEST).all():  # nor NaN
            raise ValueError(f"stroke {number} has a coordinate that is not finite, or beyond {FURTHEST:,.0f}")
        up = np.zeros((len(points), 1))
        up[-1] = 1
        pieces.append(np.concatenate([points, up], 1))
    rows = np.concatenate(pieces)
    if not 2 <= len(rows) <= LONGEST:
        raise ValueError(f"a line has from 2 to {LONGEST:,} points, not {len(rows):,}")
    rows[:, :2] = np.diff(rows[:, :2], axis=0, prepend=rows[:1, :2])
    return rows.astype(np.float32)


def strokes(points: np.ndarray) -> list[np.ndarray]:
    """Offsets (N, 3) as strokes again, each (P, 2) from the beginning of the line on; the opposite of :func:`of`."""
    places = np.asarray(points[:, :2], dtype=np.float64).cumsum(0)
    ends = np.flatnonzero(points[:, 2] > 0.5) + 1
    return [piece for piece in np.split(places, ends) if len(piece)]


# ---------------------------------------------------------------------------------------------------------------------
# Thinning, joining, dividing


def thinned(points: np.ndarray, every: int) -> np.ndarray:
    """Every ``every``-th point of each stroke, and its ends."""
    if every == 1:
        return points
    selected, start = np.zeros(len(points), dtype=bool), 0
    for end in sorted({*np.flatnonzero(points[:, 2] > 0.5).tolist(), len(points) - 1}):
        selected[[*range(start, end, every), end]] = True
        start = end + 1
    places = points[:, :2].astype(np.float64).cumsum(0)[selected]
    moves = np.diff(places, axis=0, prepend=places[:1])
    return np.concatenate([moves, points[selected, 2:]], 1).astype(np.float32)


def joined(lines: Sequence[Line], count: int, random: Callable[[int], np.ndarray] | None = None) -> list[Line]:
    """Drawings beside each other in lines of ``count``, each as high as the others; what is left over is dropped.

    Args:
        random: gives a random order of N drawings; as they are, if None.
    """
    order = np.arange(len(lines)) if random is None else random(len(lines))
    merged = []
    for first in range(0, len(order) - count + 1, count):
        pieces, x = [], 0.0
        for number in order[first : first + count]:
            points = lines[number].points.astype(np.float64)
            places = points[:, :2].cumsum(0)
            low, high = places.min(0), places.max(0)
            scale = 100 / max(float((high - low).max()), 1e-6)
            placed = (places - (low + high) / 2) * scale + [x, 0]
            pieces.append(np.concatenate([placed, points[:, 2:]], 1))
            pieces[-1][-1, 2] = 1
            x += 130
        rows = np.concatenate(pieces)
        rows[:, :2] = np.diff(rows[:, :2], axis=0, prepend=rows[:1, :2])
        names = [lines[number].name for number in order[first : first + count]]
        merged.append(Line(" + ".join(names), "", rows.astype(np.float32)))
    return merged


def _divided(lines: Sequence[Line], where: Path) -> Splits:
    keys: list[Any] = [_form(line.name) for line in lines]
    split_of = {form: _share(form) for form in keys}
    if len(set(split_of.values())) < len(SPLITS):  # too few forms for shares of ten
        if len(split_of) < len(SPLITS):
            keys = list(range(len(lines)))  # … and even to keep the lines of each together
        order = list(dict.fromkeys(keys))
        split_of = dict(zip(order, ["valid", "test", *["train"] * len(order)]))
    splits: Splits = {split: [] for split in SPLITS}
    for key, line in zip(keys, lines):
        splits[split_of[key]].append(line)
    if not all(splits.values()):
        raise ValueError(f"{where}: {len(lines)} lines cannot be divided into {', '.join(SPLITS)}: 3 are needed")
    return splits


def _form(name: str) -> str:
    match = _FORM.fullmatch(name)
    return match["form"] if match else name.rpartition("-")[0] or name


def _share(form: str) -> str:
    """Of ten forms one is for validation and one for test."""
    bucket = int(hashlib.sha256(form.encode()).hexdigest()[:8], 16) % 10
    return "valid" if bucket == 8 else "test" if bucket == 9 else "train"
