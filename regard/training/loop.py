"""The loop. It calls ``model(batch)``, makes the loss smaller, and can be stopped at any moment.

``model(batch)`` gives a dict of scalars: ``loss``, the mean over the units of the batch (what is made smaller);
``count``, the number of those units; and whatever else is worth a line, each a mean over the same units. The gradient
of a step is the mean over **all** units of its batches and processes, so that accumulation and several processes change
nothing but rounding.

Several processes, on one machine or many: start the same command with ``torchrun`` or ``accelerate launch``. Every
process reads every batch and takes its rows; the first one writes the run's folder, which all must see.
"""

from __future__ import annotations

import dataclasses
import errno
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn

from regard._lazy import nearest
from regard.training import checkpoint, rng
from regard.training.average import average
from regard.training.config import TrainConfig
from regard.training.engine import Engine, chosen_precision
from regard.training.interrupt import Interrupt
from regard.training.means import Means
from regard.training.metrics import Board, Metrics
from regard.training.progress import Forecast, Progress, duration, numbers
from regard.training.run import Run
from regard.training.schedules import Schedule
from regard.training.team import Batch


class Loader(Protocol):
    """Iterating gives one epoch of batches. With the state of a loader that stopped after k batches, another one goes
    on with batch k + 1."""

    def __iter__(self) -> Iterator[Batch]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Summary:
    """How a session ended.

    Attributes:
        steps, epochs, minutes: where the run stands, over all its sessions.
        metric, best, best_step: the best validation; best is None without any.
        ended: by ``steps``, ``epochs``, ``minutes``, ``patience`` or the name of a signal.
    """

    steps: int
    epochs: float
    minutes: float
    metric: str
    best: float | None
    best_step: int | None
    ended: str

    @property
    def interrupted(self) -> bool:
        return self.ended.startswith("SIG")


@dataclass
class State:
    """Where a training stands; goes into every checkpoint."""

    step: int = 0
    epoch: int = 0
    batches: int = 0  # of this epoch
    seconds: float = 0.0  # of all sessions before this one
    best: float | None = None
    best_step: int | None = None
    bad: int = 0  # validations since the best
    due: bool = False  # a validation comes before the next step
    validated: int = -1  # the step of the last one
    sums: dict[str, float] = field(default_factory=dict)  # since the last line of metrics
    busy: float = 0.0  # seconds of training since then


def fit(
    model: nn.Module,
    train: Loader,
    valid: Loader | None,
    run: Run,
    config: TrainConfig,
    *,
    resume: bool = False,
    command: str | None = None,
    unit: str = "units",
    console: Any = None,
) -> Summary:
    """Train ``model`` on ``train``, judge it by ``valid``, keep everything in ``run``.

    Args:
        resume: go on from the run's last checkpoint. Model, loaders and config are made as they were for the first
            session; on one thread the outcome is then the same, bit for bit, as without the pause.
        command: what to type in order to go on, printed after Ctrl-C.
        unit: what ``count`` counts, for the progress bar.
        console: a ``rich.console.Console`` to write to instead of stderr.
    """
    engine = Engine(model, config)
    with ExitStack() as stack:
        if engine.team.main:
            stack.enter_context(run.training())
        stack.callback(engine.release)
        loop = _Loop(engine, train, valid, run, config, command)
        size = loop.begin(resume)
        forecast = Forecast(config.steps, config.epochs if loop.length else None, config.minutes)
        loop.progress = stack.enter_context(Progress(forecast, unit, console, quiet=not engine.team.main))
        loop.interrupt = stack.enter_context(Interrupt())
        if engine.team.main:
            board = Board(run.tensorboard, loop.state.step) if config.tensorboard else None
            loop.metrics = Metrics(run.metrics, size, board)
            stack.callback(loop.metrics.close)
        return loop.go()


class _Loop:
    """The objects of one call of :func:`fit`."""

    progress: Progress
    interrupt: Interrupt
    metrics: Metrics | None = None

    def __init__(
        self, engine: Engine, train: Loader, valid: Loader | None, run: Run, config: TrainConfig, command: str | None
    ):
        self.engine, self.team, self.run, self.config = engine, engine.team, run, config
        self.train, self.valid, self.command = train, valid, command
        for name, loader in {"training": train, "validation": valid}.items():
            if loader is not None and not hasattr(loader, "load_state_dict"):
                raise TypeError(f"the {name} data cannot be resumed: it has no state_dict() and load_state_dict()")
        self.valid_start = valid.state_dict() if valid is not None else {}
        self.length = _length(train)
        last = _last_step(config, self.length)
        self.warmup = _warmup(config, last)
        self.schedule = Schedule(dataclasses.replace(config, warmup=self.warmup), last)
        self.state = State()
        self.means = Means(self.team)
        self.norm: Tensor | float = 0.0
        self.started = self.began = self.saved = time.monotonic()
        self.save_due = False
        self.news: list[str] = []  # to be said when something can be said
        self.validation = math.inf  # seconds that the last one took; the first may take any time

    def go(self) -> Summary:
        state, config = self.state, self.config
        for line in self.news:
            self.progress.say(line)
        if self.engine.spared < self.engine.threads:
            self.progress.say(
                f"other programs keep the cores busy: {self.engine.spared} of {self.engine.threads} threads, unless "
                f"OMP_NUM_THREADS={self.engine.threads} is set"
            )
        if config.precision == "auto":
            self.progress.say(f"computing in {chosen_precision(config)}")
        if self.warmup != config.warmup:
            self.progress.say(f"warm-up shortened from {config.warmup} to {self.warmup} steps: the training is short")
        if state.step:
            self.progress.say(f"going on from step {state.step}, epoch {self.position:.2f}")
        else:
            self.save(must=True)  # a disk that is full, or not ours, shows now; and the first weights are kept
        epoch = iter(self.train)
        while True:
            if state.due:
                self.milestone()
            if ended := self.ended():
                if ended.startswith("SIG") or state.validated == state.step:
                    return self.finish(ended)
                state.due = True  # the last validation
                continue
            self.began = time.monotonic()
            batches = list(islice(epoch, config.accumulate))
            if batches:
                self.step(batches)
            if len(batches) < config.accumulate:
                self.turn()
                epoch = iter(self.train)
            state.busy += time.monotonic() - self.began
            if self.save_due:
                self.save()

    def step(self, batches: list[Batch]) -> None:
        """One update of the weights."""
        state, config = self.state, self.config
        rate = self.schedule(state.step + 1, self.position)
        self.norm = self.engine.update(batches, rate, self.means)
        state.step += 1
        state.batches += len(batches)
        if state.step == 1 and self.valid is not None:
            self.check_metric(self.means.names)
        self.progress.step(state.step, self.position, self.seconds, self.speed)
        if state.step % config.log_every == 0:
            self.log(rate)
        if config.validate_every and state.step % config.validate_every == 0:
            state.due = True

    def turn(self) -> None:
        """The end of an epoch."""
        state = self.state
        if state.batches == 0:
            raise ValueError(f"the training data gave no batch in epoch {state.epoch + 1}")
        state.epoch, state.batches = state.epoch + 1, 0
        if not self.config.validate_every and state.validated != state.step:
            state.due = True

    def ended(self) -> str | None:
        """Whether to end, and why. Clocks and signals differ between processes, so they agree."""
        state, config, main = self.state, self.config, self.team.main
        late = config.minutes is not None and self.seconds >= config.minutes * 60
        stale = time.monotonic() - self.saved >= config.checkpoint_minutes * 60
        stop, late, self.save_due = self.team.any(self.interrupt.signal is not None, late and main, stale and main)
        if stop:
            return self.interrupt.signal or "SIGTERM"
        if config.steps is not None and state.step >= config.steps:
            return "steps"
        # Whole epochs are counted by their ends: a loader's length may be an estimate.
        whole_epochs = config.epochs is not None and float(config.epochs).is_integer()
        if config.epochs is not None and (state.epoch if whole_epochs else self.position) >= config.epochs:
            return "epochs"
        if config.patience and state.bad >= config.patience:
            return "patience"
        return "minutes" if late else None

    def milestone(self) -> None:
        """Validate, and keep what is to be kept."""
        state, config = self.state, self.config
        began = time.monotonic()
        if self.team.any(self.team.main and began - self.saved + self.validation >= config.checkpoint_minutes * 60)[0]:
            self.save()  # it would have become too old meanwhile
        values = self.validate()
        self.validation = time.monotonic() - began
        if values is None:
            return  # interrupted: it stays due
        state.due, state.validated = False, state.step
        weights, facts = self.engine.weights(), {"step": state.step, **values}
        if number := max(config.keep, config.average):
            self.write(lambda: self.run.write_model(f"step-{state.step:08d}", weights, facts))
            for _, path in self.run.kept()[:-number] if self.team.main else ():
                path.unlink()
        if not values:
            return
        value = values[config.metric]
        better = state.best is None or config.better(value, state.best)
        better = not math.isnan(value) and better
        # What could not be written is not the best that we have.
        written = better and self.write(lambda: self.run.write_model("best", weights, facts))
        if written:
            state.best, state.best_step = value, state.step
        state.bad = 0 if better else state.bad + 1
        self.schedule.observe(better)
        if self.metrics:
            self.metrics.log("valid", state.step, {"epoch": self.position, **values})
        text = f"step {state.step}  epoch {self.position:.2f}  valid: {numbers(values)}"
        self.progress.say(
            text + ("  (best)" if written else "  (better, but it could not be written)" if better else "")
        )

    def validate(self) -> dict[str, float] | None:
        """The model's outputs over the validation data. Every time the same batches and random numbers, and none of the
        training's."""
        if self.valid is None:
            return {}
        means = Means(self.team)
        self.valid.load_state_dict(self.valid_start)
        with rng.apart(self.config.seed + self.team.rank, self.team.device):
            for batch in self.valid:
                if self.interrupt.signal and self.team.world == 1:
                    return None
                self.engine.measure(batch, means)
        values = means.read()
        if not values.pop("count"):
            raise ValueError("the validation data gave no batch with anything to measure")
        self.check_metric(values)
        return values

    def check_metric(self, values: Any) -> None:
        metric, names = self.config.metric, [name for name in values if name != "count"]
        if metric not in names:
            raise ValueError(f"the model gives no {metric!r} to judge by: {nearest(metric, names)}")

    def log(self, rate: float) -> None:
        """A line of metrics: the means since the line before."""
        _, speed = self.speed()
        self.check_finite()
        self.check_folder()
        values = self.means.read() | {"grad_norm": float(self.norm), "lr": rate}
        if self.metrics:
            clock = {"units_per_second": speed, "minutes": self.seconds / 60}
            self.metrics.log("train", self.state.step, {"epoch": self.position, **values, **clock})
        self.means = Means(self.team)
        self.state.busy, self.began = 0.0, time.monotonic()

    def speed(self) -> tuple[float, float]:
        """The loss and the units per second since the last line of metrics."""
        values = self.means.read()
        return values["loss"], values["count"] / max(self.state.busy + time.monotonic() - self.began, 1e-9)

    def check_finite(self) -> None:
        """Weights that were touched by a gradient that is not finite never reach a disk."""
        loss = self.means.state().get("loss", 0.0)
        norm = 0.0 if self.config.precision == "float16" else float(self.norm)  # float16 skips such a step itself
        if not math.isfinite(loss + norm):
            quantity = "gradient" if math.isfinite(loss) else "loss"
            raise FloatingPointError(
                f"the {quantity} is no longer finite at step {self.state.step}; "
                f"a lower lr, clip or a warm-up may help. The last good checkpoint is {self.run.last()}"
            )

    @property
    def position(self) -> float:
        """Epochs so far, with the fraction if the length of the data is known."""
        return self.state.epoch + (min(self.state.batches / self.length, 1.0) if self.length else 0.0)

    @property
    def seconds(self) -> float:
        """The time of all sessions."""
        return self.state.seconds + time.monotonic() - self.started

    def begin(self, resume: bool) -> int:
        """Start afresh, or where the last checkpoint stands; how much of the metrics counts."""
        engine, team = self.engine, self.team
        trained = team.tell(self.run.last() if team.main else None)
        if trained and not resume:
            raise FileExistsError(
                f"{self.run.folder} has been trained already ({trained.name}); resume it, or choose another folder"
            )
        place, (weights, saved) = team.tell(self.read() if team.main else None)
        if place:
            checkpoint.load_weights(engine.plain, weights, f"the weights in {place}")
        rng.seed(self.config.seed + team.rank)
        engine.prepare()
        if not place:
            return 0
        before, now = saved["optimizer_name"], self.config.optimizer
        if before != now:
            raise ValueError(f"{place} was trained with {before}; it cannot go on with {now}")
        self.state = State(**saved["state"])
        self.means = Means(team, self.state.sums)
        engine.load_state_dict(saved["engine"])
        self.schedule.load_state_dict(saved["schedule"])
        self.train.load_state_dict(saved["loader"])
        for step, path in self.run.kept() if team.main else ():
            if step > self.state.step:  # from after this checkpoint; it will be made again
                path.unlink()
        if len(saved["rng"]) == team.world:
            rng.restore(saved["rng"][team.rank], team.device)
        else:  # not the same, but neither the numbers of the first session again
            rng.seed(self.config.seed + team.rank + 1000 * self.state.step)
        return saved["metrics"]

    def read(self) -> tuple[Path | None, tuple[dict[str, Tensor], dict[str, Any]]]:
        """The newest checkpoint that is whole, with its content; only then is anything removed."""
        place, content, troubles = checkpoint.newest_whole(self.run.checkpoints)
        for damaged, trouble in troubles.items():
            aside = checkpoint.set_aside(damaged)
            self.news.append(f"{trouble}; it was set aside as {aside.name}, and {place} is used instead")
        self.run.tidy()
        return place, content

    def save(self, must: bool = False) -> None:
        """A checkpoint. If ``must``, a full disk ends the training; if not, it only loses this one."""
        self.check_finite()
        state = dataclasses.asdict(self.state) | {"seconds": self.seconds, "sums": self.means.state()}
        content = {
            "state": state,
            "optimizer_name": self.config.optimizer,
            "engine": self.engine.state_dict(),
            "schedule": self.schedule.state_dict(),
            "loader": self.train.state_dict(),
            "rng": self.team.gather(rng.state(self.team.device)),
        }
        weights = self.engine.weights()

        def write() -> None:
            size = self.metrics.flush() if self.metrics else 0
            checkpoint.write(self.run.checkpoints, self.state.step, weights, content | {"metrics": size})

        self.write(write, must)
        self.saved = time.monotonic()

    def write(self, writing: Callable[[], Any], must: bool = False) -> bool:
        """Let the first process write; whether there was room."""
        full = False
        if self.team.main:
            self.check_folder()
            try:
                writing()
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                full = True
                place = self.run.last()
                remains = f"{place} is whole" if place else "nothing has been kept yet"
                text = f"the disk of {self.run.folder} is full: step {self.state.step} could not be written, {remains}"
                if must:
                    raise OSError(error.errno, text + "; make room" + self.how_to_go_on()) from error
                self.progress.say(text + "; training goes on, make room meanwhile")
        return not self.team.any(full)[0]

    def check_folder(self) -> None:
        """A folder that was removed is not made anew, since its recipe and its task are gone."""
        if self.team.main and not (self.run.folder / "run.json").exists():
            raise FileNotFoundError(
                f"{self.run.folder} was removed, or moved away, while it was trained: step {self.state.step} cannot be "
                "written, and the training ends"
            )

    def how_to_go_on(self) -> str:
        return f"; go on with: {self.command}" if self.command else ""

    def finish(self, ended: str) -> Summary:
        state, config = self.state, self.config
        interrupted = ended.startswith("SIG")
        self.save(must=True)
        place = (state.step, self.position, self.seconds / 60)
        summary = Summary(*place, config.metric, state.best, state.best_step, ended)
        paths = [path for _, path in self.run.kept()[-config.average :]] if config.average and not interrupted else []

        def write() -> None:
            self.run.note(summary=dataclasses.asdict(summary))
            if not paths:
                return
            try:
                mean = average(paths)
            except checkpoint.Damaged as error:
                self.progress.say(f"the models of the last validations were not averaged: {error}")
                return
            self.run.write_model("average", mean, {"step": state.step, "averaged": len(paths)})
            self.progress.say(f"averaged the models of the last {len(paths)} validations")

        self.write(write, must=True)
        best = "" if state.best is None else f"; best {config.metric} {state.best:.4g} at step {state.best_step}"
        verb = "stopped" if interrupted else "ended"
        self.progress.say(f"{verb} at step {state.step} after {duration(self.seconds)}{best}")
        if interrupted:
            self.progress.say(f"the model is in {self.run.folder}{self.how_to_go_on()}")
        return summary


def _length(loader: Loader) -> int | None:
    """Batches to an epoch, if they are known."""
    try:
        return len(loader) or None  # type: ignore[arg-type]
    except TypeError:
        return None


def _warmup(config: TrainConfig, last: int | None) -> int:
    """As configured, or a tenth of a training of which it would be more than a third. That of noam stays: it sets the
    height of the rate, too."""
    if config.schedule == "noam" or last is None or config.warmup * 3 <= last:
        return config.warmup
    return max(1, last // 10)


def _last_step(config: TrainConfig, length: int | None) -> int | None:
    """The step at which the training ends if nothing ends it earlier."""
    ends = [] if config.steps is None else [config.steps]
    if config.epochs is not None and length:
        ends.append(math.ceil(config.epochs * math.ceil(length / config.accumulate)))
    return min(ends) if ends else None
