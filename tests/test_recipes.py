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
        (["lr=fast"], "lr=fast.*a number"),
        (["steps=1.5"], "steps=1.5.*a whole number"),
    ],
)
def test_a_wrong_change_names_the_right_one(changes, message):
    with pytest.raises(ValueError, match=message):
        registry.recipe("translate-toy").change(changes)


def test_a_key_in_two_sections_must_say_which():
    with pytest.raises(ValueError, match=r"task\.max_length or|or task\.max_length|system\.max_length"):
        registry.recipe("translate-multi30k-luong").change(["max_length=3"])


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


def test_sizes_follow_the_data_and_what_was_typed_stays():
    recipe = registry.recipe("translate")
    (small, told), (middle, _), (same, nothing), (large, _) = (
        recipe.sized(items) for items in (3_000, 29_000, 300_000, 5_000_000)
    )
    sizes = [(each.build("system", source_vocab=9, target_vocab=9).dim, each.build("task").batch_tokens,
              each.build("train").epochs) for each in (small, middle, same, large)]  # fmt: skip
    assert sizes == sorted(sizes, key=lambda each: (each[0], each[1], -each[2])) and len(set(sizes)) == 4
    assert same.sections == recipe.sections and not nothing
    assert "epochs=25" in told and "up to 10,000 pairs" in told
    typed, told = recipe.change(["dim=64", "epochs=3"]).sized(3_000)
    assert typed.sections["system"]["dim"] == 64 and typed.sections["train"]["epochs"] == 3
    assert "dim=" not in told and "epochs=" not in told and "batch_tokens=512" in told
    assert "by_size" not in small.toml() and not small.by_size


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('[[by_size]]\nup_to = 9\nwhy = "few"\nsystem.hiden = 3', "'hidden'"),
        ('[[by_size]]\nup_to = 9\nwhy = "few"\nsistem.hidden = 3', "'system'"),
        ("[[by_size]]\nup_to = 9\nsystem.hidden = 3", "says why"),
        ('[[by_size]]\nup_to = 9\nwhy = ""\n[[by_size]]\nup_to = 3\nwhy = ""', r"\[9, 3\]"),
        ('[[by_size]]\nwhy = ""\n[[by_size]]\nup_to = 3\nwhy = ""', "None"),
        ("[by_size]\nup_to = 3", r"\[\[by_size\]\]"),
    ],
)
def test_a_bad_table_of_sizes_is_named(table, message, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f'[system]\nname = "rnnsearch"\n[task]\nname = "translation"\n{table}\n')
    with pytest.raises(ValueError, match=rf"mine\.toml: .*{message}"):
        Recipe.read(path)


def test_an_installed_package_may_bring_systems_and_tasks(tmp_path, monkeypatch):
    about = tmp_path / "stranger-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    points = "[regard.systems]\nstrange_reader = strange_systems:Reader\nno_class = strange_systems:NUMBER\n"
    (about / "entry_points.txt").write_text(points)
    body = "from regard.systems.rnnsearch import Config, RNNsearch\nclass Reader(RNNsearch): pass\nNUMBER = 3\n"
    (tmp_path / "strange_systems.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert registry.system("strange_reader").__module__ == "strange_systems"
    path = tmp_path / "mine.toml"
    path.write_text('[system]\nname = "strange_reader"\nhidden = 8\n[task]\nname = "toy_grammar"\n')
    assert Recipe.read(path).build("system", source_vocab=9, target_vocab=9).hidden == 8
    with pytest.raises(ValueError, match="did you mean 'strange_reader'"):
        registry.system("strange_raeder")
    with pytest.raises(ValueError, match="strange_systems:NUMBER, is not a class"):
        registry.system("no_class")


def test_another_system_leaves_out_what_only_the_one_before_has():
    recipe = registry.recipe("vqa-daquar")
    changed = recipe.change(["system.name=san"])
    kept = {key: value for key, value in recipe.sections["system"].items() if key not in ("name", "reader")}
    assert changed.sections["system"] == {"name": "san", **kept}
    with pytest.raises(ValueError, match="has no key 'reader'"):
        recipe.change(["system.name=san", "system.reader=words"])


def test_keys_are_those_of_the_system_that_comes_in():
    """In whatever order they are given, and lists of numbers too."""
    changed = registry.recipe("dram-house").change(["system.widths=[4,5]", "system.name=cnn", "system.filters=2"])
    kept = {"hidden": 128, "standardize": True}
    assert changed.sections["system"] == {"name": "cnn", "widths": [4, 5], "filters": 2, **kept}
    with pytest.raises(ValueError, match="widths is a list of int"):
        registry.recipe("dram-house").change(["system.name=cnn", "system.widths=wide"])
