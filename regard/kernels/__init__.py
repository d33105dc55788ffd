"""Fast twins of the plain path, and who chooses between them.

========  ==============================================================================================
plain     PyTorch operations as the score's file writes them: any device and dtype, double backward, forward mode, vmap,
          export
chunked   plain operations on slices, recomputed in backward: memory O(B·T·S), any device
fused     torch's SDPA for dot products; numba kernels for the rest, on the CPU and in float32; additive scores,
          windows and edges of half precision are computed in float32 too, and rounded once, at the end
========  ==============================================================================================

The choice is automatic. ``with regard.kernels.use("plain"):`` makes it by hand, for this thread.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard import _lazy
from regard.kernels import additive, chunked, dot, edges, groups, local, location, single, spans
from regard.kernels._once import forward_mode, no_forward_mode
from regard.kernels.deferred import Deferred, pays
from regard.kernels.forms import (
    HALVES,
    AdditiveForm,
    DotForm,
    Featured,
    LeakyForm,
    LocatedForm,
    SplitForm,
    SquareForm,
    TiedForm,
    lift,
    replaced,
    tensors_of,
)
from regard.kernels.spans import Spans
from regard.masks import Mask, both
from regard.normalizers.softmax import Softmax
from regard.parts import Normalizer, Score

Form = DotForm | AdditiveForm | LocatedForm | SquareForm
_Any = TypeVar("_Any", bound=DotForm | AdditiveForm | LocatedForm | SquareForm | SplitForm | TiedForm | Featured)
CHOICES = ("plain", "chunked", "fused")
_LARGE = 2**26
"""Bytes of a (…, T, S, D) temporary from which a chunked pass pays."""


class _Choice(threading.local):
    def __init__(self) -> None:
        self.name = "auto"  # not in the class, where torch.compile of torch 2.6 would read it for ever


_choice = _Choice()


@contextmanager
def use(name: str) -> Iterator[None]:
    """Run every attention of this thread by one kind of kernel; where it has none for a score, by the plain path."""
    if name not in CHOICES:
        raise ValueError(f"no kind of kernel is called {name!r}: {_lazy.nearest(name, CHOICES)}")
    before, _choice.name = _choice.name, name
    try:
        yield
    finally:
        _choice.name = before


def chosen(name: str) -> bool:
    """Is this the kind of kernel that was chosen by hand?"""
    return _choice.name == name


def lower(score: Score, query: Tensor, key: Tensor, keywords: dict[str, Any]) -> Form | None:
    """The score in the words of the kernels, or None where the plain path is to be taken."""
    form = None if _choice.name == "plain" else score.form(query, key, **keywords)
    return None if isinstance(form, (LeakyForm, SplitForm)) else form  # those have kernels for edges alone


def lower_edges(
    score: Score, query: Tensor, key: Tensor, value: Tensor, featured: Featured | None = None
) -> DotForm | LeakyForm | SplitForm | None:
    """The score in the words of the kernels for edges, in float32, or None where the plain path is to be taken.

    query (H, N_t, D) and projected key (H, N_s, D') are seen as queries and keys of H heads.
    """
    form = score.form(query, key) if _choice.name in ("auto", "fused") else None
    if not isinstance(form, (DotForm, LeakyForm, SplitForm)):
        return None
    if featured is not None and (form.key is not key or (isinstance(form, DotForm) and form.bias is not None)):
        return None  # what else it knows of a key knows nothing of the features
    return _lift(form) if _fits_numba(form.query, form.key, value, *_feature_tensors(featured), halves=True) else None


def lower_tied(score: Score, rows: Tensor, featured: Featured | None = None) -> TiedForm | None:
    """:func:`lower_edges` where query, key and value are the same rows, (N, H, D)."""
    form = score.tied(rows) if _choice.name in ("auto", "fused") else None
    if form is None or not _fits_numba(rows, form.weight, *_feature_tensors(featured), halves=True):
        return None
    return _lift(form)


def lower_features(featured: Featured | None) -> Featured | None:
    """Features in float32, as the forms that go with them."""
    return None if featured is None else _lift(featured)


def _feature_tensors(featured: Featured | None) -> tuple[Tensor, ...]:
    return () if featured is None else tuple(tensors_of(featured).values())


def head_dot(rows: Tensor, weight: Tensor) -> Tensor:
    """rows·weight, (…, S, D) → (…, S, 1), for weight (D,), or (H, D) and rows (…, H, S, D)."""
    nodes = rows.transpose(0, 1) if rows.ndim == 3 and weight.ndim == 2 else rows  # the rows of nodes, seen as heads
    fits = nodes is not rows and nodes.is_contiguous() and rows.shape[-1] % edges.LANES == 0
    if fits and _choice.name in ("auto", "fused") and _fits_numba(rows, weight):
        return edges.head_dot(nodes, weight).T.unsqueeze(-1)
    return rows @ weight.unsqueeze(-1)


def sparse_product(sparse: Tensor, matrix: Tensor) -> Tensor:
    """sparse (N, K), in CSR, times (K, M). Without gradients."""
    fits = _choice.name in ("auto", "fused") and matrix.shape[1] % edges.LANES == 0 and edges.short(*sparse.shape)
    if fits and edges.short(sparse.values().shape[0]) and _fits_numba(sparse.values(), matrix):
        return edges.sparse_product(sparse.crow_indices(), sparse.col_indices(), sparse.values(), matrix)
    return sparse @ matrix


def narrowed(weights: Tensor, dtype: torch.dtype) -> Tensor:
    """Weights in the precision of the values, ``dtype``, where the scores had a better one."""
    return weights.to(dtype) if torch.promote_types(weights.dtype, dtype) != dtype else weights


def keep(form: _Any) -> _Any:
    """The form with copies of whatever an optimizer could change in place."""
    copies: dict[str, Any] = {}
    for name, tensor in tensors_of(form).items():
        copied = _copied(tensor)
        if copied is not tensor:
            copies[name] = copied
    return replaced(form, **copies) if copies else form


def scores(form: Form, keys: Deferred | None = None) -> Tensor:
    """(…, T, S) by the best kernel for the form; ``keys`` are its keys, where their gradient is made later."""
    if isinstance(form, DotForm):
        return form.scores(keys)
    if isinstance(form, LocatedForm):
        if form.last.numel() and form.query.numel() and _additive_kind(form) == "fused":
            return _located_scores(form)
        form = form.joined()
    if not isinstance(form, AdditiveForm):
        return form.scores()
    if _fits_single(form, form.key):
        return single.scores(form)
    kind, dtype = _additive_kind(form), form.query.dtype
    if kind == "plain":
        return form.scores()
    if forward_mode():
        no_forward_mode()
    form = _lift(form) if kind == "fused" else form
    kernel = additive.additive_scores if kind == "fused" else chunked.additive_scores_chunked
    leading, heads = form.query.shape[:-2], form.weight.reshape(-1, form.weight.shape[-1])
    return _unfold(kernel(_fold(form.query), _fold(form.key), heads), leading).to(dtype)


def _located_scores(form: LocatedForm) -> Tensor:
    if forward_mode():
        no_forward_mode()
    leading, dtype = form.query.shape[:-2], form.query.dtype
    form = _lift(form)
    tensors = _fold(form.query), _fold(form.key), form.weight, _fold(form.last, 1), form.filters, form.mix
    kernel = location.scores if bare(*tensors) else location.location_scores
    return _unfold(kernel(*tensors), leading).to(dtype)


def softmax_sum(
    form: Form | None, normalizer: Normalizer, value: Tensor, allowed: Tensor | None, causal: bool, group: int = 1
) -> Tensor | None:
    """softmax(scores) @ value without writing the weights down, (…, T, E); None where it cannot be or does not pay.
    ``group`` is as in :func:`dot.softmax_sum`."""
    if not isinstance(form, DotForm) or type(normalizer) is not Softmax or _choice.name == "chunked":
        return None
    fits = dot.fits(form, value, allowed, forced=_choice.name == "fused")
    fits = fits and (form.bias is None or (form.query.dtype == value.dtype and not form.cast))
    if form.bias is not None and (form.bias.requires_grad or not fits):  # SDPA has no gradient for a bias
        weights = normalizer(groups.unfold(replaced(form, norm=None).scores(), group), allowed)
        return groups.unfold(groups.fold(narrowed(weights, value.dtype), group) @ value, group)
    if not fits:
        return None
    return dot.softmax_sum(form, value, allowed, causal, normalizer.temperature, group)


def defers(rows: Tensor) -> bool:
    """Are the gradients of keys or values that many queries look at, one after the other, better made at once?"""
    return _choice.name in ("auto", "fused") and pays(rows)


def spans_of(mask: Mask, shape: tuple[int, ...], query: Tensor) -> Spans | None:
    """The stretches of keys that the queries of scores of this shape, (…, T, S), see, if there is a kernel that then
    reads only these, and if it pays."""
    if _choice.name not in ("auto", "fused") or len(shape) > 4 or 0 in shape or shape[-2] == 1 or not _readable(query):
        return None
    first: Tensor | None = None
    stop: Tensor | None = None
    rest: Mask | None = None
    for part in mask.conjuncts():
        span = part.span(shape, query.device)
        if span is None:
            rest = both(rest, part)
        else:
            first = span[0] if first is None else torch.maximum(first, span[0])
            stop = span[1] if stop is None else torch.minimum(stop, span[1])
    if first is None or stop is None:
        return None
    first, stop = (end.expand(*end.shape[:-1], shape[-2]).reshape(-1, shape[-2]) for end in (first, stop))
    items, heads = math.prod(shape[:-2][:1]), math.prod(shape[:-2][1:])
    allowed = None if rest is None else dot.four(rest.tensor(shape, query.device))
    visible = Spans.of(first, stop, items, allowed)
    return visible if _choice.name == "fused" or visible.pay(math.prod(shape), heads) else None


def span_sum(
    form: Form | None, normalizer: Normalizer, value: Tensor, stretches: Spans, group: int = 1
) -> Tensor | None:
    """:func:`softmax_sum` over a stretch of keys for each query; None where it cannot be."""
    if not isinstance(form, DotForm) or form.bias is not None or type(normalizer) is not Softmax:
        return None
    if not form.query.dtype == form.key.dtype == value.dtype or form.key.shape[-1] != value.shape[-1]:
        return None
    leading = groups.unfold(form.query, group).shape[:-2]
    query, key, rows = dot.four(groups.unfold(form.query, group)), dot.four(form.key), dot.four(value)
    context = spans.attend(query, key, rows, stretches, form.scale / normalizer.temperature)
    return context.reshape(*leading, *context.shape[-2:])


def blocks_pay(width: int, keys: int) -> bool:
    """Is it worth while to cut queries into blocks, each of which sees ``width`` of the keys?"""
    return _choice.name == "chunked" or 2 * width <= keys


def single_query(
    form: Form | None,
    normalizer: Normalizer,
    value: Tensor,
    allowed: Tensor | None,
    place: Tensor | None = None,
    group: int = 1,
) -> tuple[Tensor, Tensor] | None:
    """softmax(scores) @ value, (…, 1, E), and the scores, (…, 1, S), of T = 1; None where it cannot be. ``place`` and
    ``group`` are as in :func:`single.look`."""
    if form is None or isinstance(form, LocatedForm) or type(normalizer) is not Softmax or not value.numel():
        return None
    if not _fits_single(form, value, group):
        return None
    if place is not None and not place.numel():
        return None
    return single.look(form, value, allowed, normalizer.temperature, place, group)


def _fits_single(form: single.Form, value: Tensor, group: int = 1) -> bool:
    """Is this a single query, in words and at a place that its kernel knows?"""
    query, key = form.query, form.key
    if query.shape[-2] != group or query.ndim > 4 or not query.numel() or not key.numel():
        return False
    tensors = [query, key, value]
    if isinstance(form, DotForm):
        supported = form.bias is None and form.norm is None
    elif isinstance(form, AdditiveForm):
        tensors.append(form.weight)
        supported = form.weight.ndim == 1 or query.ndim == 4
    else:
        supported = isinstance(form.scale, float) or not form.scale.requires_grad
    return supported and bare(*tensors)


def local_scores(form: Form, first: Tensor, width: int) -> Tensor:
    """(…, T, W): the scores of the ``width`` keys from ``first`` (…, T) on; meaningless where no such key is."""
    assert not isinstance(form, LocatedForm), "a score of places is asked for those of the window"
    leading, dtype = form.query.shape[:-2], form.query.dtype
    if isinstance(form, SquareForm) or not _fits_numba(form.query, form.key, halves=True):
        rowwise = replaced(
            form, query=form.query.unsqueeze(-2), key=rows(form.key, first, width), **_rowwise(form, first, width)
        )
        return rowwise.scores().squeeze(-2)
    form = _lift(form)
    query, key, first = _fold(form.query), _fold(form.key), _fold(first, 1)
    if isinstance(form, AdditiveForm):
        heads = form.weight.reshape(-1, form.weight.shape[-1])
        return _unfold(local.local_additive(query, key, heads, first, width), leading).to(dtype)
    scores = _unfold(local.local_dot(query, key, first, width), leading)
    if form.scale != 1.0:
        scores = scores * form.scale
    bias, shift = _rowwise(form, _unfold(first, leading), width)["bias"], form.shift
    scores = scores if bias is None else scores + bias.squeeze(-2)
    return (scores if shift is None else scores + shift).to(dtype)


def local_sum(weights: Tensor, value: Tensor, first: Tensor) -> Tensor:
    """(…, T, E): weights (…, T, W) times the values from ``first`` (…, T) on."""
    if _fits_numba(weights, value, halves=True):
        context = local.local_sum(_fold(weights.float()), _fold(value.float()), _fold(first, 1))
        return _unfold(context, value.shape[:-2]).to(value.dtype)
    return (weights.unsqueeze(-2) @ rows(value, first, weights.shape[-1])).squeeze(-2)


def rows(keys: Tensor, first: Tensor, width: int) -> Tensor:
    """(…, T, W, D): the rows from ``first`` on, copied; a row that does not exist repeats the nearest."""
    places = first.unsqueeze(-1) + torch.arange(width, device=keys.device)  # (…, T, W)
    index = places.clamp(0, keys.shape[-2] - 1).flatten(-2).unsqueeze(-1)
    gathered = keys.gather(-2, index.expand(*index.shape[:-1], keys.shape[-1]))
    return gathered.unflatten(-2, places.shape[-2:])


def _rowwise(form: single.Form, first: Tensor, width: int) -> dict[str, Any]:
    """The rest of a form when each query has keys of its own, as if it were a batch item."""
    if isinstance(form, AdditiveForm):
        return {"weight": form.weight if form.weight.ndim == 1 else form.weight.unsqueeze(-2)}
    if isinstance(form, SquareForm):
        return {}
    return {"bias": None if form.bias is None else rows(form.bias.mT, first, width).mT}


def _additive_kind(form: AdditiveForm | LocatedForm) -> str:
    if _fits_numba(*tensors_of(form).values(), halves=True):
        return "chunked" if _choice.name == "chunked" else "fused"
    if _choice.name == "chunked":
        return "chunked"
    full = form.query.numel() * form.key.shape[-2] * form.query.element_size()
    return "chunked" if full > _LARGE and not _transformed(form.query, form.key) else "plain"


def _fits_numba(*tensors: Tensor, halves: bool = False) -> bool:
    """Can the compiled loops take these? With ``halves``, also what is to be lifted to float32 first."""
    dtypes = (torch.float32, *HALVES) if halves else (torch.float32,)
    fits = all(t.device.type == "cpu" and t.dtype in dtypes for t in tensors)
    if _choice.name == "fused":
        if not fits:
            kinds = ", ".join(sorted({f"{t.dtype} on {t.device.type}" for t in tensors}))
            raise ValueError(
                f'regard.kernels.use("fused") is for float32{" and halves" if halves else ""} on the CPU, not {kinds}; '
                'use "plain" or "chunked"'
            )
        if forward_mode():
            no_forward_mode()
        return True
    return fits and _choice.name == "auto" and not _transformed(*tensors)


def _lift(form: _Any) -> _Any:
    """The form in float32. Copies of (T + S)·D numbers cost little beside the T·S·D of a score."""
    halves = {name: lift(tensor) for name, tensor in tensors_of(form).items() if tensor.dtype in HALVES}
    return replaced(form, **halves) if halves else form


def bare(*tensors: Tensor, cast: bool = True) -> bool:
    """May a compiled loop read these past torch's dispatcher, which takes its time? They must be float32 on the CPU and
    nobody may differentiate, transform, trace or cast what goes through it, or have chosen another kind of kernel. What
    is no product, autocast would not ``cast``."""
    if _choice.name not in ("auto", "fused"):
        return False
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return False
    if cast and torch.is_autocast_enabled("cpu"):
        return False
    learning = torch.is_grad_enabled()
    for tensor in tensors:
        if not tensor.is_cpu or tensor.dtype != torch.float32 or (learning and tensor.requires_grad):
            return False
    return torch._C._functorch.maybe_current_level() is None and not forward_mode()


def _readable(tensor: Tensor) -> bool:
    """May numbers decide what is done, and is it done by kernels that nobody transforms or traces?"""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or not tensor.is_cpu:
        return False
    return torch._C._functorch.maybe_current_level() is None and not forward_mode()


def _transformed(*tensors: Tensor) -> bool:
    """Is a tensor seen through vmap or torch.func.grad, or has it a tangent, of which custom kernels know nothing?"""
    if torch.compiler.is_compiling():
        return False
    return forward_mode() or any(torch._C._functorch.is_functorch_wrapped_tensor(t) for t in tensors)


def _fold(tensor: Tensor, keep: int = 2) -> Tensor:
    """All leading dimensions as one."""
    leading, rest = tensor.shape[: tensor.ndim - keep], tensor.shape[tensor.ndim - keep :]
    return tensor if len(leading) == 1 else tensor.reshape(math.prod(leading), *rest)


def _unfold(tensor: Tensor, leading: torch.Size) -> Tensor:
    return tensor.reshape(*leading, *tensor.shape[1:])


def _copied(tensor: Tensor) -> Tensor:
    if torch.compiler.is_compiling():
        return tensor.clone()  # dead code, unless someone reads the weights
    base = tensor._base if tensor._is_view() and tensor._base is not None else tensor
    return tensor.clone() if base.is_leaf and base.requires_grad else tensor
