"""Recipes on disk, their splits, the names of ingredients, and what is said of mistakes."""

import json
import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.data import recipes
from regard.data.lines import BadLines
from regard.data.recipes import Names, Recipe, plain


def line(title="Pie", **changes):
    about = {"title": title, "ingredients": ["2 eggs"], "directions": ["Beat the eggs."], "image": None, **changes}
    return json.dumps({name: value for name, value in about.items() if value != "left out"})


def write(folder, *lines):
    (folder / "recipes.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def image(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(path)


def test_recipes_with_and_without_a_photograph(tmp_path):
    image(tmp_path / "photos" / "pie.jpg")
    image(tmp_path / "soup.png")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.write(tmp_path / "soup.png", "inside/tart.png")
    (tmp_path / "soup.png").unlink()
    tea = line("Tea", image="left out")
    write(tmp_path, line(image="pie.jpg"), "", line("Tart", image="tart.jpg"), line("Soup"), tea)
    pie, tart, soup, tea = recipes.read(tmp_path)
    assert pie.photograph.file.name == "pie.jpg" and tart.photograph.member == "inside/tart.png"
    assert soup.photograph is None and tea.photograph is None
    assert pie.text == "Pie\nBeat the eggs." and pie.ingredients == ["2 eggs"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", r"recipes\.jsonl:2: not JSON"),
        ("[" * 100_000, r"recipes\.jsonl:2: not JSON \(brackets are nested too deeply\)"),
        ('"Pie"', r"recipes\.jsonl:2: not a JSON object with a title"),
        (line(title=" "), r"recipes\.jsonl:2: not a JSON object with a title"),
        (line(ingredients=[]), r"recipes\.jsonl:2: 'Pie' has no ingredients"),
        (line(ingredients="left out"), r"recipes\.jsonl:2: 'Pie' has no ingredients"),
        (line(ingredients=["2 eggs", 3]), r"recipes\.jsonl:2: 'Pie' has no ingredients, a list of texts"),
        (line(directions=[" "]), r"recipes\.jsonl:2: 'Pie' has no directions"),
        (line(image="none.jpg"), r"recipes\.jsonl:2: the photograph 'none\.jpg' is not in"),
        (line(image=["a"]), r"recipes\.jsonl:2: the photograph .* is not in"),
    ],
)
def test_mistakes_are_named(tmp_path, bad, message):
    write(tmp_path, line("Soup"), bad, line("Tea"))
    with pytest.raises(ValueError, match=message):
        recipes.read(tmp_path)
    told = BadLines(skip=True)
    assert [recipe.title for recipe in recipes.read(tmp_path, told)] == ["Soup", "Tea"] and told.total == 1


def test_a_folder_without_recipes(tmp_path):
    with pytest.raises(ValueError, match=r"no file of recipes, \*\.jsonl"):
        recipes.read(tmp_path)
    write(tmp_path, "")
    with pytest.raises(ValueError, match="no recipe is in it"):
        recipes.read(tmp_path)


def made(count, pictured=range(0)):
    return [Recipe(f"Dish {n}", ["x"], ["y"], f"{n}.jpg" if n in pictured else None) for n in range(count)]


def test_those_held_out_have_a_photograph():
    found = recipes.divided(made(60, range(24)))
    assert {split: len(many) for split, many in found.items()} == {"train": 50, "valid": 4, "test": 6}
    assert all(recipe.photograph for split in ("valid", "test") for recipe in found[split])
    again = recipes.divided(list(reversed(made(60, range(24)))))
    assert {recipe.title for recipe in again["test"]} == {recipe.title for recipe in found["test"]}
    with pytest.raises(ValueError, match="2 recipes with a photograph of their own are too few"):
        recipes.divided(made(60, range(2)))


def test_a_recipe_without_a_photograph_does_not_give_away_one_that_is_held_out():
    both = [*made(24, range(24)), *(recipe._replace(title=recipe.title.upper() + "!") for recipe in made(24))]
    found = recipes.divided(both)
    held = {recipe.title.lower() for split in ("valid", "test") for recipe in found[split]}
    assert len(held) == 10
    assert not held & {recipe.title.lower().rstrip("!") for recipe in found["train"]}
    assert len(found["train"]) == 2 * (24 - 10)


def test_recipes_that_share_a_photograph_stay_together():
    shared = [recipe._replace(photograph=f"{n // 3}.jpg") for n, recipe in enumerate(made(72, range(72)))]
    twice = Recipe("dish 0", ["x"], ["y"], "23.jpg")  # joins the first three to the last three by its title
    for many in ([*shared, twice], [twice, *reversed(shared)]):
        found = recipes.divided(many)
        photographs = [{recipe.photograph for recipe in part} for part in found.values()]
        assert all(photographs) and sum(map(len, photographs)) == 24
        split = {recipe.photograph: name for name, part in found.items() for recipe in part}
        assert split["0.jpg"] == split["23.jpg"]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("2 cloves of garlic, minced", "garlic"),
        ("~150g (1/3 lb) bacon cubes", "bacon"),
        ("900 g (4-5) golden delicious apples", "golden delicious apple"),
        ("1/2 Tbsp of [Garam Masala](/garam-masala)", "garam masala"),
        ("**1 cup of chopped cilantro**.", "cilantro"),
        ("1.5 tsp Chili Powder", "chili powder"),
        ("Chilli Powder 1 tbsp", "chilli powder"),
        ("3 tbsp extra virgin olive oil", "olive oil"),
        ("Eight eggs.", "egg"),
        ("2 Potatoes or yams", "potato"),
        ("1 Bay leaves", "bay leaf"),
        ("4 Radishes, thinly sliced", "radish"),
        ("berries", "berry"),
        ("1 glass of couscous", "couscous"),
        ("2 cups", ""),
        ("", ""),
    ],
)
def test_ingredients_without_their_amounts(written, words):
    assert " ".join(plain(written)) == words


def test_names_are_learned_from_recipes():
    lines = [["1 l olive oil", "2 eggs"], ["olive oil", "sunflower oil"], ["corn oil", "3 large Eggs", "egg"], ["yam"]]
    names = Names.learn([Recipe("x", each, ["y"]) for each in lines], least=2)
    assert names.known == ["egg", "oil", "olive oil"]
    assert names.name("1 cup of Olive Oil (cold)") == "olive oil" and names.name("peanut oil") == "oil"
    assert names.name("oil spray") == "oil" and names.name("a yam") is None
    assert names.of(["olive oil", "butter", "2 eggs", "egg"]) == ["egg", "olive oil"]
    assert names.number("olive oil") == 2 and len(names) == 3
