"""The Transformer: attention instead of recurrence.

Vaswani et al. 2017, *Attention Is All You Need* (arXiv:1706.03762).

Every layer looks: an encoder layer at its own sequence, a decoder layer at what it has written so far (causally) and at
the encoded source. Each look is multi-head scaled dot-product attention, softmax(Q Kᵀ / √d) V with Q = X W^Q,
K = Y W^K, V = Y W^V (keys and values share their source Y, not their projection), followed by a feed-forward network
max(0, x W₁ + b₁) W₂ + b₂. Each sub-layer has a residual: LayerNorm(x + Dropout(f(x))) as in the paper
(``norm="post"``), or x + Dropout(f(LayerNorm(x))) with a last LayerNorm (``norm="pre"``), which needs no warm-up when
the model is deep.

Embeddings are multiplied by √d and shared by source, target and the last projection if ``tied``; positions are added as
PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos of the same.

Deviation: dropout on attention weights is a choice of its own (``attention_dropout``); the paper drops only the outputs
of sub-layers and the embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import regard
from regard import masks
from regard.systems.parts import text
from regard.systems.parts.dropout import Dropout
from regard.systems.parts.look import Look


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's base model."""

    source_vocab: int
    target_vocab: int
    dim: int = 512
    heads: int = 8
    hidden: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm: str = "post"
    tied: bool = True
    score: str = "scaled_dot"
    normalizer: str = "softmax"
    label_smoothing: float = 0.1
    alignment_layer: int = -1
    """The decoder layer whose cross-attention says which source word a word came from."""
    alignment_head: int = -1
    """Its head; −1 averages all."""

    def __post_init__(self) -> None:
        if self.norm not in ("pre", "post"):
            raise ValueError(f"norm is 'pre' or 'post', not {self.norm!r}")
        if self.tied and self.source_vocab != self.target_vocab:
            sizes = f"{self.source_vocab} and {self.target_vocab}"
            raise ValueError(f"tied embeddings need one vocabulary for source and target, not {sizes}; or tied=false")


VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "big": {"dim": 1024, "heads": 16, "hidden": 4096, "dropout": 0.3},
}
"""The two models of the paper, as differences from the defaults."""


class Transformer(nn.Module):
    """Encoder and decoder; see the module's docstring."""

    looks: ClassVar[dict[str, Look]] = {
        "encoder.layers.*.own": Look("word x Wᑫ", "words x Wᴷ", "words x Wⱽ", "scaled dot, many heads"),
        "decoder.layers.*.own": Look("word y Wᑫ", "words so far Wᴷ", "words so far Wⱽ", "scaled dot, many heads"),
        "decoder.layers.*.cross": Look("word y Wᑫ", "encoded source Wᴷ", "encoded source Wⱽ", "scaled dot, many heads"),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.source = Embedding(config.source_vocab, config.dim, config.dropout)
        self.target = self.source if config.tied else Embedding(config.target_vocab, config.dim, config.dropout)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = nn.Linear(config.dim, config.target_vocab, bias=False)
        if config.tied:
            self.output.weight = self.target.words.weight

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of pairs."""
        mask = masks.lengths(batch["source_lengths"])
        encoded = self.encoder(self.source(batch["source"]), mask)
        hidden = self.decoder(self.target(text.inputs(batch)), encoded, mask)
        return text.loss(hidden, self.output, batch, self.config.label_smoothing)

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """Encode the source once; the caches of the decoder's own words are empty."""
        mask = masks.lengths(batch["source_lengths"])
        encoded = self.encoder(self.source(batch["source"]), mask)
        none = encoded[:, :0]
        return {
            "own": [layer.own.remember(none) for layer in self.decoder.layers],
            "cross": [layer.cross.remember(encoded, mask=mask) for layer in self.decoder.layers],
            "alignment": encoded.new_zeros(encoded.shape[:2]),
        }

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        x = self.target(token[:, None], first=state["own"][0].length)
        own, alignment = [], state["alignment"]
        chosen = range(len(self.decoder.layers))[self.config.alignment_layer]
        for number, layer in enumerate(self.decoder.layers):
            x, memory, weights = layer.step(x, state["own"][number], state["cross"][number], want=number == chosen)
            own.append(memory)
            if weights is not None:
                head = self.config.alignment_head
                alignment = weights.mean(1)[:, 0] if head < 0 else weights[:, head, 0]  # (B, S)
        logits = self.output(self.decoder.norm(x)[:, 0])
        return logits, {"own": own, "cross": state["cross"], "alignment": alignment}

    def alignment(self, state: dict[str, Any]) -> Tensor:
        """(B, S): where the last step looked."""
        return state["alignment"]


class Embedding(nn.Module):
    """Words and positions: √d · E[token] + PE[position]."""

    def __init__(self, vocab: int, dim: int, dropout: float):
        super().__init__()
        self.words = nn.Embedding(vocab, dim, padding_idx=text.PAD)
        nn.init.normal_(self.words.weight, std=dim**-0.5)
        with torch.no_grad():
            self.words.weight[text.PAD].zero_()
        self.dropout = Dropout(dropout)
        self.scale = dim**0.5
        self.positions: Tensor
        self.register_buffer("positions", positions(512, dim), persistent=False)

    def forward(self, tokens: Tensor, first: int = 0) -> Tensor:
        """(B, T) → (B, T, dim); the first token stands at position ``first``."""
        last = first + tokens.shape[1]
        if last > self.positions.shape[0]:  # a longer sentence than any before
            self.positions = positions(2 * last, self.positions.shape[1]).to(self.positions)
        return self.dropout(self.words(tokens) * self.scale + self.positions[first:last])


def positions(length: int, dim: int) -> Tensor:
    """The paper's sinusoids, (length, dim)."""
    angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, dim, 2) / dim)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :dim]


class Residual(nn.Module):
    """What surrounds a sub-layer: norm, dropout and the way past it."""

    def __init__(self, config: Config):
        super().__init__()
        self.norm = nn.LayerNorm(config.dim)
        self.dropout = Dropout(config.dropout)
        self.first = config.norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class Layer(nn.Module):
    """One layer: look at oneself, look at the source (``cross``, in a decoder), think."""

    def __init__(self, config: Config, cross: bool):
        super().__init__()
        choices: dict[str, Any] = {"score": config.score, "normalizer": config.normalizer}
        choices["dropout"] = config.attention_dropout
        self.own = regard.MultiHead(config.dim, config.heads, **choices)
        self.around_own = Residual(config)
        if cross:
            self.cross = regard.MultiHead(config.dim, config.heads, **choices)
            self.around_cross = Residual(config)
        self.think = nn.Sequential(
            nn.Linear(config.dim, config.hidden), nn.ReLU(), nn.Linear(config.hidden, config.dim)
        )
        self.around_think = Residual(config)

    def forward(
        self, x: Tensor, mask: masks.Mask, encoded: Tensor | None = None, source_mask: masks.Mask | None = None
    ) -> Tensor:
        x = self.around_own(x, lambda x: self.own(x, mask=mask).context)
        if encoded is not None:
            x = self.around_cross(x, lambda x: self.cross(x, encoded, mask=source_mask).context)
        return self.around_think(x, self.think)

    def step(
        self, x: Tensor, own: regard.Memory, cross: regard.Memory, want: bool
    ) -> tuple[Tensor, regard.Memory, Tensor | None]:
        """One new word (B, 1, dim): the layer's output, the longer cache, and where it looked if ``want``."""
        seen: dict[str, Any] = {}

        def look_at_own(x: Tensor) -> Tensor:
            seen["own"] = own.append(x)
            return self.own(x, seen["own"], weights=False).context

        def look_at_source(x: Tensor) -> Tensor:
            out = self.cross(x, cross, weights=want)
            seen["weights"] = out.weights
            return out.context

        x = self.around_own(x, look_at_own)
        x = self.around_cross(x, look_at_source)
        return self.around_think(x, self.think), seen["own"], seen["weights"]


class Encoder(nn.Module):
    """Layers that look at their own sequence."""

    def __init__(self, config: Config):
        super().__init__()
        self.layers = nn.ModuleList(Layer(config, cross=False) for _ in range(config.encoder_layers))
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def forward(self, x: Tensor, mask: masks.Mask) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """Layers that look at the words so far and at the source."""

    def __init__(self, config: Config):
        super().__init__()
        self.layers: Any = nn.ModuleList(Layer(config, cross=True) for _ in range(config.decoder_layers))
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def forward(self, x: Tensor, encoded: Tensor, mask: masks.Mask) -> Tensor:
        # No padding mask for the target: padding comes last, where a causal query that matters never looks.
        for layer in self.layers:
            x = layer(x, masks.causal(), encoded, mask)
        return self.norm(x)
