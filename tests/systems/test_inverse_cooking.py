"""Inverse cooking against its equations: four ways to look at two things, and the set of ingredients."""

import pytest
import torch

import regard
from contracts.cases.captions import CELLS, VOCAB, WIDTH
from contracts.cases.cooking import FUSIONS, NAMES, dishes
from regard.systems.inverse_cooking import Config, InverseCooking


def build(**changes) -> InverseCooking:
    torch.manual_seed(0)
    sizes = {"vocab": VOCAB, "features": WIDTH, "ingredients": NAMES, "dim": 8, "heads": 2, "hidden": 12, "layers": 1}
    return InverseCooking(Config(**{**sizes, "dropout": 0.0, **changes}))


def looked(heads, x, keys):
    """Multi-head attention by hand: x (T, d) and keys (S, d)."""
    found = []
    q, k, v = heads.query(x), heads.key(keys), heads.value(keys)
    for part in range(heads.heads):
        of = slice(part * heads.head_dim, (part + 1) * heads.head_dim)
        weights = torch.softmax(q[:, of] @ k[:, of].T / heads.head_dim**0.5, -1)
        found.append(weights @ v[:, of])
    return heads.out(torch.cat(found, -1))


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_layer_by_the_papers_equations(fusion):
    model = build(fusion=fusion)
    (layer,) = model.layers
    x, places, names = torch.randn(1, 4, 8), torch.randn(1, CELLS, 8), torch.randn(1, 3, 8)
    all_, both = torch.ones(1, CELLS, dtype=torch.bool), torch.ones(1, 3, dtype=torch.bool)
    with torch.no_grad():
        out, _, _ = layer(x, layer.remember(places, all_, names, both))
        y = x[0]
        y = y + layer.own(layer.around_own.norm(y)[None], mask=regard.masks.causal()).context[0]
        image, ingredients = places[0], names[0]
        first = layer.around_first.norm(y)
        if fusion == "concatenated":
            y = y + looked(layer.both, first, torch.cat([image, ingredients]))
        elif fusion == "independent":
            y = y + looked(layer.image, first, image) + looked(layer.ingredients, first, ingredients)
        else:
            one, other = (layer.image, image), (layer.ingredients, ingredients)
            one, other = (one, other) if fusion == "image_first" else (other, one)
            y = y + looked(one[0], first, one[1])
            y = y + looked(other[0], layer.around_second.norm(y), other[1])
        y = y + layer.think(layer.around_think.norm(y))
    torch.testing.assert_close(out[0], y)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_what_is_hidden_does_not_matter(fusion):
    """An image that is not shown and ingredients beyond the length change nothing; those that are seen do."""
    model, batch = build(fusion=fusion).eval(), dishes()
    other = {name: tensor.clone() for name, tensor in batch.items()}
    other["features"][2] = float("nan")  # there is no image
    other["features"][1] = 7 * torch.randn(CELLS, WIDTH)  # it is not shown
    other["ingredients"][3] = 5  # there are none
    with torch.no_grad():
        torch.testing.assert_close(model(other)["nll"], model(batch)["nll"])
        other["features"][0] += torch.randn(CELLS, WIDTH)
        assert not torch.allclose(model(other)["nll"], model(batch)["nll"])
        seen = {**batch, "ingredients": batch["ingredients"].roll(1, 1)}
        assert not torch.allclose(model(seen)["nll"], model(batch)["nll"])


def test_ingredients_are_a_set():
    model, batch = build().eval(), dishes()
    turned = batch["ingredients"].clone()
    turned[0] = turned[0].flip(0)
    with torch.no_grad():
        torch.testing.assert_close(model({**batch, "ingredients": turned})["nll"], model(batch)["nll"])


def test_the_loss_is_that_of_words_and_ingredients():
    model, batch = build(set_weight=3.0, shrink=0.5), dishes()
    with torch.no_grad():
        model.set.weight.normal_()
        found = model(batch)
        each = []
        for row in (0, 1, 3):  # those with an image
            p = torch.sigmoid(model.set(model.set_norm(model.grid.norm(batch["features"][row]).mean(0))))
            right = batch["labels"][row]
            each.append(-(right * p.log() + (1 - right) * (1 - p).log()).sum())
        missed = sum(each) / batch["target_lengths"].sum()
        large = model.set.weight.square().sum() + model.places.weight.square().sum()
    torch.testing.assert_close(found["set_nll"], missed)
    torch.testing.assert_close(found["loss"], found["nll"] + 3 * missed + 0.5 * large)


def test_as_many_ingredients_as_promise_most():
    model, batch = build(), dishes()
    likely = torch.tensor([[0.9, 0.1, 0.8, 0.05, 0.05, 0.05, 0.05]] * 4)
    model._scores = lambda grid: torch.logit(likely)
    assert model.choose(batch).tolist() == [[True, False, True, *[False] * 4]] * 2 + [[False] * 7] + [
        [True, False, True, *[False] * 4]
    ]
    likely = torch.full((4, NAMES), 0.3)  # nothing is likely: naming all has the greatest F1
    assert model.choose(batch)[0].all()


def test_it_says_where_it_looked():
    model, batch = build(layers=2).eval(), dishes()
    with torch.no_grad():
        _, state = model.step(torch.ones(4, dtype=torch.long), model.start(batch))
    found = model.alignment(state)
    assert {name: tuple(each.shape) for name, each in found.items()} == {"places": (4, CELLS), "ingredients": (4, 3)}
    both = found["places"].sum(1) + found["ingredients"].sum(1)
    torch.testing.assert_close(both, torch.tensor([1.0, 1.0, 1.0, 1.0]))  # one softmax over both
    model = build(fusion="independent").eval()
    with torch.no_grad():
        _, state = model.step(torch.ones(4, dtype=torch.long), model.start(batch))
    sums = {name: each.sum(1).round(decimals=4).tolist() for name, each in model.alignment(state).items()}
    assert sums == {"places": [1, 0, 0, 1], "ingredients": [1, 1, 1, 0]}


def test_statistics_are_those_of_images_that_exist():
    model, batch = build(features=0, channels=8).train(), dishes(pixels=True)
    other = {**batch, "image": batch["image"].clone()}
    other["image"][2] = 100.0
    again = build(features=0, channels=8).train()
    with torch.no_grad():
        torch.testing.assert_close(model(batch)["loss"], again(other)["loss"])
    for (_, one), (_, two) in zip(model.grid.named_buffers(), again.grid.named_buffers()):
        assert torch.equal(one, two)


def test_texts_alone_can_be_learned():
    for pixels in (False, True):
        model, batch = build(features=0 if pixels else WIDTH, channels=8), dishes(pixels)
        none = torch.zeros(4, dtype=torch.bool)
        found = model({**batch, "has_image": none, "shown": none})
        assert torch.isfinite(found["loss"]) and found["set_nll"] == 0
        assert not model.choose({**batch, "has_image": none}).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fusion": "concatenate"}, "did you mean 'concatenated'"),
        ({"shrink": -1.0}, "shrink must be at least 0"),
        ({"norm": "none"}, "norm is 'pre' or 'post'"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        build(**changes)
