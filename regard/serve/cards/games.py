"""A game of Catch to watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ConfigDict, Field, create_model

from regard.serve.cards import Card, Wire
from regard.serve.cards._told import Next, Told, drawn
from regard.trained.games import ACTIONS
from regard.trained.games import Games as TrainedGames
from regard.views import glimpses


class Games(Card):
    """A player of Catch."""

    trained: TrainedGames
    Answer = Told
    title = "Watch it play Catch"

    def __init__(self, trained: TrainedGames):
        super().__init__(trained)
        self.size = trained.task.config.batch
        game = Field(default=0, ge=0, le=self.size - 1, title="Game", description="Each number is another ball.")
        self.Question: Any = create_model("Question", __base__=Watch, game=(int, game))

    def data(self) -> str:
        return "games that are made up as they are played"

    def examples(self) -> Sequence[Wire]:
        return [self.Question(game=game) for game in range(min(self.size, 5))]

    def answer(self, questions: Sequence[Any]) -> list[Told]:
        """All games at once."""
        numbers = [question.game for question in questions]
        seen = self.trained.predict(max(numbers) + 1)
        answers = []
        for number in numbers:
            caught = bool(seen["caught"][number])
            actions = [ACTIONS[action] for action in seen["action"][number].tolist()]
            screen, location, patch = (seen[name][number] for name in ("screen", "location", "patch"))
            view = glimpses.played(screen, location, patch, seen["sides"], caught=caught, actions=actions)
            more = Next(label="Next game", question={"game": (number + 1) % self.size})
            answers.append(Told(text="Caught" if caught else "Missed", next=[more], pictures=drawn(view)))
        return answers


class Watch(Wire):
    """Which game to watch."""

    model_config = ConfigDict(json_schema_extra={"verb": "Play"})
