"""Shared by tasks whose systems describe something: captions in batches, and their metrics."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from regard.axes import Words
from regard.data import SPLITS
from regard.data.tokens import UNKNOWN, Ragged
from regard.decode.written import Written
from regard.metrics import captions, pointing
from regard.tasks._batches import pad
from regard.tasks._words import Vocabulary, by_length
from regard.tasks.task import AskedTask, Batch, Loader, drawn


class Described(AskedTask):
    """Captions of ``things``, or of ones that are generated. What is known without the data: ``words``."""

    kind: ClassVar[str] = "writer"
    unit: ClassVar[str] = "tokens"
    things: ClassVar[tuple[str, str]]
    """What is described, and what it is called where it is generated."""

    def __init__(self, config: Any, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self._vocabulary = Vocabulary(self.known["words"])
        self.words = self._vocabulary.words
        """What each token stands for."""
        self.signatures: dict[str, str] = {}
        """sacrebleu's signatures of the last :meth:`measure`."""
        self._encoded = lru_cache(maxsize=len(SPLITS))(self._encode_all)

    @property
    def generated(self) -> bool:
        """Are the things generated?"""
        raise NotImplementedError

    def captions_of(self, split: str) -> Sequence[Sequence[str]]:
        """The captions of each thing of a split."""
        raise NotImplementedError

    def made(self, split: str, seed: int, epoch: int, rows: Sequence[int]) -> Batch:
        """A batch of generated things with a caption each."""
        raise NotImplementedError

    def seen(self, split: str) -> tuple[Callable[[np.ndarray], Batch], str]:
        """What makes a batch of things by their numbers; and what they are, for the report."""
        raise NotImplementedError

    def tokens(self) -> dict[str, Any]:
        return {"target": self.words}

    def write(self, tokens: Sequence[int], item: Any = None) -> Words:
        """The caption of ids."""
        return Words(self._vocabulary.decode(tokens))

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        identity, size = self.identity(split, seed, shuffle), self.config.batch
        if self.generated:

            def make(rows: range, epoch: int, k: int) -> Batch:
                return self.made(split, seed if shuffle else 0, epoch if shuffle else 0, rows)

            number = self.count(split)
            return drawn(make, number, size, identity, f"{number:,} {self.things[1]} an epoch")
        look, description = self.seen(split)
        report = f"{len(self.words):,} words; {self.count(split):,} {self.things[0]}, {description}"
        return self._encoded(split).loader(look, size, seed=seed, shuffle=shuffle, identity=identity, report=report)

    def _encode_all(self, split: str) -> Encoded:
        return Encoded.of(self._vocabulary, self.captions_of(split), self.config.max_length)


@dataclass(frozen=True, eq=False)
class Encoded:
    """Every caption of a split from bos to eos, and the number of what it describes."""

    ids: Ragged
    owners: np.ndarray

    @staticmethod
    def of(vocabulary: Vocabulary, described: Sequence[Sequence[str]], longest: int) -> Encoded:
        """``described`` has the captions of every thing; ``longest`` counts tokens, the end included."""
        rows = [vocabulary.framed(caption, longest) for captions in described for caption in captions]
        return Encoded(Ragged.of(rows), np.repeat(np.arange(len(described)), [len(captions) for captions in described]))

    def loader(
        self,
        look: Callable[[np.ndarray], Batch],
        size: int,
        *,
        seed: int,
        shuffle: bool,
        identity: Mapping[str, Any],
        report: str,
    ) -> Loader:
        """Captions of like length, ``size`` at a time, each with what ``look`` makes of the number it describes."""

        def make(rows: np.ndarray, epoch: int, k: int) -> Batch:
            return {**look(self.owners[rows]), **targets(self.ids, rows)}

        same = {**identity, "content": zlib.crc32(self.ids.ids.tobytes())}
        unknown = 100 * float((self.ids.ids == UNKNOWN).mean())
        report = f"{len(self.owners):,} captions, {unknown:.1f} % of their words unknown; {report}"
        return by_length(self.ids.lengths, size, make, seed=seed, shuffle=shuffle, identity=same, report=report)


def targets(ids: Ragged, rows: np.ndarray) -> dict[str, Tensor]:
    """``target`` (B, T + 1) from bos to eos, and ``target_lengths`` (B,), the number of tokens to predict."""
    target, lengths = pad(ids, rows)
    return {"target": target, "target_lengths": lengths - 1}


def measured(
    answers: Sequence[Written], references: Sequence[Sequence[str]]
) -> tuple[dict[str, float], dict[str, str]]:
    """BLEU-1 to BLEU-4, ROUGE-L and CIDEr-D beside all references, in percent, and how much the weights of consecutive
    words differ (``variation``, ``entropy``); and sacrebleu's signatures."""
    values, signatures = captions.scores([answer.text for answer in answers], references)
    maps = [one.weights.numpy() for one in answers if one.weights is not None and len(one.words) > 1]
    if maps:
        values["variation"] = float(np.mean([pointing.total_variation(weights) for weights in maps]))
        values["entropy"] = float(np.mean(np.concatenate([pointing.entropy(weights) for weights in maps])))
    return values, signatures
