"""Attention is three steps: score a query against keys, normalize, sum the values.

Every mechanism here is these steps with another definition of query, key, value, score and normalizer::

    import regard
    from regard.scores import Additive

    attention = regard.Attention(Additive(query_dim=512, key_dim=1024, hidden_dim=512))
    out = attention(query, key, value, mask=regard.masks.lengths(source_lengths))
    out.context, out.weights

Names load on first use, so ``import regard`` costs nothing.
"""

from regard._lazy import front

__version__ = "0.1.0"

_HOMES = {
    "attended": ("Attended",),
    "attention": ("Attention", "attend"),
    "edges": ("EdgeAttention", "Edges", "attend_edges"),
    "glimpses.spatial_transformer": ("SpatialTransformer",),
    "heads": ("MultiHead",),
    "memory": ("Memory",),
    "runs": ("load", "train"),
    "tape": ("Tape", "change", "record"),
}
_ROOMS = (
    *("explain", "glimpses", "kernels", "masks", "normalizers", "parts", "positions", "refiners", "scores", "windows"),
)

__getattr__, __dir__ = front(__name__, _HOMES, _ROOMS)
