"""Generated speech: by a small synthesizer, with its text known to the sample, or by flite or espeak-ng.

The synthesizer needs numpy alone. It speaks letters: a vowel is the harmonics of a pitch under three formants, a
consonant noise in a band, voiced or not, after a closure if it is a stop. A :class:`Voice` has its own pitch, length of
vocal tract and pace. Its letters are meant to be distinguishable, not pleasant.

:func:`spoken` asks flite (https://github.com/festvox/flite) or espeak-ng (https://github.com/espeak-ng/espeak-ng),
where they are installed, to say a text. A voice is named ``flite/slt`` or ``espeak/en-us+m3``.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard import _files
from regard._lazy import nearest
from regard.data import sound, untrusted
from regard.data.download import cache

VOWELS = {
    "a": (730, 1090, 2440),
    "e": (530, 1840, 2480),
    "i": (270, 2290, 3010),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
    "y": (280, 1900, 2200),
}
"""Formants in hertz, near those of Peterson & Barney 1952."""

CONSONANTS = {
    "b": (500, 400, 0.8, 0.02, True),
    "c": (2600, 500, 0.0, 0.05, False),
    "d": (2600, 600, 0.8, 0.02, True),
    "f": (1400, 1500, 0.0, 0.08, False),
    "g": (1700, 400, 0.8, 0.03, True),
    "h": (900, 900, 0.0, 0.06, False),
    "j": (2200, 500, 0.5, 0.07, False),
    "k": (1700, 300, 0.0, 0.04, True),
    "l": (380, 100, 1.0, 0.07, False),
    "m": (250, 80, 1.0, 0.08, False),
    "n": (1450, 150, 1.0, 0.07, False),
    "p": (700, 500, 0.0, 0.03, True),
    "q": (1200, 250, 0.0, 0.05, True),
    "r": (1300, 250, 1.0, 0.06, False),
    "s": (3600, 500, 0.0, 0.09, False),
    "t": (3100, 700, 0.0, 0.03, True),
    "v": (1100, 900, 0.7, 0.07, False),
    "w": (600, 200, 1.0, 0.07, False),
    "x": (3000, 300, 0.0, 0.09, False),
    "z": (3500, 500, 0.7, 0.08, False),
}
"""Centre and width of the band in hertz, how much of it is voiced, seconds, and whether a closure comes before."""

ALPHABET = "".join(sorted({*VOWELS, *CONSONANTS, " "}))
"""The letters that can be spoken."""
SYLLABLES = ("ba", "bi", "da", "do", "go", "ku", "li", "ma", "na", "ri", "sa", "tu")
NUMBERS = ("zero", "wan", "tu", "tri", "for", "faiv", "siks", "seven", "eit", "nain")
"""The digits as the synthesizer spells them."""
_CLOSED, _PAUSE = 0.03, 0.12
"""Seconds of a closure and of a blank."""


@dataclass(frozen=True)
class Voice:
    """A speaker of the synthesizer.

    Attributes:
        pitch: in hertz.
        tract: all formants are multiplied by it.
        pace: all durations are divided by it.
        breath: the level of noise.
    """

    pitch: float
    tract: float
    pace: float
    breath: float

    @classmethod
    def drawn(cls, random: np.random.Generator) -> Voice:
        """Some voice."""
        pitch, tract = float(np.exp(random.uniform(np.log(85), np.log(250)))), float(random.uniform(0.9, 1.15))
        return cls(pitch, tract, float(random.uniform(0.85, 1.2)), float(random.uniform(0.001, 0.01)))


def say(text: str, voice: Voice, random: np.random.Generator, rate: int = sound.RATE) -> np.ndarray:
    """The letters of a text, one after the other."""
    parts = [_letter(letter, voice, random, rate) for letter in text]
    wave = np.concatenate(parts) if parts else np.zeros(0, np.float32)
    wave = wave + voice.breath * random.standard_normal(len(wave))
    return (wave * min(1.0, 0.9 / max(float(np.abs(wave).max(initial=0.0)), 1e-9))).astype(np.float32)


def _letter(letter: str, voice: Voice, random: np.random.Generator, rate: int) -> np.ndarray:
    pace = voice.pace * random.uniform(0.85, 1.15)
    if letter == " ":
        return np.zeros(round(_PAUSE / pace * rate))
    if letter in VOWELS:
        count = round(random.uniform(0.09, 0.13) / pace * rate)
        return _faded(_voiced(count, voice, random, rate, VOWELS[letter], 90.0), rate)
    if letter not in CONSONANTS:
        raise ValueError(f"the synthesizer cannot say {letter!r}, only {ALPHABET!r}")
    centre, width, share, seconds, stop = CONSONANTS[letter]
    count = round(seconds / pace * rate)
    noise = _banded(random.standard_normal(count), centre * voice.tract, width, rate)
    tone = _voiced(count, voice, random, rate, (centre, 250), width / 2) if share else 0.0
    wave = _faded(0.25 * ((1 - share) * noise + 2 * share * tone), rate)
    return np.concatenate([np.zeros(round(_CLOSED / pace * rate)), wave]) if stop else wave


def _voiced(
    count: int, voice: Voice, random: np.random.Generator, rate: int, formants: Sequence[float], width: float
) -> np.ndarray:
    """Harmonics of a pitch that moves a little, loud near the formants."""
    pitch = voice.pitch * (random.uniform(0.95, 1.05) + 0.06 * np.linspace(0, random.uniform(-1, 1), count))
    phase = 2 * np.pi * np.cumsum(pitch) / rate + random.uniform(0, 2 * np.pi)
    numbers = np.arange(1, int(0.48 * rate / voice.pitch))
    places = numbers[:, None] * voice.pitch - voice.tract * np.asarray(formants)
    gains = (np.exp(-0.5 * (places / (width + 0.04 * np.asarray(formants))) ** 2) / (1 + np.arange(len(formants)))).sum(
        1
    )
    wave = (gains[:, None] * np.sin(numbers[:, None] * phase)).sum(0)
    return 0.2 * wave / max(float(np.sqrt(np.mean(wave**2))), 1e-3)


def _banded(noise: np.ndarray, centre: float, width: float, rate: int) -> np.ndarray:
    """Noise in a band, of standard deviation 1."""
    frequency = np.fft.rfftfreq(len(noise), 1 / rate)
    shaped = np.fft.irfft(np.fft.rfft(noise) * np.exp(-0.5 * ((frequency - centre) / width) ** 2), len(noise))
    return shaped / max(float(shaped.std()), 1e-3)


def _faded(wave: np.ndarray, rate: int) -> np.ndarray:
    """Without clicks at the ends."""
    ramp = min(round(0.008 * rate), len(wave) // 2)
    edge = np.sin(np.linspace(0, np.pi / 2, ramp, endpoint=False)) ** 2
    wave = wave.copy()
    wave[:ramp] *= edge
    wave[len(wave) - ramp :] *= edge[::-1]
    return wave


def joined(
    parts: Sequence[np.ndarray], random: np.random.Generator, gaps: tuple[float, float], rate: int = sound.RATE
) -> tuple[np.ndarray, np.ndarray]:
    """Recordings one after the other with pauses between them and at both ends, each of some seconds between the two
    ``gaps``; and when each begins and ends, (parts, 2) seconds. Pauses are as loud as the quietest tenth of a part, and
    quiet."""
    pieces: list[np.ndarray] = []
    times = np.zeros((len(parts), 2))
    position = 0
    for number in range(len(parts) + 1):
        neighbour = parts[min(number, len(parts) - 1)]
        pause = round(random.uniform(*gaps) * rate)
        pieces.append((_quiet(neighbour) * random.standard_normal(pause)).astype(np.float32))
        position += pause
        if number < len(parts):
            pieces.append(neighbour)
            times[number] = position / rate, (position + len(neighbour)) / rate
            position += len(neighbour)
    return np.concatenate(pieces), times


def _quiet(wave: np.ndarray) -> float:
    blocks = wave[: len(wave) // 80 * 80].reshape(-1, 80)
    if not len(blocks):
        return 1e-3
    levels = np.sqrt(np.square(blocks).mean(1))
    return float(min(np.quantile(levels, 0.1), 0.02 * levels.max()))


# ---------------------------------------------------------------------------------------------------------------------
# flite and espeak-ng

ENGINES = {"flite": "flite", "espeak": "espeak-ng"}
PATIENCE = 60.0
"""Seconds that a text may take."""


def installed(voice: str) -> bool:
    """Is the program of a voice such as ``flite/slt`` on this machine?"""
    return shutil.which(ENGINES.get(voice.partition("/")[0], "")) is not None


def spoken(text: str, voice: str, rate: int = sound.RATE) -> np.ndarray:
    """A text, said by a voice of flite or espeak-ng."""
    engine, _, name = voice.partition("/")
    if engine not in ENGINES or not name:
        hint = nearest(engine, ENGINES)
        raise ValueError(f"a voice is written flite/slt or espeak/en-us+m3, not {voice!r}: {hint}")
    program = shutil.which(ENGINES[engine])
    if program is None:
        raise ValueError(f"the voice {voice} needs the program {ENGINES[engine]}, which is not installed")
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        words, out = Path(folder) / "text", Path(folder) / "said.wav"
        words.write_text(text + "\n", encoding="utf-8")  # never an argument: a text may begin with a hyphen
        if engine == "flite":
            command = [program, "-voice", name, "-f", str(words), "-o", str(out)]
        else:
            command = [program, "-v", name, "-f", str(words), "-w", str(out)]
        try:
            process = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            raise ValueError(f"{ENGINES[engine]} took more than {PATIENCE:.0f} seconds to say {text[:60]!r}") from None
        if process.returncode or not out.exists():
            reason = process.stderr.decode(errors="replace").strip()[-200:] or f"it ended with {process.returncode}"
            raise ValueError(f"{ENGINES[engine]} cannot say {text[:60]!r} as {name}: {reason}")
        return sound.read(out, rate)


def collection(lines: Sequence[tuple[str, str]], rate: int = sound.RATE, tell: Any = None) -> list[np.ndarray]:
    """Texts and the voice of each → waves, kept in the cache, so that each collection is spoken once.

    Args:
        tell: called with the number of texts spoken so far.
    """
    key = hashlib.sha256("\n".join(f"{voice}\t{text}" for text, voice in lines).encode()).hexdigest()[:16]
    place = cache() / "speech" / f"{key}-{rate}.npz"
    if place.exists():
        arrays = untrusted.unzip(place, lambda name: True)
        samples = untrusted.npy(arrays["samples.npy"], place).astype(np.float32) / 32767
        return np.split(samples, untrusted.npy(arrays["offsets.npy"], place)[1:-1])
    waves = []
    for number, (text, voice) in enumerate(lines, 1):
        waves.append(spoken(text, voice, rate))
        if tell is not None:
            tell(number)
    samples = np.rint(np.clip(np.concatenate(waves), -1, 1) * 32767).astype(np.int16)
    offsets = np.cumsum([0, *map(len, waves)])
    packed = io.BytesIO()
    np.savez(packed, samples=samples, offsets=offsets)
    place.parent.mkdir(parents=True, exist_ok=True)
    _files.replace(place, packed.getvalue())
    return np.split(samples.astype(np.float32) / 32767, offsets[1:-1])
