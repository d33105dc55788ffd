"""Sentences in, sentences out, and which word came from where."""

from __future__ import annotations

import dataclasses
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
from regard.attention import witness
from regard.decode.config import DecodeConfig
from regard.decode.config import decode as search
from regard.decode.packed import twin
from regard.trained import Trained, lines, track
from regard.trained._workers import spread

BOS, EOS, UNKNOWN, END = 1, 2, 3, "</s>"
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
        """An ensemble. All must have the same vocabularies."""
        for other in others:
            for side in ("source", "target"):
                ours, theirs = (getattr(each.task, side).backend.to_str() for each in (self, other))
                if ours != theirs:
                    raise ValueError(
                        f"{self.name} and {other.name} have different {side} vocabularies and cannot vote together"
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
            # A tape knows the model's own parts by name.
            model = self.model if witness.see is not None else twin(self.model)
            found = search(model, self.moved(batch), self.config, **options)
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
        if limit is None and self.has_heads and hasattr(self.task, "head_errors"):
            errors = self.task.head_errors(self.looks(pairs.source, pairs.target), split)
            found |= {f"aer@{head_name(*place)}": error for place, error in errors.items()}
        self.signatures = self.task.signatures
        return {**found, "sentences_per_second": len(texts) / seconds}

    @property
    def has_heads(self) -> bool:
        """Are there several heads, any of which might say where a word came from?"""
        return hasattr(getattr(self.model, "config", None), "alignment_head")

    @torch.inference_mode()
    def looks(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[int, Tensor]]:
        """Where each head looks at the source while given translations are written: for each pair its number and the
        weights (L, H, T, S) of its tokens, without their ends. Pairs of like length come together."""
        for rows, batch in self.task.batches(sources):
            written = [self.task.target.encode(targets[row]) for row in rows]
            framed = [torch.tensor([BOS, *ids, EOS]) for ids in written]
            batch["target"] = torch.nn.utils.rnn.pad_sequence(framed, batch_first=True)
            batch["target_lengths"] = torch.tensor([len(ids) + 1 for ids in written])
            with record(self.model) as tape:
                self.model(self.moved(batch))
            layers = [tape[name].weights for name in tape if name.rpartition(".")[2] in ("cross", "attention")]
            if not layers:
                raise ValueError(f"{self.name} does not look at the source")
            # An RNN has one layer and one head.
            weights = torch.stack([each if each.ndim == 4 else each[:, None] for each in layers], 1).cpu()
            for ids, row, length, each in zip(written, rows, batch["source_lengths"].tolist(), weights):
                yield row, each[..., : len(ids), : length - 1]

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
            right, of = {place: 1 - error for place, error in errors.items()}, len(pairs.source)
        else:
            right, of = self.copied(split)
        (layer, head), best = max(right.items(), key=lambda each: each[1])
        self.model.config = dataclasses.replace(self.model.config, alignment_layer=layer, alignment_head=head)
        heads = {head_name(*place): round(share, 4) for place, share in right.items()}
        return {"layer": layer, "head": head, "by": by, "split": split, "of": of, "right": best, "heads": heads}

    def copied(self, split: str = "valid") -> tuple[dict[tuple[int, int], float], int]:
        """For each (layer, head) how often a word that was copied looks at itself, and how many such words there are.

        A word counts if it stands once in a sentence and once, unchanged, in its translation: names and numbers,
        mostly. That is all that can be known of alignments where nobody has written them down.
        """
        pairs = self.task.pairs(split)
        hits: Any = 0
        total = 0
        for row, weights in self.looks(pairs.source, pairs.target):
            height, width = weights.shape[-2:]
            seen, said = self.task.source.surfaces(pairs.source[row]), self.task.target.surfaces(pairs.target[row])
            if links := _same(seen[:width], said[:height]):
                source, target = (torch.tensor(side) for side in zip(*links))
                heads = torch.cat([weights, weights.mean(1, keepdim=True)], 1)  # (L, H + 1, T, S)
                hits = hits + (heads[:, :, target].argmax(-1) == source).sum(-1)
                total += len(links)
        if not total:
            raise ValueError(f"{self.name}: no word is the same in a sentence of {split} and in its translation")
        layers, count = hits.shape
        places = itertools.product(range(layers), [*range(count - 1), -1])
        return {place: int(hits[place]) / total for place in places}, total

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


def head_name(layer: int, head: int) -> str:
    """``2.3``: a layer and its head as pictures name them, from 1; ``2.mean`` for head −1."""
    return f"{layer + 1}.{head + 1 if head >= 0 else 'mean'}"


def _same(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """Words that stand once on either side, (source, target). Marks and single letters are the same by chance."""
    once = [word for word in set(source) & set(target) if source.count(word) == target.count(word) == 1]
    known = [word for word in once if any(map(str.isalnum, word)) and (len(word) > 1 or not word.isalpha())]
    return sorted((source.index(word), target.index(word)) for word in known)


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
