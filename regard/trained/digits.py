"""Pictures in, classes out, and where the system looked.

What ``show`` draws is the system's to say: its ``view`` names a file of :mod:`regard.views`, and ``PICTURES`` below
says how that is fed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.tasks._digit_files import SUFFIXES
from regard.trained import Trained, draw, lines
from regard.training import rng

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.views.page import View

Batch = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Prediction:
    """The answer to one picture.

    Attributes:
        name: the number of the picture in its split, or its file.
        label: the likeliest class.
        probabilities: (classes,).
        truth: the right class, where it is known.
    """

    name: str
    label: str
    probabilities: Tensor
    truth: str | None = None

    @property
    def probability(self) -> float:
        """Of the likeliest class."""
        return float(self.probabilities.max())

    def told(self) -> str:
        """The answer in words."""
        if self.truth is None:
            return f"{self.label}, {100 * self.probability:.0f} %"
        return f"{self.label}, right" if self.label == self.truth else f"{self.label}, but it is {self.truth}"


@dataclass(frozen=True)
class Picture:
    """What can be drawn of a batch: each image as text, all as a figure, each for a page, and as an animation where
    there is one."""

    text: Callable[[int], str]
    figure: Callable[[], Figure]
    view: Callable[[int], View]
    frames: Callable[[], list[Figure]] | None = None


class Digits(Trained):
    """A system that looks at pictures and says what they are; or draws them, as DRAW does."""

    missing = ""
    """What to say of pictures that are not at hand."""

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """Of a split, or of its first ``limit`` batches: ``error`` in percent, and what else the system measures of its
        answers; how many parameters it has and, if it can tell, multiplications for one image."""
        found = super().evaluate(split, limit=limit)
        for name in ("baseline", "reinforce"):  # of the training, not of the answers
            found.pop(name, None)
        found = {name: 100 * value if name == "error" else value for name, value in found.items()}
        found["parameters"] = float(sum(each.numel() for each in self.model.parameters()))
        if hasattr(self.model, "multiplications"):
            found["multiplications"] = float(self.model.multiplications())
        return found

    @torch.inference_mode()
    def predict(self, what: Sequence[str | int | Path], *, split: str = "test") -> list[Prediction]:
        """The classes of pictures, each given as its number in a split or as a file."""
        if not what:
            return []
        batch, names, truths = self._batch([str(each) for each in what], split)
        return self._answers(batch, names, truths)

    def _answers(self, batch: Batch, names: Sequence[str], truths: Sequence[str | None]) -> list[Prediction]:
        probabilities = self.model.predict(batch).float().cpu()
        classes = self.task.classes
        if probabilities.shape != (len(names), len(classes)):
            raise ValueError(f"{self.name}: this system names no classes; regard show draws what it does")
        chosen = probabilities.argmax(-1).tolist()
        return [Prediction(n, classes[c], p, t) for n, c, p, t in zip(names, chosen, probabilities, truths)]

    def answer(self, file: Path | None, *, as_json: bool = False) -> Iterator[str]:
        """Picture, class and probability, a line each. FILE is a picture, a folder of them, the number of a test
        picture, or a file with a picture or number a line."""
        for found in self.predict(list(self._asked(file))):
            if as_json:
                rounded = {name: round(float(p), 4) for name, p in zip(self.task.classes, found.probabilities)}
                known = {} if found.truth is None else {"truth": found.truth}
                yield json.dumps({"picture": found.name, "class": found.label, **known, "probabilities": rounded})
            else:
                yield f"{found.name}\t{found.label}\t{found.probability:.3f}"

    @torch.inference_mode()
    def show(
        self, what: Sequence[str], out: Path | None, *, split: str = "test", imagine: int = 0, seed: int = 0
    ) -> Iterator[str]:
        """Where it looked in pictures, given as files or numbers in a split; the first four if none are. With
        ``imagine``, so many that nobody has shown it are drawn instead."""
        if imagine:
            yield from self._show_imagined(what, out, imagine, seed)
            return
        kind = getattr(self.model, "view", None)
        if kind not in PICTURES:
            raise ValueError(
                f"{self.name}: this system looks at the whole picture at once, so there is nothing to show"
            )
        batch, names, truths = self._batch(list(what), split)
        if "label" not in batch:
            batch["label"] = torch.zeros(len(names), dtype=torch.long, device=self.device)
        if self.missing:
            yield self.missing
        with rng.apart(seed, self.device):
            try:
                told = [answer.told() for answer in self._answers(batch, names, truths)]
            except ValueError:  # it draws
                told = ["" if truth is None else f"a {truth}" for truth in truths]
            picture = PICTURES[kind](self, batch, told)
        for row, (name, text) in enumerate(zip(names, told)):
            yield f"{name}: {text}" if text else name
            yield picture.text(row)
        if out is not None:
            yield self._write(picture, len(names), out)

    def _show_imagined(self, what: Sequence[str], out: Path | None, count: int, seed: int) -> Iterator[str]:
        if what:
            raise ValueError(f"either pictures are shown or imagined, but {' '.join(what)} came with --imagine")
        if not hasattr(self.model, "imagine"):
            raise ValueError(f"{self.name} is a {type(self.model).__name__}, which draws nothing")
        generator = torch.Generator(self.device).manual_seed(seed)
        made = self.model.imagine(count, generator=generator)
        picture = _drawn(made, None, [f"imagined, seed {seed}" if count == 1 else f"{n + 1}" for n in range(count)])
        for row in range(count):
            yield picture.text(row)
        if out is not None:
            yield self._write(picture, count, out)

    def _write(self, picture: Picture, count: int, out: Path) -> str:
        if out.suffix.lower() != ".gif":
            return draw(out, self.name, picture.figure, *(partial(picture.view, row) for row in range(count)))
        from regard.views._pixels import save_animation

        if picture.frames is None:
            raise ValueError(f"{out}: there is no animation of this system; write a .png, .svg, .pdf or .html")
        save_animation(picture.frames(), out)
        return str(out)

    def _asked(self, file: Path | None) -> Iterator[str]:
        if file is not None and file.is_dir():
            found = [path for path in sorted(file.iterdir()) if path.suffix.lower() in SUFFIXES]
            if not found:
                raise ValueError(f"{file}: no picture is in this folder")
            yield from map(str, found)
        elif file is not None and (file.suffix.lower() in SUFFIXES or (str(file).isdecimal() and not file.exists())):
            yield str(file)
        else:
            hint = "Type the number of a test picture or the name of a file, and press Enter; Ctrl-D ends."
            yield from (line.strip() for line in lines(file, hint) if line.strip())

    def _batch(self, what: Sequence[str], split: str) -> tuple[Batch, list[str], list[str | None]]:
        """Pictures by number or file, on the device of the weights, their names, and what they are if that is known."""
        task = self.at_hand() if not what or any(each.isdecimal() for each in what) else self.task
        what = list(what) or ["0", "1", "2", "3"]
        images: list[Tensor] = []
        truths: list[str | None] = []
        labels: list[int] = []
        for each in what:
            if not each.isdecimal():
                images.append(self.task.prepare(Path(each)))
                truths.append(None)
                continue
            size = len(task.pictures.get(split, ()))
            if int(each) >= size:
                raise ValueError(f"there is no picture {each} in {split}: they are 0 to {size - 1}")
            one = task.make(split, np.array([int(each)]))
            images.append(one["image"][0])
            labels.append(int(one["label"]))
            truths.append(self.task.classes[labels[-1]])
        batch = {"image": torch.stack(images)}
        if len(labels) == len(images):
            batch["label"] = torch.tensor(labels)
        return self.moved(batch), what, truths

    def at_hand(self) -> Any:
        """The task with its pictures or, where they are not here, with drawn ones of the same kind."""
        try:
            assert self.task.pictures
            return self.task
        except ValueError as error:
            config = self.task.config
            if config.kind == "folder" or self.task.data is not None:
                raise
            self.missing = f"({str(error).partition('. ')[0]}: these digits are drawn)"
            kind = "cluttered" if config.kind == "npz" else config.kind
            size = self.task.sizes["height"]
            return type(self.task)(dataclasses.replace(config, kind=kind, data="drawn", size=size, drawn=1000))


# ---------------------------------------------------------------------------------------------------------------------
# How the views are fed


def _glimpses(trained: Digits, batch: Batch, told: Sequence[str]) -> Picture:
    from regard.views import glimpses

    seen, classes = trained.model.seen(batch), trained.task.classes
    each = {name: seen[name] for name in ("image", "location", "patch", "probability")}

    def text(row: int) -> str:
        return glimpses.terminal(**{name: tensor[row] for name, tensor in each.items()}, classes=classes)

    def frames() -> list[Figure]:
        if len(told) > 1:
            raise ValueError(f"an animation shows one picture at a time, not {len(told)}: say which")
        first = {name: tensor[0] for name, tensor in each.items()}
        return glimpses.frames(**first, sides=seen["sides"], classes=classes, title=told[0])

    def view(row: int) -> View:
        one = {name: tensor[row] for name, tensor in each.items()}
        return glimpses.view(**one, sides=seen["sides"], classes=classes, title=told[row])

    def figure() -> Figure:
        return glimpses.figure(**each, sides=seen["sides"], classes=classes, labels=told)

    return Picture(text, figure, view, frames)


def _rectified(trained: Digits, batch: Batch, told: Sequence[str]) -> Picture:
    from regard.views import rectified

    sight, image = trained.model.sight(batch), batch["image"]

    def text(row: int) -> str:
        rows = slice(row, row + 1)
        return rectified.terminal(image[rows], sight.grids[rows], sight.crops[rows])

    def view(row: int) -> View:
        return rectified.view(image[row], sight.grids[row], sight.crops[row], title=told[row])

    return Picture(text, lambda: rectified.figure(image, sight.grids, sight.crops, labels=told), view)


def _canvas(trained: Digits, batch: Batch, told: Sequence[str]) -> Picture:
    return _drawn(trained.model.trace(batch), batch["image"], told)


def _drawn(made: Any, image: Tensor | None, told: Sequence[str]) -> Picture:
    """What DRAW made, or read; ``image`` is None where it drew from nothing."""
    from regard.views import canvas
    from regard.views._pixels import shaded

    parts = {name: getattr(made, name) for name in ("canvas", "read", "write", "patch")}

    def view(row: int) -> View:
        one = {name: None if tensor is None else tensor[row] for name, tensor in (parts | {"image": image}).items()}
        return canvas.view(**one, title=told[row])

    if made.canvas is None:  # it classifies
        assert image is not None

        def look(row: int) -> str:
            return "\n".join(shaded(image[row].mean(0).cpu().numpy()))

        return Picture(look, lambda: canvas.reading(image, made.read, made.patch, labels=told), view)

    def text(row: int) -> str:
        return canvas.terminal(made.canvas[row : row + 1], images=None if image is None else image[row : row + 1])

    boxes = made.read, made.write
    return Picture(
        text,
        lambda: canvas.figure(made.canvas, *boxes, images=image, labels=told),
        view,
        lambda: canvas.frames(made.canvas, *boxes, images=image),
    )


PICTURES: dict[str, Callable[[Digits, Batch, Sequence[str]], Picture]] = {
    "glimpses": _glimpses,
    "rectified": _rectified,
    "canvas": _canvas,
}
"""A system's ``view`` → how a batch of it is drawn; the strings are what to write at each picture."""
