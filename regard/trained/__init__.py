"""A system that was trained, with its task: ready to answer, and to show where it looked. One kind of answer, one file.

    model = Trained.open("translate-en-es")      # a model that ships with the package, or the folder of a run
    for (best,) in model.predict(["I love coffee."]):
        best.text, best.weights, best.source_words, best.words

A task's ``kind`` names the file: ``text`` for sentences in and out, and so on. There the kind's class says in Python
what the command line does with it: ``evaluate``, ``answer`` (for ``regard predict``) and ``show``. The keyword
parameters of the last two are the options that the command line takes for this kind.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from regard import registry
from regard._lazy import load, nearest
from regard.training import Run, load_weights, rng


class Trained:
    """A system and its task, ready to answer."""

    def __init__(self, model: Any, task: Any, recipe: registry.Recipe, name: str = ""):
        self.model, self.task, self.recipe, self.name = model.eval(), task, recipe, name
        self.signatures: dict[str, str] = {}
        """How the metrics of the last :meth:`evaluate` were computed, where there is a standard way to say it."""

    @staticmethod
    def open(where: str | Path, *others: str | Path, which: str | None = None, data: str | None = None) -> Any:
        """From the folder of a run or the name of a shipped model; with ``others``, several that decide together.

        Args:
            which: ``average``, ``best`` or ``last`` weights; by default the first of these that the run has.
            data: where the task's data lies now, if it is needed and has moved.
        """
        found = _load(where, which, data)
        return found.join([_load(other, which, data) for other in others]) if others else found

    def join(self, others: Sequence[Trained]) -> Self:
        """This and others as one that decides with them."""
        raise ValueError(f"{self.name}: systems of this kind ({self.task.kind}) cannot vote together")

    def to(self, device: str | torch.device) -> Self:
        """The same on another device."""
        self.model.to(device)
        return self

    def int8(self) -> Self:
        """The same with 8-bit integers in its linear layers: smaller, on many CPUs faster, a little less exact."""
        import warnings

        from torch.ao.quantization import quantize_dynamic

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that torchao will replace it
            self.model = quantize_dynamic(self.model, {torch.nn.Linear}, dtype=torch.qint8)
        return self

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return next(self.model.parameters()).device

    def moved(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """A batch on the device of the weights."""
        return {name: value.to(self.device) if hasattr(value, "to") else value for name, value in batch.items()}

    @torch.inference_mode()
    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """Metrics of a split (or of its first ``limit`` batches): means of what the system itself measures.
        One that draws at random draws the same each time."""
        loader = self.task.loader(split)
        sums: dict[str, float] = {}
        with rng.apart(0, self.device):
            for batch in track(itertools.islice(loader, limit), limit or len(loader)):
                out: dict[str, Tensor] = self.model(self.moved(batch))
                count = float(out["count"])
                for name, value in out.items():
                    sums[name] = sums.get(name, 0.0) + (count if name == "count" else float(value) * count)
        total = sums.pop("count")
        return {name: value / max(total, 1.0) for name, value in sums.items() if name != "loss"}

    def answer(self, *file: Any, **options: Any) -> Iterator[str]:
        """What ``regard predict`` prints: ``answer(file: Path | None, *, …)``, None for standard input."""
        raise ValueError(f"{self.name}: there is nothing to predict; see regard show")

    def show(self, *what: Any, **options: Any) -> Iterator[str]:
        """What ``regard show`` prints: ``show(what: Sequence[str], out: Path | None, *, …)``, a picture to ``out``."""
        raise ValueError(f"{self.name}: there is no picture of this kind of system yet")


def draw(out: Path, title: str, figure: Callable[[], Any], *views: Callable[[], Any]) -> str:
    """Write the views as a page (.html), or else the figure as a picture, and say where."""
    if out.suffix.lower() in (".html", ".htm"):
        from regard.views import page

        page.write(out, [view() for view in views], title=title)
    else:
        from regard.views._shared import FORMATS, save

        if out.suffix.lower().removeprefix(".") not in FORMATS:
            raise ValueError(f"{out}: a picture is a .png, .svg or .pdf, a page an .html")
        save(figure(), out)
    return str(out)


def lines(file: Path | None, hint: str) -> Iterator[str]:
    """The lines of a file or of standard input; someone at a terminal is told what to type."""
    if file is None and sys.stdin.isatty():
        print(hint, file=sys.stderr)
    with file.open(encoding="utf-8") if file else sys.stdin as source:
        try:
            for line in source:
                yield line.rstrip("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{file or 'standard input'}: not text in UTF-8 ({error})") from None


def track(items: Iterable[Any], total: int | None) -> Iterable[Any]:
    """A bar on stderr while a terminal looks on."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track as bar

    return bar(items, total=total, console=Console(stderr=True), transient=True)


def _load(where: str | Path, which: str | None, data: str | None) -> Trained:
    folder = Path(where)
    if not folder.exists() and str(where) in registry.shipped():
        folder = registry.PRETRAINED / str(where)
    if not folder.is_dir():
        known = nearest(str(where), registry.shipped())
        raise ValueError(f"{where}: neither the folder of a run nor a shipped model; {known}")
    run = Run.open(folder)
    recipe = registry.Recipe.read(run.folder / "recipe.toml")
    if chosen := run.facts().get("alignment"):  # which of many heads says where a word came from; see Text.choose_head
        recipe = recipe.change(f"system.alignment_{part}={chosen[part]}" for part in ("layer", "head"))
    task = registry.task(recipe.sections["task"]["name"]).load(run.task, data)
    model = registry.system(recipe.sections["system"]["name"])(recipe.build("system", **task.sizes))
    load_weights(model, run.weights(which))
    return kind_of(task.kind)(model, task, recipe, str(where))


def kind_of(kind: str) -> Any:
    """The class of a kind of answer."""
    return load("regard.trained", kind)
