"""Which attention of which module is running: what :func:`regard.record` and :func:`regard.change` stand on.

A :class:`Watcher` follows one model in one thread. Its forward hooks tell which module is running; a function mode of
the thread, and the witness of :mod:`regard.attended`, tell when an attention is computed. All watchers of a thread are
asked at once: first those that change its weights, then those that keep them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from regard import attention, edges
from regard._lazy import snake
from regard.attended import Attended, Want, witness
from regard.heads import MultiHead, PerHead
from regard.kernels import groups
from regard.kernels.forms import DotForm
from regard.kernels.shortcut import Pending
from regard.normalizers import Softmax
from regard.parts import Parts, Refiner
from regard.tape.calls import CALLS, HIDDEN
from regard.tape.entries import Look
from regard.tape.later import Later
from regard.tape.written_out import FOLLOWED, PRODUCTS, SOFTMAX, Traces, substitute

Change = Callable[[Tensor, Any], Tensor]
"""Weights (…, T, S) and which keys may be attended → weights; along edges (E, H) and the :class:`regard.Edges`."""


@dataclass(eq=False)
class Run:
    """A module that is running."""

    module: nn.Module
    seen: bool = False
    looks: list[Look] = field(default_factory=list)


class Seen:
    """An attention that was computed. ``make`` gives its weights, and is called at most once."""

    def __init__(
        self,
        make: Callable[[], Tensor | Later | None],
        kind: str,
        log_prob: Tensor | None = None,
        index: Tensor | None = None,
    ):
        self.make, self.kind, self.log_prob, self.index = make, kind, log_prob, index
        self.made: Tensor | Later | None = None

    @classmethod
    def answer(cls, out: Attended, kind: str) -> Seen:
        """Of our own. Reading ``out.weights`` would leave weights without a graph in the model's own record."""
        held = out._weights
        index = None if out.edges is None else out.edges.index

        def make() -> Tensor | Later | None:
            return (_later(held) or held()) if callable(held) else held

        return cls(make, kind, out.log_prob, index)

    def weights(self) -> Tensor | Later:
        if self.made is None:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                self.made = self.make()
        if self.made is None:
            raise RuntimeError("it gave no weights")
        return self.made


@dataclass(frozen=True, eq=False)
class Site:
    """Where in the model of a watcher an attention is computed."""

    watcher: Watcher
    run: Run
    name: str

    @property
    def module(self) -> nn.Module:
        return self.run.module


class Watcher:
    """Follows one model in the thread that starts it."""

    changes: ClassVar[bool] = False
    """Does it change weights?"""

    def __init__(self, model: nn.Module):
        self.model = model
        self.names = {module: name_of(path, model) for path, module in model.named_modules()}
        self.thread = threading.get_ident()
        self.handles: list[RemovableHandle] = []
        self.running: list[Run] = []
        self.places: dict[str, list[Any]] = {}
        self.reasons: dict[str, str] = {}
        self.entered: set[nn.Module] = set()
        self.looked: set[nn.Module] = set()

    # What a subclass does.

    def change(self, site: Site) -> Change | None:
        """How the weights computed there are to be changed, if at all."""
        return None

    def keep(self, site: Site, seen: Seen) -> None:
        """Weights were computed there."""

    def refuse(self, site: Site, reason: str) -> None:
        """Weights were computed there that cannot be seen."""

    def late(self, site: Site, kind: str) -> None:
        """Weights were seen there after they had been used."""

    def output(self, output: Any) -> Any:
        """What a module gives instead of ``output``; None for that itself."""
        return None

    def reordered(self, input: Tensor, dim: int, index: Tensor) -> None:
        """Rows of a tensor were selected outside of the model."""

    # How it follows the model.

    def start(self) -> None:
        try:
            self._hook()
            if not here.watchers:
                here.mode = _Mode()
                here.mode.__enter__()
                witness.see = _see
        except BaseException:
            self._unhook()
            raise
        here.watchers.append(self)

    def stop(self) -> None:
        here.watchers.remove(self)
        if not here.watchers and here.mode is not None:
            witness.see = None
            here.mode.__exit__(None, None, None)
            here.mode, here.traces, here.undropped = None, Traces(), None
        self._unhook()

    def _hook(self) -> None:
        # Plain functions: a copy of the model that is made meanwhile copies its hooks, and must not copy a watcher.
        def before(module: nn.Module, args: Any) -> None:
            if self.mine() and module in self.names:
                self.running.append(Run(module))
                self.entered.add(module)

        def after(module: nn.Module, args: Any, output: Any) -> Any:
            if self.mine() and any(run.module is module for run in self.running):
                return self._leave(module, output)
            return None

        def weighing(module: Any, given: Any) -> None:
            here.undropped = None

        def weighed(module: Any, given: Any, out: Any) -> Any:
            if self.mine() and any(run.module is module for run in self.running):
                return self._along(module, given[0], out)
            return None

        for module in self.names:
            if not isinstance(module, torch.jit.ScriptModule):
                self.handles.append(module.register_forward_pre_hook(before))
                first = self.changes  # what it returns is what those who only look shall see
                self.handles.append(module.register_forward_hook(after, prepend=first, always_call=True))
            if _of_pyg(module):
                hooks: Any = module
                self.handles.append(hooks.register_edge_update_forward_pre_hook(weighing))
                self.handles.append(hooks.register_edge_update_forward_hook(weighed))
                if self.changes:  # before those who only look
                    hooks._edge_update_forward_hooks.move_to_end(self.handles[-1].id, last=False)

    def _unhook(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.names = {}

    def mine(self) -> bool:
        """Is this a forward pass of the thread that watches? Checkpoints run once more inside a backward pass."""
        if torch.compiler.is_compiling():
            return False
        return threading.get_ident() == self.thread and torch._C._current_graph_task_id() == -1

    def site(self, place: Any, run: Run | None = None) -> Site | None:
        """The attention that is computed at this place of the running module's code."""
        if not self.running or not self.mine():
            return None
        if run is None:
            run = self.running[-1]
            run.seen = True
            if len(self.running) > 1 and isinstance(self.running[-2].module, MultiHead):
                run = self.running[-2]
        run.seen = True
        name = self.names[run.module]
        places = self.places.setdefault(name, [])
        if (run.module, place) not in places:
            places.append((run.module, place))
        number = places.index((run.module, place)) + 1
        return Site(self, run, name if number == 1 else f"{name}#{number}")

    def _leave(self, module: nn.Module, output: Any) -> Any:
        run = self.running.pop()
        while run.module is not module:  # what an exception skipped
            run = self.running.pop()
        self.running.append(run)
        new = None
        if run.seen:
            new = self.output(output)
            if isinstance(output, Attended) and isinstance(module, MultiHead) and output.context.ndim == 2:
                for look in run.looks:  # unbatched: the heads had a batch of one
                    look.item()
        else:
            self._returned(run, output)
        self.running.pop()
        if run.seen:
            self.looked.add(module)
            if self.running:
                self.running[-1].seen = True
        return new

    def _returned(self, run: Run, output: Any) -> None:
        """Keep weights that nobody saw being computed, but that a module returns."""
        if isinstance(output, Attended):
            kind = snake(type(getattr(run.module, "_orig_mod", run.module)).__name__)
            seen = Seen.answer(output, kind)
        else:
            weights = _beside(run.module, output)
            if weights is None:
                return
            kind = snake(type(run.module).__name__)
            seen = Seen(lambda: weights, kind)
        site = self.site("returned", run)
        if site is not None:
            self.keep(site, seen)
            self.late(site, kind)

    def _along(self, module: Any, index: Any, out: Any) -> Any:
        """PyG's edges have got their weights, (E, H)."""
        weights = out if here.undropped is None else here.undropped
        site = self.site(_place())
        if site is None:
            return None
        if not isinstance(index, Tensor) or not isinstance(weights, Tensor) or weights.ndim != 2:
            self.refuse(site, "its edges are no tensor (2, E)")
            return None
        index = index if module.flow == "source_to_target" else index.flip(0)
        change, new = self.change(site), None
        if change is not None:
            weights = here.undropped = change(weights, edges.Edges(index))
            new = functional.dropout(weights, module.dropout, module.training)
        self.keep(site, Seen(lambda: weights, snake(type(module).__name__), index=index))
        return new

    def unseen(self) -> dict[str, str]:
        """What could not be seen, with the reason of each."""
        modules = list(self.model.named_modules())
        scripts = [module for _, module in modules if isinstance(module, torch.jit.ScriptModule)]
        inner = {child for module in scripts for child in module.children()}
        found = dict(self.reasons)
        for path, module in modules:
            name = name_of(path, self.model)
            compiled = path.endswith("_orig_mod") or module._compiled_call_impl is not None
            if module in scripts and module not in inner:
                found.setdefault(name, "TorchScript")
            elif compiled and module not in self.entered and name not in self.places:
                remedy = 'with torch.compiler.set_stance("force_eager"):'
                found.setdefault(name, f"compiled; to see it, run the model under `{remedy}`")
        blind = [module for _, module in modules if self._blind(module)]
        for path, module in modules:
            if module in blind and not any(child in blind for child in list(module.modules())[1:]):
                found.setdefault(name_of(path, self.model), _why(module))
        return found

    def _blind(self, module: nn.Module) -> bool:
        """Has it the name of an attention, and ran, but showed no weights?"""
        if module not in self.entered or module in self.looked:
            return False
        return _called_attention(module) or _of_pyg(module)


class _Here(threading.local):
    """What is watched in this thread."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.mode: _Mode | None = None
        self.within = 0  # how many answers of regard are being computed
        self.traces = Traces()
        self.undropped: Tensor | None = None  # what dropout was last given

    def sites(self) -> list[Site]:
        """Where each watcher thinks that an attention is computed right now."""
        place = _place()
        found = [watcher.site(place) for watcher in self.watchers]
        return [site for site in found if site is not None]

    def changing(self) -> bool:
        return any(watcher.changes for watcher in self.watchers)


here = _Here()


def _changes(sites: list[Site]) -> Change | None:
    """All changes that are due there, one after the other."""
    found = [change for site in sites if (change := site.watcher.change(site)) is not None]
    if not found:
        return None

    def all_of_them(weights: Tensor, allowed: Any) -> Tensor:
        for change in found:
            weights = change(weights, allowed)
        return weights

    return all_of_them


def _see(parts: Parts, want: Want, ask: Callable[[Want, Parts], Attended]) -> Attended:
    """Answer as would be answered without a watcher, except for what they change, and show them the weights."""
    sites = here.sites()
    asked = "lazy" if sites and want is False else want
    change = _changes(sites)
    used = parts if change is None else parts._replace(refiner=_Changed(parts, change))
    witness.see, here.within = None, here.within + 1
    try:
        out = ask(asked, used)
    finally:
        witness.see, here.within = _see, here.within - 1
    seen = Seen.answer(out, _kind(parts))
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

    def forward(self, weights: Tensor, mask: Any, **given: Any) -> Tensor:
        inside = weights != 0 if self.windowed else mask  # of a window, only those keys that it left any weight
        refined = weights if self.refiner is None else self.refiner(weights, mask, **given)
        return self.change(refined, inside)


class _Mode(TorchFunctionMode):
    """Sees the functions of torch that this thread calls."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        handler = _HANDLERS.get(func)
        if handler is None and getattr(func, "__name__", "") in HIDDEN:
            handler = _hidden
        if handler is None or here.within or torch.compiler.is_compiling():
            return func(*args, **kwargs)
        return handler(func, args, kwargs)


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
    found = here.traces.factor(func, args)
    sites = here.sites() if found is not None else []
    if found is None or not sites:
        return func(*args, **kwargs)
    factor, trace = found
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


def name_of(path: str, model: nn.Module) -> str:
    """The path of a module, or for the model itself the name of its class. torch.compile's wrapper goes unmentioned."""
    known = [part for part in path.split(".") if part not in ("", "_orig_mod")]
    return ".".join(known) or snake(type(getattr(model, "_orig_mod", model)).__name__)


_HERE = str(Path(__file__).parent)
_INTEGRATIONS = str(Path(__file__).parents[1] / "integrations")
_ASKING = (attention.__file__, edges.__file__)
"""The files through which a call of ours comes here, besides those of this folder."""


def _place() -> frozenset[tuple[CodeType, int]]:
    """Where in the running module's forward an attention is called: equal for each turn of a loop, and different for
    two calls of one helper."""
    frame: FrameType | None = sys._getframe(1)
    place: set[tuple[CodeType, int]] = set()
    while frame is not None and frame.f_code is not nn.Module._call_impl.__code__:
        file = frame.f_code.co_filename
        if file.startswith(_INTEGRATIONS):  # by whichever way it answers, the model asks once
            place.clear()
        elif file not in _ASKING and not file.startswith(_HERE):
            place.add((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return frozenset(place)


def _kind(parts: Parts) -> str:
    score = parts.score.scores[0] if isinstance(parts.score, PerHead) else parts.score
    flow = (parts.window, score, parts.normalizer, parts.refiner)
    return ", ".join(snake(type(part).__name__) for part in flow if part is not None)


def _later(held: Callable) -> Later | None:
    """The weights of a dot product of ours that no kernel wrote down."""
    pending = getattr(held, "__self__", None)
    if not isinstance(pending, Pending) or type(pending.normalizer) is not Softmax:
        return None
    form, normalizer = pending.form, pending.normalizer
    if not isinstance(form, DotForm) or form.query.ndim < 2 or (pending.group > 1 and form.bias is not None):
        return None
    cold = 1 / normalizer.temperature
    bias = None if form.bias is None else form.bias * cold
    query, allowed = groups.unfold(form.query, pending.group), pending.allowed
    allowed = allowed() if callable(allowed) else allowed
    return Later(query, form.key, form.scale * cold, bias, allowed, None, pending.dtype)


def _called_attention(module: nn.Module) -> bool:
    kind = type(module).__name__.lower()
    return "attention" in kind or "attn" in kind


def _of_pyg(module: nn.Module) -> bool:
    """Is it a layer of PyG that may weigh its edges?"""
    return type(module).__module__.startswith("torch_geometric.") and hasattr(module, "heads")


def _beside(module: nn.Module, output: Any) -> Tensor | None:
    """Weights (B, H, T, S) or (B, T, S) that a module returns beside its output (B, T, E): the only tensor there that
    is nowhere negative and whose rows sum to 1, or to 0 where nothing may be attended. In training dropout may have
    changed the sums; then the module must at least be called an attention."""
    if not isinstance(output, tuple) or not output or not isinstance(output[0], Tensor) or output[0].ndim != 3:
        return None
    batch, length = output[0].shape[:2]
    for tensor in output[1:]:
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or tensor.ndim not in (3, 4):
            continue
        if tensor.shape[0] != batch or tensor.shape[-2] != length or not tensor.numel():
            continue
        with torch.no_grad(), torch._C.DisableTorchFunction():
            sums = tensor.sum(dim=-1, dtype=torch.float32)
            whole = ((sums - 1).abs() < 0.01) | (sums == 0)
            if bool((tensor >= 0).all()) and (bool(whole.all()) or (module.training and _called_attention(module))):
                return tensor
    return None


def _why(module: nn.Module) -> str:
    chosen = getattr(getattr(module, "config", None), "_attn_implementation", None)
    if isinstance(chosen, str) and chosen not in ("eager", "sdpa"):
        return f'attn_implementation={chosen!r} shows no weights; call model.set_attn_implementation("sdpa") first'
    return "it computes its weights in a way that cannot be followed"
