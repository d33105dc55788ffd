"""The command line, ``regard --help``.

Commands import what they need when they run: ``--help`` must answer before torch could even be loaded.
"""

from __future__ import annotations

import importlib
import inspect
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

# The console script imports this module first, so this is where a missing extra shows.
try:
    import rich  # noqa: F401
    import typer
except ModuleNotFoundError as error:
    print(f"regard: the command line needs {error.name}. Type: pip install 'regard[cli]'", file=sys.stderr)
    raise SystemExit(2) from None

QUESTIONS = {
    "scores": "how well does this key fit this query?",
    "normalizers": "how do scores become weights?",
    "windows": "which keys are candidates at all?",
    "refiners": "weights in, weights out",
    "glimpses": "attention by position",
}

MORE = ("systems", "recipes", "models")


def _examples(*commands: str) -> str:
    """What stands below a command's help, a line each."""
    kept = "\b"  # click would join the lines otherwise
    return "\n".join([kept, "Examples:", *(f"  regard {command}" for command in commands)])


# Plain help and errors: they read the same in a terminal, a pipe and a log.
app = typer.Typer(
    help="Attention as three steps: score, normalize, sum.",
    epilog=_examples(
        "predict translate-en-es                   translate what you type",
        "show translate-en-es 'I love coffee.'     where each word came from",
        "explore                                   all models in your browser",
        "train translate --data DIR src=en tgt=fr  your own translator",
    ),
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(bench, name="bench", help="Measure speed and memory beside other libraries.")


def _version(wanted: bool) -> None:
    if wanted:
        from regard import __version__

        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="On an error show where it arose; the same as REGARD_DEBUG=1.")
    ] = False,
) -> None:
    """Options that stand before every command; ``--traceback`` is read by :func:`main`."""
    if context.invoked_subcommand in ("train", "evaluate", "predict", "serve"):
        from regard import _heap

        _heap.keep()


@app.command("list")
def list_parts(
    kind: Annotated[
        str | None, typer.Argument(metavar="|".join([*QUESTIONS, *MORE]), help="Only this kind; all if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Print every mechanism, system, recipe and trained model.

    Mechanisms come with their equations and papers, systems with what they take for query, key, value and score.
    """
    from regard import parts, registry
    from regard._lazy import nearest

    if kind is not None and kind not in (known := [*QUESTIONS, *MORE]):
        raise ValueError(f"nothing to list is called {kind!r}: {nearest(kind, known)}")
    groups = [group for group in parts.KINDS if kind in (None, group)]
    found = {group: {name: parts.find(group, name) for name in parts.names(group)} for group in groups}
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
            for group, members in found.items()
            for name, cls in members.items()
        ]
        rows += [{"kind": "systems", "name": name, "look": look, "how": how} for name, look, how in systems]
        rows += [{"kind": "recipes", "name": name, "about": about} for name, about in recipes]
        rows += [{"kind": "models", "name": name, "about": about} for name, about in models]
        print(json.dumps(rows, ensure_ascii=sys.stdout.encoding.lower() != "utf-8", indent=2))
        return
    tables: dict[str, Sequence[tuple[str, ...]]] = {
        f"{group}: {QUESTIONS[group]}": [(name, cls.equation, cls.paper) for name, cls in members.items()]
        for group, members in found.items()
    }
    tables |= {"systems: query → key → value, score and normalizer": systems} if systems else {}
    tables |= {"recipes: regard train NAME": recipes} if recipes else {}
    tables |= {"models that come trained: regard show NAME": models} if models else {}
    for number, (title, lines) in enumerate(tables.items()):
        _print_table(("\n" if number else "") + title, lines)


def _systems() -> list[tuple[str, str, str]]:
    """The table of the lectures: what each system takes for query, key, value and score."""
    from regard import registry

    rows = []
    for name in registry.systems():
        looks = registry.system(name).looks
        rows += [(name, "does not look", "")] if not looks else []
        for where, look in looks.items():
            seen = f"{look.query} → {look.key} → {look.value}"
            rows.append((f"{name} {where}", seen, f"{look.score}, {look.normalizer}"))
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


JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", dir_okay=False, help="Also write the table here.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Few repetitions: a look only.")]
Only = Annotated[str, typer.Option("--only", metavar="TEXT", help="Only rows with this in their name.")]


@bench.command("attention")
def bench_attention(
    json_file: JsonFile = None,
    compile: Annotated[bool, typer.Option("--compile", help="Add torch.compile as an opponent.")] = False,
    quick: Quick = False,
    only: Only = "",
) -> None:
    """Time attention against PyTorch and peers."""
    _bench("attention", json_file, quick, only, compile=compile)


@bench.command("graphs")
def bench_graphs(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time attention along edges against PyTorch Geometric."""
    _bench("graphs", json_file, quick, only)


@bench.command("memory")
def bench_memory(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time the systems with a memory against plain PyTorch."""
    _bench("memory", json_file, quick, only)


@bench.command("serve")
def bench_serve(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time the server: 32 clients, with and without batching."""
    _bench("serve", json_file, quick, only)


@bench.command("translate")
def bench_translate(
    json_file: JsonFile = None,
    quick: Quick = False,
    only: Only = "",
    lines: Annotated[int, typer.Option("--lines", help="Of the file for predict.", min=10)] = 100_000,
) -> None:
    """Time our translators as the work grows, and in other engines."""
    _bench("translate", json_file, quick, only, lines=lines)


@bench.command("vision")
def bench_vision(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time glimpses against plain PyTorch."""
    _bench("vision", json_file, quick, only)


def _bench(name: str, json_file: Path | None, quick: bool, only: str, **more: Any) -> None:
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise ValueError(f"--json {json_file}: the folder {json_file.absolute().parent} does not exist")
    importlib.import_module(f"regard.bench.{name}").run(json_file=json_file, quick=quick, only=only, **more)


data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data", help="Public data sets: which there are, and fetching them.")


@data_app.command("list")
def data_list() -> None:
    """Print the known data sets, their licences, and where they lie on this machine."""
    from regard.tasks._download import SETS, locate

    for name, known in SETS.items():
        try:
            place = str(locate(name))
        except ValueError:
            place = "not on this machine"
        print(f"{name}: {known.about}\n  {known.licence}; {known.page}\n  {place}")


@data_app.command("get")
def data_get(name: Annotated[str, typer.Argument(help="A name from `regard data list`.")]) -> None:
    """Download a data set from its public home and check it."""
    from regard.tasks._download import get

    print(get(name))


@app.command(
    "train",
    epilog=_examples(
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
) -> None:
    """Train a system. Ctrl-C stops it in good order; --resume goes on as if nothing had happened."""
    from regard import registry, training

    folder = out or Path("runs") / Path(name).stem
    changes = [*(changes or []), *(["task.skip_bad=true"] if skip_bad else [])]
    if resume:
        run = training.Run.open(folder)
        recipe = registry.Recipe.read(run.folder / "recipe.toml", name).change(changes)
        task = registry.task(recipe.sections["task"]["name"]).load(
            run.task, data, **({"skip_bad": True} if skip_bad else {})
        )
    else:
        if training.is_main() and (folder / "run.json").exists():
            raise ValueError(
                f"{folder} already holds a run: add --resume to go on with it, or --out for another folder"
            )
        recipe = registry.recipe(name).change(changes)
        task = registry.task(recipe.sections["task"]["name"])(recipe.build("task"), data)
    config = recipe.build("train")
    training.seed(config.seed)
    model = registry.system(recipe.sections["system"]["name"])(recipe.build("system", **task.sizes))
    train, valid = task.loader("train", seed=config.seed), task.loader("valid")
    if not resume:
        run = training.Run.create(folder, recipe.toml())
        if training.is_main():
            task.save(run.task)
    if training.is_main():
        size = sum(parameter.numel() for parameter in model.parameters())
        print(f"{recipe.name}: {type(model).__name__} with {size:,} parameters, in {folder}")
        if hasattr(train, "report"):
            print(train.report())
    again = " ".join([_typed(), "train", name, "--resume", *([f"--out {out}"] if out else [])])
    summary = training.fit(model, train, valid, run, config, resume=resume, command=again, unit=task.unit)
    if training.is_main():
        print("Try next:")
        for command in _next(task.kind):
            print(f"  {_typed()} {command.replace('RUN', str(folder))}")
    if summary.interrupted:
        raise SystemExit(130)


def _next(kind: str) -> list[str]:
    """What one does with a run that gives this kind of answer."""
    from regard.trained import Trained, kind_of

    predicts = kind_of(kind).answer is not Trained.answer
    return ["evaluate RUN", *(["predict RUN"] if predicts else []), 'show RUN "…"' if kind == "text" else "show RUN"]


@app.command("average")
def average_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    last: Annotated[int, typer.Option("--last", help="How many of the last kept models.")] = 5,
) -> None:
    """Average the weights of a run's last validations. `predict` then uses the mean."""
    from regard import training

    run = training.Run.open(folder)
    kept = [path for _, path in run.kept()[-last:]]
    if not kept:
        raise ValueError(f"{folder} kept no models to average: train with keep=5, for example")
    print(run.write_model("average", training.average(kept), {"averaged": len(kept)}))


@app.command("align")
def align_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    split: Annotated[str, typer.Option("--split", help="train, valid or test.")] = "valid",
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="Where the data lies now.")] = None,
) -> None:
    """Find the head that knows best which word a word came from. It is kept in the run, for alignments, pictures and
    unknown words."""
    from regard import training
    from regard.trained import Trained
    from regard.trained.text import head_name

    run = training.Run.open(folder)
    model = Trained.open(folder, data=data)
    if not hasattr(model, "choose_head"):
        raise ValueError(f"{folder}: this kind of system ({model.task.kind}) has no heads to choose from")
    chosen = model.choose_head(split)
    run.note(alignment=chosen)
    measured = {"gold": "1 − alignment error", "copied": "copied words that look at themselves"}[chosen["by"]]
    print(f"layer.head  {measured}, {split}")
    for name, share in chosen["heads"].items():
        kept = name == head_name(chosen["layer"], chosen["head"])
        print(f"{name:10} {100 * share:6.1f} %{'  kept' if kept else ''}")


@app.command(
    "export",
    epilog=_examples(
        "export runs/translate --out my-translator",
        "export runs/translate --to ctranslate2 --quantization int8 --out fast-translator",
    ),
)
def export_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run; with --to a shipped model too.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where it goes.")],
    which: Annotated[str | None, typer.Option("--weights", help="average, best or last.")] = None,
    whole: Annotated[bool, typer.Option("--float32", help="Keep all digits; half of them otherwise.")] = False,
    to: Annotated[str | None, typer.Option("--to", metavar="FORMAT", help="Another program's: ctranslate2.")] = None,
    quantization: Annotated[str | None, typer.Option("--quantization", help="For --to, such as int8.")] = None,
) -> None:
    """Copy of a run what prediction needs, to give away. `predict` and `show` take the copy. With --to, write it for
    another program."""
    if to is None:
        from regard import training

        if quantization is not None:
            raise ValueError("--quantization goes with --to")
        training.Run.open(folder).pack(out, which, half=not whole)
    else:
        from regard import exports
        from regard.trained import Trained

        exports.write(Trained.open(folder, which=which), to, out, quantization=quantization)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {size / 1e6:.1f} MB")


Int8 = Annotated[bool, typer.Option("--int8", help="8-bit integers in linear layers: faster, a little less exact.")]


@app.command("evaluate")
def evaluate_command(
    where: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run, or a shipped model.")],
    ensemble: Annotated[list[str] | None, typer.Option("--ensemble", metavar="RUN", help="More that vote.")] = None,
    split: Annotated[str, typer.Option("--split", help="train, valid or test.")] = "test",
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="Where the data lies now.")] = None,
    which: Annotated[str | None, typer.Option("--weights", help="average, best or last.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Only the first so many sentences, for a look.")] = None,
    int8: Int8 = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure a system on a split. For text: BLEU, chrF and TER of what it writes, with sacrebleu's signatures."""
    import json

    from regard.trained import Trained

    model = Trained.open(where, *(ensemble or []), which=which, data=data)
    if int8:
        model.int8()
    found = model.evaluate(split, limit=limit)
    if as_json:
        print(json.dumps({**found, "signatures": model.signatures}, indent=1))
        return
    for name, value in found.items():
        shown = f"{value:,.0f}" if value >= 1000 and value == int(value) else f"{value:.2f}"
        print(f"{name:22} {shown:>9}  {model.signatures.get(name, '')}".rstrip())


def _typed() -> str:
    """This program as one types it here."""
    path, here = Path(sys.argv[0]).absolute(), Path.cwd()
    if path.name != "regard":
        return "regard"
    on_path = shutil.which("regard")
    if on_path and Path(on_path).absolute() == path:
        return "regard"
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


Nodes = Annotated[str | None, typer.Option("--nodes", metavar="A,B,…", help="Graphs: the nodes that are asked about.")]
Graph = Annotated[int, typer.Option("--graph", help="Graphs: which one, if there are several.", min=0)]
Head = Annotated[int | None, typer.Option("--head", help="Graphs, stacks: only this one.", min=0)]
Story = Annotated[str | None, typer.Option("--task", metavar="NAME", help="Stories: which task's model answers.")]
Repeats = Annotated[int, typer.Option("--repeats", help="Tapes: how often to repeat the copy.", min=1)]
Rows = Annotated[int | None, typer.Option("--rows", help="Tapes: rows of memory, also more than in training.", min=1)]
Seed = Annotated[int, typer.Option("--seed", help="Tapes, --imagine: which random one.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]

SHARED = ("where", "file", "what", "out", "ensemble", "data", "int8")
"""What `predict` and `show` take for every kind of system."""


def _options(context: typer.Context, method: Callable[..., Any]) -> dict[str, Any]:
    """The options that were typed, if ``method`` takes them: each kind of system has its own."""
    known = [name for name, each in inspect.signature(method).parameters.items() if each.kind is each.KEYWORD_ONLY]
    typed, spelled = {}, {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        if name in SHARED or source is None or source.name != "COMMANDLINE":
            continue
        if name not in known:
            others = ", ".join(spelled[each] for each in known if each in spelled) or "none"
            raise ValueError(f"{context.params['where']} takes no {spelled[name]}; its options here: {others}")
        typed[name] = value
    return typed


@app.command(
    "predict",
    epilog=_examples(
        "predict translate-en-es",
        "predict translate-en-es news.txt --nbest 3",
        "predict runs/translate --ensemble runs/another news.txt --json",
    ),
)
def predict_command(
    context: typer.Context,
    where: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run, or a shipped model.")],
    file: Annotated[Path | None, typer.Argument(help="What to answer; standard input if not given.")] = None,
    ensemble: Annotated[list[str] | None, typer.Option("--ensemble", metavar="RUN", help="More that vote.")] = None,
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="Where the data lies now.")] = None,
    nbest: Annotated[int, typer.Option("--nbest", help="Text: answers to each sentence.", min=1)] = 1,
    alignments: Annotated[bool, typer.Option("--alignments", help="Text: add word alignments, 0-0 1-2.")] = False,
    as_json: Json = False,
    replace_unknown: Annotated[
        Path | None,
        typer.Option("--replace-unknown", metavar="FILE", help="Text: a dictionary for unknown words, word TAB word."),
    ] = None,
    copy_unknown: Annotated[
        bool, typer.Option("--copy-unknown", help="Text: copy unknown words from the source.")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", help="Text: processes that share the work.", min=1)] = 1,
    int8: Int8 = False,
    nodes: Nodes = None,
    graph: Graph = 0,
    task: Story = None,
    repeats: Repeats = 1,
    rows: Rows = None,
    seed: Seed = 0,
) -> None:
    """Answer the lines of a file or of standard input. They stay in order, and an empty one stays empty."""
    from regard.trained import Trained

    model = Trained.open(where, *(ensemble or []), data=data)
    if int8:
        model.int8()
    waiting = file is None and sys.stdin.isatty()
    for line in model.answer(file, **_options(context, model.answer)):
        print(line, flush=waiting)


@app.command(
    "show",
    epilog=_examples(
        "show translate-en-es 'I love coffee.'",
        "show translate-en-es 'I love coffee.' --out coffee.html",
        "show ram-mnist --out glimpses.png",
        "show ntm-copy 60 --rows 128",
    ),
)
def show_command(
    context: typer.Context,
    where: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run, or a shipped model.")],
    what: Annotated[list[str] | None, typer.Argument(metavar="WHAT", help="A sentence, for example.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="A picture (.png .svg .pdf) or a page (.html).")
    ] = None,
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="Where the data lies now.")] = None,
    nbest: Annotated[int, typer.Option("--nbest", help="Text: hypotheses on the page.", min=1)] = 5,
    own: Annotated[bool, typer.Option("--self", help="Text: where the words of the sentence look among them.")] = False,
    word: Annotated[str | None, typer.Option("--word", help="Text: the same for one word in all heads.")] = None,
    head: Head = None,
    layer: Annotated[int, typer.Option("--layer", help="Graphs, --word: which layer, from 1.", min=1)] = 1,
    imagine: Annotated[int, typer.Option("--imagine", help="DRAW: so many digits that nobody showed it.", min=0)] = 0,
    graph: Graph = 0,
    task: Story = None,
    split: Annotated[str, typer.Option("--split", help="Stories: where example numbers count.")] = "test",
    repeats: Repeats = 1,
    rows: Rows = None,
    seed: Seed = 0,
) -> None:
    """Show where a system looked, in the terminal or as a picture. A page (.html) can be explored with the mouse, and
    needs no network."""
    from regard.trained import Trained

    model = Trained.open(where, data=data)
    for line in model.show(what or [], out, **_options(context, model.show)):
        print(line)


Host = Annotated[str, typer.Option("--host", help="The address to listen at; by default only this machine can ask.")]
Port = Annotated[int, typer.Option("--port", help="0 for any that is free.", min=0, max=65535)]
NoToken = Annotated[bool, typer.Option("--no-token", help="Let everyone ask who can reach the address.")]


@app.command(
    "serve",
    epilog=_examples(
        "serve translate-en-es",
        "serve runs/translate ram-mnist --port 9000",
        "serve runs/translate --host 0.0.0.0  with REGARD_TOKEN in the environment",
    ),
)
def serve_command(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Folders of runs, or shipped models.")],
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Annotated[
        str | None, typer.Option("--token", envvar="REGARD_TOKEN", help="What clients must send as a bearer token.")
    ] = None,
    no_token: NoToken = False,
    batch: Annotated[int, typer.Option("--batch", help="Questions answered together.", min=1)] = 32,
    queue: Annotated[int, typer.Option("--queue", help="Questions that may wait for a model.", min=1)] = 128,
    seconds: Annotated[float, typer.Option("--timeout", help="Seconds until an asker is told to give up.")] = 30.0,
) -> None:
    """Answer questions over HTTP, as JSON. /openapi.json tells how, docs/serving.md tells more."""
    from regard.serve import app, server
    from regard.serve.limits import Limits

    hosts = _hosts(host, token, no_token, "add --token, or --no-token to let everyone ask")
    limits = Limits(batch=batch, queue=queue, seconds=seconds)
    made = app.create(runs, limits=limits, token=token, hosts=hosts)
    server.run(made, host=host, port=port, limits=limits, ready=lambda url: print(f"serving at {url}", flush=True))


@app.command("explore")
def explore_command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", help="Folders of runs, or shipped models; by default all there are."),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    no_token: NoToken = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Ask every model in a browser, and see where it looked."""
    from regard.serve import app, server

    hosts = _hosts(host, None, no_token, "add --no-token to let everyone ask; regard serve has tokens")
    cards, others = ([app.open_card(run) for run in runs], {}) if runs else app.at_hand()
    for name, why in others.items():
        print(f"left out {name}: {why}", file=sys.stderr)

    def ready(url: str) -> None:
        print(f"open {url} in a browser; Ctrl-C ends", flush=True)
        if not no_browser:
            _browse(url)

    server.run(app.create(cards, hosts=hosts, explorer=True), host=host, port=port, ready=ready)


def _hosts(host: str, token: str | None, no_token: bool, allow: str) -> set[str] | None:
    """The names that a server there answers to; None for any. Whoever opens it to others must say who may ask."""
    from regard.serve.server import LOOPBACK, local

    if not local(host) and token is None and not no_token:
        raise ValueError(f"{host} can be reached from other machines: {allow}")
    return {*LOOPBACK, host.lower()} if local(host) and token is None else None


def _browse(url: str) -> None:
    """In a window, where there can be one: not in the terminal that the server was started from."""
    import threading
    import webbrowser

    if sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def _explain(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("regard"):
        return f"this command needs {error.name}. Type: pip install 'regard[all]'"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, ValueError | OSError):
        return str(error)
    return f"a fault of regard's own, {type(error).__name__}: {error}. Please report what --traceback shows"


def main() -> None:
    """Run the command line. An error is one line on stderr and exit code 2, never a bare traceback."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    # Wherever it stands: people add --traceback at the end of the line that has just failed.
    arguments = [argument for argument in sys.argv[1:] if argument != "--traceback"]
    try:
        app(arguments, prog_name="regard")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        if len(arguments) < len(sys.argv) - 1 or os.environ.get("REGARD_DEBUG", "") not in ("", "0"):
            raise
        print(f"regard: {_explain(error)}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
