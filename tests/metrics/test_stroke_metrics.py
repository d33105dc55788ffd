"""The mixture without context against loops, and the reader on what it should and should not read."""

import math

import numpy as np
import pytest

from regard.data import letters, strokes
from regard.metrics.strokes import Reader, distance, fit_mixture, mixture_nats, resampled


def test_mixture_against_loops():
    mixture = {
        "weights": [0.3, 0.7],
        "mean": [[0.0, 1.0], [-1.0, 0.5]],
        "covariance": [[1.0, 2.0, 0.3], [0.5, 0.4, -0.2]],
        "pen": 0.2,
    }
    points = np.array([[0.1, 0.9, 0], [-1.2, 0.4, 1], [3.0, -2.0, 0]])
    for point, found in zip(points, mixture_nats(mixture, points)):
        density = 0.0
        for weight, mean, (xx, yy, xy) in zip(*(mixture[name] for name in ("weights", "mean", "covariance"))):
            matrix = np.array([[xx, xy], [xy, yy]])
            away = point[:2] - np.array(mean)
            square = away @ np.linalg.inv(matrix) @ away
            density += weight * math.exp(-0.5 * square) / (2 * math.pi * math.sqrt(np.linalg.det(matrix)))
        assert found == pytest.approx(-math.log(density) - math.log(0.2 if point[2] else 0.8))


def test_a_fitted_mixture_is_near_the_entropy():
    random = np.random.default_rng(0)
    which = random.random(6000) < 0.25
    moves = np.where(which[:, None], random.normal([4, 0], [0.5, 1], (6000, 2)), random.normal([0, 2], 0.2, (6000, 2)))
    points = np.concatenate([moves, random.random((6000, 1)) < 0.1], 1)
    found = mixture_nats(fit_mixture(points[:3000], 2), points[3000:]).mean()
    parts = 0.25 * math.log(0.5 * 1) + 0.75 * math.log(0.04) + 1 + math.log(2 * math.pi)
    entropy = parts - sum(p * math.log(p) for p in (0.25, 0.75, 0.1, 0.9))
    assert found == pytest.approx(entropy, abs=0.08)


def test_repeated_points_have_a_finite_density():
    assert np.isfinite(mixture_nats(fit_mixture(np.zeros((50, 3))), np.zeros((3, 3)))).all()


def test_the_reader_reads_letters_that_it_does_not_know_beforehand():
    reader, random = Reader(letters.templates()), np.random.default_rng(0)
    for _ in range(5):
        text = letters.words(random, 20)
        line = letters.draw(text, random)
        assert distance(reader.read(strokes.strokes(line.points)), text.replace(" ", "")) <= 1
    scribble = random.normal(0, 20, (120, 3))
    scribble[:, 2] = np.arange(120) % 12 == 11
    assert distance(reader.read(strokes.strokes(scribble)), "handwriting") >= 8
    assert reader.read([]) == ""
    assert reader.read([np.zeros((1, 2))])  # a single point is some letter


def test_resampled_points_are_equally_far():
    found = resampled(np.array([[0, 0], [3, 4], [3, 14]]), 4)
    assert np.allclose(found, [[0, 0], [3, 4], [3, 9], [3, 14]])


@pytest.mark.parametrize(
    ("one", "other", "count"), [("kitten", "sitting", 3), ("", "ab", 2), ("ab", "ab", 0), ("a", "", 1)]
)
def test_distance(one, other, count):
    assert distance(one, other) == count
