"""What is kept of the attentions that were seen: one call (:class:`Look`), all calls of one attention (:class:`Entry`),
all attentions of a model (:class:`Tape`)."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import pad

from regard._files import whole
from regard._lazy import nearest
from regard.tape.later import Later

VERSION = 1
"""Of the file format that :meth:`Tape.save` writes."""


class Look:
    """One call of an attention.

    Attributes:
        weights: (…, T, S), before dropout, detached, on the device they were computed on. Along edges: (E, H). Where
            the model did not need them and query and key are smaller, they are computed when first read.
        shape: of the weights.
        log_prob: (…, T) where a sampling normalizer drew, else None.
        kind: the parts by name, e.g. ``"additive, softmax"``.
        edges: (2, E), source and target of each row of the weights, where the keys were those of a graph; else None.
        order: how often the rows of the batch had been reordered before, as a beam search does.
        start: the place of the first key: above 0 where a cache of limited length had dropped earlier ones.
    """

    def __init__(
        self,
        weights: Tensor | Later,
        log_prob: Tensor | None = None,
        kind: str = "",
        edges: Tensor | None = None,
        order: int = 0,
        start: int = 0,
    ):
        self._weights = weights
        self.log_prob, self.kind, self.edges, self.order, self.start = log_prob, kind, edges, order, start

    @property
    def weights(self) -> Tensor:
        if isinstance(self._weights, Later):
            with torch.inference_mode(False), torch.no_grad():
                self._weights = self._weights.weights()
        return self._weights

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._weights.shape)

    def item(self) -> None:
        """Drop the dimension of a batch of one."""
        self._weights = self._weights.item() if isinstance(self._weights, Later) else self._weights[0]
        self.log_prob = None if self.log_prob is None else self.log_prob[0]

    def last(self, count: int) -> None:
        """Keep only the last ``count`` queries, and no memory for the others."""
        if isinstance(self._weights, Later):
            self._weights = self._weights.last(count).own()
        else:
            self._weights = self._weights[..., -count:, :].clone()
        self.log_prob = None if self.log_prob is None else self.log_prob[..., -count:].clone()

    def __repr__(self) -> str:
        return f"Look({self.shape}, kind={self.kind!r})"


@dataclass(eq=False)
class Entry:
    """All calls of one attention, in their order, and the tokens at its axes.

    Attributes:
        name: where in the model.
        calls: each with its weights.
        rows: the queries by name.
        columns: the keys by name.
        heads: which heads were kept, if not all.
    """

    name: str
    calls: list[Look] = field(default_factory=list)
    rows: list[str] | None = None
    columns: list[str] | None = None
    heads: list[int] | None = None

    @property
    def weights(self) -> Tensor:
        """The weights of the only call, or those of a decoder joined along T.

        Calls are joined if each has one query (the first may have more: a prompt) and their keys stay or grow, as in
        a cache; weights of keys that were not there yet, or not any more, are 0. Not where the batch was reordered
        between calls, as a beam search does: a row would then belong to several hypotheses.
        """
        if len(self.calls) == 1:
            return self.calls[0].weights
        length = self.shape[-1]
        padded = [pad(look.weights, (look.start, length - look.start - look.shape[-1])) for look in self.calls]
        return torch.cat(padded, dim=-2)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of ``weights``."""
        first, *later_shapes = (look.shape for look in self.calls)
        if not later_shapes:
            return first
        ends = [look.start + look.shape[-1] for look in self.calls]
        steps = all(shape[:-1] == (*first[:-2], 1) for shape in later_shapes) and self.calls[0].edges is None
        if not steps or ends != sorted(ends):
            raise ValueError(
                f"{self.name!r} was called {len(self.calls)} times, with weights {self._shapes()}, and only the steps "
                "of a decoder (one query each, the same batch, keys that stay or grow) can be joined: read .calls"
            )
        if len({look.order for look in self.calls}) > 1:
            raise ValueError(
                f"the batch was reordered between the {len(self.calls)} calls of {self.name!r}, as a beam search does: "
                "a row of the joined weights would belong to no hypothesis; read .calls, or search with one beam"
            )
        return (*first[:-2], first[-2] + len(later_shapes), ends[-1])

    def keep_last(self, count: int) -> None:
        """Forget all queries but the last ``count``."""
        rows = sum(look.shape[-2] for look in self.calls)
        while rows - self.calls[0].shape[-2] >= count:
            rows -= self.calls.pop(0).shape[-2]
        if rows > count:
            self.calls[0].last(self.calls[0].shape[-2] - (rows - count))

    def _shapes(self) -> str:
        shapes = list(dict.fromkeys(str(look.shape) for look in self.calls))
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

    @property
    def attentions(self) -> tuple[Tensor, ...]:
        """One tensor (B, H, T, S) for each layer, in the order in which they ran: what Hugging Face's models return as
        ``attentions``, and what BertViz and inseq read. H = 1 where there are no heads.

        Of a model with several stacks of layers it is the self-attention of the one that ran last: the decoder of an
        encoder-decoder, the language model behind a vision tower. The others are in ``encoder_attentions``,
        ``decoder_attentions`` and ``cross_attentions``, or by name. Steps of a decoder are joined along T.
        """
        if not self._entries:
            raise ValueError("this tape is empty: no attention was seen")
        alone = [name for name in self if not self._is_cross(name)] or self.names()
        last = _stack(alone[-1])
        return tuple(_with_heads(self[name]) for name in alone if _stack(name) == last)

    @property
    def encoder_attentions(self) -> tuple[Tensor, ...]:
        """Self-attention of the encoder, one (B, H, S, S) for each layer."""
        return self._side("encoder")

    @property
    def decoder_attentions(self) -> tuple[Tensor, ...]:
        """Self-attention of the decoder, one (B, H, T, T) for each layer."""
        return self._side("decoder")

    @property
    def cross_attentions(self) -> tuple[Tensor, ...]:
        """Attention of the decoder to the encoder, one (B, H, T, S) for each layer."""
        return tuple(_with_heads(self[name]) for name in self if self._is_cross(name))

    def _side(self, side: str) -> tuple[Tensor, ...]:
        return tuple(_with_heads(self[name]) for name in self if _side(name) == side and not self._is_cross(name))

    def _is_cross(self, name: str) -> bool:
        """Does a decoder look at an encoder here? Told by the names in use; torch's decoder layers have two attentions,
        of which ``multihead_attn`` is that one."""
        parent, _, last = name.rpartition(".")
        if last == "multihead_attn":
            return f"{parent}.self_attn".lstrip(".") in self._entries or _side(name) == "decoder"
        return any(_CROSS.search(part) for part in name.split(".")[-2:])

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
            lists = {f"{name}s": [getattr(look, name) for look in entry.calls] for name in ("kind", "order", "start")}
            axes = {"rows": entry.rows, "columns": entry.columns, "heads": entry.heads}
            entries.append({"name": entry.name, **lists, **axes})
        metadata = {
            "format": "regard.tape",
            "version": str(VERSION),
            "entries": json.dumps(entries, ensure_ascii=False),
        }
        with whole(path) as unfinished:
            unfinished.touch()
            mode = unfinished.stat().st_mode  # safetensors would leave a file that only its owner can read
            save_file(tensors, unfinished, metadata=metadata)
            unfinished.chmod(mode)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tape:
        """Read a tape that :meth:`save` wrote; tensors come to the CPU."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  # no mapping
        except SafetensorError as error:
            raise ValueError(f"{path} is no tape: not a whole safetensors file ({error})") from error
        if metadata.get("format") != "regard.tape":
            raise ValueError(f"{path} is no tape: a safetensors file, but not one that Tape.save wrote")
        if metadata.get("version") != str(VERSION):
            raise ValueError(
                f"{path} is a tape of version {metadata.get('version')}; this regard reads version {VERSION}"
            )
        tape = cls()
        try:
            for index, saved in enumerate(json.loads(metadata["entries"])):
                entry = Entry(saved["name"], [], saved["rows"], saved["columns"], saved.get("heads"))
                zeros = [0] * len(saved["kinds"])
                orders, starts = saved.get("orders", zeros), saved.get("starts", zeros)
                for call, (kind, order, start) in enumerate(zip(saved["kinds"], orders, starts, strict=True)):
                    key = f"{index}.{call}."
                    fields = tensors.get(key + "log_prob"), kind, tensors.get(key + "edges"), int(order), int(start)
                    entry.calls.append(Look(tensors[key + "weights"], *fields))
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


_CROSS = re.compile(r"cross|enc_?dec|encoder_att|src_att|context_att", re.IGNORECASE)


def _stack(name: str) -> str:
    """What the layers of one stack have in common: ``decoder.layers.*.self_attn``."""
    return ".".join("*" if part.isdecimal() else part for part in name.split("."))


def _side(name: str) -> str:
    """``"encoder"``, ``"decoder"`` or nothing, by the path; a decoder may be inside something called an encoder."""
    parts = [part.lower() for part in name.split(".")]
    for side in ("decoder", "encoder"):
        if any(part.endswith(side) for part in parts):
            return side
    return ""


def _with_heads(entry: Entry) -> Tensor:
    """(B, H, T, S)."""
    weights = entry.weights
    if entry.calls[0].edges is not None or not 2 <= weights.ndim <= 4:
        raise ValueError(
            f"{entry.name!r} has weights {tuple(weights.shape)}, which are not one for each item, head, query and key: "
            "read .calls"
        )
    return weights if weights.ndim == 4 else weights.unsqueeze(-3) if weights.ndim == 3 else weights[None, None]
