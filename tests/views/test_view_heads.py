"""Layers and heads, one word's lines, and hypotheses of a beam."""

import numpy as np
import pytest
import torch

from regard.predictors.predictor import Predictor
from regard.views import alignment, beam, heads
from regard.views.alignment import Reading

WORDS = ["The", "animal", "was", "tired"]
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 3, 4))


def texts(drawing):
    return [text.get_text() for text in drawing.findobj(lambda artist: hasattr(artist, "get_text")) if text.get_text()]


def test_spread_counts_the_words():
    even, one = np.full((1, 4, 8), 1 / 8), np.eye(4, 8)[None]
    assert heads.spread(np.stack([even, one])).ravel() == pytest.approx([8, 1])
    half = np.zeros((2, 4))
    half[0, :2] = 0.3  # not a full row, and one that looks at nothing
    assert heads.spread(half) == pytest.approx(2)


def test_one_word_in_every_head():
    text = heads.terminal(WEIGHTS, WORDS, word="animal", width=80, colour=False, blocks=True)
    expected = alignment.terminal(
        WEIGHTS[:, :, 1].reshape(6, 4),
        ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3"],
        WORDS,
        width=80,
        colour=False,
        blocks=True,
    )
    assert text == expected
    mean = alignment.terminal(WEIGHTS[1].mean(0), WORDS, WORDS, width=80, colour=False, blocks=True)
    assert heads.terminal(WEIGHTS, WORDS, width=80, colour=False, blocks=True) == mean


def test_a_map_for_each_head():
    drawing = heads.figure(WEIGHTS, WORDS, title="$5 & <b>", layers=["low", "high"])
    panels = [axes for axes in drawing.axes if axes.images]
    assert len(panels) == 6
    assert (
        np.array([panel.images[0].get_array() for panel in panels]).reshape(WEIGHTS.shape) == WEIGHTS.astype("f4")
    ).all()
    said = texts(drawing)
    assert {"low", "high", "head 3", "$5 & <b>"} <= set(said)
    assert [f"{number:.1f}" for number in heads.spread(WEIGHTS).ravel()] == [
        t for t in said if t.count(".") == 1 and len(t) == 3
    ]


def test_lines_of_one_word_have_its_weights():
    drawing = heads.word(WEIGHTS, "was", WORDS, layer=1)
    squares = [patch.get_alpha() for patch in drawing.axes[0].patches]
    top = 1.0 if WEIGHTS[0, :, 2].max() > 0.5 else WEIGHTS[0, :, 2].max()
    assert squares == pytest.approx((WEIGHTS[0, :, 2].T / top).ravel(), abs=1e-6)
    bold = [text.get_text() for text in drawing.axes[0].texts if text.get_fontweight() == "bold"]
    assert bold == ["was"]


@pytest.mark.filterwarnings("ignore:no installed font")  # a machine without one draws a box
def test_long_texts_and_other_scripts(tmp_path):
    many = np.random.default_rng(0).dirichlet(np.ones(90), size=(1, 2, 90))
    words = [f"w{i}" for i in range(89)] + ["深"]
    drawing = heads.word(many, 80, words)
    names = [text.get_text() for text in drawing.axes[0].texts]
    assert len(names) <= 2 * 34 and "w80" in names
    alignment.save(heads.figure(many, words), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 4000


def test_hypotheses_below_each_other():
    readings = [Reading(["a", "b"], WEIGHTS[0, 0, :2], -0.5, "A b."), Reading(["c"], WEIGHTS[0, 0, 2:3], -1.25)]
    drawing = beam.figure(readings, WORDS, title="The animal")
    assert [axes.collections[0].get_array().shape for axes in drawing.axes] == [(2, 4), (1, 4)]
    assert {"1.  −0.50  A b.", "2.  −1.25  c"} <= set(texts(drawing))
    assert [label.get_text() for label in drawing.axes[0].get_xticklabels()] == WORDS
    assert not drawing.axes[1].get_xticklabels()
    text = beam.terminal(readings, WORDS, width=60, colour=False)
    assert text.index("A b.") < text.index("2.  −1.25  c")


def test_bad_input():
    with pytest.raises(ValueError, match=r"\(L, H, T, S\) or \(H, T, S\)"):
        heads.figure(WEIGHTS[0, 0])
    with pytest.raises(ValueError, match="no word is 'anmal': did you mean 'animal'"):
        heads.word(WEIGHTS, "anmal", WORDS)
    with pytest.raises(ValueError, match="layers are 1 to 2"):
        heads.word(WEIGHTS, 1, WORDS, layer=3)
    with pytest.raises(ValueError, match="2 layers, but 1 names"):
        heads.figure(WEIGHTS, WORDS, layers=["a"])
    with pytest.raises(ValueError, match="they are 0 to 3"):
        heads.view(WEIGHTS, WORDS, word=4)
    with pytest.raises(ValueError, match="at least one"):
        beam.figure([])
    with pytest.raises(ValueError, match=r"look at \[3, 4\] words"):
        beam.figure([Reading(["a"], np.ones((1, 3)) / 3), Reading(["a"], np.ones((1, 4)) / 4)])


class TestOwnWords:
    """Self-attention of the sentence that a shipped model reads."""

    SENTENCE = "The animal didn't cross the street because it was too tired."

    @pytest.fixture
    def model(self):
        return Predictor.open("translate-en-es")

    def test_rows_are_words_and_look_at_words(self, model):
        words, weights = model.own(self.SENTENCE)
        assert words == [
            *["The", "animal", "didn't", "cross", "the", "street", "because", "it", "was", "too", "tired", "."],
            "</s>",
        ]
        assert weights.shape == (3, 4, 13, 13)
        assert torch.allclose(weights.sum(-1), torch.ones(3, 4, 13), atol=1e-5)
        assert weights[1, 0, 7].topk(2).indices.tolist() == [10, 1]  # it: tired, animal

    def test_shown(self, model, tmp_path):
        said = "\n".join(model.show([self.SENTENCE], tmp_path / "a.svg", word="it", layer=2))
        assert "1.1" in said and "3.4" in said and (tmp_path / "a.svg").read_text().startswith("<?xml")
        assert "a.html" in "\n".join(model.show([self.SENTENCE, ""], tmp_path / "a.html", own=True))
        with pytest.raises(ValueError, match="no word is 'anmal': did you mean 'animal'"):
            list(model.show([self.SENTENCE], None, word="anmal"))

    def test_explained(self, model, tmp_path):
        """Through all layers: by hand on the words' mean weights it is near, since few words have several pieces."""
        words, layers = model.own(self.SENTENCE)
        again, found = model.own(self.SENTENCE, "rollout")
        assert again == words and found.shape == (1, 1, 13, 13)
        expected = torch.eye(13)
        for layer in layers:
            expected = (layer.mean(0) + torch.eye(13)) / 2 @ expected
        assert torch.allclose(found[0, 0].sum(-1), torch.ones(13), atol=1e-5)
        assert torch.allclose(found[0, 0], expected, atol=0.05)
        said = "\n".join(model.show([self.SENTENCE], None, explain="rollout"))
        assert "through all layers, by rollout" in said and "tired" in said
        list(model.show(["I love coffee."], tmp_path / "flow.png", explain="flow"))
        assert (tmp_path / "flow.png").stat().st_size > 5_000
        with pytest.raises(ValueError, match=r"explain cannot be 'rolout'.*rollout"):
            list(model.show([self.SENTENCE], None, explain="rolout"))

    def test_a_recurrent_network_has_none(self):
        (said,) = Predictor.open("translate-en-es-rnn").show(["I love coffee."], None, own=True)
        assert said.splitlines() == ["I love coffee.", "  (this system has no self-attention)"]
