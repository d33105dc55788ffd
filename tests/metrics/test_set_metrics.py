import pytest

from regard.metrics import sets


def test_sets_beside_those_that_are_right():
    found, right = [{"egg", "milk"}, {"salt"}], [{"egg"}, {"salt", "oil", "yam"}]
    values = sets.overlap(found, right)
    assert values["f1"] == pytest.approx(100 * 2 * 2 / (3 + 4))
    assert values["iou"] == pytest.approx(100 * (1 / 2 + 1 / 3) / 2)
    assert sets.overlap([[]], [[]]) == {"f1": 0, "iou": 100}
    with pytest.raises(ValueError, match="1 sets for 2"):
        sets.overlap([[]], [[], []])


def test_what_one_would_say_without_looking():
    right = [["egg", "milk"], ["egg", "oil"], ["egg", "milk", "yam"]]
    assert sets.frequent(["egg", "milk", "oil", "yam"], right) == ["egg", "milk"]


def test_members_are_ranked_by_the_sets_that_have_them():
    assert sets.ranked([["b", "b", "a"], ["a"], ["c", "b"]]) == ["a", "b", "c"]


def test_sizes_and_classes():
    found, right = [{"egg", "milk"}, set(), {"oil"}], [{"egg"}, {"egg", "oil", "salt"}, {"oil"}]
    assert sets.cardinality_error(found, right) == pytest.approx((1 + 3 + 0) / 3)
    egg, oil, salt = 2 * 1 / (1 + 2), 2 * 1 / (1 + 2), 0
    assert sets.per_class(found, right) == pytest.approx(100 * (egg + oil + salt) / 3)
