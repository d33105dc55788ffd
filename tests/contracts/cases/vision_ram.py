"""Systems that look here and there: RAM on images, its control, DRAM, foveal glimpses, and the player of Catch."""

from functools import partial

import torch

from contracts.cases import Batch, Case

B = 4


def images(channels: int = 1) -> Batch:
    """Random pixels."""
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(B, channels, 13, 11, generator=generator)
    return {"image": image, "label": torch.randint(0, 5, (B,), generator=generator)}


def strings(end: bool) -> Batch:
    """Random pixels with two or three objects."""
    full = torch.tensor([[0, 3, 2], [1, 1, 0], [2, 0, 3], [3, 3, 1]])
    short = torch.tensor([[0, 3, 4], [1, 4, -1], [2, 0, 4], [3, 4, -1]])
    return {"image": images()["image"], "target": short if end else full}


def games() -> Batch:
    """Balls and paddles anywhere."""
    return {
        "ball": torch.tensor([0, 8, 3, 5]),
        "speed": torch.tensor([-1, 1, 0, 1]),
        "paddle": torch.tensor([7, 0, 3, 4]),
    }


def films() -> Batch:
    """Random pixels, and boxes within them."""
    generator = torch.Generator().manual_seed(0)
    boxes = torch.tensor([2.0, 1.0, 6.0, 8.0]).expand(B, 3, 4).clone()
    return {"frames": torch.rand(B, 3, 1, 13, 11, generator=generator), "boxes": boxes}


def alone(batch: Batch) -> list[Batch]:
    return [{name: tensor[b : b + 1] for name, tensor in batch.items()} for b in range(B)]


SIZES = {"channels": 1, "height": 13, "width": 11, "classes": 5}
SMALL = {"glimpses": 3, "size": 4, "what": 6, "where": 5, "hidden": 8}
READER = {"glimpses": 2, "size": 6, "scales": 2, "filters": 2, "hidden": 8, "context": 6}
FOVEA = {"fixations": 2, "size": 4, "grid": 3, "factors": 5, "hidden": 6}
COLOUR = {**SIZES, "channels": 3}
CASES = {
    "ram": [
        Case({**SIZES, **SMALL}, images, alone),
        Case({**COLOUR, **SMALL, "scales": 2, "core": "lstm", "location_hidden": 7}, partial(images, 3), alone),
        Case({**SIZES, **SMALL, "rollouts": 3, "test_rollouts": 2, "discount": 0.9}, images),
        Case({**SIZES, **SMALL, "policy": "random"}, images),
        Case({**SIZES, **SMALL, "glimpses": 1, "start": "centre"}, images, alone, ("location.*", "baseline.*")),
    ],
    "dram": [
        Case({**SIZES, **READER}, images, alone),
        Case({**SIZES, **READER, "objects": 3, "filters": 0, "context": 0}, partial(strings, False), alone),
        Case({**SIZES, **READER, "objects": 3, "end": True, "rollouts": 3}, partial(strings, True), alone),
        Case({**SIZES, **READER, "objects": 3, "end": True, "pair": True}, partial(strings, True), alone),
        Case({**SIZES, **READER, "objects": 3, "end": True, "test_rollouts": 2}, partial(strings, True)),
    ],
    "gaze_tracker": [
        Case({"channels": 1, "height": 13, "width": 11, "particles": 7, "cells": 3, "hidden": 5}, films),
    ],
    "foveal": [
        Case({**SIZES, **FOVEA}, images, alone),
        Case({**COLOUR, **FOVEA, "rings": 0, "size": 5}, partial(images, 3), alone),
        Case({**SIZES, **FOVEA, "policy": "random", "generative": 0.1}, images),
    ],
    "cnn": [
        Case({**SIZES, "filters": 3, "kernel": 4, "stride": 2, "hidden": 8}, images, alone, looks=False),
        Case({**SIZES, "filters": 0, "hidden": 8}, images, alone, looks=False),
        Case({**COLOUR, "widths": (3, 4), "hidden": 8, "standardize": True}, partial(images, 3), alone, looks=False),
        Case({**SIZES, "objects": 3, "end": True, "hidden": 8}, partial(strings, True), alone, looks=False),
    ],
    "ram_agent": [
        Case(
            {"height": 9, "width": 9, "paddle": 2, "size": 3, "scales": 2, "what": 6, "where": 5, "hidden": 8, **more},
            games,
            alone,
        )
        for more in ({}, {"core": "rnn", "discount": 0.9})
    ],
}
