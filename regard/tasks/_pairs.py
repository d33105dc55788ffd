"""Shared by tasks on pairs of sentences: tokenizers, loaders, batches for prediction, metrics, saving."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.axes import Axis, Words
from regard.data import lexicon
from regard.data.lines import BadLines, clean
from regard.data.text import Corpus, Files, Pairs, Position
from regard.data.tokens import BOS, EOS, Ragged, Tokenizer
from regard.decode.written import Written
from regard.metrics import text
from regard.questions import Input
from regard.questions import Text as Line
from regard.tasks._batches import Batch, Encoded, PairLoader, bucket, pad
from regard.tasks._tokens import folder_of
from regard.tasks.task import LANGUAGE, AskedTask, check_split

END = "</s>"
"""The label of the source's end, for the weights that belong to no word."""


class PairTask(AskedTask):
    """Sentences in, sentences out. A subclass says where the pairs come from, :meth:`corpus`, and how they are cut,
    :meth:`make_tokenizers`.

    A batch has ``source`` (B, S), each ending with eos, ``source_lengths`` (B,), ``target`` (B, T + 1) from bos to eos,
    and ``target_lengths`` (B,), the number of tokens to predict; padding is 0. For prediction there is no target.
    """

    kind: ClassVar[str] = "text"
    family: ClassVar[str] = LANGUAGE
    unit: ClassVar[str] = "tokens"
    title = "Sentences to sentences"
    verb = "Translate"
    asks: Mapping[str, Input] = {"text": Line(2000, title="A sentence")}
    source: Tokenizer
    target: Tokenizer

    def __init__(self, config: Any, data: Any = None, *, known: Any = None):
        super().__init__(config, data, known=known)
        self.source, self.target = self.known["source"], self.known["target"]
        self.signatures: dict[str, str] = {}
        """sacrebleu's signatures of the last :meth:`compare`."""
        self._cached_pairs: dict[str, Pairs] = {}

    def learn(self) -> dict[str, Any]:
        return dict(zip(("source", "target"), self.make_tokenizers()))

    def make_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """For the source and the target; may be one and the same."""
        raise NotImplementedError

    def corpus(self, split: str) -> Corpus:
        """The pairs of a split."""
        raise NotImplementedError

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know: the sizes of the vocabularies."""
        return {"source_vocab": len(self.source), "target_vocab": len(self.target)}

    def pairs(self, split: str) -> Pairs:
        """The sentences of a split, as text. Meant for splits that fit into memory."""
        columns = Pairs([], [], [])
        for pairs, _ in self.corpus(check_split(split)).chunks(BadLines(self._skips)):
            columns.source.extend(pairs.source)
            columns.target.extend(pairs.target)
            columns.lines.extend(pairs.lines)
        return columns

    def lexicon(self, split: str = "train", *, rounds: int = 5) -> dict[str, list[tuple[str, float]]]:
        """Translations of source words with their probabilities, learned from a split (:mod:`regard.data.lexicon`)."""
        sides = zip((self.source, self.target), self.pairs(split)[:2])
        source, target = ([tokenizer.surfaces(text) for text in texts] for tokenizer, texts in sides)
        return lexicon.learn(source, target, rounds=rounds)

    def batches_of(self, split: str, seed: int, shuffle: bool) -> PairLoader:
        corpus = self.corpus(split)
        settings: dict[str, Any] = dict(tokens=self.config.batch_tokens, seed=seed, shuffle=shuffle)
        bad = BadLines(self._skips)
        if split == "train" and self._streams(corpus):

            def read(bad: BadLines, start: Position) -> Iterator[tuple[Encoded, Position]]:
                for pairs, after in corpus.chunks(bad, start):
                    yield self._encode(pairs, corpus, bad), after

            return PairLoader(read, bad=bad, size=corpus.size, **settings)
        parts = [self._encode(pairs, corpus, bad) for pairs, _ in corpus.chunks(bad)]
        encoded = Encoded.join(parts)
        if not len(encoded.source.lengths):
            raise ValueError(f"{corpus.place(0)}: no pair of sentences for {split!r} ({bad})")
        return PairLoader(encoded, bad=bad, **settings)

    def batches(self, sentences: Sequence[str], *, tokens: int | None = None) -> Iterator[tuple[list[int], Batch]]:
        """Sources to translate, in batches of like length: the rows of ``sentences`` that a batch holds, and the batch.

        A sentence longer than ``max_length`` is cut, with a warning.
        """
        encoded = self.source.encode_all([clean(sentence) for sentence in sentences])
        limit = self.config.max_length
        rows = []
        for row, length in enumerate(encoded.lengths):
            if length >= limit:
                warnings.warn(f"sentence {row + 1} has {length + 1:,} tokens and is cut to {limit:,}", stacklevel=2)
            rows.append([*encoded[row][: limit - 1], EOS])
        sources = Ragged.of(rows)
        for chosen in bucket((sources.lengths, sources.lengths), tokens or self.config.batch_tokens, None):
            source, lengths = pad(sources, chosen)
            yield chosen.tolist(), {"source": source, "source_lengths": lengths}

    def read(self, question: Any) -> str:
        """The sentence. The command line cuts one that is too long and warns; here there is nobody to read a
        warning."""
        (tokens,), most = self.source.encode_all([clean(question.text)]).lengths, self.config.max_length - 1
        if tokens > most:
            raise ValueError(f"the sentence has {tokens:,} tokens, and {most:,} is the most")
        return question.text

    def axes(self, item: str) -> dict[str, Axis]:
        """The words of a sentence, and its end."""
        ids = self.source.encode_all([clean(item)])[0][: self.config.max_length - 1]
        words, numbers = self.source.words([*ids, EOS], apart=True)
        groups = [len(words) if number < 0 else number for number in numbers]
        return {"words": Words([*words, END], groups, item)}

    def write(self, tokens: Sequence[int], item: Any = None) -> Words:
        words, groups = self.target.words(tokens, apart=True)
        return Words(words, groups, self.target.decode(tokens))

    def tokens(self) -> dict[str, Any]:
        return {side: getattr(self, side).backend.to_str() for side in ("source", "target")}

    def _pairs_of(self, split: str) -> Pairs:
        """The pairs of a split, read once."""
        if split not in self._cached_pairs:
            self._cached_pairs[split] = self.pairs(split)
        return self._cached_pairs[split]

    def item(self, split: str, number: int) -> str:
        return self._pairs_of(check_split(split)).source[number]

    def count(self, split: str) -> int:
        return len(self._pairs_of(check_split(split)).source)

    def measure(self, split: str, found: Sequence[Written]) -> dict[str, float]:
        texts = [answer.text for answer in found]
        if len(texts) < self.count(split):
            return self.compare(texts, self._pairs_of(split).target[: len(texts)])
        return self.evaluate(texts, split)

    def evaluate(self, hypotheses: Sequence[str], split: str = "test") -> dict[str, float]:
        """Metrics of translations of a split, in its order, against its references."""
        return self.compare(hypotheses, self.pairs(split).target)

    def compare(self, hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """BLEU, chrF, TER and exact match of translations, in percent; case does not count where the task has none."""
        language, lowercase = getattr(self.config, "tgt", ""), getattr(self.config, "lowercase", False)
        if lowercase:
            hypotheses, references = ([text.lower() for text in texts] for texts in (hypotheses, references))
        values, self.signatures = text.scores(hypotheses, references, language, lowercase)
        return {**values, "exact_match": 100 * text.exact_match(hypotheses, references)}

    def pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """No facts, but a file for each tokenizer, or one for both."""
        if self.source is self.target:
            return {}, {"tokenizer.json": self.source.to_bytes()}
        return {}, {"source.json": self.source.to_bytes(), "target.json": self.target.to_bytes()}

    @classmethod
    def unpack(cls, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
        return _both_of(folder)

    @property
    def _skips(self) -> bool:
        return bool(getattr(self.config, "skip_bad", False))

    def _streams(self, corpus: Corpus) -> bool:
        return isinstance(corpus, Files) and corpus.size > getattr(self.config, "stream_mb", sys.maxsize) * 1e6

    def _encode(self, pairs: Pairs, corpus: Corpus, bad: BadLines) -> Encoded:
        sides = self.source.encode_all(pairs.source), self.target.encode_all(pairs.target)
        lengths = np.stack([ragged.lengths + 1 for ragged in sides])  # with eos
        keep = lengths.max(0) <= self.config.max_length
        for row in np.flatnonzero(~keep):
            side = int(lengths[0, row] <= self.config.max_length)
            what = f"{lengths[side, row]:,} tokens, more than max_length = {self.config.max_length:,}"
            bad.add("too long", corpus.place(side), pairs.lines[row], what)
        return Encoded(_framed(sides[0], keep, bos=False), _framed(sides[1], keep, bos=True))


def tokenizers_of(run: str) -> dict[str, Tokenizer]:
    """The tokenizers of both sides, of the run in a folder or of a shipped model."""
    folder = folder_of(run)
    if not any((folder / name).is_file() for name in ("tokenizer.json", "source.json")):
        raise ValueError(f"tokens = {run}: it is no run with a tokenizer, since {folder} has none")
    return _both_of(folder)


def _both_of(folder: Path) -> dict[str, Tokenizer]:
    if (folder / "tokenizer.json").exists():
        both = Tokenizer.load(folder / "tokenizer.json")
        return {"source": both, "target": both}
    return {side: Tokenizer.load(folder / f"{side}.json") for side in ("source", "target")}


def _framed(ragged: Ragged, keep: np.ndarray, *, bos: bool) -> Ragged:
    """The kept sequences with eos after them and, where asked, bos before them."""
    lengths = ragged.lengths
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[keep] + 1 + bos)])
    ids = np.full(offsets[-1], EOS, dtype=np.int32)
    inner = np.ones(offsets[-1], dtype=bool)
    inner[offsets[1:] - 1] = False
    if bos:
        ids[offsets[:-1]] = BOS
        inner[offsets[:-1]] = False
    ids[inner] = ragged.ids[np.repeat(keep, lengths)]
    return Ragged(ids, offsets)
