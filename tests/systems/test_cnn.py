"""The networks that glimpses are compared with: what they cost, and several objects."""

from __future__ import annotations

import pytest
import torch

from regard import runs
from regard.systems import cnn

SIZES = {"channels": 1, "height": 20, "width": 30, "classes": 11}


def counted(model: cnn.CNN, image: torch.Tensor) -> int:
    """Multiplications of one image, as its layers make them."""
    total = 0

    def count(layer, inputs, output):
        nonlocal total
        each = layer.weight[0].numel()
        total += output.numel() * each

    for layer in model.modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
            layer.register_forward_hook(count)
    model.log_prob(image)
    return total


@pytest.mark.parametrize("more", [{}, {"filters": 0}, {"widths": (3, 5, 2)}, {"objects": 4, "end": True}])
def test_multiplications_are_those_of_its_layers(more):
    model = cnn.CNN(cnn.Config(**SIZES, **more))
    assert model.multiplications() == counted(model, torch.rand(1, 1, 20, 30))


def test_several_objects_are_wrong_together():
    """The error is that of whole sequences, of whatever length; what lies behind the end does not matter."""
    model = cnn.CNN(cnn.Config(**SIZES, objects=3, end=True)).eval()
    wanted = torch.tensor([[1, 2, 10], [3, 10, -1]])
    logits = torch.zeros(2, 3, 11)
    logits.scatter_(2, wanted.clamp_min(0)[..., None], 9.0)
    logits[1, 2] = torch.randn(11)
    model.log_prob = lambda image: logits.log_softmax(-1)
    batch = {"image": torch.rand(2, 1, 20, 30), "target": wanted}
    assert float(model(batch)["error"]) == 0
    assert model.predict(batch)["chosen"].tolist() == [[1, 2, -1], [3, -1, -1]]
    logits[0, 1, 5] = 20.0
    assert float(model(batch)["error"]) == 0.5


def test_too_deep_is_refused_with_the_numbers():
    with pytest.raises(ValueError, match="5 times half of 20 pixels"):
        cnn.Config(**SIZES, widths=(1, 1, 1, 1, 1))


def test_it_reads_house_numbers_in_place_of_dram(tmp_path):
    """The control of a recipe is one change of it."""
    made = runs.train(
        "dram-house",
        *("system.name=cnn", "system.widths=[4,4]", "system.hidden=8", "task.numbers=drawn", "task.data=drawn"),
        *("task.drawn=40", "task.batch=8", "steps=2", "epochs=none", "minutes=none", "threads=1", "tensorboard=false"),
        out=tmp_path / "run",
    )
    found = runs.load(made.folder).evaluate("test", limit=8)
    assert 0 <= found["error"] <= 100
    alike = cnn.CNN(cnn.Config(1, 54, 54, 11, 6, True, widths=(4, 4), hidden=8))
    assert found["multiplications"] == alike.multiplications()
