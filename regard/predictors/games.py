"""Games that are played, and where the player looked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.predictors.predictor import Answer, Predictor
from regard.questions import Number, form
from regard.views import glimpses
from regard.views.picture import Picture

ACTIONS = ("left", "stay", "right")


class Games(Predictor):
    """A player of Catch."""

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """``caught``: the balls that were, in percent, of a split or of its first ``limit`` batches."""
        return {"caught": 100 * super().evaluate(split, limit=limit)["caught"]}

    @torch.inference_mode()
    def predict(self, games: int = 1, *, split: str = "test") -> dict[str, Tensor]:
        """The first N games of a split as they are played; see ``seen`` of the system."""
        batch = next(iter(self.task.loader(split)))
        size = len(batch["ball"])
        if not 1 <= games <= size:
            raise ValueError(f"{games} games cannot be shown: a batch has 1 to {size}")
        inputs = self.moved({name: tensor[:games] for name, tensor in batch.items()})
        return {name: tensor.cpu() for name, tensor in self.model.seen(inputs).items()}

    def look(self, what: Sequence[str] = (), *, split: str = "test") -> Iterator[tuple[str, Picture | None]]:
        """A game, by its number."""
        if len(what) > 1 or (what and not what[0].isdecimal()):
            raise ValueError(f"say the number of one game, not {' '.join(what)}")
        number, last = int(what[0]) if what else 0, self.task.config.batch - 1
        if number > last:
            raise ValueError(f"there is no game {number}: they are 0 to {last}")
        seen = self.predict(number + 1, split=split)
        caught, actions, picture = self._game(seen, number)
        yield f"game {number}: {'caught' if caught else 'missed'} after {', '.join(_runs(actions))}", picture

    def _game(self, seen: dict[str, Tensor], number: int) -> tuple[bool, list[str], Picture]:
        """Whether the ball was caught, what the player did, and its picture."""
        caught = bool(seen["caught"][number])
        actions = [ACTIONS[action] for action in seen["action"][number].tolist()]
        parts = *(seen[name][number] for name in ("screen", "location", "patch")), seen["sides"]
        return caught, actions, glimpses.played_picture(*parts, caught=caught, actions=actions, title=f"game {number}")

    # Questions

    title = "Watch it play Catch"

    @property
    def Question(self) -> Any:
        """Which game to watch."""
        last = self.task.config.batch - 1
        return form("Play", game=Number(0, last, default=0, title="Game", about="Each number is another ball."))

    def data(self) -> str:
        return "games that are made up as they are played"

    def examples(self) -> list[Any]:
        return [self.Question(game=game) for game in range(min(self.task.config.batch, 5))]

    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """All games at once."""
        seen = self.predict(max(question.game for question in questions) + 1)
        answers: list[Answer | ValueError] = []
        for number in (question.game for question in questions):
            caught, _, picture = self._game(seen, number)
            more = ("Next game", {"game": (number + 1) % self.task.config.batch})
            answers.append(Answer("Caught" if caught else "Missed", next=[more], pictures=[picture]))
        return answers


def _runs(actions: Sequence[str]) -> Iterator[str]:
    """``left left stay`` → ``left × 2``, ``stay``."""
    start = 0
    for place in range(1, len(actions) + 1):
        if place == len(actions) or actions[place] != actions[start]:
            yield actions[start] if place == start + 1 else f"{actions[start]} × {place - start}"
            start = place
