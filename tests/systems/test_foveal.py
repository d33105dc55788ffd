"""Foveal glimpses: the posterior against a sum over all hidden states, the retina, and what trains what."""

from __future__ import annotations

import itertools

import pytest
import torch

from regard.systems import foveal

SIZES = dict(channels=1, height=13, width=12, classes=3)
SMALL = dict(fixations=3, size=4, rings=1, grid=3, factors=5, hidden=8, generative=0.1)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def build(**more):
    return foveal.Foveal(foveal.Config(**{**SIZES, **SMALL, **more})).double()


def batch(count=4):
    return {"image": torch.rand(count, 1, 13, 12).double(), "label": torch.randint(0, 3, (count,))}


def negative_energy(model, y, pixels, places, hidden):
    """−E(y, x₁…x_k, h), term by term."""
    total = model.class_bias[y] + model.hidden_bias @ hidden + model.by_class[y] @ hidden
    for x, place in zip(pixels, places):
        weights = model.out @ torch.diag(torch.sigmoid(model.gates[place])) @ model.into
        total = total + hidden @ weights @ x + model.pixel_bias @ x
    return total


def states(count):
    return [torch.tensor(bits).double() for bits in itertools.product((0.0, 1.0), repeat=count)]


def test_the_posterior_is_the_sum_over_all_hidden_states():
    model, data = build().eval(), batch()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
        fixed = model.fixate(data["image"])
        for row in range(4):
            for k in range(3):
                seen = fixed.pixels[row, : k + 1], fixed.places[row, : k + 1]
                each = torch.stack(
                    [
                        torch.stack([negative_energy(model, y, *seen, h) for h in states(8)]).logsumexp(0)
                        for y in range(3)
                    ]
                )
                assert torch.allclose(fixed.log_prob[row, k], each - each.logsumexp(0), atol=1e-10)


def test_expected_hidden_units_are_those_of_all_states():
    model = build()
    summed = torch.randn(2, 8).double()
    with torch.no_grad():
        found = model._expected(summed, model.posterior(summed))
        for row in range(2):
            weighted, total = torch.zeros(8).double(), 0.0
            for y in range(3):
                for h in states(8):
                    inner = model.class_bias[y] + (model.hidden_bias + model.by_class[y] + summed[row]) @ h
                    weighted, total = weighted + inner.exp() * h, total + inner.exp()
            assert torch.allclose(found[row], weighted / total, atol=1e-10)


def test_free_energy_of_class_and_pixels_is_a_sum_over_hidden_states():
    model = build()
    pixels, places, label = torch.rand(2, 28).double(), torch.tensor([1, 7]), torch.tensor([2, 0])
    with torch.no_grad():
        before = model.drive(torch.rand(2, 28).double(), torch.tensor([3, 4]))
        found = model._joint(before, pixels, places, label)
        for row in range(2):
            each = [
                negative_energy(model, label[row], pixels[row : row + 1], places[row : row + 1], h) + before[row] @ h
                for h in states(8)
            ]
            assert torch.allclose(-found[row], torch.stack(each).logsumexp(0), atol=1e-10)


def test_contrastive_divergence_is_zero_on_average_where_data_are_the_machines_own():
    """Of a machine without interactions the step of CD-1 draws from its own distribution."""
    model = build(fixations=1, policy="random")
    with torch.no_grad():
        for parameter in (model.into, model.out, model.by_class):
            parameter.zero_()
        model.class_bias.copy_(torch.tensor([0.5, -0.3, 0.1]))
    count = 4000
    pixels = torch.bernoulli(torch.sigmoid(model.pixel_bias).expand(count, 1, -1))
    places = torch.zeros(count, 1, dtype=torch.long)
    label = torch.multinomial(torch.softmax(model.class_bias.detach(), -1), count, replacement=True)
    inputs = torch.zeros(count, 1, 8).double()
    fixed = foveal.Seen(places, pixels, inputs, torch.zeros(count, 1, 3), torch.zeros(count, 1, 9))
    model._divergence(fixed, label).mean().backward()
    for name in ("pixel_bias", "class_bias"):
        assert getattr(model, name).grad.abs().max() < 0.04, name
    model.zero_grad()
    model._divergence(fixed._replace(pixels=torch.ones_like(pixels)), label).mean().backward()
    assert (model.pixel_bias.grad < -0.5).all(), "pixels that are brighter than the machine's raise its bias"


def test_the_retina_shows_every_pixel_once():
    model = build(size=8, rings=2, height=40, width=40).double()
    assert int(model.once.sum()) == 64 + 2 * 48
    location = torch.zeros(1, 2).double()
    share = torch.zeros(1, 40, 40, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([1.0] * 64 + [4.0] * 48 + [16.0] * 48).double()  # pixels of a cell
    (model.look(location, share[None])[0] * weights).sum().backward()
    expected = torch.zeros(40, 40).double()
    expected[4:36, 4:36] = 1
    assert torch.equal(share.grad[0], expected)


def test_the_controller_learns_what_each_place_is_worth():
    model, data = build(sharpness=2.0).eval(), batch()
    with torch.no_grad():
        fixed = model.fixate(data["image"])
        worth = model._worth(data["image"], fixed, data["label"])
        for row in range(4):
            for k in range(3):
                each = []
                for place in range(9):
                    summed = torch.zeros(8).double()
                    for i, where in enumerate([*fixed.places[row, :k].tolist(), place]):
                        x = model.look(model.grid[where][None].double(), data["image"][row : row + 1])[0]
                        assert i == k or torch.allclose(x, fixed.pixels[row, i])
                        summed = summed + model.out @ (torch.sigmoid(model.gates[where]) * (model.into @ x))
                    each.append(float(model.posterior(summed)[data["label"][row]].exp()) ** 2)
                expected = torch.tensor(each).double() / sum(each)
                assert torch.allclose(worth[row, k], expected, atol=1e-9)
    for places, scores in zip(fixed.places.tolist(), fixed.scores):
        for k, place in enumerate(places):
            left = [each for each in range(9) if each not in places[:k]]
            assert place == max(left, key=lambda each: float(scores[k, each])), "the best that was not fixated yet"


def test_what_the_controller_learns_reaches_the_controller_alone():
    model, data = build(generative=0.0), batch()
    fixed = model.fixate(data["image"])
    loss = -(model._worth(data["image"], fixed, data["label"]) * fixed.scores.log_softmax(-1)).sum()
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    reached = {name for (name, _), grad in zip(model.named_parameters(), found) if grad is not None}
    assert reached == {"controller.weight", "controller.bias"}


def test_training_explores_and_evaluation_does_not():
    model, data = build(explore=1.0, fixations=2), batch(200)
    places = model.fixate(data["image"]).places
    assert len(places.unique()) == 9 and (places[:, 0] != places[:, 1]).all()
    model.eval()
    assert torch.equal(model.fixate(data["image"]).places, model.fixate(data["image"]).places)
    assert len(model.fixate(data["image"]).places[:, 0].unique()) == 1, "nothing was seen before the first fixation"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 6}, "a multiple of 4"),
        ({"size": 16}, "larger than an image"),
        ({"policy": "leraned"}, "did you mean 'learned'"),
        ({"explore": 1.5}, "between 0 and 1"),
        ({"fixations": 10}, "has fewer places"),
        ({"sharpness": 0.0}, "the last above 0"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)
