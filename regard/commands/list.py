"""``regard list``: every mechanism, system, recipe and trained model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from regard.commands._app import app

QUESTIONS = {
    "scores": "how well does this key fit this query?",
    "normalizers": "how do scores become weights?",
    "windows": "which keys are candidates at all?",
    "refiners": "weights in, weights out",
    "positions": "where do queries and keys stand?",
    "glimpses": "attention by position",
}

MORE = ("systems", "recipes", "models")


@app.command("list")
def list_parts(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="|".join([*QUESTIONS, *MORE, "NAME"]),
            help="Only this kind, or one mechanism by its name, such as additive; all if not given.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Print every mechanism, system, recipe and trained model.

    Mechanisms come with their equations and papers, systems with what they take for query, key, value and score.
    """
    from regard import parts, registry
    from regard._lazy import nearest

    if kind is not None and kind not in (kinds := [*QUESTIONS, *MORE]):
        homes = {name: group for group in parts.KINDS for name in parts.names(group)}
        if kind not in homes:
            raise ValueError(f"nothing to list is called {kind!r}: {nearest(kind, [*kinds, *homes])}")
        if not as_json:
            return _print_part(homes[kind], kind)
        mechanisms = {homes[kind]: {kind: parts.find(homes[kind], kind)}}
    else:
        groups = [group for group in parts.KINDS if kind in (None, group)]
        mechanisms = {group: {name: parts.find(group, name) for name in parts.names(group)} for group in groups}
    systems = _systems() if kind in (None, "systems") else []
    recipes = _abouts(registry.recipes()) if kind in (None, "recipes") else []
    models = _abouts(registry.shipped()) if kind in (None, "models") else []
    if as_json:
        import json

        rows: list[dict[str, object]] = [
            {
                "kind": group,
                "name": name,
                "class": f"regard.{group}.{cls.__name__}",
                "arguments": parts.arguments(cls),
                "equation": cls.equation,
                "paper": cls.paper,
                "needs": list(cls.needs),
                "positional": cls.positional,
            }
            for group, members in mechanisms.items()
            for name, cls in members.items()
        ]
        rows += [{"kind": "systems", "name": name, "look": look, "how": how} for name, look, how in systems]
        rows += [{"kind": "recipes", "name": name, "about": about} for name, about in recipes]
        rows += [{"kind": "models", "name": name, "about": about} for name, about in models]
        print(json.dumps(rows, ensure_ascii=sys.stdout.encoding.lower() != "utf-8", indent=2))
        return
    tables: dict[str, Sequence[tuple[str, ...]]] = {
        f"{group}: {QUESTIONS[group]}": [(name, cls.equation, cls.paper) for name, cls in members.items()]
        for group, members in mechanisms.items()
    }
    tables |= {"systems: query → key → value, score and normalizer": systems} if systems else {}
    tables |= {"recipes: regard train NAME": recipes} if recipes else {}
    tables |= {"models that come trained: regard show NAME": models} if models else {}
    for number, (title, lines) in enumerate(tables.items()):
        _print_table(("\n" if number else "") + title, lines)


def _print_part(kind: str, name: str) -> None:
    """All about one mechanism."""
    import inspect

    from regard import parts

    cls = parts.find(kind, name)
    parameters = inspect.signature(cls).parameters
    signature = [f"{argument}: {parameters[argument].annotation}" for argument in parts.arguments(cls, required=True)]
    signature += [
        f"{argument}: {parameters[argument].annotation} = {parameters[argument].default!r}"
        for argument in parts.arguments(cls)[len(signature) :]
    ]
    print(f"{name}, one of the {kind}: {QUESTIONS[kind]}\n")
    print(f"  regard.{kind}.{cls.__name__}({', '.join(signature)})")
    print(f"  equation     {cls.equation}\n  paper        {cls.paper}")
    if needs := [f"{need}=" for need in cls.needs if need not in parts.PROVIDED]:
        print(f"  at the call  {', '.join(needs)}")
    if "state" in cls.needs:
        print("  has a state  state=attention.start(memory), then state=out.state")
    print(f"\n{inspect.cleandoc(cls.__doc__ or '')}\n\nExample:\n\n    import regard, torch\n")
    for line in parts.example(kind, cls).splitlines():
        print(f"    {line}")


def _systems() -> list[tuple[str, str, str]]:
    """The table of the lectures: what each system takes for query, key, value and score."""
    from regard import registry

    rows = []
    for name in registry.systems():
        uses = registry.system(name).uses
        rows += [(name, "does not look", "")] if not uses else []
        for where, use in uses.items():
            rows.append((f"{name} {where}", f"{use.query} → {use.key} → {use.value}", f"{use.score}, {use.normalizer}"))
    return rows


def _abouts(files: Mapping[str, Path]) -> list[tuple[str, str]]:
    """What recipes say of themselves. They are not built: what one needs may not be installed, and it can still be
    listed."""
    from regard import registry

    return [(name, registry.about(path.read_text(encoding="utf-8"))) for name, path in files.items()]


def _print_table(title: str, rows: Sequence[tuple[str, ...]]) -> None:
    """Name, equation and paper, or the like. A terminal folds what is too wide; a pipe gets each row on one line."""
    from rich.console import Console
    from rich.table import Table

    # Equations hold brackets, which rich would take for markup.
    console = Console(markup=False, highlight=False, emoji=False)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim", overflow="fold")
    for row in rows:
        table.add_row(*row)
    if console.is_terminal:
        console.print(title, style="bold underline")
        console.print(table)
        return
    console.width = 10_000
    with console.capture() as captured:
        console.print(table)
    print(title)
    for line in captured.get().splitlines():
        print(line.rstrip())
