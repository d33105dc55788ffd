"""Graph attention: a node looks at its neighbours.

Veličković, Cucurull, Casanova, Romero, Liò & Bengio 2018, *Graph Attention Networks* (arXiv:1710.10903).

Node i attends to the nodes that an edge leads from, and to itself; 𝒩ᵢ below holds both:

    eᵢⱼ = LeakyReLU(aᵀ [W hᵢ ‖ W hⱼ]),  αᵢⱼ = softmax over j ∈ 𝒩ᵢ of eᵢⱼ       query W hᵢ, key W hⱼ, value W hⱼ
    hᵢ′ = ‖ₖ ELU(Σⱼ αᵢⱼᵏ Wᵏ hⱼ + b)        K heads side by side; the last layer takes their mean, without ELU

Dropout falls on the input of every layer and on α. The middle layers may add their input to their output (the paper's
network for PPI does). Sparse features stay sparse: dropout falls on their values, and W meets no zero.

``attention`` chooses the score, and two controls:

``gat``       the paper's. LeakyReLU is monotone, so all nodes rank their neighbours alike.
``gatv2``     eᵢⱼ = aᵀ LeakyReLU(V hᵢ + W hⱼ) (Brody, Alon & Yahav 2021, arXiv:2105.14491): each ranks for itself.
``constant``  equal weights of all neighbours, the paper's Const-GAT: the query is 0, and so is every score.
``none``      no attention and no neighbours: a multi-layer perceptron of the same widths.

Deviations: the authors' code also drops values after W, each head with an input dropout of its own; the paper's text
does not, and neither do we.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard import kernels
from regard._lazy import nearest
from regard._settings import at_least
from regard.edges import EdgeAttention, Edges
from regard.layers.use import Use
from regard.scores import LeakyAdditive, LeakyConcat

Batch = dict[str, Any]
ATTENTION = ("gat", "gatv2", "constant", "none")


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's for Cora and Citeseer."""

    features: int
    classes: int
    several: bool = False
    """Can a node have several labels?"""
    attention: str = "gat"
    layers: int = 2
    heads: int = 8
    """Of all layers but the last."""
    hidden: int = 8
    """Features of a head."""
    out_heads: int = 1
    """Heads of the last layer, whose mean is the answer."""
    residual: bool = False
    """Do the middle layers add their input to their output?"""
    slope: float = 0.2
    """Of LeakyReLU below 0."""
    dropout: float = 0.6

    def __post_init__(self) -> None:
        if self.attention not in ATTENTION:
            raise ValueError(f"attention cannot be {self.attention!r}: {nearest(self.attention, ATTENTION)}")
        at_least(self, "features", "classes", "layers", "heads", "hidden", "out_heads")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout = {self.dropout}: it is a share, at least 0 and below 1")


VARIANTS: dict[str, dict[str, Any]] = {
    "gatv2": {"attention": "gatv2"},
    "constant": {"attention": "constant"},
    "mlp": {"attention": "none"},
    "pubmed": {"out_heads": 8},
    "ppi": {"layers": 3, "heads": 4, "hidden": 256, "out_heads": 6, "residual": True, "dropout": 0.0},
}


class Layer(nn.Module):
    """(N, width) → (N, heads, hidden)."""

    def __init__(self, width: int, heads: int, hidden: int, config: Config):
        super().__init__()
        self.heads, self.kind, self.dropout = heads, config.attention, config.dropout
        self.value = nn.Linear(width, heads * hidden, bias=False)
        nn.init.xavier_uniform_(self.value.weight)
        self.bias = nn.Parameter(torch.zeros(heads, hidden))
        if config.attention == "gat":
            self.attention = EdgeAttention(LeakyConcat(hidden, hidden, heads, config.slope), dropout=config.dropout)
        elif config.attention == "gatv2":
            self.query = nn.Linear(width, heads * hidden, bias=False)
            nn.init.xavier_uniform_(self.query.weight)
            self.attention = EdgeAttention(LeakyAdditive(hidden, heads, config.slope), dropout=config.dropout)
        elif config.attention == "constant":
            self.attention = EdgeAttention("dot", dropout=config.dropout)

    def forward(self, nodes: Tensor, edges: Edges, turned: Tensor | None = None) -> Tensor:
        nodes = dropped(nodes, self.dropout if self.training else 0.0)
        value = self._split(projected(nodes, self.value.weight, turned))
        if self.kind == "none":
            return value + self.bias
        if self.kind == "gatv2":
            query = self._split(projected(nodes, self.query.weight, turned))
        else:
            query = value if self.kind == "gat" else torch.zeros_like(value)
        return self.attention(query, value, value, edges, weights=False).context + self.bias

    def _split(self, nodes: Tensor) -> Tensor:
        return nodes.unflatten(-1, (self.heads, -1))


class GAT(nn.Module):
    """Layers of attention over one graph; see the module's docstring.

    A batch has ``features`` (N, F), strided or sparse CSR; ``edges``, :class:`regard.edges.Edges` with the self-loops
    that are wanted, or a (2, E) index, to which all are added; ``labels`` (N,), or (N, C) of zeros and ones for
    ``several`` labels; and ``nodes`` (M,), those to classify. Sparse features may come with ``turned``, their transpose
    in CSR, (F, N), which holds the index of each value instead of the value: backward needs it, and without it sorts
    again in each step. A batch is one graph, and cannot be cut into rows for several processes.
    """

    uses: ClassVar[dict[str, Use]] = {
        "layers.*.attention": Use(
            *("node W hᵢ", "neighbours W hⱼ", "neighbours W hⱼ", "leaky_concat (v2: leaky_additive)"),
            rows="nodes",
            columns="nodes",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        width, inner = config.features, config.heads * config.hidden
        sizes = [(config.heads, config.hidden)] * (config.layers - 1) + [(config.out_heads, config.classes)]
        self.layers = nn.ModuleList()
        for heads, hidden in sizes:
            self.layers.append(Layer(width, heads, hidden, config))
            width = inner

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The mean loss of ``nodes``, and the accuracy of their likeliest class, or of their labels."""
        logits, labels = self.logits(batch), batch["labels"][batch["nodes"]]
        count = labels.new_tensor(len(labels), dtype=torch.float32)
        if self.config.several:
            loss = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(-1)
            right = ((logits > 0) == (labels > 0.5)).float().mean(-1)
        else:
            loss = functional.cross_entropy(logits, labels, reduction="none")
            right = (logits.argmax(-1) == labels).float()
        share = 1 / count.clamp(min=1)
        return {"loss": loss.sum() * share, "count": count, "accuracy": right.sum() * share}

    def logits(self, batch: Batch) -> Tensor:
        """(M, C), before softmax or sigmoid."""
        hidden = batch["features"]
        self._check(hidden)
        edges = Edges.of(batch["edges"], hidden.shape[0], self_loops=True)
        turned = batch.get("turned")
        *inner, last = self.layers
        for number, layer in enumerate(inner):
            out = functional.elu(layer(hidden, edges, turned)).flatten(1)
            hidden, turned = out + hidden if self.config.residual and number else out, None
        return last(hidden, edges, turned).mean(1)[batch["nodes"]]

    def predict(self, batch: Batch) -> Tensor:
        """(M, C): the probability of each class."""
        logits = self.logits(batch)
        return logits.sigmoid() if self.config.several else logits.log_softmax(-1).exp()

    def _check(self, features: Tensor) -> None:
        if features.ndim != 2 or features.shape[1] != self.config.features:
            raise ValueError(
                f"features are {tuple(features.shape)}, but the system is built for (N, {self.config.features})"
            )


def dropped(nodes: Tensor, share: float) -> Tensor:
    """Dropout; of a sparse tensor, on the values that it has."""
    if not share:
        return nodes
    if nodes.layout == torch.strided:
        return nodes * _dropout_mask(nodes, share)
    values = nodes.values() * _dropout_mask(nodes.values(), share)
    return _csr(nodes, values)


def _dropout_mask(values: Tensor, share: float) -> Tensor:
    """The dropout mask: 0 or 1 / (1 − share). On the CPU torch draws number by number; a hash is much faster."""
    if values.device.type == "cpu":
        return kernels.edges.drawn(torch.randint(2**32, (2,)), values.shape, share).to(values.dtype)
    return torch.rand(values.shape, device=values.device).ge_(share).div_(1 - share).to(values.dtype)


def projected(nodes: Tensor, weight: Tensor, turned: Tensor | None = None) -> Tensor:
    """W h for each row, (N, F) → (N, out)."""
    if nodes.layout == torch.strided:
        return functional.linear(nodes, weight)
    with torch.autocast(nodes.device.type, enabled=False):  # sparse products know no half precision on the CPU
        if turned is None:
            return nodes @ weight.T
        return _Product.apply(nodes, _csr(turned, nodes.values()[turned.values()]), weight.T)


def _csr(like: Tensor, values: Tensor) -> Tensor:
    """A CSR tensor of the sparsity pattern of ``like`` with other values."""
    return torch.sparse_csr_tensor(like.crow_indices(), like.col_indices(), values, like.shape, check_invariants=False)


class _Product(torch.autograd.Function):
    """A sparse constant times a matrix; its transpose is given too, for backward."""

    @staticmethod
    def forward(ctx: Any, sparse: Tensor, turned: Tensor, matrix: Tensor) -> Tensor:
        ctx.pair = turned, sparse
        return kernels.sparse_product(sparse, matrix)

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, _Product.apply(*ctx.pair, *gradient)
