"""Things that are followed through a film, and where on them the tracker looked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.metrics import tracking as metrics
from regard.predictors.predictor import Answer, Predictor
from regard.questions import Number, form
from regard.training import rng
from regard.views import tracking
from regard.views.picture import Picture


class Tracker(Predictor):
    """A tracker of one thing."""

    @torch.inference_mode()
    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """``centre_error``, the median over all frames in pixels; ``overlap``, the mean intersection over union;
        ``until_lost``, the mean number of frames before the target is left for good, and ``frames`` of a film."""
        errors, overlaps, lost, length = [], [], [], 0
        with rng.apart(0, self.device):
            for batch in itertools.islice(self.task.loader(split), limit):
                batch = self.moved(batch)
                box, target = self.model.track(batch)["box"], batch["boxes"]
                errors.append(metrics.centre_error(box, target)[:, 1:].flatten())
                overlaps.append(metrics.overlap(box, target)[:, 1:].flatten())
                lost.append(metrics.until_lost(box, target).float())
                length = target.shape[1]
        middle = float(torch.cat(errors).median())
        share, until = float(torch.cat(overlaps).mean()), float(torch.cat(lost).mean())
        return {"centre_error": middle, "overlap": share, "until_lost": until, "frames": float(length)}

    @torch.inference_mode()
    def follow(self, number: int = 0, *, split: str = "test") -> dict[str, Tensor]:
        """A film of the first batch of a split, by its number, as it is tracked; see ``track`` of the system."""
        batch = next(iter(self.task.loader(split)))
        if not 0 <= number < len(batch["boxes"]):
            raise ValueError(f"film {number}: there are {len(batch['boxes'])}, from 0")
        film = self.moved({name: tensor[number : number + 1] for name, tensor in batch.items()})
        with rng.apart(number, self.device):
            track = {**film, **self.model.track(film)}
        return {name: tensor[0].cpu() for name, tensor in track.items()}

    def look(self, what: Sequence[str] = (), *, split: str = "test") -> Iterator[tuple[str, Picture | None]]:
        """A film, by its number."""
        if len(what) > 1 or (what and not what[0].isdecimal()):
            raise ValueError(f"say the number of one film, not {' '.join(what)}")
        number = int(what[0]) if what else 0
        track = self.follow(number, split=split)
        yield f"film {number}: {_summary(track)}", tracking.picture(track, title=f"film {number}")

    title = "Watch it follow a moving target"

    @property
    def Question(self) -> Any:
        """Which film to watch."""
        last = (1 if self.task.film is not None else self.task.config.batch) - 1
        return form("Track", film=Number(0, last, default=0, title="Film", about="Each number is another film."))

    def examples(self) -> list[Any]:
        first = [self.Question(film=0)]
        return first if self.task.film is not None else [self.Question(film=number) for number in (1, 0)]

    def one(self, question: Any) -> Answer:
        track = self.follow(question.film)
        return Answer(_summary(track), pictures=[tracking.picture(track, title=f"film {question.film}")])


def _summary(track: dict[str, Tensor]) -> str:
    error = metrics.centre_error(track["box"], track["boxes"])[1:].median()
    until, length = int(metrics.until_lost(track["box"], track["boxes"])), len(track["box"])
    return f"median centre error {error:.1f} px, " + ("not lost" if until == length else f"lost after {until} frames")
