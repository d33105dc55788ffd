"""A run is a folder that holds everything: what was trained, on what, how it went, and the weights.

    run.json                     the format's version, how the run ended, and what was found out about it since
    recipe.toml                  the recipe with every choice resolved
    task/                        what the task needs later without its data
    metrics.jsonl, tensorboard/  how it went
    models/best.safetensors      the best at a validation; models/step-*.safetensors those of the last validations
    models/average.safetensors   the mean of those
    checkpoints/step-*/          the newest state, to go on from, and the one before

Of several processes only the first writes in it.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import Tensor

import regard
from regard import _settings
from regard._lazy import nearest
from regard.training import checkpoint, untrusted
from regard.training.team import is_main

FORMAT = 1
_MODEL = re.compile(r"step-(\d+)\.safetensors")
_FACTS: dict[str, Any] = {
    **{"regard": str | None, "created": str | None, "packed": str | None},
    **{"summary": dict | None, "history": list[dict] | None, "alignment": dict | None},
}
"""What ``run.json`` may say beside its format, and of which types."""


class Run:
    """The folder of a run; :meth:`create` makes one, :meth:`open` finds one."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.task = self.folder / "task"
        self.metrics = self.folder / "metrics.jsonl"
        self.tensorboard = self.folder / "tensorboard"
        self.models = self.folder / "models"
        self.checkpoints = self.folder / "checkpoints"
        self.summary: Any = None
        """How the last session in this process ended; see :class:`regard.training.Summary`."""

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @classmethod
    def create(cls, folder: str | Path, recipe: str = "", save: Callable[[Path], None] | None = None) -> Run:
        """A new run in a folder that is new, empty, or holds no more than the beginning of one that was killed.

        ``save`` writes the files of the task. Of several processes only the first writes.
        """
        run = cls(folder)
        if not is_main():
            return run
        cls.check_free(folder)
        for part in (run.task, run.models, run.checkpoints):
            part.mkdir(parents=True, exist_ok=True)
        checkpoint.write_file(run.folder / "recipe.toml", recipe)
        if save is not None:
            save(run.task)
        # Last: a folder that has it is a run.
        run._write({"created": datetime.now(UTC).isoformat(timespec="seconds")})
        return run

    @classmethod
    def check_free(cls, folder: str | Path) -> None:
        """May a new run be made there? An error says why not."""
        run = cls(folder)
        if run.folder.exists() and not run.folder.is_dir():
            raise FileExistsError(f"{run.folder} is a file; a run needs a folder")
        if (run.folder / "run.json").exists():
            raise FileExistsError(f"{run.folder} already holds a run; resume it, or choose another folder")
        if not run.folder.exists():
            return
        ours = {"recipe.toml", *(part.name for part in (run.task, run.models, run.checkpoints))}
        names = {path.name for path in run.folder.iterdir() if not path.name.startswith(".")}
        trained = any(any(part.iterdir()) for part in (run.models, run.checkpoints) if part.is_dir())
        if names - ours or trained:
            raise FileExistsError(f"{run.folder} is not empty and is not a run; choose another folder")

    @classmethod
    def open(cls, folder: str | Path, *, trust: bool = True) -> Run:
        """A run that exists, of the version that this code reads; see :func:`regard.training.untrusted.check_files` for
        what is refused without ``trust``."""
        run = cls(folder)
        run.facts()
        if not trust:
            untrusted.check_files(run.folder)
        return run

    def facts(self) -> dict[str, Any]:
        """What ``run.json`` says."""
        path = self.folder / "run.json"
        if not path.is_file():
            reason = "there is no run.json in it" if self.folder.is_dir() else "there is no such folder"
            if not self.folder.exists() and (Path(__file__).parents[1] / "pretrained" / self.folder).is_dir():
                reason = "it is a model that comes with regard"
            raise FileNotFoundError(f"{self.folder} is not a run: {reason}")
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            version = facts["format"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{path} is damaged, or was not written by regard") from error
        if version != FORMAT:
            raise ValueError(
                f"{self.folder} has format {version}, written by regard {facts.get('regard', '?')}; "
                f"this is regard {regard.__version__}, which reads format {FORMAT}"
            )
        for name, kind in _FACTS.items():
            if not _settings.fits(facts.get(name), kind):
                raise ValueError(f"{path}: {name} is {_settings.describe(kind)}, not {_shown(facts[name])}")
        return facts

    def note(self, **facts: Any) -> None:
        """Add to what ``run.json`` says."""
        self._write(self.facts() | facts)

    def change(self, recipe: str, what: Mapping[str, Any]) -> None:
        """Go on with another recipe; ``run.json`` tells the history."""
        checkpoint.write_file(self.folder / "recipe.toml", recipe)
        last = self.last()
        step = int(last.name.split("-")[1]) if last else 0
        self.note(history=[*self.facts().get("history", []), {"step": step, **what}])

    def _write(self, facts: Mapping[str, Any]) -> None:
        content = {"format": FORMAT, "regard": regard.__version__, **facts}
        checkpoint.write_file(self.folder / "run.json", json.dumps(content, indent=2) + "\n")

    def recipe(self) -> dict[str, Any]:
        """The recipe, parsed."""
        path = self.folder / "recipe.toml"
        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FileNotFoundError(f"the run {self.folder} has lost its recipe.toml") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def weights(self, which: str | None = None) -> Path:
        """The file of the weights ``average``, ``best`` or ``last``; unnamed, the first of these that exists."""
        if which is not None and which not in (choices := ("average", "best", "last")):
            raise ValueError(f"unknown weights {which!r}: {nearest(which, choices)}")
        for name, place in self.all_weights().items():
            if name == (which or name):
                return place
        raise FileNotFoundError(f"the run {self.folder} has no {which or 'trained'} weights yet")

    def all_weights(self) -> dict[str, Path]:
        """The files of weights that exist, of ``average``, ``best`` and ``last``."""
        places = {name: self.models / f"{name}.safetensors" for name in ("average", "best")}
        if last := checkpoint.last(self.checkpoints):
            places["last"] = last / checkpoint.WEIGHTS
        return {name: place for name, place in places.items() if place.is_file()}

    def kept(self) -> list[tuple[int, Path]]:
        """The models of the last validations with their steps, oldest first."""
        matches = [(path, _MODEL.fullmatch(path.name)) for path in self.models.glob("step-*.safetensors")]
        return sorted((int(match[1]), path) for path, match in matches if match)

    def write_model(self, name: str, tensors: Mapping[str, Tensor], facts: Mapping[str, Any] | None = None) -> Path:
        """Put weights into ``models/NAME.safetensors``."""
        self.models.mkdir(parents=True, exist_ok=True)
        path = self.models / f"{name}.safetensors"
        checkpoint.write_weights(path, tensors, facts)
        return path

    def last(self) -> Path | None:
        """The checkpoint to go on from."""
        return checkpoint.last(self.checkpoints)

    def pack(self, folder: str | Path, which: str | None = None, *, half: bool = True) -> Run:
        """A copy to give away: the recipe, the task and one set of weights, in float16 if ``half``.

        It predicts without the data, and cannot be trained further. Where the data lay is not told.
        """
        source, facts = self.weights(which), self.facts()
        tensors, header = checkpoint.read_weights(source)
        # Tensors that are one and the same must stay so.
        cast = {id(each): each.half() if half and each.is_floating_point() else each for each in tensors.values()}

        def save(task: Path) -> None:
            for path in sorted(self.task.iterdir()):
                content = path.read_bytes()
                if path.name == "task.json":
                    remaining = {key: value for key, value in json.loads(content).items() if key != "data"}
                    content = (json.dumps(remaining, indent=1, ensure_ascii=False) + "\n").encode()
                checkpoint.write_file(task / path.name, content)

        pack = Run.create(folder, (self.folder / "recipe.toml").read_text(encoding="utf-8"), save)
        pack.write_model("best", {name: cast[id(tensor)] for name, tensor in tensors.items()}, header)
        pack.checkpoints.rmdir()
        pack.note(
            **{key: facts[key] for key in ("created", "summary", "alignment") if key in facts}, packed=source.stem
        )
        return pack

    @contextmanager
    def training(self) -> Iterator[None]:
        """Only one process trains in a folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "wb") as handle:
            _lock(handle.fileno(), self.folder)
            yield

    def tidy(self) -> None:
        """Remove what a killed process left half written, and old checkpoints."""
        for folder in (self.folder, self.models, self.checkpoints):
            checkpoint.tidy(folder)


def _shown(value: Any) -> str:
    return textwrap.shorten(repr(value), 80, placeholder=" …")


def _lock(handle: int, folder: Path) -> None:
    """The system lets go of the lock when the process ends, however it ends."""
    if os.name != "posix":
        return
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"another process is training in {folder}") from None
    except OSError:
        pass  # some network file systems have no locks
