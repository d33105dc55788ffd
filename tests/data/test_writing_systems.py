"""What a word is in scripts that Python's own patterns do not know."""

import pytest

from regard.data.passages import Text
from regard.data.scripts import divided
from regard.metrics import captions, spans
from regard.tasks.summaries import joined, tokens


@pytest.mark.parametrize(
    "words",
    [
        "मैं दिल्ली में हूँ ।",
        "أَنا في القَاهِرَة ؟",
        "می\u200cخواهم بروم",
        "我 住 在 北 京 。",
        "i ❤️ 👨\u200d👩\u200d👧 and 👍🏽 cafe\u0301s !",
        "ฉั น รั ก",
        "u.s - born o'",
    ],
)
def test_words_are_whole_and_text_comes_back(words):
    parts = words.split()
    if "u.s" not in words:
        assert tokens(words) == list(Text.of(words).words) == parts
        assert tokens("".join(parts) if "我" in words or "ฉ" in words else words) == parts
    assert joined(tokens(words)).replace(" ", "") == "".join(parts)


def test_answers_without_spaces_are_compared_by_characters():
    assert spans.f1("在北京", "北京") == pytest.approx(0.8)
    assert captions.rouge_l([captions.words("北京开桥")], [[captions.words("北京开放新桥")]]) > 50


def test_a_run_without_spaces_is_divided_by_what_is_known():
    assert divided("我住在北京", {"北京", "住在", "我"}) == ["我", "住在", "北京"]
    assert divided("ฉันรัก", set()) == ["ฉั", "น", "รั", "ก"]
