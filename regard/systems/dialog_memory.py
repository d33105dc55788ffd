"""A memory network that chooses what to say next: MemN2N on dialogues, with match types.

Bordes, Boureau & Weston 2017, *Learning End-to-End Goal-Oriented Dialog* (arXiv:1605.07683), section 4.3 and
appendix A, after Sukhbaatar et al. 2015 (arXiv:1503.08895).

The memory holds a sentence for each utterance of the dialogue and for each fact that the knowledge base returned. Φ is
the bag of words of a sentence, with one more word for its speaker and one for its age; x is the user's last utterance:

    q¹ = A Φ(x),  mᵢ = A Φ(cᵢ)
    pᵢ = softmax(qᵀ mᵢ),  o = R Σᵢ pᵢ mᵢ,  qᵏ⁺¹ = qᵏ + oᵏ           query q, key and value m, dot score, softmax
    â = softmax((qᴷ⁺¹)ᵀ W Φ(y))  over all candidates y

Match types: a candidate that names something of the type t (a cuisine, a phone number …) which also stands in the
memory or in x has one more word, t, in its bag: its score has (qᴷ⁺¹)ᵀ W_t more for each such word. It can so be chosen
though the network has never seen the word itself.

Each of the ``tasks`` has a network of its own, trained on the rows of that task alone.

Deviations: the paper compares with sampled wrong candidates, here the loss is the cross-entropy over all; it trains
with SGD, the recipe with Adam. W's rows of types are W_t, a table of their own.

A batch has ``task`` (B,), the number of each row's network; ``question`` (B, J) and ``memory`` (B, S, J), word ids with
0 for padding, a sentence without words being none; and, the same for all rows, ``candidates`` (C, J), ``entities``
(C, K), the words of a candidate that have a type, and ``kinds`` (V,), the type of each word, 0 for none. To learn from,
``label`` (B,), the right candidate; −1 for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

import regard
from regard._settings import at_least
from regard.layers.answers import Answerer, loss
from regard.layers.dropout import Dropout
from regard.layers.use import Use

Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        vocab: number of word ids, those of speakers and ages included.
        types: types of entities, type 0 for none included.
        tasks: number of networks.
        dim, hops: width of sentences, and number of looks at the memory.
        match: do candidates have match types?
        spread: standard deviation of the initial embeddings.
        dropout: of the last query, qᴷ⁺¹.
    """

    vocab: int
    types: int = 1
    tasks: int = 1
    dim: int = 32
    hops: int = 3
    match: bool = True
    spread: float = 0.1
    dropout: float = 0.0

    def __post_init__(self) -> None:
        at_least(self, "vocab", "types", "tasks", "dim", "hops")


class Network(nn.Module):
    """The network of one task."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.read = nn.Parameter(torch.empty(config.vocab, config.dim))
        self.say = nn.Parameter(torch.empty(config.vocab, config.dim))
        self.types = nn.Parameter(torch.empty(config.types, config.dim)) if config.match else None
        self.mix = nn.Linear(config.dim, config.dim, bias=False)
        self.attention = regard.Attention("dot")
        self.dropout = Dropout(config.dropout)
        for table in (self.read, self.say, self.types):
            if table is not None:
                nn.init.normal_(table, std=config.spread)

    def forward(self, batch: Batch) -> Tensor:
        """The logits of the candidates, (B, C)."""
        memory, question, candidates = batch["memory"], batch["question"], batch["candidates"]
        sentences = bag(memory.flatten(0, 1), self.read).unflatten(0, memory.shape[:2])  # (B, S, D)
        remembered = self.attention.remember(sentences, mask=memory[..., 0] > 0)
        q = bag(question, self.read)
        for _ in range(self.config.hops):
            q = q + self.mix(self.attention(q[:, None], remembered).context[:, 0])
        q = self.dropout(q)
        logits = q @ bag(candidates, self.say).mT
        if self.types is None:
            return logits
        # worth (B, V) is what a word adds to the score of a candidate that has it, if it stands in the memory or in x
        tokens = torch.cat([memory.flatten(1), question], 1)
        present = logits.new_zeros(len(q), self.config.vocab).scatter_(1, tokens, 1.0)
        present[:, 0] = 0.0
        worth = present * (q @ self.types.mT)[:, batch["kinds"]] * (batch["kinds"] > 0)
        return logits + worth[:, batch["entities"]].sum(-1)


class DialogMemory(Answerer):
    """Networks for one or several tasks; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "networks.*.attention": Use(
            *("what was said last, and what was read", "sentences m", "sentences m", "dot"),
            rows="hops",
            columns="sentences",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.networks = nn.ModuleList(Network(config) for _ in range(config.tasks))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of a batch; ``accuracy`` is the share of responses that are right."""
        return loss(self.logits(batch), batch["label"])

    def logits(self, batch: Batch) -> Tensor:
        """The logits of the candidates, (B, C)."""
        task = batch["task"]
        candidate_parts = {name: batch[name] for name in ("candidates", "entities", "kinds")}
        numbers = sorted(set(task.tolist()))
        if len(numbers) == 1:
            return self.networks[numbers[0]](batch)
        logits = torch.empty(0)
        for number in numbers:
            rows = (task == number).nonzero()[:, 0]
            part = self.networks[number](
                {**candidate_parts, "memory": batch["memory"][rows], "question": batch["question"][rows]}
            )
            logits = logits if logits.numel() else part.new_zeros(len(task), part.shape[1])
            logits = logits.index_copy(0, rows, part)
        return logits


def bag(ids: Tensor, table: Tensor) -> Tensor:
    """Sums (N, D) of the rows of a table (V, D) that ids (N, J) name; 0 is padding."""
    return embedding_bag(ids, table, mode="sum", padding_idx=0)
