"""Graphs on disk, in the formats that people have: planetoid's, PPI's, and tables of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard._lazy import nearest
from regard.data import graph_tables, planetoid, ppi
from regard.data.graphs import Graph

FORMATS = "ind.NAME.graph (planetoid), NAME-G.json (PPI) or edges.csv"


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
    readers = {path.name[4:-6]: planetoid.read for path in folder.glob("ind.*.graph")}
    readers |= {path.name[:-7]: ppi.read for path in folder.glob("*-G.json")}
    if (folder / "edges.csv").exists() and subset in ("", "edges"):
        return [graph_tables.read(folder, symmetric, classes, seed)]
    if not readers:
        raise ValueError(f"{folder}: no graph is here; looked for {FORMATS}")
    if subset and subset not in readers:
        raise ValueError(f"{folder}: no graph here is called {subset!r}: {nearest(subset, readers)}")
    if not subset and len(readers) > 1:
        raise ValueError(f"{folder} holds {', '.join(sorted(readers))}: say which with subset=NAME")
    name = subset or next(iter(readers))
    return readers[name](folder, name)
