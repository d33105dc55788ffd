"""Weights in another order give the same answers."""

import dataclasses
import gc
import sys
import weakref

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard import decode
from regard.decode.packed import _Packed, packed, twin
from regard.scores import Additive
from regard.systems.luong import Luong
from regard.systems.rnnsearch import RNNsearch
from regard.systems.seq2seq import Seq2seq
from regard.systems.transformer import Config, Transformer

here = any(isinstance(module, _Packed) for module in packed(nn.Sequential(nn.Linear(2, 2))).modules())
pytestmark = pytest.mark.skipif(not here, reason="oneDNN packs weights on x86 alone")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Transformer(Config(300, 300, dim=64, heads=4, hidden=256, encoder_layers=1, decoder_layers=2)).eval()


@pytest.fixture
def batch():
    return {"source": torch.randint(4, 300, (9, 6)), "source_lengths": torch.tensor([6, 5, 4, 6, 3, 6, 2, 1, 6])}


def test_the_same_sentences(model, batch):
    twin = packed(model)
    assert sum(isinstance(module, _Packed) for module in twin.modules()) == 4 + 2 * 8 + 2 * 3 + 1
    one, other = (decode.beam(each, batch, size=4, max_length=12) for each in (model, twin))
    assert [best.tokens for best, *_ in one] == [best.tokens for best, *_ in other]
    assert [best.log_prob for best, *_ in one] == pytest.approx([best.log_prob for best, *_ in other], rel=1e-4)


def test_the_model_is_left_alone_and_its_weights_are_shared(model):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    twin = packed(model)
    assert not any(isinstance(module, _Packed) for module in model.modules())
    assert type(model.encoder.layers[0].think[1]) is nn.ReLU
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())
    assert twin.target.words.weight is model.target.words.weight


@pytest.mark.parametrize("rows", [0, 1, 3, 64, 700])
@pytest.mark.parametrize("bias", [True, False])
def test_any_number_of_rows(rows, bias):
    model = nn.Sequential(nn.Linear(96, 512, bias=bias), nn.ReLU(), nn.Linear(512, 40, bias=bias))
    x = torch.randn(rows, 2, 96)
    with torch.no_grad():
        torch.testing.assert_close(packed(model)(x), model(x), rtol=1e-4, atol=1e-5)


class Watch(TorchDispatchMode):
    """The numbers of rows that oneDNN is asked for."""

    def __init__(self):
        super().__init__()
        self.rows = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "_linear_pointwise" in str(func):
            self.rows.add(args[0].numel() // args[0].shape[-1])
        return func(*args, **(kwargs or {}))


def test_onednn_sees_few_numbers_of_rows():
    """It keeps something for each, and would fill the memory on the way through a long text."""
    layer = packed(nn.Sequential(nn.Linear(512, 512)))
    with torch.no_grad(), Watch() as watch:
        for rows in range(1, 2049):
            assert layer(torch.zeros(rows, 512)).shape == (rows, 512)
    assert 0 < len(watch.rows) < 40


def test_a_score_that_cuts_the_weights_of_a_layer_in_two():
    """RNNsearch and others take columns of a weight rather than call the layer."""
    score = Additive(8, 8, 8)
    query, key = torch.randn(2, 3, 8), torch.randn(2, 4, 8)
    with torch.no_grad():
        torch.testing.assert_close(packed(score)(query, score.project(key)), score(query, score.project(key)))


def test_a_twin_follows_the_weights_and_the_config(model):
    first = twin(model)
    assert twin(model) is first
    with torch.no_grad():
        model.output.weight.mul_(2)
    second = twin(model)
    assert second is not first
    model.config = dataclasses.replace(model.config, alignment_head=1)
    assert twin(model).config.alignment_head == 1
    tanh = nn.Tanh()
    assert twin(tanh) is tanh


def test_a_twin_goes_when_its_model_goes():
    model = nn.Sequential(nn.Linear(64, 64))
    gone = weakref.ref(twin(model))
    assert gone() is not None
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("layers", [1, 2])
def test_a_step_of_an_lstm(layers):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.LSTM(24, 64, layers, batch_first=True), nn.Linear(2, 2))
    twin = packed(plain)[0]
    assert type(twin) is not nn.LSTM
    x, state = torch.randn(40, 1, 24), tuple(torch.randn(2, layers, 40, 64))
    with torch.no_grad():
        for given in ((x, state), (x, None), (torch.randn(40, 3, 24), state)):
            (out, after), (right, expected) = twin(*given), plain[0](*given)
            for one, other in zip((out, *after), (right, *expected)):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_step_of_a_gru():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.GRUCell(24, 64), nn.Linear(2, 2))
    x, before = torch.randn(50, 24), torch.randn(50, 64)
    with torch.no_grad():
        torch.testing.assert_close(packed(plain)[0](x, before), plain[0](x, before), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("system", [Luong, RNNsearch, Seq2seq])
def test_recurrent_systems_write_the_same(system, batch):
    config = sys.modules[system.__module__].Config
    torch.manual_seed(0)
    model = system(config(300, 300, embedding=48, hidden=64)).eval()
    one, other = (decode.beam(each, batch, size=4, max_length=12) for each in (model, packed(model)))
    assert [best.tokens for best, *_ in one] == [best.tokens for best, *_ in other]


def test_what_cannot_be_packed_stays():
    for model in (nn.Linear(3, 3).double(), nn.Tanh(), nn.Linear(3, 3, device="meta")):
        assert packed(model) is model
