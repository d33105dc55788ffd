"""``regard predict``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.commands import _options
from regard.commands._app import Data, Ensemble, Int8, Rescore, RescoreWeight, Trust, Where, app, examples, rescored


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
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE …] [KEY=VALUE]", help="What to answer; standard input if not given. Options."),
    ] = None,
    ensemble: Ensemble = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    int8: Int8 = False,
    rescore: Rescore = None,
    rescore_weight: RescoreWeight = None,
    trust: Trust = False,
) -> None:
    """Answer lines of files or of standard input, or whole files.

    Whole files are pictures, for example, or all those of a folder. Answers stay in order; one that is missing stays
    empty."""
    from regard import runs

    model = rescored(runs.load(where, *(ensemble or []), data=data, trust=trust), rescore, rescore_weight, trust)
    accepted = _options.of(model.answer, lambda: model.Question.inputs)
    words, options = _options.split([*(arguments or []), *(["as_json=true"] if as_json else [])], accepted, where)
    if "" in words:
        raise ValueError("there is nothing to answer: the text is empty")
    if int8:
        model.int8()
    files: list[Path | None] = [Path(word) for word in words] or [None]
    interactive = not words and sys.stdin is not None and sys.stdin.isatty()
    failures = 0
    for file in files:
        try:
            for line in model.answer(file, **options):
                print(line, flush=interactive)
        except ValueError as error:
            if len(files) == 1:
                raise
            failures += 1
            print(error, file=sys.stderr)
    if failures:
        raise ValueError(f"{failures} of {len(files)} files have no answer, or not all; why is said above")
