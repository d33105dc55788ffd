"""The chain of tags against all sequences of tags, one by one, in float64."""

import itertools

import pytest
import torch

from regard.layers.crf import Crf

B, T, K = 3, 4, 3
LENGTHS = torch.tensor([4, 1, 3])


@pytest.fixture
def chain():
    torch.manual_seed(0)
    crf = Crf(K).double()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf, torch.randn(B, T, K, dtype=torch.float64)


def score(crf, emissions, tags):
    """Of one sequence, by its definition."""
    total = crf.begin[tags[0]] + crf.end[tags[-1]] + sum(emissions[t, tag] for t, tag in enumerate(tags))
    return total + sum(crf.transition[a, b] for a, b in itertools.pairwise(tags))


def test_the_probability_of_tags(chain):
    crf, emissions = chain
    tags = torch.randint(K, (B, T))
    found = crf(emissions, tags, LENGTHS)
    for b, length in enumerate(LENGTHS.tolist()):
        every = [score(crf, emissions[b], one) for one in itertools.product(range(K), repeat=length)]
        right = score(crf, emissions[b], tags[b, :length].tolist())
        assert torch.allclose(found[b], torch.stack(every).logsumexp(0) - right)


def test_the_likeliest_tags(chain):
    crf, emissions = chain
    found = crf.best(emissions, LENGTHS)
    for b, length in enumerate(LENGTHS.tolist()):
        best = max(itertools.product(range(K), repeat=length), key=lambda one: score(crf, emissions[b], one))
        assert found[b, :length].tolist() == list(best)
        assert (found[b, length:] == 0).all()


def test_the_probability_of_each_tag(chain):
    crf, emissions = chain
    found = crf.marginals(emissions, LENGTHS)
    for b, length in enumerate(LENGTHS.tolist()):
        every = list(itertools.product(range(K), repeat=length))
        shares = torch.stack([score(crf, emissions[b], one) for one in every]).softmax(0)
        for t, tag in itertools.product(range(length), range(K)):
            expected = sum(share for share, one in zip(shares, every) if one[t] == tag)
            assert torch.allclose(found[b, t, tag], expected)
        assert (found[b, length:] == 0).all()


def test_gradients(chain):
    crf, emissions = chain
    tags = torch.randint(K, (B, T))
    names = [name for name, _ in crf.named_parameters()]

    def loss(emissions, *parameters):
        return torch.func.functional_call(crf, dict(zip(names, parameters)), (emissions, tags, LENGTHS)).sum()

    inputs = (emissions.requires_grad_(), *(parameter.detach().requires_grad_() for parameter in crf.parameters()))
    assert torch.autograd.gradcheck(loss, inputs)


def test_what_stands_behind_the_end_does_not_matter(chain):
    crf, emissions = chain
    tags, other = torch.randint(K, (B, T)), emissions.clone()
    other[1, 1:], other[2, 3:] = 99.0, -99.0
    assert torch.equal(crf(emissions, tags, LENGTHS), crf(other, tags, LENGTHS))
    assert torch.equal(crf.best(emissions, LENGTHS), crf.best(other, LENGTHS))
