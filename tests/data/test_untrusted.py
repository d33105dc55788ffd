"""Data files from strangers: whatever is in one, it is read or refused by name, in little time and memory."""

import gzip
import io
import json
import os
import random
import struct
import time
import tracemalloc
import unicodedata
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from regard.data import corpora, graph_files, graph_tables, lines, planetoid, squad, untrusted
from regard.data import ppi as ppi_files
from regard.data import text as texts
from regard.data.images import read_idx, read_idx_folder, read_image, read_image_folder, read_npz
from regard.data.lines import BadLines
from regard.data.text import JsonLines, Parallel


@contextmanager
def modest(memory=6 << 20, seconds=10):
    """What happens here takes little of either."""
    began = time.process_time()
    tracemalloc.start()
    try:
        yield
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < memory and time.process_time() - began < seconds


@pytest.fixture
def small(monkeypatch):
    """Compressed files may hold a megabyte."""
    monkeypatch.setattr(untrusted, "ALWAYS", 1 << 20)


def zipped(path, files, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


# ---------------------------------------------------------------------------------------------------------------------
# What all readers stand on

READERS = {
    "planetoid": ("ind.a.graph", lambda path: planetoid._unpickle(path)),
    "test.index": ("ind.a.test.index", lambda path: planetoid._numbers(path)),
    "ppi": ("a-G.json", lambda path: graph_files.read(path.parent)),
    "csv": ("edges.csv", lambda path: graph_files.read(path.parent)),
    "idx": ("a-idx3-ubyte", lambda path: read_idx(path, 2051)),
    "idx.gz": ("a-idx3-ubyte.gz", lambda path: read_idx(path, 2051)),
    "npz": ("a.npz", read_npz),
    "image": ("a.png", lambda path: read_image(path, 4, 4, 1)),
    "squad": ("a.json", squad.read),
    "squad.zip": ("a.json.zip", squad.read),
    "text": ("a.tsv", lambda path: next(texts.Tabs((path,)).chunks(BadLines()))),
    "text.gz": ("a.tsv.gz", lambda path: next(texts.Tabs((path,)).chunks(BadLines()))),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_only_files_are_read(tmp_path, reader, kind):
    name, read = READERS[reader]
    path = tmp_path / name
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=f"{name}: not a file"):
        read(path)


def test_a_corpus_is_no_device(tmp_path):
    os.mkfifo(tmp_path / "train.tsv")
    with pytest.raises(ValueError, match=r"train\.tsv: there is no such file"):
        corpora.find(tmp_path / "train.tsv", "en", "de")
    with pytest.raises(ValueError, match="no text to train on"):
        corpora.find(tmp_path, "en", "de")


def test_what_is_compressed_is_bounded(tmp_path, small):
    path = tmp_path / "a-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(bytes(8 << 20)))
    with modest(), pytest.raises(ValueError, match=r"a-idx3-ubyte\.gz: it unpacks to more than 1 MB"):
        read_idx(path, 2051)
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b"[" * (8 << 20)))
    with modest(), pytest.raises(ValueError, match=r"a\.json\.gz: it unpacks to more than 1 MB"):
        squad.read(path)
    path = zipped(tmp_path / "a.json.zip", {"a.json": b" " * (8 << 20)})
    with modest(), pytest.raises(ValueError, match=r"a\.json\.zip: .*it unpacks to more than 1 MB"):
        squad.read(path)
    path = zipped(tmp_path / "a.npz", {"X_train.npy": bytes(600_000), "X_test.npy": bytes(600_000)})
    with modest(), pytest.raises(ValueError, match=r"a\.npz: .*it unpacks to more than 1 MB"):
        read_npz(path)


def test_a_file_may_hold_many_times_its_size(tmp_path, small):
    data = random.Random(0).randbytes(100_000) * 30  # three megabytes, which become a tenth of one
    (tmp_path / "a.gz").write_bytes(gzip.compress(data))
    zipped(tmp_path / "a.zip", {"a": data})
    assert untrusted.read(tmp_path / "a.gz") == untrusted.unzip(tmp_path / "a.zip", "a".__eq__)["a"] == data


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_that_cannot_be_bounded(tmp_path, method):
    zipped(tmp_path / "a.json.zip", {"a.json": bytes(8 << 20)}, method)
    with modest(), pytest.raises(ValueError, match=r"a\.json\.zip: .*another method than deflate"):
        squad.read(tmp_path / "a.json.zip")


def test_archives_that_lie_about_their_size(tmp_path):
    path = zipped(tmp_path / "a.json.zip", {"a.json": bytes(40 << 20)})
    whole = path.read_bytes()
    path.write_bytes(whole.replace(struct.pack("<I", 40 << 20), struct.pack("<I", 10)))
    with modest(), pytest.raises(ValueError, match=r"a\.json\.zip: not a whole archive"):
        squad.read(path)
    path.write_bytes(whole.replace(struct.pack("<I", 40 << 20), struct.pack("<I", 41 << 20)))
    with pytest.raises(ValueError, match=r"a\.json\.zip: not a whole archive"):
        squad.read(path)


HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"


def with_header(text, data=bytes(48), version=b"\1\0"):
    length = len(text).to_bytes(2 if version[:1] == b"\1" else 4, "little")
    return b"\x93NUMPY" + version + length + text.encode("latin1") + data


@pytest.mark.parametrize("dtype", ["f8", ">f4", "<f2", "i8", ">i2", "u1", "u4", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_as_numpy_writes_them(dtype, order):
    array = np.asarray(np.arange(24).reshape(2, 3, 4) % 5, dtype=dtype, order=order)
    for part in (array, array[:, 0], array[:0], array[0, 0, 0]):
        found = untrusted.npy(npy(part), "a.npy")
        assert np.array_equal(found, part) and found.dtype.isnative and found.flags.writeable
    assert untrusted.npy(with_header(HEADER, version=b"\2\0"), "a.npy").shape == (2, 3)
    assert untrusted.npy(with_header(HEADER.replace("3", "3L")), "a.npy").shape == (2, 3)  # Python 2 on Windows


@pytest.mark.parametrize(
    "data",
    [
        npy(np.array([{}], dtype=object)),
        npy(np.array(["text"])),
        npy(np.zeros(2, [("a", "i4")])),
        npy(np.zeros(2, "c16")),
        npy(np.zeros(2, "M8[s]")),
        npy(np.zeros(6))[:-1],
        npy(np.zeros(6)) + b"x",
        with_header(HEADER.replace("2, 3", "1000000000, 1000000000")),
        with_header(HEADER.replace("2, 3", "-2, -3")),
        with_header(HEADER.replace("2, 3", "6, " + "1, " * 30)),
        with_header(HEADER.replace("2, 3", "0, 99999999999"), b""),
        with_header(HEADER.replace("2, 3", "9" * 5000)),
        with_header(HEADER.replace("(2, 3)", "[2, 3]")),
        with_header(HEADER.replace("'<f8'", "__import__('os').system('touch MARK')")),
        with_header(HEADER.replace("<f8", "|O")),
        with_header("(" * 60_000, version=b"\2\0"),
        with_header("{'descr': '<f8'}"),
        b"\x93NUMPY\1\0\xff\xff",
        b"",
    ],
)
def test_arrays_that_are_not_what_they_say(tmp_path, data):
    with modest(1 << 20), pytest.raises(ValueError, match=r"^a\.npy: "):
        untrusted.npy(data, "a.npy")


@pytest.mark.parametrize("data", [b"[" * 100_000, b"9" * 5000, b"\xff", b"{", b""])
def test_json_that_is_none(data):
    with pytest.raises(ValueError, match=r"^a\.json: not JSON"):
        untrusted.parse_json(data, "a.json")


# ---------------------------------------------------------------------------------------------------------------------
# Images


def arrays(**changes):
    made = {f"X_{split}": np.zeros((3, 4)) for split in ("train", "valid", "test")}
    return {**made, **{f"y_{split}": np.arange(3) for split in ("train", "valid", "test")}, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": np.array([0, 1, 10**12])}, r"y_train has the class 1000000000000; classes are"),
        ({"y_train": np.array([0, 1, np.nan])}, r"y_train has the class nan"),
        ({"y_train": np.array([0, 1, 0.5])}, r"y_train has the class 0\.5"),
        ({"y_train": np.array([0, 1, -1])}, r"y_train has the class -1"),
        ({"y_train": np.array(1)}, r"1 labels for 3 images"),
        ({"X_train": np.array(1.0)}, r"X_train is \(\)"),
        ({"X_train": np.zeros((0, 4))}, r"X_train is \(0, 4\)"),
        ({"X_train": np.zeros((3, 0))}, r"X_train is \(3, 0\)"),
        ({"X_train": np.full((3, 4), 1e300)}, r"image 0 of X_train has a pixel inf"),
        ({"X_train": np.array([[{}] * 4] * 3, dtype=object)}, r"X_train\.npy: not the header of an array of numbers"),
    ],
)
def test_an_npz_that_cannot_be(tmp_path, changes, message):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays())
    assert len(read_npz(path)["train"]) == 3
    np.savez(path, **arrays(**changes))
    with pytest.raises(ValueError, match=rf"a\.npz.*{message}"):
        read_npz(path)


def test_idx_files_without_anything(tmp_path):
    path = tmp_path / "a-idx3-ubyte"
    path.write_bytes(struct.pack(">4I", 2051, 0, 2**31, 2**31))
    with pytest.raises(ValueError, match="there is nothing in it"):
        read_idx(path, 2051)
    path.write_bytes(struct.pack(">4I", 2051, 2**32 - 1, 2**32 - 1, 2**32 - 1) + bytes(99))
    with modest(), pytest.raises(ValueError, match=r"promises 4294967295 × 4294967295 × 4294967295 bytes, but 99"):
        read_idx(path, 2051)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"P6 8200 8200 255\n", r"8,200 × 8,200 pixels; images of more than 67,108,864 are not read"),
        (b"P6 20000 20000 255\n", r"could be decompression bomb"),
        (b"P6 30 30 255\nshort", r"not a whole image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", r"cannot identify image file"),
    ],
)
def test_images_that_are_refused(tmp_path, data, message):
    path = tmp_path / "a.png"
    path.write_bytes(data)
    with modest(), pytest.raises(ValueError, match=rf"a\.png: .*{message}"):
        read_image(path, 8, 8, 3)


# ---------------------------------------------------------------------------------------------------------------------
# Questions


def question(text="a", start=0, **more):
    return {"question": "a?", "answers": [{"text": text, "answer_start": start}], **more}


def write_squad(path, context, questions, title="t"):
    paragraphs = [{"context": context, "qas": questions}]
    path.write_text(json.dumps({"data": [{"title": title, "paragraphs": paragraphs}]}))
    return path


def test_a_long_title_is_not_kept_for_every_question(tmp_path):
    path = write_squad(tmp_path / "a.json", "a b", [question(id="i" * 1000)] * 2000, title="t" * 100_000)
    with modest(30 << 20):
        ((one, *_),) = squad.read(path)
    assert len(one.place) < 400


def test_a_long_text_with_many_questions(tmp_path):
    words = "a " * 10_000
    path = write_squad(tmp_path / "a.json", words, [question(start=2 * place) for place in range(1000)])
    with modest():
        (found,) = squad.read(path)
    assert [one.span for one in found] == [(place, place) for place in range(1000)]
    path = write_squad(tmp_path / "a.json", "one two  three", [question("wo  th", 5), question("two", 4)])
    assert [one.span for one in squad.read(path)[0]] == [(1, 2), (1, 1)]


@pytest.mark.parametrize("start", [-1, 10**30, True, "0", 0.0, None, [[]], {}])
def test_where_an_answer_cannot_begin(tmp_path, start):
    path = write_squad(tmp_path / "a.json", "a b", [question(start=start, id=[[]])])
    with pytest.raises(ValueError, match=r"a\.json, article 1 \(t\), paragraph 1, question 1 \(a\?\): answer_start is"):
        squad.read(path)


# ---------------------------------------------------------------------------------------------------------------------
# Text


@pytest.mark.parametrize("line", ["[" * 100_000, '{"en": ' * 50_000, '{"en": "a", "de": "b", "n": ' + "9" * 5000 + "}"])
def test_json_lines_that_are_skipped(tmp_path, line):
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(['{"en": "a", "de": "x"}', line, '{"en": "c", "de": "z"}']))
    corpus = JsonLines((path,), languages=("en", "de"))
    with pytest.raises(ValueError, match=r"train\.jsonl:2: not JSON .*--skip-bad"):
        list(corpus.chunks(BadLines()))
    bad = BadLines(skip=True)
    ((pairs, _),) = corpus.chunks(bad)
    assert pairs.source == ["a", "c"] and bad.counts == {"unreadable": 1}


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0f73", "\u0344\u0316", "\u0301"])
def test_a_line_of_combining_marks(marks):
    """unicodedata.normalize alone takes minutes for all but the last."""
    text = "a" + marks * (200_000 // len(marks))
    began = time.process_time()
    found = lines.clean(text)
    assert time.process_time() - began < 20
    assert len(found) >= 199_998


MARKS = st.text(
    st.sampled_from("\u0301\u0316\u0327\u0344\u0f71\u0f72\u0f73\u0653\u05b0e한각\u1100\u1161\u11a8深é"), min_size=200
)


@settings(max_examples=50)
@given(st.lists(MARKS | st.text(), max_size=4), st.integers(1, 5))
def test_long_runs_are_composed_as_short_ones_are(parts, times):
    text = "".join(parts) * times
    assert lines.clean(text) == " ".join(unicodedata.normalize("NFC", text).split())


@pytest.mark.parametrize("skip", [False, True])
def test_a_line_without_end_is_not_passed_over(tmp_path, monkeypatch, skip):
    for module in (texts, lines):
        monkeypatch.setattr(module, "LONGEST", 1 << 10)
    monkeypatch.setattr(lines, "ENDLESS", 1 << 20)
    for name in ("train.en.gz", "train.de.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"a\n" + bytes(20 << 20)))
    corpus = Parallel((tmp_path / "train.en.gz", tmp_path / "train.de.gz"))
    with modest(), pytest.raises(ValueError, match=r"train\.en\.gz.* after line .*a line of more than 1,048,576 bytes"):
        list(corpus.chunks(BadLines(skip)))
    with modest(), pytest.raises(ValueError, match=r"train\.en\.gz"):
        list(corpus.sample(blocks=3, size=100))


# ---------------------------------------------------------------------------------------------------------------------
# Graphs

NODES = [{"id": n, "val": n == 1, "test": n == 2} for n in range(4)]
LINKS = [{"source": 0, "target": 1}, {"source": 1, "target": 2}]
ROWS = {str(n): n for n in range(4)}
LABELS = {str(n): [n % 2, 1] for n in range(4)}


def ppi(nodes=NODES, links=LINKS, rows=ROWS, labels=LABELS, features=None, **raw):
    about = {"G": {"nodes": nodes, "links": links}, "id_map": rows, "class_map": labels}
    files = {f"a-{name}.json": (raw.get(name) or json.dumps(value)).encode() for name, value in about.items()}
    return {**files, "a-feats.npy": npy(np.eye(4) if features is None else features)}


def write(folder, files):
    for path, data in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"G": "[" * 100_000}, r"a-G\.json: not JSON: brackets are nested too deeply"),
        ({"G": '{"nodes": [%s]}' % ("9" * 5000)}, r"a-G\.json: not JSON"),
        ({"nodes": [{"id": [1]}]}, r"a-G\.json: a node is called by a text or a whole number, not by a list"),
        ({"nodes": [{"id": 2**61 - 1}, {"id": 2**70}]}, r"a-G\.json: a node is called by"),
        ({"nodes": [{"id": 1.5}]}, r"a-G\.json: a node is called by .*not by 1\.5"),
        ({"nodes": [*NODES, {"id": 0}]}, r"a-G\.json: 5 nodes have 4 different ids"),
        ({"nodes": [1]}, r"a-G\.json: a node has id, val and test"),
        ({"links": [{"source": {}, "target": 0}]}, r"a-G\.json: a node is called by .*not by a dict"),
        ({"links": [{"source": 10**17, "target": 0}]}, r"a-G\.json: link 0 joins 100000000000000000 and 0"),
        ({"rows": {**ROWS, "2": 4}}, r"a-id_map\.json: node 2 has row 4 of features \(4, 4\)"),
        ({"rows": {**ROWS, "2": -1}}, r"a-id_map\.json: node 2 has row -1"),
        ({"rows": {**ROWS, "2": "2"}}, r"a-id_map\.json: node 2 has row '2'"),
        ({"rows": {**ROWS, "2": 10**40}}, r"a-id_map\.json: node 2 has row 1000"),
        ({"rows": {**ROWS, "2": 1}}, r"a-id_map\.json: two nodes have the same row"),
        ({"labels": {**LABELS, "2": 1}}, r"a-class_map\.json: the label of node 2 is 1, not 2 zeros and ones"),
        ({"labels": {**LABELS, "2": [1]}}, r"a-class_map\.json: the label of node 2 is a list, not 2 zeros"),
        ({"labels": {**LABELS, "2": [1, 0.5]}}, r"a-class_map\.json: the label of node 2 is a list, not 2 zeros"),
        ({"labels": {**LABELS, "2": [[], {}]}}, r"a-class_map\.json: the label of node 2 is a list, not 2 zeros"),
        ({"labels": {node: {} for node in ROWS}}, r"a-class_map\.json: the label of node 0 is a dict, not a text"),
        ({"labels": dict.fromkeys(ROWS, "²")}, r"a-class_map\.json: "),
        ({"labels": {node: [] for node in ROWS}}, r"a-class_map\.json: the label of node 0 is a list, not 0 zeros"),
        ({"features": np.full((4, 2), np.nan)}, r"a-G\.json: the features of node 0 are not all finite"),
        ({"features": np.full((4, 2), 1e300)}, r"a-G\.json: the features of node 0 are not all finite"),
        ({"features": np.zeros(4)}, r"a-feats\.npy: features are \(4,\)"),
    ],
)
def test_a_ppi_graph_that_cannot_be(tmp_path, changes, message):
    assert len(graph_files.read(write(tmp_path, ppi()))[0]) == 4
    with pytest.raises(ValueError, match=message):
        graph_files.read(write(tmp_path, ppi(**changes)))


def test_many_small_graphs_in_a_file(tmp_path):
    rows = {str(n): n for n in range(400)}
    links = [{"source": n % 100, "target": n} for n in range(400)]
    files = ppi([{"id": n} for n in range(400)], links, rows, dict.fromkeys(rows, "x"), np.arange(400.0)[:, None])
    graphs = graph_files.read(write(tmp_path, files))
    assert len(graphs) == 100 and graphs[7].names == ["7", "107", "207", "307"]
    assert all(graph.index.tolist() == [[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]] for graph in graphs)
    assert graphs[7].features.tolist() == [[7], [107], [207], [307]]


def test_a_long_path_is_one_part():
    order = np.random.default_rng(0).permutation(100_000)
    index = np.stack([order[:-1], order[1:]])
    began = time.process_time()
    assert not ppi_files._components(np.concatenate([index, index[::-1]], axis=1), 100_000).any()
    assert time.process_time() - began < 10


def test_parts_are_the_connected_ones():
    draw = np.random.default_rng(0)
    for _ in range(50):
        count = int(draw.integers(1, 40))
        index = draw.integers(0, count, (2, int(draw.integers(0, 40))))
        part = list(range(count))
        for a, b in index.T:
            low, high = sorted((part[a], part[b]))
            part = [low if one == high else one for one in part]
        both = np.concatenate([index, index[::-1]], axis=1)
        assert ppi_files._components(both, count).tolist() == part


CSV = {
    "edges": "source,target\na,b\n",
    "features": "node,x\na,1\nb,2\nc,3\nd,4\n",
    "labels": "node,label,split\na,r,train\nb,g,valid\nc,r,test\n",
}


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("edges", "source,target\na," + "b" * 2000, r"edges\.csv, line 2: a cell of more than 1,000 characters"),
        ("edges", "source,target\na," + "b" * 200_000, r"edges\.csv, after line \d: not CSV"),
        ("edges", "source,target\n\xff".encode("latin1"), r"edges\.csv, after line \d: not CSV in UTF-8"),
        ("features", "node,x\na,1e300\n", r"features\.csv, line 2, column x: '1e300' is not a finite number"),
        ("features", "node,x\na,-inf\n", r"features\.csv, line 2, column x: '-inf' is not a finite number"),
        ("features", "node,x\na," + "9" * 500 + "\n", r"features\.csv, line 2, column x: '999"),
        ("labels", "node,label\na,²\nb,1\n", r"labels\.csv: "),
        ("labels", "node,label\na,--1\nb,1\n", r"labels\.csv: "),
    ],
)
def test_a_csv_graph_that_cannot_be(tmp_path, file, text, message):
    for name, whole in CSV.items():
        (tmp_path / f"{name}.csv").write_text(whole)
    assert len(graph_files.read(tmp_path)[0]) == 4
    (tmp_path / f"{file}.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message):
        graph_files.read(tmp_path)


def test_many_classes_do_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_tables, "MOST_LABELS", 2_999)
    lines = [f"n{n},c{n}" for n in range(1000)]
    files = {"edges.csv": "source,target\nn0,n1\n", "labels.csv": "\n".join(["node,label", *lines])}
    write(tmp_path, {name: text.encode() for name, text in files.items()})
    assert len(graph_files.read(tmp_path)[0].classes) == 1000  # one each, which takes little
    (tmp_path / "labels.csv").write_text(files["labels.csv"] + ";c0")
    with pytest.raises(ValueError, match=r"labels\.csv: 1,000 classes for 1,000 nodes"):
        graph_files.read(tmp_path)


# ---------------------------------------------------------------------------------------------------------------------
# Damage anywhere


def idx(array):
    return struct.pack(f">{1 + array.ndim}I", 2048 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def savez(save):
    file = io.BytesIO()
    save(file, **arrays())
    return file.getvalue()


def saved(image, kind):
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def good():
    """File name → whole file, and who reads the folder."""
    text = json.dumps(squad.make(1, random.Random(0))).encode()
    sides = {name: "eins\nzwei drei\ncafé\n".encode() for name in ("train.en", "train.de")}
    images = {f"{part}-images-idx3-ubyte": idx(np.ones((2, 3, 3))) for part in ("train", "t10k")}
    images |= {f"{part}-labels-idx1-ubyte": idx(np.ones(2)) for part in ("train", "t10k")}
    lines = b'{"en": "a", "de": "x"}\n' * 3
    pixels = Image.fromarray(np.arange(63, dtype=np.uint8).reshape(7, 9) * 4)
    folder = {kind: {f"cat/{n}.png": saved(pixels, kind) for n in range(4)} for kind in ("PNG", "JPEG", "GIF", "TIFF")}

    def corpus(folder):
        return list(corpora.find(folder, "en", "de")["train"].chunks(BadLines(skip=True)))

    return {
        "csv": ({f"{name}.csv": whole.encode() for name, whole in CSV.items()}, graph_files.read),
        "idx": (images, read_idx_folder),
        "idx.gz": ({f"{name}.gz": gzip.compress(data) for name, data in images.items()}, read_idx_folder),
        "npz": ({"a.npz": savez(np.savez)}, read_npz),
        "npz compressed": ({"a.npz": savez(np.savez_compressed)}, read_npz),
        "squad": ({"a.json": text}, lambda folder: squad.read(folder / "a.json")),
        "squad.gz": ({"a.json.gz": gzip.compress(text)}, lambda folder: squad.read(folder / "a.json.gz")),
        "parallel": (sides, corpus),
        "parallel.gz": ({f"{name}.gz": gzip.compress(data) for name, data in sides.items()}, corpus),
        "json lines": ({"train.jsonl": lines}, corpus),
        "ppi": (ppi(), graph_files.read),
        **{kind: (files, lambda folder: read_image_folder(folder, 4, 1, 0)) for kind, files in folder.items()},
    }


GOOD = good()
ODD = st.sampled_from(
    [b"[" * 5000, b"9" * 5000, b"9" * 12, b"\xff\xff\xff\xff", b"\0\0\0\0", b"null", b"NaN", b'"', b","]
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {name: write(tmp_path_factory.mktemp("damaged"), files) for name, (files, _) in GOOD.items()}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@settings(max_examples=25)
@given(data=st.data())
def test_damage_is_named(folders, name, data):
    folder, (files, read) = folders[name], GOOD[name]
    chosen = data.draw(st.sampled_from(sorted(files)))
    damaged = bytearray(files[chosen])
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(damaged)))
        damaged[start : start + data.draw(st.integers(0, 8))] = data.draw(ODD | st.binary(max_size=6))
    outcome = read_or_complaint(read, write(folder, {**files, chosen: bytes(damaged)}))
    assert not isinstance(outcome, str) or str(folder) in outcome


def read_or_complaint(read, folder):
    try:
        return read(folder)
    except ValueError as error:
        return str(error)
