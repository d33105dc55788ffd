"""Photographs with captions, as they lie on disk.

==========  ===========================================================================================================
Flickr8k    ``Flickr8k.token.txt`` (``name.jpg#0``, a tab, a caption; also Flickr30k's), lists of the images of each
            split (``Flickr_8k.trainImages.txt``, ``…devImages.txt``, ``…testImages.txt``), and the images in a folder
            or in zip archives, where they may have another suffix
COCO        ``captions_train2014.json``, ``captions_val2014.json`` and so on, also in ``annotations/``, and the images
            in ``train2014/`` or ``train2014.zip``
folder      ``captions.tsv``: a file, a tab, a caption, several lines for a file; or one such folder for each split,
            ``train/captions.tsv`` and so on
==========  ===========================================================================================================

:func:`read` finds out which it is. Where there are no splits, images are divided 8 : 1 : 1 by their names. A missing
image and a caption without words are named with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.data import SPLITS, untrusted
from regard.data.lines import BadLines, clean, numbered_lines
from regard.data.photographs import Album, Photograph, divided

TABLE = "captions.tsv"
_TOKENS = "*.token*.txt"
_COCO = "captions_*.json"
_LISTS = {"train": "train", "dev": "valid", "val": "valid", "test": "test"}
_LINE = re.compile(r"(?P<image>[^\t#@]+)#\d+[\t@ ](?P<caption>.*)")


class Captioned(NamedTuple):
    """A photograph and its captions."""

    photograph: Photograph
    captions: list[str]


Splits = dict[str, list[Captioned]]


def read(folder: Path, bad: BadLines | None = None) -> Splits:
    """The images by split, in the order of their lists."""
    bad = bad or BadLines()
    if not folder.is_dir():
        raise ValueError(f"{folder}: a folder with photographs and captions was expected")
    if any(folder.glob(_TOKENS)):
        splits = read_flickr(folder, bad)
    elif any(folder.glob(_COCO)) or any(folder.glob(f"annotations/{_COCO}")):
        splits = read_coco(folder, bad)
    else:
        splits = read_tables(folder, bad)
    for split, captioned in splits.items():
        if not captioned:
            raise ValueError(f"{folder}: no image is in the split {split!r}")
    return splits


# ---------------------------------------------------------------------------------------------------------------------
# Flickr8k


def read_flickr(folder: Path, bad: BadLines) -> Splits:
    """Flickr8k and Flickr30k."""
    tokens = sorted(folder.glob(_TOKENS))[0]
    captions: dict[str, list[str]] = {}
    for number, line in numbered_lines(tokens):
        parts = _LINE.fullmatch(line)
        if parts is None:
            bad.add("unreadable", tokens, number, "not name#number, a tab, and a caption")
        elif caption := clean(parts["caption"]):
            captions.setdefault(parts["image"], []).append(caption)
        else:
            bad.add("empty", tokens, number, f"an empty caption of {parts['image']}")
    images = Album(folder, [folder, *_folders(folder), *sorted(folder.glob("*.zip"))])
    lists = sorted(folder.glob("*Images.txt"))
    if not lists:
        mentions = ((name, tokens, 0) for name in captions)
        return divided(_captioned(mentions, captions, images, bad), folder)
    splits: Splits = {}
    for path in lists:
        split = next((split for part, split in _LISTS.items() if f"{part}Images" in path.name), None)
        if split is not None:
            mentions = ((name, path, number) for number, name in numbered_lines(path) if name)
            splits[split] = _captioned(mentions, captions, images, bad)
    return splits


# ---------------------------------------------------------------------------------------------------------------------
# COCO


def read_coco(folder: Path, bad: BadLines) -> Splits:
    """COCO's captions; images without any, as those of its test split, are left out."""
    splits: Splits = {}
    for path in sorted([*folder.glob(_COCO), *folder.glob(f"annotations/{_COCO}")]):
        part = path.stem.removeprefix("captions_")
        split = next((split for name, split in _LISTS.items() if part.startswith(name)), None)
        if split is None:
            continue
        names, captions = _annotations(path, bad)
        places = [folder / part, folder / f"{part}.zip", folder / "images", folder / "images" / part, folder]
        images = Album(folder, places)
        mentions = ((name, path, 0) for name in names if name in captions)
        splits.setdefault(split, []).extend(_captioned(mentions, captions, images, bad))
    if not splits:
        raise ValueError(f"{folder}: no captions_train….json or captions_val….json is in it")
    return splits if set(splits) != {"train"} else divided(splits["train"], folder)


def _annotations(path: Path, bad: BadLines) -> tuple[list[str], dict[str, list[str]]]:
    """The names of the images, and the captions of each."""
    content = untrusted.parse_json(untrusted.read(path), path)
    try:
        names = {image["id"]: str(image["file_name"]) for image in content["images"]}
        notes = [(note["image_id"], str(note["caption"])) for note in content["annotations"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: not the captions of COCO, images and annotations ({error!r})") from None
    captions: dict[str, list[str]] = {}
    for number, (image, caption) in enumerate(notes, 1):
        if not isinstance(image, Hashable) or image not in names:
            bad.add("without an image", path, number, f"annotation {number} is of image {image}, which is not listed")
        elif not clean(caption):
            bad.add("empty", path, number, f"annotation {number}, of {names[image]}, is empty")
        else:
            captions.setdefault(names[image], []).append(clean(caption))
    return list(names.values()), captions


# ---------------------------------------------------------------------------------------------------------------------
# A folder with captions.tsv


def read_tables(folder: Path, bad: BadLines) -> Splits:
    """A folder with ``captions.tsv``, or one for each split."""
    parts = {split: folder / split for split in SPLITS if (folder / split / TABLE).exists()}
    if parts:
        if "train" not in parts:
            raise ValueError(f"{folder}: no train/{TABLE} is in it")
        return {split: _table(part, bad) for split, part in parts.items()}
    if not (folder / TABLE).exists():
        raise ValueError(
            f"{folder}: no captions are in it; {TABLE} with a file, a tab and a caption on each line was expected, or "
            "the files of Flickr8k or COCO"
        )
    return divided(_table(folder, bad), folder)


def read_table(path: Path, bad: BadLines) -> tuple[dict[str, list[str]], dict[str, int]]:
    """The captions of each file that a table names, and the line that first does."""
    captions: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for number, line in numbered_lines(path):
        if not line:
            continue
        name, tab, caption = line.partition("\t")
        if not tab:
            bad.add("unreadable", path, number, "no tab between a file and its caption")
        elif not clean(caption):
            bad.add("empty", path, number, f"an empty caption of {name}")
        else:
            captions.setdefault(name.strip(), []).append(clean(caption))
            first.setdefault(name.strip(), number)
    return captions, first


def _table(folder: Path, bad: BadLines) -> list[Captioned]:
    path = folder / TABLE
    captions, first = read_table(path, bad)
    images = Album(folder, [folder, folder / "images", *sorted(folder.glob("*.zip"))])
    return _captioned(((name, path, first[name]) for name in captions), captions, images, bad)


# ---------------------------------------------------------------------------------------------------------------------
# What they share


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def _captioned(
    mentions: Iterable[tuple[str, Path, int]], captions: Mapping[str, Sequence[str]], images: Album, bad: BadLines
) -> list[Captioned]:
    """The images of ``mentions``: a name, and the file and line that mention it."""
    captioned = []
    for name, path, number in mentions:
        photograph = images.find(name)
        if photograph is None:
            places = ", ".join(str(place) for place in images.places)
            bad.add("without an image", path, number, f"{name} is not in {places}")
        elif name not in captions:
            bad.add("without a caption", path, number, f"{name} has no caption")
        else:
            captioned.append(Captioned(photograph, list(captions[name])))
    return captioned
