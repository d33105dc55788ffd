"""Hugging Face transformers: ``generate`` of a Marian model of the same sizes, with random weights.

Timed: ``generate`` from padded ids to ids. Marian is post-norm and adds a bias to the logits; otherwise it is the same
Transformer, with scaled dot-product attention by PyTorch and a cache of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from common import Job, decode, size
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import MarianConfig, MarianMTModel
from transformers.utils import logging


def main(job: Job) -> None:
    """Measure."""
    logging.set_verbosity_error()
    torch.set_num_threads(job.threads)
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=job.vocab,
        d_model=256,
        encoder_layers=3,
        decoder_layers=3,
        encoder_ffn_dim=1024,
        decoder_ffn_dim=1024,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config).eval()
    sources = [torch.tensor([*ids, 2]) for ids in job.ids("decode.src")]
    groups = [sources[first : first + job.batch] for first in range(0, len(sources), job.batch)]
    batches = [pad_sequence(group, True) for group in groups]
    limits = {"min_new_tokens": job.length, "max_new_tokens": job.length}

    @torch.inference_mode()
    def search(batch: Tensor) -> Iterator[int]:
        generated = model.generate(batch, attention_mask=batch != 0, num_beams=job.beam, do_sample=False, **limits)
        return (int((row[1:] != 0).sum()) for row in generated)  # the first is the start

    decode(job, batches, search, size(model))


if __name__ == "__main__":
    main(Job.from_arguments())
