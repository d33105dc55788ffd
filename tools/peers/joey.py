"""JoeyNMT, with its own data sets, sampler, ``TrainManager`` and ``search``.

Timed in training: the loop of ``TrainManager.train_and_validate`` from one ``_train_step`` to the next, thus its
batches (it makes them in random order, so that about half of their slots are padding), loss, backward pass, clipping
and Adam; no validation and no checkpoint falls into the window. Timed in decoding: ``search`` on a batch of ids.

Its Transformer is pre-norm like ours; it drops attention weights and the inner layer of the feed-forward network too,
which its configuration cannot turn off. Its recurrent decoder starts from the encoder's last state by way of a bridge.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import torch
from common import Job, Window, decode, size, train
from joeynmt.config import parse_global_args, set_validation_args
from joeynmt.prediction import prepare
from joeynmt.search import search as joey_search
from joeynmt.training import TrainManager


def settings(job: Job) -> dict[str, Any]:
    """A configuration as JoeyNMT's YAML files have it."""
    side = {"max_length": 256, "level": "word", "voc_file": job.file("vocab.txt"), "voc_min_freq": 1}
    words = {"embedding_dim": 256, "scale": not job.recurrent, "dropout": 0.1}
    if job.recurrent:
        same = {"type": "recurrent", "rnn_type": "lstm", "num_layers": 1, "embeddings": words, "dropout": 0.1}
        model = {
            "encoder": {**same, "hidden_size": 256, "bidirectional": True},
            "decoder": {
                **same,
                "hidden_size": 512,
                "hidden_dropout": 0.1,
                "attention": "bahdanau",
                "input_feeding": True,
                "init_hidden": "bridge",
            },
        }
    else:
        same = {"type": "transformer", "num_layers": 3, "num_heads": 4, "embeddings": words, "dropout": 0.1}
        same |= {"hidden_size": 256, "ff_size": 1024, "layer_norm": "pre"}
        model = {"encoder": same, "decoder": same, "tied_embeddings": True, "tied_softmax": True}
    return {
        "name": "bench",
        "model_dir": job.scratch,
        "use_cuda": False,
        "random_seed": 0,
        "data": {
            "train": job.file("train"),
            "dev": job.file("valid"),
            "test": job.file("decode"),
            "dataset_type": "plain",
            "src": {**side, "lang": "src"},
            "trg": {**side, "lang": "tgt"},
        },
        "testing": {"batch_size": job.batch, "batch_type": "sentence", "beam_size": job.beam, "beam_alpha": 0.6},
        "training": {
            "batch_size": job.tokens,
            "batch_type": "token",
            "normalization": "tokens",
            "label_smoothing": 0.1,
            "optimizer": "adam",
            "learning_rate": 0.001,
            "scheduling": "noam",  # plateau, of which they have most, passes an argument that torch has dropped
            "clip_grad_norm": 1.0,
            "epochs": 1000,
            "logging_freq": 100,
            "validation_freq": 10**6,
        },
        "model": model,
    }


def main(job: Job) -> None:
    """Measure."""
    torch.set_num_threads(job.threads)
    logging.disable(logging.INFO)
    torch.manual_seed(0)
    args = parse_global_args(settings(job), rank=0, mode="train")
    model, train_data, valid_data, test_data = prepare(args, rank=0, mode="train")
    if job.trains:

        def loop(window: Window) -> None:
            class Timed(TrainManager):
                """Tells the clock when a step begins, and keeps no checkpoint."""

                def _train_step(self, batch: Any) -> Any:
                    window.step(int(batch.ntokens))
                    return super()._train_step(batch)

                def _save_checkpoint(self, *_: Any) -> None:
                    pass

            same = {"model": model, "model_dir": args.model_dir, "device": args.device, "autocast": args.autocast}
            validation = set_validation_args(args.test)
            manager = Timed(rank=0, seed=args.seed, train_args=args.train, dev_args=validation, **same)
            window.parameters = size(model)
            manager.train_and_validate(train_data, valid_data)

        train(job, loop)
        return

    model.eval()
    limits = {"min_output_length": job.length, "max_output_length": job.length}
    sentences = test_data.make_iter(
        batch_size=job.batch, batch_type="sentence", shuffle=False, eos_index=model.eos_index, pad_index=model.pad_index
    )
    batches = list(sentences)
    for batch in batches:
        batch.sort_by_src_length()

    def search(batch: Any) -> Iterator[int]:
        hypotheses, *_ = joey_search(model, batch, beam_size=job.beam, beam_alpha=0.6, n_best=1, **limits)
        return (int((row != model.pad_index).sum()) for row in hypotheses)

    decode(job, batches, search, size(model))


if __name__ == "__main__":
    main(Job.from_arguments())
