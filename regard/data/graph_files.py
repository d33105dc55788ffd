"""Graphs on disk, in the formats that people have.

planetoid
    ``ind.NAME.{y,allx,ally,tx,ty,graph,test.index}`` (Yang, Cohen & Salakhutdinov 2016, arXiv:1603.08861): pickles,
    which can run any program when they are unpickled. Here they are not: :mod:`regard.data.pickles` reads numpy
    arrays, scipy's CSR matrix (as a bag of arrays: scipy itself is not needed), dict and list, and refuses all else.
ppi
    ``NAME-{G.json,feats.npy,id_map.json,class_map.json}`` (Hamilton, Ying & Leskovec 2017, arXiv:1706.02216): many
    graphs in one file, several labels a node, whole graphs for training, validation and testing.
csv
    ``edges.csv`` (source, target), ``features.csv`` (node, and a column for each feature) and ``labels.csv`` (node,
    label, and perhaps split), for a graph of one's own; the split may have its own file ``split.csv`` (node, split).
    Several labels are written ``red;round``. Columns of other names in edges.csv, labels.csv and split.csv are not
    read.
"""

from __future__ import annotations

import csv as tables
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard._lazy import nearest
from regard.data import pickles, untrusted
from regard.data.graphs import NOWHERE, Graph, both_ways, encode, ordered, split_number, with_split
from regard.data.pickles import Global, Record, Refused
from regard.data.sparse import compact, csr, take

FORMATS = "ind.NAME.graph (planetoid), NAME-G.json (PPI) or edges.csv"
MOST_FEATURES, MOST_CLASSES, MOST_LABELS, LONGEST_CELL = 1 << 24, 1 << 16, 1 << 27, 1_000
"""More than anybody has; memory is not taken for what a file only declares."""
LARGEST = float(np.finfo(np.float32).max)


def read(
    folder: Path, *, subset: str = "", symmetric: bool = True, classes: Sequence[str] | None = None, seed: int = 0
) -> list[Graph]:
    """The graphs of a folder.

    Args:
        subset: which, if the folder holds several: ``cora``.
        symmetric: does an edge of edges.csv count both ways?
        classes: the names of the classes, if they are known already.
        seed: of the split, where the data has none.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: the data of a graph is a folder with {FORMATS}")
    found = {path.name[4:-6]: _planetoid for path in folder.glob("ind.*.graph")}
    found |= {path.name[:-7]: _ppi for path in folder.glob("*-G.json")}
    if (folder / "edges.csv").exists() and subset in ("", "edges"):
        return [_csv(folder, symmetric, classes, seed)]
    if not found:
        raise ValueError(f"{folder}: no graph is here; looked for {FORMATS}")
    if subset and subset not in found:
        raise ValueError(f"{folder}: no graph here is called {subset!r}: {nearest(subset, found)}")
    if not subset and len(found) > 1:
        raise ValueError(f"{folder} holds {', '.join(sorted(found))}: say which with subset=NAME")
    name = subset or next(iter(found))
    return found[name](folder, name)


# ---------------------------------------------------------------------------------------------------------------------
# Planetoid


# Pickles name classes by the modules that they were in at the time.
_NAMES = {
    *("numpy.ndarray", "numpy.dtype", "collections.defaultdict", "_codecs.encode"),
    *(f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")),
    *(f"numpy.{core}.numeric._frombuffer" for core in ("core", "_core")),
    *(f"scipy.sparse.{module}.csr_matrix" for module in ("csr", "_csr")),
    *(f"{module}._reconstructor" for module in ("copy_reg", "copyreg")),
    *(f"{module}.{name}" for module in ("__builtin__", "builtins") for name in ("object", "list", "bytes")),
}


def _made(name: Any, arguments: Any) -> Any:
    """What numpy, scipy or Python would make: a record of an array, of its type or of a sparse matrix; a dict; bytes,
    which Python 2 and old protocols write as a text of latin-1."""
    match name, arguments:
        case Global("_reconstruct"), (Global("ndarray"), _, _):
            return Record("ndarray")
        case Global("_frombuffer"), (data, dtype, shape, "C" | "F" as order):
            return Record("ndarray", (1, shape, dtype, order == "F", data))
        case Global("dtype"), (str(kind), _, _):
            return Record(kind)
        case (Global("csr_matrix"), ()) | (Global("_reconstructor"), (Global("csr_matrix"), Global("object"), None)):
            return Record("csr_matrix")
        case Global("defaultdict"), (Global("list"),):
            return {}
        case Global("encode"), (str(text), "latin1"):
            return text
        case Global("bytes"), ():
            return ""
    raise Refused("a call in the pickle was refused: it makes no array, sparse matrix or dict")


def _unpickle(path: Path) -> Any:
    if not path.exists():
        raise ValueError(f"{path} is missing: planetoid data is ind.NAME.y, allx, ally, tx, ty, graph and test.index")
    data = untrusted.read(path)
    try:
        return pickles.load(data, _NAMES, _made)
    except Refused as error:
        raise ValueError(f"{path}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: not a planetoid file, or damaged: {str(error)[:200]}") from None


def _array_of(path: Path, record: Any) -> np.ndarray:
    """The array that was pickled."""
    match record:
        case Record("ndarray", (1, tuple(shape), Record(kind, dtype), 0 | 1 as fortran, data)):
            match dtype, data:
                case (3, str(order), None, None, None, -1, -1, 0), str() | bytes() | bytearray():
                    try:
                        plain = data.encode("latin1") if isinstance(data, str) else data
                        return untrusted.numbers(plain, order + kind, shape, bool(fortran))
                    except ValueError as error:
                        raise ValueError(f"{path}: {error}") from None
    raise ValueError(f"{path}: expected an array of numbers")


def _array(path: Path) -> np.ndarray:
    """A pickled array of numbers, (N, C)."""
    found = _array_of(path, _unpickle(path))
    if found.ndim != 2 or not 0 < found.shape[1] <= MOST_CLASSES or not np.isfinite(found).all():
        raise ValueError(f"{path}: expected an array (nodes, classes) of finite numbers, not {found.shape}")
    return found


def _matrix(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, int]]:
    """A pickled CSR matrix: row and column of each value, the values, the shape."""
    match _unpickle(path):
        case Record("csr_matrix", {"data": data, "indices": indices, "indptr": indptr} as about):
            shape = about.get("_shape", about.get("shape"))
        case _:
            raise ValueError(f"{path}: expected a CSR matrix (nodes, features)")
    values, columns, starts = (_array_of(path, record) for record in (data, indices, indptr))
    match shape:
        case int(height), int(width) if (
            values.ndim == columns.ndim == starts.ndim == 1
            and 0 <= height == len(starts) - 1
            and 0 < width <= MOST_FEATURES
            and "f" not in columns.dtype.kind + starts.dtype.kind
            and (starts[0], starts[-1], len(columns)) == (0, len(values), len(values))
            and (starts[:-1] <= starts[1:]).all()
            and (columns >= 0).all()
            and (columns < width).all()
        ):
            rows = np.repeat(np.arange(height), (starts[1:] - starts[:-1]).astype(np.int64))
            return rows, columns.astype(np.int64), values, (height, width)
    raise ValueError(f"{path}: a damaged CSR matrix, or one of more than {MOST_FEATURES:,} features")


def _planetoid(folder: Path, name: str) -> list[Graph]:
    """One graph, features in bag-of-words, the split of Yang et al.: the first nodes train, the next 500 valid."""

    def at(part: str) -> Path:
        return folder / f"ind.{name}.{part}"

    test = _numbers(at("test.index"))
    (rows, columns, values, shape), (test_rows, test_columns, test_values, test_shape) = map(
        _matrix, (at("allx"), at("tx"))
    )
    train_size, labels, test_labels = len(_array(at("y"))), _array(at("ally")), _array(at("ty"))
    for part, have, want in (("ally", len(labels), shape[0]), ("ty", len(test_labels), test_shape[0])):
        if have != want:
            raise ValueError(f"{at(part)}: {have} rows of labels for {want} rows of features")
    if test_labels.shape[1] != labels.shape[1]:
        raise ValueError(f"{at('ty')}: {test_labels.shape[1]} classes, but {labels.shape[1]} in {at('ally').name}")
    if len(test) != test_shape[0] or test_shape[1] != shape[1]:
        raise ValueError(f"{at('tx')}: features are {test_shape} for {len(test)} test nodes of {shape[1]} features")
    count = max(shape[0], int(test.max(initial=-1)) + 1)  # Citeseer has test nodes without features and label
    if count > 10 * (shape[0] + len(test)):
        raise ValueError(f"{at('test.index')}: node {count - 1}, but only {shape[0] + len(test)} nodes have features")
    row, column = np.concatenate([rows, test[test_rows]]), np.concatenate([columns, test_columns])
    order = np.lexsort((column, row))
    row, column = row[order], column[order]
    if (twice := (np.diff(row) == 0) & (np.diff(column) == 0)).any():
        node, feature = (int(part[:-1][twice][0]) for part in (row, column))
        raise ValueError(f"{at('allx')}: feature {feature} of node {node} is there twice")
    with np.errstate(over="ignore"):  # what does not fit into float32 is not finite, and named by Graph.checked
        value = np.concatenate([values, test_values])[order].astype(np.float32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=count))])
    classes = torch.full((count,), NOWHERE)
    classes[: len(labels)], classes[torch.from_numpy(test)] = _hot(labels), _hot(test_labels)
    split = torch.full((count,), NOWHERE)
    split[:train_size], split[train_size : min(train_size + 500, shape[0])] = 0, 1
    split[torch.from_numpy(test)] = 2
    index = torch.from_numpy(both_ways(_neighbours(at("graph"), count)))
    features = csr(starts, column, value, (count, shape[1]))
    return [Graph(features, index, classes, split, classes=_names(name, labels.shape[1])).checked(str(at("allx")))]


def _hot(labels: np.ndarray) -> torch.Tensor:
    """(N, C) → (N,): the class whose number is largest, if one is not 0."""
    return torch.from_numpy(np.where(labels.any(1), labels.argmax(1), NOWHERE))


def _neighbours(path: Path, count: int) -> np.ndarray:
    """(2, E) from a dict of lists."""
    found = _unpickle(path)
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected a dict from each node to its neighbours")
    pairs: list[tuple[int, int]] = []
    most = path.stat().st_size  # each neighbour takes a byte at least, unless one list is used many times
    for node, others in found.items():
        for other in others if isinstance(others, list) else [others]:
            if not (isinstance(node, int) and isinstance(other, int) and 0 <= node < count and 0 <= other < count):
                raise ValueError(
                    f"{path}: an edge joins {_shown(node)} and {_shown(other)}, but nodes are 0 to {count - 1}"
                )
            pairs.append((node, other))
        if len(pairs) > most:
            raise ValueError(f"{path}: more edges than a file of {most:,} bytes can hold")
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def _numbers(path: Path) -> np.ndarray:
    """One node a line."""
    if not path.exists():
        raise ValueError(f"{path} is missing")
    found = []
    for line, text in enumerate(untrusted.read(path).decode(errors="replace").split("\n"), 1):
        if text.strip():
            if not re.fullmatch("[0-9]{1,9}", text.strip()):
                raise ValueError(f"{path}, line {line}: expected the number of a node, not {text[:40]!r}")
            found.append(int(text.strip()))
    if len(set(found)) < len(found):
        raise ValueError(f"{path}: a node is named twice")
    return np.array(found, dtype=np.int64)


def _names(name: str, number: int) -> list[str]:
    """What planetoid's classes mean, where that is known."""
    known = {
        "cora": "theory, reinforcement learning, genetic algorithms, neural networks, probabilistic methods, "
        "case based, rule learning",
    }.get(name, "").split(", ")
    return known if len(known) == number else [str(label) for label in range(number)]


# ---------------------------------------------------------------------------------------------------------------------
# PPI


def _ppi(folder: Path, name: str) -> list[Graph]:
    """Graphs are the connected parts. A part of fewer than three nodes belongs to the graph of the node before it in
    the file (as in the code of the GAT paper), or after it where the splits differ."""
    where, features_file = folder / f"{name}-G.json", folder / f"{name}-feats.npy"
    about = _json(where)
    nodes, links = about.get("nodes"), about.get("links")
    if not isinstance(nodes, list) or not isinstance(links, list) or not nodes:
        raise ValueError(f"{where}: expected {{'nodes': [...], 'links': [...]}}")
    try:
        ids = [node["id"] for node in nodes]
        split = np.array([2 if node.get("test") else 1 if node.get("val") else 0 for node in nodes])
        ends = [(link["source"], link["target"]) for link in links]
    except (AttributeError, KeyError, TypeError):
        raise ValueError(f"{where}: a node has id, val and test; a link has source and target") from None
    for node in (*ids, *(end for pair in ends for end in pair)):
        if not _is_name(node):
            raise ValueError(f"{where}: a node is called by a text or a whole number, not by {_shown(node)}")
    # networkx 1 wrote places in the list of nodes, networkx 2 their ids.
    place = {node: row for row, node in enumerate(ids)}
    if len(place) < len(ids):
        raise ValueError(f"{where}: {len(ids)} nodes have {len(place)} different ids")
    numbers = all(isinstance(end, int) for pair in ends for end in pair)
    if numbers and not all(a in place and b in place for a, b in ends):
        place = {row: row for row in range(len(ids))}
    for link, (a, b) in enumerate(ends):
        if a not in place or b not in place:
            raise ValueError(f"{where}: link {link} joins {_shown(a)} and {_shown(b)}, and there is no such node")
    index = both_ways(np.array([(place[a], place[b]) for a, b in ends], dtype=np.int64).reshape(-1, 2).T)

    rows_file, labels_file = folder / f"{name}-id_map.json", folder / f"{name}-class_map.json"
    rows, marks = _json(rows_file), _json(labels_file)
    for file, found in ((rows_file, rows), (labels_file, marks)):
        if missing := [node for node in ids if str(node) not in found]:
            raise ValueError(f"{file}: node {_shown(missing[0])} is not in it ({len(missing)} are missing)")
    features = untrusted.npy(_ppi_file(features_file), features_file)
    if features.ndim != 2:
        raise ValueError(f"{features_file}: features are {features.shape}, and not (nodes, features)")
    row = [rows[str(node)] for node in ids]
    for node, number in zip(ids, row):
        if type(number) is not int or not 0 <= number < len(features):
            raise ValueError(f"{rows_file}: node {_shown(node)} has row {_shown(number)} of features {features.shape}")
    if len(set(row)) < len(row):
        raise ValueError(f"{rows_file}: two nodes have the same row of features")
    labels, classes = _classes(labels_file, ids, [marks[str(node)] for node in ids])
    part = _together(_components(index, len(ids)), split)
    with np.errstate(over="ignore"):  # what does not fit into float32 is not finite, and named by Graph.checked
        whole = compact(torch.from_numpy(features[row].astype(np.float32)))
    # Nodes by their part, and each edge with them: one pass, however many parts there are.
    order, edges = np.argsort(part, kind="stable"), np.argsort(part[index[0]], kind="stable")
    firsts = np.flatnonzero(np.diff(part[order], prepend=-1))
    cuts = np.searchsorted(part[index[0]][edges], part[order][firsts[1:]])
    new = np.empty(len(ids), dtype=np.int64)
    new[order] = np.arange(len(ids)) - np.repeat(firsts, np.diff(firsts, append=len(ids)))
    graphs = []
    for chosen, inside in zip(np.split(order, firsts[1:]), np.split(edges, cuts)):
        taken = torch.from_numpy(chosen)
        names = [str(ids[node]) for node in chosen]
        joined = torch.from_numpy(new[index[:, inside]])
        one = Graph(take(whole, taken), joined, labels[taken], torch.from_numpy(split[chosen]), names, classes)
        graphs.append(one.checked(str(where)))
    return graphs


def _shown(value: Any) -> str:
    """A value in a message, whatever a file has there."""
    return repr(value)[:40] if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def _is_name(value: Any) -> bool:
    """Is it what a node or a class may be called in JSON?"""
    return isinstance(value, str) or (type(value) is int and value.bit_length() < 64)


def _classes(path: Path, ids: list[Any], given: list[Any]) -> tuple[torch.Tensor, list[str] | None]:
    """The labels of nodes: one each, or for each as many zeros and ones."""
    width = next((len(label) for label in given if isinstance(label, list)), None)
    for node, label in zip(ids, given):
        if width is None:
            fits, what = _is_name(label), "a text or a whole number"
        else:
            fits = isinstance(label, list) and len(label) == width > 0 and all(mark in (0, 1) for mark in label)
            what = f"{width} zeros and ones"
        if not fits and label is not None:
            raise ValueError(f"{path}: the label of node {_shown(node)} is {_shown(label)}, not {what}")
    try:
        return encode(given)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _components(index: np.ndarray, count: int) -> np.ndarray:
    """(N,): the smallest node that each is connected to. Rounds grow as the logarithm of N."""
    part = np.arange(count)
    while True:
        before = part.copy()
        np.minimum.at(part, before[index[1]], before[index[0]])
        part = part[part]
        if (part == before).all():
            return part


def _together(part: np.ndarray, split: np.ndarray) -> np.ndarray:
    """Parts of one or two nodes joined to the larger part beside them that is in the same split."""
    part, sizes = part.copy(), np.bincount(part, minlength=len(part))
    large = np.flatnonzero(sizes[part] >= 3)
    if not len(large):
        return np.zeros_like(part)
    for node in np.flatnonzero(sizes[part] < 3):
        after = int(np.searchsorted(large, node))
        beside = [large[place] for place in (after - 1, after) if 0 <= place < len(large)]
        same = [other for other in beside if split[other] == split[node]] or beside
        part[node] = part[same[0]]
    return part


def _ppi_file(path: Path) -> bytes:
    if not path.exists():
        raise ValueError(f"{path} is missing: PPI data is NAME-G.json, -feats.npy, -id_map.json and -class_map.json")
    return untrusted.read(path)


def _json(path: Path) -> dict[str, Any]:
    found = untrusted.parse_json(_ppi_file(path), path)
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected a JSON object")
    return found


# ---------------------------------------------------------------------------------------------------------------------
# CSV


def _csv(folder: Path, symmetric: bool, classes: Sequence[str] | None, seed: int) -> Graph:
    files = {name: folder / f"{name}.csv" for name in ("edges", "features", "labels", "split")}
    edges = list(_rows(files["edges"], "source", "target"))
    labels = list(_rows(files["labels"], "node", "label", "split?"))
    numbers: dict[str, int] = {}
    if files["features"].exists():
        features, numbers = _features(files["features"])
    else:  # a node is then known by nothing but itself
        named = [name for _, (name, *_) in labels] + [name for _, ends in edges for name in ends]
        for name in named:
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
    target, known = _labels(files["labels"], texts, lines, classes)
    names = list(numbers)
    made = Graph(features, torch.from_numpy(both_ways(index) if symmetric else index), target, split, names, known)
    return with_split(made.checked(str(folder)), seed)


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
    given = [text for text in texts if text]
    if not given and classes is None:
        raise ValueError(f"{path}: no node has a label")
    several = any(";" in text for text in given)
    marks = [[mark.strip() for mark in (text or "").split(";") if mark.strip()] for text in texts]
    try:
        known = list(classes) if classes is not None else ordered(mark for row in marks for mark in row)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    place = {mark: number for number, mark in enumerate(known)}
    for row, line in zip(marks, lines):
        for mark in row:
            if mark not in place:
                raise ValueError(f"{path}, line {line}: no class is called {mark!r}: {nearest(mark, known)}")
    if several and len(marks) * len(known) > MOST_LABELS:
        raise ValueError(f"{path}: {len(known):,} classes for {len(marks):,} nodes, which would not fit into memory")
    if not several:
        return torch.tensor([place[row[0]] if row else NOWHERE for row in marks]), known
    target = torch.zeros(len(marks), len(known))
    for node, row in enumerate(marks):
        target[node, [place[mark] for mark in row]] = 1.0
    return target, known


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
