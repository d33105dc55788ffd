"""One thing to look at, in all its forms, and the one place where pictures become files.

shown = hops.picture(story, weights, question="Where is Mary?")
print(shown.terminal())
write(Path("story.html"), [shown])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard._lazy import nearest
from regard.views import page
from regard.views._shared import FORMATS, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGES = ("html", "htm")


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture that is drawn when one of its forms is called.

    Attributes:
        title: its heading, and its name in the list of a page.
        terminal: as text.
        view: for the interactive page; None if there is no such view.
        figure: as a matplotlib figure; None for what moves only. Pictures of one batch may share a figure of
            all of them: then it is the same object in each.
        frames: the figures of an animation, where there is one; shared likewise.
        seconds: how long each frame stays.
    """

    title: str
    terminal: Callable[[], str]
    view: Callable[[], page.View] | None = None
    figure: Callable[[], Figure] | None = None
    frames: Callable[[], list[Figure]] | None = None
    seconds: float = 0.5


def write(out: Path, pictures: Sequence[Picture], title: str = "regard") -> list[str]:
    """Write pictures as the suffix says: a page of all (.html), figures (.png, .svg, .pdf), numbered where there are
    several, or an animation (.gif). ``title`` is the page's. A line for each file.
    """
    form = out.suffix.lower().removeprefix(".")
    if form not in (*PAGES, *FORMATS, "gif"):
        suggestion = nearest(form, (*FORMATS, "gif", "html"))
        raise ValueError(
            f"{out}: the suffix says how a picture is written, and {out.suffix!r} says nothing; {suggestion}"
        )
    if form in PAGES:
        views = [picture.view() for picture in pictures if picture.view is not None]
        if not views:
            raise ValueError(f"{out}: there is no page of this picture; write a .png, .svg or .pdf")
        page.write(out, views, title=title)
        return [str(out)]
    if form == "gif":
        return [_animate(out, pictures)]
    figures = list(dict.fromkeys(picture.figure for picture in pictures))  # what is shared is drawn once
    written = []
    for number, figure in enumerate(figures, 1):
        if figure is None:
            raise ValueError(f"{out}: this moves; write a .gif, or a page, .html")
        path = out if len(figures) == 1 else out.with_stem(f"{out.stem}-{number}")
        save(figure(), path)
        written.append(str(path))
    return written


def _animate(out: Path, pictures: Sequence[Picture]) -> str:
    from regard.views._pixels import save_animation

    moving = list(dict.fromkeys(picture.frames for picture in pictures))
    if None in moving:
        raise ValueError(f"{out}: there is no animation of this system; write a .png, .svg, .pdf or .html")
    if len(moving) > 1:
        raise ValueError(f"{out}: an animation shows one picture at a time, not {len(moving)}: say which")
    assert moving[0] is not None
    save_animation(moving[0](), out, seconds=pictures[0].seconds)
    return str(out)
