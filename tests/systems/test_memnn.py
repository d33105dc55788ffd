"""MemNN against loops over its equations."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.cases.stories import stories
from regard.systems.memnn import Config, MemNN, Tournament


def model(**options) -> MemNN:
    torch.manual_seed(0)
    net = MemNN(Config(**{"words": (11, 17), "memory": (3, 9), "dim": 6, **options})).double().eval()
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return net


def bag(ids, table, size):
    total = [0.0] * size
    for number in ids:
        if number:
            total = [a + b for a, b in zip(total, table[number - 1])]
    return total


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def loops(net: MemNN, batch: dict, task: int, row: int, gold: list[int] | None) -> tuple[float, list[int], list[float]]:
    """Margins, places (S for the empty memory) and the scores of all words, by loops over pairs of sentences."""
    config, dim = net.config, net.config.dim
    held = {name: p.detach()[..., task, :, :].tolist() for name, p in net.named_parameters() if name not in ("empty",)}
    story = [ids for ids in batch["story"][row, task].tolist() if any(ids)]
    slots = batch["story"].shape[2]
    query = bag(batch["question"][row, task].tolist(), held["asked"], dim)
    keys = {place: bag(ids, held["compared"], dim) for place, ids in enumerate(story)}
    loss, places, facts, last, done = 0.0, [], [], -1, False
    for hop in range(config.hops):
        if hop:
            keys[slots] = net.empty[task].tolist()
        bits = [dot(query, bit) for bit in held["times"]] if config.time else [0.0, 0.0]

        def better(y: int, z: int, query=query, bits=bits, last=last) -> float:
            """s_Ot(x, y, z)."""
            after = (y < last) - (z < last)
            return dot(query, keys[y]) - dot(query, keys[z]) + bits[0] * after + bits[1] * (1 if y < z else -1)

        order = sorted(keys, reverse=True)
        best = order[0]
        for place in order[1:]:
            best = place if better(place, best) > 0 else best
        here = best
        if gold is not None:
            here = gold[hop]
            loss += sum(max(0.0, config.margin - better(here, f)) for f in keys if f != here)
            places.append(best)
        else:
            here = slots if done else here
            places.append(here)
            done = done or here == slots
        fact = story[here] if here < slots else []
        facts.append(fact)
        last = here
        if hop < config.hops - 1:
            query = [a + b for a, b in zip(query, bag(fact, held["found"][hop], dim))]
    query = bag(batch["question"][row, task].tolist(), held["asked_answer"], dim)
    for fact, table in zip(facts, held["found_answer"]):
        query = [a + b for a, b in zip(query, bag(fact, table, dim))]
    scores = [dot(query, held["answers"][word]) for word in range(config.words[task] - 1)]
    if gold is not None:
        right = int(batch["answer"][row, task]) - 1
        loss += sum(max(0.0, config.margin - scores[right] + s) for w, s in enumerate(scores) if w != right)
    return loss, places, scores


@pytest.mark.parametrize("options", [{}, {"hops": 1}, {"hops": 3}, {"time": False}], ids=str)
def test_the_equations(options):
    net, batch = model(**options), stories()
    slots, hops = batch["story"].shape[2], net.config.hops
    out, predicted = net(batch), net.predict(batch)
    total = wrong = 0.0
    for task in range(2):
        for row in range(4):
            gold = [place if place >= 0 else slots for place in [*batch["support"][row, task].tolist(), -1][:hops]]
            loss, _, _ = loops(net, batch, task, row, gold)
            total += loss
            _, places, scores = loops(net, batch, task, row, None)
            answer = 1 + max(range(len(scores)), key=scores.__getitem__)
            wrong += answer != int(batch["answer"][row, task])
            assert predicted["answer"][row, task] == answer
            weights = predicted["weights"][row, task]
            found = [int(hop.argmax()) if hop.any() else slots for hop in weights]
            assert found == places
    assert out["loss"].item() == pytest.approx(2 * total / 8)
    assert out["error"].item() == pytest.approx(wrong / 8)


def test_gradients():
    net, batch = model(dim=3, margin=5.0), stories()  # with a wide margin no hinge is at its kink
    parameters = dict(net.named_parameters())

    def loss(*values):
        return torch.func.functional_call(net, dict(zip(parameters, values)), (batch,))["loss"]

    given = tuple(p.detach().clone().mul(0.1).requires_grad_() for p in parameters.values())
    assert torch.autograd.gradcheck(loss, given, atol=1e-6, fast_mode=True)


@settings(max_examples=60)
@given(st.integers(1, 8), st.integers(0, 2**31))
def test_the_tournament(length, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, 2, length, generator=generator)
    mask = torch.rand(3, 1, length, generator=generator) > 0.4
    newer = torch.randn(3, 2, generator=generator)
    weights = Tournament()(scores, mask, newer=newer)
    for b in range(3):
        for t in range(2):
            best = None
            for place in reversed(range(length)):
                if mask[b, 0, place] and (best is None or scores[b, t, place] + newer[b, t] > scores[b, t, best]):
                    best = place
            expected = torch.zeros(length)
            if best is not None:
                expected[best] = 1.0
            assert torch.equal(weights[b, t], expected)
    plain = Tournament()(scores, None, newer=torch.zeros(3, 2))
    assert torch.equal(plain.argmax(-1), scores.argmax(-1))


def test_one_of_several_tasks():
    net, batch = model(), stories()
    for task in range(2):
        alone = net.pick([task]).eval().predict({name: tensor[:, task : task + 1] for name, tensor in batch.items()})
        both = net.predict(batch)
        assert all(torch.equal(alone[name], both[name][:, task : task + 1]) for name in both)


def test_facts_that_are_lost_are_not_asked_for():
    net, batch = model(), stories()
    batch["support"][:] = torch.tensor([0, -2])
    assert torch.isfinite(net(batch)["loss"])
    batch["support"][:] = -1
    with pytest.raises(ValueError, match="learns from supporting facts"):
        net(batch)


def test_it_learns_to_fetch_what_is_needed():
    """A question names a word; the fact is the newest sentence with it, and the answer that sentence's other word."""
    torch.manual_seed(0)
    net = MemNN(Config(words=(13,), memory=(6,), hops=1, dim=16))
    steps = torch.optim.Adam(net.parameters(), lr=0.02)

    def made(rows):
        who, where = torch.randint(1, 4, (rows, 6)), torch.randint(5, 11, (rows, 6))
        asked = who[torch.arange(rows), torch.randint(0, 6, (rows,))]
        fact = (who == asked[:, None]).int().argmax(-1)
        answer = where.gather(1, fact[:, None])
        story = torch.stack([who, where], -1)[:, None]
        return {"story": story, "question": asked[:, None, None], "answer": answer, "support": fact[:, None, None]}

    for _ in range(150):
        net(made(64))["loss"].backward()
        steps.step()
        steps.zero_grad()
    out = net.eval()(made(300))
    assert out["error"] < 0.02 and out["retrieval"] > 0.98
