"""Running text: what is read, what is held out, streams that go on, holes, bad input."""

import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest

from regard.data import running
from regard.data.tokens import UNKNOWN
from regard.tasks.masked_text import Config as MaskedConfig
from regard.tasks.masked_text import MaskedText
from regard.tasks.running_text import RunningConfig, RunningText

HELD = {"valid": 0.1, "test": 0.2}
ARTICLE = (
    '<REUTERS NEWID="{n}">\n<TITLE>T</TITLE>\n<BODY>Number {n} rose &lt;A>\nagain. Reuter\n&#3;</BODY>\n</REUTERS>\n'
)


def text_of(corpus, **options):
    return "".join(text for text, _ in corpus.pieces(**options))


@pytest.fixture
def letters(tmp_path):
    path = tmp_path / "letters.txt"
    path.write_text("".join(f"line {number} of a text\n" for number in range(200)))
    return path


def test_splits_of_a_file_are_whole_lines_that_make_up_the_file(letters):
    found = running.find(str(letters), HELD)
    parts = [text_of(found[split]) for split in ("train", "valid", "test")]
    assert "".join(parts) == letters.read_text()
    assert all(part.endswith("\n") for part in parts)
    assert abs(len(parts[2]) / len("".join(parts)) - 0.2) < 0.02
    packed = letters.with_name("packed.txt.gz")
    packed.write_bytes(gzip.compress(letters.read_bytes()))
    assert [text_of(each) for each in running.find(str(packed), HELD).values()] == parts


@pytest.mark.parametrize("text", ["word " * 300, "白日依山尽，黄河入海流。" * 90, "one line\n" + "x" * 3000])
def test_a_text_without_line_ends_is_cut_at_words_or_characters(tmp_path, text):
    path = tmp_path / "line.txt"
    path.write_text(text)
    found = running.find(str(path), HELD)
    parts = [text_of(found[split], most=100) for split in ("train", "valid", "test")]
    assert "".join(parts) == text
    assert [round(len(part) / len(text), 1) for part in parts] == [0.7, 0.1, 0.2]
    assert not parts[0].startswith("word") or all(part[0].isspace() for part in parts[1:])


def test_pieces_are_read_from_any_place_on(letters):
    corpus = running.find(f"{letters}+{letters}", HELD)["train"]
    pieces = list(corpus.pieces(most=100))
    assert len(pieces) > 20
    for number, (_, place) in enumerate(pieces):
        assert [text for text, _ in corpus.pieces(place, 100)] == [text for text, _ in pieces[number + 1 :]]


def test_articles_are_never_cut(tmp_path):
    path = tmp_path / "news.sgm"
    path.write_text("".join(ARTICLE.format(n=n) for n in range(30)), encoding="latin-1")
    found = {split: text_of(corpus, most=150).splitlines() for split, corpus in running.find(str(path), HELD).items()}
    every = [line for lines in found.values() for line in lines]
    assert len(set(every)) == len(every) >= 29 and set(every) <= {f"Number {n} rose <A> again." for n in range(30)}


def test_of_tab_separated_lines_the_first_column_counts_once(tmp_path):
    (tmp_path / "deu.txt").write_text("Hi.\tHallo!\nHi.\tGrüß Gott!\nRun!\tLauf!\n" * 4)
    (tmp_path / "_about.txt").write_text("not text to learn from")
    assert text_of(running.find(str(tmp_path), HELD)["train"]).startswith("Hi.\nRun!\nHi.\n")


@pytest.mark.parametrize("line", ["\tIt was a dark night.\n", "if x:\n\treturn y\n", "a line\nand\ttwo columns\n"])
def test_a_tab_does_not_make_columns(tmp_path, line):
    (tmp_path / "book.txt").write_text(line * 50)
    assert text_of(running.find(str(tmp_path), HELD)["train"]).startswith(line)


def test_files_named_after_splits_are_the_splits(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text(f"{split}\n")
    assert {split: text_of(each) for split, each in running.find(str(tmp_path), HELD).items()} == {
        "train": "train\n",
        "valid": "valid\n",
        "test": "test\n",
    }


def test_text_that_is_not_utf8_names_file_and_line(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"good\nbad \xff\n" + b"good\n" * 50)
    with pytest.raises(ValueError, match=r"bad\.txt.*not UTF-8"):
        text_of(running.find(str(path), HELD)["train"])


def test_a_stream_goes_on_after_any_batch(letters):
    config = RunningConfig(data=str(letters), level="char", length=16, batch=4, memory=1500)
    task = RunningText(config)
    loader = task.loader("train", seed=1)
    with pytest.raises(TypeError):
        len(loader)
    states, whole = [], []
    for batch in loader:
        whole.append(batch["target"].tolist())
        states.append(json.loads(json.dumps(loader.state_dict())))
    assert len({tuple(map(str, (s["chunk"], s["start"]))) for s in states}) > 1, "it should be read in several chunks"
    for done, state in enumerate(states, 1):
        other = task.loader("train", seed=1)
        other.load_state_dict(state)
        assert [batch["target"].tolist() for batch in other] == whole[done:]


def test_windows_cover_a_split_once(letters):
    task = RunningText(RunningConfig(data=str(letters), level="char", length=16, batch=4))
    ids = task._ids("test")
    seen = [
        row[1 : length + 1].tolist()
        for b in task.loader("test")
        for row, length in zip(b["target"], b["target_lengths"])
    ]
    assert [token for row in seen for token in row] == ids[1:].tolist()
    assert task.characters("test") == 1.0


def test_every_epoch_begins_elsewhere_and_has_as_many_batches(letters):
    task = RunningText(RunningConfig(data=str(letters), level="char", length=16, batch=4))
    loader = task.loader("train", seed=1)
    first, second = list(loader), list(loader)
    assert len(first) == len(second) == len(loader)
    assert first[0]["target"].tolist() != second[0]["target"].tolist()


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("", "the prompt is empty"),
        ("€", "'€' is not among the characters"),
        ("line " * 9, "45 tokens, and .* at most 16"),
    ],
)
def test_prompts_that_cannot_be_read(letters, prompt, message):
    task = RunningText(RunningConfig(data=str(letters), level="char", length=16))
    with pytest.raises(ValueError, match=message):
        task.read(SimpleNamespace(prompt=prompt, length=5))


@pytest.mark.parametrize("level", ["char", "word", "bpe"])
def test_a_prompt_of_several_lines_is_cut_as_the_text_was(tmp_path, level):
    lines = "king :\nhello there , my lord .\n\n  queen :\ngood day .\n"
    (tmp_path / "play.txt").write_text(lines * 30)
    task = RunningText(RunningConfig(data=str(tmp_path), level=level, vocab=300, length=64))
    begun = "king :\nhello there , my lord .\n\n  queen :"
    ids = task.encode(begun)
    assert ids == task._ids("train")[: len(ids)].tolist()
    assert UNKNOWN not in ids
    assert task.decode(ids) == begun
    (more,) = task.encode("\n")[-1:]
    assert task.write([more], task.read(SimpleNamespace(prompt=begun, length=1))).text.rstrip("\n ") == begun


def test_too_little_text_is_named(tmp_path):
    (tmp_path / "short.txt").write_text("a few words\n")
    task = RunningText(RunningConfig(data=str(tmp_path), level="char", length=64))
    with pytest.raises(ValueError, match=r"12 tokens for 'train', and at least 128"):
        task.loader("train")


def test_what_it_was_trained_on_is_one_s_own_text(letters):
    config = RunningConfig(level="char", length=16)
    assert RunningText(config, str(letters)).origin() == "letters.txt"
    assert RunningText(config, None).origin() == "made"


def test_the_share_of_unknown_tokens_is_told(tmp_path):
    (tmp_path / "long.txt").write_text("abcdefghij\n" * 60)
    task = RunningText(RunningConfig(data=str(tmp_path), level="char", vocab=9, length=8))
    assert "54.5 % of them unknown" in task.loader("train").report()


def masked(**options):
    return MaskedText(MaskedConfig(made_size=200, vocab=300, length=32, batch=8, **options))


def test_what_is_hidden_is_what_stood_there():
    task, hidden, kinds = masked(), 0, {"hole": 0, "same": 0, "other": 0}
    total = 0
    for batch in task.loader("train", seed=1):
        source, wanted = batch["source"], batch["wanted"]
        total += int((source > 2).sum())
        for token, right in zip(source[wanted > 0].tolist(), wanted[wanted > 0].tolist()):
            kinds["hole" if token == 3 else "same" if token == right else "other"] += 1
        hidden += int((wanted > 0).sum())
        assert (wanted[:, 0] == 0).all() and ((wanted > 0).sum(1) >= 1).all()
    assert abs(hidden / total - 0.15) < 0.02
    assert abs(kinds["hole"] / hidden - 0.8) < 0.05 and abs(kinds["same"] / hidden - 0.1) < 0.04


def test_half_of_the_second_parts_follow():
    task = masked(pairs=True)
    follows = np.concatenate([batch["follows"].numpy() for batch in task.loader("train", seed=1)])
    assert 0.35 < follows.mean() < 0.65
    batch = next(iter(task.loader("train", seed=1)))
    ends = [int((row == 2).nonzero()[0]) for row in batch["source"]]
    for row, end in zip(batch["segments"], ends):
        assert row[: end + 1].tolist() == [0] * (end + 1) and row[end + 1] == 1
    assert batch["source"].shape[1] <= task.sizes["longest"]


@pytest.mark.parametrize(
    ("text", "message"), [("no hole here", "nothing is hidden"), ("word " * 90 + "___", "the model reads at most 35")]
)
def test_holes_that_cannot_be_filled(text, message):
    with pytest.raises(ValueError, match=message):
        masked().read(SimpleNamespace(text=text))


def test_a_hole_is_one_token_between_words():
    task = masked()
    item = task.read(SimpleNamespace(text="the boys ___ here ."))
    assert len(item.places) == 1
    tokens = task.tokenizer
    right = [*tokens.encode("the boys"), 3, *tokens.encode("here .")]
    assert list(item.ids) == [1, *right, 2]


@pytest.mark.parametrize("level", ["char", "word", "bpe"])
def test_what_stands_right_behind_a_hole_is_cut_as_in_the_text(tmp_path, level):
    (tmp_path / "films.txt").write_text("I like cats. He likes dogs, too.\n" * 30)
    task = MaskedText(MaskedConfig(data=str(tmp_path), level=level, vocab=300, length=40))
    whole = task.tokenizer.encode("I like cats, too.")
    item = task.read(SimpleNamespace(text="I like ___,  too."))
    (hole,) = item.places
    behind = len(item.ids) - hole - 1
    assert list(item.ids[1:hole]) == whole[: hole - 1]
    assert list(item.ids[hole + 1 : -1]) == whole[len(whole) - behind + 1 :]


@pytest.mark.parametrize("level", ["char", "word"])
def test_an_unknown_word_is_no_hole(tmp_path, level):
    (tmp_path / "films.txt").write_text("I like cats. He likes dogs, too.\n" * 30)
    task = MaskedText(MaskedConfig(data=str(tmp_path), level=level, vocab=300, length=40))
    item = task.read(SimpleNamespace(text="I § ___ dogs"))
    assert item.ids.count(UNKNOWN) == 2 and len(item.places) == 1
    labels = list(task.axes(item)["words"].labels)
    assert labels.count("___") == 1 and labels[item.places[0]] == "___"
