"""Pictures in, classes out, and where the system looked.

What ``show`` draws is the system's to say: its ``view`` names a file of :mod:`regard.views`, and ``PICTURES`` below
says how that is fed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import registry
from regard.data.canvases import STROKES
from regard.data.images import SUFFIXES
from regard.predictors import _questions
from regard.predictors.predictor import Answer, Predictor, lines, percent
from regard.questions import SEED, Input, Number, Strokes, form
from regard.training import rng
from regard.views import canvas, glimpses, rectified
from regard.views.picture import Picture

Batch = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Prediction:
    """The answer to one picture.

    Attributes:
        name: the number of the picture in its split, or its file.
        label: the likeliest class, or what was read, class after class.
        probabilities: (classes,), or (S, classes) of all that was read.
        truth: the right class, where it is known.
    """

    name: str
    label: str
    probabilities: Tensor
    truth: str | None = None

    @property
    def probability(self) -> float:
        """Of the likeliest class, or of all that was read together."""
        return float(self.probabilities.max(-1).values.prod())

    def told(self) -> str:
        """The answer in words."""
        if self.truth is None:
            return f"{self.label}, {100 * self.probability:.0f} %"
        return f"{self.label}, right" if self.label == self.truth else f"{self.label}, but it is {self.truth}"


class Digits(Predictor):
    """A system that looks at pictures and says what they are; or draws them, as DRAW does."""

    missing = ""
    """What to say of pictures that are not at hand."""

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """Of a split, or of its first ``limit`` batches: ``error`` in percent, and what else the system measures of its
        answers; how many parameters it has and, if it can tell, multiplications for one image."""
        metrics = super().evaluate(split, limit=limit)
        for name in ("baseline", "reinforce"):  # of the training, not of the answers
            metrics.pop(name, None)
        metrics = {name: 100 * value if name.startswith("error") else value for name, value in metrics.items()}
        metrics["parameters"] = float(sum(parameter.numel() for parameter in self.model.parameters()))
        if hasattr(self.model, "multiplications"):
            metrics["multiplications"] = float(self.model.multiplications())
        return metrics

    @torch.inference_mode()
    def predict(self, what: Sequence[str | int | Path], *, split: str = "test") -> list[Prediction]:
        """The classes of pictures, which are named by number in a split or by file."""
        if not what:
            return []
        batch, names, truths = self._batch([str(name) for name in what], split)
        return self._answers(batch, names, truths)

    def _answers(self, batch: Batch, names: Sequence[str], truths: Sequence[str | None]) -> list[Prediction]:
        output = self.model.predict(batch)
        if isinstance(output, Mapping):
            return self._read(output, names, truths)
        probabilities = output.float().cpu()
        classes = self.task.classes
        if probabilities.shape != (len(names), len(classes)):
            raise ValueError(f"{self.name}: this system names no classes; regard show draws what it does")
        numbers = probabilities.argmax(-1).tolist()
        return [Prediction(n, classes[c], p, t) for n, c, p, t in zip(names, numbers, probabilities, truths)]

    def _read(
        self, output: Mapping[str, Tensor], names: Sequence[str], truths: Sequence[str | None]
    ) -> list[Prediction]:
        """Answers of several classes each: ``chosen`` (B, S), −1 after the last, and ``probabilities`` (B, S, classes)
        of these and of the end, where there is one."""
        predictions = []
        for name, truth, numbers, class_probabilities in zip(
            names, truths, output["chosen"].tolist(), output["probabilities"]
        ):
            length = sum(number >= 0 for number in numbers)
            probabilities = class_probabilities[: length + 1].float().cpu()
            predictions.append(Prediction(name, self.task.spelled(numbers), probabilities, truth))
        return predictions

    def answer(self, file: Path | None, *, as_json: bool = False) -> Iterator[str]:
        """Picture, class and probability, a line each. FILE is a picture, a folder of them, the number of a test
        picture, or a file with a picture or number a line."""
        for name, prediction, message in _questions.answer_all(
            self._names(file), self._predict_or_errors, str, _questions.is_interactive(file)
        ):
            if prediction is None:
                if as_json:
                    yield json.dumps({"picture": name, "error": message})
            elif as_json:
                rounded = self._rounded(prediction.probabilities)
                truth = {} if prediction.truth is None else {"truth": prediction.truth}
                yield json.dumps(
                    {"picture": prediction.name, "class": prediction.label, **truth, "probabilities": rounded}
                )
            else:
                yield f"{prediction.name}\t{prediction.label}\t{prediction.probability:.3f}"

    def _predict_or_errors(self, what: Sequence[str]) -> list[Prediction | ValueError]:
        """The class of each picture, or its error."""
        try:
            return [*self.predict(what)]
        except ValueError as error:
            half = len(what) // 2
            return [*self._predict_or_errors(what[:half]), *self._predict_or_errors(what[half:])] if half else [error]

    def _rounded(self, shares: Tensor) -> Any:
        """Probabilities by class, for JSON; a list of them where several classes were read."""
        if shares.ndim > 1:
            return [self._rounded(row) for row in shares]
        return {name: round(float(share), 4) for name, share in zip(self.task.classes, shares)}

    @torch.inference_mode()
    def look(
        self, what: Sequence[str] = (), *, split: str = "test", imagine: int = 0, seed: int = 0
    ) -> Iterator[tuple[str, Picture | None]]:
        """Where it looked in pictures, given as files or numbers in a split; the first four if none are.

        Args:
            split: whose pictures the numbers count.
            imagine: sample this many new pictures instead (DRAW).
            seed: of what is sampled.
        """
        if imagine:
            yield from self._look_imagined(what, imagine, seed)
            return
        if getattr(self.model, "view", None) not in PICTURES:
            raise ValueError(
                f"{self.name}: this system looks at the whole picture at once, so there is nothing to show"
            )
        batch, names, truths = self._batch(list(what), split)
        if self.missing:
            yield self.missing, None
        with rng.apart(seed, self.device):
            try:
                titles = [answer.told() for answer in self._answers(batch, names, truths)]
            except ValueError:  # it draws
                titles = ["" if truth is None else f"a {truth}" for truth in truths]
            pictures = self._pictures(batch, titles)
        for name, text, picture in zip(names, titles, pictures):
            yield f"{name}: {text}" if text else name, picture

    def _look_imagined(self, what: Sequence[str], count: int, seed: int) -> Iterator[tuple[str, Picture | None]]:
        if what:
            raise ValueError(f"either pictures are shown or imagined, but {' '.join(what)} came with imagine={count}")
        if not hasattr(self.model, "imagine"):
            raise ValueError(f"{self.name} is a {type(self.model).__name__}, which draws nothing")
        generator = torch.Generator(self.device).manual_seed(seed)
        titles = [f"imagined, seed {seed}" if count == 1 else f"{number + 1}" for number in range(count)]
        for picture in canvas.shown(self.model.imagine(count, generator=generator), None, titles):
            yield "", picture

    def _pictures(self, batch: Batch, titles: Sequence[str]) -> list[Picture]:
        """Where it looked in each image of a batch, as the system's ``view`` draws it."""
        if "label" not in batch:
            batch["label"] = torch.zeros(len(titles), dtype=torch.long, device=self.device)
        return PICTURES[self.model.view](self, batch, titles)

    def _names(self, file: Path | None) -> Iterator[str]:
        if file is not None and file.is_dir():
            paths = [path for path in sorted(file.iterdir()) if path.suffix.lower() in SUFFIXES]
            if not paths:
                raise ValueError(f"{file}: no picture is in this folder")
            yield from map(str, paths)
        elif file is not None and (file.suffix.lower() in SUFFIXES or (str(file).isdecimal() and not file.exists())):
            yield str(file)
        else:
            hint = "Type the number of a test picture or the name of a file, and press Enter; Ctrl-D ends."
            yield from (line.strip() for line in lines(file, hint) if line.strip())

    def _batch(self, what: Sequence[str], split: str) -> tuple[Batch, list[str], list[str | None]]:
        """Pictures by number or file, on the device of the weights, their names and classes (None without a label)."""
        task = self.at_hand() if not what or any(name.isdecimal() for name in what) else self.task
        what = list(what) or ["0", "1", "2", "3"]
        images: list[Tensor] = []
        truths: list[str | None] = []
        labels: list[int] = []
        for name in what:
            if not name.isdecimal():
                images.append(self.task.prepare(Path(name)))
                truths.append(None)
                continue
            size = task.count(split)
            if int(name) >= size:
                raise ValueError(f"there is no picture {name} in {split}: they are 0 to {size - 1}")
            sample = task.make(split, np.array([int(name)]))
            images.append(sample["image"][0])
            labels += sample["label"].tolist() if "label" in sample else []
            truths.append(task.named(sample))
        batch = {"image": torch.stack(images)}
        if len(labels) == len(images):
            batch["label"] = torch.tensor(labels)
        return self.moved(batch), what, truths

    def at_hand(self) -> Any:
        """The task with its pictures or, where they are not here, with a dozen of them that are shipped or, where there
        are none, with drawn ones of the same kind."""
        try:
            assert self.task.count("test")
            return self.task
        except ValueError as error:
            config = self.task.config
            if config.kind == "folder" or self.task.data is not None:
                raise
            file = registry.PRETRAINED / "digits" / f"{config.data}.npz"
            if config.kind in ("plain", "npz") and file.is_file():
                self.missing = f"({str(error).partition('. ')[0]}: these are its first test pictures)"
                return type(self.task)(replace(config, kind="npz"), file)
            self.missing = f"({str(error).partition('. ')[0]}: these digits are drawn)"
            kind = "cluttered" if config.kind == "npz" else config.kind
            size = self.task.sizes["width"]
            drawn_config = replace(config, kind=kind, data="drawn", numbers="drawn", size=size, drawn=1000)
            return type(self.task)(drawn_config)

    # Questions

    @property
    def paints(self) -> bool:
        """Does it draw digits rather than name them?"""
        return getattr(self.model.config, "goal", "") == "generate"

    @property
    def title(self) -> str:
        """What one can watch."""
        if self.paints:
            return "Watch it draw, stroke by stroke"
        kinds = {"glimpses": "Watch where it glances", "rectified": "Watch it turn digits upright"}
        return kinds.get(getattr(self.model, "view", ""), "Name what is on a picture")

    @cached_property
    def Question(self) -> Any:
        """A digit that is drawn, else one of the test set; or what to draw."""
        kind = self.task.config.kind
        if self.paints:
            strokes = Strokes(default=[], title="To be copied", about="Empty: it imagines a digit.")
            return form("Draw", strokes=strokes, seed=replace(SEED, about="Each number gives another picture."))
        draws = kind not in ("folder", "house")
        title, about = ("Or a test digit", "Used while nothing is drawn.") if draws else ("Test picture", "")
        inputs: dict[str, Input] = {"strokes": Strokes(default=[], title="Your digit")} if draws else {}
        inputs["example"] = Number(0, 9999, default=0, title=title, about=about)
        if draws and kind != "plain":
            about = "What becomes of a digit that you draw."
            inputs["place"] = Number(0, 9999, default=0, title="Put yours elsewhere", about=about)
        return form("Look", **inputs)

    @cached_property
    def _shown_task(self) -> Any:
        return self.at_hand()

    @cached_property
    def _workshop(self) -> Any:
        """The task whose canvases a drawn digit is put on."""
        config = self._shown_task.config
        if self.task.config.kind != "npz":
            return self._shown_task
        size = self._shown_task.sizes["height"]
        return type(self.task)(replace(config, kind="cluttered", data="drawn", size=size, drawn=1000))

    def data(self) -> str:
        config = self.task.config
        origin = "generated digits" if config.data == "drawn" else f"{config.data}, {config.kind}"
        same_data = self.paints or self._shown_task.config.data == config.data
        return origin if same_data else f"{origin}; examples are generated"

    def examples(self) -> list[Any]:
        lines = [[[[round(x, 3), round(y, 3)] for x, y in line] for line in STROKES[digit]] for digit in (3, 5)]
        if self.paints:
            return [*(self.Question(seed=seed) for seed in (1, 2, 3)), self.Question(strokes=lines[0])]
        numbers = [self.Question(example=number) for number in (0, 1, 2)]
        draws = "strokes" in self.Question.inputs
        return [*numbers, *(self.Question(strokes=strokes) for strokes in lines)] if draws else numbers

    @torch.inference_mode()
    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """All pictures in one batch."""
        answers: list[Any] = [None] * len(questions)
        images, rows, truths = [], [], []
        for row, question in enumerate(questions):
            if self.paints and not question.strokes:
                answers[row] = self._imagined(question.seed)
                continue
            try:
                image, truth = self._image(question)
            except ValueError as error:
                answers[row] = error
                continue
            images.append(image)
            rows.append(row)
            truths.append(truth)
        if images:
            seeds = [getattr(questions[row], "seed", 0) for row in rows]
            for row, answer in zip(rows, self._answer_images(torch.stack(images), truths, seeds), strict=True):
                answers[row] = answer
        return answers

    def _image(self, question: Any) -> tuple[Tensor, str | None]:
        """The image (C, height, width) of a question, and its class if it has a label."""
        strokes = getattr(question, "strokes", [])
        if not strokes:
            task = self._shown_task
            size = task.count("test")
            if question.example >= size:
                raise ValueError(f"there is no test picture {question.example}: they are 0 to {size - 1}")
            sample = task.make("test", np.array([question.example]))
            return sample["image"][0], task.named(sample)
        paper, pictures = self._workshop.canvas("test"), self._workshop.pictures["test"].image
        drawing = ink(strokes, pictures.shape[-1])[None, None]
        plan = paper.plan(np.random.default_rng(getattr(question, "place", 0)), 1)
        image = paper.paint(np.concatenate([drawing, pictures[:-1]]), np.zeros(1, int), plan)
        if self.task.config.binarize:
            image = (image > 0.5).astype(np.float32)
        return torch.from_numpy(image[0]), None

    def _answer_images(self, images: Tensor, truths: Sequence[str | None], seeds: Sequence[int]) -> list[Answer]:
        batch = self.moved({"image": images})
        if self.paints:
            shape = (self.model.config.steps, self.model.config.latent)
            noise = [torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
            batch["noise"] = torch.stack(noise).to(self.device)
            answers: list[tuple[str, list[str]]] = [("Your digit, as it draws it", []) for _ in seeds]
        else:
            batch["label"] = torch.zeros(len(images), dtype=torch.long, device=self.device)
            answers = [
                self._text_and_notes(prediction) for prediction in self._answers(batch, [""] * len(images), truths)
            ]
        pictures: list[list[Picture]] = [[] for _ in answers]
        if getattr(self.model, "view", "") in PICTURES:
            pictures = [[picture] for picture in self._pictures(batch, [text for text, _ in answers])]
        return [Answer(text, notes, pictures=own) for (text, notes), own in zip(answers, pictures)]

    def _text_and_notes(self, prediction: Prediction) -> tuple[str, list[str]]:
        """What the system says of one picture, and remarks on it."""
        shares, names = prediction.probabilities, self.task.classes
        if shares.ndim > 1:
            digits = ", ".join(
                f"{digit} {percent(float(share.max()))}" for digit, share in zip(prediction.label, shares)
            )
            notes = [f"{percent(prediction.probability)} sure of all; {digits}."]
        else:
            second = int(shares.argsort(descending=True, stable=True)[1])
            note = f"{percent(prediction.probability)} sure; {names[second]} is next, {percent(float(shares[second]))}."
            notes = [note]
        if prediction.truth is not None:
            notes.append("Right." if prediction.truth == prediction.label else f"Wrong: it is {prediction.truth}.")
            notes += [self.missing] if self.missing else []
        return f"It says {prediction.label}", notes

    def _imagined(self, seed: int) -> Answer:
        canvases = self.model.imagine(1, generator=torch.Generator().manual_seed(seed))
        more = ("Another", {"seed": (seed + 1) % 10000, "strokes": []})
        return Answer("Imagined, stroke by stroke", next=[more], pictures=canvas.shown(canvases, None, [""]))


PICTURES: dict[str, Callable[[Digits, Batch, Sequence[str]], list[Picture]]] = {
    "glimpses": lambda our, batch, titles: glimpses.shown(our.model.seen(batch), our.task.classes, titles),
    "rectified": lambda our, batch, titles: _rectified(our.model.sight(batch), batch["image"], titles),
    "canvas": lambda our, batch, titles: canvas.shown(our.model.trace(batch), batch["image"], titles),
}
"""A system's ``view`` → how a batch of it is drawn; the strings are what to write at each picture."""


def _rectified(sight: Any, images: Tensor, titles: Sequence[str]) -> list[Picture]:
    return rectified.shown(images, sight.grids, sight.crops, titles)


# ---------------------------------------------------------------------------------------------------------------------
# What is drawn by hand

BOX, PEN = 20 / 28, 1.15 / 28
"""MNIST's digits fill a box of 20 pixels of 28, and their strokes are this thick."""


def ink(lines: Sequence[Sequence[Sequence[float]]], side: int = 28) -> np.ndarray:
    """Lines as MNIST has its digits: scaled to its box, their mass in the middle; (side, side) bytes, light on dark."""
    points = [np.array(line, np.float32) for line in lines]
    all_points = np.concatenate(points)
    low, high = all_points.min(0), all_points.max(0)
    scale = side * BOX / max(float((high - low).max()), 0.1)
    points = [(line - (low + high) / 2) * scale + side / 2 for line in points]
    y, x = np.mgrid[:side, :side] + 0.5
    first = _strokes(points, x, y)
    mass = max(float(first.sum()), 1e-6)
    shift = np.array([side / 2 - float((first * x).sum()) / mass, side / 2 - float((first * y).sum()) / mass])
    return np.rint(255 * _strokes([line + shift for line in points], x, y)).astype(np.uint8)


def _strokes(lines: Sequence[np.ndarray], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How dark the pixels at x and y are, 0 to 1, by their distance to the nearest piece of a line."""
    nearest = np.full(x.shape, np.inf)
    for line in lines:
        start, end = (line[:-1], line[1:]) if len(line) > 1 else (line, line)
        along = end - start
        length = np.maximum((along**2).sum(1), 1e-9)
        dx, dy = x[..., None] - start[:, 0], y[..., None] - start[:, 1]
        place = ((dx * along[:, 0] + dy * along[:, 1]) / length).clip(0, 1)
        distance = np.hypot(dx - place * along[:, 0], dy - place * along[:, 1]).min(-1)
        nearest = np.minimum(nearest, distance)
    return (PEN * len(x) + 0.5 - nearest).clip(0, 1)
