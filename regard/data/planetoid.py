"""Planetoid: ``ind.NAME.{y,allx,ally,tx,ty,graph,test.index}`` (Yang, Cohen & Salakhutdinov 2016, arXiv:1603.08861).

These are pickles, which can run any program when they are unpickled. Here they are not: :mod:`regard.data.pickles`
reads numpy arrays, scipy's CSR matrix (as a bag of arrays: scipy itself is not needed), dict and list, and refuses all
else.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import pickles, untrusted
from regard.data.graphs import NOWHERE, Graph, both_ways
from regard.data.pickles import Global, Record, Refused
from regard.data.sparse import csr
from regard.data.untrusted import shown

MOST_FEATURES, MOST_CLASSES = 1 << 24, 1 << 16
"""More than any real graph has; a file that only declares more must not take the memory for it."""


# Pickles name classes by the modules that they were in at the time.
_NAMES = {
    *("numpy.ndarray", "numpy.dtype", "collections.defaultdict", "_codecs.encode"),
    *(f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")),
    *(f"numpy.{core}.numeric._frombuffer" for core in ("core", "_core")),
    *(f"scipy.sparse.{module}.csr_matrix" for module in ("csr", "_csr")),
    *(f"{module}._reconstructor" for module in ("copy_reg", "copyreg")),
    *(f"{module}.{name}" for module in ("__builtin__", "builtins") for name in ("object", "list", "bytes")),
}


def _construct(name: Any, arguments: Any) -> Any:
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
        return pickles.load(data, _NAMES, _construct)
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
    array = _array_of(path, _unpickle(path))
    if array.ndim != 2 or not 0 < array.shape[1] <= MOST_CLASSES or not np.isfinite(array).all():
        raise ValueError(f"{path}: expected an array (nodes, classes) of finite numbers, not {array.shape}")
    return array


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


def read(folder: Path, name: str) -> list[Graph]:
    """One graph, features in bag-of-words, the split of Yang et al.: the first nodes train, the next 500 valid."""

    def at(part: str) -> Path:
        return folder / f"ind.{name}.{part}"

    test = _numbers(at("test.index"))
    (rows, columns, values, shape), (test_rows, test_columns, test_values, test_shape) = map(
        _matrix, (at("allx"), at("tx"))
    )
    train_size, labels, test_labels = len(_array(at("y"))), _array(at("ally")), _array(at("ty"))
    for part, actual, expected in (("ally", len(labels), shape[0]), ("ty", len(test_labels), test_shape[0])):
        if actual != expected:
            raise ValueError(f"{at(part)}: {actual} rows of labels for {expected} rows of features")
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
    if (repeated := (np.diff(row) == 0) & (np.diff(column) == 0)).any():
        node, feature = (int(part[:-1][repeated][0]) for part in (row, column))
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
    adjacency = _unpickle(path)
    if not isinstance(adjacency, dict):
        raise ValueError(f"{path}: expected a dict from each node to its neighbours")
    pairs: list[tuple[int, int]] = []
    most = path.stat().st_size  # each neighbour takes a byte at least, unless one list is used many times
    for node, others in adjacency.items():
        for other in others if isinstance(others, list) else [others]:
            if not (isinstance(node, int) and isinstance(other, int) and 0 <= node < count and 0 <= other < count):
                raise ValueError(
                    f"{path}: an edge joins {shown(node)} and {shown(other)}, but nodes are 0 to {count - 1}"
                )
            pairs.append((node, other))
        if len(pairs) > most:
            raise ValueError(f"{path}: more edges than a file of {most:,} bytes can hold")
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def _numbers(path: Path) -> np.ndarray:
    """One node a line."""
    if not path.exists():
        raise ValueError(f"{path} is missing")
    nodes = []
    for line, text in enumerate(untrusted.read(path).decode(errors="replace").split("\n"), 1):
        if text.strip():
            if not re.fullmatch("[0-9]{1,9}", text.strip()):
                raise ValueError(f"{path}, line {line}: expected the number of a node, not {text[:40]!r}")
            nodes.append(int(text.strip()))
    if len(set(nodes)) < len(nodes):
        raise ValueError(f"{path}: a node is named twice")
    return np.array(nodes, dtype=np.int64)


def _names(name: str, number: int) -> list[str]:
    """The names of planetoid's classes, where these are known."""
    meanings = {
        "cora": "theory, reinforcement learning, genetic algorithms, neural networks, probabilistic methods, "
        "case based, rule learning",
    }.get(name, "").split(", ")
    return meanings if len(meanings) == number else [str(label) for label in range(number)]
