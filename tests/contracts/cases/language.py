"""Language: running text, texts with holes, sentences and pairs of them."""

import torch

from contracts.cases import Batch, Case
from contracts.cases.text import VOCAB, B, S, alone, pairs

LENGTHS, MORE = torch.tensor([7, 5, 3, 1]), torch.tensor([2, 4, 1, 5])


def holes() -> Batch:
    """Texts of which some tokens are hidden, in two segments."""
    batch = pairs()
    wanted = torch.where(torch.rand(B, S, generator=torch.Generator().manual_seed(1)) < 0.4, batch["source"], 0)
    wanted[:, 0] = 5
    segments = (torch.arange(S) > 2).long().expand(B, S) * (batch["source"] > 0)
    follows = torch.tensor([0, 1, 1, 0])
    return {
        "source": batch["source"],
        "source_lengths": batch["source_lengths"],
        "segments": segments,
        "wanted": torch.where(batch["source"] > 0, wanted, 0),
        "follows": follows,
    }


def sentences(pair: bool) -> Batch:
    """Sentences with a label, alone or followed by a second one."""
    batch = pairs()
    found = {"source": batch["source"], "source_lengths": batch["source_lengths"], "label": torch.tensor([0, 2, 1, 2])}
    if pair:
        second = torch.randint(4, VOCAB, (B, 5), generator=torch.Generator().manual_seed(2))
        found["second"] = torch.where(torch.arange(5) < MORE[:, None], second, 0)
        found["second_lengths"] = MORE.clone()
    return found


def apart(batch: Batch) -> list[Batch]:
    """The items one by one, without padding."""
    found = []
    for b in range(B):
        row = {name: tensor[b : b + 1] for name, tensor in batch.items()}
        for name in ("source", "segments", "wanted"):
            if name in row:
                row[name] = row[name][:, : LENGTHS[b]]
        if "second" in row:
            row["second"] = row["second"][:, : MORE[b]]
        found.append(row)
    return found


SMALL = {"vocab": VOCAB, "longest": 16, "dim": 16, "heads": 2, "hidden": 24, "layers": 2, "dropout": 0.0}


def _classes(pair: bool, **options: object) -> Case:
    return Case({**SMALL, "classes": 3, **options}, lambda: sentences(pair), apart)


TAPE = {"vocab": VOCAB, "longest": 8, "embedding": 8, "hidden": 10, "attention": 7, "joint": 6, "dropout": 0.0}
CASES = {
    "gpt": [
        Case({**SMALL, **choices}, pairs, alone)
        for choices in (
            {},
            {"positions": "rotary", "tied": False, "norm": "post"},
            {"positions": "rotary", "window": 2, "key_heads": 1},
        )
    ],
    "bert": [
        Case(SMALL, holes, apart),
        Case({**SMALL, "pairs": True, "norm": "pre"}, holes, apart),
        _classes(False),
        _classes(True, positions="rotary"),
    ],
    "lstmn": [
        Case({**TAPE, "layers": 2}, pairs, alone),
        Case({**TAPE, "tied": True, "embedding": 10}, pairs, alone),
        Case({**TAPE, "intra": False}, pairs, alone, looks=False),
        *(
            Case({**TAPE, "classes": 3, "pairs": pair, **choices}, lambda pair=pair: sentences(pair), apart)
            for pair, choices in (
                (False, {"layers": 2}),
                (False, {"pool": "last"}),
                (True, {"fusion": "shallow", "layers": 2}),
                (True, {"fusion": "deep"}),
                (True, {"fusion": "none"}),
                (True, {"fusion": "deep", "intra": False}),
            )
        ),
    ],
}
