"""Train and measure the tables of docs/results.md on captions, video, sets, recipes and visual questions.

    .venv/bin/python tools/results_pictures.py                     # all; the data must be at hand
    .venv/bin/python tools/results_pictures.py vqa sets            # these
    .venv/bin/python tools/results_pictures.py sets --only flickr8k   # of a table, trainings with this in their name
    .venv/bin/python tools/results_pictures.py --list              # what is done, and how many minutes are left
    .venv/bin/python tools/results_pictures.py --jobs 2            # two trainings side by side, of one thread each

Every training is a run of its own under --runs, made by `regard train` and taken up where it stopped. Numbers are those
of the test split, of Flickr8k, whose test images are not at hand, of the validation split.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lab import Cell, Measured, Table, cells, lines, print_tables, row

from regard import runs
from regard.metrics import captions as captions_metric


class Pictures(Measured):
    """Trainings on pictures and video, and what they are measured by."""

    def split(self, cell: Cell) -> str:
        return "valid" if self._recipe(cell).sections["task"].get("data") == "flickr8k" else "test"


CAPTIONS = {
    "soft, 7 × 7": row("caption-flickr8k", 45),
    "soft, without the penalty": row("caption-flickr8k", 45, "penalty=0.0"),
    "soft, 1.5-entmax": row("caption-flickr8k", 45, "normalizer=entmax15"),
    "hard": row("caption-flickr8k-hard", 60),
    "looks once": row("caption-flickr8k-once", 20),
}


def captions(lab: Pictures) -> Iterator[str]:
    """Captions of Flickr8k, validation split."""
    metrics = {"BLEU-1": "bleu1", "BLEU-4": "bleu4", "ROUGE-L": "rouge_l", "CIDEr-D": "cider_d"}
    yield from lines(lab, CAPTIONS, {**metrics, "variation of maps": "variation", "entropy": "entropy"})
    for title, (cell, *_) in CAPTIONS.items():
        for path in best_and_worst(lab, cell) if lab.wants(cell) else ():
            yield f"\nFigure, {title}: {path}"


SHOWN = 6
"""Captions of a figure."""


def best_and_worst(lab: Pictures, cell: Cell) -> Iterator[Path]:
    """Figures of the captions with the highest and with the lowest CIDEr-D, in the run's folder, since the photographs
    may not be passed on. They are drawn once."""
    paths = [lab.folder(cell) / f"captions-{name}.png" for name in ("best", "worst")]
    if not all(path.exists() for path in paths):
        predictor, split = runs.load(lab.folder(cell)), lab.split(cell)
        task = predictor.task
        items = [task.item(split, number) for number in range(task.count(split))]
        answers = [best for best, *_ in predictor.write(items)]
        references = [
            [captions_metric.words(text) for text in captions_of_image]
            for captions_of_image in task.references(split, range(len(items)))
        ]
        scores = captions_metric.each_cider_d([captions_metric.words(answer.text) for answer in answers], references)
        order = np.argsort(scores, kind="stable")
        for path, chosen in zip(paths, (order[::-1], order)):
            captioned([answers[row] for row in chosen[:SHOWN]], task, path)
    yield from paths


def captioned(answers: Sequence[Any], task: Any, path: Path) -> None:
    """Photographs with their captions and, beside each, where the word looked whose map is sharpest."""
    from matplotlib.figure import Figure

    from regard.views import overlay
    from regard.views._pixels import paint
    from regard.views._shared import INK, MUTED, save

    figure = Figure(figsize=(11.0, 2.75 * -(-len(answers) // 2)), layout="constrained")
    panels = figure.subplots(-(-len(answers) // 2), 4, squeeze=False).reshape(-1, 2)
    for (left, right), answer in zip(panels, answers):
        image = task.axes(answer.item)["places"].image()
        words = list(answer.words.labels)
        paint(left, image)
        left.set_title(textwrap.fill(answer.text, 34), fontsize=9, color=INK, loc="left")
        if answer.weights is None or not words:
            right.axis("off")
            continue
        maps = answer.weights.numpy()[: len(words)]
        sharp = int(np.argmin([-(row * np.log(row.clip(1e-9))).sum() for row in maps]))
        side = math.isqrt(maps.shape[1])
        overlay.veiled(right, image, maps[sharp].reshape(side, side))
        right.set_title(words[sharp], fontsize=9, color=MUTED, loc="left")
    for left, right in panels[len(answers) :]:
        left.axis("off")
        right.axis("off")
    save(figure, path)


SCENES = {
    "soft": row("caption-scenes", 13),
    "hard": row("caption-scenes-hard", 15),
}


def scenes(lab: Pictures) -> Iterator[str]:
    """Captions of generated scenes."""
    yield from lines(lab, SCENES, {"BLEU-4": "bleu4", "true": "true", "pointing": "pointing", "chance": "chance"})


def _four(recipe: str, minutes: float) -> dict[str, list[Cell]]:
    return {
        f"{recipe}, mean of the frames": row(recipe, minutes, "temporal=false", "local=false"),
        f"{recipe}, + motion": row(recipe, minutes, "temporal=false", "local=true"),
        f"{recipe}, + attention over frames": row(recipe, minutes, "temporal=true", "local=false"),
        f"{recipe}, + both": row(recipe, minutes),
    }


VIDEO = {**_four("video-msvd", 15), **_four("video-moves", 10)}


def video(lab: Pictures) -> Iterator[str]:
    """Captions of clips: the four rows of the paper's table."""
    yield from lines(lab, VIDEO, {"BLEU-4": "bleu4", "CIDEr-D": "cider_d", "true": "true", "pointing": "pointing"})


PREDICTORS = {
    "order-free Transformer": (),
    "BCE": ("predictor=bce",),
    "soft IoU": ("predictor=iou",),
    "target distribution": ("predictor=td",),
    "BCE + cardinality": ("predictor=bce", "cardinality=true"),
    "target distribution + cardinality": ("predictor=td", "cardinality=true"),
}
SETS = {
    f"{recipe}, {title}": row(recipe, minutes, *changes, seeds=seeds)
    for recipe, minutes, seeds in (("set-scenes", 5, 1), ("set-plates", 4, 3), ("set-flickr8k", 10, 1))
    for title, changes in PREDICTORS.items()
}


def sets(lab: Pictures) -> Iterator[str]:
    """Sets of labels; *frequent* always names the most frequent labels."""
    metrics = {"F1": "f1", "F1 by label": "f1_class", "IoU": "iou", "size error": "size_error"}
    yield from lines(lab, SETS, {**metrics, "frequent": "f1_frequent", "pointing": "pointing"})


FUSIONS = ("concatenated", "independent", "image_first", "ingredients_first")
RECIPES = {
    f"{recipe}, {fusion}": row(recipe, minutes, f"fusion={fusion}")
    for recipe, minutes in (("recipe-photos", 10), ("recipe-dishes", 6))
    for fusion in FUSIONS
}


def recipes(lab: Pictures) -> Iterator[str]:
    """Recipes from photographs: the four ways to fuse, perplexity with both, either or none."""
    metrics = {"F1": "f1", "frequent": "f1_frequent", "perplexity": "perplexity", "image alone": "perplexity_image"}
    ablations = {"ingredients alone": "perplexity_ingredients", "neither": "perplexity_neither"}
    yield from lines(lab, RECIPES, {**metrics, **ablations})


ANSWERERS = {
    "two hops": (),
    "one hop": ("hops=1",),
    "the question alone": ("hops=0",),
    "two hops, keys of their own": ("tied=false",),
    "two hops, words without context": ("reader=words",),
    "stacked attention, two layers": ("system.name=san",),
    "stacked attention, one layer": ("system.name=san", "hops=1"),
}
VQA_SCENES = {title: row("vqa-scenes", 8, *changes) for title, changes in ANSWERERS.items()}
VQA_DAQUAR = {title: row("vqa-daquar", 4, *changes, seeds=3) for title, changes in ANSWERERS.items()}


def vqa_scenes(lab: Pictures) -> Iterator[str]:
    """Questions about generated scenes, percent right of each kind, and where the hops point."""
    kinds = {kind: kind for kind in ("exist", "colour", "shape", "relation")}
    pointing = {"first hop points": "pointing_first", "last hop points": "pointing", "chance": "chance"}
    yield from lines(lab, VQA_SCENES, {**kinds, **pointing})


def vqa_daquar(lab: Pictures) -> Iterator[str]:
    """Questions about the 155 photographs of DAQUAR that are held out, percent exactly right."""
    yield from lines(lab, VQA_DAQUAR, {"exact": "exact", "always the most frequent": "frequent"})


TABLES = {
    "captions": Table(lambda: cells(CAPTIONS), captions),
    "scenes": Table(lambda: cells(SCENES), scenes),
    "video": Table(lambda: cells(VIDEO), video),
    "sets": Table(lambda: cells(SETS), sets),
    "recipes": Table(lambda: cells(RECIPES), recipes),
    "vqa-scenes": Table(lambda: cells(VQA_SCENES), vqa_scenes),
    "vqa-daquar": Table(lambda: cells(VQA_DAQUAR), vqa_daquar),
}


def main() -> None:
    """Train what is missing, and print Markdown tables."""
    print_tables(__doc__, TABLES, Pictures)


if __name__ == "__main__":
    main()
