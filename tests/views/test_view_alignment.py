"""Alignments in the terminal, as figures, and as views for the page."""

import io
import re
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.text import Text as Label
from torch import nn

import regard
from regard.views import alignment
from regard.views.alignment import Reading
from regard.views.text import cells

ROWS = ["Me", "encanta", "el", "café", "."]
COLUMNS = ["I", "love", "coffee", "."]
WEIGHTS = np.array(
    [
        [0.80, 0.10, 0.06, 0.04],
        [0.04, 0.90, 0.03, 0.03],
        [0.02, 0.30, 0.60, 0.08],
        [0.01, 0.04, 0.95, 0.00],
        [0.00, 0.00, 0.00, 1.00],
    ]
)


def diagonal(rows, columns):
    scores = -np.abs(np.arange(rows)[:, None] * columns / rows - np.arange(columns)[None])
    weights = np.exp(2 * scores)
    return weights / weights.sum(1, keepdims=True)


class TestTerminal:
    def test_blocks(self):
        shown = alignment.terminal(WEIGHTS, ROWS, COLUMNS, width=80, colour=False, blocks=True)
        assert shown.splitlines() == [
            "        I  love coffee .",
            "     Me ██ ░░░░ ░░░░░░",
            "encanta    ████",
            "     el    ▒▒▒▒ ▓▓▓▓▓▓ ░░",
            "   café         ██████",
            "      .                ██",
            "",
            "        ░ ≥ 5 %  ▒ ≥ 25 %  ▓ ≥ 50 %  █ ≥ 75 %",
        ]

    def test_plain(self):
        shown = alignment.terminal(WEIGHTS, [*ROWS[:3], "cafe", "."], COLUMNS, width=80, colour=False, blocks=False)
        assert shown.isascii()
        assert shown.splitlines()[1] == "     Me ## .... ......"

    def test_words_written_downwards_where_the_line_is_short(self):
        shown = alignment.terminal(WEIGHTS, ROWS, COLUMNS, width=24, colour=False, blocks=True)
        assert shown.splitlines()[:-2] == [
            "            c",
            "            o",
            "          l f",
            "          o f",
            "          v e",
            "        I e e .",
            "     Me ██░░░░",
            "encanta   ██",
            "     el   ▒▒▓▓░░",
            "   café     ██",
            "      .       ██",
        ]

    def test_columns_continue_below(self):
        shown = alignment.terminal(np.eye(3, 40), list("abc"), ["w"] * 40, width=30, colour=False, blocks=True)
        bands = shown.split("\n\n")
        assert len(bands) == 4  # 14 + 14 + 12 columns and the legend
        assert bands[0].splitlines() == ["  " + " ".join("w" * 14), "a ██", "b   ██", "c     ██"]
        assert bands[1].splitlines()[1:] == ["a", "b", "c"]

    def test_what_continues_below_begins_with_the_first_row_that_looks_there(self):
        causal = np.tril(np.ones((16, 16)))
        shown = alignment.terminal(causal, ["r"] * 16, ["w"] * 16, width=30, colour=False, blocks=True)
        bands = [band.splitlines()[1:] for band in shown.split("\n\n")[:2]]
        assert [len(band) for band in bands] == [16, 2]
        assert bands[1] == ["r ██", "r ████"]

    def test_colour(self):
        coloured = alignment.terminal(WEIGHTS, ROWS, COLUMNS, width=80, colour=True, blocks=True)
        assert "\x1b[38;5;33m██\x1b[0m" in coloured
        plain = alignment.terminal(WEIGHTS, ROWS, COLUMNS, width=80, colour=False, blocks=True)
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain

    @pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), (None, None)])
    def test_when_it_is_coloured(self, monkeypatch, variable, value):
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm-256color")
        terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        terminal.isatty = lambda: True
        monkeypatch.setattr(sys, "stdout", terminal)
        if variable:
            monkeypatch.setenv(variable, value)
        assert ("\x1b" in alignment.terminal(WEIGHTS, ROWS, COLUMNS)) == (variable is None)

    def test_a_pipe_of_ascii_gets_plain_text(self, monkeypatch):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
        assert alignment.terminal(WEIGHTS[:2, :2], ["a", "b" * 30], ["c", "d"], width=80).isascii()
        assert alignment.terminal(np.eye(300), width=80).isascii()

    @pytest.mark.parametrize("width", [24, 40, 80, 200])
    @pytest.mark.parametrize("size", [(1, 1), (7, 9), (30, 50), (3, 300)])
    def test_no_line_is_too_long(self, size, width):
        rows = [["深度學習", "internationalisation", "שלום", "👩\u200d👧"][i % 4] for i in range(size[0])]
        columns = [["注意力", "a", "مرحبا", "supercalifragilistic"][i % 4] for i in range(size[1])]
        shown = alignment.terminal(diagonal(*size), rows, columns, width=width, colour=False, blocks=True)
        assert all(cells(line.replace("\u200e", "")) <= width for line in shown.splitlines())

    def test_wide_characters_stay_in_their_columns(self):
        shown = alignment.terminal(np.eye(2), ["注意力", "a"], ["機制", "b"], width=60, colour=False, blocks=True)
        head, first, second = shown.splitlines()[:3]
        assert head == "       機制 b"
        assert first == "注意力 ████"
        assert second == "     a      ██"

    def test_many_words_share_cells(self):
        weights = np.zeros((2, 1000))
        weights[0, 777] = 1
        shown = alignment.terminal(weights, width=200, colour=False, blocks=True)
        assert "each cell is the strongest of 1 × 8 weights" in shown
        assert shown.count("██") == 1
        assert len(shown) < 3000

    def test_a_very_long_sentence_is_quick_and_short(self):
        shown = alignment.terminal(np.full((4000, 4000), 1 / 4000, dtype=np.float32), width=120, colour=False)
        assert len(shown.splitlines()) < 500

    def test_a_token_cannot_command_the_terminal(self):
        shown = alignment.terminal([[1.0]], ["\x1b[2J\x1b]0;x\x07"], ["a\rb\n"], width=80, colour=False)
        assert not set(shown) & set("\x1b\r\x07")
        assert len(shown.splitlines()) == 4

    def test_nothing(self):
        assert "0 target" in alignment.terminal(np.zeros((0, 3)), [], ["a", "b", "c"])


def texts(figure):
    """Every text that a figure shows."""
    from matplotlib.text import Text

    figure.canvas.draw()
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]


def inside(figure):
    """Does every text, and every pair of axes, lie within the figure?"""
    whole = figure.bbox
    boxes = [text.get_window_extent() for text in texts(figure)] + [axes.bbox for axes in figure.axes]
    return all(
        box.x0 >= whole.x0 - 0.5 and box.x1 <= whole.x1 + 0.5 and box.y0 >= whole.y0 - 0.5 and box.y1 <= whole.y1 + 0.5
        for box in boxes
    )


def apart(labels):
    """Do neighbours that lie flat or stand leave each other alone?"""
    boxes = [label.get_window_extent() for label in labels]
    return all(not a.overlaps(b) for a, b in pairwise(boxes))


LONG = ["internationalisation", "a", "Donaudampfschifffahrtsgesellschaft", "of"]


class TestFigure:
    def test_source_across_and_target_down(self):
        figure = alignment.figure(WEIGHTS, ROWS, COLUMNS)
        axes, bar = figure.axes
        assert [label.get_text() for label in axes.get_xticklabels()] == COLUMNS
        assert [label.get_text() for label in axes.get_yticklabels()] == ROWS
        labels = axes.get_yticklabels()
        figure.canvas.draw()
        assert labels[0].get_window_extent().y0 > labels[-1].get_window_extent().y0
        assert {"source", "target"} <= {text.get_text() for text in texts(figure)}
        assert [label.get_text() for label in bar.get_yticklabels()] == ["0 %", "25 %", "50 %", "75 %", "100 %"]

    def test_the_colour_is_the_weight(self):
        figure = alignment.figure(WEIGHTS, ROWS, COLUMNS)
        figure.canvas.draw()
        picture = np.asarray(figure.canvas.buffer_rgba())[..., :3].astype(int)
        box = figure.axes[0].bbox
        high, wide = box.height / 5, box.width / 4
        light = [
            [
                picture[round(picture.shape[0] - box.y1 + (t + 0.5) * high), round(box.x0 + (s + 0.5) * wide)].sum()
                for s in range(4)
            ]
            for t in range(5)
        ]
        order = np.argsort(WEIGHTS, axis=None)
        assert (np.diff(np.ravel(light)[order]) <= 0).all()

    @pytest.mark.parametrize(
        ("size", "title"),
        [
            ((5, 4), None),
            ((5, 4), "short"),
            ((5, 4), "a title much longer than the picture is wide " * 4),
            ((5, 4), "長" * 40),
            ((1, 1), "a title"),
            ((1, 12), "a title"),
            ((12, 1), "a title"),
            ((20, 30), "a title"),
            ((30, 45), "a title"),
        ],
        ids=str,
    )
    def test_nothing_is_clipped(self, size, title):
        rows = [LONG[i % 4] for i in range(size[0])]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a machine without a font for 長
            figure = alignment.figure(diagonal(*size), rows, [LONG[(i + 1) % 4] for i in range(size[1])], title=title)
            assert inside(figure)
            axes = figure.axes[0]
            assert apart(axes.get_yticklabels())
            if axes.get_xticklabels()[0].get_rotation() != 45:
                assert apart(axes.get_xticklabels())
            heads = [text for text in texts(figure) if title and text.get_fontweight() == "bold"]
            assert len(heads) == (1 if title else 0)
            for head in heads:
                assert not any(
                    head.get_window_extent().overlaps(label.get_window_extent()) for label in axes.get_xticklabels()
                )

    def test_leaning_words_do_not_touch_the_colour_bar(self):
        figure = alignment.figure(diagonal(6, 6), columns=["Donaudampfschifffahrt"] * 6)
        figure.canvas.draw()
        axes, bar = figure.axes
        assert axes.get_xticklabels()[0].get_rotation() == 45
        word = axes.get_xticklabels()[-1].get_window_extent()
        for label in bar.get_yticklabels():
            box = label.get_window_extent()
            assert box.y1 < word.y0 + (box.x0 - word.x0) - 8  # the word rises as it goes right

    def test_long_texts_have_fewer_labels_that_are_still_read(self):
        figure = alignment.figure(diagonal(200, 260))
        assert inside(figure)
        axes = figure.axes[0]
        assert apart(axes.get_xticklabels()) and apart(axes.get_yticklabels())
        assert 100 <= len(axes.get_xticklabels()) < 260
        assert max(figure.get_size_inches()) < 40

    def test_thousands_of_words(self):
        figure = alignment.figure(np.eye(2500, dtype=np.float32))
        assert "strongest of 2 × 2" in figure.texts[0].get_text()

    def test_tokens_are_no_formulas(self, tmp_path):
        figure = alignment.figure(np.eye(3), ["$x", "$\\frac$", "_a^b$"], ["$", "$$", "\\"], title="$5 and $\\oops$")
        alignment.save(figure, tmp_path / "a.png")
        assert "$\\frac$" in {text.get_text() for text in texts(figure)}

    @pytest.mark.parametrize("word", ["אהבה", "مرحبا", "深度學習", "日本語", "👩\u200d👧", "é", "नमस्ते"])
    def test_every_script_without_a_flood(self, word, tmp_path, caplog):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            figure = alignment.figure(np.eye(3), [word] * 3, [word, "a", word], title=word)
            alignment.save(figure, tmp_path / "a.png")
            assert inside(figure)
        assert len(seen) <= 1
        assert all("no installed font" in str(warning.message) for warning in seen)
        assert not caplog.records

    def test_a_sign_that_no_font_has_is_one_warning_and_a_box(self):
        with pytest.warns(UserWarning, match="no installed font has \U000f1234") as seen:
            figure = alignment.figure(np.eye(2), ["\U000f1234a", "b"], ["\U000f1234", "d"])
        assert len(seen) == 1
        assert "□a" in {text.get_text() for text in texts(figure)}

    def test_small_weights_have_their_own_scale(self):
        figure = alignment.figure(np.full((3, 50), 1 / 50))
        assert figure.axes[0].collections[0].get_clim() == pytest.approx((0, 4 / 50))  # what is uniform stays pale
        assert alignment.figure(np.full((3, 50), 1 / 50), top=1).axes[0].collections[0].get_clim() == (0, 1)

    def test_a_notebook_shows_it_as_it_is(self):
        """Without `%matplotlib inline`, for which matplotlib's own figures wait."""
        shown = alignment.figure(WEIGHTS, ROWS, COLUMNS)._repr_png_()
        assert shown.startswith(b"\x89PNG") and len(shown) > 2000
        home = Path(alignment.__file__).parent
        for file in home.glob("*.py"):
            made = re.search(r"= Figure\(", text := file.read_text(encoding="utf-8"))
            assert not made or "from regard.views._notebook import Figure" in text, file

    def test_pyplot_is_left_alone(self):
        from matplotlib import pyplot

        before = pyplot.get_fignums()
        alignment.figure(WEIGHTS, ROWS, COLUMNS)
        assert pyplot.get_fignums() == before

    @pytest.mark.parametrize(("suffix", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("PDF", b"%PDF")])
    def test_save(self, tmp_path, suffix, begins):
        for name in "ab":
            alignment.save(alignment.figure(WEIGHTS, ROWS, COLUMNS), tmp_path / f"{name}.{suffix}")
        data = (tmp_path / f"a.{suffix}").read_bytes()
        assert data.startswith(begins)
        assert data == (tmp_path / f"b.{suffix}").read_bytes()
        if suffix == "svg":
            ElementTree.fromstring(data)
        assert len(list(tmp_path.iterdir())) == 2

    def test_save_says_what_it_can(self, tmp_path):
        with pytest.raises(ValueError, match=r"did you mean 'png'\? known: pdf, png, svg"):
            alignment.save(alignment.figure(WEIGHTS), tmp_path / "a.pgn")
        with pytest.raises(FileNotFoundError):
            alignment.save(alignment.figure(WEIGHTS), tmp_path / "no" / "a.png")


class TestWhatIsRefused:
    @pytest.mark.parametrize("draw", [alignment.figure, alignment.terminal])
    def test_shapes_and_numbers(self, draw):
        with pytest.raises(ValueError, match=r"weights \(5, 4\) have 5 rows, but 2 tokens came"):
            draw(WEIGHTS, ["a", "b"], COLUMNS)
        with pytest.raises(ValueError, match="4 columns, but 3 tokens"):
            draw(WEIGHTS, ROWS, ["a", "b", "c"])
        with pytest.raises(ValueError, match=r"not \(2, 5, 4\): choose one"):
            draw(np.stack([WEIGHTS, WEIGHTS]), ROWS, COLUMNS)
        with pytest.raises(ValueError, match="nan at row 1, column 2"):
            draw(np.where(np.arange(20).reshape(5, 4) == 6, np.nan, WEIGHTS))
        with pytest.raises(ValueError, match="not one string"):
            draw(WEIGHTS, "abcde", COLUMNS)

    def test_an_empty_figure(self):
        with pytest.raises(ValueError, match=r"nothing to draw: weights are \(0, 4\)"):
            alignment.figure(np.zeros((0, 4)))

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
    def test_tensors_of_every_kind_are_taken(self, dtype):
        weights = torch.tensor(WEIGHTS, dtype=dtype, requires_grad=True)
        assert "██████" in alignment.terminal(weights, ROWS, COLUMNS, width=80, colour=False, blocks=True)


class TestViews:
    def test_one(self):
        view = alignment.view(WEIGHTS, ROWS, COLUMNS, score=-0.5)
        assert (view.kind, view.title) == ("alignment", "I love coffee .")
        (reading,) = view.data["readings"]
        assert (reading["rows"], reading["text"], reading["score"]) == (ROWS, "Me encanta el café .", -0.5)
        assert view.data["columns"] == COLUMNS

    def test_pieces_of_words_are_joined(self):
        assert alignment.sentence(["▁Me", "▁enc", "anta", "▁."]) == "Me encanta ."
        assert alignment.sentence(["Me", "encanta"]) == "Me encanta"

    def test_a_beam_shares_its_source(self):
        with pytest.raises(ValueError, match=r"alike but for T, not \(5, 4\), \(5, 3\)"):
            alignment.beam([Reading(ROWS, WEIGHTS), Reading(ROWS, WEIGHTS[:, :3])], COLUMNS)
        with pytest.raises(ValueError, match="at least one reading"):
            alignment.beam([], COLUMNS)
        with pytest.raises(ValueError, match=r"\(2, 2, 2, 5, 4\)"):
            alignment.view(np.zeros((2, 2, 2, 5, 4)))
        with pytest.raises(ValueError, match=r"\(5,\)"):
            alignment.view(np.zeros(5))

    def test_too_large(self):
        huge = np.broadcast_to(np.float32(0), (1000, 1000, 1000))
        with pytest.raises(ValueError, match="takes 67,108,864 weights, and these are 1,000,000,000"):
            alignment.view(huge)

    def test_hypotheses_of_a_search(self):
        found = [
            SimpleNamespace(tokens=[5, 6], score=-0.1, alignment=torch.rand(2, 4)),
            SimpleNamespace(tokens=[5], score=-0.9, alignment=torch.rand(2, 4)),
        ]
        view = alignment.hypotheses(found, COLUMNS, lambda ids: [f"w{i}" for i in ids])
        assert [reading["rows"] for reading in view.data["readings"]] == [["w5", "w6"], ["w5", "</s>"]]
        padded = SimpleNamespace(tokens=[5], score=0.0, alignment=torch.tensor([[0.5, 0.5, 0.0]]))
        assert alignment.hypotheses([padded], ["a", "b"], lambda ids: ["x"]).data["readings"][0][
            "weights"
        ].values.shape == (1, 2)
        with pytest.raises(ValueError, match="no attention over the source"):
            alignment.hypotheses([SimpleNamespace(tokens=[1], score=0.0, alignment=None)], COLUMNS, str)

    def test_a_tape(self):
        layers = nn.ModuleList(regard.MultiHead(dim=8, heads=2) for _ in range(3))
        query, key = torch.randn(2, 5, 8), torch.randn(2, 4, 8)
        with regard.record(layers) as tape:
            for layer in layers:
                layer(query, key)
        tape.label("0", rows=ROWS, columns=COLUMNS)
        view = alignment.from_tape(tape, "*", batch=1)
        assert view.data["layers"] == ["0", "1", "2"]
        values = view.data["readings"][0]["weights"].values
        assert values.shape == (3, 2, 5, 4)
        np.testing.assert_allclose(values[2], tape["2"].weights[1].numpy())
        assert alignment.from_tape(tape, "0").data["readings"][0]["weights"].values.shape == (2, 5, 4)
        with pytest.raises(ValueError, match="no attention on this tape is called x"):
            alignment.from_tape(tape, "x")


def test_self_attention_has_neither_source_nor_target():
    """``picture`` names the axes by what stands along them."""
    words = ["a", "fine", "film"]
    for rows, names in ((words, ["key", "query"]), (["un", "beau", "film"], ["source", "target"])):
        made = alignment.picture([Reading(rows, torch.eye(3))], words)
        texts = {text.get_text() for text in made.figure().findobj(Label)}
        assert texts >= set(names), rows
