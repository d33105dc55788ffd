"""A reader that chooses: which of these choices answers the question about a dialogue?

After the Stanford Attentive Reader (Chen, Bolton & Manning 2016, arXiv:1606.02858) with choices, as Lai, Xie, Liu,
Yang & Hovy 2017, *RACE* (arXiv:1704.04683), and Sun et al. 2019, *DREAM* (arXiv:1902.00164), use it: the question looks
at the text by uᵀ W h, and the context is compared with each choice by a bilinear form. Here each choice has a look of
its own, and the words of the dialogue are aligned with those of the question, as in DrQA (Chen et al. 2017,
arXiv:1704.00051). With E the embeddings, d of the dialogue, q of the question, c of a choice:

    a_sj ∝ exp(relu(W E(d_s)) · relu(W E(q_j))),  f(d_s) = Σⱼ a_sj E(q_j)     query d_s, key and value q_j, dot, softmax
    h = BiLSTM([E(d); f(d); features]),  y_q = BiLSTM(E(q)),  y_c = BiLSTM(E(c))
    u = Σⱼ b_j y_q(j),  b_j ∝ exp(w · y_q(j)),  and o_c of y_c in the same way query w, dot, softmax
    α_cs ∝ exp([u; o_c] W [h_s; E(d_s)]),  r_c = Σₛ α_cs h_s                  query the choice, general, softmax
    p(c) ∝ exp(vᵀ relu(V [r_c; o_c; u; r_c ∘ o_c; facts_c]) + kᵀ facts_c)

Deviations: LSTMs for GRUs; embeddings are learned from the data, not GloVe's. The ``facts``, counts of words that a
choice shares with the dialogue, come with the batch and are in neither paper's reader; DREAM's gradient-boosted trees
read such counts. They are here because a few thousand questions hardly teach a network that equal words match.

A batch has ``document`` (B, S), ``question`` (B, Q) and ``choices`` (B, C, L), word ids with 0 for padding,
``document_lengths``, ``question_lengths`` (B,) and ``choice_lengths`` (B, C), 0 for a choice that is not there,
``features`` (B, S, F), ``facts`` (B, C, K) and, to learn from, ``label`` (B,), −1 where it is not known.
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
from regard.layers.use import Use
from regard.scores import General

Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Config:
    """Sizes.

    Attributes:
        vocab: number of word ids.
        features: width of the features that come with each word of the dialogue.
        facts: number of the counts that come with each choice.
        embedding, spread: width of the word embeddings, and their initial standard deviation.
        hidden: units of the LSTM of each direction.
        joint: units of the hidden layer V.
        dropout: of embeddings, of the LSTMs' outputs, and of the hidden layer.
    """

    vocab: int
    features: int = 0
    facts: int = 0
    embedding: int = 64
    spread: float = 0.3
    hidden: int = 48
    joint: int = 64
    dropout: float = 0.4

    def __post_init__(self) -> None:
        at_least(self, "vocab", "embedding", "hidden", "joint")


class ChoiceReader(nn.Module):
    """Chooses one of the choices; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "align": Use("words of the dialogue", "words of the question", "their embeddings", "dot", columns="asked"),
        "pool": Use("w, learned", "words of question or choice", "the same", "dot", columns="asked"),
        "look": Use(
            *("question and choice [u; o_c]", "words of the dialogue [h; E]", "words of the dialogue h", "general"),
            rows="choices",
            columns="words",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        width, words = 2 * config.hidden, config.embedding
        self.words = nn.Embedding(config.vocab, words, padding_idx=text.PAD)
        self.aligned = nn.Linear(words, words)
        self.dialogue = Bidirectional(2 * words + config.features, config.hidden)
        self.asked = Bidirectional(words, config.hidden)
        self.weight = nn.Parameter(torch.zeros(width))
        self.align, self.pool = regard.Attention("dot"), regard.Attention("dot")
        self.look = regard.Attention(General(2 * width, width + words))
        self.joint = nn.Linear(4 * width + config.facts, config.joint)
        self.output = nn.Linear(config.joint, 1, bias=False)
        self.counted = nn.Linear(config.facts, 1, bias=False) if config.facts else None
        self.dropout = Dropout(config.dropout)
        text.initialize(self.words, config.spread)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss, ``nll``, of a batch, and the share of right choices, ``accuracy``."""
        label = batch["label"]
        log_prob = self._log_prob(batch)
        labelled = label >= 0
        count = labelled.sum()
        units = count.clamp(min=1)
        nll = nll_loss(log_prob, label, ignore_index=-1, reduction="sum") / units
        right = ((log_prob.argmax(-1) == label) & labelled).sum() / units
        return {"loss": nll, "count": count, "nll": nll.detach(), "accuracy": right}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Tensor:
        """The probability of each choice, (B, C)."""
        return self._log_prob(batch).exp()

    def _log_prob(self, batch: Batch) -> Tensor:
        """The log-probability of each choice, (B, C)."""
        lengths, question_mask = batch["document_lengths"], masks.lengths(batch["question_lengths"])
        words, question = (self.dropout(self.words(batch[name])) for name in ("document", "question"))
        query, key = torch.relu(self.aligned(words)), torch.relu(self.aligned(question))
        inputs = [words, self.align(query, key, question, mask=question_mask).context]
        if self.config.features:
            inputs.append(batch["features"].to(words.dtype))
        h = self.dropout(self.dialogue(torch.cat(inputs, -1), lengths)[0])  # (B, S, 2 hidden)
        u = self._pooled(question, batch["question_lengths"])  # (B, 2 hidden)
        choices, count = batch["choices"], batch["choice_lengths"]
        o = self._pooled(self.dropout(self.words(choices.flatten(0, 1))), count.flatten()).unflatten(
            0, choices.shape[:2]
        )  # (B, C, 2 hidden)
        u = u[:, None].expand_as(o)
        memory = self.look.remember(torch.cat([h, words], -1), h, mask=masks.lengths(lengths))
        r = self.look(torch.cat([u, o], -1), memory).context
        joint = [r, o, u, r * o]
        if self.config.facts:
            joint.append(batch["facts"].to(r.dtype))
        logits = self.output(self.dropout(torch.relu(self.joint(torch.cat(joint, -1)))))[..., 0]
        if self.counted is not None:
            logits = logits + self.counted(batch["facts"].to(r.dtype))[..., 0]
        logits = logits.masked_fill(count == 0, torch.finfo(logits.dtype).min)
        return logits.log_softmax(-1)

    def _pooled(self, words: Tensor, lengths: Tensor) -> Tensor:
        """u or o_c of embedded words: (N, L, embedding) → (N, 2 hidden); zeros where there are no words."""
        states = self.dropout(self.asked(words, lengths.clamp(min=1))[0])
        query = self.weight.expand(len(states), 1, -1)
        return self.pool(query, states, mask=masks.lengths(lengths)).context[:, 0]
