"""Random search: the right frequencies, and nothing outside the cuts."""

import math
from collections import Counter

import pytest
import torch

from decode.models import EOS, Prefixes, every_sequence
from regard import decode


def drawn(model, count, seed=0, **arguments):
    generator = torch.Generator().manual_seed(seed)
    (hypotheses,) = decode.sample(model, model.batch(0), samples=count, generator=generator, **arguments)
    assert len(hypotheses) == count
    return hypotheses


def chi_square(counts, probabilities):
    """The statistic, with rare outcomes joined, and its degrees of freedom."""
    total = sum(counts.values())
    assert not set(counts) - {key for key, p in probabilities.items() if p > 0}
    common = {key for key, p in probabilities.items() if p * total >= 5}
    groups = [(counts[key], probabilities[key] * total) for key in common]
    rest = sum(p for key, p in probabilities.items() if key not in common) * total
    if rest >= 5:
        groups.append((total - sum(count for count, _ in groups), rest))
    return sum((count - expected) ** 2 / expected for count, expected in groups), len(groups) - 1


def assert_frequencies(counts, probabilities):
    assert sum(probabilities.values()) == pytest.approx(1.0)
    statistic, freedom = chi_square(counts, probabilities)
    assert freedom >= 1
    # 99.9 % point, Wilson and Hilferty's approximation.
    assert statistic < freedom * (1 - 2 / (9 * freedom) + 3.09 * math.sqrt(2 / (9 * freedom))) ** 3


def test_whole_sequences_come_as_often_as_they_should():
    model = Prefixes.random(0, vocab=4, length=3, scale=1.0)
    cut = {}
    for a in (0, 1, 3):
        for b in (0, 1, 3):
            for c in (0, 1, 3):
                cut[a, b, c] = math.exp(model.log_prob(0, [a, b, c], finished=False))
    ended = {tuple(tokens): math.exp(score) for score, tokens in every_sequence(model, 0, 3, 0.0)}
    counts = Counter(tuple(h.tokens) for h in drawn(model, 20_000, max_length=3))
    assert_frequencies(counts, ended | cut)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("top_k", [None, 5, 100])
@pytest.mark.parametrize("top_p", [None, 0.7, 1.0])
def test_first_tokens_follow_the_cut_distribution(temperature, top_k, top_p):
    model = Prefixes.random(1, vocab=9, length=1, scale=1.0)
    scores = [value / temperature for value in model.log_probs(0, [])]
    ranked = sorted(range(9), key=lambda token: -scores[token])[:top_k]
    weights = {token: math.exp(scores[token]) for token in ranked}
    kept, mass = {}, 0.0
    for token in ranked:
        if top_p is not None and mass >= top_p * sum(weights.values()):
            break
        kept[token] = weights[token]
        mass += weights[token]
    assert top_p != 0.7 or len(kept) < len(ranked)
    expected = {token: weight / mass for token, weight in kept.items()}
    hypotheses = drawn(model, 20_000, max_length=1, temperature=temperature, top_k=top_k, top_p=top_p)
    assert_frequencies(Counter(EOS if h.finished else h.tokens[0] for h in hypotheses), expected)


def test_cuts_hold_at_every_step_of_a_large_vocabulary():
    table = torch.randn(1, 1, 1000, generator=torch.Generator().manual_seed(2))
    model = Prefixes(table)
    likeliest = set(table[0, 0].topk(5).indices.tolist())
    hypotheses = drawn(model, 200, max_length=6, top_k=5)
    assert {token for h in hypotheses for token in h.tokens} == likeliest
    nucleus = drawn(model, 200, max_length=6, top_p=1e-6)
    assert {token for h in nucleus for token in h.tokens} == {int(table[0, 0].argmax())}


def test_samples_are_independent_between_sentences_and_slots():
    model = Prefixes.random(3, sentences=1, vocab=5, length=6, scale=0.1)
    batch = model.batch(*[0] * 40)
    found = decode.sample(model, batch, samples=3, max_length=6, generator=torch.Generator().manual_seed(0))
    assert len({tuple(h.tokens) for hypotheses in found for h in hypotheses}) > 60


def test_a_seed_repeats_and_another_does_not():
    model = Prefixes.random(4, sentences=20, vocab=6, length=6, scale=0.5)

    def tokens(seed):
        generator = torch.Generator().manual_seed(seed)
        found = decode.sample(model, model.batch(), samples=2, max_length=6, generator=generator)
        return [[h.tokens for h in hypotheses] for hypotheses in found]

    assert tokens(0) == tokens(0) != tokens(1)


@pytest.mark.parametrize("temperature", [1e-4, 1e-300])
def test_low_temperature_is_greedy(temperature):
    model = Prefixes.random(5, sentences=20, vocab=6, length=5, scale=3.0)
    cold = decode.sample(model, model.batch(), temperature=temperature, samples=2, max_length=5)
    greedy = decode.greedy(model, model.batch(), max_length=5)
    assert [[h.tokens for h in hypotheses] for hypotheses in cold] == [[h.tokens] * 2 for (h,) in greedy]


@pytest.mark.parametrize("drawn_number", [0.0, 1 - 2**-24])
def test_a_token_without_probability_is_never_drawn(monkeypatch, drawn_number):
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.full(shape, drawn_number))
    for seed in range(50):
        table = torch.full((1, 1, 3000), -math.inf)
        table[..., 10:-10] = torch.randn(2980, generator=torch.Generator().manual_seed(seed))
        (hypothesis,) = drawn(Prefixes(table), 1, max_length=5)
        assert all(10 <= token < 2990 for token in hypothesis.tokens)
        assert hypothesis.log_prob > -math.inf


def test_rows_are_one_per_sentence_at_first_and_then_leave():
    model = Prefixes.random(6, sentences=5, vocab=4, length=6)
    found = decode.sample(model, model.batch(), samples=8, max_length=6)
    ends = [len(h.tokens) + h.finished for hypotheses in found for h in hypotheses]
    assert model.rows == [5] + [sum(end > t for end in ends) for t in range(1, max(ends))]


def test_wrong_arguments_are_named():
    model = Prefixes.random(0)
    for match, arguments in {
        "greedy": dict(temperature=0.0),
        "top_k": dict(top_k=0),
        "top_p": dict(top_p=1.5),
        "samples": dict(samples=0),
    }.items():
        with pytest.raises(ValueError, match=match):
            decode.sample(model, model.batch(), max_length=3, **arguments)
