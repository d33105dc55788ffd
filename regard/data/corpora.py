"""Corpora of paired sentences in a folder: which files belong together, what each is for, which column is which
language.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from regard.data.lines import LONGEST, open_bytes
from regard.data.text import Files, JsonLines, Parallel, Tabs

_NOTES = ("about", "licence", "license", "notice", "readme")
THREE_LETTERS = {
    **{"ar": "ara", "cs": "ces", "da": "dan", "de": "deu", "el": "ell", "en": "eng", "es": "spa", "fi": "fin"},
    **{"fr": "fra", "he": "heb", "hu": "hun", "it": "ita", "ja": "jpn", "ko": "kor", "nl": "nld", "pl": "pol"},
    **{"pt": "por", "ro": "ron", "ru": "rus", "sv": "swe", "tr": "tur", "uk": "ukr", "vi": "vie", "zh": "cmn"},
}
"""ISO 639-3 codes, which Tatoeba's files are named after."""
_CODES = {*THREE_LETTERS, *THREE_LETTERS.values()}


def spellings(language: str) -> set[str]:
    """What a language may be called in the name or the first line of a file: ``es``, ``spa``."""
    short = language.lower()
    return {short, THREE_LETTERS.get(short, short), *(two for two, three in THREE_LETTERS.items() if three == short)}


ROLES = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}


def find(
    path: Path,
    source: str,
    target: str,
    columns: tuple[int, int] | None = None,
    names: Mapping[str, str] | None = None,
) -> dict[str, Files]:
    """The corpora in a folder (or one file) by role: ``train``, and ``valid`` and ``test`` where they are.

    A corpus is ``NAME.en`` beside ``NAME.de``, or ``NAME.jsonl``, or tab-separated ``NAME.tsv`` or ``NAME.txt``; each
    may end in ``.gz``. A name that starts with train, val or dev, or test has that role; a single corpus, or the only
    one that is named after one of the languages, is ``train``. ``names`` says which corpus has a role, for all other
    cases. ``columns`` are those of source and target in tab-separated files; None finds them, see :func:`_tabs`.
    """
    if not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path}: there is no such file or folder")
    corpora = _corpora(path, source, target, columns)
    chosen = {role: name for role, name in (names or {}).items() if name}
    for role, name in chosen.items():
        if name not in corpora:
            raise ValueError(f"{path}: no {role} corpus {name!r}; found: {', '.join(sorted(corpora)) or 'none'}")
    roles = {role: corpora[name] for role, name in chosen.items()}
    left = {name: corpus for name, corpus in corpora.items() if corpus not in roles.values()}
    for role, starts in ROLES.items():
        candidates = [name for start in starts for name in sorted(left) if name.lower().startswith(start)]
        if role not in roles and candidates:
            roles[role] = corpora[candidates[0]]
    if "train" not in roles:
        either = spellings(source) | spellings(target)
        named = {name: corpus for name, corpus in left.items() if name.lower() in either}
        for only in (left, named):
            if len(only) == 1:
                roles["train"] = next(iter(only.values()))
    if "train" not in roles:
        _explain_half(path, source, target)
        raise ValueError(
            f"{path}: no text to train on. Looked for train.{source} beside train.{target}, train.jsonl, train.tsv, or "
            f"one file of source, tab, target; each may end in .gz. Found: {', '.join(sorted(corpora)) or 'nothing'}"
        )
    for role, corpus in roles.items():
        if empty := [file for file in corpus.files if file.stat().st_size == 0]:
            paths = " and ".join(str(file) for file in empty)
            raise ValueError(f"{paths}: empty, but it is the text for {role}; a sentence is a line of it")
    return {role: roles[role] for role in ROLES if role in roles}


def _explain_half(path: Path, source: str, target: str) -> None:
    """Half of a pair of files is a frequent mistake."""
    if not path.is_dir():
        return
    names = {file.name.removesuffix(".gz") for file in path.iterdir()}
    for present, missing in ((source, target), (target, source)):
        for name in sorted(names):
            stem, _, ending = name.rpartition(".")
            if stem.startswith("train") and ending == present and f"{stem}.{missing}" not in names:
                raise ValueError(
                    f"{path}: {name} is there, but not {stem}.{missing}: each language has a file of its own"
                )


def _corpora(path: Path, source: str, target: str, columns: tuple[int, int] | None) -> dict[str, Files]:
    files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file() and p.name[0] not in "._")
    plain = {p.name.removesuffix(".gz"): p for p in reversed(files)}  # where both are there, the uncompressed one
    corpora: dict[str, Files] = {}
    for name, file in sorted(plain.items()):
        stem, _, ending = name.rpartition(".")
        if stem and ending == source and f"{stem}.{target}" in plain:
            corpora[stem] = Parallel((file, plain[f"{stem}.{target}"]))
    parallel = bool(corpora)
    for name, file in sorted(plain.items()):
        stem, _, ending = name.rpartition(".")
        if ending in ("jsonl", "json"):
            corpora.setdefault(stem, JsonLines((file,), languages=(source, target)))
        elif ending == "tsv" or (ending == "txt" and not parallel and stem.lower() not in _NOTES):
            corpora.setdefault(stem, _tabs(file, stem, source, target, columns))
    if path.is_file() and not corpora:
        corpora[path.name] = _tabs(path, path.stem, source, target, columns)
    return corpora


def _tabs(file: Path, stem: str, source: str, target: str, columns: tuple[int, int] | None) -> Tabs:
    """A tab-separated file with the columns of its first line if that names both languages, else ``columns``; without
    either, source and target in this order, or in the opposite one if the file is named after the source."""
    with open_bytes(file) as stream:
        first = stream.readline(LONGEST).decode(errors="replace").removeprefix("\ufeff").rstrip("\r\n")
    header = [cell.strip().lower() for cell in first.split("\t")]
    places = [next((n for n, cell in enumerate(header, 1) if cell in spellings(code)), 0) for code in (source, target)]
    if all(places):
        if columns is not None and list(columns) != places:
            conflict = f"columns = {columns[0]},{columns[1]}, but the first line of the file says {source} is column"
            raise ValueError(f"{file}: {conflict} {places[0]} and {target} column {places[1]}; leave columns out")
        return Tabs((file,), columns=(places[0], places[1]), header=True)
    if len(header) > 1 and all(cell in _CODES for cell in header):
        missing = target if places[0] else source
        raise ValueError(f"{file}: no column is called {missing!r}; its first line names {', '.join(header)}")
    swapped = stem.lower() in spellings(source)  # Tatoeba: English, tab, the language that the file is named after
    return Tabs((file,), columns=columns or ((2, 1) if swapped else (1, 2)))
