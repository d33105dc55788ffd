"""DRAM: the loss against loops, what reaches what, and the likeliest sequence against all sequences."""

from __future__ import annotations

import itertools

import pytest
import torch

from regard.layers import objects
from regard.systems import dram

SIZES = dict(channels=1, height=11, width=14, classes=4)
SMALL = dict(objects=3, end=True, glimpses=2, size=6, scales=2, filters=2, hidden=8, context=6)
TARGET = torch.tensor([[0, 1, 3], [2, 3, -1], [1, 1, 3], [0, 3, -1], [2, 0, 3], [1, 3, -1]])


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def build(**more):
    return dram.DRAM(dram.Config(**{**SIZES, **SMALL, **more})).double()


def batch():
    return {"image": torch.rand(6, 1, 11, 14).double(), "target": TARGET}


@pytest.mark.parametrize("rollouts", [1, 3])
def test_the_loss_is_the_papers(rollouts, monkeypatch):
    """Image by image and glimpse by glimpse, with the same chance."""
    model, data = build(rollouts=rollouts, reinforce=0.7, std=0.3), batch()
    reader, noises, normal = model.readers[0], [], torch.randn_like
    with torch.no_grad():
        reader.output.bias.copy_(torch.tensor([0.4, 0.1, 0.2, 0.3]))  # so that some first objects are right

    def kept(like):
        noises.append(normal(like))
        return noises[-1]

    monkeypatch.setattr(torch, "randn_like", kept)
    out = {name: float(value.detach()) for name, value in model(data).items()}
    monkeypatch.undo()
    images, targets = (data[name].repeat_interleave(rollouts, 0) for name in ("image", "target"))
    count = len(images)
    nll = baseline = reinforce = 0.0
    hits = torch.zeros(count, 3)
    choices: dict[tuple[int, int], list] = {}
    states, going, deepest = {}, list(range(count)), 0
    with torch.no_grad():
        for i in going:
            cell = reader.context(images[i : i + 1])
            zero = torch.zeros(1, 8).double()
            states[i] = [(zero, zero), (cell.tanh(), cell)]
        for s in range(3):
            for _ in range(2):
                noise = noises.pop(0)
                assert len(noise) == len(going)
                for k, i in enumerate(going):
                    first, second = states[i]
                    mean, expected = torch.tanh(0.1 * reader.location(second[0])), reader.baseline(second[0])
                    drawn = mean + 0.3 * noise[k]
                    place = drawn.clamp(-1, 1)
                    seen = reader.glimpse.retina(place, images[i : i + 1]).context.flatten(1, 2)
                    what = reader.glimpse.what(seen).clamp_min(0)
                    where = reader.glimpse.where(place).clamp_min(0)
                    first = reader.first.cell(what * where, first)
                    states[i] = [first, reader.second.cell(first[0], second)]
                    density = -float(((drawn - mean) ** 2).sum()) / (2 * 0.3**2)
                    choices.setdefault((i, s), []).append((density, float(expected)))
            left = []
            for i in going:
                log_prob = torch.log_softmax(reader.output(states[i][0][0])[0], -1)
                nll -= float(log_prob[targets[i, s]])
                hits[i, s] = int(log_prob.argmax()) == int(targets[i, s])
                if hits[i, s] and s < 2 and targets[i, s + 1] >= 0:
                    left.append(i)
                    deepest = s + 1
            going = left
            if not going:
                break
    assert not noises and deepest > 0, "some image must be read beyond its first object, or nothing is tested"
    for (i, s), made in choices.items():
        reward = float(hits[i, s:].sum())
        for density, expected in made:
            baseline += (expected - reward) ** 2 / 2
            reinforce -= density * (reward - expected)
    wrong = sum(float(hits[i].sum()) < int((targets[i] >= 0).sum()) for i in range(count))
    expected = {"nll": nll, "error": wrong, "baseline": baseline, "reinforce": reinforce}
    expected["loss"] = nll + baseline + 0.7 * reinforce
    for name, value in expected.items():
        assert out[name] == pytest.approx(value / count, rel=1e-9, abs=1e-12), name


def test_the_classifier_never_sees_the_context_and_reinforce_trains_what_chooses_alone():
    model, data = build(objects=2, end=False, classes=4), batch()
    data["target"] = TARGET[:, :2].clamp_max(1)
    terms = model.readers[0].terms(data["image"], data["target"])
    deciding = ("context.", "second.", "location.", "baseline.")

    def reached(term):
        found = torch.autograd.grad(term.sum(), model.parameters(), retain_graph=True, allow_unused=True)
        names = (name.removeprefix("readers.0.") for name, _ in model.named_parameters())
        return {name for name, grad in zip(names, found) if grad is not None and grad.abs().sum() > 0}

    assert reached(terms["nll"]) and not any(name.startswith(deciding) for name in reached(terms["nll"]))
    assert any(name.startswith("context.") for name in reached(terms["reinforce"]))
    assert all(name.startswith(deciding[:3]) for name in reached(terms["reinforce"]))
    assert all(name.startswith("baseline.") for name in reached(terms["baseline"]))


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("readers", [1, 2])
def test_the_likeliest_of_all_sequences_is_found(end, readers):
    log_probs = [torch.randn(5, 4, 3).double().mul(1.5).log_softmax(-1) for _ in range(readers)]
    chosen, shares = objects.likeliest(log_probs, end)
    for row in range(5):
        best, found = -float("inf"), None
        for length in range(1, 4) if end else (4,):
            for digits in itertools.product(range(2 if end else 3), repeat=length):
                total = 0.0
                for log_prob, order in zip(log_probs, (digits, digits[::-1])):
                    whole = [*order, 2] if end else order
                    total += sum(float(log_prob[row, place, number]) for place, number in enumerate(whole))
                if total > best:
                    best, found = total, digits
        assert chosen[row].tolist() == [*found, *[-1] * (4 - len(found))]
        for place, digit in enumerate(found):
            assert int(shares[row, place][: 2 if end else 3].argmax()) == digit
    assert torch.allclose(shares.sum(-1), torch.ones(5, 4).double())


def test_targets_are_reversed_and_lose_their_end():
    target = torch.tensor([[1, 2, 0, 3], [2, 3, -1, -1], [0, 1, 3, -1]])
    assert objects.reverse(target, True).tolist() == [[0, 2, 1, 3], [2, 3, -1, -1], [1, 0, 3, -1]]
    assert objects.reverse(target[:, :2], False).tolist() == [[2, 1], [3, 2], [1, 0]]
    assert objects.without_end(target, True).tolist() == [[1, 2, 0, -1], [2, -1, -1, -1], [0, 1, -1, -1]]


def test_monte_carlo_averaging_is_the_mean_of_the_runs():
    model, data = build(test_rollouts=3).eval(), batch()
    with torch.no_grad():
        torch.manual_seed(5)
        (found,), places = model._read(data["image"])
        torch.manual_seed(5)
        runs = [each.log_prob[-1].exp() for each in model.readers[0].look(data["image"].repeat_interleave(3, 0), True)]
    assert places.shape == (6, 3, 3, 2, 2) and places[:, :, 0].sub(places[:, :, 1]).abs().max() > 0.01
    for row in range(6):
        for number in range(3):
            mean = sum(runs[number][3 * row + run] for run in range(3)) / 3
            assert torch.allclose(found[row, number].exp(), mean)


def test_standardized_images_may_be_brighter_or_fainter():
    model, data = build(standardize=True).eval(), batch()
    other = {**data, "image": 0.3 * data["image"] + torch.rand(6, 1, 1, 1)}
    with torch.no_grad():
        assert torch.allclose(model(data)["nll"], model(other)["nll"])
        plain = build().eval()
        assert not torch.allclose(plain(data)["nll"], plain(other)["nll"])


def test_seen_stops_at_the_end():
    model, data = build().eval(), batch()
    with torch.no_grad():
        model.readers[0].output.bias.copy_(torch.tensor([0.0, 0, 0, 50]))
        assert model.seen(data)["length"].tolist() == [2] * 6
        model.readers[0].output.bias.copy_(torch.tensor([50.0, 0, 0, 0]))
        seen = model.seen(data)
    assert seen["length"].tolist() == [6] * 6 and seen["object"].tolist() == [0, 0, 1, 1, 2, 2]
    assert seen["patch"].shape == (6, 6, 1, 2, 6, 6) and seen["probability"].shape == (6, 6, 4)


def test_multiplications_by_hand():
    model = build(objects=2, end=False)
    lstm = 4 * 8 * (8 + 8)
    glimpse = 2 * 9 * 2 * 4**2 + 2 * 9 * 4 * 2**2 + 4 * 2**2 * 8 + 2 * 8
    context = 9 * 16 * 5 * 6 + 16 * 9 * 32 * 3 * 3 + 32 * 3 * 3 * 8
    assert model.multiplications() == 4 * (glimpse + 2 * lstm + 2 * 8) + 2 * 8 * 4 + context
    assert build(objects=2, end=False, pair=True, test_rollouts=3).multiplications() == 6 * model.multiplications()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"std": 0.0}, "without a spread"),
        ({"pace": 0.0}, "would never move"),
        ({"objects": 1}, "at least two classes and two objects"),
        ({"size": 4}, "two convolutions of 3 × 3 need 5 pixels"),
        ({"size": 12}, "larger than an image of 11 × 14"),
        ({"rollouts": 0}, "rollouts must be at least 1, not 0"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


def test_bad_batches_are_named():
    data = batch()
    with pytest.raises(ValueError, match=r"target is \(6, 2\), but 3 objects are read"):
        build()({**data, "target": TARGET[:, :2]})
    with pytest.raises(ValueError, match=r"built for \(B, 1, 11, 14\)"):
        build()({**data, "image": data["image"][..., 1:]})
