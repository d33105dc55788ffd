"""Text to ids and back."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.tokens import BOS, EOS, PAD, UNKNOWN, Ragged, Tokenizer

TEXTS = [
    "I love coffee.",
    "Me gusta el café.",
    "Don't you love well-known coffee (or tea)?",
    "¿Te gusta? ¡Sí, 2016!",
    "深度學習很有趣。",
    "שלום עולם",
] * 5
HARD = [
    "👩‍🚀🏳️‍🌈 e\u0301 \x00 \u2028",
    "深度學習 deep",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "  two  spaces ",
    "<s> </s> <unk> <pad>",
    "Ġ▁ĉ",
    "",
    " ",
    "a\tb\nc\r\n",
]
tokenizers = {
    "bpe": Tokenizer.train(TEXTS, level="bpe", vocab=400),
    "word": Tokenizer.train(TEXTS, level="word", vocab=100),
    "char": Tokenizer.train(TEXTS, level="char", vocab=100),
}
closed = Tokenizer.of_pieces([" a", "a", " b", "b", "ab", " é", "-", "深"])
levels = pytest.mark.parametrize("level", tokenizers)


@pytest.mark.parametrize("text", HARD)
def test_subwords_lose_nothing(text):
    bpe = tokenizers["bpe"]
    assert bpe.decode(bpe.encode(text)) == text
    assert UNKNOWN not in bpe.encode(text)


@given(st.text())
def test_subwords_lose_nothing_of_any_text(text):
    bpe = tokenizers["bpe"]
    assert bpe.decode(bpe.encode(text)) == text


@levels
def test_what_was_seen_comes_back(level):
    for text in TEXTS:
        assert tokenizers[level].decode(tokenizers[level].encode(text)) == text


@levels
def test_reserved_ids(level, tmp_path):
    tokenizer = tokenizers[level]
    assert (PAD, BOS, EOS, UNKNOWN) == (0, 1, 2, 3)
    ids = tokenizer.encode(TEXTS[0])
    assert min(ids) > 3
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == TEXTS[0]


@levels
@given(text=st.text())
def test_reserved_ids_cannot_be_smuggled_in(level, text):
    ids = tokenizers[level].encode(f"</s>{text}<pad> <s></s>")
    assert not {PAD, BOS, EOS} & set(ids)


@levels
@given(data=st.data())
def test_any_ids_can_be_shown(level, data):
    """A model may write anything, also half a character."""
    tokenizer = tokenizers[level]
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=20))
    assert isinstance(tokenizer.decode(ids), str)
    assert len(tokenizer.pieces(ids)) == len(ids)
    for apart in (False, True):
        words, numbers = tokenizer.words(ids, apart=apart)
        assert len(numbers) == len(ids)
        assert all(-1 <= number < len(words) for number in numbers)


@levels
@given(text=st.text())
def test_words_are_what_spaces_divide(level, text):
    tokenizer = tokenizers[level]
    ids = tokenizer.encode(text)
    words, numbers = tokenizer.words([BOS, *ids, EOS])
    if UNKNOWN not in ids:
        assert words == text.split()
        assert sorted(set(numbers) - {-1}) == list(range(len(words)))
        assert [n for n in numbers if n >= 0] == sorted(n for n in numbers if n >= 0)


def test_words_of_subwords():
    bpe = tokenizers["bpe"]
    ids = bpe.encode("Don't drink 深度!")
    words, numbers = bpe.words([*ids, EOS])
    assert words == ["Don't", "drink", "深度!"] and numbers[-1] == -1
    for number, word in enumerate(words):
        inside = [i for i, n in zip(ids, numbers) if n == number]
        assert bpe.decode(inside).strip() == word
    assert bpe.words(ids, apart=True)[0] == ["Don't", "drink", "深", "度", "!"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't you love well-known coffee (or tea)?", "Don't you love well-known coffee ( or tea ) ?"),
        ("¡Sí! 'Sí'... -- no", "¡ Sí ! ' Sí ' ... -- no"),
        ("深度學習。OK", "深 度 學 習 。 OK"),
        ("สวัสดี नमस्ते", "ส วั ส ดี नमस्ते"),
        ("👩‍🚀👍🏽!", "👩‍🚀 👍🏽 !"),
    ],
)
def test_punctuation_apart(text, words):
    char = Tokenizer.train([text], level="char", vocab=100)
    found, numbers = char.words(char.encode(text), apart=True)
    assert " ".join(found) == words
    assert sorted(set(numbers) - {-1}) == list(range(len(found)))


@given(st.text())
def test_every_word_has_an_id(text):
    bpe = tokenizers["bpe"]
    words, numbers = bpe.words(bpe.encode(text), apart=True)
    assert sorted(set(numbers) - {-1}) == list(range(len(words)))
    assert "".join(words) == "".join(text.split())


def test_pieces_are_the_text():
    for tokenizer in tokenizers.values():
        for text in TEXTS[:4]:
            assert "".join(tokenizer.pieces(tokenizer.encode(text))).removeprefix(" ") == text


def test_word_level_pieces():
    word = tokenizers["word"]
    assert word.pieces(word.encode("I love café.")) == [" I", " love", " café", "."]
    assert word.pieces(word.encode("深度學")) == [" 深", "度", "學"]
    assert word.pieces(word.encode("I love Zorblax.")) == [" I", " love", " <unk>", "."]
    assert word.decode(word.encode("I love Zorblax.")) == "I love <unk>."


def test_surfaces_are_what_stood_there():
    word, char = tokenizers["word"], tokenizers["char"]
    text = "I love Zorblax, cafe\u0301  and 深X."
    assert word.surfaces(text) == ["I", "love", "Zorblax", ",", "café", "and", "深", "X", "."]
    assert char.surfaces("a ☃") == ["a", "", "☃"]
    for tokenizer in (*tokenizers.values(), closed):
        assert len(tokenizer.surfaces(text)) == len(tokenizer.encode(" ".join(text.replace("e\u0301", "é").split())))


def test_char_level():
    char = tokenizers["char"]
    assert char.pieces(char.encode("el café")) == list("el café")
    assert char.decode(char.encode("el ☃")) == "el <unk>"


def test_digits_stand_alone_among_subwords():
    bpe = Tokenizer.train(["2016 2016 2016"] * 50, vocab=300)
    assert bpe.pieces(bpe.encode("2016")) == [" 2", "0", "1", "6"]


@levels
def test_lowercase(level):
    tokenizer = Tokenizer.train(TEXTS, level=level, vocab=400, lowercase=True)
    assert tokenizer.decode(tokenizer.encode("I LOVE Coffee.")) == "i love coffee."


@levels
def test_saved_and_loaded(level, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizers[level].save(path)
    loaded = Tokenizer.load(path)
    for text in [*TEXTS, *HARD]:
        assert loaded.encode(text) == tokenizers[level].encode(text)
        assert loaded.decode(loaded.encode(text)) == tokenizers[level].decode(tokenizers[level].encode(text))
    assert len(loaded) == len(tokenizers[level])


def test_all_at_once_is_one_by_one():
    texts = [f"{text} {n}" for n in range(60) for text in [*TEXTS, *HARD]]
    for tokenizer in tokenizers.values():
        many = tokenizer.encode_all(texts)
        assert many.ids.dtype == np.int32
        assert [list(many[row]) for row in range(len(texts))] == [tokenizer.encode(text) for text in texts]
        assert len(tokenizer.encode_all([]).lengths) == 0


@levels
@given(
    texts=st.lists(st.text(st.sampled_from("ab é.'-深1\t\n\u00a0\u2028Σς") | st.characters(exclude_categories=["Cs"])))
)
def test_all_at_once_is_one_by_one_for_any_text(level, texts):
    for tokenizer in (tokenizers[level], closed):
        many = tokenizer.encode_all(texts)
        assert [many[row].tolist() for row in range(len(texts))] == [tokenizer.encode(text) for text in texts]


def test_ragged():
    one, two = Ragged.of([[1, 2], []]), Ragged.of([[3]])
    joined = Ragged.join([one, two, Ragged.of([])])
    assert joined.lengths.tolist() == [2, 0, 1] and joined[2].tolist() == [3]
    assert Ragged.join([]).lengths.tolist() == []


def test_training_is_deterministic_across_processes():
    code = (
        "from regard.data.tokens import LEVELS, Tokenizer\n"
        "texts = [f'wort{n % 37} {n} und {n * 7919 % 1009}!' for n in range(3000)]\n"
        "made = [Tokenizer.train(texts, level=level, vocab=600).backend.get_vocab() for level in LEVELS]\n"
        "import hashlib; print(hashlib.sha256(str([sorted(v.items()) for v in made]).encode()).hexdigest())"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout


def test_vocabulary_is_bounded():
    assert len(tokenizers["bpe"]) <= 400 and len(Tokenizer.train(TEXTS, level="word", vocab=10)) == 10
    with pytest.raises(ValueError, match=r"vocab = 100: level 'bpe' needs at least 260"):
        Tokenizer.train(TEXTS, vocab=100)
    with pytest.raises(ValueError, match=r"'wrd'.*'word'"):
        Tokenizer.train(TEXTS, level="wrd")


def test_closed_lists_of_pieces():
    stones = ["ein", "eins", "und", "zwanzig", "zwei", "hundert"]
    german = Tokenizer.of_pieces([*(f" {stone}" for stone in stones), *stones])
    ids = german.encode("zweihunderteinundzwanzig eins")
    assert german.pieces(ids) == [" zwei", "hundert", "ein", "und", "zwanzig", " eins"]
    assert german.decode(ids) == "zweihunderteinundzwanzig eins"
    assert german.encode("einsam zwei")[0] == UNKNOWN and UNKNOWN not in german.encode("zwei eins")


def test_foreign_and_broken_files(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer.json: not a tokenizer"):
        Tokenizer.load(path)
    foreign = json.loads(tokenizers["word"].backend.to_str())
    foreign["added_tokens"] = []
    foreign["model"]["vocab"] = {"<unk>": 0, "a": 1}
    path.write_text(json.dumps(foreign))
    with pytest.raises(ValueError, match="elsewhere"):
        Tokenizer.load(path)


MULTIPLY = {"type": "Replace", "pattern": {"Regex": "."}, "content": "x" * 1000}
PATTERN = {"type": "Split", "pattern": {"Regex": "(a+)+b"}, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        (
            "normalizer",
            {"type": "Sequence", "normalizers": [MULTIPLY] * 9},
            "its normalizer, Replace, Replace, .*is not ",
        ),
        ("normalizer", {"type": "NFKC"}, "its normalizer, NFKC, is not "),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "its normalizer, Precompiled"),
        ("pre_tokenizer", PATTERN, "its pre_tokenizer, Split"),
        (
            "pre_tokenizer",
            {"type": "Sequence", "pretokenizers": [PATTERN] * 2},
            "its pre_tokenizer, Split, Split|'pattern'",
        ),
        (
            "post_processor",
            {"type": "TemplateProcessing", "single": []},
            "its post_processor, TemplateProcessing, is not",
        ),
        ("decoder", {"type": "Sequence", "decoders": [MULTIPLY]}, "its decoder, Replace, is not"),
        ("decoder", None, "its decoder, nothing, is not"),
        ("model", {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 0}, ""),
        ("model", {"type": "BPE", "vocab": {}, "merges": []}, "elsewhere, or missing"),
        ("model", 7, ""),
    ],
)
@levels
def test_foreign_steps_are_refused_by_name(tmp_path, level, part, value, message):
    about = json.loads(tokenizers[level].backend.to_str())
    about[part] = value
    (tmp_path / "tokenizer.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match=rf"tokenizer\.json: not a tokenizer of regard's.*{message}"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@levels
def test_only_the_vocabulary_comes_from_the_file(tmp_path, level):
    about = json.loads(tokenizers[level].backend.to_str())
    about["padding"] = {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": 2**62, "pad_id": 0}
    about["padding"] |= {"pad_type_id": 0, "pad_token": "x" * 1000}
    about["truncation"] = {"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 2**60}
    about["added_tokens"].append({**about["added_tokens"][0], "id": 10**9, "content": "e", "lstrip": True})
    about["model"] |= {"dropout": 0.99, "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True}
    for step in about["normalizer"]["normalizers"]:
        step["prepend"] = "x" * 10_000
    for step in about["decoder"]["decoders"]:
        step |= {"content": "y" * 10_000, "start": 10**9}
    (tmp_path / "tokenizer.json").write_text(json.dumps(about))
    found = Tokenizer.load(tmp_path / "tokenizer.json")
    assert found.backend.to_str() == tokenizers[level].backend.to_str()
    assert found.encode(TEXTS[1]) == tokenizers[level].encode(TEXTS[1])


@pytest.mark.parametrize(
    "change",
    [{"zz": 10**9}, {"zz": -1}, {"zz": "5"}, {"zz": 4}, {"zz": None}, {"": 404}, {"\ud800": 404}, {"zz": 2**64}],
)
@levels
def test_a_vocabulary_that_cannot_be(tmp_path, level, change):
    about = json.loads(tokenizers[level].backend.to_str())
    vocab = about["model"]["vocab"]
    vocab.update({token: len(vocab) if number == 404 else number for token, number in change.items()})
    (tmp_path / "tokenizer.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a tokenizer of regard's"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_what_is_no_tokenizer(tmp_path):
    path = tmp_path / "tokenizer.json"
    deep = json.dumps({"type": "Sequence", "normalizers": []})[:-2]
    about = json.loads(tokenizers["word"].backend.to_str())
    for text in ("", "[]", "null", "[" * 100_000, deep * 200 + "]}" * 200, json.dumps({**about, "normalizer": 5})):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"tokenizer\.json: not "):
            Tokenizer.load(path)
    letter = json.loads(tokenizers["bpe"].backend.to_str())
    letter["model"]["vocab"] |= {"深": len(letter["model"]["vocab"])}
    path.write_text(json.dumps(letter))
    with pytest.raises(ValueError, match="a letter that stands for no byte"):
        Tokenizer.load(path)


def test_merges_as_older_versions_wrote_them(tmp_path):
    about = json.loads(tokenizers["bpe"].backend.to_str())
    about["model"]["merges"] = [" ".join(pair) for pair in about["model"]["merges"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(about))
    assert Tokenizer.load(tmp_path / "tokenizer.json").backend.to_str() == tokenizers["bpe"].backend.to_str()


def test_closed_lists_are_saved_and_loaded(tmp_path):
    for tokenizer in (closed, Tokenizer.of_pieces(["a", "深", "\\", "|)"], spaced=False)):
        tokenizer.save(tmp_path / "tokenizer.json")
        assert Tokenizer.load(tmp_path / "tokenizer.json").backend.to_str() == tokenizer.backend.to_str()
