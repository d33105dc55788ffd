"""Weights in, weights out. One file, one refiner."""

from regard._lazy import folder

__getattr__, __dir__ = folder(__name__)
