"""BLEU and its kin come with signatures; alignment metrics are checked by hand."""

import numpy as np
import pytest
import sacrebleu

from regard.metrics import alignment, text

HYPOTHESES = ["the cat sat on the mat", "there is a dog"]
REFERENCES = ["the cat sat on a mat", "there is a dog"]


def test_scores_are_sacrebleus():
    values, signatures = text.scores(HYPOTHESES, REFERENCES)
    assert values["bleu"] == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score)
    assert values["chrf"] == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score)
    assert values["ter"] == pytest.approx(100 * 1 / 10)
    assert "tok:13a" in signatures["bleu"] and "case:mixed" in signatures["bleu"] and "version:" in signatures["ter"]


def test_perfect_translations():
    values, _ = text.scores(REFERENCES, REFERENCES)
    assert values["bleu"] == pytest.approx(100) and values["chrf"] == pytest.approx(100) and values["ter"] == 0
    assert text.exact_match(REFERENCES, REFERENCES) == text.word_accuracy(REFERENCES, REFERENCES) == 1


@pytest.mark.parametrize(
    ("hypothesis", "edits"),
    [("a b c d e", 0), ("a b X d e", 1), ("a b d e", 1), ("a b c d e f", 1), ("d e a b c", 1)],
)
def test_ter_counts_edits_and_a_shift_once(hypothesis, edits):
    assert text.scores([hypothesis], ["a b c d e"])[0]["ter"] == pytest.approx(100 * edits / 5)


def test_languages_without_spaces():
    values, signatures = text.scores(["我喜歡喝咖啡和茶"], ["我喜歡喝咖啡和水"], "zh")
    assert values["bleu"] > 50 and "tok:zh" in signatures["bleu"]
    assert "tok:char" in text.scores(["コーヒー"], ["コーヒー"], "ja_JP")[1]["bleu"]


def test_exact_match_and_word_accuracy():
    assert text.exact_match(HYPOTHESES, REFERENCES) == 0.5
    assert text.word_accuracy(HYPOTHESES, REFERENCES) == 9 / 10
    assert text.word_accuracy(["a b c"], ["a b"]) == 2 / 3
    assert text.word_accuracy([""], ["a b"]) == 0
    with pytest.raises(ValueError, match="1 translations for 2 references"):
        text.exact_match(["a"], ["a", "b"])


def test_alignment_error():
    gold = [alignment.pharaoh("0-0 1-2 2-1")]
    assert alignment.alignment_error(gold, gold) == 0
    assert alignment.alignment_error([[(0, 1)]], gold) == 1
    # A = 3, S = 2 of them sure, one only possible: 1 - (2 + 3) / (3 + 2)
    assert alignment.alignment_error(gold, [[(0, 0), (1, 2)]], [[(2, 1)]]) == 0
    # one of three links is wrong: 1 - (2 + 2) / (3 + 3)
    assert alignment.alignment_error([alignment.pharaoh("0-0 1-2 2-2")], gold) == pytest.approx(1 / 3)
    assert alignment.alignment_error([[]], [[]]) == 0


def test_aligned_within():
    weights = np.array([[0.9, 0.1, 0, 0], [0, 0, 0.2, 0.8], [0.5, 0.3, 0.1, 0.1], [0, 0, 0, 1]])
    gold = [(0, 0), (1, 1), (2, 2), (3, 2)]
    assert alignment.aligned_within(weights, gold, distance=0) == (1, 3)
    assert alignment.aligned_within(weights, gold, distance=1) == (1, 3)
    assert alignment.aligned_within(weights, gold, distance=2) == (3, 3)
    assert alignment.argmax_links(weights) == [(0, 0), (3, 1), (0, 2), (3, 3)]
