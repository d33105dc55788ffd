"""What our own systems can be asked to explain, and `regard explain`."""

from __future__ import annotations

import importlib
import json

import pytest
import torch

import regard
from contracts.cases import all_cases
from regard import decode, explain, registry
from regard.commands._app import app
from regard.explain import cases


def build(name, **options):
    torch.manual_seed(0)
    cls = registry.system(name)
    case = next(case for case in all_cases()[name] if case.looks)
    return cls(importlib.import_module(cls.__module__).Config(**{**case.options, **options})).eval(), case.batch()


@pytest.mark.parametrize("name", ["rnnsearch", "transformer", "luong"])
def test_text(name):
    model, batch = build(name)
    with torch.no_grad():
        made = list(cases.cases("text", model, [batch], 3))
        assert len(made) == 3
        for case in made:
            answers, items = case.weights.shape
            sentence = case.score.args[1]
            assert len(sentence) == items + 1
            one = {"source": sentence[None], "source_lengths": torch.tensor([len(sentence)])}
            ((found,),) = decode.greedy(model, one, max_length=model.limit(one))
            assert len(found.tokens) == answers and torch.equal(found.alignment[:, :-1], case.weights)
            whole = case.score(torch.ones(1, items, dtype=torch.bool))
            if not found.finished:
                assert float(whole.log().sum()) == pytest.approx(found.log_prob, rel=1e-4)
            # What is left out is not there, whatever is beside it in the batch.
            keep = torch.ones(2, items, dtype=torch.bool)
            keep[0, 0] = keep[1, 1:] = False
            short = {"source": sentence[1:][None], "source_lengths": torch.tensor([items])}
            state, token, expected = model.start(short), torch.tensor([1]), []
            for word in found.tokens:
                logits, state = model.step(token, state)
                token = torch.tensor([word])
                expected.append(logits.softmax(-1)[0, word])
            assert torch.allclose(case.score(keep)[0], torch.stack(expected), atol=1e-5)


def test_stories():
    model, batch = build("memn2n")
    for group in model._groups():
        group.linear.fill_(False)
    with torch.no_grad():
        found = model.log_probs(batch)
        made = list(cases.cases("stories", model, [batch], 4))
        answers = model.predict(batch)
    assert torch.equal(found[..., 1:].argmax(-1) + 1, answers["answer"])
    assert torch.allclose(found[..., 1:].amax(-1).exp(), answers["probability"], atol=1e-6)
    assert made
    for case in made:
        items = case.weights.shape[1]
        small, one, answer = case.score.args
        story = one["story"].clone()
        story[:, :, 0] = 0
        expected = small.log_probs({**one, "story": story})[0, 0, answer].exp()
        keep = torch.ones(1, items, dtype=torch.bool)
        keep[0, 0] = False
        assert torch.allclose(case.score(keep)[0, 0], expected, atol=1e-6)


def test_graph():
    model, batch = build("gat")
    with torch.no_grad():
        made = list(cases.cases("graph", model, [batch], 3))
        for case in made:
            _, whole, edges, node, incoming, label = case.score.args
            part = {**whole, "nodes": torch.tensor([node])}
            everything = torch.ones(1, len(incoming), dtype=torch.bool)
            assert torch.allclose(case.score(everything)[0, 0], model.predict(part)[0, label])
            kept = torch.arange(len(edges)) != incoming[0]
            part["edges"] = regard.Edges(edges.index[:, kept], edges.nodes)
            everything[0, 0] = False
            assert torch.allclose(case.score(everything)[0, 0], model.predict(part)[0, label])
            assert (edges.index[1, incoming] == node).all() and (edges.index[0, incoming] != node).all()
    assert made


@pytest.mark.parametrize("name", ["translate-toy", "memn2n-babi", "gat-cora"])
def test_the_command(name, tmp_path, capsys):
    from rich.console import Console

    recipe = registry.recipe(name).tiny()
    regard.train(recipe, out=tmp_path / "run", console=Console(quiet=True))
    capsys.readouterr()
    app(["explain", str(tmp_path / "run"), "--limit", "3"], standalone_mode=False)
    table = capsys.readouterr().out.splitlines()
    assert "answers" in table[0]
    assert [line.split()[0] for line in table[3:6]] == ["attention", "random", "leave-one-out"]
    assert all(len(line.split()) == 5 for line in table[3:6])
    app(["explain", str(tmp_path / "run"), "--limit", "3", "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert told["counted"]["cases"] <= 3
    assert told["leave-one-out"]["kendall"] in (pytest.approx(1.0), None)  # none if nothing matters to it


def test_what_cannot_be_explained(tmp_path):
    from rich.console import Console

    regard.train(registry.recipe("memnn-babi").tiny(), out=tmp_path / "run", console=Console(quiet=True))
    with pytest.raises(ValueError, match="MemNN does not say how probable its answers are"):
        app(["explain", str(tmp_path / "run")], standalone_mode=False)
    with pytest.raises(ValueError, match="'games' cannot be explained; those that can: graph, stories, text"):
        list(cases.cases("games", torch.nn.Identity(), [], 1))
    with pytest.raises(ValueError, match="--limit is at least 1"):
        app(["explain", str(tmp_path / "run"), "--limit", "0"], standalone_mode=False)


def test_the_shipped_model_of_stories():
    """Weights of a trained model rank sentences better than chance."""
    opened = regard.runs.open_run("memn2n-babi")
    story = ["Mary moved to the bathroom.", "John went to the hallway.", "Sandra went to the garden."]
    from regard.data.stories import Question

    question = Question(story, "Where is John?", "hallway", [], ["line"] * 4)
    (batch,) = opened.task.batches([question], opened.task.home("1"))
    small = opened.model.pick([opened.task.home("1")]).eval()
    (case,) = cases.cases("stories", small, [batch], 1)
    loss = explain.importance(case.score, 3)
    assert int(loss.argmax()) == int(case.weights.argmax()) == 1
