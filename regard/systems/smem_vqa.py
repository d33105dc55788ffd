"""SMem-VQA: the words of a question choose places of an image, and the context of a hop is the query of the next.

Xu & Saenko 2016, *Ask, Attend and Answer: Exploring Question-Guided Spatial Attention for Visual Question Answering*
(arXiv:1511.05234).

The image is a grid of features sᵢ, i = 1 … L, the question a sequence of words v_t. In the first hop every word is
compared with every place, and the score of a place is that of its best word:

    C = V (S W_A + b_A)ᵀ / √d,  α = softmaxᵢ(max_t C_tᵢ)   query all v_t, key sᵢ, value sᵢ W_E + b_E, the best of dots
    O¹ = Σᵢ αᵢ (sᵢ W_E + b_E) + Q,  Q = W_Q v̄ + b_Q         v̄ is the mean of the words

The query of each further hop k is the sum so far, Oᵏ⁻¹, and its keys are the values of the hop before:

    αᵏ = softmaxᵢ((sᵢ W_Eᵏ⁻¹ + b_Eᵏ⁻¹) · Oᵏ⁻¹ / √d)        query Oᵏ⁻¹, key and value by two matrices from sᵢ, scaled dot
    Oᵏ = Σᵢ αᵢᵏ (sᵢ W_Eᵏ + b_Eᵏ) + Oᵏ⁻¹
    p = softmax(W_P relu(W_O Oᴷ + b_O) + b_P)

With ``hops = 0`` there is no attention: the question alone, p = softmax(W_P relu(W_O Q + b_O) + b_P), the control.

Deviations: with ``reader = "lstm"`` v_t are the states of an LSTM from each side instead of embeddings, so that a word
knows its neighbours: in *the red circle* no word alone tells a red circle from a red square and a blue circle. A place
knows where it is (:class:`regard.layers.answers.Placed`), without which *left of* has no meaning. Scores are divided by
√d, without which the first maps are of single places, whatever the question. The paper has no W_O; without it Oᴷ has to
be a query and the input of the classifier at once, and whether the place that was seen fits the question is learned
late. With ``tied = false`` keys of further hops have a matrix of their own. The image's network is frozen, or a small
one that is trained along, where the paper's is fine-tuned.

A batch has ``features`` or ``image`` (:class:`regard.layers.grid.Grid`), ``question`` (B, T), word ids with 0 for
padding, ``question_lengths`` (B,), and to learn from ``answer`` (B,), −1 for one that is not among the answers, and
``parts`` (B, P) of answers that are lists (:func:`regard.layers.answers.loss`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import regard
from regard._lazy import nearest
from regard.layers import answers, text
from regard.layers.dropout import Dropout
from regard.layers.grid import Grid
from regard.layers.recurrent import Bidirectional
from regard.layers.use import Use
from regard.parts import Score

Batch = Mapping[str, Tensor]
READERS = ("words", "lstm")


@dataclass(frozen=True)
class Config(answers.Config):
    """Sizes and choices.

    Attributes:
        reader: ``words``, the paper's, or ``lstm``.
        tied: whether the keys of a further hop are the values of the hop before, as in the paper.
    """

    reader: str = "lstm"
    tied: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reader not in READERS:
            raise ValueError(f"no reader is called {self.reader!r}: {nearest(self.reader, READERS)}")


class BestWord(Score):
    """e = max_t v_t · (W k + b) / √dim: how well a key fits the best of several vectors.

    A query is all of them side by side, (…, T, words · dim); keys (…, S, key_dim) → (…, T, S).
    """

    equation = "max_t v_t·(W k + b) / √d"
    paper = "Xu 2016"

    def __init__(self, dim: int, key_dim: int):
        super().__init__()
        self.key_dim = key_dim
        self.key = nn.Linear(key_dim, dim)

    def project(self, key: Tensor) -> Tensor:
        return self.key(key)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        words = query.unflatten(-1, (-1, key.shape[-1]))  # (…, T, words, dim)
        shape = words.shape[-3:-1]
        return (words.flatten(-3, -2) @ key.mT).unflatten(-2, shape).amax(-2) / key.shape[-1] ** 0.5


class SMemVQA(answers.Answerer):
    """Image, question, hops; see the module's docstring."""

    uses: Mapping[str, Use] = {
        "looks.*": Use(
            *("all words v_t, then what is known Oᵏ⁻¹", "places sᵢ W_A, then sᵢ W_Eᵏ⁻¹", "places sᵢ W_Eᵏ"),
            "best word's scaled dot, then scaled dot",
            rows="hops",
            columns="places",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.label_smoothing = config.label_smoothing
        dim, hops = config.dim, config.hops
        self.words = nn.Embedding(config.vocab, dim, padding_idx=text.PAD)
        self.reader = Bidirectional(dim, dim // 2) if config.reader == "lstm" else None
        self.question = nn.Linear(dim, dim)
        if hops:
            self.grid = Grid(config.features, config.channels)
            self.places = answers.Placed(self.grid.width, dim)
            later = [regard.Attention("scaled_dot") for _ in range(hops - 1)]
            self.looks = nn.ModuleList([regard.Attention(BestWord(dim, dim)), *later])
            self.values = nn.ModuleList(nn.Linear(dim, dim) for _ in range(hops))
            self.keys = nn.ModuleList() if config.tied else nn.ModuleList(nn.Linear(dim, dim) for _ in later)
        else:
            self.uses = {}
        self.joint = nn.Linear(dim, 2 * dim)
        self.output = nn.Linear(2 * dim, config.answers)
        self.dropout = Dropout(config.dropout)
        text.initialize(self.words, dim**-0.5)

    def logits(self, batch: Batch) -> Tensor:
        words, mean = self._read(batch)
        summary = self.question(mean)[:, None]  # (B, 1, dim)
        if self.config.hops:
            places = self.places(self.dropout(self.grid(batch)))
            query, key = words.flatten(1)[:, None], places
            for hop, (look, values) in enumerate(zip(self.looks, self.values)):
                value = values(places)
                summary = summary + look(query, key, value).context
                query, key = summary, self.keys[hop](places) if hop < len(self.keys) else value
        return self.output(self.dropout(torch.relu(self.joint(summary[:, 0]))))

    def _read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The words (B, T, dim), with the first one in place of padding, which does not change the best; and their
        mean."""
        lengths = batch["question_lengths"]
        words = self.dropout(self.words(batch["question"]))
        if self.reader is not None:
            words = self.dropout(self.reader(words, lengths)[0])
        real = (torch.arange(words.shape[1], device=words.device) < lengths[:, None])[..., None]
        mean = (words * real).sum(1) / lengths[:, None]
        return torch.where(real, words, words[:, :1]), mean
