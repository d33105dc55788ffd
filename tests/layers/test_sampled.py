"""The sampled softmax against the full one, by loops in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard import registry
from regard.layers import sampled
from regard.layers.cross_entropy import cross_entropy


def given(kind=torch.float64, rows=7, dim=5, vocab=30):
    torch.manual_seed(3)
    output = nn.Linear(dim, vocab).to(kind)
    return torch.randn(rows, dim, dtype=kind, requires_grad=True), output, torch.randint(0, vocab, (rows,))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_the_estimate_is_that_of_the_formula(kind, monkeypatch):
    rows, output, wanted = given(kind)
    kinds = sorted(set(wanted.tolist()))
    drawn = [word for word in range(30) if word not in kinds][3:11]
    monkeypatch.setattr(sampled, "draw", lambda *_: torch.tensor(drawn))
    found = sampled.sampled_cross_entropy(rows, output, wanted, len(kinds) + 8)
    weight, bias = output.weight.detach().double(), output.bias.detach().double()
    loss = 0.0
    for row, word in zip(rows.detach().double(), wanted.tolist()):
        score = [float(weight[k] @ row + bias[k]) for k in range(30)]
        total = sum(math.exp(score[k]) for k in kinds)
        total += sum(math.exp(score[k]) for k in drawn) * (30 - len(kinds)) / 8
        loss += math.log(total) - score[word]
    assert found.loss.item() == pytest.approx(loss, rel=1e-5)
    found.loss.backward()
    untouched = [word for word in range(30) if word not in kinds and word not in drawn]
    assert output.weight.grad[untouched].abs().sum() == 0
    assert (output.weight.grad[kinds].abs().sum(-1) > 0).all()


def test_all_words_are_the_full_softmax():
    rows, output, wanted = given(torch.float32)
    few, full = sampled.sampled_cross_entropy(rows, output, wanted, 30), cross_entropy(rows, output, wanted)
    assert few.loss.item() == pytest.approx(full.loss.item(), rel=1e-5)
    assert few.right == full.right
    one, other = (torch.autograd.grad(each.loss, output.weight)[0] for each in (few, full))
    torch.testing.assert_close(one, other)


def test_the_normalizer_has_the_right_mean():
    rows, output, wanted = given()
    logits = output(rows).detach()
    full = logits.logsumexp(-1).exp().sum()
    found = []
    for _ in range(2000):
        kinds = wanted.unique()
        drawn = sampled.draw(kinds, 30, 6)
        assert not set(drawn.tolist()) & set(kinds.tolist()) and len(set(drawn.tolist())) == 6
        found.append(logits[:, kinds].exp().sum() + logits[:, drawn].exp().sum() * (30 - len(kinds)) / 6)
    assert torch.stack(found).mean() == pytest.approx(float(full), rel=0.02)


def test_a_batch_of_more_words_scores_its_own():
    rows, output, wanted = given()
    assert torch.isfinite(sampled.sampled_cross_entropy(rows, output, wanted, 1).loss)


@pytest.mark.parametrize("name", ["rnnsearch", "luong"])
def test_only_training_samples(name):
    batch = {
        "source": torch.randint(4, 20, (3, 5)), "source_lengths": torch.tensor([5, 4, 3]),
        "target": torch.randint(4, 50, (3, 6)), "target_lengths": torch.tensor([5, 5, 4]),
    }  # fmt: skip
    recipe = registry.recipe("translate-tatoeba-jean").tiny()
    values = {k: v for k, v in recipe.sections["system"].items() if k not in ("name", "attention", "maxout", "sampled")}
    kind = registry.system(name)
    config = __import__(kind.__module__, fromlist=["Config"]).Config
    torch.manual_seed(0)
    few = kind(config(source_vocab=20, target_vocab=50, **values, sampled=15))
    whole = kind(config(source_vocab=20, target_vocab=50, **values))
    whole.load_state_dict(few.state_dict())
    assert few.eval()(batch)["nll"] == whole.eval()(batch)["nll"]
    few.train(), whole.train()
    torch.manual_seed(1)
    one = few(batch)["nll"]
    torch.manual_seed(1)
    assert few(batch)["nll"] == one and abs(one - whole(batch)["nll"]) > 1e-6
    with pytest.raises(ValueError, match="label_smoothing"):
        config(source_vocab=20, target_vocab=50, sampled=5, label_smoothing=0.1)
