import pytest

from regard.metrics import answers


def test_exact_is_every_character():
    assert answers.exact(["chair", "book, pen", "2"], ["chair", "book", "2"]) == pytest.approx(200 / 3)
    assert answers.exact([], []) == 0


def test_agreement_with_people():
    given = [["yes"] * 2 + ["no"] * 8, ["red"] * 10, ["1"]]
    assert answers.agreement(["yes", "red", "2"], given) == pytest.approx(100 * (2 / 3 + 1 + 0) / 3)
    with pytest.raises(ValueError, match="1 answers to 2 questions"):
        answers.agreement(["yes"], [["yes"], ["no"]])
