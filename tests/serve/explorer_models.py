"""A small system of every task, made by a recipe's [tiny], with the weights it begins with."""

from __future__ import annotations

from functools import cache
from typing import Any

from regard import registry, runs
from regard._lazy import load

CHANGES: dict[str, tuple[str, ...]] = {
    "draw-mnist": ("system.steps=5",),
    "gat-sbm": ("task.nodes=60",),
    "memn2n-babi": ("tasks=1,2,16", "system.hops=3", "linear_start=no"),
    "ntm-copy": ("system.rows=12", "longest=4"),
    "pos-ewt": (),
    "ram-mnist": ("glimpses=4", "task.drawn=100"),
    "speech-digits": (),
    "stack-anbn": (),
    "stn-cluttered": (),
}
"""Those that a test looks at closely, and what it needs beyond [tiny]."""


def _recipes() -> list[str]:
    """A recipe of each system that looks at something but text: the first by name, or the one in ``CHANGES``."""
    found: dict[str, str] = {}
    for name in (*CHANGES, *registry.recipes()):
        system, task = (registry.recipe(name).sections[section]["name"] for section in ("system", "task"))
        if registry.task(task).kind != "text" and registry.system(system).uses:
            found.setdefault(system, name)
    return sorted(found.values())


RECIPES = _recipes()


@cache
def small(name: str) -> Any:
    """The system of a recipe's [tiny]."""
    recipe, task, model = runs.assemble(registry.recipe(name).tiny().change(CHANGES.get(name, ())), seed=0)
    predictor: Any = load("regard.predictors", task.kind)
    return predictor(model, task, recipe, name)
