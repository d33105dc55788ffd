"""Word times from the cross-attention of Whisper, with random weights."""

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

import strangers
from regard.integrations.whisper import STEP, word_times
from regard.metrics import times

PREFIX, TOKENS = [1, 3], [5, 6, 7, 8]
WORDS = [("one", 0, 1), ("two", 1, 3), ("three", 3, 4)]


@pytest.fixture(scope="module")
def model():
    return strangers.build("whisper", "sdpa")


@pytest.fixture(scope="module")
def features(model):
    torch.manual_seed(1)
    return torch.randn(1, model.config.num_mel_bins, 2 * model.config.max_source_positions)


def by_hand(model, features, chosen, columns, smooth):
    """The same from the weights that the model itself returns."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(
            input_features=features, decoder_input_ids=torch.tensor([[*PREFIX, *TOKENS]]), output_attentions=True
        )
    model.set_attn_implementation("sdpa")
    found = []
    for layer, head in chosen:
        w = out.cross_attentions[layer][0, head, len(PREFIX) - 1 :, :columns].double().numpy()
        rows, columns = w.shape
        z = np.zeros_like(w)
        for s in range(columns):
            mean = sum(w[t, s] for t in range(rows)) / rows
            spread = (sum((w[t, s] - mean) ** 2 for t in range(rows)) / rows) ** 0.5
            for t in range(rows):
                z[t, s] = (w[t, s] - mean) / max(spread, 1e-9)
        half, m = smooth // 2, np.zeros_like(z)
        for t in range(rows):
            for s in range(columns):
                near = [z[t, min(max(s + d, 0), columns - 1)] for d in range(-half, half + 1)]
                m[t, s] = sorted(near)[half]
        found.append(m)
    return times.warp(np.mean(found, axis=0))[:-1]


@pytest.mark.parametrize("smooth", [1, 3])
def test_times_are_those_of_the_models_own_weights(model, features, smooth):
    columns = features.shape[-1] // 2 - 1
    layers, heads = model.config.decoder_layers, model.config.decoder_attention_heads
    chosen = [(layers - 1, 0), (0, heads - 1)]
    said = word_times(model, features, PREFIX, TOKENS, WORDS, seconds=columns * STEP, heads=chosen, smooth=smooth)
    spans = by_hand(model, features, sorted(chosen), columns, smooth)
    for (word, first, last), each in zip(WORDS, said, strict=True):
        assert each.word == word
        assert each.start == pytest.approx(spans[first, 0] * STEP)
        assert each.end == pytest.approx((spans[last - 1, 1] + 1) * STEP)
        assert 0 <= each.confidence <= 1


def test_times_go_on_and_stay_in_the_sound(model, features):
    said = word_times(model, features, PREFIX, TOKENS, WORDS, seconds=3 * STEP)
    assert all(0 <= each.start < each.end <= 3 * STEP + 1e-9 for each in said)
    starts = [each.start for each in said]
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"heads": [(99, 0)]}, "there is no layer 99"),
        ({"heads": [(0, 99)]}, "has no head 99"),
        ({"smooth": 2}, "odd number"),
        ({"tokens": []}, "at least one of the text"),
        ({"words": [("x", 3, 9)]}, "'x' is made of the tokens 3 to 8, of 4"),
    ],
)
def test_what_cannot_be_is_told(model, features, change, told):
    given = {"prefix": PREFIX, "tokens": TOKENS, "words": WORDS, "seconds": 0.1, **change}
    with pytest.raises(ValueError, match=told):
        word_times(model, features, **given)


def test_a_model_without_cross_attention_is_told():
    with pytest.raises(ValueError, match=r"has no decoder\.layers\.N\.encoder_attn"):
        word_times(torch.nn.Linear(2, 2), torch.zeros(1, 2, 2), [1], [2], [("a", 0, 1)], seconds=1)
