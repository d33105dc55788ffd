"""Candidate lists and the dictionary they come from."""

from __future__ import annotations

import pytest
import torch

from regard import decode
from regard.data import lexicon
from regard.decode.candidates import Candidates, translation_ids


class Flat:
    """Writes the same scores at every step, and says where it looked."""

    def __init__(self, scores):
        self.scores = torch.tensor(scores)

    def start(self, batch):
        return {"alignment": batch["source"].new_zeros(batch["source"].shape).float()}

    def step(self, token, state):
        return self.scores.expand(len(token), -1), state

    def alignment(self, state):
        return state["alignment"]


def test_each_sentence_has_its_own_candidates():
    table = torch.tensor([[0, 0]] * 4 + [[6, 0], [7, 5]])
    model = Candidates(Flat([-9.0, -9.0, 0.0, -9.0, 1.0, 2.0, 3.0, 4.0, 5.0]), table, 4)
    batch = {"source": torch.tensor([[4, 2], [5, 2]])}
    logits, state = model.step(torch.tensor([1, 1]), model.start(batch))
    assert [row.isfinite().nonzero()[:, 0].tolist() for row in logits] == [[0, 1, 2, 3, 6], [0, 1, 2, 3, 5, 7]]
    assert model.alignment(state).shape == (2, 2)
    found = decode.greedy(model, batch, max_length=3)
    assert [best.tokens[0] for best, *_ in found] == [6, 7]
    with pytest.raises(ValueError, match="reserved"):
        Candidates(Flat([0.0]), table, 3)


def test_model_1_learns_which_word_is_which():
    source = [["the", "house"], ["the", "book"], ["a", "book"]]
    target = [["das", "haus"], ["das", "buch"], ["ein", "buch"]]
    found = lexicon.learn(source, target, rounds=20)
    assert lexicon.best(found) == {"the": "das", "house": "haus", "book": "buch", "a": "ein"}
    assert sum(share for _, share in lexicon.learn(source, target, least=0)["the"]) == pytest.approx(1)
    with pytest.raises(ValueError, match="sentences"):
        lexicon.learn(source, target[:2])


def test_one_round_is_the_textbooks():
    # t uniform: every target word is shared by both words and the empty one, a third each.
    found = dict(lexicon.learn([["a", "b"], ["a"]], [["x"], ["y"]], rounds=1)["a"])
    assert found == pytest.approx({"y": (1 / 2) / (1 / 2 + 1 / 3), "x": (1 / 3) / (1 / 2 + 1 / 3)})


def test_ids_of_translations():
    table = translation_ids({"a": [("x", 0.5), ("q", 0.3), ("y", 0.2)]}, {"a": 4, "b": 5}, {"x": 7, "y": 9}, 2)
    assert table[4].tolist() == [7, 9] and table[5].tolist() == [0, 0]
