"""Pictures with numbers in them: the walk through one query, encodings of positions, words over an image or a clip."""

import numpy as np
import pytest
import torch

import regard
from regard.axes import Frames, Words
from regard.views import alignment, between, film, overlay, positions, spectrogram, walkthrough

QUERY = np.ones(64)
KEYS = np.stack([1.75 * QUERY, 1.5 * QUERY])
VALUES = np.array([[1.0, 0.0, 2.0], [3.0, 4.0, -1.0]])


def test_the_numbers_of_the_slide():
    found = walkthrough.steps(QUERY, KEYS, VALUES)
    assert found.scores.tolist() == [112, 96] and found.scaled.tolist() == [14, 12]
    assert found.weights == pytest.approx([0.8808, 0.1192], abs=1e-4)
    assert found.context == pytest.approx(found.weights @ VALUES, abs=1e-6)
    text = walkthrough.terminal(QUERY, KEYS, VALUES, ["Thinking", "Machines"])
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["Thinking", "Machines"]
    assert ["score", "q·k", "112", "96"] in lines and ["÷", "√64", "=", "8", "14", "12"] in lines
    assert ["softmax", "0.88", "0.12"] in lines
    assert lines[-1][-3:] == ["1.24", "0.48", "1.64"]


def test_the_walk_as_a_figure(tmp_path):
    drawing = walkthrough.figure(QUERY, KEYS, VALUES, ["Thinking", "$ma<b>"], of=1, title="What it sees")
    said = [text.get_text() for text in drawing.axes[0].texts]
    assert {"112", "96", "14", "12", "0.88", "0.12", "$ma<b>", "sum, for $ma<b>"} <= set(said)
    alignment.save(drawing, tmp_path / "a.svg")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((QUERY, KEYS[:, :3], VALUES), "64 numbers and each key 3"),
        ((QUERY, KEYS, VALUES[:1]), "walked through"),
        ((QUERY * np.nan, KEYS, VALUES), "finite"),
    ],
)
def test_what_cannot_be_walked(parts, message):
    with pytest.raises(ValueError, match=message):
        walkthrough.steps(*parts)


def test_likeness_of_positions():
    angles = np.outer(np.arange(12), 1 / 10 ** np.arange(3))
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    alike = positions.likeness(table)
    assert np.diag(alike) == pytest.approx(np.ones(12))
    # sin a sin b + cos a cos b = cos(a − b): only the distance counts.
    assert alike[2, 5] == pytest.approx(alike[7, 10]) == pytest.approx(np.cos(3 / 10.0 ** np.arange(3)).mean())
    drawing = positions.figure(table, title="Sinusoids")
    shown = [axes.images[0].get_array() for axes in drawing.axes if axes.images]
    assert np.allclose(shown[0], table) and np.allclose(shown[1], alike, atol=1e-6)
    assert positions.likeness(np.zeros((2, 3))).tolist() == [[0, 0], [0, 0]]


def test_words_over_an_image():
    image, weights = np.full((3, 8, 12), 0.5), np.zeros((2, 2, 2))
    weights[0, 0, 1] = weights[1, 1, 0] = 1
    drawing = overlay.figure(image, ["a", "dog"], weights)
    titles = [axes.get_title() for axes in drawing.axes if axes.images]
    assert titles == ["image", "a", "dog"]
    veil = drawing.axes[1].images[1]
    assert np.allclose(veil.get_array()[..., 3], [[0.82, 0], [0.82, 0.82]])
    assert veil.get_extent() == [-0.5, 11.5, 7.5, -0.5]  # over the whole image
    text = overlay.terminal(image, ["a", "dog"], weights, width=60, blocks=True)
    first, last = text.splitlines()[1], text.splitlines()[2]
    assert first.index("█") > 0 and last.rstrip().endswith("█") and first.rstrip().count("█") == last.count("█")


def test_the_panels_of_a_wide_image_are_as_wide():
    drawing = overlay.figure(np.zeros((3, 8, 16)), ["a"], np.ones((1, 2, 2)))
    width, height = drawing.get_size_inches()
    for axes in drawing.axes[:2]:
        box = axes.get_position()
        assert box.width * width == pytest.approx(2 * box.height * height)


def test_what_does_not_fit_an_image():
    with pytest.raises(ValueError, match="no square of places"):
        overlay.figure(np.ones((1, 4, 4)), ["a"], np.ones((1, 5)))
    with pytest.raises(ValueError, match="2 tokens came"):
        overlay.view(np.ones((1, 4, 4)), ["a", "b"], np.ones((1, 4)))
    with pytest.raises(ValueError, match="not negative"):
        overlay.view(np.ones((1, 4, 4)), ["a"], -np.ones((1, 4)))


def test_words_over_a_clip():
    frames, weights = np.full((4, 3, 6, 8), 0.5), np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 1.0, 0.0, 0.0]])
    drawing = film.figure(frames, ["a", "$do<g>"], weights, title="Clip")
    assert [axes.get_title() for axes in drawing.axes if axes.images] == ["1", "2", "3", "4"]
    bars = [[patch.get_height() for patch in axes.patches] for axes in drawing.axes if axes.patches]
    assert np.allclose(bars, weights)
    assert {"Clip", "a", "$do<g>"} <= {text.get_text() for text in drawing.texts}
    assert film.terminal(frames, ["a", "dog"], weights, width=60) == alignment.terminal(
        weights, ["a", "dog"], ["1", "2", "3", "4"], width=60
    )


def test_frames_without_images_are_an_alignment():
    weights = np.array([[0.1, 0.9]])
    sides = [between.Side(Words(["dog"]), weights)]
    assert between.picture(sides, Frames.numbered(2)).view().kind == "alignment"
    shown = between.picture(sides, Frames.numbered(2, lambda: np.ones((2, 1, 4, 4))), title="dog").view()
    assert shown.kind == "film" and shown.data["names"] == ["1", "2"] and shown.title == "dog"


def test_what_does_not_fit_a_clip():
    with pytest.raises(ValueError, match=r"weights \(1, 3\) for 2 frames"):
        film.view(np.ones((2, 1, 4, 4)), ["a"], np.ones((1, 3)))
    with pytest.raises(ValueError, match="not negative"):
        film.view(np.ones((2, 1, 4, 4)), ["a"], -np.ones((1, 2)))
    with pytest.raises(ValueError, match="frames should have 4 dimensions"):
        film.view(np.ones((2, 4, 4)), ["a"], np.ones((1, 2)))


def taped(**weights):
    tape = regard.Tape()
    for name, each in weights.items():
        name = name.replace("__", ".")
        tape._entries[name] = regard.tape.Entry(name, [regard.tape.Look(torch.as_tensor(each).float())])
    return tape


class TestImagesOfATape:
    def test_a_class_token_in_each_layer(self):
        first, second = np.zeros((1, 2, 7, 7)), np.zeros((1, 2, 7, 7))
        first[0, 0, 0, 1] = first[0, 1, 0, 1] = second[0, 0, 0, 6] = 1  # patches 0 and 5 of 2 × 3
        tape = taped(layers__0__attention=first, layers__1__attention=second)
        shown = overlay.from_tape(tape, np.full((3, 4, 6), 2.0)).view().data
        assert shown["words"] == ["layer 1", "layer 2"]
        places = shown["weights"].values
        assert places.shape == (2, 2, 3)
        assert np.argwhere(places > 0).tolist() == [[0, 0, 0], [1, 1, 2]]
        alone = overlay.from_tape(tape, np.ones((3, 4, 6)), heads=1).view().data["weights"].values
        assert not alone[1].any() and alone[0, 0, 0] == 1

    def test_the_last_queries_are_the_words(self):
        weights = np.zeros((2, 1, 5, 9))
        weights[1, 0, 3, 2] = weights[1, 0, 4, 5] = 1
        places = torch.tensor([False, False, True, True, True, True, False])  # the rest was written later
        tape = taped(model__layers__0__self_attn=weights)
        shown = overlay.from_tape(tape, np.zeros((3, 8, 8)), ["a", "dog"], places=places, batch=1).view().data
        assert shown["words"] == ["a", "dog"]
        assert np.argwhere(shown["weights"].values > 0).tolist() == [[0, 0, 0], [1, 1, 1]]
        numbers = overlay.from_tape(tape, np.zeros((3, 8, 8)), ["a", "dog"], places=[2, 3, 4, 5], batch=1).view().data
        assert (numbers["weights"].values == shown["weights"].values).all()

    def test_cross_attention_first(self):
        tape = taped(decoder__0__cross_attn=np.ones((1, 1, 2, 4)), decoder__0__self_attn=np.ones((1, 1, 2, 2)))
        assert overlay.from_tape(tape, np.zeros((1, 2, 2)), ["a", "b"]).view().data["weights"].values.shape == (2, 2, 2)

    def test_what_does_not_fit(self):
        tape, image = taped(attention=np.ones((1, 1, 2, 4))), np.zeros((1, 4, 4))
        with pytest.raises(ValueError, match="3 words, but only 2 queries"):
            overlay.from_tape(tape, image, ["a", "b", "c"])
        with pytest.raises(ValueError, match=r"3 of 4 keys are patches of an image of 4 × 4: give grid="):
            overlay.from_tape(tape, image, ["a"], places=[0, 1, 2])
        with pytest.raises(ValueError, match="4 keys are not the patches of 3 × 2"):
            overlay.from_tape(tape, image, ["a"], grid=(3, 2))
        with pytest.raises(ValueError, match="did you mean 'attention'"):
            overlay.from_tape(tape, image, ["a"], names="atention")
        assert overlay.from_tape(tape, image, ["a"], places=[0, 1, 2], grid=(3, 1)).terminal()


class TestSpectrogram:
    weights = np.kron(np.eye(3), np.full((1, 10), 0.1))
    image = np.random.default_rng(0).random((6, 30))

    def test_the_figure_has_the_sound_above_the_letters_and_seconds_below(self):
        drawing = spectrogram.figure(self.image, ["a", "$b", "c"], self.weights, 0.02, title="a$b")
        upper, lower = drawing.axes
        assert np.array_equal(upper.images[0].get_array(), self.image.astype(np.float32))
        assert np.array_equal(lower.images[0].get_array(), self.weights.astype(np.float32))
        assert upper.images[0].get_extent()[:2] == lower.images[0].get_extent()[:2] == [0, pytest.approx(0.6)]
        assert [label.get_text() for label in lower.get_yticklabels()] == ["a", "$b", "c"]

    def test_the_terminal_adds_up_frames(self):
        lines = spectrogram.terminal(self.image, ["a", "b", "c"], self.weights, 0.02, width=24).splitlines()
        assert [line[0] for line in lines[:3]] == ["a", "b", "c"] and lines[3].split() == ["0", "0.6", "s"]
        assert max(map(len, lines[:3])) <= 24

    def test_the_page_holds_the_sound_exactly(self):
        wave = np.array([0.0, 0.5, -0.5, 1.5])
        shown = spectrogram.view(self.image, ["a", "b", "c"], self.weights, 0.02, wave, 8000)
        assert shown.data["samples"].view("<i2").tolist() == [0, 16384, -16384, 32767] and shown.data["rate"] == 8000
        assert "samples" not in spectrogram.view(self.image, ["a", "b", "c"], self.weights, 0.02).data

    def test_what_does_not_fit_is_told(self):
        with pytest.raises(ValueError, match="for 30 frames"):
            spectrogram.view(self.image, ["a"], np.ones((1, 29)), 0.02)
        with pytest.raises(ValueError, match="not negative"):
            spectrogram.view(self.image, ["a"], -np.ones((1, 30)), 0.02)
        with pytest.raises(ValueError, match=r"\(bands, frames\)"):
            spectrogram.view(np.full((2, 3), np.nan), ["a"], np.ones((1, 3)), 0.02)
        assert "nothing to align" in spectrogram.terminal(self.image, [], np.zeros((0, 30)), 0.02)
