"""Show, Attend and Tell against its equations, and what hard attention learns from."""

import pytest
import torch

import regard
from contracts.cases.captions import CELLS, VOCAB, WIDTH, captions
from regard.layers import reinforce, text
from regard.layers.grid import Grid
from regard.systems.show_and_tell import Config as ConfigOnce
from regard.systems.show_and_tell import ShowAndTell
from regard.systems.show_attend_tell import Config, ShowAttendTell


def build(**changes) -> ShowAttendTell:
    torch.manual_seed(0)
    sizes = {"vocab": VOCAB, "features": WIDTH, "embedding": 8, "hidden": 12, "attention": 10, "dropout": 0.0}
    return ShowAttendTell(Config(**{**sizes, **changes}))


def test_one_step_by_the_papers_equations():
    model, batch = build().eval(), captions()
    token = torch.tensor([1, 5, 6, 7])
    with torch.no_grad():
        logits, state = model.step(token, model.start(batch))
        a = model.grid(batch)
        h, c = model.begin(a.mean(1)).chunk(2, -1)
        h = h.tanh()
        score = model.attention.score
        e = torch.tanh(score.query(h)[:, None] + score.key(a)) @ score.v
        alpha = torch.softmax(e, -1)
        z = torch.sigmoid(model.gate(h)) * (alpha[..., None] * a).sum(1)
        h, c = model.cell(torch.cat([model.words(token), z], -1), (h, c))
        expected = model.output(torch.tanh(model.words(token) + model.from_hidden(h) + model.from_context(z)))
    torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(model.alignment(state), alpha)


def test_the_penalty_is_the_papers():
    model, batch = build(penalty=2.0), captions()
    with regard.record(model) as tape:
        found = model(batch)
    weights = torch.cat([call.weights for call in tape["attention"].calls], 1)  # (B, T, L)
    each = []
    for row, length in zip(weights, batch["target_lengths"]):
        each.append(sum((1 - sum(row[t, i] for t in range(length))) ** 2 for i in range(CELLS)) / CELLS * length)
    penalty = sum(each) / batch["target_lengths"].sum()
    torch.testing.assert_close(found["penalty"], penalty)
    torch.testing.assert_close(found["loss"], found["nll"] + 2 * penalty)


def test_the_penalty_spreads_maps_over_the_image():
    covered = {}
    for penalty in (0.0, 20.0):
        model, batch = build(penalty=penalty), captions()
        with torch.no_grad():
            model.attention.score.v.mul_(20)  # maps of few places to begin with
        optimizer = torch.optim.Adam(model.attention.parameters(), lr=0.03)
        for _ in range(30):
            optimizer.zero_grad()
            model(batch)["loss"].backward()
            optimizer.step()
        with regard.record(model) as tape, torch.no_grad():
            model(batch)
        weights = torch.cat([call.weights for call in tape["attention"].calls], 1)
        covered[penalty] = weights.sum(1).std(-1).mean()
    assert covered[20.0] < 0.7 * covered[0.0]


def test_without_a_gate_the_context_is_not_scaled():
    model = build(gate=False).eval()
    assert model.gate is None
    with torch.no_grad():
        memory, state = model._look_at(captions())
        context, out = model._attend(state[0], memory)
    assert torch.equal(context, out.context[:, 0])


def test_hard_attention_looks_at_one_place():
    model, batch = build(hard=True, expected=0.0), captions()
    for training in (True, False):
        model.train(training)
        with regard.record(model) as tape, torch.no_grad():
            model(batch)
        for call in tape["attention"].calls:
            assert set(call.weights.flatten().tolist()) == {0.0, 1.0}
    first, again = (model.step(torch.ones(4, dtype=torch.long), model.start(batch))[0] for _ in range(2))
    assert torch.equal(first, again), "what was trained looks at the likeliest place"


def test_half_of_the_images_keep_the_expectation():
    batch = {name: torch.cat([tensor] * 50) for name, tensor in captions().items()}
    model = build(hard=True)
    with regard.record(model) as tape, torch.no_grad():
        model(batch)
    sampled = torch.cat([(call.weights == 1).any(-1) for call in tape["attention"].calls], 1)  # (B, T)
    assert (sampled.all(1) | ~sampled.any(1)).all(), "an image is drawn for all of its words or for none"
    assert 0.35 < sampled[:, 0].float().mean() < 0.65


def test_it_starts_soft_and_then_draws():
    model, batch = build(hard=True, expected=0.0, soft_steps=2), captions()
    drawn = []
    for _ in range(4):
        with regard.record(model) as tape:
            model(batch)
        drawn.append(bool((tape["attention"].calls[0].weights == 1).any()))
    assert drawn == [False, False, True, True]
    assert int(model.steps) == 4
    model.eval()(batch)
    assert int(model.steps) == 4


def test_the_baseline_moves():
    model, batch = build(hard=True), captions()
    first = model(batch)["nll"]
    assert float(model.baseline) == pytest.approx(-float(first))
    second = model(batch)["nll"]
    assert float(model.baseline) == pytest.approx(-0.9 * float(first) - 0.1 * float(second), rel=1e-5)


def test_hard_attention_is_reinforced_by_its_own_words():
    """The gradient of the score is that of −(log p(yₜ) − b) log p(sₜ) − λₑ H alone, where everything is drawn."""
    model, batch = build(hard=True, expected=0.0, entropy=0.3, reinforce=0.7), captions()
    model.baseline.fill_(-2.0)
    model.steps.fill_(5)
    hidden: list = []
    read = model._read
    model._read = lambda *given: hidden.append(read(*given)) or hidden[-1]
    looks: list = []
    attend = model._attend
    model._attend = lambda *given, **more: looks.append(attend(*given, **more)) or looks[-1]
    found = torch.autograd.grad(model(batch)["loss"], model.attention.score.v, retain_graph=True)[0]
    reward = text.log_probs(hidden[0], model.output, batch).detach()
    real = torch.arange(6) < batch["target_lengths"][:, None]
    drawn = torch.cat([out.log_prob for _, out in looks], 1)
    entropy = reinforce.entropy(torch.cat([out.scores for _, out in looks], 1))
    loss = -(0.7 * (reward + 2.0) * drawn * real + 0.3 * entropy * real).sum() / real.sum()
    expected = torch.autograd.grad(loss, model.attention.score.v)[0]
    torch.testing.assert_close(found, expected)


def test_grids_of_any_size():
    model = build().eval()
    for cells in (49, 196):
        batch = {**captions(), "features": torch.randn(4, cells, WIDTH)}
        _, state = model.step(torch.ones(4, dtype=torch.long), model.start(batch))
        assert model.alignment(state).shape == (4, cells)


def test_another_kind_of_batch_is_named():
    with pytest.raises(ValueError, match="the batch brings images, but the system is built for features of width 6"):
        build()(captions(pixels=True))
    with pytest.raises(ValueError, match=r"features \(4, 9, 6\), but the system is built for images"):
        build(features=0)(captions())


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"penalty": -1.0}, "penalty must be at least 0"), ({"attention": 0}, "attention, the width"),
     ({"expected": 2.0}, "expected, a share"),
     ({"hard": True, "label_smoothing": 0.1}, "for soft attention")],
)  # fmt: skip
def test_settings_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        build(**changes)


def test_log_probs_are_those_of_the_loss():
    model, batch = build(), captions()
    hidden = torch.randn(4, 6, 8)
    each, whole = text.log_probs(hidden, model.output, batch), text.loss(hidden, model.output, batch)
    torch.testing.assert_close(-each.sum() / whole["count"], whole["nll"])
    assert not each[3, 2:].any()


def test_entropy_of_places():
    scores = torch.tensor([[0.0, 0.0, 0.0, 0.0], [100.0, 0.0, 0.0, 0.0]])
    torch.testing.assert_close(reinforce.entropy(scores), torch.tensor([4.0, 1.0]).log())


def test_a_cell_of_an_image_knows_where_it_is():
    torch.manual_seed(0)
    cells = Grid(0, 8)({"image": torch.full((1, 3, 32, 32), 0.5)})[0]
    assert cells.shape == (16, 8)
    inner = cells[[5, 6, 9, 10]]  # away from the border
    assert not torch.allclose(inner[0], inner[3], atol=1e-4)


def test_what_looks_once_feeds_the_image_first():
    torch.manual_seed(0)
    model, batch = ShowAndTell(ConfigOnce(VOCAB, WIDTH, embedding=8, hidden=12)).eval(), captions()
    with torch.no_grad():
        logits, _ = model.step(torch.ones(4, dtype=torch.long), model.start(batch))
        image = model.image(model.grid(batch).mean(1))
        states, _ = model.cell(torch.stack([image, model.words(torch.ones(4, dtype=torch.long))], 1))
    torch.testing.assert_close(logits, model.output(states[:, 1]))
    assert model.alignment({}) is None
