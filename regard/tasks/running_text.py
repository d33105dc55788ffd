"""Running text to continue: windows of characters or subwords, each token predicted from those before it.

A batch has ``target`` (B, T + 1), windows that follow each other in a text, and ``target_lengths`` (B,), the number T
of tokens to predict: all but the first. To complete a text, a batch has ``prompt`` (B, P) and ``wanted`` (B,), the
number of tokens to add. See :mod:`regard.tasks._running` for where the text comes from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from regard.axes import Words
from regard.data.tokens import UNKNOWN, Ragged
from regard.questions import Input, Number, Text
from regard.tasks._batches import pad
from regard.tasks._running import RunningConfig, RunningTask
from regard.tasks.task import Batch, check_split

PROMPT = 24
"""Tokens of a prompt that is taken from a split."""
SHOWN = 16
"""Prompts of a split."""
BEGINNINGS = ("What is ", "The ", "We ")
"""Prompts to start from where the data is not at hand."""
SIGNS = {"\n": "⏎", " ": "␣", "\t": "⇥"}


class Prompt(NamedTuple):
    """The beginning of a text, as ids, and how many tokens to add."""

    ids: tuple[int, ...]
    wanted: int


class RunningText(RunningTask):
    """Text to continue; see the module's docstring."""

    kind: ClassVar[str] = "completer"
    settings: ClassVar[type] = RunningConfig
    title = "Go on with a text"
    verb = "Write"
    asks: Mapping[str, Input] = {
        "prompt": Text(2000, 1, title="Beginning", about="The text goes on from here."),
        "length": Number(1, 2000, default=200, option=True, title="Length", about="Tokens that are added."),
    }
    config: RunningConfig

    @property
    def sizes(self) -> dict[str, int]:
        return {"vocab": len(self.tokenizer), "longest": self.config.length}

    def rows(self, windows: list[np.ndarray], ids: np.ndarray, random: np.random.Generator) -> Batch:
        target, lengths = pad(Ragged.of(windows), np.arange(len(windows)))
        return {"target": target, "target_lengths": lengths - 1}

    def encode(self, text: str) -> list[int]:
        """The ids of a text, cut as in training; a ValueError if it has a character that was never seen."""
        ids = self._numbers(text).tolist()
        if self.config.level == "char" and UNKNOWN in ids:
            raise ValueError(f"{text[ids.index(UNKNOWN)]!r} is not among the characters of the text it was trained on")
        return ids

    def line(self, text: str) -> list[int]:
        """The ids of a text that is a line of its own: between two line ends, where those are known."""
        end = [token for token in self._numbers("\n").tolist() if token != UNKNOWN]
        return [*end, *self.encode(f"{text}\n" if end else text)]

    def read(self, question: Any) -> Prompt:
        ids, most = self.encode(question.prompt), self.config.length
        if not ids:
            raise ValueError("the prompt is empty: type the beginning of a text")
        if len(ids) > most:
            raise ValueError(f"the prompt has {len(ids):,} tokens, and the model reads at most {most:,} at once")
        return Prompt(tuple(ids), question.length)

    def item(self, split: str, number: int) -> Prompt:
        ids = self._ids(check_split(split))
        first = number * (len(ids) // max(self.count(split), 1))
        return Prompt(tuple(ids[first : first + min(PROMPT, self.config.length)].tolist()), self.config.length)

    def count(self, split: str) -> int:
        return min(SHOWN, len(self._ids(check_split(split))) // PROMPT)

    def batches(self, items: Sequence[Prompt]) -> Iterator[tuple[list[int], Batch]]:
        """Prompts of one length together, so that none is padded."""
        for length in sorted({len(item.ids) for item in items}):
            rows = [row for row, item in enumerate(items) if len(item.ids) == length]
            prompts = torch.tensor([items[row].ids for row in rows])
            yield rows, {"prompt": prompts, "wanted": torch.tensor([items[row].wanted for row in rows])}

    def suggested(self) -> list[dict[str, Any]]:
        try:
            prompts = [self.decode(self.item("test", number).ids) for number in range(min(3, SHOWN))]
        except (ValueError, OSError):
            prompts = [prompt for prompt in BEGINNINGS if self._is_known(prompt)]
        return [{"prompt": prompt, "length": 200} for prompt in prompts if prompt]

    def _is_known(self, text: str) -> bool:
        return UNKNOWN not in self._numbers(text).tolist()

    def window(self, tokens: Sequence[int]) -> Batch:
        """The last tokens of a text, as many as are read at once, as a batch of one to show weights of."""
        cut = torch.tensor([list(tokens)[-self.config.length :]])
        framed = torch.cat([cut, torch.zeros_like(cut[:, :1])], 1)
        return {"target": framed, "target_lengths": torch.tensor([cut.shape[1] - 1])}

    def write(self, tokens: Sequence[int], item: Prompt) -> Words:
        """The added tokens, as text with its beginning; labels are its own tokens, with spaces made visible."""
        return Words(self.labels(tokens), text=self.decode([*item.ids, *tokens]))

    def labels(self, tokens: Sequence[int]) -> list[str]:
        """Each token, with spaces made visible where they would not be seen."""
        pieces = self.tokenizer.pieces(tokens)
        return ["".join(SIGNS.get(c, c) for c in piece) if not piece.strip() else piece.strip() for piece in pieces]

    def measures(self, split: str, means: Mapping[str, float]) -> dict[str, float]:
        """A system's means over a split, and from them nats and bits per token and character, and perplexity."""
        nats = means["nll"]
        per_character = nats / self.characters(split)
        bits = {"bits_per_token": nats / math.log(2), "bits_per_character": per_character / math.log(2)}
        return {**means, "nats_per_character": per_character, **bits, "perplexity": math.exp(nats)}
