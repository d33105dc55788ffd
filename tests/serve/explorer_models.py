"""A small system of every kind that the explorer shows, with the weights it begins with."""

from __future__ import annotations

from functools import cache
from typing import Any

from regard import registry, runs
from regard._lazy import load
from regard.predictors.predictor import Predictor

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
    "caption-scenes": ("pixels=32", "train_size=20", "valid_size=5", "test_size=5", "embedding=8", "system.hidden=8"),
    "video-moves": ("task.length=8", "train_size=20", "valid_size=5", "test_size=5", "embedding=8", "system.hidden=8"),
    "speech-digits": ("task.data=tones", "bands=12", "train_size=8", "test_size=5", "listener=8", "decoder=8"),
    "recipe-dishes": ("pixels=32", "train_size=20", "valid_size=5", "test_size=5", "system.dim=8", "system.hidden=8"),
    "reader-cloze": ("task.train_size=60", "test_size=10", "system.hidden=8", "embedding=8"),
}


@cache
def small(name: str) -> Any:
    """The system of a recipe, made smaller."""
    recipe, task, model = runs.assemble(registry.recipe(name).change(RECIPES[name]), seed=0)
    found: Predictor = load("regard.predictors", task.kind)(model, task, recipe, name)  # type: ignore[call-arg]
    return found
