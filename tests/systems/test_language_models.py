"""GPT and BERT: the cache against reading anew, prompts, the joined pair, the groups of weight decay."""

import math

import pytest
import torch
from torch import nn

from regard import decode
from regard.layers import text
from regard.layers.transformer import Embedding, initialize
from regard.systems import bert, gpt
from regard.training import TrainConfig, optimizers

CHOICES = [
    {},
    {"positions": "rotary"},
    {"positions": "rotary", "window": 3},
    {"positions": "sinusoid", "norm": "post", "key_heads": 1},
]


def small(longest=12, **choices):
    torch.manual_seed(0)
    config = gpt.Config(vocab=19, longest=longest, dim=16, heads=2, hidden=24, layers=2, dropout=0.0, **choices)
    model = gpt.Gpt(config).eval()
    with torch.no_grad():  # larger than at first, so that a wrong place shows
        for parameter in model.parameters():
            parameter.mul_(4)
    return model


def read_anew(model, tokens):
    """Logits of the token after a text, without any cache."""
    return model.output(model.decoder(model.embedding(tokens)))[:, -1]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_with_a_cache_it_writes_as_without(choices):
    model, prompt = small(**choices), torch.randint(4, 19, (3, 5))
    with torch.no_grad():
        state, token, seen = model.start({"prompt": prompt}), model.first({"prompt": prompt}), prompt
        for _ in range(7):
            logits, state = model.step(token, state)
            assert torch.allclose(logits, read_anew(model, seen), atol=1e-4)
            token = logits.argmax(-1)
            seen = torch.cat([seen, token[:, None]], 1)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_when_the_cache_is_full_the_last_half_is_read_anew(positions):
    model, prompt = small(longest=6, positions=positions), torch.randint(4, 19, (2, 4))
    with torch.no_grad():
        state, token, window = model.start({"prompt": prompt}), prompt[:, -1], prompt[:, :-1]
        for _ in range(15):
            if window.shape[1] >= 6:
                window = window[:, -3:]
            window = torch.cat([window, token[:, None]], 1)
            logits, state = model.step(token, state)
            assert torch.allclose(logits, read_anew(model, window), atol=1e-4)
            token = logits.argmax(-1)


def test_prompts_in_a_batch_are_completed_as_one_by_one():
    model, prompt = small(), torch.randint(4, 19, (4, 3))
    batch = {"prompt": prompt, "wanted": torch.tensor([2, 9, 5, 7])}
    together = decode.greedy(model, batch, max_length=model.limit(batch))
    for row, (found,) in enumerate(together):
        one = {name: tensor[row : row + 1] for name, tensor in batch.items()}
        ((alone,),) = decode.greedy(model, one, max_length=model.limit(one))
        assert found.tokens == alone.tokens and math.isclose(found.log_prob, alone.log_prob, abs_tol=1e-4)
        assert len(found.tokens) <= batch["wanted"][row]


def test_learned_positions_end():
    model = small(longest=4)
    with pytest.raises(ValueError, match="5 tokens are more than the 4"):
        model({"target": torch.full((1, 6), 5), "target_lengths": torch.tensor([5])})


def test_first_weights_are_smaller_the_deeper_the_stack():
    torch.manual_seed(0)
    model = gpt.Gpt(gpt.Config(vocab=19, dim=64, heads=2, hidden=256, layers=8))
    inner, last = model.decoder.layers[0].think[0].weight, model.decoder.layers[0].think[2].weight
    assert abs(inner.std().item() - 0.02) < 0.001 and abs(last.std().item() - 0.02 / 4) < 0.0003
    assert float(model.embedding.words.weight[0].abs().sum()) == 0  # padding
    plain = nn.Linear(3, 3)
    initialize(plain, 1)
    assert float(plain.bias.detach().abs().sum()) == 0


def test_a_pair_is_joined_without_padding_between():
    batch = {
        "source": torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0]]),
        "source_lengths": torch.tensor([4, 3]),
        "second": torch.tensor([[8, 2, 0], [9, 10, 2]]),
        "second_lengths": torch.tensor([2, 3]),
    }
    tokens, lengths, segments = text.joined(batch)
    assert tokens.tolist() == [[1, 5, 6, 2, 8, 2], [1, 7, 2, 9, 10, 2]]
    assert lengths.tolist() == [6, 6]
    assert segments.tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]


def test_segments_and_places_are_added():
    torch.manual_seed(0)
    embed = Embedding(9, 4, 0.0, kind="learned", longest=5, segments=2)
    tokens, segments = torch.tensor([[5, 6, 7]]), torch.tensor([[0, 1, 1]])
    expected = embed.words.weight[tokens] + embed.places.weight[:3] + embed.segments.weight[segments]
    assert torch.allclose(embed(tokens, segments=segments), expected)
    assert torch.allclose(
        embed(tokens), embed.words.weight[tokens] + embed.places.weight[:3] + embed.segments.weight[0]
    )


def test_bert_restores_what_the_loss_says():
    torch.manual_seed(0)
    model = bert.Bert(bert.Config(vocab=11, longest=8, dim=16, heads=2, hidden=24, layers=1, dropout=0.0)).eval()
    batch = {"source": torch.tensor([[1, 3, 6, 3, 2]]), "source_lengths": torch.tensor([5])}
    batch["wanted"] = torch.tensor([[0, 7, 0, 9, 0]])
    with torch.no_grad():
        log_prob = model.restore(batch)[0]
        assert torch.allclose(model(batch)["nll"], -(log_prob[1, 7] + log_prob[3, 9]) / 2, atol=1e-5)


def test_only_matrices_decay():
    layer = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    config = TrainConfig(steps=1, optimizer="adamw", weight_decay=0.1, weight_decay_on="matrices")
    made = optimizers.build(layer.parameters(), config, torch.device("cpu"))
    decays = {id(p): group["weight_decay"] for group in made.param_groups for p in group["params"]}
    assert decays == {id(p): 0.1 if p.ndim > 1 else 0.0 for p in layer.parameters()}
    with pytest.raises(ValueError, match="unknown weight_decay_on 'some'"):
        TrainConfig(steps=1, weight_decay_on="some")


@pytest.mark.parametrize("system", [gpt, bert])
@pytest.mark.parametrize("name", ["dim", "hidden", "layers", "heads"])
def test_sizes_that_cannot_be_are_named(system, name):
    sizes = {"dim": 16, "hidden": 8, "layers": 1, "heads": 2}
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        system.Config(vocab=9, **{**sizes, name: 0})


def test_restored_words_are_smoothed_as_classes_are():
    torch.manual_seed(0)
    sizes = {"vocab": 12, "dim": 8, "heads": 2, "hidden": 8, "layers": 1, "dropout": 0.0}
    plain, smoothed = (bert.Bert(bert.Config(**sizes, label_smoothing=share)) for share in (0.0, 0.2))
    smoothed.load_state_dict(plain.state_dict())
    source = torch.tensor([[1, 5, 3, 7, 2]])
    batch = {"source": source, "source_lengths": torch.tensor([5]), "wanted": torch.tensor([[0, 0, 6, 0, 0]])}
    told, plainly = smoothed(batch), plain(batch)
    logits = plain.restore(batch)[0, 2][None]
    wanted = nn.functional.cross_entropy(logits, torch.tensor([6]), label_smoothing=0.2)
    assert torch.allclose(told["loss"], wanted, atol=1e-5)
    assert torch.allclose(told["nll"], plainly["nll"]) and not torch.allclose(told["loss"], plainly["loss"])
