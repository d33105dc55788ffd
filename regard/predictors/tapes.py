"""Tapes in, tapes out, and where the heads were."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import regard
from regard.predictors.predictor import Answer, Predictor, lines
from regard.questions import SEED, Number, form
from regard.views import weightings
from regard.views.picture import Picture

LONGER, MOST = 6, 240
"""A tape is at most LONGER times the longest of training, and at most MOST."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """One tape.

    Attributes:
        input: (T, I).
        target: (T, O).
        output: (T, O), the probability of a 1.
        asked: (T,), whether the step has a target.
        heads: name of each head → (T, N), where it was.
        contents: ``adds`` and ``reads``, (T, ·): what the heads wrote and read.
    """

    input: Tensor
    target: Tensor
    output: Tensor
    asked: Tensor
    heads: dict[str, Tensor]
    contents: dict[str, Tensor]

    @property
    def mistakes(self) -> Tensor:
        """(T, O), True where a bit of a target is wrong."""
        return ((self.output > 0.5) != (self.target > 0.5)) & self.asked[:, None]

    @property
    def wrong(self) -> int:
        """How many bits of the targets are wrong."""
        return int(self.mistakes.sum())

    @property
    def bits(self) -> int:
        """How many bits the targets have."""
        return int(self.asked.sum()) * self.target.shape[1]

    def vectors(self, which: Tensor) -> list[str]:
        """The rows with targets of output or target, as strings of 0 and 1."""
        return ["".join("1" if bit > 0.5 else "0" for bit in row) for row in which[self.asked]]


class Tapes(Predictor):
    """A system that reads one tape and writes another, such as the NTM."""

    def predict(
        self, length: int, *, repeats: int = 1, rows: int | None = None, seed: int = 0, vectors: Any = None
    ) -> Prediction:
        """Run one tape.

        Args:
            length: vectors, items or bits of it, as in the task.
            repeats: how many copies to write, where the task is to repeat.
            rows: of the memory; as trained if None.
            seed: of what is on the tape.
            vectors: (length, bits) to put on it instead, where the task is to copy.
        """
        if repeats < 1:
            raise ValueError(f"repeats is at least 1, not {repeats}")
        batch = self.task.draw(np.random.default_rng(seed), length, repeats=repeats)
        if vectors is not None:
            vectors_tensor = torch.as_tensor(vectors, dtype=torch.float32)
            bits = vectors_tensor.shape[1]
            batch["input"][0, :length, :bits] = vectors_tensor
            output_steps = batch["mask"][0] > 0
            batch["target"][0, output_steps.nonzero()[: length * repeats, 0], :bits] = vectors_tensor.repeat(repeats, 1)
        with self._memory(rows), regard.record(self.model) as tape, torch.inference_mode():
            trace = {name: values[0].cpu() for name, values in self.model.trace(self.moved(batch)["input"]).items()}
        weights = tape["heads"].weights[0].cpu()  # (H, T, N)
        heads = dict(zip(_names(self.model.config.reads, self.model.config.writes), weights, strict=True))
        output = trace.pop("output")
        return Prediction(batch["input"][0], batch["target"][0], output, batch["mask"][0] > 0, heads, trace)

    @torch.inference_mode()
    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """Bits per sequence and errors in percent of all target bits; the same on longer tapes than in training, there
        also with four times the rows; for n-grams beside the best that is possible."""
        means = super().evaluate(split, limit=limit)
        metrics = {"bits_per_sequence": means["bits"], "bit_errors": 100 * means["errors"]}
        if self.task.config.what == "ngrams":
            batches = list(self.task.loader(split))[:limit]
            best = float(torch.cat([batch["optimal"] for batch in batches]).mean())
            metrics |= {"optimal_bits": best, "above_optimal": 100 * (means["bits"] / best - 1)}
        for name, batch in self.task.beyond():
            for rows in (None, 4 * self.model.config.rows):
                with self._memory(rows):
                    out = self.model(self.moved(batch))
                suffix = name if rows is None else f"{name}_{rows}_rows"
                metrics[f"bits_{suffix}"] = float(out["bits"])
                metrics[f"errors_{suffix}"] = 100 * float(out["errors"])
        return metrics

    def answer(
        self,
        file: Path | None,
        *,
        repeats: int = 1,
        rows: int | None = None,
        seed: int = 0,
        as_json: bool = False,
    ) -> Iterator[str]:
        """A tape a line: a length, or to be copied, vectors such as ``10110001 00000001``. A number in place of a file
        is a length too."""
        for place, line in self._entries(file):
            if not line:
                yield ""
                continue
            length, vectors = self._read(place, line)
            prediction = self.predict(length, repeats=repeats, rows=rows, seed=seed, vectors=vectors)
            targets, outputs = prediction.vectors(prediction.target), prediction.vectors(prediction.output)
            if as_json:
                yield json.dumps(
                    {"asked": targets, "answered": outputs, "wrong": prediction.wrong, "bits": prediction.bits}
                )
                continue
            yield f"{self.task.config.what}, {length}: {prediction.wrong} of {prediction.bits} bits wrong"
            for target, output in zip(targets, outputs, strict=True):
                signs = "".join(" " if a == b else "^" for a, b in zip(target, output, strict=True))
                yield f"  {output}"
                if "^" in signs:
                    yield f"  {signs} asked for {target}"

    def look(
        self,
        what: Sequence[str] = (),
        *,
        repeats: int = 1,
        rows: int | None = None,
        seed: int = 0,
    ) -> Iterator[tuple[str, Picture | None]]:
        """Input, output and the heads' weightings of a tape of the length ``what``.

        Args:
            repeats: how often to repeat the copy.
            rows: of the memory; also more than in training.
            seed: of what is on the tape.
        """
        if len(what) > 1:
            raise ValueError(f"one length is shown at a time, not {' '.join(what)}")
        length = self._length("the length", what[0]) if what else self.task.config.longest
        prediction = self.predict(length, repeats=repeats, rows=rows, seed=seed)
        title = (
            f"{self.task.config.what.replace('_', ' ')}, {length}: {prediction.wrong} of {prediction.bits} bits wrong"
        )
        yield title, self._picture(prediction, title)

    def _picture(self, prediction: Prediction, title: str = "") -> Picture:
        bits = {"input": prediction.input, "output": prediction.output * prediction.asked[:, None]}
        if prediction.wrong:
            bits["wrong"] = prediction.mistakes.float()
        heads = dict(
            sorted(prediction.heads.items(), reverse=True)
        )  # what was written stands beside what was read of it
        return weightings.picture(bits, heads, prediction.contents, title=title)

    # Questions

    @property
    def title(self) -> str:
        """Which tape."""
        return f"Run the tape: {self.task.config.what.replace('_', ' ')}"

    @cached_property
    def Question(self) -> Any:
        """How long a tape, and which."""
        config = self.task.config
        least, most = self._lengths
        noun = {"recall": "Items", "ngrams": "Bits"}.get(config.what, "Vectors")
        about = f"Trained on {config.shortest} to {config.longest}."
        inputs = {"length": Number(least, most, default=config.longest, title=f"{noun} on the tape", about=about)}
        if config.what == "repeat_copy":
            inputs["repeats"] = Number(1, 2 * config.repeats, default=2, title="Copies")
        return form("Run", **inputs, seed=replace(SEED, about="Each number gives another tape."))

    @property
    def _lengths(self) -> tuple[int, int]:
        config = self.task.config
        least = {"recall": 2, "ngrams": config.order, "sort": config.top}.get(config.what, 1)
        return least, max(config.longest, min(LONGER * config.longest, MOST))

    def data(self) -> str:
        return f"generated tapes, {self.task.config.what.replace('_', ' ')}"

    def examples(self) -> list[Any]:
        config, (least, most) = self.task.config, self._lengths
        middle = max(least, (config.shortest + config.longest) // 2)
        lengths = sorted({middle, config.longest, min(2 * config.longest, most), most})
        return [self.Question(length=length) for length in lengths]

    def one(self, question: Any) -> Answer:
        length, longest = question.length, self.task.config.longest
        rows = None if length < self.model.rows else length + 8  # a memory that holds the tape
        prediction = self.predict(length, repeats=getattr(question, "repeats", 1), seed=question.seed, rows=rows)
        text = (
            "Every bit is right" if not prediction.wrong else f"{prediction.wrong} of {prediction.bits} bits are wrong"
        )
        notes = [f"{len(prediction.input)} steps; {prediction.bits} bits were asked for."]
        notes += [f"Longer than anything it was trained on, {longest}."] if length > longest else []
        button = ("Another tape", {"seed": (question.seed + 1) % 10000})
        return Answer(text, notes, [button], [self._picture(prediction)])

    @contextmanager
    def _memory(self, rows: int | None) -> Iterator[None]:
        """With another number of memory rows."""
        before = self.model.rows
        if rows is not None and rows < 1:
            raise ValueError(f"a memory has at least one row, not {rows}")
        self.model.rows = before if rows is None else rows
        try:
            yield
        finally:
            self.model.rows = before

    def _entries(self, file: Path | None) -> Iterator[tuple[str, str]]:
        """What to answer, and where it stands."""
        if file is not None and not file.exists() and str(file).isdecimal():
            yield "the length", str(file)
            return
        hint = "Type a length, or vectors of 0 and 1 to copy, and press Enter; Ctrl-D ends."
        for number, line in enumerate(lines(file, hint), 1):
            yield f"{file or 'standard input'}, line {number}", line.strip()

    def _length(self, place: str, text: str) -> int:
        least = {"recall": 2, "ngrams": self.task.config.order}.get(self.task.config.what, 1)
        if not text.isdecimal() or int(text) < least:
            raise ValueError(f"{place}: {text!r} is not a length, a whole number from {least} on")
        return int(text)

    def _read(self, place: str, line: str) -> tuple[int, list[list[float]] | None]:
        """A length, or vectors and how many there are."""
        words, bits = line.split(), self.task.config.bits
        are_vectors = self.task.config.what in ("copy", "repeat_copy") and all(
            set(word) <= {"0", "1"} for word in words
        )
        if not are_vectors or (len(words) == 1 and len(words[0]) != bits):
            return self._length(place, line), None
        for word in words:
            if len(word) != bits:
                raise ValueError(f"{place}: {word!r} has {len(word)} bits; this system was trained on {bits}")
        return len(words), [[float(bit) for bit in word] for word in words]


def _names(reads: int, writes: int) -> list[str]:
    """Of the heads; numbered where there are several of a kind."""
    kinds = {"read": reads, "write": writes}
    return [kind if count == 1 else f"{kind} {i + 1}" for kind, count in kinds.items() for i in range(count)]
