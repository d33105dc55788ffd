"""See every attention of a model without touching it.

    with regard.record(model) as tape:
        model(batch)
    tape["decoder.layers.0.cross"].weights     # (B, H, T, S)
    tape.save("weights.safetensors")

What is seen: :class:`regard.Attention`, :class:`regard.MultiHead`, glimpses and every other module that returns an
:class:`regard.Attended`; :func:`regard.attend`; torch's ``nn.MultiheadAttention``, alone and inside ``nn.Transformer``
and its layers; ``F.scaled_dot_product_attention``, through which Hugging Face's models look by default; and PyG's
``GATConv`` and ``GATv2Conv``. Forward hooks tell which module is running, a thread-local ``TorchFunctionMode`` shows
the calls of torch's functions; torch itself is not patched, and nothing stays behind.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import sqrt
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from regard._files import whole
from regard._lazy import nearest, snake
from regard.attention import Attended, Recipe, Want, witness
from regard.heads import MultiHead, PerHead
from regard.normalizers._masked import masked_softmax

VERSION = 1
"""Of the file format that :meth:`Tape.save` writes."""


@dataclass(eq=False)
class Look:
    """One call of an attention.

    Attributes:
        weights: (…, T, S), before dropout, detached, on the device they were computed on. Along edges: (E, H).
        log_prob: (…, T) where a sampling normalizer drew, else None.
        kind: the parts by name, e.g. ``"additive, softmax"``.
        edges: (2, E), source and target of each row of the weights, where the keys were those of a graph; else None.
        order: how often the rows of the batch had been reordered before, as a beam search does.
    """

    weights: Tensor
    log_prob: Tensor | None = None
    kind: str = ""
    edges: Tensor | None = None
    order: int = 0


@dataclass(eq=False)
class Entry:
    """All calls of one attention, in their order, and the tokens at its axes."""

    name: str
    calls: list[Look] = field(default_factory=list)
    rows: list[str] | None = None
    columns: list[str] | None = None

    @property
    def weights(self) -> Tensor:
        """The weights of the only call, or those of a decoder joined along T.

        Calls are joined if each has one query (the first may have more: a prompt) and their keys stay or grow, as in
        a cache; weights of keys that were not there yet are 0. Not where the batch was reordered between calls, as a
        beam search does: a row would then belong to several hypotheses.
        """
        if len(self.calls) == 1:
            return self.calls[0].weights
        length = self.shape[-1]
        each = [functional.pad(look.weights, (0, length - look.weights.shape[-1])) for look in self.calls]
        return torch.cat(each, dim=-2)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of ``weights``."""
        first, *others = (tuple(look.weights.shape) for look in self.calls)
        lengths = [first[-1], *(shape[-1] for shape in others)]
        steps = all(shape[:-1] == (*first[:-2], 1) for shape in others)
        steps &= not others or self.calls[0].edges is None
        if not steps or lengths != sorted(lengths):
            raise ValueError(
                f"{self.name!r} was called {len(self.calls)} times, with weights {self._shapes()}, and only the steps "
                "of a decoder (one query each, the same batch, keys that stay or grow) can be joined: read .calls"
            )
        if len({look.order for look in self.calls}) > 1:
            raise ValueError(
                f"the batch was reordered between the {len(self.calls)} calls of {self.name!r}, as a beam search does: "
                "a row of the joined weights would belong to no hypothesis; read .calls, or search with one beam"
            )
        return (*first[:-2], first[-2] + len(others), lengths[-1])

    def _shapes(self) -> str:
        shapes = list(dict.fromkeys(str(tuple(look.weights.shape)) for look in self.calls))
        return ", ".join(shapes if len(shapes) < 4 else [*shapes[:2], "…", shapes[-1]])

    def __repr__(self) -> str:
        return f"Entry({self.name!r}, calls={len(self.calls)}, weights={self._shapes()})"


class Tape:
    """The attentions that :func:`record` saw, by name and in the order in which they first ran."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def __getitem__(self, name: str) -> Entry:
        if name in self._entries:
            return self._entries[name]
        if not self._entries:
            raise ValueError(f"no attention called {name!r} is on this tape; it is empty")
        raise ValueError(f"no attention called {name!r} is on this tape: {nearest(name, self._entries)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """The names of the attentions."""
        return list(self._entries)

    def label(self, name: str, *, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None) -> None:
        """Name the queries (``rows``, T of them) and the keys (``columns``, S of them) of an attention."""
        entry = self[name]
        for axis, tokens, size in (("rows", rows, entry.shape[-2]), ("columns", columns, entry.shape[-1])):
            if isinstance(tokens, str):
                raise ValueError(f"{axis}= is a list of tokens, not one string: list({tokens!r}) names each letter")
            if tokens is not None and len(tokens) != size:
                raise ValueError(f"{name!r} has {size} {axis}, weights {entry.shape}, but {len(tokens)} tokens came")
        entry.rows = entry.rows if rows is None else [str(token) for token in rows]
        entry.columns = entry.columns if columns is None else [str(token) for token in columns]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a safetensors file. A file that was there is replaced at once or not at all."""
        path = Path(path)
        tensors: dict[str, Tensor] = {}
        entries = []
        for index, entry in enumerate(self._entries.values()):
            for call, look in enumerate(entry.calls):
                tensors[f"{index}.{call}.weights"] = look.weights.contiguous()
                if look.log_prob is not None:
                    tensors[f"{index}.{call}.log_prob"] = look.log_prob.contiguous()
                if look.edges is not None:
                    tensors[f"{index}.{call}.edges"] = look.edges.clone()  # layers share them, a file cannot
            kinds, orders = [look.kind for look in entry.calls], [look.order for look in entry.calls]
            axes = {"rows": entry.rows, "columns": entry.columns}
            entries.append({"name": entry.name, "kinds": kinds, "orders": orders, **axes})
        about = {"format": "regard.tape", "version": str(VERSION), "entries": json.dumps(entries, ensure_ascii=False)}
        with whole(path) as unfinished:
            unfinished.touch()
            mode = unfinished.stat().st_mode  # safetensors would leave a file that only its owner can read
            save_file(tensors, unfinished, metadata=about)
            unfinished.chmod(mode)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tape:
        """Read a tape that :meth:`save` wrote; tensors come to the CPU."""
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  # no mapping
        except SafetensorError as error:
            raise ValueError(f"{path} is no tape: not a whole safetensors file ({error})") from error
        if about.get("format") != "regard.tape":
            raise ValueError(f"{path} is no tape: a safetensors file, but not one that Tape.save wrote")
        if about.get("version") != str(VERSION):
            raise ValueError(f"{path} is a tape of version {about.get('version')}; this regard reads version {VERSION}")
        tape = cls()
        try:
            for index, saved in enumerate(json.loads(about["entries"])):
                entry = Entry(saved["name"], [], saved["rows"], saved["columns"])
                orders = saved.get("orders", [0] * len(saved["kinds"]))
                for call, (kind, order) in enumerate(zip(saved["kinds"], orders, strict=True)):
                    key = f"{index}.{call}."
                    more = tensors.get(key + "log_prob"), kind, tensors.get(key + "edges"), int(order)
                    entry.calls.append(Look(tensors[key + "weights"], *more))
                tape._entries[entry.name] = entry
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is a damaged tape: {error!r}") from error
        return tape

    def __repr__(self) -> str:
        if not self._entries:
            return "Tape: no attention seen"
        rows = [("name", "calls", "weights", "kind")]
        for entry in self._entries.values():
            try:
                shape = str(entry.shape)
            except ValueError:
                shape = entry._shapes()
            rows.append((entry.name, str(len(entry.calls)), shape, entry.calls[0].kind))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        """What notebooks show: the interactive viewer, which stays alive in an exported notebook."""
        # By its name, since the core knows none of the rooms built on it.
        return importlib.import_module("regard.views.tape").html(self)


@contextmanager
def record(model: nn.Module, *, names: str | Sequence[str] | None = None) -> Iterator[Tape]:
    """Put the weights of every attention that ``model`` computes, in this thread and until the block ends, on a tape.

    Args:
        model: any module; it computes what it always does. Only torch's fused inference path of ``nn.Transformer…``,
            which shows no weights, is left for the plain one; at padded queries that one writes zeros, this one not.
        names: keep only attentions whose name fits one of these patterns, e.g. ``"decoder.*"``; saves memory.

    Names are module paths: ``"decoder.layers.0.cross"``. If the model itself is the attention, its name is that of
    the class: ``"attention"``, ``"multi_head"``. :func:`regard.attend` and torch's functions go by the innermost
    running module; where it calls them at several places, the second is ``"block#2"``, and so on. A place that is
    passed more than once, like a module that runs more than once, adds to ``.calls``. What is recomputed in backward
    is not a call.

    Weights are detached copies on their device; taking them draws no random numbers and leaves the model's graph
    alone. An attention that cannot be seen, because it is compiled for instance, is named in a warning at the end; so
    is the likely reason if the tape is empty.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"record takes an nn.Module, not {type(model).__name__}")
    tape = Tape()
    recorder = _Recorder(model, tape, [names] if isinstance(names, str) else names)
    with recorder:
        yield tape
    unseen = recorder.unseen()
    if unseen:
        warnings.warn("regard.record could not see into " + "; ".join(unseen), stacklevel=3)
    elif not tape and (why := recorder.nothing()):
        warnings.warn(f"regard.record saw no attention: {why}", stacklevel=3)


@dataclass(eq=False)
class _Run:
    """A module that is running."""

    module: nn.Module
    seen: bool = False
    looks: list[Look] = field(default_factory=list)


class _Recorder(TorchFunctionMode):
    """Knows which module is running (hooks), and sees its attentions: those of torch, by being a function mode, and
    those of regard, by being the witness of :mod:`regard.attention`."""

    def __init__(self, model: nn.Module, tape: Tape, patterns: Sequence[str] | None):
        super().__init__()
        self.model, self.tape, self.patterns = model, tape, patterns
        self.names = {module: _name(path, model) for path, module in model.named_modules()}
        self.thread = threading.get_ident()
        self.handles: list[RemovableHandle] = []
        self.running: list[_Run] = []
        self.within = 0  # how many answers of regard are being computed
        self.places: dict[str, list[Any]] = {}
        self.reasons: dict[str, str] = {}
        self.entered: set[nn.Module] = set()
        self.order = 0  # how often the rows of the batch were reordered
        self.batch: int | None = None  # how many rows the last weights had
        self.kept: Tensor | None = None  # what dropout was last given while edges were weighed

    def __enter__(self) -> _Recorder:
        try:
            self._hook()
            super().__enter__()
        except BaseException:
            self._unhook()
            raise
        self.outer, witness.see = witness.see, self.see
        return self

    def __exit__(self, *error: Any) -> None:
        witness.see = self.outer
        super().__exit__(*error)
        self._unhook()

    def _hook(self) -> None:
        # Plain functions: a copy of the model that is made meanwhile copies its hooks, and must not copy a recorder.
        def before(module: nn.Module, args: Any) -> None:
            if not torch.compiler.is_compiling() and self._mine() and module in self.names:
                self.running.append(_Run(module))
                self.entered.add(module)

        def after(module: nn.Module, args: Any, output: Any) -> None:
            if not torch.compiler.is_compiling() and self._mine() and any(run.module is module for run in self.running):
                self._leave(module, output)

        def weighing(module: Any, given: Any) -> None:
            self.kept = None

        def weighed(module: Any, given: Any, out: Any) -> None:
            if not torch.compiler.is_compiling() and self._mine() and any(run.module is module for run in self.running):
                self._along(module, given[0], out)

        for module in self.names:
            if not isinstance(module, torch.jit.ScriptModule):
                self.handles.append(module.register_forward_pre_hook(before))
                self.handles.append(module.register_forward_hook(after, always_call=True))
            if type(module).__module__.startswith("torch_geometric.") and hasattr(module, "heads"):
                self.handles.append(module.register_edge_update_forward_pre_hook(weighing))
                self.handles.append(module.register_edge_update_forward_hook(weighed))

    def _unhook(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.names = {}

    def _mine(self) -> bool:
        """Is this a forward pass of the thread that records? Checkpoints run once more inside a backward pass."""
        return threading.get_ident() == self.thread and torch._C._current_graph_task_id() == -1

    def _leave(self, module: nn.Module, output: Any) -> None:
        run = self.running.pop()
        while run.module is not module:  # what an exception skipped
            run = self.running.pop()
        if isinstance(output, Attended):
            if not run.seen:
                kind = snake(type(getattr(module, "_orig_mod", module)).__name__)
                self._keep(run, "returned", kind, output)
            elif isinstance(module, MultiHead) and output.context.ndim == 2:  # unbatched: the heads had a batch of one
                for look in run.looks:
                    look.weights = look.weights[0]
                    look.log_prob = None if look.log_prob is None else look.log_prob[0]
        if self.running:
            self.running[-1].seen |= run.seen

    def see(self, recipe: Recipe, want: Want, ask: Callable[[Want], Attended]) -> Attended:
        """Answer as would be answered without a tape, and keep the weights, also where the caller wants none."""
        watched = bool(self.running) and self._mine()
        asked = "lazy" if watched and want is False else want
        witness.see, self.within = self.outer, self.within + 1
        try:
            out = ask(asked)
        finally:
            witness.see, self.within = self.see, self.within - 1
        if watched:
            run = self.running[-1]
            run.seen = True
            if len(self.running) > 1 and isinstance(self.running[-2].module, MultiHead):
                run = self.running[-2]
            self._keep(run, _place(), _kind(recipe), out)
            if want is False:
                out.weights = out.scores = None
        return out

    def _along(self, module: Any, index: Any, out: Any) -> None:
        """Keep the weights of PyG's edges, (E, H), before dropout."""
        weights, self.kept = out if self.kept is None else self.kept, None
        if not isinstance(index, Tensor) or not isinstance(weights, Tensor) or weights.ndim != 2:
            self.reasons[self.names[module]] = "its edges are no tensor (2, E)"
            return
        run = self.running[-1]
        before = len(run.looks)
        self._keep(run, _place(), snake(type(module).__name__), Attended(out, lambda: weights))
        for look in run.looks[before:]:
            look.edges = _copy(index if module.flow == "source_to_target" else index.flip(0))

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if torch.compiler.is_compiling():
            return out
        if func is functional.dropout:
            self.kept = args[0]
        if func in _SELECTING and not self.running and self._mine():
            self.order += self._reorders(*args, **kwargs)
        reader = _hidden if getattr(func, "__name__", "") in _HIDDEN else _READERS.get(func)
        if reader is not None and self.running and not self.within and self._mine():
            seen = Attended(out, lambda: reader(*args, **kwargs))
            self._keep(self.running[-1], _place(), "scaled_dot, softmax", seen)
        return out

    def _reorders(self, input: Tensor, dim: int, index: Tensor, **_: Any) -> bool:
        """Does this put the rows of the batch, such as a cache, into another order?"""
        if dim != 0 or input.ndim < 2 or input.shape[0] != self.batch or index.ndim != 1:
            return False
        with torch._C.DisableTorchFunction():
            return not torch.equal(index, torch.arange(input.shape[0], device=index.device))

    def _keep(self, run: _Run, place: Any, kind: str, out: Attended) -> None:
        """Compute the weights if need be, and put them on the tape."""
        run.seen = True
        name = self.names[run.module]
        places = self.places.setdefault(name, [])
        if (run.module, place) not in places:
            places.append((run.module, place))
        number = places.index((run.module, place)) + 1
        name = name if number == 1 else f"{name}#{number}"
        if self.patterns is not None and not any(fnmatchcase(name, pattern) for pattern in self.patterns):
            return
        # Not `out.weights`: that would leave weights without a graph in the model's own record.
        weights = out._weights
        try:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                weights = weights() if callable(weights) else weights
            if weights is None:
                raise RuntimeError("it gave no weights")
            look = Look(_copy(weights), None if out.log_prob is None else _copy(out.log_prob), kind, order=self.order)
            look.edges = None if out.edges is None else out.edges.index
            self.batch = weights.shape[0]
        except RuntimeError as error:  # a recording that fails must not make the model fail
            self.reasons[name] = str(error).split("\n")[0]
            return
        run.looks.append(look)
        self.tape._entries.setdefault(name, Entry(name)).calls.append(look)

    def unseen(self) -> list[str]:
        """What could not be seen, each with the reason."""
        modules = list(self.model.named_modules())
        scripts = [module for _, module in modules if isinstance(module, torch.jit.ScriptModule)]
        inner = {child for module in scripts for child in module.children()}
        for path, module in modules:
            name = _name(path, self.model)
            compiled = path.endswith("_orig_mod") or module._compiled_call_impl is not None
            if module in scripts and module not in inner:
                self.reasons.setdefault(name, "TorchScript")
            elif compiled and module not in self.entered and name not in self.tape:
                remedy = 'with torch.compiler.set_stance("force_eager"):'
                self.reasons.setdefault(name, f"compiled; to see it, run the model under `{remedy}`")
        return [f"{name!r} ({reason})" for name, reason in self.reasons.items()]


    def nothing(self) -> str | None:
        """Why the tape is empty; None if the model did not run as a whole, and so need not have looked."""
        if self.places:
            return f"no name fits names={list(self.patterns or ())}; {nearest('', self.places)}"
        if not self.entered:
            return "no module of this model ran inside the block, in the thread that opened it"
        for path, module in self.model.named_modules():
            chosen = getattr(getattr(module, "config", None), "_attn_implementation", None)
            if module in self.entered and isinstance(chosen, str) and chosen != "sdpa":
                name = _name(path, self.model)
                return (
                    f"{name!r} computes its weights in code of its own (attn_implementation={chosen!r}); "
                    'call model.set_attn_implementation("sdpa") first'
                )
        if self.model not in self.entered:
            return None
        return (
            "what it knows is regard's own, nn.MultiheadAttention, F.scaled_dot_product_attention and PyG's GATConv; "
            "weights that are computed in other ways cannot be seen"
        )


def _name(path: str, model: nn.Module) -> str:
    """The path of a module, or for the model itself the name of its class. torch.compile's wrapper goes unmentioned."""
    known = [part for part in path.split(".") if part not in ("", "_orig_mod")]
    return ".".join(known) or snake(type(getattr(model, "_orig_mod", model)).__name__)


_ASKING = frozenset(str(Path(__file__).with_name(name)) for name in ("attention.py", "edges.py", "tape.py"))
"""The files through which a call comes here, by one way or another if several record."""


def _place() -> frozenset[tuple[CodeType, int]]:
    """Where in the running module's forward an attention is called: equal for each turn of a loop, and different for
    two calls of one helper. A set, because under a second recorder the same calls are passed through twice."""
    frame, place = sys._getframe(1), set()
    while frame is not None and frame.f_code is not nn.Module._call_impl.__code__:
        if frame.f_code.co_filename not in _ASKING:
            place.add((frame.f_code, frame.f_lasti))
        frame = frame.f_back  # type: ignore[assignment]
    return frozenset(place)


def _kind(recipe: Recipe) -> str:
    score = recipe.score.scores[0] if isinstance(recipe.score, PerHead) else recipe.score
    flow = (recipe.window, score, recipe.normalizer, recipe.refiner)
    return ", ".join(snake(type(part).__name__) for part in flow if part is not None)


def _copy(tensor: Tensor) -> Tensor:
    """A tensor of its own: without a graph, not changed by what the model does next, not bound to inference mode."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise RuntimeError("inside vmap or torch.func.grad")
    with torch.inference_mode(False), torch.no_grad():
        return tensor.detach().clone(memory_format=torch.contiguous_format)


def _sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The weights of ``F.scaled_dot_product_attention``, (…, T, S), before dropout. A row without a key is 0."""
    wide = torch.promote_types(query.dtype, torch.float32)
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
    scores = query.to(wide) @ key.to(wide).mT * (1 / sqrt(max(query.shape[-1], 1)) if scale is None else scale)
    allowed = attn_mask
    if is_causal:  # aligned to the beginning, unlike ours
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    elif attn_mask is not None and attn_mask.dtype != torch.bool:
        allowed = ~torch.isneginf(attn_mask)
        scores = scores + attn_mask.masked_fill(~allowed, 0.0)
    return masked_softmax(scores, allowed).to(query.dtype)


_HEADS = inspect.signature(functional.multi_head_attention_forward)


def _multi_head(*args: Any, **kwargs: Any) -> Tensor:
    """The weights of ``F.multi_head_attention_forward``, (B, H, T, S), before dropout. A row without a key is 0."""
    call = _HEADS.bind(*args, **kwargs)
    call.arguments.update(training=False, need_weights=True, average_attn_weights=False)
    weights = functional.multi_head_attention_forward(*call.args, **call.kwargs)[1]
    assert weights is not None
    blocked = torch.zeros((), dtype=torch.bool, device=weights.device)
    padding, mask = call.arguments.get("key_padding_mask"), call.arguments.get("attn_mask")
    if padding is not None:
        padding = padding if padding.dtype == torch.bool else torch.isneginf(padding)
        blocked = blocked | (padding[:, None, None] if padding.ndim == 2 else padding)
    if mask is not None:
        mask = mask if mask.dtype == torch.bool else torch.isneginf(mask)
        blocked = blocked | (mask.unflatten(0, (-1, weights.shape[-3])) if mask.ndim == 3 else mask)
    if blocked.ndim and blocked.shape[-1] == weights.shape[-1]:  # else a bias or zeros are a key for everyone
        weights = weights.masked_fill(blocked.all(dim=-1, keepdim=True), 0.0)
    return weights


def _hidden(*_: Any, **__: Any) -> Tensor:
    raise RuntimeError("a fused kernel of torch that shows no weights")


_SELECTING = (torch.index_select, Tensor.index_select)
_HIDDEN = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd", "flex_attention")
_READERS: dict[Any, Callable[..., Tensor]] = {
    functional.scaled_dot_product_attention: _sdpa,
    functional.multi_head_attention_forward: _multi_head,
}
