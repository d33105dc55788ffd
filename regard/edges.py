"""Attention along the edges of a graph: the same steps, where each target looks only at the sources of its edges.

    edges = Edges(index, nodes, self_loops=True)            # (2, E), sources above targets, as in PyG
    out = attend_edges(query, key, value, edges)            # (N_t, H, D), (N_s, H, D), (N_s, H, F)
    out.context, out.weights, out.edges                     # (N_t, H, F), (E, H), which edge each weight is on

Letters: N_s sources, N_t targets (the same N nodes in most graphs), E edges, H heads, D the width of query and key, F
that of values, K that of the features of an edge. A target without an edge gets 0. Nothing of size E·H·F is built by
the fused kernels, which serve the dot family, :class:`~regard.scores.LeakyConcat` (GAT) and
:class:`~regard.scores.LeakyAdditive` (GATv2) in float32 on the CPU; every other score, precision and device takes the
plain path, which builds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from regard import kernels
from regard.attended import Attended, Want, witness
from regard.attention import drop, parts_of
from regard.kernels import edges as fused
from regard.kernels.forms import Featured
from regard.normalizers import Sigmoid, Softmax
from regard.parts import Normalizer, Parts, Score, build


class Rows(NamedTuple):
    """Edges sorted by the node at one of their ends (CSR): those of node n are start[n] to start[n + 1].

    Attributes:
        start: (N + 1,).
        node: (E,), the node at the other end, in ascending order for each n.
        place: (E,), where among the edges sorted by source it lies.
        edge: (E,), which edge of :attr:`Edges.index` it is.
    """

    start: Tensor
    node: Tensor
    place: Tensor
    edge: Tensor


class Edges:
    """The edges of a graph, sorted by target and by source when first needed, and then kept.

    Args:
        index: (2, E) integers, ``index[0]`` the source of each edge and ``index[1]`` its target, in any order. An edge
            that comes twice counts twice.
        nodes: how many nodes there are, or how many (sources, targets) in a bipartite graph; by default as many as the
            index names.
        self_loops: give every node one edge to itself, behind all others; self-loops that ``index`` has are dropped
            first, as PyG's ``GATConv`` does. In a bipartite graph, source n and target n are taken for one node.

    Attributes:
        index: (2, E) int64, the edges as they are used and as ``weights`` lists them.
        nodes: (N_s, N_t).
        given: which of the edges of ``index`` as it was given these are, without the self-loops behind them; None if no
            self-loops were added.
    """

    index: Tensor
    nodes: tuple[int, int]
    given: Tensor | None = None

    def __init__(self, index: Tensor, nodes: int | tuple[int, int] | None = None, *, self_loops: bool = False):
        index = _checked(index)
        self.nodes = _count(index, nodes)
        if self_loops:
            loops = torch.arange(min(self.nodes), device=index.device).expand(2, -1)
            self.given = (index[0] != index[1]).nonzero().squeeze(1)
            index = torch.cat([index[:, self.given], loops], dim=1)
        self.index = index
        self._sorted: dict[str, Tensor] = {}

    @classmethod
    def of(
        cls, edges: Edges | Tensor, nodes: int | tuple[int, int] | None = None, *, self_loops: bool = False
    ) -> Edges:
        """Edges as they are, or those of a (2, E) index."""
        return edges if isinstance(edges, Edges) else cls(edges, nodes, self_loops=self_loops)

    @classmethod
    def batch(cls, graphs: Sequence[Edges]) -> Self:
        """One graph of several that are not connected: nodes and edges one graph after the other."""
        if not graphs:
            raise ValueError("a batch of graphs holds at least one")
        indices, sources, targets = [], 0, 0
        for graph in graphs:
            indices.append(graph.index + graph.index.new_tensor([[sources], [targets]]))
            sources, targets = sources + graph.nodes[0], targets + graph.nodes[1]
        return cls(torch.cat(indices, dim=1), (sources, targets))

    def features(self, given: Tensor, fill: float | Tensor | Literal["mean"] = "mean") -> Tensor:
        """Features of the edges as they are used, (E, K), of those of the edges that were given: without the self-loops
        that were dropped, and with a row for each that was added.

        Args:
            given: (edges of ``index`` as it was given, K).
            fill: what a self-loop gets: ``"mean"`` of the features of the edges that come to the node, 0 if none does,
                as PyG's ``fill_value``; or a number, or (K,) numbers.
        """
        expected = len(self) if self.given is None else "as many rows as edges were given"
        if given.ndim != 2 or (self.given is None and given.shape[0] != len(self)):
            raise ValueError(f"features of the edges are ({expected}, K), not {tuple(given.shape)}")
        if self.given is None:
            return given
        if self.given.numel() and int(self.given[-1]) >= given.shape[0]:
            raise ValueError(f"edge {int(self.given[-1])} has no features: they are {tuple(given.shape)}")
        rows, loop_count = given[self.given], self.index.shape[1] - self.given.shape[0]
        if isinstance(fill, str):
            if fill != "mean":
                raise ValueError(f'fill is "mean", a number or {given.shape[1]} numbers, not {fill!r}')
            target = self.index[1, : len(rows)]
            total = rows.new_zeros(self.nodes[1], rows.shape[1]).index_add(0, target, rows)[:loop_count]
            count = torch.bincount(target, minlength=self.nodes[1])[:loop_count].clamp(min=1)
            return torch.cat([rows, total / count.unsqueeze(1).to(total.dtype)])
        row = torch.as_tensor(fill, dtype=rows.dtype, device=rows.device)
        return torch.cat([rows, row.expand(loop_count, rows.shape[1])])

    @property
    def incoming(self) -> Rows:
        """The edges of each target; ``node`` are their sources."""
        return self._rows("incoming")

    @property
    def outgoing(self) -> Rows:
        """The edges of each source; ``node`` are their targets."""
        return self._rows("outgoing")

    def joined(self, name: str) -> Tensor:
        """The four tensors of ``incoming`` or ``outgoing`` one behind the other, as the kernels read them."""
        if name not in self._sorted:
            source, target = self.index
            if name == "outgoing":
                _, edge = fused.sort_nodes(target, self.nodes[1])
                start, order = fused.sort_nodes(source[edge], self.nodes[0])
                edge, place, other = edge[order], torch.arange(len(self), device=self.device), target
            else:
                edge, other = self.outgoing.edge, source
                start, place = fused.sort_nodes(target[edge], self.nodes[1])
                edge = edge[place]
            self._sorted[name] = torch.cat([start, other[edge].to(start.dtype), place.to(start.dtype), edge])
        return self._sorted[name]

    @property
    def device(self) -> torch.device:
        return self.index.device

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Edges:
        """The same edges on another device, moved as a tensor would be."""
        if self.device == torch.device(device):
            return self
        tensors, about = _flatten(self)
        return _unflatten([tensor.to(device, non_blocking=non_blocking) for tensor in tensors], about)

    def _rows(self, name: str) -> Rows:
        joined, size = self.joined(name), len(self)
        return Rows(*joined.split([joined.shape[0] - 3 * size, size, size, size]))

    def __len__(self) -> int:
        """E, self-loops included."""
        return self.index.shape[1]

    def __repr__(self) -> str:
        sources, targets = self.nodes
        ends = f"{sources} nodes" if sources == targets else f"{sources} sources, {targets} targets"
        return f"Edges({ends}, {len(self)} edges)"


def attend_edges(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    edges: Edges | Tensor,
    *,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer = "softmax",
    features: Tensor | None = None,
    edge_key: Tensor | None = None,
    edge_value: Tensor | None = None,
    dropout: float = 0.0,
    weights: Want = "lazy",
    generator: torch.Generator | None = None,
) -> Attended:
    """Score, normalize, sum along edges: :func:`regard.attend` where target t may attend source s if an edge s → t is.

    Args:
        query: (N_t, H, D), or (N_t, D) without heads.
        key: (N_s, H, D).
        value: (N_s, H, F); the keys, if None.
        edges: which source each target looks at; a (2, E) index is sorted anew at each call.
        score: a name or an instance, except one of places or with a state.
        normalizer: softmax, over the edges of each target, or sigmoid.
        features: (E, K), a row for each of ``edges``; :meth:`Edges.features` adds those of self-loops. The key of an
            edge, as the score projects it, is the source's plus these.
        edge_key: (H, D, K), by which the features are multiplied before; None adds them as they are, K = D. D is the
            width of projected keys, which in :class:`~regard.scores.LeakyConcat` is 1.
        edge_value: (H, F, K): times this, they are also added to the value of the edge.
        dropout: the share of weights dropped; always, there is no training mode here.
        weights: ``"lazy"`` computes them when they are read, True now, False never.
        generator: drives dropout.

    Returns:
        ``context`` (N_t, H, F), or (N_t, F) without heads; ``weights`` and ``scores`` (E, H), in the order of
        ``edges.index``, H = 1 without heads.
    """
    parts = parts_of(score, normalizer)
    if any(parameter.requires_grad for parameter in parts.score.parameters()) and isinstance(score, str):
        raise ValueError(f"score {score!r} has parameters: build it once and use regard.EdgeAttention")
    featured = _featured(features, edge_key, edge_value)
    return _answer(parts, query, key, value, edges, featured, dropout, weights, generator)


class EdgeAttention(nn.Module):
    """:func:`attend_edges` with a score that has parameters.

    Args:
        score: an instance, or the name of a score without arguments. In GAT it is ``LeakyConcat(D, D, heads=H)``, and
            query, key and value are all W h, (N, H, D).
        normalizer: softmax or sigmoid.
        dropout: share of weights dropped in training.
        edge_dim: K, if edges have features. They are projected, without a bias, and added to the projected key of the
            edge: LeakyReLU(a·[q; k; f]) in ``LeakyConcat``, a·LeakyReLU(q + k + W f) in ``LeakyAdditive``, q·(k + W f)
            in the dot family.
        value_dim: F, if the features are also to be projected and added to the value of the edge.
        heads: H, for features with a score that does not say it; 1 by default.
        key_dim: D, likewise.

    Attributes:
        edge_key: (H, D, K), the projection of features for the score; D is 1 in ``LeakyConcat``.
        edge_value: (H, F, K), that for values.
    """

    edge_key: Tensor | None
    edge_value: Tensor | None

    def __init__(
        self,
        score: str | Score = "scaled_dot",
        normalizer: str | Normalizer = "softmax",
        *,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        value_dim: int | None = None,
        heads: int | None = None,
        key_dim: int | None = None,
    ):
        super().__init__()
        self.score: Score = build("scores", score)
        self.normalizer: Normalizer = build("normalizers", normalizer)
        self.dropout = dropout
        self.edge_key = self.edge_value = None
        _check_parts(Parts(self.score, self.normalizer), dropout)
        if edge_dim is not None:
            heads, width = _sizes_of(self.score, heads, key_dim)
            self.edge_key = nn.Parameter(_glorot(heads, width, edge_dim))
            if value_dim is not None:
                self.edge_value = nn.Parameter(_glorot(heads, value_dim, edge_dim))
        elif (value_dim, heads, key_dim) != (None, None, None):
            raise ValueError("value_dim=, heads= and key_dim= are about the features of edges: give edge_dim= too")

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None,
        edges: Edges | Tensor,
        *,
        features: Tensor | None = None,
        weights: Want = "lazy",
        generator: torch.Generator | None = None,
    ) -> Attended:
        """Look with N_t queries (N_t, H, D) at those of N_s keys (N_s, H, D) that an edge leads from; features of the
        edges are (E, K)."""
        if (features is None) != (self.edge_key is None):
            raise ValueError(
                "features= is given, but EdgeAttention is built without edge_dim="
                if self.edge_key is None
                else "EdgeAttention is built with edge_dim=, but the call has no features="
            )
        parts = Parts(self.score, self.normalizer)
        dropout = self.dropout if self.training else 0.0
        featured = _featured(features, self.edge_key, self.edge_value)
        return _answer(parts, query, key, value, edges, featured, dropout, weights, generator)


def _sizes_of(score: Score, heads: int | None, key_dim: int | None) -> tuple[int, int]:
    """H and the width of projected keys."""
    sizes = {"heads": getattr(score, "heads", None), "key_dim": score.key_dim}
    for name, argument in (("heads", heads), ("key_dim", key_dim)):
        if None not in (sizes[name], argument) and sizes[name] != argument:
            raise ValueError(f"{type(score).__name__} is built for {name}={sizes[name]}, not {argument}")
        sizes[name] = sizes[name] if argument is None else argument
    if sizes["key_dim"] is None:
        raise ValueError(f"{type(score).__name__} takes keys of any width: for features of edges, say key_dim=")
    heads = sizes["heads"] or 1
    with torch.no_grad():
        return heads, score.project(torch.zeros(heads, 1, sizes["key_dim"])).shape[-1]


def _glorot(heads: int, width: int, edge_dim: int) -> Tensor:
    bound = (6 / (width + edge_dim)) ** 0.5
    return torch.empty(heads, width, edge_dim).uniform_(-bound, bound)


def _featured(features: Tensor | None, key: Tensor | None, value: Tensor | None) -> Featured | None:
    if features is None and not (key is None and value is None):
        raise ValueError("edge_key= and edge_value= project features of edges: give features= too")
    return None if features is None else Featured(features, key, value)


def _answer(
    parts: Parts,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    edges: Edges | Tensor,
    featured: Featured | None,
    dropout: float,
    want: Want,
    generator: torch.Generator | None,
) -> Attended:
    """Check the call, give tensors without heads one, and look."""
    if not torch.compiler.is_compiling() and witness.see is not None:
        return witness.see(
            parts,
            want,
            lambda want, parts: _answer(parts, query, key, value, edges, featured, dropout, want, generator),
        )
    value = key if value is None else value
    if want not in ("lazy", True, False):
        raise ValueError(f"weights= is 'lazy', True or False, not {want!r}")
    _check_parts(parts, dropout)
    _check_tensors(parts.score, query, key, value)
    if not isinstance(edges, Edges):
        edges = Edges(edges, (key.shape[0], query.shape[0]))
    _check_edges(edges, query, key)
    without_heads = query.ndim == 2
    if without_heads:
        query, key, value = (t.unsqueeze(1) for t in (query, key, value))
    if featured is not None:
        _check_features(featured, edges, query, value)
    out = _look(parts, query, key, value, edges, featured, dropout, want, generator)
    if without_heads:
        out.context = out.context.squeeze(1)
    return out


def _look(
    parts: Parts,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Edges,
    featured: Featured | None,
    dropout: float,
    want: Want,
    generator: torch.Generator | None,
) -> Attended:
    """score → normalize → sum, over the edges of each target."""
    score, normalizer = parts.score, parts.normalizer
    kernel_fits = fused.short(len(edges), *edges.nodes) and parts.refiner is None
    same_rows = kernel_fits and query is key is value and (featured is None or featured.value is None)
    form: Any = kernels.lower_tied(score, value, featured) if same_rows else None
    if form is not None and featured is not None:
        _check_width(featured, score, 1)
    if form is None:
        queries = query.transpose(0, 1)  # (H, N_t, D): what scores take for queries and keys of H heads
        keys = score.project(key.transpose(0, 1))  # (H, N_s, D')
        if featured is not None:
            _check_width(featured, score, keys.shape[-1])
        form = kernels.lower_edges(score, queries, keys, value, featured) if kernel_fits else None
    if form is not None:
        featured = kernels.lower_features(featured)
        context = fused.attend(form, normalizer, value.float(), edges, dropout, generator, featured).to(value.dtype)
        if not want:
            return Attended(context, edges=edges)
        saved_features = None if featured is None else kernels.keep(featured)
        later = _Later(kernels.keep(form), normalizer, edges, value.dtype, saved_features)
        if want is True:
            return Attended(context, later.weights(), later.scores(), edges=edges)
        return Attended(context, later.weights, later.scores, edges=edges)

    source, target = edges.index
    keys, values = keys.transpose(0, 1)[source], value[source]
    if featured is not None:
        keys, values = featured.keys(keys), featured.values(values)
    scores = score.pairs(query[target], keys)  # (E, H)
    weights = kernels.narrowed(normalize(normalizer, scores, edges), value.dtype)
    if parts.refiner is not None:  # a change by regard.change, which must know which edges go to one target
        weights = parts.refiner(weights, edges)
    dropped = drop(weights, dropout, generator)
    context = sum_edges(dropped.unsqueeze(-1) * values, edges)
    return Attended(context, weights, scores, edges=edges) if want else Attended(context, edges=edges)


@dataclass(eq=False)
class _Later:
    """Scores and weights that the kernel did not write down, and what is needed to do so."""

    form: Any
    normalizer: Normalizer
    edges: Edges
    dtype: torch.dtype
    featured: Featured | None

    def scores(self) -> Tensor:
        return fused.scores(self.form, self.edges, self.featured).to(self.dtype)

    def weights(self) -> Tensor:
        scores = fused.scores(self.form, self.edges, self.featured)
        return normalize(self.normalizer, scores, self.edges).to(self.dtype)


def normalize(normalizer: Normalizer, scores: Tensor, edges: Edges) -> Tensor:
    """(E, H) → (E, H), over the edges of each target. In float32 where the scores are less precise."""
    if isinstance(normalizer, Sigmoid):
        return normalizer(scores, None)
    assert isinstance(normalizer, Softmax)
    precise = scores.to(torch.promote_types(scores.dtype, torch.float32)) / normalizer.temperature
    target = edges.index[1]
    peak = precise.new_full((edges.nodes[1], precise.shape[1]), float("-inf"))
    peak = peak.scatter_reduce(0, target.unsqueeze(1).expand_as(precise), precise.detach(), "amax")
    exponentials = torch.exp(precise - peak[target])
    weights = exponentials / sum_edges(exponentials, edges)[target]
    return weights.to(scores.dtype)


def sum_edges(rows: Tensor, edges: Edges) -> Tensor:
    """(E, …) → (N_t, …): for each target the sum over its edges, added up in float32 or better."""
    precise = rows.to(torch.promote_types(rows.dtype, torch.float32))
    total = precise.new_zeros(edges.nodes[1], *rows.shape[1:])
    return total.index_add(0, edges.index[1], precise).to(rows.dtype)


def _checked(index: Tensor) -> Tensor:
    """A copy of the index as int64, if it is one: the kernels trust it, so nobody else may change it."""
    if not isinstance(index, Tensor) or index.ndim != 2 or index.shape[0] != 2:
        kind = str(tuple(index.shape)) if isinstance(index, Tensor) else type(index).__name__
        raise ValueError(f"edges are a (2, E) tensor, sources above targets, not {kind}")
    if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        raise ValueError(f"an edge index holds integers, not {index.dtype}: write index.long()")
    return index.to(torch.int64, copy=True)


def _count(index: Tensor, nodes: int | tuple[int, int] | None) -> tuple[int, int]:
    """(N_s, N_t), when no edge leads outside."""
    low, high = (index.amin(1).tolist(), index.amax(1).tolist()) if index.shape[1] else ([0, 0], [-1, -1])
    if nodes is None:
        nodes = max(high) + 1
    sources, targets = (nodes, nodes) if isinstance(nodes, int) else nodes
    for end, name, size in ((0, "source", sources), (1, "target", targets)):
        if low[end] < 0 or high[end] >= size:
            bad = low[end] if low[end] < 0 else high[end]
            place = int((index[end] == bad).nonzero()[0])
            pair = " → ".join(str(n) for n in index[:, place].tolist())
            raise ValueError(f"edge {place}, {pair}, names {name} {bad}, but there are {size}, numbered from 0")
    return sources, targets


def _check_parts(parts: Parts, dropout: float) -> None:
    score, normalizer = parts.score, parts.normalizer
    if score.positional or "state" in score.needs:
        raise ValueError(f"{type(score).__name__} scores places in a sequence, and the nodes of a graph have none")
    if type(normalizer) not in (Softmax, Sigmoid):
        raise ValueError(f"edges are normalized by Softmax or Sigmoid, not by {type(normalizer).__name__}")
    if not 0.0 <= dropout <= 1.0:
        raise ValueError(f"dropout is a share between 0 and 1, not {dropout}")


def _check_tensors(score: Score, query: Tensor, key: Tensor, value: Tensor) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
        raise ValueError(f"nodes have rows (N, H, width), or all (N, width), not {shapes}")
    if not query.shape[1:-1] == key.shape[1:-1] == value.shape[1:-1]:
        raise ValueError(f"query, key and value differ in their number of heads: {shapes}")
    if key.shape[0] != value.shape[0]:
        raise ValueError(f"each key has one value: {shapes}")
    name = type(score).__name__
    for role, tensor, width in (("query", query, score.query_dim), ("key", key, score.key_dim)):
        if width is not None and tensor.shape[-1] != width:
            raise ValueError(f"{name} is built for {role}_dim={width}; {role} {tuple(tensor.shape)} is not so wide")
    if score.same_width and query.shape[-1] != key.shape[-1]:
        raise ValueError(f"{name} compares queries and keys of one width: {shapes}")
    heads = getattr(score, "heads", None)
    if heads is not None and heads != (1 if query.ndim == 2 else query.shape[1]):
        raise ValueError(f"{name} is built for heads={heads}: {shapes}")
    dtypes = {t.dtype for t in (query, key, value)}
    if len(dtypes) > 1 and not torch.is_autocast_enabled(query.device.type):
        raise ValueError(f"query, key and value differ in dtype: {query.dtype}, {key.dtype} and {value.dtype}")
    if not query.device == key.device == value.device:
        raise ValueError(f"query, key and value are on {query.device}, {key.device} and {value.device}")


def _check_edges(edges: Edges, query: Tensor, key: Tensor) -> None:
    if edges.nodes != (key.shape[0], query.shape[0]):
        raise ValueError(
            f"the edges are between {edges.nodes[0]} sources and {edges.nodes[1]} targets, but there are "
            f"{key.shape[0]} keys and {query.shape[0]} queries"
        )
    if edges.device != query.device:
        raise ValueError(f"the edges are on {edges.device}, but query on {query.device}: edges.to(query.device)")


def _check_features(featured: Featured, edges: Edges, query: Tensor, value: Tensor) -> None:
    features, heads = featured.features, 1 if query.ndim == 2 else query.shape[1]
    shape = tuple(features.shape)
    if features.ndim != 2 or len(features) != len(edges):
        hint = "; edges.features(…) adds those of self-loops" if edges.given is not None else ""
        raise ValueError(f"features are ({len(edges)}, K), a row for each edge, not {shape}{hint}")
    for name, weight in (("edge_key", featured.key), ("edge_value", featured.value)):
        if weight is None:
            continue
        if weight.ndim != 3 or (weight.shape[0], weight.shape[2]) != (heads, shape[1]):
            expected = f"({heads} heads, width, {shape[1]})"
            raise ValueError(f"{name} is {tuple(weight.shape)}, not {expected} for features {shape}")
    if featured.value is not None and featured.value.shape[1] != value.shape[-1]:
        raise ValueError(f"edge_value is {tuple(featured.value.shape)}, but values are {value.shape[-1]} wide")
    if features.device != query.device:
        raise ValueError(f"features are on {features.device}, but query on {query.device}")
    if features.dtype != query.dtype and not torch.is_autocast_enabled(query.device.type):
        raise ValueError(f"features and query differ in dtype: {features.dtype} and {query.dtype}")


def _check_width(featured: Featured, score: Score, width: int) -> None:
    feature_width = featured.features.shape[1] if featured.key is None else featured.key.shape[1]
    if feature_width != width:
        argument = "features" if featured.key is None else "edge_key"
        raise ValueError(
            f"keys as {type(score).__name__} projects them are {width} wide, but {argument}= {feature_width}"
        )


def _flatten(edges: Edges) -> tuple[list[Any], Any]:
    fields = {"index": edges.index, "given": edges.given}
    tensors = {name: tensor for name, tensor in fields.items() if tensor is not None} | edges._sorted
    return list(tensors.values()), (edges.nodes, tuple(tensors))


def _unflatten(children: Any, about: Any) -> Edges:
    edges, (nodes, names) = Edges.__new__(Edges), about
    fields = dict(zip(names, children, strict=True))
    edges.nodes, edges.index, edges.given = nodes, fields.pop("index"), fields.pop("given", None)
    edges._sorted = fields
    return edges


torch.utils._pytree.register_pytree_node(Edges, _flatten, _unflatten, serialized_type_name="regard.Edges")
