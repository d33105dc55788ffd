"""Listeners that halve, the way back to frames, and narrowed attention."""

import numpy as np
import pytest
import torch

from regard.layers.listener import Listener, joined, shares, spread
from regard.layers.narrowed import Sharpened, around_median


def lstm(cell, inputs):
    """One direction in float64, gate by gate."""
    w, u, b, c = (getattr(cell, name).detach().double().numpy() for name in _NAMES)
    hidden = state = np.zeros(u.shape[1])
    found = []
    for x in inputs:
        i, f, g, o = np.split(w @ x + b + u @ hidden + c, 4)
        sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
        state = sigmoid(f) * state + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(state)
        found.append(hidden)
    return found


_NAMES = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


@pytest.mark.parametrize(("layers", "halvings", "join"), [(1, 0, 1), (3, 2, 1), (2, 2, 3), (2, 0, 2)])
def test_a_pyramid_against_loops(layers, halvings, join):
    torch.manual_seed(0)
    model = Listener(3, 2, layers=layers, halvings=halvings, join=join).double()
    frames, lengths = torch.randn(2, 7, 3).double(), torch.tensor([7, 4])
    states, many = model(frames, lengths)
    for row, length in enumerate(lengths.tolist()):
        heard = [frame.numpy() for frame in frames[row, :length]]
        for layer in range(layers):
            group = (join if layer == 0 else 1) * (2 if layer >= layers - halvings else 1)
            heard += [np.zeros_like(heard[0])] * (-len(heard) % group)
            heard = [np.concatenate(heard[k : k + group]) for k in range(0, len(heard), group)]
            ahead, behind = lstm(model.forwards[layer], heard), lstm(model.backwards[layer], heard[::-1])[::-1]
            heard = [np.concatenate(pair) for pair in zip(ahead, behind)]
        assert many[row] == len(heard) == -(-length // model.factor)
        assert np.allclose(states[row, : len(heard)].detach().numpy(), heard)


def test_joined_frames_know_nothing_of_padding():
    frames = torch.arange(12.0).view(1, 6, 2)
    found, lengths = joined(frames, torch.tensor([3]), 2)
    assert found.tolist() == [[[0, 1, 2, 3], [4, 5, 0, 0], [0, 0, 0, 0]]] and lengths.tolist() == [2]


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_weights_over_frames_add_up_to_those_over_steps(factor):
    lengths = torch.tensor([9, 4, 1])
    steps = -(-9 // factor)
    weights = torch.rand(3, steps) * (torch.arange(steps) < -(-lengths[:, None] // factor))
    found = spread(weights, shares(lengths, 9, factor), factor)
    assert found.shape == (3, 9) and (found[torch.arange(9) >= lengths[:, None]] == 0).all()
    for k in range(steps):
        assert torch.allclose(found[:, k * factor : (k + 1) * factor].sum(1), weights[:, k], atol=1e-6)


def test_impossible_listeners_are_told():
    for wrong in ({"layers": 0, "halvings": 0}, {"layers": 2, "halvings": 3}, {"layers": 1, "halvings": 0, "join": 0}):
        with pytest.raises(ValueError, match="a listener has at least one layer"):
            Listener(3, 2, **wrong)


def test_sharpened_against_the_formula():
    scores = torch.tensor([[1.0, 3.0, 2.0, 2.5], [0.0, 9.0, 1.0, 0.5]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True, True], [True, False, True, True]])
    found = Sharpened(2.0, keep=2)(scores, mask)
    for row, kept in enumerate([[1, 3], [2, 3]]):
        powers = {s: np.exp(2 * float(scores[row, s])) for s in kept}
        for s in range(4):
            assert float(found[row, s]) == pytest.approx(powers.get(s, 0) / sum(powers.values()))
    assert torch.equal(Sharpened(1.0)(scores, mask), torch.softmax(scores.masked_fill(~mask, -torch.inf), -1))
    dead = Sharpened(1.0, keep=1)(scores[:1], torch.zeros(1, 4, dtype=torch.bool))
    assert (dead == 0).all()
    with pytest.raises(ValueError, match="must be positive"):
        Sharpened(0.0)


def test_the_window_is_around_the_median():
    weights = torch.tensor([[0.0, 0.1, 0.2, 0.6, 0.1, 0.0], [0.9, 0.1, 0, 0, 0, 0], [0.0] * 6])
    found = around_median(weights, 1)
    assert [row.nonzero().flatten().tolist() for row in found] == [[2, 3, 4], [0, 1], [0, 1]]
