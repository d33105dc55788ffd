"""Handwriting: a network that writes with a pen, point by point, and knows which letter it is writing.

Graves 2013, *Generating Sequences With Recurrent Neural Networks* (arXiv:1308.0850), sections 4 and 5.

A point is x = (Δx, Δy, pen lifted). Three layers of LSTM see it, each also the layer below, and all of them reach the
output (eqs. 1-5). In the synthesis network a window slides along the text between the steps of the first layer:
the query is its state, keys are the places of characters, values the characters c, one-hot (eqs. 46-51,
:class:`regard.glimpses.MixtureWindow`):

    h¹ₜ = LSTM([xₜ; wₜ₋₁]),  φ(t, u) = Σₖ αₖ exp(−βₖ (κₖ − u)²),  wₜ = Σᵤ φ(t, u) cᵤ,  hⁿₜ = LSTM([xₜ; wₜ; hⁿ⁻¹ₜ])

Without characters it is the prediction network of section 4. What comes next is a mixture of M Gaussians in the plane
for the offset and a Bernoulli for the pen (eqs. 15-25); the loss is −log p in nats per point (eq. 26), by log-sum-exp.
A text is written by drawing points. With a bias b, σ = exp(σ̂ − b) and π = softmax(π̂ (1 + b)) (eqs. 61-62): tidier.
Primed with points and their text, it goes on in that style. The text is over when φ one place behind it is larger than
at every character. The window runs ahead of the pen, so that the bar of a last t would be missing: it then stops where
the pen is lifted and likely to be lifted again, as it rests at the end of lines of the training data, or else after the
points of one or two more characters.

Gradients are clipped as in the paper, each number of the gradient of the sum over points: within ±100 where they enter
the output layer's sums, within ±10 at the sums of each LSTM gate.

Deviations: σ is at least ``least``, since offsets of recorded pens are whole numbers, on which a density could become
infinite; |ρ| is at most 0.95. The bias of κ̂ starts at the pace of the data, characters a point. The Bernoulli is biased
as well. No adaptive weight noise. On the CPU in float32 compiled loops stand in for the plain steps
(:mod:`regard.kernels.lstm`), except while a :func:`regard.record` looks on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard import masks
from regard._settings import at_least
from regard.glimpses import MixtureWindow
from regard.kernels import lstm, products
from regard.layers.use import Use

Batch = dict[str, Tensor]
CORRELATION = 0.95
"""The largest |ρ|."""
RESTS = math.log(0.15 / 0.85)
"""The logit of the pen from which on it is expected to rest."""
BLOCK = 256
"""Points for which noise is drawn at once."""


@dataclass(frozen=True)
class Config:
    """Sizes; the defaults are the paper's.

    Attributes:
        characters: size of the alphabet; 0 makes the prediction network, which knows no text.
        pace: points to a character, at which the window moves at first.
        hidden: units of each layer.
        layers: one to three.
        window: K, Gaussians of the window.
        mixtures: M, Gaussians of the output.
        least: the smallest σ, in units of the normalized offsets.
        clip_output, clip_gates: of the gradients; see above.
    """

    characters: int
    pace: float = 25.0
    hidden: int = 400
    layers: int = 3
    window: int = 10
    mixtures: int = 20
    least: float = 0.01
    clip_output: float = 100.0
    clip_gates: float = 10.0

    def __post_init__(self) -> None:
        at_least(self, "hidden", "layers", "window", "mixtures", characters=0)
        for name in ("pace", "least", "clip_output", "clip_gates"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0, not {getattr(self, name)}")
        if self.layers > 3:
            raise ValueError(f"layers is one to three, not {self.layers}")


class Mixture(NamedTuple):
    """What is expected of the next point: M Gaussians and the pen.

    Attributes:
        pen: (…), the logit of its being lifted.
        log_weights: (…, M).
        mean: (…, M, 2).
        log_deviation: (…, M, 2).
        correlation: (…, M).
    """

    pen: Tensor
    log_weights: Tensor
    mean: Tensor
    log_deviation: Tensor
    correlation: Tensor

    def log_density(self, offset: Tensor) -> Tensor:
        """log of the density at (…, 2), without the pen: (…)."""
        z = (offset.unsqueeze(-2) - self.mean) * torch.exp(-self.log_deviation)
        x, y = z.unbind(-1)
        rest = 1 - self.correlation.square()
        square = (x.square() + y.square() - 2 * self.correlation * x * y) / rest
        norm = math.log(2 * math.pi) + self.log_deviation.sum(-1) + 0.5 * torch.log(rest)
        return torch.logsumexp(self.log_weights - norm - 0.5 * square, -1)


class Written(NamedTuple):
    """Sampled lines.

    Attributes:
        points: (B, T, 3), the priming points included.
        begins: (B,), the number of priming points.
        lengths: (B,), the number of all points.
        phi: (B, T, U + 1), the window before each point; the last place stands behind the text. None without a text.
        expected: (B, T, 1 + 6M), the output before each point; see :meth:`Handwriting.mixture`.
        stopped: (B,), whether the line ended by itself, not at its longest.
    """

    points: Tensor
    begins: Tensor
    lengths: Tensor
    phi: Tensor | None
    expected: Tensor
    stopped: Tensor


class Handwriting(nn.Module):
    """Prediction and synthesis network; see the module's docstring.

    A batch has ``points`` (B, T + 1, 3) from the point where the line begins, ``lengths`` (B,), how many follow it, and
    for synthesis ``text`` (B, U), numbers of characters, and ``text_lengths`` (B,). With ``rests`` the last point of
    each line is a rest of the pen: that it is lifted again is learned, and not measured.
    """

    uses: ClassVar[dict[str, Use]] = {
        "window": Use(
            *("state h¹ of the pen", "places of the characters", "characters", "mixture_window", "none"),
            rows="strokes",
            columns="characters",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        inputs, hidden = 3 + config.characters, config.hidden
        cells = [nn.LSTMCell(inputs + (hidden if number else 0), hidden) for number in range(config.layers)]
        for cell in cells:
            _begin(cell)
        self.cells: Any = nn.ModuleList(cells)
        if config.characters:
            self.window = MixtureWindow(hidden, config.window)
            with torch.no_grad():
                self.window.query.bias[2 * config.window :] = -math.log(config.pace)
                self.window.query.weight.mul_(0.1)
        self.output = nn.Linear(config.layers * hidden, 1 + 6 * config.mixtures)
        with torch.no_grad():  # Gaussians that differ from the start
            self.output.bias[1 + config.mixtures : 1 + 3 * config.mixtures].normal_(0.0, 0.5)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss in nats per point, and its parts: the offset (``where``) and the pen."""
        self._check(batch)
        points, lengths = batch["points"], batch["lengths"]
        rests = len(lengths) if "rests" in batch else 0
        count = lengths.sum().float() - rests
        share = 1 / float(count.clamp(min=1))
        raw, _ = self.run(batch, share)
        real = torch.arange(raw.shape[1], device=raw.device) < lengths[:, None]
        rows, target = _Clipped.apply(raw, self.config.clip_output * share)[real], points[:, 1:][real]
        expected = self.mixture(rows)
        where = -expected.log_density(target[:, :2])
        pen = functional.binary_cross_entropy_with_logits(expected.pen, target[:, 2], reduction="none")
        if rests:  # the offset of a rest is always 0, on which a density would only grow
            moves = torch.ones_like(where).index_fill_(0, lengths.cumsum(0) - 1, 0.0)
            loss, where, pen = (where * moves).sum() + pen.sum(), where * moves, pen * moves
        else:
            loss = where.sum() + pen.sum()
        loss, where, pen = loss * share, where.detach().sum() * share, pen.detach().sum() * share
        return {"loss": loss, "count": count, "nll": where + pen, "where": where, "pen": pen}

    def mixture(self, raw: Tensor) -> Mixture:
        """The mixture of which the output (…, 1 + 6M) holds the parameters."""
        count = self.config.mixtures
        pen, weights, mean, deviation, correlation = raw.split([1, count, 2 * count, 2 * count, count], -1)
        mean, deviation = (both.unflatten(-1, (2, count)).transpose(-1, -2) for both in (mean, deviation))
        return Mixture(
            pen.squeeze(-1),
            weights.log_softmax(-1),
            mean,
            deviation.clamp(min=math.log(self.config.least)),
            CORRELATION * torch.tanh(correlation),
        )

    def run(self, batch: Batch, share: float = 1.0) -> tuple[Tensor, Tensor | None]:
        """The output before each point, (B, T, 1 + 6M), and of the plain path φ (B, T, U + 1).

        Args:
            share: what the gradient of the sum over points is multiplied by.
        """
        points, limit = batch["points"][:, :-1].transpose(0, 1), self.config.clip_gates * share  # (T, B, 3)
        if lstm.fits(points, self.output.weight):
            states, phi = self._fused(points, batch, limit), None
            raw = products.linear(states, self.output.weight, self.output.bias)
        else:
            outs, phi = self._plain(points, batch, limit)
            raw = self.output(outs)
        return raw.transpose(0, 1), phi

    def _fused(self, points: Tensor, batch: Batch, limit: float) -> list[Tensor]:
        inputs, states, characters = [points], list[Tensor](), self.config.characters
        for number, cell in enumerate(self.cells):
            weight, recurrent, bias = cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh
            if number == 0 and characters:
                weight, looks = weight.split([3, characters], 1)
                recurrent = torch.cat([looks, recurrent], 1)
                read, state = lstm.layer(inputs, weight, bias, recurrent, self._window(batch), limit)
                inputs.append(read)
            else:
                _, state = lstm.layer([*inputs, *states[-1:]], weight, bias, recurrent, None, limit)
            states.append(state)
        return states

    def _plain(self, points: Tensor, batch: Batch, limit: float) -> tuple[Tensor, Tensor | None]:
        state, outs, phis = self.start(batch), list[Tensor](), list[Tensor]()
        for point in points.unbind(0):
            state, phi = self._advance(point, state, limit)
            outs.append(torch.cat(state["hidden"], -1))
            if phi is not None:
                phis.append(phi)
        return torch.stack(outs), torch.stack(phis, 1) if phis else None

    def start(self, batch: Batch) -> dict[str, Any]:
        """The state before the first point."""
        size, new = len(batch["points"]), self.output.weight.new_zeros
        zeros = [new(size, self.config.hidden) for _ in self.cells]
        state: dict[str, Any] = {"hidden": zeros, "cell": list(zeros)}
        if self.config.characters:
            codes, lengths = self._text(batch)
            characters = functional.one_hot(codes, self.config.characters).to(self.output.weight)
            real = torch.arange(codes.shape[1], device=codes.device) < lengths[:, None]
            characters = functional.pad(characters * real[..., None], (0, 0, 0, 1))
            state |= {"value": characters, "mask": masks.lengths(lengths + 1), "kappa": self.window.start(characters)}
            state["read"] = new(size, self.config.characters)
        return state

    def _advance(self, point: Tensor, state: dict[str, Any], limit: float) -> tuple[dict[str, Any], Tensor | None]:
        """One step by the parts of the core; φ is (B, U + 1)."""
        state, phi = {**state, "hidden": list(state["hidden"]), "cell": list(state["cell"])}, None
        for number, cell in enumerate(self.cells):
            rows = [point, state["read"]] if self.config.characters else [point]
            if number:
                rows.append(state["hidden"][number - 1])
            sums = functional.linear(torch.cat(rows, -1), cell.weight_ih, cell.bias_ih)
            sums = sums + functional.linear(state["hidden"][number], cell.weight_hh, cell.bias_hh)
            i, f, g, o = _Clipped.apply(sums, limit).chunk(4, -1)
            state["cell"][number] = torch.sigmoid(f) * state["cell"][number] + torch.sigmoid(i) * torch.tanh(g)
            state["hidden"][number] = torch.sigmoid(o) * torch.tanh(state["cell"][number])
            if number == 0 and self.config.characters:
                query = state["hidden"][0][:, None]
                attended = self.window(query, state["value"], mask=state["mask"], state=state["kappa"])
                state["kappa"], state["read"], phi = attended.state, attended.context[:, 0], attended.weights[:, 0]
        return state, phi

    # -----------------------------------------------------------------------------------------------------------------
    # Writing

    @torch.no_grad()
    def write(
        self,
        batch: Batch,
        *,
        most: int | Sequence[int],
        seeds: Sequence[int],
        bias: float | Sequence[float] = 0.0,
    ) -> Written:
        """Sample lines, each with a seed of its own, so that none depends on the others.

        Args:
            batch: ``text`` and ``text_lengths`` for synthesis. ``points`` (B, P + 1, 3) with ``lengths`` (B,) prime the
                network, at least the point where a line begins; ``text`` then begins with the text of these points.
            most: the most points of a line, priming not counted; one number, or one for each line.
            seeds: (B,).
            bias: b, larger is tidier; one number, or one for each line.
        """
        self._check(batch)
        primed, begins = batch["points"], batch["lengths"]
        count, primer, ends = len(seeds), primed.cpu().numpy(), begins.cpu().numpy()
        if len(primed) != count:
            raise ValueError(f"{count} seeds for {len(primed)} lines")
        last = ends + np.broadcast_to(np.asarray(most), (count,))
        limit = int(last.max())
        noise = np.stack([noise_of(seed, limit) for seed in seeds])
        biases = np.broadcast_to(np.asarray(bias, np.float32), (count,)).copy()
        if (biases < 0).any() or not np.isfinite(biases).all():
            raise ValueError(f"a bias is a number from 0 on, not {bias}")
        pen = self._pen(batch)
        point, next_point = primed[:, 0].clone(), np.empty((count, 3), np.float32)
        points, phis, expected = [], [], []
        lengths, going, stopped = last.copy(), last > 0, np.zeros(count, bool)
        over = np.full(count, limit + 1)  # the step from which on the text is over
        text = self.config.characters > 0
        places = self._text(batch)[1].cpu().numpy() if text else np.zeros(count, int)
        rows, within = np.arange(count), np.arange(batch["text"].shape[1] + 1 if text else 1) < places[:, None]
        up, primes = primer[:, 0, 2] > 0.5, int(ends.max(initial=0))
        for t in range(limit):
            phi, raw = pen.step(point)
            if text:
                over[(phi[rows, places] > (phi * within).max(1)) & (t >= ends) & (t < over)] = t
                since = t - over
                late = (since >= 2 * self.config.pace) | ((since >= self.config.pace) & up)
                here = going & ((since >= 0) & up & (raw[:, 0] > RESTS) | late)
                lengths[here], stopped[here], going[here] = t, True, False
                if not going.any():
                    break
            pen.draw(noise[:, t], biases, next_point)
            if t < primes:
                forced = t < ends
                next_point[forced] = primer[forced, t + 1]
            going &= t + 1 < last
            points.append(next_point.copy())
            expected.append(raw.copy())
            if text:
                phis.append(phi.copy())
            point, up = torch.from_numpy(points[-1]).to(primed), points[-1][:, 2] > 0.5
            if not going.any():
                break
        new = primed.new_zeros
        width = 1 + 6 * self.config.mixtures
        written = torch.from_numpy(np.stack(points, 1)) if points else new(count, 0, 3)
        outputs = torch.from_numpy(np.stack(expected, 1)) if points else new(count, 0, width)
        weights = None if not text else torch.from_numpy(np.stack(phis, 1)) if phis else new(count, 0, 1)
        return Written(written, begins, torch.from_numpy(lengths), weights, outputs, torch.from_numpy(stopped))

    def _pen(self, batch: Batch) -> Any:
        return _Fused(self, batch) if lstm.fits(batch["points"], self.output.weight) else _Plain(self, batch)

    def _window(self, batch: Batch) -> lstm.Window:
        asks = self.window.query
        return lstm.Window(asks.weight, asks.bias, *self._text(batch), characters=self.config.characters)

    def _text(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return batch["text"], batch["text_lengths"]

    def _check(self, batch: Batch) -> None:
        points, lengths = batch["points"], batch["lengths"]
        if points.ndim != 3 or points.shape[2] != 3 or points.shape[1] < 1:
            raise ValueError(f"points are (B, T + 1, 3), dx, dy and pen, not {tuple(points.shape)}")
        if lengths.shape != points.shape[:1] or int(lengths.max() if len(lengths) else 0) >= points.shape[1]:
            raise ValueError(f"lengths {lengths.tolist()} do not fit points {tuple(points.shape)}")
        if self.config.characters:
            for name in ("text", "text_lengths"):
                if name not in batch:
                    raise ValueError(f"the synthesis network writes a text: {name!r} is missing in the batch")
            codes, sizes = self._text(batch)
            if codes.ndim != 2 or len(codes) != len(points) or sizes.shape != lengths.shape:
                shapes = f"text {tuple(codes.shape)} and text_lengths {tuple(sizes.shape)}"
                raise ValueError(f"{shapes} for {len(points)} lines")
            if codes.numel() and not 0 <= int(codes.min()) <= int(codes.max()) < self.config.characters:
                raise ValueError(f"characters are numbers below {self.config.characters}, not {int(codes.max())}")
            if len(sizes) and not 0 <= int(sizes.min()) <= int(sizes.max()) <= codes.shape[1]:
                raise ValueError(f"text_lengths {sizes.tolist()} do not fit text {tuple(codes.shape)}")


class _Fused:
    """Writing by compiled loops."""

    def __init__(self, model: Handwriting, batch: Batch):
        config = model.config
        layers = [(cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh) for cell in model.cells]
        window = model._window(batch) if config.characters else None
        output = model.output.weight, model.output.bias
        self.pen = lstm.Pen(layers, output, window, len(batch["points"]), math.log(config.least), CORRELATION)
        self.draw = self.pen.draw

    def step(self, point: Tensor) -> tuple[np.ndarray, np.ndarray]:
        self.pen.step(point)
        return self.pen.phi.numpy(), self.pen.raw.numpy()


class _Plain:
    """The same by the parts of the core."""

    def __init__(self, model: Handwriting, batch: Batch):
        self.model, self.state = model, model.start(batch)

    def step(self, point: Tensor) -> tuple[np.ndarray, np.ndarray]:
        self.state, phi = self.model._advance(point, self.state, math.inf)
        self.raw = self.model.output(torch.cat(self.state["hidden"], -1)).float().cpu()
        return np.zeros((len(point), 1)) if phi is None else phi.float().cpu().numpy(), self.raw.numpy()

    def draw(self, noise: np.ndarray, bias: np.ndarray, out: np.ndarray) -> None:
        count, noise_rows, b = self.model.config.mixtures, torch.from_numpy(noise), torch.from_numpy(bias)[:, None]
        raw = self.raw.clone()
        raw[:, : 1 + count] *= 1 + b
        expected = self.model.mixture(raw)
        total = expected.log_weights.exp().cumsum(-1)
        component = (total < noise_rows[:, :1] * total[:, -1:]).sum(-1).clamp(max=count - 1)
        rows = torch.arange(len(raw))
        deviation = torch.exp(expected.log_deviation[rows, component] - b)
        rho, (first, second) = expected.correlation[rows, component], noise_rows[:, 2:].unbind(-1)
        along = torch.stack([first, rho * first + torch.sqrt(1 - rho.square()) * second], -1)
        out[:, :2] = (expected.mean[rows, component] + deviation * along).numpy()
        out[:, 2] = noise_rows[:, 1] < torch.sigmoid(expected.pen)


def noise_of(seed: int, steps: int) -> np.ndarray:
    """(steps, 4): two uniform numbers, which choose the Gaussian and the pen, and two normal ones, for the offset. More
    steps of a seed begin with the same numbers."""
    random = np.random.default_rng(seed)
    blocks = [np.zeros((0, 4))]
    for _ in range(0, steps, BLOCK):
        blocks.append(np.concatenate([random.random((BLOCK, 2)), random.standard_normal((BLOCK, 2))], 1))
    return np.concatenate(blocks)[:steps].astype(np.float32)


class _Clipped(torch.autograd.Function):
    """The identity; its gradient is clipped."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, limit: float) -> Tensor:
        ctx.limit = limit
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0].clamp(-ctx.limit, ctx.limit), None


def _begin(cell: nn.LSTMCell) -> None:
    """Biases 0, but 1 for the forget gates: at first the cell remembers."""
    for bias in (cell.bias_ih, cell.bias_hh):
        nn.init.zeros_(bias)
    with torch.no_grad():
        cell.bias_ih[cell.hidden_size : 2 * cell.hidden_size] = 1.0
