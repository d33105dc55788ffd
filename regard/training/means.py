"""What the model measured, averaged over units: over the batches of an interval and over all processes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.training.team import Team


class Means:
    """Sums on the device; reading them is what waits for it. ``sums`` is where an earlier one stopped."""

    def __init__(self, team: Team, sums: Mapping[str, float] | None = None):
        self.team = team
        self.precision = torch.float32 if team.device.type == "mps" else torch.float64  # mps has no float64
        self.names = list(sums or ())
        self.sums = self._tensor(list(sums.values())) if sums else None

    def _tensor(self, value: object) -> Tensor:
        return torch.as_tensor(value, dtype=self.precision, device=self.team.device)

    def add(self, out: Mapping[str, Tensor], weight: float = 1.0) -> Tensor:
        """Add what ``model(batch)`` gave; the number of units in this batch, over all processes."""
        names = self._names(out)
        if self.sums is None:
            self.names = names
        elif names != self.names:
            raise ValueError(f"model(batch) gave {', '.join(names)} this time, before {', '.join(self.names)}")
        count = self._tensor(out["count"].detach()) * weight
        values = torch.stack([self._tensor(out[name].detach()) for name in names[1:]])
        values = torch.where(count > 0, values * count, 0.0)  # the mean over no unit may be NaN, and weighs nothing
        sums = self.team.sum(torch.cat([count.reshape(1), values]))
        self.sums = sums if self.sums is None else self.sums + sums
        return sums[0]

    @staticmethod
    def _names(out: Mapping[str, Tensor]) -> list[str]:
        for name in ("loss", "count"):
            if name not in out:
                raise ValueError(f"model(batch) must give {name!r}; it gives {', '.join(out) or 'nothing'}")
        return ["count", *(name for name, value in out.items() if name != "count" and value.ndim == 0)]

    def state(self) -> dict[str, float]:
        """The sums as numbers."""
        return {} if self.sums is None else dict(zip(self.names, self.sums.tolist(), strict=True))

    def read(self) -> dict[str, float]:
        """The means, and ``count``, the number of units they are over."""
        sums = self.state()
        count = sums.pop("count", 0.0)
        return {name: value / count if count else float("nan") for name, value in sums.items()} | {"count": count}
