"""GPT: a language model of Transformer layers with causal attention.

Radford et al. 2018, *Improving Language Understanding by Generative Pre-Training* (OpenAI), with the order of norms and
the initialization of Radford et al. 2019 (GPT-2).

p(xₜ | x₁ … xₜ₋₁) = softmax(hₜ₋₁ Eᵀ), where h is the last of N layers over E[x] + P[position]; each layer is causal
multi-head self-attention, softmax(Q Kᵀ / √d) V with queries, keys and values all from the text so far, followed by
W₂ GELU(W₁ x). E embeds tokens and, as ``tied``, also predicts them.

Positions are learned as in the paper, or ``rotary`` (Su et al. 2021, arXiv:2104.09864). Keys may be shared by heads
(``key_heads``) and limited to a ``window``.

While it writes, keys and values of the text so far stay in a cache. When it holds ``longest`` tokens, it is rebuilt
from the last half of them, and writing goes on.

Deviation: fine-tuning with an added language-model loss (section 3.2 of the paper) is not here; see ``bert``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard._settings import at_least
from regard.layers import text
from regard.layers.transformer import Decoder, Embedding, LayerConfig, initialize
from regard.layers.use import Use


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's, but for GPT-2's ``norm``."""

    vocab: int
    longest: int = 512
    """The longest context, in tokens."""
    dim: int = 768
    heads: int = 12
    hidden: int = 3072
    layers: int = 12
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm: str = "pre"
    activation: str = "gelu"
    positions: str = "learned"
    tied: bool = True
    key_heads: int | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        LayerConfig.of(self)  # an error should come now
        at_least(self, "dim", "heads", "hidden", "layers")
        if self.longest < 2:
            raise ValueError(f"longest = {self.longest}: a text to go on with has at least 2 tokens")


class Gpt(nn.Module):
    """A language model; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "decoder.layers.*.own": Use(
            *("token x Wᑫ", "tokens so far Wᴷ", "tokens so far Wⱽ", "scaled dot, many heads"),
            rows="written",
            columns="written",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = Embedding(
            config.vocab, config.dim, config.dropout, kind=config.positions, longest=config.longest
        )
        self.decoder = Decoder(LayerConfig.of(config), config.layers, cross=False)
        self.output = nn.Linear(config.dim, config.vocab, bias=False)
        initialize(self, config.layers)
        if config.tied:
            self.output.weight = self.embedding.words.weight

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of ``target`` (B, T + 1), of which all but the first are predicted."""
        hidden = self.decoder(self.embedding(text.inputs(batch)))
        return text.loss(hidden, self.output, batch)

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """The state after ``prompt`` (B, P), if there is one, without its last token."""
        prompt = batch.get("prompt")
        read = batch["target"][:, :0] if prompt is None else prompt[:, :-1]
        return self._read(read)

    def first(self, batch: text.Batch) -> Tensor | None:
        """(B,): the end of the prompt, fed first."""
        return text.last_of_prompt(batch)

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        read, longest = state["read"], self.config.longest
        if read.shape[1] >= longest:
            state = self._read(read[:, -(longest // 2) :])
        read = torch.cat([state["read"], token[:, None]], 1)
        x = self.embedding(token[:, None], first=read.shape[1] - 1)
        hidden, state, _ = self.decoder.step(x, state)
        return self.output(hidden), {**state, "read": read}

    def alignment(self, state: dict[str, Any]) -> None:
        """None: a language model has no source."""

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest continuation, in tokens."""
        return text.continuation(batch, self.config.longest)

    def _read(self, tokens: Tensor) -> dict[str, Any]:
        """Caches of tokens (B, T)."""
        state = self.decoder.start(self.embedding.words.weight.new_zeros(len(tokens), 0, self.config.dim))
        if tokens.shape[1]:
            _, state, _ = self.decoder.step(self.embedding(tokens), state)
        return {**state, "read": tokens}
