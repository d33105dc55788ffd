"""Dropout with cheap masks."""

import pytest
import torch

from regard.layers.dropout import Dropout


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9])
def test_the_share_dropped_and_the_scale(share):
    torch.manual_seed(0)
    x = torch.ones(1001, 99)
    out = Dropout(share)(x)
    dropped = float((out == 0).float().mean())
    assert dropped == pytest.approx(share, abs=5 * (share * (1 - share) / x.numel()) ** 0.5)
    torch.testing.assert_close(out[out != 0], torch.full_like(out[out != 0], 1 / (1 - share)))
    columns = (out == 0).float().mean(0)  # no column, nor any of the four numbers of a draw, is favoured
    assert (columns - share).abs().max() < 6 * (share * (1 - share) / 1001) ** 0.5
    quarters = (out.flatten()[: 4 * (x.numel() // 4)].view(-1, 4) == 0).float().mean(0)
    assert (quarters - share).abs().max() < 6 * (share * (1 - share) / (x.numel() // 4)) ** 0.5


def test_neighbours_are_independent():
    torch.manual_seed(1)
    kept = (Dropout(0.4)(torch.ones(400_001)) != 0).float() - 0.6
    for lag in (1, 2, 3, 4, 8):
        assert float((kept[lag:] * kept[:-lag]).mean()) / 0.24 == pytest.approx(0, abs=0.01)


def test_the_gradient_has_the_same_mask():
    torch.manual_seed(0)
    x = torch.randn(5, 7, 3).transpose(0, 2).requires_grad_()
    out = Dropout(0.3)(x)
    (grad,) = torch.autograd.grad(out, x, torch.ones_like(out))
    torch.testing.assert_close(out, x * grad)
    assert grad.unique().tolist() == pytest.approx([0.0, 1 / 0.7])


def test_torchs_seed_rules_it():
    x = torch.ones(64)
    draws = []
    for _ in range(2):
        torch.manual_seed(5)
        draws.append(Dropout(0.5)(x))
    assert draws[0].equal(draws[1])
    assert not draws[0].equal(Dropout(0.5)(x))


def test_edges():
    x = torch.randn(6)
    assert Dropout(0.0)(x).equal(x)
    assert Dropout(1.0)(x).eq(0).all()
    assert Dropout(0.5).eval()(x).equal(x)
    assert Dropout(0.5)(x[:0]).shape == (0,)
    assert Dropout(0.5)(x.double()).dtype == torch.float64
