"""Data in, metric out: one file, one task. No models.

A task has a typed ``Config``; ``sizes``, what a system must know of it; ``loader(split, seed=…)``, batches that can be
stopped and taken up again; ``evaluate``, its metrics; and ``save``/``load`` for what a run needs later without the
data.
"""

from regard._lazy import folder

__getattr__, __dir__ = folder(__name__)
