"""The counting languages: strings, what of them is determined, and the curriculum."""

import re

import pytest
import torch

from regard.tasks.counting import LANGUAGES, Config, Counting, spell, string

FORMS = {
    "anbn": lambda n, m: "a" * n + "b" * n,
    "anbncn": lambda n, m: "a" * n + "b" * n + "c" * n,
    "anbncndn": lambda n, m: "a" * n + "b" * n + "c" * n + "d" * n,
    "anb2n": lambda n, m: "a" * n + "b" * 2 * n,
    "anbmcnm": lambda n, m: "a" * n + "b" * m + "c" * (n + m),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_strings(language):
    for n, m in ((1, 1), (3, 2), (2, 5)):
        symbols, known = string(language, n, m)
        assert spell(symbols) == FORMS[language](n, m) and len(known) == len(symbols)


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_determined_is_what_all_strings_agree_on(language):
    """Of all strings with the same beginning (and then another string), does the next symbol differ?"""
    texts = [FORMS[language](n, m) + "a" for n in range(1, 7) for m in range(1, 7)]
    for n, m in ((1, 1), (3, 2), (2, 3)):
        symbols, known = string(language, n, m)
        text = spell(symbols) + "a"
        for place, mark in enumerate([*known, 1]):
            after = {other[place] for other in texts if other.startswith(text[:place]) and len(other) > place}
            assert mark == (place > 0 and len(after) == 1), (text, place)


@pytest.mark.parametrize("language", LANGUAGES)
def test_training_rows_are_strings_in_a_row(language):
    task = Counting(Config(language, shortest=4, longest=6, length=40, batch=3, batches=2))
    for made in task.loader("train"):
        assert made["symbols"].shape == (3, 41) and made["known"].shape == (3, 40)
        for row, known in zip(made["symbols"].tolist(), made["known"].tolist()):
            pieces = re.findall(r"a+[b-d]*", spell(row))
            assert "".join(pieces) == spell(row)
            for piece in pieces[:-1]:
                n = piece.count("a")
                assert piece == FORMS[language](n, piece.count("b") if language == "anbmcnm" else n)
            begins = [len("".join(pieces[:k])) for k in range(1, len(pieces))]
            assert all(known[place - 1] == 1 for place in begins)


def test_n_grows_by_one_an_epoch():
    task = Counting(Config(shortest=2, longest=4, length=60, batches=2))
    loader = task.loader("train")
    for most in (2, 3, 4, 4):
        rows = [spell(row) for made in loader for row in made["symbols"].tolist()]
        assert max(len(run) for row in rows for run in re.findall("a+", row)) == most


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_test_has_every_n_after_a_short_string(language):
    task = Counting(Config(language, longest_test=25))
    found = list(task.loader("test"))
    fewest = 2 if language == "anbmcnm" else 1
    assert len(found) == 25 - fewest + 1
    for n, made in enumerate(found, fewest):
        for row, known in zip(made["symbols"].tolist(), made["known"].tolist()):
            text = spell(row)
            first, second, rest = re.findall(r"a+[b-d]*", text)
            assert rest == "a" and known[-1] == 1
            a = second.count("a")
            assert second == FORMS[language](a, n - a) and (language == "anbmcnm" or a == n)
            assert not any(known[: len(first)])
            assert known[len(first) :] == [*map(float, string(language, a, n - a)[1][1:]), 1.0]


def test_loaders_repeat_and_go_on():
    task = Counting(Config(batches=4, batch=2))
    expected = list(task.loader("train", seed=3))
    loader = task.loader("train", seed=3)
    walk = iter(loader)
    next(walk)
    other = task.loader("train", seed=3)
    other.load_state_dict(loader.state_dict())
    assert all(torch.equal(a["symbols"], b["symbols"]) for a, b in zip(other, expected[1:], strict=True))


def test_saved_and_loaded(tmp_path):
    Counting(Config("anb2n", batch=3)).save(tmp_path)
    assert Counting.load(tmp_path).config == Config("anb2n", batch=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "anbm"}, "'anbn'"),
        ({"shortest": 30}, "shortest"),
        ({"language": "anbmcnm", "shortest": 1}, "2 <="),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Config(**options)
