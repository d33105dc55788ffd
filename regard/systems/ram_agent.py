"""RAM as a player of Catch: its actions change what it will see.

Mnih, Heess, Graves & Kavukcuoglu 2014, *Recurrent Models of Visual Attention* (arXiv:1406.6247), section 4.3: the game
of Catch (:mod:`regard.layers.catch`), of which the player sees at every step only what its retina shows.

    gₜ = f_g(ρ(xₜ, lₜ), lₜ),  hₜ = LSTM(gₜ, hₜ₋₁)
    aₜ ~ softmax(f_a(hₜ))              move the paddle
    lₜ₊₁ ~ N(tanh(f_l(hₜ)), σ²)         look there next

Query, keys and values are those of RAM on images. There are no labels of actions. The only signal is the reward at the
last step, 1 for a ball that was caught, else 0, so REINFORCE trains everything:

    −Σₜ log π(aₜ) (R − bₜ) − Σₜ log π(lₜ₊₁) (R − bₜ) + Σₜ (bₜ − R)² / T − β Σₜ H(π(aₜ)),   R = Σ γᵗ⁻¹ rₜ

The core and the glimpse network learn from the actions: f_l and the baseline bₜ = f_b(hₜ) see hₜ without a gradient.
In ``eval`` mode the likeliest action is taken and the mean location.

Deviations: a choice of place moves log π by 1/σ, that of an action by 1, so that the noise of the places would drown
the actions if it reached the core, as it does in the paper. The entropy H, which is not in the paper, keeps the player
exploring. The first look is at the centre, and the ball's speed across is −1, 0 or 1, both of which the paper leaves
open. The few lit pixels of a screen are scaled to a variance of 1: as they are, a coarse cell of the retina would show
a sixteenth of one, too faint to learn from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from regard._lazy import nearest
from regard._settings import at_least
from regard.layers import catch
from regard.layers.glimpse import CORES, Core, GlimpseNetwork
from regard.layers.reinforce import discounted, log_normal
from regard.layers.use import Use

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's.

    Attributes:
        height, width: of the screen.
        paddle: its width.
        size, scales: of the retina.
        what, where: units of the glimpse network's first layers, for the patch and for the place.
        hidden: units of the core, and of the glimpse network's output.
        core: ``lstm`` or ``rnn``.
        std: σ of the locations, where 2 is the width of the screen.
        discount: γ.
        entropy: β.
    """

    height: int
    width: int
    paddle: int
    size: int = 6
    scales: int = 3
    what: int = 128
    where: int = 128
    hidden: int = 256
    core: str = "lstm"
    std: float = 0.15
    discount: float = 1.0
    entropy: float = 0.005

    def __post_init__(self) -> None:
        if self.core not in CORES:
            raise ValueError(f"core cannot be {self.core!r}: {nearest(self.core, CORES)}")
        at_least(self, "paddle", "size", "scales", "what", "where", "hidden")
        if self.std <= 0:
            raise ValueError(f"std = {self.std}: without a spread no other place is ever tried")
        if max(self.size, self.paddle) > min(self.height, self.width):
            raise ValueError(
                f"a glimpse of {self.size} × {self.size} and a paddle of {self.paddle} must fit a screen of "
                f"{self.height} × {self.width}"
            )


VARIANTS: dict[str, dict[str, Any]] = {"rnn": {"core": "rnn"}}


class Play(NamedTuple):
    """Games from their beginning to their end, T steps.

    Attributes:
        screens: (T, B, 1, height, width).
        locations: (T, B, 2), where it looked; drawn (T, B, 2), the next locations before clipping.
        means: (T, B, 2), the means of their distributions.
        actions: (T, B); log_prob (T, B, 3), of each action.
        hidden: (T, B, hidden).
        caught: (B,).
        end: (B, 1, height, width), the last screen.
    """

    screens: Tensor
    locations: Tensor
    drawn: Tensor
    means: Tensor
    actions: Tensor
    log_prob: Tensor
    hidden: Tensor
    caught: Tensor
    end: Tensor


class RAMAgent(nn.Module):
    """Looks and moves; see the module's docstring.

    A batch has the beginnings of games, ``ball``, ``speed`` and ``paddle``, each (B,): the column of the ball in the
    top row, its speed across, and the left end of the paddle.
    """

    uses: ClassVar[dict[str, Use]] = {
        "glimpse.retina": Use(
            *("location lₜ", "places of pixels", "pixels", "retina", "mean of a cell"),
            rows="glimpses",
            columns="pixels",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        lit = (1 + config.paddle) / (config.height * config.width)
        self.contrast = (lit * (1 - lit)) ** -0.5
        self.glimpse = GlimpseNetwork(1, config.size, config.scales, config.what, config.where, config.hidden)
        self.core = Core(config.core, config.hidden, config.hidden)
        self.action = nn.Linear(config.hidden, len(catch.ACTIONS))
        self.location = nn.Sequential(nn.Linear(config.hidden, 2), nn.Tanh())
        self.baseline = nn.Linear(config.hidden, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Per game: the loss, ``caught``, and its terms: ``reinforce`` for the actions and ``looking`` for the places,
        ``baseline`` and ``entropy``."""
        config, play = self.config, self.play(batch)
        steps, games = play.actions.shape
        rewards = play.caught.float().new_zeros(games, steps)
        rewards[:, -1] = play.caught.float()
        reward = discounted(rewards, config.discount)
        expected = self.baseline(play.hidden.detach())[..., 0]  # (T, B)
        action_log_prob = play.log_prob.gather(-1, play.actions[..., None])[..., 0]
        # The last location is never looked at.
        location_log_density = log_normal(play.drawn[:-1], play.means[:-1], config.std)
        gain = reward - expected.detach()
        measures = {
            "caught": play.caught.float(),
            "baseline": (expected - reward).square().mean(0),
            "reinforce": -(action_log_prob * gain).sum(0),
            "looking": -(location_log_density * gain[:-1]).sum(0),
            "entropy": -(play.log_prob.exp() * play.log_prob).sum(-1).sum(0),
        }
        measures["loss"] = (
            measures["reinforce"] + measures["looking"] + measures["baseline"] - config.entropy * measures["entropy"]
        )
        count = reward.new_tensor(float(games))
        return {"count": count, **{name: value.sum() / max(games, 1) for name, value in measures.items()}}

    def play(self, batch: Batch) -> Play:
        """From the first row to the last."""
        config = self.config
        game = catch.Game(0, batch["ball"], batch["speed"], batch["paddle"])
        place = self.baseline.weight.new_zeros(len(game.ball), 2)
        state, steps = self.core.start(place), []
        while game.row < config.height - 1:
            screen = catch.screen(game, config.height, config.width, config.paddle).to(place.dtype)
            state = self.core(self.glimpse(place, self.contrast * screen), state)
            log_prob, mean = self.action(state[0]).log_softmax(-1), self.location(state[0].detach())
            with torch.no_grad():
                if self.training:
                    action = torch.multinomial(log_prob.exp(), 1)[:, 0]
                    sample = mean + config.std * torch.randn_like(mean)
                else:
                    action, sample = log_prob.argmax(-1), mean
            steps.append((screen, place, sample, mean, action, log_prob, state[0]))
            game, place = catch.step(game, action, config.width, config.paddle), sample.detach().clamp(-1, 1)
        end = catch.screen(game, config.height, config.width, config.paddle)
        screens, places, sample, means, actions, log_prob, hidden = map(torch.stack, zip(*steps))
        won = catch.caught(game, config.paddle)
        return Play(screens, places, sample, means, actions, log_prob, hidden, won, end)

    def predict(self, batch: Batch) -> Tensor:
        """(B,): whether each ball is caught."""
        return self.play(batch).caught

    def seen(self, batch: Batch) -> dict[str, Tensor]:
        """What a film of the games shows: ``screen`` (B, T + 1, 1, height, width) with the end as the last,
        ``location`` (B, T, 2), ``patch`` (B, T, 1, scales, size, size), ``action`` (B, T), ``caught`` (B,) and
        ``sides`` (scales,), of the squares in pixels."""
        config, play = self.config, self.play(batch)
        patches = [self.glimpse.retina(*pair).context for pair in zip(play.locations, play.screens)]
        return {
            "screen": torch.cat([play.screens, play.end[None]]).transpose(0, 1),
            "location": play.locations.transpose(0, 1),
            "patch": torch.stack(patches, 1),
            "action": play.actions.T,
            "caught": play.caught,
            "sides": config.size * 2 ** torch.arange(config.scales),
        }
