"""Graphs from files, objects and generators; batches of them, whole and drawn."""

import hashlib
import json
import os
import pickle
import sys
import types
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.graph_batches import Sampler, _choose
from regard.data.graphs import Graph
from regard.tasks.graphs import Adapted, Config, Graphs, metrics

# ---------------------------------------------------------------------------------------------------------------------
# Planetoid


def write_planetoid(folder: Path, monkeypatch, name="tiny", gap=True, **instead):
    """Nine nodes: 2 train, then the rest of allx, then test nodes out of order, one of which (7) was left out."""
    module = types.ModuleType("scipy.sparse.csr")
    module.csr_matrix = type("csr_matrix", (), {"__module__": "scipy.sparse.csr"})

    def sparse(rows):
        dense = np.array(rows, dtype=np.float32)
        made = module.csr_matrix()
        where = [np.flatnonzero(row) for row in dense]
        made.__dict__ = {
            "data": dense[dense != 0],
            "indices": np.concatenate(where).astype(np.int32),
            "indptr": np.cumsum([0, *map(len, where)]).astype(np.int32),
            "_shape": dense.shape,
        }
        return made

    seen = np.random.default_rng(0).integers(0, 2, size=(9, 4)).astype(np.float32)
    seen[:, 0] = 1
    classes = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
    hot = np.eye(3)[classes]
    test = [8, 6] if gap else [8, 6, 7]
    parts = {
        "y": hot[:2],
        "allx": sparse(seen[:6]),
        "ally": hot[:6],
        "tx": sparse(seen[test]),
        "ty": hot[test],
        "graph": defaultdict(list, {0: [1, 1, 0], 1: [0], 2: [5], 8: [6, 3], 6: [8]}),
        **instead,
    }
    with monkeypatch.context() as patch:
        for parent in ("scipy", "scipy.sparse"):
            patch.setitem(sys.modules, parent, types.ModuleType(parent))
        patch.setitem(sys.modules, "scipy.sparse.csr", module)
        for part, value in parts.items():
            (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (folder / f"ind.{name}.test.index").write_text("".join(f"{node}\n" for node in test))
    return seen, classes


@pytest.mark.parametrize("gap", [True, False])
def test_planetoid_files(tmp_path, monkeypatch, gap):
    seen, classes = write_planetoid(tmp_path, monkeypatch, gap=gap)
    (graph,) = Graphs(Config(data=str(tmp_path))).graphs
    if gap:  # as in Citeseer: a test node of which nothing is known
        seen[7], classes[7] = 0, -1
    assert torch.equal(graph.features.to_dense(), torch.from_numpy(seen))
    assert graph.labels.tolist() == classes.tolist()
    assert graph.split.tolist() == [0, 0, 1, 1, 1, 1, 2, -1 if gap else 2, 2]
    pairs = {tuple(pair) for pair in graph.index.T.tolist()}
    assert pairs == {(0, 1), (1, 0), (2, 5), (5, 2), (8, 6), (6, 8), (8, 3), (3, 8)}
    assert graph.index.shape == (2, 8)  # none twice


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("part", ["graph", "allx", "ally", "y"])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path, monkeypatch, part):
    mark = tmp_path / "mark"
    write_planetoid(tmp_path, monkeypatch, **{part: [Evil(mark)]})
    with pytest.raises(ValueError, match=rf"ind\.tiny\.{part}: the pickle asks for (posix|nt)\.system and was refused"):
        Graphs(Config(data=str(tmp_path)))
    assert not mark.exists()


@pytest.mark.parametrize(
    "stream",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\ngetattr\n.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cscipy.sparse.csr\n__builtins__\n.",
        pickle.dumps(np.array([Evil("/nowhere")], dtype=object), protocol=2),
    ],
)
def test_nothing_else_can_be_named_in_a_pickle(tmp_path, monkeypatch, stream):
    write_planetoid(tmp_path, monkeypatch)
    (tmp_path / "ind.tiny.graph").write_bytes(stream)
    with pytest.raises(ValueError, match="was refused"):
        Graphs(Config(data=str(tmp_path)))


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("graph", {0: [99]}, r"graph: an edge joins 0 and 99, but nodes are 0 to 8"),
        ("graph", [1, 2], "expected a dict"),
        ("ally", np.eye(3), "ally: 3 rows of labels for 6 rows of features"),
        ("allx", np.eye(3), "expected a CSR matrix"),
        ("y", "text", "expected an array"),
    ],
)
def test_planetoid_parts_must_fit(tmp_path, monkeypatch, part, value, message):
    write_planetoid(tmp_path, monkeypatch, **{part: value})
    with pytest.raises(ValueError, match=message):
        Graphs(Config(data=str(tmp_path)))


def test_damaged_planetoid_files_are_named(tmp_path, monkeypatch):
    write_planetoid(tmp_path, monkeypatch)
    whole = (tmp_path / "ind.tiny.tx").read_bytes()
    (tmp_path / "ind.tiny.tx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"ind\.tiny\.tx: not a planetoid file, or damaged|ind\.tiny\.tx: pickle"):
        Graphs(Config(data=str(tmp_path)))
    (tmp_path / "ind.tiny.tx").unlink()
    with pytest.raises(ValueError, match=r"ind\.tiny\.tx is missing"):
        Graphs(Config(data=str(tmp_path)))
    write_planetoid(tmp_path, monkeypatch)
    (tmp_path / "ind.tiny.test.index").write_text("8\nsix\n")
    with pytest.raises(ValueError, match=r"test\.index, line 2: expected the number of a node, not 'six'"):
        Graphs(Config(data=str(tmp_path)))


def test_several_sets_in_one_folder(tmp_path, monkeypatch):
    write_planetoid(tmp_path, monkeypatch, "one")
    write_planetoid(tmp_path, monkeypatch, "two")
    with pytest.raises(ValueError, match="holds one, two: say which"):
        Graphs(Config(data=str(tmp_path)))
    with pytest.raises(ValueError, match="did you mean 'two'"):
        Graphs(Config(data=str(tmp_path), subset="twoo"))
    assert len(Graphs(Config(data=str(tmp_path), subset="two")).graphs[0]) == 9


def test_real_cora():
    folder = Path(os.environ.get("REGARD_DATA", "")) / "planetoid"
    if not (folder / "ind.cora.graph").exists():
        pytest.skip("the real Cora is not on this machine; $REGARD_DATA/planetoid has no ind.cora.*")
    task = Graphs(Config(data=str(folder), subset="cora", normalize="rows"))
    (graph,) = task.graphs
    assert (len(graph), graph.index.shape[1], task.sizes["features"], task.sizes["classes"]) == (2708, 10556, 1433, 7)
    assert [int((graph.split == number).sum()) for number in range(3)] == [140, 500, 1000]
    assert torch.bincount(graph.labels).tolist() == [351, 217, 418, 818, 426, 298, 180]
    assert graph.features.layout == torch.sparse_csr
    assert torch.allclose(graph.features.to_dense().sum(1), torch.ones(2708))
    assert task.classes[3] == "neural networks"
    (graph,) = Graphs(Config(data=str(folder), subset="cora")).graphs
    crow, column, value = graph.features.crow_indices(), graph.features.col_indices(), graph.features.values()
    whole = hashlib.sha256(b"".join(t.numpy() for t in (crow, column, value, graph.index, graph.labels, graph.split)))
    assert whole.hexdigest() == "b0b699208694cc937e1e508bb670abd648bd8bbd8f79609b5648eda9992ffd49"


# ---------------------------------------------------------------------------------------------------------------------
# PPI


def write_ppi(folder: Path, ids=str):
    """Three connected graphs, and a node without edges behind the first; 4 features, 3 labels."""
    sizes, splits = [5, 4, 3], ["train", "val", "test"]
    nodes, links, number = [], [], 0
    for size, split in zip(sizes, splits):
        first = number
        for _ in range(size):
            nodes.append({"id": ids(number), "val": split == "val", "test": split == "test"})
            number += 1
        links += [{"source": ids(first), "target": ids(node)} for node in range(first + 1, number)]
        if split == "train":
            nodes.append({"id": ids(number), "val": False, "test": False})
            number += 1
    rng = np.random.default_rng(0)
    rows = rng.permutation(number)
    features = rng.normal(size=(number, 4))
    labels = rng.integers(0, 2, size=(number, 3))
    (folder / "toy-G.json").write_text(json.dumps({"directed": False, "nodes": nodes, "links": links}))
    (folder / "toy-id_map.json").write_text(json.dumps({str(ids(n)): int(rows[n]) for n in range(number)}))
    (folder / "toy-class_map.json").write_text(json.dumps({str(ids(n)): labels[n].tolist() for n in range(number)}))
    np.save(folder / "toy-feats.npy", features)
    return features[rows], labels


@pytest.mark.parametrize("ids", [int, lambda n: f"protein {n}"])
def test_ppi_files(tmp_path, ids):
    features, labels = write_ppi(tmp_path, ids)
    task = Graphs(Config(data=str(tmp_path)))
    assert [len(graph) for graph in task.graphs] == [6, 4, 3]
    assert task.sizes == {"features": 4, "classes": 3, "several": True}
    assert np.allclose(torch.cat([graph.features for graph in task.graphs]), features, atol=1e-6)
    assert torch.equal(torch.cat([graph.labels for graph in task.graphs]), torch.from_numpy(labels).float())
    assert [set(graph.split.tolist()) for graph in task.graphs] == [{0}, {1}, {2}]
    assert {tuple(pair) for pair in task.graphs[1].index.T.tolist()} == {
        pair for node in (1, 2, 3) for pair in ((0, node), (node, 0))
    }


def test_ppi_as_networkx_1_wrote_it(tmp_path):
    """Links between places in the list of nodes, whatever these are called."""
    write_ppi(tmp_path, lambda n: f"p{n}")
    about = json.loads((tmp_path / "toy-G.json").read_text())
    expected = Graphs(Config(data=str(tmp_path))).graphs[0].index
    for link in about["links"]:
        link.update({end: int(link[end][1:]) for end in ("source", "target")})
    (tmp_path / "toy-G.json").write_text(json.dumps(about))
    assert torch.equal(Graphs(Config(data=str(tmp_path))).graphs[0].index, expected)


def test_ppi_errors(tmp_path):
    write_ppi(tmp_path)
    about = json.loads((tmp_path / "toy-G.json").read_text())
    about["links"].append({"source": "0", "target": "elsewhere"})
    (tmp_path / "toy-G.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"toy-G\.json: link \d+ joins .*'elsewhere'"):
        Graphs(Config(data=str(tmp_path)))
    write_ppi(tmp_path)
    (tmp_path / "toy-class_map.json").write_text("{}")
    with pytest.raises(ValueError, match=r"toy-class_map\.json: node '0' is not in it \(13 are missing\)"):
        Graphs(Config(data=str(tmp_path)))
    write_ppi(tmp_path)
    np.save(tmp_path / "toy-feats.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"toy-feats\.npy"):
        Graphs(Config(data=str(tmp_path)))
    (tmp_path / "toy-feats.npy").unlink()
    with pytest.raises(ValueError, match=r"toy-feats\.npy is missing"):
        Graphs(Config(data=str(tmp_path)))


# ---------------------------------------------------------------------------------------------------------------------
# CSV

FILES = {
    "edges": "source,target,weight\nann,bob,3\nbob,cem,1\nann,bob,9\n",
    "features": "node,age,height\nann,1,2.5\nbob,0,-1\ncem,3,1e-3\ndee,0,0.5\n",
    "labels": "node,label,split\nann,red,train\nbob,blue,valid\ncem,red,test\n",
}


def write_csv(folder: Path, **files):
    for name, text in {**FILES, **files}.items():
        if text is not None:
            (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return Config(data=str(folder))


def test_csv_files(tmp_path):
    task = Graphs(write_csv(tmp_path))
    (graph,) = task.graphs
    assert graph.names == ["ann", "bob", "cem", "dee"] and task.classes == ["blue", "red"]
    assert graph.labels.tolist() == [1, 0, 1, -1] and graph.split.tolist() == [0, 1, 2, -1]
    assert {tuple(pair) for pair in graph.index.T.tolist()} == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert torch.allclose(graph.features, torch.tensor([[1, 2.5], [0, -1], [3, 1e-3], [0, 0.5]]))
    directed = Graphs(Config(data=str(tmp_path), symmetric=False)).graphs[0]
    assert directed.index.T.tolist() == [[0, 1], [1, 2], [0, 1]]  # as they stand there


def test_csv_without_features_or_split_and_with_a_split_file(tmp_path):
    config = write_csv(tmp_path, features=None, labels="node,label\nann,1\nbob,10\ncem,2\n")
    task = Graphs(config)
    assert torch.equal(task.graphs[0].features.to_dense(), torch.eye(3))
    assert task.classes == ["1", "2", "10"]
    assert sorted(task.graphs[0].split.tolist()) == [0, 1, 2]
    again = Graphs(config).graphs[0].split
    assert torch.equal(task.graphs[0].split, again)
    write_csv(tmp_path, features=None, labels="node,label\nann,1\nbob,10\ncem,2\n", split="node,split\nbob,train\n")
    assert Graphs(config).graphs[0].split.tolist() == [-1, 0, -1]


def test_csv_with_several_labels(tmp_path):
    task = Graphs(write_csv(tmp_path, labels="node,label,split\nann,red;round,train\nbob,,valid\ncem,round,test\n"))
    assert task.several and task.classes == ["red", "round"]
    assert task.graphs[0].labels.tolist() == [[1, 1], [0, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"edges": "source,target\nann,bob\nann,zed\n"},
            r"edges\.csv, line 3: there is no node 'zed' in features\.csv",
        ),
        ({"edges": "from,to\nann,bob\n"}, r"edges\.csv, line 1: no column is called 'source'"),
        ({"edges": "source,target\nann\n"}, r"edges\.csv, line 2: 1 cells under 2 names"),
        ({"edges": None}, "no graph is here"),
        (
            {"features": "node,age\nann,1\nbob,nan\n"},
            r"features\.csv, line 3, column age: 'nan' is not a finite number",
        ),
        ({"features": "node,age\nann,1\nbob,old\n"}, r"features\.csv, line 3, column age: 'old'"),
        ({"features": "node,age\nann,1\nann,2\n"}, r"features\.csv, line 3: node 'ann' was there before"),
        ({"features": "node,age\nann,1,2\n"}, r"features\.csv, line 2: 3 cells under 2 names"),
        ({"features": "age\n1\n"}, r"features\.csv, line 1: the header"),
        ({"features": "node,age\n"}, "no node is in it"),
        ({"labels": "node,label\nann,red\nzed,red\n"}, r"labels\.csv, line 3: there is no node 'zed'"),
        (
            {"labels": "node,label\nann,red\nann,blue\n"},
            r"labels\.csv, line 3: node 'ann' has a label already, in line 2",
        ),
        ({"labels": "node,label,split\nann,red,trian\n"}, r"labels\.csv, line 2: .*did you mean 'train'"),
        ({"labels": "node,label\n"}, r"labels\.csv: no node has a label"),
        ({"labels": None}, r"labels\.csv is missing"),
        ({"split": "node,split\nzed,train\n"}, r"split\.csv, line 2: there is no node 'zed'"),
    ],
)
def test_csv_errors_name_file_and_line(tmp_path, files, message):
    config = write_csv(tmp_path, **files)
    with pytest.raises(ValueError, match=message):
        Graphs(config)


def test_labels_that_training_did_not_know_are_refused(tmp_path):
    (tmp_path / "data").mkdir()
    task = Graphs(write_csv(tmp_path / "data"))
    task.save(tmp_path / "run")
    (tmp_path / "other").mkdir()
    write_csv(tmp_path / "other", labels="node,label\nann,blue\nbob,rad\n")
    with pytest.raises(ValueError, match=r"labels\.csv, line 3: no class is called 'rad': did you mean 'red'"):
        Graphs.load(tmp_path / "run", tmp_path / "other")
    write_csv(tmp_path / "other", labels="node,label\nann,red\n")
    assert Graphs.load(tmp_path / "run", tmp_path / "other").graphs[0].labels.tolist() == [1, -1, -1, -1]


# ---------------------------------------------------------------------------------------------------------------------
# Objects


def data_of(**changes):
    """What PyG's Data looks like from outside."""
    given = {
        "x": torch.eye(4)[:, :3],
        "edge_index": torch.tensor([[0, 1, 2], [1, 2, 0]]),
        "y": torch.tensor([0, 1, 0, 1]),
        "train_mask": torch.tensor([True, True, False, False]),
        "val_mask": torch.tensor([False, False, True, False]),
        "test_mask": torch.tensor([False, False, False, True]),
    }
    return types.SimpleNamespace(**{**given, **changes})


def test_a_pyg_graph_as_it_is():
    for data in (data_of(), pyg_data(data_of())):
        task = Graphs(Config(), data)
        (graph,) = task.graphs
        assert torch.equal(graph.features, data.x) and torch.equal(graph.index, data.edge_index)
        assert graph.split.tolist() == [0, 0, 1, 2]
        assert task.sizes == {"features": 3, "classes": 2, "several": False}


def pyg_data(plain):
    data = pytest.importorskip("torch_geometric.data")
    return data.Data(**vars(plain))


def test_pyg_graphs_by_split():
    labels = torch.tensor([[1.0, 0], [0, 1], [1, 1], [0, 0]])
    plain = data_of(y=labels, train_mask=None, val_mask=None, test_mask=None)
    task = Graphs(Config(batch_graphs=2), {"train": [plain, plain], "val": [plain], "test": plain})
    assert [set(graph.split.tolist()) for graph in task.graphs] == [{0}, {0}, {1}, {2}]
    (batch,) = task.loader("train")
    assert batch["features"].shape == (8, 3) and batch["edges"].nodes == (8, 8) and len(batch["nodes"]) == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": torch.tensor([[0], [4]])}, "edge 0 joins 0 and 4, but nodes are 0 to 3"),
        ({"edge_index": torch.tensor([[0.0], [1.0]])}, "whole numbers"),
        ({"x": torch.full((4, 3), float("nan"))}, "the features of node 0 are not all finite"),
        ({"y": torch.tensor([0, 1])}, "2 labels for 4 nodes"),
        ({"y": torch.full((4, 2), 0.5)}, "0 or 1"),
        ({"x": None}, "no node features"),
        ({"train_mask": torch.ones(4, 10)}, r"train_mask is \(4, 10\).*train_mask\[:, 0\]"),
    ],
)
def test_bad_objects_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        Graphs(Config(), data_of(**changes))


@pytest.mark.parametrize("directed", [False, True])
def test_a_networkx_graph_as_it_is(directed):
    networkx = pytest.importorskip("networkx")
    graph = (networkx.DiGraph if directed else networkx.Graph)()
    for number, name in enumerate("abc"):
        graph.add_node(
            name, x=[number, 1.0], y="odd" if number % 2 else "even", split=["train", "valid", "test"][number]
        )
    graph.add_edges_from([("a", "b"), ("b", "c"), ("c", "c")])
    task = Graphs(Config(), graph)
    (made,) = task.graphs
    assert made.names == ["a", "b", "c"] and task.classes == ["even", "odd"] and made.labels.tolist() == [0, 1, 0]
    pairs = sorted(tuple(pair) for pair in made.index.T.tolist())
    assert pairs == ([(0, 1), (1, 2), (2, 2)] if directed else [(0, 1), (1, 0), (1, 2), (2, 1), (2, 2)])
    graph.add_node("d")
    with pytest.raises(ValueError, match=r"node 'd' has no features"):
        Graphs(Config(), graph)


# ---------------------------------------------------------------------------------------------------------------------
# Generated sets


@pytest.mark.parametrize("data", ["sbm", "lookup", "communities"])
def test_generated_sets_are_the_same_every_time(data):
    one, two, other = (Graphs(Config(data=data, nodes=80, graphs=3, keys=4, data_seed=seed)) for seed in (0, 0, 1))
    for first, second in zip(one.graphs, two.graphs):
        assert torch.equal(first.features.to_dense(), second.features.to_dense())
        assert torch.equal(first.index, second.index) and torch.equal(first.labels, second.labels)
    assert any(not torch.equal(a.features.to_dense(), b.features.to_dense()) for a, b in zip(one.graphs, other.graphs))
    for split in ("train", "valid", "test"):
        assert sum(len(batch["nodes"]) for batch in one.loader(split)) > 0


def test_the_lookup_graph_can_be_looked_up():
    for graph in Graphs(Config(data="lookup", keys=5, graphs=3)).graphs:
        features = graph.features.to_dense()
        for query in range(5, 10):
            found = [s for s, t in graph.index.T.tolist() if t == query and features[s, :5].equal(features[query, :5])]
            assert len(found) == 1 and int(features[found[0], 5:].argmax()) == int(graph.labels[query])
        split = ("train", "valid", "test")[int(graph.split[0])]
        assert graph.of_split(split).tolist() == [5, 6, 7, 8, 9]


def test_blocks_prefer_their_own_kind():
    (graph,) = Graphs(Config(data="sbm")).graphs
    same = (graph.labels[graph.index[0]] == graph.labels[graph.index[1]]).double().mean()
    assert 0.65 < float(same) < 0.85
    assert [int(((graph.split == 0) & (graph.labels == label)).sum()) for label in range(4)] == [20] * 4
    assert int((graph.split == 1).sum()) == 100


# ---------------------------------------------------------------------------------------------------------------------
# Batches


def same(one, two):
    assert one.keys() == two.keys()
    for name in one:
        if name == "edges":
            assert one[name].nodes == two[name].nodes and torch.equal(one[name].index, two[name].index)
        else:
            assert torch.equal(one[name].to_dense(), two[name].to_dense()), name


@pytest.mark.parametrize(
    "config",
    [
        Config(data="communities", nodes=40, graphs=5, batch_graphs=2),
        Config(data="sbm", nodes=120, neighbours=3, batch_nodes=16),
        Config(data="communities", nodes=40, graphs=3, neighbours=2, hops=3, batch_nodes=50),
        Config(data="sbm", nodes=60),
    ],
    ids=["graphs", "drawn", "drawn from several", "whole"],
)
def test_a_loader_goes_on_where_it_stopped(config):
    task = Graphs(config)
    loader = task.loader("train", seed=3)
    epochs = [list(loader) for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [len(loader)] * 3
    stopped = task.loader("train", seed=3)
    list(stopped)
    taken = iter(stopped)
    for _ in range(len(loader) // 2):
        next(taken)
    again = task.loader("train", seed=3)
    again.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
    rest = list(again)
    assert len(rest) == len(loader) - len(loader) // 2
    for one, two in zip(rest, epochs[1][len(loader) // 2 :]):
        same(one, two)
    with pytest.raises(ValueError, match="cannot go on where it stopped"):
        task.loader("train", seed=4).load_state_dict(stopped.state_dict())


def test_every_graph_comes_once_an_epoch_in_another_order():
    task = Graphs(Config(data="lookup", keys=3, graphs=20, batch_graphs=6))
    loader = task.loader("train")
    orders = []
    for _ in range(2):
        batches = list(loader)
        assert sum(len(batch["nodes"]) for batch in batches) == 20 * 3
        orders.append([batch["labels"].tolist() for batch in batches])
    assert orders[0] != orders[1]
    valid = task.loader("valid")
    assert [b["labels"].tolist() for b in valid] == [b["labels"].tolist() for b in valid]


def test_an_only_graph_is_made_into_a_batch_once():
    loader = Graphs(Config(data="sbm", nodes=60)).loader("train")
    (one,), (two,) = list(loader), list(loader)
    assert one["edges"] is two["edges"] and one["features"] is two["features"]


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), most=st.integers(1, 8))
def test_drawn_numbers_are_different_and_in_range(seed, most):
    rng = np.random.default_rng(seed)
    counts = rng.integers(most, 30, size=20)
    chosen = _choose(counts, most, rng)
    assert (chosen >= 0).all() and (chosen < counts[:, None]).all()
    assert all(len(set(row)) == most for row in chosen.tolist())


def test_every_neighbour_is_drawn_as_often():
    chosen = _choose(np.full(20_000, 7), 3, np.random.default_rng(0))
    counts = np.bincount(chosen.ravel(), minlength=7)
    assert np.abs(counts - 60_000 / 7).max() < 5 * np.sqrt(60_000 / 7)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), sparse=st.booleans())
def test_a_drawn_part_is_part_of_the_graph(seed, sparse):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(5, 40))
    index = torch.from_numpy(rng.integers(size, size=(2, int(rng.integers(0, 150)))))
    features = torch.arange(size * 2).reshape(size, 2).float()
    kept = features.to_sparse_csr() if sparse else features
    graph = Graph(kept, index, torch.arange(size), torch.zeros(size, dtype=torch.long), self_loops=False)
    seeds = rng.permutation(size)[: int(rng.integers(1, 5))]
    batch = Sampler(graph, 3, 2)(seeds, rng)
    taken = batch["taken"]
    assert taken[: len(seeds)].tolist() == seeds.tolist() and len(set(taken.tolist())) == len(taken)
    assert torch.equal(batch["features"].to_dense(), features[taken]) and torch.equal(batch["labels"], taken)
    whole = [tuple(pair) for pair in index.T.tolist()]
    drawn = [tuple(pair) for pair in taken[batch["edges"].index].T.tolist()]
    for pair in set(drawn):
        assert drawn.count(pair) <= whole.count(pair)
    into = np.bincount(index[1].numpy(), minlength=size)
    for place in range(len(seeds)):  # all incoming edges of a node that has few, three of one that has many
        assert sum(t == seeds[place] for _, t in drawn) == min(into[seeds[place]], 3)


def test_with_all_neighbours_a_part_answers_as_the_whole():
    from regard.systems.gat import GAT
    from regard.systems.gat import Config as System

    task = Graphs(Config(data="sbm", nodes=200, neighbours=1000, hops=2, batch_nodes=32))
    torch.manual_seed(0)
    model = GAT(System(**task.sizes)).eval()
    ((graph, whole),) = task.wholes("valid")
    with torch.no_grad():
        expected = model.logits(whole)
        parts = torch.cat([model.logits(batch) for batch in task.loader("valid")])
    assert torch.allclose(parts, expected, atol=1e-5) and len(expected) == len(graph.of_split("valid"))


def test_a_graph_of_a_million_edges_in_drawn_batches():
    from regard.systems.gat import GAT
    from regard.systems.gat import Config as System

    rng = np.random.default_rng(0)
    size, edges = 50_000, 1_000_000
    labels = torch.from_numpy(rng.integers(4, size=size))
    graph = Graph(
        torch.eye(4)[labels] + 0.5 * torch.from_numpy(rng.normal(size=(size, 4))).float(),
        torch.from_numpy(rng.integers(size, size=(2, edges))),
        labels,
        torch.from_numpy(rng.integers(3, size=size)),
    )
    task = Graphs(Config(neighbours=5, hops=2, batch_nodes=512), graph)
    torch.manual_seed(0)
    model = GAT(System(**task.sizes, dropout=0.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for batch, _ in zip(task.loader("train"), range(8)):
        assert batch["features"].shape[0] <= 512 * 31 and len(batch["nodes"]) == 512
        optimizer.zero_grad()
        loss = model(batch)["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


class Loaded:
    """What PyG's NeighborLoader gives, as seen from outside: the asked nodes first, ``batch_size`` of them."""

    def __init__(self, data, seeds):
        self.data, self.seeds = data, seeds

    def __len__(self):
        return len(self.seeds)

    def __iter__(self):
        for nodes in self.seeds:
            rest = [node for node in range(4) if node not in nodes]
            order = torch.tensor([*nodes, *rest])
            place = order.argsort()
            part = data_of(x=self.data.x[order], y=self.data.y[order], edge_index=place[self.data.edge_index])
            part.batch_size = len(nodes)
            part.train_mask = part.val_mask = part.test_mask = None
            yield part


def test_batches_of_a_pyg_loader():
    data = data_of()
    loader = Adapted(Loaded(data, [[0, 2], [1], [3]]))
    batches = list(loader)
    assert len(loader) == 3 and [len(batch["nodes"]) for batch in batches] == [2, 1, 1]
    assert torch.equal(batches[0]["features"][:2], data.x[[0, 2]])
    assert len(batches[0]["edges"]) == 3 + 4  # with self-loops
    started = iter(loader)
    next(started)
    again = Adapted(Loaded(data, [[0, 2], [1], [3]]))
    again.load_state_dict(loader.state_dict())
    assert [len(batch["nodes"]) for batch in again] == [1, 1]


def test_a_real_pyg_neighbour_loader():
    loaders = pytest.importorskip("torch_geometric.loader")
    rng = np.random.default_rng(0)
    data = pyg_data(
        data_of(
            x=torch.from_numpy(rng.normal(size=(50, 3))).float(),
            edge_index=torch.from_numpy(rng.integers(50, size=(2, 300))),
            y=torch.from_numpy(rng.integers(2, size=50)),
            train_mask=torch.ones(50).bool(),
            val_mask=None,
            test_mask=None,
        )
    )
    loader = loaders.NeighborLoader(data, num_neighbors=[4, 4], batch_size=20)
    try:
        batches = list(Adapted(loader))
    except ImportError:
        pytest.skip("PyG's NeighborLoader needs pyg-lib or torch-sparse, which are not installed")
    assert [len(batch["nodes"]) for batch in batches] == [20, 20, 10]
    assert torch.equal(torch.cat([batch["labels"][batch["nodes"]] for batch in batches]), data.y)


# ---------------------------------------------------------------------------------------------------------------------
# The task


def test_saved_and_loaded_it_gives_the_same_batches(tmp_path):
    write_ppi(tmp_path)
    networked = data_of(x=torch.tensor([[0.0, 0, 2], [1, 0, 0], [0, 0, 0], [0, 3, 0]]).repeat(1, 5))
    tasks = {
        "generated": Graphs(Config(data="communities", nodes=40, graphs=2)),
        "files": Graphs(Config(normalize="columns"), tmp_path),
        "object": Graphs(Config(normalize="rows"), networked),
    }
    for name, task in tasks.items():
        task.save(tmp_path / name)
        again = Graphs.load(tmp_path / name)
        assert again.classes == task.classes and again.sizes == task.sizes and again.config == task.config
        for split in ("train", "valid", "test"):
            for one, two in zip(task.loader(split), again.loader(split), strict=True):
                same(one, two)


def test_features_are_normalized_by_the_training_nodes(tmp_path):
    write_ppi(tmp_path)
    plain, task = (Graphs(Config(data=str(tmp_path), normalize=how)) for how in ("none", "columns"))
    train = plain.graphs[0].features
    for before, after in zip(plain.graphs, task.graphs):
        assert torch.allclose(after.features, (before.features - train.mean(0)) / train.std(0, correction=0), atol=1e-5)
    # Also of another graph that is asked later, in which there may be nothing to learn from.
    task.save(tmp_path / "run")
    data = data_of(x=torch.ones(4, 4), y=torch.zeros(4, 3), train_mask=None)
    asked = Graphs.load(tmp_path / "run", data).graphs[0]
    assert torch.allclose(asked.features, (1 - train.mean(0)).expand(4, 4) / train.std(0, correction=0), atol=1e-5)


def test_names_and_settings_are_checked(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'rows'"):
        Config(normalize="row")
    with pytest.raises(ValueError, match="hops must be at least 1, not 0"):
        Config(hops=0)
    with pytest.raises(ValueError, match="did you mean 'valid'"):
        Graphs(Config()).loader("valif")
    with pytest.raises(ValueError, match="generated: sbm, lookup, communities"):
        Graphs(Config(data="sbn"))
    with pytest.raises(ValueError, match=r"looked for ind\.NAME\.graph"):
        Graphs(Config(data=str(tmp_path)))
    with pytest.raises(ValueError, match="no node with a label is in the split 'test'"):
        Graphs(Config(), data_of(test_mask=None)).loader("test")
    with pytest.raises(ValueError, match="there is no node '600'"):
        Graphs(Config()).graphs[0].number("600")


def test_metrics_by_hand():
    logits = torch.tensor([[2.0, 1], [0, 1], [3, -3]])
    assert metrics(logits, torch.tensor([0, 1, 1])) == {"accuracy": pytest.approx(100 * 2 / 3)}
    labels = torch.tensor([[1.0, 0], [0, 1], [0, 1]])
    # said: (1, 1), (0, 1), (1, 0): 2 hits, 2 too many, 1 missed.
    assert metrics(logits, labels) == {"f1": pytest.approx(100 * 4 / (4 + 3))}
    assert metrics(-torch.ones(2, 2), torch.zeros(2, 2)) == {"f1": 0.0}
