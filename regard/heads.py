"""Many heads: attention several times side by side, each head with projections of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard import masks
from regard._checks import check_tensors
from regard.attended import Attended, Want
from regard.attention import Attention
from regard.kernels.forms import AdditiveForm, DotForm, replaced
from regard.masks import Mask, Span
from regard.memory import Memory
from regard.parts import Normalizer, Position, Score, arguments, build, find
from regard.spoiled import shielded


class MultiHead(nn.Module):
    """softmax-or-other(score(x W^Q, y W^K)) z W^V in ``heads`` subspaces, joined by W^O. Vaswani et al. 2017
    (arXiv:1706.03762), section 3.2.2, for any score and normalizer.

    Args:
        dim: width of the queries and of the result; a multiple of ``heads``.
        heads: number of heads, each ``dim // heads`` wide.
        key_heads: number of heads that keys and values have, a divisor of ``heads``; by default as many. Consecutive
            heads of queries then share keys (grouped queries, Ainslie et al. 2023, arXiv:2305.13245; with 1, Shazeer's
            multi-query attention), and a :class:`~regard.memory.Memory` is smaller by as much.
        window: a query sees only the keys at most so far from its own place, as with ``mask=masks.window(…)``, and with
            a causal mask only those before it; time and memory are then O(T·window). Mistral's ``sliding_window=W`` is
            ``window=W - 1`` with a causal mask.
        positions: a part that turns queries and keys by their places, or its name: ``"rotary"``. Keys stand at 0, 1, …,
            also as a memory grows, and the last query stands at the last key.
        score: a name builds one score per head of keys, at head width and with parameters of its own; an instance is
            shared.
        key_dim: width of the keys, ``dim`` by default.
        value_dim: width of the values, ``key_dim`` by default.
        normalizer: an instance or a name.
        dropout: share of weights dropped in training.
        bias: whether the four projections have a bias.

    ``context`` is (B, T, dim), after W^O; ``weights`` are (B, H, T, S). Unbatched (T, dim) works too.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        key_heads: int | None = None,
        window: int | None = None,
        positions: str | Position | None = None,
        score: str | Score = "scaled_dot",
        key_dim: int | None = None,
        value_dim: int | None = None,
        normalizer: str | Normalizer = "softmax",
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        if heads < 1 or dim % heads:
            raise ValueError(f"dim must be a multiple of heads: dim={dim}, heads={heads}")
        self.dim, self.heads, self.head_dim = dim, heads, dim // heads
        self.key_heads = heads if key_heads is None else key_heads
        if self.key_heads < 1 or heads % self.key_heads:
            raise ValueError(f"key_heads must divide heads: heads={heads}, key_heads={key_heads}")
        self.group, shared_dim = heads // self.key_heads, self.key_heads * self.head_dim
        self.key_dim = dim if key_dim is None else key_dim
        self.value_dim = self.key_dim if value_dim is None else value_dim
        self.window = None if window is None else masks.window(window)
        self.positions: Position | None = None if positions is None else build("positions", positions)
        self.query = nn.Linear(dim, dim, bias=bias)
        self.key = nn.Linear(self.key_dim, shared_dim, bias=bias)
        self.value = nn.Linear(self.value_dim, shared_dim, bias=bias)
        self.out = nn.Linear(dim, dim, bias=bias)
        if isinstance(score, str):
            score = PerHead.build(score, self.key_heads, self.head_dim)
        self.attention = Attention(score, normalizer, dropout=dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for projection in (self.query, self.key, self.value, self.out):
            nn.init.xavier_uniform_(projection.weight)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> Self:
        """The same attention with the weights of torch's, which computes the same. Always batch first."""
        if module.bias_k is not None or module.add_zero_attn:
            raise ValueError("add_bias_kv and add_zero_attn have no counterpart here")
        new = cls(
            module.embed_dim,
            module.num_heads,
            key_dim=module.kdim,
            value_dim=module.vdim,
            dropout=module.dropout,
            bias=module.in_proj_bias is not None,
        )
        joint_weight = module.in_proj_weight
        separate_weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        weights = joint_weight.chunk(3) if joint_weight is not None else separate_weights
        with torch.no_grad():
            for projection, weight in zip((new.query, new.key, new.value), weights, strict=True):
                projection.weight.copy_(weight)
            new.out.weight.copy_(module.out_proj.weight)
            if module.in_proj_bias is not None:
                for projection, bias in zip((new.query, new.key, new.value), module.in_proj_bias.chunk(3), strict=True):
                    projection.bias.copy_(bias)
                new.out.bias.copy_(module.out_proj.bias)
        return new.to(device=module.out_proj.weight.device, dtype=module.out_proj.weight.dtype).train(module.training)

    def remember(self, key: Tensor, value: Tensor | None = None, *, mask: Mask | Tensor | None = None) -> Memory:
        """Keys (B, S, key_dim) and values (B, S, value_dim), by default the keys, projected and split into heads."""
        value = key if value is None else value
        check_tensors(key=key, value=value)
        for name, tensor, width in (("key", key, self.key_dim), ("value", value, self.value_dim)):
            if tensor.ndim not in (2, 3) or tensor.shape[-1] != width:
                shape = tuple(tensor.shape)
                raise ValueError(f"this MultiHead takes {name} (B, S, {width}) or (S, {width}), not {shape}")
        return Memory(*self._project(key, value), self._mask(mask, key.ndim == 2), self._project, self.group)

    def start(self, memory: Memory) -> Any:
        """The state before the first query; None for most scores."""
        return self.attention.start(memory.repeated())

    def forward(
        self,
        query: Tensor,
        key: Tensor | Memory | None = None,
        value: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        state: Any = None,
        weights: Want = "lazy",
        generator: torch.Generator | None = None,
        **unknown: Never,
    ) -> Attended:
        """Look with queries (B, T, dim) at keys (B, S, key_dim) and values (B, S, value_dim), at a memory, or, with
        neither, at the queries themselves."""
        check_tensors(query=query)
        if query.ndim not in (2, 3) or query.shape[-1] != self.dim:
            raise ValueError(
                f"this MultiHead takes query (B, T, {self.dim}) or (T, {self.dim}), not {tuple(query.shape)}"
            )
        unbatched, memory_mask, mask = query.ndim == 2, None, masks.both(masks.as_mask(mask), self.window)
        rows = query[None] if unbatched else query
        if key is None:
            if value is not None:
                raise ValueError("value= without key=: self-attention has neither, cross-attention both")
            if self.key_dim != self.dim or self.value_dim != self.dim:
                key = query  # remember says what is wrong
        if isinstance(key, Memory):
            if value is not None:
                raise ValueError("value= beside a Memory: the memory has its own values")
            queries, memory, memory_mask = self.query(rows), key, self._mask(mask, unbatched)
        elif key is not None:
            if key.ndim != query.ndim:
                raise ValueError(f"query {tuple(query.shape)} and key {tuple(key.shape)} differ in rank")
            queries, memory = self.query(rows), self.remember(key, value, mask=mask)
        else:
            layers = (self.query, self.key, self.value)
            queries, keys, values = _joint(rows, layers) if _plain(layers) else [layer(rows) for layer in layers]
            memory = Memory(*self._heads(keys, values), self._mask(mask, unbatched), self._project, self.group)
        split = self._placed(self._split(queries), memory.length - rows.shape[-2])
        out = self.attention(
            split, memory, mask=memory_mask, state=state, weights=weights, generator=generator, **unknown
        )
        context = self.out(out.context.transpose(-3, -2).flatten(-2))  # (B, H, T, d) → (B, T, H·d)
        return _joined(out, context, unbatched)

    def _project(self, key: Tensor, value: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Keys and values as the heads see them, (B, G, S, d), of which the first stands at place ``first``."""
        shared = value is key
        key, value = (t if t.ndim == 3 else t[None] for t in (key, value))
        layers = (self.key, self.value)
        if not shared or not _plain(layers):
            return self._heads(shielded(self.key, key), shielded(self.value, value), first)
        key, value = shielded(lambda rows: _side_by_side(rows, layers), key).chunk(2, dim=-1)
        return self._heads(key, value, first)

    def _heads(self, key: Tensor, value: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        return shielded(self.attention.score.project, self._placed(self._split(key), first)), self._split(value)

    def _placed(self, rows: Tensor, first: int) -> Tensor:
        """Queries or keys of heads, at their places."""
        return rows if self.positions is None else self.positions(rows, first)

    def _mask(self, mask: Mask | Tensor | None, single: bool) -> Mask | None:
        mask = masks.as_mask(mask)
        return _Unbatched(mask) if single and mask is not None else mask

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, H·d) → (B, H, T, d), for as many heads as x is wide."""
        return x.unflatten(-1, (x.shape[-1] // self.head_dim, self.head_dim)).transpose(-3, -2)

    def extra_repr(self) -> str:
        key_heads = "" if self.group == 1 else f", key_heads={self.key_heads}"
        window = "" if self.window is None else f", window={self.window.radius}"
        return f"dim={self.dim}, heads={self.heads}{key_heads}{window}"


class PerHead(Score):
    """One score per head, each with its own parameters. Shapes: (B, H, T, d), (B, H, S, d') → (B, H, T, S)."""

    def __init__(self, scores: list[Score]):
        super().__init__()
        self.scores: Any = nn.ModuleList(scores)

    @staticmethod
    def build(name: str, heads: int, head_dim: int) -> Score:
        """The named score at head width: once if it has no parameters, else once per head."""
        cls = find("scores", name)
        required = arguments(cls, required=True)
        widths = {"query_dim": head_dim, "key_dim": head_dim, "hidden_dim": head_dim}
        unknown = [argument for argument in required if argument not in widths]
        if unknown:
            raise ValueError(
                f"score {name!r} needs {', '.join(unknown)} besides its widths: build an instance at head width "
                f"{head_dim} and pass that; it is shared by all heads"
            )
        scores: list[Any] = [cls(**{argument: widths[argument] for argument in required}) for _ in range(heads)]
        return PerHead(scores) if any(True for _ in scores[0].parameters()) else scores[0]

    def project(self, key: Tensor) -> Tensor:
        return torch.stack([score.project(key[..., h, :, :]) for h, score in enumerate(self.scores)], dim=-3)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        scores = [score(query[..., h, :, :], key[..., h, :, :]) for h, score in enumerate(self.scores)]
        return torch.stack(scores, dim=-3)

    def form(self, query: Tensor, key: Tensor) -> DotForm | AdditiveForm | None:
        forms = [score.form(query[..., h, :, :], key[..., h, :, :]) for h, score in enumerate(self.scores)]
        first = forms[0]
        if first is None:
            return None
        # The scores that are built by name take the projected keys as they are: no need to stack a cache at each step.
        stacked = {"query": torch.stack([form.query for form in forms], dim=-3), "key": key}
        if isinstance(first, AdditiveForm):
            return replaced(first, **stacked, weight=torch.stack([form.weight for form in forms]))
        return replaced(first, **stacked)


def _plain(layers: Sequence[nn.Module]) -> bool:
    return all(type(layer) is nn.Linear for layer in layers)


def _joint(x: Tensor, layers: Sequence[nn.Linear]) -> Sequence[Tensor]:
    """The output of each of several plain linear layers."""
    return _side_by_side(x, layers).split([layer.out_features for layer in layers], dim=-1)


def _side_by_side(x: Tensor, layers: Sequence[nn.Module]) -> Tensor:
    """The outputs of plain linear layers, concatenated: one product is faster than several."""
    weights, biases = ([getattr(layer, name) for layer in layers] for name in ("weight", "bias"))
    return linear(x, torch.cat(weights), None if biases[0] is None else torch.cat(biases))


class _Unbatched(Mask):
    """A mask for (T, S) scores, applied to scores (1, H, T, S)."""

    def __init__(self, mask: Mask):
        self.mask = mask

    def tensor(self, shape: tuple[int, ...], device: torch.device | str | None = None) -> Tensor:
        return self.mask.tensor(shape[-2:], device)[(None,) * (len(shape) - 2)]

    @property
    def sparse(self) -> bool:  # type: ignore[override]
        return self.mask.sparse

    def conjuncts(self) -> list[Mask]:
        return [_Unbatched(mask) for mask in self.mask.conjuncts()]

    def band(self) -> tuple[int | None, int | None] | None:
        return self.mask.band()

    def span(self, shape: tuple[int, ...], device: torch.device | str | None = None) -> Span | None:
        span = self.mask.span(shape[-2:], device)
        if span is None:
            return None
        first, stop = (end[(None,) * (len(shape) - 2)] for end in span)
        return first, stop

    def queries(self, rank: int) -> int:
        return self.mask.queries(2)

    def grow(self, shape: tuple[int, ...], count: int, allowed: bool = True) -> Mask:
        return _Unbatched(self.mask.grow(shape[-2:], count, allowed))


def _joined(out: Attended, context: Tensor, single: bool) -> Attended:
    """The heads' record with the joined context; weights and scores stay lazy."""
    weights, scores, log_prob = out._weights, out._scores, out.log_prob
    if single:
        context, weights, scores, log_prob = context[0], _first(weights), _first(scores), _first(log_prob)
    return Attended(context, weights, scores, out.state, log_prob)


def _first(field: Any) -> Any:
    return (lambda: field()[0]) if callable(field) else None if field is None else field[0]
