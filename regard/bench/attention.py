"""``regard bench attention``: every kind of score against the best plain PyTorch and torch's own attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import dropout, normalize, scaled_dot_product_attention

import regard
from regard import kernels, masks, spoiled
from regard.bench.measure import Case, Row, exponent, report
from regard.kernels.forms import AdditiveForm
from regard.masks import lengths
from regard.parts import Score, Window
from regard.scores import Additive, Cosine, Dot, Gaussian, General, MLPDot, ScaledDot
from regard.windows import LocalMonotonic, LocalPredictive

WINDOW, GROWTH = 128, "sliding window, growth"


def run(json_file: Path | None = None, compile: bool = False, quick: bool = False, only: str = "") -> list[Row]:
    """Measure the rows whose name holds ``only``, print the table, and write it as JSON if asked."""

    def cases() -> Iterator[Callable[[], Case]]:
        return map(partial(partial, _compiled), _cases()) if compile else _cases()

    rows = report(
        cases, threads=(1,) if quick else (1, 2), seconds=0.1 if quick else 0.5, only=only, json_file=json_file
    )
    for line in slopes(rows):
        print(line)
    return rows


def slopes(rows: list[Row]) -> Iterator[str]:
    """How time grows with the length of a sequence of which each query sees a window."""
    for threads in sorted({row.threads for row in rows}):
        times = [
            (int(row.work.split("T=")[1].split(",")[0]), row.milliseconds["ours"])
            for row in rows
            if row.threads == threads and row.work.startswith(GROWTH) and row.which == "forward+backward"
        ]
        if len(times) > 1:
            yield f"\n{GROWTH}, {threads} threads: time ∝ T^{exponent(times):.2f} (target: at most 1.1)"


def _compiled(make: Callable[[], Case]) -> Case:
    """A case with one more contender, the eager one under ``torch.compile``."""
    case = make()
    torch._dynamo.reset()  # or it gives up after eight cases
    if "eager" in case.contenders:
        case.contenders["compile"] = torch.compile(case.contenders["eager"], dynamic=False)
    return case


def _cases() -> Iterator[Callable[[], Case]]:
    """Cases are built one by one, so that only one's tensors are in memory."""
    yield partial(_additive_kernel, 32, 30, 30, 512, "≥ 10× eager, ≥ 15× forward; memory ≤ 1/20")
    yield partial(_additive_kernel, 4, 512, 512, 256, "≥ 8× eager; memory ≤ 1/20")
    yield partial(_additive_kernel, 80, 1, 50, 512, "≥ 10× eager, forward")
    yield partial(_additive_kernel, 32, 30, 30, 512, "", torch.bfloat16)
    yield partial(_additive_kernel, 4, 512, 512, 256, "", torch.bfloat16)
    yield partial(_additive_module, 32, 30, 512)
    yield _additive_step
    for name in ("dot", "scaled_dot", "general", "mlp_dot", "cosine", "gaussian"):
        yield partial(_dot, name, "B=8 T=S=512 D=64", (8,), 512, 512, 64, 64)
        yield partial(_dot, name, "padded, B=8 T=S=512 D=64", (8,), 512, 512, 64, 64, padded=True)
        yield partial(_dot, name, "8 heads of 64, padded, B=8 T=S=128", (8, 8), 128, 128, 64, 64, padded=True)
        yield partial(_dot, name, "T=1, 8 heads of 64, cache of S=100, B=80", (80, 8), 1, 100, 64, 64)
        yield partial(_dot, name, "E≠D, B=8 T=S=512 D=64 E=128", (8,), 512, 512, 64, 128)
        yield partial(_dot, name, "dropout 0.1, B=8 T=S=512 D=64", (8,), 512, 512, 64, 64, drop=0.1)
    for length in (96, 256, 512):
        yield partial(_causal_bfloat16, length)
    for name in ("additive", "general"):
        for window in ("local-m", "local-p"):
            for length in (1024, 8192):
                yield partial(_window, name, window, length)
    yield partial(_sliding, 4096, True, "≥ 6× sdpa; memory O(T·W)")
    yield partial(_sliding, 4096, False, "≥ 6× sdpa; memory O(T·W)")
    for length in (1024, 4096, 16384):
        yield partial(_sliding, length, True, grows=True)
    yield _grouped
    for heads, length in ((8, 128), (8, 512)):
        yield partial(_checked, heads, length)
    yield _weights


def _additive_kernel(
    batch: int, queries: int, keys: int, width: int, target: str, dtype: torch.dtype = torch.float32
) -> Case:
    """Scores of projected queries and keys, nothing else."""
    query = torch.randn(batch, queries, width, dtype=dtype, requires_grad=True)
    key = torch.randn(batch, keys, width, dtype=dtype, requires_grad=True)
    v = torch.randn(width, dtype=dtype, requires_grad=True)
    contenders = {
        "ours": lambda: kernels.scores(AdditiveForm(query, key, v)),
        "eager": lambda: torch.tanh(query[:, :, None] + key[:, None]) @ v,
    }
    half = dtype == torch.bfloat16
    work = f"additive kernel{', bfloat16' if half else ''}, B={batch} T={queries} S={keys} D={width}"
    return Case(work, contenders, [query, key, v], target, tolerance=0.5 if half else 1e-3)


def _additive_module(batch: int, length: int, width: int) -> Case:
    """The whole module: projections, scores, mask, softmax, sum."""
    score = Additive(width, width, width)
    attention = regard.Attention(score)
    query, key = (torch.randn(batch, length, width, requires_grad=True) for _ in range(2))
    mask = lengths(torch.full((batch,), length - 2))
    allowed = mask.tensor((batch, length, length))
    w_query, w_key = score.joint.weight.detach().split(width, dim=1)
    w_query, w_key, v = (t.clone().requires_grad_() for t in (w_query, w_key, score.v.detach()))

    def eager() -> Tensor:
        scores = torch.tanh((query @ w_query.T)[:, :, None] + (key @ w_key.T)[:, None]) @ v
        return torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1) @ key

    contenders = {"ours": lambda: attention(query, key, mask=mask).context, "eager": eager}
    target = "≥ 4.5× eager, ≥ 6× forward"
    return Case(f"additive module, B={batch} T=S={length} D={width}", contenders, [query, key], target)


def _additive_step() -> Case:
    """One step of a decoder at remembered keys."""
    batch, length, width = 80, 50, 512
    query, key, value = (
        torch.randn(batch, 1, width),
        torch.randn(batch, length, width),
        torch.randn(batch, length, width),
    )
    score = Additive(width, width, width)
    attention = regard.Attention(score)
    memory = attention.remember(key, value)
    w_query, v = score.joint.weight[:, :width].detach(), score.v.detach()

    def eager() -> Tensor:
        return torch.softmax(torch.tanh(query @ w_query.T + memory.key) @ v, dim=-1)[:, None] @ value

    contenders = {"ours": lambda: attention(query, memory).context, "eager": eager}
    work = f"additive module, a decoding step, B={batch} T=1 S={length} D={width}"
    return Case(work, contenders, (), "", ("forward",))


def _dot(
    name: str,
    variant: str,
    leading: tuple[int, ...],
    queries: int,
    keys: int,
    width: int,
    value_width: int,
    *,
    padded: bool = False,
    drop: float = 0.0,
) -> Case:
    """A score of the dot family at remembered keys, against SDPA on 4-D inputs and plain matrix products."""
    builders: dict[str, Callable[[], Score]] = {
        "dot": Dot,
        "scaled_dot": ScaledDot,
        "general": partial(General, width, width),
        "mlp_dot": partial(MLPDot, width, width, width),
        "cosine": partial(Cosine, gain=5.0),
        "gaussian": partial(Gaussian, width=4.0),
    }
    score = builders[name]()
    attention = regard.Attention(score, dropout=drop)
    query = torch.randn(*leading, queries, width, requires_grad=True)
    key = torch.randn(*leading, keys, width, requires_grad=True)
    value = torch.randn(*leading, keys, value_width, requires_grad=True)
    mask = lengths(torch.full(leading[:1], keys - 5)) if padded else None
    allowed = None if mask is None else mask.tensor((*leading, queries, keys))
    step = queries == 1
    memory = attention.remember(key.detach(), value.detach())

    def parts() -> tuple[Tensor, Tensor, float, Tensor | None]:
        """Query, key, scale and bias as a user would write them by hand."""
        k = memory.key if step else score.project(key)
        if isinstance(score, MLPDot):
            return score.query(query), k, 1.0, None
        if name == "cosine":
            return normalize(query, dim=-1) * 5.0, k, 1.0, None
        if name == "gaussian":
            return query, k, 1 / 16, key.square().sum(-1).unsqueeze(-2) / -32
        return query, k, width**-0.5 if name == "scaled_dot" else 1.0, None

    def eager() -> Tensor:
        q, k, scale, bias = parts()
        scores = (q * scale if scale != 1.0 else q) @ k.mT
        scores = scores if bias is None else scores + bias
        scores = scores if allowed is None else scores.masked_fill(~allowed, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return (dropout(weights, drop) if drop else weights) @ value

    def sdpa() -> Tensor:
        q, k, scale, bias = parts()
        mask = allowed if bias is None else bias if allowed is None else bias.masked_fill(~allowed, float("-inf"))
        if len(leading) == 2:
            return scaled_dot_product_attention(q, k, value, mask, dropout_p=drop, scale=scale)
        mask = None if mask is None else mask.unsqueeze(1)
        q, k, v = (tensor.unsqueeze(1) for tensor in (q, k, value))
        return scaled_dot_product_attention(q, k, v, mask, dropout_p=drop, scale=scale).squeeze(1)

    def ours() -> Tensor:
        return attention(query, memory if step else key, None if step else value, mask=mask).context

    large = queries > 1 and not drop and value_width == width
    target = "≤ 1.05 × the fastest" + (", ≥ 1.5× eager" if large else "")
    contenders = {"ours": ours, "eager": eager, "sdpa": sdpa}
    passes = ("forward",) if step else ("forward", "forward+backward")
    return Case(f"{name}, {variant}", contenders, [query, key, value], target, passes, None if drop else 1e-3)


def _causal_bfloat16(length: int) -> Case:
    """A Transformer's training in bfloat16, against SDPA and plain matrix products."""
    attention = regard.Attention("scaled_dot")
    shape = (2**13 // length, 6, length, 32)
    query, key, value = (torch.randn(*shape, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    later = torch.ones(length, length, dtype=torch.bool).triu(1)

    def eager() -> Tensor:
        scores = (query @ key.mT * shape[-1] ** -0.5).masked_fill(later, float("-inf"))
        return torch.softmax(scores, dim=-1) @ value

    contenders = {
        "ours": lambda: attention(query, key, value, mask=masks.causal()).context,
        "eager": eager,
        "sdpa": lambda: scaled_dot_product_attention(query, key, value, is_causal=True),
    }
    work = f"scaled_dot, causal, bfloat16, B={shape[0]} H=6 T=S={length} D=32"
    return Case(work, contenders, [query, key, value], "≤ 1.05 × the fastest", ("forward+backward",), 0.1)


def _window(name: str, kind: str, length: int) -> Case:
    """Luong's windows, against our own attention to all keys, and against gathering the window's rows by hand."""
    batch, queries, width, radius = 8, 64, 512, 10
    score: Additive | General = Additive(width, width, width) if name == "additive" else General(width, width)
    window: Window = LocalMonotonic(radius) if kind == "local-m" else LocalPredictive(width, radius)
    local, everywhere = regard.Attention(score, window=window), regard.Attention(score)
    query, key = torch.randn(batch, queries, width), torch.randn(batch, length, width)
    memory = everywhere.remember(key)

    def gather() -> Tensor:
        start, size = window(query, torch.tensor(length))
        first = start.ceil().long() if start.is_floating_point() else start
        places = first[..., None] + torch.arange(size)
        inside = (places >= 0) & (places < length) & (places - start[..., None] <= size - 1)
        index = places.clamp(0, length - 1) + length * torch.arange(batch)[:, None, None]
        keys, values = memory.key.flatten(0, 1)[index], key.flatten(0, 1)[index]  # (B, T, W, D)
        if isinstance(score, Additive):
            hidden = torch.tanh((query @ score.joint.weight[:, :width].T)[:, :, None] + keys)
            scores = hidden @ score.v
        else:
            scores = (keys @ query[..., None]).squeeze(-1)
        weights = torch.softmax(scores.masked_fill(~inside, float("-inf")), dim=-1)
        factor = window.factor(places - start[..., None])
        weights = weights if factor is None else weights * factor
        return (weights[..., None, :] @ values).squeeze(-2)

    def plain() -> Tensor:
        """All keys, plainly; query by query, since all at once would take 8 GB and more."""
        assert isinstance(score, Additive)
        projected = query @ score.joint.weight[:, :width].T
        weights = [torch.tanh(projected[:, t : t + 1] + memory.key) @ score.v for t in range(queries)]
        return torch.softmax(torch.stack(weights, dim=1), dim=-1) @ key

    contenders = {
        "ours": lambda: local(query, memory).context,
        "eager": gather,
        "global": lambda: everywhere(query, memory).context,
    }
    slow: tuple[str, ...] = ()
    if name == "additive":
        contenders["plain global"] = plain
        slow = ("plain global",)
    target = f"≥ {100 if name == 'additive' else 20}× global at S=8192; flat in S"
    work = f"{name} {kind}, radius {radius}, B={batch} T={queries} S={length} D={width}"
    return Case(work, contenders, (), target, ("forward",), None, slow)


def _sliding(length: int, before: bool, target: str = "", grows: bool = False) -> Case:
    """Self-attention in which a query sees a window of WINDOW keys, those before it or around it, against SDPA with
    the same mask; with ``grows`` it is measured alone."""
    query, key, value = (torch.randn(1, 8, length, 64, requires_grad=True) for _ in range(3))
    mask = masks.window(WINDOW - 1) & masks.causal() if before else masks.window(WINDOW // 2)
    contenders = {"ours": lambda: regard.attend(query, key, value, mask=mask).context}
    if not grows:
        allowed = mask.tensor((1, 8, length, length))[:, :1]
        contenders["sdpa"] = lambda: scaled_dot_product_attention(query, key, value, allowed)
    side = "before" if before else "around"
    work = f"sliding window, T={length}, {WINDOW} keys {side}, 8 heads of 64"
    work = f"{GROWTH}, T={length}, {WINDOW} keys before, 8 heads of 64" if grows else work
    return Case(work, contenders, [query, key, value], target, ("forward+backward",))


def _grouped(batch: int = 8, length: int = 2048) -> Case:
    """One query of each of eight heads at a cache with two heads of keys, against one where they were repeated before,
    and against SDPA with keys that are repeated at the call, as Hugging Face's models do."""
    query = torch.randn(batch, 8, 1, 64)
    key, value = (torch.randn(batch, 2, length, 64) for _ in range(2))
    repeated = [tensor.repeat_interleave(4, dim=1) for tensor in (key, value)]

    def repeating() -> Tensor:
        again = [tensor.repeat_interleave(4, dim=1) for tensor in (key, value)]
        return scaled_dot_product_attention(query, again[0], again[1])

    contenders = {
        "ours": lambda: regard.attend(query, key, value, grouped=True).context,
        "repeated": lambda: regard.attend(query, repeated[0], repeated[1]).context,
        "sdpa": repeating,
    }
    work = f"grouped queries, 8 heads of 64 at 2 of keys, B={batch} T=1 S={length}"
    return Case(work, contenders, (), "≥ 1.5× repeated", ("forward",))


def _checked(heads: int, length: int) -> Case:
    """What it costs that NaN in masked keys and values does not matter, against the same call without that check."""
    query, key, value = (torch.randn(8, heads, length, 64, requires_grad=True) for _ in range(3))
    mask = lengths(torch.full((8,), length - 5))

    def ours() -> Tensor:
        return regard.attend(query, key, value, mask=mask).context

    def unchecked() -> Tensor:
        check, spoiled.harmless = spoiled.harmless, lambda *_: True
        try:
            return ours()
        finally:
            spoiled.harmless = check

    work = f"what is masked does not matter, {heads} heads of 64, padded, B=8 T=S={length}"
    return Case(work, {"ours": ours, "unchecked": unchecked}, [query, key, value], "≥ 0.97× unchecked")


def _weights() -> Case:
    """Reading the weights after the context, against a plain forward."""
    query, key, value = (torch.randn(8, 512, 64) for _ in range(3))

    def read() -> Tensor:
        weights = regard.attend(query, key, value).weights
        assert weights is not None
        return weights

    def plain() -> Tensor:
        with kernels.use("plain"):
            return read()

    work = "context and then weights, B=8 T=S=512 D=64"
    return Case(work, {"ours": read, "eager": plain}, (), "≤ context + one plain forward", ("forward",))
