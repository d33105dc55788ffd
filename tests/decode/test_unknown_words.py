"""Unknown tokens and word alignments."""

import pytest
import torch

from regard.decode import Hypothesis, pharaoh, replace_unknown


def hypothesis(tokens, alignment):
    return Hypothesis(tokens, -1.0, -1.0, alignment, True)


SOURCE = ["Anna", "wohnt", "in", "Münster", "</s>"]
WEIGHTS = torch.tensor(
    [
        [0.9, 0.1, 0.0, 0.0, 0.0],
        [0.1, 0.6, 0.2, 0.1, 0.0],
        [0.0, 0.1, 0.8, 0.1, 0.0],
        [0.0, 0.0, 0.0, 0.4, 0.6],  # most at the end mark
    ]
)


def test_unknown_words_are_translated_or_copied():
    found = hypothesis([3, 7, 8, 3], WEIGHTS)
    target = ["<unk>", "lives", "in", "<unk>"]
    assert replace_unknown(found, SOURCE[:4], target) == ["Anna", "lives", "in", "Münster"]
    assert replace_unknown(found, SOURCE[:4], target, {"Anna": "Ann"}) == ["Ann", "lives", "in", "Münster"]
    assert replace_unknown(found, SOURCE, target)[3] == "</s>"  # asked for
    assert target[0] == "<unk>"


def test_nothing_unknown_needs_no_alignment():
    assert replace_unknown(hypothesis([7, 8], None), SOURCE, ["lives", "in"]) == ["lives", "in"]
    assert replace_unknown(hypothesis([], None), SOURCE, []) == []
    assert replace_unknown(hypothesis([3], WEIGHTS[:1]), [], ["<unk>"]) == ["<unk>"]


def test_another_unknown_id():
    assert replace_unknown(hypothesis([9], WEIGHTS[:1]), SOURCE, ["?"], unk=9) == ["Anna"]


def test_misfits_are_named():
    with pytest.raises(ValueError, match="no alignment"):
        replace_unknown(hypothesis([3], None), SOURCE, ["<unk>"])
    with pytest.raises(ValueError, match="1 target tokens for a hypothesis of 2"):
        replace_unknown(hypothesis([3, 4], WEIGHTS[:2]), SOURCE, ["<unk>"])
    with pytest.raises(ValueError, match="6 source tokens for an alignment over 5"):
        replace_unknown(hypothesis([3], WEIGHTS[:1]), [*SOURCE, "!"], ["<unk>"])


def test_pharaoh_pairs_source_with_target():
    swapped = torch.tensor([[0.8, 0.1, 0.1], [0.0, 0.2, 0.8], [0.1, 0.7, 0.2]])
    assert pharaoh(swapped) == "0-0 1-2 2-1"
    assert pharaoh(torch.tensor([[0.4, 0.6], [0.1, 0.9]])) == "1-0 1-1"


def test_pharaoh_joins_the_tokens_of_a_word():
    # Source: do|n't | go, end; target: n|e | vas. The two halves of the first word win together.
    weights = torch.tensor([[0.33, 0.33, 0.34, 0.0], [0.2, 0.2, 0.6, 0.0], [0.1, 0.0, 0.5, 0.4]])
    assert pharaoh(weights) == "2-0 2-1 2-2"
    assert pharaoh(weights, source=[0, 0, 1, None]) == "0-0 1-1 1-2"
    assert pharaoh(weights, source=[0, 0, 1, None], target=[0, 0, 1]) == "0-0 1-1"
    assert pharaoh(weights, source=[0, 0, 1], target=[None, 0]) == "1-0"


def test_pharaoh_leaves_out_what_looked_at_nothing():
    assert pharaoh(torch.tensor([[0.0, 0.0], [0.0, 1.0]])) == "1-1"
    assert pharaoh(torch.zeros(0, 3)) == "" and pharaoh(torch.zeros(3, 0)) == ""
    assert pharaoh(torch.ones(1, 1), source=[None]) == ""


def test_pharaoh_refuses_more_words_than_there_are():
    with pytest.raises(ValueError, match="source names words for 3 tokens, but the alignment has 2"):
        pharaoh(torch.ones(1, 2), source=[0, 1, 2])
