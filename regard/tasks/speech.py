"""Utterances in, characters out.

``data`` is a folder with ``transcripts.tsv``, AN4 (:mod:`regard.data.utterances`), ``made``, sentences that flite or
espeak-ng say, or ``tones``, words of a language without meaning that a synthesizer says
(:mod:`regard.data.made_speech`). Transcripts are lower case without punctuation.

Sentences of ``made`` are the lines of ``text``, or of a small grammar if it is empty. The last tenth of them is for
validation and for test; ``voices`` say those of training and validation, and ``test_voice``, which is new to the
system, those of test.
"""

from __future__ import annotations

import sys
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard._settings import at_least
from regard.data import SPLITS, made_speech, sound, utterances
from regard.data.download import locate
from regard.data.lines import BadLines, numbered_lines
from regard.data.made_speech import Voice
from regard.tasks._sounds import Item, Sounds, SoundTask
from regard.tasks._words import plan
from regard.tasks.task import Batch, Loader, check_split, drawn, loader_of

TONES, MADE = "tones", "made"
_VOICES = {"train": 60, "valid": 10, "test": 10}
_GRAMMAR = (
    ("the", "a", "this", "my", "your", "every"),
    ("small", "old", "red", "quiet", "happy", "green", "young", "cold", "bright", "heavy", "empty", "good"),
    ("dog", "teacher", "river", "house", "child", "doctor", "garden", "horse", "window", "farmer", "ship", "letter"),
    ("finds", "sees", "loves", "follows", "paints", "leaves", "wants", "brings", "hears", "keeps"),
    ("the", "a", "one", "her", "his", "some"),
    ("apple", "bird", "street", "book", "friend", "mountain", "table", "cup", "king", "village", "song", "boat"),
    ("today", "in spring", "at night", "by the sea", "with care", "again", "before lunch", "on monday", ""),
)


@dataclass(frozen=True)
class Config(Sounds):
    """Which utterances, and what becomes of them."""

    data: str = TONES
    """A folder, the name of a known data set, ``made`` or ``tones``."""
    text: str = ""
    """Of ``made``: a file with a sentence a line, of which the part before a tab is taken; a grammar if empty."""
    voices: str = "flite/kal,flite/awb,flite/slt"
    """Of ``made``, in training, with commas between them."""
    test_voice: str = "flite/rms"
    """Of ``made``, in test."""
    max_length: int = 120
    """Characters of the longest transcript; longer ones are left out of training."""
    grow: int = 0
    """Epochs of training until all utterances take part; at first the shortest fifth does."""
    words: int = 3
    """Of an utterance of ``tones``, at most."""
    train_size: int = 2000
    """Generated utterances of an epoch, or sentences of ``made``."""
    valid_size: int = 100
    test_size: int = 100
    skip_bad: bool = False
    """Count and leave out transcripts without a sound."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "max_length", "words", "train_size", "valid_size", "test_size")
        if self.grow < 0:
            raise ValueError(f"grow = {self.grow}: epochs are not negative")


class Speech(SoundTask):
    """Speech in, characters out; see the module's docstring. What is known without the data: ``words``, the characters,
    and the ``width`` of features that came without sound, else 0."""

    settings: ClassVar[type] = Config
    elsewhere = ("data", "text", "skip_bad")
    spelled = True
    config: Config
    _unnamed = 0
    """Sound files without a transcript."""

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self._cached_item = lru_cache(maxsize=256)(self._load_item)

    @cached_property
    def bad(self) -> BadLines:
        """The transcripts that were left out."""
        return BadLines(self.config.skip_bad)

    def learn(self) -> dict[str, Any]:
        if self.source == TONES:
            return {"words": list(made_speech.ALPHABET), "width": 0}
        train = self._part("train")
        first = train[0].frames
        width = 0 if first is None else first.shape[1] * (3 if self.config.deltas else 1)
        return {"words": sorted({" ", *(letter for utterance in train for letter in utterance.text)}), "width": width}

    @property
    def source(self) -> str:
        """Where the data lies, or what it is called."""
        return str(self.data or self.config.data)

    @property
    def hears(self) -> bool:
        return not self.known["width"]

    def origin(self) -> str:
        return {TONES: "generated sounds", MADE: "synthesized speech"}.get(self.source) or super().origin()

    # -----------------------------------------------------------------------------------------------------------------
    # Utterances

    @cached_property
    def _splits(self) -> utterances.Splits:
        if self.source == MADE:
            return self._synthesized()
        try:
            place = locate(self.data or self.config.data)
        except ValueError as error:
            raise ValueError(f"{error}; speech can also be generated: data={TONES}") from None
        splits = utterances.read(place, self.bad, plain)
        if any(utterance.file for part in splits.values() for utterance in part):
            self._unnamed = utterances.unnamed(place, splits)
        return {split: [one._replace(text=plain(one.text)) for one in part] for split, part in splits.items()}

    def _part(self, split: str) -> list[utterances.Utterance]:
        if check_split(split) not in self._splits:
            raise ValueError(
                f"{self.source}: there are no utterances for {split!r}, only for {', '.join(self._splits)}"
            )
        return self._splits[split]

    def _synthesized(self) -> utterances.Splits:
        config = self.config
        count = config.train_size + config.valid_size + config.test_size
        lines = (
            _sentences(Path(config.text).expanduser(), config.max_length)
            if config.text
            else _grammar(count, config.data_seed)
        )
        if len(lines) < count:
            raise ValueError(f"{config.text}: {len(lines):,} sentences that differ, but {count:,} are wanted")
        voices = [voice.strip() for voice in config.voices.split(",")]
        splits = {split: [] for split in SPLITS}  # type: dict[str, list[utterances.Utterance]]
        for number, line in enumerate(lines[:count]):
            split = "train" if number < config.train_size else "valid" if number < count - config.test_size else "test"
            voice = config.test_voice if split == "test" else voices[number % len(voices)]
            splits[split].append(utterances.Utterance(line, line, voice))
        return splits

    @cached_property
    def _waves(self) -> dict[tuple[str, str], np.ndarray]:
        """The sounds that flite and espeak-ng make, by text and voice."""
        sentences = [(utterance.text, utterance.speaker) for part in self._splits.values() for utterance in part]

        def tell(done: int) -> None:
            if done % 100 == 0 and sys.stderr.isatty():
                print(f"\r{done:,} of {len(sentences):,} sentences said", end="", file=sys.stderr, flush=True)

        return dict(zip(sentences, made_speech.collection(sentences, self.mel.rate, tell), strict=True))

    def _wave(self, utterance: utterances.Utterance, *, alone: bool = False) -> np.ndarray:
        """The sound of an utterance; ``alone``, so that others are not synthesized with it."""
        if utterance.file is not None:
            return sound.read(utterance.file, self.mel.rate, self.config.longest)
        if alone and "_waves" not in self.__dict__:
            return made_speech.collection([(utterance.text, utterance.speaker)], self.mel.rate)[0]
        return self._waves[utterance.text, utterance.speaker]

    def count(self, split: str) -> int:
        """The utterances of a split; of generated training data those of an epoch."""
        return getattr(self.config, f"{check_split(split)}_size") if self.source == TONES else len(self._part(split))

    def item(self, split: str, number: int) -> Item:
        count = self.count(split)
        if not 0 <= number < count:
            raise ValueError(f"there is no utterance {number} in {split}: they are 0 to {count - 1}")
        return self._cached_item(split, number)

    def _load_item(self, split: str, number: int) -> Item:
        if self.source == TONES:
            wave, text = self._drawn(split, np.random.default_rng([self.config.data_seed, SPLITS.index(split), number]))
            return Item(sound.heard(wave, self.mel), wave, text)
        utterance = self._part(split)[number]
        if utterance.frames is not None:
            return Item(self._features(utterance.frames), text=utterance.text)
        wave = self._wave(utterance, alone=True)
        return Item(sound.heard(wave, self.mel), wave, utterance.text)

    def _features(self, frames: np.ndarray) -> Tensor:
        features = torch.from_numpy(frames)
        return sound.normalized(sound.with_deltas(features) if self.config.deltas else features)

    def _drawn(self, split: str, random: np.random.Generator) -> tuple[np.ndarray, str]:
        """The sound and the text of nonsense words, said by a synthetic voice."""
        voice = np.random.default_rng(
            [self.config.data_seed, SPLITS.index(split), int(random.integers(_VOICES[split])), 7]
        )
        text = " ".join(_nonsense(random) for _ in range(int(random.integers(1, self.config.words + 1))))
        return made_speech.say(f" {text} ", Voice.drawn(voice), random, self.mel.rate), text

    def suggested(self) -> list[dict[str, Any]]:
        speaks = self.source != MADE or made_speech.installed(self.config.test_voice)
        return super().suggested() if speaks else []

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        identity = self.identity(split, seed, shuffle)
        size = self.config.batch
        if self.source == TONES:

            def make(rows: range, epoch: int, k: int) -> Batch:
                if not shuffle:
                    return self._batch_of_items([self.item(split, row) for row in rows])
                random = np.random.default_rng([self.config.data_seed, seed, epoch, k])
                strings = [self._drawn(split, random) for _ in rows]
                return self._batch(
                    [self._altered(wave, random)[0] for wave, _ in strings], [text for _, text in strings]
                )

            number = self.count(split)
            return drawn(make, number, size, identity, f"{number:,} utterances an epoch")
        part = self._part(split)
        chosen = [row for row, one in enumerate(part) if not shuffle or len(one.text) <= self.config.max_length]
        if not chosen:
            raise ValueError(
                f"{self.source}: every transcript has more than max_length = {self.config.max_length} characters"
            )
        lengths = np.array([len(part[row].text) for row in chosen])
        planned = lru_cache(maxsize=1)(lambda epoch: self._plan(lengths, (seed, epoch) if shuffle else None))

        def take(epoch: int, k: int) -> Batch:
            rows = [chosen[row] for row in planned(epoch)[k]]
            if not shuffle:
                return self._batch_of_items([self.item(split, row) for row in rows])
            random = np.random.default_rng([self.config.data_seed, seed, epoch, k])
            return self._batch([self._augmented(part[row], random) for row in rows], [part[row].text for row in rows])

        texts = [utterance.text for utterance in part]
        identity["content"] = zlib.crc32("\n".join(texts).encode())
        unknown = sum(letter not in set(self.words) for text in texts for letter in text)
        report = f"{len(part):,} utterances, {len(self.words) - 4} characters"
        if len(chosen) < len(part):
            report += f"; {len(part) - len(chosen):,} left out, of more than {self.config.max_length} characters"
        if unknown:
            report += f"; {unknown:,} characters are unknown to the system"
        if self._unnamed:
            report += f"; {self._unnamed:,} sound files have no transcript and are left out"
        report += f"; {self.bad}" if self.bad.total else ""
        return loader_of(take, len(planned(0)), identity, report)

    def _plan(self, lengths: np.ndarray, seed: tuple[int, int] | None) -> list[np.ndarray]:
        """The rows of each batch. While training grows, an epoch takes the shorter utterances, several times."""
        if seed is None or seed[1] >= self.config.grow:
            return plan(lengths, self.config.batch, seed)
        share = 0.2 + 0.8 * seed[1] / self.config.grow
        shortest = np.argsort(lengths, kind="stable")[: max(1, round(share * len(lengths)))]
        rows = np.resize(shortest, len(lengths))  # every epoch has as many batches
        return [rows[batch] for batch in plan(lengths[rows], self.config.batch, seed)]

    def _augmented(self, utterance: utterances.Utterance, random: np.random.Generator) -> Tensor:
        if utterance.frames is None:
            return self._altered(self._wave(utterance), random)[0]
        frames = torch.from_numpy(utterance.frames)
        speed = 1 + random.uniform(-self.config.speed, self.config.speed)
        count = max(1, round(len(frames) / speed))
        stretched = torch.nn.functional.interpolate(frames.T[None], count, mode="linear", align_corners=True)[0].T
        return self._masked(self._features(stretched.numpy()), random)

    def _batch_of_items(self, items: Sequence[Item]) -> Batch:
        return self._batch([item.features for item in items], [item.text or "" for item in items])


def plain(text: str) -> str:
    """Lower case, letters with their marks, digits and apostrophes alone."""
    letters = (letter if _is_spelled(letter) else " " for letter in text.lower().replace("’", "'"))
    return " ".join("".join(letters).split())


def _is_spelled(letter: str) -> bool:
    # The vowel signs of Hindi or Thai are marks, and no letters.
    return letter.isalnum() or letter == "'" or unicodedata.category(letter).startswith("M")


def _nonsense(random: np.random.Generator) -> str:
    consonants, vowels = list(made_speech.CONSONANTS), list(made_speech.VOWELS)
    return "".join(
        str(random.choice(consonants)) + str(random.choice(vowels)) for _ in range(int(random.integers(1, 4)))
    )


def _sentences(path: Path, longest: int) -> list[str]:
    """The different sentences of a file, in a random but fixed order."""
    file = locate(path)
    if file.is_dir():
        files = sorted([*file.glob("*.txt"), *file.glob("*.tsv")])
        if not files:
            raise ValueError(f"{file}: no .txt file with sentences is in it")
        file = files[0]
    lines = {plain(line.partition("\t")[0]): None for _, line in numbered_lines(file)}
    sentences = [line for line in lines if 3 <= len(line) <= longest and line.isascii()]
    return [sentences[number] for number in np.random.default_rng(0).permutation(len(sentences))]


def _grammar(count: int, seed: int) -> list[str]:
    random, sentences = np.random.default_rng([seed, 11]), {}  # type: ignore[var-annotated]
    while len(sentences) < count:
        sentences[" ".join(filter(None, (str(random.choice(words)) for words in _GRAMMAR)))] = None
    return list(sentences)
