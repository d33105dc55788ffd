"""`regard.explain`: each function against small cases computed by hand."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import regard
from regard import explain


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def close(x, y, atol=1e-6):
    return torch.allclose(torch.as_tensor(x).double(), torch.as_tensor(y).double(), atol=atol)


FIRST = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])  # (B, H, T, T)
SECOND = torch.tensor([[[[0.2, 0.8], [0.6, 0.4]]]])


class TestRollout:
    def test_by_hand(self):
        # A₁ = [1 0; .25 .75], A₂ = [.6 .4; .3 .7]
        expected = [[[0.6 + 0.1, 0.3], [0.3 + 0.175, 0.525]]]
        assert close(explain.rollout([FIRST, SECOND]), expected)
        assert close(explain.rollout([FIRST, SECOND], residual=0.0), [[[0.6, 0.4], [0.8, 0.2]]])
        assert close(explain.rollout([FIRST, SECOND], residual=1.0), torch.eye(2)[None])

    def test_heads(self):
        both = torch.cat([FIRST, SECOND], dim=1)
        mean = [[[0.6, 0.4], [0.55, 0.45]]]
        most = [[[1 / 1.8, 0.8 / 1.8], [0.6 / 1.1, 0.5 / 1.1]]]
        assert close(explain.rollout([both], residual=0.0), mean)
        assert close(explain.rollout([both], residual=0.0, heads="max"), most)
        with pytest.raises(ValueError, match="did you mean 'mean'"):
            explain.rollout([both], heads="men")

    def test_a_tape(self):
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 3)
        with regard.record(model) as tape:
            model(torch.randn(2, 5, 8))
        found = explain.rollout(tape)
        expected = torch.eye(5).expand(2, 5, 5)
        for weights in tape.attentions:
            expected = (0.5 * weights.mean(1) + 0.5 * torch.eye(5)) @ expected
        assert close(found, expected) and close(found.sum(-1), torch.ones(2, 5))

    def test_a_row_that_attends_nothing_keeps_itself(self):
        dead = torch.tensor([[[[0.0, 0.0], [0.5, 0.5]]]])
        assert close(explain.rollout([dead, SECOND])[0, 1], [0.3 + 0.7 * 0.25, 0.7 * 0.75])

    @pytest.mark.parametrize("layers", [[], [torch.rand(1, 1, 2, 3)], [FIRST, torch.rand(1, 1, 3, 3)], [FIRST[0]]])
    def test_what_is_no_stack_of_layers(self, layers):
        with pytest.raises(ValueError, match="layers of"):
            explain.rollout(layers)


def maximum_flow(layers, top, bottom):
    """Ford and Fulkerson's algorithm on a matrix, in plain Python: shortest paths, one at a time."""
    depth, length = layers.shape[:2]
    nodes = [(k, i) for k in range(depth + 1) for i in range(length)]
    room = {(a, b): 0.0 for a in nodes for b in nodes if abs(a[0] - b[0]) == 1}
    for k in range(depth):
        for i in range(length):
            for j in range(length):
                room[(k + 1, i), (k, j)] = float(layers[k, i, j])
    source, sink, total = (depth, top), (0, bottom), 0.0
    while True:
        came, queue = {source: None}, [source]
        for node in queue:
            for other in nodes:
                if other not in came and room.get((node, other), 0.0) > 1e-9:
                    came[other] = node
                    queue.append(other)
        if sink not in came:
            return total
        path, node = [], sink
        while came[node] is not None:
            path.append((came[node], node))
            node = came[node]
        least = min(room[edge] for edge in path)
        for a, b in path:
            room[a, b] -= least
            room[b, a] += least
        total += least


class TestFlow:
    def test_by_hand(self):
        """From output 0: .6 to place 0 and .4 to place 1, and from there at most 1 and .25 into input 0, 0 and .75 into
        input 1."""
        found = explain.flow([FIRST, SECOND])[0]
        assert close(found[0], [0.6 + 0.25, 0.4])
        assert close(found[1], [0.3 + 0.25, 0.7])

    def test_one_layer_is_its_weights(self):
        weights = torch.rand(2, 3, 4, 4).softmax(-1)
        assert close(explain.flow([weights], residual=0.0), weights.mean(1))

    @pytest.mark.parametrize("seed", range(4))
    def test_against_another_algorithm(self, seed):
        torch.manual_seed(seed)
        layers = [(3 * torch.randn(1, 1, 4, 4)).softmax(-1) for _ in range(4)]
        found = explain.flow(layers, residual=0.1)[0]
        capacity = torch.stack([0.9 * layer[0, 0] + 0.1 * torch.eye(4) for layer in layers]).double()
        expected = [[maximum_flow(capacity, top, bottom) for bottom in range(4)] for top in range(4)]
        assert close(found, expected, atol=1e-5)
        assert (found <= 1 + 1e-5).all() and (found >= explain.rollout(layers, residual=0.1)[0] - 1e-5).all()


VALUES = torch.tensor([0.5, -0.25, 2.0, 1.0])


def additive(keep):
    """The sum of what is kept."""
    return (keep * VALUES).sum(-1)


def two_answers(keep):
    """Two answers: the sum, and the product of the first two items being there."""
    return torch.stack([additive(keep), keep[:, :2].all(-1).float()], dim=1)


class TestErasure:
    def test_importance(self):
        assert close(explain.importance(additive, 4), VALUES)
        assert close(explain.importance(two_answers, 4), [VALUES.tolist(), [1, 1, 0, 0]])
        with pytest.raises(ValueError, match="nothing to leave out"):
            explain.importance(additive, 0)

    def test_comprehensiveness_and_sufficiency(self):
        weights = torch.tensor([0.1, 0.2, 0.3, 0.4])  # the last first
        shares = (0.25, 0.5)
        assert close(explain.comprehensiveness(additive, weights, shares=shares), (1.0 + 3.0) / 2)
        assert close(explain.sufficiency(additive, weights, shares=shares), 3.25 - (1.0 + 3.0) / 2)
        best = explain.comprehensiveness(additive, VALUES, shares=shares)
        assert close(best, (2.0 + 3.0) / 2)
        assert explain.sufficiency(additive, VALUES, shares=shares) < explain.sufficiency(additive, -VALUES)

    def test_a_ranking_for_each_answer(self):
        weights = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
        found = explain.comprehensiveness(two_answers, weights, shares=[0.25])
        assert close(found, [1.0, 1.0])
        assert close(explain.sufficiency(two_answers, weights, shares=[0.25, 0.5]), [3.25 - 2.0, 0.5])

    def test_at_least_one_item_and_the_papers_shares(self):
        asked = []

        def score(keep):
            asked.append(keep.clone())
            return keep.float().sum(-1)

        assert close(explain.comprehensiveness(score, torch.arange(10.0)), (1 + 1 + 1 + 2 + 5) / 5)
        assert len(torch.cat(asked)) == 4  # nothing twice

    def test_what_does_not_fit(self):
        with pytest.raises(ValueError, match="shares are above 0"):
            explain.sufficiency(additive, VALUES, shares=[0.0])
        with pytest.raises(ValueError, match=r"of 2 answers, scores are \(\d,\)"):
            explain.sufficiency(additive, torch.rand(2, 4), shares=[1.0, 0.5])
        with pytest.raises(ValueError, match=r"returned \(4, 4\)|not a number a row"):
            explain.importance(lambda keep: keep.float().sum(0), 4)


class TestAgreement:
    def test_by_hand(self):
        weights, other = torch.tensor([1.0, 2, 3, 4]), torch.tensor([1.0, 2, 4, 3])
        assert close(explain.agreement(weights, other), 4 / 6)
        assert close(explain.agreement(weights, other, kind="spearman"), 1 - 6 * 2 / (4 * 15))
        for kind in ("kendall", "spearman"):
            assert close(explain.agreement(weights, weights**3, kind=kind), 1.0)
            assert close(explain.agreement(weights, -weights, kind=kind), -1.0)

    def test_ties(self):
        weights, other = torch.tensor([1.0, 1, 2]), torch.tensor([1.0, 2, 3])
        assert close(explain.agreement(weights, other), 2 / math.sqrt(2 * 3))
        # ranks 1.5 1.5 3 and 1 2 3
        assert close(explain.agreement(weights, other, kind="spearman"), 1.5 / math.sqrt(1.5 * 2))
        assert explain.agreement(torch.ones(3), other).isnan()
        assert explain.agreement(torch.ones(1), torch.ones(1)).isnan()

    def test_rows_and_masks(self):
        weights = torch.tensor([[1.0, 2, 3, 9], [3.0, 2, 1, 0]])
        other = torch.tensor([[1.0, 2, 3, 0], [1.0, 2, 3, 4]])
        allowed = torch.tensor([True, True, True, False])
        assert close(explain.agreement(weights, other, allowed=allowed), [1.0, -1.0])
        assert close(explain.agreement(weights, other, allowed=allowed, kind="spearman"), [1.0, -1.0])
        with pytest.raises(ValueError, match="did you mean 'kendall'"):
            explain.agreement(weights, other, kind="kendal")
        with pytest.raises(ValueError, match="differ in shape"):
            explain.agreement(weights, other[:1])


class TestKnockout:
    def model(self):
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()

    def expected(self, model, x):
        found = {}
        for number in range(2):
            values = []
            for head in range(2):
                other = copy.deepcopy(model)
                other.layers[number].self_attn.out_proj.weight.data[:, head * 4 : head * 4 + 4] = 0
                values.append(other(x).square().mean().item())
            found[f"layers.{number}.self_attn"] = values
        return found

    @pytest.mark.parametrize("at_once", [1, 3, 8])
    def test_batched(self, at_once):
        model, x = self.model(), torch.randn(3, 5, 8)
        with torch.no_grad():
            expected, whole = self.expected(model, x), model(x).square().mean().item()
        found = explain.knockout(
            model, lambda batch: model(batch["x"]).square().mean((1, 2)), batch={"x": x}, at_once=at_once
        )
        assert found.whole == pytest.approx(whole, rel=1e-5)
        assert list(found.without) == list(expected)
        for name, values in expected.items():
            assert close(found.without[name], values, atol=1e-5)
            assert close(found.change[name], torch.tensor(values) - whole, atol=1e-5)

    def test_one_by_one(self):
        model, x = self.model(), torch.randn(3, 5, 8)
        calls = []
        found = explain.knockout(model, lambda: calls.append(0) or model(x).square().mean(), only="layers.1.*")
        with torch.no_grad():
            expected = self.expected(model, x)["layers.1.self_attn"]
        assert len(calls) == 3 and list(found.without) == ["layers.1.self_attn"]
        assert close(found.without["layers.1.self_attn"], expected, atol=1e-5)
        assert "layers.1.self_attn" in str(found) and f"{found.whole:.4f}" in str(found)

    def test_without_heads_and_along_edges(self):
        attention, x = regard.Attention(), torch.randn(2, 3, 4)
        found = explain.knockout(attention, lambda q: attention(q, q).context.square().mean((1, 2)), batch=x)
        assert found.without["attention"].tolist() == [0.0] and found.whole > 0
        edges, nodes = regard.EdgeAttention(), torch.randn(3, 2, 4)
        index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        found = explain.knockout(edges, lambda: edges(nodes, nodes, None, index).context[:, 0].square().sum())
        assert found.without["edge_attention"][0] == 0 and found.without["edge_attention"][1] == found.whole

    def test_what_cannot_be_batched(self):
        attention, x = regard.Attention(), torch.randn(2, 3, 4)
        with pytest.raises(ValueError, match="leave batch= away"):
            explain.knockout(attention, lambda q: attention(q[:1], q[:1]).context.sum((1, 2)), batch=x)
        with pytest.raises(ValueError, match=r"given 2 items and returned \(\), not a number for each"):
            explain.knockout(attention, lambda q: attention(q, q).context.sum(), batch=x)
        with pytest.raises(ValueError, match=r"all of one size, not \[2, 3\]"):
            explain.knockout(attention, lambda b: attention(b[0], b[0]).context.sum((1, 2)), batch=(x, torch.ones(3)))


class TestFaithfulness:
    def cases(self, weights):
        for _ in range(30):
            values = torch.rand(6)
            yield explain.Case(weights(values)[None], lambda keep, values=values: (keep * values).sum(-1, keepdim=True))

    def test_of_good_and_bad_weights(self):
        good = explain.faithfulness(self.cases(lambda values: values.softmax(-1)), seed=1)
        assert good["attention"] == pytest.approx(good["leave-one-out"])
        assert good["attention"]["kendall"] == pytest.approx(1.0)
        assert abs(good["random"]["kendall"]) < 0.2
        assert good["random"]["comprehensiveness"] < good["attention"]["comprehensiveness"]
        assert good["random"]["sufficiency"] > good["attention"]["sufficiency"]
        assert good["counted"] == {"cases": 30, "answers": 30, "items": 6.0}
        bad = explain.faithfulness(self.cases(lambda values: (-values).softmax(-1)))
        assert bad["attention"]["spearman"] == pytest.approx(-1.0)

    def test_nothing_to_rank(self):
        with pytest.raises(ValueError, match="no case with two items"):
            explain.faithfulness([explain.Case(torch.ones(1, 1), lambda keep: keep.float())])
