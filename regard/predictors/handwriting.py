"""Text in, a line of handwriting out: drawn as a picture, as SVG that writes itself, or as numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from regard._files import replace
from regard.axes import Strokes, merge
from regard.explain.agreement import agreement
from regard.predictors import _questions
from regard.predictors._asked_predictor import AskedPredictor
from regard.predictors.predictor import Answer
from regard.views import between, strokes
from regard.views.picture import Picture, write

MEASURED, BIAS = 100, 1.0
"""Lines that are written for an evaluation, and their bias."""
POINTS = "300"
"""Points to draw by default."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """A line as it was written.

    Attributes:
        item: the question.
        points: (N, 3) offsets in units of the data, with those that it was primed with, but not where it begins.
        begins: number of the points that it was primed with.
        weights: (N, U), the window on the text before each point; None without a text.
        mixture: the predicted distribution of each point, as :func:`regard.views.strokes.density_map` takes it.
        stopped: whether it stopped by itself.
    """

    item: Any
    points: np.ndarray
    begins: int
    weights: Tensor | None
    mixture: dict[str, np.ndarray]
    stopped: bool

    @property
    def places(self) -> np.ndarray:
        """(N, 3): where the points lie."""
        return np.concatenate([self.points[:, :2].cumsum(0), self.points[:, 2:]], 1)


class Handwriting(AskedPredictor):
    """A system that writes with a pen."""

    def int8(self) -> Self:
        """Its layers are compiled loops over float32."""
        raise ValueError(f"{self.name}: handwriting is not computed in 8-bit integers: leave --int8 out")

    @torch.inference_mode()
    def write(self, items: Sequence[Any]) -> list[Drawn]:
        """A line for each item of the task."""
        lines: list[Any] = [None] * len(items)
        for rows, batch in self.task.batches(items):
            batch_items = [items[row] for row in rows]
            options = {name: [getattr(item, attribute) for item in batch_items] for name, attribute in _OPTIONS.items()}
            out = self.model.write(self.moved(batch), **options)
            for place, (row, item) in enumerate(zip(rows, batch_items)):
                lines[row] = self._drawn(item, out, place)
        return lines

    def _drawn(self, item: Any, out: Any, row: int) -> Drawn:
        length, task = int(out.lengths[row]), self.task
        points = task.restored(out.points[row, :length].cpu().numpy())
        weights = None if out.phi is None else out.phi[row, :length, : len(item.told)].cpu()
        expected = self.model.mixture(out.expected[row, :length])
        parts = {
            "weights": expected.log_weights.exp().cpu().numpy(),
            "mean": expected.mean.cpu().numpy() * task.deviation + task.mean,
            "deviation": expected.log_deviation.exp().cpu().numpy() * task.deviation,
            "correlation": expected.correlation.cpu().numpy(),
        }
        return Drawn(item, points, int(out.begins[row]), weights, parts, bool(out.stopped[row]))

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """Nats per point of a split (or of its first ``limit`` batches), ``gain`` below a mixture of 20 Gaussians
        without context, which is always measured on the whole split; with texts also how the window follows the letters
        (``window``: Spearman's ρ between the character with the largest weight at each point and the one that is being
        written, or, where the data do not tell, the number of the point) and the task's metrics of the first 100 lines,
        written with a bias of 1."""
        values = self.means(split, limit=limit)
        values["alone"] = self.task.alone(split)
        values["gain"] = values["alone"] - values["nll"]
        if not self.task.config.text:
            return values
        count = min(self.task.count(split), MEASURED if limit is None else limit * self.task.config.batch, MEASURED)
        items = [self.task.item(split, number) for number in range(count)]
        values["window"] = float(np.mean([_window_agreement(line) for line in self.write(items)]))
        covered = [item for item in items if not self.task.unknown(item.text)]
        questions = [self.task.asked(item.text, bias=BIAS, seed=number) for number, item in enumerate(covered)]
        return values | self.task.measure(split, list(zip(covered, self.write(questions), strict=True)))

    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """All lines together."""
        answers, items = self.read(questions)
        for (row, item), drawn in zip(items.items(), self.write(list(items.values())), strict=True):
            answers[row] = self._answer(item, drawn, questions[row])
        return answers

    def _answer(self, item: Any, drawn: Drawn, question: Any) -> Answer:
        count = len(drawn.points) - drawn.begins
        lifts = int(drawn.points[drawn.begins :, 2].sum())
        size = f"{count} points and {max(lifts, 1)} strokes"
        text = f"“{item.text}” in {size}" if item.text else size
        notes = [] if drawn.stopped or not item.text else ["It did not find the end of the text, and was stopped."]
        notes += [f"In the style of “{item.primed}”."] if item.primed else []
        button = ("Write it again", {"seed": (question.seed + 1) % 10000})
        fields = {"strokes": _rounded(drawn), "stopped": drawn.stopped}
        return Answer(text, notes, [button], list(self._pictures(item, drawn)), fields)

    def _pictures(self, item: Any, drawn: Drawn) -> Iterator[Picture]:
        places, characters = drawn.places, self.task.axes(item).get("characters")
        title = item.text or "strokes"
        if drawn.weights is not None and characters is not None:
            points = Strokes.of(places, drawn.begins)
            merged = merge(drawn.weights, points, characters)
            # Time runs to the right, as in the paper: the points are the columns.
            yield between.picture([between.Side(characters, merged.T)], points, title=title)
        else:
            yield strokes.picture(places, begins=drawn.begins, title=title)
        density = partial(strokes.density_map, places, drawn.mixture)
        yield strokes.picture(places, begins=drawn.begins, density=density, title=f"{title}: expected")

    def answer(
        self, file: Path | None, *, out: str = "", animate: bool = False, as_json: bool = False, **fields: Any
    ) -> Iterator[str]:
        """What ``regard predict`` prints of each line of a file, or of one text that is no file.

        Args:
            out: where to draw them: .svg is the line alone, other suffixes are those of ``regard show``.
            animate: an .svg writes itself.
            as_json: a JSON object a line, with the strokes.
        """
        if animate and not out:
            raise ValueError("animate=true is for .svg: say where to draw it, --out line.svg")
        if not out:
            yield from self._printed(file, as_json, fields)
            return
        target = Path(out)
        if animate and target.suffix.lower() != ".svg":
            raise ValueError(f"{out}: animate=true is for .svg; a page, .html, moves by itself")
        entries = list(self._entries(file, fields))
        answers = self.ask([entry.question for entry in entries])
        for number, (entry, answer) in enumerate(zip(entries, answers, strict=True), 1):
            if isinstance(answer, ValueError):
                raise ValueError(f"{entry.place}: {answer}" if entry.place else str(answer))
            line_path = target if len(entries) == 1 else target.with_stem(f"{target.stem}-{number}")
            if target.suffix.lower() == ".svg":
                data = answer.pictures[0].view().data  # type: ignore[misc]
                weights = data["weights"]
                parts = data["points"], data["characters"], None if weights is None else weights.values
                drawing = strokes.svg(*parts, begins=data["begins"], animate=animate, title=answer.pictures[0].title)
                replace(line_path, drawing.encode())
                yield str(line_path)
            else:
                yield from write(line_path, answer.pictures[:1], title=self.name)

    def look(self, what: Sequence[str] = (), **fields: Any) -> Iterator[tuple[str, Picture | None]]:
        """What ``regard show`` shows: lines, given as texts, or without texts as numbers of points."""
        yield from super().look(what or ([] if self.task.config.text or not fields else [POINTS]), **fields)

    def _entries(self, file: Path | None, fields: dict[str, Any]) -> Iterator[_questions.Entry]:
        """A file of texts, or a text; without texts a number of points."""
        if not self.task.config.text:
            words = [POINTS] if file is None else _questions.lines(file, "") if _questions.exists(file) else [str(file)]
            for word in words:
                if not word.isdecimal():
                    raise ValueError(f"{word!r} is not a number of points")
                yield from _questions.of_word(self.Question, word, fields)
        elif file is not None and not _questions.exists(file):
            yield from _questions.of_word(self.Question, str(file), fields)
        else:
            yield from _questions.of_file(self.Question, file, fields)

    def _printed(self, file: Path | None, as_json: bool, fields: dict[str, Any]) -> Iterator[str]:
        if self.task.config.text and (file is None or _questions.exists(file)):
            yield from super().answer(file, as_json=as_json, **fields)
            return
        for entry in self._entries(file, fields):
            (answer,) = self.ask([entry.question])
            if isinstance(answer, ValueError):
                raise ValueError(f"{entry.place}: {answer}")
            yield json.dumps({**entry.fields, "text": answer.text, **answer.fields}) if as_json else answer.text


_OPTIONS = {"most": "most", "seeds": "seed", "bias": "bias"}


def _window_agreement(drawn: Drawn) -> float:
    """Spearman's ρ of where the window was and where the letter is."""
    assert drawn.weights is not None
    window, letters = drawn.weights.argmax(-1).float(), drawn.item.letters
    written = torch.arange(len(window)) if letters is None else torch.from_numpy(letters[1 : len(window) + 1])
    return float(agreement(window, written.float(), kind="spearman"))


def _rounded(drawn: Drawn) -> list[list[list[float]]]:
    """What was written as strokes of points (x, y)."""
    ends = np.flatnonzero(drawn.points[:, 2] > 0.5) + 1
    return [np.round(stroke.astype(float), 2).tolist() for stroke in np.split(drawn.places[:, :2], ends) if len(stroke)]
