"""PPI: ``NAME-{G.json,feats.npy,id_map.json,class_map.json}`` (Hamilton, Ying & Leskovec 2017, arXiv:1706.02216).

Many graphs in one file, several labels a node, whole graphs for training, validation and testing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import untrusted
from regard.data.graphs import Graph, both_ways, encode
from regard.data.sparse import compact, take
from regard.data.untrusted import shown


def read(folder: Path, name: str) -> list[Graph]:
    """Graphs are the connected parts. A part of fewer than three nodes belongs to the graph of the node before it in
    the file (as in the code of the GAT paper), or after it where the splits differ."""
    where, features_file = folder / f"{name}-G.json", folder / f"{name}-feats.npy"
    content = _json(where)
    nodes, links = content.get("nodes"), content.get("links")
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
            raise ValueError(f"{where}: a node is called by a text or a whole number, not by {shown(node)}")
    # networkx 1 wrote places in the list of nodes, networkx 2 their ids.
    place = {node: row for row, node in enumerate(ids)}
    if len(place) < len(ids):
        raise ValueError(f"{where}: {len(ids)} nodes have {len(place)} different ids")
    numbers = all(isinstance(end, int) for pair in ends for end in pair)
    if numbers and not all(a in place and b in place for a, b in ends):
        place = {row: row for row in range(len(ids))}
    for link, (a, b) in enumerate(ends):
        if a not in place or b not in place:
            raise ValueError(f"{where}: link {link} joins {shown(a)} and {shown(b)}, and there is no such node")
    index = both_ways(np.array([(place[a], place[b]) for a, b in ends], dtype=np.int64).reshape(-1, 2).T)

    rows_file, labels_file = folder / f"{name}-id_map.json", folder / f"{name}-class_map.json"
    rows, marks = _json(rows_file), _json(labels_file)
    for file, mapping in ((rows_file, rows), (labels_file, marks)):
        if missing := [node for node in ids if str(node) not in mapping]:
            raise ValueError(f"{file}: node {shown(missing[0])} is not in it ({len(missing)} are missing)")
    features = untrusted.npy(_ppi_file(features_file), features_file)
    if features.ndim != 2:
        raise ValueError(f"{features_file}: features are {features.shape}, and not (nodes, features)")
    row = [rows[str(node)] for node in ids]
    for node, number in zip(ids, row):
        if type(number) is not int or not 0 <= number < len(features):
            raise ValueError(f"{rows_file}: node {shown(node)} has row {shown(number)} of features {features.shape}")
    if len(set(row)) < len(row):
        raise ValueError(f"{rows_file}: two nodes have the same row of features")
    labels, classes = _classes(labels_file, ids, [marks[str(node)] for node in ids])
    part = _merged(_components(index, len(ids)), split)
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
        graph = Graph(take(whole, taken), joined, labels[taken], torch.from_numpy(split[chosen]), names, classes)
        graphs.append(graph.checked(str(where)))
    return graphs


def _is_name(value: Any) -> bool:
    """Is it what a node or a class may be called in JSON?"""
    return isinstance(value, str) or (type(value) is int and value.bit_length() < 64)


def _classes(path: Path, ids: list[Any], labels: list[Any]) -> tuple[torch.Tensor, list[str] | None]:
    """The labels of nodes: one each, or a list of zeros and ones each, all as long."""
    width = next((len(label) for label in labels if isinstance(label, list)), None)
    for node, label in zip(ids, labels):
        if width is None:
            fits, what = _is_name(label), "a text or a whole number"
        else:
            fits = isinstance(label, list) and len(label) == width > 0 and all(mark in (0, 1) for mark in label)
            what = f"{width} zeros and ones"
        if not fits and label is not None:
            raise ValueError(f"{path}: the label of node {shown(node)} is {shown(label)}, not {what}")
    try:
        return encode(labels)
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


def _merged(part: np.ndarray, split: np.ndarray) -> np.ndarray:
    """Parts of one or two nodes joined to the larger part beside them that is in the same split."""
    part, sizes = part.copy(), np.bincount(part, minlength=len(part))
    large = np.flatnonzero(sizes[part] >= 3)
    if not len(large):
        return np.zeros_like(part)
    for node in np.flatnonzero(sizes[part] < 3):
        after = int(np.searchsorted(large, node))
        neighbours = [large[place] for place in (after - 1, after) if 0 <= place < len(large)]
        same = [other for other in neighbours if split[other] == split[node]] or neighbours
        part[node] = part[same[0]]
    return part


def _ppi_file(path: Path) -> bytes:
    if not path.exists():
        raise ValueError(f"{path} is missing: PPI data is NAME-G.json, -feats.npy, -id_map.json and -class_map.json")
    return untrusted.read(path)


def _json(path: Path) -> dict[str, Any]:
    content = untrusted.parse_json(_ppi_file(path), path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object")
    return content
