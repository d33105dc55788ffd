"""Learning rates and the rest of what a config says."""

import math
from itertools import pairwise

import pytest
import torch

from regard.training import TrainConfig, optimizers
from regard.training.schedules import Schedule
from training.toys import config


def rates(steps, epoch=lambda step: 0.0, total=None, **changes):
    schedule = Schedule(config(**changes), total)
    return [schedule(step, epoch(step)) for step in steps]


def test_noam():
    """The formula of the paper, and its peak at the end of the warm-up: 7.0e-4 for the base model."""
    found = rates([1, 2000, 4000, 16000], schedule="noam", lr=1.0, width=512, warmup=4000)
    assert found == pytest.approx([1.74693e-7, 3.49386e-4, 6.98771e-4, 3.49386e-4], rel=1e-5)


def test_inverse_sqrt_is_noam_by_its_peak():
    peak = 512**-0.5 * 4000**-0.5
    steps = [1, 100, 4000, 4001, 90000]
    noam = rates(steps, schedule="noam", lr=1.0, width=512, warmup=4000)
    assert rates(steps, schedule="inverse_sqrt", lr=peak, warmup=4000) == pytest.approx(noam)


def test_cosine():
    found = rates([5, 10, 60, 110, 500], schedule="cosine", lr=2.0, warmup=10, min_lr=0.2, total=110)
    assert found == pytest.approx([1.0, 2.0, 1.1, 0.2, 0.2])


def test_constant_with_warmup():
    assert rates([1, 2, 4, 5, 100], lr=1.0, warmup=4) == [0.25, 0.5, 1.0, 1.0, 1.0]
    assert rates([1, 100], lr=1.0) == [1.0, 1.0]


def test_step_in_epochs_as_sutskever_halved():
    """0.7; after five epochs halved every half epoch; 7.5 epochs in all."""
    positions = [0, 4.99, 5, 5.49, 5.5, 6, 7.49]
    schedule = Schedule(config(schedule="step", lr=0.7, decay_after=5, decay_every=0.5))
    found = [schedule(1, position) / 0.7 for position in positions]
    assert found == pytest.approx([1, 1, 1 / 2, 1 / 2, 1 / 4, 1 / 8, 1 / 32])


def test_step_in_steps():
    found = rates(range(1, 9), schedule="step", lr=1.0, decay_in="steps", decay_after=3, decay_every=2, min_lr=0.2)
    assert found == [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.2]


def test_plateau_and_its_state():
    schedule = Schedule(config(schedule="plateau", lr=1.0, decay_patience=2))
    found = []
    for better in [True, False, True, False, False, False, False, False]:
        schedule.observe(better)
        found.append(schedule(1, 0))
    assert found == [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25]
    other = Schedule(config(schedule="plateau", lr=1.0, decay_patience=2))
    other.load_state_dict(schedule.state_dict())
    for each in (schedule, other):
        each.observe(False)
    assert other(1, 0) == schedule(1, 0) == 0.125
    constant = Schedule(config(schedule="constant", lr=1.0))
    constant.observe(False)
    assert constant(1, 0) == 1


@pytest.mark.parametrize("name", ["constant", "noam", "inverse_sqrt", "cosine", "step", "plateau"])
def test_every_schedule_rises_in_its_warmup_and_never_later(name):
    found = rates(
        range(1, 101), schedule=name, lr=1.0, warmup=20, width=8, total=100, epoch=lambda step: (step - 1) // 25
    )
    assert all(a < b for a, b in pairwise(found[:20]))
    assert all(a >= b for a, b in pairwise(found[19:]))
    assert all(math.isfinite(rate) and rate >= 0 for rate in found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(optimizer="adamm"), "unknown optimizer 'adamm': did you mean 'adam'"),
        (dict(schedule="cosin"), "unknown schedule 'cosin': did you mean 'cosine'"),
        (dict(precision="bf16"), "unknown precision 'bf16': did you mean 'bfloat16'"),
        (dict(mode="maximum"), "unknown mode 'maximum'"),
        (dict(steps=None), "say when to end"),
        (dict(schedule="noam", width=8), "needs warmup"),
        (dict(schedule="noam", warmup=8), "needs width"),
        (dict(schedule="cosine", steps=None, minutes=3), "needs to know its end"),
        (dict(accumulate=0), "accumulate must be at least 1, not 0"),
        (dict(steps=-1), "steps must be at least 0, not -1"),
        (dict(lr=0), "lr must be more than 0, not 0"),
        (dict(lr=math.nan), "lr must be more than 0, not nan"),
        (dict(clip=0), "clip must be more than 0, not 0"),
        (dict(betas=[0.9]), "betas are two numbers"),
    ],
)
def test_what_makes_no_sense_is_said(changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)


def test_lists_of_a_recipe_become_tuples_and_nothing_can_be_changed_later():
    made = TrainConfig(steps=1, betas=[0.9, 0.98])
    assert made.betas == (0.9, 0.98)
    with pytest.raises(AttributeError):
        made.steps = 2


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "adadelta"])
def test_optimizers_take_their_fields(name):
    fields = {
        "adam": dict(betas=(0.8, 0.9), epsilon=1e-9, weight_decay=0.1),
        "adamw": dict(betas=(0.8, 0.9), epsilon=1e-9, weight_decay=0.1),
        "sgd": dict(momentum=0.5, weight_decay=0.1),
        "adadelta": dict(rho=0.95, epsilon=1e-6, weight_decay=0.1),
    }[name]
    frozen = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
    parameters = [torch.nn.Parameter(torch.ones(2)), frozen]
    made = optimizers.build(parameters, config(optimizer=name, lr=0.3, **fields), torch.device("cpu"))
    group = made.param_groups[0]
    assert type(made).__name__.lower() == name and len(group["params"]) == 1
    for field, value in {**fields, "lr": 0.3}.items():
        assert group["eps" if field == "epsilon" else field] == value
    if name != "adadelta":
        assert group["fused"]


def test_a_warm_up_longer_than_a_third_of_the_training_is_shortened():
    from regard.training.loop import _warmup

    assert _warmup(TrainConfig(steps=300, warmup=100), 300) == 100
    assert _warmup(TrainConfig(steps=276, warmup=800), 276) == 27
    assert _warmup(TrainConfig(steps=4, warmup=100), 4) == 1
    assert _warmup(TrainConfig(minutes=1, warmup=100), None) == 100
    noam = TrainConfig(steps=100, warmup=4000, schedule="noam", width=8)
    assert _warmup(noam, 100) == 4000


def test_an_accelerator_is_not_named():
    with pytest.raises(ValueError, match=r"device = 'cuda'.*torch .* sees"):
        TrainConfig(steps=1, device="cuda")


def test_the_precision_is_chosen_for_whatever_device_there_is():
    from regard.training.engine import chosen_precision

    assert chosen_precision(TrainConfig(steps=1, precision="auto")) in ("bfloat16", "float32")
