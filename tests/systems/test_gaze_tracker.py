"""The gaze tracker: its weights, its policies, its metrics and the films it follows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.data import films
from regard.metrics import tracking
from regard.systems.gaze_tracker import POLICIES, Config, GazeTracker
from regard.tasks import tracking as tracking_task
from regard.tasks.tracking import Tracking


def small(**options):
    torch.manual_seed(0)
    return GazeTracker(Config(1, 32, 32, particles=12, cells=4, hidden=6, **options)).eval()


def batch(count=2, length=4):
    made = [films.made(np.random.default_rng(seed), length, 32, 2) for seed in range(count)]
    return {name: torch.from_numpy(np.stack([getattr(film, name) for film in made])) for name in ("frames", "boxes")}


@pytest.mark.parametrize("policy", POLICIES)
def test_weights_are_the_gaussian_of_feature_distances(policy):
    model, given = small(policy=policy, adapt=0.0), batch()
    found = model.track(given)
    for b in range(2):
        first = given["boxes"][b, 0]
        template = torch.tensor([*(first[:2] + first[2:] / 2), *first[2:]])[None, None]
        for t in range(3):
            gaze = found["gaze"][b, t][None]
            query = model.features(model.look(given["frames"][b, :1], template, gaze))[0, 0].double()
            seen = model.look(given["frames"][b, t + 1][None], found["particles"][b, t][None], gaze)
            weights = [
                model.config.doubt + torch.exp(-(query - key).square().sum() / (2 * model.config.bandwidth**2))
                for key in model.features(seen)[0].double()
            ]
            expected = torch.stack(weights) / sum(weights)
            assert torch.allclose(found["weights"][b, t].double(), expected, atol=1e-5)
            mean = (expected[:, None] * found["particles"][b, t].double()).sum(0)
            assert torch.allclose(found["box"][b, t + 1, :2].double(), mean[:2] - mean[2:] / 2, atol=1e-3)
    assert torch.allclose(found["reward"], found["weights"].square().sum(-1))
    assert found["gaze"].abs().max() <= 1 - model.config.share + 1e-6


def test_a_hidden_part_earns_less_than_one_that_is_seen():
    """Where noise hides the target, some particle always fits least badly; without doubt that looks like certainty."""
    film = films.made(np.random.default_rng(1), 12, clutter=0)
    frames, boxes = (torch.from_numpy(part)[None] for part in film)
    left, top = boxes[0, 5, :2].int().tolist()
    changes = frames[0, 1:, 0].var(0)[top : top + 28, left : left + 28]
    sides = {(0, -1): changes[:14], (0, 1): changes[14:], (-1, 0): changes[:, :14], (1, 0): changes[:, 14:]}
    hidden = 0.5 * torch.tensor([max(sides, key=lambda side: sides[side].mean())], dtype=torch.float32)
    true = torch.cat([boxes[:, 5, :2] + 14, boxes[:, 5, 2:]], -1)[:, None]
    first = torch.cat([boxes[:, :1, :2] + 14, boxes[:, :1, 2:]], -1)
    torch.manual_seed(0)
    model = GazeTracker(Config(1, 64, 64, bandwidth=0.3))
    particles = true + torch.cat([2 * torch.randn(1, 200, 2), torch.zeros(1, 200, 2)], -1)

    def rewards(doubt):
        model.config = replace(model.config, doubt=doubt)
        templates = [(1.0, frames[:, 0], first)]
        with torch.no_grad():
            looks = [model._estimate(frames[:, 5], particles, gaze, templates) for gaze in (-hidden, hidden)]
        return [float(reward) for _, _, reward, _ in looks]

    seen, noise = rewards(0.001)
    assert seen > noise
    seen, noise = rewards(0.0)
    assert seen < noise


def test_free_energy_sums_over_all_hidden_units():
    model = small().double()
    seen = torch.randn(16, dtype=torch.float64)
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 6)
    energy = (seen - model.pixel_bias).square().sum() / 2 - states @ (model.into @ seen + model.hidden_bias)
    assert torch.allclose(model.free_energy(seen), -torch.logsumexp(-energy, 0))


def test_two_templates_are_a_mixture():
    model = small(recent=0.3, doubt=0.01)
    first, image = torch.rand(2, 2, 1, 32, 32)
    states = torch.cat([torch.full((2, 12, 2), 16.0) + 4 * torch.randn(2, 12, 2), torch.full((2, 12, 2), 12.0)], -1)
    box, gaze = states[:, :1], torch.zeros(2, 2)
    cut = model.cut(image, states[:, 1:2])
    whole = torch.tensor([16.0, 16, 32, 32]).expand(2, 1, 4)
    with torch.no_grad():
        found, weights, _, sure = model._estimate(image, states, gaze, [(0.7, first, box), (0.3, cut, whole)])
    model.requires_grad_(False)
    for b in range(2):
        seen = model.features(model.look(image, states, gaze))[b].double()
        total = torch.full((12,), 0.01, dtype=torch.float64)
        for prior, known, where in ((0.7, first, box), (0.3, cut, whole)):
            query = model.features(model.look(known, where, gaze))[b].double()
            total += prior * torch.exp(-(query - seen).square().sum(-1) / (2 * model.config.bandwidth**2))
        expected = total / total.sum()
        assert torch.allclose(weights[b].double(), expected, atol=1e-5)
        assert torch.allclose(found[b].double(), expected @ states[b].double(), atol=1e-3)
        assert abs(float(sure[b]) - float(1 - 0.12 / total.sum())) < 1e-5


def test_a_film_may_have_another_size_than_those_of_training():
    given, model = batch(), small()
    torch.manual_seed(1)
    expected = model.track(given)["box"]
    model.config = replace(model.config, height=64, width=64)
    torch.manual_seed(1)
    assert torch.equal(model.track(given)["box"], expected)


def test_textured_targets_stay_within_the_frame_and_change():
    film = films.textured(np.random.default_rng(4), 200)
    left, top, wide, high = film.boxes.T
    assert min(left.min(), top.min()) > -0.5 and max((left + wide).max(), (top + high).max()) < 64.5
    assert film.frames.min() >= 0 and film.frames.max() <= 1 and wide.max() / wide.min() > 1.2


def test_metrics_by_hand():
    true = torch.tensor([[0.0, 0, 4, 4]] * 4)
    found = torch.tensor([[0.0, 0, 4, 4], [2, 0, 4, 4], [9, 9, 4, 4], [3, 4, 4, 4]])
    assert torch.allclose(tracking.centre_error(found, true)[[0, 1, 3]], torch.tensor([0.0, 2, 5]))
    assert torch.allclose(tracking.overlap(found, true), torch.tensor([1.0, 1 / 3, 0, 0]))
    assert tracking.until_lost(found, true) == 2 and tracking.until_lost(true, true) == 4


def test_a_film_is_read_and_a_bad_one_named(tmp_path):
    path = tmp_path / "film.npz"
    np.savez(path, frames=np.zeros((3, 4, 5), np.uint8), boxes=np.ones((3, 4), np.float32))
    assert films.read(tmp_path).frames.shape == (3, 1, 4, 5)
    task = Tracking(tracking_task.Config(trained=2), tmp_path)
    learning, measured = (task.loader(split).report() for split in ("train", "test"))
    assert "measure on another" in learning and not measured
    np.savez(path, frames=np.zeros((3, 4, 5), np.uint8), boxes=np.ones((2, 4), np.float32))
    with pytest.raises(ValueError, match=r"film\.npz: frames"):
        films.read(path)
    path.write_bytes(b"no film")
    with pytest.raises(ValueError, match=r"film\.npz: not a film, an \.npz file with arrays frames and boxes \("):
        films.read(path)
    np.savez_compressed(path, frames=np.zeros((300, 1000, 1000), np.uint8), boxes=np.ones((300, 4), np.float32))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ValueError, match="unpacks to more than 256 MB"):
        films.read(path)
    np.savez(path, frames=np.zeros((3, 4, 5), np.uint8), boxes=np.full((3, 4), "x"))
    with pytest.raises(ValueError, match=r"film\.npz, boxes: not the header of an array of numbers"):
        films.read(path)


def test_the_digit_is_in_its_box_and_one_side_is_hidden():
    film = films.made(np.random.default_rng(3), 30, clutter=0)
    for frame, (left, top, wide, high) in zip(film.frames[:, 0], film.boxes.astype(int)):
        outside = frame.copy()
        outside[top : top + high, left : left + wide] = 0
        assert outside.max() == 0 and frame.max() > 0.5
    assert (film.boxes[:, :2] >= 0).all() and (film.boxes[:, :2] + 28 <= 64).all()


def test_an_unknown_policy_names_the_nearest():
    with pytest.raises(ValueError, match="ucb"):
        Config(1, 32, 32, policy="ucv")
