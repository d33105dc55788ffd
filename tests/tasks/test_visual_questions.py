"""Visual questions: photographs with files, generated scenes, questions of one's own, and what is measured."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

import regard
from regard import registry
from regard.data import scenes
from regard.data.tokens import UNKNOWN
from regard.predictors.classifier import Chosen
from regard.tasks.visual_questions import Config, VisualQuestions


@pytest.fixture
def folder(tmp_path):
    """Thirty photographs with two questions each."""
    lines = []
    for number in range(30):
        pixels = np.random.default_rng(number).integers(0, 255, (40, 40, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png\tWhat is this, number {number}?\tchair")
        lines.append(f"{number}.png\tWhat colour is it?\t{('red', 'blue')[number % 2]}")
    (tmp_path / "questions.tsv").write_text("\n".join(lines))
    return tmp_path


def task(folder, **changes):
    settings = {"size": 32, "stage": 5, "store": str(folder / "store"), "batch": 4, "min_count": 3}
    return VisualQuestions(Config(data=str(folder), **{**settings, **changes}))


def generated(**changes):
    sizes = {"train_size": 40, "valid_size": 10, "test_size": 300}
    return VisualQuestions(Config(pixels=32, **{**sizes, **changes}))


def test_what_is_learned(folder):
    made = task(folder)
    assert made.classes[0] == "chair" and set(made.classes) == {"chair", "red", "blue"}
    assert made.words[4:] == ["colour", "is", "it", "number", "this", "what"]
    assert made.sizes == {"vocab": 10, "answers": 3, "features": 112}
    assert {split: made.count(split) for split in ("train", "valid", "test")} == {"train": 46, "valid": 4, "test": 10}
    assert task(folder, answers=2).classes == made.classes[:2]


def test_a_photograph_is_drawn_in_its_proportions(folder):
    for number in range(30):
        Image.new("RGB", (60, 20)).save(folder / f"{number}.png")
    question = SimpleNamespace(image=folder / "3.png", question="What is this?", example=0)
    for made in (task(folder), generated()):
        item = made.read(question)
        assert item.pixels.shape == (3, 32, 32), "the system sees a square"
        assert made.axes(item)["places"].image().shape == (3, 11, 32)
    made = task(folder)
    assert made.axes(made.item("test", 0))["places"].image().shape == (3, 11, 32)
    assert task(folder, fit="crop").axes(made.read(question))["places"].image().shape == (3, 32, 32)


def test_a_batch_has_the_photograph_of_its_question(folder):
    made = task(folder)
    photographs, features = made.photographs_of("train"), made.features("train")
    colours, seen = {}, 0
    for line in (folder / "questions.tsv").read_text().splitlines()[1::2]:
        name, _, answer = line.split("\t")
        row = next((n for n, each in enumerate(photographs) if each.file.name == name), None)
        colours[row] = answer
    for batch in made.loader("train", seed=1):
        for row, length in enumerate(batch["question_lengths"].tolist()):
            words = [made.words[number] for number in batch["question"][row, :length].tolist()]
            assert not batch["question"][row, length:].any()
            answer = made.classes[batch["answer"][row]]
            if words[1] == "colour":
                owner = next(n for n in range(len(features)) if torch.equal(batch["features"][row], features[[n]][0]))
                assert colours[owner] == answer
            else:
                assert answer == "chair" and batch["question"][row, 4] == UNKNOWN
            seen += 1
    assert seen == 46


def test_an_answer_that_training_does_not_know(folder):
    text = (folder / "questions.tsv").read_text()
    made = task(folder)
    held = {each.photograph.file.name for each in made._part("test")}
    lines = [line.replace("\tchair", "\tdragon") if line.split("\t")[0] in held else line for line in text.splitlines()]
    (folder / "questions.tsv").write_text("\n".join(lines))
    made = task(folder)
    answers = torch.cat([batch["answer"] for batch in made.loader("test")])
    assert (answers == -1).sum() == 5
    assert "50.0 % of the right ones unknown" in made.loader("test").report()


def test_the_parts_of_an_answer_that_is_a_list(folder):
    text = (folder / "questions.tsv").read_text()
    (folder / "questions.tsv").write_text(text.replace("\tchair", "\tchair, red, dragon", 3))
    made = task(folder)
    listed = made._numbers["chair, red, dragon"]
    seen = 0
    for batch in made.loader("train"):
        for answer, parts in zip(batch["answer"].tolist(), batch["parts"].tolist()):
            known = [made._numbers["chair"], made._numbers["red"]] if answer == listed else [-1, -1]
            assert parts == known
            seen += answer == listed
    assert seen


def test_measured_exactly_or_by_people(folder):
    made = task(folder)
    found = [Chosen(each.answers[0], torch.ones(3), {}) for each in made._part("test")]
    assert made.measure("test", found) == {"exact": 100.0, "frequent": 50.0}
    wrong = [Chosen("chair", torch.ones(3), {})] * 4
    assert made.measure("test", wrong)["exact"] == 50.0
    part = [each._replace(answers=[*each.answers, "sofa", "sofa"]) for each in made._part("test")]
    made._questions["test"] = part
    assert made.measure("test", found)["vqa"] == pytest.approx(100 / 3)


def test_without_the_data_it_can_be_asked(folder, tmp_path):
    made = task(folder)
    made.save(tmp_path / "task")
    (folder / "questions.tsv").unlink()
    other = VisualQuestions.load(tmp_path / "task")
    assert other.sizes == made.sizes and other.classes == made.classes
    item = other.read(SimpleNamespace(image=folder / "3.png", question="What is this?", example=0))
    ((_, batch),) = other.batches([item])
    assert batch["features"].shape == (1, 4, 112) and batch["question_lengths"].tolist() == [3]


def test_questions_of_ones_own(folder):
    made = task(folder)

    def read(**fields):
        return made.read(SimpleNamespace(**{"image": b"", "question": "", "example": 1, **fields}))

    own, test = read(question="is it?"), read()
    assert own.question == "is it?" and not own.answers
    assert test.question == made._part("test")[1].question
    assert made.remarks(test)[0].endswith(f"Right: {test.answers[0]}.") and "Right" not in made.remarks(own)[0]
    with pytest.raises(ValueError, match="needs a question"):
        read(image=folder / "3.png")
    with pytest.raises(ValueError, match="they are 0 to 9"):
        read(example=10)
    assert made.encode("?!") == [UNKNOWN]


def test_scenes_have_the_question_of_their_batch():
    made = generated(batch=7)
    rows = 0
    for batch in made.loader("test"):
        for picture, words, answer in zip(batch["image"], batch["question"], batch["answer"]):
            scene, asked = made.scene("test", rows), made.asked("test", rows)
            assert torch.equal((picture * 255).round().byte(), torch.from_numpy(scene.image))
            assert [made.words[n] for n in words.tolist() if n] == asked.text.rstrip("?").split()
            assert made.classes[answer] == asked.answer
            assert 3 <= len(scene.things) <= 6
            rows += 1
    assert rows == 300
    one, other = (next(iter(made.loader("train", seed=seed))) for seed in (0, 1))
    assert not torch.equal(one["image"], other["image"])


def test_every_kind_is_asked_as_often():
    made = generated()
    kinds = [made.asked("test", row).kind for row in range(300)]
    assert min(kinds.count(kind) for kind in ("exist", "colour", "shape", "relation")) > 40


def test_relational_questions_are_asked_more_often_in_training_alone():
    even, more, none = (generated(train_size=300, relational=share) for share in (None, 1.0, 0.0))
    assert [even.asked("test", row) for row in range(50)] == [more.asked("test", row) for row in range(50)]
    askable = [
        any(
            each.kind == "relation"
            for each in scenes.questions(more.scene("train", row).things, np.random.default_rng(0))
        )
        for row in range(300)
    ]
    assert 200 < sum(askable) < 300
    assert [more.asked("train", row).kind == "relation" for row in range(300)] == askable
    assert {none.asked("train", row).kind for row in range(300)} == {"exist", "colour", "shape"}
    with pytest.raises(ValueError, match="relational, a share"):
        generated(relational=1.5)


def test_pointing_of_the_first_and_the_last_hop():
    made = generated()
    found = []
    for row in range(300):
        asked, scene = made.asked("test", row), made.scene("test", row)
        maps = {}
        for hop, thing in ((0, asked.about[:1]), (1, asked.about[-1:])):
            weights = torch.zeros(1, 16)
            if thing:
                weights[0, 4 * scene.things[thing[0]].row + scene.things[thing[0]].column] = 1
            maps[f"looks.{hop}"] = weights
        found.append(Chosen(asked.answer, torch.ones(2), maps))
    values = made.measure("test", found)
    assert values["pointing"] == values["pointing_first"] == values["exact"] == values["relation"] == 100
    assert values["chance"] < 20
    swapped = [Chosen("no", one.probabilities, dict(reversed(list(one.weights.items())))) for one in found]
    values = made.measure("test", swapped)
    assert values["pointing"] < 90 and values["relation"] == 0 and 20 < values["exist"] < 80


def test_settings_are_checked():
    with pytest.raises(ValueError, match="a scene has"):
        Config(objects=4, least=5)
    with pytest.raises(ValueError, match="answers must be at least 2, not 1"):
        Config(answers=1)


def test_asked_at_the_command_line(tmp_path):
    from regard.commands import app

    regard.train(registry.recipe("vqa-scenes").tiny(), out=tmp_path / "run", console=Console(file=io.StringIO()))
    Image.fromarray(np.zeros((30, 40, 3), np.uint8)).save(tmp_path / "photo.png")
    photo, page = f"image={tmp_path / 'photo.png'}", tmp_path / "page.html"

    def run(command, *words):
        return CliRunner().invoke(app, [command, str(tmp_path / "run"), *words])

    told = json.loads(run("predict", photo, "question=what shape is red?", "--json").stdout)
    assert told["text"] in scenes.answers() and told["question"] == "what shape is red?"
    shown = run("show", photo, "question=what shape is red?", "--out", str(page)).stdout
    assert "what shape is red? " in page.read_text()
    assert "hop 1" in shown and "hop 2" in shown and page.stat().st_size > 1000
    assert "needs a question" in str(run("predict", photo).exception)
    assert "one of them" in str(run("predict", str(tmp_path / "photo.png"), photo, "question=what?").exception)
    assert "is there a red cross?" in run("show", "question=is there a red cross?").stdout
    assert run("predict", "example=2").stdout.strip() in scenes.answers()
