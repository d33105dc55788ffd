"""The complexity table of the lectures, counted and timed for a length and a width of one's own."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import nn

import regard
from regard.predictors.predictor import Answer
from regard.questions import Number, form
from regard.serve.lessons import lesson
from regard.views import table

ROUNDS = 3


class Lesson(lesson.Lesson):
    """Self-attention, a recurrent layer and a convolution on one random sequence."""

    name = "complexity"
    title = "What a layer costs"
    sentence = "Operations, steps in sequence and the longest path of three layers, and their time on this machine."
    paper = "Vaswani et al. 2017, Attention Is All You Need (arXiv:1706.03762)"
    part = "The Transformer"
    order = 6
    script = "complexity"
    Question = form(
        "Measure",
        length=Number(8, 1024, default=256, title="Length n"),
        width=Number(8, 256, default=128, title="Width d", about="Rounded to a multiple of 8, for eight heads."),
        kernel=Number(3, 15, default=3, option=True, title="Kernel k"),
    )

    @torch.inference_mode()
    def one(self, question: Any) -> Answer:
        """The table; each time is the best of three."""
        n, d, k = question.length, question.width - question.width % 8, question.kernel
        attention, recurrent = regard.MultiHead(d, heads=8), nn.GRU(d, d, batch_first=True)
        convolution, x = nn.Conv1d(d, d, k, padding="same"), torch.randn(1, n, d)
        path = math.ceil(math.log(n, k))
        layers: list[tuple[str, str, int, int, int, Any]] = [
            ("self-attention", "8 n d² + 4 n² d", 8 * n * d * d + 4 * n * n * d, 1, 1,
             lambda: attention(x, weights=False)),
            ("recurrent (GRU)", "12 n d²", 12 * n * d * d, n, n, lambda: recurrent(x)),
            ("convolution", "2 k n d²", 2 * k * n * d * d, 1, path, lambda: convolution(x.mT)),
        ]  # fmt: skip
        rows, times = [], []
        for name, formula, count, steps, longest, run in layers:
            durations = []
            for _ in range(ROUNDS):
                before = time.perf_counter()
                run()
                durations.append(time.perf_counter() - before)
            times.append(min(durations))
            operations = f"{formula} = {count / 1e6:,.1f} million"
            rows.append([name, operations, f"{steps}", f"{longest}", f"{1e3 * min(durations):.2f} ms"])
        head = ["Layer", "Operations", "Steps in sequence", "Longest path", "Measured forward pass"]
        fastest = min(times)
        shades = [[None, None, None, None, fastest / seconds] for seconds in times]
        side = "fewer operations than" if n < d else "as many operations as" if n == d else "more operations than"
        text = f"n = {n}, d = {d}: self-attention needs {side} a recurrent layer."
        notes = [
            "One sequence, on this machine, the best of three. Dilated convolutions reach everywhere in logₖ n layers."
        ]
        return Answer(text, notes, pictures=[table.picture(head, rows, shades, title="Counted and measured")])
