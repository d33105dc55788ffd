"""Quality of word alignments. An alignment is a set of links (source, target), word numbers from 0 as in Pharaoh's
``0-0 1-2``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

Link = tuple[int, int]


def alignment_error(
    links: Iterable[Iterable[Link]], sure: Iterable[Iterable[Link]], possible: Iterable[Iterable[Link]] | None = None
) -> float:
    """AER of a corpus, 1 − (|A∩S| + |A∩P|) / (|A| + |S|) (Och & Ney 2003); the sure links S are possible ones too."""
    sures = [set(gold) for gold in sure]
    possibles = [s | set(gold) for s, gold in zip(sures, possible)] if possible is not None else sures
    size = agreed = 0
    for ours, s, p in zip(links, sures, possibles, strict=True):
        ours = set(ours)
        size += len(ours) + len(s)
        agreed += len(ours & s) + len(ours & p)
    return 1 - agreed / size if size else 0.0


def aligned_within(weights: np.ndarray, gold: Iterable[Link], distance: int = 1) -> tuple[int, int]:
    """How many target words have their largest weight within ``distance`` of a gold link, and how many have such links.

    ``weights`` (T, S) has a row per target word; rows and columns beyond the words (eos) may follow.
    """
    sources: dict[int, list[int]] = {}
    for source, target in gold:
        sources.setdefault(target, []).append(source)
    peaks = np.asarray(weights).argmax(-1)
    near = sum(
        min(abs(int(peaks[target]) - source) for source in linked) <= distance for target, linked in sources.items()
    )
    return near, len(sources)


def argmax_links(weights: np.ndarray) -> list[Link]:
    """Each target word with the source word of its largest weight, from weights (T, S)."""
    return [(int(source), target) for target, source in enumerate(np.asarray(weights).argmax(-1))]


def pharaoh(text: str) -> list[Link]:
    """``"0-0 1-2"`` → [(0, 0), (1, 2)]."""
    links = re.findall(r"(\d+)-(\d+)", text)
    return [(int(source), int(target)) for source, target in links]


def kendall(weights: np.ndarray) -> float:
    """Kendall's τ_b between the rows of weights (T, S) and the columns of their largest weights: 1 if attention only
    moves forward, −1 if it only moves back; 1 for a single row."""
    peaks = np.asarray(weights).argmax(-1)
    ahead = np.sign(peaks[None, :] - peaks[:, None])[np.triu_indices(len(peaks), 1)]
    untied = np.count_nonzero(ahead)
    if not untied:
        return 1.0 if len(peaks) < 2 else 0.0
    return float(ahead.sum() / np.sqrt(float(len(ahead)) * untied))
