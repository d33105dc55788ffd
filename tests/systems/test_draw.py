"""DRAW against its equations in float64 loops, its bound, what it imagines, and what is refused."""

import math

import numpy as np
import pytest
import torch

import oracle
import regard
from regard.systems.draw import DRAW, VARIANTS, Config, box

SMALL = {"channels": 2, "height": 6, "width": 5, "classes": 3, "steps": 3, "hidden": 4, "latent": 2}


def built(**changes):
    torch.manual_seed(0)
    model = DRAW(Config(**{**SMALL, "read": 2, "write": 3, **changes})).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model


def batch(count=3, **changes):
    sizes, generator = {**SMALL, **changes}, torch.Generator().manual_seed(1)
    shape = (count, sizes["channels"], sizes["height"], sizes["width"])
    noise = torch.randn(count, sizes["steps"], sizes["latent"], generator=generator, dtype=torch.float64)
    image = torch.randint(0, 2, shape, generator=generator).double()
    return {"image": image, "label": torch.arange(count) % 3, "noise": noise}


def lstm(cell, x, state):
    """Four gates in torch's order, one unit at a time."""
    h, c = state
    w_x, w_h, b_x, b_h = (p.detach().numpy() for p in (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh))
    gates = w_x @ x + b_x + w_h @ h + b_h
    enter, forget, new, leave = np.split(gates, 4)

    def logistic(z):
        return 1 / (1 + np.exp(-z))

    c = logistic(forget) * c + logistic(enter) * np.tanh(new)
    return logistic(leave) * np.tanh(c), c


def place(module, h):
    raw = module.linear.weight.detach().numpy() @ h + module.linear.bias.detach().numpy()
    return [*raw[:2], *(6 * np.tanh(raw[2:] / 6))]


def linear(module, h):
    return module.weight.detach().numpy() @ h + module.bias.detach().numpy()


@pytest.mark.parametrize("attention", [True, False])
def test_the_bound_by_the_equations(attention):
    model, data = built(attention=attention), batch()
    nll = kl = 0.0
    for image, noise in zip(data["image"].numpy(), data["noise"].numpy()):
        encoder, decoder = (tuple(s.detach().numpy()) for s in (model.encoder_start, model.decoder_start))
        canvas = model.canvas_start.detach().numpy()
        for epsilon in noise:
            error = image - 1 / (1 + np.exp(-canvas))
            read = [*image, *error]
            if attention:
                numbers = place(model.read_place, decoder[0])
                read = [oracle.filter_bank_read(channel, numbers, 2) for channel in read]
            encoder = lstm(model.encoder, np.concatenate([np.ravel(read), decoder[0]]), encoder)
            mean, log_deviation = np.split(linear(model.posterior, encoder[0]), 2)
            kl += sum(0.5 * (m**2 + math.exp(2 * s) - 2 * s - 1) for m, s in zip(mean, log_deviation))
            decoder = lstm(model.decoder, mean + np.exp(log_deviation) * epsilon, decoder)
            stroke = linear(model.paint, decoder[0])
            if attention:
                numbers = place(model.write_place, decoder[0])
                patches = stroke.reshape(2, 3, 3)
                stroke = np.stack([oracle.filter_bank_write(patch, numbers, 6, 5) for patch in patches])
            canvas = canvas + stroke.reshape(canvas.shape)
        nll += (np.logaddexp(0, canvas) - image * canvas).sum()
    out = model(data)
    assert out["count"] == 3
    assert float(out["nll"]) == pytest.approx(nll / 3) and float(out["kl"]) == pytest.approx(kl / 3)
    assert float(out["bound"]) == pytest.approx((nll + kl) / 3) == float(out["loss"].detach())


def test_a_classifier_by_the_equations():
    model, data = built(goal="classify"), batch()
    for image, probability in zip(data["image"].numpy(), model.predict(data)):
        state = tuple(model.encoder_start.detach().numpy())
        for _ in range(3):
            numbers = place(model.read_place, state[0])
            patch = [oracle.filter_bank_read(channel, numbers, 2) for channel in image]
            state = lstm(model.encoder, np.ravel(patch), state)
        expected = np.exp(linear(model.output, state[0]))
        np.testing.assert_allclose(probability.numpy(), expected / expected.sum())


@pytest.mark.parametrize("goal", ["generate", "classify"])
def test_gradients(goal):
    model, data = built(goal=goal, steps=2), batch(2, steps=2)
    names, tensors = zip(*((name, p.detach().requires_grad_()) for name, p in model.named_parameters()))

    def loss(*given):
        return torch.func.functional_call(model, dict(zip(names, given)), (data,))["loss"]

    assert torch.autograd.gradcheck(loss, tensors, fast_mode=True)


@pytest.mark.parametrize("filters", [1, 2, 5, 12])
def test_at_first_the_grid_covers_the_image(filters):
    model = DRAW(Config(1, 28, 28, 10, read=filters, hidden=8))
    x, y, side, sigma = box(model.read_place(torch.zeros(8)), filters, 28, 28).tolist()
    assert (x, y) == pytest.approx((13.5, 13.5)) and side == pytest.approx(28)
    assert sigma == pytest.approx(14 / filters)


def test_a_sharp_grid_reads_and_writes_the_pixels_that_its_box_names():
    model = DRAW(Config(1, 9, 9, 10, read=3, write=3))
    stride = math.log(1 / (8 / 2))  # 1 pixel
    numbers = torch.tensor([(4 + 1) / 5 - 1, (3 + 1) / 5 - 1, -6.0, stride, 0.0])  # centre: x = 4, y = 3
    image = torch.rand(1, 9, 9)
    patch = model.reader(numbers, image).context
    torch.testing.assert_close(patch, image[:, 2:5, 3:6], atol=1e-4, rtol=0)
    painted = model.writer.write(numbers, patch, 9, 9)
    torch.testing.assert_close(painted[:, 2:5, 3:6], patch, atol=1e-4, rtol=0)
    assert painted.sum() == pytest.approx(float(patch.sum()), rel=1e-3)
    assert box(numbers, 3, 9, 9).tolist() == pytest.approx([4, 3, 3, math.exp(-3)], abs=1e-5)


def test_numbers_that_place_a_grid_stay_bounded():
    model = built()
    found = model.read_place(torch.full((1, 4), 1e4, dtype=torch.float64))
    assert (found[..., 2:].abs() <= 6).all()


def test_what_is_read_is_recorded():
    model, data = built(), batch()
    with regard.record(model) as tape, torch.no_grad():
        model(data)
    looks = tape["reader"].calls
    assert len(looks) == 3 and looks[0].weights.shape == (3, 4, 30)
    torch.testing.assert_close(looks[0].weights.sum(-1), torch.ones(3, 4, dtype=torch.float64), atol=1e-6, rtol=0)


def test_traces_and_dreams():
    model, data = built(), batch()
    drawn = model.trace(data)
    assert drawn.canvas.shape == (3, 3, 2, 6, 5) and drawn.read.shape == drawn.write.shape == (3, 3, 4)
    assert torch.equal(drawn.canvas[:, -1], model.predict(data))
    imagined = [built().float().imagine(4, generator=torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(imagined[0].canvas, imagined[1].canvas) and imagined[0].read is None
    assert imagined[0].canvas.shape == (4, 3, 2, 6, 5)
    blind = built(attention=False).trace(data)
    assert blind.read is None and blind.write is None
    glimpses = built(goal="classify").trace(data)
    assert glimpses.canvas is None and glimpses.patch.shape == (3, 3, 2, 2, 2)


def test_noise_is_drawn_from_torch():
    model, data = built(), batch()
    del data["noise"]
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(float(model.float()({"image": data["image"].float()})["loss"].detach()))
    assert losses[0] == losses[1] != losses[2]


def test_it_learns_to_draw():
    """Two pictures: half a nat and a little more is all that a good code needs, where none at all costs 16 log 2."""
    torch.manual_seed(0)
    model = DRAW(Config(1, 8, 8, 2, steps=3, hidden=24, latent=2, read=4, write=4))
    image = torch.zeros(32, 1, 8, 8)
    image[:16, :, 1:5, 2:4] = 1
    image[16:, :, 4:6, 3:7] = 1
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(250):
        out = model({"image": image})
        optimizer.zero_grad()
        out["loss"].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10)
        optimizer.step()
    assert float(out["bound"]) < 4, "it has not learned which of two pictures to draw"
    pictures = model.imagine(16).canvas[:, -1].round()
    known = [(pictures == image[i]).flatten(1).float().mean(1) for i in (0, 16)]
    assert (torch.stack(known).max(0).values > 0.9).float().mean() > 0.7


def test_an_empty_batch_is_finite():
    for goal in ("generate", "classify"):
        out = built(goal=goal)(batch(0))
        assert out["count"] == 0 and all(value.isfinite() for value in out.values())


def test_variants_build():
    for changes in VARIANTS.values():
        DRAW(Config(1, 28, 28, 10, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"goal": "clasify"}, "did you mean 'classify'"),
        ({"read": 0}, "read must be at least 1, not 0"),
        ({"write": 7}, "write = 7: images of 6×5 are smaller"),
        ({"steps": 0}, "steps must be at least 1"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        built(**changes)


def test_bad_batches():
    model, data = built(), batch()
    with pytest.raises(ValueError, match=r"images are \(3, 6, 5\)"):
        model({"image": data["image"][:, 0]})
    with pytest.raises(ValueError, match=r"noise is \(3, 2, 2\)"):
        model({**data, "noise": data["noise"][:, :2]})
    with pytest.raises(ValueError, match="built to classify"):
        built(goal="classify").imagine(1)
