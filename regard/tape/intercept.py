"""Interception of attention in this thread: torch's functions that compute it, and the witness of our own.

All watchers of a thread see each call: first those that change weights, then those that keep them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from regard import attention, edges
from regard.attended import Attended, Want, witness
from regard.parts import Parts, Refiner
from regard.tape.calls import CALLS, HIDDEN
from regard.tape.later import Later
from regard.tape.seen import Seen, kind_of
from regard.tape.written_out import FOLLOWED, PRODUCTS, SOFTMAX, Traces, substitute

if TYPE_CHECKING:
    from regard.tape.watch import Site, Watcher

Change = Callable[[Tensor, Any], Tensor]
"""Weights (…, T, S) and which keys may be attended → weights; along edges (E, H) and the :class:`regard.Edges`."""


class _Here(threading.local):
    """What is watched in this thread."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.mode: Mode | None = None
        self.within = 0  # depth of regard's own attention calls under way
        self.traces = Traces()
        self.undropped: Tensor | None = None  # what dropout was last given

    def sites(self) -> list[Site]:
        """The attention that is being computed, as each watcher that can see it names it."""
        place = place_of_call()
        return [site for watcher in self.watchers if (site := watcher.site(place)) is not None]

    def changing(self) -> bool:
        return any(watcher.changes for watcher in self.watchers)


here = _Here()


def _changes(sites: list[Site]) -> Change | None:
    """All changes that are due there, one after the other."""
    changes = [change for site in sites if (change := site.watcher.change(site)) is not None]
    if not changes:
        return None

    def all_of_them(weights: Tensor, allowed: Any) -> Tensor:
        for change in changes:
            weights = change(weights, allowed)
        return weights

    return all_of_them


def see(parts: Parts, want: Want, ask: Callable[[Want, Parts], Attended]) -> Attended:
    """Compute an attention of our own with the watchers' changes, and show them its weights."""
    sites = here.sites()
    weights_wanted = "lazy" if sites and want is False else want
    change = _changes(sites)
    used = parts if change is None else parts._replace(refiner=_Changed(parts, change))
    witness.see, here.within = None, here.within + 1
    try:
        out = ask(weights_wanted, used)
    finally:
        witness.see, here.within = see, here.within - 1
    seen = Seen.answer(out, kind_of(parts))
    for site in sites:
        site.watcher.keep(site, seen)
    if want is False:
        out.weights = out.scores = None
    return out


class _Changed(Refiner):
    """The refiner of an attention, if it has one, and then a change."""

    def __init__(self, parts: Parts, change: Change):
        super().__init__()
        refiner = parts.refiner
        self.refiner, self.change, self.windowed = refiner, change, parts.window is not None
        for name in ("needs", "required", "parallel", "positional", "start", "advance") if refiner is not None else ():
            setattr(self, name, getattr(refiner, name))

    def forward(self, weights: Tensor, mask: Any, **settings: Any) -> Tensor:
        inside = weights != 0 if self.windowed else mask  # of a window, only the keys that it gave weight
        refined = weights if self.refiner is None else self.refiner(weights, mask, **settings)
        return self.change(refined, inside)


class Mode(TorchFunctionMode):
    """Sees the functions of torch that this thread calls."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        handler = _HANDLERS.get(func)
        if handler is None and getattr(func, "__name__", "") in HIDDEN:
            handler = _hidden
        if handler is None or here.within or torch.compiler.is_compiling():
            return func(*args, **kwargs) if kwargs else func(*args)
        return handler(func, args, kwargs or {})


def _call(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Torch's own attention."""
    sites = here.sites()
    if not sites:
        return func(*args, **kwargs)
    with torch._C.DisableTorchFunction():
        call, change = CALLS[func](sites[0].module, *args, **kwargs), _changes(sites)
        if change is None:
            weights: Callable[[], Tensor | Later] = lambda: getattr(call, "later", None) or call.weights()  # noqa: E731
        else:
            computed = call.weights()
            changed = change(computed[None], call.allowed)[0] if call.single else change(computed, call.allowed)
            weights, out = (lambda: changed), call.output(changed)
    if change is None:
        out = func(*args, **kwargs)
    seen = Seen(weights, call.kind)
    for site in sites:
        site.watcher.keep(site, seen)
    return out


def _hidden(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    for site in here.sites():
        site.watcher.refuse(site, "a fused kernel of torch that shows no weights")
    return func(*args, **kwargs)


def _softmax(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    out = func(*args, **kwargs)
    if args and any(watcher.running for watcher in here.watchers):
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        with torch._C.DisableTorchFunction():
            here.traces.softmax(args[0], out, dim, here.changing())
    return out


def _follow(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    out = func(*args, **kwargs)
    if func is functional.dropout and args:
        here.undropped = args[0]
    if not here.traces:
        return out
    with torch._C.DisableTorchFunction():
        here.traces.follow(func, out, args, kwargs, here.changing())
    return out


def _product(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The weights of an attention that is written out, times the values."""
    match = here.traces.factor(func, args)
    sites = here.sites() if match is not None else []
    if match is None or not sites:
        return func(*args, **kwargs)
    factor, trace = match
    origin, weights = trace.origin, factor if trace.weights is None else trace.weights
    if not origin.kept:
        origin.kept = True
        change = _changes(sites)
        if change is not None:
            with torch._C.DisableTorchFunction():
                origin.changed = weights = change(weights, trace.allowed)
        seen = Seen(lambda: weights, "softmax")
        for site in sites:
            site.watcher.keep(site, seen)
    if origin.changed is not None:
        with torch._C.DisableTorchFunction():
            args = substitute(args, factor, trace.instead())
    return func(*args, **kwargs)


def _select(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    out = func(*args, **kwargs)
    for watcher in here.watchers:
        if not watcher.running and watcher.mine():
            watcher.reordered(*args, **kwargs)
    return out


_HANDLERS: dict[Any, Callable[[Callable, tuple, dict[str, Any]], Any]] = {
    **dict.fromkeys(CALLS, _call),
    **dict.fromkeys(SOFTMAX, _softmax),
    **dict.fromkeys(FOLLOWED, _follow),
    **dict.fromkeys(PRODUCTS, _product),
    torch.index_select: _select,
    Tensor.index_select: _select,
}


_HERE = str(Path(__file__).parent)
_INTEGRATIONS = str(Path(__file__).parents[1] / "integrations")
_ASKING = (attention.__file__, edges.__file__)
"""The files through which our own attention calls this module; with this folder, they are no place in the model."""


def place_of_call() -> frozenset[tuple[CodeType, int]]:
    """Where in the running module's forward an attention is called: equal for each turn of a loop, and different for
    two calls of one helper."""
    frame: FrameType | None = sys._getframe(1)
    place: set[tuple[CodeType, int]] = set()
    while frame is not None and frame.f_code is not nn.Module._call_impl.__code__:
        file = frame.f_code.co_filename
        if file.startswith(_INTEGRATIONS):  # one call of the model, whichever function computes it
            place.clear()
        elif file not in _ASKING and not file.startswith(_HERE):
            place.add((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return frozenset(place)
