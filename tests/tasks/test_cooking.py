"""The task of recipes: files with photographs, generated dishes, what is hidden, questions, and what is measured."""

import json
import os

import numpy as np
import pytest
import torch
from PIL import Image

from regard import registry, runs
from regard.data.tokens import BOS, EOS
from regard.decode.written import Written
from regard.predictors.writer import Writer
from regard.tasks.cooking import Config, Cooking, Meal, split, without_image, without_ingredients

DIRECTIONS = ["Beat the eggs.", "Bake it (hot) at 200° C, and serve."]


@pytest.fixture
def folder(tmp_path):
    """Twenty recipes, of which twelve have a photograph; milk is in too few of them to be known."""
    lines = []
    for number in range(20):
        ingredients = ["2 large eggs", "1/2 cup olive oil" if number % 2 else "salt"]
        ingredients += ["milk"] if number == 3 else []
        about = {"title": f"Pie {number}", "ingredients": ingredients, "directions": DIRECTIONS}
        if number < 12:
            pixels = np.random.default_rng(number).integers(0, 255, (40, 40, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / f"{number}.png")
            about["image"] = f"{number}.png"
        lines.append(json.dumps(about))
    (tmp_path / "recipes.jsonl").write_text("\n".join(lines))
    return tmp_path


def task(folder, **changes):
    settings = {"size": 32, "stage": 5, "store": str(folder / "store"), "batch": 4, "min_recipes": 3, "min_count": 2}
    return Cooking(Config(data=str(folder), **{**settings, "max_length": 40, **changes}))


def test_names_words_and_sizes(folder):
    made = task(folder)
    assert made.names.known[0] == "egg" and set(made.names.known) == {"egg", "olive oil", "salt"}
    assert {"\n", ".", "(", "°", "beat"} <= set(made.words)
    assert made.sizes == {"vocab": len(made.words), "features": 112, "longest": 40, "ingredients": 3}
    assert {split: made.count(split) for split in ("train", "valid", "test")} == {"train": 15, "valid": 2, "test": 3}
    assert task(folder, texts=False).count("train") == 7


def test_a_batch_has_its_own_photographs_and_ingredients(folder):
    made = task(folder, hide_image=0.0, hide_ingredients=0.0)
    features, seen = made.features("train"), 0
    for batch in made.loader("train", seed=1):
        assert batch["features"].shape == (len(batch["target"]), 4, 112)
        assert torch.equal(batch["shown"], batch["has_image"])
        for row, there in enumerate(batch["has_image"].tolist()):
            said = batch["target"][row][: batch["target_lengths"][row] + 1].tolist()
            assert said[0] == BOS and said[-1] == EOS
            names = batch["ingredients"][row][: batch["ingredient_lengths"][row]]
            assert batch["labels"][row].nonzero()[:, 0].tolist() == sorted(names.tolist())
            assert any(torch.equal(batch["features"][row], features[[n]][0]) for n in range(len(features))) == there
            seen += there
    assert seen == 7


def test_some_is_hidden_in_training_alone(folder):
    made = task(folder, hide_image=1.0, hide_ingredients=1.0)
    for batch in made.loader("train"):
        assert not batch["shown"].any() and not batch["ingredient_lengths"].any() and batch["labels"].any()
    (batch,) = made.loader("valid")
    assert batch["shown"].all() and batch["ingredient_lengths"].all()
    assert not without_image(batch)["shown"].any() and batch["has_image"].all()
    assert not without_ingredients(batch)["ingredient_lengths"].any()


@pytest.mark.parametrize(("sees", "shown", "named"), [("image", True, False), ("ingredients", False, True)])
def test_one_that_sees_only_one_of_them(folder, sees, shown, named):
    made = task(folder, sees=sees)
    (batch,) = made.loader("test")
    ((_, asked),) = made.batches([Meal(np.zeros((3, 32, 32), np.uint8), ingredients=("egg",))])
    for each in (batch, asked):
        assert each["shown"].all() == shown and each["ingredient_lengths"].all() == named
    item = made.item("test", 0)
    assert set(made.axes(Meal(item.pixels, item.photograph, ingredients=("egg",)))) == (
        {"places"} if shown else {"ingredients"}
    )


def test_what_was_written_in_lines():
    made = dishes()
    tokens = made._vocabulary.encode("Tomato and rice soup\nchop the rice\n\nserve in a bowl")
    words = made.write(tokens)
    assert words.labels == ["tomato and rice soup", "chop the rice", "serve in a bowl"]
    assert str(words) == "tomato and rice soup: 1. chop the rice 2. serve in a bowl"
    assert list(words.groups) == [0, 0, 0, 0, -1, 1, 1, 1, -1, -1, 2, 2, 2, 2]
    assert made.fields(Meal(ingredients=("rice",)), words) == {
        "title": "tomato and rice soup",
        "ingredients": ["rice"],
        "directions": ["chop the rice", "serve in a bowl"],
    }
    assert str(made.write([])) == "" and made.fields(Meal(), made.write([]))["directions"] == []


def test_punctuation_stands_where_it_should(folder):
    made = task(folder)
    assert " ".join(split(DIRECTIONS[1])) == "bake it ( hot ) at 200 ° c , and serve ."
    written = made.write(made._vocabulary.encode(f"pie\n{DIRECTIONS[1]}"))
    assert str(written) == "pie: 1. bake it (hot) at 200° c, and serve."


def test_without_the_data_it_can_cook(folder, tmp_path):
    made = task(folder)
    made.save(tmp_path / "task")
    (folder / "recipes.jsonl").unlink()
    other = Cooking.load(tmp_path / "task")
    assert other.sizes == made.sizes and other.known["frequent"] == made.known["frequent"]
    ((_, batch),) = other.batches([other._meal(folder / "3.png", ("egg",)), Meal(ingredients=("salt",))])
    assert batch["has_image"].tolist() == [True, False] and batch["features"].shape == (2, 4, 112)
    assert batch["features"][0].any() and not batch["features"][1].any()


def test_a_line_without_ingredients_is_named(folder):
    with (folder / "recipes.jsonl").open("a") as file:
        file.write('\n{"title": "Air", "ingredients": [], "directions": ["Breathe."]}\n')
    with pytest.raises(ValueError, match=r"recipes\.jsonl:21: 'Air' has no ingredients"):
        task(folder)
    made = task(folder, skip_bad=True)
    assert "left out 1 bad lines: 1 without ingredients" in made.loader("train").report()
    with pytest.raises(ValueError, match="no ingredient is in 50 recipes: lower min_recipes"):
        task(folder, skip_bad=True, min_recipes=50)
    with pytest.raises(ValueError, match=r"no data at nowhere.*data can also be generated: data=dishes"):
        Cooking(Config(data="nowhere"))


def dishes(**changes):
    sizes = {"batch": 8, "train_size": 20, "valid_size": 12, "test_size": 12, "pixels": 32, "max_length": 40}
    return Cooking(Config(**{**sizes, **changes}))


def test_dishes_are_new_in_every_epoch_of_training_alone():
    made = dishes()
    train, valid = made.loader("train", seed=0), made.loader("valid")
    first, second = ([batch["target"] for batch in train] for _ in range(2))
    assert [len(each) for each in first] == [8, 8, 4]
    assert not any(one.shape == two.shape and torch.equal(one, two) for one, two in zip(first, second))
    assert all(torch.equal(*pair) for pair in zip(*([b["image"] for b in valid] for _ in range(2))))
    there = torch.cat([batch["has_image"] for batch in dishes(train_size=200).loader("train")]).float().mean()
    assert 0.6 < there < 0.9 and next(iter(valid))["has_image"].all()
    assert not any(batch["has_image"].any() for batch in dishes(pictured=0.0).loader("train"))


def model(**changes):
    recipe = registry.recipe("recipe-dishes").tiny().change([f"{name}={value}" for name, value in changes.items()])
    made = runs.assemble(recipe, seed=0)
    return Writer(made.model.eval(), made.task, made.recipe, "a test")


def test_a_dish_is_asked_about(tmp_path):
    found = model()
    Image.new("RGB", (50, 40), "red").save(tmp_path / "a.png")
    asked = [
        found.Question(image=tmp_path / "a.png"),
        found.Question(image=tmp_path / "a.png", ingredients="2 Tomatoes, salt"),
        found.Question(ingredients="tomato; sugar\n"),
        found.Question(example=1),
    ]
    seen, given, alone, example = found.ask(asked)
    assert seen.notes[0].startswith("Ingredients, seen in the picture: ")
    assert given.notes[0] == "Ingredients: tomato, salt." and alone.notes[0] == "Ingredients: tomato, sugar."
    kinds = [[picture.view().kind for picture in each.pictures] for each in (seen, given, alone, example)]
    assert kinds == [["overlay", "alignment"], ["overlay", "alignment"], ["alignment"], ["overlay", "alignment"]]
    assert alone.pictures[0].view().data["columns"] == ["tomato", "sugar"]
    assert given.fields["answers"][0]["ingredients"] == ["tomato", "salt"]
    (wrong,) = found.ask([found.Question(ingredients="gravel, sand")])
    assert isinstance(wrong, ValueError) and "none of gravel,  sand is an ingredient that is known" in str(wrong)
    (line,) = found.answer(tmp_path / "a.png", as_json=True, ingredients="tomato")
    assert json.loads(line)["answers"][0]["ingredients"] == ["tomato"]
    with pytest.raises(ValueError, match="there is no dish 99 in test: they are 0 to 4"):
        found.task.read(found.Question(example=99))


def test_several_vote_on_a_dish():
    one, other = model(), model(fusion="independent")
    ((written, *_),) = one.join([other]).write([one.task.item("test", 0)])
    assert written.item.found and list(written.looks) == ["places", "ingredients"]


def test_ingredients_are_compared():
    made = dishes()
    words = made.write(made._vocabulary.encode("rice soup\nchop the tomato"))
    right = [Written(words, None, 0.0, 0.0, {}, Meal(ingredients=tuple(made.right("test", row)))) for row in range(12)]
    values = made.measure("test", right)
    assert values["f1"] == values["iou"] == 100 and 40 < values["f1_frequent"] < 80 and values["mentioned"] < 60
    none = [Written(words, None, 0.0, 0.0, {}, Meal(ingredients=("rice", "tomato"))) for _ in range(12)]
    values = made.measure("test", none)
    assert values["f1"] < 60 and values["mentioned"] == 100


def test_a_system_is_measured_with_and_without_what_it_sees():
    values = model().evaluate("test")
    names = ["perplexity", "perplexity_image", "perplexity_ingredients", "perplexity_neither"]
    assert values.keys() >= {"f1", "f1_frequent", "mentioned", *names}
    assert len({values[name] for name in names}) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sees": "booth"}, "did you mean 'both'"),
        ({"hide_image": 2.0}, "hide_image, a share"),
        ({"min_recipes": 0}, "at least 1"),
        ({"foods": 9}, "2 to 4 foods"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        Config(**changes)


def test_the_real_recipes():
    home = os.environ.get("REGARD_DATA")
    if not home or not os.path.exists(os.path.join(home, "recipes", "recipes.jsonl")):
        pytest.skip("the recipes are not at hand: set REGARD_DATA to where recipes/recipes.jsonl lies")
    made = Cooking(Config(data="recipes", skip_bad=True))
    assert made.count("test") == 29 and made.count("valid") == 19 and made.count("train") > 300
    assert {"egg", "flour", "olive oil", "garlic"} <= set(made.names.known)
    assert made.bad.counts == {"without ingredients": 1}
    with pytest.raises(ValueError, match=r"recipes\.jsonl:310: .* has no ingredients"):
        Cooking(Config(data="recipes"))
