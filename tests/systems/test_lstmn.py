"""LSTMN: its equations as loops in float64, its fusions, and that without looking it is an LSTM."""

import pytest
import torch

from regard.systems import lstmn

SIZES = {"vocab": 13, "embedding": 4, "hidden": 5, "attention": 6, "joint": 3, "dropout": 0.0, "spread": 1.0}


def build(**options):
    torch.manual_seed(0)
    return lstmn.Lstmn(lstmn.Config(**{**SIZES, **options})).double().eval()


def look(attention, query, tape, values):
    """Σ softmax(vᵀ tanh(W [q; k])) values, key by key."""
    score = attention.score
    scores = [score.v @ torch.tanh(score.joint.weight @ torch.cat([query, key])) for key in tape]
    shares = torch.stack(scores).softmax(0)
    return sum(share * value for share, value in zip(shares, values))


def read(cell, words, source=None):
    """The states and cells of one sentence (T, width), token by token, as the paper writes them."""
    size = cell.hidden
    hidden, cells, out = [], [], []
    seen = inter = torch.zeros(size, dtype=torch.float64)
    for x in words:
        if hidden:
            values = [torch.cat(pair) for pair in zip(hidden, cells)]
            seen, past = look(cell.attention, torch.cat([x, seen]), hidden, values).split(size)
        else:
            seen = past = torch.zeros(size, dtype=torch.float64)
        gates = cell.gates.weight @ torch.cat([x, seen]) + cell.gates.bias
        i, f, o, c = (
            gates[:size].sigmoid(),
            gates[size : 2 * size].sigmoid(),
            gates[2 * size : 3 * size],
            gates[3 * size :],
        )
        new = f * past + i * c.tanh()
        if source is not None:
            values = [torch.cat(pair) for pair in zip(*source)]
            inter, alpha = look(cell.inter, torch.cat([x, inter]), source[0], values).split(size)
            if cell.fusion == "deep":
                new = new + (cell.reads.weight @ torch.cat([x, inter]) + cell.reads.bias).sigmoid() * alpha
        state = o.sigmoid() * new.tanh()
        hidden.append(state)
        cells.append(new)
        if source is not None and cell.fusion == "shallow":
            state = (cell.beside.weight @ torch.cat([state, inter]) + cell.beside.bias).tanh()
        out.append(state)
    return torch.stack(out), (hidden, cells)


def test_a_language_model_equals_its_equations():
    model, tokens = build(), torch.randint(4, 13, (2, 6))
    batch = {"target": tokens, "target_lengths": torch.tensor([5, 3])}
    total = count = 0
    for row, length in zip(tokens, batch["target_lengths"]):
        hidden, _ = read(model.cells[0], model.words.weight[row[:-1]])
        log_prob = (hidden @ model.output.weight.T + model.output.bias).log_softmax(-1)
        total -= sum(log_prob[t, row[t + 1]] for t in range(length))
        count += length
    assert float(model(batch)["nll"]) == pytest.approx(float(total / count), rel=1e-6)


@pytest.mark.parametrize("fusion", ["shallow", "deep"])
def test_a_pair_equals_its_equations(fusion):
    model = build(classes=3, pairs=True, fusion=fusion)
    batch = {
        "source": torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0]]),
        "source_lengths": torch.tensor([4, 3]),
        "second": torch.tensor([[8, 2, 0], [9, 10, 2]]),
        "second_lengths": torch.tensor([2, 3]),
    }
    found = model.predict(batch)
    for b in range(2):
        one, tapes = read(model.cells[0], model.words.weight[batch["source"][b, : batch["source_lengths"][b]]])
        other, _ = read(model.others[0], model.words.weight[batch["second"][b, : batch["second_lengths"][b]]], tapes)
        one, other = one.mean(0), other.mean(0)
        both = torch.cat([one, other, (one - other).abs(), one * other])
        shares = model.classes(torch.relu(model.joint(both))).softmax(-1)
        assert torch.allclose(found[b], shares)


def test_without_looking_it_is_an_lstm():
    model, tokens = build(intra=False), torch.randint(4, 13, (2, 6))
    cell = model.cells[0]
    lstm = torch.nn.LSTM(4, 5, batch_first=True).double()
    gate = torch.cat([torch.arange(0, 10), torch.arange(15, 20), torch.arange(10, 15)])  # torch: i, f, g, o
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(cell.gates.weight[gate, :4])
        lstm.weight_hh_l0.copy_(cell.gates.weight[gate, 4:])
        lstm.bias_ih_l0.copy_(cell.gates.bias[gate])
        lstm.bias_hh_l0.zero_()
        hidden, _ = model._read(model.cells, tokens)
        assert torch.allclose(hidden, lstm(model.words(tokens))[0])
    assert not model.uses


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fusion": "no"}, "fusion is one of"),
        ({"tied": True}, "hidden = embedding"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"attention": 0}, "attention must be at least 1"),
        ({"word_dropout": 2.0}, "word_dropout = 2.0: a share"),
    ],
)
def test_what_cannot_be_built(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)
