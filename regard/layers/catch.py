"""Catch, a game. Mnih, Heess, Graves & Kavukcuoglu 2014 (arXiv:1406.6247), section 4.3.

A ball, one pixel, falls from the top of the screen a row a step and bounces off its sides. At the bottom lies a paddle
that the player moves to the left, not at all, or to the right. The game is won if the paddle is where the ball lands.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

ACTIONS = ("left", "stay", "right")


class Game(NamedTuple):
    """Games at one moment: the ball's row, the same in all, its column and speed, and the paddle's left end, (B,)."""

    row: int
    ball: Tensor
    speed: Tensor
    paddle: Tensor


def step(game: Game, action: Tensor, width: int, paddle: int) -> Game:
    """The moment after the actions (B,), 0 to 2; ``paddle`` is how wide it is."""
    ball, last = game.ball + game.speed, width - 1
    outside = (ball < 0) | (ball > last)
    ball = torch.where(ball < 0, -ball, ball)
    ball = torch.where(ball > last, 2 * last - ball, ball)
    moved = (game.paddle + action - 1).clamp(0, width - paddle)
    return Game(game.row + 1, ball, torch.where(outside, -game.speed, game.speed), moved)


def screen(game: Game, height: int, width: int, paddle: int) -> Tensor:
    """(B, 1, height, width): 1 where the ball and the paddle are, else 0."""
    count = len(game.ball)
    places = torch.arange(width, device=game.ball.device)
    picture = torch.zeros(count, 1, height, width, device=game.ball.device)
    picture[:, 0, game.row] = (places == game.ball[:, None]).float()
    along = places - game.paddle[:, None]
    picture[:, 0, height - 1] += ((along >= 0) & (along < paddle)).float()
    return picture.clamp_(max=1)


def caught(game: Game, paddle: int) -> Tensor:
    """(B,): whether the ball, down at the bottom, is on the paddle."""
    along = game.ball - game.paddle
    return (along >= 0) & (along < paddle)
