"""Each equation of the pointer-generator as a loop in float64, and what it may and may not write."""

import numpy as np
import pytest
import torch

from contracts.cases.summaries import SMALL, VOCAB, apart, copied
from contracts.cases.text import pairs
from regard import decode
from regard.decode.config import DecodeConfig
from regard.decode.config import decode as search
from regard.systems.pointer_generator import Config, PointerGenerator


def build(**options):
    torch.manual_seed(4)
    return PointerGenerator(Config(**{**SMALL, **options})).double().eval()


def a(tensor):
    return tensor.detach().numpy()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    power = np.exp(x - x.max())
    return power / power.sum()


def linear(layer, x):
    return a(layer.weight) @ x + (0 if layer.bias is None else a(layer.bias))


def lstm(weights, x, hidden, inner):
    given, fed, one, other = weights
    gates = a(given) @ x + a(one) + a(fed) @ hidden + a(other)
    enter, forget, new, out = gates.reshape(4, -1)
    inner = sigmoid(forget) * inner + sigmoid(enter) * np.tanh(new)
    return sigmoid(out) * np.tanh(inner), inner


def read_source(model, words):
    """[→hᵢ; ←hᵢ] of each word, and the last states of both directions."""
    sides = []
    for layer, order in ((model.encoder.forwards, words), (model.encoder.backwards, words[::-1])):
        weights = layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0
        state, states = (np.zeros(SMALL["hidden"]),) * 2, []
        for word in order:
            state = lstm(weights, a(model.words.weight)[word], *state)
            states.append(state[0])
        sides.append(states)
    ahead, behind = sides
    return [np.concatenate(pair) for pair in zip(ahead, behind[::-1])], np.concatenate([ahead[-1], behind[-1]])


def by_hand(model, source, extended, fed):
    """For each token that is fed: P over the vocabulary and temporary ids, the weights, how likely each place is
    copied, and Σᵢ min(aᵢ, cᵢ)."""
    config, score, cell = model.config, model.attention.score, model.cell
    states, last = read_source(model, source)
    hidden, inner = np.split(np.tanh(linear(model.bridge, last)), 2)
    context, coverage = np.zeros(2 * config.hidden), np.zeros(len(source))
    for token in fed:
        word = a(model.words.weight)[token if token < VOCAB else 3]
        x = linear(model.join, np.concatenate([word, context]))
        hidden, inner = lstm((cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh), x, hidden, inner)
        e = np.empty(len(source))
        for i, h in enumerate(states):
            z = linear(score.query, hidden) + linear(score.key, h)
            if config.coverage:
                z = z + a(score.location.weight)[:, 0] * score.convolution.weight.item() * coverage[i]
            e[i] = a(score.v) @ np.tanh(z)
        weights = softmax(e)
        context = sum(w * h for w, h in zip(weights, states))
        p = np.zeros(VOCAB + 3)
        p[:VOCAB] = softmax(linear(model.output, linear(model.readout, np.concatenate([hidden, context]))))
        p_gen = 1.0
        if config.pointer:
            p_gen = sigmoid(linear(model.gate, np.concatenate([context, hidden, x]))[0])
            p *= p_gen
            for i, id in enumerate(extended):
                p[id] += (1 - p_gen) * weights[i]
        yield p, weights, (1 - p_gen) * weights, np.minimum(weights, coverage).sum()
        coverage = coverage + weights


@pytest.mark.parametrize("pointer", [True, False])
@pytest.mark.parametrize("coverage", [0.7, 0.0])
def test_each_equation(pointer, coverage):
    model, batch = build(pointer=pointer, coverage=coverage), copied()
    out = model(batch)
    nll = again = 0.0
    for one in apart(batch):
        (source,), (extended,), (target,) = (one[name].tolist() for name in ("source", "extended", "target"))
        for t, (p, _, _, repeated) in enumerate(by_hand(model, source, extended, target[:-1])):
            assert p.sum() == pytest.approx(1)
            wanted = target[t + 1] if pointer or target[t + 1] < VOCAB else 3
            nll, again = nll - np.log(p[wanted]), again + repeated
    count = int(batch["target_lengths"].sum())
    assert int(out["count"]) == count
    assert float(out["nll"]) == pytest.approx(nll / count)
    assert float(out["loss"].detach()) == pytest.approx((nll + coverage * again) / count)
    assert ("coverage" in out) == bool(coverage)
    if coverage:
        assert again > 0 and float(out["coverage"]) == pytest.approx(again / count)


def test_step_gives_the_whole_distribution():
    model, batch = build(), copied()
    with torch.no_grad():
        state = model.start(batch)
        for t in range(2):
            log_prob, state = model.step(batch["target"][:, t], state)
            assert log_prob.shape == (4, VOCAB + 3)
            for row, one in enumerate(apart(batch)):
                (source,), (extended,) = one["source"].tolist(), one["extended"].tolist()
                *_, (p, weights, pointed, _) = by_hand(model, source, extended, batch["target"][row, : t + 1].tolist())
                assert np.allclose(log_prob[row].exp(), p)
                looked = model.alignment(state)
                assert np.allclose(looked["words"][row, : len(source)], weights)
                assert np.allclose(looked["copied"][row, : len(source)], pointed)
    # A temporary id that an item does not have is impossible.
    assert torch.isneginf(log_prob[3, VOCAB:]).tolist() == [True, True, True]
    assert torch.isneginf(log_prob[0, VOCAB:]).tolist() == [True, False, False]


@pytest.mark.parametrize("options", [{}, {"coverage": 0.0}, {"pointer": False}])
def test_gradients(options):
    model, batch = build(**options), copied()
    named = [(name, each) for name, each in model.named_parameters() if each.numel() < 60]
    assert len(named) >= 4

    def loss(*values):
        changed = dict(zip((name for name, _ in named), values, strict=True))
        return torch.func.functional_call(model, changed, (batch,))["loss"]

    assert torch.autograd.gradcheck(loss, tuple(each.detach().clone().requires_grad_() for _, each in named))


def test_what_attention_never_reached_has_a_finite_gradient():
    model, batch = build(coverage=0.0).float(), copied()
    with torch.no_grad():
        model.attention.score.v.mul_(1e4)
    out = model(batch)
    out["loss"].backward()
    assert torch.isfinite(out["loss"])
    assert all(torch.isfinite(each.grad).all() for each in model.parameters())


@pytest.mark.parametrize("method", ["beam", "greedy"])
def test_batched_search_equals_one_by_one(method):
    """Though alone an item has fewer temporary ids."""
    model, batch = build(), copied()
    config = DecodeConfig(method=method, size=3, unknown=False)
    together = search(model, batch, config)
    for row, one in enumerate(apart(batch)):
        ((alone,),) = search(model, one, config)
        assert alone.tokens == together[row][0].tokens
        assert alone.log_prob == pytest.approx(together[row][0].log_prob)


def test_no_item_draws_the_words_of_another():
    model, batch = build(), copied()
    generator = torch.Generator().manual_seed(0)
    drawn = decode.sample(model, batch, samples=20, max_length=9, generator=generator)
    temporary = [{id for one in many for id in one.tokens if id >= VOCAB} for many in drawn]
    assert any(temporary)
    for row, seen in enumerate(temporary):
        assert seen <= set(batch["extended"][row].tolist())


def test_only_the_pointer_writes_unknown_words():
    batch = copied()
    model = build()
    with torch.no_grad():
        model.gate.weight.zero_()
        model.gate.bias.fill_(-50.0)  # p_gen ≈ 0
    for row, (best,) in enumerate(decode.greedy(model, batch, max_length=4)):
        assert set(best.tokens) <= set(batch["extended"][row].tolist())
    control = build(pointer=False)
    assert control.step(batch["target"][:, 0], control.start(batch))[0].shape == (4, VOCAB)


def test_an_ensemble_of_pointers():
    models, batch = [build(), build(coverage=0.0)], copied()
    ensemble = decode.Ensemble(models).eval()
    with torch.no_grad():
        both, _ = ensemble.step(batch["target"][:, 0], ensemble.start(batch))
        each = [model.step(batch["target"][:, 0], model.start(batch))[0].exp() for model in models]
    assert torch.allclose(both.exp(), sum(each) / 2)


def test_a_batch_without_temporary_ids():
    model, batch = build(), pairs()
    assert float(model(batch)["nll"]) == pytest.approx(float(model({**batch, "extended": batch["source"]})["nll"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"coverage": -1.0}, "coverage, the weight"), ({"hidden": 0}, "hidden must be at least 1, not 0")],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)
