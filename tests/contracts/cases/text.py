"""Sequence to sequence: four pairs of different lengths."""

from functools import partial

import torch

from contracts.cases import Batch, Case

VOCAB, B, S, T = 23, 4, 7, 6


def pairs() -> Batch:
    """Four pairs of different lengths."""
    generator = torch.Generator().manual_seed(0)
    source, target = (torch.randint(4, VOCAB, (B, n), generator=generator) for n in (S, T + 1))
    source_lengths, target_lengths = torch.tensor([7, 5, 3, 1]), torch.tensor([6, 4, 6, 2])
    target[:, 0] = 1
    for b in range(B):
        source[b, source_lengths[b] :] = 0
        target[b, target_lengths[b]] = 2
        target[b, target_lengths[b] + 1 :] = 0
    return {
        "source": source,
        "source_lengths": source_lengths,
        "target": target,
        "target_lengths": target_lengths,
    }


def alone(batch: Batch) -> list[Batch]:
    """The pairs one by one, without padding."""
    return [
        {
            "source": batch["source"][b : b + 1, : int(batch["source_lengths"][b])],
            "source_lengths": batch["source_lengths"][b : b + 1],
            "target": batch["target"][b : b + 1, : int(batch["target_lengths"][b]) + 1],
            "target_lengths": batch["target_lengths"][b : b + 1],
        }
        for b in range(len(batch["source"]))
    ]


def affiliated() -> Batch:
    """The same with the source token that each target token comes from."""
    batch = pairs()
    places = torch.arange(T)[None] % batch["source_lengths"][:, None]
    return {**batch, "affiliation": places}


def alone_affiliated(batch: Batch) -> list[Batch]:
    """These one by one."""
    rows = alone(batch)
    if "affiliation" in batch:
        for b, row in enumerate(rows):
            row["affiliation"] = batch["affiliation"][b : b + 1, : int(batch["target_lengths"][b])]
    return rows


def _case(looks: bool = True, **options: object) -> Case:
    sizes = {"source_vocab": VOCAB, "target_vocab": VOCAB, "dropout": 0.0}
    return Case({**sizes, **options}, pairs, alone, looks=looks)


_transformer = partial(_case, dim=16, heads=2, hidden=24)
_luong = partial(_case, embedding=8, hidden=12, layers=2, radius=2)
CASES = {
    "transformer": [
        _transformer(encoder_layers=2, decoder_layers=2),
        _transformer(encoder_layers=1, decoder_layers=2, norm="pre", tied=False),
        _transformer(encoder_layers=1, decoder_layers=1, score="additive"),
        _transformer(encoder_layers=1, decoder_layers=1, alignment_head=1),
    ],
    "rnnsearch": [_case(embedding=8, hidden=12, attention=10, maxout=6)],
    "luong": [
        *(
            _luong(score=score, local=local, feed=feed, reverse=feed)
            for score in ("dot", "general", "additive", "cosine", "location")
            for local in ("none", "m", "p")
            for feed in (True, False)
        ),
        *(_luong(local="none", normalizer=normalizer) for normalizer in ("sparsemax", "hard")),
        _luong(attention=False, looks=False),
    ],
    "nnjm": [
        Case(
            {"source_vocab": VOCAB, "target_vocab": VOCAB, "embedding": 6, "hidden": 10, "radius": 2, "attention": 7},
            affiliated,
            alone_affiliated,
        )
    ],
    "seq2seq": [
        _case(embedding=8, hidden=12, layers=2),
        _case(embedding=8, hidden=12, layers=1, cell="gru", feed_summary=True, maxout=6, reverse=False),
    ],
}
