"""Sound: files, sampling rates, log-mel features, and augmentation.

A wave is a float32 array (N,) between −1 and 1, mono. Features are a tensor (frames, width) with a frame every
:data:`HOP` seconds: the logarithm of the energy in bands on the mel scale, and how it changes over time.

Files are read by soundfile (WAV, FLAC, MP3 and whatever else its libsndfile knows); everything else is PyTorch.
"""

from __future__ import annotations

import io
import math
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard.data.untrusted import regular

SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".aiff", ".aif")
"""Endings of sound files."""
RATE = 8000
"""Samples a second: those of telephone speech."""
WINDOW, HOP = 0.032, 0.01
"""Seconds of a frame, and from one to the next."""
LONGEST = 120.0
"""Seconds of a recording that are read unless more are allowed."""
SILENT = 1e-4
"""The largest sample of what counts as silence."""
_RATES = (1000, 768_000)
_CHANNELS = 64
_ZEROS = 6
"""Zero crossings of the sinc on each side, when the rate is changed."""
_PHASES = 512
"""Of the filter at most; rates whose ratio would need more are rounded to the nearest that does not."""
_FLOOR = 1e-6
"""Energy added everywhere, so that the logarithm exists."""


# ---------------------------------------------------------------------------------------------------------------------
# Files


def read(source: Path | bytes, rate: int = RATE, longest: float = LONGEST) -> np.ndarray:
    """The wave in a file, or in the bytes of one: its channels averaged, at ``rate`` samples a second.

    A file that is empty, damaged, silent, or longer than ``longest`` seconds is a ValueError that names it.
    """
    return resample(*load(source, longest), rate)


def load(source: Path | bytes, longest: float = LONGEST) -> tuple[np.ndarray, int]:
    """As :func:`read`, at the rate of the file; and that rate."""
    try:
        import soundfile  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError("reading sound needs soundfile: pip install 'regard[sound]'") from None
    name = "the recording" if isinstance(source, bytes) else str(source)
    if isinstance(source, Path):
        if not source.exists():
            raise ValueError(f"{source}: no such file")
        size = regular(source).stat().st_size
    else:
        size = len(source)
    if size == 0:
        raise ValueError(f"{name}: an empty file")
    try:
        with soundfile.SoundFile(io.BytesIO(source) if isinstance(source, bytes) else str(source)) as file:
            if not _RATES[0] <= file.samplerate <= _RATES[1] or file.channels > _CHANNELS:
                limits = f"at most {_CHANNELS} channels of {_RATES[0]:,} to {_RATES[1]:,} samples a second are read"
                raise ValueError(f"{name}: {file.channels} × {file.samplerate} samples a second, but {limits}")
            most = math.floor(longest * file.samplerate)
            # What a header claims is not yet memory: no more than this is read.
            wave = file.read(min(file.frames, most + 1), dtype="float32", always_2d=True) if file.frames else None
            rate, seconds = file.samplerate, file.frames / file.samplerate
    except (soundfile.SoundFileError, TypeError) as error:  # TypeError of .raw files, which do not say their rate
        reason = str(error).split(": ", 1)[-1].strip(" .")
        raise ValueError(f"{name}: not sound that can be read, such as WAV or FLAC ({reason})") from None
    if wave is None or not len(wave):
        raise ValueError(f"{name}: there is no sound in it")
    if len(wave) > most:
        raise ValueError(
            f"{name}: {clock(seconds)} long, but at most {clock(longest)} are listened to at once; cut it into parts"
        )
    if not np.isfinite(wave).all():
        raise ValueError(f"{name}: sample {int(np.flatnonzero(~np.isfinite(wave).all(1))[0])} is not a number")
    mono = wave.mean(1)
    if np.abs(mono).max() < SILENT:  # one channel may be the other upside down
        mono = wave[:, np.abs(wave).max(0).argmax()]
    if np.abs(mono).max() < SILENT:
        raise ValueError(f"{name}: silence, {clock(len(mono) / rate)} of it")
    if len(mono) < 2 * WINDOW * rate:
        raise ValueError(f"{name}: {1000 * len(mono) / rate:.0f} ms are too short to hear anything in")
    return mono, rate


def clipped(wave: np.ndarray) -> bool:
    """Whether more than a hundredth of a wave, at the rate at which it was recorded, is as loud as it can be."""
    top = float(np.abs(wave).max(initial=0.0))
    return top > 0.98 and float(np.mean(np.abs(wave) > 0.999 * top)) > 0.01


def wav(wave: np.ndarray, rate: int = RATE) -> bytes:
    """A wave as a WAV file of 16 bits a sample."""
    samples = np.rint(np.clip(wave, -1, 1) * 32767).astype("<i2").tobytes()
    size = len(samples)
    head = b"RIFF" + (36 + size).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little")
    form = (1).to_bytes(2, "little") * 2 + rate.to_bytes(4, "little") + (2 * rate).to_bytes(4, "little")
    return head + form + b"\x02\x00\x10\x00data" + size.to_bytes(4, "little") + samples


def clock(seconds: float) -> str:
    """``3:00:00``, ``2:05`` or ``0.8 s``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# ---------------------------------------------------------------------------------------------------------------------
# Rates


def resample(wave: np.ndarray, rate: float, target: float) -> np.ndarray:
    """The wave at another number of samples a second, by a windowed sinc in as many phases as the ratio needs.

    With L / M = target / rate, sample n of the result is Σₖ x[k] h(n M / L − k), where h is a sinc that cuts off at the
    lower of the two Nyquist frequencies, under a Hann window.
    """
    ratio = Fraction(target / rate).limit_denominator(_PHASES)
    if ratio.numerator > _PHASES:
        ratio = 1 / (Fraction(rate / target).limit_denominator(_PHASES))
    if ratio == 1:
        return np.asarray(wave, dtype=np.float32)
    up, down = ratio.numerator, ratio.denominator
    kernel, left = _sinc(up, down)  # (up, 1, width)
    count = math.ceil(len(wave) * up / down)
    blocks = -(-count // up)
    padded = torch.zeros(left + max(len(wave), (blocks - 1) * down) + kernel.shape[-1])
    padded[left : left + len(wave)] = torch.from_numpy(np.ascontiguousarray(wave, dtype=np.float32))
    resampled = functional.conv1d(padded[None, None], kernel, stride=down)[0, :, :blocks]  # (up, blocks)
    return resampled.T.reshape(-1)[:count].numpy()


@lru_cache(maxsize=64)
def _sinc(up: int, down: int) -> tuple[Tensor, int]:
    """The filters (up, 1, width) of all phases, and the number of samples before its own at which each begins."""
    cutoff = min(1.0, up / down) * 0.99
    left = math.ceil(_ZEROS / cutoff)
    offsets = torch.arange(-left, left + down + 1, dtype=torch.float64)
    phases = torch.arange(up, dtype=torch.float64) * down / up
    time = (offsets - phases[:, None]) * cutoff
    window = torch.cos(time.clamp(-_ZEROS, _ZEROS) * math.pi / (2 * _ZEROS)) ** 2
    return (torch.sinc(time) * window * cutoff).float()[:, None], left


def faster(wave: np.ndarray, speed: float) -> np.ndarray:
    """The wave played at a multiple of its speed, which also moves its pitch and formants."""
    return resample(wave, speed, 1.0)


# ---------------------------------------------------------------------------------------------------------------------
# Features


class Mel(NamedTuple):
    """How features are made.

    Attributes:
        rate: samples a second.
        bands: on the mel scale.
        deltas: whether changes, and changes of changes, stand beside the energies: 3 × ``bands`` numbers.
    """

    rate: int = RATE
    bands: int = 40
    deltas: bool = True

    @property
    def width(self) -> int:
        """Numbers of a frame."""
        return self.bands * (3 if self.deltas else 1)

    @property
    def size(self) -> int:
        """Samples of a frame."""
        return round(WINDOW * self.rate)

    @property
    def step(self) -> int:
        """Samples from one frame to the next."""
        return round(HOP * self.rate)


def log_mel(wave: np.ndarray | Tensor, mel: Mel, warp: float = 1.0) -> Tensor:
    """log Σ_f M[b, f] |X[t, f]|²: (frames, bands).

    Frame t covers the samples from t · step on, under a Hann window. M are triangles at equal distances on the mel
    scale, 2595 log₁₀(1 + f / 700), from 0 to half the rate.

    Args:
        warp: stretches the frequency axis by this factor, as a shorter vocal tract does (Jaitly & Hinton 2013).
    """
    wave = torch.as_tensor(wave, dtype=torch.float32)
    if len(wave) < mel.size:
        wave = functional.pad(wave, (0, mel.size - len(wave)))
    frames = wave.unfold(0, mel.size, mel.step)  # (frames, size)
    power = torch.fft.rfft(frames * _hann(mel.size)).abs().square()
    return torch.log(power @ filters(mel, warp) + _FLOOR)


@lru_cache(maxsize=8)
def _hann(size: int) -> Tensor:
    return torch.hann_window(size)


@lru_cache(maxsize=64)
def filters(mel: Mel, warp: float = 1.0) -> Tensor:
    """M (frequencies, bands)."""
    top = mel.rate / 2
    edges = torch.linspace(0, 2595 * math.log10(1 + top / 700), mel.bands + 2, dtype=torch.float64)
    hertz = 700 * (10 ** (edges / 2595) - 1)
    hertz = torch.where(hertz < 0.8 * top, hertz * warp, 0.8 * top * warp + (hertz - 0.8 * top) * (5 - 4 * warp))
    low, middle, high = hertz[:-2], hertz[1:-1], hertz[2:]
    frequency = torch.linspace(0, top, mel.size // 2 + 1, dtype=torch.float64)[:, None]
    rising, falling = (frequency - low) / (middle - low), (high - frequency) / (high - middle)
    return torch.minimum(rising, falling).clamp_min(0).float()


def with_deltas(features: Tensor, reach: int = 2) -> Tensor:
    """(frames, width) → (frames, 3 width): beside each number its slope over ``reach`` frames on each side, and the
    slope of that. Δ[t] = Σₙ n (x[t + n] − x[t − n]) / (2 Σₙ n²); the first and last frame go on beyond the ends."""
    parts = [features]
    for _ in range(2):
        last = functional.pad(parts[-1].T[None], (reach, reach), mode="replicate")[0].T
        count = len(features)
        slope = torch.zeros_like(features)
        for n in range(1, reach + 1):
            slope += n * (last[reach + n : reach + n + count] - last[reach - n : reach - n + count])
        parts.append(slope / (2 * sum(n * n for n in range(1, reach + 1))))
    return torch.cat(parts, -1)


def normalized(features: Tensor) -> Tensor:
    """Every number with mean 0 and standard deviation 1 over the frames of its utterance."""
    centred = features - features.mean(0)
    return centred / centred.square().mean(0).sqrt().clamp_min(1e-3)


def heard(wave: np.ndarray, mel: Mel, warp: float = 1.0) -> Tensor:
    """The features of a wave as a system reads them: (frames, width), normalized."""
    bands = log_mel(wave, mel, warp)
    return normalized(with_deltas(bands) if mel.deltas else bands)


def masked(features: Tensor, random: np.random.Generator, times: int, bands: int, *, width: int) -> Tensor:
    """With one stretch of at most ``times`` frames and one of at most ``bands`` bands set to 0, the mean (SpecAugment,
    Park et al. 2019, arXiv:1904.08779). ``width`` is the number of bands; changes of a band are masked with it."""
    features = features.clone()
    if times > 0:
        span = int(random.integers(0, min(times, len(features) // 4) + 1))
        first = int(random.integers(0, len(features) - span + 1))
        features[first : first + span] = 0
    if bands > 0:
        span = int(random.integers(0, min(bands, width) + 1))
        first = int(random.integers(0, width - span + 1))
        features.unflatten(-1, (-1, width))[..., first : first + span] = 0
    return features


def energy(wave: np.ndarray, rate: int = RATE) -> np.ndarray:
    """The level of each frame in decibels below the loudest, (frames,)."""
    mel = Mel(rate)
    if len(wave) < mel.size:
        wave = np.pad(wave, (0, mel.size - len(wave)))
    frames = np.lib.stride_tricks.sliding_window_view(wave, mel.size)[:: mel.step]
    power = np.square(frames.astype(np.float64)).mean(-1)
    return 10 * np.log10((power + 1e-10) / (power.max() + 1e-10))


def trimmed(wave: np.ndarray, rate: int = RATE, level: float = -30.0) -> np.ndarray:
    """The wave from the first to the last of its frames that are louder than ``level`` decibels below the loudest."""
    mel, loud = Mel(rate), np.flatnonzero(energy(wave, rate) > level)
    middle = (mel.size - mel.step) // 2
    return wave[loud[0] * mel.step + middle : loud[-1] * mel.step + middle + mel.step]
