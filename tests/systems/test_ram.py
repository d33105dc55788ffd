"""RAM and its player: the hybrid loss against loops, what reaches what, and that they learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import regard
from regard.layers import catch
from regard.layers.reinforce import discounted, log_normal
from regard.systems import cnn, ram, ram_agent

SIZES = dict(channels=1, height=12, width=10, classes=4)
SMALL = dict(glimpses=4, size=4, scales=2, what=6, where=5, hidden=8)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def batch(count=5):
    return {"image": torch.rand(count, 1, 12, 10), "label": torch.randint(0, 4, (count,))}


def build(**more):
    return ram.RAM(ram.Config(**SIZES, **{**SMALL, **more}))


def test_discounted_reward_and_density():
    rewards = torch.tensor([[0.0, 0.0, 1.0], [1.0, 2.0, 3.0]])
    assert discounted(rewards, 0.5).tolist() == [0.25, 1 + 2 * 0.5 + 3 * 0.25]
    assert discounted(rewards, 1.0).tolist() == [1.0, 6.0]
    drawn, mean = torch.randn(3, 2), torch.randn(3, 2)
    exact = torch.distributions.Normal(mean, 0.3).log_prob(drawn).sum(-1) + 2 * math.log(0.3 * math.sqrt(2 * math.pi))
    assert torch.allclose(log_normal(drawn, mean, 0.3), exact, atol=1e-5)


@pytest.mark.parametrize("rollouts", [1, 3])
def test_the_loss_is_the_papers(rollouts):
    """By loops over images, runs and glimpses, from the choices that were made."""
    model, data = build(rollouts=rollouts, discount=0.9, reinforce=0.7).double(), batch()
    data["image"] = data["image"].double()
    torch.manual_seed(3)
    out = {name: value.detach() for name, value in model(data).items()}
    torch.manual_seed(3)
    with torch.no_grad():
        run = model.look(data["image"].repeat_interleave(rollouts, 0))
        nll = baseline = reinforce = wrong = 0.0
        for n in range(5 * rollouts):
            y, hidden = int(data["label"][n // rollouts]), run.hidden[:, n]
            log_prob = torch.log_softmax(model.action(hidden[-1]), -1)
            right = int(log_prob.argmax()) == y
            reward = 0.9**3 * right
            nll -= float(log_prob[y])
            wrong += 1 - right
            for t in range(3):
                b, mean = float(model.baseline(hidden[t])), model.location(hidden[t])
                baseline += (b - reward) ** 2 / 3
                log_pi = -float(((run.drawn[t, n] - mean) ** 2).sum()) / (2 * 0.15**2)
                reinforce -= log_pi * (reward - b)
    count = 5 * rollouts
    assert float(out["nll"]) == pytest.approx(nll / count)
    assert float(out["error"]) == pytest.approx(wrong / count)
    assert float(out["baseline"]) == pytest.approx(baseline / count)
    assert float(out["reinforce"]) == pytest.approx(reinforce / count)
    assert float(out["loss"]) == pytest.approx((nll + baseline + 0.7 * reinforce) / count)


def gradients(model, value):
    found = torch.autograd.grad(value, list(model.parameters()), allow_unused=True, retain_graph=True)
    names = [name.split(".")[0] for name, _ in model.named_parameters()]
    return {name for name, g in zip(names, found) if g is not None and g.any()}


@pytest.mark.parametrize("core", ["rnn", "lstm"])
def test_reinforce_reaches_the_location_network_alone(core):
    model = build(core=core, std=0.3)
    out = model(batch(40))
    assert gradients(model, out["reinforce"]) == {"location"}
    assert gradients(model, out["baseline"]) == {"baseline"}
    assert gradients(model, out["nll"]) == {"glimpse", "core", "action"}


def test_reinforce_points_where_the_reward_is():
    """The mean gradient of many choices is that of the expected reward, of which the location network knows nothing."""
    model, count = build(glimpses=2, hidden=4, std=0.2).double(), 20_000
    run = model.look(torch.rand(1, 1, 12, 10, dtype=torch.float64))
    same = run.hidden.detach().expand(-1, count, -1)
    drawn = model.location(same[0]).detach() + 0.2 * torch.randn(1, count, 2, dtype=torch.float64)
    reward = drawn[0, :, 0]  # the further to the right, the better: d E[R] / d mean = (1, 0)
    terms = model.policy_terms(ram.Rollout(run.locations, drawn, same), reward)
    found = torch.autograd.grad(-terms["reinforce"].mean(), model.location[-2].bias)[0]
    slope = 1 - model.location(same[0, :1])[0, 0].item() ** 2  # of tanh
    assert torch.allclose(found, torch.tensor([slope, 0.0], dtype=torch.float64), atol=0.05)


def test_where_it_looks():
    model, data = build(start="centre"), batch(200)
    run = model.look(data["image"])
    assert run.locations.shape == (4, 200, 2) and run.drawn.shape == (3, 200, 2)
    assert not run.locations[0].any() and run.locations.abs().max() <= 1
    assert torch.equal(run.locations[1:], run.drawn.clamp(-1, 1))
    spread = (run.drawn - model.location(run.hidden[:-1])).std()
    assert abs(float(spread.detach()) - 0.15) < 0.02
    assert build().look(data["image"]).locations[0].std() > 0.4  # uniform
    anywhere = build(policy="random").look(data["image"]).locations
    assert anywhere.min() < -0.9 and anywhere.max() > 0.9 and abs(float(anywhere.mean())) < 0.1
    model.eval()
    assert torch.equal(model.look(data["image"]).locations, model.look(data["image"]).locations)


def test_several_runs_vote_when_it_is_tested():
    model, data = build(test_rollouts=8).eval(), batch(6)
    torch.manual_seed(1)
    out = model(data)
    torch.manual_seed(1)
    together = model.predict(data)
    assert torch.allclose(together.sum(-1), torch.ones(6))
    expected = -together.gather(1, data["label"][:, None]).log().mean()
    assert torch.allclose(out["nll"], expected, atol=1e-6)
    assert float(out["error"]) == float((together.argmax(-1) != data["label"]).float().mean())


def test_a_tape_holds_the_places():
    model, data = build().eval(), batch()
    with regard.record(model) as tape, torch.no_grad():
        model(data)
    assert len(tape["glimpse.retina"].calls) == 4
    assert tape["glimpse.retina"].calls[0].weights.shape == (5, 32, 120)
    seen = model.seen(data)
    assert seen["patch"].shape == (5, 4, 1, 2, 4, 4) and seen["location"].shape == (5, 4, 2)
    assert seen["sides"].tolist() == [4, 8] and torch.allclose(seen["probability"][:, -1], model.predict(data))


def test_nothing_in_nothing_out():
    out = build()({"image": torch.zeros(0, 1, 12, 10), "label": torch.zeros(0, dtype=torch.long)})
    assert out["count"] == 0 and all(torch.isfinite(value) for value in out.values())


def test_bad_input():
    with pytest.raises(ValueError, match="glimpse of 11 × 11 is larger than an image of 12 × 10"):
        build(size=11)
    with pytest.raises(ValueError, match="size must be at least 1, not 0"):
        build(size=0)
    with pytest.raises(ValueError, match="'learned'"):
        build(policy="learnd")
    with pytest.raises(ValueError, match="without a spread"):
        build(std=0.0)
    with pytest.raises(ValueError, match=r"\(2, 1, 9, 9\), but the system is built for \(B, 1, 12, 10\)"):
        build()({"image": torch.zeros(2, 1, 9, 9), "label": torch.zeros(2, dtype=torch.long)})


def test_the_cost_of_an_image_does_not_grow_with_it():
    sizes = [{**SIZES, "height": side, "width": side} for side in (28, 60, 100)]
    seeing = [ram.RAM(ram.Config(**size, glimpses=6, size=8)).multiplications() for size in sizes]
    # By hand, T × (what + where + both to 256 + core) + class, and the location network.
    glimpse = 64 * 128 + 2 * 128 + 2 * 128 * 256 + 2 * 256 * 256 + 2 * 256
    assert seeing == [6 * glimpse + 256 * 4] * 3
    control = [cnn.CNN(cnn.Config(**size)).multiplications() for size in sizes]
    assert control[0] == 8 * 16 * 100 + 8 * 16 * 256 + 256 * 4 and control[0] < control[1] < control[2]


def test_it_learns_where_to_look():
    """A spot is lit or not, and cannot be seen from where it starts."""
    sizes = dict(channels=1, height=16, width=16, classes=2, what=16, where=8, hidden=16)
    model = ram.RAM(ram.Config(**sizes, glimpses=2, size=6, start="centre", std=0.3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def data(count):
        label = torch.randint(0, 2, (count,))
        image = torch.zeros(count, 1, 16, 16)
        image[:, 0, 11, 4] = label.float()
        return {"image": image, "label": label}

    for _ in range(200):
        loss = model(data(128))["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        out, seen = model(data(200)), model.seen(data(200))
    assert out["error"] < 0.05
    x, y = ((seen["location"][:, 1] + 1) * 8).mean(0).tolist()
    assert abs(x - 4.5) <= 3.5 and abs(y - 11.5) <= 3.5


# ---------------------------------------------------------------------------------------------------------------------
# Catch


def starts(count, size=9, paddle=2):
    random = np.random.default_rng(0)
    draws = {"ball": (0, size), "speed": (-1, 2), "paddle": (0, size - paddle + 1)}
    return {name: torch.from_numpy(random.integers(*span, count)) for name, span in draws.items()}


def player(**more):
    return ram_agent.RAMAgent(ram_agent.Config(9, 9, 2, **{"size": 3, "scales": 2, "hidden": 32, **more}))


def test_the_game_against_a_loop():
    data, actions = starts(50), torch.randint(0, 3, (8, 50))
    game = catch.Game(0, data["ball"], data["speed"], data["paddle"])
    for action in actions:
        game = catch.step(game, action, 9, 2)
    won = catch.caught(game, 2)
    for n in range(50):
        ball, speed, paddle = (int(data[name][n]) for name in ("ball", "speed", "paddle"))
        for t in range(8):
            if not 0 <= ball + speed <= 8:
                speed = -speed
            ball += speed
            paddle = min(max(paddle + int(actions[t, n]) - 1, 0), 7)
        assert (ball, paddle) == (int(game.ball[n]), int(game.paddle[n]))
        assert bool(won[n]) == (paddle <= ball < paddle + 2)
    screen = catch.screen(game, 9, 9, 2)
    assert screen.shape == (50, 1, 9, 9) and set(screen.unique().tolist()) == {0.0, 1.0}
    expected = torch.where(won, 2.0, 3.0)
    assert torch.equal(screen.sum((1, 2, 3)), expected)


def test_its_actions_change_what_it_sees():
    model = player().eval()
    with torch.no_grad():
        model.action.bias.copy_(torch.tensor([0.0, 0.0, 50.0]))
    seen = model.seen(starts(3))
    assert seen["screen"].shape == (3, 9, 1, 9, 9) and (seen["action"] == 2).all()
    assert (seen["screen"][:, -1, 0, -1, 7:] == 1).all()  # the paddle went all the way to the right


def test_the_players_loss_by_loops():
    model, data = player(discount=0.9, entropy=0.1).double(), starts(6)
    torch.manual_seed(5)
    out = model(data)
    torch.manual_seed(5)
    with torch.no_grad():
        play = model.play(data)
    total = 0.0
    for n in range(6):
        reward = 0.9**7 * float(play.caught[n])
        for t in range(8):
            log_prob = play.log_prob[t, n]
            b = float(model.baseline(play.hidden[t, n]).detach())
            total += (b - reward) ** 2 / 8 - float(log_prob[play.actions[t, n]]) * (reward - b)
            total += 0.1 * float((log_prob.exp() * log_prob).sum())
            if t < 7:
                away = (play.drawn[t, n] - play.means[t, n]) / 0.15
                total += float((away**2).sum()) / 2 * (reward - b)
    assert float(out["loss"].detach()) == pytest.approx(total / 6)
    assert gradients(model, out["baseline"]) == {"baseline"}
    assert gradients(model, out["looking"]) == {"location"}
    assert gradients(model, out["reinforce"]) == {"glimpse", "core", "action"}


@pytest.mark.slow
def test_the_player_learns():
    """REINFORCE depends much on its luck, so one of two players must."""
    assert max(learned(seed) for seed in range(2)) > 0.3


def learned(seed, steps=800):
    """How many more balls a player catches after a short training."""
    torch.manual_seed(seed)
    model = ram_agent.RAMAgent(ram_agent.Config(9, 9, 2, size=3, scales=3, hidden=64, what=32, where=16))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    rate = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    before = float(model(starts(512))["caught"])
    for _ in range(steps):
        loss = model(starts_anew(128))["loss"]
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        rate.step()
    with torch.no_grad():
        return float(model.eval()(starts(512))["caught"]) - before


def starts_anew(count):
    return {
        "ball": torch.randint(0, 9, (count,)),
        "speed": torch.randint(-1, 2, (count,)),
        "paddle": torch.randint(0, 8, (count,)),
    }
