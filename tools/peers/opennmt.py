"""OpenNMT-py, with its own data pipeline, ``Trainer`` and ``Translator``.

Timed in training: the loop of ``Trainer.train`` from one batch to the next, with bucketed batches that this process
makes itself (``num_workers 0``; their default is to take more processes, and so more cores than the others have) from a
bucket of one epoch (their default would hold nine copies of this small corpus in memory), loss, backward pass, clipping
and Adam. Timed in decoding: ``Translator.translate_batch`` on a batch of ids.

Its Transformer is pre-norm like ours and drops the inner layer of the feed-forward network too; dropout on attention
weights is turned off. Its recurrent model is a bidirectional LSTM with the "mlp" attention and input feeding.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# It imports these two for transforms of text that nothing here uses, and torch's new default refuses its checkpoints.
for unused in ("spacy", "fasttext"):
    sys.modules[unused] = ModuleType(unused)
os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"

import onmt.train_single  # noqa: E402
import torch  # noqa: E402
from common import Job, Window, decode, size, train  # noqa: E402
from onmt.bin.train import train as onmt_train  # noqa: E402
from onmt.constants import CorpusTask, DefaultTokens  # noqa: E402
from onmt.inputters.dynamic_iterator import build_dynamic_dataset_iter  # noqa: E402
from onmt.model_builder import build_model  # noqa: E402
from onmt.opts import train_opts, translate_opts  # noqa: E402
from onmt.translate import GNMTGlobalScorer, Translator  # noqa: E402
from onmt.utils.parse import ArgumentParser  # noqa: E402

PAD = DefaultTokens.PAD
TRANSFORMER = """
encoder_type: transformer
decoder_type: transformer
layers: 3
heads: 4
hidden_size: 256
word_vec_size: 256
transformer_ff: 1024
position_encoding: true
share_embeddings: true
share_decoder_embeddings: true
attention_dropout: [0.0]
"""
RECURRENT = """
encoder_type: brnn
decoder_type: rnn
rnn_type: LSTM
layers: 1
hidden_size: 512
word_vec_size: 256
global_attention: mlp
input_feed: 1
attention_dropout: [0.0]
"""
TRAINING = """
data:
  corpus_1: {{path_src: {text}/train.src, path_tgt: {text}/train.tgt}}
src_vocab: {text}/vocab.txt
share_vocab: true
save_model: {scratch}/model
batch_type: tokens
batch_size: {tokens}
normalization: tokens
num_workers: 0
bucket_size: 29000
train_steps: 1000000
valid_steps: 1000000
save_checkpoint_steps: 1000000
optim: adam
learning_rate: 0.001
max_grad_norm: 1.0
label_smoothing: 0.1
dropout: [0.1]
param_init: 0
param_init_glorot: true
seed: 1
"""


def options(job: Job) -> Any:
    """As its command line would read them from a file."""
    path = os.path.join(job.scratch, "config.yaml")
    with open(path, "w") as file:
        where = {"text": job.text, "scratch": job.scratch, "tokens": job.tokens}
        file.write(TRAINING.format(**where) + (RECURRENT if job.recurrent else TRANSFORMER))
    parser = ArgumentParser()
    train_opts(parser)
    return parser.parse_known_args(["-config", path])[0]


def main(job: Job) -> None:
    """Measure."""
    torch.set_num_threads(job.threads)
    opt = options(job)
    if job.trains:
        measure_training(job, opt)
    else:
        measure_decoding(job, opt)


def measure_training(job: Job, opt: Any) -> None:
    """``onmt_train`` itself; only its batches pass by our clock."""

    def loop(window: Window) -> None:
        def counted(*args: Any) -> Any:
            model = build_model(*args)
            window.parameters = size(model)
            return model

        def timed(opt: Any, transforms: Any, vocabs: Any, task: str, **options: Any) -> Any:
            batches, pad = build_dynamic_dataset_iter(opt, transforms, vocabs, task=task, **options), vocabs["tgt"][PAD]
            return batches if task != CorpusTask.TRAIN else stepped(batches, pad)

        def stepped(batches: Any, pad: int) -> Iterator[Any]:
            for batch, bucket in batches:
                window.step(int((batch["tgt"][:, 1:, 0] != pad).sum()))
                yield batch, bucket

        onmt.train_single.build_model, onmt.train_single.build_dynamic_dataset_iter = counted, timed
        onmt_train(opt)

    train(job, loop)


def measure_decoding(job: Job, opt: Any) -> None:
    """A translator with the weights of a model that was just built."""
    ArgumentParser.validate_train_opts(opt)
    ArgumentParser.update_model_opts(opt)
    ArgumentParser.validate_model_opts(opt)
    torch.manual_seed(0)
    _, vocabs, transforms = onmt.train_single._init_train(opt)
    model = build_model(opt, opt, vocabs, None, -1).eval()
    parser = ArgumentParser()
    translate_opts(parser)
    limits = {"batch_size": job.batch, "beam_size": job.beam, "min_length": job.length, "max_length": job.length}
    flags = [text for name, value in limits.items() for text in (f"-{name}", str(value))]
    chosen, _ = parser.parse_known_args(["-model", "none", "-src", job.file("decode.src"), *flags])
    chosen.max_length_ratio = 0  # would end hypotheses of short sources earlier
    chosen.data_task, chosen.tgt_file_prefix = vocabs["data_task"], False
    scorer = GNMTGlobalScorer.from_opt(chosen)
    translator = Translator.from_opt(model, vocabs, chosen, opt, global_scorer=scorer, report_score=False)
    lines = job.lines("decode.src")
    batches = [
        batch
        for batch, _ in build_dynamic_dataset_iter(
            chosen, transforms, vocabs, task=CorpusTask.INFER, src=lines, device_id=-1
        )
    ]

    def search(batch: Any) -> Iterator[int]:
        with torch.no_grad():
            translations = translator.translate_batch(batch, False)
        return (len(best) for best, *_ in translations["predictions"])

    decode(job, batches, search, size(model))


if __name__ == "__main__":
    main(Job.from_arguments())
