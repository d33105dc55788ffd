"""Clips with captions, as they lie on disk: features of frames, or the frames themselves.

==========  ===========================================================================================================
MSVD        ``training_label.json``: a list of ``{"id": "…", "caption": ["…", …]}``, and one ``.npz`` file with the
            features of all clips: ``features`` (clips, frames, width) and ``ids``, the name of each
folder      ``captions.tsv``: the name of a clip, a tab, a caption, several lines for a clip; or one such folder for
            each split, ``train/captions.tsv`` and so on. The clips are one ``.npz`` file of all, as above, or for each
            clip ``NAME.npz`` with ``features`` (frames, width), ``NAME.npy`` with that array alone, or a folder
            ``NAME`` of pictures, which are its frames in the order of their names, ``9.jpg`` before ``10.jpg``
==========  ===========================================================================================================

:func:`read` finds out which it is. Where there are no splits, clips are divided 7 : 1 : 2 by their names, and those
that were cut from one video stay together: MSVD's names begin with that of a video, ``kWLNZzuo3do_24_31.avi``. A
caption of a clip that is not there, and features of another shape, are named with their file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data import SPLITS, untrusted
from regard.data.captions import read_table
from regard.data.lines import BadLines, clean
from regard.data.photographs import SUFFIXES, Photograph

TABLE = "captions.tsv"
FEATURES, IMAGES, IDS = "features", "images", "ids"
UPLOAD = 16 << 20
"""Bytes that a single clip may unpack to."""
_LABELS = "*_label.json"
_CUT = re.compile(r"(?P<video>.{11})_\d+_\d+(?:\.\w+)?")


class Clip(NamedTuple):
    """A clip and its captions: the features (frames, width) of its frames, or where their pictures are."""

    name: str
    captions: list[str]
    features: np.ndarray | None = None
    photographs: tuple[Photograph, ...] = ()


Splits = dict[str, list[Clip]]


def read(folder: Path, bad: BadLines | None = None) -> Splits:
    """The clips by split."""
    bad = bad or BadLines()
    if not folder.is_dir():
        raise ValueError(f"{folder}: a folder with clips and captions was expected")
    parts = {split: folder / split for split in SPLITS if (folder / split / TABLE).exists()}
    if parts:
        if "train" not in parts:
            raise ValueError(f"{folder}: no train/{TABLE} is in it")
        splits = {split: _table(part, bad) for split, part in parts.items()}
    elif labels := sorted(folder.glob(_LABELS)):
        splits = _divided([clip for path in labels for clip in _labelled(path, bad)], folder)
    elif (folder / TABLE).exists():
        splits = _divided(_table(folder, bad), folder)
    else:
        raise ValueError(
            f"{folder}: no captions are in it; {TABLE} with a clip, a tab and a caption on each line was expected, or "
            "MSVD's training_label.json"
        )
    for split, clips in splits.items():
        if not clips:
            raise ValueError(f"{folder}: no clip is in the split {split!r}")
    _same_width([clip for clips in splits.values() for clip in clips], folder)
    return splits


# ---------------------------------------------------------------------------------------------------------------------
# Captions


def _labelled(path: Path, bad: BadLines) -> list[Clip]:
    """MSVD's."""
    entries = untrusted.parse_json(untrusted.read(path), path)
    if not isinstance(entries, list):
        raise ValueError(f"{path}: a list of clips was expected, each with id and caption")
    captions: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for number, entry in enumerate(entries, 1):
        caption = entry.get("caption") if isinstance(entry, dict) else None
        caption = [caption] if isinstance(caption, str) else caption
        if not isinstance(caption, list) or not isinstance(entry.get("id"), str):
            bad.add("unreadable", path, number, f"entry {number} is not {{'id': …, 'caption': [ … ]}}")
            continue
        texts = [clean(text) for text in caption if isinstance(text, str)]
        if not any(texts):
            bad.add("empty", path, number, f"{entry['id']} has no caption")
            continue
        captions.setdefault(entry["id"], []).extend(text for text in texts if text)
        first.setdefault(entry["id"], number)
    return _clips(path, captions, first, bad)


def _table(folder: Path, bad: BadLines) -> list[Clip]:
    path = folder / TABLE
    return _clips(path, *read_table(path, bad), bad)


def _clips(path: Path, captions: dict[str, list[str]], first: dict[str, int], bad: BadLines) -> list[Clip]:
    """The clips that captions in ``path`` name, with their features or frames in the same folder."""
    folder = path.parent
    joint = _joint_features(folder)
    clips = []
    for name, texts in captions.items():
        if name in joint:
            clips.append(Clip(name, texts, joint[name]))
            continue
        inside = folder / name
        files = [inside, folder / f"{name}.npz", folder / f"{name}.npy"]
        place = next((file for file in files if file.exists()), None)
        if place is None or Path(name).is_absolute() or ".." in Path(name).parts:
            bad.add("without a clip", path, first[name], f"the clip {name} is neither in an .npz file nor at {inside}")
        elif place.is_dir():
            clips.append(Clip(name, texts, None, frames_of(place)))
        else:
            clips.append(Clip(name, texts, features(place)))
    return clips


# ---------------------------------------------------------------------------------------------------------------------
# Frames


def _joint_features(folder: Path) -> dict[str, np.ndarray]:
    """The features of each clip in the files that hold several clips."""
    arrays: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob("*.npz")):
        packed_ids = untrusted.unzip(path, f"{IDS}.npy".__eq__)
        if not packed_ids:
            continue  # of a single clip
        packed_features = untrusted.unzip(path, f"{FEATURES}.npy".__eq__)
        if not packed_features:
            raise ValueError(f"{path}: there are {IDS} in it but no {FEATURES}")
        ids = untrusted.texts(packed_ids[f"{IDS}.npy"], f"{path}, {IDS}")
        values = untrusted.npy(packed_features[f"{FEATURES}.npy"], f"{path}, {FEATURES}")
        if values.ndim != 3 or len(values) != len(ids):
            raise ValueError(f"{path}: features {values.shape} for {len(ids)} ids; (clips, frames, width) was expected")
        for name, frames in zip(ids, values):
            arrays[name] = _checked(frames, f"{path}, {name}")
    return arrays


def features(source: Path | bytes) -> np.ndarray:
    """The features (frames, width) of a single clip, in an .npz or .npy file or in the bytes of one."""
    values = _array(source, FEATURES)
    if values is None:
        raise ValueError(f"{_name(source)}: there is no array called {FEATURES!r} in it")
    return _checked(values, _name(source))


def pixels(source: Path | bytes) -> np.ndarray | None:
    """The frames (frames, 3, height, width) of a single clip, bytes, if its file has them: an array ``images``
    (frames, height, width, 3) of bytes."""
    values = _array(source, IMAGES)
    if values is None:
        return None
    if values.ndim != 4 or values.shape[-1] != 3 or 0 in values.shape or values.dtype != np.uint8:
        actual = f"{values.shape} of {values.dtype}"
        raise ValueError(f"{_name(source)}: {IMAGES} {actual}; (frames, height, width, 3) of bytes was expected")
    return values.transpose(0, 3, 1, 2).copy()


def _array(source: Path | bytes, name: str) -> np.ndarray | None:
    """An array of a file; an .npy file holds features alone."""
    if isinstance(source, Path):
        if not source.exists():
            raise ValueError(f"{source}: no such file")
        if source.stat().st_size > UPLOAD:
            raise ValueError(f"{source}: {source.stat().st_size:,} bytes are too many for one clip")
        data = untrusted.regular(source).read_bytes()
    else:
        data = source
    if data[:6] == b"\x93NUMPY":
        return untrusted.npy(data, _name(source)) if name == FEATURES else None
    try:
        members = untrusted.unzip(data, f"{name}.npy".__eq__, UPLOAD)
    except ValueError as error:
        raise ValueError(str(error).replace("the file", _name(source), 1)) from None
    return untrusted.npy(members[f"{name}.npy"], f"{_name(source)}, {name}") if members else None


def _name(source: Path | bytes) -> str:
    return "the clip" if isinstance(source, bytes) else str(source)


def _checked(values: np.ndarray, where: str) -> np.ndarray:
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"{where}: features {values.shape}; (frames, width) was expected, and at least one of each")
    if not np.isfinite(values).all():
        frame = int(np.flatnonzero(~np.isfinite(values).all(1))[0])
        raise ValueError(f"{where}: the features of frame {frame} are not finite")
    return values


def frames_of(folder: Path) -> tuple[Photograph, ...]:
    """The pictures in a folder, by name; numbers in names by their size, so that ``frame10`` comes after ``frame9``."""
    files = sorted(folder.iterdir(), key=lambda file: (_numbered(file.name), file.name))
    frames = tuple(Photograph(file) for file in files if file.suffix.lower() in SUFFIXES)
    if not frames:
        raise ValueError(f"{folder}: no frame ({', '.join(SUFFIXES)}) is in it")
    return frames


def _numbered(name: str) -> list[str | int]:
    """Text and numbers by turns."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"([0-9]{1,18})", name))]


def spaced(count: int, most: int) -> np.ndarray:
    """Which of ``count`` frames to take so that there are at most ``most``: at equal distances, the middle of each
    part."""
    if count <= most:
        return np.arange(count)
    return ((np.arange(most) + 0.5) * count / most).astype(np.int64)


def _same_width(clips: Sequence[Clip], folder: Path) -> None:
    kinds = {clip.features is None for clip in clips}
    if len(kinds) > 1:
        raise ValueError(f"{folder}: some clips have features and others pictures of frames; all must have the same")
    widths = {clip.features.shape[1]: clip.name for clip in clips if clip.features is not None}
    if len(widths) > 1:
        (width, name), (other_width, other_name) = list(widths.items())[:2]
        raise ValueError(
            f"{folder}: the frames of {name} have {width} features and those of {other_name} {other_width}"
        )


# ---------------------------------------------------------------------------------------------------------------------
# Splits


def video(name: str) -> str:
    """The video that a clip was cut from, if its name tells; else the clip."""
    cut = _CUT.fullmatch(name)
    return cut["video"] if cut else name


def _divided(clips: Sequence[Clip], folder: Path) -> Splits:
    """7 : 1 : 2 by the names of videos alone."""
    videos: dict[str, list[Clip]] = {}
    for clip in clips:
        videos.setdefault(video(clip.name), []).append(clip)
    if len(videos) < len(SPLITS):
        raise ValueError(f"{folder}: {len(videos)} videos with captions are too few to train, validate and test")
    order = [videos[name] for name in sorted(videos, key=_place)]
    test, order = _first(order, len(clips) // 5, leave=2)
    valid, order = _first(order, len(clips) // 10, leave=1)
    return {"train": [clip for group in order for clip in group], "valid": valid, "test": test}


def _first(videos: list[list[Clip]], count: int, leave: int) -> tuple[list[Clip], list[list[Clip]]]:
    """The clips of the first videos that have ``count`` together, at least one video and none of the last ``leave``;
    and the other videos."""
    taken: list[Clip] = []
    number = 0
    while number < len(videos) - leave and (not number or len(taken) < count):
        taken += videos[number]
        number += 1
    return taken, videos[number:]


def _place(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


def pad(arrays: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Clips of different lengths (F, …) as one array (B, longest, …) in float32, and their lengths (B,)."""
    clips = list(arrays)
    lengths = np.array([len(clip) for clip in clips], np.int64)
    padded = np.zeros((len(clips), int(lengths.max(initial=0)), *clips[0].shape[1:]), np.float32)
    for row, clip in zip(padded, clips):
        row[: len(clip)] = clip
    return padded, lengths
