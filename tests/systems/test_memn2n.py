"""MemN2N against loops over the paper's equations, and many models at once against each alone."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from contracts.cases.stories import stories
from regard.layers.sentences import ages
from regard.systems.memn2n import Config, MemN2N, grouped


def model(seed: int = 0, **options) -> MemN2N:
    torch.manual_seed(seed)
    found = {"words": (11, 17), "memory": (3, 9), "restarts": 3, "dim": 6, "noise": 0.0, **options}
    return MemN2N(Config(**found))


def loops(net: MemN2N, batch: dict, task: int, restart: int, row: int) -> tuple[list[float], list[list[float]]]:
    """Logits over the task's words, and where each hop looked, in float64: the equations as they are printed."""
    config = net.config
    group, place = next((g, g.tasks.index(task)) for g in net.groups if task in g.tasks)
    dim, words = config.dim, config.words[task]
    tables = group.tables.detach().double()[:, place, restart].tolist()
    times = group.times.detach().double()[:, place, restart].tolist()
    layerwise = config.tying == "layerwise"

    def encode(ids: list[int], table: list, time: list | None, age: int) -> list[float]:
        said = [number for number in ids if number]
        found = list(time[age]) if time is not None else [0.0] * dim
        for j, number in enumerate(said, 1):
            for k in range(1, dim + 1):
                factor = 2 * ((1 - j / len(said)) - (k / dim) * (1 - 2 * j / len(said)))
                factor = 1.0 if config.encoding == "bag" else factor
                found[k - 1] += factor * table[number - 1][k - 1]
        return found

    story = [ids for ids in batch["story"][row, task].tolist() if any(ids)]
    linear = bool(group.linear[place, restart])
    u = encode(batch["question"][row, task].tolist(), tables[2 if layerwise else 0], None, 0)
    looked = []
    for hop in range(config.hops):
        key, value = (0, 1) if layerwise else (hop, hop + 1)
        m = [encode(ids, tables[key], times[key], age) for age, ids in enumerate(story)]
        c = [encode(ids, tables[value], times[value], age) for age, ids in enumerate(story)]
        scores = [sum(a * b for a, b in zip(u, each)) for each in m]
        if linear:
            p = scores
        else:
            total = sum(map(math.exp, scores)) + config.empty  # empty slots have score 0
            p = [math.exp(score) / total for score in scores]
        looked.append(p)
        if layerwise:
            mix = group.mix.detach().double()[0, place, restart].tolist()
            u = [sum(u[i] * mix[i][k] for i in range(dim)) for k in range(dim)]
        u = [u[k] + sum(weight * each[k] for weight, each in zip(p, c)) for k in range(dim)]
    answers = tables[3 if layerwise else config.hops]
    return [0.0, *(sum(a * b for a, b in zip(u, answers[word])) for word in range(words - 1))], looked


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"linear_start": False},
        {"linear_start": False, "tying": "layerwise"},
        {"linear_start": False, "encoding": "bag", "hops": 2, "empty": 0},
        {"words": (17,), "memory": (9,), "linear_start": False},
    ],
    ids=str,
)
def test_the_equations(options):
    net, batch = model(**options).double().eval(), stories()
    if len(net.config.words) == 1:
        batch = {name: tensor[:, 1:] for name, tensor in batch.items()}
    for group in net.groups:
        for parameter in group.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    for group, logits, looked, _ in net._answers(batch):
        for place, task in enumerate(group.tasks):
            for restart in range(3):
                for row in range(4):
                    expected, weights = loops(net, batch, task, restart, row)
                    got = logits[place, restart, row]
                    assert torch.allclose(got[: len(expected)], torch.tensor(expected, dtype=torch.float64), atol=1e-9)
                    assert (got[len(expected) :] < -1e30).all()
                    for hop, each in zip(looked, weights):
                        assert torch.allclose(
                            hop[row, place, restart, : len(each)], torch.tensor(each, dtype=torch.float64)
                        )
                        assert not hop[row, place, restart, len(each) :].any()


def test_loss_and_error_are_means_over_questions_and_models():
    net, batch = model().eval(), stories()
    batch["answer"][1, 0] = -1
    nll, wrong, count = 0.0, 0, 0
    for task, restart, row in ((t, r, b) for t in range(2) for r in range(3) for b in range(4)):
        answer = int(batch["answer"][row, task])
        if answer < 0:
            continue
        logits, _ = loops(net, batch, task, restart, row)
        nll += math.log(sum(map(math.exp, logits))) - logits[answer]
        wrong += max(range(1, len(logits)), key=logits.__getitem__) != answer
        count += 1
    out = net(batch)
    assert out["count"] == 7 and out["nll"].item() == pytest.approx(nll / count, abs=1e-5)
    assert out["loss"].item() == pytest.approx(2 * 3 * nll / count, rel=1e-5)
    assert out["error"].item() == pytest.approx(wrong / count)


def test_gradients():
    net = model(words=(7, 8), memory=(3, 4), restarts=2, dim=3, linear_rate=1.0).double()
    batch = {name: tensor[:2] for name, tensor in stories().items()}
    batch |= {name: batch[name].clamp(max=6) for name in ("story", "question", "answer")}
    for group in net.groups:
        group.linear[0, 0] = False  # some with softmax, some without
    parameters = dict(net.named_parameters())

    def loss(*values):
        return torch.func.functional_call(net, dict(zip(parameters, values)), (batch,))["loss"]

    net.eval()  # _Alone, which is not the gradient of anything, is for training
    given = tuple(p.detach().clone().requires_grad_() for p in parameters.values())
    assert torch.autograd.gradcheck(loss, given, atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("tying", ["adjacent", "layerwise"])
def test_many_models_train_as_each_would_alone(optimizer, tying):
    net = model(clip=0.3, tying=tying, linear_patience=1).double()
    batch = stories()
    alone = {(task, restart): net.pick([task], restart) for task in range(2) for restart in range(3)}
    begun = {each: copy.deepcopy(one.state_dict()) for each, one in alone.items()}
    validation = {"validation": torch.tensor(True)}

    def train(one: MemN2N, rows: dict) -> None:
        steps = optimizer(one.parameters(), lr=0.3)
        for number in range(6):
            one.train()
            one(rows)["loss"].backward()
            steps.step()
            steps.zero_grad()
            if number % 2:
                one.eval()
                with torch.no_grad():
                    one(rows | validation)

    train(net, batch)
    for (task, restart), one in alone.items():
        train(one, {name: tensor[:, task : task + 1] for name, tensor in batch.items()})
        got = net.pick([task], restart).state_dict()
        for name, tensor in one.state_dict().items():
            assert torch.allclose(got[name], tensor, atol=1e-9), (task, restart, name)
            if name.endswith("tables"):
                assert not torch.allclose(begun[task, restart][name], tensor, atol=1e-3)


def test_a_model_that_explodes_does_not_disturb_the_others():
    net, batch = model(clip=0.1), stories()
    before = net.pick([0], 1).state_dict()
    with torch.no_grad():
        net.groups[0].tables[:, 0, 0] *= 1e4
    net(batch)["loss"].backward()
    gradient = net.groups[0].tables.grad
    norms = [torch.cat([p.grad[:, 0, r].flatten() for p in net.groups[0].parameters()]).norm().item() for r in range(3)]
    assert torch.isfinite(gradient).all() and max(norms) <= 0.05 + 1e-6  # half the rate while linear
    assert norms[1] > 0
    after = net.pick([0], 1).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before if "trained" not in name)


def test_linear_start_ends_when_the_validation_loss_has_stopped_falling():
    net, batch = model(linear_patience=2), stories()
    seen = {**batch, "validation": torch.tensor(True)}

    def validated(offset: float) -> None:
        net.eval()
        with torch.no_grad():
            net(seen)
            for group in net.groups:
                group.judged[1] += offset * group.judged[0]
        net.train()
        net(batch)

    flags = []
    for offset in (3.0, 1.0, 2.0, 0.5, 0.6, 0.7, 0.1):
        validated(offset)
        flags.append(bool(net.groups[1].linear.all()))
    assert flags == [True, True, True, True, True, False, False]
    net.eval()
    with torch.no_grad():
        net(batch)  # not marked as validation: a test set is no business of the training
    assert not any(group.judged.any() for group in net.groups)
    other = model(linear_patience=2)
    other.load_state_dict(net.state_dict())
    assert not other.groups[1].linear.any() and torch.equal(other.groups[0].best, net.groups[0].best)


def test_weights_of_a_linear_start_are_told_normalized():
    """In its hops it has scores, which sum to anything; the share of support that is told must not exceed 1."""
    net, batch = model().eval(), stories()
    assert all(group.linear.all() for group in net.groups)
    weights = net.predict(batch)["weights"]
    there = (batch["story"] > 0).any(-1).any(-1)  # stories with a sentence
    sums = weights.sum(-1)
    assert (weights >= 0).all() and torch.allclose(sums[there], torch.ones(()), atol=1e-5)


def test_the_restart_with_the_lowest_training_error_answers():
    net, batch = model(), stories()
    group = net.groups[1]
    group.trained[:] = torch.tensor([[8.0, 8.0, 8.0], [3.0, 1.0, 1.0], [1.0, 9.0, 8.0]])[:, None]
    assert group.chosen().tolist() == [2]
    group.trained[2, :, 2] = math.nan  # this one diverged
    assert group.chosen().tolist() == [1]
    out = net.eval().predict(batch)
    small = net.pick([1]).eval()
    alone = small.predict({name: tensor[:, 1:] for name, tensor in batch.items()})
    assert torch.equal(out["answer"][:, 1:], alone["answer"])
    assert torch.allclose(out["weights"][:, 1:], alone["weights"], atol=1e-6)
    assert torch.allclose(out["probability"][:, 1:], alone["probability"], atol=1e-6)
    assert out["answer"].shape == (4, 2) and out["weights"].shape == (4, 2, 3, 5)
    assert (out["answer"] > 0).all() and (out["answer"] < torch.tensor([11, 17])).all()


def test_training_counts_for_the_choice():
    net, batch = model(), stories()
    for _ in range(2):
        net(batch)
    group = net.groups[0]
    assert (group.trained[0] == 8).all() and (group.trained[2] > 0).all()


def test_a_tape_sees_the_hops():
    net = model().eval()
    with regard.record(net) as tape, torch.no_grad():
        net(stories())
    assert len(tape["groups.1.attention"].calls) == 3
    assert tape["groups.1.attention"].calls[0].weights.shape[:3] == (4, 1, 3)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=12))
def test_groups_hold_every_task_once_and_memories_of_like_length(memory):
    groups = grouped(memory)
    assert sorted(task for group in groups for task in group) == list(range(len(memory)))
    for group in groups:
        sizes = [memory[task] for task in group]
        assert max(sizes) <= 2 * min(sizes)


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(0, 2**31))
def test_noise_only_moves_sentences_back(length, seed):
    torch.manual_seed(seed)
    exists = (torch.arange(40) < length).expand(8, 1, 40)
    found = ages(exists, 0.1, torch.tensor([[39]]))[..., :length]
    moved = found - torch.arange(length)
    assert (found.diff(dim=-1) >= 0).all() and (moved >= 0).all() and (found < 40).all()
    assert (moved <= math.ceil(0.1 * length)).all()
    assert torch.equal(ages(exists, 0.0, torch.tensor([[39]]))[0, 0], torch.arange(40))


def test_noise_draws_different_times():
    torch.manual_seed(0)
    found = ages((torch.arange(60) < 50).expand(200, 1, 60), 0.1, torch.tensor([[59]]))
    assert 1.5 < (found[..., 49] - 49).float().mean() < 3.5  # 0 to 5 blanks, most of them before the oldest


def test_bad_input():
    with pytest.raises(ValueError, match="this model has 2 tasks, not"):
        model()({name: tensor[:, :1] for name, tensor in stories().items()})
    with pytest.raises(ValueError, match="did you mean 'adjacent'"):
        Config(words=(3,), memory=(2,), tying="adjacend")
    with pytest.raises(ValueError, match="2 sizes of vocabularies for 1"):
        Config(words=(3, 4), memory=(2,))
    with pytest.raises(ValueError, match="hops must be at least 1, not 0"):
        Config(words=(3,), memory=(2,), hops=0)
