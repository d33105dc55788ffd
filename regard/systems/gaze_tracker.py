"""A tracker that learns where on its target to look.

Denil, Bazzani, Larochelle & de Freitas 2011, *Learning where to Attend with Deep Architectures for Image Tracking*
(arXiv:1109.3737).

Control: a particle filter over place and scale x of the target. In every frame a gaze a, a place within the target's
box from −1 to 1, is chosen; every particle looks there, and is weighed by how much that glimpse is like the template's:

    xₙ ~ p(x | xₙ of the frame before),   wₙ ∝ ε + exp(−‖h(glimpse at xₙ, a) − h(template, a)‖² / 2s²)

So the filter is attention: the query is the template's features, the keys are those of the particles, values are their
states, the score is a Gaussian, and the context is the estimate. Identity: the features h are the hidden units of a
Gaussian-Bernoulli Boltzmann machine over a glimpse of unit variance, trained by one step of contrastive divergence.

The reward of a gaze is the concentration of the weights, Σ wₙ². Policies: ``random``; ``hedge``, which is told the
reward of all gazes of a grid; ``exp3``, which is told that of its own; ``ucb``, a Gaussian process over continuous
gazes, which takes the one with the highest mean + β deviations.

Deviations: ε, the likelihood of seeing something else at any place, is not in the paper (``doubt=0``). Without it a
gaze at a hidden part has the highest reward: of many particles that all fit badly one is best by far. There is no
orientation. ``tuning`` adds the squared distance of the estimate of one step from the truth to what is trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

import regard
from regard._lazy import nearest
from regard._settings import at_least
from regard.glimpses import Bilinear
from regard.layers.use import Use
from regard.scores import Gaussian

Batch = dict[str, Tensor]
POLICIES = ("ucb", "exp3", "hedge", "random")


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        channels, height, width: of the frames.
        policy: of the gazes.
        particles: N.
        grid: gazes in a row and in a column, of all policies but ``ucb``.
        cells: height and width of a glimpse.
        share: side of a glimpse as a share of the box.
        hidden: units of the Boltzmann machine.
        bandwidth: s.
        doubt: ε.
        noise: standard deviation of a particle's move, and of its first speed, as a share of the box.
        drift: standard deviation of the change of its speed.
        scale_noise: standard deviation of a particle's change of scale, in logarithms.
        adapt: rate at which the template follows what is seen.
        optimism: β of ``ucb``.
        rate: η of ``hedge``, γ of ``exp3``.
        kept: gazes that the Gaussian process remembers.
        tuning: weight of the distance in the loss.
    """

    channels: int
    height: int
    width: int
    policy: str = "ucb"
    particles: int = 200
    grid: int = 5
    cells: int = 8
    share: float = 0.5
    hidden: int = 64
    bandwidth: float = 0.4
    doubt: float = 0.001
    noise: float = 0.08
    drift: float = 0.02
    scale_noise: float = 0.0
    adapt: float = 0.0
    optimism: float = 0.5
    rate: float = 0.3
    kept: int = 50
    tuning: float = 1.0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy cannot be {self.policy!r}: {nearest(self.policy, POLICIES)}")
        at_least(self, "channels", "height", "width", "particles", "grid", "cells", "hidden", "kept")
        if min(self.share, self.bandwidth, self.noise) <= 0 or not 0 < self.rate <= 1 or not 0 <= self.adapt <= 1:
            raise ValueError("share, bandwidth and noise are above 0, rate and adapt at most 1")
        if min(self.doubt, self.drift, self.scale_noise) < 0:
            raise ValueError("doubt, drift and scale_noise are at least 0")


class GazeTracker(nn.Module):
    """Follows a box; see the module's docstring.

    A batch has ``frames`` (B, T, C, height, width) and ``boxes`` (B, T, 4): left, top, width and height in pixels.
    """

    uses: ClassVar[dict[str, Use]] = {
        "sensor": Use("gaze", "places of pixels", "pixels", "bilinear", "none", rows="glimpses", columns="pixels"),
        "weigh": Use(
            "template's features", "particles' features", "particles", "Gaussian", rows="steps", columns="items"
        ),
    }
    gazes: Tensor
    fine: Tensor

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        seen = config.channels * config.cells**2
        self.sensor = Bilinear(align_corners=False)
        self.weigh = regard.Attention(Gaussian(config.bandwidth))
        self.into = nn.Parameter(torch.randn(config.hidden, seen) * seen**-0.5)
        self.hidden_bias = nn.Parameter(torch.zeros(config.hidden))
        self.pixel_bias = nn.Parameter(torch.zeros(seen))
        reach = 1 - config.share
        self.register_buffer("gazes", _square(config.grid, reach), persistent=False)
        self.register_buffer("fine", _square(13, reach), persistent=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Per film, of one frame with particles round the truth: ``near``, the distance of the estimate in shares of
        the box, and ``divergence``, the contrastive divergence of a pixel."""
        frames, boxes = batch["frames"], batch["boxes"]
        count, length = frames.shape[:2]
        row = torch.arange(count, device=frames.device)
        chosen = (torch.rand(count, device=frames.device) * (length - 1)).long() + 1
        gaze = (2 * torch.rand(count, 2, device=frames.device) - 1).to(frames) * (1 - self.config.share)
        offset = 3 * self.config.noise * torch.randn(count, self.config.particles, 2, device=frames.device).to(frames)
        true = boxes[row, chosen]
        around = torch.cat(
            [_centre(true)[:, None] + offset * true[:, None, 2:], true[:, None, 2:].expand_as(offset)], -1
        )
        template = self.look(frames[:, 0], _states(boxes[:, :1]), gaze)
        seen = self.look(frames[row, chosen], around, gaze)
        context = self.weigh(self.features(template), self.features(seen), offset).context[:, 0]  # (B, 2)
        near = context.square().sum(-1)
        divergence = self._divergence(torch.cat([template, seen[:, :8]], 1)).mean(1)
        each = {"loss": divergence + self.config.tuning * near, "near": near.sqrt(), "divergence": divergence}
        share = 1 / max(count, 1)
        return {"count": near.new_tensor(float(count)), **{name: value.sum() * share for name, value in each.items()}}

    def look(self, image: Tensor, states: Tensor, gaze: Tensor) -> Tensor:
        """(B, N, seen): glimpses of unit variance at the gaze (B, 2) of boxes (B, N, 4), centre and size."""
        config = self.config
        count, many = states.shape[:2]
        steps = (torch.arange(config.cells, device=image.device) + 0.5) / config.cells * 2 - 1
        cells = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1).to(image)  # (cells, cells, 2)
        middle = states[..., :2] + gaze[:, None] * states[..., 2:] / 2  # (B, N, 2)
        half = config.share * states[..., 2:] / 2
        place = middle[:, :, None, None] + cells * half[:, :, None, None]
        size = place.new_tensor([config.width, config.height])
        grid = (2 * place / size - 1).reshape(count, many * config.cells, config.cells, 2)
        seen = self.sensor(grid, image).context  # (B, C, N·cells, cells)
        seen = seen.reshape(count, config.channels, many, -1).transpose(1, 2).flatten(2)
        centred = seen - seen.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-2).sqrt()

    def features(self, seen: Tensor) -> Tensor:
        """h (…, hidden) of glimpses (…, seen)."""
        return torch.sigmoid(seen @ self.into.T + self.hidden_bias)

    def free_energy(self, seen: Tensor) -> Tensor:
        """−log Σ_h exp(−E) of glimpses (…, seen) → (…)."""
        hidden = functional.softplus(seen @ self.into.T + self.hidden_bias).sum(-1)
        return (seen - self.pixel_bias).square().sum(-1) / 2 - hidden

    def _divergence(self, seen: Tensor) -> Tensor:
        with torch.no_grad():
            hidden = torch.bernoulli(self.features(seen))
            made = hidden @ self.into + self.pixel_bias
            made = made + torch.randn_like(made)
        return (self.free_energy(seen) - self.free_energy(made)) / seen.shape[-1]

    def _weighed(
        self, image: Tensor, states: Tensor, gaze: Tensor, templates: list[tuple[float, Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The estimate (B, 4), the weights (B, N) of particles and the reward (B,) of the gaze; templates are shares of
        boxes in images."""
        each = [share * self.features(self.look(image, box, gaze)) for share, image, box in templates]
        query = torch.stack(each).sum(0)
        out = self.weigh(query, self.features(self.look(image, states, gaze)), states, weights=True)
        assert out.weights is not None and out.scores is not None
        weights, evidence = out.weights[:, 0], out.scores[:, 0].exp().mean(-1)
        tiny = torch.finfo(evidence.dtype).tiny
        seen = ((evidence + tiny) / (evidence + tiny + self.config.doubt))[:, None]  # (B, 1): that it is the target
        found = seen * out.context[:, 0] + (1 - seen) * states.mean(1)
        weights = seen * weights + (1 - seen) / states.shape[1]
        return found, weights, weights.square().sum(-1)

    @torch.no_grad()
    def track(self, batch: Batch) -> dict[str, Tensor]:
        """From the box of the first frame to the end: ``box`` (B, T, 4); ``gaze`` (B, T − 1, 2), in the box; ``reward``
        (B, T − 1); ``particles`` (B, T − 1, N, 4) and ``weights`` (B, T − 1, N) before resampling; ``surface``
        (B, T − 1, rows, columns), what the policy expects of each gaze."""
        config, frames = self.config, batch["frames"]
        first = _states(batch["boxes"][:, :1])  # (B, 1, 4)
        count = len(frames)
        states = first.expand(-1, config.particles, -1)
        speed = config.noise * torch.randn_like(states[..., :2]) * states[..., 2:]
        templates = [(1.0, frames[:, 0], first)]
        policy = _Policy(self, count, frames)
        boxes, kept = [first[:, 0]], []
        for image in frames.unbind(1)[1:]:
            moved = config.noise * torch.randn(count, config.particles, 2, device=frames.device).to(frames)
            speed = speed + config.drift * torch.randn_like(moved) * states[..., 2:]
            grown = torch.exp(config.scale_noise * torch.randn_like(moved[..., :1]))
            size = (states[..., 2:] * grown).clamp_min(2)
            states = torch.cat([states[..., :2] + speed + moved * size, size], -1)
            edge = states.new_tensor([config.width, config.height])
            states = torch.cat([states[..., :2].clamp_min(0).minimum(edge), states[..., 2:]], -1)

            gaze, surface = policy.choose()
            found, weights, reward = self._weighed(image, states, gaze, templates)
            everywhere = []
            if config.policy == "hedge":
                for each in self.gazes.to(frames):
                    everywhere.append(self._weighed(image, states, each.expand(count, 2), templates)[2])
            policy.learn(reward, everywhere)
            if config.adapt:
                templates = [(1 - config.adapt, frames[:, 0], first), (config.adapt, image, found[:, None])]
            kept.append((gaze, reward, states, weights, surface))
            boxes.append(found)
            drawn = torch.multinomial(weights.clamp_min(1e-12), config.particles, replacement=True)
            states, speed = (each.gather(1, drawn[..., None].expand_as(each)) for each in (states, speed))
        names = ("gaze", "reward", "particles", "weights", "surface")
        path = torch.stack(boxes, 1)
        box = torch.cat([path[..., :2] - path[..., 2:] / 2, path[..., 2:]], -1)
        return {"box": box, **{name: torch.stack(part, 1) for name, part in zip(names, zip(*kept))}}


class _Policy:
    """Where to look next, for B films at once."""

    def __init__(self, model: GazeTracker, count: int, like: Tensor):
        self.config, self.count = model.config, count
        self.places = (model.fine if self.config.policy == "ucb" else model.gazes).to(like)
        self.gain = like.new_zeros(count, len(self.places))
        self.looked: list[Tensor] = []
        self.rewards: list[Tensor] = []
        self.chance = torch.full_like(self.gain, 1 / len(self.places))

    def choose(self) -> tuple[Tensor, Tensor]:
        """The gaze (B, 2), and what is expected of all of them (B, rows, columns)."""
        config, many = self.config, len(self.places)
        surface = self.chance
        if config.policy == "ucb":
            surface, deviation = self._process()
            self.chosen = (surface + config.optimism * deviation + 1e-4 * torch.rand_like(surface)).argmax(-1)
        else:
            if config.policy == "hedge":
                self.chance = (config.rate * self.gain).log_softmax(-1).exp()
            elif config.policy == "exp3":
                spread = (config.rate * self.gain / many).log_softmax(-1).exp()
                self.chance = (1 - config.rate) * spread + config.rate / many
            surface = self.chance
            self.chosen = torch.multinomial(self.chance, 1)[:, 0]
        side = round(many**0.5)
        return self.places[self.chosen], surface.view(self.count, side, side)

    def learn(self, reward: Tensor, everywhere: list[Tensor]) -> None:
        """The reward (B,) of the gaze that was chosen, or of all of them."""
        if everywhere:
            self.gain = self.gain + torch.stack(everywhere, -1)
        elif self.config.policy == "exp3":
            chance = self.chance.gather(1, self.chosen[:, None])[:, 0]
            self.gain = self.gain.scatter_add(1, self.chosen[:, None], (reward / chance)[:, None])
        self.looked = [*self.looked, self.places[self.chosen]][-self.config.kept :]
        self.rewards = [*self.rewards, reward][-self.config.kept :]

    def _process(self) -> tuple[Tensor, Tensor]:
        """Mean and deviation (B, places) of a Gaussian process over log rewards, given those seen."""
        if not self.looked:
            return torch.zeros_like(self.gain), torch.ones_like(self.gain)
        places, rewards = torch.stack(self.looked, 1), torch.stack(self.rewards, 1).clamp_min(1e-30).log()
        middle = rewards.mean(1, keepdim=True)
        spread = rewards.std(1, keepdim=True, unbiased=False) + 0.1
        known = _kernel(places, places) + 0.3 * torch.eye(places.shape[1]).to(places)
        cross = _kernel(self.places.expand(self.count, -1, -1), places)  # (B, places, n)
        solved = torch.cholesky_solve(cross.mT, torch.linalg.cholesky(known))  # (B, n, places)
        mean = (((rewards - middle) / spread)[:, None] @ solved)[:, 0]
        return mean, (1 - (cross.mT * solved).sum(1)).clamp_min(1e-6).sqrt()


def _kernel(one: Tensor, other: Tensor) -> Tensor:
    return torch.exp(-torch.cdist(one, other).square() / (2 * 0.3**2))


def _square(side: int, reach: float) -> Tensor:
    steps = torch.linspace(-reach, reach, side) if side > 1 else torch.zeros(1)
    return torch.cartesian_prod(steps, steps).flip(-1)


def _centre(boxes: Tensor) -> Tensor:
    return boxes[..., :2] + boxes[..., 2:] / 2


def _states(boxes: Tensor) -> Tensor:
    return torch.cat([_centre(boxes), boxes[..., 2:]], -1)


VARIANTS: dict[str, dict[str, Any]] = {name: {"policy": name} for name in POLICIES[1:]}
