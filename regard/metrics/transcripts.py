"""Word and character error rates of transcripts, by jiwer."""

from __future__ import annotations

from collections.abc import Sequence


def errors(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
    """``wer`` and ``cer`` in percent, (substitutions + deletions + insertions) / length of the reference over all, and
    the version of jiwer that computed them."""
    if not references:
        raise ValueError("there are no transcripts to compare")
    try:
        import jiwer
    except ImportError:
        raise ValueError("word and character error rates need jiwer: pip install 'regard[sound]'") from None
    words = jiwer.process_words(list(references), list(hypotheses))
    letters = jiwer.process_characters(list(references), list(hypotheses))
    from importlib.metadata import version

    version_of_jiwer = f"jiwer {version('jiwer')}"
    return {"wer": 100 * words.wer, "cer": 100 * letters.cer}, {"wer": version_of_jiwer, "cer": version_of_jiwer}
