"""States: what is moved, and what need not be."""

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import regard
from decode.models import Looking, Prefixes
from regard import decode
from regard.memory import Memory

Pair = namedtuple("Pair", "hidden cell")


@dataclass
class Unregistered:
    hidden: torch.Tensor


def test_select_goes_through_every_container():
    rows = torch.arange(6.0).reshape(3, 2)
    memory = regard.Attention("dot").remember(rows[:, None], mask=regard.masks.lengths(torch.tensor([1, 0, 1])))
    state = {"lstm": [Pair(rows, -rows)], "memory": (memory, None), "t": 3}
    chosen = decode.select(state, torch.tensor([2, 2, 0, 1]))
    assert isinstance(chosen["lstm"][0], Pair)
    assert chosen["lstm"][0].cell.tolist() == [[-4, -5], [-4, -5], [0, -1], [-2, -3]]
    assert chosen["memory"][0].key[:, 0].tolist() == [[4, 5], [4, 5], [0, 1], [2, 3]]
    assert chosen["memory"][0].mask.lengths.tolist() == [1, 1, 1, 0]
    assert chosen["memory"][1] is None and chosen["t"] == 3
    assert decode.select(state, torch.tensor([], dtype=torch.long))["lstm"][0].hidden.shape == (0, 2)


def test_what_cannot_be_selected_is_named():
    with pytest.raises(TypeError, match="not Unregistered"):
        decode.select({"state": Unregistered(torch.zeros(2, 1))}, torch.tensor([0]))


class Counting(nn.Module):
    """A recurrent model over a source that it never changes; tells how often each was moved."""

    def __init__(self, vocab: int = 7, in_place: bool = False):
        super().__init__()
        self.cell, self.out = nn.GRUCell(vocab, 6), nn.Linear(6, vocab)
        self.vocab, self.in_place = vocab, in_place
        self.sources: set[int] = set()
        self.keep: list[torch.Tensor] = []
        self.double().eval()

    def start(self, batch):
        hidden = batch["source"].double().repeat(1, 6)
        return {"source": batch["source"].clone(), "hidden": hidden, "sum": torch.zeros_like(batch["source"])}

    def step(self, token, state):
        self.keep.append(state["source"])  # so that no address is used twice
        self.sources.add(id(state["source"]))
        hidden = self.cell(nn.functional.one_hot(token, self.vocab).double(), state["hidden"])
        if self.in_place:
            total = state["sum"]
            total += token[:, None]  # the same tensor, though each row has another history
        else:
            total = state["sum"] + token[:, None]
        logits = 4 * self.out(hidden)
        logits = logits + total % 3 * torch.arange(self.vocab)
        return logits, {"source": state["source"], "hidden": hidden, "sum": total}

    def alignment(self, state):
        return state["sum"]


def test_the_source_is_moved_only_with_its_sentences():
    torch.manual_seed(0)
    model = Counting()
    model.out.bias.data[2] = -10.0  # nothing ends
    batch = {"source": torch.arange(3)[:, None]}
    decode.beam(model, batch, size=4, max_length=12)
    assert len(model.sources) == 2  # as it was given, and spread over the beam


def test_a_model_that_writes_into_its_state_is_still_right():
    batch = {"source": torch.arange(5)[:, None]}
    for seed in range(5):
        torch.manual_seed(seed)
        one = Counting()
        other = Counting(in_place=True)
        other.load_state_dict(one.state_dict())
        pure, written = (decode.beam(model, batch, size=4, nbest=4, max_length=9) for model in (one, other))
        for a, b in zip(pure, written):
            assert [h.tokens for h in a] == [h.tokens for h in b]
            assert [h.score for h in a] == pytest.approx([h.score for h in b])


def test_inference_mode_changes_nothing():
    torch.manual_seed(0)
    model, batch = Counting(), {"source": torch.arange(3)[:, None]}
    expected = [h.tokens for (h,) in decode.beam(model, batch, max_length=9)]
    with torch.inference_mode():
        assert [h.tokens for (h,) in decode.beam(model, batch, max_length=9)] == expected


def test_nothing_is_moved_while_the_order_stays(monkeypatch):
    torch.manual_seed(1)
    model = Looking(ending=-20.0)
    batch = {"source": torch.randint(4, 11, (4, 5)), "source_lengths": torch.tensor([5, 1, 3, 4])}
    selected = []
    select = Memory.select
    monkeypatch.setattr(Memory, "select", lambda memory, index: selected.append(len(index)) or select(memory, index))
    decode.greedy(model, batch, max_length=8)
    assert selected == []
    decode.greedy(model, batch, max_length=torch.tensor([8, 8, 3, 8]))
    assert selected == [3, 3]  # the source and the cache, when the third sentence left


def test_states_whose_batch_is_not_first_are_refused():
    class Wrong(Prefixes):
        def start(self, batch):
            return {**super().start(batch), "hidden": torch.zeros(2, len(batch["sentence"]), 4)}

    model = Wrong(torch.zeros(3, 1, 4))
    with pytest.raises(ValueError, match=r"batch first, but start gave \(3,\), \(3,\), \(2, 3, 4\)"):
        decode.greedy(model, model.batch(), max_length=3)


def test_logits_of_the_wrong_shape_are_refused():
    class Wrong(Prefixes):
        def step(self, token, state):
            logits, state = super().step(token, state)
            return logits[:, None], state

    model = Wrong(torch.zeros(3, 1, 4))
    with pytest.raises(ValueError, match=r"logits \(3, 1, 4\) for 3 tokens"):
        decode.greedy(model, model.batch(), max_length=3)


def test_a_state_without_tensors_is_refused():
    class Wrong(Prefixes):
        def start(self, batch):
            return {"t": 0}

    model = Wrong(torch.zeros(3, 1, 4))
    with pytest.raises(ValueError, match="without a tensor"):
        decode.greedy(model, model.batch(), max_length=3)
