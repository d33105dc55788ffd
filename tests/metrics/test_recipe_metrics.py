import pytest

from regard.metrics import recipes


def test_ingredients_that_are_used():
    texts = ["Fry the Tomatoes in olive-oil. Add eggs.", "boil"]
    assert recipes.mentioned(texts, [["tomato", "egg", "olive oil"], ["egg"]]) == pytest.approx(50)
    assert recipes.mentioned([], []) == 0
