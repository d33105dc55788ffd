"""``regard serve`` and ``regard explore``: trained systems over HTTP."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from regard.commands._app import Trust, app, examples

Host = Annotated[str, typer.Option("--host", help="The address to listen at; by default only this machine can ask.")]
Port = Annotated[int, typer.Option("--port", help="0 for any that is free.", min=0, max=65535)]
NoToken = Annotated[bool, typer.Option("--no-token", help="Let everyone ask who can reach the address.")]


@app.command(
    "serve",
    epilog=examples(
        "serve translate-en-es",
        "serve runs/translate ram-mnist --port 9000",
        "serve runs/translate --host 0.0.0.0  with REGARD_TOKEN in the environment",
    ),
)
def serve_command(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Folders of runs, or shipped models.")],
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Annotated[
        str | None, typer.Option("--token", envvar="REGARD_TOKEN", help="What clients must send as a bearer token.")
    ] = None,
    no_token: NoToken = False,
    batch: Annotated[int, typer.Option("--batch", help="Questions answered together.", min=1)] = 32,
    queue: Annotated[int, typer.Option("--queue", help="Questions that may wait for a model.", min=1)] = 128,
    seconds: Annotated[float, typer.Option("--timeout", help="Seconds until a question is given up.")] = 30.0,
    trust: Trust = False,
) -> None:
    """Answer questions over HTTP, as JSON. /openapi.json describes it, docs/serving.md tells more."""
    from regard.serve import app, server
    from regard.serve.limits import Limits

    hosts = _hosts(host, token, no_token, "add --token, or --no-token to let everyone ask")
    limits = Limits(batch=batch, queue=queue, seconds=seconds)
    application = app.create([app.open_card(run, trust=trust) for run in runs], limits=limits, token=token, hosts=hosts)
    server.run(
        application, host=host, port=port, limits=limits, ready=lambda url: print(f"serving at {url}", flush=True)
    )


@app.command("explore")
def explore_command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", help="Folders of runs, or shipped models; by default all there are."),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    no_token: NoToken = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    lecture: Annotated[
        bool, typer.Option("--lecture", help="Open the pages in the order of the lectures, in large type.")
    ] = False,
    trust: Trust = False,
) -> None:
    """Ask every model in a browser, and see where it looked."""
    from regard.serve import app, server

    hosts = _hosts(host, None, no_token, "add --no-token to let everyone ask; regard serve has tokens")
    cards, others = ([app.open_card(run, trust=trust) for run in runs], {}) if runs else app.at_hand(trust=trust)
    for name, why in others.items():
        print(f"left out {name}: {why}", file=sys.stderr)

    def ready(url: str) -> None:
        url += "/?lecture#/playground" if lecture else ""
        print(f"open {url} in a browser; Ctrl-C ends", flush=True)
        if not no_browser:
            _browse(url)

    server.run(app.create(cards, hosts=hosts, explorer=True), host=host, port=port, ready=ready)


def _hosts(host: str, token: str | None, no_token: bool, allow: str) -> set[str] | None:
    """The names that a server there answers to; None for any. Other machines are served only with a token or
    ``--no-token``."""
    from regard.serve.server import LOOPBACK, local

    if not local(host) and token is None and not no_token:
        raise ValueError(f"{host} can be reached from other machines: {allow}")
    return {*LOOPBACK, host.lower()} if local(host) and token is None else None


def _browse(url: str) -> None:
    """In a window, where there can be one: not in the terminal that the server was started from."""
    import threading
    import webbrowser

    if sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
