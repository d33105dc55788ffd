"""Metrics of captions, against numbers worked out by hand and against the public evaluation."""

import math
import random

import pytest

from regard.metrics import captions

A, B = "a dog runs .", "A cat sleeps"


def split(texts):
    return [captions.words(text) for text in texts]


def test_words_are_lower_case_without_punctuation():
    assert captions.words("A dog's well-known ball , thrown !") == ["a", "dog's", "well-known", "ball", "thrown"]
    assert captions.words("a <unk> dog .") == ["a", "<unk>", "dog"]


def test_the_reference_itself_is_perfect():
    found, signatures = captions.scores(["a b c d e", "f g h i"], [["x", "a b c d e"], ["f g h i"]])
    assert [found[f"bleu{n}"] for n in range(1, 5)] == pytest.approx([100] * 4)
    assert found["rouge_l"] == pytest.approx(100)
    assert "nrefs:var" in signatures["bleu4"] and "smooth:none" in signatures["bleu4"]


def test_bleu_by_hand():
    # 3 of 4 words and 1 of 3 pairs are in a reference, no triple is; the nearest reference has 4 words.
    found, _ = captions.bleu(split(["a dog eats fish"]), [split(["a dog runs fast", "one big fish"])])
    assert found["bleu1"] == pytest.approx(75)
    assert found["bleu2"] == pytest.approx(100 * math.sqrt(3 / 4 * 1 / 3))
    assert found["bleu3"] == found["bleu4"] == 0
    # Two words for three: the brevity penalty.
    found, _ = captions.bleu(split(["a dog"]), [split(["a dog runs"])])
    assert found["bleu1"] == pytest.approx(100 * math.exp(1 - 3 / 2))
    # A word counts as often as in that reference which has it most often.
    found, _ = captions.bleu(split(["the the the"]), [split(["the cat sat", "the dog the"])])
    assert found["bleu1"] == pytest.approx(100 * 2 / 3)


def test_rouge_by_hand():
    # Longest common subsequences of "a b c d": "a c d", 3 of 5 words, in one reference, "b", 1 of 1, in the other.
    precision, recall, square = 3 / 4, 1.0, 1.2**2
    expected = (1 + square) * precision * recall / (recall + square * precision)
    assert captions.rouge_l(split(["a b c d"]), [split(["a x c y d", "b"])]) == pytest.approx(100 * expected)
    assert captions.rouge_l(split(["a", "b"]), [split(["a"]), split(["c"])]) == pytest.approx(50)
    assert captions.rouge_l([[]], [split(["a"])]) == 0


def test_cider_by_hand():
    # Two images. "a" is in both, so it counts nothing; all else is in one: log 2.
    given, wanted = split(["a dog runs", "a cat"]), [split(["a dog runs"]), split(["a cat sleeps"])]
    # The first caption has the reference's uni-, bi- and trigrams and, as the reference, none of four words.
    first = 3 / 4
    # The second: cosine of (cat) and (cat, sleeps), of (a cat) and (a cat, cat sleeps); one pair of words fewer.
    second = (math.sqrt(1 / 2) + math.sqrt(1 / 2)) / 4 * math.exp(-1 / 72)
    assert captions.cider_d(given, wanted) == pytest.approx(1000 * (first + second) / 2)
    # Counts are clipped to the reference's: "dog dog" has 2 log 2 of one word against log 2.
    repeated = captions.cider_d(split(["dog dog", "x"]), [split(["dog"]), split(["cat"])])
    assert repeated == pytest.approx(1000 * (1 / 2) / 4 * math.exp(-1 / 72) / 2)


def test_cider_is_a_mean_over_references():
    one = captions.cider_d(split([A, B]), [split([A]), split([B])])
    two = captions.cider_d(split([A, B]), [split([A, "x y z"]), split([B])])
    assert 0 < two < one


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="1 captions for 2 images"):
        captions.scores([A], [[A], [B]])
    with pytest.raises(ValueError, match="image 2 has no reference"):
        captions.scores([A, B], [[A], []])


def test_nothing_to_compare_is_told():
    with pytest.raises(ValueError, match="no captions to compare"):
        captions.scores([], [])


@pytest.mark.slow
def test_the_public_evaluation_agrees():
    cider = pytest.importorskip("pycocoevalcap.cider.cider")
    rouge = pytest.importorskip("pycocoevalcap.rouge.rouge")
    bleu = pytest.importorskip("pycocoevalcap.bleu.bleu")
    draw = random.Random(0)

    def caption():
        return " ".join(draw.choices("abcdefghij", [1, 1, 1, 2, 2, 3, 4, 5, 6, 9], k=draw.randint(3, 14)))

    texts = [caption() for _ in range(200)]
    references = [[caption(), *(text if draw.random() < 0.4 else caption() for _ in range(4))] for text in texts]
    wanted, given = dict(enumerate(references)), {number: [text] for number, text in enumerate(texts)}
    found, _ = captions.scores(texts, references)
    assert found["cider_d"] == pytest.approx(100 * cider.Cider().compute_score(wanted, given)[0], rel=1e-6)
    assert found["rouge_l"] == pytest.approx(100 * rouge.Rouge().compute_score(wanted, given)[0], rel=1e-6)
    theirs = bleu.Bleu(4).compute_score(wanted, given, verbose=0)[0]
    assert [found[f"bleu{n}"] for n in range(1, 5)] == pytest.approx([100 * each for each in theirs], rel=1e-6)
