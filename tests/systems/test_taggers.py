"""The aligned decoder and the characters of words, as loops in float64."""

import pytest
import torch

from regard.layers import text
from regard.layers.words import Characters, with_margin
from regard.systems import aligned_tagger, tagger

SIZES = {"vocab": 11, "tags": 3, "alphabet": 9, "embedding": 4, "filters": 5, "dropout": 0.0, "word_dropout": 0.0}


def batch():
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(4, 11, (2, 4), generator=generator)
    letters = torch.randint(4, 9, (2, 4, 3), generator=generator)
    letters[0, 1, 1:] = 0
    lengths = torch.tensor([4, 2])
    real = torch.arange(4) < lengths[:, None]
    tags = torch.randint(3, (2, 4), generator=generator)
    return {
        "source": words * real,
        "source_lengths": lengths,
        "places": torch.arange(4) * real,
        "lengths": lengths,
        "characters": letters * real[..., None],
        "shapes": torch.tensor([[1, 2, 7, 1], [3, 1, 0, 0]]),
        "tags": tags * real,
    }


def test_filters_see_three_characters_at_a_time():
    torch.manual_seed(0)
    layer = Characters(9, 5).double()
    found = layer(torch.tensor([[[4, 5, 0, 0], [6, 7, 8, 5]]]))
    for word, letters in enumerate([[4, 5], [6, 7, 8, 5]]):
        rows = [torch.zeros(25).double()] * 2 + [layer.letters.weight[letter] for letter in letters]
        rows += [torch.zeros(25).double()] * 2
        answers = [
            sum(layer.filters.weight[:, :, k] @ rows[first + k] for k in range(3)) + layer.filters.bias
            for first in range(len(letters) + 2)
        ]
        assert torch.allclose(found[0, word], torch.stack(answers).amax(0))


@pytest.mark.parametrize("aligned", [True, False])
def test_the_decoder_equals_its_equations(aligned):
    torch.manual_seed(0)
    model = aligned_tagger.AlignedTagger(
        aligned_tagger.Config(**SIZES, hidden=3, attention=4, tag_embedding=2, aligned=aligned)
    )
    model, given = model.double().eval(), batch()
    total, found = 0.0, model(given)
    features = model.features(given)
    for b, length in enumerate(given["lengths"].tolist()):
        states, last = model.encoder(features[b : b + 1, :length], given["lengths"][b : b + 1])
        states, hidden, cell, tag = states[0], last[0].tanh(), torch.zeros(6).double(), 3
        score = model.attention.score
        for place in range(length):
            weights = torch.stack([score.v @ torch.tanh(score.joint.weight @ torch.cat([hidden, h])) for h in states])
            context = sum(share * h for share, h in zip(weights.softmax(0), states))
            parts = [model.tags.weight[tag], context, *([states[place]] if aligned else [])]
            hidden, cell = model.cell(torch.cat(parts)[None], (hidden[None], cell[None]))
            hidden, cell = hidden[0], cell[0]
            log_prob = model.output(torch.cat([hidden, context])).log_softmax(-1)
            tag = int(given["tags"][b, place])
            total -= log_prob[tag].item()
    assert float(found["nll"]) == pytest.approx(total / 6)


def test_without_a_chain_tags_are_chosen_alone():
    torch.manual_seed(0)
    model = tagger.Tagger(tagger.Config(**SIZES, hidden=3, joint=4, crf=False)).eval()
    given = batch()
    with torch.no_grad():
        log_prob = model._scores(given).log_softmax(-1)
        real = torch.arange(4) < given["lengths"][:, None]
        expected = -log_prob.gather(-1, given["tags"][..., None])[..., 0][real].mean()
        assert torch.allclose(model(given)["nll"], expected)
        assert torch.equal(model.predict(given), log_prob.argmax(-1))
        assert torch.allclose(model.probabilities(given), log_prob.exp() * real[..., None])


def test_a_transformer_has_the_names_of_bert():
    from regard.systems import bert

    sizes = {"dim": 8, "heads": 2, "hidden": 12, "layers": 2, "longest": 10, "norm": "pre"}
    one = tagger.Tagger(tagger.Config(vocab=11, tags=3, alphabet=9, encoder="transformer", **sizes)).state_dict()
    other = bert.Bert(bert.Config(vocab=11, **sizes)).state_dict()
    shared = [name for name in other if name.startswith(("embedding", "encoder"))]
    assert shared and all(name in one and one[name].shape == other[name].shape for name in shared)
    with pytest.raises(ValueError, match="encoder is one of lstm, transformer"):
        tagger.Config(vocab=11, tags=3, alphabet=9, encoder="gru")


@pytest.mark.parametrize("system", [tagger.Tagger, aligned_tagger.AlignedTagger])
def test_a_margin_makes_missing_an_entity_cost_more(system):
    module, given = {tagger.Tagger: tagger, aligned_tagger.AlignedTagger: aligned_tagger}[system], batch()
    losses = {}
    for margin in (0.0, 2.0):
        torch.manual_seed(0)
        model = system(module.Config(**SIZES, hidden=3, outside=1, margin=margin))
        losses[margin] = float(model.train()(given)["nll"]), float(model.eval()(given)["nll"])
    assert losses[2.0][0] > losses[0.0][0] and losses[2.0][1] == losses[0.0][1]
    scores, tags = torch.zeros(1, 3, 3), torch.tensor([[0, 1, 2]])
    assert with_margin(scores, tags, 1, 2.0)[0].tolist() == [[0, 2, 0], [0, 0, 0], [0, 2, 0]]


@pytest.mark.parametrize("system", [tagger, aligned_tagger])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filters": -1}, "filters must be at least 0"),
        ({"embedding": 0}, "embedding must be at least 1"),
        ({"margin": -1.0}, "margin must be at least 0"),
        ({"word_dropout": -0.1}, "word_dropout = -0.1: a share"),
    ],
)
def test_sizes_that_cannot_be_are_named(system, options, message):
    with pytest.raises(ValueError, match=message):
        system.Config(vocab=9, tags=3, alphabet=9, **options)


def test_a_share_of_words_is_unknown_and_reserved_tokens_stay():
    torch.manual_seed(0)
    tokens = torch.arange(10).repeat(2000, 1)
    seen = text.without_words(tokens, 0.3)
    assert (seen[:, :4] == tokens[:, :4]).all() and set(seen[seen != tokens].tolist()) == {text.UNKNOWN}
    assert (seen != tokens)[:, 4:].float().mean() == pytest.approx(0.3, abs=0.02)
    assert text.without_words(tokens, 0.0) is tokens
