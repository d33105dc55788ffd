"""The Attentive and the Impatient Reader: what in this document answers the question?

Hermann, Kočiský, Grefenstette, Espeholt, Kay, Suleyman & Blunsom 2015, *Teaching Machines to Read and Comprehend*
(arXiv:1506.03340), sections 3.2 and 3.3.

Two LSTMs, one from each side, turn the words of the document into y_d(t) = [→y_d(t); ←y_d(t)] and those of the question
into y_q(i). The Attentive Reader looks once, with the whole question u = [→y_q(|q|); ←y_q(1)]:

    m(t) = tanh(W_ym y_d(t) + W_um u),  s(t) ∝ exp(w_msᵀ m(t))      query u, key and value y_d(t), additive, softmax
    r = Σₜ s(t) y_d(t)
    g = tanh(W_rg r + W_ug u)

The Impatient Reader looks again after every word of the question, with what it has read so far:

    m(i, t) = tanh(W_dm y_d(t) + W_rm r(i − 1) + W_qm y_q(i)),  s(i, t) ∝ exp(w_msᵀ m(i, t))
    r(i) = Σₜ s(i, t) y_d(t) + tanh(W_rr r(i − 1)),  r(0) = 0
    g = tanh(W_rg r(|q|) + W_qg u)

The answer is one of the document's anonymous entities, p(a) ∝ exp(W(a) g). Two changes of later papers are options:
``answer = "pointer"`` takes p(a) = Σ s(t) over the mentions of a, by the weights of the last look (Kadlec, Schmid,
Bajgar & Kleindienst 2016, arXiv:1603.01547), so that the loss reaches the attention itself; ``score = "general"``
compares by uᵀ W y_d(t) instead of m(t) (Chen, Bolton & Manning 2016, arXiv:1606.02858).

Without entities the answer is a span of the document, given by two pointers: the weights of the last look are the
distribution of its first word, those of one more look, with g as its query, of its last word. The loss is −log s(first)
− log s(last).

Deviations: the paper's softmax is over all words, ours over the entities that occur in the document. Matrices whose
products are added share one bias. Spans are not in the paper, nor are ``features`` of the document's words, which are
concatenated to their embeddings (Chen et al. 2017, arXiv:1704.00051, section 3.2), because a few thousand questions
hardly teach a network that equal words match. The recipes train with Adam, the paper with RMSProp.

A batch has ``document`` (B, S) and ``question`` (B, Q), word ids with 0 for padding, ``document_lengths`` and
``question_lengths`` (B,); if the system has features, ``features`` (B, S, F); and to learn from, ``answer`` (B,), the
number of an entity, or ``first`` and ``last`` (B,), places of words. A question whose answer is −1 does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, nll_loss

import regard
from regard import masks
from regard._lazy import nearest
from regard.layers import text
from regard.layers.dropout import Dropout
from regard.layers.recurrent import Bidirectional, at
from regard.layers.spans import best_span
from regard.layers.use import Use
from regard.parts import Score
from regard.scores import Additive, General

Batch = Mapping[str, Tensor]
READERS = ("attentive", "impatient")
SCORES = ("additive", "general")
ANSWERS = ("vocabulary", "pointer")
FIRST = text.UNKNOWN + 1
"""The id of the first entity; the others follow it."""


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        vocab: number of word ids, those of the entities included.
        entities: how many ids, from ``FIRST`` on, are entities, of which one is the answer; 0 answers with spans.
        features: width of the features that come with each word of the document.
        reader: ``attentive`` or ``impatient``.
        answer: how an entity is chosen, by ``vocabulary``, the paper's, or by ``pointer``.
        embedding, spread: width of the word embeddings, and their initial standard deviation.
        hidden: units of the LSTM of each direction.
        score: ``additive``, the paper's, or ``general``.
        attention: width of m, of the additive score.
        joint: width of g.
        dropout: of embeddings, of the LSTMs' outputs, and of g.
        longest: the most words of a span that is given as an answer.
    """

    vocab: int
    entities: int = 0
    features: int = 0
    reader: str = "attentive"
    answer: str = "vocabulary"
    embedding: int = 128
    spread: float = 0.1
    hidden: int = 128
    score: str = "additive"
    attention: int = 128
    joint: int = 128
    dropout: float = 0.1
    longest: int = 15

    def __post_init__(self) -> None:
        for name, options in {"reader": READERS, "answer": ANSWERS, "score": SCORES}.items():
            if getattr(self, name) not in options:
                raise ValueError(
                    f"no {name} is called {getattr(self, name)!r}: {nearest(getattr(self, name), options)}"
                )
        if not 0 <= self.entities <= self.vocab - FIRST:
            raise ValueError(f"{self.entities} entities, of {self.vocab} ids of which {FIRST} are reserved")
        if self.longest < 1:
            raise ValueError(f"longest = {self.longest}: a span has at least one word")


class Read(NamedTuple):
    """A document that was read with a question.

    Attributes:
        joint: g (B, joint); None where a pointer answers.
        weights: s of each look, (B, 1, S), or (B, Q, S) of the Impatient Reader.
        last: the scores (B, S) of the last look.
        memory: the document.
    """

    joint: Tensor | None
    weights: Tensor
    last: Tensor
    memory: regard.Memory


class AttentiveReader(nn.Module):
    """Reads a document and a question; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "attention*": Use(
            *("u; r(i − 1) and y_q(i); g", "words y_d(t)", "words y_d(t)", "additive, general"),
            rows="question",
            columns="words",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        width, impatient = 2 * config.hidden, config.reader == "impatient"
        self.words = nn.Embedding(config.vocab, config.embedding, padding_idx=text.PAD)
        self.document = Bidirectional(config.embedding + config.features, config.hidden)
        self.question = Bidirectional(config.embedding, config.hidden)
        self.attention = regard.Attention(_score(config, 2 * width if impatient else width))
        self.again = nn.Linear(width, width, bias=False) if impatient else None
        pointer = bool(config.entities) and config.answer == "pointer"
        self.joint = None if pointer else nn.Linear(2 * width, config.joint)
        self.output = self.attention_end = None
        if not config.entities:
            self.attention_end = regard.Attention(_score(config, config.joint))
        elif not pointer:
            self.output = nn.Linear(config.joint, config.entities, bias=False)
        self.dropout = Dropout(config.dropout)
        text.initialize(self.words, config.spread)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss, ``nll``, of a batch. ``accuracy`` is the share of exactly right answers; ``mass``, the attention
        weight of the last look on mentions of the right entity, or on the first word of the right span."""
        read = self._read(batch)
        weights = self._at_end(read.weights, batch).detach()
        if self.config.entities:
            answer = batch["answer"]
            log_prob = self._entities(read, batch)
            losses = nll_loss(log_prob, answer, ignore_index=-1, reduction="none")
            right = log_prob.argmax(-1) == answer
            mass = (weights * (batch["document"] == answer[:, None] + FIRST)).sum(-1)
        else:
            answer, last = batch["first"], batch["last"]
            starts, ends = self._ends(read)
            losses = cross_entropy(starts, answer, ignore_index=-1, reduction="none")
            losses = losses + cross_entropy(ends, last, ignore_index=-1, reduction="none")
            best_first, best_last, _ = best_span(starts.detach(), ends.detach(), self.config.longest)
            right = (best_first == answer) & (best_last == last)
            mass = weights.gather(1, answer.clamp(min=0)[:, None])[:, 0]
        labelled = answer >= 0
        count = labelled.sum()
        units = count.clamp(min=1)
        nll, accuracy, mass = losses.sum() / units, (right & labelled).sum() / units, (mass * labelled).sum() / units
        return {"loss": nll, "count": count, "nll": nll.detach(), "accuracy": accuracy, "mass": mass}

    @torch.no_grad()
    def predict(self, batch: Batch) -> dict[str, Tensor]:
        """Answers, their probabilities, and the attention weights.

        Returns ``answer`` (B,), the number of an entity, or ``first`` and ``last`` (B,); ``probability`` (B,); and
        ``weights`` (B, L, S): L is 1, or Q for the Impatient Reader; for spans one more, the look at the last word.
        """
        read = self._read(batch)
        if self.config.entities:
            log_prob, answer = self._entities(read, batch).max(-1)
            return {"answer": answer, "probability": log_prob.exp(), "weights": read.weights}
        starts, ends = (torch.log_softmax(scores, -1) for scores in self._ends(read))
        first, last, log_prob = best_span(starts, ends, self.config.longest)
        weights = torch.cat([read.weights, ends.exp()[:, None]], 1)
        return {"first": first, "last": last, "probability": log_prob.exp(), "weights": weights}

    def _read(self, batch: Batch) -> Read:
        lengths, question_lengths = batch["document_lengths"], batch["question_lengths"]
        words = self.dropout(self.words(batch["document"]))
        if self.config.features:
            words = torch.cat([words, batch["features"]], -1)
        document, _ = self.document(words, lengths)
        question, u = self.question(self.dropout(self.words(batch["question"])), question_lengths)
        document, question, u = self.dropout(document), self.dropout(question), self.dropout(u)
        memory = self.attention.remember(document, mask=masks.lengths(lengths))
        if self.again is None:
            looks = [self.attention(u[:, None], memory, weights=True)]
            r = looks[0].context[:, 0]
        else:
            looks, r = [], torch.zeros_like(u)
            for i, word in enumerate(question.unbind(1)):
                looks.append(self.attention(torch.cat([r, word], -1)[:, None], memory, weights=True))
                new = looks[-1].context[:, 0] + torch.tanh(self.again(r))
                r = torch.where((i < question_lengths)[:, None], new, r)
        joint = None if self.joint is None else self.dropout(torch.tanh(self.joint(torch.cat([r, u], -1))))
        weights, scores = (torch.cat([getattr(out, name) for out in looks], 1) for name in ("weights", "scores"))
        return Read(joint, weights, self._at_end(scores, batch), memory)

    def _at_end(self, rows: Tensor, batch: Batch) -> Tensor:
        """The rows (B, S) of the last look, out of (B, L, S), one for each look."""
        return rows[:, 0] if self.again is None else at(rows, batch["question_lengths"] - 1)

    def _entities(self, read: Read, batch: Batch) -> Tensor:
        """log p (B, entities); only what the document mentions can be the answer."""
        document, entities = batch["document"], self.config.entities
        entity = (document >= FIRST) & (document < FIRST + entities)
        place = torch.where(entity, document - FIRST, entities)  # (B, S); all other words share one place
        if self.output is None:
            weights = self._at_end(read.weights, batch)
            mass = weights.new_zeros(len(document), entities + 1).scatter_add(1, place, weights)[:, :-1]
            return mass.clamp(min=torch.finfo(mass.dtype).tiny).log()
        logits = self.output(read.joint)
        mentioned = torch.zeros(len(document), entities + 1, dtype=torch.bool, device=document.device)
        mentioned.scatter_(1, place, True)
        return torch.log_softmax(logits.masked_fill(~mentioned[:, :-1], torch.finfo(logits.dtype).min), -1)

    def _ends(self, read: Read) -> tuple[Tensor, Tensor]:
        """Scores (B, S) of each word as the first and as the last of the answer."""
        assert self.attention_end is not None and read.joint is not None
        document = self.attention_end.remember(read.memory.value, mask=read.memory.mask)
        last = self.attention_end(read.joint[:, None], document, weights=True).scores[:, 0]
        outside = ~read.memory.allowed()
        least = torch.finfo(last.dtype).min
        return read.last.masked_fill(outside, least), last.masked_fill(outside, least)


def _score(config: Config, query: int) -> Score:
    """The score of queries of this width against the words of the document."""
    key = 2 * config.hidden
    return Additive(query, key, config.attention) if config.score == "additive" else General(query, key)
