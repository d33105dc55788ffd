"""Spatial transformer networks: controls of equal size, what is refused, and that they learn to rectify."""

import pytest
import torch
from torch import nn

import regard
from regard.systems.stn import STN, VARIANTS, Config, size

SIZES = {"channels": 1, "height": 40, "width": 40, "classes": 10}


def batch(count=3, channels=1, side=40):
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(count, channels, side, side, generator=generator)
    return {"image": image, "label": torch.arange(count) % 10}


@pytest.mark.parametrize("body", ["cnn", "fcn"])
def test_all_networks_of_a_comparison_are_equally_large(body):
    for kind in ("none", "affine", "projective", "thin_plate"):
        for crop in (0, 20):
            model = STN(Config(**SIZES, body=body, transformer=kind, crop=crop))
            count = size(model)
            assert count == sum(model.counts().values())
            assert 0.97 * 400_000 < count <= 400_000, (kind, crop, count)


def test_one_more_hidden_unit_would_be_too_many():
    model = STN(Config(**SIZES, parameters=300_000))
    hidden = model.body[-1].in_features
    inputs = model.body[-4].in_features
    assert size(model) <= 300_000 < size(model) + inputs + 1 + 10
    assert hidden == model.body[-4].out_features


def test_at_first_the_body_sees_the_image_itself():
    torch.manual_seed(0)
    model = STN(Config(**SIZES, transformers=2)).eval()
    seen = model.sight(batch())
    for k in range(2):
        torch.testing.assert_close(seen.crops[:, k], batch()["image"], atol=1e-5, rtol=0)
    assert seen.grids.shape == (3, 2, 40, 40, 2)


@pytest.mark.parametrize("body", ["cnn", "fcn"])
@pytest.mark.parametrize("leak", [0.0, 0.1])
def test_what_leaks_comes_to_life_again(body, leak):
    model = STN(Config(**SIZES, body=body, leak=leak))
    localizer = model.transformers[0].localizer
    hidden = [layer for layer in localizer if isinstance(layer, nn.Linear)][-2]
    with torch.no_grad():
        localizer[-1].weight.normal_(std=1e-3)  # it begins with zeros, through which no gradient comes
        hidden.bias.fill_(-100)  # all closed
    model(batch())["loss"].backward()
    assert bool(hidden.weight.grad.abs().sum() > 0) == (leak > 0)


def test_the_pace_is_how_far_a_step_of_adam_takes_the_grid():
    moved = []
    for pace in (1.0, 0.1):
        torch.manual_seed(0)
        model = STN(Config(**SIZES, pace=pace))
        optimizer = torch.optim.Adam(model.transformers.parameters(), lr=0.01)
        before = model.sight(batch()).grids
        model(batch())["loss"].backward()
        optimizer.step()
        moved.append(float((model.sight(batch()).grids - before).abs().max()))
    assert moved[1] == pytest.approx(0.1 * moved[0], rel=0.05) and moved[0] > 0.005


@pytest.mark.parametrize(
    ("kind", "right"),
    [("attention", [0.0, 5.0, 0.0]), ("affine", [0.0, 0.0, 5.0, 0.0, 0.0, 0.0]), ("thin_plate", [5.0, 0.0] * 16)],
)
def test_a_spring_calls_a_grid_back(kind, right):
    """Of what lies wholly outside, the class says nothing."""
    torch.manual_seed(0)
    for spring in (0.0, 0.1):
        model = STN(Config(**SIZES, transformer=kind, transformers=2, spring=spring))
        last = model.transformers[0].localizer[-1]
        with torch.no_grad():
            last.bias.copy_(torch.tensor(right))
        loss = model(batch())["loss"]
        loss.backward()
        assert bool(last.bias.grad @ torch.tensor(right) > 0) == (spring > 0)
        with torch.no_grad():
            plain = model.eval()(batch())["loss"]
        assert float(loss.detach() - plain) == pytest.approx(spring * 25, abs=1e-4)  # the other is where it began


def test_channels_are_dealt_out_but_all_are_seen():
    torch.manual_seed(0)
    sizes = {"channels": 4, "height": 12, "width": 12, "classes": 19, "filters": 4, "parameters": 60_000}
    model = STN(Config(**sizes, transformers=2, crop=6, dealt=True)).eval()
    assert model.body[0].in_channels == 4 and STN(Config(**sizes, transformers=2)).body[0].in_channels == 8
    images = batch(channels=4, side=12)
    with torch.no_grad():
        for transformer in model.transformers:
            transformer.localizer[-1].weight.normal_(std=0.1)
    seen = model.sight(images)
    for k, transformer in enumerate(model.transformers):
        whole = transformer(images["image"]).detach()
        torch.testing.assert_close(seen.crops[:, k, k::2], whole[:, k::2])
        assert (seen.crops[:, k, 1 - k :: 2] == 0).all()
    changed = {**images, "image": images["image"].clone()}
    changed["image"][:, 1] += 1
    assert not torch.allclose(model.sight(changed).grids[:, 0], seen.grids[:, 0])
    crops = torch.cat([seen.crops[:, 0, ::2], seen.crops[:, 1, 1::2]], 1)
    torch.testing.assert_close(model.logits(images), model.body(crops))


def test_each_transformer_looks_for_itself_and_is_recorded():
    torch.manual_seed(0)
    sizes = {"channels": 2, "height": 12, "width": 12, "classes": 19}
    model = STN(Config(**sizes, transformers=2, crop=6, filters=4, parameters=60_000)).eval()
    with torch.no_grad():
        for k, transformer in enumerate(model.transformers):
            transformer.localizer[-1].bias[2] = 0.5 * k  # to the right
    images = batch(channels=2, side=12)
    with regard.record(model) as tape, torch.no_grad():
        model.logits(images)
    assert tape.names() == ["transformers.0.sampler", "transformers.1.sampler"]
    seen = model.sight(images)
    for k in range(2):
        weights = tape[f"transformers.{k}.sampler"].weights  # (B, 36, 144)
        crop = images["image"].flatten(2) @ weights.mT
        torch.testing.assert_close(crop.unflatten(2, (6, 6)), seen.crops[:, k])
    torch.testing.assert_close(seen.grids[:, 1, ..., 0], seen.grids[:, 0, ..., 0] + 0.5)


def test_it_learns_and_looks_at_each_image_in_its_own_way():
    """Bars anywhere, lying or standing."""
    torch.manual_seed(0)
    model = STN(Config(1, 16, 16, 2, transformer="attention", crop=8, filters=4, parameters=30_000))
    image, label = torch.zeros(64, 1, 16, 16), torch.arange(64) % 2
    for picture, kind, (x, y) in zip(image, label, torch.randint(0, 10, (64, 2)).tolist()):
        tall, wide = (6, 2) if kind else (2, 6)
        picture[:, y : y + tall, x : x + wide] = 1
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(40):
        out = model({"image": image, "label": label})
        optimizer.zero_grad()
        out["loss"].backward()
        optimizer.step()
    assert out["error"] <= 0.02
    probability = model.predict({"image": image})
    assert (probability.argmax(-1) == label).float().mean() >= 0.98
    torch.testing.assert_close(probability.sum(-1), torch.ones(64))
    assert model.sight({"image": image}).grids.std(0).max() > 0.01


def test_an_empty_batch_is_finite():
    model = STN(Config(1, 8, 8, 3, filters=2, parameters=20_000))
    out = model({"image": torch.zeros(0, 1, 8, 8), "label": torch.zeros(0, dtype=torch.long)})
    assert out["count"] == 0 and all(value.isfinite() for value in out.values())


def test_variants_build():
    for changes in VARIANTS.values():
        STN(Config(**{**SIZES, **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pace": 0.0}, "pace must be more than 0, not 0.0"),
        ({"spring": -1.0}, "spring must not be less than 0, but is -1.0"),
        ({"leak": 1.0}, "leak is from 0 to less than 1, not 1.0"),
        ({"dealt": True, "transformers": 2}, "1 channels cannot be dealt out evenly to 2 transformers"),
        ({"body": "fc"}, "did you mean 'fcn'"),
        ({"transformer": "tps"}, "transformer cannot be 'tps'"),
        ({"transformers": 0}, "transformers must be at least 1"),
        ({"crop": 3}, "need 4 pixels"),
        ({"parameters": 1000}, "parameters = 1000 are too few: the smallest such network has"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        STN(Config(**{**SIZES, **changes}))


def test_images_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"images are \(3, 1, 20, 20\)"):
        STN(Config(**SIZES)).predict(batch(side=20))


def test_a_control_has_no_sight():
    with pytest.raises(ValueError, match="no transformer"):
        STN(Config(**SIZES, transformer="none")).sight(batch())
