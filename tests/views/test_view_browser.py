"""The page in a real browser. Skipped, with the reason, where there is no Chromium or no playwright."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import regard
from regard.axes import Places, Steps
from regard.views import alignment, between, overlay, page
from regard.views import tape as views
from regard.views.alignment import Reading

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
HOSTILE = [
    "<script>window.hacked=1</script>",
    "</script><img src=x onerror='window.hacked=1'>",
    "&amp;",
    "\x1b[31m",
    "\u202eevil",
]
OTHERS = ["深度學習", "👩\u200d👧", "שלום", "' \"", "", " "]


def coffee(**options):
    return alignment.view(WEIGHTS, ROWS, COLUMNS, **options)


def words(opened, side):
    return opened.locator(f".row.{side} .word")


def links(opened):
    """The lines that are drawn, as (target, source)."""
    drawn = opened.locator(".lines path").evaluate_all("paths => paths.map(path => path.dataset.link)")
    return {tuple(map(int, link.split("-"))) for link in drawn}


def bars(opened):
    """The list beside the heat map: word → weight."""
    found = opened.locator(".bars li").evaluate_all(
        "rows => rows.map(row => [row.children[0].textContent, row.children[2].textContent])"
    )
    return {word: float(share.strip("<% ")) / 100 for word, share in found}


def test_what_is_uniform_looks_pale_and_the_scale_can_be_fixed(show):
    red = """canvas => {
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        const found = [];
        for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255 && data[i + 2] > data[i]) found.push(data[i]);
        return found.sort((a, b) => a - b)[found.length >> 1];
    }"""
    opened = show(alignment.view(np.full((6, 20), 0.05)))
    assert "20 %" in opened.locator(".legend").inner_text()
    pale = opened.locator(".map canvas").evaluate(red)
    assert pale > 150
    opened.get_by_label("scale to 100 %").check()
    assert "100 %" in opened.locator(".legend span").nth(1).inner_text()
    assert opened.locator(".map canvas").evaluate(red) > pale
    assert not show(coffee()).get_by_label("scale to 100 %").is_visible()


def test_the_member_of_a_batch_is_chosen(show):
    attention = regard.Attention("dot")
    with regard.record(attention) as tape:
        attention(100 * torch.eye(3)[torch.tensor([[0, 1], [2, 2]])], torch.eye(3)[None].expand(2, -1, -1))
    opened = show(views.views(tape)[0])
    assert links(opened) == {(0, 0), (1, 1)}
    opened.get_by_label("number 2").check()
    assert links(opened) == {(0, 2), (1, 2)}
    assert "2 in the batch" in opened.locator(".beam legend").inner_text().lower()


def test_a_long_sentence_shows_the_strongest_line_of_each_word(show):
    weights = np.full((30, 30), 0.3 / 29)
    weights[np.arange(30), 29 - np.arange(30)] = 0.7
    weights[:, 5] = np.maximum(weights[:, 5], 0.25)
    long = [f"word{i}" for i in range(30)]
    opened = show(alignment.view(weights, long, long), size=(1000, 1200))
    assert links(opened) == {(t, 29 - t) for t in range(30)}
    words(opened, "target").nth(3).hover()
    assert {(3, 26), (3, 5)} <= links(opened)  # the word in focus shows all its lines


class TestWords:
    def test_both_sentences_and_their_lines(self, show):
        opened = show(coffee())
        assert words(opened, "source").all_inner_texts() == COLUMNS
        assert words(opened, "target").all_inner_texts() == ROWS
        assert opened.title() == "Coffee"
        strong = {(t, s) for t, s in zip(*np.nonzero(WEIGHTS >= 0.12))}
        assert links(opened) == strong

    def test_a_target_word_shows_where_it_looked(self, show):
        opened = show(coffee())
        words(opened, "target").nth(2).hover()
        assert opened.locator(".looks h3").inner_text() == "el looked at"
        assert bars(opened) == pytest.approx({"coffee": 0.60, "love": 0.30, ".": 0.08, "I": 0.02}, abs=0.006)
        assert links(opened) == {(2, 0), (2, 1), (2, 2), (2, 3)}
        assert words(opened, "source").nth(2).get_attribute("data-share") == "60 %"
        opened.mouse.move(5, 5)
        assert "Point at a word" in opened.locator(".looks").inner_text()

    def test_a_source_word_shows_what_looked_at_it(self, show):
        opened = show(coffee())
        words(opened, "source").nth(1).hover()
        assert opened.locator(".looks h3").inner_text() == "love was looked at by"
        assert bars(opened) == pytest.approx({"encanta": 0.90, "el": 0.30, "Me": 0.10, "café": 0.04}, abs=0.006)
        assert links(opened) == {(0, 1), (1, 1), (2, 1), (3, 1)}

    def test_hovering_moves_no_word(self, show):
        opened = show(coffee())
        place = words(opened, "target").nth(4).bounding_box()
        for index in range(4):
            words(opened, "target").nth(index).hover()
            assert words(opened, "target").nth(4).bounding_box() == place

    def test_a_click_keeps_and_another_releases(self, show):
        opened = show(coffee())
        words(opened, "target").nth(1).click()
        opened.mouse.move(5, 5)
        assert opened.locator(".looks h3").inner_text() == "encanta looked at"
        words(opened, "target").nth(1).click()
        opened.mouse.move(5, 5)
        assert "Point at a word" in opened.locator(".looks").inner_text()

    def test_lines_end_at_their_words(self, show):
        opened = show(coffee())
        words(opened, "target").nth(3).hover()
        ends = opened.locator(".lines path[data-link='3-2']").evaluate(
            """path => [0, path.getTotalLength()].map((length) => {
                const point = path.getPointAtLength(length).matrixTransform(path.getScreenCTM());
                return [point.x, point.y];
            })"""
        )
        source, target = words(opened, "source").nth(2).bounding_box(), words(opened, "target").nth(3).bounding_box()
        assert ends[0] == pytest.approx([source["x"] + source["width"] / 2, source["y"] + source["height"]], abs=1)
        assert ends[1] == pytest.approx([target["x"] + target["width"] / 2, target["y"]], abs=1)

    def test_a_dead_row_says_so(self, show):
        opened = show(alignment.view(np.array([[0.0, 0.0], [0.5, 0.5]]), ["a", "b"], ["c", "d"]))
        words(opened, "target").nth(0).hover()
        assert "nothing" in opened.locator(".looks").inner_text()
        assert links(opened) == set()

    def test_an_empty_target(self, show):
        opened = show(alignment.view(np.zeros((0, 4)), [], COLUMNS))
        assert opened.locator(".row.target").inner_text() == "no words"
        words(opened, "source").nth(1).hover()
        opened.keyboard.press("Space")
        opened.keyboard.press("ArrowRight")


class TestTime:
    def test_step_by_step(self, show):
        opened = show(coffee())
        assert opened.locator(".told").inner_text() == "all 5"
        opened.keyboard.press("ArrowRight")
        opened.keyboard.press("ArrowRight")
        assert opened.locator(".told").inner_text() == "2 of 5"
        assert opened.locator(".word.future").all_inner_texts() == ["el", "café", "."]
        assert opened.locator(".looks h3").inner_text() == "encanta looked at"
        words(opened, "source").nth(2).hover()  # only what is written can have looked
        assert set(bars(opened)) == {"Me", "encanta"}
        opened.mouse.move(5, 5)
        opened.keyboard.press("ArrowLeft")
        assert opened.locator(".told").inner_text() == "1 of 5"
        opened.keyboard.press("Escape")
        assert opened.locator(".told").inner_text() == "all 5"
        assert opened.locator(".word.future").count() == 0

    def test_play_pause_and_the_end(self, show):
        opened = show(coffee())
        opened.clock.install()
        opened.keyboard.press("Space")
        assert opened.locator(".told").inner_text() == "1 of 5"
        assert opened.locator(".player button").nth(1).get_attribute("aria-label") == "Pause (space)"
        opened.clock.run_for(1600)
        assert opened.locator(".told").inner_text() == "3 of 5"
        opened.keyboard.press("Space")
        opened.clock.run_for(5000)
        assert opened.locator(".told").inner_text() == "3 of 5"
        opened.get_by_label("Play (space)").click()
        opened.clock.run_for(5000)
        assert opened.locator(".told").inner_text() == "all 5"
        assert opened.locator(".player button").nth(1).get_attribute("aria-label") == "Play (space)"

    def test_the_slider(self, show):
        opened = show(coffee())
        slider = opened.get_by_role("slider")
        slider.focus()
        slider.press("Home")
        assert opened.locator(".told").inner_text() == "1 of 5"
        slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "word 2 of 5"


class TestKeyboard:
    def test_everything_is_reached(self, show):
        opened = show(coffee(), alignment.view(np.ones((2, 3, 5, 4)) / 4, ROWS, COLUMNS, title="heads"), link="#2")
        reached = []
        for _ in range(20):
            opened.keyboard.press("Tab")
            reached.append(
                opened.evaluate(
                    "(e => e.getAttribute('aria-label') || e.getAttribute('role') || e.tagName)(document.activeElement)"
                )
            )
        wanted = ["Dark colours", "A", "Play (space)", "SELECT", "option", "Smaller cells"]
        assert all(name in reached for name in wanted), reached
        assert any(name.startswith("Heat map") for name in reached)
        assert reached.count("option") == 2  # one per row; arrows go on from there

    def test_along_and_between_the_rows(self, show):
        opened = show(coffee())
        words(opened, "source").nth(0).focus()
        opened.keyboard.press("ArrowRight")
        opened.keyboard.press("ArrowRight")
        assert opened.locator(".looks h3").inner_text() == "coffee was looked at by"
        opened.keyboard.press("ArrowDown")  # the strongest look at coffee is that of café
        assert opened.evaluate("document.activeElement.textContent") == "café"
        assert opened.locator("[aria-live]").inner_text() == "café looked at coffee 95 %, love 3.9 %, I 1.2 %"
        opened.keyboard.press("Home")
        assert opened.evaluate("document.activeElement.textContent") == "Me"
        opened.keyboard.press("ArrowUp")
        assert opened.evaluate("document.activeElement.textContent") == "I"
        assert opened.locator("[aria-selected=true]").inner_text() == "I"
        opened.keyboard.press("Space")
        assert opened.locator(".player button").nth(1).get_attribute("aria-label") == "Pause (space)"

    def test_cell_by_cell(self, show):
        opened = show(coffee())
        opened.locator(".map").focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
            opened.keyboard.press(key)
        assert opened.locator("[aria-live]").inner_text() == "encanta looked at love 90 %"
        assert opened.locator(".word.own").inner_text() == "encanta"
        assert opened.locator(".word.other").inner_text() == "love"


class TestHeatMap:
    def test_pointing_finds_the_cell(self, show):
        opened = show(coffee())
        box = opened.locator(".map").bounding_box()
        found = set()
        script = "['own', 'other'].map((name) => document.querySelector(`.word.${name}`)?.textContent)"
        for x in range(int(box["x"]) + 4, int(box["x"] + box["width"]), 40):
            for y in range(int(box["y"]) + 40, int(box["y"] + box["height"]), 40):
                opened.mouse.move(x, y)
                own, other = opened.evaluate(script)
                if other:
                    found.add((own, other))
        assert found == {(t, s) for t in ROWS for s in COLUMNS}

    def test_the_cell_under_the_pointer_is_the_one_drawn_there(self, show):
        opened = show(alignment.view(np.eye(4), list("abcd"), list("wxyz")))
        dark = opened.evaluate(
            """() => {
                const canvas = document.querySelector(".map canvas"), box = canvas.getBoundingClientRect();
                const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                const found = {};
                for (let i = 0; i < data.length; i += 4) {
                    if (data[i + 3] < 255 || data[i] + data[i + 1] + data[i + 2] > 220 || data[i + 2] < 100) continue;
                    const [x, y] = [(i / 4) % width, Math.floor(i / 4 / width)];
                    (found[y] ??= []).push(x);
                }
                return Object.entries(found).map(([y, xs]) =>
                    [box.x + Math.min(...xs), box.x + Math.max(...xs), box.y + Number(y)]);
            }"""
        )
        tops = [dark[0]] + [now for before, now in pairwise(dark) if now[0] != before[0]]
        assert len(tops) == 4  # a dark square in each row, further right in each
        for index, (left, right, y) in enumerate(tops):
            for x in (left + 1, right - 1):
                opened.mouse.move(x, y + 3)
                assert opened.locator(".word.own").inner_text() == "abcd"[index]
                assert opened.locator(".word.other").inner_text() == "wxyz"[index]

    def test_strong_weights_are_dark_in_light_and_bright_in_dark(self, show):
        extremes = """() => {
            const canvas = document.querySelector(".map canvas");
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let [least, most] = [999, 0];
            for (let i = 0; i < data.length; i += 4) {
                if (data[i + 3] < 255) continue;
                const light = data[i] + data[i + 1] + data[i + 2];
                [least, most] = [Math.min(least, light), Math.max(most, light)];
            }
            return [least, most];
        }"""
        assert show(coffee()).evaluate(extremes)[0] < 220  # the darkest blue
        assert show(coffee(), dark=True).evaluate(extremes)[1] > 700

    def test_zoom(self, show):
        opened = show(coffee())
        before = opened.locator(".space").bounding_box()["height"]
        for _ in range(3):
            opened.get_by_label("Smaller cells").click()
        assert opened.locator(".space").bounding_box()["height"] < 0.7 * before
        opened.get_by_label("Cells that fit").click()
        assert opened.locator(".space").bounding_box()["height"] == before


class TestChoices:
    def test_a_hypothesis_of_the_beam(self, show):
        best, other = Reading(ROWS, WEIGHTS, -0.31), Reading(["Amo", "café"], WEIGHTS[1:3], -0.92, text="Amo café.")
        opened = show(alignment.beam([best, other], COLUMNS))
        options = opened.locator(".beam label")
        assert options.all_inner_texts() == ["Me encanta el café .\n−0.31", "Amo café.\n−0.92"]
        opened.get_by_role("radio").nth(0).focus()
        opened.keyboard.press("ArrowDown")
        assert words(opened, "target").all_inner_texts() == ["Amo", "café"]
        assert opened.locator(".told").inner_text() == "all 2"
        words(opened, "target").nth(0).hover()
        assert bars(opened)["love"] == pytest.approx(0.9, abs=0.006)

    @pytest.mark.parametrize("shape", [(3, 5, 4), (2, 3, 5, 4)])
    def test_layers_and_heads(self, show, shape):
        weights = np.random.default_rng(0).dirichlet(np.ones(4), size=shape[:-1])
        opened = show(alignment.view(weights, ROWS, COLUMNS))
        assert opened.get_by_role("combobox", name="Layer").count() == (len(shape) == 4)

        def shown():
            words(opened, "target").nth(1).hover()
            found = bars(opened)
            opened.mouse.move(5, 5)
            return [found.get(word, 0) for word in COLUMNS]

        start = weights[-1] if len(shape) == 4 else weights
        assert shown() == pytest.approx(start.mean(0)[1], abs=0.01)
        opened.get_by_role("combobox", name="Head").select_option("2")
        assert shown() == pytest.approx(start[1][1], abs=0.01)
        if len(shape) == 4:
            opened.get_by_role("combobox", name="Layer").select_option("1")
            assert shown() == pytest.approx(weights[0][1][1], abs=0.01)
            opened.get_by_role("combobox", name="Layer").select_option("mean")
            assert shown() == pytest.approx(weights[:, 1].mean(0)[1], abs=0.01)

    def test_several_views(self, show):
        others = [alignment.view(WEIGHTS, ROWS, COLUMNS, title=f"number {i}") for i in range(2, 14)]
        opened = show(coffee(), *others, link="#3")
        assert opened.locator("h2").inner_text() == "number 3"
        opened.get_by_role("link", name="number 12").click()
        opened.wait_for_selector("#regard[data-ready='12']")
        assert opened.locator("nav [aria-current]").inner_text() == "number 12"
        opened.keyboard.press("ArrowRight")  # the focus is on a link, not on the view
        opened.get_by_label("Filter the list").fill("NUMBER 1")
        assert opened.locator("nav li:visible").all_inner_texts() == [
            "number 10",
            "number 11",
            "number 12",
            "number 13",
        ]

    def test_a_single_view_is_headed_unless_it_spells_its_title(self, show):
        image, maps = np.zeros((3, 8, 8)), np.full((2, 2, 2), 0.25)
        opened = show(overlay.view(image, ["hop 1", "hop 2"], maps, title="Is it red? yes"))
        assert opened.locator("h2").inner_text() == "Is it red? yes"
        assert show(overlay.view(image, ["red", "ball"], maps)).locator("h2").count() == 0

    def test_hops_over_an_image_are_not_called_words(self, show):
        maps, image = np.full((2, 4), 0.25), np.zeros((3, 8, 8))
        over = between.picture([between.Side(Steps.numbered(2, "hop"), maps)], Places(image=image, grid=(2, 2)))
        opened = show(over.view())
        assert "Point at a hop" in opened.locator(".readout").inner_text()
        assert opened.get_by_role("group", name="Hops").count() == opened.get_by_label("All hops").count() == 1
        assert opened.get_by_label("Step through time, one hop at a time").count() == 1

    def test_a_place_of_an_image_tells_which_words_looked_there(self, show):
        maps = np.array([[[0.7, 0.1], [0.1, 0.1]], [[0.1, 0.1], [0.2, 0.6]]])
        opened = show(overlay.view(np.zeros((3, 8, 8)), ["red", "ball"], maps))
        image, readout = opened.locator(".field svg"), opened.locator(".readout")
        box = image.bounding_box()
        opened.mouse.click(box["x"] + box["width"] * 0.8, box["y"] + box["height"] * 0.8)
        opened.mouse.move(0, 0)
        assert "Row 2, column 2" in readout.inner_text()
        assert readout.inner_text().index("ball") < readout.inner_text().index("red")
        opened.mouse.click(box["x"] + box["width"] * 0.2, box["y"] + box["height"] * 0.2)
        assert readout.inner_text().index("red") < readout.inner_text().index("ball")
        opened.get_by_role("button", name="ball").hover()
        assert "the strongest of 2 × 2 places" in readout.inner_text()

    def test_a_view_that_was_left_plays_no_more(self, show):
        opened = show(coffee(), coffee(title="again"))
        opened.keyboard.press("Space")
        opened.get_by_role("link", name="again").click()
        opened.wait_for_selector("#regard[data-ready='2']")
        opened.evaluate("document.activeElement.blur()")
        opened.keyboard.press("ArrowRight")
        assert opened.locator(".told").all_inner_texts() == ["1 of 5"]
        opened.wait_for_timeout(900)
        assert opened.locator(".told").all_inner_texts() == ["1 of 5"]


class TestColours:
    @pytest.mark.parametrize("dark", [False, True])
    def test_as_the_system_says_and_then_as_the_reader_does(self, show, dark):
        opened = show(coffee(), dark=dark)
        paper = "getComputedStyle(document.body).backgroundColor"
        light, night = "rgb(244, 245, 247)", "rgb(15, 19, 24)"
        assert opened.evaluate(paper) == (night if dark else light)
        opened.get_by_label("Light colours" if dark else "Dark colours").click()
        assert opened.evaluate(paper) == (light if dark else night)
        opened.reload()
        opened.wait_for_selector("#regard[data-ready]")
        assert opened.evaluate(paper) == (light if dark else night)

    @pytest.mark.parametrize("dark", [False, True])
    def test_accessible(self, show, grave, dark):
        views = [
            alignment.beam([Reading(ROWS, WEIGHTS, -0.3), Reading(ROWS, WEIGHTS, -0.4)], COLUMNS),
            alignment.view(np.stack([WEIGHTS, WEIGHTS]), ROWS, COLUMNS, title="heads"),
        ]
        opened = show(*views, dark=dark)
        for side in ("target", "source"):
            words(opened, side).nth(2).click()
            opened.wait_for_timeout(200)  # the transition of the colours
            assert not grave(opened)


class TestText:
    def test_nothing_that_a_token_says_is_obeyed(self, show):
        weights = np.full((len(HOSTILE), len(HOSTILE)), 1 / len(HOSTILE))
        opened = show(
            alignment.view(weights, HOSTILE, HOSTILE, title=HOSTILE[0]), coffee(title=HOSTILE[1]), title=HOSTILE[0]
        )
        assert opened.locator("h1").inner_text() == HOSTILE[0] == opened.title()
        assert words(opened, "target").all_inner_texts() == [*HOSTILE[:3], "‹1B›[31m", "‹202E›evil"]
        words(opened, "target").nth(1).hover()
        assert opened.evaluate("window.hacked") is None
        assert opened.locator("img, #regard script").count() == 0

    def test_every_script(self, show):
        opened = show(
            alignment.view(np.eye(6), OTHERS, OTHERS),
            alignment.view(np.eye(2), ["שלום", "עולם"], ["a", "b"]),
            link="#2",
        )
        assert opened.locator(".row.target").get_attribute("dir") == "rtl"
        assert opened.locator(".row.source").get_attribute("dir") == "ltr"
        first, second = (words(opened, "target").nth(i).bounding_box()["x"] for i in range(2))
        assert first > second
        words(opened, "target").nth(0).focus()
        opened.keyboard.press("ArrowLeft")  # leftwards is onwards here
        assert opened.evaluate("document.activeElement.textContent") == "עולם"
        opened.goto(opened.url.replace("#2", "#1"))
        opened.wait_for_selector("#regard[data-ready='1']")
        assert words(opened, "target").all_inner_texts() == [*OTHERS[:4], "∅", "␣"]


class TestData:
    @pytest.mark.parametrize("compress", [True, False])
    def test_weights_arrive(self, show, compress):
        weights = np.random.default_rng(0).dirichlet(np.ones(40), size=(2, 30))
        opened = show(alignment.view(weights), compress=compress)
        data = opened.evaluate(
            """async () => {
                const content = JSON.parse(document.getElementById("regard-data").textContent);
                const { shape, values, scale } = (await $data.unpack(content.views[0].data)).readings[0].weights;
                return { shape, values: Array.from(values, (value) => value * scale) };
            }"""
        )
        assert data["shape"] == [2, 30, 40]
        assert np.abs(np.reshape(data["values"], (2, 30, 40)) - weights).max() <= 1 / 255

    def test_a_damaged_page_says_so(self, show, tmp_path):
        opened = show(coffee())
        path = tmp_path / "0.html"
        text = path.read_text(encoding="utf-8")
        for old, new, said in (
            ('"version":1', '"version":9', "version 9"),
            ('"shape":[5,4]', '"shape":[9,4]', "not whole"),
        ):
            assert old in text
            path.write_text(text.replace(old, new), encoding="utf-8")
            broken = opened.context.new_page()
            broken.goto(path.as_uri())
            assert said in broken.locator(".wrong").inner_text()

    def test_an_old_browser_is_told(self, show, browser, tmp_path):
        for compress, said in ((True, "compress=False"), (False, None)):
            path = tmp_path / f"old{compress}.html"
            page.write(path, [alignment.view(np.eye(60))], compress=compress)
            old = browser.new_page()
            old.add_init_script("delete window.DecompressionStream")
            old.goto(path.as_uri())
            if said:
                assert said in old.locator(".wrong").inner_text()
            else:
                assert words(old, "target").count() == 60
            old.close()

    def test_no_way_out(self, show, server):
        address, asked = server
        opened = show(coffee(), trouble=True)
        refused = opened.evaluate(
            """async (address) => {
                const seen = [];
                addEventListener("securitypolicyviolation", (event) => seen.push(event.effectiveDirective));
                await fetch(address).catch(() => 0);
                const image = new Image();
                image.src = `${address}/a.png`;
                const script = document.createElement("script");
                script.textContent = "window.hacked = 1";
                document.body.append(image, script);
                await new Promise((done) => setTimeout(done, 200));
                return [seen, window.hacked ?? null];
            }""",
            address,
        )
        assert set(refused[0]) == {"connect-src", "img-src", "script-src-elem"}
        assert refused[1] is None
        assert not asked


class TestPlaces:
    @pytest.mark.parametrize("size", [(320, 640), (390, 844), (768, 1024), (1920, 1080)])
    def test_every_screen(self, show, size):
        long = alignment.view(
            np.eye(40), [f"word{i}" for i in range(40)], ["Donaudampfschifffahrt"] * 40, title="x" * 200
        )
        opened = show(coffee(), long, alignment.view(np.ones((12, 16, 5, 4)) / 4, ROWS, COLUMNS), size=size)
        for link in ("#1", "#2", "#3"):
            opened.evaluate("link => { location.hash = link; }", link)
            opened.wait_for_selector(f"#regard[data-ready='{link[1:]}']")
            assert opened.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        note = opened.locator(".thumbnails + .note").bounding_box()  # does not scroll away with the heads
        assert note["x"] + note["width"] <= size[0]
        assert opened.locator(".thumbnails .layer").first.bounding_box()["width"] < 40

    def test_in_a_sandboxed_frame(self, browser, tmp_path):
        """As notebooks show it: no address of its own, no storage."""
        opened = browser.new_page()
        opened.set_content("<iframe sandbox='allow-scripts' width='900' height='700'></iframe>")
        opened.evaluate("text => { document.querySelector('iframe').srcdoc = text; }", page.page([coffee(), coffee()]))
        frame = opened.frame_locator("iframe")
        frame.locator(".row.target .word").nth(1).hover()
        assert frame.locator(".looks h3").inner_text() == "encanta looked at"
        frame.get_by_label("Dark colours").click()
        assert frame.locator("html").get_attribute("data-theme") == "dark"
        opened.close()

    def test_its_files_are_modules_as_they_are(self, browser, server):
        """A server can send them without joining them."""
        address, asked = server
        opened = browser.new_page()
        opened.goto(f"{address}/view.css")
        names = [path.relative_to(page.VIEWER).as_posix() for path in page.VIEWER.rglob("*.js")]
        for name in names:
            assert opened.evaluate("async name => typeof await import(name)", f"/{name}") == "object"
        assert {f"/{name}" for name in names} <= set(asked)
        opened.close()

    def test_long_texts_open_quickly(self, show):
        weights = np.zeros((2000, 2000), dtype=np.float32)
        np.fill_diagonal(weights, 1)
        opened = show(alignment.view(weights))
        assert len(links(opened)) <= 400
        opened.locator(".map").evaluate("map => map.scrollTo(1e6, 1e6)")
        opened.locator(".map").scroll_into_view_if_needed()
        box = opened.locator(".map").bounding_box()
        opened.mouse.move(box["x"] + box["width"] - 20, box["y"] + 200)
        assert int(opened.locator(".word.own").inner_text()) > 1900

    @pytest.mark.slow
    def test_panning_is_smooth(self, show):
        weights = np.random.default_rng(0).dirichlet(np.full(2000, 0.05), size=2000)
        opened = show(alignment.view(weights))
        opened.locator(".map").scroll_into_view_if_needed()
        frames = opened.evaluate(
            """async () => {
                const map = document.querySelector(".map"), frames = [];
                let last = performance.now();
                for (let i = 0; i < 120; i++) {
                    map.scrollBy(37, 29);
                    const now = await new Promise(requestAnimationFrame);
                    frames.push(now - last);
                    last = now;
                }
                return frames.slice(1);
            }"""
        )
        assert np.percentile(frames, 95) <= 34
