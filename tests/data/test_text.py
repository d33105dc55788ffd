"""Reading pairs: every format, every kind of bad line, chunks, layouts and held-out sentences."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import corpora
from regard.data import text as _text
from regard.data.lines import BadLines
from regard.data.text import JsonLines, Parallel, Position, Tabs


def write(path, lines, *, ending="\n", last="\n"):
    data = lines if isinstance(lines, bytes) else (ending.join(lines) + last).encode()
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(data))
    else:
        path.write_bytes(data)
    return path


def parallel(folder, source, target, suffix=""):
    return Parallel((write(folder / f"train.en{suffix}", source), write(folder / f"train.de{suffix}", target)))


def read(corpus, bad=None, **settings):
    return [pair for pairs, _ in corpus.chunks(bad or BadLines(), **settings) for pair in zip(*pairs)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_parallel_files(tmp_path, suffix):
    corpus = parallel(tmp_path, ["a b", "c"], ["x", "y z"], suffix)
    assert read(corpus) == [("a b", "x", 1), ("c", "y z", 2)]


def test_tabs_with_further_columns_and_columns_swapped(tmp_path):
    path = write(tmp_path / "spa.txt", ["Go.\tVe.\tCC-BY 2.0 #123", "Hi.\tHola."])
    assert read(Tabs((path,))) == [("Go.", "Ve.", 1), ("Hi.", "Hola.", 2)]
    assert read(Tabs((path,), columns=(2, 1))) == [("Ve.", "Go.", 1), ("Hola.", "Hi.", 2)]


def test_json_lines(tmp_path):
    lines = [
        {"en": "a", "de": "x", "id": 7},
        {"translation": {"en": "b", "de": "y"}},
        {"source": "c", "target": "z"},
    ]
    path = write(tmp_path / "train.jsonl", [json.dumps(line, ensure_ascii=False) for line in lines])
    assert read(JsonLines((path,), languages=("en", "de"))) == [("a", "x", 1), ("b", "y", 2), ("c", "z", 3)]


def test_windows_files_and_files_without_a_last_line_end(tmp_path):
    write(tmp_path / "train.en", ["\ufeffone", "two"], ending="\r\n", last="")
    write(tmp_path / "train.de", ["eins", "zwei"], ending="\r\n", last="\r\n")
    assert read(Parallel((tmp_path / "train.en", tmp_path / "train.de"))) == [("one", "eins", 1), ("two", "zwei", 2)]


def test_half_a_character_in_json(tmp_path):
    path = write(tmp_path / "train.jsonl", ['{"source": "a\\ud83d b", "target": "\\ud83d\\ude00"}'])
    assert read(JsonLines((path,))) == [("a? b", "😀", 1)]


def test_only_a_line_feed_ends_a_line(tmp_path):
    """str.splitlines would also split at these, and shift every pair after them."""
    odd = "a\u2028b\x85c\x0bd\x1ce\rf"
    corpus = parallel(tmp_path, [odd, "second"], ["x", "zweite"])
    assert [(line, target) for _, target, line in read(corpus)] == [(1, "x"), (2, "zweite")]


def test_text_is_composed_and_single_spaced(tmp_path):
    corpus = parallel(tmp_path, ["cafe\u0301  noir "], ["\tKaffee\u00a0 schwarz"])
    assert read(corpus) == [("caf\u00e9 noir", "Kaffee schwarz", 1)]


BAD = {
    "empty source": (["a", "", "c"], ["x", "y", "z"], "train.en:2: an empty line", "empty"),
    "empty target": (["a", "b", "c"], ["x", " \t", "z"], "train.de:2: an empty line", "empty"),
    "longer source": (["a", "b", "c"], ["x", "y"], "train.en:3: train.de\\S* ends after 2 lines", "without a partner"),
    "longer target": (
        ["a"],
        ["x", "y", "z"],
        "train.de:2: train.en\\S* ends after 1 lines, but train.de\\S* has 3",
        "without a partner",
    ),
    "not UTF-8": (b"a\n\xff\xfe\nc\n", ["x", "y", "z"], "train.en:2: not UTF-8", "unreadable"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_bad_line_is_named_or_counted(tmp_path, case, suffix):
    source, target, message, kind = BAD[case]
    corpus = parallel(tmp_path, source, target, suffix)
    with pytest.raises(ValueError, match=message.replace(":", rf"{suffix}:", 1)) as error:
        read(corpus)
    assert "--skip-bad" in str(error.value)

    bad = BadLines(skip=True)
    good = read(corpus, bad)
    assert [line for _, _, line in good] == {"longer source": [1, 2], "longer target": [1]}.get(case, [1, 3])
    assert bad.counts == {kind: 2 if case == "longer target" else 1}
    assert f"{bad.total} {kind} (first: " in str(bad)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no tab", "1 tab-separated"),
        ("\tx", "the source is empty"),
        ("a\t ", "the target is empty"),
        ("", "an empty line"),
    ],
)
def test_bad_lines_of_a_tab_file(tmp_path, line, message):
    corpus = Tabs((write(tmp_path / "spa.txt", ["a\tx", line, "c\tz"]),))
    with pytest.raises(ValueError, match=f"spa.txt:2: {message}"):
        read(corpus)
    bad = BadLines(skip=True)
    assert [n for _, _, n in read(corpus, bad)] == [1, 3] and bad.total == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "not JSON"), ('{"en": "a"}', "'en' and 'de'"), ("[1]", "'en' and 'de'"), ('{"en": 1, "de": "x"}', "'en'")],
)
def test_bad_lines_of_json(tmp_path, line, message):
    corpus = JsonLines((write(tmp_path / "t.jsonl", [line]),), languages=("en", "de"))
    with pytest.raises(ValueError, match=rf"t.jsonl:1: .*{message}"):
        read(corpus)


def test_a_line_that_never_ends_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(_text, "LONGEST", 100)
    corpus = parallel(tmp_path, ["a", "b" * 950, "c" * 99, "d"], ["x", "y", "z", "w"])
    with pytest.raises(ValueError, match=r"train.en:2: a line of more than 100 bytes"):
        read(corpus)
    bad = BadLines(skip=True)
    whole = read(corpus, bad)
    assert [line for _, _, line in whole] == [1, 3, 4] and bad.counts == {"too long": 1}
    (_, after), *_ = list(corpus.chunks(bad, size=500))
    assert after.line == 2 and read(corpus, start=after) == whole[1:]


def test_a_damaged_archive_is_named(tmp_path):
    corpus = parallel(tmp_path, ["a"] * 50_000, ["x"] * 50_000, ".gz")
    whole = corpus.files[0].read_bytes()
    corpus.files[0].write_bytes(whole[: len(whole) // 2])
    for skip in (False, True):
        with pytest.raises(ValueError, match=r"train.en.gz.* damaged or cut off after line \d+"):
            read(corpus, BadLines(skip))
    with pytest.raises(ValueError, match=r"train.en.gz: damaged"):
        corpus.check()
    corpus.files[0].write_bytes(b"no archive at all\n")
    with pytest.raises(ValueError, match="damaged"):
        read(corpus)


def test_check_counts_the_lines(tmp_path):
    parallel(tmp_path, ["a", "b"], ["x", "y"]).check()
    with pytest.raises(ValueError, match=r"train.en:2: .*train.de ends after 1 lines, but train.en has 2"):
        parallel(tmp_path, ["a", "b"], ["x"]).check()


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_reading_on_from_any_position(tmp_path, suffix):
    source = [f"satz {n} {'ä' * (n % 7)}" for n in range(300)]
    corpus = parallel(tmp_path, source, [text.upper() for text in source], suffix)
    whole = read(corpus)
    chunks = list(corpus.chunks(BadLines(), size=500))
    assert len(chunks) > 10
    seen = 0
    for pairs, after in chunks:
        seen += len(pairs.lines)
        assert read(corpus, start=Position(*json.loads(json.dumps(after)))) == whole[seen:]


def test_sample_is_from_all_over_the_file(tmp_path):
    corpus = parallel(tmp_path, [f"a{n:06}" for n in range(9000)], [f"x{n:06}" for n in range(9000)])
    blocks = list(corpus.sample(blocks=8, size=2000))
    numbers = [int(text[1:]) for pairs in blocks for text in pairs.source]
    assert len(numbers) < 2000 and numbers == sorted(set(numbers))
    assert max(numbers) > 7500 and min(numbers) == 0
    assert all(len(text) == 7 for pairs in blocks for text in pairs.target)


class TestLayouts:
    def roles(self, folder, *args, **settings):
        found = corpora.find(folder, "en", "de", *args, **settings)
        return {role: [path.name for path in corpus.files] for role, corpus in found.items()}

    def put(self, folder, *names):
        for name in names:
            write(folder / name, ["a"])

    def test_multi30k(self, tmp_path):
        stems = ("train", "val", "test_2016_flickr", "test_2017_mscoco")
        self.put(tmp_path, *(f"{stem}.{language}.gz" for stem in stems for language in ("en", "de", "fr")))
        assert self.roles(tmp_path) == {
            "train": ["train.en.gz", "train.de.gz"],
            "valid": ["val.en.gz", "val.de.gz"],
            "test": ["test_2016_flickr.en.gz", "test_2016_flickr.de.gz"],
        }

    def test_one_pair_of_files_whatever_its_name(self, tmp_path):
        self.put(tmp_path, "europarl-v7.de-en.en", "europarl-v7.de-en.de", "README.txt", "notes.md")
        assert self.roles(tmp_path) == {"train": ["europarl-v7.de-en.en", "europarl-v7.de-en.de"]}

    def test_tatoeba(self, tmp_path):
        self.put(tmp_path, "spa.txt.gz", "_about.txt", "readme.txt")
        assert self.roles(tmp_path) == {"train": ["spa.txt.gz"]}
        assert self.roles(tmp_path / "spa.txt.gz") == {"train": ["spa.txt.gz"]}

    @pytest.mark.parametrize(("source", "target", "columns"), [("en", "fr", (1, 2)), ("fr", "en", (2, 1))])
    def test_the_first_line_may_name_the_columns(self, tmp_path, source, target, columns):
        (tmp_path / "pairs.tsv").write_text("en\tfr\nHello.\tBonjour.\n")
        found = corpora.find(tmp_path, source, target)["train"]
        assert found.columns == columns
        ((pairs, _),) = found.chunks(BadLines())
        said = {"en": "Hello.", "fr": "Bonjour."}
        assert (pairs.source, pairs.target) == ([said[source]], [said[target]]) and pairs.lines == [2]

    def test_what_contradicts_the_first_line_is_refused(self, tmp_path):
        (tmp_path / "pairs.tsv").write_text("en\tfr\nHello.\tBonjour.\n")
        with pytest.raises(ValueError, match="no column is called 'de'; its first line names en, fr"):
            corpora.find(tmp_path, "en", "de")
        with pytest.raises(ValueError, match=r"columns = 1,2, but .* fr is column 2 and en column 1"):
            corpora.find(tmp_path, "fr", "en", (1, 2))

    def test_a_file_that_is_named_after_the_source_is_turned(self, tmp_path):
        (tmp_path / "fra.txt").write_text("Hello.\tBonjour.\n")
        assert corpora.find(tmp_path, "fr", "en")["train"].columns == (2, 1)
        assert corpora.find(tmp_path, "en", "fr")["train"].columns == (1, 2)
        assert corpora.find(tmp_path, "fr", "en", (1, 2))["train"].columns == (1, 2)

    def test_of_two_languages_the_one_that_is_wanted(self, tmp_path):
        for name in ("spa", "deu"):
            (tmp_path / f"{name}.txt").write_text(f"Hello.\t{name}\n")
        assert corpora.find(tmp_path, "en", "de")["train"].files == (tmp_path / "deu.txt",)
        assert corpora.find(tmp_path, "en", "es")["train"].files == (tmp_path / "spa.txt",)
        with pytest.raises(ValueError, match="Found: deu, spa"):
            corpora.find(tmp_path, "en", "fr")

    def test_names_say_what_files_cannot(self, tmp_path):
        self.put(tmp_path, *(f"{s}.{e}" for s in ("all", "newstest2013", "newstest2014") for e in ("en", "de")))
        names = {"train": "all", "valid": "newstest2013", "test": "newstest2014"}
        assert self.roles(tmp_path, names=names)["valid"] == ["newstest2013.en", "newstest2013.de"]
        with pytest.raises(ValueError, match=r"no train corpus 'al'; found: all, newstest2013"):
            self.roles(tmp_path, names={"train": "al"})
        with pytest.raises(ValueError, match=r"no text to train on.*Found: all, newstest2013, newstest2014"):
            self.roles(tmp_path)

    def test_json_and_tsv_with_splits(self, tmp_path):
        self.put(tmp_path, "train.jsonl", "dev.jsonl", "test.tsv")
        assert self.roles(tmp_path) == {"train": ["train.jsonl"], "valid": ["dev.jsonl"], "test": ["test.tsv"]}

    def test_the_uncompressed_of_two(self, tmp_path):
        self.put(tmp_path, "train.en", "train.en.gz", "train.de")
        assert self.roles(tmp_path) == {"train": ["train.en", "train.de"]}

    def test_half_a_pair(self, tmp_path):
        (tmp_path / "train.en").write_text("Hello.\n")
        with pytest.raises(ValueError, match=r"train\.en is there, but not train\.de"):
            corpora.find(tmp_path, "en", "de")

    def test_empty_files(self, tmp_path):
        for language in ("en", "de"):
            (tmp_path / f"train.{language}").write_text("")
        with pytest.raises(ValueError, match=r"train\.en and .*train\.de: empty, but it is the text for train"):
            corpora.find(tmp_path, "en", "de")
        for language in ("en", "de"):
            (tmp_path / f"train.{language}").unlink()
            with gzip.open(tmp_path / f"train.{language}.gz", "wb"):
                pass
        found = corpora.find(tmp_path, "en", "de")["train"]
        with pytest.raises(ValueError, match=r"train\.en\.gz: there is no sentence in it"):
            _text.hold_out(found, {"test": 3}, BadLines())

    def test_nothing_there(self, tmp_path):
        with pytest.raises(ValueError, match=r"train.en beside train.de"):
            self.roles(tmp_path)
        with pytest.raises(ValueError, match="no such file or folder"):
            self.roles(tmp_path / "nowhere")


class TestHoldOut:
    LINES = tuple(f"{word} number {n}{end}\t{word} {n}{end}" for n in range(100) for word, end in [
        ("Sentence", "."), ("sentence", "!"), ("SENTENCE", "")
    ])  # fmt: skip

    def split(self, folder, lines=LINES, **sizes):
        corpus = Tabs((write(folder / "spa.txt", list(lines)),))
        return {name: read(part) for name, part in _text.hold_out(corpus, sizes, BadLines()).items()}

    def test_no_sentence_on_two_sides(self, tmp_path):
        split = self.split(tmp_path, test=10, valid=5)
        keys = {name: {source.lower().strip(".!") for source, _, _ in pairs} for name, pairs in split.items()}
        assert {name: len(found) for name, found in keys.items()} == {"train": 85, "test": 10, "valid": 5}
        assert not (keys["train"] & keys["test"] or keys["train"] & keys["valid"] or keys["test"] & keys["valid"])
        assert len(split["train"]) == 85 * 3

    def test_the_first_translation_is_the_reference(self, tmp_path):
        split = self.split(tmp_path, test=10)
        assert all(source.startswith("Sentence") and line % 3 == 1 for source, _, line in split["test"])
        assert len(split["test"]) == 10

    def test_order_and_other_lines_do_not_matter(self, tmp_path):
        keys = [
            {source.lower().strip(".!") for source, _, _ in self.split(tmp_path, lines, test=10)["test"]}
            for lines in (self.LINES, self.LINES[::-1])
        ]
        assert keys[0] == keys[1]

    def test_a_small_corpus_keeps_most_of_itself(self, tmp_path):
        split = self.split(tmp_path, self.LINES[:30], test=1000, valid=1000)
        assert [len({s.lower().strip(".!") for s, _, _ in split[name]}) for name in split] == [8, 1, 1]
        with pytest.raises(ValueError, match=r"spa.txt: 2 different sentences are too few"):
            self.split(tmp_path, self.LINES[:6], test=1000, valid=1000)


@given(st.text(), st.text(alphabet="!?.,;:'\"-()¡¿。…", max_size=3))
def test_key_forgets_case_and_punctuation(text, marks):
    if any(c.isalnum() for c in text):
        assert _text.key(text) == _text.key(f"{marks} {text}{marks}") == _text.key(f"  {text.lower()} ")


def test_key_tells_sentences_apart():
    sentences = ["I am here.", "I am there.", "Am I here?", "…", "?!", "!!", "深度學習", "深度學"]
    assert len({_text.key(sentence) for sentence in sentences}) == len(sentences)
