"""Subtitles keep to what can be read, whatever is said."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import subtitles
from regard.metrics.times import Said

WORDS = st.lists(
    st.tuples(st.text("abcdefghij'<&", min_size=1, max_size=60), st.floats(0.01, 1.5), st.floats(0, 3)), max_size=60
)


def spoken(words):
    """Words one after the other, each with its length and the pause before it."""
    found, now = [], 0.0
    for word, length, pause in words:
        found.append(Said(word, now + pause, now + pause + length, 1.0))
        now = found[-1].end
    return found


@given(WORDS)
def test_every_cue_can_be_read(words):
    said = spoken(words)
    cues = subtitles.cues(said)
    for cue in cues:
        assert 1 <= len(cue.lines) <= 2 and all(0 < len(line) <= 42 for line in cue.lines)
        assert sum(map(len, cue.lines)) / (cue.end - cue.start) <= 21 + 1e-6
    assert all(before.end <= after.start for before, after in pairwise(cues))
    shown = "".join(line for cue in cues for line in cue.lines).replace(" ", "")
    assert shown == "".join(each.word for each in said)
    if cues:
        assert cues[0].start == said[0].start


def test_cues_begin_with_their_words_and_end_at_pauses():
    said = spoken([("hello", 0.5, 0.2), ("there", 0.5, 0.1), ("again", 0.5, 2.0)])
    assert [(cue.start, cue.lines) for cue in subtitles.cues(said)] == [
        (pytest.approx(0.2), ("hello there",)),
        (pytest.approx(3.3), ("again",)),
    ]


def test_lines_are_as_equal_as_can_be():
    assert subtitles.wrapped(["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "again"]) == (
        "the quick brown fox jumps",
        "over the lazy dog again",
    )
    assert subtitles.wrapped(["a" * 40, "b" * 40, "c" * 40]) is None


def test_both_formats():
    cues = [subtitles.Cue(0.5, 3.25, ("a < b",)), subtitles.Cue(3725.0, 3726.5, ("one", "two"))]
    assert subtitles.written(cues, "srt") == (
        "1\n00:00:00,500 --> 00:00:03,250\na < b\n\n2\n01:02:05,000 --> 01:02:06,500\none\ntwo\n"
    )
    text = subtitles.written(cues, "vtt")
    assert text.startswith("WEBVTT\n\n00:00:00.500 --> 00:00:03.250\na &lt; b\n") and not re.search(r"^\d$", text, re.M)
    with pytest.raises(ValueError, match="srt or vtt, not as 'ass'"):
        subtitles.written(cues, "ass")
