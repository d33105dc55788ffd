"""``regard train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.commands._app import app, examples, typed


@app.command(
    "train",
    epilog=examples(
        "train translate-toy",
        "train translate-toy --resume",
        "train translate-numbers minutes=2 lr=0.002",
        "train translate --data my-folder src=en tgt=fr",
    ),
)
def train_command(
    name: Annotated[str, typer.Argument(metavar="RECIPE", help="A name from `regard list recipes`, or a .toml file.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="What to change, e.g. lr=0.001 or system.dim=128."),
    ] = None,
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="Your own data.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder of the run; runs/RECIPE by default.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in that folder stopped.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count and leave out bad lines of the data.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With --resume: change what is not made to change.")] = False,
) -> None:
    """Train a system. Ctrl-C stops it in good order; --resume goes on as if nothing had happened.

    With --resume, KEY=VALUE may change how long the training goes on, and [decode]; --force changes also the rest.
    """
    from regard import runs, training

    folder = out or Path("runs") / Path(name).stem
    if not resume and training.is_main() and (folder / "run.json").exists():
        raise ValueError(f"{folder} already holds a run: add --resume to go on with it, or --out for another folder")
    changes = [*(changes or []), *(["task.skip_bad=true"] if skip_bad else [])]
    again = " ".join([typed(), "train", name, "--resume", *([f"--out {out}"] if out else [])])
    run = runs.train(name, *changes, data=data, out=folder, resume=resume, force=force, command=again, say=print)
    if training.is_main() and run.summary.ended != "SIGHUP":  # nobody is there to read it
        print("Try next:")
        for command in _next(run):
            print(f"  {typed()} {command.replace('RUN', str(folder))}")
    if run.summary.interrupted:
        raise SystemExit(130)


def _next(run: Any) -> list[str]:
    """What one does with a run."""
    from regard import registry
    from regard.predictors.predictor import Predictor, kind_of
    from regard.questions import File

    task = registry.task(run.recipe()["task"]["name"])
    predicts = kind_of(task.kind).answer is not Predictor.answer
    fields = getattr(task, "asks", {})
    if isinstance(fields, property):  # they depend on what was learned
        fields = task.load(run.folder / "task").asks
    main = next(iter(fields.values()), None)
    file = f" {main.what}{main.suffixes[0]}" if isinstance(main, File) else ""
    shows = 'show RUN "…"' if task.kind == "text" else "show RUN"
    return ["evaluate RUN", *([f"predict RUN{file}"] if predicts else []), shows]
