"""Questions about images, and images with sets of labels: four of each, as features or pixels."""

from functools import partial

import torch

from contracts.cases import Batch, Case
from contracts.cases.captions import CELLS, WIDTH

VOCAB, ANSWERS, LABELS, T = 19, 5, 6, 6


def seen(pixels: bool) -> Batch:
    generator = torch.Generator().manual_seed(0)
    if pixels:
        return {"image": torch.rand(4, 3, 24, 24, generator=generator)}
    return {"features": torch.randn(4, CELLS, WIDTH, generator=generator)}


def questions(pixels: bool = False) -> Batch:
    """Of different lengths; the third has an answer that is not known."""
    generator = torch.Generator().manual_seed(1)
    words, lengths = torch.randint(3, VOCAB, (4, T), generator=generator), torch.tensor([6, 3, 1, 4])
    words[torch.arange(T) >= lengths[:, None]] = 0
    answer = torch.tensor([2, 0, -1, 4])
    return {**seen(pixels), "question": words, "question_lengths": lengths, "answer": answer}


def alone(batch: Batch) -> list[Batch]:
    """The questions one by one, without padding."""
    found = []
    for row, length in enumerate(batch["question_lengths"]):
        one = {name: tensor[row : row + 1] for name, tensor in batch.items()}
        found.append({**one, "question": one["question"][:, :length]})
    return found


def sets(pixels: bool = False) -> Batch:
    """Of three labels, one, none and two."""
    labels = torch.zeros(4, LABELS)
    labels[[0, 0, 0, 1, 3, 3], [4, 0, 5, 2, 1, 5]] = 1
    return {**seen(pixels), "labels": labels}


def _asked(pixels: bool = False, **options: object) -> Case:
    sizes = {"vocab": VOCAB, "answers": ANSWERS, "features": 0 if pixels else WIDTH, "channels": 8, "dim": 8}
    looks = bool(options.get("hops", 2))
    return Case({**sizes, **options}, partial(questions, pixels), alone, looks=looks)


def _set(predictor: str, pixels: bool = False, **options: object) -> Case:
    sizes = {"classes": LABELS, "features": 0 if pixels else WIDTH, "most": 4, "channels": 8}
    widths = {"dim": 8, "heads": 2, "hidden": 12, "layers": 2, "dropout": 0.0}
    case = {**sizes, **widths, "predictor": predictor, **options}
    # All sets together are one F1, so that images cannot be measured one by one.
    return Case(case, partial(sets, pixels), looks=predictor == "transformer")


CASES = {
    "smem_vqa": [
        _asked(),
        _asked(reader="words", tied=False),
        _asked(hops=1),
        _asked(hops=3, pixels=True),
        _asked(hops=0),
    ],
    "san": [_asked(), _asked(hops=1, pixels=True), _asked(hops=0)],
    "image_to_set": [
        _set("transformer"),
        _set("transformer", pixels=True, norm="post"),
        *map(_set, ("bce", "iou", "td")),
        _set("bce", cardinality=True),
        _set("td", cardinality=True, pixels=True),
    ],
}
