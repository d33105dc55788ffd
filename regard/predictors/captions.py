"""Images in, captions out."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import photographs, scenes
from regard.decode.config import decode
from regard.metrics import pointing
from regard.predictors.predictor import Answer, Predictor, track
from regard.questions import Image, Number, form
from regard.tasks.task import Batch
from regard.views import overlay
from regard.views.picture import Picture


@dataclass(frozen=True, eq=False)
class Caption:
    """What is said of an image: its words, and where each looked, (T, cells), if the system looks."""

    text: str
    words: list[str]
    weights: np.ndarray | None
    score: float


class Captions(Predictor):
    """A system that says what is on an image."""

    @torch.inference_mode()
    def captions(self, batch: Batch) -> list[Caption]:
        """Of a batch of images, the best of each."""
        config, found = self.recipe.build("decode"), []
        for best, *_ in decode(self.model, self.moved(batch), config):
            weights = None if best.alignment is None else best.alignment.float().numpy()
            words = [self.task.words[token] for token in best.tokens]
            found.append(Caption(self.task.decode(best.tokens), words, weights, best.score))
        return found

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """Of a split, or its first ``limit`` images: the task's metrics of the captions; how much the maps of words
        differ (``variation``, ``entropy``); of scenes, in percent, how often a caption is true and how often the word
        for an object points at it (``pointing``; ``chance`` is that of a random cell)."""
        total = min(self.task.count(split), limit or self.task.count(split))
        size = self.task.config.batch
        groups = [range(first, min(first + size, total)) for first in range(0, total, size)]
        found = [
            caption for rows in track(groups, len(groups)) for caption in self.captions(self.task.images(split, rows))
        ]
        references = self.task.references(split, range(total))
        values = self.task.compare([each.text for each in found], references)
        self.signatures = self.task.signatures
        maps = [each.weights for each in found if each.weights is not None and len(each.words) > 1]
        if maps:
            values["variation"] = float(np.mean([pointing.total_variation(each) for each in maps]))
            values["entropy"] = float(np.mean(np.concatenate([pointing.entropy(each) for each in maps])))
        if self.task.generated:
            values |= self._pointed(found, split)
            true = [each.text in said for each, said in zip(found, references)]
            values["true"] = 100 * float(np.mean(true))
        return values

    def _pointed(self, found: Sequence[Caption], split: str) -> dict[str, float]:
        maps, boxes = [], []
        for row, caption in enumerate(found):
            things = self.task.scene(split, row).things
            for place, number in scenes.mentioned(caption.words, things):
                if caption.weights is not None:
                    maps.append(caption.weights[place])
                    boxes.append(things[number].box)
        if not maps:
            return {}
        hits, chance = pointing.pointing_game(np.stack(maps), boxes)
        return {"pointing": 100 * hits, "chance": 100 * chance}

    def answer(self, file: Path | None, *, as_json: bool = False) -> Iterator[str]:
        """File and caption, a line each. FILE is a photograph or a folder of them."""
        if file is None:
            raise ValueError("say which photograph or folder of photographs to caption")
        for photograph in photographs.folder(file) if file.is_dir() else [photographs.Photograph(file)]:
            (best,) = self.captions(self.task.prepare(photograph))
            told = {"image": str(photograph), "caption": best.text, "score": round(best.score, 4)}
            yield json.dumps(told) if as_json else f"{photograph}\t{best.text}"

    def look(self, what: Sequence[str] = (), *, split: str = "test") -> Iterator[tuple[str, Picture | None]]:
        """Where each word of the caption looked, in photographs given as files or by their number in a split; the first
        one of the split if none is named."""
        for each in what or ["0"]:
            image, batch = self._numbered(int(each), split) if each.isdecimal() else self._file(Path(each))
            (found,) = self.captions(batch)
            heading = f"{each}: {found.text}"
            if found.weights is None:
                heading += "\n  (this system looks at the whole image, once)"
            yield heading, self._picture(image, found)

    def _picture(self, image: np.ndarray, found: Caption) -> Picture | None:
        if found.weights is None or not found.words:
            return None
        return overlay.picture(image, found.words, found.weights[: len(found.words)], title=found.text)

    def _numbered(self, number: int, split: str) -> tuple[np.ndarray, Batch]:
        """An image of a split, as it is drawn and as the system takes it."""
        count = self.task.count(split)
        if number >= count:
            raise ValueError(f"there is no picture {number} in {split}: they are 0 to {count - 1}")
        return self.task.pixels(split, number), self.task.images(split, [number])

    def _file(self, source: photographs.Source) -> tuple[np.ndarray, Batch]:
        size = self.task.config.pixels if self.task.generated else self.task.config.size
        return photographs.read(source, size, fit=self.task.config.fit) / 255, self.task.prepare(source)

    # Questions

    title = "Say what is on a picture"
    compared = True
    Question = form(
        "Look",
        image=Image(default="", title="Your picture", about="JPEG, PNG or WebP. It is not kept."),
        example=Number(0, 9999, default=0, title="Or a test picture", about="Used while there is none of yours."),
    )

    def data(self) -> str:
        return "generated scenes" if self.task.generated else str(self.task.config.data)

    def examples(self) -> list[Any]:
        """Test pictures, where they are at hand or can be made."""
        try:
            count = self.task.count("test")
        except (ValueError, OSError):
            return []
        return [self.Question(example=number) for number in range(min(count, 5))]

    def one(self, question: Any) -> Answer:
        if question.image:
            try:
                data = base64.b64decode(question.image, validate=True)
            except ValueError:
                raise ValueError("the picture is not the bytes of a file in base64") from None
            image, batch = self._file(data)
        else:
            image, batch = self._numbered(question.example, "test")
        (found,) = self.captions(batch)
        picture = self._picture(image, found)
        notes = [] if picture else ["This system looks at the whole image, once."]
        fields = {"words": found.words, "score": found.score}
        return Answer(found.text, notes, pictures=[picture] if picture else [], fields=fields)
