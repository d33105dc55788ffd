"""``torch.nn.Transformer`` as a careful user writes it: bucketed batches, fused Adam, the loss of PyTorch.

Timed: batch, forward, backward, clipping, Adam. Pre-norm; as in ours, dropout on embeddings and sub-layers only. The
logits are computed at padding too, of which bucketing leaves little.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import torch
from common import Job, Window, size, train
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

DIM, PAD, BOS, EOS = 256, 0, 1, 2


class Model(nn.Module):
    """Embeddings, sinusoids, nn.Transformer, tied output."""

    def __init__(self, vocab: int):
        super().__init__()
        self.words = nn.Embedding(vocab, DIM, padding_idx=PAD)
        nn.init.normal_(self.words.weight, std=DIM**-0.5)
        self.dropout = nn.Dropout(0.1)
        self.both = nn.Transformer(DIM, 4, 3, 3, 1024, 0.1, batch_first=True, norm_first=True)
        for layer in [*self.both.encoder.layers, *self.both.decoder.layers]:
            layer.dropout.p = 0.0  # inside the feed-forward network
            layer.self_attn.dropout = 0.0
            if hasattr(layer, "multihead_attn"):
                layer.multihead_attn.dropout = 0.0
        angle = torch.arange(512)[:, None] * torch.exp(torch.arange(0, DIM, 2) * (-math.log(10000) / DIM))
        self.register_buffer("places", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))

    def embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.words(tokens) * DIM**0.5 + self.places[: tokens.shape[1]])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """The smoothed loss."""
        empty, length = source == PAD, target.shape[1] - 1
        causal = nn.Transformer.generate_square_subsequent_mask(length)
        hidden = self.both(
            self.embed(source),
            self.embed(target[:, :-1]),
            tgt_mask=causal,
            src_key_padding_mask=empty,
            memory_key_padding_mask=empty,
            tgt_is_causal=True,
        )
        logits = hidden @ self.words.weight.T
        return nn.functional.cross_entropy(
            logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1
        )


def buckets(pairs: list[tuple[list[int], list[int]]], tokens: int) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Batches of like length with at most so many slots a side, endlessly."""
    order = random.Random(0)
    while True:
        order.shuffle(pairs)
        groups, group, widest = [], [], 0
        for pair in sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0]))):
            wider = max(widest, len(pair[0]) + 1, len(pair[1]) + 1)
            if group and wider * (len(group) + 1) > tokens:
                groups.append(group)
                group, wider = [], max(len(pair[0]), len(pair[1])) + 1
            group.append(pair)
            widest = wider
        groups.append(group)
        order.shuffle(groups)
        yield from groups


def main(job: Job) -> None:
    """Measure."""
    torch.set_num_threads(job.threads)
    torch.manual_seed(0)
    model = Model(job.vocab)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    pairs = list(zip(job.ids("train.src"), job.ids("train.tgt"), strict=True))

    def loop(window: Window) -> None:
        window.parameters = size(model.train())
        for group in buckets(pairs, job.tokens):
            window.step(sum(len(target) + 1 for _, target in group))
            source = pad_sequence([torch.tensor([*ids, EOS]) for ids, _ in group], True)
            target = pad_sequence([torch.tensor([BOS, *ids, EOS]) for _, ids in group], True)
            model(source, target).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            adam.zero_grad()

    train(job, loop)


if __name__ == "__main__":
    main(Job.from_arguments())
