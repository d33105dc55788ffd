"""One loop for every system: it calls ``model(batch)`` and knows nothing else about a model.

    run = Run.create("runs/first", recipe=text)
    fit(model, train, valid, run, TrainConfig(epochs=10, lr=1e-3))

What is trained, resumed, averaged or opened later lies in the run's folder.
"""

from regard.training.average import average
from regard.training.checkpoint import Damaged, load_weights, read_weights, write_weights
from regard.training.config import TrainConfig
from regard.training.loop import Loader, Summary, fit
from regard.training.rng import seed
from regard.training.run import Run
from regard.training.team import is_main

__all__ = [
    "TrainConfig",
    "Run",
    "fit",
    "Summary",
    "Loader",
    "average",
    "Damaged",
    "seed",
    "is_main",
    "load_weights",
    "read_weights",
    "write_weights",
]
