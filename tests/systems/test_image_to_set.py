"""Image to set: the order-free loss, and how each predictor chooses."""

import math

import pytest
import torch

from contracts.cases.captions import WIDTH
from contracts.cases.pictures import LABELS, sets
from regard.systems.image_to_set import Config, ImageToSet


def build(predictor="transformer", **changes):
    torch.manual_seed(0)
    sizes = {"classes": LABELS, "features": WIDTH, "most": 4, "dim": 8, "heads": 2, "hidden": 12, "layers": 2}
    return ImageToSet(Config(**{**sizes, "dropout": 0.0, "predictor": predictor, **changes})).double().eval()


def batch():
    return {name: value.double() for name, value in sets().items()}


def walked(model, features):
    """The labels that are named one after the other, and the probabilities of each step, without any cache."""
    places = model.places(model.grid({"features": features}))
    tokens, shares = [LABELS], []
    for _ in range(LABELS):
        logits = model.output(model.decoder(model.labels(torch.tensor([tokens])), places)[0, -1])
        logits[tokens[1:]] = -math.inf
        shares.append(torch.softmax(logits, -1))
        tokens.append(int(shares[-1][:-1].argmax()))
    return tokens[1:], torch.stack(shares)


def test_the_pooled_loss_step_by_step():
    model, given = build(eos_weight=0.7), batch()
    with torch.no_grad():
        got = model(given)["loss"]
        each = []
        for row in range(4):
            right = given["labels"][row]
            size = int(right.sum())
            _, shares = walked(model, given["features"][row : row + 1])
            pooled = [max((float(shares[t, k]) for t in range(size)), default=0.0) for k in range(LABELS)]
            missed = -sum(math.log(p if y else 1 - p) for p, y in zip(pooled, right.tolist()))
            end = -math.log(shares[size, -1])
            early = -sum(math.log(1 - shares[t, -1]) for t in range(size)) / max(size, 1)
            each.append(missed + 0.7 * (end + early) / 2)
    assert float(got) == pytest.approx(sum(each) / 4, rel=1e-6)


def test_no_label_is_named_twice_and_the_end_ends():
    model, given = build(), batch()
    with torch.no_grad():
        model.output.bias[-1] = -20.0  # never at an end
        found = model.predict(given)["chosen"]
        assert found.shape == (4, 4)
        for row, features in zip(found.tolist(), given["features"]):
            assert len(set(row)) == 4 and row == walked(model, features[None])[0][:4]
        model.output.bias[-1] = 20.0
        assert (model.predict(given)["chosen"] == -1).all()


def test_a_set_is_learned():
    for predictor in ("transformer", "bce", "iou", "td"):
        model, given = build(predictor, cardinality=predictor == "td").train(), batch()
        if predictor == "iou":  # which of an empty set learns nothing
            given = {name: value[[0, 1, 3]] for name, value in given.items()}
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(250):
            optimizer.zero_grad()
            model(given)["loss"].backward()
            optimizer.step()
        found = model.eval().predict(given)["chosen"]
        for row, right in zip(found.tolist(), given["labels"]):
            assert {number for number in row if number >= 0} == set(right.nonzero()[:, 0].tolist()), predictor


def test_rolling_out_leaves_the_mode_alone_and_has_no_gradient():
    model, given = build(dropout=0.5).train(), batch()
    places = model._places(given)
    first, again = (model._rolled(places, 3) for _ in range(2))
    assert torch.equal(first, again) and not first.is_floating_point()
    assert model.training and model.decoder.training


def test_losses_of_the_controls():
    labels = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    scores = torch.tensor([[2.0, -1.0, 0.5], [-3.0, 0.0, 1.0]])
    shares = torch.sigmoid(scores)
    small = {"classes": 3, "features": WIDTH, "dim": 8, "heads": 2}

    def missed(predictor):
        return ImageToSet(Config(**small, predictor=predictor))._missed(scores, labels)

    bce = -(labels * shares.log() + (1 - labels) * (1 - shares).log()).sum(-1)
    torch.testing.assert_close(missed("bce"), bce)
    both = shares[0, 0] + shares[0, 2]
    iou = 1 - both / (shares[0].sum() + 2 - both)
    torch.testing.assert_close(missed("iou"), torch.tensor([float(iou), 1.0]))
    td = -(torch.log_softmax(scores[0], -1)[[0, 2]]).sum() / 2
    torch.testing.assert_close(missed("td"), torch.tensor([float(td), 0.0]))


def test_how_controls_choose():
    scores = torch.tensor([[2.0, -1.0, 0.5, -0.1]])
    small = {"classes": 4, "features": WIDTH, "dim": 8, "heads": 2}
    threshold = ImageToSet(Config(**small, predictor="bce"))._predicted(scores, None)
    assert threshold.tolist() == [[True, False, True, False]]
    half = ImageToSet(Config(**small, predictor="td"))  # softmax: .70, .03, .16, .09
    assert half._predicted(scores, None).tolist() == [[True, False, False, False]]
    assert half._predicted(scores / 4, None).tolist() == [[True, False, True, False]]  # .38, .18, .26, .23
    count = torch.tensor([[0.0, 0.0, 0.0, 5.0, 0.0]])
    assert half._predicted(scores, count).tolist() == [[True, False, True, True]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"predictor": "bse"}, "did you mean 'bce'"),
        ({"cardinality": True}, "ends by itself"),
        ({"eos_weight": -1.0}, "at least 0"),
        ({"norm": "both"}, "'pre' or 'post'"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        Config(classes=3, **changes)


def test_tuned_stages_read_the_features_of_the_stage_before():
    model = build("bce", features=320, tuned=8).float().train()
    given = {"features": torch.randn(2, 4, 320), "labels": torch.eye(2, LABELS)}
    assert model.grid(given).shape == (2, 4, 1280)
    model(given)["loss"].backward()
    assert model.grid.later.head.conv.weight.grad.abs().sum() > 0
    with pytest.raises(ValueError, match="of no stage of the backbone"):
        build(features=WIDTH, tuned=8)
    with pytest.raises(ValueError, match="the system is built for features of width 320"):
        model.grid({"features": torch.randn(2, 4, 1280)})


def test_mirrored_and_mixed_in_training_alone():
    model, given = build("bce", mirrored=True), batch()
    features = given["features"]
    rows = [{tuple(map(tuple, image.tolist())) for image in model._augmented(given)["features"]} for _ in range(12)]
    side = round(features.shape[1] ** 0.5)
    turned = features.reshape(4, side, side, -1)[:, :, range(side - 1, -1, -1)].reshape(features.shape)
    either = {tuple(map(tuple, image.tolist())) for image in torch.cat([features, turned])}
    assert set.union(*rows) == either
    model = build("bce", mix=1.0)
    mixed = model._augmented(given)
    assert mixed["labels"].sum() == pytest.approx(given["labels"].sum().item())
    assert ((mixed["labels"] > 0) & (mixed["labels"] < 1)).any()
    torch.testing.assert_close(mixed["features"].mean(0), features.mean(0))
    assert model(given)["loss"] == model(given)["loss"] and model.train()(given)["loss"] != model(given)["loss"]


@pytest.mark.parametrize("predictor", ["transformer", "bce", "iou", "td"])
def test_mixed_sets_are_learned_by_every_predictor(predictor):
    model = build(predictor, mix=0.4, mirrored=True).train()
    loss = model(batch())["loss"]
    loss.backward()
    assert loss.isfinite() and all(
        weight.grad.isfinite().all() for weight in model.parameters() if weight.grad is not None
    )
