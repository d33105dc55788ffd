"""Utterances with their transcripts, as they lie on disk.

==========  ===========================================================================================================
folder      ``transcripts.tsv``: a file, a tab, what is said in it and, if known, a tab and the speaker; or one such
            folder for each split, ``train/transcripts.tsv`` and so on. Sound files are WAV, FLAC, MP3 or OGG
AN4         ``an4_mfcc13.npz``: ``frames`` (N, 13), cepstra of all utterances at 100 a second, ``offsets``, ``ids``
            (``an251-fash-b``: the middle is the speaker) and ``text``
digits      ``recordings*.zip`` or a folder ``recordings``: files named digit, speaker and take, ``7_jackson_3.wav``, as
            those of AudioMNIST and of the Free Spoken Digit Dataset
==========  ===========================================================================================================

Where there are no splits, speakers are held out, or utterances where fewer than three speakers are named. A
transcript without its sound is named with file and line; sound files without a transcript are counted.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data import SPLITS, sound, untrusted
from regard.data.lines import BadLines, clean, numbered_lines

TABLE = "transcripts.tsv"
_AN4 = "an4_*.npz"
_DIGIT = re.compile(r"(?P<digit>\d)_(?P<speaker>[^_]+)_(?P<take>[^_.]+)\.(?:wav|flac)")


class Utterance(NamedTuple):
    """What somebody says.

    Attributes:
        name: of the file, or what stands for one.
        text: what is said.
        speaker: empty if unknown.
        file: the sound; None where there are only features.
        frames: (frames, width), features, where there is no sound.
    """

    name: str
    text: str
    speaker: str = ""
    file: Path | None = None
    frames: np.ndarray | None = None


Splits = dict[str, list[Utterance]]


def read(folder: Path, bad: BadLines | None = None, spelled: Callable[[str], str] = clean) -> Splits:
    """The utterances by split.

    Args:
        spelled: turns a transcript of a table into what is to be written.
    """
    bad = bad or BadLines()
    if not folder.is_dir():
        raise ValueError(f"{folder}: a folder with sound files and {TABLE} was expected")
    parts = {split: folder / split for split in SPLITS if (folder / split / TABLE).exists()}
    if parts:
        if "train" not in parts:
            raise ValueError(f"{folder}: no train/{TABLE} is in it")
        splits = {split: _table(part, bad, spelled) for split, part in parts.items()}
    elif archives := sorted(folder.glob(_AN4)):
        splits = divided(an4(archives[0]), folder)
    elif (folder / TABLE).exists():
        splits = divided(_table(folder, bad, spelled), folder)
    else:
        raise ValueError(
            f"{folder}: no transcripts are in it; {TABLE} with a file, a tab and what is said in it on each line was "
            "expected, or AN4's an4_mfcc13.npz"
        )
    for split, utterances in splits.items():
        if not utterances:
            raise ValueError(f"{folder}: no utterance is in the split {split!r}")
    return splits


def _table(folder: Path, bad: BadLines, spelled: Callable[[str], str]) -> list[Utterance]:
    path, utterances, seen = folder / TABLE, [], set()
    for number, line in numbered_lines(path):
        if not line:
            continue
        name, *rest = (part.strip() for part in line.split("\t"))
        transcript, speaker, *extra = [*rest, "", ""]
        name = os.path.normpath(name)
        text = spelled(transcript)
        if not rest:
            bad.add("unreadable", path, number, "no tab between a file and what is said in it")
        elif any(extra):
            bad.add("unreadable", path, number, f"{len(rest) + 1} columns; a file, what is said and who says it are 3")
        elif not text:
            why = f": {transcript!r} has no letter" if transcript else ""
            bad.add("empty", path, number, f"nothing is said in {name}{why}")
        elif Path(name).is_absolute() or ".." in Path(name).parts:
            bad.add("elsewhere", path, number, f"{name} is not in {folder}; only files of that folder are read")
        elif not (folder / name).is_file():
            bad.add("without a sound", path, number, f"there is no sound file {folder / name}")
        elif (folder / name).suffix.lower() not in sound.SUFFIXES:
            bad.add("unreadable", path, number, f"{name} is no sound file ({' '.join(sound.SUFFIXES)})")
        elif name in seen:
            bad.add("repeated", path, number, f"{name} has a transcript already")
        else:
            seen.add(name)
            utterances.append(Utterance(name, text, speaker, folder / name))
    return utterances


def unnamed(folder: Path, splits: Splits) -> int:
    """The number of sound files in a folder that no transcript names."""
    named = {utterance.file for utterances in splits.values() for utterance in utterances}
    return sum(path.suffix.lower() in sound.SUFFIXES and path not in named for path in folder.rglob("*"))


def an4(path: Path) -> list[Utterance]:
    """AN4's utterances as features."""
    arrays = untrusted.unzip(path, lambda name: True)
    try:
        frames, offsets = (untrusted.npy(arrays[f"{name}.npy"], f"{path}, {name}") for name in ("frames", "offsets"))
        ids, texts = (untrusted.texts(arrays[f"{name}.npy"], f"{path}, {name}") for name in ("ids", "text"))
    except KeyError as error:
        raise ValueError(f"{path}: there is no {error} in it") from None
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or offsets[:1].tolist() != [0]:
        raise ValueError(f"{path}: offsets are a row of whole numbers from 0 on, not {offsets.dtype} {offsets.shape}")
    if (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"{path}: offset {int(np.argmax(offsets[1:] < offsets[:-1])) + 1} is below the one before it")
    if frames.ndim != 2 or not len(ids) == len(texts) == len(offsets) - 1 or int(offsets[-1]) != len(frames):
        raise ValueError(
            f"{path}: frames {frames.shape}, {len(offsets)} offsets, {len(ids)} ids and {len(texts)} texts"
        )
    parts = np.split(frames.astype(np.float32), offsets[1:-1])
    for name, part in zip(ids, parts):
        if not len(part) or not np.isfinite(part).all():
            raise ValueError(f"{path}: the frames of {name} are missing or not finite")
    return [
        Utterance(name, text.lower(), name.split("-")[1] if name.count("-") > 1 else "", frames=part)
        for name, text, part in zip(ids, texts, parts)
    ]


def divided(utterances: Sequence[Utterance], folder: Path) -> Splits:
    """A tenth of the speakers each for validation and for test, where an utterance without a speaker counts as one of
    its own; a tenth of the utterances, where there are too few speakers to hold any out."""
    apart = len({utterance.speaker for utterance in utterances if utterance.speaker}) >= 3

    def group(utterance: Utterance) -> tuple[str, str]:
        """The speaker, or else the utterance."""
        return (utterance.speaker, "") if apart and utterance.speaker else ("", utterance.name)

    groups = {group(utterance) for utterance in utterances}
    if len(groups) < 3:
        raise ValueError(f"{folder}: {len(utterances)} utterances are too few to train, validate and test")
    order = sorted(sorted(groups), key=lambda names: hashlib.blake2b("".join(names).encode(), digest_size=8).digest())
    tenth = len(order) // 10 or 1
    split_of = {
        names: "test" if rank < tenth else "valid" if rank < 2 * tenth else "train" for rank, names in enumerate(order)
    }
    splits: Splits = {split: [] for split in SPLITS}
    for utterance in utterances:
        splits[split_of[group(utterance)]].append(utterance)
    return splits


# ---------------------------------------------------------------------------------------------------------------------
# Digits


class Recording(NamedTuple):
    """A spoken digit."""

    digit: int
    speaker: str
    wave: np.ndarray


def digits(folder: Path, rate: int = sound.RATE) -> list[Recording]:
    """The recordings of a set of spoken digits, without the silence around them."""
    recordings: list[Recording] = []
    archives = sorted(folder.glob("recordings*.zip")) if folder.is_dir() else []
    if archives:
        for path in archives:
            for name, data in untrusted.unzip(path, lambda name: _DIGIT.fullmatch(Path(name).name) is not None).items():
                recordings.append(_recording(name, data, f"{path}, {name}", rate))
    else:
        files = sorted(path for place in (folder / "recordings", folder) if place.is_dir() for path in place.iterdir())
        recordings = [_recording(path.name, path, str(path), rate) for path in files if _DIGIT.fullmatch(path.name)]
    if not recordings:
        raise ValueError(
            f"{folder}: no spoken digits are in it; recordings.zip or a folder recordings with files such as "
            "7_jackson_3.wav was expected"
        )
    if missing := sorted(set(range(10)) - {recording.digit for recording in recordings}):
        raise ValueError(f"{folder}: nobody says {', '.join(map(str, missing))}")
    return recordings


def _recording(name: str, source: Path | bytes, where: str, rate: int) -> Recording:
    parts = _DIGIT.fullmatch(Path(name).name)
    assert parts is not None
    try:
        wave = sound.trimmed(sound.read(source, rate), rate)
    except ValueError as error:
        raise ValueError(str(error).replace("the recording", where, 1)) from None
    return Recording(int(parts["digit"]), parts["speaker"], wave)


def held_out(speakers: Iterable[str]) -> dict[str, str]:
    """The split of each speaker: of 48, six for test and three for validation."""
    order = sorted(set(speakers))
    if len(order) < 3:
        raise ValueError(f"{len(order)} speakers are too few to train, validate and test")
    if len(order) < 16:
        return {name: SPLITS[max(0, rank - len(order) + 3)] for rank, name in enumerate(order)}
    return {
        name: "test" if rank % 8 == 1 else "valid" if rank % 16 == 5 else "train" for rank, name in enumerate(order)
    }
