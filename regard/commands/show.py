"""``regard show``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.commands import _options
from regard.commands._app import Data, Rescore, RescoreWeight, Trust, Where, app, examples, rescored


@app.command(
    "show",
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "show translate-en-es 'I love coffee.'",
        "show translate-en-es 'I love coffee.' --out coffee.html",
        "show ram-mnist --out glimpses.png",
        "show ntm-copy 60 rows=128",
        "show ntm-copy --help     the options of that model",
    ),
)
def show_command(
    where: Where,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WHAT] [KEY=VALUE]", help="A sentence, for example, or a file of them. Options."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="A picture (.png .svg .pdf .gif) or a page (.html).")
    ] = None,
    data: Data = None,
    rescore: Rescore = None,
    rescore_weight: RescoreWeight = None,
    trust: Trust = False,
) -> None:
    """Show where a system looked, in the terminal or as a picture. A page (.html) can be explored with the mouse, and
    needs no network."""
    from regard import runs

    model = rescored(runs.load(where, data=data, trust=trust), rescore, rescore_weight, trust)
    accepted = _options.of(model.look, lambda: model.Question.inputs)
    what, options = _options.split(arguments or [], accepted, where)
    for line in model.show(what, out, **options):
        print(line)
