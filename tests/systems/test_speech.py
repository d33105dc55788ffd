"""Listen, Attend and Spell and the attention-based recognizer: the papers' equations as loops in float64."""

import importlib

import numpy as np
import pytest
import torch

from contracts.cases.speech import VOCAB, WIDTH, utterances
from regard import decode, registry


def build(name, **options):
    torch.manual_seed(0)
    cls = registry.system(name)
    config = importlib.import_module(cls.__module__).Config(vocab=VOCAB, features=WIDTH, **options)
    return cls(config).double().eval()


def double(batch):
    return {name: value.double() if value.is_floating_point() else value for name, value in batch.items()}


def a(tensor):
    return tensor.detach().numpy()


def linear(layer, x):
    return a(layer.weight) @ x + (0 if layer.bias is None else a(layer.bias))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(e):
    e = np.exp(e - e.max())
    return e / e.sum()


def lstm(cell, x, hidden, state):
    i, f, g, o = np.split(a(cell.weight_ih) @ x + a(cell.bias_ih) + a(cell.weight_hh) @ hidden + a(cell.bias_hh), 4)
    state = sigmoid(f) * state + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(state), state


def gru(cell, x, hidden):
    ri, zi, ni = np.split(a(cell.weight_ih) @ x + a(cell.bias_ih), 3)
    rh, zh, nh = np.split(a(cell.weight_hh) @ hidden + a(cell.bias_hh), 3)
    r, z = sigmoid(ri + rh), sigmoid(zi + zh)
    return (1 - z) * np.tanh(ni + r * nh) + z * hidden


def mlp(layers, x):
    return linear(layers[2], np.maximum(linear(layers[0], x), 0))


def nll_of(model, batch, spell):
    """The mean over all tokens; ``spell`` gives the logits of a row, token by token."""
    total = 0.0
    heard, lengths = model.listener(batch["frames"], batch["frame_lengths"])
    for row, count in enumerate(batch["target_lengths"].tolist()):
        target = batch["target"][row].tolist()
        for t, logits in enumerate(spell(a(heard[row, : lengths[row]]), target[:count])):
            total -= np.log(softmax(logits)[target[t + 1]])
    return total / int(batch["target_lengths"].sum())


SMALL = {"listener": 5, "embedding": 4, "attention": 6}


@pytest.mark.parametrize("layers", [1, 2])
def test_listen_attend_spell(layers):
    model, batch = build("listen_attend_spell", **SMALL, speller=7, pyramid=2, layers=layers), double(utterances())

    def spell(heard, tokens):
        state, context = [(np.zeros(7), np.zeros(7)) for _ in range(layers)], np.zeros(10)
        for token in tokens:
            x = np.concatenate([a(model.characters.weight)[token], context])
            for k in range(layers):
                state[k] = lstm(model.cells[k], x, *state[k])
                x = state[k][0]
            query = mlp(model.attention.score.query, x)
            weights = softmax(np.array([query @ mlp(model.attention.score.key, h) for h in heard]))
            context = sum(w * h for w, h in zip(weights, heard))
            yield linear(model.output, np.tanh(linear(model.readout, np.concatenate([x, context]))))

    assert float(model(batch)["nll"]) == pytest.approx(nll_of(model, batch, spell))


@pytest.mark.parametrize(
    "options",
    [
        {"score": "content"},
        {"score": "location"},
        {"score": "location", "smooth": True},
        {"score": "location", "sharpen": 2.0, "keep": 3},
        {"score": "content", "window": 2},
        {"score": "location", "window": 1, "halvings": 1},
    ],
)
def test_the_recognizer(options):
    shape = {**SMALL, "decoder": 7, "maxout": 6, "layers": 2, "filters": 2, "kernel": 3}
    model, batch = build("attention_recognizer", **shape, **options), double(utterances())
    score, config = model.attention.score, model.config

    def spell(heard, tokens):
        state, context, count = np.zeros(7), np.zeros(10), len(heard)
        last = np.full(count, 1 / count)  # before the first token, as LocationAware begins
        seen = None
        for token in tokens:
            state = gru(model.cell, np.concatenate([a(model.characters.weight)[token], context]), state)
            e = np.empty(count)
            for j in range(count):
                inner = linear(score.query, state) + linear(score.key, heard[j])
                if options["score"] == "location":
                    f = [
                        sum(kernel[0, d + 1] * last[j + d] for d in (-1, 0, 1) if 0 <= j + d < count)
                        for kernel in a(score.convolution.weight)
                    ]
                    inner = inner + linear(score.location, np.array(f))
                e[j] = a(score.v) @ np.tanh(inner)
            allowed = np.ones(count, bool)
            if config.window:
                middle = 0 if seen is None else int(np.searchsorted(seen.cumsum(), 0.5 * seen.sum()))
                allowed = np.abs(np.arange(count) - middle) <= config.window
            if config.keep:
                allowed &= e >= np.sort(e[allowed])[-min(config.keep, allowed.sum())]
            power = sigmoid(e) if config.smooth else np.exp(config.sharpen * e)
            weights = power * allowed / (power * allowed).sum()
            last = seen = weights
            context = sum(w * h for w, h in zip(weights, heard))
            yield linear(model.output, linear(model.readout, np.concatenate([state, context])).reshape(-1, 2).max(1))

    assert float(model(batch)["nll"]) == pytest.approx(nll_of(model, batch, spell))


def test_going_back_costs():
    shape = {**SMALL, "decoder": 7, "maxout": 6, "layers": 1, "filters": 2, "kernel": 3}
    model, batch = build("attention_recognizer", **shape, monotonic=3.0), double(utterances())
    with torch.no_grad():
        out, state, means = model(batch), model.start(batch), []
        for t in range(int(batch["target_lengths"].max())):
            _, state = model.step(batch["target"][:, t], state)
            means.append((state["weights"] * torch.arange(11) / batch["frame_lengths"][:, None]).sum(-1))
    total = sum(
        max(0.0, float(means[t - 1][row] - means[t][row]))
        for row, count in enumerate(batch["target_lengths"].tolist())
        for t in range(1, count)
    )
    penalty = total / int(batch["target_lengths"].sum())
    assert penalty > 0 and float(out["penalty"]) == pytest.approx(penalty)
    assert float(out["loss"]) == pytest.approx(float(out["nll"]) + 3 * penalty)


class TestSampling:
    def fed(self, model, batch):
        """What the speller was fed at each step."""
        found = []
        model.characters.register_forward_hook(lambda module, given, out: found.append(given[0]))
        model(batch)
        return torch.stack(found, 1)

    @pytest.mark.parametrize(("share", "training"), [(0.0, True), (1.0, True), (0.5, True), (1.0, False)])
    def test_only_in_training_and_as_often_as_said(self, share, training):
        model = build("listen_attend_spell", **SMALL, speller=7, pyramid=1, sampling=share).train(training)
        batch = double(utterances())
        batch = {name: value.repeat(50, *[1] * (value.ndim - 1)) for name, value in batch.items()}
        given, fed = batch["target"][:, :-1], self.fed(model, batch)
        assert torch.equal(fed[:, 0], given[:, 0])
        changed = float((fed[:, 1:] != given[:, 1:]).double().mean())
        assert changed == pytest.approx(share * training, abs=0.08)

    def test_draws_follow_the_distribution(self):
        model = build("listen_attend_spell", **SMALL, speller=7, pyramid=1, sampling=1.0).train()
        hidden = torch.randn(1, 7).double().expand(40_000, 7)
        drawn = model._sampled(torch.zeros(40_000, dtype=torch.long), hidden)
        shares = torch.bincount(drawn, minlength=VOCAB) / 40_000
        assert torch.allclose(shares.double(), torch.softmax(model.output(hidden[:1])[0], -1), atol=0.012)


@pytest.mark.parametrize("name", ["listen_attend_spell", "attention_recognizer"])
def test_alignments_are_over_frames_and_answers_end(name):
    model, batch = build(name, **SMALL, join=2).float(), utterances()
    assert model.limit(batch).tolist() == [11 // 4 + 2, 7 // 4 + 2, 2, 4]
    with torch.no_grad():
        found = decode.beam(model, batch, size=3, max_length=model.limit(batch))
    for (best, *_), length in zip(found, batch["frame_lengths"].tolist()):
        assert best.alignment.shape[1] == 11
        assert torch.allclose(best.alignment[:, :length].sum(1), torch.ones(len(best.alignment)), atol=1e-4)
        assert (best.alignment[:, length:] == 0).all()


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("listen_attend_spell", {"sampling": 1.5}, "between 0 and 1, not 1.5"),
        ("listen_attend_spell", {"speller": 0}, "speller must be at least 1, not 0"),
        ("listen_attend_spell", {"pyramid": -1}, "pyramid, a number of layers"),
        ("attention_recognizer", {"score": "locaton"}, "did you mean 'location'"),
        ("attention_recognizer", {"cell": "rnn"}, "cell cannot be 'rnn'"),
        ("attention_recognizer", {"window": -1}, "window must be at least 0"),
        ("attention_recognizer", {"smooth": True, "keep": 3}, "choose one"),
        ("attention_recognizer", {"kernel": 4}, "must be odd"),
    ],
)
def test_settings_that_cannot_be_are_told(name, options, told):
    with pytest.raises(ValueError, match=told):
        build(name, **options)
