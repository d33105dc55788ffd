"""`regard.change`: other weights for an attention of any model, and nothing else."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from modules import Calls
from regard.glimpses import MixtureWindow
from regard.refiners import ShiftSharpen
from regard.scores import Additive, LocationAware

B, H, T, S, D = 2, 2, 3, 5, 8


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def close(x, y, atol=1e-5):
    return torch.allclose(x, y, atol=atol)


def half(weights):
    return weights / 2


# ---------------------------------------------------------------------------------------------------------
# our own


LENGTHS = torch.tensor([5, 3])
ALLOWED = torch.arange(S) < LENGTHS[:, None]  # (B, S)


def even(allowed):
    """(B, S) → (B, 1, S)."""
    return (allowed / allowed.sum(-1, keepdim=True))[:, None]


class TestOurs:
    @pytest.mark.parametrize("kernel", ["plain", None])
    @pytest.mark.parametrize("want", ["lazy", True, False])
    @pytest.mark.parametrize("score", ["scaled_dot", Additive(D, D, 4)])
    def test_attention(self, score, want, kernel):
        attention = regard.Attention(score)
        query, key = torch.randn(B, T, D), torch.randn(B, S, D)
        mask = regard.masks.lengths(LENGTHS)
        plain = attention(query, key, mask=mask, weights=True)
        with regard.kernels.use(kernel) if kernel else torch.no_grad():
            for way, expected in (
                ("zero", torch.zeros(B, T, S)),
                ("uniform", even(ALLOWED).expand(B, T, S)),
                (half, plain.weights / 2),
                (torch.eye(S)[0], torch.eye(S)[0].expand(B, T, S)),
            ):
                with regard.change(attention, "attention", weights=way) as calls:
                    out = attention(query, key, mask=mask, weights=want)
                assert calls == {"attention": 1}
                assert close(out.context, expected @ key)
                assert out.weights is None if want is False else close(out.weights, expected)
        after = attention(query, key, mask=mask, weights=True)
        assert torch.equal(after.context, plain.context)

    def test_permuted_among_what_may_be_attended(self):
        attention = regard.Attention()
        query, key = torch.randn(B, 40, D), torch.randn(B, S, D)
        mask = regard.masks.lengths(LENGTHS)
        plain = attention(query, key, mask=mask).weights
        results = []
        for seed in (0, 0, 1):
            with regard.change(attention, "*", weights="permute", seed=seed):
                results.append(attention(query, key, mask=mask).weights)
        assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])
        assert torch.equal(results[0].sort(-1).values, plain.sort(-1).values)
        assert not results[0][1, :, 3:].any()
        moved = (results[0] != plain).any(-1).float().mean()
        assert 0.5 < moved <= 1

    @pytest.mark.parametrize("grad", [True, False])
    def test_steps_of_a_decoder_with_a_memory(self, grad):
        attention = regard.Attention(Additive(D, D, 4))
        query, key = torch.randn(B, T, D), torch.randn(B, S, D)
        with torch.set_grad_enabled(grad), regard.change(attention, "attention", weights="uniform") as calls:
            memory = attention.remember(key, mask=regard.masks.lengths(LENGTHS))
            memory = memory.select(torch.tensor([1, 0]))
            steps = [attention(query[:, t : t + 1], memory).context for t in range(T)]
        assert calls == {"attention": T}
        expected = (even(ALLOWED) @ key)[[1, 0]].expand(B, T, D)
        assert close(torch.cat(steps, 1), expected)

    def test_only_inside_the_window(self):
        attention = regard.Attention(window=regard.windows.LocalMonotonic(1))
        x = torch.randn(B, S, D)
        with regard.change(attention, "attention", weights="uniform"):
            out = attention(x, x)
        near = (torch.arange(S) - torch.arange(S)[:, None]).abs() <= 1
        assert close(out.weights, (near / near.sum(-1, keepdim=True)).expand(B, S, S))
        assert close(out.context, out.weights @ x)

    def test_a_state_follows_the_changed_weights(self):
        """Location-aware scores look at the weights of the query before, which are now the first key's."""
        attention = regard.Attention(LocationAware(D, D, 4, filters=2, kernel=3))
        query, key = torch.randn(B, 2, D), torch.randn(B, S, D)
        first = torch.eye(S)[0]
        memory = attention.remember(key)
        with regard.change(attention, "attention", weights=first):
            out = attention(query, memory)
        assert close(out.weights, first.expand(B, 2, S)) and close(out.state, first.expand(B, S))
        start = attention(query[:, 1:], memory, state=first.expand(B, S))
        kept = []
        with regard.change(attention, "attention", weights=lambda w: kept.append(w) or first.expand_as(w)):
            attention(query, memory)
        assert close(kept[1], start.weights)

    def test_after_a_refiner(self):
        attention = regard.Attention("cosine", refiner=ShiftSharpen())
        shift = torch.tensor([0.0, 0.0, 1.0]).expand(B, 1, 3)
        extras = {"gate": torch.ones(B, 1), "shift": shift, "sharpen": torch.full((B, 1), 2.0)}
        query, key = torch.randn(B, 1, D), torch.randn(B, S, D)
        memory = attention.remember(key)
        state = attention.start(memory)
        plain = attention(query, memory, state=state, **extras)
        with regard.change(attention, "attention", weights=lambda w: w.flip(-1)):
            out = attention(query, memory, state=state, **extras)
        assert close(out.weights, plain.weights.flip(-1)) and close(out.state, out.weights[:, 0])

    @pytest.mark.parametrize("batched", [True, False])
    def test_heads(self, batched):
        model = nn.ModuleDict({"self": regard.MultiHead(D, H)})
        x = torch.randn(B, T, D) if batched else torch.randn(T, D)
        without = copy.deepcopy(model)
        with torch.no_grad():
            without["self"].out.weight[:, D // H :] = 0
            expected = without["self"](x).context
            with regard.change(model, "self", head=1, weights="zero"):
                assert close(model["self"](x).context, expected)
            with regard.change(model, "self", head=0, weights="keep"):
                assert close(model["self"](x).context, expected)
            with regard.change(model, "self", head=[-1], weights="zero"):
                assert close(model["self"](x).context, expected)
        shapes = []
        for head in (0, [0], [1, 0], None):
            with regard.change(model, "self", head=head, weights=lambda w: shapes.append(tuple(w.shape)) or w):
                model["self"](x)
        lead = (B if batched else 1,)
        assert shapes == [(*lead, T, T), (*lead, 1, T, T), (*lead, 2, T, T), (*lead, 2, T, T)]

    def test_attend_and_several_places(self):
        def forward(m, x):
            first = regard.attend(x, x).context
            return first, regard.attend(x, x).context

        model, x = Calls(forward), torch.randn(B, T, D)
        plain = model(x)
        with regard.change(model, "calls#2", weights="zero") as calls:
            out = model(x)
        assert torch.equal(out[0], plain[0]) and not out[1].any()
        assert calls == {"calls#2": 1}

    def test_masked_rows_stay_masked_and_nan_out(self):
        """A key that may not be attended gets no weight, whatever is in it."""
        attention = regard.Attention()
        key = torch.randn(B, S, D)
        key[1, 3:] = float("nan")
        with regard.change(attention, "attention", weights="uniform"):
            out = attention(torch.randn(B, T, D), key, mask=regard.masks.lengths(LENGTHS))
        assert close(out.context, (even(ALLOWED) @ key.nan_to_num()).expand(B, T, D))

    def test_gradients_flow_through_a_function(self):
        attention = regard.Attention()
        x, scale = torch.randn(B, T, D), torch.ones((), requires_grad=True)
        with regard.change(attention, "attention", weights=lambda w: w * scale):
            context = attention(x, x).context
        context.square().sum().backward()
        assert close(scale.grad, 2 * attention(x, x).context.square().sum())


class TestEdges:
    INDEX = torch.tensor([[0, 1, 2, 0, 3], [1, 2, 1, 2, 1]])

    @pytest.mark.parametrize("score", ["scaled_dot", regard.scores.LeakyConcat(D, D, heads=H)])
    def test_our_own(self, score):
        attention = regard.EdgeAttention(score)
        x = torch.randn(4, H, D)
        edges = regard.Edges(self.INDEX, 4)
        plain = attention(x, x, x, edges)
        with regard.change(attention, "edge_attention", weights="uniform"):
            out = attention(x, x, x, edges)
        assert close(out.weights, torch.tensor([1 / 3, 1 / 2, 1 / 3, 1 / 2, 1 / 3])[:, None].expand(5, H))
        assert close(out.context[1], x[[0, 2, 3]].mean(0)) and not out.context[0].any()
        with regard.change(attention, "edge_attention", head=1, weights="zero"):
            out = attention(x, x, x, edges)
        assert close(out.context[:, 0], plain.context[:, 0]) and not out.context[:, 1].any()

    def test_permuted_among_the_edges_of_a_target(self):
        attention, nodes = regard.EdgeAttention(), 30
        x = torch.randn(nodes, H, D)
        target = torch.randint(nodes, (400,))
        edges = regard.Edges(torch.stack([torch.randint(nodes, (400,)), target]), nodes)
        plain = attention(x, x, x, edges).weights
        with regard.change(attention, "*", weights="permute"):
            out = attention(x, x, x, edges).weights
        assert not close(out, plain)
        for node in range(nodes):
            assert close(out[target == node].sort(0).values, plain[target == node].sort(0).values)

    @pytest.mark.parametrize("first", ["change", "record"])
    def test_pyg(self, first):
        pyg = pytest.importorskip("torch_geometric", reason="torch-geometric is not installed")
        model = nn.ModuleDict({"conv": pyg.nn.GATConv(D, 4, heads=H, add_self_loops=False, bias=False)})
        x = torch.randn(4, D)
        changed = regard.change(model, "conv", weights="uniform")
        recorded = regard.record(model)
        if first == "change":
            with changed, recorded as tape:
                out = model["conv"](x, self.INDEX)
        else:
            with recorded as tape, changed:
                out = model["conv"](x, self.INDEX)
        rows = model["conv"].lin(x).view(4, H, 4)
        assert close(out[1], rows[[0, 2, 3]].mean(0).flatten())
        assert close(tape["conv"].calls[0].weights[0], torch.full((H,), 1 / 3))


# ---------------------------------------------------------------------------------------------------------
# torch's


class TestTorch:
    @pytest.mark.parametrize("case", ["plain", "bool", "causal", "bias", "grouped", "scale"])
    def test_sdpa(self, case):
        query, key, value = torch.randn(B, 4, T, D), torch.randn(B, 4, S, D), torch.randn(B, 4, S, 6)
        options, allowed = {}, torch.ones(T, S, dtype=torch.bool)
        if case == "bool":
            options = {"attn_mask": (allowed := torch.ones(T, S, dtype=torch.bool).tril(1))}
        elif case == "causal":
            options, allowed = {"is_causal": True}, allowed.tril()
        elif case == "bias":  # as Hugging Face writes masks
            allowed = allowed.tril(1)
            mask = torch.where(allowed, torch.randn(T, S), torch.finfo(torch.float32).min)
            options = {"attn_mask": mask}
        elif case == "grouped":
            key, value, options = key[:, :2], value[:, :2], {"enable_gqa": True}
        elif case == "scale":
            options = {"scale": 0.1}
        model = Calls(lambda m: F.scaled_dot_product_attention(query, key, value, **options))
        plain = model()
        with regard.change(model, "calls", weights=lambda w: w):
            assert close(model(), plain)
        full = value.repeat_interleave(4 // value.shape[1], 1)
        with regard.change(model, "calls", weights="uniform"):
            assert close(model(), (allowed / allowed.sum(-1, keepdim=True)) @ full)
        with regard.change(model, "calls", weights="permute"):
            assert not close(model(), plain)
        with regard.change(model, "calls", head=2, weights="zero"):
            out = model()
        assert close(out[:, [0, 1, 3]], plain[:, [0, 1, 3]]) and not out[:, 2].any()

    def test_dropout_of_sdpa(self):
        x = torch.randn(1, 1, 1, 1)
        model = Calls(lambda m: F.scaled_dot_product_attention(x, x, x.fill_(1), dropout_p=0.5))
        with regard.change(model, "calls", weights=half):
            found = {model().item() for _ in range(40)}
        assert found == {0.0, 1.0}

    @pytest.mark.parametrize("need", [True, False])
    @pytest.mark.parametrize("case", ["plain", "padding", "per head", "extra keys", "widths", "unbatched", "sequence"])
    def test_multihead(self, case, need):
        options = {"add_bias_kv": True, "add_zero_attn": True} if case == "extra keys" else {}
        options |= {"kdim": 6, "vdim": 4} if case == "widths" else {}
        module = nn.MultiheadAttention(D, H, batch_first=case != "sequence", **options)
        nn.init.normal_(module.in_proj_bias)
        nn.init.normal_(module.out_proj.bias)
        key = torch.randn(B, S, options.get("kdim", D))
        query, value = torch.randn(B, T, D), torch.randn(B, S, options.get("vdim", D))
        given = {}
        if case == "padding":
            given = {"key_padding_mask": ~ALLOWED}
        elif case == "per head":
            given = {"attn_mask": torch.rand(B * H, T, S) < 0.3}
            given["attn_mask"][..., 0] = False
        elif case == "unbatched":
            query, key, value = query[0], key[0], value[0]
        elif case == "sequence":
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        for average in (True, False):
            given |= {"need_weights": need, "average_attn_weights": average}
            plain = module(query, key, value, **given)
            with regard.change(module, "*", weights=lambda w: w):
                out = module(query, key, value, **given)
            assert close(out[0], plain[0])
            assert close(out[1], plain[1]) if need else out[1] is None
        without = copy.deepcopy(module)
        with torch.no_grad():
            without.out_proj.weight[:, : D // H] = 0
        with regard.change(module, "multihead_attention", head=0, weights="zero"):
            out = module(query, key, value, **given)
        assert close(out[0], without(query, key, value, **given)[0])
        if need:
            assert not out[1].select(-3, 0).any()

    @pytest.mark.parametrize("training", [True, False])
    def test_a_whole_transformer(self, training):
        model = nn.Transformer(D, H, 1, 2, 16, dropout=0.0, batch_first=True).train(training)
        source, target = torch.randn(B, S, D), torch.randn(B, T, D)
        without = copy.deepcopy(model)
        with torch.no_grad():
            for layer in without.decoder.layers:
                layer.multihead_attn.out_proj.weight[:, D // H :] = 0
            with regard.change(model, "decoder.layers.*.multihead_attn", head=1, weights="zero") as calls:
                out = model(source, target)
            assert close(out, without(source, target))
        assert calls == {f"decoder.layers.{layer}.multihead_attn": 1 for layer in (0, 1)}


class TestWrittenOut:
    def model(self, low=float("-inf")):
        def forward(m, x):
            weights = m.dropout(torch.softmax((x @ x.mT).masked_fill(~torch.ones(T, T).tril().bool(), low), -1))
            return weights @ x, weights

        return nn.Sequential(Calls(forward, dropout=nn.Dropout(0.5))).eval()

    @pytest.mark.parametrize("low", [float("-inf"), torch.finfo(torch.float32).min, -1e9, -1e4])
    def test_before_the_product(self, low):
        model, x = self.model(low), torch.randn(B, T, D)
        tri = torch.ones(T, T).tril()
        even = (tri / tri.sum(-1, keepdim=True)).expand(B, T, T)
        with regard.change(model, "0", weights="uniform"):
            out, shown = model(x)
        assert close(out, even @ x) and close(shown, even)
        plain, weights = model(x)
        with regard.change(model, "0", weights=half):
            out, shown = model(x)
        assert close(out, plain / 2) and close(shown, weights / 2)

    def test_the_same_weights_are_dropped(self):
        model, x = self.model().train(), torch.randn(B, T, D)
        torch.manual_seed(1)
        plain, weights = model(x)
        state = torch.get_rng_state()
        torch.manual_seed(1)
        with regard.change(model, "0", weights=half):
            out, shown = model(x)
        assert torch.equal(torch.get_rng_state(), state)
        assert close(out, plain / 2) and close(shown, weights / 2) and (weights == 0).any()


# ---------------------------------------------------------------------------------------------------------
# with others, and afterwards


class TestTogether:
    def zoo(self):
        def forward(m, x):
            x = m.ours(x).context + x
            x = m.torchs(x, x, x, need_weights=False)[0] + x
            return m.hand(x) + F.scaled_dot_product_attention(x, x, x)

        hand = Calls(lambda m, x: torch.softmax(x @ x.mT, -1) @ x)
        torchs = nn.MultiheadAttention(D, H, batch_first=True)
        return Calls(forward, ours=regard.MultiHead(D, H), torchs=torchs, hand=hand)

    @pytest.mark.parametrize("first", ["change", "record"])
    def test_a_tape_sees_what_was_used(self, first):
        model, x = self.zoo(), torch.randn(B, T, D)
        changed, recorded = regard.change(model, "*", weights="uniform"), regard.record(model)
        if first == "change":
            with changed, recorded as tape:
                model(x)
        else:
            with recorded as tape, changed:
                model(x)
        assert tape.names() == ["ours", "torchs", "hand", "calls"]
        for name in tape:
            assert close(tape[name].weights, torch.full((), 1 / T))
            assert len(tape[name].calls) == 1

    def test_changes_follow_one_another(self):
        model, x = self.zoo(), torch.randn(B, T, D)
        with (
            regard.record(model) as tape,
            regard.change(model, "*", weights="uniform"),
            regard.change(model, "ours", head=0, weights=half),
            regard.change(model, "hand", weights=half),
        ):
            model(x)
        assert close(tape["ours"].weights[:, 0], torch.full((), 0.5 / T))
        assert close(tape["ours"].weights[:, 1], torch.full((), 1 / T))
        assert close(tape["hand"].weights, torch.full((), 0.5 / T))

    def test_nothing_stays(self):
        model, x = self.zoo(), torch.randn(B, T, D)
        plain = model(x)
        with pytest.raises(RuntimeError, match="Expected size"), regard.change(model, "*", weights="zero"):
            model(x) @ x
        with pytest.raises(ZeroDivisionError), regard.change(model, "hand", weights=lambda w: w / (1 // 0)):
            model(x)
        assert torch.equal(model(x), plain)
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
        assert torch.overrides._get_current_function_mode() is None
        assert regard.attended.witness.see is None
        with regard.record(model) as tape:
            model(x)
        assert len(tape) == 4

    def test_a_block_that_ends_before_one_inside_it(self):
        model, x = self.zoo(), torch.randn(B, T, D)
        plain = model(x)
        outer, inner = regard.change(model, "hand", weights="zero"), regard.record(model)
        outer.__enter__()
        tape = inner.__enter__()
        model(x)
        outer.__exit__(None, None, None)
        assert torch.equal(model(x), plain)
        inner.__exit__(None, None, None)
        assert [call.weights.any().item() for call in tape["hand"].calls] == [False, True]
        assert torch.overrides._get_current_function_mode() is None

    def test_threads(self):
        model, x = self.zoo(), torch.randn(B, T, D)
        with torch.no_grad():
            plain = model(x)
            with regard.change(model, "*", weights="zero"):
                zeroed = model(x)
        start, failures = threading.Barrier(4), []

        def work(number):
            try:
                start.wait()
                for _ in range(5):
                    with torch.no_grad():
                        if number % 2:
                            with regard.change(model, "*", weights="zero"):
                                torch.testing.assert_close(model(x), zeroed)
                        else:  # hooks of another thread keep torch from its fused path, which rounds otherwise
                            torch.testing.assert_close(model(x), plain)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


class TestRefused:
    def test_names(self):
        model = nn.ModuleDict({"cross": regard.Attention(), "self": regard.MultiHead(D, H)})
        x = torch.randn(B, T, D)
        said = r"no attention called 'corss' ran inside.*did you mean 'cross'"
        with pytest.raises(ValueError, match=said), regard.change(model, ["cross", "corss"], weights="zero"):
            model["cross"](x, x)
        said = r"was not run inside the block"
        with pytest.raises(ValueError, match=said), regard.change(model, "cross", weights="zero"):
            pass

    def test_arguments(self):
        model, x = regard.MultiHead(D, H), torch.randn(B, T, D)

        def run(model=model, name="*", **options):
            with regard.change(model, name, **options):
                model(x)

        for options, said in (
            ({"weights": "zeros"}, "did you mean 'zero'"),
            ({"weights": "keep"}, "say which to keep"),
            ({"weights": "zero", "head": 2}, r"head=\[2\], but 'multi_head' has 2 heads"),
            ({"weights": lambda w: w[..., 0]}, r"given weights \(2, 2, 3, 3\) and returned \(2, 2, 3\)"),
            ({"weights": lambda w: None}, "returned NoneType"),
            ({"weights": torch.ones(7)}, r"\(7,\) do not fit 'multi_head', which has \(2, 2, 3, 3\)"),
            ({"weights": "zero", "model": regard.attend}, "nn.Module, not function"),
        ):
            with pytest.raises(ValueError, match=said):
                run(**options)
        said = r"'attention' has no heads, its weights are \(2, 3, 3\)"
        attention = regard.Attention()
        with pytest.raises(ValueError, match=said), regard.change(attention, "*", head=0, weights="zero"):
            attention(x, x)

    def test_what_shows_its_weights_too_late(self):
        window = MixtureWindow(D, 2)
        said = r"'mixture_window' cannot be changed: mixture_window shows them only"
        with pytest.raises(ValueError, match=said), regard.change(window, "*", weights="zero"):
            window(torch.randn(B, T, D), torch.randn(B, S, D))
        assert not window._forward_hooks

    def test_fused_and_compiled(self):
        w, b = torch.randn(3 * D, D), torch.randn(3 * D)

        def fused(m, x):
            return torch._native_multi_head_attention(x, x, x, D, H, w, b, w[:D], b[:D], need_weights=False)[0]

        x = torch.randn(B, T, D)
        said = r"'calls' cannot be changed: a fused kernel of torch"
        with pytest.raises(ValueError, match=said), regard.change(model := Calls(fused), "*", weights="zero"):
            model(x)
        compiled = torch.compile(Calls(lambda m, x: F.scaled_dot_product_attention(x, x, x)), backend="aot_eager")
        said = r"'fast' could not be changed: compiled"
        model = nn.ModuleDict({"fast": compiled})
        with pytest.raises(ValueError, match=said), regard.change(model, "fast", weights="zero"):
            model["fast"](x)

        class FlashAttention(nn.Module):
            def forward(self, x):
                return x

        said = r"'0' could not be changed: it computes its weights in a way"
        model = nn.Sequential(FlashAttention())
        with pytest.raises(ValueError, match=said), regard.change(model, "0", weights="zero"):
            model(x)
