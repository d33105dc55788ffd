"""Times of words: the best monotone path against all paths, and what is made of it."""

import itertools

import numpy as np
import pytest

from regard.metrics import alignment, times, transcripts


def all_paths(rows, columns):
    """Every way from the first to the last cell: down, on, or both at once."""

    def go(t, s):
        if (t, s) == (rows - 1, columns - 1):
            yield [(t, s)]
            return
        for down, on in ((0, 1), (1, 0), (1, 1)):
            if t + down < rows and s + on < columns:
                yield from ([(t, s), *rest] for rest in go(t + down, s + on))

    return go(0, 0)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 5), (4, 1), (3, 5), (4, 4), (5, 3)])
def test_the_path_is_the_best_of_all(rows, columns):
    for seed in range(5):
        weights = np.random.default_rng(seed).standard_normal((rows, columns))
        best = max(all_paths(rows, columns), key=lambda path: sum(weights[cell] for cell in path))
        spans = times.warp(weights)
        for t in range(rows):
            there = [s for row, s in best if row == t]
            assert spans[t].tolist() == [min(there), max(there)]


def test_a_staircase_is_found_again():
    weights = np.kron(np.eye(4), np.ones((1, 6)))
    assert times.warp(weights).tolist() == [[0, 5], [6, 11], [12, 17], [18, 23]]


def test_long_matrices_take_no_time():
    assert times.warp(np.random.default_rng(0).random((300, 6000))).shape == (300, 2)


@pytest.mark.parametrize("weights", [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3), np.full((2, 2), np.nan)])
def test_what_has_no_path_is_told(weights):
    with pytest.raises(ValueError, match="weights"):
        times.warp(weights)


def test_characters_become_words():
    assert times.words_of(list(" ab c  d"), True) == [("ab", 1, 3), ("c", 4, 5), ("d", 7, 8)]
    assert times.words_of(["1", "22"], False) == [("1", 0, 1), ("22", 1, 2)]
    assert times.words_of([], True) == []


def test_borders_lie_in_the_quiet():
    """Two words, loud from 10 to 30 and from 40 to 60 of 70 frames; attention touches each only near its end."""
    level = np.full(70, -60.0)
    level[10:30] = level[40:60] = 0.0
    weights = np.zeros((2, 70))
    weights[0, 26:29] = weights[1, 56:59] = 1 / 3
    first, second = times.said(weights, [("a", 0, 1), ("b", 1, 2)], 0.01, level)
    assert (first.start, first.end) == (pytest.approx(0.10), pytest.approx(0.30))
    assert (second.start, second.end) == (pytest.approx(0.40), pytest.approx(0.60))
    assert first.confidence == pytest.approx(1) and second.confidence == pytest.approx(1)
    assert times.errors([first, second], np.array([[0.1, 0.35], [0.4, 0.6]])) == pytest.approx(
        np.array([[0, 0.05], [0, 0]])
    )


def test_without_sound_the_path_decides():
    weights = np.kron(np.eye(2), np.full((1, 5), 0.2))
    said = times.said(weights, [("a", 0, 1), ("b", 1, 2)], 0.02)
    assert [(each.start, each.end) for each in said] == [
        (0, pytest.approx(0.1)),
        (pytest.approx(0.1), pytest.approx(0.2)),
    ]
    assert times.said(weights, [], 0.02) == []


def test_kendall_against_pairs():
    random = np.random.default_rng(0)
    for _ in range(20):
        peaks = random.integers(0, 6, 5)
        weights = np.eye(6)[peaks]
        pairs = list(itertools.combinations(peaks.tolist(), 2))
        signs = [(b > a) - (b < a) for a, b in pairs]
        untied = sum(sign != 0 for sign in signs)
        expected = sum(signs) / (len(pairs) * untied) ** 0.5 if untied else 0
        assert alignment.kendall(weights) == pytest.approx(expected)
    assert alignment.kendall(np.eye(4)) == 1 and alignment.kendall(np.eye(4)[::-1]) == -1
    assert alignment.kendall(np.eye(4)[:1]) == 1


class TestTranscripts:
    def distance(self, one, other):
        """Levenshtein's, by the recursion itself."""
        table = np.zeros((len(one) + 1, len(other) + 1), int)
        table[:, 0], table[0] = np.arange(len(one) + 1), np.arange(len(other) + 1)
        for i, j in itertools.product(range(len(one)), range(len(other))):
            table[i + 1, j + 1] = min(table[i, j] + (one[i] != other[j]), table[i, j + 1] + 1, table[i + 1, j] + 1)
        return table[-1, -1]

    def test_rates_are_distances_over_lengths(self):
        found, right = ["one too three", "", "four five six"], ["one two three", "zero", "four six"]
        values, signatures = transcripts.errors(found, right)
        words = sum(self.distance(a.split(), b.split()) for a, b in zip(found, right)) / 6
        letters = sum(self.distance(a, b) for a, b in zip(found, right)) / sum(map(len, right))
        assert values == {"wer": pytest.approx(100 * words), "cer": pytest.approx(100 * letters)}
        assert signatures["wer"].startswith("jiwer ")

    def test_nothing_to_compare_is_told(self):
        with pytest.raises(ValueError, match="no transcripts"):
            transcripts.errors([], [])
