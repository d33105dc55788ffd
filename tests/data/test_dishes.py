import numpy as np
import pytest

from regard.data import dishes


def many(count=80, **settings):
    return [dishes.draw(np.random.default_rng(seed), **settings) for seed in range(count)]


def test_a_seed_is_a_dish():
    one, same, other = (dishes.draw(np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(one.image, same.image) and one.text == same.text != other.text
    assert one.image.shape == (3, 48, 48) and one.image.dtype == np.uint8


def test_foods_are_seen_and_seasons_are_not():
    for dish in many():
        for food, colour in dishes.FOODS.items():
            near = np.abs(dish.image.astype(float) - np.array(colour)[:, None, None]).max(0) < 28
            assert (near.sum() > 60) == (food in dish.ingredients) or food == "rice"  # as bright as a dish
    images = {season: [d.image.mean() for d in many() if season in d.ingredients] for season in dishes.SEASONS}
    assert abs(np.mean(images["salt"]) - np.mean(images["sugar"])) < 5


def test_the_corners_tell_a_bowl_from_a_plate():
    for dish in many():
        corner = dish.image[:, 5, 5].mean()
        assert (corner > 150) == ("plate" in dish.text) == ("salad" in dish.title)


def test_recipes_tell_of_their_ingredients():
    kinds = set()
    for dish in many():
        words = set(dish.text.split())
        assert set(dish.ingredients) <= words <= set(dishes.vocabulary())
        assert ("oil" in dish.ingredients) == (set(dish.ingredients) >= dishes.OIL)
        assert len(set(dish.ingredients) & set(dishes.SEASONS)) == 1
        kinds.add(len(set(dish.ingredients) & set(dishes.FOODS)))
    assert kinds == {2, 3, 4}


@pytest.mark.parametrize(("settings", "message"), [({"size": 10}, "24 pixels"), ({"most": 5}, "2 to 4 foods")])
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        many(1, **settings)
