"""A tape in a notebook, and other people's models on a tape."""

import re

import pytest
import torch
from torch import nn

import regard
from regard.views import tape as views


def transformer():
    model = nn.Transformer(16, 2, 2, 2, 32, batch_first=True).eval()
    with regard.record(model) as tape:
        model(torch.randn(1, 6, 16), torch.randn(1, 4, 16))
    return tape


def test_layers_of_one_shape_are_one_view():
    made = views.views(transformer())
    assert [(view.kind, view.title) for view in made] == [
        ("heads", "encoder.layers.*.self_attn"),
        ("heads", "decoder.layers.*.self_attn"),
        ("alignment", "decoder.layers.*.multihead_attn"),
    ]
    assert made[2].data["readings"][0]["weights"].values.shape == (2, 2, 4, 6)
    assert made[2].data["layers"] == ["decoder.layers.0.multihead_attn", "decoder.layers.1.multihead_attn"]


def test_labels_and_batch():
    model = regard.MultiHead(8, 2)
    with regard.record(model) as tape:
        model(torch.randn(3, 4, 8))
    tape.label("multi_head", rows=list("abcd"), columns=list("wxyz"))
    (view,) = views.views(tape, batch=2)
    reading = view.data["readings"][0]
    assert reading["rows"] == list("abcd") and view.data["columns"] == list("wxyz")
    assert torch.from_numpy(reading["weights"].values[0]).equal(tape["multi_head"].weights[2])


def test_every_member_of_the_batch_is_there():
    model = regard.MultiHead(8, 2)
    with regard.record(model) as tape:
        model(torch.randn(3, 4, 8))
    (view,) = views.views(tape)
    assert [reading["text"] for reading in view.data["readings"]] == ["number 1", "number 2", "number 3"]
    for reading, weights in zip(view.data["readings"], tape["multi_head"].weights, strict=True):
        assert torch.from_numpy(reading["weights"].values[0]).equal(weights)


def test_calls_that_cannot_be_joined_show_the_last():
    model = regard.MultiHead(8, 2)
    with regard.record(model) as tape:
        model(torch.randn(1, 4, 8))
        model(torch.randn(1, 3, 8))
    (view,) = views.views(tape)
    assert view.data["readings"][0]["weights"].values.shape == (1, 2, 3, 3)


def test_in_a_notebook(monkeypatch):
    text = transformer()._repr_html_()
    assert re.match(
        r'<iframe title="Attention" sandbox="allow-scripts allow-downloads" [^>]*srcdoc="&lt;!doctype', text
    )
    assert text.count("<") == 2  # everything else is inside the frame
    assert regard.Tape()._repr_html_() == "<pre>Tape: no attention seen</pre>"
    monkeypatch.setattr(views, "MOST", 10)
    assert "too many to show at once" in transformer()._repr_html_()


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv"])
@pytest.mark.parametrize("training", [False, True])
def test_pyg(name, training):
    layers = pytest.importorskip("torch_geometric.nn", reason="torch-geometric is not installed")
    conv = getattr(layers, name)(5, 4, heads=2, dropout=0.6).train(training)
    x, edges = torch.randn(6, 5), torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]])
    with regard.record(conv) as tape:
        out = conv(x, edges)
    (look,) = tape[tape.names()[0]].calls
    torch.manual_seed(0)
    again, (index, weights) = conv.eval()(x, edges, return_attention_weights=True)
    assert look.edges.equal(index)
    assert torch.allclose(look.weights, weights)  # in training too: before dropout
    assert training or torch.equal(out, again)  # it computes what it always does
    (view,) = views.views(tape)
    assert view.kind == "graph" and view.data["node"] == 3  # the node with most edges
    assert not conv._edge_update_forward_hooks


def test_pyg_inside_a_model():
    layers = pytest.importorskip("torch_geometric.nn", reason="torch-geometric is not installed")
    model = layers.GAT(5, 4, 2, 3, heads=2)
    with regard.record(model, only="convs.1") as tape:
        model(torch.randn(4, 5), torch.tensor([[0, 1, 2], [1, 2, 3]]))
    assert tape.names() == ["convs.1"]


def test_hugging_face():
    hugging = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = {f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    config = hugging.BartConfig(
        vocab_size=50, d_model=16, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=32, **sizes
    )
    model = hugging.BartForConditionalGeneration(config).eval()
    batch = {"input_ids": torch.arange(7)[None] + 4, "decoder_input_ids": torch.arange(5)[None] + 4}
    with regard.record(model) as tape:
        model(**batch)
    assert len(tape) == 6
    model.set_attn_implementation("eager")
    expected = model(**batch, output_attentions=True)
    for layer in range(2):
        found = tape[f"model.decoder.layers.{layer}.encoder_attn"].weights
        assert torch.allclose(found, expected.cross_attentions[layer], atol=1e-5)
        found = tape[f"model.decoder.layers.{layer}.self_attn"].weights
        assert torch.allclose(found, expected.decoder_attentions[layer], atol=1e-5)
