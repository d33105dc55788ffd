"""A spatial transformer against torch's own grids, at rest, at its edges, and as a layer among others."""

import pytest
import torch
from torch import nn
from torch.nn.functional import affine_grid, grid_sample

import regard
from regard.glimpses import SpatialTransformer
from regard.glimpses.spatial_transformer import numbers

KINDS = ("affine", "attention", "projective", "thin_plate")


class Says(nn.Module):
    """A localizer that says the same of every image."""

    def __init__(self, count: int):
        super().__init__()
        self.linear = nn.Linear(1, count)

    def forward(self, image):
        return self.linear(image.new_ones(*image.shape[:-3], 1))


def transformer(kind="affine", size=None, theta=None, **more):
    part = SpatialTransformer(Says(numbers(kind, more.get("points", 4))), kind, size, **more).double()
    if theta is not None:
        with torch.no_grad():
            part.localizer.linear.bias.copy_(torch.as_tensor(theta))
    return part


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("align_corners", [True, False])
def test_at_first_nothing_moves(kind, align_corners):
    image = torch.rand(2, 3, 7, 5, dtype=torch.float64)
    part = transformer(kind, align_corners=align_corners)
    torch.testing.assert_close(part(image), image)
    theta = torch.zeros(2, numbers(kind), dtype=torch.float64)
    rest = affine_grid(torch.eye(2, 3, dtype=torch.float64).expand(2, 2, 3), (2, 3, 4, 6), align_corners=align_corners)
    assert torch.equal(part.place(theta, (4, 6)), part.place(torch.zeros_like(theta), (4, 6)))
    torch.testing.assert_close(part.place(theta, (4, 6)), rest)


@pytest.mark.parametrize("align_corners", [True, False])
def test_affine_equals_torch(align_corners):
    theta = torch.tensor([0.3, -0.2, 0.1, 0.4, -0.5, -0.3], dtype=torch.float64)
    image = torch.rand(2, 3, 7, 5, dtype=torch.float64)
    part = transformer("affine", (4, 6), theta, align_corners=align_corners)
    matrix = (theta.reshape(2, 3) + torch.eye(2, 3, dtype=torch.float64)).expand(2, 2, 3)
    grid = affine_grid(matrix, (2, 3, 4, 6), align_corners=align_corners)
    torch.testing.assert_close(part.grid(image), grid)
    torch.testing.assert_close(part(image), grid_sample(image, grid, align_corners=align_corners))


def test_attention_is_an_affine_without_turning():
    image = torch.rand(2, 1, 6, 6, dtype=torch.float64)
    narrow = transformer("attention", 3, [-0.5, 0.2, -0.1])
    same = transformer("affine", 3, [-0.5, 0, 0.2, 0, -0.5, -0.1])
    torch.testing.assert_close(narrow(image), same(image))


def test_projective_without_perspective_is_affine():
    image = torch.rand(2, 1, 6, 6, dtype=torch.float64)
    theta = [0.1, 0.2, -0.1, 0.3, -0.2, 0.1]
    torch.testing.assert_close(
        transformer("projective", 4, [*theta, 0, 0])(image), transformer("affine", 4, theta)(image)
    )


def test_behind_the_horizon_nothing_is_seen():
    image = torch.ones(1, 1, 6, 6, dtype=torch.float64)
    seen = transformer("projective", 8, [0] * 6 + [1.5, 0])(image)
    assert seen.isfinite().all()
    assert (seen[..., 0] == 0).all() and (seen[..., 4] > 0.5).any()


def test_a_thin_plate_moves_its_control_points():
    points = 3
    theta = torch.zeros(points**2, 2, dtype=torch.float64)
    theta[4] = torch.tensor([0.3, -0.2])  # the middle
    part = transformer("thin_plate", None, theta.flatten(), points=points, align_corners=True)
    grid = part.place(theta.flatten(), (3, 3))  # its pixels are the control points
    rest = part.place(torch.zeros(18, dtype=torch.float64), (3, 3))
    torch.testing.assert_close((grid - rest).reshape(-1, 2), theta)


def test_a_thin_plate_can_do_what_an_affine_can():
    matrix = torch.tensor([[0.2, -0.3, 0.1], [0.4, 0.1, -0.2]], dtype=torch.float64)
    line = torch.linspace(-1, 1, 4, dtype=torch.float64)
    y, x = torch.meshgrid(line, line, indexing="ij")
    moves = torch.stack([x, y, torch.ones_like(x)], -1).reshape(-1, 3) @ matrix.T
    found = transformer("thin_plate").place(moves.flatten(), (5, 7))
    torch.testing.assert_close(found, transformer("affine").place(matrix.flatten(), (5, 7)))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind):
    torch.manual_seed(3)
    count = numbers(kind, 3)
    part = transformer(kind, (3, 4), points=3)
    image = torch.rand(2, 2, 5, 4, dtype=torch.float64, requires_grad=True)
    theta = (0.1 * torch.randn(2, count, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda t, u: part.sampler(part.place(t, (3, 4)), u).context, (theta, image))


def test_it_learns_where_to_look():
    """A spot that is not in the middle: the gradient of what is seen moves the grid there."""
    torch.manual_seed(0)
    y, x = torch.meshgrid(torch.linspace(-1, 1, 21), torch.linspace(-1, 1, 21), indexing="ij")
    image = torch.exp(-((x - 0.4) ** 2 + (y + 0.3) ** 2) / 0.1)[None, None]
    part = SpatialTransformer(Says(3), "attention", 5, align_corners=True)
    optimizer = torch.optim.Adam(part.parameters(), 0.02)
    for _ in range(150):
        optimizer.zero_grad()
        (-part(image)[..., 2, 2].sum()).backward()
        optimizer.step()
    centre = part.grid(image)[0, 2, 2]
    torch.testing.assert_close(centre, torch.tensor([0.4, -0.3]), atol=0.03, rtol=0)


def test_a_layer_among_layers_and_on_tape():
    localizer = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 6 * 6, 6))
    network = nn.Sequential(SpatialTransformer(localizer, size=4), nn.Flatten(), nn.Linear(16, 3))
    image = torch.rand(5, 1, 8, 8)
    with regard.record(network) as tape:
        assert network(image).shape == (5, 3)
    assert tape.names() == ["0.sampler"]
    weights = tape["0.sampler"].weights
    assert weights.shape == (5, 16, 64)
    seen = (weights @ image.flatten(2).mT)[..., 0].unflatten(1, (4, 4))
    torch.testing.assert_close(seen, network[0](image)[:, 0])
    network.load_state_dict(network.state_dict())
    assert "kind='affine'" in repr(network)


@pytest.mark.parametrize("shape", [(8, 8), (4, 1, 8, 8, 1)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"image|localizer"):
        SpatialTransformer(nn.Sequential(nn.Flatten(1), nn.Linear(64, 6)))(torch.zeros(shape))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((nn.Linear(4, 6), "afine"), "did you mean 'affine'"),
        ((nn.Linear(4, 5),), "6 outputs, not in Linear"),
        ((nn.Sequential(nn.Linear(4, 6), nn.ReLU()),), "must end in a Linear"),
        ((nn.Linear(4, 6), "affine", 0), "at least 1"),
        ((nn.Linear(4, 6), "affine", (3, 4, 5)), "height, width"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        SpatialTransformer(*arguments)


def test_a_plate_of_one_point():
    with pytest.raises(ValueError, match="at least 2 control points"):
        SpatialTransformer(nn.Linear(4, 2), "thin_plate", points=1)
