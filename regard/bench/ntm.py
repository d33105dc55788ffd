"""Rows of ``regard bench memory`` about the NTM: a whole tape of the copy task, against plain PyTorch written for speed
and against the layout of public implementations, with the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard.bench.measure import Case
from regard.systems.ntm import NTM, Config
from regard.tasks.tapes import copy


def cases() -> Iterator[Callable[[], Case]]:
    """Built one by one, so that only one's tensors are in memory."""
    yield partial(tape, 16, 20, "≥ 1.5× eager")
    yield partial(tape, 1, 20, "")
    yield partial(tape, 16, 20, "", reads=4, writes=4, hidden=256)


def tape(
    batch: int, length: int, target: str, *, rows: int = 128, reads: int = 1, writes: int = 1, hidden: int = 100
) -> Case:
    """Copying a sequence, from its first vector to the loss; the gradients are those of all parameters."""
    model = NTM(Config(9, 8, rows=rows, reads=reads, writes=writes, hidden=hidden))
    sample = copy(np.random.default_rng(0), batch, length, 8)
    inputs, wanted = torch.from_numpy(sample["input"]), torch.from_numpy(sample["target"])

    def loss(run: Callable[[Tensor], Tensor]) -> Callable[[], Tensor]:
        return lambda: functional.binary_cross_entropy_with_logits(run(inputs), wanted)

    contenders = {
        "ours": loss(model.run),
        "eager": loss(partial(eager, model)),
        "per step": loss(partial(public, model)),
    }
    heads = f"{reads} + {writes} heads, {hidden} units"
    work = f"NTM, copy {length} vectors, B={batch}, {rows} rows, {heads}"
    return Case(work, contenders, list(model.parameters()), target, ("forward+backward",))


def eager(model: NTM, inputs: Tensor) -> Tensor:
    """As few and as large operations as plain PyTorch allows: heads together, the memory transposed, the input and
    output layers for all steps at once, the strength in the key, the two halves of a writing in one product."""
    config, shifts = model.config, model.shifts
    reads, heads, width = config.reads, config.reads + config.writes, config.width
    state = model.begin(inputs)
    memory, weights, read = state.memory, state.weights, state.read
    recurrent = model.recurrent.weight.t()
    places = [width, width + 1, width + 2, width + 3]
    outputs = []
    for x in model.input(inputs).unbind(1):
        hidden = torch.tanh(torch.addmm(x, read, recurrent))
        raw = model.interface(hidden)
        looking = raw[:, : model.sizes[0]].unflatten(1, (heads, -1))
        key, gain, gate, sharpen, shift = looking.tensor_split(places, 2)
        key = key * (functional.softplus(gain) / key.norm(dim=2, keepdim=True).clamp_min(1e-8))
        similarity = torch.bmm(key, memory) / memory.norm(dim=1, keepdim=True).clamp_min(1e-8)
        mixed = torch.lerp(weights, torch.softmax(similarity, 2), torch.sigmoid(gate))
        reach = shifts // 2
        ring = torch.cat([mixed[..., -reach:], mixed, mixed[..., :reach]], 2)
        windows = ring.unfold(2, shifts, 1)  # (B, H, N, K), from the furthest move forward to the furthest back
        moved = (windows @ torch.softmax(shift, 2).flip(2).unsqueeze(3)).squeeze(3)
        weights = torch.softmax((1 + functional.softplus(sharpen)) * moved.clamp_min(1e-16).log(), 2)
        read = torch.bmm(weights[:, :reads], memory.mT).flatten(1)
        erase, add = raw[:, model.sizes[0] :].unflatten(1, (-1, 2, width)).unbind(2)
        erase, add, where = torch.sigmoid(erase), torch.tanh(add), weights[:, reads:]
        if config.writes == 1:
            memory = torch.addcmul(memory, where, add.mT - erase.mT * memory)
        else:
            retained = (1 - erase.unsqueeze(3) * where.unsqueeze(2)).prod(1)
            memory = torch.baddbmm(memory * retained, add.mT, where)
        outputs.append(torch.cat([hidden, read], 1))
    return model.output(torch.stack(outputs, 1))


def public(model: NTM, inputs: Tensor) -> Tensor:
    """The usual layout: one head after the other, a layer for each of its parameters, rolled item by item, the output
    of each step in that step."""
    config, shifts, width = model.config, model.shifts, model.config.width
    state = model.begin(inputs)
    memory, read = state.memory.mT, state.read  # (B, N, W)
    before = list(state.weights.unbind(1))
    weight, bias, size = model.interface.weight, model.interface.bias, width + 3 + shifts

    def layer(hidden: Tensor, first: int, count: int) -> Tensor:
        return functional.linear(hidden, weight[first : first + count], bias[first : first + count])

    def turned(row: Tensor, shift: Tensor) -> Tensor:
        return torch.stack([shift[j] * row.roll(j - shifts // 2) for j in range(shifts)]).sum(0)

    outputs = []
    for t in range(inputs.shape[1]):
        joined = torch.cat([inputs[:, t], read], 1)
        hidden = torch.tanh(
            functional.linear(joined, torch.cat([model.input.weight, model.recurrent.weight], 1), model.input.bias)
        )
        readings = []
        written = memory
        for h in range(len(before)):
            first = h * size
            key, gain = layer(hidden, first, width), functional.softplus(layer(hidden, first + width, 1))
            gate = torch.sigmoid(layer(hidden, first + width + 1, 1))
            sharpen = 1 + functional.softplus(layer(hidden, first + width + 2, 1))
            shift = torch.softmax(layer(hidden, first + width + 3, shifts), 1)
            similarity = functional.cosine_similarity(memory, key.unsqueeze(1), dim=2, eps=1e-8)
            mixed = gate * torch.softmax(gain * similarity, 1) + (1 - gate) * before[h]
            moved = torch.stack([turned(row, turn) for row, turn in zip(mixed, shift, strict=True)])
            sharp = moved**sharpen
            before[h] = sharp / (sharp.sum(1, keepdim=True) + 1e-16)
            if h < config.reads:
                readings.append((before[h].unsqueeze(1) @ memory).squeeze(1))
        place = len(before) * size
        for number, where in enumerate(before[config.reads :]):
            erase = torch.sigmoid(layer(hidden, place + 2 * number * width, width))
            written = written * (1 - where.unsqueeze(2) * erase.unsqueeze(1))
        for number, where in enumerate(before[config.reads :]):
            add = torch.tanh(layer(hidden, place + (2 * number + 1) * width, width))
            written = written + where.unsqueeze(2) * add.unsqueeze(1)
        memory, read = written, torch.cat(readings, 1)
        outputs.append(model.output(torch.cat([hidden, read], 1)))
    return torch.stack(outputs, 1)
