"""Many heads, against torch's and against one head at a time."""

import pytest
import torch

import regard
from regard import masks, parts
from regard.heads import PerHead
from regard.scores import Additive, LocationAware

B, T, S, DIM, HEADS = 2, 4, 5, 12, 3


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [{}, {"kdim": 7, "vdim": 9}])
@pytest.mark.parametrize("training", [True, False])
def test_from_torch(bias, widths, training):
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(DIM, HEADS, bias=bias, batch_first=True, **widths).train(training)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    ours = regard.MultiHead.from_torch(theirs)
    assert ours.training == training
    query = torch.randn(B, T, DIM)
    key, value = torch.randn(B, S, widths.get("kdim", DIM)), torch.randn(B, S, widths.get("vdim", DIM))
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    expected, weights = theirs(query, key, value, key_padding_mask=padding, average_attn_weights=False)
    out = ours(query, key, value, mask=masks.from_torch(key_padding_mask=padding))
    assert torch.allclose(out.context, expected, atol=1e-5, rtol=1e-5)
    assert torch.allclose(out.weights, weights, atol=1e-5)
    single, _ = theirs(query[0], key[0], value[0])
    assert torch.allclose(ours(query[0], key[0], value[0]).context, single, atol=1e-5, rtol=1e-5)


def test_from_torch_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="add_bias_kv"):
        regard.MultiHead.from_torch(torch.nn.MultiheadAttention(4, 2, add_bias_kv=True))


def buildable():
    widths = {"query_dim", "key_dim", "hidden_dim"}
    found = parts.names("scores")
    return [name for name in found if set(parts.arguments(parts.find("scores", name), required=True)) <= widths]


@pytest.mark.parametrize("name", buildable())
@pytest.mark.parametrize("kernel", ["plain", "fused"])
def test_each_head_is_an_attention_of_its_own(name, kernel):
    torch.manual_seed(0)
    heads = regard.MultiHead(DIM, HEADS, score=name)
    query, key = torch.randn(B, T, DIM), torch.randn(B, S, DIM)
    mask = masks.lengths(torch.tensor([2, 5]))
    with regard.kernels.use(kernel):
        out = heads(query, key, mask=mask)
    d = DIM // HEADS
    q, k, v = heads.query(query), heads.key(key), heads.value(key)
    contexts = []
    for h in range(HEADS):
        score = heads.attention.score.scores[h] if isinstance(heads.attention.score, PerHead) else heads.attention.score
        one = regard.Attention(score)
        part = slice(h * d, (h + 1) * d)
        with regard.kernels.use("plain"):
            alone = one(q[..., part], k[..., part], v[..., part], mask=mask)
        assert torch.allclose(out.weights[:, h], alone.weights, atol=1e-5)
        contexts.append(alone.context)
    assert torch.allclose(out.context, heads.out(torch.cat(contexts, -1)), atol=1e-5)


def test_a_named_score_has_parameters_for_each_head_and_an_instance_is_shared():
    own = regard.MultiHead(DIM, HEADS, score="additive")
    shared = regard.MultiHead(DIM, HEADS, score=Additive(4, 4, 4))
    count = [sum(p.numel() for p in m.attention.score.parameters()) for m in (own, shared)]
    assert count[0] == HEADS * count[1]


def test_masks_of_every_rank():
    torch.manual_seed(0)
    heads, x = regard.MultiHead(DIM, HEADS), torch.randn(B, T, DIM)
    full = torch.rand(B, HEADS, T, T) > 0.3
    out = heads(x, mask=full)
    assert (out.weights[~full] == 0).all()
    per_query = torch.rand(B, T, T) > 0.3
    assert torch.equal(heads(x, mask=per_query).weights > 0, per_query[:, None].expand(B, HEADS, T, T))
    unbatched = torch.rand(T, T) > 0.3
    out = heads(x[0], mask=unbatched)
    assert out.context.shape == (T, DIM) and out.weights.shape == (HEADS, T, T)
    assert torch.equal(out.weights > 0, unbatched.expand(HEADS, T, T))
    assert torch.allclose(out.context, heads(x[:1], mask=unbatched[None]).context[0], atol=1e-6)


def test_a_stateful_score_shared_by_heads():
    torch.manual_seed(0)
    heads = regard.MultiHead(DIM, HEADS, score=LocationAware(4, 4, 6, filters=2, kernel=3))
    x, mask = torch.randn(B, T, DIM), masks.lengths(torch.tensor([3, 4]))
    whole = heads(x, mask=mask)
    memory = heads.remember(x, mask=mask)
    state, steps = heads.start(memory), []
    for t in range(T):
        out = heads(x[:, t : t + 1], memory, state=state)
        state = out.state
        steps.append(out.context)
    assert torch.allclose(torch.cat(steps, 1), whole.context, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regard.MultiHead(10, 3), "dim=10, heads=3"),
        (lambda: regard.MultiHead(12, 3, score="location_aware"), "filters, kernel"),
        (lambda: regard.MultiHead(12, 3, score="adaptive"), "additive"),
        (lambda: regard.MultiHead(12, 3)(torch.randn(2, 4, 11)), r"12.*\(2, 4, 11\)"),
        (lambda: regard.MultiHead(12, 3)(torch.randn(2, 4, 12), torch.randn(2, 4, 11)), r"12.*\(2, 4, 11\)"),
        (lambda: regard.MultiHead(12, 3)(torch.randn(2, 4, 12), torch.randn(4, 12)), "rank"),
        (lambda: regard.MultiHead(12, 3)(torch.randn(2, 4, 12), value=torch.randn(2, 4, 12)), "self-attention"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
