"""The explorer in a real browser, against a real server. Skipped, with the reason, where there is no Chromium."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
import uvicorn
from explorer_models import RECIPES, small

import regard
from browser import chromium
from regard import registry, scores
from regard.data import sound
from regard.data.canvases import STROKES
from regard.serve import lessons
from regard.serve.app import create
from regard.serve.lecture import PARTS
from regard.tasks.task import LANGUAGE

TEXT = ["translate-en-es", "translate-en-es-rnn"]
SHOTS = Path(__file__).parents[2] / "build" / "explorer"
"""Screenshots for whoever wants to see what was tested; git does not."""


@contextmanager
def serving(models):
    """A real server on this machine: its address."""
    app = create(models, explorer=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def address():
    """A server with a model of every kind."""
    with serving([*TEXT, *map(small, RECIPES)]) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser, address):
    with visiting(browser, address) as visit:
        yield visit


@contextmanager
def visiting(browser, address):
    """Opens a page of the explorer; afterwards no request must have left the machine, and nothing gone wrong."""
    contexts, requests, troubles = [], [], []

    def visit(link="", size=(1280, 900), dark=False, refused=False):
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        opened = context.new_page()
        opened.set_default_timeout(60_000)
        opened.on("request", lambda request: requests.append(request.url))
        opened.on("pageerror", lambda error: troubles.append(str(error)))
        if not refused:  # a browser logs every answer that is an error
            opened.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        opened.goto(f"{address}/{link}")
        opened.wait_for_selector("#main[data-page]")
        return opened

    yield visit
    for context in contexts:
        context.close()
    assert not troubles
    assert all(url.startswith((address, "data:", "blob:")) for url in requests), requests


def answered(opened, model=None, count=1):
    """Waits until a model has answered N times, and its picture is shown."""
    column = opened.locator(f'.answer[data-model="{model}"]' if model else ".answer").first
    opened.wait_for_function(
        "([node, count]) => Number(node.dataset.answers ?? 0) >= count && node.getAttribute('aria-busy') === 'false'",
        arg=[column.element_handle(), count],
    )
    return column


def keep(opened, name):
    SHOTS.mkdir(parents=True, exist_ok=True)
    opened.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def said(column):
    return column.locator(".said").inner_text()


class TestHome:
    def test_every_model_has_a_card_in_its_family(self, visit):
        opened = visit()
        shown = opened.locator(".family:not([data-lessons])").evaluate_all(
            "all => all.map(each => [each.querySelector('h2').textContent, "
            "[...each.querySelectorAll('a')].map(card => card.getAttribute('href'))])"
        )
        families = {family: {link.removeprefix("#/") for link in links} for family, links in shown}
        expected: dict[str, set[str]] = {LANGUAGE: set(TEXT)}
        for name in RECIPES:
            expected.setdefault(small(name).task.family, set()).add(name)
        assert families == expected
        keep(opened, "home")

    def test_equal_titles_are_told_apart(self, visit):
        titles = visit().locator(".card .title").all_inner_texts()
        assert len(titles) == len(set(titles))
        assert {f"Translate English into Spanish: {which}" for which in ("RNNsearch", "The Transformer")} <= set(titles)

    def test_a_card_opens_its_model_and_back_comes_back(self, visit):
        opened = visit()
        opened.get_by_role("link", name="Walk through a graph").click()
        answered(opened, "gat-sbm")
        assert opened.title() == "Walk through a graph · regard"
        opened.go_back()
        opened.wait_for_selector(".hero")

    def test_the_page_is_small(self, visit, address):
        opened = visit()
        visit_sizes = opened.evaluate(
            "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
            ".map(entry => entry.encodedBodySize)"
        )
        assert 20_000 < sum(visit_sizes) < 300_000

    @pytest.mark.slow
    def test_the_first_paint_comes_within_a_second(self, visit):
        """On a machine with nothing else to do."""
        opened = visit()
        (paint,) = opened.evaluate(
            "performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)"
        )
        assert paint < 1000

    @pytest.mark.parametrize("link", ["", "#/translate-en-es", "#/playground"])
    def test_nothing_jumps(self, visit, link):
        opened = visit(link)
        if "translate" in link:
            answered(opened)
        opened.wait_for_timeout(300)
        shift = opened.evaluate(
            """() => new Promise(done => {
                let sum = 0;
                new PerformanceObserver(list => list.getEntries().forEach(entry => {
                    if (!entry.hadRecentInput) sum += entry.value;
                })).observe({type: 'layout-shift', buffered: true});
                setTimeout(() => done(sum), 50);
            })"""
        )
        assert shift < 0.1


class TestTranslation:
    def test_both_models_translate_what_is_typed(self, visit):
        opened = visit("#/translate-en-es")
        for name in TEXT:
            answered(opened, name)
        field = opened.get_by_label("A sentence")
        field.fill("The house is red.")
        field.press("Enter")
        first, second = (answered(opened, name, 2) for name in TEXT)
        assert "casa" in said(first) and "casa" in said(second)
        assert opened.url.endswith("#/translate-en-es?text=The+house+is+red.&nbest=1&pictures=true&heads=false")
        keep(opened, "translate")
        words = second.locator(".row.target .word")
        words.nth(1).hover()
        assert second.locator(".looks .bars li").count() >= 1
        assert words.nth(1).inner_text() in second.locator(".looks h3").inner_text()

    def test_a_link_opens_the_question_and_the_answer(self, visit):
        opened = visit("#/translate-en-es?text=I+am+tired.&beside=none")
        column = answered(opened)
        assert opened.get_by_label("A sentence").input_value() == "I am tired."
        assert "cansad" in said(column)
        assert opened.locator(".answer").count() == 1
        opened.get_by_role("button", name="Copy link").click()
        opened.get_by_role("button", name="Copied").wait_for()
        assert opened.evaluate("navigator.clipboard.readText()") == opened.url
        assert "text=I+am+tired." in opened.url and "beside=none" in opened.url

    def test_an_example_is_a_click(self, visit):
        opened = visit("#/translate-en-es?beside=none")
        answered(opened)
        opened.get_by_role("button", name="The red house is near the river.").click()
        assert "casa roja" in said(answered(opened, count=2))

    def test_a_picture_is_saved(self, visit):
        opened = visit("#/translate-en-es?text=Hello.&beside=none")
        answered(opened)
        with opened.expect_download() as found:
            opened.get_by_role("button", name="Save as JSON").click()
        written = json.loads(Path(found.value.path()).read_text())
        assert written["kind"] == "alignment" and written["title"] == "Hello."

    @pytest.mark.parametrize("text", ["<script>window.hacked=1</script>", "<img src=x onerror='window.hacked=1'>"])
    def test_nothing_that_is_typed_is_obeyed(self, visit, text):
        opened = visit("#/translate-en-es?beside=none")
        answered(opened)
        opened.get_by_label("A sentence").fill(text)
        opened.get_by_role("button", name="Translate").click()
        answered(opened, count=2)
        assert opened.evaluate("window.hacked") is None
        assert opened.locator("main img, main script").count() == 0
        assert "".join(opened.locator(".row.source .word").all_inner_texts())[:4] == text[:4]

    def test_too_long_a_sentence_is_refused_in_words(self, visit):
        opened = visit("#/translate-en-es?beside=none&text=" + "word+" * 390, refused=True)
        opened.get_by_role("alert").wait_for()
        assert "tokens" in opened.get_by_role("alert").inner_text()


class TestDigits:
    def draw(self, opened, strokes):
        box = opened.locator("canvas.pad").bounding_box()
        for line in strokes:
            places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in line]
            opened.mouse.move(*places[0])
            opened.mouse.down()
            for place in places[1:]:
                opened.mouse.move(*place)
            opened.mouse.up()

    def test_a_digit_is_drawn_and_looked_at(self, visit):
        opened = visit("#/ram-mnist")
        column = answered(opened)
        assert "Wrong" in column.inner_text() or "Right" in column.inner_text()
        self.draw(opened, STROKES[4])
        column = answered(opened, count=2)
        assert re.match(r"It says \d$", said(column)) and "Right" not in column.inner_text()
        assert opened.locator(".regard-view.glimpses").count() == 1
        keep(opened, "ram")
        strokes = json.loads(opened.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('strokes')"))
        assert len(strokes) == 2 and all(0 <= value <= 1 for line in strokes for point in line for value in point)
        before, link = said(column), opened.url
        again = visit(link[link.index("#") :])
        assert said(answered(again)) == before
        opened.get_by_role("button", name="Clear").click()
        assert "Wrong" in answered(opened, count=3).inner_text() or "Right" in column.inner_text()

    def test_a_digit_is_drawn_with_keys(self, visit):
        opened = visit("#/stn-cluttered")
        answered(opened)
        opened.locator("canvas.pad").focus()
        for key in ["ArrowUp"] * 8 + [" "] + ["ArrowDown"] * 16 + [" "]:
            opened.keyboard.press(key)
        answered(opened, count=2)
        assert "1 line drawn" in opened.locator("canvas.pad").get_attribute("aria-label")
        assert opened.locator(".regard-view.rectified").count() == 1
        keep(opened, "stn")

    def test_draw_imagines_another(self, visit):
        opened = visit("#/draw-mnist")
        column = answered(opened)
        column.locator(".box.write").wait_for()
        opened.get_by_role("button", name="Another").click()
        answered(opened, count=2)
        assert "seed=2" in opened.url and opened.get_by_label("Chance").input_value() == "2"
        keep(opened, "draw")


class TestOtherKinds:
    def test_a_story_is_told(self, visit):
        opened = visit("#/memn2n-babi")
        answered(opened)
        opened.locator("textarea[name=story]").fill("Mary went to the kitchen.\nJohn moved to the garden.")
        opened.locator("input[name=question]").fill("Where is Mary?")
        opened.locator("input[name=question]").press("Enter")
        column = answered(opened, count=2)
        assert column.locator(".regard-view.hops").inner_text().count("Mary went to the kitchen.") == 1
        keep(opened, "story")

    def test_a_phone_shows_the_row_of_the_last_hop(self, visit):
        story = "%0A".join(["Mary went to the kitchen."] * 30)
        opened = visit(f"#/memn2n-babi?story={story}&question=Where+is+Mary%3F", size=(390, 400))
        column = answered(opened)
        column.locator(".hops .shade").first.wait_for()
        seen = """box => [...box.querySelectorAll('tbody tr')].map(row => {
            const [own, outer] = [row.getBoundingClientRect(), box.getBoundingClientRect()];
            const share = parseFloat(row.lastChild.textContent.replace('<', ''));
            return [share, own.top >= outer.top - 1 && own.bottom <= outer.bottom + 1];
        })"""
        rows = column.locator(".hops .scrolls").evaluate(seen)
        strongest = max(share for share, _ in rows)
        assert any(inside for share, inside in rows if share == strongest)
        assert not all(inside for _, inside in rows)

    def test_an_unknown_word_is_named_and_not_obeyed(self, visit):
        opened = visit("#/memn2n-babi", refused=True)
        answered(opened)
        opened.locator("textarea[name=story]").fill("<script>window.hacked=1</script> went to the kitchen.")
        opened.get_by_role("button", name="Ask").click()
        opened.get_by_role("alert").wait_for()
        assert "script" in opened.get_by_role("alert").inner_text()
        assert opened.evaluate("window.hacked") is None and opened.locator("main script").count() == 0

    def test_a_tape_is_as_long_as_one_chooses(self, visit):
        opened = visit("#/ntm-copy")
        answered(opened)
        opened.get_by_label("Vectors on the tape").fill("7")
        column = answered(opened, count=2)
        assert "15 steps; 56 bits" in column.inner_text()
        assert "length=7" in opened.url
        panels = column.locator(".tracks")
        panels.first.wait_for()
        assert [text.split()[0] for text in panels.locator("h3").all_inner_texts()] == [
            *("INPUT", "OUTPUT", *(["WRONG"] if "wrong" in column.inner_text().lower() else [])),
            *("ADDS", "READS", "WRITE", "READ"),
        ]
        for box, view in panels.locator(".tape").evaluate_all(
            "all => all.map(each => [each.getBoundingClientRect().toJSON(), each.viewBox.baseVal.width + ' ' + "
            "each.viewBox.baseVal.height])"
        ):
            columns, rows = map(float, view.split())
            assert box["width"] / columns == pytest.approx(box["height"] / rows, rel=0.02)  # square cells
        assert "step" in panels.last.locator(".ticks").text_content() and column.locator(".legends .scale").count() == 2
        keep(opened, "tape")

    def test_a_number_out_of_bounds_is_not_sent(self, visit):
        opened = visit("#/ntm-copy?length=3")
        answered(opened)
        opened.get_by_label("Vectors on the tape").fill("999")
        opened.wait_for_timeout(700)
        assert "length=3" in opened.url and answered(opened).get_attribute("data-answers") == "1"

    def test_a_string_is_counted(self, visit):
        opened = visit("#/stack-anbn?text=aabb&n=3")
        assert "It expected" in said(answered(opened))
        opened.locator(".regard-view.stack .picture").wait_for()
        assert opened.locator(".regard-view.stack").bounding_box()["height"] > 100
        keep(opened, "stack")

    def test_a_game_is_watched(self, visit):
        opened = visit("#/ram-catch")
        assert said(answered(opened)) in ("Caught", "Missed")
        opened.get_by_role("button", name="Next game").click()
        answered(opened, count=2)
        assert "game=1" in opened.url

    def test_one_walks_through_a_graph(self, visit):
        opened = visit("#/gat-sbm?node=7")
        assert said(answered(opened)).startswith("Node 7: ")
        step = opened.locator(".answer .examples button").first
        name = step.inner_text()
        step.click()
        assert said(answered(opened, count=2)).startswith(f"Node {name}: ")
        assert f"node={name}" in opened.url
        keep(opened, "graph")

    def sent(self, opened, act):
        """The wave that the page sends after ``act``."""
        with opened.expect_request(lambda request: request.method == "POST") as waiting:
            act()
        return sound.read(base64.b64decode(waiting.value.post_data_json["sound"]))

    def test_a_recording_is_chosen(self, visit, tmp_path):
        tone = (0.5 * np.sin(2 * np.pi * 400 * np.arange(24_000) / 48_000)).astype(np.float32)
        path = tmp_path / "stereo.wav"
        soundfile.write(path, np.stack([tone, tone], 1), 48_000)
        opened = visit("#/speech-digits")
        answered(opened)
        wave = self.sent(opened, lambda: opened.locator('[data-field="sound"] input').set_input_files(path))
        column = answered(opened, count=2)
        expected = 0.5 * np.sin(2 * np.pi * 400 * np.arange(len(wave)) / 8000)
        assert len(wave) == pytest.approx(4000, abs=2)
        assert np.abs(wave - expected)[200:-200].max() < 0.03  # 8 bits of the µ-law, and the browser's filter
        assert column.locator(".regard-view.spectrogram").count() == 1
        assert "0.5 seconds" in opened.locator('[data-field="sound"]').inner_text()
        keep(opened, "speech")
        opened.get_by_role("button", name="Remove").click()
        answered(opened, count=3)

    def test_a_recording_is_made_with_the_microphone(self, visit):
        opened = visit("#/speech-digits")
        answered(opened)
        opened.context.grant_permissions(["microphone"])
        opened.get_by_role("button", name="Record", exact=True).click()
        stop = opened.get_by_role("button", name="Stop")
        stop.wait_for()
        opened.wait_for_timeout(1500)
        wave = self.sent(opened, stop.click)
        assert 0.5 < len(wave) / 8000 < 5
        answered(opened, count=2)

    def test_what_is_no_recording_is_told(self, visit, tmp_path):
        path = tmp_path / "text.wav"
        path.write_text("hello")
        opened = visit("#/speech-digits")
        answered(opened)
        opened.locator('[data-field="sound"] input').set_input_files(path)
        opened.get_by_text("text.wav is not sound that can be read here.").wait_for()

    def test_a_lesson_leads_to_its_script(self, visit):
        opened = visit("#/complexity", refused=True)
        answered(opened)
        opened.get_by_role("link", name="examples/complexity.py").click()
        assert "def " in opened.locator("body").inner_text()

    def test_a_model_that_is_not_there(self, visit):
        opened = visit("#/translate-en-ess")
        told = opened.get_by_role("alert").inner_text()
        assert "translate-en-ess" in told and "translate-en-es-rnn" in told


def weights(opened, score):
    """The weights that the page shows for a score, to two digits."""
    told = opened.locator(f'[data-score="{score}"] .stack').get_attribute("aria-label")
    return [float(share) for share in re.findall(r"station \d+ ([\d.]+)", told)]


def score_of(name, setting):
    """A score by name, with its setting if it has one."""
    known = {"cosine": scores.Cosine, "inverse_distance": scores.InverseDistance, "gaussian": scores.Gaussian}
    return known[name](float(setting)) if name in known else name


def stations(opened):
    """Of the address, once it has stayed the same for longer than the page waits before it writes."""
    before, now, turns = None, "", 0
    while now != before or "query=" not in now:
        opened.wait_for_timeout(600)
        before, now, turns = now, opened.evaluate("decodeURIComponent(location.hash)"), turns + 1
        assert turns < 50, f"the address stays {now!r}"
    found = dict(re.findall(r"(\w+)=([^&]*)", now))
    return {name: torch.tensor(json.loads(found[name]), dtype=torch.float64) for name in ("query", "keys", "values")}


SETTINGS = {"cosine": "gain", "inverse_distance": "scale", "gaussian": "width"}


class TestPlayground:
    def library(self, opened, score, found=None):
        found = found or stations(opened)
        (value,) = re.findall(rf"[&?]{SETTINGS[score]}=([\d.]+)", opened.url) if score in SETTINGS else (None,)
        part = score_of(score, value)
        out = regard.attend(found["query"][None], found["keys"], found["values"], score=part)
        return out.weights[0].tolist(), out.context[0].tolist()

    def test_it_begins_with_stations_on_which_the_scores_differ(self, visit):
        opened = visit("#/playground")
        opened.locator("[data-score]").first.wait_for()
        found = [weights(opened, score) for score in ("dot", "cosine", "inverse_distance", "gaussian")]
        for i, one in enumerate(found):
            assert max(one) > 1.5 / len(one)
            assert all(max(abs(a - b) for a, b in zip(one, other)) > 0.1 for other in found[:i])
        assert "°C" in opened.locator(".map .label").first.text_content()
        keep(opened, "playground")

    def test_the_lecture_is_a_button(self, visit):
        opened = visit("#/playground")
        opened.get_by_role("button", name="The lecture's stations").click()
        opened.get_by_text("At the cross: 31.0 °C, 48.0 %").wait_for()
        assert weights(opened, "inverse_distance") == pytest.approx([0.53, 0.35, 0.071, 0.026, 0.013, 0.005], abs=0.006)

    def test_weights_are_those_of_the_library(self, visit):
        opened = visit("#/playground")
        opened.get_by_role("button", name="Vectors", exact=True).click()
        opened.locator('[data-score="dot"].chosen').wait_for()
        found = stations(opened)
        for score in ("dot", "scaled_dot", "cosine", "inverse_distance", "gaussian"):
            expected, context = self.library(opened, score, found)
            assert weights(opened, score) == pytest.approx(expected, abs=0.0051), score
            shown = opened.locator(f'[data-score="{score}"] .context').inner_text().replace("−", "-")
            assert [float(value) for value in shown.split(", ")] == pytest.approx(context, abs=0.051), score
        opened.locator('[data-score="cosine"]').click()  # and the map follows the one that is chosen
        told = opened.locator(".map .share").all_text_contents()
        assert [float(share.removeprefix("α = ")) for share in told] == weights(opened, "cosine")

    @pytest.mark.parametrize(("score", "name", "value"), [("gaussian", "width", 0.3), ("dot", "temperature", 0.2)])
    def test_a_setting_changes_the_weights_and_only_those_of_the_score_are_shown(self, visit, score, name, value):
        opened = visit("#/playground")
        opened.locator(f'[data-score="{score}"]').click()
        shown = opened.locator(".settings .field:visible").evaluate_all("all => all.map(each => each.dataset.field)")
        assert set(shown) == {"normalizer", "temperature", *([SETTINGS[score]] if score in SETTINGS else [])}
        before = max(weights(opened, score))
        opened.locator(f".settings [name={name}]").fill(str(value))
        found = stations(opened)
        part = regard.scores.Gaussian(value) if score == "gaussian" else regard.scores.Dot()
        softmax = regard.normalizers.Softmax(value if name == "temperature" else 1.0)
        out = regard.attend(found["query"][None], found["keys"], found["values"], score=part, normalizer=softmax)
        assert weights(opened, score) == pytest.approx(out.weights[0].tolist(), abs=0.0051)
        assert max(weights(opened, score)) > before + 0.1
        again = visit(opened.url[opened.url.index("#") :])
        again.locator("[data-score]").first.wait_for()
        assert again.locator(f".settings [name={name}]").input_value() == str(value)

    def test_normalizers(self, visit):
        opened = visit("#/playground")
        opened.locator("[data-score]").first.wait_for()
        choice = opened.get_by_label("Normalizer")
        choice.select_option("hard")
        opened.get_by_text("Only the best key counts").wait_for()
        assert sorted(weights(opened, "inverse_distance")) == [0, 0, 0, 0, 0, 1]
        assert not opened.get_by_label("Temperature τ").is_visible()
        choice.select_option("sparsemax")
        opened.get_by_text("get exactly 0").wait_for()
        assert 0 < weights(opened, "dot").count(0) < 5
        choice.select_option("sigmoid")
        opened.get_by_text("the weights sum to").wait_for()

    def test_nothing_is_cut_on_a_phone(self, visit):
        opened = visit("#/playground", size=(390, 800))
        opened.locator("[data-score]").first.wait_for()
        assert opened.locator(".numbers .scroll").evaluate("node => node.scrollWidth <= node.clientWidth")
        cut = """all => all.filter(each => {
            const [own, map] = [each.getBoundingClientRect(), each.closest('.map').getBoundingClientRect()];
            return own.left < map.left || own.right > map.right || own.top < map.top || own.bottom > map.bottom;
        }).length"""
        assert opened.locator(".map .label").evaluate_all(cut) == 0

    def test_a_station_is_dragged(self, visit):
        opened = visit("#/playground")
        opened.locator("[data-score]").first.wait_for()
        before = weights(opened, "inverse_distance")
        disc = opened.locator('[data-mark="5"] .dot').bounding_box()
        cross = opened.locator('[data-mark="query"] .cross').bounding_box()
        opened.mouse.move(disc["x"] + 3, disc["y"] + 3)
        opened.mouse.down()
        for part in (0.5, 0.9):
            opened.mouse.move(disc["x"] + (cross["x"] - disc["x"]) * part, disc["y"] + (cross["y"] - disc["y"]) * part)
        opened.mouse.up()
        expected, _ = self.library(opened, "inverse_distance")
        after = weights(opened, "inverse_distance")
        assert after == pytest.approx(expected, abs=0.0051) and after[5] > before[5] + 0.3

    def test_keys_move_the_query(self, visit):
        opened = visit("#/playground")
        opened.locator("[data-score]").first.wait_for()
        opened.locator('[data-mark="query"]').focus()
        for _ in range(4):
            opened.keyboard.press("ArrowRight")
        expected, _ = self.library(opened, "inverse_distance")
        assert weights(opened, "inverse_distance") == pytest.approx(expected, abs=0.0051)
        x, y = stations(opened)["query"].tolist()
        assert x > 1.02 and y == 0.8
        assert opened.evaluate("document.activeElement.dataset.mark") == "query"

    def test_numbers_are_typed_and_vectors_may_be_wider(self, visit):
        opened = visit("#/playground")
        opened.locator("[data-score]").first.wait_for()
        opened.get_by_label("Numbers in a vector").fill("3")
        opened.get_by_label("Numbers in a vector").press("Tab")
        opened.get_by_label("query, k3").fill("2")
        opened.get_by_label("station 1, k3").fill("1.5")
        expected, _ = self.library(opened, "dot")
        assert weights(opened, "dot") == pytest.approx(expected, abs=0.0051) and expected[0] > 0.7
        assert opened.locator(".map").is_hidden()

    def test_stations_come_and_go_and_a_link_keeps_them(self, visit):
        opened = visit("#/playground")
        opened.get_by_role("button", name="Add a station").click()
        opened.get_by_role("button", name="Remove station 1").click()
        expected, _ = self.library(opened, "inverse_distance")
        assert len(expected) == 6
        again = visit(opened.url[opened.url.index("#") :])
        again.locator("[data-score]").first.wait_for()
        assert weights(again, "inverse_distance") == pytest.approx(expected, abs=0.0051)

    @pytest.mark.parametrize(
        "link", ["keys=[[1]]&query=[0,0]&values=[[1]]", "query=x", "query=[1e999,0]&keys=1", "score=no"]
    )
    def test_a_broken_link_opens_the_stations(self, visit, link):
        opened = visit(f"#/playground?{link}")
        opened.locator("[data-score]").first.wait_for()
        assert opened.locator(".map .disc").count() == 6


class TestLessons:
    def test_the_worked_numbers_follow_the_vectors(self, visit):
        opened = visit("#/worked-numbers")
        assert said(answered(opened)) == "112 and 96 → 0.88 and 0.12"
        opened.get_by_label("Keys, row 2, number 1").fill("8")
        assert said(answered(opened, count=2)) == "112 and 112 → 0.50 and 0.50"

    def test_arrow_keys_turn_the_pages_of_the_lecture(self, visit):
        opened = visit("?lecture#/playground")
        opened.locator(".turn").wait_for()
        opened.keyboard.press("ArrowRight")
        opened.wait_for_selector('#main[data-page="worked-numbers"]')
        assert opened.url.endswith("?lecture#/worked-numbers")
        answered(opened)
        picture, form = (opened.locator(each).first.bounding_box()["y"] for each in (".answer", "form"))
        assert picture < form  # what is shown comes first
        opened.get_by_label("Words").press("ArrowRight")  # belongs to the field
        opened.get_by_role("button", name="Next").click()
        opened.wait_for_selector('#main[data-page="eight-scores"]')

    def test_the_head_of_the_alignment_is_said_and_can_be_changed(self, visit):
        opened = visit("#/translate-en-es?text=The+red+house.&beside=none")
        column = answered(opened)
        assert "cross-attention of layer 3, the mean of its heads" in column.inner_text()
        opened.get_by_label("Alignment by").select_option("1.2")
        column = answered(opened, count=2)
        assert "cross-attention of layer 1, head 2" in column.inner_text() and "aligned_by=1.2" in opened.url
        opened.get_by_label("Alignment by").select_option(index=0)
        assert "layer 3" in answered(opened, count=3).inner_text()

    def test_it_is_chosen_in_the_sentence_of_the_animal(self, visit):
        opened = visit("#/translate-en-es?beside=none")
        answered(opened)
        opened.get_by_role("button", name="The animal didn't cross the street").click()
        column = answered(opened, count=2)
        chosen = column.locator('.heads [aria-selected="true"]')
        chosen.first.wait_for()
        assert chosen.all_inner_texts() == ["it"]

    def test_the_heads_of_a_transformer(self, visit):
        opened = visit("#/translate-en-es?text=It+was+tired.&beside=none")
        answered(opened)
        opened.get_by_role("button", name="Show all layers and heads").click()
        column = answered(opened, count=2)
        titles = column.locator(".shown > h3").all_inner_texts()
        assert titles[1:] == ["Encoder self-attention", "Decoder self-attention", "Cross-attention"]


class TestPrinciple:
    def test_the_table_is_what_the_systems_declare(self, visit):
        opened = visit("#/principle")
        shown = opened.locator("tbody[data-system]").evaluate_all("all => all.map(each => each.dataset.system)")
        assert set(shown) == set(registry.systems())
        rows = opened.locator("tbody .where").count()
        assert rows == sum(len(registry.system(name).uses) for name in set(shown))
        parts = opened.locator("tbody.part").all_inner_texts()
        assert [part.strip().lower() for part in parts] == [part.lower() for part in PARTS[2:]]
        keep(opened, "principle")

    def test_it_is_filtered(self, visit):
        opened = visit("#/principle")
        opened.get_by_label("Filter").fill("cosine memory")
        assert opened.locator("tbody:visible .name").all_inner_texts() == ["NTM"]

    def test_a_row_leads_to_its_model_and_its_file(self, visit):
        opened = visit("#/principle", refused=True)  # of a text, the browser asks for an icon
        row = opened.locator('tbody[data-system="ram"]').first
        assert (
            row.get_by_role("link", name="arXiv:1406.6247").get_attribute("href") == "https://arxiv.org/abs/1406.6247"
        )
        row.get_by_role("link", name="ram-mnist").click()
        answered(opened, "ram-mnist")
        opened.go_back()
        row.get_by_role("link", name="regard/systems/ram.py").click()
        assert "class RAM" in opened.locator("body").inner_text()


LESSONS = [f"#/{lesson.name}" for lesson in lessons.every()]
PAGES = [*LESSONS, "", "#/translate-en-es", "#/ram-mnist", "#/memn2n-babi", "#/gat-sbm", "#/principle", "#/playground"]


def settle(opened, link):
    if link in ("", "#/principle"):
        return
    if link == "#/playground":
        opened.locator("[data-score]").first.wait_for()
    else:
        answered(opened)
        opened.locator(".regard-view .picture").first.wait_for()
    opened.wait_for_timeout(250)  # the transition of the colours


@pytest.mark.parametrize("link", PAGES)
def test_it_fits_a_phone(visit, link):
    opened = visit(link, size=(390, 800))
    settle(opened, link)
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    keep(opened, f"phone-{link[2:] or 'home'}")


@pytest.mark.parametrize("link", PAGES)
def test_axe_finds_nothing_serious(visit, link):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    opened = visit(link)
    settle(opened, link)
    for other in ("Dark colours", "Light colours"):
        found = axe.Axe().run(opened).response["violations"]
        grave = [(v["id"], v["nodes"][0]["html"][:160]) for v in found if v["impact"] in ("serious", "critical")]
        assert not grave
        opened.get_by_role("button", name=other).click()
        opened.wait_for_timeout(250)  # the transition of the colours


@pytest.fixture(scope="module")
def shipped():
    """A server of every model that comes with the package."""
    with serving(list(registry.shipped())) as found:
        yield found


@pytest.mark.parametrize("name", registry.shipped())
def test_every_shipped_model_is_explored_on_a_phone(browser, shipped, name):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    with visiting(browser, shipped) as visit:
        opened = visit(f"#/{name}?beside=none", size=(390, 800), dark=True)
        column = answered(opened)
        column.locator(".regard-view .picture").first.wait_for()
        assert opened.evaluate("document.documentElement.scrollWidth") <= 390
        assert min(each.bounding_box()["height"] for each in column.locator(".regard-view").all()) > 120
        opened.wait_for_timeout(250)
        found = axe.Axe().run(opened).response["violations"]
        assert not [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")]


def test_dark_is_chosen_and_remembered(visit):
    opened = visit()
    opened.get_by_role("button", name="Dark colours").click()
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 24)"
    opened.reload()
    opened.get_by_role("button", name="Light colours").wait_for()


def test_the_keyboard_reaches_the_content_first(visit):
    opened = visit("#/principle")
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.className") == "skip"
    opened.keyboard.press("Enter")
    assert opened.evaluate("document.activeElement.id") == "main" and opened.url.endswith("#/principle")
