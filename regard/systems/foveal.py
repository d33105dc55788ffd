"""A Boltzmann machine that puts foveal glimpses together, and learns where to fixate next.

Larochelle & Hinton 2010, *Learning to combine foveal glimpses with a third-order Boltzmann machine* (NIPS 23).

A retina sees a picture sharply round a fixation and coarsely farther out: x_k. Pixels, hidden units and the place of
the fixation interact three by three, with factored weights; y is the class, and the K fixations are at places p_k of a
grid:

    W(p) = P diag(z(p)) F,   z(p) = σ(free parameters of the place p)
    E(y, x₁…x_K, h) = −dᵀy − cᵀh − hᵀU y − Σ_k [bᵀx_k + hᵀW(p_k) x_k]
    p(y | x₁…x_k) ∝ exp(d_y + Σ_j softplus(c_j + U_jy + Σ_i≤k (W(p_i) x_i)_j))

The last line sums over all 2^H states of the hidden units, exactly. What is trained is the hybrid-sequential cost; η is
``generative``, and the gradient of that term is estimated by one step of contrastive divergence (CD-1):

    −Σ_k log p(y | x₁…x_k) / K − η Σ_k log p(y, x_k | x₁…x_k₋₁) / K

The controller is a linear score f(s_k, p) of every place, from the hidden units s_k = E[h | x₁…x_k] and which places
were fixated. It is trained so that softmax(f) over the places is ∝ p(y | x₁…x_k, x at p)^β of the true class y
after one more fixation, which can be computed for all places. The next fixation is the best place that was not fixated
yet, since the same evidence would count twice; in training, with probability ε, a random one of these places.

So attention is hard: the query is the fixation, keys are the places of the pixels, values the pixels, and the weights
1/n over the n pixels of a cell of the retina.

``policy = "random"`` is the control: it fixates anywhere.

Deviations: the cells of the periphery are squares, of twice the side in each further ring, and no cell lies where a
sharper one does. Machine and controller are trained together by one optimizer. Brightness from 0 to 1 takes the place
of the machine's binary pixels where it sees, and binary pixels are drawn where it makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard._lazy import nearest
from regard._settings import at_least
from regard.glimpses import Retina
from regard.layers.glimpse import check_images
from regard.layers.use import Use

Batch = dict[str, Tensor]
POLICIES = ("learned", "random")


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        channels, height, width, classes: of the images.
        fixations: K.
        size: height and width of the fovea in pixels; a multiple of 4, so that cells of the periphery fit round it.
        rings: of the periphery, each with cells of twice the side.
        grid: places in a row and in a column.
        reach: how far the outermost places are from the centre, where 1 is the edge of the image.
        factors: D.
        hidden: H.
        policy: ``learned``, or ``random`` places.
        explore: ε.
        sharpness: β.
        generative: η.
    """

    channels: int
    height: int
    width: int
    classes: int
    fixations: int = 4
    size: int = 8
    rings: int = 1
    grid: int = 5
    reach: float = 0.6
    factors: int = 128
    hidden: int = 256
    policy: str = "learned"
    explore: float = 0.3
    sharpness: float = 1.0
    generative: float = 0.0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy cannot be {self.policy!r}: {nearest(self.policy, POLICIES)}")
        at_least(self, "channels", "height", "width", "classes", "fixations", "size", "grid", "factors", "hidden")
        if not (self.rings >= 0 and self.generative >= 0 and self.sharpness > 0):
            settings = f"rings = {self.rings}, generative = {self.generative}, sharpness = {self.sharpness}"
            raise ValueError(f"{settings}: not negative, and the last above 0")
        if not 0 <= self.explore <= 1 or not 0 <= self.reach <= 1:
            raise ValueError(f"explore = {self.explore}, reach = {self.reach}: between 0 and 1")
        if self.fixations > self.grid**2:
            raise ValueError(f"fixations = {self.fixations}: a grid of {self.grid} × {self.grid} has fewer places")
        if self.size % 4 and self.rings:
            raise ValueError(f"size = {self.size}: rings fit round a fovea whose side is a multiple of 4")
        if self.size > min(self.height, self.width):
            raise ValueError(
                f"a fovea of {self.size} × {self.size} is larger than an image of {self.height} × {self.width}"
            )


VARIANTS: dict[str, dict[str, Any]] = {"random": {"policy": "random"}, "hybrid": {"generative": 0.01}}


class Seen(NamedTuple):
    """Fixations at B images.

    Attributes:
        places: (B, K), numbers of places in the grid.
        pixels: (B, K, R), what the retina saw.
        inputs: (B, K, H), Σ_i≤k W(p_i) x_i after each fixation.
        log_prob: (B, K, classes), log p(y | x₁…x_k).
        scores: (B, K, places), f before each fixation.
    """

    places: Tensor
    pixels: Tensor
    inputs: Tensor
    log_prob: Tensor
    scores: Tensor


class Foveal(nn.Module):
    """Fixates, and says what it saw; see the module's docstring.

    A batch has ``image`` (B, C, height, width) and ``label`` (B,).
    """

    uses: ClassVar[dict[str, Use]] = {
        "retina": Use(
            *("fixation p_k", "places of pixels", "pixels", "retina", "mean of a cell"),
            rows="glimpses",
            columns="pixels",
        ),
    }
    view: ClassVar[str] = "glimpses"
    """The file of :mod:`regard.views` that draws what :meth:`seen` gives."""
    grid: Tensor
    """(places, 2): x and y of the places, row by row."""
    once: Tensor
    """(scales, size, size): the cells of the retina that no sharper one shows."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        places, scales = config.grid**2, 1 + config.rings
        self.retina = Retina(config.size, scales)
        once = torch.ones(scales, config.size, config.size, dtype=torch.bool)
        inner = slice(config.size // 4, 3 * config.size // 4)
        once[1:, inner, inner] = False
        self.register_buffer("once", once, persistent=False)
        steps = torch.linspace(-config.reach, config.reach, config.grid) if config.grid > 1 else torch.zeros(1)
        self.register_buffer("grid", torch.cartesian_prod(steps, steps).flip(-1), persistent=False)
        cells = config.channels * int(once.sum())
        self.into = nn.Parameter(torch.randn(config.factors, cells) * cells**-0.5)  # F
        self.out = nn.Parameter(torch.randn(config.hidden, config.factors) * config.factors**-0.5)  # P
        self.gates = nn.Parameter(torch.randn(places, config.factors))  # z before σ
        self.by_class = nn.Parameter(torch.randn(config.classes, config.hidden) * 0.1)  # Uᵀ
        self.hidden_bias = nn.Parameter(torch.zeros(config.hidden))  # c
        self.class_bias = nn.Parameter(torch.zeros(config.classes))  # d
        if config.generative:
            self.pixel_bias = nn.Parameter(torch.full((cells,), -2.0))  # b
        if config.policy == "learned":
            self.controller = nn.Linear(config.hidden + places, places)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Per image: the loss, ``nll`` and ``error`` of the class after all fixations, and ``error_1`` … after each;
        in training also the terms ``controller`` and ``generative``, if there are."""
        config, label = self.config, batch["label"]
        fixed = self.fixate(batch["image"])
        nlls = -fixed.log_prob.gather(-1, label[:, None, None].expand(-1, config.fixations, 1))[..., 0]  # (B, K)
        wrong = (fixed.log_prob.argmax(-1) != label[:, None]).to(nlls.dtype)
        terms = {"loss": nlls.mean(1), "nll": nlls[:, -1], "error": wrong[:, -1]}
        terms |= {f"error_{k + 1}": wrong[:, k] for k in range(config.fixations)}
        if self.training and config.policy == "learned":
            target = self._worth(batch["image"], fixed, label)
            terms["controller"] = -(target * fixed.scores.log_softmax(-1)).sum(-1).mean(1)
            terms["loss"] = terms["loss"] + terms["controller"]
        if self.training and config.generative:
            terms["generative"] = self._divergence(fixed, label)
            terms["loss"] = terms["loss"] + config.generative * terms["generative"]
        share, count = 1 / max(len(label), 1), nlls.new_tensor(float(len(label)))
        return {"count": count, **{name: value.sum() * share for name, value in terms.items()}}

    def fixate(self, image: Tensor) -> Seen:
        """Fixation after fixation over images (B, C, height, width)."""
        config, count = self.config, len(image)
        check_images(image, config.channels, config.height, config.width)
        places = config.grid**2
        summed = image.new_zeros(count, config.hidden)
        visits = image.new_zeros(count, places)
        log_prob = self.posterior(summed)
        fixations = []
        for _ in range(config.fixations):
            place = torch.rand_like(visits).masked_fill(visits > 0, -1.0).argmax(-1)
            if config.policy == "learned":
                scores = self.controller(torch.cat([self._expected(summed, log_prob).detach(), visits], -1))
                anywhere = torch.rand(count, device=image.device) < (config.explore if self.training else 0.0)
                place = torch.where(anywhere, place, scores.masked_fill(visits > 0, -torch.inf).argmax(-1))
            else:
                scores = image.new_zeros(count, places)
            pixels = self.look(self.grid[place], image)
            summed = summed + self.drive(pixels, place)
            log_prob = self.posterior(summed)
            visits = visits + functional.one_hot(place, places).to(visits.dtype)
            fixations.append((place, pixels, summed, log_prob, scores))
        return Seen(*(torch.stack(part, 1) for part in zip(*fixations)))

    def look(self, location: Tensor, image: Tensor) -> Tensor:
        """(…, R): the cells of fovea and periphery at a location (…, 2) of an image (…, C, height, width)."""
        patches = self.retina(location.to(image.dtype), image).context  # (…, C, scales, size, size)
        return patches[..., self.once].flatten(-2)

    def drive(self, pixels: Tensor, place: Tensor) -> Tensor:
        """W(p) x = P diag(z(p)) F x of pixels (…, R) at places (…) → (…, H)."""
        return (pixels @ self.into.T * self.gates[place].sigmoid()) @ self.out.T

    def posterior(self, summed: Tensor) -> Tensor:
        """log p(y | x₁…x_k), exactly, by the summed inputs (…, H) of the hidden units → (…, classes)."""
        return (-self.free_energy(summed)).log_softmax(-1)

    def free_energy(self, summed: Tensor) -> Tensor:
        """−log Σ_h exp(−E) of each class, without the terms of the pixels alone: (…, H) → (…, classes)."""
        hidden = summed.unsqueeze(-2) + self.hidden_bias + self.by_class  # (…, classes, H)
        return -self.class_bias - functional.softplus(hidden).sum(-1)

    def _expected(self, summed: Tensor, log_prob: Tensor) -> Tensor:
        """E[h | x₁…x_k] (…, H)."""
        hidden = (summed.unsqueeze(-2) + self.hidden_bias + self.by_class).sigmoid()
        return (log_prob.exp().unsqueeze(-1) * hidden).sum(-2)

    @torch.no_grad()
    def _worth(self, image: Tensor, fixed: Seen, label: Tensor) -> Tensor:
        """(B, K, places): ∝ p(y | x₁…x_k₋₁, x at p)^β of the true class, for every place p."""
        count, places = len(image), len(self.grid)
        everywhere = self.grid.expand(count, -1, -1)
        pixels = self.look(everywhere, image.unsqueeze(1).expand(-1, places, -1, -1, -1))
        more = self.drive(pixels, torch.arange(places, device=image.device))  # (B, places, H)
        before = functional.pad(fixed.inputs[:, :-1], (0, 0, 1, 0))  # (B, K, H)
        log_probs = []
        for summed in before.unbind(1):
            log_prob = self.posterior(summed.unsqueeze(1) + more)  # (B, places, classes)
            log_probs.append(log_prob.gather(-1, label[:, None, None].expand(-1, places, 1))[..., 0])
        return (self.config.sharpness * torch.stack(log_probs, 1)).log_softmax(-1).exp()

    def _divergence(self, fixed: Seen, label: Tensor) -> Tensor:
        """CD-1 of −log p(y, x_k | x₁…x_k₋₁), mean over k: the free energy of what is, less that of what the machine
        makes of it in one step. Its gradient is that of contrastive divergence; its value is no likelihood."""
        before = functional.pad(fixed.inputs[:, :-1], (0, 0, 1, 0))
        labels = label[:, None].expand(-1, self.config.fixations)
        with torch.no_grad():
            active = torch.sigmoid(fixed.inputs + self.hidden_bias + self.by_class[labels])
            hidden = torch.bernoulli(active)
            gates = self.gates[fixed.places].sigmoid()
            reconstruction = torch.sigmoid(self.pixel_bias + (hidden @ self.out * gates) @ self.into)
            pixels = torch.bernoulli(reconstruction)
            shares = (hidden @ self.by_class.T + self.class_bias).log_softmax(-1).exp()
            others = torch.multinomial(shares.flatten(0, 1), 1).view_as(labels)
        real = self._joint(before, fixed.pixels, fixed.places, labels)
        return (real - self._joint(before, pixels, fixed.places, others)).mean(1)

    def _joint(self, before: Tensor, pixels: Tensor, places: Tensor, label: Tensor) -> Tensor:
        """Free energy of a class and the pixels of one more fixation, after those that gave ``before``."""
        energy = self.free_energy(before + self.drive(pixels, places)).gather(-1, label[..., None])[..., 0]
        return energy - pixels @ self.pixel_bias

    def predict(self, batch: Batch) -> Tensor:
        """(B, classes): the probability of each class."""
        return self.fixate(batch["image"]).log_prob[:, -1].exp()

    def seen(self, batch: Batch) -> dict[str, Tensor]:
        """What the picture shows: ``image`` (B, C, height, width); ``location`` (B, K, 2); ``patch`` (B, K, C, scales,
        size, size), 0 where a sharper one shows more; ``probability`` (B, K, classes), after each fixation; ``sides``
        (scales,), of the squares in pixels."""
        image, config = batch["image"], self.config
        fixed = self.fixate(image)
        location = self.grid[fixed.places].to(image.dtype)
        patches = [self.retina(place, image).context * self.once for place in location.unbind(1)]
        return {
            "image": image,
            "location": location,
            "patch": torch.stack(patches, 1),
            "probability": fixed.log_prob.exp(),
            "sides": config.size * 2 ** torch.arange(1 + config.rings),
        }

    def multiplications(self) -> int:
        """Multiplications for one image."""
        count = self.into.numel() + self.out.numel()
        if self.config.policy == "learned":
            count += self.controller.weight.numel()
        return self.config.fixations * count
