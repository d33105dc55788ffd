"""Sentences in, sentences out, and which word came from where."""

from __future__ import annotations

import inspect
import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from regard import decode, record
from regard.decode.config import DecodeConfig
from regard.decode.config import decode as search
from regard.trained import Trained, lines, track
from regard.trained._workers import spread

UNKNOWN, END = 3, "</s>"
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

    def as_dict(self) -> dict[str, Any]:
        """For JSON; weights to four places."""
        rounded = None if self.weights is None else [[round(x, 4) for x in row] for row in self.weights.tolist()]
        found = {"text": self.text, "score": self.score, "source_words": self.source_words, "words": self.words}
        return {**found, "weights": rounded}


NOTHING = Prediction("", 0.0, 0.0, [], [], None)
"""The answer to an empty line."""


class Text(Trained):
    """A system that writes a sentence, or several that decide together."""

    @property
    def config(self) -> DecodeConfig:
        """How sentences are searched for."""
        return self.recipe.build("decode")

    def join(self, others: Sequence[Trained]) -> Self:
        """An ensemble. All must have the same target vocabulary."""
        for other in others:
            if other.task.target.backend.to_str() != self.task.target.backend.to_str():
                raise ValueError(
                    f"{self.name} and {other.name} have different target vocabularies and cannot vote together"
                )
        model = decode.Ensemble([self.model, *(other.model for other in others)])
        return type(self)(model, self.task, self.recipe, self.name)

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
        waiting = iter(sentences)
        while group := list(itertools.islice(waiting, chunk)):
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
        for rows, batch in self.task.batches([sentences[row] for row in filled]):
            options: dict[str, Any] = {"nbest": nbest, "alignments": alignments, "generator": generator}
            found = search(self.model, self.moved(batch), self.config, **options)
            for row, source, hypotheses in zip(rows, batch["source"], found, strict=True):
                sentence = sentences[filled[row]]
                answers[filled[row]] = [self._answer(sentence, source, each, dictionary) for each in hypotheses]
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
            cut = hypothesis.alignment.shape[1]  # a long sentence may have been
            seen = self.task.source.surfaces(sentence)[:cut]
            told = decode.replace_unknown(hypothesis, seen, spelling.pieces(tokens), dictionary)
            known = [" " + word if token == UNKNOWN else word for token, word in zip(tokens, told, strict=True)]
            text = "".join(known).strip()
            instead = iter(word for token, word in zip(tokens, told, strict=True) if token == UNKNOWN)
            words = [next(instead) if word == "<unk>" else word for word in words]
        return Prediction(text, hypothesis.score, hypothesis.log_prob, source_words, words, weights)

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """The task's metrics of what the system writes (never of teacher-forced words), and its speed."""
        pairs, began = self.task.pairs(split), time.perf_counter()
        sources = pairs.source[:limit]
        answers = [best for best, *_ in track(self.predict(sources), len(sources))]
        seconds = time.perf_counter() - began
        texts = [answer.text for answer in answers]
        if limit is not None:
            found = self.task.compare(texts, pairs.target[:limit])
        elif answers[0].weights is not None and "weights" in inspect.signature(self.task.evaluate).parameters:
            found = self.task.evaluate(texts, split, [answer.weights for answer in answers])
        else:
            found = self.task.evaluate(texts, split)
        self.signatures = self.task.signatures
        return {**found, "sentences_per_second": len(texts) / seconds}

    def answer(
        self,
        file: Path | None,
        *,
        nbest: int = 1,
        alignments: bool = False,
        as_json: bool = False,
        replace_unknown: Path | None = None,
        copy_unknown: bool = False,
        workers: int = 1,
    ) -> Iterator[str]:
        """An answer a line, in the order of the lines; an empty line stays empty."""
        dictionary = _dictionary(replace_unknown) if replace_unknown else {} if copy_unknown else None
        asked = lines(file, "Type a sentence and press Enter; Ctrl-D ends.")
        chunk = 1 if file is None and sys.stdin.isatty() else CHUNK
        groups = iter(lambda: list(itertools.islice(asked, chunk)), [])
        told = partial(self._told, nbest=nbest, alignments=alignments, as_json=as_json, dictionary=dictionary)
        yield from itertools.chain.from_iterable(spread(told, groups, workers) if workers > 1 else map(told, groups))

    def _told(
        self,
        sentences: Sequence[str],
        nbest: int,
        alignments: bool,
        as_json: bool,
        dictionary: Mapping[str, str] | None,
    ) -> list[str]:
        """The lines that answer some sentences."""
        told = []
        found = self._group(sentences, nbest, alignments or as_json or dictionary is not None, dictionary, None)
        for sentence, answers in zip(sentences, found, strict=True):
            if as_json:
                each = [answer.as_dict() for answer in answers]
                told.append(json.dumps({"source": sentence, "answers": each}, ensure_ascii=False))
                continue
            for answer in answers:
                fields = [answer.text]
                if nbest > 1:
                    fields.append(f"{answer.score:.4f}")
                if alignments:
                    fields.append(answer.pharaoh())
                told.append("\t".join(fields))
        return told

    @torch.inference_mode()
    def own(self, sentence: str) -> tuple[list[str], Tensor] | None:
        """The sentence in words, with its end, and where each of them looks among them, (L, H, T, T); None if the
        system does not look at its own words."""
        ((_, batch),) = self.task.batches([sentence])
        source = batch["source"][0].tolist()
        with record(self.model) as tape:
            self.model.start(self.moved(batch))
        square = (1, len(source), len(source))
        looks = [tape[name].weights[0] for name in tape if (1, *tape[name].shape[-2:]) == square]
        if not looks:
            return None
        words, numbers = self.task.source.words(source, apart=True)
        words, numbers = [*words, END], [len(words) if number < 0 else number for number in numbers]
        heads = torch.stack(looks).flatten(0, 1)
        each = [_by_word(head, numbers, len(words), numbers, len(words)) for head in heads]
        return words, torch.stack(each).unflatten(0, (len(looks), -1))

    def show(
        self,
        what: Sequence[str],
        out: Path | None,
        *,
        nbest: int = 5,
        own: bool = False,
        word: str | None = None,
        layer: int | None = None,
    ) -> Iterator[str]:
        """Where each word of the answer to each sentence came from; with ``own``, where the words of the sentence look
        among themselves, or only ``word``, drawn in ``layer`` (from 1, the last if None)."""
        from regard.views import alignment, page

        if not what:
            raise ValueError("say which sentence to answer, for example: 'I love coffee.'")
        if own or word is not None:
            yield from self._show_own(what, out, word, layer)
            return
        views = []
        for sentence, answers in zip(what, self.predict(what, nbest=nbest), strict=True):
            best = answers[0]
            yield f"{sentence}\n→ {best.text}"
            if best.weights is None or not best.words:
                yield "  (this system does not look at the source)" if best.words else "  (nothing to answer)"
                continue
            yield alignment.terminal(best.weights, best.words, best.source_words)
            readings = [
                alignment.Reading(answer.words, answer.weights, answer.score, answer.text)
                for answer in answers
                if answer.words and answer.weights is not None
            ]
            views.append((sentence, best, alignment.beam(readings, best.source_words, title=sentence)))
        if out is None or not views:
            return
        if out.suffix.lower() in (".html", ".htm"):
            size = page.write(out, [view for _, _, view in views], title=self.name)
            yield f"{out}: {size / 1000:,.0f} kB"
            return
        for number, (sentence, best, _) in enumerate(views, 1):
            path = out if len(views) == 1 else out.with_stem(f"{out.stem}-{number}")
            alignment.save(alignment.figure(best.weights, best.words, best.source_words, title=sentence), path)
            yield str(path)

    def _show_own(self, what: Sequence[str], out: Path | None, word: str | None, layer: int | None) -> Iterator[str]:
        from regard.views import alignment, heads, page

        views = []
        for number, sentence in enumerate(what, 1):
            found = self.own(sentence) if sentence.strip() else None
            yield sentence
            if found is None:
                yield "  (this system does not look at its own words)" if sentence.strip() else "  (nothing to read)"
                continue
            words, weights = found
            if word is None:
                yield f"the last of {len(weights)} layers, the mean of its {weights.shape[1]} heads"
            else:
                yield f"where {word!r} looks, layer.head"
            yield heads.terminal(weights, words, word=word)
            if out is None:
                continue
            if out.suffix.lower() in (".html", ".htm"):
                views.append(heads.view(weights, words, word=word, title=sentence))
                continue
            path = out if len(what) == 1 else out.with_stem(f"{out.stem}-{number}")
            if word is None:
                alignment.save(heads.figure(weights, words, title=sentence), path)
            else:
                alignment.save(heads.word(weights, word, words, layer=layer, title=sentence), path)
            yield str(path)
        if views and out is not None:
            yield f"{out}: {page.write(out, views, title=self.name) / 1000:,.0f} kB"


def _dictionary(path: Path) -> dict[str, str]:
    words = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        source, tab, target = line.partition("\t")
        if line.strip() and not tab:
            raise ValueError(f"{path}, line {number}: a dictionary has word TAB word, but here is {line!r}")
        words[source.strip()] = target.strip()
    return words


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
