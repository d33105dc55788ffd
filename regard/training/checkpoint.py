"""Weights and states on disk, written so that a moment's power cut, kill or full disk never costs what was there.

A file is written beside its place, forced to disk, and only then renamed into it. A checkpoint is several files, hence
a folder, and comes to life the same way: a folder with its final name is complete. The two newest stay, in case that
the newest cannot be read.

A file of weights holds the SHA-256 of itself (its header and tensors, with zeros in place of the sum). ``SHA256SUMS``
of a checkpoint can also be read by ``sha256sum -c``. Files without a sum, older or foreign, are read as they are.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

FORMAT = 1
WEIGHTS, STATE, SUMS = "model.safetensors", "state.pt", "SHA256SUMS"
KEPT = 2  # checkpoints
_WRITING = ".writing"  # what is not complete carries this suffix
_DAMAGED = ".damaged"  # what could not be read, set aside
_NO_SUM = "0" * 64
_SUM = re.compile(rb'\\"sha256\\": \\"(.{64})\\"', re.DOTALL)  # JSON within the JSON of the header
_HEADER_LIMIT = 100_000_000  # bytes, as in safetensors
_NAME = re.compile(r"step-(\d+)(?:-(\d+))?")


class Damaged(ValueError):
    """A file that is not what was written."""


def write_file(path: Path, content: bytes | str) -> None:
    """Put ``content`` at ``path``, all of it or nothing."""
    unfinished = path.with_name(path.name + _WRITING)
    try:
        with open(unfinished, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)  # a full disk should not stay fuller
        raise
    _settle(path.parent)


def _settle(folder: Path) -> None:
    """Force a folder's names to disk; Windows has no such thing, and needs none."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_weights(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any] | None = None) -> None:
    """A model's tensors as safetensors; tensors that share their memory are written once. ``facts`` (JSON) go along."""
    stored: dict[str, Tensor] = {}
    first: dict[tuple, str] = {}
    aliases: dict[str, str] = {}
    for name, tensor in tensors.items():
        place = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() and place in first:
            aliases[name] = first[place]
        else:
            first[place] = name
            copy = tensor.detach().cpu().contiguous()
            # A piece of a larger tensor shares memory with its neighbours, which the format refuses.
            stored[name] = copy.clone() if copy.untyped_storage().nbytes() != copy.nbytes else copy
    header = {"sha256": _NO_SUM, "format": FORMAT, "aliases": aliases, **(facts or {})}
    content = safetensors.torch.save(stored, metadata={"regard": json.dumps(header)})
    start = content.index(_NO_SUM.encode())  # the header's first entry
    digest = hashlib.sha256(content).hexdigest().encode()
    write_file(path, content[:start] + digest + content[start + len(digest) :])


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts that :func:`write_weights` wrote; of a foreign safetensors file the facts are empty."""
    if not path.is_file():
        raise FileNotFoundError(f"there are no weights at {path}")
    _check_sum(path)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            facts, aliases = _facts(path, file)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is not a mapping)
    except (safetensors.SafetensorError, UnicodeError) as error:
        raise Damaged(f"{path} is damaged, or is not a safetensors file ({error})") from error
    return tensors | {alias: tensors[name] for alias, name in aliases.items()}, facts


def count(path: Path) -> int:
    """The number of tensors in a file of weights."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return len(file.keys())
    except safetensors.SafetensorError as error:
        raise Damaged(f"{path} is damaged, or is not a safetensors file ({error})") from error


def _facts(path: Path, file: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """What :func:`write_weights` wrote beside the tensors: facts, and names that share the tensor of another name."""
    try:
        facts = json.loads((file.metadata() or {}).get("regard", "{}"))
        version, aliases, _ = (facts.pop(key, default) for key, default in _OURS.items())
        absent = [name for name in aliases.values() if name not in set(file.keys())]
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise Damaged(f"{path} is damaged: what it says of itself is not regard's ({_first_line(error)})") from error
    _check_format(path, version)
    if absent:
        raise Damaged(f"{path} is damaged: it has no tensor {absent[0]!r}, which it gives another name")
    return facts, aliases


_OURS: dict[str, Any] = {"format": FORMAT, "aliases": {}, "sha256": ""}


def _check_sum(path: Path) -> None:
    """Whether a file of weights is what was written, if it says what that was."""
    with open(path, "rb") as file:
        length = file.read(8)
        header = length + file.read(min(int.from_bytes(length, "little"), _HEADER_LIMIT))
        if not (place := _SUM.search(header)):
            return
        digest = hashlib.sha256(header[: place.start(1)] + _NO_SUM.encode() + header[place.end(1) :])
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest().encode() != place[1]:
        raise Damaged(f"{path} is damaged: its SHA-256 is not the one that was written into it")


def load_weights(model: nn.Module, source: Path | Mapping[str, Tensor], name: str = "the weights") -> None:
    """Put weights, or those of a file, into a model of the same make; a misfit is named."""
    tensors: Mapping[str, Tensor]
    if isinstance(source, Path):
        tensors, name = read_weights(source)[0], str(source)
    else:
        tensors = source
    check_fit(model, tensors, name)
    model.load_state_dict(dict(tensors))


def check_fit(model: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Whether tensors have the names, shapes and kinds of type (whole numbers, fractions) of a model's; an error names
    those that have not."""
    expected = model.state_dict()
    pairs = [(key, tensors[key], expected[key]) for key in expected if key in tensors]
    troubles = [f"{key} is missing" for key in expected if key not in tensors]
    troubles += [f"{key} is not in the model" for key in tensors if key not in expected]
    troubles += [
        f"{key} is {tuple(loaded.shape)}, in the model {tuple(target.shape)}"
        for key, loaded, target in pairs
        if loaded.shape != target.shape
    ]
    troubles += [
        f"{key} is of type {loaded.dtype}, in the model {target.dtype}".replace("torch.", "")
        for key, loaded, target in pairs
        if _kind(loaded) != _kind(target)
    ]
    if troubles:
        remainder = f", and {len(troubles) - 4} more" if len(troubles) > 4 else ""
        raise ValueError(f"{name} do not fit this {type(model).__name__}: {'; '.join(troubles[:4])}{remainder}")


def _kind(tensor: Tensor) -> str:
    if tensor.dtype is torch.bool:
        return "bool"
    return "fraction" if tensor.is_floating_point() else "complex" if tensor.is_complex() else "whole"


def write(folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """A checkpoint in ``folder``. The one before stays, in case that this one is damaged; older ones go."""
    folder.mkdir(parents=True, exist_ok=True)
    before = _complete(folder)
    serials = [serial for _, (at, serial) in before if at == step]
    place = folder / (f"step-{step:08d}" + (f"-{max(serials) + 1}" if serials else ""))
    unfinished = place.with_name(place.name + _WRITING)
    try:
        # Through memory: PyTorch's own writer hides why it could not write.
        buffer = io.BytesIO()
        torch.save({"format": FORMAT, **state}, buffer)
        content = buffer.getvalue()
        unfinished.mkdir()
        write_weights(unfinished / WEIGHTS, tensors, {"step": step})
        write_file(unfinished / STATE, content)
        write_file(unfinished / SUMS, f"{hashlib.sha256(content).hexdigest()}  {STATE}\n")
        os.rename(unfinished, place)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    _settle(folder)
    for old, _ in before[: 1 - KEPT]:
        shutil.rmtree(old)
    return place


def last(folder: Path) -> Path | None:
    """The newest checkpoint."""
    complete = _complete(folder)
    return complete[-1][0] if complete else None


def newest_whole(folder: Path) -> tuple[Path | None, tuple[dict[str, Tensor], dict[str, Any]], dict[Path, str]]:
    """The newest checkpoint that can be read, what it holds, and what is wrong with the newer ones.

    Nothing is removed. If there are checkpoints and none is whole, that is an error."""
    troubles: dict[Path, str] = {}
    for place, _ in reversed(_complete(folder)):
        try:
            return place, read(place), troubles
        except (Damaged, FileNotFoundError) as error:
            troubles[place] = str(error)
    if troubles:
        raise Damaged(f"no checkpoint in {folder} can be read: {'; '.join(troubles.values())}")
    return None, ({}, {}), {}


def set_aside(place: Path) -> Path:
    """Rename a checkpoint that cannot be read, so that it is not taken for the newest."""
    aside = place.with_name(place.name + _DAMAGED)
    shutil.rmtree(aside, ignore_errors=True)
    os.rename(place, aside)
    return aside


def tidy(folder: Path) -> None:
    """Remove what a killed process left: things half written, and all checkpoints but the two newest."""
    for old, _ in _complete(folder)[:-KEPT]:
        shutil.rmtree(old)
    for unfinished in folder.glob(f"*{_WRITING}"):
        shutil.rmtree(unfinished) if unfinished.is_dir() else unfinished.unlink()


def _complete(folder: Path) -> list[tuple[Path, tuple[int, int]]]:
    """The checkpoints in a folder with (step, serial), oldest first."""
    matches = [(place, _NAME.fullmatch(place.name)) for place in folder.glob("step-*")]
    complete = [(place, (int(match[1]), int(match[2] or 1))) for place, match in matches if match]
    return sorted(complete, key=lambda item: item[1])


def read(place: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the state of a checkpoint."""
    path = place / STATE
    if not path.is_file():
        raise FileNotFoundError(f"the checkpoint {place} has no {STATE}")
    content, sums = path.read_bytes(), place / SUMS
    if sums.is_file() and hashlib.sha256(content).hexdigest().encode() != sums.read_bytes()[:64]:
        raise Damaged(f"{path} is damaged: its SHA-256 is not the one in {SUMS}")
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        version = state.pop("format")
    except Exception as error:  # whatever torch's restricted reader meets in damaged bytes
        raise Damaged(f"{path} is damaged, or was not written by regard ({_first_line(error)})") from error
    _check_format(path, version)
    return read_weights(place / WEIGHTS)[0], state


def _check_format(path: Path, version: Any) -> None:
    if version != FORMAT:
        raise ValueError(f"{path} has format {version}, this version of regard reads format {FORMAT}")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
