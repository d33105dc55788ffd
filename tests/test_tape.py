"""The tape: what `regard.record` sees in any model, that it changes nothing, and what it leaves behind."""

from __future__ import annotations

import copy
import json
import threading
import warnings
import weakref

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

import regard
from decode.models import Looking
from modules import Calls
from regard import decode
from regard.glimpses import Bilinear, FilterBank, MixtureWindow
from regard.scores import Additive

B, H, T, S, D = 2, 2, 3, 5, 8


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def close(x, y, atol=1e-6):
    return torch.allclose(x.double(), torch.as_tensor(y).double(), atol=atol)


def loops(query, key, allowed=None, bias=None, scale=None):
    """softmax(scale · q·k + bias) over the allowed keys, row by row in float64; a row without a key is 0."""
    q, k = (x.detach().double().numpy() for x in (query, key))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out = np.zeros((*q.shape[:-1], k.shape[-2]))
    for index in np.ndindex(*q.shape[:-1]):
        scores = np.array([scale * float(q[index] @ row) for row in k[index[:-1]]])
        if bias is not None:
            scores = scores + np.broadcast_to(bias, out.shape)[index]
        keep = np.ones(len(scores), bool) if allowed is None else np.broadcast_to(allowed, out.shape)[index]
        keep = keep & ~np.isneginf(scores)
        if keep.any():
            powers = np.where(keep, np.exp(np.where(keep, scores - scores[keep].max(), 0)), 0)
            out[index] = powers / powers.sum()
    return out


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


class Decoder(nn.Module):
    """Cross-attention to a memory, step by step."""

    def __init__(self):
        super().__init__()
        self.cross = regard.Attention(Additive(D, D, 4))

    def forward(self, query, key):
        memory = self.cross.remember(key)
        steps = [self.cross(query[:, t : t + 1], memory).context for t in range(query.shape[1])]
        return torch.cat(steps, 1)


# ---------------------------------------------------------------------------------------------------------
# what is seen


class TestRegard:
    def test_attention_by_its_path(self):
        model = Calls(lambda m, q, k: m.inner(q, k), inner=regard.Attention(Additive(D, D, 4)))
        query, key = torch.randn(B, T, D), torch.randn(B, S, D)
        with regard.record(model) as tape:
            out = model(query, key)
        assert tape.names() == ["inner"]
        assert torch.equal(tape["inner"].weights, out.weights)
        assert not tape["inner"].weights.requires_grad
        assert tape["inner"].calls[0].kind == "additive, softmax"

    @pytest.mark.parametrize("kernel", ["plain", "chunked", None])
    @pytest.mark.parametrize("want", ["lazy", True, False])
    def test_what_the_caller_asked_for_is_what_it_gets(self, kernel, want):
        attention = regard.Attention()
        query, key = torch.randn(B, T, D), torch.randn(B, S, D)
        with regard.kernels.use(kernel) if kernel else torch.no_grad():
            plain = attention(query, key, weights=want)
            with regard.record(attention) as tape:
                out = attention(query, key, weights=want)
        assert torch.equal(out.context, plain.context)
        assert (out.weights is None) == (plain.weights is None) == (want is False)
        assert (out.scores is None) == (plain.scores is None)
        assert close(tape["attention"].weights, loops(query, key))

    @pytest.mark.parametrize("score", ["scaled_dot", "additive"])
    @pytest.mark.parametrize("want", ["lazy", False])
    def test_multi_head_is_one_entry(self, score, want):
        model = nn.ModuleDict({"self": regard.MultiHead(D, H, score=score)})
        x = torch.randn(B, T, D)
        expected = model["self"](x, weights=True).weights
        with regard.record(model) as tape:
            model["self"](x, weights=want)
        assert tape.names() == ["self"]
        assert tape["self"].weights.shape == (B, H, T, T)
        assert close(tape["self"].weights, expected.detach())
        assert tape["self"].calls[0].kind == f"{score}, softmax"

    @pytest.mark.parametrize("want", ["lazy", False])
    def test_multi_head_unbatched(self, want):
        heads = regard.MultiHead(D, H)
        x = torch.randn(T, D)
        with regard.record(heads) as tape:
            heads(x, weights=want)
        assert close(tape["multi_head"].weights, heads(x).weights.detach())
        assert tape["multi_head"].weights.shape == (H, T, T)

    def test_attend_goes_by_the_running_module(self):
        inner = Calls(lambda m, q, k: regard.attend(q, k, weights=False).context)
        model = Calls(lambda m, q, k: m.block(q, k), block=inner)
        query, key = torch.randn(B, T, D), torch.randn(B, S, D)
        with regard.record(model) as tape:
            model(query, key)
        assert tape.names() == ["block"]  # and not once more for the kernel that it runs
        assert close(tape["block"].weights, loops(query, key))

    def test_sampled_weights_are_those_that_were_drawn(self):
        attention = regard.Attention(normalizer="hard")
        with regard.record(attention) as tape:
            out = attention(torch.randn(B, T, D), torch.randn(B, S, D))
        look = tape["attention"].calls[0]
        assert torch.equal(look.weights, out.weights)
        assert torch.equal(look.log_prob, out.log_prob.detach())
        assert not look.log_prob.requires_grad

    def test_windows_and_states(self):
        attention = regard.Attention(Additive(D, D, 4), window=regard.windows.LocalMonotonic(1))
        query, key = torch.randn(B, T, D), torch.randn(B, S, D)
        with regard.record(attention) as tape:
            out = attention(query, key)
        assert tape["attention"].weights.shape == (B, T, S)
        assert close(tape["attention"].weights, out.weights.detach())
        assert tape["attention"].calls[0].kind == "local_monotonic, additive, softmax"

    def test_a_stateful_score_is_one_call(self):
        attention = regard.Attention(regard.scores.LocationAware(D, D, 4, filters=2, kernel=3))
        with regard.record(attention) as tape:
            out = attention(torch.randn(B, T, D), torch.randn(B, S, D), weights=False)
        assert len(tape["attention"].calls) == 1
        assert tape["attention"].weights.shape == (B, T, S)
        assert out.weights is None

    def test_glimpses(self):
        def forward(m, x, image):
            m.window(x, x)
            m.bank.read(torch.zeros(B, 5), image)
            return m.sampler(torch.zeros(B, 2, 2, 2), image)

        model = Calls(forward, window=MixtureWindow(D, 3), bank=FilterBank(2), sampler=Bilinear())
        with regard.record(model) as tape:
            model(torch.randn(B, T, D), torch.randn(B, 1, 4, 6))
        assert tape.names() == ["window", "bank", "sampler"]
        assert [tape[name].shape for name in tape] == [(B, T, T), (B, 4, 24), (B, 4, 24)]
        assert [tape[name].calls[0].kind for name in tape] == ["mixture_window", "filter_bank", "bilinear"]

    @pytest.mark.filterwarnings("ignore:regard.record saw no attention")
    def test_attention_outside_the_model_is_not_its(self):
        inside, outside = regard.Attention(), regard.Attention()
        x = torch.randn(B, T, D)
        with regard.record(inside) as tape:
            outside(x, x)
            regard.attend(x, x)
            F.scaled_dot_product_attention(x, x, x)
        assert len(tape) == 0


class TestTorchFunction:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("case", ["plain", "bool", "float", "bias", "causal", "scale", "dead", "dropout"])
    def test_sdpa_against_loops(self, case, dtype):
        query, key = torch.randn(B, H, T, D, dtype=dtype), torch.randn(B, H, S, D, dtype=dtype)
        options, expected = {}, {}
        if case in ("bool", "dead"):
            allowed = torch.rand(B, 1, T, S) < 0.5
            allowed[..., 0, :] = case != "dead"
            options, expected = {"attn_mask": allowed}, {"allowed": allowed.numpy()}
        elif case == "float":
            mask = torch.zeros(T, S, dtype=dtype).masked_fill(torch.ones(T, S).tril() == 0, float("-inf"))
            options, expected = {"attn_mask": mask}, {"bias": mask.numpy()}
        elif case == "bias":
            bias = torch.randn(T, S, dtype=dtype)
            options, expected = {"attn_mask": bias}, {"bias": bias.numpy()}
        elif case == "causal":  # aligned to the beginning: query 0 sees key 0 alone, though S > T
            options, expected = {"is_causal": True}, {"allowed": np.tri(T, S, dtype=bool)}
        elif case == "scale":
            options = expected = {"scale": 0.3}
        elif case == "dropout":
            options = {"dropout_p": 0.5}
        model = Calls(lambda m, q, k: F.scaled_dot_product_attention(q, k, k, **options))
        with regard.record(model) as tape:
            out = model(query, key)
        weights = tape["calls"].weights
        assert weights.dtype == dtype
        assert close(weights, loops(query, key, **expected))
        if case != "dropout":
            assert close(weights @ key, out)
        if case == "dead":
            assert not weights[..., 0, :].any()

    def test_grouped_queries(self):
        query, key = torch.randn(B, 4, T, D), torch.randn(B, 2, S, D)
        model = Calls(lambda m: F.scaled_dot_product_attention(query, key, key, enable_gqa=True))
        with regard.record(model) as tape:
            model()
        assert close(tape["calls"].weights, loops(query, key.repeat_interleave(2, 1)))

    def test_every_argument_by_keyword_and_half_precision(self):
        query, key = torch.randn(B, H, T, D).bfloat16(), torch.randn(B, H, S, D).bfloat16()
        model = Calls(lambda m: F.scaled_dot_product_attention(key=key, value=key, query=query))
        with regard.record(model) as tape:
            model()
        assert tape["calls"].weights.dtype == torch.bfloat16
        assert close(tape["calls"].weights, loops(query, key), atol=4e-3)

    def test_places_are_told_apart_and_turns_of_a_loop_are_not(self):
        def look(x):
            return F.scaled_dot_product_attention(x, x, x)

        def forward(m, x):
            for _ in range(3):
                x = look(x)
            x = look(x) + look(x)
            return regard.attend(x, x).context

        model = Calls(lambda m, x: m.block(x), block=Calls(forward))
        with regard.record(model) as tape:
            model(torch.randn(B, T, D))
            model(torch.randn(B, T, D))
        assert tape.names() == ["block", "block#2", "block#3", "block#4"]
        assert [len(tape[name].calls) for name in tape] == [6, 2, 2, 2]

    def test_a_child_that_failed_does_not_keep_the_name(self):
        def forward(m, x):
            try:
                m.child(x)
            except RuntimeError:
                return F.scaled_dot_product_attention(x, x, x)

        def fail(m, x):
            raise RuntimeError

        model = Calls(lambda m, x: m.parent_(x), parent_=Calls(forward, child=Calls(fail)))
        with regard.record(model) as tape:
            model(torch.randn(B, T, D))
        assert tape.names() == ["parent_"]


def heads_of(module, query, key, allowed=None, bias=None):
    """The weights of an nn.MultiheadAttention with batch first, by loops."""
    w = module.in_proj_weight
    parts = w.chunk(3)[:2] if w is not None else (module.q_proj_weight, module.k_proj_weight)
    biases = module.in_proj_bias.chunk(3)[:2]
    split = [F.linear(x, p, b).unflatten(-1, (H, -1)).transpose(1, 2) for x, p, b in zip((query, key), parts, biases)]
    return loops(*split, allowed=allowed, bias=bias)


class TestTorchMultihead:
    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("need_weights", [True, False])
    @pytest.mark.parametrize("case", ["plain", "padding", "causal", "per head", "bias", "dead", "widths"])
    def test_against_loops(self, case, need_weights, training):
        widths = {"kdim": 6, "vdim": 4} if case == "widths" else {}
        module = nn.MultiheadAttention(D, H, dropout=0.5, batch_first=True, **widths).train(training)
        nn.init.normal_(module.in_proj_bias)
        query, key = torch.randn(B, T, D), torch.randn(B, S, widths.get("kdim", D))
        value = torch.randn(B, S, widths.get("vdim", D))
        options, allowed, bias = {}, None, None
        if case in ("padding", "dead"):
            padding = torch.tensor([[False] * S, [False, False, True, True, True]]) if case == "padding" else None
            padding = torch.tensor([[False] * S, [True] * S]) if padding is None else padding
            options, allowed = {"key_padding_mask": padding}, ~padding[:, None, None].numpy()
        elif case == "causal":
            mask = torch.ones(T, S, dtype=torch.bool).triu(1)
            options, allowed = {"attn_mask": mask}, ~mask.numpy()
        elif case == "per head":
            mask = torch.rand(B * H, T, S) < 0.5
            mask[..., 0] = False
            options, allowed = {"attn_mask": mask}, ~mask.reshape(B, H, T, S).numpy()
        elif case == "bias":
            mask = torch.randn(T, S)
            options, bias = {"attn_mask": mask}, mask.numpy()
        with regard.record(module) as tape:
            module(query, key, value, need_weights=need_weights, **options)
        weights = tape["multihead_attention"].weights
        assert weights.shape == (B, H, T, S)
        assert close(weights, heads_of(module, query, key, allowed, bias))
        assert len(tape["multihead_attention"].calls) == 1

    def test_a_dead_row_after_nan_stays_nan(self):
        """Zeros are for rows without a key; what went wrong must be seen."""
        module = nn.MultiheadAttention(D, H, batch_first=True)
        query = torch.full((1, T, D), float("nan"))
        with regard.record(module) as tape:
            module(query, query, query, key_padding_mask=torch.tensor([[False, False, True]]))
        assert tape["multihead_attention"].weights[..., :2].isnan().all()

    def test_extra_keys_unbatched_and_sequence_first(self):
        x = torch.randn(T, B, D)
        module = nn.MultiheadAttention(D, H, add_bias_kv=True, add_zero_attn=True)
        expected = module(x, x, x, average_attn_weights=False)[1]
        with regard.record(module) as tape:
            module(x, x, x, need_weights=False, key_padding_mask=torch.zeros(B, T, dtype=torch.bool))
            module(x[:, 0], x[:, 0], x[:, 0], need_weights=False)
        batched, single = tape["multihead_attention"].calls
        assert close(batched.weights, expected.detach())
        assert batched.weights.shape == (B, H, T, T + 2)
        assert close(single.weights, expected[0].detach())

    @pytest.mark.parametrize("mode", ["train", "eval", "no_grad", "inference"])
    @pytest.mark.parametrize("norm_first", [False, True])
    def test_encoder_layer(self, mode, norm_first):
        """In eval mode without gradients torch would run one fused call that has no weights to show."""
        layer = nn.TransformerEncoderLayer(D, H, 16, dropout=0.0, batch_first=True, norm_first=norm_first)
        layer.train(mode == "train")
        x = torch.randn(B, T, D)
        grad = {"no_grad": torch.no_grad, "inference": torch.inference_mode}.get(mode, torch.enable_grad)
        with grad():
            expected = layer(x)
            with regard.record(layer) as tape, warnings.catch_warnings():
                warnings.simplefilter("error")
                out = layer(x)
        assert close(out, expected.detach(), atol=1e-5)
        assert tape.names() == ["self_attn"]
        attended = layer.norm1(x) if norm_first else x
        assert close(tape["self_attn"].weights, heads_of(layer.self_attn, attended, attended))

    @pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
    @pytest.mark.parametrize("training", [True, False])
    def test_a_padded_encoder(self, training):
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, H, 16, 0.0, batch_first=True), 2)
        encoder.train(training)
        x, padding = torch.randn(B, S, D), torch.tensor([[False] * S, [False, False, True, True, True]])
        with torch.no_grad():
            expected = encoder(x, src_key_padding_mask=padding)
            with regard.record(encoder) as tape:
                out = encoder(x, src_key_padding_mask=padding)
        assert close(out[~padding], expected[~padding], atol=1e-5)
        assert tape.names() == ["layers.0.self_attn", "layers.1.self_attn"]
        allowed = ~padding[:, None, None].numpy()
        assert close(tape["layers.0.self_attn"].weights, heads_of(encoder.layers[0].self_attn, x, x, allowed))

    @pytest.mark.parametrize("training", [True, False])
    def test_the_whole_transformer(self, training):
        model = nn.Transformer(D, H, 1, 2, 16, batch_first=True).train(training)
        causal = nn.Transformer.generate_square_subsequent_mask(T)
        with torch.no_grad(), regard.record(model) as tape:
            model(torch.randn(B, S, D), torch.randn(B, T, D), tgt_mask=causal, tgt_is_causal=True)
        shapes = {name: tape[name].shape for name in tape}
        assert shapes == {
            "encoder.layers.0.self_attn": (B, H, S, S),
            "decoder.layers.0.self_attn": (B, H, T, T),
            "decoder.layers.0.multihead_attn": (B, H, T, S),
            "decoder.layers.1.self_attn": (B, H, T, T),
            "decoder.layers.1.multihead_attn": (B, H, T, S),
        }
        for name in tape:
            assert close(tape[name].weights.sum(-1), torch.ones(1))
        assert not tape["decoder.layers.0.self_attn"].weights.triu(1).any()


class TestWrittenOut:
    """A softmax whose result multiplies values."""

    WAYS = {  # noqa: RUF012
        "operator": lambda w, v: w @ v,
        "matmul": torch.matmul,
        "method": lambda w, v: w.matmul(v),
        "bmm": lambda w, v: torch.bmm(w.flatten(0, 1), v.flatten(0, 1)).unflatten(0, (B, H)),
        "einsum": lambda w, v: torch.einsum("bhts,bhsd->bhtd", w, v),
        "einsum of a list": lambda w, v: torch.einsum("bhsd, bhts -> bhtd", [v, w]),
    }

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("softmax", ["torch", "method", "functional", "module", "positive dim"])
    def test_ways_to_write_it(self, way, softmax):
        ways = {
            "torch": lambda m, s: torch.softmax(s, -1),
            "method": lambda m, s: s.softmax(dim=-1),
            "functional": lambda m, s: F.softmax(s, dim=-1, dtype=torch.float64).to(s.dtype),
            "module": lambda m, s: m.softmax(s),
            "positive dim": lambda m, s: torch.softmax(s, dim=3),
        }

        def forward(m, query, key):
            weights = m.dropout(ways[softmax](m, query @ key.mT / D**0.5))
            return self.WAYS[way](weights, key)

        block = Calls(forward, softmax=nn.Softmax(-1), dropout=nn.Dropout(0.5))
        model = Calls(lambda m, *args: m.block(*args), block=block)
        query, key = torch.randn(B, H, T, D), torch.randn(B, H, S, D)
        with regard.record(model) as tape:
            model(query, key)
        expected = loops(query, key)
        assert tape.names() == ["block"]
        assert close(tape["block"].weights, expected.reshape(tape["block"].shape))
        assert tape["block"].calls[0].kind == "softmax"

    def test_part_of_it(self):
        """An extra score that takes weight and has no value, as GPT-OSS has."""

        def forward(m, x):
            scores = torch.cat([x @ x.mT, torch.zeros(B, T, 1)], dim=-1)
            return torch.softmax(scores, -1)[..., :-1] @ x

        model, x = Calls(forward), torch.randn(B, T, D)
        with regard.record(model) as tape:
            model(x)
        assert tape["calls"].weights.shape == (B, T, T)
        assert (tape["calls"].weights.sum(-1) < 1).all()

    @pytest.mark.parametrize(
        "forward",
        [
            lambda m, x: torch.softmax(x, -1) * x,
            lambda m, x: torch.softmax(x, -1).sum(-1) @ x.sum(-1).mT,
            lambda m, x: torch.softmax(x, -2) @ x.mT,
            lambda m, x: x.mT @ torch.softmax(x, -1),
            lambda m, x: torch.einsum("btd,bsd->btsd", torch.softmax(x, -1), x),
        ],
    )
    def test_what_is_no_attention(self, forward):
        model = Calls(forward)
        with pytest.warns(UserWarning, match="saw no attention"), regard.record(model) as tape:
            model(torch.randn(B, T, D))
        assert len(tape) == 0

    def test_nothing_is_kept_alive(self):
        made = []

        def forward(m, x):
            weights = F.dropout(torch.softmax(x @ x.mT, -1), 0.5).contiguous().view(B, T, T)
            made.append(weakref.ref(weights))
            return weights @ x

        model = Calls(forward)
        with torch.no_grad(), regard.record(model):
            model(torch.randn(B, T, D))
            assert made[0]() is None


class TestReturned:
    """Weights that a module returns, computed in a way that cannot be followed."""

    @pytest.mark.parametrize("place", [1, 2])
    @pytest.mark.parametrize("shape", [(B, H, T, S), (B, T, S)])
    def test_beside_its_output(self, place, shape):
        weights = regard.normalizers.Sparsemax()(torch.randn(shape), None)
        beside = [torch.randn(B, H, T, S), torch.randn(1, H, T, D)][:place]

        class Sparse(nn.Module):
            def forward(self, x):
                return x, *beside[1:], weights, None, beside[0]

        model = nn.Sequential(Sparse())
        with regard.record(model) as tape:
            model(torch.randn(B, T, D))
        assert torch.equal(tape["0"].weights, weights)
        assert tape["0"].calls[0].kind == "sparse"

    def test_other_things_are_no_weights(self):
        others = torch.randn(B, H, T, D), torch.rand(B, H, T, S), torch.softmax(torch.randn(B, H, S, T), -1), None
        model = Calls(lambda m, x: (x, *others))
        with pytest.warns(UserWarning, match="saw no attention"), regard.record(model):
            model(torch.randn(B, T, D))


class TestLater:
    """Weights that the model does not compute are computed when they are read."""

    def watch(self, monkeypatch):
        computed = []
        weights = regard.tape.later.Later.weights
        monkeypatch.setattr(
            regard.tape.later.Later, "weights", lambda later: computed.append(later.shape) or weights(later)
        )
        return computed

    @pytest.mark.parametrize("kind", ["sdpa", "attend", "heads"])
    @pytest.mark.parametrize("grad", [True, False])
    def test_not_before(self, kind, grad, monkeypatch):
        computed = self.watch(monkeypatch)
        length = 64
        x = torch.randn(1, 2, length, 8)
        forward = {
            "sdpa": lambda m, x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
            "attend": lambda m, x: regard.attend(x, x, mask=regard.masks.causal()).context,
            "heads": lambda m, x: m.heads(x[0], mask=regard.masks.causal()).context,
        }[kind]
        model = Calls(forward, heads=regard.MultiHead(8, 2))
        with torch.set_grad_enabled(grad), regard.record(model) as tape:
            model(x)
        (name,) = tape.names()
        assert tape[name].shape[-2:] == (length, length) and str(length) in repr(tape) and not computed
        weights = tape[name].weights
        assert tape[name].weights is weights and len(computed) == 1
        assert not weights.triu(1).any() and close(weights.sum(-1), torch.ones(1)) and not weights.requires_grad
        if kind != "heads":
            assert close(weights, loops(x, x, np.tri(length, dtype=bool)))

    def test_single_queries_would_keep_all_their_keys(self, monkeypatch):
        computed = self.watch(monkeypatch)
        model = Calls(lambda m, q, k: F.scaled_dot_product_attention(q, k, k))
        with regard.record(model) as tape:
            model(torch.randn(B, H, 1, D), torch.randn(B, H, 50, D))
        assert computed and isinstance(tape["calls"].calls[0]._weights, torch.Tensor)

    def test_what_happens_to_query_and_key_afterwards(self):
        def forward(m, query, key, mask):
            out = F.scaled_dot_product_attention(query, key, key, attn_mask=mask)
            for tensor in (query, key, mask):
                tensor.zero_()
            return out

        query, key, mask = torch.randn(1, 1, 64, 4), torch.randn(1, 1, 64, 4), torch.rand(64, 64) < 0.5
        expected = loops(query, key, mask.numpy().copy())
        model = Calls(forward)
        with regard.record(model) as tape:
            model(query, key, mask)
        assert close(tape["calls"].weights, expected)

    def test_heads_and_rows_before_they_are_computed(self):
        query, key = torch.randn(B, 4, 64, D), torch.randn(B, 2, 64, D)
        for mask in (None, torch.randn(4, 64, 64), torch.rand(1, 64) < 0.5):
            model = Calls(lambda m, **options: F.scaled_dot_product_attention(query, key, key, **options))
            with regard.record(model) as whole, regard.record(model, heads=[2, -4], last=3) as part:
                model(enable_gqa=True, attn_mask=mask, is_causal=mask is None)
            assert close(part["calls"].weights, whole["calls"].weights[:, [2, 0], -3:])


class TestForms:
    """Hugging Face's form, where the names are those of torch's and ours."""

    def test_torch(self):
        model = nn.Transformer(D, H, 2, 3, 16, batch_first=True)
        with regard.record(model) as tape:
            model(torch.randn(B, S, D), torch.randn(B, T, D))
        assert [w.shape for w in tape.encoder_attentions] == [(B, H, S, S)] * 2
        assert [w.shape for w in tape.decoder_attentions] == [(B, H, T, T)] * 3
        assert [w.shape for w in tape.cross_attentions] == [(B, H, T, S)] * 3
        assert all(torch.equal(*pair) for pair in zip(tape.attentions, tape.decoder_attentions, strict=True))

    def test_an_encoder_alone_and_one_attention(self):
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, H, 16, batch_first=True), 2)
        with regard.record(encoder) as tape:
            encoder(torch.randn(B, T, D))
        assert [w.shape for w in tape.attentions] == [(B, H, T, T)] * 2
        assert tape.cross_attentions == tape.decoder_attentions == ()
        with regard.record(model := Decoder()) as tape:
            model(torch.randn(B, T, D), torch.randn(B, S, D))
        assert [w.shape for w in tape.attentions] == [w.shape for w in tape.cross_attentions] == [(B, 1, T, S)]

    def test_what_has_no_such_form(self):
        with pytest.raises(ValueError, match="this tape is empty"):
            _ = regard.Tape().attentions
        edges = regard.EdgeAttention()
        x = torch.randn(3, 2, 4)
        with regard.record(edges) as tape:
            edges(x, x, None, torch.tensor([[0, 1], [1, 2]]))
        with pytest.raises(ValueError, match=r"'edge_attention' has weights \(2, 2\).*read \.calls"):
            _ = tape.attentions


# ---------------------------------------------------------------------------------------------------------
# nothing changes


class Zoo(nn.Module):
    """Attention of every sort, with dropout and sampling."""

    def __init__(self):
        super().__init__()
        self.one = regard.MultiHead(D, H, dropout=0.3)
        self.two = nn.MultiheadAttention(D, H, dropout=0.3, batch_first=True)
        self.three = regard.Attention(normalizer="gumbel", dropout=0.3)
        self.window = MixtureWindow(D, 2)

    def forward(self, x):
        x = x + self.one(x, weights=False).context
        x = x + self.two(x, x, x, need_weights=False)[0]
        x = x + F.scaled_dot_product_attention(x, x, x, dropout_p=0.3)
        x = x + regard.attend(x, x, dropout=0.3).context
        out = self.three(x, x)
        x = self.window(x + out.context, x).context
        return x, out.weights.square().sum()


def test_outputs_gradients_and_random_numbers_are_the_same():
    model, x = Zoo(), torch.randn(B, T, D)

    def run(recorded):
        model.zero_grad()
        torch.manual_seed(1)
        if recorded:
            with regard.record(model) as tape:
                out, penalty = model(x)
            assert tape.names() == ["one", "two", "zoo", "zoo#2", "three", "window"]
        else:
            out, penalty = model(x)
        (out.sum() + penalty).backward()
        return out, penalty, torch.get_rng_state(), [p.grad for p in model.parameters()]

    plain, recorded = run(False), run(True)
    assert torch.equal(plain[0], recorded[0])
    assert torch.equal(plain[1], recorded[1])
    assert torch.equal(plain[2], recorded[2])
    for left, right in zip(plain[3], recorded[3], strict=True):
        assert (left is None and right is None) or torch.equal(left, right)


@pytest.mark.parametrize("score", ["scaled_dot", Additive(D, D, 4)])
def test_a_loss_on_lazy_weights_keeps_its_gradient(score):
    attention = regard.Attention(score)
    query = torch.randn(B, T, D, requires_grad=True)
    with regard.record(attention):
        out = attention(query, torch.randn(B, S, D))
    out.weights.square().sum().backward()
    assert query.grad.abs().sum() > 0


def test_weights_are_copies():
    def forward(m, x):
        out = m.inner(x, x, weights=True)
        before.append(out.weights.clone())
        out.weights.zero_()
        return out.context

    before = []
    model = Calls(forward, inner=regard.Attention())
    with torch.no_grad(), regard.record(model) as tape:
        model(torch.randn(B, T, D))
    assert torch.equal(tape["inner"].weights, before[0])


def test_weights_from_inference_mode_can_be_trained_on():
    model = Zoo()
    with torch.inference_mode(), regard.record(model) as tape:
        model(torch.randn(B, T, D))
    for name in tape:
        weights = tape[name].weights
        assert not weights.is_inference()
        scale = torch.ones((), requires_grad=True)
        (weights * scale).sum().backward()


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_recomputation_in_backward_is_not_a_call(use_reentrant):
    inner = Calls(lambda m, x: regard.attend(x, x).context)
    model = Calls(lambda m, x: checkpoint(m.inner, x, use_reentrant=use_reentrant), inner=inner)
    x = torch.randn(B, T, D, requires_grad=True)
    with set_checkpoint_early_stop(False), regard.record(model) as tape:
        model(x).sum().backward()
    assert len(tape["inner"].calls) == 1


# ---------------------------------------------------------------------------------------------------------
# nothing stays behind


class TestNothingStays:
    def test_after_the_block(self):
        model, x = Zoo(), torch.randn(B, T, D)
        with regard.record(model) as tape:
            assert hooks(model) > 0
            model(x)
        assert hooks(model) == 0
        model(x)
        assert all(len(tape[name].calls) == 1 for name in tape)
        assert torch.overrides._get_current_function_mode() is None
        assert regard.attended.witness.see is None

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, GeneratorExit])
    def test_after_an_exception(self, error):
        def forward(m, x):
            m.inner(x, x)
            raise error

        model = Calls(forward, inner=regard.Attention())
        with pytest.raises(error), regard.record(model) as tape:
            model(torch.randn(B, T, D))
        assert len(tape["inner"].calls) == 1
        assert hooks(model) == 0
        assert torch.overrides._get_current_function_mode() is None
        assert regard.attended.witness.see is None

    def test_an_attention_that_fails_leaves_the_recorder_working(self):
        attention = regard.Attention()
        x = torch.randn(B, T, D)
        with regard.record(attention) as tape:
            with pytest.raises(ValueError, match="differ in rank"):
                attention(x, x[0])
            attention(x, x)
        assert len(tape["attention"].calls) == 1

    def test_nested(self):
        model, x = Calls(lambda m, x: m.inner(x, x, x)[0], inner=nn.MultiheadAttention(D, H)), torch.randn(T, B, D)
        ours = Calls(lambda m, x: m.inner(m.model(x), x), model=model, inner=regard.Attention())
        with regard.record(ours) as outer:
            with regard.record(model) as inner:
                ours(x)
            ours(x)
        assert {name: len(outer[name].calls) for name in outer} == {"model.inner": 2, "inner": 2}
        assert {name: len(inner[name].calls) for name in inner} == {"inner": 1}
        assert torch.equal(outer["model.inner"].calls[0].weights, inner["inner"].weights)
        assert hooks(ours) == 0

    def test_the_same_model_twice(self):
        model, x = Zoo(), torch.randn(B, T, D)
        with regard.record(model) as outer, regard.record(model) as inner:
            model(x)
        assert outer.names() == inner.names()
        for name in outer:
            assert len(outer[name].calls) == len(inner[name].calls) == 1
            assert torch.equal(outer[name].weights, inner[name].weights)

    def test_threads_see_only_themselves(self):
        shared, tapes, failures = Zoo().eval(), {}, []
        start = threading.Barrier(4)

        def work(number):
            try:
                x = torch.randn(number + 1, T, D, generator=torch.Generator().manual_seed(number))
                mine = regard.MultiHead(D, H)
                start.wait()
                for _ in range(5):
                    with regard.record(shared) as tape, regard.record(mine) as own:
                        shared(x)
                        mine(x)
                    tapes[number] = tape, own
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        for number, (tape, own) in tapes.items():
            assert own.names() == ["multi_head"]
            for name in tape:
                assert len(tape[name].calls) == 1
                assert tape[name].weights.shape[0] == number + 1
        assert hooks(shared) == 0

    @pytest.mark.filterwarnings("ignore:regard.record saw no attention")
    def test_a_copy_made_meanwhile_does_not_record(self):
        model, x = regard.Attention(), torch.randn(B, T, D)
        with regard.record(model) as tape:
            twin = copy.deepcopy(model)
            twin(x, x)
        twin(x, x)
        model(x, x)
        assert len(tape) == 0


# ---------------------------------------------------------------------------------------------------------
# what cannot be seen is named


class Foreign(nn.Module):
    """An attention as Hugging Face's models have it, with or without torch's function."""

    class Config:
        _attn_implementation = "eager"

    def __init__(self):
        super().__init__()
        self.config = self.Config()

    def forward(self, x, cache=None):
        keys = x if cache is None else cache
        if self.config._attn_implementation == "sdpa":
            return F.scaled_dot_product_attention(x, keys, keys)
        return torch.softmax(x @ keys.mT, -1) @ keys


class TestNothingSeen:
    def test_a_fused_model_of_hugging_face_is_told_what_to_do(self):
        class FusedAttention(Foreign):
            def forward(self, x):
                return super().forward(x) if self.config._attn_implementation == "sdpa" else x

        model, x = nn.Sequential(FusedAttention()), torch.randn(B, T, D)
        model[0].config._attn_implementation = "flash_attention_2"
        said = r"could not see into '0' .*'flash_attention_2'.*model\.set_attn_implementation\(\"sdpa\"\)"
        with pytest.warns(UserWarning, match=said) as caught, regard.record(model):
            model(x)
        assert caught[0].filename == __file__
        model[0].config._attn_implementation = "sdpa"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with regard.record(model) as tape:
                model(x)
        assert tape.names() == ["0"]

    def test_other_reasons(self):
        x = torch.randn(B, T, D)
        model = Calls(lambda m, x: (x @ x.mT).exp() @ x)
        with pytest.warns(UserWarning, match=r"F\.scaled_dot_product_attention"), regard.record(model):
            model(x)
        with pytest.warns(UserWarning, match="no module of this model ran"), regard.record(model):
            pass
        model = nn.ModuleDict({"first": regard.Attention(), "second": nn.Identity()})
        with pytest.warns(UserWarning, match="no name fits.*known: first"), regard.record(model, only="frist*"):
            model["first"](x, x)

    def test_silence_where_it_was_not_to_be_expected(self):
        model = nn.ModuleDict({"reader": nn.Identity(), "look": regard.Attention()})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with regard.record(model):
                model["reader"](torch.ones(2))
            with pytest.raises(ZeroDivisionError), regard.record(model):
                1 / 0  # noqa: B018


class TestReordered:
    @pytest.mark.parametrize("kind", ["memory", "tensor"])
    def test_steps_of_a_beam_are_not_joined(self, kind, tmp_path):
        """Between two steps hypotheses change places, so that a row of the joined weights would be of several."""
        model = regard.Attention() if kind == "memory" else Foreign()
        query, rows = torch.randn(3, 4, 1, D).unbind(1), torch.randn(3, S, D)
        if kind == "tensor":
            model.config._attn_implementation = "sdpa"

        def decode(*orders):
            cache = rows if kind == "tensor" else model.remember(rows)
            with torch.no_grad(), regard.record(model) as tape:
                for step, order in zip(query, orders):
                    model(step, cache)
                    index = torch.tensor(order)
                    cache = cache.index_select(0, index) if kind == "tensor" else cache.select(index)
            return tape

        still, (name,) = [0, 1, 2], decode([0, 1, 2]).names()
        assert decode(still, still, still)[name].weights.shape == (3, 3, S)
        tape = decode(still, [1, 1, 0], still)
        tape.save(tmp_path / "tape.safetensors")
        for each in (tape, regard.Tape.load(tmp_path / "tape.safetensors")):
            assert len(each[name].calls) == 3 and name in repr(each) and "3" in each._repr_html_()
            with pytest.raises(ValueError, match=r"reordered between the 3 calls.*read \.calls"):
                _ = each[name].weights

    def test_a_search_of_ours(self):
        model = Looking().eval()
        batch = {"source": torch.randint(3, 11, (2, 5)), "source_lengths": torch.tensor([5, 3])}
        with regard.record(model) as tape:
            decode.beam(model, batch, size=3, max_length=8)
        assert tape.names() == ["self_attention", "cross_attention"]
        for name in tape:
            assert len({look.order for look in tape[name].calls}) > 1
            with pytest.raises(ValueError, match=r"read \.calls"):
                _ = tape[name].weights


class TestUnseen:
    def test_one_warning_names_every_attention_that_showed_nothing(self):
        class LinearAttention(nn.Module):
            def forward(self, x):
                return x.exp() @ (x.exp().mT @ x)

        class Attention(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return self.inner(x)

        seen = Calls(lambda m, x: F.scaled_dot_product_attention(x, x, x))
        model = nn.Sequential(Attention(LinearAttention()), Attention(seen), LinearAttention())
        model.idle = LinearAttention()
        said = r"see into '0\.inner' \(.*cannot be followed\); '2' \(.*cannot be followed\)$"
        with pytest.warns(UserWarning, match=said) as caught, regard.record(model) as tape:
            model[:3](torch.randn(B, T, D))
        assert len(caught) == 1 and tape.names() == ["1.inner"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with regard.record(model, only="1.*"):
                model[:3](torch.randn(B, T, D))

    def test_compiled(self):
        inner = torch.compile(Calls(lambda m, x: F.scaled_dot_product_attention(x, x, x)), backend="aot_eager")
        model, x = nn.ModuleDict({"fast": inner, "plain": regard.Attention()}), torch.randn(B, T, D)
        expected = model["fast"](x)

        def run():
            with regard.record(model) as tape:
                out = model["fast"](x)
                model["plain"](x, x)
            return tape, out

        for _ in range(2):
            with pytest.warns(UserWarning, match=r"could not see into 'fast' \(compiled.*force_eager") as caught:
                tape, out = run()
            assert [each.filename for each in caught if "regard" in str(each.message)] == [__file__]
            assert tape.names() == ["plain"]
            assert torch.equal(out, expected)
        with torch.compiler.set_stance("force_eager"), regard.record(model) as tape:
            model["fast"](x)
        assert tape.names() == ["fast"]

    def test_compiled_in_place(self):
        model = nn.Sequential(Calls(lambda m, x: F.scaled_dot_product_attention(x, x, x)))
        model[0].compile(backend="aot_eager", fullgraph=True)
        x = torch.randn(B, T, D)
        with pytest.warns(UserWarning, match="could not see into '0'"), regard.record(model):
            first = model(x)
        assert torch.equal(model(x), first)

    def test_compiled_attention_that_returns_its_weights(self):
        attention = regard.Attention()
        compiled, x = torch.compile(attention, backend="aot_eager", fullgraph=True), torch.randn(B, T, D)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "regard")  # torch may have something to say about its compiler
            with regard.record(compiled) as tape:
                compiled(x, x, weights=True)
        assert close(tape["attention"].weights, loops(x, x))

    @pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
    def test_scripted(self):
        model = nn.Sequential(torch.jit.trace(nn.Sequential(nn.Linear(D, D)), torch.randn(B, D)), nn.Linear(D, D))
        with pytest.warns(UserWarning, match=r"see into '0' \(TorchScript\)$"), regard.record(model):
            model(torch.randn(B, D))

    def test_a_fused_kernel(self):
        w, b = torch.randn(3 * D, D), torch.randn(3 * D)

        def forward(m, x):
            return torch._native_multi_head_attention(x, x, x, D, H, w, b, w[:D], b[:D], need_weights=False)[0]

        model = Calls(lambda m, x: m.fused(x), fused=Calls(forward))
        with pytest.warns(UserWarning, match=r"'fused' \(a fused kernel"), regard.record(model) as tape:
            model(torch.randn(B, T, D))
        assert len(tape) == 0

    def test_inside_vmap(self):
        model = Calls(lambda m, x: regard.attend(x, x).context)
        x = torch.randn(4, B, T, D)
        with pytest.warns(UserWarning, match=r"'calls' \(inside vmap"), regard.record(model) as tape:
            out = torch.func.vmap(model)(x)
        assert len(tape) == 0
        assert close(out, regard.attend(x, x).context)

    def test_no_weights_at_all(self):
        class Blind(regard.parts.Glimpse):
            def forward(self, x):
                return regard.Attended(x)

        with pytest.warns(UserWarning, match=r"'blind' \(it gave no weights\)"), regard.record(blind := Blind()):
            blind(torch.randn(B, T, D))

    def test_not_recording_compiles_in_one_graph(self):
        attention, x = regard.Attention(Additive(D, D, 4)), torch.randn(B, T, D)
        out = torch.compile(attention, backend="aot_eager", fullgraph=True)(x, x)
        assert close(out.context.detach(), attention(x, x).context.detach(), atol=1e-5)


# ---------------------------------------------------------------------------------------------------------
# the tape itself


def taped(*shapes, name="cross"):
    """A tape with one entry of random weights of these shapes, one call each."""
    tape = regard.Tape()
    calls = [regard.tape.Look(torch.rand(shape), kind="dot, softmax") for shape in shapes]
    tape._entries[name] = regard.tape.Entry(name, calls)
    return tape


class TestJoining:
    def test_the_steps_of_a_decoder(self):
        model, query, key = Decoder(), torch.randn(B, T, D), torch.randn(B, S, D)
        with regard.record(model) as tape:
            model(query, key)
        assert len(tape["cross"].calls) == T
        assert close(tape["cross"].weights, model.cross(query, key).weights.detach())

    def test_a_cache_that_grows(self):
        attention, x = regard.Attention(), torch.randn(B, T, D)
        memory = attention.remember(x[:, :0])
        with torch.no_grad(), regard.record(attention) as tape:
            for t in range(T):
                memory = memory.append(x[:, t : t + 1])
                attention(x[:, t : t + 1], memory)
        assert close(tape["attention"].weights, loops(x, x, allowed=np.tri(T, dtype=bool)))

    def test_a_prompt_comes_first(self):
        tape = taped((B, 4, 4), (B, 1, 5), (B, 1, 6))
        joined = tape["cross"].weights
        assert joined.shape == (B, 6, 6)
        assert torch.equal(joined[:, :4, :4], tape["cross"].calls[0].weights)
        assert not joined[:, :4, 4:].any()
        assert torch.equal(joined[:, 5], tape["cross"].calls[2].weights[:, 0])

    @pytest.mark.parametrize(
        "shapes",
        [
            [(B, 2, 5), (B, 2, 5)],  # two batches
            [(B, 1, 5), (B + 1, 1, 5)],
            [(B, 1, 5), (B, 1, 4)],  # another source
            [(B, 1, 5), (B, 2, 5)],
            [(B, 1, 5), (B, H, 1, 5)],
        ],
    )
    def test_other_calls_are_not_joined(self, shapes):
        tape = taped(*shapes)
        with pytest.raises(ValueError, match=r"'cross' was called 2 times.*read \.calls"):
            _ = tape["cross"].weights
        assert len(tape["cross"].calls) == 2
        assert str(shapes[0]) in repr(tape)


class TestTape:
    def test_it_is_a_collection_of_names(self):
        model = Zoo()
        with regard.record(model) as tape:
            model(torch.randn(B, T, D))
        assert list(tape) == tape.names() == ["one", "two", "zoo", "zoo#2", "three", "window"]
        assert len(tape) == 6
        assert "two" in tape and "four" not in tape
        with pytest.raises(ValueError, match=r"no attention called 'windwo'.*did you mean 'window'"):
            tape["windwo"]

    def test_only_the_names_asked_for(self):
        model, x = nn.Transformer(D, H, 1, 2, 16, batch_first=True), torch.randn(B, T, D)
        with regard.record(model, only="decoder.*.multihead_attn") as tape:
            model(x, x)
        assert tape.names() == ["decoder.layers.0.multihead_attn", "decoder.layers.1.multihead_attn"]
        with regard.record(model, only=["encoder.*", "*.1.self_attn"]) as tape:
            model(x, x)
        assert tape.names() == ["encoder.layers.0.self_attn", "decoder.layers.1.self_attn"]

    def test_only_modules_are_recorded(self):
        with pytest.raises(ValueError, match=r"nn\.Module, not function"), regard.record(regard.attend):
            pass

    def test_the_table(self):
        model = nn.ModuleDict({"self": regard.MultiHead(D, H), "cross": regard.Attention()})
        x = torch.randn(B, T, D)
        with regard.record(model) as tape:
            model["self"](x)
            model["cross"](x[:, :1], x)
            model["cross"](x[:, 1:2], x)
        assert repr(tape).splitlines() == [
            "name   calls  weights       kind",
            "self   1      (2, 2, 3, 3)  scaled_dot, softmax",
            "cross  2      (2, 2, 3)     scaled_dot, softmax",
        ]
        assert repr(regard.Tape()) == "Tape: no attention seen"

    def test_labels(self):
        tape = taped((B, T, S))
        tape.label("cross", rows=["le", "chat", "</s>"])
        tape.label("cross", columns=list("abcde"))
        assert (tape["cross"].rows, tape["cross"].columns) == (["le", "chat", "</s>"], list("abcde"))
        with pytest.raises(ValueError, match=r"'cross' has 5 columns, weights \(2, 3, 5\), but 2 tokens"):
            tape.label("cross", columns=["a", "b"])
        with pytest.raises(ValueError, match="not one string"):
            tape.label("cross", rows="abc")
        with pytest.raises(ValueError, match="did you mean 'cross'"):
            tape.label("cros", rows=[])

    def test_labels_of_joined_steps(self):
        tape = taped((1, 1, 1), (1, 1, 2))
        tape.label("cross", rows=["a", "b"], columns=["a", "b"])
        with pytest.raises(ValueError, match=r"read \.calls"):
            taped((1, 2, 2), (1, 2, 2)).label("cross", rows=["a", "b"])


class TestFiles:
    def test_round_trip(self, tmp_path):
        tape = taped((B, 1, S), (B, 1, S), name="décodeur/ø 0")
        tape.label("décodeur/ø 0", rows=["猫", "\n"], columns=["", '"', "{", "b", "c"])
        look = regard.tape.Look
        tape._entries["empty"] = regard.tape.Entry("empty", [look(torch.zeros(0, 2, 0))])
        tape._entries["half"] = regard.tape.Entry(
            "half", [look(torch.rand(2, 2).bfloat16(), torch.randn(2)), look(torch.rand(2, 2).double()[:, :1].mT)]
        )
        tape.save(tmp_path / "t.safetensors")
        back = regard.Tape.load(str(tmp_path / "t.safetensors"))
        assert back.names() == tape.names()
        for name in tape:
            assert (back[name].rows, back[name].columns) == (tape[name].rows, tape[name].columns)
            for was, now in zip(tape[name].calls, back[name].calls, strict=True):
                assert torch.equal(was.weights, now.weights) and was.weights.dtype == now.weights.dtype
                assert was.kind == now.kind
                assert (was.log_prob is None) == (now.log_prob is None)
        assert torch.equal(back["half"].calls[0].log_prob, tape["half"].calls[0].log_prob)
        assert [path.name for path in tmp_path.iterdir()] == ["t.safetensors"]

    def test_an_empty_tape(self, tmp_path):
        regard.Tape().save(tmp_path / "t")
        assert len(regard.Tape.load(tmp_path / "t")) == 0

    def test_anyone_can_read_it_as_safetensors(self, tmp_path):
        tape = taped((B, T, S))
        tape.save(tmp_path / "t.safetensors")
        (tmp_path / "usual").touch()
        assert (tmp_path / "t.safetensors").stat().st_mode == (tmp_path / "usual").stat().st_mode
        assert torch.equal(
            safetensors.torch.load_file(tmp_path / "t.safetensors")["0.0.weights"], tape["cross"].weights
        )

    def test_a_save_that_fails_changes_nothing(self, tmp_path, monkeypatch):
        path = tmp_path / "t"
        taped((B, T, S)).save(path)
        before = path.read_bytes()

        def fail(tensors, file, metadata):
            file.write_bytes(b"half")
            raise OSError("disk full")

        monkeypatch.setattr(regard.tape.entries, "save_file", fail)
        with pytest.raises(OSError, match="disk full"):
            taped((B, 1, 1)).save(path)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_what_is_no_tape(self, tmp_path):
        path = tmp_path / "t"
        for data in (b"", b"not a tape", bytes(100)):
            path.write_bytes(data)
            with pytest.raises(ValueError, match="is no tape"):
                regard.Tape.load(path)
        taped((B, T, S)).save(path)
        path.write_bytes(path.read_bytes()[:-4])
        with pytest.raises(ValueError, match="is no tape"):
            regard.Tape.load(path)
        safetensors.torch.save_file({"w": torch.zeros(1)}, path)
        with pytest.raises(ValueError, match=r"not one that Tape\.save wrote"):
            regard.Tape.load(path)
        with pytest.raises(FileNotFoundError):
            regard.Tape.load(tmp_path / "nowhere")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"version": "2"}, "version 2; this regard reads version 1"),
            ({"entries": "["}, "damaged"),
            ({"entries": json.dumps([{"name": "x"}])}, "damaged"),
            ({"entries": json.dumps([{"name": "x", "kinds": [""], "rows": None, "columns": None}])}, "damaged"),
        ],
    )
    def test_a_damaged_tape(self, tmp_path, change, message):
        about = {"format": "regard.tape", "version": "1", "entries": "[]", **change}
        safetensors.torch.save_file({}, tmp_path / "t", metadata=about)
        with pytest.raises(ValueError, match=message):
            regard.Tape.load(tmp_path / "t")
