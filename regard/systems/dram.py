"""DRAM: a network that reads several objects of an image one after the other, by glimpses where it chooses to look.

Ba, Mnih & Kavukcuoglu 2015, *Multiple Object Recognition with Visual Attention* (arXiv:1412.7755).

    gₙ = G_image(ρ(x, lₙ)) ⊙ G_loc(lₙ)         glimpse: what times where
    r¹ₙ = LSTM(gₙ, r¹ₙ₋₁),  r¹₀ = 0             what was seen
    r²ₙ = LSTM(r¹ₙ, r²ₙ₋₁),  r²₀ = C(coarse x)  where to look: the context network sees the whole image, small
    lₙ₊₁ ~ N(tanh(κ E(r²ₙ)), σ²)                a choice, without a gradient
    yₛ = softmax(O(r¹)) after every N glimpses  the s-th object, in order, and at last the class *end*

The classes depend on r¹ alone, and r¹ on glimpses alone: the classifier never sees the context. Attention is hard: the
query is the place lₙ, keys are the places of the pixels, values the pixels, and the weights 1/n over the n pixels of a
cell of the retina. The loss is a bound on −log p(y | x), sampled:

    −Σₛ log yₛ − λ Σₙ log N(lₙ; E(r²ₙ₋₁)) (R − bₙ) + Σₙ (bₙ − R)² / N

where R, 0 or 1 for each object, takes the place of log p(y | l, x), and bₙ = b(r²ₙ₋₁) is learned. The s-th object is
trained only in those runs in which all before it were read right; R of a glimpse counts the objects that were read from
there on. The gradient is the mean over ``rollouts`` runs an image.

In ``eval`` mode the locations are the means of their distributions. With ``test_rollouts`` they are drawn, and the
probabilities of each object averaged over N runs (Monte-Carlo averaging). The answer is the likeliest sequence: the
probabilities of its objects are independent, given the glimpses, so it is found exactly, for each length and then over
all lengths. ``pair`` adds a second network that reads from the last object to the first; the answer is then the
likeliest sequence by the product of the probabilities of both (forward-backward).

Deviations: r¹ goes into the second LSTM without a gradient, so that REINFORCE trains only what chooses; as in RAM, tanh
keeps the mean of a location within the image. The context is the cell of the second LSTM at first, and tanh of it its
state. The paper's three convolutions are two here, of 3 × 3. Where all images have the same number of objects there is
no class *end* (``end`` = false), because it would always come at the same place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard._settings import at_least
from regard.glimpses import Retina
from regard.layers import objects
from regard.layers.glimpse import Core, check_images
from regard.layers.reinforce import log_normal, policy_terms, repeated
from regard.layers.use import Use

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        channels, height, width: of the images.
        classes: of an object; the last is *end*, if there is one.
        objects: the most objects that are read, *end* included.
        end: is there a class *end*?
        glimpses: for each object, N.
        size, scales: of the retina.
        filters: of the glimpse network's first convolution, the second has twice as many; 0 is a fully connected layer.
        hidden: units of each LSTM, and of the glimpse network's output.
        context: the longer side of the coarse image for the context network, in pixels; 0 is no context.
        pace: κ, by which the output of the location layer is multiplied. Its gradient comes from REINFORCE alone and is
            mostly noise, and Adam takes steps of the same size whatever λ is; with a small κ the locations move little
            in each step, so that the noise of many steps cancels.
        std: σ of the locations, where 2 is the width of the image.
        rollouts: runs of an image in training.
        test_rollouts: the same when it is not trained; 0 is one run along the means.
        reinforce: λ.
        pair: add a network that reads backwards.
        standardize: give the pixels of each image a mean of 0 and a variance of 1, for images whose brightness differs.
    """

    channels: int
    height: int
    width: int
    classes: int
    objects: int = 1
    end: bool = False
    glimpses: int = 3
    size: int = 12
    scales: int = 2
    filters: int = 16
    hidden: int = 256
    context: int = 16
    pace: float = 0.1
    std: float = 0.15
    rollouts: int = 1
    test_rollouts: int = 0
    reinforce: float = 1.0
    pair: bool = False
    standardize: bool = False

    def __post_init__(self) -> None:
        at_least(self, "channels", "height", "width", "classes", "objects", "glimpses", "size", "scales", "hidden")
        at_least(self, "rollouts", test_rollouts=0, filters=0, context=0, reinforce=0)
        if not self.pace > 0:
            raise ValueError(f"pace = {self.pace}: the locations would never move")
        if not self.std > 0:
            raise ValueError(f"std = {self.std}: without a spread no other place is ever tried")
        if self.end and (self.objects < 2 or self.classes < 2):
            raise ValueError("with a class for the end there are at least two classes and two objects, counting it")
        if self.filters and self.size < 5:
            raise ValueError(f"size = {self.size}: two convolutions of 3 × 3 need 5 pixels; or filters = 0")
        if self.size > min(self.height, self.width):
            raise ValueError(
                f"a glimpse of {self.size} × {self.size} is larger than an image of {self.height} × {self.width}"
            )


VARIANTS: dict[str, dict[str, Any]] = {"blind": {"context": 0}, "pair": {"pair": True, "test_rollouts": 8}}
"""Without the context network; and the paper's best, forward and backward with Monte-Carlo averaging."""


class Object(NamedTuple):
    """The glimpses at one object, in M of the images.

    Attributes:
        rows: (M,), which images.
        location: (N, M, 2), where it looked.
        chosen: (N, M), log π of these places; expected (N, M), the baseline.
        log_prob: (N, M, classes), after each glimpse.
    """

    rows: Tensor
    location: Tensor
    chosen: Tensor
    expected: Tensor
    log_prob: Tensor


class WhatWhere(nn.Module):
    """g = G_image(ρ(x, l)) ⊙ G_loc(l). Shapes: location (B, 2), image (B, C, height, width) → (B, out)."""

    def __init__(self, config: Config):
        super().__init__()
        self.retina = Retina(config.size, config.scales)
        channels, out, filters = config.channels * config.scales, config.hidden, config.filters
        if filters:
            layers = [nn.Conv2d(channels, filters, 3), nn.ReLU(), nn.Conv2d(filters, 2 * filters, 3), nn.ReLU()]
            self.what = nn.Sequential(*layers, nn.Flatten(), nn.Linear(2 * filters * (config.size - 4) ** 2, out))
        else:
            between = nn.Linear(channels * config.size**2, out)
            self.what = nn.Sequential(nn.Flatten(), between, nn.ReLU(), nn.Linear(out, out))
        self.where = nn.Linear(2, out)
        nn.init.ones_(self.where.bias)  # at first what is seen passes, wherever it is seen

    def forward(self, location: Tensor, image: Tensor) -> Tensor:
        patches = self.retina(location, image).context.flatten(1, 2)
        return torch.relu(self.what(patches)) * torch.relu(self.where(location))


class Context(nn.Module):
    """The image, small, as the first state of what chooses where to look. (B, C, height, width) → (B, hidden)."""

    def __init__(self, config: Config):
        super().__init__()
        longer = max(config.height, config.width)
        high, wide = (max(1, round(side * config.context / longer)) for side in (config.height, config.width))
        self.coarse = (high, wide)
        rows, columns = ((side + 1) // 2 for side in self.coarse)
        self.layers = nn.Sequential(
            *(nn.Conv2d(config.channels, 16, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(32 * rows * columns, config.hidden)),
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(functional.adaptive_avg_pool2d(image, self.coarse))


class Reader(nn.Module):
    """One network that reads objects in order."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.glimpse = WhatWhere(config)
        self.first = Core("lstm", config.hidden, config.hidden)
        self.second = Core("lstm", config.hidden, config.hidden)
        if config.context:
            self.context = Context(config)
        self.location = nn.Linear(config.hidden, 2)
        self.baseline = nn.Linear(config.hidden, 1)
        self.output = nn.Linear(config.hidden, config.classes)

    def look(self, image: Tensor, drawing: bool, target: Tensor | None = None) -> Iterator[Object]:
        """Object after object of images (B, C, height, width). With ``target`` (B, S) an image is read on only while it
        is read right and has another object."""
        config, rows = self.config, torch.arange(len(image), device=image.device)
        if config.standardize:
            mean, std = image.mean((1, 2, 3), keepdim=True), image.std((1, 2, 3), keepdim=True)
            image = (image - mean) / std.clamp_min(1e-3)
        first, second = self.first.start(image), self.second.start(image)
        if config.context:
            cell = self.context(image)
            second = (cell.tanh(), cell)
        for number in range(config.objects):
            steps = []
            for _ in range(config.glimpses):
                mean = torch.tanh(config.pace * self.location(second[0]))
                expected = self.baseline(second[0].detach())[:, 0]
                sample = mean.detach() + (config.std * torch.randn_like(mean) if drawing else 0.0)
                place = sample.clamp(-1, 1)
                first = self.first(self.glimpse(place, image), first)
                second = self.second(first[0].detach(), second)
                steps.append((place, log_normal(sample, mean, config.std), expected, first[0]))
            place, log_density, expected, features = map(torch.stack, zip(*steps))
            scores = self.output(features).to(image.dtype)  # in the dtype of the sums of the loss, also under autocast
            log_prob = scores.log_softmax(-1)
            yield Object(rows, place, log_density, expected, log_prob)
            if target is not None and number + 1 < config.objects:
                right = log_prob[-1].argmax(-1) == target[rows, number]
                going = right & (target[rows, number + 1] >= 0)
                if not going.any():
                    return
                if not going.all():
                    rows, image = rows[going], image[going]
                    first, second = (tuple(part[going] for part in state) for state in (first, second))

    def terms(self, image: Tensor, target: Tensor) -> dict[str, Tensor]:
        """The terms of the loss of each image: ``nll``, ``error``, ``baseline`` and ``reinforce``, each (B,)."""
        glimpses = list(self.look(image, True, target))
        reward, nll = image.new_zeros(len(target), self.config.objects), image.new_zeros(len(target))
        for number, item in enumerate(glimpses):
            label = target[item.rows, number]
            reward[item.rows, number] = (item.log_prob[-1].argmax(-1) == label).to(reward.dtype)
            nll = nll.index_add(0, item.rows, -item.log_prob[-1].gather(1, label[:, None])[:, 0])
        error = (reward.sum(1) < (target >= 0).sum(1)).to(reward.dtype)
        ahead = reward.flip(1).cumsum(1).flip(1)  # the objects that are read right from each on
        terms = {"nll": nll, "error": error}
        for number, item in enumerate(glimpses):
            for name, term in policy_terms(item.chosen, item.expected, ahead[item.rows, number]).items():
                terms[name] = terms.get(name, torch.zeros_like(nll)).index_add(0, item.rows, term)
        return terms


class DRAM(nn.Module):
    """Looks, and reads object after object; see the module's docstring.

    A batch has ``image`` (B, C, height, width) and ``target`` (B, S), classes and −1 after the last; or ``label`` (B,),
    if there is one object.
    """

    uses: ClassVar[dict[str, Use]] = {
        "readers.*.glimpse.retina": Use(
            *("location lₙ", "places of pixels", "pixels", "retina", "mean of a cell"),
            rows="glimpses",
            columns="pixels",
        ),
    }
    view: ClassVar[str] = "glimpses"
    """The file of :mod:`regard.views` that draws what :meth:`seen` gives."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.readers = nn.ModuleList(Reader(config) for _ in range(1 + config.pair))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Per image: the loss, ``nll`` of its objects and ``error``, where not all of them were right. In training
        also the terms ``baseline`` and ``reinforce``. Otherwise ``ordered``, how often the first object was looked for
        farther left than the second, where all images have equally many objects."""
        config, image = self.config, batch["image"]
        check_images(image, config.channels, config.height, config.width)
        target = batch["target"] if "target" in batch else batch["label"][:, None]
        if target.ndim != 2 or target.shape[1] != config.objects:
            raise ValueError(f"target is {tuple(target.shape)}, but {config.objects} objects are read")
        if self.training:
            images, targets = repeated(image, config.rollouts), repeated(target, config.rollouts)
            terms = [
                reader.terms(images, order)
                for reader, order in zip(self._readers(), (targets, objects.reverse(targets, config.end)))
            ]
            measures = {
                name: torch.stack([term[name] for term in terms]).sum(0).unflatten(0, (-1, config.rollouts)).mean(1)
                for name in terms[0]
            }
            measures["error"] = measures["error"] / len(terms)
            measures["loss"] = measures["nll"] + measures["baseline"] + config.reinforce * measures["reinforce"]
        else:
            log_probs, locations = self._read(image)
            numbers, _ = objects.likeliest(log_probs, config.end)
            orders = (target, objects.reverse(target, config.end))
            nll = torch.stack([objects.nll(log_prob, order) for log_prob, order in zip(log_probs, orders)]).sum(0)
            wrong = (numbers != objects.without_end(target, config.end)).any(1).to(image.dtype)
            measures = {"loss": nll, "nll": nll, "error": wrong}
            if config.objects > 1 and not config.end:
                x = locations[..., 0].mean((2, 3))  # (B, S)
                measures["ordered"] = (x[:, 0] < x[:, 1]).to(image.dtype)
        share, count = 1 / max(len(target), 1), image.new_tensor(float(len(target)))
        return {"count": count, **{name: value.sum() * share for name, value in measures.items()}}

    def _read(self, image: Tensor) -> tuple[list[Tensor], Tensor]:
        """(B, S, classes): log-probabilities of the objects, mean over runs, for each reader; and where the first
        reader looked, (B, S, runs, N, 2)."""
        runs = max(self.config.test_rollouts, 1)
        log_probs, places = [], None
        for reader in self._readers():
            glimpses = list(reader.look(repeated(image, runs), self.config.test_rollouts > 0))
            object_log_probs = torch.stack([item.log_prob[-1] for item in glimpses], 1).unflatten(0, (-1, runs))
            # object_log_probs is (B, runs, S, classes)
            log_probs.append(
                object_log_probs.exp().mean(1).clamp_min(1e-30).log() if runs > 1 else object_log_probs[:, 0]
            )
            if places is None:
                places = torch.stack([item.location for item in glimpses]).permute(2, 0, 1, 3)  # (B · runs, S, N, 2)
                places = places.unflatten(0, (-1, runs)).transpose(1, 2)
        assert places is not None
        return log_probs, places

    def predict(self, batch: Batch) -> Tensor | dict[str, Tensor]:
        """(B, classes), the probability of each class, if there is one object. Otherwise ``chosen`` (B, S), the
        classes of the likeliest sequence without its end and −1 after the last, and ``probabilities`` (B, S,
        classes)."""
        config = self.config
        check_images(batch["image"], config.channels, config.height, config.width)
        log_probs, _ = self._read(batch["image"])
        numbers, probabilities = objects.likeliest(log_probs, config.end)
        return probabilities[:, 0] if config.objects == 1 else {"chosen": numbers, "probabilities": probabilities}

    def seen(self, batch: Batch) -> dict[str, Tensor]:
        """What the picture shows, of the first reader along the means: ``image`` (B, C, height, width); ``location``
        (B, T, 2); ``patch`` (B, T, C, scales, size, size); ``probability`` (B, T, classes); ``sides`` (scales,), of the
        squares in pixels; ``object`` (T,), for which object each glimpse is, and ``length`` (B,), the glimpses until
        the end was read."""
        config, image = self.config, batch["image"]
        reader = self._readers()[0]
        glimpses = list(reader.look(image, False))
        location = torch.cat([item.location for item in glimpses])
        patches = [reader.glimpse.retina(place, image).context for place in location]
        classes = torch.stack([item.log_prob[-1].argmax(-1) for item in glimpses], 1)  # (B, S)
        ends = (classes == config.classes - 1) & config.end
        read = torch.where(ends.any(1), ends.int().argmax(1) + 1, config.objects)
        return {
            "image": image,
            "location": location.transpose(0, 1),
            "patch": torch.stack(patches, 1),
            "probability": torch.cat([item.log_prob for item in glimpses]).exp().transpose(0, 1),
            "sides": config.size * 2 ** torch.arange(config.scales),
            "object": torch.arange(config.objects).repeat_interleave(config.glimpses),
            "length": read * config.glimpses,
        }

    def multiplications(self) -> int:
        """Multiplications for one image with the most objects."""
        config, reader = self.config, self._readers()[0]
        looks, parts = config.objects * config.glimpses, (reader.first, reader.second, reader.location)
        total = looks * sum(map(_work, parts))
        total += looks * _work(reader.glimpse, (config.size, config.size)) + config.objects * _work(reader.output)
        total += _work(reader.context, reader.context.coarse) if config.context else 0
        return total * max(config.test_rollouts, 1) * len(self.readers)

    def _readers(self) -> list[Reader]:
        return cast("list[Reader]", list(self.readers))


def _work(module: nn.Module, side: tuple[int, ...] = (0, 0)) -> int:
    """Multiplications of one call; ``side`` is the size of the image that its convolutions take one after the other."""
    total = sum(weight.numel() for weight in module.parameters() if weight.ndim == 2)
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            pads = (0, 0) if isinstance(layer.padding, str) else layer.padding
            reach = zip(side, layer.kernel_size, layer.stride, pads)
            side = tuple((length + 2 * pad - kernel) // stride + 1 for length, kernel, stride, pad in reach)
            total += layer.weight.numel() * side[0] * side[1]
    return total
