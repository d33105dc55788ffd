"""The Transformer: attention instead of recurrence.

Vaswani et al. 2017, *Attention Is All You Need* (arXiv:1706.03762).

Every layer attends: an encoder layer to its own sequence, a decoder layer to the words written so far (causally) and to
the encoded source. Each attention is multi-head scaled dot-product attention, softmax(Q Kᵀ / √d) V with Q = X W^Q,
K = Y W^K, V = Y W^V (keys and values share their source Y, not their projection), followed by a feed-forward network
max(0, x W₁ + b₁) W₂ + b₂. The layers are in :mod:`regard.layers.transformer`.

Embeddings are multiplied by √d and shared by source, target and the last projection if ``tied``; positions are added as
PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos(pos / 10000^(2i/d)).

Deviation: dropout on attention weights has its own setting (``attention_dropout``); the paper drops only the outputs
of sub-layers and the embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from regard import masks
from regard.layers import text
from regard.layers.transformer import Decoder, Embedding, Encoder, LayerConfig
from regard.layers.use import Use


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
    """The decoder layer whose cross-attention is shown as the alignment."""
    alignment_head: int = -1
    """Its head; −1 averages all."""

    def __post_init__(self) -> None:
        LayerConfig.of(self)  # an error should come now
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

    uses: ClassVar[dict[str, Use]] = {
        "encoder.layers.*.own": Use(
            *("word x Wᑫ", "words x Wᴷ", "words x Wⱽ", "scaled dot, many heads"), rows="words", columns="words"
        ),
        "decoder.layers.*.own": Use(
            *("word y Wᑫ", "words so far Wᴷ", "words so far Wⱽ", "scaled dot, many heads"),
            rows="written",
            columns="written",
        ),
        "decoder.layers.*.cross": Use(
            *("word y Wᑫ", "encoded source Wᴷ", "encoded source Wⱽ", "scaled dot, many heads"),
            rows="written",
            columns="words",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        layer = LayerConfig.of(config)
        self.source = Embedding(config.source_vocab, config.dim, config.dropout)
        self.target = self.source if config.tied else Embedding(config.target_vocab, config.dim, config.dropout)
        self.encoder = Encoder(layer, config.encoder_layers)
        self.decoder = Decoder(layer, config.decoder_layers)
        self.output = nn.Linear(config.dim, config.target_vocab, bias=False)
        if config.tied:
            self.output.weight = self.target.words.weight

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of pairs."""
        encoded, mask = self._encode(batch)
        hidden = self.decoder(self.target(text.inputs(batch)), encoded, mask)
        return text.loss(hidden, self.output, batch, self.config.label_smoothing)

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """Encode the source once; the caches of the decoder's own words are empty."""
        encoded, mask = self._encode(batch)
        return {**self.decoder.start(encoded, encoded, mask), "alignment": encoded.new_zeros(encoded.shape[:2])}

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        config = self.config
        x = self.target(token[:, None], first=state["own"][0].length)
        hidden, state, weights = self.decoder.step(x, state, weights_of=config.alignment_layer)
        if weights is not None:
            head = config.alignment_head
            state["alignment"] = weights.mean(1)[:, 0] if head < 0 else weights[:, head, 0]  # (B, S)
        return self.output(hidden), state

    def alignment(self, state: dict[str, Any]) -> Tensor:
        """(B, S): the weights of the last step."""
        return state["alignment"]

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest answer, in tokens."""
        return text.limit(batch)

    def _encode(self, batch: text.Batch) -> tuple[Tensor, masks.Mask]:
        mask = masks.lengths(batch["source_lengths"])
        return self.encoder(self.source(batch["source"]), mask), mask
