"""Pictures with a class each, as they lie on disk.

=========  ============================================================================================================
IDX        ``{train,t10k}-images-idx3-ubyte`` and ``…-labels-idx1-ubyte``, each plain or gzipped: MNIST, Fashion-MNIST
npz        arrays ``X_{train,valid,test}`` (N, height·width) of numbers from 0 to 1 and ``y_{train,valid,test}``
folder     image files in a folder for each class, ``cat/1.png``, or ``train/cat/1.png`` and so on
=========  ============================================================================================================

Each reader gives the pictures by split; one that has no validation of its own leaves it to the caller.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data import SPLITS, untrusted

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""Formats that are read, whatever a file is called; Pillow knows more, and starts a program for one of those."""
MOST_PIXELS, MOST_CLASSES = 1 << 26, 1 << 16
_IMAGES, _LABELS = 2051, 2049  # the magic numbers: unsigned bytes in three dimensions and in one
_PARTS = {"train": "train", "test": "t10k"}


@dataclass(frozen=True)
class Pictures:
    """Images (N, C, height, width), bytes or float32 from 0 to 1, and the class of each (N,)."""

    image: np.ndarray
    label: np.ndarray
    classes: list[str] = field(default_factory=list)
    names: list[str] | None = None
    """The files that they came from."""

    def __len__(self) -> int:
        return len(self.label)

    def part(self, rows: slice | np.ndarray) -> Pictures:
        """The pictures of some rows."""
        names = None if self.names is None else list(np.asarray(self.names, dtype=object)[rows])
        return Pictures(self.image[rows], self.label[rows], self.classes, names)


# ---------------------------------------------------------------------------------------------------------------------
# IDX


def read_idx_folder(folder: Path) -> dict[str, Pictures]:
    """``train`` and ``test`` of a folder with the four files of MNIST."""
    splits = {}
    for split, part in _PARTS.items():
        images = read_idx(_find(folder, f"{part}-images-idx3-ubyte"), _IMAGES)
        path = _find(folder, f"{part}-labels-idx1-ubyte")
        labels = read_idx(path, _LABELS).astype(np.int64)
        if len(images) != len(labels):
            raise ValueError(f"{path}: {len(labels)} labels for {len(images)} images")
        splits[split] = Pictures(images[:, None], labels)
    count = max(int(part.label.max(initial=0)) for part in splits.values()) + 1
    classes = [str(number) for number in range(count)]
    return {split: Pictures(part.image, part.label, classes) for split, part in splits.items()}


def read_idx(path: Path, magic: int) -> np.ndarray:
    """The array of unsigned bytes in an IDX file; ``magic`` says how many dimensions are expected."""
    data = untrusted.read(path)
    dimensions = magic % 256
    header = 4 * (1 + dimensions)
    if len(data) < header:
        raise ValueError(f"{path}: {len(data)} bytes, too few for the header of an IDX file")
    number, *shape = struct.unpack(f">{1 + dimensions}I", data[:header])
    if number != magic:
        kinds = {_IMAGES: "images", _LABELS: "labels"}
        meaning = f"it holds {kinds[number]}" if number in kinds else "it is no IDX file of bytes"
        raise ValueError(f"{path}: magic number {number}, and {kinds[magic]} have {magic}: {meaning}")
    if len(data) - header != math.prod(shape):
        raise ValueError(
            f"{path}: the header promises {' × '.join(map(str, shape))} bytes, but {len(data) - header} follow; "
            "the file is cut off or has something after its end"
        )
    if not math.prod(shape):
        raise ValueError(f"{path}: there is nothing in it")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def _find(folder: Path, name: str) -> Path:
    for place in (name, f"{name}.gz", name.replace("-idx", ".idx"), name.replace("-idx", ".idx") + ".gz"):
        if (folder / place).exists():
            return folder / place
    raise ValueError(f"{folder}: no {name} or {name}.gz is in it")


# ---------------------------------------------------------------------------------------------------------------------
# npz


def read_npz(path: Path) -> dict[str, Pictures]:
    """All three splits; square images of one channel."""
    if path.is_dir():
        files = sorted(path.glob("*.npz"))
        if len(files) != 1:
            raise ValueError(f"{path}: {len(files)} files end in .npz, and one was expected; name the file")
        path = files[0]
    names = {f"{part}_{split}.npy" for part in "Xy" for split in SPLITS}
    arrays = untrusted.unzip(path, names.__contains__)
    for name in sorted(names - set(arrays)):
        raise ValueError(f"{path}: there is no {name.removesuffix('.npy')} in it")
    read = {name: untrusted.npy(data, f"{path}, {name}") for name, data in arrays.items()}
    splits = {split: _square(path, split, read[f"X_{split}.npy"], read[f"y_{split}.npy"]) for split in SPLITS}
    count = max(int(part.label.max(initial=0)) for part in splits.values()) + 1
    classes = [str(number) for number in range(count)]
    return {split: Pictures(part.image, part.label, classes) for split, part in splits.items()}


def _square(path: Path, split: str, pixels: np.ndarray, labels: np.ndarray) -> Pictures:
    if pixels.ndim < 2 or not pixels.size:
        raise ValueError(f"{path}: X_{split} is {pixels.shape}, and not (images, pixels)")
    with np.errstate(over="ignore"):  # what does not fit is not between 0 and 1 either
        flat = pixels.reshape(len(pixels), -1).astype(np.float32)
    side = math.isqrt(flat.shape[1])
    if side * side != flat.shape[1]:
        raise ValueError(f"{path}: X_{split} has {flat.shape[1]} pixels an image, which is no square")
    if labels.size != len(flat):
        raise ValueError(f"{path}: {labels.size} labels for {len(flat)} images in {split}")
    wrong = ~((flat >= 0) & (flat <= 1)).all(1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        value = flat[row][~((flat[row] >= 0) & (flat[row] <= 1))][0]
        raise ValueError(f"{path}: image {row} of X_{split} has a pixel {value}; pixels are numbers from 0 to 1")
    wrong = ~((labels >= 0) & (labels < MOST_CLASSES) & (labels == np.floor(labels)))
    if wrong.any():
        raise ValueError(
            f"{path}: y_{split} has the class {labels[wrong][0]}; classes are 0, 1, … below {MOST_CLASSES:,}"
        )
    return Pictures(flat.reshape(-1, 1, side, side), labels.reshape(-1).astype(np.int64))


# ---------------------------------------------------------------------------------------------------------------------
# A folder of images


def read_image_folder(folder: Path, size: int, channels: int, seed: int) -> dict[str, Pictures]:
    """Images scaled to ``size`` × ``size``; split 8 : 1 : 1 by ``seed`` where the folder has no splits of its own."""
    parts = {split: folder / split for split in SPLITS if (folder / split).is_dir()}
    if "train" in parts:
        classes = sorted({place.name for part in parts.values() for place in part.iterdir() if place.is_dir()})
        return {split: _images(part, classes, size, channels) for split, part in parts.items()}
    if not folder.is_dir():
        raise ValueError(f"{folder}: a folder was expected, with a folder of images for each class")
    classes = sorted(place.name for place in folder.iterdir() if place.is_dir())
    whole = _images(folder, classes, size, channels)
    order = np.random.default_rng([seed, len(whole)]).permutation(len(whole))
    tenth = max(1, len(whole) // 10)
    cut = {"test": order[:tenth], "valid": order[tenth : 2 * tenth], "train": order[2 * tenth :]}
    if not len(cut["train"]):
        raise ValueError(f"{folder}: {len(whole)} images are too few to train, validate and test")
    return {split: whole.part(rows) for split, rows in cut.items()}


def _images(folder: Path, classes: Sequence[str], size: int, channels: int) -> Pictures:
    files = [
        (path, number)
        for number, name in enumerate(classes)
        for path in sorted((folder / name).glob("*"))
        if path.suffix.lower() in SUFFIXES
    ]
    if not files:
        raise ValueError(f"{folder}: no images in folders of their classes, such as {folder}/cat/1.png")
    images = np.stack([read_image(path, size, size, channels) for path, _ in files])
    labels = np.array([number for _, number in files], np.int64)
    return Pictures(images, labels, list(classes), [str(path) for path, _ in files])


def read_image(path: Path, height: int, width: int, channels: int) -> np.ndarray:
    """One file as bytes (C, height, width), grey or in colour, scaled if it has another size."""
    try:
        from PIL import Image
    except ImportError:
        raise ValueError('to read image files, pip install pillow, or "regard[plot]", which needs it too') from None
    if channels not in (1, 3):
        raise ValueError(f"{path}: an image file has 1 or 3 channels, and {channels} are wanted")
    if not path.exists():
        raise ValueError(f"{path}: no such file")
    untrusted.regular(path)
    try:
        with Image.open(path, formats=FORMATS) as opened:
            size = opened.size  # known before anything is decoded
            picture = opened.convert("L" if channels == 1 else "RGB") if math.prod(size) <= MOST_PIXELS else None
    except Exception as error:  # decoders raise whatever damage made of them
        raise ValueError(f"{path}: not a whole image ({error})") from None
    if picture is None:
        raise ValueError(f"{path}: {size[0]:,} × {size[1]:,} pixels; images of more than {MOST_PIXELS:,} are not read")
    if picture.size != (width, height):
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(picture, np.uint8).reshape(height, width, channels).transpose(2, 0, 1).copy()


def kept_apart(splits: Mapping[str, Pictures], valid: int) -> dict[str, Pictures]:
    """With a validation: the last ``valid`` of training, if there is none."""
    if "valid" in splits:
        return dict(splits)
    train = splits["train"]
    if not 0 < valid < len(train):
        raise ValueError(f"valid = {valid} of {len(train)} training images: something must stay for each")
    return {**splits, "train": train.part(slice(None, -valid)), "valid": train.part(slice(-valid, None))}
