"""``regard bench language``: GPT against Hugging Face's GPT-2 of equal size, and a sampled softmax against the full.

Training is a step of AdamW on the same tokens; the peer's is a plain loop. Generation is greedy, and both keep a cache
of keys and values. The peer needs transformers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import decode
from regard.bench.measure import Case, Row, report
from regard.decode.packed import packed
from regard.layers.cross_entropy import cross_entropy
from regard.layers.sampled import sampled_cross_entropy
from regard.systems import gpt

VOCAB, LONGEST = 8000, 256


def run(json_file: Path | None = None, quick: bool = False, only: str = "") -> list[Row]:
    """Measure the rows whose name holds ``only``, print the table, and write it as JSON if asked."""
    try:
        hugging = importlib.import_module("transformers")
    except ImportError:
        raise ValueError("regard bench language needs transformers: pip install transformers") from None
    sizes = {"dim": 64, "layers": 2} if quick else {"dim": 192, "layers": 6}
    return report(
        lambda: _cases(**sizes),
        threads=(1,) if quick else (1, 2),
        seconds=0.1 if quick else 5.0,
        only=only,
        json_file=json_file,
        peer="transformers",
        transformers=hugging.__version__,
    )


def _cases(dim: int, layers: int) -> Iterator[Callable[[], Case]]:
    yield partial(trained, dim, layers, target="≥ 1.2× transformers")
    yield partial(generated, dim, layers, target="≥ 3× transformers")
    yield partial(sampled, target="≥ 2× full")


def pair(dim: int, layers: int, vocab: int = VOCAB) -> tuple[gpt.Gpt, Any]:
    """Ours and the peer's, of equal size and without dropout."""
    hugging = importlib.import_module("transformers")
    torch.manual_seed(0)
    heads = max(dim // 32, 1)
    ours = gpt.Gpt(
        gpt.Config(vocab, LONGEST, dim, heads, 4 * dim, layers, dropout=0.0, positions="learned", activation="gelu")
    )
    dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    sizes = {"vocab_size": vocab, "n_positions": LONGEST, "n_embd": dim, "n_layer": layers, "n_head": heads}
    ends = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
    theirs = hugging.GPT2LMHeadModel(hugging.GPT2Config(**sizes, **dropout, **ends))
    return ours, theirs


def trained(dim: int, layers: int, batch: int = 16, length: int = 128, target: str = "") -> Case:
    """A step: forward, backward, AdamW."""
    ours, theirs = pair(dim, layers)
    tokens = torch.randint(4, VOCAB, (batch, length + 1), generator=torch.Generator().manual_seed(1))
    lengths = torch.full((batch,), length)
    with_target = {"target": tokens, "target_lengths": lengths}

    def step(model: nn.Module, forward: Callable[[], Tensor]) -> Callable[[], Tensor]:
        optimizer = torch.optim.AdamW(model.train().parameters(), 1e-3, fused=True)

        @torch.enable_grad()
        def one() -> Tensor:
            optimizer.zero_grad()
            loss = forward()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return one

    contenders = {
        "ours": step(ours, lambda: ours(with_target)["loss"]),
        "transformers": step(theirs, lambda: theirs(tokens, labels=tokens).loss),
    }
    work = f"GPT training step, {layers} layers of {dim}, {batch} × {length} tokens"
    return Case(work, contenders, (), target, ("forward",), None)


def generated(dim: int, layers: int, batch: int = 1, prompt: int = 32, new: int = 128, target: str = "") -> Case:
    """Greedy continuations with a cache; ours by the packed twin, as predictors use it."""
    ours, theirs = pair(dim, layers)
    ours = packed(ours.eval())
    theirs.eval()
    tokens = torch.randint(4, VOCAB, (batch, prompt), generator=torch.Generator().manual_seed(1))
    inputs = {"prompt": tokens, "wanted": torch.full((batch,), new)}

    def write() -> Tensor:
        with torch.inference_mode():
            hypotheses = decode.greedy(_Endless(ours), inputs, max_length=inputs["wanted"], alignments=False)
        assert all(len(best.tokens) == new for best, *_ in hypotheses)
        return torch.tensor([best.tokens for best, *_ in hypotheses])

    def their() -> Tensor:
        with torch.inference_mode():
            written = theirs.generate(
                tokens,
                attention_mask=torch.ones_like(tokens),
                max_new_tokens=new,
                min_new_tokens=new,
                do_sample=False,
                use_cache=True,
            )
        assert written.shape[1] == prompt + new
        return written[:, prompt:]

    work = f"GPT generation, {layers} layers of {dim}, {batch} × {prompt} + {new} tokens"
    return Case(work, {"ours": write, "transformers": their}, (), target, ("forward",), None)


class _Endless:
    """A Writer that never chooses eos, so that both write equally many tokens."""

    def __init__(self, model: gpt.Gpt):
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def start(self, batch: Any) -> Any:
        return self._model.start(batch)

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = self._model.step(token, state)
        logits[:, :4] = float("-inf")
        return logits, state


def sampled(vocab: int = 30_000, few: int = 3000, rows: int = 1024, dim: int = 192, target: str = "") -> Case:
    """The loss over a vocabulary and its gradient, by a sample or by all words."""
    output = nn.Linear(dim, vocab)
    drawn = torch.Generator().manual_seed(1)
    states = torch.randn(rows, dim, generator=drawn, requires_grad=True)
    # Like words: few of them are most of a text.
    targets = (torch.rand(rows, generator=drawn).pow(4) * (vocab - 4)).long() + 4
    inputs = (states, output.weight, output.bias)

    def plain() -> Tensor:
        return nn.functional.cross_entropy(output(states), targets, reduction="sum")

    contenders = {
        "ours": lambda: sampled_cross_entropy(states, output, targets, few).loss,
        "full": lambda: cross_entropy(states, output, targets).loss,
        "eager": plain,
    }
    work = f"loss over {vocab:,} words, {few:,} sampled, {rows:,} rows of {dim}"
    return Case(work, contenders, inputs, target, ("forward+backward",), None)
