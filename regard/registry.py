"""Systems, tasks and recipes by name. The folders are the lists.

A recipe is a TOML file with the sections [system], [task], [train] and [decode]: the ``name`` of a system and of a
task, and what differs from their defaults. Its first comment says what to expect. ``Recipe.change`` takes
``key=value`` as typed on the command line; a key that only one section knows needs no section. The section [tiny]
changes a recipe to generated data and small sizes, for tests and a first look: ``system.hidden = 8``.

What should depend on how much data there is stands in tables ``[[by_size]]``, in order: ``up_to``, the largest number
of training items that the table is for (the last has none), ``why``, and the keys, as in [tiny]. Keys that were
set on the command line stay. The recipe of a run holds what was chosen.

A system or a task of one's own, outside the package, is named ``module:Class``; or by its name alone, if an installed
package declares it as an entry point of the group ``regard.systems`` or ``regard.tasks``.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

from regard import _files, _settings
from regard._files import regular
from regard._lazy import load, names, nearest

RECIPES = Path(__file__).parent / "recipes"
PRETRAINED = _files.PRETRAINED
SECTIONS = ("system", "task", "train", "decode")


@dataclass(frozen=True)
class Recipe:
    """A system on a task, with what differs from the defaults."""

    name: str
    about: str
    sections: dict[str, dict[str, Any]]
    small: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    """The section [tiny]."""
    by_size: tuple[dict[str, Any], ...] = ()
    """The tables [[by_size]]."""

    @classmethod
    def read(cls, path: Path, name: str | None = None) -> Recipe:
        """From a file; an error names the file, the section and the nearest right key."""
        try:
            text = regular(path).read_text(encoding="utf-8")
            sections = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{path}: not a recipe in TOML: {error}") from None
        small, by_size = sections.pop("tiny", {}), sections.pop("by_size", [])
        recipe = cls(name or path.stem, about(text), sections, small)
        try:
            recipe = dataclasses.replace(recipe._without_nones(), by_size=_tables(by_size))
            recipe.check()
            for table in recipe.by_size:
                recipe._with(table, "[[by_size]]").check()
            if small:
                recipe.tiny().check()
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return recipe

    def _without_nones(self) -> Recipe:
        """Older versions wrote None as a text."""
        sections = {
            section: {
                key: value
                for key, value in values.items()
                if value != "None" or type(None) not in get_args(self.fields(section).get(key))
            }
            if section in SECTIONS and isinstance(values, dict) and self._has_name(section)
            else values
            for section, values in self.sections.items()
        }
        return dataclasses.replace(self, sections=sections)

    def _has_name(self, section: str) -> bool:
        return section not in ("system", "task") or isinstance(self.sections[section].get("name"), str)

    def tiny(self) -> Recipe:
        """The recipe as [tiny] changes it. A task of another name takes no settings from [task]."""
        if not self.small:
            raise ValueError(f"the recipe {self.name} has no section [tiny]")
        return dataclasses.replace(self._with(self.small, "[tiny]"), small={}, by_size=())

    def _with(self, table: dict[str, Any], name: str) -> Recipe:
        """The recipe with the section.key = value of a table."""
        sections = {section: dict(self.sections.get(section, {})) for section in SECTIONS}
        for section, values in table.items():
            if section in ("up_to", "why") and table is not self.small:
                continue
            if section not in SECTIONS or not isinstance(values, dict):
                raise ValueError(f"{name} has section.key = value, not {section}: {nearest(section, SECTIONS)}")
            other = values.get("name", sections[section].get("name")) != sections[section].get("name")
            sections[section] = dict(values) if other else {**sections[section], **values}
        return dataclasses.replace(self, sections=sections)

    def sized(self, items: int) -> tuple[Recipe, str]:
        """The recipe for this number of training items, and what was chosen for them, in words."""
        fitting = [table for table in self.by_size if items <= table.get("up_to", items)]
        unsized = dataclasses.replace(self, by_size=())
        if not fitting:
            return unsized, ""
        table = fitting[0]
        settings = [f"{key}={value}" for section in SECTIONS for key, value in table.get(section, {}).items()]
        return unsized._with(table, "[[by_size]]"), f"{', '.join(settings)} ({table['why']})" if settings else ""

    def check(self) -> None:
        """Every section and key must be known."""
        for section, values in self.sections.items():
            if section not in SECTIONS or not isinstance(values, dict):
                raise ValueError(f"no section is called [{section}]: {nearest(section, (*SECTIONS, 'tiny'))}")
        for section in ("system", "task"):
            if not isinstance(self.sections.get(section, {}).get("name"), str):
                raise ValueError(f"[{section}] must say which: name = …")
        for section, values in self.sections.items():
            fields = self.fields(section)
            for key, value in values.items():
                if key == "name" and section in ("system", "task"):
                    continue
                if key not in fields:
                    raise ValueError(f"[{section}] has no key {key!r}: {_settings.suggest(key, fields)}")
                if not _settings.fits(value, fields[key]):
                    raise ValueError(f"[{section}] {key} is {_settings.describe(fields[key])}, not {value!r}")

    def fields(self, section: str) -> dict[str, Any]:
        """The keys of a section and their types."""
        types = get_type_hints(self.config(section))
        if section == "system" and hasattr(self.module("system"), "VARIANTS"):
            types["variant"] = str
        return types

    def module(self, section: str) -> ModuleType:
        """Where the system or the task lives."""
        cls = _member("systems" if section == "system" else "tasks", self.sections[section]["name"])
        return importlib.import_module(cls.__module__)

    def config(self, section: str) -> type:
        """The dataclass that a section fills."""
        if section == "train":
            from regard.training import TrainConfig

            return TrainConfig
        if section == "decode":
            from regard.decode.config import DecodeConfig

            return DecodeConfig
        cls: Any = _member(f"{section}s", self.sections[section]["name"])
        return cls.settings if section == "task" else getattr(cls, "Config", None) or self.module(section).Config

    def change(self, changes: Iterable[str]) -> Recipe:
        """The recipe with ``key=value`` or ``section.key=value`` changed. With another system or task, settings that
        only the one before has are left out."""
        changes, other = list(changes), self
        for change in changes:  # before anything is parsed, since the keys are those of the other system
            key, _, value = change.partition("=")
            if key.strip() in ("system.name", "task.name"):
                other = other._with_other(key.strip().partition(".")[0], value.strip())
        sections = {section: dict(other.sections.get(section, {})) for section in SECTIONS}
        tables: tuple[dict[str, Any], ...] = self.by_size
        for section, key, value in other.parsed(changes):
            sections[section][key] = value
            tables = tuple(_without_key(table, section, key) for table in tables)
        changed = dataclasses.replace(self, sections=sections, by_size=tables)
        changed.check()
        return changed

    def _with_other(self, section: str, name: str) -> Recipe:
        """The recipe with another system or task, and those of its settings that the other one has too."""
        if name == self.sections[section].get("name"):
            return self
        other = dataclasses.replace(self, sections={**self.sections, section: {"name": name}})
        keys = {"name", *(field.name for field in dataclasses.fields(other.config(section)))}
        common = {key: value for key, value in self.sections[section].items() if key in keys}
        return dataclasses.replace(self, sections={**self.sections, section: {**common, "name": name}})

    def parsed(self, changes: Iterable[str]) -> list[tuple[str, str, Any]]:
        """Section, key and value of ``key=value`` or ``section.key=value``."""
        settings = []
        for change in changes:
            key, equals, value = change.partition("=")
            if not equals:
                raise ValueError(f"{change!r} is not key=value, for example train.lr=0.001")
            section, key = self._find(key.strip())
            settings.append((section, key, _settings.parse(value.strip(), self.fields(section).get(key, str), key)))
        return settings

    def build(self, section: str, **given: Any) -> Any:
        """The configuration of a section; ``given`` comes from elsewhere, such as the sizes of a vocabulary."""
        values = {key: value for key, value in self.sections.get(section, {}).items() if key != "name"}
        variant = values.pop("variant", None)
        if section == "system" and variant is not None:
            variants = self.module("system").VARIANTS
            if variant not in variants:
                raise ValueError(
                    f"no variant of {self.sections['system']['name']} is called {variant!r}: "
                    f"{nearest(variant, variants)}"
                )
            values = {**variants[variant], **values}
        return _settings.build(self.config(section), {**given, **values}, f"[{section}]")

    def toml(self) -> str:
        """The recipe as a file."""
        blocks = [f"# {self.about}\n"] if self.about else []
        for section, values in self.sections.items():
            # TOML has no None; every setting that may be None is so by default.
            lines = "".join(f"{key} = {_toml(value)}\n" for key, value in values.items() if value is not None)
            if lines:
                blocks.append(f"[{section}]\n{lines}")
        return "\n".join(blocks)

    def _is_task_size(self, section: str, key: str) -> bool:
        """Is it a size of the system that its task sets?"""
        field = {entry.name: entry for entry in dataclasses.fields(self.config(section))}.get(key)
        return section == "system" and field is not None and field.default is field.default_factory

    def _find(self, key: str) -> tuple[str, str]:
        section, dot, rest = key.partition(".")
        if dot:
            if section not in SECTIONS:
                raise ValueError(f"no section is called {section!r}: {nearest(section, SECTIONS)}")
            return section, rest
        homes = [section for section in SECTIONS if key in self.fields(section)]
        if len(homes) > 1:  # not what a task tells its system is meant, but what the recipe itself chooses
            homes = [section for section in homes if not self._is_task_size(section, key)]
            homes = [section for section in homes if key in self.sections.get(section, {})] or homes
        if len(homes) == 1:
            return homes[0], key
        if not homes:
            keys = {name for section in SECTIONS for name in self.fields(section)}
            raise ValueError(f"no section of a recipe has a key {key!r}: {_settings.suggest(key, keys)}")
        raise ValueError(f"{key!r} could be {' or '.join(f'{home}.{key}' for home in homes)}: write which")


def _tables(tables: Any) -> tuple[dict[str, Any], ...]:
    """[[by_size]], checked but for the keys."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ValueError("by_size is written as tables, [[by_size]]")
    ends = [table.get("up_to") for table in tables]
    valid_types = all(type(end) is int for end in ends[:-1]) and (not ends or ends[-1] is None or type(ends[-1]) is int)
    if not valid_types or sorted(end for end in ends if end is not None) != [end for end in ends if end is not None]:
        raise ValueError(f"[[by_size]]: up_to is a number that rises, and only the last table lacks it, not {ends}")
    if not all(isinstance(table.get("why"), str) for table in tables):
        raise ValueError('[[by_size]] says why: why = "…"')
    return tuple(tables)


def _without_key(table: dict[str, Any], section: str, key: str) -> dict[str, Any]:
    """A table of [[by_size]] without a key that was set on the command line."""
    return {name: _without(values, key) if name == section else values for name, values in table.items()}


def _without(values: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


def systems() -> list[str]:
    """The names of all systems."""
    return names("regard.systems")


def system(name: str) -> Any:
    """The class of a system by name."""
    return _member("systems", name)


def task(name: str) -> Any:
    """The class of a task by name."""
    return _member("tasks", name)


def recipes() -> dict[str, Path]:
    """The recipes that come with the package."""
    return {path.stem: path for path in sorted(RECIPES.glob("*.toml"))}


def about(text: str) -> str:
    """The first comment of a recipe: what it is and what to expect."""
    first = text.partition("\n")[0]
    return first.lstrip("# ") if first.startswith("#") else ""


def shipped() -> dict[str, Path]:
    """The trained models that come with the package, with the recipe of each."""
    return {path.parent.name: path for path in sorted(PRETRAINED.glob("*/recipe.toml"))}


def recipe(name: str) -> Recipe:
    """A recipe by name, or from a file whose name ends in .toml."""
    if name.endswith(".toml"):
        return Recipe.read(Path(name))
    paths = recipes()
    if name not in paths:
        raise ValueError(f"no recipe is called {name!r}: {nearest(name, paths)}")
    return Recipe.read(paths[name])


def _member(folder: str, name: str) -> type:
    if ":" in name:
        return _own(name)
    members = names(f"regard.{folder}")
    if name in members:
        return load(f"regard.{folder}", name)
    declared = {point.name: point for point in entry_points(group=f"regard.{folder}")}
    if name not in declared:
        raise ValueError(f"no {folder[:-1]} is called {name!r}: {nearest(name, [*members, *declared])}")
    cls = declared[name].load()
    if not isinstance(cls, type):
        raise ValueError(f"the entry point {name} of regard.{folder}, {declared[name].value}, is not a class")
    return cls


def _own(name: str) -> type:
    """A class outside the package, ``module:Class``. What a file names is not imported for it: a run from a stranger
    could name any module."""
    module, _, attribute = name.partition(":")
    if module not in sys.modules:
        raise ValueError(
            f"{name}: the module {module!r} is not loaded. In a program import it first; for the command line set "
            f"REGARD_IMPORT={module} (it must be on PYTHONPATH)"
        )
    cls = getattr(sys.modules[module], attribute, None)
    if not isinstance(cls, type):
        raise ValueError(f"{name}: {module} has no class {attribute!r}: {nearest(attribute, dir(sys.modules[module]))}")
    return cls


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
