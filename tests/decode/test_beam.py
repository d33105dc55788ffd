"""Greedy and beam search against enumeration and against the definition."""

import math
from functools import partial

import pytest
import torch

from decode.models import EOS, Looking, Prefixes, every_sequence, slow_beam
from regard import decode


@pytest.mark.parametrize(("alpha", "first"), [(0.0, 0), (0.6, 50), (1.0, 100), (2.5, 150)])
def test_a_wide_beam_is_exhaustive(alpha, first):
    for seed in range(first, first + 50):
        model = Prefixes.random(seed, sentences=3, vocab=4, length=4, scale=1 + seed % 4)
        found = decode.beam(model, model.batch(), size=128, length_penalty=alpha, nbest=7, max_length=4)
        for sentence, hypotheses in enumerate(found):
            expected = every_sequence(model, sentence, 4, alpha)[:7]
            assert [h.tokens for h in hypotheses] == [tokens for _, tokens in expected]
            assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected])
            assert all(h.finished for h in hypotheses)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 1.5])
def test_a_narrow_beam_follows_the_definition(size, alpha):
    """The definition has no early stop: that ours changes nothing is tested here."""
    for seed in range(12):
        model = Prefixes.random(seed, sentences=4, vocab=5, length=5, scale=1 + seed % 3)
        for nbest in {1, size}:
            found = decode.beam(model, model.batch(), size=size, length_penalty=alpha, nbest=nbest, max_length=5)
            for sentence, hypotheses in enumerate(found):
                expected = slow_beam(partial(model.log_probs, sentence), size, alpha, 5)[:nbest]
                assert [(h.tokens, h.finished) for h in hypotheses] == [found[1:] for found in expected]
                assert [h.score for h in hypotheses] == pytest.approx([score for score, _, _ in expected])


def test_greedy_takes_the_likeliest_token():
    model = Prefixes.random(0, sentences=30, vocab=5, length=6)
    for sentence, (hypothesis,) in enumerate(decode.greedy(model, model.batch(), max_length=6)):
        tokens = []
        while len(tokens) < 6:
            log_probs = model.log_probs(sentence, tokens)
            tokens.append(log_probs.index(max(log_probs)))
            if tokens[-1] == EOS:
                break
        assert hypothesis.finished == (tokens[-1] == EOS)
        assert hypothesis.tokens == [token for token in tokens if token != EOS]
        assert hypothesis.score == hypothesis.log_prob


def test_a_beam_of_one_is_greedy():
    model = Prefixes.random(1, sentences=30, vocab=5, length=6)
    one = decode.beam(model, model.batch(), size=1, length_penalty=0.7, max_length=6)
    assert [h.tokens for (h,) in one] == [h.tokens for (h,) in decode.greedy(model, model.batch(), max_length=6)]


def test_a_beam_finds_at_least_what_greedy_finds():
    # No law of beams, which may lose the greedy path; but here, as with trained models, they do not.
    model = Prefixes.random(3, sentences=200, vocab=6, length=5, scale=3.0)
    ours = decode.beam(model, model.batch(), size=5, length_penalty=0.0, max_length=torch.tensor([5] * 200))
    greedy = decode.greedy(model, model.batch(), max_length=5)
    pairs = [(best.score, other.score) for (best,), (other,) in zip(ours, greedy) if other.finished]
    assert len(pairs) > 50
    assert all(best >= other for best, other in pairs)
    assert sum(best > other for best, other in pairs) > 5


def test_log_prob_is_the_teacher_forced_sum():
    model = Prefixes.random(4, sentences=20, vocab=5, length=5)
    for search in (
        decode.beam(model, model.batch(), size=4, nbest=4, max_length=5),
        decode.greedy(model, model.batch(), max_length=3),
        decode.sample(model, model.batch(), temperature=2.0, samples=3, max_length=3),
    ):
        for sentence, hypotheses in enumerate(search):
            for h in hypotheses:
                assert h.log_prob == pytest.approx(model.log_prob(sentence, h.tokens, h.finished))


def test_scores_are_normalized_by_the_length_with_the_end():
    model = Prefixes.random(5, sentences=10)
    for hypotheses in decode.beam(model, model.batch(), size=8, nbest=8, length_penalty=0.9, max_length=4):
        for h in hypotheses:
            assert h.score == pytest.approx(h.log_prob / ((5 + len(h.tokens) + 1) / 6) ** 0.9)
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


def test_batched_equals_one_by_one():
    """Sentences that end at different times, after limits of their own."""
    model = Prefixes.random(6, sentences=40, vocab=5, length=6)
    limits = torch.randint(1, 7, (40,), generator=torch.Generator().manual_seed(0))
    together = decode.beam(model, model.batch(), size=3, nbest=3, max_length=limits)
    assert len({len(h.tokens) for hypotheses in together for h in hypotheses}) > 3
    for sentence, hypotheses in enumerate(together):
        (alone,) = decode.beam(model, model.batch(sentence), size=3, nbest=3, max_length=int(limits[sentence]))
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in alone])
        assert all(torch.equal(h.alignment, other.alignment) for h, other in zip(hypotheses, alone))
        assert all(len(h.tokens) + h.finished <= limits[sentence] for h in hypotheses)


def test_alignment_rows_belong_to_the_tokens():
    model = Prefixes.random(7, sentences=20, vocab=5, length=6)
    for found in (
        decode.beam(model, model.batch(), size=4, nbest=4, max_length=6),
        decode.greedy(model, model.batch(), max_length=2),
        decode.sample(model, model.batch(), samples=3, max_length=6),
    ):
        for sentence, hypotheses in enumerate(found):
            for h in hypotheses:
                prefixes = [model.number(h.tokens[:t]) for t in range(len(h.tokens))]
                assert h.alignment.shape == (len(h.tokens), 2)
                assert h.alignment.tolist() == [[sentence, prefix] for prefix in prefixes]


def test_alignments_can_be_left_out():
    model = Prefixes.random(7)
    model.alignment = None  # must not be called
    (hypotheses,) = decode.beam(model, model.batch(), max_length=4, alignments=False)
    assert hypotheses[0].alignment is None


def test_caches_follow_their_hypotheses():
    """Keys of the source with padding, and a self-attention cache, through copying, reordering and leaving."""
    seen = set()
    for seed in range(1, 4):
        torch.manual_seed(seed)
        lengths = torch.tensor([5, 1, 3, 4, 2, 5, 3, 3])
        batch = {"source": torch.randint(4, 11, (8, 5)), "source_lengths": lengths}
        model = Looking(ending=-1.0)
        found = decode.beam(model, batch, size=4, nbest=4, max_length=9)
        seen |= {len(h.tokens) for hypotheses in found for h in hypotheses}
        for b, hypotheses in enumerate(found):
            expected = slow_beam(partial(model.log_probs, batch, b), 4, 0.6, 9)
            assert [h.tokens for h in hypotheses] == [tokens for _, tokens, _ in expected]
            assert [h.score for h in hypotheses] == pytest.approx([score for score, _, _ in expected])
            for h in hypotheses:
                _, weights = model.forced(batch, b, h.tokens)
                assert torch.allclose(h.alignment, weights[: len(h.tokens)])
    assert len(seen) > 5


def test_rows_are_one_per_sentence_at_first_and_then_leave():
    model = Prefixes.random(8, sentences=16, vocab=5, length=6, scale=3.0)
    decode.beam(model, model.batch(), size=4, max_length=6)
    first, second, *rest = model.rows
    assert first == 16 and second <= 16 * 4
    assert rest == sorted(rest, reverse=True) and rest[-1] < 16
    model.rows.clear()
    greedy = decode.greedy(model, model.batch(), max_length=6)
    ends = [len(h.tokens) + h.finished for (h,) in greedy]
    assert model.rows == [sum(end > t for end in ends) for t in range(max(ends))]


def test_a_sentence_stops_only_when_nothing_can_change():
    """One hypothesis ends at once with −0.31; another, of −1.31, goes on for free and ends after seven tokens."""
    certain = torch.full((1, 4**7, 4), -math.inf, dtype=torch.float64)
    certain[..., 3] = 0.0
    model = Prefixes(certain)
    start, late = model.number([]), model.number([3] * 6)
    certain[0, start, 2:] = torch.tensor([-2.0, -3.0])
    certain[0, late, 2:] = torch.tensor([0.0, -math.inf])

    def search(alpha, length):
        model.rows.clear()
        ((best,),) = decode.beam(model, model.batch(), size=2, length_penalty=alpha, max_length=length)
        return best.tokens, len(model.rows)

    assert search(0.0, 7) == ([], 1)  # no growth makes up for it
    assert search(0.5, 7) == ([], 1)  # (12/6)^0.5 = 1.4 is not enough to divide 1.31 under 0.31
    assert search(3.0, 7) == ([3] * 6, 7)  # 8 is
    assert search(3.0, 6) == ([], 6)  # it could have ended in time, but did not


def test_the_cut_off_are_returned_only_if_nothing_ended():
    table = torch.zeros(2, 4**4, 4, dtype=torch.float64)
    table[0, :, EOS] = -math.inf
    model = Prefixes(table)
    for size in range(1, 13):
        endless, ending = decode.beam(model, model.batch(), size=size, nbest=size, max_length=3)
        assert len(endless) == size and all(len(h.tokens) == 3 and not h.finished for h in endless)
        assert all(h.log_prob == pytest.approx(3 * math.log(1 / 3)) for h in endless)
        assert size < 4 or (ending and all(h.finished for h in ending))


@pytest.mark.parametrize("eos", [0, 1, 3])
def test_any_token_may_be_the_end(eos):
    table = torch.zeros(2, 4**4, 4, dtype=torch.float64)
    table[0, :, eos] = -math.inf
    model = Prefixes(table)
    endless, ending = decode.beam(model, model.batch(), size=50, nbest=50, max_length=3, eos=eos)
    assert len(endless) == 27 and not any(h.finished or eos in h.tokens for h in endless)
    assert len(ending) == 1 + 3 + 9 and all(h.finished and eos not in h.tokens for h in ending)


def test_the_first_token_fed_is_the_one_asked_for():
    fed = []

    class Listening(Prefixes):
        def step(self, token, state):
            fed.append(token.tolist())
            return super().step(token, state)

    model = Listening(Prefixes.random(0, sentences=2).table)
    decode.greedy(model, model.batch(), max_length=1)
    decode.sample(model, model.batch(), max_length=1, bos=3)
    assert fed == [[1, 1], [3, 3]]


def test_a_beam_wider_than_the_vocabulary():
    model = Prefixes.random(9, sentences=3, vocab=3, length=3)
    found = decode.beam(model, model.batch(), size=50, nbest=50, max_length=3)
    assert all(len(hypotheses) == 1 + 2 + 4 for hypotheses in found)


def test_forbidden_tokens_never_appear():
    model = Prefixes.random(10, sentences=5, vocab=5, length=5)
    model.table[..., 3:] = -math.inf
    for hypotheses in decode.beam(model, model.batch(), size=5, nbest=5, max_length=5):
        assert all(token < 2 for h in hypotheses for token in h.tokens)


def test_an_empty_batch_has_no_hypotheses():
    model = Prefixes.random(0)
    empty = {"sentence": torch.zeros(0, dtype=torch.long)}
    for found in (
        decode.greedy(model, empty, max_length=3),
        decode.beam(model, empty, max_length=torch.zeros(0, dtype=torch.long)),
        decode.sample(model, empty, max_length=3),
    ):
        assert found == []
    assert model.rows == []


@pytest.mark.parametrize(("value", "name"), [(math.nan, "NaN"), (math.inf, r"\+inf")])
@pytest.mark.parametrize("search", [decode.greedy, decode.beam, decode.sample])
def test_a_broken_model_is_named(search, value, name):
    model = Prefixes.random(0, sentences=4)
    model.table[..., EOS] = -math.inf
    model.table[2, 16:, 3] = value  # after the second token
    with pytest.raises(ValueError, match=rf"{name} among its logits at step 3, for sentence 2 "):
        search(model, model.batch(), max_length=4)


@pytest.mark.parametrize("search", [decode.greedy, decode.beam, decode.sample])
def test_a_model_without_any_choice_is_named(search):
    model = Prefixes.random(0, sentences=2)
    model.table[1] = -math.inf
    with pytest.raises(ValueError, match="only −inf among its logits at step 1, for sentence 1 "):
        search(model, model.batch(), max_length=4)


def test_half_precision_adds_up_in_single():
    table = torch.full((1, 4**5, 4), -1.0, dtype=torch.bfloat16)
    table[..., EOS] = -math.inf
    model = Prefixes(table)
    ((hypothesis,),) = decode.greedy(model, model.batch(), max_length=5)
    assert hypothesis.log_prob == pytest.approx(5 * math.log(1 / 3), rel=1e-6)


@pytest.mark.parametrize("vocab", [63, 64, 700, 1300, 1344])
@pytest.mark.parametrize("k", [1, 4, 5])
def test_the_greatest_of_a_large_vocabulary(vocab, k):
    from regard.decode.search import _top

    torch.manual_seed(vocab)
    values = torch.randn(50, vocab)
    values[0] = -math.inf
    values[0, -1] = 1.0
    values[1] = values[1].sort().values
    values[2, vocab // 2] = math.nan
    found, where = _top(values, k)
    expected = values.topk(k).values
    assert torch.equal(found.nan_to_num(7.0), expected.nan_to_num(7.0))
    assert torch.equal(values.gather(1, where).nan_to_num(7.0), expected.nan_to_num(7.0))
    assert all(len(set(row)) == k for row in where.tolist())


def test_wrong_arguments_are_named():
    model = Prefixes.random(0, sentences=2)
    batch = model.batch()
    for match, arguments in {
        "size": dict(size=0, max_length=3),
        "nbest": dict(size=2, nbest=3, max_length=3),
        "at least 1, not 0": dict(max_length=0),
        r"tensor of 2.*\(3,\)": dict(max_length=torch.tensor([1, 2, 3])),
        "float32": dict(max_length=torch.tensor([1.0, 2.0])),
    }.items():
        with pytest.raises(ValueError, match=match):
            decode.beam(model, batch, **arguments)
    model.train()
    with pytest.raises(ValueError, match=r"model.eval\(\)"):
        decode.beam(model, batch, max_length=3)


def test_no_gradients_are_kept():
    torch.manual_seed(0)
    model = Looking()
    batch = {"source": torch.randint(4, 11, (2, 5)), "source_lengths": torch.tensor([5, 2])}
    started = []
    start = model.start
    model.start = lambda batch: started.append(start(batch)) or started[-1]
    for search in (decode.greedy, decode.beam, decode.sample):
        ((hypothesis,), _) = search(model, batch, max_length=4)
        assert not hypothesis.alignment.requires_grad
    assert len(started) == 3 and not any(state["source"].key.requires_grad for state in started)
