"""One colour language: figures, the interactive page and the explorer."""

import re

from regard.serve.app import PAGE
from regard.views import alignment, colours
from regard.views.page import VIEWER


def test_page_and_figures_have_the_same_colours():
    theme = (VIEWER / "theme.js").read_text()
    assert tuple(re.findall(r"#[0-9a-f]{6}", theme.partition("LIGHT = [")[2].partition("]")[0])) == colours.WEIGHTS
    light = theme.partition("light: {")[2].partition("}")[0]
    signed = [tuple(map(int, numbers.split(","))) for numbers in re.findall(r"\[([\d, ]+)\]", light)]
    assert tuple(f"#{r:02x}{g:02x}{b:02x}" for r, g, b in signed) == colours.SIGNED
    assert tuple(re.findall(r"--hue-\d: (#[0-9a-f]{6});", (PAGE / "style.css").read_text())) == colours.HUES


def test_weights_are_drawn_in_them():
    (cells,) = alignment.figure([[1.0, 0.0]]).axes[0].collections
    dark, pale = (f"#{''.join(f'{round(255 * part):02x}' for part in cells.cmap(level)[:3])}" for level in (1.0, 0.0))
    assert (pale, dark) == (colours.WEIGHTS[0], colours.WEIGHTS[-1])
