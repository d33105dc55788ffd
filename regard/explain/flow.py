"""Attention flow: the maximum flow from an input to an output, with the weights as capacities."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.explain._layers import mixed
from regard.tape import Tape


def flow(attentions: Tape | Sequence[Tensor], *, residual: float = 0.5, heads: str = "mean") -> Tensor:
    """The maximum flow from each output to each input through the layers, whose weights A = (1 − r) W + r I are the
    capacities of the edges. Abnar & Zuidema 2020 (arXiv:2005.00928), section 3.

    Arguments as for :func:`regard.explain.rollout`. It is slower: T² flows through L·T² edges each, by Dinic's
    algorithm.

    Returns:
        (B, T, T): row t has the flow from each of the inputs to the output at t, at most 1.
    """
    from regard.explain import _flow_loops

    layers = mixed(attentions, residual, heads)  # (L, B, T, T)
    capacity = layers.detach().transpose(0, 1).double().cpu().contiguous().numpy()
    flows = torch.stack([torch.from_numpy(_flow_loops.flows(matrix)) for matrix in capacity])
    return flows.to(device=layers.device, dtype=layers.dtype)
