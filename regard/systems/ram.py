"""RAM: a network that classifies an image by a few glimpses, each where it chooses to look.

Mnih, Heess, Graves & Kavukcuoglu 2014, *Recurrent Models of Visual Attention* (arXiv:1406.6247).

    gₜ = f_g(ρ(x, lₜ), lₜ)            glimpse: what the retina sees at lₜ, and where that is
    hₜ = ReLU(W hₜ₋₁ + U gₜ)          core (or an LSTM)
    lₜ₊₁ ~ N(tanh(f_l(hₜ)), σ²)       where to look next: a choice, without a gradient
    a = softmax(f_a(h_T))             the class, after T glimpses

So attention is hard: the query is the place lₜ, keys are the places of the pixels, values the pixels, and the weights
1/n over the n pixels of a cell of the retina. The choices are trained by the reward: r_T = 1 if the class is right,
else 0, and R = Σ γᵗ⁻¹ rₜ. The hybrid loss has three terms:

    −log a_y                                  trains action, core and glimpse networks
    Σₜ (bₜ − R)² / (T − 1)                     trains the baseline bₜ = f_b(hₜ)
    −Σₜ log N(lₜ₊₁; f_l(hₜ)) (R − bₜ)          REINFORCE, trains f_l

f_l and f_b see hₜ, and the glimpse network sees lₜ, without a gradient: REINFORCE never reaches the core. The gradient
is the mean over ``rollouts`` runs an image. In ``eval`` mode, locations are the means of their distributions, the first
is the centre; with ``test_rollouts`` they are drawn, and the classes' probabilities averaged over N rollouts.

``policy = "random"`` is the control, with random locations.

Deviations: tanh keeps the mean of a location within the image, and a drawn one is clipped to it (the probability is
that of what was drawn). f_l has a hidden layer if ``location_hidden`` is not 0. The paper's text leaves θ_l out of the
trained parameters, and its J sums rewards without the γ of its R; here θ_l is trained and R is discounted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard._lazy import nearest
from regard._settings import at_least
from regard.layers.glimpse import CORES, Core, GlimpseNetwork, check_images
from regard.layers.reinforce import discounted, log_normal, policy_terms, repeated
from regard.layers.use import Use

Batch = dict[str, Tensor]
POLICIES = ("learned", "random")
STARTS = ("random", "centre")


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's for MNIST.

    Attributes:
        channels, height, width, classes: of the images.
        glimpses: number of glimpses, T.
        size, scales: of the retina.
        what, where: units of the glimpse network's first layers, for the patch and for the place.
        hidden: units of the core, and of the glimpse network's output.
        core: ``rnn`` or ``lstm``.
        location_hidden: units of a hidden layer of the location network; 0 is none.
        policy: ``learned``, or ``random`` locations.
        start: in training the first location is ``random``, or the ``centre``.
        std: σ of the locations, where 2 is the width of the image.
        discount: γ.
        rollouts: runs of an image in training.
        test_rollouts: the same when it is not trained; 0 is one run along the means.
        reinforce: the weight of the last term of the loss.
    """

    channels: int
    height: int
    width: int
    classes: int
    glimpses: int = 6
    size: int = 8
    scales: int = 1
    what: int = 128
    where: int = 128
    hidden: int = 256
    core: str = "rnn"
    location_hidden: int = 0
    policy: str = "learned"
    start: str = "random"
    std: float = 0.15
    discount: float = 1.0
    rollouts: int = 1
    test_rollouts: int = 0
    reinforce: float = 1.0

    def __post_init__(self) -> None:
        for name, options in {"core": CORES, "policy": POLICIES, "start": STARTS}.items():
            if getattr(self, name) not in options:
                raise ValueError(f"{name} cannot be {getattr(self, name)!r}: {nearest(getattr(self, name), options)}")
        at_least(
            self, "channels", "height", "width", "classes", "glimpses", "size", "scales", "what", "where", "hidden"
        )
        if self.rollouts < 1 or self.test_rollouts < 0 or self.location_hidden < 0:
            raise ValueError(
                f"rollouts = {self.rollouts}, test_rollouts = {self.test_rollouts}, location_hidden = "
                f"{self.location_hidden}: at least 1, 0 and 0"
            )
        if self.std <= 0:
            raise ValueError(f"std = {self.std}: without a spread no other place is ever tried")
        if self.size > min(self.height, self.width):
            raise ValueError(
                f"a glimpse of {self.size} × {self.size} is larger than an image of {self.height} × {self.width}"
            )


VARIANTS: dict[str, dict[str, Any]] = {
    "translated": {"size": 12, "scales": 3},
    "cluttered": {"size": 12, "scales": 3, "glimpses": 8},
    "random": {"policy": "random"},
}
"""The paper's settings for larger canvases, and the control."""


class Rollout(NamedTuple):
    """One run over N images.

    Attributes:
        locations: (T, N, 2), where it looked.
        drawn: (T − 1, N, 2), the same from the second on, before clipping.
        hidden: (T, N, hidden), the core after each glimpse.
    """

    locations: Tensor
    drawn: Tensor
    hidden: Tensor


class RAM(nn.Module):
    """Glimpses, then a class; see the module's docstring.

    A batch has ``image`` (B, C, height, width) and ``label`` (B,).
    """

    uses: ClassVar[dict[str, Use]] = {
        "glimpse.retina": Use(
            *("location lₜ", "places of pixels", "pixels", "retina", "mean of a cell"),
            rows="glimpses",
            columns="pixels",
        ),
    }
    view: ClassVar[str] = "glimpses"
    """The file of :mod:`regard.views` that draws what :meth:`seen` gives."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        hidden, between = config.hidden, config.location_hidden
        self.glimpse = GlimpseNetwork(config.channels, config.size, config.scales, config.what, config.where, hidden)
        self.core = Core(config.core, hidden, hidden)
        self.action = nn.Linear(hidden, config.classes)
        if config.policy == "learned":
            layers = [nn.Linear(hidden, between), nn.ReLU()] if between else []
            self.location = nn.Sequential(*layers, nn.Linear(between or hidden, 2), nn.Tanh())
            self.baseline = nn.Linear(hidden, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Per image: the hybrid loss, ``nll`` and ``error`` of the class, and the terms ``baseline`` and
        ``reinforce``."""
        config, label = self.config, batch["label"]
        runs = config.rollouts if self.training else max(config.test_rollouts, 1)
        run = self.look(repeated(batch["image"], runs))
        log_prob = self._log_prob(run.hidden[-1]).unflatten(0, (-1, runs))  # (B, runs, classes)
        right = log_prob.argmax(-1) == label[:, None]
        if self.training:
            nll = -log_prob.mean(1).gather(1, label[:, None])[:, 0]
            wrong = 1 - right.float().mean(1)
        else:
            together = log_prob.exp().mean(1)
            nll = -together.clamp_min(1e-30).log().gather(1, label[:, None])[:, 0]
            wrong = (together.argmax(-1) != label).float()
        measures = {"nll": nll, "error": wrong}
        if config.policy == "learned" and config.glimpses > 1:
            rewards = functional.pad(right.float().flatten()[:, None], (config.glimpses - 1, 0))  # (N, T)
            terms = self.policy_terms(run, discounted(rewards, config.discount))
            measures |= {name: term.unflatten(0, (-1, runs)).mean(1) for name, term in terms.items()}
            measures["loss"] = nll + measures["baseline"] + config.reinforce * measures["reinforce"]
        else:
            measures["loss"] = nll
        share = 1 / max(len(label), 1)
        count = label.new_tensor(len(label), dtype=torch.float32)
        return {"count": count, **{name: value.sum() * share for name, value in measures.items()}}

    def policy_terms(self, run: Rollout, reward: Tensor) -> dict[str, Tensor]:
        """For a reward R (N,): ``baseline`` (bₜ − R)², mean over the T − 1 choices, and ``reinforce``
        −Σₜ log π(lₜ₊₁) (R − bₜ), each (N,)."""
        before = run.hidden[:-1].detach()
        expected = self.baseline(before)[..., 0]  # (T − 1, N)
        log_density = log_normal(run.drawn, self.location(before), self.config.std)
        return policy_terms(log_density, expected, reward)

    def look(self, image: Tensor) -> Rollout:
        """Glimpse after glimpse over images (N, C, height, width)."""
        config, count = self.config, len(image)
        check_images(image, config.channels, config.height, config.width)
        drawing = self.training or config.test_rollouts > 0
        noise = image.new_zeros(config.glimpses, count, 2)
        if config.policy == "random":
            noise.uniform_(-1, 1)
        elif drawing:
            noise.normal_(0, config.std)
            noise[0] = torch.rand_like(noise[0]) * 2 - 1 if config.start == "random" else 0.0
        location, state = noise[0], self.core.start(image)
        locations, samples, hidden = [location], [], []
        for t in range(config.glimpses):
            state = self.core(self.glimpse(location, image), state)
            hidden.append(state[0])
            if t + 1 < config.glimpses:
                with torch.no_grad():  # a choice has no gradient; policy_terms trains it
                    samples.append(
                        noise[t + 1] if config.policy == "random" else self.location(state[0]) + noise[t + 1]
                    )
                    location = samples[-1].clamp(-1, 1)
                locations.append(location)
        choices = torch.stack(samples) if samples else noise[:0]
        return Rollout(torch.stack(locations), choices, torch.stack(hidden))

    def predict(self, batch: Batch) -> Tensor:
        """(B, classes): the probability of each class."""
        runs = max(self.config.test_rollouts, 1)
        run = self.look(repeated(batch["image"], runs))
        return self._log_prob(run.hidden[-1]).exp().unflatten(0, (-1, runs)).mean(1)

    def seen(self, batch: Batch) -> dict[str, Tensor]:
        """What the picture shows: ``image`` (B, C, height, width); ``location`` (B, T, 2); ``patch`` (B, T, C, scales,
        size, size); ``probability`` (B, T, classes), the classes after each glimpse; ``sides`` (scales,), of the
        squares in pixels."""
        config, image = self.config, batch["image"]
        run = self.look(image)
        patches = [self.glimpse.retina(location, image).context for location in run.locations]
        return {
            "image": image,
            "location": run.locations.transpose(0, 1),
            "patch": torch.stack(patches, 1),
            "probability": self._log_prob(run.hidden).exp().transpose(0, 1),
            "sides": config.size * 2 ** torch.arange(config.scales),
        }

    def multiplications(self) -> int:
        """Multiplications for one image; they do not depend on its size."""
        modules = [self.glimpse, self.core, *([self.location] if self.config.policy == "learned" else [])]
        weights = [weight for module in modules for weight in module.parameters() if weight.ndim == 2]
        return self.config.glimpses * sum(weight.numel() for weight in weights) + self.action.weight.numel()

    def _log_prob(self, hidden: Tensor) -> Tensor:
        return self.action(hidden).log_softmax(-1)
