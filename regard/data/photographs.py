"""Photographs: JPEG, PNG or WebP from a file, from a member of a zip archive, or from bytes, as squares of RGB bytes.

A file that is too large is refused before it is decoded, and one that is broken or cut off is named. EXIF's orientation
is applied; grey images become RGB, transparent ones are laid on white.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regard._lazy import nearest

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("JPEG", "PNG", "WEBP")
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
FITS = ("crop", "squash")
"""How an image becomes square: the middle is cut out, or it is stretched."""
_ORIENTATION = 0x0112
"""EXIF's tag; from 5 on width and height change places."""
MAX_BYTES = 32_000_000
MAX_PIXELS = 32_000_000


class Photograph(NamedTuple):
    """Where a photograph is: a file, or a member of a zip archive."""

    file: Path
    member: str | None = None

    def __str__(self) -> str:
        return str(self.file) if self.member is None else f"{self.file}/{self.member}"

    @property
    def name(self) -> str:
        """By which it is divided: that of the member, or of the file."""
        return self.member or self.file.name


Source = Photograph | Path | bytes


def read(
    source: Source, size: int, *, fit: str = "crop", max_bytes: int = MAX_BYTES, max_pixels: int = MAX_PIXELS
) -> np.ndarray:
    """A photograph as bytes (3, size, size).

    Args:
        source: a path, a :class:`Photograph`, or the bytes of a file.
        size: height and width wanted.
        fit: ``crop`` keeps the middle of the longer side, ``squash`` stretches.
        max_bytes: of the file.
        max_pixels: of the image as it lies in the file.
    """
    return decode(contents(source, max_bytes), size, name=_name(source), fit=fit, max_pixels=max_pixels)


def contents(source: Source, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file, at most ``max_bytes``."""
    if isinstance(source, bytes):
        _check_bytes(len(source), max_bytes, "the image")
        return source
    photograph = Photograph(source) if isinstance(source, Path) else source
    try:
        if photograph.member is not None:
            return _read_member(photograph.file, photograph.member, max_bytes)
        with photograph.file.open("rb") as file:
            return _read(file, max_bytes, str(photograph))
    except FileNotFoundError:
        raise ValueError(f"{photograph}: no such file") from None
    except IsADirectoryError:
        raise ValueError(f"{photograph}: a folder, not an image") from None


def decode(
    data: bytes, size: int, *, name: str = "the image", fit: str = "crop", max_pixels: int = MAX_PIXELS
) -> np.ndarray:
    """The bytes of a file as pixels (3, size, size); ``name`` stands in errors."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise ValueError('to read photographs, pip install "regard[images]"') from None
    if fit not in FITS:
        raise ValueError(f"an image is not made square by {fit!r}: {nearest(fit, FITS)}")
    if size < 1:
        raise ValueError(f"size = {size}: an image has at least one pixel")
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as opened:
            width, height = opened.size
            if width * height > max_pixels:
                raise Image.DecompressionBombError
            opened.draft("RGB", (2 * size, 2 * size))  # a JPEG is decoded no larger than that, if this halves it
            picture = _opaque(ImageOps.exif_transpose(opened))
    except UnidentifiedImageError:
        raise ValueError(f"{name}: not a JPEG, PNG or WebP image") from None
    except Image.DecompressionBombError:
        raise ValueError(f"{name}: more than {max_pixels / 1e6:g} million pixels; make it smaller first") from None
    except Exception as error:  # Pillow's decoders raise errors of many kinds for broken files
        raise ValueError(f"{name}: broken or cut off ({error})") from None
    return _square(picture, size, fit)


def resized(pixels: np.ndarray, size: int, *, fit: str = "crop") -> np.ndarray:
    """Pixels (3, height, width), bytes, as (3, size, size); they may share memory."""
    if pixels.shape[1:] == (size, size):
        return pixels
    try:
        from PIL import Image
    except ImportError:
        raise ValueError('to resize images, pip install "regard[images]"') from None
    return _square(Image.fromarray(pixels.transpose(1, 2, 0)), size, fit)


def dimensions(source: Source) -> tuple[int, int]:
    """Width and height of a photograph as it is looked at, read from the head of its file."""
    from PIL import Image

    with Image.open(BytesIO(contents(source)), formats=FORMATS) as opened:
        sideways = opened.getexif().get(_ORIENTATION, 1) >= 5
        return (opened.height, opened.width) if sideways else opened.size


def unsquashed(pixels: np.ndarray, dimensions: tuple[int, int]) -> np.ndarray:
    """A square (3, size, size) in the proportions of width and height; the longer side stays."""
    from PIL import Image

    scale = pixels.shape[-1] / max(dimensions)
    width, height = (max(1, round(scale * side)) for side in dimensions)
    picture = Image.fromarray(pixels.transpose(1, 2, 0)).resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(picture, np.uint8).transpose(2, 0, 1).copy()


def _square(picture: Image, size: int, fit: str) -> np.ndarray:
    from PIL import Image, ImageOps

    bicubic = Image.Resampling.BICUBIC
    if fit == "squash":
        square = picture if picture.size == (size, size) else picture.resize((size, size), bicubic)
    else:
        square = ImageOps.fit(picture, (size, size), bicubic)
    return np.asarray(square, np.uint8).transpose(2, 0, 1).copy()


def _opaque(picture: Image) -> Image:
    """As RGB: what is transparent lies on white."""
    from PIL import Image

    if picture.mode.startswith("I"):  # 16 bits
        picture = Image.fromarray((np.asarray(picture, np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if "transparency" in picture.info or picture.mode in ("RGBA", "LA", "PA"):
        layer = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return picture.convert("RGB")


def fingerprint(source: Source) -> str:
    """SHA-256 of the file's bytes."""
    return hashlib.sha256(contents(source)).hexdigest()


def folder(path: Path) -> list[Photograph]:
    """The photographs in a folder or in a zip archive, by name."""
    if path.is_dir():
        photographs = [Photograph(file) for file in sorted(path.iterdir()) if file.suffix.lower() in SUFFIXES]
    else:
        names = sorted(_archive(path).namelist())
        photographs = [Photograph(path, name) for name in names if name.lower().endswith(SUFFIXES)]
    if not photographs:
        raise ValueError(f"{path}: no photograph ({', '.join(SUFFIXES)}) is in it")
    return photographs


class Album:
    """Photographs in folders and zip archives, found by name, which in an archive may begin with folders; by its stem,
    if it has another suffix there.

    Args:
        home: the folder that names may be relative to.
        places: folders and archives to look into; those that do not exist are left out.
    """

    def __init__(self, home: Path, places: Iterable[Path]):
        self.home = home
        self.places = [place for place in places if place.exists()]
        self._names: dict[str, Photograph] = {}
        self._stems: dict[str, Photograph] = {}
        for place in self.places:
            for photograph in _listed(place):
                parts = photograph.name.split("/")
                for first in range(len(parts)):
                    name = "/".join(parts[first:])
                    self._names.setdefault(name, photograph)
                    self._stems.setdefault(name.rpartition(".")[0], photograph)

    def find(self, name: str) -> Photograph | None:
        """The photograph of that name, if there is one; folders in it may end in a backslash, as Windows has them."""
        if name in self._names:
            return self._names[name]
        path = self.home / name  # it may say in which folder
        if path.is_file():
            return Photograph(path)
        if "\\" in name:
            return self.find(name.replace("\\", "/"))
        return self._stems.get(name.rpartition(".")[0])


def divided(items: Sequence[Any], folder: Path, test: float = 0.1, valid: float = 0.1) -> dict[str, list[Any]]:
    """What belongs to photographs, in splits: shares of the photographs for test and validation, at least one of each,
    and their order, by their names alone. ``folder`` stands in errors."""
    names = {item.photograph.name for item in items}
    if len(names) < 3:
        raise ValueError(f"{folder}: {len(names)} images are too few to train, validate and test")
    order = sorted(names, key=lambda name: hashlib.blake2b(name.encode(), digest_size=8).digest())
    tests = int(test * len(order)) or 1
    rest = tests + (int(valid * len(order)) or 1)
    rank = {name: number for number, name in enumerate(order)}
    splits: dict[str, list[Any]] = {"train": [], "valid": [], "test": []}
    for item in sorted(items, key=lambda item: rank[item.photograph.name]):
        number = rank[item.photograph.name]
        splits["test" if number < tests else "valid" if number < rest else "train"].append(item)
    return splits


def _listed(place: Path) -> list[Photograph]:
    if place.is_dir():
        return [Photograph(file) for file in sorted(place.iterdir()) if file.suffix.lower() in SUFFIXES]
    return folder(place)


def _name(source: Source) -> str:
    return "the image" if isinstance(source, bytes) else str(source)


def _read(file: IO[bytes], max_bytes: int, name: str) -> bytes:
    data = file.read(max_bytes + 1)
    _check_bytes(len(data), max_bytes, name)
    return data


def _read_member(path: Path, member: str, max_bytes: int) -> bytes:
    try:
        with _archive(path).open(member) as file:
            return _read(file, max_bytes, f"{path}/{member}")
    except KeyError:
        raise ValueError(f"{path}: no {member} is in it") from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"{path}/{member}: broken ({error})") from None


def _check_bytes(count: int, most: int, name: str) -> None:
    if count > most:
        raise ValueError(f"{name}: more than {most / 1e6:g} MB; make it smaller first")


def _archive(path: Path) -> zipfile.ZipFile:
    if not path.exists():
        raise ValueError(f"{path}: no such file")
    return _opened(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _opened(path: Path, _: int) -> zipfile.ZipFile:
    """Reading the list of members takes longer than reading one."""
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path}: not a zip archive ({error})") from None
