"""Which head of a translator says best where a word came from."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard import record
from regard.data.tokens import BOS, EOS
from regard.predictors.writer import Writer


class Heads(Writer):
    """A translator whose heads can be compared."""

    @property
    def has_heads(self) -> bool:
        """Are there several heads, any of which might say where a word came from?"""
        return hasattr(getattr(self.model, "config", None), "alignment_head")

    @torch.inference_mode()
    def looks(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[int, Tensor]]:
        """Where each head looks at the source while the targets are read: for each pair its number and the
        weights (L, H, T, S) of its tokens, without their ends. Pairs of like length come together."""
        for rows, batch in self.task.batches(sources):
            encoded = [self.task.target.encode(targets[row]) for row in rows]
            framed = [torch.tensor([BOS, *ids, EOS]) for ids in encoded]
            batch["target"] = torch.nn.utils.rnn.pad_sequence(framed, batch_first=True)
            batch["target_lengths"] = torch.tensor([len(ids) + 1 for ids in encoded])
            with record(self.model) as tape:
                self.model(self.moved(batch))
            layers = [tape[name].weights for name in tape if name.rpartition(".")[2] in ("cross", "attention")]
            if not layers:
                raise ValueError(f"{self.name} does not look at the source")
            # An RNN has one layer and one head.
            weights = torch.stack([layer if layer.ndim == 4 else layer[:, None] for layer in layers], 1).cpu()
            for ids, row, length, pair in zip(encoded, rows, batch["source_lengths"].tolist(), weights):
                yield row, pair[..., : len(ids), : length - 1]

    def choose_head(self, split: str = "valid", *, by: str | None = None) -> dict[str, Any]:
        """Find the head that says best where a word came from, and use it from now on: for pictures, word alignments
        and unknown words. ``Run.note(alignment=…)`` keeps what this returns.

        Args:
            split: whose sentences are looked at.
            by: ``gold``: the least error against the right alignment, by default where the task knows it; ``copied``:
                see :meth:`copied`.

        Layers and heads count from 0; head −1 is the mean of its layer's. ``heads`` names them from 1, as pictures do.
        """
        if not self.has_heads:
            raise ValueError(f"{self.name}: there is nothing to choose, as it does not look with several heads")
        by = by or ("gold" if hasattr(self.task, "head_errors") else "copied")
        if by == "gold":
            pairs = self.task.pairs(split)
            errors = self.task.head_errors(self.looks(pairs.source, pairs.target), split)
            shares, count = {place: 1 - error for place, error in errors.items()}, len(pairs.source)
        else:
            shares, count = self.copied(split)
        (layer, head), best = max(shares.items(), key=lambda entry: entry[1])
        self.model.config = dataclasses.replace(self.model.config, alignment_layer=layer, alignment_head=head)
        heads = {head_name(*place): round(share, 4) for place, share in shares.items()}
        return {"layer": layer, "head": head, "by": by, "split": split, "of": count, "right": best, "heads": heads}

    def copied(self, split: str = "valid") -> tuple[dict[tuple[int, int], float], int]:
        """For each (layer, head) how often a word that was copied looks at itself, and how many such words there are.

        A word counts if it stands once in a sentence and once, unchanged, in its translation: names and numbers,
        mostly. It stands in for the alignment error where there are no gold alignments.
        """
        pairs = self.task.pairs(split)
        hits: Any = 0
        total = 0
        for row, weights in self.looks(pairs.source, pairs.target):
            height, width = weights.shape[-2:]
            source_words = self.task.source.surfaces(pairs.source[row])
            target_words = self.task.target.surfaces(pairs.target[row])
            if links := _same(source_words[:width], target_words[:height]):
                source, target = (torch.tensor(side) for side in zip(*links))
                heads = torch.cat([weights, weights.mean(1, keepdim=True)], 1)  # (L, H + 1, T, S)
                hits = hits + (heads[:, :, target].argmax(-1) == source).sum(-1)
                total += len(links)
        if not total:
            raise ValueError(f"{self.name}: no word is the same in a sentence of {split} and in its translation")
        layers, count = hits.shape
        places = itertools.product(range(layers), [*range(count - 1), -1])
        return {place: int(hits[place]) / total for place in places}, total


def head_name(layer: int, head: int) -> str:
    """``2.3``: a layer and its head as pictures name them, from 1; ``2.mean`` for head −1."""
    return f"{layer + 1}.{head + 1 if head >= 0 else 'mean'}"


def _same(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """Words that stand once on either side, (source, target). Marks and single letters are the same by chance."""
    once = [word for word in set(source) & set(target) if source.count(word) == target.count(word) == 1]
    distinctive = [word for word in once if any(map(str.isalnum, word)) and (len(word) > 1 or not word.isalpha())]
    return sorted((source.index(word), target.index(word)) for word in distinctive)
