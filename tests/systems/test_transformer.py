"""The Transformer against torch's own layers, and the traps of its masks."""

import pytest
import torch
from torch import nn

from regard import masks
from regard.heads import MultiHead
from regard.layers.transformer import Layer, LayerConfig, positions
from regard.systems.transformer import Config, Transformer

SIZES = {"source_vocab": 20, "target_vocab": 20, "dim": 16, "heads": 2, "hidden": 24}


def copy_layer(theirs, ours, cross):
    ours.own = MultiHead.from_torch(theirs.self_attn)
    ours.think[0], ours.think[2] = theirs.linear1, theirs.linear2
    ours.around_own.norm = theirs.norm1
    ours.around_think.norm = theirs.norm3 if cross else theirs.norm2
    if cross:
        ours.cross, ours.around_cross.norm = MultiHead.from_torch(theirs.multihead_attn), theirs.norm2


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_layers_equal_those_of_torch(norm):
    torch.manual_seed(0)
    config = Config(**SIZES, dropout=0.0, norm=norm)
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre"}
    x, y = torch.randn(2, 5, 16), torch.randn(2, 6, 16)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    source = masks.from_torch(key_padding_mask=padding)

    theirs, ours = nn.TransformerEncoderLayer(16, 2, 24, **options), Layer(LayerConfig.of(config), cross=False)
    copy_layer(theirs, ours, cross=False)
    assert torch.allclose(ours(x, source), theirs(x, src_key_padding_mask=padding), atol=1e-5)

    theirs, ours = nn.TransformerDecoderLayer(16, 2, 24, **options), Layer(LayerConfig.of(config), cross=True)
    copy_layer(theirs, ours, cross=True)
    causal = nn.Transformer.generate_square_subsequent_mask(6)
    expected = theirs(y, x, tgt_mask=causal, memory_key_padding_mask=padding)
    assert torch.allclose(ours(y, masks.causal(), x, source), expected, atol=1e-5)


def test_positions_are_the_papers():
    table = positions(50, 6)
    for place in (0, 1, 7, 49):
        for i in range(3):
            angle = torch.tensor(place / 10000 ** (2 * i / 6))
            assert torch.allclose(table[place, 2 * i], angle.sin(), atol=1e-6)
            assert torch.allclose(table[place, 2 * i + 1], angle.cos(), atol=1e-6)


def test_the_future_is_not_seen():
    torch.manual_seed(0)
    model = Transformer(Config(**SIZES, encoder_layers=1, decoder_layers=2, dropout=0.0)).eval()
    encoded, mask = torch.randn(1, 4, 16), masks.lengths(torch.tensor([4]))
    words = torch.randint(4, 20, (1, 6))
    changed = words.clone()
    changed[0, 4] = (words[0, 4] - 3) % 16 + 4
    with torch.no_grad():
        one, other = (model.decoder(model.target(w), encoded, mask) for w in (words, changed))
    assert torch.equal(one[:, :4], other[:, :4])
    assert not torch.allclose(one[:, 4:], other[:, 4:])


def test_tied_embeddings_are_one_matrix():
    model = Transformer(Config(**SIZES, encoder_layers=1, decoder_layers=1))
    assert model.output.weight is model.source.words.weight is model.target.words.weight
    with pytest.raises(ValueError, match="20 and 30"):
        Config(**{**SIZES, "target_vocab": 30})


def test_sentences_longer_than_any_before():
    model = Transformer(Config(**SIZES, encoder_layers=1, decoder_layers=1)).eval()
    long = torch.randint(4, 20, (1, 1500))
    with torch.no_grad():
        assert model.encoder(model.source(long), masks.lengths(torch.tensor([1500]))).shape == (1, 1500, 16)


def test_the_papers_models_have_the_papers_sizes():
    from regard.systems.transformer import VARIANTS

    for name, millions in (("base", 65), ("big", 213)):
        with torch.device("meta"):
            model = Transformer(Config(source_vocab=37000, target_vocab=37000, **VARIANTS[name]))
        count = sum(p.numel() for p in model.parameters()) / 1e6
        assert abs(count - millions) / millions < 0.05, count
