"""A small system of every kind that the explorer shows, with the weights it begins with."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from regard import registry
from regard._lazy import load
from regard.trained import Trained

DIGITS = ("task.data=drawn", "task.drawn=100")
RECIPES: dict[str, tuple[str, ...]] = {
    "ram-mnist": (*DIGITS, "system.hidden=16", "glimpses=4", "system.scales=2"),
    "stn-cluttered": (*DIGITS, "kind=cluttered", "task.size=40", "filters=4", "parameters=90000"),
    "draw-mnist": (*DIGITS, "system.hidden=16", "system.steps=5"),
    "ram-catch": ("system.hidden=16", "task.batch=4", "what=8", "where=8"),
    "memn2n-babi": ("task.data=", "tasks=1,2,16", "train_size=60", "test_size=10", "restarts=1", "linear_start=no"),
    "ntm-copy": ("rows=12", "system.width=5", "system.hidden=9", "longest=4"),
    "stack-anbn": ("system.hidden=8",),
    "gat-sbm": ("task.nodes=60",),
    "reader-cloze": ("task.train_size=60", "test_size=10", "system.hidden=8", "embedding=8"),
}


@cache
def small(name: str) -> Any:
    """The system of a recipe, made smaller."""
    recipe = registry.recipe(name).change(RECIPES[name])
    task = registry.task(recipe.sections["task"]["name"])(recipe.build("task"), None)
    torch.manual_seed(0)
    model = registry.system(recipe.sections["system"]["name"])(recipe.build("system", **task.sizes))
    found: Trained = load("regard.trained", task.kind)(model, task, recipe, name)  # type: ignore[call-arg]
    return found
