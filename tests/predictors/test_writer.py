"""The predictor of anything that writes: axes, several pictures, what the system finds out first, perplexities."""

from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from regard import registry, runs
from regard.axes import Steps, Words
from regard.layers.use import Use
from regard.predictors import _questions
from regard.predictors.writer import Writer
from regard.questions import Number, Text, form


class Two(torch.nn.Module):
    """Writes one word; looks along three axes, one of which no item has."""

    uses: ClassVar = {
        "here": Use("q", "k", "v", "dot", columns="hills"),
        "there": Use("q", "k", "v", "dot", columns="lakes"),
    }

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def start(self, batch):
        return {"seen": batch["seen"]}

    def step(self, token, state):
        wanted = torch.where(token == 1, 4, 2)  # a word, and the end
        return 9.0 * torch.nn.functional.one_hot(wanted, 5), state

    def alignment(self, state):
        return {"hills": state["seen"], "lakes": 1 - state["seen"], "moons": state["seen"]}

    def limit(self, batch):
        return torch.full((len(batch["seen"]),), 2)

    def forward(self, batch):
        return {"loss": self.weight.sum(), "nll": batch["seen"].mean(), "count": torch.tensor(len(batch["seen"]))}


class Task:
    """Items are numbers until the system has looked at them."""

    asks, title, verb, signatures = {}, "Two", "Ask", {}
    config = SimpleNamespace(batch=2)
    perplexities: ClassVar = {"perplexity": lambda batch: batch, "blind": lambda batch: {"seen": 0 * batch["seen"]}}

    def completed(self, items, model):
        assert isinstance(model, Two)
        return [f"item {item}" for item in items]

    def batches(self, items):
        yield range(len(items)), {"seen": torch.tensor([[0.25, 0.75]] * len(items))}

    def looked(self, written):
        return written

    def axes(self, item):
        assert item.startswith("item")
        return {"lakes": Steps.numbered(2, "lake"), "hills": Steps.numbered(2, "hill")}

    def write(self, tokens, item):
        return Words(["word"] * len(tokens))

    def remarks(self, item):
        return [f"It was {item}."]

    def fields(self, item, words):
        return {"item": item, "length": len(words)}

    def read(self, question):
        return 7

    def follow(self, question, answer):
        return {}

    def count(self, split):
        return 4

    def item(self, split, number):
        return number

    def measure(self, split, found):
        return {"items": float(sum(int(each.item.split()[1]) for each in found))}

    def loader(self, split):
        return [{"seen": torch.ones(2, 2)}, {"seen": 3 * torch.ones(2, 2)}]


@pytest.fixture
def model():
    recipe = registry.recipe("caption-scenes").tiny()
    return Writer(Two(), Task(), recipe, "a test")


def test_a_picture_for_each_axis_that_the_item_has(model):
    (answer,) = model.ask([model.Question()])
    views = [picture.view() for picture in answer.pictures]
    assert [view.data["columns"] for view in views] == [["hill 1", "hill 2"], ["lake 1", "lake 2"]]
    assert [view.title for view in views] == ["word (hills)", "word (lakes)"]
    assert [view.data["readings"][0]["weights"].values.tolist() for view in views] == [[[0.25, 0.75]], [[0.75, 0.25]]]


def test_what_the_system_found_out_is_told(model):
    (answer,) = model.ask([model.Question()])
    assert answer.notes == ["It was item 7."]
    assert answer.fields["answers"][0]["item"] == "item 7" and answer.fields["answers"][0]["length"] == 1
    ((written, *_),) = model.write([3])
    assert written.item == "item 3" and list(written.looks) == ["hills", "lakes"]
    assert torch.equal(written.weights, written.looks["hills"])


def test_perplexities_of_changed_batches(model):
    values = model.evaluate("test")
    assert values == {"items": 6.0, "perplexity": pytest.approx(torch.tensor(2.0).exp()), "blind": 1.0}
    assert model.evaluate("test", limit=2)["perplexity"] == pytest.approx(torch.tensor(1.0).exp())


def test_captioners_vote_and_point():
    made = [runs.assemble(registry.recipe("caption-scenes").tiny(), seed=seed) for seed in (0, 1)]
    one, other = (Writer(each.model, each.task, each.recipe, "a test") for each in made)
    ((written, *_),) = one.join([other]).write([one.task.item("test", 0)])
    assert written.weights.shape == (len(written.words), 16)


def test_a_field_that_does_not_fit_is_named_with_its_place_if_there_is_one():
    Question = form("Ask", line=Text(9, 1), number=Number(0, 5, default=0))
    with pytest.raises(ValueError, match=r"^number is a whole number from 0 to 5, not 7$"):
        next(_questions.of_word(Question, "", {"number": 7}))
    with pytest.raises(ValueError, match=r"^here: number is a whole number from 0 to 5, not 7$"):
        next(_questions.of_word(Question, "here", {"number": 7}))


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path):
    (tmp_path / "asked.txt").write_bytes("\ufeffone\ntwo\ufeff\n".encode())
    assert list(_questions.lines(tmp_path / "asked.txt", "")) == ["one", "two\ufeff"]
