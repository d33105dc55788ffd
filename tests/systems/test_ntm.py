"""The NTM: what its contracts do not say."""

import numpy as np
import pytest
import torch

import regard
from regard.systems.ntm import NTM, Config
from regard.tasks import tapes


def batch(length=5, rows=4, bits=4, seed=0):
    made = tapes.copy(np.random.default_rng(seed), rows, length, bits)
    return {name: torch.from_numpy(array) for name, array in made.items()}


def small(**more):
    torch.manual_seed(0)
    return NTM(Config(5, 4, **{"rows": 16, "width": 8, "hidden": 20, **more}))


def test_no_parameter_belongs_to_a_row():
    sizes = [{name: p.shape for name, p in small(rows=rows).named_parameters()} for rows in (16, 512)]
    assert sizes[0] == sizes[1]


def test_it_runs_with_more_rows_than_it_was_built_for():
    model = small()
    model.rows = 64
    with regard.record(model) as tape, torch.no_grad():
        model(batch())
    assert tape["heads"].weights.shape[-1] == 64


def test_training_takes_memories_of_many_sizes():
    model, seen = small(train_rows=[3, 6]), set()
    for mode in (True, False):
        model.train(mode)
        for _ in range(30):
            seen.add((mode, model.begin(torch.zeros(2, 0, 5)).memory.shape[-1]))
    assert seen == {(True, 3), (True, 4), (True, 5), (True, 6), (False, 16)}


def test_heads_begin_on_the_first_row_and_move_by_at_most_their_reach():
    model = small(reach=1)
    with torch.no_grad():  # gate closed: by place alone
        model.interface.bias[:].zero_()
        model.interface.weight[:].zero_()
        for head in range(2):
            model.interface.bias[head * 14 + 9] = -50.0
            model.interface.bias[head * 14 + 10] = 20.0
            model.interface.bias[head * 14 + 13] = 50.0  # always forward
    with regard.record(model) as tape, torch.no_grad():
        model(batch(length=3, rows=1))
    assert tape["heads"].weights[0, :, :, :].argmax(-1).tolist() == [[1, 2, 3, 4, 5, 6, 7]] * 2


def test_bits_are_those_of_the_whole_answer():
    model, made = small().eval(), batch()
    with torch.no_grad():
        out, chances = model(made), model.predict(made)
    paid = torch.where(made["target"] > 0.5, chances, 1 - chances).log2().sum(-1) * made["mask"]
    assert torch.allclose(out["bits"], -paid.sum(1).mean(), rtol=1e-5)
    wrong = ((chances > 0.5) != (made["target"] > 0.5)).float().mean(-1) * made["mask"]
    assert torch.allclose(out["errors"], (wrong.sum(1) / made["mask"].sum(1)).mean())


def test_nothing_asked_is_finite_and_counts_nothing():
    made = batch()
    made["mask"].zero_()
    out = small()(made)
    out["loss"].backward()
    assert out["count"] == 0 and all(torch.isfinite(value) for value in out.values())


def test_the_future_does_not_reach_the_past():
    model, made = small().eval(), batch()
    changed = {**made, "input": made["input"].clone()}
    changed["input"][:, 6:] += 1
    with torch.no_grad():
        assert torch.equal(model.predict(made)[:, :6], model.predict(changed)[:, :6])


def test_an_empty_tape():
    assert small().run(torch.zeros(3, 0, 5)).shape == (3, 0, 4)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"controller": "lstn"}, "'lstm'"),
        ({"rows": 0}, "rows"),
        ({"reach": -1}, "reach"),
        ({"train_rows": [9, 3]}, "least and the most"),
    ],
)
def test_bad_settings_are_named(option, message):
    with pytest.raises(ValueError, match=message):
        Config(5, 4, **option)


def train(model, steps, rate, *, longest, seed=0, rows=16, bits=4):
    """Adam on copying, as in the recipe."""
    random, optimizer = np.random.default_rng(seed), torch.optim.Adam(model.parameters(), lr=rate)
    for step in range(steps):
        length = int(random.integers(1, longest + 1))
        made = tapes.copy(random, rows, length, bits)
        loss = model({name: torch.from_numpy(array) for name, array in made.items()})["loss"]
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        assert torch.isfinite(loss) and torch.isfinite(norm), step
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def test_it_learns_to_copy():
    model = train(small(), 600, 0.004, longest=5)
    with torch.no_grad():
        errors = float(model(batch(length=5, rows=64, seed=9))["errors"])
    assert errors < 0.1, errors  # half of the bits are wrong by chance, and 0.3 without a memory


@pytest.mark.slow
@pytest.mark.parametrize("controller", ["feedforward", "lstm"])
@pytest.mark.parametrize("seed", range(20))
def test_nothing_breaks_at_twice_the_learning_rate(controller, seed):
    torch.manual_seed(seed)
    model = NTM(Config(9, 8, controller=controller))
    train(model, 500, 0.004, longest=20, seed=seed, bits=8)
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
