"""Summaries: formats with file and line of what is wrong, temporary ids, what is measured."""

import gzip
import json
import zipfile

import numpy as np
import pytest
import torch

from regard.axes import Words
from regard.data import made_reports, summaries
from regard.decode.written import Written
from regard.metrics import keyphrases
from regard.tasks.summaries import Config, Summaries, tokens

REUTERS = """<REUTERS TOPICS="YES" LEWISSPLIT="{split}" NEWID="1">
<TEXT><TITLE>{title}</TITLE><BODY>{body}
 Reuter
&#3;</BODY></TEXT>
</REUTERS>
"""


def written(text, copied=None):
    labels = text.split()
    looks = {} if copied is None else {"copied": torch.tensor(copied)}
    return Written(Words(labels), None, 0.0, 0.0, looks)


def lines(path, count=30):
    rows = (f"the mill in Town{n} was sold . more follows .\tmill in Town{n} sold\n" for n in range(count))
    path.write_text("".join(rows))
    return path


class TestReports:
    def test_names_of_testing_are_never_seen_in_training(self):
        random = np.random.default_rng(0)
        split = [[made_reports.report(random, train) for _ in range(300)] for train in (True, False)]
        names = [{word for report in many for word in report.text.split() if word[0].isupper()} for many in split]
        assert len(names[0]) > 300 and not names[0] & names[1]

    def test_every_name_of_a_headline_stands_in_its_report(self):
        random = np.random.default_rng(1)
        for _ in range(200):
            report = made_reports.report(random, False)
            capitals = [word for word in report.headline.split() if word[0].isupper()]
            assert capitals and set(capitals) <= set(report.text.split())


class TestFormats:
    def test_json_lines(self, tmp_path):
        whole = {"source": ["One first.", "Two."], "target": ["a", "b"], "title": 3}
        rows = [whole, {"source": "A. B.", "target": "c"}]
        for split in ("train", "dev", "test"):
            with gzip.open(tmp_path / f"{split}.jsonl.gz", "wt") as file:
                file.write("\n".join(map(json.dumps, rows)))
        found = summaries.read(tmp_path)
        assert found["valid"] == [
            summaries.Pair("One first. Two.", ("a", "b"), "One first."),
            summaries.Pair("A. B.", ("c",), "A."),
        ]

    @pytest.mark.parametrize("name", ["a.jsonl", "a.json", "array.json", "headed.tsv", "bare.tsv"])
    def test_the_same_pairs_in_any_format(self, tmp_path, name):
        rows = [{"source": f"Text {n}.", "target": "t"} for n in range(20)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        if name == "array.json":
            text = json.dumps(rows, indent=1)
        elif name.endswith(".tsv"):
            text = "".join(f"{row['source']}\t{row['target']}\n" for row in rows)
            text = f"Source\tTarget\n{text}" if name == "headed.tsv" else text
        (tmp_path / name).write_text(text)
        found = summaries.read(tmp_path / name)
        every = [pair for split in found.values() for pair in split]
        assert len(every) == 20 and {pair.targets for pair in every} == {("t",)}

    def test_conversations(self, tmp_path):
        history = ["Frank Zappa", "Disbandment", "one", "two", "three", "four", "five"]
        entry = {"History": history, "Question": "When did they?", "Rewrite": "When did Zappa?"}
        path = tmp_path / "dev.json"
        path.write_text(json.dumps([entry] * 20))
        first = summaries.read(path)["train"][0]
        assert first.source == "When did they? | Frank Zappa | Disbandment | two | three | four | five"
        assert first.targets == ("When did Zappa?",) and first.lead == "When did they?"

    def test_a_conversation_is_in_one_split_alone(self, tmp_path):
        entries = [
            {"History": [f"Person {number}", "Life", *["said"] * 2 * turn], "Question": f"q{turn}", "Rewrite": "r"}
            for number in range(23)
            for turn in range(7)
        ]
        (tmp_path / "dev.json").write_text(json.dumps(entries))
        found = summaries.read(tmp_path)
        people = {split: {pair.source.split(" | ")[1] for pair in pairs} for split, pairs in found.items()}
        assert sum(map(len, found.values())) == 23 * 7 and sum(map(len, people.values())) == 23
        assert all(len(pairs) % 7 == 0 for pairs in found.values())

    def test_news(self, tmp_path):
        kept = [("TRAIN", "MILL SOLD &lt;X>", "The mill was sold by the U.S. Army. More.")] * 20
        left = [("TRAIN", "ACME QTR", "Shr 3 cts vs 4"), ("TRAIN", "OTHER", "Nothing."), ("NOT-USED", "MILL", "mill")]
        every = [*kept, *left, ("TEST", "MILL OPEN", "The mill is open.")]
        articles = (REUTERS.format(split=split, title=title, body=body) for split, title, body in every)
        (tmp_path / "reut2-000.sgm").write_text("".join(articles))
        found = summaries.read(tmp_path)
        assert {split: len(pairs) for split, pairs in found.items()} == {"train": 19, "valid": 1, "test": 1}
        pair = found["train"][0]
        assert pair.targets == ("mill sold <x>",) and pair.lead == "The mill was sold by the U.S. Army."
        assert pair.source.endswith("More.")
        assert summaries.lead("北京开桥。市长来了。") == "北京开桥。"

    def test_keyphrases(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "Set.zip", "w") as archive:
            for number in range(20):
                archive.writestr(f"Set/docsutf8/{number}.txt", "Good filters\n\tfor sound\nWe build a filter bank.")
                archive.writestr(f"Set/keys/{number}.key", "filter bank\n\tsound\n\nhearing\nsound\n")
        found = summaries.read(tmp_path, "Set")["train"][0]
        assert found.source == "Good filters for sound . We build a filter bank."
        assert found.targets == ("filter bank", "sound", "hearing") and found.lead == "Good filters for sound"
        task = Summaries(Config(data=str(tmp_path), files="Set", phrases=True, min_count=1))
        assert task._targets(found) == ("sound ; filter bank ; hearing",)
        own = summaries.Pair(found.source, ("filter bank; hearing", "sound"), "")  # as in a line of one's own
        assert task._targets(own) == task._targets(found)
        (tmp_path / "own.tsv").write_text("We build filter banks .\tfilter bank; hearing\n" * 20)
        task = Summaries(Config(data=str(tmp_path / "own.tsv"), phrases=True, min_count=1))
        assert task.measure("test", [written("filter bank ; hearing")]) == {"f1_5": 100, "runs_f1_5": 0, "absent": 100}

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("a.tsv", "x\ty\nx\n", r"a\.tsv:2: .* here: 1 column"),
            ("a.tsv", "x\ty\n\nx\t \n", r"a\.tsv:3: the target is empty"),
            ("a.jsonl", '{"source": "x", "target": "y"}\n{"source": "x}\n', r"a\.jsonl:2: not JSON"),
            ("a.jsonl", '{"source": "x"}\n', r'a\.jsonl:1: a line is \{"source": …, "target": …\}'),
            ("a.jsonl", '{"source": 3, "target": "y"}\n', r"a\.jsonl:1: source is a text or a list of texts, not 3"),
            ("a.jsonl", '{"source": "x", "target": []}\n', r"a\.jsonl:1: target is empty"),
            ("a.json", "{}", r"a\.json: an array of questions"),
            ("a.json", "[3]", r"a\.json: entry 1: an object"),
            ("a.json", '[{"History": [], "Question": "q"}]', r"a\.json: entry 1: Rewrite is None, not a str"),
            ("a.json", '[\n{"History": [}]', r"a\.json: not JSON: .*line 2"),
            ("a.sgm", "<REUTERS>", "no articles with a title"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path, name, text, message):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=message):
            summaries.read(tmp_path)

    def test_bytes_that_are_no_text(self, tmp_path):
        (tmp_path / "a.tsv").write_bytes(b"x\ty\n\xff\ty\n")
        with pytest.raises(ValueError, match=r"a\.tsv:2: not UTF-8"):
            summaries.read(tmp_path)

    def test_a_key_without_a_document(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "Set.zip", "w") as archive:
            archive.writestr("Set/keys/1.key", "a")
        with pytest.raises(ValueError, match=r"Set\.zip: Set/keys/1\.key has no document"):
            summaries.read(tmp_path / "Set.zip")


class TestTemporaryIds:
    def test_an_unknown_word_has_one_for_all_its_places(self, tmp_path):
        task = Summaries(Config(data=str(lines(tmp_path / "a.tsv")), min_count=2))
        known = len(task.words)
        item = task._item("Zork sold the mill to Blip , said Zork")
        assert item.unknown == ("zork", "to", "blip", ",", "said")
        assert [id for id in item.extended if id >= known] == [known, *range(known + 1, known + 5), known]
        assert [id == 3 for id in item.ids] == [id >= known for id in item.extended]
        target = task._framed("blip sold mill quux", item)
        assert target[0] == 1 and target[-2:] == [3, 2] and target[1] == known + 2
        assert task.write(target[1:-2], item).labels == ["blip", "sold", "mill"]
        assert task.fields(item, task.write(target[1:-2], item)) == {"copied": ["blip"]}

    def test_batches_agree_with_the_texts(self, tmp_path):
        task = Summaries(Config(data=str(lines(tmp_path / "a.tsv")), min_count=3, batch=4))
        batch = next(iter(task.loader("train")))
        assert (batch["extended"] >= len(task.words)).sum() == 4  # Town…
        assert (batch["target"] >= len(task.words)).sum() == 4
        assert torch.equal(batch["source"] == 3, batch["extended"] >= len(task.words))

    def test_another_reference_in_another_epoch(self, tmp_path):
        rows = [{"source": "a b", "target": ["a", "b"]}] * 20
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
        task = Summaries(Config(data=str(tmp_path), min_count=1))
        loader = task.loader("train")
        first, second = next(iter(list(loader))), next(iter(list(loader)))
        assert not torch.equal(first["target"], second["target"])
        loader = task.loader("train", shuffle=False)
        assert torch.equal(next(iter(list(loader)))["target"], next(iter(list(loader)))["target"])

    def test_a_text_too_long_or_empty(self, tmp_path):
        task = Summaries(Config(data=str(lines(tmp_path / "a.tsv")), max_source=5))

        class Question:
            text, example = "a b c d e f", None

        with pytest.raises(ValueError, match="has 6 words, and at most 5 are read"):
            task.read(Question)
        Question.text = "  "
        with pytest.raises(ValueError, match="the text is empty"):
            task.read(Question)


class TestMeasures:
    def test_texts_beside_simple_ways(self, tmp_path):
        task = Summaries(Config(data=str(lines(tmp_path / "a.tsv", 40)), min_count=5))
        pairs = task._read["test"]
        right = [written(pair.targets[0].lower(), [[0.25, 0.5]] * 4) for pair in pairs]
        values = task.measure("test", right)
        assert values["rouge_l"] == pytest.approx(100) and values["unseen"] == 100
        assert values["copying"] == pytest.approx(75)
        # "the mill in town9 was sold" has 4 words of 4 in order, of 6.
        precision, recall = 4 / 6, 1
        expected = 100 * (1 + 1.44) * precision * recall / (recall + 1.44 * precision)
        assert values["lead_rouge_l"] == pytest.approx(expected)
        assert values["whole_rouge_l"] < values["lead_rouge_l"]
        # "the mill in town9", as many words as targets have.
        assert values["first_rouge_l"] == pytest.approx(75)
        assert task.measure("test", [written("mill in town sold") for _ in pairs])["unseen"] == 0

    def test_keyphrases(self):
        assert keyphrases.stems("Filter-Banks, queries and buses") == ("filter", "bank", "query", "and", "buse")
        assert keyphrases.present(["filter banks", "Filter bank", "bank filter", ""], "a filter bank.") == [
            ("filter", "bank")
        ]
        a, b, c = ("a",), ("b",), ("c",)
        # 1 of 2 given and 1 of 3 right: F1 = 2/5; the text without a right one does not count.
        assert keyphrases.f1_at([[a, ("x",)], [a]], [[a, b, c], []]) == pytest.approx(40)
        assert keyphrases.f1_at([[("x",), a]], [[a]], 1) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Zappa's 3.5 u.s. banks, don't", ["zappa", "'s", "3.5", "u.s", ".", "banks", ",", "don", "'t"]),
        ("state-of-the-art (1,750)", ["state-of-the-art", "(", "1,750", ")"]),
    ],
)
def test_tokens(text, expected):
    assert tokens(text) == expected
    assert tokens(text, 2) == expected[:2]


def test_marks_are_written_without_blanks_before_them(tmp_path):
    task = Summaries(Config(data=str(lines(tmp_path / "a.tsv")), min_count=1))
    item = task._item("Zappa's band ( old ) sold , they")
    assert task.write(item.extended, item).text == "zappa's band (old) sold, they"


def test_bad_settings():
    with pytest.raises(ValueError, match="max_length must be at least 2, not 1"):
        Config(max_length=1)
