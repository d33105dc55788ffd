"""Strings of spoken digits or syllables in, their names out.

``data`` is a set of recordings of single digits (:mod:`regard.data.utterances`: AudioMNIST, the Free Spoken Digit
Dataset, or one's own), ``tones``, digits of a synthesizer, or ``syllables`` of it (:mod:`regard.data.made_speech`).
Strings are put together of recordings of one speaker, with pauses between them, new ones in every epoch of training, so
that it is known when each digit begins and ends. Speakers of test and validation are never heard in training; of other
data than that of training, all speakers that were not heard there are for test.

With ``stretch`` every second string of test is that many times longer than strings of training; errors of strings that
are longer than any in training are measured apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from regard._settings import at_least
from regard.data import SPLITS, made_speech, sound, utterances
from regard.data.download import locate
from regard.data.made_speech import Voice
from regard.decode.written import Written
from regard.metrics import transcripts
from regard.tasks._sounds import Item, Sounds, SoundTask
from regard.tasks.task import Batch, Loader, check_split, drawn

TONES, SYLLABLES = "tones", "syllables"
_VOICES = {"train": 60, "valid": 10, "test": 10}
"""Of the synthesizer."""


@dataclass(frozen=True)
class Config(Sounds):
    """Which recordings, and how they become strings."""

    data: str = TONES
    """A folder, the name of a known data set, ``tones`` or ``syllables``."""
    most: int = 7
    """Digits of the longest string."""
    grow: int = 0
    """Epochs of training until strings are that long; at first there is one digit."""
    least_gap: float = 0.0
    """Seconds between two digits, at least …"""
    most_gap: float = 0.25
    """… and at most."""
    repeat: float = 0.1
    """The share of digits that repeat the one before, beside those that do so by chance."""
    stretch: int = 1
    """Every second test string is this many times longer."""
    train_size: int = 3000
    """Strings of an epoch."""
    valid_size: int = 200
    test_size: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "most", "stretch", "train_size", "valid_size", "test_size")
        if self.grow < 0 or not 0 <= self.repeat <= 1 or not 0 <= self.least_gap <= self.most_gap:
            values = f"grow = {self.grow}, repeat = {self.repeat}, gaps from {self.least_gap} to {self.most_gap}"
            raise ValueError(f"{values}: not negative, repeat at most 1, and the least gap not above the most")


class SpokenDigits(SoundTask):
    """Spoken digits in, digits out; see the module's docstring."""

    settings: ClassVar[type] = Config
    elsewhere = ("data",)
    title = "Write down spoken numbers"
    config: Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self._cached_item = lru_cache(maxsize=64)(self._make_item)

    def learn(self) -> dict[str, Any]:
        if self.source in (TONES, SYLLABLES):
            names = made_speech.SYLLABLES if self.source == SYLLABLES else [str(digit) for digit in range(10)]
            return {"words": list(names), "speakers": []}
        splits = utterances.held_out(recording.speaker for recording in self._recordings)
        return {
            "words": [str(digit) for digit in range(10)],
            "speakers": sorted(name for name, split in splits.items() if split == "train"),
        }

    @property
    def source(self) -> str:
        """Where the data lies, or what it is called."""
        return str(self.data or self.config.data)

    def origin(self) -> str:
        return "generated sounds" if self.source in (TONES, SYLLABLES) else super().origin()

    @cached_property
    def _recordings(self) -> list[utterances.Recording]:
        try:
            place = locate(self.data or self.config.data)
        except ValueError as error:
            raise ValueError(f"{error}; digits can also be generated: data={TONES}") from None
        return utterances.digits(place, self.mel.rate)

    @cached_property
    def _by_speaker(self) -> dict[str, list[list[list[np.ndarray]]]]:
        """For each split, speakers with the waves of each digit."""
        waves_of: dict[str, list[list[np.ndarray]]] = defaultdict(lambda: [[] for _ in range(10)])
        for digit, speaker, wave in self._recordings:
            waves_of[speaker][digit].append(wave)
        for speaker, digits in waves_of.items():
            if missing := [str(digit) for digit, waves in enumerate(digits) if not waves]:
                raise ValueError(f"{self.source}: the speaker {speaker} never says {', '.join(missing)}")
        ours = set(self.known["speakers"]) & set(waves_of)
        if not ours:
            return {"test": list(waves_of.values())}
        splits = utterances.held_out(waves_of) if len(waves_of) > 2 else {}
        if any(splits.get(speaker) != "train" for speaker in ours):  # other data with some of the same speakers
            splits = {speaker: "train" if speaker in ours else "test" for speaker in waves_of}
        speakers: dict[str, list[list[list[np.ndarray]]]] = {split: [] for split in dict.fromkeys(splits.values())}
        for speaker, split in splits.items():
            speakers[split].append(waves_of[speaker])
        return speakers

    def count(self, split: str) -> int:
        """The strings of a split; of training those of an epoch."""
        return getattr(self.config, f"{check_split(split)}_size")

    def item(self, split: str, number: int) -> Item:
        count = self.count(split)
        if not 0 <= number < count:
            raise ValueError(f"there is no string {number} in {split}: they are 0 to {count - 1}")
        return self._cached_item(split, number)

    def _make_item(self, split: str, number: int) -> Item:
        random = np.random.default_rng([self.config.data_seed, SPLITS.index(split), number])
        longer = self.config.stretch if split == "test" and number % 2 else 1
        wave, spans, text = self._string(split, random, longer * int(random.integers(1, self.config.most + 1)))
        return Item(sound.heard(wave, self.mel), wave, text, spans)

    def _string(self, split: str, random: np.random.Generator, length: int) -> tuple[np.ndarray, np.ndarray, str]:
        """A string of some digits: its sound, when each begins and ends, and what it is."""
        words = self.known["words"]
        chosen = [int(random.integers(len(words)))]
        while len(chosen) < length:
            chosen.append(chosen[-1] if random.random() < self.config.repeat else int(random.integers(len(words))))
        gaps = self.config.least_gap, self.config.most_gap
        wave, spans = made_speech.joined(self._parts(split, chosen, random), random, gaps, self.mel.rate)
        return wave, spans, " ".join(words[number] for number in chosen)

    def _parts(self, split: str, chosen: Sequence[int], random: np.random.Generator) -> list[np.ndarray]:
        if self.source in (TONES, SYLLABLES):
            number = int(random.integers(_VOICES[split]))
            voice = Voice.drawn(np.random.default_rng([self.config.data_seed, SPLITS.index(split), number, 7]))
            names = made_speech.SYLLABLES if self.source == SYLLABLES else made_speech.NUMBERS
            return [made_speech.say(names[digit], voice, random, self.mel.rate) for digit in chosen]
        if split not in self._by_speaker:
            reason = "all its speakers are new to this system, and so for test"
            if "train" in self._by_speaker:
                reason = "the speakers of training stay there, and all others are for test"
            raise ValueError(f"{self.source}: {reason}; none is for {split}")
        speakers = self._by_speaker[split]
        takes = speakers[int(random.integers(len(speakers)))]
        return [takes[digit][int(random.integers(len(takes[digit])))] for digit in chosen]

    def reach(self, epoch: int) -> int:
        """The longest string of an epoch of training."""
        config = self.config
        return config.most if epoch >= config.grow else 1 + (config.most - 1) * epoch // config.grow

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        identity = self.identity(split, seed, shuffle)
        size, number = self.config.batch, self.count(split)

        def make(rows: range, epoch: int, k: int) -> Batch:
            if not shuffle:
                items = [self.item(split, row) for row in rows]
                return self._batch([item.features for item in items], [item.text or "" for item in items])
            random = np.random.default_rng([self.config.data_seed, seed, epoch, k])
            length = int(random.integers(1, self.reach(epoch) + 1))  # one for the batch: little of it is padding
            strings = [self._string(split, random, length) for _ in rows]
            return self._batch(
                [self._altered(wave, random)[0] for wave, _, _ in strings], [text for _, _, text in strings]
            )

        if self.source not in (TONES, SYLLABLES):
            self._parts(split, [0], np.random.default_rng(0))
        return drawn(make, number, size, identity, f"{number:,} strings of up to {self.config.most}")

    def suggested(self) -> list[dict[str, Any]]:
        try:
            self._parts("test", [0], np.random.default_rng(0))  # are there recordings?
        except ValueError:
            return []
        return super().suggested()

    def measure(self, split: str, found: Sequence[Written]) -> dict[str, float]:
        """As :meth:`SoundTask.measure`, and apart ``wer`` of strings that are longer than those of training
        (``wer_longer``), of those of training's lengths (``wer_usual``), and of those with a digit that is said twice
        in a row (``wer_repeats``)."""
        values = super().measure(split, found)
        pairs = [(self.said(answer), answer.item.text) for answer in found]
        longer = [pair for pair in pairs if len(pair[1].split()) > self.config.most]
        if longer:
            usual = [pair for pair in pairs if len(pair[1].split()) <= self.config.most]
            values["wer_longer"] = transcripts.errors(*zip(*longer))[0]["wer"]
            if usual:
                values["wer_usual"] = transcripts.errors(*zip(*usual))[0]["wer"]
        twice = [pair for pair in pairs if any(a == b for a, b in zip(pair[1].split(), pair[1].split()[1:]))]
        if twice:
            values["wer_repeats"] = transcripts.errors(*zip(*twice))[0]["wer"]
        return values
