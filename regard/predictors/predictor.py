"""What every predictor shares: a trained system with its task, questions, answers and pictures."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from regard import registry, runs
from regard._lazy import load
from regard.predictors._questions import CHUNK as CHUNK
from regard.predictors._questions import lines as lines
from regard.training import rng
from regard.views.picture import Picture, write


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to one question.

    Attributes:
        text: the answer in one line, or a document.
        notes: remarks on it, in sentences.
        next: questions that follow from it: what a button says, and the fields of the question that change.
        pictures: where the system looked.
        fields: what else a program may want to read, as JSON holds it.
        document: the suffix of a file that the text is by itself; empty for a line.
    """

    text: str
    notes: Sequence[str] = ()
    next: Sequence[tuple[str, Mapping[str, Any]]] = ()
    pictures: Sequence[Picture] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    document: str = ""


def one_by_one(answer: Callable[[Any], Answer], questions: Sequence[Any]) -> list[Answer | ValueError]:
    """What ``answer`` gives for each question, or what is wrong with it."""
    answers: list[Answer | ValueError] = []
    for question in questions:
        try:
            answers.append(answer(question))
        except ValueError as error:
            answers.append(error)
    return answers


class Predictor:
    """A system and its task, ready to answer."""

    def __init__(self, model: Any, task: Any, recipe: registry.Recipe, name: str = ""):
        self.model, self.task, self.recipe, self.name = model.eval(), task, recipe, name
        self.signatures: dict[str, str] = {}
        """How the metrics of the last :meth:`evaluate` were computed, where there is a standard way to say it."""

    def __repr__(self) -> str:
        sections = self.recipe.sections
        size = sum(parameter.numel() for parameter in self.model.parameters())
        description = f"{sections['system']['name']} on {sections['task']['name']}, {size:,} parameters"
        return f"{type(self).__name__}({self.name!r}: {description}, {self.device})"

    @staticmethod
    def open(
        where: str | Path,
        *others: str | Path,
        which: str | None = None,
        data: str | None = None,
        trust: bool = False,
    ) -> Any:
        """From the folder of a run or the name of a shipped model; with ``others``, several that decide together.

        Args:
            which: ``average``, ``best`` or ``last`` weights; by default the first of these that the run has.
            data: where the task's data lies now, if it is needed and has moved.
            trust: lift the limits on what the files of a run may ask for.
        """
        return runs.load(where, *others, which=which, data=data, trust=trust)

    def join(self, others: Sequence[Predictor]) -> Self:
        """This and others as one that decides with them."""
        raise ValueError(f"{self.name}: systems of this kind ({self.task.kind}) cannot vote together")

    def rescored(self, other: Predictor, weight: float | None = None) -> Self:
        """The same system, the hypotheses of whose beam the ``other`` ranks again; see :meth:`Writer.rescored`."""
        raise ValueError(f"{self.name}: systems of this kind ({self.task.kind}) find no hypotheses to rank again")

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
        return self.means(split, limit=limit)

    @torch.inference_mode()
    def means(
        self, split: str, *, limit: int | None = None, change: Callable[[Any], Any] = lambda batch: batch
    ) -> dict[str, float]:
        """Means of what the system measures, over the batches of a split after a ``change``, or over the first
        ``limit``."""
        loader = self.task.loader(split)
        sums: dict[str, float] = {}
        with rng.apart(0, self.device):
            for batch in track(itertools.islice(loader, limit), limit or len(loader)):
                out: dict[str, Tensor] = self.model(self.moved(change(batch)))
                count = float(out["count"])
                for name, value in out.items():
                    sums[name] = sums.get(name, 0.0) + (count if name == "count" else float(value) * count)
        total = sums.pop("count")
        return {name: value / max(total, 1.0) for name, value in sums.items() if name != "loss"}

    # What one may ask. The server and the explorer know nothing more of a kind.

    title: str = ""
    """What one can do with it, in a few words."""
    Question: Any = None
    """What one may ask; see :func:`regard.questions.form`."""
    compared: bool = False
    """Is it shown beside another model of its kind?"""

    def examples(self) -> Sequence[Any]:
        """A few questions to start from."""
        return []

    def data(self) -> str:
        """What it was trained on, in a few words."""
        return self.recipe.sections["task"]["name"].replace("_", " ")

    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """An answer to each question, in their order; an error says what is wrong with a question."""
        return one_by_one(self.one, questions)

    def one(self, question: Any) -> Answer:
        """The answer to one question; a ValueError says what is wrong with it."""
        raise NotImplementedError

    # The command line. Keyword parameters are the options of a kind.

    def answer(self, *file: Any, **options: Any) -> Iterator[str]:
        """What ``regard predict`` prints: ``answer(file: Path | None, *, …)``, None for standard input."""
        raise ValueError(f"{self.name}: there is nothing to predict; see regard show")

    def look(self, *what: Any, **options: Any) -> Iterator[tuple[str, Picture | None]]:
        """What ``regard show`` shows, ``look(what: Sequence[str], *, …)``: a heading, if not empty, and a picture."""
        raise ValueError(f"{self.name}: there is no picture of this kind of system yet")

    def show(self, what: Sequence[str] = (), out: Path | None = None, **options: Any) -> Iterator[str]:
        """What ``regard show`` prints; with ``out`` the pictures are written there."""
        pictures: list[Picture] = []
        for heading, picture in self.look(what, **options):
            if heading or pictures:
                yield heading
            if picture is not None:
                pictures.append(picture)
                if text := picture.terminal():
                    yield text
        if out is not None and not pictures:
            raise ValueError(f"{out}: not written, there is nothing to draw of what was answered")
        if out is not None:
            yield from write(out, pictures, title=self.name)


def track(items: Iterable[Any], total: int | None) -> Iterable[Any]:
    """A bar on stderr while a terminal looks on."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track as bar

    return bar(items, total=total, console=Console(stderr=True), transient=True)


def kind_of(kind: str) -> Any:
    """The class of a kind of answer."""
    return load("regard.predictors", kind)


def percent(share: float) -> str:
    """0.973 → ``97 %``."""
    return f"{100 * share:.0f} %"
