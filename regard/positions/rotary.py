from __future__ import annotations

import torch
from torch import Tensor

from regard.kernels.forms import lift
from regard.parts import Position


class Rotary(Position):
    """Column pairs (2i, 2i + 1) of a row at place m are turned by the angle m θᵢ, θᵢ = base^(−2i/D). Su et al. 2021,
    "RoFormer" (arXiv:2104.09864), eqs. 14-15 and 34.

    A product of a query at place m and a key at place n then depends on m − n alone. With ``halves``, column i is
    paired with column i + D/2 instead, as in GPT-NeoX and in Hugging Face's form of Llama's weights. Half precision is
    turned in float32. Shapes: (…, T, D), D even → (…, T, D).
    """

    equation = "q ← R(m) q, k ← R(n) k: q·R(n − m) k"
    paper = "Su 2021 (RoPE)"

    def __init__(self, base: float = 10000.0, halves: bool = False):
        super().__init__()
        if base <= 0:
            raise ValueError(f"the base of rotary positions must be positive: {base}")
        self.base, self.halves = float(base), halves
        self._known: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}

    def forward(self, rows: Tensor, first: int) -> Tensor:
        count, width = rows.shape[-2:]
        if width % 2:
            raise ValueError(f"rotary positions turn pairs of columns: the width of a head must be even, not {width}")
        exact = lift(rows)
        turns = self.turns(first, count, width, exact.dtype, rows.device)  # (T, D/2, 2)
        if _plain(exact) and not self.halves:  # one pass instead of ten
            pairs = torch.view_as_complex(exact.unflatten(-1, (width // 2, 2)))
            return torch.view_as_real(pairs * torch.view_as_complex(turns)).flatten(-2).to(rows.dtype)
        cos, sin = turns.unbind(-1)
        x, y = exact.chunk(2, dim=-1) if self.halves else exact.unflatten(-1, (width // 2, 2)).unbind(-1)
        turned = torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-2 if self.halves else -1)
        return turned.flatten(-2).to(rows.dtype)

    def turns(self, first: int, count: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """cos and sin of the angles at ``count`` places, (T, D/2, 2). Kept from call to call, where they may be."""
        if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or first < 0:
            return self._made(first, count, width, dtype, device)
        key = (width, dtype, device)
        known = self._known.get(key)
        if known is None or known.shape[0] < first + count:
            with torch.inference_mode(False), torch.no_grad():
                length = max(256, 2 * (first + count))
                known = self._known[key] = self._made(0, length, width, torch.float64, torch.device("cpu")).to(
                    device, dtype
                )
        return known[first : first + count]

    def _made(self, first: int, count: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        speed = self.base ** (-torch.arange(0, width, 2, dtype=dtype, device=device) / width)
        angle = torch.arange(first, first + count, dtype=dtype, device=device).unsqueeze(-1) * speed
        return torch.stack([angle.cos(), angle.sin()], dim=-1)

    def extra_repr(self) -> str:
        return f"base={self.base:g}" + (", halves=True" if self.halves else "")


def _plain(rows: Tensor) -> bool:
    """May pairs of columns be seen as complex numbers? Compilers make less of these."""
    if torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None:
        return False
    even = rows.storage_offset() % 2 == 0 and all(step % 2 == 0 for step in rows.stride()[:-1])
    return rows.stride(-1) == 1 and even and rows.numel() > 0 and rows.shape[-1] > 0
