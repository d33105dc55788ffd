"""The former name of :mod:`regard.predictors`."""

from __future__ import annotations

import importlib
import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    warnings.warn("regard.trained is called regard.predictors now; see regard.load", DeprecationWarning, stacklevel=2)
    if name == "Trained":
        return importlib.import_module("regard.predictors.predictor").Predictor
    return importlib.import_module(f"regard.predictors.{name}")
