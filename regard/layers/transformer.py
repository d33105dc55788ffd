"""The Transformer's layers, for any system that is a stack of them.

Vaswani et al. 2017, *Attention Is All You Need* (arXiv:1706.03762). A layer looks at its own sequence, in a decoder
also at what was encoded, and then passes every position through a feed-forward network. Each of these sub-layers has a
residual: LayerNorm(x + Dropout(f(x))) as in the paper (``norm="post"``), or x + Dropout(f(LayerNorm(x))) with a last
LayerNorm after the stack (``norm="pre"``), which needs no warm-up when the model is deep.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard import masks
from regard.layers.dropout import Dropout

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
POSITIONS = ("sinusoid", "learned", "rotary")


@dataclass(frozen=True)
class LayerConfig:
    """Sizes and choices of one layer."""

    dim: int
    heads: int
    hidden: int
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm: str = "post"
    score: str = "scaled_dot"
    normalizer: str = "softmax"
    activation: str = "relu"
    positions: str = "sinusoid"
    """``sinusoid`` or ``learned``, added to the embeddings, or ``rotary``, in every self-attention."""
    key_heads: int | None = None
    window: int | None = None
    """Self-attention sees only the positions at most so far away."""

    def __post_init__(self) -> None:
        if self.positions not in POSITIONS:
            raise ValueError(f"positions are one of {', '.join(POSITIONS)}, not {self.positions!r}")
        if self.norm not in ("pre", "post"):
            raise ValueError(f"norm is 'pre' or 'post', not {self.norm!r}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is one of {', '.join(ACTIVATIONS)}, not {self.activation!r}")

    @classmethod
    def of(cls, config: Any) -> LayerConfig:
        """From a system's ``Config`` that has fields of the same names."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: getattr(config, name) for name in names if hasattr(config, name)})


class Embedding(nn.Module):
    """Words and positions: √d · E[token] + PE[position].

    With ``kind="learned"`` positions are embeddings too, E[token] + P[position] (+ S[segment]), for at most ``longest``
    tokens; with ``"rotary"`` they are left to the heads.

    Args:
        segments: kinds of segments, such as the first and second sentence; 0 for none.
        norm: a LayerNorm over the sum, before dropout.
    """

    def __init__(
        self,
        vocab: int,
        dim: int,
        dropout: float,
        pad: int = 0,
        *,
        kind: str = "sinusoid",
        longest: int = 512,
        segments: int = 0,
        norm: bool = False,
    ):
        super().__init__()
        self.kind, self.longest = kind, longest
        self.words = nn.Embedding(vocab, dim, padding_idx=pad)
        spread = dim**-0.5 if kind == "sinusoid" else SPREAD
        nn.init.normal_(self.words.weight, std=spread)
        with torch.no_grad():
            self.words.weight[pad].zero_()
        self.dropout = Dropout(dropout)
        self.scale = dim**0.5 if kind == "sinusoid" else 1.0
        if kind == "sinusoid":
            self.positions: Tensor
            self.register_buffer("positions", positions(512, dim), persistent=False)
        elif kind == "learned":
            self.places = nn.Embedding(longest, dim)
            nn.init.normal_(self.places.weight, std=SPREAD)
        self.segments = nn.Embedding(segments, dim) if segments else None
        if self.segments is not None:
            nn.init.normal_(self.segments.weight, std=SPREAD)
        self.norm = nn.LayerNorm(dim) if norm else None

    def forward(self, tokens: Tensor, first: int = 0, segments: Tensor | None = None) -> Tensor:
        """(B, T) → (B, T, dim); the first token stands at position ``first``. Without ``segments`` (B, T), all are in
        segment 0."""
        x = self.words(tokens)
        x = x * self.scale if self.scale != 1 else x
        if self.kind != "rotary":
            x = x + self._at(first, first + tokens.shape[1])
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        return self.dropout(x if self.norm is None else self.norm(x))

    def _at(self, first: int, last: int) -> Tensor:
        if self.kind == "learned":
            if last > self.longest:
                raise ValueError(f"{last} tokens are more than the {self.longest} that this model has positions for")
            return self.places.weight[first:last]
        if last > self.positions.shape[0]:  # a longer sentence than any before
            self.positions = positions(2 * last, self.positions.shape[1]).to(self.positions)
        return self.positions[first:last]


SPREAD = 0.02
"""Standard deviation of the first weights of GPT and BERT."""


def initialize(model: nn.Module, layers: int) -> None:
    """Weights of linear layers from a normal distribution of :data:`SPREAD`; those that end a sub-layer are smaller by
    √(2 · layers), so that the sum of all residuals does not grow with depth (Radford et al. 2019, section 2.3)."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            last = name.endswith(("own.out", "cross.out", "think.2"))
            nn.init.normal_(module.weight, std=SPREAD / (2 * layers) ** 0.5 if last else SPREAD)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def positions(length: int, dim: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos of the same; (length, dim)."""
    angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, dim, 2) / dim)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :dim]


class Residual(nn.Module):
    """What surrounds a sub-layer: norm, dropout and the way past it."""

    def __init__(self, config: LayerConfig):
        super().__init__()
        self.norm = nn.LayerNorm(config.dim)
        self.dropout = Dropout(config.dropout)
        self.first = config.norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class Layer(nn.Module):
    """Self-attention, attention to what was encoded (``cross``, in a decoder), feed-forward network."""

    def __init__(self, config: LayerConfig, cross: bool):
        super().__init__()
        choices: dict[str, Any] = {"score": config.score, "normalizer": config.normalizer}
        choices |= {"dropout": config.attention_dropout, "key_heads": config.key_heads}
        turned = "rotary" if config.positions == "rotary" else None
        self.own = regard.MultiHead(config.dim, config.heads, window=config.window, positions=turned, **choices)
        self.around_own = Residual(config)
        if cross:
            self.cross = regard.MultiHead(config.dim, config.heads, **choices)
            self.around_cross = Residual(config)
        activation = ACTIVATIONS[config.activation]()
        self.think = nn.Sequential(
            nn.Linear(config.dim, config.hidden), activation, nn.Linear(config.hidden, config.dim)
        )
        self.around_think = Residual(config)

    def forward(
        self, x: Tensor, mask: masks.Mask | None, encoded: Tensor | None = None, source_mask: masks.Mask | None = None
    ) -> Tensor:
        x = self.around_own(x, lambda x: self.own(x, mask=mask).context)
        if encoded is not None:
            x = self.around_cross(x, lambda x: self.cross(x, encoded, mask=source_mask).context)
        return self.around_think(x, self.think)

    def step(
        self, x: Tensor, own: regard.Memory, cross: regard.Memory | None = None, *, weights: bool = False
    ) -> tuple[Tensor, regard.Memory, Tensor | None]:
        """New positions (B, T, dim), one as a rule: the layer's output, the longer cache, and the weights (B, H, T, S)
        over what was encoded, if wanted."""
        results: dict[str, Any] = {"weights": None}
        mask = masks.causal() if x.shape[1] > 1 else None

        def look_at_own(x: Tensor) -> Tensor:
            results["own"] = own.append(x)
            return self.own(x, results["own"], mask=mask, weights=False).context

        def look_at_source(x: Tensor) -> Tensor:
            out = self.cross(x, cross, weights=weights)
            results["weights"] = out.weights
            return out.context

        x = self.around_own(x, look_at_own)
        if cross is not None:
            x = self.around_cross(x, look_at_source)
        return self.around_think(x, self.think), results["own"], results["weights"]


class Encoder(nn.Module):
    """Layers of self-attention."""

    def __init__(self, config: LayerConfig, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(Layer(config, cross=False) for _ in range(layers))
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def forward(self, x: Tensor, mask: masks.Mask | None) -> Tensor:
        """(B, S, dim) → (B, S, dim)."""
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """Layers that look at the positions so far and, with ``cross``, at what was encoded."""

    def __init__(self, config: LayerConfig, layers: int, cross: bool = True):
        super().__init__()
        self.layers: Any = nn.ModuleList(Layer(config, cross) for _ in range(layers))
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def forward(self, x: Tensor, encoded: Tensor | None = None, mask: masks.Mask | None = None) -> Tensor:
        """(B, T, dim) → (B, T, dim); ``mask`` says which of ``encoded`` (B, S, dim) may be attended."""
        # No padding mask for x itself: padding comes last, where a causal query that matters never looks.
        for layer in self.layers:
            x = layer(x, masks.causal(), encoded, mask)
        return self.norm(x)

    def start(self, batch: Tensor, encoded: Tensor | None = None, mask: masks.Mask | None = None) -> dict[str, Any]:
        """Caches before the first position: ``own``, empty, and ``cross``, the encoded keys and values, projected once.
        ``batch`` (B, ·, dim) says how many rows there are."""
        caches: dict[str, Any] = {"own": [layer.own.remember(batch[:, :0]) for layer in self.layers]}
        if encoded is not None:
            caches["cross"] = [layer.cross.remember(encoded, mask=mask) for layer in self.layers]
        return caches

    def step(
        self, x: Tensor, caches: dict[str, Any], *, weights_of: int | None = None
    ) -> tuple[Tensor, dict[str, Any], Tensor | None]:
        """New positions (B, T, dim), one as a rule → (B, dim) of the last, the caches after it, and the weights
        (B, H, T, S) of one layer over what was encoded."""
        layer_number = None if weights_of is None else range(len(self.layers))[weights_of]
        cross = caches.get("cross") or [None] * len(self.layers)
        own_memories, weights = [], None
        for number, layer in enumerate(self.layers):
            x, memory, layer_weights = layer.step(
                x, caches["own"][number], cross[number], weights=number == layer_number
            )
            own_memories.append(memory)
            weights = layer_weights if layer_weights is not None else weights
        return self.norm(x)[:, -1], {**caches, "own": own_memories}, weights
