"""What tasks share whose systems describe something: captions in batches, and what is measured of them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from regard.data.tokens import UNKNOWN, Ragged
from regard.decode.written import Written
from regard.metrics import captions, pointing
from regard.tasks._batches import pad
from regard.tasks._words import Vocabulary, by_length
from regard.tasks.task import Batch, Loader


@dataclass(frozen=True, eq=False)
class Encoded:
    """Every caption of a split from bos to eos, and the number of what it describes."""

    ids: Ragged
    owners: np.ndarray

    @staticmethod
    def of(vocabulary: Vocabulary, described: Sequence[Sequence[str]], longest: int) -> Encoded:
        """``described`` has the captions of each; ``longest`` counts tokens, the end included."""
        rows = [vocabulary.framed(caption, longest) for each in described for caption in each]
        return Encoded(Ragged.of(rows), np.repeat(np.arange(len(described)), [len(each) for each in described]))

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


def measured(found: Sequence[Written], references: Sequence[Sequence[str]]) -> tuple[dict[str, float], dict[str, str]]:
    """BLEU-1 to BLEU-4, ROUGE-L and CIDEr-D beside all references, in percent, and how much the weights of consecutive
    words differ (``variation``, ``entropy``); and sacrebleu's signatures."""
    values, signatures = captions.scores([each.text for each in found], references)
    maps = [each.weights.numpy() for each in found if each.weights is not None and len(each.words) > 1]
    if maps:
        values["variation"] = float(np.mean([pointing.total_variation(each) for each in maps]))
        values["entropy"] = float(np.mean(np.concatenate([pointing.entropy(each) for each in maps])))
    return values, signatures
