"""Shared by the tasks that turn sound into text: questions, items, batches, times of words, metrics.

A batch has ``frames`` (B, S, width), normalized features with a frame every hundredth of a second, ``frame_lengths``
(B,), ``target`` (B, T + 1) from bos to eos and ``target_lengths`` (B,), the number of tokens to predict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard._settings import at_least
from regard.axes import TABLE, Axis, Spectrogram, Words
from regard.data import sound, subtitles
from regard.data.sound import HOP, WINDOW, Mel
from regard.data.tokens import Ragged
from regard.decode.written import Written
from regard.metrics import alignment, times, transcripts
from regard.questions import Choice, Flag, Input, Number, Sound
from regard.tasks._batches import pad
from regard.tasks._words import Vocabulary
from regard.tasks.task import SPEECH, AskedTask, Batch

NONE = "none"
_ROUND = 32
"""Batches are padded to a multiple of this many frames: PyTorch compiles recurrent layers for each length anew and
keeps a thousand of these operators, which would take gigabytes."""
_DEPTH = 12.0
"""Of a spectrogram that is drawn, from the loudest to the quietest, as the logarithm of energy."""


@dataclass(frozen=True, eq=False)
class Item:
    """An utterance.

    Attributes:
        features: (frames, width), as a system is given them.
        wave: the sound, where there is any.
        text: the transcript, where it is known.
        spans: (words, 2), when each word begins and ends in seconds, where it is known.
        form: what is written: the text if empty, ``times``, ``srt`` or ``vtt``.
        notes: remarks about it.
    """

    features: Tensor
    wave: np.ndarray | None = None
    text: str | None = None
    spans: np.ndarray | None = None
    form: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TimedWords(Words):
    """Words with their times."""

    said: Sequence[times.Said] = ()


@dataclass(frozen=True)
class Sounds:
    """Settings that all these tasks share; see :class:`SoundTask`."""

    batch: int = 32
    bands: int = 40
    """Bands of the mel scale."""
    deltas: bool = True
    """Changes of the bands over time beside them."""
    longest: float = 60.0
    """Seconds of the longest recording."""
    speed: float = 0.1
    """In training, speech is up to this share faster or slower."""
    warp: float = 0.1
    """In training, its frequencies are stretched or squeezed by up to this share."""
    noise: float = 0.02
    """In training, the standard deviation of noise that is added, at most; the loudest sample is 1."""
    mask_times: int = 20
    """In training, the most frames of an utterance that are hidden."""
    mask_bands: int = 6
    """In training, the most bands that are hidden."""
    data_seed: int = 0
    """Seed of generated sounds."""

    def __post_init__(self) -> None:
        at_least(self, "batch", "bands")
        if self.longest <= 0:
            raise ValueError(f"longest = {self.longest}: a recording has a length, in seconds")
        for name in ("speed", "warp"):
            if not 0 <= getattr(self, name) < 0.25:
                raise ValueError(f"{name} = {getattr(self, name)}: a share from 0 to below 0.25")
        at_least(self, noise=0, mask_times=0, mask_bands=0)


class SoundTask(AskedTask):
    """Sound in, text out. A subclass says what there is to hear, and whether tokens are characters (``spelled``)."""

    kind: ClassVar[str] = "writer"
    family: ClassVar[str] = SPEECH
    unit: ClassVar[str] = "tokens"
    title = "Write down what is said"
    verb = "Listen"
    spelled: bool = False
    perplexities: Mapping[str, Any] = {}
    config: Any

    def __init__(self, config: Any, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        split = list if self.spelled else str.split
        self._vocabulary = Vocabulary(self.known["words"], split)
        self.words = self._vocabulary.words
        """What each token stands for."""
        self.signatures: dict[str, str] = {}

    @property
    def asks(self) -> Mapping[str, Input]:  # type: ignore[override]
        """A recording or the number of a test utterance, and what is to be written."""
        inputs: dict[str, Input] = {
            "sound": Sound(
                default=b"",
                title="Your recording",
                about="A WAV, FLAC, MP3 or OGG file, or the microphone. Its first 10 seconds are sent, none is kept.",
                seconds=int(min(self.config.longest, 10)),
                rate=self.mel.rate,
            )
        }
        return {
            **(inputs if self.hears else {}),
            "example": Number(
                0, 9999, default=0, title="Or a test utterance", about="Used while there is none of yours."
            ),
            "times": Flag(default=False, option=True, title="Times", about="When is each word said?"),
            "subtitles": Choice((NONE, *subtitles.FORMATS), default=NONE, option=True, title="Subtitles"),
        }

    @property
    def hears(self) -> bool:
        """Whether it was trained on sound, and not on features that came without any."""
        return True

    @property
    def mel(self) -> Mel:
        """How features are made of sound."""
        return Mel(sound.RATE, self.config.bands, self.config.deltas)

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know: tokens, and numbers of a frame."""
        return {"vocab": len(self.words), "features": self.known.get("width") or self.mel.width}

    # -----------------------------------------------------------------------------------------------------------------
    # Items

    def read(self, question: Any) -> Item:
        recording = getattr(question, "sound", b"")
        item = self._uploaded(recording) if recording else self.item("test", question.example)
        form = question.subtitles if question.subtitles != NONE else "times" if question.times else ""
        return dataclasses.replace(item, form=form)

    def _uploaded(self, source: Path | bytes) -> Item:
        recorded, rate = sound.load(source, self.config.longest)
        notes = ["The recording is clipped: much of it is as loud as it can be."] if sound.clipped(recorded) else []
        wave = sound.resample(recorded, rate, self.mel.rate)
        return Item(sound.heard(wave, self.mel), wave, notes=tuple(notes))

    def _altered(self, wave: np.ndarray, random: np.random.Generator) -> tuple[Tensor, float]:
        """Features of a wave in training, at another speed, with other formants, noise and gaps; and the speed."""
        config = self.config
        speed = 1 + round(random.uniform(-config.speed, config.speed) * 50) / 50
        warp = 1 + round(random.uniform(-config.warp, config.warp) * 50) / 50
        wave = sound.faster(wave, speed)
        if config.noise:
            level = config.noise * random.random() ** 2 * float(np.abs(wave).max(initial=0.0))
            wave = wave + np.float32(level) * random.standard_normal(len(wave), dtype=np.float32)
        return self._masked(sound.heard(wave, self.mel, warp), random), speed

    def _masked(self, features: Tensor, random: np.random.Generator) -> Tensor:
        return sound.masked(
            features,
            random,
            self.config.mask_times,
            self.config.mask_bands,
            width=features.shape[1] // (3 if self.config.deltas else 1),
        )

    def batches(self, items: Sequence[Item]) -> Iterator[tuple[Sequence[int], Batch]]:
        order = sorted(range(len(items)), key=lambda row: len(items[row].features))
        for first in range(0, len(items), self.config.batch):
            rows = order[first : first + self.config.batch]
            yield rows, _frames([items[row].features for row in rows])

    def _batch(self, features: Sequence[Tensor], texts: Sequence[str]) -> Batch:
        framed = [self._vocabulary.framed(text, 1 << 30) for text in texts]
        target, lengths = pad(Ragged.of(framed), np.arange(len(framed)))
        return {**_frames(features), "target": target, "target_lengths": lengths - 1}

    def axes(self, item: Item) -> dict[str, Axis]:
        if item.wave is None:
            shown = item.features[:, : item.features.shape[1] // (3 if self.config.deltas else 1)]
        else:
            shown = sound.log_mel(item.wave, self.mel._replace(deltas=False))
            shown = shown.clamp_min(float(shown.max()) - _DEPTH)
        image = shown.T.numpy()
        return {"spectrogram": Spectrogram.timed(image, HOP, item.wave, self.mel.rate)}

    # -----------------------------------------------------------------------------------------------------------------
    # What is written

    def tokens(self) -> dict[str, Any]:
        return {"target": self.words}

    def write(self, tokens: Sequence[int], item: Any = None) -> Words:
        """The text of ids."""
        labels = self._vocabulary.decode(tokens)
        return Words(labels, text="".join(labels).strip() if self.spelled else "")

    def looked(self, written: Written) -> Written:
        """With the time of each word."""
        words, form = written.words, written.item.form
        if written.weights is None:
            return written
        timings = self._word_times(written) if len(words) else []
        text, document = str(words), ""
        if form == "times":
            text, document = "\n".join(f"{word.start:.2f}\t{word.end:.2f}\t{word.word}" for word in timings), TABLE
        elif form:
            text, document = subtitles.written(subtitles.cues(timings), form), form
        timed = TimedWords(words.labels, words.groups, text, document, timings)
        return dataclasses.replace(written, words=timed)

    def _word_times(self, written: Written, quiet: bool = True) -> list[times.Said]:
        """When each word is said; ``quiet`` frames part words, where there is sound."""
        wave = written.item.wave if quiet else None
        level = None if wave is None else sound.energy(wave, self.mel.rate)
        weights = np.asarray(written.weights, dtype=np.float64)
        words = times.words_of(written.words.labels, self.spelled)
        return times.said(weights, words, HOP, level, begin=(WINDOW - HOP) / 2)

    def remarks(self, item: Item) -> list[str]:
        truth = [f"In truth: {item.text}"] if item.text is not None else []
        return [*item.notes, *truth]

    def fields(self, item: Item, words: Words) -> dict[str, Any]:
        timings = getattr(words, "said", ())
        return {"times": [dict(timing._asdict()) for timing in timings]}

    def said(self, written: Written) -> str:
        """The text of an answer, whatever form it is given in."""
        return ("" if self.spelled else " ").join(written.words.labels).strip()

    def measure(self, split: str, found: Sequence[Written]) -> dict[str, float]:
        """Of the first utterances of a split, in percent: words (``wer``) and characters (``cer``) that are wrong, and
        utterances that are right as a whole (``right``). How monotone attention is: Kendall's τ (``tau``). Where the
        times of words are known and the words right: the median error of beginnings and ends in milliseconds
        (``time_error``), and how many are right to 120 ms (``in_120_ms``), in percent; ``time_error_looks`` is that
        median where only the weights decide, and not also where the sound is quiet. Recordings that were put together
        to strings were themselves cut where they are quiet, which favours the former."""
        texts, references = [self.said(one) for one in found], [one.item.text or "" for one in found]
        values, self.signatures = transcripts.errors(texts, references)
        values["right"] = 100 * float(np.mean([text == right for text, right in zip(texts, references)]))
        monotone = [
            alignment.kendall(answer.weights.numpy())
            for answer in found
            if answer.weights is not None and len(answer.words) > 1
        ]
        if monotone:
            values["tau"] = float(np.mean(monotone))
        timed = [
            answer
            for answer, text, right in zip(found, texts, references)
            if isinstance(answer.words, TimedWords) and answer.item.spans is not None and text == right
        ]
        if timed:
            errors = [times.errors(getattr(one.words, "said", ()), one.item.spans) for one in timed]
            errors_of_weights = [times.errors(self._word_times(one, quiet=False), one.item.spans) for one in timed]
            values["time_error_looks"] = 1000 * float(np.median(np.concatenate(errors_of_weights)))
            milliseconds = 1000 * np.concatenate(errors).ravel()
            values["time_error"] = float(np.median(milliseconds))
            values["in_120_ms"] = 100 * float(np.mean(milliseconds <= 120))
        return values


def _frames(features: Sequence[Tensor]) -> Batch:
    lengths = torch.tensor([len(rows) for rows in features])
    frames = torch.nn.utils.rnn.pad_sequence(list(features), batch_first=True)
    return {"frames": functional.pad(frames, (0, 0, 0, -frames.shape[1] % _ROUND)), "frame_lengths": lengths}
