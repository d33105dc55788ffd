"""From a recipe to a trained system, and back from a folder: what the command line does, as functions.

run = regard.train("translate-toy", "lr=0.002", out="runs/first")
model = regard.load(run.folder)                  # or the name of a shipped model
model = regard.load("translate-en-es")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from regard import registry, training
from regard._lazy import load as load_member
from regard._lazy import nearest
from regard.data import untrusted as untrusted_data
from regard.registry import Recipe
from regard.tasks.task import Task
from regard.training import Run, untrusted

MAY_CHANGE = {
    "train": {
        *("steps", "epochs", "minutes", "patience", "validate_every", "keep", "average", "checkpoint_minutes"),
        *("log_every", "tensorboard", "threads", "device"),
    },
    "task": {"skip_bad"},
}
"""What a run that goes on may change; all of [decode] too. Other changes need ``force``."""


class Assembled(NamedTuple):
    """The task and the model that a recipe describes."""

    recipe: Recipe
    task: Task
    model: nn.Module


def assemble(recipe: Recipe, data: Any = None, *, task: Task | None = None, seed: int | None = None) -> Assembled:
    """The task and the untrained model of a recipe.

    Args:
        data: where the data lies, instead of where the recipe says.
        task: one that exists already, as in a run.
        seed: of everything random from here on, the model's first weights above all; nothing is seeded if None.
    """
    if task is None:
        task = registry.task(recipe.sections["task"]["name"])(recipe.build("task"), data)
    if seed is not None:
        training.seed(seed)
    model = registry.system(recipe.sections["system"]["name"])(recipe.build("system", **task.sizes))
    return Assembled(recipe, task, model)


def train(
    recipe: str | Path | Recipe,
    *changes: str,
    data: Any = None,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    command: str | None = None,
    console: Any = None,
    say: Callable[[str], None] | None = None,
) -> Run:
    """Train a recipe; the run holds everything that came of it, ``run.summary`` how it ended.

    Args:
        recipe: the name of one that ships, a ``.toml`` file, or one that was read.
        changes: ``key=value``, as on the command line.
        data: where the data lies, or data itself where the task takes objects.
        out: the folder of the run; ``runs/NAME`` if None.
        resume: go on with the run in that folder. Its own recipe counts then, and of ``recipe`` only the name.
        force: when going on, change also what is not made to change, such as the learning rate.
        command: what to type in order to go on, printed after Ctrl-C.
        console: a ``rich.console.Console`` for the progress instead of stderr.
        say: called with each line about what is trained; None for silence.
    """
    name, sizes = recipe.name if isinstance(recipe, Recipe) else Path(recipe).stem, ""
    folder = Path(out) if out is not None else Path("runs") / name
    if resume:
        run = Run.open(folder)
        assembled = _resumed(run, name, changes, data, force)
    else:
        if training.is_main():
            Run.check_free(folder)
        changed = (recipe if isinstance(recipe, Recipe) else registry.recipe(str(recipe))).change(changes)
        changed, sizes = _sized(changed, data)
        assembled = assemble(changed, data, seed=changed.build("train").seed)
    config = assembled.recipe.build("train")
    started = take_over(assembled.model, config.init, assembled.task) if config.init and not resume else ""
    loaders = assembled.task.loader("train", seed=config.seed), assembled.task.loader("valid")
    if not resume:
        run = Run.create(folder, assembled.recipe.toml(), assembled.task.save)
    if training.is_main() and say:
        size = sum(parameter.numel() for parameter in assembled.model.parameters())
        say(f"{assembled.recipe.name}: {type(assembled.model).__name__} with {size:,} parameters, in {folder}")
        for line in filter(None, (sizes, started, loaders[0].report())):
            say(line)
    run.summary = training.fit(
        assembled.model,
        *loaders,
        run,
        config,
        resume=resume,
        command=command,
        unit=assembled.task.unit,
        console=console,
    )
    return run


def _sized(recipe: Recipe, data: Any) -> tuple[Recipe, str]:
    """The recipe for as much data as there is, and a line that says so."""
    if not recipe.by_size:
        return recipe, ""
    task = registry.task(recipe.sections["task"]["name"])
    count = task.amount(recipe.build("task"), data)
    if count is None:
        return recipe, ""
    sized_recipe, choice = recipe.sized(count)
    return sized_recipe, f"for {count:,} {task.items}: {choice}; key=value changes any of these" if choice else ""


def take_over(model: nn.Module, where: str | Path, task: Task | None = None) -> str:
    """Start a model from the weights of a run or of a shipped model, where name and shape fit; says what did not, and
    whether the words of its ``task`` are others than that run's."""
    run = Run.open(folder_of(where))
    weights, _ = training.read_weights(run.weights())
    state = model.state_dict()
    fitting = {name: tensor for name, tensor in weights.items() if name in state and tensor.shape == state[name].shape}
    if not fitting:
        raise ValueError(f"init = {where}: none of its {len(weights)} tensors fits this {type(model).__name__}")
    model.load_state_dict(fitting, strict=False)
    new, unused = [name for name in state if name not in fitting], [name for name in weights if name not in fitting]
    parts = [f"starts from {where}: {len(fitting)} of {len(state)} tensors"]
    parts += [f"{what}: {_few(names)}" for what, names in (("new", new), ("unused", unused)) if names]
    shapes = [f"{name} {(*weights[name].shape,)} instead of {(*state[name].shape,)}" for name in new if name in weights]
    parts += [f"of another shape: {_few(shapes, 1)}"] if shapes else []
    if task is not None and _words(*task.pack()) != _words(*_packed(run.task)):
        hint = f"tokens={where} would cut text as it did" if hasattr(task.config, "tokens") else "it had another text"
        parts.append(f"its tokens stand for other words than this run's: {hint}")
    return "; ".join(parts)


def _packed(folder: Path) -> tuple[Any, dict[str, bytes]]:
    """The facts and files that a task has saved."""
    files = {path.name: untrusted_data.read(path) for path in sorted(folder.glob("*.json"))}
    return untrusted_data.parse_json(files.pop("task.json", b"{}"), folder), files


def _words(facts: Any, files: Mapping[str, bytes]) -> Any:
    """What tokens stand for, as a task saves it: the vocabulary of its last tokenizer, or its words."""
    contents = [untrusted_data.parse_json(files[name], name) for name in sorted(files)]
    vocabularies = [
        content["model"]["vocab"] for content in contents if isinstance(content, dict) and "model" in content
    ]
    return vocabularies[-1] if vocabularies else facts.get("words") if isinstance(facts, dict) else None


def _few(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _resumed(run: Run, name: str, changes: Sequence[str], data: Any, force: bool) -> Assembled:
    """Recipe, task and model of a run that goes on, with the changes, which are also written into the run."""
    before = Recipe.read(run.folder / "recipe.toml", name)
    differences = [
        (section, key, value)
        for section, key, value in before.parsed(changes)
        if before.sections.get(section, {}).get(key) != value
    ]
    fixed = [f"{section}.{key}" for section, key, _ in differences if not _may_change(section, key)]
    if fixed and not force:
        free = ", ".join(sorted(MAY_CHANGE["train"]))
        raise ValueError(
            f"{run.folder} goes on with the {' and '.join(fixed)} that it was begun with. Begin another run with "
            f"--out, or add --force to change it all the same; what may change freely: {free}, and [decode]"
        )
    recipe = before.change(changes)
    settings = {key: value for section, key, value in differences if section == "task"}
    task = registry.task(recipe.sections["task"]["name"]).load(run.task, data, **settings)
    assembled = assemble(recipe, task=task, seed=recipe.build("train").seed)
    if differences and training.is_main():
        if settings:
            task.save(run.task)
        changed = {f"{section}.{key}": value for section, key, value in differences}
        run.change(recipe.toml(), {"at": datetime.now(UTC).isoformat(timespec="seconds"), "changed": changed})
    return assembled


def _may_change(section: str, key: str) -> bool:
    return section == "decode" or key in MAY_CHANGE.get(section, ())


class Opened(NamedTuple):
    """A run or a shipped model, with its weights."""

    run: Run
    recipe: Recipe
    task: Task
    model: nn.Module


def open_run(where: str | Path | Run, which: str | None = None, data: Any = None, *, trust: bool = False) -> Opened:
    """Task and model of a run's folder or of a shipped model.

    Args:
        which: ``average``, ``best`` or ``last`` weights; by default the first of these that the run has.
        data: where the task's data lies now, if it is needed and has moved.
        trust: lift the limits on what the files of a run may ask for; see :mod:`regard.training.untrusted`.
    """
    folder = where.folder if isinstance(where, Run) else folder_of(where)
    trust = trust or folder.parent == registry.PRETRAINED
    run = Run.open(folder, trust=trust)
    recipe = Recipe.read(run.folder / "recipe.toml")
    if alignment := run.facts().get(
        "alignment"
    ):  # which of many heads says where a word came from; see Text.choose_head
        recipe = recipe.change(f"system.alignment_{part}={alignment.get(part, -1)}" for part in ("layer", "head"))
    path = run.weights(which)
    if not trust:
        for section in untrusted.CEILINGS:
            values = recipe.sections.get(section, {})
            untrusted.check_numbers(section, values, recipe.config(section), run.folder / "recipe.toml")
        untrusted.check_task(run.task / "task.json", recipe.config("task"))
    try:
        task = registry.task(recipe.sections["task"]["name"]).load(run.task, data)
        with nullcontext() if trust else untrusted.Budget(path):
            assembled = assemble(recipe, task=task)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        if any(":" in recipe.sections[section]["name"] for section in ("system", "task")):
            raise  # a system of the user's own, whose fault this may be
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"{run.folder}: what its files describe cannot be built ({reason})") from error
    try:
        training.load_weights(assembled.model, path)
    except training.Damaged as error:
        others = [name for name, other in run.all_weights().items() if other != path]
        raise training.Damaged(f"{error}; the run also has the weights: {', '.join(others) or 'none'}") from error
    return Opened(run, *assembled)


def folder_of(where: str | Path) -> Path:
    """The folder of a run or of a shipped model."""
    folder = Path(where)
    if not folder.exists() and str(where) in registry.shipped():
        return registry.PRETRAINED / str(where)
    if not folder.is_dir():
        suggestion = nearest(str(where), registry.shipped())
        raise ValueError(f"{where}: neither the folder of a run nor a shipped model; {suggestion}")
    return folder


def load(
    where: str | Path | Run,
    *others: str | Path | Run,
    which: str | None = None,
    data: Any = None,
    trust: bool = False,
) -> Any:
    """A trained system that answers: the folder of a run, or a shipped model by name; with ``others``, several that
    decide together. Arguments as for :func:`open_run`."""
    first, *rest = (_predictor(run, which, data, trust) for run in (where, *others))
    return first.join(rest) if rest else first


def _predictor(where: str | Path | Run, which: str | None, data: Any, trust: bool) -> Any:
    run = open_run(where, which, data, trust=trust)
    name = str(where.folder if isinstance(where, Run) else where)
    return load_member("regard.predictors", run.task.kind)(run.model, run.task, run.recipe, name)
