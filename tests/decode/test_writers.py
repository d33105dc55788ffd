"""A search knows nothing of what a writer reads: here images, and nothing but a prompt."""

from __future__ import annotations

import torch
from torch import nn

import regard
from regard import decode
from regard.decode.config import DecodeConfig
from regard.decode.config import decode as search
from regard.layers.transformer import Decoder, LayerConfig

BOS, EOS, VOCAB = 1, 2, 7


class Captioner(nn.Module):
    """Looks at the cells of an image while it writes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.cells = nn.Conv2d(1, 6, 4, stride=4)
        self.words = nn.Embedding(VOCAB, 6)
        self.attention = regard.Attention("dot")
        self.cell = nn.GRUCell(12, 6)
        self.output = nn.Linear(6, VOCAB)

    def start(self, batch):
        grid = self.cells(batch["image"]).flatten(2).mT  # (B, cells, 6)
        hidden = grid.mean(1)
        return {"memory": self.attention.remember(grid), "hidden": hidden, "looked": grid.new_zeros(grid.shape[:2])}

    def step(self, token, state):
        out = self.attention(state["hidden"][:, None], state["memory"])
        hidden = self.cell(torch.cat([self.words(token), out.context[:, 0]], -1), state["hidden"])
        return self.output(hidden), {**state, "hidden": hidden, "looked": out.weights[:, 0]}

    def alignment(self, state):
        return state["looked"]

    def limit(self, batch):
        return torch.full((len(batch["image"]),), 5)


class LanguageModel(nn.Module):
    """Goes on with a prompt."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.words = nn.Embedding(VOCAB, 8)
        self.stack = Decoder(LayerConfig(8, 2, 16, dropout=0.0), layers=2, cross=False)
        self.output = nn.Linear(8, VOCAB)

    def logits(self, tokens):
        return self.output(self.stack(self.words(tokens)))

    def start(self, batch):
        state = self.stack.start(self.words(batch["prompt"]))
        for token in batch["prompt"][:, :-1].unbind(1):
            _, state = self.step(token, state)
        return state

    def first(self, batch):
        return batch["prompt"][:, -1]

    def step(self, token, state):
        hidden, state, _ = self.stack.step(self.words(token)[:, None], state)
        return self.output(hidden), state

    def limit(self, batch):
        return torch.full((len(batch["prompt"]),), 4)


def test_one_that_reads_images():
    model = Captioner().eval()
    batch = {"image": torch.rand(3, 1, 8, 12, generator=torch.Generator().manual_seed(2))}
    for config in (DecodeConfig(size=3), DecodeConfig(method="greedy"), DecodeConfig(method="sample")):
        found = search(model, batch, config)
        assert len(found) == 3
        for (best,) in found:
            assert 1 <= len(best.tokens) <= 5
            assert best.alignment.shape == (len(best.tokens), 6)  # 2 × 3 cells
            torch.testing.assert_close(best.alignment.sum(-1), torch.ones(len(best.alignment)))


def test_the_limit_is_the_writers_and_can_be_scaled():
    model, batch = Captioner().eval(), {"image": torch.rand(2, 1, 8, 8)}
    with torch.no_grad():
        model.output.bias[EOS] = -100.0
    for ratio, extra, length in ((1.0, 0, 5), (0.5, 0, 2), (1.0, 3, 8), (0.0, 0, 1)):
        found = search(model, batch, DecodeConfig(size=2, ratio=ratio, extra=extra))
        assert [len(best.tokens) for (best,) in found] == [length, length]


def test_one_that_reads_nothing_but_a_prompt():
    model = LanguageModel().eval()
    prompt = torch.tensor([[BOS, 4, 5], [BOS, 6, 3]])
    found = search(model, {"prompt": prompt}, DecodeConfig(method="greedy"))
    for row, (best,) in zip(prompt, found, strict=True):
        tokens = row.tolist()
        expected: list[int] = []
        while len(expected) < 4:
            token = int(model.logits(torch.tensor([tokens]))[0, -1].argmax())
            if token == EOS:
                break
            expected.append(token)
            tokens.append(token)
        assert best.tokens == expected
        assert best.alignment is None


def test_an_ensemble_of_them():
    model, batch = LanguageModel().eval(), {"prompt": torch.tensor([[BOS, 4, 5]])}
    both = decode.Ensemble([model, model]).eval()
    alone, together = (search(each, batch, DecodeConfig(size=2)) for each in (model, both))
    assert alone[0][0].tokens == together[0][0].tokens


class TwoSources(Captioner):
    """Tells where it looked along two axes, of which the second is the first backwards."""

    def alignment(self, state):
        return {"places": state["looked"], "mirrored": state["looked"].flip(-1)}


def test_a_writer_may_look_along_several_axes():
    batch = {"image": torch.rand(3, 1, 8, 12, generator=torch.Generator().manual_seed(0))}
    one, both = Captioner().eval(), TwoSources().eval()
    config = DecodeConfig(size=3)
    for single, several in zip(search(one, batch, config, nbest=2), search(both, batch, config, nbest=2)):
        for expected, found in zip(single, several, strict=True):
            assert found.tokens == expected.tokens and list(found.alignment) == ["places", "mirrored"]
            assert torch.equal(found.alignment["places"], expected.alignment)
            assert torch.equal(found.alignment["mirrored"], expected.alignment.flip(-1))
    voted = decode.Ensemble([both, TwoSources().eval()])
    ((single, *_), *_), ((mean, *_), *_) = search(both, batch, config), search(voted, batch, config)
    assert mean.tokens == single.tokens
    for name in ("places", "mirrored"):
        torch.testing.assert_close(mean.alignment[name], single.alignment[name])


def test_unknown_words_can_be_forbidden():
    model = Captioner().eval()
    with torch.no_grad():
        model.output.bias[3] = 50.0  # it would write nothing else
    batch = {"image": torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))}
    for method in ("beam", "greedy", "sample"):
        ((first, *_), *_) = search(model, batch, DecodeConfig(method=method))
        assert set(first.tokens) == {3}
        for best, *_ in search(model, batch, DecodeConfig(method=method, unknown=False)):
            assert 3 not in best.tokens and best.alignment.shape == (len(best.tokens), 4)
    prompt = torch.tensor([[BOS, 4, 5]])
    model = LanguageModel().eval()
    with torch.no_grad():
        model.output.bias[3] = -50.0
    found = [search(model, {"prompt": prompt}, DecodeConfig(unknown=known)) for known in (True, False)]
    assert found[0][0][0].tokens == found[1][0][0].tokens, "a prompt is still gone on with"
