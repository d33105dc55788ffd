"""Views of any kind as one HTML file: interactive, self-contained, without network.

    from regard.views import alignment, page

    size = page.write("demo.html", [alignment.view(weights, rows, columns)], title="I love coffee.")

The viewer in ``viewer/`` is plain ES modules. Its folder ``kinds/`` is the registry: ``kinds/NAME.js`` shows the views
of kind NAME, and a page holds only the modules that its views need. The Content-Security-Policy of the page allows its
own script and style, by their hashes, and nothing else.

Another page can hold views as well, if its server sends the files of ``viewer/`` as they are:

    <link rel="stylesheet" href="/viewer/view.css">
    import { mount } from "/viewer/mount.js";
    const destroy = mount(element, view);         // element: HTMLElement; view: the JSON of encode(view)

``mount`` fetches the module of the kind by itself, shows errors inside the element, and listens to keys only there.
Colours follow ``data-theme`` ("light" or "dark") of the document's root, else the system.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
import posixpath
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from regard._files import replace
from regard._lazy import nearest

VERSION = 1
"""Of the data inside a page, which the viewer checks."""

VIEWER = Path(__file__).with_name("viewer")


@dataclass(frozen=True)
class Quantized:
    """Non-negative numbers for which 8 bits do: stored as round(255 · x / max), so that each is right to max / 510."""

    values: np.ndarray


@dataclass(frozen=True)
class View:
    """One thing to look at on a page.

    Attributes:
        kind: which module of ``viewer/kinds`` shows it.
        title: its name in the list of views.
        data: what that module is given: JSON values, :class:`Quantized` and NumPy arrays (uint8, int32, float32).
    """

    kind: str
    title: str
    data: dict[str, Any] = field(repr=False)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return frame([self], self.title)


def kinds() -> list[str]:
    """The kinds of views that the viewer knows."""
    return sorted(file.stem for file in (VIEWER / "kinds").glob("*.js"))


def encode(view: View, *, compress: bool = True) -> dict[str, Any]:
    """The view as JSON values, ``{"kind", "title", "data"}``: what a page embeds and ``mount`` of the viewer takes.

    Arrays become ``{"$array": {"shape", "type", "scale"?, "deflate"?, "data"}}``, base64 of little-endian numbers.
    """
    if view.kind not in kinds():
        raise ValueError(f"no kind of view called {view.kind!r}: {nearest(view.kind, kinds())}")
    return {"kind": view.kind, "title": view.title, "data": _pack(view.data, compress)}


def page(views: Sequence[View], title: str = "regard", *, compress: bool = True) -> str:
    """The text of an HTML file that shows the views.

    Args:
        views: at least one; more get a list to choose from.
        title: the heading.
        compress: deflate arrays where that makes them smaller. False serves browsers from before 2023.
    """
    if not views:
        raise ValueError("a page needs at least one view")
    content = {"version": VERSION, "title": title, "views": [encode(view, compress=compress) for view in views]}
    script = bundle(tuple(sorted({view.kind for view in views})))
    style = "".join((VIEWER / name).read_text(encoding="utf-8") for name in ("view.css", "shell.css"))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": html.escape(title),
        "style": style,
        # In JSON this can only be inside a string, and there it may be written so. It could end the script element.
        "data": json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "script": script,
    }
    template = (VIEWER / "page.html").read_text(encoding="utf-8")
    head, tail = (re.sub(r"{{(\w+)}}", lambda slot: parts[slot[1]], part) for part in template.split("{{size}}"))
    # Lone surrogates cannot be written to a file.
    head, tail = (part.encode("utf-8", "replace").decode("utf-8") for part in (head, tail))
    size = len(head.encode()) + len(tail.encode())
    return f"{head}{size}{tail}"


def write(path: str | os.PathLike[str], views: Sequence[View], title: str = "regard", *, compress: bool = True) -> int:
    """Write the page and return its size in bytes. ``path`` is replaced at once or not at all."""
    data = page(views, title, compress=compress).encode("utf-8")
    replace(Path(path), data)
    return len(data)


def frame(views: Sequence[View], title: str = "regard", *, height: int = 760) -> str:
    """The page as an element for another page, such as a notebook: a frame that holds all of it, apart from the rest.

    Args:
        height: in pixels; the reader can pull its corner.
    """
    text = html.escape(page(views, title))
    style = f"width: 100%; height: {height}px; border: 0; resize: vertical; overflow: auto"
    name = html.escape(title or "attention")
    return f'<iframe title="{name}" sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{text}"></iframe>'


@cache
def bundle(wanted: tuple[str, ...]) -> str:
    """The modules that show these kinds as one script: each becomes a function that returns its exports.

    Our modules keep to one form, ``import { a, b } from "./c.js";`` on one line and ``export`` before a declaration, so
    that a few lines do what a build tool would; anything else is an error here.
    """
    done: dict[str, str] = {}
    for kind in wanted:
        _link(f"kinds/{kind}.js", done, ())
    _link("shell.js", done, ())
    text = '"use strict";\n' + "\n".join(done.values()) + f"\n{_variable('shell.js')}.start();\n"
    if "</script" in text.lower() or "<!--" in text:
        raise ValueError("the viewer's code holds text that would end its script element")
    return text


_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "(\.{1,2}/[\w./-]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def _link(name: str, done: dict[str, str], above: tuple[str, ...]) -> None:
    if name in above:
        raise ValueError(f"modules of the viewer import each other: {' → '.join((*above, name))}")
    if name in done:
        return
    source = (VIEWER / name).read_text(encoding="utf-8")

    def use(match: re.Match[str]) -> str:
        imported = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[2]))
        _link(imported, done, (*above, name))
        return f"const {{ {match[1]} }} = {_variable(imported)};"

    body = _IMPORT.sub(use, source)
    exports = [re.match(r"(?:async )?\w+ (\w+)", body[match.end() :])[1] for match in _EXPORT.finditer(body)]  # type: ignore[index]
    body = _EXPORT.sub("", body)
    if unsupported := re.search(r"^\s*(?:import|export)\b.*", body, re.MULTILINE):
        raise ValueError(f"viewer/{name}: this form of import or export is not understood: {unsupported[0].strip()}")
    done[name] = f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();"


def _variable(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}'"


def _pack(value: Any, compress: bool) -> Any:
    """JSON values stay what they are; arrays become ``{"$array": …}``."""
    if isinstance(value, dict):
        return {str(key): _pack(item, compress) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(item, compress) for item in value]
    if isinstance(value, Quantized):
        numbers, scale = quantize(value.values)
        return _array(numbers, compress, scale=scale)
    if isinstance(value, np.ndarray):
        if value.dtype.name not in ("uint8", "int32", "float32"):
            raise ValueError(f"a page holds arrays of uint8, int32 or float32, not {value.dtype}")
        return _array(value, compress)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _array(values: np.ndarray, compress: bool, **fields: Any) -> dict[str, Any]:
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    raw = np.ascontiguousarray(little).tobytes()
    data = zlib.compress(raw) if compress else raw
    deflated = len(data) < len(raw)
    text = base64.b64encode(data if deflated else raw).decode()
    header = {"shape": list(values.shape), "type": values.dtype.name, **fields}
    return {"$array": {**header, **({"deflate": True} if deflated else {}), "data": text}}


def quantize(values: np.ndarray) -> tuple[np.ndarray, float]:
    """uint8 numbers and the scale that turns them back: values ≈ numbers · scale."""
    values = np.asarray(values, dtype=np.float32)
    if not np.isfinite(values).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(f"weights hold {values[place]} at {place} of {values.shape}; there is no colour for that")
    top = float(values.max(initial=0.0))
    if values.min(initial=0.0) < -1e-6 * max(top, 1.0):
        place = tuple(int(i) for i in np.unravel_index(values.argmin(), values.shape))
        raise ValueError(f"weights hold {values[place]} at {place} of {values.shape}; weights are not negative")
    scale = top / 255 or 1.0
    return np.rint(np.clip(values, 0, None) / scale).astype(np.uint8), scale
