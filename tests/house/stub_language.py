"""A language model that the package does not know: the letters of a rhythm."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from regard.axes import Words
from regard.layers import text
from regard.questions import Text
from regard.tasks.task import AskedTask, GeneratedTask

LETTERS = "\0\1\2?abc"


@dataclass(frozen=True)
class Config:
    batch: int = 4
    steps: int = 3


class Rhythm(GeneratedTask, AskedTask):
    """abcabc… from anywhere on."""

    kind, unit, settings = "writer", "letters", Config
    title, verb = "Go on", "Write"
    asks: ClassVar = {"prompt": Text(40, 1, title="Beginning")}
    sizes: ClassVar = {"vocab": len(LETTERS)}

    def make(self, split, random, epoch, number):
        begins = random.integers(0, 3, self.config.batch)
        rows = [[1, *(4 + (begin + place) % 3 for place in range(6)), 2] for begin in begins]
        return {"target": torch.tensor(rows), "target_lengths": torch.full((len(rows),), 7)}

    def length(self, split):
        return self.config.steps

    def batches(self, items):
        for row, item in enumerate(items):
            yield [row], {"prompt": torch.tensor([[1, *(LETTERS.index(letter) for letter in item)]])}

    def read(self, question):
        strange = set(question.prompt) - set("abc")
        if strange:
            raise ValueError(f"only the letters a, b and c, not {sorted(strange)[0]!r}")
        return question.prompt

    def item(self, split, number):
        return "abc"[: 1 + number % 3]

    def count(self, split):
        return 3

    def suggested(self):
        return [{"prompt": "ab"}]

    def write(self, tokens, item):
        letters = [LETTERS[token] for token in tokens]
        return Words(letters, text=item + "".join(letters))

    def tokens(self):
        return {"target": LETTERS}

    def measure(self, split, found):
        return {"letters": float(np.mean([len(each.words) for each in found]))}


class Rememberer(nn.Module):
    """A GRU, which has no attention to show."""

    uses: ClassVar = {}

    @dataclass(frozen=True)
    class Config:
        vocab: int
        width: int = 8

    def __init__(self, config):
        super().__init__()
        self.words = nn.Embedding(config.vocab, config.width)
        self.cell = nn.GRUCell(config.width, config.width)
        self.output = nn.Linear(config.width, config.vocab)

    def forward(self, batch):
        hidden, state = [], None
        for token in text.inputs(batch).unbind(1):
            state = self.cell(self.words(token), state)
            hidden.append(state)
        return text.loss(torch.stack(hidden, 1), self.output, batch)

    def start(self, batch):
        state = torch.zeros(len(batch["prompt"]), self.cell.hidden_size)
        for token in batch["prompt"][:, :-1].unbind(1):
            state = self.cell(self.words(token), state)
        return state

    def first(self, batch):
        return batch["prompt"][:, -1]

    def step(self, token, state):
        state = self.cell(self.words(token), state)
        return self.output(state), state

    def limit(self, batch):
        return torch.full((len(batch["prompt"]),), 8)
