"""Weights and states on disk, written so that a moment's power cut, kill or full disk never costs what was there.

A file is written beside its place, forced to disk, and only then renamed into it. A checkpoint is two files, hence a
folder, and comes to life the same way: a folder with its final name is complete. The previous one goes only afterwards.
"""

from __future__ import annotations

import io
import json
import os
import pickle
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
WEIGHTS, STATE = "model.safetensors", "state.pt"
_WRITING = ".writing"  # what is not complete carries this suffix
_NAME = re.compile(r"step-(\d+)(?:-(\d+))?")


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
    kept: dict[str, Tensor] = {}
    first: dict[tuple, str] = {}
    aliases: dict[str, str] = {}
    for name, tensor in tensors.items():
        place = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() and place in first:
            aliases[name] = first[place]
        else:
            first[place] = name
            whole = tensor.detach().cpu().contiguous()
            # A piece of a larger tensor shares memory with its neighbours, which the format refuses.
            kept[name] = whole.clone() if whole.untyped_storage().nbytes() != whole.nbytes else whole
    header = {"regard": json.dumps({"format": FORMAT, "aliases": aliases, **(facts or {})})}
    write_file(path, safetensors.torch.save(kept, metadata=header))


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts that :func:`write_weights` wrote; of a foreign safetensors file the facts are empty."""
    if not path.is_file():
        raise FileNotFoundError(f"there are no weights at {path}")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is not a mapping)
            facts = json.loads((file.metadata() or {}).get("regard", "{}"))
    except (safetensors.SafetensorError, ValueError) as error:
        raise ValueError(f"{path} is damaged, or is not a safetensors file ({error})") from error
    _check_format(path, facts.get("format", FORMAT))
    tensors |= {alias: tensors[name] for alias, name in facts.pop("aliases", {}).items()}
    facts.pop("format", None)
    return tensors, facts


def load_weights(model: nn.Module, source: Path | Mapping[str, Tensor], name: str = "the weights") -> None:
    """Put weights, or those of a file, into a model of the same make; a misfit is named."""
    tensors: Mapping[str, Tensor]
    if isinstance(source, Path):
        tensors, name = read_weights(source)[0], str(source)
    else:
        tensors = source
    own = model.state_dict()
    troubles = [f"{key} is missing" for key in own if key not in tensors]
    troubles += [f"{key} is not in the model" for key in tensors if key not in own]
    troubles += [
        f"{key} is {tuple(tensors[key].shape)}, in the model {tuple(own[key].shape)}"
        for key in own
        if key in tensors and tensors[key].shape != own[key].shape
    ]
    if troubles:
        more = f", and {len(troubles) - 4} more" if len(troubles) > 4 else ""
        raise ValueError(f"{name} do not fit this {type(model).__name__}: {'; '.join(troubles[:4])}{more}")
    model.load_state_dict(dict(tensors))


def write(folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """A checkpoint in ``folder``, in place of those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    before = _complete(folder)
    taken = [serial for _, (at, serial) in before if at == step]
    place = folder / (f"step-{step:08d}" + (f"-{max(taken) + 1}" if taken else ""))
    unfinished = place.with_name(place.name + _WRITING)
    try:
        unfinished.mkdir()
        write_weights(unfinished / WEIGHTS, tensors, {"step": step})
        # Through memory: PyTorch's own writer hides why it could not write.
        buffer = io.BytesIO()
        torch.save({"format": FORMAT, **state}, buffer)
        write_file(unfinished / STATE, buffer.getvalue())
        os.rename(unfinished, place)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    _settle(folder)
    for old, _ in before:
        shutil.rmtree(old)
    return place


def last(folder: Path) -> Path | None:
    """The newest complete checkpoint."""
    found = _complete(folder)
    return found[-1][0] if found else None


def tidy(folder: Path) -> None:
    """Remove what a killed process left: things half written, and all checkpoints but the newest."""
    for old, _ in _complete(folder)[:-1]:
        shutil.rmtree(old)
    for unfinished in folder.glob(f"*{_WRITING}"):
        shutil.rmtree(unfinished) if unfinished.is_dir() else unfinished.unlink()


def _complete(folder: Path) -> list[tuple[Path, tuple[int, int]]]:
    """The checkpoints in a folder with (step, serial), oldest first."""
    matches = [(place, _NAME.fullmatch(place.name)) for place in folder.glob("step-*")]
    found = [(place, (int(match[1]), int(match[2] or 1))) for place, match in matches if match]
    return sorted(found, key=lambda item: item[1])


def read(place: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the state of a checkpoint."""
    path = place / STATE
    if not path.is_file():
        raise FileNotFoundError(f"the checkpoint {place} has no {STATE}")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        version = state.pop("format")
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged, or was not written by regard ({_first_line(error)})") from error
    _check_format(path, version)
    return read_weights(place / WEIGHTS)[0], state


def _check_format(path: Path, version: Any) -> None:
    if version != FORMAT:
        raise ValueError(f"{path} has format {version}, this version of regard reads format {FORMAT}")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
