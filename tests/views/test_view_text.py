"""Tokens as people see them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.views.text import cells, clusters, pad, right_to_left, shorten, visible


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("coffee", "coffee"),
        ("", "∅"),
        (" ", "␣"),
        ("   ", "␣␣␣"),
        (" the", " the"),
        ("a\nb\tc", "a↵b⇥c"),
        ("\x1b[31m", "‹1B›[31m"),
        ("\x7f\x00", "‹7F›‹00›"),
        ("\u202eabc", "‹202E›abc"),
        ("\ud800", "‹D800›"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("深度學習", "深度學習"),
    ],
)
def test_visible(token, shown):
    assert visible(token) == shown


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("café", 4),
        ("cafe\u0301", 4),
        ("深度學習", 8),
        ("ｗｉｄｅ", 8),
        ("😀", 2),
        ("👩\u200d👩\u200d👧", 2),
        ("👍🏽", 2),
        ("🇪🇸🇩🇪", 4),
        ("❤\ufe0f", 2),
        ("שלום", 4),
        ("नि", 2),
        ("한국", 4),
    ],
)
def test_cells(text, width):
    assert cells(text) == width


def test_clusters_keep_marks_with_their_letter():
    assert clusters("e\u0301a🇪🇸🇩🇪👩\u200d👧") == ["e\u0301", "a", "🇪🇸", "🇩🇪", "👩\u200d👧"]


@given(st.text(max_size=30), st.integers(0, 20))
def test_shorten_fits_and_pad_fills(text, width):
    short = shorten(text, width)
    assert cells(short) <= width
    assert short == text or short.endswith("…") or width == 0
    assert cells(pad(short, width)) == width
    assert "".join(clusters(text)) == text


@given(st.text(max_size=30))
def test_visible_obeys_nothing(token):
    shown = visible(token)
    assert shown
    assert shown.isprintable() or any(joiner in shown for joiner in "\u200c\u200d") or not token.isprintable()
    assert not any(ord(character) < 0x20 or character in "\x7f\x9b\u202e\u2066" for character in shown)


def test_direction():
    assert right_to_left("שלום")
    assert right_to_left("...مرحبا")
    assert not right_to_left("Hi שלום")
    assert not right_to_left("12.")
