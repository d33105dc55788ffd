"""Recipes and what is typed to change them."""

import pytest

from regard import registry
from regard.registry import Recipe


def test_a_recipe_survives_being_written(tmp_path):
    recipe = registry.recipe("translate-wmt-big").change(['task.src=a"b\\c', "lr=0.5"])
    path = tmp_path / "recipe.toml"
    path.write_text(recipe.toml(), encoding="utf-8")
    assert Recipe.read(path).sections == {name: values for name, values in recipe.sections.items() if values}


def test_changes_find_their_section():
    changes = ["lr=0.5", "system.hidden=32", "longest=20", "size=3", "minutes=2"]
    recipe = registry.recipe("translate-toy").change(changes)
    assert recipe.build("train").lr == 0.5 and recipe.build("train").minutes == 2.0
    assert recipe.build("system", source_vocab=9, target_vocab=9).hidden == 32
    assert recipe.build("task").longest == 20
    assert recipe.build("decode").size == 3
    assert registry.recipe("translate").change(["skip_bad=yes", "patience=3"]).build("task").skip_bad is True


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["hiden=3"], "'hidden'"),
        (["trian.lr=3"], "'train'"),
        (["train.lrr=3"], "'lr'"),
        (["lr"], "key=value"),
        (["lr=fast"], "lr=fast.*float"),
        (["steps=1.5"], "steps=1.5.*int"),
    ],
)
def test_a_wrong_change_names_the_right_one(changes, message):
    with pytest.raises(ValueError, match=message):
        registry.recipe("translate-toy").change(changes)


def test_a_key_in_two_sections_must_say_which():
    with pytest.raises(ValueError, match=r"task\.max_length or|or task\.max_length|system\.max_length"):
        registry.recipe("translate-tatoeba-luong").change(["max_length=3"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[system]\nname = 'transformr'\n[task]\nname = 'translation'", "transformer"),
        ("[system]\nname = 'luong'\n[task]\nname = 'translaton'", "translation"),
        ("[sytem]\nname = 'luong'", "system"),
        ("[system]\nname = 'luong'", r"\[task\] must say which"),
        ("[system]\nname = 'luong'\nlayer = 3\n[task]\nname='translation'", "layers"),
        ("not toml", "not a recipe in TOML"),
    ],
)
def test_a_bad_recipe_names_the_file_and_the_nearest_key(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        registry.recipe(str(path))
    assert "mine.toml" in str(error.value)


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(ValueError, match="'translate-toy'"):
        registry.recipe("translate-toi")


def test_a_variant_is_the_papers_difference():
    recipe = registry.recipe("translate-wmt-big")
    assert recipe.build("system", source_vocab=9, target_vocab=9).dim == 1024
    with pytest.raises(ValueError, match="'big'"):
        recipe.change(["variant=bigg"]).build("system", source_vocab=9, target_vocab=9)
