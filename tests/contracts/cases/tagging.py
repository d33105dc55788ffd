"""Taggers: words of several tokens and characters, tags."""

import torch

from contracts.cases import Batch, Case

B, S, W, C, VOCAB, TAGS, ALPHABET = 4, 9, 5, 4, 23, 5, 12
TOKENS, LENGTHS = torch.tensor([9, 7, 6, 2]), torch.tensor([5, 4, 3, 1])


def words() -> Batch:
    """Sentences of different lengths; the first token belongs to no word."""
    generator = torch.Generator().manual_seed(0)
    real = torch.arange(W) < LENGTHS[:, None]
    places = torch.tensor([[1, 2, 4, 5, 7], [1, 3, 4, 5, 0], [1, 2, 4, 0, 0], [1, 0, 0, 0, 0]])
    letters = torch.randint(4, ALPHABET, (B, W, C), generator=generator)
    letters[:, 1, 2:] = 0
    return {
        "source": torch.randint(4, VOCAB, (B, S), generator=generator) * (torch.arange(S) < TOKENS[:, None]),
        "source_lengths": TOKENS.clone(),
        "places": places,
        "lengths": LENGTHS.clone(),
        "characters": letters * real[..., None],
        "shapes": torch.randint(1, 8, (B, W), generator=generator) * real,
        "tags": torch.randint(TAGS, (B, W), generator=generator) * real,
    }


def alone(batch: Batch) -> list[Batch]:
    """The sentences one by one, without padding."""
    found = []
    for b in range(B):
        row = {name: tensor[b : b + 1] for name, tensor in batch.items()}
        row |= {name: row[name][:, : LENGTHS[b]] for name in ("places", "characters", "shapes", "tags")}
        found.append({**row, "source": row["source"][:, : TOKENS[b]]})
    return found


SMALL = {"vocab": VOCAB, "tags": TAGS, "alphabet": ALPHABET, "embedding": 6, "filters": 4, "hidden": 7}
SMALL |= {"dropout": 0.0, "word_dropout": 0.0}
LAYERS = {"encoder": "transformer", "dim": 8, "heads": 2, "layers": 2, "joint": 6}
CASES = {
    "tagger": [
        Case({**SMALL, "joint": 6, "outside": 2, "margin": 1.0}, words, alone, looks=False),
        Case({**SMALL, "joint": 6, "crf": False, "filters": 0}, words, alone, looks=False),
        Case({**SMALL, **LAYERS}, words, alone),
        Case({**SMALL, **LAYERS, "crf": False, "filters": 0, "norm": "post"}, words, alone),
    ],
    "aligned_tagger": [
        Case({**SMALL, "attention": 5, "tag_embedding": 3, "aligned": aligned}, words, alone)
        for aligned in (True, False)
    ],
}
