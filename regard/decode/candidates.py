"""Candidate lists: of a large vocabulary, an answer may use only frequent words and translations of its source's words.

Jean et al. 2015 (arXiv:1412.2007), section 3.3: the K most frequent target words and, for each source word, its K′
likeliest translations by a dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decode.states import Writer


class Candidates:
    """A Writer that writes only candidates; all but ``start``, ``step`` and ``alignment`` is passed on to the Writer
    that it wraps.

    Args:
        model: a writer that reads ``source`` (B, S).
        translations: (source vocabulary, K′) target ids; 0, padding, where a word has fewer.
        frequent: K. Ids are in order of frequency, as a vocabulary of words has them; the reserved ones are among them.
    """

    def __init__(self, model: Writer, translations: Tensor, frequent: int):
        if frequent < 4:
            raise ValueError(f"frequent = {frequent}: at least 4, the reserved ids, of which one ends an answer")
        self._model, self.translations, self.frequent = model, translations, frequent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def start(self, batch: Any) -> Any:
        listed = self.translations.to(batch["source"].device)[batch["source"]].flatten(1)  # (B, S K′)
        return {"state": self._model.start(batch), "listed": listed}

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, new = self._model.step(token, state["state"])
        left_out = torch.ones_like(logits, dtype=torch.bool)
        left_out[:, : self.frequent] = False
        left_out.scatter_(1, state["listed"], False)
        return logits.masked_fill(left_out, float("-inf")), {"state": new, "listed": state["listed"]}

    def alignment(self, state: Any) -> Any:
        model: Any = self._model
        return model.alignment(state["state"])


def translation_ids(
    lexicon: Mapping[str, Sequence[tuple[str, float]]],
    source: Mapping[str, int],
    target: Mapping[str, int],
    most: int,
) -> Tensor:
    """(source vocabulary, most): for each source id the ids of the likeliest translations that the target's vocabulary
    has. Words are spelled without the space before them."""
    table = torch.zeros(max(source.values(), default=0) + 1, most, dtype=torch.long)
    for word, source_id in source.items():
        target_ids = [target[other] for other, _ in lexicon.get(word, ()) if other in target][:most]
        table[source_id, : len(target_ids)] = torch.tensor(target_ids, dtype=torch.long)
    return table
