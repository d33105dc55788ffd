"""Files that may come from a stranger: what one claims is compared with what it is before memory is taken for it.

A file on disk is as large as it looks. What is inside a compressed file, or declared in a header, is not known until it
is read, so it is bounded here. Every error is a ValueError that names the file.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from regard._files import regular
from regard._lazy import nearest

GROWTH, ALWAYS = 50, 256 << 20
"""Limits on decompression: a file may expand by the factor GROWTH (text expands 3 to 10 times, images of digits 20
times), and always to ALWAYS bytes."""

_KINDS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
_NPY = re.compile(
    rb"\{'descr': '(?P<dtype>[<>|=]?[biuf][1248])', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>[\dL, ]{0,99})\),? *\} *\n?"
)
_TEXTS = re.compile(
    rb"\{'descr': '<U(?P<length>\d{1,6})', 'fortran_order': False, 'shape': \((?P<count>\d{1,12}),\),? *\} *\n?"
)


def most(path: Path) -> int:
    """The number of bytes that the compressed file ``path`` may unpack to."""
    return max(ALWAYS, GROWTH * path.stat().st_size)


def read(path: Path) -> bytes:
    """The bytes of a file, unpacked if its name ends in ``.gz``."""
    if path.suffix != ".gz":
        return regular(path).read_bytes()
    limit, parts, size = most(regular(path)), [], 0
    try:
        with gzip.open(path) as file:
            while part := file.read(1 << 20):
                size += len(part)
                if size > limit:
                    raise ValueError(f"{path}: {_too_much(limit)}")
                parts.append(part)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a whole gzip file ({error}); download it again") from None
    return b"".join(parts)


def unzip(source: Path | bytes, select: Callable[[str], bool], limit: int | None = None) -> dict[str, bytes]:
    """The files in an archive, or in the bytes of one, whose names ``select`` accepts, by name.

    Args:
        limit: bytes that they may have together; if None, as many as :func:`most` says of a file, and for bytes
            :data:`ALWAYS`.
    """
    members = {}
    if limit is None:
        limit = ALWAYS if isinstance(source, bytes) else most(regular(source))
    try:
        with zipfile.ZipFile(BytesIO(source) if isinstance(source, bytes) else source) as archive:
            chosen = [info for info in archive.infolist() if select(info.filename)]
            if sum(info.file_size for info in chosen) > limit:
                raise ValueError(_too_much(limit))
            for info in chosen:
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError("compressed by another method than deflate")  # zipfile bounds no other
                with archive.open(info) as file:
                    members[info.filename] = file.read(info.file_size)
                if len(members[info.filename]) != info.file_size:
                    raise ValueError("a file in it is shorter than it says")
    except Exception as error:  # zipfile raises ten kinds of error where an archive is damaged
        name = "the file" if isinstance(source, bytes) else source
        raise ValueError(f"{name}: not a whole archive, or not a usual one: {str(error)[:200]}") from None
    return members


def _too_much(limit: int) -> str:
    return f"it unpacks to more than {limit >> 20:,} MB, unusually much; if it is what you want, unpack it yourself"


def parse_json(data: bytes | str, where: Path | str) -> Any:
    """The value of a JSON text."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError(f"{where}: not JSON: brackets are nested too deeply") from None
    except ValueError as error:  # also a number of thousands of digits, and what is not UTF-8
        lines = "; one value is wanted here, not one a line" if str(error).startswith("Extra data") else ""
        raise ValueError(f"{where}: not JSON: {error}{lines}") from None


def parse_json_line(line: str, place: str) -> Any:
    """The value of a line of JSON; ``place`` names file and line."""
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError(f"{place}: not JSON: brackets are nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{place}: not JSON: {error.msg} at character {error.colno}") from None
    except ValueError as error:  # a number of thousands of digits
        raise ValueError(f"{place}: not JSON: {error}") from None


def numbers(data: bytes | bytearray, dtype: str, shape: Iterable[int], fortran: bool = False) -> np.ndarray:
    """The array of ``shape`` in ``data``, in this machine's byte order; ``dtype`` is a type of numbers, ``<f4``."""
    order, kind, sizes = dtype[:-2], dtype[-2:], tuple(shape)
    if kind not in _KINDS or order not in ("", "<", ">", "|", "="):
        raise ValueError(f"an array of type {dtype[:20]!r}, which is no type of numbers")
    if len(sizes) > 4 or not all(type(size) is int and 0 <= size < 1 << 31 for size in sizes):
        raise ValueError("an array of a shape that cannot be")
    if math.prod(sizes) * int(kind[1]) != len(data):
        raise ValueError(
            f"an array of {' × '.join(map(str, sizes))} numbers of {kind[1]} bytes is said to be {len(data)} bytes"
        )
    array = np.frombuffer(data, order + kind.replace("b", "u"))  # a byte that is neither 0 nor 1 is no bool
    return array.reshape(sizes, order="F" if fortran else "C").astype(array.dtype.newbyteorder("="))


def texts(data: bytes, where: Path | str) -> list[str]:
    """The texts of an ``.npy`` file, an array of one dimension as numpy writes it."""
    start = 10 if data[6:7] == b"\1" else 12
    end = start + int.from_bytes(data[8:start], "little")
    header = _TEXTS.fullmatch(data[start:end])
    if data[:6] != b"\x93NUMPY" or header is None:
        raise ValueError(f"{where}: not the header of an array of texts as numpy writes it")
    size, count = 4 * int(header["length"]), int(header["count"])
    if not size or size * count != len(data) - end:
        raise ValueError(f"{where}: {count} texts of {size} bytes are said to be {len(data) - end} bytes")
    try:
        return [data[end + size * n : end + size * (n + 1)].decode("utf-32-le").rstrip("\0") for n in range(count)]
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not text ({error.reason})") from None


def npy(data: bytes, where: Path | str) -> np.ndarray:
    """The array of an ``.npy`` file, of numbers."""
    start = 10 if data[6:7] == b"\1" else 12
    end = start + int.from_bytes(data[8:start], "little")
    header = _NPY.fullmatch(data[start:end])
    if data[:6] != b"\x93NUMPY" or header is None:
        raise ValueError(f"{where}: not the header of an array of numbers as numpy writes it")
    shape = (int(size) for size in re.findall(rb"\d+", header["shape"]))
    try:
        return numbers(data[end:], header["dtype"].decode(), shape, header["fortran"] == b"True")
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def shown(value: Any) -> str:
    """A value in a message, whatever a file has there."""
    return repr(value)[:40] if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def json_objects(
    lines: Iterable[str], name: str, keys: Sequence[str], what: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """JSON objects, one a line, each with where it stands; a key that is not one of ``keys`` is an error, empty lines
    are passed over. ``what`` says what an object is."""
    for count, line in enumerate(lines, 1):
        place = f"{name}, line {count}"
        if not line.strip():
            continue
        value = parse_json_line(line, place) if line.lstrip().startswith(("{", "[")) else None
        if not isinstance(value, dict):
            raise ValueError(f"{place}: {what}, not {line.strip()[:60]!r}")
        for key in value:
            if key not in keys:
                raise ValueError(f"{place}: no key is called {key!r}: {nearest(key, keys)}")
        yield place, value
