"""Figures that a notebook shows as they are, without ``%matplotlib inline``."""

from __future__ import annotations

import io

from matplotlib import figure

from regard.views import colours
from regard.views._shared import quiet

colours.register()


class Figure(figure.Figure):
    """Matplotlib's, not registered with pyplot, which would keep it alive."""

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        with quiet():
            self.savefig(data, format="png")
        return data.getvalue()
