"""``regard bench vision``: the retina, RAM and DRAW against plain PyTorch, and what an image costs as it grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, repeat
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from regard.attended import Attended
from regard.bench import draw
from regard.bench.measure import Case, Row, report
from regard.glimpses import Retina
from regard.systems import cnn, ram


def run(json_file: Path | None = None, quick: bool = False, only: str = "") -> list[Row]:
    """Measure the rows whose name holds ``only``, print the tables, and write the first as JSON if asked."""
    seconds = 0.1 if quick else 0.5
    rows = report(cases, threads=(1,) if quick else (1, 2), seconds=seconds, only=only, json_file=json_file)
    if not only:
        print("\nOne forward of 64 images as they grow:\n", *growth(seconds=seconds), sep="\n")
        print("\nData, on one batch after the other:\n", *speed(seconds=seconds), sep="\n")
    return rows


def cases() -> Iterator[Callable[[], Case]]:
    """Built one by one, so that only one's tensors are in memory."""
    yield partial(retina, 128, 28, 8, 1, "≥ 2× eager")
    yield partial(retina, 128, 60, 12, 3, "≥ 2× eager")
    yield partial(retina, 128, 100, 12, 4, "≥ 2× eager")
    yield partial(retina, 1, 60, 12, 3, "")
    yield partial(training, 128, 28, 8, 1, 6)
    yield partial(training, 128, 60, 12, 3, 8)
    yield from draw.cases()


def retina(batch: int, pixels: int, size: int, scales: int, target: str) -> Case:
    """What is seen at a place of each image, at all scales."""
    image, location = torch.rand(batch, 1, pixels, pixels), torch.rand(batch, 2) * 2 - 1
    part = Retina(size, scales)
    contenders = {
        "ours": lambda: part(location, image).context,
        "eager": lambda: gathered(location, image, size, scales),
        "per image": lambda: one_by_one(location, image, size, scales),
    }
    work = f"retina {size}×{size}, {scales} scale{'s' * (scales > 1)}, B={batch}, image {pixels}×{pixels}"
    return Case(work, contenders, (), target, ("forward",), 1e-5)


def gathered(location: Tensor, image: Tensor, size: int, scales: int) -> Tensor:
    """The best that plain PyTorch has for a whole batch: one gather of the largest square, and means within it."""
    batch, channels, height, width = image.shape
    side = size << (scales - 1)
    margin = side // 2 + 1
    padded = functional.pad(image, (margin, margin, margin, margin))
    sides = torch.tensor([width, height], dtype=image.dtype)
    corner = ((location + 1) * (sides / 2) - (side / 2 - 0.5)).floor().long() + margin
    steps = torch.arange(side)
    wide = width + 2 * margin
    places = (corner[:, 1, None] + steps)[:, :, None] * wide + (corner[:, 0, None] + steps)[:, None, :]
    index = places.flatten(1)[:, None].expand(batch, channels, -1)
    largest = padded.flatten(2).gather(2, index).unflatten(2, (side, side))
    patches = []
    for scale in range(scales):
        inset = (side - (size << scale)) // 2
        square = largest[..., inset : side - inset, inset : side - inset]
        patches.append(functional.avg_pool2d(square, 1 << scale) if scale else square)
    return torch.stack(patches, 2)


def one_by_one(location: Tensor, image: Tensor, size: int, scales: int) -> Tensor:
    """As in public implementations: image by image, scale by scale, cut from a padded image and pooled."""
    batch, _, height, width = image.shape
    patches = []
    for scale in range(scales):
        side = size << scale
        margin = side // 2 + 1
        padded = functional.pad(image, (margin, margin, margin, margin))
        crops = []
        for b in range(batch):
            left = int(torch.floor((location[b, 0] + 1) * width / 2 - side / 2 + 0.5)) + margin
            top = int(torch.floor((location[b, 1] + 1) * height / 2 - side / 2 + 0.5)) + margin
            crops.append(padded[b, :, top : top + side, left : left + side])
        square = torch.stack(crops)
        patches.append(functional.avg_pool2d(square, 1 << scale) if scale else square)
    return torch.stack(patches, 2)


def training(batch: int, pixels: int, size: int, scales: int, glimpses: int) -> Case:
    """RAM from images to the gradients of all parameters; against itself with the gathered retina."""
    settings = ram.Config(1, pixels, pixels, 10, glimpses=glimpses, size=size, scales=scales, start="centre")
    model = ram.RAM(settings).train()
    twin = ram.RAM(settings).train()
    twin.load_state_dict(model.state_dict())
    twin.glimpse.retina = _Gathered(size, scales)
    data = {"image": torch.rand(batch, 1, pixels, pixels), "label": torch.randint(0, 10, (batch,))}

    def loss(of: ram.RAM) -> Callable[[], Tensor]:
        def run() -> Tensor:
            torch.manual_seed(0)
            return of(data)["loss"]

        return run

    work = f"RAM step, {glimpses} glimpses {size}×{size}×{scales}, B={batch}, image {pixels}×{pixels}"
    inputs = [*model.parameters(), *twin.parameters()]
    return Case(work, {"ours": loss(model), "eager": loss(twin)}, inputs, "", ("forward+backward",), 1e-3)


class _Gathered(Retina):
    """The retina of :func:`gathered`."""

    def forward(self, location: Tensor, image: Tensor) -> Attended:
        return Attended(gathered(location, image, self.size, self.scales))


def growth(sides: tuple[int, ...] = (28, 60, 100, 200), batch: int = 64, seconds: float = 1.0) -> list[str]:
    """Lines of a table: what an image of each side costs RAM and its convolutional control, forward."""
    lines = ["| image | RAM ms | RAM multiplications | CNN ms | CNN multiplications |", "|---|---|---|---|---|"]
    for side in sides:
        image = torch.rand(batch, 1, side, side)
        seeing = ram.RAM(ram.Config(1, side, side, 10, size=12, scales=3)).eval()
        control = cnn.CNN(cnn.Config(1, side, side, 10)).eval()
        cells = [f"{side}×{side}"]
        for model in (seeing, control):
            cells += [f"{_milliseconds(partial(model.predict, {'image': image}), seconds):.2f}"]
            cells += [f"{model.multiplications():,}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def speed(batch: int = 128, seconds: float = 1.0) -> list[str]:
    """Lines: how many images a second the data comes with, for each kind of canvas."""
    from regard.tasks.digits import Config, Digits

    lines = ["| canvas | images/s |", "|---|---|"]
    kinds = [("plain", ""), ("translated", ""), ("cluttered", ""), ("two", ""), ("addition", "RTS")]
    kinds += [("distorted", how) for how in ("R", "RTS", "P", "E", "T")]
    for kind, how in kinds:
        task = Digits(Config(kind=kind, drawn=2000, batch=batch, distortion=how or "RTS"))
        batches = chain.from_iterable(repeat(task.loader("train")))
        milliseconds = _milliseconds(partial(next, batches), seconds)
        lines.append(f"| {kind} {how} | {1000 * batch / milliseconds:,.0f} |")
    return lines


def _milliseconds(run: Callable[[], object], seconds: float) -> float:
    """The median of one run."""
    times: list[float] = []
    with torch.no_grad():
        run()
        began = time.perf_counter()
        while time.perf_counter() - began < seconds or len(times) < 3:
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    return 1000 * sorted(times)[len(times) // 2]
