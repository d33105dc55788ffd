"""Every kind of view in a real browser: what it shows, how it is stepped, kept and reached without a mouse."""

import io
import json
import re

import numpy as np
import pytest

from regard import axes
from regard.views import (
    alignment,
    between,
    canvas,
    document,
    film,
    glimpses,
    graph,
    heads,
    hops,
    overlay,
    page,
    positions,
    rectified,
    spectrogram,
    stack,
    strokes,
    table,
    weightings,
)

STEPS = 4


def shares(*shape, seed=0):
    """Weights that add up to 1 along the last axis."""
    return np.random.default_rng(seed).dirichlet(np.full(shape[-1], 0.5), size=shape[:-1])


def pixels(*shape, seed=0):
    return np.random.default_rng(seed).uniform(size=shape).astype(np.float32)


WORDS = ["The", "animal", "didn't", "cross", "the", "street", "because", "it", "was", "too", "tired"]
HEADS = shares(2, 3, len(WORDS), len(WORDS))
LOCATION = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [0.0, 0.0]], dtype=np.float32)
STORY = ["Sam walks into the kitchen.", "Sam picks up an apple.", "Sam drops the apple."]
HOPS = np.array([[0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
HEAD = np.eye(STEPS, 6)
EDGES = np.array([[1, 2, 0, 2, 3], [0, 0, 1, 1, 0]])
ALONG = np.array([[0.7, 0.5], [0.2, 0.3], [0.4, 0.4], [0.6, 0.6], [0.1, 0.2]])
BOX = np.array([[10.0, 8.0, 6.0, 1.0]] * STEPS)
READ = shares(2, 8)
LOOKED = shares(3, 16).reshape(3, 4, 4)
SHOTS = shares(3, 5)
PEN = np.array([[0, 0, 0], [4, 9, 1], [6, 0, 0], [9, 9, 1], [12, 3, 1]], np.float32)
AT = np.array([[0.9, 0.6, 0.1, 0.0, 0.0], [0.1, 0.2, 0.8, 0.7, 0.1], [0.0, 0.0, 0.0, 0.2, 0.6]])
STAIRS = np.kron(np.eye(5), np.full((1, 8), 0.125))
GRID = np.stack(np.meshgrid(np.linspace(-0.5, 0.5, 5), np.linspace(-0.5, 0.5, 5)), axis=-1).astype(np.float32)


def trace():
    known = np.array([0, 1, 1, 1])
    weights, tops = shares(STEPS, 2, 3), np.linspace(-1, 1, 2 * STEPS).reshape(STEPS, 2)
    return stack.Trace("aabb", "abba", "abaa", np.full(STEPS, 0.75), known, weights, tops, ["push", "pop", "none"])


VIEWS = {
    "table": lambda: table.view(["", "weight"], [["first", "0.88"], ["second", "0.12"]], [[None, 0.88], [None, 0.12]]),
    "alignment": lambda: alignment.view(shares(2, 3, 4, 5), list("abcd"), list("vwxyz")),
    "heads": lambda: heads.view(HEADS, WORDS, word="it"),
    "glimpses": lambda: glimpses.view(
        pixels(1, 20, 20), LOCATION, pixels(STEPS, 1, 2, 4, 4), shares(STEPS, 10), [4, 8], classes=list("0123456789")
    ),
    "canvas": lambda: canvas.view(pixels(STEPS, 1, 20, 20), BOX, BOX, image=pixels(1, 20, 20)),
    "rectified": lambda: rectified.view(pixels(1, 20, 20), GRID[None], pixels(1, 1, 5, 5)),
    "hops": lambda: hops.view(
        STORY, HOPS, title="Where is the apple?", text="kitchen", answer="kitchen", support=[0, 2]
    ),
    "weightings": lambda: weightings.view({"input": pixels(STEPS, 3) > 0.5}, {"read": HEAD, "write": HEAD[::-1]}),
    "stack": lambda: stack.view(trace()),
    "graph": lambda: graph.view(ALONG, EDGES, 0, names=list("abcd"), kinds=[0, 1, 0, 1], classes=["odd", "even"]),
    "document": lambda: document.view(WORDS[:8], READ, rows=["who", "what"], marked=[1], question="Who is tired?"),
    "overlay": lambda: overlay.view(pixels(3, 16, 16), ["a", "black", "dog"], LOOKED),
    "film": lambda: film.view(pixels(5, 3, 12, 12), ["someone", "fries", "fish"], SHOTS),
    "strokes": lambda: strokes.view(PEN, list("lo."), AT, density=pixels(6, 9)),
    "spectrogram": lambda: spectrogram.view(
        pixels(8, 40), list("hi yo"), STAIRS, 0.01, np.sin(np.arange(3200) / 5), 8000
    ),
    "positions": lambda: positions.view(np.sin(np.outer(np.arange(30), 1 / 3 ** np.arange(8)))),
}


def test_every_kind_is_tested_here():
    assert set(VIEWS) == set(page.kinds())


def test_a_page_with_every_kind_is_small():
    made = [view() for view in VIEWS.values()]
    data = sum(len(json.dumps(page.encode(view))) for view in made)
    assert len(page.page(made)) - data < 200_000


@pytest.mark.parametrize("kind", VIEWS)
def test_light_and_dark_are_accessible(show, grave, kind):
    for dark in (False, True):
        opened = show(VIEWS[kind](), dark=dark)
        assert not grave(opened)


@pytest.mark.parametrize("kind", VIEWS)
def test_no_screen_is_too_small(show, kind):
    opened = show(VIEWS[kind](), size=(340, 640))
    assert opened.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@pytest.mark.parametrize("kind", [kind for kind in VIEWS if kind not in ("graph", "positions", "rectified", "table")])
def test_time_is_stepped_by_keys_and_played(show, kind):
    opened = show(VIEWS[kind]())
    told = opened.locator(".told")
    opened.keyboard.press("Escape")  # a canvas opens on a step with its boxes
    count = int(told.inner_text().removeprefix("all "))
    opened.keyboard.press("ArrowRight")
    assert told.inner_text() == f"1 of {count}"
    opened.keyboard.press("ArrowRight")
    assert told.inner_text() == f"2 of {count}"
    opened.keyboard.press("Escape")
    assert told.inner_text() == f"all {count}"
    opened.keyboard.press("Space")
    assert told.inner_text() == f"1 of {count}"
    opened.wait_for_function("text => document.querySelector('.told').textContent === text", arg=f"2 of {count}")
    opened.keyboard.press("Space")


class TestWhatIsShown:
    def test_tags_are_no_source(self, show):
        side = between.Side(axes.Words(["rain", "falls"]), np.array([[0.9, 0.1], [0.2, 0.8]]))
        opened = show(between.picture([side], axes.Tags(["NOUN", "VERB"])).view())
        sides = [each.inner_text().lower() for each in opened.locator(".side h3").all()]
        assert (
            sides == ["tag", "word"]
            and "Words below show how likely each tag is" in opened.locator(".looks").inner_text()
        )
        opened.locator(".side").last.get_by_text("rain", exact=True).click()
        assert opened.locator(".looks h3").inner_text() == "rain is likely"

    def test_heads(self, show):
        opened = show(VIEWS["heads"]())
        assert opened.locator(".looks h3").inner_text() == "it looked at"  # the word that was named
        small = opened.locator(".thumb")
        assert small.count() == 6
        assert [float(text) for text in opened.locator(".spread").all_inner_texts()] == pytest.approx(
            heads.spread(HEADS).ravel(), abs=0.11
        )
        small.nth(1).click()
        chosen = [opened.get_by_role("combobox", name=name).input_value() for name in ("Layer", "Head")]
        assert chosen == ["1", "2"]
        first = opened.locator(".bars li").first.inner_text().split("\n")
        best = int(HEADS[0, 1, 7].argmax())
        assert first[0] == WORDS[best] and float(first[1].strip(" %")) == pytest.approx(
            100 * HEADS[0, 1, 7, best], abs=1
        )

    def test_glimpses_are_where_they_were(self, show):
        opened = show(VIEWS["glimpses"]())
        opened.keyboard.press("ArrowRight")
        box, stage = opened.locator(".dot circle").bounding_box(), opened.locator(".stage").bounding_box()
        centre = (box["x"] + box["width"] / 2 - stage["x"]) / stage["width"]
        assert centre == pytest.approx(0.25, abs=0.01)  # x = −0.5
        assert opened.locator(".dot").count() == 1 and opened.locator(".square").count() == 2
        opened.get_by_label("Glimpse 3").click()
        assert opened.locator(".dot").count() == 3
        best = shares(STEPS, 10)[2].argmax()
        assert opened.locator(".bars li").first.inner_text().startswith(f"{best}\n")

    def test_a_game_ends(self, show):
        view = glimpses.played(
            pixels(STEPS + 1, 1, 8, 8), LOCATION, pixels(STEPS, 1, 1, 4, 4), [4], caught=True, actions=["left"] * STEPS
        )
        opened = show(view)
        assert opened.locator(".readout").inner_text() == "caught"
        opened.keyboard.press("ArrowRight")
        assert opened.locator(".readout").inner_text() == f"glimpse 1 of {STEPS}: left"

    def test_the_box_of_a_step(self, show):
        opened = show(VIEWS["canvas"]())
        written = opened.locator(".box.write")
        assert written.count() == 1
        opened.keyboard.press("Escape")
        assert opened.locator(".box").count() == 0
        opened.keyboard.press("ArrowRight")
        assert [float(written.get_attribute(name)) for name in ("x", "y", "width")] == [7.5, 5.5, 6]
        assert opened.locator(".box.read").count() == 1 and opened.locator(".box.beyond").count() == 0

    def test_a_box_that_reaches_beyond_the_picture_is_dashed_along_its_border(self, show):
        beyond = np.array([[10.0, 8.0, 30.0, 1.0]] * STEPS)
        opened = show(canvas.view(pixels(STEPS, 1, 20, 20), BOX, beyond, image=pixels(1, 20, 20)))
        opened.keyboard.press("ArrowRight")
        written = opened.locator(".box.write.beyond")
        left, top, wide, high = (float(written.get_attribute(name)) for name in ("x", "y", "width", "height"))
        assert min(left, top) > 0 and left + wide < 20 and top + high < 20 and min(wide, high) > 19
        assert opened.locator(".box.read.beyond").count() == 0

    def test_a_classifier_that_reads(self, show):
        opened = show(canvas.view(read=BOX, patch=pixels(STEPS, 1, 3, 3), image=pixels(1, 20, 20)))
        assert "what is read in step 4 of 4" in opened.locator("figcaption").all_inner_texts()

    def test_where_a_crop_was_read(self, show):
        opened = show(VIEWS["rectified"]())
        crop = opened.locator(".crop").bounding_box()
        opened.mouse.move(crop["x"] + 2, crop["y"] + 2)  # its first pixel, at −0.5, −0.5
        spot = opened.locator(".stage .spot")
        assert [float(spot.get_attribute(name)) for name in ("cx", "cy")] == [5, 5]
        assert spot.get_attribute("visibility") == "visible"

    def test_hops(self, show):
        opened = show(VIEWS["hops"]())
        cells = opened.locator("td.shade").all_inner_texts()
        assert cells == ["10 %", "70 %", "10 %", "20 %", "80 %", "10 %"]
        assert opened.locator(".said").inner_text() == "Where is the apple? kitchen right"
        opened.keyboard.press("ArrowRight")
        assert opened.locator("tr.here th").inner_text() == STORY[2]

    def test_weightings(self, show):
        opened = show(VIEWS["weightings"]())
        opened.keyboard.press("ArrowRight")
        opened.keyboard.press("ArrowRight")
        assert opened.locator(".readout").inner_text() == "Step 2 of 4: read at row 1 (100 %), write at row 2 (100 %)"
        tape = opened.locator(".tape").nth(1).bounding_box()
        opened.mouse.move(tape["x"] + 0.9 * tape["width"], tape["y"] + 5)
        assert opened.locator(".readout").inner_text().startswith("Step 4 of 4: read at row 3")

    def test_a_stack(self, show):
        opened = show(VIEWS["stack"]())
        rows = opened.locator("tbody tr")
        assert rows.count() == STEPS
        signs = [rows.nth(t).locator("td").nth(1).inner_text() for t in range(STEPS)]
        assert signs == ["a", "b ✓", "a ✗", "a ✓"]

    def test_a_graph_is_walked(self, show):
        opened = show(VIEWS["graph"]())
        assert opened.locator(".egos .spot").count() == 3
        assert opened.locator(".looks h3").first.inner_text() == "a, odd looks at"
        strongest = opened.locator(".bars").first.locator("li").first
        assert strongest.inner_text() == "b\n60 %"  # the mean of 0.7 and 0.5
        opened.locator(".egos .spot").first.focus()
        opened.keyboard.press("Enter")
        assert opened.locator(".looks h3").first.inner_text() == "b, even looks at"
        assert opened.locator(".bars").first.locator("li").first.inner_text() == "c\n60 %"
        opened.get_by_label("Head").select_option("1")
        opened.get_by_label("Back to the node before").click()
        assert opened.locator(".bars").first.locator("li").first.inner_text() == "b\n70 %"

    def test_a_document(self, show):
        opened = show(VIEWS["document"]())
        assert opened.locator(".text").inner_text() == " ".join(WORDS[:8])
        assert opened.locator(".marked").inner_text() == WORDS[1]
        opened.get_by_role("button", name="what").click()
        best = int(READ[1].argmax())
        assert opened.locator(".looks li").first.locator("bdi").inner_text() == WORDS[best]
        opened.locator(".shaded").nth(2).hover()
        said = [float(text.strip(" %<")) for text in opened.locator(".looks .share").all_inner_texts()]
        assert said == pytest.approx(100 * READ[:, 2], abs=0.6)

    def test_an_overlay(self, show):
        opened = show(VIEWS["overlay"]())
        assert opened.locator(".field image").count() == 1
        opened.get_by_role("button", name="dog").hover()
        assert opened.locator(".field image").count() == 2
        top = opened.locator(".readout").inner_text()
        assert float(re.search(r"([\d.]+) %", top)[1]) == pytest.approx(100 * LOOKED[2].max(), abs=1)

    def test_a_film(self, show):
        opened = show(VIEWS["film"]())
        said = [float(text.strip(" %<")) for text in opened.locator(".share").all_inner_texts()]
        assert said == pytest.approx(100 * SHOTS.mean(0), abs=0.6)
        opened.get_by_role("button", name="fish").hover()
        said = [float(text.strip(" %<")) for text in opened.locator(".share").all_inner_texts()]
        assert said == pytest.approx(100 * SHOTS[2], abs=0.6)
        assert f"frame {SHOTS[2].argmax() + 1}," in opened.locator(".readout").inner_text()
        veils = [float(each.get_attribute("opacity")) for each in opened.locator(".stage rect").all()]
        assert int(np.argmin(veils)) == SHOTS[2].argmax() and min(veils) == 0

    def test_strokes(self, show):
        opened = show(VIEWS["strokes"]())
        assert opened.locator(".ink").nth(1).get_attribute("d") == "M0,0L4,9M6,0L9,9M12,3L12,3"
        assert opened.locator(".names bdi").all_inner_texts() == ["l", "o", "."]
        opened.get_by_role("button", name="Letter 2, o").click()
        assert opened.locator(".told").inner_text() == "3 of 5"
        assert "at “o”" in opened.locator(".readout").inner_text()
        assert opened.locator(".ink").nth(1).get_attribute("d") == "M0,0L4,9M6,0L6,0"
        opened.keyboard.press("Escape")
        assert opened.locator(".tip").is_hidden()

    def test_a_spectrogram(self, show):
        opened = show(VIEWS["spectrogram"]())
        opened.get_by_role("button", name="y", exact=True).hover()
        assert opened.locator(".readout").inner_text() == "“y”: 0.24 to 0.32 s"
        opened.get_by_role("button", name="h", exact=True).hover()  # what is heard of it ends at the edge, its time not
        assert opened.locator(".readout").inner_text() == "“h”: 0.00 to 0.08 s"
        assert opened.locator(".names bdi").all_inner_texts() == ["h", "i", "␣", "y", "o"]
        assert opened.locator(".ends span").all_inner_texts() == ["0", "0.4 s"]
        beside = [opened.locator(".names bdi").nth(3), opened.locator(".tape").nth(1)]
        label, tape = (each.bounding_box() for each in beside)
        assert abs(label["y"] + label["height"] / 2 - tape["y"] - 0.7 * tape["height"]) < 2
        opened.get_by_role("button", name="Play the sound").click()
        opened.get_by_role("button", name="Play the sound").wait_for(timeout=5000)  # it ends by itself
        opened.get_by_role("button", name="o", exact=True).click()
        assert opened.locator(".told").inner_text() == "5 of 5"

    def test_positions(self, show):
        opened = show(VIEWS["positions"]())
        opened.get_by_role("slider").focus()
        opened.keyboard.press("Home")
        assert opened.locator(".readout").inner_text() == "Position 1"


class TestSaving:
    def kept(self, opened, form):
        with opened.expect_download() as waiting:
            opened.get_by_label(f"Save as {form}").click()
        return waiting.value.suggested_filename, waiting.value.path().read_bytes()

    @pytest.mark.parametrize("kind", VIEWS)
    def test_pictures_and_numbers(self, show, kind):
        opened = show(VIEWS[kind]())
        name, data = self.kept(opened, "JSON")
        assert name.endswith(".json") and json.loads(data)["kind"] == kind
        drawn = self.kept(opened, "SVG")[1].decode()
        assert drawn.startswith("<svg") and "var(" not in drawn and "class=" not in drawn
        assert opened.evaluate(
            "text => !new DOMParser().parseFromString(text, 'image/svg+xml').querySelector('parsererror')", drawn
        )
        image = pytest.importorskip("PIL.Image").open(io.BytesIO(self.kept(opened, "PNG")[1]))
        assert min(image.size) > 200 and len(image.convert("RGB").getcolors(1 << 20)) > 8

    def test_the_numbers_are_the_weights(self, show):
        weights = shares(3, 4)
        opened = show(alignment.view(weights, list("abc"), ["I", "<b>love", "coffee", "."], title="Coffee & <tea>!"))
        name, data = self.kept(opened, "JSON")
        reading = json.loads(data)["data"]["readings"][0]
        assert name == "coffee-tea.json" and reading["rows"] == list("abc")
        assert np.abs(np.array(reading["weights"]) - weights).max() < 1 / 255
        drawn = self.kept(opened, "SVG")[1].decode()
        assert "&lt;b&gt;love" in drawn and "<b>" not in drawn
        assert drawn.count("<rect") > weights.size  # the cells are shapes


HOST = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Host</title>
<link rel="stylesheet" href="/view.css"></head><body><textarea id="typed"></textarea>
<div id="one"></div><div id="two"></div><div id="wrong"></div>
<script type="module">import { mount } from "/mount.js"; window.mount = mount;</script></body></html>"""


def test_views_inside_another_page(browser, server, tmp_path):
    """As the explorer has them: two beside a text field, each with its own keys, fetched as modules."""
    address, asked = server
    opened = browser.new_page()
    opened.set_default_timeout(30_000)
    troubles = []
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.route(f"{address}/host", lambda route: route.fulfill(body=HOST, content_type="text/html"))
    opened.goto(f"{address}/host")
    opened.wait_for_function("() => Boolean(window.mount)")
    encoded = [json.loads(json.dumps(page.encode(VIEWS[kind]()))) for kind in ("hops", "alignment")]
    opened.evaluate(
        "views => { window.ends = views.map((view, i) => mount(document.getElementById(['one', 'two'][i]), view)); }",
        encoded,
    )
    opened.wait_for_selector("#two .told")
    opened.wait_for_selector("#one .told")
    opened.locator("#typed").focus()
    opened.keyboard.type("a b")
    opened.keyboard.press("ArrowRight")
    assert opened.locator("#typed").input_value() == "a b"
    assert opened.locator(".told").all_inner_texts() == ["all 2", "all 4"]  # what is typed elsewhere steps nothing
    opened.locator("#two .row.target .word").first.focus()
    opened.keyboard.press("Space")
    assert (
        opened.locator("#two .told").inner_text() == "1 of 4" and opened.locator("#one .told").inner_text() == "all 2"
    )
    opened.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert (
        opened.evaluate("getComputedStyle(document.querySelector('#one .panel')).backgroundColor") == "rgb(23, 28, 35)"
    )
    opened.evaluate("ends[0]()")
    assert opened.locator("#one").inner_html() == "" and opened.locator("#two .told").count() == 1
    assert {"/kinds/hops.js", "/kinds/alignment.js"} <= set(asked) and "/kinds/graph.js" not in asked
    assert not troubles
    opened.evaluate("() => { mount(document.getElementById('wrong'), { kind: '../x', title: '', data: {} }); }")
    assert "no kind of view" in opened.locator("#wrong .wrong").inner_text()
    opened.close()


def test_frames_in_a_notebook(browser):
    """Several on one page, as an exported notebook has them; each lives for itself."""
    opened = browser.new_page()
    opened.set_default_timeout(30_000)
    opened.set_content(VIEWS["hops"]()._repr_html_() + page.frame([VIEWS["stack"](), VIEWS["graph"]()], "a 'b' <c>"))
    first, second = (opened.frame_locator("iframe").nth(i) for i in range(2))
    assert first.locator(".said").inner_text() == "Where is the apple? kitchen right"
    assert second.locator("h1").inner_text() == "a 'b' <c>"
    second.get_by_label("Next symbol (right arrow)").click()
    assert second.locator(".told").inner_text() == "1 of 4" and first.locator(".told").inner_text() == "all 2"
    opened.close()


def test_the_map_is_pulled_and_zoomed(show):
    weights = np.zeros((300, 300), dtype=np.float32)
    np.fill_diagonal(weights, 1)
    opened = show(alignment.view(weights))
    field = opened.locator(".map")
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + min(box["height"], 400) / 2
    opened.mouse.move(x, y)
    opened.mouse.down()
    opened.mouse.move(x - 90, y - 60, steps=3)
    opened.mouse.up()
    assert field.evaluate("map => [map.scrollLeft, map.scrollTop]") == [90, 60]
    assert opened.locator(".word.own").count() == 1  # pointed at, but a pull pins nothing
    opened.mouse.move(5, 5)
    assert opened.locator(".word.own").count() == 0
    before = field.evaluate("map => map.scrollWidth")
    opened.mouse.move(x, y)
    opened.keyboard.down("Control")
    opened.mouse.wheel(0, -150)
    opened.keyboard.up("Control")
    opened.wait_for_function("before => document.querySelector('.map').scrollWidth > 1.3 * before", arg=before)
