"""All layers in one call give what the layers give one by one, in double precision."""

from __future__ import annotations

import copy
import gc
import itertools

import pytest
import torch
from torch import nn

import regard
from regard import change, decode, kernels, record
from regard.decode.packed import packed
from regard.decode.states import select
from regard.kernels import few_rows
from regard.kernels.stack import Stack
from regard.layers import stepwise
from regard.layers.stepwise import Stepwise
from regard.layers.transformer import Decoder, LayerConfig
from regard.systems import gpt, transformer

here = isinstance(packed(nn.Sequential(Decoder(LayerConfig(8, 2, 8), 1)))[0], Stepwise)
pytestmark = pytest.mark.skipif(not here, reason="models are packed on x86 alone")


@pytest.fixture
def calls(monkeypatch):
    """How often a stack was asked."""
    made, plain = [], Stack.step

    def step(self, *args, **options):
        made.append(len(args[0]))
        return plain(self, *args, **options)

    monkeypatch.setattr(Stack, "step", step)
    return made


def lively(model):
    """With weights and norms that all matter."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()


def language_model(**changes):
    sizes = {"longest": 40, "dim": 24, "heads": 4, "hidden": 50, "layers": 3}
    return lively(gpt.Gpt(gpt.Config(60, **(sizes | changes))))


def translator(**changes):
    sizes = {"dim": 24, "heads": 4, "hidden": 50, "encoder_layers": 1, "decoder_layers": 3}
    return lively(transformer.Transformer(transformer.Config(60, 60, **(sizes | changes))))


def same(found, expected):
    scale = float(expected.abs().max())
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=1e-5 * scale)


CHOICES = [
    {},
    {"norm": "post"},
    {"activation": "relu"},
    {"positions": "rotary"},
    {"key_heads": 2},
    {"key_heads": 1, "positions": "rotary"},
    {"window": 3},
    {"window": 2, "key_heads": 2, "norm": "post", "positions": "rotary", "activation": "relu"},
    {"heads": 1, "hidden": 7, "layers": 1},
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
@pytest.mark.parametrize(("rows", "prompt"), [(1, 0), (1, 9), (3, 4), (4, 1), (6, 3), (7, 2)])
@torch.no_grad()
def test_a_language_model(choices, rows, prompt, calls):
    model = language_model(**choices)
    exact, fast = copy.deepcopy(model).double(), packed(model)
    tokens = torch.randint(4, 60, (rows, 16), generator=torch.Generator().manual_seed(rows))
    batch = {"prompt": tokens[:, :prompt]} if prompt else {"target": tokens}
    states = exact.start(batch), fast.start(batch)
    calls.clear()
    for step in range(12):
        if step in (4, 7):  # as a beam does: some twice, some not at all, then fewer
            index = torch.randint(rows, (rows if step == 4 else max(1, rows - 1),))
            states, tokens = tuple(select(state, index) for state in states), tokens[index]
            rows = len(index)
        expected, first = exact.step(tokens[:, step], states[0])
        found, second = fast.step(tokens[:, step], states[1])
        states = first, second
        same(found, expected)
    assert len(calls) == 12
    for one, other in zip(states[0]["own"], states[1]["own"]):  # others may go on from here
        same(other.key, one.key)
        same(other.value, one.value)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("head", [-1, 1])
@pytest.mark.parametrize("layer", [-1, 0])
@torch.no_grad()
def test_a_translator(norm, head, layer, calls):
    model = translator(norm=norm, alignment_head=head, alignment_layer=layer)
    exact, fast = copy.deepcopy(model).double(), packed(model)
    lengths = torch.tensor([6, 5, 1, 3, 6])
    batch = {"source": torch.randint(4, 60, (5, 6)), "source_lengths": lengths}
    states, token = (exact.start(batch), fast.start(batch)), torch.ones(5, dtype=torch.long)
    calls.clear()
    for step in range(9):
        expected, first = exact.step(token, states[0])
        found, second = fast.step(token, states[1])
        states = first, second
        same(found, expected)
        same(fast.alignment(second), exact.alignment(first))
        token = expected.argmax(-1)
        if step == 3:
            index = torch.tensor([4, 0, 0, 2, 3, 1, 1])
            states, token = tuple(select(state, index) for state in states), token[index]
    assert len(calls) == 9


@torch.no_grad()
def test_a_state_that_two_go_on_from():
    model = packed(language_model())
    before = model.start({"prompt": torch.randint(4, 60, (2, 8))})
    one, other = torch.tensor([5, 6]), torch.tensor([7, 8])
    expected, _ = model.step(one, before)
    _, begun = model.step(one, before)
    model.step(other, before)
    again, _ = model.step(one, before)
    same(again, expected)
    first, _ = model.step(other, begun)
    second, _ = model.step(other, model.step(one, before)[1])
    same(first, second)


@torch.no_grad()
def test_a_text_longer_than_what_is_read_at_once(calls):
    model = language_model(longest=12)
    batch = {"prompt": torch.randint(4, 60, (2, 3))}
    both = [decode.greedy(each, batch, max_length=40, eos=-1) for each in (model, packed(model))]
    assert [best.tokens for best, *_ in both[0]] == [best.tokens for best, *_ in both[1]]
    assert len(calls) > 30


@torch.no_grad()
def test_searches_write_the_same():
    model, batch = translator(), {"source": torch.randint(4, 60, (6, 7)), "source_lengths": torch.tensor([7, 3] * 3)}
    for size in (1, 4):
        one, other = (decode.beam(each, batch, size=size, max_length=15) for each in (model, packed(model)))
        assert [best.tokens for best, *_ in one] == [best.tokens for best, *_ in other]
        for (first, *_), (second, *_) in zip(one, other):
            torch.testing.assert_close(first.alignment, second.alignment, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_tape_sees_every_attention(calls):
    model, batch = language_model(), {"prompt": torch.randint(4, 60, (2, 5))}
    twin = packed(model)
    with record(twin) as tape:
        decode.greedy(twin, batch, max_length=4)
    assert not calls
    assert [name for name in tape if name.endswith("own")] == [f"decoder.layers.{n}.own" for n in range(3)]
    with change(twin, "decoder.layers.0.own", weights="uniform"):
        altered, _ = twin.step(torch.tensor([4, 4]), twin.start(batch))
    assert not calls
    plain, _ = twin.step(torch.tensor([4, 4]), twin.start(batch))
    assert calls and not torch.allclose(altered, plain)


def test_what_it_leaves_to_the_layers(calls, monkeypatch):
    twin = packed(language_model())
    token, start = torch.tensor([4, 5]), {"prompt": torch.randint(4, 60, (2, 5))}
    with torch.no_grad():
        state = twin.start(start)
        expected, _ = twin.step(token, state)
        calls.clear()
        with kernels.use("plain"):
            same(twin.step(token, state)[0], expected)
        monkeypatch.setattr(stepwise, "MOST", 50)
        same(twin.step(token, state)[0], expected)
        monkeypatch.undo()
        few, halves = select(state, torch.tensor([0])), regard.Memory(*torch.randn(2, 2, 4, 5, 6).bfloat16())
        for odd in (few, {**state, "own": [halves] * 3}, {**state, "own": state["own"][:2]}):
            with pytest.raises((RuntimeError, ValueError, IndexError)):
                twin.step(token, odd)
    hidden = torch.randn(2, 1, 24, requires_grad=True)
    twin.decoder.step(hidden, state)[0].sum().backward()
    assert hidden.grad.abs().sum() > 0 and not calls


def decoder(cross=False, **changes):
    return Decoder(LayerConfig(16, 2, 32, **changes), 2, cross)


def hooked(model):
    model.layers[1].think.register_forward_hook(lambda *_: None)
    return model


def changed(model, path, value):
    *place, name = path.split(".")
    setattr(model.get_submodule(".".join(place)), name, value)
    return model


UNKNOWN = {
    "another score": lambda: decoder(score="cosine"),
    "another normalizer": lambda: decoder(normalizer="sparsemax"),
    "a hook": lambda: hooked(decoder()),
    "layers that differ": lambda: changed(decoder(), "layers.1.around_own.norm.eps", 1e-3),
    "a temperature": lambda: changed(decoder(), "layers.0.own.attention.normalizer.temperature", 2.0),
    "another activation": lambda: changed(decoder(), "layers.0.think.1", nn.SiLU()),
    "tanh for erf": lambda: changed(decoder(activation="gelu"), "layers.0.think.1.approximate", "tanh"),
    "another last norm": lambda: changed(decoder(norm="pre"), "norm.eps", 1e-3),
    "norms before and after": lambda: changed(decoder(), "layers.1.around_think.first", True),
    "a deeper network": lambda: changed(decoder(), "layers.1.think", nn.Sequential(nn.Linear(16, 16))),
    "another module": lambda: changed(decoder(), "layers.1.own", nn.Linear(16, 16)),
    "halves of a head": lambda: changed(decoder(positions="rotary"), "layers.1.own.positions.halves", True),
}


@pytest.mark.parametrize("build", UNKNOWN.values(), ids=UNKNOWN)
def test_what_it_does_not_know(build):
    assert Stepwise.fits(decoder()) and Stepwise.fits(decoder(cross=True, positions="rotary"))
    assert not Stepwise.fits(build())


@torch.no_grad()
def test_a_decoder_whose_source_is_missing():
    twin = packed(nn.Sequential(lively(decoder(cross=True))))[0]
    x = torch.randn(2, 1, 16)
    hidden, _, _ = twin.step(x, twin.start(x))
    same(hidden, Decoder.step(twin, x, twin.start(x))[0])


@torch.no_grad()
def test_weights_stay_where_it_reads_them():
    model, token, batch = language_model(), torch.tensor([4]), {"prompt": torch.tensor([[5, 6]])}
    twin = packed(model)
    state = twin.start(batch)
    before, _ = twin.step(token, state)
    twin.decoder.stack = copy.deepcopy(twin.decoder.stack)
    for weight in model.decoder.parameters():
        weight.data = torch.full_like(weight, torch.nan)
    gc.collect()
    after, _ = twin.step(token, state)
    same(after, before)


@torch.no_grad()
def test_saved_and_loaded(tmp_path):
    model, batch = language_model(positions="rotary"), {"prompt": torch.randint(4, 60, (1, 5))}
    torch.save(model.state_dict(), tmp_path / "weights")
    loaded = gpt.Gpt(model.config).eval()
    loaded.load_state_dict(torch.load(tmp_path / "weights"))
    one, other = (decode.greedy(packed(each), batch, max_length=8)[0][0] for each in (model, loaded))
    assert (one.tokens, one.log_prob) == (other.tokens, other.log_prob)


@pytest.mark.parametrize("threads", [1, 2])
@torch.no_grad()
def test_any_number_of_threads(threads, monkeypatch):
    monkeypatch.setattr("regard.kernels._pool.INLINE", 0)
    model, lengths = translator(), torch.tensor([7, 3, 1, 6, 5])
    batch = {"source": torch.randint(4, 60, (5, 7)), "source_lengths": lengths}
    exact, before = copy.deepcopy(model).double(), torch.get_num_threads()
    token, fast = torch.arange(4, 9), packed(model)
    torch.set_num_threads(threads)
    try:
        found, _ = fast.step(token, fast.start(batch))
    finally:
        torch.set_num_threads(before)
    same(found, exact.step(token, exact.start(batch))[0])


@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (7, 3), (130, 17), (64, 800)])
@torch.no_grad()
def test_products(outputs, inputs):
    for rows, biased in itertools.product((1, 2, 3, 5, 8, 13), (True, False)):
        x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
        bias = torch.randn(outputs) if biased else None
        expected = nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
        same(few_rows.linear(x, weight, bias), expected)


def test_products_are_for_many_weights_without_gradients():
    x, weight = torch.randn(1, 256), torch.randn(256, 256)
    with torch.no_grad():
        assert few_rows.fits(x, weight)
        assert not few_rows.fits(x[:, :8], weight[:, :8].contiguous())
        assert not few_rows.fits(x, weight.mT.contiguous().mT)
        assert not few_rows.fits(x.double(), weight.double())
        with kernels.use("plain"):
            assert not few_rows.fits(x, weight)
    assert not few_rows.fits(x, weight)
