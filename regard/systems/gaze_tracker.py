"""A tracker that learns where on its target to look.

Denil, Bazzani, Larochelle & de Freitas 2011, *Learning where to Attend with Deep Architectures for Image Tracking*
(arXiv:1109.3737).

Control: a particle filter over place and scale x of the target. In every frame a gaze a, a place within the target's
box from −1 to 1, is chosen; every particle looks there, and is weighed by how much that glimpse is like the template's:

    xₙ ~ p(x | xₙ of the frame before),   wₙ ∝ ε + exp(−‖h(glimpse at xₙ, a) − h(template, a)‖² / 2s²)

So the filter is attention: the query is the template's features, the keys are those of the particles, values are their
states, the score is a Gaussian, and the context is the estimate. Identity: the features h are the hidden units of a
Gaussian-Bernoulli Boltzmann machine over a glimpse of unit variance, trained by one step of contrastive divergence.

The reward of a gaze is the concentration of the weights, Σ wₙ². Policies: ``random``; ``hedge``, which observes the
rewards of all gazes of a grid; ``exp3``, which observes only the reward of the gaze it chose; ``ucb``, a Gaussian
process over continuous gazes, which takes the one with the highest mean + β deviations.

The target changes its looks: it turns, comes nearer, the light changes. So there are K = 2 templates, the box of the
first frame and a running mean of the tracker's estimates since, each with a prior πₖ; both are queries:

    p(k | frame) ∝ πₖ · meanₙ exp(−‖hₙ − hₖ‖² / 2s²),  p(neither) ∝ ε,   w = Σₖ p(k) wₖ + p(neither) / N

Deviations: ε, the likelihood of seeing something else at any place, is not in the paper (``doubt=0``). Without it a
gaze at a hidden part has the highest reward: of many particles that all fit badly one is best by far. There is no
orientation. The paper has the template of the first frame alone (``adapt=0``), which loses targets that change. The
running mean moves by ``adapt`` · p(either), so that it changes little where the target is not seen, and covers the
whole box, not the gaze alone. Speeds decay (``inertia``) and sizes return to the first (``pull``): random walks of both
would grow without bound. Resampling is systematic. The loss has one more term, ``tuning`` times the squared distance of
the estimate of one step from the truth.
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
        inertia: share of a particle's speed that stays.
        scale_noise: standard deviation of a particle's change of scale, in logarithms.
        pull: share of a change of scale, in logarithms, that is taken back in every frame.
        adapt: rate at which the second template follows the estimate; 0 for the first template alone.
        recent: prior of the second template.
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
    doubt: float = 0.0003
    noise: float = 0.06
    drift: float = 0.02
    inertia: float = 0.8
    scale_noise: float = 0.03
    pull: float = 0.005
    adapt: float = 0.2
    recent: float = 0.5
    optimism: float = 1.0
    rate: float = 0.3
    kept: int = 50
    tuning: float = 1.0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy cannot be {self.policy!r}: {nearest(self.policy, POLICIES)}")
        at_least(self, "channels", "height", "width", "particles", "grid", "cells", "hidden", "kept")
        if min(self.share, self.bandwidth, self.noise) <= 0 or not 0 < self.rate <= 1:
            raise ValueError("share, bandwidth and noise are above 0, rate is at most 1")
        if min(self.doubt, self.drift, self.scale_noise) < 0:
            raise ValueError("doubt, drift and scale_noise are at least 0")
        if not all(0 <= value <= 1 for value in (self.inertia, self.pull, self.adapt, self.recent)):
            raise ValueError("inertia, pull, adapt and recent are between 0 and 1")


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
        inputs = config.channels * config.cells**2
        self.sensor = Bilinear(align_corners=False)
        self.weigh = regard.Attention(Gaussian(config.bandwidth))
        self.into = nn.Parameter(torch.randn(config.hidden, inputs) * inputs**-0.5)
        self.hidden_bias = nn.Parameter(torch.zeros(config.hidden))
        self.pixel_bias = nn.Parameter(torch.zeros(inputs))
        reach = 1 - config.share
        self.register_buffer("gazes", _square(config.grid, reach), persistent=False)
        self.register_buffer("fine", _square(13, reach), persistent=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Per film, of one frame with particles round the truth: ``near``, the distance of the estimate in shares of
        the box, and ``divergence``, the contrastive divergence of a pixel."""
        frames, boxes = batch["frames"], batch["boxes"]
        count, length = frames.shape[:2]
        row = torch.arange(count, device=frames.device)
        frame = (torch.rand(count, device=frames.device) * (length - 1)).long() + 1
        gaze = (2 * torch.rand(count, 2, device=frames.device) - 1).to(frames) * (1 - self.config.share)
        offset = 3 * self.config.noise * torch.randn(count, self.config.particles, 2, device=frames.device).to(frames)
        true = boxes[row, frame]
        around = torch.cat(
            [_centre(true)[:, None] + offset * true[:, None, 2:], true[:, None, 2:].expand_as(offset)], -1
        )
        template = self.look(frames[:, 0], _states(boxes[:, :1]), gaze)
        candidates = self.look(frames[row, frame], around, gaze)
        context = self.weigh(self.features(template), self.features(candidates), offset).context[:, 0]  # (B, 2)
        near = context.square().sum(-1)
        divergence = self._divergence(torch.cat([template, candidates[:, :8]], 1)).mean(1)
        measures = {"loss": divergence + self.config.tuning * near, "near": near.sqrt(), "divergence": divergence}
        share = 1 / max(count, 1)
        return {
            "count": near.new_tensor(float(count)),
            **{name: value.sum() * share for name, value in measures.items()},
        }

    def look(self, image: Tensor, states: Tensor, gaze: Tensor) -> Tensor:
        """(B, N, seen): glimpses of unit variance at the gaze (B, 2) of boxes (B, N, 4), centre and size."""
        config = self.config
        half = config.share * states[..., 2:] / 2
        middle = states[..., :2] + gaze[:, None] * states[..., 2:] / 2  # (B, N, 2)
        return _unit(self._read(image, middle, half, config.cells).flatten(2))

    def cut(self, image: Tensor, state: Tensor) -> Tensor:
        """(B, C, side, side): the whole box (B, 1, 4), twice as fine as a glimpse, of unit variance."""
        side = round(2 * self.config.cells / self.config.share)
        whole = self._read(image, state[..., :2], state[..., 2:] / 2, side)[:, 0]
        return _unit(whole.flatten(1)).view_as(whole)

    def _read(self, image: Tensor, middle: Tensor, half: Tensor, cells: int) -> Tensor:
        """(B, N, C, cells, cells): image read in boxes of centres and halves (B, N, 2)."""
        count, box_count = middle.shape[:2]
        steps = (torch.arange(cells, device=image.device) + 0.5) / cells * 2 - 1
        grid = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1).to(image)  # (cells, cells, 2)
        place = middle[:, :, None, None] + grid * half[:, :, None, None]
        grid = (2 * place / _edge(image) - 1).reshape(count, box_count * cells, cells, 2)
        patches = self.sensor(grid, image).context  # (B, C, N·cells, cells)
        return patches.reshape(count, -1, box_count, cells, cells).transpose(1, 2)

    def features(self, seen: Tensor) -> Tensor:
        """h (…, hidden) of glimpses (…, seen)."""
        return torch.sigmoid(seen @ self.into.T + self.hidden_bias)

    def free_energy(self, seen: Tensor) -> Tensor:
        """−log Σ_h exp(−E) of glimpses (…, seen) → (…)."""
        hidden = functional.softplus(seen @ self.into.T + self.hidden_bias).sum(-1)
        return (seen - self.pixel_bias).square().sum(-1) / 2 - hidden

    def _divergence(self, glimpses: Tensor) -> Tensor:
        with torch.no_grad():
            hidden = torch.bernoulli(self.features(glimpses))
            reconstructed = hidden @ self.into + self.pixel_bias
            reconstructed = reconstructed + torch.randn_like(reconstructed)
        return (self.free_energy(glimpses) - self.free_energy(reconstructed)) / glimpses.shape[-1]

    def _estimate(
        self, image: Tensor, states: Tensor, gaze: Tensor, templates: list[tuple[float, Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The estimate (B, 4), the weights (B, N) of particles, the reward (B,) of the gaze and the probability (B,)
        that the target was seen. A template is a prior, an image and a box in it."""
        query = torch.cat(
            [self.features(self.look(template_image, box, gaze)) for _, template_image, box in templates], 1
        )  # (B, K, E)
        out = self.weigh(query, self.features(self.look(image, states, gaze)), states, weights=True)
        assert out.weights is not None and out.scores is not None
        prior = query.new_tensor([share for share, _, _ in templates])
        evidence = prior * (out.scores.exp().mean(-1) + torch.finfo(query.dtype).tiny)  # (B, K)
        which = evidence / (evidence.sum(-1, keepdim=True) + self.config.doubt)
        neither = 1 - which.sum(-1, keepdim=True)  # (B, 1)
        estimate = (which[:, None] @ out.context)[:, 0] + neither * states.mean(1)
        weights = (which[:, None] @ out.weights)[:, 0] + neither / states.shape[1]
        return estimate, weights, weights.square().sum(-1), 1 - neither[:, 0]

    @torch.no_grad()
    def track(self, batch: Batch) -> dict[str, Tensor]:
        """From the box of the first frame to the end: ``box`` (B, T, 4); ``gaze`` (B, T − 1, 2), in the box; ``reward``
        (B, T − 1); ``particles`` (B, T − 1, N, 4) and ``weights`` (B, T − 1, N) before resampling; ``surface``
        (B, T − 1, rows, columns), the policy's expected value of each gaze."""
        config, frames = self.config, batch["frames"]
        first = _states(batch["boxes"][:, :1])  # (B, 1, 4)
        count = len(frames)
        states = first.expand(-1, config.particles, -1)
        speed = config.noise * torch.randn_like(states[..., :2]) * states[..., 2:]
        templates = [(1.0, frames[:, 0], first)]
        if config.adapt:
            recent = self.cut(frames[:, 0], first)
            whole = torch.cat([_edge(recent) / 2, _edge(recent)]).expand(count, 1, 4)
            templates = [(1 - config.recent, frames[:, 0], first), (config.recent, recent, whole)]
        policy = _Policy(self, count, frames)
        boxes, steps = [first[:, 0]], []
        for image in frames.unbind(1)[1:]:
            moved = config.noise * torch.randn(count, config.particles, 2, device=frames.device).to(frames)
            speed = config.inertia * speed + config.drift * torch.randn_like(moved) * states[..., 2:]
            grown = torch.exp(config.scale_noise * torch.randn_like(moved[..., :1]))
            size = (states[..., 2:] * grown * (first[..., 2:] / states[..., 2:]) ** config.pull).clamp_min(2)
            states = torch.cat([states[..., :2] + speed + moved * size, size], -1)
            states = torch.cat([states[..., :2].clamp_min(0).minimum(_edge(image)), states[..., 2:]], -1)

            gaze, surface = policy.choose()
            estimate, weights, reward, sure = self._estimate(image, states, gaze, templates)
            everywhere = []
            if config.policy == "hedge":
                for place in self.gazes.to(frames):
                    everywhere.append(self._estimate(image, states, place.expand(count, 2), templates)[2])
            policy.learn(reward, everywhere)
            if config.adapt:
                rate = config.adapt * sure[:, None, None, None]
                recent = recent + rate * (self.cut(image, estimate[:, None]) - recent)
                templates[1] = (config.recent, recent, whole)
            steps.append((gaze, reward, states, weights, surface))
            boxes.append(estimate)
            comb = (torch.arange(config.particles).to(weights) + torch.rand_like(weights[:, :1])) / config.particles
            resampled = torch.searchsorted(weights.cumsum(-1), comb).clamp_max(config.particles - 1)
            states, speed = (tensor.gather(1, resampled[..., None].expand_as(tensor)) for tensor in (states, speed))
        names = ("gaze", "reward", "particles", "weights", "surface")
        path = torch.stack(boxes, 1)
        box = torch.cat([path[..., :2] - path[..., 2:] / 2, path[..., 2:]], -1)
        return {"box": box, **{name: torch.stack(part, 1) for name, part in zip(names, zip(*steps))}}


class _Policy:
    """Where to look next, for B films at once."""

    def __init__(self, model: GazeTracker, count: int, like: Tensor):
        self.config, self.count = model.config, count
        self.places = (model.fine if self.config.policy == "ucb" else model.gazes).to(like)
        self.gain = like.new_zeros(count, len(self.places))
        self.past_places: list[Tensor] = []
        self.rewards: list[Tensor] = []
        self.chance = torch.full_like(self.gain, 1 / len(self.places))

    def choose(self) -> tuple[Tensor, Tensor]:
        """The gaze (B, 2), and the expected value of all gazes, (B, rows, columns)."""
        config, count = self.config, len(self.places)
        surface = self.chance
        if config.policy == "ucb":
            surface, deviation = self._process()
            self.choice = (surface + config.optimism * deviation + 1e-4 * torch.rand_like(surface)).argmax(-1)
        else:
            if config.policy == "hedge":
                self.chance = (config.rate * self.gain).log_softmax(-1).exp()
            elif config.policy == "exp3":
                spread = (config.rate * self.gain / count).log_softmax(-1).exp()
                self.chance = (1 - config.rate) * spread + config.rate / count
            surface = self.chance
            self.choice = torch.multinomial(self.chance, 1)[:, 0]
        side = round(count**0.5)
        return self.places[self.choice], surface.view(self.count, side, side)

    def learn(self, reward: Tensor, everywhere: list[Tensor]) -> None:
        """The reward (B,) of the gaze that was chosen, or of all of them."""
        if everywhere:
            self.gain = self.gain + torch.stack(everywhere, -1)
        elif self.config.policy == "exp3":
            chance = self.chance.gather(1, self.choice[:, None])[:, 0]
            self.gain = self.gain.scatter_add(1, self.choice[:, None], (reward / chance)[:, None])
        self.past_places = [*self.past_places, self.places[self.choice]][-self.config.kept :]
        self.rewards = [*self.rewards, reward][-self.config.kept :]

    def _process(self) -> tuple[Tensor, Tensor]:
        """Mean and deviation (B, places) of a Gaussian process over log rewards, given those seen."""
        if not self.past_places:
            return torch.zeros_like(self.gain), torch.ones_like(self.gain)
        places, rewards = torch.stack(self.past_places, 1), torch.stack(self.rewards, 1).clamp_min(1e-30).log()
        middle = rewards.mean(1, keepdim=True)
        spread = rewards.std(1, keepdim=True, unbiased=False) + 0.1
        covariance = _kernel(places, places) + 0.3 * torch.eye(places.shape[1]).to(places)
        cross = _kernel(self.places.expand(self.count, -1, -1), places)  # (B, places, n)
        solved = torch.cholesky_solve(cross.mT, torch.linalg.cholesky(covariance))  # (B, n, places)
        mean = (((rewards - middle) / spread)[:, None] @ solved)[:, 0]
        return mean, (1 - (cross.mT * solved).sum(1)).clamp_min(1e-6).sqrt()


def _kernel(first: Tensor, second: Tensor) -> Tensor:
    return torch.exp(-torch.cdist(first, second).square() / (2 * 0.3**2))


def _square(side: int, reach: float) -> Tensor:
    steps = torch.linspace(-reach, reach, side) if side > 1 else torch.zeros(1)
    return torch.cartesian_prod(steps, steps).flip(-1)


def _centre(boxes: Tensor) -> Tensor:
    return boxes[..., :2] + boxes[..., 2:] / 2


def _unit(pixels: Tensor) -> Tensor:
    """(..., pixels) less their mean, of unit variance."""
    centred = pixels - pixels.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-2).sqrt()


def _edge(image: Tensor) -> Tensor:
    """(2,): width and height of images (..., height, width)."""
    return image.new_tensor([image.shape[-1], image.shape[-2]])


def _states(boxes: Tensor) -> Tensor:
    return torch.cat([_centre(boxes), boxes[..., 2:]], -1)


VARIANTS: dict[str, dict[str, Any]] = {name: {"policy": name} for name in POLICIES[1:]}
