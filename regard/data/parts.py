"""Which file of a folder is for training, validation and testing, by its name; and what is held out where one is
missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from regard.data import SPLITS

Item = TypeVar("Item")
WORDS = {"train": ("train",), "valid": ("valid", "val", "dev", "trial"), "test": ("test",)}
"""What a file of each split has in its name."""
_NOTES = ("readme", "license", "licence", "about", "notice")


def find(path: Path, prefix: str, endings: Sequence[str]) -> dict[str, Path]:
    """The files of a folder by their split; a file that is the only one is ``train``, whatever it is called.

    Args:
        prefix: how their names begin, where a folder holds several sets.
        endings: what else a name may end in, without ``.gz``; all if empty.
    """
    if path.is_file():
        return {"train": path}
    if not path.is_dir():
        raise ValueError(f"{path}: there is no such file or folder")
    files = [
        file
        for file in sorted(path.iterdir())
        if file.is_file() and file.name.lower().startswith(prefix.lower()) and _is_data(file, endings)
    ]
    by_split: dict[str, Path] = {}
    for split, words in WORDS.items():
        candidates = [file for file in files if any(word in file.name[len(prefix) :].lower() for word in words)]
        if len(candidates) > 1:
            raise ValueError(
                f"{path}: {_shortened(candidates)} might all be for {split}: say how names begin with files=…"
            )
        if candidates:
            by_split[split] = candidates[0]
    if len(files) == 1:
        return {"train": files[0]}
    if "train" not in by_split:
        condition = f" whose name begins with {prefix!r}" if prefix else ""
        listing = _shortened([file for file in sorted(path.iterdir()) if file.is_file()])
        remedy = '; of data of your own, say how names begin, or files="" for all of them' if prefix else ""
        raise ValueError(f"{path}: there is no file for train{condition}; there are {listing}{remedy}")
    return by_split


def split(
    files: Mapping[str, Path], read: Callable[[Path], list[Item]], *, mixed: bool = True
) -> dict[str, list[Item]]:
    """The items of each split. Where a file is missing, items are held out: without a test file, the validation file is
    the test, and without that a tenth of the training items; every tenth of them is for validation then.

    Args:
        mixed: hold out every tenth item, as for files that are sorted by label; else the end of the file, as where
            neighbours belong together.
    """
    items = {name: read(path) for name, path in files.items()}
    if "test" not in items and "valid" in items:
        items["test"] = items.pop("valid")
    for name in ("test", "valid"):
        if name not in items:
            items["train"], items[name] = _held_out(items["train"], mixed)
    count = sum(map(len, items.values()))
    for name in SPLITS:
        if not items[name]:
            where = files.get(name, next(iter(files.values())))
            few = f"; {count} in all are too few to hold out some" if count and len(files) < len(SPLITS) else ""
            raise ValueError(f"{where}: nothing in it for {name!r}{few}")
    return {name: items[name] for name in SPLITS}


def _held_out(items: list[Item], mixed: bool) -> tuple[list[Item], list[Item]]:
    """The items that stay, and a tenth that is held out."""
    if not mixed:
        cut = len(items) - max(len(items) // 10, 1)
        return items[:cut], items[cut:]
    return [item for number, item in enumerate(items) if number % 10 != 9], items[9::10]


def _is_data(path: Path, endings: Sequence[str]) -> bool:
    name = path.name.lower().removesuffix(".gz")
    return not any(word in name for word in _NOTES) and (not endings or name.endswith(tuple(endings)))


def _shortened(paths: Sequence[Path]) -> str:
    names = [path.name for path in paths]
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
