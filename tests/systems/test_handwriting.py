"""Graves's networks against loops over the equations of the paper, and what writing must keep."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from contracts.cases.handwriting import CHARACTERS, SIZES, alone, lines
from regard.kernels import lstm, products
from regard.systems.handwriting import CORRELATION, Config, Handwriting, noise_of


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def network(characters=CHARACTERS, dtype=torch.float32, **changes):
    model = Handwriting(Config(characters, **{**SIZES, **changes})).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def double(batch):
    return {name: value.double() if value.is_floating_point() else value for name, value in batch.items()}


@pytest.fixture
def plain(monkeypatch):
    """Switch the compiled loops off."""

    def switch():
        monkeypatch.setattr(lstm, "fits", lambda *tensors: False)

    return switch


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def loops(model, points, text):
    """−log p of each point of one line, by loops over eqs. 1-26 and 46-51, and φ before each."""
    config, parameters = model.config, {n: p.detach().double().numpy() for n, p in model.named_parameters()}
    hidden, mixtures, window = config.hidden, config.mixtures, config.window
    h = [[0.0] * hidden for _ in model.cells]
    c = [[0.0] * hidden for _ in model.cells]
    kappa, read, nats, phis = [0.0] * window, [0.0] * config.characters, [], []
    for now, after in pairwise(points):
        for n in range(config.layers):
            seen = [*now, *read, *(h[n - 1] if n else [])]
            sums = []
            for row in range(4 * hidden):
                total = parameters[f"cells.{n}.bias_ih"][row] + parameters[f"cells.{n}.bias_hh"][row]
                total += sum(w * x for w, x in zip(parameters[f"cells.{n}.weight_ih"][row], seen, strict=True))
                total += sum(w * x for w, x in zip(parameters[f"cells.{n}.weight_hh"][row], h[n], strict=True))
                sums.append(total)
            for j in range(hidden):
                i, f, g, o = (sums[gate * hidden + j] for gate in range(4))
                c[n][j] = sigmoid(f) * c[n][j] + sigmoid(i) * math.tanh(g)
                sums[j] = sigmoid(o) * math.tanh(c[n][j])
            h[n] = sums[:hidden]
            if n == 0 and config.characters:
                weight, bias = parameters["window.query.weight"], parameters["window.query.bias"]
                raw = [sum(w * x for w, x in zip(weight[k], h[0])) + bias[k] for k in range(3 * window)]
                phi = [0.0] * (len(text) + 1)
                for k in range(window):
                    kappa[k] += math.exp(raw[2 * window + k])
                    for u in range(len(text) + 1):
                        distance = (kappa[k] - u) ** 2
                        phi[u] += math.exp(raw[k]) * math.exp(-math.exp(raw[window + k]) * distance)
                read = [sum(phi[u] for u, each in enumerate(text) if each == k) for k in range(config.characters)]
                phis.append(phi)
        every = [x for layer in h for x in layer]
        weight, bias = parameters["output.weight"], parameters["output.bias"]
        y = [sum(w * x for w, x in zip(weight[k], every)) + bias[k] for k in range(1 + 6 * mixtures)]
        total = sum(math.exp(y[1 + m]) for m in range(mixtures))
        density = 0.0
        for m in range(mixtures):
            at = 1 + mixtures + m
            sx, sy = (max(math.exp(y[at + (2 + i) * mixtures]), config.least) for i in range(2))
            rho = CORRELATION * math.tanh(y[at + 4 * mixtures])
            x, z = (after[0] - y[at]) / sx, (after[1] - y[at + mixtures]) / sy
            square = x**2 + z**2 - 2 * rho * x * z
            norm = 2 * math.pi * sx * sy * math.sqrt(1 - rho**2)
            density += math.exp(y[1 + m]) / total * math.exp(-square / (2 * (1 - rho**2))) / norm
        up = sigmoid(y[0])
        nats.append(-math.log(density) - math.log(up if after[2] else 1 - up))
    return nats, phis


@pytest.mark.parametrize(("characters", "layers"), [(CHARACTERS, 3), (CHARACTERS, 1), (0, 2)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])  # the parts of the core, and compiled loops
def test_loss_against_loops(characters, layers, dtype):
    model, batch = network(characters, dtype, layers=layers), lines()
    given = double(batch) if dtype == torch.float64 else batch
    assert lstm.fits(given["points"]) == (dtype == torch.float32)
    found, nats = model(given), []
    for row, (length, size) in enumerate(zip(batch["lengths"], batch["text_lengths"])):
        each, _ = loops(model, batch["points"][row, : length + 1].double().tolist(), batch["text"][row, :size].tolist())
        nats += each
    assert found["count"] == len(nats)
    assert found["nll"].item() == pytest.approx(np.mean(nats), rel=1e-9 if dtype == torch.float64 else 1e-5)


def test_window_against_loops():
    model, batch = network(), lines()
    written = model.write(batch, most=0, seeds=range(4))
    for row, (length, size) in enumerate(zip(batch["lengths"], batch["text_lengths"])):
        points, text = batch["points"][row, : length + 1].double().tolist(), batch["text"][row, :size].tolist()
        _, phi = loops(model, points, text)
        assert np.allclose(written.phi[row, :length, : size + 1], phi, rtol=1e-4, atol=1e-6)


def test_gradients():
    model, batch = network(dtype=torch.float64, layers=2, hidden=4, clip_gates=1e9, clip_output=1e9), double(lines())
    names = [name for name, _ in model.named_parameters()]

    def loss(*parameters):
        return torch.func.functional_call(model, dict(zip(names, parameters)), (batch,))["loss"]

    assert torch.autograd.gradcheck(loss, tuple(model.parameters()))


@pytest.mark.parametrize("characters", [CHARACTERS, 0])
@pytest.mark.parametrize("clip", [1e9, 0.5])
def test_compiled_gradients_are_those_of_the_parts(characters, clip, plain):
    model, batch = network(characters, clip_gates=0.2 * clip, clip_output=clip), lines()
    found = torch.autograd.grad(model(batch)["loss"], list(model.parameters()))
    plain()
    expected = torch.autograd.grad(model(batch)["loss"], list(model.parameters()))
    for name, one, other in zip(dict(model.named_parameters()), found, expected):
        assert torch.allclose(one, other, atol=1e-5), name


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("characters", [CHARACTERS, 0])
def test_long_batches_are_trained_as_in_float64(characters, ordered, monkeypatch):
    """Several blocks of steps, the last one short, with products by oneDNN or by torch; lengths differ."""
    monkeypatch.setattr(products, "LITTLE", 0 if ordered else 2**60)
    generator = torch.Generator().manual_seed(2)
    batch = {"points": torch.randn(7, 161, 3, generator=generator), "lengths": torch.randint(1, 161, (7,))}
    batch["points"][..., 2] = (batch["points"][..., 2] > 1).float()
    batch["lengths"][0] = 160
    batch |= {"text": torch.randint(0, CHARACTERS, (7, 9)), "text_lengths": torch.randint(1, 10, (7,))}
    model = network(characters, hidden=20, pace=12.0, clip_gates=1e9, clip_output=1e9)
    twin = network(characters, torch.float64, hidden=20, pace=12.0, clip_gates=1e9, clip_output=1e9)
    twin.load_state_dict(model.state_dict())
    assert len(products.Blocks(160, 7).spans) == 3
    loss, expected_loss = model(batch)["loss"], twin(double(batch))["loss"]
    assert loss.item() == pytest.approx(expected_loss.item(), rel=1e-5)
    found = torch.autograd.grad(loss, list(model.parameters()))
    expected = torch.autograd.grad(expected_loss, list(twin.parameters()))
    for name, one, other in zip(dict(model.named_parameters()), found, expected):
        assert torch.allclose(one.double(), other, atol=1e-4 * other.abs().max()), name


def test_gradients_can_be_asked_twice():
    model, batch = network(), lines()
    loss, parameters = model(batch)["loss"], list(model.parameters())
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(loss, parameters)):
        assert torch.equal(one, other)


def test_autocast_takes_the_parts():
    model, batch = network(), lines()
    with torch.autocast("cpu", torch.bfloat16):
        assert not lstm.fits(batch["points"])
        found = model(batch)["loss"]
    assert found.item() == pytest.approx(model(batch)["loss"].item(), rel=0.05)


def test_clipping_bounds_what_a_point_can_do():
    """One point far away: without clipping its gradient is thousands of times as large."""
    batch = {name: value[:1] for name, value in lines().items()}
    batch["points"][0, 3, :2] = 900.0
    sizes = {}
    for limit in (1e9, 100.0):
        torch.manual_seed(1)
        model = Handwriting(Config(CHARACTERS, **SIZES, clip_output=limit))
        model(batch)["loss"].backward()
        sizes[limit] = float(model.output.bias.grad.abs().max())
    assert sizes[100.0] <= 100.0 < 0.1 * sizes[1e9]


def test_far_points_and_extreme_outputs_stay_finite():
    model, batch = network(), lines()
    batch["points"][:, 1:, :2] *= 1e4
    with torch.no_grad():
        model.output.bias.mul_(300)
    out = model(batch)
    out["loss"].backward()
    assert torch.isfinite(out["loss"])
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def begun(batch):
    return {**batch, "points": batch["points"][:, :1], "lengths": torch.zeros_like(batch["lengths"])}


def same(one, other, rows=slice(None)):
    assert torch.equal(one.lengths, other.lengths[rows])
    for row, length in enumerate(one.lengths):
        assert torch.allclose(one.points[row, :length], other.points[rows][row, :length], atol=1e-4)


@pytest.mark.parametrize("primed", [False, True])
@pytest.mark.parametrize("characters", [CHARACTERS, 0])
def test_compiled_writing_is_that_of_the_parts(characters, primed, plain):
    model, batch = network(characters), lines() if primed else begun(lines())
    found = model.write(batch, most=12, seeds=[1, 2, 3, 4], bias=[0.0, 0.5, 1.0, 2.0])
    plain()
    expected = model.write(batch, most=12, seeds=[1, 2, 3, 4], bias=[0.0, 0.5, 1.0, 2.0])
    same(found, expected)
    assert torch.equal(found.stopped, expected.stopped)
    if characters:
        assert torch.allclose(found.phi, expected.phi, atol=1e-4)
    assert torch.allclose(found.expected, expected.expected, atol=1e-3)


def test_ordered_weights_write_the_same(monkeypatch, plain):
    model, batch = network(), lines()
    monkeypatch.setattr(products, "LITTLE", 0)
    found = model.write(batch, most=12, seeds=[1, 2, 3, 4], bias=0.5)
    plain()
    same(found, model.write(batch, most=12, seeds=[1, 2, 3, 4], bias=0.5))


def test_batched_equals_one_by_one():
    model, batch = network(), lines()
    together = model.write(batch, most=[20, 3, 20, 20], seeds=[5, 6, 7, 8], bias=0.5)
    for row, one in enumerate(alone(batch)):
        same(model.write(one, most=[20, 3, 20, 20][row], seeds=[5 + row], bias=0.5), together, slice(row, row + 1))


def test_a_seed_gives_the_same_line_also_after_saving(tmp_path):
    model, batch = network(), begun(lines())
    first = model.write(batch, most=30, seeds=[1, 1, 2, 3])
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other = network()
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(first.points, other.write(batch, most=30, seeds=[1, 1, 2, 3]).points)
    assert not torch.equal(first.points[0, 0], model.write(batch, most=30, seeds=[9, 1, 2, 3]).points[0, 0])
    assert np.array_equal(noise_of(3, 700)[:300], noise_of(3, 300))


def test_it_goes_on_from_what_it_is_primed_with():
    model, batch = network(0), lines()
    written = model.write(batch, most=5, seeds=range(4))
    for row, length in enumerate(batch["lengths"]):
        assert torch.equal(written.points[row, :length], batch["points"][row, 1 : length + 1])
    assert torch.equal(written.lengths, batch["lengths"] + 5)


@pytest.mark.parametrize("up", [False, True])
def test_it_stops_when_the_text_is_over_and_the_pen_rests(up):
    """A window of one Gaussian that moves half a place a point is nearer to place U than to U − 1 before point 2U."""
    model = network(window=1)
    with torch.no_grad():
        model.window.query.weight.zero_()
        model.window.query.bias.copy_(torch.tensor([0.0, 0.0, math.log(0.5)]))
        model.output.weight[0], model.output.bias[0] = 0, 50.0 if up else -50.0
    written = model.write(begun(lines()), most=100, seeds=range(4))
    over = [2 * size - 1 for size in (6, 3, 1, 4)]
    if up:
        assert written.lengths.tolist() == over
    else:  # a pen that is never lifted may finish for two more characters
        assert written.lengths.tolist() == [each + 2 * SIZES["pace"] for each in over]
    assert written.stopped.all()
    assert not model.write(begun(lines()), most=1, seeds=range(4)).stopped[0]


def test_a_rest_is_learned_and_not_measured():
    model, batch = network(), lines()
    longer = torch.nn.functional.pad(batch["points"], (0, 0, 0, 1))
    rested = {**batch, "points": longer, "lengths": batch["lengths"] + 1}
    rested["points"][torch.arange(4), rested["lengths"]] = torch.tensor([0.0, 0.0, 1.0])
    rested["rests"] = torch.ones(())
    plain, found = model(batch), model(rested)
    assert found["count"] == plain["count"]
    assert torch.allclose(found["nll"], plain["nll"], atol=1e-5)
    total = model({name: value for name, value in rested.items() if name != "rests"})
    more = total["pen"] * total["count"] - plain["pen"] * plain["count"]
    assert more > 0 and torch.allclose(found["loss"] * found["count"], plain["loss"] * plain["count"] + more, atol=1e-4)


def test_a_large_bias_draws_the_likeliest_mean():
    model, batch = network(0), begun(lines())
    written = model.write(batch, most=1, seeds=range(4), bias=40.0)
    expected = model.mixture(written.expected[:, 0])
    likeliest = expected.mean[torch.arange(4), expected.log_weights.argmax(-1)]
    assert torch.allclose(written.points[:, 0, :2], likeliest, atol=1e-5)


def test_samples_follow_the_mixture():
    """Mean and covariance of many draws are those of the mixture."""
    model = network(0, layers=1)
    one = {name: value[:1].expand(4000, *value.shape[1:]) for name, value in begun(lines()).items()}
    written = model.write(one, most=1, seeds=range(4000))
    expected = model.mixture(written.expected[0, 0])
    weights, mean, deviation = expected.log_weights.exp(), expected.mean, expected.log_deviation.exp()
    first = (weights[:, None] * mean).sum(0)
    second = (weights[:, None] * (deviation**2 + mean**2)).sum(0) - first**2
    product = expected.correlation * deviation.prod(-1) + mean.prod(-1)
    drawn = written.points[:, 0]
    error = 4 * (second / 4000).sqrt()
    assert ((drawn[:, :2].mean(0) - first).abs() < error).all()
    assert torch.allclose(drawn[:, :2].var(0), second, rtol=0.15)
    covariance = (weights * product).sum() - first.prod()
    assert torch.cov(drawn[:, :2].T)[0, 1] == pytest.approx(float(covariance), abs=0.1 * float(second.max()))
    assert drawn[:, 2].mean() == pytest.approx(float(torch.sigmoid(expected.pen)), abs=0.04)


def test_bad_input():
    model, batch = network(), lines()
    for changes, said in [
        ({"points": batch["points"][..., :2]}, r"\(B, T \+ 1, 3\)"),
        ({"lengths": batch["lengths"] + 5}, "do not fit points"),
        ({"text": batch["text"] + CHARACTERS}, "numbers below 5"),
        ({"text_lengths": batch["text_lengths"] + 1}, "do not fit text"),
        ({"text": batch["text"][:2]}, "for 4 lines"),
    ]:
        with pytest.raises(ValueError, match=said):
            model({**batch, **changes})
    with pytest.raises(ValueError, match="'text' is missing"):
        model({"points": batch["points"], "lengths": batch["lengths"]})
    with pytest.raises(ValueError, match="2 seeds for 4 lines"):
        model.write(batch, most=3, seeds=[1, 2])
    with pytest.raises(ValueError, match="from 0 on, not -1"):
        model.write(batch, most=3, seeds=range(4), bias=-1)
    for changes, said in [({"layers": 4}, "one to three"), ({"pace": 0.0}, "pace"), ({"hidden": 0}, "hidden")]:
        with pytest.raises(ValueError, match=said):
            Config(3, **changes)
