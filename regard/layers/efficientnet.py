"""EfficientNet-Lite0: a small convolutional network that was trained on ImageNet, for features of photographs.

Tan & Le 2019, *EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks* (arXiv:1905.11946). The Lite
variants leave out squeeze-and-excitation and replace swish by ReLU6. A block is MobileNetV2's (Sandler et al. 2018,
arXiv:1801.04381): a 1 × 1 convolution widens, a depthwise one looks around, a 1 × 1 convolution narrows, and the input
is added where the shape has stayed the same.

    backbone = efficientnet.pretrained()
    grid = backbone.features(images, stage=5)        # (B, 112, 14, 14) of (B, 3, 224, 224)
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import pad, relu6

WEIGHTS = Path(__file__).parents[1] / "pretrained" / "efficientnet-lite0" / "weights.safetensors"
SMALLEST = 32
"""Height and width of the smallest image: one cell of the last grid."""


class Stage(NamedTuple):
    """Blocks of one resolution."""

    repeats: int
    kernel: int
    stride: int
    expansion: int
    width: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)
STEM, HEAD, CLASSES = 32, 1280, 1000
WIDTHS = (*(stage.width for stage in STAGES), HEAD)
"""Width of the features after stage 1, 2, …; the last is the head."""


class ConvNorm(nn.Module):
    """Convolution and batch normalization, with TensorFlow's "same" padding: the odd pixel goes right and below."""

    def __init__(self, width: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1):
        super().__init__()
        self.conv = nn.Conv2d(width, out, kernel, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(out, eps=1e-3, momentum=0.01)

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.conv.kernel_size[0], self.conv.stride[0]
        if kernel > 1:
            down, across = (max(kernel - (side % stride or stride), 0) for side in x.shape[-2:])
            x = pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        return self.norm(self.conv(x))


class Block(nn.Module):
    """Widen, look around, narrow. (B, width, H, W) → (B, out, H / stride, W / stride)."""

    def __init__(self, width: int, out: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        inner = width * expansion
        self.expand = ConvNorm(width, inner) if expansion > 1 else None
        self.depthwise = ConvNorm(inner, inner, kernel, stride, groups=inner)
        self.project = ConvNorm(inner, out)
        self.skip = stride == 1 and width == out

    def forward(self, x: Tensor) -> Tensor:
        inner = x if self.expand is None else relu6(self.expand(x))
        narrow = self.project(relu6(self.depthwise(inner)))
        return x + narrow if self.skip else narrow


class EfficientNetLite0(nn.Module):
    """RGB images (B, 3, H, W), bytes or numbers from 0 to 255, to the logits of ImageNet's 1,000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(3, STEM, kernel=3, stride=2)
        self.stages = nn.ModuleList()
        width = STEM
        for stage in STAGES:
            blocks = nn.Sequential()
            for number in range(stage.repeats):
                stride = 1 if number else stage.stride
                blocks.append(Block(width, stage.width, stage.kernel, stride, stage.expansion))
                width = stage.width
            self.stages.append(blocks)
        self.head = ConvNorm(width, HEAD)
        self.classify = nn.Linear(HEAD, CLASSES)

    def features(self, images: Tensor, stage: int = len(WIDTHS)) -> Tensor:
        """(B, width, h, w) after ``stage``, from 1 to 7, or 8, the head; see :data:`WIDTHS`. For 224 × 224 pixels
        112 × 14 × 14 after stage 5, 320 × 7 × 7 after stage 7, 1280 × 7 × 7 after the head."""
        if not 1 <= stage <= len(WIDTHS):
            raise ValueError(f"stage = {stage}: there are stages 1 to {len(WIDTHS)}, the last of which is the head")
        if images.ndim != 4 or images.shape[1] != 3 or min(images.shape[-2:]) < SMALLEST:
            raise ValueError(f"images are (B, 3, H, W) of at least {SMALLEST} pixels a side, not {tuple(images.shape)}")
        x = (images.to(self.classify.weight.dtype) - 127) / 128
        x = relu6(self.stem(x))
        for blocks in self.stages[:stage]:
            x = blocks(x)
        return relu6(self.head(x)) if stage == len(WIDTHS) else x

    def forward(self, images: Tensor) -> Tensor:
        """(B, 1000)."""
        return self.classify(self.features(images).mean((-2, -1)))


def pretrained(weights: Path = WEIGHTS) -> EfficientNetLite0:
    """The network with ImageNet's weights, frozen, in evaluation mode."""
    if not weights.exists():
        raise ValueError(f"{weights}: no such file; it comes with the package")
    model = EfficientNetLite0()
    tensors = {name: tensor.float() for name, tensor in load_file(weights).items()}
    names = {name for name in model.state_dict() if not name.endswith("num_batches_tracked")}
    if names != tensors.keys():
        wrong = min(names ^ tensors.keys())
        raise ValueError(f"{weights}: not the weights of EfficientNet-Lite0; {wrong} is missing or unknown")
    model.load_state_dict(tensors, strict=False)
    return model.requires_grad_(False).eval()


class Later(nn.Module):
    """The stages after ``stage`` up to ``last``, which may be the head, to be trained along with what looks at their
    features: (B, width, h, w) → (B, width of ``last``, h', w'). Normalization keeps ImageNet's statistics, for batches
    of a small data set tell less.

    Args:
        stage: whose features are read.
        last: whose features are given.
        weights: ImageNet's; where they are None, they are drawn at random.
    """

    def __init__(self, stage: int, last: int = len(WIDTHS), weights: Path | None = WEIGHTS):
        super().__init__()
        if not 1 <= stage < last <= len(WIDTHS):
            raise ValueError(f"the stages after {stage} up to {last}: there are 1 to {len(WIDTHS)}")
        whole = EfficientNetLite0() if weights is None else pretrained(weights)
        self.stages = whole.stages[stage:last].requires_grad_(True)
        self.head = whole.head.requires_grad_(True) if last == len(WIDTHS) else None

    def train(self, mode: bool = True) -> Later:
        """In training normalization does as it does otherwise."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def forward(self, grid: Tensor) -> Tensor:
        for blocks in self.stages:
            grid = blocks(grid)
        return grid if self.head is None else relu6(self.head(grid))


def grid(size: int, stage: int) -> int:
    """Cells a side of the features of a square image of ``size`` pixels."""
    side = -(-size // 2)
    for block in STAGES[:stage]:
        side = -(-side // block.stride)
    return side
