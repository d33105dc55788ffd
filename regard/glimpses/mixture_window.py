from __future__ import annotations

import torch
from torch import Tensor, nn

from regard import masks
from regard.attended import Attended
from regard.masks import Mask
from regard.memory import Memory
from regard.parts import Glimpse
from regard.spoiled import guarded


class MixtureWindow(Glimpse):
    """A mixture of Gaussians that slides along the text. Graves 2013 (arXiv:1308.0850), eqs. 46-51.

    (α̂, β̂, κ̂) = W q + b, each ``mixtures`` wide; α = exp α̂, β = exp β̂, κₜ = κₜ₋₁ + exp κ̂, so that the window only
    moves forward; φ(t, u) = Σₖ αₖ exp(−βₖ (κₖ − u)²) over the places u = 0 … S − 1; the context is Σᵤ φ(t, u) valueᵤ.

    The state is κ, (…, mixtures), 0 before the first query. A row of weights is **not** normalized: where the
    Gaussians lie within the text and span a few places, it sums to about Σₖ αₖ √(π / βₖ). The bias of κ̂ starts at
    −3, a place every 20 queries; with 0 the window would run off the text in a few steps. Graves stops writing when
    φ(t, S), one place behind the text, beats every other: append a row of zeros to ``value`` to read it.
    Shapes: query (…, T, query_dim), value (…, S, E) → context (…, T, E), weights (…, T, S).
    """

    equation = "φ(u) = Σₖ αₖ exp(−βₖ (κₖ − u)²), κ = κ₋₁ + exp κ̂"
    paper = "Graves 2013"
    example = (
        "window = regard.glimpses.MixtureWindow(query_dim=64, mixtures=10)\n"
        "out = window(torch.randn(2, 3, 64), torch.rand(2, 50, 30))"
    )
    needs = ("state",)

    def __init__(self, query_dim: int, mixtures: int):
        super().__init__()
        if mixtures < 1:
            raise ValueError(f"a mixture needs at least one Gaussian: mixtures={mixtures}")
        self.query_dim, self.mixtures = query_dim, mixtures
        self.query = nn.Linear(query_dim, 3 * mixtures)
        with torch.no_grad():
            for bias, begin in zip(self.query.bias.chunk(3), (0.0, -1.0, -3.0), strict=True):
                bias.fill_(begin)

    def start(self, memory: Memory | Tensor) -> Tensor:
        """κ = 0 for each item of a memory, or of a value (…, S, E)."""
        value = memory if isinstance(memory, Tensor) else memory.value
        return value.new_zeros((*value.shape[:-2], self.mixtures), dtype=_wide(value))

    def forward(
        self, query: Tensor, value: Tensor, *, mask: Mask | Tensor | None = None, state: Tensor | None = None
    ) -> Attended:
        self._check(query, value, state)
        # In half precision κ would stand still as soon as a step is smaller than its last bit.
        raw = self.query(query).to(_wide(query))
        log_alpha, log_beta, log_step = raw.chunk(3, dim=-1)  # (…, T, K)
        before = self.start(value) if state is None else state
        kappa = before.unsqueeze(-2) + log_step.exp().cumsum(dim=-2)
        places = torch.arange(value.shape[-2], device=value.device)
        square = (kappa.unsqueeze(-1) - places).square()  # (…, T, K, S)
        phi = torch.exp(log_alpha.unsqueeze(-1) - log_beta.exp().unsqueeze(-1) * square).sum(dim=-2)
        weights, after = phi.to(value.dtype), kappa[..., -1, :] if query.shape[-2] else before
        given = masks.as_mask(mask)
        if given is None:
            return Attended(weights @ value, weights, state=after)

        def read(memory: Memory, allowed: Tensor) -> Attended:
            masked = weights.masked_fill(~allowed, 0.0)
            return Attended(masked @ memory.value, masked, state=after)

        return guarded(read, Memory(value, value), given.tensor(tuple(phi.shape), phi.device))

    def _check(self, query: Tensor, value: Tensor, state: Tensor | None) -> None:
        if query.ndim < 2 or query.shape[-1] != self.query_dim:
            raise ValueError(f"this MixtureWindow takes query (…, T, {self.query_dim}), not {tuple(query.shape)}")
        if value.ndim != query.ndim or value.shape[:-2] != query.shape[:-2]:
            raise ValueError(
                f"query {tuple(query.shape)} and value {tuple(value.shape)} must be (…, T, D) and (…, S, E)"
            )
        wanted = (*query.shape[:-2], self.mixtures)
        if state is not None and state.shape != wanted:
            raise ValueError(f"the state of this MixtureWindow is κ, {wanted}, not {tuple(state.shape)}")


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)
