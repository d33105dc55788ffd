"""Figures that a notebook shows as they are, without ``%matplotlib inline``."""

from __future__ import annotations

import io

from matplotlib import colormaps, figure
from matplotlib.colors import LinearSegmentedColormap

from regard.views._shared import RAMP, SIGNED, quiet

for _name, _colours in {"regard": RAMP, "regard_signed": SIGNED}.items():
    if _name not in colormaps:
        colormaps.register(LinearSegmentedColormap.from_list(_name, _colours))


class Figure(figure.Figure):
    """Matplotlib's, not known to pyplot, which would keep it alive."""

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        with quiet():
            self.savefig(data, format="png")
        return data.getvalue()
