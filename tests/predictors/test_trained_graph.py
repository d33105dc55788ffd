"""A trained system on graphs: its metrics, its answers and its pictures."""

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.predictors.graph import Graph
from regard.predictors.predictor import Predictor


def trained(folder: Path, name: str, *changes: str, data=None):
    return regard.load(regard.train(name, "train.tensorboard=false", *changes, out=folder, data=data))


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "sbm", "gat-sbm", "epochs=40")


@pytest.fixture(scope="module")
def communities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "communities"
    return trained(folder, "gat-inductive", "epochs=2", "task.nodes=60", "task.graphs=4", "layers=2")


def test_a_run_knows_its_kind_and_metrics(blocks, communities):
    assert isinstance(blocks, Graph) and isinstance(communities, Graph)
    assert 85 < blocks.evaluate()["accuracy"] <= 100
    assert set(communities.evaluate("valid", limit=2)) == {"f1"}


def test_answers_for_some_nodes(blocks):
    graph = blocks.task.graphs[0]
    found = blocks.predict([3, "17"])
    assert [answer.node for answer in found] == [3, 17]
    assert all(answer.probability == pytest.approx(float(answer.probabilities.max())) for answer in found)
    whole = blocks.predict()
    assert len(whole) == len(graph)
    assert torch.equal(whole[17].probabilities, found[1].probabilities)
    test = graph.of_split("test")
    right = [whole[node].labels == [str(int(graph.labels[node]))] for node in test.tolist()]
    assert 100 * sum(right) / len(right) == pytest.approx(blocks.evaluate()["accuracy"])


def test_lines_for_the_command_line(blocks, communities, tmp_path):
    lines = list(blocks.answer(None, nodes="3, 17"))
    assert [line.split("\t")[0] for line in lines] == ["3", "17"] and all(len(line.split("\t")) == 3 for line in lines)
    (tmp_path / "nodes.txt").write_text("3\n17\n")
    assert list(blocks.answer(tmp_path / "nodes.txt")) == lines
    assert len(list(blocks.answer(None))) == 600
    found = json.loads(next(blocks.answer(None, nodes="3", as_json=True)))
    assert found["node"] == "3" and sum(found["probabilities"].values()) == pytest.approx(1, abs=1e-3)
    assert len(list(communities.answer(None, nodes="0,1", graph=2))) == 2
    with pytest.raises(ValueError, match="there is no node '700'"):
        list(blocks.answer(None, nodes="700"))
    with pytest.raises(ValueError, match="there is no graph 99"):
        list(communities.answer(None, nodes="0", graph=99))
    with pytest.raises(ValueError, match="not both"):
        list(blocks.answer(tmp_path / "nodes.txt", nodes="3"))


def test_pictures_for_the_command_line(blocks, communities, tmp_path):
    text = list(blocks.show(["3", "17"], tmp_path / "ego.png"))
    assert (tmp_path / "ego-1.png").stat().st_size > 5000 and (tmp_path / "ego-2.png").exists()
    assert "node 3 (" in text[0] and "itself" in text[1]
    text = list(blocks.show([], tmp_path / "all.svg"))
    assert len(text) == 2 and "% of that of equal weights" in text[0] and (tmp_path / "all.svg").exists()
    assert any("layer 2" in line for line in communities.show(["5"], tmp_path / "one.png", layer=2, head=1, graph=1))
    with pytest.raises(ValueError, match="there is no layer 3"):
        list(blocks.show(["3"], None, layer=3))
    with pytest.raises(ValueError, match="there is no head 9"):
        list(blocks.show(["3"], tmp_path / "x.png", head=9))


def test_what_does_not_look_says_so(tmp_path):
    model = trained(tmp_path / "mlp", "gat-sbm", "epochs=1", "attention=none")
    assert list(model.show([], None)) == ["this system does not look at neighbours"]


def test_from_ones_own_files_to_answers(tmp_path):
    data = tmp_path / "mine"
    data.mkdir()
    people = [f"p{number}" for number in range(40)]
    edges = [
        f"{a},{b}" for place, a in enumerate(people) for b in people[place + 1 :] if (place % 2) == (int(b[1:]) % 2)
    ]
    (data / "edges.csv").write_text("source,target\n" + "\n".join(edges))
    (data / "features.csv").write_text("node,a,b\n" + "\n".join(f"{p},{n % 2},{n}" for n, p in enumerate(people)))
    labels = "\n".join(f"{p},{'even' if n % 2 == 0 else 'odd'}" for n, p in enumerate(people))
    (data / "labels.csv").write_text("node,label\n" + labels)
    model = trained(tmp_path / "run", "graph", "epochs=30", "patience=0", "normalize=columns", data=str(data))
    assert model.evaluate()["accuracy"] == 100
    assert next(model.answer(None, nodes="p3")).startswith("p3\todd\t")


def test_training_goes_on_after_a_pause_as_if_there_had_been_none(tmp_path):
    changes = ("task.nodes=60", "neighbours=3", "batch_nodes=8", "patience=0", "threads=1")
    straight = trained(tmp_path / "straight", "gat-sbm", *changes, "epochs=4")
    trained(tmp_path / "paused", "gat-sbm", *changes, "epochs=2")
    run = regard.train("gat-sbm", "epochs=4", out=tmp_path / "paused", resume=True)
    last = Predictor.open(tmp_path / "straight", which="last").model.state_dict()
    for name, tensor in Predictor.open(run, which="last").model.state_dict().items():
        assert torch.equal(tensor, last[name]), name
    assert straight.evaluate().keys() == {"accuracy"}
