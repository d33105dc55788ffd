"""Every block of docs/coming-from-pyg-or-dgl.md runs but DGL's, and gives what PyG gives; so do the layers it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import regard
from regard.scores import LeakyConcat

TEXT = (Path(regard.__file__).parents[1] / "docs" / "coming-from-pyg-or-dgl.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_page():
    pytest.importorskip("torch_geometric", reason="torch-geometric is not installed")
    gat, dgl, ours, copied, featured, ours_featured, copied_featured = BLOCKS
    assert "dgl" in dgl and not any("dgl" in block for block in BLOCKS if block is not dgl)
    torch.manual_seed(0)
    known = {"torch": torch, "regard": regard, "LeakyConcat": LeakyConcat, "x": torch.randn(9, 16)}
    known |= {"edge_index": torch.randint(9, (2, 30)), "edge_attr": torch.randn(30, 5)}
    called = ours.split("\n\n")[1]
    for block in (gat, ours, copied, called):  # and called again, with PyG's numbers
        exec(block, known)
    same(known, known["theirs"](known["x"], known["edge_index"]))
    again = called.split("out =")[0] + ours_featured.split("\n", 1)[1]
    for block in (featured, ours_featured, copied_featured, again):
        exec(block, known)
    same(known, known["theirs"](known["x"], known["edge_index"], known["edge_attr"]))


def same(known, expected):
    assert expected.shape == (9, 32) and known["out"].weights.shape == (len(known["edges"]), 4)
    torch.testing.assert_close(known["out"].context.flatten(1), expected, atol=1e-5, rtol=1e-5)


def test_the_names_of_pyg_exist():
    layers = pytest.importorskip("torch_geometric.nn", reason="torch-geometric is not installed")
    for name in ("GATConv", "GATv2Conv", "TransformerConv"):
        assert f"`{name}`" in TEXT and hasattr(layers, name)
