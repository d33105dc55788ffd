"""A part without a recipe or an oracle is red, and the message says what to write and where."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from contracts import builders
from regard import parts

EVERY = [(kind, name) for kind in parts.KINDS for name in parts.names(kind)]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_part_has_an_oracle_and_a_recipe(kind: str, name: str) -> None:
    builders.entry(kind, name)


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_part_says_what_it_is(kind: str, name: str) -> None:
    cls = parts.find(kind, name)
    assert cls.equation and cls.paper, f"{cls.__name__} needs equation and paper, which `regard list` prints"
    assert cls.__doc__ and len(cls.__doc__) > 60, f"{cls.__name__} needs a docstring: paper, equation, shapes"
    assert issubclass(cls, parts.Part)


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_part_shows_its_arguments(kind: str, name: str) -> None:
    """Those with a plain value, under their names; a learned number shows what it is now."""
    entry = builders.entry(kind, name)
    draw = np.random.default_rng(1)
    part = entry((2,), draw).part if kind == "glimpses" else entry.build(builders.Dims(4, 5, 6), draw)
    quiet = ("learn_", "align_corners", "localizer", "heads", "halves", "points")  # or where it matters
    for argument in parts.arguments(type(part)):
        assert argument.startswith(quiet) or f"{argument}=" in repr(part), f"{argument} of {part!r}"
    if name == "local_monotonic":
        assert repr(part) == f"LocalMonotonic(radius={part.radius})"


@pytest.mark.parametrize("kind", parts.KINDS)
def test_no_recipe_is_left_of_a_part_that_went(kind: str) -> None:
    assert set(builders.TABLES[kind]) == set(parts.names(kind))


@pytest.mark.parametrize("kind", parts.KINDS)
def test_a_new_part_is_told_what_to_add(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"'surprise' has no oracle.*tests/oracle\.py.*def surprise\("):
        builders.entry(kind, "surprise")
    for name in ("surprise", "surprise_factor"):
        monkeypatch.setattr(oracle, name, lambda: None, raising=False)
    with pytest.raises(pytest.fail.Exception, match=r"'surprise' has no recipe.*tests/contracts/builders\.py"):
        builders.entry(kind, "surprise")
