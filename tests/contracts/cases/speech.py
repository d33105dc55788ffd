"""Speech: four utterances of different lengths with transcripts of different lengths."""

import torch

from contracts.cases import Batch, Case
from contracts.cases.captions import captions

VOCAB, FRAMES, WIDTH = 23, 11, 6
LENGTHS = torch.tensor([11, 7, 3, 8])


def utterances() -> Batch:
    batch = captions()
    del batch["features"]
    generator = torch.Generator().manual_seed(1)
    return {"frames": torch.randn((4, FRAMES, WIDTH), generator=generator), "frame_lengths": LENGTHS, **batch}


def alone(batch: Batch) -> list[Batch]:
    """The utterances one by one, without padding."""
    found = []
    for row, (length, frames) in enumerate(zip(batch["target_lengths"], batch["frame_lengths"])):
        one = {name: tensor[row : row + 1] for name, tensor in batch.items()}
        found.append({**one, "frames": one["frames"][:, :frames], "target": one["target"][:, : length + 1]})
    return found


def frames(batch: Batch) -> torch.Tensor:
    return torch.arange(FRAMES) < batch["frame_lengths"][:, None]


def _las(**options: object) -> Case:
    sizes = {"vocab": VOCAB, "features": WIDTH, "listener": 5, "embedding": 4, "speller": 7, "attention": 6}
    return Case({**sizes, "pyramid": 2, **options}, utterances, alone, columns=frames)


def _recognizer(**options: object) -> Case:
    sizes = {"vocab": VOCAB, "features": WIDTH, "listener": 5, "embedding": 4, "decoder": 7, "maxout": 6}
    score = {"attention": 6, "filters": 2, "kernel": 3}
    return Case({**sizes, **score, "layers": 2, **options}, utterances, alone, columns=frames)


CASES = {
    "listen_attend_spell": [_las(), _las(pyramid=0, join=3), _las(layers=1, sampling=0.0, ctc=0.3)],
    "attention_recognizer": [
        _recognizer(),
        _recognizer(score="content", halvings=1, join=2),
        _recognizer(smooth=True, cell="lstm"),
        _recognizer(halvings=2, sharpen=2.0, keep=2),
        _recognizer(window=1),
        _recognizer(monotonic=0.5, ctc=0.3),
        _recognizer(score="content", window=1, sharpen=3.0),
    ],
}
