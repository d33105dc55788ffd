"""Models that decide together."""

import math

import pytest
import torch

from decode.models import Looking, Prefixes
from regard import decode


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return {
        "source": torch.randint(4, 11, (4, 5)),
        "source_lengths": torch.tensor([5, 1, 3, 4]),
        "sentence": torch.arange(4),
    }


def test_identical_members_change_nothing(batch):
    torch.manual_seed(1)
    model = Looking(ending=-1.0)
    for weights in (None, [1, 2, 5]):
        ensemble = decode.Ensemble([model] * 3, weights)
        together = decode.beam(ensemble, batch, size=4, nbest=4, max_length=8)
        for hypotheses, alone in zip(together, decode.beam(model, batch, size=4, nbest=4, max_length=8)):
            assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
            assert [h.log_prob for h in hypotheses] == pytest.approx([h.log_prob for h in alone])
            assert all(torch.allclose(h.alignment, other.alignment) for h, other in zip(hypotheses, alone))


def test_probabilities_are_averaged():
    one, two = Prefixes.random(0, sentences=3), Prefixes.random(1, sentences=3)
    ensemble = decode.Ensemble([one, two], weights=[3, 1])
    for sentence, hypotheses in enumerate(decode.beam(ensemble, one.batch(), size=9, nbest=9, max_length=4)):
        for h in hypotheses:
            whole = [*h.tokens, 2] if h.finished else h.tokens
            expected = 0.0
            for t, token in enumerate(whole):
                p, q = (math.exp(model.log_probs(sentence, whole[:t])[token]) for model in (one, two))
                expected += math.log(0.75 * p + 0.25 * q)
            assert h.log_prob == pytest.approx(expected)


def test_different_systems_in_one_ensemble(batch):
    torch.manual_seed(2)
    table, looking = Prefixes.random(3, sentences=4, vocab=11, length=3), Looking()
    table.alignment = lambda state: None
    found = decode.beam(decode.Ensemble([table, looking]), batch, size=3, max_length=3)
    for sentence, (h,) in enumerate(found):
        whole = [*h.tokens, 2] if h.finished else h.tokens
        log_probs, weights = looking.forced(batch, sentence, h.tokens)
        expected = 0.0
        for t, token in enumerate(whole):
            p = math.exp(table.log_probs(sentence, whole[:t])[token])
            expected += math.log((p + float(log_probs[t, token].exp())) / 2)
        assert h.log_prob == pytest.approx(expected)
        assert torch.allclose(h.alignment, weights[: len(h.tokens)])  # of the only member that has one


def test_a_token_that_one_member_forbids_may_still_come():
    one, two = Prefixes(torch.zeros(1, 4**3, 4)), Prefixes(torch.zeros(1, 4**3, 4))
    one.table[..., 2] = -math.inf
    ((h,),) = decode.beam(decode.Ensemble([one, two]), one.batch(), size=9, length_penalty=0.0, max_length=3)
    assert h.tokens == [] and h.log_prob == pytest.approx(math.log(1 / 8))


def test_vocabularies_of_different_sizes_are_refused():
    ensemble = decode.Ensemble([Prefixes.random(0, vocab=4), Prefixes.random(0, vocab=5)])
    with pytest.raises(ValueError, match="Prefixes 4, Prefixes 5"):
        decode.greedy(ensemble, {"sentence": torch.zeros(2, dtype=torch.long)}, max_length=3)


def test_alignments_over_different_sources_are_refused(batch):
    torch.manual_seed(2)
    ensemble = decode.Ensemble([Prefixes.random(3, sentences=4, vocab=11, length=3), Looking()])
    with pytest.raises(ValueError, match="alignments=False"):
        decode.beam(ensemble, batch, max_length=3)
    assert decode.beam(ensemble, batch, max_length=3, alignments=False)[0][0].alignment is None


def test_a_member_in_training_mode_is_noticed():
    ensemble = decode.Ensemble([Prefixes.random(0), Prefixes.random(1).train()])
    with pytest.raises(ValueError, match="training mode"):
        decode.greedy(ensemble, {"sentence": torch.zeros(2, dtype=torch.long)}, max_length=3)
    decode.greedy(ensemble.eval(), {"sentence": torch.zeros(1, dtype=torch.long)}, max_length=3)


@pytest.mark.parametrize(
    ("weights", "match"),
    [([1.0], "1 weights for an ensemble of 2"), ([1.0, 0.0], "positive"), ([1, math.nan], "positive")],
)
def test_wrong_weights_are_refused(weights, match):
    with pytest.raises(ValueError, match=match):
        decode.Ensemble([Prefixes.random(0), Prefixes.random(1)], weights)


def test_an_ensemble_of_none_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        decode.Ensemble([])
