"""``regard bench record``: what it costs to record, return and knock out the attention of another library's model.

A Llama-shaped model of Hugging Face with random weights. `alone` is the model as it is installed, with SDPA; `eager` is
what a user without this library must choose to see weights: ``attn_implementation="eager"`` and ``output_attentions``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard import explain
from regard.bench.measure import Case, Row, report

LAYERS, WIDTH, LENGTH = 8, 512, 512


def run(json_file: Path | None = None, quick: bool = False, only: str = "") -> list[Row]:
    """Measure the rows whose name holds ``only``, print the table, and write it as JSON if asked."""
    try:
        hugging = importlib.import_module("transformers")
    except ImportError:
        raise ValueError("regard bench record needs transformers: pip install transformers") from None
    return report(
        lambda: _cases(100 if quick else 500),
        threads=(1,) if quick else (1, 2),
        seconds=0.1 if quick else 3.0,
        only=only,
        json_file=json_file,
        peer="alone",
        transformers=hugging.__version__,
    )


def _cases(sentences: int) -> Iterator[Callable[[], Case]]:
    yield partial(recorded, read=False, target="≥ 0.97× alone")
    yield partial(recorded, read=True, target="≥ 0.77× alone")
    yield partial(implemented, weights=False, target="≥ 0.97× alone")
    yield partial(implemented, weights=True)
    yield partial(knocked_out, sentences)
    yield partial(knocked_out, 16)


def llama(layers: int, width: int, length: int, way: str = "sdpa") -> tuple[Any, Tensor]:
    """A model with heads of 64 and the same weights each time, and a sequence for it."""
    hugging = importlib.import_module("transformers")
    torch.manual_seed(0)
    heads = max(width // 64, 1)
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "intermediate_size": 8 * width // 3}
    heads_options = {"vocab_size": 1000, "num_attention_heads": heads, "num_key_value_heads": heads, "use_cache": False}
    model = hugging.LlamaModel(hugging.LlamaConfig(**sizes, **heads_options, max_position_embeddings=length)).eval()
    model.set_attn_implementation(way)
    return model, torch.randint(1000, (1, length), generator=torch.Generator().manual_seed(0))


def recorded(read: bool, layers: int = LAYERS, width: int = WIDTH, length: int = LENGTH, target: str = "") -> Case:
    """A forward pass under :func:`regard.record`; then the weights of the layer in the middle are read, or none."""
    model, ids = llama(layers, width, length)
    eager, _ = llama(layers, width, length, "eager")

    def ours() -> Tensor:
        with regard.record(model) as tape:
            out = model(ids).last_hidden_state
        if read:
            _ = tape[f"layers.{layers // 2}.self_attn"].weights
        return out

    contenders = {
        "ours": ours,
        "alone": lambda: model(ids).last_hidden_state,
        "eager": lambda: eager(ids, output_attentions=True).last_hidden_state,
    }
    reading = "weights of one layer read" if read else "weights never read"
    return Case(f"record, {reading}, {_sizes(layers, width, length)}", contenders, (), target, ("forward",), 1e-3)


def implemented(
    weights: bool, layers: int = LAYERS, width: int = WIDTH, length: int = LENGTH, target: str = ""
) -> Case:
    """A forward pass with ``attn_implementation="regard"``, with ``output_attentions=weights``."""
    importlib.import_module("regard.integrations.transformers").register()
    models = {way: llama(layers, width, length, way)[0] for way in ("regard", "sdpa", "eager")}
    ids = llama(1, width, length)[1]

    def forward(way: str, weights: bool) -> Tensor:
        return models[way](ids, output_attentions=weights).last_hidden_state

    contenders = {
        "ours": lambda: forward("regard", weights),
        "alone": lambda: forward("sdpa", False),
        "eager": lambda: forward("eager", True),
    }
    reading = "weights asked for" if weights else "weights not asked for"
    work = f'attn_implementation="regard", {reading}, {_sizes(layers, width, length)}'
    return Case(work, contenders, (), target, ("forward",), 1e-3)


def knocked_out(sentences: int, layers: int = 6, width: int = 64, length: int = 20) -> Case:
    """The table of a metric without each of four heads in each layer, several heads at once or one after the
    other."""
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval()
    x = torch.randn(sentences, length, width)

    def table(batched: bool) -> Tensor:
        if batched:
            metrics = explain.knockout(model, lambda x: model(x).square().mean((1, 2)), batch=x)
        else:
            metrics = explain.knockout(model, lambda: model(x).square().mean())
        return torch.stack(list(metrics.without.values()))

    contenders = {"ours": lambda: table(True), "one by one": lambda: table(False)}
    work = f"knock-out table, {4 * layers} heads, {sentences} sentences of {length}"
    return Case(work, contenders, (), "", ("forward",), 1e-3, ("one by one",))


def _sizes(layers: int, width: int, length: int) -> str:
    return f"Llama, {layers} layers of {width}, T={length}"
