"""The colours of every picture, the same here and in ``viewer/theme.js``: weights from pale to dark blue, numbers below
0 orange and above 0 blue, and Okabe & Ito's palette for what is only to be told apart.

All serve colour-blind readers. In matplotlib the maps are called ``regard`` and ``regard_signed`` once
:func:`register` was called.
"""

from __future__ import annotations

WEIGHTS = ("#f2f5f9", "#c5dbf0", "#7cb0db", "#2a78ba", "#083d7a")
"""From 0 to the largest."""
SIGNED = ("#d55e00", "#f7f7f7", "#0062b0")
"""The least, 0 and the largest."""
HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8ab13", "#7a7f87")
"""Stations, classes, curves."""


def register() -> None:
    """Name the maps to matplotlib."""
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    for name, colours in {"regard": WEIGHTS, "regard_signed": SIGNED}.items():
        if name not in colormaps:
            colormaps.register(LinearSegmentedColormap.from_list(name, colours))
