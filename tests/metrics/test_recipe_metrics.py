import pytest

from regard.metrics import recipes


def test_sets_beside_those_that_are_right():
    found, right = [{"egg", "milk"}, {"salt"}], [{"egg"}, {"salt", "oil", "yam"}]
    values = recipes.overlap(found, right)
    assert values["f1"] == pytest.approx(100 * 2 * 2 / (3 + 4))
    assert values["iou"] == pytest.approx(100 * (1 / 2 + 1 / 3) / 2)
    assert recipes.overlap([[]], [[]]) == {"f1": 0, "iou": 100}
    with pytest.raises(ValueError, match="1 sets for 2"):
        recipes.overlap([[]], [[], []])


def test_what_one_would_say_without_looking():
    right = [["egg", "milk"], ["egg", "oil"], ["egg", "milk", "yam"]]
    assert recipes.frequent(["egg", "milk", "oil", "yam"], right) == ["egg", "milk"]


def test_ingredients_that_are_used():
    texts = ["Fry the Tomatoes in olive-oil. Add eggs.", "boil"]
    assert recipes.mentioned(texts, [["tomato", "egg", "olive oil"], ["egg"]]) == pytest.approx(50)
    assert recipes.mentioned([], []) == 0
