"""How large word vectors are at first."""

import pytest
import torch

from regard.layers import text
from regard.systems import luong, rnnsearch, seq2seq

SYSTEMS = {
    "luong": (luong.Config, luong.Luong),
    "rnnsearch": (rnnsearch.Config, rnnsearch.RNNsearch),
    "seq2seq": (seq2seq.Config, seq2seq.Seq2seq),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("spread", [None, 1.0])
def test_word_vectors_are_as_large_as_asked_and_padding_is_zero(name, spread):
    config, system = SYSTEMS[name]
    given = {} if spread is None else {"spread": spread}
    model = system(config(300, 400, embedding=64, hidden=16, **given))
    for words in (model.source, model.target):
        assert words.weight[1:].std().item() == pytest.approx(model.config.spread, rel=0.05)
        assert torch.count_nonzero(words.weight[text.PAD]) == 0
    assert model.output.weight.std() < 0.2  # nothing else grew


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_negative_spread_is_a_plain_mistake(name):
    config, system = SYSTEMS[name]
    with pytest.raises(ValueError, match=r"spread.*at least 0, not -1"):
        system(config(30, 40, embedding=8, hidden=8, spread=-1.0))
