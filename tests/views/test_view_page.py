"""The page as text: what it carries and what it forbids. What it does is in test_view_browser.py."""

import base64
import hashlib
import json
import re
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from regard.views import alignment, page
from regard.views.page import Quantized, View


def view(weights=((0.75, 0.25),), rows=("a",), columns=("b", "c"), **options):
    return alignment.view(np.array(weights), list(rows), list(columns), **options)


def content(text):
    return json.loads(re.search(r'<script type="application/json" id="regard-data">(.*?)</script>', text, re.DOTALL)[1])


def unpacked(packed):
    about = packed["$array"]
    data = base64.b64decode(about["data"])
    data = zlib.decompress(data) if about.get("deflate") else data
    return np.frombuffer(data, about["type"]).reshape(about["shape"]) * about.get("scale", 1)


@settings(deadline=None, max_examples=50)
@given(arrays(np.float32, array_shapes(min_dims=2, max_dims=4), elements=st.floats(0, 1, width=32)), st.booleans())
def test_weights_are_kept_to_one_part_in_255(weights, compress):
    rows, columns = ([str(i) for i in range(size)] for size in weights.shape[-2:])
    text = page.page([alignment.view(weights, rows, columns)], compress=compress)
    kept = unpacked(content(text)["views"][0]["data"]["readings"][0]["weights"])
    assert kept.shape == weights.shape
    assert np.abs(kept - weights).max(initial=0) <= 1 / 255


def test_small_weights_are_kept_as_well():
    weights = np.random.default_rng(0).dirichlet(np.ones(500), size=3)
    text = page.page([alignment.view(weights)])
    kept = unpacked(content(text)["views"][0]["data"]["readings"][0]["weights"])
    assert np.abs(kept - weights).max() <= weights.max() / 500


def test_arrays_are_compressed_where_that_helps():
    sparse = content(page.page([alignment.view(np.eye(200))]))["views"][0]["data"]["readings"][0]["weights"]
    assert sparse["$array"]["deflate"] and len(sparse["$array"]["data"]) < 4000
    tiny = content(page.page([view()]))["views"][0]["data"]["readings"][0]["weights"]
    assert "deflate" not in tiny["$array"]


def test_exact_arrays_for_other_kinds():
    numbers = np.arange(6, dtype=np.int32).reshape(2, 3)
    packed = content(page.page([View("alignment", "t", {"a": [numbers], "b": np.float32(0.5), "c": float("nan")})]))
    data = packed["views"][0]["data"]
    assert (unpacked(data["a"][0]) == numbers).all()
    assert (data["b"], data["c"]) == (0.5, None)
    with pytest.raises(ValueError, match="not float64"):
        page.page([View("alignment", "t", {"a": np.zeros(2)})])


@pytest.mark.parametrize(
    ("weights", "message"),
    [([[0.5, np.nan]], r"nan at \(0, 1\)"), ([[np.inf, 0.5]], r"inf at \(0, 0\)"), ([[0.5, -0.5]], "not negative")],
)
def test_what_has_no_colour_is_named(weights, message):
    with pytest.raises(ValueError, match=message):
        page.page([view(weights)])


def test_rounding_below_zero_is_no_error():
    numbers, scale = page.quantize(np.array([[-1e-9, 1.0]]))
    assert numbers.tolist() == [[0, 255]] and scale == pytest.approx(1 / 255)


def test_the_policy_allows_the_pages_own_code_and_nothing_else():
    text = page.page([view()])
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy and "http" not in policy
    for tag in ("script", "style"):
        (code,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_nothing_from_elsewhere():
    text = page.page([view()])
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)""", text)
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(|innerHTML|\beval\b|\bfetch\b", text)


@pytest.mark.parametrize(
    "hostile", ["</script><script>alert(1)</script>", "<!--", "<img src=x onerror=alert(1)>", "{{data}}"]
)
def test_text_cannot_become_markup(hostile):
    text = page.page([view(rows=[hostile], columns=[hostile, "&"], title=hostile)], title=hostile)
    body = content(text)
    assert body["title"] == hostile == body["views"][0]["title"] == body["views"][0]["data"]["columns"][0]
    assert text.count("<script") == 2
    assert "<img" not in text and "<!--" not in text


def test_lone_surrogates_can_be_written(tmp_path):
    size = page.write(tmp_path / "a.html", [view(rows=["\ud800"])], title="\udc00")
    assert size == (tmp_path / "a.html").stat().st_size


def test_write_says_the_size_and_so_does_the_page(tmp_path):
    size = page.write(tmp_path / "a.html", [view()], "Coffee")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert size == (tmp_path / "a.html").stat().st_size < 100_000
    assert abs(int(re.search(r'data-size="(\d+)"', text)[1]) - size) < 10
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_a_failed_write_keeps_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "a.html"
    page.write(path, [view()])
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard._files.os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        page.write(path, [view(title="other")])
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.html"]


def test_a_folder_that_is_not_there_is_told_by_the_name_that_was_asked_for(tmp_path):
    path = tmp_path / "nowhere" / "a.html"
    with pytest.raises(FileNotFoundError) as told:
        page.write(path, [view()])
    assert told.value.filename == str(path)


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match="'alignmnet': did you mean 'alignment'"):
        page.page([View("alignmnet", "", {})])
    with pytest.raises(ValueError, match="at least one view"):
        page.page([])


class TestBundle:
    @pytest.fixture
    def viewer(self, tmp_path, monkeypatch):
        """A viewer of other modules."""
        monkeypatch.setattr(page, "VIEWER", tmp_path)
        page.bundle.cache_clear()
        yield lambda **files: [(tmp_path / f"{name}.js").write_text(text) for name, text in files.items()]
        page.bundle.cache_clear()

    def test_modules_come_before_those_that_import_them_and_once(self, viewer):
        viewer(
            shell='import { a } from "./one.js";\nimport { b } from "./two.js";\nexport function start() {}\n',
            one='import { b } from "./two.js";\nexport const a = b;\n',
            two="export const b = 1;\nexport class C {}\nexport async function d() {}\n",
        )
        text = page.bundle(())
        assert re.findall(r"^const (\$\w+) = ", text, re.MULTILINE) == ["$two", "$one", "$shell"]
        assert "return { b, C, d };" in text
        assert not re.search(r"^(import|export)", text, re.MULTILINE)

    @pytest.mark.parametrize("line", ["export default 1;", 'import x from "./y.js";', "export { a };"])
    def test_other_forms_are_refused(self, viewer, line):
        viewer(shell=line)
        with pytest.raises(ValueError, match="not understood"):
            page.bundle(())

    def test_a_circle_is_refused(self, viewer):
        viewer(shell='import { a } from "./one.js";\n', one='import { b } from "./shell.js";\n')
        with pytest.raises(ValueError, match=r"shell\.js → one\.js → shell\.js"):
            page.bundle(())

    def test_a_page_holds_only_the_kinds_it_needs(self, viewer, tmp_path):
        (tmp_path / "kinds").mkdir()
        viewer(shell="export function start() {}\n")
        for kind in ("graph", "trace"):
            (tmp_path / "kinds" / f"{kind}.js").write_text(f"const {kind}Here = 1;\n")
        assert page.kinds() == ["graph", "trace"]
        assert "graphHere" in page.bundle(("graph",)) and "traceHere" not in page.bundle(("graph",))


def test_quantized_is_told_from_exact():
    packed = content(page.page([View("alignment", "", {"a": Quantized(np.array([[0.5]]))})]))["views"][0]["data"]["a"]
    assert packed["$array"]["type"] == "uint8" and "scale" in packed["$array"]
