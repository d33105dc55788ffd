"""DrQA's reader in a conversation: which words of the text answer this question, given the turns before it?

Chen, Fisch, Weston & Bordes 2017, *Reading Wikipedia to Answer Open-Domain Questions* (arXiv:1704.00051), section 3.2,
as Reddy, Chen & Manning 2019, *CoQA* (arXiv:1808.07042), section 5.1, use it: the question is preceded by the turns
before it, each with markers of question and answer. As in QuAC's baseline (Choi et al. 2018, arXiv:1808.07036), words
that were an answer before are marked in the text; both come with the batch, the markers as ``features``.

With E the embeddings, p of the text and q of the question with its history:

    a_ij ∝ exp(relu(W E(pᵢ)) · relu(W E(qⱼ))),  f_align(pᵢ) = Σⱼ a_ij E(qⱼ)     query pᵢ, key and value qⱼ, dot, softmax
    p = BiLSTM([E(p); f_align(p); features]),  q = BiLSTM(E(q))
    b_j ∝ exp(w · q_j),  u = Σⱼ bⱼ qⱼ                                          query w, key and value qⱼ, dot, softmax
    P_start(i) ∝ exp(pᵢ W_s u),  P_end(i) ∝ exp(pᵢ W_e u)                      query u, key pᵢ, general, softmax

The answer is the span of at most ``longest`` words with the greatest P_start · P_end. Both are attention weights, used
as pointers: the loss is −log P_start − log P_end. The b_j show which words of the history count for the question.

Deviations: embeddings are learned from the data, not GloVe's; of several ``layers`` of BiLSTMs the outputs of the last
alone are used; of the features only those that need no tagger; dropout on the output of every layer.

A batch has ``document`` (B, S) and ``question`` (B, Q), word ids with 0 for padding, their lengths (B,), ``features``
(B, S, F) and, to learn from, ``first`` and ``last`` (B,), places of words; −1 where there is no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss

import regard
from regard import masks
from regard._settings import at_least
from regard.layers import text
from regard.layers.dropout import Dropout
from regard.layers.recurrent import Bidirectional
from regard.layers.spans import best_span
from regard.layers.use import Use
from regard.scores import General

Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        vocab: number of word ids.
        entities: 0: this reader answers with spans alone.
        features: width of the features that come with each word of the text.
        embedding, spread: width of the word embeddings, and their initial standard deviation.
        hidden, layers: units of the LSTM of each direction, and number of layers.
        dropout: of embeddings and of the LSTMs' outputs.
        longest: the most words of a span that is given as an answer.
    """

    vocab: int
    entities: int = 0
    features: int = 0
    embedding: int = 64
    spread: float = 0.3
    hidden: int = 64
    layers: int = 1
    dropout: float = 0.2
    longest: int = 15

    def __post_init__(self) -> None:
        if self.entities:
            raise ValueError(f"{self.entities} entities: this reader answers with spans")
        at_least(self, "vocab", "embedding", "hidden", "layers", "longest")


class Read(nn.Module):
    """Stacked BiLSTMs: (B, S, width) → (B, S, 2 hidden)."""

    def __init__(self, width: int, config: Config):
        super().__init__()
        widths = [width, *[2 * config.hidden] * (config.layers - 1)]
        self.layers = nn.ModuleList(Bidirectional(input_width, config.hidden) for input_width in widths)
        self.dropout = Dropout(config.dropout)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        for layer in self.layers:
            words = self.dropout(layer(words, lengths)[0])
        return words


class Drqa(nn.Module):
    """Points at the first and the last word of an answer; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "align": Use("words of the text", "question and history", "their embeddings", "dot", columns="asked"),
        "pool": Use("w, learned", "question and history", "question and history", "dot", columns="asked"),
        "start": Use("u", "words of the text", "words of the text", "general", rows="question", columns="words"),
        "end": Use("u", "words of the text", "words of the text", "general", rows="question", columns="words"),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        width = 2 * config.hidden
        self.words = nn.Embedding(config.vocab, config.embedding, padding_idx=text.PAD)
        self.aligned = nn.Linear(config.embedding, config.embedding)
        self.document = Read(2 * config.embedding + config.features, config)
        self.question = Read(config.embedding, config)
        self.weight = nn.Parameter(torch.zeros(width))
        self.align, self.pool = regard.Attention("dot"), regard.Attention("dot")
        self.start = regard.Attention(General(width, width))
        self.end = regard.Attention(General(width, width))
        self.dropout = Dropout(config.dropout)
        text.initialize(self.words, config.spread)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss, ``nll``, of a batch; ``accuracy`` is the share of exactly right spans."""
        starts, ends, _, _ = self._read(batch)
        first, last = batch["first"], batch["last"]
        losses = nll_loss(starts, first, ignore_index=-1, reduction="none")
        losses = losses + nll_loss(ends, last, ignore_index=-1, reduction="none")
        begin, end, _ = best_span(starts.detach(), ends.detach(), self.config.longest)
        labelled = first >= 0
        count = labelled.sum()
        units = count.clamp(min=1)
        nll, right = losses.sum() / units, (begin == first) & (end == last) & labelled
        return {"loss": nll, "count": count, "nll": nll.detach(), "accuracy": right.sum() / units}

    @torch.no_grad()
    def predict(self, batch: Batch) -> dict[str, Tensor]:
        """``first`` and ``last`` (B,), their ``probability`` (B,), the ``weights`` (B, 2, S) of both pointers, and
        ``asked`` (B, Q), the weights b of the words of history and question in u."""
        starts, ends, looks, b = self._read(batch)
        first, last, log_prob = best_span(starts, ends, self.config.longest)
        return {"first": first, "last": last, "probability": log_prob.exp(), "weights": looks, "asked": b}

    def _read(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """log P_start and log P_end (B, S), both looks (B, 2, S), and b (B, Q)."""
        lengths, question_lengths = batch["document_lengths"], batch["question_lengths"]
        document_mask, question_mask = masks.lengths(lengths), masks.lengths(question_lengths)
        words, question = self.dropout(self.words(batch["document"])), self.dropout(self.words(batch["question"]))
        query, key = torch.relu(self.aligned(words)), torch.relu(self.aligned(question))
        inputs = [words, self.align(query, key, question, mask=question_mask).context]
        if self.config.features:
            inputs.append(batch["features"].to(words.dtype))
        document = self.document(torch.cat(inputs, -1), lengths)
        question = self.question(question, question_lengths)
        pooled = self.pool(self.weight.expand(len(question), 1, -1), question, mask=question_mask, weights=True)
        first = self.start(pooled.context, document, mask=document_mask, weights=True)
        last = self.end(pooled.context, document, mask=document_mask, weights=True)
        looks = torch.cat([first.weights, last.weights], 1)
        starts, ends = looks.clamp(min=torch.finfo(looks.dtype).tiny).log().unbind(1)
        return starts, ends, looks, pooled.weights[:, 0]
