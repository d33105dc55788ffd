"""The joint model by loops, its affiliations, self-normalization and rescoring."""

from __future__ import annotations

import math

import pytest
import torch

import regard
from regard.decode.rescoring import rescore
from regard.decode.tree import Hypothesis
from regard.systems.nnjm import NNJM, Config
from regard.tasks.toy_grammar import Config as Grammar
from regard.tasks.toy_grammar import Example, ToyGrammar, affiliation

SIZES = {"train_size": 40, "valid_size": 5, "test_size": 5, "batch_tokens": 120}


@pytest.fixture(scope="module")
def task():
    return ToyGrammar(Grammar(**SIZES, alignments=True))


def small(task, **more):
    torch.manual_seed(0)
    sizes = {"embedding": 6, "hidden": 10, "attention": 5, "radius": 2, "spread": 0.5}
    return NNJM(Config(**task.sizes, **{**sizes, **more})).double()


def test_affiliations_are_the_papers():
    example = Example("s0 s1 s2 s3", "a b c d", ((0, 1), (1, 1), (3, 1), (2, 3)))
    assert affiliation(example) == [1, 1, 2, 2, 4]  # c is as near to b as to d: the right one


def test_a_batch_says_where_words_come_from(task):
    for batch in task.loader("train", seed=1):
        assert batch["affiliation"].shape == batch["target"][:, 1:].shape
        assert (batch["affiliation"] < batch["source_lengths"][:, None]).all()
    assert "affiliation" not in next(iter(ToyGrammar(Grammar(**SIZES)).loader("train")))


def test_a_loop_in_plain_python_gives_the_same(task):
    model, batch = small(task), next(iter(task.loader("train", seed=1)))
    config, layers = model.config, (model.lower, model.upper)
    total, squares = 0.0, 0.0
    for row in range(len(batch["source"])):
        source = batch["source"][row, : batch["source_lengths"][row]].tolist()
        target = batch["target"][row, : batch["target_lengths"][row] + 1].tolist()
        for t in range(1, len(target)):
            at = int(batch["affiliation"][row, t - 1])
            near = [1] * config.radius + source + [2] * config.radius
            window = near[at : at + 2 * config.radius + 1]
            before = ([1] * config.history + target[:t])[-config.history :]
            x = torch.cat([model.source.weight[window].flatten(), model.target.weight[before].flatten()])
            for layer in layers:
                x = torch.tanh(layer.weight @ x + layer.bias)
            u = model.output.weight @ x + model.output.bias
            log_z = math.log(sum(math.exp(each) for each in u.tolist()))
            total += log_z - u[target[t]].item()
            squares += log_z**2
    out, count = model(batch), int(batch["target_lengths"].sum())
    assert out["nll"].item() == pytest.approx(total / count)
    free = small(task, normalize=0.0)(batch)
    assert (out["loss"] - free["loss"]).item() == pytest.approx(0.1 * squares / count)
    assert -model.log_probs(batch).sum().item() == pytest.approx(total)


def test_record_sees_the_hard_alignment(task):
    model, batch = small(task), next(iter(task.loader("train", seed=1)))
    with regard.record(model) as tape:
        model(batch)
    weights = tape["affiliation"].weights
    assert (weights.argmax(-1) == batch["affiliation"]).all()
    assert set(weights.unique().tolist()) == {0.0, 1.0}


def test_normalization_is_learned(task):
    def trained(alpha):
        model = small(task, normalize=alpha, embedding=12, hidden=32).float()
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for epoch in range(12):
            for batch in task.loader("train", seed=epoch):
                optimizer.zero_grad()
                out = model(batch)
                out["loss"].backward()
                optimizer.step()
        return out

    assert trained(1.0)["log_z"] < 0.5 * trained(0.0)["log_z"]


def test_without_alignments_it_says_what_is_missing(task):
    model, batch = small(task), next(iter(task.loader("train", seed=1)))
    batch.pop("affiliation")
    with pytest.raises(ValueError, match="alignments=true"):
        model(batch)


def test_rescoring_orders_by_both_scores(task):
    model = small(task)
    source = torch.tensor([5, 6, 7, 2])
    lists = [
        Hypothesis(tokens=[8, 9], score=-1.0, log_prob=-2.0, alignment=torch.eye(4)[[1, 0]], finished=True),
        Hypothesis(tokens=[9], score=-1.1, log_prob=-2.0, alignment=torch.eye(4)[[2]], finished=True),
    ]
    assert [each.tokens for each in rescore(model, source, lists, 0.0)] == [[8, 9], [9]]
    alone = {}
    for tokens, places in (([8, 9], [1, 0, 3]), ([9], [2, 3])):
        batch = {
            "source": source[None], "source_lengths": torch.tensor([4]), "affiliation": torch.tensor([places]),
            "target": torch.tensor([[1, *tokens, 2]]), "target_lengths": torch.tensor([len(tokens) + 1]),
        }  # fmt: skip
        alone[tuple(tokens)] = model.log_probs(batch).mean().item()
    found = rescore(model, source, lists, 1.0)
    assert {tuple(each.tokens): pytest.approx(each.score) for each in found} == alone
    assert found[0].score >= found[1].score and rescore(model, source, []) == []
    with pytest.raises(ValueError, match="weight"):
        rescore(model, source, lists, 2.0)


@pytest.mark.parametrize("name", ["hidden", "embedding", "attention", "history"])
def test_sizes_that_cannot_be_are_named(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        Config(source_vocab=9, target_vocab=9, **{name: 0})
