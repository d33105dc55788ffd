"""What is done with a run after training: ``regard average``, ``align`` and ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.commands._app import Data, Trust, Weights, app, examples


@app.command("average")
def average_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    last: Annotated[int, typer.Option("--last", min=1, help="How many of the last kept models.")] = 5,
) -> None:
    """Average the weights of a run's last validations. `predict` then uses the mean."""
    from regard import training

    run = training.Run.open(folder)
    paths = [path for _, path in run.kept()[-last:]]
    if not paths:
        raise ValueError(f"{folder} kept no models to average: train with keep=5, for example")
    print(run.write_model("average", training.average(paths), {"averaged": len(paths)}))


@app.command("align")
def align_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    split: Annotated[str, typer.Option("--split", help="train, valid or test.")] = "valid",
    data: Data = None,
) -> None:
    """Find the head that knows best which word a word came from. It is kept in the run, for alignments, pictures and
    unknown words."""
    from regard import runs, training
    from regard.predictors._heads import head_name

    run = training.Run.open(folder)
    model = runs.load(folder, data=data)
    if not hasattr(model, "choose_head"):
        raise ValueError(f"{folder}: this kind of system ({model.task.kind}) has no heads to choose from")
    choice = model.choose_head(split)
    run.note(alignment=choice)
    measure = {"gold": "1 − alignment error", "copied": "copied words that look at themselves"}[choice["by"]]
    print(f"layer.head  {measure}, {split}")
    for name, share in choice["heads"].items():
        is_chosen = name == head_name(choice["layer"], choice["head"])
        print(f"{name:10} {100 * share:6.1f} %{'  kept' if is_chosen else ''}")


@app.command(
    "export",
    epilog=examples(
        "export runs/translate --out my-translator",
        "export runs/translate --to ctranslate2 --quantization int8 --out fast-translator",
    ),
)
def export_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run; with --to a shipped model too.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where it goes.")],
    which: Weights = None,
    whole: Annotated[bool, typer.Option("--float32", help="Keep all digits; half of them otherwise.")] = False,
    to: Annotated[str | None, typer.Option("--to", metavar="FORMAT", help="ctranslate2 or onnx.")] = None,
    quantization: Annotated[str | None, typer.Option("--quantization", help="For --to, such as int8.")] = None,
    trust: Trust = False,
) -> None:
    """Copy of a run what prediction needs, to give away. `predict` and `show` take the copy. With --to, write it for
    another program."""
    if to is None:
        from regard import training

        if quantization is not None:
            raise ValueError("--quantization goes with --to")
        training.Run.open(folder, trust=trust).pack(out, which, half=not whole)
    else:
        from regard import exports, runs

        exports.write(runs.load(folder, which=which, trust=trust), to, out, quantization=quantization)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {size / 1e6:.1f} MB")


@app.command("dictionary", epilog=examples("dictionary runs/translate --out words.tsv"))
def dictionary_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that translates.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where it goes: word, tab, word.")],
    data: Data = None,
    rounds: Annotated[int, typer.Option("--rounds", help="Of expectation-maximization.", min=1)] = 5,
) -> None:
    """Learn a dictionary from the training text. By IBM Model 1; `predict RUN replace_unknown=FILE` puts its
    words where the system wrote that it knows none."""
    from regard import _files, runs

    task = runs.load(folder, data=data).task
    if not hasattr(task, "lexicon"):
        raise ValueError(f"{folder}: this task ({type(task).__name__}) has no pairs of sentences to learn from")
    from regard.data import lexicon

    best = lexicon.best(task.lexicon(rounds=rounds))
    _files.replace(out, "".join(f"{word}\t{other}\n" for word, other in best.items()).encode())
    print(f"{out}: {len(best):,} words")
