"""Put the weights of every attention on a tape: :func:`record`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from regard._lazy import nearest
from regard.tape.entries import Entry, Look, Tape
from regard.tape.later import Later
from regard.tape.seen import Seen
from regard.tape.slabs import copied, leave
from regard.tape.watch import Site, Watcher


@contextmanager
def record(
    model: nn.Module,
    *,
    only: str | Sequence[str] | None = None,
    heads: int | Sequence[int] | None = None,
    last: int | None = None,
) -> Iterator[Tape]:
    """Put the weights of every attention that ``model`` computes, in this thread and until the block ends, on a tape.

    Args:
        model: any module; it computes what it always does. Only torch's fused inference path of ``nn.Transformer…``,
            which shows no weights, is left for the plain one; at padded queries that one writes zeros, this one not.
        only: keep only attentions whose name fits one of these patterns, e.g. ``"decoder.*"``.
        heads: keep only these heads, numbered from 0. An attention without heads is kept whole.
        last: keep only the weights of the last queries of each attention, as many as this says; so that the memory
            stays the same while a model generates a long text.

    Names are module paths: ``"decoder.layers.0.cross"``. If the model itself is the attention, its name is that of
    the class: ``"attention"``, ``"multi_head"``. :func:`regard.attend`, torch's functions and attention that is written
    out go by the innermost running module; where it calls them at several places, the second is ``"block#2"``, and so
    on. A place that is passed more than once, like a module that runs more than once, adds to ``.calls``. What is
    recomputed in backward is not a call.

    Weights are detached copies on their device; taking them draws no random numbers and leaves the model's graph
    alone. Where the model itself never computes them (``F.scaled_dot_product_attention``) query and key are copied
    instead if they are smaller, and weights computed when they are read. An attention that cannot be seen, because it
    is compiled for instance, is named in a warning at the end; so is the likely reason if the tape is empty.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"record takes an nn.Module, not {type(model).__name__}")
    if last is not None and last < 1:
        raise ValueError(f"last= is a number of queries, at least 1, not {last}")
    chosen = [heads] if isinstance(heads, int) else None if heads is None else list(heads)
    tape = Tape()
    recorder = _Recorder(model, tape, [only] if isinstance(only, str) else only, chosen, last)
    recorder.start()
    try:
        yield tape
    finally:
        recorder.stop()
        leave()
    unseen = [f"{name!r} ({reason})" for name, reason in recorder.unseen().items() if recorder.wants(name)]
    if unseen:
        warnings.warn("regard.record could not see into " + "; ".join(unseen), stacklevel=3)
    elif not tape and (why := recorder.nothing()):
        warnings.warn(f"regard.record saw no attention: {why}", stacklevel=3)


class _Recorder(Watcher):
    def __init__(
        self, model: nn.Module, tape: Tape, patterns: Sequence[str] | None, heads: list[int] | None, last: int | None
    ):
        super().__init__(model)
        self.tape, self.patterns, self.heads, self.last = tape, patterns, heads, last
        self.order = 0  # how often the rows of the batch were reordered
        self.batch: int | None = None  # how many rows the last weights had
        self.queries: dict[str, int] = {}  # how many there were since the prompt

    def wants(self, name: str) -> bool:
        return self.patterns is None or any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def keep(self, site: Site, seen: Seen) -> None:
        if not self.wants(site.name):
            return
        try:
            weights = seen.weights()
            chosen = self._chosen(site.name, weights, seen.index is not None)
            with torch.no_grad(), torch._C.DisableTorchFunction():
                look = Look(self._part(weights, chosen, seen.index is not None), kind=seen.kind, order=self.order)
                if seen.log_prob is not None:
                    look.log_prob = copied(seen.log_prob)
                    if self.last is not None:
                        look.log_prob = look.log_prob[..., -self.last :]
                look.edges = None if seen.index is None else copied(seen.index)
        except RuntimeError as error:  # a recording that fails must not make the model fail
            self.reasons[site.name] = str(error).split("\n")[0]
            return
        self.batch = weights.shape[0]
        entry = self.tape._entries.setdefault(site.name, Entry(site.name, heads=chosen))
        if look.edges is None:
            count, keys = weights.shape[-2:]
            queries = self.queries[site.name] = count + (self.queries.get(site.name, 0) if count != keys else 0)
            if _sliding(site.module):
                look.start = max(queries - keys, 0)
        site.run.looks.append(look)
        entry.calls.append(look)
        if self.last is not None and look.edges is None:
            entry.keep_last(self.last)

    def refuse(self, site: Site, reason: str) -> None:
        self.reasons[site.name] = reason

    def reordered(self, input: Tensor, dim: int, index: Tensor) -> None:
        """Are these the rows of the batch, such as a cache, in another order?"""
        if dim != 0 or input.ndim < 2 or input.shape[0] != self.batch or index.ndim != 1:
            return
        with torch._C.DisableTorchFunction():
            self.order += not torch.equal(index, torch.arange(input.shape[0], device=index.device))

    def _chosen(self, name: str, weights: Tensor | Later, along_edges: bool) -> list[int] | None:
        """Which heads are kept, if not all."""
        rank = len(weights.shape)
        if self.heads is None or not (along_edges or rank >= 4):
            return None
        count = weights.shape[1 if along_edges else -3]
        outside = [head for head in self.heads if not -count <= head < count]
        if outside:
            raise ValueError(f"heads={self.heads}, but {name!r} has {count}, numbered from 0")
        return [head % count for head in self.heads]

    def _part(self, weights: Tensor | Later, chosen: list[int] | None, along_edges: bool) -> Tensor | Later:
        """A copy of what is to be kept."""
        if isinstance(weights, Later):
            weights = weights if self.last is None else weights.last(self.last)
            if chosen is not None:
                weights = weights.heads(torch.tensor(chosen, device=weights.query.device))
            return weights.own() if weights.pays else copied(weights.weights())
        if self.last is not None and not along_edges:
            weights = weights[..., -self.last :, :]
        if chosen is not None:
            index = torch.tensor(chosen, device=weights.device)
            weights = weights.index_select(1 if along_edges else -3, index)
        return copied(weights).contiguous()

    def nothing(self) -> str | None:
        """Why the tape is empty; None if the model did not run as a whole, and so need not have looked."""
        if self.places:
            return f"no name fits only={list(self.patterns or ())}; {nearest('', self.places)}"
        if not self.entered:
            return "no module of this model ran inside the block, in the thread that opened it"
        if self.model not in self.entered:
            return None
        return (
            "what it knows is regard's own, nn.MultiheadAttention, F.scaled_dot_product_attention, a softmax that "
            "multiplies values, and PyG's GATConv; weights that are computed in other ways cannot be seen"
        )


def _sliding(module: nn.Module) -> bool:
    """Does its cache drop keys that have left a window, as Hugging Face's do?"""
    settings = getattr(module, "config", None)
    return isinstance(getattr(module, "sliding_window", getattr(settings, "sliding_window", None)), int)
