"""Nodes of graphs and their classes.

One graph of which some nodes are labelled, as Cora (the answer of a node may use the features of all), or many graphs,
as PPI (whole graphs are unseen until the test). The data is a folder in one of the formats of
:mod:`regard.data.graph_files`, a graph of PyTorch Geometric or NetworkX as it is, or generated
(:mod:`regard.data.graph_sets`).

A batch is one graph, disconnected if it holds several, and is not shared between processes:

=============  ========================================================================================================
``features``   (N, F), strided, or sparse CSR where little is in it
``edges``      :class:`regard.edges.Edges` of N nodes, self-loops last
``labels``     (N,) with −1 for unknown, or (N, C) of zeros and ones where a node may have several
``nodes``      (M,): those to predict
``turned``     of one graph with sparse features: their transpose, (F, N), with places instead of values
=============  ========================================================================================================

Metrics: accuracy or, with several labels a node, micro-F1.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from regard._lazy import nearest
from regard._settings import at_least
from regard.data import graph_files
from regard.data.download import locate
from regard.data.graph_batches import Sampler, join
from regard.data.graph_objects import foreign, is_foreign
from regard.data.graph_sets import GENERATED
from regard.data.graphs import Graph
from regard.data.sparse import compact, csr, is_sparse, rows_to_one
from regard.edges import Edges
from regard.tasks.task import GRAPHS, Batch, Loader, Rows, Task, check_split, generated

NORMALIZE = ("none", "rows", "columns")


@dataclass(frozen=True)
class Config:
    """Which graph, and how it is cut into batches."""

    data: str = "sbm"
    """A folder, the name of a known data set, or ``sbm``, ``lookup``, ``communities``: generated."""
    subset: str = ""
    """Which graph, if the folder holds several: ``cora``."""
    normalize: str = "none"
    """``rows``: features of a node sum to 1. ``columns``: each feature has mean 0, deviation 1 over training nodes."""
    symmetric: bool = True
    """Does an edge of edges.csv count both ways?"""
    self_loops: bool = True
    """Does a node attend to itself, too?"""
    batch_graphs: int = 1
    """Graphs to a batch, where there are many."""
    neighbours: int = 0
    """Neighbour sampling for large graphs: incoming edges sampled per node; 0 takes all nodes and edges at once."""
    hops: int = 2
    """How often neighbours of neighbours are drawn; as many as the system has layers."""
    batch_nodes: int = 1024
    """Nodes to a batch, where neighbours are drawn."""
    nodes: int = 600
    """Of a generated graph."""
    graphs: int = 20
    """Generated graphs to train on, where there are many."""
    keys: int = 10
    """Of a generated lookup graph."""
    data_seed: int = 0
    """Of generated data, and of a split where the data has none."""

    def __post_init__(self) -> None:
        if self.normalize not in NORMALIZE:
            raise ValueError(f"normalize cannot be {self.normalize!r}: {nearest(self.normalize, NORMALIZE)}")
        at_least(self, "batch_graphs", "hops", "batch_nodes", "graphs", neighbours=0, nodes=30, keys=2)


class Graphs(Task):
    """Nodes in, classes out; see the module's docstring.

    Args:
        data: a folder or a name as in ``config.data``, which it overrides; a PyG ``Data``, a NetworkX graph, or several
            by split, ``{"train": [...], "valid": [...], "test": [...]}``.
        known: the names of the classes, and ``scale``, the mean and deviation of the features.
    """

    kind: ClassVar[str] = "graph"
    family: ClassVar[str] = GRAPHS
    unit: ClassVar[str] = "nodes"
    settings: ClassVar[type] = Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known or {})
        classes, scale = self.known.get("classes"), self.known.get("scale")
        self.graphs = [replace(graph, self_loops=config.self_loops) for graph in self._read(classes)]
        widths = sorted({graph.features.shape[1] for graph in self.graphs})
        if len(widths) > 1 or len({graph.several for graph in self.graphs}) > 1:
            raise ValueError(f"the graphs of a set have features and labels alike, not {widths} features")
        self.several = self.graphs[0].several
        self.classes = list(classes) if classes is not None else self._classes()
        highest = self.graphs[0].labels.shape[1] if self.several else max(int(g.labels.max()) for g in self.graphs) + 1
        if highest > len(self.classes) or (self.several and highest < len(self.classes)):
            raise ValueError(f"the data has {highest} classes, and {len(self.classes)} were expected")
        self._originals = self.graphs
        self.scale: tuple[Tensor, Tensor] | None = scale
        """Mean and deviation of each feature, where columns are normalized."""
        self._normalize()
        self.known = {"classes": self.classes, "scale": self.scale}

    def _read(self, classes: Sequence[str] | None) -> list[Graph]:
        config, data = self.config, self.data
        if data is not None and is_foreign(data):
            return foreign(data, config.data_seed)
        where = data or config.data
        if str(where) in GENERATED and not Path(where).exists():
            return GENERATED[str(where)](config.nodes, config.graphs, config.keys, config.data_seed)
        try:
            folder = locate(where)
        except ValueError as error:
            raise ValueError(f"{error}; generated: {', '.join(GENERATED)}") from None
        settings: dict[str, Any] = dict(subset=config.subset, symmetric=config.symmetric, seed=config.data_seed)
        if (folder / _GRAPHS).exists():
            return _load_graphs(folder / _GRAPHS)
        return graph_files.read(folder, classes=classes, **settings)

    def _classes(self) -> list[str]:
        first = self.graphs[0]
        number = first.labels.shape[1] if self.several else max(int(g.labels.max()) for g in self.graphs) + 1
        if number < 1:
            raise ValueError("no node has a known label")
        return first.classes or [str(label) for label in range(number)]

    def _normalize(self) -> None:
        if self.config.normalize == "rows":
            self.graphs = [replace(graph, features=rows_to_one(graph.features)) for graph in self.graphs]
        elif self.config.normalize == "columns":
            if self.scale is None:
                train = [graph.features.to_dense()[graph.split == 0] for graph in self.graphs]
                if not sum(map(len, train)):
                    raise ValueError("normalize = 'columns' needs training nodes to take mean and deviation from")
                spread, mean = torch.std_mean(torch.cat(train), 0, correction=0)
                self.scale = mean, torch.where(spread == 0, 1.0, spread)
            mean, spread = self.scale
            self.graphs = [replace(g, features=(g.features.to_dense() - mean) / spread) for g in self.graphs]

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know: features, classes, and whether a node may have several."""
        width = self.graphs[0].features.shape[1]
        return {"features": width, "classes": len(self.classes), "several": self.several}

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        chosen, config = self._chosen(split), self.config
        if config.neighbours:
            whole = chosen[0] if len(chosen) == 1 else _one(chosen)
            nodes, sample = whole.of_split(split).numpy(), Sampler(whole, config.neighbours, config.hops)
            rows = Rows(len(nodes), config.batch_nodes, seed, shuffle)

            def make(random: np.random.Generator, epoch: int, number: int) -> Batch:
                return sample(nodes[rows(epoch, number)], random)

        else:
            rows = Rows(len(chosen), config.batch_graphs, seed, shuffle)
            # What was joined last is kept, so that an only graph is made into a batch once.
            joined = lru_cache(maxsize=4)(lambda some: join([chosen[row] for row in some], split))

            def make(random: np.random.Generator, epoch: int, number: int) -> Batch:
                return dict(joined(tuple(np.sort(rows(epoch, number)).tolist())))

        return generated(make, len(rows), seed=(seed,), fresh=shuffle, identity=self._identity(chosen, split))

    def wholes(self, split: str | None = None) -> Iterator[tuple[Graph, Batch]]:
        """Each graph of a split as a batch of its own, no neighbours left out; all graphs and nodes if None."""
        for graph in self.graphs if split is None else self._chosen(split):
            yield graph, join([graph], split)

    def evaluate(self, split: str, predictions: Sequence[Tensor]) -> dict[str, float]:
        """Metrics in percent of logits (M, C), a tensor for each of the first graphs that :meth:`wholes` gives."""
        chosen = self._chosen(split)[: len(predictions)]
        labels = torch.cat([graph.labels[graph.of_split(split)] for graph in chosen])
        return metrics(torch.cat(list(predictions)), labels)

    def pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Classes and scale; the graphs too, if they came as objects."""
        scale = None if self.scale is None else [part.tolist() for part in self.scale]
        came_as_object = self.data is not None and is_foreign(self.data)
        files = {_GRAPHS: _save_graphs(self._originals)} if came_as_object else {}
        return {"classes": self.classes, "scale": scale}, files

    @classmethod
    def unpack(cls, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
        lists = facts["scale"]
        scale = None if lists is None else (torch.tensor(lists[0]), torch.tensor(lists[1]))
        return {"classes": facts["classes"], "scale": scale}

    def _home(self) -> str | None:
        return None if self.data is not None and is_foreign(self.data) else super()._home()

    @classmethod
    def found(cls, folder: Path) -> Path | None:
        return folder if (folder / _GRAPHS).exists() else None

    def _chosen(self, split: str) -> list[Graph]:
        check_split(split)
        chosen = [graph for graph in self.graphs if len(graph.of_split(split))]
        if not chosen:
            raise ValueError(f"no node with a label is in the split {split!r}")
        return chosen

    def _identity(self, graphs: Sequence[Graph], split: str) -> dict[str, Any]:
        code = 0
        for graph in graphs:
            code = zlib.crc32(graph.labels.numpy().tobytes(), zlib.crc32(graph.index.numpy().tobytes(), code))
        settings = ("neighbours", "hops", "self_loops", "batch_graphs", "batch_nodes")
        return {"split": split, "content": code, **{name: getattr(self.config, name) for name in settings}}


def _one(graphs: Sequence[Graph]) -> Graph:
    together = join(graphs, None)
    before = np.cumsum([0, *(len(graph) for graph in graphs)])
    index = torch.cat([graph.index + int(start) for graph, start in zip(graphs, before)], dim=1)
    split = torch.cat([graph.split for graph in graphs])
    return Graph(together["features"], index, together["labels"], split, self_loops=graphs[0].self_loops)


class Adapted:
    """A loader of PyG (``NeighborLoader``, ``DataLoader`` …) as one of ours: its mini-batches become our batches.

    Of a mini-batch with ``batch_size`` that many first nodes are predicted, of another those with a known label. Where
    such a loader was stopped in the middle of an epoch, it goes on after as many batches as it had given, but in
    its own order.
    """

    def __init__(self, loader: Iterable[Any], *, self_loops: bool = True):
        self._loader, self._self_loops = loader, self_loops
        self.epoch = self._batch = 0

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        for number, data in enumerate(self._loader):
            if number >= self._batch:
                self._batch = number + 1
                yield self._convert(data)
        self.epoch, self._batch = self.epoch + 1, 0

    def _convert(self, data: Any) -> Batch:
        (graph,) = foreign(data)
        seeds = getattr(data, "batch_size", None)
        labelled = graph.labels.new_ones(len(graph)) if graph.several else graph.labels >= 0
        nodes = labelled.nonzero()[:, 0] if seeds is None else torch.arange(int(seeds))
        edges = Edges(graph.index, len(graph), self_loops=self._self_loops)
        return {"features": graph.features, "edges": edges, "labels": graph.labels, "nodes": nodes}

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is."""
        return {"epoch": self.epoch, "batch": self._batch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the loader of ``state`` was."""
        self.epoch, self._batch = state["epoch"], state["batch"]


def metrics(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy of the likeliest class, or micro-F1 of the labels that are likelier than not, in percent."""
    if labels.ndim == 1:
        return {"accuracy": 100 * float((logits.argmax(-1) == labels).double().mean())}
    predicted, right = logits > 0, labels > 0.5
    hits, wrong = int((predicted & right).sum()), int((predicted ^ right).sum())
    return {"f1": 100 * 2 * hits / max(2 * hits + wrong, 1)}


# ---------------------------------------------------------------------------------------------------------------------
# A graph that was given as an object is saved with the run

_GRAPHS = "graphs.safetensors"


def _save_graphs(graphs: Sequence[Graph]) -> bytes:
    tensors: dict[str, Tensor] = {}
    names: dict[str, str] = {}
    for number, graph in enumerate(graphs):
        key, features = f"{number}.", graph.features
        if is_sparse(features):
            tensors |= {
                key + "starts": features.crow_indices(),
                key + "columns": features.col_indices(),
                key + "values": features.values(),
                key + "width": torch.tensor(features.shape[1]),
            }
        else:
            tensors[key + "features"] = features
        tensors |= {key + "index": graph.index, key + "labels": graph.labels, key + "split": graph.split}
        if graph.names is not None:
            names[f"{number}"] = json.dumps(graph.names, ensure_ascii=False)
    return safetensors.torch.save({key: tensor.contiguous().clone() for key, tensor in tensors.items()}, metadata=names)


def _load_graphs(path: Path) -> list[Graph]:
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, "pt") as file:
        names = {key: json.loads(text) for key, text in (file.metadata() or {}).items()}
    graphs = []
    for number in range(len({key.split(".")[0] for key in tensors})):
        key = f"{number}."
        if key + "starts" in tensors:
            starts = tensors[key + "starts"]
            shape = (len(starts) - 1, int(tensors[key + "width"]))
            features = csr(starts, tensors[key + "columns"], tensors[key + "values"], shape)
        else:
            features = compact(tensors[key + "features"])
        index, labels, split = (tensors[key + name] for name in ("index", "labels", "split"))
        graphs.append(Graph(features, index, labels, split, names.get(f"{number}")).checked(str(path)))
    return graphs
