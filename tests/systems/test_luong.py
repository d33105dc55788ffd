"""Luong's choices of score and normalizer."""

import pytest
import torch

import regard
from contracts.cases.text import VOCAB, pairs
from regard.systems.luong import Config, Luong

SIZES = {"source_vocab": VOCAB, "target_vocab": VOCAB, "embedding": 8, "hidden": 12, "layers": 1, "local": "none"}


def looks(model):
    """Queries (B, T, D), weights (B, T, S) and which keys are real, of a model without input feeding."""
    batch, asked = pairs(), []
    model.eval().attention.register_forward_hook(lambda module, given, out: asked.append(given[0]))
    with regard.record(model) as tape, torch.no_grad():
        model(batch)
    return asked[0], tape["attention"].weights, batch["source"] != 0


def test_cosine_is_sharp_from_the_start_whatever_the_states():
    torch.manual_seed(0)
    model = Luong(Config(**SIZES, score="cosine", feed=False))
    query, weights, real = looks(model)
    states = torch.nn.functional.normalize(model._encode(pairs())[0].value, dim=-1)
    wanted = 10 * torch.nn.functional.normalize(query, dim=-1) @ states.mT
    wanted = wanted.masked_fill(~real[:, None], -torch.inf).softmax(-1)
    assert torch.allclose(weights, wanted, atol=1e-5)
    assert model.attention.score.gain.requires_grad


def test_hard_looks_at_one_key_and_still_learns_where():
    torch.manual_seed(0)
    model = Luong(Config(**SIZES, normalizer="hard", feed=False))
    _, weights, _ = looks(model)
    assert ((weights - weights.round()).abs() < 1e-6).all() and torch.allclose(weights.sum(-1), torch.ones(()))
    model.train()(pairs())["loss"].backward()
    assert model.attention.score.key.weight.grad.abs().max() > 0


def test_sparsemax_leaves_keys_out():
    torch.manual_seed(0)
    model = Luong(Config(**SIZES, normalizer="sparsemax", feed=False))
    with torch.no_grad():
        model.attention.score.key.weight.mul_(20_000)
    _, weights, real = looks(model)
    assert (weights[real[:, None].expand_as(weights)] == 0).any()
    assert torch.allclose(weights.sum(-1), torch.ones(()))


@pytest.mark.parametrize("choice", [{"score": "cosin"}, {"normalizer": "sparsmax"}])
def test_an_unknown_choice_names_the_known(choice):
    with pytest.raises(ValueError, match=r"cosine|sparsemax"):
        Luong(Config(**SIZES, **choice))
