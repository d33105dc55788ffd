"""A dictionary learned from parallel text: IBM Model 1.

Brown, Della Pietra, Della Pietra & Mercer 1993, *The Mathematics of Statistical Machine Translation*. Every target word
comes from one source word of its sentence or from none, whatever the order; t(f | e) is learned by
expectation-maximization:

    p(i | j) = t(f_j | e_i) / Σ_k t(f_j | e_k),    t(f | e) ∝ Σ p(i | j) over all pairs with e_i = e and f_j = f

Jean et al. 2015 took theirs from fast_align, which adds a preference for the diagonal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

NOWHERE = ""
"""The source word that stands for none."""


def learn(
    source: Sequence[Sequence[str]], target: Sequence[Sequence[str]], *, rounds: int = 5, least: float = 0.01
) -> dict[str, list[tuple[str, float]]]:
    """The translations of each source word and their probabilities, the likeliest first; those below ``least`` are left
    out. Sentences are lists of words."""
    if len(source) != len(target):
        raise ValueError(f"{len(source)} source sentences for {len(target)} target sentences")
    source_numbers, target_numbers = _numbers(source, NOWHERE), _numbers(target)
    links, slots, slot = [], [], 0  # of each possible link: its pair of words, and the target word that it explains
    for sentence, translated in zip(source, target):
        sources = np.array([source_numbers[NOWHERE], *(source_numbers[word] for word in sentence)])
        targets = np.array([target_numbers[word] for word in translated], dtype=np.int64)
        links.append((sources[None, :] * len(target_numbers) + targets[:, None]).ravel())
        slots.append(np.repeat(np.arange(slot, slot + len(targets)), len(sources)))
        slot += len(targets)
    if not slot:
        return {}
    kinds, link = np.unique(np.concatenate(links), return_inverse=True)
    explains, origin = np.concatenate(slots), kinds // len(target_numbers)
    table = np.ones(len(kinds))
    for _ in range(rounds):
        share = table[link]
        share /= np.bincount(explains, share, minlength=slot)[explains]
        counted = np.bincount(link, share, minlength=len(kinds))
        table = counted / np.bincount(origin, counted, minlength=len(source_numbers))[origin]
    lexicon: dict[str, list[tuple[str, float]]] = {}
    source_words, target_words = list(source_numbers), list(target_numbers)
    for number in np.lexsort((kinds, -table)):
        if table[number] >= least and source_words[origin[number]] != NOWHERE:
            pair = target_words[kinds[number] % len(target_numbers)], float(table[number])
            lexicon.setdefault(source_words[origin[number]], []).append(pair)
    return lexicon


def best(lexicon: Mapping[str, Sequence[tuple[str, float]]]) -> dict[str, str]:
    """The likeliest translation of each word."""
    return {word: translations[0][0] for word, translations in lexicon.items()}


def _numbers(sentences: Sequence[Sequence[str]], *first: str) -> dict[str, int]:
    return {word: number for number, word in enumerate(dict.fromkeys([*first, *(w for s in sentences for w in s)]))}
