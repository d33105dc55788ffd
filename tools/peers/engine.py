"""CTranslate2 on the very weights of ours, by way of ``regard export --to ctranslate2``, in float32.

Timed: ``Translator.translate_batch`` from tokens to tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import ctranslate2
import torch
from common import Job, decode, size

from regard import exports
from regard.bench.translate import transformer
from regard.tasks.translation import Translation


def main(job: Job) -> None:
    """Measure."""
    torch.set_num_threads(job.threads)
    torch.manual_seed(0)
    task = Translation.load(Path(job.text) / "task")
    model = transformer(len(task.source)).eval()
    folder = Path(job.scratch) / "engine"
    exports.write(SimpleNamespace(model=model, task=task, name="ours"), "ctranslate2", folder)
    translator = ctranslate2.Translator(str(folder), compute_type="float32", inter_threads=1, intra_threads=job.threads)
    name = task.source.backend.id_to_token
    sources = [[name(number) for number in ids] for ids in job.ids("decode.src")]
    batches = [sources[first : first + job.batch] for first in range(0, len(sources), job.batch)]
    limits = {"min_decoding_length": job.length, "max_decoding_length": job.length}

    def search(batch: list[list[str]]) -> Iterator[int]:
        translations = translator.translate_batch(batch, beam_size=job.beam, max_batch_size=job.batch, **limits)
        return (len(translation.hypotheses[0]) for translation in translations)

    decode(job, batches, search, size(model))


if __name__ == "__main__":
    main(Job.from_arguments())
