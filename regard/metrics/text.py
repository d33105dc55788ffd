"""Quality of translations, with references. BLEU, chrF and TER are sacrebleu's, with its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_BLEU_TOKENIZERS = {"zh": "zh", "ja": "char", "th": "char", "lo": "char", "km": "char", "my": "char"}


def scores(
    hypotheses: Sequence[str], references: Sequence[str], language: str = "", lowercase: bool = False
) -> tuple[dict[str, float], dict[str, str]]:
    """Corpus BLEU, chrF and TER (lower is better), and for each the signature that makes it comparable.

    Case counts for BLEU and chrF unless ``lowercase``; TER takes no notice of it, as is usual. BLEU tokenizes as
    mteval-v13a, or as the target ``language`` needs if it has no spaces.
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
        words, reference_words = hypothesis.split(), reference.split()
        right += sum(a == b for a, b in zip(words, reference_words))
        total += max(len(words), len(reference_words))
    return right / max(total, 1)


def _same_number(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} translations for {len(references)} references")
