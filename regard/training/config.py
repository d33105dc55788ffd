"""What the loop is told: how long, how fast, how careful."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard._lazy import nearest
from regard._settings import at_least

if TYPE_CHECKING:
    import torch

OPTIMIZERS = ("adam", "adamw", "sgd", "adadelta")
SCHEDULES = ("constant", "noam", "inverse_sqrt", "cosine", "step", "plateau")
MORE = ("accuracy", "bleu", "caught", "exact", "f1", "precision", "recall", "reward", "right")
"""Metrics of which more is better, where ``mode`` is auto."""
PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


def seen_accelerator() -> torch.device | None:
    """What torch sees on this machine beside the CPU."""
    import torch

    return torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None


def _no_device(device: str) -> str:
    """What to do instead of naming an accelerator."""
    import torch

    accelerator = seen_accelerator()
    name = "no accelerator" if accelerator is None else f"{accelerator.type}, which auto takes"
    return f"device = {device!r}: it is auto or cpu. auto takes what torch sees; torch {torch.__version__} sees {name}"


@dataclass(frozen=True)
class TrainConfig:
    """The ``[train]`` section of a recipe.

    Attributes:
        steps, epochs, minutes: when to end; whichever comes first, and at least one of them. A step is one update of
            the weights; minutes are counted over all sessions of a run.
        optimizer: adam, adamw, sgd or adadelta.
        betas, epsilon, weight_decay, momentum, rho: the optimizer's own; None is PyTorch's default for it.
        weight_decay_on: all parameters, or matrices: only what has two dimensions or more, neither biases nor norms.
        lr: the learning rate at its peak; for noam the factor before width^-½.
        schedule: constant, noam, inverse_sqrt, cosine, step or plateau; see :mod:`regard.training.schedules`.
        warmup: steps in which the rate rises from 0.
        width: the model's width, for noam alone.
        decay: what the rate is multiplied by at each decay of step and plateau.
        decay_after, decay_every, decay_in: step decays first after ``decay_after`` epochs (or steps) and then every
            ``decay_every``.
        decay_patience: plateau: decay after this many validations in a row without improvement.
        min_lr: no schedule but the warm-up goes below it.
        clip: largest norm of the gradient.
        accumulate: batches to a step.
        precision: float32, bfloat16 or float16 (mixed; the weights stay float32); auto is bfloat16 where the device has
            instructions for it, and float32 elsewhere.
        device: auto, or cpu where a GPU must not be used.
        threads: of PyTorch, on the CPU; None is as many as PyTorch has. At most ``OMP_NUM_THREADS`` if that is set, and
            otherwise no more than the cores that other programs leave free when the training starts.
        seed: of everything random.
        init: the folder of a run, or a shipped model, whose weights are taken over where name and shape fit, as for
            fine-tuning; what did not fit is said.
        validate_every: steps between validations; 0 is at the end of every epoch.
        metric, mode: which of the model's outputs says what is best, and whether less (min) or more (max) of it; auto
            is more of accuracy and its like, and less of everything else.
        patience: end after this many validations in a row without improvement; 0 is never.
        keep: how many of the models at the last validations stay on disk.
        average: how many of those are averaged at the end.
        checkpoint_minutes: the longest time between two checkpoints.
        log_every: steps to a line of metrics.
        tensorboard: write TensorBoard's event files too.
    """

    steps: int | None = None
    epochs: float | None = None
    minutes: float | None = None

    optimizer: str = "adam"
    lr: float = 1e-3
    betas: tuple[float, float] | None = None
    epsilon: float | None = None
    weight_decay: float | None = None
    weight_decay_on: str = "all"
    momentum: float | None = None
    rho: float | None = None

    schedule: str = "constant"
    warmup: int = 0
    width: int | None = None
    decay: float = 0.5
    decay_after: float = 0.0
    decay_every: float = 1.0
    decay_in: str = "epochs"
    decay_patience: int = 1
    min_lr: float = 0.0

    clip: float | None = None
    accumulate: int = 1
    precision: str = "float32"
    device: str = "auto"
    threads: int | None = None
    seed: int = 0
    init: str = ""

    validate_every: int = 0
    metric: str = "loss"
    mode: str = "auto"
    patience: int = 0
    keep: int = 0
    average: int = 0

    checkpoint_minutes: float = 5.0
    log_every: int = 20
    tensorboard: bool = True

    def __post_init__(self) -> None:
        if self.device not in ("auto", "cpu"):
            raise ValueError(_no_device(self.device))
        for name, choices in {
            "optimizer": OPTIMIZERS,
            "schedule": SCHEDULES,
            "precision": ("auto", *PRECISIONS),
            "decay_in": ("epochs", "steps"),
            "mode": ("auto", "min", "max"),
            "weight_decay_on": ("all", "matrices"),
        }.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"unknown {name} {getattr(self, name)!r}: {nearest(str(getattr(self, name)), choices)}"
                )
        if self.steps is None and self.epochs is None and self.minutes is None:
            raise ValueError("say when to end: steps, epochs or minutes")
        if self.schedule in ("noam", "inverse_sqrt") and self.warmup < 1:
            raise ValueError(f"the schedule {self.schedule!r} needs warmup, the steps in which the rate rises")
        if self.schedule == "noam" and self.width is None:
            raise ValueError("the schedule 'noam' needs width, the model's width")
        if self.schedule == "cosine" and self.steps is None and self.epochs is None:
            raise ValueError("the schedule 'cosine' needs to know its end: give steps or epochs, not only minutes")
        at_least(self, "accumulate", "log_every", "threads", "width", "decay_patience")
        at_least(self, steps=0, epochs=0, minutes=0, warmup=0, validate_every=0, patience=0, keep=0, average=0)
        at_least(self, decay_after=0, min_lr=0, checkpoint_minutes=0, weight_decay=0, momentum=0)
        self._more_than(0, "lr", "clip", "epsilon", "rho", "decay", "decay_every")
        if self.betas is not None:
            if len(self.betas) != 2:
                raise ValueError(f"betas are two numbers, not {list(self.betas)}")
            object.__setattr__(self, "betas", tuple(self.betas))  # TOML has lists only

    def better(self, value: float, best: float) -> bool:
        """Is a value of the metric better than the best so far?"""
        larger = self.mode == "max" or (self.mode == "auto" and self.metric in MORE)
        return value > best if larger else value < best

    def _more_than(self, least: float, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and not value > least:
                raise ValueError(f"{name} must be more than {least}, not {value}")
