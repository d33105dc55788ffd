from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.kernels.forms import DotForm, SquareForm, lift
from regard.masks import may_look
from regard.parts import Score

HARMLESS = 2.0**-15  # as the error of a score


class Gaussian(Score):
    """e = −‖q − k‖² / (2 width²); with a softmax this is Nadaraya-Watson kernel regression.

    For many queries the kernels take it as a dot product with a bias for each key: ‖q − k‖² = ‖q‖² + ‖k‖² − 2 q·k.
    That cancels far from the origin (places on a map, times), where both are first moved by the first query.
    Scores of halves are float32. Shapes: (…, T, D), (…, S, D) → (…, T, S).
    """

    equation = "−‖q − k‖² / (2 width²)"
    paper = "Nadaraya, Watson 1964"
    same_width = True
    reads_all = True

    def __init__(self, width: float = 1.0, learn_width: bool = False):
        super().__init__()
        if width <= 0:
            raise ValueError(f"the width of a Gaussian must be positive: {width}")
        self.width = nn.Parameter(torch.tensor(float(width))) if learn_width else float(width)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return SquareForm(lift(query), lift(key), -0.5 * self._precision()).scores()

    def form(self, query: Tensor, key: Tensor) -> DotForm | SquareForm:
        query, key = lift(query), lift(key)
        if query.shape[-2] <= 1 or key.shape[-2] == 0:
            return SquareForm(query, key, -0.5 * self._precision())
        precision = self._precision()
        squares = key.square().sum(-1)  # (…, S)
        if not _near(query.detach(), squares.detach(), precision):
            origin = query[..., :1, :].detach().nan_to_num()  # not of the keys: padding must not move it
            query, key = query - origin, key - origin
            squares = key.square().sum(-1)
        bias = squares.unsqueeze(-2) * (-0.5 * precision)  # (…, 1, S)
        if isinstance(precision, float):
            return DotForm(query, key, precision, bias, norm=-0.5 * precision)
        return DotForm(query * precision, key, 1.0, bias, norm=-0.5 / precision)

    def _precision(self) -> float | Tensor:
        return (lift(self.width) if isinstance(self.width, Tensor) else self.width) ** -2


def _near(query: Tensor, squares: Tensor, precision: float | Tensor) -> bool:
    """Are all so near the origin that the rounding of ‖q‖² and ‖k‖² does no harm?"""
    if not may_look(query) or torch._C._functorch.maybe_current_level() is not None or not query.numel():
        return False
    least, most = query.aminmax()
    reach = max(query.shape[-1] * max(-float(least), float(most)) ** 2, float(squares.max()))
    sharp = precision if isinstance(precision, float) else float(precision.detach())
    return reach * sharp * torch.finfo(query.dtype).eps <= HARMLESS
