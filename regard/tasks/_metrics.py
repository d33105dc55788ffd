"""How good are translations and alignments? BLEU, chrF and TER are sacrebleu's, with its signatures.

Alignments are sets of (source, target) word numbers, from 0, the order of Pharaoh's ``0-0 1-2``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Link = tuple[int, int]

_BLEU_TOKENIZERS = {"zh": "zh", "ja": "char", "th": "char", "lo": "char", "km": "char", "my": "char"}


def scores(
    hypotheses: Sequence[str], references: Sequence[str], language: str = "", lowercase: bool = False
) -> tuple[dict[str, float], dict[str, str]]:
    """Corpus BLEU, chrF and TER (lower is better), and for each the signature that makes it comparable.

    Case counts unless ``lowercase``. BLEU tokenizes as mteval-v13a, or as the target ``language`` needs if it has no
    spaces.
    """
    from sacrebleu.metrics import BLEU, CHRF, TER

    _same_number(hypotheses, references)
    tokenizer = _BLEU_TOKENIZERS.get(language.split("-")[0].split("_")[0].lower(), "13a")
    metrics: dict[str, Any] = {
        "bleu": BLEU(lowercase=lowercase, tokenize=tokenizer),
        "chrf": CHRF(lowercase=lowercase),
        "ter": TER(),
    }
    values = {name: metric.corpus_score(list(hypotheses), [list(references)]).score for name, metric in metrics.items()}
    return values, {name: str(metric.get_signature()) for name, metric in metrics.items()}


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share of sentences that are the reference, word for word."""
    _same_number(hypotheses, references)
    same = [hypothesis.split() == reference.split() for hypothesis, reference in zip(hypotheses, references)]
    return sum(same) / max(len(same), 1)


def word_accuracy(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share of words that stand where the reference has them; each word too many counts as wrong."""
    _same_number(hypotheses, references)
    right = total = 0
    for hypothesis, reference in zip(hypotheses, references):
        ours, wanted = hypothesis.split(), reference.split()
        right += sum(a == b for a, b in zip(ours, wanted))
        total += max(len(ours), len(wanted))
    return right / max(total, 1)


def alignment_error(
    links: Iterable[Iterable[Link]], sure: Iterable[Iterable[Link]], possible: Iterable[Iterable[Link]] | None = None
) -> float:
    """AER of a corpus, 1 − (|A∩S| + |A∩P|) / (|A| + |S|) (Och & Ney 2003); the sure links S are possible ones too."""
    sures = [set(gold) for gold in sure]
    possibles = [s | set(gold) for s, gold in zip(sures, possible)] if possible is not None else sures
    found = agreed = 0
    for ours, s, p in zip(links, sures, possibles, strict=True):
        ours = set(ours)
        found += len(ours) + len(s)
        agreed += len(ours & s) + len(ours & p)
    return 1 - agreed / found if found else 0.0


def aligned_within(weights: np.ndarray, gold: Iterable[Link], distance: int = 1) -> tuple[int, int]:
    """How many target words with gold links looked hardest within ``distance`` of one, and how many there are.

    ``weights`` (T, S) has a row per target word; rows and columns beyond the words (eos) may follow.
    """
    sources: dict[int, list[int]] = {}
    for source, target in gold:
        sources.setdefault(target, []).append(source)
    peaks = np.asarray(weights).argmax(-1)
    near = sum(
        min(abs(int(peaks[target]) - source) for source in found) <= distance for target, found in sources.items()
    )
    return near, len(sources)


def argmax_links(weights: np.ndarray) -> list[Link]:
    """Each target word with the source word that it looked at hardest, from weights (T, S)."""
    return [(int(source), target) for target, source in enumerate(np.asarray(weights).argmax(-1))]


def pharaoh(text: str) -> list[Link]:
    """``"0-0 1-2"`` → [(0, 0), (1, 2)]."""
    links = re.findall(r"(\d+)-(\d+)", text)
    return [(int(source), int(target)) for source, target in links]


def _same_number(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} translations for {len(references)} references")
