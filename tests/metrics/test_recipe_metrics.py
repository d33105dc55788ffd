import pytest

from regard.metrics import recipes


def test_ingredients_that_are_used():
    texts = ["Fry the Tomatoes in olive-oil. Add eggs.", "boil"]
    assert recipes.mentioned(texts, [["tomato", "egg", "olive oil"], ["egg"]]) == pytest.approx(50)
    assert recipes.mentioned(["Wash berries and leaves."], [["berry", "bay leaf", "rice"]]) == pytest.approx(200 / 3)
    assert recipes.mentioned([], []) == 0
