"""A system that was trained, with its task: text in, text out, and where it looked.

model = Trained.open("translate-en-es")          # a model that ships with the package, or the folder of a run
for (best,) in model.predict(["I love coffee."]):
    best.text, best.weights, best.source_words, best.words
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import decode, registry
from regard._lazy import nearest
from regard.decode.config import DecodeConfig
from regard.decode.config import decode as search
from regard.training import Run, load_weights

UNKNOWN = 3
CHUNK = 512
"""Sentences that are sorted by length and decoded together."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """One answer.

    Attributes:
        text: the target sentence.
        score: what answers are ranked by, larger is better.
        log_prob: its log-probability.
        source_words, words: both sentences cut into words.
        weights: (T, S) of words: where each target word looked; None if the system does not look.
    """

    text: str
    score: float
    log_prob: float
    source_words: list[str]
    words: list[str]
    weights: Tensor | None

    def pharaoh(self) -> str:
        """The strongest link of each target word, ``0-0 1-2``."""
        return "" if self.weights is None else decode.pharaoh(self.weights)


NOTHING = Prediction("", 0.0, 0.0, [], [], None)
"""The answer to an empty line."""


class Trained:
    """A system, or several that decide together, ready to predict."""

    def __init__(self, model: Any, task: Any, config: DecodeConfig, name: str = ""):
        self.model, self.task, self.config, self.name = model.eval(), task, config, name

    @classmethod
    def open(cls, where: str | Path, *others: str | Path, which: str | None = None, data: str | None = None) -> Trained:
        """From the folder of a run or the name of a shipped model; with ``others``, an ensemble.

        Args:
            which: ``average``, ``best`` or ``last`` weights; by default the first of these that the run has.
            data: where the task's data lies now, if it is needed and has moved.
        """
        model, task, recipe = _load(where, which, data)
        if others:
            found = [_load(other, which, data) for other in others]
            for other, (_, theirs, _) in zip(others, found, strict=True):
                if theirs.target.backend.to_str() != task.target.backend.to_str():
                    raise ValueError(f"{where} and {other} have different target vocabularies and cannot vote together")
            model = decode.Ensemble([model, *(each for each, _, _ in found)])
        return cls(model, task, recipe.build("decode"), str(where))

    def to(self, device: str | torch.device) -> Trained:
        """The same on another device."""
        self.model.to(device)
        return self

    def predict(
        self,
        sentences: Iterable[str],
        *,
        nbest: int = 1,
        alignments: bool = True,
        chunk: int = CHUNK,
        dictionary: Mapping[str, str] | None = None,
        generator: torch.Generator | None = None,
    ) -> Iterator[list[Prediction]]:
        """At most ``nbest`` answers to each sentence, in order, also of a stream. An empty one has an empty answer.

        Args:
            chunk: how many sentences are read before the first answer; sorted by length they decode faster.
            dictionary: what unknown words become, looked up by the source word that was looked at; others are copied.
        """
        lines = iter(sentences)
        while group := list(itertools.islice(lines, chunk)):
            yield from self._group(group, nbest, alignments, dictionary, generator)

    @torch.inference_mode()
    def _group(
        self,
        sentences: Sequence[str],
        nbest: int,
        alignments: bool,
        dictionary: Mapping[str, str] | None,
        generator: torch.Generator | None,
    ) -> list[list[Prediction]]:
        answers: list[list[Prediction]] = [[NOTHING] for _ in sentences]
        filled = [row for row, sentence in enumerate(sentences) if sentence.strip()]
        device = next(self.model.parameters()).device
        for rows, batch in self.task.batches([sentences[row] for row in filled]):
            moved = {name: tensor.to(device) for name, tensor in batch.items()}
            found = search(self.model, moved, self.config, nbest=nbest, alignments=alignments, generator=generator)
            for row, hypotheses in zip(rows, found, strict=True):
                source = batch["source"][rows.index(row)]
                answers[filled[row]] = [
                    self._answer(sentences[filled[row]], source, hypothesis, dictionary) for hypothesis in hypotheses
                ]
        return answers

    def _answer(
        self, sentence: str, source: Tensor, hypothesis: decode.Hypothesis, dictionary: Mapping[str, str] | None
    ) -> Prediction:
        tokens, spelling = hypothesis.tokens, self.task.target
        source_words, source_numbers = self.task.source.words(source.tolist(), apart=True)
        words, numbers = spelling.words(tokens, apart=True)
        weights, text = None, spelling.decode(tokens)
        if hypothesis.alignment is not None:
            raw = hypothesis.alignment[: len(numbers), : len(source_numbers)]
            weights = _by_word(raw, numbers, len(words), source_numbers, len(source_words))
        if hypothesis.alignment is not None and dictionary is not None and UNKNOWN in tokens:
            seen = self.task.source.surfaces(sentence)[
                : hypothesis.alignment.shape[1]
            ]  # the sentence may have been cut
            told = decode.replace_unknown(hypothesis, seen, spelling.pieces(tokens), dictionary)
            known = [" " + word if token == UNKNOWN else word for token, word in zip(tokens, told, strict=True)]
            text = "".join(known).strip()
            instead = iter(word for token, word in zip(tokens, told, strict=True) if token == UNKNOWN)
            words = [next(instead) if word == "<unk>" else word for word in words]
        return Prediction(text, hypothesis.score, hypothesis.log_prob, source_words, words, weights)


def _load(where: str | Path, which: str | None, data: str | None) -> tuple[nn.Module, Any, registry.Recipe]:
    folder = Path(where)
    if not folder.exists() and str(where) in registry.shipped():
        folder = registry.PRETRAINED / str(where)
    if not folder.is_dir():
        known = nearest(str(where), registry.shipped())
        raise ValueError(f"{where}: neither the folder of a run nor a shipped model; {known}")
    run = Run.open(folder)
    recipe = registry.Recipe.read(run.folder / "recipe.toml")
    task = registry.task(recipe.sections["task"]["name"]).load(run.task, data)
    model = registry.system(recipe.sections["system"]["name"])(recipe.build("system", **task.sizes))
    load_weights(model, run.weights(which))
    return model, task, recipe


def _by_word(weights: Tensor, rows: list[int], height: int, columns: list[int], width: int) -> Tensor:
    """Weights of tokens (T, S) as weights of words: added up along the source, averaged along the target."""
    weights = weights.float().cpu()
    kept = [column for column, word in enumerate(columns) if word >= 0]
    index = torch.tensor([columns[column] for column in kept], dtype=torch.long)
    across = weights.new_zeros(weights.shape[0], width).index_add_(1, index, weights[:, kept])
    kept = [row for row, word in enumerate(rows) if word >= 0]
    index = torch.tensor([rows[row] for row in kept], dtype=torch.long)
    total = weights.new_zeros(height, width).index_add_(0, index, across[kept])
    count = weights.new_zeros(height).index_add_(0, index, weights.new_ones(len(kept)))
    return total / count.clamp_min(1)[:, None]
