"""Quality of captions, with several references each: BLEU-1 to BLEU-4 by sacrebleu, ROUGE-L and CIDEr-D by us.

All compare words as the COCO evaluation does (Chen et al. 2015, arXiv:1504.00325): in lower case, without punctuation.
Numbers are percentages; CIDEr-D may exceed 100.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, zip_longest

import numpy as np

from regard.data.scripts import BARE_LETTERS, UNSPACED

ORDERS = 4
_WORD = re.compile(rf"{BARE_LETTERS}(?:['’-]{BARE_LETTERS})*|{UNSPACED}|<unk>")


def words(text: str) -> list[str]:
    """The words that are compared: ``"A dog's ball ."`` → a, dog's, ball."""
    return _WORD.findall(text.lower())


def scores(texts: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[dict[str, float], dict[str, str]]:
    """``bleu1`` to ``bleu4``, ``rouge_l`` and ``cider_d`` of captions, and sacrebleu's signatures of the first four."""
    candidates, targets = _compared(texts, references)
    bleus, signatures = bleu(candidates, targets)
    return {**bleus, "rouge_l": rouge_l(candidates, targets), "cider_d": cider_d(candidates, targets)}, signatures


Words = list[str]


def bleu(given: Sequence[Words], wanted: Sequence[Sequence[Words]]) -> tuple[dict[str, float], dict[str, str]]:
    """Corpus BLEU with n-grams up to 1, 2, 3 and 4 words (Papineni et al. 2002), without smoothing, and the
    signatures."""
    from sacrebleu.metrics import BLEU

    hypotheses = [" ".join(caption) for caption in given]
    # One list for each place among the references; where a caption has fewer of them, None.
    columns = list(zip_longest(*([" ".join(reference) for reference in references] for references in wanted)))
    values, signatures = {}, {}
    for order in range(1, ORDERS + 1):
        metric = BLEU(max_ngram_order=order, tokenize="none", smooth_method="none")
        values[f"bleu{order}"] = metric.corpus_score(hypotheses, [list(column) for column in columns]).score
        signatures[f"bleu{order}"] = str(metric.get_signature())
    return values, signatures


def rouge_l(given: Sequence[Words], wanted: Sequence[Sequence[Words]], beta: float = 1.2) -> float:
    """ROUGE-L (Lin 2004): the F-measure of the longest common subsequence, of the greatest precision and the greatest
    recall among the references; the mean over captions."""
    total = 0.0
    for caption, references in zip(given, wanted, strict=True):
        common = [_common(caption, reference) for reference in references]
        precision = max(length / max(len(caption), 1) for length in common)
        recall = max(length / max(len(reference), 1) for length, reference in zip(common, references))
        if precision and recall:
            total += (1 + beta**2) * precision * recall / (recall + beta**2 * precision)
    return 100 * total / max(len(given), 1)


def cider_d(given: Sequence[Words], wanted: Sequence[Sequence[Words]], sigma: float = 6.0) -> float:
    """CIDEr-D (Vedantam, Zitnick & Parikh 2014, arXiv:1411.5726, section 5): the similarity of n-grams of 1 to 4 words,
    each counted by its rarity, less for captions of another length than the reference.

        g(w) = count(w) · log(images / max(1, images whose references have w))
        CIDEr-Dₙ = 10 · mean over references of exp(−(l_c − l_r)² / 2σ²) · min(g_c, g_r) · g_r / ‖g_c‖ ‖g_r‖

    How many images there are, and which of them have an n-gram, is taken from ``wanted``.
    """
    return sum(each_cider_d(given, wanted, sigma)) / max(len(given), 1)


def each_cider_d(given: Sequence[Words], wanted: Sequence[Sequence[Words]], sigma: float = 6.0) -> list[float]:
    """:func:`cider_d` of each caption, in percent as there."""
    grams = [[_grams(reference) for reference in references] for references in wanted]
    frequency = Counter(chain.from_iterable(set(chain.from_iterable(counts)) for counts in grams))
    images = math.log(max(len(grams), 1))

    def vector(caption: Words) -> tuple[dict[tuple[str, ...], float], np.ndarray]:
        rarities = {
            gram: count * (images - math.log(max(1, frequency[gram]))) for gram, count in _grams(caption).items()
        }
        squares = np.zeros(ORDERS)
        for gram, value in rarities.items():
            squares[len(gram) - 1] += value * value
        return rarities, np.sqrt(squares)

    values = []
    for caption, references in zip(given, wanted, strict=True):
        total = 0.0
        ours, norm = vector(caption)
        for reference in references:
            theirs, other = vector(reference)
            similarity = np.zeros(ORDERS)
            for gram, value in ours.items():
                if gram in theirs:
                    similarity[len(gram) - 1] += min(value, theirs[gram]) * theirs[gram]
            similarity = np.divide(similarity, norm * other, out=np.zeros(ORDERS), where=norm * other > 0)
            # The public evaluation takes the number of pairs of words as the length.
            difference = max(len(caption) - 1, 0) - max(len(reference) - 1, 0)
            total += similarity.mean() * math.exp(-(difference**2) / (2 * sigma**2)) / len(references)
        values.append(1000 * total)
    return values


def _grams(caption: Words) -> Counter[tuple[str, ...]]:
    """All n-grams up to :data:`ORDERS` words, with their counts."""
    return Counter(
        tuple(caption[first : first + order])
        for order in range(1, ORDERS + 1)
        for first in range(len(caption) - order + 1)
    )


def _common(one: Words, other: Words) -> int:
    """The length of the longest common subsequence."""
    best = [0] * (len(other) + 1)
    for word in one:
        before = 0
        for place, against in enumerate(other, 1):
            before, best[place] = best[place], before + 1 if word == against else max(best[place], best[place - 1])
    return best[-1]


def _compared(texts: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[list[Words], list[list[Words]]]:
    if not texts:
        raise ValueError("there are no captions to compare")
    if len(texts) != len(references):
        raise ValueError(f"{len(texts)} captions for {len(references)} images")
    for number, group in enumerate(references, 1):
        if not group:
            raise ValueError(f"image {number} has no reference to compare with")
    return [words(text) for text in texts], [[words(text) for text in group] for group in references]
