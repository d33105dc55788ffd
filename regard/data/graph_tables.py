"""A graph of one's own in tables.

``edges.csv`` (source, target), ``features.csv`` (node, and a column for each feature) and ``labels.csv`` (node, label,
and perhaps split); the split may have its own file ``split.csv`` (node, split). Several labels are written
``red;round``. Columns of other names in edges.csv, labels.csv and split.csv are not read.
"""

from __future__ import annotations

import csv as tables
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from regard._lazy import nearest
from regard.data import untrusted
from regard.data.graphs import NOWHERE, Graph, both_ways, ordered, split_number, with_split
from regard.data.sparse import compact, csr

MOST_LABELS, LONGEST_CELL = 1 << 27, 1_000
"""More than any real graph has; a file that only declares more must not take the memory for it."""
LARGEST = float(np.finfo(np.float32).max)


def read(folder: Path, symmetric: bool, classes: Sequence[str] | None, seed: int) -> Graph:
    """The graph of a folder; arguments as for :func:`regard.data.graph_files.read`."""
    files = {name: folder / f"{name}.csv" for name in ("edges", "features", "labels", "split")}
    edges = list(_rows(files["edges"], "source", "target"))
    labels = list(_rows(files["labels"], "node", "label", "split?"))
    numbers: dict[str, int] = {}
    if files["features"].exists():
        features, numbers = _features(files["features"])
    else:  # each node then has a feature of its own
        mentioned = [name for _, (name, *_) in labels] + [name for _, ends in edges for name in ends]
        for name in mentioned:
            numbers.setdefault(name, len(numbers))
        size = len(numbers)
        features = csr(torch.arange(size + 1), torch.arange(size), torch.ones(size), (size, size))

    def number(file: Path, line: int, name: str) -> int:
        if name not in numbers:
            raise ValueError(f"{file}, line {line}: there is no node {name!r} in {files['features'].name}")
        return numbers[name]

    pairs = [(number(files["edges"], line, a), number(files["edges"], line, b)) for line, (a, b) in edges]
    index = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    split = torch.full((len(numbers),), NOWHERE)
    texts: list[str | None] = [None] * len(numbers)
    lines = [0] * len(numbers)

    def place(file: Path, line: int, node: int, name: str) -> None:
        try:
            split[node] = split_number(name)
        except ValueError as error:
            raise ValueError(f"{file}, line {line}: {error}") from None

    for line, (name, label, where) in labels:
        node = number(files["labels"], line, name)
        if texts[node] is not None:
            raise ValueError(
                f"{files['labels']}, line {line}: node {name!r} has a label already, in line {lines[node]}"
            )
        texts[node], lines[node] = label, line
        place(files["labels"], line, node, where)
    for line, (name, where) in _rows(files["split"], "node", "split") if files["split"].exists() else ():
        place(files["split"], line, number(files["split"], line, name), where)
    target, class_names = _labels(files["labels"], texts, lines, classes)
    names = list(numbers)
    graph = Graph(
        features, torch.from_numpy(both_ways(index) if symmetric else index), target, split, names, class_names
    )
    return with_split(graph.checked(str(folder)), seed)


def _features(path: Path) -> tuple[torch.Tensor, dict[str, int]]:
    """(N, F) and the numbers of the nodes."""
    numbers: dict[str, int] = {}
    values: list[list[float]] = []
    header: list[str] = []
    for line, cells in _lines(path):
        if not header:
            header = cells
            if len(header) < 2 or header[0] != "node":
                raise ValueError(f"{path}, line {line}: the header is node, and a name for each feature")
            continue
        if len(cells) != len(header):
            raise ValueError(f"{path}, line {line}: {len(cells)} cells under {len(header)} names")
        if cells[0] in numbers:
            raise ValueError(f"{path}, line {line}: node {cells[0]!r} was there before")
        numbers[cells[0]] = len(numbers)
        try:
            row = [float(cell) for cell in cells[1:]]
        except ValueError:
            row = [math.nan]
        if not all(abs(value) <= LARGEST for value in row):
            name, cell = next(pair for pair in zip(header[1:], cells[1:]) if not _finite(pair[1]))
            raise ValueError(f"{path}, line {line}, column {name}: {cell!r} is not a finite number of float32")
        values.append(row)
    if not values:
        raise ValueError(f"{path}: no node is in it")
    return compact(torch.tensor(values)), numbers


def _finite(text: str) -> bool:
    try:
        return abs(float(text)) <= LARGEST
    except ValueError:
        return False


def _labels(
    path: Path, texts: list[str | None], lines: list[int], classes: Sequence[str] | None
) -> tuple[torch.Tensor, list[str]]:
    """The labels as a tensor, (N,) or (N, C) if a cell holds several."""
    filled = [text for text in texts if text]
    if not filled and classes is None:
        raise ValueError(f"{path}: no node has a label")
    several = any(";" in text for text in filled)
    marks = [[mark.strip() for mark in (text or "").split(";") if mark.strip()] for text in texts]
    try:
        names = list(classes) if classes is not None else ordered(mark for row in marks for mark in row)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    number_of = {mark: number for number, mark in enumerate(names)}
    for row, line in zip(marks, lines):
        for mark in row:
            if mark not in number_of:
                raise ValueError(f"{path}, line {line}: no class is called {mark!r}: {nearest(mark, names)}")
    if several and len(marks) * len(names) > MOST_LABELS:
        raise ValueError(f"{path}: {len(names):,} classes for {len(marks):,} nodes, which would not fit into memory")
    if not several:
        return torch.tensor([number_of[row[0]] if row else NOWHERE for row in marks]), names
    target = torch.zeros(len(marks), len(names))
    for node, row in enumerate(marks):
        target[node, [number_of[mark] for mark in row]] = 1.0
    return target, names


def _rows(path: Path, *columns: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and the cells of the named columns; one that ends in ? may be missing, and is then empty."""
    chosen: list[int | None] = []
    for line, cells in _lines(path):
        if not chosen:
            for column in columns:
                name = column.rstrip("?")
                if name not in cells and not column.endswith("?"):
                    raise ValueError(f"{path}, line {line}: no column is called {name!r}: {nearest(name, cells)}")
                chosen.append(cells.index(name) if name in cells else None)
            width = len(cells)
            continue
        if len(cells) != width:
            raise ValueError(f"{path}, line {line}: {len(cells)} cells under {width} names")
        yield line, ["" if place is None else cells[place] for place in chosen]


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and stripped cells of each line that is not empty."""
    if not path.exists():
        raise ValueError(
            f"{path} is missing: a graph is edges.csv, labels.csv and, unless nodes have none, features.csv"
        )
    with untrusted.regular(path).open(encoding="utf-8-sig", newline="") as file:
        reader = tables.reader(file)
        try:
            for cells in reader:
                if any(len(cell) > LONGEST_CELL for cell in cells):
                    raise ValueError(f"{path}, line {reader.line_num}: a cell of more than {LONGEST_CELL:,} characters")
                if any(cell.strip() for cell in cells):
                    yield reader.line_num, [cell.strip() for cell in cells]
        except (UnicodeDecodeError, tables.Error) as error:
            raise ValueError(f"{path}, after line {reader.line_num}: not CSV in UTF-8 ({error})") from None
