"""Settings of systems of images, sound and strokes that cannot be are errors that name them."""

from importlib import import_module

import pytest

WORDS, HEARD = {"vocab": 9}, {"vocab": 9, "features": 8}
SIZED = {"channels": 1, "height": 28, "width": 28, "classes": 9}
BASE = {
    "show_attend_tell": WORDS,
    "show_and_tell": WORDS,
    "temporal_attention": WORDS,
    "image_to_set": {"classes": 5},
    "inverse_cooking": WORDS,
    "dram": SIZED,
    "foveal": SIZED,
    "listen_attend_spell": HEARD,
    "attention_recognizer": HEARD,
}


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        *((name, setting, -1) for name in list(BASE)[:3] for setting in ("embedding", "hidden", "longest")),
        *((name, size, 0) for name in ("image_to_set", "inverse_cooking") for size in ("dim", "layers", "hidden")),
        *((name, "label_smoothing", -0.1) for name in BASE if name not in ("image_to_set", "dram", "foveal")),
        ("image_to_set", "most", 0),
        ("dram", "reinforce", -1.0),
        *(("dram", setting, float("nan")) for setting in ("pace", "std")),
        *(("foveal", setting, float("nan")) for setting in ("sharpness", "generative")),
    ],
)
def test_settings_that_cannot_be_are_named(name, setting, value):
    config = import_module(f"regard.systems.{name}").Config
    config(**BASE[name])
    with pytest.raises(ValueError, match=setting):
        config(**BASE[name], **{setting: value})


@pytest.mark.parametrize("channels", [2, 0, -1])
def test_a_grid_has_room_for_its_coordinates(channels):
    grid = import_module("regard.layers.grid").Grid
    assert grid(0, 3).width == 3
    with pytest.raises(ValueError, match="channels"):
        grid(0, channels)
