"""Games that are played, and where the player looked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.trained import Trained

ACTIONS = ("left", "stay", "right")


class Games(Trained):
    """A player of Catch."""

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """``caught``: the balls that were, in percent, of a split or of its first ``limit`` batches."""
        return {"caught": 100 * super().evaluate(split, limit=limit)["caught"]}

    @torch.inference_mode()
    def predict(self, games: int = 1, *, split: str = "test") -> dict[str, Tensor]:
        """The first so many games of a split as they are played; see ``seen`` of the system."""
        batch = next(iter(self.task.loader(split)))
        size = len(batch["ball"])
        if not 1 <= games <= size:
            raise ValueError(f"{games} games cannot be shown: a batch has 1 to {size}")
        chosen = self.moved({name: tensor[:games] for name, tensor in batch.items()})
        return {name: tensor.cpu() for name, tensor in self.model.seen(chosen).items()}

    def show(self, what: Sequence[str], out: Path | None, *, split: str = "test") -> Iterator[str]:
        """A game, by its number: step by step as text, as an animation (.gif) or as a page (.html)."""
        from regard.views import glimpses, page
        from regard.views._pixels import save_animation, shaded

        if len(what) > 1 or (what and not what[0].isdecimal()):
            raise ValueError(f"say the number of one game, not {' '.join(what)}")
        number = int(what[0]) if what else 0
        seen = {name: tensor if name == "sides" else tensor[number] for name, tensor in self._games(number, split)}
        caught = bool(seen["caught"])
        actions = [ACTIONS[action] for action in seen["action"].tolist()]
        yield f"game {number}: {'caught' if caught else 'missed'} after {', '.join(_runs(actions))}"
        yield "\n".join(shaded(seen["screen"].amax((0, 1)).numpy()))
        if out is not None:
            parts = (seen[name] for name in ("screen", "location", "patch", "sides"))
            ending, told = out.suffix.lower(), dict[str, Any](caught=caught, actions=actions)
            if ending in (".html", ".htm"):
                page.write(out, [glimpses.played(*parts, **told, title=f"game {number}")], title=self.name)
            elif ending == ".gif":
                save_animation(glimpses.game(*parts, **told), out, seconds=0.25)
            else:
                raise ValueError(f"{out}: a game is a film: write a .gif or a page, .html")
            yield str(out)

    def _games(self, number: int, split: str) -> Any:
        return self.predict(number + 1, split=split).items()


def _runs(actions: Sequence[str]) -> Iterator[str]:
    """``left left stay`` → ``left × 2``, ``stay``."""
    start = 0
    for place in range(1, len(actions) + 1):
        if place == len(actions) or actions[place] != actions[start]:
            yield actions[start] if place == start + 1 else f"{actions[start]} × {place - start}"
            start = place
