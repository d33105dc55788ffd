"""The Stack RNN: its equations as loops, rounding, the list."""

import math

import numpy as np
import pytest
import torch

import regard
from regard.systems.stack_rnn import Config, StackRNN
from regard.tasks.counting import Config as TaskConfig
from regard.tasks.counting import Counting


def small(**more):
    torch.manual_seed(0)
    return StackRNN(Config(**{"symbols": 3, "hidden": 5, "stacks": 2, **more})).double()


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def by_hand(model, symbols, rounding):
    """The paper's equations, one number at a time; logits and tops of each step."""
    config, p = (
        model.config,
        {name: tensor[model.chosen()].tolist() for name, tensor in model.state_dict().items() if tensor.ndim},
    )
    depth = 30
    middle = depth if config.structure == "list" else 0
    stacks = [[-1.0] * (2 * depth + 1) for _ in range(config.stacks)]
    hidden = [0.0] * config.hidden
    logits, tops = [], []

    def line(name, x):
        bias = p.get(f"{name}.bias") or [0.0] * len(p[f"{name}.weight"])
        return [b + sum(w * v for w, v in zip(row, x, strict=True)) for row, b in zip(p[f"{name}.weight"], bias)]

    def seen(stack):
        return [stack[middle - k if middle else k] for k in range(config.tops)]

    for symbol in symbols:
        total = line("tops", [x for stack in stacks for x in seen(stack)])
        total = [x + y for x, y in zip(total, p["input"][symbol])]
        if config.recurrent:
            total = [x + y for x, y in zip(total, line("recurrent", hidden))]
        hidden = [sigmoid(x) for x in total]
        scores, elements = line("choice", hidden), [sigmoid(x) for x in line("element", hidden)]
        logits.append(line("output", hidden))
        for s, stack in enumerate(stacks):
            e = scores[s * len(model.names) : (s + 1) * len(model.names)]
            exps = [math.exp(x) for x in e]
            a = [x / sum(exps) for x in exps]
            if rounding:
                a = [float(x == max(a)) for x in a]
            after = {
                "push": [elements[s], *stack[:-1]],
                "pop": [*stack[1:], -1.0],
                "no-op": stack,
                "left": [-1.0, *stack[:-1]],
                "right": [*stack[1:], -1.0],
                "insert": [*stack[1 : middle + 1], elements[s], *stack[middle + 1 :]],
            }
            stacks[s] = [
                sum(weight * after[name][i] for weight, name in zip(a, model.names)) for i in range(len(stack))
            ]
        tops.append([seen(stack) for stack in stacks])
    return logits, tops


@pytest.mark.parametrize("structure", ["stack", "list"])
@pytest.mark.parametrize("more", [{}, {"no_op": True, "recurrent": True, "tops": 3}])
@pytest.mark.parametrize("training", [True, False])
def test_it_computes_the_papers_equations(structure, more, training):
    model = small(structure=structure, **more).train(training)
    symbols = torch.randint(0, 3, (2, 9))
    with torch.no_grad():
        logits, tops = model.run(symbols)
    for b in range(2):
        expected = by_hand(model, symbols[b].tolist(), rounding=not training)
        assert np.allclose(logits[b], expected[0], atol=1e-10)
        assert np.allclose(tops[b], expected[1], atol=1e-10)


def test_rounding_takes_one_action():
    model = small().eval()
    with regard.record(model) as tape, torch.no_grad():
        model.run(torch.randint(0, 3, (2, 6)))
    weights = tape["actions"].weights
    assert weights.shape == (1, 2, 2, 6, 2) and set(weights.unique().tolist()) <= {0.0, 1.0}
    model.train()
    with regard.record(model) as tape, torch.no_grad():
        model.run(torch.randint(0, 3, (2, 6)))
    assert ((tape["actions"].weights > 0) & (tape["actions"].weights < 1)).all()


def test_a_stack_remembers_what_was_pushed():
    """Push for every a and pop for every b: what comes back is what went in, in reverse."""
    model = small(stacks=1, symbols=2).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.input[0, 0], model.input[0, 1] = 50.0, -50.0
        model.choice.weight[0, 0], model.choice.weight[0, 1] = 1.0, -1.0
        model.choice.bias[0, 1] = 1.0
        model.element.bias[:] = -2.0
        tops = model.run(torch.tensor([[0, 0, 0, 1, 1, 1, 1]]))[1][0, :, 0, 0]
    pushed = sigmoid(-2.0)
    assert torch.allclose(tops, torch.tensor([pushed] * 5 + [-1.0, -1.0]).double()[[0, 1, 2, 3, 4, 5, 6]])


def test_a_shallow_stack_loses_its_bottom_only():
    deep, shallow = small(depth=50), small(depth=2)
    shallow.load_state_dict(deep.state_dict())
    symbols = torch.randint(0, 3, (2, 3))
    with torch.no_grad():
        assert torch.allclose(deep.run(symbols)[0], shallow.run(symbols)[0])


def test_gradients():
    model = small(no_op=True)
    symbols = torch.randint(0, 3, (2, 5))
    names = [name for name, _ in model.named_parameters()]

    def loss(*values):
        return torch.func.functional_call(
            model, dict(zip(names, values)), ({"symbols": symbols, "known": symbols[:, 1:].double()},)
        )["loss"]

    values = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    with regard.kernels.use("plain"):
        assert torch.autograd.gradcheck(loss, values)


def test_errors_are_of_determined_symbols():
    model = small().eval()
    symbols = torch.randint(0, 3, (3, 8))
    wrong = (model.predict({"symbols": symbols}) != symbols[:, 1:]).double()
    for known in (torch.ones(3, 7), torch.zeros(3, 7), (symbols[:, 1:] == 1).double()):
        out = model({"symbols": symbols, "known": known})
        assert torch.isclose(out["errors"].double(), (wrong * known).mean())


def test_it_learns_to_count():
    task = Counting(TaskConfig(longest=5, longest_test=8, length=20, batches=250))
    torch.manual_seed(1)
    model = StackRNN(Config(**task.sizes, hidden=20, stacks=4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for made in task.loader("train"):
        model(made)["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        assert np.mean([float(model(made)["errors"]) for made in task.loader("valid")]) < 0.1


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="'stack'"):
        Config(2, structure="stak")
    with pytest.raises(ValueError, match="stacks"):
        Config(2, stacks=0)


def cut(model, restart):
    """The state of one restart, as a model that has no other."""
    state = model.state_dict()
    return {name: tensor[restart : restart + 1] if tensor.ndim else tensor for name, tensor in state.items()}


def test_restarts_learn_as_each_would_alone():
    """Side by side or one by one: the same gradients; and the best of them answers."""
    many = small(restarts=3).train()
    batch = {"symbols": torch.randint(0, 3, (4, 8)), "known": torch.randint(0, 2, (4, 7))}
    out = many(batch)
    out["loss"].backward()
    total = 0.0
    for restart in range(3):
        one = small().train()
        one.load_state_dict(cut(many, restart))
        alone = one(batch)
        alone["loss"].backward()
        total += float(alone["loss"].detach())
        for (name, theirs), (_, mine) in zip(many.named_parameters(), one.named_parameters()):
            assert torch.allclose(theirs.grad[restart], mine.grad[0]), name
    assert float(out["loss"].detach()) == pytest.approx(total)
    many.cost.copy_(torch.tensor([2.0, 1.0, 3.0]))
    one.load_state_dict(cut(many, 1))
    assert torch.equal(many.eval().predict(batch), one.eval().predict(batch))


def test_the_restart_that_counts_when_it_rounds_is_chosen():
    """The cost of each is that of its own rounded predictions, of every tenth batch."""
    many = small(restarts=3).train()
    batch = {"symbols": torch.randint(0, 3, (4, 8)), "known": torch.randint(0, 2, (4, 7))}
    before = many.cost.clone()
    for _ in range(10):
        many(batch)
    for restart in range(3):
        one = small().eval()
        one.load_state_dict(cut(many, restart))
        logits = one.run(batch["symbols"][:, :-1])[0]
        each = -logits.log_softmax(-1).gather(-1, batch["symbols"][:, 1:, None])[..., 0]
        cost = (each * batch["known"]).sum() / batch["known"].sum()
        assert torch.allclose(many.cost[restart], 0.9 * before[restart] + 0.1 * cost)
    assert many.chosen() == int(many.cost.argmin())
