"""What README.md says about other people's models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.bench import record

ROOT = Path(regard.__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
(BLOCK,) = re.findall(r"```python\n(with regard.record\(model\) as tape:.*?)```", TEXT, re.DOTALL)
NAMED = {"BERT": "bert", "Llama": "llama", "T5": "t5", "Whisper": "whisper", "ViT": "vit", "LLaVA": "llava"}


class Operations(TorchDispatchMode):
    """The names of all operations that torch was asked for."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.fixture
def strangers():
    pytest.importorskip("transformers", reason="transformers is not installed")
    import strangers

    return strangers


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_the_block(name, strangers):
    """While generating with a cache, with grouped queries and with a sliding window; nothing is left behind."""
    inputs = strangers.batch(name, generate=True) | {"max_new_tokens": 4, "do_sample": False}
    model = strangers.build(name, "sdpa")
    assert model.config.num_key_value_heads < model.config.num_attention_heads
    with torch.no_grad():
        before = model.generate(**inputs)
        known = {"regard": regard, "model": model, "inputs": inputs}
        exec(BLOCK, known)
        asked = {"output_attentions": True, "return_dict_in_generate": True}
        expected = strangers.build(name).generate(**inputs, **asked).attentions[0]  # those of the prompt
        assert torch.equal(model.generate(**inputs), before)
    found, length = known["tape"].attentions, inputs["input_ids"].shape[1]
    assert len(found) == len(expected) == 2
    for ours, theirs in zip(found, expected):
        assert ours.shape[-2] == length + 3
        real = inputs["attention_mask"].bool()
        torch.testing.assert_close(
            ours[..., :length, :length].transpose(1, 2)[real], theirs.transpose(1, 2)[real], atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("label", NAMED)
def test_each_model_that_is_named_is_seen(label, strangers):
    assert label in BLOCK
    name = NAMED[label]
    model, given = strangers.build(name, "sdpa"), strangers.batch(name)
    with torch.no_grad(), regard.record(model) as tape:
        out = model(**given, output_attentions=True)
    assert not any(out.get(side) for side in strangers.SIDES), "Hugging Face returns weights again"
    weights = [w for side in strangers.SIDES for w in getattr(tape, side)]
    assert weights and all(w.ndim == 4 for w in weights)


def test_torch_and_pyg_are_seen():
    assert "nn.Transformer" in BLOCK and "GATConv" in BLOCK
    model = torch.nn.Transformer(8, 2, 1, 1, 8, batch_first=True)
    with regard.record(model) as tape:
        model(torch.randn(1, 3, 8), torch.randn(1, 2, 8))
    assert tape["decoder.layers.0.multihead_attn"].weights.shape == (1, 2, 2, 3)
    layers = pytest.importorskip("torch_geometric.nn", reason="torch-geometric is not installed")
    model = layers.GATConv(4, 2, heads=2)
    with regard.record(model) as tape:
        model(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]))
    assert tape["gat_conv"].calls[0].weights.shape == (5, 2)


def test_weights_of_a_long_sequence_are_computed_when_they_are_read(strangers):
    model, given = record.llama(2, 64, 256)
    with torch.no_grad():
        with Operations() as alone:
            model(given)
        with regard.record(model) as tape, Operations() as recorded:
            model(given)
        heavy = ("mm", "softmax", "attention")
        counted = [[name for name in seen.names if any(word in name for word in heavy)] for seen in (alone, recorded)]
        assert counted[0] == counted[1] and counted[0]
        with Operations() as read:
            assert tape[tape.names()[0]].weights is not None
    assert any("softmax" in name for name in read.names)


def test_the_picture_is_there():
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", TEXT):
        assert (ROOT / path).stat().st_size > 1_000, path
    for path in re.findall(r"\]\((docs/[^)#]+|examples|[A-Z]+\.md)\)", TEXT):
        assert (ROOT / path).exists(), path
