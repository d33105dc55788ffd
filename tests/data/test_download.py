"""Finding and fetching data, against a server of our own."""

import hashlib
import http.server
import threading
import time
from dataclasses import replace
from functools import partial

import pytest

from regard.data import download as _download
from regard.data.download import DataSet, get, locate

FILES = {"train.en": b"a\n" * 1000, "train.de": b"x\n" * 1000}


class Server(http.server.ThreadingHTTPServer):
    asked: list


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    root = tmp_path / "www"
    (root / "toy").mkdir(parents=True)
    for name, data in FILES.items():
        (root / "toy" / name).write_bytes(data)
    server = Server(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    server.asked, server.root = [], root
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.delenv("REGARD_MIRROR", raising=False)


def offer(monkeypatch, *homes):
    files = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    monkeypatch.setitem(_download.SETS, "toy", DataSet("a toy", "CC0", "https://example.org", homes, files))


GONE = "http://127.0.0.1:9/"  # nobody listens on the discard port


def test_download_check_and_keep(server, tmp_path, monkeypatch):
    offer(monkeypatch, f"{server.url}/toy/")
    folder = get("toy")
    assert folder == tmp_path / "cache" / "toy"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert locate("toy") == folder
    asked = len(server.asked)
    get("toy")
    assert len(server.asked) == asked == 2


def test_a_damaged_file_is_fetched_again(server, monkeypatch):
    offer(monkeypatch, f"{server.url}/toy/")
    path = get("toy") / "train.en"
    path.write_bytes(b"half")
    get("toy")
    assert path.read_bytes() == FILES["train.en"]


def test_progress_is_shown_when_asked(server, monkeypatch, capsys):
    offer(monkeypatch, f"{server.url}/toy/")
    get("toy", progress=True)
    assert "100%" in capsys.readouterr().err


def test_the_next_home_is_tried(server, monkeypatch):
    (server.root / "wrong").mkdir()
    (server.root / "wrong" / "train.en").write_bytes(b"an error page")
    offer(monkeypatch, GONE, f"{server.url}/missing/", f"{server.url}/wrong/", f"{server.url}/toy/")
    assert (get("toy") / "train.en").read_bytes() == FILES["train.en"]


def test_a_mirror_is_asked_first(server, monkeypatch):
    offer(monkeypatch, GONE)
    monkeypatch.setenv("REGARD_MIRROR", server.url)
    get("toy")
    assert server.asked == ["/toy/train.en", "/toy/train.de"]


def test_offline_says_what_to_do(server, tmp_path, monkeypatch):
    (server.root / "wrong").mkdir()
    (server.root / "wrong" / "train.en").write_bytes(b"an error page")
    offer(monkeypatch, GONE, f"{server.url}/missing/", f"{server.url}/wrong/")
    with pytest.raises(OSError, match=r"could not download train\.en") as error:
        get("toy")
    message = str(error.value)
    assert "no connection" in message and "404" in message and "wrong SHA-256" in message
    assert str(tmp_path / "cache" / "toy") in message and "REGARD_DATA" in message
    assert not list((tmp_path / "cache").rglob("train.*")), "nothing half-done stays behind"


def test_where_data_is_looked_for(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here / "toy", there / "toy", tmp_path / "cache" / "toy"):
        folder.mkdir(parents=True)
    assert locate("toy") == tmp_path / "cache" / "toy"
    monkeypatch.setenv("REGARD_DATA", str(there))
    assert locate("toy") == there / "toy"
    monkeypatch.chdir(here)
    assert locate("toy").resolve() == (here / "toy").resolve()
    assert locate(there / "toy") == there / "toy"


def test_what_is_nowhere(monkeypatch, tmp_path):
    with pytest.raises(
        ValueError, match=r"no data at multi30k or .*multi30k. To download it: regard data get multi30k"
    ):
        locate("multi30k")
    with pytest.raises(ValueError, match=r"no known data set is called 'multi30'.*'multi30k'"):
        locate("multi30")
    with pytest.raises(ValueError, match=r"manythings.org/anki/ and put its spa.txt into .*cache.tatoeba"):
        locate("tatoeba")
    with pytest.raises(ValueError, match="cannot be fetched for you"):
        get("tatoeba")
    with pytest.raises(ValueError, match=r"'multi'.*'multi30k'"):
        get("multi")
    with pytest.raises(ValueError, match="If it has moved"):
        locate(tmp_path / "gone")


def test_known_sets_are_described():
    for known in _download.SETS.values():
        assert known.about and known.licence and known.page.startswith("https://")
        assert bool(known.files) == bool(known.homes) != bool(known.by_hand)
        for sha256 in (known.files or {}).values():
            assert len(bytes.fromhex(sha256)) == 32


class Unending(http.server.BaseHTTPRequestHandler):
    """Sends without end, or says that it will, or byte by byte, or nothing."""

    def do_GET(self):
        kind = self.path.split("/")[1]
        self.send_response(200)
        if kind in ("declared", "slow", "silent"):
            self.send_header("Content-Length", str({"declared": 10**15}.get(kind, 2000)))
        self.end_headers()
        part, pause = {"slow": (b"a", 0.02), "silent": (b"", 1.0)}.get(kind, (bytes(1 << 16), 0))
        try:
            for _ in range(2000):
                self.wfile.write(part)
                time.sleep(pause)
                if kind == "silent":
                    break
        except OSError:  # the client has left
            pass

    def log_message(self, *args):
        pass


@pytest.fixture
def unending():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Unending) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("endless", "it sends more than the 5,000 bytes"),
        ("declared", "it sends more than the 5,000 bytes"),
        ("slow", r"too slow: \d+ bytes in 0 seconds"),
        ("silent", r"no connection \(ReadTimeoutError\)"),
    ],
)
def test_a_server_without_end_is_left(unending, server, tmp_path, monkeypatch, kind, message):
    monkeypatch.setattr(_download, "SILENCE", 0.4)
    monkeypatch.setattr(_download, "PATIENCE", 0.4)
    offer(monkeypatch, f"{unending}/{kind}/")
    monkeypatch.setitem(_download.SETS, "toy", replace(_download.SETS["toy"], most=5000))
    began = time.monotonic()
    with pytest.raises(OSError, match=rf"could not download train\.en.*{kind}/train\.en: {message}"):
        get("toy")
    assert time.monotonic() - began < 10
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()], "nothing half-done stays behind"
    offer(monkeypatch, f"{unending}/{kind}/", f"{server.url}/toy/")
    monkeypatch.setitem(_download.SETS, "toy", replace(_download.SETS["toy"], most=5000))
    assert (get("toy") / "train.de").read_bytes() == FILES["train.de"]  # from the next home


def test_every_set_says_how_large_a_file_may_be():
    for known in _download.SETS.values():
        assert known.most <= 64 << 20 and (known.files is None or known.most <= 1 << 20)
