"""SAN, stacked attention: a question looks at an image several times, each time with the sum of what it has read.

Yang, He, Gao, Deng & Smola 2016, *Stacked Attention Networks for Image Question Answering* (arXiv:1511.02274).

The image is a grid of features fᵢ, the question the last state u⁰ of an LSTM. In layer k

    vᵢ = tanh(W_I fᵢ + b_I)
    hᵢ = tanh(W_Iᴬ vᵢ + W_Qᴬ uᵏ⁻¹),  p = softmaxᵢ(w_Pᵀ hᵢ)        query uᵏ⁻¹, key and value vᵢ, additive, softmax
    uᵏ = Σᵢ pᵢ vᵢ + uᵏ⁻¹
    answer = softmax(W_u uᴷ + b_u)

Unlike in SMem-VQA the question is one vector from the beginning, and values are the same in every layer. With
``hops = 0`` the question alone answers.

Deviations: an LSTM reads from each side; vᵢ includes its position (:class:`regard.layers.answers.Placed`, with ReLU
for the tanh of vᵢ); hᵢ has no bias; the image's network is frozen, or a small one that is trained
as well. Batches are those of SMem-VQA.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

import regard
from regard.layers import answers, text
from regard.layers.dropout import Dropout
from regard.layers.grid import Grid
from regard.layers.recurrent import Bidirectional
from regard.layers.use import Use
from regard.scores import Perceptron

Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Config(answers.Config):
    """Sizes and choices."""


class SAN(answers.Answerer):
    """Image, question, layers of attention; see the module's docstring."""

    uses: Mapping[str, Use] = {
        "looks.*": Use(
            *("question and what was seen uᵏ⁻¹", "places vᵢ", "places vᵢ", "additive"), rows="hops", columns="places"
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.label_smoothing = config.label_smoothing
        dim = config.dim
        self.words = nn.Embedding(config.vocab, dim, padding_idx=text.PAD)
        self.reader = Bidirectional(dim, dim // 2)
        if config.hops:
            self.grid = Grid(config.features, config.channels)
            self.places = answers.Placed(self.grid.width, dim)
            self.looks = nn.ModuleList(regard.Attention(Perceptron(dim, dim, dim)) for _ in range(config.hops))
        else:
            self.uses = {}
        self.output = nn.Linear(dim, config.answers)
        self.dropout = Dropout(config.dropout)
        text.initialize(self.words, dim**-0.5)

    def logits(self, batch: Batch) -> Tensor:
        words = self.dropout(self.words(batch["question"]))
        query = self.reader(words, batch["question_lengths"])[1][:, None]  # (B, 1, dim)
        if self.config.hops:
            places = self.places(self.dropout(self.grid(batch)))
            for look in self.looks:
                query = query + look(query, places).context
        return self.output(self.dropout(query[:, 0]))
