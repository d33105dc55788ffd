"""``regard predict``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.commands import _options
from regard.commands._app import Data, Ensemble, Int8, Trust, Where, app, examples


@app.command(
    "predict",
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "predict translate-en-es",
        "predict translate-en-es news.txt nbest=3",
        "predict runs/translate --ensemble runs/another news.txt --json",
        "predict translate-en-es --help     the options of that model",
    ),
)
def predict_command(
    where: Where,
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE] [KEY=VALUE]", help="What to answer; standard input if not given. Options."),
    ] = None,
    ensemble: Ensemble = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    int8: Int8 = False,
    trust: Trust = False,
) -> None:
    """Answer the lines of a file or of standard input. They stay in order; one without an answer stays empty."""
    from regard import runs

    model = runs.load(where, *(ensemble or []), data=data, trust=trust)
    known = _options.of(model.answer, lambda: model.Question.inputs)
    words, options = _options.split([*(given or []), *(["as_json=true"] if as_json else [])], known, where)
    if len(words) > 1:
        named = " ".join(words[:3]) + (" …" if len(words) > 3 else "")
        raise ValueError(f"one file, or folder, is answered at a time, not {len(words)}: {named}")
    if words == [""]:
        raise ValueError("there is nothing to answer: the text is empty")
    if int8:
        model.int8()
    file = Path(words[0]) if words else None
    waiting = file is None and sys.stdin is not None and sys.stdin.isatty()
    for line in model.answer(file, **options):
        print(line, flush=waiting)
