"""regard: ``training.fit`` as ``regard train`` calls it, and ``decode.beam``.

Timed in training: everything of ``fit`` between two batches, with its progress bar, metrics and clipping; before the
window it has written its first checkpoint. Timed in decoding: ``decode.beam`` from padded ids to hypotheses.

The Transformer is pre-norm, with dropout on embeddings and sub-layers only. The recurrent one is Luong's with additive
attention and input feeding: its encoder reads the sentence in one direction with 512 units, where the peers read it in
both with 256 (ours does 1.5 times their products there); the decoder is the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from common import Job, Window, decode, size, train
from rich.console import Console

import regard.decode
from regard import _heap
from regard.bench.translate import recurrent, transformer
from regard.decode.packed import packed
from regard.tasks.translation import Translation
from regard.training import Run, TrainConfig, fit


class Timed:
    """A loader that tells the clock of each batch."""

    def __init__(self, loader: Any, window: Window):
        self.loader, self.window = loader, window
        self.state_dict, self.load_state_dict = loader.state_dict, loader.load_state_dict

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            self.window.step(int(batch["target_lengths"].sum()))
            yield batch


def main(job: Job) -> None:
    """Measure."""
    _heap.keep()  # as the command line does
    torch.set_num_threads(job.threads)
    torch.manual_seed(0)
    task = Translation.load(Path(job.text) / "task", batch_tokens=job.tokens)
    model = (recurrent if job.recurrent else transformer)(len(task.source))
    if job.trains:
        config = TrainConfig(steps=10**6, clip=1.0, threads=job.threads, device="cpu")
        run, quiet = Run.create(Path(job.scratch) / "run"), Console(file=open(os.devnull, "w"))  # noqa: SIM115

        def loop(window: Window) -> None:
            window.parameters = size(model)
            fit(model, Timed(task.loader("train"), window), None, run, config, unit=task.unit, console=quiet)

        train(job, loop)
        return

    parameters, model = size(model), packed(model.eval())
    sources = [torch.tensor([*ids, 2]) for ids in job.ids("decode.src")]
    batches = []
    for group in torch.arange(len(sources)).split(job.batch):
        rows = [sources[row] for row in group]
        lengths = torch.tensor([len(row) for row in rows])
        batches.append({"source": torch.nn.utils.rnn.pad_sequence(rows, True), "source_lengths": lengths})

    @torch.inference_mode()
    def search(batch: dict[str, torch.Tensor]) -> Iterator[int]:
        # No token is −1, so that no hypothesis ends before the greatest length.
        hypotheses = regard.decode.beam(model, batch, size=job.beam, max_length=job.length, eos=-1, alignments=False)
        return (len(best.tokens) for best, *_ in hypotheses)

    decode(job, batches, search, parameters)


if __name__ == "__main__":
    main(Job.from_arguments())
