"""Which attention of which module is running: the base of :func:`regard.record` and :func:`regard.change`.

A :class:`Watcher` follows one model in one thread. Its forward hooks know which module is running, and
:mod:`regard.tape.intercept` calls it when an attention is computed.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.hooks import RemovableHandle

from regard import edges
from regard._lazy import snake
from regard.attended import Attended, witness
from regard.heads import MultiHead
from regard.tape.entries import Look
from regard.tape.intercept import Change, Mode, here, place_of_call, see
from regard.tape.seen import Seen, beside, called_attention
from regard.tape.written_out import Traces


@dataclass(eq=False)
class Run:
    """A module that is running."""

    module: nn.Module
    seen: bool = False
    looks: list[Look] = field(default_factory=list)


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
                here.mode = Mode()
                here.mode.__enter__()
                witness.see = see
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

        def weighing(module: Any, args: Any) -> None:
            here.undropped = None

        def weighed(module: Any, args: Any, out: Any) -> Any:
            if self.mine() and any(run.module is module for run in self.running):
                return self._along(module, args[0], out)
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
        """Keep weights that a module returns, if their computation was not seen."""
        if isinstance(output, Attended):
            kind = snake(type(getattr(run.module, "_orig_mod", run.module)).__name__)
            seen = Seen.answer(output, kind)
        else:
            weights = beside(run.module, output)
            if weights is None:
                return
            kind = snake(type(run.module).__name__)
            seen = Seen(lambda: weights, kind)
        site = self.site("returned", run)
        if site is not None:
            self.keep(site, seen)
            self.late(site, kind)

    def _along(self, module: Any, index: Any, out: Any) -> Any:
        """Change or keep the weights (E, H) that a layer of PyG has computed for its edges."""
        weights = out if here.undropped is None else here.undropped
        site = self.site(place_of_call())
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
        """The attentions that could not be seen, with the reason of each."""
        modules = list(self.model.named_modules())
        scripts = [module for _, module in modules if isinstance(module, torch.jit.ScriptModule)]
        inner = {child for module in scripts for child in module.children()}
        reasons = dict(self.reasons)
        for path, module in modules:
            name = name_of(path, self.model)
            compiled = path.endswith("_orig_mod") or module._compiled_call_impl is not None
            if module in scripts and module not in inner:
                reasons.setdefault(name, "TorchScript")
            elif compiled and module not in self.entered and name not in self.places:
                remedy = 'with torch.compiler.set_stance("force_eager"):'
                reasons.setdefault(name, f"compiled; to see it, run the model under `{remedy}`")
        blind = [module for _, module in modules if self._blind(module)]
        for path, module in modules:
            if module in blind and not any(child in blind for child in list(module.modules())[1:]):
                reasons.setdefault(name_of(path, self.model), _why(module))
        return reasons

    def _blind(self, module: nn.Module) -> bool:
        """Has it the name of an attention, and ran, but showed no weights?"""
        if module not in self.entered or module in self.looked:
            return False
        return called_attention(module) or _of_pyg(module)


def name_of(path: str, model: nn.Module) -> str:
    """The path of a module, or for the model itself the name of its class. torch.compile's wrapper goes unmentioned."""
    parts = [part for part in path.split(".") if part not in ("", "_orig_mod")]
    return ".".join(parts) or snake(type(getattr(model, "_orig_mod", model)).__name__)


def _of_pyg(module: nn.Module) -> bool:
    """Is it a layer of PyG that may have attention along edges?"""
    return type(module).__module__.startswith("torch_geometric.") and hasattr(module, "heads")


def _why(module: nn.Module) -> str:
    chosen = getattr(getattr(module, "config", None), "_attn_implementation", None)
    if isinstance(chosen, str) and chosen not in ("eager", "sdpa"):
        return f'attn_implementation={chosen!r} shows no weights; call model.set_attn_implementation("sdpa") first'
    return "it computes its weights in a way that cannot be followed"
