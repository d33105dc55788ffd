"""Views in a real browser. What needs one is skipped, with the reason, where there is no Chromium or no playwright."""

import http.server
import threading
from functools import partial

import pytest

from browser import chromium
from regard.views import page


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def show(browser, tmp_path):
    """Opens views as a page; afterwards no request must have left the file, and nothing must have gone wrong."""
    contexts, requests, troubles = [], [], []

    def show(*views, title="Coffee", link="", size=(1280, 900), dark=False, trouble=False, **options):
        path = tmp_path / f"{len(contexts)}.html"
        page.write(path, views, title, **options)
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        opened = context.new_page()
        opened.set_default_timeout(30_000)
        if not trouble:
            opened.on("request", lambda request: requests.append(request.url))
            opened.on("pageerror", lambda error: troubles.append(str(error)))
            opened.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        opened.goto(path.as_uri() + link)
        opened.wait_for_selector("#regard[data-ready], .wrong")
        return opened

    yield show
    for context in contexts:
        context.close()
    assert not troubles
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests), requests


@pytest.fixture
def server():
    """Sends the viewer's files on this machine: its address, and what it was asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(page.VIEWER))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.fixture
def grave():
    """What axe finds serious or critical in an opened page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

    def grave(opened):
        found = axe.Axe().run(opened).response["violations"]
        return [(v["id"], v["nodes"][0]["html"][:120]) for v in found if v["impact"] in ("serious", "critical")]

    return grave
