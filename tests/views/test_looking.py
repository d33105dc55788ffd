"""Every block of docs/looking.md runs, and its result has the shape that the comment says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import regard
from regard.views import overlay

TEXT = (Path(regard.__file__).parents[1] / "docs" / "looking.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"([^\n]*)\n\n```python\n(.*?)```", TEXT, re.DOTALL)


def block(start):
    """The example below the paragraph whose last line holds ``start``."""
    (found,) = [code for line, code in BLOCKS if start in line]
    return found


def run(code, **known):
    """The example, and what its last line gives."""
    known |= {"torch": torch, "regard": regard, "overlay": overlay}
    *lines, last = code.strip().split("\n")
    exec("\n".join(lines), known)
    return known, eval(last, known)


def test_no_block_is_forgotten():
    assert len(BLOCKS) == len(re.findall("```python", TEXT)) == 13


@pytest.mark.parametrize(
    ("name", "start", "shape"),
    [
        ("bert", "BERT, and every", [(2, 4, 6, 6)] * 2),
        ("llama", "Llama, while", (2, 4, 3, 10)),
        ("t5", "T5, an", (2, 4, 4, 6)),
        ("whisper", "Whisper, frames", (2, 4, 5, 10)),
    ],
)
def test_hugging_face(name, start, shape):
    pytest.importorskip("transformers", reason="transformers is not installed")
    from strangers import batch, build

    model = build(name, "sdpa")
    inputs = batch(name, generate=name in ("llama", "whisper"))
    with torch.no_grad():
        _, found = run(block(start), model=model, inputs=inputs)
    assert shape == ([tuple(each.shape) for each in found] if isinstance(found, tuple) else tuple(found.shape))


@pytest.mark.parametrize(
    ("name", "start", "file"), [("vit", "ViT, where", "patches"), ("llava", "LLaVA, which", "words")]
)
def test_images(name, start, file, tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from strangers import IMAGE, batch, build

    monkeypatch.chdir(tmp_path)
    with torch.no_grad():
        known = {"model": build(name, "sdpa"), "inputs": batch(name, generate=True)}
        run(block(start), **known, words=list("abcde"), image=IMAGE)
    assert (tmp_path / f"{file}.png").stat().st_size > 5_000


def test_torch_and_pyg():
    model = torch.nn.Transformer(16, 2, 2, 2, batch_first=True)
    _, found = run(block("torch's own Transformer"), model=model)
    assert found.shape == (1, 2, 4, 6)
    layers = pytest.importorskip("torch_geometric.nn", reason="torch-geometric is not installed")
    _, found = run(block("PyG's"), model=layers.GATConv(5, 4, heads=2))
    assert found.shape == (6, 2)


def test_change_register_and_explain(capsys):
    pytest.importorskip("transformers", reason="transformers is not installed")
    from strangers import batch, build

    model, inputs = build("llama"), batch("llama")
    with torch.no_grad():
        plain = model(**inputs).logits
        known = {"torch": torch, "regard": regard, "model": model, "inputs": inputs}
        exec(block("wherever `record` sees"), known)
        assert not torch.allclose(known["without"], plain, atol=1e-3)
        exec(block("in the model's place"), known)
        sparse = model(**inputs).logits
        assert not torch.allclose(sparse, plain, atol=1e-3)
        model.set_attn_implementation("sdpa")
        with regard.record(model) as known["tape"]:
            model(**inputs)
        exec(block("beside a random ranking"), known)
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table[1:]] == ["all", "model.layers.0.self_attn", "model.layers.1.self_attn"]


def test_notebooks_and_pages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
    model = torch.nn.ModuleDict({"encoder": encoder})
    with regard.record(model) as tape:
        model["encoder"](torch.randn(1, 4, 8))
    known = {"tape": tape, "words": list("abcd"), "weights": torch.eye(2)}
    known |= {"target_words": ["a", "b"], "source_words": ["c", "d"]}
    exec(block("A view by itself is a page too"), known)
    exec(block("`page.write` joins any of them"), known)
    assert (tmp_path / "look.html").stat().st_size > 10_000
