"""The readers against their equations, word by word."""

from __future__ import annotations

import math

import pytest
import torch

from contracts.cases.readers import ENTITIES, FEATURES, SMALL, documents
from regard.systems.attentive_reader import FIRST, AttentiveReader, Config, best_span


def build(**options) -> AttentiveReader:
    torch.manual_seed(0)
    return AttentiveReader(Config(**{**SMALL, **options})).double().eval()


def batch() -> dict[str, torch.Tensor]:
    made = documents()
    made["features"] = made["features"].double()
    return made


def states(lstm: torch.nn.LSTM, words: list[torch.Tensor]) -> list[torch.Tensor]:
    """The states of an LSTM, gate by gate."""
    h = c = torch.zeros(lstm.hidden_size, dtype=torch.double)
    found = []
    for word in words:
        i, f, g, o = (
            lstm.weight_ih_l0 @ word + lstm.bias_ih_l0 + lstm.weight_hh_l0 @ h + lstm.bias_hh_l0
        ).chunk(4)  # fmt: skip
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        found.append(h)
    return found


def encode(encoder, words: list[torch.Tensor]) -> tuple[list[torch.Tensor], torch.Tensor]:
    ahead, behind = states(encoder.forwards, words), states(encoder.backwards, words[::-1])[::-1]
    return [torch.cat(pair) for pair in zip(ahead, behind)], torch.cat([ahead[-1], behind[0]])


def looked(attention, query: torch.Tensor, y: list[torch.Tensor]) -> tuple[list[float], torch.Tensor]:
    """s(t) and Σ s(t) y(t) of an additive score."""
    scores = [
        float(attention.score.v @ torch.tanh(attention.score.joint.weight @ torch.cat([query, one]))) for one in y
    ]
    raised = [math.exp(score - max(scores)) for score in scores]
    weights = [one / sum(raised) for one in raised]
    return weights, sum(weight * one for weight, one in zip(weights, y))


def by_hand(model: AttentiveReader, made: dict[str, torch.Tensor], b: int) -> tuple[list[list[float]], torch.Tensor]:
    """The weights of each look, and g, from the paper's equations."""
    size, asked = int(made["document_lengths"][b]), int(made["question_lengths"][b])
    words = list(model.words.weight[made["document"][b, :size]])
    if model.config.features:
        words = [torch.cat(pair) for pair in zip(words, made["features"][b, :size])]
    y, _ = encode(model.document, words)
    q, u = encode(model.question, list(model.words.weight[made["question"][b, :asked]]))
    if model.config.reader == "attentive":
        weights, r = looked(model.attention, u, y)
        every = [weights]
    else:
        every, r = [], torch.zeros_like(u)
        for one in q:
            weights, seen = looked(model.attention, torch.cat([r, one]), y)
            r = seen + torch.tanh(model.again.weight @ r)
            every.append(weights)
    if model.config.entities and model.config.answer == "pointer":
        return every, u
    g = torch.tanh(model.joint.weight @ torch.cat([r, u]) + model.joint.bias)
    if not model.config.entities:
        every.append(looked(model.attention_end, g, y)[0])
    return every, g


@pytest.mark.parametrize("reader", ["attentive", "impatient"])
@pytest.mark.parametrize(
    "answers",
    [{"entities": ENTITIES}, {"entities": ENTITIES, "answer": "pointer"}, {"features": FEATURES}],
    ids=["entity", "pointer", "span"],
)
@torch.no_grad()
def test_it_computes_the_papers_equations(reader, answers):
    model, made = build(reader=reader, **answers), batch()
    out, losses = model.predict(made), []
    for b in range(len(made["document"])):
        every, g = by_hand(model, made, b)
        size = len(every[0])
        rows = list(range(len(every)))
        if not model.config.entities:
            rows[-1] = -1  # behind the rows of padding
        assert torch.allclose(out["weights"][b, rows, :size], torch.tensor(every).double(), atol=1e-9)
        assert not out["weights"][b, :, size:].any()
        if model.config.entities:
            mentioned = {int(word) - FIRST for word in made["document"][b] if FIRST <= word < FIRST + ENTITIES}
            if model.config.answer == "pointer":
                places = [int(word) - FIRST for word in made["document"][b, :size]]
                chance = {one: sum(s for s, at in zip(every[-1], places) if at == one) for one in mentioned}
            else:
                raised = {one: math.exp(float(model.output.weight[one] @ g)) for one in mentioned}
                chance = {one: value / sum(raised.values()) for one, value in raised.items()}
            best = max(chance, key=chance.get)
            assert int(out["answer"][b]) == best
            assert float(out["probability"][b]) == pytest.approx(chance[best])
            if (answer := int(made["answer"][b])) >= 0:
                losses.append(-math.log(chance[answer]))
        else:
            starts, ends = every[-2], every[-1]
            spans = [(i, j) for i in range(size) for j in range(i, min(size, i + model.config.longest))]
            i, j = max(spans, key=lambda span: starts[span[0]] * ends[span[1]])
            assert (int(out["first"][b]), int(out["last"][b])) == (i, j)
            assert float(out["probability"][b]) == pytest.approx(starts[i] * ends[j])
            if (first := int(made["first"][b])) >= 0:
                losses.append(-math.log(starts[first]) - math.log(ends[int(made["last"][b])]))
    got = model(made)
    assert int(got["count"]) == len(losses) == 3
    assert float(got["nll"]) == pytest.approx(sum(losses) / 3)


@torch.no_grad()
def test_what_is_measured_is_what_predict_gives():
    model, made = build(reader="impatient", entities=ENTITIES), batch()
    out, got = model.predict(made), model(made)
    asked = made["answer"] >= 0
    assert float(got["accuracy"]) == pytest.approx(float((out["answer"] == made["answer"])[asked].double().mean()))
    mass = [
        sum(
            float(out["weights"][b, made["question_lengths"][b] - 1, t])
            for t in range(made["document"].shape[1])
            if made["document"][b, t] == made["answer"][b] + FIRST
        )
        for b in range(4)
        if asked[b]
    ]
    assert float(got["mass"]) == pytest.approx(sum(mass) / 3)


def test_the_best_span_is_the_best_of_all():
    torch.manual_seed(0)
    starts, ends = torch.randn(50, 9), torch.randn(50, 9)
    for longest in (1, 3, 20):
        first, last, total = best_span(starts, ends, longest)
        for b in range(50):
            spans = [(i, j) for i in range(9) for j in range(i, min(9, i + longest))]
            best = max(spans, key=lambda span: float(starts[b, span[0]] + ends[b, span[1]]))
            assert (int(first[b]), int(last[b])) == best
            assert float(total[b]) == pytest.approx(float(starts[b, best[0]] + ends[b, best[1]]))


@pytest.mark.parametrize("answers", [{"entities": ENTITIES}, {"features": FEATURES}])
def test_without_an_answer_there_is_no_loss(answers):
    made = batch()
    for name in ("answer", "first", "last"):
        made[name][:] = -1
    out = build(**answers)(made)
    assert float(out["loss"].detach()) == 0 and int(out["count"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reader": "atentive"}, "did you mean 'attentive'"),
        ({"score": "dot"}, "no score is called 'dot'.*known: additive, general"),
        ({"entities": 20}, "20 entities, of 23 ids"),
        ({"longest": 0}, "at least one word"),
    ],
)
def test_what_cannot_be_built_says_why(options, message):
    with pytest.raises(ValueError, match=message):
        Config(vocab=23, **options)
