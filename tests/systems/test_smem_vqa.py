"""SMem-VQA and stacked attention against their equations."""

import pytest
import torch

import regard
from contracts.cases.captions import WIDTH
from contracts.cases.pictures import ANSWERS, VOCAB, questions
from regard.layers.answers import Placed, loss
from regard.systems import san, smem_vqa


def build(module, cls, **changes):
    torch.manual_seed(0)
    sizes = {"vocab": VOCAB, "answers": ANSWERS, "features": WIDTH, "dim": 8}
    return getattr(module, cls)(module.Config(**{**sizes, **changes})).double().eval()


def batch():
    return {name: value.double() if value.is_floating_point() else value for name, value in questions().items()}


@pytest.mark.parametrize("tied", [True, False])
def test_two_hops_by_the_papers_equations(tied):
    """Word by word and place by place, with embeddings as words."""
    model, given = build(smem_vqa, "SMemVQA", reader="words", tied=tied), batch()
    with torch.no_grad(), regard.record(model) as tape:
        got = model.logits(given)
        places = model.places(model.grid(given))
        score = model.looks[0].score
        for row, length in enumerate(given["question_lengths"].tolist()):
            words = [model.words.weight[number] for number in given["question"][row, :length]]
            s = list(places[row])
            c = torch.tensor([max(float(v @ score.key(place)) for v in words) for place in s], dtype=torch.float64)
            alpha = torch.softmax(c / 8**0.5, 0)
            first = [model.values[0](place) for place in s]
            o = sum(a * e for a, e in zip(alpha, first)) + model.question(sum(words) / length)
            keys = first if tied else [model.keys[0](place) for place in s]
            beta = torch.softmax(torch.stack([key @ o for key in keys]) / 8**0.5, 0)
            o2 = o + sum(b * model.values[1](place) for b, place in zip(beta, s))
            torch.testing.assert_close(got[row], model.output(torch.relu(model.joint(o2))))
            torch.testing.assert_close(tape["looks.0"].weights[row, 0], alpha)
            torch.testing.assert_close(tape["looks.1"].weights[row, 0], beta)


def test_san_by_its_equations():
    model, given = build(san, "SAN"), batch()
    with torch.no_grad():
        got = model.logits(given)
        u = model.reader(model.words(given["question"]), given["question_lengths"])[1]
        places = model.places(model.grid(given))
        for look in model.looks:
            e = torch.tanh(look.score.query(u)[:, None] + look.score.key(places)) @ look.score.v
            u = u + (torch.softmax(e, -1)[..., None] * places).sum(1)
    torch.testing.assert_close(got, model.output(u))


def test_the_gradient_of_the_best_word():
    torch.manual_seed(0)
    score = smem_vqa.BestWord(3, 4).double()
    query, key = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 1, 6), (2, 5, 4)))
    assert torch.autograd.gradcheck(lambda q, k: score(q, score.project(k)), (query, key))


def test_without_hops_the_image_does_not_matter():
    for module, cls in ((smem_vqa, "SMemVQA"), (san, "SAN")):
        model, given = build(module, cls, hops=0), batch()
        other = {**given, "features": torch.randn_like(given["features"])}
        assert torch.equal(model.logits(given), model.logits(other))
        assert not model.uses


def test_an_unknown_answer_does_not_count():
    logits = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]], requires_grad=True)
    found = loss(logits, torch.tensor([0, -1, 1]))
    expected = -(torch.log_softmax(logits, -1)[0, 0] + torch.log_softmax(logits, -1)[2, 1]) / 2
    assert found["count"] == 2 and found["accuracy"] == 0.5
    torch.testing.assert_close(found["loss"], expected)
    none = loss(logits, torch.tensor([-1, -1, -1]))
    none["loss"].backward()
    assert none["loss"] == 0 and not logits.grad.any()


def test_a_place_knows_where_it_is():
    placed = Placed(3, 8)
    with torch.no_grad():
        found = placed(torch.ones(1, 9, 3))[0]
        assert len(torch.unique(found, dim=0)) == 9
        assert placed(torch.ones(1, 5, 3)).shape == (1, 5, 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"hops": -1}, "at least 0"), ({"dim": 7}, "even"), ({"reader": "lstn"}, "did you mean 'lstm'")],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        smem_vqa.Config(vocab=9, answers=2, **changes)


def test_the_parts_of_a_list_share_the_target():
    torch.manual_seed(0)
    logits = torch.randn(3, 5, dtype=torch.float64)
    answer, parts = torch.tensor([4, 1, -1]), torch.tensor([[0, 2], [-1, -1], [3, -1]])
    found = loss(logits, answer, parts, label_smoothing=0.2)
    p = -torch.log_softmax(logits, -1)
    listed = 0.3 * p[0, 4] + 0.35 * (p[0, 0] + p[0, 2])
    expected = (0.8 * listed + 0.2 * p[0].mean() + 0.8 * p[1, 1] + 0.2 * p[1].mean()) / 2
    torch.testing.assert_close(found["loss"], expected)
    torch.testing.assert_close(found["nll"], (p[0, 4] + p[1, 1]) / 2)
    torch.testing.assert_close(loss(logits, answer, torch.full((3, 1), -1))["loss"], loss(logits, answer)["loss"])


@pytest.mark.parametrize(("module", "cls"), [(smem_vqa, "SMemVQA"), (san, "SAN")])
def test_labels_are_smoothed_in_training_alone(module, cls):
    model = build(module, cls, label_smoothing=0.5)
    found = model(batch())
    assert found["loss"] == found["nll"]
    found = model.train()(batch())
    assert found["loss"] != found["nll"]
    with pytest.raises(ValueError, match="label_smoothing"):
        build(module, cls, label_smoothing=1.0)
